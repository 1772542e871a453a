//! Analyses made by hand for the tests of the reports.

use crate::{
    anomaly::Kind,
    model::{
        analysis::{
            Analysis, ClockOffset, CutBy, Exhibit, Finding, Incident, Input, Opaque,
            OpaqueProtocol, Proportion, RequestFates, Resume, SegmentRow, ServerRow, SessionRef,
            SessionRow, Share, ShareBy, Threshold, Timer, TimerKind, Totals,
        },
        event::{Event, Text},
        exchange::{End, EndCause, Exchange, Hole, Media, Part, Request, Response},
        flow::Endpoint,
        message::{Message, MessageKind, PayloadHash},
        place::{InputId, Place},
        time::{Span, Timestamp},
        verdict::{Confidence, IdScheme, SessionEnd, Severity, Verdict},
    },
};
use std::net::SocketAddr;

const SESSION: &str = "0f3a2c5e-8b1d-4c77-9a40-5d2e6f708192";

/// One session, one resume, and it forked.
pub(super) fn fork() -> Analysis {
    let mut analysis = Analysis {
        inputs: vec![Input {
            name: "a.pcapng".to_owned(),
            path: Some("a.pcapng".into()),
            format: "pcapng".to_owned(),
            link_types: vec!["EN10MB".to_owned()],
            packets: 1_204,
            bytes: 190_331,
            first_time: Some(time(0)),
            last_time: Some(time(120_000)),
            tcp_connections: 12,
            http_exchanges: 2,
            sse_events: 4,
            sessions: 1,
            resumes: 1,
            ..Input::default()
        }],
        exchanges: vec![
            stream(time(1_000), 3, None, &["41", "42"]),
            stream(time(62_000), 9, Some("42"), &["1", "2"]),
        ],
        session_of: vec![member(0, 0), member(1, 1)],
        segments: vec![segment(1, 0, None), segment(2, 1, Some("42"))],
        resumes: vec![resume()],
        findings: Vec::new(),
        totals: Totals {
            sessions: 1,
            ..Totals::default()
        },
        ..Analysis::default()
    };
    let mut first = session(1);
    first.resumes = 1;
    first.verdicts[5] = 1;
    first.findings = vec!["sequence-regression", "unknown-session-allocation"];
    first.end = SessionEnd::Superseded;
    analysis.sessions = vec![first, session(2)];
    for (code, evidence, detail) in [
        (
            "sequence-regression",
            "dense ids",
            "the first message has id 1, at or below the cursor 42",
        ),
        (
            "unknown-session-allocation",
            "recreated",
            "a new log under the old session id",
        ),
    ] {
        analysis.findings.push(Finding {
            code,
            severity: Severity::Fork,
            confidence: Confidence::High,
            evidence,
            session_id: SESSION.into(),
            incarnation: 1,
            resume: Some(1),
            time: time(62_100),
            detail: detail.into(),
            client: client(),
            server: server(),
            place: place(1_180, 9),
        });
    }
    analysis
}

