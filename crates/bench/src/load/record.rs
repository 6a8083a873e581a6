//! Recorders of workers: histograms per operation and host, counts per tenth of a second.
//!
//! Workers share a few shards, each behind a lock that is held for some 50 ns; a collector empties them.
//! Invariants: memory depends on the numbers of operations and hosts, not of requests; the sum of all
//! [`Delta`]s is exactly what was recorded.
//!
//! Must not depend on: the readers of the deltas.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use ashlar_bench_report::result::Point;
use hdrhistogram::Histogram;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use super::{Op, Sparse};

/// The step of time in which operations are counted.
pub const TICK: Duration = Duration::from_millis(100);
/// Times are known to 64 ns or three digits, whichever is coarser.
const LOW: u64 = 64;
/// Longer times count as this: an hour.
const HIGH: u64 = 3_600_000_000_000;
/// Most distinct error codes; others are counted as `other`.
const CODES: usize = 64;

/// A histogram that grows to the largest value it saw: 80 KiB for 0.1 s.
struct Times(Option<Box<Histogram<u32>>>);

impl Times {
    fn record(&mut self, time: Duration) {
        let histogram = self.0.get_or_insert_with(|| {
            let mut new = Histogram::new_with_bounds(LOW, 1_000_000, 3).expect("valid bounds");
            new.auto(true);
            Box::new(new)
        });
        let nanos = u64::try_from(time.as_nanos()).unwrap_or(HIGH).clamp(1, HIGH);
        histogram.record(nanos).expect("it grows to an hour");
    }

    fn drain(&mut self) -> Sparse {
        let Some(histogram) = self.0.as_mut().filter(|h| !h.is_empty()) else { return Sparse::default() };
        let entries = histogram.iter_recorded();
        let entries = entries.map(|v| (v.value_iterated_to(), u64::from(v.count_at_value())));
        let mut out: Vec<(u64, u64)> = entries.collect();
        for entry in &mut out {
            entry.0 = histogram.median_equivalent(entry.0);
        }
        histogram.reset();
        Sparse(out)
    }
}

/// One operation that ended well.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    /// The operation.
    pub op: Op,
    /// The position of its host.
    pub host: usize,
    /// Payload bytes.
    pub bytes: u64,
    /// Bytes compared.
    pub verified: u64,
    /// From sending to the end of the answer.
    pub service: Duration,
    /// From the intended start to the end; `None` in a closed loop.
    pub response: Option<Duration>,
    /// From sending to the first byte of a body.
    pub first_byte: Option<Duration>,
}

struct OpCell {
    count: u64,
    bytes: u64,
    verified: u64,
    errors: BTreeMap<String, u64>,
    service: Times,
    response: Times,
    first_byte: Times,
}

struct HostCell {
    count: u64,
    bytes: u64,
    errors: u64,
    service: Times,
}

/// What was recorded of one operation since the delta before.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CellDelta {
    /// Ended well.
    pub count: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Bytes compared.
    pub verified: u64,
    /// Failures by class.
    pub errors: BTreeMap<String, u64>,
    /// Service times.
    pub service: Sparse,
    /// Response times.
    pub response: Sparse,
    /// Times to the first byte.
    pub first_byte: Sparse,
}

/// The same of one host, or of one agent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct HostDelta {
    /// Ended well.
    pub count: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Failures.
    pub errors: u64,
    /// Service times.
    pub service: Sparse,
}

/// Everything recorded in a stretch of ticks.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Delta {
    /// The first tick.
    pub from: u32,
    /// The tick after the last.
    pub to: u32,
    /// Steps of one tick from `from` on, by operation.
    pub ticks: Vec<(Op, Vec<Point>)>,
    /// By operation.
    pub ops: Vec<(Op, CellDelta)>,
    /// By operation and host; only where there are several hosts.
    pub hosts: Vec<(Op, u32, HostDelta)>,
    /// Other counts, by name.
    pub counters: BTreeMap<String, u64>,
    /// What this process has used since the start of the phase.
    pub usage: crate::cost::Usage,
}

struct Tally {
    ops: [Option<Box<OpCell>>; Op::ALL.len()],
    hosts: Vec<Option<Box<HostCell>>>,
    ticks: [Point; Op::ALL.len()],
    counters: BTreeMap<&'static str, u64>,
}

impl Tally {
    fn op(&mut self, op: Op) -> &mut OpCell {
        self.ops[op as usize].get_or_insert_with(|| {
            Box::new(OpCell {
                count: 0,
                bytes: 0,
                verified: 0,
                errors: BTreeMap::new(),
                service: Times(None),
                response: Times(None),
                first_byte: Times(None),
            })
        })
    }

    fn host(&mut self, op: Op, host: usize, hosts: usize) -> Option<&mut HostCell> {
        let cell = self.hosts.get_mut(op as usize * hosts + host)?;
        Some(cell.get_or_insert_with(|| {
            Box::new(HostCell { count: 0, bytes: 0, errors: 0, service: Times(None) })
        }))
    }
}

