//! The possible actions of the world, and their effects. `ashlar-commit` is the protocol; this file delivers
//! messages, keeps the durable state, and breaks the rule that a mutant removes.
//!
//! Must not depend on: other worlds.

use super::faults::acceptor;
use super::state::{KEY, Kind, Read, Round, Scope, World};
use crate::{Log, Mutant};
use ashlar_commit::{AcceptAnswer, Ballot, PrepareAnswer, Proposer, Reader, Role, SlotSet, Step, may_purge};
use stateright::{Model, Property};

/// The operation number of a read's identity round.
pub(super) const READER: u8 = 2;

/// One action. `who`: operation; `r`: index of a round, in order of their ballots; `i`, `j`: slots; `epoch`:
/// that of the map in use.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[allow(missing_docs)] // the fields are named above
pub enum Act {
    /// A writer begins an attempt, with the map of this epoch; its first PREPARE arrives.
    Start { who: u8, epoch: u32, i: u8 },
    /// PREPARE arrives and its answer comes back.
    Prepare { r: u8, i: u8 },
    /// ACCEPT arrives, is flushed, and its answer comes back.
    Accept { r: u8, i: u8 },
    /// HINT arrives.
    Hint { r: u8, i: u8 },
    /// A purge of the tombstone of this round arrives.
    Purge { r: u8, i: u8 },
    /// A coordinator decides on its base.
    Decide { r: u8 },
    /// The coordinator stops waiting for slots that could give more information.
    Short { r: u8 },
    /// A writer sees that drives show the record of a round.
    Look { who: u8, r: u8 },
    /// A client gets an error for its write.
    GiveUp { who: u8 },
    /// Nothing is written any more, and everything is restarted.
    Still,
    /// An image of a drive is kept.
    Image { i: u8 },
    /// The image is restored.
    Back { i: u8 },
    /// ACCEPT arrives; the flush fails.
    FailFlush { r: u8, i: u8 },
    /// All drives lose their vote.
    Distrust,
    /// An operator orders a recovery from the remaining drives.
    Salvage,
    /// A drive restarts.
    Crash { i: u8 },
    /// A drive is replaced by a blank one, in a new epoch.
    Replace { i: u8 },
    /// Two drives are declared dead, in a new epoch.
    Dead { i: u8, j: u8 },
    /// A voter is fenced for the new epoch and read.
    FenceAndRead { i: u8 },
    /// A blank drive takes the copy and becomes a voter.
    Join { i: u8 },
    /// A read begins with this map; its first answer comes back.
    StartRead { epoch: u32, i: u8 },
    /// An answer to the read comes back.
    Answer { i: u8 },
    /// The read stops waiting.
    Deadline,
}

impl<const N: usize> Model for Scope<N> {
    type State = World<N>;
    type Action = Act;

    fn init_states(&self) -> Vec<World<N>> {
        vec![World::start(self)]
    }

    fn actions(&self, w: &World<N>, acts: &mut Vec<Act>) {
        if w.seen.bad.is_some() {
            return;
        }
        self.round_actions(w, acts);
        self.drive_actions(w, acts);
        self.fault_actions(w, acts);
        self.read_actions(w, acts);
    }

    fn next_state(&self, last: &World<N>, act: Act) -> Option<World<N>> {
        let mut w = last.clone();
        match act {
            Act::Start { who, epoch, i } => {
                let r = self.start(&mut w, who, self.writers[who as usize], epoch, None);
                self.prepare(&mut w, r, i as usize)?;
            }
            Act::Prepare { r, i } => self.prepare(&mut w, r as usize, i as usize)?,
            Act::Accept { r, i } => self.accept(&mut w, r as usize, i as usize)?,
            Act::Hint { r, i } => {
                let epoch = w.rounds[r as usize].epoch;
                w.drive(i as usize, epoch).hint = true;
            }
            Act::Purge { r, i } => self.purge(&mut w, r as usize, i as usize),
            Act::Decide { r } => {
                let log = w.rounds[r as usize].base.take()?;
                self.decide(&mut w, r as usize, log);
            }
            Act::Short { r } => self.short(&mut w, r as usize)?,
            Act::Look { who, r } => self.look(&mut w, who, r as usize),
            Act::GiveUp { who } => w.over |= 1 << who,
            Act::Still => self.still(&mut w),
            Act::Image { i } => {
                w.images -= 1;
                let image = w.drives[i as usize].clone();
                w.drives[i as usize].image = Some(Box::new(image));
            }
            Act::Back { i } => self.back(&mut w, i)?,
            Act::FailFlush { r, i } => self.fail_flush(&mut w, r as usize, i)?,
            Act::Distrust => self.distrust(&mut w),
            Act::Salvage => self.salvage(&mut w)?,
            Act::Crash { i } => {
                w.crashes -= 1;
                self.crash(&mut w, i as usize)?;
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
            Act::StartRead { epoch, i } => {
                w.reads -= 1;
                let q = self.quorum();
                let trusting = self.broken(Mutant::HalfOfOneMind);
                w.read = Some(Read {
                    reader: if trusting { Reader::trusting_half(q) } else { Reader::new(q) },
                    epoch,
                    min: w.seen.log,
                    ghost: Log::default(),
                    newest: (Ballot::ZERO, Log::default()),
                    answers: 0,
                });
                self.answer(&mut w, i as usize)?;
            }
            Act::Answer { i } => self.answer(&mut w, i as usize)?,
            Act::Deadline => self.deadline(&mut w)?,
        }
        Some(w)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        super::properties::properties(self)
    }
}

/// The possible actions.
impl<const N: usize> Scope<N> {
    /// The maps in use: the newest, and with zombies the one before.
    fn maps(&self, w: &World<N>) -> impl Iterator<Item = u32> + use<N> {
        let oldest = if self.zombies { w.epoch.saturating_sub(1).max(1) } else { w.epoch };
        oldest..=w.epoch
    }

