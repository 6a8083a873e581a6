//! Data staged before the record, and the collector of orphans (docs/protocol.md 2.3 step 4, 2.6).
//!
//! A slow writer stages its shards, loses, and returns with a higher ballot and the same data. A second
//! writer changes the register without data. The collector treats the staged data as an orphan: it may be
//! one, or the writer may be about to send its record.
//!
//! Property, in every state: for any majority of slots that a proposer may reach, the data of the record that
//! it would build on is on `NEEDED` drives.
//!
//! Must not depend on: other worlds, except the drives of [`crate::register`].

use crate::mix::hash_slots;
use crate::register::state::{Drive, KEY};
use crate::{Bad, Log, Mutant, Seen};
use ashlar_commit::{
    AcceptAnswer, Acceptor, Ballot, ConfirmAnswer, OnePromise, PrepareAnswer, Proposer, Quorum, Role,
    SlotSet, Step, Sweep, SweepStep,
};
use smallvec::SmallVec;
use stateright::{Model, Property};
use std::hash::{Hash, Hasher};

/// The writer whose change has data; number 1 is a writer without data, number 2 the collector.
const DATA: u8 = 0;
/// The mark of the change that names the data.
const NAMES: u8 = DATA + 1;

/// The bounds of the world.
#[derive(Clone, Copy, Debug)]
pub struct Scope<const N: usize> {
    /// k' + f.
    pub needed: u8,
    /// Attempts of the writer with data, of the one without, and of the collector.
    pub attempts: [u8; 3],
    /// STAGE is sent together with PREPARE (small objects), which gives far fewer orders of events.
    pub together: bool,
    /// Restarts of drives.
    pub crashes: u8,
    /// The rule that is broken.
    pub mutant: Option<Mutant>,
}

/// The shard of the data on one drive.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub struct Stage {
    held: bool,
    /// The ballot stored with it.
    written: Ballot,
    /// The highest ballot it was confirmed for since the start; in memory.
    confirmed: Ballot,
}

/// The state machine of one attempt.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Machine {
    Write(Proposer<Log>),
    Collect(Sweep<Log>),
}

/// One attempt.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Round {
    who: u8,
    machine: Machine,
    base_known: bool,
    log: Log,
    proposed: bool,
    /// Whether the collector may drop.
    drops: bool,
    /// The drives that have dropped it.
    dropped: SlotSet,
}

impl Round {
    fn prop(&self) -> &Proposer<Log> {
        match &self.machine {
            Machine::Write(p) => p,
            Machine::Collect(s) => s.proposer(),
        }
    }

    fn ballot(&self) -> Ballot {
        self.prop().ballot()
    }

    fn slot_bits(&self, slot: u8) -> u32 {
        match &self.machine {
            Machine::Write(p) => u32::from(p.slot_bits(slot)),
            Machine::Collect(s) => s.slot_bits(slot),
        }
    }
}

/// The state of the world.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct World<const N: usize> {
    drives: [Drive; N],
    stages: [Stage; N],
    rounds: SmallVec<[Round; 4]>,
    attempts: [u8; 3],
    answered: u8,
    crashes: u8,
    skipped: u64,
    collected: bool,
    seen: Seen,
}

impl<const N: usize> Hash for World<N> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        hash_slots::<N, H>(state, |i, mix| {
            (&self.drives[i], self.stages[i]).hash(mix);
            for r in &self.rounds {
                (r.slot_bits(i as u8), r.dropped.contains(i as u8)).hash(mix);
            }
        });
        for r in &self.rounds {
            match &r.machine {
                Machine::Write(p) => p.hash_shared(state),
                Machine::Collect(s) => s.hash_shared(state),
            }
            (r.who, r.base_known, r.log, r.proposed, r.drops).hash(state);
        }
        (self.attempts, self.answered, self.crashes, self.skipped, self.collected).hash(state);
        self.seen.hash(state);
    }
}

