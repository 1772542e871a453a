//! The order of event ids, learnt from what was seen (docs/audit.md, "Order of event ids").
//!
//! Inside one segment the order of arrival is the order of the log. Over the steps between
//! neighbours, ids of one *shape* (the same classes of tokens, the same delimiters) tell which
//! token grows: that is the number; the tokens that stay are the key; words that change all the
//! time (a random suffix) are neither. Steps over a hole, or over a message without id, count
//! neither way.

use super::id::{Class, Number, Parts, Shape};
use crate::model::{
    event::Event,
    exchange::{Exchange, Teller},
    id::IdPart,
    session::Session,
    time::Span,
    verdict::IdScheme,
};
use foldhash::fast::RandomState;
use rayon::prelude::*;
use smol_str::{SmolStr, SmolStrBuilder};
use std::{
    cmp::Ordering,
    collections::{BTreeMap, BTreeSet, HashMap},
};

/// What names a stream in an id. Every event has one, and most are short.
pub type Key = SmolStr;

/// What a run teaches about the ids of every service.
#[derive(Debug, Default)]
pub struct Orders {
    shapes: HashMap<(u32, Shape), Learnt, RandomState>,
    /// Numbers of counters that all sessions of a service share (no id occurs in two of them), by
    /// key; only of shapes that some stream seems to skip in.
    wide: BTreeMap<(u32, Shape), BTreeMap<Key, Wide>>,
}

/// Which token of the ids of a run is their number, whatever service they are of.
#[derive(Debug, Default)]
pub struct NumberTokens {
    /// By shape; `None` where none is, or where two services have two.
    token: HashMap<Shape, Option<usize>, RandomState>,
    /// By shape those of all services, in order.
    every: HashMap<Shape, Vec<usize>, RandomState>,
}

/// A counter that sessions share.
#[derive(Debug, Default)]
struct Wide {
    numbers: BTreeSet<u128>,
    /// How many sessions drew from it.
    sessions: usize,
}

/// The order of the ids of one shape.
#[derive(Clone, Debug, Default)]
struct Learnt {
    /// The token that is the number.
    number: Option<usize>,
    /// Tokens that belong to no key.
    noise: Vec<usize>,
    /// Whether the number is hexadecimal.
    hexadecimal: bool,
    /// Steps of exactly 1.
    plus_one: u64,
    /// Steps that speak against a dense counter.
    jumps: u64,
    /// Steps back.
    backwards: u64,
    scheme: IdScheme,
    /// The service has several backends, each with a clock of its own.
    clocks: bool,
    /// No step was seen that could have told.
    unseen: bool,
}

/// Where an id stands: its key, its number, and the scheme both follow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standing {
    /// What names the stream in the id; empty when nothing does.
    pub key: Key,
    /// The number, unless the order is only observed.
    pub number: Option<Number>,
    /// How ids of this kind are ordered.
    pub scheme: IdScheme,
    /// Steps were seen that contradict the scheme.
    pub contradicted: bool,
    /// Several backends make ids of this kind, each by a clock of its own.
    pub clocks: bool,
}

/// How two ids stand to each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relation {
    /// The first is earlier.
    Before,
    /// They hold the same number or the same text.
    Same,
    /// The first is later.
    After,
    /// Nothing can be said: two keys, two shapes, times too close, order only observed.
    Unordered,
}

/// Times closer than this are unordered: ids of one millisecond come in any order.
const SAME_TIME: Span = Span::from_millis(1);

/// The same where several backends make the ids: their clocks differ by this much.
const CLOCKS: Span = Span::from_millis(50);

/// Steps of 1 that prove a counter without holes.
const DENSE_STEPS: u64 = 5;

impl Orders {
    /// Learns from every segment of every session. `service_of` numbers the service of each
    /// session.
    #[must_use]
    pub fn learn(sessions: &[Session], service_of: &[u32], exchanges: &[Exchange]) -> Self {
        let gathered: Vec<Gathered> = sessions
            .par_iter()
            .map(|session| gather(session, exchanges))
            .collect();
        let mut shapes: HashMap<(u32, Shape), Statistics, RandomState> = HashMap::default();
        for (gathered, &service) in gathered.into_iter().zip(service_of) {
            for (shape, statistics) in gathered {
                shapes
                    .entry((service, shape))
                    .or_default()
                    .merge(&statistics);
            }
        }
        let several = of_several_backends(sessions, service_of, exchanges);
        let mut orders = Self {
            wide: BTreeMap::new(),
            shapes: shapes
                .into_iter()
                .map(|(shape, statistics)| {
                    let clocks = several.contains(&shape.0);
                    let learnt = statistics.conclude();
                    (shape, Learnt { clocks, ..learnt })
                })
                .collect(),
        };
        orders.count_steps(sessions, service_of, exchanges);
        orders
    }

