//! Looking up and reading, with and without waiting.
//!
//! Invariants: every record and frame is checked before it is handed out, against hashes bound to
//! its place or identity; what cannot be read or checked is an error, never "absent"; the `_now`
//! functions never wait for a device.

use crate::core::{Core, Shared};
use crate::entry::{Loc, Region, Register, Shard, ShardName, layout};
use crate::files::Kind;
use crate::index::must;
use crate::run::{Halt, Look, Mode};
use crate::{Error, Result};
use ashlar_format::RegisterKey;
use ashlar_format::frame::{self, Layout, PAGE, ShardId};
use ashlar_format::journal::{self, Entry, RECORD_HEADER};
use ashlar_machine::{Buf, DiskFile};
use bytes::Bytes;
use parking_lot::Mutex;
use smallvec::SmallVec;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Records from here on are read into pooled buffers.
const POOLED: usize = 32 << 10;
/// Frames from here on bypass the page cache.
const DIRECT_FRAME: usize = 64 << 10;
/// How often a lookup is repeated when compaction moves what it found.
const RETRIES: usize = 16;

impl Core {
    pub fn may_look_up(&self) -> Look<()> {
        if self.rebuilding {
            return Err(Halt::Failed(Error::Offline("the index is being rebuilt")));
        }
        Ok(())
    }
}

impl Shared {
    /// The register's entry in the index.
    pub fn register_now(&self, key: &RegisterKey, mode: Mode) -> Look<Option<Register>> {
        Ok(self.look_up(key, mode)?.0)
    }

    /// The register's entry, and the generation of the index it was found in.
    pub fn look_up(&self, key: &RegisterKey, mode: Mode) -> Look<(Option<Register>, u64)> {
        let (runs, generation) = {
            let core = self.core.lock();
            core.may_look_up()?;
            match core.overlay.register(key) {
                Some(found) => return Ok((found.cloned(), core.generation)),
                None => (core.runs.clone(), core.generation),
            }
        };
        Ok((runs.register(key.as_bytes(), mode)?, generation))
    }

    /// The shard's entry in the index.
    pub fn shard_now(&self, name: ShardName, mode: Mode) -> Look<Option<Shard>> {
        Ok(self.shard_and_generation(name, mode)?.0)
    }

    /// The shard's entry, and the generation of the index it was found in.
    fn shard_and_generation(&self, name: ShardName, mode: Mode) -> Look<(Option<Shard>, u64)> {
        let (runs, generation) = {
            let core = self.core.lock();
            core.may_look_up()?;
            match core.overlay.shard(&name) {
                Some(found) => return Ok((found.cloned(), core.generation)),
                None => (core.runs.clone(), core.generation),
            }
        };
        Ok((runs.shard(name, mode)?, generation))
    }

    /// Reads and checks a journal record; returns its payload.
    pub fn payload(&self, loc: Loc, kind: u8, mode: Mode) -> Look<Bytes> {
        let file = match self.files.peek(Kind::Journal, loc.segment) {
            Some(f) => f,
            None if mode == Mode::Now && self.threads => return Err(Halt::WouldBlock),
            None => self.journal_file(loc.segment).map_err(|e| self.read_failed(loc.segment, &e))?,
        };
        let len = RECORD_HEADER + loc.len as usize;
        let (bytes, found) = if len < POOLED {
            let mut v = vec![0; len];
            self.read_into(&file, &mut v, loc, mode)?;
            let found = self.check(&v, loc)?;
            (Bytes::from(v), found)
        } else {
            let mut b = match self.options.pool.try_get(len) {
                Some(b) => b,
                None if mode == Mode::Now => return Err(Halt::WouldBlock),
                None => self.options.pool.get_reserved(len),
            };
            self.read_into(&file, &mut b, loc, mode)?;
            let found = self.check(&b, loc)?;
            (b.freeze(), found)
        };
        if found != kind {
            return Err(self.corrupt(format!("journal record of another kind at {loc:?}")));
        }
        Ok(bytes.slice(RECORD_HEADER..))
    }

    fn read_into(&self, file: &DiskFile, buf: &mut [u8], loc: Loc, mode: Mode) -> Look<()> {
        self.counters.reads.fetch_add(1, Ordering::Relaxed);
        let at = u64::from(loc.at);
        match mode {
            Mode::Wait => file.read_at(buf, at).map_err(|e| self.read_failed(loc.segment, &e)),
            Mode::Now => match file.read_at_now(buf, at) {
                Ok(true) => Ok(()),
                Ok(false) => Err(Halt::WouldBlock),
                Err(e) => Err(self.read_failed(loc.segment, &e)),
            },
        }
    }

