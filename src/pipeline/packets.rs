//! Packets of all inputs → exchanges. Frames are read and dealt to shards by flow on one thread
//! while the shards work on the ones before; a shard runs everything from TCP to facts.

use super::{
    connection::{Keys, Outcome, Tap, Tls, Wanting},
    draft::{Held, Settings},
};
use crate::{
    anomaly::{Anomalies, Kind},
    input,
    input::timeline::{Piece, Summary, Timeline},
    ip,
    limits::Limits,
    link,
    model::{
        analysis::{Opaque, OpaqueProtocol, TlsSeen, UnreadTls},
        exchange::{Exchange, Window},
        flow::{Endpoint, ServerFacts},
        packet::{Frame, Interface, IpPacket, Segment, Skip, Transport},
        place::{InputId, Place},
        prose::{Fixed, Hex, prose},
        time::{Span, Timestamp},
    },
    tcp, tls,
};
use rayon::prelude::*;
use std::{cmp::Reverse, collections::BTreeMap, mem, net::SocketAddr, sync::Arc};

/// Shards: more than threads, so that uneven ones even out; a fixed number, so that threads change
/// nothing.
const SHARDS: usize = 16;

/// Packets of several queues of a network card, or of several interfaces, are out of order by less.
const STEP: Span = Span::from_millis(100);

/// Packets dealt before the shards get to work: what they have to look at is still in the processor's cache.
const DEAL: usize = 1 << 12;

/// Bytes of them.
const DEAL_BYTES: usize = 2 << 20;

/// What packets gave.
#[derive(Default)]
pub(super) struct Packets {
    pub(super) exchanges: Vec<Exchange>,
    pub(super) anomalies: Anomalies,
    pub(super) summaries: Vec<(InputId, Summary)>,
    pub(super) counts: BTreeMap<InputId, Counts>,
    pub(super) window: Window,
    pub(super) servers: ServerFacts,
    pub(super) opaque: Vec<Opaque>,
    /// All TLS secrets that were given or found.
    pub(super) secrets: Arc<tls::Secrets>,
    /// Under which the secrets of TLS connections are in key logs: by input and stream.
    pub(super) randoms: BTreeMap<(InputId, u32), Vec<tls::Random>>,
    /// TLS connections of which more would have been read, had all secrets been known from the start.
    pub(super) late: Vec<Place>,
    /// Inputs whose clocks are ahead of that of another, by the connections that both show.
    pub(super) ahead: BTreeMap<InputId, (Span, InputId)>,
}

/// What was counted of one input.
#[derive(Clone, Debug, Default)]
pub(super) struct Counts {
    pub(super) tcp_connections: u64,
    pub(super) tls_opaque: u64,
    pub(super) http2_opaque: u64,
    pub(super) tls: TlsSeen,
    pub(super) holes: u64,
    pub(super) hole_bytes: u64,
}