    /// Where `id` stands among the ids of `service`. An id equal to the session's is a marker and
    /// has no order.
    #[must_use]
    pub fn standing(&self, service: u32, session: &str, id: &str) -> Standing {
        if id == session || id.is_empty() {
            return Standing {
                key: Key::default(),
                number: None,
                scheme: IdScheme::None,
                contradicted: false,
                clocks: false,
            };
        }
        let parts = Parts::of(id);
        let fallback;
        let learnt = match self.shapes.get(&(service, parts.shape())) {
            Some(learnt) => learnt,
            None => {
                fallback = Statistics::default().conclude_for(&classes(&parts));
                &fallback
            }
        };
        stand(&parts, learnt)
    }

    /// How ids of the kind of `id` are ordered.
    #[must_use]
    pub fn scheme(&self, service: u32, session: &str, id: &str) -> IdScheme {
        if id == session || id.is_empty() {
            return IdScheme::None;
        }
        let parts = Parts::of(id);
        match self.shapes.get(&(service, parts.shape())) {
            Some(learnt) => learnt.scheme,
            None => self.standing(service, session, id).scheme,
        }
    }

    /// The numbers of ids, whatever service they are of.
    #[must_use]
    pub fn number_tokens(&self) -> NumberTokens {
        let mut token: HashMap<Shape, Option<usize>, RandomState> = HashMap::default();
        let mut every: HashMap<Shape, Vec<usize>, RandomState> = HashMap::default();
        let mut told: Vec<(Shape, usize)> = Vec::new();
        #[expect(
            clippy::iter_over_hash_type,
            reason = "what is known of a shape does not depend on the order of services"
        )]
        for (&(_, shape), learnt) in &self.shapes {
            // Where steps were seen and nothing grew, none is the number.
            if !learnt.unseen {
                token.entry(shape).or_default();
            }
            told.extend(learnt.number.map(|number| (shape, number)));
        }
        told.sort_unstable();
        told.dedup();
        for run in told.chunk_by(|a, b| a.0 == b.0) {
            if let Some(&(shape, number)) = run.first() {
                token.insert(shape, (run.len() == 1).then_some(number));
                every.insert(shape, run.iter().map(|(_, number)| *number).collect());
            }
        }
        NumberTokens { token, every }
    }

    /// How `a` stands to `b`, both ids of one service and session.
    #[must_use]
    pub fn relation(&self, service: u32, session: &str, a: &str, b: &str) -> Relation {
        if a == b {
            return Relation::Same;
        }
        compare(
            &self.standing(service, session, a),
            &self.standing(service, session, b),
        )
    }

    /// Numbers strictly between two of a counter that all sessions of the service share; none when
    /// sessions count for themselves.
    pub fn shared_between(
        &self,
        service: u32,
        id: &str,
        from: &Number,
        to: &Number,
    ) -> impl Iterator<Item = u128> + '_ {
        let range = match (from, to) {
            (Number::Small(from), Number::Small(to)) if from < to => Some(from + 1..*to),
            _ => None,
        };
        let parts = Parts::of(id);
        let place = (service, parts.shape());
        let key = self
            .shapes
            .get(&place)
            .map(|learnt| stand(&parts, learnt).key);
        self.wide
            .get(&place)
            .zip(key)
            .and_then(|(keys, key)| keys.get(&key))
            .zip(range)
            .into_iter()
            .flat_map(|(counter, range)| counter.numbers.range(range).copied())
    }

    /// Whether the numbers of `id` may be drawn from a counter that other sessions of the service
    /// draw from too: no id occurs in two sessions, and its key belongs to no single one.
    #[must_use]
    pub fn may_be_shared(&self, service: u32, id: &str) -> bool {
        let parts = Parts::of(id);
        let place = (service, parts.shape());
        let Some((keys, learnt)) = self.wide.get(&place).zip(self.shapes.get(&place)) else {
            return false;
        };
        let key = stand(&parts, learnt).key;
        key.is_empty() || keys.get(&key).is_some_and(|counter| counter.sessions > 1)
    }

    /// Second pass: with the number known, steps of 1 prove a dense counter, jumps that no other
    /// stream fills disprove it.
    fn count_steps(&mut self, sessions: &[Session], service_of: &[u32], exchanges: &[Exchange]) {
        let counted: Vec<Vec<(Shape, Stride)>> = sessions
            .par_iter()
            .zip(service_of)
            .map(|(session, &service)| self.strides(session, service, exchanges))
            .collect();
        let mut jumps: Vec<Jump> = Vec::new();
        for (index, (strides, &service)) in counted.into_iter().zip(service_of).enumerate() {
            for (shape, stride) in strides {
                let Some(learnt) = self.shapes.get_mut(&(service, shape)) else {
                    continue;
                };
                match stride {
                    Stride::Ones(count) => learnt.plus_one += count,
                    Stride::Beyond => learnt.jumps += 1,
                    Stride::Back => learnt.backwards += 1,
                    Stride::Jump { key, from, to } => jumps.push(Jump {
                        service,
                        shape,
                        session: index,
                        key,
                        from,
                        to,
                    }),
                }
            }
        }
        let skipped = self.skipped_by_resumes(sessions, service_of, exchanges);
        self.judge_jumps(&jumps, skipped, sessions, service_of, exchanges);
        #[expect(
            clippy::iter_over_hash_type,
            reason = "each shape is concluded by itself"
        )]
        for learnt in self.shapes.values_mut() {
            let numeric = learnt.scheme == IdScheme::Sparse;
            if numeric
                && learnt.plus_one >= DENSE_STEPS
                && learnt.jumps == 0
                && learnt.backwards == 0
            {
                learnt.scheme = IdScheme::Dense;
            }
        }
    }

    /// The strides of one session's segments; those of 1 are summed up.
    fn strides(
        &self,
        session: &Session,
        service: u32,
        exchanges: &[Exchange],
    ) -> Vec<(Shape, Stride)> {
        let mut strides = Vec::new();
        let mut ones: BTreeMap<Shape, u64> = BTreeMap::new();
        for exchange in carried(session, exchanges) {
            each_id(exchange, &session.id, |before, after, shape| {
                let Some((before, learnt)) = before.zip(self.shapes.get(&(service, shape))) else {
                    return;
                };
                if !same_key(before, after, learnt) {
                    return;
                }
                let (Some(from), Some(to)) = (number_of(before, learnt), number_of(after, learnt))
                else {
                    return;
                };
                match to.minus(&from) {
                    Some(0) => {}
                    Some(1) => *ones.entry(shape).or_default() += 1,
                    Some(_) => {
                        let key = stand(before, learnt).key;
                        strides.push((shape, Stride::Jump { key, from, to }));
                    }
                    None if from < to => strides.push((shape, Stride::Beyond)),
                    None => strides.push((shape, Stride::Back)),
                }
            });
        }
        strides.extend(
            ones.into_iter()
                .map(|(shape, count)| (shape, Stride::Ones(count))),
        );
        strides
    }

    /// Shapes of a number that an answer to a cursor seems to pass over: whether somebody else
    /// brought it must be known there too.
    fn skipped_by_resumes(
        &self,
        sessions: &[Session],
        service_of: &[u32],
        exchanges: &[Exchange],
    ) -> BTreeSet<(u32, Shape)> {
        let mut skipped = BTreeSet::new();
        for (session, &service) in sessions.iter().zip(service_of) {
            for resume in &session.resumes {
                let Some(exchange) = exchanges.get(resume.exchange as usize) else {
                    continue;
                };
                let first = exchange.events.iter().find(Event::is_message);
                let Some((cursor, first)) = exchange.cursor().zip(first.and_then(|event| event.id))
                else {
                    continue;
                };
                let (a, b) = (Parts::of(cursor), Parts::of(exchange.text(first)));
                let place = (service, a.shape());
                let Some(learnt) = self.shapes.get(&place).filter(|_| place.1 == b.shape()) else {
                    continue;
                };
                let (from, to) = (stand(&a, learnt), stand(&b, learnt));
                let apart = to
                    .number
                    .zip(from.number)
                    .and_then(|(to, from)| to.minus(&from));
                if from.key == to.key && apart.is_some_and(|apart| apart > 1) {
                    skipped.insert(place);
                }
            }
        }
        skipped
    }

    /// A jump whose missing numbers another stream of the session brought (or another session,
    /// where no id occurs in two) is no counter-example.
    fn judge_jumps(
        &mut self,
        jumps: &[Jump],
        skipped: BTreeSet<(u32, Shape)>,
        sessions: &[Session],
        service_of: &[u32],
        exchanges: &[Exchange],
    ) {
        let mut numbers: BTreeMap<(u32, Shape), Numbers> = jumps
            .iter()
            .map(|jump| (jump.service, jump.shape))
            .chain(skipped)
            .map(|place| (place, Numbers::default()))
            .collect();
        if numbers.is_empty() {
            return;
        }
        for (index, (session, &service)) in sessions.iter().zip(service_of).enumerate() {
            let index = number_of_session(index);
            self.each_number(session, service, exchanges, |shape, key, number| {
                if let Some(numbers) = numbers.get_mut(&(service, shape)) {
                    numbers.add(index, key, number);
                }
            });
            if numbers.values().all(|numbers| numbers.in_two_sessions) {
                break;
            }
        }
        for numbers in numbers.values_mut() {
            numbers.settle();
        }
        // They are in the order of their sessions.
        let of_session: Vec<&[Jump]> = jumps.chunk_by(|a, b| a.session == b.session).collect();
        let unfilled: Vec<Vec<&Jump>> = of_session
            .into_par_iter()
            .map(|jumps| {
                let own = self.own_numbers(jumps, sessions, exchanges);
                let filled = |jump: &&Jump| {
                    let own = own.get(&(jump.shape, jump.key.clone()));
                    own.is_some_and(|own| jump.is_filled(own, |&number| number))
                        || numbers
                            .get(&(jump.service, jump.shape))
                            .is_some_and(|numbers| numbers.fill(jump))
                };
                jumps.iter().filter(|jump| !filled(jump)).collect()
            })
            .collect();
        for jump in unfilled.into_iter().flatten() {
            if let Some(learnt) = self.shapes.get_mut(&(jump.service, jump.shape)) {
                learnt.jumps += 1;
            }
        }
        for (place, numbers) in numbers {
            if !numbers.in_two_sessions {
                self.wide.insert(place, numbers.wide());
            }
        }
    }

    /// The numbers that the session of some jumps brings under their shapes, by shape and key, sorted.
    fn own_numbers(
        &self,
        jumps: &[Jump],
        sessions: &[Session],
        exchanges: &[Exchange],
    ) -> BTreeMap<(Shape, Key), Vec<u128>> {
        let mut own: BTreeMap<(Shape, Key), Vec<u128>> = jumps
            .iter()
            .map(|jump| ((jump.shape, jump.key.clone()), Vec::new()))
            .collect();
        let Some((first, session)) = jumps
            .first()
            .and_then(|first| Some((first, sessions.get(first.session)?)))
        else {
            return own;
        };
        self.each_number(session, first.service, exchanges, |shape, key, number| {
            if let Some(numbers) = own.get_mut(&(shape, key.clone())) {
                numbers.push(number);
            }
        });
        for numbers in own.values_mut() {
            numbers.sort_unstable();
            numbers.dedup();
        }
        own
    }

    /// Calls `each` with the number of every id that a session brings, and its shape and key.
    fn each_number(
        &self,
        session: &Session,
        service: u32,
        exchanges: &[Exchange],
        mut each: impl FnMut(Shape, &Key, u128),
    ) {
        for exchange in carried(session, exchanges) {
            for event in &exchange.events {
                let Some(id) = event.id.map(|id| exchange.text(id)) else {
                    continue;
                };
                let parts = Parts::of(id);
                let shape = parts.shape();
                let Some(learnt) = self.shapes.get(&(service, shape)) else {
                    continue;
                };
                let standing = stand(&parts, learnt);
                if let Some(Number::Small(number)) = standing.number {
                    each(shape, &standing.key, number);
                }
            }
        }
    }
}

