//! HTTP/1.1 and HTTP/2 as a bystander reads them: the two ordered byte streams of a TCP connection,
//! with holes and closes, become requests, responses and decoded body pieces (RFC 9110, RFC 9112; `h2` for
//! RFC 9113).
//!
//! Nothing is rejected. What breaks the rules is an [anomaly](crate::anomaly) and reading goes on;
//! what cannot be read is skipped to the next place where a message begins. Body bytes pass
//! through by reference; heads are copied only when they come in several pieces.

#![deny(
    clippy::indexing_slicing,
    clippy::string_slice,
    clippy::cast_possible_truncation
)]

mod chunked;
mod coding;
mod framing;
mod h2;
mod head;
mod pairing;
mod reader;

pub use head::{RequestHead, ResponseHead};

use crate::{
    anomaly::Kind,
    limits::Limits,
    model::{
        exchange::Part,
        flow::Side,
        place::At,
        prose::{Prose, prose},
        time::Timestamp,
    },
};
use coding::{Decoding, Fault};
use framing::{Declared, Framing};
use head::{Guess, HeadError, guess_request, guess_response};
use pairing::{Answers, Method, Pairing, Pending};
use reader::{Head, HeadBytes, Hole, Input, Reader, Role, Step};
use std::collections::VecDeque;

/// One TCP connection that may carry HTTP.
///
/// Which side is the client is learnt from what is said. As long as nothing is recognised, each
/// call's slice is looked at only where it begins, so that a connection captured from the middle
/// of a long response is taken up at its next message.
#[derive(Debug)]
pub struct Connection {
    limits: Limits,
    protocol: Protocol,
    client: Option<Side>,
    /// What came before the roles were known, by side.
    openings: [Opening; 2],
    requests: Reader,
    responses: Reader,
    /// The request whose body is being read.
    request: Option<Open>,
    /// The response whose body is being read.
    response: Option<Open>,
    pairing: Pairing,
    /// A response's head whose request may still come; what follows it is held.
    waiting: Option<Box<Waiting>>,
    held: VecDeque<Held>,
    held_bytes: usize,
    /// The next exchange's number.
    next: u32,
    /// Whether any head was read: then the roles are certain.
    certain: bool,
    /// Nothing is read any more.
    over: bool,
    /// The first reset.
    reset: Option<At>,
    /// Reads all that comes, when it is HTTP/2.
    h2: Option<Box<h2::Connection>>,
}

/// What a connection carries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protocol {
    /// Too few bytes to tell.
    #[default]
    Undecided,
    /// HTTP/1.0 or HTTP/1.1.
    Http,
    /// TLS.
    Tls,
    /// HTTP/2.
    Http2,
    /// Something else, or the middle of something; it becomes `Http` when a message begins, and `Http2` when
    /// frames do.
    Other,
}

/// Numbers exchanges of one connection from 0, in order of requests. A response without request
/// has a number of its own; in HTTP/2 its request may still come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ExchangeNo(pub u32);

/// How the body of a response ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyEnd {
    /// By the last chunk or the content length, or there is none.
    Complete,
    /// The server's FIN ended a body without length: that is its end, also when bytes before it
    /// are missing.
    CloseDelimited,
    /// The connection was closed or reset, or the evidence ended, before the body did.
    Cut,
    /// A hole or a broken chunk swallowed the framing: where the body ended is not known.
    Lost,
}

/// How a stream of HTTP/2 ended without END_STREAM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamEnd {
    /// The client's RST_STREAM: what comes on it afterwards is still told.
    ResetByClient,
    /// The server's RST_STREAM. `refused`: it did nothing with the request.
    ResetByServer {
        /// The code is REFUSED_STREAM.
        refused: bool,
    },
    /// The server's GOAWAY says that it did, and will do, nothing with the request.
    Refused,
}

