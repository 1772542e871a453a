//! HTTP/2 as a bystander reads it (RFC 9113): the two ordered byte streams of a connection become frames,
//! and those the requests, responses and body pieces of its streams.
//!
//! As with HTTP/1 nothing is rejected, and loss costs no more than it must. A hole within a frame's payload
//! is passed over, for its length is known. After a hole over the beginning of a frame the next one is
//! looked for. A header block that is missing takes the header table with it: later heads that refer to it
//! are known in part only, and such a head is never told as if it were whole.

mod frame;
mod hpack;

pub(super) use frame::{Guess, PREFACE, are_settings, guess};

use super::{
    BodyEnd, ExchangeNo, Open, RequestHead, ResponseHead, Sink, StreamEnd,
    framing::Declared,
    reader::{Input, Role},
};
use crate::{
    anomaly::Kind as Odd,
    limits::Limits,
    model::{
        exchange::{HttpVersion, Part},
        place::At,
        prose::prose,
        time::Timestamp,
    },
};
use frame::{Frame, Header, Hole, Kind, Reader, Step};
use hpack::{Decoder, Fields};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// One connection that carries HTTP/2.
#[derive(Debug)]
pub(super) struct Connection {
    limits: Limits,
    requests: Direction,
    responses: Direction,
    /// Streams of the client that are not closed.
    streams: BTreeMap<u32, Stream>,
    /// Those closed last: what comes on them still is no new exchange.
    closed: BTreeSet<u32>,
    /// Those that the client gave up and the server may still be sending on, the oldest first.
    given_up: VecDeque<u32>,
    /// The highest stream that the client opened.
    newest: u32,
    /// The next exchange's number.
    next: u32,
    /// The highest stream that the server says it will answer.
    last_answered: Option<u32>,
    /// When the last request began.
    last_request: Option<Timestamp>,
    /// Requests may be missing; the time of the last one before those.
    requests_missing: Option<Option<Timestamp>>,
    /// Bytes came on a stream of which the beginning is missing.
    headless: bool,
    /// The first reset of the connection.
    reset: Option<At>,
    /// Heads that were read, and those that could not be.
    heads: [u64; 2],
}

/// One direction of it.
#[derive(Debug)]
struct Direction {
    reader: Reader,
    headers: Decoder,
    /// The header block that is being read.
    block: Option<Block>,
    /// Frames may be missing: it was joined late, or lost its framing.
    lossy: bool,
    /// Streams that said something since framing was last lost, or wait for it: what is lost may be theirs.
    touched: Vec<u32>,
}

#[derive(Debug)]
struct Block {
    kind: Kind,
    stream: u32,
    ends_stream: bool,
    first: At,
    bytes: Vec<u8>,
    /// Why it cannot be read: bytes are missing, or there are too many.
    torn: bool,
    too_long: bool,
}

/// A stream of the client.
#[derive(Debug)]
struct Stream {
    /// `None` while no head of it could be read.
    no: Option<ExchangeNo>,
    first: At,
    /// The request's head was told.
    asked: bool,
    request: Half,
    response: Half,
    /// The response's head may lie in what is missing.
    perhaps_answered: bool,
    /// Who ended it first, if not by END_STREAM.
    ended: bool,
}

/// What one side says on a stream.
#[derive(Debug)]
enum Half {
    Awaited,
    /// Its head could not be read.
    Unread,
    Open {
        open: Open,
        /// Its end may lie in what is missing.
        perhaps_over: bool,
    },
    Ended,
}

impl Connection {
    /// A connection whose first exchange has the number `next`. `missed`: the first bytes of the client, and
    /// of the server, are not in the capture.
    pub(super) fn new(limits: Limits, next: u32, missed: [bool; 2]) -> Self {
        let mut connection = Self {
            limits,
            requests: Direction::new(Reader::client(), &limits),
            responses: Direction::new(Reader::server(), &limits),
            streams: BTreeMap::new(),
            closed: BTreeSet::new(),
            given_up: VecDeque::new(),
            newest: 0,
            next,
            last_answered: None,
            last_request: None,
            requests_missing: None,
            headless: false,
            reset: None,
            heads: [0; 2],
        };
        let [requests, responses] = missed;
        if requests {
            connection.requests.join_late();
            connection.requests_missing = Some(None);
        }
        if responses {
            connection.responses.join_late();
        }
        connection
    }