impl NumberTokens {
    /// Cuts an id into its number and the rest.
    #[must_use]
    pub fn cut<'i>(&self, id: &'i str) -> Vec<IdPart<'i>> {
        let parts = Parts::of(id);
        let number = match self.token.get(&parts.shape()) {
            Some(known) => *known,
            None => only_number(&parts),
        };
        let mut cut = Vec::with_capacity(parts.tokens.len() + 1);
        for (index, token) in parts.tokens.iter().enumerate() {
            let len = if number == Some(index) {
                token.number_len()
            } else {
                0
            };
            let (stays, hidden) = token.text.split_at_checked(len).unwrap_or(("", token.text));
            for (text, stays) in [(stays, true), (hidden, false)] {
                if !text.is_empty() {
                    cut.push(IdPart { text, stays });
                }
            }
        }
        cut
    }
}

impl NumberTokens {
    /// Cuts an id into its tokens, of which all stay that any service takes for the number: what an audit of the rest
    /// has to see. Of what is too long to count with, the end stays.
    #[must_use]
    pub fn cut_for_audit<'i>(&self, id: &'i str) -> Vec<IdPart<'i>> {
        let parts = Parts::of(id);
        let shape = parts.shape();
        let alone = || Statistics::default().conclude_for(&classes(&parts)).number;
        let numbers: &[usize] = match self.every.get(&shape) {
            Some(numbers) => numbers,
            None if self.token.contains_key(&shape) => &[],
            None => &alone().map_or_else(Vec::new, |number| vec![number]),
        };
        let mut cut = Vec::with_capacity(parts.tokens.len() + 1);
        for (index, token) in parts.tokens.iter().enumerate() {
            let len = token.text.len();
            let (from, to) = match token.number_len() {
                _ if !numbers.contains(&index) => (0, 0),
                0 => (len.saturating_sub(LONG_NUMBER), len),
                number => (0, number),
            };
            for (text, stays) in [
                (token.text.get(..from), false),
                (token.text.get(from..to), true),
                (token.text.get(to..), false),
            ] {
                if let Some(text) = text.filter(|text| !text.is_empty()) {
                    cut.push(IdPart { text, stays });
                }
            }
        }
        cut
    }
}

