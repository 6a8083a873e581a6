//! Reads a shard, frame by frame.
//!
//! Invariants: a frame is checked against its hash before it is returned, unless the caller takes over the
//! check ([`Check::Reader`]); then it can still be checked afterwards ([`ShardReader::verify`]). What cannot
//! be read or checked is an error. The `_now` functions never wait for a device.
//!
//! Must not depend on: how a caller checks bytes itself.

use crate::core::Shared;
use crate::entry::{Region, ShardName, layout};
use crate::index::must;
use crate::run::{Halt, Lookup, Mode};
use crate::{Error, Result};
use ashlar_format::frame::{self, Layout, PAGE, ShardId};
use ashlar_machine::{Buf, DiskFile, Ended, NotBegun};
use bytes::Bytes;
use parking_lot::Mutex;
use smallvec::SmallVec;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Frames of this size or more bypass the page cache.
const DIRECT_FRAME: usize = 64 << 10;
/// Most bytes that are read without a thread of the drive: for more, the thread is worth its cost, because it also checks them.
const MOST_BY_RING: usize = 1 << 20;

/// Who checks that the bytes are those that were written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Check {
    /// The drive, by the frame's hash.
    Drive,
    /// The caller: it gets unchecked bytes. An inline shard is checked by the drive in any case.
    Reader,
}

/// Reads one shard, frame by frame. A discarded shard stays readable until its last reader is dropped.
pub struct ShardReader {
    len: u64,
    body: Body,
}

enum Body {
    Inline(Bytes),
    Extent(Box<InExtent>),
}

struct InExtent {
    shared: Arc<Shared>,
    file: Arc<DiskFile>,
    region: Region,
    layout: Layout,
    id: ShardId,
    /// The checked hashes, after they were read.
    table: Mutex<Option<Arc<[u8]>>>,
}

/// Frames that were read together.
pub type Frames = SmallVec<[Bytes; 2]>;

/// Frames that are read together; `table`: they are the last ones, and the table after them is read too.
#[derive(Clone, Copy)]
struct Run {
    first: u32,
    count: u32,
    table: bool,
}

impl Drop for InExtent {
    fn drop(&mut self) {
        let id = (self.region.segment, self.region.offset);
        let mut core = self.shared.core.lock();
        if let Some(n) = core.pins.get_mut(&id) {
            *n -= 1;
            if *n == 0 {
                core.pins.remove(&id);
                if let Some(bytes) = core.held.remove(&id) {
                    core.push_freed(crate::space::Freed { region: self.region, bytes });
                }
            }
        }
    }
}

impl ShardReader {
    /// For a shard in the journal.
    pub(crate) fn inline(data: Bytes) -> ShardReader {
        ShardReader { len: data.len() as u64, body: Body::Inline(data) }
    }

    /// For a shard of `len` bytes in a region, which is pinned.
    pub(crate) fn in_extent(
        shared: Arc<Shared>,
        file: Arc<DiskFile>,
        (name, len): (ShardName, u64),
        region: Region,
    ) -> ShardReader {
        let id = ShardId { deployment: shared.label.deployment, write_id: name.0, index: name.1 };
        let layout = layout(len, region.frame);
        let extent = InExtent { shared, file, region, layout, id, table: Mutex::new(None) };
        ShardReader { len, body: Body::Extent(Box::new(extent)) }
    }

    /// Bytes of the shard.
    #[must_use]
    #[allow(clippy::len_without_is_empty)] // a shard is never empty
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Bytes of a frame, except the last (of an inline shard: the whole shard).
    #[must_use]
    pub fn frame(&self) -> u32 {
        match &self.body {
            Body::Inline(b) => b.len() as u32,
            Body::Extent(e) => e.layout.frame,
        }
    }

    /// Number of frames.
    #[must_use]
    pub fn frames(&self) -> u32 {
        match &self.body {
            Body::Inline(_) => 1,
            Body::Extent(e) => e.layout.frames() as u32,
        }
    }

