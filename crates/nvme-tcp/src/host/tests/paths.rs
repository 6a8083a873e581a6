//! Several paths: which one is taken, what happens when one breaks, and what a target does that executes a command late.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use super::rig::*;
use crate::ana::AnaState;
use crate::error::Error;
use crate::host::{Address, HostOptions, IoPolicy, RemoteNamespace};
use crate::memory::{Alone, Memory, Only};
use crate::namespace::{Fault, Namespace};
use crate::samples::NQN;
use crate::server::{Limits, Server};

const B: usize = 4096;

/// A subsystem with two ports.
fn serve(namespace: Arc<dyn Namespace>) -> (Server, Arc<Alone>, [SocketAddr; 2]) {
    let ports = Arc::new(Alone::new(NQN, namespace));
    let listen = ["127.0.0.1:0".to_owned(), "127.0.0.2:0".to_owned()];
    let server = Server::start(&listen, Arc::new(Only(ports.clone())), Limits::default()).unwrap();
    let addresses = [server.addresses()[0], server.addresses()[1]];
    (server, ports, addresses)
}

/// A namespace all of whose paths are connected.
fn attach(address: &Address, options: HostOptions) -> RemoteNamespace {
    let namespace = RemoteNamespace::attach(address, options).unwrap();
    until(|| namespace.paths().iter().all(|p| p.state == "live"));
    namespace
}

fn commands(namespace: &RemoteNamespace) -> Vec<u64> {
    namespace.paths().iter().map(|p| p.commands).collect()
}

#[test]
fn writes_go_on_when_one_path_after_the_other_breaks() {
    for policy in [IoPolicy::RoundRobin, IoPolicy::QueueDepth, IoPolicy::Latency] {
        assert_eq!(policy.to_string().parse(), Ok(policy));
        let (_server, _, ports) = serve(Memory::new(4096, 256));
        let proxies = ports.map(Proxy::plain);
        let address = across(&[proxies[0].address, proxies[1].address], NQN, 1);
        let namespace = attach(&address, HostOptions { policy, ..options() });
        let (finished, turns) = (AtomicBool::new(false), AtomicU64::new(0));
        let last = std::thread::scope(|scope| {
            let writer = scope.spawn(|| {
                let mut last = vec![0u64; 256];
                while !finished.load(Ordering::Acquire) {
                    let turn = turns.fetch_add(1, Ordering::AcqRel) + 1;
                    let block = turn * 7 % 250;
                    namespace.write(block * B as u64, &content(turn, 3 * B)).unwrap();
                    last[block as usize..block as usize + 3].fill(0);
                    last[block as usize] = turn;
                    if turn % 8 == 0 {
                        namespace.flush().unwrap();
                    }
                }
                last
            });
            for round in 0..6 {
                let before = turns.load(Ordering::Acquire);
                until(|| turns.load(Ordering::Acquire) > before + 20);
                until(|| namespace.paths().iter().all(|p| p.state == "live"));
                proxies[round % 2].cut();
            }
            finished.store(true, Ordering::Release);
            writer.join().unwrap()
        });
        until(|| namespace.losses() >= 6);
        assert!(commands(&namespace).iter().all(|n| *n > 0), "{policy}");
        for (block, turn) in last.into_iter().enumerate().filter(|(_, turn)| *turn > 0) {
            let mut back = vec![0; B];
            namespace.read((block * B) as u64, &mut back).unwrap();
            assert!(back == content(turn, 3 * B)[..B], "{policy}: block {block}");
        }
    }
}

#[test]
fn round_robin_uses_all_paths_equally() {
    let (_server, _, ports) = serve(Memory::new(4096, 16));
    let namespace = attach(&across(&ports, NQN, 1), options());
    for _ in 0..40 {
        namespace.read(0, &mut vec![0; B]).unwrap();
    }
    assert_eq!(commands(&namespace), [20, 20]);
    assert_eq!(namespace.facts().ana_group, 1);
}

