//! The journal of a running drive: group commit.
//!
//! One thread takes everything that waits, lays it into one batch, writes it with one write, makes
//! it durable with one flush, then applies and answers it all. Invariants: a batch is written only
//! after the previous one is durable, so that at most the last batch can be torn; nothing is
//! answered before its flush succeeded (I11); a failed write or flush fences the drive (I12).
//!
//! Must never know: what a record or a shard contains.

use crate::core::{Core, Position, Shared};
use crate::entry::{Loc, Region, Register, Shard, ShardName};
use crate::files::{Kind, segment_name};
use crate::types::{Accept, InlineShard};
use crate::{Completion, Error, Result};
use ashlar_format::codec;
use ashlar_format::journal::{
    self, AcceptEntry, BATCH_HEADER, BatchWriter, DriveState, ExtentEntry, PAGE, SECTOR, SegmentHeader,
    StageEntry, kind, record_len,
};
use ashlar_format::{Ballot, Record, RegisterKey};
use ashlar_machine::{Buf, DiskFile, FileSystem, Folder};
use bytes::Bytes;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

/// Most bytes of a batch of several records.
const MAX_BATCH: usize = 1 << 20;
/// The batch buffer kept between batches; a larger one goes back to the pool.
const KEEP_BUFFER: usize = 64 << 10;
/// The first segments of a drive are smaller.
const FIRST_SEGMENT: u64 = 1 << 20;

/// What is to be journalled.
pub(crate) enum Op {
    /// A record (and its shard in one-sync mode), let through by the acceptor.
    Accept {
        hash: u128,
        accept: Accept,
        hint: bool,
        oldest: u32,
        counted: bool,
        /// A copy into a joining drive: nobody counts it.
        copy: bool,
        done: Completion,
    },
    Stage {
        shard: InlineShard,
        done: Completion,
    },
    Extent {
        name: ShardName,
        shard: Box<Shard>,
        done: Completion,
    },
    Hint {
        key: RegisterKey,
        ballot: Ballot,
    },
    Purge {
        key: RegisterKey,
        ballot: Ballot,
        oldest: u32,
        newest: u32,
    },
    Discard {
        name: ShardName,
        target: u32,
    },
    State {
        change: StateChange,
        done: Completion,
    },
    /// Compaction: an entry of the index moves to the head, if it is still where it was.
    MoveRegister {
        key: RegisterKey,
        from: Loc,
        payload: Bytes,
    },
    MoveShard {
        name: ShardName,
        from: Loc,
        kind: u8,
        payload: Bytes,
    },
    /// Compaction: a purge or discard record that is still needed.
    MoveDeletion {
        kind: u8,
        payload: Bytes,
        need: (u32, u32),
    },
    /// Compaction: `victim` is about to be removed.
    Forget {
        victim: u32,
    },
    Barrier {
        done: Completion,
    },
}

/// A change of the small durable state.
#[derive(Clone, Copy, Debug)]
pub(crate) enum StateChange {
    Floor(Ballot),
    Epoch(u32),
    Voter(bool),
    /// Written again as it is, so that an old segment can go.
    Again,
}

/// `Op::Accept::oldest`: the register had no record.
pub(crate) const FRESH: u32 = u32::MAX;

impl Op {
    /// Upper bound of the bytes its records take in a batch.
    fn size(&self) -> usize {
        let fixed = 64;
        match self {
            Op::Accept { accept: a, .. } => {
                let n = fixed + a.key.as_bytes().len() + a.summary.len() + a.record.len();
                let shard = a
                    .inline
                    .as_ref()
                    .map_or(0, |i| record_len(fixed + a.key.as_bytes().len() + i.data.len()));
                record_len(n) + shard
            }
            Op::Stage { shard: s, .. } => record_len(fixed + s.owner.as_bytes().len() + s.data.len()),
            Op::Extent { shard, .. } => record_len(fixed + 32 + shard.owner.as_bytes().len()),
            Op::Hint { key, .. } | Op::Purge { key, .. } => record_len(fixed + key.as_bytes().len()),
            Op::Discard { .. } | Op::State { .. } => record_len(fixed),
            Op::MoveRegister { payload, .. } => record_len(payload.len() + 8),
            Op::MoveShard { payload, .. } | Op::MoveDeletion { payload, .. } => record_len(payload.len()),
            Op::Forget { .. } | Op::Barrier { .. } => 0,
        }
    }

