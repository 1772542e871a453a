//! A run that is ended from outside, by Ctrl-C or `kill`, leaves no half file behind.

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, Once, PoisonError},
};
use tempfile::{NamedTempFile, TempPath};

/// The files that have no name yet. A signal finds them here.
static UNFINISHED: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

fn unfinished() -> MutexGuard<'static, Vec<PathBuf>> {
    UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Makes a file that does not outlive a signal until it has its name.
pub(crate) fn begin(make: impl FnOnce() -> io::Result<NamedTempFile>) -> io::Result<NamedTempFile> {
    let mut unfinished = unfinished();
    let file = make()?;
    unfinished.push(file.path().to_owned());
    Ok(file)
}

/// Gives a file its name. A signal comes before, or after.
pub(crate) fn finish(file: TempPath, name: &Path) -> io::Result<()> {
    let mut unfinished = unfinished();
    let before = file.to_path_buf();
    file.persist(name)?;
    unfinished.retain(|path| *path != before);
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
    static WATCHES: Once = Once::new();
    let mut first = false;
    WATCHES.call_once(|| first = true);
    if !first {
        return Ok(());
    }
    let mut signals = Signals::new([SIGINT, SIGTERM])?;
    let watch = move || {
        for signal in signals.forever() {
            // Held to the end: no file begins any more, and none gets its name now.
            let unfinished = unfinished();
            for path in &*unfinished {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_without_a_name_is_known() {
        let folder = tempfile::tempdir().unwrap();
        let make = || {
            begin(|| NamedTempFile::new_in(&folder))
                .unwrap()
                .into_temp_path()
        };
        let (first, second) = (make(), make());
        let known = |path: &Path| unfinished().iter().any(|known| known == path);
        let (before, other) = (first.to_path_buf(), second.to_path_buf());
        assert!(known(&before) && known(&other));
        finish(first, &folder.path().join("named")).unwrap();
        assert!(!known(&before) && known(&other));
    }
}
