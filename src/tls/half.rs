//! One direction of a connection: bytes to records, records to what they protect, over holes too.

use super::{
    Sink,
    cipher::{Opener, Record},
    facts::{Early, Epoch, Facts, Version},
    handshake::{Message, Messages},
    hello::{ClientHello, ServerHello, takes_early_data},
    keylog::{Secret, Secrets},
};
use crate::{
    anomaly::Kind,
    limits::Limits,
    model::{flow::Side, place::At},
};
use std::{
    collections::VecDeque,
    mem,
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
};

/// What all connections of one part of a run share: the bytes that they hold of records that are not complete
/// or cannot be opened yet, and what was tried after holes.
#[derive(Clone, Debug, Default)]
pub struct Budget(Arc<Used>);

#[derive(Debug, Default)]
struct Used {
    held: AtomicUsize,
    tried: AtomicU64,
}

impl Budget {
    /// Takes note of bytes that were tried; says whether all are within `most`.
    fn tries(&self, bytes: u64, most: u64) -> bool {
        let before = self.0.tried.fetch_add(bytes, Ordering::Relaxed);
        before.saturating_add(bytes) <= most
    }
}

/// One direction's part of what is held.
#[derive(Default)]
struct Share {
    all: Budget,
    own: usize,
}

impl Share {
    /// It is so many bytes now; says whether all are within `most`.
    fn set(&mut self, bytes: usize, most: usize) -> bool {
        if bytes == self.own {
            return true;
        }
        let held = &self.all.0.held;
        let others = held.load(Ordering::Relaxed).saturating_sub(self.own);
        let all = others.saturating_add(bytes);
        held.store(all, Ordering::Relaxed);
        self.own = bytes;
        all <= most
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.set(0, usize::MAX);
    }
}

/// What a direction is read with.
pub(super) struct Context<'c, S> {
    pub(super) facts: &'c mut Facts,
    pub(super) secrets: &'c Secrets,
    pub(super) limits: &'c Limits,
    pub(super) out: &'c mut S,
}

/// One direction.
pub(super) struct Half {
    side: Side,
    place: Place,
    /// A record's first bytes; while a record is searched for, all that is there.
    buffer: Vec<u8>,
    /// While a record is searched for: where the pieces in the buffer end.
    pieces: Vec<At>,
    /// What was found beyond a record that was searched for.
    again: VecDeque<(Vec<u8>, At)>,
    /// The offset just past the last record that is known.
    known: u64,
    /// The offset just past what was given.
    reached: u64,
    epoch: Epoch,
    opener: Option<Opener>,
    /// The secret of the epoch, when it is one of application data.
    secret: Option<(u32, Secret)>,
    /// The number of the next record.
    number: u64,
    /// Records since the last that opened that are not there whole.
    torn: u64,
    /// Records since the last that opened that are there and did not open.
    failed: u32,
    /// What they may have carried, as far as it is not told.
    untold: u64,
    /// What was told of the hole at hand, before it was known how much it cost.
    told: u64,
    messages: Messages,
    /// Records that came before it was known how to open them.
    held: VecDeque<Held>,
    held_bytes: usize,
    /// Early data of which it is not known yet whether they are taken.
    early: Vec<(Vec<u8>, At)>,
    early_bytes: usize,
    /// Bytes that may be tried for the hole at hand.
    trials: u64,
    /// Where opened records are put.
    scratch: Vec<u8>,
    share: Share,
    /// A hello came.
    pub(super) greeted: bool,
    /// Records that carry what an application says: opened, and not.
    pub(super) opened: u64,
    pub(super) unopened: u64,
    /// Records of the handshake that opened.
    pub(super) shook: u64,
    /// The other side was told that nothing more comes.
    ended: bool,
    /// Where something that did not open was, first.
    pub(super) first_unopened: Option<At>,
}

/// Where in the stream a direction is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// In a record, or between two.
    Records,
    /// In a record that is torn, up to this offset.
    Torn(u64),
    /// Where the next record begins is not known.
    Search,
    /// Nothing can be opened any more; what comes is told as missing.
    Unreadable,
    /// Nothing is looked at any more.
    Over,
}

enum Held {
    Record(Vec<u8>, At),
    Hole(u64, At),
}

/// Bytes that are read from the front, and where they end.
struct Input<'a> {
    rest: &'a [u8],
    at: At,
}

impl<'a> Input<'a> {
    /// The place just past what was taken.
    fn here(&self) -> At {
        At {
            offset: self.at.offset.saturating_sub(self.rest.len() as u64),
            ..self.at
        }
    }

