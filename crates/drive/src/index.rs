//! The set of index files and the manifest that names them.
//!
//! The manifest is the checkpoint of recovery: the index files together contain the journal up to `position`.
//!
//! Invariants: a manifest is replaced as a whole (new file, flush, rename, flush of the folder); a run is
//! never changed; the index can be lost without losing data.
//!
//! Must not depend on: journal batches.

use crate::block::{BlockCache, Item};
use crate::entry::{Loc, Register, Shard, ShardName, register_key, shard_key};
use crate::fence_table::{Fence, FenceKey};
use crate::run::{Cursor, Halt, Lookup, Mode, Run, filter_hash};
use crate::space::{Extent, Position, Segment};
use crate::unnamed::Note;
use crate::{Error, Result};
use ashlar_commit::bucket_fence::Deletion;
use ashlar_format::codec::{Reader, Writer};
use ashlar_format::journal::{GroupState, HashKey, read_states, read_unnamed, states, unnamed};
use ashlar_format::{BucketId, GroupId};
use ashlar_machine::Folder;
use std::cell::RefCell;
use std::sync::Arc;

/// Runs, newest first.
#[derive(Default)]
pub(crate) struct RunSet {
    pub runs: Vec<Arc<Run>>,
}

thread_local! {
    /// Key and block of the lookup in progress.
    static SCRATCH: RefCell<(Vec<u8>, Vec<u8>)> = const { RefCell::new((Vec::new(), Vec::new())) };
}

impl RunSet {
    pub fn bytes(&self) -> u64 {
        self.runs.iter().map(|r| r.bytes).sum()
    }

    fn get<T>(
        &self,
        key: &[u8],
        mode: Mode,
        block: &mut Vec<u8>,
        decode: impl Fn(&[u8]) -> Result<T, ashlar_format::Error>,
    ) -> Lookup<Option<T>> {
        if self.runs.is_empty() {
            return Ok(None);
        }
        let hash = filter_hash(key);
        for run in &self.runs {
            if let Some(found) = run.get(key, hash, mode, block, &decode)? {
                return Ok(found);
            }
        }
        Ok(None)
    }

    /// The entry of a register.
    pub fn register(&self, key: &[u8], mode: Mode) -> Lookup<Option<Register>> {
        SCRATCH.with_borrow_mut(|(k, block)| {
            register_key(key, k);
            self.get(k, mode, block, Register::decode)
        })
    }

    /// The entry of a shard.
    pub fn shard(&self, name: ShardName, mode: Mode) -> Lookup<Option<Shard>> {
        SCRATCH.with_borrow_mut(|(_, block)| self.get(&shard_key(name), mode, block, Shard::decode))
    }

    /// A merged scan of all runs, starting at `from`.
    pub fn merged_scan(&self, from: &[u8], mode: Mode) -> Lookup<MergedScan<'static>> {
        MergedScan::new(self.runs.iter().cloned(), from, mode, None)
    }

    /// Like [`RunSet::walk`], for a scan that others begin where it ends: blocks are kept in the cache.
    pub fn merged_scan_cached<'c>(
        &self,
        from: &[u8],
        mode: Mode,
        cache: &'c BlockCache,
    ) -> Lookup<MergedScan<'c>> {
        MergedScan::new(self.runs.iter().cloned(), from, mode, Some(cache))
    }
}

/// A merged scan of several runs: for each key the newest entry.
///
/// Most entries are in one large run, so most steps stay in one run and cost one comparison. A step to another one costs as
/// many as the logarithm of the number of runs: there are a hundred where a long merge keeps short ones waiting.
pub(crate) struct MergedScan<'c> {
    /// Newest first.
    cursors: Vec<Cursor<'c>>,
    /// The cursors that have an entry, by its key; of equal keys the newest first.
    order: Vec<usize>,
    /// How many of them are at the least key.
    same: usize,
}

