//! Resource usage of processes: CPU time and peak memory of this process, of a local server by number or
//! name, or of any server that publishes its CPU seconds as a metric.
//!
//! Invariant: a value that could not be read is absent, never zero.
//!
//! Must not depend on: loads.

use std::{
    fs,
    io::{Read, Write},
    net::TcpStream,
    time::Duration,
};

use serde::{Deserialize, Serialize};

use crate::{Error, Result, wire::Host};

/// What was used up to a moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Usage {
    /// User CPU seconds (all CPU seconds, where they are not distinguished).
    pub user_s: f64,
    /// System CPU seconds.
    pub system_s: f64,
    /// Largest resident memory so far, bytes.
    pub peak_bytes: u64,
    /// CPUs of the machine.
    pub cores: u32,
}

impl Usage {
    /// What was used since `earlier`.
    pub fn since(&self, earlier: &Usage) -> Usage {
        Usage {
            user_s: (self.user_s - earlier.user_s).max(0.0),
            system_s: (self.system_s - earlier.system_s).max(0.0),
            ..*self
        }
    }

    /// Both processes together.
    pub fn plus(&self, other: &Usage) -> Usage {
        Usage {
            user_s: self.user_s + other.user_s,
            system_s: self.system_s + other.system_s,
            peak_bytes: self.peak_bytes + other.peak_bytes,
            cores: self.cores.max(other.cores),
        }
    }
}

/// CPUs this process may use.
pub fn cores() -> u32 {
    std::thread::available_parallelism().map_or(1, |n| n.get() as u32)
}

/// What this process has used since it began.
pub fn own() -> Option<Usage> {
    process("self")
}

/// Ticks per second of the kernel's accounting: fixed at 100 on every Linux that user space sees.
const HERTZ: f64 = 100.0;

fn process(pid: &str) -> Option<Usage> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (user, system) = parse_stat(&stat)?;
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let peak = status.lines().find_map(|l| l.strip_prefix("VmHWM:"))?;
    let kib: u64 = peak.trim().split(' ').next()?.parse().ok()?;
    Some(Usage { user_s: user, system_s: system, peak_bytes: kib * 1024, cores: cores() })
}

fn parse_stat(stat: &str) -> Option<(f64, f64)> {
    // The name in parentheses may hold anything, so fields are counted from its end.
    let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace().skip(11);
    let mut next = || fields.next()?.parse::<f64>().ok();
    Some((next()? / HERTZ, next()? / HERTZ))
}

/// Where a server's usage is read.
#[derive(Clone, Debug)]
pub enum Source {
    /// These local processes.
    Processes(Vec<u32>),
    /// Metrics in Prometheus text, plain HTTP, perhaps with a bearer token.
    Metrics(Vec<(Host, String)>, Option<String>),
}

impl Source {
    /// Local processes by their numbers.
    ///
    /// # Errors
    /// [`Error::Usage`] if one does not exist.
    pub fn of_pids(pids: Vec<u32>) -> Result<Source> {
        match pids.iter().find(|pid| process(&pid.to_string()).is_none()) {
            Some(pid) => Err(Error::usage(format!("process {pid} does not exist or cannot be read"))),
            None => Ok(Source::Processes(pids)),
        }
    }

    /// All local processes whose program or first argument is called `name`, but not this one.
    ///
    /// # Errors
    /// [`Error::Usage`] if there is none.
    pub fn of_name(name: &str) -> Result<Source> {
        let mut pids = Vec::new();
        for entry in fs::read_dir("/proc").map_err(Error::io("/proc"))?.flatten() {
            let Some(pid) = entry.file_name().to_str().and_then(|n| n.parse::<u32>().ok()) else { continue };
            let comm = fs::read_to_string(entry.path().join("comm")).unwrap_or_default();
            let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
            let first = line.split(|b| *b == 0).next().unwrap_or_default();
            let base = first.rsplit(|b| *b == b'/').next().unwrap_or_default();
            if pid != std::process::id() && (comm.trim_end() == name || base == name.as_bytes()) {
                pids.push(pid);
            }
        }
        if pids.is_empty() {
            return Err(Error::usage(format!("no process is called `{name}`")));
        }
        Ok(Source::Processes(pids))
    }

    /// Metrics at these URLs (`http://host:port/path`).
    ///
    /// # Errors
    /// [`Error::Usage`] for other URLs, [`Error::Setup`] if nothing usable is there.
    pub fn of_metrics(urls: &[String], token: Option<String>) -> Result<Source> {
        let mut places = Vec::new();
        for url in urls {
            let rest = url.strip_prefix("http://");
            let rest = rest.ok_or_else(|| Error::usage(format!("`{url}`: metrics are read over http://")))?;
            let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
            places.push((Host::parse(host)?, format!("/{path}")));
        }
        let source = Source::Metrics(places, token);
        source.read().map_err(|why| Error::setup(format!("the server's metrics: {why}")))?;
        Ok(source)
    }

