//! One direction of a connection: sequence numbers → ordered bytes and holes.

use super::{HoleKind, Holes, Sink};
use crate::{
    anomaly::{Anomalies, Kind},
    limits::Limits,
    model::{
        flow::Side,
        place::{At, InputId, Place},
        prose::prose,
        time::{Span, Timestamp},
    },
};
use std::collections::BTreeMap;
use xxhash_rust::xxh3::xxh3_64;

/// One direction of a connection.
///
/// Sequence numbers are unwrapped into *positions*: `u64`s that grow with the stream, of which the
/// low 32 bits are the sequence number less [`base`](Self::base). Offsets are positions less
/// [`origin`](Self::origin).
#[derive(Debug)]
pub(super) struct Flow {
    side: Side,
    start: Start,
    /// The origin is final: something was handed over or declared, or the SYN was seen.
    committed: bool,
    /// The FIN was handed over.
    finished: bool,
    /// A reset was handed over.
    reset: bool,
    /// Segments with data, in a row, that fit no window; and where the next of them would begin.
    strays: u8,
    stray_next: u32,
    /// Sequence number of position 0.
    base: u32,
    /// Position of offset 0.
    origin: u64,
    /// First position neither handed over nor declared missing.
    next: u64,
    /// Positions below it were sent, as far as anything seen says.
    known: u64,
    /// What the peer acknowledged; 0 when no acknowledgment was seen. Counts the FIN.
    acked: u64,
    /// Where the stream ends (FIN or RST); `u64::MAX` until known.
    end: u64,
    /// Fingerprints of the segments handed over last.
    prints: [Print; PRINTS],
    print: u8,
    /// What only flows out of order need.
    waiting: Option<Box<Waiting>>,
}

/// What says where the stream starts, from the weakest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Start {
    /// Nothing was seen.
    Unknown,
    /// An own segment without payload. It may have been a keep-alive, one byte below.
    Own,
    /// The peer's acknowledgment.
    Told,
    /// The first data seen; held back while earlier data may come.
    Guessed,
    /// The SYN.
    Syn,
}

/// Time and place of a segment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen {
    pub(super) time: Timestamp,
    pub(super) place: Place,
}

impl Seen {
    /// Whether it comes later in the capture.
    pub(super) fn is_after(self, other: Self) -> bool {
        (self.time, self.place) > (other.time, other.place)
    }

    pub(super) const fn at(self, offset: u64) -> At {
        At {
            time: self.time,
            place: self.place,
            offset,
        }
    }
}

/// Where a flow's results go.
pub(super) struct Out<'a, S> {
    pub(super) sink: &'a mut S,
    pub(super) limits: &'a Limits,
    pub(super) anomalies: &'a mut Anomalies,
    pub(super) holes: &'a mut BTreeMap<InputId, Holes>,
    /// Out-of-order bytes that a direction may hold.
    pub(super) room: usize,
}

/// A FIN that waits for the bytes before it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fin {
    pub(super) seen: Seen,
    /// Position in the peer's stream that it acknowledged.
    pub(super) acknowledges: Option<u64>,
}

/// A reset that waits for the bytes before it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reset {
    /// Offset in the peer's stream that it acknowledged.
    pub(super) acknowledges: Option<u64>,
    pub(super) at: At,
}

#[derive(Debug, Default)]
struct Waiting {
    /// By position; they never overlap, and none is below `next`.
    chunks: BTreeMap<u64, Chunk>,
    /// What the chunks cost in memory.
    cost: usize,
    /// Packets of this direction that went beyond the gap they found.
    beyond: u32,
    /// Since when the bytes at `next` are missing.
    gap: Option<Notice>,
    /// Since then, the peer repeated that it does not have them.
    repeated: bool,
    fin: Option<Fin>,
    reset: Option<Reset>,
    hold: Option<Hold>,
    /// The last acknowledgment that could not be told yet, the origin being open.
    acknowledged: Option<Seen>,
}

/// Bytes out of order.
#[derive(Debug)]
struct Chunk {
    /// `None` when the snapshot length cut them off.
    bytes: Option<Box<[u8]>>,
    len: u64,
    seen: Seen,
    /// [`Waiting::beyond`] when it came.
    beyond: u32,
}

