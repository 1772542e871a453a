//! Tables of many files → the facts of each extract.

use super::{
    Facts,
    read::{Content, Events, ExchangeRow, Extract, InputRow, Run, Table},
};
use crate::model::{
    exchange::{Exchange, Hole, Part},
    place::{InputId, Place},
    prose::{Prose, foreign, prose},
};
use std::collections::{BTreeMap, BTreeSet};

/// What many files give.
#[derive(Debug, Default)]
pub struct Joined {
    /// The facts of each extract, in the order of what they are called by.
    pub facts: Vec<Facts>,
    /// What is missing or wrong, by the file that tells of it.
    pub wrong: Vec<(usize, Prose)>,
}

/// What is there of an extract, each with its file.
#[derive(Default)]
struct Parts {
    files: BTreeSet<usize>,
    run: Option<(usize, Run)>,
    inputs: BTreeMap<u32, (usize, InputRow)>,
    exchanges: BTreeMap<u32, (usize, ExchangeRow)>,
    events: BTreeMap<u32, (usize, Events)>,
    /// Rows that two files have.
    twice: BTreeSet<usize>,
}

/// Whether what is joined are facts as they were extracted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whole {
    /// All of each extract: what lacks is told.
    Yes,
    /// Some of the exchanges, as an engine dealt them.
    Perhaps,
}

/// Joins what was read, given with the number of each file. Facts of other `settings` are left out.
#[must_use]
pub fn join(
    tables: impl IntoIterator<Item = (usize, Table)>,
    settings: &str,
    whole: Whole,
) -> Joined {
    let mut extracts: BTreeMap<Extract, Parts> = BTreeMap::new();
    for (file, Table(content)) in tables {
        match content {
            Content::Runs(rows) => {
                for run in rows {
                    let parts = of(&mut extracts, &run.extract, file);
                    if parts.run.is_some() {
                        parts.twice.insert(file);
                    } else {
                        parts.run = Some((file, run));
                    }
                }
            }
            Content::Inputs(rows) => {
                for row in rows {
                    let parts = of(&mut extracts, &row.extract, file);
                    if parts.inputs.insert(row.number, (file, row)).is_some() {
                        parts.twice.insert(file);
                    }
                }
            }
            Content::Exchanges(rows) => {
                for row in rows {
                    let parts = of(&mut extracts, &row.extract, file);
                    if parts.exchanges.insert(row.number, (file, row)).is_some() {
                        parts.twice.insert(file);
                    }
                }
            }
            Content::Events(groups) => {
                for ((extract, number), events) in groups {
                    let parts = of(&mut extracts, &extract, file);
                    if parts.events.insert(number, (file, events)).is_some() {
                        parts.twice.insert(file);
                    }
                }
            }
        }
    }
    let mut joined = Joined::default();
    for parts in extracts.into_values() {
        parts.join(settings, whole, &mut joined);
    }
    joined
}

fn of<'e>(
    extracts: &'e mut BTreeMap<Extract, Parts>,
    extract: &Extract,
    file: usize,
) -> &'e mut Parts {
    let parts = extracts.entry(Extract::clone(extract)).or_default();
    parts.files.insert(file);
    parts
}

impl Parts {
    fn join(self, settings: &str, whole: Whole, joined: &mut Joined) {
        let Some((file, run)) = self.run else {
            for file in self.files {
                let why = "facts of an extract whose table runs is not among the inputs";
                joined.wrong.push((file, why.into()));
            }
            return;
        };
        if run.facts.settings != settings {
            let why = match &*run.facts.settings {
                "" => "facts extracted without options that are given now".into(),
                options => prose!("facts extracted with {}: give it again", foreign(options)),
            };
            let all = self.files.into_iter();
            joined
                .wrong
                .extend(all.map(|file| (file, Prose::clone(&why))));
            return;
        }
        for file in self.twice {
            let why = "facts that another file has as well";
            joined.wrong.push((file, why.into()));
        }
        let mut facts = run.facts;
        if !(0..)
            .zip(self.inputs.keys())
            .all(|(want, number)| want == *number)
            || self.inputs.len() != run.inputs
        {
            let why = prose!(
                "facts of {} inputs, of which {} are in the table inputs",
                run.inputs,
                self.inputs.len()
            );
            joined.wrong.push((file, why));
            return;
        }
        for (id, (_, input)) in (0..).map(InputId).zip(self.inputs.into_values()) {
            facts.inputs.push(input.row);
            facts.missing += usize::from(!input.found);
            if let Some((by, of)) = input.ahead {
                facts.ahead.insert(id, (by, of));
            }
            for (kind, mut tally) in input.anomalies {
                for example in &mut tally.examples {
                    example.place.input = id;
                }
                facts.anomalies.add(id, kind, tally);
            }
        }
        let inputs = facts.inputs.len();
        let (mut events, mut wild, mut lost) = (self.events, BTreeSet::new(), BTreeMap::new());
        for (number, (file, row)) in self.exchanges {
            let mut exchange = row.exchange;
            let own = events.remove(&number).map(|(_, events)| events);
            let own = own.filter(|own| own.events.len() == row.events);
            match own {
                Some(own) => {
                    exchange.events = own.events.into();
                    exchange.batched = own.batched.into();
                    exchange.text = own.text;
                }
                None if row.events == 0 => {}
                None => {
                    *lost.entry(file).or_insert(0_u64) += 1;
                    // What it brought is not known, and nothing of it is called missing.
                    exchange.holes.push(Hole {
                        part: Part::ResponseBody,
                        bytes: 0,
                        time: exchange.end.time,
                        after_events: 0,
                    });
                }
            }
            if places(&exchange).all(|place| (place.0 as usize) < inputs) {
                facts.exchanges.push(exchange);
            } else {
                wild.insert(file);
            }
        }
        for file in wild {
            let why = "an exchange of an input that there is not";
            joined.wrong.push((file, why.into()));
        }
        for (file, many) in lost {
            let why = prose!("the events of {} exchanges are not among the inputs", many);
            joined.wrong.push((file, why));
        }
        let all = facts.exchanges.len();
        if whole == Whole::Yes && all != run.exchanges {
            let why = prose!(
                "facts of {} exchanges, of which {} are among the inputs",
                run.exchanges,
                all
            );
            joined.wrong.push((file, why));
        }
        joined.facts.push(facts);
    }
}

/// The inputs that an exchange names.
fn places(exchange: &Exchange) -> impl Iterator<Item = InputId> + '_ {
    let place = |place: &Place| place.input;
    let response = exchange
        .response
        .iter()
        .map(|response| response.place.input);
    let events = exchange.events.iter().map(|event| event.input);
    std::iter::once(&exchange.place)
        .chain(&exchange.more_places)
        .chain(std::iter::once(&exchange.end.place))
        .map(place)
        .chain(response)
        .chain(events)
}