    /// Takes an exchange that began in HTTP/1.1 and asked to go on in HTTP/2: its response comes on stream
    /// 1 (RFC 7540, section 3.2).
    ///
    /// `None`: which one that is is not known.
    pub(super) fn upgrade(&mut self, no: Option<ExchangeNo>, at: At) {
        self.newest = 1;
        self.last_request = Some(at.time);
        let mut stream = Stream::new(at);
        stream.no = no;
        if no.is_some() {
            stream.asked = true;
            stream.request = Half::Ended;
        }
        self.streams.insert(1, stream);
        self.touch(Role::Responses, 1);
    }

    /// Whether there were requests or responses, and none could be read.
    pub(super) const fn is_unread(&self) -> bool {
        let [read, unread] = self.heads;
        read == 0 && (unread > 0 || self.headless)
    }

    /// Bytes of one side that end at `at`.
    pub(super) fn data(&mut self, role: Role, bytes: &[u8], at: At, out: &mut impl Sink) {
        self.read(role, &mut Input::new(bytes, at, true), out);
    }

    /// So many bytes of one side are missing.
    pub(super) fn hole(&mut self, role: Role, bytes: u64, at: At, out: &mut impl Sink) {
        match self.direction(role).reader.hole(bytes) {
            Hole::Inside(header, content) => self.miss(role, header, content, at, out),
            Hole::Lost(within) => {
                if let Some((header, content)) = within {
                    self.miss(role, header, content, at, out);
                }
                if let Some(frame) = self.direction(role).reader.give_up() {
                    self.frame(role, &frame, at, out);
                }
                self.lose_framing(role, at, out);
            }
            Hole::Outside => self.lose_framing(role, at, out),
            Hole::Ignored => return,
        }
        // The frame may have ended with the hole.
        self.read(role, &mut Input::new(&[], at, true), out);
    }

    /// One side sends nothing more.
    pub(super) fn close(&mut self, role: Role, reset: bool, at: At, out: &mut impl Sink) {
        if reset {
            self.reset.get_or_insert(at);
        }
        let hunting = self.direction(role).reader.is_hunting();
        self.direction(role).reader.stop();
        let numbers: Vec<u32> = self.streams.keys().copied().collect();
        for number in numbers {
            match role {
                Role::Requests => self.cut_request(number, at, out),
                Role::Responses => self.cut_response(number, at, out),
            }
        }
        if role == Role::Responses && hunting {
            // What is looked for after a hole was not found before the end.
            self.tell_blank(None, out);
        }
    }

    /// Nothing more comes.
    pub(super) fn finish(&mut self, at: At, out: &mut impl Sink) {
        if self.is_unread() {
            let detail = prose!("no head of it could be read");
            out.anomaly(Odd::OpaqueHttp2, at, detail);
        }
        let hunting = self.responses.reader.is_hunting();
        let numbers: Vec<u32> = self.streams.keys().copied().collect();
        for number in numbers {
            self.cut_request(number, at, out);
            self.cut_response(number, at, out);
            self.forget(number, at, out);
        }
        if self.headless || hunting {
            self.tell_blank(None, out);
        }
    }

    /// Reads nothing more, and gives back its memory.
    pub(super) fn stop(&mut self) {
        for role in [Role::Requests, Role::Responses] {
            let direction = self.direction(role);
            direction.reader.stop();
            direction.headers.lose();
            direction.block = None;
        }
        self.streams = BTreeMap::new();
        self.closed = BTreeSet::new();
        self.given_up = VecDeque::new();
    }

