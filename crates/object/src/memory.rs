//! Registers and data in memory: for tests of API layers, and for tests of this crate that must control every
//! interleaving.
//!
//! It provides the guarantees of `erasure-set`, checks those of its callers, and panics if one is broken:
//! data that a record names exists, and is never dropped while a record names it. Each operation yields once,
//! so that a test can choose what runs next; a budget of operations makes all later ones fail, which looks
//! like a crash to the callers.
//!
//! Must not depend on: what records mean.

use ashlar_environment::HashMap;
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::task::Poll;

use ashlar_checksum::key_hash;
use ashlar_cluster::{Control, Embedded, Medium, MemoryMedium};
use ashlar_commit::bucket_fence::{Deletion, Grant, SetFence, admits, lifts, set};
use ashlar_format::{
    Ballot, Body, BucketId, Data, DeploymentId, DriveId, GroupId, Page as VersionPage, PageRef, Record,
    RegisterKey, Space, WriteId,
};
use bytes::{Bytes, BytesMut};
use parking_lot::Mutex;

use crate::backend::{Decide, Decision, Failed, Page, Stopped};
use crate::error::control_error;
use crate::{Error, Result};

/// Placement groups, so that lists have something to merge.
const GROUPS: u64 = 4;
/// Object bytes in one piece of a read.
const PIECE: usize = 256 << 10;

#[derive(Clone, Default)]
struct State {
    registers: BTreeMap<Vec<u8>, (Arc<Record>, Bytes)>,
    data: HashMap<WriteId, Bytes>,
    fences: BTreeMap<BucketId, Deletion>,
    next: u128,
    /// Updates so far.
    ballots: u64,
}

/// What becomes of data that the old state of a register names.
enum Follows {
    /// What the new one does not name goes, unless another register names it.
    Compared { moved: bool },
    /// This goes; that is named by pages.
    Told(Vec<Data>, Vec<WriteId>),
}

impl State {
    /// What a record names, itself or by its pages.
    fn named(&self, record: &Record) -> Vec<WriteId> {
        let mut named: Vec<WriteId> = record.data().map(|p| p.data.write_id).collect();
        let mut pages: Vec<PageRef> = record.body.below().map(|b| b.root.clone()).into_iter().collect();
        while let Some(r) = pages.pop() {
            let bytes = self.data.get(&r.page.data.write_id);
            let page = bytes.map(|b| VersionPage::decode(b)).expect("a page that is named is there");
            let page = page.expect("a page is sound");
            named.extend(page.data().map(|p| p.data.write_id));
            if let VersionPage::Row(refs) = page {
                pages.extend(refs);
            }
        }
        named
    }
}

/// Registers and data in memory.
pub(crate) struct Memory {
    state: Mutex<State>,
    /// Operations that still succeed; negative: no limit.
    budget: AtomicI64,
    /// Changes until the answer of one that takes effect is lost; negative: none.
    losing: AtomicI64,
    /// Operations done.
    pub(crate) steps: AtomicU64,
    /// Whether a register that is not there shows a tombstone, as after another process has settled it.
    settled: AtomicBool,
    /// Whether every change checks that all named data exists (costs time in proportion to everything).
    pub(crate) strict: bool,
}

impl Memory {
    pub(crate) fn new(strict: bool) -> Memory {
        let none = || AtomicI64::new(-1);
        Memory {
            state: Mutex::default(),
            budget: none(),
            losing: none(),
            steps: AtomicU64::new(0),
            settled: AtomicBool::new(false),
            strict,
        }
    }

    /// From now on every register that is not there shows a tombstone.
    #[cfg(test)]
    pub(crate) fn settle(&self) {
        self.settled.store(true, Ordering::SeqCst);
    }

    /// The record of a register.
    fn record(&self, state: &State, key: &RegisterKey) -> Option<Arc<Record>> {
        let settled = || self.settled.load(Ordering::SeqCst);
        let tombstone = || Arc::new(Record { seq: 1, parent: 0, nonce: 1, body: Body::Tombstone });
        state.registers.get(key.as_bytes()).map(|(r, _)| r.clone()).or_else(|| settled().then(tombstone))
    }

