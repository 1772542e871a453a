//! Proxies captured on both sides (docs/audit.md, "Proxies and vantages").
//!
//! A proxy passes on what it gets, and a capture of both its sides shows every exchange twice. The
//! side nearest the client is judged; the other one names the backend and is taken out. Which
//! exchanges are two sides of one is decided in three steps:
//!
//! - `sides`: under one session id, by what requests say, times, addresses and answers;
//! - `copies`: HAR entries of what packets or other HARs show as well, and answers whose request is
//!   missing on one side;
//! - `alias`: of a gateway that keeps session ids of its own, by the whole of two sessions.
//!
//! `clocks` puts inputs on one clock before all that, `fold` takes out what is not judged and joins sessions, `backend` names processes.

mod alias;
mod backend;
mod clocks;
mod copies;
mod fold;
mod likeness;
mod road;
mod sides;

use crate::model::{exchange::Exchange, session::Grouping};
pub use clocks::{Ahead, Clocks, Sample, Samples, align, align_by};
use likeness::Likeness;
use rayon::prelude::*;

/// Matches exchanges, takes the other sides out of their sessions, joins sessions that are sides of
/// one, and names backends. `exchanges` are in order of time.
pub fn pair(grouping: &mut Grouping, exchanges: &mut [Exchange]) {
    let keys: Vec<Option<Likeness<'_>>> = exchanges.par_iter().map(Likeness::of).collect();
    let mut matched = sides::find(grouping, exchanges, &keys);
    copies::find(grouping, exchanges, &keys, &mut matched);
    let aliases = alias::find(grouping, exchanges, &keys, &mut matched);
    fold::fold(grouping, exchanges, &matched, &aliases);
    backend::name(grouping, exchanges, &matched);
    grouping.inner_of = (0..number_of(exchanges.len()))
        .map(|number| Some(matched.root(number)).filter(|&root| root != number))
        .collect();
}

/// Which exchange is the other side of which.
#[derive(Debug)]
struct Matched {
    /// For each exchange the one it is the inner side (or the copy) of.
    outer: Vec<Option<u32>>,
    /// For each exchange its inner side; of several attempts the last.
    inner: Vec<Option<u32>>,
    /// How many sides lie one in another behind each exchange.
    depth: Vec<u8>,
}

impl Matched {
    fn new(count: usize) -> Self {
        Self {
            outer: vec![None; count],
            inner: vec![None; count],
            depth: vec![0; count],
        }
    }

    /// The exchange that `number` is the other side of.
    fn outer_of(&self, number: u32) -> Option<u32> {
        self.outer.get(number as usize).copied().flatten()
    }

    /// The inner side of `number`; of several attempts of a proxy the last.
    fn inner_of(&self, number: u32) -> Option<u32> {
        self.inner.get(number as usize).copied().flatten()
    }

    /// Whether `number` is no side of another one.
    fn is_root(&self, number: u32) -> bool {
        self.outer_of(number).is_none()
    }

    /// `number` and the sides it is an inner one of, outwards. They are few: see [`Self::has_room`].
    fn outwards(&self, number: u32) -> impl Iterator<Item = u32> + '_ {
        std::iter::successors(Some(number), |&at| self.outer_of(at)).take(ROW)
    }

    /// The side of `number` that is judged.
    fn root(&self, number: u32) -> u32 {
        self.outwards(number).last().unwrap_or(number)
    }

    /// Whether a pair makes no longer row of proxies than there are.
    fn has_room(&self, outer: u32, inner: u32) -> bool {
        let behind = self.depth.get(inner as usize).copied().unwrap_or(0);
        self.outwards(outer).count() + usize::from(behind) < SIDES
    }

    /// `inner` is what a proxy made of `outer`; of several attempts the latest counts.
    fn pair(&mut self, outer: u32, inner: u32) {
        self.copy(outer, inner);
        if let Some(slot) = self.inner.get_mut(outer as usize) {
            *slot = (*slot).max(Some(inner));
        }
    }

    /// Of several inner sides of `outer`, its answer came from `inner`.
    fn prefer(&mut self, outer: u32, inner: u32) {
        if let Some(slot) = self.inner.get_mut(outer as usize) {
            *slot = Some(inner);
        }
    }

    /// `middle` lies between `outer` and its inner side.
    fn put_between(&mut self, outer: u32, middle: u32, inner: u32) {
        self.pair(middle, inner);
        self.pair(outer, middle);
        self.prefer(outer, middle);
    }

    /// `copy` shows `of` again, and nothing behind it.
    fn copy(&mut self, of: u32, copy: u32) {
        if let Some(slot) = self.outer.get_mut(copy as usize) {
            *slot = Some(of);
        }
        let mut depth = self.depth.get(copy as usize).copied().unwrap_or(0);
        for number in self.outwards(of).collect::<Vec<_>>() {
            depth = depth.saturating_add(1);
            if let Some(slot) = self.depth.get_mut(number as usize) {
                *slot = depth.max(*slot);
            }
        }
    }
}

/// Sides of one exchange: proxies in a row under one session id.
const SIDES: usize = 8;

/// Gateways with sessions of their own, in a row.
const GATEWAYS: usize = 4;

/// The longest row of sides, with a copy at each end.
const ROW: usize = SIDES * (GATEWAYS + 1) + 2;

