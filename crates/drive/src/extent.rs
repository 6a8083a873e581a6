//! Large shards: regions of preallocated segments, written once, never in place.
//!
//! A region is reserved when a shard begins (or, if no segment has space, and on a hard disk, by the first write) and
//! written in the background by the drive's own threads: header page, frames and hash table in as few writes as
//! possible. A hard disk writes one shard after the other (`write_order`).
//!
//! Invariants: a region is never assigned twice; the journal record that names a shard is written, and the
//! shard is answered, only after a flush that covers its data; at most [`MAX_QUEUED`] bytes of one shard wait in
//! memory ([`LONG`] for a hard disk, while memory is not short), and none of a shard that was given up ([`Unfinished`]).
//!
//! Must not depend on: what a shard contains.

use crate::core::{Core, EMPTIED, Shared, SyncQueue};
use crate::entry::{Loc, Region, Shard, ShardName, layout};
use crate::op::Op;
use crate::place::extent_entry;
use crate::space::Freed;
use crate::write_queue::{Part, Step};
use crate::{Completion, Error, Result};
use ashlar_environment::time::Instant;
use ashlar_format::frame::{self, Layout, MAX_FRAME, ShardId};
use ashlar_format::{Ballot, RegisterKey, WriteId};
use ashlar_machine::{ALIGN, Buf};
use bytes::Bytes;
use parking_lot::Mutex;
use std::future::poll_fn;
use std::io::IoSlice;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::task::{Poll, Waker};

/// Bytes of frames of one shard that may wait for the device (one frame may be larger).
const MAX_QUEUED: usize = 2 << 20;
/// A write starts when this many bytes wait.
const START: usize = 512 << 10;
/// Both for a hard disk, while memory is not short.
const LONG: usize = 8 << 20;

impl Core {
    /// The record of a shard in `region` is durable, or the region is given up.
    pub fn extent_written(&mut self, region: Region) {
        self.unnamed.settled(region);
        if let Some(e) = self.extents.get_mut(&region.segment) {
            e.writers = e.writers.saturating_sub(1);
        }
    }

    fn reserve(&mut self, bytes: u64) -> Option<Region> {
        let segment = self.active_extent;
        let e = self.extents.get_mut(&segment).filter(|e| !e.sealed)?;
        if e.at + bytes > e.bytes {
            return None;
        }
        let offset = e.at;
        e.at += bytes;
        e.writers += 1;
        let region = Region { segment, offset, frame: 0 };
        self.unnamed.reserved(region);
        Some(region)
    }

    /// Recovery: a shard was found in a region that nothing names.
    pub fn reserve_found(&mut self, region: Region, bytes: u64) {
        if let Some(e) = self.extents.get_mut(&region.segment) {
            e.at = e.at.max(region.offset.saturating_add(bytes));
            e.writers += 1;
            self.unnamed.reserved(region);
        }
    }

    /// Accepts no more regions in this segment; its unused rest is given back.
    pub fn seal_extent(&mut self, segment: u32) {
        let Some(e) = self.extents.get_mut(&segment).filter(|e| !e.sealed) else { return };
        e.sealed = true;
        let region = Region { segment, offset: e.at, frame: 0 };
        let bytes = e.bytes.saturating_sub(e.at);
        self.push_freed(Freed { region, bytes });
    }
}

impl Shared {
    /// Fails if `bytes` of new data would use the reserve.
    pub fn check_room(&self, bytes: u64) -> Result<()> {
        self.writable()?;
        let core = self.core.lock();
        if core.free + core.spare_bytes() < bytes.saturating_add(self.options.reserve_bytes) {
            return Err(Error::Full);
        }
        Ok(())
    }

    /// Waits for the device if a segment has to be made.
    fn reserve(&self, bytes: u64) -> Result<Region> {
        if let Some(r) = self.core.lock().reserve(bytes) {
            return Ok(r);
        }
        let _one = self.extent_making.lock();
        if let Some(r) = self.core.lock().reserve(bytes) {
            return Ok(r);
        }
        self.next_extent(bytes)?;
        self.core.lock().reserve(bytes).ok_or(Error::Full)
    }

