//! Decoded records, by key and ballot.
//!
//! Usually the cache only saves decoding: the drives are asked which record is current, and an entry is used
//! if its ballot is the one they show.
//!
//! If this process is the only coordinator of its drives ([`crate::Options::sole`]), an entry may also be
//! *current*: known to be the chosen state, because every change of a register goes through this process.
//! Then a read needs no drive. Invariants of this mode: an update removes the mark before its first ACCEPT,
//! and only a decided update restores it. A read sets the mark only if no update of the key (or of one with
//! the same counter) was under way or began since before the read asked the drives ([`Watch`]). Every change
//! of the drives removes all marks.
//!
//! With a record that this process wrote, the bytes that the drives store are kept for a while, so that the
//! next update of the register need not read them ([`Sent`]).
//!
//! Invariants: the weights of all entries stay below the given bound. Eviction: CLOCK (one bit of use per
//! entry), per shard. The bytes of records stay below an eighth of it; the oldest go first.
//!
//! Must not depend on: how a register is read or changed.

use crate::keylock::HashKeyed;
use ashlar_drive::Known;
use ashlar_format::{Ballot, Record, RegisterKey};
use bytes::Bytes;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Number of counters of updates; keys share them by their hash.
const WATCHES: usize = 4096;
/// Low bits of a counter: updates under way; high bits: updates begun.
const UNDER_WAY: u64 = 0xffff;

/// The counter of updates as a reader saw it before it asked the drives.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Watch(u64);

const SHARDS: usize = 16;
/// Bytes of an entry in addition to its record.
const OVERHEAD: usize = 256;

/// A bounded cache of decoded records.
pub(crate) struct RecordCache {
    shards: [Mutex<Shard>; SHARDS],
    /// Bytes per shard.
    bound: usize,
    watches: Box<[AtomicU64]>,
}

/// An update of a key is under way until this guard is dropped.
pub(crate) struct Updating<'a> {
    counter: &'a AtomicU64,
}

impl Drop for Updating<'_> {
    fn drop(&mut self) {
        self.counter.fetch_sub(1, Ordering::SeqCst);
    }
}

/// What an update of this process sent to the drives.
#[derive(Clone)]
pub(crate) struct Sent {
    /// The stored bytes.
    pub(crate) bytes: Bytes,
    pub(crate) summary: Bytes,
}

#[derive(Default)]
struct Shard {
    by_hash: HashKeyed<u32>,
    entries: Vec<Option<Entry>>,
    free: Vec<u32>,
    hand: usize,
    weight: usize,
    /// Entries to which [`Sent`] was added, oldest first, with its size; and the sum of the sizes.
    sent: VecDeque<(u64, Ballot, usize)>,
    sent_bytes: usize,
}

struct Entry {
    hash: u64,
    key: RegisterKey,
    ballot: Ballot,
    digest: u64,
    record: Arc<Record>,
    sent: Option<Sent>,
    weight: usize,
    used: bool,
    /// Whether it is known to be the chosen state.
    current: bool,
}

