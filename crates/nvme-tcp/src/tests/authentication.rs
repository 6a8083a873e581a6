//! The commands of the authentication, as a host sends them that this crate did not write.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::rig::*;
use crate::auth::message::Message;
use crate::auth::{Admission, Group, HostKeys, initiator};
use crate::command::{SQE, admin, fabrics, io};
use crate::memory::{Alone, Memory};
use crate::namespace::{DISCOVERY, Subsystem, Subsystems};
use crate::samples::{self, ANY, ENABLED, HOST, NQN};
use crate::server::{Limits, Server};
use crate::status;

const SECRET: &str = "DHHC-1:00:AAcOFRwjKjE4P0ZNVFtiaXB3foWMk5qhqK+2vcTL0tk/PUPo:";

struct Guarded(Arc<dyn Subsystem>);

impl Subsystems for Guarded {
    fn list(&self) -> Vec<Arc<dyn Subsystem>> {
        vec![self.0.clone()]
    }

    fn admission(&self, _host: &str) -> Admission {
        let secret = SECRET.parse().unwrap();
        let keys = HostKeys { secret: Some(secret), group: Some(Group::Null), ..HostKeys::default() };
        Admission::Authenticated(Arc::new(keys))
    }
}

fn serve_guarded(authentication: Duration) -> Server {
    let subsystem = Arc::new(Alone::new(NQN, Memory::new(512, 8)));
    let limits = Limits { authentication, ..Limits::default() };
    Server::start(&["127.0.0.1:0".to_owned()], Arc::new(Guarded(subsystem)), limits).unwrap()
}

fn command(kind: u8, len: u32) -> [u8; SQE] {
    let mut out = samples::command(admin::FABRICS, 4, kind.into(), [0xe901_0100, len, 0, 0, 0, 0]);
    out[32..36].copy_from_slice(&len.to_le_bytes());
    out
}

fn send(host: &mut Host, message: &[u8]) -> u16 {
    let mut command = command(fabrics::AUTHENTICATION_SEND, message.len() as u32);
    command[39] = 1;
    host.call(&command, message, true).status
}

fn receive(host: &mut Host, len: u32) -> Done {
    host.ask(&command(fabrics::AUTHENTICATION_RECEIVE, len))
}

/// A connection after its Connect.
fn connect(server: &Server, nqn: &str, queue: u16, controller: u16) -> (Host, u64) {
    let mut host = Host::open(server.addresses()[0], OFF, 0);
    let (command, data) = samples::connect(queue, controller, nqn, 32, 0, 0);
    let done = host.call(&command, &data, true);
    assert_eq!(done.status, 0);
    (host, done.result)
}

fn authenticate(host: &mut Host) {
    let secret = SECRET.parse().unwrap();
    let parties = initiator::Parties { host: HOST, subsystem: NQN, secret: &secret, controller_secret: None };
    assert_eq!(send(host, &initiator::negotiate(3)), 0);
    let challenge = receive(host, 4096);
    assert_eq!((challenge.status, challenge.data.len()), (0, 4096));
    let (reply, pending) = parties.reply(&challenge.data, 3).unwrap().unwrap();
    // By R2T, too.
    let command = command(fabrics::AUTHENTICATION_SEND, reply.len() as u32);
    assert_eq!(host.call(&command, &reply, false).status, 0);
    let verdict = receive(host, 48);
    assert_eq!((verdict.status, verdict.data.len()), (0, 48));
    pending.conclude(&verdict.data).unwrap();
}

