//! Events of one stream on another.
//!
//! Which stream an event is of is told by what names it, strongest first: the request that it answers
//! or reports on; the key in its id; its id and payload, delivered on another stream before; its
//! payload alone, when nothing else in the session says the same.
//!
//! A server that keeps one log for all streams replays all of them, and the specification forbids it
//! ("MUST NOT replay messages that would have been delivered on a different stream"). That the log is
//! shared makes the resume continuous (docs/audit.md, "log") and is no excuse for what comes twice.
//! One case is left out. Where ids do not name their stream and the cursor's own was complete, nothing
//! of it is left to ask for: the client uses the last id of any stream as a cursor of the whole
//! session, and there is no other stream for an event to be of.
//!
//! All GETs without a cursor open one and the same standalone stream: its history on a new one of
//! them is nothing strange.

use super::{Channel, Line, MOMENT, Said, Scene, asked::Asked, completed, find, is_unique};
use crate::{
    audit::{
        id::Parts,
        ledger::is_comparable,
        order::{Key, Standing},
        sighting::Scope,
    },
    model::{
        case::{Stray, StrayEvidence},
        event::Event,
        message::{MessageKind, PayloadHash},
        session::Resumption,
        time::Timestamp,
        verdict::{Confidence, IdScheme},
    },
};
use foldhash::fast::RandomState;
use std::{
    cell::OnceCell,
    collections::{HashMap, HashSet},
};

/// So many sightings of a cursor are looked at: one of more streams names none.
const MANY: u32 = 16;

type Map<K, V> = HashMap<K, V, RandomState>;

pub(super) fn strays(
    scene: &Scene<'_, '_>,
    lines: &[Line<'_>],
    said: &[Said],
    asked: &Asked<'_>,
) -> Vec<Stray> {
    // That an event never came on its own stream, and that one request alone has its id, needs a
    // session without a gap.
    if scene.gaps.any() {
        return Vec::new();
    }
    let mut history: Option<History<'_>> = None;
    let mut strays = Vec::new();
    for line in lines.iter().filter(|line| !line.alien) {
        if !line.exchange.events.iter().any(|event| event.is_message()) {
            continue;
        }
        match line.exchange.method() {
            "POST" => strays.extend(on_a_call(scene, line, asked)),
            "GET"
                if line.channel != Channel::Unknown
                    && !is_of_the_session(scene, line)
                    && !is_ambiguous(scene, line) =>
            {
                let history = history.get_or_insert_with(|| History::of(lines, said));
                let search = Search {
                    scene,
                    lines,
                    line,
                    asked,
                    history,
                };
                strays.extend(search.stray());
            }
            _ => {}
        }
    }
    strays
}

/// A response on the stream of another call.
fn on_a_call(scene: &Scene<'_, '_>, line: &Line<'_>, asked: &Asked<'_>) -> Option<Stray> {
    let own = post_of(scene, line)?;
    let mut foreign = line.exchange.events.iter().filter(|event| {
        answered(line, event)
            .and_then(|id| asked.under(id, line.came_by(event)))
            .is_some_and(|post| post != own)
    });
    let first = foreign.next()?;
    Some(Stray {
        id: line.id_of(&first).unwrap_or_default().to_owned(),
        count: 1 + u32::try_from(foreign.count()).unwrap_or(u32::MAX - 1),
        evidence: StrayEvidence::Request,
        confidence: Confidence::High,
        site: line.site_of(&first),
    })
}

/// The POST whose stream a segment is of.
fn post_of(scene: &Scene<'_, '_>, line: &Line<'_>) -> Option<u32> {
    scene.session.streams.get(line.stream as usize)?.begun_by
}

/// The id of the request that a message answers.
fn answered<'l>(line: &'l Line<'_>, event: &Event) -> Option<&'l str> {
    let response = matches!(event.message, MessageKind::Response | MessageKind::Error);
    let id = event.rpc_id.filter(|_| response)?;
    Some(line.exchange.text(id))
}

fn resumption<'s>(scene: &Scene<'s, '_>, line: &Line<'_>) -> Option<&'s Resumption> {
    scene.session.resumes.get(line.resume? as usize)
}

/// Whether the cursor stands for the session rather than for a stream.
fn is_of_the_session(scene: &Scene<'_, '_>, line: &Line<'_>) -> bool {
    let Some(cursor) = line.exchange.cursor() else {
        return false;
    };
    let complete =
        completed(scene, line.stream).is_some_and(|last| last.time <= line.exchange.time());
    complete && !names_its_stream(&scene.ledger.standing(cursor))
}