/// Reads every packet.
///
/// `secrets` are those of key logs; more may be in the inputs.
pub(super) fn read(
    mut timeline: Timeline<'_>,
    settings: &Arc<Settings>,
    secrets: &Arc<tls::Secrets>,
) -> Packets {
    let mut packets = Packets::default();
    let pairing = tcp::Pairing::default();
    let shard = |_| Shard::new(settings, &pairing);
    let mut shards: Vec<Shard> = (0..SHARDS).map(shard).collect();
    let mut dealer = Dealer::new(settings.limits, timeline.inputs(), secrets, &pairing);
    let mut opaque = Unread::new(settings.limits);
    let mut hand = dealer.deal(&mut timeline, &mut packets);
    while !hand.is_empty() {
        let (_, next) = rayon::join(
            || {
                // One by one, so that whoever has dealt finds some left to help with.
                let work = shards.par_iter_mut().zip(&hand.cards).with_max_len(1);
                work.for_each(|(shard, cards)| shard.work(&hand, cards));
            },
            || dealer.deal(&mut timeline, &mut packets),
        );
        dealer.takes_back(hand);
        hand = next;
    }
    let mut wanting = Vec::new();
    let finished: Vec<Finished> = shards.into_par_iter().map(Shard::finish).collect();
    let exchanges = finished.iter().map(|one| one.exchanges.len()).sum();
    packets.exchanges.reserve_exact(exchanges);
    for finished in finished {
        packets.exchanges.extend(finished.exchanges);
        packets.anomalies.merge(finished.anomalies);
        packets.servers.merge(finished.servers);
        wanting.extend(finished.wanting);
        for Tls {
            place,
            why,
            randoms,
        } in finished.tls
        {
            let tls = &mut packets.counts.entry(place.input).or_default().tls;
            tls.connections += 1;
            match why {
                None => tls.read += 1,
                Some(why) => tls.unread.push(UnreadTls { place, why }),
            }
            if let Some(stream) = place.tcp_stream.filter(|_| !randoms.is_empty()) {
                packets.randoms.insert((place.input, stream), randoms);
            }
        }
        for (input, holes) in finished.holes {
            let counts = packets.counts.entry(input).or_default();
            counts.holes += holes.holes;
            counts.hole_bytes += holes.bytes;
        }
        for one in finished.opaque {
            let counts = packets.counts.entry(one.place.input).or_default();
            match one.protocol {
                OpaqueProtocol::Tls => counts.tls_opaque += 1,
                _ => counts.http2_opaque += 1,
            }
            opaque.add(one.protocol, Some(one.server), 1);
        }
    }
    for (input, secrets) in dealer.found {
        packets.counts.entry(input).or_default().tls.secrets = secrets;
    }
    for counts in packets.counts.values_mut() {
        let unread = &mut counts.tls.unread;
        unread.sort_by_key(|one| (one.place.tcp_stream, *one));
        unread.truncate(settings.limits.unread_tls);
    }
    dealer.fragments.finish(&mut packets.anomalies);
    if let Some(clocks) = dealer.clocks {
        packets.ahead = clocks.ahead();
    }
    for (input, numbers) in &dealer.numbers {
        packets.counts.entry(*input).or_default().tcp_connections = u64::from(numbers.len());
    }
    for (server, count) in dealer.quic.by_server {
        opaque.add(OpaqueProtocol::Quic, server.map(Endpoint::Address), count);
    }
    packets.opaque = opaque.into_rows();
    wanting.retain(|one| dealer.secrets.known(&one.random) > one.known);
    packets.late = wanting.into_iter().map(|one| one.place).collect();
    packets.secrets = dealer.secrets;
    packets.summaries = timeline.finish();
    packets
}

/// Counts of what could not be read, by protocol and server: of no more servers than the limit.
pub(super) struct Unread {
    limit: usize,
    by_server: BTreeMap<(OpaqueProtocol, Option<Endpoint>), u64>,
}

impl Unread {
    pub(super) fn new(limits: Limits) -> Self {
        Self {
            limit: limits.server_facts,
            by_server: BTreeMap::new(),
        }
    }

    /// Adds what could not be read of a server; `None` is of those that are not told apart.
    pub(super) fn add(&mut self, protocol: OpaqueProtocol, server: Option<Endpoint>, count: u64) {
        let mut key = (protocol, server);
        if self.by_server.len() >= self.limit && !self.by_server.contains_key(&key) {
            key.1 = None;
        }
        let sum = self.by_server.entry(key).or_default();
        *sum = sum.saturating_add(count);
    }

    /// By protocol, the most first; what is not told apart comes last.
    pub(super) fn into_rows(self) -> Vec<Opaque> {
        let mut rows: Vec<Opaque> = self
            .by_server
            .into_iter()
            .map(|((protocol, server), count)| Opaque {
                protocol,
                server,
                count,
            })
            .collect();
        rows.sort_by_key(|row| (row.protocol, row.server.is_none(), Reverse(row.count)));
        rows
    }
}

/// QUIC packets by server; of those beyond the limit together.
#[derive(Default)]
struct Quic {
    by_server: BTreeMap<Option<SocketAddr>, u64>,
}

impl Quic {
    /// Counts a packet, if this is one: on the port of HTTPS, and with a first byte that no other protocol
    /// has there (RFC 9443, section 2): the fixed bit is set (RFC 9000, sections 17.2 and 17.3). Also a
    /// packet of a connection that began before the capture is one.
    fn take(&mut self, transport: &Transport<'_>, limit: usize) -> Option<SocketAddr> {
        /// The port of HTTPS.
        const PORT: u16 = 443;
        let (header, payload) = transport.payload.split_first_chunk::<8>()?;
        let [a, b, c, d, ..] = *header;
        let (from, to) = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
        let server = match (from, to) {
            (_, PORT) => transport.destination,
            (PORT, _) => transport.source,
            _ => return None,
        };
        if !matches!(payload.first()?, 0x40..=0x7f | 0xc0..=0xff) {
            return None;
        }
        let server = SocketAddr::new(server, PORT);
        let full = self.by_server.len() >= limit && !self.by_server.contains_key(&Some(server));
        *self.by_server.entry((!full).then_some(server)).or_default() += 1;
        Some(server)
    }
}

