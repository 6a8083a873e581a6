//! Reservations over sockets: two hosts at two servers of one namespace, notifications, features, and commands in progress.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::rig::*;
use crate::command::{SQE, admin, io};
use crate::memory::{Alone, Memory, Only};
use crate::namespace::{Fault, Namespace};
use crate::pdu::{u16_at, u32_at, u64_at};
use crate::reservation::Reservations;
use crate::samples::{self, ANY, ENABLED, NQN};
use crate::server::{Limits, Server};
use crate::status;

const CONFLICT: u16 = status::RESERVATION_CONFLICT;
const WE: u32 = 1 << 8;
const EA: u32 = 2 << 8;
const WE_RO: u32 = 3 << 8;

/// A host with an admin queue and an I/O queue.
struct Party {
    admin: Host,
    queue: Host,
}

/// Connects a host with an identifier that ends with `id`.
fn party(server: &Server, id: u8) -> Party {
    let open = |queue: u16, controller: u16| {
        let mut host = Host::open(server.addresses()[0], OFF, 0);
        let (command, mut data) = samples::connect(queue, controller, NQN, 32, 0, 0);
        data[15] = id;
        let done = host.call(&command, &data, true);
        assert_eq!(done.status, 0);
        host.controller = done.result as u16;
        host
    };
    let mut admin = open(0, ANY);
    assert_eq!(admin.ask(&samples::property_set(2, 0x14, ENABLED)).status, 0);
    let queue = open(1, admin.controller);
    Party { admin, queue }
}

/// Servers at two ports of the same namespace.
fn serve_twice(namespace: &Arc<dyn Namespace>) -> [Server; 2] {
    [1..=10, 11..=20].map(|numbers| {
        let only = Arc::new(Only(Arc::new(Alone::new(NQN, namespace.clone()))));
        Server::start_with(&["127.0.0.1:0".to_owned()], only, Limits::default(), numbers).unwrap()
    })
}

fn keys(first: u64, second: u64) -> Vec<u8> {
    [first, second].map(u64::to_le_bytes).concat()
}

impl Party {
    fn reserve(&mut self, opcode: u8, dword: u32, data: &[u8]) -> u16 {
        let command = samples::command(opcode, 3, 1, [dword, 0, 0, 0, 0, 0]);
        self.queue.call(&samples::with_data(command, data.len() as u32, true), data, true).status
    }

    fn register(&mut self, key: u64) -> u16 {
        self.reserve(io::RESERVATION_REGISTER, 0, &keys(0, key))
    }

    fn acquire(&mut self, key: u64, kind: u32) -> u16 {
        self.reserve(io::RESERVATION_ACQUIRE, kind, &keys(key, 0))
    }

    fn preempt(&mut self, key: u64, of: u64, kind: u32) -> u16 {
        self.reserve(io::RESERVATION_ACQUIRE, kind | 2, &keys(key, of))
    }

    fn release(&mut self, key: u64, kind: u32) -> u16 {
        self.reserve(io::RESERVATION_RELEASE, kind, &keys(key, 0)[..8])
    }

    fn report(&mut self) -> Vec<u8> {
        let command = samples::command(io::RESERVATION_REPORT, 3, 1, [63, 1, 0, 0, 0, 0]);
        let done = self.queue.ask(&samples::with_data(command, 256, false));
        assert_eq!(done.status, 0);
        done.data
    }

    /// Statuses of Read, Compare, Write, Write Zeroes, Dataset Management, Flush, and Flush of all namespaces.
    fn statuses(&mut self) -> [u16; 7] {
        let zeros = [0; 512];
        let range = [&[0; 4][..], &1u32.to_le_bytes(), &3u64.to_le_bytes()].concat();
        let trim =
            samples::with_data(samples::command(io::DATASET_MANAGEMENT, 7, 1, [0, 4, 0, 0, 0, 0]), 16, true);
        let queue = &mut self.queue;
        [
            queue.ask(&blocks(io::READ, 0, 1, 0, 512, false)).status,
            queue.call(&blocks(io::COMPARE, 0, 1, 0, 512, true), &zeros, true).status,
            queue.call(&blocks(io::WRITE, 0, 1, 0, 512, true), &zeros, true).status,
            queue.ask(&blocks(io::WRITE_ZEROES, 0, 1, 0, 0, false)).status,
            queue.call(&trim, &range, true).status,
            queue.ask(&samples::command(io::FLUSH, 1, 1, [0; 6])).status,
            queue.ask(&samples::command(io::FLUSH, 1, u32::MAX, [0; 6])).status,
        ]
    }

    fn ask_admin(&mut self, opcode: u8, nsid: u32, dwords: [u32; 2], room: u32) -> Done {
        let command: [u8; SQE] = samples::command(opcode, 5, nsid, [dwords[0], dwords[1], 0, 0, 0, 0]);
        self.admin.ask(&samples::with_data(command, room, false))
    }

