//! The frames of one direction (RFC 9113, sections 4 and 6): where they begin and end, over holes too.
//! It knows nothing of the other direction, of streams, nor of what headers say.

use crate::{http::reader::Input, model::place::At};

/// The nine bytes before each frame (section 4.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    /// Bytes that follow.
    pub(super) length: u32,
    pub(super) kind: Kind,
    pub(super) flags: u8,
    /// 0 for the connection itself.
    pub(super) stream: u32,
}

/// The kinds of frames (section 6). Those of extensions are passed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Data,
    Headers,
    Priority,
    RstStream,
    Settings,
    PushPromise,
    Ping,
    Goaway,
    WindowUpdate,
    Continuation,
    Other(u8),
}

/// Cuts one direction's bytes into frames.
#[derive(Debug)]
pub(super) struct Reader {
    state: State,
    /// The stream whose header block goes on in the next frame.
    block: Option<u32>,
    /// The highest stream told so far, by either side: a guide where frames are looked for.
    pub(super) newest: u32,
}

/// What comes next.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step<'a> {
    /// All of the input is used up.
    More,
    /// Bytes of a DATA frame, without padding.
    Data(u32, &'a [u8]),
    /// Bytes of a header block: of HEADERS, PUSH_PROMISE or CONTINUATION.
    Block(Header, &'a [u8]),
    /// A frame is complete.
    End(Frame),
    /// The header block that was open goes on no further, or one goes on that never began.
    Broken(&'static str),
    /// What follows is no frame: the next one is looked for.
    Lost(&'static str),
    /// Frames are found again.
    Found,
}

/// A frame that came to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Frame {
    pub(super) header: Header,
    /// Of its first byte.
    pub(super) first: At,
    /// The first bytes of a PUSH_PROMISE, RST_STREAM or GOAWAY, of the latter two numbers.
    pub(super) numbers: [u32; 2],
    /// Bytes of it are missing.
    pub(super) torn: bool,
    /// It says that it has more padding than payload.
    pub(super) bad_padding: bool,
}

/// What a hole did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hole {
    /// It lies in this frame, so many bytes of it, and ends no later.
    Inside(Header, u64),
    /// So many bytes of it lie in this frame, if any, and it ends where no frame is known to begin.
    Lost(Option<(Header, u64)>),
    /// Nothing was known before it either.
    Outside,
    /// Nothing is read any more.
    Ignored,
}

#[derive(Debug)]
enum State {
    /// The client's preface (section 3.4); so many bytes of it came.
    Preface(usize),
    /// Between frames.
    Header(Begun),
    Payload(Payload),
    /// Looking for a frame among what comes.
    Hunt(Begun),
    Over,
}

/// The first bytes of a header, and where they were.
#[derive(Clone, Copy, Debug, Default)]
struct Begun {
    bytes: [u8; HEADER],
    have: usize,
    places: [At; HEADER],
}

#[derive(Clone, Copy, Debug)]
struct Payload {
    header: Header,
    first: At,
    /// Bytes up to the frame's end.
    left: u64,
    /// What comes before the content: the length of padding, a priority, a promised stream; or all of
    /// a frame of numbers.
    prefix: [u8; PREFIX],
    have: usize,
    /// Bytes of padding, once they are known.
    padding: u64,
    torn: bool,
    bad_padding: bool,
}

impl Header {
    pub(super) fn parse(bytes: [u8; HEADER]) -> Self {
        let [a, b, c, kind, flags, d, e, f, g] = bytes;
        Self {
            length: u32::from_be_bytes([0, a, b, c]),
            kind: Kind::of(kind),
            flags,
            // The reserved bit "MUST be ignored when receiving".
            stream: u32::from_be_bytes([d, e, f, g]) & MAX_STREAM,
        }
    }

    /// Whether it ends what its side says on the stream.
    pub(super) const fn ends_stream(&self) -> bool {
        matches!(self.kind, Kind::Data | Kind::Headers) && self.flags & END_STREAM != 0
    }

    /// Whether it ends a header block.
    pub(super) const fn ends_block(&self) -> bool {
        self.flags & END_HEADERS != 0
    }

    pub(super) const fn carries_block(&self) -> bool {
        matches!(
            self.kind,
            Kind::Headers | Kind::PushPromise | Kind::Continuation
        )
    }

    const fn is_padded(&self) -> bool {
        let may = matches!(self.kind, Kind::Data | Kind::Headers | Kind::PushPromise);
        may && self.flags & PADDED != 0
    }

    /// Bytes before the content.
    const fn prefix(&self) -> usize {
        let padding = if self.is_padded() { 1 } else { 0 };
        match self.kind {
            Kind::Headers if self.flags & PRIORITY != 0 => padding + 5,
            Kind::PushPromise => padding + 4,
            Kind::RstStream => 4,
            Kind::Goaway => 8,
            _ => padding,
        }
    }

    /// What breaks the rules for its kind so that its bytes cannot be meant so.
    pub(super) const fn fault(&self) -> Option<&'static str> {
        let Self {
            length,
            kind,
            stream,
            flags,
        } = *self;
        match kind {
            Kind::Data
            | Kind::Headers
            | Kind::Priority
            | Kind::RstStream
            | Kind::PushPromise
            | Kind::Continuation
                if stream == 0 =>
            {
                return Some("a frame of a stream without its number");
            }
            Kind::Settings | Kind::Ping | Kind::Goaway if stream != 0 => {
                return Some("a frame of the connection with a stream's number");
            }
            _ => {}
        }
        let right = match kind {
            Kind::Priority => length == 5,
            Kind::RstStream | Kind::WindowUpdate => length == 4,
            Kind::Settings if flags & ACK != 0 => length == 0,
            Kind::Settings => length.is_multiple_of(6),
            Kind::Ping => length == 8,
            Kind::Goaway => length >= 8,
            Kind::Data | Kind::Headers | Kind::PushPromise => length as usize >= self.prefix(),
            Kind::Continuation | Kind::Other(_) => true,
        };
        if right {
            None
        } else {
            Some("a length that does not go with the kind of frame")
        }
    }

    /// Whether bytes that nothing announces are likely to be this header: a kind and flags that exist, a
    /// length that needs no setting, and a stream not far beyond `newest`. In text there is no such thing,
    /// among random bytes one in some hundred million places.
    fn is_likely(&self, reserved: bool, newest: u32) -> bool {
        let flags = match self.kind {
            Kind::Data => END_STREAM | PADDED,
            Kind::Headers => END_STREAM | END_HEADERS | PADDED | PRIORITY,
            Kind::PushPromise => END_HEADERS | PADDED,
            Kind::Continuation => END_HEADERS,
            Kind::Settings | Kind::Ping => ACK,
            Kind::Priority | Kind::RstStream | Kind::Goaway | Kind::WindowUpdate => 0,
            Kind::Other(_) => return false,
        };
        let odd = self.stream % 2 == 1 || self.stream == 0 || self.kind == Kind::PushPromise;
        !reserved
            && self.flags & !flags == 0
            && self.fault().is_none()
            && self.length <= USUAL_LENGTH
            && odd
            && self.stream <= newest.saturating_add(AHEAD)
    }
}

