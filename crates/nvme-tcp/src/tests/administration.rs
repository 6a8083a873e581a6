//! Connect, properties, Identify, log pages, features, events and keep alive.

use std::sync::Arc;

use parking_lot::Mutex;

use super::rig::*;
use crate::command::{admin, io};
use crate::memory::{Memory, Only};
use crate::namespace::{DISCOVERY, Namespace, Subsystem};
use crate::pdu::{u16_at, u32_at, u64_at};
use crate::samples::{self, ANY, ENABLED, NQN};
use crate::server::{Limits, Server};
use crate::status;

fn identify(host: &mut Host, cns: u32, nsid: u32) -> Done {
    let command = samples::command(admin::IDENTIFY, 4, nsid, [cns, 0, 0, 0, 0, 0]);
    host.ask(&samples::with_data(command, 4096, false))
}

fn log(host: &mut Host, page: u32, offset: u64, len: u32) -> Done {
    let dwords = [page | (len / 4 - 1) << 16, (len / 4 - 1) >> 16, offset as u32, 0, 0, 0];
    host.ask(&samples::with_data(samples::command(admin::GET_LOG_PAGE, 5, 0, dwords), len, false))
}

fn feature(host: &mut Host, opcode: u8, number: u32, value: u32) -> Done {
    host.ask(&samples::command(opcode, 6, 0, [number, value, 0, 0, 0, 0]))
}

#[test]
fn identification() {
    let server = serve(4096, 256);
    let mut host = Host::admin(&server, NQN, 0);
    let c = identify(&mut host, 1, 0).data;
    assert_eq!(c[24..40], *b"Ashlar memory   ");
    assert_eq!((c[77], u16_at(&c, 78), u32_at(&c, 80)), (8, host.controller, 0x20000));
    assert_eq!((c[111], c[512], c[513], c[525]), (1, 0x66, 0x44, 7));
    assert_eq!((u32_at(&c, 1792), u32_at(&c, 1796), u16_at(&c, 1800)), (516, 1, 0));
    assert_eq!(c[768..768 + NQN.len()], *NQN.as_bytes());
    let n = identify(&mut host, 0, 1).data;
    assert_eq!((u64_at(&n, 0), u64_at(&n, 8), n[30], n[130]), (256, 256, 1, 12));
    assert_eq!((u64_at(&n, 16), n[24]), (256, 0), "it is not thin");
    let id = Memory::new(512, 1).id();
    assert_eq!(n[104..120], id);
    assert!(identify(&mut host, 0, 2).data.iter().all(|b| *b == 0), "there is none");
    assert_eq!(identify(&mut host, 0, u32::MAX).status, status::INVALID_NAMESPACE);
    let active = identify(&mut host, 2, 0).data;
    assert_eq!((u32_at(&active, 0), u32_at(&active, 4)), (1, 0));
    assert_eq!(u32_at(&identify(&mut host, 2, 1).data, 0), 0);
    let d = identify(&mut host, 3, 1).data;
    assert_eq!((d[0], d[1], &d[4..20], d[20], &d[24..40]), (2, 16, &id[..], 3, &id[..]));
    assert_eq!((&d[40..45], d[45]), (&[4, 1, 0, 0, 0][..], 0));
    assert_eq!(identify(&mut host, 3, 9).status, status::INVALID_NAMESPACE);
    assert_eq!(identify(&mut host, 6, 0).status, 0);
    let independent = identify(&mut host, 8, 1).data;
    assert_eq!((independent[1], u32_at(&independent, 4), independent[14]), (1, 1, 1));
    assert_eq!(identify(&mut host, 0x13, 0).status, status::INVALID_FIELD);
    // The host has room for less.
    let small = samples::with_data(samples::command(admin::IDENTIFY, 4, 0, [1, 0, 0, 0, 0, 0]), 512, false);
    assert_eq!(host.ask(&small).status, status::SGL_LENGTH);
}

