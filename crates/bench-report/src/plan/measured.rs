//! Measured runs as input: the reached rates, and a profile made of a drive run and a network run.
//!
//! Invariants: only nominal phases over all drives at once are used; the best repetition is the input of a
//! ceiling, the mean of all is the reached rate.
//!
//! Must not depend on: how a run was measured.

use std::collections::BTreeMap;

use super::profile::{Code, Drives, Profile, Published, Random, Servers};
use crate::{
    error::{Error, Result},
    result::{Operation, Phase, Run},
};

/// Bytes per second that a run reached with `names` operations: the mean over its nominal phases that
/// have one, the best of several loads (each kind of phase by itself).
fn reached(run: &Run, names: &[&str]) -> Option<f64> {
    let mut by_phase: BTreeMap<(String, String), Vec<f64>> = BTreeMap::new();
    for phase in run.phases.iter().filter(|p| p.state.as_deref().is_none_or(|s| s == "nominal")) {
        let rates = phase.operations.iter().filter(|o| names.contains(&o.name.as_str()));
        let sum: f64 = rates.map(|o| o.bytes_per_s.mean).sum();
        if sum > 0.0 {
            by_phase.entry((phase.name.clone(), format!("{:?}", phase.load))).or_default().push(sum);
        }
    }
    let means = by_phase.values().map(|v| v.iter().sum::<f64>() / v.len() as f64);
    means.max_by(f64::total_cmp)
}

/// What a run reached, (GET, PUT) in bytes per second.
pub fn get_and_put(run: &Run) -> (Option<f64>, Option<f64>) {
    match run.mode.as_str() {
        "drive" => (together(run, "seq-read-").map(|b| b.0), together(run, "seq-write-").map(|b| b.0)),
        _ => (reached(run, &["GET", "read"]), reached(run, &["PUT", "write", "multipart-put"])),
    }
}

fn operation<'a>(phase: &'a Phase, name: &str) -> Option<&'a Operation> {
    phase.operations.iter().find(|o| o.name == name)
}

/// (bytes per second, operations per second) of the best phase over all drives whose name begins so.
fn together(run: &Run, prefix: &str) -> Option<(f64, f64)> {
    let phases = run.phases.iter().filter(|p| p.name.starts_with(prefix) && !p.name.contains(" alone "));
    let sums = phases.map(|p| {
        let sum = |f: fn(&Operation) -> f64| p.operations.iter().map(f).sum::<f64>();
        (sum(|o| o.bytes_per_s.mean), sum(|o| o.rate_per_s.mean))
    });
    sums.filter(|s| s.0 > 0.0).max_by(|a, b| a.0.total_cmp(&b.0))
}

/// A profile of what was measured here: drives from a `drive` run, the network between the nodes from
/// a `net` run. Every node is taken to have the drives of the drive run.
///
/// # Errors
/// [`Error::Usage`] when a run is of another mode, or lacks the phases that are needed.
pub fn profile(drive: &Run, net: Option<&Run>, k: u32, m: u32) -> Result<Profile> {
    if drive.mode != "drive" {
        return Err(Error::Usage(format!("`{}` is a run of mode `{}`, not `drive`", drive.name, drive.mode)));
    }
    let missing = |what: &str| Error::Usage(format!("`{}` has no {what} phase over all drives", drive.name));
    let read = together(drive, "seq-read-").ok_or_else(|| missing("sequential read"))?;
    let write = together(drive, "seq-write-").ok_or_else(|| missing("sequential write"))?;
    let count = drive_count(drive);
    let mut assumptions = BTreeMap::from([(
        "drives".to_owned(),
        "a drive is the share of one in what all reached together, at the depth that was measured".to_owned(),
    )]);
    let (mut servers, mut nic) = (1, None);
    if let Some(net) = net {
        let (nodes, each) = network(net)?;
        servers = nodes;
        nic = Some(each);
        assumptions.insert(
            "network".into(),
            "the most one node received over TCP; clients use the same interface".into(),
        );
        if nodes > 1 {
            assumptions.insert("servers".into(), "every node has the drives of the drive run".into());
        }
    } else {
        assumptions.insert("network".into(), "not measured: gives no ceiling".into());
    }
    let per_drive = f64::from(count);
    Ok(Profile {
        name: "measured".into(),
        title: format!("{servers} x {count} drives as measured"),
        source: format!("`{}`{}", drive.name, net.map(|n| format!(" and `{}`", n.name)).unwrap_or_default()),
        drives: Drives {
            count: count * servers,
            read: read.0 / per_drive,
            write: write.0 / per_drive,
            capacity: None,
            random: random(drive, per_drive),
        },
        servers: Servers { count: servers, nic, ..Servers::default() },
        code: Code { k, m, within_server: servers == 1, ..Code::default() },
        published: Published::default(),
        assumptions,
        ..Profile::default()
    })
}

/// Drives of a run: the most that one phase has.
fn drive_count(run: &Run) -> u32 {
    let of = |p: &Phase| {
        let by = p.operations.iter().flat_map(|o| o.by.keys());
        by.filter(|k| k.starts_with("drive ")).collect::<std::collections::BTreeSet<_>>().len()
    };
    u32::try_from(run.phases.iter().map(of).max().unwrap_or(1).max(1)).unwrap_or(u32::MAX)
}

