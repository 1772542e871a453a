//! The words of the judgement: verdicts, confidence, severities, schemes of ids.

use std::fmt;

/// What became of a resume (docs/audit.md, "The verdict of a resume"), in the order of its columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Verdict {
    /// It goes on after the cursor.
    Continued,
    /// Accepted, no message, and nothing was owed: a legal poll.
    Empty,
    /// It goes back to the cursor or before, on the same log.
    Replayed,
    /// It goes on after the cursor, but something is skipped.
    Lossy,
    /// Accepted, something was owed, and nothing came.
    Ignored,
    /// The client is attached to another log.
    Forked,
    /// The server refused, and the client can know.
    Rejected,
    /// Nothing was said about the session.
    Failed,
    /// The capture does not show it.
    Indeterminate,
}

impl Verdict {
    /// All verdicts, in the order of the reports' columns.
    pub const ALL: [Self; 9] = [
        Self::Continued,
        Self::Empty,
        Self::Replayed,
        Self::Lossy,
        Self::Ignored,
        Self::Forked,
        Self::Rejected,
        Self::Failed,
        Self::Indeterminate,
    ];

    /// Its place in [`Self::ALL`], for counts a verdict.
    #[must_use]
    pub const fn index(self) -> usize {
        self as usize
    }

    /// As written in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Continued => "continued",
            Self::Empty => "empty",
            Self::Replayed => "replayed",
            Self::Lossy => "lossy",
            Self::Ignored => "ignored",
            Self::Forked => "forked",
            Self::Rejected => "rejected",
            Self::Failed => "failed",
            Self::Indeterminate => "indeterminate",
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// How sure a verdict is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Confidence {
    /// Holes nearby, or a HAR without bodies.
    Low,
    /// Observed order only, the session's start not captured, one side missing.
    Medium,
    /// Nothing speaks against it.
    #[default]
    High,
}

impl Confidence {
    /// As written in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
        }
    }
}

/// How bad a finding is. `Fork` is the worst.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// Worth knowing; nothing is wrong.
    Info,
    /// Something is wrong, nothing is known to be lost.
    Warning,
    /// Something was lost.
    Loss,
    /// The client was attached to another log.
    Fork,
}

impl Severity {
    /// As written in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Info => "info",
            Self::Warning => "warning",
            Self::Loss => "loss",
            Self::Fork => "fork",
        }
    }
}

/// How the ids of a stream are ordered (docs/audit.md, "Order of event ids").
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum IdScheme {
    /// No ids.
    #[default]
    None,
    /// Order is known from what was seen only.
    Observed,
    /// A time in the id.
    Time,
    /// A growing number with holes.
    Sparse,
    /// A number that grows by 1.
    Dense,
}

impl IdScheme {
    /// As written in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Observed => "observed",
            Self::Time => "time",
            Self::Sparse => "sparse",
            Self::Dense => "dense",
        }
    }
}

/// How a session ended, as far as the capture shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SessionEnd {
    /// A DELETE was answered with success.
    Deleted,
    /// The server refused it for good.
    Lost,
    /// The client closed its connections and did not come back.
    Left,
    /// Another incarnation took its place.
    Superseded,
    /// Still in use when the capture ended.
    #[default]
    Open,
}

impl SessionEnd {
    /// As written in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Deleted => "deleted",
            Self::Lost => "lost",
            Self::Left => "left",
            Self::Superseded => "superseded",
            Self::Open => "open",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verdicts_stand_where_they_say() {
        for (index, verdict) in Verdict::ALL.into_iter().enumerate() {
            assert_eq!(verdict.index(), index);
        }
    }
}
