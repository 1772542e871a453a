//! TLS and HTTP/2 as nginx, curl, openssl, rustls and the SDKs spoke them: byte by byte and exchange by exchange as
//! Wireshark's own engine reads them, and as nginx's clients got them.

use crate::tls::{capture_paths, read_with, root};
use forkscope::{
    anomaly::Kind,
    model::{
        analysis::Analysis,
        exchange::{EndCause, Exchange, HttpVersion},
        flow::Side,
        place::InputId,
        verdict::{Severity, Verdict},
    },
    pipeline::{Options, Progress, run},
};
use std::{
    collections::BTreeMap,
    fmt::Write as _,
    fs,
    net::{Ipv4Addr, SocketAddr, SocketAddrV4},
    path::PathBuf,
    process::Command,
};

/// What a client got of nginx (`NAME.exchanges`) is what is read, and all that it resumed went on.
#[test]
fn what_clients_of_nginx_got_is_read() {
    let mut compared = 0;
    let mut bad = String::new();
    for subject in subjects() {
        let told = subject.path.with_extension("exchanges");
        let Ok(told) = fs::read_to_string(told) else {
            continue;
        };
        let analysis = subject.audit();
        let ours = ours(&analysis);
        let told: Vec<Vec<&str>> = told
            .lines()
            .map(|line| line.split('\t').collect())
            .collect();
        assert_eq!(ours.len(), told.len(), "{}: {ours:?}", subject.name);
        for (one, told) in ours.iter().zip(told) {
            compared += 1;
            let text = [
                one.stream.to_string(),
                one.method.clone(),
                one.path.clone(),
                one.status.to_string(),
                one.request_bytes.to_string(),
            ];
            let least = told[5].strip_suffix('+');
            let bytes: u64 = least.unwrap_or(told[5]).parse().unwrap();
            let enough = match least {
                // It hung up, and what was on its way may be on the wire.
                Some(_) => one.response_bytes >= bytes && !one.whole,
                None => one.response_bytes == bytes && one.whole,
            };
            let version = if subject.name.contains("-h2-") {
                HttpVersion::Http2
            } else {
                HttpVersion::Http11
            };
            if text[..] != told[..5] || !enough || one.version != version {
                let _ = writeln!(bad, "{}: {one:?}, the client had {told:?}", subject.name);
            }
        }
        let odd = [
            Kind::OpaqueTls,
            Kind::WrongTlsKeys,
            Kind::PartialTlsKeys,
            Kind::BadTlsRecord,
            Kind::BadFrame,
            Kind::UnknownHeaders,
            Kind::UndecodableBody,
            Kind::Hole,
        ];
        for kind in odd {
            let count = analysis.anomalies.count(InputId(0), kind);
            assert_eq!(count, 0, "{}: {}", subject.name, kind.name());
        }
        let resumes = analysis.resumes.iter().map(|resume| resume.verdict);
        let resumes: Vec<Verdict> = resumes.collect();
        assert!(!resumes.is_empty(), "{}", subject.name);
        assert!(
            resumes.iter().all(|verdict| *verdict == Verdict::Continued),
            "{}: {resumes:?}",
            subject.name
        );
        let accused = analysis
            .findings
            .iter()
            .find(|f| f.severity > Severity::Info);
        assert!(accused.is_none(), "{}: {accused:?}", subject.name);
    }
    assert!(compared > 100, "only {compared} exchanges");
    assert!(bad.is_empty(), "\n{bad}");
}

/// Both directions of every connection of TLS, byte by byte.
#[test]
fn wireshark_opens_the_same() {
    if lacks_tshark() {
        return;
    }
    let mut bad = String::new();
    let mut compared = 0;
    for subject in subjects().iter().filter(|subject| subject.tls) {
        let name = &subject.name;
        let bytes = fs::read(&subject.path).unwrap();
        let keys = subject.keys.as_ref().map(|keys| fs::read(keys).unwrap());
        let read = read_with(&bytes, &keys.unwrap_or_default(), &|_| true);
        let theirs = subject.follow(read.len());
        for (index, (connection, theirs)) in read.iter().zip(theirs).enumerate() {
            for side in [Side::A, Side::B] {
                let own = connection.whole(side).unwrap_or_default();
                let end = connection.ends[side.index()];
                let want = said_by(&theirs, end);
                let same = if takes_no_early_data(name) {
                    // It shows early data that the server did not take.
                    want.ends_with(&own) && !own.is_empty()
                } else {
                    want == own
                };
                if !same {
                    let _ = writeln!(
                        bad,
                        "{name}, stream {index}, of {end}: {} bytes, tshark has {}",
                        own.len(),
                        want.len()
                    );
                }
                compared += own.len();
            }
        }
    }
    assert!(bad.is_empty(), "\n{bad}");
    assert!(compared > 100_000, "only {compared} bytes");
}

