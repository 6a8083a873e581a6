//! The usage of buckets, and their limits.
//!
//! Every bucket is counted: once from the index after the start (`count`); from then on every change adds its
//! difference (`tally`). Counts are not stored: after a crash they come from the records. Cost: a change is
//! added to and removed from one small table of its bucket, without I/O. Parts of open uploads count against
//! a limit too (`part_usage`) and are not in [`Usage`], which counts versions.
//!
//! Invariants: the bytes that a body may add are reserved before its first byte, so that concurrent bodies
//! together never exceed the limit; until a bucket with a limit has been counted once, nothing is added to
//! it. A count is exact while changes continue: keys of which a scan cannot be sure are read again
//! separately. A rename is counted when its keys are freed, by whichever operation frees them.
//!
//! Where several nodes have the buckets, a ledger counts the changes of this node, and what is shown are those together
//! with the rest, which others counted (`usage_parts`). A limit is kept by shares (`shares`): a ledger of a limited bucket
//! then has a [`NodeShare`], and room is reserved from that.
//!
//! Must not depend on: who sets limits.

use ashlar_environment::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

use ashlar_commit::quota_share::{Began, NodeNumber};
use ashlar_format::BucketId;
use parking_lot::{Mutex, RwLock};

use crate::bucket::Bucket;
use crate::node_share::NodeShare;
use crate::part_usage::PartUsage;
use crate::tally::{self, Share};
pub use crate::tally::{COUNT_BOUNDS, NUMBERS, Numbers, SIZE_BOUNDS, Usage};
use crate::usage_numbers::RestOfUsage;
use crate::{Error, Result};

/// The document of a bucket that contains its limit, in bytes as decimal digits.
pub const QUOTA: &str = "quota";

/// No limit.
const NONE: u64 = u64::MAX;

/// The state of the count of a bucket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    /// The usage. Before the first count ends: what it has found so far.
    pub usage: Usage,
    /// Whether a first count has ended. False after a start until the bucket has been scanned.
    pub complete: bool,
    /// Keys with a change of unknown outcome, or that have to be read again.
    pub unsettled: u64,
    /// Time of the last count, in milliseconds since 1970; 0: none. Later changes are added.
    pub counted_ms: i64,
}

/// The counts of one bucket.
pub(crate) struct Ledger {
    pub tally: Mutex<tally::BucketTally>,
    /// Bytes; [`NONE`]: no limit.
    limit: AtomicU64,
    /// Allows one scan at a time.
    pub scan_lock: tokio::sync::Mutex<()>,
    /// This node's share of the limit, where there are others.
    share: Mutex<Option<NodeShare>>,
    /// One asks for a larger share at a time.
    pub asking: tokio::sync::Mutex<()>,
    /// One settles at a time.
    pub settling: tokio::sync::Mutex<()>,
    /// Counts changes of all ledgers, where there are other nodes.
    changes: Option<Arc<AtomicU64>>,
    /// What is in the bucket besides the changes of this node.
    pub rest: Mutex<Option<RestOfUsage>>,
}

impl Ledger {
    /// `changes`: there are other nodes.
    fn new(changes: Option<Arc<AtomicU64>>) -> Ledger {
        let tally = match &changes {
            Some(_) => tally::BucketTally::of_own_changes(),
            None => tally::BucketTally::default(),
        };
        Ledger {
            tally: Mutex::new(tally),
            changes,
            rest: Mutex::default(),
            limit: AtomicU64::new(NONE),
            scan_lock: tokio::sync::Mutex::default(),
            share: Mutex::default(),
            asking: tokio::sync::Mutex::default(),
            settling: tokio::sync::Mutex::default(),
        }
    }
}

impl Ledger {
    /// Notes that the tally, which is locked, changed.
    pub fn touch(&self, tally: &mut tally::BucketTally) {
        if let Some(changes) = &self.changes {
            tally.touched = changes.fetch_add(1, Relaxed);
        }
    }

    /// The limit in bytes.
    pub fn limit(&self) -> Option<u64> {
        Some(self.limit.load(Relaxed)).filter(|l| *l != NONE)
    }

    /// The limit is kept together with other nodes.
    pub fn is_shared(&self) -> bool {
        self.share.lock().is_some()
    }

    /// Whether this process is to count the bucket: its count is not reliable, or there is none and it needs one. With other
    /// nodes it needs one for a limit: what its process before had of it comes back by a count.
    pub fn wants_scan(&self) -> bool {
        let shared = self.is_shared();
        let tally = self.tally.lock();
        tally.wants_scan() || (shared && tally.counted_ms() == 0)
    }

    /// Does something with the share, if there is one.
    pub fn with<R>(&self, f: impl FnOnce(&mut NodeShare) -> R) -> Option<R> {
        self.share.lock().as_mut().map(f)
    }

    /// A change begins. To be kept until it has landed.
    fn began(&self) -> Option<Began> {
        self.with(|h| h.holder.began())
    }