impl Kind {
    pub(super) const fn of(byte: u8) -> Self {
        match byte {
            0 => Self::Data,
            1 => Self::Headers,
            2 => Self::Priority,
            3 => Self::RstStream,
            4 => Self::Settings,
            5 => Self::PushPromise,
            6 => Self::Ping,
            7 => Self::Goaway,
            8 => Self::WindowUpdate,
            9 => Self::Continuation,
            other => Self::Other(other),
        }
    }
}

impl Reader {
    /// The direction of the client, which begins with the preface.
    pub(super) fn client() -> Self {
        Self::with(State::Preface(0))
    }

    /// The direction of the server.
    pub(super) fn server() -> Self {
        Self::with(State::Header(Begun::default()))
    }

    const fn with(state: State) -> Self {
        Self {
            state,
            block: None,
            newest: 0,
        }
    }

    /// Looks for a frame: what comes may be the middle of one.
    pub(super) fn hunt(&mut self) {
        self.state = State::Hunt(Begun::default());
        self.block = None;
    }

    /// Whether frames are being looked for.
    pub(super) const fn is_hunting(&self) -> bool {
        matches!(self.state, State::Hunt(_))
    }

    pub(super) fn stop(&mut self) {
        self.state = State::Over;
    }

    /// Reads on. Every step but `More` is followed by another call.
    pub(super) fn step<'a>(&mut self, input: &mut Input<'a>) -> Step<'a> {
        loop {
            match &mut self.state {
                State::Preface(have) => {
                    while let Some(want) = PREFACE.get(*have) {
                        let Some(byte) = input.byte() else {
                            return Step::More;
                        };
                        if byte != *want {
                            self.hunt();
                            return Step::Lost("no preface of HTTP/2");
                        }
                        *have += 1;
                    }
                    self.state = State::Header(Begun::default());
                }
                State::Header(begun) => {
                    if !begun.fill(input) {
                        return Step::More;
                    }
                    let (header, first) = (begun.header(), begun.first());
                    if let Some(fault) = header.fault() {
                        let mut begun = *begun;
                        begun.shift();
                        self.block = None;
                        self.state = State::Hunt(begun);
                        return Step::Lost(fault);
                    }
                    let goes_on = (header.kind == Kind::Continuation).then_some(header.stream);
                    let block = self.block.take();
                    self.begin(header, first);
                    // Section 6.10: nothing but CONTINUATION of its stream may come within a block.
                    if block != goes_on {
                        return Step::Broken(match block {
                            Some(_) => "a header block without its end",
                            None => "CONTINUATION of no header block",
                        });
                    }
                }
                State::Hunt(begun) => {
                    if !begun.fill(input) {
                        return Step::More;
                    }
                    let reserved = begun.bytes[5] & 0x80 != 0;
                    let header = begun.header();
                    // A header block of which the beginning is missing is of no use.
                    if header.is_likely(reserved, self.newest) {
                        let first = begun.first();
                        self.begin(header, first);
                        return Step::Found;
                    }
                    begun.shift();
                }
                State::Payload(payload) => {
                    if payload.left == 0 {
                        return Step::End(self.end());
                    }
                    if let Some(step) = payload.read(input) {
                        return step;
                    }
                }
                State::Over => return Step::More,
            }
        }
    }

    /// So many bytes are missing.
    pub(super) fn hole(&mut self, bytes: u64) -> Hole {
        match &mut self.state {
            State::Payload(payload) => {
                let header = payload.header;
                let inside = payload.left.min(bytes);
                let content = payload.skip(inside);
                if inside == bytes {
                    return Hole::Inside(header, content);
                }
                Hole::Lost(Some((header, content)))
            }
            State::Preface(_) | State::Header(_) => {
                self.hunt();
                Hole::Lost(None)
            }
            State::Hunt(_) => {
                self.hunt();
                Hole::Outside
            }
            State::Over => Hole::Ignored,
        }
    }

    /// The frame that a hole ran over the end of.
    pub(super) fn give_up(&mut self) -> Option<Frame> {
        let frame =
            matches!(&self.state, State::Payload(payload) if payload.left == 0).then(|| self.end());
        self.hunt();
        frame
    }

    fn begin(&mut self, header: Header, first: At) {
        // Those of the client alone: a guide for both directions.
        if header.stream % 2 == 1 {
            self.newest = self.newest.max(header.stream);
        }
        self.state = State::Payload(Payload {
            header,
            first,
            left: u64::from(header.length),
            prefix: [0; PREFIX],
            have: 0,
            padding: 0,
            torn: false,
            bad_padding: false,
        });
    }

    fn end(&mut self) -> Frame {
        let State::Payload(payload) = &self.state else {
            return Frame {
                header: Header::parse([0; HEADER]),
                first: At::default(),
                numbers: [0; 2],
                torn: true,
                bad_padding: false,
            };
        };
        let Payload {
            header,
            first,
            torn,
            bad_padding,
            ..
        } = *payload;
        let numbers = payload.numbers();
        if header.carries_block() {
            self.block = (!header.ends_block()).then_some(header.stream);
        }
        self.state = State::Header(Begun::default());
        Frame {
            header,
            first,
            numbers,
            torn,
            bad_padding,
        }
    }
}