    fn check(&self, bytes: &[u8], loc: Loc) -> Look<u8> {
        match journal::record(bytes, &self.key, loc.segment, loc.at) {
            Ok((kind, p)) if p.len() == loc.len as usize => Ok(kind),
            _ => Err(self.corrupt(format!("journal record at {loc:?}"))),
        }
    }

    fn corrupt(&self, what: String) -> Halt {
        self.counters.read_errors.fetch_add(1, Ordering::Relaxed);
        Halt::Failed(Error::Corrupt(what))
    }

    fn read_failed(&self, segment: u32, e: &std::io::Error) -> Halt {
        match e.kind() {
            std::io::ErrorKind::NotFound | std::io::ErrorKind::UnexpectedEof => {
                self.corrupt(format!("segment {segment}: {e}"))
            }
            _ => {
                self.counters.read_errors.fetch_add(1, Ordering::Relaxed);
                Halt::Failed(Error::io(format!("reading segment {segment}"), e))
            }
        }
    }

    /// Repeats a read whose record compaction moved away meanwhile.
    fn settled<T>(&self, segment: u32, r: Look<T>) -> Option<Look<T>> {
        let moved = matches!(&r, Err(Halt::Failed(_))) && !self.core.lock().journal.contains_key(&segment);
        (!moved).then_some(r)
    }

    /// Entry and record bytes of a register.
    pub fn read_register(
        &self,
        key: &RegisterKey,
        want_record: bool,
        mode: Mode,
    ) -> Look<Option<(Register, Option<Bytes>)>> {
        for attempt in 0.. {
            let Some(r) = self.register_now(key, mode)? else { return Ok(None) };
            if !want_record {
                return Ok(Some((r, None)));
            }
            let found = self.payload(r.loc, journal::kind::ACCEPT, mode);
            let found = match self.settled(r.loc.segment, found) {
                Some(f) => f,
                None if attempt < RETRIES => continue,
                None => Err(self.corrupt("a record that moves".into())),
            };
            let payload = found?;
            let same = matches!(
                Entry::decode(journal::kind::ACCEPT, &payload),
                Ok(Entry::Accept(e)) if e.key == key.as_bytes() && e.ballot == r.ballot
            );
            if !same {
                return Err(self.corrupt(format!("the record of {key:?} is another one's")));
            }
            let record = payload.slice(payload.len() - r.record_len as usize..);
            return Ok(Some((r, Some(record))));
        }
        unreachable!("the loop returns")
    }

    /// Opens a shard.
    pub fn open_shard(self: &Arc<Self>, name: ShardName, mode: Mode) -> Look<ShardReader> {
        for attempt in 0.. {
            let (Some(s), generation) = self.shard_and_generation(name, mode)? else {
                return Err(Halt::Failed(Error::Missing));
            };
            if let Some(region) = s.extent {
                return match self.open_extent(name, (&s, generation), region, mode)? {
                    Some(r) => Ok(r),
                    None if attempt < RETRIES => continue,
                    None => Err(Halt::Failed(Error::Missing)),
                };
            }
            let found = self.payload(s.loc, journal::kind::STAGE, mode);
            let found = match self.settled(s.loc.segment, found) {
                Some(f) => f,
                None if attempt < RETRIES => continue,
                None => Err(self.corrupt("a shard that moves".into())),
            };
            let payload = found?;
            let data = match Entry::decode(journal::kind::STAGE, &payload) {
                Ok(Entry::Stage(e)) if (e.write_id, e.index) == name && e.data.len() as u64 == s.len => {
                    payload.slice(payload.len() - e.data.len()..)
                }
                _ => return Err(self.corrupt("a shard's record is another one's".into())),
            };
            return Ok(ShardReader { len: s.len, body: Body::Inline(data) });
        }
        unreachable!("the loop returns")
    }