    /// Bytes it holds in memory while it waits.
    pub fn weight(&self) -> usize {
        self.size() + 128
    }

    pub fn fail(self, e: &Error) {
        if let Some(done) = self.done() {
            done.err(e.clone());
        }
    }

    fn done(self) -> Option<Completion> {
        match self {
            Op::Accept { done, .. }
            | Op::Stage { done, .. }
            | Op::Extent { done, .. }
            | Op::State { done, .. }
            | Op::Barrier { done } => Some(done),
            _ => None,
        }
    }
}

/// A prepared segment.
pub(crate) struct Spare {
    pub number: u32,
    pub bytes: u64,
    pub file: Arc<DiskFile>,
}

/// The head of the journal; owned by the journal thread.
pub(crate) struct Writer {
    pub file: Option<Arc<DiskFile>>,
    pub bytes: u64,
    pub position: Position,
    pub buf: Option<Buf>,
    /// The next batch is the first of its segment: starts with the list of segments.
    pub prologue: bool,
    /// Operations being committed; kept for its allocation.
    pub ops: Vec<Op>,
    batch: Vec<Op>,
    placed: Vec<(Loc, Loc)>,
}

impl Writer {
    pub fn new(file: Option<Arc<DiskFile>>, bytes: u64, position: Position) -> Writer {
        Writer {
            file,
            bytes,
            position,
            buf: None,
            prologue: false,
            ops: Vec::new(),
            batch: Vec::new(),
            placed: Vec::new(),
        }
    }
}

/// Makes, fills with zeros and flushes a segment.
pub(crate) fn create_segment(
    folder: &Folder,
    medium: FileSystem,
    key: &journal::HashKey,
    number: u32,
    bytes: u64,
    direct: bool,
    zeros: Buf,
) -> std::io::Result<DiskFile> {
    let mut zeros = zeros;
    let file = folder.create(&segment_name(number), direct)?;
    let made = (|| {
        file.allocate(bytes)?;
        zeros.fill(0);
        if medium == FileSystem::Disk {
            let mut at = 0;
            while at < bytes {
                let n = (bytes - at).min(zeros.len() as u64) as usize;
                file.write_at(&zeros[..n], at)?;
                at += n as u64;
            }
        }
        let header = SegmentHeader { number, bytes }.encode(key);
        zeros[..PAGE].copy_from_slice(&header);
        file.write_at(&zeros[..PAGE], 0)?;
        file.sync_all()?;
        folder.sync()
    })();
    if let Err(e) = made {
        let _ = folder.remove(&segment_name(number));
        return Err(e);
    }
    Ok(file)
}

impl Shared {
    /// The size of the next journal segment.
    fn next_segment_bytes(&self, core: &Core, need: u64) -> u64 {
        let have: u64 = core.journal.values().map(|s| s.bytes).sum();
        let most = self.options.journal_segment_bytes;
        have.next_power_of_two().clamp(FIRST_SEGMENT.min(most), most).max(need)
    }

    /// Prepares the next segment ahead of need.
    pub fn prepare_spare(&self) -> Result<()> {
        let _one = self.spare_making.lock();
        if self.core.lock().spare.is_some() {
            return Ok(());
        }
        let spare = self.make_spare(0)?;
        self.core.lock().spare = Some(spare);
        Ok(())
    }

    /// The prepared segment if it has `need` bytes, else a new one.
    fn take_spare(&self, need: u64) -> Result<Spare> {
        let _one = self.spare_making.lock();
        let spare = self.core.lock().spare.take();
        match spare {
            Some(s) if s.bytes >= need => return Ok(s),
            Some(s) => {
                // Too small for this record. Nothing names it yet, so it may go.
                let _ = self.journal_folder.remove(&segment_name(s.number));
            }
            None => {}
        }
        self.make_spare(need)
    }

