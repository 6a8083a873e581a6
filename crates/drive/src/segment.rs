//! Journal segments: prepared in advance, filled with zeros, used when the head is full.
//!
//! Invariants: a number is never used twice; a segment is durable (its header, its length, its name in the
//! folder) before a batch names it; the head moves only after a seal that names the next segment. Names are made durable
//! several at a time, as empty files; those that are not used are removed at the next start.
//!
//! Must not depend on: what batches hold.

use crate::core::{Core, Shared};
use crate::files::{Kind, segment_name};
use crate::head::Writer;
use crate::space::{Segment, Spare};
use crate::{Error, Result};
use ashlar_format::journal::{self, BatchWriter, PAGE, SegmentHeader, kind};
use ashlar_machine::{Buf, DiskFile, FileSystem, Folder};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The first segments of a drive are smaller.
const FIRST_SEGMENT: u64 = 1 << 20;
/// Most names that are prepared. Drives with few segments have fewer.
const MOST_NAMES: usize = 32;

/// Makes, fills with zeros and flushes a segment in its empty file.
pub(crate) fn fill_segment(
    folder: &Folder,
    medium: FileSystem,
    key: &journal::HashKey,
    number: u32,
    bytes: u64,
    direct: bool,
    zeros: Buf,
) -> std::io::Result<DiskFile> {
    let mut zeros = zeros;
    let file = folder.open(&segment_name(number), direct)?;
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
        let header = SegmentHeader::new(number, bytes).encode(key);
        zeros[..PAGE].copy_from_slice(&header);
        file.write_at(&zeros[..PAGE], 0)?;
        file.sync_all()
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

    /// Prepares the next segment in advance.
    pub fn prepare_spare(&self) -> Result<()> {
        let _one = self.spare_making.lock();
        if self.core.lock().spare.is_some() {
            return Ok(());
        }
        let spare = self.make_spare(0)?;
        self.core.lock().spare = Some(spare);
        Ok(())
    }

    /// The prepared segment if it has `need` bytes, otherwise a new one.
    fn take_spare(&self, need: u64) -> Result<Spare> {
        let _one = self.spare_making.lock();
        let spare = self.core.lock().spare.take();
        match spare {
            Some(s) if s.bytes >= need => return Ok(s),
            Some(s) => {
                // Too small for this record. Nothing names it yet, so it may be removed.
                let _ = self.journal_folder.remove(&segment_name(s.number));
            }
            None => {}
        }
        self.make_spare(need)
    }

    /// Has an empty file with a durable name for segment `number`, the next one: if there is none, it makes those of the
    /// segments behind it too, with one flush of the folder.
    fn name_segment(&self, number: u32) -> std::io::Result<()> {
        let numbers = {
            let core = self.core.lock();
            if number < core.named_segments {
                return Ok(());
            }
            number..number.saturating_add((core.journal.len() * 2).clamp(4, MOST_NAMES) as u32)
        };
        let new = |n| self.journal_folder.create(&segment_name(n), false).map(drop);
        let made = numbers.clone().try_for_each(new).and_then(|()| self.journal_folder.sync());
        if let Err(e) = made {
            for n in numbers {
                let _ = self.journal_folder.remove(&segment_name(n));
            }
            return Err(e);
        }
        self.counters.syncs.fetch_add(1, Ordering::Relaxed);
        self.core.lock().named_segments = numbers.end;
        Ok(())
    }

    /// Makes the next segment, of at least `need` bytes. One at a time.
    fn make_spare(&self, need: u64) -> Result<Spare> {
        let (number, bytes) = {
            let mut core = self.core.lock();
            core.next_segment += 1;
            (core.next_segment - 1, self.next_segment_bytes(&core, need))
        };
        self.name_segment(number).map_err(|e| self.failed("naming a journal segment", &e))?;
        let zeros = self.options.pool.get_reserved((bytes as usize).min(256 << 10));
        let direct = self.options.direct;
        let file = fill_segment(&self.journal_folder, self.medium, &self.key, number, bytes, direct, zeros)
            .map_err(|e| self.failed("making a journal segment", &e))?;
        self.counters.writes.fetch_add(1, Ordering::Relaxed);
        self.counters.syncs.fetch_add(1, Ordering::Relaxed);
        let mut core = self.core.lock();
        core.free = core.free.saturating_sub(bytes);
        drop(core);
        Ok(Spare { number, bytes, file: Arc::new(file) })
    }

    pub(super) fn segment_list(&self) -> Vec<u32> {
        self.core.lock().journal.keys().copied().collect()
    }
    /// Seals the segment and continues in the next one.
    pub(super) fn rotate(&self, w: &mut Writer, need: usize) -> Result<()> {
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
        core.journal.insert(spare.number, Segment { bytes: spare.bytes, ..Default::default() });
        core.active = spare.number;
        self.files.put(Kind::Journal, spare.number, spare.file.clone());
        w.file = Some(spare.file);
        w.bytes = spare.bytes;
        w.position.segment = spare.number;
        w.position.at = PAGE as u32;
        (w.prologue, w.older) = (true, false);
        Ok(())
    }
}
