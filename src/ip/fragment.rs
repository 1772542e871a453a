//! Fragments of IP packets (RFC 791, section 3.2; RFC 8200, section 4.5), put together.
//!
//! The first byte seen of each place counts. A packet is as late as the last of its fragments that
//! came, as in Wireshark. What a packet's fragments were is remembered for a while, so that copies
//! of them (another interface saw them as well) begin no packet that could never be whole.

use super::{Chain, authenticated, body_v4, header_v4, past_extensions, split_v6, to_fragment};
use crate::{
    anomaly::{Anomalies, Kind},
    limits::Limits,
    model::{
        packet::{IpPacket, Skip, Transport},
        place::{InputId, Place},
        prose::{Hex, Prose, prose},
        time::Timestamp,
    },
};
use etherparse::{IpNumber, ip_number};
use foldhash::fast::RandomState;
use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    net::IpAddr,
};
use xxhash_rust::xxh3::xxh3_64;

/// A fragment of an IP packet.
#[derive(Clone, Copy, Debug)]
pub struct Fragment<'a> {
    /// Source address.
    pub source: IpAddr,
    /// Destination address.
    pub destination: IpAddr,
    /// What the whole packet carries: IPv4's protocol, or the header after IPv6's fragment header.
    pub protocol: u8,
    /// Which packet it is a fragment of.
    pub identification: u32,
    /// Bytes of the packet before it.
    pub offset: u32,
    /// Whether others follow.
    pub more: bool,
    /// The captured bytes.
    pub data: &'a [u8],
    /// Bytes that it has beyond those captured.
    pub missing: u32,
}

/// Reads a packet of which [`open`](super::open) says that it is a fragment.
///
/// # Errors
///
/// [`Skip::Malformed`] for a header that is cut or contradicts itself, [`Skip::NotIp`] for what is
/// no fragment.
pub fn fragment<'a>(packet: &IpPacket<'a>) -> Result<Fragment<'a>, Skip> {
    if packet.data.first().is_some_and(|first| first >> 4 == 6) {
        let (header, body) = split_v6(packet)?;
        let Chain::Fragment(fragment, data) = to_fragment(header.next_header(), body.captured)?
        else {
            return Err(Skip::NotIp);
        };
        Ok(Fragment {
            source: IpAddr::V6(header.source_addr()),
            destination: IpAddr::V6(header.destination_addr()),
            protocol: fragment.next_header().0,
            identification: fragment.identification(),
            offset: u32::from(fragment.fragment_offset().byte_offset()),
            more: fragment.more_fragments(),
            data,
            missing: body.missing,
        })
    } else {
        let header = header_v4(packet)?;
        let body = body_v4(packet, &header)?;
        Ok(Fragment {
            source: IpAddr::V4(header.source_addr()),
            destination: IpAddr::V4(header.destination_addr()),
            protocol: header.protocol().0,
            identification: u32::from(header.identification()),
            offset: u32::from(header.fragments_offset().byte_offset()),
            more: header.more_fragments(),
            data: body.captured,
            missing: body.missing,
        })
    }
}

/// A packet put together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Datagram {
    source: IpAddr,
    destination: IpAddr,
    protocol: u8,
    /// What was captured of it, up to the first byte that the snapshot length cut off.
    payload: Vec<u8>,
    /// How many bytes it has after those.
    missing: u32,
    /// The frames of its input that its bytes came in, in order.
    frames: Vec<u32>,
}

impl Datagram {
    /// The frames of its input that its bytes came in, in the order of the capture.
    #[must_use]
    pub fn frames(&self) -> &[u32] {
        &self.frames
    }

    /// What it carries, past the extension headers that were fragmented with it.
    ///
    /// # Errors
    ///
    /// As of a packet that came whole.
    pub fn open(&self) -> Result<Transport<'_>, Skip> {
        let next = IpNumber(self.protocol);
        let found = match self.source {
            IpAddr::V4(_) if next == ip_number::AUTH => authenticated(&self.payload),
            IpAddr::V4(_) => Ok((next, &self.payload[..])),
            IpAddr::V6(_) => past_extensions(next, &self.payload),
        };
        let (protocol, payload) = found.map_err(|skip| match skip {
            Skip::Fragment => Skip::Malformed("fragment within fragments"),
            skip => skip,
        })?;
        Ok(Transport {
            source: self.source,
            destination: self.destination,
            protocol: protocol.0,
            payload,
            missing: self.missing,
        })
    }
}

