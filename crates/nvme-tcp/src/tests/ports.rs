//! Several servers of the same subsystems, as ports of one device: numbers of controllers, what each host sees, health.

use std::sync::Arc;

use super::rig::*;
use crate::command::admin;
use crate::memory::Memory;
use crate::namespace::{DISCOVERY, DiscoveryRecord, Fault, Health, Namespace, Subsystem, Subsystems};
use crate::pdu::{u16_at, u64_at};
use crate::samples::{self, ANY, HOST, NQN};
use crate::server::{Limits, Server};
use crate::status;

/// A device with a health of its own, for one host.
struct Device(Arc<Memory>);

impl Subsystem for Device {
    fn nqn(&self) -> String {
        NQN.into()
    }

    fn serial(&self) -> String {
        "1".into()
    }

    fn model(&self) -> String {
        "Device".into()
    }

    fn namespaces(&self) -> Vec<u32> {
        vec![1]
    }

    fn namespace(&self, nsid: u32) -> Option<Arc<dyn Namespace>> {
        (nsid == 1).then(|| Arc::new(Named(self.0.clone())) as Arc<dyn Namespace>)
    }

    fn health(&self) -> Option<Health> {
        Some(Health {
            critical_warning: 2,
            kelvins: 350,
            spare: 99,
            spare_threshold: 10,
            used: 7,
            hours: 1234,
            warning_kelvins: 343,
            critical_kelvins: 353,
            warning_minutes: 5,
            ..Health::default()
        })
    }

    fn in_service(&self) -> bool {
        true
    }
}

/// A thin namespace with an EUI-64.
struct Named(Arc<Memory>);

impl Namespace for Named {
    fn block(&self) -> u32 {
        self.0.block()
    }

    fn blocks(&self) -> u64 {
        self.0.blocks()
    }

    fn id(&self) -> [u8; 16] {
        self.0.id()
    }

    fn eui64(&self) -> Option<[u8; 8]> {
        Some(*b"\x02eui-64\0")
    }

    fn used(&self) -> Option<u64> {
        Some(3)
    }

    fn read(&self, at: u64, out: &mut [u8]) -> Result<(), Fault> {
        self.0.read(at, out)
    }

    fn write(&self, at: u64, data: Vec<u8>, durable: bool) -> Result<(), Fault> {
        self.0.write(at, data, durable)
    }

    fn flush(&self) -> Result<(), Fault> {
        self.0.flush()
    }

    fn zero(&self, at: u64, len: u64, keep: bool, durable: bool) -> Result<(), Fault> {
        self.0.zero(at, len, keep, durable)
    }

    fn trim(&self, at: u64, len: u64) -> Result<(), Fault> {
        self.0.trim(at, len)
    }
}

/// Seen by one host alone.
struct Zoned {
    memory: Arc<Memory>,
    host: &'static str,
}

impl Subsystems for Zoned {
    fn list(&self) -> Vec<Arc<dyn Subsystem>> {
        Vec::new()
    }

    fn open_for(&self, nqn: &str, host: &str) -> Option<Arc<dyn Subsystem>> {
        (nqn == NQN && host == self.host).then(|| Arc::new(Device(self.memory.clone())) as Arc<dyn Subsystem>)
    }

    fn discovery_records(&self, host: &str) -> Option<Vec<DiscoveryRecord>> {
        let at = |port: u16| {
            let address = format!("127.0.0.{port}:4420").parse().unwrap();
            DiscoveryRecord { nqn: NQN.into(), port, address }
        };
        Some(if host == self.host { vec![at(3), at(5)] } else { Vec::new() })
    }
}

fn serve_zoned(host: &'static str, first: u16) -> Server {
    let zoned = Arc::new(Zoned { memory: Memory::new(4096, 8), host });
    let address = ["127.0.0.1:0".to_owned()];
    Server::start_with(&address, zoned, Limits::default(), first..=first + 1).unwrap()
}

