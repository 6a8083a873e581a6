//! One-sync writes: the shard travels inside ACCEPT (PROTOCOL.md 2.3 a; `ashlar_commit::OneSync`).
//!
//! Two writers, each with its own data, in either way (one-sync or staged), whose attempts may
//! overtake, mend or be blocked by each other; crashes; reads. The register's value is the list of
//! writes, so every record needs the data of all writes it names.
//!
//! Data is thrown away as early as the protocol allows: a drive that holds a chosen record drops
//! every shard that the record does not name.
//!
//! What is checked: the register's properties; a chosen record's data is on k' + f drives at that
//! moment; what is served or mended can be put together from k' shards.

use crate::mix::hash_slots;
use crate::{Bad, Log, Mutant, Seen};
use ashlar_commit::{
    AcceptAnswer, Acceptor, Ballot, Copy, Footing, OnePromise, OneSync, PrepareAnswer, Proposer,
    Quorum, ReadStep, Reader, Resync, Role, SlotSet, Step,
};
use smallvec::SmallVec;
use stateright::{Model, Property};
use std::hash::{Hash, Hasher};

const KEY: u128 = 1;
/// The operation number of a read's identity round.
const READER: u8 = 2;

/// What may happen, and how often.
#[derive(Clone, Copy, Debug)]
pub struct Scope<const N: usize> {
    /// k', the shards that give the data back.
    pub k: u8,
    /// k' + f, the shards that must be durable.
    pub needed: u8,
    /// Per writer: one-sync, or staged.
    pub light: [bool; 2],
    /// Attempts per writer.
    pub attempts: u8,
    /// Attempts of all writers and identity rounds together.
    pub rounds: usize,
    /// Restarts of drives.
    pub crashes: u8,
    /// Drives replaced by blank ones.
    pub replaced: u8,
    /// Two drives are declared dead at once.
    pub dead: bool,
    /// Reads.
    pub reads: u8,
    /// HINTs are sent.
    pub hints: bool,
    /// The rule that is broken.
    pub mutant: Option<Mutant>,
}

/// A record.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub struct Rec {
    log: Log,
    /// A one-sync record, and then the record it is built on.
    light: bool,
    parent: Log,
    parent_ballot: Ballot,
}

/// A drive: acceptor, accepted pair, shards by write.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Drive {
    acc: Acceptor<OnePromise>,
    accepted: Ballot,
    rec: Rec,
    hint: bool,
    /// Shards held, by write.
    shards: u8,
    /// Those that an earlier record named and the accepted one does not: dropped once it is chosen.
    stale: u8,
}

/// One attempt.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Round {
    who: u8,
    prop: Proposer<Rec>,
    rec: Rec,
    based: bool,
    proposed: bool,
    chosen: bool,
    /// The write whose shards are being made again.
    mends: u8,
    min: Log,
}

/// A read under way.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Read {
    reader: Reader,
    min: Log,
}

/// Everything.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct World<const N: usize> {
    drives: [Drive; N],
    rounds: SmallVec<[Round; 3]>,
    read: Option<Read>,
    epoch: u32,
    /// Slots whose drive is blank, and the copy: record, and whether it is known chosen.
    joining: SlotSet,
    resync: Option<Resync<(Rec, bool)>>,
    replaced: u8,
    dead: bool,
    /// Drives that were lost.
    lost: u8,
    /// An acknowledged record was reported lost, because more drives died than f: the end.
    reported: bool,
    attempts: [u8; 3],
    answered: u8,
    crashes: u8,
    reads: u8,
    skipped: u64,
    overtaken: bool,
    mended: bool,
    blocked: bool,
    seen: Seen,
}

