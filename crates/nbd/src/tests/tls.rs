//! TLS: agreed on within the negotiation, and required where the server says so.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::{PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConfig, StreamOwned};

use crate::memory::Memory;
use crate::protocol::*;
use crate::samples::{export, hello, option, request};
use crate::server::{Endpoint, Limits, Server, Tls};

struct Keys {
    server: Arc<ServerConfig>,
    client: Arc<ClientConfig>,
}

fn keys() -> Keys {
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let key = PrivateKeyDer::Pkcs8(made.signing_key.serialize_der().into());
    let certificate = made.cert.der().clone();
    let server = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.clone()], key)
        .unwrap();
    let mut roots = RootCertStore::empty();
    roots.add(certificate).unwrap();
    let client = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    Keys { server: Arc::new(server), client: Arc::new(client) }
}

fn start(keys: &Keys, required: bool) -> (Server, TcpStream) {
    let tls = Tls { config: keys.server.clone(), required };
    let endpoint = [Endpoint::Tcp("127.0.0.1:0".into())];
    let exports = Memory::new(64 << 20).exports();
    let server = Server::start(&endpoint, exports, Some(tls), Limits::default()).unwrap();
    let Endpoint::Tcp(address) = &server.endpoints()[0] else { panic!("TCP") };
    let mut socket = TcpStream::connect(address).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    socket.read_exact(&mut [0; 18]).unwrap();
    socket.write_all(&hello()).unwrap();
    (server, socket)
}

/// The type of the next reply to an option.
fn answered(socket: &mut impl std::io::Read) -> u32 {
    let mut head = [0; 20];
    socket.read_exact(&mut head).unwrap();
    let mut r = Reader(&head);
    r.raw(12).unwrap();
    let (kind, len) = (r.u32().unwrap(), r.u32().unwrap());
    socket.read_exact(&mut vec![0; len as usize]).unwrap();
    kind
}

fn encrypt(keys: &Keys, mut socket: TcpStream) -> StreamOwned<ClientConnection, TcpStream> {
    socket.write_all(&option(option::STARTTLS, b"")).unwrap();
    assert_eq!(answered(&mut socket), answer::ACK);
    let name = ServerName::try_from("localhost").unwrap();
    StreamOwned::new(ClientConnection::new(keys.client.clone(), name).unwrap(), socket)
}

#[test]
fn nothing_is_told_without_tls_where_it_is_required() {
    let keys = keys();
    let (_server, mut socket) = start(&keys, true);
    for asked in [
        option(option::LIST, b""),
        option(option::INFO, &export("memory", &[])),
        option(option::GO, &export("no such", &[])),
        option(option::STRUCTURED_REPLY, b""),
        option(99, b""),
    ] {
        socket.write_all(&asked).unwrap();
        assert_eq!(answered(&mut socket), answer::TLS_REQUIRED);
    }
    let mut stream = encrypt(&keys, socket);
    stream.write_all(&option(option::STARTTLS, b"")).unwrap();
    assert_eq!(answered(&mut stream), answer::INVALID, "once");
    stream.write_all(&option(option::LIST, b"")).unwrap();
    assert_eq!([answered(&mut stream), answered(&mut stream)], [answer::SERVER, answer::ACK]);
    let (_server, mut socket) = start(&keys, true);
    socket.write_all(&option(option::EXPORT_NAME, b"memory")).unwrap();
    assert_eq!(socket.read(&mut [0; 1]).unwrap(), 0, "the old way has no error but the end");
}

#[test]
fn large_requests_and_many_small_ones_over_tls() {
    let keys = keys();
    let (_server, socket) = start(&keys, false);
    let mut stream = encrypt(&keys, socket);
    stream.write_all(&option(option::GO, &export("", &[]))).unwrap();
    assert_eq!([answered(&mut stream), answered(&mut stream)], [answer::INFO, answer::ACK]);
    let data: Vec<u8> = (0..MAX_PAYLOAD).map(|i| ((i * 7) >> 3) as u8).collect();
    stream.write_all(&request(command::WRITE, 0, 1, 5, MAX_PAYLOAD, &data)).unwrap();
    let mut head = [0; 16];
    stream.read_exact(&mut head).unwrap();
    assert_eq!(head[..], simple_reply(0, 1)[..]);
    stream.write_all(&request(command::READ, 0, 2, 5, MAX_PAYLOAD, b"")).unwrap();
    stream.read_exact(&mut head).unwrap();
    let mut back = vec![0; data.len()];
    stream.read_exact(&mut back).unwrap();
    assert!(back == data);
    let many: Vec<u8> = (0..1000).flat_map(|i| request(command::READ, 0, i, i * 512, 512, b"")).collect();
    stream.write_all(&many).unwrap();
    let mut seen = vec![false; 1000];
    for _ in 0..1000 {
        stream.read_exact(&mut head).unwrap();
        let mut r = Reader(&head[8..]);
        seen[r.u64().unwrap() as usize] = true;
        stream.read_exact(&mut [0; 512]).unwrap();
    }
    assert!(seen.iter().all(|s| *s));
}

#[test]
fn what_is_sent_before_tls_does_not_count_after_it() {
    let keys = keys();
    let (_server, mut socket) = start(&keys, true);
    // An option in the clear right behind STARTTLS, as a person in the middle would put it there.
    socket.write_all(&[option(option::STARTTLS, b""), option(option::LIST, b"")].concat()).unwrap();
    assert_eq!(answered(&mut socket), answer::ACK);
    let mut rest = Vec::new();
    // It is no TLS: an alert, then the end.
    let _ = socket.read_to_end(&mut rest);
    assert!(rest.len() < 20 && !rest.windows(6).any(|w| w == b"memory"));
}
