//! Decoded records, by key and ballot.
//!
//! A cache only saves decoding: whether a record is current is always asked of the drives, and an
//! entry is used only when its ballot and digest are the ones they show. Invariant: the weights of
//! all entries stay below the bound given. Eviction: CLOCK (one bit of use per entry), per shard.

use crate::keylock::HashKeyed;
use ashlar_format::{Ballot, Record, RegisterKey};
use parking_lot::Mutex;
use std::sync::Arc;

const SHARDS: usize = 16;
/// What an entry costs beside its record, in bytes.
const OVERHEAD: usize = 256;

/// A bounded cache of decoded records.
pub(crate) struct RecordCache {
    shards: [Mutex<Shard>; SHARDS],
    /// Bytes per shard.
    bound: usize,
}

#[derive(Default)]
struct Shard {
    by_hash: HashKeyed<u32>,
    entries: Vec<Option<Entry>>,
    free: Vec<u32>,
    hand: usize,
    weight: usize,
}

struct Entry {
    hash: u64,
    key: RegisterKey,
    ballot: Ballot,
    digest: u64,
    record: Arc<Record>,
    weight: usize,
    used: bool,
}

impl RecordCache {
    /// A cache of at most `bytes`.
    pub(crate) fn new(bytes: usize) -> RecordCache {
        RecordCache { shards: std::array::from_fn(|_| Mutex::default()), bound: bytes / SHARDS }
    }

    fn shard(&self, hash: u64) -> &Mutex<Shard> {
        &self.shards[(hash >> 48) as usize % SHARDS]
    }

    /// What is cached for the key: ballot, digest of the stored bytes, record.
    pub(crate) fn get(&self, hash: u64, key: &RegisterKey) -> Option<(Ballot, u64, Arc<Record>)> {
        let mut shard = self.shard(hash).lock();
        let at = *shard.by_hash.get(&hash)?;
        let e = shard.entries[at as usize].as_mut()?;
        if e.key != *key {
            return None;
        }
        e.used = true;
        Some((e.ballot, e.digest, e.record.clone()))
    }

    /// Keeps a record of `len` encoded bytes. An older ballot never replaces a newer one.
    pub(crate) fn put(
        &self,
        hash: u64,
        key: &RegisterKey,
        ballot: Ballot,
        digest: u64,
        record: &Arc<Record>,
        len: usize,
    ) {
        let weight = OVERHEAD + key.as_bytes().len() + 2 * len;
        if weight > self.bound {
            return;
        }
        let mut guard = self.shard(hash).lock();
        let shard = &mut *guard;
        if let Some(&at) = shard.by_hash.get(&hash) {
            if let Some(e) = shard.entries[at as usize].as_mut()
                && e.key == *key
            {
                if ballot >= e.ballot {
                    shard.weight = shard.weight - e.weight + weight;
                    e.ballot = ballot;
                    e.digest = digest;
                    e.record = record.clone();
                    e.weight = weight;
                }
                return;
            }
            shard.remove(at);
        }
        while shard.weight + weight > self.bound {
            shard.evict();
        }
        let key = key.clone();
        let entry =
            Entry { hash, key, ballot, digest, record: record.clone(), weight, used: false };
        let at = match shard.free.pop() {
            Some(at) => {
                shard.entries[at as usize] = Some(entry);
                at
            }
            None => {
                shard.entries.push(Some(entry));
                (shard.entries.len() - 1) as u32
            }
        };
        shard.by_hash.insert(hash, at);
        shard.weight += weight;
    }

    /// Forgets a key.
    pub(crate) fn forget(&self, hash: u64) {
        let mut shard = self.shard(hash).lock();
        if let Some(&at) = shard.by_hash.get(&hash) {
            shard.remove(at);
        }
    }
}

impl Shard {
    fn remove(&mut self, at: u32) {
        if let Some(e) = self.entries[at as usize].take() {
            self.by_hash.remove(&e.hash);
            self.weight -= e.weight;
            self.free.push(at);
        }
    }

    /// Removes one entry that was not used since the hand last passed. Called only when there is
    /// weight, so there is an entry.
    fn evict(&mut self) {
        loop {
            self.hand = (self.hand + 1) % self.entries.len();
            match &mut self.entries[self.hand] {
                None => {}
                Some(e) if e.used => e.used = false,
                Some(_) => {
                    let at = self.hand as u32;
                    self.remove(at);
                    return;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ashlar_format::{Body, BucketId, Space};

    #[test]
    fn stays_within_its_bound_and_keeps_what_is_used() {
        let c = RecordCache::new(SHARDS * 100 * 1000);
        let record = Arc::new(Record { seq: 1, parent: 0, body: Body::Tombstone });
        let key = |i: u64| RegisterKey::new(0, Space::Object, BucketId::ZERO, &i.to_be_bytes());
        let hash = |i: u64| ashlar_checksum::key_hash(&i.to_be_bytes());
        let b = |c| Ballot { counter: c, ..Ballot::ZERO };
        for i in 0..10_000 {
            c.put(hash(i), &key(i), b(i), i, &record, 300);
            assert!(c.get(hash(7), &key(7)).is_some() || i < 7, "7 is in use");
        }
        for s in &c.shards {
            let s = s.lock();
            assert!(s.weight <= c.bound);
            assert_eq!(s.weight, s.entries.iter().flatten().map(|e| e.weight).sum::<usize>());
            assert_eq!(s.by_hash.len(), s.entries.iter().flatten().count());
        }
        assert!(c.get(hash(9_999), &key(9_999)).is_some());
        assert!(c.get(hash(7), &key(8)).is_none(), "a colliding hash is another key");
        c.put(hash(7), &key(7), b(3), 99, &record, 300);
        assert_eq!(c.get(hash(7), &key(7)).unwrap().1, 7, "an older ballot does not replace");
        c.forget(hash(7));
        assert!(c.get(hash(7), &key(7)).is_none());
    }
}