    /// Whether frames come from the device, bypassing the page cache: then reading several at a time is
    /// cheaper.
    #[must_use]
    pub fn is_direct(&self) -> bool {
        match &self.body {
            Body::Inline(_) => false,
            Body::Extent(e) => e.is_direct(0),
        }
    }

    /// Frame `n`. Waits for memory from the pool and for the device.
    ///
    /// # Errors
    /// `Corrupt` if it does not verify, `Io` if it cannot be read, `Malformed` past the end.
    pub async fn read(&self, n: u32, check: Check) -> Result<Bytes> {
        let mut frames = match self.read_run_now(n, 1, check) {
            Some(frames) => frames?,
            None => self.read_run(n, 1, check).await?,
        };
        Ok(frames.swap_remove(0))
    }

    /// The `count` frames from `n` on, with one call to the device; they share one buffer.
    ///
    /// # Errors
    /// Like [`ShardReader::read`]; for the whole run if one frame fails.
    pub async fn read_run(&self, n: u32, count: u32, check: Check) -> Result<Frames> {
        self.within(n, count)?;
        let e = match &self.body {
            Body::Inline(b) => return Ok([b.clone()].into_iter().collect()),
            Body::Extent(e) => e,
        };
        let table = e.table.lock().clone();
        let at_end = n + count == self.frames();
        let run = Run { first: n, count, table: check == Check::Drive && table.is_none() && at_end };
        let mut buf = e.shared.options.pool.get(run.bytes(e.layout)).await;
        let (file, region, layout, id) = (e.file.clone(), e.region, e.layout, e.id);
        let needs_table = check == Check::Drive && table.is_none() && !run.table;
        if buf.len() <= MOST_BY_RING && !needs_table && e.is_direct(n) {
            match e.read_by_ring(n, buf).await? {
                Ok(read) => {
                    let (frames, table) =
                        e.shared.checked_run(layout, id, run, table, check, read).map_err(must)?;
                    if table.is_some() {
                        *e.table.lock() = table;
                    }
                    return Ok(frames);
                }
                Err(unread) => buf = unread,
            }
        }
        let read = move |s: &Arc<Shared>| {
            s.readable()?;
            s.read_run(&file, region, layout, id, run, table, check, buf).map_err(must)
        };
        let place = (region.segment, region.offset + layout.frame_at(u64::from(n)));
        let (frames, table) = e.shared.on_io_at(place, read).await?;
        if table.is_some() {
            *e.table.lock() = table;
        }
        Ok(frames)
    }

    /// Checks frames, from `n` on, that were read with [`Check::Reader`]. Waits for the device, unless the
    /// hashes are in memory.
    ///
    /// # Errors
    /// `Corrupt` if one does not verify, `Io` if the hashes cannot be read, `Malformed` past the end.
    pub async fn verify(&self, n: u32, frames: Frames) -> Result<()> {
        let Body::Extent(e) = &self.body else { return self.within(n, frames.len() as u32) };
        let (id, layout) = (e.id, e.layout);
        self.compare(n, frames.len() as u32, move |s, table| {
            let bytes: SmallVec<[&[u8]; 2]> = frames.iter().map(|b| &b[..]).collect();
            s.check_frames(id, layout, n, &bytes, table)
        })
        .await
    }

    /// Like [`ShardReader::verify`], for a caller that sends the hashes of the frames instead of the frames.
    ///
    /// # Errors
    /// Like [`ShardReader::verify`].
    pub async fn verify_hashes(&self, n: u32, hashes: Vec<[u8; 32]>) -> Result<()> {
        let Body::Extent(e) = &self.body else { return self.within(n, hashes.len() as u32) };
        let id = e.id;
        self.compare(n, hashes.len() as u32, move |s, table| s.compare_hashes(id, n, &hashes, table)).await
    }

