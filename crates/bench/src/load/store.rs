//! The measurements of a phase in bounded memory: a timeline in steps, and histograms in epochs so that a
//! warm-up can be cut afterwards.
//!
//! Both double the length of their steps and merge neighbours whenever there would be too many. Invariant:
//! merging does not change totals.

use std::collections::BTreeMap;

use ashlar_bench_report::result::{Estimate, Operation, Point, Share, Timeline};

use super::{
    CellDelta, Delta, HostDelta, Op,
    record::join,
    steady::{self, Interval},
};
use crate::cost::Usage;

/// The most epochs; a phase of any length is cut at a 64th of it or finer.
const EPOCHS: usize = 128;
/// Samples of usage that are kept per process.
const SAMPLES: usize = 1024;

#[derive(Default)]
struct Epoch {
    ops: BTreeMap<Op, CellDelta>,
    hosts: BTreeMap<(Op, u32), HostDelta>,
    agents: BTreeMap<(Op, u32), HostDelta>,
    counters: BTreeMap<String, u64>,
}

impl Epoch {
    fn merge(&mut self, other: Epoch) {
        other.ops.iter().for_each(|(op, c)| self.ops.entry(*op).or_default().merge(c));
        other.hosts.iter().for_each(|(key, h)| self.hosts.entry(*key).or_default().merge(h));
        other.agents.iter().for_each(|(key, h)| self.agents.entry(*key).or_default().merge(h));
        other.counters.into_iter().for_each(|(name, n)| *self.counters.entry(name).or_default() += n);
    }
}

/// Usage at moments, to read between them.
#[derive(Clone, Debug, Default)]
pub struct Usages(Vec<(f64, Usage)>);

impl Usages {
    /// Adds what was used up to second `at`; moments ascend.
    pub fn add(&mut self, at: f64, usage: Usage) {
        if self.0.len() == SAMPLES {
            let mut i = 0;
            // The first stays; every second of the rest goes.
            self.0.retain(|_| {
                i += 1;
                i % 2 == 1
            });
        }
        self.0.push((at, usage));
    }

    /// What was used between the seconds `from` and `to`; `None` with fewer than two moments.
    pub fn between(&self, from: f64, to: f64) -> Option<Usage> {
        if self.0.len() < 2 {
            return None;
        }
        Some(self.at(to).since(&self.at(from)))
    }

    fn at(&self, second: f64) -> Usage {
        let after = self.0.partition_point(|s| s.0 < second);
        if after == 0 {
            return self.0[0].1;
        }
        let Some(b) = self.0.get(after) else { return self.0[self.0.len() - 1].1 };
        let a = &self.0[after - 1];
        let share = (second - a.0) / (b.0 - a.0).max(1e-9);
        let part = |x: f64, y: f64| x + (y - x) * share;
        Usage { user_s: part(a.1.user_s, b.1.user_s), system_s: part(a.1.system_s, b.1.system_s), ..b.1 }
    }
}

/// Everything measured in one phase.
pub struct Store {
    /// Ticks per epoch and per step of the timeline.
    epoch: u32,
    step: u32,
    epochs: Vec<Epoch>,
    lines: BTreeMap<Op, Vec<Point>>,
    /// By agent; a local run is agent 0.
    pub usages: BTreeMap<u32, Usages>,
    steps: usize,
}

impl Store {
    /// An empty one; `epoch` is how many ticks the deltas are apart.
    pub fn new(epoch: u32) -> Store {
        Store {
            epoch: epoch.max(1),
            step: 1,
            epochs: Vec::new(),
            lines: BTreeMap::new(),
            usages: BTreeMap::new(),
            steps: 0,
        }
    }

    /// Adds a delta; `agent` is its sender.
    pub fn add(&mut self, agent: Option<u32>, delta: &Delta) {
        for (op, points) in &delta.ticks {
            for (i, point) in points.iter().enumerate() {
                self.point(*op, delta.from + i as u32, *point);
            }
        }
        let usages = self.usages.entry(agent.unwrap_or(0)).or_default();
        if usages.0.is_empty() {
            // Usage counts from the start of the phase.
            usages.add(0.0, Usage { user_s: 0.0, system_s: 0.0, ..delta.usage });
        }
        usages.add(f64::from(delta.to) / 10.0, delta.usage);
        let last = delta.to.max(1) - 1;
        while (last / self.epoch) as usize >= EPOCHS {
            self.epoch *= 2;
            let mut old = std::mem::take(&mut self.epochs).into_iter();
            while let Some(mut epoch) = old.next() {
                if let Some(second) = old.next() {
                    epoch.merge(second);
                }
                self.epochs.push(epoch);
            }
        }
        let at = (last / self.epoch) as usize;
        while self.epochs.len() <= at {
            self.epochs.push(Epoch::default());
        }
        let epoch = &mut self.epochs[at];
        for (op, cell) in &delta.ops {
            epoch.ops.entry(*op).or_default().merge(cell);
            if let Some(agent) = agent {
                let errors = cell.errors.values().sum();
                let share =
                    HostDelta { count: cell.count, bytes: cell.bytes, errors, service: cell.service.clone() };
                epoch.agents.entry((*op, agent)).or_default().merge(&share);
            }
        }
        for (op, host, share) in &delta.hosts {
            epoch.hosts.entry((*op, *host)).or_default().merge(share);
        }
        for (name, n) in &delta.counters {
            *epoch.counters.entry(name.clone()).or_default() += n;
        }
    }