/// Frames on the table: the batches they are in, and for each shard the segments it gets.
#[derive(Default)]
struct Hand {
    pieces: Vec<Piece>,
    /// Segments that came in fragments.
    assembled: Vec<Assembled>,
    cards: Vec<Vec<Card>>,
    /// The TLS secrets known when it was dealt: those before the last of its packets and a little beyond.
    secrets: Arc<tls::Secrets>,
}

impl Hand {
    fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// A segment's header and payload.
    fn segment(&self, card: &Card) -> Option<(&[u8], &[u8])> {
        let bytes = match self.pieces.get(card.piece as usize) {
            Some(piece) => piece.batch.frame(card.at as usize, piece.input)?.data,
            None => &self.assembled.get(card.at as usize)?.bytes,
        };
        let start = card.start as usize;
        bytes
            .get(start..)?
            .get(..card.len as usize)?
            .split_at_checked(usize::from(card.header))
    }
}

/// A segment that was put together of fragments.
struct Assembled {
    bytes: Box<[u8]>,
    /// The frames of its input that they came in.
    frames: Vec<u32>,
}

/// A segment and where it is: in a frame of a piece, or one that was put together; and which bytes
/// of that.
#[derive(Clone, Copy)]
struct Card {
    segment: Segment,
    direction: tcp::Direction,
    piece: u32,
    at: u32,
    start: u32,
    len: u32,
    header: u8,
}

/// In the place of a piece: the segment was put together.
const ASSEMBLED: u32 = u32::MAX;

/// Reads frames, opens their headers and deals them by flow.
struct Dealer {
    limits: Limits,
    numbers: BTreeMap<InputId, tcp::StreamNumbers>,
    fragments: ip::Fragments,
    quic: Quic,
    /// The latest time of each input.
    latest: BTreeMap<InputId, Timestamp>,
    /// Where there are several inputs.
    clocks: Option<tcp::HandshakeClocks>,
    pairing: tcp::Pairing,
    /// Those of a hand that was played: they have room already.
    cards: Vec<Vec<Card>>,
    secrets: Arc<tls::Secrets>,
    /// How many of them were found in which input.
    found: BTreeMap<InputId, u64>,
}

impl Dealer {
    fn new(
        limits: Limits,
        inputs: usize,
        secrets: &Arc<tls::Secrets>,
        pairing: &tcp::Pairing,
    ) -> Self {
        Self {
            limits,
            secrets: Arc::clone(secrets),
            found: BTreeMap::new(),
            clocks: (inputs > 1).then(|| tcp::HandshakeClocks::new(limits.server_facts)),
            numbers: BTreeMap::new(),
            fragments: ip::Fragments::new(limits),
            quic: Quic::default(),
            latest: BTreeMap::new(),
            pairing: pairing.clone(),
            cards: Vec::new(),
        }
    }

    /// A hand has been played.
    fn takes_back(&mut self, hand: Hand) {
        self.cards = hand.cards;
        self.cards.iter_mut().for_each(Vec::clear);
    }

    fn deal(&mut self, timeline: &mut Timeline<'_>, packets: &mut Packets) -> Hand {
        let mut cards = mem::take(&mut self.cards);
        cards.resize_with(SHARDS, Vec::new);
        let mut hand = Hand {
            cards,
            ..Hand::default()
        };
        let (mut dealt, mut bytes) = (0, 0);
        while dealt < DEAL && bytes < DEAL_BYTES {
            let Some(piece) = timeline.next(&mut packets.anomalies) else {
                break;
            };
            dealt += piece.range.len();
            bytes += piece.batch.bytes(&piece.range);
            self.open(&piece, &mut hand, packets);
            hand.pieces.push(piece);
        }
        self.take_secrets(timeline, &mut packets.anomalies);
        hand.secrets = Arc::clone(&self.secrets);
        hand
    }