    /// Compares something about `count` frames with the table of hashes, which is read if it was not yet.
    async fn compare(
        &self,
        n: u32,
        count: u32,
        compare: impl FnOnce(&Shared, &[u8]) -> Lookup<()> + Send + 'static,
    ) -> Result<()> {
        self.within(n, count)?;
        let Body::Extent(e) = &self.body else { return Ok(()) };
        let table = e.table.lock().clone();
        let (file, region, layout, id) = (e.file.clone(), e.region, e.layout, e.id);
        let look = move |s: &Arc<Shared>| {
            s.readable()?;
            let table = match table {
                Some(t) => t,
                None => s.read_table(&file, region, layout, id, Mode::Wait).map_err(must)?,
            };
            compare(s, &table).map_err(must)?;
            Ok(table)
        };
        *e.table.lock() = Some(e.shared.on_io(look).await?);
        Ok(())
    }

    fn within(&self, n: u32, count: u32) -> Result<()> {
        match n.checked_add(count) {
            Some(end) if count > 0 && end <= self.frames() => Ok(()),
            _ => Err(Error::Malformed("frame number")),
        }
    }

    /// Like [`ShardReader::read_run`], if that is possible without waiting for memory or a device; `None` if not.
    #[must_use]
    pub fn read_run_now(&self, n: u32, count: u32, check: Check) -> Option<Result<Frames>> {
        if let Err(e) = self.within(n, count) {
            return Some(Err(e));
        }
        let e = match &self.body {
            Body::Inline(b) => return Some(Ok([b.clone()].into_iter().collect())),
            Body::Extent(e) => e,
        };
        if let Err(err) = e.shared.readable() {
            return Some(Err(err));
        }
        match (n..n + count).map(|n| e.read_now(n, check)).collect() {
            Ok(frames) => Some(Ok(frames)),
            Err(Halt::WouldBlock) => None,
            Err(Halt::Failed(err)) => Some(Err(err)),
        }
    }
}

impl Run {
    /// Number of bytes that are read at once: frames with the padding between them, and the table.
    fn bytes(&self, layout: Layout) -> usize {
        let last = u64::from(self.first + self.count - 1);
        let end = layout.frame_at(last) + (layout.frame_len(last) as u64).next_multiple_of(PAGE);
        let table = if self.table { layout.table_len() } else { 0 };
        (end - layout.frame_at(u64::from(self.first)) + table) as usize
    }
}

impl InExtent {
    fn is_direct(&self, n: u32) -> bool {
        self.file.is_direct() && self.layout.frame_len(u64::from(n)) >= DIRECT_FRAME
    }

    fn padded(&self, n: u32) -> usize {
        self.layout.frame_len(u64::from(n)).next_multiple_of(ashlar_machine::ALIGN)
    }

    fn read_now(&self, n: u32, check: Check) -> Lookup<Bytes> {
        let s = &self.shared;
        if self.is_direct(n) {
            // Its bytes were written bypassing the page cache and are read the same way: a lookup in the
            // cache would start an unused read-ahead.
            return Err(Halt::WouldBlock);
        }
        let table = match check {
            Check::Drive => Some(self.table_now()?),
            Check::Reader => None,
        };
        let buf = s.options.pool.try_get(self.padded(n)).ok_or(Halt::WouldBlock)?;
        let table = table.as_deref();
        s.read_frame(&self.file, self.region, self.layout, self.id, n, table, buf, Mode::Now)
    }

    /// Fills a buffer from frame `n` on without a thread that waits, if the ring can: otherwise gives it back.
    async fn read_by_ring(&self, n: u32, buf: Buf) -> Result<std::result::Result<Buf, Buf>> {
        let s = &self.shared;
        // A hard disk reads in the order of places; a drive that does not answer gets no more.
        let usable = s.threads && !s.hard_disk.is() && s.stalled().is_none();
        let Some(ring) = s.options.ring.as_ref().filter(|_| usable) else { return Ok(Err(buf)) };
        s.readable()?;
        let (tx, rx) = tokio::sync::oneshot::channel();
        let at = self.region.offset + self.layout.frame_at(u64::from(n));
        // A caller that stops waiting leaves the buffer to the ring.
        let done = Box::new(move |buf, how| drop(tx.send((buf, how))));
        if let Err(NotBegun(buf, _)) = ring.read(&self.file, buf, at, done) {
            return Ok(Err(buf));
        }
        let Ok((buf, how)) = rx.await else { return Err(Error::Offline("closing")) };
        if matches!(how, Ended::NotNow) {
            return Ok(Err(buf));
        }
        s.counters.reads.fetch_add(1, Ordering::Relaxed);
        match how {
            Ended::Failed(e) => Err(must(s.read_failed(self.region.segment, &e))),
            _ => Ok(Ok(buf)),
        }
    }

