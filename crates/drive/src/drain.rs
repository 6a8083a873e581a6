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
use crate::overlay::Generation;
use crate::run::{Mode, Run, RunWriter, file_name};
use crate::{Error, Result};
use ashlar_format::codec;
use std::sync::Arc;

/// Merge when this many runs of similar size are at the front.
const FAN_IN: usize = 4;
/// Also merge runs that are not similar, as few as leave this many.
const MAX_RUNS: usize = 8;
/// A run belongs to a merge if it is at most this many times as large as the runs already selected.
const LIKE: u64 = 4;

/// What the entries of a generation replaced in the index files.
#[derive(Default)]
struct Replaced {
    records: Vec<Loc>,
    regions: Vec<(Region, u64)>,
}

/// How many runs at the front are to be merged, if any are. `bytes`: of the runs, newest first.
///
/// Many small runs in front of a large one, as they are after a long merge, become one run without the large one: each
/// merge of all runs costs as much as the drive holds.
fn due(bytes: &[u64]) -> Option<usize> {
    let n = bytes.len();
    let mut take = 1;
    let mut sum = *bytes.first()?;
    while take < n && (bytes[take] <= sum * LIKE || n - take >= MAX_RUNS) {
        sum += bytes[take];
        take += 1;
    }
    (take >= FAN_IN || (take > 1 && n > MAX_RUNS)).then_some(take)
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
                core.overlay.freeze();
                let m = core.snapshot();
                self.maintenance.lock().freeze = Some(m);
            }
            let manifest = self.maintenance.lock().freeze.clone().unwrap_or_default();
            (core.overlay.frozen.clone(), core.runs.clone(), manifest)
        };
        let Some(frozen) = frozen else { return Ok(()) };
        let began = ashlar_environment::time::Instant::now();
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
        self.journal_work.notify_one();
        tracing::debug!(drive = %self.label.drive, bytes = frozen.bytes, took = ?began.elapsed(), "index written");
        let mut k = self.maintenance.lock();
        k.next_run = manifest.next_run;
        k.freeze = None;
        k.manifest = manifest;
        drop(k);
        self.reuse(frozen);
        Ok(())
    }

    /// Keeps the memory of a generation that was written, if it is of the size that others will have: not of a drive that changes
    /// little, nor of one that was behind.
    fn reuse(&self, written: Arc<Generation>) {
        let usual = self.options.cache_bytes / 4..=self.options.cache_bytes;
        if usual.contains(&written.bytes)
            && let Ok(only) = Arc::try_unwrap(written)
        {
            let empty = only.emptied();
            self.core.lock().overlay.reuse(empty);
        }
    }

    fn write_run(
        &self,
        id: u32,
        frozen: &Generation,
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

    /// Starts a merge that is due, or continues one for about `budget` bytes. `under_way`: merges that were started, each of
    /// newer runs than the one before. A merge of many runs takes minutes on a large drive, in which hundreds of new ones
    /// are written: these are merged first.
    pub fn merge(&self, under_way: &mut Vec<Merge>, budget: u64) -> Result<()> {
        if let Some(m) = self.start_merge(under_way.last())? {
            under_way.push(m);
        } else if let Some(m) = under_way.pop() {
            under_way.extend(self.step_merge(m, budget)?);
        }
        Ok(())
    }

    /// Starts a merge if one is due, of runs that are newer than the inputs of `other`.
    fn start_merge(&self, other: Option<&Merge>) -> Result<Option<Merge>> {
        let runs = self.core.lock().runs.clone();
        let n = match other {
            Some(m) => runs.runs.iter().position(|r| r.id == m.inputs[0]).unwrap_or(0),
            None => runs.runs.len(),
        };
        let bytes: Vec<u64> = runs.runs[..n].iter().map(|r| r.bytes).collect();
        let Some(take) = due(&bytes) else { return Ok(None) };
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
            last: take == runs.runs.len(),
        }))
    }

    /// Continues a merge for about `budget` bytes; returns it unless it is finished.
    fn step_merge(&self, mut m: Merge, budget: u64) -> Result<Option<Merge>> {
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

    /// Ends the merges under way, and all that are due meanwhile.
    pub fn merge_all(&self, under_way: &mut Vec<Merge>) -> Result<()> {
        loop {
            self.merge(under_way, u64::MAX / 2)?;
            if under_way.is_empty() {
                return Ok(());
            }
        }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulated::simulated_drive;
    use crate::{Accept, Completion, Drive, Role};
    use ashlar_format::{Ballot, BucketId, GroupId, RegisterKey, Space};
    use bytes::Bytes;

    const GROUP: GroupId = GroupId::new(0, 0);

    #[test]
    fn small_runs_are_merged_without_a_large_one() {
        assert_eq!((due(&[]), due(&[1]), due(&[1, 1, 1])), (None, None, None));
        assert_eq!((due(&[1; 4]), due(&[1, 1, 1, 1, 17])), (Some(4), Some(4)));
        assert_eq!(due(&[1, 1, 1, 1, 16]), Some(5), "similar enough");
        let after_a_long_merge = [vec![1; 100], vec![1_000]].concat();
        assert_eq!(due(&after_a_long_merge), Some(100));
        let unlike: Vec<u64> = (0..9).map(|n| 5_u64.pow(n)).collect();
        assert_eq!((due(&unlike[..8]), due(&unlike)), (None, Some(2)), "as few as leave eight");
    }

    /// While a merge goes on, `meanwhile` runs are written.
    #[test]
    fn each_entry_is_merged_few_times_and_few_runs_stay() {
        for meanwhile in [0, 3, 40] {
            let (mut runs, mut merged, mut written) = (Vec::new(), 0, 0);
            while written < 10_000 {
                runs.insert(0, 1);
                written += 1;
                while let Some(take) = due(&runs) {
                    let bytes: u64 = runs.drain(..take).sum();
                    merged += bytes;
                    runs.insert(0, bytes);
                    if bytes > 100 {
                        written += meanwhile;
                        (0..meanwhile).for_each(|_| runs.insert(0, 1));
                    }
                    if written >= 10_000 {
                        break;
                    }
                }
                assert!(runs.len() <= MAX_RUNS || written >= 10_000, "{} runs", runs.len());
            }
            assert!(merged < 16 * written, "{meanwhile}: {merged}");
        }
    }

    fn key(i: u64) -> RegisterKey {
        RegisterKey::new(GROUP, Space::Object, BucketId([1; 16]), format!("key-{i:05}").as_bytes())
    }

    /// Writes an index file with these keys.
    fn write(d: &Drive, keys: impl Iterator<Item = u64>, counter: u64) {
        let ballot = Ballot { epoch: 0, counter, node: 1, nonce: 1 };
        for i in keys {
            let record = Bytes::copy_from_slice(&counter.to_be_bytes());
            let accept =
                Accept { key: key(i), ballot, epoch: 0, record, summary: Bytes::new(), inline: None };
            d.accept(accept, Completion::ignored());
        }
        d.pump();
        d.shared.drain().unwrap();
    }

    #[test]
    fn runs_written_during_a_merge_are_merged_before_it_ends() {
        let (_disk, d) = simulated_drive(Role::Voter, 1 << 20, 1 << 20);
        let (mut merges, mut newest) = (Vec::new(), std::collections::BTreeMap::new());
        let mut put = |from: u64, to: u64, step: u64, counter: u64| {
            let keys: Vec<u64> = (from..to).step_by(step as usize).collect();
            newest.extend(keys.iter().map(|k| (*k, counter)));
            write(&d, keys.into_iter(), counter);
        };
        for n in 0..4 {
            put(n, 3_000, 2, n + 1);
        }
        d.shared.merge(&mut merges, 1).unwrap();
        d.shared.merge(&mut merges, 1).unwrap();
        assert_eq!((merges.len(), d.shared.core.lock().runs.runs.len()), (1, 4), "one under way");
        for n in 0..4 {
            put(n * 50, n * 50 + 200, 1, n + 10);
        }
        d.shared.merge(&mut merges, 1).unwrap();
        assert_eq!(merges.len(), 2);
        put(100, 110, 1, 20);
        while merges.len() == 2 {
            d.shared.merge(&mut merges, 1).unwrap();
        }
        assert_eq!(d.shared.core.lock().runs.runs.len(), 6, "the new ones have become one");
        while !merges.is_empty() {
            d.shared.merge(&mut merges, 1 << 20).unwrap();
        }
        assert_eq!(d.shared.core.lock().runs.runs.len(), 3);
        d.shared.merge_all(&mut Vec::new()).unwrap();
        assert_eq!(d.audit().unwrap(), Vec::<String>::new());
        for (i, counter) in newest {
            let seen = d.read_now(&key(i), true, 0).unwrap().unwrap().accepted.unwrap();
            assert_eq!(seen.ballot.counter, counter, "key {i}");
        }
    }
}
