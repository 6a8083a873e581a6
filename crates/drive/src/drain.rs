//! Writes the overlay into index files, and merges index files.
//!
//! Invariants: the generation being written stays readable until the manifest that names its run is durable;
//! what a change replaced is counted exactly once, here if not before; a merge never drops a removal that an
//! older run still needs.
//!
//! Must not depend on: journal batches.

use crate::core::{Core, Shared};
use crate::entry::{Loc, Region, Register, Shard, register_key, shard_key};
use crate::index::{Manifest, MergedScan, RunSet, must};
use crate::run::{Mode, Run, RunWriter, file_name};
use crate::{Error, Result};
use ashlar_format::codec;
use std::sync::Arc;

/// Merge when this many runs of similar size are at the front.
const FAN_IN: usize = 4;
/// Always merge above this many runs.
const MAX_RUNS: usize = 8;
/// A run belongs to a merge if it is at most this many times as large as the runs already selected.
const LIKE: u64 = 4;

/// What the entries of a generation replaced in the index files.
#[derive(Default)]
struct Replaced {
    records: Vec<Loc>,
    regions: Vec<(Region, u64)>,
}

/// A merge in progress.
pub(crate) struct Merge {
    inputs: Vec<u32>,
    scan: MergedScan<'static>,
    writer: RunWriter,
    id: u32,
    /// There are no older runs: removals can be dropped.
    last: bool,
}

impl Shared {
    /// Writes the overlay as a run and moves the checkpoint. On an error nothing changes.
    pub fn drain(self: &Arc<Self>) -> Result<()> {
        let (frozen, runs, mut manifest) = {
            let mut core = self.core.lock();
            if core.overlay.frozen.is_none() {
                let active = std::mem::take(&mut core.overlay.active);
                core.overlay.frozen = Some(Arc::new(active));
                let m = core.snapshot();
                self.maintenance.lock().freeze = Some(m);
            }
            let manifest = self.maintenance.lock().freeze.clone().unwrap_or_default();
            (core.overlay.frozen.clone(), core.runs.clone(), manifest)
        };
        let Some(frozen) = frozen else { return Ok(()) };
        let mut replaced = Replaced::default();
        let mut new_runs: Vec<Arc<Run>> = runs.runs.clone();
        manifest.next_run = self.maintenance.lock().next_run;
        if !frozen.is_empty() {
            let id = manifest.next_run;
            let run = self.write_run(id, &frozen, &runs, &mut replaced)?;
            manifest.next_run = id + 1;
            new_runs.insert(0, run);
        }
        manifest.discount(&replaced);
        manifest.runs = new_runs.iter().map(|r| (r.id, r.bytes)).collect();
        manifest.store(&self.index_folder, &self.key).map_err(|e| self.failed("writing the index", &e))?;
        let mut core = self.core.lock();
        for loc in replaced.records {
            core.journal_live(loc, false);
        }
        for (region, bytes) in replaced.regions {
            core.free_region(region, bytes);
        }
        core.runs = Arc::new(RunSet { runs: new_runs });
        core.overlay.frozen = None;
        core.generation += 1;
        drop(core);
        let mut k = self.maintenance.lock();
        k.next_run = manifest.next_run;
        k.freeze = None;
        k.manifest = manifest;
        Ok(())
    }

    fn write_run(
        &self,
        id: u32,
        frozen: &crate::overlay::Generation,
        runs: &RunSet,
        replaced: &mut Replaced,
    ) -> Result<Arc<Run>> {
        // A leftover of an earlier attempt.
        let io = |e: std::io::Error| self.failed("writing the index", &e);
        self.index_folder.remove(&file_name(id)).map_err(io)?;
        let expected = (frozen.registers.len() + frozen.shards.len()) as u64;
        let mut out = RunWriter::new(&self.index_folder, id, &self.key, expected)?;
        let mut key = Vec::with_capacity(128);
        for (k, change) in frozen.registers.iter() {
            register_key(k.as_bytes(), &mut key);
            let old =
                if change.resolved { None } else { runs.register(k.as_bytes(), Mode::Wait).map_err(must)? };
            put_register(&mut out, &key, change.now.as_ref(), old, runs, replaced)?;
        }
        let mut shards: Vec<_> = frozen.shards.iter().collect();
        shards.sort_unstable_by_key(|(name, _)| **name);
        for (name, change) in shards {
            let old = if change.resolved { None } else { runs.shard(*name, Mode::Wait).map_err(must)? };
            if let Some(old) = old {
                replaced.shard(&old, change.now.as_ref());
            }
            let mut w = codec::Writer::with_capacity(160);
            match &change.now {
                Some(s) => {
                    s.encode(&mut w);
                    out.push(&shard_key(*name), Some(&w.into_vec()))?;
                }
                None if runs.runs.is_empty() => {}
                None => out.push(&shard_key(*name), None)?,
            }
        }
        let bytes = out.finish()?;
        Ok(Arc::new(Run::open(&self.index_folder, id, bytes, &self.key, &self.counters)?))
    }

    /// Starts a merge if one is due.
    pub fn start_merge(&self) -> Result<Option<Merge>> {
        let runs = self.core.lock().runs.clone();
        let n = runs.runs.len();
        let mut take = 1;
        let mut bytes = runs.runs.first().map_or(0, |r| r.bytes);
        while take < n && (runs.runs[take].bytes <= bytes * LIKE || n > MAX_RUNS) {
            bytes += runs.runs[take].bytes;
            take += 1;
        }
        if take < FAN_IN && n <= MAX_RUNS || take < 2 {
            return Ok(None);
        }
        let inputs: Vec<Arc<Run>> = runs.runs[..take].to_vec();
        let expected = inputs.iter().map(|r| r.entries).sum();
        let id = {
            let mut k = self.maintenance.lock();
            k.next_run += 1;
            k.next_run - 1
        };
        self.index_folder.remove(&file_name(id)).map_err(|e| self.failed("writing the index", &e))?;
        Ok(Some(Merge {
            inputs: inputs.iter().map(|r| r.id).collect(),
            scan: MergedScan::new(inputs.into_iter(), b"", Mode::Wait, None).map_err(must)?,
            writer: RunWriter::new(&self.index_folder, id, &self.key, expected)?,
            id,
            last: take == n,
        }))
    }

