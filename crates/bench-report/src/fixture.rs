//! Artificial results with known numbers, for this crate's tests.

use std::collections::BTreeMap;

use crate::{
    random::Random,
    result::{
        Caveat, Cost, FORMAT, Histogram, Host, Load, Operation, Phase, Point, ProcessCost, Run, Severity,
        Timeline, VERSION,
    },
    stat,
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

/// A result that has everything: a closed loop with warm-up and errors, a sweep of rates with an
/// objective, ceilings, a life cycle, caveats. GET moves 60 % of the lowest ceiling.
pub fn full(name: &str) -> Run {
    let mut random = Random(7);
    let mut unit = move || (random.next_u64() >> 11) as f64 / 2f64.powi(53);
    let mut phase = |name: &str, op: &str, load: Load, rate: f64, median: f64, size: u64| {
        // A long tail, and a start that is slower.
        let mut times =
            || Histogram::of((0..30_000).map(|_| (median * 0.6 * (1.0 - unit()).powf(-0.45)) as u64));
        let (service, slower) = (times(), times());
        let open = matches!(load, Load::Open { .. });
        let response = open.then(|| {
            let mut both = service.clone();
            both.merge(&Histogram::from_buckets(slower.buckets.iter().map(|&(v, n)| (v * 3, n / 4))));
            both
        });
        let points = (0..64).map(|i| {
            let share = if i < 4 { 0.3 + 0.15 * i as f64 } else { 0.94 + 0.12 * unit() };
            let count = (rate * share) as u64;
            Point {
                count,
                bytes: count * size,
                errors: u64::from(i == 40 && op == "PUT"),
                max_ns: service.max_ns,
            }
        });
        let timeline = Timeline { step_s: 1.0, points: points.collect() };
        let (per_s, bytes) = (timeline.rates_per_s(4.0), timeline.bytes_per_s(4.0));
        let operation = Operation {
            name: op.into(),
            count: (rate * 60.0) as u64,
            bytes: (rate * 60.0) as u64 * size,
            errors: (op == "PUT").then(|| ("SlowDown".to_owned(), 1)).into_iter().collect(),
            rate_per_s: stat::batched(&per_s, 20),
            bytes_per_s: stat::batched(&bytes, 20),
            first_byte: (op == "GET" && !open)
                .then(|| Histogram::from_buckets(service.buckets.iter().map(|&(v, n)| (v / 3, n)))),
            service,
            response,
            timeline,
            ..Operation::default()
        };
        let cost = Cost {
            client: Some(ProcessCost { user_s: 1.5, system_s: 1.0, cpu_share: 0.21, peak_bytes: 30 << 20 }),
            server: Some(ProcessCost { user_s: 30.0, system_s: 15.0, cpu_share: 0.6, peak_bytes: 500 << 20 }),
            server_s_per_gib: Some(0.9),
            server_us_per_op: Some(88.4),
            client_us_per_op: Some(36.2),
        };
        Phase {
            name: name.into(),
            state: None,
            repetition: 1,
            load,
            at_s: 0.0,
            warmup_s: 4.0,
            seconds: 60.0,
            stopped_by: "time".into(),
            operations: vec![operation],
            cost: Some(cost),
            values: BTreeMap::new(),
        }
    };
    let mut phases = vec![
        phase("put", "PUT", Load::Closed { concurrency: 16 }, 480.0, 30e6, 1 << 20),
        phase("get", "GET", Load::Closed { concurrency: 16 }, 1144.0, 11e6, 1 << 20),
    ];
    for (i, rate) in [200.0, 400.0, 600.0, 800.0, 1000.0, 1200.0, 1400.0].into_iter().enumerate() {
        let load = Load::Open { rate_per_s: rate, arrivals: "poisson".into(), limit: 4096 };
        let slower = 1.0 + (i as f64 / 3.2).powi(4);
        phases.push(phase("get-sweep", "GET", load, f64::min(rate, 1230.0), 4e6 * slower, 1 << 20));
    }
    let states = [("nominal", 1.0), ("down", 0.52), ("rebuild", 0.44), ("after", 0.99)];
    for (state, share) in states {
        for (kind, op, rate) in [
            ("seq-get-4MiB", "GET", 300.0),
            ("seq-put-4MiB", "PUT", 150.0),
            ("rand-get-4KiB", "GET", 21000.0),
        ] {
            for repetition in 1..=3 {
                let size = if kind.starts_with("seq") { 4 << 20 } else { 4 << 10 };
                let load = Load::Closed { concurrency: 32 };
                let mut p = phase(
                    kind,
                    op,
                    load,
                    rate * share * (0.99 + 0.01 * f64::from(repetition)),
                    2e6 / share,
                    size,
                );
                p.state = Some(state.into());
                p.repetition = repetition;
                p.values.insert("work_per_cpu_percent".into(), rate * share / 75.0);
                if state == "rebuild" {
                    p.values.insert("rebuild_seconds".into(), 512.0);
                    p.values.insert("rebuild_bytes".into(), 96e9);
                    p.values.insert("rebuild_bytes_per_s".into(), 187.5e6);
                    p.values.insert("foreground_slowdown_percent".into(), 56.0);
                }
                phases.push(p);
            }
        }
    }
    for (i, p) in phases.iter_mut().enumerate() {
        p.at_s = i as f64 * 66.0;
    }
    let facts = |list: &[(&str, &str)]| list.iter().map(|&(k, v)| (k.to_owned(), v.to_owned())).collect();
    let caveat = |severity, code: &str, text: &str| Caveat { severity, code: code.into(), text: text.into() };
    Run {
        format: FORMAT.into(),
        version: VERSION,
        mode: "s3".into(),
        name: name.into(),
        started: "2026-11-20T21:14:03Z".into(),
        command: "ashlar bench s3 get --endpoint 127.0.0.1:9000 --bucket bench --size 1MiB --concurrency 16 --duration 60s --sweep --slo p99=50ms"
            .split(' ')
            .map(str::to_owned)
            .collect(),
        environment: vec![
            Host {
                role: "client".into(),
                facts: facts(&[
                    ("cpu", "Example Processor 9000 with a rather long marketing name, 3.20 GHz"),
                    ("cores", "16"),
                    ("memory_bytes", "137438953472"),
                    ("kernel", "6.12.0-amd64 #1 SMP PREEMPT_DYNAMIC"),
                    ("version ashlar", "0.1.0"),
                ]),
            },
            Host {
                role: "server".into(),
                facts: facts(&[
                    ("cores", "32"),
                    ("mount /srv/drives/averylongpathwithoutanyspacesinit/drive1", "xfs rw,noatime,attr2,inode64,logbufs=8,logbsize=32k,noquota"),
                ]),
            },
        ],
        setup: BTreeMap::from([
            ("size".to_owned(), "1MiB".into()),
            ("slo".to_owned(), "p99=50ms".into()),
            ("concurrency".to_owned(), 16.into()),
            ("endpoint".to_owned(), "127.0.0.1:9000".into()),
        ]),
        ceilings: Some(serde_json::json!({
            "profile": "example",
            "get": {"binding": "server network", "ceilings": [
                {"resource": "server network", "bytes_per_s": 1144.0 * 1048576.0 / 0.6, "formula": "M1", "how": "2 x 10 GbE x 0.9415"},
                {"resource": "drives", "bytes_per_s": 4.3e9, "formula": "M6", "how": "8 x 537 MB/s"},
                {"resource": "memory", "bytes_per_s": 11.2e9, "formula": "M10"}]},
            "put": {"binding": "drives", "ceilings": [
                {"resource": "drives", "bytes_per_s": 0.9e9, "formula": "M6", "how": "8 x 150 MB/s x 6/8"},
                {"resource": "server network", "bytes_per_s": 1.6e9, "formula": "M7"}]},
            "assumptions": ["drives write at 150 MB/s"]
        })),
        caveats: vec![
            caveat(Severity::Warning, "client-throttled", "The client used 92 % of its CPU: the server may be faster than this."),
            caveat(Severity::Note, "clock", "Clocks of the agents differed by up to 1.8 ms; they were not trusted."),
        ],
        phases,
    }
}