/// Whether the cursor may be that of another stream as well: one that delivered it too, is not complete,
/// and was cut by then.
fn is_ambiguous(scene: &Scene<'_, '_>, line: &Line<'_>) -> bool {
    let seen = line
        .exchange
        .cursor()
        .and_then(|cursor| scene.ledger.seen(cursor));
    let Some(seen) = seen else {
        return false;
    };
    let start = line.exchange.time();
    (1..)
        .zip(seen.within(Scope::default()))
        .filter(|(_, seen)| seen.stream != line.stream && seen.time <= start)
        .any(|(count, seen)| count > MANY || was_cut(scene, seen.stream, start))
}

/// Whether a stream was neither complete nor open at a time.
fn was_cut(scene: &Scene<'_, '_>, stream: u32, at: Timestamp) -> bool {
    let Some(facts) = scene.session.streams.get(stream as usize) else {
        return false;
    };
    let opened = facts.segments.partition_point(|&segment| {
        let segment = scene.session.segments.get(segment as usize);
        segment.is_some_and(|segment| segment.open < at)
    });
    let last = opened
        .checked_sub(1)
        .and_then(|last| facts.segments.get(last))
        .and_then(|&segment| scene.session.exchange(segment, scene.exchanges));
    let open = last.is_some_and(|last| last.is_open() || last.end.time >= at);
    !open && completed(scene, stream).is_none_or(|last| last.time > at)
}

/// Whether ids of this kind have a key beside their number.
fn names_its_stream(standing: &Standing) -> bool {
    standing.number.is_some() && !standing.key.is_empty()
}

/// An earlier sighting of a payload.
#[derive(Clone, Copy, PartialEq)]
struct Sighting<'l> {
    time: Timestamp,
    channel: Channel,
    /// Its id; `None` without one.
    id: Option<&'l str>,
}

/// What a session said of a payload, in one incarnation.
#[derive(Clone, Copy)]
struct Payload<'l> {
    /// The first time.
    first: Sighting<'l>,
    /// Said twice on one channel, under two ids or without: it does not tell one message from
    /// another.
    repeated: bool,
}

/// Where ids with one stem, or one key, were used for messages.
#[derive(Clone, Copy)]
struct Usage {
    first: (Timestamp, Channel),
    elsewhere: Option<(Timestamp, Channel)>,
}

/// An incarnation, which number is left out of an id, and what is left of it.
type Stem = (u32, Side, Key);

/// Which of the numbers of an id counts, when it has several.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Side {
    First,
    Last,
}

/// The key that a channel's messages have in their ids.
struct OwnKey {
    key: Key,
    /// How many have it.
    count: u32,
    /// When the last of them came.
    last: Timestamp,
    /// When the first came that has another.
    other: Option<Timestamp>,
}

/// What was delivered where.
#[derive(Default)]
struct History<'l> {
    payloads: Map<(u32, PayloadHash), Payload<'l>>,
    /// The first sighting of a payload on a channel.
    on: Map<(u32, PayloadHash, Channel), Sighting<'l>>,
    /// Methods whose notifications say the same twice.
    repetitive: HashSet<(u32, &'l str), RandomState>,
    /// What ids have in common; most sessions need to know neither.
    stems: OnceCell<Stems>,
    keys: OnceCell<Keys>,
}

/// Which channels used which stems.
#[derive(Default)]
struct Stems {
    usage: Map<Stem, Usage>,
    /// How many stems there are, and how many each channel was the first to use.
    all: Map<(u32, Side), u32>,
    owned: Map<(u32, Side, Channel), u32>,
}

/// Which channels used which keys.
#[derive(Default)]
struct Keys {
    usage: Map<(u32, Key), Usage>,
    of_channel: Map<(u32, Channel), OwnKey>,
}

impl<'l> History<'l> {
    fn of(lines: &'l [Line<'_>], said: &[Said]) -> Self {
        let mut history = Self::default();
        for alike in said.chunk_by(Said::is_like) {
            history.note_payload(lines, alike);
        }
        history
    }

    /// Enters all messages of one payload, in order of time. Few payloads come on two channels, and only
    /// those are kept.
    fn note_payload(&mut self, lines: &'l [Line<'_>], alike: &[Said]) {
        let found = || alike.iter().filter_map(|&said| find(lines, said));
        let sightings = || {
            found().map(|(line, event)| Sighting {
                time: event.time,
                channel: line.channel,
                id: line.id_of(&event),
            })
        };
        let Some((line, event)) = found().next().filter(|_| alike.len() > 1) else {
            return;
        };
        let mut on: Map<Channel, Sighting<'l>> = Map::default();
        let mut repeated = false;
        for new in sightings() {
            let known = on.entry(new.channel).or_insert(new);
            repeated |= *known != new && (known.id != new.id || new.id.is_none());
        }
        if repeated && let Some(method) = event.method {
            let method = line.exchange.text(method);
            self.repetitive.insert((line.incarnation, method));
        }
        let Some(first) = sightings().next().filter(|_| on.len() > 1) else {
            return;
        };
        let place = (line.incarnation, event.hash);
        self.payloads.insert(place, Payload { first, repeated });
        for sighting in sightings() {
            self.on
                .entry((line.incarnation, event.hash, sighting.channel))
                .or_insert(sighting);
        }
    }
}