#[test]
fn log_pages_and_features() {
    let server = serve(4096, 256);
    let mut host = Host::admin(&server, NQN, 0);
    let mut queue = Host::io(&server, &host, OFF, 0, 0);
    assert_eq!(queue.call(&blocks(io::WRITE, 0, 1, 0, 4096, true), &[1; 4096], true).status, 0);
    let supported = log(&mut host, 0, 0, 1024).data;
    for (page, there) in [(0, 1), (1, 1), (2, 1), (4, 1), (5, 1), (0x0c, 1), (0x70, 0)] {
        assert_eq!(supported[4 * page], there, "page {page}");
    }
    assert_eq!(log(&mut host, 1, 0, 64).data, [0; 64]);
    let health = log(&mut host, 2, 0, 512).data;
    assert_eq!((health[0], health[3], u64_at(&health, 48), u64_at(&health, 80)), (0, 100, 1, 1));
    assert_eq!(log(&mut host, 2, 48, 8).data, health[48..56], "a part of it");
    let effects = log(&mut host, 5, 0, 4096).data;
    assert_eq!((u32_at(&effects, 4 * 6), u32_at(&effects, 1024 + 4), u32_at(&effects, 4 * 0x10)), (1, 3, 0));
    let ana = log(&mut host, 0x0c, 0, 52).data;
    assert_eq!(
        (u16_at(&ana, 8), u32_at(&ana, 16), u32_at(&ana, 20), ana[32], u32_at(&ana, 48)),
        (1, 1, 1, 1, 1)
    );
    let full = 16 + 32 + 4 * 1024;
    assert_eq!(log(&mut host, 0x0c, 4096, full - 4096).status, 0, "in pieces, as nvme-cli does");
    assert_eq!(log(&mut host, 0x0c, u64::from(full) + 4, 4).status, status::INVALID_FIELD);
    assert_eq!(log(&mut host, 0x70, 0, 1024).status, status::INVALID_LOG_PAGE);
    assert_eq!(log(&mut host, 2, 3, 512).status, status::INVALID_FIELD);
    assert_eq!(feature(&mut host, admin::SET_FEATURES, 7, 0x0003_0003).result, 0x0007_0007);
    assert_eq!(feature(&mut host, admin::GET_FEATURES, 7, 0).result, 0x0007_0007);
    assert_eq!(feature(&mut host, admin::SET_FEATURES, 7, 0xffff).status, status::INVALID_FIELD);
    assert_eq!(feature(&mut host, admin::SET_FEATURES, 0x0b, 0xffff_ffff).status, 0);
    assert_eq!(feature(&mut host, admin::GET_FEATURES, 0x0b, 0).result, 1 << 8 | 1 << 11);
    assert_eq!(feature(&mut host, admin::SET_FEATURES, 0x0f, 120_000).status, 0);
    assert_eq!(feature(&mut host, admin::GET_FEATURES, 0x0f, 0).result, 120_000);
    assert_eq!(feature(&mut host, admin::SET_FEATURES, 0x0f, 0).status, status::KEEP_ALIVE_INVALID);
    assert_eq!(feature(&mut host, admin::SET_FEATURES, 6, 0).status, status::FEATURE_NOT_CHANGEABLE);
    assert_eq!(
        feature(&mut host, admin::SET_FEATURES, 1 << 31 | 0x0f, 9).status,
        status::FEATURE_NOT_SAVEABLE
    );
    assert_eq!(feature(&mut host, admin::SET_FEATURES, 0x0c, 0).status, status::INVALID_FIELD);
    assert_eq!(host.ask(&samples::command(admin::KEEP_ALIVE, 1, 0, [0; 6])).status, 0);
    assert_eq!(host.ask(&samples::command(admin::ABORT, 1, 0, [1, 0, 0, 0, 0, 0])).result, 1);
    for opcode in [0x00, 0x0d, 0x10, 0x80, 0x81, 0x7c] {
        assert_eq!(host.ask(&samples::command(opcode, 1, 0, [0; 6])).status, status::INVALID_OPCODE);
    }
    // Authentication.
    for kind in [5u32, 6] {
        assert_eq!(
            host.ask(&samples::command(admin::FABRICS, 1, kind, [0; 6])).status,
            status::INVALID_OPCODE
        );
    }
}

#[test]
fn discovery_names_every_subsystem_at_every_address() {
    let subsystems = Memory::new(512, 8).subsystems(NQN);
    let ports = ["127.0.0.1:0".to_owned(), "127.0.0.2:0".to_owned()];
    let server = Server::start(&ports, subsystems, Limits::default()).unwrap();
    let mut host = Host::admin(&server, DISCOVERY, 0);
    let c = identify(&mut host, 1, 0).data;
    assert_eq!((c[111], &c[768..768 + DISCOVERY.len()]), (2, DISCOVERY.as_bytes()));
    assert_eq!(identify(&mut host, 2, 0).status, status::INVALID_FIELD);
    let head = log(&mut host, 0x70, 0, 16).data;
    assert_eq!(u64_at(&head, 8), 4);
    let page = log(&mut host, 0x70, 0, 5 * 1024).data;
    assert_eq!(page[..16], head);
    let mut found = Vec::new();
    for record in page[1024..].chunks(1024) {
        assert_eq!((record[0], record[1], u16_at(record, 6)), (3, 1, 0xffff));
        let text = |at: usize| {
            let value = String::from_utf8_lossy(&record[at..at + 32]).into_owned();
            value.trim_end_matches([' ', '\0']).to_owned()
        };
        let nqn = if record[256..].starts_with(NQN.as_bytes()) { 2 } else { 3 };
        assert_eq!(record[2], nqn);
        found.push((nqn, format!("{}:{}", text(512), text(32))));
    }
    let expected: Vec<_> =
        server.addresses().iter().flat_map(|a| [(2, a.to_string()), (3, a.to_string())]).collect();
    assert_eq!(found, expected);
}