    fn take(&mut self, len: usize) -> &'a [u8] {
        let (taken, rest) = self.rest.split_at_checked(len).unwrap_or((self.rest, &[]));
        self.rest = rest;
        taken
    }
}

impl Half {
    pub(super) fn new(side: Side, budget: &Budget) -> Self {
        Self {
            side,
            place: Place::Records,
            buffer: Vec::new(),
            pieces: Vec::new(),
            again: VecDeque::new(),
            known: 0,
            reached: 0,
            epoch: Epoch::Plain,
            opener: None,
            secret: None,
            number: 0,
            torn: 0,
            failed: 0,
            untold: 0,
            told: 0,
            messages: Messages::default(),
            held: VecDeque::new(),
            held_bytes: 0,
            early: Vec::new(),
            early_bytes: 0,
            trials: 0,
            scratch: Vec::new(),
            share: Share {
                all: budget.clone(),
                own: 0,
            },
            greeted: false,
            opened: 0,
            unopened: 0,
            shook: 0,
            ended: false,
            first_unopened: None,
        }
    }

    /// Whether the other side knows that all was sent: a close_notify came, or may have been lost.
    pub(super) fn ends_cleanly(&self) -> bool {
        self.ended || self.opened == 0 || self.torn > 0 || self.place != Place::Records
    }

    /// Bytes that end at `at`.
    pub(super) fn data<S: Sink>(&mut self, bytes: &[u8], at: At, context: &mut Context<'_, S>) {
        self.reached = at.offset;
        self.pass(bytes, at, context);
        while let Some((bytes, at)) = self.again.pop_front() {
            self.pass(&bytes, at, context);
        }
        self.account(at, context);
        // It is not worth keeping: every connection would.
        self.scratch = Vec::new();
    }

    fn pass<S: Sink>(&mut self, bytes: &[u8], at: At, context: &mut Context<'_, S>) {
        let mut input = Input { rest: bytes, at };
        while !input.rest.is_empty() {
            match self.place {
                Place::Records => self.records(&mut input, context),
                Place::Torn(until) => {
                    let left = until.saturating_sub(input.here().offset);
                    let left = usize::try_from(left).unwrap_or(usize::MAX);
                    input.take(left.min(input.rest.len()));
                    if input.here().offset >= until {
                        self.known = until;
                        self.place = Place::Records;
                    }
                }
                Place::Search => {
                    self.buffer.extend_from_slice(input.rest);
                    self.pieces.push(input.at);
                    self.search(context);
                    return;
                }
                Place::Unreadable => {
                    context.out.hole(self.side, input.rest.len() as u64, at);
                    return;
                }
                Place::Over => return,
            }
        }
    }

    /// So many bytes are missing before `at.offset`.
    pub(super) fn hole<S: Sink>(&mut self, bytes: u64, at: At, context: &mut Context<'_, S>) {
        self.reached = at.offset;
        match self.place {
            Place::Over => return,
            Place::Unreadable => {
                context.out.hole(self.side, bytes, at);
                return;
            }
            Place::Torn(until) if at.offset < until => return,
            Place::Torn(until) if at.offset == until => {
                self.known = until;
                self.place = Place::Records;
                return;
            }
            Place::Torn(_) | Place::Search => {}
            Place::Records => {
                if let Some(length) = header(&self.buffer) {
                    let end = self.known + (HEADER + length) as u64;
                    if at.offset <= end {
                        self.tear(length, end, at, context);
                        return;
                    }
                }
            }
        }
        self.lose(context);
        if self.epoch.carries() && self.told == 0 {
            // What the other side says next may answer what is lost: this cannot wait until it is known how much
            // it was. A short hole is most often one record; more can be told later, and less cannot.
            let around = self.opener.as_ref().map_or(0, Opener::overhead) + HEADER;
            self.told = match bytes {
                0..=SHORT_HOLE => bytes.saturating_sub(around as u64).max(1),
                _ => 1,
            };
            context.out.hole(self.side, self.told, at);
        }
    }

    /// A record whose header is there is not there whole: it is passed over.
    fn tear<S: Sink>(&mut self, length: usize, end: u64, at: At, context: &mut Context<'_, S>) {
        self.buffer = Vec::new();
        let now = at.offset.max(self.known);
        self.place = if now >= end {
            Place::Records
        } else {
            Place::Torn(end)
        };
        self.known = if now >= end { end } else { self.known };
        self.messages.restart();
        let overhead = self.opener.as_ref().map_or(0, Opener::overhead);
        let content = length.saturating_sub(overhead) as u64;
        if !self.held.is_empty() {
            self.held
                .push_back(Held::Hole(content, At { offset: end, ..at }));
            return;
        }
        self.missed(content, At { offset: end, ..at }, context);
    }

