//! `resumes.csv`.

use super::{Column, Table, column, frame, input, words};
use crate::{
    model::analysis::{Analysis, Resume},
    report::value::Value,
};

/// Resumes, with their verdicts and what they cost.
#[derive(Clone, Copy, Debug)]
pub struct Resumes;

impl Table for Resumes {
    type Row<'a> = &'a Resume;
    const NAME: &'static str = "resumes";
    const ABOUT: &'static str =
        "A row for each resume (a GET with a Last-Event-ID), in order of time.";
    const COLUMNS: &'static [Column<Self>] = &[
        column!(
            "session_id",
            Text(Session),
            "The session id asked for.",
            |_, r| { Value::Text(&r.session_id) },
            otel = ["mcp.session.id"],
            always = true
        ),
        column!(
            "incarnation",
            Number,
            "The life of the session id that the cursor belongs to, from 1.",
            |_, r| r.incarnation.into(),
            always = true
        ),
        column!(
            "incarnation_after",
            Number,
            "The life of the session id that answered.",
            |_, r| r.incarnation_after.into()
        ),
        column!(
            "resume",
            Number,
            "Its number in the session, from 1.",
            |_, r| { r.resume.into() },
            always = true
        ),
        column!(
            "verdict",
            Word,
            "`continued`, `empty`, `replayed`, `lossy`, `ignored`, `forked`, `rejected`, `failed` \
             or `indeterminate`.",
            |_, r| Value::Word(r.verdict.name()),
            words = words::verdicts,
            always = true
        ),
        column!(
            "confidence",
            Word,
            "How sure the verdict is: `high`, `medium` or `low`.",
            |_, r| Value::Word(r.confidence.name()),
            words = words::confidences,
            always = true
        ),
        column!(
            "reason",
            Text(Prose),
            "Why it is not sure, or what decided.",
            |_, r| Value::Text(&r.reason),
            always = true
        ),
        column!(
            "findings",
            List,
            "Codes of the findings on it, worst first.",
            |_, r| { Value::Words(&r.findings) },
            words = words::codes,
            always = true
        ),
        column!(
            "last_event_id",
            Text(EventId),
            "The cursor: Last-Event-ID as sent.",
            |_, r| { Value::Text(&r.last_event_id) },
            otel = ["http.request.header.last-event-id"],
            always = true
        ),
        column!(
            "first_event_id",
            Text(EventId),
            "The id of the first message that came; empty without a message or without an id.",
            |_, r| r.first_event_id.as_deref().map(Value::Text).into()
        ),
        column!(
            "id_scheme",
            Word,
            "How the stream's ids are ordered: `dense`, `sparse`, `time`, `observed` or `none`.",
            |_, r| Value::Word(r.id_scheme.name()),
            words = words::schemes,
            always = true
        ),
        column!(
            "events_before",
            Number,
            "Events delivered on the stream before.",
            |_, r| r.events_before.into(),
            unit = "events",
            always = true
        ),
        column!(
            "events_after",
            Number,
            "Events that came on this resume.",
            |_, r| { r.events_after.into() },
            unit = "events",
            always = true
        ),
        column!(
            "events_redelivered",
            Number,
            "Of those, how many came again with the same payload.",
            |_, r| r.events_redelivered.into(),
            unit = "events",
            always = true
        ),
        column!(
            "ids_skipped",
            Number,
            "Ids that nobody delivered between the cursor and the answer; empty where the scheme \
             cannot tell.",
            |_, r| r.ids_skipped.into(),
            unit = "ids"
        ),
        column!(
            "events_dropped_by_dedup",
            Number,
            "New events under ids that were delivered before: a client that removes duplicates \
             throws them away.",
            |_, r| r.events_dropped_by_dedup.into(),
            unit = "events",
            always = true
        ),
        column!(
            "pending_requests",
            Number,
            "Requests of the session without an answer when the stream was cut.",
            |_, r| r.requests.pending.into(),
            unit = "requests",
            always = true
        ),
        column!(
            "answered_requests",
            Number,
            "Of those, answered later.",
            |_, r| { r.requests.answered.into() },
            unit = "requests",
            always = true
        ),
        column!(
            "dropped_requests",
            Number,
            "Of those, answered under an id that a client which removes duplicates throws away.",
            |_, r| r.requests.dropped.into(),
            unit = "requests",
            always = true
        ),
        column!(
            "lost_requests",
            Number,
            "Of those, never answered though the client stayed.",
            |_, r| r.requests.lost.into(),
            unit = "requests",
            always = true
        ),
        column!(
            "differing_requests",
            Number,
            "Of those, answered twice, differently.",
            |_, r| r.requests.differing.into(),
            unit = "requests",
            always = true
        ),
        column!(
            "cancelled_requests",
            Number,
            "Of those, cancelled by the client.",
            |_, r| r.requests.cancelled.into(),
            unit = "requests",
            always = true
        ),
        column!(
            "still_pending_requests",
            Number,
            "Of those, perhaps answered where the capture does not show it.",
            |_, r| r.requests.still_pending.into(),
            unit = "requests",
            always = true
        ),
        column!(
            "progress_tokens_left",
            Number,
            "Progress tokens of pending requests that were left hanging.",
            |_, r| r.progress_tokens_left.into(),
            unit = "tokens",
            always = true
        ),
        column!(
            "client",
            Endpoint,
            "The client.",
            |_, r| r.client.as_ref().into(),
            otel = ["client.address", "client.port"]
        ),
        column!(
            "server",
            Endpoint,
            "The server.",
            |_, r| r.server.as_ref().into(),
            otel = ["server.address", "server.port"]
        ),
        column!(
            "backend_before",
            Text(Text),
            "The backend that served the stream before, where one is named.",
            |_, r| r.backend_before.as_deref().map(Value::Text).into()
        ),
        column!(
            "backend_after",
            Text(Text),
            "The backend that answered.",
            |_, r| { r.backend_after.as_deref().map(Value::Text).into() }
        ),
        column!(
            "protocol_version",
            Text(Word),
            "The protocol revision.",
            |_, r| { r.protocol_version.as_deref().map(Value::Text).into() },
            otel = ["mcp.protocol.version"]
        ),
        column!(
            "method",
            Text(Word),
            "The HTTP method.",
            |_, r| Value::Text(&r.method),
            otel = ["http.request.method"],
            always = true
        ),
        column!(
            "status",
            Number,
            "The HTTP status of the answer.",
            |_, r| { r.status.into() },
            otel = ["http.response.status_code"]
        ),
        column!(
            "response_session_id",
            Text(Session),
            "The session id on the answer, where it has one.",
            |_, r| r.response_session_id.as_deref().map(Value::Text).into(),
            otel = ["http.response.header.mcp-session-id"]
        ),
        column!(
            "last_event_time",
            Time,
            "When the last event before came.",
            |_, r| r.last_event_time.into()
        ),
        column!(
            "disconnect_time",
            Time,
            "When the stream was cut.",
            |_, r| { r.disconnect_time.into() }
        ),
        column!(
            "disconnect_cause",
            Word,
            "What cut it: `stream-end`, `server-fin`, `client-fin`, `server-rst`, `client-rst`, \
             `goaway`, `stream-reset`, `silent`, `capture-end` or `unknown`.",
            |_, r| r
                .disconnect_cause
                .map(|cause| Value::Word(cause.name()))
                .into(),
            words = words::causes
        ),
        column!(
            "resume_time",
            Time,
            "When the resume was sent.",
            |_, r| { r.resume_time.into() },
            always = true
        ),
        column!(
            "first_event_time",
            Time,
            "When its first event came.",
            |_, r| { r.first_event_time.into() }
        ),
        column!(
            "silence_ms",
            Millis,
            "From the last event to the cut.",
            |_, r| { r.silence.into() }
        ),
        column!(
            "gap_ms",
            Millis,
            "From the cut to the resume; negative when the old connection ends later.",
            |_, r| r.gap.into()
        ),
        column!("retry_ms", Millis, "The `retry` in force.", |_, r| {
            r.retry
                .map(|retry| crate::model::time::Span::from_millis(i64::from(retry)))
                .into()
        }),
        column!("retry_kept", Bool, "Whether the client kept it.", |_, r| {
            r.retry_kept.into()
        }),
        column!(
            "response_ms",
            Millis,
            "From the resume to the head of the answer.",
            |_, r| r.response.into()
        ),
        column!(
            "first_event_ms",
            Millis,
            "From the resume to its first event.",
            |_, r| r.first_event.into()
        ),
        column!(
            "incident",
            Number,
            "The incident that the cut belongs to.",
            |_, r| r.incident.into()
        ),
        column!(
            "input",
            File,
            "The input that the resume is in.",
            |analysis, r| { input(analysis, r.place) }
        ),
        column!(
            "tcp_stream_before",
            Number,
            "Wireshark's `tcp.stream` of the connection that was cut.",
            |_, r| r.place_before.and_then(|place| place.tcp_stream).into()
        ),
        column!(
            "tcp_stream",
            Number,
            "Wireshark's `tcp.stream` of the resume.",
            |_, r| r.place.tcp_stream.into()
        ),
        column!(
            "frame_before",
            Number,
            "Wireshark's `frame.number` where the cut connection's exchange begins.",
            |_, r| r.place_before.map(frame).into()
        ),
        column!(
            "frame",
            Number,
            "Wireshark's `frame.number` of the resume; in a HAR the entry's number, from 1.",
            |_, r| frame(r.place)
        ),
    ];

    fn rows(analysis: &Analysis) -> impl Iterator<Item = Self::Row<'_>> {
        analysis.resumes.iter()
    }
}
