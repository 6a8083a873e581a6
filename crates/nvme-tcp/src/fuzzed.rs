//! Entry points for the fuzzer: a whole connection over bytes instead of a socket.
//!
//! Must not depend on: sockets of the system.

use std::io::{self, IoSlice};
use std::net::{Shutdown, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use crate::auth::exchange::Exchange;
use crate::auth::message::Message;
use crate::auth::{Group, Hash, HostKeys, initiator};
use crate::connection::Connection;
use crate::controller::{Core, Host};
use crate::memory::Memory;
use crate::pdu::{Agreed, COMMON, Common};
use crate::samples::{ENABLED, HOST, NQN};
use crate::wire::{Socket, Wire};

pub use crate::reservation::fuzzed::{reservation_commands, reservations};

/// What a host sends, and what it has received.
pub(crate) struct Script {
    input: Mutex<(Vec<u8>, usize)>,
    /// The first [`KEPT`] bytes, about.
    pub(crate) output: Mutex<Vec<u8>>,
    sent: Mutex<usize>,
}

/// Bytes that are kept of what a host has received.
const KEPT: usize = 256 << 10;

impl Script {
    pub(crate) fn new(input: &[u8]) -> Arc<Script> {
        Arc::new(Script {
            input: Mutex::new((input.to_vec(), 0)),
            output: Mutex::default(),
            sent: Mutex::default(),
        })
    }
}

impl Socket for Script {
    fn receive(&self, out: &mut [u8]) -> io::Result<usize> {
        let mut input = self.input.lock();
        let (bytes, at) = &mut *input;
        let n = out.len().min(bytes.len() - *at);
        out[..n].copy_from_slice(&bytes[*at..*at + n]);
        *at += n;
        Ok(n)
    }

    fn send(&self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        let mut output = self.output.lock();
        if output.len() < KEPT {
            slices.iter().for_each(|s| output.extend_from_slice(s));
        }
        let n = slices.iter().map(|s| s.len()).sum();
        *self.sent.lock() += n;
        Ok(n)
    }

    fn shut(&self, _how: Shutdown) {}

    fn local(&self) -> Option<SocketAddr> {
        None
    }
}

/// Serves a namespace of a few blocks to a host that sends `input`, in this thread. There is a controller already: number 1,
/// of the same host. What the host gets: its begin, and its bytes.
pub(crate) fn session(input: &[u8]) -> (Vec<u8>, usize) {
    let subsystems = Memory::new(512, 32).subsystems(NQN);
    let core = Core::new(subsystems.clone(), 0, 1);
    core.addresses.write().push(SocketAddr::from(([127, 0, 0, 1], 4420)));
    let mut host = Host { id: [0; 16], nqn: HOST.into() };
    host.id[15] = 1;
    let made = core.create(host, subsystems.open(NQN), Duration::ZERO, Script::new(b""));
    if let Some(controller) = made {
        controller.configure(ENABLED);
    }
    let script = Script::new(input);
    let wire = Wire::new(script.clone(), Duration::from_secs(60));
    Connection::new(wire, "a script".into(), None, core).work(&|| ());
    let output = script.output.lock().clone();
    let sent = *script.sent.lock();
    (output, sent)
}

/// Serves a host that sends `input`; what it gets is bounded by what it has room for.
pub fn connection(input: &[u8]) {
    let (_, sent) = session(input);
    // A command of 72 bytes has an answer of at most the largest data.
    let commands = input.len() / 72 + 1;
    assert!(sent <= 1024 + commands * ((1 << 20) + 256));
}

/// Common headers: what they say about lengths holds.
pub fn header(input: &[u8]) {
    let Some(bytes) = input.first_chunk::<COMMON>() else { return };
    let flags = input.get(COMMON).copied().unwrap_or(0);
    let agreed = Agreed { header_digest: flags & 1 != 0, data_digest: flags & 2 != 0, align: 4 };
    for agreed in [None, Some(&agreed)] {
        if let Ok(common) = Common::decode(bytes, agreed) {
            assert!(common.header <= common.len);
            if let Some(agreed) = agreed {
                assert!(common.offset + common.data(agreed) <= common.len);
            }
        }
    }
}

/// Secrets of samples: of a host, and of a target.
const SECRETS: [&str; 2] = [
    "DHHC-1:01:AQgPFh0kKzI5QEdOVVxjanF4f4aNlJuiqbC3vsXM09pl1OOC:",
    "DHHC-1:01:AgcMERYbICUqLzQ5PkNITVJXXGFma3B1en+EiY6TmJ19R/Gn:",
];

/// A key of TLS of samples.
const TLS_KEY: &str = "NVMeTLSkey-1:01:AQgPFh0kKzI5QEdOVVxjanF4f4aNlJuiqbC3vsXM09pl1OOC:";

/// Messages of the authentication: what is decoded is encoded to the same; a host that does not know its secret is not accepted,
/// whatever it sends, and a target neither. The first byte says how the rest is divided into messages.
pub fn authentication(input: &[u8]) {
    let (Some((first, rest)), Ok(secret), Ok(other)) =
        (input.split_first(), SECRETS[0].parse(), SECRETS[1].parse())
    else {
        return;
    };
    if let Ok(message) = Message::decode(rest) {
        assert_eq!(Message::decode(&message.encode()), Ok(message));
    }
    let parties =
        initiator::Parties { host: HOST, subsystem: NQN, secret: &secret, controller_secret: Some(&other) };
    if let Ok(Ok((_, pending))) = parties.reply(rest, 5) {
        assert!(pending.conclude(rest).is_err());
    }
    let keys = HostKeys {
        secret: Some(secret.clone()),
        controller_secret: Some(other.clone()),
        group: Some(Group::Null),
        ..HostKeys::default()
    };
    let keys = Arc::new(keys);
    let mut exchange = Exchange::new(HOST, NQN);
    for message in rest.chunks(usize::from(*first).max(8)) {
        exchange.send(message, || Some(keys.clone()));
        let _ = exchange.receive();
        assert!(!exchange.is_authenticated());
    }
}

/// Messages of the authentication, each behind a byte with its length.
#[must_use]
pub fn authentication_messages() -> Vec<Vec<u8>> {
    let (hash, transaction) = (Hash::Sha256, 5);
    let challenge = crate::auth::message::Challenge {
        transaction,
        hash,
        group: Group::Null,
        sequence: 9,
        challenge: vec![1; 32],
        public: Vec::new(),
    };
    let reply = crate::auth::message::Reply {
        transaction,
        response: vec![2; 32],
        challenge: Some((vec![3; 32], 7)),
        public: Vec::new(),
    };
    let all = [
        initiator::negotiate(transaction),
        Message::Challenge(challenge).encode(),
        Message::Reply(reply.clone()).encode(),
        Message::Success1 { transaction, hash, response: Some(vec![4; 32]) }.encode(),
        initiator::success(transaction),
        initiator::failure(transaction, 1),
        [initiator::negotiate(transaction), Message::Reply(reply).encode()].concat(),
    ];
    all.into_iter().map(|m| [vec![m.len().min(72) as u8], m].concat()).collect()
}

/// Reads a file of hosts: what is read is written to the same.
pub fn hosts(input: &[u8]) {
    if let Ok(text) = std::str::from_utf8(input) {
        crate::auth::hosts::examine(text);
    }
}

/// A file of hosts.
#[must_use]
pub fn hosts_files() -> Vec<Vec<u8>> {
    let [host, target] = SECRETS;
    let text = format!(
        "[[host]]\nnqn = \"{HOST}\"\ndhchap_secret = \"{host}\"\ndhchap_ctrl_secret = \"{target}\"\n\
         dhchap_hash = \"sha512\"\ndhchap_dhgroup = \"ffdhe2048\"\ntls_key = \"{TLS_KEY}\"\n"
    );
    vec![text.into_bytes()]
}

/// Messages of TLS and keys: see [`crate::tls`].
pub use crate::tls::fuzzed::{hello as tls_hello, hellos as tls_hellos};

/// Connections of hosts.
#[must_use]
pub fn connections() -> Vec<Vec<u8>> {
    crate::samples::connections()
}

/// Common headers, each with a byte that says which digests were agreed on.
#[must_use]
pub fn headers() -> Vec<Vec<u8>> {
    vec![
        vec![0, 0, 128, 0, 128, 0, 0, 0],
        vec![4, 0, 72, 0, 72, 0, 0, 0, 0],
        vec![4, 3, 72, 76, 80, 16, 0, 0, 3],
        vec![6, 4, 24, 24, 24, 2, 0, 0, 0],
    ]
}