/// Puts fragments together, within [`Limits::fragmented`], [`Limits::fragment_bytes`] and
/// [`Limits::fragment_time`].
#[derive(Debug)]
pub struct Fragments {
    limits: Limits,
    packets: HashMap<Key, Entry, RandomState>,
    /// The packets in the order of their first fragments; those that were replaced since are still
    /// in it.
    order: VecDeque<(Key, u64)>,
    begun: u64,
    /// Memory of incomplete packets.
    cost: usize,
    previous: Timestamp,
}

/// What the fragments of one packet have in common. Captures are kept apart: what one lost, another
/// that has it brings whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Key {
    input: InputId,
    source: IpAddr,
    destination: IpAddr,
    /// IPv4 counts for each protocol.
    protocol: Option<u8>,
    identification: u32,
}

#[derive(Debug)]
struct Entry {
    number: u64,
    since: Timestamp,
    state: State,
}

#[derive(Debug)]
enum State {
    Incomplete(Parts),
    /// Place, length and hash of each part, by place.
    Complete(Vec<(u32, u32, u64)>),
    /// Nothing that is looked for is in it.
    Ignored,
}

impl Fragments {
    /// None yet.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            packets: HashMap::default(),
            order: VecDeque::new(),
            begun: 0,
            cost: 0,
            previous: Timestamp::from_nanos(i64::MIN),
        }
    }

    /// Takes the next fragment of the capture; gives the packet that it makes whole. `wanted` says of
    /// a packet's first bytes whether it may be of interest; the others are not kept.
    ///
    /// # Errors
    ///
    /// [`Skip::Fragment`] for one that makes nothing whole, [`Skip::Malformed`] for one that would
    /// make a packet longer than there are.
    pub fn take(
        &mut self,
        fragment: &Fragment<'_>,
        time: Timestamp,
        place: Place,
        wanted: impl FnOnce(&[u8]) -> bool,
        anomalies: &mut Anomalies,
    ) -> Result<Datagram, Skip> {
        self.expire(time, anomalies);
        let stop =
            u64::from(fragment.offset) + fragment.data.len() as u64 + u64::from(fragment.missing);
        let Some(stop) = u32::try_from(stop).ok().filter(|stop| *stop <= LARGEST) else {
            return Err(Skip::Malformed("fragment beyond 65,535 bytes"));
        };
        let key = Key {
            input: place.input,
            source: fragment.source,
            destination: fragment.destination,
            protocol: fragment.source.is_ipv4().then_some(fragment.protocol),
            identification: fragment.identification,
        };
        let ignored = fragment.offset == 0 && !wanted(fragment.data);
        let renewed = match self.packets.get_mut(&key).map(|entry| &mut entry.state) {
            None => true,
            Some(State::Incomplete(parts)) => {
                if ignored {
                    self.cost = self.cost.saturating_sub(parts.cost);
                }
                ignored
            }
            Some(State::Complete(parts)) => {
                if is_copy(parts, fragment, stop) {
                    return Err(Skip::Fragment);
                }
                true
            }
            // Identifiers are used again: only a first fragment says what the packet is.
            Some(State::Ignored) => {
                if ignored || fragment.offset != 0 {
                    return Err(Skip::Fragment);
                }
                true
            }
        };
        if renewed {
            self.begin(key, time, ignored);
        }
        let Some(Entry { state, .. }) = self.packets.get_mut(&key) else {
            return Err(Skip::Fragment);
        };
        let State::Incomplete(parts) = state else {
            self.limit(anomalies);
            return Err(Skip::Fragment);
        };
        let before = parts.cost;
        let overlap = parts.add(fragment, stop, place);
        self.cost = self.cost.saturating_sub(before) + parts.cost;
        if overlap {
            let (offset, identification) = (fragment.offset, fragment.identification);
            anomalies.note(Kind::FragmentOverlap, place, || {
                prose!(
                    "packet {}, byte {} to {}",
                    Hex(identification.into()),
                    offset,
                    stop
                )
            });
        }
        if parts.is_complete() {
            self.cost = self.cost.saturating_sub(parts.cost);
            let datagram = parts.join(&key);
            *state = State::Complete(parts.fingerprints());
            return Ok(datagram);
        }
        self.limit(anomalies);
        Err(Skip::Fragment)
    }

    /// Says which packets never became whole.
    pub fn finish(mut self, anomalies: &mut Anomalies) {
        while let Some((key, number)) = self.order.pop_front() {
            self.let_go(&key, number, Kind::IpFragment, anomalies);
        }
    }

    fn begin(&mut self, key: Key, since: Timestamp, ignored: bool) {
        self.begun += 1;
        let state = if ignored {
            State::Ignored
        } else {
            State::Incomplete(Parts::default())
        };
        let entry = Entry {
            number: self.begun,
            since,
            state,
        };
        self.packets.insert(key, entry);
        self.order.push_back((key, self.begun));
    }

    /// Lets go of what is too old. The earlier of two fragments' times counts: one mad clock must
    /// not end every packet.
    fn expire(&mut self, time: Timestamp, anomalies: &mut Anomalies) {
        let now = time.min(self.previous);
        self.previous = time;
        while let Some((key, number)) = self.order.front().copied() {
            let current = self
                .packets
                .get(&key)
                .filter(|entry| entry.number == number);
            // A time far ahead is that of a mad clock.
            let young = |since: Timestamp| {
                now.since(since).max(since.since(now)) <= self.limits.fragment_time
            };
            if current.is_some_and(|entry| young(entry.since)) {
                return;
            }
            self.order.pop_front();
            self.let_go(&key, number, Kind::IpFragment, anomalies);
        }
    }

    /// Lets go of the oldest packets while there are too many.
    fn limit(&mut self, anomalies: &mut Anomalies) {
        while self.order.len() > self.limits.fragmented || self.cost > self.limits.fragment_bytes {
            let Some((key, number)) = self.order.pop_front() else {
                return;
            };
            self.let_go(&key, number, Kind::FragmentLimit, anomalies);
        }
    }

    fn let_go(&mut self, key: &Key, number: u64, kind: Kind, anomalies: &mut Anomalies) {
        if self
            .packets
            .get(key)
            .is_none_or(|entry| entry.number != number)
        {
            return;
        }
        if let Some(Entry {
            state: State::Incomplete(parts),
            ..
        }) = self.packets.remove(key)
        {
            self.cost = self.cost.saturating_sub(parts.cost);
            let identification = key.identification;
            anomalies.note(kind, parts.last, || {
                prose!("packet {}: {}", Hex(identification.into()), parts.lack())
            });
        }
    }
}

