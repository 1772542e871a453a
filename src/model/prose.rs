//! Sentences for people, in which what comes from outside stays apart from words of forkscope's own.
//!
//! A report may have to hide names ([`Secret`]), and a sentence that was formatted once does not tell
//! any more which of its words are names. So sentences are made by `prose!` alone: of a literal, of
//! numbers, and of names that say what they are. A text that comes from anywhere else is a name as a
//! whole ([`From<String>`]): what nobody vouched for is hidden.

use super::{flow::Endpoint, id::SessionId};
use std::{
    fmt::{self, Write},
    io,
    net::{IpAddr, SocketAddr},
    ops::Deref,
};

/// What a text is a name of, and so what is left of it in a report that hides names (docs/reports.md,
/// "Redacted reports").
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Secret {
    /// A session id.
    Session,
    /// A host, with a port or without.
    Host,
    /// An event id: a number, and what stands for a stream or a session.
    EventId,
    /// A target or URL.
    Url,
    /// A JSON-RPC id or progress token, as JSON text.
    RpcId,
    /// A word that is mostly one of HTTP's or MCP's own: a method, a media type, a revision.
    Word,
    /// The name of an input.
    Input,
    /// The hash of a payload.
    Payload,
    /// Any other text from outside.
    Text,
    /// A sentence with names in it.
    Prose,
}

impl Secret {
    /// What is left of it, in a few words.
    #[must_use]
    pub const fn remains(self) -> &'static str {
        match self {
            Self::Session | Self::Text => "hash",
            Self::Host => "hash; the port stays",
            Self::EventId => "hash; the number stays",
            Self::Url => "hash a part; usual parts stay",
            Self::RpcId => "hash; a short number stays",
            Self::Word => "hash; usual words stay",
            Self::Input => "`input-N`",
            Self::Payload => "keyed hash",
            Self::Prose => "names as hashes",
        }
    }
}

/// A sentence. It reads as a `&str`.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Prose {
    text: String,
    names: Vec<Name>,
}

/// A name in a sentence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Name {
    start: usize,
    end: usize,
    what: Secret,
}

/// What can stand in a sentence.
pub trait Piece {
    /// Appends it.
    fn put(&self, to: &mut Prose);
}

impl Prose {
    /// `text` with each `{}` replaced by the piece whose turn it is.
    #[must_use]
    pub fn of(text: &'static str, pieces: &[&dyn Piece]) -> Self {
        debug_assert_eq!(text.matches("{}").count(), pieces.len(), "{text}");
        let mut prose = Self::default();
        let mut pieces = pieces.iter();
        for (index, words) in text.split("{}").enumerate() {
            if index > 0
                && let Some(piece) = pieces.next()
            {
                piece.put(&mut prose);
            }
            prose.text.push_str(words);
        }
        prose
    }

    /// Sentences with `between` between them.
    #[must_use]
    pub fn join(parts: impl IntoIterator<Item = Self>, between: &'static str) -> Self {
        let mut all = Self::default();
        for (index, part) in parts.into_iter().enumerate() {
            if index > 0 {
                all.text.push_str(between);
            }
            part.put(&mut all);
        }
        all
    }

    /// The sentence.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The same with every name replaced by what `hide` makes of it.
    #[must_use]
    pub fn hidden(&self, mut hide: impl FnMut(Secret, &str) -> String) -> Self {
        let mut hidden = Self::default();
        let mut done = 0;
        for name in &self.names {
            let words = self.text.get(done..name.start).unwrap_or_default();
            hidden.text.push_str(words);
            let text = self.text.get(name.start..name.end).unwrap_or_default();
            hidden.name(name.what, hide(name.what, text));
            done = name.end;
        }
        let rest = self.text.get(done..).unwrap_or_default();
        hidden.text.push_str(rest);
        hidden
    }

