//! Makes the captures `rustls-*` of fixtures/tls: rustls as client and server on real sockets, captured by dumpcap.
//!
//!     FORKSCOPE_TLS_OUT=fixtures/tls cargo test --test suite -- --ignored sockets::
//!
//! Wants dumpcap, editcap and curl, and may capture on lo (root). Ports are whatever the system gives: Wireshark takes
//! some for those of other protocols, and then sees no TLS on them (suite/wireshark.rs tells), and another run is needed.

use crate::talk::tls::{Log, client_config, server_config};
use rustls::{
    ClientConfig, ClientConnection, ServerConfig, ServerConnection, StreamOwned,
    SupportedProtocolVersion,
    crypto::{CryptoProvider, SupportedKxGroup, ring},
    pki_types::ServerName,
    version::{TLS12, TLS13},
};
use std::{
    fs,
    io::{ErrorKind, Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::Arc,
    thread,
    time::Duration,
};

type Version = &'static SupportedProtocolVersion;

/// What a capture is of.
struct Scene {
    name: &'static str,
    version: Version,
    /// A part of the name of the one suite that is offered; empty for all.
    suite: &'static str,
    connections: usize,
    what: What,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum What {
    Plain,
    /// Both sides change their keys, twice.
    KeyUpdate,
    /// The client's first share is of a group that the server does not take.
    Retry,
    /// What the second connection resumes is in a ticket, and not at the server.
    Ticket,
    /// The second connection's first request comes in early data.
    Early,
    /// As that, and the server does not take it.
    EarlyRejected,
    /// Records are short.
    Fragments,
    /// The client is curl.
    Curl,
}

const fn scene(
    name: &'static str,
    version: Version,
    suite: &'static str,
    connections: usize,
    what: What,
) -> Scene {
    Scene {
        name,
        version,
        suite,
        connections,
        what,
    }
}

#[test]
#[ignore = "makes fixtures; wants to capture on lo"]
fn captures_of_rustls() {
    let out = PathBuf::from(std::env::var_os("FORKSCOPE_TLS_OUT").expect("FORKSCOPE_TLS_OUT"));
    let scenes = [
        scene("tls12-aes128-gcm", &TLS12, "AES_128_GCM", 1, What::Plain),
        scene("tls12-aes256-gcm", &TLS12, "AES_256_GCM", 1, What::Plain),
        scene("tls12-chacha20", &TLS12, "CHACHA20", 1, What::Plain),
        scene("tls12-resumed", &TLS12, "", 2, What::Plain),
        scene("tls12-ticket", &TLS12, "CHACHA20", 2, What::Ticket),
        scene("tls12-fragments", &TLS12, "", 1, What::Fragments),
        scene("tls12-curl", &TLS12, "", 1, What::Curl),
        scene("tls13-aes128", &TLS13, "AES_128_GCM", 1, What::Plain),
        scene("tls13-aes256", &TLS13, "AES_256_GCM", 1, What::Plain),
        scene("tls13-chacha20", &TLS13, "CHACHA20", 1, What::Plain),
        scene("tls13-key-update", &TLS13, "", 1, What::KeyUpdate),
        scene("tls13-retry", &TLS13, "", 1, What::Retry),
        scene("tls13-resumed", &TLS13, "", 2, What::Plain),
        scene("tls13-ticket", &TLS13, "AES_128_GCM", 2, What::Ticket),
        scene("tls13-early-data", &TLS13, "", 2, What::Early),
        scene(
            "tls13-early-data-rejected",
            &TLS13,
            "AES_128_GCM",
            2,
            What::EarlyRejected,
        ),
        scene("tls13-fragments", &TLS13, "", 1, What::Fragments),
        scene("tls13-curl", &TLS13, "", 1, What::Curl),
    ];
    for scene in scenes {
        make(&scene, &out);
    }
}

fn make(scene: &Scene, out: &Path) {
    let folder = tempfile::tempdir().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let raw = folder.path().join("raw.pcapng");
    let dumpcap = Dumpcap::start(address.port(), &raw);
    let log = Arc::new(Log::default());
    let (client, servers) = configs(scene, &log);
    let what = scene.what;
    let serving = thread::spawn(move || -> Vec<Pair> {
        let one = |config| {
            let (socket, _) = listener.accept().unwrap();
            serve(socket, config, what)
        };
        servers.into_iter().map(one).collect()
    });
    let sent: Vec<Option<Pair>> = (0..scene.connections)
        .map(|number| {
            if what == What::Curl {
                curl(address);
                return None;
            }
            let early = number > 0 && matches!(what, What::Early | What::EarlyRejected);
            Some(ask(address, Arc::clone(&client), what, early, number))
        })
        .collect();
    let served = serving.join().unwrap();
    dumpcap.stop();
    let name = format!("rustls-{}", scene.name);
    for (number, (sent, served)) in sent.into_iter().zip(served).enumerate() {
        if let Some(sent) = sent {
            assert_eq!(
                sent, served,
                "{name}: what one said is not what the other read"
            );
        }
        let which = if scene.connections > 1 {
            format!("{name}.{number}")
        } else {
            name.clone()
        };
        fs::write(out.join(format!("{which}.client")), served.client).unwrap();
        fs::write(out.join(format!("{which}.server")), served.server).unwrap();
    }
    let keys = folder.path().join("keys");
    fs::write(&keys, log.text()).unwrap();
    let status = Command::new("editcap")
        .arg(format!("--inject-secrets=tls,{}", keys.display()))
        .arg(&raw)
        .arg(out.join(format!("{name}.pcapng")))
        .status();
    assert!(status.unwrap().success());
}

/// What both sides said, as one of them knows it.
#[derive(Debug, Default, PartialEq, Eq)]
struct Pair {
    client: Vec<u8>,
    server: Vec<u8>,
}

/// The client's configuration, and the server's for each connection.
fn configs(scene: &Scene, log: &Arc<Log>) -> (Arc<ClientConfig>, Vec<Arc<ServerConfig>>) {
    let mut provider = ring::default_provider();
    provider.cipher_suites.retain(|suite| {
        let name = format!("{:?}", suite.suite());
        suite.version() == scene.version && name.contains(scene.suite) && !name.contains("_RSA_")
    });
    let groups = |groups: &[&'static dyn SupportedKxGroup]| -> Arc<CryptoProvider> {
        Arc::new(CryptoProvider {
            kx_groups: groups.to_vec(),
            ..provider.clone()
        })
    };
    let (x25519, p256) = (ring::kx_group::X25519, ring::kx_group::SECP256R1);
    let of_client = groups(&[x25519, p256]);
    let of_server = match scene.what {
        What::Retry => groups(&[p256]),
        _ => groups(&[x25519, p256]),
    };
    let mut client = client_config(&of_client, scene.version);
    let mut server = server_config(&of_server, scene.version);
    match scene.what {
        What::Ticket => server.ticketer = ring::Ticketer::new().unwrap(),
        What::Early | What::EarlyRejected => {
            server.max_early_data_size = 1 << 14;
            client.enable_early_data = true;
        }
        What::Fragments => {
            client.max_fragment_size = Some(100);
            server.max_fragment_size = Some(300);
        }
        What::Curl => server.key_log = Arc::clone(log) as _,
        What::Plain | What::KeyUpdate | What::Retry => {}
    }
    client.key_log = Arc::clone(log) as _;
    let mut servers = vec![Arc::new(server.clone())];
    if scene.what == What::EarlyRejected {
        // It resumes, and wants no early data any more.
        server.max_early_data_size = 0;
    }
    servers.resize(scene.connections, Arc::new(server));
    (Arc::new(client), servers)
}

const ROUNDS: usize = 3;

/// No two begin alike: where a hole ends is told by what comes after it.
fn request(connection: usize, round: usize) -> Vec<u8> {
    let params = format!(r#"{{"name":"report","arguments":{{"of":{connection}}}}}"#);
    let id = round + 1;
    let body = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{params}}}"#);
    format!(
        "POST /mcp HTTP/1.1\r\nx-number: {connection}.{round}\r\nhost: mcp.example\r\naccept: application/json, text/event-stream\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}

/// The pieces of an answer.
fn response(round: usize) -> Vec<Vec<u8>> {
    let id = round + 1;
    let head =
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
    let mut pieces = vec![head.as_bytes().to_vec()];
    for step in 1..=3 {
        let note = format!(
            r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progressToken":{id},"progress":{step}}}}}"#
        );
        pieces.push(chunk(&format!("id: {id}-{step}\ndata: {note}\n\n")));
    }
    let lines = "a line of the report\\n".repeat(20);
    let result = format!(
        r#"{{"jsonrpc":"2.0","id":{id},"result":{{"content":[{{"type":"text","text":"{lines}"}}]}}}}"#
    );
    pieces.push(chunk(&format!("id: {id}-4\ndata: {result}\n\n")));
    pieces.push(b"0\r\n\r\n".to_vec());
    pieces
}

fn chunk(text: &str) -> Vec<u8> {
    format!("{:x}\r\n{text}\r\n", text.len()).into_bytes()
}

/// The server's side of a connection.
fn serve(socket: TcpStream, config: Arc<ServerConfig>, what: What) -> Pair {
    socket.set_nodelay(true).unwrap();
    let connection = ServerConnection::new(config).unwrap();
    let mut stream = StreamOwned::new(connection, socket);
    while stream.conn.is_handshaking() {
        stream.conn.complete_io(&mut stream.sock).unwrap();
    }
    let mut said = Pair::default();
    let mut unanswered = Vec::new();
    if let Some(mut early) = stream.conn.early_data() {
        early.read_to_end(&mut unanswered).unwrap();
        said.client.extend(&unanswered);
    }
    let mut round = 0;
    loop {
        while !is_whole(&unanswered) {
            let mut buffer = [0; 4096];
            match stream.read(&mut buffer) {
                Ok(0) => {
                    assert!(unanswered.is_empty(), "a part of a request");
                    finish(&mut stream.conn, &mut stream.sock);
                    return said;
                }
                Ok(len) => {
                    unanswered.extend(&buffer[..len]);
                    said.client.extend(&buffer[..len]);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => panic!("{error}"),
            }
        }
        unanswered.clear();
        for (number, piece) in response(round).iter().enumerate() {
            if what == What::KeyUpdate && round < 2 && number == 2 {
                stream.conn.refresh_traffic_keys().unwrap();
            }
            stream.write_all(piece).unwrap();
            stream.flush().unwrap();
            said.server.extend(piece);
            thread::sleep(PAUSE);
        }
        round += 1;
    }
}

/// Whether a request is there with all of its body.
fn is_whole(bytes: &[u8]) -> bool {
    let text = String::from_utf8_lossy(bytes).to_lowercase();
    let Some((head, body)) = text.split_once("\r\n\r\n") else {
        return false;
    };
    let length = head.split("content-length: ").nth(1).unwrap();
    let length: usize = length.lines().next().unwrap().parse().unwrap();
    body.len() == length
}

/// The client's side of a connection.
fn ask(
    address: SocketAddr,
    config: Arc<ClientConfig>,
    what: What,
    early: bool,
    number: usize,
) -> Pair {
    let socket = TcpStream::connect(address).unwrap();
    socket.set_nodelay(true).unwrap();
    let name = ServerName::try_from("mcp.example").unwrap();
    let connection = ClientConnection::new(config, name).unwrap();
    let mut stream = StreamOwned::new(connection, socket);
    let mut said = Pair::default();
    let mut sent_early = false;
    if early {
        let mut writer = stream.conn.early_data().expect("early data is allowed");
        writer.write_all(&request(number, 0)).unwrap();
        sent_early = true;
    }
    for round in 0..ROUNDS {
        let request = request(number, round);
        if !std::mem::take(&mut sent_early) {
            stream.write_all(&request).unwrap();
        } else {
            while stream.conn.is_handshaking() {
                stream.conn.complete_io(&mut stream.sock).unwrap();
            }
            let taken = what == What::Early;
            assert_eq!(stream.conn.is_early_data_accepted(), taken);
            if !taken {
                stream.write_all(&request).unwrap();
            }
        }
        stream.flush().unwrap();
        said.client.extend(&request);
        let want: Vec<u8> = response(round).concat();
        let mut got = vec![0; want.len()];
        stream.read_exact(&mut got).unwrap();
        assert_eq!(got, want);
        said.server.extend(got);
        if what == What::KeyUpdate && round < 2 {
            stream.conn.refresh_traffic_keys().unwrap();
        }
    }
    let kind = stream.conn.handshake_kind();
    let resumed = kind == Some(rustls::HandshakeKind::Resumed);
    assert_eq!(resumed, number > 0, "{kind:?}");
    finish(&mut stream.conn, &mut stream.sock);
    said
}

/// Says that nothing more comes, and waits until the other does.
fn finish<Data>(connection: &mut rustls::ConnectionCommon<Data>, socket: &mut TcpStream) {
    connection.send_close_notify();
    while connection.wants_write() {
        connection.write_tls(socket).unwrap();
    }
    let _ = socket.shutdown(std::net::Shutdown::Write);
    while matches!(connection.read_tls(socket), Ok(len) if len > 0) {
        connection.process_new_packets().unwrap();
    }
}

/// curl asks three times on one connection.
fn curl(address: SocketAddr) {
    let mut command = Command::new("curl");
    for round in 0..ROUNDS {
        let url = format!("https://{address}/mcp");
        let body = format!(
            r#"{{"jsonrpc":"2.0","id":{},"method":"tools/list"}}"#,
            round + 1
        );
        if round > 0 {
            command.arg("--next");
        }
        command.args(["-sk", "--http1.1", "-H", "content-type: application/json"]);
        command.args(["-d", &body, &url]);
    }
    let got = command.output().unwrap();
    assert!(got.status.success(), "{got:?}");
}

/// dumpcap on a port of lo.
struct Dumpcap(Child);

impl Dumpcap {
    fn start(port: u16, file: &Path) -> Self {
        let child = Command::new("dumpcap")
            .args(["-q", "-i", "lo", "-f", &format!("tcp port {port}"), "-w"])
            .arg(file)
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        while !fs::metadata(file).is_ok_and(|file| file.len() > 0) {
            thread::sleep(PAUSE);
        }
        thread::sleep(SETTLED);
        Self(child)
    }

    fn stop(mut self) {
        thread::sleep(SETTLED);
        // SIGINT lets it write what it has.
        let pid = self.0.id().to_string();
        assert!(
            Command::new("kill")
                .args(["-INT", &pid])
                .status()
                .unwrap()
                .success()
        );
        self.0.wait().unwrap();
    }
}

const PAUSE: Duration = Duration::from_millis(10);
const SETTLED: Duration = Duration::from_millis(400);
