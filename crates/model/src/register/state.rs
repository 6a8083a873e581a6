//! The state of the world, and the scope that bounds it.
//!
//! Must not depend on: other worlds.

use crate::mix::hash_slots;
use crate::{Bad, Log, Mutant, Seen};
use ashlar_commit::{Acceptor, Ballot, OnePromise, Proposer, Quorum, Reader, Resync, Role, SlotSet};
use smallvec::SmallVec;
use std::hash::{Hash, Hasher};

/// The key of the register, where the code needs one.
pub const KEY: u128 = 1;

/// The effect of an operation on the register.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Kind {
    /// Adds a change.
    Append,
    /// Adds a change if there is no object, otherwise answers 412 from a chosen state.
    IfNoneMatch,
    /// Adds a change if there is an object, otherwise answers 412 from a chosen state.
    IfMatch,
    /// Writes a tombstone.
    Delete,
    /// A delete as servers do it: a tombstone if there is an object; otherwise nothing changes, and the
    /// answer is success.
    Drop,
    /// A read without agreement: it proposes the base again, then answers it.
    Identity,
}

/// The bounds of the world.
#[derive(Clone, Copy, Debug)]
pub struct Scope<const N: usize> {
    /// The operations that write. Each may be attempted `attempts` times.
    pub writers: &'static [Kind],
    /// Attempts per writer.
    pub attempts: u8,
    /// Attempts of all writers and identity rounds together.
    pub rounds: usize,
    /// A retry uses a ballot above every ballot so far, as after refusals; otherwise only above its own last
    /// one.
    pub learns: bool,
    /// Restarts of drives.
    pub crashes: u8,
    /// Drives replaced by blank ones, one at a time.
    pub replaced: u8,
    /// n - H drives declared dead at once, all replaced by blank ones.
    pub dead: bool,
    /// The old drives of replaced slots keep running and are reached by processes with an old map.
    pub zombies: bool,
    /// Reads, one after the other.
    pub reads: u8,
    /// Reads stop waiting and answer from half of the slots where allowed.
    pub half: bool,
    /// Reads of writers between their attempts, to find out what became of what they sent.
    pub looks: u8,
    /// HINTs are sent.
    pub hints: bool,
    /// Tombstones are purged.
    pub purge: bool,
    /// Clients may get an error for their write: no more attempts follow; messages that were sent are still
    /// under way.
    pub gives_up: bool,
    /// An operation that may answer without a round may wait for more promises first.
    pub patient: bool,
    /// Reads begin when nothing is written any more and everything was restarted; they ask every slot.
    pub quiet: bool,
    /// Images taken of drives and restored later. `detected`: the drive then joins. Otherwise images are
    /// restored only after everything was purged.
    pub images: u8,
    /// See `images`.
    pub detected: bool,
    /// Failed flushes: the record appears to be there until the next restart.
    pub fails: u8,
    /// All drives lose their vote, one of them perhaps also its newest record, and are salvaged.
    pub salvage: bool,
    /// The rule that is broken.
    pub mutant: Option<Mutant>,
}

impl<const N: usize> Scope<N> {
    /// Two appending writers, two rounds, nothing else.
    pub const PLAIN: Scope<N> = Scope {
        writers: &[Kind::Append, Kind::Append],
        attempts: 2,
        rounds: 2,
        learns: false,
        crashes: 0,
        replaced: 0,
        dead: false,
        zombies: false,
        reads: 0,
        half: false,
        looks: 0,
        hints: false,
        purge: false,
        gives_up: false,
        patient: false,
        quiet: false,
        images: 0,
        detected: false,
        fails: 0,
        salvage: false,
        mutant: None,
    };

    /// Whether this rule is removed.
    #[must_use]
    pub fn broken(&self, mutant: Mutant) -> bool {
        self.mutant == Some(mutant)
    }

    /// The counts of the group.
    #[must_use]
    pub fn quorum(&self) -> Quorum {
        Quorum::new(N as u8)
    }
}