/// The fragments of an incomplete packet.
#[derive(Debug, Default)]
struct Parts {
    /// By place; they never overlap.
    parts: BTreeMap<u32, Part>,
    /// Bytes of them, captured or not.
    have: u32,
    /// What the first fragment says that the packet carries.
    protocol: u8,
    /// Where the packet ends, once its last fragment was seen.
    end: Option<u32>,
    /// The fragment seen last.
    last: Place,
    /// The frames of those with bytes that were new.
    frames: Vec<u32>,
    cost: usize,
}

#[derive(Debug)]
struct Part {
    bytes: Box<[u8]>,
    /// With what the snapshot length cut off.
    len: u32,
}

impl Parts {
    /// Takes a fragment that ends at `stop`; whether it overlaps others without being a copy.
    fn add(&mut self, fragment: &Fragment<'_>, stop: u32, place: Place) -> bool {
        self.last = place;
        if fragment.offset == 0 && !self.parts.contains_key(&0) {
            self.protocol = fragment.protocol;
        }
        let highest = self
            .parts
            .last_key_value()
            .map_or(0, |(at, part)| at + part.len);
        let mut overlap = false;
        let mut stop = stop;
        match self.end {
            None if !fragment.more && highest > stop => return true,
            None if !fragment.more => self.end = Some(stop),
            Some(end) if !fragment.more && end != stop => return true,
            Some(end) if stop > end => {
                overlap = true;
                stop = end;
            }
            _ => {}
        }
        let captured = u32::try_from(fragment.data.len()).unwrap_or(u32::MAX);
        let captured = fragment.offset.saturating_add(captured).min(stop);
        let mut at = fragment.offset;
        let (mut new, mut old) = (false, false);
        while at < captured {
            let mine = slice(fragment.data, at - fragment.offset, captured - at);
            if let Some((&there, part)) = self.parts.range(..=at).next_back()
                && there + part.len > at
            {
                let end = captured.min(there + part.len);
                let theirs = slice(&part.bytes, at - there, end - at);
                overlap |= mine.iter().zip(theirs).any(|(mine, theirs)| mine != theirs);
                old = true;
                at = end;
                continue;
            }
            let end = self.next_from(at, captured);
            self.put(at, slice(mine, 0, end - at), end - at);
            new = true;
            at = end;
        }
        // What was cut off, as far as nothing else is there: a fragment costs no more than its bytes.
        if at < stop
            && self
                .parts
                .range(..=at)
                .next_back()
                .is_none_or(|(there, part)| there + part.len <= at)
        {
            let end = self.next_from(at, stop);
            self.put(at, &[], end - at);
        }
        overlap || new && old
    }