#[test]
fn connects_that_are_refused() {
    let server = serve(512, 8);
    let address = server.addresses()[0];
    let admin = Host::admin(&server, NQN, 0);
    let attempt = |queue: u16, controller: u16, nqn: &str, entries: u16, change: &dyn Fn(&mut Vec<u8>)| {
        let (command, mut data) = samples::connect(queue, controller, nqn, entries, 0, 0);
        change(&mut data);
        let mut host = Host::open(address, OFF, 0);
        let done = host.call(&command, &data, true);
        (done.status & !status::DNR, done.result)
    };
    let same = |_: &mut Vec<u8>| ();
    let wrong = status::CONNECT_PARAMETER;
    assert_eq!(attempt(0, ANY, "nqn.2014-08.org.example:none", 32, &same), (wrong, 1 << 16 | 256));
    assert_eq!(attempt(0, 7, NQN, 32, &same), (wrong, 1 << 16 | 16));
    assert_eq!(attempt(0, ANY, NQN, 31, &same), (wrong, 44));
    assert_eq!(attempt(0, ANY, NQN, 129, &same), (wrong, 44));
    assert_eq!(attempt(0, ANY, NQN, 32, &|d| d[512] = 0), (wrong, 1 << 16 | 512));
    assert_eq!(attempt(0, ANY, NQN, 32, &|d| d[256..512].fill(b'x')), (wrong, 1 << 16 | 256));
    // I/O queues of another host, of no controller, beyond the number of queues, twice.
    let of = admin.controller;
    assert_eq!(attempt(1, of, NQN, 32, &|d| d[0] = 9), (wrong, 1 << 16));
    assert_eq!(attempt(1, of, NQN, 32, &|d| d[520] = b'x'), (wrong, 1 << 16 | 512));
    assert_eq!(attempt(1, of + 1, NQN, 32, &same), (wrong, 1 << 16 | 16));
    assert_eq!(attempt(1, of, DISCOVERY, 32, &same), (wrong, 1 << 16 | 256));
    assert_eq!(attempt(9, of, NQN, 32, &same), (wrong, 42));
    let queue = Host::io(&server, &admin, OFF, 0, 0);
    assert_eq!(attempt(1, of, NQN, 32, &same), (wrong, 42));
    drop(queue);
    // Nothing but Connect is a first command.
    let mut host = Host::open(address, OFF, 0);
    assert_eq!(host.ask(&samples::property_get(1, 0, true)).status, status::COMMAND_SEQUENCE);
    // And none is a second one; a controller that is not enabled executes no other.
    let (command, data) = samples::connect(0, ANY, NQN, 32, 0, 0);
    assert_eq!(host.call(&command, &data, true).status, 0);
    assert_eq!(host.call(&command, &data, true).status, status::COMMAND_SEQUENCE);
    assert_eq!(identify(&mut host, 1, 0).status, status::COMMAND_SEQUENCE);
    assert_eq!(host.ask(&samples::property_get(1, 0, true)).result & 0xffff, 127);
    assert_eq!(host.ask(&samples::property_get(1, 8, false)).result, 0x20000);
    assert_eq!(host.ask(&samples::property_get(1, 0x68, false)).result, 15);
    assert_eq!(host.ask(&samples::property_get(1, 0, false)).status, status::INVALID_FIELD);
    assert_eq!(host.ask(&samples::property_set(1, 8, 1)).status, status::INVALID_FIELD);
    // Another command set: a fatal status.
    assert_eq!(host.ask(&samples::property_set(1, 0x14, ENABLED | 6 << 4)).status, 0);
    assert_eq!(host.ask(&samples::property_get(1, 0x1c, false)).result, 2);
}