/// The messages of all channels that have an id of their own.
fn named<'l, 'a>(
    scene: &'l Scene<'_, '_>,
    lines: &'l [Line<'a>],
) -> impl Iterator<Item = (&'l Line<'a>, Event, &'l str)> {
    lines.iter().flat_map(move |line| {
        let events = line.exchange.events.iter().filter(is_comparable);
        events.filter_map(move |event| Some((line, event, own_id(scene, line, &event)?)))
    })
}

impl Stems {
    fn of(scene: &Scene<'_, '_>, lines: &[Line<'_>]) -> Self {
        let mut stems = Self::default();
        for (line, event, id) in named(scene, lines) {
            stems.note(line, &event, id);
        }
        stems
    }

    fn note(&mut self, line: &Line<'_>, event: &Event, id: &str) {
        let (owned, all) = (&mut self.owned, &mut self.all);
        let parts = Parts::of(id);
        if is_unique(&parts) {
            return;
        }
        for side in [Side::First, Side::Last] {
            let Some(stem) = stem(&parts, side) else {
                continue;
            };
            let stem = (line.incarnation, side, stem);
            self.usage
                .entry(stem)
                .and_modify(|usage| usage.add(event.time, line.channel))
                .or_insert_with(|| {
                    *all.entry((line.incarnation, side)).or_default() += 1;
                    *owned
                        .entry((line.incarnation, side, line.channel))
                        .or_default() += 1;
                    Usage::new(event.time, line.channel)
                });
        }
    }
}

impl Keys {
    fn of(scene: &Scene<'_, '_>, lines: &[Line<'_>]) -> Self {
        let mut keys = Self::default();
        for (line, event, id) in named(scene, lines) {
            keys.note(scene, line, &event, id);
        }
        keys
    }

    fn note(&mut self, scene: &Scene<'_, '_>, line: &Line<'_>, event: &Event, id: &str) {
        let standing = scene.ledger.standing(id);
        let key = if names_its_stream(&standing) {
            standing.key
        } else {
            Key::default()
        };
        self.usage
            .entry((line.incarnation, key.clone()))
            .and_modify(|usage| usage.add(event.time, line.channel))
            .or_insert_with(|| Usage::new(event.time, line.channel));
        let own = self
            .of_channel
            .entry((line.incarnation, line.channel))
            .or_insert_with(|| OwnKey {
                key: key.clone(),
                count: 0,
                last: event.time,
                other: None,
            });
        if own.key == key {
            own.count += 1;
            own.last = event.time.max(own.last);
        } else {
            own.other = Some(own.other.map_or(event.time, |other| event.time.min(other)));
        }
    }
}

impl Usage {
    fn new(time: Timestamp, channel: Channel) -> Self {
        Self {
            first: (time, channel),
            elsewhere: None,
        }
    }

    /// Events come in order of their segments' opening, not of time.
    fn add(&mut self, time: Timestamp, channel: Channel) {
        if channel == self.first.1 {
            self.first.0 = time.min(self.first.0);
        } else if self.elsewhere.is_none_or(|(other, _)| time < other) {
            self.elsewhere = Some((time, channel));
        }
    }

