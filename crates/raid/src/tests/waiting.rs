//! Members that are asked at the same time: in an order that a seed chooses, and on threads; and members whose requests are watched.

use std::collections::BTreeMap;
use std::io::{self, IoSlice};
use std::sync::Arc;

use ashlar_environment::random::Seeded;
use ashlar_machine::{DiskFile, Operation};
use parking_lot::Mutex;

use crate::{Command, Medium, Pending};

/// A file that calls `before` with each request, and then executes it. It discards nothing.
pub(super) struct Watched<F> {
    pub(super) file: DiskFile,
    pub(super) waits: bool,
    pub(super) before: F,
}

impl<F: Fn(Operation) + Send + Sync> Medium for Watched<F> {
    fn size(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn read_at(&self, out: &mut [u8], at: u64) -> io::Result<()> {
        (self.before)(Operation::Read);
        self.file.read_at(out, at)
    }

    fn write_slices_at(&self, slices: &mut [IoSlice<'_>], at: u64) -> io::Result<()> {
        (self.before)(Operation::Write);
        self.file.write_slices_at(slices, at)
    }

    fn flush(&self) -> io::Result<()> {
        (self.before)(Operation::Sync);
        self.file.sync_data()
    }

    fn discard(&self, _at: u64, _len: u64) -> io::Result<()> {
        Ok(())
    }

    fn waits(&self) -> bool {
        self.waits
    }
}

/// How members are asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum How {
    /// One after the other, as files are.
    InTurn,
    /// What is submitted is executed in an order that a seed chooses.
    Submitted,
    /// On threads.
    OnThreads,
}

type Job = Box<dyn FnOnce() -> io::Result<Vec<u8>> + Send>;

#[derive(Default)]
struct Deck {
    random: Option<Seeded>,
    next: u64,
    waiting: Vec<(u64, Job)>,
    done: BTreeMap<u64, io::Result<Vec<u8>>>,
}

/// What is under way at all members of a rig.
#[derive(Clone, Default)]
pub(super) struct Traffic(Arc<Mutex<Deck>>);

impl Traffic {
    pub(super) fn seeded(seed: u64) -> Traffic {
        Traffic(Arc::new(Mutex::new(Deck { random: Some(Seeded::new(seed)), ..Deck::default() })))
    }

    fn submit(&self, job: Job) -> u64 {
        let mut deck = self.0.lock();
        deck.next += 1;
        let number = deck.next;
        deck.waiting.push((number, job));
        number
    }

    /// Executes what is under way, in any order, until this has ended.
    fn finish(&self, number: u64) -> io::Result<Vec<u8>> {
        let mut deck = self.0.lock();
        loop {
            if let Some(done) = deck.done.remove(&number) {
                return done;
            }
            let count = deck.waiting.len() as u64;
            let chosen = deck.random.as_mut().map_or(0, |r| r.below(count)) as usize;
            let (other, job) = deck.waiting.swap_remove(chosen);
            // With the lock: a log of a rig has one order.
            let result = job();
            deck.done.insert(other, result);
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        let deck = self.0.lock();
        deck.waiting.is_empty() && deck.done.is_empty()
    }
}

struct Submitted {
    traffic: Traffic,
    number: Option<u64>,
}

impl Pending for Submitted {
    fn wait(mut self: Box<Self>) -> io::Result<Vec<u8>> {
        let number = self.number.take().unwrap();
        self.traffic.finish(number)
    }
}

impl Drop for Submitted {
    fn drop(&mut self) {
        if let Some(number) = self.number {
            let _ = self.traffic.finish(number);
        }
    }
}

/// A file that is asked in one of these ways.
pub(super) struct Waiting {
    pub(super) file: Arc<DiskFile>,
    pub(super) how: How,
    pub(super) traffic: Traffic,
    pub(super) atomic: bool,
}

impl Medium for Waiting {
    fn size(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn read_at(&self, out: &mut [u8], at: u64) -> io::Result<()> {
        self.file.read_at(out, at)
    }

    fn write_slices_at(&self, slices: &mut [IoSlice<'_>], at: u64) -> io::Result<()> {
        self.file.write_slices_at(slices, at)
    }

    fn flush(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn discard(&self, at: u64, len: u64) -> io::Result<()> {
        self.file.punch_hole(at, len).map(drop)
    }

    fn submit(&self, command: &Command<'_>) -> Option<Box<dyn Pending>> {
        if self.how != How::Submitted {
            return None;
        }
        let file = self.file.clone();
        let job: Job = match command {
            Command::Read { at, len } => {
                let (at, len) = (*at, *len);
                Box::new(move || {
                    let mut out = vec![0; len];
                    file.read_at(&mut out, at).map(|()| out)
                })
            }
            Command::Write { at, data } => {
                let (at, data) = (*at, data.concat());
                Box::new(move || file.write_slices_at(&mut [IoSlice::new(&data)], at).map(|()| Vec::new()))
            }
            Command::Flush => Box::new(move || file.sync_data().map(|()| Vec::new())),
        };
        let number = Some(self.traffic.submit(job));
        Some(Box::new(Submitted { traffic: self.traffic.clone(), number }))
    }

    /// As devices that have a command for it; a power cut takes it back like a write.
    fn zero(&self, at: u64, len: u64) -> io::Result<bool> {
        if self.how == How::InTurn { Ok(false) } else { self.file.punch_hole(at, len) }
    }

    fn waits(&self) -> bool {
        self.how != How::InTurn
    }

    fn is_atomic(&self) -> bool {
        self.atomic
    }
}
