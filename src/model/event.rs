//! Server-sent events as facts.

use super::{
    message::{MessageKind, PayloadHash, Subject},
    place::InputId,
    time::{Span, Timestamp},
};
use std::{iter::FusedIterator, slice};

/// A piece of the text of an exchange: offsets into [`super::exchange::Exchange::text`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Text {
    /// First byte.
    pub start: u32,
    /// Length in bytes.
    pub len: u32,
}

impl Text {
    /// So far behind; what does not fit goes round.
    const fn moved(self, by: u32) -> Self {
        Self {
            start: self.start.wrapping_add(by),
            ..self
        }
    }
}

/// One event of an event stream (WHATWG HTML, "Server-sent events"). Every block with any field
/// is one, also those that a browser would not dispatch; comments are none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Event {
    /// When its last byte was on the wire.
    pub time: Timestamp,
    /// Hash of its data; zero without data.
    pub hash: PayloadHash,
    /// The frame of its last byte.
    pub frame: u32,
    /// The input of its last byte.
    pub input: InputId,
    /// Its own `id` field; `None` without one. An empty id is `Some` of length 0 (it resets).
    pub id: Option<Text>,
    /// Its `event` field; `None` without one.
    pub event_type: Option<Text>,
    /// The JSON-RPC id as JSON text.
    pub rpc_id: Option<Text>,
    /// The JSON-RPC method.
    pub method: Option<Text>,
    /// The progress token of a progress notification, as JSON text.
    pub progress_token: Option<Text>,
    /// Bytes of data (all `data` fields joined).
    pub data_bytes: u32,
    /// Its `retry` field in milliseconds.
    pub retry: Option<u32>,
    /// What its data is.
    pub message: MessageKind,
    /// What an error message speaks of.
    pub subject: Subject,
    /// Whether the client got it: whole, not answered by the client's RST, not sent after its
    /// RST or after a FIN of its that an RST follows.
    pub delivered: bool,
    /// Whether bytes of the stream just before it are missing from the capture.
    pub after_hole: bool,
    /// Whether it has a `data` field at all (a priming event has an empty one).
    pub has_data: bool,
}

impl Event {
    /// An event with an id and no content: it primes the client's cursor.
    #[must_use]
    pub fn is_priming(&self) -> bool {
        self.id.is_some_and(|id| id.len > 0) && self.data_bytes == 0
    }

    /// Whether it is a message (docs/audit.md, "Terms").
    #[must_use]
    pub fn is_message(&self) -> bool {
        self.message.is_message()
    }
}

/// A response or an error in the batch that one event carries (JSON-RPC 2.0, section 6; MCP 2025-03-26,
/// "Sending Messages to the Server").
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchedAnswer {
    /// The index of the event among those of its exchange.
    pub event: u32,
    /// The id that it answers, as JSON text.
    pub rpc_id: Text,
    /// Hash of its own message.
    pub hash: PayloadHash,
}

/// The events of one response, in their order, packed: an event is most of what a run keeps, and neighbours differ
/// in little but their id, their time and what they carry.
///
/// An event takes 36 bytes, and what neighbours have in common is there once. Where that would be more than the events
/// are by themselves, they are kept as they are.
#[derive(Clone, Debug, Default)]
pub struct Events(Packing);

#[derive(Clone, Debug, Default)]
enum Packing {
    #[default]
    Empty,
    Packed(Box<Packed>),
    Plain(Box<[Event]>),
}

#[derive(Clone, Debug)]
struct Packed {
    /// The earliest time.
    base: Timestamp,
    rows: Box<[Row]>,
    /// What neighbours have in common: events without what is in a row. Of their texts, the two ids begin so far
    /// behind the row's.
    forms: Box<[Event]>,
}

/// What is each event's own.
#[derive(Clone, Copy, Debug)]
struct Row {
    hash: [u32; 4],
    /// Nanoseconds since the base.
    time: u32,
    time_high: u16,
    /// Index of its form.
    form: u16,
    frame: u32,
    /// Where its id begins, or without one the id that it answers.
    text: u32,
    data_bytes: u32,
}

/// Forms that are looked at for one that is alike: streams take turns between few.
const RECENT_FORMS: usize = 8;

impl Events {
    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        match &self.0 {
            Packing::Empty => 0,
            Packing::Packed(packed) => packed.rows.len(),
            Packing::Plain(events) => events.len(),
        }
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The event with this index.
    #[must_use]
    #[inline]
    pub fn get(&self, index: usize) -> Option<Event> {
        match &self.0 {
            Packing::Empty => None,
            Packing::Packed(packed) => packed.event(packed.rows.get(index)?),
            Packing::Plain(events) => events.get(index).copied(),
        }
    }

    /// The first of them.
    #[must_use]
    pub fn first(&self) -> Option<Event> {
        self.get(0)
    }

