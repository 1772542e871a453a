//! One TCP connection → exchanges: joins the TCP, HTTP and SSE stages, and adds what only the
//! connection knows: which events the client got, and who hung up.

use super::draft::{Asked, Draft, Head, Held, Settings};
use crate::{
    anomaly::{Anomalies, Kind},
    http,
    model::{
        analysis::{OpaqueProtocol, WhyUnread},
        exchange::{ConnectionId, End, EndCause, Exchange, Part, Scheme, Source},
        flow::{Blank, Endpoint, Side},
        place::{At, Place},
        prose::Prose,
        time::{Span, Timestamp},
    },
    tcp, tls,
};
use std::{collections::VecDeque, mem, net::SocketAddr, sync::Arc};

/// Data that stays unacknowledged this long, while packets still come, tells of a partition.
const UNACKNOWLEDGED: Span = Span::from_secs(3);

/// Blanks of one connection that are kept apart.
const BLANKS: usize = 64;

/// What a connection leaves behind.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    /// Its exchanges, in the order of their requests.
    pub(super) exchanges: Vec<Exchange>,
    /// What was odd about it.
    pub(super) anomalies: Anomalies,
    /// What it spoke, when that could not be read.
    pub(super) opaque: Option<Opaque>,
    /// What became of it when it is TLS.
    pub(super) tls: Option<Tls>,
    /// Keys that would have been wanted for it.
    pub(super) wanting: Option<Wanting>,
    /// When bytes of it are not in the capture: its ends, when it began, and the last hole.
    pub(super) torn: Option<([SocketAddr; 2], (Timestamp, Timestamp))>,
    /// Where exchanges may lie of which nothing is in the capture.
    pub(super) blanks: Vec<Blank>,
    /// A server whose answer to a SYN is not in the capture, and when it was asked.
    pub(super) unanswered: Option<(SocketAddr, Timestamp)>,
}

/// A connection of TLS.
#[derive(Debug)]
pub(super) struct Tls {
    /// Its first packet.
    pub(super) place: Place,
    /// Why it was not read, or not all of it.
    pub(super) why: Option<WhyUnread>,
    /// Under which its secrets are in key logs.
    pub(super) randoms: Vec<tls::Random>,
}

/// A connection that could not be read.
#[derive(Debug)]
pub(super) struct Opaque {
    pub(super) protocol: OpaqueProtocol,
    pub(super) place: Place,
    pub(super) server: Endpoint,
}

/// A TLS connection of which more could be read with more keys.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanting {
    pub(super) random: tls::Random,
    /// How many keys were known for it.
    pub(super) known: usize,
    pub(super) place: Place,
}

/// What lies on TCP.
enum Layer {
    /// Too little was said to tell; pieces of a byte or two.
    Unknown(Vec<(Side, Vec<u8>, At)>),
    Plain,
    Tls(Box<tls::Connection>),
}

/// What TLS connections of one shard are read with.
#[derive(Clone, Default)]
pub(super) struct Keys {
    /// The secrets known so far.
    pub(super) secrets: Arc<tls::Secrets>,
    pub(super) budget: tls::Budget,
}

/// The sink of one TCP connection.
pub(super) struct Tap {
    http: http::Connection,
    layer: Layer,
    keys: Keys,
    /// Bytes before those that come next may be missing.
    missed: bool,
    /// HTTP was given bytes that may be of anything.
    fed: bool,
    recorder: Recorder,
    opened: At,
    /// Its SYN was seen, from side A.
    syn: bool,
    ends: [SocketAddr; 2],
}

impl Tap {
    pub(super) fn new(
        opening: &tcp::Opening,
        settings: &Arc<Settings>,
        held: &Held,
        keys: &Keys,
    ) -> Self {
        let mut http = http::Connection::new(settings.limits);
        if !opening.syn {
            http.midstream(Side::A);
            http.midstream(Side::B);
        }
        Self {
            http,
            layer: Layer::Unknown(Vec::new()),
            keys: keys.clone(),
            missed: !opening.syn,
            fed: false,
            recorder: Recorder {
                scheme: Scheme::Http,
                settings: Arc::clone(settings),
                held: held.clone(),
                a: Endpoint::Address(opening.a),
                b: Endpoint::Address(opening.b),
                client: None,
                open: VecDeque::new(),
                base: 0,
                outcome: Outcome::default(),
                blanks: Vec::new(),
                places: vec![Seen::new(At {
                    time: opening.first.time,
                    place: opening.first.place,
                    offset: 0,
                })],
                latest: 0,
                initial: [None; 2],
                acknowledged: 0,
                received: 0,
                early: [None; 2],
                last_acknowledged: None,
                after_fin: Vec::new(),
                closes: Closes::default(),
                goaway: false,
            },
            opened: opening.first,
            syn: opening.syn,
            ends: [opening.a, opening.b],
        }
    }

