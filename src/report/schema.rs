//! JSON Schemas (2020-12) of report.json and of the lines of rows, from the columns of the tables.

use super::{
    json::{NESTED, SCHEMA_VERSION, totals},
    table::{
        Column, Events, Exchanges, Findings, Incidents, Inputs, Resumes, Segments, Servers,
        Sessions, Shares, Table, Timers,
    },
    value::Kind,
};
use crate::{
    anomaly,
    model::analysis::{Analysis, WhyUnread},
};
use serde::{Serialize, Serializer};

/// Whether a schema allows keys that it does not name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keys {
    /// It does, as later versions may have more: for everybody.
    Open,
    /// It does not: for tests, which see by it that every key is in the schema.
    Closed,
}

/// The schema of report.json, with a newline at its end.
#[must_use]
pub fn report(keys: Keys) -> String {
    let count = || node_type(&["integer"], vec![("minimum", Node::Number(0))]);
    let text = || node_type(&["string"], vec![]);
    let maybe = |kind: &'static str| node_type(&[kind, "null"], vec![]);
    let har = object(
        keys,
        "What a HAR can tell.",
        vec![
            ("creators", array(text())),
            ("responses", count()),
            ("bodies", count()),
            ("undecodable_bodies", count()),
            ("event_streams", count()),
            ("timed_event_streams", count()),
            ("made_up_times", count()),
            ("masked_session_ids", count()),
            ("masked_cursors", count()),
            ("masked_event_ids", count()),
            ("without_http", count()),
            ("omits_open_streams", node_type(&["boolean"], vec![])),
        ],
    );
    let mut inputs = columns::<Inputs>(&[]);
    inputs.extend([
        (
            "har",
            map(vec![(
                "anyOf",
                Node::List(vec![reference("har"), node_type(&["null"], vec![])]),
            )]),
        ),
        ("tls", reference("tls")),
        ("copy_of", maybe("string")),
        ("clock_offset_ms", maybe("number")),
        (
            "clock_offset_from",
            one_of_words(&["given", "exchanges"], true),
        ),
        ("clock_ahead_ms", maybe("number")),
        ("clock_ahead_of", maybe("string")),
    ]);
    let nest = || {
        let [segments, resumes, findings] = NESTED;
        [
            (segments, array(reference("segment"))),
            (resumes, array(reference("resume"))),
            (findings, array(reference("finding"))),
        ]
    };
    let mut sessions = columns::<Sessions>(&NESTED);
    sessions.extend(nest());
    let counts = totals(&Analysis::default());
    let counts = counts.into_iter().map(|(key, _)| (key, count())).collect();
    let opaque = object(
        keys,
        "What was on the wire and could not be read.",
        vec![
            ("protocol", one_of_words(&["tls", "http2", "quic"], false)),
            ("server", maybe("string")),
            ("count", count()),
        ],
    );
    let reasons: Vec<_> = WhyUnread::ALL.iter().map(|why| why.name()).collect();
    let unread = object(
        keys,
        "A TLS connection of which not all was read.",
        vec![
            ("tcp_stream", maybe("integer")),
            ("frame", count()),
            ("why", one_of_words(&reasons, false)),
        ],
    );
    let tls = object(
        keys,
        "The TLS of an input, and what keys gave of it.",
        vec![
            ("secrets", count()),
            ("connections", count()),
            ("read", count()),
            ("unread", array(reference("unread"))),
        ],
    );
    let key_log = object(
        keys,
        "A key log that was named; what was in it, never the secrets.",
        vec![
            ("name", text()),
            ("secrets", count()),
            ("bad_lines", count()),
            ("first_bad_line", maybe("integer")),
            ("first_bad_why", maybe("string")),
            ("beyond_limit", count()),
        ],
    );
    let example = object(
        keys,
        "An example of what is odd.",
        vec![
            ("tcp_stream", maybe("integer")),
            ("frame", maybe("integer")),
            ("detail", text()),
        ],
    );
    let kinds: Vec<_> = anomaly::Kind::ALL.iter().map(|kind| kind.name()).collect();
    let oddity = object(
        keys,
        "What is odd in an input, of one kind.",
        vec![
            ("input", maybe("string")),
            ("kind", one_of_words(&kinds, false)),
            ("about", text()),
            ("effect", text()),
            ("count", count()),
            ("examples", array(reference("example"))),
        ],
    );
    let version = map(vec![("const", Node::Text(SCHEMA_VERSION.to_owned()))]);
    let whole = vec![
        ("schema_version", version),
        ("forkscope_version", text()),
        ("inputs", array(reference("input"))),
        ("totals", reference("totals")),
        ("sessions", array(reference("session"))),
        ("outside_sessions", reference("outside")),
        ("incidents", array(reference("incident"))),
        ("timers", array(reference("timer"))),
        ("shares", array(reference("share"))),
        ("servers", array(reference("server"))),
        ("opaque", array(reference("opaque"))),
        ("key_logs", array(reference("key_log"))),
        ("anomalies", array(reference("anomaly"))),
    ];
    let about = "What `forkscope audit --format json` writes. Within one schema_version keys and words are only added.";
    let definitions = map(vec![
        ("input", object(keys, Inputs::ABOUT, inputs)),
        ("har", har),
        ("totals", object(keys, "Counts over the run.", counts)),
        ("session", object(keys, Sessions::ABOUT, sessions)),
        (
            "outside",
            object(
                keys,
                "What belongs to no session under judgement.",
                nest().into(),
            ),
        ),
        ("segment", row::<Segments>(keys)),
        ("resume", row::<Resumes>(keys)),
        ("finding", row::<Findings>(keys)),
        ("incident", row::<Incidents>(keys)),
        ("timer", row::<Timers>(keys)),
        ("share", row::<Shares>(keys)),
        ("server", row::<Servers>(keys)),
        ("opaque", opaque),
        ("tls", tls),
        ("unread", unread),
        ("key_log", key_log),
        ("anomaly", oddity),
        ("example", example),
    ]);
    document("report.json", object(keys, about, whole), Some(definitions))
}

