//! Bytes of the journal: its head and its entries. **Part of the on-drive format** (docs/array.md, "Format").
//!
//! An entry is atomic: either all of its blocks change or none. Its part on a member is one block that lists **all**
//! blocks of the entry, on whichever member, with their checksums, and after it the new content of that member's own
//! blocks. An entry without content says only that the blocks listed have these checksums; their content was durable
//! before. An **intent** says that rows are about to be written whole in place, once ([`crate::once`]): its part on a
//! member is one block, with the checksums that the member's blocks of these rows will have. All entries of an epoch lie
//! one after another from the start of each journal; a new epoch begins at the start again, when everything before is in
//! place.
//!
//! Invariants: a part is valid only in its group, on its member, in its epoch, at its ordinal, with its whole content.
//!
//! Must not depend on: devices, parity.

use ashlar_checksum::frame_hash;
use ashlar_format::codec::{Reader, Writer};

use crate::geometry::BLOCK;
use crate::superblock::Id;

/// Blocks of one entry, at most: its list fits a block.
pub(crate) const MAX_CHANGES: usize = 192;
const MAGIC: &[u8; 8] = b"ASHLRENT";
const HEAD: &[u8; 8] = b"ASHLRJNL";
/// What a part is of: an entry without content, one with it, an intent.
const SUMS: u8 = 0;
const CONTENT: u8 = 1;
const INTENT: u8 = 2;

/// A block that an entry changes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Change {
    pub(crate) slot: u16,
    pub(crate) row: u64,
    /// The checksum from then on; 0: the block reads as zeros.
    pub(crate) sum: u64,
}

/// Rows that are about to be written whole: the part of one member.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Intent {
    pub(crate) sequence: u64,
    /// The set of members that the rows are of.
    pub(crate) set: u32,
    /// Runs of rows, ascending: the first one, and how many.
    pub(crate) runs: Vec<(u64, u16)>,
    /// The checksums of the member's blocks of these rows, in the order of the rows.
    pub(crate) sums: Vec<u64>,
}

/// Rows of one intent, and runs of them, at most: its list fits a block.
pub(crate) const MAX_INTENT: usize = 400;
pub(crate) const MAX_RUNS: usize = 32;

/// What a part says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Listed {
    Entry(Entry),
    Intent(Intent),
}

impl Listed {
    pub(crate) fn sequence(&self) -> u64 {
        match self {
            Listed::Entry(entry) => entry.sequence,
            Listed::Intent(intent) => intent.sequence,
        }
    }

    /// Blocks of content behind the list.
    fn content(&self, slot: u16) -> usize {
        match self {
            Listed::Entry(e) if e.content => e.changes.iter().filter(|c| c.slot == slot).count(),
            Listed::Entry(_) | Listed::Intent(_) => 0,
        }
    }
}

/// Which part of which entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Position {
    pub(crate) group: Id,
    pub(crate) slot: u16,
    pub(crate) epoch: u64,
    pub(crate) ordinal: u64,
}

/// The list of an entry.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Entry {
    pub(crate) sequence: u64,
    pub(crate) content: bool,
    /// Rows below this one have the new shape of a group that grows; 0: it does not grow, or none has.
    pub(crate) moved: u64,
    pub(crate) changes: Vec<Change>,
}

pub(crate) fn key(group: &Id) -> [u64; 4] {
    let word = |at: usize| {
        let mut w = [0; 8];
        w.copy_from_slice(&group[at..at + 8]);
        u64::from_le_bytes(w)
    };
    [word(0), word(8), u64::from_le_bytes(*b"ashlar j"), u64::from_le_bytes(*b"ournal 1")]
}

/// The first block of a part. `content` is the content of the member's own blocks, in the order of the list.
pub(crate) fn encode(at: &Position, entry: &Entry, content: &[&[u8]]) -> Vec<u8> {
    assert!(entry.changes.len() <= MAX_CHANGES);
    let mut w = start(at, entry.sequence, if entry.content { CONTENT } else { SUMS });
    w.u16(entry.changes.len() as u16);
    for c in &entry.changes {
        w.u16(c.slot);
        w.u64(c.row);
        w.u64(c.sum);
    }
    w.u64(entry.moved);
    finish(at, w, content)
}

/// The part of an intent.
pub(crate) fn encode_intent(at: &Position, intent: &Intent) -> Vec<u8> {
    assert!(intent.sums.len() <= MAX_INTENT && intent.runs.len() <= MAX_RUNS);
    let mut w = start(at, intent.sequence, INTENT);
    w.u32(intent.set);
    w.u16(intent.runs.len() as u16);
    for (first, rows) in &intent.runs {
        w.u64(*first);
        w.u16(*rows);
    }
    w.u16(intent.sums.len() as u16);
    intent.sums.iter().for_each(|sum| w.u64(*sum));
    finish(at, w, &[])
}

