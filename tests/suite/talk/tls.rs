//! TLS between the bytes of a talk and its packets, by rustls: every segment's payload becomes a record, so that
//! packets are as they were, and times with them.

use super::{
    model::{Side, Talk},
    tcp::{ACK, FIN, PSH, Packet, SYN, seen, sent},
    wire::{self, Flight},
    wire_h2,
};
use rustls::{
    ClientConfig, ClientConnection, DigitallySignedStruct, Error, KeyLog, ServerConfig,
    ServerConnection, SignatureScheme, SupportedProtocolVersion,
    client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    crypto::{CryptoProvider, ring},
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime},
};
use std::{
    fmt::Write as _,
    io::Write as _,
    sync::{Arc, Mutex},
};

/// A version of TLS.
pub(crate) type Version = &'static SupportedProtocolVersion;

pub(crate) const VERSIONS: [(&str, Version); 2] = [
    ("TLS 1.2", &rustls::version::TLS12),
    ("TLS 1.3", &rustls::version::TLS13),
];

/// The packets of a talk over TLS, in order of time, and the key log.
pub(crate) fn packets(talk: &Talk, version: Version) -> (Vec<Packet>, String) {
    packets_of(talk, &wire::flights(talk), version, "http/1.1")
}

/// Those of the same talk in HTTP/2, or why it cannot carry it.
pub(crate) fn packets_h2(
    talk: &Talk,
    version: Version,
) -> Result<(Vec<Packet>, String), &'static str> {
    Ok(packets_of(talk, &wire_h2::flights(talk)?, version, "h2"))
}

fn packets_of(
    talk: &Talk,
    flights: &[Flight],
    version: Version,
    protocol: &str,
) -> (Vec<Packet>, String) {
    let log = Arc::new(Log::default());
    let mut connections: Vec<Wrapped> = (0..talk.connections.len())
        .map(|number| Wrapped::new(number, version, protocol, &log))
        .collect();
    let mut out = Vec::new();
    for packet in sent(talk, flights) {
        connections[packet.connection].take(packet, &mut out);
    }
    (seen(out), log.text())
}

struct Wrapped {
    client: ClientConnection,
    server: ServerConnection,
    /// The handshake was made.
    open: bool,
    /// Sequence numbers of the first bytes.
    initial: [Option<u32>; 2],
    /// For offsets without TLS where they are with it, at the ends of segments.
    ends: [Vec<(u32, u32)>; 2],
}

impl Wrapped {
    fn new(number: usize, version: Version, protocol: &str, log: &Arc<Log>) -> Self {
        let mut provider = ring::default_provider();
        let fits: Vec<_> = provider
            .cipher_suites
            .iter()
            .filter(|suite| {
                let name = format!("{:?}", suite.suite());
                suite.version() == version && !name.contains("_RSA_")
            })
            .copied()
            .collect();
        // Connections take turns with the suites.
        provider.cipher_suites = vec![fits[number % fits.len()]];
        let provider = Arc::new(provider);
        let mut server = server_config(&provider, version);
        let mut client = client_config(&provider, version);
        for protocols in [&mut client.alpn_protocols, &mut server.alpn_protocols] {
            protocols.push(protocol.into());
        }
        client.key_log = Arc::clone(log) as Arc<dyn KeyLog>;
        let name = ServerName::try_from("mcp.example").unwrap();
        Self {
            client: ClientConnection::new(Arc::new(client), name).unwrap(),
            server: ServerConnection::new(Arc::new(server)).unwrap(),
            open: false,
            initial: [None; 2],
            ends: [vec![(0, 0)], vec![(0, 0)]],
        }
    }

    fn take(&mut self, packet: Packet, out: &mut Vec<Packet>) {
        let from = packet.from;
        if packet.flags & SYN != 0 {
            self.initial[from as usize] = Some(packet.seq.wrapping_add(1));
            out.push(packet);
            return;
        }
        if !self.open {
            let both = self.initial.iter().all(Option::is_some);
            out.push(packet.clone());
            if both && packet.flags == ACK {
                self.open = true;
                self.shake(&packet, out);
            }
            return;
        }
        let mut sealed = packet;
        let end = self.end(from);
        let begins = sealed.seq;
        sealed.seq = self.place(from, begins);
        if sealed.flags & ACK != 0 {
            sealed.ack = self.place(from.other(), sealed.ack);
        }
        let plain = u32::try_from(sealed.payload.len()).unwrap();
        let mut after = end;
        if plain > 0 {
            sealed.payload = self.seal(from, &sealed.payload);
            after = (end.0 + plain, end.1 + length(&sealed.payload));
            self.ends[from as usize].push(after);
        }
        if sealed.flags & FIN != 0 {
            // It goes before, in a packet that is never lost: where a FIN is, it alone is.
            let payload = self.notify(from);
            let more = length(&payload);
            out.push(Packet {
                flags: ACK | PSH,
                payload,
                lost: false,
                ..sealed.clone()
            });
            sealed.seq = sealed.seq.wrapping_add(more);
            after = (after.0 + 1, after.1 + more + 1);
            self.ends[from as usize].push(after);
        }
        out.push(sealed);
    }

