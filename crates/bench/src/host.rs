//! Facts about this machine, for the result document.
//!
//! Invariant: read from the kernel's files, never guessed; what cannot be read is left out.

use std::fs;

use time::{OffsetDateTime, format_description::well_known::Rfc3339};

use crate::result::{FORMAT, Host, Run, VERSION};

/// This machine in a role, for instance `client`.
pub fn here(role: &str) -> Host {
    Host { role: role.to_owned(), facts: crate::load::facts() }
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