#[test]
fn ana_states_decide_which_path_is_taken() {
    let (_server, subsystem, ports) = serve(Memory::new(4096, 16));
    let namespace = attach(&across(&ports, NQN, 1), options());
    let mut back = vec![0; B];
    // Where ten reads go.
    let mut go = |first: AnaState, second: AnaState| {
        subsystem.states.set(ports[0], 1, first);
        subsystem.states.set(ports[1], 1, second);
        until(|| namespace.paths().iter().map(|p| p.ana).eq([first, second]));
        let before = commands(&namespace);
        (0..10).for_each(|_| namespace.read(0, &mut back).unwrap());
        let after = commands(&namespace);
        [after[0] - before[0], after[1] - before[1]]
    };
    use AnaState::{Change, Inaccessible, NonOptimized, Optimized, PersistentLoss};
    assert_eq!(go(NonOptimized, Optimized), [0, 10]);
    assert_eq!(go(NonOptimized, NonOptimized), [5, 5]);
    for bad in [Inaccessible, PersistentLoss, Change] {
        assert_eq!(go(bad, NonOptimized), [0, 10], "{bad}");
        assert_eq!(go(Optimized, bad), [10, 0], "{bad}");
    }
    // The status of a command says it before the notice does.
    subsystem.states.set(ports[0], 1, Inaccessible);
    subsystem.states.set(ports[1], 1, Optimized);
    (0..4).for_each(|_| namespace.read(0, &mut vec![0; B]).unwrap());
    // None: requests wait.
    subsystem.states.set(ports[1], 1, Inaccessible);
    until(|| namespace.paths().iter().all(|p| p.ana == Inaccessible && p.why.is_some()));
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| namespace.read(0, &mut vec![0; B]));
        subsystem.states.set(ports[0], 1, NonOptimized);
        reader.join().unwrap().unwrap();
    });
}

#[test]
fn requests_fail_when_every_path_is_inaccessible_for_too_long() {
    let (_server, subsystem, ports) = serve(Memory::new(4096, 16));
    let fast_io_fail_timeout = Duration::from_millis(300);
    let namespace = attach(&across(&ports, NQN, 1), HostOptions { fast_io_fail_timeout, ..options() });
    ports.iter().for_each(|p| subsystem.states.set(*p, 1, AnaState::Inaccessible));
    let error = namespace.read(0, &mut vec![0; B]).unwrap_err();
    assert!(matches!(error, Error::Unreachable { .. }), "{error}");
    subsystem.states.set(ports[1], 1, AnaState::Optimized);
    until(|| namespace.read(0, &mut vec![0; B]).is_ok());
}

/// A namespace that executes the first write of ones only when it is told to, and counts flushes and writes.
#[derive(Default)]
struct Late {
    memory: Option<Arc<Memory>>,
    state: Mutex<LateState>,
    changed: Condvar,
    flushes: AtomicU64,
    /// Ranges that are held are those of an identity.
    id: u8,
}

#[derive(Default)]
struct LateState {
    /// Somebody waits, or has waited.
    begun: bool,
    released: bool,
    /// The late write was executed.
    executed: bool,
    /// The first bytes of all other writes.
    seen: Vec<u8>,
}

impl Late {
    fn new(id: u8) -> Arc<Late> {
        Arc::new(Late { memory: Some(Memory::new(4096, 64)), id, ..Late::default() })
    }

    fn memory(&self) -> &Memory {
        self.memory.as_ref().unwrap()
    }

    fn has_seen(&self, byte: u8) -> bool {
        self.state.lock().seen.contains(&byte)
    }
}