    /// The channel that was the only one to use it before a time.
    fn owner_before(&self, time: Timestamp) -> Option<Channel> {
        let (since, channel) = self.first;
        let alone = self.elsewhere.is_none_or(|(other, _)| other >= time);
        (since < time && alone).then_some(channel)
    }
}

/// The id of an event, unless it has none or one that marks many.
fn own_id<'l>(scene: &Scene<'_, '_>, line: &'l Line<'_>, event: &Event) -> Option<&'l str> {
    line.id_of(event).filter(|id| *id != &*scene.session.id)
}

/// An id without its first or last number; none where it has no number.
fn stem(parts: &Parts<'_>, side: Side) -> Option<Key> {
    let tokens = || parts.tokens.iter().enumerate();
    let mut numbers = tokens().filter(|(_, token)| token.class.is_candidate());
    let (number, _) = match side {
        Side::First => numbers.next(),
        Side::Last => numbers.next_back(),
    }?;
    let rest = tokens().filter(|&(index, _)| index != number);
    Some(rest.map(|(_, token)| token.text).collect())
}

/// The search for strays on one GET.
struct Search<'s, 'a, 'l> {
    scene: &'s Scene<'s, 'a>,
    lines: &'s [Line<'a>],
    line: &'l Line<'a>,
    asked: &'s Asked<'a>,
    history: &'s History<'l>,
}