/// Every exchange in HTTP/1.1 and HTTP/2, over TLS and without.
#[test]
fn exchanges_are_those_that_tshark_sees() {
    if lacks_tshark() {
        return;
    }
    let mut bad = String::new();
    let (mut compared, mut told, mut in_http2) = (0, 0, 0);
    for subject in subjects() {
        let ours = ours(&subject.audit());
        let mut theirs = subject.exchanges();
        let name = &subject.name;
        if takes_no_early_data(name) {
            // It shows what was asked in early data, and that it was asked again. Both are alike.
            let mut left: BTreeMap<u32, usize> = BTreeMap::new();
            for one in &ours {
                *left.entry(one.stream).or_default() += 1;
            }
            theirs.retain(|one| {
                let left = left.entry(one.stream).or_default();
                *left = left.wrapping_sub(1);
                *left != usize::MAX
            });
        }
        if ours.len() != theirs.len() {
            let _ = writeln!(
                bad,
                "{name}: {} exchanges, tshark has {}",
                ours.len(),
                theirs.len()
            );
        }
        for (own, their) in ours.iter().zip(&theirs) {
            compared += 1;
            in_http2 += usize::from(own.version == HttpVersion::Http2);
            let asked = (own.stream, &own.method, &own.path, own.request_bytes);
            let want = (
                their.stream,
                &their.method,
                &their.path,
                their.request_bytes,
            );
            told += usize::from(their.response_bytes.is_some());
            let told = their.response_bytes.unwrap_or(own.response_bytes);
            // A head of an answer that was cut it may not show either; what clients got tells of those.
            let status = their.status.or((!own.whole).then_some(own.status));
            if asked != want || (Some(own.status), own.response_bytes) != (status, told) {
                let _ = writeln!(bad, "{name}: {own:?}, tshark has {their:?}");
            }
        }
    }
    assert!(bad.is_empty(), "\n{bad}");
    assert!(
        compared > 250 && told > 200 && in_http2 > 80,
        "{compared} compared, {told} with all of the answer, {in_http2} in HTTP/2"
    );
}

/// What tshark has of one end. It names who spoke first, and not the other.
fn said_by(theirs: &BTreeMap<SocketAddr, Vec<u8>>, end: SocketAddr) -> &[u8] {
    let said = theirs.get(&end);
    said.or_else(|| theirs.get(&UNNAMED))
        .map_or(&[], Vec::as_slice)
}

const UNNAMED: SocketAddr = SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0));

/// A capture that Wireshark can read as well.
struct Subject {
    name: String,
    path: PathBuf,
    /// Its key log, where it is not in the capture.
    keys: Option<PathBuf>,
    tls: bool,
    /// A port of HTTP/2 without TLS, which Wireshark has to be told.
    http2: Option<u16>,
}

/// All of fixtures/tls, and what is TLS or HTTP/2 in fixtures/real.
///
/// `FORKSCOPE_CAPTURES=folder` compares captures with secrets (pcapng) of one's own as well.
fn subjects() -> Vec<Subject> {
    let of = |path: PathBuf| Subject {
        name: path.file_stem().unwrap().to_string_lossy().into_owned(),
        path,
        keys: None,
        tls: true,
        http2: None,
    };
    let real = |name: &str| of(root().join("fixtures/real").join(name));
    let mut all: Vec<Subject> = capture_paths().into_iter().map(of).collect();
    for name in ["ts13_tls13", "ts14_h2"] {
        all.push(real(&format!("{name}_dsb.pcapng")));
        let keys = root().join(format!("fixtures/real/{name}.keys"));
        all.push(Subject {
            keys: Some(keys),
            ..real(&format!("{name}.pcap"))
        });
    }
    for (name, port) in [("h2c01_http2.pcap", 18272), ("ts14_h2c.pcap", 4168)] {
        all.push(Subject {
            tls: false,
            http2: Some(port),
            ..real(name)
        });
    }
    if let Some(folder) = std::env::var_os("FORKSCOPE_CAPTURES") {
        let own = fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().path());
        let own = own.filter(|path| path.extension().is_some_and(|end| end == "pcapng"));
        all.extend(own.map(of));
    }
    all
}

/// What is read of an exchange; bodies as they are on the wire, without framing.
#[derive(Debug)]
struct Ours {
    stream: u32,
    method: String,
    path: String,
    status: u16,
    request_bytes: u64,
    response_bytes: u64,
    /// The answer ended as it should.
    whole: bool,
    version: HttpVersion,
}