impl Namespace for Late {
    fn block(&self) -> u32 {
        4096
    }
    fn blocks(&self) -> u64 {
        64
    }
    fn id(&self) -> [u8; 16] {
        [self.id; 16]
    }
    fn read(&self, at: u64, out: &mut [u8]) -> Result<(), Fault> {
        self.memory().read(at, out)
    }
    fn write(&self, at: u64, data: Vec<u8>, durable: bool) -> Result<(), Fault> {
        let mut state = self.state.lock();
        if data[0] == 1 && !state.begun {
            state.begun = true;
            while !state.released {
                self.changed.wait(&mut state);
            }
            self.memory().write(at, data, durable)?;
            state.executed = true;
            return Ok(());
        }
        state.seen.push(data[0]);
        self.memory().write(at, data, durable)
    }
    fn flush(&self) -> Result<(), Fault> {
        self.flushes.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
    fn zero(&self, at: u64, len: u64, keep: bool, durable: bool) -> Result<(), Fault> {
        self.memory().zero(at, len, keep, durable)
    }
    fn trim(&self, at: u64, len: u64) -> Result<(), Fault> {
        self.memory().trim(at, len)
    }
}

#[test]
fn a_write_that_is_executed_late_does_not_undo_a_later_one() {
    let late = Late::new(21);
    let (_server, subsystem, ports) = serve(late.clone());
    subsystem.states.set(ports[1], 1, AnaState::NonOptimized);
    let proxy = Proxy::plain(ports[0]);
    let quiesce = Duration::from_secs(10);
    let namespace = attach(&across(&[proxy.address, ports[1]], NQN, 1), HostOptions { quiesce, ..options() });
    std::thread::scope(|scope| {
        let first = scope.spawn(|| namespace.write(0, &[1; B]));
        until(|| late.state.lock().begun);
        // The path breaks, for good, while the target has the command.
        let cut = proxy;
        cut.cut();
        drop(cut);
        first.join().unwrap().unwrap();
        assert!(late.has_seen(1), "it was repeated on the other path");
        let second = scope.spawn(|| namespace.write(0, &[2; 2 * B]));
        until(|| namespace.device().ranges.waiting() == 1 || late.has_seen(2));
        assert!(!late.has_seen(2), "the second waits: the first may still be executed");
        // Neither reads nor other blocks wait.
        namespace.write(8 * B as u64, &[3; B]).unwrap();
        let mut back = vec![0; B];
        namespace.read(0, &mut back).unwrap();
        assert!(back == [1; B] && late.has_seen(3) && !late.has_seen(2));
        late.state.lock().released = true;
        late.changed.notify_all();
        until(|| late.state.lock().executed);
        second.join().unwrap().unwrap();
    });
    let mut back = vec![0; 2 * B];
    namespace.read(0, &mut back).unwrap();
    assert!(back == [2; 2 * B], "the second is what stays");
}

#[test]
fn a_namespace_that_is_attached_again_remembers_writes_that_may_be_late() {
    let late = Late::new(22);
    let (_server, _, ports) = serve(late.clone());
    let (quiesce, fast_io_fail_timeout) = (Duration::from_secs(10), Duration::from_millis(100));
    let proxy = Proxy::plain(ports[0]);
    let options = HostOptions { quiesce, fast_io_fail_timeout, ..options() };
    let namespace = attach(&at(proxy.address, NQN, 1), options.clone());
    std::thread::scope(|scope| {
        let first = scope.spawn(|| namespace.write(0, &[1; B]));
        until(|| late.state.lock().begun);
        let cut = proxy;
        cut.cut();
        drop(cut);
        assert!(matches!(first.join().unwrap(), Err(Error::Unreachable { .. })));
    });
    drop(namespace);
    std::thread::scope(|scope| {
        // The target lets a host connect again once its earlier controller executes nothing.
        let other = HostOptions::new().unwrap();
        let options = HostOptions { host_id: other.host_id, host_nqn: other.host_nqn, ..options };
        let namespace = Arc::new(RemoteNamespace::attach(&at(ports[1], NQN, 1), options).unwrap());
        let mine = namespace.clone();
        let second = scope.spawn(move || mine.write(0, &[2; B]));
        until(|| namespace.device().ranges.waiting() == 1 || late.has_seen(2));
        assert!(!late.has_seen(2));
        late.state.lock().released = true;
        late.changed.notify_all();
        second.join().unwrap().unwrap();
        until(|| late.state.lock().executed);
        let mut back = vec![0; B];
        namespace.read(0, &mut back).unwrap();
        assert!(back == [2; B]);
    });
}

#[test]
fn every_controller_flushes_what_it_has_written_and_what_a_lost_one_has_is_written_again() {
    let late = Late::new(23);
    let (_server, _, ports) = serve(late.clone());
    let proxy = Proxy::plain(ports[0]);
    let namespace = attach(&across(&[proxy.address, ports[1]], NQN, 1), options());
    namespace.write(0, &[4; B]).unwrap();
    namespace.write(8 * B as u64, &[5; B]).unwrap();
    let flushes = || late.flushes.load(Ordering::Relaxed);
    namespace.flush().unwrap();
    assert_eq!(flushes(), 2, "one by each controller");
    let seen = || std::mem::take(&mut late.state.lock().seen);
    assert_eq!(seen(), [4, 5]);
    // The first two by different controllers; the last is over a half of the first.
    namespace.write(0, &[6; 2 * B]).unwrap();
    namespace.write(8 * B as u64, &[7; 2 * B]).unwrap();
    assert_eq!(seen(), [6, 7]);
    let by_first = namespace.paths()[0].commands;
    proxy.cut();
    drop(proxy);
    until(|| namespace.paths()[0].state == "connecting");
    // What the other one has written is not written again.
    namespace.write(B as u64, &[8; B]).unwrap();
    let mut back = vec![0; 3 * B];
    namespace.read(0, &mut back).unwrap();
    assert!(back[..B] == [6; B] && back[B..2 * B] == [8; B] && by_first > 0);
    let again = seen();
    assert!(again == [8, 6] || again == [8, 7], "{again:?}");
    namespace.flush().unwrap();
    assert_eq!((seen(), flushes() > 2), (vec![], true));
}

#[test]
fn a_path_is_given_up_after_the_time_of_the_options() {
    let target = Target::memory(4096, 64);
    let ctrl_loss_timeout = Some(Duration::from_millis(200));
    let namespace = target.namespace(HostOptions { ctrl_loss_timeout, ..options() });
    target.stop();
    until(|| namespace.paths()[0].state == "lost");
    let error = namespace.read(0, &mut vec![0; B]).unwrap_err().to_string();
    assert!(error.contains("given up"), "{error}");
    assert!(!namespace.is_same());
    target.start();
    assert!(namespace.read(0, &mut vec![0; B]).is_err());
}

#[test]
fn ports_are_found_by_discovery_and_the_health_of_the_drive_is_read() {
    let (_server, _, ports) = serve(Memory::new(4096, 16));
    let address = Address { discovery: true, ..at(ports[1], NQN, 1) };
    let namespace = attach(&address, options());
    let found: Vec<String> = namespace.paths().into_iter().map(|p| p.portal).collect();
    assert_eq!(found, ports.map(|p| p.to_string()));
    until(|| namespace.health().is_some());
    let health = namespace.health().unwrap();
    assert_eq!((health.available_spare, health.temperature, health.warnings().len()), (100, None, 0));
    let none = Address { nqn: "nqn.other".into(), ..address };
    let error = RemoteNamespace::attach(&none, options()).err().unwrap().to_string();
    assert!(error.contains("knows no port"), "{error}");
}

#[test]
fn a_port_that_does_not_answer_at_first_is_connected_later() {
    let (_server, _, ports) = serve(Memory::new(4096, 16));
    // A port where nobody listens yet.
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = nobody.local_addr().unwrap();
    drop(nobody);
    let namespace = RemoteNamespace::attach(&across(&[address, ports[0]], NQN, 1), options()).unwrap();
    namespace.write(0, &[9; B]).unwrap();
    let status = namespace.paths();
    assert_eq!((status[0].state, status[1].state), ("connecting", "live"));
    assert!(status[0].why.as_ref().unwrap().contains("refused"));
}