impl RecordCache {
    /// A cache of at most `bytes`.
    pub(crate) fn new(bytes: usize) -> RecordCache {
        RecordCache {
            shards: std::array::from_fn(|_| Mutex::default()),
            bound: bytes / SHARDS,
            watches: (0..WATCHES).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    fn counter(&self, hash: u64) -> &AtomicU64 {
        &self.watches[(hash >> 20) as usize % WATCHES]
    }

    /// Called before a read asks the drives.
    pub(crate) fn watch(&self, hash: u64) -> Watch {
        Watch(self.counter(hash).load(Ordering::SeqCst))
    }

    /// Called before an update sends its first ACCEPT: the cached record is no longer current.
    pub(crate) fn updating(&self, hash: u64) -> Updating<'_> {
        let counter = self.counter(hash);
        counter.fetch_add(UNDER_WAY + 2, Ordering::SeqCst);
        let mut shard = self.shard(hash).lock();
        if let Some(&at) = shard.by_hash.get(&hash)
            && let Some(e) = shard.entries[at as usize].as_mut()
        {
            e.current = false;
        }
        Updating { counter }
    }

    /// Removes all marks: no entry is current any more.
    pub(crate) fn invalidate_all(&self) {
        for c in &self.watches {
            c.fetch_add(UNDER_WAY + 1, Ordering::SeqCst);
        }
        for s in &self.shards {
            for e in s.lock().entries.iter_mut().flatten() {
                e.current = false;
            }
        }
    }

    /// Marks the entry of the key current if its ballot is `ballot` and no update of the key has begun since
    /// `watch`.
    pub(crate) fn confirm(&self, hash: u64, key: &RegisterKey, ballot: Ballot, watch: Watch) {
        if watch.0 & UNDER_WAY != 0 {
            return;
        }
        self.mark(hash, key, ballot, |counter| counter.load(Ordering::SeqCst) == watch.0);
    }

    /// Called at the end of an update that was decided: marks its record current if no other update is under
    /// way.
    pub(crate) fn decided(&self, hash: u64, key: &RegisterKey, ballot: Ballot) {
        self.mark(hash, key, ballot, |c| c.load(Ordering::SeqCst) & UNDER_WAY == 1);
    }

    fn mark(&self, hash: u64, key: &RegisterKey, ballot: Ballot, sure: impl FnOnce(&AtomicU64) -> bool) {
        let mut shard = self.shard(hash).lock();
        if let Some(&at) = shard.by_hash.get(&hash)
            && let Some(e) = shard.entries[at as usize].as_mut()
            && e.key == *key
            && e.ballot == ballot
            // Checked under the lock under which an update removes the mark.
            && sure(self.counter(hash))
        {
            e.current = true;
        }
    }

    /// The entry of the key if it is current.
    pub(crate) fn current(&self, hash: u64, key: &RegisterKey) -> Option<(Ballot, u64, Arc<Record>)> {
        let mut shard = self.shard(hash).lock();
        let at = *shard.by_hash.get(&hash)?;
        let e = shard.entries[at as usize].as_mut()?;
        if !e.current || e.key != *key {
            return None;
        }
        e.used = true;
        Some((e.ballot, e.digest, e.record.clone()))
    }

    fn shard(&self, hash: u64) -> &Mutex<Shard> {
        &self.shards[(hash >> 48) as usize % SHARDS]
    }

    /// The cached entry of the key: ballot, digest of the stored bytes, record.
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

    /// What the drives store of the cached record, and its summary, if they are kept.
    pub(crate) fn sent(&self, hash: u64, key: &RegisterKey) -> Option<(Known, Bytes)> {
        let shard = self.shard(hash).lock();
        let e = shard.entries[*shard.by_hash.get(&hash)? as usize].as_ref()?;
        let Sent { bytes, summary } = e.sent.as_ref().filter(|_| e.key == *key)?;
        let known = Known { ballot: e.ballot, digest: e.digest, record: bytes.clone() };
        Some((known, summary.clone()))
    }

    /// Adds to the record of this ballot what was sent to the drives.
    pub(crate) fn keep(&self, hash: u64, key: &RegisterKey, ballot: Ballot, sent: Sent) {
        let size = sent.bytes.len() + sent.summary.len() + OVERHEAD;
        let bound = self.bound / 8;
        let mut guard = self.shard(hash).lock();
        let shard = &mut *guard;
        if let Some(&at) = shard.by_hash.get(&hash)
            && let Some(e) = shard.entries[at as usize].as_mut()
            && e.key == *key
            && e.ballot == ballot
            && size <= bound
        {
            e.sent = Some(sent);
            shard.sent.push_back((hash, ballot, size));
            shard.sent_bytes += size;
        }
        while shard.sent_bytes > bound {
            shard.drop_sent();
        }
    }

    /// Adds a record of `len` encoded bytes. An older ballot never replaces a newer one.
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
                    if (ballot, digest) != (e.ballot, e.digest) {
                        e.sent = None;
                    }
                    e.current &= ballot == e.ballot;
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
        let (record, sent) = (record.clone(), None);
        let entry = Entry { hash, key, ballot, digest, record, sent, weight, used: false, current: false };
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

    /// Removes a key.
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

    /// Drops the oldest bytes that are kept.
    fn drop_sent(&mut self) {
        let Some((hash, ballot, size)) = self.sent.pop_front() else { return };
        self.sent_bytes -= size;
        if let Some(&at) = self.by_hash.get(&hash)
            && let Some(e) = self.entries[at as usize].as_mut()
            && e.ballot == ballot
        {
            e.sent = None;
        }
    }

    /// Removes one entry that was not used since the clock hand last passed it. Called only if the weight is
    /// not zero, so there is an entry.
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
    use ashlar_format::{Body, BucketId, GroupId, Space};

    #[test]
    fn entries_are_current_without_updates() {
        let c = RecordCache::new(1 << 20);
        let record = Arc::new(Record { seq: 1, parent: 0, nonce: 0, body: Body::Tombstone });
        let key = RegisterKey::new(GroupId::default(), Space::Object, BucketId::ZERO, b"k");
        let b = |c| Ballot { counter: c, ..Ballot::ZERO };
        let put = |n| c.put(9, &key, b(n), n, &record, 10);
        let is = |n: u64| c.current(9, &key).is_some_and(|e| e.0 == b(n));
        // A read without a concurrent update.
        let quiet = c.watch(9);
        put(1);
        assert!(!is(1));
        c.confirm(9, &key, b(1), quiet);
        assert!(is(1));
        // An update removes the mark, and sets it when it is decided.
        let update = c.updating(9);
        assert!(!is(1));
        c.confirm(9, &key, b(1), quiet);
        assert!(!is(1), "a read that began before the update");
        let during = c.watch(9);
        put(2);
        c.decided(9, &key, b(2));
        drop(update);
        assert!(is(2));
        c.forget(9);
        put(1);
        c.confirm(9, &key, b(1), during);
        c.confirm(9, &key, b(1), quiet);
        assert!(!is(1), "an old read after eviction");
        // Undecided: nothing is current until a later read.
        drop(c.updating(9));
        assert!(!is(1));
        let later = c.watch(9);
        c.confirm(9, &key, b(1), later);
        assert!(is(1));
        let old = c.watch(9);
        c.invalidate_all();
        assert!(!is(1));
        c.confirm(9, &key, b(1), old);
        assert!(!is(1));
    }

    #[test]
    fn what_was_sent_belongs_to_one_record_and_is_bounded() {
        let bound = 64 << 10;
        let c = RecordCache::new(SHARDS * bound);
        let record = Arc::new(Record { seq: 1, parent: 0, nonce: 0, body: Body::Tombstone });
        let key =
            |i: u64| RegisterKey::new(GroupId::default(), Space::Object, BucketId::ZERO, &i.to_be_bytes());
        let b = |c| Ballot { counter: c, ..Ballot::ZERO };
        let sent = || Sent { bytes: Bytes::from(vec![5; 500]), summary: Bytes::from_static(b"s") };
        c.keep(1, &key(1), b(1), sent());
        assert!(c.sent(1, &key(1)).is_none(), "there is no such record");
        c.put(1, &key(1), b(1), 7, &record, 500);
        c.keep(1, &key(1), b(2), sent());
        assert!(c.sent(1, &key(1)).is_none(), "it is of another ballot");
        c.keep(1, &key(1), b(1), sent());
        let (known, summary) = c.sent(1, &key(1)).unwrap();
        assert_eq!((known.ballot, known.digest, known.record.len(), &summary[..]), (b(1), 7, 500, &b"s"[..]));
        assert!(c.sent(1, &key(2)).is_none(), "a colliding hash is another key");
        c.put(1, &key(1), b(1), 7, &record, 500);
        assert!(c.sent(1, &key(1)).is_some(), "the same record was read");
        c.put(1, &key(1), b(2), 8, &record, 500);
        assert!(c.sent(1, &key(1)).is_none(), "the record has changed");
        for i in 0..1000 {
            c.put(2, &key(2), b(i), i, &record, 500);
            c.keep(2, &key(2), b(i), sent());
        }
        c.put(3, &key(3), b(1), 7, &record, 500);
        c.keep(3, &key(3), b(1), Sent { bytes: Bytes::from(vec![0; bound / 8 + 1]), ..sent() });
        assert!(c.sent(2, &key(2)).is_some() && c.sent(3, &key(3)).is_none(), "too large to keep");
        for i in 10..1000 {
            c.put(i, &key(i), b(1), i, &record, 10);
            c.keep(i, &key(i), b(1), sent());
            assert!(c.sent(i, &key(i)).is_some());
        }
        let shard = c.shard(0).lock();
        let kept = shard.entries.iter().flatten().filter(|e| e.sent.is_some()).count();
        assert!(shard.sent_bytes <= bound / 8 && kept <= shard.sent.len() && kept > 5, "{kept}");
        assert_eq!(shard.sent_bytes, shard.sent.iter().map(|(_, _, size)| size).sum::<usize>());
    }

    #[test]
    fn cache_stays_within_bound_and_keeps_used_entries() {
        let c = RecordCache::new(SHARDS * 100 * 1000);
        let record = Arc::new(Record { seq: 1, parent: 0, nonce: 0, body: Body::Tombstone });
        let key =
            |i: u64| RegisterKey::new(GroupId::default(), Space::Object, BucketId::ZERO, &i.to_be_bytes());
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