/// M2 backwards: device times per 4 KiB from the rates of pure reading and pure writing.
fn random(run: &Run, drives: f64) -> Option<Random> {
    let (read, write) = (together(run, "rand-read-4KiB")?.1, together(run, "rand-write-4KiB")?.1);
    Some(Random { read_us: drives / read * 1e6, write_us: drives / write * 1e6, read_share: 0.7 })
}

/// (nodes, bytes per second that one node receives) of a net run.
fn network(run: &Run) -> Result<(u32, f64)> {
    if run.mode != "net" {
        return Err(Error::Usage(format!("`{}` is a run of mode `{}`, not `net`", run.name, run.mode)));
    }
    let mut best: Option<(u32, f64)> = None;
    for phase in &run.phases {
        let Some(streams) = operation(phase, "stream") else { continue };
        let mut received: BTreeMap<&str, f64> = BTreeMap::new();
        let mut nodes = std::collections::BTreeSet::new();
        for (key, share) in &streams.by {
            if let Some((from, to)) = key.strip_prefix("pair ").and_then(|p| p.split_once(" -> ")) {
                *received.entry(to).or_default() += share.bytes as f64 / phase.seconds.max(1e-9);
                nodes.extend([from, to]);
            }
        }
        let most = received.values().copied().fold(0.0, f64::max);
        // A coordinator that only loads one listener is a client, not a node.
        let count = nodes.iter().filter(|n| **n != "here").count().max(1) as u32;
        if most > best.map_or(0.0, |b| b.1) {
            best = Some((count, most));
        }
    }
    best.ok_or_else(|| Error::Usage(format!("`{}` has no streams", run.name)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        plan::Plan,
        result::{Estimate, Load, Share},
    };

    fn phase(name: &str, operation: &str, bytes_per_s: f64, by: &[(&str, u64)]) -> Phase {
        let by = by.iter().map(|(k, b)| ((*k).to_owned(), Share { bytes: *b, ..Share::default() })).collect();
        let mean = |mean| Estimate { mean, ..Estimate::default() };
        let op = Operation {
            name: operation.into(),
            bytes_per_s: mean(bytes_per_s),
            rate_per_s: mean(bytes_per_s / 4096.0),
            by,
            ..Operation::default()
        };
        Phase {
            name: name.into(),
            state: None,
            repetition: 1,
            load: Load::Closed { concurrency: 1 },
            at_s: 0.0,
            warmup_s: 0.0,
            seconds: 10.0,
            stopped_by: "time".into(),
            operations: vec![op],
            cost: None,
            values: BTreeMap::new(),
        }
    }

    fn run(mode: &str, phases: Vec<Phase>) -> Run {
        Run { mode: mode.into(), phases, ..Run::default() }
    }

    #[test]
    fn profile_is_made_from_measurements() {
        let both = [("drive a", 0), ("drive b", 0)];
        let drive = run(
            "drive",
            vec![
                phase("seq-read-128KiB", "read", 1.5e9, &both),
                phase("seq-read-4MiB", "read", 2e9, &both),
                phase("seq-read-4MiB alone b", "read", 9e9, &both[1..]),
                phase("seq-write-4MiB", "write", 1e9, &both),
                phase("rand-read-4KiB", "read", 4096e5, &both),
                phase("rand-write-4KiB", "write", 4096e4, &both),
            ],
        );
        assert_eq!(get_and_put(&drive), (Some(2e9), Some(1e9)));
        let profile = super::profile(&drive, None, 12, 4).unwrap();
        assert_eq!((profile.drives.count, profile.drives.read, profile.servers.count), (2, 1e9, 1));
        let plan = Plan::of(&profile);
        assert_eq!(plan.put.binding, "drives");
        assert!((plan.put.ceilings[0].bytes_per_s - 0.75e9).abs() < 1.0);
        let read = plan.random_4k.iter().find(|r| r.state == "nominal" && r.pattern == "read").unwrap();
        assert!((read.per_s / 1e5 - 1.0).abs() < 1e-9);

        let pairs = [("pair a -> b", 5_000_000_000), ("pair c -> b", 5_000_000_000), ("pair a -> c", 1)];
        let net = run("net", vec![phase("all-pairs", "stream", 1e9, &pairs)]);
        let profile = super::profile(&drive, Some(&net), 2, 1).unwrap();
        assert_eq!((profile.servers.count, profile.servers.nic, profile.drives.count), (3, Some(1e9), 6));
        assert!(super::profile(&net, None, 2, 1).is_err());
        assert!(super::profile(&drive, Some(&drive), 2, 1).is_err());
    }

    #[test]
    fn reached_rates_are_read_from_a_run() {
        let mut down = phase("get", "GET", 9e9, &[]);
        down.state = Some("down".into());
        let s3 = run(
            "s3",
            vec![
                phase("get", "GET", 1e9, &[]),
                phase("get", "GET", 3e9, &[]),
                phase("mixed", "GET", 1.5e9, &[]),
                phase("put", "PUT", 5e8, &[]),
                down,
            ],
        );
        assert_eq!(get_and_put(&s3), (Some(2e9), Some(5e8)));
    }
}