/// By connection, in the order of requests.
fn ours(analysis: &Analysis) -> Vec<Ours> {
    let mut exchanges: Vec<&Exchange> = analysis.exchanges.iter().collect();
    exchanges.sort_by_key(|exchange| (exchange.place.tcp_stream, exchange.time()));
    exchanges
        .iter()
        .map(|exchange| {
            let request = exchange.request.as_ref().unwrap();
            Ours {
                stream: exchange.place.tcp_stream.unwrap(),
                method: request.method.to_string(),
                path: request.target.to_string(),
                status: exchange.status().unwrap_or_default(),
                request_bytes: request.body_bytes,
                response_bytes: exchange.response.as_ref().map_or(0, |r| r.body_bytes),
                whole: exchange.end.cause == EndCause::StreamEnd,
                version: exchange.version,
            }
        })
        .collect()
}

/// What tshark says of an exchange.
#[derive(Debug, Default)]
struct Theirs {
    stream: u32,
    method: String,
    path: String,
    status: Option<u16>,
    request_bytes: u64,
    /// In HTTP/1.1 it puts a body together when all of it is there: not one that ends with its connection of TLS, nor
    /// one that was cut.
    response_bytes: Option<u64>,
}

impl Subject {
    fn audit(&self) -> Analysis {
        let options = Options {
            inputs: vec![self.path.to_str().unwrap().to_owned()],
            key_logs: self.keys.iter().cloned().collect(),
            ..Options::default()
        };
        run(&options, &Progress::default()).unwrap()
    }

    fn tshark(&self) -> Command {
        let mut command = Command::new("tshark");
        command.arg("-n").arg("-r").arg(&self.path);
        if let Some(keys) = &self.keys {
            command
                .arg("-o")
                .arg(format!("tls.keylog_file:{}", keys.display()));
        }
        if let Some(port) = self.http2 {
            command.args(["-d", &format!("tcp.port=={port},http2")]);
        }
        command
    }

    /// Both directions of each connection, by who said it.
    fn follow(&self, connections: usize) -> Vec<BTreeMap<SocketAddr, Vec<u8>>> {
        let mut command = self.tshark();
        command.arg("-q");
        for number in 0..connections {
            command.args(["-z", &format!("follow,tls,raw,{number}")]);
        }
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", self.name);
        let text = String::from_utf8(output.stdout).unwrap();
        let mut all = vec![BTreeMap::new(); connections];
        // They come in whatever order.
        let mut current = None;
        let mut speaker: Option<SocketAddr> = None;
        for line in text.lines() {
            if let Some(number) = line.strip_prefix("Filter: tcp.stream eq ") {
                current = Some(number.parse::<usize>().unwrap());
            } else if let Some(address) = line.strip_prefix("Node 0: ") {
                // None when nothing was said.
                speaker = address.parse().ok();
            } else if let (Some(number), Some(first)) = (current, speaker)
                && line
                    .trim_start()
                    .chars()
                    .all(|digit| digit.is_ascii_hexdigit())
            {
                let said: &mut BTreeMap<SocketAddr, Vec<u8>> = &mut all[number];
                let who = if line.starts_with('\t') {
                    UNNAMED
                } else {
                    first
                };
                let digits = line.trim();
                let bytes = (0..digits.len() / 2)
                    .map(|i| u8::from_str_radix(&digits[2 * i..2 * i + 2], 16).unwrap());
                said.entry(who).or_default().extend(bytes);
            }
        }
        all
    }

    /// The statuses of answers in HTTP/1.1 beyond those that were told with their bodies.
    fn statuses(&self, told: &BTreeMap<u32, Vec<Theirs>>) -> Vec<(u32, u16)> {
        if told.values().flatten().all(|one| one.status.is_some()) {
            return Vec::new();
        }
        let output = self
            .tshark()
            .args(["-o", "http.desegment_body:FALSE"])
            .args(["-Y", "http.response.code", "-T", "fields"])
            .args(["-e", "tcp.stream", "-e", "http.response.code"])
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", self.name);
        let mut seen: BTreeMap<u32, usize> = BTreeMap::new();
        let mut more = Vec::new();
        for line in String::from_utf8(output.stdout).unwrap().lines() {
            let (stream, statuses) = line.split_once('\t').unwrap();
            let stream = stream.parse().unwrap();
            let known = told.get(&stream).into_iter().flatten();
            let known = known.filter(|one| one.status.is_some()).count();
            for status in statuses.split(',') {
                let seen = seen.entry(stream).or_default();
                *seen += 1;
                if *seen > known {
                    more.push((stream, status.parse().unwrap()));
                }
            }
        }
        more
    }