    /// Makes the next segment, of at least `need` bytes. One at a time.
    fn make_spare(&self, need: u64) -> Result<Spare> {
        let (number, bytes) = {
            let mut core = self.core.lock();
            core.next_segment += 1;
            (core.next_segment - 1, self.next_segment_bytes(&core, need))
        };
        let zeros = self.options.pool.get_reserved((bytes as usize).min(256 << 10));
        let direct = self.options.direct;
        let file = create_segment(&self.journal_folder, self.medium, &self.key, number, bytes, direct, zeros)
            .map_err(|e| self.failed("making a journal segment", &e))?;
        self.counters.writes.fetch_add(1, Ordering::Relaxed);
        self.counters.syncs.fetch_add(2, Ordering::Relaxed);
        let mut core = self.core.lock();
        core.free = core.free.saturating_sub(bytes);
        drop(core);
        Ok(Spare { number, bytes, file: Arc::new(file) })
    }

    /// The journal thread.
    pub fn run_journal(self: &Arc<Self>) {
        loop {
            {
                let mut core = self.core.lock();
                while core.queue.is_empty() && core.fenced.is_none() {
                    if core.closing {
                        if core.lazy.is_empty() {
                            return;
                        }
                        break;
                    }
                    core.journal_sleeps = true;
                    self.journal_work.wait(&mut core);
                    core.journal_sleeps = false;
                }
                if core.fenced.is_some() {
                    return;
                }
            }
            self.commit();
        }
    }

    /// Commits everything that waits. False: nothing did.
    pub fn commit(self: &Arc<Self>) -> bool {
        if !self.threads {
            let jobs = std::mem::take(&mut *self.later.lock());
            for job in jobs {
                job();
            }
        }
        let mut w = self.writer.lock();
        self.commit_with(&mut w)
    }

    /// Commits on the caller's thread unless another thread is at it: where a flush does not wait
    /// for a device, handing over to the journal thread costs several times the commit itself.
    pub fn commit_here(self: &Arc<Self>) {
        // Whoever finds the writer taken leaves its operation to the holder, who looks again.
        for _ in 0..64 {
            let Some(mut w) = self.writer.try_lock() else { return };
            self.commit_with(&mut w);
            drop(w);
            if self.core.lock().queue.is_empty() {
                return;
            }
        }
        self.journal_work.notify_one();
    }

    fn commit_with(self: &Arc<Self>, w: &mut Writer) -> bool {
        let mut ops = std::mem::take(&mut w.ops);
        {
            let mut core = self.core.lock();
            core.take(&mut ops);
        }
        if ops.is_empty() {
            w.ops = ops;
            return false;
        }
        let mut rest = ops.drain(..).peekable();
        let mut batch = std::mem::take(&mut w.batch);
        let mut size = 0;
        while let Some(op) = rest.next() {
            size += op.size();
            batch.push(op);
            let next = rest.peek().map_or(usize::MAX, Op::size);
            if size.saturating_add(next) > MAX_BATCH {
                self.commit_batch(w, &mut batch, size);
                size = 0;
            }
        }
        drop(rest);
        w.ops = ops;
        w.batch = batch;
        if w.buf.as_ref().is_some_and(|b| b.capacity() > KEEP_BUFFER) {
            w.buf = None;
        }
        true
    }

    /// Writes one batch and answers its operations.
    fn commit_batch(self: &Arc<Self>, w: &mut Writer, batch: &mut Vec<Op>, size: usize) {
        let started = Instant::now();
        let r = self.write_batch(w, batch, size);
        match r {
            Ok(state) => {
                let us = started.elapsed().as_micros() as u64;
                let c = &self.counters;
                c.batches.fetch_add(1, Ordering::Relaxed);
                c.records.fetch_add(batch.len() as u64, Ordering::Relaxed);
                c.commit_us.fetch_add(us, Ordering::Relaxed);
                c.commit_us_max.fetch_max(us, Ordering::Relaxed);
                self.settle(w, batch, state);
            }
            Err(e) => {
                let mut gone = Vec::new();
                {
                    let mut core = self.core.lock();
                    for op in batch.iter() {
                        if let Op::Accept { hash, .. } = op {
                            gone.extend(core.pending.remove(hash));
                        }
                    }
                    if !gone.is_empty() {
                        // It let records through that are not written: as after a restart.
                        core.reset_acceptor();
                    }
                }
                drop(gone);
                for op in batch.drain(..) {
                    op.fail(&e);
                }
            }
        }
    }