impl<'c> MergedScan<'c> {
    pub fn new(
        runs: impl Iterator<Item = Arc<Run>>,
        from: &[u8],
        mode: Mode,
        cache: Option<&'c BlockCache>,
    ) -> Lookup<MergedScan<'c>> {
        let cursors = runs.map(|r| Cursor::new(r, from, mode, cache)).collect::<Lookup<Vec<_>>>()?;
        let mut order: Vec<usize> = (0..cursors.len()).filter(|i| cursors[*i].peek().is_some()).collect();
        order.sort_unstable_by_key(|i| (cursors[*i].peek().map(|(key, _)| key), *i));
        let mut scan = MergedScan { cursors, order, same: 0 };
        scan.same = scan.count_same();
        Ok(scan)
    }

    /// The next entry; `None` at the end.
    pub fn peek(&self) -> Option<Item<'_>> {
        self.cursors[*self.order.first()?].peek()
    }

    /// Moves past that entry. After an error the scan must not be used.
    pub fn next(&mut self) -> Lookup<()> {
        for i in &self.order[..self.same] {
            self.cursors[*i].next()?;
        }
        if self.same != 1 || !self.is_first() {
            // Those behind are in order.
            (0..self.same).rev().for_each(|at| self.place(at));
            self.same = self.count_same();
        }
        Ok(())
    }

    /// The key of a cursor.
    fn key(&self, cursor: usize) -> Option<&[u8]> {
        self.cursors[cursor].peek().map(|(key, _)| key)
    }

    /// Whether the first cursor has an entry and its key is below those of all others.
    fn is_first(&self) -> bool {
        match self.order[..] {
            [first, second, ..] => self.key(first).is_some_and(|key| Some(key) < self.key(second)),
            [first] => self.key(first).is_some(),
            [] => false,
        }
    }

    /// Moves the cursor at this place of the order to where it belongs behind it, or out of the order at its end.
    fn place(&mut self, at: usize) {
        let cursor = self.order[at];
        let key = self.key(cursor);
        if key.is_none() {
            self.order.remove(at);
            return;
        }
        let behind = self.order[at + 1..].partition_point(|i| (self.key(*i), *i) < (key, cursor));
        self.order[at..=at + behind].rotate_left(1);
    }

    /// How many cursors are at the first key.
    fn count_same(&self) -> usize {
        let Some(first) = self.order.first() else { return 0 };
        let key = self.key(*first);
        self.order.iter().take_while(|i| self.key(**i) == key).count()
    }
}

/// The starting point of recovery.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Manifest {
    /// The position in the journal up to which the runs cover it.
    pub position: Position,
    pub states: Vec<(GroupId, GroupState)>,
    pub state_segment: u32,
    pub next_run: u32,
    /// Newest first: number and bytes.
    pub runs: Vec<(u32, u64)>,
    pub journal: Vec<(u32, Segment)>,
    pub extents: Vec<(u32, Extent)>,
    pub next_extent: u32,
    pub fences: Vec<(FenceKey, Fence)>,
    /// Where the journal up to the position leaves regions unnamed.
    pub unnamed: Note,
}

const MAGIC: &[u8; 8] = b"ASHINDEX";
const FORMAT: u16 = 5;
/// The format before, without what is unnamed: nothing is.
const BEFORE: u16 = 4;
pub(crate) const MANIFEST: &str = "manifest";
const MANIFEST_NEW: &str = "manifest.new";
/// Larger than a manifest of a million segments.
const MAX_MANIFEST: u64 = 256 << 20;

fn hash(key: &HashKey, bytes: &[u8]) -> [u8; 32] {
    ashlar_checksum::frame_hash(key, &[b"index manifest", bytes])
}

impl Manifest {
    pub(crate) fn encode(&self, key: &HashKey) -> Vec<u8> {
        let mut w = Writer::with_capacity(256 + self.journal.len() * 40 + self.extents.len() * 32);
        w.raw(MAGIC);
        w.u16(FORMAT);
        w.u32(self.position.segment);
        w.u32(self.position.at);
        w.u64(self.position.seq);
        w.raw(&self.position.chain);
        states(&mut w, &self.states);
        w.u32(self.state_segment);
        w.u32(self.next_run);
        w.u32(self.next_extent);
        w.list(&self.runs, |w, (id, bytes)| {
            w.u32(*id);
            w.u64(*bytes);
        });
        w.list(&self.journal, |w, (n, s)| {
            w.u32(*n);
            w.var(s.bytes);
            w.var(s.live);
            w.var(s.deletions);
            w.option(s.need.as_ref(), |w, (lo, hi)| {
                w.u32(*lo);
                w.u32(*hi);
            });
        });
        w.list(&self.extents, |w, (n, e)| {
            w.u32(*n);
            w.var(e.bytes);
            w.var(e.at);
            w.var(e.live);
            w.bool(e.sealed);
            w.bool(e.suspect);
        });
        w.list(&self.fences, |w, ((group, bucket), f)| {
            w.raw(&group.to_bytes());
            w.raw(&bucket.0);
            w.u64(f.deletion.0);
            w.u32(f.loc.segment);
            w.u32(f.loc.at);
            w.u32(f.loc.len);
            w.u32(f.oldest);
        });
        unnamed(&mut w, &self.unnamed);
        Manifest::seal(w.into_vec(), key)
    }

    /// Appends the hash.
    pub(crate) fn seal(mut body: Vec<u8>, key: &HashKey) -> Vec<u8> {
        let sum = hash(key, &body);
        body.extend_from_slice(&sum);
        body
    }

