//! What a target does with connections that begin TLS, and with those that should have.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::RwLock;

use super::rig::*;
use crate::auth::{Admission, HostKeys};
use crate::command::admin;
use crate::memory::{Alone, Memory};
use crate::namespace::{DISCOVERY, Subsystem, Subsystems};
use crate::samples::{self, ANY, HOST, NQN};
use crate::server::{Limits, Server};
use crate::status;
use crate::tls::TlsMode;

const KEY: &str = "NVMeTLSkey-1:01:AQgPFh0kKzI5QEdOVVxjanF4f4aNlJuiqbC3vsXM09pl1OOC:";

/// A subsystem for one host.
struct Guarded {
    inner: Arc<dyn Subsystem>,
    keys: RwLock<HostKeys>,
    mode: TlsMode,
}

impl Subsystems for Guarded {
    fn list(&self) -> Vec<Arc<dyn Subsystem>> {
        vec![self.inner.clone()]
    }

    fn admission(&self, host: &str) -> Admission {
        if host != HOST {
            return Admission::Refused;
        }
        Admission::Authenticated(Arc::new(self.keys.read().clone()))
    }

    fn tls(&self) -> TlsMode {
        self.mode
    }
}

fn serve_with(mode: TlsMode, keys: HostKeys, limits: Limits) -> Server {
    let inner = Arc::new(Alone::new(NQN, Memory::new(512, 8)));
    let guarded = Guarded { inner, keys: RwLock::new(keys), mode };
    Server::start(&["127.0.0.1:0".to_owned()], Arc::new(guarded), limits).unwrap()
}

fn serve_mode(mode: TlsMode) -> Server {
    let keys = HostKeys { tls: Some(KEY.parse().unwrap()), ..HostKeys::default() };
    serve_with(mode, keys, Limits::default())
}