fn page(host: &mut Host, opcode: u8, nsid: u32, first: u32, len: u32) -> Vec<u8> {
    let command = samples::command(opcode, 4, nsid, [first, 0, 0, 0, 0, 0]);
    let done = host.ask(&samples::with_data(command, len, false));
    assert_eq!(done.status, 0);
    done.data
}

#[test]
fn controllers_have_numbers_of_the_range_of_their_server() {
    let server = serve_zoned(HOST, 2001);
    let hosts: Vec<Host> = (0..2).map(|_| Host::admin(&server, NQN, 0)).collect();
    assert_eq!(hosts.iter().map(|h| h.controller).collect::<Vec<_>>(), [2001, 2002]);
    let mut third = Host::open(server.addresses()[0], OFF, 0);
    let (command, data) = samples::connect(0, ANY, NQN, 32, 0, 0);
    assert_eq!(third.call(&command, &data, true).status, status::CONNECT_BUSY, "there is no number left");
}

#[test]
fn hosts_see_what_is_theirs_at_all_ports() {
    let server = serve_zoned(HOST, 1);
    let mut host = Host::admin(&server, DISCOVERY, 0);
    let log = page(&mut host, admin::GET_LOG_PAGE, 0, 0x70 | (5 * 256 - 1) << 16, 5 * 1024);
    assert_eq!(u64_at(&log, 8), 3, "the device at two ports, and discovery at this one");
    assert_eq!([1, 2, 3].map(|i| (log[1024 * i + 2], u16_at(&log, 1024 * i + 4))), [(3, 1), (2, 3), (2, 5)]);
    assert!(log[2048 + 256..].starts_with(NQN.as_bytes()) && log[2048 + 512..].starts_with(b"127.0.0.3 "));
    let server = serve_zoned("nqn.another", 1);
    let mut host = Host::admin(&server, DISCOVERY, 0);
    let log = page(&mut host, admin::GET_LOG_PAGE, 0, 0x70 | (5 * 256 - 1) << 16, 5 * 1024);
    assert_eq!(u64_at(&log, 8), 1);
    let mut refused = Host::open(server.addresses()[0], OFF, 0);
    let (command, data) = samples::connect(0, ANY, NQN, 32, 0, 0);
    assert_eq!(refused.call(&command, &data, true).status, status::CONNECT_PARAMETER);
}

#[test]
fn health_and_eui64_are_those_of_the_device() {
    let server = serve_zoned(HOST, 1);
    let mut host = Host::admin(&server, NQN, 0);
    let health = page(&mut host, admin::GET_LOG_PAGE, 0, 2 | 127 << 16, 512);
    assert_eq!((health[0], u16_at(&health, 1), health[3], health[4], health[5]), (2, 350, 99, 10, 7));
    assert_eq!((u64_at(&health, 128), u16_at(&health, 192)), (1234, 5));
    let controller = page(&mut host, admin::IDENTIFY, 0, 1, 4096);
    assert_eq!((u16_at(&controller, 266), u16_at(&controller, 268)), (343, 353));
    let namespace = page(&mut host, admin::IDENTIFY, 1, 0, 4096);
    assert_eq!(namespace[120..128], *b"\x02eui-64\0");
    // NCAP is NSZE, NUSE what is used; NSFEAT says that it is thin.
    assert_eq!((u64_at(&namespace, 8), u64_at(&namespace, 16), namespace[24]), (u64_at(&namespace, 0), 3, 1));
    let descriptors = page(&mut host, admin::IDENTIFY, 1, 3, 4096);
    assert_eq!((&descriptors[..4], &descriptors[4..12]), (&[1, 8, 0, 0][..], &b"\x02eui-64\0"[..]));
    assert_eq!((descriptors[12], descriptors[32], descriptors[52]), (2, 3, 4));
}

#[test]
fn server_that_is_cut_answers_nothing_more() {
    let server = serve_zoned(HOST, 1);
    let mut host = Host::admin(&server, NQN, 0);
    server.cut();
    assert!(host.receive().is_none());
}
