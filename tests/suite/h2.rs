//! How streams of HTTP/2 end.

use crate::{
    talk::{
        model::{Close, Side, Talk},
        parse::parse,
        tcp::packets_of,
        wire::{Flight, Sent},
        wire_h2::{data, frame},
    },
    talks::{audit, pcap},
};
use forkscope::model::{
    analysis::Analysis,
    exchange::{EndCause, Exchange},
};
use httlib_hpack::Encoder;

/// A conversation on one connection, a flight a second.
struct Wire {
    talk: Talk,
    flights: Vec<Flight>,
}

impl Wire {
    fn new() -> Self {
        let talk = parse("by hand", "c1 ask A#1\nexpect sessions 0").unwrap();
        let mut wire = Self {
            talk,
            flights: Vec::new(),
        };
        let mut hello = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
        hello.extend(frame(SETTINGS, 0, 0, &[]));
        wire.send(Side::Client, &[hello]);
        wire.send(Side::Server, &[frame(SETTINGS, 0, 0, &[])]);
        wire
    }

    fn push(&mut self, side: Side, what: Sent) {
        self.flights.push(Flight {
            at: self.flights.len() as i64 * 1_000_000,
            connection: 0,
            side,
            what,
            lost: false,
        });
    }

    fn send(&mut self, side: Side, frames: &[Vec<u8>]) {
        self.push(side, Sent::Bytes(frames.concat()));
    }

    /// A GET of a session's stream, answered, with an event.
    fn stream(&mut self, stream: u32) {
        let get = head(
            stream,
            END_STREAM,
            &[
                (":method", "GET"),
                (":scheme", "http"),
                (":path", "/mcp"),
                (":authority", "h"),
                ("mcp-session-id", "5f0c7d6e9b3a4c21a8d4e0f1b2c3d4e5"),
            ],
        );
        self.send(Side::Client, &[get]);
        let ok = head(
            stream,
            0,
            &[(":status", "200"), ("content-type", "text/event-stream")],
        );
        self.send(Side::Server, &[ok, event(stream, 1)]);
    }

    fn audit(&self) -> Analysis {
        audit(
            &self.talk,
            &pcap(&self.talk, &packets_of(&self.talk, &self.flights)),
        )
    }
}

/// A head without references to a table.
fn head(stream: u32, flags: u8, fields: &[(&str, &str)]) -> Vec<u8> {
    let mut encoder = Encoder::default();
    let mut block = Vec::new();
    for (name, value) in fields {
        let field = (name.as_bytes().to_vec(), value.as_bytes().to_vec(), 0x13);
        encoder.encode(field, &mut block).unwrap();
    }
    frame(HEADERS, flags | END_HEADERS, stream, &block)
}

fn event(stream: u32, id: u32) -> Vec<u8> {
    let note = r#"{"jsonrpc":"2.0","method":"notifications/message","params":{}}"#;
    data(stream, 0, format!("id: {id}\ndata: {note}\n\n").as_bytes())
}

fn reset(stream: u32, code: u32) -> Vec<u8> {
    frame(RST_STREAM, 0, stream, &code.to_be_bytes())
}

fn goaway(last: u32) -> Vec<u8> {
    frame(GOAWAY, 0, 0, &[last.to_be_bytes(), [0; 4]].concat())
}

/// How an exchange ended: its cause, and the second at which.
fn end(exchange: &Exchange) -> (EndCause, i64) {
    let second = exchange.end.time.nanos() / 1_000_000_000;
    (exchange.end.cause, second - 1_767_225_600)
}

fn delivered(exchange: &Exchange) -> Vec<bool> {
    exchange
        .events
        .iter()
        .map(|event| event.delivered)
        .collect()
}

#[test]
fn what_comes_after_the_clients_rst_stream_is_seen_and_not_delivered() {
    let mut wire = Wire::new();
    wire.stream(1);
    wire.send(Side::Client, &[reset(1, 8)]);
    wire.send(Side::Server, &[event(1, 2)]);
    // The connection goes on, and so does the client.
    wire.stream(3);
    wire.send(Side::Server, &[event(1, 3), data(3, END_STREAM, b"")]);
    let analysis = wire.audit();
    let [given_up, other] = analysis.exchanges.as_slice() else {
        panic!("{} exchanges", analysis.exchanges.len())
    };
    assert_eq!(end(given_up), (EndCause::StreamResetByClient, 4));
    assert_eq!(delivered(given_up), [true, false, false]);
    assert_eq!(end(other), (EndCause::StreamEnd, 8));
    assert_eq!(delivered(other), [true]);
}

#[test]
fn a_stream_that_the_server_resets_ends_by_the_server() {
    let mut wire = Wire::new();
    wire.stream(1);
    wire.send(Side::Server, &[event(1, 2), reset(1, 2)]);
    wire.send(Side::Client, &[frame(PING, 0, 0, &[0; 8])]);
    let analysis = wire.audit();
    let exchange = &analysis.exchanges[0];
    assert_eq!(end(exchange), (EndCause::StreamResetByServer, 4));
    assert_eq!(exchange.end.cause.name(), "stream-reset");
    assert_eq!(delivered(exchange), [true, true]);
}

#[test]
fn a_connection_closed_after_its_goaway_ended_by_it() {
    for (goodbye, cause) in [(true, EndCause::Goaway), (false, EndCause::ServerFin)] {
        let mut wire = Wire::new();
        wire.stream(1);
        if goodbye {
            wire.send(Side::Server, &[goaway(1)]);
        } else {
            // A client's says nothing of its own streams.
            wire.send(Side::Client, &[goaway(0)]);
        }
        wire.send(Side::Server, &[event(1, 2)]);
        wire.push(Side::Server, Sent::Close(Close::Fin(Side::Server)));
        let analysis = wire.audit();
        assert_eq!(end(&analysis.exchanges[0]), (cause, 6));
        assert_eq!(delivered(&analysis.exchanges[0]), [true, true]);
    }
}

#[test]
fn requests_that_a_goaway_leaves_undone_were_not_at_work() {
    let mut wire = Wire::new();
    wire.stream(1);
    let post = head(
        3,
        0,
        &[(":method", "POST"), (":scheme", "http"), (":path", "/mcp")],
    );
    wire.send(Side::Client, &[post, data(3, END_STREAM, b"{}")]);
    wire.send(Side::Server, &[goaway(1)]);
    wire.send(Side::Server, &[data(1, END_STREAM, b"")]);
    let analysis = wire.audit();
    let [stream, undone] = analysis.exchanges.as_slice() else {
        panic!("{} exchanges", analysis.exchanges.len())
    };
    assert_eq!(end(stream), (EndCause::StreamEnd, 6));
    assert!(stream.request.as_ref().unwrap().received);
    assert_eq!(end(undone), (EndCause::Goaway, 5));
    assert!(!undone.request.as_ref().unwrap().received);
}

const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