    /// Number, type, further pages and namespace of the oldest notice.
    fn notice(&mut self, keep: bool) -> (u64, u8, u8, u32) {
        let dword = 0x80 | 15 << 16 | u32::from(keep) << 15;
        let page = self.ask_admin(admin::GET_LOG_PAGE, 0, [dword, 0], 64).data;
        (u64_at(&page, 0), page[8], page[9], u32_at(&page, 12))
    }
}

const ALL: [u16; 7] = [0; 7];
const READ_ONLY: [u16; 7] = [0, 0, CONFLICT, CONFLICT, CONFLICT, CONFLICT, CONFLICT];
const NOTHING: [u16; 7] = [CONFLICT; 7];

#[test]
fn hosts_at_two_ports_share_the_reservations_of_a_namespace() {
    let namespace: Arc<dyn Namespace> = Memory::new(512, 64);
    let [first, second] = serve_twice(&namespace);
    let (mut a, mut b) = (party(&first, 1), party(&second, 2));
    assert_eq!((a.acquire(1, WE), a.register(1), b.register(2)), (CONFLICT, 0, 0));
    assert_eq!((a.statuses(), b.statuses()), (ALL, ALL));
    assert_eq!((a.acquire(1, WE), b.acquire(2, WE)), (0, CONFLICT));
    assert_eq!((a.statuses(), b.statuses()), (ALL, READ_ONLY));
    let report = b.report();
    assert_eq!((u32_at(&report, 0), report[4], u16_at(&report, 5), report[9]), (2, 1, 2, 0));
    assert_eq!((report[66], u64_at(&report, 72), report[64 + 31]), (1, 1, 1));
    assert_eq!((report[130], u64_at(&report, 136), report[128 + 31]), (0, 2, 2));
    // It is the host that holds it, not the connection: another controller of the host may write, and a new one.
    assert_eq!(party(&second, 1).statuses(), ALL);
    drop(a);
    assert_eq!(b.statuses(), READ_ONLY);
    let mut a = party(&second, 1);
    assert_eq!(a.statuses(), ALL);
    // The other one takes over.
    assert_eq!(b.preempt(2, 1, EA), 0);
    assert_eq!((a.statuses(), b.statuses()), (NOTHING, ALL));
    assert_eq!(a.release(1, EA), CONFLICT, "it is not registered any more");
    assert_eq!((b.release(2, WE), b.release(2, EA)), (status::INVALID_FIELD, 0));
    assert_eq!((a.statuses(), b.statuses()), (ALL, ALL));
    assert_eq!(b.reserve(io::RESERVATION_RELEASE, 1, &2u64.to_le_bytes()), 0, "clear");
    assert_eq!(u16_at(&b.report(), 5), 0);
    // A registrant under a type for registrants.
    assert_eq!((a.register(1), b.register(2), a.acquire(1, WE_RO)), (0, 0, 0));
    assert_eq!((b.statuses(), party(&first, 3).statuses()), (ALL, READ_ONLY));
    // A namespace that is not there, and no namespace.
    let elsewhere = samples::command(io::RESERVATION_REPORT, 3, 2, [15, 1, 0, 0, 0, 0]);
    let done = b.queue.ask(&samples::with_data(elsewhere, 64, false));
    assert_eq!(done.status, status::INVALID_NAMESPACE);
}

#[test]
fn hosts_are_told_of_preemptions_and_releases() {
    let namespace: Arc<dyn Namespace> = Memory::new(512, 64);
    let [first, second] = serve_twice(&namespace);
    let (mut a, mut b) = (party(&first, 1), party(&second, 2));
    assert_eq!((a.register(1), b.register(2), a.acquire(1, WE_RO)), (0, 0, 0));
    b.admin.submit(&samples::command(admin::ASYNC_EVENT, 9, 0, [0; 6]), b"");
    assert_eq!(a.release(1, WE_RO), 0);
    assert_eq!(completion(&b.admin.receive().unwrap()).result, 0x80_00_06);
    // A second notice before the first is read is no second event.
    b.admin.submit(&samples::command(admin::ASYNC_EVENT, 9, 0, [0; 6]), b"");
    assert_eq!((a.acquire(1, WE_RO), a.preempt(1, 2, WE_RO)), (0, 0));
    assert_eq!(b.notice(true), (1, 2, 1, 1));
    assert_eq!(b.notice(false), (1, 2, 1, 1));
    // There is one more page: an event says so, before or after its answer.
    let event = completion(&b.admin.receive().unwrap());
    assert_eq!(event.result, 0x80_00_06);
    assert_eq!(b.notice(false), (2, 1, 0, 1));
    assert_eq!(b.notice(false), (0, 0, 0, 0), "there is none");
    assert_eq!(a.notice(false), (0, 0, 0, 0), "whoever acts is not told");
    // Masked.
    let mask = |b: &mut Party, nsid, value| b.ask_admin(admin::SET_FEATURES, nsid, [0x82, value], 0);
    assert_eq!(mask(&mut b, u32::MAX, 1 << 2).status, 0);
    assert_eq!(b.register(2), 0);
    assert_eq!(a.release(1, WE_RO), 0);
    assert_eq!(b.notice(false), (0, 0, 0, 0));
    assert_eq!((mask(&mut b, 1, 0).status, a.acquire(1, WE_RO), a.release(1, WE_RO)), (0, 0, 0));
    assert_eq!(b.notice(false), (3, 2, 0, 1));
}