    /// A record with a number of its own was not seen whole.
    fn missed<S: Sink>(&mut self, content: u64, at: At, context: &mut Context<'_, S>) {
        self.number = self.number.saturating_add(1);
        self.torn = self.torn.saturating_add(1);
        self.untold = self.untold.saturating_add(content);
        if self.epoch.carries() {
            self.tell_untold(at, context);
        }
    }

    /// From the last known record on it is not known where records begin.
    fn lose<S: Sink>(&mut self, context: &mut Context<'_, S>) {
        self.place = Place::Search;
        self.buffer = Vec::new();
        self.pieces = Vec::new();
        self.messages.restart();
        self.trials = context.limits.tls_trial;
        self.torn = self.torn.saturating_add(1);
        if !self.greeted {
            self.lacks_hello(context.facts);
        }
    }

    /// Reads the next record, or what is there of it.
    fn records<S: Sink>(&mut self, input: &mut Input<'_>, context: &mut Context<'_, S>) {
        if self.buffer.is_empty()
            && let Some((first, rest)) = input.rest.split_first_chunk::<HEADER>()
            && let Some(length) = header(first)
            && let Some(body) = rest.get(..length)
        {
            input.take(HEADER + length);
            let record = Record {
                header: *first,
                body,
            };
            self.record(record, input.here(), context);
            return;
        }
        let before = self.buffer.len();
        let wanted = match header(&self.buffer) {
            Some(length) => HEADER + length,
            None => HEADER,
        };
        let now = wanted.saturating_sub(before).min(input.rest.len());
        self.buffer.extend_from_slice(input.take(now));
        if self.buffer.len() < HEADER {
            return;
        }
        let Some(length) = header(&self.buffer) else {
            self.stray(input, context);
            return;
        };
        if self.buffer.len() < HEADER + length {
            return;
        }
        let whole = mem::take(&mut self.buffer);
        if let Some((first, body)) = whole.split_first_chunk::<HEADER>() {
            let record = Record {
                header: *first,
                body,
            };
            self.record(record, input.here(), context);
        }
    }

    /// What stands where a record should begin is none.
    fn stray<S: Sink>(&mut self, input: &mut Input<'_>, context: &mut Context<'_, S>) {
        let begun = mem::take(&mut self.buffer);
        let at = input.here();
        let detail = "bytes where a record should begin".to_owned();
        context.out.anomaly(Kind::BadTlsRecord, at, detail);
        self.lose(context);
        // They are looked at once more, each as the first of a record.
        self.buffer = begun;
        self.pieces.push(at);
    }

    /// A whole record that ends at `at`.
    fn record<S: Sink>(&mut self, record: Record<'_>, at: At, context: &mut Context<'_, S>) {
        self.known = at.offset;
        if !self.held.is_empty() || self.must_wait(record, context.facts) {
            let whole = [&record.header, record.body].concat();
            self.held_bytes += whole.len();
            self.held.push_back(Held::Record(whole, at));
            return;
        }
        self.read(record, at, context);
    }

    /// Whether it cannot be told yet how to read a record.
    fn must_wait(&self, record: Record<'_>, facts: &mut Facts) -> bool {
        let plain = self.epoch == Epoch::Plain && !matches!(record.kind(), HANDSHAKE | ALERT);
        if !plain || facts.settled() {
            return false;
        }
        if !self.greeted {
            // Who speaks begins with a hello.
            self.lacks_hello(facts);
        }
        !facts.settled()
    }

    /// The hello of this direction is not in the capture.
    fn lacks_hello(&self, facts: &mut Facts) {
        let client = facts.client.as_ref().map(|(client, _)| *client);
        if client == Some(self.side.other()) {
            facts.assume();
        } else {
            let why = "its ClientHello is not in the capture";
            facts.lacks.get_or_insert(why);
        }
    }

    /// Goes on with what was held, once it is known how to.
    pub(super) fn release<S: Sink>(&mut self, context: &mut Context<'_, S>) {
        if context.facts.early == Early::Accepted {
            self.tell_early(context);
        }
        if self.held.is_empty() || !context.facts.settled() {
            return;
        }
        let mut last = None;
        for held in mem::take(&mut self.held) {
            match held {
                Held::Record(whole, at) => {
                    last = Some(at);
                    if let Some((first, body)) = whole.split_first_chunk::<HEADER>() {
                        let record = Record {
                            header: *first,
                            body,
                        };
                        self.read(record, at, context);
                    }
                }
                Held::Hole(content, at) => self.missed(content, at, context),
            }
        }
        self.held_bytes = 0;
        if let Some(at) = last {
            self.account(at, context);
        }
    }