    fn point(&mut self, op: Op, tick: u32, point: Point) {
        while (tick / self.step) as usize >= Timeline::MAX {
            self.step *= 2;
            self.steps = self.steps.div_ceil(2);
            for line in self.lines.values_mut() {
                let joined = line.chunks(2).map(|pair| {
                    let mut sum = pair[0];
                    pair.get(1).into_iter().for_each(|p| join(&mut sum, *p));
                    sum
                });
                *line = joined.collect();
            }
        }
        let at = (tick / self.step) as usize;
        let line = self.lines.entry(op).or_default();
        if line.len() <= at {
            line.resize(at + 1, Point::default());
        }
        join(&mut line[at], point);
        self.steps = self.steps.max(at + 1);
    }

    /// Operations per step, steps of uploads left out, up to second `end`.
    pub fn series(&self, end: f64) -> Vec<f64> {
        let steps = self.whole_steps(end);
        let mut out = vec![0.0; steps];
        for (op, line) in &self.lines {
            if !op.is_step() {
                out.iter_mut().zip(line).for_each(|(sum, p)| *sum += p.count as f64);
            }
        }
        out
    }

    fn medians(&self) -> Vec<f64> {
        let of = |epoch: &Epoch| {
            let mut all = super::Sparse::default();
            epoch.ops.values().for_each(|cell| all.merge(&cell.response));
            all.quantile(0.5) as f64
        };
        self.epochs.iter().map(of).collect()
    }

    fn whole_steps(&self, end: f64) -> usize {
        self.steps.min((end / self.step_s() + 1e-9) as usize)
    }

    fn step_s(&self) -> f64 {
        f64::from(self.step) / 10.0
    }

    /// The warm-up that the change-point test finds in what was added, in seconds. A closed loop is
    /// judged by its rate; an open loop, whose rate is given, by the median response of each epoch.
    pub fn warmup(&self, end: f64, open: bool) -> Option<f64> {
        let length = if open { f64::from(self.epoch) / 10.0 } else { self.step_s() };
        let series = if open { self.medians() } else { self.series(end) };
        match steady::warmup(&series) {
            steady::Cut::At(steps) => Some(steps as f64 * length),
            steady::Cut::NotSteady | steady::Cut::TooShort => None,
        }
    }

    /// The confidence interval of the rate from second `from` to `end`.
    pub fn confidence(&self, from: f64, end: f64) -> Option<Interval> {
        let series = self.series(end);
        let first = (from / self.step_s()).ceil() as usize;
        steady::batch_means(series.get(first..)?)
    }

    /// The start of the first epoch that is wholly after `seconds`.
    pub fn boundary(&self, seconds: f64) -> f64 {
        let length = f64::from(self.epoch) / 10.0;
        ((seconds / length - 1e-6).ceil() * length).max(0.0)
    }

    /// Failures and successes so far, of whole operations.
    pub fn outcome(&self) -> (u64, u64) {
        let cells = self.epochs.iter().flat_map(|e| &e.ops);
        cells.fold((0, 0), |(failed, good), (op, c)| {
            let good = good + if op.is_step() { 0 } else { c.count };
            (failed + c.errors.values().sum::<u64>(), good)
        })
    }

    /// Response times (service times in a closed loop) of all whole operations from `from` on.
    pub fn times(&self, from: f64) -> super::Sparse {
        let mut out = super::Sparse::default();
        for epoch in self.after(from) {
            for (_, cell) in epoch.ops.iter().filter(|(op, _)| !op.is_step()) {
                out.merge(if cell.response.0.is_empty() { &cell.service } else { &cell.response });
            }
        }
        out
    }

    fn after(&self, from: f64) -> impl Iterator<Item = &Epoch> {
        let first = (from * 10.0 / f64::from(self.epoch)).round() as usize;
        self.epochs.iter().skip(first)
    }

    /// Other counts from `from` (a boundary) on.
    pub fn counters(&self, from: f64) -> BTreeMap<String, u64> {
        let mut out = BTreeMap::new();
        for epoch in self.after(from) {
            epoch.counters.iter().for_each(|(name, n)| *out.entry(name.clone()).or_default() += n);
        }
        out
    }