/// Indices are kept in 32 bits; a run of more exchanges does not fit the machine's memory.
fn number_of(index: usize) -> u32 {
    u32::try_from(index).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        mcp::session::group,
        model::{
            exchange::{BackendName, End, EndCause, Media, Request, Response, Teller},
            flow::Endpoint,
            id::SessionId,
            time::{Span, Timestamp},
        },
    };
    use std::{net::Ipv4Addr, sync::Arc};

    /// A GET of session `s` from one host to another, asked and answered at these microseconds.
    fn get(from: u32, to: u32, asked: i64, answered: i64) -> Exchange {
        let host = |number: u32, port: u16| {
            let ip = Ipv4Addr::from(0x0a00_0000 + number);
            Some(Endpoint::Address((ip, port).into()))
        };
        let at = |micros: i64| Timestamp::default().plus(Span::from_nanos(micros * 1_000));
        let session_id = Some(SessionId::from("s"));
        Exchange {
            // A connection of its own: one port that asks two servers is a NAT's doing.
            client: host(from, 40_000 + u16::try_from(to).unwrap()),
            server: host(to, 80),
            request: Some(Request {
                time: at(asked),
                end_time: at(asked),
                method: "GET".into(),
                target: "/mcp".into(),
                session_id: session_id.clone(),
                complete: true,
                ..Request::default()
            }),
            response: Some(Response {
                time: at(answered),
                status: 200,
                media: Media::EventStream,
                session_id,
                ..Response::default()
            }),
            end: End {
                time: at(answered + 100),
                cause: EndCause::StreamEnd,
                ..End::default()
            },
            ..Exchange::default()
        }
    }

    fn paired(exchanges: &mut [Exchange]) -> Grouping {
        let mut grouping = group(exchanges);
        pair(&mut grouping, exchanges);
        grouping
    }

    #[test]
    fn a_storm_of_equal_requests_is_matched_one_to_one() {
        let mut exchanges: Vec<Exchange> = (0..20_000)
            .flat_map(|number| {
                let at = number * 40;
                [get(1, 5, at, at + 30), get(5, 9, at + 10, at + 20)]
            })
            .collect();
        let grouping = paired(&mut exchanges);
        assert_eq!(grouping.sessions.len(), 1);
        assert_eq!(grouping.sessions[0].exchanges.len(), 20_000);
        let sides = grouping.inner_of.iter().flatten().count();
        assert_eq!(sides, 20_000);
    }

    #[test]
    fn two_servers_asked_at_one_time_are_a_mirror_unless_two_clients_wait() {
        let mut mirrored = [get(1, 5, 0, 50), get(5, 8, 10, 40), get(5, 9, 20, 30)];
        let grouping = paired(&mut mirrored);
        assert_eq!(grouping.inner_of, [None, Some(0), Some(0)]);
        // The other client's request may be seen after what the proxy made of it.
        for second in [5, 25] {
            let mut balanced = [
                get(1, 5, 0, 50),
                get(2, 5, second, 60),
                get(5, 8, 10, 40),
                get(5, 9, 20, 45),
            ];
            balanced.sort_by_key(Exchange::time);
            let grouping = paired(&mut balanced);
            assert_eq!(grouping.sessions[0].exchanges.len(), 2, "{second}");
            let mut roots: Vec<u32> = grouping.inner_of.iter().flatten().copied().collect();
            roots.dedup();
            assert_eq!(roots.len(), 2, "{second}");
        }
    }

    #[test]
    fn a_row_of_proxies_without_end_is_cut_into_rows() {
        const ROW: u32 = 4_000;
        let mut exchanges: Vec<Exchange> = (0..ROW)
            .map(|number| {
                let asked = i64::from(number);
                get(number, number + 1, asked, i64::from(2 * ROW) - asked)
            })
            .collect();
        let grouping = paired(&mut exchanges);
        let judged = grouping.sessions[0].exchanges.len();
        assert!(
            (ROW as usize / SIDES..ROW as usize).contains(&judged),
            "{judged}"
        );
    }

    #[test]
    fn the_same_bytes_under_other_addresses_are_behind_a_nat() {
        let with = |sequences, mut exchange: Exchange| {
            exchange.sequences = sequences;
            exchange
        };
        let one = [Some(7), Some(9)];
        for (other, judged) in [
            (one, 1),
            ([Some(7), None], 1),
            ([Some(8), Some(9)], 2),
            ([None, None], 2),
        ] {
            let mut exchanges = [with(one, get(1, 9, 0, 50)), with(other, get(2, 9, 10, 40))];
            let grouping = paired(&mut exchanges);
            assert_eq!(grouping.sessions[0].exchanges.len(), judged, "{other:?}");
        }
    }

    #[test]
    fn a_header_that_is_another_for_every_response_names_no_backend() {
        let backends = |different: u32| {
            let mut exchanges: Vec<Exchange> = (0..16)
                .map(|number| {
                    let at = i64::from(number) * 2_000_000;
                    let mut exchange = get(1, 9, at, at + 10);
                    let name = format!("pod-{}", number % different);
                    let named = BackendName {
                        teller: Teller::Usual(0),
                        name: Arc::from(name),
                    };
                    if let Some(response) = &mut exchange.response {
                        response.named.push(named);
                    }
                    exchange
                })
                .collect();
            paired(&mut exchanges);
            let backend = |exchange: &Exchange| exchange.response.as_ref()?.backend.clone();
            exchanges.iter().filter_map(backend).count()
        };
        assert_eq!(backends(3), 16);
        assert_eq!(backends(16), 0);
    }
}
