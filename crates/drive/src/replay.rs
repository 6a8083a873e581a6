//! Recovery: replays the journal from the manifest's position, or from its beginning, to its end.
//!
//! Invariants: a batch counts as a whole or not at all; a torn tail is cut off silently; anything else that
//! does not verify is *damage*: the drive has then lost something and must join again (docs/protocol.md 2.7).
//! What another release wrote is neither: the drive is refused and nothing on it changes. Recovery can be
//! interrupted and repeated at any point.
//!
//! Must not depend on: other drives.

use crate::core::Shared;
use crate::entry::Loc;
use crate::files::{Kind, segment_name, segment_number};
use crate::index::must;
use crate::run::Mode;
use crate::space::{Position, Segment, Spare};
use crate::window::{WINDOW, Window};
use crate::{Error, Result};
use ashlar_format::RegisterKey;
use ashlar_format::journal::{
    self, BATCH_HEADER, Batch, Body, Entry, ExtentEntry, Found, PAGE, RECORD_HEADER, SECTOR, SegmentHeader,
};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// How a segment ended.
#[derive(Debug, PartialEq, Eq)]
enum End {
    /// By a seal that names the next one.
    Sealed(u32),
    /// After the last batch there is nothing, or only a torn batch.
    Open,
}

/// The results of recovery other than the index.
#[derive(Debug, Default)]
pub(crate) struct Recovered {
    pub position: Position,
    /// Bytes after the position that are not zero, up to this offset of the segment.
    pub dirty: u64,
    /// Batches or segments that could not be read.
    pub damage: u64,
    /// Batches replayed.
    pub batches: u64,
    /// The segment of the position has a format of an earlier release.
    older: bool,
    /// Segments that are prepared or left over and not part of the journal.
    extra: Vec<(u32, u64)>,
}

struct Replay<'a> {
    shared: &'a Arc<Shared>,
    out: Recovered,
    /// The last list of segments seen, and the segment it was in.
    listed: Option<(u32, BTreeSet<u32>)>,
    /// Whether the chain value of the position is known.
    chained: bool,
}

impl Shared {
    /// Replays the journal from `core.applied`; if its segment is zero, the whole journal.
    pub fn replay_journal(self: &Arc<Self>) -> Result<Recovered> {
        let names = self.journal_folder.list().map_err(|e| Error::io("journal folder", &e))?;
        let numbers: BTreeSet<u32> = names.iter().filter_map(|n| segment_number(n)).collect();
        let start = self.core.lock().applied;
        let mut r = Replay {
            shared: self,
            out: Recovered { position: start, ..Default::default() },
            listed: None,
            chained: start.segment != 0,
        };
        r.run(&numbers)?;
        if r.out.position.segment == 0 {
            r.damaged(0, 0, "there is no journal");
        }
        r.check_missing(&numbers);
        let out = r.out;
        {
            let mut core = self.core.lock();
            core.journal.retain(|n, _| numbers.contains(n));
            core.applied = out.position;
            core.active = out.position.segment;
            let last = numbers.iter().next_back().copied().unwrap_or(0);
            core.next_segment = core.next_segment.max(last + 1);
            core.groups.restart();
        }
        self.counters.journal_damage.fetch_add(out.damage, Ordering::Relaxed);
        self.counters.opened_sequence.store(out.position.seq, Ordering::Relaxed);
        Ok(out)
    }
}

