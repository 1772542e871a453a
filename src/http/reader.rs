//! The messages of one direction: where heads, bodies and body pieces begin and end, over holes
//! too. It knows nothing of the other direction.

use super::{
    chunked::{self, Chunked},
    framing::Framing,
    head::{Guess, HeadEnd, guess_request, guess_response},
};
use crate::{limits::Limits, model::place::At};

/// Cuts one direction's bytes into heads and body pieces.
#[derive(Debug)]
pub(super) struct Reader {
    role: Role,
    state: State,
    /// The bytes of a head that came in earlier calls.
    buffer: Vec<u8>,
}

/// Whose messages a direction carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    Requests,
    Responses,
}

/// A slice of the direction's bytes, read from the front.
#[derive(Clone, Copy, Debug)]
pub(super) struct Input<'a> {
    rest: &'a [u8],
    /// Of the end of the slice.
    at: At,
    /// Whether `rest` begins where a call's slice began: probably a segment's start.
    fresh: bool,
}

/// What comes next.
#[derive(Debug)]
pub(super) enum Step<'a> {
    /// All of the input is used up.
    More,
    /// A whole head. Answer with [`Reader::body`], [`Reader::refuse`] or [`Reader::stop`].
    Head(Head<'a>),
    /// A piece of the body.
    Data(&'a [u8]),
    /// The body is complete.
    End,
    /// Bytes where a head should be; the next message is looked for.
    NotHttp,
    /// A head beyond the limit; the next message is looked for.
    HeadLimit,
    /// A broken chunk header: the framing is lost.
    BadChunk(&'static str),
    /// The framing of a chunked body was found again: these earlier pieces come first.
    Found(Vec<(Vec<u8>, At)>),
}

/// The bytes of a head.
#[derive(Debug)]
pub(super) struct Head<'a> {
    pub(super) bytes: HeadBytes<'a>,
    /// Of its first byte.
    pub(super) first: At,
    /// Of its last byte.
    pub(super) last: At,
    /// It was found by looking for it, not because a message ended before it.
    pub(super) searched: bool,
}

#[derive(Debug)]
pub(super) enum HeadBytes<'a> {
    Slice(&'a [u8]),
    Buffer(Vec<u8>),
}

/// What a hole did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hole {
    /// It lies inside the body, which goes on.
    Inside,
    /// The body's last `inside` bytes are in it, and `beyond` bytes after the body.
    Ends { inside: u64, beyond: u64 },
    /// It begins in the body, and where that ends is not known.
    Lost,
    /// It begins in a head or between messages, or nothing was known before it either.
    Outside,
    /// Nothing is read any more.
    Ignored,
}

#[derive(Debug)]
enum State {
    /// Between messages.
    Start,
    Head {
        end: HeadEnd,
        first: At,
        /// Whether the first bytes have been found to be those of a head.
        known: bool,
        /// Where to go back to when they are not.
        from: From,
    },
    /// A head was handed out.
    Answer(From),
    Length(u64),
    Chunked(Chunked),
    Close,
    /// In a chunked body whose framing is lost.
    Lost(Option<Box<Trial>>),
    /// Looking for a message.
    Hunt,
    Over,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum From {
    Start,
    Hunt,
    Lost,
}

/// Pieces that may be chunks, until it is certain.
#[derive(Debug)]
struct Trial {
    chunked: Chunked,
    pieces: Vec<(Vec<u8>, At)>,
    bytes: usize,
}

impl Reader {
    pub(super) fn new(role: Role) -> Self {
        Self {
            role,
            state: State::Start,
            buffer: Vec::new(),
        }
    }

