//! Exchanges of all roads → the finished analysis: sorted, grouped, judged, counted.

use super::{Options, learn::Learnt, packets::Counts};
use crate::{
    anomaly::{Anomalies, Kind},
    audit, finding, input, mcp,
    model::{
        analysis::{Analysis, ClockOffset, Finding, Input, KeyLog, Opaque, SessionRef, Totals},
        coverage::{Coverage, Shown, inputs_of},
        elsewhere::Elsewhere,
        exchange::{ConnectionId, EndCause, Exchange, Window},
        flow::{Endpoint, ServerFacts},
        id::SessionId,
        place::{InputId, Place},
        prose::prose,
        session::{Grouping, Role},
        time::{Span, Timestamp},
        verdict::Severity,
    },
    redact::{Redactor, redact},
    tls,
};
use rayon::prelude::*;
use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
};

/// What the roads gave.
#[derive(Default)]
pub(super) struct Harvest {
    pub(super) key_logs: Vec<KeyLog>,
    pub(super) inputs: Vec<Input>,
    /// How many of them, the first ones, were not found at all.
    pub(super) missing: usize,
    pub(super) counts: BTreeMap<InputId, Counts>,
    pub(super) exchanges: Vec<Exchange>,
    pub(super) anomalies: Anomalies,
    pub(super) window: Window,
    pub(super) servers: ServerFacts,
    pub(super) opaque: Vec<Opaque>,
    /// Under which the secrets of TLS connections are in key logs: by input and stream.
    pub(super) randoms: BTreeMap<(InputId, u32), Vec<tls::Random>>,
    /// What was added to the times of which inputs because the user said so.
    pub(super) given: BTreeMap<InputId, Span>,
    /// Inputs whose clocks are ahead of that of another, by the connections that both show.
    pub(super) ahead: BTreeMap<InputId, (Span, InputId)>,
}

/// Leaves the blanks that sessions may have lost exchanges in: those on connections to their servers. Other
/// servers speak of other things.
fn keep_blanks(
    servers: &mut ServerFacts,
    grouping: &Grouping,
    exchanges: &[Exchange],
    window: Window,
    others: Option<&BTreeSet<Endpoint>>,
) {
    let of_sessions: BTreeSet<&Endpoint> = exchanges
        .iter()
        .zip(&grouping.role_of)
        .filter(|(_, role)| matches!(role, Role::Session(_)))
        .filter_map(|(exchange, _)| exchange.server.as_ref())
        .collect();
    servers.blanks.retain(|blank| {
        blank.until = blank.until.min(window.last.unwrap_or(blank.until));
        let server = Endpoint::Address(blank.server);
        of_sessions.contains(&server) || others.is_some_and(|others| others.contains(&server))
    });
}

/// Says of inputs how their clocks were put right, and puts what is known of them on these.
fn put_right(inputs: &mut [Input], clocks: &mcp::vantage::Clocks) {
    for (input, ahead) in clocks.iter() {
        let of = inputs.get(ahead.of.0 as usize);
        let of = of.map_or_else(String::new, |row| row.name.clone());
        if let Some(row) = inputs.get_mut(input.0 as usize) {
            row.first_time = row.first_time.map(|time| clocks.of_run(input, time));
            row.last_time = row.last_time.map(|time| clocks.of_run(input, time));
            row.clock = Some(ClockOffset::Learnt {
                ahead: ahead.by,
                of,
            });
        }
    }
}

/// Says of inputs how far their clocks are ahead, unless they were put right: the same bytes of a connection
/// count once whichever clock they come by, but the times of what only one input shows are by its own.
fn tell_ahead(inputs: &mut [Input], ahead: &BTreeMap<InputId, (Span, InputId)>) {
    for (input, (by, of)) in ahead {
        let other = inputs.get(of.0 as usize);
        let name = other
            .filter(|row| !matches!(row.clock, Some(ClockOffset::Learnt { .. })))
            .map(|row| row.name.clone());
        let row = inputs.get_mut(input.0 as usize);
        if let (Some(row), Some(of)) = (row.filter(|row| row.clock.is_none()), name) {
            row.clock = Some(ClockOffset::Left { ahead: *by, of });
        }
    }
}