    pub(crate) fn decode(bytes: &[u8], key: &HashKey) -> Result<Manifest, ashlar_format::Error> {
        use ashlar_format::Error as E;
        let at = bytes.len().checked_sub(32).ok_or(E::Malformed("manifest length"))?;
        let (body, sum) = bytes.split_at(at);
        if hash(key, body) != sum {
            return Err(E::Checksum("index manifest"));
        }
        let mut r = Reader::new(body);
        let (magic, format) = (r.raw(8)?, r.u16()?);
        if magic != MAGIC || !(BEFORE..=FORMAT).contains(&format) {
            return Err(E::Malformed("manifest magic"));
        }
        let position = Position { segment: r.u32()?, at: r.u32()?, seq: r.u64()?, chain: r.array()? };
        let states = read_states(&mut r)?;
        let (state_segment, next_run, next_extent) = (r.u32()?, r.u32()?, r.u32()?);
        let runs = r.list(|r| Ok((r.u32()?, r.u64()?)))?;
        let journal = r.list(|r| {
            let number = r.u32()?;
            let (bytes, live, deletions) = (r.var()?, r.var()?, r.var()?);
            let need = r.option(|r| Ok((r.u32()?, r.u32()?)))?;
            Ok((number, Segment { bytes, live, deletions, need }))
        })?;
        let extents = r.list(|r| {
            let number = r.u32()?;
            let (bytes, at, live) = (r.var()?, r.var()?, r.var()?);
            let (sealed, suspect) = (r.bool()?, r.bool()?);
            Ok((number, Extent { bytes, at, live, sealed, suspect, ..Extent::default() }))
        })?;
        let fences = r.list(|r| {
            let key = (GroupId::from_bytes(r.array()?), BucketId(r.array()?));
            let deletion = Deletion(r.u64()?);
            let loc = Loc { segment: r.u32()?, at: r.u32()?, len: r.u32()? };
            Ok((key, Fence { deletion, loc, oldest: r.u32()? }))
        })?;
        let unnamed = if format == BEFORE { Note::new() } else { read_unnamed(&mut r)? };
        r.end()?;
        Ok(Manifest {
            position,
            states,
            state_segment,
            next_run,
            runs,
            journal,
            extents,
            next_extent,
            fences,
            unnamed,
        })
    }

    /// Replaces the manifest on the drive.
    pub fn store(&self, folder: &Folder, key: &HashKey) -> std::io::Result<()> {
        folder.remove(MANIFEST_NEW)?;
        folder.write_new(MANIFEST_NEW, &self.encode(key))?;
        folder.rename(MANIFEST_NEW, MANIFEST)?;
        folder.sync()
    }

    /// The manifest on the drive; an error if it is not valid for any reason.
    pub fn load(folder: &Folder, key: &HashKey) -> Result<Manifest> {
        let bytes = folder.read(MANIFEST, MAX_MANIFEST).map_err(|e| Error::io("index manifest", &e))?;
        Ok(Manifest::decode(&bytes, key)?)
    }
}

/// Converts a halt of a blocking read into its error.
pub(crate) fn must(h: Halt) -> Error {
    match h {
        Halt::Failed(e) => e,
        Halt::WouldBlock => Error::Offline("a blocking read did not block"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counters::Counters;
    use crate::run::RunWriter;
    use std::collections::BTreeMap;

    /// A run of these entries.
    fn run(folder: &Folder, id: u32, entries: &BTreeMap<Vec<u8>, Option<Vec<u8>>>) -> Arc<Run> {
        let mut writer = RunWriter::new(folder, id, &[7; 4], entries.len() as u64).unwrap();
        for (key, value) in entries {
            writer.push(key, value.as_deref()).unwrap();
        }
        let bytes = writer.finish().unwrap();
        Arc::new(Run::open(folder, id, bytes, &[7; 4], &Arc::new(Counters::default())).unwrap())
    }

    #[test]
    fn merged_scan_shows_the_newest_entry_of_each_key_in_order() {
        let mut state = 1u64;
        let mut random = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below
        };
        for round in 0..60u64 {
            let disk = ashlar_machine::SimDisk::new(1 << 30);
            let folder = Folder::simulated(&disk, None);
            let runs: Vec<_> = (0..random(5))
                .map(|_| {
                    let entry = |random: &mut dyn FnMut(u64) -> u64| {
                        // Many runs have the same keys, and blocks end at different ones.
                        let key = format!("key {:04}", random(400)).into_bytes();
                        let value = (random(4) != 0).then(|| vec![random(256) as u8; random(300) as usize]);
                        (key, value)
                    };
                    (0..random(300)).map(|_| entry(&mut random)).collect::<BTreeMap<_, _>>()
                })
                .collect();
            // Older entries first, so that newer ones replace them.
            let expected: BTreeMap<_, _> = runs.iter().rev().flatten().collect();
            let set =
                RunSet { runs: (0..).zip(&runs).map(|(id, entries)| run(&folder, id, entries)).collect() };
            let from = format!("key {:04}", random(400)).into_bytes();
            let mut scan = set.merged_scan(&from, Mode::Wait).unwrap();
            let mut found = Vec::new();
            while let Some((key, value)) = scan.peek() {
                found.push((key.to_vec(), value.map(<[u8]>::to_vec)));
                scan.next().unwrap();
            }
            let expected = expected.range::<Vec<u8>, _>(&from..).map(|(k, v)| ((*k).clone(), (*v).clone()));
            assert_eq!(found, expected.collect::<Vec<_>>(), "round {round}");
        }
    }
}