    /// A stream says something, or an answer on it is waited for.
    fn touch(&mut self, role: Role, number: u32) {
        let direction = match role {
            Role::Requests => &mut self.requests,
            Role::Responses => &mut self.responses,
        };
        if direction.touched.len() >= MOST_CLOSED {
            let streams = &self.streams;
            direction
                .touched
                .retain(|number| streams.contains_key(number));
        }
        direction.touched.push(number);
    }

    fn direction(&mut self, role: Role) -> &mut Direction {
        match role {
            Role::Requests => &mut self.requests,
            Role::Responses => &mut self.responses,
        }
    }

    // Frames

    fn read(&mut self, role: Role, input: &mut Input<'_>, out: &mut impl Sink) {
        loop {
            match self.direction(role).reader.step(input) {
                Step::More => return,
                Step::Data(number, data) => self.content(role, number, data, input.here(), out),
                Step::Block(header, bytes) => {
                    let most = self.limits.head;
                    self.direction(role).fragment(header, bytes, most);
                }
                Step::End(frame) => self.frame(role, &frame, input.here(), out),
                Step::Broken(why) => {
                    out.anomaly(Odd::BadFrame, input.here(), why.into());
                    self.lose_block(role, input.here(), out);
                }
                Step::Lost(why) => {
                    out.anomaly(Odd::BadFrame, input.here(), why.into());
                    self.lose_framing(role, input.here(), out);
                }
                Step::Found => {
                    if role == Role::Responses {
                        self.tell_blank(Some(input.here().time), out);
                    }
                }
            }
        }
    }

    fn frame(&mut self, role: Role, frame: &Frame, at: At, out: &mut impl Sink) {
        let number = frame.header.stream;
        if frame.bad_padding {
            let detail = prose!("more padding than payload");
            out.anomaly(Odd::BadFrame, at, detail);
            self.tear(role, number, 0, at, out);
        }
        match frame.header.kind {
            Kind::Headers | Kind::PushPromise | Kind::Continuation => {
                let direction = self.direction(role);
                let Some(block) = direction.take_block(frame) else {
                    // What it continues is missing.
                    direction.headers.lose();
                    return;
                };
                if frame.header.ends_block() {
                    self.head(role, &block, at, out);
                } else {
                    direction.block = Some(block);
                }
            }
            Kind::Data if frame.header.ends_stream() => self.end(role, number, at, out),
            Kind::RstStream => {
                let [code, _] = frame.numbers;
                self.stream_reset(role, number, code, at, out);
            }
            Kind::Goaway if role == Role::Responses => {
                let [last, _] = frame.numbers;
                self.goaway((!frame.torn).then_some(last), at, out);
            }
            _ => {}
        }
    }

    // Loss

    /// Bytes of a frame's content are missing.
    fn miss(&mut self, role: Role, header: Header, bytes: u64, at: At, out: &mut impl Sink) {
        // Padding that is missing takes nothing away. A header block is told to be torn when its frame ends.
        if header.kind == Kind::Data && bytes > 0 {
            self.tear(role, header.stream, bytes, at, out);
        }
    }

    /// A header block that was open is of no use.
    fn lose_block(&mut self, role: Role, at: At, out: &mut impl Sink) {
        let direction = self.direction(role);
        direction.headers.lose();
        if let Some(mut block) = direction.block.take() {
            block.torn = true;
            self.head(role, &block, at, out);
        }
    }

    /// Frames may be missing, of any stream.
    fn lose_framing(&mut self, role: Role, at: At, out: &mut impl Sink) {
        self.lose_block(role, at, out);
        let newest = self.newest;
        let direction = self.direction(role);
        direction.lossy = true;
        direction.reader.newest = direction.reader.newest.max(newest);
        if role == Role::Requests {
            self.requests_missing.get_or_insert(self.last_request);
        }
        for number in std::mem::take(&mut self.direction(role).touched) {
            let Some(stream) = self.streams.get_mut(&number) else {
                continue;
            };
            let half = match role {
                Role::Requests => &mut stream.request,
                Role::Responses => &mut stream.response,
            };
            match half {
                Half::Open { perhaps_over, .. } if !*perhaps_over => {
                    *perhaps_over = true;
                    self.tear(role, number, 0, at, out);
                }
                Half::Awaited if role == Role::Responses => stream.perhaps_answered = true,
                _ => {}
            }
        }
    }