#[derive(Clone, Copy, Debug)]
struct Notice {
    seen: Seen,
    beyond: u32,
}

#[derive(Clone, Copy, Debug)]
struct Hold {
    since: Timestamp,
    packets: u8,
}

/// Fingerprint of a segment handed over: position (low bits), length, hash.
#[derive(Clone, Copy, Debug, Default)]
struct Print {
    position: u32,
    len: u32,
    hash: u32,
}

impl Flow {
    pub(super) const fn new(side: Side) -> Self {
        Self {
            side,
            start: Start::Unknown,
            committed: false,
            finished: false,
            reset: false,
            strays: 0,
            stray_next: 0,
            base: 0,
            origin: ZERO,
            next: ZERO,
            known: ZERO,
            acked: 0,
            end: u64::MAX,
            prints: [Print {
                position: 0,
                len: 0,
                hash: 0,
            }; PRINTS],
            print: 0,
            waiting: None,
        }
    }

    pub(super) const fn start(&self) -> Start {
        self.start
    }

    /// Whether nothing but where it starts is known of this flow.
    pub(super) const fn is_untouched(&self) -> bool {
        self.known <= self.origin && self.end == u64::MAX
    }

    /// Memory of the bytes that wait for others.
    pub(super) fn held_bytes(&self) -> usize {
        self.waiting.as_ref().map_or(0, |waiting| waiting.cost)
    }

    /// Whether data was seen, handed over or not.
    pub(super) fn has_data(&self) -> bool {
        self.next > self.origin
            || self
                .waiting
                .as_ref()
                .is_some_and(|waiting| !waiting.chunks.is_empty())
    }

    pub(super) const fn is_reset(&self) -> bool {
        self.reset
    }

    /// The FIN was handed over and acknowledged.
    pub(super) const fn is_closed(&self) -> bool {
        self.finished && self.acked > self.end
    }

    /// Position of a sequence (or acknowledgment) number: the one nearest to what is awaited.
    pub(super) fn position(&self, sequence: u32) -> u64 {
        let distance = sequence
            .wrapping_sub(self.sequence(self.next))
            .cast_signed();
        self.next.saturating_add_signed(i64::from(distance))
    }

    /// Offset of a position; 0 for one before the start.
    pub(super) const fn offset(&self, position: u64) -> u64 {
        position.saturating_sub(self.origin)
    }

    /// The sequence number at which data starts (the SYN's plus one).
    pub(super) fn first_sequence(&self) -> u32 {
        self.sequence(self.origin)
    }

    /// Whether `acknowledgment` lies in what this flow is known to have sent (FIN included).
    pub(super) fn covers(&self, acknowledgment: u32) -> bool {
        let position = self.position(acknowledgment);
        self.start != Start::Unknown
            && position >= self.origin
            && position <= self.known.max(self.next).saturating_add(1)
    }

    /// Sets where data starts, forgetting what was thought before.
    pub(super) fn anchor(&mut self, sequence: u32, start: Start) {
        self.base = sequence;
        self.origin = ZERO;
        self.next = ZERO;
        self.known = ZERO;
        self.acked = if start == Start::Told { ZERO } else { 0 };
        self.end = u64::MAX;
        self.start = start;
        self.committed = start == Start::Syn;
        self.waiting = None;
    }

    /// Tries to fit the SYN of sequence number `sequence - 1` to what was seen before it; false
    /// when it belongs to another connection.
    pub(super) fn adopt_syn<S: Sink>(&mut self, sequence: u32, out: &mut Out<'_, S>) -> bool {
        let position = self.position(sequence);
        if position == self.origin {
            self.start = Start::Syn;
            self.commit(out);
            return true;
        }
        // The first data is missing or late; an acknowledged start would not lie.
        let near = position < self.origin && self.origin - position <= SYN_REACH;
        if self.committed || !near || matches!(self.start, Start::Told) {
            return false;
        }
        self.origin = position;
        self.next = position;
        self.start = Start::Syn;
        self.commit(out);
        true
    }

