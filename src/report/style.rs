//! How values are shown: the part of a report that is a matter of taste.

use crate::model::{
    time::{Span, Timestamp},
    verdict::Severity,
};
use std::fmt::Write;

/// How a report is to look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Style {
    /// How instants are written.
    pub time: TimeFormat,
    /// Whether the summary may use colours.
    pub color: bool,
    /// Columns of the terminal that the summary is broken for.
    pub width: usize,
    /// Lines that the summary keeps to where it does not tell everything: a screen of them.
    pub height: usize,
    /// Whether the summary tells everything.
    pub verbose: bool,
    /// From which severity on a finding fails a test case; `None` where nothing does.
    pub fail_from: Option<Severity>,
}

impl Default for Style {
    fn default() -> Self {
        Self {
            time: TimeFormat::Utc,
            color: false,
            width: 80,
            height: 50,
            verbose: false,
            fail_from: Some(Severity::Fork),
        }
    }
}

/// How instants are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TimeFormat {
    /// RFC 3339 in UTC: `2026-11-29T22:41:20.123456Z`.
    #[default]
    Utc,
    /// Seconds since the Unix epoch: `1796337680.123456`.
    Epoch,
}

impl TimeFormat {
    /// Appends `time` to `out`: six decimals, nine when there is something below a microsecond.
    pub fn write(self, time: Timestamp, out: &mut String) {
        let nanos = time.nanos();
        let decimals: u8 = if nanos % 1_000 == 0 { 6 } else { 9 };
        if self == Self::Utc
            && let Ok(instant) = jiff::Timestamp::from_nanosecond(i128::from(nanos))
        {
            let printer = jiff::fmt::temporal::DateTimePrinter::new().precision(Some(decimals));
            // Writing to a string cannot fail.
            let _ = printer.print_timestamp(&instant, &mut *out);
            return;
        }
        let sign = if nanos < 0 { "-" } else { "" };
        let magnitude = nanos.unsigned_abs();
        let (seconds, below) = (magnitude / 1_000_000_000, magnitude % 1_000_000_000);
        let _ = if decimals == 6 {
            write!(out, "{sign}{seconds}.{:06}", below / 1_000)
        } else {
            write!(out, "{sign}{seconds}.{below:09}")
        };
    }

    /// `time` as text.
    #[must_use]
    pub fn text(self, time: Timestamp) -> String {
        let mut out = String::with_capacity(30);
        self.write(time, &mut out);
        out
    }
}

/// Appends `span` in milliseconds with three decimals, rounded half away from zero.
pub(super) fn write_millis(span: Span, out: &mut String) {
    let micros = span.nanos().unsigned_abs().saturating_add(500) / 1_000;
    let sign = if span.nanos() < 0 && micros > 0 {
        "-"
    } else {
        ""
    };
    let _ = write!(out, "{sign}{}.{:03}", micros / 1_000, micros % 1_000);
}

/// `span` for people: `512 ms`, `31.204 s`, `2 min 5 s`, `3 h 20 min`, with spaces that do not
/// break.
pub(super) fn human(span: Span) -> String {
    let sign = if span.nanos() < 0 { "-" } else { "" };
    let micros = span.nanos().unsigned_abs().saturating_add(500) / 1_000;
    let (millis, seconds) = (micros / 1_000, micros / 1_000_000);
    let text = match micros {
        0..10_000 => format!("{sign}{millis}.{:03} ms", micros % 1_000),
        10_000..1_000_000 => format!("{sign}{millis} ms"),
        1_000_000..120_000_000 => format!("{sign}{seconds}.{:03} s", millis % 1_000),
        120_000_000..7_200_000_000 => format!("{sign}{} min {} s", seconds / 60, seconds % 60),
        _ => format!("{sign}{} h {} min", seconds / 3_600, seconds / 60 % 60),
    };
    text.replace(' ', "\u{a0}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_six_decimals_or_nine() {
        let micro = Timestamp::from_nanos(1_796_337_680_123_456_000);
        let nano = Timestamp::from_nanos(1_796_337_680_123_456_789);
        assert_eq!(TimeFormat::Utc.text(micro), "2026-12-03T22:41:20.123456Z");
        assert_eq!(TimeFormat::Utc.text(nano), "2026-12-03T22:41:20.123456789Z");
        assert_eq!(TimeFormat::Epoch.text(micro), "1796337680.123456");
        assert_eq!(TimeFormat::Epoch.text(nano), "1796337680.123456789");
    }

    #[test]
    fn writes_the_ends_of_time() {
        let early = TimeFormat::Utc.text(Timestamp::from_nanos(i64::MIN));
        assert!(early.starts_with("1677-09-21T"), "{early}");
        let late = TimeFormat::Utc.text(Timestamp::from_nanos(i64::MAX));
        assert!(late.starts_with("2262-04-11T"), "{late}");
        assert_eq!(
            TimeFormat::Epoch.text(Timestamp::from_nanos(-500_000_000)),
            "-0.500000"
        );
    }

    #[test]
    fn rounds_milliseconds_to_three_decimals() {
        let text = |nanos| {
            let mut out = String::new();
            write_millis(Span::from_nanos(nanos), &mut out);
            out
        };
        assert_eq!(text(1_500_000), "1.500");
        assert_eq!(text(1_499), "0.001");
        assert_eq!(text(1_500), "0.002");
        assert_eq!(text(-1_500_000), "-1.500");
        assert_eq!(text(-499), "0.000");
        assert_eq!(text(i64::MIN), "-9223372036854.776");
    }

    #[test]
    fn says_spans_as_people_do() {
        let said = |span| human(span).replace('\u{a0}', " ");
        assert_eq!(said(Span::from_nanos(250_000)), "0.250 ms");
        assert_eq!(said(Span::from_millis(512)), "512 ms");
        assert_eq!(said(Span::from_millis(31_204)), "31.204 s");
        assert_eq!(said(Span::from_secs(125)), "2 min 5 s");
        assert_eq!(said(Span::from_secs(12_000)), "3 h 20 min");
        assert_eq!(said(Span::from_millis(-20)), "-20 ms");
    }
}