    /// Bytes of a body are missing.
    fn tear(&mut self, role: Role, number: u32, bytes: u64, at: At, out: &mut impl Sink) {
        let Some(stream) = self.streams.get_mut(&number) else {
            return;
        };
        let half = match role {
            Role::Requests => &mut stream.request,
            Role::Responses => &mut stream.response,
        };
        let Half::Open { open, .. } = half else {
            return;
        };
        open.whole = false;
        match role {
            Role::Requests => {
                open.decoding.hole();
                out.hole(open.no, Part::Request, bytes, at);
            }
            Role::Responses => {
                out.hole(open.no, Part::ResponseBody, bytes, at);
                if open.decoding.hole() {
                    out.undecodable(open.no, at);
                }
            }
        }
    }

    /// Tells that between the last request before those that may be missing and `until`, there may be an
    /// exchange of which nothing is seen.
    fn tell_blank(&mut self, until: Option<Timestamp>, out: &mut impl Sink) {
        if let Some(from) = self.requests_missing {
            out.blank(from, until);
        }
    }

    // Heads

    /// A header block is complete, or as complete as it will be.
    fn head(&mut self, role: Role, block: &Block, at: At, out: &mut impl Sink) {
        let what = match role {
            Role::Requests => "request",
            Role::Responses => "response",
        };
        let limits = self.limits;
        let headers = &mut self.direction(role).headers;
        let mut fields = Fields::new(limits.headers, limits.head);
        let mut whole = false;
        if block.torn || block.too_long {
            headers.lose();
        } else if let Err(error) = headers.decode(&block.bytes, &mut fields) {
            let detail = prose!("{} on stream {}: {}", what, block.stream, error.about());
            out.anomaly(Odd::BadHead, at, detail);
        } else {
            whole = !fields.is_cut() && fields.unknown() == 0;
        }
        if block.too_long || fields.is_cut() {
            let detail = prose!("{} on stream {}", what, block.stream);
            out.anomaly(Odd::HeadLimit, at, detail);
        }
        if let Some(size) = fields.large_table() {
            let detail = prose!("a header table of {} bytes", size);
            out.anomaly(Odd::HeaderTableLimit, at, detail);
        }
        if let Some(odd) = fields.odd() {
            let detail = prose!("{} on stream {}: {}", what, block.stream, odd);
            out.anomaly(Odd::BadHead, at, detail);
        }
        if fields.unknown() > 0 {
            let (stream, unknown) = (block.stream, fields.unknown());
            let detail = prose!("{} on stream {}: {} fields", what, stream, unknown);
            out.anomaly(Odd::UnknownHeaders, at, detail);
        }
        // What servers push on streams of theirs is not asked for.
        if block.kind == Kind::PushPromise || block.stream.is_multiple_of(2) {
            return;
        }
        let text = Text::of(&fields);
        match role {
            Role::Requests => self.request(block, &text, whole, at, out),
            Role::Responses => self.response(block, &text, whole, at, out),
        }
    }