    /// See [`crate::Drive::begin_shard`].
    pub fn begin_shard(
        self: &Arc<Self>,
        owner: &RegisterKey,
        name: (WriteId, u8),
        ballot: Ballot,
        len: u64,
        frame: u32,
    ) -> Result<ShardWriter> {
        if len == 0 || frame == 0 || frame > MAX_FRAME {
            return Err(Error::Malformed("shard or frame length"));
        }
        if len.div_ceil(u64::from(frame)) > u64::from(u32::MAX) {
            return Err(Error::Malformed("too many frames"));
        }
        let layout = layout(len, frame);
        let bytes = layout.region();
        self.check_room(bytes)?;
        let region = {
            let mut core = self.core.lock();
            let region = match self.hard_disk.is() {
                // Its place is next to the shard that is written before it.
                true => None,
                false => core.reserve(bytes).map(|r| Region { frame, ..r }),
            };
            if self.wants_extent(&core) && !core.maintenance_woken {
                self.wake_maintenance(&mut core);
            }
            region
        };
        let shard = Shard { owner: owner.clone(), ballot, len, loc: Loc::default(), extent: region };
        Ok(ShardWriter {
            job: Some(Arc::new(Job {
                shared: self.clone(),
                name,
                shard,
                layout,
                state: Mutex::new(JobState { region, ..JobState::default() }),
            })),
            next: 0,
            hashes: Vec::with_capacity(layout.frames().min(4096) as usize),
        })
    }

    /// Bytes of a shard that may wait for the device.
    fn most_queued(&self) -> usize {
        let pool = &self.options.pool;
        let ample = self.hard_disk.is() && pool.used() < pool.ceiling() / 4 * 3;
        if ample { LONG } else { MAX_QUEUED }
    }

    /// The data of a shard is written: flush its segment, then journal it. The record waits for the next
    /// batch if the region is found without it (`unnamed`).
    fn sync_extent(self: &Arc<Self>, segment: u32, op: Op) {
        {
            let mut syncs = self.syncs.lock();
            if let Some(q) = syncs.get_mut(&segment) {
                // A running or imminent flush, or the next one, covers this too.
                q.waiting.push((op, segment));
                return;
            }
            syncs.insert(segment, SyncQueue { waiting: vec![(op, segment)] });
        }
        loop {
            let ops = {
                let mut syncs = self.syncs.lock();
                let Some(q) = syncs.get_mut(&segment) else { return };
                if q.waiting.is_empty() {
                    syncs.remove(&segment);
                    return;
                }
                std::mem::take(&mut q.waiting)
            };
            self.flush_and_name(segment, ops.into_iter().map(|(op, _)| op).collect());
        }
    }

    /// Flushes a segment; then the shards of `ops`, whose data was written to it before, are answered or journaled.
    pub fn flush_and_name(self: &Arc<Self>, segment: u32, ops: Vec<Op>) {
        let r = self.flush_extent(segment).and_then(|()| self.journal_linked());
        let mut failed = Vec::new();
        let mut answered = Vec::new();
        let mut queued = false;
        {
            let mut core = self.core.lock();
            for op in ops {
                match &r {
                    Ok(()) => {
                        let later = if self.options.strict { core.name_later(op) } else { Err(op) };
                        let now = match later {
                            Ok(done) => {
                                answered.push(done);
                                continue;
                            }
                            Err(op) => op,
                        };
                        match core.enqueue_for(now, &self.journal_work, self.threads) {
                            Ok(()) => queued = true,
                            Err(bad) => failed.push(bad),
                        }
                    }
                    Err(e) => failed.push((op, e.clone())),
                }
            }
        }
        for done in answered {
            done.ok();
        }
        if queued && self.threads {
            // This thread may wait for the device like that of the journal.
            self.commit_here();
        }
        for (op, e) in failed {
            if let Op::Extent { shard, .. } = &op
                && let Some(r) = shard.extent
            {
                self.release_region(r, shard.region_bytes());
            }
            op.fail(&e);
        }
    }

    fn flush_extent(&self, segment: u32) -> Result<()> {
        if !self.options.strict {
            return Ok(());
        }
        let file = self.extent_file(segment).map_err(|e| self.failed("opening an extent", &e))?;
        self.counters.syncs.fetch_add(1, Ordering::Relaxed);
        let began = Instant::now();
        file.sync_data().map_err(|e| {
            self.fence(&format!("extent flush failed: {e}"));
            Error::io("flushing an extent", &e)
        })?;
        self.hard_disk.note_flush(began.elapsed());
        self.still_linked(&file, "an extent segment")
    }

    /// Checked before a shard is answered that only a note of the journal leads to: see
    /// [`Shared::still_linked`].
    fn journal_linked(&self) -> Result<()> {
        loop {
            let active = self.core.lock().active;
            if active == 0 {
                return Ok(());
            }
            let file = self.journal_file(active);
            if file.as_ref().is_ok_and(|f| f.linked().is_ok_and(|l| l)) {
                return Ok(());
            }
            // Unless compaction has removed it since.
            if self.core.lock().active == active {
                return match file {
                    Ok(file) => self.still_linked(&file, "a journal segment"),
                    Err(e) => {
                        self.fence(EMPTIED);
                        Err(Error::io("opening the journal", &e))
                    }
                };
            }
        }
    }

