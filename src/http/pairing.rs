//! Which request a response answers.
//!
//! On a connection without loss the k-th response answers the k-th request (RFC 9112,
//! section 9.3.2). A hole may have swallowed requests or responses. Then the habit of nearly all
//! clients helps: they send the next request when they have the last answer, so a response
//! answers the latest request sent before it began. Where a connection has shown that it
//! pipelines, or must be pipelining, nothing is guessed: responses stay without request until the
//! connection is quiet.

use super::ExchangeNo;
use crate::model::{place::At, time::Timestamp};
use std::collections::VecDeque;

/// The requests of one connection that wait for their response.
#[derive(Debug, Default)]
pub(super) struct Pairing {
    queue: VecDeque<Entry>,
    /// Responses may have been swallowed since the last one that was paired.
    response_gap: bool,
    /// Requests were seen to be sent before earlier ones were answered.
    pipelines: bool,
    /// Pairing is lost; so many responses came since.
    broken: Option<u32>,
    /// No further request comes.
    closed: bool,
    /// When the last request began.
    last: Option<Timestamp>,
    /// Where an exchange may lie of which nothing is in the capture.
    blanks: Vec<Blank>,
}

/// A time in which a request and its response may both be missing: from the last request that was
/// seen to the response that came next; `None` for the beginning and the end of the connection.
pub(super) type Blank = (Option<Timestamp>, Option<Timestamp>);

/// A request that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pending {
    pub(super) no: ExchangeNo,
    pub(super) method: Method,
    /// Time of its first byte.
    pub(super) time: Timestamp,
    /// Its response's head is known to lie in a hole.
    pub(super) in_hole: bool,
}

/// What a request's method means for the body of the response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Method {
    Head,
    Connect,
    Other,
}

/// What a response answers.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Answers {
    /// This request. Those before it, `passed`, were answered in a hole.
    Request {
        request: Pending,
        passed: Vec<ExchangeNo>,
    },
    /// A request that is not known, perhaps in this hole.
    Unknown(Option<(u64, At)>, &'static str),
    /// The request may still come.
    Wait,
}

#[derive(Clone, Copy, Debug)]
enum Entry {
    Request(Pending),
    /// A hole that may have swallowed requests. `settled`: what follows it has been seen.
    Gap {
        bytes: u64,
        at: At,
        settled: bool,
        /// When the last request before it began.
        from: Option<Timestamp>,
    },
}

impl Pairing {
    /// A request's head came. `idle`: no response is under way. Returns the requests that are given
    /// up because pairing begins anew, and whether the queue was full.
    pub(super) fn request(
        &mut self,
        request: Pending,
        idle: bool,
        most: usize,
    ) -> (Vec<ExchangeNo>, bool) {
        let mut given_up = Vec::new();
        if self
            .broken
            .is_some_and(|responses| idle && responses as usize >= self.requests().count())
        {
            given_up.extend(self.requests().map(|request| request.no));
            self.leave_blank(self.queue.len(), Some(request.time));
            self.queue.clear();
            self.broken = None;
            self.response_gap = false;
        }
        let full = self.queue.len() >= most;
        if full {
            // The responses are probably not in the capture at all.
            if let Some(Entry::Request(oldest)) = self.queue.pop_front() {
                given_up.push(oldest.no);
            }
            self.response_gap = true;
        }
        self.last = Some(request.time);
        self.queue.push_back(Entry::Request(request));
        (given_up, full)
    }

    /// Requests may be missing here.
    pub(super) fn request_gap(&mut self, bytes: u64, at: At, settled: bool) {
        if let Some(Entry::Gap {
            bytes: before,
            settled: known,
            ..
        }) = self.queue.back_mut()
        {
            *before = before.saturating_add(bytes);
            *known = settled;
        } else {
            let from = self.last;
            self.queue.push_back(Entry::Gap {
                bytes,
                at,
                settled,
                from,
            });
        }
    }

    /// What follows the last gap has been seen, and is no request.
    pub(super) fn settle(&mut self) {
        if let Some(Entry::Gap { settled, .. }) = self.queue.back_mut() {
            *settled = true;
        }
    }

    /// Responses may be missing here. Returns the request whose response's head that probably is,
    /// the first time.
    pub(super) fn response_gap(&mut self) -> Option<ExchangeNo> {
        self.response_gap = true;
        match self.queue.front_mut() {
            Some(Entry::Request(request)) if !request.in_hole => {
                request.in_hole = true;
                Some(request.no)
            }
            _ => None,
        }
    }

