//! Facts about this machine, for the result document.
//!
//! Invariant: facts are read from the kernel's files, never guessed; a fact that cannot be read is left out.

use std::{
    collections::BTreeMap,
    fs,
    sync::atomic::{AtomicBool, Ordering},
};

use ashlar_bench_report::result::{Caveat, FORMAT, Host, Run, Severity, VERSION, title};
use time::{OffsetDateTime, format_description::well_known::Rfc3339};

use crate::{cost, stall::Stalls};

/// This machine in a role, for instance `client`.
pub fn here(role: &str) -> Host {
    Host { role: role.to_owned(), facts: facts() }
}

/// What is known of this machine.
pub fn facts() -> BTreeMap<String, String> {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let mut out = BTreeMap::new();
    let line = |text: &str, name: &str| {
        let found = text.lines().find(|l| l.starts_with(name))?;
        Some(found.split_once(':')?.1.trim().to_owned())
    };
    if let Some(cpu) = line(&read("/proc/cpuinfo"), "model name") {
        out.insert("cpu".into(), cpu);
    }
    out.insert("cores".into(), cost::cores().to_string());
    if let Some(memory) = memory_bytes() {
        out.insert("memory_bytes".into(), memory.to_string());
    }
    out.insert("kernel".into(), read("/proc/sys/kernel/osrelease").trim().to_owned());
    out.insert("hostname".into(), read("/proc/sys/kernel/hostname").trim().to_owned());
    out.insert("version ashlar".into(), env!("CARGO_PKG_VERSION").into());
    out
}

/// Memory of this machine.
pub fn memory_bytes() -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find(|l| l.starts_with("MemTotal:"))?;
    line.split_whitespace().nth(1)?.parse::<u64>().ok().map(|k| k * 1024)
}

/// The head of a run that starts now.
pub fn new_run(mode: &str, name: Option<&str>, command: Vec<String>) -> Run {
    let now = OffsetDateTime::now_utc();
    let now = now.replace_nanosecond(0).unwrap_or(now);
    let started = now.format(&Rfc3339).unwrap_or_default();
    Run {
        format: FORMAT.to_owned(),
        version: VERSION,
        mode: mode.to_owned(),
        // Without one it is called by what was measured, which is known in the end.
        name: name.unwrap_or_default().to_owned(),
        started,
        command,
        environment: vec![here("client")],
        ..Run::default()
    }
}

/// Ends a run of drives or networks: its name, and whether it was interrupted or this machine stood still.
pub fn ended(run: &mut Run, stalls: &Stalls, stop: &AtomicBool) {
    if run.name.is_empty() {
        run.name = title::measured(run);
    }
    run.caveats.extend(stalls.caveat("the measurement"));
    if stop.load(Ordering::Relaxed) {
        run.caveats.push(interrupted());
    }
}

/// The caveat of an interrupted run.
pub fn interrupted() -> Caveat {
    Caveat {
        severity: Severity::Invalid,
        code: "interrupted".to_owned(),
        text: "the run was interrupted: its numbers are of the time until then".to_owned(),
    }
}