/// One action. `who`: operation; `r`: index of a round, in order of their ballots; `i`, `j`: slots.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[allow(missing_docs)] // the fields are named above
pub enum Act {
    /// An attempt begins; its first PREPARE arrives.
    Start { who: u8, i: u8 },
    /// PREPARE arrives and is answered.
    Prepare { r: u8, i: u8 },
    /// The collector stops waiting for the slots that have not promised.
    GiveUp { r: u8 },
    /// STAGE arrives and is flushed, or the drive confirms the shard it has.
    Stage { r: u8, i: u8 },
    /// ACCEPT arrives and is flushed.
    Accept { r: u8, i: u8 },
    /// The collector's DROP arrives.
    Drop { r: u8, i: u8 },
    /// A drive restarts.
    Crash { i: u8 },
}

impl<const N: usize> Scope<N> {
    fn quorum(&self) -> Quorum {
        Quorum::new(N as u8)
    }

    fn broken(&self, mutant: Mutant) -> bool {
        self.mutant == Some(mutant)
    }

    fn start(&self, w: &mut World<N>, who: u8) -> usize {
        w.attempts[who as usize] += 1;
        let counter = w.skipped + u64::from(w.attempts[who as usize]);
        let ballot = Ballot { epoch: 1, counter, node: u16::from(who) + 1, nonce: 0 };
        let machine = if who < 2 {
            Machine::Write(Proposer::new(self.quorum(), ballot))
        } else {
            Machine::Collect(Sweep::new(self.quorum(), ballot))
        };
        let at = w.rounds.iter().take_while(|r| r.ballot() < ballot).count();
        w.rounds.insert(
            at,
            Round {
                who,
                machine,
                base_known: false,
                log: Log::default(),
                proposed: false,
                drops: false,
                dropped: SlotSet::EMPTY,
            },
        );
        at
    }

    fn prepare(&self, w: &mut World<N>, r: usize, i: usize) -> Option<()> {
        let ballot = w.rounds[r].ballot();
        let drive = &mut w.drives[i];
        let mut answer = drive.acc.prepare(KEY, drive.accepted, ballot);
        if let PrepareAnswer::RaiseFloorFirst { to } = answer {
            drive.acc.floor_raised(to);
            answer = drive.acc.prepare(KEY, drive.accepted, ballot);
        }
        if answer != PrepareAnswer::Promised {
            return None;
        }
        let pair = drive.pair();
        if self.together && w.rounds[r].who == DATA {
            self.stage(w, r, i)?;
        }
        let round = &mut w.rounds[r];
        match &mut round.machine {
            Machine::Write(p) => match p.on_promise(i as u8, pair) {
                Step::Base(base, _) => {
                    let base = base.map_or_else(Log::default, |b| b.1);
                    let mark = round.who + 1;
                    round.log = if base.contains(mark) { base } else { base.with(mark) };
                    round.base_known = true;
                }
                Step::Wait => {}
                other => unreachable!("{other:?}"),
            },
            Machine::Collect(s) => {
                let names = pair.is_some_and(|p| p.1.contains(NAMES));
                let step = s.on_promise(i as u8, pair, names, false);
                self.collector(round, step);
            }
        }
        self.send(&mut w.rounds[r]);
        Some(())
    }

    fn collector(&self, round: &mut Round, step: SweepStep<Log>) {
        match step {
            SweepStep::Round(base) => {
                round.log = base.map_or_else(Log::default, |b| b.1);
                round.base_known = true;
                if self.broken(Mutant::SweepOnlyPrepares) {
                    round.base_known = false;
                    round.drops = true;
                } else if let Machine::Collect(s) = &mut round.machine {
                    s.propose();
                    round.proposed = true;
                }
            }
            SweepStep::Drop => round.drops = true,
            SweepStep::Wait | SweepStep::Keep | SweepStep::Later { .. } => {}
        }
    }

    /// A writer sends its record as soon as allowed.
    fn send(&self, round: &mut Round) {
        let Machine::Write(p) = &mut round.machine else { return };
        let skip = self.broken(Mutant::RecordBeforeData);
        let needed = if round.who == DATA && !skip { self.needed } else { 0 };
        if round.base_known && !round.proposed && p.may_propose(needed) {
            p.propose(needed);
            round.proposed = true;
        }
    }