    /// Lays out, writes and flushes. Returns the drive state the batch leaves.
    fn write_batch(&self, w: &mut Writer, batch: &[Op], size: usize) -> Result<Option<DriveState>> {
        self.writable()?;
        let (mut state, count) = {
            let core = self.core.lock();
            (core.state, core.journal.len() + 1)
        };
        let listed = |n: usize| record_len(8 + 4 * n);
        let forget = batch.iter().any(|op| matches!(op, Op::Forget { .. }));
        let mut need = BATCH_HEADER + size + 2 * listed(count);
        if w.file.is_none()
            || u64::from(w.position.at) + (need.next_multiple_of(PAGE) + PAGE) as u64 > w.bytes
        {
            self.rotate(w, need)?;
        }
        let segments = w.prologue.then(|| self.segment_list());
        need = need.next_multiple_of(PAGE);
        let align = self.batch_align();
        let mut buf = match w.buf.take() {
            Some(b) if b.capacity() >= need => b,
            _ => self.options.pool.get_reserved(need.max(16 << 10)),
        };
        let cap = buf.capacity();
        buf.set_len(cap);
        let at = w.position;
        let mut out = BatchWriter::new(self.key, at.segment, at.at, align);
        w.placed.clear();
        let mut new_state = None;
        if let Some(list) = segments {
            let mut p = codec::Writer::with_capacity(8 + 4 * list.len());
            let list: Vec<u32> = list.into_iter().filter(|n| *n < at.segment).collect();
            journal::segments(&mut p, &list);
            out.push(&mut buf, kind::SEGMENTS, &[&p.into_vec()]);
        }
        for op in batch {
            if let Op::State { change, .. } = op {
                change.apply(&mut state);
                new_state = Some(state);
            }
            if let Op::Purge { ballot, .. } = op {
                state.horizon = state.horizon.max(*ballot);
            }
            let placed = place(&mut out, &mut buf, at.segment, op, &state);
            w.placed.push(placed);
        }
        if forget {
            let mut list = self.segment_list();
            list.retain(|n| {
                *n < at.segment && !batch.iter().any(|op| matches!(op, Op::Forget { victim } if victim == n))
            });
            let mut p = codec::Writer::with_capacity(8 + 4 * list.len());
            journal::segments(&mut p, &list);
            out.push(&mut buf, kind::SEGMENTS, &[&p.into_vec()]);
        }
        if out.is_empty() {
            // Only barriers: everything before them is durable already.
            w.buf = Some(buf);
            return Ok(None);
        }
        let r = self.put_batch(w, &out, &mut buf);
        w.buf = Some(buf);
        r?;
        w.prologue = false;
        Ok(new_state)
    }

    /// What batches are padded to.
    fn batch_align(&self) -> usize {
        if self.medium == FileSystem::Memory { SECTOR } else { PAGE }
    }

    fn segment_list(&self) -> Vec<u32> {
        self.core.lock().journal.keys().copied().collect()
    }