    /// What the server has used so far.
    ///
    /// # Errors
    /// In words.
    pub fn read(&self) -> Result<Usage, String> {
        let mut sum = Usage::default();
        match self {
            Source::Processes(pids) => {
                for pid in pids {
                    let usage = process(&pid.to_string()).ok_or(format!("process {pid} has ended"))?;
                    sum = sum.plus(&usage);
                }
            }
            Source::Metrics(places, token) => {
                for (host, path) in places {
                    let text = fetch(host, path, token.as_deref()).map_err(|e| e.to_string())?;
                    let usage = parse_metrics(&text).ok_or(format!("no CPU seconds at {path}"))?;
                    sum = sum.plus(&usage);
                }
            }
        }
        Ok(sum)
    }

    /// Whether reading is so cheap that it can be done every second.
    pub fn is_local(&self) -> bool {
        matches!(self, Source::Processes(_))
    }
}

/// The largest page of metrics that is read.
const PAGE: u64 = 16 << 20;

fn fetch(host: &Host, path: &str, token: Option<&str>) -> std::io::Result<String> {
    let timeout = Some(Duration::from_secs(5));
    let mut socket = TcpStream::connect_timeout(&host.addresses[0], Duration::from_secs(5))?;
    socket.set_read_timeout(timeout)?;
    socket.set_write_timeout(timeout)?;
    let authorization = token.map_or(String::new(), |t| format!("authorization: Bearer {t}\r\n"));
    let request = format!("GET {path} HTTP/1.0\r\nhost: {}\r\n{authorization}\r\n", host.authority);
    socket.write_all(request.as_bytes())?;
    let mut answer = Vec::new();
    socket.take(PAGE).read_to_end(&mut answer)?;
    let answer = String::from_utf8_lossy(&answer).into_owned();
    let first = answer.lines().next().unwrap_or_default();
    if !first.contains(" 200") {
        return Err(std::io::Error::other(format!("the answer was `{first}`")));
    }
    Ok(answer)
}

/// CPU seconds by the names that are in use, summed over labels: Prometheus client libraries,
/// MinIO, Ashlar.
fn parse_metrics(text: &str) -> Option<Usage> {
    let value = |names: &[&str]| -> Option<f64> {
        let mut sum = None;
        for line in text.lines() {
            let name = line.split(['{', ' ']).next().unwrap_or_default();
            if names.contains(&name)
                && let Some(value) = line.rsplit_once(' ').and_then(|(_, v)| v.trim().parse::<f64>().ok())
            {
                sum = Some(sum.unwrap_or(0.0) + value);
            }
        }
        sum
    };
    let cpu = value(&["process_cpu_seconds_total", "minio_node_process_cpu_total_seconds"])?;
    let memory = value(&["process_resident_memory_bytes", "minio_node_process_resident_memory_bytes"]);
    Some(Usage { user_s: cpu, system_s: 0.0, peak_bytes: memory.unwrap_or(0.0) as u64, cores: cores() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_cpu_usage_grows() {
        let before = own().unwrap();
        let start = std::time::Instant::now();
        let (mut used, mut x) = (before.since(&before), 1_u64);
        // A busy machine may give this thread its turn late.
        while used.user_s + used.system_s < 0.015 && start.elapsed() < Duration::from_secs(60) {
            (0..1 << 20).for_each(|_| x = std::hint::black_box(x.wrapping_mul(3)));
            used = own().unwrap().since(&before);
        }
        let most = 1.0 + start.elapsed().as_secs_f64() * f64::from(used.cores);
        assert!(used.user_s + used.system_s >= 0.015 && used.user_s < most, "{used:?}");
        assert!(used.peak_bytes > 1 << 20 && used.cores >= 1);
    }

    #[test]
    fn proc_files_and_metrics_are_parsed() {
        let stat = "42 (a) b) c) S 1 1 1 0 -1 4 1 2 3 4 150 25 0 0 20 0 9 0 1 1 1";
        assert_eq!(parse_stat(stat), Some((1.5, 0.25)));
        let metrics = "# HELP x\nprocess_cpu_seconds_total 1.5\nprocess_cpu_seconds_total{a=\"b c\"} 2\nprocess_resident_memory_bytes 4096\n";
        let usage = parse_metrics(metrics).unwrap();
        assert_eq!((usage.user_s, usage.peak_bytes), (3.5, 4096));
        assert!(parse_metrics("up 1\n").is_none());
        assert!(Source::of_name("no such program").is_err());
        assert!(Source::of_pids(vec![u32::MAX]).is_err());
    }
}
