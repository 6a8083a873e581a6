//! Iterates over many entries: listings, digests, the census of shards.
//!
//! A folded scan ([`Fold`]) leaves out the registers of a common prefix that come after its first one with a summary. It passes over
//! [`STRIDE`] of them and then looks for the end of the common prefix in the index, so that its cost grows with the number
//! of common prefixes and not of their registers. What it leaves out depends only on the registers and on where it
//! begins, and not on how many are returned at a time, so that drives with the same registers have the same digests.
//!
//! Invariants: memory is bounded by the page; an index file that cannot be read is an error, never a gap; overlay and
//! index files are taken under one lock for each step of a scan ([`CHUNK`] overlay entries, or a common prefix).
//!
//! Must not depend on: what records contain.

use crate::Error;
use crate::core::Shared;
use crate::entry::{Register, Shard, ShardName, register_key, shard_key, shard_name};
use crate::index::RunSet;
use crate::run::{Halt, Lookup, Mode};
use crate::types::{Entry, Fold, Range, ShardInfo};
use ashlar_format::{GroupId, RegisterKey};
use bytes::Bytes;
use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;
use std::sync::Arc;

/// Most overlay entries copied at a time.
const CHUNK: usize = 256;
/// The same of a folded scan at first, and after each common prefix.
const FEW: usize = 8;
/// Registers that a folded scan passes over in a common prefix before it looks for the end in the index.
const STRIDE: usize = 32;

/// How a scan goes on.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Step {
    /// With the next register.
    On,
    /// Behind the common prefix.
    Seek,
    /// Not at all.
    End,
}

/// A register that a scan came to.
enum Seen<'a> {
    /// Copied from the overlay.
    Recent(RegisterKey, Register),
    /// In a block of an index file; the key is valid.
    Stored(&'a [u8], Register<&'a [u8]>),
}

impl Seen<'_> {
    fn key(&self) -> &[u8] {
        match self {
            Seen::Recent(key, _) => key.as_bytes(),
            Seen::Stored(key, _) => key,
        }
    }

    fn register(&self) -> Register<&[u8]> {
        match self {
            Seen::Recent(_, r) => r.borrowed(),
            Seen::Stored(_, r) => r.clone(),
        }
    }

    /// The entry for a list; what is not in the overlay is copied here.
    fn entry(self) -> Option<Entry> {
        let r = self.register();
        let (ballot, digest, hint) = (r.ballot, r.digest, r.hinted());
        let (key, summary) = match self {
            Seen::Recent(key, r) => (key, r.summary.into_vec().into()),
            Seen::Stored(key, r) => (RegisterKey::from_bytes(key)?, Bytes::copy_from_slice(r.summary)),
        };
        Some(Entry { key, ballot, hint, digest, summary })
    }
}

/// What a scan leaves out.
struct Folding<'a> {
    fold: Option<&'a Fold>,
    /// The end of the common prefix whose registers are left out, and how many more of them are passed over.
    within: Option<(Vec<u8>, usize)>,
    /// Registers that the scan went through.
    scanned: u64,
}