/// The schema of a line of `forkscope audit --format ndjson`.
#[must_use]
pub fn resumes(keys: Keys) -> String {
    document("resumes", row::<Resumes>(keys), None)
}

/// The schema of a line of `forkscope events --format ndjson`.
#[must_use]
pub fn events(keys: Keys) -> String {
    document("events", row::<Events>(keys), None)
}

/// The schema of a line of `forkscope exchanges --format ndjson`.
#[must_use]
pub fn exchanges(keys: Keys) -> String {
    document("exchanges", row::<Exchanges>(keys), None)
}

/// A piece of JSON that keeps its keys in order: that of the columns.
enum Node {
    Null,
    Bool(bool),
    Number(u32),
    Text(String),
    List(Vec<Node>),
    Map(Vec<(&'static str, Node)>),
}

impl Serialize for Node {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Null => to.serialize_none(),
            Self::Bool(yes) => to.serialize_bool(*yes),
            Self::Number(number) => to.serialize_u32(*number),
            Self::Text(text) => to.serialize_str(text),
            Self::List(items) => to.collect_seq(items),
            Self::Map(entries) => to.collect_map(entries.iter().map(|(key, value)| (key, value))),
        }
    }
}

fn document(title: &str, schema: Node, definitions: Option<Node>) -> String {
    let dialect = "https://json-schema.org/draft/2020-12/schema".to_owned();
    let mut entries = vec![
        ("$schema", Node::Text(dialect)),
        ("title", Node::Text(format!("forkscope: {title}"))),
    ];
    if let Node::Map(rest) = schema {
        entries.extend(rest);
    }
    entries.extend(definitions.map(|definitions| ("$defs", definitions)));
    // Text and numbers only: it cannot fail.
    let mut text = serde_json::to_string_pretty(&Node::Map(entries)).unwrap_or_default();
    text.push('\n');
    text
}

fn row<T: Table>(keys: Keys) -> Node {
    object(keys, T::ABOUT, columns::<T>(&[]))
}

/// The columns of `T` but for those named in `without`, as properties.
fn columns<T: Table>(without: &[&str]) -> Vec<(&'static str, Node)> {
    let columns = T::COLUMNS.iter();
    columns
        .filter(|column| !without.contains(&column.name))
        .map(|column| (column.name, property(column)))
        .collect()
}

