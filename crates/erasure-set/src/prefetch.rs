//! Shards that drives of other nodes send with their answers to READ, so that a small body takes one round trip.
//!
//! Before it asks other nodes for a register, a reader usually has a record of it: from its cache, or from a drive of its own
//! process. The shards of the body that this record names are asked for with the same messages; a drive sends its shard if
//! the record that it shows is that one. The answers then decide which record is served, as always (docs/protocol.md 2.4),
//! and the reader of the body uses what came if the served record names the same write.
//!
//! Invariants: what came is only ever used for the write that it was asked for; a shard that did not come says nothing and is
//! asked for as if this file did not exist; no more shards are asked for than a reader of the body would ask for; what is
//! asked for has its memory first, from the readers' budget, and is not asked for if that would mean to wait.
//!
//! Must not depend on: how registers and bodies are read, what the bytes are.

use crate::budget::Share;
use ashlar_commit::SlotSet;
use ashlar_drive::WantedShards;
use ashlar_format::{Data, Record, WriteId};
use bytes::Bytes;
use smallvec::SmallVec;
use std::ops::Range;

/// The most bytes of shards that one message asks for. The answer travels with short messages, which must not wait for it, and
/// a record that is sent as well needs room.
pub(crate) const MOST: u64 = 48 << 10;

/// A range of a body that a record names.
#[derive(Clone, Debug)]
pub struct BodyRange {
    /// Where its shards are.
    pub data: Data,
    /// Bytes of the body.
    pub size: u64,
    /// The bytes that are wanted.
    pub range: Range<u64>,
}

/// Chooses from a record what its reader will want. The record may turn out not to be the one that is served.
pub type Choice<'a> = &'a (dyn Fn(&Record) -> Option<BodyRange> + Send + Sync);

/// Shards of one write that came with a record; to be given to [`crate::Sets::read_prefetched`].
#[derive(Default)]
pub struct Prefetched {
    pub(crate) write_id: Option<WriteId>,
    /// By their numbers.
    pub(crate) shards: SmallVec<[(u8, Bytes); 4]>,
    /// Their memory, if the body needs a share.
    pub(crate) room: Option<Share>,
}

impl Prefetched {
    /// The number of shards.
    #[must_use]
    pub fn shards(&self) -> usize {
        self.shards.len()
    }
}

/// How a body is opened.
#[derive(Default)]
pub(crate) struct Opening {
    /// Shards that are here already.
    pub(crate) prefetched: Prefetched,
    /// For heal: the slots whose shards are not asked for.
    pub(crate) avoid: Option<SlotSet>,
}

/// What a read of a register asks for as well.
pub(crate) struct Wish<'a> {
    pub(crate) choice: Choice<'a>,
    pub(crate) got: Prefetched,
}

/// The shards to ask for, with the memory for them.
pub(crate) struct Plan {
    pub(crate) data: Data,
    /// The slots of their drives.
    pub(crate) slots: SlotSet,
    /// Bytes of each.
    pub(crate) len: u64,
    pub(crate) room: Option<Share>,
}

impl Plan {
    /// The shards to ask of the drives in `slots`, which are of one node, in the order of the slots.
    pub(crate) fn of(&self, slots: SlotSet) -> Option<WantedShards> {
        let mut room = MOST;
        let mut want = |slot: u8| {
            let asks = self.slots.contains(slot) && self.len <= room;
            room -= if asks { self.len } else { 0 };
            asks.then(|| self.data.shard_of(slot))
        };
        let of: Vec<Option<u8>> = slots.iter().map(&mut want).collect();
        of.iter().any(Option::is_some).then_some(WantedShards { write_id: self.data.write_id, of })
    }

    /// What came, by slot.
    pub(crate) fn got(self, shards: impl IntoIterator<Item = (u8, Bytes)>) -> Prefetched {
        let shards = shards.into_iter().map(|(slot, bytes)| (self.data.shard_of(slot), bytes));
        Prefetched { write_id: Some(self.data.write_id), shards: shards.collect(), room: self.room }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_message_asks_for_no_more_than_its_answer_may_bring() {
        let data = Data {
            write_id: WriteId([1; 16]),
            k: 3,
            m: 5,
            rotate: 2,
            stripe: 60_000,
            durable: 0,
            inline: true,
        };
        let slots: SlotSet = [2, 3, 4].into_iter().collect();
        let plan = Plan { data, slots, len: data.shard_len(60_000), room: None };
        let node = |slots: &[u8]| plan.of(slots.iter().copied().collect());
        let of = |slots: &[u8]| node(slots).unwrap().of;
        assert_eq!(of(&[1, 2, 3, 4]), [None, Some(0), Some(1), None], "20,000 bytes each");
        assert_eq!(of(&[0, 4]), [None, Some(2)]);
        assert_eq!(node(&[0, 1, 7]), None, "nothing is wanted of them");
    }
}
