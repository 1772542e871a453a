//! The value of a cell, and how it is written.

use super::{
    escape::{escape_name_to, escape_to},
    style::{Style, write_millis},
};
use crate::model::{
    flow::Endpoint,
    message::{Message, PayloadHash},
    place::Place,
    time::{Span, Timestamp},
};
use serde::{Serialize, Serializer, ser::SerializeSeq};
use serde_json::value::RawValue;
use std::fmt::Write;

/// What a cell holds. It borrows from the analysis: rows can be millions.
#[derive(Clone, Copy, Debug)]
pub enum Value<'a> {
    /// Not known, or not there.
    Unknown,
    /// Yes or no.
    Bool(bool),
    /// A count, a status, a number of a frame.
    Number(u64),
    /// An instant.
    Time(Timestamp),
    /// A length of time.
    Span(Span),
    /// A share or a correlation.
    Decimal(f64),
    /// A length of time from the first to the second.
    Spans(Span, Span),
    /// The hash of a payload.
    Hash(PayloadHash),
    /// A word of forkscope's own.
    Word(&'a str),
    /// Words of forkscope's own.
    Words(&'a [&'static str]),
    /// Names of forkscope's own.
    Names(&'a [String]),
    /// Text that holds something from the wire.
    Text(&'a str),
    /// A member of each JSON-RPC message of a body, where it has it.
    Members(&'a [Message], Member),
    /// The name of an input.
    File(&'a str),
    /// One end of a connection.
    Endpoint(&'a Endpoint),
    /// The hosts at both ends.
    Hosts(&'a Endpoint, &'a Endpoint),
    /// A Wireshark filter that finds the TCP stream, or else the frame.
    Filter(Place),
}

/// Picks a member of a JSON-RPC message.
pub type Member = for<'m> fn(&'m Message) -> Option<&'m str>;

/// What kind of value a column has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `true` or `false`.
    Bool,
    /// A whole number.
    Number,
    /// An instant, by the time format.
    Time,
    /// Milliseconds with three decimals.
    Millis,
    /// A number with four decimals.
    Decimal,
    /// A hash in hexadecimal.
    Hash,
    /// One of a few words.
    Word,
    /// Words joined by `;` (an array in JSON).
    List,
    /// Text, partly from the wire.
    Text,
    /// The name of an input.
    File,
    /// `HOST:PORT`.
    Endpoint,
}

impl Kind {
    /// As the documentation calls it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Bool => "true or false",
            Self::Number => "number",
            Self::Time => "time",
            Self::Millis => "milliseconds",
            Self::Decimal => "decimal",
            Self::Hash => "hexadecimal",
            Self::Word => "word",
            Self::List => "list",
            Self::Text => "text",
            Self::File => "file",
            Self::Endpoint => "host:port",
        }
    }
}

impl Value<'_> {
    /// The kind of column it belongs in; `None` when it is not known.
    #[must_use]
    pub const fn kind(&self) -> Option<Kind> {
        Some(match self {
            Self::Unknown => return None,
            Self::Bool(_) => Kind::Bool,
            Self::Number(_) => Kind::Number,
            Self::Time(_) => Kind::Time,
            Self::Span(_) => Kind::Millis,
            Self::Decimal(_) => Kind::Decimal,
            Self::Hash(_) => Kind::Hash,
            Self::Word(_) => Kind::Word,
            Self::Words(_) | Self::Names(_) => Kind::List,
            Self::Text(_)
            | Self::Members(..)
            | Self::Hosts(..)
            | Self::Filter(_)
            | Self::Spans(..) => Kind::Text,
            Self::File(_) => Kind::File,
            Self::Endpoint(_) => Kind::Endpoint,
        })
    }

    /// Whether it comes from the wire, and so may be made to look like a formula.
    pub(super) fn is_foreign(&self) -> bool {
        match self {
            // Standard input is named `-` and stays so.
            Self::File(name) => *name != "-",
            // Of lengths of time one may be negative, and two are no number.
            Self::Text(_)
            | Self::Members(..)
            | Self::Endpoint(_)
            | Self::Hosts(..)
            | Self::Spans(..) => true,
            _ => false,
        }
    }

    /// Appends the value as plain text, hidden characters and all.
    pub(super) fn write_raw(&self, style: &Style, out: &mut String) {
        // Writing to a string cannot fail.
        match *self {
            Self::Unknown => {}
            Self::Bool(yes) => out.push_str(if yes { "true" } else { "false" }),
            Self::Number(number) => {
                let _ = write!(out, "{number}");
            }
            Self::Time(time) => style.time.write(time, out),
            Self::Span(span) => write_millis(span, out),
            Self::Decimal(number) => {
                // Nothing is less than nothing.
                let number = if number.abs() < 5e-5 { 0.0 } else { number };
                let _ = write!(out, "{number:.4}");
            }
            Self::Spans(from, to) => {
                write_millis(from, out);
                out.push_str(" to ");
                write_millis(to, out);
            }
            Self::Hash(hash) => {
                let hash = hash.0;
                let _ = write!(out, "{hash:032x}");
            }
            Self::Word(text) | Self::Text(text) | Self::File(text) => out.push_str(text),
            Self::Words(words) => join(words.iter().copied(), out),
            Self::Names(names) => join(names.iter().map(String::as_str), out),
            Self::Members(messages, member) => join(messages.iter().filter_map(member), out),
            Self::Endpoint(endpoint) => {
                let _ = write!(out, "{endpoint}");
            }
            Self::Hosts(client, server) => {
                write_host(client, out);
                out.push('>');
                write_host(server, out);
            }
            Self::Filter(place) => {
                let _ = match place.tcp_stream {
                    Some(stream) => write!(out, "tcp.stream eq {stream}"),
                    None => write!(out, "frame.number == {}", place.frame),
                };
            }
        }
    }

    /// Appends the value as a cell of a table: hidden characters escaped.
    pub(super) fn write_cell(&self, style: &Style, scratch: &mut String, out: &mut String) {
        match self {
            Self::Text(text) => escape_to(text, out),
            Self::File(name) => escape_name_to(name, out),
            Self::Members(..) | Self::Endpoint(_) | Self::Hosts(..) | Self::Names(_) => {
                scratch.clear();
                self.write_raw(style, scratch);
                escape_to(scratch, out);
            }
            _ => self.write_raw(style, out),
        }
    }
}