impl<const N: usize> Hash for World<N> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        hash_slots::<N, H>(state, |i, mix| {
            self.drives[i].hash(mix);
            for r in &self.rounds {
                r.prop.slot_bits(i as u8).hash(mix);
            }
            self.read.as_ref().map(|r| r.reader.slot_bits(i as u8)).hash(mix);
            self.joining.contains(i as u8).hash(mix);
            self.resync.as_ref().map(|r| r.slot_bits(i as u8)).hash(mix);
        });
        for r in &self.rounds {
            r.prop.hash_shared(state);
            (r.who, r.rec, r.based, r.proposed, r.chosen, r.mends, r.min).hash(state);
        }
        if let Some(r) = &self.read {
            r.reader.hash_shared(state);
            r.min.hash(state);
        }
        (self.epoch, self.replaced, self.dead, self.lost, self.reported).hash(state);
        self.resync.as_ref().map(|r| r.copy()).hash(state);
        (self.attempts, self.answered, self.crashes, self.reads, self.skipped).hash(state);
        (self.overtaken, self.mended, self.blocked, self.seen).hash(state);
    }
}

/// One thing that happens.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Act {
    /// An attempt begins; its first PREPARE arrives.
    Start { who: u8, i: u8 },
    /// PREPARE arrives and is answered.
    Prepare { r: u8, i: u8 },
    /// The proposer waits no longer for promises.
    GiveUp { r: u8 },
    /// A shard arrives by itself and is flushed: staged, or made again for the base.
    Shard { r: u8, i: u8 },
    /// ACCEPT arrives, with its shard if one-sync, and is flushed.
    Accept { r: u8, i: u8 },
    /// HINT arrives.
    Hint { r: u8, i: u8 },
    /// A drive restarts.
    Crash { i: u8 },
    /// A drive is replaced by a blank one, in a new epoch.
    Replace { i: u8 },
    /// A voter is fenced for the new epoch and read.
    FenceAndRead { i: u8 },
    /// Two drives are declared dead, in a new epoch.
    Dead { i: u8, j: u8 },
    /// A blank drive takes the copy and becomes a voter.
    Join { i: u8 },
    /// A read begins; its first answer comes back.
    StartRead { i: u8 },
    /// An answer to the read.
    Answer { i: u8 },
    /// The read waits no longer.
    Deadline,
}

impl Drive {
    /// It has the shard of the newest write its record names.
    fn whole(&self) -> bool {
        self.rec.log.marks().last().is_some_and(|m| self.shards & bit(*m) != 0)
    }

    fn new(role: Role, epoch: u32) -> Drive {
        Drive {
            acc: Acceptor::with_promises(role, epoch, Ballot::ZERO, 0, OnePromise::default()),
            accepted: Ballot::ZERO,
            rec: Rec::default(),
            hint: false,
            shards: 0,
            stale: 0,
        }
    }
}

fn bit(mark: u8) -> u8 {
    1 << (mark - 1)
}

fn named(log: Log) -> u8 {
    log.marks().iter().fold(0, |set, m| set | bit(*m))
}

impl<const N: usize> World<N> {
    /// Drives with the shard of a write.
    fn copies(&self, mark: u8) -> u8 {
        self.drives.iter().filter(|d| d.shards & bit(mark) != 0).count() as u8
    }

    /// The fewest copies of any write the log names.
    fn thinnest(&self, log: Log) -> u8 {
        log.marks().iter().map(|m| self.copies(*m)).min().unwrap_or(u8::MAX)
    }

    fn drop_stale(&mut self) {
        let World { drives, rounds, .. } = self;
        for d in drives {
            if rounds.iter().any(|r| r.chosen && r.prop.ballot() == d.accepted) {
                d.shards &= !d.stale;
                d.stale = 0;
            }
        }
    }
}

/// Rounds.
impl<const N: usize> Scope<N> {
    /// Two one-sync writers, two rounds, nothing else.
    #[must_use]
    pub const fn plain(k: u8, needed: u8) -> Scope<N> {
        Scope {
            k,
            needed,
            light: [true, true],
            attempts: 2,
            rounds: 2,
            crashes: 0,
            replaced: 0,
            dead: false,
            reads: 0,
            hints: false,
            mutant: None,
        }
    }

