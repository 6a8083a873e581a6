//! Blocks of index files, and a cache of those that scans read.
//!
//! A list over many placement groups reads a short range in each of them, so that a block serves several pages.
//!
//! Invariants: a block in the cache was verified when it was read, and belongs to one opened index file, which
//! never changes; the cache is bounded by its limit.
//!
//! Must not depend on: where blocks are, what keys and values mean.

use crate::{Error, Result};
use ashlar_environment::HashMap;
use ashlar_format::codec::Reader;
use parking_lot::Mutex;
use std::sync::Arc;

/// The length of a value that stands for a removal.
pub(crate) const REMOVED: u16 = u16::MAX;
/// Bytes before key and value: their lengths.
const HEAD: usize = 4;

/// A key and its value; `None`: removed.
pub(crate) type Item<'a> = (&'a [u8], Option<&'a [u8]>);

/// Entries of a checked block.
pub(crate) struct Items<'a> {
    rest: &'a [u8],
}

impl<'a> Items<'a> {
    pub fn new(block: &'a [u8]) -> Items<'a> {
        Items { rest: block }
    }
}

impl<'a> Iterator for Items<'a> {
    type Item = Result<Item<'a>>;
    fn next(&mut self) -> Option<Result<Item<'a>>> {
        if self.rest.is_empty() {
            return None;
        }
        let mut r = Reader::new(self.rest);
        let item = (|| -> Result<Item<'a>, ashlar_format::Error> {
            let (k, v) = (r.u16()?, r.u16()?);
            let key = r.raw(usize::from(k))?;
            let value = if v == REMOVED { None } else { Some(r.raw(usize::from(v))?) };
            Ok((key, value))
        })();
        self.rest = if item.is_ok() { r.rest() } else { &[] };
        Some(item.map_err(Error::from))
    }
}

/// A block whose entries can be found by their number.
#[derive(Default)]
pub(crate) struct Block {
    bytes: Vec<u8>,
    /// Where each entry begins.
    starts: Vec<u32>,
}

impl Block {
    /// # Errors
    /// [`Error::Malformed`] if the bytes are not entries.
    pub fn new(bytes: Vec<u8>) -> Result<Block> {
        let (mut starts, mut at) = (Vec::with_capacity(bytes.len() / 128), 0);
        for item in Items::new(&bytes) {
            let (key, value) = item?;
            starts.push(at as u32);
            at += HEAD + key.len() + value.map_or(0, <[u8]>::len);
        }
        Ok(Block { bytes, starts })
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        self.starts.len()
    }

    /// Entry `i`; `None`: there are not so many.
    pub fn item(&self, i: usize) -> Option<Item<'_>> {
        let entry = &self.bytes[*self.starts.get(i)? as usize..];
        let (lengths, rest) = entry.split_at(HEAD);
        let length = |at: usize| u16::from_le_bytes([lengths[at], lengths[at + 1]]);
        let (key, rest) = rest.split_at(usize::from(length(0)));
        Some((key, (length(2) != REMOVED).then(|| &rest[..usize::from(length(2))])))
    }

    /// The number of the first entry at or after `key`.
    pub fn first_at(&self, key: &[u8]) -> usize {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = usize::midpoint(low, high);
            match self.item(middle) {
                Some((k, _)) if k < key => low = middle + 1,
                _ => high = middle,
            }
        }
        low
    }

    /// Bytes of memory, about.
    fn size(&self) -> usize {
        self.bytes.capacity() + self.starts.capacity() * 4 + 64
    }
}

/// The number of an opened index file in this process, and the number of the block.
type Name = (u64, u32);

/// Blocks in two generations. One that is used again moves to the young generation; when that is full, it becomes
/// the old one, and the old one is dropped.
pub(crate) struct BlockCache {
    /// Bytes of both generations together.
    limit: usize,
    generations: Mutex<Generations>,
}

#[derive(Default)]
struct Generations {
    young: HashMap<Name, Arc<Block>>,
    old: HashMap<Name, Arc<Block>>,
    young_bytes: usize,
}

impl BlockCache {
    /// A cache of at most `limit` bytes.
    pub fn new(limit: usize) -> BlockCache {
        BlockCache { limit, generations: Mutex::default() }
    }

    pub fn get(&self, name: Name) -> Option<Arc<Block>> {
        let mut both = self.generations.lock();
        if let Some(block) = both.young.get(&name) {
            return Some(block.clone());
        }
        let block = both.old.remove(&name)?;
        self.keep(&mut both, name, block.clone());
        Some(block)
    }

    pub fn insert(&self, name: Name, block: Arc<Block>) {
        self.keep(&mut self.generations.lock(), name, block);
    }

    fn keep(&self, both: &mut Generations, name: Name, block: Arc<Block>) {
        let size = block.size();
        if both.young_bytes + size > self.limit / 2 {
            both.old = std::mem::take(&mut both.young);
            both.young_bytes = 0;
        }
        if size <= self.limit / 2 && both.young.insert(name, block).is_none() {
            both.young_bytes += size;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(keys: &[&[u8]]) -> Block {
        let mut bytes = Vec::new();
        for key in keys {
            bytes.extend_from_slice(&(key.len() as u16).to_le_bytes());
            let value = if key.len() == 1 { REMOVED } else { 2 };
            bytes.extend_from_slice(&value.to_le_bytes());
            bytes.extend_from_slice(key);
            bytes.extend_from_slice(if value == 2 { b"vv" } else { b"" });
        }
        Block::new(bytes).unwrap()
    }

    #[test]
    fn entries_are_found_by_number_and_key() {
        let b = block(&[b"b", b"dd", b"ffff"]);
        assert_eq!((b.len(), b.item(0), b.item(3)), (3, Some((b"b".as_slice(), None)), None));
        assert_eq!(b.item(2), Some((b"ffff".as_slice(), Some(b"vv".as_slice()))));
        let found: Vec<usize> = [b"a", b"b", b"c", b"d", b"e", b"f", b"g"].map(|k| b.first_at(k)).to_vec();
        assert_eq!(found, [0, 0, 1, 1, 2, 2, 3]);
        assert_eq!(Block::default().first_at(b"a"), 0);
        assert!(Block::new(vec![9, 0, 1, 0, 1]).is_err(), "shorter than its key");
    }

    #[test]
    fn cache_is_bounded_and_keeps_what_is_used() {
        let size = block(&[b"dd"]).size();
        let cache = BlockCache::new(size * 8);
        for i in 0..100 {
            cache.insert((1, i), Arc::new(block(&[b"dd"])));
            assert!(cache.get((1, 0)).is_some(), "used all the time, after {i}");
            let both = cache.generations.lock();
            assert!(both.young.len() + both.old.len() <= 8, "after {i}");
        }
        assert!(cache.get((1, 99)).is_some() && cache.get((1, 50)).is_none() && cache.get((2, 0)).is_none());
    }
}