/// When each input was captured.
fn coverage(inputs: &[Input], shown: &Shown) -> Coverage {
    let times = (0..).zip(inputs).filter_map(|(number, input)| {
        let first = input.first_time?;
        let last = input.last_time.unwrap_or(first);
        let file = input::ring_file(&input.name);
        Some((InputId(number), file, first, last))
    });
    Coverage::of(times, shown)
}

/// Concludes a run, or a part of it with what is `learnt` of all.
pub(super) fn conclude(harvest: Harvest, options: &Options, learnt: Option<&Learnt>) -> Analysis {
    let Harvest {
        key_logs,
        mut inputs,
        missing: _,
        counts,
        mut exchanges,
        anomalies,
        mut window,
        mut servers,
        opaque,
        randoms,
        given,
        ahead,
    } = harvest;
    exchanges.retain(|exchange| is_wanted(exchange, options));
    let right = given.into_keys().collect();
    let clocks = match learnt {
        None => mcp::vantage::align(&mut exchanges, &right),
        Some(learnt) => mcp::vantage::align_by(learnt.samples(), &mut exchanges, &right),
    };
    put_right(&mut inputs, &clocks);
    tell_ahead(&mut inputs, &ahead);
    servers.put_back(&clocks.spans());
    for exchange in &exchanges {
        window.include(exchange.time());
        window.include(exchange.end.time);
    }
    let times = learnt.map(|learnt| learnt.times(&clocks));
    times
        .into_iter()
        .flatten()
        .for_each(|time| window.include(time));
    let shown = learnt.map_or_else(|| Shown::by_all(&exchanges), |learnt| learnt.shown(&clocks));
    let coverage = coverage(&inputs, &shown);
    let elsewhere = learnt.map_or_else(Elsewhere::default, |learnt| {
        learnt.elsewhere(&exchanges, options, &clocks, &coverage)
    });
    let mut ends: BTreeMap<BTreeSet<InputId>, Option<Timestamp>> = BTreeMap::new();
    for exchange in &mut exchanges {
        if exchange.end.cause == EndCause::CaptureEnd {
            let inputs: BTreeSet<InputId> = inputs_of(exchange).collect();
            let end = *ends
                .entry(inputs)
                .or_insert_with_key(|inputs| coverage.covered(inputs).window.last);
            exchange.end.time = end.unwrap_or(exchange.end.time).max(exchange.end.time);
        }
        if options.all_sse {
            name_session(exchange);
        }
    }
    sort(&mut exchanges);
    number_connections(&mut exchanges);

    let mut grouping = mcp::session::group(&exchanges);
    mcp::vantage::pair(&mut grouping, &mut exchanges);
    mcp::stream::thread(&mut grouping, &exchanges);
    let others = learnt.map(Learnt::servers);
    keep_blanks(&mut servers, &grouping, &exchanges, window, others);
    let mut judged = audit::audit(
        &grouping,
        &exchanges,
        &coverage,
        &servers,
        &elsewhere,
        &options.limits,
    );
    let overall = audit::overall::look(&grouping, &exchanges, &mut judged, options.window);
    let judgements: Vec<Vec<(Finding, Vec<u32>)>> = judged
        .par_iter()
        .map(|session| finding::judge(&session.case))
        .collect();

    let mut analysis = Analysis {
        inputs,
        anomalies,
        session_of: vec![None; exchanges.len()],
        totals: Totals {
            sessionless: count(
                grouping
                    .role_of
                    .iter()
                    .filter(|role| **role == Role::Sessionless)
                    .count(),
            ),
            legacy_sessions: count(grouping.legacy.len()),
            refused_ids: count(grouping.refused_ids.len()),
            sessions: count(grouping.sessions.len()),
        },
        blanks: servers.blanks.iter().copied().collect(),
        findings: finding::judge_run(&overall.case),
        incidents: overall.incidents,
        timers: overall.timers,
        shares: overall.shares,
        servers: overall.servers,
        opaque,
        key_logs,
        tls_randoms: randoms,
        ..Analysis::default()
    };
    for ((session, judged), judgements) in grouping.sessions.iter().zip(&mut judged).zip(judgements)
    {
        for exchange in judged
            .worn
            .iter()
            .filter_map(|&number| exchanges.get(number as usize))
        {
            let note = || prose!("session {}", session.id);
            analysis
                .anomalies
                .note(Kind::HistoryLimit, exchange.place, note);
        }
        attach(judged, &judgements);
        enter(&mut analysis, judged, &session.exchanges);
        analysis
            .findings
            .extend(judgements.into_iter().map(|(finding, _)| finding));
    }
    // What is not judged belongs to the session of the side that is.
    for (number, root) in grouping.inner_of.iter().enumerate() {
        let reference =
            root.and_then(|root| analysis.session_of.get(root as usize).copied().flatten());
        if let Some(reference) = reference {
            analysis.session_of[number] = Some(SessionRef {
                segment: None,
                ..reference
            });
        }
    }
    for legacy in &grouping.legacy {
        let first = analysis.segments.len();
        analysis
            .segments
            .extend(audit::list_segments(legacy, &exchanges));
        for index in first..analysis.segments.len() {
            let exchange = analysis.segments[index].exchange as usize;
            if let Some(slot) = analysis.session_of.get_mut(exchange) {
                *slot = Some(SessionRef {
                    session: None,
                    segment: u32::try_from(index).ok(),
                });
            }
        }
    }
    order(&mut analysis, &exchanges);
    analysis.resumes = audit::resumes_in_order(judged);
    analysis.findings.sort_by(|a, b| {
        (a.time, Reverse(a.severity), &a.session_id, a.resume, a.code).cmp(&(
            b.time,
            Reverse(b.severity),
            &b.session_id,
            b.resume,
            b.code,
        ))
    });
    analysis.exchanges = exchanges;
    count_inputs(&mut analysis, &grouping, &counts);
    if let Some(key) = &options.redact {
        let numbers = audit::id_numbers(&grouping, &analysis.exchanges, &servers);
        redact(&mut analysis, Redactor::new(key, &|id| numbers.cut(id)));
    }
    analysis
}