/// A drive in a slot.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Drive {
    /// The real acceptor.
    pub acc: Acceptor<OnePromise>,
    /// Durable: accepted ballot, zero if there is no record.
    pub accepted: Ballot,
    /// Durable: the record. After a purge, the purged record (kept by the model, not by the drive).
    pub log: Log,
    /// In memory: the accepted pair is known to be chosen.
    pub hint: bool,
    /// Number of restarts (only for a mutant).
    pub starts: u8,
    /// The image of the drive at an earlier time.
    pub image: Option<Box<Drive>>,
    /// The accepted pair that is on the medium, if the newer one did not reach it.
    pub volatile: Option<(Ballot, Log)>,
}

impl Drive {
    /// A formatted drive without records.
    #[must_use]
    pub fn new(role: Role, epoch: u32) -> Drive {
        Drive {
            acc: Acceptor::with_promises(role, epoch, Ballot::ZERO, 0, OnePromise::default()),
            accepted: Ballot::ZERO,
            log: Log::default(),
            hint: false,
            starts: 0,
            image: None,
            volatile: None,
        }
    }

    /// The accepted pair as others see it.
    #[must_use]
    pub fn pair(&self) -> Option<(Ballot, Log)> {
        (self.accepted > Ballot::ZERO).then_some((self.accepted, self.log))
    }
}

/// One attempt of one operation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Round<const N: usize> {
    /// The operation: a writer, or 255 for the read that needed an identity round.
    pub who: u8,
    /// What it does.
    pub kind: Kind,
    /// The layout epoch of its map: which drives its messages reach.
    pub epoch: u32,
    /// The real proposer.
    pub prop: Proposer<Log>,
    /// The record it proposes.
    pub log: Log,
    /// The longest record that a promiser has purged.
    pub ghost: Log,
    /// It proposes its base unchanged, and answers from it when the base is chosen.
    pub only_base: bool,
    /// The base, returned and not yet decided on.
    pub base: Option<Log>,
    /// ACCEPTs are under way.
    pub proposed: bool,
    /// Its coordinator and all its messages are gone.
    pub ended: bool,
    /// It was informed that its record is chosen.
    pub chosen: bool,
    /// Its writer knows that its record is never chosen.
    pub passed: bool,
    /// What had been observed when the operation began.
    pub min: Log,
    /// Number of restarts of each drive when it promised (only for a mutant).
    pub starts: [u8; N],
}

/// A read under way.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Read {
    /// The real reader.
    pub reader: Reader,
    /// Its map.
    pub epoch: u32,
    /// What had been observed when it began.
    pub min: Log,
    /// The longest record that an answering drive has purged.
    pub ghost: Log,
    /// The newest answer (only for mutants).
    pub newest: (Ballot, Log),
    /// Answers (only for mutants).
    pub answers: u8,
}

/// The state of the world.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct World<const N: usize> {
    /// The drives of the current map.
    pub drives: [Drive; N],
    /// Drives that were replaced and keep running.
    pub old: [Option<Drive>; N],
    /// Attempts, by ballot.
    pub rounds: SmallVec<[Round<N>; 3]>,
    /// The layout epoch in the control store.
    pub epoch: u32,
    /// Slots whose drive is blank, and the slots they are filled from.
    pub joining: SlotSet,
    /// The copy under way.
    pub resync: Option<Resync<Log>>,
    /// The read under way.
    pub read: Option<Read>,
    /// Highest counter any drive has promised by its floor at a restart.
    pub skipped: u64,
    /// Attempts made per writer.
    pub attempts: [u8; 3],
    /// Writers that have their answer.
    pub answered: u8,
    /// Writers that got 412: their change never appears.
    pub refused: u8,
    /// Writers whose clients got an error.
    pub over: u8,
    /// Writers whose operation had ended when this one began.
    pub before: [u8; 3],
    /// Writers that had ended before an acknowledged delete began, and that it did not delete: they never
    /// appear.
    pub gone: u8,
    /// Nothing is written any more.
    pub still: bool,
    /// The answer of the reads since then.
    pub stable: Option<Log>,
    /// Images and failed flushes left.
    pub images: u8,
    /// See `images`.
    pub fails: u8,
    /// A salvage is under way.
    pub salvaging: bool,
    /// Restarts left.
    pub crashes: u8,
    /// Replacements left.
    pub replaced: u8,
    /// Dead drives may still be declared.
    pub dead: bool,
    /// Reads left.
    pub reads: u8,
    /// Reads of writers left.
    pub looks: u8,
    /// A tombstone has been purged somewhere.
    pub purged: bool,
    /// A read has been served by half the slots.
    pub served_half: bool,
    /// What clients have seen.
    pub seen: Seen,
}