impl Begun {
    /// Takes bytes until there are nine; returns whether there are.
    fn fill(&mut self, input: &mut Input<'_>) -> bool {
        while let (Some(slot), Some(place)) = (
            self.bytes.get_mut(self.have),
            self.places.get_mut(self.have),
        ) {
            let Some(byte) = input.byte() else {
                return false;
            };
            *slot = byte;
            *place = input.here();
            self.have += 1;
        }
        true
    }

    /// Drops the first byte.
    fn shift(&mut self) {
        self.bytes.rotate_left(1);
        self.places.rotate_left(1);
        self.have = self.have.saturating_sub(1);
    }

    fn header(&self) -> Header {
        Header::parse(self.bytes)
    }

    const fn first(&self) -> At {
        self.places[0]
    }
}

impl Payload {
    /// Reads on within the frame; `None`: nothing to tell, and the frame may be at its end.
    fn read<'a>(&mut self, input: &mut Input<'a>) -> Option<Step<'a>> {
        let wanted = self.header.prefix();
        // What of it is content is not known where what says so is missing.
        if self.torn && self.have < wanted {
            return self.pass_over(input);
        }
        while self.have < wanted && self.left > 0 {
            let Some(byte) = input.byte() else {
                return Some(Step::More);
            };
            if let Some(slot) = self.prefix.get_mut(self.have) {
                *slot = byte;
            }
            self.have += 1;
            self.left -= 1;
            if self.have == wanted && self.header.is_padded() {
                self.padding = u64::from(self.prefix[0]);
                // Section 6.1: as much padding as there is payload is an error.
                if self.padding > self.left {
                    self.bad_padding = true;
                    self.padding = self.left;
                }
            }
        }
        if self.left == 0 {
            return None;
        }
        let room = self.left.saturating_sub(self.padding);
        if room == 0 {
            return self.pass_over(input);
        }
        let taken = input.take(usize::try_from(room).unwrap_or(usize::MAX));
        if taken.is_empty() {
            return Some(Step::More);
        }
        self.left = self.left.saturating_sub(taken.len() as u64);
        match self.header.kind {
            Kind::Data => Some(Step::Data(self.header.stream, taken)),
            _ if self.header.carries_block() => Some(Step::Block(self.header, taken)),
            _ => None,
        }
    }

    /// Passes over what is left of the frame.
    fn pass_over<'a>(&mut self, input: &mut Input<'a>) -> Option<Step<'a>> {
        let taken = input.take(usize::try_from(self.left).unwrap_or(usize::MAX));
        self.left = self.left.saturating_sub(taken.len() as u64);
        taken.is_empty().then_some(Step::More)
    }

    /// Passes over so many bytes that are missing; returns how many of them are content.
    fn skip(&mut self, bytes: u64) -> u64 {
        if bytes == 0 {
            return 0;
        }
        let content = self.left.saturating_sub(self.padding).min(bytes);
        self.left = self.left.saturating_sub(bytes);
        // Padding that is missing takes nothing away.
        if content > 0 {
            self.torn = true;
        }
        content
    }

    fn numbers(&self) -> [u32; 2] {
        let at = match self.header.kind {
            Kind::PushPromise if self.header.is_padded() => 1,
            Kind::PushPromise | Kind::RstStream | Kind::Goaway => 0,
            _ => return [0; 2],
        };
        let number = |from: usize| {
            let bytes = self.prefix.get(from..from + 4).unwrap_or_default();
            u32::from_be_bytes(bytes.try_into().unwrap_or_default())
        };
        [number(at), number(at + 4)]
    }
}