    /// `None`: the entry changed meanwhile.
    fn open_extent(
        self: &Arc<Self>,
        name: ShardName,
        (s, generation): (&Shard, u64),
        region: Region,
        mode: Mode,
    ) -> Look<Option<ShardReader>> {
        let file = match self.files.peek(Kind::Extent, region.segment) {
            Some(f) => f,
            None if mode == Mode::Now && self.threads => return Err(Halt::WouldBlock),
            None => match self.extent_file(region.segment) {
                Ok(f) => f,
                // Its number is gone because it was empty: the entry is an old one.
                Err(_) if !self.core.lock().extents.contains_key(&region.segment) => return Ok(None),
                Err(e) => return Err(self.read_failed(region.segment, &e)),
            },
        };
        {
            // Pinned under the lock under which a discard would free it.
            let mut core = self.core.lock();
            match core.overlay.shard(&name) {
                Some(Some(now)) if now.extent == s.extent => {}
                Some(_) => return Ok(None),
                // The index files changed since the look into them: what freed the region may be there.
                None if core.generation != generation => return Ok(None),
                None => {}
            }
            // An empty segment leaves the table before it is used again or removed.
            if !core.extents.contains_key(&region.segment) {
                return Ok(None);
            }
            *core.pins.entry((region.segment, region.offset)).or_insert(0) += 1;
        }
        Ok(Some(ShardReader {
            len: s.len,
            body: Body::Extent(Box::new(InExtent {
                shared: self.clone(),
                file,
                region,
                layout: layout(s.len, region.frame),
                id: ShardId { deployment: self.label.deployment, write_id: name.0, index: name.1 },
                table: Mutex::new(None),
            })),
        }))
    }
}

/// Reads one shard, frame by frame, verified. A discarded shard stays readable until its last
/// reader is dropped.
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
    /// The checked hashes, once read.
    table: Mutex<Option<Arc<[u8]>>>,
}

/// Verified frames that were read together.
pub type Frames = SmallVec<[Bytes; 2]>;

/// Frames that are read together; `table`: they are the last ones, and the table behind them too.
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
                    core.freed.push(crate::core::Freed { region: self.region, bytes });
                }
            }
        }
    }
}

impl ShardReader {
    /// Bytes of the shard.
    #[must_use]
    #[allow(clippy::len_without_is_empty)] // a shard is never empty
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Bytes of a frame but the last (of an inline shard: the whole shard).
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

    /// Whether frames come from the device, past the page cache: then several at a time are cheaper.
    #[must_use]
    pub fn is_direct(&self) -> bool {
        match &self.body {
            Body::Inline(_) => false,
            Body::Extent(e) => e.is_direct(0),
        }
    }

    /// Frame `n`, verified. Waits for memory from the pool and for the device.
    ///
    /// # Errors
    /// `Corrupt` when it does not verify, `Io` when it cannot be read, `Malformed` past the end.
    pub async fn read(&self, n: u32) -> Result<Bytes> {
        match self.read_now(n) {
            Some(r) => r,
            None => Ok(self.read_run(n, 1).await?.swap_remove(0)),
        }
    }

    /// The `count` frames from `n` on, verified, with one call to the device; they share one buffer.
    ///
    /// # Errors
    /// As [`ShardReader::read`]; of the whole run if one frame fails.
    pub async fn read_run(&self, n: u32, count: u32) -> Result<Frames> {
        if count == 0 || n.checked_add(count).is_none_or(|end| end > self.frames()) {
            return Err(Error::Malformed("frame number"));
        }
        let e = match &self.body {
            Body::Inline(b) => return Ok([b.clone()].into_iter().collect()),
            Body::Extent(e) => e,
        };
        let table = e.table.lock().clone();
        let run = Run { first: n, count, table: table.is_none() && n + count == self.frames() };
        let buf = e.shared.options.pool.get(run.bytes(e.layout)).await;
        let (file, region, layout, id) = (e.file.clone(), e.region, e.layout, e.id);
        let (frames, table) = e
            .shared
            .on_io(move |s| {
                s.readable()?;
                s.read_run(&file, region, layout, id, run, table, buf).map_err(must)
            })
            .await?;
        *e.table.lock() = Some(table);
        Ok(frames)
    }

    /// As [`ShardReader::read`] when neither memory nor a device has to be waited for.
    #[must_use]
    pub fn read_now(&self, n: u32) -> Option<Result<Bytes>> {
        if n >= self.frames() {
            return Some(Err(Error::Malformed("frame number")));
        }
        let e = match &self.body {
            Body::Inline(b) => return Some(Ok(b.clone())),
            Body::Extent(e) => e,
        };
        if let Err(err) = e.shared.readable() {
            return Some(Err(err));
        }
        match e.read_now(n) {
            Ok(b) => Some(Ok(b)),
            Err(Halt::WouldBlock) => None,
            Err(Halt::Failed(err)) => Some(Err(err)),
        }
    }
}

impl Run {
    /// What is read at once: frames with the padding between them, and the table.
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