    fn is_client(&self, facts: &Facts) -> bool {
        let client = facts.client.as_ref().map(|(client, _)| *client);
        client.map_or(self.side == Side::A, |client| client == self.side)
    }

    fn read<S: Sink>(&mut self, record: Record<'_>, at: At, context: &mut Context<'_, S>) {
        let version = context.facts.version;
        match (record.kind(), self.epoch) {
            // For middleboxes; it has no number.
            (CHANGE_CIPHER_SPEC, _) if version == Version::Tls13 => {}
            (CHANGE_CIPHER_SPEC, Epoch::Plain) if version == Version::Tls12 => {
                self.advance(Epoch::Keyed(0), context.facts);
            }
            (HANDSHAKE, Epoch::Early) if version == Version::Tls13 => {
                // The server asked for another ClientHello.
                self.epoch = Epoch::Plain;
                self.opener = None;
                self.handshake(record.body, at, context);
            }
            (HANDSHAKE, Epoch::Plain) if self.torn == 0 || version != Version::Tls12 => {
                self.handshake(record.body, at, context);
            }
            (HANDSHAKE, Epoch::Handshake | Epoch::Application(_)) => {}
            // What follows is encrypted in a way that is not read.
            (CHANGE_CIPHER_SPEC, Epoch::Plain) => self.epoch = Epoch::Keyed(0),
            (ALERT, Epoch::Plain | Epoch::Early | Epoch::Handshake | Epoch::Application(_)) => {}
            _ => self.open(record, at, context),
        }
    }

    /// Opens a record with the keys at hand, or those that may follow.
    fn open<S: Sink>(&mut self, record: Record<'_>, at: At, context: &mut Context<'_, S>) {
        let mut scratch = mem::take(&mut self.scratch);
        let opened = match self.opener.as_ref() {
            Some(opener) => opener.open(self.number, record, &mut scratch),
            None => None,
        };
        if let Some((kind, length)) = opened {
            let number = self.number;
            self.opened(
                number,
                kind,
                scratch.get(..length).unwrap_or_default(),
                at,
                context,
            );
        } else if let Some((found, kind, length)) =
            self.try_following(record, &mut scratch, context.limits, context.facts)
        {
            let number = found.number;
            self.move_to(found, context.facts);
            self.opened(
                number,
                kind,
                scratch.get(..length).unwrap_or_default(),
                at,
                context,
            );
        } else {
            self.unopened(record, at, context);
        }
        self.scratch = scratch;
    }

    /// Tries the keys that may follow on those at hand.
    fn try_following(
        &self,
        record: Record<'_>,
        scratch: &mut Vec<u8>,
        limits: &Limits,
        facts: &Facts,
    ) -> Option<(Found, u8, usize)> {
        let torn = self.torn.min(MOST_NUMBERS);
        let cost = cost(record);
        let found = self.following(facts, |found, opener| {
            for number in 0..=torn {
                if !self.share.all.tries(cost, limits.all_tls_trials) {
                    return None;
                }
                if let Some((kind, length)) = opener.open(number, record, scratch) {
                    return Some((Found { number, ..found }, kind, length));
                }
            }
            None
        });
        found.map(|((found, kind, length), opener)| {
            let opener = Some(opener);
            (Found { opener, ..found }, kind, length)
        })
    }

    /// Gives `attempt` all keys that may follow on those at hand, until it gives something.
    fn following<T>(
        &self,
        facts: &Facts,
        mut attempt: impl FnMut(Found, &Opener) -> Option<T>,
    ) -> Option<(T, Opener)> {
        if !facts.may_open() {
            return None;
        }
        let client = self.is_client(facts);
        // Where records are lost, keys may have been updated more than once.
        let further = if self.torn > 0 { 3 } else { 1 };
        let updates;
        let handshakes;
        let epochs = match self.epoch {
            Epoch::Application(number) => {
                updates = [1, 2, 3].map(|more| Epoch::Application(number.saturating_add(more)));
                updates.get(..further).unwrap_or_default()
            }
            Epoch::Keyed(number) => {
                handshakes = [Epoch::Keyed(number.saturating_add(1))];
                &handshakes[..]
            }
            Epoch::Plain if facts.version == Version::Tls12 => &[Epoch::Keyed(0)],
            epoch => facts.after(epoch, client),
        };
        for epoch in epochs {
            for (opener, secret) in facts.openers(*epoch, client, self.secret) {
                let found = Found {
                    epoch: *epoch,
                    secret,
                    number: 0,
                    opener: None,
                };
                if let Some(one) = attempt(found, &opener) {
                    return Some((one, opener));
                }
            }
        }
        None
    }

