//! The fence of a bucket: how a bucket is deleted while some coordinators do not yet see the deletion
//! (docs/protocol.md 2.15).
//!
//! The registry of buckets numbers the deletions of a bucket ([`Registered`], changed only by
//! compare-and-set). A deletion sets its number as the *fence* of the bucket on a majority of the slots of
//! every group ([`Fencing`]). A drive with a fence accepts nothing that could add to the bucket ([`admits`]).
//! Whatever can still be chosen after that is on a drive that was counted. So exactly those drives are
//! inspected ([`judge`]), and the bucket is removed from the registry if they have nothing of it.
//!
//! Rules that are easy to break, each with a mutant of the model:
//! * Only voters count, a majority in every group (`FenceMinority`), all under one layout epoch
//!   (`FenceAcrossEpochs`). Then a drive that is filled later has read a fence from one of them. It has the
//!   fences of its group before it votes (`FenceNotCopied`).
//! * The counted drives are inspected, after they were counted (`LookFirst`), and no others
//!   (`LookElsewhere`): drives without a fence may still choose a record that is on one of them.
//! * A record that is not decided is settled before the bucket counts as empty (`UndecidedIsAbsent`).
//! * Numbers are ordered. A late message of an older deletion neither replaces the fence of a later one
//!   (`OldFenceWins`) nor lifts it (`LiftForeign`), and its rounds do not pass that fence.
//! * Only the deletion that the registry names removes the bucket (`RemoveUnasked`).
//!
//! Must not depend on: what a record contains; how the registry is stored.

use crate::{Ballot, Quorum, Slot, SlotSet};

/// Number of a deletion of one bucket. The registry assigns it; a later deletion has a higher one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Deletion(pub u64);

impl Deletion {
    /// No deletion: a drive without a fence.
    pub const NONE: Deletion = Deletion(0);
}

/// What kind of change an ACCEPT makes, as far as a fence is concerned.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Grant {
    /// An ordinary change.
    Plain,
    /// The record holds nothing (a tombstone), so it adds nothing to the bucket.
    Empties,
    /// A round of this deletion, or of the collector that cleans up after it.
    Of(Deletion),
}

/// Whether a drive with this fence may accept.
#[must_use]
pub fn admits(fence: Deletion, grant: Grant) -> bool {
    match grant {
        _ if fence == Deletion::NONE => true,
        Grant::Plain => false,
        Grant::Empties => true,
        Grant::Of(d) => d >= fence,
    }
}

/// What a drive does when a deletion asks it to set its fence.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum SetFence {
    /// Write it, flush, then answer.
    Write,
    /// The fence is set already: answer once it is durable.
    Already,
    /// A later deletion has set its fence.
    Later(Deletion),
}

/// What a drive with the fence `have` does when it is asked to set `by`.
#[must_use]
pub fn set(have: Deletion, by: Deletion) -> SetFence {
    match have.cmp(&by) {
        std::cmp::Ordering::Less => SetFence::Write,
        std::cmp::Ordering::Equal => SetFence::Already,
        std::cmp::Ordering::Greater => SetFence::Later(have),
    }
}

/// Whether a drive with the fence `have` drops it when all fences up to `up_to` are lifted.
#[must_use]
pub fn lifts(have: Deletion, up_to: Deletion) -> bool {
    have != Deletion::NONE && have <= up_to
}

/// The fence of a drive that joins: the highest fence of its sources and of itself.
#[must_use]
pub fn joined(fences: impl IntoIterator<Item = Deletion>) -> Deletion {
    fences.into_iter().max().unwrap_or(Deletion::NONE)
}

/// The registry's entry for an existing bucket, as far as deletions are concerned.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Registered {
    /// The last deletion that was begun.
    pub last: Deletion,
    /// Whether that deletion is under way.
    pub open: bool,
}

impl Registered {
    /// Begins a deletion. It replaces one that is under way, which can then only end as not done.
    #[must_use]
    pub fn begin(self) -> Registered {
        Registered { last: Deletion(self.last.0 + 1), open: true }
    }

    /// The bucket stays. `None`: this deletion is not under way (any more).
    #[must_use]
    pub fn abort(self, deletion: Deletion) -> Option<Registered> {
        self.is_open(deletion).then_some(Registered { open: false, ..self })
    }

    /// Whether this deletion is the one under way. Only then may it remove the bucket.
    #[must_use]
    pub fn is_open(self, deletion: Deletion) -> bool {
        self.open && self.last == deletion
    }
}

/// What an operation that was refused by a fence does.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Met {
    /// Report that the bucket does not exist.
    Gone,
    /// The fence is left over from an earlier deletion: fences up to this one may be lifted.
    Lift(Deletion),
    /// This deletion is under way: wait for it, or abort it if it takes too long.
    Wait(Deletion),
}

/// What to do after a refusal by `fence`. `registered`: read from the registry after the refusal, without a
/// cache; `None`: the bucket does not exist.
#[must_use]
pub fn met(registered: Option<Registered>, fence: Deletion) -> Met {
    match registered {
        None => Met::Gone,
        Some(r) if r.open || r.last < fence => Met::Wait(r.last.max(fence)),
        Some(r) => Met::Lift(r.last),
    }
}

/// What follows from an answer to a fence.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum FenceStep {
    /// More answers are needed.
    Wait,
    /// These slots, a majority, are fenced: inspect all of them, and only them.
    Fenced(SlotSet),
    /// A later deletion has replaced this one.
    Later(Deletion),
    /// Too few voters answer.
    Unavailable,
}

/// Counts the fences of one group that were requested under one layout epoch.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Fencing {
    quorum: Quorum,
    fenced: SlotSet,
    silent: SlotSet,
    later: Deletion,
}

