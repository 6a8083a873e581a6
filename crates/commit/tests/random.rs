//! Random schedules against the machines of this crate: lost, repeated, late and reordered
//! messages, restarts that lose what was not flushed, a replaced drive, duels, one-sync and staged
//! writes, reads with and without hints, promise tables that are far too small.
//!
//! A register's value is the list of writes made to it. Checked: every acknowledged or served list
//! begins with everything acknowledged or served before the operation started, and contradicts
//! nothing; when the faults end, every operation ends; every listed write still has k' shards.
//!
//! A failure prints the seed: `ASHLAR_SEED=... cargo test --release -p ashlar-commit --test random`.

use ashlar_commit::{
    AcceptAnswer, Acceptor, Ballot, ConfirmAnswer, Copy, Footing, OneSync, PrepareAnswer,
    PromiseTable, Proposer, Quorum, ReadStep, Reader, Resync, Role, Slot, SlotSet, Step,
    ballot_above,
};
use proptest::prelude::*;
use std::collections::{HashMap, HashSet};
use std::rc::Rc;

const KEYS: u128 = 3;
/// Registers without operations: PREPAREs for them push promises out of the tables.
const NOISE: u128 = 40;

#[derive(Debug, PartialEq)]
struct Rec {
    log: Vec<u32>,
    light: Option<OneSync>,
    parent: Option<Pair>,
}

type Pair = (Ballot, Rc<Rec>);

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
    Stage { write: u32, mends: bool },
    Accept { rec: Rc<Rec>, shard: Option<u32> },
    Read,
    Hint,
}

#[derive(Clone)]
enum Tell {
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
    waiting: Vec<(Msg, Tell)>,
}

enum Doing {
    Idle,
    Propose { prop: Box<Proposer<Rc<Rec>>>, rec: Option<Rc<Rec>>, mends: Option<u32>, known: bool },
    Read(Reader),
    Done,
}

struct Op {
    key: u128,
    /// 0 for a read.
    write: u32,
    light: bool,
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
    back: Vec<(Msg, Tell)>,
    ops: Vec<Op>,
    seen: HashMap<u128, Vec<u32>>,
    joining: Option<(Slot, HashMap<u128, Resync<Rc<Rec>>>)>,
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
                light: rng.one_in(2),
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

    // ---- drives ----

    fn deliver(&mut self, msg: Msg) {
        if self.faults && self.rng.one_in(12) {
            return;
        }
        let (headroom, rng) = (self.headroom, &mut self.rng);
        let drive = &mut self.drives[msg.slot as usize];
        let accepted = drive.index.get(&msg.key).map_or(Ballot::ZERO, |e| e.pair.0);
        let show = |drive: &Drive| {
            let entry = drive.index.get(&msg.key)?;
            let whole = entry.pair.1.log.last().is_some_and(|w| drive.shards.contains(w));
            Some((entry.pair.clone(), entry.hint, whole))
        };
        let tell = match &msg.ask {
            Ask::Prepare => {
                // Somebody else's registers fill the table.
                let noise = KEYS + rng.below(NOISE as usize) as u128;
                let low = Ballot { counter: msg.ballot.counter / 2, ..msg.ballot };
                if drive.acc.floor() > low {
                    let _ = drive.acc.prepare(noise, Ballot::ZERO, low);
                }
                let mut answer = drive.acc.prepare(msg.key, accepted, msg.ballot);
                if let PrepareAnswer::RaiseFloorFirst { to } = answer {
                    drive.acc.floor_raised(to);
                    answer = drive.acc.prepare(msg.key, accepted, msg.ballot);
                }
                match answer {
                    PrepareAnswer::Promised => {
                        let (pair, hint, whole) =
                            show(drive).map_or((None, false, false), |(p, h, w)| (Some(p), h, w));
                        Tell::Promised { pair, hint, whole }
                    }
                    PrepareAnswer::Refused { highest } => Tell::Refused { highest },
                    PrepareAnswer::NotVoter => Tell::Silent,
                    PrepareAnswer::RaiseFloorFirst { .. } => panic!("raised twice"),
                }
            }
            Ask::Stage { write, mends } => {
                if let ConfirmAnswer::RaiseFloorFirst { to } = drive.acc.confirm(msg.ballot) {
                    drive.acc.floor_raised(to);
                }
                drive.shards.insert(*write);
                Tell::Staged { mends: *mends }
            }
            Ask::Accept { rec, shard } => {
                match drive.acc.accept(msg.key, accepted, msg.ballot) {
                    AcceptAnswer::Refused { highest } => Tell::AcceptRefused { highest },
                    AcceptAnswer::Already { counted } => Tell::Accepted { counted },
                    go => {
                        let entry = Entry { pair: (msg.ballot, rec.clone()), hint: false };
                        drive.index.insert(msg.key, entry);
                        drive.shards.extend(*shard);
                        Tell::Accepted { counted: go == AcceptAnswer::Go }
                    }
                }
            }
            Ask::Read => {
                // Shown after the flush, like everything (the state of now is answered).
                let voter = drive.acc.role() == Role::Voter;
                if !drive.acc.may_read(self.epoch) {
                    Tell::Silent
                } else {
                    let (pair, hint, whole) =
                        show(drive).map_or((None, false, false), |(p, h, w)| (Some(p), h, w));
                    Tell::Record { pair, hint, whole, voter }
                }
            }
            Ask::Hint => {
                if let Some(e) = drive.index.get_mut(&msg.key) {
                    e.hint |= e.pair.0 == msg.ballot;
                }
                return;
            }
        };
        let _ = headroom;
        drive.waiting.push((msg, tell));
    }

