//! The model in virtual time: published figures, rates, service times, disks, temperature.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::path::Path;
use std::time::Duration;

use ashlar_environment::random::Seeded;

use super::setup;
use crate::drive_model::Operation::{self, Read, Write};
use crate::limiter::CATCH_UP;
use crate::model::{Command, Model};

/// What hosts do.
#[derive(Clone, Copy)]
struct Load {
    /// Commands in progress at each drive.
    depth: usize,
    drives: usize,
    bytes: u64,
    /// Of a hundred commands, those that read.
    reads: u64,
    sequential: bool,
}

const MIB: u64 = 1 << 20;

/// A closed loop over a time; drive `d` is used through port `d` modulo the number of ports. Commands that ended in the second
/// half, per second.
fn run(model: &mut Model, ports: usize, load: Load, time: Duration) -> f64 {
    let mut random = Seeded::new(1);
    let mut waiting: BinaryHeap<Reverse<(Duration, usize)>> =
        (0..load.drives * load.depth).map(|i| Reverse((Duration::ZERO, i % load.drives))).collect();
    let mut next = vec![0; load.drives];
    let mut done = 0;
    while let Some(Reverse((now, drive))) = waiting.pop() {
        if now > time {
            break;
        }
        done += u64::from(now > time / 2);
        let operation = if random.below(100) < load.reads { Read } else { Write };
        let at = match load.sequential {
            true => {
                next[drive] += load.bytes;
                next[drive] - load.bytes
            }
            false => random.below(1 << 12) * 65_536,
        };
        let command = Command { drive, port: drive % ports, operation, at, len: load.bytes };
        waiting.push(Reverse((model.begin(now, &command), drive)));
    }
    done as f64 / (time / 2).as_secs_f64()
}

fn close(what: &str, measured: f64, expected: f64, percent: f64) {
    let error = 100.0 * (measured / expected - 1.0);
    assert!(error.abs() <= percent, "{what}: {measured} instead of {expected}, {error:.1} %");
}

#[test]
fn published_figures_of_a_data24_come_out_at_scale() {
    let scale = 1000.0;
    let rate = |bytes, reads| {
        let mut model = Model::new(&setup(Path::new("/x"), "data24", "scale = 1000"));
        let load = Load { depth: 64, drives: 24, bytes, reads, sequential: true };
        run(&mut model, 6, load, Duration::from_secs(40)) * scale
    };
    // Rows P15, P16 and P12 of docs/bench-plan.md. The cap of a port is the specified 2.5 M/s: 15.3 M/s is 2 % above it.
    close("random reads", rate(4096, 100), 15.0e6, 1.0);
    close("published random reads", rate(4096, 100), 15.3e6, 2.5);
    close("random writes", rate(4096, 0), 6.26e6, 1.0);
    close("a mix of 70/30", rate(4096, 70), 12.0e6, 2.0);
    close("sequential reads", rate(MIB / 8, 100) * (MIB / 8) as f64, 72.1e9, 1.0);
    close("sequential writes", rate(MIB / 8, 0) * (MIB / 8) as f64, 39.6e9, 1.0);
}

#[test]
fn each_cap_binds_alone() {
    let rate = |rest: &str, drives, ports, bytes, reads| {
        let mut model = Model::new(&setup(Path::new("/x"), "data24", &format!("scale = 1000\n{rest}")));
        let load = Load { depth: 64, drives, bytes, reads, sequential: true };
        run(&mut model, ports, load, Duration::from_secs(400))
    };
    close("a drive's reads", rate("", 1, 1, 4096, 100), 823.7, 1.0);
    close("a drive's writes", rate("", 1, 1, 4096, 0), 260.8, 1.0);
    close("a port's commands", rate("", 24, 1, 4096, 100), 2500.0, 1.0);
    close("a port's bytes", rate("", 24, 1, MIB, 100) * MIB as f64, 12.02e6, 1.0);
    // One port each way: reads and writes do not share a direction.
    close("both directions", rate("", 24, 1, MIB, 50) * MIB as f64, 2.0 * 12.02e6, 6.0);
    close("a module's commands", rate("[module]\niops = 4e6", 24, 3, 4096, 100), 4000.0, 1.0);
    close("a module's bytes", rate("[module]\nrate = \"20GB/s\"", 24, 3, MIB, 100) * MIB as f64, 20e6, 1.0);
}