    /// Goes to keys that were found.
    fn move_to(&mut self, found: Found, facts: &mut Facts) {
        if self.epoch == Epoch::Early && facts.early == Early::Offered {
            // The server took none: the client would have said where they end.
            facts.early = Early::Rejected;
        }
        self.epoch = found.epoch;
        self.secret = match (found.epoch, found.secret) {
            (Epoch::Application(generation), Some(secret)) => Some((generation, secret)),
            _ => None,
        };
        if let Some(opener) = &found.opener {
            facts.is_suite(opener.suite());
        }
        self.opener = found.opener;
        self.number = found.number;
        self.messages.restart();
    }

    /// The next record is of this epoch.
    fn advance(&mut self, epoch: Epoch, facts: &mut Facts) {
        let client = self.is_client(facts);
        let first = facts.openers(epoch, client, self.secret).next();
        let (opener, secret) = match first {
            Some((opener, secret)) => (Some(opener), secret),
            None => (None, None),
        };
        self.move_to(
            Found {
                epoch,
                secret,
                number: 0,
                opener,
            },
            facts,
        );
    }

    /// What a record holds that was opened with this number.
    fn opened<S: Sink>(
        &mut self,
        number: u64,
        kind: u8,
        content: &[u8],
        at: At,
        context: &mut Context<'_, S>,
    ) {
        self.number = number.saturating_add(1);
        self.failed = 0;
        let early = self.epoch == Epoch::Handshake
            && context.facts.early == Early::Accepted
            && self.is_client(context.facts);
        if early || (self.epoch.carries() && number > 0) {
            self.tell_untold(at, context);
        }
        self.untold = 0;
        self.torn = 0;
        if self.epoch.carries() && number == 0 {
            // What did not open before was of the handshake.
            self.unopened = 0;
            self.first_unopened = None;
        }
        if self.ended {
            return;
        }
        match kind {
            APPLICATION if self.epoch == Epoch::Early => {
                self.early_bytes += content.len();
                self.early.push((content.to_vec(), at));
            }
            APPLICATION => {
                self.opened += 1;
                self.drop_early(at, context);
                if !content.is_empty() {
                    context.out.data(self.side, content, at);
                }
            }
            HANDSHAKE => {
                self.shook += 1;
                self.handshake(content, at, context);
            }
            CHANGE_CIPHER_SPEC => {
                if let Epoch::Keyed(number) = self.epoch {
                    self.advance(Epoch::Keyed(number.saturating_add(1)), context.facts);
                }
            }
            ALERT => self.ended = matches!(content, [_, CLOSE_NOTIFY]),
            _ => {}
        }
    }

    /// A record that does not open.
    fn unopened<S: Sink>(&mut self, record: Record<'_>, at: At, context: &mut Context<'_, S>) {
        if record.kind() == APPLICATION {
            self.unopened += 1;
            self.first_unopened.get_or_insert(at);
        }
        let overhead = self.opener.as_ref().map_or(0, Opener::overhead);
        let content = record.body.len().saturating_sub(overhead).max(1) as u64;
        self.number = self.number.saturating_add(1);
        self.failed = self.failed.saturating_add(1);
        self.untold = self.untold.saturating_add(content);
        self.messages.restart();
        if self.opened > 0 {
            let detail = format!("record {}", self.number.saturating_sub(1));
            context.out.anomaly(Kind::BadTlsRecord, at, detail);
        }
        let client = self.is_client(context.facts);
        let may = context.facts.may_open() && context.facts.has_application(client);
        if !may && record.kind() != APPLICATION {
            return;
        }
        if self.epoch.carries() || !may {
            self.tell_untold(at, context);
        }
        if !may || self.failed >= MOST_FAILED {
            self.tell_untold(at, context);
            self.give_up(context);
        }
    }

    /// Nothing of this direction can be read any more.
    fn give_up<S: Sink>(&mut self, context: &Context<'_, S>) {
        self.place = if context.facts.has_session() {
            Place::Unreadable
        } else {
            Place::Over
        };
        self.opener = None;
        self.buffer = Vec::new();
        self.pieces = Vec::new();
    }

    fn tell_untold<S: Sink>(&mut self, at: At, context: &mut Context<'_, S>) {
        let untold = mem::take(&mut self.untold);
        if untold > 0 {
            context.out.hole(self.side, untold, at);
        }
    }

    fn tell_early<S: Sink>(&mut self, context: &mut Context<'_, S>) {
        self.early_bytes = 0;
        for (content, at) in mem::take(&mut self.early) {
            self.opened += 1;
            if !content.is_empty() {
                context.out.data(self.side, &content, at);
            }
        }
    }

