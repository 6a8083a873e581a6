//! Index files: sorted, immutable runs of (key, value or removal).
//!
//! Why not an embedded B-tree: measured with redb 4.4, random register keys in batches of 20,000 into 200,000
//! entries cost 6-7 us of CPU per entry and growing, against well below 1 us here; and a B-tree library
//! neither checks its pages when it reads them nor reads without blocking.
//!
//! Layout: blocks of entries, each followed by a 16-byte hash; then the block index, the filter and a footer,
//! also hashed.
//!
//! Invariants: a run is complete and flushed before anything names it; every byte read is checked against a
//! hash that binds drive, run and offset; a lookup that cannot read or verify a block is an error, never
//! "absent".
//!
//! Must not depend on: what keys and values mean.

use crate::block::{Block, BlockCache, Item, Items, REMOVED};
use crate::counters::Counters;
use crate::{Error, Result};
use ashlar_format::codec::{Reader, Writer};
use ashlar_format::journal::HashKey;
use ashlar_machine::{DiskFile, Folder};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

const BLOCK: usize = 8 << 10;
const FOOTER: usize = 128;
const MAGIC: &[u8; 8] = b"ASHRUN01";
/// Filter bits per key; 6 probes give about 1 % false positives.
const BITS_PER_KEY: u64 = 10;
const PROBES: u64 = 6;
/// The longest key and value an index file takes.
pub(crate) const MAX_ITEM: usize = 4096;

/// Whether a read may wait for the device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Mode {
    Now,
    Wait,
}

/// Why a read stopped.
#[derive(Debug)]
pub(crate) enum Halt {
    /// In [`Mode::Now`] only: the device would be needed.
    WouldBlock,
    Failed(Error),
}

impl From<Error> for Halt {
    fn from(e: Error) -> Halt {
        Halt::Failed(e)
    }
}

pub(crate) type Lookup<T> = std::result::Result<T, Halt>;

fn hash(key: &HashKey, run: u32, at: u64, bytes: &[u8]) -> [u8; 16] {
    let mut place = [0; 32];
    place[0..8].copy_from_slice(b"indexrun");
    place[8..12].copy_from_slice(&run.to_le_bytes());
    place[16..24].copy_from_slice(&at.to_le_bytes());
    let full = ashlar_checksum::frame_hash(key, &[&place, bytes]);
    let mut out = [0; 16];
    out.copy_from_slice(&full[..16]);
    out
}

/// The hash the filter uses.
pub(crate) fn filter_hash(key: &[u8]) -> u64 {
    ashlar_checksum::key_hash(key)
}

pub(crate) fn file_name(id: u32) -> String {
    format!("{id:08}.run")
}

struct BlockRef {
    /// End of the first key in the arena; it starts where the previous one ends.
    key_end: u32,
    at: u64,
    len: u32,
}

/// Index files that this process has opened.
static OPENED: AtomicU64 = AtomicU64::new(0);

/// An open run.
pub(crate) struct Run {
    pub id: u32,
    pub bytes: u64,
    pub entries: u64,
    /// Distinguishes all files that this process opened: numbers of files are used again when an index is rebuilt.
    serial: u64,
    file: DiskFile,
    key: HashKey,
    arena: Vec<u8>,
    blocks: Vec<BlockRef>,
    filter: Vec<u8>,
    counters: Arc<Counters>,
}

