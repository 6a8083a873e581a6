//! The set of index files and the manifest that names them.
//!
//! The manifest is the checkpoint of recovery: the index files together contain the journal up to `position`.
//!
//! Invariants: a manifest is replaced as a whole (new file, flush, rename, flush of the folder); a run is
//! never changed; the index can be lost without losing data.
//!
//! Must not depend on: journal batches.

use crate::block::BlockCache;
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
pub(crate) struct MergedScan<'c> {
    /// Newest first.
    cursors: Vec<Cursor<'c>>,
}

impl<'c> MergedScan<'c> {
    pub fn new(
        runs: impl Iterator<Item = Arc<Run>>,
        from: &[u8],
        mode: Mode,
        cache: Option<&'c BlockCache>,
    ) -> Lookup<MergedScan<'c>> {
        let cursors = runs.map(|r| Cursor::new(r, from, mode, cache)).collect::<Lookup<Vec<_>>>()?;
        Ok(MergedScan { cursors })
    }

    /// Copies the next entry; returns `None` at the end. The flag tells whether the value is a removal.
    pub fn next(&mut self, key: &mut Vec<u8>, value: &mut Vec<u8>) -> Lookup<Option<bool>> {
        let mut best: Option<usize> = None;
        for i in 0..self.cursors.len() {
            let Some((k, _)) = self.cursors[i].peek() else { continue };
            let less = match best {
                None => true,
                Some(b) => match self.cursors[b].peek() {
                    Some((kb, _)) => k < kb,
                    None => true,
                },
            };
            if less {
                best = Some(i);
            }
        }
        let Some(b) = best else { return Ok(None) };
        key.clear();
        value.clear();
        let mut removed = false;
        if let Some((k, v)) = self.cursors[b].peek() {
            key.extend_from_slice(k);
            removed = v.is_none();
            value.extend_from_slice(v.unwrap_or_default());
        }
        for c in &mut self.cursors {
            if matches!(c.peek(), Some((k, _)) if k == key.as_slice()) {
                c.next()?;
            }
        }
        Ok(Some(removed))
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