/// What a connection's reader tells. Exchanges of HTTP/2 are told interleaved. All positions are of the wire: [`At::offset`] lies just past
/// the byte meant, in the stream of its direction.
pub trait Sink {
    /// A request's head, from its first to its last byte.
    fn request(&mut self, exchange: ExchangeNo, head: &RequestHead<'_>, first: At, last: At);
    /// A piece of a request's body without transfer and content coding, at the wire byte that
    /// completed it.
    fn request_body(&mut self, exchange: ExchangeNo, bytes: &[u8], at: At);
    /// A request's end. `complete`: every byte of it was seen and decoded.
    fn request_end(&mut self, exchange: ExchangeNo, complete: bool, at: At);
    /// The head of a final response (no 1xx), from its first to its last byte.
    fn response(&mut self, exchange: ExchangeNo, head: &ResponseHead<'_>, first: At, last: At);
    /// A piece of a response's body without transfer and content coding, at the wire byte that
    /// completed it.
    fn response_body(&mut self, exchange: ExchangeNo, bytes: &[u8], at: At);
    /// Bytes are missing here; 0 when how many is not known, or when bytes are there but not
    /// readable. Body pieces may follow. In a [`Part::ResponseHead`]: this exchange was probably
    /// answered, by a response that is missing or could not be paired.
    fn hole(&mut self, exchange: ExchangeNo, part: Part, bytes: u64, at: At);
    /// Between these times a request and its response may both be missing: bytes of both directions
    /// are. `None` for the beginning and the end of the connection.
    fn blank(&mut self, from: Option<Timestamp>, until: Option<Timestamp>);
    /// A content coding of the response cannot be undone from here on.
    fn undecodable(&mut self, exchange: ExchangeNo, at: At);
    /// A response's end. `wire_bytes`: the bytes of its body seen, after transfer decoding and
    /// before content decoding. Of a [`BodyEnd::Cut`] after a reset, `at` is the reset, also when
    /// bytes came after it.
    fn response_end(&mut self, exchange: ExchangeNo, how: BodyEnd, wire_bytes: u64, at: At);
    /// A stream of HTTP/2 is over, by other means than END_STREAM. Told once for an exchange; a
    /// [`response_end`](Self::response_end) may come before or after it.
    fn stream_end(&mut self, exchange: ExchangeNo, how: StreamEnd, at: At);
    /// The server takes no new streams; it goes on with those it has.
    fn goaway(&mut self, at: At);
    /// Something odd; reading goes on.
    fn anomaly(&mut self, kind: Kind, at: At, detail: Prose);
}

impl Connection {
    /// A connection of which nothing was seen yet.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            protocol: Protocol::Undecided,
            client: None,
            openings: Default::default(),
            requests: Reader::new(Role::Requests),
            responses: Reader::new(Role::Responses),
            request: None,
            response: None,
            pairing: Pairing::default(),
            waiting: None,
            held: VecDeque::new(),
            held_bytes: 0,
            next: 0,
            certain: false,
            over: false,
            reset: None,
            h2: None,
        }
    }

    /// What the connection carries, as far as it is known.
    #[must_use]
    pub const fn protocol(&self) -> Protocol {
        self.protocol
    }

    /// Who speaks as the client, once it is known.
    #[must_use]
    pub const fn client(&self) -> Option<Side> {
        self.client
    }

    /// Whether it carries requests or responses of HTTP/2 and none of their heads could be read.
    #[must_use]
    pub fn is_unread_http2(&self) -> bool {
        self.h2.as_ref().is_some_and(|h2| h2.is_unread())
    }

    /// Says, before the first byte, that what `sender` sent first is not in the capture.
    ///
    /// Without it a response that comes before any request is taken for reordered, and waits for
    /// the next request; with it that response stays without request.
    pub fn midstream(&mut self, sender: Side) {
        if self.client.is_none() {
            let opening = self.opening(sender);
            opening.missed = true;
            opening.torn = true;
        }
    }

    /// Bytes of `sender` that end at `at`.
    pub fn data(&mut self, sender: Side, bytes: &[u8], at: At, out: &mut impl Sink) {
        if self.over || bytes.is_empty() {
            return;
        }
        if let (Some(h2), Some(client)) = (&mut self.h2, self.client) {
            return h2.data(role(sender, client), bytes, at, out);
        }
        match self.client {
            None => self.open(sender, bytes, at, out),
            Some(client) if sender == client => self.request_bytes(bytes, at, out),
            Some(_) => self.response_bytes(bytes, at, out),
        }
    }

    /// So many bytes of `sender` are missing before what comes next, at `at`.
    pub fn hole(&mut self, sender: Side, bytes: u64, at: At, out: &mut impl Sink) {
        if self.over || bytes == 0 {
            return;
        }
        if let (Some(h2), Some(client)) = (&mut self.h2, self.client) {
            return h2.hole(role(sender, client), bytes, at, out);
        }
        match self.client {
            None => {
                let opening = self.opening(sender);
                *opening = Opening {
                    missed: true,
                    torn: true,
                    missing: opening.missing.saturating_add(bytes),
                    spoke: opening.spoke,
                    closed: opening.closed,
                    ..Opening::default()
                };
            }
            Some(client) if sender == client => self.request_hole(bytes, at, out),
            Some(_) if self.waiting.is_some() => self.hold(Held::Hole { bytes, at }, out),
            Some(_) => self.response_hole(bytes, at, out),
        }
    }

    /// No more bytes come from `sender`; all before were given.
    pub fn fin(&mut self, sender: Side, at: At, out: &mut impl Sink) {
        self.close(sender, true, at, out);
    }

    /// `sender` reset the connection. What the other side sent all the same is still read.
    pub fn rst(&mut self, sender: Side, at: At, out: &mut impl Sink) {
        self.reset.get_or_insert(at);
        self.close(sender, false, at, out);
    }

    /// Nothing more comes.
    pub fn finish(&mut self, at: At, out: &mut impl Sink) {
        if let Some(h2) = &mut self.h2
            && !self.over
        {
            h2.finish(at, out);
            return self.stop();
        }
        if self.client.is_some() && !self.over {
            self.end_requests(at, out);
            self.end_responses(false, at, out);
        }
        // What is missing before the bytes that are there may be all that could be read.
        let openings = &self.openings;
        let torn = openings.iter().all(|opening| opening.torn);
        let spoke = openings
            .iter()
            .any(|opening| opening.spoke || opening.missing > 0);
        if self.client.is_none() && !self.over && torn && spoke {
            out.blank(None, None);
        }
        self.stop();
    }

