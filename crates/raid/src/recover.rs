//! After an unclean stop: the journal is applied. Without one, [`crate::resync`] makes parity anew while the group is in service.
//!
//! Invariants: an entry is applied if and only if every member that it, or an entry before it, names and that is in service has its
//! part; what was answered always is such an entry. A member whose journal is of an older epoch than entries of the others is stale
//! and is not used.
//!
//! Must not depend on: requests.

use std::collections::{BTreeMap, BTreeSet};

use crate::Error;
use crate::geometry::BLOCK;
use crate::group::Group;
use crate::journal::{self, Entry, Intent, Listed, Position};
use crate::layout::{HEADS, JOURNAL};
use crate::once::{Intended, IntendedBlock};
use crate::superblock::{MemberState, Policy};

/// An entry that was found: which members have their part, and the content of their blocks.
struct Parts {
    listed: Listed,
    slots: BTreeSet<u16>,
    content: BTreeMap<(usize, u64), Vec<u8>>,
    /// Of an intent: the checksums that the members' blocks get, in the order of the rows.
    sums: BTreeMap<usize, Vec<u64>>,
}

/// What entries leave blocks with: the checksum, and content that is not in place.
type Changes = BTreeMap<(usize, u64), (u64, Option<Vec<u8>>)>;

impl Group {
    /// Makes the group consistent, or notes which rows are not.
    pub(crate) fn recover(&mut self) -> Result<(), Error> {
        match self.superblock.policy {
            Policy::Journal => self.replay(),
            Policy::Bitmap => {
                self.read_bitmap();
                self.suspect_marked();
                Ok(())
            }
            Policy::None if self.superblock.clean => Ok(()),
            Policy::None => {
                self.suspect_all();
                Ok(())
            }
        }
    }

    fn replay(&mut self) -> Result<(), Error> {
        let epochs: Vec<Option<u64>> = (0..self.members.len()).map(|slot| self.read_epoch(slot)).collect();
        self.epoch = epochs.iter().flatten().max().copied().unwrap_or(0);
        let mut entries = BTreeMap::new();
        for (slot, epoch) in epochs.iter().enumerate() {
            if *epoch == Some(self.epoch) {
                self.read_journal(slot, &mut entries);
            }
        }
        for (slot, epoch) in epochs.iter().enumerate() {
            let stale = epoch.is_none_or(|e| e + 1 < self.epoch || e < self.epoch && !entries.is_empty());
            if stale && self.members[slot].is_some() {
                self.members[slot] = None;
                self.superblock.slots[slot].state = MemberState::Failed;
                self.why[slot] =
                    Some("its journal is older than that of the others: its data is not current".into());
                self.unsettled = true;
            }
        }
        self.suffices()?;
        let (changes, intended) = self.decide(entries);
        for ((slot, row), (sum, content)) in changes {
            if self.members[slot].is_none() {
                continue;
            }
            if let Some(content) = content {
                self.write_blocks(slot, self.layout.data_start + row, &content, "apply the journal");
            }
            if self.members[slot].is_some() {
                self.set_sum(slot, row, sum);
            }
        }
        self.running()?;
        self.resolve(intended)?;
        self.running()?;
        self.checkpoint()
    }

    /// The epoch of a member's journal.
    fn read_epoch(&mut self, slot: usize) -> Option<u64> {
        let group = self.superblock.group;
        let member = self.members[slot].as_mut()?;
        let mut newest = None;
        for place in 0..2 {
            let mut head = vec![0; BLOCK];
            if member.read(HEADS + place, &mut head).is_ok() {
                newest =
                    newest.max(journal::decode_head(&group, slot as u16, &head).map(|epoch| (epoch, place)));
            }
        }
        let (epoch, place) = newest?;
        (member.epoch, member.head_place) = (epoch, place);
        Some(epoch)
    }

    /// Adds the parts in a member's journal.
    fn read_journal(&self, slot: usize, entries: &mut BTreeMap<u64, Parts>) {
        let Some(member) = &self.members[slot] else { return };
        let mut at =
            Position { group: self.superblock.group, slot: slot as u16, epoch: self.epoch, ordinal: 0 };
        let mut block = 0;
        while block < self.layout.journal_blocks {
            let mut bytes = vec![0; BLOCK];
            if member.read(JOURNAL + block, &mut bytes).is_err() {
                return;
            }
            let Some(len) = journal::part_len(&at, &bytes) else { return };
            if block + (len / BLOCK) as u64 > self.layout.journal_blocks {
                return;
            }
            bytes.resize(len, 0);
            if member.read(JOURNAL + block, &mut bytes).is_err() {
                return;
            }
            let Some((listed, len)) = journal::decode(&at, &bytes) else { return };
            block += (len / BLOCK) as u64;
            at.ordinal += 1;
            let (own, sums): (Vec<(usize, u64)>, Vec<u64>) = match &listed {
                Listed::Entry(entry) => {
                    let own = entry.changes.iter().filter(|c| usize::from(c.slot) == slot);
                    (own.map(|c| (slot, c.row)).collect(), Vec::new())
                }
                Listed::Intent(intent) => (Vec::new(), intent.sums.clone()),
            };
            let content = bytes[BLOCK..len].chunks_exact(BLOCK).map(<[u8]>::to_vec);
            let parts = entries.entry(listed.sequence()).or_insert_with(|| Parts {
                listed,
                slots: BTreeSet::new(),
                content: BTreeMap::new(),
                sums: BTreeMap::new(),
            });
            parts.slots.insert(slot as u16);
            parts.content.extend(own.into_iter().zip(content));
            parts.sums.insert(slot, sums);
        }
    }