    /// A change took effect, with this difference in bytes. Without `began` there was no share when it began.
    fn landed(&self, difference: i64, began: Option<Began>) {
        if self.limit().is_some() {
            self.with(|h| match began {
                Some(began) => h.holder.landed(difference, began),
                None => h.holder.landed(difference.max(0), h.holder.began()),
            });
        }
    }

    /// Whether a change took effect that would add so many bytes is not known.
    fn lost(&self, bytes: u64) {
        if bytes > 0 {
            self.with(|h| h.lost(bytes));
        }
    }
}

/// Ledgers with the buckets that they are of.
pub(crate) type Ledgers = Vec<(BucketId, Arc<Ledger>)>;

/// All buckets.
#[derive(Default)]
pub(crate) struct UsageTable {
    /// Number of buckets with a limit; most bodies check only this.
    limited: AtomicUsize,
    buckets: RwLock<HashMap<BucketId, Arc<Ledger>>>,
    /// Parts of open uploads, which also count against limits.
    pub parts: PartUsage,
    /// The number of this node, where limits are kept together with others.
    share_node: Option<NodeNumber>,
    /// Counts changes of buckets, where there are other nodes.
    changes: Option<Arc<AtomicU64>>,
}

/// Bytes reserved in a bucket for a body under way; given back when dropped.
#[derive(Default)]
pub(crate) struct Reservation(Option<Reserved>);

struct Reserved {
    ledger: Arc<Ledger>,
    bytes: u64,
    /// Of a share: the life that it was reserved in.
    life: Option<u64>,
}

impl Reservation {
    /// Whether what was reserved may still be used: its share could have been taken back meanwhile.
    pub fn check(&self) -> Result<()> {
        let Some(Reserved { ledger, life: Some(life), .. }) = &self.0 else { return Ok(()) };
        match ledger.with(|h| h.holder.life() == *life && !h.is_expired()) {
            Some(false) => Err(Error::Busy),
            _ => Ok(()),
        }
    }

    /// Whether the bytes are there is not known.
    pub fn lost(&self) {
        if let Some(Reserved { ledger, bytes, life: Some(_) }) = &self.0 {
            ledger.lost(*bytes);
        }
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        match self.0.take() {
            Some(Reserved { ledger, bytes, life: Some(life) }) => {
                ledger.with(|h| h.holder.release(life, bytes));
            }
            Some(Reserved { ledger, bytes, life: None }) => {
                let mut tally = ledger.tally.lock();
                tally.reserved = tally.reserved.saturating_sub(bytes);
            }
            None => {}
        }
    }
}

/// A change of a key under way. If it is dropped before its end, its outcome is unknown if it proposed
/// anything.
pub(crate) struct CountedChange<'a> {
    ledger: Arc<Ledger>,
    key: &'a [u8],
    hash: u64,
    proposed: Option<(Share, Share)>,
    began: Option<Began>,
    ended: bool,
}

impl CountedChange<'_> {
    /// It reads the key again: its earlier proposal did not take effect.
    pub fn retry(&mut self) {
        self.proposed = None;
    }

    /// It proposes `new` in the place of `old`.
    pub fn propose(&mut self, old: Share, new: Share) {
        self.proposed = Some((old, new));
    }

    /// Its last proposal took effect; without a proposal, it changed nothing.
    pub fn commit(mut self) {
        self.ended = true;
        let mut tally = self.ledger.tally.lock();
        match &self.proposed {
            Some((old, new)) => {
                tally.committed(self.hash, self.key, old, new);
                self.ledger.touch(&mut tally);
                drop(tally);
                self.ledger.landed(grown(old, new), self.began);
            }
            None => tally.nothing(self.hash),
        }
    }
}

/// How much larger one is than the other.
fn grown(old: &Share, new: &Share) -> i64 {
    let wide = |share: &Share| i64::try_from(share.bytes()).unwrap_or(i64::MAX);
    wide(new).saturating_sub(wide(old))
}

impl Drop for CountedChange<'_> {
    fn drop(&mut self) {
        if self.ended {
            return;
        }
        let mut tally = self.ledger.tally.lock();
        match &self.proposed {
            Some((old, new)) => {
                tally.lost(self.hash, self.key, old);
                self.ledger.touch(&mut tally);
                drop(tally);
                self.ledger.lost(u64::try_from(grown(old, new)).unwrap_or(0));
            }
            None => tally.nothing(self.hash),
        }
    }
}

impl UsageTable {
    /// Of a node that keeps limits together with others, or of one that is alone.
    pub fn new(share_node: Option<NodeNumber>) -> UsageTable {
        // Zero is for what never changed.
        let changes = share_node.map(|_| Arc::new(AtomicU64::new(1)));
        UsageTable { share_node, changes, ..UsageTable::default() }
    }

