//! Steps to bytes: HTTP/2 without TLS, by prior knowledge (RFC 9113, section 3.3).
//!
//! A step takes as many flights as in HTTP/1.1, so that times and frames of both are the same. Settings go with
//! what each side says first.

use super::{
    model::{Act, Body, Close, Request, Response, Side, Talk},
    wire::{self, Flight, Sent},
};
use httlib_hpack::Encoder;
use std::collections::VecDeque;

/// What goes over the wire, in order of time; or why HTTP/2 cannot carry it.
pub(crate) fn flights(talk: &Talk) -> Result<Vec<Flight>, &'static str> {
    // Without a header table, lost heads leave the others as they are.
    let any_lost = talk.steps.iter().any(|step| step.lost);
    let mut connections: Vec<Voices> = talk
        .connections
        .iter()
        .map(|_| Voices::new(!any_lost))
        .collect();
    talk.steps
        .iter()
        .zip(wire::flights(talk))
        .map(|(step, plain)| {
            let voices = &mut connections[step.connection];
            let what = match &step.act {
                Act::Close(Close::Fin(Side::Server)) if voices.until_close => {
                    return Err("a body that ends with the connection");
                }
                Act::Close(close) => Sent::Close(*close),
                act => {
                    let mut bytes = voices.say(act, step.half)?;
                    let frames = matches!(act, Act::Request(_) | Act::Response(_));
                    if step.half && frames {
                        bytes.truncate(bytes.len() / 2);
                    }
                    Sent::Bytes(bytes)
                }
            };
            Ok(Flight { what, ..plain })
        })
        .collect()
}

/// The two sides of a connection.
struct Voices {
    client: Encoder<'static>,
    server: Encoder<'static>,
    indexing: bool,
    client_spoke: bool,
    server_spoke: bool,
    next: u32,
    /// Streams whose requests wait for their response.
    unanswered: VecDeque<u32>,
    /// The stream of the response that is under way.
    answering: Option<u32>,
    until_close: bool,
}

impl Voices {
    fn new(indexing: bool) -> Self {
        Self {
            client: Encoder::default(),
            server: Encoder::default(),
            indexing,
            client_spoke: false,
            server_spoke: false,
            next: 1,
            unanswered: VecDeque::new(),
            answering: None,
            until_close: false,
        }
    }

    fn say(&mut self, act: &Act, half: bool) -> Result<Vec<u8>, &'static str> {
        let mut out = Vec::new();
        if act.side() == Side::Client && !self.client_spoke {
            self.client_spoke = true;
            out.extend(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
            out.extend(frame(SETTINGS, 0, 0, &[]));
        }
        if act.side() == Side::Server && !self.server_spoke {
            self.server_spoke = true;
            out.extend(frame(SETTINGS, 0, 0, &[]));
        }
        let text = |bytes: &[u8], stream: Option<u32>| {
            let stream = stream.ok_or("a body without a head")?;
            let most = if half {
                sent_by_half(bytes)
            } else {
                bytes.len()
            };
            Ok::<_, &'static str>(data(stream, 0, &bytes[..most]))
        };
        match act {
            Act::Request(request) => out.extend(self.request(request)),
            Act::Response(response) => out.extend(self.response(response)?),
            Act::Event(event) => out.extend(text(event.text().as_bytes(), self.answering)?),
            Act::Comment(comment) => {
                out.extend(text(format!(": {comment}\n\n").as_bytes(), self.answering)?);
            }
            Act::Chunk(bytes) => out.extend(text(bytes, self.answering)?),
            Act::End => {
                let stream = self.answering.take().ok_or("an end without a head")?;
                out.extend(frame(DATA, END_STREAM, stream, &[]));
            }
            Act::Raw(..) => return Err("bytes of HTTP/1.1"),
            Act::Close(_) => {}
        }
        Ok(out)
    }