    /// Closes and writes a batch at the head; moves the head.
    fn put_batch(&self, w: &mut Writer, out: &BatchWriter, buf: &mut Buf) -> Result<()> {
        let at = w.position;
        let done = out.close(buf, at.seq + 1, &at.chain);
        let bytes = &buf[..done.len as usize];
        let Some(file) = &w.file else { return Err(Error::Offline("no journal segment")) };
        self.counters.writes.fetch_add(1, Ordering::Relaxed);
        let written = file.write_at(bytes, u64::from(at.at));
        if let Err(e) = written {
            let err = Error::io("writing the journal", &e);
            if err == Error::Full {
                // The file system took the space of a sparse segment: leave zeros behind.
                let undone = file.punch_hole(u64::from(at.at), bytes.len() as u64);
                if matches!(undone, Ok(true)) {
                    return Err(Error::Full);
                }
            }
            if err == Error::ReadOnly {
                self.set_read_only();
                return Err(err);
            }
            self.fence(&format!("journal write failed: {e}"));
            return Err(err);
        }
        if self.options.strict {
            self.counters.syncs.fetch_add(1, Ordering::Relaxed);
            if let Err(e) = file.sync_data() {
                self.fence(&format!("journal flush failed: {e}"));
                return Err(Error::io("flushing the journal", &e));
            }
        }
        w.position = Position { segment: at.segment, at: at.at + done.len, seq: done.seq, chain: done.chain };
        Ok(())
    }

    /// Seals the segment and goes on in the next one.
    fn rotate(&self, w: &mut Writer, need: usize) -> Result<()> {
        let need = (need + 4 * PAGE).next_multiple_of(PAGE) as u64;
        if need > u64::from(u32::MAX) {
            return Err(Error::Malformed("record too long"));
        }
        let spare = self.take_spare(need)?;
        if w.file.is_some() {
            let mut buf = self.options.pool.get_reserved(PAGE);
            let mut out = BatchWriter::new(self.key, w.position.segment, w.position.at, self.batch_align());
            out.push(&mut buf, kind::SEAL, &[&spare.number.to_le_bytes()]);
            if let Err(e) = self.put_batch(w, &out, &mut buf) {
                self.core.lock().spare = Some(spare);
                return Err(e);
            }
        }
        let mut core = self.core.lock();
        core.journal.insert(spare.number, crate::core::Segment { bytes: spare.bytes, ..Default::default() });
        core.active = spare.number;
        self.files.put(Kind::Journal, spare.number, spare.file.clone());
        w.file = Some(spare.file);
        w.bytes = spare.bytes;
        w.position.segment = spare.number;
        w.position.at = PAGE as u32;
        w.prologue = true;
        Ok(())
    }

    /// Applies a durable batch and answers.
    fn settle(self: &Arc<Self>, w: &mut Writer, batch: &mut Vec<Op>, state: Option<DriveState>) {
        let mut waiters = Vec::new();
        let mut repeats = Vec::new();
        {
            let mut core = self.core.lock();
            for (op, placed) in batch.iter_mut().zip(&w.placed) {
                core.apply_op(op, *placed, &mut waiters, &mut repeats);
            }
            if let Some(s) = state {
                core.adopt_state(s, w.position.segment);
            }
            core.applied = w.position;
            let half = u64::from(w.position.at) * 2 > w.bytes;
            let full =
                core.overlay.active.bytes > self.options.cache_bytes / 2 && core.overlay.frozen.is_none();
            if (half && core.spare.is_none()) || full {
                self.kick_keeper(&mut core);
            }
        }
        for w in waiters {
            let _ = w.send(());
        }
        for (counted, done) in repeats {
            if counted { done.ok() } else { done.uncounted() }
        }
        for op in batch.drain(..) {
            match op {
                Op::Accept { counted: false, copy: false, done, .. } => done.uncounted(),
                op => {
                    if let Some(done) = op.done() {
                        done.ok();
                    }
                }
            }
        }
    }
}

impl StateChange {
    fn apply(self, s: &mut DriveState) {
        match self {
            StateChange::Floor(b) => s.floor = s.floor.max(b),
            StateChange::Epoch(e) => s.epoch = s.epoch.max(e),
            StateChange::Voter(v) => s.voter = v,
            StateChange::Again => {}
        }
    }
}