    fn close(&mut self, sender: Side, fin: bool, at: At, out: &mut impl Sink) {
        if self.over {
            return;
        }
        if let (Some(h2), Some(client)) = (&mut self.h2, self.client) {
            return h2.close(role(sender, client), !fin, at, out);
        }
        match self.client {
            None => self.opening(sender).closed = true,
            Some(client) if sender == client => self.end_requests(at, out),
            Some(_) if self.waiting.is_some() => self.hold(Held::Close { fin, at }, out),
            Some(_) => self.end_responses(fin, at, out),
        }
    }

    // Before the roles are known

    fn opening(&mut self, side: Side) -> &mut Opening {
        let [a, b] = &mut self.openings;
        match side {
            Side::A => a,
            Side::B => b,
        }
    }

    /// Looks what the bytes of a side begin with.
    fn open(&mut self, sender: Side, bytes: &[u8], at: At, out: &mut impl Sink) {
        let opening = self.opening(sender);
        opening.spoke = true;
        let (missed, before) = (opening.missed, opening.bytes.len());
        let mut begins = if before == 0 {
            begins(bytes, missed)
        } else {
            opening.bytes.extend_from_slice(bytes);
            begins(&opening.bytes, missed)
        };
        if begins == Begins::Other && missed && before > 0 {
            // The earlier piece began with what looked like a start; perhaps this one does.
            opening.clear();
            begins = self::begins(bytes, missed);
        }
        let opening = self.opening(sender);
        if begins == Begins::More && opening.bytes.len() > MAX_OPENING {
            begins = Begins::Other;
        }
        match begins {
            Begins::Request | Begins::Response | Begins::Http2(_) | Begins::More => {
                if opening.bytes.is_empty() {
                    opening.bytes.extend_from_slice(bytes);
                }
                opening.pieces.push((opening.bytes.len(), at));
                match begins {
                    Begins::Request => self.assign(sender, sender, out),
                    Begins::Response => self.assign(sender.other(), sender, out),
                    Begins::Http2(by_client) => {
                        self.protocol = Protocol::Http2;
                        let client = if by_client { sender } else { sender.other() };
                        self.assign(client, sender, out);
                    }
                    _ => {}
                }
            }
            Begins::Tls => {
                self.protocol = Protocol::Tls;
                self.stop();
                out.anomaly(Kind::OpaqueTls, at, "a TLS record comes first".into());
            }
            Begins::Other => {
                opening.clear();
                opening.missed = true;
                self.protocol = Protocol::Other;
            }
            Begins::Foreign => {
                self.protocol = Protocol::Other;
                self.stop();
            }
        }
    }

    /// The roles are known, by what `decider` said.
    fn assign(&mut self, client: Side, decider: Side, out: &mut impl Sink) {
        self.client = Some(client);
        let is_http2 = self.protocol == Protocol::Http2;
        if !is_http2 {
            self.protocol = Protocol::Http;
        }
        let first = std::mem::take(self.opening(decider));
        let second = std::mem::take(self.opening(decider.other()));
        let (of_client, of_server) = if client == decider {
            (&first, &second)
        } else {
            (&second, &first)
        };
        if is_http2 {
            // Where the preface is there, the client's beginning is, whatever was said of it; and what the
            // server said before was no head.
            let of_client = of_client.missed && !of_client.bytes.starts_with(h2::PREFACE);
            let of_server = of_server.missed && (of_client || of_server.missing > 0);
            let h2 = h2::Connection::new(self.limits, self.next, [of_client, of_server]);
            self.h2 = Some(Box::new(h2));
        } else if of_client.missed {
            self.requests.hunt();
            self.pairing
                .request_gap(of_client.missing, At::default(), true);
        }
        if of_server.missed && !is_http2 {
            self.responses.hunt();
            self.pairing.doubt_responses();
        }
        let (client_closed, server_closed) = (of_client.closed, of_server.closed);
        for (side, opening) in [(decider, &first), (decider.other(), &second)] {
            let mut from = 0;
            for (end, at) in &opening.pieces {
                let piece = opening.bytes.get(from..*end).unwrap_or_default();
                from = *end;
                self.data(side, piece, *at, out);
            }
        }
        if self.client.is_none() {
            self.opening(client).closed = client_closed;
            self.opening(client.other()).closed = server_closed;
            return;
        }
        let last = |opening: &Opening| opening.pieces.last().map_or(At::default(), |(_, at)| *at);
        let (client_last, server_last) = if client == decider {
            (last(&first), last(&second))
        } else {
            (last(&second), last(&first))
        };
        if client_closed {
            self.close(client, true, client_last, out);
        }
        if server_closed {
            self.close(client.other(), true, server_last, out);
        }
    }

    /// What looked like the first head is none: the roles are unknown again.
    fn unassign(&mut self) {
        let missed = || Opening {
            missed: true,
            ..Opening::default()
        };
        self.client = None;
        self.protocol = Protocol::Other;
        self.openings = [missed(), missed()];
        self.requests = Reader::new(Role::Requests);
        self.responses = Reader::new(Role::Responses);
        self.pairing = Pairing::default();
    }

