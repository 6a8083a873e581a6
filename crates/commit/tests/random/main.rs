//! Random schedules for the state machines of this crate: lost, repeated, late and reordered messages,
//! restarts that lose what was not flushed, a replaced drive, duels, one-sync and staged writes, reads with
//! and without hints, promise tables that are far too small.
//!
//! The value of a register is the list of the writes made to it. Checks: every acknowledged or served list
//! begins with everything that was acknowledged or served before the operation started, and contradicts
//! nothing; when the faults end, every operation ends; every listed write still has k' shards.
//!
//! A failure prints the seed: `ASHLAR_SEED=... cargo test --release -p ashlar-commit --test random`.

#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "tests run in real time")]

mod drives;
mod operations;

use ashlar_commit::{
    Acceptor, Ballot, OneSync, PromiseTable, Proposer, Quorum, Reader, Resync, Role, Slot, SlotSet,
};
use proptest::prelude::*;
use std::collections::{HashMap, HashSet};
use std::rc::Rc;

const KEYS: u128 = 3;
/// Number of registers without operations. PREPAREs for them push promises out of the tables.
const NOISE: u128 = 40;

#[derive(Debug, PartialEq)]
struct Rec {
    log: Vec<u32>,
    one_sync: Option<OneSync>,
    parent: Option<Pair>,
}

type Pair = (Ballot, Rc<Rec>);
/// What a blank drive will copy, per register.
type Copies = HashMap<u128, Resync<Rc<Rec>>>;

/// A small deterministic generator (xorshift).
struct Rng(u64);

impl Rng {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % n
    }
    fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }
}

#[derive(Clone)]
enum Ask {
    Prepare,
    /// A shard of this write: new data of the attempt, or for a base that is mended.
    Stage {
        write: u32,
        mends: bool,
    },
    Accept {
        rec: Rc<Rec>,
        shard: Option<u32>,
    },
    Read,
    Hint,
}

#[derive(Clone)]
enum Reply {
    Promised { pair: Option<Pair>, hint: bool, whole: bool },
    Refused { highest: Ballot },
    Silent,
    Staged { mends: bool },
    Accepted { counted: bool },
    AcceptRefused { highest: Ballot },
    Record { pair: Option<Pair>, hint: bool, whole: bool, voter: bool },
}

#[derive(Clone)]
struct Msg {
    op: usize,
    attempt: u32,
    slot: Slot,
    key: u128,
    ballot: Ballot,
    ask: Ask,
}

struct Entry {
    pair: Pair,
    hint: bool,
}

struct Drive {
    acc: Acceptor<PromiseTable>,
    index: HashMap<u128, Entry>,
    shards: HashSet<u32>,
    /// Flushed.
    durable: HashMap<u128, Pair>,
    durable_shards: HashSet<u32>,
    /// Answers that wait for the flush.
    waiting: Vec<(Msg, Reply)>,
}

/// What an operation is doing.
#[allow(clippy::large_enum_variant)] // only a few instances, in a test
enum Doing {
    Idle,
    Propose { prop: Box<Proposer<Rc<Rec>>>, rec: Option<Rc<Rec>> },
    Read(Reader),
    Done,
}

struct Op {
    key: u128,
    /// 0 for a read.
    write: u32,
    one_sync: bool,
    attempt: u32,
    doing: Doing,
    min: Vec<u32>,
    started: bool,
    above: Ballot,
    /// A read goes on as an identity round.
    identity: bool,
}

struct Sim {
    rng: Rng,
    q: Quorum,
    k: u8,
    needed: u8,
    epoch: u32,
    headroom: u64,
    drives: Vec<Drive>,
    net: Vec<Msg>,
    back: Vec<(Msg, Reply)>,
    ops: Vec<Op>,
    seen: HashMap<u128, Vec<u32>>,
    joining: Option<(Slot, Copies)>,
    faults: bool,
}

fn new_acc(role: Role, epoch: u32, floor: Ballot, headroom: u64) -> Acceptor<PromiseTable> {
    Acceptor::with_promises(role, epoch, floor, headroom, PromiseTable::with_capacity(2))
}