    pub(super) fn into_outcome(mut self: Box<Self>) -> Outcome {
        mem::take(&mut self.recorder.outcome)
    }

    /// Bytes of a side, before it is known what lies on TCP.
    fn look(&mut self, sender: Side, bytes: &[u8], at: At) {
        if self.missed && self.http.client().is_some() {
            self.layer_is(Layer::Plain);
            self.carry(sender, bytes, at);
            return;
        }
        let Layer::Unknown(held) = &mut self.layer else {
            return;
        };
        let before = held.iter().filter(|(side, ..)| *side == sender);
        let before: Vec<u8> = before.flat_map(|(_, bytes, _)| bytes).copied().collect();
        let begins = if before.is_empty() {
            tls::begins(bytes, self.missed)
        } else {
            tls::begins(&[&before, bytes].concat(), self.missed)
        };
        match begins {
            tls::Begins::More => {
                held.push((sender, bytes.to_vec(), at));
                return;
            }
            tls::Begins::Tls => self.is_tls(&[&before, bytes].concat()),
            // What was joined in the middle may be in the middle of a record.
            tls::Begins::Other if self.missed => {
                self.settle();
                self.fed = true;
                self.http.data(sender, bytes, at, &mut self.recorder);
                return;
            }
            tls::Begins::Other => self.layer_is(Layer::Plain),
        }
        self.carry(sender, bytes, at);
    }

    fn is_tls(&mut self, bytes: &[u8]) {
        let limits = self.recorder.settings.limits;
        let secrets = Arc::clone(&self.keys.secrets);
        let mut tls = tls::Connection::new(limits, secrets, &self.keys.budget);
        if self.missed && !tls::is_hello(bytes) {
            tls.midstream();
        } else if !self.fed {
            // What it carries is seen from its beginning.
            self.http = http::Connection::new(limits);
        }
        self.recorder.scheme = Scheme::Https;
        self.layer_is(Layer::Tls(Box::new(tls)));
    }

    /// It is known what lies on TCP: what was held goes there.
    fn layer_is(&mut self, layer: Layer) {
        if let Layer::Unknown(held) = mem::replace(&mut self.layer, layer) {
            for (side, bytes, at) in held {
                self.carry(side, &bytes, at);
            }
        }
    }

    /// Bytes of a side go to what lies on TCP.
    fn carry(&mut self, sender: Side, bytes: &[u8], at: At) {
        match &mut self.layer {
            Layer::Unknown(_) => self.look(sender, bytes, at),
            Layer::Plain => self.http.data(sender, bytes, at, &mut self.recorder),
            Layer::Tls(tls) => {
                let mut out = Carried {
                    http: &mut self.http,
                    recorder: &mut self.recorder,
                };
                tls.data(sender, bytes, at, &mut out);
            }
        }
    }

    /// What is said of a connection that could not be read.
    fn opaque(&self, opening: bool, unread: bool) -> Option<Opaque> {
        let protocol = match self.http.protocol() {
            _ if unread => OpaqueProtocol::Tls,
            http::Protocol::Tls => OpaqueProtocol::Tls,
            http::Protocol::Http2 if self.http.is_unread_http2() => OpaqueProtocol::Http2,
            _ => return None,
        };
        let [a, b] = self.ends;
        let of = |client| match client {
            Side::A => b,
            Side::B => a,
        };
        let asked_for = match &self.layer {
            Layer::Tls(tls) => tls.asked_for(),
            _ => None,
        };
        let server = match (asked_for, self.http.client()) {
            (Some((client, Some(name))), _) => Endpoint::Name(name.into(), of(client).port()),
            (Some((client, None)), _) | (None, Some(client)) => Endpoint::Address(of(client)),
            // Who sent the SYN is the client; else servers have the lower port.
            (None, None) if opening || b.port() <= a.port() => Endpoint::Address(b),
            (None, None) => Endpoint::Address(a),
        };
        Some(Opaque {
            protocol,
            place: self.opened.place,
            server,
        })
    }

    /// What comes next is not what follows on what was held.
    fn settle(&mut self) {
        let Layer::Unknown(held) = &mut self.layer else {
            return;
        };
        self.missed = true;
        for (side, bytes, at) in mem::take(held) {
            self.fed = true;
            self.http.data(side, &bytes, at, &mut self.recorder);
        }
    }

    fn note_roles(&mut self, at: At) {
        self.recorder.client_is(self.http.client());
        self.recorder.note_place(at);
    }
}

