//! The words of columns that have one of a few, as schemas and documentation list them.

use crate::{
    finding,
    model::{
        analysis::{CutBy, TimerKind},
        exchange::{EndCause, HttpVersion},
        message::MessageKind,
        verdict::{Confidence, IdScheme, SessionEnd, Severity, Verdict},
    },
};

pub(super) fn verdicts() -> Vec<&'static str> {
    Verdict::ALL.map(Verdict::name).to_vec()
}

pub(super) fn codes() -> Vec<&'static str> {
    finding::ALL.iter().map(|rule| rule.code).collect()
}

pub(super) fn confidences() -> Vec<&'static str> {
    use Confidence::{High, Low, Medium};
    [High, Medium, Low].map(Confidence::name).to_vec()
}

pub(super) fn severities() -> Vec<&'static str> {
    use Severity::{Fork, Info, Loss, Warning};
    [Fork, Loss, Warning, Info].map(Severity::name).to_vec()
}

pub(super) fn schemes() -> Vec<&'static str> {
    use IdScheme::{Dense, None, Observed, Sparse, Time};
    [Dense, Sparse, Time, Observed, None]
        .map(IdScheme::name)
        .to_vec()
}

pub(super) fn ends() -> Vec<&'static str> {
    use SessionEnd::{Deleted, Left, Lost, Open, Superseded};
    [Deleted, Lost, Left, Superseded, Open]
        .map(SessionEnd::name)
        .to_vec()
}

pub(super) fn causes() -> Vec<&'static str> {
    use EndCause::{
        CaptureEnd, ClientFin, ClientRst, Goaway, ServerFin, ServerRst, Silent, StreamEnd,
        StreamResetByClient, Unknown,
    };
    [
        StreamEnd,
        ServerFin,
        ClientFin,
        ServerRst,
        ClientRst,
        Goaway,
        StreamResetByClient,
        Silent,
        CaptureEnd,
        Unknown,
    ]
    .map(EndCause::name)
    .to_vec()
}

pub(super) fn timer_kinds() -> Vec<&'static str> {
    [TimerKind::Age, TimerKind::Silence]
        .map(TimerKind::name)
        .to_vec()
}

pub(super) fn sides() -> Vec<&'static str> {
    [CutBy::Server, CutBy::Proxy, CutBy::Client]
        .map(CutBy::name)
        .to_vec()
}

pub(super) fn groupings() -> Vec<&'static str> {
    vec!["cause", "backend", "gap"]
}

pub(super) fn http_versions() -> Vec<&'static str> {
    use HttpVersion::{Http2, Http3, Http10, Http11};
    [Http10, Http11, Http2, Http3]
        .map(HttpVersion::name)
        .to_vec()
}

pub(super) fn messages() -> Vec<&'static str> {
    use MessageKind::{Error, None, Notification, Ping, Redacted, Request, Response};
    [Request, Response, Error, Notification, Ping, None, Redacted]
        .map(MessageKind::name)
        .to_vec()
}

pub(super) fn marks() -> Vec<&'static str> {
    crate::report::evidence::MARKS.to_vec()
}