/// What bytes where no frame is announced begin with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::http) enum Guess {
    /// Frames, or the beginning of what may be some. Who sent them is not told.
    Frames,
    /// Frames that only clients send, or only servers.
    Client,
    Server,
    No,
}

/// Looks whether bytes begin with frames, of a connection whose beginning is missing, and whose they are.
pub(in crate::http) fn guess(bytes: &[u8]) -> Guess {
    let mut rest = bytes;
    let mut told = Guess::Frames;
    let mut newest = LATE;
    while !rest.is_empty() {
        let Some((begun, after)) = rest.split_first_chunk::<HEADER>() else {
            // A header may begin here, of a frame of usual length.
            let may = matches!(rest, [0] | [0, 0..=0x40, ..]);
            return if may { told } else { Guess::No };
        };
        let header = Header::parse(*begun);
        if !header.is_likely(begun[5] & 0x80 != 0, newest) {
            return Guess::No;
        }
        newest = header.stream.max(newest);
        let length = usize::try_from(header.length).unwrap_or(usize::MAX);
        let payload = after.get(..length).unwrap_or(after);
        if told == Guess::Frames {
            told = whose(header, payload);
        }
        rest = after.get(length..).unwrap_or_default();
    }
    told
}

/// Whose frame it is, when that is told.
fn whose(header: Header, payload: &[u8]) -> Guess {
    match header.kind {
        Kind::PushPromise => Guess::Server,
        Kind::Priority => Guess::Client,
        // Pseudo-fields come first, and the static table has a place for them.
        Kind::Headers => match payload.get(header.prefix()).copied() {
            Some(0x82..=0x87 | 0x41..=0x47 | 0x01..=0x07 | 0x11..=0x17) => Guess::Client,
            Some(0x88..=0x8e | 0x48..=0x4e | 0x08..=0x0e | 0x18..=0x1e) => Guess::Server,
            _ => Guess::Frames,
        },
        // An event stream comes from a server.
        Kind::Data => {
            let text = payload.get(header.prefix()..).unwrap_or_default();
            let fields: [&[u8]; 5] = [b"event:", b"data:", b"id:", b"retry:", b": "];
            if fields.iter().any(|field| text.starts_with(field)) {
                Guess::Server
            } else {
                Guess::Frames
            }
        }
        _ => Guess::Frames,
    }
}

