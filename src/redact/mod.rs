//! Redaction: the finished analysis with every name from outside hashed, so that every report made of it
//! can be given away.
//!
//! It comes last. Verdicts, counts and order are those of the real names, and what a report writes was
//! never in its hands: no format has to think of it. Three things keep a new field from being forgotten.
//! Rows are taken apart here without `..`, so that a field without a decision does not compile. A column
//! of text does not compile without saying what is left of it (`column!` in `report/table`). A sentence
//! keeps its names apart ([`Prose`]), and text of which nobody says what it is counts as one name.
//!
//! [`Prose`]: crate::model::prose::Prose

pub mod facts;
mod form;
mod key;
mod names;

pub use key::Key;
use names::Hide;
pub use names::{Cut, Redactor};

use crate::{
    anomaly::{Anomalies, Example},
    model::{
        analysis::{
            Analysis, ClockOffset, Finding, Incident, Input, KeyLog, Opaque, Resume, SegmentRow,
            ServerRow, SessionRow, Share, ShareBy, Timer,
        },
        event::{BatchedAnswer, Event, Text},
        exchange::{BackendName, Exchange, Greeting, Request, Response},
        flow::Blank,
        har::HarFacts,
        message::{Message, Particulars},
        prose::Secret,
    },
};
use rayon::prelude::*;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

/// Redacts all of an analysis.
pub fn redact(analysis: &mut Analysis, mut redactor: Redactor<'_>) {
    let Analysis {
        inputs,
        exchanges,
        session_of: _,
        sessions,
        segments,
        resumes,
        findings,
        incidents,
        timers,
        shares,
        servers,
        blanks,
        opaque,
        totals: _,
        anomalies,
        // Is made of what is left, later.
        evidence: _,
        // No report shows them, and files of evidence have no secrets then.
        tls_randoms: _,
        key_logs,
    } = analysis;
    redactor.learn(inputs, exchanges, sessions);
    let redactor = &redactor;
    exchanges
        .par_iter_mut()
        .for_each(|row| exchange(row, redactor));
    resumes.par_iter_mut().for_each(|row| resume(row, redactor));
    findings
        .par_iter_mut()
        .for_each(|row| finding(row, redactor));
    sessions
        .par_iter_mut()
        .for_each(|row| session(row, redactor));
    segments
        .par_iter_mut()
        .for_each(|row| segment(row, redactor));
    for row in inputs {
        input(row, redactor);
    }
    for (row, number) in key_logs.iter_mut().zip(1..) {
        key_log(row, number);
    }
    for Incident {
        server,
        start: _,
        end: _,
        cause: _,
        segments_cut: _,
        sessions: _,
        verdicts: _,
        lost_requests: _,
    } in incidents
    {
        redactor.endpoint(server);
    }
    for row in timers {
        timer(row, redactor);
    }
    for row in shares {
        share(row, redactor);
    }
    for ServerRow {
        server,
        sessions: _,
        verdicts: _,
        fork_share: _,
        threshold: _,
        gap_loss_correlation: _,
    } in servers
    {
        redactor.endpoint(server);
    }
    for row in blanks {
        blank(row);
    }
    for row in opaque {
        self::opaque(row, redactor);
    }
    oddities(anomalies, redactor);
}

impl Redactor<'_> {
    /// Takes note of what has to be known before the first name is hidden.
    fn learn(&mut self, inputs: &[Input], exchanges: &[Exchange], sessions: &[SessionRow]) {
        for (number, input) in (1..).zip(inputs) {
            let name = match input.name.as_str() {
                "-" => "-".to_owned(),
                _ => format!("input-{number}"),
            };
            self.inputs.entry(input.name.clone()).or_insert(name);
        }
        let asked = exchanges.iter().filter_map(Exchange::asked_session);
        let given = exchanges.iter().filter_map(Exchange::given_session);
        let judged = sessions.iter().map(|row| &row.session_id);
        for id in asked.chain(given).chain(judged) {
            if !self.sessions.contains(&**id) {
                self.sessions.insert(id.clone());
            }
        }
    }
}