    fn stage(&self, w: &mut World<N>, r: usize, i: usize) -> Option<()> {
        let ballot = w.rounds[r].ballot();
        let stage = &mut w.stages[i];
        let acc = &mut w.drives[i].acc;
        if stage.held && self.broken(Mutant::NoReconfirm) {
            // Counted with its old ballot.
        } else if stage.held {
            if let ConfirmAnswer::RaiseFloorFirst { to } = acc.confirm(ballot) {
                acc.floor_raised(to);
            }
            if acc.confirm(ballot) != ConfirmAnswer::Confirmed {
                return None;
            }
            stage.confirmed = stage.confirmed.max(ballot);
        } else {
            *stage = Stage { held: true, written: ballot, confirmed: ballot };
        }
        if let Machine::Write(p) = &mut w.rounds[r].machine {
            p.on_stage_durable(i as u8);
        }
        self.send(&mut w.rounds[r]);
        Some(())
    }

    fn accept(&self, w: &mut World<N>, r: usize, i: usize) -> Option<()> {
        let (ballot, log) = (w.rounds[r].ballot(), w.rounds[r].log);
        let drive = &mut w.drives[i];
        if drive.acc.accept(KEY, drive.accepted, ballot) != AcceptAnswer::Go {
            return None;
        }
        drive.accepted = ballot;
        drive.log = log;
        let round = &mut w.rounds[r];
        let who = round.who;
        match &mut round.machine {
            Machine::Write(p) => {
                if p.on_accepted(i as u8) == Step::Chosen {
                    w.answered |= 1 << who;
                    w.seen.observe(log, Log::default());
                }
            }
            Machine::Collect(s) => {
                let step = s.on_accepted(i as u8);
                self.collector(round, step);
            }
        }
        Some(())
    }

    fn drop_stage(&self, w: &mut World<N>, r: usize, i: usize) {
        let ballot = w.rounds[r].ballot();
        let (stage, drive) = (w.stages[i], &w.drives[i]);
        w.rounds[r].dropped.insert(i as u8);
        let mine = if self.broken(Mutant::ConfirmForgotten) {
            ballot > stage.written.max(stage.confirmed)
        } else {
            drive.acc.may_drop(stage.written.max(stage.confirmed), ballot)
        };
        let named = drive.accepted > Ballot::ZERO && drive.log.contains(NAMES);
        if mine && !named && stage.held {
            w.stages[i] = Stage::default();
            w.collected = true;
        }
    }

    /// Whether a proposer that reaches these slots would build on this record.
    fn backed(&self, w: &World<N>, slots: SlotSet) -> bool {
        let top = slots.iter().map(|i| &w.drives[i as usize]).max_by_key(|d| d.accepted);
        let names = top.is_some_and(|d| d.log.contains(NAMES));
        let held = w.stages.iter().filter(|s| s.held).count();
        !names || held >= usize::from(self.needed)
    }
}

impl<const N: usize> Model for Scope<N> {
    type State = World<N>;
    type Action = Act;

    fn init_states(&self) -> Vec<World<N>> {
        vec![World {
            drives: std::array::from_fn(|_| Drive::new(Role::Voter, 1)),
            stages: [Stage::default(); N],
            rounds: SmallVec::new(),
            attempts: [0; 3],
            answered: 0,
            crashes: self.crashes,
            skipped: 0,
            collected: false,
            seen: Seen::default(),
        }]
    }

