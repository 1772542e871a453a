//! An answer without a message: nothing came, and whether something was owed.

use super::{Decision, NAMED, View};
use crate::audit::owed::patience;
use crate::model::{
    exchange::EndCause,
    message::MessageKind,
    prose::{Prose, prose},
    session::Stream,
    time::Span,
    verdict::{Confidence, Verdict},
};

impl<'a> View<'_, 'a> {
    pub(super) fn without_message(&self, decision: &mut Decision) {
        let mut say = |verdict, confidence, reason: Prose| {
            decision.verdict = verdict;
            decision.confidence = confidence;
            decision.reason = reason;
        };
        if self.answer.hole_before || self.resumption.ambiguous {
            say(
                Verdict::Indeterminate,
                Confidence::Low,
                "the answer's bytes are not in the capture".into(),
            );
            return;
        }
        let open = self.exchange.is_open();
        let unanswered = self.response_unanswered();
        let pending = unanswered && self.response_pending();
        if open && pending {
            say(
                Verdict::Indeterminate,
                Confidence::Medium,
                "still open, its response pending, when the capture ends".into(),
            );
            return;
        }
        let seen_after = self.seen_after();
        let owes_response = unanswered && !pending && !self.answered_later();
        if seen_after.is_empty() && !owes_response {
            let unknown = self.origin.is_none();
            say(
                Verdict::Empty,
                if unknown {
                    Confidence::Medium
                } else {
                    Confidence::High
                },
                if unknown {
                    "nothing came; what the cursor stands for was not seen".into()
                } else {
                    "nothing came and nothing was owed".into()
                },
            );
            return;
        }
        if !seen_after.is_empty() && self.history_is_torn() {
            say(
                Verdict::Indeterminate,
                Confidence::Low,
                "something is missing between cursor and resume".into(),
            );
            return;
        }
        let owed = if seen_after.is_empty() {
            Prose::from("the response of the stream's request")
        } else {
            let plural = if seen_after.len() == 1 { "" } else { "s" };
            prose!("{} event{} seen after the cursor", seen_after.len(), plural)
        };
        let waited = self.exchange.end.time.since(self.exchange.time());
        let patient = waited >= self.patience();
        match self.exchange.end.cause {
            EndCause::StreamEnd
            | EndCause::ServerFin
            | EndCause::ServerRst
            | EndCause::StreamResetByServer
            | EndCause::Goaway => {
                say(
                    Verdict::Ignored,
                    Confidence::High,
                    prose!("the server ended it without {}", owed),
                );
            }
            EndCause::ClientFin | EndCause::ClientRst | EndCause::StreamResetByClient
                if patient =>
            {
                say(
                    Verdict::Ignored,
                    Confidence::High,
                    prose!("the client gave up without {}", owed),
                );
            }
            EndCause::CaptureEnd if patient && !seen_after.is_empty() => say(
                Verdict::Ignored,
                Confidence::Medium,
                prose!("open without {} when the capture ends", owed),
            ),
            EndCause::Unknown if self.exchange.response.as_ref().is_some_and(|r| r.complete) => {
                say(
                    Verdict::Ignored,
                    Confidence::Medium,
                    prose!("it ended without {}", owed),
                );
            }
            _ => say(
                Verdict::Indeterminate,
                Confidence::Medium,
                "it ended too soon to tell whether anything would have come".into(),
            ),
        }
        decision.missing.extend(seen_after.into_iter().take(NAMED));
    }

    pub(super) fn stream(&self) -> Option<&'a Stream> {
        self.bench
            .session
            .streams
            .get(self.resumption.stream? as usize)
    }

    /// A POST began the stream, with requests that were not all answered up to this resume.
    pub(super) fn response_unanswered(&self) -> bool {
        let Some(stream) = self.stream() else {
            return false;
        };
        let Some(post) = stream
            .begun_by
            .and_then(|post| self.bench.exchanges.get(post as usize))
        else {
            return false;
        };
        let asks = post.request.as_ref().is_some_and(|request| {
            request
                .messages
                .iter()
                .any(|message| message.kind == MessageKind::Request)
        });
        let answered = stream.completed.is_some_and(|place| {
            self.bench
                .event(place)
                .is_some_and(|(_, event)| event.time < self.exchange.time())
        });
        asks && !answered
    }

    /// A later segment of the stream brings the response: this one was a poll.
    pub(super) fn answered_later(&self) -> bool {
        self.stream()
            .is_some_and(|stream| stream.completed.is_some())
    }

    /// Whether the response may yet come, or came where the capture does not show it.
    pub(super) fn response_pending(&self) -> bool {
        self.bench.survey.is_pending(self.resumption.stream)
    }

    pub(super) fn patience(&self) -> Span {
        let survey = self.bench.survey;
        patience(survey.retry_before(self.resumption.stream, self.exchange.time()))
    }
}