    /// All ledgers, and the clock of their changes; `None`: there are no other nodes.
    pub fn ledgers(&self) -> Option<(&AtomicU64, Ledgers)> {
        let changes = self.changes.as_deref()?;
        let all = self.buckets.read().iter().map(|(id, ledger)| (*id, ledger.clone())).collect();
        Some((changes, all))
    }

    /// The number of this node, where limits are kept together with others.
    pub fn share_node(&self) -> Option<NodeNumber> {
        self.share_node
    }

    /// Buckets with a limit that is kept together with others.
    pub fn shared_buckets(&self) -> Vec<BucketId> {
        self.buckets.read().iter().filter(|(_, l)| l.is_shared()).map(|(id, _)| *id).collect()
    }

    /// A change of a part register begins: for [`UsageTable::note_part`].
    pub fn begin_part(&self, bucket: BucketId) -> Option<Began> {
        self.share_node.and_then(|_| self.of(bucket).began())
    }

    /// A part register changed its size.
    pub fn note_part(&self, bucket: BucketId, key: &[u8], difference: i64, began: Option<Began>) {
        self.parts.note(bucket, key, difference);
        if self.share_node.is_some() {
            self.of(bucket).landed(difference, began);
        }
    }

    /// The counts of a bucket.
    pub fn of(&self, bucket: BucketId) -> Arc<Ledger> {
        if let Some(ledger) = self.buckets.read().get(&bucket) {
            return ledger.clone();
        }
        let new = || Arc::new(Ledger::new(self.changes.clone()));
        self.buckets.write().entry(bucket).or_insert_with(new).clone()
    }

    /// Sets or removes the limit of a bucket.
    pub fn limit(&self, bucket: BucketId, limit: Option<u64>) -> Result<()> {
        self.parts.follow(bucket, limit.is_some());
        let ledger = self.of(bucket);
        if let (Some(node), Some(_)) = (self.share_node, limit) {
            let mut share = ledger.share.lock();
            if share.is_none() {
                *share = Some(NodeShare::new(node)?);
            }
        }
        let had = ledger.limit.swap(limit.unwrap_or(NONE), Relaxed);
        match (had == NONE, limit.is_none()) {
            (true, false) => self.limited.fetch_add(1, Relaxed),
            (false, true) => self.limited.fetch_sub(1, Relaxed),
            _ => 0,
        };
        if limit.is_none() {
            *ledger.share.lock() = None;
        }
        Ok(())
    }

    /// A bucket was created: it is empty.
    pub fn bucket_created(&self, bucket: BucketId, now_ms: i64) {
        self.of(bucket).tally.lock().start_empty(now_ms);
    }

    /// The bucket is gone.
    pub fn forget(&self, bucket: BucketId) {
        // Without a limit nothing can fail.
        let _ = self.limit(bucket, None);
        self.buckets.write().remove(&bucket);
    }

    /// Reserves bytes for a body. The inner error: the share of this node is too small, ask for more.
    pub fn reserve(
        &self,
        bucket: BucketId,
        bytes: u64,
    ) -> Result<std::result::Result<Reservation, Arc<Ledger>>> {
        if self.limited.load(Relaxed) == 0 {
            return Ok(Ok(Reservation::default()));
        }
        let ledger = self.of(bucket);
        let Some(limit) = ledger.limit() else { return Ok(Ok(Reservation::default())) };
        if self.share_node.is_some() {
            let life = ledger.with(|h| h.reserve(bytes).then(|| h.holder.life()));
            return Ok(match life {
                // The limit is being set or lifted at this moment.
                None => return Err(Error::Busy),
                Some(None) => Err(ledger),
                Some(life) => Ok(Reservation(Some(Reserved { ledger, bytes, life }))),
            });
        }
        let mut tally = ledger.tally.lock();
        let (Some(used), Some(parts)) = (tally.bytes(), self.parts.bytes(bucket)) else {
            return Err(Error::Busy);
        };
        let used = used.saturating_add(parts);
        if used.saturating_add(tally.reserved).saturating_add(bytes) > limit {
            return Err(Error::QuotaExceeded { used, limit });
        }
        tally.reserved += bytes;
        drop(tally);
        Ok(Ok(Reservation(Some(Reserved { ledger, bytes, life: None }))))
    }

    /// Begins a change of a key; call it before the register is read for the change.
    pub fn begin<'a>(&self, bucket: BucketId, key: &'a [u8]) -> CountedChange<'a> {
        let ledger = self.of(bucket);
        let began = self.share_node.and_then(|_| ledger.began());
        let hash = ledger.tally.lock().begin(key);
        CountedChange { ledger, key, hash, proposed: None, began, ended: false }
    }
}

/// The limit of a bucket; if it cannot be decoded, nothing may be added.
pub(crate) fn limit_of(bucket: &Bucket) -> Option<u64> {
    bucket.documents.get(QUOTA).map(|text| text.parse().unwrap_or(0))
}