    /// Early data that the server did not take are sent once more.
    fn drop_early<S: Sink>(&mut self, at: At, context: &mut Context<'_, S>) {
        if self.early.is_empty() {
            return;
        }
        if context.facts.early == Early::Accepted {
            self.tell_early(context);
            return;
        }
        let bytes = mem::take(&mut self.early_bytes) as u64;
        self.early = Vec::new();
        if context.facts.early == Early::Offered && bytes > 0 {
            context.out.hole(self.side, bytes, at);
        }
    }

    /// Handshake messages, plain or opened.
    fn handshake<S: Sink>(&mut self, mut content: &[u8], at: At, context: &mut Context<'_, S>) {
        let mut messages = mem::take(&mut self.messages);
        while let Some(next) = messages.next(&mut content) {
            let epoch = self.epoch;
            self.message(next.get(), at, context);
            if self.epoch != epoch {
                messages.restart();
                break;
            }
        }
        self.messages = messages;
    }

    fn message<S: Sink>(&mut self, message: Message<'_>, at: At, context: &mut Context<'_, S>) {
        let facts = &mut *context.facts;
        let client = self.is_client(facts);
        match (message, self.epoch) {
            (Message::ClientHello(body), Epoch::Plain | Epoch::Keyed(_)) => {
                let sends = facts.client.as_ref().map(|(client, _)| *client);
                if sends.is_none_or(|client| client == self.side)
                    && let Some(hello) = ClientHello::read(body)
                {
                    self.greeted = true;
                    facts.client_hello(self.side, hello, context.secrets);
                }
            }
            (Message::ServerHello(body), Epoch::Plain | Epoch::Keyed(_)) => {
                let sends = facts.client.as_ref().map(|(client, _)| *client);
                if sends != Some(self.side)
                    && let Some(hello) = ServerHello::read(body)
                {
                    self.greeted = true;
                    facts.server_hello(hello, context.secrets);
                }
            }
            (Message::EncryptedExtensions(body), Epoch::Handshake)
                if !client && facts.early == Early::Offered =>
            {
                facts.early = if takes_early_data(body) {
                    Early::Accepted
                } else {
                    Early::Rejected
                };
            }
            (Message::EndOfEarlyData, Epoch::Early) => {
                facts.early = Early::Accepted;
                self.tell_early(context);
                self.advance(Epoch::Handshake, context.facts);
            }
            (Message::Finished, Epoch::Handshake) => {
                self.drop_early(at, context);
                self.advance(Epoch::Application(0), context.facts);
            }
            (Message::KeyUpdate, Epoch::Application(generation)) => {
                self.advance(Epoch::Application(generation.saturating_add(1)), facts);
            }
            _ => {}
        }
    }

    // After a hole

    /// Looks for a record in the buffer; what is before one is dropped.
    fn search<S: Sink>(&mut self, context: &mut Context<'_, S>) {
        if !context.facts.may_open() {
            if context.facts.settled() {
                let bytes = self.buffer.len() as u64;
                let at = self.pieces.last().copied().unwrap_or_default();
                self.unopened += 1;
                self.first_unopened.get_or_insert(at);
                context.out.hole(self.side, bytes.max(1), at);
                self.give_up(context);
            }
            self.buffer.clear();
            self.pieces.clear();
            return;
        }
        let end = self.pieces.last().map_or(0, |at| at.offset);
        let buffer = mem::take(&mut self.buffer);
        let start = end.saturating_sub(buffer.len() as u64);
        let mut from = 0;
        while let Some(candidate) = buffer.get(from..).filter(|left| left.len() >= HEADER) {
            let fits = |length: &usize| {
                HEADER + *length >= LEAST && self.may_begin(candidate, context.facts)
            };
            let Some(length) = header(candidate).filter(fits) else {
                from += 1;
                continue;
            };
            let Some((first, rest)) = candidate.split_first_chunk::<HEADER>() else {
                break;
            };
            // Whether it is one is not known before it is there.
            let Some(body) = rest.get(..length) else {
                break;
            };
            let record = Record {
                header: *first,
                body,
            };
            let offset = start + from as u64;
            let mut scratch = mem::take(&mut self.scratch);
            let lost = offset.saturating_sub(self.known);
            let found = self.try_all(record, lost, &mut scratch, context.limits, context.facts);
            if let Some((found, kind, size)) = found {
                let ends = offset + (HEADER + length) as u64;
                let piece = self.pieces.iter().find(|at| at.offset >= ends);
                let at = piece.map_or_else(At::default, |at| At {
                    offset: ends,
                    ..*at
                });
                self.found(found, lost, at, context);
                self.leave(&buffer, from + HEADER + length, start);
                self.known = ends;
                let number = self.number;
                self.opened(
                    number,
                    kind,
                    scratch.get(..size).unwrap_or_default(),
                    at,
                    context,
                );
                self.scratch = scratch;
                return;
            }
            self.scratch = scratch;
            if self.trials == 0 {
                let bytes = offset.saturating_sub(self.known + self.told).max(1);
                let at = self.pieces.last().copied().unwrap_or_default();
                let detail = "no record was found again after a hole".to_owned();
                context.out.anomaly(Kind::BadTlsRecord, at, detail);
                context.out.hole(self.side, bytes, at);
                self.give_up(context);
                return;
            }
            from += 1;
        }
        self.buffer = buffer.get(from..).unwrap_or_default().to_vec();
        let begins = start + from as u64;
        self.pieces.retain(|at| at.offset > begins);
    }