    /// After `operations` more, every operation fails; negative: none fails.
    #[cfg(test)]
    pub(crate) fn limit(&self, operations: i64) {
        self.budget.store(operations, Ordering::SeqCst);
    }

    /// After `changes` more changes, the answer of one is lost.
    #[cfg(test)]
    pub(crate) fn lose(&self, changes: i64) {
        self.losing.store(changes, Ordering::SeqCst);
    }

    /// The state after a crash: a copy that tasks still running on this one cannot change.
    #[cfg(test)]
    pub(crate) fn survivor(&self) -> Memory {
        let state = self.state.lock().clone();
        Memory { state: Mutex::new(state), ..Memory::new(self.strict) }
    }

    /// Number of registers that are not tombstones, and of stored bodies.
    #[cfg(test)]
    pub(crate) fn census(&self) -> (usize, usize) {
        let s = self.state.lock();
        let live = s.registers.values().filter(|(r, _)| r.body != ashlar_format::Body::Tombstone).count();
        (live, s.data.len())
    }

    async fn step(&self) -> Result<()> {
        if self.strict {
            let mut yielded = false;
            poll_fn(|cx| {
                if std::mem::replace(&mut yielded, true) {
                    return Poll::Ready(());
                }
                cx.waker().wake_by_ref();
                Poll::Pending
            })
            .await;
        }
        self.steps.fetch_add(1, Ordering::SeqCst);
        let left = self.budget.load(Ordering::SeqCst);
        if left == 0 {
            return Err(Error::Unavailable("the test says so".to_owned()));
        }
        if left > 0 {
            self.budget.fetch_sub(1, Ordering::SeqCst);
        }
        Ok(())
    }

    pub(crate) fn group_of(&self, key: &[u8]) -> GroupId {
        GroupId::new(0, (key_hash(key) % GROUPS) as u16)
    }

    pub(crate) async fn read_register(&self, key: &RegisterKey) -> Result<Option<Arc<Record>>> {
        self.step().await?;
        Ok(self.record(&self.state.lock(), key))
    }

    pub(crate) async fn update(
        &self,
        key: &RegisterKey,
        staged: &[&MemoryStaged],
        decide: &mut Decide<'_>,
    ) -> std::result::Result<(usize, Ballot), Stopped> {
        let failed = |e| Stopped::Failed(Failed::Set(e));
        self.step().await.map_err(failed)?;
        let mut s = self.state.lock();
        s.ballots += 1;
        let ballot = Ballot { epoch: 1, counter: s.ballots, node: 1, nonce: 1 };
        let old = self.record(&s, key);
        let (body, summary, follows, out) = match decide(old.as_deref()) {
            Decision::Keep(out) => return Ok((out, ballot)),
            Decision::Refuse(e) => return Err(Stopped::Failed(Failed::Refused(e))),
            Decision::Write { body, summary, moved, out } => {
                (body, summary, Follows::Compared { moved }, out)
            }
            Decision::Rewrite { body, summary, dropped, below, out } => {
                (body, summary, Follows::Told(dropped, below), out)
            }
        };
        let fence = s.fences.get(&key.bucket()).copied().unwrap_or_default();
        let grant = match ashlar_erasure_set::fence_right(key.bucket()) {
            _ if body == Body::Tombstone => Grant::Empties,
            Some(d) => Grant::Of(d),
            None => Grant::Plain,
        };
        if !admits(fence, grant) {
            return Err(Stopped::Fenced(fence));
        }
        assert!(summary.len() <= 256, "summary of {} bytes", summary.len());
        let (seq, parent) = match &old {
            Some(r) => (r.seq + 1, Record::digest(&r.encode())),
            None => (1, 0),
        };
        let record = Record { seq, parent, nonce: 0, body };
        // What cannot be read back was never written.
        let record = Record::decode(&record.encode())
            .map_err(|e| failed(Error::Internal(format!("a record that does not survive encoding: {e}"))))?;
        let named: Vec<WriteId> = record.data().map(|p| p.data.write_id).collect();
        let by_pages = |id: &WriteId| matches!(&follows, Follows::Told(_, below) if below.contains(id));
        for staged in staged.iter().filter(|s| named.contains(&s.data.write_id) || by_pages(&s.data.write_id))
        {
            staged.named.store(true, Ordering::SeqCst);
        }
        // An upload may briefly fix a part that is just being replaced; it checks again before the key names
        // it (see `complete`).
        if self.strict && key.space() != Space::Upload as u8 {
            for id in &s.named(&record) {
                assert!(s.data.contains_key(id), "{key:?} names {id:?}, which is gone");
            }
        }
        let gone: Vec<WriteId> = match (follows, &old) {
            (Follows::Told(dropped, _), _) => dropped.iter().map(|d| d.write_id).collect(),
            (Follows::Compared { moved: true }, _) | (_, None) => Vec::new(),
            (Follows::Compared { .. }, Some(old)) => {
                let root = |r: &Record| r.body.below().map(|b| b.root.page.data.write_id);
                assert_eq!(root(old), root(&record), "a change of version pages says what it drops");
                let ids = old.data().map(|p| p.data.write_id);
                ids.filter(|id| !named.contains(id)).collect()
            }
        };
        s.registers.insert(key.as_bytes().to_vec(), (Arc::new(record), summary));
        self.drop_data(&mut s, &gone);
        if self.losing.fetch_sub(1, Ordering::SeqCst) == 0 {
            return Err(failed(Error::Unavailable("the answer is lost".to_owned())));
        }
        Ok((out, ballot))
    }