/// Lays the records of one operation; returns where they are (an accept with its shard has two).
fn place(out: &mut BatchWriter, buf: &mut Buf, segment: u32, op: &Op, state: &DriveState) -> (Loc, Loc) {
    let mut head = codec::Writer::with_capacity(256);
    let mut push = |out: &mut BatchWriter, kind: u8, parts: &[&[u8]]| {
        let len: usize = parts.iter().map(|p| p.len()).sum();
        let at = out.push(buf, kind, parts);
        Loc { segment, at, len: len as u32 }
    };
    let none = Loc::default();
    match op {
        Op::Accept { accept: a, hint, oldest, .. } => {
            let mut shard = none;
            if let Some(i) = &a.inline {
                let mut h = codec::Writer::with_capacity(128);
                let e = StageEntry {
                    write_id: i.write_id,
                    index: i.index,
                    ballot: a.ballot,
                    owner: a.key.as_bytes(),
                    data: &i.data,
                };
                journal::stage_head(&mut h, &e);
                shard = push(out, kind::STAGE, &[&h.into_vec(), &i.data]);
            }
            let e = AcceptEntry {
                key: a.key.as_bytes(),
                ballot: a.ballot,
                flags: accept_flags(a, *hint),
                oldest: if *oldest == FRESH { segment } else { *oldest },
                summary: &a.summary,
                record: &a.record,
            };
            journal::accept_head(&mut head, &e);
            (push(out, kind::ACCEPT, &[&head.into_vec(), &a.record]), shard)
        }
        Op::Stage { shard: s, .. } => {
            let e = StageEntry {
                write_id: s.write_id,
                index: s.index,
                ballot: s.ballot,
                owner: s.owner.as_bytes(),
                data: &s.data,
            };
            journal::stage_head(&mut head, &e);
            (push(out, kind::STAGE, &[&head.into_vec(), &s.data]), none)
        }
        Op::Extent { name, shard, .. } => {
            let r = shard.extent.unwrap_or(Region { segment: 0, offset: 0, frame: 1 });
            journal::extent(&mut head, &extent_entry(*name, shard, r));
            (push(out, kind::EXTENT, &[&head.into_vec()]), none)
        }
        Op::Hint { key, ballot } => {
            journal::hint(&mut head, key.as_bytes(), *ballot);
            (push(out, kind::HINTS, &[&head.into_vec()]), none)
        }
        Op::Purge { key, ballot, oldest, newest } => {
            journal::purge(&mut head, key.as_bytes(), *ballot, *oldest, *newest);
            (push(out, kind::PURGE, &[&head.into_vec()]), none)
        }
        Op::Discard { name: (id, index), target } => {
            journal::discard(&mut head, *id, *index, *target, (0, 0));
            (push(out, kind::DISCARD, &[&head.into_vec()]), none)
        }
        Op::State { .. } => (push(out, kind::STATE, &[&state.encode()]), none),
        Op::MoveRegister { payload, .. } => (push(out, kind::ACCEPT, &[payload]), none),
        Op::MoveShard { kind, payload, .. } | Op::MoveDeletion { kind, payload, .. } => {
            (push(out, *kind, &[payload]), none)
        }
        Op::Forget { .. } | Op::Barrier { .. } => (none, none),
    }
}

pub(crate) fn extent_entry(name: ShardName, s: &Shard, r: Region) -> ExtentEntry<'_> {
    ExtentEntry {
        write_id: name.0,
        index: name.1,
        ballot: s.ballot,
        owner: s.owner.as_bytes(),
        len: s.len,
        frame: r.frame,
        segment: r.segment,
        offset: r.offset,
    }
}

fn accept_flags(a: &Accept, hint: bool) -> u8 {
    let one_sync = if a.inline.is_some() { journal::ONE_SYNC } else { 0 };
    one_sync | if hint { journal::HINTED } else { 0 }
}

type Waiters = Vec<tokio::sync::oneshot::Sender<()>>;

impl Core {
    /// Moves what waits into `ops`, compaction's moves first and only those still current.
    fn take(&mut self, ops: &mut Vec<Op>) {
        self.queue_bytes = 0;
        // Lazy operations first: a discard must not hit a shard that was staged after it.
        std::mem::swap(ops, &mut self.lazy);
        ops.append(&mut self.queue);
        let moving = |op: &Op| matches!(op, Op::MoveRegister { .. } | Op::MoveShard { .. });
        if ops.iter().any(moving) {
            ops.retain(|op| match op {
                Op::MoveRegister { key, from, .. } => match self.overlay.register(key) {
                    Some(now) => now.is_some_and(|r| r.loc == *from),
                    None => true,
                },
                Op::MoveShard { name, from, .. } => match self.overlay.shard(name) {
                    Some(now) => now.is_some_and(|s| s.loc == *from),
                    None => true,
                },
                _ => true,
            });
            ops.sort_by_key(|op| !moving(op));
        }
    }