/// Whether a server's first bytes are the settings that HTTP/2 begins with (section 3.4). `None`: too few to
/// tell.
pub(in crate::http) fn are_settings(bytes: &[u8]) -> Option<bool> {
    let Some([0, 0, length, SETTINGS, 0, 0, 0, 0, 0]) = bytes.first_chunk::<HEADER>() else {
        let pattern = [Some(0), Some(0), None, Some(SETTINGS)];
        let rest = std::iter::repeat(Some(0));
        let fits = bytes.iter().zip(pattern.into_iter().chain(rest));
        let fits = fits.fold(true, |fits, (byte, want)| {
            fits && want.is_none_or(|want| want == *byte)
        });
        return (bytes.len() >= HEADER || !fits).then_some(false);
    };
    Some(length.is_multiple_of(6) && *length <= MOST_SETTINGS)
}

const HEADER: usize = 9;
/// A GOAWAY's numbers are the longest.
const PREFIX: usize = 8;

/// Section 3.4.
pub(in crate::http) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// The kind of SETTINGS.
const SETTINGS: u8 = 4;
// Flags, section 6.
const END_STREAM: u8 = 0x1;
const ACK: u8 = 0x1;
const END_HEADERS: u8 = 0x4;
const PADDED: u8 = 0x8;
const PRIORITY: u8 = 0x20;

const MAX_STREAM: u32 = (1 << 31) - 1;
/// SETTINGS_MAX_FRAME_SIZE where no setting says otherwise (section 6.5.2): few senders write longer frames,
/// and a longer one is found by the next.
const USUAL_LENGTH: u32 = 1 << 14;
/// Streams beyond those seen that a frame after a hole may be of.
const AHEAD: u32 = 512;
/// Streams that a connection may have had before the capture began.
pub(super) const LATE: u32 = 1 << 20;
/// Bytes of the settings that a server begins with: there are about ten settings.
const MOST_SETTINGS: u8 = 6 * 32;
