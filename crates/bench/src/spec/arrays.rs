//! The life cycle of drive groups on a virtual enclosure: its namespaces alone, then virtual drives over them, over NVMe/TCP.
//!
//! The load of every state has the same number of requests in flight in all, and the same amount of data.
//!
//! Invariants: only what was written before is read; the commands that drives executed are counted around each phase.
//!
//! Must not depend on: how arrays are made.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::Instant,
};

use ashlar_bench_report::{
    check::Facts,
    result::{Cost, Phase, ProcessCost},
};

use super::{
    Driver, Rebuild,
    rig::{LOOK, Reach, Rig},
};
use crate::{
    block::{self, Namespace, Place, Test},
    cost::{Source, Usage},
    error::{Error, Result},
};

/// Block of sequential phases: that of the published process.
const LARGE: u64 = 128 << 10;
/// Block of random phases.
const SMALL: u64 = 4 << 10;
/// Commands of one queue of a target at a time.
const PER_QUEUE: u32 = 8;

/// The load.
#[derive(Clone, Debug)]
pub struct Work {
    /// Requests in flight at each virtual drive; as many in all without the arrays.
    pub depth: u32,
    /// Seconds of a phase that count.
    pub seconds: f64,
    /// Seconds before those.
    pub warmup: f64,
    /// Bytes of each member that are used.
    pub member: u64,
    /// Decides places and contents.
    pub seed: u64,
}

/// Groups on an enclosure as a [`Driver`].
pub struct Arrays<'a> {
    rig: Rig,
    work: Work,
    places: Vec<Namespace>,
    stop: &'a AtomicBool,
    note: &'a dyn Fn(&str),
    begun: Instant,
}

impl<'a> Arrays<'a> {
    /// Of an enclosure that runs.
    pub fn new(rig: Rig, work: Work, stop: &'a AtomicBool, note: &'a dyn Fn(&str)) -> Arrays<'a> {
        Arrays { rig, work, places: Vec::new(), stop, note, begun: Instant::now() }
    }

    /// The rig.
    pub fn rig(&self) -> &Rig {
        &self.rig
    }

    /// Uses these from now on, after everything in them was written once.
    fn use_places(&mut self, all: &[Reach], size: u64) -> Result<()> {
        self.places.clear();
        let in_flight = self.work.depth * self.rig.groups() as u32;
        let depth = in_flight.div_ceil(all.len().max(1) as u32).max(1);
        let queues = depth.div_ceil(PER_QUEUE).clamp(1, 8) as u16;
        for reach in all {
            self.places.push(Namespace::attach(&reach.address, reach.host.as_deref(), queues, size)?);
        }
        let each = self.places.first().map_or(0, Place::size);
        (self.note)(&format!("writing {} MiB on each of {} namespaces", each >> 20, all.len()));
        let places: Vec<&dyn Place> = self.places.iter().map(|p| p as &dyn Place).collect();
        block::fill_places(&self.options(depth), &places, self.stop)?;
        if self.stop.load(Ordering::Relaxed) { Err(Error::setup("interrupted")) } else { Ok(()) }
    }

    fn options(&self, depth: u32) -> block::Options {
        block::Options {
            sequential: vec![LARGE],
            random: SMALL,
            depth,
            runtime_s: self.work.seconds,
            warmup_s: self.work.warmup,
            seed: self.work.seed,
            ..block::Options::default()
        }
    }

    fn usage(&self) -> Option<Usage> {
        let pids = self.rig.arrays();
        if pids.is_empty() { None } else { Source::of_pids(pids).ok()?.read().ok() }
    }
}

impl Driver for Arrays<'_> {
    type Error = Error;

    fn phases(&self) -> Vec<String> {
        let options = self.options(1);
        let block = |test: Test| if matches!(test, Test::SeqRead | Test::SeqWrite) { LARGE } else { SMALL };
        Test::ALL.into_iter().map(|t| t.name(block(t), options.mix)).collect()
    }

    fn phase(&mut self, name: &str) -> Result<Phase> {
        let at_s = self.begun.elapsed().as_secs_f64();
        let place = self.phases().iter().position(|n| n == name);
        let test =
            place.map(|i| Test::ALL[i]).ok_or_else(|| Error::usage(format!("there is no phase {name}")))?;
        let in_flight = self.work.depth * self.rig.groups() as u32;
        let options = self.options(in_flight.div_ceil(self.places.len().max(1) as u32).max(1));
        let places: Vec<&dyn Place> = self.places.iter().map(|p| p as &dyn Place).collect();
        let (commands, used) = (self.rig.commands(), self.usage());
        let mut phase = block::measure_places(&options, &places, test, self.stop, self.note)?;
        let whole_s = self.begun.elapsed().as_secs_f64() - at_s;
        (phase.name, phase.at_s) = (name.to_owned(), at_s);
        if let (Some(before), Some(after)) = (used, self.usage()) {
            // Over the warm-up too: a share of the time, of which the phase has its part.
            let used = after.since(&before);
            let part = phase.seconds / whole_s.max(phase.seconds);
            let (user_s, system_s) = (used.user_s * part, used.system_s * part);
            let cpu_share = (user_s + system_s) / phase.seconds / f64::from(used.cores.max(1));
            let server = ProcessCost { user_s, system_s, cpu_share, peak_bytes: used.peak_bytes };
            phase.cost.get_or_insert_with(Cost::default).server = Some(server);
        }
        // Those of the warm-up included, on both sides.
        let done: u64 = phase.operations.iter().flat_map(|o| &o.timeline.points).map(|p| p.count).sum();
        if let (Some(before), Some(after), true) = (commands, self.rig.commands(), done > 0) {
            let per = |before: u64, after: u64| after.saturating_sub(before) as f64 / done as f64;
            phase.values.insert("drive_reads_per_operation".to_owned(), per(before.0, after.0));
            phase.values.insert("drive_writes_per_operation".to_owned(), per(before.1, after.1));
        }
        Ok(phase)
    }

    fn expose(&mut self) -> Result<()> {
        let all = self.rig.members();
        self.use_places(&all, self.work.member)
    }

    fn assemble(&mut self) -> Result<()> {
        // Nothing else uses the namespaces any more.
        self.places.clear();
        let made = self.rig.assemble()?;
        self.use_places(&made, u64::MAX)
    }

    fn take_down(&mut self) -> Result<()> {
        self.rig.take_down()
    }

    fn start_rebuild(&mut self) -> Result<()> {
        self.rig.start_rebuild()
    }

    fn rebuild(&mut self) -> Result<Rebuild> {
        if self.stop.load(Ordering::Relaxed) {
            return Err(Error::setup("interrupted"));
        }
        self.rig.rebuild()
    }

    fn wait(&mut self) {
        thread::sleep(LOOK);
    }

    /// The enclosure ends with the run: nothing has to be put back.
    fn restore(&mut self) {}

    fn facts(&self) -> Facts {
        // The drives are a model: that their files are in memory makes nothing faster than it.
        Facts { data_bytes: None, memory_bytes: None, caches_bypassed: Some(true) }
    }
}
