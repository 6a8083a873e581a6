//! One-sync records: what a recovering proposer may conclude from the copies it sees (docs/protocol.md 2.3
//! a).
//!
//! A one-sync write puts the shard into the ACCEPT message and saves the flush of a separate STAGE. In
//! return, such a record may be accepted somewhere although its data can never be reconstructed. A proposer
//! whose highest accepted record is a one-sync record decides here.
//!
//! Let T be the slots that the record was sent to, and `accepts_needed` = max(M, k' + f) the number of accepts in T that
//! make it chosen. Count among the slots that promised *our* ballot: `holders`, which hold the record with
//! its shard, and `without`, the slots of T that hold no such record (they can never accept it any more).
//! Every other slot of T is unknown.
//!
//! * `holders >= k' + f`: the record is as safe as a staged record.
//! * `holders >= k'`: it can be completed, which is always safe. But first the missing shards are made and
//!   staged up to k' + f; otherwise the loss of one drive could lose the acknowledged parent.
//! * `|T| - without < accepts_needed`: too few slots can have accepted it, so it was not chosen and never will be: it is
//!   overtaken. The base is the parent **inside** the record.
//! * otherwise the outcome is undecidable for now: wait for more promises; 503 if none can come.
//!
//! Why "the parent inside the record" is enough (checked in `crates/model`, scope `onesync`): a one-sync
//! record contains a full copy of the record it was built on and that record's ballot, one level deep. Its
//! proposer found that parent to be the base under its own ballot, so nothing between parent and record was
//! ever chosen; and the parent's data was durable on k' + f drives before anything was built on it. Without
//! the copy, the parent would be lost on every drive where the overtaken record replaced it.
//!
//! Must not depend on: files, sockets, clocks, what a record contains.

use crate::quorum::{Quorum, SlotSet};
use ashlar_format::Ballot;

/// The description that a one-sync record contains of itself.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct OneSync {
    /// k', the number of shards that reconstruct the data.
    pub k: u8,
    /// k' + f, the number of shards that must be durable at the acknowledgement.
    pub needed: u8,
    /// T, the slots the ACCEPT is sent to.
    pub targets: SlotSet,
}

impl OneSync {
    /// Accepts by voters that make the record chosen: max(M, k' + f).
    #[must_use]
    pub fn accepts_needed(self, quorum: Quorum) -> u8 {
        quorum.majority().max(self.needed)
    }
}

/// A one-sync record with the highest accepted ballot, and how to recover it.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Recovery<V> {
    /// Its ballot.
    pub ballot: Ballot,
    /// The record.
    pub value: V,
    /// What to do with it.
    pub footing: Footing,
}

/// How to recover a one-sync record.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Footing {
    /// The record is the base, but its data is durable on too few drives. Read k' shards from `holders`,
    /// stage the missing ones, and report each flushed shard by [`crate::Proposer::on_mended`] until `needed`
    /// slots have one. If k' + f drives cannot be reached, encode the data again:
    /// [`crate::Proposer::rewrite_base`].
    Mend {
        /// Slots that promised and hold the record with its shard.
        holders: SlotSet,
        /// k' + f of the record.
        needed: u8,
    },
    /// The record was never chosen and never will be. The base is the parent that the record contains (or
    /// nothing, if it has none). It is not known whether the parent is chosen.
    Overtaken,
}

/// The verdict on the highest accepted record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Verdict {
    Solid,
    Mend,
    Overtaken,
    Unknown,
}

/// The table of the module. `promised`: slots that promised; `top`: those of them that hold the record;
/// `shards`: those of `top` that hold its shard too.
pub(crate) fn judge(
    quorum: Quorum,
    record: OneSync,
    promised: SlotSet,
    top: SlotSet,
    shards: SlotSet,
) -> Verdict {
    let holders = shards.len();
    let without = promised.without(top).and(record.targets).len();
    if holders >= record.needed {
        Verdict::Solid
    } else if holders >= record.k {
        Verdict::Mend
    } else if record.targets.len() - without < record.accepts_needed(quorum) {
        Verdict::Overtaken
    } else {
        Verdict::Unknown
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 12+4, all sixteen slots addressed, chosen at 14.
    #[test]
    fn wide_code() {
        let q = Quorum::new(16);
        let record = OneSync { k: 12, needed: 14, targets: q.all() };
        let judge = |holders: u8, without: u8| {
            let top = SlotSet::first(holders);
            judge(q, record, SlotSet::first(holders + without), top, top)
        };
        assert_eq!(judge(14, 0), Verdict::Solid);
        assert_eq!(judge(12, 0), Verdict::Mend);
        assert_eq!(judge(11, 2), Verdict::Unknown, "three silent may all have it");
        assert_eq!(judge(11, 3), Verdict::Overtaken);
        assert_eq!(judge(0, 2), Verdict::Unknown);
    }

    /// 2+2: any three promises decide.
    #[test]
    fn small_code_is_always_decidable() {
        let q = Quorum::new(4);
        let record = OneSync { k: 2, needed: 3, targets: q.all() };
        for holders in 1..=3 {
            let top = SlotSet::first(holders);
            let v = judge(q, record, SlotSet::first(3), top, top);
            assert_ne!(v, Verdict::Unknown, "{holders} holders");
        }
    }
}
