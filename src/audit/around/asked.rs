//! Who asked under which JSON-RPC id and with which progress token.

use crate::model::{exchange::Exchange, message::MessageKind, session::Session, time::Timestamp};
use foldhash::fast::RandomState;
use std::collections::{BTreeSet, HashMap};

/// The requests of a session by id and by token.
pub(super) struct Asked<'a> {
    by_id: HashMap<&'a str, Asker, RandomState>,
    by_token: HashMap<&'a str, Asker, RandomState>,
    /// What every POST says was read: none of them may have another's id.
    whole: bool,
}

/// The POST that asks under an id or with a token.
#[derive(Clone, Copy)]
struct Asker {
    post: u32,
    time: Timestamp,
    /// Another one does so too: whose an answer is cannot be told.
    several: bool,
}

impl<'a> Asked<'a> {
    pub(super) fn of(session: &Session, exchanges: &'a [Exchange]) -> Self {
        let mut asked = Self {
            by_id: HashMap::default(),
            by_token: HashMap::default(),
            whole: true,
        };
        for &number in &session.exchanges {
            let Some(request) = exchanges
                .get(number as usize)
                .and_then(|exchange| exchange.request.as_ref())
            else {
                asked.whole = false;
                continue;
            };
            // A body that says nothing was not recorded, or could not be read.
            let unread = &*request.method == "POST" && request.messages.is_empty();
            asked.whole &= request.complete && !unread;
            for message in request
                .messages
                .iter()
                .filter(|m| matches!(m.kind, MessageKind::Request | MessageKind::Ping))
            {
                let asker = Asker {
                    post: number,
                    time: request.time,
                    several: false,
                };
                for (name, map) in [
                    (message.id.as_deref(), &mut asked.by_id),
                    (message.progress_token.as_deref(), &mut asked.by_token),
                ] {
                    if let Some(name) = name {
                        let known = map.entry(name).or_insert(asker);
                        known.several |= known.post != number;
                    }
                }
            }
        }
        asked
    }

    /// The one POST whose request has this id, sent before `time`.
    pub(super) fn under(&self, id: &str, time: Timestamp) -> Option<u32> {
        self.sole(self.by_id.get(id), time)
    }

    /// The one POST whose request announced this progress token, sent before `time`.
    pub(super) fn with_token(&self, token: &str, time: Timestamp) -> Option<u32> {
        self.sole(self.by_token.get(token), time)
    }

    fn sole(&self, asker: Option<&Asker>, time: Timestamp) -> Option<u32> {
        asker
            .filter(|asker| self.whole && !asker.several && asker.time <= time)
            .map(|asker| asker.post)
    }

    /// Whether every request was read, and the numbers among their ids leave none out. Clients count
    /// their requests: a number left out tells of one that is not in the capture.
    pub(super) fn are_all(&self) -> bool {
        let numbers: BTreeSet<u64> = self.by_id.keys().filter_map(|id| id.parse().ok()).collect();
        let span = numbers.last().zip(numbers.first());
        self.whole && span.is_none_or(|(last, first)| last - first == numbers.len() as u64 - 1)
    }

    /// Whether any request has this id.
    pub(super) fn knows(&self, id: &str) -> bool {
        self.by_id.contains_key(id)
    }
}