/// The beginning of a part.
fn start(at: &Position, sequence: u64, kind: u8) -> Writer {
    let mut w = Writer::with_capacity(BLOCK);
    w.raw(MAGIC);
    w.raw(&at.group);
    w.u16(at.slot);
    w.u64(at.epoch);
    w.u64(at.ordinal);
    w.u64(sequence);
    w.u8(kind);
    w
}

/// The first block of a part, with the hash of it and of the content behind it.
fn finish(at: &Position, w: Writer, content: &[&[u8]]) -> Vec<u8> {
    let mut out = w.into_vec();
    assert!(out.len() <= BLOCK - 32);
    out.resize(BLOCK - 32, 0);
    let mut all = vec![&out[..]];
    all.extend_from_slice(content);
    let sum = frame_hash(&key(&at.group), &all);
    out.extend_from_slice(&sum);
    out
}

/// What the part at the start of `bytes` says, and its length; none if there is no valid one.
pub(crate) fn decode(at: &Position, bytes: &[u8]) -> Option<(Listed, usize)> {
    let listed = list(at, bytes.get(..BLOCK - 32)?)?;
    let len = BLOCK + listed.content(at.slot) * BLOCK;
    let content = bytes.get(BLOCK..len)?;
    (frame_hash(&key(&at.group), &[&bytes[..BLOCK - 32], content]) == bytes[BLOCK - 32..BLOCK])
        .then_some((listed, len))
}

/// Bytes of the part whose first block this is; none if it is not one. Its content is not verified yet.
pub(crate) fn part_len(at: &Position, head: &[u8]) -> Option<usize> {
    Some(BLOCK + list(at, head.get(..BLOCK - 32)?)?.content(at.slot) * BLOCK)
}

fn list(at: &Position, head: &[u8]) -> Option<Listed> {
    let mut r = Reader::new(head);
    let here = r.raw(8).ok()? == MAGIC
        && r.raw(16).ok()? == at.group
        && r.u16().ok()? == at.slot
        && r.u64().ok()? == at.epoch
        && r.u64().ok()? == at.ordinal;
    if !here {
        return None;
    }
    let sequence = r.u64().ok()?;
    let content = match r.u8().ok()? {
        SUMS => false,
        CONTENT => true,
        INTENT => return intent(&mut r, sequence).map(Listed::Intent),
        _ => return None,
    };
    let n = usize::from(r.u16().ok()?);
    if n > MAX_CHANGES {
        return None;
    }
    let mut changes = Vec::with_capacity(n);
    for _ in 0..n {
        changes.push(Change { slot: r.u16().ok()?, row: r.u64().ok()?, sum: r.u64().ok()? });
    }
    let moved = r.u64().ok()?;
    Some(Listed::Entry(Entry { sequence, content, moved, changes }))
}

fn intent(r: &mut Reader<'_>, sequence: u64) -> Option<Intent> {
    let set = r.u32().ok()?;
    let n = usize::from(r.u16().ok()?);
    if n > MAX_RUNS {
        return None;
    }
    let runs: Vec<(u64, u16)> =
        (0..n).map(|_| Some((r.u64().ok()?, r.u16().ok()?))).collect::<Option<_>>()?;
    // Ascending, and apart from each other.
    let ends = runs.iter().map(|(first, rows)| first.checked_add(u64::from(*rows)));
    let ends: Vec<u64> = ends.collect::<Option<_>>()?;
    let rows: usize = runs.iter().map(|(_, rows)| usize::from(*rows)).sum();
    let sorted = runs[1.min(n)..].iter().zip(&ends).all(|((first, _), end)| end <= first);
    let n = usize::from(r.u16().ok()?);
    if !sorted || rows > MAX_INTENT || n > rows {
        return None;
    }
    let sums = (0..n).map(|_| r.u64().ok()).collect::<Option<_>>()?;
    Some(Intent { sequence, set, runs, sums })
}

/// The head of a member's journal: its epoch.
pub(crate) fn encode_head(group: &Id, slot: u16, epoch: u64) -> Vec<u8> {
    let mut w = Writer::with_capacity(BLOCK);
    w.raw(HEAD);
    w.raw(group);
    w.u16(slot);
    w.u64(epoch);
    let mut out = w.into_vec();
    out.resize(BLOCK - 32, 0);
    let sum = frame_hash(&key(group), &[&out]);
    out.extend_from_slice(&sum);
    out
}

/// The inverse of [`encode_head`]; none if it is not a valid one of this group and member.
pub(crate) fn decode_head(group: &Id, slot: u16, bytes: &[u8]) -> Option<u64> {
    let (body, sum) = bytes.split_at_checked(BLOCK - 32)?;
    let mut r = Reader::new(body);
    let here = r.raw(8).ok()? == HEAD && r.raw(16).ok()? == group && r.u16().ok()? == slot;
    let epoch = r.u64().ok()?;
    (here && frame_hash(&key(group), &[body]) == sum).then_some(epoch)
}
