//! The actions of replaced drives and of reads.
//!
//! Must not depend on: other worlds.

use super::state::{Drive, READER, Read, Rec, Scope, World, named};
use crate::{Log, Mutant};
use ashlar_commit::{Ballot, Copy, ReadStep, Resync, Role, SlotSet};

/// Actions of a replaced drive.
impl<const N: usize> Scope<N> {
    pub(super) fn blank(&self, w: &mut World<N>, slots: SlotSet, dead: bool) {
        let q = self.quorum();
        w.epoch += 1;
        w.lost += slots.len();
        w.joining = slots;
        w.resync =
            if dead { Resync::dead(q, w.epoch, slots) } else { Some(Resync::replaced(q, w.epoch, slots)) };
        for i in slots.iter() {
            w.drives[i as usize] = Drive::new(Role::Joining, w.epoch);
        }
    }

    pub(super) fn fence_and_read(&self, w: &mut World<N>, i: u8) {
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

    pub(super) fn join(&self, w: &mut World<N>, i: u8) -> Option<()> {
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

/// Actions of reads.
impl<const N: usize> Scope<N> {
    pub(super) fn answer(&self, w: &mut World<N>, i: usize) {
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

    pub(super) fn serve(&self, w: &mut World<N>, read: Read, step: ReadStep) {
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