    /// Continues a merge for about `budget` bytes; returns it unless it is finished.
    pub fn step_merge(&self, mut m: Merge, budget: u64) -> Result<Option<Merge>> {
        let stop = m.writer.bytes() + budget;
        while m.writer.bytes() < stop {
            match m.scan.peek() {
                None => {
                    self.finish_merge(m)?;
                    return Ok(None);
                }
                Some((_, None)) if m.last => {}
                Some((key, value)) => m.writer.push(key, value)?,
            }
            m.scan.next().map_err(must)?;
        }
        Ok(Some(m))
    }

    fn finish_merge(&self, m: Merge) -> Result<()> {
        let bytes = m.writer.finish()?;
        let run = Run::open(&self.index_folder, m.id, bytes, &self.key, &self.counters)?;
        let run = Arc::new(run);
        // New runs may have been added in front; the inputs are still adjacent.
        let mut runs = self.core.lock().runs.runs.clone();
        let Some(at) = runs.iter().position(|r| r.id == m.inputs[0]) else {
            return Err(Error::Offline("index files changed during a merge"));
        };
        let same = runs[at..].iter().map(|r| r.id).take(m.inputs.len()).eq(m.inputs.iter().copied());
        assert!(same, "inputs of a merge moved");
        runs.splice(at..at + m.inputs.len(), [run]);
        let manifest = {
            let mut k = self.maintenance.lock();
            k.manifest.runs = runs.iter().map(|r| (r.id, r.bytes)).collect();
            k.manifest.next_run = k.next_run;
            k.manifest.clone()
        };
        manifest.store(&self.index_folder, &self.key).map_err(|e| self.failed("writing the index", &e))?;
        {
            let mut core = self.core.lock();
            core.runs = Arc::new(RunSet { runs });
            core.generation += 1;
        }
        for id in m.inputs {
            self.index_folder
                .remove(&file_name(id))
                .map_err(|e| self.failed("removing an index file", &e))?;
        }
        Ok(())
    }

    /// Does all due merges now.
    pub fn merge_all(&self) -> Result<()> {
        while let Some(mut m) = self.start_merge()? {
            while let Some(rest) = self.step_merge(m, 8 << 20)? {
                m = rest;
            }
        }
        Ok(())
    }
}

fn put_register(
    out: &mut RunWriter,
    key: &[u8],
    now: Option<&Register>,
    old: Option<Register>,
    runs: &RunSet,
    replaced: &mut Replaced,
) -> Result<()> {
    let Some(now) = now else {
        if let Some(old) = &old {
            replaced.records.push(old.loc);
        }
        if !runs.runs.is_empty() {
            out.push(key, None)?;
        }
        return Ok(());
    };
    let mut now = now.clone();
    match old {
        // Impossible, since records are applied in order; but never go back.
        Some(old) if old.ballot > now.ballot => {
            replaced.records.push(now.loc);
            return Ok(());
        }
        Some(old) => {
            if old.loc != now.loc {
                replaced.records.push(old.loc);
            }
            if now.oldest == 0 {
                now.oldest = old.oldest;
            }
        }
        None => {}
    }
    let mut w = codec::Writer::with_capacity(128 + now.summary.len());
    now.encode(&mut w);
    out.push(key, Some(&w.into_vec()))
}

impl Replaced {
    fn shard(&mut self, old: &Shard, now: Option<&Shard>) {
        if now.is_none_or(|n| n.loc != old.loc) {
            self.records.push(old.loc);
        }
        if let Some(r) = old.extent {
            // A move within the same region is resolved before it is applied: see `account`.
            assert!(now.is_none_or(|n| n.extent != Some(r)), "an entry that moved was not resolved");
            self.regions.push((r, old.region_bytes()));
        }
    }
}

impl Manifest {
    /// Removes what was replaced from the counts.
    fn discount(&mut self, replaced: &Replaced) {
        let journal = &mut self.journal;
        for loc in &replaced.records {
            if let Ok(i) = journal.binary_search_by_key(&loc.segment, |(n, _)| *n) {
                journal[i].1.live = journal[i].1.live.saturating_sub(loc.bytes());
            }
        }
        for (r, bytes) in &replaced.regions {
            if let Ok(i) = self.extents.binary_search_by_key(&r.segment, |(n, _)| *n) {
                let e = &mut self.extents[i].1;
                e.suspect |= e.live < *bytes;
                e.live = e.live.saturating_sub(*bytes);
            }
        }
    }
}

impl Core {
    /// The manifest of this moment, without the runs.
    fn snapshot(&self) -> Manifest {
        Manifest {
            position: self.applied,
            states: self.groups.states().into_iter().collect(),
            state_segment: self.state_segment,
            next_run: 0,
            runs: Vec::new(),
            journal: self.journal.iter().map(|(n, s)| (*n, *s)).collect(),
            extents: self
                .extents
                .iter()
                .filter(|(_, e)| !e.lost)
                .map(|(n, e)| (*n, crate::space::Extent { writers: 0, ..*e }))
                .collect(),
            next_extent: self.next_extent,
            fences: self.fences.durable().map(|(k, f)| (*k, *f)).collect(),
            unnamed: self.unnamed_note(),
        }
    }
}