    fn end(&self, side: Side) -> (u32, u32) {
        *self.ends[side as usize].last().unwrap()
    }

    /// The sequence number that one without TLS becomes.
    fn place(&self, side: Side, number: u32) -> u32 {
        let initial = self.initial[side as usize].unwrap();
        let offset = number.wrapping_sub(initial);
        let found = self.ends[side as usize].iter().rev();
        let (_, with) = found
            .copied()
            .find(|(without, _)| *without == offset)
            .unwrap_or_else(|| panic!("no segment ends at {offset}"));
        initial.wrapping_add(with)
    }

    fn shake(&mut self, last: &Packet, out: &mut Vec<Packet>) {
        let mut at = last.at;
        loop {
            let mut any = false;
            for side in [Side::Client, Side::Server] {
                let bytes = self.written(side);
                any |= !bytes.is_empty();
                let mut rest = &bytes[..];
                while !rest.is_empty() {
                    match side {
                        Side::Client => self.server.read_tls(&mut rest).unwrap(),
                        Side::Server => self.client.read_tls(&mut rest).unwrap(),
                    };
                    self.client.process_new_packets().unwrap();
                    self.server.process_new_packets().unwrap();
                }
                for piece in bytes.chunks(PIECE) {
                    at += 1;
                    let (_, with) = self.end(side);
                    let initial = |side: Side| self.initial[side as usize].unwrap();
                    let (_, acknowledged) = self.end(side.other());
                    out.push(Packet {
                        at,
                        from: side,
                        flags: ACK | PSH,
                        seq: initial(side).wrapping_add(with),
                        ack: initial(side.other()).wrapping_add(acknowledged),
                        payload: piece.to_vec(),
                        ..last.clone()
                    });
                    self.ends[side as usize] = vec![(0, with + length(piece))];
                }
            }
            if !any {
                break;
            }
        }
        assert!(!self.client.is_handshaking() && !self.server.is_handshaking());
        assert!(at < last.at + 10, "a handshake of too many segments");
    }

    fn written(&mut self, side: Side) -> Vec<u8> {
        let mut bytes = Vec::new();
        match side {
            Side::Client => {
                while self.client.wants_write() {
                    self.client.write_tls(&mut bytes).unwrap();
                }
            }
            Side::Server => {
                while self.server.wants_write() {
                    self.server.write_tls(&mut bytes).unwrap();
                }
            }
        }
        bytes
    }

    fn seal(&mut self, side: Side, plain: &[u8]) -> Vec<u8> {
        match side {
            Side::Client => self.client.writer().write_all(plain).unwrap(),
            Side::Server => self.server.writer().write_all(plain).unwrap(),
        }
        self.written(side)
    }

    fn notify(&mut self, side: Side) -> Vec<u8> {
        match side {
            Side::Client => self.client.send_close_notify(),
            Side::Server => self.server.send_close_notify(),
        }
        self.written(side)
    }
}

/// A server of the version, with the certificate of the fixtures.
pub(crate) fn server_config(provider: &Arc<CryptoProvider>, version: Version) -> ServerConfig {
    let certificate = include_bytes!("../../../fixtures/tls/certificate.der");
    let key = include_bytes!("../../../fixtures/tls/key.der");
    ServerConfig::builder_with_provider(Arc::clone(provider))
        .with_protocol_versions(&[version])
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(
            vec![CertificateDer::from(&certificate[..])],
            PrivateKeyDer::try_from(&key[..]).unwrap(),
        )
        .unwrap()
}

/// A client of the version that takes any certificate.
pub(crate) fn client_config(provider: &Arc<CryptoProvider>, version: Version) -> ClientConfig {
    ClientConfig::builder_with_provider(Arc::clone(provider))
        .with_protocol_versions(&[version])
        .unwrap()
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Anybody(Arc::clone(provider))))
        .with_no_client_auth()
}

fn length(bytes: &[u8]) -> u32 {
    u32::try_from(bytes.len()).unwrap()
}

/// The key log, as `SSLKEYLOGFILE` would be.
#[derive(Debug, Default)]
pub(crate) struct Log(Mutex<String>);

impl Log {
    pub(crate) fn text(&self) -> String {
        self.0.lock().unwrap().clone()
    }
}

impl KeyLog for Log {
    fn log(&self, label: &str, random: &[u8], secret: &[u8]) {
        let hex = |bytes: &[u8]| -> String {
            bytes.iter().fold(String::new(), |mut text, byte| {
                let _ = write!(text, "{byte:02x}");
                text
            })
        };
        let mut text = self.0.lock().unwrap();
        let _ = writeln!(text, "{label} {} {}", hex(random), hex(secret));
    }
}

/// Takes any certificate: only what is on the wire matters.
#[derive(Debug)]
struct Anybody(Arc<CryptoProvider>);

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

/// Payload of a segment of the handshake.
const PIECE: usize = 1400;
