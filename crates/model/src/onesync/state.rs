//! The state of the world, and the scope that bounds it.
//!
//! Must not depend on: other worlds.

use crate::mix::hash_slots;
use crate::{Log, Mutant, Seen};
use ashlar_commit::{Acceptor, Ballot, OnePromise, OneSync, Proposer, Quorum, Reader, Resync, Role, SlotSet};
use smallvec::SmallVec;
use std::hash::{Hash, Hasher};

pub(super) const KEY: u128 = 1;
/// The operation number of a read's identity round.
pub(super) const READER: u8 = 2;

/// The bounds of the world.
#[derive(Clone, Copy, Debug)]
pub struct Scope<const N: usize> {
    /// k', the number of shards that reconstruct the data.
    pub k: u8,
    /// k' + f, the number of shards that must be durable.
    pub needed: u8,
    /// For each writer: one-sync, or staged.
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
    pub(super) log: Log,
    /// A one-sync record with the record it is built on.
    pub(super) light: bool,
    pub(super) parent: Log,
    pub(super) parent_ballot: Ballot,
}

/// A drive: acceptor, accepted pair, shards by write.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Drive {
    pub(super) acc: Acceptor<OnePromise>,
    pub(super) accepted: Ballot,
    pub(super) rec: Rec,
    pub(super) hint: bool,
    /// Shards held, by write.
    pub(super) shards: u8,
    /// Shards that an earlier record named and the accepted one does not: dropped once the accepted one is
    /// chosen.
    pub(super) stale: u8,
}

/// One attempt.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Round {
    pub(super) who: u8,
    pub(super) prop: Proposer<Rec>,
    pub(super) rec: Rec,
    pub(super) based: bool,
    pub(super) proposed: bool,
    pub(super) chosen: bool,
    /// The write whose shards are being made again.
    pub(super) mends: u8,
    pub(super) min: Log,
}

/// A read under way.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Read {
    pub(super) reader: Reader,
    pub(super) min: Log,
}

/// The state of the world.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct World<const N: usize> {
    pub(super) drives: [Drive; N],
    pub(super) rounds: SmallVec<[Round; 3]>,
    pub(super) read: Option<Read>,
    pub(super) epoch: u32,
    /// Slots whose drive is blank, and the copy: record, and whether it is known to be chosen.
    pub(super) joining: SlotSet,
    pub(super) resync: Option<Resync<(Rec, bool)>>,
    pub(super) replaced: u8,
    pub(super) dead: bool,
    /// Drives that were lost.
    pub(super) lost: u8,
    /// An acknowledged record was reported lost, because more drives died than f: the run ends.
    pub(super) reported: bool,
    pub(super) attempts: [u8; 3],
    pub(super) answered: u8,
    pub(super) crashes: u8,
    pub(super) reads: u8,
    pub(super) skipped: u64,
    pub(super) overtaken: bool,
    pub(super) mended: bool,
    pub(super) blocked: bool,
    pub(super) seen: Seen,
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
        if let Some(r) = &self.resync {
            r.hash_shared(state);
        }
        (self.attempts, self.answered, self.crashes, self.reads, self.skipped).hash(state);
        (self.overtaken, self.mended, self.blocked, self.seen).hash(state);
    }
}

impl Drive {
    /// Whether it has the shard of the newest write that its record names.
    pub(super) fn whole(&self) -> bool {
        self.rec.log.marks().last().is_some_and(|m| self.shards & bit(*m) != 0)
    }

    pub(super) fn new(role: Role, epoch: u32) -> Drive {
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

pub(super) fn bit(mark: u8) -> u8 {
    1 << (mark - 1)
}

pub(super) fn named(log: Log) -> u8 {
    log.marks().iter().fold(0, |set, m| set | bit(*m))
}

impl<const N: usize> World<N> {
    /// Drives with the shard of a write.
    pub(super) fn copies(&self, mark: u8) -> u8 {
        self.drives.iter().filter(|d| d.shards & bit(mark) != 0).count() as u8
    }

    /// The fewest copies of any write that the log names.
    pub(super) fn thinnest(&self, log: Log) -> u8 {
        log.marks().iter().map(|m| self.copies(*m)).min().unwrap_or(u8::MAX)
    }

    pub(super) fn drop_stale(&mut self) {
        let World { drives, rounds, .. } = self;
        for d in drives {
            if rounds.iter().any(|r| r.chosen && r.prop.ballot() == d.accepted) {
                d.shards &= !d.stale;
                d.stale = 0;
            }
        }
    }
}

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

    pub(super) fn quorum(&self) -> Quorum {
        Quorum::new(N as u8)
    }

    pub(super) fn broken(&self, mutant: Mutant) -> bool {
        self.mutant == Some(mutant)
    }

    pub(super) fn spec(&self) -> OneSync {
        OneSync { k: self.k, needed: self.needed, targets: self.quorum().all() }
    }
}