impl Run {
    /// Opens a run and loads its block index and filter.
    pub fn open(
        folder: &Folder,
        id: u32,
        bytes: u64,
        key: &HashKey,
        counters: &Arc<Counters>,
    ) -> Result<Run> {
        let bad = |what: &str| Error::Corrupt(format!("index run {id}: {what}"));
        let io = |e: std::io::Error| Error::io(format!("index run {id}"), &e);
        let file = folder.open_read(&file_name(id)).map_err(io)?;
        if file.len().map_err(io)? != bytes || bytes < FOOTER as u64 {
            return Err(bad("length"));
        }
        let mut footer = [0; FOOTER];
        let footer_at = bytes - FOOTER as u64;
        file.read_at(&mut footer, footer_at).map_err(io)?;
        let (body, sum) = footer.split_at(FOOTER - 16);
        if hash(key, id, footer_at, body) != sum {
            return Err(bad("footer"));
        }
        let mut r = Reader::new(body);
        if r.raw(8)? != MAGIC || r.u32()? != id {
            return Err(bad("footer fields"));
        }
        let (entries, index_at, filter_at) = (r.u64()?, r.u64()?, r.u64()?);
        let (index_sum, filter_sum) = (r.array::<16>()?, r.array::<16>()?);
        if index_at > filter_at || filter_at > footer_at {
            return Err(bad("footer offsets"));
        }
        // At most as many, so that memory is asked for once.
        let (keys, count) = ((filter_at - index_at) as usize, (index_at / BLOCK as u64) as usize + 1);
        let mut index = vec![0; keys];
        file.read_at(&mut index, index_at).map_err(io)?;
        let mut filter = vec![0; (footer_at - filter_at) as usize];
        file.read_at(&mut filter, filter_at).map_err(io)?;
        if hash(key, id, index_at, &index) != index_sum || hash(key, id, filter_at, &filter) != filter_sum {
            return Err(bad("block index"));
        }
        let mut run = Run {
            id,
            bytes,
            entries,
            serial: OPENED.fetch_add(1, Ordering::Relaxed),
            file,
            key: *key,
            arena: Vec::with_capacity(keys),
            blocks: Vec::with_capacity(count),
            filter,
            counters: counters.clone(),
        };
        let mut r = Reader::new(&index);
        let mut at = 0;
        while !r.rest().is_empty() {
            let len = r.u32()?;
            run.arena.extend_from_slice(r.bytes()?);
            run.blocks.push(BlockRef { key_end: run.arena.len() as u32, at, len });
            at += u64::from(len);
        }
        if at != index_at {
            return Err(bad("block index"));
        }
        run.arena.shrink_to_fit();
        run.blocks.shrink_to_fit();
        Ok(run)
    }

    fn first_key(&self, i: usize) -> &[u8] {
        let start = if i == 0 { 0 } else { self.blocks[i - 1].key_end as usize };
        &self.arena[start..self.blocks[i].key_end as usize]
    }

    /// The only block that can hold `key`.
    fn block_of(&self, key: &[u8]) -> usize {
        let (mut lo, mut hi) = (0, self.blocks.len());
        while lo < hi {
            let mid = (lo + hi) / 2;
            if self.first_key(mid) <= key { lo = mid + 1 } else { hi = mid }
        }
        lo.saturating_sub(1)
    }

    fn may_hold(&self, hash: u64) -> bool {
        let bits = self.filter.len() as u64 * 8;
        bits == 0 || probes(hash, bits).all(|b| self.filter[(b / 8) as usize] & (1 << (b % 8)) != 0)
    }

    fn read_block(&self, i: usize, out: &mut Vec<u8>, mode: Mode) -> Lookup<()> {
        let b = &self.blocks[i];
        out.resize(b.len as usize, 0);
        self.counters.reads.fetch_add(1, Ordering::Relaxed);
        let r = match mode {
            Mode::Now => self.file.read_at_now(out, b.at),
            Mode::Wait => self.file.read_at(out, b.at).map(|()| true),
        };
        match r {
            Ok(true) => {}
            Ok(false) => return Err(Halt::WouldBlock),
            Err(e) => return Err(self.broken(&Error::io(format!("index run {}", self.id), &e))),
        }
        let Some(body) = out.len().checked_sub(16) else {
            return Err(self.broken(&Error::Corrupt("index block length".into())));
        };
        if hash(&self.key, self.id, b.at, &out[..body]) != out[body..] {
            let what = format!("index run {} at {}", self.id, b.at);
            return Err(self.broken(&Error::Corrupt(what)));
        }
        out.truncate(body);
        Ok(())
    }

    /// Records that the index must be rebuilt.
    fn broken(&self, e: &Error) -> Halt {
        self.counters.index_broken.store(true, Ordering::SeqCst);
        self.counters.read_errors.fetch_add(1, Ordering::Relaxed);
        Halt::Failed(e.clone())
    }