/// Why not all of a TLS connection was read.
const fn why_unread(outcome: tls::Outcome) -> Option<WhyUnread> {
    Some(match outcome {
        tls::Outcome::Read => return None,
        tls::Outcome::Half(_) => WhyUnread::OneSide,
        tls::Outcome::Opaque(reason) => match reason {
            tls::Reason::Handshake(_) => WhyUnread::NoHandshake,
            tls::Reason::Version(_) | tls::Reason::Suite(_) => WhyUnread::Unsupported,
            tls::Reason::NoKeys => WhyUnread::NoKeys,
            tls::Reason::PartKeys => WhyUnread::HandshakeKeys,
            tls::Reason::WrongKeys => WhyUnread::WrongKeys,
        },
    })
}

impl tcp::Sink for Tap {
    fn starts(&mut self, sender: Side, sequence: u32) {
        if let Some(initial) = self.recorder.initial.get_mut(sender.index()) {
            *initial = Some(sequence);
        }
    }

    fn data(&mut self, sender: Side, bytes: &[u8], at: At) {
        self.recorder.closes.is_lost(sender, false);
        self.recorder.note_place(at);
        self.carry(sender, bytes, at);
        self.note_roles(at);
    }

    fn hole(&mut self, sender: Side, bytes: u64, kind: tcp::HoleKind, at: At) {
        self.recorder
            .closes
            .is_lost(sender, kind == tcp::HoleKind::Lost);
        if kind != tcp::HoleKind::Unacknowledged {
            self.recorder.outcome.torn = Some((self.ends, (self.opened.time, at.time)));
        }
        self.settle();
        match &mut self.layer {
            Layer::Tls(tls) => {
                let mut out = Carried {
                    http: &mut self.http,
                    recorder: &mut self.recorder,
                };
                tls.hole(sender, bytes, at, &mut out);
            }
            _ => self.http.hole(sender, bytes, at, &mut self.recorder),
        }
        self.note_roles(at);
    }

    fn acknowledged(&mut self, sender: Side, at: At) {
        match self.http.client() {
            Some(client) => self.recorder.acknowledged_of(sender, client, at),
            None => self.recorder.acknowledged_early(sender, at),
        }
    }

    fn fin(&mut self, sender: Side, acknowledges: Option<u64>, at: At) {
        self.settle();
        let mut clean = true;
        if let Layer::Tls(tls) = &mut self.layer {
            let mut out = Carried {
                http: &mut self.http,
                recorder: &mut self.recorder,
            };
            tls.fin(sender, at, &mut out);
            clean = tls.ends_cleanly(sender);
        }
        if clean || self.http.client() == Some(sender) {
            self.http.fin(sender, at, &mut self.recorder);
        } else {
            // A FIN without close_notify is no end of a body: anybody may have made it (RFC 9112, section 9.8).
            self.http.rst(sender, at, &mut self.recorder);
        }
        let close = Close { at, acknowledges };
        self.recorder
            .closes
            .fin
            .get_mut(sender.index())
            .map(|fin| fin.get_or_insert(close));
    }

    fn rst(&mut self, sender: Side, acknowledges: Option<u64>, at: At) {
        let first = self.recorder.closes.rst.iter().all(Option::is_none);
        let close = Close { at, acknowledges };
        self.recorder
            .closes
            .rst
            .get_mut(sender.index())
            .map(|rst| rst.get_or_insert(close));
        if self.http.client() == Some(sender) {
            if let Some(offset) = acknowledges {
                self.recorder.acknowledge(At { offset, ..at });
            }
            self.recorder.client_reset(first);
            // What the server had on its way is still seen; the exchange ends when all is read.
        } else {
            if let (None, Some(offset)) = (self.http.client(), acknowledges) {
                self.recorder
                    .acknowledged_early(sender.other(), At { offset, ..at });
            }
            if let Layer::Tls(tls) = &mut self.layer {
                let mut out = Carried {
                    http: &mut self.http,
                    recorder: &mut self.recorder,
                };
                tls.fin(sender, at, &mut out);
            }
            self.http.rst(sender, at, &mut self.recorder);
        }
    }

    fn unanswered(&mut self, server: Side) {
        let [a, b] = self.ends;
        let server = match server {
            Side::A => a,
            Side::B => b,
        };
        self.recorder.outcome.unanswered = Some((server, self.opened.time));
    }