impl Search<'_, '_, '_> {
    fn stray(&self) -> Option<Stray> {
        let mut found: Vec<(Event, StrayEvidence)> = Vec::new();
        let mut faint: Vec<(Event, bool)> = Vec::new();
        for event in self.line.exchange.events.iter().filter(is_comparable) {
            match self.told(&event) {
                Some(evidence) => found.push((event, evidence)),
                None => faint.extend(self.faint(&event).map(|alone| (event, alone))),
            }
        }
        let mut confidence = Confidence::High;
        if found.is_empty() {
            // Payloads alone: two of them, or one that had no id where it came first.
            if faint.len() < 2 && !faint.iter().any(|&(_, alone)| alone) {
                return None;
            }
            confidence = Confidence::Medium;
            found.extend(
                faint
                    .into_iter()
                    .map(|(event, _)| (event, StrayEvidence::Payload)),
            );
        }
        let (first, evidence) = found.first()?;
        Some(Stray {
            id: self.line.id_of(first).unwrap_or_default().to_owned(),
            count: u32::try_from(found.len()).unwrap_or(u32::MAX),
            evidence: *evidence,
            confidence,
            site: self.line.site_of(first),
        })
    }

    /// What tells that an event is another stream's, beyond doubt.
    fn told(&self, event: &Event) -> Option<StrayEvidence> {
        let line = self.line;
        let own = post_of(self.scene, line);
        let owner = self.owner(event);
        if owner.is_some() && owner == own {
            return None;
        }
        let is_response = answered(line, event).is_some();
        let resumed = line.resume.is_some();
        // On a GET without a cursor no response may come at all, whosever it is: `wrong-channel`.
        if is_response && !resumed {
            return None;
        }
        // Servers without streams of their own report progress on the standalone stream; that is
        // no replay.
        if owner.is_some() && resumed && (is_response || own.is_some()) {
            return Some(StrayEvidence::Request);
        }
        let before = self.before(event);
        if let Some((before, repeated)) = before {
            let id = line
                .id_of(event)
                .filter(|id| *id != &*self.scene.session.id);
            if id
                .is_some_and(|id| before.id == Some(id) && self.names_one_event(id, before.channel))
            {
                return Some(StrayEvidence::Id);
            }
            let tells = owner.is_some() || event.message == MessageKind::Request;
            if tells && !repeated {
                return Some(StrayEvidence::Request);
            }
        }
        (resumed && self.has_anothers_key(event)).then_some(StrayEvidence::Key)
    }

    /// The POST whose request an event answers or reports on.
    fn owner(&self, event: &Event) -> Option<u32> {
        let time = self.line.came_by(event);
        if let Some(id) = answered(self.line, event) {
            return self.asked.under(id, time);
        }
        let token = self.line.exchange.text(event.progress_token?);
        self.asked.with_token(token, time)
    }

    /// Where the payload was delivered before this GET was sent, on another stream and never on
    /// this one; and whether the session says it more than once.
    fn before(&self, event: &Event) -> Option<(Sighting<'_>, bool)> {
        let line = self.line;
        let payload = self.history.payloads.get(&(line.incarnation, event.hash))?;
        let elsewhere = if payload.first.channel == line.channel {
            return None;
        } else {
            payload.first
        };
        let here = (line.incarnation, event.hash, line.channel);
        let first_here = self
            .history
            .on
            .get(&here)
            .is_some_and(|here| here.time >= event.time);
        (first_here && elsewhere.time < line.exchange.time())
            .then_some((elsewhere, payload.repeated))
    }

    /// Whether one id means one event in this session: by what it is, by one counter for all streams,
    /// or because ids of its stem are one channel's and the others have others.
    fn names_one_event(&self, id: &str, channel: Channel) -> bool {
        let line = self.line;
        let parts = Parts::of(id);
        let ledger = self.scene.ledger;
        let standing = ledger.standing(id);
        let backend = ledger.backend(line.exchange);
        let counted = standing.number.is_some()
            && ledger.shares_counter(line.incarnation, backend, &standing.key, None);
        let apart = |side| {
            let make = || Stems::of(self.scene, self.lines);
            let stems = self.history.stems.get_or_init(make);
            let count = |map: Option<&u32>| map.copied().unwrap_or(0);
            let all = count(stems.all.get(&(line.incarnation, side)));
            let owned = count(stems.owned.get(&(line.incarnation, side, channel)));
            let stem = stem(&parts, side);
            let usage = stem.and_then(|stem| stems.usage.get(&(line.incarnation, side, stem)));
            all > owned
                && usage
                    .is_some_and(|usage| usage.owner_before(line.exchange.time()) == Some(channel))
        };
        is_unique(&parts) || counted || apart(Side::First) || apart(Side::Last)
    }

    /// Whether the key of an event's id is another channel's: until this GET, each of the two had one
    /// key for all its messages, and they were in use at one time (a key that all channels change at
    /// once is none of a stream).
    fn has_anothers_key(&self, event: &Event) -> bool {
        let line = self.line;
        let start = line.exchange.time();
        let Some(id) = own_id(self.scene, line, event) else {
            return false;
        };
        let standing = self.scene.ledger.standing(id);
        // The number that tells events of one millisecond apart is no key.
        let named = standing.scheme != IdScheme::Time
            || standing.key.bytes().any(|byte| byte.is_ascii_alphabetic());
        if !named || !names_its_stream(&standing) {
            return false;
        }
        let make = || Keys::of(self.scene, self.lines);
        let keys = self.history.keys.get_or_init(make);
        let of = |channel| {
            let own = keys.of_channel.get(&(line.incarnation, channel))?;
            let alone = own.other.is_none_or(|other| other >= start);
            (alone && own.count > 1).then_some(own)
        };
        let ours = of(line.channel).filter(|own| !own.key.is_empty());
        let usage = keys.usage.get(&(line.incarnation, standing.key.clone()));
        let Some((usage, ours)) = usage.zip(ours) else {
            return false;
        };
        usage
            .owner_before(start)
            .filter(|&channel| channel != line.channel)
            .and_then(of)
            .is_some_and(|theirs| {
                theirs.key == standing.key && ours.key != standing.key && ours.last >= usage.first.0
            })
    }

    /// Whether a notification repeats, among what is replayed, one that another stream brought between
    /// cursor and disconnect, and no notification of its method repeats another. `Some(true)`: one of
    /// the two has no id, so that the ids do not speak against it.
    fn faint(&self, event: &Event) -> Option<bool> {
        let line = self.line;
        let method = line.exchange.text(event.method?);
        let empty = method.ends_with("list_changed") || method.ends_with("/updated");
        let repetitive = self
            .history
            .repetitive
            .contains(&(line.incarnation, method));
        let cursor = resumption(self.scene, line)?.cursor?;
        let since = self
            .scene
            .session
            .exchange(cursor.segment, self.scene.exchanges)?
            .events
            .get(cursor.event as usize)?
            .time;
        let (before, _) = self.before(event)?;
        let replayed = event.time.since(line.head()) <= MOMENT;
        let id = line.id_of(event);
        (event.message == MessageKind::Notification
            && line.is_timed()
            && replayed
            && !empty
            && !repetitive
            && before.time > since
            && before.id != id)
            .then_some(before.id.is_none() || id.is_none())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stem_is_an_id_without_one_of_its_numbers() {
        let stems = |id| {
            let parts = Parts::of(id);
            [Side::First, Side::Last].map(|side| stem(&parts, side).map(String::from))
        };
        let both = |text: &str| [Some(text.to_owned()), Some(text.to_owned())];
        assert_eq!(stems("s1_4"), both("s1_"));
        assert_eq!(stems("17"), both(""));
        assert_eq!(stems("3/0"), [Some("/0".to_owned()), Some("3/".to_owned())]);
        assert_eq!(stems("abc"), [None, None]);
    }

    #[test]
    fn a_stem_belongs_to_the_channel_that_alone_used_it() {
        let at = Timestamp::from_nanos;
        let mut usage = Usage::new(at(5), Channel::Standalone);
        usage.add(at(9), Channel::Post(1));
        usage.add(at(3), Channel::Standalone);
        assert_eq!(usage.owner_before(at(9)), Some(Channel::Standalone));
        assert_eq!(usage.owner_before(at(10)), None);
        assert_eq!(usage.owner_before(at(3)), None);
    }
}