    /// Takes the key logs that were found in the inputs.
    fn take_secrets(&mut self, timeline: &mut Timeline<'_>, anomalies: &mut Anomalies) {
        for (input, text) in timeline.take_key_logs() {
            let secrets = Arc::make_mut(&mut self.secrets);
            let lines = secrets.read(&text, &self.limits);
            *self.found.entry(input).or_default() += lines.secrets;
            let place = Place {
                input,
                ..Place::default()
            };
            note_lines(&lines, place, anomalies);
        }
    }

    fn open(&mut self, piece: &Piece, hand: &mut Hand, packets: &mut Packets) {
        let number = u32::try_from(hand.pieces.len()).unwrap_or(ASSEMBLED);
        let new = || tcp::StreamNumbers::sharing(&self.pairing);
        let numbers = self.numbers.entry(piece.input).or_insert_with(new);
        let first = piece.batch.time(piece.range.start).unwrap_or_default();
        let latest = self.latest.entry(piece.input).or_insert(first);
        for index in piece.range.clone() {
            let Some(frame) = piece.batch.frame(index, piece.input) else {
                continue;
            };
            packets.window.include(frame.time);
            if frame.time < *latest && latest.since(frame.time) > STEP {
                let back = latest.since(frame.time);
                packets
                    .anomalies
                    .note(Kind::TimeBackwards, frame.place, || {
                        prose!("{} s back", Fixed(back.millis_f64() / 1000.0, 3))
                    });
                // A clock that was put back is noted once.
                *latest = frame.time;
            }
            *latest = frame.time.max(*latest);
            if frame.original_len as usize > frame.data.len() {
                let (had, was) = (frame.data.len(), frame.original_len);
                packets
                    .anomalies
                    .note(Kind::TruncatedPacket, frame.place, || {
                        prose!("{} of {} bytes", had, was)
                    });
            }
            let mut opener = Opener {
                frame: &frame,
                limits: &self.limits,
                numbers,
                fragments: &mut self.fragments,
                quic: &mut self.quic,
                anomalies: &mut packets.anomalies,
            };
            let opened = link::peel(&frame).and_then(|packet| opener.packet(&packet, 0, false));
            let Opened {
                mut segment,
                bytes,
                header,
                frames,
            } = match opened {
                Ok(opened) => opened,
                Err(skip) => {
                    note_skip(skip, &frame, &mut packets.anomalies);
                    continue;
                }
            };
            let direction = self.pairing.of(&segment);
            segment.place.tcp_stream = Some(numbers.number_in(&segment, direction));
            if let Some(clocks) = &mut self.clocks {
                clocks.note(&segment);
            }
            let (piece, at, start, len) = match bytes {
                Bytes::OfFrame { start, len } => (number, index, start, len),
                Bytes::Assembled(bytes) => {
                    let len = bytes.len();
                    hand.assembled.push(Assembled { bytes, frames });
                    (ASSEMBLED, hand.assembled.len() - 1, 0, len)
                }
            };
            let (Ok(at), Ok(start), Ok(len), Ok(header)) = (
                u32::try_from(at),
                u32::try_from(start),
                u32::try_from(len),
                u8::try_from(header),
            ) else {
                continue;
            };
            if let Some(cards) = hand.cards.get_mut(shard(&segment)) {
                cards.push(Card {
                    segment,
                    direction,
                    piece,
                    at,
                    start,
                    len,
                    header,
                });
            }
        }
    }
}

/// Goes from an IP packet to its TCP segment, through tunnels and fragments.
struct Opener<'a> {
    frame: &'a Frame<'a>,
    limits: &'a Limits,
    numbers: &'a mut tcp::StreamNumbers,
    fragments: &'a mut ip::Fragments,
    quic: &'a mut Quic,
    anomalies: &'a mut Anomalies,
}

/// A TCP segment that was found.
struct Opened {
    segment: Segment,
    bytes: Bytes,
    /// How many of the bytes are its header.
    header: usize,
    /// The frames that it came in, when that is more than one.
    frames: Vec<u32>,
}

/// Where a segment with its header is.
enum Bytes {
    OfFrame { start: usize, len: usize },
    Assembled(Box<[u8]>),
}