    fn table_now(&self) -> Lookup<Arc<[u8]>> {
        if let Some(t) = self.table.lock().clone() {
            return Ok(t);
        }
        let t = self.shared.read_table(&self.file, self.region, self.layout, self.id, Mode::Now)?;
        *self.table.lock() = Some(t.clone());
        Ok(t)
    }
}

impl Shared {
    fn read_table(
        &self,
        file: &DiskFile,
        region: Region,
        layout: Layout,
        id: ShardId,
        mode: Mode,
    ) -> Lookup<Arc<[u8]>> {
        let len = layout.table_len() as usize;
        let mut buf = self.options.pool.get_reserved(len);
        self.read_region(file, region, layout.table_at(), &mut buf, mode, len >= DIRECT_FRAME)?;
        self.check_table(id, layout, &buf)
    }

    fn check_table(&self, id: ShardId, layout: Layout, bytes: &[u8]) -> Lookup<Arc<[u8]>> {
        match id.check_table(bytes, layout.frames()) {
            Ok(t) => Ok(t.into()),
            Err(e) => Err(self.corrupt(format!("{e} of shard {:?}.{}", id.write_id, id.index))),
        }
    }

    /// Reads a run of frames and checks them, if requested; `table`: the hashes, if they are in memory.
    #[allow(clippy::too_many_arguments)] // the parts of a reader that cross to another thread
    fn read_run(
        &self,
        file: &DiskFile,
        region: Region,
        layout: Layout,
        id: ShardId,
        run: Run,
        table: Option<Arc<[u8]>>,
        check: Check,
        mut buf: Buf,
    ) -> Lookup<(Frames, Option<Arc<[u8]>>)> {
        let first = layout.frame_at(u64::from(run.first));
        let direct = layout.frame_len(u64::from(run.first)) >= DIRECT_FRAME;
        let turn = self.read_turn();
        self.read_region(file, region, first, &mut buf, Mode::Wait, direct)?;
        drop(turn);
        let table = match table {
            None if check == Check::Drive && !run.table => {
                Some(self.read_table(file, region, layout, id, Mode::Wait)?)
            }
            table => table,
        };
        self.checked_run(layout, id, run, table, check, buf)
    }

    /// Checks the frames that were read into `buf`, if requested; `table`: the hashes, if they are in memory. They are there or in `buf`.
    fn checked_run(
        &self,
        layout: Layout,
        id: ShardId,
        run: Run,
        table: Option<Arc<[u8]>>,
        check: Check,
        buf: Buf,
    ) -> Lookup<(Frames, Option<Arc<[u8]>>)> {
        let first = layout.frame_at(u64::from(run.first));
        let place = |n: u32| -> Range<usize> {
            let at = (layout.frame_at(u64::from(n)) - first) as usize;
            at..at + layout.frame_len(u64::from(n))
        };
        let frames = run.first..run.first + run.count;
        let table = match (check, table) {
            (Check::Reader, table) => table,
            (Check::Drive, table) => {
                let table = match table {
                    Some(t) => t,
                    None => self.check_table(id, layout, &buf[(layout.table_at() - first) as usize..])?,
                };
                let bytes: SmallVec<[&[u8]; 2]> = frames.clone().map(|n| &buf[place(n)]).collect();
                self.check_frames(id, layout, run.first, &bytes, &table)?;
                Some(table)
            }
        };
        let all = buf.freeze();
        Ok((frames.map(|n| all.slice(place(n))).collect(), table))
    }