    // The client's direction

    fn request_bytes(&mut self, bytes: &[u8], at: At, out: &mut impl Sink) {
        self.read_requests(bytes, at, true, out);
        if !self.requests.in_head() {
            self.pairing.settle();
        }
        self.release(out);
    }

    fn read_requests(&mut self, bytes: &[u8], at: At, fresh: bool, out: &mut impl Sink) {
        let mut input = Input::new(bytes, at, fresh);
        loop {
            match self.requests.step(&mut input, &self.limits) {
                Step::More => return,
                Step::Head(head) => self.request_head(&head, out),
                Step::Data(data) => self.request_data(data, input.here(), out),
                Step::End => self.end_request(true, input.here(), out),
                Step::NotHttp => {
                    let here = input.here();
                    out.anomaly(
                        Kind::NotHttp,
                        here,
                        "no request where one should begin".into(),
                    );
                    self.pairing.request_gap(0, here, true);
                    self.doubt_roles();
                }
                Step::HeadLimit => {
                    let here = input.here();
                    out.anomaly(Kind::HeadLimit, here, self.head_limit());
                    self.pairing.request_gap(0, here, true);
                    self.doubt_roles();
                }
                Step::BadChunk(what) => {
                    let here = input.here();
                    out.anomaly(Kind::BadChunk, here, what.into());
                    self.tear_request(0, here, out);
                    self.pairing.request_gap(0, here, true);
                }
                Step::Found(pieces) => {
                    for (piece, at) in pieces {
                        self.read_requests(&piece, at, false, out);
                    }
                }
            }
            if self.client.is_none() {
                return;
            }
        }
    }

    fn request_head(&mut self, head: &Head<'_>, out: &mut impl Sink) {
        let (first, last) = (head.first, head.last);
        let result = head::request(head.bytes.get(), self.limits.headers, |parsed, odd| {
            self.certain = true;
            // Its framing was lost, and another request has begun.
            if let Some(open) = self.request.take() {
                out.request_end(open.no, false, open.last);
            }
            if let Some(odd) = odd {
                out.anomaly(Kind::BadHead, last, prose!("request: {}", odd));
            }
            let declared = Declared::read(parsed.headers, parsed.version);
            if let Some(odd) = declared.odd {
                out.anomaly(Kind::BodyFraming, last, prose!("request: {}", odd));
            }
            let no = self.number();
            let pending = Pending {
                no,
                method: match parsed.method {
                    "HEAD" => Method::Head,
                    "CONNECT" => Method::Connect,
                    _ => Method::Other,
                },
                time: first.time,
                in_hole: false,
            };
            let idle = self.response.is_none() && self.waiting.is_none();
            let (given_up, full) = self.pairing.request(pending, idle, self.limits.pipelined);
            if full {
                out.anomaly(
                    Kind::UnpairedResponse,
                    last,
                    "more requests wait for a response than the limit".into(),
                );
            }
            for given_up in given_up {
                out.hole(given_up, Part::ResponseHead, 0, first);
            }
            out.request(no, parsed, first, last);
            let framing = declared.of_request();
            self.request = Some(Open::new(no, declared, last));
            framing
        });
        match result {
            Ok(framing) => {
                self.requests.body(framing);
                if framing == Framing::Empty {
                    self.end_request(true, last, out);
                }
            }
            Err(error) => {
                self.requests.refuse();
                if self.refused(error, "request", head, out) {
                    self.pairing.request_gap(0, last, true);
                }
                self.doubt_roles();
            }
        }
    }

    fn request_data(&mut self, data: &[u8], at: At, out: &mut impl Sink) {
        let Some(open) = &mut self.request else {
            return;
        };
        open.last = at;
        let no = open.no;
        let pushed = open.decoding.push(data, &self.limits, |piece| {
            out.request_body(no, piece, at);
        });
        if let Err(fault) = pushed {
            open.whole = false;
            let (kind, detail) = fault.describe("request");
            out.anomaly(kind, at, detail);
        }
    }

    fn request_hole(&mut self, bytes: u64, at: At, out: &mut impl Sink) {
        match self.requests.hole(bytes) {
            Hole::Inside => self.tear_request(bytes, at, out),
            Hole::Ends { inside, beyond } => {
                if inside > 0 {
                    self.tear_request(inside, at, out);
                }
                self.end_request(true, at, out);
                if beyond > 0 {
                    self.pairing.request_gap(beyond, at, false);
                }
            }
            Hole::Lost => {
                self.tear_request(bytes, at, out);
                self.pairing.request_gap(bytes, at, false);
            }
            Hole::Outside => self.pairing.request_gap(bytes, at, false),
            Hole::Ignored => {}
        }
    }

    /// Bytes of the request's body are missing.
    fn tear_request(&mut self, bytes: u64, at: At, out: &mut impl Sink) {
        if let Some(open) = &mut self.request {
            open.whole = false;
            open.decoding.hole();
            out.hole(open.no, Part::Request, bytes, at);
        }
    }