    /// Whether a segment with payload at `sequence` can be of this stream. A segment far outside
    /// what any window allows is a stray; a run of them is [`Fit::Foreign`].
    pub(super) fn fit(&mut self, sequence: u32, len: u32) -> Fit {
        let position = self.position(sequence);
        if position <= self.known.max(self.next).saturating_add(REACH)
            && position.saturating_add(REACH) >= self.next
        {
            if len > 0 {
                self.strays = 0;
            }
            return Fit::Ours;
        }
        if len > 0 {
            let follows = sequence.wrapping_sub(self.stray_next) < STRAY_REACH;
            self.strays = if follows { self.strays + 1 } else { 1 };
            self.stray_next = sequence.wrapping_add(len);
            if self.strays >= STRAYS {
                return Fit::Foreign;
            }
        }
        Fit::Stray
    }

    /// Whether the peer would believe a reset with this sequence number: at what it has
    /// acknowledged, or beyond within a large window (RFC 9293, section 3.5.3). Without any
    /// acknowledgment in the capture, a little below what is awaited will do.
    pub(super) fn believes_reset(&self, sequence: u32) -> bool {
        let position = self.position(sequence);
        let lowest = if self.acked > 0 {
            self.acked
        } else {
            self.next.saturating_sub(RESET_BELOW)
        };
        position >= lowest && position <= self.known.max(self.next).saturating_add(RESET_WINDOW)
    }

    /// The peer acknowledged everything before `acknowledgment`.
    pub(super) fn acknowledge<S: Sink>(
        &mut self,
        acknowledgment: u32,
        seen: Seen,
        out: &mut Option<Out<'_, S>>,
    ) {
        if self.start == Start::Unknown {
            self.anchor(acknowledgment, Start::Told);
            return;
        }
        let position = self.position(acknowledgment);
        if position == self.acked
            && let Some(waiting) = &mut self.waiting
        {
            waiting.repeated = waiting.gap.is_some();
        }
        if position <= self.acked || position > self.known.max(self.next).saturating_add(REACH) {
            return;
        }
        if self.start == Start::Own && !self.committed && position == self.next + 1 {
            self.skip_keep_alive();
        }
        let before = self.acked.min(self.end).max(self.origin);
        self.acked = position;
        if let Some(waiting) = &mut self.waiting {
            waiting.repeated = false;
        }
        let reached = position.min(self.end);
        self.known = self.known.max(reached);
        if !self.committed {
            self.waiting().acknowledged = Some(seen);
        } else if reached > before
            && let Some(out) = out
        {
            out.sink
                .acknowledged(self.side, seen.at(self.offset(reached)));
        }
        self.watch(seen);
        self.tidy();
    }

    /// The peer's reset acknowledged everything before `acknowledgment`: it was sent, seen or not.
    pub(super) fn was_got(&mut self, acknowledgment: u32, seen: Seen) {
        let position = self.position(acknowledgment);
        let near = position <= self.known.max(self.next).saturating_add(REACH);
        if self.start != Start::Unknown && near {
            self.known = self.known.max(position.min(self.end));
            self.watch(seen);
        }
    }