    /// The last of them.
    #[must_use]
    pub fn last(&self) -> Option<Event> {
        self.get(self.len().checked_sub(1)?)
    }

    /// Changes each of them.
    pub fn edit(&mut self, each: impl FnMut(&mut Event)) {
        let mut events: Vec<Event> = self.iter().collect();
        events.iter_mut().for_each(each);
        *self = events.into();
    }

    /// All of them.
    #[must_use]
    pub fn iter(&self) -> Iter<'_> {
        Iter(match &self.0 {
            Packing::Empty => Unpacking::Plain([].iter()),
            Packing::Packed(packed) => Unpacking::Packed {
                packed,
                rows: packed.rows.iter(),
            },
            Packing::Plain(events) => Unpacking::Plain(events.iter()),
        })
    }
}

impl Packed {
    /// `None` when they do not fit: too far apart in time, or too different.
    fn of(events: &[Event]) -> Option<Self> {
        let base = events.iter().map(|event| event.time).min()?;
        let mut forms: Vec<Event> = Vec::new();
        let mut rows = Vec::with_capacity(events.len());
        for event in events {
            let (row, form) = Row::of(event, base)?;
            let recent = forms.iter().enumerate().rev().take(RECENT_FORMS);
            let mut known = recent.filter(|(_, known)| **known == form);
            let index = match known.next() {
                Some((index, _)) => index,
                None => {
                    forms.push(form);
                    forms.len() - 1
                }
            };
            let form = u16::try_from(index).ok()?;
            rows.push(Row { form, ..row });
        }
        let packed = size_of_val(rows.as_slice()) + size_of_val(forms.as_slice());
        (packed < size_of_val(events)).then(|| Self {
            base,
            rows: rows.into(),
            forms: forms.into(),
        })
    }

    #[inline]
    fn event(&self, row: &Row) -> Option<Event> {
        let form = self.forms.get(usize::from(row.form))?;
        Some(row.event(form, self.base))
    }
}

impl Row {
    /// With form 0, and the form that it has.
    fn of(event: &Event, base: Timestamp) -> Option<(Self, Event)> {
        let since = u64::try_from(event.time.since(base).nanos()).ok()?;
        let time_high = u16::try_from(since >> 32).ok()?;
        let text = event.id.or(event.rpc_id).unwrap_or_default().start;
        let hash = event.hash.0;
        let row = Self {
            hash: [96, 64, 32, 0].map(|shift| low(hash >> shift)),
            time: low(since.into()),
            time_high,
            form: 0,
            frame: event.frame,
            text,
            data_bytes: event.data_bytes,
        };
        let form = Event {
            time: Timestamp::default(),
            hash: PayloadHash::default(),
            frame: 0,
            id: event.id.map(|id| id.moved(text.wrapping_neg())),
            rpc_id: event.rpc_id.map(|id| id.moved(text.wrapping_neg())),
            data_bytes: 0,
            ..*event
        };
        Some((row, form))
    }

    #[inline]
    fn event(&self, form: &Event, base: Timestamp) -> Event {
        let since = u64::from(self.time_high) << 32 | u64::from(self.time);
        let [a, b, c, d] = self.hash.map(u128::from);
        Event {
            time: base.plus(Span::from_nanos(since.cast_signed())),
            hash: PayloadHash(a << 96 | b << 64 | c << 32 | d),
            frame: self.frame,
            id: form.id.map(|id| id.moved(self.text)),
            rpc_id: form.rpc_id.map(|id| id.moved(self.text)),
            data_bytes: self.data_bytes,
            ..*form
        }
    }
}

/// The lowest 32 bits.
const fn low(number: u128) -> u32 {
    let [a, b, c, d, ..] = number.to_le_bytes();
    u32::from_le_bytes([a, b, c, d])
}

impl From<Vec<Event>> for Events {
    fn from(events: Vec<Event>) -> Self {
        if events.is_empty() {
            return Self::default();
        }
        Self(match Packed::of(&events) {
            Some(packed) => Packing::Packed(Box::new(packed)),
            None => Packing::Plain(events.into()),
        })
    }
}

impl FromIterator<Event> for Events {
    fn from_iter<I: IntoIterator<Item = Event>>(events: I) -> Self {
        events.into_iter().collect::<Vec<_>>().into()
    }
}

impl<'a> IntoIterator for &'a Events {
    type Item = Event;
    type IntoIter = Iter<'a>;

    fn into_iter(self) -> Iter<'a> {
        self.iter()
    }
}

/// The events of a response one by one.
#[derive(Clone, Debug)]
pub struct Iter<'a>(Unpacking<'a>);