    /// Releases a region that no record names.
    fn release_region(&self, region: Region, bytes: u64) {
        let mut core = self.core.lock();
        core.extent_written(region);
        core.push_freed(Freed { region, bytes });
    }
}

#[derive(Default)]
struct JobState {
    /// The region of the shard; none yet if a segment has to be made first, which happens in the background.
    region: Option<Region>,
    queue: Vec<Bytes>,
    queued: usize,
    /// The next frame to write.
    next: u64,
    running: bool,
    header_out: bool,
    error: Option<Error>,
    /// Set by finish: the hash table and the completion.
    finish: Option<(Vec<u8>, Completion)>,
    abandoned: bool,
    /// A hard disk writes short pieces, too: more may come late.
    hurry: bool,
    waker: Option<Waker>,
}

/// The background half of a [`ShardWriter`].
pub(crate) struct Job {
    shared: Arc<Shared>,
    name: ShardName,
    shard: Shard,
    layout: Layout,
    state: Mutex<JobState>,
}

/// Writes one large shard. Dropping it before [`ShardWriter::finish`] abandons the shard and gives its space
/// back.
pub struct ShardWriter {
    job: Option<Arc<Job>>,
    next: u64,
    hashes: Vec<[u8; 32]>,
}

impl ShardWriter {
    /// Writes the next frame: exactly `frame` bytes, except the last. The frame is hashed here and written in
    /// the background; waits while too much is queued. Fastest if the bytes start at an address aligned to 4
    /// KiB (slices of a `Buf` at multiples of 4 KiB); copied otherwise.
    ///
    /// # Errors
    /// `Malformed` for a frame of the wrong length, otherwise the error of writing earlier frames.
    pub async fn write(&mut self, frame: Bytes) -> Result<()> {
        let hash = match self.id() {
            Some(id) => id.frame_hash(self.next as u32, &frame),
            None => return Err(Error::Malformed("finished")),
        };
        self.write_hashed(frame, hash).await
    }

    /// A handle for callers that may have to give up the shard.
    #[must_use]
    pub fn handle(&self) -> Unfinished {
        Unfinished(self.job.as_ref().map_or_else(Weak::new, Arc::downgrade))
    }

    /// The identity for the hashes of this shard, and the number of the next frame; `None` if it is finished.
    #[must_use]
    pub fn next_frame(&self) -> Option<(ShardId, u32)> {
        Some((self.id()?, self.next as u32))
    }

    fn id(&self) -> Option<ShardId> {
        let job = self.job.as_ref()?;
        Some(ShardId { deployment: job.shared.label.deployment, write_id: job.name.0, index: job.name.1 })
    }

    /// Like [`ShardWriter::write`], with the hash of the frame (see [`ShardId::frame_hash`]).
    ///
    /// # Errors
    /// Like [`ShardWriter::write`].
    pub async fn write_hashed(&mut self, frame: Bytes, hash: [u8; 32]) -> Result<()> {
        let Some(job) = self.job.clone() else { return Err(Error::Malformed("finished")) };
        if frame.is_empty() || frame.len() != job.layout.frame_len(self.next) {
            return Err(Error::Malformed("frame length"));
        }
        self.hashes.push(hash);
        self.next += 1;
        let len = frame.len();
        poll_fn(|cx| {
            let mut s = job.state.lock();
            if let Some(e) = &s.error {
                return Poll::Ready(Err(e.clone()));
            }
            if s.queued > 0 && s.queued + len > job.shared.most_queued() {
                s.waker = Some(cx.waker().clone());
                drop(s);
                job.start();
                // In manual mode the job ran just now.
                let s = job.state.lock();
                if s.queued > 0 {
                    return Poll::Pending;
                }
            }
            Poll::Ready(Ok(()))
        })
        .await?;
        let start = {
            let mut s = job.state.lock();
            s.queue.push(frame);
            s.queued += len;
            job.shared.frames_waiting.fetch_add(len as u64, Ordering::Relaxed);
            job.is_ripe(&s)
        };
        if start {
            job.start();
        }
        Ok(())
    }

    /// All frames are written: completes when the shard is durable, with its journal record or without (`unnamed`).
    pub fn finish(mut self, done: Completion) -> Unfinished {
        let unfinished = self.handle();
        let Some(job) = self.job.take() else { return unfinished };
        if self.next != job.layout.frames() {
            done.err(Error::Malformed("frames are missing"));
            job.abandon();
            return unfinished;
        }
        let id = ShardId { deployment: job.shared.label.deployment, write_id: job.name.0, index: job.name.1 };
        let table = id.table(&self.hashes);
        job.state.lock().finish = Some((table, done));
        job.start();
        unfinished
    }
}

