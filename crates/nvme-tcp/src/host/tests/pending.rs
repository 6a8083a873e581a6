//! Requests that are submitted and waited for later.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use super::faults::Cached;
use super::rig::*;
use crate::host::HostOptions;
use crate::memory::Memory;
use crate::namespace::{Fault, Namespace};

const B: usize = 4096;

/// Where writes wait until so many of them are there at once.
struct Gate {
    inside: Mutex<usize>,
    changed: Condvar,
    wanted: usize,
    alone: AtomicUsize,
}

struct Gated {
    below: Arc<Memory>,
    gate: Arc<Gate>,
}

impl Namespace for Gated {
    fn block(&self) -> u32 {
        4096
    }
    fn blocks(&self) -> u64 {
        self.below.blocks()
    }
    fn id(&self) -> [u8; 16] {
        [9; 16]
    }
    fn read(&self, at: u64, out: &mut [u8]) -> Result<(), Fault> {
        self.below.read(at, out)
    }
    fn write(&self, at: u64, data: Vec<u8>, durable: bool) -> Result<(), Fault> {
        let mut inside = self.gate.inside.lock();
        *inside += 1;
        self.gate.changed.notify_all();
        let few = |inside: &mut usize| *inside < self.gate.wanted;
        if self.gate.changed.wait_while_for(&mut inside, few, Duration::from_secs(10)).timed_out() {
            self.gate.alone.fetch_add(1, Ordering::Relaxed);
        }
        drop(inside);
        self.below.write(at, data, durable)
    }
    fn flush(&self) -> Result<(), Fault> {
        self.below.flush()
    }
    fn zero(&self, at: u64, len: u64, keep: bool, durable: bool) -> Result<(), Fault> {
        self.below.zero(at, len, keep, durable)
    }
    fn trim(&self, at: u64, len: u64) -> Result<(), Fault> {
        self.below.trim(at, len)
    }
}

#[test]
fn requests_of_one_caller_are_under_way_at_several_namespaces() {
    let gate = Arc::new(Gate {
        inside: Mutex::new(0),
        changed: Condvar::new(),
        wanted: 4,
        alone: AtomicUsize::new(0),
    });
    let target = || Target::of(only(Arc::new(Gated { below: Memory::new(4096, 64), gate: gate.clone() })));
    let targets = [target(), target()];
    let namespaces = targets.each_ref().map(|t| t.namespace(options()));
    let mut under_way = Vec::new();
    for namespace in &namespaces {
        for (at, seed) in [(0, 1), (3 * B as u64, 2)] {
            let data = content(seed, 2 * B);
            under_way.push(namespace.submit_write(at, &[&data[..B], &data[B..]]).unwrap());
        }
    }
    under_way.into_iter().for_each(|p| assert!(p.wait().unwrap().is_empty()));
    assert_eq!(gate.alone.load(Ordering::Relaxed), 0, "a write was alone");
    let reads = namespaces.each_ref().map(|n| n.submit_read(3 * B as u64, 2 * B).unwrap());
    for read in reads {
        assert!(read.wait().unwrap() == content(2, 2 * B));
    }
    namespaces.iter().for_each(|n| drop(n.submit_flush().unwrap().wait().unwrap()));
}

#[test]
fn what_does_not_go_in_one_command_or_now_is_refused() {
    let target = Target::memory(4096, 1024);
    let namespace = target.namespace(HostOptions { depth: 2, ..options() });
    assert!(namespace.submit_write(0, &[&content(1, 3 * B)]).is_none(), "it does not fit the capsule");
    assert!(namespace.submit_write(0, &[]).is_none() && namespace.submit_read(0, 0).is_none());
    assert!(namespace.submit_read(1, B).is_none() && namespace.submit_read(1024 * B as u64, B).is_none());
    assert!(namespace.submit_write(1024 * B as u64, &[&[0; B]]).is_none());
    let first = namespace.submit_write(0, &[&content(1, B)]).unwrap();
    assert!(namespace.submit_write(0, &[&content(2, B)]).is_none(), "its range is held");
    let second = namespace.submit_read(B as u64, B).unwrap();
    // Both places are taken, until their answers are there: they need not be waited for.
    until(|| namespace.submit_read(2 * B as u64, B).is_some());
    first.wait().unwrap();
    second.wait().unwrap();
    namespace.write(0, &content(3, B)).unwrap();
    let mut back = vec![0; B];
    namespace.read(0, &mut back).unwrap();
    assert!(back == content(3, B));
    assert_eq!(namespace.paths()[0].in_flight, 0);
}

#[test]
fn what_was_lost_on_its_way_is_repeated() {
    let target = Target::memory(4096, 64);
    for turn in 0..8 {
        // The answers never arrive.
        let cut = Arc::new(AtomicUsize::new(0));
        let mine = cut.clone();
        let proxy = Proxy::before(target.address, move |_| match mine.load(Ordering::SeqCst) {
            0 => Fate::Pass,
            _ => Fate::Silence,
        });
        let namespace =
            crate::host::RemoteNamespace::attach(&at(proxy.address, crate::samples::NQN, 1), options())
                .unwrap();
        namespace.write(0, &content(1, B)).unwrap();
        cut.store(1, Ordering::SeqCst);
        let data = content(100 + turn, B);
        let write = namespace.submit_write(B as u64, &[&data]).unwrap();
        let read = namespace.submit_read(0, B).unwrap();
        let dropped = namespace.submit_write(2 * B as u64, &[&data]).unwrap();
        cut.store(0, Ordering::SeqCst);
        proxy.cut();
        drop(dropped);
        write.wait().unwrap();
        assert!(read.wait().unwrap() == content(1, B));
        namespace.submit_flush().map_or_else(|| namespace.flush(), |p| p.wait().map(drop)).unwrap();
        let mut back = vec![0; B];
        namespace.read(B as u64, &mut back).unwrap();
        assert!(back == data);
        // The range of a write that nobody waited for is free again, once nothing of it can be executed.
        namespace.write(2 * B as u64, &content(5, B)).unwrap();
        assert!(namespace.losses() > 0);
    }
}

#[test]
fn a_submitted_flush_covers_what_was_written_before_it() {
    let cached = Cached::new(64);
    let target = Target::of(only(cached.clone()));
    let namespace = target.namespace(options());
    let (one, two) = (content(1, B), content(2, B));
    namespace.submit_write(0, &[&one]).unwrap().wait().unwrap();
    namespace.submit_flush().unwrap().wait().unwrap();
    cached.lose();
    namespace.submit_write(B as u64, &[&two]).unwrap().wait().unwrap();
    // Lost with its target, and the flush is on its way to the next one.
    target.stop();
    cached.lose();
    target.start();
    match namespace.submit_flush() {
        Some(flush) => drop(flush.wait().unwrap()),
        None => namespace.flush().unwrap(),
    }
    cached.lose();
    let mut back = vec![0; 2 * B];
    namespace.read(0, &mut back).unwrap();
    assert!(back == [one, two].concat());
}