    /// Takes payload at `position`, and `missing` bytes after it that the snapshot length cut.
    pub(super) fn bytes<S: Sink>(
        &mut self,
        position: u64,
        payload: &[u8],
        missing: u64,
        seen: Seen,
        out: &mut Out<'_, S>,
    ) {
        let (payload, missing) = keep(payload, missing, self.end.saturating_sub(position));
        let seen_end = position + length(payload);
        let end = seen_end + missing;
        if end == position {
            return;
        }
        if end - position == 1 && self.is_keep_alive(position, payload) {
            return;
        }
        if !self.committed {
            self.move_start(position, seen.time);
        }
        self.known = self.known.max(end);
        let (mut position, mut payload, mut missing) = (position, payload, missing);
        if position < self.next {
            self.compare(position, payload, seen, out);
            if end <= self.next {
                return;
            }
            (payload, missing) = past(payload, missing, self.next - position);
            position = self.next;
        }
        let chunk = self
            .waiting
            .as_ref()
            .and_then(|waiting| waiting.chunks.first_key_value())
            .map_or(u64::MAX, |(&position, _)| position);
        let straight = self.committed || matches!(self.start, Start::Told | Start::Own);
        if straight && position == self.next && end <= chunk {
            self.fix_origin(out);
            self.hand_over(payload, seen, out);
            if missing > 0 {
                self.declare(missing, HoleKind::Truncated, seen, out);
            }
        } else {
            self.store(position, payload, missing, seen, out);
        }
        self.drain(None, out);
        while self
            .waiting
            .as_ref()
            .is_some_and(|waiting| waiting.cost > out.room)
        {
            if self.committed {
                let offset = self.offset(self.next);
                out.anomalies.note(Kind::OutOfOrderLimit, seen.place, || {
                    prose!("gap at offset {} given up", offset)
                });
                self.give_up(seen, None, out);
            } else {
                self.commit(out);
            }
        }
    }

    /// Takes a FIN at `position`. One that lies before bytes already seen is not believed.
    pub(super) fn fin(&mut self, position: u64, fin: Fin) {
        let pending = self.waiting.as_ref().is_some_and(|w| w.fin.is_some());
        let earliest = self.data_end().max(self.acked.saturating_sub(1));
        if self.finished || pending || !(earliest..=self.end).contains(&position) {
            return;
        }
        self.end = position;
        self.known = self.known.max(position);
        let hold = !self.committed && matches!(self.start, Start::Own | Start::Guessed);
        let waiting = self.waiting();
        waiting.fin = Some(fin);
        if hold {
            waiting.hold.get_or_insert(Hold {
                since: fin.seen.time,
                packets: 0,
            });
            self.start = Start::Guessed;
        }
    }

    /// The FIN, once everything before it was handed over or declared lost.
    pub(super) fn take_fin(&mut self) -> Option<(Fin, u64)> {
        if self.start == Start::Guessed && !self.committed || self.next != self.end {
            return None;
        }
        let fin = self.waiting.as_mut()?.fin.take()?;
        self.committed = true;
        self.finished = true;
        self.tidy();
        Some((fin, self.offset(self.end)))
    }

    /// The sender reset the connection at `sequence`: later segments carry nothing beyond. Returns
    /// the reset's offset.
    pub(super) fn reset<S: Sink>(&mut self, sequence: u32, out: &mut Out<'_, S>) -> u64 {
        if self.start == Start::Unknown {
            self.anchor(sequence, Start::Own);
        }
        self.commit(out);
        self.reset = true;
        let position = self.position(sequence);
        self.end = self.end.min(position.max(self.known));
        self.known = self.known.max(position.min(self.end));
        self.offset(position)
    }

    /// Takes the reset itself, for when its turn comes.
    pub(super) fn keep_reset(&mut self, reset: Reset) {
        self.waiting().reset = Some(reset);
    }

    /// The reset, once everything before it was handed over or declared lost; at once when it is
    /// `urgent`.
    pub(super) fn take_reset(&mut self, urgent: bool) -> Option<Reset> {
        if !urgent && self.next < self.known.min(self.end) {
            return None;
        }
        let reset = self.waiting.as_mut()?.reset.take();
        self.tidy();
        reset
    }

    /// Takes note of a packet of this direction that reached `position`: it counts for the start
    /// held back, and for the gap it went beyond; declares the gaps whose time has come.
    pub(super) fn settle<S: Sink>(&mut self, position: u64, seen: Seen, out: &mut Out<'_, S>) {
        if !self.finished {
            self.known = self.known.max(position.min(self.end));
        }
        if self.waiting.is_none() && self.known <= self.next {
            return;
        }
        if let Some(waiting) = &mut self.waiting
            && let Some(hold) = &mut waiting.hold
        {
            hold.packets += 1;
            if hold.packets > HOLD_PACKETS {
                self.commit(out);
            }
        }
        self.watch(seen);
        let next = self.next;
        if let Some(waiting) = &mut self.waiting
            && waiting.gap.is_some()
            && position > next
        {
            waiting.beyond = waiting.beyond.wrapping_add(1);
        }
        while self.gap_is_ripe(seen.time, out.limits) {
            self.give_up(seen, None, out);
            self.watch(seen);
        }
        self.tidy();
    }