    /// `None`: this run has no entry; `Some(None)`: removed; otherwise `decode` of the value.
    pub fn get<T>(
        &self,
        key: &[u8],
        hash: u64,
        mode: Mode,
        scratch: &mut Vec<u8>,
        decode: impl FnOnce(&[u8]) -> Result<T, ashlar_format::Error>,
    ) -> Lookup<Option<Option<T>>> {
        if self.blocks.is_empty() || !self.may_hold(hash) {
            return Ok(None);
        }
        self.read_block(self.block_of(key), scratch, mode)?;
        for item in Items::new(scratch) {
            let (k, v) = item.map_err(|e| self.broken(&e))?;
            match k.cmp(key) {
                std::cmp::Ordering::Less => {}
                std::cmp::Ordering::Equal => {
                    let Some(v) = v else { return Ok(Some(None)) };
                    let t = decode(v).map_err(|e| self.broken(&e.into()))?;
                    return Ok(Some(Some(t)));
                }
                std::cmp::Ordering::Greater => break,
            }
        }
        Ok(None)
    }
}

fn probes(hash: u64, bits: u64) -> impl Iterator<Item = u64> {
    let step = hash.rotate_left(32) | 1;
    (0..PROBES).map(move |i| hash.wrapping_add(step.wrapping_mul(i)) % bits)
}

/// Iterates over a run in order.
pub(crate) struct Cursor<'c> {
    run: Arc<Run>,
    block: usize,
    entries: Arc<Block>,
    /// The next entry of the block.
    at: usize,
    mode: Mode,
    cache: Option<&'c BlockCache>,
}

impl<'c> Cursor<'c> {
    /// A cursor before the first entry at or after `from`. With a cache, blocks come from there and go there.
    pub fn new(run: Arc<Run>, from: &[u8], mode: Mode, cache: Option<&'c BlockCache>) -> Lookup<Cursor<'c>> {
        let mut c = Cursor { block: run.block_of(from), run, entries: Arc::default(), at: 0, mode, cache };
        c.load()?;
        c.at = c.entries.first_at(from);
        c.turn()?;
        Ok(c)
    }

    fn load(&mut self) -> Lookup<()> {
        self.at = 0;
        if self.block >= self.run.blocks.len() {
            self.entries = Arc::default();
            return Ok(());
        }
        let name = (self.run.serial, self.block as u32);
        if let Some(found) = self.cache.and_then(|c| c.get(name)) {
            self.entries = found;
            return Ok(());
        }
        let mut bytes = Vec::new();
        self.run.read_block(self.block, &mut bytes, self.mode)?;
        self.entries = Arc::new(Block::new(bytes).map_err(|e| self.run.broken(&e))?);
        if let Some(cache) = self.cache {
            cache.insert(name, self.entries.clone());
        }
        Ok(())
    }

    /// Goes on to the next block at the end of one.
    fn turn(&mut self) -> Lookup<()> {
        while self.at >= self.entries.len() && self.block < self.run.blocks.len() {
            self.block += 1;
            self.load()?;
        }
        Ok(())
    }

    /// The entry after the cursor.
    pub fn peek(&self) -> Option<Item<'_>> {
        self.entries.item(self.at)
    }

    /// Moves past that entry.
    pub fn next(&mut self) -> Lookup<()> {
        self.at += 1;
        self.turn()
    }
}

/// Writes a run.
pub(crate) struct RunWriter {
    id: u32,
    file: DiskFile,
    key: HashKey,
    /// Bytes that are not written yet, from `written` on.
    out: Vec<u8>,
    written: u64,
    block_start: usize,
    first_key: Vec<u8>,
    last_key: Vec<u8>,
    index: Writer,
    filter: Vec<u8>,
    entries: u64,
}

impl RunWriter {
    /// `expected`: an upper bound of the number of entries; sizes the filter.
    pub fn new(folder: &Folder, id: u32, key: &HashKey, expected: u64) -> Result<RunWriter> {
        let name = file_name(id);
        let file = folder.create(&name, false).map_err(|e| Error::io(name, &e))?;
        Ok(RunWriter {
            id,
            file,
            key: *key,
            out: Vec::new(),
            written: 0,
            block_start: 0,
            first_key: Vec::new(),
            last_key: Vec::new(),
            index: Writer::default(),
            filter: vec![0; (expected * BITS_PER_KEY).div_ceil(8).max(8) as usize],
            entries: 0,
        })
    }

