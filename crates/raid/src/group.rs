//! A drive group in service: its members, and what every operation needs of them.
//!
//! Invariants:
//! - A member whose write or flush failed is out of service at once, and its superblocks' peers say so durably before
//!   any further entry of the journal, any new epoch and any answer.
//! - When more members of a set would be out of service than its level tolerates, the group stops instead: nothing
//!   more is written, so that what is on the members can be opened again.
//! - `overlay` is content that the journal has, or is about to have, and that is not in place yet. It is empty when no batch is under way
//!   ([`crate::pipeline`]), and so are `parts`. `old` is empty between operations.
//!
//! Must not depend on: how requests arrive, threads.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use ashlar_erasure::Code;
use bytes::Bytes;

use crate::Error;
use crate::bitmap::Bitmap;
use crate::coder::Batching;
use crate::content::{JournalPart, Old, Overlay, Put, Staged};
use crate::geometry::{BLOCK, Geometry};
use crate::journal::Change;
use crate::layout::Layout;
use crate::member::Member;
use crate::permutation::Table;
use crate::pool::Pool;
use crate::sums::{Page, Pages, Summer};
use crate::superblock::{MemberState, Policy, Superblock};
use crate::suspects::Suspects;
use crate::thin_state::Thin;
use crate::threads::Worker;
use crate::under_way::UnderWay;

/// What a group has counted since it was opened.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Counters {
    /// Blocks whose checksum did not match, that were reconstructed and written again.
    pub corrected: u64,
    /// Pages of checksums that were lost.
    pub pages_lost: u64,
    /// Entries of the journal that were applied when the group was opened.
    pub replayed: u64,
    /// Entries that were in the journal in part, and were dropped.
    pub dropped: u64,
    /// Rows whose parity was made anew since the group was opened, after an unclean stop.
    pub resynced: u64,
    /// Rows that could not be made consistent after an unclean stop, because a member was out of service.
    pub unprotected: u64,
    /// Blocks read from members.
    pub blocks_read: u64,
    /// Blocks written to members' data areas.
    pub blocks_written: u64,
}

/// A member of the group, as it is shown.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MemberStatus {
    /// Its position.
    pub slot: usize,
    /// The device, if one is attached.
    pub device: Option<String>,
    /// Its state.
    pub state: MemberState,
    /// Blocks of it that did not match their checksum since the group was opened.
    pub corrected: u64,
    /// Why it is out of service, if that happened since the group was opened.
    pub why: Option<String>,
    /// What it fails with, if a device is attached that knows.
    pub domain: Option<String>,
}

/// The state of a group, in the words that operators of arrays use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum GroupState {
    /// All members are in service.
    Optimal,
    /// Members are out of service, and a set tolerates no further failure.
    Degraded,
    /// Members are out of service, and every set tolerates a further failure.
    PartiallyDegraded,
    /// A member is being rebuilt, also into a distributed spare.
    Recovery,
    /// All members are in service, and parity is made anew after an unclean stop.
    Resync,
    /// More members are out of service than the level tolerates.
    Failed,
}

/// Defects that tests put in, to see that they are found.
#[cfg(test)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Mutant {
    /// Blocks are written in place before the journal is durable.
    InPlaceBeforeJournal,
    /// The journal begins a new epoch before what it held is durable in place.
    JournalReusedTooSoon,
    /// A write is answered before the journal is flushed.
    AnsweredBeforeFlush,
    /// A failed member is not recorded before the next answer.
    FailureNotRecorded,
    /// The progress of a rebuild is recorded before the blocks are durable.
    ProgressBeforeBlocks,
    /// The superblocks say that rows have moved before the journal has them.
    MovedBeforeJournal,
    /// The journals forget which rows have moved before the superblocks say it.
    MovedForgotten,
    /// The blocks of a row that moves go with several entries.
    MovedInParts,
    /// What was staged while the journals were flushed counts as durable too.
    DurableAtStaging,
    /// Two contents of a block are written in place at once.
    PutsOutOfOrder,
    /// A block leaves the overlay when an older content of it is in place.
    LeavesWithOlder,
    /// The journal begins a new epoch while blocks are written in place.
    CheckpointBeforeInPlace,
    /// A block whose spare is on a member that failed too is looked for there.
    SpareOfSpareIgnored,
    /// Blocks that are back on a new device are written in the spare.
    SpareKept,
    /// A member that failed is recorded while rows are being written once.
    RecordedWhileWrittenOnce,
    /// Rows are answered before they are durable in place.
    OnceUnflushed,
    /// Rows of which only the checksums are in the journals go in place although a member has failed.
    OnceThoughDegraded,
    /// After a power cut the parity of rows that were being written once stays as it is.
    OnceUnresolved,
    /// Other requests change rows that are being written once.
    OnceShared,
    /// Requests do not make suspect rows consistent before they use them.
    SuspectsUsed,
    /// A thin virtual drive has a piece in memory before its map says so durably.
    MappedTooLate,
    /// A piece is given up before it is zeros.
    GivenUpUncleared,
    /// A piece is free for others before the map has given it up.
    FreeTooSoon,
}