fn input(row: &mut Input, redactor: &impl Hide) {
    let Input {
        name,
        // No report shows it, and who holds the captures may still open them.
        path: _,
        format: _,
        link_types: _,
        packets: _,
        bytes: _,
        first_time: _,
        last_time: _,
        tcp_connections: _,
        http_exchanges: _,
        sse_events: _,
        sessions: _,
        resumes: _,
        sessionless: _,
        legacy_sessions: _,
        refused_ids: _,
        tls_opaque: _,
        http2_opaque: _,
        // Numbers, and forkscope's own words.
        tls: _,
        holes: _,
        hole_bytes: _,
        truncated_packets: _,
        har,
        unread_links: _,
        copy_of,
        clock,
        damaged,
        unreadable,
    } = row;
    redactor.string(Secret::Input, name);
    if let Some(original) = copy_of {
        redactor.string(Secret::Input, original);
    }
    match clock {
        Some(ClockOffset::Learnt { ahead: _, of } | ClockOffset::Left { ahead: _, of }) => {
            redactor.string(Secret::Input, of);
        }
        Some(ClockOffset::Given(_)) | None => {}
    }
    redactor.prose(damaged);
    if let Some(why) = unreadable {
        redactor.prose(why);
    }
    if let Some(HarFacts {
        creators,
        responses: _,
        bodies: _,
        undecodable: _,
        streams: _,
        timed: _,
        made_up: _,
        masked_sessions: _,
        masked_cursors: _,
        masked_events: _,
        no_wire: _,
        omits_open: _,
    }) = har
    {
        for creator in creators {
            redactor.string(Secret::Text, creator);
        }
    }
}

fn resume(row: &mut Resume, redactor: &impl Hide) {
    let Resume {
        session_id,
        incarnation: _,
        incarnation_after: _,
        resume: _,
        verdict: _,
        confidence: _,
        reason,
        findings: _,
        last_event_id,
        first_event_id,
        id_scheme: _,
        events_before: _,
        events_after: _,
        events_redelivered: _,
        ids_skipped: _,
        events_dropped_by_dedup: _,
        requests: _,
        progress_tokens_left: _,
        client,
        server,
        backend_before,
        backend_after,
        protocol_version,
        method,
        status: _,
        response_session_id,
        last_event_time: _,
        disconnect_time: _,
        disconnect_cause: _,
        resume_time: _,
        first_event_time: _,
        silence: _,
        gap: _,
        retry: _,
        retry_kept: _,
        response: _,
        first_event: _,
        incident: _,
        place_before: _,
        place: _,
        exchange: _,
        story,
    } = row;
    redactor.session(session_id);
    redactor.prose(reason);
    redactor.string(Secret::EventId, last_event_id);
    if let Some(id) = first_event_id {
        redactor.string(Secret::EventId, id);
    }
    for end in [client, server].into_iter().flatten() {
        redactor.endpoint(end);
    }
    for backend in [backend_before, backend_after].into_iter().flatten() {
        redactor.shared(Secret::Text, backend);
    }
    if let Some(version) = protocol_version {
        redactor.shared(Secret::Word, version);
    }
    redactor.string(Secret::Word, method);
    if let Some(id) = response_session_id {
        redactor.session(id);
    }
    for line in story {
        redactor.prose(line);
    }
}

fn finding(row: &mut Finding, redactor: &impl Hide) {
    let Finding {
        code: _,
        severity: _,
        confidence: _,
        evidence: _,
        session_id,
        incarnation: _,
        resume: _,
        time: _,
        detail,
        client,
        server,
        place: _,
    } = row;
    redactor.session(session_id);
    redactor.prose(detail);
    for end in [client, server].into_iter().flatten() {
        redactor.endpoint(end);
    }
}

fn session(row: &mut SessionRow, redactor: &impl Hide) {
    let SessionRow {
        session_id,
        incarnation: _,
        service,
        client,
        server,
        protocol_version,
        client_name,
        server_name,
        first_time: _,
        last_time: _,
        streams: _,
        segments: _,
        events: _,
        resumes: _,
        verdicts: _,
        id_scheme: _,
        end: _,
        findings: _,
    } = row;
    redactor.session(session_id);
    redactor.string(Secret::Url, service);
    for end in [client, server].into_iter().flatten() {
        redactor.endpoint(end);
    }
    if let Some(version) = protocol_version {
        redactor.shared(Secret::Word, version);
    }
    for name in [client_name, server_name].into_iter().flatten() {
        redactor.shared(Secret::Text, name);
    }
}

