//! Names that the wire gives, kept apart from other text.

use std::{borrow::Borrow, fmt, ops::Deref, sync::Arc};

/// A session's id: the value of `Mcp-Session-Id` (or of the header asked for in its place).
///
/// Compared byte for byte. It is a credential of whoever holds it; reports show it as it is, unless they are to hide it.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId(Arc<str>);

impl Deref for SessionId {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl From<&str> for SessionId {
    fn from(text: &str) -> Self {
        Self(Arc::from(text))
    }
}

impl From<String> for SessionId {
    fn from(text: String) -> Self {
        Self(Arc::from(text))
    }
}

impl From<Arc<str>> for SessionId {
    fn from(text: Arc<str>) -> Self {
        Self(text)
    }
}

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Borrow<str> for SessionId {
    fn borrow(&self) -> &str {
        &self.0
    }
}

/// A part of an event id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdPart<'a> {
    /// Its text.
    pub text: &'a str,
    /// Whether it is a number or a time, and so may stay where names are hidden; whatever else may stand
    /// for a stream or a session.
    pub stays: bool,
}