    fn flush(&mut self, i: usize) {
        let drive = &mut self.drives[i];
        for (key, e) in &drive.index {
            drive.durable.insert(*key, e.pair.clone());
            drive.acc.settled(*key, e.pair.0);
        }
        drive.durable_shards.clone_from(&drive.shards);
        let told = std::mem::take(&mut drive.waiting);
        let lossy = self.faults;
        for t in told {
            if !(lossy && self.rng.one_in(12)) {
                self.back.push(t);
            }
        }
    }

    fn crash(&mut self, i: usize) {
        let headroom = self.headroom;
        let drive = &mut self.drives[i];
        drive.waiting.clear();
        drive.shards.clone_from(&drive.durable_shards);
        let restored = drive.durable.iter();
        drive.index =
            restored.map(|(k, p)| (*k, Entry { pair: p.clone(), hint: false })).collect();
        drive.acc = new_acc(drive.acc.role(), drive.acc.epoch(), drive.acc.floor(), headroom);
    }

    fn replace(&mut self, i: usize) {
        self.epoch += 1;
        let slot = i as Slot;
        let joining = [slot].into_iter().collect();
        let (q, epoch) = (self.q, self.epoch);
        let copies = (0..KEYS).map(|k| (k, Resync::replaced(q, epoch, joining))).collect();
        self.joining = Some((slot, copies));
        self.drives[i] = Drive {
            acc: new_acc(Role::Joining, epoch, Ballot::ZERO, self.headroom),
            index: HashMap::new(),
            shards: HashSet::new(),
            durable: HashMap::new(),
            durable_shards: HashSet::new(),
            waiting: Vec::new(),
        };
    }

    /// One step of the resync: fence and read one drive, or finish.
    fn resync(&mut self) {
        let Some((slot, mut copies)) = self.joining.take() else { return };
        let i = self.rng.below(self.drives.len());
        if i != slot as usize {
            self.flush(i);
            let drive = &mut self.drives[i];
            drive.acc.fence(self.epoch);
            for (key, r) in &mut copies {
                r.on_fenced(i as Slot);
                let entry = drive.index.get(key);
                match entry.map(|e| (e.pair.clone(), e.hint, e.pair.1.light)) {
                    Some((pair, false, Some(light))) => {
                        let whole = pair.1.log.last().is_some_and(|w| drive.shards.contains(w));
                        r.on_record_one_sync(i as Slot, pair, light, whole);
                    }
                    other => r.on_record(i as Slot, other.map(|o| o.0)),
                }
            }
        }
        if copies.values().any(|r| r.copy() == Copy::Wait) {
            self.joining = Some((slot, copies));
            return;
        }
        let drive = &mut self.drives[slot as usize];
        for (key, r) in &copies {
            let pair = match r.copy() {
                Copy::Record(pair) => Some(pair.clone()),
                Copy::Parent { of, maybe_lost } => {
                    assert!(!maybe_lost, "no drive was declared dead");
                    let as_ordinary = |(b, rec): &Pair| {
                        (*b, Rc::new(Rec { log: rec.log.clone(), light: None, parent: None }))
                    };
                    of.1.parent.as_ref().map(as_ordinary)
                }
                _ => None,
            };
            let have = drive.index.get(key).map_or(Ballot::ZERO, |e| e.pair.0);
            if let Some(pair) = pair.filter(|p| p.0 > have) {
                drive.index.insert(*key, Entry { pair, hint: false });
            }
        }
        drive.acc.joined();
        self.flush(slot as usize);
    }