#[cfg(test)]
thread_local! {
    /// The defect of groups that are opened.
    pub(crate) static OPENED_WITH: std::cell::Cell<Option<Mutant>> = const { std::cell::Cell::new(None) };
}

/// A drive group in service.
pub struct Group {
    pub(crate) superblock: Superblock,
    pub(crate) layout: Layout,
    pub(crate) code: Code,
    /// Of a declustered group.
    pub(crate) table: Option<Arc<Table>>,
    /// The code of the new shape of a group that grows, and the first row that has its old one.
    pub(crate) new_code: Option<Code>,
    pub(crate) moved: u64,
    pub(crate) summer: Summer,
    pub(crate) pages: Pages,
    pub(crate) members: Vec<Option<Member>>,
    pub(crate) spares: Vec<Member>,
    pub(crate) epoch: u64,
    pub(crate) sequence: u64,
    pub(crate) overlay: Overlay,
    /// Batches that are staged, and not in place yet.
    pub(crate) under_way: UnderWay,
    /// The changes of the entry that is being made: each of another block. Empty between batches.
    pub(crate) joint: Vec<Staged>,
    /// Parts of entries that are not written to the journals yet.
    pub(crate) parts: Vec<JournalPart>,
    /// What requests will need of members: see [`crate::prefetch`].
    pub(crate) old: Old,
    /// Blocks that are in place and whose entry, which makes them count, is not in the journal yet.
    pub(crate) fresh: Vec<Change>,
    /// Blocks that read as zeros from the entry on that is staged; their space is given back after it is durable.
    pub(crate) discarded: BTreeSet<(usize, u64)>,
    pub(crate) bitmap: Bitmap,
    /// Rows whose parity may be wrong since an unclean stop; none: no row.
    pub(crate) suspects: Option<Suspects>,
    /// A member failed, and the superblocks do not say so yet.
    pub(crate) unsettled: bool,
    /// Why nothing is written any more.
    pub(crate) stopped: Option<Error>,
    pub(crate) counters: Counters,
    pub(crate) corrected: Vec<u64>,
    pub(crate) why: Vec<Option<String>>,
    pub(crate) batching: Batching,
    /// Threads that ask members that wait.
    pub(crate) pool: Arc<Pool>,
    /// The memory of batches of a rebuild, from its first one on.
    pub(crate) workers: Vec<Worker>,
    /// Data and parity blocks of the code that it is for.
    pub(crate) workers_of: (usize, usize),
    /// The memory of batches of a check, likewise.
    pub(crate) buffers: Vec<Vec<u8>>,
    /// Time that recording the progress of a rebuild took.
    pub(crate) recording: Duration,
    /// Rows that a request has to write whole for them to be written once.
    pub(crate) once_rows: usize,
    /// Memory of the requests that are being staged, which content may be a part of.
    pub(crate) shared: Vec<Bytes>,
    /// Blocks of a member for which a request to the journals waits while they are read for, and how long; tests have others.
    pub(crate) gathers: (usize, Duration),
    /// Thin virtual drives, and blocks of a piece of them as a power of two.
    pub(crate) thin: Thin,
    pub(crate) piece_log: u8,
    #[cfg(test)]
    pub(crate) mutant: Option<Mutant>,
}

impl Group {
    /// Bytes of data of a stripe.
    pub(crate) fn stripe_bytes(&self) -> u64 {
        let g = self.geometry();
        g.strip_blocks * g.k as u64 * BLOCK as u64
    }

    /// The shape of the group; of one that grows, that which it had until now.
    #[must_use]
    pub fn geometry(&self) -> &Geometry {
        &self.superblock.geometry
    }

    /// What its superblock says.
    #[must_use]
    pub fn superblock(&self) -> &Superblock {
        &self.superblock
    }