    fn end_request(&mut self, complete: bool, at: At, out: &mut impl Sink) {
        if let Some(open) = self.request.take() {
            out.request_end(open.no, complete && open.whole, at);
        }
    }

    /// The client sends nothing more.
    fn end_requests(&mut self, at: At, out: &mut impl Sink) {
        self.end_request(false, at, out);
        self.requests.stop();
        self.pairing.close();
        self.release(out);
    }

    // The server's direction

    fn response_bytes(&mut self, bytes: &[u8], at: At, out: &mut impl Sink) {
        if self.waiting.is_some() {
            let bytes = bytes.to_vec();
            return self.hold(Held::Data { bytes, from: 0, at }, out);
        }
        let left = self.read_responses(bytes, at, true, out);
        if left > 0 {
            let kept = bytes.get(bytes.len().saturating_sub(left)..);
            let bytes = kept.unwrap_or_default().to_vec();
            self.held.push_back(Held::Data { bytes, from: 0, at });
        }
        self.held_bytes = self.held.iter().map(Held::cost).sum();
    }

    /// Reads on until the input is used up or a response waits; returns how many bytes are left.
    fn read_responses(&mut self, bytes: &[u8], at: At, fresh: bool, out: &mut impl Sink) -> usize {
        let mut input = Input::new(bytes, at, fresh);
        loop {
            match self.responses.step(&mut input, &self.limits) {
                Step::More => return 0,
                Step::Head(head) => self.response_head(head, out),
                Step::Data(data) => self.response_data(data, input.here(), out),
                Step::End => self.end_response(BodyEnd::Complete, input.here(), out),
                Step::NotHttp => {
                    let here = input.here();
                    out.anomaly(
                        Kind::NotHttp,
                        here,
                        "no response where one should begin".into(),
                    );
                    self.miss_response(0, here, out);
                    self.doubt_roles();
                }
                Step::HeadLimit => {
                    let here = input.here();
                    out.anomaly(Kind::HeadLimit, here, self.head_limit());
                    if !self.responses.is_lost() {
                        self.miss_response(0, here, out);
                    }
                    self.doubt_roles();
                }
                Step::BadChunk(what) => {
                    let here = input.here();
                    out.anomaly(Kind::BadChunk, here, what.into());
                    self.tear_response(0, here, out);
                    self.pairing.doubt_responses();
                }
                Step::Found(pieces) => {
                    let mut pieces = pieces.into_iter();
                    for (bytes, at) in pieces.by_ref() {
                        if let Some(h2) = &mut self.h2 {
                            h2.data(Role::Responses, &bytes, at, out);
                            continue;
                        }
                        let left = self.read_responses(&bytes, at, false, out);
                        if self.waiting.is_some() {
                            let from = bytes.len().saturating_sub(left);
                            self.held.push_back(Held::Data { bytes, from, at });
                            break;
                        }
                    }
                    self.held
                        .extend(pieces.map(|(bytes, at)| Held::Data { bytes, from: 0, at }));
                }
            }
            if self.waiting.is_some() {
                return input.left();
            }
            if let Some(h2) = &mut self.h2 {
                let rest = input.take(input.left());
                h2.data(Role::Responses, rest, at, out);
                return 0;
            }
            if self.over || self.client.is_none() {
                return 0;
            }
        }
    }

    fn response_head(&mut self, head: Head<'_>, out: &mut impl Sink) {
        if self.try_response(&head, out) {
            let bytes = match head.bytes {
                HeadBytes::Slice(bytes) => bytes.to_vec(),
                HeadBytes::Buffer(bytes) => bytes,
            };
            self.waiting = Some(Box::new(Waiting {
                bytes,
                first: head.first,
                last: head.last,
                searched: head.searched,
            }));
        }
    }