/// An object all of whose properties are always there.
fn object(keys: Keys, about: &str, properties: Vec<(&'static str, Node)>) -> Node {
    let required = properties
        .iter()
        .map(|(key, _)| Node::Text((*key).to_owned()))
        .collect();
    let mut entries = vec![
        ("description", Node::Text(about.to_owned())),
        ("type", Node::Text("object".to_owned())),
        ("properties", map(properties)),
        ("required", Node::List(required)),
    ];
    if keys == Keys::Closed {
        entries.push(("additionalProperties", Node::Bool(false)));
    }
    map(entries)
}

fn property<T: Table>(column: &Column<T>) -> Node {
    let words = (column.words)();
    let mut entries = vec![("description", Node::Text(column.about.to_owned()))];
    let types = |types: &[&'static str], more| {
        let null = (!column.always).then_some("null");
        let types: Vec<_> = types.iter().copied().chain(null).collect();
        node_type(&types, more)
    };
    let mut rule = match column.kind {
        Kind::Bool => types(&["boolean"], vec![]),
        Kind::Number => types(&["integer"], vec![("minimum", Node::Number(0))]),
        Kind::Time => types(&["string", "number"], vec![("pattern", pattern(TIME))]),
        Kind::Millis | Kind::Decimal => types(&["number"], vec![]),
        Kind::Hash => types(&["string"], vec![("pattern", pattern("^[0-9a-f]{32}$"))]),
        Kind::Word if !words.is_empty() => one_of_words(&words, !column.always),
        Kind::List => {
            let item = if words.is_empty() {
                node_type(&["string"], vec![])
            } else {
                one_of_words(&words, false)
            };
            types(&["array"], vec![("items", item)])
        }
        Kind::Word | Kind::Text | Kind::File | Kind::Endpoint => types(&["string"], vec![]),
    };
    if let Node::Map(rule) = &mut rule {
        entries.append(rule);
    }
    if !column.unit().is_empty() {
        entries.push(("x-unit", Node::Text(column.unit().to_owned())));
    }
    if !column.otel.is_empty() {
        let names = column.otel.iter();
        let names = names.map(|name| Node::Text((*name).to_owned())).collect();
        entries.push(("x-opentelemetry", Node::List(names)));
    }
    map(entries)
}

fn one_of_words(words: &[&str], or_null: bool) -> Node {
    let mut allowed: Vec<_> = words
        .iter()
        .map(|word| Node::Text((*word).to_owned()))
        .collect();
    if or_null {
        allowed.push(Node::Null);
    }
    map(vec![("enum", Node::List(allowed))])
}

fn node_type(types: &[&str], more: Vec<(&'static str, Node)>) -> Node {
    let types = match types {
        [one] => Node::Text((*one).to_owned()),
        several => {
            let several = several.iter();
            Node::List(several.map(|kind| Node::Text((*kind).to_owned())).collect())
        }
    };
    let mut entries = vec![("type", types)];
    entries.extend(more);
    map(entries)
}

fn array(items: Node) -> Node {
    node_type(&["array"], vec![("items", items)])
}

fn reference(to: &str) -> Node {
    map(vec![("$ref", Node::Text(format!("#/$defs/{to}")))])
}

fn pattern(text: &str) -> Node {
    Node::Text(text.to_owned())
}

const fn map(entries: Vec<(&'static str, Node)>) -> Node {
    Node::Map(entries)
}

/// RFC 3339 in UTC, as far as times reach.
const TIME: &str = r"^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}\.(\d{6}|\d{9})Z$";

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    #[test]
    fn has_every_column_in_order_and_says_what_it_measures() {
        let text = resumes(Keys::Open);
        let at = |name: &str| text.find(&format!("\n    \"{name}\": {{")).unwrap();
        let places: Vec<_> = Resumes::COLUMNS.iter().map(|c| at(c.name)).collect();
        assert!(places.is_sorted());
        let schema: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(schema["properties"]["gap_ms"]["x-unit"], "ms");
        let id = &schema["properties"]["session_id"];
        assert_eq!(id["x-opentelemetry"][0], "mcp.session.id");
        assert_eq!(
            schema["properties"]["verdict"]["enum"]
                .as_array()
                .unwrap()
                .len(),
            9
        );
        assert_eq!(schema["properties"]["frame"]["type"][1], "null");
        assert_eq!(schema["properties"]["resume"]["type"], "integer");
        assert_eq!(schema.get("additionalProperties"), None);
    }

    #[test]
    fn closed_ones_allow_no_other_key_anywhere() {
        let schema: Value = serde_json::from_str(&report(Keys::Closed)).unwrap();
        assert_eq!(schema["additionalProperties"], false);
        for (name, definition) in schema["$defs"].as_object().unwrap() {
            assert_eq!(definition["additionalProperties"], false, "{name}");
        }
    }
}