    /// Lets go of a start held back once its time has passed.
    pub(super) fn tick<S: Sink>(&mut self, now: Timestamp, out: &mut Out<'_, S>) {
        if let Some(waiting) = &self.waiting
            && let Some(hold) = waiting.hold
            && now.since(hold.since) >= HOLD_TIME
        {
            self.commit(out);
        }
    }

    /// Lets go of a start held back when the peer speaks after having received it.
    pub(super) fn answered<S: Sink>(&mut self, acknowledgment: u32, out: &mut Out<'_, S>) {
        if self.waiting.as_ref().is_some_and(|w| w.hold.is_some())
            && self.position(acknowledgment) > self.next
        {
            self.commit(out);
        }
    }

    /// Makes the origin final, and hands over what was held back.
    pub(super) fn commit<S: Sink>(&mut self, out: &mut Out<'_, S>) {
        self.fix_origin(out);
        self.drain(None, out);
    }

    /// When the first of what still waits was seen, or it was seen that bytes are missing; `None` when
    /// nothing waits and nothing is missing.
    pub(super) fn awaited(&self) -> Option<Seen> {
        let waiting = self.waiting.as_ref()?;
        let chunk = waiting
            .chunks
            .first_key_value()
            .map(|(_, chunk)| chunk.seen);
        let gap = waiting.gap.map(|gap| gap.seen);
        match (chunk, gap) {
            (Some(chunk), Some(gap)) if chunk.is_after(gap) => Some(gap),
            (Some(chunk), _) => Some(chunk),
            (None, gap) => gap,
        }
    }

    /// Gives up the gap at the front, as at the end of a connection, and hands over what follows,
    /// but for what was seen after `until`.
    pub(super) fn flush<S: Sink>(&mut self, last: Seen, until: Option<Seen>, out: &mut Out<'_, S>) {
        self.fix_origin(out);
        self.drain(until, out);
        if self.next < self.known.min(self.end) && !self.take_for_fin() {
            self.give_up(last, until, out);
        }
    }

    /// At the end of a connection: one number more than the bytes that were seen was used, as the
    /// peer's acknowledgment says or an own segment without bytes. That was the FIN, which the capture
    /// lost.
    fn take_for_fin(&mut self) -> bool {
        let one = self.known == self.next + 1;
        let Some(waiting) = &mut self.waiting else {
            return false;
        };
        let Some(gap) = waiting.gap.filter(|_| waiting.chunks.is_empty()) else {
            return false;
        };
        if !one || self.end != u64::MAX {
            return false;
        }
        waiting.gap = None;
        waiting.fin = Some(Fin {
            seen: gap.seen,
            acknowledges: None,
        });
        self.end = self.next;
        true
    }

    /// The end of the data seen, handed over or not.
    fn data_end(&self) -> u64 {
        self.waiting
            .as_ref()
            .and_then(|waiting| waiting.chunks.last_key_value())
            .map_or(self.next, |(&position, chunk)| {
                self.next.max(position + chunk.len)
            })
    }

    fn sequence(&self, position: u64) -> u32 {
        self.base.wrapping_add(low(position))
    }

    fn waiting(&mut self) -> &mut Waiting {
        self.waiting.get_or_insert_default()
    }

    /// Frees what a flow in order does not need.
    fn tidy(&mut self) {
        if let Some(waiting) = &self.waiting
            && waiting.chunks.is_empty()
            && waiting.gap.is_none()
            && waiting.fin.is_none()
            && waiting.reset.is_none()
            && waiting.hold.is_none()
            && waiting.acknowledged.is_none()
        {
            self.waiting = None;
        }
    }

    /// One byte just below what was sent provokes an answer; its content may be garbage (RFC 9293,
    /// section 3.8.4). At the awaited position it is data (a zero-window probe). Beyond a gap it is
    /// either, and only a zero byte that was already acknowledged is taken for garbage.
    fn is_keep_alive(&self, position: u64, payload: &[u8]) -> bool {
        let held = !self.committed && self.start == Start::Guessed;
        let known = position + 1 == self.next && !held;
        known || position > self.next && position + 1 == self.acked && payload == [0]
    }

