//! Recovery: looks for large shards that are durable and that the journal does not name (`unnamed`).
//!
//! Only the part of extent segments that the last note covers is searched, page by page: what one header page says
//! is believed only if the whole shard behind it verifies. A shard that was found although its flush had not
//! been answered, or that was dropped before the crash, is like any staged shard that no record names:
//! collected as an orphan.
//!
//! Invariants: a shard counts only if header, table and every frame verify; what was found is flushed before
//! the journal names it, because it may have been read from the page cache of a process that ended, and on a
//! drive that fenced itself it is written again before that (pages count as clean after a failed flush); a page
//! that cannot be read hides what begins in it, and does not keep the drive from opening.
//!
//! Must not depend on: how regions are written.

use crate::core::Shared;
use crate::entry::{Loc, Region, Shard, ShardName, layout};
use crate::index::must;
use crate::op::Op;
use crate::run::Mode;
use crate::unnamed::Replayed;
use crate::{Completion, Error, Result, Tally};
use ashlar_environment::HashSet;
use ashlar_format::RegisterKey;
use ashlar_format::frame::{self, Layout, PAGE, ShardId};
use ashlar_machine::{Buf, DiskFile};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Bytes read at a time while looking for a header page.
const CHUNK: usize = 256 << 10;

/// What begins at a page.
struct Here {
    name: ShardName,
    shard: Shard,
    layout: Layout,
    region: Region,
}

impl Shared {
    /// Looks for the shards that a crash left without a journal record, and reserves their regions. `fenced`: as
    /// for [`Shared::resume`].
    pub fn search_unnamed(self: &Arc<Self>, fenced: bool) -> Result<Vec<(ShardName, Shard)>> {
        let Some(replayed) = self.core.lock().unnamed.recovery.take() else { return Ok(Vec::new()) };
        let mut found = Vec::new();
        for &(segment, from) in &replayed.note {
            let bytes = self.core.lock().extents.get(&segment).filter(|e| !e.lost).map_or(0, |e| e.bytes);
            if from >= bytes {
                continue;
            }
            let file = match self.extent_file(segment) {
                Ok(f) => f,
                Err(e) => {
                    let _ = self.read_failed(segment, &e);
                    continue;
                }
            };
            let before = found.len();
            self.search_segment(&file, (segment, from..bytes), &replayed, &mut found)?;
            if found.len() > before && self.writable().is_ok() {
                let new = found[before..].iter().filter(|_| fenced);
                for (r, bytes) in new.filter_map(|(_, s)| Some((s.extent?, s.region_bytes()))) {
                    self.write_again(&file, r.offset..r.offset + bytes)?;
                }
                self.counters.syncs.fetch_add(1, Ordering::Relaxed);
                file.sync_data().map_err(|e| self.failed("flushing an extent", &e))?;
            }
        }
        // A shard that was staged again: the last one counts, and they are equal.
        let mut seen = HashSet::default();
        found.reverse();
        found.retain(|(name, _)| seen.insert(*name));
        let mut core = self.core.lock();
        for (_, shard) in &found {
            if let Some(r) = shard.extent {
                core.reserve_found(r, shard.region_bytes());
            }
        }
        if !found.is_empty() {
            tracing::info!(drive = %self.label.drive, shards = found.len(), "shards found without a journal record");
        }
        Ok(found)
    }

    fn search_segment(
        self: &Arc<Self>,
        file: &DiskFile,
        (segment, place): (u32, std::ops::Range<u64>),
        replayed: &Replayed,
        found: &mut Vec<(ShardName, Shard)>,
    ) -> Result<()> {
        let mut chunk = self.options.pool.get_reserved(CHUNK);
        let (mut start, mut have) = (0, 0);
        let mut at = place.start;
        while at + PAGE <= place.end {
            if at < start || at + PAGE > start + have {
                start = at;
                have = (place.end - at).min(CHUNK as u64);
                if let Err(e) = file.read_at_direct(&mut chunk[..have as usize], at) {
                    tracing::warn!(drive = %self.label.drive, segment, at, error = %e, "not searched");
                    self.counters.read_errors.fetch_add(1, Ordering::Relaxed);
                    // The pages one by one.
                    have = PAGE;
                    if file.read_at_direct(&mut chunk[..PAGE as usize], at).is_err() {
                        at += PAGE;
                        have = 0;
                        continue;
                    }
                }
            }
            let from = (at - start) as usize;
            let here = self.header_at(&chunk[from..from + PAGE as usize], (segment, at), place.end);
            at += match here {
                None => PAGE,
                Some(h) if self.is_named(&h, replayed)? => h.layout.region(),
                Some(h) if self.is_whole(file, &h) => {
                    let next = h.layout.region();
                    found.push((h.name, h.shard));
                    next
                }
                Some(_) => PAGE,
            };
        }
        Ok(())
    }