impl<const N: usize> World<N> {
    /// Formatted drives, empty register.
    #[must_use]
    pub fn start(scope: &Scope<N>) -> World<N> {
        World {
            drives: std::array::from_fn(|_| Drive::new(Role::Voter, 1)),
            old: std::array::from_fn(|_| None),
            rounds: SmallVec::new(),
            epoch: 1,
            joining: SlotSet::EMPTY,
            resync: None,
            read: None,
            skipped: 0,
            attempts: [0; 3],
            answered: 0,
            refused: 0,
            over: 0,
            before: [0; 3],
            gone: 0,
            still: false,
            stable: None,
            images: scope.images,
            fails: scope.fails,
            salvaging: false,
            crashes: scope.crashes,
            replaced: scope.replaced,
            dead: scope.dead,
            reads: scope.reads,
            looks: scope.looks,
            purged: false,
            served_half: false,
            seen: Seen::default(),
        }
    }

    /// The drive that a process with a map of `epoch` reaches in a slot.
    pub fn drive(&mut self, i: usize, epoch: u32) -> &mut Drive {
        match &mut self.old[i] {
            Some(old) if epoch < self.epoch => old,
            _ => &mut self.drives[i],
        }
    }

    /// Like [`World::drive`], for reading.
    #[must_use]
    pub fn drive_at(&self, i: usize, epoch: u32) -> &Drive {
        match &self.old[i] {
            Some(old) if epoch < self.epoch => old,
            _ => &self.drives[i],
        }
    }

    /// A client observes a state.
    pub fn observe(&mut self, log: Log, min: Log) {
        self.seen.observe(log, min);
        if log.marks().iter().any(|m| self.refused >> (m & !Log::DELETE) & 1 == 1) {
            self.seen.fail(Bad::BothWon);
        }
        if log.marks().iter().any(|m| self.gone >> ((m & !Log::DELETE) - 1) & 1 == 1) {
            self.seen.fail(Bad::Risen);
        }
        if log.repeats() {
            self.seen.fail(Bad::Twice);
        }
    }

    /// A read is answered.
    pub fn observe_read(&mut self, log: Log, min: Log) {
        self.observe(log, min);
        if self.still && *self.stable.get_or_insert(log) != log {
            self.seen.fail(Bad::Unstable);
        }
    }

    /// Whether the operation of this writer has ended in any way.
    #[must_use]
    pub fn has_ended(&self, who: u8) -> bool {
        (self.answered | self.over) >> who & 1 == 1
    }

    /// The record of a ballot (I1: there is only one).
    #[must_use]
    pub fn log_of(&self, ballot: Ballot) -> Log {
        let round = self.rounds.iter().find(|r| r.prop.ballot() == ballot);
        round.map_or_else(Log::default, |r| r.log)
    }
}

impl<const N: usize> Hash for World<N> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        hash_slots::<N, H>(state, |i, mix| {
            let slot = i as u8;
            (&self.drives[i], &self.old[i], self.joining.contains(slot)).hash(mix);
            for r in &self.rounds {
                (r.prop.slot_bits(slot), r.starts[i]).hash(mix);
            }
            self.resync.as_ref().map(|r| r.slot_bits(slot)).hash(mix);
            self.read.as_ref().map(|r| r.reader.slot_bits(slot)).hash(mix);
        });
        for r in &self.rounds {
            r.prop.hash_shared(state);
            (r.who, r.epoch, r.log, r.ghost, r.only_base, r.proposed, r.chosen, r.min).hash(state);
            (r.base, r.ended, r.passed).hash(state);
        }
        if let Some(r) = &self.resync {
            r.hash_shared(state);
        }
        if let Some(r) = &self.read {
            r.reader.hash_shared(state);
            (r.epoch, r.min, r.ghost, r.newest, r.answers).hash(state);
        }
        (self.epoch, self.skipped, self.attempts, self.answered, self.refused, self.seen).hash(state);
        (self.crashes, self.replaced, self.dead, self.reads, self.looks).hash(state);
        (self.purged, self.served_half, self.over, self.before, self.gone, self.still).hash(state);
        (self.stable, self.images, self.fails, self.salvaging).hash(state);
    }
}