    fn request(
        &mut self,
        block: &Block,
        text: &Text<'_>,
        whole: bool,
        at: At,
        out: &mut impl Sink,
    ) {
        let number = block.stream;
        let known = self.streams.get(&number);
        let begun = known.map_or(number <= self.newest, |stream| {
            !matches!(stream.request, Half::Awaited)
        });
        if begun {
            // Trailers, or what comes on a stream that is closed.
            if block.ends_stream {
                self.end(Role::Requests, number, at, out);
            }
            return;
        }
        self.newest = self.newest.max(number);
        self.last_request = Some(block.first.time);
        self.make_room(at, out);
        self.touch(Role::Responses, number);
        let head = text.request().filter(|_| whole);
        self.count_head(head.is_some());
        if whole && head.is_none() {
            let detail = prose!("request on stream {}: no method and path", number);
            out.anomaly(Odd::BadHead, at, detail);
        }
        let next = &mut self.next;
        let stream = self
            .streams
            .entry(number)
            .or_insert_with(|| Stream::new(block.first));
        let Some(head) = head else {
            stream.request = if block.ends_stream {
                Half::Ended
            } else {
                Half::Unread
            };
            return self.settle(number, at, out);
        };
        let no = *stream.no.get_or_insert_with(|| take_number(next));
        let declared = Declared::read(head.headers, HttpVersion::Http2);
        out.request(no, &head, block.first, at);
        stream.asked = true;
        stream.request = Half::open(no, declared, at);
        self.touch(Role::Requests, number);
        let stream = self.streams.get(&number);
        let unanswered = stream.is_some_and(|stream| matches!(stream.response, Half::Awaited));
        if unanswered && self.last_answered.is_some_and(|last| number > last) {
            self.refuse(number, at, out);
        }
        if block.ends_stream {
            self.end(Role::Requests, number, at, out);
        }
    }

    fn response(
        &mut self,
        block: &Block,
        text: &Text<'_>,
        whole: bool,
        at: At,
        out: &mut impl Sink,
    ) {
        let number = block.stream;
        if !self.streams.contains_key(&number) {
            if !self.may_be_new(number) {
                return;
            }
            self.make_room(at, out);
            self.streams.insert(number, Stream::new(block.first));
        }
        let next = &mut self.next;
        let Some(stream) = self.streams.get_mut(&number) else {
            return;
        };
        if !matches!(stream.response, Half::Awaited) {
            // Trailers; where the first head could not be read, perhaps the second.
            if block.ends_stream {
                self.end(Role::Responses, number, at, out);
            }
            return;
        }
        let status = text.status();
        if whole && status.is_some_and(|status| (100..200).contains(&status)) && !block.ends_stream
        {
            return;
        }
        if let Some(status) = status {
            // A head known in part says little more than that there was an answer.
            let head = ResponseHead {
                status,
                version: HttpVersion::Http2,
                headers: &text.headers,
            };
            let no = *stream.no.get_or_insert_with(|| take_number(next));
            let declared = Declared::read(head.headers, HttpVersion::Http2);
            out.response(no, &head, block.first, at);
            if !whole {
                out.hole(no, Part::ResponseHead, 0, at);
            }
            stream.response = Half::open(no, declared, at);
            self.touch(Role::Responses, number);
        } else {
            if let Some(no) = stream.no {
                out.hole(no, Part::ResponseHead, 0, at);
            }
            stream.response = Half::Unread;
            if whole {
                let detail = prose!("response on stream {}: no status", number);
                out.anomaly(Odd::BadHead, at, detail);
            }
        }
        self.count_head(status.is_some());
        if block.ends_stream {
            self.end(Role::Responses, number, at, out);
        }
    }

    fn count_head(&mut self, read: bool) {
        let [known, unread] = &mut self.heads;
        let count = if read { known } else { unread };
        *count = count.saturating_add(1);
    }

    /// Whether a response may be that of a request not seen, or not seen yet.
    fn may_be_new(&self, number: u32) -> bool {
        let unseen = self.requests.lossy && !self.closed.contains(&number);
        let remembered = self.closed.len() < MOST_CLOSED || self.closed.first() < Some(&number);
        number % 2 == 1
            && (number > self.newest || unseen && remembered)
            && !self.closed.contains(&number)
    }

    // Bodies