#[test]
fn features_and_identification() {
    let namespace: Arc<dyn Namespace> = Memory::new(512, 64);
    let [server, _other] = serve_twice(&namespace);
    let mut a = party(&server, 1);
    let identify = |a: &mut Party, cns, nsid| a.ask_admin(admin::IDENTIFY, nsid, [cns, 0], 4096).data;
    assert_eq!(u16_at(&identify(&mut a, 1, 0), 520) >> 5 & 1, 1);
    assert_eq!((identify(&mut a, 0, 1)[31], identify(&mut a, 8, 1)[2]), (0xfe, 0xfe));
    let get =
        |a: &mut Party, nsid, feature, value| a.ask_admin(admin::GET_FEATURES, nsid, [feature, value], 16);
    let set =
        |a: &mut Party, nsid, feature, value| a.ask_admin(admin::SET_FEATURES, nsid, [feature, value], 0);
    let mut id = [0; 16];
    id[15] = 1;
    let host = get(&mut a, 0, 0x81, 1);
    assert_eq!((host.status, host.result, host.data), (0, 1, id.to_vec()));
    assert_eq!(get(&mut a, 0, 0x81, 0).status, status::HOST_IDENTIFIER_FORMAT);
    assert_eq!(set(&mut a, 0, 0x81, 1).status, status::COMMAND_SEQUENCE);
    assert_eq!((set(&mut a, 1, 0x82, 0xe).status, get(&mut a, 1, 0x82, 0).result), (0, 0xe));
    assert_eq!(set(&mut a, 1, 0x82, 1).status, status::INVALID_FIELD);
    assert_eq!(get(&mut a, u32::MAX, 0x82, 0).status, status::INVALID_NAMESPACE);
    assert_eq!((get(&mut a, 1, 0x83, 0).status, get(&mut a, 1, 0x83, 0).result), (0, 0));
    assert_eq!((set(&mut a, 1, 0x83, 0).status, set(&mut a, 1, 0x83, 1).status), (0, status::INVALID_FIELD));
    assert_eq!(set(&mut a, 7, 0x83, 0).status, status::INVALID_NAMESPACE);
    let supported = a.ask_admin(admin::GET_LOG_PAGE, 0, [255 << 16, 0], 1024).data;
    assert_eq!(supported[4 * 0x80], 1);
    let effects = a.ask_admin(admin::GET_LOG_PAGE, 0, [5 | 1023 << 16, 0], 4096).data;
    for opcode in [0x0d, 0x0e, 0x11, 0x15] {
        assert_eq!(u32_at(&effects, 1024 + 4 * opcode), 1);
    }
    // What would persist through a loss of power is refused.
    let persist = a.reserve(io::RESERVATION_REGISTER, 3 << 30, &keys(0, 1));
    assert_eq!((persist, u16_at(&a.report(), 5)), (status::INVALID_FIELD, 0));
}

/// A namespace whose writes wait.
struct Slow {
    memory: Arc<Memory>,
    let_go: AtomicBool,
    begun: AtomicU64,
    ended: AtomicU64,
}