    // ---- operations ----

    fn begin(&mut self, i: usize) {
        let op = &mut self.ops[i];
        op.attempt += 1;
        if !op.started {
            op.started = true;
            op.min = self.seen.get(&op.key).cloned().unwrap_or_default();
        }
        let all = self.q.all();
        if op.write == 0 && !op.identity {
            op.doing = Doing::Read(Reader::new(self.q));
            self.send(i, Ballot::ZERO, all, &Ask::Read);
            return;
        }
        let ballot = ballot_above(op.above, self.epoch, i as u16 + 1, 7).expect("a ballot");
        op.above = ballot;
        let prop = Box::new(Proposer::new(self.q, ballot));
        op.doing = Doing::Propose { prop, rec: None, mends: None, known: false };
        let stage = (op.write > 0 && !op.light).then_some(op.write);
        self.send(i, ballot, all, &Ask::Prepare);
        if let Some(write) = stage {
            self.send(i, ballot, all, &Ask::Stage { write, mends: false });
        }
    }

    fn told(&mut self, msg: Msg, tell: Tell) {
        let (i, slot) = (msg.op, msg.slot);
        if self.ops[i].attempt != msg.attempt {
            return;
        }
        let step = match (&mut self.ops[i].doing, tell) {
            (Doing::Propose { prop, .. }, tell) => match tell {
                Tell::Promised { pair, hint, whole } => {
                    if let (Some(p), true) = (&pair, hint) {
                        prop.on_hint(p.0);
                    }
                    match pair {
                        Some(pair) if pair.1.light.is_some() => {
                            let light = pair.1.light.expect("light");
                            prop.on_promise_one_sync(slot, pair, light, whole)
                        }
                        pair => prop.on_promise(slot, pair),
                    }
                }
                Tell::Refused { highest } => prop.on_refused(slot, highest),
                Tell::Silent => prop.on_silent(slot),
                Tell::Staged { mends: true } => {
                    prop.on_mended(slot);
                    Step::Wait
                }
                Tell::Staged { mends: false } => {
                    prop.on_stage_durable(slot);
                    Step::Wait
                }
                Tell::Accepted { counted: true } => prop.on_accepted(slot),
                Tell::Accepted { counted: false } => prop.on_accept_silent(slot),
                Tell::AcceptRefused { highest } => prop.on_accept_refused(slot, highest),
                Tell::Record { .. } => Step::Wait,
            },
            (Doing::Read(reader), Tell::Record { pair, hint, whole, voter }) => {
                let step = match &pair {
                    Some((b, rec)) if rec.light.is_some() => {
                        let needed = rec.light.expect("light").needed;
                        reader.on_answer_one_sync(slot, *b, hint, voter, whole, needed)
                    }
                    _ => reader.on_answer(slot, pair.as_ref().map(|p| p.0), hint, voter),
                };
                return self.read_step(i, &step);
            }
            (Doing::Read(reader), Tell::Silent) => {
                let step = reader.on_silent(slot);
                return self.read_step(i, &step);
            }
            _ => Step::Wait,
        };
        self.step(i, step);
    }

    fn read_step(&mut self, i: usize, step: &ReadStep) {
        let (key, min) = (self.ops[i].key, self.ops[i].min.clone());
        match step {
            ReadStep::Wait => {}
            ReadStep::Serve { ballot, .. } => {
                let find = |d: &Drive| d.index.get(&key).filter(|e| e.pair.0 == *ballot).map(|e| e.pair.1.clone());
                // The drives may have moved on; then the record is not at hand any more here.
                self.ops[i].doing = Doing::Idle;
                if let Some(rec) = self.drives.iter().find_map(find) {
                    self.observe(key, &rec.log, &min);
                    self.ops[i].doing = Doing::Done;
                }
            }
            ReadStep::Absent { .. } => {
                self.observe(key, &[], &min);
                self.ops[i].doing = Doing::Done;
            }
            ReadStep::NeedIdentityRound => {
                self.ops[i].identity = true;
                self.ops[i].doing = Doing::Idle;
            }
            ReadStep::Unavailable => self.ops[i].doing = Doing::Idle,
        }
    }

