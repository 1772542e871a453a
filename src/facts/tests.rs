//! Whole tables: what is written is read, and what is damaged and sealed again ends nothing.
#![allow(clippy::indexing_slicing, reason = "a test that panics has failed")]

use super::{
    Facts, Whole, join,
    read::{Table, read},
    seal::{OPEN, SEAL_KEY, seal},
    write,
};
use crate::{
    anomaly::Kind,
    limits::Limits,
    model::{
        analysis::{Input, Opaque, OpaqueProtocol, UnreadTls, WhyUnread},
        event::{BatchedAnswer, Event, Events, Text},
        exchange::{BackendName, Exchange, Hole, Part, Request, Response, Teller},
        flow::{Blank, Endpoint},
        har::HarFacts,
        message::{Message, Particulars, PayloadHash},
        place::Place,
        prose::{foreign, prose},
        time::{Span, Timestamp},
    },
};
use parquet::file::reader::{FileReader, SerializedFileReader};
use std::{
    fs,
    io::Write,
    net::SocketAddr,
    panic::{AssertUnwindSafe, catch_unwind},
};
use thin_vec::{ThinVec, thin_vec};

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_nanos(0).plus(Span::from_secs(seconds))
}

fn exchange(number: u32) -> Exchange {
    let message = Message {
        id: Some(format!("{number}").into()),
        method: Some("tools/call".into()),
        hash: PayloadHash(u128::from(number) << 90),
        particulars: Some(Box::new(Particulars {
            error_code: Some(-32_600),
            ..Particulars::default()
        })),
        ..Message::default()
    };
    let place = Place {
        frame: number,
        tcp_stream: Some(number / 3),
        ..Place::default()
    };
    let end = |port| Endpoint::Address(SocketAddr::from(([10, 0, 0, 9], port)));
    Exchange {
        client: Some(end(4000)),
        server: Some(Endpoint::Name("mcp.example".into(), 443)),
        place,
        more_places: thin_vec![place],
        request: Some(Request {
            time: at(i64::from(number)),
            method: "GET".into(),
            target: "/mcp".into(),
            session_id: Some(format!("session-{}", number % 5).as_str().into()),
            last_event_id: Some("key_7".into()),
            messages: thin_vec![message.clone(), Message::default()],
            trace: Some(PayloadHash(9)),
            ..Request::default()
        }),
        response: (!number.is_multiple_of(4)).then(|| Response {
            status: 200,
            messages: thin_vec![message],
            named: thin_vec![BackendName {
                teller: Teller::Asked(1),
                name: "pod".into(),
            }],
            ..Response::default()
        }),
        events: (0..number % 7)
            .map(|index| Event {
                time: at(i64::from(number + index)),
                hash: PayloadHash(u128::from(index)),
                id: Some(Text { start: 0, len: 5 }),
                method: (index > 2).then_some(Text { start: 0, len: 3 }),
                retry: Some(index),
                ..Event::default()
            })
            .collect(),
        batched: (number % 7 > 1)
            .then_some(BatchedAnswer {
                event: 1,
                rpc_id: Text { start: 4, len: 1 },
                hash: PayloadHash(3),
            })
            .into_iter()
            .collect(),
        text: "key_7".to_owned(),
        holes: thin_vec![Hole {
            part: Part::ResponseBody,
            bytes: 9,
            time: at(2),
            after_events: 1,
        }],
        endpoint: Some("/messages".into()),
        ..Exchange::default()
    }
}

/// Facts with something in every column.
fn facts() -> Facts {
    let mut facts = Facts {
        settings: "--all-sse".to_owned(),
        exchanges: (0..60).map(exchange).collect(),
        opaque: vec![Opaque {
            protocol: OpaqueProtocol::Quic,
            server: None,
            count: 3,
        }],
        ..Facts::default()
    };
    facts.sessions = facts
        .exchanges
        .iter()
        .map(|exchange| exchange.asked_session().cloned())
        .collect();
    let mut input = Input {
        name: "a.pcap".to_owned(),
        link_types: vec!["ETHERNET".to_owned()],
        har: Some(HarFacts {
            creators: vec!["a tool".to_owned()],
            ..HarFacts::default()
        }),
        damaged: prose!("cut after {} bytes of {}", 9_u64, foreign("x")),
        unreadable: Some("gone".into()),
        ..Input::default()
    };
    input.tls.unread.push(UnreadTls {
        place: Place::default(),
        why: WhyUnread::OneSide,
    });
    facts.inputs = vec![input];
    facts
        .anomalies
        .note(Kind::Hole, Place::default(), || prose!("{} bytes", 7_u64));
    let server = SocketAddr::from(([10, 0, 0, 9], 443));
    facts.servers.refused.note(server, at(1), 9);
    facts.servers.torn.note(server, (at(1), at(2)), 9);
    let blank = Blank {
        client: server.ip(),
        server,
        from: at(1),
        until: at(2),
    };
    facts.servers.blanks.note(blank, 9);
    facts
}