    fn round_actions(&self, w: &World<N>, acts: &mut Vec<Act>) {
        for who in 0..self.writers.len() as u8 {
            let more = w.rounds.len() < self.rounds && w.attempts[who as usize] < self.attempts;
            if more && !w.has_ended(who) {
                for epoch in self.maps(w) {
                    acts.extend((0..N as u8).map(|i| Act::Start { who, epoch, i }));
                }
            }
        }
        self.look_actions(w, acts);
        for (r, round) in w.rounds.iter().enumerate() {
            let r = r as u8;
            if round.ended {
                continue;
            }
            let here = round.who == READER || w.over >> round.who & 1 == 0;
            if round.base.is_some() && here {
                acts.push(Act::Decide { r });
            }
            if round.prop.could_decide() && here {
                acts.push(Act::Short { r });
            }
            for i in 0..N as u8 {
                let drive = w.drive_at(i as usize, round.epoch);
                let ballot = round.prop.ballot();
                let promised = drive.acc.promised(KEY, drive.accepted);
                if round.proposed {
                    let sent = round.prop.accepted_by().contains(i);
                    if !sent && drive.accepted < ballot && promised <= ballot {
                        acts.push(Act::Accept { r, i });
                        if w.fails > 0 && w.joining.is_empty() {
                            acts.push(Act::FailFlush { r, i });
                        }
                    }
                } else if !round.chosen && promised < ballot && here {
                    acts.push(Act::Prepare { r, i });
                }
                let has = drive.accepted == ballot;
                if self.hints && round.chosen && has && !drive.hint && here {
                    acts.push(Act::Hint { r, i });
                }
                if self.purge && has && here && round.log.deleted() && self.purgeable(w, round) {
                    acts.push(Act::Purge { r, i });
                }
            }
        }
    }

    fn purgeable(&self, w: &World<N>, round: &Round<N>) -> bool {
        let q = self.quorum();
        let has = round.prop.accepted_by();
        let voters: SlotSet =
            (0..N as u8).filter(|i| w.drives[*i as usize].acc.role() == Role::Voter).collect();
        match self.mutant {
            Some(Mutant::PurgeByMajority) => has.len() >= q.majority(),
            Some(Mutant::PurgeWhileJoining) => voters.without(has).is_empty(),
            _ => may_purge(q, voters, has),
        }
    }

    fn drive_actions(&self, w: &World<N>, acts: &mut Vec<Act>) {
        let slots = 0..N as u8;
        if w.crashes > 0 {
            acts.extend(slots.clone().map(|i| Act::Crash { i }));
        }
        let used = w.rounds.iter().any(|r| !r.prop.promised_by().is_empty());
        if w.replaced > 0 && used && w.joining.is_empty() {
            acts.extend(slots.clone().map(|i| Act::Replace { i }));
        }
        if w.dead && (used || self.zombies) {
            for i in 0..N as u8 {
                acts.extend((i + 1..N as u8).map(|j| Act::Dead { i, j }));
            }
        }
        if let Some(resync) = &w.resync {
            for i in slots {
                if resync.sources().without(resync.read_by()).contains(i) {
                    acts.push(Act::FenceAndRead { i });
                } else if w.joining.contains(i) {
                    acts.push(Act::Join { i });
                }
            }
        }
    }

