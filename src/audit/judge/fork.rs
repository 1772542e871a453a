//! What proves a fork: F1 to F9, as far as the answer brought a message.

use super::{Decision, Known, View};
use crate::audit::{order::Relation, sighting::Sightings};
use crate::model::{
    case::{Fork, Sequence},
    exchange::Exchange,
    id::SessionId,
    prose::{Prose, event_id, prose},
    verdict::Confidence,
};

impl<'a> View<'_, 'a> {
    pub(super) fn other_session(&self) -> Option<&'a SessionId> {
        let given = self.exchange.response.as_ref()?.session_id.as_ref()?;
        (*given != self.bench.session.id && !given.is_empty()).then_some(given)
    }

    pub(super) fn fork(&self, decision: &Decision) -> Option<(Fork, Confidence, Prose)> {
        let first = self.first()?;
        let given = self
            .exchange
            .response
            .as_ref()
            .and_then(|r| r.incarnation.as_deref());
        if let (Some(before), Some(after)) = (self.bench.nonce, given)
            && before != after
        {
            return Some((
                Fork::Nonce,
                Confidence::High,
                "the incarnation's nonce changed".into(),
            ));
        }
        if let Some(id) = decision.reused.first() {
            return Some((
                Fork::OtherPayload,
                Confidence::High,
                prose!("id {} came before with another payload", event_id(id)),
            ));
        }
        if self
            .bench
            .ledger
            .apart(self.log.backend, self.bench.ledger.backend(self.exchange))
        {
            return Some((
                Fork::OtherBackend,
                Confidence::High,
                "another backend answered, and its log is another".into(),
            ));
        }
        let back =
            decision.sequence == Sequence::Back || decision.sequence == Sequence::CursorAgain;
        let stranger = back && decision.redelivered == 0 || first.id.is_none() && self.ids_before();
        if self.bench.gone_before && stranger && !self.answer.hole_before && !self.bench.gaps.any()
        {
            return Some((
                Fork::Revived,
                Confidence::High,
                "the session was refused or deleted before, and this is not its log".into(),
            ));
        }
        if back && self.restarts() && (self.log_seen() || self.other_backend()) {
            return Some((
                Fork::Restart,
                Confidence::High,
                prose!(
                    "it starts again at {}, which is not behind the cursor",
                    event_id(self.id_of(first).unwrap_or_default())
                ),
            ));
        }
        if self.ids_vanished() {
            return Some((
                Fork::IdsVanished,
                Confidence::High,
                "the first message has no id; every message before had one".into(),
            ));
        }
        if let Some(crossing) = &self.bench.crossing {
            return Some((
                Fork::OthersEvents,
                Confidence::High,
                prose!(
                    "event {} was delivered to session {} first",
                    event_id(&crossing.id),
                    crossing.session
                ),
            ));
        }
        if self.is_foreign() && self.relation(first) != Relation::After {
            return Some((
                Fork::ForeignCursor,
                Confidence::Medium,
                "nobody delivered this cursor, and what came is not behind it".into(),
            ));
        }
        None
    }

    /// Whether the session, seen whole, never delivered the cursor.
    pub(super) fn is_foreign(&self) -> bool {
        let sightings = self.bench.ledger.seen(self.cursor);
        self.origin.is_none()
            && sightings.is_none_or(Sightings::is_empty)
            && self.bench.start_seen
            && self.bench.service_whole
            && !self.is_marker()
    }

    /// Whether the stream may have gone on, or forked already, or the cursor's id have come again on
    /// another log, where the capture does not show it: something of the session is missing since the
    /// cursor was delivered.
    pub(super) fn history_is_torn(&self) -> bool {
        let delivered = self
            .origin
            .and_then(|place| self.bench.event(place))
            .map(|(_, event)| event.time);
        delivered.is_some_and(|from| self.bench.gaps.between(from, self.exchange.time()))
    }

    /// Whether another backend answers than the one that delivered the cursor.
    fn other_backend(&self) -> bool {
        let name = |exchange: &Exchange| exchange.response.as_ref()?.backend.clone();
        let before = self
            .origin
            .and_then(|place| self.bench.event(place))
            .and_then(|(exchange, _)| name(exchange));
        let after = name(self.exchange);
        before.is_some() && after.is_some() && before != after
    }

    /// F3: what comes is at or below the cursor and none of it is a redelivery.
    pub(super) fn restarts(&self) -> bool {
        !self.answer.messages.iter().any(|(index, message)| {
            matches!(
                self.known(*index, message),
                Known::Again | Known::AgainAfter
            )
        })
    }

    /// Whether the log's start, or the very ids that come, were seen before without a hole.
    pub(super) fn log_seen(&self) -> bool {
        if self.origin.is_none() || self.bench.ledger.is_torn(&self.log) || self.answer.hole_before
        {
            return false;
        }
        let Some(first) = self.first() else {
            return false;
        };
        let start = if self.log.shared {
            self.bench.start_seen && self.bench.service_whole
        } else {
            // The stream's own start: its first segment was asked for without a cursor.
            self.resumption
                .stream
                .and_then(|stream| self.bench.session.streams.get(stream as usize))
                .and_then(|stream| stream.segments.first())
                .and_then(|&segment| self.bench.session.exchange(segment, self.bench.exchanges))
                .is_some_and(|exchange| exchange.request.is_some() && exchange.cursor().is_none())
        };
        let ids = self
            .id_of(first)
            .is_some_and(|id| self.bench.ledger.seen_on(&self.log, id).next().is_some());
        start || ids
    }

    /// F4: the first message has no id, though every message before had one.
    pub(super) fn ids_vanished(&self) -> bool {
        self.first().is_some_and(|first| first.id.is_none())
            && self.ids_before()
            && !self.answer.hole_before
    }

    /// Every message before had an id of its own, and there was one. A stream that had no
    /// message yet is measured by the session's others.
    fn ids_before(&self) -> bool {
        if self.bench.gaps.any() {
            return false;
        }
        let start = self.exchange.time();
        let own = self
            .resumption
            .stream
            .map(|stream| self.bench.survey.tally(Some(stream), start));
        match own {
            Some((with, without)) if with + without > 0 => without == 0,
            _ if self.origin.is_some() => {
                let (with, without) = self.bench.survey.tally(None, start);
                with > 0 && without == 0
            }
            _ => false,
        }
    }
}