impl Opener<'_> {
    /// `depth` is how many packets this one is within; `assembled` that it is no longer in the frame.
    #[inline]
    fn packet(
        &mut self,
        packet: &IpPacket<'_>,
        depth: u8,
        assembled: bool,
    ) -> Result<Opened, Skip> {
        if let Some((stated, is)) = ip::header_sum(packet) {
            self.anomalies
                .note(Kind::BadChecksum, self.frame.place, || {
                    prose!(
                        "IPv4 header: {}, should be {}",
                        Hex(stated.into()),
                        Hex(is.into())
                    )
                });
        }
        match ip::open(packet) {
            Ok(transport) => self.transport(&transport, depth, assembled),
            Err(Skip::Fragment) => self.fragment(packet, depth),
            Err(skip) => Err(skip),
        }
    }

    #[inline]
    fn transport(
        &mut self,
        transport: &Transport<'_>,
        depth: u8,
        assembled: bool,
    ) -> Result<Opened, Skip> {
        if transport.protocol != TCP {
            return self.other(transport, depth, assembled);
        }
        let (segment, payload) = tcp::parse(transport, self.frame.time, self.frame.place)?;
        let whole = transport.payload;
        let bytes = if assembled {
            Bytes::Assembled(whole.into())
        } else {
            // It lies within the frame: where, tells its distance from the frame's start.
            let frame = self.frame.data.as_ptr().addr();
            Bytes::OfFrame {
                start: whole.as_ptr().addr().wrapping_sub(frame),
                len: whole.len(),
            }
        };
        Ok(Opened {
            segment,
            bytes,
            header: whole.len() - payload.len(),
            frames: Vec::new(),
        })
    }

    /// What is no TCP: a tunnel, maybe, or an error that quotes a segment.
    #[inline(never)]
    fn other(
        &mut self,
        transport: &Transport<'_>,
        depth: u8,
        assembled: bool,
    ) -> Result<Opened, Skip> {
        match link::inside(transport) {
            Some(Ok(_)) if depth >= self.limits.tunnels => Err(Skip::TooDeep),
            Some(packet) => self.packet(&packet?, depth + 1, assembled),
            None => {
                if transport.protocol == UDP
                    && let Some(server) = self.quic.take(transport, self.limits.server_facts)
                {
                    self.anomalies
                        .note(Kind::OpaqueQuic, self.frame.place, || prose!("{}", server));
                }
                self.quoted(transport);
                Err(Skip::NotIp)
            }
        }
    }

    #[inline(never)]
    fn fragment(&mut self, packet: &IpPacket<'_>, depth: u8) -> Result<Opened, Skip> {
        let fragment = ip::fragment(packet)?;
        let protocol = fragment.protocol;
        let wanted = |first: &[u8]| {
            protocol == TCP || ip::is_extension(protocol) || link::carries(protocol, first)
        };
        if !wanted(&[]) {
            return Err(Skip::NotIp);
        }
        let Frame { time, place, .. } = *self.frame;
        let datagram = self
            .fragments
            .take(&fragment, time, place, wanted, self.anomalies)?;
        let mut opened = self.transport(&datagram.open()?, depth, true)?;
        opened.frames.extend_from_slice(datagram.frames());
        Ok(opened)
    }

    /// An ICMP error quotes the packet that it is about (RFC 792, RFC 4443), and Wireshark gives a
    /// quoted segment a stream number, be it the first of its stream.
    fn quoted(&mut self, transport: &Transport<'_>) {
        let errors: &[u8] = match transport.protocol {
            ICMP => &[3, 4, 5, 11, 12],
            ICMPV6 => &[1, 2, 3, 4],
            _ => return,
        };
        let (Some(kind), Some(data)) = (transport.payload.first(), transport.payload.get(8..))
        else {
            return;
        };
        if !errors.contains(kind) {
            return;
        }
        let missing = transport.missing;
        let Frame { time, place, .. } = *self.frame;
        let quoted = ip::open(&IpPacket { data, missing });
        if let Ok(quoted) = quoted
            && let Ok((segment, _)) = tcp::parse(&quoted, time, place)
        {
            self.numbers.number(&segment);
        }
    }
}

/// The shard of a flow: the same for both directions.
fn shard(segment: &Segment) -> usize {
    usize::try_from(tcp::spread(segment)).unwrap_or(0) % SHARDS
}