    /// Bytes of the virtual address space.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.geometry().blocks() * BLOCK as u64
    }

    /// What was counted since the group was opened.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Its members by position.
    #[must_use]
    pub fn members(&self) -> Vec<MemberStatus> {
        let slots = self.superblock.slots.iter().zip(&self.members).enumerate();
        slots
            .map(|(slot, (s, member))| MemberStatus {
                slot,
                device: member.as_ref().map(|m| m.name.clone()),
                state: s.state,
                corrected: self.corrected[slot],
                why: self.why[slot].clone(),
                domain: member.as_ref().and_then(Member::domain),
            })
            .collect()
    }

    /// Its hot spares.
    #[must_use]
    pub fn spares(&self) -> Vec<String> {
        self.spares.iter().map(|m| m.name.clone()).collect()
    }

    /// Its state.
    #[must_use]
    pub fn state(&self) -> GroupState {
        if self.stopped.is_some() {
            return GroupState::Failed;
        }
        let worst: Vec<(usize, usize)> = self.shapes().map(|g| (self.worst(&g), g.m)).collect();
        let any = |what: fn((usize, usize)) -> bool| worst.iter().any(|w| what(*w));
        let rebuilding = self.rebuilding().is_some();
        match () {
            () if any(|(down, m)| down > m) => GroupState::Failed,
            () if self.superblock.slots.iter().all(|s| s.state == MemberState::Online) => {
                if self.suspects.is_some() { GroupState::Resync } else { GroupState::Optimal }
            }
            () if rebuilding => GroupState::Recovery,
            () if any(|(down, m)| down == m) => GroupState::Degraded,
            () => GroupState::PartiallyDegraded,
        }
    }

    #[cfg(test)]
    pub(crate) fn has(&self, mutant: Mutant) -> bool {
        self.mutant == Some(mutant)
    }

    /// Whether a member's block of a row counts.
    pub(crate) fn up(&self, slot: usize, row: u64) -> bool {
        self.members[slot].is_some()
            && match self.superblock.slots[slot].state {
                MemberState::Online => true,
                MemberState::Failed => false,
                MemberState::Rebuild { done } if self.table.is_none() => row < done,
                MemberState::Rebuild { done } => row + done >= self.geometry().rows(),
            }
    }

    /// Whether a member waits for its device, so that it is worth to have several batches under way.
    pub(crate) fn waits(&self) -> bool {
        self.members.iter().flatten().any(|m| m.medium().waits())
    }

    pub(crate) fn journaled(&self) -> bool {
        self.superblock.policy == Policy::Journal
    }

    /// Refuses when the group has stopped.
    pub(crate) fn running(&self) -> Result<(), Error> {
        self.stopped.clone().map_or(Ok(()), Err)
    }

    /// Takes a member out of service after an error. It is not asked again.
    pub(crate) fn fail(&mut self, slot: usize, op: &str, error: &std::io::Error) {
        if self.members[slot].is_none() {
            return;
        }
        self.why[slot] = Some(format!("{op}: {error}"));
        self.members[slot] = None;
        if !self.spareable(slot) {
            self.stopped = Some(self.too_many(slot));
            return;
        }
        self.superblock.slots[slot].state = MemberState::Failed;
        self.pages.forget(slot);
        // Later batches leave it out: from now on its blocks are what the others say.
        self.overlay.retain(|(s, _), _| *s != slot);
        self.unsettled = true;
    }

    /// Makes the superblocks say which members are in service. A member that cannot write it fails too. While rows are being written once,
    /// that is not done yet ([`Group::is_held`]).
    pub(crate) fn settle(&mut self) -> Result<(), Error> {
        if self.is_held() {
            return self.running();
        }
        while self.unsettled {
            self.running()?;
            #[cfg(test)]
            if self.has(Mutant::FailureNotRecorded) {
                return Ok(());
            }
            self.unsettled = false;
            self.superblock.generation += 1;
            for slot in 0..self.members.len() {
                if let Some(member) = &mut self.members[slot]
                    && let Err(e) = member.put_superblock(&self.superblock)
                {
                    self.fail(slot, "write the superblock", &e);
                }
            }
            let superblock = &self.superblock;
            let before = self.spares.len();
            self.spares.retain_mut(|m| m.put_superblock(superblock).is_ok());
            if self.spares.len() != before {
                self.superblock.spares = self.spares.iter().map(|m| m.id).collect();
                self.unsettled = true;
            }
        }
        self.running()
    }

    /// Writes whole blocks of a member's area; the member fails if it cannot.
    pub(crate) fn write_blocks(&mut self, slot: usize, block: u64, bytes: &[u8], op: &str) {
        if let Some(member) = &mut self.members[slot]
            && let Err(e) = member.write(block, bytes)
        {
            self.fail(slot, op, &e);
        }
    }

    /// The checksum of a member's block.
    pub(crate) fn sum(&mut self, slot: usize, row: u64) -> u64 {
        if let Some(sum) = self.pages.get(slot, row) {
            return sum;
        }
        let (number, at) = Pages::place(row);
        let mut copies = [vec![0; BLOCK], vec![0; BLOCK]];
        for (copy, bytes) in copies.iter_mut().enumerate() {
            let block = self.layout.page(number, copy as u64);
            let read = self.members[slot].as_ref().map(|m| m.read(block, bytes));
            if !matches!(read, Some(Ok(()))) {
                // A page that cannot be read is like one that is damaged.
                bytes.fill(0xff);
            }
        }
        let (page, lost) = Page::decode(&self.superblock.group, slot, number, [&copies[0], &copies[1]]);
        self.counters.pages_lost += u64::from(lost);
        let sum = page.sums[at];
        self.pages.insert(slot, number, page);
        sum
    }

    /// Sets the checksum of a member's block.
    pub(crate) fn set_sum(&mut self, slot: usize, row: u64, sum: u64) {
        if self.sum(slot, row) != sum {
            self.pages.set(slot, row, sum);
        }
    }

    /// Writes the checksum pages, makes everything durable in place, and begins a new epoch of the journal.
    pub(crate) fn checkpoint(&mut self) -> Result<(), Error> {
        assert!(self.fresh.is_empty() && self.is_idle(), "no batch is under way at a checkpoint");
        #[cfg(test)]
        if self.has(Mutant::JournalReusedTooSoon) && self.journaled() {
            self.new_epoch()?;
        }
        let pages = self.pages.drain(&self.superblock.group.clone()).into_iter();
        let pages: Vec<Put> = pages.map(|(slot, number, bytes)| (slot, number, bytes.into())).collect();
        for copy in 0..2 {
            let place = |number| self.layout.page(number, copy);
            let blocks = pages.iter().map(|(slot, number, bytes)| (*slot, place(*number), bytes.clone()));
            self.write_all(blocks.collect(), "write checksums");
            self.flush_members()?;
        }
        // What the journal is about to forget is in the superblocks: members that failed above, and how far a growth is.
        #[cfg(test)]
        if self.has(Mutant::MovedForgotten) {
            self.settle()?;
            self.new_epoch()?;
        }
        self.record_moved();
        self.settle()?;
        if self.journaled() {
            self.new_epoch()?;
            self.settle()?;
        }
        Ok(())
    }

    /// Begins the next epoch on every member. One that a crash left behind is brought to the present epoch before, so that
    /// members in service are never more than one apart.
    pub(crate) fn new_epoch(&mut self) -> Result<(), Error> {
        let behind = |m: &Member| m.epoch < self.epoch;
        if self.members.iter().flatten().any(behind) {
            self.write_heads()?;
        }
        self.epoch += 1;
        self.write_heads()
    }

    /// Makes every journal one of the present epoch. The newest head of a member is not written over.
    fn write_heads(&mut self) -> Result<(), Error> {
        let mut heads = Vec::new();
        for (slot, member) in self.members.iter_mut().enumerate() {
            let Some(member) = member else { continue };
            if member.epoch == self.epoch {
                continue;
            }
            (member.epoch, member.head_place) = (self.epoch, 1 - member.head_place);
            (member.journal_at, member.ordinal) = (0, 0);
            let head = crate::journal::encode_head(&self.superblock.group, slot as u16, self.epoch);
            heads.push((slot, crate::layout::HEADS + member.head_place, head.into()));
        }
        self.write_all(heads, "write the head of the journal");
        self.flush_members()
    }

    /// Makes everything durable and records that. The group can be opened again without a recovery.
    ///
    /// # Errors
    /// [`Error::Failed`].
    pub fn close(&mut self) -> Result<(), Error> {
        self.running()?;
        self.checkpoint()?;
        if self.suspects.is_some() {
            // The next start begins with them.
            return self.settle();
        }
        self.clear_bitmap()?;
        self.superblock.clean = true;
        self.superblock.intents = false;
        self.unsettled = true;
        self.settle()
    }

    /// Lets go of all devices; every further call fails with [`Error::State`]. Call [`Group::close`] before, or the next
    /// [`Group::open`] recovers the group.
    pub fn stop(&mut self) {
        self.stopped = Some(Error::State("the group was taken out of service".into()));
        self.members.iter_mut().for_each(|m| *m = None);
        self.spares.clear();
    }

    /// Ends the group for good: no superblock is left on any attached device, and every further call fails.
    ///
    /// # Errors
    /// [`Error::Io`] if a device could not be written; others were.
    pub fn delete(&mut self) -> Result<(), Error> {
        let mut result = Ok(());
        for member in self.members.iter_mut().flatten().chain(&mut self.spares) {
            if let Err(e) = member.wipe() {
                result =
                    Err(Error::Io { op: "remove the superblock", error: format!("{}: {e}", member.name) });
            }
        }
        self.stop();
        result
    }
}