#[test]
fn no_interval_has_more_than_the_rate() {
    let mut model = Model::new(&setup(Path::new("/x"), "data24", "scale = 1000"));
    let mut random = Seeded::new(3);
    let mut ends = Vec::new();
    let mut now = Duration::ZERO;
    for _ in 0..20_000 {
        // Bursts and silence.
        now += Duration::from_micros(if random.below(200) == 0 { 50_000 } else { random.below(400) });
        let command = Command { drive: 3, port: 1, operation: Read, at: 0, len: 4096 };
        ends.push(model.begin(now, &command));
    }
    ends.sort_unstable();
    let most = |span: Duration| 1.0 + (span + CATCH_UP).as_secs_f64() * 1e6 / 1.214 / 1000.0;
    for (first, from) in ends.iter().enumerate().step_by(97) {
        for (last, until) in ends.iter().enumerate().skip(first).step_by(101) {
            let count = (last - first + 1) as f64;
            // A command ends up to its service time after its work.
            assert!(count <= most(*until - *from) + 3.0, "{first} to {last}: {:?}", *until - *from);
        }
    }
}

/// When single commands end that begin when the one before has ended.
fn one_by_one(model: &mut Model, commands: &[(Operation, u64, u64)]) -> Vec<Duration> {
    let mut now = Duration::from_secs(1);
    let mut out = Vec::new();
    for (operation, at, len) in commands {
        let end = model.begin(now, &Command { drive: 0, port: 0, operation: *operation, at: *at, len: *len });
        out.push(end - now);
        now = end;
    }
    out
}

#[test]
fn service_time_follows_the_curve_and_then_the_rate() {
    let rest = "[drive]\nread_us = [[1, 80], [9, 160]]";
    let mut model = Model::new(&setup(Path::new("/x"), "data24", rest));
    let now = Duration::from_secs(1);
    let command = Command { drive: 0, port: 0, operation: Read, at: 0, len: 4096 };
    let latencies: Vec<f64> =
        (0..512).map(|_| (model.begin(now, &command) - now).as_secs_f64() * 1e6).collect();
    close("depth 1", latencies[0], 80.0 + 1.2, 0.2);
    close("depth 5", latencies[4], 120.0 + 1.2, 0.2);
    close("depth 9", latencies[8], 160.0 + 1.2, 0.2);
    close("depth 64", latencies[63], 160.0 + 1.2, 0.2);
    // 5 ms of idle time may be made up for, so the queue waits from 4118 commands on only.
    let mut late = Vec::new();
    for _ in 0..8192 {
        late.push((model.begin(now, &command) - now).as_secs_f64() * 1e6);
    }
    close("depth 8704", *late.last().unwrap(), 8704.0 * 1.214 - 5000.0, 1.0);
}

#[test]
fn slow_drive_takes_as_many_times_longer() {
    let mut model = Model::new(&setup(Path::new("/x"), "data24", "scale = 1000"));
    model.drives[0].slowness = 10.0;
    let load = Load { depth: 64, drives: 1, bytes: 4096, reads: 100, sequential: true };
    close("a tenth of the rate", run(&mut model, 1, load, Duration::from_secs(4)), 82.37, 1.5);
    let mut model = Model::new(&setup(Path::new("/x"), "data24", ""));
    model.drives[0].slowness = 10.0;
    let took = one_by_one(&mut model, &[(Read, 0, 4096)]);
    close("ten times the service time", took[0].as_secs_f64() * 1e6, 862.1, 0.5);
}