    /// Checks frames from `first` on against the shard's hashes.
    fn check_frames(
        &self,
        id: ShardId,
        layout: Layout,
        first: u32,
        frames: &[&[u8]],
        table: &[u8],
    ) -> Lookup<()> {
        let mut hashes: SmallVec<[[u8; 32]; 2]> = SmallVec::from_elem([0; 32], frames.len());
        {
            let place = |n: u32| id.frame_place(n, layout.frame_len(u64::from(n)));
            let items: SmallVec<[([u8; 32], &[u8]); 2]> =
                (first..).zip(frames).map(|(n, bytes)| (place(n), *bytes)).collect();
            ashlar_checksum::frame_hashes(&id.key(), &items, &mut hashes);
        }
        self.compare_hashes(id, first, &hashes, table)
    }

    fn compare_hashes(&self, id: ShardId, first: u32, hashes: &[[u8; 32]], table: &[u8]) -> Lookup<()> {
        for (n, hash) in (first..).zip(hashes) {
            let at = n as usize * 32;
            if hash[..] != table[at..at + 32] {
                return Err(self.corrupt(format!("frame {n} of shard {:?}.{}", id.write_id, id.index)));
            }
        }
        Ok(())
    }

    /// Reads a frame; with `table`, the shard's hashes, it is checked.
    #[allow(clippy::too_many_arguments)] // the parts of a reader that cross to another thread
    fn read_frame(
        &self,
        file: &DiskFile,
        region: Region,
        layout: Layout,
        id: ShardId,
        n: u32,
        table: Option<&[u8]>,
        mut buf: Buf,
        mode: Mode,
    ) -> Lookup<Bytes> {
        let len = layout.frame_len(u64::from(n));
        let direct = len >= DIRECT_FRAME && mode == Mode::Wait;
        if !direct {
            buf.set_len(len);
        }
        self.read_region(file, region, layout.frame_at(u64::from(n)), &mut buf, mode, direct)?;
        if let Some(table) = table {
            self.check_frames(id, layout, n, &[&buf[..len]], table)?;
        }
        Ok(buf.freeze().slice(..len))
    }

    fn read_region(
        &self,
        file: &DiskFile,
        region: Region,
        at: u64,
        buf: &mut [u8],
        mode: Mode,
        direct: bool,
    ) -> Lookup<()> {
        self.counters.reads.fetch_add(1, Ordering::Relaxed);
        let at = region.offset + at;
        let r = match mode {
            Mode::Now => file.read_at_now(buf, at),
            Mode::Wait if direct => file.read_at_direct(buf, at).map(|()| true),
            Mode::Wait => file.read_at(buf, at).map(|()| true),
        };
        match r {
            Ok(true) => Ok(()),
            Ok(false) => Err(Halt::WouldBlock),
            Err(e) => Err(self.read_failed(region.segment, &e)),
        }
    }

    /// Reads a whole shard from the device and checks everything about it.
    pub fn verify_shard(self: &Arc<Self>, name: ShardName) -> Result<()> {
        let reader = self.open_shard(name, Mode::Wait).map_err(must)?;
        let Body::Extent(e) = &reader.body else { return Ok(()) };
        let Some(shard) = self.shard_now(name, Mode::Wait).map_err(must)? else {
            return Err(Error::Missing);
        };
        let mut page = self.options.pool.get_reserved(ashlar_machine::ALIGN);
        self.read_region(&e.file, e.region, 0, &mut page, Mode::Wait, true).map_err(must)?;
        let same = frame::decode_header(&page, &self.key).is_ok_and(|h| {
            (h.write_id, h.index) == name
                && h.owner == shard.owner.as_bytes()
                && (h.len, h.frame) == (shard.len, e.region.frame)
                && (h.segment, h.offset) == (e.region.segment, e.region.offset)
        });
        if !same {
            return Err(must(self.corrupt(format!("header of shard {:?}.{}", name.0, name.1))));
        }
        let (l, r, id) = (e.layout, e.region, e.id);
        let table = self.read_table(&e.file, r, l, id, Mode::Wait).map_err(must)?;
        for n in 0..reader.frames() {
            let buf = self.options.pool.get_reserved(e.padded(n));
            self.read_frame(&e.file, r, l, id, n, Some(&table), buf, Mode::Wait).map_err(must)?;
        }
        Ok(())
    }
}