fn note_skip(skip: Skip, frame: &Frame<'_>, anomalies: &mut Anomalies) {
    let place = frame.place;
    match skip {
        Skip::NotIp | Skip::Fragment => {}
        Skip::UnknownLink(link) => {
            anomalies.note(Kind::UnknownLinkType, place, || link::link_name(link));
        }
        Skip::TooDeep => anomalies.note(Kind::TunnelDepth, place, || ""),
        Skip::Malformed(what) => {
            anomalies.note(Kind::MalformedPacket, place, || {
                match link::interface(frame) {
                    Some(interface) => prose!("{}, on interface {}", what, interface),
                    None => what.into(),
                }
            });
        }
    }
}

/// IP protocol numbers.
const TCP: u8 = 6;
const UDP: u8 = 17;
const ICMP: u8 = 1;
const ICMPV6: u8 = 58;

/// A frame as it is seen on the way to its segment, for whoever wants the frame and not what it says.
pub(super) struct Seen<'a> {
    pub(super) frame: Frame<'a>,
    /// The number of its interface in the file, and what the file says of it.
    pub(super) interface: u16,
    pub(super) described: Option<&'a Interface>,
    /// The segment in it, or the one that it makes whole, with Wireshark's stream number.
    pub(super) segment: Option<&'a Segment>,
    /// What is there of the segment's payload.
    pub(super) payload: &'a [u8],
    /// Bytes of the segment, when it came in fragments.
    pub(super) assembled: Option<usize>,
    /// The frames that the segment came in, when it came in fragments. (Of fragments of tunnels within which
    /// there are fragments only the last.)
    pub(super) frames: &'a [u32],
}

/// What there was in each input, and all secrets that are known at the end.
pub(super) type Walked = (Vec<(InputId, Summary)>, Arc<tls::Secrets>);

