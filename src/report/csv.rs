//! Tables as CSV (RFC 4180), with what a spreadsheet would run as a formula made harmless.

use super::{Style, table::Table};
use crate::model::analysis::Analysis;
use std::io::{self, Write};

/// Writes table `T`: a header row, then a row each.
///
/// # Errors
///
/// Those of the writer.
pub(super) fn write<T: Table>(
    analysis: &Analysis,
    style: &Style,
    out: &mut dyn Write,
) -> io::Result<()> {
    let mut writer = ::csv::WriterBuilder::new()
        .terminator(::csv::Terminator::Any(b'\n'))
        .buffer_capacity(64 << 10)
        .from_writer(out);
    writer
        .write_record(T::COLUMNS.iter().map(|column| column.name))
        .map_err(io_error)?;
    let (mut cell, mut scratch) = (String::new(), String::new());
    for row in T::rows(analysis) {
        for column in T::COLUMNS {
            let value = (column.value)(analysis, row);
            cell.clear();
            value.write_cell(style, &mut scratch, &mut cell);
            if value.is_foreign() && runs_as_formula(&cell) {
                cell.insert(0, '\'');
            }
            writer.write_field(&cell).map_err(io_error)?;
        }
        writer.write_record(None::<&[u8]>).map_err(io_error)?;
    }
    writer.flush()
}

/// The writer's own error: `From` would wrap it as `Other`, and a closed pipe could no longer be
/// told from a full disk.
fn io_error(error: ::csv::Error) -> io::Error {
    match error.into_kind() {
        ::csv::ErrorKind::Io(error) => error,
        kind => io::Error::other(format!("{kind:?}")),
    }
}

/// A cell without the `'` that keeps a spreadsheet from running it. Control characters are still
/// escaped ([`super::escape::unescape`]).
#[must_use]
pub fn unguarded(cell: &str) -> &str {
    match cell.strip_prefix('\'') {
        Some(rest) if runs_as_formula(rest) => rest,
        _ => cell,
    }
}

/// Whether a spreadsheet would run `cell` as a formula. A number is none, however it is signed. A
/// cell that was given a `'` by someone else counts as well, so that taking one `'` away always
/// gives back what was there.
fn runs_as_formula(cell: &str) -> bool {
    let bare = cell.trim_start_matches('\'');
    (bare.starts_with(['=', '+', '-', '@']) || bare.starts_with("\\t")) && !is_number(bare)
}

/// Whether `text` is a decimal number: digits, a sign before, a fraction and an exponent after.
fn is_number(text: &str) -> bool {
    let text = text.strip_prefix(['+', '-']).unwrap_or(text);
    let (text, exponent) = text
        .split_once(['e', 'E'])
        .map_or((text, None), |(mantissa, exponent)| {
            (mantissa, Some(exponent))
        });
    let (whole, fraction) = text
        .split_once('.')
        .map_or((text, None), |(whole, fraction)| (whole, Some(fraction)));
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    digits(whole)
        && fraction.is_none_or(digits)
        && exponent
            .is_none_or(|exponent| digits(exponent.strip_prefix(['+', '-']).unwrap_or(exponent)))
}

#[cfg(test)]
mod tests {
    use super::{
        super::{
            escape::unescape,
            sample,
            table::{Inputs, Resumes},
        },
        *,
    };
    use proptest::prelude::*;

    fn rows(bytes: &[u8]) -> Vec<::csv::StringRecord> {
        ::csv::ReaderBuilder::new()
            .has_headers(false)
            .from_reader(bytes)
            .records()
            .collect::<Result<_, _>>()
            .unwrap()
    }

    fn resume_cells(last_event_id: &str) -> ::csv::StringRecord {
        let mut analysis = sample::fork();
        analysis.resumes[0].last_event_id = last_event_id.to_owned();
        let mut bytes = Vec::new();
        write::<Resumes>(&analysis, &Style::default(), &mut bytes).unwrap();
        rows(&bytes).remove(1)
    }

    fn cell(last_event_id: &str) -> String {
        let index = Resumes::COLUMNS
            .iter()
            .position(|column| column.name == "last_event_id")
            .unwrap();
        resume_cells(last_event_id)[index].to_owned()
    }

    #[test]
    fn guards_formulas_and_leaves_numbers() {
        assert_eq!(cell("=HYPERLINK(1)"), "'=HYPERLINK(1)");
        assert_eq!(cell("+1+cmd|' /C calc'!A0"), "'+1+cmd|' /C calc'!A0");
        assert_eq!(cell("-stream"), "'-stream");
        assert_eq!(cell("@SUM(A1)"), "'@SUM(A1)");
        assert_eq!(cell("\tx"), "'\\tx");
        assert_eq!(cell("-5"), "-5");
        assert_eq!(cell("+5.25e-3"), "+5.25e-3");
        assert_eq!(cell("-5-5"), "'-5-5");
        assert_eq!(cell("'=1"), "''=1");
        assert_eq!(cell("'"), "'");
    }

    #[test]
    fn writes_standard_input_as_it_is_called() {
        let mut analysis = sample::fork();
        analysis.inputs[0].name = "-".to_owned();
        let mut bytes = Vec::new();
        write::<Inputs>(&analysis, &Style::default(), &mut bytes).unwrap();
        assert_eq!(&rows(&bytes)[1][0], "-");
        assert_eq!(cell("-"), "'-");
    }

    #[test]
    fn ends_lines_with_newline_and_quotes_what_needs_it() {
        let mut analysis = sample::fork();
        analysis.resumes[0].last_event_id = "a,\"b\"".to_owned();
        let mut bytes = Vec::new();
        write::<Resumes>(&analysis, &Style::default(), &mut bytes).unwrap();
        let text = String::from_utf8(bytes).unwrap();
        assert!(text.contains(",\"a,\"\"b\"\"\","), "{text}");
        assert!(!text.contains('\r'));
        assert!(text.ends_with('\n'));
    }

    #[test]
    fn hands_on_the_error_of_the_writer() {
        struct Closed;
        impl Write for Closed {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                Err(io::ErrorKind::BrokenPipe.into())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let mut analysis = sample::fork();
        // More than the buffer: the error comes from a row, not from the end.
        analysis.resumes[0].last_event_id = "x".repeat(200 << 10);
        let error = write::<Resumes>(&analysis, &Style::default(), &mut Closed).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
    }

    #[test]
    fn writes_a_header_without_rows() {
        let mut bytes = Vec::new();
        write::<Resumes>(&Analysis::default(), &Style::default(), &mut bytes).unwrap();
        assert!(bytes.starts_with(b"session_id,incarnation,"));
        assert_eq!(bytes.iter().filter(|&&b| b == b'\n').count(), 1);
    }

    proptest! {
        #[test]
        fn any_id_comes_back_from_its_cell(id in any::<String>()) {
            let cell = cell(&id);
            prop_assert!(!cell.contains(super::super::escape::is_hidden));
            prop_assert_eq!(unescape(unguarded(&cell)), Some(id));
        }

        #[test]
        fn any_formula_comes_back_from_its_cell(id in "'{0,2}[-=+@\t]{1,2}[0-9.e\\\\t]{0,3}") {
            prop_assert_eq!(unescape(unguarded(&cell(&id))), Some(id));
        }
    }
}