    /// Is there room for an operation of this weight?
    pub fn may_enqueue(&self, weight: usize) -> Result<()> {
        if let Some(why) = &self.fenced {
            return Err(Error::Fenced(why.clone()));
        }
        if self.closing {
            return Err(Error::Offline("closing"));
        }
        if self.queue.len() >= crate::core::MAX_QUEUE_OPS
            || self.queue_bytes + weight > crate::core::MAX_QUEUE_BYTES
        {
            return Err(Error::Offline("too many operations wait for the drive"));
        }
        Ok(())
    }

    /// Raises the floor before a prepare needs it.
    pub fn raise_floor_ahead(&mut self, work: &parking_lot::Condvar) {
        if let Some(to) = self.acceptor.should_raise_floor()
            && to > self.floor_asked
        {
            self.floor_asked = to;
            let change = StateChange::Floor(to);
            let _ = self.enqueue(Op::State { change, done: Completion::ignored() }, work);
        }
    }

    /// Puts an operation before the journal. Fails when too much waits.
    #[allow(clippy::result_large_err)] // the refused operation goes back to its owner, rarely
    pub fn enqueue(&mut self, op: Op, work: &parking_lot::Condvar) -> Result<(), (Op, Error)> {
        self.enqueue_for(op, work, false)
    }

    /// As [`Core::enqueue`]. `quiet`: the caller commits itself ([`Shared::commit_here`]).
    #[allow(clippy::result_large_err)] // given back only when the drive is in trouble
    pub fn enqueue_for(
        &mut self,
        op: Op,
        work: &parking_lot::Condvar,
        quiet: bool,
    ) -> Result<(), (Op, Error)> {
        let weight = op.weight();
        if let Err(e) = self.may_enqueue(weight) {
            return Err((op, e));
        }
        self.queue_bytes += weight;
        self.queue.push(op);
        if self.journal_sleeps && !quiet {
            self.journal_sleeps = false;
            work.notify_one();
        }
        Ok(())
    }

    /// Puts an operation aside until the next batch.
    pub fn enqueue_lazy(&mut self, op: Op, work: &parking_lot::Condvar) {
        if self.fenced.is_some() || self.closing {
            return;
        }
        if self.lazy.len() >= crate::core::MAX_LAZY_OPS {
            // Losing one would leak space or a purge: wake the journal instead.
            let _ = self.enqueue(op, work);
            return;
        }
        self.lazy.push(op);
    }