    /// Reads on. Every step but `More` is followed by another call.
    pub(super) fn step<'a>(&mut self, input: &mut Input<'a>, limits: &Limits) -> Step<'a> {
        loop {
            match &mut self.state {
                State::Start => {
                    // RFC 9112, section 2.2: empty lines before a request are ignored.
                    let line_ends = input
                        .rest
                        .iter()
                        .take_while(|byte| matches!(byte, b'\r' | b'\n'))
                        .count();
                    input.take(line_ends);
                    if input.rest.is_empty() {
                        return Step::More;
                    }
                    self.begin_head(input, From::Start);
                }
                State::Head { known: false, .. } => {
                    if let Some(step) = self.recognise(input) {
                        return step;
                    }
                }
                State::Head { .. } => return self.head(input, limits),
                // The head was not answered: nothing can be read.
                State::Answer(_) => return Step::More,
                State::Length(0) => {
                    self.state = State::Start;
                    return Step::End;
                }
                State::Length(left) => {
                    if input.rest.is_empty() {
                        return Step::More;
                    }
                    let length = usize::try_from(*left)
                        .map_or(input.rest.len(), |left| left.min(input.rest.len()));
                    *left -= length as u64;
                    return Step::Data(input.take(length));
                }
                State::Chunked(chunked) => match chunked.next(input.rest, limits.head) {
                    chunked::Next::More => {
                        input.take(input.rest.len());
                        return Step::More;
                    }
                    chunked::Next::Data { skip, length } => {
                        input.take(skip);
                        return Step::Data(input.take(length));
                    }
                    chunked::Next::End(used) => {
                        input.take(used);
                        self.state = State::Start;
                        return Step::End;
                    }
                    chunked::Next::Bad(what) => {
                        input.take(input.rest.len());
                        self.state = State::Lost(None);
                        return Step::BadChunk(what);
                    }
                },
                State::Close => {
                    if input.rest.is_empty() {
                        return Step::More;
                    }
                    return Step::Data(input.take(input.rest.len()));
                }
                State::Lost(_) => match self.search_chunk(input, limits) {
                    Some(pieces) if pieces.is_empty() => {}
                    Some(pieces) => return Step::Found(pieces),
                    None => return Step::More,
                },
                State::Hunt => {
                    if !input.fresh || self.guess(input.rest, true) == Guess::No {
                        input.take(input.rest.len());
                    }
                    if input.rest.is_empty() {
                        return Step::More;
                    }
                    self.begin_head(input, From::Hunt);
                }
                State::Over => {
                    input.take(input.rest.len());
                    return Step::More;
                }
            }
        }
    }

    /// The head was good; its body is framed so.
    pub(super) fn body(&mut self, framing: Framing) {
        self.state = match framing {
            Framing::Empty => State::Start,
            Framing::Length(length) => State::Length(length),
            Framing::Chunked => State::Chunked(Chunked::default()),
            Framing::Close => State::Close,
        };
    }

    /// The head was none after all.
    pub(super) fn refuse(&mut self) {
        self.state = match self.state {
            State::Answer(From::Lost) => State::Lost(None),
            _ => State::Hunt,
        };
    }

    /// Nothing is read any more.
    pub(super) fn stop(&mut self) {
        self.state = State::Over;
        self.buffer = Vec::new();
    }

    /// Takes up the direction somewhere: the next message is looked for.
    pub(super) fn hunt(&mut self) {
        self.buffer = Vec::new();
        self.state = State::Hunt;
    }

    /// Takes a hole of `bytes` bytes.
    pub(super) fn hole(&mut self, bytes: u64) -> Hole {
        self.buffer.clear();
        match &mut self.state {
            State::Over => Hole::Ignored,
            State::Length(left) if bytes < *left => {
                *left -= bytes;
                Hole::Inside
            }
            State::Length(left) => {
                let inside = *left;
                let beyond = bytes - inside;
                self.state = if beyond == 0 {
                    State::Start
                } else {
                    State::Hunt
                };
                Hole::Ends { inside, beyond }
            }
            State::Chunked(chunked) => match chunked.hole(bytes) {
                chunked::Hole::Inside => Hole::Inside,
                chunked::Hole::AfterLastChunk => {
                    self.state = State::Hunt;
                    Hole::Ends {
                        inside: 0,
                        beyond: bytes,
                    }
                }
                chunked::Hole::Lost => {
                    self.state = State::Lost(None);
                    Hole::Lost
                }
            },
            State::Close => Hole::Inside,
            State::Lost(_)
            | State::Head {
                from: From::Lost, ..
            } => {
                self.state = State::Lost(None);
                Hole::Lost
            }
            State::Start | State::Head { .. } | State::Answer(_) | State::Hunt => {
                self.state = State::Hunt;
                Hole::Outside
            }
        }
    }

    /// Whether a head has begun and not ended.
    pub(super) const fn in_head(&self) -> bool {
        matches!(self.state, State::Head { .. })
    }

    /// Whether the body at hand has lost its framing.
    pub(super) const fn is_lost(&self) -> bool {
        matches!(
            self.state,
            State::Lost(_)
                | State::Head {
                    from: From::Lost,
                    ..
                }
        )
    }

    /// Whether only the close can end the body at hand.
    pub(super) const fn ends_with_close(&self) -> bool {
        matches!(self.state, State::Close)
    }

    fn guess(&self, bytes: &[u8], strict: bool) -> Guess {
        match self.role {
            Role::Requests => guess_request(bytes, strict),
            Role::Responses => guess_response(bytes, strict),
        }
    }

    fn begin_head(&mut self, input: &Input<'_>, from: From) {
        let mut first = input.here();
        first.offset += 1;
        self.buffer.clear();
        self.state = State::Head {
            end: HeadEnd::default(),
            first,
            known: false,
            from,
        };
    }

    /// Looks whether the bytes of a head are those of a head. Leaves the input at the head's next
    /// byte, or, when it is none, where the search goes on.
    fn recognise<'a>(&mut self, input: &mut Input<'a>) -> Option<Step<'a>> {
        let State::Head {
            known, from, end, ..
        } = &mut self.state
        else {
            return None;
        };
        let strict = *from != From::Start;
        let (role, before) = (self.role, self.buffer.len());
        let guess = |bytes: &[u8]| match role {
            Role::Requests => guess_request(bytes, strict),
            Role::Responses => guess_response(bytes, strict),
        };
        let guess = if before == 0 {
            guess(input.rest)
        } else {
            // Enough to decide: a first line.
            let more = input.rest.get(..LOOK_AHEAD).unwrap_or(input.rest);
            self.buffer.extend_from_slice(more);
            let guess = guess(&self.buffer);
            self.buffer.truncate(before);
            guess
        };
        match (guess, *from) {
            (Guess::Yes, _) => {
                *known = true;
                // The bytes kept so far hold no line end: that would have decided it.
                *end = HeadEnd::default();
                None
            }
            (Guess::More, _) => {
                self.buffer.extend_from_slice(input.take(input.rest.len()));
                Some(Step::More)
            }
            (Guess::No, From::Start) => {
                self.hunt();
                input.take(input.rest.len());
                Some(Step::NotHttp)
            }
            // What comes now may be a message's start itself, when it is fresh.
            (Guess::No, from) => {
                if before == 0 {
                    input.take(input.rest.len());
                }
                self.buffer.clear();
                self.state = match from {
                    From::Lost => State::Lost(None),
                    _ => State::Hunt,
                };
                None
            }
        }
    }

    fn head<'a>(&mut self, input: &mut Input<'a>, limits: &Limits) -> Step<'a> {
        let State::Head {
            end, first, from, ..
        } = &mut self.state
        else {
            return Step::More;
        };
        let (first, from) = (*first, *from);
        let found = end.find(input.rest);
        let length = found.unwrap_or(input.rest.len());
        if self.buffer.len().saturating_add(length) > limits.head {
            self.hunt();
            if from == From::Lost {
                self.state = State::Lost(None);
            }
            input.take(input.rest.len());
            return Step::HeadLimit;
        }
        let bytes = input.take(length);
        if found.is_none() {
            self.buffer.extend_from_slice(bytes);
            return Step::More;
        }
        self.state = State::Answer(from);
        Step::Head(Head {
            bytes: if self.buffer.is_empty() {
                HeadBytes::Slice(bytes)
            } else {
                self.buffer.extend_from_slice(bytes);
                HeadBytes::Buffer(std::mem::take(&mut self.buffer))
            },
            first,
            last: input.here(),
            searched: from != From::Start,
        })
    }

    /// Looks for chunks, or for another message, at the start of a call's slice.
    ///
    /// Chunks are believed when one is seen whole and what follows it is a chunk header again, or
    /// the last chunk, or the end of the slice. Until then pieces are kept. `Some`: go on with the
    /// input after these pieces; the state is set. `None`: the input is used up.
    fn search_chunk(
        &mut self,
        input: &mut Input<'_>,
        limits: &Limits,
    ) -> Option<Vec<(Vec<u8>, At)>> {
        let State::Lost(trial) = &mut self.state else {
            return Some(Vec::new());
        };
        let trying = trial.is_some();
        let mut current = trial.take().unwrap_or_else(|| {
            Box::new(Trial {
                chunked: Chunked::strict(),
                pieces: Vec::new(),
                bytes: 0,
            })
        });
        if trying || (input.fresh && !input.rest.is_empty()) {
            match current.read(input.rest, limits) {
                Verdict::Chunks => {
                    self.state = State::Chunked(Chunked::default());
                    return Some(current.pieces);
                }
                Verdict::Perhaps => {
                    current.bytes = current.bytes.saturating_add(input.rest.len());
                    current.pieces.push((input.rest.to_vec(), input.at));
                    if current.bytes <= MAX_TRIAL && current.pieces.len() <= MAX_TRIAL_PIECES {
                        *trial = Some(current);
                    }
                }
                Verdict::No if trying => return Some(Vec::new()),
                Verdict::No => {
                    if self.guess(input.rest, true) == Guess::Yes {
                        self.begin_head(input, From::Lost);
                        return Some(Vec::new());
                    }
                }
            }
        }
        input.take(input.rest.len());
        None
    }
}