fn segment(row: &mut SegmentRow, redactor: &impl Hide) {
    let SegmentRow {
        session_id,
        incarnation: _,
        stream: _,
        segment: _,
        last_event_id,
        end_cause: _,
        end_time: _,
        end_place: _,
        exchange: _,
    } = row;
    redactor.session(session_id);
    if let Some(id) = last_event_id {
        redactor.string(Secret::EventId, id);
    }
}

fn timer(row: &mut Timer, redactor: &impl Hide) {
    let Timer {
        server,
        kind: _,
        side: _,
        user_agent,
        period: _,
        spread: _,
        cuts: _,
        of: _,
    } = row;
    redactor.endpoint(server);
    if let Some(agent) = user_agent {
        redactor.shared(Secret::Text, agent);
    }
}

fn share(row: &mut Share, redactor: &impl Hide) {
    let Share {
        server,
        by,
        resumes: _,
        forked: _,
        proportion: _,
    } = row;
    redactor.endpoint(server);
    match by {
        ShareBy::Backend(backend) => redactor.shared(Secret::Text, backend),
        ShareBy::Cause(_) | ShareBy::Gap(..) => {}
    }
}

/// Reports count blanks and name none.
fn blank(row: &mut Blank) {
    let Blank {
        client,
        server,
        from: _,
        until: _,
    } = row;
    *client = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
    *server = SocketAddr::new(*client, server.port());
}

fn opaque(row: &mut Opaque, redactor: &impl Hide) {
    let Opaque {
        protocol: _,
        server,
        count: _,
    } = row;
    if let Some(server) = server {
        redactor.endpoint(server);
    }
}

fn oddities(anomalies: &mut Anomalies, redactor: &impl Hide) {
    for Example { place: _, detail } in anomalies.examples_mut() {
        redactor.prose(detail);
    }
}

fn exchange(row: &mut Exchange, redactor: &impl Hide) {
    let Exchange {
        client,
        server,
        connection: _,
        place: _,
        more_places: _,
        version: _,
        source: _,
        sequences: _,
        request,
        response,
        end: _,
        events,
        batched,
        text,
        holes: _,
        partial_event_bytes: _,
        endpoint,
    } = row;
    for end in [client, server].into_iter().flatten() {
        redactor.endpoint(end);
    }
    if let Some(request) = request {
        self::request(request, redactor);
    }
    if let Some(response) = response {
        self::response(response, redactor);
    }
    let mut words = Words {
        old: text,
        new: String::with_capacity(text.len()),
        last: [None; 2],
        redactor,
    };
    events.edit(|row| event(row, &mut words));
    for BatchedAnswer {
        event: _,
        rpc_id,
        hash,
    } in batched
    {
        words.take(Secret::RpcId, rpc_id);
        *hash = redactor.rehash(*hash);
    }
    let new = words.new;
    *text = new;
    if let Some(url) = endpoint {
        redactor.boxed(Secret::Url, url);
    }
}

/// The text of an exchange, written anew.
struct Words<'w, H> {
    old: &'w str,
    new: String,
    /// The event's id and type before: they repeat, and so does their text.
    last: [Option<(Secret, Text, Text)>; 2],
    redactor: &'w H,
}

impl<H: Hide> Words<'_, H> {
    fn take(&mut self, what: Secret, span: &mut Text) {
        let known = self.last.iter().flatten();
        let known = known
            .copied()
            .find(|(of, old, _)| *of == what && old == span);
        if let Some((_, _, new)) = known {
            *span = new;
            return;
        }
        let start = span.start as usize;
        let end = start.saturating_add(span.len as usize);
        let text = self.old.get(start..end).unwrap_or_default();
        let name = self.redactor.name(what, text);
        let place = u32::try_from(self.new.len()).ok();
        let new = match place.zip(u32::try_from(name.len()).ok()) {
            Some((start, len)) if u32::MAX - start >= len => Text { start, len },
            // Four gigabytes of names in one answer: the rest are empty.
            _ => Text::default(),
        };
        if new.len > 0 {
            self.new.push_str(&name);
        }
        self.last.swap(0, 1);
        self.last[0] = Some((what, *span, new));
        *span = new;
    }
}

