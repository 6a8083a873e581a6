//! The deletion of a bucket (`ashlar_commit::bucket_fence`): two placement groups of three drives, one key in
//! each, writers that may not have seen the deletion, two deletions, a drive that is replaced.
//!
//! Every message is delivered to each drive separately, at any later time or never, also after its sender
//! crashed or gave up. PREPAREs of writers are left out: their records overwrite any state, and other worlds
//! check that a base is not lost. Of a record, only its ballot and whether it adds to the bucket is kept.
//!
//! Must not depend on: other worlds.

use crate::{Bad, Mutant};
use ashlar_commit::bucket_fence::{
    Deletion, FenceStep, Fencing, Grant, Met, Registered, SetFence, Verdict, admits, joined, judge, lifts,
    met, set,
};
use ashlar_commit::{Ballot, Quorum, SlotSet};
use stateright::{Model, Property};

mod steps;

/// Placement groups.
const GROUPS: usize = 2;
/// Slots of a group.
const N: usize = 3;
/// Attempts of a writer.
const TRIES: usize = 2;
/// Deletions.
const DELETERS: usize = 2;

/// The bounds of the world.
#[derive(Clone, Copy, Debug)]
pub struct Scope {
    /// Attempts of the writer of each group.
    pub writers: [u8; GROUPS],
    /// Groups, 1..=2.
    pub groups: u8,
    /// Deletions, 1..=2.
    pub deleters: u8,
    /// The first of two deletions has been aborted; its fences and lifts are still under way.
    pub aborted: bool,
    /// Deleters crash, and other processes settle their deletions.
    pub others: bool,
    /// The first drive of the first group is replaced.
    pub replaced: bool,
    /// The rule that is broken.
    pub mutant: Option<Mutant>,
}

/// A drive of one group.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Drive {
    fence: Deletion,
    promised: u8,
    /// Ballot of the record; 0: none.
    accepted: u8,
    adds: bool,
    epoch: u8,
    voter: bool,
}

const BLANK: Drive =
    Drive { fence: Deletion::NONE, promised: 0, accepted: 0, adds: false, epoch: 0, voter: true };