impl Replay<'_> {
    fn run(&mut self, numbers: &BTreeSet<u32>) -> Result<()> {
        let start = self.out.position.segment;
        let mut expected = (start != 0).then_some(start);
        if let Some(n) = expected
            && !numbers.contains(&n)
        {
            self.damaged(n, 0, "the segment of the checkpoint is missing");
            expected = None;
        }
        let mut last_open = false;
        for &n in numbers.range(start..) {
            let file = Arc::new(
                self.shared
                    .journal_folder
                    .open(&segment_name(n), self.shared.options.direct)
                    .map_err(|e| Error::io(segment_name(n), &e))?,
            );
            let bytes = file.len().map_err(|e| Error::io(segment_name(n), &e))?;
            let mut w = Window::new(file.clone(), bytes);
            let named = expected == Some(n);
            let header = self.header(&mut w, n)?;
            if header.is_none() {
                if named || self.has_batches(&mut w, n)? {
                    self.damaged(n, 0, "the segment header does not verify");
                } else {
                    // It was being made when the power failed.
                    self.out.extra.push((n, 0));
                    continue;
                }
            }
            let begun = self.has_batches(&mut w, n)?;
            if !named && !begun {
                // One of an earlier release is not used.
                let usable = header.is_some_and(|h| h.is_current());
                self.out.extra.push((n, if usable { bytes } else { 0 }));
                continue;
            }
            if last_open && begun {
                self.damaged(n - 1, 0, "the segment before ended without a seal");
            }
            if !named {
                // Segments before it were removed by compaction; the list at the end shows whether one was
                // lost.
                self.chained = false;
            }
            self.shared.files.put(Kind::Journal, n, file);
            let at = if n == start { self.out.position.at } else { PAGE as u32 };
            self.shared
                .core
                .lock()
                .journal
                .entry(n)
                .or_insert_with(|| Segment { bytes, ..Default::default() });
            self.out.position.segment = n;
            self.out.position.at = at;
            self.out.older = header.is_some_and(|h| !h.is_current());
            let end = self.segment(&mut w, n)?;
            last_open = end == End::Open;
            expected = match end {
                End::Sealed(next) => Some(next),
                End::Open => None,
            };
        }
        if let Some(next) = expected
            && next > self.out.position.segment
        {
            self.damaged(next, 0, "the last segment is missing");
        }
        Ok(())
    }

    fn damaged(&mut self, segment: u32, at: u32, what: &str) {
        self.out.damage += 1;
        let mut notes = self.shared.counters.damage.lock();
        if notes.len() < crate::counters::MAX_NOTES {
            notes.push(format!("journal segment {segment} at {at}: {what}"));
        }
        tracing::error!(drive = %self.shared.label.drive, segment, at, what, "journal damage");
    }

    /// The header of a segment; `None` if it does not verify.
    fn header(&self, w: &mut Window, n: u32) -> Result<Option<SegmentHeader>> {
        let page = w.get(0, PAGE).map_err(|e| Error::io(segment_name(n), &e))?;
        match SegmentHeader::decode(page, &self.shared.key, n) {
            Ok(h) => Ok((h.bytes == w.bytes).then_some(h)),
            Err(e @ ashlar_format::Error::Version { .. }) => Err(newer(&e)),
            Err(_) => Ok(None),
        }
    }

    /// Whether the first batch of a segment verifies, which distinguishes a used segment from a prepared one.
    fn has_batches(&self, w: &mut Window, n: u32) -> Result<bool> {
        let head = w.get(PAGE as u64, SECTOR).map_err(|e| Error::io(segment_name(n), &e))?;
        if head.len() < SECTOR {
            return Ok(false);
        }
        let found = journal::batch_header(head, &self.shared.key, n, PAGE as u32);
        let Found::Header(b) = found else { return Ok(found == Found::Damaged) };
        let bytes = w.get(PAGE as u64, b.len as usize);
        let bytes = bytes.map_err(|e| Error::io(segment_name(n), &e))?;
        if bytes.len() < b.len as usize {
            return Ok(true);
        }
        let body = journal::batch_body(bytes, &self.shared.key, n, PAGE as u32, &b, |_, _, _| {});
        Ok(body != Body::Torn)
    }

    /// Replays one segment from the position on.
    fn segment(&mut self, w: &mut Window, n: u32) -> Result<End> {
        loop {
            let at = self.out.position.at;
            if u64::from(at) + SECTOR as u64 > w.bytes {
                return Ok(End::Open);
            }
            let head = w.get(u64::from(at), SECTOR).map_err(|e| Error::io(segment_name(n), &e))?;
            match journal::batch_header(head, &self.shared.key, n, at) {
                Found::Header(b) => match self.batch(w, n, at, &b)? {
                    Step::Next => {}
                    Step::Sealed(next) => return Ok(End::Sealed(next)),
                    Step::Torn => return self.tail(w, n, at, false),
                },
                Found::Unwritten => return self.tail(w, n, at, false),
                Found::Damaged => return self.tail(w, n, at, true),
            }
        }
    }

    /// A batch whose header verifies.
    fn batch(&mut self, w: &mut Window, n: u32, at: u32, b: &Batch) -> Result<Step> {
        let bytes = w.get(u64::from(at), b.len as usize);
        let bytes = bytes.map_err(|e| Error::io(segment_name(n), &e))?;
        if bytes.len() < b.len as usize {
            self.damaged(n, at, "a batch is longer than its segment");
            self.out.position.at = w.bytes as u32;
            return Ok(Step::Next);
        }
        let mut found = Vec::with_capacity(b.count as usize);
        let body = journal::batch_body(bytes, &self.shared.key, n, at, b, |rec, kind, payload| {
            found.push((rec, kind, payload));
        });
        if body == Body::Torn {
            return Ok(Step::Torn);
        }
        let broken =
            self.chained && (b.previous != self.out.position.chain || b.seq != self.out.position.seq + 1);
        for (_, kind, payload) in &found {
            self.promote(*kind, payload)?;
        }
        let mut seal = None;
        let mut bad = 0;
        {
            let mut core = self.shared.core.lock();
            for (rec, kind, payload) in found {
                match Entry::decode(kind, payload) {
                    Err(_) => bad += 1,
                    Ok(Entry::Seal { next }) => seal = Some(next),
                    Ok(Entry::Segments(list)) => {
                        self.listed = Some((n, list.into_iter().collect()));
                    }
                    Ok(entry) => {
                        let loc = Loc { segment: n, at: rec, len: payload.len() as u32 };
                        bad += u32::from(core.replay(loc, entry).is_err());
                    }
                }
            }
            self.out.position = Position { segment: n, at: at + b.len, seq: b.seq, chain: b.chain };
            core.applied = self.out.position;
        }
        self.out.batches += 1;
        self.chained = true;
        if broken {
            self.damaged(n, at, "a batch before this one is missing");
        }
        if body == Body::Damaged || bad > 0 {
            self.damaged(n, at, "records do not verify");
        }
        self.make_room()?;
        Ok(seal.map_or(Step::Next, Step::Sealed))
    }

    /// Deletions are compared with the entries that they delete, a hint is added to one, and a shard in an extent with its previous
    /// entry, which has the same region if compaction moved its record. This copies those entries from the
    /// index files into the overlay. (A copy made by compaction may follow long after the entry was
    /// replaced.)
    fn promote(&self, kind: u8, payload: &[u8]) -> Result<()> {
        let runs = self.shared.core.lock().runs.clone();
        match Entry::decode(kind, payload) {
            Ok(Entry::Purge { key, .. }) => {
                let Some(key) = RegisterKey::from_bytes(key) else { return Ok(()) };
                let known = self.shared.core.lock().overlay.register(&key).is_some();
                if !known && let Some(r) = runs.register(key.as_bytes(), Mode::Wait).map_err(must)? {
                    self.shared.core.lock().promote_register(&key, r);
                }
            }
            Ok(Entry::Hints(hints)) => {
                for (key, ballot) in hints {
                    let Some(key) = RegisterKey::from_bytes(key) else { return Ok(()) };
                    let known = self.shared.core.lock().overlay.register(&key).is_some();
                    if !known
                        && let Some(r) = runs.register(key.as_bytes(), Mode::Wait).map_err(must)?
                        && r.ballot == ballot
                        && !r.hinted()
                    {
                        self.shared.core.lock().promote_register(&key, r);
                    }
                }
            }
            Err(e @ ashlar_format::Error::Version { .. }) => return Err(newer(&e)),
            Ok(Entry::Discard { write_id, index, .. })
            | Ok(Entry::Extent(ExtentEntry { write_id, index, .. })) => {
                let name = (write_id, index);
                let known = self.shared.core.lock().overlay.shard(&name).is_some();
                if !known && let Some(s) = runs.shard(name, Mode::Wait).map_err(must)? {
                    self.shared.core.lock().promote_shard(name, s);
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Keeps memory bounded while a long journal is replayed.
    fn make_room(&self) -> Result<()> {
        let full = self.shared.core.lock().overlay.active.bytes > self.shared.options.cache_bytes;
        if full {
            self.shared.drain()?;
            self.shared.merge_all(&mut Vec::new())?;
        }
        Ok(())
    }

    /// There is no valid batch at `at`: the journal ends here, unless a valid batch follows.
    fn tail(&mut self, w: &mut Window, n: u32, at: u32, damaged: bool) -> Result<End> {
        let mut dirty = 0;
        let mut pos = u64::from(at);
        while pos < w.bytes {
            let sector = w.get(pos, SECTOR).map_err(|e| Error::io(segment_name(n), &e))?;
            if !journal::is_zero(sector) {
                dirty = pos + sector.len() as u64;
                if pos > u64::from(at)
                    && let Found::Header(_) = journal::batch_header(sector, &self.shared.key, n, pos as u32)
                {
                    self.damaged(n, at, "a batch in the middle does not verify");
                    self.chained = false;
                    self.out.position.at = pos as u32;
                    return self.segment(w, n);
                }
            }
            pos += SECTOR as u64;
        }
        if damaged {
            self.damaged(n, at, "the last batch does not verify and is not torn");
        }
        self.out.dirty = dirty;
        Ok(End::Open)
    }

    /// Every listed segment must be there.
    fn check_missing(&mut self, numbers: &BTreeSet<u32>) {
        let listed = self.listed.take().map(|(_, list)| list);
        let core = self.shared.core.lock();
        let known: BTreeSet<u32> = core.journal.keys().copied().collect();
        drop(core);
        let list = listed.unwrap_or_else(|| known.clone());
        for n in list {
            // A file that exists but was not recognized as a segment does not count.
            if !numbers.contains(&n) || !known.contains(&n) {
                self.damaged(n, 0, "a journal segment is missing");
            }
        }
    }
}

/// Written by another release, newer or older: refused as a whole and left unchanged, never repaired as
/// damage.
fn newer(e: &ashlar_format::Error) -> Error {
    Error::Unsuitable(e.to_string())
}

enum Step {
    Next,
    Sealed(u32),
    Torn,
}

impl Shared {
    /// Prepares the head after a replay, so that the journal can continue. `fenced`: the drive fenced itself,
    /// so what was read of the last segment may be in the page cache only (pages count as clean after a
    /// failed flush). It is written again before anything relies on it.
    pub fn resume(self: &Arc<Self>, found: &Recovered, fenced: bool) -> Result<()> {
        let at = found.position;
        let mut w = self.writer.lock();
        w.opened_at(at);
        w.file = None;
        for &(n, bytes) in &found.extra {
            let usable = n == at.segment + 1 && bytes > 0 && found.damage == 0 && !fenced;
            if usable && self.core.lock().spare.is_none() && self.is_blank(n, bytes)? {
                let file = self
                    .journal_folder
                    .open(&segment_name(n), self.options.direct)
                    .map_err(|e| self.failed("opening a journal segment", &e))?;
                self.core.lock().spare = Some(Spare { number: n, bytes, file: Arc::new(file) });
            } else {
                let r = self.journal_folder.remove(&segment_name(n));
                r.map_err(|e| self.failed("removing a journal segment", &e))?;
                self.files.forget(Kind::Journal, n);
            }
        }
        if found.damage > 0 || at.segment == 0 {
            // Damaged bytes are left unchanged; the journal continues in a new segment.
            let last = self.core.lock().journal.keys().next_back().copied().unwrap_or(0);
            w.position.segment = last;
            return Ok(());
        }
        let file = self.journal_file(at.segment).map_err(|e| self.failed("opening the journal", &e))?;
        let bytes = file.len().map_err(|e| self.failed("opening the journal", &e))?;
        if found.dirty > u64::from(at.at) {
            // The remains of a batch that was never acknowledged.
            let mut zeros = self.options.pool.get_reserved(64 << 10);
            zeros.fill(0);
            let mut pos = u64::from(at.at);
            while pos < found.dirty {
                let n = (found.dirty - pos).min(zeros.len() as u64) as usize;
                file.write_at(&zeros[..n], pos).map_err(|e| self.failed("clearing the journal tail", &e))?;
                pos += n as u64;
            }
            file.sync_data().map_err(|e| self.failed("clearing the journal tail", &e))?;
        }
        if fenced {
            self.write_again(&file, 0..u64::from(at.at))?;
        }
        w.prologue = at.at == PAGE as u32;
        w.older = found.older;
        w.file = Some(file);
        w.bytes = bytes;
        Ok(())
    }

    /// Writes a part of a segment again with its present content, and flushes it.
    pub fn write_again(&self, file: &ashlar_machine::DiskFile, part: std::ops::Range<u64>) -> Result<()> {
        let failed = |e: std::io::Error| self.failed("writing a segment again", &e);
        let mut buf = self.options.pool.get_reserved(64 << 10);
        let cap = buf.capacity().min(64 << 10);
        buf.set_len(cap);
        let mut pos = part.start;
        while pos < part.end {
            let n = (part.end - pos).min(cap as u64) as usize;
            file.read_at(&mut buf[..n], pos).map_err(failed)?;
            file.write_at(&buf[..n], pos).map_err(failed)?;
            pos += n as u64;
        }
        file.sync_all().map_err(failed)
    }

    /// Whether everything after the header of a prepared segment is zero.
    fn is_blank(&self, n: u32, bytes: u64) -> Result<bool> {
        let file = self.journal_file(n).map_err(|e| Error::io(segment_name(n), &e))?;
        let mut w = Window::new(file, bytes);
        let mut pos = PAGE as u64;
        while pos < bytes {
            let chunk = w.get(pos, WINDOW).map_err(|e| Error::io(segment_name(n), &e))?;
            if !journal::is_zero(chunk) {
                return Ok(false);
            }
            pos += chunk.len() as u64;
        }
        Ok(true)
    }

    /// Passes the valid records of a sealed segment to `each`: (location, kind, payload). Returns false if
    /// some batch did not verify.
    pub fn walk_segment(&self, n: u32, mut each: impl FnMut(Loc, u8, &[u8]) -> Result<()>) -> Result<bool> {
        let io = |e: std::io::Error| Error::io(segment_name(n), &e);
        let file = self.journal_file(n).map_err(io)?;
        let bytes = file.len().map_err(io)?;
        let mut w = Window::new(file, bytes);
        let mut at = PAGE as u32;
        while u64::from(at) + SECTOR as u64 <= bytes {
            let head = w.get(u64::from(at), SECTOR).map_err(io)?;
            let b = match journal::batch_header(head, &self.key, n, at) {
                Found::Header(b) => b,
                Found::Unwritten => return Ok(true),
                Found::Damaged => return Ok(false),
            };
            let batch = w.get(u64::from(at), b.len as usize).map_err(io)?;
            if batch.len() < b.len as usize {
                return Ok(false);
            }
            let mut sealed = false;
            let mut result = Ok(());
            let body = journal::batch_body(batch, &self.key, n, at, &b, |rec, kind, payload| {
                sealed |= kind == journal::kind::SEAL;
                let loc = Loc { segment: n, at: rec, len: payload.len() as u32 };
                if result.is_ok() {
                    result = each(loc, kind, payload);
                }
            });
            result?;
            if body != Body::Sound {
                return Ok(false);
            }
            if sealed {
                return Ok(true);
            }
            at += b.len;
        }
        Ok(true)
    }
}

const _: () = assert!(BATCH_HEADER == SECTOR && RECORD_HEADER.is_multiple_of(8));