fn until(mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + LONG;
    while !holds() {
        assert!(Instant::now() < end, "it does not happen");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// What a connection gets for bytes, until it ends.
fn answer(server: &Server, bytes: &[u8]) -> Vec<u8> {
    let mut socket = TcpStream::connect(server.addresses()[0]).unwrap();
    socket.set_read_timeout(Some(LONG)).unwrap();
    socket.write_all(bytes).unwrap();
    let mut got = Vec::new();
    // A socket that is closed with bytes that nobody read is reset.
    if let Err(e) = socket.read_to_end(&mut got) {
        assert_eq!(e.kind(), std::io::ErrorKind::ConnectionReset);
    }
    got
}

fn connect_status(server: &Server, subsystem: &str) -> u16 {
    let mut host = Host::open(server.addresses()[0], OFF, 0);
    let (command, data) = samples::connect(0, ANY, subsystem, 32, 0, 0);
    host.call(&command, &data, true).status
}

#[test]
fn a_host_that_has_a_key_is_not_served_without_tls() {
    for mode in [TlsMode::Off, TlsMode::Allowed] {
        let server = serve_mode(mode);
        assert_eq!(connect_status(&server, NQN), status::CONNECT_HOST);
        assert_eq!(server.statistics().unauthenticated, 1);
        // Discovery is open to all.
        assert_eq!(connect_status(&server, DISCOVERY), 0);
    }
    // One with a secret too uses that when TLS is off.
    let secret = Some("DHHC-1:00:AAcOFRwjKjE4P0ZNVFtiaXB3foWMk5qhqK+2vcTL0tk/PUPo:".parse().unwrap());
    let keys = HostKeys { secret, tls: Some(KEY.parse().unwrap()), ..HostKeys::default() };
    assert_eq!(connect_status(&serve_with(TlsMode::Off, keys.clone(), Limits::default()), NQN), 0);
    let server = serve_with(TlsMode::Allowed, keys, Limits::default());
    assert_eq!(connect_status(&server, NQN), status::CONNECT_HOST);
}

#[test]
fn connections_without_tls_end_where_it_is_required() {
    let server = serve_mode(TlsMode::Required);
    assert!(answer(&server, &samples::ic_req(OFF, 0)).is_empty());
    until(|| server.statistics().connections == 0 && server.statistics().unauthenticated == 1);
}

#[test]
fn connections_with_tls_end_where_it_is_off() {
    let server = serve_mode(TlsMode::Off);
    assert!(answer(&server, &[0x16, 3, 1, 0, 5, 1, 0, 0, 1, 0]).is_empty());
    until(|| server.statistics().connections == 0 && server.statistics().unauthenticated == 1);
}

#[test]
fn what_is_no_handshake_is_answered_with_an_alert_at_most() {
    let limits = Limits { authentication: Duration::from_secs(1), ..Limits::default() };
    let keys = HostKeys { tls: Some(KEY.parse().unwrap()), ..HostKeys::default() };
    let server = serve_with(TlsMode::Allowed, keys, limits);
    for bytes in [
        // A record of 5654 bytes, of which 595 come.
        &[0x16; 600][..],
        &[0x16, 3, 1, 0, 5, 1, 0, 0, 1, 0],
        // Of TLS 1.2, with a ClientHello without extensions.
        &[&[0x16, 3, 1, 0, 45, 1, 0, 0, 41, 3, 3][..], &[7; 32], &[0, 0, 2, 0xc0, 0x2f, 1, 0]].concat(),
    ] {
        assert!(answer(&server, bytes).len() <= 7);
    }
    until(|| server.statistics().connections == 0 && server.statistics().unauthenticated == 3);
}

#[test]
fn a_host_that_stops_in_the_handshake_holds_up_only_itself() {
    let limits = Limits { authentication: Duration::from_millis(300), connections: 8, ..Limits::default() };
    let keys = HostKeys { tls: Some(KEY.parse().unwrap()), ..HostKeys::default() };
    let server = serve_with(TlsMode::Allowed, keys, limits);
    let mut stalled: Vec<TcpStream> = (0..6)
        .map(|n| {
            let mut socket = TcpStream::connect(server.addresses()[0]).unwrap();
            socket.set_read_timeout(Some(LONG)).unwrap();
            // The first bytes of a record of 512.
            socket.write_all(&[0x16, 3, 1, 2, 0, 1, 0, 1, 252][..1 + n]).unwrap();
            socket
        })
        .collect();
    assert_eq!(connect_status(&server, DISCOVERY), 0, "others are served");
    // Bytes that come one by one do not make the time longer.
    let mut slow = TcpStream::connect(server.addresses()[0]).unwrap();
    slow.write_all(&[0x16, 3, 1, 2, 0]).unwrap();
    let end = Instant::now() + LONG;
    while slow.write_all(&[0]).is_ok() {
        assert!(Instant::now() < end, "it has to end");
        std::thread::sleep(Duration::from_millis(20));
    }
    for socket in &mut stalled {
        let mut got = Vec::new();
        let _ = socket.read_to_end(&mut got);
        assert!(got.len() <= 7);
    }
    until(|| server.statistics().connections == 0);
    assert!(server.statistics().unauthenticated >= 7);
}

#[test]
fn a_server_stops_while_hosts_are_in_the_handshake() {
    let server = serve_mode(TlsMode::Required);
    let mut silent = TcpStream::connect(server.addresses()[0]).unwrap();
    let mut begun = TcpStream::connect(server.addresses()[0]).unwrap();
    begun.write_all(&[0x16, 3, 1, 2, 0]).unwrap();
    until(|| server.statistics().connections == 2);
    server.stop();
    assert_eq!(server.statistics().connections, 0);
    for socket in [&mut silent, &mut begun] {
        assert_eq!(socket.read_to_end(&mut Vec::new()).unwrap_or(0), 0);
    }
}

#[test]
fn discovery_says_which_host_needs_tls() {
    let record = |mode, keys: HostKeys| {
        let server = serve_with(mode, keys, Limits::default());
        let mut host = Host::admin(&server, DISCOVERY, 0);
        let len = 3072;
        let dwords = [0x70 | (len / 4 - 1) << 16, 0, 0, 0, 0, 0];
        let command = samples::command(admin::GET_LOG_PAGE, 5, 0, dwords);
        let page = host.ask(&samples::with_data(command, len, false)).data;
        // SUBTYPE, TREQ, SECTYPE of both entries.
        [1024, 2048].map(|at| (page[at + 2], page[at + 3], page[at + 768]))
    };
    let secret = Some("DHHC-1:00:AAcOFRwjKjE4P0ZNVFtiaXB3foWMk5qhqK+2vcTL0tk/PUPo:".parse().unwrap());
    let (secret, tls) = (
        HostKeys { secret, ..HostKeys::default() },
        HostKeys { tls: Some(KEY.parse().unwrap()), ..HostKeys::default() },
    );
    assert_eq!(record(TlsMode::Allowed, tls.clone()), [(2, 1, 2), (3, 2, 0)]);
    assert_eq!(record(TlsMode::Allowed, secret), [(2, 2, 0), (3, 2, 0)]);
    assert_eq!(record(TlsMode::Off, tls), [(2, 2, 0), (3, 2, 0)]);
}