/// The record and ballot of a round, and the drives that accepted or refused it. 0: not begun.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
struct Round {
    ballot: u8,
    adds: bool,
    /// Slots to which it was delivered.
    to: u8,
    /// Slots whose accept counts.
    ok: u8,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Writing {
    /// The attempt that is under way, or next.
    Try(u8),
    Acknowledged,
    NoSuchBucket,
    GaveUp,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Writer {
    at: Writing,
    rounds: [Round; TRIES],
    /// The first attempt began after a deletion had been aborted.
    late: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Deleting {
    Begin,
    Fence,
    /// Inspecting this group.
    Look(u8),
    Settle(u8),
    Remove,
    Abort,
    /// Finished, or crashed.
    End,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Deleter {
    at: Deleting,
    by: Deletion,
    /// For each group: the epoch of its fences, the slots that were asked, the slots counted.
    epoch: [u8; GROUPS],
    to: [u8; GROUPS],
    counted: [u8; GROUPS],
    rounds: [Round; GROUPS],
    /// Fences are being lifted; the slots that were asked.
    lifts: Option<[u8; GROUPS]>,
    /// For the mutant that inspects first: it has done so.
    looked: bool,
}

/// The progress of the replaced drive.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Join {
    Not,
    Blank,
    /// It has read the fences.
    Fences,
    Votes,
}

/// The state of the world.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct World {
    /// `None`: the bucket is removed.
    registry: Option<Registered>,
    drives: [[Drive; N]; GROUPS],
    /// Layout epochs.
    epochs: [u8; GROUPS],
    writers: [Writer; GROUPS],
    deleters: [Deleter; DELETERS],
    join: Join,
    bad: Option<Bad>,
}

/// One step of one call, or one delivered message.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[allow(missing_docs)] // see `steps`
pub enum Act {
    /// The writer of a group sends its ACCEPTs.
    Write(u8),
    /// Of an attempt: an ACCEPT arrives at a slot.
    Accept(u8, u8, u8),
    /// The writer reads the registry and tries again, or ends.
    Again(u8),
    Begin(u8),
    /// A fence arrives: deleter, group, slot.
    Fence(u8, u8, u8),
    /// A deleter sets the fences of a group again, in the newest layout.
    Refence(u8, u8),
    Look(u8),
    /// A round: PREPARE at all slots but this one.
    Prepare(u8, u8),
    /// The ACCEPT of a round arrives: deleter, group, slot.
    Settled(u8, u8, u8),
    Decided(u8),
    Remove(u8),
    Abort(u8),
    /// A lift arrives.
    Lift(u8, u8, u8),
    Crash(u8),
    /// A process that finds a deletion that takes too long aborts it.
    Expire,
    /// A process that is refused by a left-over fence lifts it.
    Sweep(u8, u8),
    Replace,
    /// A source of the replaced drive follows the new layout.
    Epoch(u8),
    CopyFences,
    Vote,
}

fn quorum() -> Quorum {
    Quorum::new(N as u8)
}

fn slots(mask: u8) -> SlotSet {
    SlotSet(u64::from(mask))
}

/// A ballot: the epoch, then a unique number.
fn ballot(epoch: u8, number: u8) -> u8 {
    epoch * 32 + number
}

fn as_ballot(b: u8) -> Ballot {
    Ballot { epoch: u32::from(b / 32), counter: u64::from(b % 32), node: 0, nonce: 0 }
}

impl Scope {
    fn broken(&self, mutant: Mutant) -> bool {
        self.mutant == Some(mutant)
    }
}

impl World {
    fn acknowledged(&self) -> bool {
        self.writers.iter().any(|w| w.at == Writing::Acknowledged)
    }

    /// Whether nothing more can happen and the result is correct.
    fn ended_well(&self) -> bool {
        let open = self.registry.is_some_and(|r| r.open);
        let mut all = self.drives.iter().flatten();
        let fenced = self.registry.is_some() && all.any(|d| d.fence != Deletion::NONE);
        !open && !fenced
    }
}

impl Model for Scope {
    type State = World;
    type Action = Act;

    fn init_states(&self) -> Vec<World> {
        let writer = |tries: u8| Writer {
            at: if tries == 0 { Writing::GaveUp } else { Writing::Try(0) },
            rounds: [Round::default(); TRIES],
            late: false,
        };
        let deleter = Deleter {
            at: Deleting::Begin,
            by: Deletion::NONE,
            epoch: [0; GROUPS],
            to: [0; GROUPS],
            counted: [0; GROUPS],
            rounds: [Round::default(); GROUPS],
            lifts: None,
            looked: false,
        };
        let mut deleters = [deleter; DELETERS];
        for d in deleters.iter_mut().skip(usize::from(self.deleters)) {
            d.at = Deleting::End;
        }
        let mut registry = Registered::default();
        if self.aborted {
            registry = registry.begin();
            let (at, by) = (Deleting::End, registry.last);
            deleters[0] = Deleter { at, by, lifts: Some([0; GROUPS]), ..deleter };
            registry = registry.abort(by).unwrap_or(registry);
        }
        vec![World {
            registry: Some(registry),
            drives: [[BLANK; N]; GROUPS],
            epochs: [0; GROUPS],
            writers: [writer(self.writers[0]), writer(self.writers[1])],
            deleters,
            join: Join::Not,
            bad: None,
        }]
    }

    fn actions(&self, w: &World, acts: &mut Vec<Act>) {
        if w.bad.is_none() {
            self.writing(w, acts);
            for d in 0..self.deleters {
                self.deleting(w, d, acts);
            }
            self.others(w, acts);
        }
    }

    fn next_state(&self, last: &World, act: Act) -> Option<World> {
        let mut w = *last;
        self.step(&mut w, act);
        (w != *last).then_some(w)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let mut all = vec![
            Property::always("no acknowledged write is in a removed bucket", |_, w: &World| {
                w.bad != Some(Bad::Vanished)
            }),
            Property::always("nothing stays fenced or half deleted", |s: &Scope, w: &World| {
                let mut acts = Vec::new();
                s.actions(w, &mut acts);
                let stuck = acts.iter().all(|a| s.next_state(w, *a).is_none());
                !s.others || w.bad.is_some() || !stuck || w.ended_well()
            }),
        ];
        if self.mutant.is_none() {
            all.push(Property::sometimes("reached: the bucket is removed", |_, w: &World| {
                w.registry.is_none()
            }));
        }
        if self.mutant.is_none() && (self.others || self.aborted) {
            all.push(Property::sometimes(
                "reached: written after a deletion that was aborted",
                |_, w: &World| w.writers.iter().any(|w| w.late && w.at == Writing::Acknowledged),
            ));
        }
        all
    }
}