    fn content(&mut self, role: Role, number: u32, data: &[u8], at: At, out: &mut impl Sink) {
        let limits = &self.limits;
        let Some(stream) = self.streams.get_mut(&number) else {
            if role == Role::Responses && self.may_be_new(number) {
                self.headless = true;
            }
            return;
        };
        let half = match role {
            Role::Requests => &mut stream.request,
            Role::Responses => &mut stream.response,
        };
        let Half::Open { open, perhaps_over } = half else {
            if let (Role::Responses, Half::Awaited, Some(no)) = (role, &*half, stream.no) {
                // Its head is missing.
                out.hole(no, Part::ResponseHead, 0, at);
                *half = Half::Unread;
            }
            return;
        };
        let silent = std::mem::replace(perhaps_over, false);
        open.last = at;
        open.wire_bytes = open.wire_bytes.saturating_add(data.len() as u64);
        let no = open.no;
        let pushed = open.decoding.push(data, limits, |piece| match role {
            Role::Requests => out.request_body(no, piece, at),
            Role::Responses => out.response_body(no, piece, at),
        });
        if let Err(fault) = pushed {
            let what = match role {
                Role::Requests => {
                    open.whole = false;
                    "request"
                }
                Role::Responses => {
                    out.undecodable(no, at);
                    "response"
                }
            };
            let (kind, detail) = fault.describe(what);
            out.anomaly(kind, at, detail);
        }
        if silent {
            self.touch(role, number);
        }
    }

    /// A side says nothing more on a stream.
    fn end(&mut self, role: Role, number: u32, at: At, out: &mut impl Sink) {
        let Some(stream) = self.streams.get_mut(&number) else {
            return;
        };
        match role {
            Role::Requests => {
                if let Half::Open { open, .. } = &stream.request {
                    out.request_end(open.no, open.whole, at);
                }
                if !matches!(stream.request, Half::Awaited) {
                    stream.request = Half::Ended;
                }
            }
            Role::Responses => {
                if let Half::Open { open, .. } = &stream.response {
                    out.response_end(open.no, BodyEnd::Complete, open.wire_bytes, at);
                } else if let (Half::Awaited, Some(no)) = (&stream.response, stream.no) {
                    out.hole(no, Part::ResponseHead, 0, at);
                }
                stream.response = Half::Ended;
            }
        }
        self.settle(number, at, out);
    }

    /// A request that is not complete will not be.
    fn cut_request(&mut self, number: u32, at: At, out: &mut impl Sink) {
        let Some(stream) = self.streams.get_mut(&number) else {
            return;
        };
        if let Half::Open { open, .. } = &stream.request {
            out.request_end(open.no, false, at);
        }
        if !matches!(stream.request, Half::Awaited) {
            stream.request = Half::Ended;
        }
        self.settle(number, at, out);
    }

    /// A response that is not complete will not be.
    fn cut_response(&mut self, number: u32, at: At, out: &mut impl Sink) {
        let at = self.reset.unwrap_or(at);
        let Some(stream) = self.streams.get_mut(&number) else {
            return;
        };
        match &stream.response {
            Half::Open { open, perhaps_over } => {
                let (how, at) = if *perhaps_over {
                    (BodyEnd::Lost, open.last)
                } else {
                    (BodyEnd::Cut, at)
                };
                out.response_end(open.no, how, open.wire_bytes, at);
            }
            Half::Awaited if stream.perhaps_answered => {
                if let Some(no) = stream.no {
                    out.hole(no, Part::ResponseHead, 0, at);
                }
            }
            _ => {}
        }
        stream.response = Half::Ended;
        self.settle(number, at, out);
    }

    // Streams

    /// One side takes a stream back (section 6.4).
    fn stream_reset(&mut self, role: Role, number: u32, code: u32, at: At, out: &mut impl Sink) {
        self.cut_request(number, at, out);
        let Some(stream) = self.streams.get_mut(&number) else {
            return;
        };
        if matches!(stream.response, Half::Ended) {
            return;
        }
        let first = !std::mem::replace(&mut stream.ended, true);
        match role {
            Role::Requests => {
                if let Some(no) = stream.no.filter(|_| first) {
                    out.stream_end(no, StreamEnd::ResetByClient, at);
                    // What the server had on its way is still seen.
                    self.given_up.push_back(number);
                }
                if self.given_up.len() > MOST_GIVEN_UP
                    && let Some(oldest) = self.given_up.pop_front()
                {
                    self.cut_response(oldest, at, out);
                    self.forget(oldest, at, out);
                }
            }
            Role::Responses => {
                if let Some(no) = stream.no.filter(|_| first) {
                    let refused = code == REFUSED_STREAM;
                    out.stream_end(no, StreamEnd::ResetByServer { refused }, at);
                }
                self.cut_response(number, at, out);
                self.forget(number, at, out);
            }
        }
    }

