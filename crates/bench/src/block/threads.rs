//! Runs the threads of a phase over one common interval and combines their results.

use std::{
    collections::BTreeMap,
    io::ErrorKind,
    sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    thread,
    time::{Duration, Instant},
};

use ashlar_bench_report::{
    random::Random,
    result::{Cost, Estimate, Histogram, Load, Operation, Phase, Point, ProcessCost, Share, Timeline, hist},
    stat,
};
use ashlar_machine::BufferPool;
use hdrhistogram::Histogram as Recorder;

use super::{
    Options,
    place::Place,
    slot::{self, Done, Interval, Order, Slot, Tally},
};
use crate::{
    cost::{self, Usage},
    error::{Error, Result},
};

/// Block of the precondition.
const FILL: u64 = 1 << 20;
/// Threads per drive that write it.
const FILLERS: usize = 4;
/// What a thread needs of stack: the deepest that it calls is the host of NVMe/TCP.
const STACK: usize = 256 << 10;
/// Time for all threads to come up before the load starts.
const COME_UP: Duration = Duration::from_millis(50);
/// Seconds after the end of a phase from which a silent drive is named.
const PATIENCE: Duration = Duration::from_secs(20);

/// Writes every block of every drive once, all drives at the same time, and makes it durable.
///
/// # Errors
/// [`Error::Io`] of the first drive that fails.
pub fn precondition(targets: &[&dyn Place], options: &Options, stop: &AtomicBool) -> Result<()> {
    let pool = BufferPool::new(0);
    let cursors: Vec<AtomicU64> = targets.iter().map(|_| AtomicU64::new(0)).collect();
    thread::scope(|scope| {
        let mut fillers = Vec::new();
        for (d, target) in targets.iter().enumerate() {
            let cursor = &cursors[d];
            for f in 0..FILLERS {
                let mut buffer = pool.get_reserved(FILL as usize);
                let mut random = Random(options.seed ^ ((d * FILLERS + f) as u64) << 40);
                fillers.push(scope.spawn(move || -> std::io::Result<()> {
                    let handle = target.handle()?;
                    slot::fill(&mut buffer, &mut random);
                    while !stop.load(Ordering::Relaxed) {
                        let at = cursor.fetch_add(FILL, Ordering::Relaxed);
                        if at >= target.size() {
                            break;
                        }
                        slot::stamp(&mut buffer, &mut random);
                        let length = FILL.min(target.size() - at) as usize;
                        handle.write(&buffer[..length], at)?;
                    }
                    Ok(())
                }));
            }
        }
        for (i, filler) in fillers.into_iter().enumerate() {
            let target = &targets[i / FILLERS];
            let done = filler.join().unwrap_or_else(|_| Err(ErrorKind::Other.into()));
            done.map_err(Error::io(format!("cannot write to {}", target.name())))?;
        }
        Ok(())
    })?;
    for target in targets {
        target.sync().map_err(Error::io(format!("cannot flush {}", target.name())))?;
    }
    Ok(())
}

