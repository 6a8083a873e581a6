//! PDUs that break the protocol, hosts that are slow, memory, limits, and the end of the server.

use std::io::Read as _;
use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use super::rig::*;
use crate::command::io;
use crate::flow::{Action, Flow, LEAST_WINDOW};
use crate::memory::Memory;
use crate::namespace::{Fault, Namespace};
use crate::pdu::{H2cData, MAX_DATA, fes, kind, u16_at};
use crate::samples::{self, Digests, NQN};
use crate::server::Limits;
use crate::status;

#[test]
fn a_wrong_pdu_ends_its_connection_only() {
    let server = serve(512, 64);
    let address = server.addresses()[0];
    let mut admin = Host::admin(&server, NQN, 0);
    let mut good = Host::io(&server, &admin, OFF, 0, 0);
    let wrong: [(&[u8], (u16, u32)); 4] = [
        (&[5, 0, 24, 0, 24, 0, 0, 0], (fes::INVALID_HEADER, 0)),
        (&[4, 0, 71, 0, 72, 0, 0, 0], (fes::INVALID_HEADER, 2)),
        (&[4, 0, 72, 72, 0, 0, 0, 9], (fes::LIMIT, 4)),
        (&[0, 0, 128, 0, 128, 0, 0, 0], (fes::SEQUENCE, 0)),
    ];
    for (bytes, why) in wrong {
        let mut host = Host::open(address, OFF, 0);
        host.send(bytes);
        assert_eq!(host.fatal(), why, "{bytes:?}");
    }
    // A header digest.
    let mut host = Host::open(address, ON, 0);
    let (connect, data) = samples::connect(0, samples::ANY, NQN, 32, 0, 0);
    let mut capsule = samples::capsule(&connect, &data, ON);
    capsule[20] ^= 1;
    host.send(&capsule);
    assert_eq!(host.fatal(), (fes::HEADER_DIGEST, 0));
    // An unknown version, without ICResp.
    let mut host = Host::open(address, OFF, 0);
    host.socket = TcpStream::connect(address).unwrap();
    let mut hello = samples::ic_req(Digests::default(), 0);
    hello[8] = 1;
    host.send(&hello);
    assert_eq!(host.fatal(), (fes::UNSUPPORTED, 8));
    // The others go on.
    assert_eq!(good.ask(&blocks(io::READ, 0, 1, 0, 512, false)).status, 0);
    assert_eq!(admin.ask(&samples::property_get(1, 0x1c, false)).result, 1);
    assert_eq!(server.statistics().broken, 6);
}

#[test]
fn data_that_nobody_asked_for() {
    let server = serve(512, 64);
    // What is sent for a write of 1024 bytes: command, tag, offset, bytes, last.
    for (id, more, offset, len, last, why) in [
        (9, 1, 0, 1024, true, (fes::INVALID_HEADER, 10)),
        (8, 0, 0, 1024, true, (fes::INVALID_HEADER, 8)),
        (9, 0, 512, 512, true, (fes::OUT_OF_RANGE, 12)),
        (9, 0, 0, 1028, true, (fes::OUT_OF_RANGE, 16)),
        (9, 0, 0, 512, true, (fes::INVALID_HEADER, 1)),
        (9, 0, 0, 1024, false, (fes::INVALID_HEADER, 1)),
    ] {
        let admin = Host::admin(&server, NQN, 0);
        let mut host = Host::io(&server, &admin, OFF, 0, 0);
        host.submit(&blocks(io::WRITE, 0, 2, 0, 1024, false), b"");
        let asked = host.receive().unwrap();
        assert_eq!(asked.kind, kind::R2T);
        let tag = u16_at(&asked.header, 10) + more;
        host.send(&samples::h2c(id, tag, offset, &vec![1; len], last, OFF));
        assert_eq!(host.fatal(), why);
    }
    // More commands than entries.
    let admin = Host::admin(&server, NQN, 0);
    let mut host = Host::io(&server, &admin, OFF, 0, 0);
    for _ in 0..65 {
        host.submit(&blocks(io::WRITE, 0, 1, 0, 512, false), b"");
    }
    assert_eq!(host.fatal().0, fes::SEQUENCE);
}

/// A namespace whose reads at 0 wait until a write.
#[derive(Default)]
struct Waiting {
    written: Mutex<bool>,
    woken: Condvar,
}

