//! Faults of drives: restarts, replacements, restored images, failed flushes, distrust.
//!
//! Must not depend on: other worlds.

use super::actions::{Act, READER};
use super::state::{Drive, KEY, Scope, World};
use crate::{Log, Mutant};
use ashlar_commit::{AcceptAnswer, Acceptor, Ballot, Copy, OnePromise, Resync, Role, SlotSet};

pub(super) fn acceptor(role: Role, epoch: u32, floor: Ballot) -> Acceptor<OnePromise> {
    Acceptor::with_promises(role, epoch, floor, 0, OnePromise::default())
}

/// Actions of drives.
impl<const N: usize> Scope<N> {
    pub(super) fn crash(&self, w: &mut World<N>, i: usize) -> Option<()> {
        let forget = self.broken(Mutant::PromiseForgotten) || self.broken(Mutant::SameIncarnationOnly);
        let drive = &mut w.drives[i];
        let floor = if forget { Ballot::ZERO } else { drive.acc.floor() };
        let mut acc = acceptor(drive.acc.role(), drive.acc.epoch(), floor);
        acc.restore_horizon(drive.acc.horizon());
        if acc == drive.acc && !drive.hint && drive.volatile.is_none() {
            return None; // nothing was in memory
        }
        if let Some((ballot, log)) = drive.volatile.take() {
            (drive.accepted, drive.log) = (ballot, log);
        }
        drive.acc = acc;
        drive.hint = false;
        drive.starts += u8::from(self.broken(Mutant::SameIncarnationOnly));
        let counter = floor.counter;
        w.skipped = w.skipped.max(counter);
        Some(())
    }

    /// Puts blank drives into these slots.
    pub(super) fn blank(&self, w: &mut World<N>, slots: SlotSet, dead: bool) {
        let votes = self.broken(Mutant::BlankVotes);
        if !votes && !self.broken(Mutant::NoFence) {
            w.epoch += 1;
        }
        for i in slots.iter() {
            let role = if votes { Role::Voter } else { Role::Joining };
            let blank = Drive::new(role, w.epoch);
            let gone = std::mem::replace(&mut w.drives[i as usize], blank);
            if self.zombies {
                w.old[i as usize] = Some(gone);
            }
        }
        if votes {
            return;
        }
        w.joining = slots;
        let q = self.quorum();
        w.resync =
            if dead { Resync::dead(q, w.epoch, slots) } else { Some(Resync::replaced(q, w.epoch, slots)) };
        if self.broken(Mutant::DeadFromSome)
            && let Some(resync) = &mut w.resync
            && let Some(unasked) = q.all().without(slots).iter().next()
        {
            resync.on_fenced(unasked);
            resync.on_record(unasked, None);
        }
    }

    pub(super) fn fence_and_read(&self, w: &mut World<N>, i: u8) {
        let epoch = w.epoch;
        let drive = &mut w.drives[i as usize];
        if !self.broken(Mutant::NoFence) {
            drive.acc.fence(epoch);
        }
        let (pair, horizon) = (drive.pair(), drive.acc.horizon());
        if let Some(resync) = &mut w.resync {
            resync.on_fenced(i);
            match pair {
                Some(pair) => resync.on_record(i, Some(pair)),
                None => resync.on_absent(i, horizon),
            }
        }
    }

    pub(super) fn join(&self, w: &mut World<N>, i: u8) -> Option<()> {
        let copy = match w.resync.as_ref()?.copy() {
            Copy::Record(pair) => Some(*pair),
            Copy::Nothing => None,
            Copy::Wait | Copy::Parent { .. } => return None,
        };
        let copy = if self.broken(Mutant::SalvageMost) { most_show(w) } else { copy };
        let (epoch, read) = (w.epoch, w.resync.as_ref()?.read_by());
        let gone = read.iter().map(|s| &w.drives[s as usize]).filter(|d| d.accepted == Ballot::ZERO);
        let was = gone.fold(Log::default(), |was, d| was.longer(d.log));
        let drive = &mut w.drives[i as usize];
        if let Some((ballot, log)) = copy
            && ballot > drive.accepted
        {
            drive.accepted = ballot;
            drive.log = log;
            drive.hint = false;
        } else if copy.is_none() && drive.accepted < Ballot::fence(drive.acc.epoch()) {
            // Records that its sources do not have were deleted, or never chosen.
            drive.acc.purged(KEY, drive.accepted);
            drive.accepted = Ballot::ZERO;
            drive.log = was;
            drive.hint = false;
        }
        if self.broken(Mutant::SalvageMost)
            && let Some((ballot, log)) = copy
        {
            (drive.accepted, drive.log) = (ballot, log);
            drive.acc = acceptor(Role::Joining, epoch, drive.acc.floor());
        }
        drive.volatile = None;
        drive.acc.joined();
        w.joining.remove(i);
        if w.joining.is_empty() {
            w.resync = None;
            w.salvaging = false;
        }
        Some(())
    }
}

/// The record that most drives show, which a salvage must not use.
fn most_show<const N: usize>(w: &World<N>) -> Option<(Ballot, Log)> {
    let count = |b: Ballot| w.drives.iter().filter(|d| d.accepted == b).count();
    let most = w.drives.iter().max_by_key(|d| (count(d.accepted), std::cmp::Reverse(d.accepted)))?;
    most.pair()
}

