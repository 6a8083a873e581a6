//! The actions of readers.
//!
//! Must not depend on: other worlds.

use super::actions::READER;
use super::state::{Kind, Read, Scope, World};
use crate::{Log, Mutant};
use ashlar_commit::{Ballot, Proof, ReadStep, Role};

/// Actions of reads.
impl<const N: usize> Scope<N> {
    pub(super) fn answer(&self, w: &mut World<N>, i: usize) -> Option<()> {
        let mut read = w.read.take()?;
        let drive = w.drive_at(i, read.epoch);
        if !drive.acc.may_read(read.epoch) && !self.broken(Mutant::OldEpochReads) {
            return None;
        }
        let voter = drive.acc.role() == Role::Voter;
        let pair = drive.pair();
        let horizon = drive.acc.horizon();
        let step = match pair {
            None if !self.broken(Mutant::AbsenceWithoutHorizon) => {
                read.reader.on_absent(i as u8, horizon, voter)
            }
            _ => read.reader.on_answer(i as u8, pair.map(|p| p.0), drive.hint, voter),
        };
        // A reader that needs a stable answer asks every slot.
        let step = match step {
            _ if self.quiet && read.reader.more() && !self.broken(Mutant::ReadPassesBy) => ReadStep::Wait,
            step => step,
        };
        if !voter {
            return None; // not counted
        }
        read.answers += 1;
        read.newest = read.newest.max_by_ballot((drive.accepted, drive.log));
        if pair.is_none() {
            read.ghost = read.ghost.longer(drive.log);
        }
        if self.broken(Mutant::NewestOfMajority) {
            if read.answers >= self.quorum().majority() {
                w.observe_read(read.newest.1, read.min);
            } else {
                w.read = Some(read);
            }
            return Some(());
        }
        self.take(w, read, step);
        Some(())
    }

    pub(super) fn deadline(&self, w: &mut World<N>) -> Option<()> {
        let mut read = w.read.take()?;
        let step = read.reader.on_deadline();
        if step == ReadStep::Unavailable && self.broken(Mutant::HalfNewest) {
            w.observe_read(read.newest.1, read.min);
            return Some(());
        }
        self.take(w, read, step);
        Some(())
    }

    pub(super) fn take(&self, w: &mut World<N>, read: Read, step: ReadStep) {
        // The control store is asked last: the other half has not been put in charge.
        let current = read.epoch == w.epoch || self.broken(Mutant::HalfOldEpoch);
        match step {
            ReadStep::Wait => w.read = Some(read),
            ReadStep::Serve { ballot, proof, .. } => {
                let half = matches!(proof, Proof::Half | Proof::HintHalf);
                if !half || current {
                    w.served_half |= half;
                    let log = w.log_of(ballot);
                    w.observe_read(log, read.min);
                }
            }
            ReadStep::Absent { majority } => {
                if majority || current {
                    w.observe_read(read.ghost, read.min);
                }
            }
            ReadStep::NeedIdentityRound => {
                if w.rounds.len() < self.rounds {
                    self.start(w, READER, Kind::Identity, read.epoch, Some(read.min));
                }
            }
            ReadStep::Unavailable => {}
        }
    }
}

trait Newest {
    fn max_by_ballot(self, other: Self) -> Self;
}

impl Newest for (Ballot, Log) {
    fn max_by_ballot(self, other: Self) -> Self {
        if other.0 > self.0 { other } else { self }
    }
}