impl Sim {
    fn new(seed: u64) -> Sim {
        let mut rng = Rng(seed | 1);
        let n = 1 + rng.below(7) as u8;
        let k = 1 + rng.below(n as usize) as u8;
        let needed = k + ((n - k).div_ceil(2)).min(n - k);
        let headroom = [0, 1, 50][rng.below(3)];
        let drive = || Drive {
            acc: new_acc(Role::Voter, 1, Ballot::ZERO, headroom),
            index: HashMap::new(),
            shards: HashSet::new(),
            durable: HashMap::new(),
            durable_shards: HashSet::new(),
            waiting: Vec::new(),
        };
        let ops = (1..=12u32)
            .map(|i| Op {
                key: rng.below(KEYS as usize) as u128,
                write: if i % 3 == 0 { 0 } else { i },
                one_sync: rng.one_in(2),
                attempt: 0,
                doing: Doing::Idle,
                min: Vec::new(),
                started: false,
                above: Ballot::ZERO,
                identity: false,
            })
            .collect();
        Sim {
            q: Quorum::new(n),
            k,
            needed,
            epoch: 1,
            headroom,
            drives: (0..n).map(|_| drive()).collect(),
            net: Vec::new(),
            back: Vec::new(),
            ops,
            seen: HashMap::new(),
            joining: None,
            faults: true,
            rng,
        }
    }

    fn observe(&mut self, key: u128, log: &[u32], min: &[u32]) {
        let seen = self.seen.entry(key).or_default();
        assert!(log.starts_with(min), "stale: {log:?} after {min:?}");
        assert!(log.starts_with(seen) || seen.starts_with(log), "fork: {log:?} and {seen:?}");
        if log.len() > seen.len() {
            *seen = log.to_vec();
        }
    }

    fn send(&mut self, op: usize, ballot: Ballot, slots: SlotSet, ask: &Ask) {
        let (key, attempt) = (self.ops[op].key, self.ops[op].attempt);
        for slot in slots.iter() {
            let msg = Msg { op, attempt, slot, key, ballot, ask: ask.clone() };
            if self.faults && self.rng.one_in(20) {
                self.net.push(msg.clone());
            }
            self.net.push(msg);
        }
    }

    fn run(mut self) {
        // A drive may be lost if an acknowledged write has a spare shard.
        let mut replaced = self.drives.len() < 3 || self.needed == self.k;
        for turn in 0..40_000 {
            self.faults = turn < 4_000;
            match self.rng.below(100) {
                0..45 if !self.net.is_empty() => {
                    let at = self.rng.below(self.net.len());
                    let msg = self.net.swap_remove(at);
                    self.deliver(msg);
                }
                45..75 if !self.back.is_empty() => {
                    let at = self.rng.below(self.back.len());
                    let (msg, reply) = self.back.swap_remove(at);
                    self.on_reply(msg, reply);
                }
                75..93 => {
                    let i = self.rng.below(self.drives.len());
                    self.flush(i);
                }
                93..96 => {
                    // The number of competing operations shrinks, so that duels end.
                    let open = |o: &Op| !matches!(o.doing, Doing::Done);
                    let first = self.ops.iter().position(open);
                    let Some(first) = first else { break };
                    let i = if self.faults { self.rng.below(self.ops.len()) } else { first };
                    if self.faults || self.net.is_empty() && self.back.is_empty() {
                        self.timeout(i);
                    }
                }
                96 if self.faults => {
                    let i = self.rng.below(self.drives.len());
                    self.crash(i);
                }
                97 if self.faults && !replaced && self.rng.one_in(8) => {
                    replaced = true;
                    let i = self.rng.below(self.drives.len());
                    self.replace(i);
                }
                98 => self.resync(),
                _ => {}
            }
        }
        let open = self.ops.iter().filter(|o| !matches!(o.doing, Doing::Done)).count();
        assert_eq!(open, 0, "operations that never end");
        let gone = u8::from(self.epoch > 1);
        for (key, log) in &self.seen {
            for write in log {
                let has = self.drives.iter().filter(|d| d.shards.contains(write)).count();
                assert!(has as u8 + gone >= self.needed, "key {key}: {has} shards of {write}");
            }
        }
    }
}

/// 6,000 (about 2 s), or as many as `ASHLAR_CASES` says.
fn cases() -> u32 {
    std::env::var("ASHLAR_CASES").ok().and_then(|s| s.parse().ok()).unwrap_or(6_000)
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: cases(),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn random_schedules_are_linearizable(seed in any::<u64>()) {
        let seed = std::env::var("ASHLAR_SEED").ok().and_then(|s| s.parse().ok()).unwrap_or(seed);
        println!("ASHLAR_SEED={seed}");
        Sim::new(seed).run();
    }
}