    /// The start was told by a keep-alive: data begins one further.
    fn skip_keep_alive(&mut self) {
        self.next += 1;
        self.origin = self.next;
        self.known = self.known.max(self.next);
    }

    /// Data at `position` while the origin is open.
    fn move_start(&mut self, position: u64, now: Timestamp) {
        if self.start == Start::Own && position == self.next + 1 && self.waiting.is_none() {
            self.skip_keep_alive();
        }
        let lower = position < self.next && self.next - position <= START_REACH;
        if lower || self.start == Start::Guessed {
            if lower {
                self.next = position;
                self.origin = position;
            }
            self.start = Start::Guessed;
            self.waiting().hold.get_or_insert(Hold {
                since: now,
                packets: 0,
            });
        }
    }

    /// Puts aside what of `payload` and `missing` is not there yet.
    fn store<S: Sink>(
        &mut self,
        position: u64,
        payload: &[u8],
        missing: u64,
        seen: Seen,
        out: &mut Out<'_, S>,
    ) {
        let end = position + length(payload) + missing;
        let first = self.origin;
        let waiting = self.waiting.get_or_insert_default();
        let mut at = position;
        let mut conflict = None;
        while at < end {
            let (mine, _) = past(payload, missing, at - position);
            if let Some((&there, chunk)) = waiting.chunks.range(..=at).next_back()
                && there + chunk.len > at
            {
                let stop = end.min(there + chunk.len);
                let (theirs, _) = past(chunk.bytes.as_deref().unwrap_or_default(), 0, at - there);
                if mine.iter().zip(theirs).any(|(mine, theirs)| mine != theirs) {
                    conflict = conflict.or(Some(at));
                }
                at = stop;
                continue;
            }
            let stop = waiting
                .chunks
                .range(at..)
                .next()
                .map_or(end, |(&there, _)| end.min(there));
            // Bytes and cut-off bytes are separate chunks.
            let len = if mine.is_empty() {
                stop - at
            } else {
                (stop - at).min(length(mine))
            };
            let bytes = (!mine.is_empty()).then(|| Box::from(keep(mine, 0, len).0));
            waiting.cost += cost(bytes.as_deref());
            waiting.chunks.insert(
                at,
                Chunk {
                    bytes,
                    len,
                    seen,
                    beyond: waiting.beyond,
                },
            );
            at += len;
        }
        if let Some(at) = conflict {
            let side = self.side;
            out.anomalies.note(Kind::OverlapConflict, seen.place, || {
                prose!("side {}, offset {}", side.name(), at.saturating_sub(first))
            });
        }
    }

    /// Makes the origin final; what could not be told without one is told.
    fn fix_origin<S: Sink>(&mut self, out: &mut Out<'_, S>) {
        self.committed = true;
        let Some(waiting) = &mut self.waiting else {
            return;
        };
        waiting.hold = None;
        if let Some(seen) = waiting.acknowledged.take() {
            let reached = self.acked.min(self.end);
            if reached > self.origin {
                out.sink
                    .acknowledged(self.side, seen.at(self.offset(reached)));
            }
        }
    }

    /// Hands over the chunks that are next, up to the first that was seen after `until`.
    fn drain<S: Sink>(&mut self, until: Option<Seen>, out: &mut Out<'_, S>) {
        loop {
            let Some(waiting) = &mut self.waiting else {
                return;
            };
            let Some(entry) = waiting.chunks.first_entry() else {
                return;
            };
            let position = *entry.key();
            let may = self.committed || matches!(self.start, Start::Told | Start::Own);
            let late = until.is_some_and(|until| entry.get().seen.is_after(until));
            if position > self.next || !may || late {
                return;
            }
            let chunk = entry.remove();
            waiting.cost = waiting.cost.saturating_sub(cost(chunk.bytes.as_deref()));
            waiting.gap = None;
            if !self.committed {
                self.fix_origin(out);
            }
            let skip = self.next - position;
            match &chunk.bytes {
                Some(bytes) => {
                    self.hand_over(past(bytes, 0, skip).0, chunk.seen, out);
                }
                None if chunk.len > skip => {
                    self.declare(chunk.len - skip, HoleKind::Truncated, chunk.seen, out);
                }
                None => {}
            }
        }
    }