    /// Where the first part at or after `at` begins, if that is before `end`.
    fn next_from(&self, at: u32, end: u32) -> u32 {
        self.parts
            .range(at..)
            .next()
            .map_or(end, |(&there, _)| end.min(there))
    }

    fn put(&mut self, at: u32, bytes: &[u8], len: u32) {
        self.have += len;
        self.cost += bytes.len() + PART;
        if self.frames.last() != Some(&self.last.frame) {
            self.frames.push(self.last.frame);
        }
        let bytes = Box::from(bytes);
        self.parts.insert(at, Part { bytes, len });
    }

    fn is_complete(&self) -> bool {
        self.end == Some(self.have)
    }

    /// What is not there.
    fn lack(&self) -> Prose {
        match self.end {
            Some(end) => prose!("{} of {} bytes missing", end - self.have.min(end), end),
            None => prose!("{} bytes, the last fragment missing", self.have),
        }
    }

    fn join(&self, key: &Key) -> Datagram {
        let mut payload = Vec::with_capacity(usize::try_from(self.have).unwrap_or(0));
        for part in self.parts.values() {
            payload.extend_from_slice(&part.bytes);
            if usize::try_from(part.len).is_ok_and(|len| len > part.bytes.len()) {
                break;
            }
        }
        let captured = u32::try_from(payload.len()).unwrap_or(u32::MAX);
        Datagram {
            source: key.source,
            destination: key.destination,
            protocol: self.protocol,
            missing: self.have.saturating_sub(captured),
            payload,
            frames: self.frames.clone(),
        }
    }

    /// None of a packet in so many parts that remembering them would cost more than a copy does.
    fn fingerprints(&self) -> Vec<(u32, u32, u64)> {
        if self.parts.len() > FINGERPRINTS {
            return Vec::new();
        }
        self.parts
            .iter()
            .map(|(at, part)| (*at, part.len, xxh3_64(&part.bytes)))
            .collect()
    }
}

/// Whether a fragment is one of these parts again.
fn is_copy(parts: &[(u32, u32, u64)], fragment: &Fragment<'_>, stop: u32) -> bool {
    parts
        .binary_search_by_key(&fragment.offset, |part| part.0)
        .ok()
        .and_then(|index| parts.get(index))
        .is_some_and(|&(at, len, hash)| at + len == stop && hash == xxh3_64(fragment.data))
}

/// The `len` bytes at `start`, as far as they are there.
fn slice(bytes: &[u8], start: u32, len: u32) -> &[u8] {
    let start = usize::try_from(start).unwrap_or(usize::MAX);
    let rest = bytes.get(start..).unwrap_or_default();
    usize::try_from(len)
        .ok()
        .and_then(|len| rest.get(..len))
        .unwrap_or(rest)
}

/// The longest payload that an IP packet in fragments may have.
const LARGEST: u32 = 65_535;
/// Parts of a complete packet that are remembered: a jumbo datagram in the smallest usual packets.
const FINGERPRINTS: usize = 128;
/// Memory of a part besides its bytes.
const PART: usize = size_of::<(u32, Part)>() + 40;

#[cfg(test)]
#[allow(
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "tests may panic"
)]
mod tests {
    use super::*;

    /// Fragments of one packet or of several, in a file of their own.
    struct Bench {
        fragments: Fragments,
        anomalies: Anomalies,
        frame: u32,
        millis: i64,
    }

    impl Bench {
        fn new(limits: Limits) -> Self {
            Self {
                fragments: Fragments::new(limits),
                anomalies: Anomalies::default(),
                frame: 0,
                millis: 0,
            }
        }

        fn place(&self) -> Place {
            Place {
                frame: self.frame,
                ..Place::default()
            }
        }

        /// The payload of the packet that a fragment of packet `id` makes whole.
        fn take(&mut self, id: u32, offset: u32, more: bool, data: &[u8]) -> Option<Vec<u8>> {
            self.take_cut(id, offset, more, data, 0)
                .map(|datagram| datagram.payload)
        }

