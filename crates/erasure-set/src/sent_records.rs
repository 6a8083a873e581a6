//! The records that an update has sent to drives so far, and what became of them (docs/protocol.md 2.3, "Unknown outcome").
//!
//! A record that was accepted anywhere may reappear as long as nothing newer of this update, or of another one, is chosen: a
//! majority without its slots does not show it, and a later majority with them builds on it. So no sent record is dropped
//! before the update ends, and no answer is given from a base that was not chosen under a ballot above all of them
//! ([`ashlar_commit::Proposer`], "Unknown outcome"), except from a record that a majority shows.
//!
//! Invariants: records form a chain by their digests, and what was chosen once is an ancestor of all that is chosen later. A
//! record counts as passed only if a *chosen* record with its sequence number, or a higher one, does not descend from it.
//!
//! Must not depend on: how drives are asked.

use crate::stored::Parent;
use crate::{Error, Result};
use ashlar_format::{Ballot, Record};
use smallvec::SmallVec;

/// A record that was sent.
pub(crate) struct Sent {
    pub(crate) seq: u64,
    /// [`Record::digest`] of the record without wrapper.
    pub(crate) digest: u64,
    /// That of the record that it was built on; 0: none, or one that says nothing because others may be alike.
    pub(crate) parent: u64,
    pub(crate) ballot: Ballot,
    /// The index of the answer if it is applied.
    pub(crate) answer: usize,
}

/// What is known of a sent record from reads between attempts.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Passed {
    No,
    /// Others have passed it, if nothing above its ballot was purged: a key that is created again after a purge counts from 1
    /// again.
    UnlessPurged,
    /// A chosen record has the same parent: it is never chosen.
    Always,
}

/// What became of a sent record, seen from a later base.
#[derive(PartialEq, Eq)]
enum Outcome {
    /// It is the base, or the base was made from it.
    Applied,
    /// The base was not built on it.
    NotApplied,
    /// It cannot be determined: many records may have followed it, or it may have been chosen, and purged after a tombstone
    /// was built on it.
    Unknown,
}

/// Whether a record descends from a sent one.
enum Descends {
    Yes,
    /// `sibling`: the record with the sequence number of the sent one has the same parent.
    No {
        sibling: bool,
    },
    /// Too few of its ancestors are known.
    Unknown,
}

/// What a record was built on.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Lineage {
    seq: u64,
    digest: u64,
    parent: u64,
}

impl Lineage {
    /// Of a record with the digest of its encoding without wrapper.
    pub(crate) fn of(record: &Record, digest: u64) -> Lineage {
        Lineage { seq: record.seq, digest, parent: record.parent }
    }

    /// Of the record that one with these bytes was built on.
    pub(crate) fn of_parent(parent: &Parent, bytes: &[u8]) -> Option<Lineage> {
        let bytes = (!parent.is_none()).then(|| parent.bytes(bytes))?;
        let record = Record::decode(&bytes).ok()?;
        Some(Lineage::of(&record, Record::digest(&bytes)))
    }
}

impl Sent {
    fn descends(&self, mut at: Lineage, known: &[Lineage]) -> Descends {
        if at.digest == self.digest {
            return Descends::Yes;
        }
        // From the record to its ancestors, as far as they are known.
        while at.seq > self.seq + 1 {
            match known.iter().find(|seen| seen.digest == at.parent && seen.seq + 1 == at.seq) {
                Some(seen) => at = *seen,
                None => return Descends::Unknown,
            }
        }
        if at.seq == self.seq + 1 && at.parent == self.digest {
            return Descends::Yes;
        }
        let same_place = match at.seq == self.seq {
            true => Some(&at),
            false => known.iter().find(|seen| seen.digest == at.parent && seen.seq == self.seq),
        };
        Descends::No { sibling: self.parent != 0 && same_place.is_some_and(|l| l.parent == self.parent) }
    }

