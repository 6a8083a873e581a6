//! What drives and ports have done: counters, and rates of the last second.
//!
//! Must not depend on: what is counted.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

use crate::api::Use;
use crate::drive_model::Operation;

/// Counters of one drive or port.
#[derive(Default)]
pub(crate) struct Usage {
    reads: AtomicU64,
    writes: AtomicU64,
    bytes_read: AtomicU64,
    bytes_written: AtomicU64,
    errors: AtomicU64,
    rates: Mutex<Rates>,
}

/// Counters at the last sample, and what came since the one before, per second.
#[derive(Default)]
struct Rates {
    at: Duration,
    seen: [u64; 4],
    per_s: [u64; 4],
}

impl Usage {
    /// A command has ended.
    pub(crate) fn count(&self, operation: Operation, len: u64, failed: bool) {
        let add = |counter: &AtomicU64, n: u64| {
            counter.fetch_add(n, Ordering::Relaxed);
        };
        match operation {
            _ if failed => add(&self.errors, 1),
            Operation::Read => {
                add(&self.reads, 1);
                add(&self.bytes_read, len);
            }
            Operation::Write => {
                add(&self.writes, 1);
                add(&self.bytes_written, len);
            }
            Operation::Change | Operation::Flush => {}
        }
    }

    fn now(&self) -> [u64; 4] {
        [&self.reads, &self.writes, &self.bytes_read, &self.bytes_written].map(|c| c.load(Ordering::Relaxed))
    }

    /// Makes the rates of the time since the last sample.
    pub(crate) fn sample(&self, at: Duration) {
        let now = self.now();
        let mut rates = self.rates.lock();
        let passed = at.saturating_sub(rates.at).as_secs_f64();
        if passed < 0.1 {
            return;
        }
        let per_s = |(now, seen): (u64, u64)| (now.saturating_sub(seen) as f64 / passed).round() as u64;
        for (i, counters) in now.into_iter().zip(rates.seen).enumerate() {
            rates.per_s[i] = per_s(counters);
        }
        (rates.at, rates.seen) = (at, now);
    }

    pub(crate) fn describe(&self) -> Use {
        let [reads, writes, bytes_read, bytes_written] = self.now();
        let [reads_per_s, writes_per_s, read_bytes_per_s, written_bytes_per_s] = self.rates.lock().per_s;
        Use {
            reads,
            writes,
            bytes_read,
            bytes_written,
            errors: self.errors.load(Ordering::Relaxed),
            reads_per_s,
            writes_per_s,
            read_bytes_per_s,
            written_bytes_per_s,
        }
    }
}