#[test]
fn nothing_is_executed_on_a_queue_before_its_host_is_authenticated() {
    let server = serve_guarded(LONG);
    let (mut host, answer) = connect(&server, NQN, 0, ANY);
    assert_eq!(answer >> 16, 2, "ATR");
    let before = [
        samples::property_get(2, 0, true),
        samples::property_set(3, 0x14, ENABLED),
        samples::with_data(samples::command(admin::IDENTIFY, 4, 0, [1, 0, 0, 0, 0, 0]), 4096, false),
        samples::command(admin::KEEP_ALIVE, 5, 0, [0; 6]),
        samples::command(admin::ASYNC_EVENT, 6, 0, [0; 6]),
    ];
    for command in &before {
        assert_eq!(host.ask(command).status, status::AUTHENTICATION_REQUIRED);
    }
    authenticate(&mut host);
    for command in &before[..4] {
        assert_eq!(host.ask(command).status, 0);
    }
    let (mut queue, answer) = connect(&server, NQN, 1, answer as u16);
    assert_eq!(answer >> 16, 2);
    let read = samples::with_data(samples::command(io::READ, 9, 1, [0; 6]), 512, false);
    let write = samples::with_data(samples::command(io::WRITE, 9, 1, [0; 6]), 512, true);
    assert_eq!(queue.ask(&read).status, status::AUTHENTICATION_REQUIRED);
    assert_eq!(queue.call(&write, &[7; 512], true).status, status::AUTHENTICATION_REQUIRED);
    authenticate(&mut queue);
    assert_eq!(queue.ask(&read).data, [0; 512], "nothing was written");
    assert_eq!(queue.call(&write, &[7; 512], true).status, 0);
    // Again, in between.
    authenticate(&mut queue);
    assert_eq!(queue.ask(&read).data, [7; 512]);
    assert_eq!(server.statistics().unauthenticated, 0);
}

#[test]
fn the_discovery_subsystem_demands_nothing() {
    let server = serve_guarded(LONG);
    let (mut host, answer) = connect(&server, DISCOVERY, 0, ANY);
    assert_eq!(answer >> 16, 0);
    assert_eq!(host.ask(&samples::property_get(2, 0, true)).status, 0);
    assert_eq!(send(&mut host, &initiator::negotiate(3)), status::INVALID_OPCODE);
}

#[test]
fn a_failure_is_told_and_ends_the_connection() {
    let server = serve_guarded(LONG);
    let (mut host, _) = connect(&server, NQN, 0, ANY);
    assert_eq!(receive(&mut host, 64).status, status::COMMAND_SEQUENCE);
    assert_eq!(send(&mut host, &initiator::success(3)), 0);
    let told = receive(&mut host, 64);
    assert_eq!(Message::decode(&told.data), Ok(Message::Failure1 { transaction: 3, reason: 7 }));
    assert!(host.receive().is_none(), "it has ended");
    assert_eq!(server.statistics().unauthenticated, 1);
    // A host that gives up.
    let (mut host, _) = connect(&server, NQN, 0, ANY);
    assert_eq!(send(&mut host, &initiator::failure(3, 1)), 0);
    assert!(host.receive().is_none());
    assert_eq!(server.statistics().unauthenticated, 2);
}

#[test]
fn commands_of_the_authentication_that_are_wrong_are_refused() {
    let server = serve_guarded(LONG);
    let (mut host, _) = connect(&server, NQN, 0, ANY);
    let good = command(fabrics::AUTHENTICATION_SEND, 72);
    for (at, value) in [(41, 0), (42, 0), (43, 0), (44, 71), (45, 1)] {
        let mut bad = good;
        bad[at] = value;
        bad[39] = 1;
        assert_eq!(host.call(&bad, &[0; 72], true).status, status::INVALID_FIELD, "{at}");
    }
    let big = vec![0; 4104];
    assert_eq!(send(&mut host, &big), status::INVALID_FIELD);
    // A message that does not fit.
    assert_eq!(send(&mut host, &initiator::negotiate(3)), 0);
    assert_eq!(receive(&mut host, 8).status, status::SGL_LENGTH);
}

#[test]
fn a_host_that_is_not_authenticated_in_time_is_disconnected() {
    let server = serve_guarded(Duration::from_millis(300));
    let (mut silent, _) = connect(&server, NQN, 0, ANY);
    assert!(silent.receive().is_none());
    // One that goes on asking.
    let (mut busy, _) = connect(&server, NQN, 0, ANY);
    let end = Instant::now() + LONG;
    loop {
        busy.submit(&samples::property_get(2, 0, true), b"");
        let Some(pdu) = busy.receive() else { break };
        assert_eq!(completion(&pdu).status, status::AUTHENTICATION_REQUIRED);
        assert!(Instant::now() < end);
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(server.statistics().unauthenticated, 2);
}
