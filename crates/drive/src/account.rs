//! Space accounting: how many bytes of every segment are in use.
//!
//! A region of an extent segment is in use while the index names it, and a journal record while an index
//! entry points to it. The counts decide which segments are removed, so they are exact, not estimates.
//!
//! Invariants:
//! * `live` of a segment is the sum over the current index entries in it. Each change of an entry is counted
//!   once: when it is applied, if the overlay contains the previous entry (it is *resolved*); otherwise when
//!   the change is written into the index files, where the previous entry is found.
//! * `live <= at` for extents and `live <= bytes` for journal segments, always. A count that would break
//!   this, or go below zero, is a *miscount*: it is counted ([`crate::Stats::miscounts`], which tests require
//!   to be 0) and logged, and the segment is *suspect*. Nothing in a suspect segment is given back until the
//!   index, and with it every count, has been rebuilt from the journal, which happens at the next open at the
//!   latest.
//! * An extent segment that the index names and that does not exist is *lost*. Its entries are counted, so
//!   that readers get a damage error instead of "missing", but it counts for no space and never returns.
//!
//! Must not depend on: files.

use crate::core::{Core, Shared};
use crate::entry::{Loc, Region, Register, Shard, shard_name};
use crate::index::must;
use crate::run::Mode;
use crate::space::{Extent, Freed};
use crate::{Error, Result};
use ashlar_environment::HashMap;
use ashlar_format::RegisterKey;

impl Core {
    /// Counts a record at `loc` as in use, or no longer in use.
    pub fn journal_live(&mut self, loc: Loc, add: bool) {
        let Some(s) = self.journal.get_mut(&loc.segment) else { return };
        let bytes = loc.bytes();
        let now =
            if add { s.live.checked_add(bytes).filter(|n| *n <= s.bytes) } else { s.live.checked_sub(bytes) };
        let Some(now) = now else {
            tracing::error!(segment = loc.segment, live = s.live, bytes, add, "journal bytes miscounted");
            s.live = if add { s.bytes } else { 0 };
            self.miscounts += 1;
            return;
        };
        s.live = now;
    }

    /// Counts `region`, of `bytes` bytes, as named by the index.
    pub fn region_live(&mut self, region: Region, bytes: u64) {
        self.next_extent = self.next_extent.max(region.segment.saturating_add(1));
        let lost = || Extent { lost: true, sealed: true, ..Extent::default() };
        let e = self.extents.entry(region.segment).or_insert_with(lost);
        e.at = e.at.max(region.offset.saturating_add(bytes));
        e.live = e.live.saturating_add(bytes);
        if e.live > e.at {
            tracing::error!(segment = region.segment, live = e.live, at = e.at, "extent bytes miscounted");
            e.live = e.at;
            e.suspect = true;
            self.miscounts += 1;
        }
    }

    /// Counts one reference less of the index to `region`.
    fn region_dead(&mut self, region: Region, bytes: u64) {
        let Some(e) = self.extents.get_mut(&region.segment) else {
            tracing::error!(segment = region.segment, bytes, "extent bytes miscounted: the segment is gone");
            self.miscounts += 1;
            return;
        };
        match e.live.checked_sub(bytes) {
            Some(live) => e.live = live,
            None => {
                tracing::error!(segment = region.segment, live = e.live, bytes, "extent bytes miscounted");
                e.live = 0;
                e.suspect = true;
                self.miscounts += 1;
            }
        }
        if e.lost && e.live == 0 {
            self.extents.remove(&region.segment);
        }
    }

    /// Frees a region: the maintenance thread punches it out, or it is held until its readers are done.
    pub fn free_region(&mut self, region: Region, bytes: u64) {
        self.region_dead(region, bytes);
        if !self.extents.contains_key(&region.segment) {
            return;
        }
        let id = (region.segment, region.offset);
        if self.pins.contains_key(&id) {
            self.held.insert(id, bytes);
        } else {
            self.push_freed(Freed { region, bytes });
        }
    }
}

impl Shared {
    /// Recounts everything from the whole index and reports where the counts differ. No operation may run at
    /// the same time. For tests: needs memory for every entry.
    ///
    /// # Errors
    /// The error of reading the index.
    pub fn audit(&self) -> Result<Vec<String>> {
        let runs = self.core.lock().runs.clone();
        let mut scan = runs.merged_scan(b"", Mode::Wait).map_err(must)?;
        let (mut registers, mut shards) = (HashMap::default(), HashMap::default());
        while let Some((key, value)) = scan.peek() {
            match (shard_name(key), value) {
                (_, None) => {}
                (Some(name), Some(value)) => {
                    shards.insert(name, Shard::decode(value)?);
                }
                (None, Some(value)) => {
                    let k = RegisterKey::from_bytes(&key[1..]).ok_or(Error::Malformed("index key"))?;
                    registers.insert(k, Register::decode(value)?);
                }
            }
            scan.next().map_err(must)?;
        }
        let mut sums = Sums::default();
        let core = self.core.lock();
        let generations = || core.overlay.frozen.as_deref().into_iter().chain([&core.overlay.active]);
        // The oldest change of an entry shows whether the entry in the index files is still counted.
        let (mut changed, mut now) = (HashMap::default(), HashMap::default());
        for g in generations() {
            for (k, c) in g.registers.iter() {
                changed.entry(k.clone()).or_insert(c.resolved);
                now.insert(k.clone(), c.now.clone());
            }
        }
        for (k, r) in registers {
            if changed.get(&k).is_none_or(|resolved| !resolved) {
                sums.record(r.loc);
            }
        }
        now.into_values().flatten().for_each(|r| sums.record(r.loc));
        let (mut changed, mut now) = (HashMap::default(), HashMap::default());
        for g in generations() {
            for (name, c) in &g.shards {
                changed.entry(*name).or_insert(c.resolved);
                now.insert(*name, c.now.clone());
            }
        }
        for (name, s) in shards {
            if changed.get(&name).is_none_or(|resolved| !resolved) {
                sums.shard(&s);
            }
        }
        now.into_values().flatten().for_each(|s| sums.shard(&s));
        core.fences.durable().for_each(|(_, f)| sums.record(f.loc));
        Ok(sums.compare(&core))
    }
}

#[derive(Default)]
struct Sums {
    journal: HashMap<u32, u64>,
    extents: HashMap<u32, u64>,
}

impl Sums {
    fn record(&mut self, loc: Loc) {
        *self.journal.entry(loc.segment).or_default() += loc.bytes();
    }

    fn shard(&mut self, s: &Shard) {
        self.record(s.loc);
        if let Some(r) = s.extent {
            *self.extents.entry(r.segment).or_default() += s.region_bytes();
        }
    }

    fn compare(mut self, core: &Core) -> Vec<String> {
        let mut out = Vec::new();
        for (n, s) in &core.journal {
            let is = self.journal.remove(n).unwrap_or(0);
            if s.live != is {
                out.push(format!("journal segment {n}: {is} bytes in use, {} counted", s.live));
            }
        }
        for (n, e) in &core.extents {
            let is = self.extents.remove(n).unwrap_or(0);
            if e.live != is {
                out.push(format!("extent segment {n}: {is} bytes in use, {} counted", e.live));
            }
        }
        out.extend(
            self.extents.iter().map(|(n, is)| format!("extent segment {n}: {is} bytes in use, none known")),
        );
        out
    }
}