/// Drives all targets at once and measures.
///
/// # Errors
/// [`Error::Io`] when a handle or thread cannot be had; I/O errors of the load are counted.
pub fn measure(
    options: &Options,
    targets: &[&dyn Place],
    order: Order,
    block: u64,
    sequential: bool,
    stop: &AtomicBool,
    note: &dyn Fn(&str),
) -> Result<Phase> {
    let pool = BufferPool::new(0);
    let (depth, jobs) = (options.depth as usize, options.jobs as usize);
    let per_drive = depth * jobs;
    let interval = interval(
        options,
        Instant::now() + COME_UP + Duration::from_micros(100) * (targets.len() * per_drive) as u32,
    );
    let cursors: Vec<AtomicU64> = (0..targets.len() * jobs).map(|_| AtomicU64::new(0)).collect();
    let working: Vec<AtomicUsize> = targets.iter().map(|_| AtomicUsize::new(per_drive)).collect();
    let mut seconds = options.runtime_s;
    let mut interrupted = false;
    let mut used = None;
    let tallies: Vec<Done> = thread::scope(|scope| {
        let mut threads = Vec::new();
        for (d, target) in targets.iter().enumerate() {
            for job in 0..jobs {
                let blocks = target.size() / block;
                let region = if sequential {
                    let part = blocks / jobs as u64;
                    (job as u64 * part * block, part)
                } else {
                    (0, blocks)
                };
                for place in 0..depth {
                    let number = ((d * jobs + job) * depth + place) as u64;
                    let slot = Slot {
                        handle: target
                            .handle()
                            .map_err(Error::io(format!("cannot open {} again", target.name())))?,
                        buffer: pool.get_reserved(block as usize),
                        region,
                        cursor: &cursors[d * jobs + job],
                        order,
                        interval,
                        stop,
                        random: Random(options.seed.wrapping_mul(0x9e37_79b9).wrapping_add(number << 32)),
                    };
                    let working = &working[d];
                    let thread = thread::Builder::new()
                        .stack_size(STACK)
                        .spawn_scoped(scope, move || {
                            let done = slot.run();
                            working.fetch_sub(1, Ordering::Relaxed);
                            done
                        })
                        .map_err(Error::io("cannot start a thread"))?;
                    threads.push(thread);
                }
            }
        }
        (seconds, interrupted, used) = watch(&interval, targets, &working, stop, note);
        let done = threads.into_iter().map(|t| t.join());
        done.collect::<std::result::Result<Vec<_>, _>>()
            .map_err(|_| Error::setup("a thread of the load failed"))
    })?;
    let mut phase = phase(options, targets, order, interval, tallies, seconds, interrupted);
    phase.cost = used.map(|used| cost_of(&used, seconds, phase.operations.iter().map(|o| o.count).sum()));
    Ok(phase)
}

fn interval(options: &Options, start: Instant) -> Interval {
    let whole = options.warmup_s + options.runtime_s;
    // Tenths of a second, longer ones when there would be too many.
    let step_s = (whole / Timeline::MAX as f64 * 10.0).ceil().max(1.0) / 10.0;
    let from = start + Duration::from_secs_f64(options.warmup_s);
    Interval {
        start,
        from,
        to: from + Duration::from_secs_f64(options.runtime_s),
        step_ns: (step_s * 1e9) as u64,
        steps: (whole / step_s).ceil() as usize,
    }
}

/// Waits for the end; returns the seconds that count and whether the user ended them. Names drives
/// that do not answer.
fn watch(
    interval: &Interval,
    targets: &[&dyn Place],
    working: &[AtomicUsize],
    stop: &AtomicBool,
    note: &dyn Fn(&str),
) -> (f64, bool, Option<Usage>) {
    let (mut before, mut after) = (None, None);
    let all = interval.to.duration_since(interval.from).as_secs_f64();
    let mut ended = None;
    let mut next_word = interval.to + PATIENCE;
    while working.iter().any(|w| w.load(Ordering::Relaxed) > 0) {
        let now = Instant::now();
        if before.is_none() && now >= interval.from {
            before = cost::own();
        }
        if after.is_none() && now >= interval.to {
            after = cost::own();
        }
        if ended.is_none() && now < interval.to && stop.load(Ordering::Relaxed) {
            ended = Some(now.saturating_duration_since(interval.from).as_secs_f64());
            next_word = now + PATIENCE;
        }
        if now > next_word {
            for (target, left) in targets.iter().zip(working) {
                let left = left.load(Ordering::Relaxed);
                if left > 0 {
                    note(&format!("{}: {left} I/Os did not complete", target.name()));
                }
            }
            next_word = now + PATIENCE;
        }
        // A wake-up every 20 ms costs nothing against the load.
        thread::sleep(Duration::from_millis(20));
    }
    // The threads may have seen it first.
    let now = Instant::now();
    if ended.is_none() && now < interval.to && stop.load(Ordering::Relaxed) {
        ended = Some(now.saturating_duration_since(interval.from).as_secs_f64());
    }
    let used = after.or_else(cost::own).zip(before).map(|(after, before)| after.since(&before));
    (ended.unwrap_or(all), ended.is_some(), used)
}