impl<'a, T: Into<Value<'a>>> From<Option<T>> for Value<'a> {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Unknown, Into::into)
    }
}

impl From<bool> for Value<'_> {
    fn from(yes: bool) -> Self {
        Self::Bool(yes)
    }
}

impl From<u16> for Value<'_> {
    fn from(number: u16) -> Self {
        Self::Number(u64::from(number))
    }
}

impl From<u32> for Value<'_> {
    fn from(number: u32) -> Self {
        Self::Number(u64::from(number))
    }
}

impl From<u64> for Value<'_> {
    fn from(number: u64) -> Self {
        Self::Number(number)
    }
}

impl From<usize> for Value<'_> {
    fn from(number: usize) -> Self {
        Self::Number(number as u64)
    }
}

impl From<Timestamp> for Value<'_> {
    fn from(time: Timestamp) -> Self {
        Self::Time(time)
    }
}

impl From<Span> for Value<'_> {
    fn from(span: Span) -> Self {
        Self::Span(span)
    }
}

impl<'a> From<&'a Endpoint> for Value<'a> {
    fn from(endpoint: &'a Endpoint) -> Self {
        Self::Endpoint(endpoint)
    }
}

/// A value in JSON, where text is as it was: JSON has escapes of its own.
pub(super) struct Json<'a> {
    pub(super) value: Value<'a>,
    pub(super) style: Style,
}

impl Serialize for Json<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self.value {
            Value::Unknown => to.serialize_none(),
            Value::Bool(yes) => to.serialize_bool(yes),
            Value::Number(number) => to.serialize_u64(number),
            Value::Word(text) | Value::Text(text) | Value::File(text) => to.serialize_str(text),
            Value::Words(words) => list(words.iter().copied(), to),
            Value::Names(names) => list(names.iter().map(String::as_str), to),
            value => {
                let mut text = String::with_capacity(32);
                value.write_raw(&self.style, &mut text);
                let number = match value {
                    Value::Span(_) | Value::Decimal(_) => true,
                    Value::Time(_) => self.style.time == super::TimeFormat::Epoch,
                    _ => false,
                };
                if number {
                    // The digits of the tables, not those of the nearest binary fraction.
                    RawValue::from_string(text)
                        .map_err(serde::ser::Error::custom)?
                        .serialize(to)
                } else {
                    to.serialize_str(&text)
                }
            }
        }
    }
}

fn list<'t, S: Serializer>(
    items: impl ExactSizeIterator<Item = &'t str>,
    to: S,
) -> Result<S::Ok, S::Error> {
    let mut list = to.serialize_seq(Some(items.len()))?;
    for item in items {
        list.serialize_element(item)?;
    }
    list.end()
}

fn join<'t>(items: impl Iterator<Item = &'t str>, out: &mut String) {
    for (index, item) in items.enumerate() {
        if index > 0 {
            out.push(';');
        }
        out.push_str(item);
    }
}

fn write_host(endpoint: &Endpoint, out: &mut String) {
    let _ = match endpoint {
        Endpoint::Address(address) => write!(out, "{}", address.ip()),
        Endpoint::Name(name, _) => out.write_str(name),
    };
}