/// A shard that is being made durable. Dropping this changes nothing.
#[derive(Clone, Debug)]
pub struct Unfinished(Weak<Job>);

impl Unfinished {
    /// For a shard that another process writes.
    pub(crate) fn elsewhere() -> Unfinished {
        Unfinished(Weak::new())
    }

    /// Whether a hard disk should write short pieces of the shard, too, and not wait for long ones in memory. It should not at
    /// first.
    pub fn hurry(&self, hurry: bool) {
        let Some(job) = self.0.upgrade() else { return };
        let starts = {
            let mut s = job.state.lock();
            s.hurry = hurry;
            hurry && job.is_ripe(&s)
        };
        if starts {
            job.start();
        }
    }

    /// The caller no longer waits for the shard: what is not yet being written to the device is dropped, and
    /// its completion fails. Has no effect on a complete shard.
    pub fn give_up(&self) {
        if let Some(job) = self.0.upgrade() {
            job.abandon();
        }
    }
}

impl Drop for ShardWriter {
    fn drop(&mut self) {
        if let Some(job) = self.job.take() {
            job.abandon();
        }
    }
}

impl std::fmt::Debug for Job {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Job({}.{})", self.name.0, self.name.1)
    }
}

impl Part for Job {
    fn write_queued(self: Arc<Self>, ripe: bool) -> Step {
        self.write(ripe)
    }

    fn fail(&self, error: Error) {
        Job::fail(self, error);
    }
}

impl Job {
    fn abandon(self: &Arc<Self>) {
        // The frames are released at once: a drive that hangs may never reach the rest.
        let (frames, finish) = {
            let mut s = self.state.lock();
            s.abandoned = true;
            s.queued = 0;
            (std::mem::take(&mut s.queue), s.finish.take())
        };
        self.forgotten(&frames);
        drop(frames);
        if let Some((_, done)) = finish {
            done.err(Error::Offline("abandoned"));
        }
        self.start();
    }

    /// Makes sure that a thread writes what is queued.
    fn start(self: &Arc<Self>) {
        {
            let mut s = self.state.lock();
            if s.running {
                return;
            }
            s.running = true;
        }
        let me = self.clone();
        let started = match self.shared.hard_disk.is() {
            true => self.shared.write_in_turn(me),
            false => self.shared.spawn(move || me.run()),
        };
        if let Err(e) = started {
            self.fail(e);
        }
    }

    /// Removes these frames from the count of waiting bytes.
    fn forgotten(&self, frames: &[Bytes]) {
        let bytes: usize = frames.iter().map(Bytes::len).sum();
        self.shared.frames_waiting.fetch_sub(bytes as u64, Ordering::Relaxed);
    }

    /// The shard fails, now or before. No thread has the job any more.
    fn fail(&self, e: Error) {
        let (waker, finish, region) = {
            let mut s = self.state.lock();
            s.running = false;
            self.forgotten(&std::mem::take(&mut s.queue));
            s.queued = 0;
            let first = s.error.is_none();
            s.error.get_or_insert(e.clone());
            (s.waker.take(), s.finish.take(), s.region.filter(|_| first))
        };
        if let Some(region) = region {
            self.shared.release_region(region, self.layout.region());
        }
        if let Some((_, done)) = finish {
            done.err(e);
        }
        if let Some(w) = waker {
            w.wake();
        }
    }

    /// Whether enough waits that it is written.
    fn is_ripe(&self, s: &JobState) -> bool {
        if !self.shared.hard_disk.is() {
            return s.queued >= START;
        }
        // All of it, or as much as may wait: its writer waits for that.
        let most = s.waker.is_some() || s.queued >= LONG || s.hurry && s.queued > 0;
        most || s.finish.is_some() || s.abandoned || s.error.is_some()
    }

    fn run(self: Arc<Self>) {
        loop {
            match self.write(false) {
                Step::Done(segment, op) => return self.shared.sync_extent(segment, op),
                Step::More => {}
                Step::Idle => return,
            }
        }
    }