fn event(row: &mut Event, words: &mut Words<'_, impl Hide>) {
    let Event {
        time: _,
        hash,
        frame: _,
        input: _,
        id,
        event_type,
        rpc_id,
        method,
        progress_token,
        data_bytes: _,
        retry: _,
        message: _,
        subject: _,
        delivered: _,
        after_hole: _,
        has_data: _,
    } = row;
    *hash = words.redactor.rehash(*hash);
    for (what, span) in [
        (Secret::EventId, id),
        (Secret::Word, event_type),
        (Secret::RpcId, rpc_id),
        (Secret::Word, method),
        (Secret::RpcId, progress_token),
    ] {
        if let Some(span) = span {
            words.take(what, span);
        }
    }
}

fn request(row: &mut Request, redactor: &impl Hide) {
    let Request {
        time: _,
        end_time: _,
        method,
        target,
        host,
        scheme: _,
        session_id,
        last_event_id,
        protocol_version,
        user_agent,
        messages,
        body,
        body_bytes: _,
        complete: _,
        received: _,
        trace,
        forwarded: _,
        on_behalf,
    } = row;
    redactor.shared(Secret::Word, method);
    redactor.shared(Secret::Url, target);
    redactor.shared(Secret::Host, host);
    if let Some(id) = session_id {
        redactor.session(id);
    }
    if let Some(id) = last_event_id {
        redactor.shared(Secret::EventId, id);
    }
    if let Some(version) = protocol_version {
        redactor.shared(Secret::Word, version);
    }
    if let Some(agent) = user_agent {
        redactor.shared(Secret::Text, agent);
    }
    for row in messages {
        message(row, redactor);
    }
    *body = redactor.rehash(*body);
    for hash in [trace, on_behalf].into_iter().flatten() {
        *hash = redactor.rehash(*hash);
    }
}

/// As with inputs, the names of files often hold those of hosts and people.
fn key_log(row: &mut KeyLog, number: usize) {
    let KeyLog {
        name,
        secrets: _,
        bad_lines: _,
        // Forkscope's own words.
        first_bad: _,
        beyond: _,
    } = row;
    *name = format!("keylog-{number}");
}

fn response(row: &mut Response, redactor: &impl Hide) {
    let Response {
        time: _,
        place: _,
        status: _,
        content_type,
        media: _,
        session_id,
        incarnation,
        named,
        backend,
        messages,
        greeting,
        subject: _,
        body_bytes: _,
        complete: _,
        undecodable: _,
    } = row;
    if let Some(id) = session_id {
        redactor.session(id);
    }
    if let Some(text) = content_type {
        redactor.shared(Secret::Word, text);
    }
    if let Some(text) = incarnation {
        redactor.shared(Secret::Text, text);
    }
    if let Some(greeting) = greeting {
        let Greeting {
            protocol_version,
            server_name,
            server_version,
        } = &mut **greeting;
        redactor.boxed(Secret::Word, protocol_version);
        for text in [server_name, server_version].into_iter().flatten() {
            redactor.boxed(Secret::Text, text);
        }
    }
    for BackendName { teller: _, name } in named {
        redactor.shared(Secret::Text, name);
    }
    if let Some(backend) = backend {
        redactor.shared(Secret::Text, backend);
    }
    for row in messages {
        message(row, redactor);
    }
}

fn message(row: &mut Message, redactor: &impl Hide) {
    let Message {
        kind: _,
        subject: _,
        id,
        method,
        progress_token,
        hash,
        call,
        particulars,
    } = row;
    for json in [id, progress_token].into_iter().flatten() {
        redactor.short(Secret::RpcId, json);
    }
    if let Some(word) = method {
        redactor.short(Secret::Word, word);
    }
    for hash in [hash, call] {
        *hash = redactor.rehash(*hash);
    }
    let Some(particulars) = particulars else {
        return;
    };
    let Particulars {
        cancels,
        protocol_version,
        party,
        party_version,
        error_code: _,
    } = &mut **particulars;
    if let Some(json) = cancels {
        redactor.boxed(Secret::RpcId, json);
    }
    if let Some(word) = protocol_version {
        redactor.boxed(Secret::Word, word);
    }
    for text in [party, party_version].into_iter().flatten() {
        redactor.boxed(Secret::Text, text);
    }
}