    /// The names in it, in order: from which byte to which, and what they are.
    pub fn names(&self) -> impl Iterator<Item = (usize, usize, Secret)> + '_ {
        let names = self.names.iter();
        names.map(|name| (name.start, name.end, name.what))
    }

    /// A sentence as it was, with its [names](Self::names); `None` when these do not fit it.
    pub fn again(
        text: String,
        names: impl IntoIterator<Item = (usize, usize, Secret)>,
    ) -> Option<Self> {
        let mut prose = Self {
            text,
            names: Vec::new(),
        };
        let mut done = 0;
        for (start, end, what) in names {
            if start < done || start >= end || prose.text.get(start..end).is_none() {
                return None;
            }
            prose.names.push(Name { start, end, what });
            done = end;
        }
        Some(prose)
    }

    fn name(&mut self, what: Secret, text: impl fmt::Display) {
        let start = self.text.len();
        // Writing to a string cannot fail.
        let _ = write!(self.text, "{text}");
        let end = self.text.len();
        if start < end {
            self.names.push(Name { start, end, what });
        }
    }
}

/// Makes a [`Prose`]: `prose!("event {} came {} times", Named(Secret::EventId, id), count)`.
macro_rules! prose {
    ($text:literal $(, $piece:expr)* $(,)?) => {
        $crate::model::prose::Prose::of(
            $text,
            &[$(&$piece as &dyn $crate::model::prose::Piece),*],
        )
    };
}
pub(crate) use prose;

/// A name of some kind, as it was on the wire.
#[derive(Clone, Copy, Debug)]
pub struct Named<'a>(pub Secret, pub &'a str);

/// An event id.
#[must_use]
pub const fn event_id(id: &str) -> Named<'_> {
    Named(Secret::EventId, id)
}

/// A JSON-RPC id or progress token, as JSON text.
#[must_use]
pub const fn rpc_id(id: &str) -> Named<'_> {
    Named(Secret::RpcId, id)
}

/// A method.
#[must_use]
pub const fn method(name: &str) -> Named<'_> {
    Named(Secret::Word, name)
}

/// A text of which nothing is known.
#[must_use]
pub const fn foreign(text: &str) -> Named<'_> {
    Named(Secret::Text, text)
}

impl Piece for Named<'_> {
    fn put(&self, to: &mut Prose) {
        to.name(self.0, self.1);
    }
}

impl Piece for SessionId {
    fn put(&self, to: &mut Prose) {
        to.name(Secret::Session, self);
    }
}

impl Piece for &SessionId {
    fn put(&self, to: &mut Prose) {
        (*self).put(to);
    }
}

impl Piece for Endpoint {
    fn put(&self, to: &mut Prose) {
        to.name(Secret::Host, self);
    }
}

impl Piece for SocketAddr {
    fn put(&self, to: &mut Prose) {
        to.name(Secret::Host, self);
    }
}

impl Piece for IpAddr {
    fn put(&self, to: &mut Prose) {
        to.name(Secret::Host, self);
    }
}

impl Piece for Prose {
    fn put(&self, to: &mut Prose) {
        let base = to.text.len();
        to.text.push_str(&self.text);
        to.names.extend(self.names.iter().map(|name| Name {
            start: base + name.start,
            end: base + name.end,
            what: name.what,
        }));
    }
}

/// Words of forkscope's own.
impl Piece for &'static str {
    fn put(&self, to: &mut Prose) {
        to.text.push_str(self);
    }
}

/// A number with so many digits after the point.
#[derive(Clone, Copy, Debug)]
pub struct Fixed(pub f64, pub usize);

impl Piece for Fixed {
    fn put(&self, to: &mut Prose) {
        let _ = write!(to.text, "{:.*}", self.1, self.0);
    }
}

/// A number in hexadecimal: four digits or more after `0x`.
#[derive(Clone, Copy, Debug)]
pub struct Hex(pub u64);

impl Piece for Hex {
    fn put(&self, to: &mut Prose) {
        let _ = write!(to.text, "{:#06x}", self.0);
    }
}

impl Piece for &io::Error {
    fn put(&self, to: &mut Prose) {
        (*self).put(to);
    }
}