    /// `known`: records that were seen. `purged`: the purge horizon of the group; a low sequence number proves nothing if
    /// something above this record's ballot was purged.
    fn outcome(&self, passed: Passed, base: Option<Lineage>, known: &[Lineage], purged: Ballot) -> Outcome {
        let unless_purged = || if purged < self.ballot { Outcome::NotApplied } else { Outcome::Unknown };
        match (passed, base) {
            (Passed::Always, _) => Outcome::NotApplied,
            (Passed::UnlessPurged, _) | (Passed::No, None) => unless_purged(),
            (Passed::No, Some(base)) => match self.descends(base, known) {
                Descends::Yes => Outcome::Applied,
                Descends::No { .. } => unless_purged(),
                Descends::Unknown => Outcome::Unknown,
            },
        }
    }
}

/// Every record that an update has sent so far, oldest first; at most one per attempt. And records that were seen since then,
/// as bases of attempts or by reads between them: if others changed the register, their records are the ancestors of the
/// present base, and show whether a sent record is one.
#[derive(Default)]
pub(crate) struct SentRecords {
    sent: SmallVec<[(Sent, Passed); 1]>,
    seen: Vec<Lineage>,
}

impl SentRecords {
    pub(crate) fn is_empty(&self) -> bool {
        self.sent.is_empty()
    }

    /// The ballot under which the newest was sent.
    pub(crate) fn ballot(&self) -> Ballot {
        self.sent.last().map_or(Ballot::ZERO, |(s, _)| s.ballot)
    }

    /// A record is sent.
    pub(crate) fn push(&mut self, sent: Sent) {
        self.sent.push((sent, Passed::No));
    }

    /// The record that was sent last is chosen.
    pub(crate) fn pop(&mut self) {
        self.sent.pop();
    }

    /// Whether one of them may be applied, now or later.
    pub(crate) fn may_be_applied(&self) -> bool {
        self.sent.iter().any(|(_, passed)| *passed != Passed::Always)
    }

    /// Whether reads between attempts have nothing to find out.
    pub(crate) fn are_passed(&self) -> bool {
        self.sent.iter().all(|(_, passed)| *passed != Passed::No)
    }

    /// The answer of the sent record that is part of the base, with the ballot under which it was sent, or an error if that
    /// cannot be determined. `base`: with what it was built on, if that is known. `purged`: the purge horizon of the group, as the drives that promised know it.
    pub(crate) fn find(
        &mut self,
        base: Option<(Lineage, Option<Lineage>)>,
        purged: Ballot,
    ) -> Result<Option<(usize, Ballot)>> {
        self.see(base.and_then(|b| b.1));
        let base = base.map(|b| b.0);
        let mut unknown = None;
        for (s, passed) in &self.sent {
            match s.outcome(*passed, base, &self.seen, purged) {
                Outcome::Applied => return Ok(Some((s.answer, s.ballot))),
                Outcome::NotApplied => {}
                Outcome::Unknown => unknown = Some(s.ballot),
            }
        }
        self.see(base);
        unknown.map_or(Ok(None), |b| Err(Error::Unknown(b)))
    }

    /// Takes what drives show: `seen`, decided or not, and the record that a majority shows, which is `chosen`. Returns the
    /// answer of the sent record that is applied, if one is, with the ballot under which it was sent.
    pub(crate) fn learn(
        &mut self,
        seen: impl IntoIterator<Item = Lineage>,
        chosen: Option<Lineage>,
    ) -> Option<(usize, Ballot)> {
        self.see(seen);
        let chosen = chosen?;
        for (s, passed) in &mut self.sent {
            match s.descends(chosen, &self.seen) {
                Descends::Yes => return Some((s.answer, s.ballot)),
                // An older one proves nothing: this one may be chosen after it.
                Descends::No { sibling } if chosen.seq >= s.seq => {
                    let now = if sibling { Passed::Always } else { Passed::UnlessPurged };
                    *passed = now.max(*passed);
                }
                Descends::No { .. } | Descends::Unknown => {}
            }
        }
        None
    }

    fn see(&mut self, seen: impl IntoIterator<Item = Lineage>) {
        for lineage in seen {
            if !self.seen.contains(&lineage) {
                self.seen.push(lineage);
            }
        }
    }
}