/// A subsystem whose namespaces come and go, and which counts flushes.
#[derive(Default)]
struct Changing {
    there: Mutex<Vec<(u32, Arc<Memory>)>>,
    closed: Mutex<bool>,
}

impl Subsystem for Changing {
    fn nqn(&self) -> String {
        NQN.into()
    }
    fn serial(&self) -> String {
        "7".into()
    }
    fn model(&self) -> String {
        "Changing".into()
    }
    fn namespaces(&self) -> Vec<u32> {
        self.there.lock().iter().map(|(n, _)| *n).collect()
    }
    fn namespace(&self, nsid: u32) -> Option<Arc<dyn Namespace>> {
        let there = self.there.lock();
        there.iter().find(|(n, _)| *n == nsid).map(|(_, m)| m.clone() as Arc<dyn Namespace>)
    }
    fn in_service(&self) -> bool {
        !*self.closed.lock()
    }
}

#[test]
fn hosts_are_told_of_namespaces_that_come_and_go() {
    let changing = Arc::new(Changing::default());
    let only = Arc::new(Only(changing.clone()));
    let server = Server::start(&["127.0.0.1:0".to_owned()], only, Limits::default()).unwrap();
    let mut host = Host::admin(&server, NQN, 0);
    assert_eq!(feature(&mut host, admin::SET_FEATURES, 0x0b, 1 << 8).status, 0);
    for id in 20..24 {
        host.submit(&samples::command(admin::ASYNC_EVENT, id, 0, [0; 6]), b"");
    }
    assert_eq!(host.ask(&samples::command(admin::ASYNC_EVENT, 24, 0, [0; 6])).status, status::ASYNC_LIMIT);
    changing.there.lock().push((5, Memory::new(512, 8)));
    assert_eq!(completion(&host.receive().unwrap()).result, 0x04_00_02);
    changing.there.lock().push((6, Memory::new(512, 8)));
    // Another event only after the page was read.
    assert_eq!(host.ask(&samples::command(admin::KEEP_ALIVE, 1, 0, [0; 6])).status, 0);
    let page = log(&mut host, 4, 0, 4096).data;
    assert_eq!([0, 4, 8].map(|at| u32_at(&page, at)), [5, 6, 0]);
    changing.there.lock().remove(0);
    assert_eq!(completion(&host.receive().unwrap()).result, 0x04_00_02);
    assert_eq!(u32_at(&log(&mut host, 4, 0, 4096).data, 0), 5);
    // The subsystem leaves service: its controllers end, and no other is made.
    *changing.closed.lock() = true;
    assert!(host.receive().is_none());
    let mut again = Host::open(server.addresses()[0], OFF, 0);
    let (command, data) = samples::connect(0, ANY, NQN, 32, 0, 0);
    let refused = again.call(&command, &data, true).status;
    assert_eq!(refused, status::CONNECT_PARAMETER, "the host may try again");
}

#[test]
fn a_silent_host_loses_its_controller_and_a_shut_down_one_its_queues() {
    let server = serve(512, 8);
    let mut silent = Host::admin(&server, NQN, 200);
    let mut queue = Host::io(&server, &silent, OFF, 0, 0);
    assert!(silent.receive().is_none() && queue.receive().is_none());
    let mut host = Host::admin(&server, NQN, 0);
    let mut queue = Host::io(&server, &host, OFF, 0, 0);
    assert_eq!(host.ask(&samples::property_set(1, 0x14, ENABLED | 1 << 14)).status, 0);
    assert_eq!(host.ask(&samples::property_get(1, 0x1c, false)).result & 0xc, 8, "it is complete");
    assert!(queue.receive().is_none());
    assert_eq!(identify(&mut host, 1, 0).status, status::COMMAND_SEQUENCE);
    // A reset, and it works again.
    assert_eq!(host.ask(&samples::property_set(1, 0x14, 0)).status, 0);
    assert_eq!(host.ask(&samples::property_get(1, 0x1c, false)).result, 0);
    assert_eq!(host.ask(&samples::property_set(1, 0x14, ENABLED)).status, 0);
    let end = std::time::Instant::now() + LONG;
    while server.statistics().connections > 1 && std::time::Instant::now() < end {
        std::thread::yield_now();
    }
    let mut queue = Host::io(&server, &host, OFF, 0, 0);
    assert_eq!(queue.ask(&blocks(io::READ, 0, 1, 0, 512, false)).status, 0);
    // The end of the admin queue is that of the others.
    drop(host);
    assert!(queue.receive().is_none());
}