    fn quorum(&self) -> Quorum {
        Quorum::new(N as u8)
    }

    fn broken(&self, mutant: Mutant) -> bool {
        self.mutant == Some(mutant)
    }

    fn spec(&self) -> OneSync {
        OneSync { k: self.k, needed: self.needed, targets: self.quorum().all() }
    }

    fn start(&self, w: &mut World<N>, who: u8, min: Log) -> usize {
        w.attempts[who as usize] += 1;
        let counter = w.skipped + u64::from(w.attempts[who as usize]);
        let ballot = Ballot { epoch: w.epoch, counter, node: u16::from(who) + 1, nonce: 0 };
        let at = w.rounds.iter().take_while(|r| r.prop.ballot() < ballot).count();
        w.rounds.insert(
            at,
            Round {
                who,
                prop: Proposer::new(self.quorum(), ballot),
                rec: Rec::default(),
                based: false,
                proposed: false,
                chosen: false,
                mends: 0,
                min,
            },
        );
        at
    }

    fn prepare(&self, w: &mut World<N>, r: usize, i: usize) -> Option<()> {
        let ballot = w.rounds[r].prop.ballot();
        let drive = &mut w.drives[i];
        let mut answer = drive.acc.prepare(KEY, drive.accepted, ballot);
        if let PrepareAnswer::RaiseFloorFirst { to } = answer {
            drive.acc.floor_raised(to);
            answer = drive.acc.prepare(KEY, drive.accepted, ballot);
        }
        if answer != PrepareAnswer::Promised {
            return None;
        }
        let (accepted, rec, hint) = (drive.accepted, drive.rec, drive.hint);
        let whole = drive.whole();
        let prop = &mut w.rounds[r].prop;
        if hint {
            prop.on_hint(accepted);
        }
        let slot = i as u8;
        let step = if accepted == Ballot::ZERO {
            prop.on_promise(slot, None)
        } else if rec.light {
            prop.on_promise_one_sync(slot, (accepted, rec), self.spec(), whole)
        } else {
            prop.on_promise(slot, Some((accepted, rec)))
        };
        self.took(w, r, step);
        Some(())
    }

    fn give_up(&self, w: &mut World<N>, r: usize) {
        let rest = self.quorum().all().without(w.rounds[r].prop.promised_by());
        for slot in rest.iter() {
            let prop = &mut w.rounds[r].prop;
            let step = if self.broken(Mutant::IgnoreWithoutCount) {
                prop.on_promise(slot, None) // as if it had said that it holds nothing
            } else {
                prop.on_silent(slot)
            };
            self.took(w, r, step);
        }
    }

    fn took(&self, w: &mut World<N>, r: usize, step: Step<Rec>) {
        let (base, known) = match step {
            Step::Wait => return,
            Step::Base(base, known) => {
                (base.map_or((Ballot::ZERO, Log::default()), |b| (b.0, b.1.log)), known)
            }
            Step::Unavailable => {
                w.blocked = true;
                return;
            }
            Step::Recover(rec) => match rec.footing {
                Footing::Overtaken => {
                    w.overtaken = true;
                    (self.parent(w, r, rec.ballot, rec.value), false)
                }
                Footing::Mend { .. } => {
                    w.mended = true;
                    let newest = rec.value.log.marks().last().copied().unwrap_or(1);
                    w.rounds[r].mends = newest;
                    if self.broken(Mutant::BuildOnThin) {
                        (0..N as u8).for_each(|i| w.rounds[r].prop.on_mended(i));
                    }
                    ((rec.ballot, rec.value.log), false)
                }
            },
            other => unreachable!("{other:?}"),
        };
        self.decide(w, r, base, known);
    }