    fn apply_op(
        &mut self,
        op: &mut Op,
        (loc, second): (Loc, Loc),
        waiters: &mut Waiters,
        repeats: &mut Vec<(bool, Completion)>,
    ) {
        match op {
            Op::Accept { hash, accept: a, hint, oldest, counted, .. } => {
                *counted &= self.acceptor.role() == ashlar_commit::Role::Voter;
                if let Some(i) = &a.inline {
                    let shard = Shard {
                        owner: a.key.clone(),
                        ballot: a.ballot,
                        len: i.data.len() as u64,
                        loc: second,
                        extent: None,
                    };
                    self.apply_shard((i.write_id, i.index), shard);
                }
                let now = Register {
                    ballot: a.ballot,
                    digest: Record::digest(&a.record),
                    loc,
                    record_len: a.record.len() as u32,
                    flags: accept_flags(a, *hint),
                    oldest: if *oldest == FRESH { loc.segment } else { *oldest },
                    summary: a.summary.as_ref().into(),
                };
                self.apply_accept(a.key.clone(), now, *oldest == FRESH);
                self.acceptor.settled(*hash, a.ballot);
                if let Some(p) = self.pending.get_mut(hash) {
                    p.count = p.count.saturating_sub(1);
                    if p.count == 0 {
                        waiters.append(&mut p.waiters);
                        repeats.extend(p.repeats.drain(..).map(|done| (*counted, done)));
                        self.pending.remove(hash);
                    }
                }
            }
            Op::Stage { shard: s, .. } => {
                let shard = Shard {
                    owner: s.owner.clone(),
                    ballot: s.ballot,
                    len: s.data.len() as u64,
                    loc,
                    extent: None,
                };
                self.apply_shard((s.write_id, s.index), shard);
            }
            Op::Extent { name, shard, .. } => {
                let mut shard = (**shard).clone();
                shard.loc = loc;
                if let Some(r) = shard.extent {
                    // From here on the record keeps the region, not the writer.
                    self.extent_written(r.segment);
                }
                self.apply_shard(*name, shard);
            }
            Op::Hint { key, ballot } => self.apply_hint(key, *ballot),
            Op::Purge { key, ballot, oldest, newest } => {
                let hash = promise_key(key);
                self.apply_purge(key.clone(), Some(hash), *ballot, *oldest, *newest, loc);
            }
            Op::Discard { name, target } => self.apply_discard(*name, *target, (0, 0), loc),
            Op::MoveRegister { key, payload, .. } => self.apply_move_register(key, payload, loc),
            Op::MoveShard { name, kind, payload, .. } => {
                let Ok(entry) = journal::Entry::decode(*kind, payload) else { return };
                let before = self.overlay.shard(name).is_some();
                if self.replay(loc, entry).is_ok() && !before {
                    // What it replaced lies in the victim, which is about to go.
                    self.overlay.resolve_shard(name);
                }
            }
            Op::MoveDeletion { need, .. } => {
                self.journal_deletion(loc.segment, loc.bytes(), need.0, need.1);
            }
            Op::State { .. } | Op::Forget { .. } | Op::Barrier { .. } => {}
        }
    }

    fn apply_move_register(&mut self, key: &RegisterKey, payload: &Bytes, loc: Loc) {
        let Ok(entry) = journal::Entry::decode(kind::ACCEPT, payload) else { return };
        let before = self.overlay.register(key).is_some();
        if self.replay(loc, entry).is_ok() && !before {
            self.overlay.resolve_register(key);
        }
    }

    /// Takes over a state that is durable now.
    fn adopt_state(&mut self, s: DriveState, segment: u32) {
        let horizon = self.state.horizon.max(s.horizon);
        self.apply_state(DriveState { horizon, ..s }, segment);
        self.acceptor.floor_raised(s.floor);
        self.acceptor.fence(s.epoch);
        let role = self.acceptor.role();
        if s.voter && role == ashlar_commit::Role::Joining {
            self.acceptor.joined();
        }
        if !s.voter && role == ashlar_commit::Role::Voter {
            self.reset_acceptor();
        }
    }

    /// A fresh acceptor from the durable state: as after a restart.
    pub fn reset_acceptor(&mut self) {
        let role = if self.state.voter { ashlar_commit::Role::Voter } else { ashlar_commit::Role::Joining };
        let base = self.acceptor.floor().max(self.state.floor);
        self.acceptor = new_acceptor(role, self.state.epoch, base);
        self.acceptor.restore_horizon(self.state.horizon);
    }
}

/// The name of a register for the acceptor: a keyed 128-bit hash.
pub(crate) fn promise_key(key: &RegisterKey) -> u128 {
    let h = ashlar_checksum::frame_hash(&ashlar_checksum::KEY_HASH_KEY, &[key.as_bytes()]);
    let mut b = [0; 16];
    b.copy_from_slice(&h[..16]);
    u128::from_le_bytes(b)
}

/// An acceptor with a table that suits many drives in one process.
pub(crate) fn new_acceptor(role: ashlar_commit::Role, epoch: u32, floor: Ballot) -> ashlar_commit::Acceptor {
    let table = ashlar_commit::PromiseTable::with_capacity(4096);
    ashlar_commit::Acceptor::with_promises(role, epoch, floor, ashlar_commit::HEADROOM, table)
}