impl Fencing {
    /// No slot has answered yet.
    #[must_use]
    pub fn new(quorum: Quorum) -> Fencing {
        Fencing { quorum, fenced: SlotSet::EMPTY, silent: SlotSet::EMPTY, later: Deletion::NONE }
    }

    /// The fence is durable on a voter.
    pub fn on_fenced(&mut self, slot: Slot) -> FenceStep {
        self.fenced.insert(slot);
        self.step()
    }

    /// A drive has the fence of a later deletion.
    pub fn on_later(&mut self, by: Deletion) -> FenceStep {
        self.later = self.later.max(by);
        self.step()
    }

    /// The slot gave no answer, its drive is joining, or its drive follows a newer layout.
    pub fn on_silent(&mut self, slot: Slot) -> FenceStep {
        self.silent.insert(slot);
        self.step()
    }

    fn step(&self) -> FenceStep {
        let majority = self.quorum.majority();
        if self.later != Deletion::NONE {
            FenceStep::Later(self.later)
        } else if self.fenced.len() >= majority {
            FenceStep::Fenced(self.fenced)
        } else if self.quorum.n - self.silent.without(self.fenced).len() < majority {
            FenceStep::Unavailable
        } else {
            FenceStep::Wait
        }
    }
}

/// Whether a proposer can still get a record chosen when the drives of `fenced` would not accept it and the
/// drives of `there` are attached.
#[must_use]
pub fn could_be_chosen(quorum: Quorum, there: SlotSet, fenced: SlotSet) -> bool {
    there.without(fenced).len() >= quorum.majority()
}

/// The result of inspecting one key on the counted drives.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Verdict {
    /// No record of the key can be chosen any more.
    Absent,
    /// The key exists.
    Present,
    /// Undecided: a round of the deletion must decide.
    Settle,
}

/// `shown`: for each counted drive, the ballot of its record, and whether the record adds to the bucket.
#[must_use]
pub fn judge(shown: impl IntoIterator<Item = Option<(Ballot, bool)>>) -> Verdict {
    let mut first = None;
    let (mut same, mut adds) = (true, false);
    for record in shown {
        adds |= record.is_some_and(|(_, adds)| adds);
        same &= *first.get_or_insert(record) == record;
    }
    match (adds, same) {
        (false, _) => Verdict::Absent,
        (true, true) => Verdict::Present,
        (true, false) => Verdict::Settle,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const D: fn(u64) -> Deletion = Deletion;

    #[test]
    fn deletion_numbers_are_ordered() {
        assert!(admits(Deletion::NONE, Grant::Plain));
        assert!(!admits(D(2), Grant::Plain) && admits(D(2), Grant::Empties));
        assert!(!admits(D(2), Grant::Of(D(1))) && admits(D(2), Grant::Of(D(2))));
        assert_eq!(set(D(1), D(2)), SetFence::Write);
        assert_eq!(set(D(2), D(2)), SetFence::Already);
        assert_eq!(set(D(3), D(2)), SetFence::Later(D(3)));
        assert!(lifts(D(2), D(2)) && lifts(D(1), D(2)) && !lifts(D(3), D(2)));
        assert!(!lifts(Deletion::NONE, D(2)));
        assert_eq!(joined([D(1), Deletion::NONE, D(3)]), D(3));
    }

    #[test]
    fn only_the_last_deletion_removes() {
        let first = Registered::default().begin();
        let second = first.begin();
        assert!(first.is_open(D(1)) && second.is_open(D(2)) && !second.is_open(D(1)));
        assert_eq!(second.abort(D(1)), None);
        let over = second.abort(D(2)).unwrap();
        assert_eq!(over, Registered { last: D(2), open: false });
        assert!(!over.is_open(D(2)));
        assert_eq!(over.begin().last, D(3), "a number comes once");
        assert_eq!(met(None, D(1)), Met::Gone);
        assert_eq!(met(Some(second), D(1)), Met::Wait(D(2)));
        assert_eq!(met(Some(over), D(2)), Met::Lift(D(2)));
        assert_eq!(met(Some(over), D(3)), Met::Wait(D(3)), "the registry that was read is too old");
    }

    #[test]
    fn fence_needs_majority_of_voters() {
        let mut f = Fencing::new(Quorum::new(4));
        assert_eq!(f.on_fenced(0), FenceStep::Wait);
        assert_eq!(f.on_fenced(0), FenceStep::Wait);
        assert_eq!(f.on_silent(1), FenceStep::Wait);
        assert_eq!(f.on_fenced(2), FenceStep::Wait);
        assert_eq!(f.on_fenced(3), FenceStep::Fenced([0, 2, 3].into_iter().collect()));
        let mut f = Fencing::new(Quorum::new(4));
        assert_eq!(f.on_silent(1), FenceStep::Wait);
        assert_eq!(f.on_silent(2), FenceStep::Unavailable);
        assert_eq!(f.on_later(D(3)), FenceStep::Later(D(3)));
        let two: SlotSet = [0, 1].into_iter().collect();
        let all = Quorum::new(4).all();
        assert!(!could_be_chosen(Quorum::new(4), all, two));
        assert!(could_be_chosen(Quorum::new(4), all, [3].into_iter().collect()));
    }

    #[test]
    fn undecided_records_are_settled() {
        let b = |counter| Ballot { epoch: 1, counter, node: 0, nonce: 0 };
        assert_eq!(judge([None, None]), Verdict::Absent);
        assert_eq!(judge([Some((b(1), false)), None]), Verdict::Absent);
        assert_eq!(judge([Some((b(1), true)), Some((b(1), true))]), Verdict::Present);
        assert_eq!(judge([Some((b(1), true)), None]), Verdict::Settle);
        assert_eq!(judge([Some((b(1), true)), Some((b(2), false))]), Verdict::Settle);
    }
}