    /// Whether the request of the response that is there may still come.
    pub(super) fn may_wait(&self) -> bool {
        self.queue.is_empty() && !self.closed && self.broken.is_none()
    }

    /// The request that asked to go on with another protocol: the last one, as nothing may follow it. `None`
    /// when requests may be missing.
    pub(super) fn upgraded(&mut self) -> Option<ExchangeNo> {
        match self.queue.back() {
            Some(Entry::Request(request)) if self.broken.is_none() => Some(request.no),
            _ => None,
        }
    }

    /// No further request comes.
    pub(super) fn close(&mut self) {
        self.closed = true;
        self.settle();
    }

    /// Whether a request waits, or one may be missing.
    pub(super) fn expects(&self) -> bool {
        !self.queue.is_empty()
    }

    /// Responses may be missing, but none that is known of.
    pub(super) fn doubt_responses(&mut self) {
        self.response_gap = true;
    }

    /// Waits for no request any longer.
    pub(super) fn give_up_waiting(&mut self) {
        self.request_gap(0, At::default(), true);
    }

    /// The requests that wait and of which it is not known that their responses are in a hole,
    /// when holes may have swallowed responses.
    pub(super) fn perhaps_answered(&mut self) -> Vec<ExchangeNo> {
        let doubt = self.response_gap || self.broken.is_some();
        let left = self.requests().filter(|request| doubt && !request.in_hole);
        let left = left.map(|request| request.no).collect();
        if doubt {
            self.leave_blank(self.queue.len(), None);
        }
        self.queue.clear();
        left
    }

    /// Takes what was noted of exchanges that are missing altogether.
    pub(super) fn take_blanks(&mut self) -> Vec<Blank> {
        std::mem::take(&mut self.blanks)
    }

    /// The first `count` entries are settled, and responses may be missing: what the gaps among them
    /// swallowed may have been answered unseen.
    fn leave_blank(&mut self, count: usize, until: Option<Timestamp>) {
        let gaps = self
            .queue
            .iter()
            .take(count)
            .filter_map(|entry| match entry {
                Entry::Gap { bytes, from, .. } if *bytes > 0 => Some((*from, until)),
                _ => None,
            });
        self.blanks.extend(gaps);
    }

    /// What a response whose first byte came at `time` answers.
    pub(super) fn answers(&mut self, time: Timestamp) -> Answers {
        if let Some(responses) = &mut self.broken {
            *responses = responses.saturating_add(1);
            return Answers::Unknown(None, "requests or responses of a pipeline are missing");
        }
        match self.queue.front().copied() {
            None if self.closed => Answers::Unknown(None, "no request was seen"),
            None => Answers::Wait,
            Some(Entry::Request(request)) if !self.response_gap => {
                self.queue.pop_front();
                if let Some(Entry::Request(next)) = self.queue.front() {
                    self.pipelines |= next.time < time;
                }
                Answers::Request {
                    request,
                    passed: Vec::new(),
                }
            }
            Some(front) => self.after_loss(front, time),
        }
    }

    fn after_loss(&mut self, front: Entry, time: Timestamp) -> Answers {
        let sent_before = |entry: &Entry| match entry {
            Entry::Request(request) => request.time <= time,
            Entry::Gap { .. } => false,
        };
        let candidates = self.queue.iter().filter(|e| sent_before(e)).count();
        let Some(latest) = self.queue.iter().rposition(sent_before) else {
            return match front {
                // Whatever the clock says, nothing is missing before the only one there is.
                Entry::Request(request) => {
                    self.queue.pop_front();
                    self.response_gap = false;
                    Answers::Request {
                        request,
                        passed: Vec::new(),
                    }
                }
                Entry::Gap { settled: false, .. } if self.queue.len() == 1 && !self.closed => {
                    Answers::Wait
                }
                Entry::Gap { bytes, at, .. } => Answers::Unknown(
                    (bytes > 0).then_some((bytes, at)),
                    "its request is not in the capture",
                ),
            };
        };
        let gap_follows = matches!(self.queue.get(latest + 1), Some(Entry::Gap { .. }));
        let gap_before = matches!(front, Entry::Gap { .. });
        if (self.pipelines && (candidates > 1 || gap_before))
            || (candidates > 1 && !self.response_gap)
            || (gap_follows && self.response_gap)
        {
            self.broken = Some(1);
            return Answers::Unknown(None, "requests or responses of a pipeline are missing");
        }
        if self.response_gap {
            self.leave_blank(latest, Some(time));
        }
        let mut passed = Vec::new();
        let mut answered = None;
        for entry in self.queue.drain(..=latest) {
            if let Entry::Request(request) = entry
                && let Some(before) = answered.replace(request)
                && !before.in_hole
            {
                passed.push(before.no);
            }
        }
        self.response_gap = false;
        match answered {
            Some(request) => Answers::Request { request, passed },
            None => Answers::Wait,
        }
    }

