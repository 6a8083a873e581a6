//! How long reads of a drive take at places far from each other: see `hard_disk`.
//!
//! Must not depend on: what follows from it.

use crate::core::Shared;
use crate::files::Kind;
use crate::hard_disk::READS;
use ashlar_environment::time::Instant;
use ashlar_machine::ALIGN;

impl Shared {
    /// Reads a page in the middle of some segments, bypassing the page cache. For a drive that is being opened.
    pub fn measure_reads(&self) {
        if !self.hard_disk.measured {
            return;
        }
        let mut segments: Vec<(Kind, u32, u64)> = {
            let core = self.core.lock();
            // What was reserved was written, apart from the last bytes.
            let extents = core.extents.iter().filter(|(_, e)| !e.lost && e.at > 0);
            let extents = extents.map(|(n, e)| (Kind::Extent, *n, e.at / 2));
            extents.chain(core.journal.iter().map(|(n, s)| (Kind::Journal, *n, s.bytes / 2))).collect()
        };
        let step = segments.len().div_ceil(READS.0).max(1);
        let mut took = Vec::with_capacity(READS.0);
        let mut page = self.options.pool.get_reserved(ALIGN);
        for (kind, number, at) in segments.drain(..).step_by(step) {
            let file = match kind {
                Kind::Extent => self.extent_file(number),
                Kind::Journal => self.journal_file(number),
            };
            let Ok(file) = file else { continue };
            let began = Instant::now();
            if file.is_direct() && file.read_at_direct(&mut page, at / ALIGN as u64 * ALIGN as u64).is_ok() {
                took.push(began.elapsed());
            }
        }
        tracing::debug!(drive = %self.label.drive, ?took, "reads at some places");
        self.hard_disk.note_reads(&mut took);
    }
}