    fn finish(&mut self, last: At) {
        self.settle();
        let mut unread = false;
        if let Layer::Tls(tls) = &mut self.layer {
            let mut out = Carried {
                http: &mut self.http,
                recorder: &mut self.recorder,
            };
            let outcome = tls.finish(last, &mut out);
            unread = matches!(outcome, tls::Outcome::Opaque(_));
            self.recorder.outcome.tls = Some(Tls {
                place: self.opened.place,
                why: why_unread(outcome),
                randoms: tls.randoms().to_vec(),
            });
            self.recorder.outcome.wanting = tls.wanting().map(|(random, known)| Wanting {
                random,
                known,
                place: self.opened.place,
            });
        }
        if let Some(rst) = self.recorder.closes.rst.iter().flatten().next().copied() {
            for side in [Side::A, Side::B] {
                self.http.rst(side, rst.at, &mut self.recorder);
            }
        }
        self.http.finish(last, &mut self.recorder);
        self.note_roles(last);
        // Where nobody's bytes tell, who sent the SYN is the client, or came first.
        let [a, b] = self.ends;
        let (client, server) = match self.recorder.client {
            Some(Side::B) => (b, a),
            _ => (a, b),
        };
        let opened = self.opened.time;
        // What is open may bring more than was captured of it.
        let client_side = self.recorder.client.unwrap_or(Side::A);
        let closed = self.recorder.closes.first(client_side);
        let end = closed.map_or(Timestamp::from_nanos(i64::MAX), |(_, at)| at.time);
        let blanks = self.recorder.blanks.drain(..).map(|(from, until)| Blank {
            client: client.ip(),
            server,
            from: from.unwrap_or(opened),
            until: until.unwrap_or(end),
        });
        self.recorder.outcome.blanks.extend(blanks);
        let opaque = self.opaque(self.syn, unread);
        if opaque
            .as_ref()
            .is_some_and(|one| one.protocol == OpaqueProtocol::Tls)
        {
            // It may have been seen to be TLS only where HTTP was looked for.
            self.recorder.outcome.tls.get_or_insert(Tls {
                place: self.opened.place,
                why: Some(WhyUnread::NoHandshake),
                randoms: Vec::new(),
            });
        }
        self.recorder.outcome.opaque = opaque;
        self.recorder.close(last);
    }
}

/// Hands what TLS protects to HTTP.
struct Carried<'t> {
    http: &'t mut http::Connection,
    recorder: &'t mut Recorder,
}

impl tls::Sink for Carried<'_> {
    fn data(&mut self, sender: Side, bytes: &[u8], at: At) {
        self.http.data(sender, bytes, at, self.recorder);
        // Who is the client must be known to the next call.
        self.recorder.client_is(self.http.client());
    }

    fn hole(&mut self, sender: Side, bytes: u64, at: At) {
        self.http.hole(sender, bytes, at, self.recorder);
    }

    fn anomaly(&mut self, kind: Kind, at: At, detail: String) {
        self.recorder
            .outcome
            .anomalies
            .note(kind, at.place, || detail);
    }
}

/// Takes HTTP events, drafts exchanges.
struct Recorder {
    scheme: Scheme,
    settings: Arc<Settings>,
    /// What its shard holds.
    held: Held,
    a: Endpoint,
    b: Endpoint,
    client: Option<Side>,
    /// Exchanges that are not closed yet; the first has number `base`.
    open: VecDeque<Slot>,
    base: u32,
    outcome: Outcome,
    /// See [`http::Sink::blank`].
    blanks: Vec<(Option<Timestamp>, Option<Timestamp>)>,
    /// A place in each input that the connection was seen in.
    /// By input, in order of its first packet.
    places: Vec<Seen>,
    /// The one that showed a packet last.
    latest: usize,
    /// The sequence number of each side's first byte.
    initial: [Option<u32>; 2],
    /// How far the client acknowledged the server's bytes.
    acknowledged: u64,
    /// How far the server acknowledged the client's bytes.
    received: u64,
    /// How far each side's bytes were acknowledged while it was not known who is the client: TLS may hold all
    /// of them.
    early: [Option<At>; 2],
    last_acknowledged: Option<Timestamp>,
    /// Events that came after the client's FIN.
    after_fin: Vec<EventAt>,
    closes: Closes,
    /// The server said in HTTP/2 that it takes no new streams.
    goaway: bool,
}

struct Slot {
    draft: Option<Draft>,
    /// Offset just past the request.
    asked: Option<u64>,
    /// Its response ended as its framing says, at this place.
    ended: Option<At>,
    /// What ended its stream of HTTP/2 otherwise.
    cut: Option<Cut>,
    /// Nothing more comes of it.
    over: bool,
    /// Its events that the client has not acknowledged yet.
    unacknowledged: VecDeque<EventAt>,
    /// The last byte seen of it.
    last: At,
    /// Offsets just past the first bytes of its request and of its response.
    first: [Option<u64>; 2],
}

/// The end of a stream of HTTP/2 without END_STREAM.
#[derive(Clone, Copy)]
struct Cut {
    how: http::StreamEnd,
    at: At,
    /// How far the client had acknowledged the server's bytes.
    acknowledged: u64,
}

impl Cut {
    /// The client took back its stream: what it had not acknowledged by then, it did not get.
    fn withholds(&self, offset: u64) -> bool {
        self.how == http::StreamEnd::ResetByClient && offset > self.acknowledged
    }