impl Namespace for Waiting {
    fn block(&self) -> u32 {
        4096
    }
    fn blocks(&self) -> u64 {
        1 << 20
    }
    fn id(&self) -> [u8; 16] {
        [2; 16]
    }
    fn read(&self, at: u64, _: &mut [u8]) -> Result<(), Fault> {
        if at == 0 {
            let mut written = self.written.lock();
            let waited = self.woken.wait_while_for(&mut written, |w| !*w, LONG);
            assert!(!waited.timed_out(), "the write is executed while the read waits");
        }
        Ok(())
    }
    fn write(&self, _: u64, _: Vec<u8>, _: bool) -> Result<(), Fault> {
        *self.written.lock() = true;
        self.woken.notify_all();
        Ok(())
    }
    fn flush(&self) -> Result<(), Fault> {
        Ok(())
    }
    fn zero(&self, _: u64, _: u64, _: bool, _: bool) -> Result<(), Fault> {
        Ok(())
    }
    fn trim(&self, _: u64, _: u64) -> Result<(), Fault> {
        Ok(())
    }
}

fn numbered(mut command: [u8; 64], id: u16) -> [u8; 64] {
    command[2..4].copy_from_slice(&id.to_le_bytes());
    command
}

#[test]
fn commands_of_a_queue_run_at_the_same_time() {
    let server = serve_namespace(Arc::new(Waiting::default()), Limits::default());
    let admin = Host::admin(&server, NQN, 0);
    let mut host = Host::io(&server, &admin, OFF, 0, 0);
    host.submit(&numbered(blocks(io::READ, 0, 1, 0, 4096, false), 1), b"");
    host.submit(&numbered(blocks(io::WRITE, 1, 1, 0, 4096, true), 2), &[1; 4096]);
    // The write ends the wait of the read; which of the two answers first is left to the scheduler.
    let (mut read, mut written) = (false, false);
    while !(read && written) {
        let pdu = host.receive().unwrap();
        if pdu.kind == kind::C2H_DATA {
            continue;
        }
        let done = completion(&pdu);
        assert_eq!((done.status, done.head), (0, 3), "Connect and two commands");
        let seen = if u16_at(&pdu.header, 20) == 1 { &mut read } else { &mut written };
        assert!(!std::mem::replace(seen, true), "each command is completed once");
    }
}

#[test]
fn more_commands_than_memory_are_all_answered() {
    let memory = Memory::new(4096, 64 * 256);
    let limits = Limits { connections: 4, memory: 1, ..Limits::default() };
    let server = serve_namespace(memory.clone(), limits);
    let admin = Host::admin(&server, NQN, 0);
    let mut host = Host::io(&server, &admin, OFF, 0, 0);
    // 60 MiB of writes, of which 2 are asked for at once; then they are read.
    for id in 0..60u16 {
        let write = blocks(io::WRITE, u64::from(id) * 256, 256, 0, MAX_DATA, false);
        host.submit(&numbered(write, id), b"");
    }
    let (mut done, mut asked) = (0, 0);
    while done < 60 {
        let pdu = host.receive().unwrap();
        if pdu.kind == kind::R2T {
            let (id, tag) = (u16_at(&pdu.header, 8), u16_at(&pdu.header, 10));
            asked += 1;
            assert!(asked <= done + LEAST_WINDOW / MAX_DATA, "{asked} are asked for, {done} are done");
            host.send(&samples::h2c(id, tag, 0, &vec![id as u8 + 1; MAX_DATA], true, OFF));
        } else {
            assert_eq!(completion(&pdu).status, 0);
            done += 1;
        }
    }
    for id in 0..60u16 {
        let read = blocks(io::READ, u64::from(id) * 256, 256, 0, MAX_DATA, false);
        host.submit(&numbered(read, id), b"");
    }
    let mut found = [false; 60];
    for _ in 0..60 {
        let pdu = host.receive().unwrap();
        let id = u16_at(&pdu.header, 8);
        assert!(pdu.data.iter().all(|b| *b == id as u8 + 1), "what was written is read");
        found[usize::from(id)] = true;
        assert_eq!(completion(&host.receive().unwrap()).status, 0);
    }
    assert!(found.iter().all(|f| *f));
}