/// Digits of a number that count.
const LONG_NUMBER: usize = 12;

/// Cuts an id into its tokens, none of which stays.
#[must_use]
pub fn tokens(id: &str) -> Vec<IdPart<'_>> {
    let tokens = Parts::of(id).tokens.into_iter();
    tokens
        .map(|token| IdPart {
            text: token.text,
            stays: false,
        })
        .collect()
}

/// Whether two tokens have the same parts.
#[must_use]
pub fn are_alike(one: &str, two: &str) -> bool {
    Parts::of(one).shape() == Parts::of(two).shape()
}

/// The number of an id of which nothing was learnt: a decimal or a time beside no other. What may be a
/// number in hexadecimal may be anything.
fn only_number(parts: &Parts<'_>) -> Option<usize> {
    let mut candidates = (0..)
        .zip(&parts.tokens)
        .filter(|(_, token)| token.class.is_candidate() && !matches!(token.class, Class::Hex(_)));
    let (first, _) = candidates.next()?;
    candidates.next().is_none().then_some(first)
}

/// The services of which more than one backend is named, be it by what names no stream's backend.
fn of_several_backends(
    sessions: &[Session],
    service_of: &[u32],
    exchanges: &[Exchange],
) -> BTreeSet<u32> {
    let mut first: BTreeMap<(u32, Option<Teller>), &str> = BTreeMap::new();
    let mut several = BTreeSet::new();
    for (session, &service) in sessions.iter().zip(service_of) {
        let responses = session
            .segments
            .iter()
            .filter_map(|segment| exchanges.get(segment.exchange as usize)?.response.as_ref());
        for response in responses {
            let named = response
                .named
                .iter()
                .map(|name| (Some(name.teller), &*name.name));
            let backend = response.backend.as_deref().map(|name| (None, name));
            for (teller, name) in named.chain(backend) {
                if *first.entry((service, teller)).or_insert(name) != name {
                    several.insert(service);
                }
            }
        }
    }
    several
}

