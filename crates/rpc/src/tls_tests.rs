//! Two sessions in memory: long ones change their keys, and bytes may come in any pieces.

use std::sync::Arc;
use std::time::Duration;

use ashlar_format::DeploymentId;
use rustls::crypto::{CipherSuiteCommon, CryptoProvider};
use rustls::{ClientConfig, ServerConfig, SupportedCipherSuite, Tls13CipherSuite};

use crate::credentials::Credentials;
use crate::tls::{Outgoing, Session};
use crate::{Authority, Identity, NodeKey, Trust};

const CLUSTER: DeploymentId = DeploymentId([3; 16]);

fn credentials(authority: &Authority, node: u16) -> Arc<Credentials> {
    let key = NodeKey::generate().unwrap();
    let certificate = authority.sign(&key.request().unwrap(), node, Duration::from_secs(3600)).unwrap();
    let identity = Identity::new(CLUSTER, &certificate, &key).unwrap();
    Credentials::new(identity, Trust::new(CLUSTER, [authority.certificate()]).unwrap()).unwrap()
}

/// The provider with keys that are good for only a few records, instead of 2^24.
fn short_lived(provider: &CryptoProvider, records: u64) -> Arc<CryptoProvider> {
    let suite = provider.cipher_suites[0].tls13().unwrap();
    let suite = Tls13CipherSuite {
        common: CipherSuiteCommon { confidentiality_limit: records, ..suite.common },
        ..*suite
    };
    let suite: &'static Tls13CipherSuite = Box::leak(Box::new(suite));
    Arc::new(CryptoProvider { cipher_suites: vec![SupportedCipherSuite::Tls13(suite)], ..provider.clone() })
}

struct End {
    session: Session,
    incoming: Vec<u8>,
    outgoing: Outgoing,
    received: Vec<u8>,
}

impl End {
    fn new(session: Session) -> End {
        End { session, incoming: Vec::new(), outgoing: Outgoing::default(), received: Vec::new() }
    }

    fn advance(&mut self) {
        let End { session, incoming, outgoing, received } = self;
        let (used, result) = session.advance(incoming, outgoing, &mut |b| received.extend_from_slice(b));
        incoming.drain(..used);
        result.unwrap();
    }

    fn send(&mut self, plain: &[u8]) {
        let End { session, incoming, outgoing, received } = self;
        let (used, result) =
            session.encrypt(plain, incoming, outgoing, &mut |b| received.extend_from_slice(b));
        incoming.drain(..used);
        result.unwrap();
    }

    /// Gives the other end what is to be sent, in pieces of a length.
    fn flush(&mut self, to: &mut End, piece: usize) {
        let bytes = self.outgoing.unsent().to_vec();
        self.outgoing.advance(bytes.len());
        for piece in bytes.chunks(piece) {
            to.incoming.extend_from_slice(piece);
            to.advance();
        }
    }
}

fn ends(client: ClientConfig, server: ServerConfig) -> (End, End) {
    (End::new(Session::client(client.into()).unwrap()), End::new(Session::server(server.into()).unwrap()))
}

#[test]
fn keys_change_before_their_limit_and_bytes_come_in_any_pieces() {
    let authority = Authority::create(CLUSTER, Duration::from_secs(3600)).unwrap();
    let (one, two) = (credentials(&authority, 1), credentials(&authority, 2));
    let provider = short_lived(one.client(2).unwrap().crypto_provider(), 20);
    let client = one.client_with(2, provider.clone()).unwrap();
    let server = two.server_with(provider).unwrap();
    let (mut client, mut server) = ends(client, server);
    let mut round = 0usize;
    while !(client.session.is_established() && server.session.is_established()) {
        client.advance();
        client.flush(&mut server, 1 + round * 7);
        server.advance();
        server.flush(&mut client, 100);
        round += 1;
        assert!(round < 50);
    }
    assert!(client.session.has_protocol() && server.session.has_protocol());
    let (mut there, mut back) = (Vec::new(), Vec::new());
    for i in 0..300usize {
        let plain: Vec<u8> = (0..(i * 997) % 60_000).map(|b| (b + i) as u8).collect();
        client.send(&plain);
        there.extend_from_slice(&plain);
        client.flush(&mut server, 1 + (i * 31) % 40_000);
        if i % 3 == 0 {
            server.send(&plain);
            back.extend_from_slice(&plain);
        }
        server.flush(&mut client, 5000);
    }
    assert!(server.received == there && client.received == back);
}