    /// Adds the next entry; keys are strictly ascending.
    pub fn push(&mut self, key: &[u8], value: Option<&[u8]>) -> Result<()> {
        assert!(key.len() <= MAX_ITEM && value.is_none_or(|v| v.len() <= MAX_ITEM));
        assert!(self.entries == 0 || key > self.last_key.as_slice(), "index keys out of order");
        if self.out.len() == self.block_start {
            self.first_key = separator(&self.last_key, key);
        }
        self.last_key.clear();
        self.last_key.extend_from_slice(key);
        self.entries += 1;
        let bits = self.filter.len() as u64 * 8;
        for b in probes(filter_hash(key), bits) {
            self.filter[(b / 8) as usize] |= 1 << (b % 8);
        }
        self.out.extend_from_slice(&(key.len() as u16).to_le_bytes());
        let v = value.map_or(REMOVED, |v| v.len() as u16);
        self.out.extend_from_slice(&v.to_le_bytes());
        self.out.extend_from_slice(key);
        self.out.extend_from_slice(value.unwrap_or_default());
        if self.out.len() - self.block_start >= BLOCK {
            self.end_block()?;
        }
        Ok(())
    }

    /// Bytes so far.
    pub fn bytes(&self) -> u64 {
        self.written + self.out.len() as u64
    }

    fn end_block(&mut self) -> Result<()> {
        if self.out.len() == self.block_start {
            return Ok(());
        }
        let at = self.written + self.block_start as u64;
        let sum = hash(&self.key, self.id, at, &self.out[self.block_start..]);
        self.out.extend_from_slice(&sum);
        self.index.u32((self.out.len() - self.block_start) as u32);
        self.index.bytes(&self.first_key);
        self.block_start = self.out.len();
        if self.out.len() >= 256 << 10 {
            self.spill()?;
        }
        Ok(())
    }

    fn spill(&mut self) -> Result<()> {
        let r = self.file.write_at(&self.out, self.written);
        r.map_err(|e| Error::io(file_name(self.id), &e))?;
        self.written += self.out.len() as u64;
        self.out.clear();
        self.block_start = 0;
        Ok(())
    }

    /// Writes index, filter and footer and flushes the file. Returns its length.
    pub fn finish(mut self) -> Result<u64> {
        self.end_block()?;
        self.spill()?;
        let index = std::mem::take(&mut self.index).into_vec();
        let filter = std::mem::take(&mut self.filter);
        let footer = footer(self.id, &self.key, self.written, self.entries, &index, &filter);
        // Not joined: those of a large run are hundreds of megabytes.
        for part in [index, filter, footer] {
            self.out = part;
            self.spill()?;
        }
        self.file.sync_all().map_err(|e| Error::io(file_name(self.id), &e))?;
        Ok(self.written)
    }
}

/// The footer of a run whose blocks end at `index_at`.
fn footer(id: u32, key: &HashKey, index_at: u64, entries: u64, index: &[u8], filter: &[u8]) -> Vec<u8> {
    let filter_at = index_at + index.len() as u64;
    let footer_at = filter_at + filter.len() as u64;
    let mut w = Writer::with_capacity(FOOTER);
    w.raw(MAGIC);
    w.u32(id);
    w.u64(entries);
    w.u64(index_at);
    w.u64(filter_at);
    w.raw(&hash(key, id, index_at, index));
    w.raw(&hash(key, id, filter_at, filter));
    let mut footer = w.into_vec();
    footer.resize(FOOTER - 16, 0);
    let sum = hash(key, id, footer_at, &footer);
    footer.extend_from_slice(&sum);
    footer
}

/// A run of one block with arbitrary parts and valid hashes: for the fuzzer.
pub(crate) fn sealed_run(id: u32, key: &HashKey, block: &[u8], index: &[u8], filter: &[u8]) -> Vec<u8> {
    let out = [block, &hash(key, id, 0, block)].concat();
    let footer = footer(id, key, out.len() as u64, 1, index, filter);
    [&out, index, filter, &footer].concat()
}

/// A short key that is above `below` and at or below `key`.
fn separator(below: &[u8], key: &[u8]) -> Vec<u8> {
    let same = below.iter().zip(key).take_while(|(a, b)| a == b).count();
    key[..(same + 1).min(key.len())].to_vec()
}