/// What the system says. What another library made of what it read is a name.
impl Piece for io::Error {
    fn put(&self, to: &mut Prose) {
        if self.get_ref().is_some() {
            to.name(Secret::Text, self);
        } else {
            let _ = write!(to.text, "{self}");
        }
    }
}

macro_rules! numbers {
    ($($number:ty),+) => {
        $(impl Piece for $number {
            fn put(&self, to: &mut Prose) {
                let _ = write!(to.text, "{self}");
            }
        })+
    };
}
numbers!(u8, u16, u32, u64, u128, usize, i64);

impl Deref for Prose {
    type Target = str;

    fn deref(&self) -> &str {
        &self.text
    }
}

impl fmt::Display for Prose {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl From<&'static str> for Prose {
    fn from(words: &'static str) -> Self {
        Self {
            text: words.to_owned(),
            names: Vec::new(),
        }
    }
}

/// A text of which nobody says what is in it: one name.
impl From<String> for Prose {
    fn from(text: String) -> Self {
        Named(Secret::Text, &text).into()
    }
}

impl From<Named<'_>> for Prose {
    fn from(named: Named<'_>) -> Self {
        let mut prose = Self::default();
        named.put(&mut prose);
        prose
    }
}

impl PartialEq<str> for Prose {
    fn eq(&self, other: &str) -> bool {
        self.text == other
    }
}

impl PartialEq<&str> for Prose {
    fn eq(&self, other: &&str) -> bool {
        self.text == *other
    }
}

impl PartialEq<String> for Prose {
    fn eq(&self, other: &String) -> bool {
        self.text == *other
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_hidden_and_words_stay() {
        let session = SessionId::from("abc{}def");
        let prose = prose!(
            "{} of session {} at {}: {} ({})",
            3_u32,
            session,
            Fixed(1.25, 1),
            Named(Secret::EventId, "key_17"),
            prose!("after {}", Endpoint::Name("mcp.example".into(), 80))
        );
        assert_eq!(
            prose,
            "3 of session abc{}def at 1.2: key_17 (after mcp.example:80)"
        );
        let mut seen = Vec::new();
        let hidden = prose.hidden(|what, text| {
            seen.push((what, text.to_owned()));
            "~".to_owned()
        });
        assert_eq!(hidden, "3 of session ~ at 1.2: ~ (after ~)");
        let expected = [
            (Secret::Session, "abc{}def"),
            (Secret::EventId, "key_17"),
            (Secret::Host, "mcp.example:80"),
        ];
        assert_eq!(seen, expected.map(|(what, text)| (what, text.to_owned())));
        // Hidden once more, the names are still names.
        assert_eq!(
            hidden.hidden(|_, _| "x".to_owned()),
            "3 of session x at 1.2: x (after x)"
        );
    }

    #[test]
    fn a_sentence_is_put_together_again_with_its_names() {
        let prose = prose!("from {} to {}", foreign("ä"), foreign("b"));
        let names: Vec<_> = prose.names().collect();
        assert_eq!(Prose::again(prose.to_string(), names), Some(prose.clone()));
        for wrong in [(6, 7), (5, 6), (9, 99), (5, 5)] {
            let names = [(wrong.0, wrong.1, Secret::Text)];
            assert_eq!(Prose::again(prose.to_string(), names), None, "{wrong:?}");
        }
        let twice = [(0, 4, Secret::Text), (3, 4, Secret::Text)];
        assert_eq!(Prose::again(prose.to_string(), twice), None);
    }

    #[test]
    fn what_nobody_vouched_for_is_a_name() {
        let hide = |prose: Prose| prose.hidden(|_, _| "~".to_owned());
        assert_eq!(hide(String::from("Bearer abc").into()), "~");
        assert_eq!(hide("the end".into()), "the end");
        assert_eq!(hide(String::new().into()), "");
        let joined = Prose::join(["one".into(), String::from("two").into()], ", ");
        assert_eq!(joined, "one, two");
        assert_eq!(hide(joined), "one, ~");
    }
}