    fn actions(&self, w: &World<N>, acts: &mut Vec<Act>) {
        if w.seen.bad.is_some() {
            return;
        }
        for who in 0..3u8 {
            // The collector acts only if something was staged.
            let idle = who == 2 && !w.stages.iter().any(|s| s.held);
            let done = w.answered >> who & 1 == 1;
            if w.attempts[who as usize] < self.attempts[who as usize] && !done && !idle {
                acts.extend((0..N as u8).map(|i| Act::Start { who, i }));
            }
        }
        for (r, round) in w.rounds.iter().enumerate() {
            let r = r as u8;
            let ballot = round.ballot();
            for i in 0..N as u8 {
                let drive = &w.drives[i as usize];
                let promised = drive.acc.promised(KEY, drive.accepted);
                if round.proposed {
                    if drive.accepted < ballot && promised <= ballot {
                        acts.push(Act::Accept { r, i });
                    }
                } else if promised < ballot && !round.drops {
                    acts.push(Act::Prepare { r, i });
                }
                let staged = round.prop().staged_by().contains(i);
                // A slot that refuses PREPARE nevertheless accepts the shard.
                let comes = !self.together || promised >= ballot;
                if round.who == DATA && !staged && !round.proposed && comes {
                    acts.push(Act::Stage { r, i });
                }
                if round.drops && !round.dropped.contains(i) && w.stages[i as usize].held {
                    acts.push(Act::Drop { r, i });
                }
            }
            let heard = round.prop().promised_by().len() >= self.quorum().majority();
            if round.who == 2 && heard && !round.proposed && !round.drops {
                acts.push(Act::GiveUp { r });
            }
        }
        if w.crashes > 0 {
            acts.extend((0..N as u8).map(|i| Act::Crash { i }));
        }
    }

    fn next_state(&self, last: &World<N>, act: Act) -> Option<World<N>> {
        let mut w = last.clone();
        match act {
            Act::Start { who, i } => {
                let r = self.start(&mut w, who);
                if who == 2 && self.broken(Mutant::SweepWithoutBallot) {
                    // It reads a majority, sees no record that names the data, and drops.
                    let names = w.drives.iter().filter(|d| d.log.contains(NAMES)).count();
                    let unseen = N - names >= usize::from(self.quorum().majority());
                    w.rounds[r].drops = unseen;
                } else {
                    self.prepare(&mut w, r, i as usize)?;
                }
            }
            Act::Prepare { r, i } => self.prepare(&mut w, r as usize, i as usize)?,
            Act::GiveUp { r } => {
                let round = &mut w.rounds[r as usize];
                let rest = self.quorum().all().without(round.prop().promised_by());
                for i in rest.iter() {
                    if let Machine::Collect(s) = &mut round.machine {
                        let step = s.on_silent(i);
                        self.collector(round, step);
                    }
                }
            }
            Act::Stage { r, i } => self.stage(&mut w, r as usize, i as usize)?,
            Act::Accept { r, i } => self.accept(&mut w, r as usize, i as usize)?,
            Act::Drop { r, i } => self.drop_stage(&mut w, r as usize, i as usize),
            Act::Crash { i } => {
                w.crashes -= 1;
                let drive = &mut w.drives[i as usize];
                let floor = drive.acc.floor();
                let acc: Acceptor<OnePromise> =
                    Acceptor::with_promises(Role::Voter, 1, floor, 0, OnePromise::default());
                let stage = &mut w.stages[i as usize];
                if acc == drive.acc && stage.confirmed == stage.written {
                    return None;
                }
                drive.acc = acc;
                stage.confirmed = stage.written;
                w.skipped = w.skipped.max(floor.counter);
            }
        }
        let m = u32::from(self.quorum().majority());
        let thin =
            (1u64..1 << N).filter(|set| set.count_ones() == m).any(|set| !self.backed(&w, SlotSet(set)));
        if thin {
            w.seen.fail(Bad::Thin);
        }
        Some(w)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("no observed state is lost", |_, w: &World<N>| {
                !matches!(w.seen.bad, Some(Bad::Fork | Bad::Stale))
            }),
            Property::always("every base has its data", |_, w: &World<N>| w.seen.bad != Some(Bad::Thin)),
            Property::sometimes("reached: every writer has its answer", |s: &Scope<N>, w: &World<N>| {
                (0..2).all(|who| s.attempts[who] == 0 || w.answered >> who & 1 == 1)
            }),
            Property::sometimes("reached: data is collected", |_, w: &World<N>| w.collected),
        ]
    }
}
