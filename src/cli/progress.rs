//! Progress on a terminal: bytes, rate, time left.

use forkscope::pipeline::Progress;
use indicatif::{ProgressBar, ProgressStyle};
use std::{
    io::{self, IsTerminal},
    sync::atomic::Ordering,
    thread,
    time::Duration,
};

/// Runs `work` with a bar beside it while standard error is a terminal, unless `quiet`.
pub(crate) fn beside<T>(progress: &Progress, quiet: bool, work: impl FnOnce() -> T) -> T {
    if quiet || !io::stderr().is_terminal() {
        return work();
    }
    thread::scope(|scope| {
        let shown = scope.spawn(|| show(progress));
        let result = work();
        progress.finished.store(true, Ordering::Release);
        shown.thread().unpark();
        result
    })
}

fn show(progress: &Progress) {
    let bar = ProgressBar::no_length();
    bar.set_style(ProgressStyle::default_spinner());
    let mut known = false;
    // Whoever reads ends first: `finished` is set when there is no more to read, and once more
    // when the work is done.
    while !progress.finished.load(Ordering::Acquire) {
        let total = progress.total.load(Ordering::Relaxed);
        if total > 0 && !known {
            known = true;
            bar.set_length(total);
        }
        let template = if known {
            "{bar:24} {bytes}/{total_bytes} {bytes_per_sec}, {eta} left"
        } else {
            "{spinner} {bytes} {bytes_per_sec}"
        };
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        bar.set_position(progress.done.load(Ordering::Relaxed));
        bar.tick();
        thread::park_timeout(Duration::from_millis(100));
    }
    bar.finish_and_clear();
}
