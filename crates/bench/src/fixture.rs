//! Made-up results with known numbers, for this room's tests.

use std::collections::BTreeMap;

use crate::{
    result::{FORMAT, Histogram, Host, Load, Operation, Phase, Point, Run, Timeline, VERSION},
    stat::{self, bootstrap::Random},
};

/// A result with one `get` phase of `rates.len()` steps of one second per repetition.
fn with(name: &str, started: &str, repetitions: Vec<(Vec<u64>, Histogram)>) -> Run {
    let phases = repetitions.into_iter().zip(1..).map(|((rates, service), repetition)| {
        let points =
            rates.iter().map(|&count| Point { count, bytes: count << 20, errors: 0, max_ns: service.max_ns });
        let timeline = Timeline { step_s: 1.0, points: points.collect() };
        let count = rates.iter().sum::<u64>();
        let per_s: Vec<f64> = rates.iter().map(|&r| r as f64).collect();
        let bytes: Vec<f64> = rates.iter().map(|&r| (r << 20) as f64).collect();
        let operation = Operation {
            name: "GET".into(),
            count,
            bytes: count << 20,
            rate_per_s: stat::batched(&per_s, 20),
            bytes_per_s: stat::batched(&bytes, 20),
            service,
            timeline,
            ..Operation::default()
        };
        Phase {
            name: "get".into(),
            state: None,
            repetition,
            load: Load::Closed { concurrency: 8 },
            at_s: f64::from(repetition - 1) * 100.0,
            warmup_s: 0.0,
            seconds: rates.len() as f64,
            stopped_by: "time".into(),
            operations: vec![operation],
            cost: None,
            values: BTreeMap::new(),
        }
    });
    Run {
        format: FORMAT.into(),
        version: VERSION,
        mode: "s3".into(),
        name: name.into(),
        started: started.into(),
        command: vec!["ashlar".into(), "bench".into(), "s3".into(), "get".into()],
        environment: vec![Host {
            role: "client".into(),
            facts: BTreeMap::from([("cores".into(), "2".into())]),
        }],
        setup: BTreeMap::from([("size".into(), "1MiB".into())]),
        phases: phases.collect(),
        ..Run::default()
    }
}

/// The same number of operations in every second.
pub fn run(name: &str, started: &str, per_s: u64, seconds: usize) -> Run {
    let times = Histogram::of((0..per_s * seconds as u64).map(|i| 1_000_000 + i * 1000));
    with(name, started, vec![(vec![per_s; seconds], times)])
}

/// Sixty seconds with 3 % noise around a rate, and times around a median.
pub fn noisy(name: &str, rate: f64, median_ns: u64, repetitions: usize, seed: u64) -> Run {
    let mut random = Random(seed);
    let mut unit = move || (random.next_u64() >> 11) as f64 / 2f64.powi(53);
    let each = (0..repetitions).map(|_| {
        let rates = (0..60).map(|_| (rate * (0.97 + 0.06 * unit())) as u64).collect();
        let times = Histogram::of((0..20_000).map(|_| (median_ns as f64 * (0.5 + unit())) as u64));
        (rates, times)
    });
    with(name, "2026-01-01T00:00:00Z", each.collect())
}
