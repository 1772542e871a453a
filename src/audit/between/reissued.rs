//! Session ids that initialize responses issue more than once (docs/findings.md,
//! `session-id-reissued`).
//!
//! The same initialize seen at two places is one, by whatever clocks. A client that got no answer asks again; a server
//! that knows the request again may say the same id: nobody held that id yet, so nobody meets another
//! under it. That is what a second initialize of the same client with the same call is taken for as
//! long as nothing was asked under the id.
//!
//! An initialize that issues an id which is in use begins another life of it as well, also where the first is
//! not in the capture; that accuses nobody.

use super::{
    Client,
    same::{may_be_of_two_clocks, may_be_one},
};
use crate::model::{
    case::{Reissue, Reissued, Site},
    exchange::{Answer, ConnectionId, Exchange, Part},
    message::{MessageKind, PayloadHash},
    session::Session,
};
use std::collections::{BTreeMap, BTreeSet};

/// The initializes that issue the id of a session again, and the evidence with the exchange that it
/// stands at.
pub(super) fn look(
    session: &Session,
    exchanges: &[Exchange],
) -> (Vec<u32>, Option<(u32, Reissued)>) {
    let mut again = Vec::new();
    let mut found: Option<(u32, Reissued)> = None;
    let Some((&first, rest)) = session.issued_by.split_first() else {
        return (again, found);
    };
    let exchange = |number: u32| exchanges.get(number as usize);
    if exchange(first).is_some_and(|issued| is_in_use(session, first, issued, exchanges)) {
        again.push(first);
    }
    let mut last = first;
    let mut known = vec![first];
    for &number in rest {
        let (Some(before), Some(now)) = (exchange(last), exchange(number)) else {
            continue;
        };
        let mut seen = known.iter().filter_map(|&number| exchange(number));
        if may_be_one(before, now) || seen.any(|seen| may_be_of_two_clocks(seen, now)) {
            continue;
        }
        if known.len() < COMPARED {
            known.push(number);
        }
        let between = std::mem::replace(&mut last, number);
        let asked = asked_between(session, between, number);
        let uses = || {
            asked
                .iter()
                .filter(|number| session.issued_by.binary_search(number).is_err())
                .filter_map(|&number| exchange(number))
        };
        let same_client = Client::of(before, session) == Client::of(now, session);
        if same_client && call(before) == call(now) && uses().next().is_none() {
            continue;
        }
        again.push(number);
        let named = now
            .request
            .as_ref()
            .is_some_and(|request| request.session_id.as_ref() == Some(&session.id));
        let ended = |exchange: &Exchange| {
            exchange.answer() == Answer::Refused || exchange.method() == "DELETE"
        };
        let how = if !same_client {
            Reissue::ToAnother
        } else if named && !uses().any(ended) {
            Reissue::Asked
        } else {
            Reissue::ToTheSame
        };
        match &mut found {
            Some((at, known)) => {
                known.count += 1;
                if how < known.how {
                    (*at, known.how) = (number, how);
                }
            }
            None => {
                let site = Site::default();
                found = Some((
                    number,
                    Reissued {
                        how,
                        count: 2,
                        site,
                    },
                ));
            }
        }
    }
    (again, found)
}

/// Initializes of one id that another input may show again.
const COMPARED: usize = 16;

/// Whether the id of a session was in use before the first initialize that is known to issue it: an earlier
/// one is not in the capture.
fn is_in_use(session: &Session, first: u32, issued: &Exchange, exchanges: &[Exchange]) -> bool {
    let before = session
        .exchanges
        .iter()
        .take_while(|&&number| number < first);
    before
        .filter_map(|&number| exchanges.get(number as usize))
        .any(|exchange| {
            let answered = exchange.response.as_ref();
            exchange.asked_session().or(exchange.given_session()) == Some(&session.id)
                && !exchange.is_initialize()
                && exchange.answer() == Answer::Success
                && exchange.place.input == issued.place.input
                && answered.is_some_and(|response| response.time < issued.time())
        })
}

/// Where another life of a session's id may begin unseen: an initialize was answered of which the request is
/// missing, or a connection of its first asked to initialize and the answer is missing.
pub(super) fn unseen(
    session: &Session,
    exchanges: &[Exchange],
    unanswered: &Unanswered,
) -> Vec<u32> {
    let mut connections: BTreeSet<ConnectionId> = BTreeSet::new();
    let mut found = Vec::new();
    for &number in &session.exchanges {
        let Some(exchange) = exchanges.get(number as usize) else {
            continue;
        };
        let answers = exchange.request.is_none()
            && exchange
                .response
                .as_ref()
                .is_some_and(|response| response.greeting.is_some());
        let mut begins = || {
            let connection = exchange.connection?;
            let asked = *unanswered.0.get(&connection)?;
            Some(asked < number && connections.insert(connection))
        };
        if answers || begins() == Some(true) {
            found.push(number);
        }
    }
    found
}

/// Initializes whose answer is missing, the first of each connection.
#[derive(Debug, Default)]
pub(super) struct Unanswered(BTreeMap<ConnectionId, u32>);

impl Unanswered {
    pub(super) fn of(exchanges: &[Exchange]) -> Self {
        let mut unanswered = Self::default();
        for (number, exchange) in (0..).zip(exchanges) {
            let missing = exchange.is_initialize()
                && (exchange.response.is_none() || exchange.has_hole(Part::ResponseHead));
            if let Some(connection) = exchange.connection.filter(|_| missing) {
                unanswered.0.entry(connection).or_insert(number);
            }
        }
        unanswered
    }
}

/// The exchanges of a session between two of its exchanges.
fn asked_between(session: &Session, first: u32, second: u32) -> &[u32] {
    let all = &session.exchanges;
    let from = all.partition_point(|&number| number <= first);
    let to = all.partition_point(|&number| number < second);
    all.get(from..to).unwrap_or(&[])
}

/// What an initialize asks for, its JSON-RPC id aside.
fn call(exchange: &Exchange) -> Option<PayloadHash> {
    let messages = &exchange.request.as_ref()?.messages;
    messages
        .iter()
        .find(|message| message.kind == MessageKind::Request)
        .map(|message| message.call)
}