/// How two standings of one service relate.
#[must_use]
pub fn compare(a: &Standing, b: &Standing) -> Relation {
    if a.key != b.key || a.scheme != b.scheme {
        return Relation::Unordered;
    }
    let (Some(first), Some(second)) = (&a.number, &b.number) else {
        return Relation::Unordered;
    };
    let tolerance = if a.clocks { CLOCKS } else { SAME_TIME };
    let close = a.scheme == IdScheme::Time
        && first
            .minus(second)
            .or_else(|| second.minus(first))
            .is_some_and(|apart| apart <= u128::from(tolerance.nanos().unsigned_abs()));
    match first.cmp(second) {
        _ if close => Relation::Unordered,
        Ordering::Less => Relation::Before,
        Ordering::Equal => Relation::Same,
        Ordering::Greater => Relation::After,
    }
}

struct Jump {
    service: u32,
    shape: Shape,
    session: usize,
    key: Key,
    from: Number,
    to: Number,
}

/// How far a step goes.
enum Stride {
    /// So many steps of exactly 1.
    Ones(u64),
    /// Further, by a distance that has no number.
    Beyond,
    Back,
    Jump {
        key: Key,
        from: Number,
        to: Number,
    },
}

impl Jump {
    /// Whether these have every number that it passes over; sorted, and none twice.
    fn is_filled<T>(&self, numbers: &[T], number: impl Fn(&T) -> u128) -> bool {
        let (Number::Small(from), Number::Small(to)) = (&self.from, &self.to) else {
            return false;
        };
        let missing = to - from - 1;
        let first = numbers.partition_point(|one| number(one) <= *from);
        let end = numbers.partition_point(|one| number(one) < *to);
        (end - first) as u128 == missing
    }
}

