//! Facts about this machine, for the result document.
//!
//! Invariants: read from the kernel's files, never guessed; what cannot be read is left out. Nothing
//! that identifies a person (no user names, no addresses) is recorded.

use std::{collections::BTreeMap, fs};

use time::{OffsetDateTime, format_description::well_known::Rfc3339};

use crate::result::{FORMAT, Host, Run, VERSION};

/// This machine in a role, for instance `client`.
pub fn here(role: &str) -> Host {
    let mut facts = BTreeMap::new();
    let mut put = |name: &str, value: Option<String>| {
        if let Some(value) = value.map(|v| v.trim().to_owned()).filter(|v| !v.is_empty()) {
            facts.insert(name.to_owned(), value);
        }
    };
    put("version ashlar", Some(env!("CARGO_PKG_VERSION").to_owned()));
    put("kernel", fs::read_to_string("/proc/sys/kernel/osrelease").ok());
    put("cores", std::thread::available_parallelism().ok().map(|n| n.to_string()));
    put("memory_bytes", memory_bytes().map(|b| b.to_string()));
    let cpu = fs::read_to_string("/proc/cpuinfo").ok();
    let model = cpu.as_deref().and_then(|text| text.lines().find(|l| l.starts_with("model name")));
    put("cpu", model.and_then(|l| l.split_once(':')).map(|(_, v)| v.to_owned()));
    Host { role: role.to_owned(), facts }
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
        name: name.map_or_else(|| format!("{mode} {started}"), str::to_owned),
        started,
        command,
        environment: vec![here("client")],
        ..Run::default()
    }
}