    /// The header of a region that begins here and ends before `end`.
    fn header_at(&self, page: &[u8], (segment, offset): (u32, u64), end: u64) -> Option<Here> {
        if !frame::is_header(page) {
            return None;
        }
        let e = frame::decode_header(page, &self.key).ok()?;
        let layout = layout(e.len, e.frame);
        let region = Region { segment, offset, frame: e.frame };
        let owner = RegisterKey::from_bytes(e.owner)?;
        let fits = offset.checked_add(layout.region()).is_some_and(|to| to <= end);
        let shard = Shard { owner, ballot: e.ballot, len: e.len, loc: Loc::default(), extent: Some(region) };
        let here = Here { name: (e.write_id, e.index), shard, layout, region };
        ((e.segment, e.offset) == (segment, offset) && fits).then_some(here)
    }

    /// Whether a journal record names the region, or named it when its shard was dropped.
    fn is_named(self: &Arc<Self>, h: &Here, replayed: &Replayed) -> Result<bool> {
        if replayed.named.contains(&(h.region.segment, h.region.offset)) {
            return Ok(true);
        }
        let known = self.shard_now(h.name, Mode::Wait).map_err(must)?;
        Ok(known.is_some_and(|s| s.extent == Some(h.region)))
    }

    /// Reads the whole shard.
    fn is_whole(&self, file: &DiskFile, h: &Here) -> bool {
        let (write_id, index) = h.name;
        let id = ShardId { deployment: self.label.deployment, write_id, index };
        let read = |at: u64, len: u64| -> Option<Buf> {
            let mut buf = self.options.pool.get_reserved(len as usize);
            file.read_at_direct(&mut buf[..len as usize], h.region.offset + at).ok()?;
            Some(buf)
        };
        let l = h.layout;
        let Some(bytes) = read(l.table_at(), l.table_len()) else { return false };
        let Ok(table) = id.check_table(&bytes[..l.table_len() as usize], l.frames()) else { return false };
        (0..l.frames()).zip(table.chunks_exact(32)).all(|(n, hash)| {
            let len = l.frame_len(n);
            read(l.frame_at(n), (len as u64).next_multiple_of(PAGE))
                .is_some_and(|frame| id.frame_hash(n as u32, &frame[..len])[..] == *hash)
        })
    }

    /// Journals what was found, so that the index and the next start know it. A drive that only reads serves it
    /// without; on a drive whose journal has no room the records wait, as they did before the crash: the note in force
    /// covers the regions, so that the next start finds them again.
    pub fn name_found(self: &Arc<Self>, found: Vec<(ShardName, Shard)>) -> Result<()> {
        if found.is_empty() {
            return Ok(());
        }
        if self.writable().is_err() {
            let mut core = self.core.lock();
            for (name, shard) in found {
                if let Some(r) = shard.extent {
                    core.extent_written(r);
                }
                core.apply_written(name, shard);
            }
            return Ok(());
        }
        {
            let mut core = self.core.lock();
            for (name, shard) in found {
                core.unnamed.wait(name, Box::new(shard));
            }
        }
        // A batch with their records.
        let named = self.commit_now(|done| Op::Barrier { done });
        match named {
            Err(Error::Full) => {
                tracing::warn!(drive = %self.label.drive, "no room to journal the shards that were found: they wait");
                Ok(())
            }
            named => named,
        }
    }

    /// Without the journal thread: commits an operation, and whatever waits for the next batch.
    pub fn commit_now(self: &Arc<Self>, op: impl FnOnce(Completion) -> Op) -> Result<()> {
        let tally = Tally::new(1);
        let op = op(tally.completion(0));
        self.core.lock().enqueue(op, &self.journal_work).map_err(|(_, e)| e)?;
        while self.commit() {}
        match tally.outcome().ok {
            1 => Ok(()),
            _ => Err(tally.error().unwrap_or(Error::Offline("the journal cannot be written"))),
        }
    }
}