    /// The server takes no more streams than up to `last` (section 6.8).
    fn goaway(&mut self, last: Option<u32>, at: At, out: &mut impl Sink) {
        out.goaway(at);
        let Some(last) = last else { return };
        let last = self.last_answered.map_or(last, |before| last.min(before));
        self.last_answered = Some(last);
        let beyond: Vec<u32> = self
            .streams
            .range(last.saturating_add(1)..)
            .filter(|(_, stream)| matches!(stream.response, Half::Awaited))
            .map(|(number, _)| *number)
            .collect();
        for number in beyond {
            self.refuse(number, at, out);
        }
    }

    /// The server says that it did nothing with a request.
    fn refuse(&mut self, number: u32, at: At, out: &mut impl Sink) {
        if let Some(stream) = self.streams.get_mut(&number)
            && !std::mem::replace(&mut stream.ended, true)
            && let Some(no) = stream.no
        {
            out.stream_end(no, StreamEnd::Refused, at);
        }
    }

    /// Closes a stream when nothing more can come of it.
    fn settle(&mut self, number: u32, at: At, out: &mut impl Sink) {
        let Some(stream) = self.streams.get(&number) else {
            return;
        };
        let asked = match stream.request {
            Half::Ended => true,
            // Captured before its request, perhaps; where requests are missing, it is not waited for.
            Half::Awaited => number <= self.newest,
            _ => false,
        };
        if asked && matches!(stream.response, Half::Ended) {
            self.forget(number, at, out);
        }
    }

    fn forget(&mut self, number: u32, at: At, out: &mut impl Sink) {
        let Some(stream) = self.streams.remove(&number) else {
            return;
        };
        match stream.no {
            None => out.blank(Some(stream.first.time), Some(at.time)),
            Some(_) if !stream.asked => {
                let detail = prose!("on stream {}", number);
                out.anomaly(Odd::UnpairedResponse, stream.first, detail);
            }
            Some(_) => {}
        }
        self.closed.insert(number);
        if self.closed.len() > MOST_CLOSED {
            self.closed.pop_first();
        }
    }

    /// Lets a stream go when there are as many as there may be.
    fn make_room(&mut self, at: At, out: &mut impl Sink) {
        if self.streams.len() < self.limits.streams {
            return;
        }
        let mut given_up = std::iter::from_fn(|| self.given_up.pop_front());
        let oldest = given_up.find(|number| self.streams.contains_key(number));
        let Some(number) = oldest.or_else(|| self.streams.keys().next().copied()) else {
            return;
        };
        let detail = prose!("stream {} is let go", number);
        out.anomaly(Odd::StreamLimit, at, detail);
        self.cut_request(number, at, out);
        if let Some(stream) = self.streams.get_mut(&number) {
            stream.perhaps_answered = true;
            if let Half::Open { open, perhaps_over } = &mut stream.response {
                *perhaps_over = true;
                out.hole(open.no, Part::ResponseBody, 0, at);
            }
        }
        self.cut_response(number, at, out);
        self.forget(number, at, out);
    }
}

fn take_number(next: &mut u32) -> ExchangeNo {
    let no = ExchangeNo(*next);
    *next = next.saturating_add(1);
    no
}

impl Direction {
    fn new(reader: Reader, limits: &Limits) -> Self {
        Self {
            reader,
            headers: Decoder::new(limits.header_table),
            block: None,
            lossy: false,
            touched: Vec::new(),
        }
    }

    fn join_late(&mut self) {
        self.lossy = true;
        self.headers.lose();
        self.reader.hunt();
        self.reader.newest = frame::LATE;
    }