/// The shards, and the collector's open steps.
pub struct Recorder {
    shards: Vec<Mutex<Tally>>,
    hosts: usize,
    open: Mutex<Open>,
}

struct Open {
    from: u32,
    to: u32,
    ticks: Vec<Vec<Point>>,
}

impl Recorder {
    /// For so many workers and hosts. At most 8 shards, fewer with many hosts, so that memory stays
    /// below some 300 MiB even with 1,024 hosts.
    pub fn new(workers: u32, hosts: usize) -> Recorder {
        let shards = (workers as usize).min(8).min((512 / hosts.max(1)).max(1)).max(1);
        let cells = if hosts > 1 { hosts * Op::ALL.len() } else { 0 };
        let tally = || Tally {
            ops: std::array::from_fn(|_| None),
            hosts: (0..cells).map(|_| None).collect(),
            ticks: [Point::default(); Op::ALL.len()],
            counters: BTreeMap::new(),
        };
        let open = Open { from: 0, to: 0, ticks: vec![Vec::new(); Op::ALL.len()] };
        Recorder { shards: (0..shards).map(|_| Mutex::new(tally())).collect(), hosts, open: Mutex::new(open) }
    }

    /// An operation of worker `worker` ended well.
    pub fn ok(&self, worker: u32, sample: &Sample) {
        let mut tally = self.shards[worker as usize % self.shards.len()].lock();
        let point = &mut tally.ticks[sample.op as usize];
        point.count += 1;
        point.bytes += sample.bytes;
        point.max_ns = point.max_ns.max(sample.service.as_nanos() as u64);
        let cell = tally.op(sample.op);
        cell.count += 1;
        cell.bytes += sample.bytes;
        cell.verified += sample.verified;
        cell.service.record(sample.service);
        if let Some(response) = sample.response {
            cell.response.record(response);
        }
        if let Some(first_byte) = sample.first_byte {
            cell.first_byte.record(first_byte);
        }
        if let Some(cell) = tally.host(sample.op, sample.host, self.hosts) {
            cell.count += 1;
            cell.bytes += sample.bytes;
            cell.service.record(sample.service);
        }
    }

    /// An operation failed.
    pub fn failed(&self, worker: u32, op: Op, host: usize, class: &str) {
        let mut tally = self.shards[worker as usize % self.shards.len()].lock();
        tally.ticks[op as usize].errors += 1;
        let errors = &mut tally.op(op).errors;
        let known = errors.contains_key(class) || errors.len() < CODES;
        *errors.entry(if known { class } else { "other" }.to_owned()).or_default() += 1;
        if let Some(cell) = tally.host(op, host, self.hosts) {
            cell.errors += 1;
        }
    }

    /// Counts something else.
    pub fn count(&self, worker: u32, name: &'static str, n: u64) {
        *self.shards[worker as usize % self.shards.len()].lock().counters.entry(name).or_default() += n;
    }

    /// Ends the steps up to `tick` (which has begun); what was counted since goes to the last one.
    pub fn tick(&self, tick: u32) {
        let mut open = self.open.lock();
        let mut now = [Point::default(); Op::ALL.len()];
        for shard in &self.shards {
            let mut tally = shard.lock();
            for (sum, point) in now.iter_mut().zip(&mut tally.ticks) {
                join(sum, std::mem::take(point));
            }
        }
        let len = (tick.max(open.to) - open.from) as usize;
        for (points, now) in open.ticks.iter_mut().zip(now) {
            if points.is_empty() && now == Point::default() {
                continue;
            }
            // A collector that came late has missed steps; they are empty.
            points.resize(len.max(points.len()).max(1), Point::default());
            join(points.last_mut().expect("at least one"), now);
        }
        open.to = tick.max(open.to);
    }

    /// Empties everything; call [`Recorder::tick`] before.
    pub fn drain(&self, usage: crate::cost::Usage) -> Delta {
        let mut open = self.open.lock();
        let mut delta = Delta { from: open.from, to: open.to, usage, ..Delta::default() };
        for op in Op::ALL {
            let points = std::mem::take(&mut open.ticks[op as usize]);
            if !points.is_empty() {
                delta.ticks.push((op, points));
            }
        }
        open.from = open.to;
        drop(open);
        let mut ops: BTreeMap<Op, CellDelta> = BTreeMap::new();
        let mut hosts: BTreeMap<(Op, u32), HostDelta> = BTreeMap::new();
        for shard in &self.shards {
            let mut tally = shard.lock();
            for op in Op::ALL {
                if let Some(cell) = &mut tally.ops[op as usize] {
                    ops.entry(op).or_default().merge(&cell.drain());
                }
                for host in 0..self.hosts {
                    if let Some(Some(cell)) = tally.hosts.get_mut(op as usize * self.hosts + host) {
                        hosts.entry((op, host as u32)).or_default().merge(&cell.drain());
                    }
                }
            }
            for (name, n) in std::mem::take(&mut tally.counters) {
                *delta.counters.entry(name.to_owned()).or_default() += n;
            }
        }
        delta.ops = ops.into_iter().filter(|(_, c)| *c != CellDelta::default()).collect();
        let hosts = hosts.into_iter().filter(|(_, h)| *h != HostDelta::default());
        delta.hosts = hosts.map(|((op, host), h)| (op, host, h)).collect();
        delta
    }