pub(super) fn is_wanted(exchange: &Exchange, options: &Options) -> bool {
    if options.servers.is_empty() {
        return true;
    }
    options.servers.iter().any(|(host, port)| {
        let named = exchange.request.as_ref().is_some_and(|request| {
            let name = request
                .host
                .rsplit_once(':')
                .map_or(&*request.host, |(name, _)| name);
            name.eq_ignore_ascii_case(host)
        });
        exchange.server.as_ref().is_some_and(|server| {
            (named || server.host().eq_ignore_ascii_case(host))
                && port.is_none_or(|port| server.port() == port)
        })
    })
}

/// `--all-sse`: any event stream of one client and URL is a session of its own.
pub(super) fn name_session(exchange: &mut Exchange) {
    if let Some(name) = made_name(exchange)
        && let Some(request) = exchange.request.as_mut()
    {
        request.session_id = Some(name);
    }
}

/// The name that `--all-sse` gives to the session of an exchange.
pub(super) fn made_name(exchange: &Exchange) -> Option<SessionId> {
    let stream = exchange.is_event_stream() || exchange.cursor().is_some();
    let client = exchange
        .client
        .as_ref()
        .map_or_else(String::new, Endpoint::host);
    let request = exchange.request.as_ref()?;
    if !stream || request.session_id.is_some() || &*request.method != "GET" {
        return None;
    }
    let name = format!(
        "{client} {}://{}{}",
        request.scheme.name(),
        request.host,
        request.target
    );
    Some(SessionId::from(name))
}