    /// Whether a record that is searched for may begin so.
    fn may_begin(&self, candidate: &[u8], facts: &Facts) -> bool {
        let [kind, 3, minor, ..] = candidate else {
            return false;
        };
        match facts.version {
            Version::Tls13 => *kind == APPLICATION && *minor == 3,
            _ => matches!(*kind, ALERT | HANDSHAKE | APPLICATION) && *minor == 3,
        }
    }

    /// Tries all keys and numbers with which a record may be protected that comes after `lost` bytes.
    fn try_all(
        &mut self,
        record: Record<'_>,
        lost: u64,
        scratch: &mut Vec<u8>,
        limits: &Limits,
        facts: &Facts,
    ) -> Option<(Found, u8, usize)> {
        let cost = cost(record);
        let least = lost / (HEADER + LONGEST) as u64;
        let around = self.opener.as_ref().map_or(0, Opener::overhead);
        let most = lost / SHORTEST.max((HEADER + around) as u64) + 1;
        let mut left = self.trials;
        let budget = self.share.all.clone();
        let mut attempt = |number: u64, opener: &Opener| {
            let may = left >= cost && budget.tries(cost, limits.all_tls_trials);
            left = if may { left - cost } else { 0 };
            may.then(|| opener.open(number, record, scratch))
        };
        let mut found = None;
        if let Some(opener) = &self.opener {
            for further in least..=most {
                let number = self.number.saturating_add(further);
                let Some(opened) = attempt(number, opener) else {
                    break;
                };
                if let Some((kind, length)) = opened {
                    let here = Found {
                        epoch: self.epoch,
                        secret: None,
                        number,
                        opener: None,
                    };
                    found = Some((here, kind, length));
                    break;
                }
            }
        }
        if found.is_none() {
            let most = most.saturating_add(self.torn);
            let later = self.following(facts, |found, opener| {
                for number in 0..=most {
                    if let Some((kind, length)) = attempt(number, opener)? {
                        return Some((Found { number, ..found }, kind, length));
                    }
                }
                None
            });
            found = later.map(|((found, kind, length), opener)| {
                let opener = Some(opener);
                (Found { opener, ..found }, kind, length)
            });
        }
        self.trials = left;
        found
    }

    /// A record was found again behind `lost` bytes that ends at `at`.
    fn found<S: Sink>(&mut self, found: Found, lost: u64, at: At, context: &mut Context<'_, S>) {
        let same = found.opener.is_none();
        let records = if same {
            found.number.saturating_sub(self.number)
        } else if matches!(found.epoch, Epoch::Keyed(_)) {
            // The first is the end of the handshake.
            found.number.saturating_sub(1)
        } else {
            found.number
        };
        if same {
            self.number = found.number;
        } else {
            self.move_to(found, context.facts);
        }
        let overhead = self.opener.as_ref().map_or(0, Opener::overhead);
        let around = (HEADER + overhead) as u64;
        self.place = Place::Records;
        self.untold = match records {
            0 if !same => 0,
            _ => self
                .untold
                .saturating_add(lost.saturating_sub(records.saturating_mul(around)).max(1)),
        };
        self.untold = self.untold.saturating_sub(mem::take(&mut self.told));
        if self.epoch.carries() {
            self.tell_untold(at, context);
        }
        self.untold = 0;
    }

    /// What is in the buffer beyond the first `used` bytes is read next.
    fn leave(&mut self, buffer: &[u8], used: usize, start: u64) {
        let mut from = used;
        let mut left = Vec::new();
        for at in mem::take(&mut self.pieces) {
            let end = usize::try_from(at.offset.saturating_sub(start)).unwrap_or(usize::MAX);
            if let Some(piece) = buffer.get(from..end).filter(|piece| !piece.is_empty()) {
                left.push((piece.to_vec(), at));
                from = end;
            }
        }
        for piece in left.into_iter().rev() {
            self.again.push_front(piece);
        }
    }