    const fn cause(&self) -> EndCause {
        match self.how {
            http::StreamEnd::ResetByClient => EndCause::StreamResetByClient,
            http::StreamEnd::ResetByServer { .. } => EndCause::StreamResetByServer,
            http::StreamEnd::Refused => EndCause::Goaway,
        }
    }

    /// Whether the server says that it did nothing with the request.
    const fn is_refusal(&self) -> bool {
        matches!(
            self.how,
            http::StreamEnd::ResetByServer { refused: true } | http::StreamEnd::Refused
        )
    }
}

#[derive(Clone, Copy)]
struct EventAt {
    exchange: u32,
    event: u32,
    offset: u64,
    time: Timestamp,
}

/// An input that showed packets of a connection: its stream there, and from when to when.
struct Seen {
    place: Place,
    first: Timestamp,
    last: Timestamp,
}

impl Seen {
    const fn new(at: At) -> Self {
        Self {
            place: at.place,
            first: at.time,
            last: at.time,
        }
    }
}

/// How a connection was closed, by side.
#[derive(Clone, Copy, Default)]
struct Closes {
    fin: [Option<Close>; 2],
    rst: [Option<Close>; 2],
    /// What the capture shows last of the side is that it lost bytes: a FIN may be among them.
    lost: [bool; 2],
}

#[derive(Clone, Copy)]
struct Close {
    at: At,
    acknowledges: Option<u64>,
}

impl Closes {
    /// Takes note whether the last that is known of a side's bytes is that the capture lost some.
    fn is_lost(&mut self, side: Side, lost: bool) {
        if let Some(known) = self.lost.get_mut(side.index()) {
            *known = lost;
        }
    }

    /// What ended the connection first. Of two FINs the one that acknowledges the other is the
    /// later, whatever the order of packets.
    fn first(&self, client: Side) -> Option<(EndCause, At)> {
        let of = |list: &[Option<Close>; 2], side: Side| list.get(side.index()).copied().flatten();
        let server = client.other();
        let (client_fin, server_fin) = (of(&self.fin, client), of(&self.fin, server));
        let later = |fin: Option<Close>, other: Option<Close>| match (fin, other) {
            (Some(fin), Some(other)) => fin.acknowledges.is_some_and(|to| to > other.at.offset),
            _ => false,
        };
        let client_later = later(client_fin, server_fin);
        let server_later = later(server_fin, client_fin) && !client_later;
        let candidates = [
            client_fin
                .filter(|_| !client_later)
                .map(|close| (EndCause::ClientFin, close.at)),
            server_fin
                .filter(|_| !server_later)
                .map(|close| (EndCause::ServerFin, close.at)),
            of(&self.rst, client).map(|close| (EndCause::ClientRst, close.at)),
            of(&self.rst, server).map(|close| (EndCause::ServerRst, close.at)),
        ];
        candidates
            .into_iter()
            .flatten()
            .min_by_key(|(_, at)| at.time)
    }

    /// Whether the end that was seen first may answer a FIN of the other side that the capture lost. A lost
    /// FIN that stood alone is known by its number; one behind lost bytes is not.
    fn may_answer(&self, cause: EndCause, client: Side) -> bool {
        let other = match cause {
            EndCause::ClientFin | EndCause::ClientRst => client.other(),
            _ => client,
        };
        let is = |list: &[bool; 2]| list.get(other.index()).copied().unwrap_or(false);
        let fin = self.fin.get(other.index()).copied().flatten();
        is(&self.lost) && fin.is_none()
    }
}

impl Slot {
    /// Forgets the events that the client acknowledged.
    fn settle(&mut self, acknowledged: u64) {
        while self
            .unacknowledged
            .front()
            .is_some_and(|event| event.offset <= acknowledged)
        {
            self.unacknowledged.pop_front();
        }
    }

    /// The client did not get what it has not acknowledged.
    fn withhold(&mut self) {
        let Some(draft) = &mut self.draft else { return };
        for event in self.unacknowledged.drain(..) {
            if let Some(facts) = draft.events.get_mut(event.event as usize) {
                facts.delivered = false;
            }
        }
    }

    /// What ended it, unless that was the end of the connection.
    fn own_end(&self) -> Option<(EndCause, At)> {
        let cut = self.cut.map(|cut| (cut.cause(), cut.at));
        cut.or_else(|| self.ended.map(|at| (EndCause::StreamEnd, at)))
    }
}