fn read_bytes(bytes: &[u8]) -> Result<Table, String> {
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), bytes).unwrap();
    read(file.path(), &Limits::default()).map_err(|error| error.to_string())
}

#[test]
fn what_is_written_is_read() {
    let facts = facts();
    let files = write(&facts).unwrap();
    let tables = files.iter().map(|file| read_bytes(&file.bytes).unwrap());
    let joined = join(tables.enumerate(), "--all-sse", Whole::Yes);
    assert!(joined.wrong.is_empty(), "{:?}", joined.wrong);
    let again = &joined.facts[0];
    let texts = |facts: &Facts| -> Vec<String> {
        let all = facts.exchanges.iter();
        all.map(|exchange| {
            let events: Vec<String> = exchange
                .events
                .iter()
                .map(|event| {
                    let text = |text: Option<Text>| text.map(|text| exchange.text(text));
                    let (id, method) = (text(event.id), text(event.method));
                    let bare = Event {
                        id: None,
                        method: None,
                        ..event
                    };
                    format!("{id:?} {method:?} {bare:?}")
                })
                .collect();
            let answers: Vec<(&str, PayloadHash)> = (0..)
                .zip(&exchange.events)
                .flat_map(|(index, event)| exchange.answers_in(index, event))
                .collect();
            let bare = Exchange {
                events: Events::default(),
                batched: ThinVec::new(),
                text: String::new(),
                ..exchange.clone()
            };
            format!("{bare:?} {events:?} {answers:?}")
        })
        .collect()
    };
    assert_eq!(texts(&facts), texts(again));
    assert_eq!(format!("{:?}", facts.inputs), format!("{:?}", again.inputs));
    assert_eq!(facts.servers, again.servers);
    assert_eq!(facts.opaque, again.opaque);
    assert_eq!(
        format!("{:?}", facts.anomalies),
        format!("{:?}", again.anomalies)
    );
}

/// What a row of a list takes is told by the length of its page: there is no dictionary that it could say long texts by.
#[test]
fn lists_have_no_dictionaries() {
    let mut lists = 0;
    for file in write(&facts()).unwrap() {
        let mut stored = tempfile::tempfile().unwrap();
        stored.write_all(&file.bytes).unwrap();
        let reader = SerializedFileReader::new(stored).unwrap();
        for column in reader.metadata().row_group(0).columns() {
            if column.column_descr().max_rep_level() > 0 {
                lists += 1;
                assert!(
                    column.dictionary_page_offset().is_none(),
                    "{}",
                    column.column_path()
                );
            }
        }
    }
    assert!(lists > 60, "{lists}");
}

/// What nobody but an attacker makes: damage under a seal that holds. The decoder of Parquet may panic, which costs the
/// file; nothing else may.
#[test]
fn damage_under_a_seal_ends_nothing() {
    let mut state = 11_u64;
    let mut random = |below: usize| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(state >> 33).unwrap() % below
    };
    let (mut refused, mut panicked, mut wrong) = (0, 0, 0);
    let files = write(&facts()).unwrap();
    for file in &files {
        for _ in 0..400 {
            let mut bytes = file.bytes.clone();
            for _ in 0..=random(3) {
                let at = random(bytes.len());
                bytes[at] ^= 1 << random(8);
            }
            let place = memchr::memmem::rfind(&bytes, SEAL_KEY.as_bytes())
                .map(|at| at + SEAL_KEY.len() + 2);
            if let Some(value) = place.and_then(|at| bytes.get_mut(at..at + OPEN.len())) {
                value.copy_from_slice(OPEN.as_bytes());
            }
            seal(&mut bytes);
            let read = catch_unwind(AssertUnwindSafe(|| read_bytes(&bytes)));
            match read {
                Err(_) => panicked += 1,
                Ok(Err(_)) => refused += 1,
                Ok(Ok(table)) => {
                    let joined = join([(0, table)], "--all-sse", Whole::Yes);
                    wrong += usize::from(!joined.wrong.is_empty());
                }
            }
        }
    }
    let all = [refused, wrong, panicked];
    assert!(refused > 500 && wrong > 500 && panicked < 100, "{all:?}");
}
