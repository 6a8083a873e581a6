//! The actions of proposers.
//!
//! Must not depend on: other worlds.

use super::state::{KEY, READER, Rec, Round, Scope, World, bit, named};
use crate::{Log, Mutant};
use ashlar_commit::{AcceptAnswer, Ballot, Footing, PrepareAnswer, Proposer, Step};

impl<const N: usize> Scope<N> {
    pub(super) fn start(&self, w: &mut World<N>, who: u8, min: Log) -> usize {
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

    pub(super) fn prepare(&self, w: &mut World<N>, r: usize, i: usize) -> Option<()> {
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

    pub(super) fn give_up(&self, w: &mut World<N>, r: usize) {
        let rest = self.quorum().all().without(w.rounds[r].prop.promised_by());
        for slot in rest.iter() {
            let prop = &mut w.rounds[r].prop;
            let step = if self.broken(Mutant::IgnoreWithoutCount) {
                prop.on_promise(slot, None) // as if the drive had answered that it holds nothing
            } else {
                prop.on_silent(slot)
            };
            self.took(w, r, step);
        }
    }

    pub(super) fn took(&self, w: &mut World<N>, r: usize, step: Step<Rec>) {
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

    pub(super) fn parent(&self, w: &World<N>, r: usize, overtaken: Ballot, rec: Rec) -> (Ballot, Log) {
        if !self.broken(Mutant::HiddenParent) {
            return (rec.parent_ballot, rec.parent);
        }
        // The next best record among the promisers, unless the overtaken one has replaced it there.
        let promised = w.rounds[r].prop.promised_by();
        let below = promised.iter().map(|i| &w.drives[i as usize]);
        let next = below.filter(|d| d.accepted < overtaken).max_by_key(|d| d.accepted);
        next.map_or((Ballot::ZERO, Log::default()), |d| (d.accepted, d.rec.log))
    }

    pub(super) fn decide(&self, w: &mut World<N>, r: usize, base: (Ballot, Log), known: bool) {
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

    /// The shards that the round waits for: of its own data, if staged.
    pub(super) fn stages(&self, round: &Round) -> u8 {
        let own = round.who < READER && round.rec.log.marks().last() == Some(&(round.who + 1));
        let fresh = own && !round.rec.light && round.mends != round.who + 1;
        if fresh && !self.light[round.who as usize] { self.needed } else { 0 }
    }

    pub(super) fn send(&self, w: &mut World<N>, r: usize) {
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

    pub(super) fn shard(&self, w: &mut World<N>, r: usize, i: usize) {
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

    pub(super) fn accept(&self, w: &mut World<N>, r: usize, i: usize) -> Option<()> {
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