/// Sorts by time and place, what has both in the order in which it came. Keys are sorted in place of exchanges, which
/// are large: each of those moves once, and takes no other room.
pub(super) fn sort(exchanges: &mut [Exchange]) {
    let order = order_of(exchanges);
    bring(exchanges, order);
}

/// The exchanges in their order, by index.
pub(super) fn order_of(exchanges: &[Exchange]) -> Vec<usize> {
    let mut keys: Vec<(Timestamp, Place, Timestamp, usize)> = exchanges
        .par_iter()
        .enumerate()
        .map(|(index, exchange)| (exchange.time(), exchange.place, exchange.end.time, index))
        .collect();
    keys.par_sort_unstable();
    keys.into_iter().map(|(.., index)| index).collect()
}

/// Connections by the order of their first exchange.
fn number_connections(exchanges: &mut [Exchange]) {
    let mut numbers: BTreeMap<(InputId, Option<u32>), u32> = BTreeMap::new();
    for exchange in exchanges {
        if exchange.connection.is_none() {
            continue;
        }
        let key = |place: &Place| (place.input, place.tcp_stream);
        let known = std::iter::once(&exchange.place)
            .chain(&exchange.more_places)
            .find_map(|place| numbers.get(&key(place)).copied());
        let number = known.unwrap_or_else(|| u32::try_from(numbers.len()).unwrap_or(u32::MAX));
        for place in std::iter::once(&exchange.place).chain(&exchange.more_places) {
            numbers.entry(key(place)).or_insert(number);
        }
        exchange.connection = Some(ConnectionId(number));
    }
}

/// Codes of findings, on the resumes and incarnations they belong to, worst first.
fn attach(judged: &mut audit::Judged, judgements: &[(Finding, Vec<u32>)]) {
    let mut worst: Vec<(Reverse<Severity>, &Finding, &[u32])> = judgements
        .iter()
        .map(|(finding, resumes)| (Reverse(finding.severity), finding, resumes.as_slice()))
        .collect();
    worst.sort_by_key(|(severity, finding, _)| (*severity, finding.code));
    for (_, finding, resumes) in worst {
        for &number in resumes {
            let index = (number as usize).wrapping_sub(1);
            if let Some(resume) = judged.case.resumes.get_mut(index)
                && !resume.row.findings.contains(&finding.code)
            {
                resume.row.findings.push(finding.code);
            }
        }
        let index = (finding.incarnation.max(1) as usize) - 1;
        if let Some(row) = judged.rows.get_mut(index)
            && !row.findings.contains(&finding.code)
        {
            row.findings.push(finding.code);
        }
    }
}

/// Takes over the rows of a session.
fn enter(analysis: &mut Analysis, judged: &mut audit::Judged, members: &[u32]) {
    let first_row = u32::try_from(analysis.sessions.len()).unwrap_or(u32::MAX);
    for &number in members {
        if let Some(slot) = analysis.session_of.get_mut(number as usize) {
            *slot = Some(SessionRef {
                session: Some(first_row),
                segment: None,
            });
        }
    }
    for row in std::mem::take(&mut judged.segments) {
        let segment = u32::try_from(analysis.segments.len()).ok();
        if let Some(slot) = analysis.session_of.get_mut(row.exchange as usize) {
            *slot = Some(SessionRef {
                session: Some(first_row + row.incarnation.max(1) - 1),
                segment,
            });
        }
        analysis.segments.push(row);
    }
    analysis.sessions.append(&mut judged.rows);
}

