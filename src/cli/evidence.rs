//! A folder of evidence: the files beside their places until all are written, then renamed.

use super::{complain, folder, interrupt, progress};
use anyhow::Context;
use forkscope::{
    model::analysis::Analysis,
    pipeline::{self, Options, Progress, Shelf},
    report::{self, Style, escape::escape_name_to, evidence::is_evidence_name},
};
use std::{
    fs, io,
    io::{BufWriter, Write},
    path::{Path, PathBuf},
};

/// Writes what proves the findings into `dir`, which is made if absent.
pub(crate) fn write(
    dir: &Path,
    analysis: &mut Analysis,
    options: &Options,
    style: &Style,
    quiet: bool,
) -> anyhow::Result<()> {
    folder::make(dir, "evidence")?;
    keep_apart(dir, analysis)?;
    interrupt::watch().with_context(|| format!("{}: cannot write evidence", dir.display()))?;
    let shown = dir.display();
    let mut unnamed = Unnamed {
        folder: dir,
        files: Vec::new(),
    };
    let progress = Progress::default();
    let written = progress::beside(&progress, quiet, || {
        pipeline::evidence(analysis, options, &progress, &mut unnamed)
    })
    .with_context(|| format!("{shown}: no evidence was written"))?;
    for (name, file) in unnamed.files {
        let path = dir.join(&name);
        interrupt::finish(file, &path)
            .with_context(|| format!("{}: cannot write", path.display()))?;
    }
    // The last: what it names is there.
    folder::write_file(dir, &report::EVIDENCE, analysis, style).with_context(|| {
        format!(
            "{}: cannot write",
            dir.join(report::EVIDENCE.file).display()
        )
    })?;
    if written.beyond > 0 {
        complain(&format!(
            "{shown}: evidence of the {} worst findings; {} more are in index.csv without a file",
            options.limits.evidence_files, written.beyond
        ));
    }
    let old = left_over(dir, &written.files);
    if old > 0 {
        let (noun, verb) = if old == 1 {
            ("file", "is")
        } else {
            ("files", "are")
        };
        complain(&format!(
            "{shown}: {old} {noun} of an earlier run, which {verb} not in index.csv, left as before"
        ));
    }
    if written.unread.is_empty() {
        return Ok(());
    }
    let mut why = Vec::new();
    for (name, error) in written.unread {
        let mut line = String::new();
        escape_name_to(&name, &mut line);
        line.push_str(": ");
        escape_name_to(&error, &mut line);
        why.push(line);
    }
    anyhow::bail!("{shown}: evidence is missing: {}", why.join("; "))
}

/// Refuses a folder that inputs of the run are in: they would be written over, or be read next time together with what
/// was copied from them.
fn keep_apart(folder: &Path, analysis: &Analysis) -> anyhow::Result<()> {
    let Ok(folder) = fs::canonicalize(folder) else {
        return Ok(());
    };
    for input in &analysis.inputs {
        let path = input.path.as_deref().map(fs::canonicalize);
        if path.is_some_and(|path| path.is_ok_and(|path| path.starts_with(&folder))) {
            // The name that the reports have for it: it may be hidden there.
            let mut name = String::new();
            escape_name_to(&input.name, &mut name);
            anyhow::bail!(
                "{}: no evidence was written, for it holds an input of this run, {name}",
                folder.display()
            );
        }
    }
    Ok(())
}

/// How many files look like evidence and were not written now.
fn left_over(folder: &Path, written: &[String]) -> usize {
    let Ok(entries) = fs::read_dir(folder) else {
        return 0;
    };
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    names
        .filter(|name| is_evidence_name(name) && !written.contains(name))
        .count()
}

/// Files that have no names yet: dropped, they are gone.
struct Unnamed<'f> {
    folder: &'f Path,
    files: Vec<(PathBuf, tempfile::TempPath)>,
}

impl Shelf for Unnamed<'_> {
    fn create(&mut self, name: &str) -> io::Result<Box<dyn Write>> {
        let (file, path) = folder::unnamed(self.folder)?.into_parts();
        self.files.push((name.into(), path));
        Ok(Box::new(BufWriter::with_capacity(16 << 10, file)))
    }
}