enum Verdict {
    Chunks,
    Perhaps,
    No,
}

impl Trial {
    /// Reads the next piece as chunks, without believing it yet.
    fn read(&mut self, bytes: &[u8], limits: &Limits) -> Verdict {
        let mut rest = bytes;
        let mut whole = 0;
        loop {
            let before = rest;
            match self.chunked.next(rest, limits.head) {
                chunked::Next::End(_) => return Verdict::Chunks,
                chunked::Next::Bad(_) => return Verdict::No,
                chunked::Next::More => {
                    return if self.chunked.at_boundary() {
                        Verdict::Chunks
                    } else {
                        Verdict::Perhaps
                    };
                }
                chunked::Next::Data { skip, length } => {
                    // A header after a chunk of this piece or of one before: two in a row.
                    if skip > 0 {
                        whole += 1;
                    }
                    if whole > 1 || (skip > 0 && !self.pieces.is_empty()) {
                        return Verdict::Chunks;
                    }
                    rest = before.get(skip + length..).unwrap_or_default();
                }
            }
        }
    }
}

impl<'a> Input<'a> {
    /// A slice that ends at `at`; `fresh`: it is the beginning of what one call brought.
    pub(super) const fn new(bytes: &'a [u8], at: At, fresh: bool) -> Self {
        Self {
            rest: bytes,
            at,
            fresh,
        }
    }

    /// Bytes not read yet.
    pub(super) const fn left(&self) -> usize {
        self.rest.len()
    }

    /// Time and place just past the last byte read.
    pub(super) fn here(&self) -> At {
        At {
            offset: self.at.offset.saturating_sub(self.rest.len() as u64),
            ..self.at
        }
    }

    pub(super) fn byte(&mut self) -> Option<u8> {
        self.take(1).first().copied()
    }

    pub(super) fn take(&mut self, length: usize) -> &'a [u8] {
        let (taken, rest) = self
            .rest
            .split_at_checked(length)
            .unwrap_or((self.rest, &[]));
        self.rest = rest;
        self.fresh &= length == 0;
        taken
    }
}

/// More than the longest first line that is waited for.
const LOOK_AHEAD: usize = 9 << 10;
/// Bytes kept while it is not certain that they are chunks: longer than one chunk of nearly all
/// servers.
const MAX_TRIAL: usize = 1 << 20;
const MAX_TRIAL_PIECES: usize = 1024;