    fn parent(&self, w: &World<N>, r: usize, overtaken: Ballot, rec: Rec) -> (Ballot, Log) {
        if !self.broken(Mutant::HiddenParent) {
            return (rec.parent_ballot, rec.parent);
        }
        // The next best record among the promisers, where the overtaken one has not covered it.
        let promised = w.rounds[r].prop.promised_by();
        let below = promised.iter().map(|i| &w.drives[i as usize]);
        let next = below.filter(|d| d.accepted < overtaken).max_by_key(|d| d.accepted);
        next.map_or((Ballot::ZERO, Log::default()), |d| (d.accepted, d.rec.log))
    }

    fn decide(&self, w: &mut World<N>, r: usize, base: (Ballot, Log), known: bool) {
        let (base_ballot, base) = base;
        let round = &mut w.rounds[r];
        let mark = round.who + 1;
        round.based = true;
        if round.who == READER {
            round.rec = Rec { log: base, ..Rec::default() };
            if known || base.is_empty() {
                round.chosen = known;
                let min = round.min;
                w.seen.observe(base, min);
                return;
            }
        } else if base.contains(mark) {
            round.rec = Rec { log: base, ..Rec::default() };
        } else {
            let light = self.light[round.who as usize];
            let log = base.with(mark);
            round.rec = if light {
                Rec { log, light, parent: base, parent_ballot: base_ballot }
            } else {
                Rec { log, ..Rec::default() }
            };
        }
        self.send(w, r);
    }

    /// Shards the round waits for: of its own data, if staged.
    fn stages(&self, round: &Round) -> u8 {
        let own = round.who < READER && round.rec.log.marks().last() == Some(&(round.who + 1));
        let fresh = own && !round.rec.light && round.mends != round.who + 1;
        if fresh && !self.light[round.who as usize] { self.needed } else { 0 }
    }

    fn send(&self, w: &mut World<N>, r: usize) {
        let round = &mut w.rounds[r];
        let stages = self.stages(round);
        if !round.based || round.proposed || round.chosen || !round.prop.may_propose(stages) {
            return;
        }
        if round.rec.light {
            round.prop.one_sync(self.spec());
        } else {
            round.prop.propose(stages);
        }
        round.proposed = true;
    }

    fn shard(&self, w: &mut World<N>, r: usize, i: usize) {
        let round = &mut w.rounds[r];
        let slot = i as u8;
        let mark = if round.mends > 0 && !round.prop.may_propose(0) {
            round.prop.on_mended(slot);
            round.mends
        } else {
            round.prop.on_stage_durable(slot);
            round.who + 1
        };
        // Staged again: no older record decides about it (stage ballots in the real drive).
        w.drives[i].shards |= bit(mark);
        w.drives[i].stale &= !bit(mark);
        self.send(w, r);
    }

    fn accept(&self, w: &mut World<N>, r: usize, i: usize) -> Option<()> {
        let round = &w.rounds[r];
        let (ballot, rec, who) = (round.prop.ballot(), round.rec, round.who);
        let drive = &mut w.drives[i];
        let answer = drive.acc.accept(KEY, drive.accepted, ballot);
        if !matches!(answer, AcceptAnswer::Go | AcceptAnswer::GoUncounted) {
            return None;
        }
        drive.accepted = ballot;
        drive.stale = (drive.stale | named(drive.rec.log)) & !named(rec.log);
        drive.rec = rec;
        drive.hint = false;
        if rec.light {
            drive.shards |= bit(who + 1);
        }
        let prop = &mut w.rounds[r].prop;
        if answer == AcceptAnswer::GoUncounted {
            w.drop_stale();
            return Some(());
        }
        let step = prop.on_accepted(i as u8);
        let majority = prop.accepted_by().len() == self.quorum().majority();
        if step == Step::Chosen || self.broken(Mutant::AckAtMajority) && majority {
            w.rounds[r].chosen = true;
            let min = if who == READER { w.rounds[r].min } else { Log::default() };
            w.seen.observe(rec.log, min);
            if who < READER {
                w.answered |= 1 << who;
            }
        }
        w.drop_stale();
        Some(())
    }
}