/// The numbers seen of one shape, by key, until it shows that sessions have numbers in common: then each counts
/// for itself.
#[derive(Default)]
struct Numbers {
    keys: BTreeMap<Key, OfKey>,
    in_two_sessions: bool,
}

/// The numbers under one key, each with its session.
#[derive(Default)]
struct OfKey {
    numbers: Vec<(u128, u32)>,
    /// How many of them are sorted.
    sorted: usize,
}

impl Numbers {
    fn add(&mut self, session: u32, key: &Key, number: u128) {
        /// Sorted again when there are twice as many, and so many at first.
        const FEW: usize = 64;
        if self.in_two_sessions {
            return;
        }
        let of_key = match self.keys.get_mut(key) {
            Some(of_key) => of_key,
            None => self.keys.entry(key.clone()).or_default(),
        };
        of_key.numbers.push((number, session));
        if of_key.numbers.len() >= FEW.max(2 * of_key.sorted) && of_key.settle() {
            self.in_two_sessions = true;
            self.keys.clear();
        }
    }

    /// Sorts, and finds out whether sessions have numbers in common.
    fn settle(&mut self) {
        for of_key in self.keys.values_mut() {
            self.in_two_sessions |= of_key.settle();
        }
    }

    fn wide(self) -> BTreeMap<Key, Wide> {
        let counter = |(key, of_key): (Key, OfKey)| {
            let numbers = of_key.numbers;
            let sessions: BTreeSet<u32> = numbers.iter().map(|&(_, session)| session).collect();
            let sessions = sessions.len();
            let numbers = numbers.into_iter().map(|(number, _)| number).collect();
            (key, Wide { numbers, sessions })
        };
        self.keys.into_iter().map(counter).collect()
    }

    /// Whether several sessions together have what a jump passes over.
    fn fill(&self, jump: &Jump) -> bool {
        let of_key = self.keys.get(&jump.key).filter(|_| !self.in_two_sessions);
        of_key.is_some_and(|of_key| jump.is_filled(&of_key.numbers, |&(number, _)| number))
    }
}

impl OfKey {
    /// Sorts, and says whether two sessions have one number.
    fn settle(&mut self) -> bool {
        self.numbers.sort_unstable();
        self.numbers.dedup();
        self.sorted = self.numbers.len();
        let twice = |pair: &[(u128, u32)]| matches!(pair, [(a, _), (b, _)] if a == b);
        self.numbers.windows(2).any(twice)
    }
}