#[test]
fn disk_seeks_turns_and_transfers() {
    let new = || Model::new(&setup(Path::new("/x"), "data60", ""));
    let load = |sequential, bytes| Load { depth: 1, drives: 1, bytes, reads: 100, sequential };
    let sequential = run(&mut new(), 1, load(true, MIB), Duration::from_secs(10));
    close("sequential", sequential * MIB as f64, 250e6, 1.0);
    // Over 256 MiB of 8 TB: hardly a seek beyond that to a near track, half a turn on average, and the transfer.
    let near = run(&mut new(), 1, load(false, 4096), Duration::from_secs(20));
    close("random within a small range", near, 1.0 / (1.0e-3 + 4.17e-3 + 0.03e-3), 15.0);
    let mut random = Seeded::new(5);
    let far: Vec<_> = (0..4000).map(|_| (Read, random.below(1_900_000_000) * 4096, 4096)).collect();
    let took: Duration = one_by_one(&mut new(), &far).iter().sum();
    // The mean of the root of the distance of two random places is 8/15, of a third of the way 0.577.
    close("random over the disk", 4000.0 / took.as_secs_f64(), 1.0 / (7.9e-3 + 4.17e-3), 3.0);
    // A second command in progress waits for the first.
    let mut model = new();
    let begin = |model: &mut Model, at| {
        model.begin(Duration::from_secs(1), &Command { drive: 0, port: 0, operation: Read, at, len: MIB })
    };
    let (one, two) = (begin(&mut model, 0), begin(&mut model, MIB));
    close("the transfer of the second", (two - one).as_secs_f64(), MIB as f64 / 250e6, 0.1);
}

#[test]
fn disk_at_a_scale_takes_as_many_times_longer() {
    let mut random = Seeded::new(6);
    let places: Vec<u64> = (0..4000).map(|_| random.below(1_900_000_000)).collect();
    let times = |rest: &str, by: u64| -> Duration {
        let commands: Vec<_> = places.iter().map(|p| (Read, p / by * 4096, 4096)).collect();
        one_by_one(&mut Model::new(&setup(Path::new("/x"), "data60", rest)), &commands).iter().sum()
    };
    close("ten times", times("scale = 10", 10).as_secs_f64(), 10.0 * times("", 1).as_secs_f64(), 3.0);
}

#[test]
fn hot_drive_is_throttled_until_it_is_cool() {
    let rest =
        "scale = 1000\n[thermal]\nambient = 40\nidle = 10\nrise = 30\nseconds = 2\nthrottle = 70\nfactor = 3";
    let mut model = Model::new(&setup(Path::new("/x"), "data24", rest));
    let load = |time| {
        (Load { depth: 64, drives: 1, bytes: 4096, reads: 100, sequential: true }, Duration::from_secs(time))
    };
    let (all, time) = load(20);
    // Full load would lead to 80 degrees; a throttled drive works as much as before and stays hot.
    let rate = run(&mut model, 1, all, time);
    close("a third", rate, 823.7 / 3.0, 2.0);
    let drive = &mut model.drives[0];
    assert!(drive.thermal.throttled() && drive.thermal.celsius() > 75.0, "{}", drive.thermal.celsius());
    assert!(drive.thermal.warned() > Duration::from_secs(15), "{:?}", drive.thermal.warned());
    let worked = drive.worked();
    drive.thermal.advance(Duration::from_secs(60), worked);
    assert!(!drive.thermal.throttled() && drive.thermal.celsius() < 51.0, "{}", drive.thermal.celsius());
}

#[test]
fn same_commands_take_the_same_times() {
    let times = || {
        let mut random = Seeded::new(9);
        let mut model = Model::new(&setup(Path::new("/x"), "data60", "scale = 20"));
        let command = |random: &mut Seeded| Command {
            drive: random.below(60) as usize,
            port: random.below(6) as usize,
            operation: if random.below(2) == 0 { Read } else { Write },
            at: random.below(1 << 20) * 4096,
            len: 4096 << random.below(4),
        };
        let mut now = Duration::ZERO;
        let mut out = Vec::new();
        for _ in 0..1000 {
            now += Duration::from_micros(random.below(5000));
            out.push(model.begin(now, &command(&mut random)));
        }
        out
    };
    assert_eq!(times(), times());
}