/// The document's phase of what all threads did; name, repetition and start are the caller's.
fn phase(
    options: &Options,
    targets: &[&dyn Place],
    order: Order,
    interval: Interval,
    done: Vec<Done>,
    seconds: f64,
    interrupted: bool,
) -> Phase {
    let per_drive = options.slots_per_drive();
    let (mut reads, mut writes) = (Vec::new(), Vec::new());
    for each in done {
        reads.push(each.read);
        writes.push(each.write);
    }
    let both = |r: u8| r > 0 && r < 100;
    let (read, write) = match order {
        Order::SequentialRead => (true, false),
        Order::SequentialWrite => (false, true),
        Order::Random { read_percent: r } => (r == 100 || both(r), r == 0 || both(r)),
    };
    let mut operations = Vec::new();
    for (wanted, name, tallies) in [(read, "read", reads), (write, "write", writes)] {
        if wanted {
            operations.push(operation(
                name,
                targets,
                per_drive,
                interval,
                &tallies,
                seconds,
                options.warmup_s,
            ));
        }
    }
    Phase {
        name: String::new(),
        state: None,
        repetition: 1,
        load: Load::Closed { concurrency: (targets.len() * per_drive) as u32 },
        at_s: 0.0,
        warmup_s: options.warmup_s,
        seconds,
        stopped_by: if interrupted { "interrupted" } else { "time" }.to_owned(),
        operations,
        cost: None,
        values: BTreeMap::from([("drives".to_owned(), targets.len() as f64)]),
    }
}

fn operation(
    name: &str,
    targets: &[&dyn Place],
    per_drive: usize,
    interval: Interval,
    tallies: &[Tally],
    seconds: f64,
    warmup_s: f64,
) -> Operation {
    let mut all = Operation { name: name.to_owned(), ..Operation::default() };
    let mut times = hist::recorder();
    let mut points = vec![Point::default(); interval.steps];
    for (target, tallies) in targets.iter().zip(tallies.chunks(per_drive)) {
        let mut of_drive = hist::recorder();
        let mut share = Share::default();
        for tally in tallies {
            share.count += tally.count;
            share.bytes += tally.bytes;
            share.errors += tally.failed();
            add_times(&mut of_drive, &tally.times);
            for (kind, n) in &tally.errors {
                *all.errors.entry(kind.to_string()).or_default() += n;
            }
            for (sum, point) in points.iter_mut().zip(&tally.points) {
                sum.count += point.count;
                sum.bytes += point.bytes;
                sum.errors += point.errors;
                sum.max_ns = sum.max_ns.max(point.max_ns);
            }
        }
        share.service = Histogram::from(&of_drive);
        all.count += share.count;
        all.bytes += share.bytes;
        // Same bounds: cannot fail.
        let _ = times.add(&of_drive);
        all.by.insert(format!("drive {}", target.name()), share);
    }
    let step_s = interval.step_ns as f64 / 1e9;
    let series = |value: fn(&Point) -> u64| {
        let skip = (warmup_s / step_s).ceil() as usize;
        let whole = ((warmup_s + seconds) / step_s + 1e-9) as usize;
        let rates: Vec<f64> =
            points[..whole.min(points.len())].iter().skip(skip).map(|p| value(p) as f64 / step_s).collect();
        stat::batched(&rates, 20)
    };
    let seconds = seconds.max(1e-9);
    all.rate_per_s = around(all.count as f64 / seconds, series(|p| p.count));
    all.bytes_per_s = around(all.bytes as f64 / seconds, series(|p| p.bytes));
    all.service = Histogram::from(&times);
    all.timeline = Timeline { step_s, points };
    all
}

/// What the program used while it measured: to 20 ms, as [`watch`] looks.
fn cost_of(used: &Usage, seconds: f64, count: u64) -> Cost {
    let cpu_s = used.user_s + used.system_s;
    Cost {
        client: Some(ProcessCost {
            user_s: used.user_s,
            system_s: used.system_s,
            cpu_share: cpu_s / seconds.max(1e-9) / f64::from(used.cores.max(1)),
            peak_bytes: used.peak_bytes,
        }),
        client_us_per_op: (count > 0).then(|| cpu_s / count as f64 * 1e6),
        ..Cost::default()
    }
}

/// The exact mean with the interval of the series around it.
fn around(mean: f64, series: Estimate) -> Estimate {
    let shift = mean - series.mean;
    Estimate { mean, ci95: series.ci95.map(|(low, high)| (low + shift, high + shift)), cov: series.cov }
}

fn add_times(to: &mut Recorder<u64>, from: &Recorder<u32>) {
    for bucket in from.iter_recorded() {
        to.saturating_record_n(bucket.value_iterated_to(), u64::from(bucket.count_at_value()));
    }
}