        fn take_cut(
            &mut self,
            id: u32,
            offset: u32,
            more: bool,
            data: &[u8],
            missing: u32,
        ) -> Option<Datagram> {
            self.frame += 1;
            let fragment = Fragment {
                source: IpAddr::from([10, 0, 0, 1]),
                destination: IpAddr::from([10, 0, 0, 2]),
                protocol: 6,
                identification: id,
                offset,
                more,
                data,
                missing,
            };
            let time = Timestamp::from_nanos(self.millis * 1_000_000);
            let place = self.place();
            let wanted = |first: &[u8]| !first.starts_with(b"no");
            self.fragments
                .take(&fragment, time, place, wanted, &mut self.anomalies)
                .ok()
        }

        fn count(&self, kind: Kind) -> u64 {
            self.anomalies.count(InputId::default(), kind)
        }

        /// Ends the capture; the details of what is odd of a kind.
        fn finish(mut self, kind: Kind) -> Vec<String> {
            self.fragments.finish(&mut self.anomalies);
            self.anomalies
                .iter()
                .filter(|(_, other, _)| *other == kind)
                .flat_map(|(_, _, tally)| tally.examples.iter().map(|e| e.detail.to_string()))
                .collect()
        }
    }

    fn bench() -> Bench {
        Bench::new(Limits::default())
    }

    const A: &[u8] = b"01234567";
    const B: &[u8] = b"89abcdef";
    const C: &[u8] = b"end";

    #[test]
    fn any_order_makes_the_packet_whole_with_the_last() {
        let pieces = [(0, true, A), (8, true, B), (16, false, C)];
        for order in [
            [0, 1, 2],
            [0, 2, 1],
            [1, 0, 2],
            [1, 2, 0],
            [2, 0, 1],
            [2, 1, 0],
        ] {
            let mut bench = bench();
            let whole = order.map(|index| {
                let (offset, more, data) = pieces[index];
                bench.take(1, offset, more, data)
            });
            assert_eq!(whole, [None, None, Some([A, B, C].concat())]);
            assert!(bench.finish(Kind::IpFragment).is_empty());
        }
    }

    #[test]
    fn copies_are_nothing_odd() {
        let mut bench = bench();
        for (offset, more, data) in [(0, true, A), (0, true, A), (8, true, B)] {
            assert_eq!(bench.take(1, offset, more, data), None);
        }
        assert!(bench.take(1, 16, false, C).is_some());
        for (offset, more, data) in [(16, false, C), (0, true, A), (8, true, B)] {
            assert_eq!(bench.take(1, offset, more, data), None);
        }
        assert_eq!(bench.count(Kind::FragmentOverlap), 0);
        assert!(bench.finish(Kind::IpFragment).is_empty());
    }

    #[test]
    fn identifiers_are_used_again() {
        let mut bench = bench();
        bench.take(1, 0, true, A);
        assert!(bench.take(1, 8, false, C).is_some());
        bench.take(1, 0, true, B);
        assert_eq!(bench.take(1, 8, false, C), Some([B, C].concat()));
    }

    #[test]
    fn the_first_bytes_count_and_an_overlap_is_odd() {
        let mut one = bench();
        one.take(1, 0, true, A);
        one.take(1, 0, true, B);
        assert_eq!(one.take(1, 8, false, C), Some([A, C].concat()));
        assert_eq!(one.count(Kind::FragmentOverlap), 1);
        // Part of it new: bytes that are there stay, gaps around them are filled.
        let mut two = bench();
        two.take(1, 8, true, b"--");
        two.take(1, 16, false, C);
        let whole = two.take(1, 0, true, &[A, B].concat());
        assert_eq!(whole, Some([A, b"--", &B[2..], C].concat()));
        assert_eq!(two.count(Kind::FragmentOverlap), 1);
        // The second end is not believed, nor is what lies beyond the first.
        let mut three = bench();
        three.take(1, 8, false, C);
        three.take(1, 16, false, C);
        assert_eq!(
            three.take(1, 0, true, &[A, B].concat()),
            Some([A, C].concat())
        );
        assert_eq!(three.count(Kind::FragmentOverlap), 2);
    }