    pub(crate) async fn fence_bucket(&self, bucket: BucketId, by: Deletion) -> Result<()> {
        self.step().await?;
        let mut s = self.state.lock();
        let fence = s.fences.entry(bucket).or_default();
        match set(*fence, by) {
            SetFence::Later(_) => Err(Error::Conflict),
            SetFence::Write | SetFence::Already => {
                *fence = by;
                Ok(())
            }
        }
    }

    pub(crate) async fn lift_fences(&self, bucket: BucketId, up_to: Deletion) -> Result<()> {
        self.step().await?;
        self.state.lock().fences.retain(|b, d| *b != bucket || !lifts(*d, up_to));
        Ok(())
    }

    pub(crate) fn fences(&self) -> Vec<(BucketId, Deletion)> {
        self.state.lock().fences.iter().map(|(b, d)| (*b, *d)).collect()
    }

    fn drop_data(&self, s: &mut State, ids: &[WriteId]) {
        if self.strict {
            for (key, (r, _)) in &s.registers {
                for id in s.named(r) {
                    let key = RegisterKey::from_bytes(key);
                    assert!(!ids.contains(&id), "{id:?} is dropped although {key:?} names it");
                }
            }
        }
        for id in ids {
            s.data.remove(id);
        }
    }

    pub(crate) async fn write(self: &Arc<Memory>, _owner: &RegisterKey, size: u64) -> Result<MemoryWriter> {
        self.step().await?;
        let mut s = self.state.lock();
        s.next += 1;
        let id = WriteId(s.next.to_be_bytes());
        let data = Data { write_id: id, k: 1, m: 0, rotate: 0, stripe: 1 << 20, durable: 1, inline: true };
        let buffer = BytesMut::with_capacity(usize::try_from(size).unwrap_or(0).min(64 << 20));
        Ok(MemoryWriter { memory: self.clone(), data, buffer })
    }

    pub(crate) async fn version_page(&self, r: &PageRef) -> Result<Arc<VersionPage>> {
        self.step().await?;
        let bytes = self.state.lock().data.get(&r.page.data.write_id).cloned().ok_or(Error::Changed)?;
        VersionPage::decode(&bytes).map(Arc::new).map_err(|e| Error::Corrupt(e.to_string()))
    }

    pub(crate) async fn read(&self, data: &Data, size: u64, range: Range<u64>) -> Result<MemoryReader> {
        self.step().await?;
        let bytes = self.state.lock().data.get(&data.write_id).cloned().ok_or(Error::Changed)?;
        assert_eq!(bytes.len() as u64, size, "size of {:?}", data.write_id);
        Ok(MemoryReader { rest: bytes.slice(range.start as usize..range.end as usize) })
    }