/// Sessions by first time, segments by opening; references follow.
fn order(analysis: &mut Analysis, exchanges: &[Exchange]) {
    let mut sessions: Vec<usize> = (0..analysis.sessions.len()).collect();
    sessions.sort_by_key(|&index| {
        let row = &analysis.sessions[index];
        (
            row.first_time,
            row.session_id.clone(),
            row.service.clone(),
            row.incarnation,
        )
    });
    let mut segments: Vec<usize> = (0..analysis.segments.len()).collect();
    segments.sort_by_key(|&index| {
        let exchange = analysis.segments[index].exchange;
        (
            exchanges.get(exchange as usize).map(Exchange::time),
            exchange,
        )
    });
    let place_of = |order: &[usize]| -> Vec<u32> {
        let mut places = vec![0; order.len()];
        for (place, &index) in order.iter().enumerate() {
            places[index] = u32::try_from(place).unwrap_or(u32::MAX);
        }
        places
    };
    let (session_place, segment_place) = (place_of(&sessions), place_of(&segments));
    for reference in analysis.session_of.iter_mut().flatten() {
        let follow =
            |number: u32, places: &[u32]| places.get(number as usize).copied().unwrap_or(number);
        reference.session = reference
            .session
            .map(|number| follow(number, &session_place));
        reference.segment = reference
            .segment
            .map(|number| follow(number, &segment_place));
    }
    bring(&mut analysis.sessions, sessions);
    bring(&mut analysis.segments, segments);
}

/// Brings to each place what stands where `from` says for it.
pub(super) fn bring<T>(all: &mut [T], mut from: Vec<usize>) {
    for first in 0..from.len() {
        let mut at = first;
        while let Some(slot) = from.get_mut(at) {
            let next = std::mem::replace(slot, at);
            if next == first {
                break;
            }
            all.swap(at, next);
            at = next;
        }
    }
}

fn count_inputs(analysis: &mut Analysis, grouping: &Grouping, counts: &BTreeMap<InputId, Counts>) {
    let mut sets: BTreeMap<InputId, [BTreeSet<u32>; 3]> = BTreeMap::new();
    let mut events: BTreeMap<InputId, u64> = BTreeMap::new();
    for (exchange, role) in analysis.exchanges.iter().zip(&grouping.role_of) {
        let input = exchange.place.input;
        let [sessions, legacy, refused] = sets.entry(input).or_default();
        match role {
            Role::Session(number) => sessions.insert(*number),
            Role::Legacy(number) => legacy.insert(*number),
            Role::Refused(number) => refused.insert(*number),
            Role::Sessionless | Role::Other => false,
        };
        for event in &exchange.events {
            *events.entry(event.input).or_default() += 1;
        }
        if let Some(row) = analysis.inputs.get_mut(input.0 as usize) {
            row.http_exchanges += 1;
            row.sessionless += u64::from(*role == Role::Sessionless);
        }
    }
    // A resume answered under another id is the exchange of one session and the segment of another.
    for (number, session) in (0..).zip(&grouping.sessions) {
        let segments = session.segments.iter().map(|segment| segment.exchange);
        for exchange in segments.filter_map(|index| analysis.exchanges.get(index as usize)) {
            let [sessions, ..] = sets.entry(exchange.place.input).or_default();
            sessions.insert(number);
        }
    }
    for resume in &analysis.resumes {
        if let Some(row) = analysis.inputs.get_mut(resume.place.input.0 as usize) {
            row.resumes += 1;
        }
    }
    for (index, row) in analysis.inputs.iter_mut().enumerate() {
        let input = InputId(u32::try_from(index).unwrap_or(u32::MAX));
        if let Some([sessions, legacy, refused]) = sets.get(&input) {
            row.sessions = count(sessions.len());
            row.legacy_sessions = count(legacy.len());
            row.refused_ids = count(refused.len());
        }
        row.sse_events = events.get(&input).copied().unwrap_or(0);
        if let Some(counts) = counts.get(&input) {
            row.tcp_connections = counts.tcp_connections;
            row.tls_opaque = counts.tls_opaque;
            row.http2_opaque = counts.http2_opaque;
            row.tls.clone_from(&counts.tls);
            row.holes = counts.holes;
            row.hole_bytes = counts.hole_bytes;
        }
    }
}

fn count(number: usize) -> u64 {
    number as u64
}