    // Ends

    /// Nothing more comes.
    pub(super) fn finish<S: Sink>(&mut self, at: At, context: &mut Context<'_, S>) {
        if !self.held.is_empty() {
            context.facts.assume();
            self.release(context);
        }
        if matches!(self.place, Place::Over | Place::Unreadable) {
            return;
        }
        self.drop_early(at, context);
        let mut missing = self.untold;
        if let Some(length) = header(&self.buffer).filter(|_| self.place == Place::Records) {
            self.torn = self.torn.saturating_add(1);
            missing += (length as u64).min(self.reached.saturating_sub(self.known));
        } else if matches!(self.place, Place::Search | Place::Torn(_)) {
            missing += self.reached.saturating_sub(self.known);
        }
        self.untold = 0;
        missing = missing.saturating_sub(mem::take(&mut self.told));
        let lost = self.place == Place::Search && context.facts.may_open();
        if lost && self.opened == 0 {
            self.unopened += 1;
            self.first_unopened.get_or_insert(at);
        }
        if missing > 0 && (self.epoch.carries() || self.unopened > 0) {
            context.out.hole(self.side, missing, at);
        }
        self.buffer = Vec::new();
        self.known = self.reached.max(self.known);
    }

    /// Counts what is held; beyond the limits it is given up.
    fn account<S: Sink>(&mut self, at: At, context: &mut Context<'_, S>) {
        let held = self.held_bytes + self.early_bytes;
        let all = self.buffer.len() + held;
        let fits = self.share.set(all, context.limits.all_tls_held);
        if fits && held <= context.limits.tls_held {
            return;
        }
        if held > 0 {
            let detail =
                format!("{held} bytes wait for a hello or the server's word on early data");
            context.out.anomaly(Kind::TlsHeldLimit, at, detail);
            self.held = VecDeque::new();
            self.held_bytes = 0;
            self.early = Vec::new();
            self.early_bytes = 0;
            self.untold = self.untold.saturating_add(held as u64);
            self.tell_untold(at, context);
            self.lose(context);
        } else if let Some(length) = header(&self.buffer).filter(|_| self.place == Place::Records) {
            let detail = format!("a record of {length} bytes");
            context.out.anomaly(Kind::TlsHeldLimit, at, detail);
            let end = self.known + (HEADER + length) as u64;
            self.tear(length, end, at, context);
        } else {
            self.buffer = Vec::new();
            self.pieces = Vec::new();
        }
        self.share.set(self.buffer.len(), usize::MAX);
    }
}

/// Keys that a record opened with.
struct Found {
    epoch: Epoch,
    secret: Option<Secret>,
    number: u64,
    /// `None` for those at hand.
    opener: Option<Opener>,
}

/// What it costs to try to open a record, in bytes: short ones cost more than their length.
fn cost(record: Record<'_>) -> u64 {
    const EACH: u64 = 256;
    record.body.len() as u64 + EACH
}

/// The length of the record that `bytes` begin with, when they may be a record's.
pub(super) fn header(bytes: &[u8]) -> Option<usize> {
    let [kind, major, _, high, low] = *bytes.first_chunk::<HEADER>()?;
    let length = usize::from(u16::from_be_bytes([high, low]));
    let fits = (CHANGE_CIPHER_SPEC..=APPLICATION).contains(&kind) && major == 3;
    (fits && length <= LONGEST).then_some(length)
}

/// Content types.
const CHANGE_CIPHER_SPEC: u8 = 20;
const ALERT: u8 = 21;
pub(super) const HANDSHAKE: u8 = 22;
pub(super) const APPLICATION: u8 = 23;

/// The alert that says that nothing more comes.
const CLOSE_NOTIFY: u8 = 0;

/// A record's header.
const HEADER: usize = 5;
/// The longest body of a record (RFC 5246, section 6.2.3; in TLS 1.3 they are shorter).
const LONGEST: usize = (16 << 10) + 2048;
/// The shortest record with its header that can be opened: a tag and a content type.
const SHORTEST: u64 = LEAST as u64;
const LEAST: usize = HEADER + 8 + 1;

/// Records in a row that do not open before a direction is given up. A handshake has fewer.
const MOST_FAILED: u32 = 64;
/// A hole no longer than a segment.
const SHORT_HOLE: u64 = 1500;
/// Numbers that are tried with keys that may follow, when records before are torn.
const MOST_NUMBERS: u64 = 64;