    fn step(&mut self, i: usize, step: Step<Rc<Rec>>) {
        match step {
            Step::Wait => {}
            Step::Base(base, known) => self.based(i, base, known, None),
            Step::Recover(r) => match r.footing {
                Footing::Overtaken => {
                    let parent = r.value.parent.clone();
                    self.based(i, parent, false, None);
                }
                Footing::Mend { .. } => {
                    let newest = r.value.log.last().copied();
                    self.based(i, Some((r.ballot, r.value)), false, newest);
                }
            },
            Step::Chosen => {
                let op = &self.ops[i];
                let (key, min) = (op.key, op.min.clone());
                let Doing::Propose { prop, rec: Some(rec), .. } = &op.doing else { panic!("chosen") };
                let (ballot, rec) = (prop.ballot(), rec.clone());
                self.observe(key, &rec.log, &min);
                assert!(op_write_is_in(&self.ops[i], &rec));
                self.ops[i].doing = Doing::Done;
                self.send(i, ballot, self.q.all(), &Ask::Hint);
            }
            Step::Lost { retry_above } => {
                self.ops[i].above = self.ops[i].above.max(retry_above);
                self.ops[i].doing = Doing::Idle;
            }
            Step::Unavailable => self.ops[i].doing = Doing::Idle,
        }
        self.propose(i);
    }

    fn based(&mut self, i: usize, base: Option<Pair>, known: bool, mend: Option<u32>) {
        let spec = OneSync { k: self.k, needed: self.needed, targets: self.q.all() };
        let op = &mut self.ops[i];
        let (key, write, min) = (op.key, op.write, op.min.clone());
        let Doing::Propose { prop, rec, mends, known: k } = &mut op.doing else { panic!("base") };
        *k = known;
        *mends = mend;
        let mut log = base.as_ref().map_or_else(Vec::new, |b| b.1.log.clone());
        let fresh = write > 0 && !log.contains(&write);
        if fresh {
            log.push(write);
        }
        if write == 0 && (known || base.is_none()) {
            op.doing = Doing::Done;
            return self.observe(key, &log, &min);
        }
        let light = (fresh && op.light).then_some(spec);
        let parent = light.and(base);
        *rec = Some(Rc::new(Rec { log, light, parent }));
        let ballot = prop.ballot();
        if let Some(write) = mend {
            self.send(i, ballot, self.q.all(), &Ask::Stage { write, mends: true });
        }
    }

    fn propose(&mut self, i: usize) {
        let op = &mut self.ops[i];
        let write = op.write;
        let Doing::Propose { prop, rec: Some(rec), .. } = &mut op.doing else { return };
        let fresh = write > 0 && rec.log.last() == Some(&write);
        // A base that has the write already is only completed.
        let needed = if fresh && !op.light { self.needed } else { 0 };
        if !prop.may_propose(needed) {
            return;
        }
        let shard = rec.light.map(|_| write);
        match rec.light {
            Some(light) => prop.one_sync(light),
            None => prop.propose(needed),
        }
        let (ballot, rec) = (prop.ballot(), rec.clone());
        self.send(i, ballot, self.q.all(), &Ask::Accept { rec, shard });
    }

    /// The coordinator waits no longer.
    fn timeout(&mut self, i: usize) {
        let all = self.q.all();
        match &mut self.ops[i].doing {
            Doing::Idle => self.begin(i),
            Doing::Done => {}
            Doing::Read(reader) => {
                let step = reader.on_deadline();
                self.read_step(i, &step);
            }
            Doing::Propose { prop, rec, .. } => {
                let rest = all.without(prop.promised_by());
                if rec.is_none() {
                    for slot in rest.iter() {
                        let Doing::Propose { prop, rec: None, .. } = &mut self.ops[i].doing else {
                            return;
                        };
                        let step = prop.on_silent(slot);
                        self.step(i, step);
                    }
                } else {
                    self.ops[i].doing = Doing::Idle;
                }
            }
        }
    }

    fn run(mut self) {
        let mut replaced = self.drives.len() < 3;
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
                    let (msg, tell) = self.back.swap_remove(at);
                    self.told(msg, tell);
                }
                75..93 => {
                    let i = self.rng.below(self.drives.len());
                    self.flush(i);
                }
                93..96 => {
                    // Fewer and fewer compete, so that duels end.
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

fn op_write_is_in(op: &Op, rec: &Rec) -> bool {
    op.write == 0 || rec.log.contains(&op.write)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_schedules_are_linearizable(seed in any::<u64>()) {
        let seed = std::env::var("ASHLAR_SEED").ok().and_then(|s| s.parse().ok()).unwrap_or(seed);
        println!("ASHLAR_SEED={seed}");
        Sim::new(seed).run();
    }
}