    /// The tick that contains `at`.
    pub fn tick_of(start: Instant, at: Instant) -> u32 {
        (at.saturating_duration_since(start).as_millis() / TICK.as_millis()) as u32
    }
}

/// Adds a step to another.
pub(super) fn join(to: &mut Point, from: Point) {
    to.count += from.count;
    to.bytes += from.bytes;
    to.errors += from.errors;
    to.max_ns = to.max_ns.max(from.max_ns);
}

impl OpCell {
    fn drain(&mut self) -> CellDelta {
        CellDelta {
            count: std::mem::take(&mut self.count),
            bytes: std::mem::take(&mut self.bytes),
            verified: std::mem::take(&mut self.verified),
            errors: std::mem::take(&mut self.errors),
            service: self.service.drain(),
            response: self.response.drain(),
            first_byte: self.first_byte.drain(),
        }
    }
}

impl HostCell {
    fn drain(&mut self) -> HostDelta {
        HostDelta {
            count: std::mem::take(&mut self.count),
            bytes: std::mem::take(&mut self.bytes),
            errors: std::mem::take(&mut self.errors),
            service: self.service.drain(),
        }
    }
}

impl CellDelta {
    /// Adds another.
    pub fn merge(&mut self, other: &CellDelta) {
        self.count += other.count;
        self.bytes += other.bytes;
        self.verified += other.verified;
        for (class, n) in &other.errors {
            let known = self.errors.contains_key(class) || self.errors.len() < CODES;
            let class = if known { class.as_str() } else { "other" };
            *self.errors.entry(class.to_owned()).or_default() += n;
        }
        self.service.merge(&other.service);
        self.response.merge(&other.response);
        self.first_byte.merge(&other.first_byte);
    }
}

impl HostDelta {
    /// Adds another.
    pub fn merge(&mut self, other: &HostDelta) {
        self.count += other.count;
        self.bytes += other.bytes;
        self.errors += other.errors;
        self.service.merge(&other.service);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::keys::Rng;

    /// Two million values through eight shards: quantiles as of one plain histogram, and no memory
    /// per value.
    #[test]
    fn shards_add_up_and_memory_is_bounded() {
        let recorder = Recorder::new(8, 1);
        let mut whole = Histogram::<u64>::new_with_bounds(LOW, HIGH, 3).unwrap();
        let mut rng = Rng::new(3);
        let mut sum = CellDelta::default();
        let before = crate::cost::own().unwrap().peak_bytes;
        for i in 0..2_000_000_u32 {
            let ns = (rng.unit() * 18.0).exp2() as u64 * 1000 + 1000;
            whole.record(ns).unwrap();
            let service = Duration::from_nanos(ns);
            let sample = Sample {
                op: Op::Get,
                host: 0,
                bytes: 1,
                verified: 0,
                service,
                response: Some(service),
                first_byte: Some(service),
            };
            recorder.ok(i % 8, &sample);
            if i % 100_000 == 99_999 {
                recorder.tick(i / 100_000 + 1);
                let delta = recorder.drain(crate::cost::Usage::default());
                delta.ops.iter().for_each(|(_, cell)| sum.merge(cell));
            }
        }
        let grown = crate::cost::own().unwrap().peak_bytes - before;
        assert!(grown < 64 << 20, "{grown}");
        assert_eq!((sum.count, sum.service.count(), sum.bytes), (2_000_000, 2_000_000, 2_000_000));
        assert_eq!(sum.service, sum.response);
        for q in [0.0, 0.5, 0.9, 0.99, 0.999, 1.0] {
            assert_eq!(sum.service.quantile(q), whole.median_equivalent(whole.value_at_quantile(q)), "{q}");
        }
        let result = sum.service.to_result();
        assert!((result.mean_ns / whole.mean() - 1.0).abs() < 0.001);
        assert!((result.stdev_ns / whole.stdev() - 1.0).abs() < 0.001);
    }

    #[test]
    fn ticks_and_errors_are_counted() {
        let recorder = Recorder::new(1, 2);
        for i in 0..100 {
            recorder.failed(0, Op::Put, 1, &format!("code-{i}"));
        }
        recorder.tick(3);
        let delta = recorder.drain(crate::cost::Usage::default());
        assert_eq!((delta.from, delta.to), (0, 3));
        let errors = &delta.ops[0].1.errors;
        assert_eq!((errors.len(), errors["other"]), (CODES + 1, 36));
        assert_eq!(delta.hosts[0].2.errors, 100);
        assert_eq!(delta.ticks[0].1.iter().map(|p| p.errors).sum::<u64>(), 100);
        assert_eq!(recorder.drain(crate::cost::Usage::default()).ops, []);
    }
}