    fn hand_over<S: Sink>(&mut self, bytes: &[u8], seen: Seen, out: &mut Out<'_, S>) {
        if bytes.is_empty() {
            return;
        }
        self.tell_start(out);
        if let Some(print) = self.prints.get_mut(usize::from(self.print)) {
            *print = Print::of(self.next, bytes);
        }
        self.print = (self.print + 1) % PRINTS_U8;
        self.next += length(bytes);
        out.sink
            .data(self.side, bytes, seen.at(self.offset(self.next)));
    }

    /// Tells the sink where the stream starts, once that is final and before anything of it.
    fn tell_start<S: Sink>(&self, out: &mut Out<'_, S>) {
        if self.next == self.origin {
            out.sink.starts(self.side, self.first_sequence());
        }
    }

    fn declare<S: Sink>(&mut self, bytes: u64, kind: HoleKind, seen: Seen, out: &mut Out<'_, S>) {
        if bytes == 0 {
            return;
        }
        self.tell_start(out);
        let offset = self.offset(self.next);
        self.next += bytes;
        let tally = out.holes.entry(seen.place.input).or_default();
        tally.holes += 1;
        tally.bytes = tally.bytes.saturating_add(bytes);
        let side = self.side;
        out.anomalies.note(Kind::Hole, seen.place, || {
            prose!(
                "{} bytes of side {} at offset {}: {}",
                bytes,
                side.name(),
                offset,
                kind.name()
            )
        });
        out.sink
            .hole(side, bytes, kind, seen.at(self.offset(self.next)));
    }

    /// Notices that the bytes at `next` are missing, or that they no longer are.
    fn watch(&mut self, now: Seen) {
        let missing = self.next < self.known.min(self.end);
        if !missing && self.waiting.is_none() {
            return;
        }
        let next = self.next;
        let waiting = self.waiting();
        let first = waiting.chunks.first_key_value();
        if !missing || first.is_some_and(|(&position, _)| position <= next) {
            waiting.gap = None;
            waiting.repeated = false;
        } else if let Some(gap) = &mut waiting.gap {
            // A clock that steps back must not make the wait longer.
            if now.time < gap.seen.time {
                gap.seen = now;
            }
        } else {
            waiting.gap = Some(match first {
                Some((_, chunk)) => Notice {
                    seen: chunk.seen,
                    beyond: chunk.beyond,
                },
                None => Notice {
                    seen: now,
                    beyond: waiting.beyond,
                },
            });
        }
    }

    fn gap_is_ripe(&self, now: Timestamp, limits: &Limits) -> bool {
        self.waiting.as_ref().is_some_and(|waiting| {
            waiting.gap.is_some_and(|gap| {
                waiting.beyond.wrapping_sub(gap.beyond) >= limits.reorder_packets
                    && now.since(gap.seen.time) >= limits.reorder_time
            })
        })
    }

    /// Declares the bytes from `next` to the first chunk (or to what is known to have been sent)
    /// missing, and goes on after them.
    fn give_up<S: Sink>(&mut self, seen: Seen, until: Option<Seen>, out: &mut Out<'_, S>) {
        self.commit(out);
        let known = self.known.min(self.end);
        let waiting = self.waiting();
        waiting.gap = None;
        let (stop, seen) = waiting
            .chunks
            .first_key_value()
            .map_or((known, seen), |(&position, chunk)| (position, chunk.seen));
        // That the peer has them, or says nothing, makes it the capture's loss.
        let lost = if std::mem::take(&mut waiting.repeated) {
            self.acked.min(stop)
        } else {
            stop
        };
        self.declare(lost.saturating_sub(self.next), HoleKind::Lost, seen, out);
        let rest = stop.saturating_sub(self.next);
        self.declare(rest, HoleKind::Unacknowledged, seen, out);
        self.drain(until, out);
    }