impl Recorder {
    fn note_place(&mut self, at: At) {
        let Some(place) = self.places.get_mut(self.latest) else {
            return;
        };
        if place.place.input == at.place.input {
            place.last = at.time.max(place.last);
            return;
        }
        let known = |seen: &Seen| seen.place.input == at.place.input;
        self.latest = self.places.iter().position(known).unwrap_or_else(|| {
            self.places.push(Seen::new(at));
            self.places.len() - 1
        });
        if let Some(seen) = self.places.get_mut(self.latest) {
            seen.last = at.time.max(seen.last);
        }
    }

    /// The inputs other than its own that an exchange may have been seen in, and the connection's first:
    /// it tells that two exchanges are of one connection.
    fn more_places(&self, own: Place, begun: Timestamp, ended: Timestamp) -> Vec<Place> {
        let mut places = Vec::new();
        for (index, seen) in self.places.iter().enumerate() {
            let meets = seen.first <= ended && seen.last >= begun;
            if seen.place.input != own.input && (index == 0 || meets) {
                places.push(seen.place);
            }
        }
        places
    }

    fn endpoint(&self, side: Side) -> Endpoint {
        match side {
            Side::A => self.a.clone(),
            Side::B => self.b.clone(),
        }
    }

    /// The slot of an exchange; those before it that are still missing are made.
    fn slot(&mut self, exchange: http::ExchangeNo, at: At) -> Option<&mut Slot> {
        let index = usize::try_from(exchange.0.checked_sub(self.base)?).ok()?;
        // A queue makes room for four at once, and most connections have one.
        if self.open.capacity() == 0 {
            self.open.reserve_exact(1);
        }
        while self.open.len() <= index {
            self.open.push_back(Slot {
                draft: Some(Draft::new(at.place, Source::Packets, &self.held)),
                asked: None,
                ended: None,
                cut: None,
                over: false,
                unacknowledged: VecDeque::new(),
                last: at,
                first: [None; 2],
            });
        }
        self.open.get_mut(index)
    }

    /// The sequence number of the byte of `sender` just before an offset.
    fn sequence(&self, sender: Side, offset: Option<u64>) -> Option<u32> {
        let initial = self.initial.get(sender.index()).copied().flatten()?;
        let [.., a, b, c, d] = offset?.saturating_sub(1).to_be_bytes();
        Some(initial.wrapping_add(u32::from_be_bytes([a, b, c, d])))
    }

    fn draft(&mut self, exchange: http::ExchangeNo, at: At) -> Option<(&mut Draft, Arc<Settings>)> {
        let settings = Arc::clone(&self.settings);
        let slot = self.slot(exchange, at)?;
        slot.last = at;
        Some((slot.draft.as_mut()?, settings))
    }

    fn client_is(&mut self, client: Option<Side>) {
        let before = mem::replace(&mut self.client, client);
        if let (None, Some(client)) = (before, client) {
            for side in [Side::A, Side::B] {
                let early = self.early.get_mut(side.index()).and_then(Option::take);
                if let Some(at) = early {
                    self.acknowledged_of(side, client, at);
                }
            }
        }
    }

    /// The bytes of a side were acknowledged up to a place.
    fn acknowledged_of(&mut self, sender: Side, client: Side, at: At) {
        if sender == client {
            self.received = at.offset;
        } else {
            self.acknowledge(at);
        }
    }

    /// The same, when it is not known yet who is the client.
    fn acknowledged_early(&mut self, sender: Side, at: At) {
        if let Some(early) = self.early.get_mut(sender.index()) {
            *early = early.filter(|known| known.offset >= at.offset).or(Some(at));
        }
    }

    fn acknowledge(&mut self, at: At) {
        if at.offset <= self.acknowledged {
            return;
        }
        self.acknowledged = at.offset;
        self.last_acknowledged = Some(at.time);
        self.hand_out();
    }

    /// The client reset the connection: what it had not acknowledged, it did not get; nor what came
    /// after its FIN.
    fn client_reset(&mut self, first: bool) {
        for slot in &mut self.open {
            slot.settle(self.acknowledged);
            if first {
                slot.withhold();
            }
            slot.unacknowledged.clear();
        }
        for event in mem::take(&mut self.after_fin) {
            self.undelivered(event);
        }
    }

    fn undelivered(&mut self, event: EventAt) {
        let index = event
            .exchange
            .checked_sub(self.base)
            .and_then(|index| usize::try_from(index).ok());
        let facts = index
            .and_then(|index| self.open.get_mut(index))
            .and_then(|slot| slot.draft.as_mut())
            .and_then(|draft| draft.events.get_mut(event.event as usize));
        if let Some(facts) = facts {
            facts.delivered = false;
        }
    }

