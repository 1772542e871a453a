//! A run that is ended from outside, by Ctrl-C or `kill`, leaves no half file behind.

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
};
use tempfile::NamedTempFile;

/// The file that is being written, if any. A signal finds it here.
static UNFINISHED: Mutex<Option<PathBuf>> = Mutex::new(None);

fn unfinished() -> MutexGuard<'static, Option<PathBuf>> {
    UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Makes a file that does not outlive a signal until it has its name.
pub(crate) fn begin(make: impl FnOnce() -> io::Result<NamedTempFile>) -> io::Result<NamedTempFile> {
    let mut unfinished = unfinished();
    let file = make()?;
    *unfinished = Some(file.path().to_owned());
    Ok(file)
}

/// Gives a file its name. A signal comes before, or after.
pub(crate) fn finish(file: NamedTempFile, name: &Path) -> io::Result<()> {
    let mut unfinished = unfinished();
    file.persist(name)?;
    *unfinished = None;
    Ok(())
}

/// From here on the signals that end a run remove what is not finished first. The run still ends by
/// the signal, as whoever sent it expects.
#[cfg(unix)]
pub(crate) fn watch() -> io::Result<()> {
    use signal_hook::{
        consts::{SIGINT, SIGTERM},
        iterator::Signals,
        low_level::emulate_default_handler,
    };
    let mut signals = Signals::new([SIGINT, SIGTERM])?;
    let watch = move || {
        for signal in signals.forever() {
            // Held to the end: no file begins any more, and none gets its name now.
            let unfinished = unfinished();
            if let Some(path) = &*unfinished {
                // When it cannot be removed nobody is left to be told.
                let _ = fs::remove_file(path);
            }
            let _ = emulate_default_handler(signal);
        }
    };
    std::thread::Builder::new()
        .name("signals".to_owned())
        .spawn(watch)?;
    Ok(())
}

/// Elsewhere the system ends the run at once.
#[cfg(not(unix))]
pub(crate) fn watch() -> io::Result<()> {
    Ok(())
}