impl Folding<'_> {
    /// How to go on if the register is left out.
    fn leaves_out(&mut self, key: &[u8]) -> Option<Step> {
        self.scanned += 1;
        let (_, left) = self.within.as_mut().filter(|(end, _)| key < &end[..])?;
        *left = left.saturating_sub(1);
        Some(if *left == 0 { Step::Seek } else { Step::On })
    }

    /// Passes a register on.
    fn show(&mut self, seen: Seen<'_>, each: &mut impl FnMut(Seen<'_>) -> bool) -> Step {
        let fold = self.fold.filter(|_| !seen.register().summary.is_empty());
        let end = fold.and_then(|fold| fold.end(seen.key()));
        self.within = end.map(|end| (end, STRIDE));
        if each(seen) { Step::On } else { Step::End }
    }

    /// Passes an entry of the index files on, unless it is left out.
    fn pass_stored(
        &mut self,
        key: &[u8],
        value: &[u8],
        each: &mut impl FnMut(Seen<'_>) -> bool,
    ) -> Lookup<Step> {
        if let Some(step) = self.leaves_out(key) {
            return Ok(step);
        }
        let r = Register::borrow(value).map_err(|e| Halt::Failed(Error::from(e)))?;
        if !RegisterKey::is_valid(key) {
            return Err(Halt::Failed(Error::Corrupt("index key".into())));
        }
        Ok(self.show(Seen::Stored(key, r), each))
    }

    /// Passes an entry of the overlay on, unless it is removed or left out.
    fn pass(
        &mut self,
        key: RegisterKey,
        r: Option<Register>,
        each: &mut impl FnMut(Seen<'_>) -> bool,
    ) -> Step {
        let Some(r) = r else { return Step::On };
        match self.leaves_out(key.as_bytes()) {
            Some(step) => step,
            None => self.show(Seen::Recent(key, r), each),
        }
    }
}

impl Shared {
    /// Passes the registers in `from <= key < to` in order to `each` until it returns false, without what is left out.
    /// `chunk`: overlay entries that are copied first.
    fn walk(
        &self,
        (from, to): (&[u8], &[u8]),
        fold: Option<&Fold>,
        chunk: usize,
        mode: Mode,
        mut each: impl FnMut(Seen<'_>) -> bool,
    ) -> Lookup<()> {
        let mut folding = Folding { fold, within: None, scanned: 0 };
        let chunk = if fold.is_some() { chunk.min(FEW) } else { chunk };
        let mut from = from.to_vec();
        while self.walk_step((&from, to), &mut folding, chunk, mode, &mut each)? == Step::Seek {
            match folding.within.take() {
                Some((end, _)) if &end[..] < to => from = end,
                _ => break,
            }
        }
        self.counters.scanned.fetch_add(folding.scanned, std::sync::atomic::Ordering::Relaxed);
        Ok(())
    }

    /// [`Shared::walk`] to its end, or until a common prefix has more registers than are read one by one.
    fn walk_step(
        &self,
        (from, to): (&[u8], &[u8]),
        folding: &mut Folding<'_>,
        mut chunk: usize,
        mode: Mode,
        each: &mut impl FnMut(Seen<'_>) -> bool,
    ) -> Lookup<Step> {
        let mut from = from.to_vec();
        loop {
            let (recent, runs, done) = {
                let core = self.core.lock();
                core.may_look_up()?;
                let (recent, done) = core.overlay.registers_from(&from, to, chunk);
                (recent, core.runs.clone(), done)
            };
            // A scan that goes on looks things up less often.
            chunk = (chunk * 2).min(CHUNK);
            // The overlay was copied up to here.
            let until = match recent.last() {
                Some((k, _)) if !done => {
                    let mut next = k.as_bytes().to_vec();
                    next.push(0);
                    next
                }
                _ => to.to_vec(),
            };
            match self.merge_chunk(recent, &runs, (&from, &until), mode, folding, each)? {
                Step::On if !done => from = until,
                step => return Ok(step),
            }
        }
    }

    /// Merges a chunk of the overlay with the index files over `from <= key < until`.
    fn merge_chunk(
        &self,
        recent: Vec<(RegisterKey, Option<Register>)>,
        runs: &RunSet,
        (from, until): (&[u8], &[u8]),
        mode: Mode,
        folding: &mut Folding<'_>,
        each: &mut impl FnMut(Seen<'_>) -> bool,
    ) -> Lookup<Step> {
        let mut recent = recent.into_iter().peekable();
        if !runs.runs.is_empty() {
            let (mut start, mut end) = (Vec::new(), Vec::new());
            register_key(from, &mut start);
            register_key(until, &mut end);
            let mut scan = runs.merged_scan_cached(&start, mode, &self.blocks)?;
            while let Some((key, value)) = scan.peek().filter(|(key, _)| *key < &end[..]) {
                let stored = &key[1..];
                let mut hidden = false;
                while let Some((k, r)) = recent.next_if(|(k, _)| k.as_bytes() <= stored) {
                    hidden = k.as_bytes() == stored;
                    match folding.pass(k, r, each) {
                        Step::On => {}
                        step => return Ok(step),
                    }
                }
                if let Some(value) = value.filter(|_| !hidden) {
                    match folding.pass_stored(stored, value, each)? {
                        Step::On => {}
                        step => return Ok(step),
                    }
                }
                scan.next()?;
            }
        }
        for (k, r) in recent {
            match folding.pass(k, r, each) {
                Step::On => {}
                step => return Ok(step),
            }
        }
        Ok(Step::On)
    }

    /// See [`crate::Drive::scan`]; without what `fold` leaves out.
    pub fn scan(
        &self,
        range: (&[u8], &[u8]),
        fold: Option<&Fold>,
        limit: usize,
        mode: Mode,
    ) -> Lookup<Vec<Entry>> {
        let mut out = Vec::with_capacity(limit.min(1024));
        if limit == 0 {
            return Ok(out);
        }
        // What is copied under the lock is about what is needed.
        self.walk(range, fold, limit.saturating_add(1).min(CHUNK), mode, |seen| {
            out.extend(seen.entry());
            out.len() < limit
        })?;
        Ok(out)
    }

    /// See [`crate::Drive::scan_many`].
    pub fn scan_many(
        &self,
        ranges: &[Range],
        fold: Option<&Fold>,
        limit: usize,
        mode: Mode,
    ) -> Lookup<Vec<Entry>> {
        // Entries that are read of a range at a time. Keys are spread over ranges by hash, so that few ranges have more
        // than two standard deviations above the mean.
        let mean = limit / ranges.len().max(1);
        let chunk = (mean + 2 * mean.isqrt() + 2).min(limit);
        let mut from: Vec<Option<Vec<u8>>> = ranges.iter().map(|r| Some(r.from.clone())).collect();
        let mut parts: Vec<std::vec::IntoIter<Entry>> =
            ranges.iter().map(|_| Vec::new().into_iter()).collect();
        // The first entry of each part.
        let mut heads: BinaryHeap<Reverse<Head>> = BinaryHeap::with_capacity(ranges.len());
        let mut out = Vec::with_capacity(limit.min(1024));
        let mut dry: Vec<usize> = (0..ranges.len()).collect();
        loop {
            for part in dry.drain(..) {
                if let Some(at) = from[part].take().filter(|at| *at < ranges[part].to) {
                    let found = self.scan((&at, &ranges[part].to), fold, chunk, mode)?;
                    from[part] = found.last().filter(|_| found.len() == chunk).map(|e| after(e, fold));
                    parts[part] = found.into_iter();
                }
                heads.extend(parts[part].next().map(|entry| Reverse(Head { entry, part })));
            }
            if out.len() == limit {
                return Ok(out);
            }
            let Some(Reverse(Head { entry, part })) = heads.pop() else { return Ok(out) };
            out.push(entry);
            match parts[part].next() {
                Some(entry) => heads.push(Reverse(Head { entry, part })),
                None => dry.push(part),
            }
        }
    }

    /// See [`crate::Drive::range_digest`]; without what `fold` leaves out.
    pub fn range_digest(&self, range: (&[u8], &[u8]), fold: Option<&Fold>, mode: Mode) -> Lookup<(u64, u64)> {
        let (mut count, mut sum) = (0u64, 0u64);
        let mut bytes = Vec::with_capacity(128);
        self.walk(range, fold, CHUNK, mode, |seen| {
            let r = seen.register();
            bytes.clear();
            bytes.extend_from_slice(&r.ballot.to_bytes());
            bytes.extend_from_slice(&r.digest.to_le_bytes());
            bytes.extend_from_slice(seen.key());
            count += 1;
            sum = sum.wrapping_add(ashlar_checksum::key_hash(&bytes));
            true
        })?;
        Ok((count, sum))
    }

    /// See [`crate::Drive::shards`].
    pub fn census(self: &Arc<Self>, after: Option<ShardName>, limit: usize) -> Lookup<Vec<ShardInfo>> {
        self.name_all()?;
        let (mut recent, runs) = {
            let core = self.core.lock();
            core.may_look_up()?;
            let mut names = std::collections::BTreeMap::new();
            let frozen = core.overlay.frozen.as_deref();
            for g in frozen.into_iter().chain([&core.overlay.active]) {
                for (name, c) in &g.shards {
                    if after.is_none_or(|a| *name > a) {
                        names.insert(*name, c.now.clone());
                    }
                }
            }
            (names, core.runs.clone())
        };
        let mut out = Vec::with_capacity(limit.min(1024));
        let from = after.map_or([b's'; 1].to_vec(), |a| shard_key(a).to_vec());
        let mut scan = runs.merged_scan(&from, Mode::Wait)?;
        let mut stored = next_shard(&mut scan, after)?;
        while out.len() < limit {
            let first = recent.first_key_value().map(|(n, _)| *n);
            let (name, shard) = match (first, &stored) {
                (None, None) => break,
                (Some(n), Some((m, _))) if n > *m => take_stored(&mut stored),
                (None, Some(_)) => take_stored(&mut stored),
                (Some(n), s) => {
                    let hidden = s.as_ref().is_some_and(|(m, _)| *m == n);
                    if hidden {
                        stored = None;
                    }
                    let (name, shard) = recent.pop_first().unwrap_or((n, None));
                    if stored.is_none() && hidden {
                        stored = next_shard(&mut scan, after)?;
                    }
                    (name, shard)
                }
            };
            if stored.is_none() {
                stored = next_shard(&mut scan, after)?;
            }
            if let Some(s) = shard {
                out.push(ShardInfo {
                    write_id: name.0,
                    index: name.1,
                    owner: s.owner,
                    ballot: s.ballot,
                    len: s.len,
                    inline: s.extent.is_none(),
                });
            }
        }
        Ok(out)
    }
}

/// Where a scan that ended with this entry goes on: behind its common prefix, if that is left out.
fn after(last: &Entry, fold: Option<&Fold>) -> Vec<u8> {
    let end = fold.filter(|_| !last.summary.is_empty()).and_then(|fold| fold.end(last.key.as_bytes()));
    end.unwrap_or_else(|| [last.key.as_bytes(), &[0]].concat())
}

/// The next entry of a range, ordered by its key without the group.
struct Head {
    entry: Entry,
    part: usize,
}

impl Head {
    fn rank(&self) -> (&[u8], usize) {
        (&self.entry.key.as_bytes()[GroupId::LEN..], self.part)
    }
}

impl PartialEq for Head {
    fn eq(&self, other: &Head) -> bool {
        self.rank() == other.rank()
    }
}

impl Eq for Head {}

impl PartialOrd for Head {
    fn partial_cmp(&self, other: &Head) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Head {
    fn cmp(&self, other: &Head) -> Ordering {
        self.rank().cmp(&other.rank())
    }
}

type Stored = Option<(ShardName, Shard)>;

fn take_stored(s: &mut Stored) -> (ShardName, Option<Shard>) {
    match s.take() {
        Some((n, s)) => (n, Some(s)),
        None => unreachable!("matched as present"),
    }
}

fn next_shard(scan: &mut crate::index::MergedScan<'_>, after: Option<ShardName>) -> Lookup<Stored> {
    while let Some((key, value)) = scan.peek() {
        let wanted = shard_name(key).filter(|name| after.is_none_or(|a| *name > a)).zip(value);
        if let Some((name, value)) = wanted {
            let shard = Shard::decode(value).map_err(|e| Halt::Failed(Error::from(e)))?;
            scan.next()?;
            return Ok(Some((name, shard)));
        }
        scan.next()?;
    }
    Ok(None)
}