    /// Reads a response's head. Returns whether it has to wait for its request.
    fn try_response(&mut self, head: &Head<'_>, out: &mut impl Sink) -> bool {
        let (first, last) = (head.first, head.last);
        let lost = self.response.is_some();
        let read = head::response(head.bytes.get(), self.limits.headers, |parsed, odd| {
            // In a body whose framing is lost, text may look like a head.
            if lost && !self.pairing.expects() {
                return Read::Refused;
            }
            self.certain = true;
            if parsed.status == 101 && upgrades_to_http2(parsed) && self.pairing.may_wait() {
                return Read::Wait;
            }
            if (100..200).contains(&parsed.status) {
                self.end_response(BodyEnd::Lost, first, out);
                if let Some(odd) = odd {
                    out.anomaly(Kind::BadHead, last, prose!("response: {}", odd));
                }
                if parsed.status != 101 {
                    return Read::Body(Framing::Empty);
                }
                return if upgrades_to_http2(parsed) {
                    Read::Upgrade
                } else {
                    Read::Switch
                };
            }
            let (no, method, gap) = match self.pairing.answers(first.time) {
                Answers::Wait => return Read::Wait,
                Answers::Request { request, passed } => {
                    for passed in passed {
                        out.hole(passed, Part::ResponseHead, 0, first);
                    }
                    (request.no, request.method, None)
                }
                Answers::Unknown(gap, why) => {
                    out.anomaly(Kind::UnpairedResponse, first, why.into());
                    (self.number(), Method::Other, gap)
                }
            };
            self.tell_blanks(out);
            self.end_response(BodyEnd::Lost, first, out);
            if let Some(odd) = odd {
                out.anomaly(Kind::BadHead, last, prose!("response: {}", odd));
            }
            let unfinished = |open: &Open| open.no == no && open.whole;
            if self.request.as_ref().is_some_and(unfinished) {
                let detail = prose!("status {}", parsed.status);
                out.anomaly(Kind::EarlyResponse, first, detail);
            }
            let declared = Declared::read(parsed.headers, parsed.version);
            if let Some(odd) = declared.odd {
                out.anomaly(Kind::BodyFraming, last, prose!("response: {}", odd));
            }
            let (head, connect) = (method == Method::Head, method == Method::Connect);
            let framing = declared.of_response(parsed.status, head, connect);
            out.response(no, parsed, first, last);
            if let Some((bytes, at)) = gap {
                out.hole(no, Part::Request, bytes, at);
            }
            self.response = Some(Open::new(no, declared, last));
            if connect && (200..300).contains(&parsed.status) {
                return Read::Switch;
            }
            Read::Body(framing)
        });
        match read {
            Ok(Read::Wait) => return true,
            Ok(Read::Body(framing)) => {
                self.responses.body(framing);
                if framing == Framing::Empty {
                    self.end_response(BodyEnd::Complete, last, out);
                }
            }
            Ok(Read::Switch) => {
                self.end_response(BodyEnd::Complete, last, out);
                self.end_request(false, last, out);
                self.stop();
            }
            Ok(Read::Upgrade) => self.upgrade(last, out),
            Ok(Read::Refused) => self.responses.refuse(),
            Err(error) => {
                self.responses.refuse();
                if self.refused(error, "response", head, out) && !self.responses.is_lost() {
                    self.miss_response(0, last, out);
                }
                self.doubt_roles();
            }
        }
        false
    }

    /// Goes on with HTTP/2 (RFC 7540, section 3.2): the response comes on a stream of it.
    fn upgrade(&mut self, at: At, out: &mut impl Sink) {
        self.end_request(false, at, out);
        let mut h2 = h2::Connection::new(self.limits, self.next, [false, false]);
        h2.upgrade(self.pairing.upgraded(), at);
        self.protocol = Protocol::Http2;
        self.h2 = Some(Box::new(h2));
        self.requests.stop();
        self.responses.stop();
        self.pairing = Pairing::default();
    }

    fn response_data(&mut self, data: &[u8], at: At, out: &mut impl Sink) {
        let Some(open) = &mut self.response else {
            return;
        };
        open.last = at;
        open.wire_bytes = open.wire_bytes.saturating_add(data.len() as u64);
        let no = open.no;
        let pushed = open.decoding.push(data, &self.limits, |piece| {
            out.response_body(no, piece, at);
        });
        if let Err(fault) = pushed {
            let (kind, detail) = fault.describe("response");
            out.undecodable(no, at);
            out.anomaly(kind, at, detail);
        }
    }

    fn response_hole(&mut self, bytes: u64, at: At, out: &mut impl Sink) {
        match self.responses.hole(bytes) {
            Hole::Inside => self.tear_response(bytes, at, out),
            Hole::Ends { inside, beyond } => {
                if inside > 0 {
                    self.tear_response(inside, at, out);
                }
                self.end_response(BodyEnd::Complete, at, out);
                if beyond > 0 {
                    self.miss_response(beyond, at, out);
                }
            }
            Hole::Lost => {
                self.tear_response(bytes, at, out);
                self.pairing.doubt_responses();
            }
            Hole::Outside => self.miss_response(bytes, at, out),
            Hole::Ignored => {}
        }
    }

    /// Bytes of the response's body are missing, or cannot be read.
    fn tear_response(&mut self, bytes: u64, at: At, out: &mut impl Sink) {
        if let Some(open) = &mut self.response {
            out.hole(open.no, Part::ResponseBody, bytes, at);
            if open.decoding.hole() {
                out.undecodable(open.no, at);
            }
        }
    }

    /// The head of a response is missing, or cannot be read.
    fn miss_response(&mut self, bytes: u64, at: At, out: &mut impl Sink) {
        if let Some(no) = self.pairing.response_gap() {
            out.hole(no, Part::ResponseHead, bytes, at);
        }
    }

    fn end_response(&mut self, how: BodyEnd, at: At, out: &mut impl Sink) {
        if let Some(open) = self.response.take() {
            // Where a lost body ended is not known: what was read last is nearest.
            let at = match how {
                BodyEnd::Lost => open.last,
                _ => at,
            };
            out.response_end(open.no, how, open.wire_bytes, at);
        }
    }

