//! A folder of reports: each written beside its place and renamed, whole or not at all.

use super::{complain, interrupt};
use anyhow::Context;
use forkscope::{
    model::analysis::Analysis,
    report::{self, Report, Style},
};
use std::{
    fs, io,
    io::{BufWriter, Write},
    path::Path,
};

/// Writes `reports` into `folder`, which is made if absent.
pub(crate) fn write<'r>(
    folder: &Path,
    reports: impl Iterator<Item = &'r Report>,
    analysis: &Analysis,
    style: &Style,
) -> anyhow::Result<()> {
    make(folder, "reports")?;
    interrupt::watch().with_context(|| format!("{}: cannot write reports", folder.display()))?;
    let mut written = Vec::new();
    for report in reports {
        write_file(folder, report, analysis, style)
            .with_context(|| format!("{}: cannot write", folder.join(report.file).display()))?;
        written.push(report.file);
    }
    // A file of an earlier run may be somebody's evidence: it stays, and is not passed over in silence.
    for report in report::FOLDER.iter().chain([&report::EVENTS]) {
        let path = folder.join(report.file);
        if !written.contains(&report.file) && path.exists() {
            complain(&format!(
                "{}: of an earlier run, left as it was",
                path.display()
            ));
        }
    }
    Ok(())
}

/// Makes a folder for `what`, if it is not there.
pub(super) fn make(folder: &Path, what: &str) -> anyhow::Result<()> {
    let naming = || format!("{}: cannot write {what}", folder.display());
    if folder.exists() && !folder.is_dir() {
        // The system would say that it exists.
        let error = anyhow::Error::from(io::Error::from(io::ErrorKind::NotADirectory));
        return Err(error).with_context(naming);
    }
    fs::create_dir_all(folder).with_context(naming)
}

/// A file in `folder` that has no name yet.
pub(super) fn unnamed(folder: &Path) -> io::Result<tempfile::NamedTempFile> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(".forkscope-");
    // As any new file: the mask of the process decides. A temporary file would be its owner's.
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    interrupt::begin(|| builder.tempfile_in(folder))
}

pub(super) fn write_file(
    folder: &Path,
    report: &Report,
    analysis: &Analysis,
    style: &Style,
) -> io::Result<()> {
    let mut out = BufWriter::with_capacity(64 << 10, unnamed(folder)?);
    (report.write)(analysis, style, &mut out)?;
    out.flush()?;
    let file = out.into_inner().map_err(io::IntoInnerError::into_error)?;
    interrupt::finish(file.into_temp_path(), &folder.join(report.file))
}