    /// New events of an exchange since it had `before`: marks what cannot have been delivered and
    /// waits for the client's acknowledgment of the others.
    fn note_events(&mut self, exchange: u32, before: usize, at: At) {
        let Some(index) = exchange
            .checked_sub(self.base)
            .and_then(|i| usize::try_from(i).ok())
        else {
            return;
        };
        let Some(slot) = self.open.get_mut(index) else {
            return;
        };
        slot.settle(self.acknowledged);
        let Some(draft) = slot.draft.as_mut() else {
            return;
        };
        let side = self.client.unwrap_or(Side::A);
        let reset = self
            .closes
            .rst
            .get(side.index())
            .is_some_and(Option::is_some);
        // What lay behind a hole is handed over late: its own time tells whether it came before.
        let finished = self
            .closes
            .fin
            .get(side.index())
            .is_some_and(|fin| fin.is_some_and(|fin| at.time >= fin.at.time));
        for number in before..draft.events.len() {
            let event = EventAt {
                exchange,
                event: u32::try_from(number).unwrap_or(u32::MAX),
                offset: at.offset,
                time: at.time,
            };
            if slot.cut.is_some_and(|cut| cut.withholds(at.offset)) {
                if let Some(facts) = draft.events.get_mut(number) {
                    facts.delivered = false;
                }
                continue;
            }
            if reset {
                if at.offset <= self.acknowledged && !finished {
                    continue;
                }
                if let Some(facts) = draft.events.get_mut(number) {
                    facts.delivered = false;
                }
                continue;
            }
            if finished {
                self.after_fin.push(event);
            }
            if at.offset > self.acknowledged {
                slot.unacknowledged.push_back(event);
            }
        }
    }

    /// Hands out exchanges from the front that are over, and of which nothing more can turn out
    /// about who got what.
    fn hand_out(&mut self) {
        while let Some(slot) = self.open.front_mut() {
            let Some((cause, at)) = slot.own_end().filter(|_| slot.over) else {
                return;
            };
            slot.settle(self.acknowledged);
            let number = self.base;
            let waiting = |event: &EventAt| event.exchange == number;
            if !slot.unacknowledged.is_empty() || self.after_fin.iter().any(waiting) {
                return;
            }
            let Some(slot) = self.open.pop_front() else {
                return;
            };
            self.base += 1;
            let end = End {
                time: at.time,
                place: at.place,
                cause,
                last_acknowledged: self.last_acknowledged,
            };
            self.emit(slot, end);
        }
    }

    fn emit(&mut self, slot: Slot, end: End) {
        let Some(mut draft) = slot.draft else { return };
        let client = self.client.unwrap_or(Side::A);
        let [asked, answered] = slot.first;
        draft.exchange.sequences = [
            self.sequence(client, asked),
            self.sequence(client.other(), answered),
        ];
        draft.ends(
            Some(self.endpoint(client)),
            Some(self.endpoint(client.other())),
        );
        let (mut exchange, anomalies) = draft.finish();
        if let Some(request) = &mut exchange.request {
            let refused = slot.cut.is_some_and(|cut| cut.is_refusal());
            request.received = !refused && slot.asked.is_some_and(|end| end <= self.received);
        }
        exchange.end = end;
        exchange.connection = Some(ConnectionId::default());
        let more = self.more_places(exchange.place, exchange.time(), exchange.end.time);
        exchange.more_places = more.into();
        self.outcome.anomalies.merge(anomalies);
        self.outcome.exchanges.push(exchange);
    }

    /// The connection is over: what is still open was ended by the first close, or by nothing.
    fn close(&mut self, last: At) {
        let client = self.client.unwrap_or(Side::A);
        let first = self.closes.first(client).map(|(cause, at)| match cause {
            // It had said so before: what is open then was ended by that.
            EndCause::ServerFin | EndCause::ServerRst if self.goaway => (EndCause::Goaway, at),
            _ if self.closes.may_answer(cause, client) => (EndCause::Unknown, at),
            _ => (cause, at),
        });
        let mut partition = false;
        for slot in &mut self.open {
            slot.settle(self.acknowledged);
            partition |= slot
                .unacknowledged
                .front()
                .is_some_and(|event| last.time.since(event.time) >= UNACKNOWLEDGED);
        }
        while let Some(slot) = self.open.pop_front() {
            self.base += 1;
            let (cause, time, place) = match (slot.own_end(), first) {
                (Some((cause, at)), _) => (cause, at.time, at.place),
                (None, Some((cause, at))) => (cause, at.time, at.place),
                (None, None) if partition => (
                    EndCause::Silent,
                    self.last_acknowledged.unwrap_or(slot.last.time),
                    slot.last.place,
                ),
                (None, None) => (EndCause::CaptureEnd, last.time, last.place),
            };
            let end = End {
                time,
                place,
                cause,
                last_acknowledged: self.last_acknowledged,
            };
            self.emit(slot, end);
        }
    }
}