    /// The server sends nothing more.
    fn end_responses(&mut self, fin: bool, at: At, out: &mut impl Sink) {
        let lost = self.responses.is_lost();
        let how = if lost {
            BodyEnd::Lost
        } else if fin && self.responses.ends_with_close() {
            BodyEnd::CloseDelimited
        } else {
            BodyEnd::Cut
        };
        if let Some(open) = self.response.take() {
            let end = match how {
                BodyEnd::CloseDelimited => at,
                _ => self.reset.unwrap_or(at),
            };
            out.response_end(open.no, how, open.wire_bytes, end);
        }
        self.responses.stop();
        for no in self.pairing.perhaps_answered() {
            out.hole(no, Part::ResponseHead, 0, at);
        }
        self.tell_blanks(out);
    }

    fn tell_blanks(&mut self, out: &mut impl Sink) {
        for (from, until) in self.pairing.take_blanks() {
            out.blank(from, until);
        }
    }

    // Responses that wait for their request

    /// Keeps what follows a response that waits; beyond the limit nothing waits any longer.
    fn hold(&mut self, held: Held, out: &mut impl Sink) {
        self.held_bytes = self.held_bytes.saturating_add(held.cost());
        self.held.push_back(held);
        if self.held_bytes > self.limits.early_response {
            self.pairing.give_up_waiting();
            self.release(out);
        }
    }

    /// Goes on with what waits, as far as it need not wait any longer.
    fn release(&mut self, out: &mut impl Sink) {
        let Some(waiting) = self.waiting.take() else {
            return;
        };
        let head = Head {
            bytes: HeadBytes::Buffer(waiting.bytes),
            first: waiting.first,
            last: waiting.last,
            searched: waiting.searched,
        };
        self.response_head(head, out);
        while self.waiting.is_none()
            && let Some(held) = self.held.pop_front()
        {
            self.held_bytes = self.held_bytes.saturating_sub(held.cost());
            if let Some(h2) = &mut self.h2 {
                match held {
                    Held::Data { bytes, from, at } => {
                        let bytes = bytes.get(from..).unwrap_or_default();
                        h2.data(Role::Responses, bytes, at, out);
                    }
                    Held::Hole { bytes, at } => h2.hole(Role::Responses, bytes, at, out),
                    Held::Close { fin, at } => h2.close(Role::Responses, !fin, at, out),
                }
                continue;
            }
            match held {
                Held::Data { bytes, from, at } => self.replay(bytes, from, at, out),
                Held::Hole { bytes, at } => self.response_hole(bytes, at, out),
                Held::Close { fin, at } => self.end_responses(fin, at, out),
            }
        }
    }

    /// Reads a held piece from `from` on; what has to wait again goes back in front.
    fn replay(&mut self, bytes: Vec<u8>, from: usize, at: At, out: &mut impl Sink) {
        let later = std::mem::take(&mut self.held);
        let piece = bytes.get(from..).unwrap_or_default();
        let left = self.read_responses(piece, at, from == 0, out);
        let found = std::mem::replace(&mut self.held, later);
        if left > 0 {
            let from = bytes.len().saturating_sub(left);
            self.hold_in_front(Held::Data { bytes, from, at });
        }
        for held in found.into_iter().rev() {
            self.hold_in_front(held);
        }
    }

    fn hold_in_front(&mut self, held: Held) {
        self.held_bytes = self.held_bytes.saturating_add(held.cost());
        self.held.push_front(held);
    }

    // Common to both

    fn number(&mut self) -> ExchangeNo {
        let no = ExchangeNo(self.next);
        self.next = self.next.saturating_add(1);
        no
    }

    /// A head that is none. Returns whether a message should have begun there.
    fn refused(
        &self,
        error: HeadError,
        what: &'static str,
        head: &Head<'_>,
        out: &mut impl Sink,
    ) -> bool {
        match error {
            HeadError::TooManyHeaders => {
                let detail = prose!("{} with more than {} headers", what, self.limits.headers);
                out.anomaly(Kind::HeadLimit, head.last, detail);
            }
            HeadError::StartLine if !head.searched => {
                let detail = prose!("{}: its first line cannot be read", what);
                out.anomaly(Kind::BadHead, head.last, detail);
            }
            // Something looked like a head, no more.
            HeadError::StartLine => return false,
        }
        true
    }

    /// The roles were guessed from what turned out to be no head.
    fn doubt_roles(&mut self) {
        if !self.certain {
            self.unassign();
        }
    }

    fn head_limit(&self) -> Prose {
        prose!("a head of more than {} bytes", self.limits.head)
    }

    /// Reads nothing more, and gives back all memory.
    fn stop(&mut self) {
        self.over = true;
        self.requests.stop();
        self.responses.stop();
        self.openings = Default::default();
        self.pairing = Pairing::default();
        self.waiting = None;
        self.held = VecDeque::new();
        self.held_bytes = 0;
        if let Some(h2) = &mut self.h2 {
            h2.stop();
        }
    }
}

/// What a side said before the roles were known.
#[derive(Debug, Default)]
struct Opening {
    bytes: Vec<u8>,
    /// The pieces they came in: where each ends, and when.
    pieces: Vec<(usize, At)>,
    /// What comes may not be the side's first bytes.
    missed: bool,
    /// Bytes of it are not in the capture.
    torn: bool,
    /// How many, as far as that is known.
    missing: u64,
    /// Bytes of it were seen, readable or not.
    spoke: bool,
    closed: bool,
}