/// A replaced drive.
impl<const N: usize> Scope<N> {
    fn blank(&self, w: &mut World<N>, slots: SlotSet, dead: bool) {
        let q = self.quorum();
        w.epoch += 1;
        w.lost += slots.len();
        w.joining = slots;
        w.resync = if dead {
            Resync::dead(q, w.epoch, slots)
        } else {
            Some(Resync::replaced(q, w.epoch, slots))
        };
        for i in slots.iter() {
            w.drives[i as usize] = Drive::new(Role::Joining, w.epoch);
        }
    }

    fn fence_and_read(&self, w: &mut World<N>, i: u8) {
        let drive = &mut w.drives[i as usize];
        drive.acc.fence(w.epoch);
        let (rec, hint) = (drive.rec, drive.hint);
        let (pair, whole) = ((drive.accepted, (rec, hint)), drive.whole());
        let Some(resync) = &mut w.resync else { return };
        resync.on_fenced(i);
        if pair.0 == Ballot::ZERO {
            resync.on_record(i, None);
        } else if rec.light && !hint {
            resync.on_record_one_sync(i, pair, self.spec(), whole);
        } else {
            resync.on_record(i, Some(pair));
        }
    }

    fn join(&self, w: &mut World<N>, i: u8) -> Option<()> {
        let nothing = self.broken(Mutant::CopyNothing);
        let copy = match w.resync.as_ref()?.copy() {
            Copy::Wait => return None,
            Copy::Nothing => None,
            Copy::Record((b, (rec, hint))) => Some((*b, *rec, *hint)),
            Copy::Parent { .. } if nothing => None,
            Copy::Parent { of: (_, (rec, _)), maybe_lost } => {
                let acknowledged = rec.log.marks().last().is_some_and(|m| w.seen.log.contains(*m));
                w.reported = maybe_lost && acknowledged;
                let parent = Rec { log: rec.parent, ..Rec::default() };
                Some((rec.parent_ballot, parent, false))
            }
        };
        let drive = &mut w.drives[i as usize];
        if let Some((ballot, rec, hint)) = copy
            && ballot > drive.accepted
        {
            drive.stale = (drive.stale | named(drive.rec.log)) & !named(rec.log);
            (drive.accepted, drive.rec, drive.hint) = (ballot, rec, hint);
        }
        drive.acc.joined();
        w.joining.remove(i);
        if w.joining.is_empty() {
            w.resync = None;
        }
        Some(())
    }
}

/// Reads.
impl<const N: usize> Scope<N> {
    fn answer(&self, w: &mut World<N>, i: usize) {
        let Some(mut read) = w.read.take() else { return };
        let drive = &w.drives[i];
        let (slot, hint) = (i as u8, drive.hint);
        let voter = drive.acc.role() == Role::Voter;
        let whole = drive.whole();
        let light = drive.rec.light && !self.broken(Mutant::ReadAtMajority);
        let step = if drive.accepted == Ballot::ZERO {
            read.reader.on_answer(slot, None, false, voter)
        } else if light {
            let (b, needed) = (drive.accepted, self.needed);
            read.reader.on_answer_one_sync(slot, b, hint, voter, whole, needed)
        } else {
            read.reader.on_answer(slot, Some(drive.accepted), hint, voter)
        };
        self.serve(w, read, step);
    }

    fn serve(&self, w: &mut World<N>, read: Read, step: ReadStep) {
        match step {
            ReadStep::Wait => w.read = Some(read),
            ReadStep::Serve { ballot, .. } => {
                let round = w.rounds.iter().find(|r| r.prop.ballot() == ballot);
                let log = round.map_or_else(Log::default, |r| r.rec.log);
                w.seen.observe(log, read.min);
            }
            ReadStep::Absent { .. } => w.seen.observe(Log::default(), read.min),
            ReadStep::NeedIdentityRound => {
                if w.rounds.len() < self.rounds {
                    self.start(w, READER, read.min);
                }
            }
            ReadStep::Unavailable => {}
        }
    }
}