    /// Compares a retransmission with the fingerprints of what was handed over.
    fn compare<S: Sink>(&self, position: u64, payload: &[u8], seen: Seen, out: &mut Out<'_, S>) {
        for print in &self.prints {
            let back = low(self.next).wrapping_sub(print.position);
            let start = self.next.saturating_sub(u64::from(back));
            if print.len == 0 || start < position {
                continue;
            }
            let (rest, _) = past(payload, 0, start - position);
            let Some(same) = usize::try_from(print.len)
                .ok()
                .and_then(|len| rest.get(..len))
            else {
                continue;
            };
            if Print::of(start, same).hash != print.hash {
                let (side, offset) = (self.side, self.offset(start));
                out.anomalies.note(Kind::OverlapConflict, seen.place, || {
                    prose!("side {}, offset {}", side.name(), offset)
                });
                return;
            }
        }
    }
}

/// How a segment's sequence number relates to a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fit {
    /// It can be of this stream.
    Ours,
    /// It cannot.
    Stray,
    /// So many in a row cannot that another connection must have taken the place.
    Foreign,
}

impl Print {
    fn of(position: u64, bytes: &[u8]) -> Self {
        Self {
            position: low(position),
            len: u32::try_from(bytes.len()).unwrap_or(u32::MAX),
            hash: low(xxh3_64(bytes)),
        }
    }
}

/// The first `len` of `payload` and the `missing` bytes after it.
fn keep(payload: &[u8], missing: u64, len: u64) -> (&[u8], u64) {
    match usize::try_from(len).ok().and_then(|len| payload.get(..len)) {
        Some(payload) => (payload, 0),
        None => (payload, missing.min(len - length(payload))),
    }
}

/// What is left of `payload` and the `missing` bytes after it, past the first `skip`.
fn past(payload: &[u8], missing: u64, skip: u64) -> (&[u8], u64) {
    match usize::try_from(skip)
        .ok()
        .and_then(|skip| payload.get(skip..))
    {
        Some(payload) => (payload, missing),
        None => (&[], (missing + length(payload)).saturating_sub(skip)),
    }
}

/// Memory a chunk costs: its bytes, its entry and its allocation.
fn cost(bytes: Option<&[u8]>) -> usize {
    bytes.map_or(0, <[u8]>::len) + size_of::<(u64, Chunk)>() + 32
}

fn length(bytes: &[u8]) -> u64 {
    bytes.len().try_into().unwrap_or(u64::MAX)
}

fn low(wide: u64) -> u32 {
    let [.., a, b, c, d] = wide.to_be_bytes();
    u32::from_be_bytes([a, b, c, d])
}

/// Position of the first sequence number seen: far from 0, so that earlier ones have positions.
const ZERO: u64 = 1 << 40;
/// Packets of the direction after which a start held back is final.
const HOLD_PACKETS: u8 = 8;
/// Capture time after which a start held back is final: beyond what capturing reorders.
const HOLD_TIME: Span = Span::from_millis(200);
/// How far below the first data seen the start may move.
const START_REACH: u64 = 1 << 20;
/// How far below the first data seen its SYN may lie.
const SYN_REACH: u64 = 64 << 10;
/// Distance from what is awaited beyond which a segment is of another connection. Windows reach
/// 1 GiB on paper (RFC 7323); a smaller reach keeps the leftovers of a former connection out.
const REACH: u64 = 1 << 28;
/// Segments in a row outside [`REACH`] after which the flow is taken for another connection.
const STRAYS: u8 = 8;
/// How far such segments may be apart to count as a row.
const STRAY_REACH: u32 = 1 << 20;
/// How far beyond what was seen a reset may lie: 64 KiB, scaled.
const RESET_WINDOW: u64 = 64 << 16;
/// How far below what is awaited a reset may lie when no acknowledgment was seen.
const RESET_BELOW: u64 = 64 << 10;
/// Fingerprints kept.
const PRINTS: usize = 8;
const PRINTS_U8: u8 = 8;
