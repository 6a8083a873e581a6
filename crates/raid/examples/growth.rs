//! Measures how fast a drive group of files grows.
//!
//! ```text
//! growth [folder=/dev/shm] [level=5] [members=4] [more=1] [to=6] [size=256] [strip=64] [journal=32] [rows=512]
//! ```
//!
//! Sizes are MiB of a member and of its journal, KiB of a strip; `rows` is what moves in a step. It makes files in the folder, which it removes
//! at the end, fills the group, lets it grow, and compares every block. One line of JSON on standard output; MiB are those of the group's
//! data.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "it measures the machine, in real time"
)]

use std::collections::BTreeMap;
use std::error::Error;
use std::path::{Path, PathBuf};
use std::time::Instant;

use ashlar_environment::random::Seeded;
use ashlar_machine::Folder;
use ashlar_raid::{BLOCK, Device, Group, Grow, Joining, Level, Plan, Policy};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Bytes that are written and compared at once.
const PIECE: usize = 1 << 20;

fn main() -> Result<()> {
    let pairs = std::env::args().skip(1);
    let pairs = pairs.map(|a| a.split_once('=').map(|(k, v)| (k.to_owned(), v.to_owned())).ok_or(a));
    let arguments: BTreeMap<String, String> = pairs.collect::<std::result::Result<_, String>>()?;
    let number = |key: &str, default: u64| arguments.get(key).map_or(Ok(default), |v| v.parse::<u64>());
    let folder = PathBuf::from(arguments.get("folder").map_or("/dev/shm", String::as_str));
    let (members, more) = (number("members", 4)? as usize, number("more", 1)? as usize);
    let level: Level = arguments.get("level").map_or("5", String::as_str).parse()?;
    let grow = Grow { level: arguments.get("to").map(|l| l.parse()).transpose()?, ..Grow::default() };
    let plan = Plan {
        name: "growth".into(),
        level,
        strip: number("strip", 64)? << 10,
        journal: number("journal", 32)? << 20,
        policy: Policy::Journal,
        ..Plan::default()
    };
    let (size, rows) = (number("size", 256)? << 20, number("rows", 512)?);
    let files: Vec<PathBuf> = (0..members + more).map(|i| folder.join(name(i))).collect();
    let devices = (0..members + more).map(|i| device(&folder, i, size)).collect::<Result<Vec<_>>>();
    let result = devices.and_then(|devices| measure(&plan, &grow, devices, members, rows));
    files.iter().for_each(|path| drop(std::fs::remove_file(path)));
    result
}

fn name(number: usize) -> String {
    format!("growth-{number}")
}

fn device(folder: &Path, number: usize, size: u64) -> Result<Device> {
    let name = name(number);
    let _ = std::fs::remove_file(folder.join(&name));
    let file = Folder::real(folder, None).create(&name, false)?;
    file.allocate(size)?;
    Ok(Device { medium: Box::new(file), name })
}

/// CPU seconds of this process.
fn cpu_seconds() -> Result<f64> {
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    let after = stat.rsplit_once(')').ok_or("no process name")?.1;
    let ticks = after.split_whitespace().skip(11).take(2).map(str::parse::<f64>);
    Ok(ticks.sum::<std::result::Result<f64, _>>()? / 100.0)
}

fn measure(plan: &Plan, grow: &Grow, mut devices: Vec<Device>, members: usize, rows: u64) -> Result<()> {
    let new = devices.split_off(members);
    let mut group = Group::create(plan, devices, vec![])?;
    let (old, size) = (*group.geometry(), group.size());
    each(size, |at, bytes| Ok(group.write(at, bytes)?))?;
    group.close()?;
    let (begun, cpu) = (Instant::now(), cpu_seconds()?);
    group.grow(grow, new.into_iter().map(Joining::Device).collect())?;
    let (mut steps, mut longest) = (0u64, 0f64);
    loop {
        let step = Instant::now();
        if group.move_rows(rows)?.is_none() {
            break;
        }
        steps += 1;
        longest = longest.max(step.elapsed().as_secs_f64());
    }
    let (seconds, cpu) = (begun.elapsed().as_secs_f64(), cpu_seconds()? - cpu);
    let mut read = vec![0; PIECE];
    each(size, |at, bytes| {
        group.read(at, &mut read[..bytes.len()])?;
        if read[..bytes.len()] == *bytes { Ok(()) } else { Err(format!("wrong bytes at {at}").into()) }
    })?;
    let new = group.geometry();
    println!(
        "{{\"from\":\"{}+{}\",\"to\":\"{}+{}\",\"mib\":{:.0},\"mib_s\":{:.1},\"cpu_s_per_gib\":{:.3},\"seconds\":{seconds:.3},\
         \"steps\":{steps},\"longest_step_ms\":{:.1}}}",
        old.k,
        old.m,
        new.k,
        new.m,
        size as f64 / f64::from(1 << 20),
        size as f64 / f64::from(1 << 20) / seconds,
        cpu / size as f64 * f64::from(1 << 30),
        longest * 1e3,
    );
    Ok(())
}

/// All of a group in pieces: random bytes, and their position in every block.
fn each(size: u64, mut what: impl FnMut(u64, &[u8]) -> Result<()>) -> Result<()> {
    let mut bytes = vec![0; PIECE];
    Seeded::new(7).fill(&mut bytes);
    let mut at = 0;
    while at < size {
        let len = (size - at).min(PIECE as u64) as usize;
        for (i, block) in bytes.chunks_mut(BLOCK).enumerate() {
            block[..8].copy_from_slice(&(at + i as u64).to_le_bytes());
        }
        what(at, &bytes[..len])?;
        at += len as u64;
    }
    Ok(())
}