#[derive(Clone, Debug)]
enum Unpacking<'a> {
    Packed {
        packed: &'a Packed,
        rows: slice::Iter<'a, Row>,
    },
    Plain(slice::Iter<'a, Event>),
}

impl Iterator for Iter<'_> {
    type Item = Event;

    #[inline]
    fn next(&mut self) -> Option<Event> {
        match &mut self.0 {
            Unpacking::Packed { packed, rows } => packed.event(rows.next()?),
            Unpacking::Plain(events) => events.next().copied(),
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        match &self.0 {
            Unpacking::Packed { rows, .. } => rows.size_hint(),
            Unpacking::Plain(events) => events.size_hint(),
        }
    }

    #[inline]
    fn nth(&mut self, count: usize) -> Option<Event> {
        match &mut self.0 {
            Unpacking::Packed { packed, rows } => packed.event(rows.nth(count)?),
            Unpacking::Plain(events) => events.nth(count).copied(),
        }
    }
}

impl DoubleEndedIterator for Iter<'_> {
    #[inline]
    fn next_back(&mut self) -> Option<Event> {
        match &mut self.0 {
            Unpacking::Packed { packed, rows } => packed.event(rows.next_back()?),
            Unpacking::Plain(events) => events.next_back().copied(),
        }
    }
}

impl ExactSizeIterator for Iter<'_> {}

impl FusedIterator for Iter<'_> {}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn text() -> impl Strategy<Value = Option<Text>> {
        let small = (0..9_u32, 0..3_u32);
        let any = (any::<u32>(), any::<u32>());
        let text = |(start, len)| Text { start, len };
        proptest::option::of(prop_oneof![small, any].prop_map(text))
    }

    /// Neighbours that are alike in some things, and now and then as far apart as can be.
    fn event() -> impl Strategy<Value = Event> {
        let time = prop_oneof![0..5_i64, 0..1_i64 << 47, any::<i64>()];
        let texts = (text(), text(), text(), text(), text());
        let numbers = (any::<u128>(), any::<u32>(), 0..2_u32, any::<u32>());
        let flags = (any::<bool>(), any::<bool>(), any::<bool>());
        (time, texts, numbers, flags).prop_map(
            |(time, (id, event_type, rpc_id, method, progress_token), numbers, flags)| Event {
                time: Timestamp::from_nanos(time),
                hash: PayloadHash(numbers.0),
                frame: numbers.1,
                input: InputId(numbers.2),
                id,
                event_type,
                rpc_id,
                method,
                progress_token,
                data_bytes: numbers.3,
                retry: flags.0.then_some(numbers.3),
                message: if flags.1 {
                    MessageKind::Response
                } else {
                    MessageKind::None
                },
                subject: Subject::Unknown,
                delivered: flags.0,
                after_hole: flags.2,
                has_data: flags.1,
            },
        )
    }

    proptest! {
        #[test]
        fn events_come_out_as_they_went_in(
            kinds in proptest::collection::vec(event(), 1..6),
            order in proptest::collection::vec((0..6_usize, 0..1_000_u32), 0..40),
        ) {
            let events: Vec<Event> = order
                .iter()
                .map(|&(kind, frame)| Event { frame, ..kinds[kind % kinds.len()] })
                .collect();
            let packed = Events::from(events.clone());
            prop_assert_eq!(packed.len(), events.len());
            prop_assert_eq!(packed.iter().collect::<Vec<_>>(), events.clone());
            let back: Vec<Event> = packed.iter().rev().collect();
            prop_assert!(back.iter().eq(events.iter().rev()));
            prop_assert_eq!(packed.iter().nth(3), events.get(3).copied());
            prop_assert_eq!(packed.first(), events.first().copied());
            prop_assert_eq!(packed.last(), events.last().copied());
        }
    }

    #[test]
    fn a_stream_of_notifications_takes_a_third_of_its_events() {
        let text = |start, len| Some(Text { start, len });
        let events: Vec<Event> = (0..1_000)
            .map(|number| Event {
                time: Timestamp::from_nanos(
                    1_700_000_000_000_000_000 + i64::from(number) * 40_000_000,
                ),
                hash: PayloadHash(u128::from(number) << 100),
                frame: number,
                id: text(7 * number + 30, 6),
                event_type: text(0, 7),
                method: text(7, 22),
                data_bytes: 300 + number % 10,
                message: MessageKind::Notification,
                delivered: true,
                has_data: true,
                ..Event::default()
            })
            .collect();
        let packed = Events::from(events.clone());
        assert!(packed.iter().eq(events.iter().copied()));
        let Packing::Packed(packed) = packed.0 else {
            panic!("kept as they are");
        };
        assert_eq!(packed.forms.len(), 1);
        assert_eq!(size_of::<Row>(), 36);
        assert!(3 * size_of_val(&*packed.rows) < size_of_val(&*events));
    }
}