    fn read_actions(&self, w: &World<N>, acts: &mut Vec<Act>) {
        match &w.read {
            None if w.reads > 0 && !w.rounds.is_empty() && w.still == self.quiet => {
                for epoch in self.maps(w) {
                    acts.extend((0..N as u8).map(|i| Act::StartRead { epoch, i }));
                }
            }
            None => {}
            Some(read) => {
                let rest = self.quorum().all().without(read.reader.answered_by());
                acts.extend(rest.iter().map(|i| Act::Answer { i }));
                if self.half && read.answers >= self.quorum().half() {
                    acts.push(Act::Deadline);
                }
            }
        }
    }
}

/// Actions of writers.
impl<const N: usize> Scope<N> {
    pub(super) fn start(&self, w: &mut World<N>, who: u8, kind: Kind, epoch: u32, min: Option<Log>) -> usize {
        let again = w.rounds.iter().any(|r| r.who == who);
        if w.attempts[who as usize] == 0 && who < READER {
            w.before[who as usize] = (0..READER).filter(|o| w.has_ended(*o)).fold(0, |b, o| b | 1 << o);
        }
        w.attempts[who as usize] += 1;
        let mut counter = w.skipped + u64::from(w.attempts[who as usize]);
        if self.learns && again {
            let highest = w.rounds.iter().map(|r| r.prop.ballot().counter).max();
            counter = counter.max(highest.unwrap_or(0) + 1);
        }
        let ballot = Ballot { epoch, counter, node: u16::from(who) + 1, nonce: 0 };
        let prop = if again && who < READER && !self.broken(Mutant::RetryForgets) {
            Proposer::retry(self.quorum(), ballot)
        } else {
            Proposer::new(self.quorum(), ballot)
        };
        let at = w.rounds.iter().take_while(|r| r.prop.ballot() < ballot).count();
        let round = Round {
            who,
            kind,
            epoch,
            prop,
            log: Log::default(),
            ghost: Log::default(),
            only_base: false,
            base: None,
            proposed: false,
            ended: false,
            chosen: false,
            passed: false,
            min: min.unwrap_or(w.seen.log),
            starts: [0; N],
        };
        w.rounds.insert(at, round);
        at
    }

    fn prepare(&self, w: &mut World<N>, r: usize, i: usize) -> Option<()> {
        let (ballot, epoch) = (w.rounds[r].prop.ballot(), w.rounds[r].epoch);
        let drive = w.drive(i, epoch);
        let accepted = drive.accepted;
        let mut answer = drive.acc.prepare(KEY, accepted, ballot);
        if let PrepareAnswer::RaiseFloorFirst { to } = answer {
            drive.acc.floor_raised(to);
            answer = drive.acc.prepare(KEY, accepted, ballot);
        }
        if answer != PrepareAnswer::Promised {
            return None;
        }
        let (pair, hint, log, starts) = (drive.pair(), drive.hint, drive.log, drive.starts);
        let horizon = drive.acc.horizon();
        let round = &mut w.rounds[r];
        round.starts[i] = starts;
        if hint {
            round.prop.on_hint(accepted);
        }
        if pair.is_none() {
            round.ghost = round.ghost.longer(log);
        }
        let step = match pair {
            Some(pair) => round.prop.on_promise(i as u8, Some(pair)),
            None if self.broken(Mutant::AbsenceWithoutHorizon) => round.prop.on_promise(i as u8, None),
            None => round.prop.on_absent(i as u8, horizon),
        };
        self.based(w, r, step);
        Some(())
    }

    /// The proposer stops waiting for the slots that have not answered.
    fn short(&self, w: &mut World<N>, r: usize) -> Option<()> {
        for i in 0..N as u8 {
            let step = w.rounds[r].prop.on_silent(i);
            if step != Step::Wait {
                self.based(w, r, step);
                return Some(());
            }
        }
        None
    }

    fn based(&self, w: &mut World<N>, r: usize, step: Step<Log>) {
        match step {
            Step::Base(base, _) => {
                let round = &mut w.rounds[r];
                let found = base.map_or(round.ghost, |b| b.1);
                let answers = !matches!(round.kind, Kind::Append | Kind::Delete);
                if self.patient && answers {
                    round.base = Some(found);
                } else {
                    self.decide(w, r, found);
                }
            }
            Step::Wait => {}
            other => unreachable!("{other:?}"),
        }
    }