impl Namespace for Slow {
    fn block(&self) -> u32 {
        self.memory.block()
    }
    fn blocks(&self) -> u64 {
        self.memory.blocks()
    }
    fn id(&self) -> [u8; 16] {
        self.memory.id()
    }
    fn reservations(&self) -> Option<&Reservations> {
        self.memory.reservations()
    }
    fn read(&self, at: u64, out: &mut [u8]) -> Result<(), Fault> {
        self.memory.read(at, out)
    }
    fn write(&self, at: u64, data: Vec<u8>, durable: bool) -> Result<(), Fault> {
        self.begun.fetch_add(1, Ordering::SeqCst);
        let until = Instant::now() + LONG;
        while !self.let_go.load(Ordering::SeqCst) && Instant::now() < until {
            thread::sleep(Duration::from_millis(2));
        }
        let done = self.memory.write(at, data, durable);
        self.ended.fetch_add(1, Ordering::SeqCst);
        done
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

/// A write of A is executed; B asks for something that has to wait for it. What A sends meanwhile is refused at once.
fn waits(prepare: impl Fn(&mut Party, &mut Party), ask: impl Fn(&mut Party) -> u16 + Send) {
    let slow = Arc::new(Slow {
        memory: Memory::new(512, 64),
        let_go: AtomicBool::new(false),
        begun: AtomicU64::new(0),
        ended: AtomicU64::new(0),
    });
    let namespace: Arc<dyn Namespace> = slow.clone();
    let [first, second] = serve_twice(&namespace);
    let (mut a, mut b) = (party(&first, 1), party(&second, 2));
    prepare(&mut a, &mut b);
    a.queue.submit(&blocks(io::WRITE, 0, 1, 0, 512, true), &[7; 512]);
    while slow.begun.load(Ordering::SeqCst) == 0 {
        thread::sleep(Duration::from_millis(1));
    }
    thread::scope(|scope| {
        let (slow, b) = (&slow, &mut b);
        let asking = scope.spawn(move || {
            let status = ask(b);
            (status, slow.ended.load(Ordering::SeqCst))
        });
        // In force before it is answered, also for a new connection of the same host.
        let mut again = party(&second, 1);
        let until = Instant::now() + LONG;
        while again.queue.call(&blocks(io::COMPARE, 9, 1, 0, 512, true), &[0; 512], true).status == 0
            && again.queue.ask(&blocks(io::WRITE_ZEROES, 9, 1, 0, 0, false)).status == 0
        {
            assert!(Instant::now() < until);
        }
        thread::sleep(Duration::from_millis(100));
        assert!(!asking.is_finished(), "it has not waited");
        // What was refused to it needs no patience, and other commands go on.
        assert_eq!(again.queue.ask(&blocks(io::WRITE_ZEROES, 9, 1, 0, 0, false)).status, CONFLICT);
        slow.let_go.store(true, Ordering::SeqCst);
        assert_eq!(asking.join().unwrap(), (0, 1));
    });
    assert_eq!(completion(&a.queue.receive().unwrap()).status, 0, "it was executed before");
    assert_eq!(b.queue.ask(&blocks(io::READ, 0, 1, 0, 512, false)).data, [7; 512]);
}

#[test]
fn a_preemption_waits_for_commands_of_the_preempted_host() {
    let prepare = |a: &mut Party, b: &mut Party| {
        assert_eq!((a.register(1), b.register(2), a.acquire(1, WE)), (0, 0, 0));
    };
    for action in [1, 2] {
        waits(prepare, |b| b.reserve(io::RESERVATION_ACQUIRE, action | WE, &keys(2, 1)));
    }
}

#[test]
fn an_acquisition_waits_for_commands_that_were_accepted_before() {
    waits(|_, b| assert_eq!(b.register(2), 0), |b| b.acquire(2, EA));
}

#[test]
fn a_host_that_lost_its_connection_while_it_waited_learns_nothing_before_the_end() {
    let slow = Arc::new(Slow {
        memory: Memory::new(512, 64),
        let_go: AtomicBool::new(false),
        begun: AtomicU64::new(0),
        ended: AtomicU64::new(0),
    });
    let namespace: Arc<dyn Namespace> = slow.clone();
    let [first, second] = serve_twice(&namespace);
    let (mut a, mut b) = (party(&first, 1), party(&second, 2));
    assert_eq!((a.register(1), b.register(2), a.acquire(1, WE)), (0, 0, 0));
    a.queue.submit(&blocks(io::WRITE, 0, 1, 0, 512, true), &[7; 512]);
    while slow.begun.load(Ordering::SeqCst) == 0 {
        thread::sleep(Duration::from_millis(1));
    }
    let command = samples::command(io::RESERVATION_ACQUIRE, 3, 1, [WE | 2, 0, 0, 0, 0, 0]);
    b.queue.submit(&samples::with_data(command, 16, true), &keys(2, 1));
    let until = Instant::now() + LONG;
    while slow.reservations().unwrap().status().registrants.len() == 2 {
        assert!(Instant::now() < until);
        thread::sleep(Duration::from_millis(1));
    }
    drop(b);
    let mut b = party(&second, 2);
    thread::scope(|scope| {
        let slow = &slow;
        let asking = scope.spawn(move || (b.report()[4], slow.ended.load(Ordering::SeqCst)));
        thread::sleep(Duration::from_millis(100));
        slow.let_go.store(true, Ordering::SeqCst);
        assert_eq!(asking.join().unwrap(), (1, 1), "it holds the reservation, and the write has ended");
    });
}