impl<const N: usize> Model for Scope<N> {
    type State = World<N>;
    type Action = Act;

    fn init_states(&self) -> Vec<World<N>> {
        vec![World {
            drives: std::array::from_fn(|_| Drive::new(Role::Voter, 1)),
            rounds: SmallVec::new(),
            read: None,
            epoch: 1,
            joining: SlotSet::EMPTY,
            resync: None,
            replaced: self.replaced,
            dead: self.dead,
            lost: 0,
            reported: false,
            attempts: [0; 3],
            answered: 0,
            crashes: self.crashes,
            reads: self.reads,
            skipped: 0,
            overtaken: false,
            mended: false,
            blocked: false,
            seen: Seen::default(),
        }]
    }

    fn actions(&self, w: &World<N>, acts: &mut Vec<Act>) {
        if w.seen.bad.is_some() || w.reported {
            return;
        }
        let slots = 0..N as u8;
        for who in 0..2u8 {
            let more = w.rounds.len() < self.rounds && w.attempts[who as usize] < self.attempts;
            if more && w.answered >> who & 1 == 0 {
                acts.extend(slots.clone().map(|i| Act::Start { who, i }));
            }
        }
        for (r, round) in w.rounds.iter().enumerate() {
            let r = r as u8;
            let ballot = round.prop.ballot();
            let mends = round.based && !round.proposed && !round.prop.may_propose(0);
            let stages = round.based && !round.proposed && !mends && self.stages(round) > 0;
            for i in slots.clone() {
                let drive = &w.drives[i as usize];
                let promised = drive.acc.promised(KEY, drive.accepted);
                let voter = drive.acc.role() == Role::Voter;
                if round.proposed && drive.accepted < ballot && promised <= ballot {
                    acts.push(Act::Accept { r, i });
                }
                if voter && !round.based && !round.chosen && promised < ballot {
                    acts.push(Act::Prepare { r, i });
                }
                let lacks = |mark: u8| drive.shards & bit(mark) == 0;
                // Made from k' others, if they are still there; if not, the round has lost anyway.
                if mends && lacks(round.mends) && w.copies(round.mends) >= self.k
                    || stages && !round.prop.staged_by().contains(i)
                {
                    acts.push(Act::Shard { r, i });
                }
                if self.hints && round.chosen && drive.accepted == ballot && !drive.hint {
                    acts.push(Act::Hint { r, i });
                }
            }
            if !round.based && round.prop.promised_by().len() >= self.quorum().majority() {
                acts.push(Act::GiveUp { r });
            }
        }
        let used = !w.rounds.is_empty() && w.joining.is_empty();
        if w.replaced > 0 && used {
            acts.extend(slots.clone().map(|i| Act::Replace { i }));
        }
        if w.dead && used {
            for i in 0..N as u8 {
                acts.extend((i + 1..N as u8).map(|j| Act::Dead { i, j }));
            }
        }
        if let Some(resync) = &w.resync {
            let left = resync.sources().without(resync.read_by());
            acts.extend(left.iter().map(|i| Act::FenceAndRead { i }));
            if resync.copy() != Copy::Wait {
                acts.extend(w.joining.iter().map(|i| Act::Join { i }));
            }
        }
        if w.crashes > 0 {
            acts.extend(slots.clone().map(|i| Act::Crash { i }));
        }
        match &w.read {
            None if w.reads > 0 && !w.rounds.is_empty() => {
                acts.extend(slots.map(|i| Act::StartRead { i }));
            }
            None => {}
            Some(read) => {
                let answered = read.reader.answered_by();
                let rest = self.quorum().all().without(answered);
                acts.extend(rest.iter().map(|i| Act::Answer { i }));
                if answered.len() >= self.quorum().half() {
                    acts.push(Act::Deadline);
                }
            }
        }
    }