impl http::Sink for Recorder {
    fn request(
        &mut self,
        exchange: http::ExchangeNo,
        head: &http::RequestHead<'_>,
        first: At,
        last: At,
    ) {
        if let Some(slot) = self.slot(exchange, first) {
            slot.first[0] = Some(first.offset);
        }
        let scheme = self.scheme;
        let Some((draft, settings)) = self.draft(exchange, first) else {
            return;
        };
        draft.exchange.place = first.place;
        let asked = Asked {
            method: head.method,
            target: head.target,
            version: head.version,
            scheme,
            head: Head {
                headers: head.headers,
            },
        };
        draft.request(&asked, (first, last), &settings);
    }

    fn request_body(&mut self, exchange: http::ExchangeNo, bytes: &[u8], at: At) {
        if let Some((draft, settings)) = self.draft(exchange, at) {
            draft.request_body(bytes, &settings);
        }
    }

    fn request_end(&mut self, exchange: http::ExchangeNo, complete: bool, at: At) {
        if let Some((draft, settings)) = self.draft(exchange, at) {
            draft.request_end(complete, at, &settings);
        }
        if let Some(slot) = self.slot(exchange, at) {
            slot.asked = Some(at.offset);
        }
    }

    fn response(
        &mut self,
        exchange: http::ExchangeNo,
        head: &http::ResponseHead<'_>,
        first: At,
        _last: At,
    ) {
        if let Some(slot) = self.slot(exchange, first) {
            slot.first[1] = Some(first.offset);
        }
        if let Some((draft, settings)) = self.draft(exchange, first) {
            draft.response(
                head.status,
                &Head {
                    headers: head.headers,
                },
                "",
                first,
                &settings,
            );
        }
    }

    fn response_body(&mut self, exchange: http::ExchangeNo, bytes: &[u8], at: At) {
        let Some((draft, settings)) = self.draft(exchange, at) else {
            return;
        };
        let before = draft.events.len();
        draft.response_body(bytes, at, &settings);
        if draft.events.len() > before {
            self.note_events(exchange.0, before, at);
        }
    }

    fn blank(&mut self, from: Option<Timestamp>, until: Option<Timestamp>) {
        // More than a few, and it is the whole connection that is not seen.
        if self.blanks.len() >= BLANKS {
            self.blanks.truncate(1);
            self.blanks.fill((None, None));
            return;
        }
        self.blanks.push((from, until));
    }

    fn hole(&mut self, exchange: http::ExchangeNo, part: Part, bytes: u64, at: At) {
        if let Some((draft, _)) = self.draft(exchange, at) {
            draft.hole(part, bytes, at);
        }
    }

    fn undecodable(&mut self, exchange: http::ExchangeNo, at: At) {
        if let Some((draft, _)) = self.draft(exchange, at) {
            draft.undecodable();
        }
    }

    fn response_end(
        &mut self,
        exchange: http::ExchangeNo,
        how: http::BodyEnd,
        wire_bytes: u64,
        at: At,
    ) {
        let complete = matches!(how, http::BodyEnd::Complete | http::BodyEnd::CloseDelimited);
        let Some((draft, settings)) = self.draft(exchange, at) else {
            return;
        };
        draft.response_end(complete, wire_bytes, &settings);
        if let Some(slot) = self.slot(exchange, at) {
            if complete {
                slot.ended = Some(at);
            }
            slot.over |= complete || slot.cut.is_some();
        }
        self.hand_out();
    }

    fn stream_end(&mut self, exchange: http::ExchangeNo, how: http::StreamEnd, at: At) {
        let acknowledged = self.acknowledged;
        let Some(slot) = self.slot(exchange, at) else {
            return;
        };
        slot.settle(acknowledged);
        if how == http::StreamEnd::ResetByClient {
            slot.withhold();
        }
        slot.cut = Some(Cut {
            how,
            at,
            acknowledged,
        });
    }

    fn goaway(&mut self, _at: At) {
        self.goaway = true;
    }

    fn anomaly(&mut self, kind: Kind, at: At, detail: Prose) {
        self.outcome.anomalies.note(kind, at.place, || detail);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_close_may_answer_a_fin_among_lost_bytes() {
        let mut closes = Closes::default();
        assert!(!closes.may_answer(EndCause::ServerFin, Side::A));
        closes.is_lost(Side::A, true);
        assert!(closes.may_answer(EndCause::ServerFin, Side::A));
        assert!(!closes.may_answer(EndCause::ClientFin, Side::A));
        // What came after the lost bytes tells that they held no FIN.
        closes.is_lost(Side::A, false);
        assert!(!closes.may_answer(EndCause::ServerFin, Side::A));
        closes.is_lost(Side::A, true);
        closes.fin[0] = Some(Close {
            at: At::default(),
            acknowledges: None,
        });
        assert!(!closes.may_answer(EndCause::ServerFin, Side::A), "seen");
    }
}