    fn requests(&self) -> impl Iterator<Item = &Pending> {
        self.queue.iter().filter_map(|entry| match entry {
            Entry::Request(request) => Some(request),
            Entry::Gap { .. } => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn time(nanos: i64) -> Timestamp {
        Timestamp::from_nanos(nanos)
    }

    fn send(pairing: &mut Pairing, no: u32, nanos: i64) {
        let request = Pending {
            no: ExchangeNo(no),
            method: Method::Other,
            time: time(nanos),
            in_hole: false,
        };
        assert_eq!(pairing.request(request, true, 99).0, []);
    }

    /// The request answered, and those passed over.
    fn answered(pairing: &mut Pairing, nanos: i64) -> Option<(u32, usize)> {
        match pairing.answers(time(nanos)) {
            Answers::Request { request, passed } => Some((request.no.0, passed.len())),
            Answers::Unknown(..) => None,
            Answers::Wait => Some((u32::MAX, 0)),
        }
    }

    #[test]
    fn without_loss_responses_come_in_order_whatever_the_clock_says() {
        let mut pairing = Pairing::default();
        for no in 0..3 {
            send(&mut pairing, no, 10);
        }
        for no in 0..3 {
            assert_eq!(answered(&mut pairing, 5), Some((no, 0)));
        }
        assert_eq!(pairing.answers(time(5)), Answers::Wait);
    }

    #[test]
    fn after_lost_responses_the_latest_request_sent_before_is_answered() {
        let mut pairing = Pairing::default();
        for no in 0..3 {
            send(&mut pairing, no, i64::from(no) * 10);
        }
        assert_eq!(pairing.response_gap(), Some(ExchangeNo(0)));
        assert_eq!(pairing.response_gap(), None);
        assert_eq!(answered(&mut pairing, 15), Some((1, 0)));
        assert_eq!(answered(&mut pairing, 25), Some((2, 0)));
    }

    #[test]
    fn requests_passed_over_are_told_unless_they_were() {
        let mut pairing = Pairing::default();
        pairing.doubt_responses();
        for no in 0..3 {
            send(&mut pairing, no, i64::from(no) * 10);
        }
        assert_eq!(answered(&mut pairing, 25), Some((2, 2)));
    }

    #[test]
    fn a_response_older_than_the_request_behind_a_gap_belongs_to_the_gap() {
        let mut pairing = Pairing::default();
        pairing.request_gap(40, At::default(), false);
        assert_eq!(pairing.answers(time(1)), Answers::Wait);
        send(&mut pairing, 0, 10);
        assert_eq!(answered(&mut pairing, 5), None);
        assert_eq!(answered(&mut pairing, 15), Some((0, 0)));
    }

    #[test]
    fn a_connection_that_pipelines_is_not_guessed_about() {
        let mut pairing = Pairing::default();
        send(&mut pairing, 0, 0);
        send(&mut pairing, 1, 1);
        assert_eq!(answered(&mut pairing, 2), Some((0, 0)));
        assert_eq!(answered(&mut pairing, 3), Some((1, 0)));
        pairing.request_gap(40, At::default(), true);
        send(&mut pairing, 2, 10);
        assert_eq!(answered(&mut pairing, 11), None);
        // As many responses as requests, and quiet: it begins anew.
        let request = Pending {
            no: ExchangeNo(3),
            method: Method::Other,
            time: time(20),
            in_hole: false,
        };
        assert_eq!(
            pairing.request(request, true, 99),
            (vec![ExchangeNo(2)], false)
        );
        assert_eq!(answered(&mut pairing, 21), Some((3, 0)));
    }
}