/// The fork, and beside it nearly everything else that can be said.
pub(super) fn rich() -> Analysis {
    let mut analysis = fork();
    let input = &mut analysis.inputs[0];
    input.tls_opaque = 3;
    input.http2_opaque = 1;
    input.holes = 2;
    input.hole_bytes = 2_920;
    input.truncated_packets = 7;
    input.clock = Some(ClockOffset::Learnt {
        ahead: Span::from_millis(2_003),
        of: "b.pcapng".to_owned(),
    });
    input.damaged = "offset 190330: the last packet is cut, 24 bytes skipped".into();
    analysis.inputs.push(Input {
        name: "notes.txt".to_owned(),
        unreadable: Some("not a capture: starts with \"Dear\"".into()),
        ..Input::default()
    });
    let opaque = |protocol, name: &str, count| Opaque {
        protocol,
        server: Some(Endpoint::Name(name.into(), 443)),
        count,
    };
    analysis.opaque = vec![
        opaque(OpaqueProtocol::Tls, "api.example", 2),
        opaque(OpaqueProtocol::Tls, "login.example", 1),
        opaque(OpaqueProtocol::Quic, "10.0.0.9", 40),
    ];
    let whole = Place {
        input: InputId(0),
        ..Place::default()
    };
    analysis
        .anomalies
        .note(Kind::DuplicateInput, whole, || "named again as ./a.pcapng");
    let hole = place(77, 3);
    analysis
        .anomalies
        .note(Kind::Hole, hole, || "1460 bytes at offset 4380");
    let link = Place {
        input: InputId(0),
        frame: 5,
        tcp_stream: None,
    };
    analysis
        .anomalies
        .note(Kind::UnknownLinkType, link, || "link type 147");
    analysis.exchanges[0].holes.push(Hole {
        part: Part::ResponseBody,
        bytes: 1_460,
        time: time(2_000),
        after_events: 1,
    });
    analysis.exchanges[1].partial_event_bytes = 17;

    let mut lossy = resume();
    lossy.resume = 2;
    lossy.verdict = Verdict::Lossy;
    lossy.confidence = Confidence::Medium;
    lossy.reason = "the session's start is not in the capture".into();
    lossy.findings = vec!["ids-skipped"];
    lossy.first_event_id = Some("45".to_owned());
    lossy.ids_skipped = Some(2);
    lossy.incarnation_after = None;
    lossy.requests = RequestFates::default();
    lossy.incident = Some(1);
    lossy.resume_time = time(90_000);
    lossy.gap = Some(Span::from_millis(-12));
    lossy.retry = Some(500);
    lossy.retry_kept = Some(false);
    lossy.backend_before = Some("pod-a".into());
    lossy.backend_after = Some("pod-b".into());
    lossy.response_session_id = Some(SESSION.into());
    let mut continued = resume();
    continued.resume = 3;
    continued.verdict = Verdict::Continued;
    continued.findings = Vec::new();
    continued.reason = "".into();
    continued.first_event_id = Some("43".to_owned());
    continued.incarnation_after = None;
    continued.requests = RequestFates::default();
    continued.events_dropped_by_dedup = 0;
    continued.resume_time = time(100_000);
    analysis.resumes.extend([lossy, continued]);
    let mut findings = analysis.findings.clone();
    let mut template = findings[0].clone();
    template.resume = Some(2);
    template.code = "ids-skipped";
    template.severity = Severity::Loss;
    template.detail = "ids 43 and 44 were never delivered".into();
    findings.push(template.clone());
    template.resume = None;
    template.code = "result-lost";
    template.detail = "tools/call 7 never got a result: cursor ignored".into();
    findings.push(template.clone());
    template.code = "cut-by-timer";
    template.severity = Severity::Info;
    template.session_id = "".into();
    template.incarnation = 0;
    template.detail = "6 cuts by the server after 60.0 s".into();
    findings.push(template);
    analysis.findings = findings;
    for (mark, frame, new_frame) in [("cursor", 22, Some(9)), ("finding", 1_180, None)] {
        analysis.evidence.push(Exhibit {
            number: 1,
            finding: 0,
            file: Some("001-sequence-regression-0f3a2c5e-8b1d-4c-resume-1.pcapng".into()),
            mark,
            note: "event id \"42\" was delivered here".to_owned(),
            place: place(frame, 3),
            new_frame,
            new_tcp_stream: new_frame.map(|_| 0),
        });
    }
    overall(&mut analysis);
    analysis.totals.legacy_sessions = 1;
    analysis.totals.sessionless = 4;
    analysis
}

/// What the run shows as a whole.
fn overall(analysis: &mut Analysis) {
    let server = server().unwrap();
    let proportion = Proportion {
        share: 0.5,
        low: 0.0945,
        high: 0.9055,
    };
    for (start, verdicts) in [(30_796, [1, 0, 0, 1, 0, 1, 0, 0, 0]), (70_000, [0; 9])] {
        analysis.incidents.push(Incident {
            server: server.clone(),
            start: time(start),
            end: time(start + 412),
            cause: EndCause::ServerRst,
            segments_cut: 12,
            sessions: 10,
            verdicts,
            lost_requests: verdicts[5],
        });
    }
    for (kind, side, user_agent) in [
        (TimerKind::Age, CutBy::Server, None),
        (TimerKind::Silence, CutBy::Proxy, None),
        (TimerKind::Age, CutBy::Client, Some("node".into())),
        (TimerKind::Age, CutBy::Client, None),
    ] {
        analysis.timers.push(Timer {
            server: server.clone(),
            kind,
            side,
            user_agent,
            period: Span::from_secs(60),
            spread: Span::from_millis(3),
            cuts: 6,
            of: 7,
        });
    }
    for by in [
        ShareBy::Cause(EndCause::ServerRst),
        ShareBy::Backend("pod-a".into()),
        ShareBy::Gap(Span::from_millis(-12), Span::from_millis(31_204)),
    ] {
        analysis.shares.push(Share {
            server: server.clone(),
            by,
            resumes: 2,
            forked: 1,
            proportion,
        });
    }
    analysis.servers.push(ServerRow {
        server,
        sessions: 1,
        verdicts: [1, 0, 0, 1, 0, 1, 0, 0, 0],
        fork_share: Some(proportion),
        threshold: Some(Threshold {
            low: Span::from_millis(28_100),
            high: Span::from_millis(31_000),
            misfits: 0,
            observed: 40,
        }),
        gap_loss_correlation: Some(-0.00001),
    });
}

