//! Checks of the invariants of the commit protocol (docs/protocol.md 2.9) that this crate is responsible for,
//! also in release builds.
//!
//! `ashlar-commit` makes the decisions. These checks make sure that its results were obtained and are used
//! correctly: a process that would break an invariant ends instead. Each check is cheap: no allocation, no
//! I/O.
//!
//! Must not depend on: the state of the sets.

use ashlar_commit::SlotSet;
use ashlar_format::{Ballot, Data, Record};
use smallvec::SmallVec;

/// I6: a joining drive never votes. `joining`: slots whose drives reported that in this round.
pub(crate) fn no_joining_votes(votes: SlotSet, joining: SlotSet) {
    let both = votes.and(joining);
    assert!(both.is_empty(), "I6: {both:?} are joining, and their votes were counted");
}

/// What voters show of a register, counted independently of [`ashlar_commit::Reader`].
#[derive(Default)]
pub(crate) struct Shown {
    /// For each ballot: the voters that show it, and whether one of them has a hint that it is chosen. More
    /// than two only in a duel.
    by: SmallVec<[(Ballot, SlotSet, bool); 2]>,
}

impl Shown {
    /// The voter of a slot shows the record of `ballot`.
    pub(crate) fn add(&mut self, slot: u8, ballot: Ballot, hint: bool) {
        match self.by.iter_mut().find(|s| s.0 == ballot) {
            Some(s) => {
                s.1.insert(slot);
                s.2 |= hint;
            }
            None => self.by.push((ballot, [slot].into_iter().collect(), hint)),
        }
    }

    /// I8: only what a majority of voters shows under one ballot, or a hint, is served without a round.
    pub(crate) fn may_serve(&self, ballot: Ballot, majority: u8) {
        let shown = self.by.iter().find(|s| s.0 == ballot);
        let (voters, hinted) = shown.map_or((0, false), |s| (s.1.len(), s.2));
        assert!(hinted || voters >= majority, "I8: {ballot:?} is served, {voters} of {majority} show it");
    }
}

/// I10: nothing is deleted without a chosen record. `accepted`: the voters that accepted the record.
pub(crate) fn drops_after_choice(drops: &[Data], accepted: SlotSet, majority: u8) {
    let enough = drops.is_empty() || accepted.len() >= majority;
    assert!(enough, "I10: data is dropped, {accepted:?} are less than {majority}");
}

/// I10: the record that is to be chosen no longer names what is deleted.
pub(crate) fn named_no_more(drops: &[Data], record: &Record) {
    for d in drops {
        let named = record.data().any(|p| p.data.write_id == d.write_id);
        assert!(!named, "I10: {} is dropped, and its record names it", d.write_id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ashlar_format::{Body, Part, WriteId};

    fn slots(of: &[u8]) -> SlotSet {
        of.iter().copied().collect()
    }

    fn data(id: u8) -> Data {
        let write_id = WriteId([id; 16]);
        Data { write_id, k: 2, m: 2, rotate: 0, stripe: 8192, durable: 15, inline: false }
    }

    fn ballot(counter: u64) -> Ballot {
        Ballot { epoch: 1, counter, node: 0, nonce: 0 }
    }

    #[test]
    #[should_panic(expected = "I6")]
    fn i6_fires_on_the_vote_of_a_joining_drive() {
        no_joining_votes(slots(&[0, 2]), slots(&[1]));
        no_joining_votes(slots(&[0, 1, 2]), slots(&[1]));
    }

    #[test]
    fn i8_takes_a_majority_or_a_hint() {
        let mut shown = Shown::default();
        for (slot, counter, hint) in [(0, 7, false), (1, 8, true), (2, 7, false), (3, 7, false)] {
            shown.add(slot, ballot(counter), hint);
        }
        shown.may_serve(ballot(7), 3);
        shown.may_serve(ballot(8), 3);
    }

    #[test]
    #[should_panic(expected = "I8")]
    fn i8_fires_on_different_ballots() {
        let mut shown = Shown::default();
        for (slot, counter, hint) in [(0, 7, false), (1, 7, false), (1, 7, false), (2, 8, true)] {
            shown.add(slot, ballot(counter), hint);
        }
        shown.may_serve(ballot(7), 3);
    }

    #[test]
    #[should_panic(expected = "I10")]
    fn i10_fires_without_a_choice() {
        drops_after_choice(&[], slots(&[0]), 2);
        drops_after_choice(&[data(1)], slots(&[0, 1]), 2);
        drops_after_choice(&[data(1)], slots(&[0]), 2);
    }

    #[test]
    #[should_panic(expected = "I10")]
    fn i10_fires_on_data_that_is_named() {
        let part = Part { number: 1, size: 1, md5: [0; 16], checksum: None, modified_ms: 0, data: data(1) };
        let record = Record { seq: 1, parent: 0, nonce: 0, body: Body::Part(vec![part]) };
        named_no_more(&[data(2)], &record);
        named_no_more(&[data(2), data(1)], &record);
    }
}