    /// By connection, in the order of requests.
    fn exchanges(&self) -> Vec<Theirs> {
        let fields = [
            "tcp.stream",
            "tcp.srcport",
            "http2.type",
            "http2.streamid",
            "http2.length",
            "http2.headers.method",
            "http2.headers.path",
            "http2.headers.status",
            "http.request.method",
            "http.request.uri",
            "http.response.code",
            "http.content_length",
            "http.chunk_size",
        ];
        let output = self
            .tshark()
            .args(["-o", "http.decompress_body:FALSE"])
            .args(["-Y", "http || http2", "-T", "fields"])
            .args(fields.iter().flat_map(|field| ["-e", field]))
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", self.name);
        let mut http1: BTreeMap<u32, Vec<Theirs>> = BTreeMap::new();
        let mut http2: BTreeMap<(u32, u32), Theirs> = BTreeMap::new();
        let mut servers: BTreeMap<u32, u16> = BTreeMap::new();
        for line in String::from_utf8(output.stdout).unwrap().lines() {
            let columns: Vec<Vec<&str>> = line
                .split('\t')
                .map(|column| {
                    column
                        .split(',')
                        .filter(|value| !value.is_empty())
                        .collect()
                })
                .collect();
            let stream: u32 = columns[0][0].parse().unwrap();
            let sender: u16 = columns[1][0].parse().unwrap();
            let bytes = || -> u64 {
                let sizes = match columns[11].as_slice() {
                    [] => &columns[12],
                    _ => &columns[11],
                };
                sizes.iter().map(|size| size.parse::<u64>().unwrap()).sum()
            };
            assert!(
                columns[8].len() + columns[10].len() <= 1,
                "which is whose? {line}"
            );
            if let [method] = columns[8][..] {
                http1.entry(stream).or_default().push(Theirs {
                    stream,
                    method: method.to_owned(),
                    path: columns[9][0].to_owned(),
                    request_bytes: bytes(),
                    ..Theirs::default()
                });
            }
            if let [status] = columns[10][..] {
                let mut open = http1.entry(stream).or_default().iter_mut();
                let open = open.find(|one| one.status.is_none()).unwrap();
                open.status = Some(status.parse().unwrap());
                open.response_bytes = Some(bytes());
            }
            let frames = columns[2].iter().zip(&columns[3]).zip(&columns[4]);
            let heads = frames
                .clone()
                .filter(|((kind, _), _)| **kind == "1")
                .count();
            let by_whom = [columns[7].len(), columns[5].len()];
            assert!(
                by_whom == [heads, 0] || by_whom == [0, heads],
                "which head is whose? {line}"
            );
            let mut head = 0;
            for ((kind, number), length) in frames {
                let one = http2.entry((stream, number.parse().unwrap()));
                match *kind {
                    "0" => {
                        let one = one.or_default();
                        let by_server = servers.get(&stream) == Some(&sender);
                        let length: u64 = length.parse().unwrap();
                        if by_server {
                            *one.response_bytes.get_or_insert(0) += length;
                        } else {
                            one.request_bytes += length;
                        }
                    }
                    "1" => {
                        let one = one.or_default();
                        one.stream = stream;
                        one.response_bytes.get_or_insert(0);
                        if let Some(status) = columns[7].get(head) {
                            servers.insert(stream, sender);
                            one.status = Some(status.parse().unwrap());
                        } else {
                            one.method = columns[5][head].to_owned();
                            one.path = columns[6][head].to_owned();
                        }
                        head += 1;
                    }
                    _ => {}
                }
            }
        }
        for (stream, status) in self.statuses(&http1) {
            let mut open = http1.entry(stream).or_default().iter_mut();
            if let Some(open) = open.find(|one| one.status.is_none()) {
                open.status = Some(status);
            }
        }
        let mut all: Vec<Theirs> = http1.into_values().flatten().collect();
        all.extend(http2.into_values());
        // Streams of HTTP/2 count up as requests come; a sort that keeps their order.
        all.sort_by_key(|one| one.stream);
        all
    }
}

fn takes_no_early_data(name: &str) -> bool {
    name.contains("early-data") && (name.contains("rejected") || name.contains("retry"))
}

fn lacks_tshark() -> bool {
    let lacks = Command::new("tshark").arg("--version").output().is_err();
    assert!(
        !lacks || std::env::var_os("CI").is_none(),
        "tshark is missing, and with it the checks of TLS and HTTP/2"
    );
    lacks
}