    fn request(&mut self, request: &Request) -> Vec<u8> {
        let stream = self.next;
        self.next += 2;
        self.unanswered.push_back(stream);
        let host = request.headers.iter().find(|(name, _)| is(name, "host"));
        let mut fields = vec![
            (":method", request.method.as_str()),
            (":scheme", "http"),
            (":path", request.path.as_str()),
        ];
        fields.extend(host.map(|(_, value)| (":authority", value.as_str())));
        let block = block(&mut self.client, self.indexing, &fields, &request.headers);
        let body = request.body.as_deref().unwrap_or_default();
        message(stream, &block, body, true)
    }

    fn response(&mut self, response: &Response) -> Result<Vec<u8>, &'static str> {
        let interim = (100..200).contains(&response.status);
        let stream = if interim {
            self.unanswered.front().copied()
        } else {
            self.unanswered.pop_front()
        };
        let stream = stream.ok_or("a response without request")?;
        let status = response.status.to_string();
        let block = block(
            &mut self.server,
            self.indexing,
            &[(":status", &status)],
            &response.headers,
        );
        self.until_close = matches!(response.body, Body::UntilClose);
        Ok(match &response.body {
            Body::Whole(text) => message(stream, &block, text, !interim),
            Body::Chunked | Body::UntilClose => {
                self.answering = Some(stream);
                frame(HEADERS, END_HEADERS, stream, &block)
            }
        })
    }
}

/// How much of a piece of body is sent with half of its chunk.
fn sent_by_half(bytes: &[u8]) -> usize {
    let head = format!("{:x}\r\n", bytes.len()).len();
    ((head + bytes.len() + 2) / 2).saturating_sub(head)
}

/// HEADERS and what body there is.
fn message(stream: u32, block: &[u8], body: &str, ends: bool) -> Vec<u8> {
    let end = if ends { END_STREAM } else { 0 };
    if body.is_empty() {
        return frame(HEADERS, END_HEADERS | end, stream, block);
    }
    let mut out = frame(HEADERS, END_HEADERS, stream, block);
    out.extend(data(stream, end, body.as_bytes()));
    out
}

/// DATA, in frames no longer than they may be.
pub(crate) fn data(stream: u32, flags: u8, bytes: &[u8]) -> Vec<u8> {
    if bytes.is_empty() {
        return frame(DATA, flags, stream, bytes);
    }
    let mut pieces = bytes.chunks(LONGEST).peekable();
    let mut out = Vec::new();
    while let Some(piece) = pieces.next() {
        let flags = if pieces.peek().is_none() { flags } else { 0 };
        out.extend(frame(DATA, flags, stream, piece));
    }
    out
}

pub(crate) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut out = u32::try_from(payload.len()).unwrap().to_be_bytes()[1..].to_vec();
    out.extend([kind, flags]);
    out.extend(stream.to_be_bytes());
    out.extend(payload);
    out
}

fn block(
    encoder: &mut Encoder<'static>,
    indexing: bool,
    pseudo: &[(&str, &str)],
    headers: &[(String, String)],
) -> Vec<u8> {
    let flags = HUFFMAN | BEST | if indexing { INDEXING } else { 0 };
    // Section 8.2.2: what is of a connection of HTTP/1.1 has no place here.
    let plain = headers
        .iter()
        .filter(|(name, _)| {
            !["host", "connection", "keep-alive", "transfer-encoding"]
                .iter()
                .any(|other| is(name, other))
        })
        .map(|(name, value)| (name.to_ascii_lowercase(), value.as_str()));
    let pseudo = pseudo
        .iter()
        .map(|(name, value)| ((*name).to_owned(), *value));
    let mut out = Vec::new();
    for (name, value) in pseudo.chain(plain) {
        let field = (name.into_bytes(), value.as_bytes().to_vec(), flags);
        encoder.encode(field, &mut out).unwrap();
    }
    out
}

fn is(name: &str, other: &str) -> bool {
    name.eq_ignore_ascii_case(other)
}

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const SETTINGS: u8 = 4;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
/// The longest frame that needs no setting.
const LONGEST: usize = 16_384;

// What the encoder is asked for.
const HUFFMAN: u8 = 0x03;
const INDEXING: u8 = 0x04;
const BEST: u8 = 0x10;