impl Opening {
    fn clear(&mut self) {
        self.bytes = Vec::new();
        self.pieces = Vec::new();
    }
}

/// A message whose body is being read.
#[derive(Debug)]
struct Open {
    no: ExchangeNo,
    decoding: Decoding,
    wire_bytes: u64,
    /// Nothing of it is missing or lost.
    whole: bool,
    /// Of what was read last.
    last: At,
}

impl Open {
    fn new(no: ExchangeNo, declared: Declared, last: At) -> Self {
        Self {
            no,
            decoding: Decoding::new(declared.codings),
            wire_bytes: 0,
            whole: true,
            last,
        }
    }
}

#[derive(Debug)]
struct Waiting {
    bytes: Vec<u8>,
    first: At,
    last: At,
    searched: bool,
}

/// What came from the server after a response that waits.
#[derive(Debug)]
enum Held {
    /// Bytes, of which those before `from` are read.
    Data {
        bytes: Vec<u8>,
        from: usize,
        at: At,
    },
    Hole {
        bytes: u64,
        at: At,
    },
    Close {
        fin: bool,
        at: At,
    },
}

impl Held {
    /// What it counts against [`Limits::early_response`]: its bytes and what keeps them.
    fn cost(&self) -> usize {
        let bytes = match self {
            Self::Data { bytes, .. } => bytes.len(),
            Self::Hole { .. } | Self::Close { .. } => 0,
        };
        bytes.saturating_add(size_of::<Self>())
    }
}

/// What became of a response's head.
enum Read {
    Body(Framing),
    /// The connection carries something else from here on.
    Switch,
    /// It carries HTTP/2 from here on.
    Upgrade,
    Wait,
    Refused,
}

/// What a side's first bytes are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Begins {
    More,
    Request,
    Response,
    Tls,
    /// HTTP/2; whether the client said it.
    Http2(bool),
    /// Unknown: HTTP may come later.
    Other,
    /// A protocol that never becomes HTTP.
    Foreign,
}

/// Recognises the first bytes of a side; `missed`: they may come from the middle of something.
fn begins(bytes: &[u8], missed: bool) -> Begins {
    let mut bytes = bytes;
    if bytes.starts_with(h2::PREFACE) {
        return Begins::Http2(true);
    }
    if !missed {
        let sure: [(&[u8], Begins); 4] = [
            (HTTP2_PREFACE, Begins::Http2(true)),
            (b"SSH-", Begins::Foreign),
            (b"\x16\x03", Begins::Tls),
            // Application data, when the handshake is not in the capture.
            (b"\x17\x03", Begins::Tls),
        ];
        for (start, what) in sure {
            if bytes.starts_with(start) {
                return what;
            }
            if start.starts_with(bytes) {
                return Begins::More;
            }
        }
        // A server may say its settings before the client's preface is captured.
        match h2::are_settings(bytes) {
            Some(true) => return Begins::Http2(false),
            None => return Begins::More,
            Some(false) => {}
        }
        while let [b'\r' | b'\n', rest @ ..] = bytes {
            bytes = rest;
        }
    }
    if missed {
        match h2::guess(bytes) {
            h2::Guess::Client => return Begins::Http2(true),
            h2::Guess::Server => return Begins::Http2(false),
            h2::Guess::Frames if !bytes.is_empty() => return Begins::More,
            _ => {}
        }
    }
    match (guess_request(bytes, missed), guess_response(bytes, missed)) {
        (Guess::Yes, _) => Begins::Request,
        (_, Guess::Yes) => Begins::Response,
        (Guess::More, _) | (_, Guess::More) => Begins::More,
        (Guess::No, Guess::No) => Begins::Other,
    }
}

/// What `sender` says on a connection of this client.
fn role(sender: Side, client: Side) -> Role {
    if sender == client {
        Role::Requests
    } else {
        Role::Responses
    }
}

/// Whether a 101 says that HTTP/2 follows (RFC 7540, section 3.2).
fn upgrades_to_http2(head: &ResponseHead<'_>) -> bool {
    head.headers.iter().any(|(name, value)| {
        name.eq_ignore_ascii_case("upgrade") && value.eq_ignore_ascii_case(b"h2c")
    })
}

impl Fault {
    /// Its kind and an example's text.
    fn describe(self, what: &'static str) -> (Kind, Prose) {
        match self {
            Self::Undecodable(why) => (Kind::UndecodableBody, prose!("{}: {}", what, why)),
            Self::Expansion(why) => (Kind::DecompressionLimit, prose!("{}: {}", what, why)),
        }
    }
}

impl HeadBytes<'_> {
    fn get(&self) -> &[u8] {
        match self {
            Self::Slice(bytes) => bytes,
            Self::Buffer(bytes) => bytes,
        }
    }
}

/// Bytes of a side kept until the roles are known: more than the longest first line waited for.
const MAX_OPENING: usize = 16 << 10;
/// RFC 9113, section 3.4, its first line.
const HTTP2_PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n";

#[cfg(test)]
mod tests;