#[test]
fn a_slow_host_does_not_hold_up_another() {
    let server =
        serve_namespace(Memory::new(4096, 4096), Limits { connections: 8, memory: 1, ..Limits::default() });
    let admin = Host::admin(&server, NQN, 0);
    let mut slow = Host::io(&server, &admin, OFF, 0, 0);
    // It asks for more than sockets hold, and takes nothing; then it owes data for all of its memory.
    for id in 0..40 {
        slow.submit(&numbered(blocks(io::READ, 0, 256, 0, MAX_DATA, false), id), b"");
    }
    let other = Host::admin(&server, NQN, 0);
    let mut slower = Host::io(&server, &other, OFF, 0, 0);
    for id in 0..2 {
        slower.submit(&numbered(blocks(io::WRITE, 0, 256, 0, MAX_DATA, false), id), b"");
    }
    let third = Host::admin(&server, NQN, 0);
    let mut quick = Host::io(&server, &third, OFF, 0, 0);
    for i in 0..100u64 {
        let data = vec![i as u8; 65536];
        assert_eq!(quick.call(&blocks(io::WRITE, i * 16, 16, 0, 65536, false), &data, false).status, 0);
        assert!(quick.ask(&blocks(io::READ, i * 16, 16, 0, 65536, false)).data == data);
    }
    // The slow one gets everything when it takes it.
    let mut bytes = 0;
    let mut buffer = vec![0; 1 << 20];
    while bytes < 40 * (MAX_DATA + 48) {
        bytes += slow.socket.read(&mut buffer).unwrap();
    }
    assert_eq!(bytes, 40 * (MAX_DATA + 48));
}

#[test]
fn connections_beyond_the_limit_are_closed_and_the_server_ends() {
    let server =
        serve_namespace(Memory::new(512, 8), Limits { connections: 2, memory: 1, ..Limits::default() });
    let admin = Host::admin(&server, NQN, 0);
    let mut queue = Host::io(&server, &admin, OFF, 0, 0);
    let mut third = TcpStream::connect(server.addresses()[0]).unwrap();
    third.set_read_timeout(Some(LONG)).unwrap();
    assert_eq!(third.read(&mut [0; 8]).unwrap_or(0), 0);
    assert_eq!(server.statistics().refused, 1);
    drop(queue.ask(&blocks(io::READ, 0, 1, 0, 512, false)));
    let address = server.addresses()[0];
    let begin = Instant::now();
    std::thread::scope(|scope| {
        scope.spawn(|| server.stop());
        assert!(queue.receive().is_none());
        drop((queue, admin));
    });
    assert!(begin.elapsed() < LONG);
    assert_eq!(server.statistics().connections, 0);
    drop(server);
    assert!(TcpStream::connect_timeout(&address, Duration::from_secs(5)).is_err());
}

#[test]
fn memory_of_a_queue_is_bounded_and_given_back() {
    let command = |len: usize, opcode: u8| crate::command::Command(blocks(opcode, 0, 1, 0, len, false));
    let mut flow = Flow::new(0);
    flow.resize(8);
    let Some(Action::Ask(_, a, _)) = flow.admit(command(MAX_DATA, io::WRITE), vec![], false).unwrap() else {
        panic!("it is asked for");
    };
    assert!(flow.admit(command(MAX_DATA, io::COMPARE), vec![], false).unwrap().is_none(), "twice its data");
    assert!(flow.admit(command(512, io::READ), vec![], false).unwrap().is_none(), "it waits for its turn");
    let Some(Action::Run(flush)) = flow.admit(command(0, io::FLUSH), vec![], false).unwrap() else {
        panic!("it needs no memory");
    };
    assert_eq!((flush.reserved, flush.refused), (0, None));
    let head = H2cData { command: 9, tag: a, offset: 0, len: MAX_DATA, last: true };
    assert!(flow.take(&head).unwrap().is_empty());
    assert!(flow.take(&head).is_err(), "it arrives already");
    let write = flow.put(a, vec![0; MAX_DATA], false).unwrap();
    assert_eq!(write.reserved, MAX_DATA);
    let begun = flow.give_back(write.reserved);
    assert!(matches!(begun[..], [Action::Ask(..)]), "the compare has all memory now");
    assert!(matches!(flow.give_back(2 * MAX_DATA)[..], [Action::Run(_)]));
    let big = flow.admit(command(MAX_DATA + 512, io::READ), vec![], false).unwrap();
    assert!(matches!(big, Some(Action::Run(j)) if j.refused == Some(status::INVALID_FIELD)));
}