/// Indices are kept in 32 bits; a run of more sessions does not fit the machine's memory.
fn number_of_session(index: usize) -> u32 {
    u32::try_from(index).unwrap_or(u32::MAX)
}

/// What the steps of one shape show, token by token.
#[derive(Debug, Default)]
struct Statistics {
    classes: Vec<Class>,
    steps: u64,
    changed: Vec<u64>,
    grew: Vec<u64>,
    shrank: Vec<u64>,
    letters: Vec<bool>,
}

impl Statistics {
    fn see(&mut self, parts: &Parts<'_>) {
        if self.classes.is_empty() {
            self.classes = classes(parts);
            let width = self.classes.len();
            self.changed = vec![0; width];
            self.grew = vec![0; width];
            self.shrank = vec![0; width];
            self.letters = vec![false; width];
        }
        for (token, letters) in parts.tokens.iter().zip(&mut self.letters) {
            *letters |= matches!(token.class, Class::Hex(_))
                && token.text.bytes().any(|byte| byte.is_ascii_alphabetic());
        }
    }

    fn step(&mut self, before: &Parts<'_>, after: &Parts<'_>) {
        self.steps += 1;
        for (index, (a, b)) in before.tokens.iter().zip(&after.tokens).enumerate() {
            if a.text == b.text {
                continue;
            }
            self.changed[index] += 1;
            // Fixed-width text orders as its number does, whatever the base.
            let order = match (Number::of(*a, true), Number::of(*b, true)) {
                (Some(first), Some(second)) => second.cmp(&first),
                _ => continue,
            };
            match order {
                Ordering::Greater => self.grew[index] += 1,
                Ordering::Less => self.shrank[index] += 1,
                Ordering::Equal => {}
            }
        }
    }

    fn merge(&mut self, other: &Self) {
        if self.classes.is_empty() {
            self.classes.clone_from(&other.classes);
        }
        self.steps += other.steps;
        for (mine, theirs) in [
            (&mut self.changed, &other.changed),
            (&mut self.grew, &other.grew),
            (&mut self.shrank, &other.shrank),
        ] {
            mine.resize(mine.len().max(theirs.len()), 0);
            for (mine, theirs) in mine.iter_mut().zip(theirs) {
                *mine += theirs;
            }
        }
        self.letters
            .resize(self.letters.len().max(other.letters.len()), false);
        for (mine, theirs) in self.letters.iter_mut().zip(&other.letters) {
            *mine |= theirs;
        }
    }

    fn conclude(self) -> Learnt {
        let classes = self.classes.clone();
        self.conclude_for(&classes)
    }

    fn conclude_for(self, classes: &[Class]) -> Learnt {
        let at = |list: &[u64], index: usize| list.get(index).copied().unwrap_or(0);
        let ordered = |index: usize| {
            at(&self.grew, index) > 0 && at(&self.shrank, index) * 10 <= at(&self.changed, index)
        };
        let candidates: Vec<usize> = (0..classes.len())
            .filter(|&index| classes[index].is_candidate())
            .collect();
        let grown = candidates
            .iter()
            .copied()
            .filter(|&index| ordered(index))
            .max_by_key(|&index| (at(&self.grew, index), classes[index].is_time(), index));
        // Without a step, only what can hardly be anything else is taken for the number. Random
        // hexadecimal text could.
        let alone = || {
            let times: Vec<usize> = candidates
                .iter()
                .copied()
                .filter(|&index| classes[index].is_time())
                .collect();
            match (times.as_slice(), candidates.as_slice()) {
                ([time], _) => Some(*time),
                ([], [only]) if !matches!(classes[*only], Class::Hex(_)) => Some(*only),
                _ => None,
            }
        };
        let never_changed = candidates
            .iter()
            .all(|&index| at(&self.changed, index) == 0);
        let number = grown.or_else(|| if never_changed { alone() } else { None });
        let noise = (0..classes.len())
            .filter(|&index| {
                Some(index) != number
                    && at(&self.changed, index) * 2 > self.steps
                    && (!ordered(index) || number.is_some_and(|number| index > number))
            })
            .collect();
        let scheme = match number {
            None => IdScheme::Observed,
            Some(index) if classes[index].is_time() => IdScheme::Time,
            Some(_) => IdScheme::Sparse,
        };
        Learnt {
            number,
            noise: trailing_noise(noise, number, classes, self.steps),
            hexadecimal: number
                .is_some_and(|index| self.letters.get(index).copied().unwrap_or(false)),
            scheme,
            unseen: self.steps == 0,
            ..Learnt::default()
        }
    }
}

