//! Monitors a phase while it runs: merges, displays, and ends it when it is steady or fails too often.

use std::time::Instant;

use super::{Console, Delta, Job, Snapshot, Sparse, Stop, Store, Warmup, phase::Reason, store::Usages};
use crate::cost::Source;

/// Requests before an error rate is evaluated.
const JUDGED: u64 = 100;

/// Watches a phase while it runs.
pub(super) struct Watch<'a> {
    pub(super) job: &'a Job,
    pub(super) stop: Stop,
    pub(super) open: bool,
    pub(super) name: String,
    pub(super) start: Instant,
    pub(super) store: Store,
    pub(super) shown: Instant,
    /// Since the last snapshot: times, (operations, bytes, ticks).
    pub(super) window: Sparse,
    pub(super) counts: (u64, u64, u32),
    pub(super) total: (u64, u64),
    pub(super) server: Usages,
    pub(super) sampled: Instant,
}

impl Watch<'_> {
    pub(super) fn sample(&mut self, server: Option<&Source>, at: f64) {
        if let Some(Ok(usage)) = server.map(Source::read) {
            self.server.add(at, usage);
        }
        self.sampled = Instant::now();
    }

    pub(super) fn take(
        &mut self,
        agent: Option<u32>,
        delta: &Delta,
        server: Option<&Source>,
        console: &mut dyn Console,
    ) -> Option<Reason> {
        self.store.add(agent, delta);
        for (_, cell) in delta.ops.iter().filter(|(op, _)| !op.is_step()) {
            self.counts.0 += cell.count;
            self.counts.1 += cell.bytes;
            self.total.0 += cell.count;
            self.total.1 += cell.bytes;
            self.window.merge(if cell.response.0.is_empty() { &cell.service } else { &cell.response });
        }
        let every = if server.is_some_and(Source::is_local) { 1 } else { 5 };
        if server.is_some() && self.sampled.elapsed().as_secs() >= every {
            self.sample(server, self.start.elapsed().as_secs_f64());
        }
        let (failed, good) = self.store.outcome();
        if self.shown.elapsed().as_millis() >= 950 {
            self.show(failed, console);
            if self.is_steady() {
                return Some(Reason::Steady);
            }
        }
        let judged = failed + good >= JUDGED || (good == 0 && failed >= 20);
        let rate = failed as f64 / (failed + good).max(1) as f64;
        (judged && rate > self.job.max_error_rate).then_some(Reason::Errors)
    }

    fn show(&mut self, errors: u64, console: &mut dyn Console) {
        let seconds = self.shown.elapsed().as_secs_f64();
        let at_s = self.start.elapsed().as_secs_f64();
        let shares = [
            self.stop.seconds.map(|s| at_s / s),
            self.stop.count.map(|n| self.total.0 as f64 / n.max(1) as f64),
            self.stop.bytes.map(|n| self.total.1 as f64 / n.max(1) as f64),
        ];
        console.snapshot(&Snapshot {
            name: self.name.clone(),
            at_s,
            done: shares.into_iter().flatten().reduce(f64::max).map(|d| d.min(1.0)),
            rate: self.counts.0 as f64 / seconds,
            bytes: self.counts.1 as f64 / seconds,
            p50: self.window.quantile(0.5),
            p99: self.window.quantile(0.99),
            errors,
        });
        self.window = Sparse::default();
        self.counts = (0, 0, 0);
        self.shown = Instant::now();
    }

    fn is_steady(&self) -> bool {
        let Some(limit) = self.stop.steady else { return false };
        let now = self.start.elapsed().as_secs_f64();
        let cut = match self.job.warmup {
            Warmup::Seconds(s) => s,
            Warmup::Auto => match self.store.warmup(now, self.open) {
                Some(cut) => cut,
                None => return false,
            },
        };
        // 20 batches of a quarter of a second at least.
        now - cut >= 5.0 && self.store.confidence(cut, now).is_some_and(|i| i.relative() <= limit)
    }
}