    /// The stored bytes of a write.
    #[cfg(test)]
    pub(crate) fn bytes(&self, id: WriteId) -> Bytes {
        self.state.lock().data[&id].clone()
    }

    /// Changes stored bytes, like an attacker with access to a drive.
    #[cfg(test)]
    pub(crate) fn tamper(&self, id: WriteId, change: &dyn Fn(&mut Vec<u8>)) {
        let mut s = self.state.lock();
        let mut bytes = s.data[&id].to_vec();
        change(&mut bytes);
        s.data.insert(id, bytes.into());
    }

    pub(crate) async fn list(
        &self,
        space: Space,
        bucket: BucketId,
        prefix: &[u8],
        from: &[u8],
        (limit, delimiter): (usize, &[u8]),
    ) -> Result<Page> {
        self.step().await?;
        let s = self.state.lock();
        let mut all = BTreeMap::new();
        for group in 0..GROUPS as u16 {
            let base = RegisterKey::new(GroupId::new(0, group), space, bucket, b"");
            let mut start = base.as_bytes().to_vec();
            start.extend_from_slice(from.max(prefix));
            let mut stem = base.as_bytes().to_vec();
            stem.extend_from_slice(prefix);
            // What is left out of a folded list: the keys of this common prefix.
            let mut common: Option<&[u8]> = None;
            for (k, (_, summary)) in s.registers.range(start..).take_while(|(k, _)| k.starts_with(&stem)) {
                if !summary.is_empty() && !common.is_some_and(|common| k.starts_with(common)) {
                    let rest = &k[stem.len()..];
                    let at = rest.windows(delimiter.len().max(1)).position(|w| w == delimiter);
                    common = at.map(|at| &k[..stem.len() + at + delimiter.len()]);
                    let key = Bytes::copy_from_slice(&k[RegisterKey::PREFIX..]);
                    all.insert(key, summary.clone());
                    if all.len() > limit {
                        all.pop_last();
                    }
                }
            }
        }
        let truncated = all.len() == limit;
        Ok(Page { entries: all.into_iter().collect(), truncated })
    }

    pub(crate) fn discard(&self, data: &[Data]) {
        let ids: Vec<WriteId> = data.iter().map(|d| d.write_id).collect();
        let mut s = self.state.lock();
        self.drop_data(&mut s, &ids);
    }
}

/// Writes one body.
pub(crate) struct MemoryWriter {
    memory: Arc<Memory>,
    data: Data,
    buffer: BytesMut,
}

impl MemoryWriter {
    pub(crate) fn write(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    pub(crate) async fn finish(self) -> Result<MemoryStaged> {
        self.memory.step().await?;
        self.memory.state.lock().data.insert(self.data.write_id, self.buffer.freeze());
        Ok(MemoryStaged { memory: self.memory, data: self.data, named: AtomicBool::new(false) })
    }
}

/// A body that no record names yet; dropped with this value unless one does.
pub(crate) struct MemoryStaged {
    memory: Arc<Memory>,
    pub(crate) data: Data,
    named: AtomicBool,
}

impl Drop for MemoryStaged {
    fn drop(&mut self) {
        if !*self.named.get_mut() {
            self.memory.state.lock().data.remove(&self.data.write_id);
        }
    }
}

/// Reads a range of a body.
pub(crate) struct MemoryReader {
    rest: Bytes,
}

impl MemoryReader {
    pub(crate) fn next(&mut self) -> Option<Result<Bytes>> {
        if self.rest.is_empty() {
            return None;
        }
        Some(Ok(self.rest.split_to(self.rest.len().min(PIECE))))
    }
}

/// A control store in memory.
pub(crate) async fn control(deployment: DeploymentId, drive: DriveId) -> Result<Control> {
    let medium: Arc<dyn Medium> = Arc::new(MemoryMedium::default());
    let made = Embedded::create(deployment, vec![(drive, medium)], Vec::new()).await;
    made.map(|embedded| embedded.control()).map_err(control_error)
}