/// Behind a time, words are a random suffix even when no step was seen to tell.
fn trailing_noise(
    mut noise: Vec<usize>,
    number: Option<usize>,
    classes: &[Class],
    steps: u64,
) -> Vec<usize> {
    if let Some(number) = number.filter(|&index| classes[index].is_time() && steps == 0) {
        noise.extend(
            (number + 1..classes.len()).filter(|&index| classes[index] != Class::Delimiter),
        );
    }
    noise
}

fn classes(parts: &Parts<'_>) -> Vec<Class> {
    parts.tokens.iter().map(|token| token.class).collect()
}

fn stand(parts: &Parts<'_>, learnt: &Learnt) -> Standing {
    let number = number_of(parts, learnt);
    let mut key = SmolStrBuilder::new();
    for (index, token) in parts.tokens.iter().enumerate() {
        if Some(index) != learnt.number && !learnt.noise.contains(&index) {
            key.push_str(token.text);
        }
    }
    Standing {
        key: key.finish(),
        number,
        scheme: learnt.scheme,
        contradicted: learnt.backwards > 0,
        clocks: learnt.clocks,
    }
}

/// What one session shows of each shape.
type Gathered = BTreeMap<Shape, Statistics>;

fn gather(session: &Session, exchanges: &[Exchange]) -> Gathered {
    let mut shapes = Gathered::default();
    for exchange in carried(session, exchanges) {
        let mut last: Option<Shape> = None;
        each_id(exchange, &session.id, |before, parts, shape| {
            let hex = parts
                .tokens
                .iter()
                .any(|token| matches!(token.class, Class::Hex(_)));
            let new = hex || last != Some(shape);
            last = Some(shape);
            if !new && before.is_none() {
                return;
            }
            let statistics = shapes.entry(shape).or_default();
            if new {
                statistics.see(parts);
            }
            if let Some(before) = before {
                statistics.step(before, parts);
            }
        });
    }
    shapes
}

/// The exchanges that a session's segments are.
fn carried<'a>(session: &Session, exchanges: &'a [Exchange]) -> impl Iterator<Item = &'a Exchange> {
    session
        .segments
        .iter()
        .filter_map(|segment| exchanges.get(segment.exchange as usize))
}

/// The ids of a segment, but for those that repeat the one before; each with its neighbour, if that has
/// the same shape: both events have an id of their own, no hole lies between them, and no message
/// without id.
fn each_id<'a>(
    exchange: &'a Exchange,
    session: &str,
    mut each: impl FnMut(Option<&Parts<'a>>, &Parts<'a>, Shape),
) {
    let mut last: Option<(&str, Parts<'a>, Shape)> = None;
    for event in &exchange.events {
        if event.after_hole {
            last = None;
        }
        let id = event.id.filter(|id| id.len > 0).map(|id| exchange.text(id));
        let Some(id) = id.filter(|id| *id != session) else {
            if event.is_message() {
                last = None;
            }
            continue;
        };
        if last.as_ref().is_some_and(|(before, ..)| *before == id) {
            continue;
        }
        let parts = Parts::of(id);
        let shape = parts.shape();
        let before = last
            .as_ref()
            .filter(|(_, _, of_before)| *of_before == shape)
            .map(|(_, before, _)| before);
        each(before, &parts, shape);
        last = Some((id, parts, shape));
    }
}

/// Whether two ids of one shape have one key.
fn same_key(a: &Parts<'_>, b: &Parts<'_>, learnt: &Learnt) -> bool {
    a.tokens
        .iter()
        .zip(&b.tokens)
        .enumerate()
        .all(|(index, (a, b))| {
            Some(index) == learnt.number || learnt.noise.contains(&index) || a.text == b.text
        })
}

fn number_of(parts: &Parts<'_>, learnt: &Learnt) -> Option<Number> {
    let token = parts.tokens.get(learnt.number?)?;
    Number::of(*token, learnt.hexadecimal)
}