    /// Bytes of a header block, kept up to `most`.
    fn fragment(&mut self, header: Header, bytes: &[u8], most: usize) {
        let block = match &mut self.block {
            Some(block) => block,
            None if header.kind == Kind::Continuation => return,
            none => none.insert(Block::new(header)),
        };
        if block.bytes.len().saturating_add(bytes.len()) > most {
            block.too_long = true;
            block.bytes = Vec::new();
        }
        if !block.too_long {
            block.bytes.extend_from_slice(bytes);
        }
    }

    /// The block that a frame belongs to, and what the frame says of it.
    fn take_block(&mut self, frame: &Frame) -> Option<Block> {
        let mut block = match self.block.take() {
            Some(block) => block,
            None if frame.header.kind == Kind::Continuation => return None,
            None => Block::new(frame.header),
        };
        if frame.header.kind != Kind::Continuation {
            block.ends_stream = frame.header.ends_stream();
            block.first = frame.first;
        }
        block.torn |= frame.torn || frame.bad_padding;
        Some(block)
    }
}

impl Block {
    fn new(header: Header) -> Self {
        Self {
            kind: header.kind,
            stream: header.stream,
            ends_stream: header.ends_stream(),
            first: At::default(),
            bytes: Vec::new(),
            torn: false,
            too_long: false,
        }
    }
}

impl Stream {
    const fn new(first: At) -> Self {
        Self {
            no: None,
            first,
            asked: false,
            request: Half::Awaited,
            response: Half::Awaited,
            perhaps_answered: false,
            ended: false,
        }
    }
}

impl Half {
    fn open(no: ExchangeNo, declared: Declared, at: At) -> Self {
        Self::Open {
            open: Open::new(no, declared, at),
            perhaps_over: false,
        }
    }
}

/// The fields of a head as text.
struct Text<'a> {
    method: Option<&'a str>,
    path: Option<&'a str>,
    authority: Option<&'a str>,
    status: Option<&'a str>,
    /// `:authority` as `Host`, which it stands for, and all others.
    headers: Vec<(&'a str, &'a [u8])>,
}

impl<'a> Text<'a> {
    fn of(fields: &'a Fields) -> Self {
        let mut text = Self {
            method: None,
            path: None,
            authority: None,
            status: None,
            headers: Vec::new(),
        };
        for (name, value) in fields.known() {
            let Ok(name) = std::str::from_utf8(name) else {
                continue;
            };
            let said = std::str::from_utf8(value).ok();
            match name {
                ":method" => text.method = text.method.or(said),
                ":path" => text.path = text.path.or(said),
                ":authority" if text.authority.is_none() => {
                    text.authority = said;
                    // Section 8.3.1: it overrules a Host header.
                    text.headers.insert(0, ("host", value));
                }
                ":status" => text.status = text.status.or(said),
                _ if name.starts_with(':') => {}
                _ => text.headers.push((name, super::head::trim(value))),
            }
        }
        text
    }

    fn request(&self) -> Option<RequestHead<'_>> {
        let method = self.method.filter(|method| !method.is_empty())?;
        // CONNECT has no path (section 8.5).
        let target = self.path.or(self.authority)?;
        Some(RequestHead {
            method,
            target,
            version: HttpVersion::Http2,
            headers: &self.headers,
        })
    }

    fn status(&self) -> Option<u16> {
        let status = self.status?;
        let digits = status.len() == 3 && status.bytes().all(|byte| byte.is_ascii_digit());
        status
            .parse()
            .ok()
            .filter(|status| digits && *status >= 100)
    }
}

/// Section 7: the server did nothing with the request.
const REFUSED_STREAM: u32 = 7;
/// Streams that the client gave up and the server may still be sending on.
const MOST_GIVEN_UP: usize = 64;
/// Closed streams that are remembered: more than any side keeps open at once.
const MOST_CLOSED: usize = 4096;

#[cfg(test)]
mod tests;