    /// Writes what is queued. `ripe`: if it is enough. After [`Step::Idle`] no thread has the job.
    fn write(self: &Arc<Self>, ripe: bool) -> Step {
        let (frames, first, header, last) = {
            let mut s = self.state.lock();
            if let Some(e) = s.error.clone() {
                drop(s);
                self.fail(e);
                return Step::Idle;
            }
            if s.abandoned {
                drop(s);
                self.fail(Error::Offline("abandoned"));
                return Step::Idle;
            }
            let all = s.next + s.queue.len() as u64 == self.layout.frames();
            let last = if all { s.finish.take() } else { None };
            if last.is_none() && (s.queue.is_empty() || ripe && !self.is_ripe(&s)) {
                s.running = false;
                return Step::Idle;
            }
            let frames = std::mem::take(&mut s.queue);
            let first = s.next;
            s.next += frames.len() as u64;
            let header = !std::mem::replace(&mut s.header_out, true);
            (frames, first, header, last)
        };
        let table = last.as_ref().map(|(t, _)| t.as_slice());
        let r = self.shared.writable().and_then(|()| {
            let region = self.region()?;
            self.put(region, &frames, first, header, table)?;
            Ok(region)
        });
        self.forgotten(&frames);
        drop(frames);
        let waker = {
            let mut s = self.state.lock();
            // New frames may have arrived; what was just written is no longer queued.
            s.queued = s.queue.iter().map(Bytes::len).sum();
            s.waker.take()
        };
        if let Some(w) = waker {
            w.wake();
        }
        match (r, last) {
            (Ok(region), Some((_, done))) => {
                let shard = Box::new(Shard { extent: Some(region), ..self.shard.clone() });
                Step::Done(region.segment, Op::Extent { name: self.name, shard, done })
            }
            (Ok(_), None) => Step::More,
            (Err(e), last) => {
                self.fail(e.clone());
                if let Some((_, done)) = last {
                    done.err(e);
                }
                Step::Idle
            }
        }
    }

    /// The region of the shard, reserved now at the latest.
    fn region(&self) -> Result<Region> {
        if let Some(r) = self.state.lock().region {
            return Ok(r);
        }
        let region = Region { frame: self.layout.frame, ..self.shared.reserve(self.layout.region())? };
        self.state.lock().region = Some(region);
        Ok(region)
    }

    /// Writes frames (and header and table) with one call.
    fn put(
        &self,
        region: Region,
        frames: &[Bytes],
        first: u64,
        header: bool,
        table: Option<&[u8]>,
    ) -> Result<()> {
        let pool = &self.shared.options.pool;
        let mut owned: Vec<Buf> = Vec::new();
        let mut plan: Vec<Piece<'_>> = Vec::with_capacity(frames.len() * 2 + 2);
        let mut at = self.layout.frame_at(first);
        if frames.is_empty() {
            at = self.layout.table_at();
        }
        if header {
            at = 0;
            let entry = extent_entry(self.name, &self.shard, region);
            copy(pool, &frame::header(&entry, &self.shared.key), &mut owned, &mut plan);
            if frames.is_empty() {
                return Err(Error::Malformed("a shard without frames"));
            }
        }
        for f in frames {
            // Whole pages are written from the caller's memory; the tail is padded in a page of this drive.
            let whole = if (f.as_ptr() as usize).is_multiple_of(ALIGN) { f.len() / ALIGN * ALIGN } else { 0 };
            if whole > 0 {
                plan.push(Piece::Borrowed(&f[..whole]));
            }
            if whole < f.len() {
                copy(pool, &f[whole..], &mut owned, &mut plan);
            }
        }
        if let Some(t) = table {
            copy(pool, t, &mut owned, &mut plan);
        }
        let mut slices: Vec<IoSlice<'_>> = plan
            .iter()
            .map(|p| match p {
                Piece::Borrowed(b) => IoSlice::new(b),
                Piece::Owned(i) => IoSlice::new(&owned[*i]),
            })
            .collect();
        let file = self
            .shared
            .extent_file(region.segment)
            .map_err(|e| self.shared.failed("opening an extent", &e))?;
        self.shared.counters.writes.fetch_add(1, Ordering::Relaxed);
        file.write_slices_at(&mut slices, region.offset + at)
            .map_err(|e| self.shared.failed("writing an extent", &e))
    }
}

enum Piece<'a> {
    Borrowed(&'a [u8]),
    Owned(usize),
}

/// Copies into a page-aligned buffer, padded with zeros to whole pages.
fn copy(pool: &ashlar_machine::BufferPool, bytes: &[u8], owned: &mut Vec<Buf>, plan: &mut Vec<Piece<'_>>) {
    let padded = bytes.len().next_multiple_of(ALIGN);
    let mut b = pool.get_reserved(padded);
    b[..bytes.len()].copy_from_slice(bytes);
    b[bytes.len()..].fill(0);
    plan.push(Piece::Owned(owned.len()));
    owned.push(b);
}