    /// What the entries leave each block with, and the rows of intents after which nothing else changed them.
    fn decide(&mut self, entries: BTreeMap<u64, Parts>) -> (Changes, Intended) {
        let (mut changes, mut intended) = (Changes::new(), Intended::default());
        let mut over = false;
        for (sequence, parts) in entries {
            self.sequence = self.sequence.max(sequence);
            // One after an entry that is not whole may have been made of what that one changes. Neither was answered: whatever was
            // is flushed together with all entries before it.
            over |= !self.counts_as_whole(&parts);
            if over {
                self.counters.dropped += 1;
                continue;
            }
            self.counters.replayed += 1;
            match parts.listed {
                Listed::Intent(intent) => self.intend(&intent, &parts.sums, &mut changes, &mut intended),
                Listed::Entry(entry) => {
                    if let Some(growth) = &self.superblock.growth {
                        self.moved = self.moved.max(entry.moved.min(growth.to.rows()));
                    }
                    self.change(&entry, parts.content, &mut changes, &mut intended);
                }
            }
        }
        (changes, intended)
    }

    /// Whether every member in service that an entry names has its part, and what it says fits the group.
    fn counts_as_whole(&self, parts: &Parts) -> bool {
        let (members, rows) = (self.members.len(), self.geometry().rows());
        match &parts.listed {
            Listed::Entry(entry) => entry.changes.iter().all(|c| {
                let slot = usize::from(c.slot);
                slot < members
                    && c.row < rows
                    && (self.members[slot].is_none() || parts.slots.contains(&c.slot))
            }),
            Listed::Intent(intent) => {
                intent.set < self.geometry().sets
                    && intent.runs.iter().all(|(first, count)| {
                        first + u64::from(*count) <= rows
                            && (*first..first + u64::from(*count)).all(|row| {
                                let slots = self.slots(intent.set, row);
                                slots
                                    .iter()
                                    .all(|s| self.members[*s].is_none() || parts.slots.contains(&(*s as u16)))
                            })
                    })
            }
        }
    }

    /// Rows are about to be written whole.
    fn intend(
        &self,
        intent: &Intent,
        sums: &BTreeMap<usize, Vec<u64>>,
        changes: &mut Changes,
        intended: &mut Intended,
    ) {
        let mut next: BTreeMap<usize, std::slice::Iter<'_, u64>> =
            sums.iter().map(|(slot, sums)| (*slot, sums.iter())).collect();
        let rows = intent.runs.iter().flat_map(|(first, count)| *first..first + u64::from(*count));
        for row in rows {
            // An earlier intent for it has ended: that is durable in place. What an entry says may be in the journal only.
            let mut earlier = intended.remove(&(intent.set, row)).unwrap_or_default();
            let mut blocks = BTreeMap::new();
            for slot in self.slots(intent.set, row) {
                let Some(new) = next.get_mut(&slot).and_then(Iterator::next) else { continue };
                let changed = changes.remove(&(slot, row));
                let before = earlier.remove(&slot).map(|block| (block.new, None)).or(changed);
                blocks.insert(slot, IntendedBlock { new: *new, before });
            }
            intended.insert((intent.set, row), blocks);
        }
    }

    fn change(
        &self,
        entry: &Entry,
        mut content: BTreeMap<(usize, u64), Vec<u8>>,
        changes: &mut Changes,
        intended: &mut Intended,
    ) {
        for c in &entry.changes {
            let place = (usize::from(c.slot), c.row);
            // An intent for the row has ended, or the entry has the content of all of its blocks.
            if let Some((set, _)) = self.role_at(place.0, place.1)
                && let Some(blocks) = intended.remove(&(set, c.row))
            {
                for (slot, block) in blocks {
                    if self.members[slot].is_some() {
                        changes.insert((slot, c.row), (block.new, None));
                    }
                }
            }
            if self.members[place.0].is_some() {
                changes.insert(place, (c.sum, content.remove(&place)));
            }
        }
    }
}