    #[test]
    fn what_the_snapshot_cut_off_is_missing() {
        let mut bench = bench();
        bench.take_cut(1, 0, true, A, 8);
        let whole = bench.take_cut(1, 16, false, C, 0).unwrap();
        assert_eq!((&whole.payload[..], whole.missing), (A, 8 + 3));
        // A place that is held to be cut off stays so.
        bench.take_cut(2, 16, false, C, 0);
        bench.take_cut(2, 0, true, A, 4);
        let whole = bench.take_cut(2, 8, true, B, 0).unwrap();
        assert_eq!((&whole.payload[..], whole.missing), (A, 8 + 3));
    }

    #[test]
    fn what_never_becomes_whole_is_told() {
        let mut one = bench();
        one.take(0xabc, 0, true, A);
        one.take(0xabc, 16, false, C);
        one.take(0xdef, 0, true, A);
        assert_eq!(
            one.finish(Kind::IpFragment),
            [
                "packet 0x0abc: 8 of 19 bytes missing",
                "packet 0x0def: 8 bytes, the last fragment missing"
            ]
        );
    }

    #[test]
    fn age_is_that_of_the_capture() {
        let mut bench = bench();
        bench.take(1, 0, true, A);
        // One mad clock ends nothing.
        bench.millis = 1_000_000;
        bench.take(2, 0, true, A);
        bench.millis = 30_000;
        assert!(bench.take(1, 8, false, C).is_some());
        bench.take(3, 0, true, A);
        bench.millis = 61_000;
        bench.take(4, 0, true, A);
        bench.millis = 61_001;
        assert_eq!(bench.take(3, 8, false, C), None);
        // That of the mad clock, and the one that was too old.
        assert_eq!(bench.count(Kind::IpFragment), 2);
    }

    #[test]
    fn number_and_memory_have_a_limit() {
        let mut many = Bench::new(Limits {
            fragmented: 10,
            ..Limits::default()
        });
        for id in 0..1000 {
            many.take(id, 0, true, A);
        }
        assert_eq!(many.count(Kind::FragmentLimit), 990);
        assert_eq!(
            (many.fragments.packets.len(), many.fragments.order.len()),
            (10, 10)
        );
        let mut large = Bench::new(Limits {
            fragment_bytes: 10_000,
            ..Limits::default()
        });
        for id in 0..1000 {
            large.take(id, 0, true, &[0; 1000]);
            assert!(large.fragments.cost <= 10_000);
        }
        assert!(large.count(Kind::FragmentLimit) > 980);
        // What was put together costs nothing any more.
        let mut whole = bench();
        for id in 0..1000 {
            whole.take(id, 0, true, &[0; 1000]);
            whole.take(id, 1000, false, C);
        }
        assert_eq!(whole.fragments.cost, 0);
    }

    #[test]
    fn what_is_not_wanted_is_not_kept() {
        let mut bench = bench();
        bench.take(1, 8, false, C);
        bench.take(1, 0, true, b"nothing!");
        bench.take(1, 8, false, C);
        assert_eq!(bench.fragments.cost, 0);
        assert_eq!(bench.take(1, 0, true, A), None);
        assert_eq!(bench.take(1, 8, false, C), Some([A, C].concat()));
        bench.take(2, 0, true, b"nothing!");
        assert!(bench.finish(Kind::IpFragment).is_empty());
    }

    #[test]
    fn no_packet_is_longer_than_packets_are() {
        let mut bench = bench();
        assert_eq!(bench.take(1, 65_528, false, &[0; 8]), None);
        assert!(bench.fragments.packets.is_empty());
        bench.take(1, 65_528, false, &[0; 7]);
        assert_eq!(bench.fragments.packets.len(), 1);
    }

    proptest::proptest! {
        /// Whatever comes, what is put together is what was sent, where nothing contradicts it.
        #[test]
        fn any_cuts_in_any_order_give_the_packet(
            payload in proptest::collection::vec(proptest::num::u8::ANY, 1..400),
            cuts in proptest::collection::vec((0..50_u32, 1..20_u32), 0..40),
        ) {
            let mut bench = bench();
            let len = u32::try_from(payload.len()).unwrap();
            let mut whole = Vec::new();
            let all = cuts.into_iter().chain([(0, 50)]);
            for (start, words) in all {
                let (start, stop) = ((start * 8).min(len - 1) / 8 * 8, len.min((start + words) * 8));
                let data = &payload[start as usize..stop.max(start) as usize];
                whole.extend(bench.take(1, start, stop < len, data));
            }
            assert!(whole.iter().all(|found| *found == payload));
            assert!(!whole.is_empty());
        }
    }
}