/// Images, failed flushes, distrust.
impl<const N: usize> Scope<N> {
    pub(super) fn fault_actions(&self, w: &World<N>, acts: &mut Vec<Act>) {
        let slots = 0..N as u8;
        let begun = |who: u8| w.attempts[who as usize] > 0;
        if self.gives_up {
            let fails = (0..self.writers.len() as u8).filter(|who| begun(*who) && !w.has_ended(*who));
            acts.extend(fails.map(|who| Act::GiveUp { who }));
        }
        let all_over = (0..self.writers.len() as u8).all(|who| w.has_ended(who));
        if self.quiet && all_over && !w.still && w.read.is_none() {
            acts.push(Act::Still);
        }
        let drive = |i: u8| &w.drives[i as usize];
        if w.images > 0 && (self.detected || self.salvage) {
            let whole = slots.clone().filter(|i| drive(*i).image.is_none() && !w.joining.contains(*i));
            acts.extend(whole.map(|i| Act::Image { i }));
        }
        // Undetected only if everything that the drive lost was purged on all drives.
        let purged = w.purged && w.drives.iter().all(|d| d.pair().is_none());
        if self.detected && w.joining.is_empty() {
            acts.extend(slots.clone().filter(|i| drive(*i).image.is_some()).map(|i| Act::Back { i }));
        } else if purged && w.images > 0 && !self.salvage {
            let had = w.rounds.first().map_or(SlotSet::EMPTY, |r| r.prop.accepted_by());
            acts.extend(had.iter().map(|i| Act::Back { i }));
        }
        if self.salvage && w.images == 0 && w.epoch == 1 {
            acts.push(if w.joining.is_empty() { Act::Distrust } else { Act::Salvage });
        }
    }

    /// Everything is restarted: coordinators and messages are gone.
    pub(super) fn still(&self, w: &mut World<N>) {
        w.still = true;
        for r in w.rounds.iter_mut().filter(|r| r.who < READER) {
            r.ended = true;
        }
        for i in 0..N {
            // A drive with nothing to lose is allowed too.
            let _ = self.crash(w, i);
        }
    }

    pub(super) fn back(&self, w: &mut World<N>, i: u8) -> Option<()> {
        if !self.salvage && !self.detected {
            // The state at the time when it had the first record.
            let (ballot, log, chosen) = w.rounds.first().map(|r| (r.prop.ballot(), r.log, r.chosen))?;
            w.images -= 1;
            let drive = &mut w.drives[i as usize];
            drive.acc = acceptor(Role::Voter, drive.acc.epoch(), ballot);
            (drive.accepted, drive.log, drive.hint) = (ballot, log, self.hints && chosen);
            return Some(());
        }
        let drive = &mut w.drives[i as usize];
        let image = *drive.image.take()?;
        let (floor, epoch) = (image.acc.floor(), image.acc.epoch());
        let mut acc = acceptor(Role::Voter, epoch, floor);
        acc.restore_horizon(image.acc.horizon());
        *drive = Drive { acc, image: None, ..image };
        w.skipped = w.skipped.max(floor.counter);
        if self.detected && !self.broken(Mutant::BackVotes) {
            self.rejoin(w, i);
        }
        Some(())
    }

    pub(super) fn fail_flush(&self, w: &mut World<N>, r: usize, i: u8) -> Option<()> {
        let (ballot, log, epoch) = {
            let round = &w.rounds[r];
            (round.prop.ballot(), round.log, round.epoch)
        };
        let drive = w.drive(i as usize, epoch);
        let before = (drive.accepted, drive.log);
        if drive.acc.accept(KEY, drive.accepted, ballot) != AcceptAnswer::Go {
            return None;
        }
        (drive.accepted, drive.log, drive.hint) = (ballot, log, false);
        drive.volatile = Some(before);
        w.fails -= 1;
        if !self.broken(Mutant::FencedVotes) {
            self.rejoin(w, i);
        }
        Some(())
    }

    /// The drive joins with its content in a new epoch.
    fn rejoin(&self, w: &mut World<N>, i: u8) {
        w.epoch += 1;
        self.demote(w, i);
        w.resync = Some(Resync::replaced(self.quorum(), w.epoch, w.joining));
    }

    /// All drives lose their vote; one of them is restored from its image.
    pub(super) fn distrust(&self, w: &mut World<N>) {
        for i in 0..N as u8 {
            if w.drives[i as usize].image.is_some() {
                let _ = self.back(w, i);
            }
            self.demote(w, i);
        }
    }

    fn demote(&self, w: &mut World<N>, i: u8) {
        let epoch = w.epoch;
        let drive = &mut w.drives[i as usize];
        let mut acc = acceptor(Role::Joining, epoch, drive.acc.floor());
        acc.restore_horizon(drive.acc.horizon());
        // The index and the acceptor must agree.
        drive.acc = acc;
        drive.hint = false;
        w.joining.insert(i);
    }

    pub(super) fn salvage(&self, w: &mut World<N>) -> Option<()> {
        w.epoch += 1;
        w.salvaging = true;
        let q = self.quorum();
        let trusted = q.all().without(w.joining);
        w.resync = Resync::salvage(q, w.epoch, q.all(), trusted);
        w.resync.as_ref().map(|_| ())
    }
}