    fn next_state(&self, last: &World<N>, act: Act) -> Option<World<N>> {
        let mut w = last.clone();
        match act {
            Act::Start { who, i } => {
                let r = self.start(&mut w, who, Log::default());
                self.prepare(&mut w, r, i as usize)?;
            }
            Act::Prepare { r, i } => self.prepare(&mut w, r as usize, i as usize)?,
            Act::GiveUp { r } => self.give_up(&mut w, r as usize),
            Act::Shard { r, i } => self.shard(&mut w, r as usize, i as usize),
            Act::Accept { r, i } => self.accept(&mut w, r as usize, i as usize)?,
            Act::Hint { r: _, i } => w.drives[i as usize].hint = true,
            Act::Crash { i } => {
                w.crashes -= 1;
                let drive = &mut w.drives[i as usize];
                let (role, epoch, floor) =
                    (drive.acc.role(), drive.acc.epoch(), drive.acc.floor());
                let acc: Acceptor<OnePromise> =
                    Acceptor::with_promises(role, epoch, floor, 0, OnePromise::default());
                if acc == drive.acc && !drive.hint {
                    return None;
                }
                drive.acc = acc;
                drive.hint = false;
                w.skipped = w.skipped.max(floor.counter);
            }
            Act::Replace { i } => {
                w.replaced -= 1;
                self.blank(&mut w, [i].into_iter().collect(), false);
            }
            Act::Dead { i, j } => {
                w.dead = false;
                self.blank(&mut w, [i, j].into_iter().collect(), true);
            }
            Act::FenceAndRead { i } => self.fence_and_read(&mut w, i),
            Act::Join { i } => self.join(&mut w, i)?,
            Act::StartRead { i } => {
                w.reads -= 1;
                w.read = Some(Read { reader: Reader::new(self.quorum()), min: w.seen.log });
                self.answer(&mut w, i as usize);
            }
            Act::Answer { i } => self.answer(&mut w, i as usize),
            Act::Deadline => {
                let mut read = w.read.take()?;
                let step = read.reader.on_deadline();
                self.serve(&mut w, read, step);
            }
        }
        // What clients have seen keeps its data, but for the drives that were taken away.
        if w.thinnest(w.seen.log).saturating_add(w.lost) < self.needed {
            w.seen.fail(Bad::Thin);
        }
        Some(w)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        // Any majority of promises shows k' shards of whatever is chosen: then nothing blocks, as
        // long as no drive lost its shards.
        let overlap = self.quorum().majority().max(self.needed) + self.quorum().majority();
        let whole = self.replaced == 0 && !self.dead;
        let decides = overlap >= self.k + N as u8;
        let mut all: Vec<Property<Self>> = vec![
            Property::always("no observed state is lost", |_, w: &World<N>| {
                w.seen.bad != Some(Bad::Fork)
            }),
            Property::always("nothing older than observed is answered", |_, w: &World<N>| {
                w.seen.bad != Some(Bad::Stale)
            }),
            Property::always("what is decided has its data", |_, w: &World<N>| {
                w.seen.bad != Some(Bad::Thin)
            }),
            Property::sometimes("reached: both writers have their answer", |_, w: &World<N>| {
                w.answered == 3
            }),
            Property::sometimes("reached: a record is overtaken", |_, w: &World<N>| w.overtaken),
        ];
        if self.needed > self.k {
            all.push(Property::sometimes("reached: a record is mended", |_, w: &World<N>| w.mended));
        }
        if decides && whole {
            all.push(Property::always("a majority always decides", |_, w: &World<N>| !w.blocked));
        } else if whole {
            all.push(Property::sometimes("reached: blocked", |_, w: &World<N>| w.blocked));
        }
        all
    }
}