fn resume() -> Resume {
    Resume {
        session_id: SESSION.into(),
        incarnation: 1,
        incarnation_after: Some(2),
        resume: 1,
        verdict: Verdict::Forked,
        confidence: Confidence::High,
        reason: "ids start again at 1".into(),
        findings: vec!["sequence-regression", "unknown-session-allocation"],
        last_event_id: "42".to_owned(),
        first_event_id: Some("1".to_owned()),
        id_scheme: IdScheme::Dense,
        events_before: 42,
        events_after: 2,
        events_redelivered: 0,
        ids_skipped: None,
        events_dropped_by_dedup: 2,
        requests: RequestFates {
            pending: 2,
            answered: 1,
            lost: 1,
            ..RequestFates::default()
        },
        progress_tokens_left: 1,
        client: client(),
        server: server(),
        backend_before: None,
        backend_after: None,
        protocol_version: Some("2025-06-18".into()),
        method: "GET".to_owned(),
        status: Some(200),
        response_session_id: None,
        last_event_time: Some(time(30_284)),
        disconnect_time: Some(time(30_796)),
        disconnect_cause: Some(EndCause::ServerRst),
        resume_time: time(62_000),
        first_event_time: Some(time(62_100)),
        silence: Some(Span::from_millis(512)),
        gap: Some(Span::from_millis(31_204)),
        retry: None,
        retry_kept: None,
        response: Some(Span::from_millis(12)),
        first_event: Some(Span::from_millis(100)),
        incident: None,
        place_before: Some(place(17, 3)),
        place: place(1_180, 9),
        exchange: 1,
        story: vec![
            "before the cut: id 42, notifications/progress".into(),
            "after the resume: id 1, a response to request 9".into(),
        ],
    }
}

fn session(incarnation: u32) -> SessionRow {
    SessionRow {
        session_id: SESSION.into(),
        incarnation,
        service: "http://mcp.example:8080/mcp".to_owned(),
        client: client(),
        server: server(),
        protocol_version: Some("2025-06-18".into()),
        client_name: Some("inspector".into()),
        server_name: Some("files".into()),
        first_time: time(1_000),
        last_time: time(110_000),
        streams: 1,
        segments: 1,
        events: 2,
        resumes: 0,
        verdicts: [0; 9],
        id_scheme: IdScheme::Dense,
        end: SessionEnd::Open,
        findings: Vec::new(),
    }
}

fn segment(number: u32, exchange: u32, last_event_id: Option<&str>) -> SegmentRow {
    SegmentRow {
        session_id: SESSION.into(),
        incarnation: number,
        stream: 1,
        segment: number,
        last_event_id: last_event_id.map(str::to_owned),
        end_cause: EndCause::ServerRst,
        end_time: Some(time(30_796)),
        end_place: place(900, 3),
        exchange,
    }
}

fn stream(at: Timestamp, tcp_stream: u32, cursor: Option<&str>, ids: &[&str]) -> Exchange {
    let mut exchange = Exchange {
        client: client(),
        server: server(),
        place: place(17, tcp_stream),
        request: Some(Request {
            time: at,
            end_time: at,
            method: if cursor.is_some() { "GET" } else { "POST" }.into(),
            target: "/mcp".into(),
            host: "mcp.example:8080".into(),
            session_id: Some(SESSION.into()),
            last_event_id: cursor.map(Into::into),
            protocol_version: Some("2025-06-18".into()),
            messages: vec![Message {
                kind: MessageKind::Request,
                id: Some("9".into()),
                method: Some("tools/call".into()),
                ..Message::default()
            }]
            .into(),
            body_bytes: 120,
            complete: true,
            ..Request::default()
        }),
        response: Some(Response {
            time: at,
            status: 200,
            content_type: Some("text/event-stream".into()),
            media: Media::EventStream,
            backend: Some("pod-a".into()),
            body_bytes: 400,
            ..Response::default()
        }),
        end: End {
            time: at.plus(Span::from_secs(30)),
            cause: EndCause::ServerRst,
            ..End::default()
        },
        ..Exchange::default()
    };
    let mut events = Vec::new();
    for (id, number) in ids.iter().zip(1_u32..) {
        let mut text = |text: &str| {
            let start = u32::try_from(exchange.text.len()).unwrap();
            exchange.text.push_str(text);
            Text {
                start,
                len: u32::try_from(text.len()).unwrap(),
            }
        };
        let event = Event {
            time: at.plus(Span::from_millis(100 * i64::from(number))),
            hash: PayloadHash(u128::from(number)),
            frame: 20 + number,
            id: Some(text(id)),
            event_type: Some(text("message")),
            rpc_id: Some(text("9")),
            method: Some(text("notifications/progress")),
            progress_token: Some(text("\"t\"")),
            data_bytes: 80,
            retry: Some(3_000),
            message: MessageKind::Notification,
            delivered: true,
            has_data: true,
            ..Event::default()
        };
        events.push(event);
    }
    exchange.events = events.into();
    exchange
}

fn member(session: u32, segment: u32) -> Option<SessionRef> {
    Some(SessionRef {
        session: Some(session),
        segment: Some(segment),
    })
}

/// Milliseconds after the capture began.
fn time(millis: i64) -> Timestamp {
    Timestamp::from_nanos(1_796_337_600_000_000_000).plus(Span::from_millis(millis))
}

fn place(frame: u32, tcp_stream: u32) -> Place {
    Place {
        input: InputId(0),
        frame,
        tcp_stream: Some(tcp_stream),
    }
}

fn client() -> Option<Endpoint> {
    Some(Endpoint::Address(SocketAddr::from(([10, 0, 0, 5], 51_000))))
}

fn server() -> Option<Endpoint> {
    Some(Endpoint::Address(SocketAddr::from((
        [0xfd00, 0, 0, 0, 0, 0, 0, 9],
        8_080,
    ))))
}