/// Shows every frame in the order in which [`read`] takes them, and stops at the first error. What it was given of
/// secrets comes back with those of the inputs.
pub(super) fn walk<E>(
    mut timeline: Timeline<'_>,
    limits: &Limits,
    secrets: &Arc<tls::Secrets>,
    each: &mut dyn FnMut(&Seen<'_>) -> Result<(), E>,
) -> Result<Walked, E> {
    // What is odd has been said already.
    let mut unsaid = Packets::default();
    let mut dealer = Dealer::new(*limits, 1, secrets, &tcp::Pairing::default());
    loop {
        let hand = dealer.deal(&mut timeline, &mut unsaid);
        if hand.is_empty() {
            return Ok((timeline.finish(), dealer.secrets));
        }
        let mut cards: Vec<(InputId, u32, &Card)> = hand
            .cards
            .iter()
            .flatten()
            .map(|card| (card.segment.place.input, card.segment.place.frame, card))
            .collect();
        cards.sort_unstable_by_key(|&(input, frame, _)| (input, frame));
        for piece in &hand.pieces {
            for index in piece.range.clone() {
                let Some(frame) = piece.batch.frame(index, piece.input) else {
                    continue;
                };
                let key = (piece.input, frame.place.frame);
                let card = cards
                    .binary_search_by_key(&key, |&(input, frame, _)| (input, frame))
                    .ok()
                    .and_then(|found| cards.get(found))
                    .map(|&(_, _, card)| card);
                let assembled = card
                    .filter(|card| card.piece == ASSEMBLED)
                    .and_then(|card| hand.assembled.get(card.at as usize));
                let (interface, described) = piece.batch.interface(index).unwrap_or_default();
                each(&Seen {
                    frame,
                    interface,
                    described,
                    segment: card.map(|card| &card.segment),
                    payload: card
                        .and_then(|card| hand.segment(card))
                        .map_or(&[], |(_, payload)| payload),
                    assembled: assembled.map(|assembled| assembled.bytes.len()),
                    frames: assembled.map_or(&[], |assembled| &assembled.frames),
                })?;
            }
        }
    }
}

/// The flows of one shard.
struct Shard {
    table: tcp::Table<Tap>,
    settings: Arc<Settings>,
    held: Held,
    keys: Arc<Keys>,
    finished: Finished,
}

#[derive(Default)]
struct Finished {
    exchanges: Vec<Exchange>,
    anomalies: Anomalies,
    opaque: Vec<super::connection::Opaque>,
    tls: Vec<Tls>,
    wanting: Vec<Wanting>,
    holes: BTreeMap<InputId, tcp::Holes>,
    servers: ServerFacts,
}

impl Finished {
    fn take(&mut self, outcome: Outcome, limits: &Limits) {
        if let Some((ends, span)) = outcome.torn {
            for end in ends {
                self.servers.torn.note(end, span, limits.server_facts);
            }
        }
        for blank in outcome.blanks {
            self.servers.blanks.note(blank, limits.server_facts);
        }
        if let Some((server, time)) = outcome.unanswered {
            let unanswered = &mut self.servers.unanswered;
            unanswered.note(server, time, limits.server_facts);
        }
        self.exchanges.extend(outcome.exchanges);
        self.anomalies.merge(outcome.anomalies);
        self.opaque.extend(outcome.opaque);
        self.tls.extend(outcome.tls);
        self.wanting.extend(outcome.wanting);
    }
}

impl Shard {
    fn new(settings: &Arc<Settings>, pairing: &tcp::Pairing) -> Self {
        Self {
            table: tcp::Table::sharing(settings.limits, pairing),
            // One of its own: that threads count references to one and the same would cost them more than work does.
            settings: Arc::new(Settings::clone(settings)),
            held: Held::default(),
            keys: Arc::default(),
            finished: Finished::default(),
        }
    }

    fn work(&mut self, hand: &Hand, cards: &[Card]) {
        let settings = Arc::clone(&self.settings);
        let held = &self.held;
        if !Arc::ptr_eq(&self.keys.secrets, &hand.secrets) {
            Arc::make_mut(&mut self.keys).secrets = Arc::clone(&hand.secrets);
        }
        let keys = &self.keys;
        let mut anomalies = mem::take(&mut self.finished.anomalies);
        let finished = &mut self.finished;
        for card in cards {
            let Some((header, payload)) = hand.segment(card) else {
                continue;
            };
            note_sum(&card.segment, header, payload, &mut anomalies);
            if tcp::refuses(&card.segment) {
                let limit = settings.limits.server_facts;
                let (server, time) = (card.segment.source, card.segment.time);
                finished.servers.refused.note(server, time, limit);
            }
            self.table.push_in(
                &card.segment,
                card.direction,
                payload,
                &mut anomalies,
                &mut |opening| Tap::new(opening, &settings, held, keys),
                &mut |tap| finished.take(tap.into_outcome(), &settings.limits),
            );
        }
        finished.anomalies.merge(anomalies);
    }

    fn finish(self) -> Finished {
        let mut finished = self.finished;
        let settings = self.settings;
        let mut anomalies = Anomalies::default();
        let holes = self.table.finish(&mut anomalies, &mut |tap: Box<Tap>| {
            finished.take(tap.into_outcome(), &settings.limits);
        });
        finished.anomalies.merge(anomalies);
        finished.holes = holes;
        finished
    }
}

/// Notes lines of a secrets block that are none of a key log.
fn note_lines(lines: &tls::Lines, place: Place, anomalies: &mut Anomalies) {
    if let Some((line, why)) = lines.first_bad {
        anomalies.note(Kind::KeyLogLine, place, || {
            format!(
                "line {line} of a secrets block: {why}; {} such lines",
                lines.bad
            )
        });
    }
    if lines.beyond > 0 {
        anomalies.note(Kind::KeyLogLine, place, || {
            format!("{} secrets beyond the limit", lines.beyond)
        });
    }
}

/// Counts a segment whose checksum is wrong; it is taken all the same.
fn note_sum(segment: &Segment, header: &[u8], payload: &[u8], anomalies: &mut Anomalies) {
    /// Where a TCP header has its checksum.
    const AT: usize = 16;
    if segment.missing > 0 {
        return;
    }
    let ends = (segment.source.ip(), segment.destination.ip());
    if let Some((stated, is)) = ip::transport_sum(ends, TCP, AT, [header, payload]) {
        anomalies.note(Kind::BadChecksum, segment.place, || {
            prose!("TCP: {}, should be {}", Hex(stated.into()), Hex(is.into()))
        });
    }
}

/// Opens the packet inputs of a run for merging.
pub(super) fn timeline<'p>(
    inputs: Vec<(InputId, input::PacketInput<'p>)>,
    limits: &Limits,
    progress: &'p std::sync::atomic::AtomicU64,
) -> Timeline<'p> {
    Timeline::new(inputs, limits, progress)
}