    /// The base is known, and the record follows from it.
    fn decide(&self, w: &mut World<N>, r: usize, base: Log) {
        let open = w.has_open(w.rounds[r].who);
        let round = &mut w.rounds[r];
        let mark = match round.kind {
            Kind::Delete | Kind::Drop => (round.who + 1) | Log::DELETE,
            _ => round.who + 1,
        };
        let object = !base.is_empty() && !base.deleted();
        // A record that is known to be passed is not looked for.
        let has = open && base.contains(mark);
        let fails = match round.kind {
            Kind::IfNoneMatch => object,
            Kind::IfMatch => !object,
            _ => false,
        };
        let refuses = fails && !has;
        let idle = round.kind == Kind::Drop && !object && !has;
        if round.kind == Kind::Identity || refuses || idle {
            // A reader comes here because it saw something undecided, which must not reappear after the
            // answer.
            let settles = round.kind == Kind::Identity && !self.broken(Mutant::ReadSettlesHalf);
            let known = match idle && !self.broken(Mutant::IdleDelete) || settles {
                true => round.prop.idle_known(),
                false => round.prop.chosen_known(),
            };
            if known || self.broken(Mutant::AnswerUndecided) {
                // Decided: answered without a round.
                round.chosen = true;
                self.answer_base(w, r, base);
                return;
            }
            round.only_base = true;
            round.log = base;
        } else if has {
            // An earlier attempt succeeded: complete it.
            round.log = base;
        } else {
            round.log = base.with(mark);
        }
        round.prop.propose(0);
        round.proposed = true;
    }

    /// A read is answered from this state, or a write is refused.
    fn answer_base(&self, w: &mut World<N>, r: usize, base: Log) {
        let (who, min) = (w.rounds[r].who, w.rounds[r].min);
        let newest = w.rounds.iter().rposition(|other| other.who == who);
        if newest != Some(r) {
            return; // given up by its coordinator, which has started another attempt
        }
        if who < READER {
            w.observe(base, min);
        } else {
            w.observe_read(base, min);
        }
        if who < READER {
            w.answered |= 1 << who;
            if w.rounds[r].kind == Kind::Drop {
                self.deleted(w, who, base);
                return;
            }
            w.refused |= 1 << (who + 1);
            // It may have appeared before.
            let seen = w.seen.log;
            w.observe(seen, Log::default());
        }
    }

    /// A delete is acknowledged: a write that ended before it began, and that it did not delete, never
    /// appears.
    fn deleted(&self, w: &mut World<N>, who: u8, log: Log) {
        let unseen = |o: &u8| !log.contains(o + 1) && !log.contains((o + 1) | Log::DELETE);
        let before = (0..READER).filter(|o| w.before[who as usize] >> o & 1 == 1);
        w.gone |= before.filter(unseen).fold(0, |b, o| b | 1 << o);
        // It may have appeared in the meantime.
        let seen = w.seen.log;
        w.observe(seen, Log::default());
    }

    fn accept(&self, w: &mut World<N>, r: usize, i: usize) -> Option<()> {
        let round = &w.rounds[r];
        let (ballot, log, epoch, starts) = (round.prop.ballot(), round.log, round.epoch, round.starts[i]);
        let promised = round.prop.promised_by().contains(i as u8);
        let drive = w.drive(i, epoch);
        if self.broken(Mutant::SameIncarnationOnly) && !(promised && drive.starts == starts) {
            return None;
        }
        let answer = drive.acc.accept(KEY, drive.accepted, ballot);
        if !matches!(answer, AcceptAnswer::Go | AcceptAnswer::GoUncounted) {
            return None;
        }
        drive.accepted = ballot;
        drive.log = log;
        drive.hint = false;
        if answer == AcceptAnswer::GoUncounted {
            return Some(());
        }
        let round = &mut w.rounds[r];
        if round.prop.on_accepted(i as u8) == Step::Chosen {
            round.chosen = true;
            let (who, only_base, kind) = (round.who, round.only_base, round.kind);
            if who < READER && w.over >> who & 1 == 1 {
                // No client gets an answer.
            } else if only_base {
                self.answer_base(w, r, log);
            } else {
                // The record contains the operation and everything that was observed before it.
                w.observe(log, Log::default());
                w.answered |= 1 << who;
                if kind == Kind::Drop {
                    self.deleted(w, who, log);
                }
            }
        }
        Some(())
    }

    fn purge(&self, w: &mut World<N>, r: usize, i: usize) {
        let (t, epoch) = (w.rounds[r].prop.ballot(), w.rounds[r].epoch);
        w.purged = true;
        let drive = w.drive(i, epoch);
        if self.broken(Mutant::NoHorizon) {
            // The record is removed, and with it all that is stored about its ballot.
            let forgetful = acceptor(drive.acc.role(), drive.acc.epoch(), Ballot::ZERO);
            let floor = std::mem::replace(&mut drive.acc, forgetful).floor();
            drive.acc.floor_raised(floor);
        } else {
            drive.acc.purged(KEY, t);
        }
        drive.accepted = Ballot::ZERO;
        drive.hint = false;
    }
}