    /// The result: everything from second `from` (a boundary) on; rates over `from..end`.
    pub fn operations(&self, from: f64, end: f64, hosts: &[String], agents: &[String]) -> Vec<Operation> {
        let mut sum = Epoch::default();
        for epoch in self.after(from) {
            epoch.ops.iter().for_each(|(op, c)| sum.ops.entry(*op).or_default().merge(c));
            epoch.hosts.iter().for_each(|(key, h)| sum.hosts.entry(*key).or_default().merge(h));
            epoch.agents.iter().for_each(|(key, h)| sum.agents.entry(*key).or_default().merge(h));
        }
        let some = |h: &super::Sparse| (!h.0.is_empty()).then(|| h.to_result());
        let mut out = Vec::new();
        for (op, cell) in &sum.ops {
            let mut by = BTreeMap::new();
            let mut share = |kind: &str, names: &[String], i: u32, h: &HostDelta| {
                let name = names.get(i as usize).map_or_else(|| i.to_string(), Clone::clone);
                let share = Share {
                    count: h.count,
                    bytes: h.bytes,
                    errors: h.errors,
                    service: h.service.to_result(),
                };
                by.insert(format!("{kind} {name}"), share);
            };
            sum.hosts.iter().filter(|(k, _)| k.0 == *op).for_each(|(k, h)| share("host", hosts, k.1, h));
            sum.agents.iter().filter(|(k, _)| k.0 == *op).for_each(|(k, h)| share("agent", agents, k.1, h));
            let points = self.lines.get(op).cloned().unwrap_or_default();
            out.push(Operation {
                name: op.name().into(),
                count: cell.count,
                bytes: cell.bytes,
                verified_bytes: cell.verified,
                errors: cell.errors.clone(),
                rate_per_s: self.estimate(&points, from, end, cell.count, |p| p.count),
                bytes_per_s: self.estimate(&points, from, end, cell.bytes, |p| p.bytes),
                service: cell.service.to_result(),
                response: some(&cell.response),
                first_byte: some(&cell.first_byte),
                timeline: Timeline { step_s: self.step_s(), points },
                by,
            });
        }
        out
    }

    fn estimate(
        &self,
        points: &[Point],
        from: f64,
        end: f64,
        total: u64,
        value: impl Fn(&Point) -> u64,
    ) -> Estimate {
        let step = self.step_s();
        let first = (from / step - 1e-6).ceil() as usize;
        let last = (end / step + 1e-9) as usize;
        if last < first + 5 {
            let mean = total as f64 / (end - from).max(1e-6);
            return Estimate { mean, ci95: None, cov: None };
        }
        let series: Vec<f64> = (first..last).map(|i| points.get(i).map_or(0, &value) as f64 / step).collect();
        let mean = series.iter().sum::<f64>() / series.len() as f64;
        let interval = steady::batch_means(&series);
        Estimate {
            mean,
            ci95: interval.map(|i| (mean - i.half, mean + i.half)),
            cov: interval.map(|i| i.cov),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::Sparse;

    fn delta(from: u32, to: u32, count: u64, ns: u64) -> Delta {
        let cell = CellDelta {
            count,
            bytes: count * 10,
            service: Sparse(vec![(ns, count)]),
            ..CellDelta::default()
        };
        let ticks = u64::from(to - from);
        let point = Point { count: count / ticks, bytes: count * 10 / ticks, errors: 0, max_ns: ns };
        Delta {
            from,
            to,
            ticks: vec![(Op::Get, vec![point; ticks as usize])],
            ops: vec![(Op::Get, cell)],
            ..Delta::default()
        }
    }

    /// Ten days of deltas: nothing is lost and memory stays as it is.
    #[test]
    fn long_runs_are_bounded_and_exact() {
        let mut store = Store::new(10);
        let n = 864_000 / 4;
        for i in 0..n {
            store.add(None, &delta(i * 40, i * 40 + 40, 40, 1000 + u64::from(i % 500)));
        }
        assert!(store.epochs.len() <= EPOCHS && store.steps <= Timeline::MAX);
        assert!(store.usages[&0].0.len() <= SAMPLES);
        let end = f64::from(n) * 4.0;
        let operations = store.operations(0.0, end, &[], &[]);
        assert_eq!(operations[0].count, u64::from(n) * 40);
        assert_eq!(operations[0].service.count, u64::from(n) * 40);
        assert_eq!(operations[0].service.buckets.len(), 500);
        assert!((operations[0].rate_per_s.mean - 10.0).abs() < 0.01, "{:?}", operations[0].rate_per_s);
        assert_eq!(operations[0].timeline.points.iter().map(|p| p.count).sum::<u64>(), u64::from(n) * 40);
    }

    #[test]
    fn warm_up_is_cut() {
        let mut store = Store::new(2);
        for i in 0..100 {
            let slow = i < 20;
            store.add(
                None,
                &delta(i * 2, i * 2 + 2, if slow { 10 } else { 200 }, if slow { 9_000_000 } else { 1000 }),
            );
        }
        let cut = store.boundary(store.warmup(20.0, false).unwrap());
        assert!((4.0..=5.0).contains(&cut), "{cut}");
        let operations = store.operations(cut, 20.0, &[], &[]);
        assert_eq!(operations[0].service.max_ns, 1000);
        assert!((operations[0].rate_per_s.mean - 1000.0).abs() < 1e-6);
    }

    #[test]
    fn usage_between_two_moments_is_computed() {
        let mut usages = Usages::default();
        let usage = |user_s| Usage { user_s, ..Usage::default() };
        usages.add(0.0, usage(0.0));
        usages.add(10.0, usage(5.0));
        assert!((usages.between(2.0, 10.0).unwrap().user_s - 4.0).abs() < 1e-9);
    }
}