    fn read_now(&self, n: u32) -> Look<Bytes> {
        let s = &self.shared;
        if self.is_direct(n) {
            // Its bytes were written past the page cache and are read past it: looking there would
            // start a read-ahead of pages that nobody reads.
            return Err(Halt::WouldBlock);
        }
        let known = self.table.lock().clone();
        let table = match known {
            Some(t) => t,
            None => {
                let t = s.read_table(&self.file, self.region, self.layout, self.id, Mode::Now)?;
                *self.table.lock() = Some(t.clone());
                t
            }
        };
        let buf = s.options.pool.try_get(self.padded(n)).ok_or(Halt::WouldBlock)?;
        s.read_frame(&self.file, self.region, self.layout, self.id, n, &table, buf, Mode::Now)
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
    ) -> Look<Arc<[u8]>> {
        let len = layout.table_len() as usize;
        let mut buf = self.options.pool.get_reserved(len);
        self.read_region(file, region, layout.table_at(), &mut buf, mode, len >= DIRECT_FRAME)?;
        self.check_table(id, layout, &buf)
    }

    fn check_table(&self, id: ShardId, layout: Layout, bytes: &[u8]) -> Look<Arc<[u8]>> {
        match id.check_table(bytes, layout.frames()) {
            Ok(t) => Ok(t.into()),
            Err(e) => Err(self.corrupt(format!("{e} of shard {:?}.{}", id.write_id, id.index))),
        }
    }

    /// Reads and checks a run of frames; `table`: the hashes, if they are known.
    #[allow(clippy::too_many_arguments)] // the parts of a reader that cross to another thread
    fn read_run(
        &self,
        file: &DiskFile,
        region: Region,
        layout: Layout,
        id: ShardId,
        run: Run,
        table: Option<Arc<[u8]>>,
        mut buf: Buf,
    ) -> Look<(Frames, Arc<[u8]>)> {
        let first = layout.frame_at(u64::from(run.first));
        let direct = layout.frame_len(u64::from(run.first)) >= DIRECT_FRAME;
        self.read_region(file, region, first, &mut buf, Mode::Wait, direct)?;
        let table = match table {
            Some(t) => t,
            None if run.table => {
                self.check_table(id, layout, &buf[(layout.table_at() - first) as usize..])?
            }
            None => self.read_table(file, region, layout, id, Mode::Wait)?,
        };
        let place = |n: u32| {
            let at = (layout.frame_at(u64::from(n)) - first) as usize;
            at..at + layout.frame_len(u64::from(n))
        };
        let frames = run.first..run.first + run.count;
        let mut hashes: SmallVec<[[u8; 32]; 2]> = SmallVec::from_elem([0; 32], frames.len());
        {
            let item = |n| (id.frame_place(n, layout.frame_len(u64::from(n))), &buf[place(n)]);
            let items: SmallVec<[([u8; 32], &[u8]); 2]> = frames.clone().map(item).collect();
            ashlar_checksum::frame_hashes(&id.key(), &items, &mut hashes);
        }
        for (n, hash) in frames.clone().zip(&hashes) {
            let at = n as usize * 32;
            if hash[..] != table[at..at + 32] {
                let what = format!("frame {n} of shard {:?}.{}", id.write_id, id.index);
                return Err(self.corrupt(what));
            }
        }
        let all = buf.freeze();
        Ok((frames.map(|n| all.slice(place(n))).collect(), table))
    }

    #[allow(clippy::too_many_arguments)] // the parts of a reader that cross to another thread
    fn read_frame(
        &self,
        file: &DiskFile,
        region: Region,
        layout: Layout,
        id: ShardId,
        n: u32,
        table: &[u8],
        mut buf: Buf,
        mode: Mode,
    ) -> Look<Bytes> {
        let len = layout.frame_len(u64::from(n));
        let direct = len >= DIRECT_FRAME && mode == Mode::Wait;
        if !direct {
            buf.set_len(len);
        }
        self.read_region(file, region, layout.frame_at(u64::from(n)), &mut buf, mode, direct)?;
        let at = n as usize * 32;
        if id.frame_hash(n, &buf[..len]) != table[at..at + 32] {
            let what = format!("frame {n} of shard {:?}.{}", id.write_id, id.index);
            return Err(self.corrupt(what));
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
    ) -> Look<()> {
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
            self.read_frame(&e.file, r, l, id, n, &table, buf, Mode::Wait).map_err(must)?;
        }
        Ok(())
    }
}
