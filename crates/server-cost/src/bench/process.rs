//! Measurements of a process from the kernel: CPU time of all its threads, memory, peak memory.
//!
//! Invariant: only reads `/proc`, except for the reset of the peak.

use std::{fs, time::Duration};

use crate::outcome::Outcome;

/// A running process.
pub struct Process {
    pid: String,
    /// Clock ticks per second in `/proc/PID/stat`; 100 on every Linux of today.
    ticks: u64,
}

impl Process {
    /// A process by its id.
    pub fn open(pid: u32) -> Outcome<Process> {
        let process = Process { pid: pid.to_string(), ticks: 100 };
        process.cpu().ok_or_else(|| format!("there is no process {pid}, or it cannot be read"))?;
        Ok(process)
    }

    /// This process.
    pub fn own() -> Process {
        Process { pid: "self".into(), ticks: 100 }
    }

    /// User and system time so far, of all threads, including exited ones. The resolution is 10 ms, without
    /// accumulating rounding errors: the kernel scales the values from the scheduler's exact sum.
    pub fn cpu(&self) -> Option<Duration> {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.pid)).ok()?;
        let ticks = parse_cpu(&stat)?;
        Some(Duration::from_nanos(ticks * 1_000_000_000 / self.ticks))
    }

    /// Resident memory now, in bytes.
    pub fn rss(&self) -> Option<u64> {
        self.status("VmRSS:")
    }

    /// The highest resident memory since the last reset, in bytes.
    pub fn peak_rss(&self) -> Option<u64> {
        self.status("VmHWM:")
    }

    /// Resets the peak. Fails for processes of other users.
    pub fn reset_peak(&self) -> std::io::Result<()> {
        fs::write(format!("/proc/{}/clear_refs", self.pid), "5")
    }

    fn status(&self, name: &str) -> Option<u64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid)).ok()?;
        let line = status.lines().find_map(|l| l.strip_prefix(name))?;
        line.split_whitespace().next()?.parse::<u64>().ok().map(|kib| kib << 10)
    }
}

/// Sum of utime and stime, fields 14 and 15. The second field, the name, may hold spaces and
/// parentheses, so counting starts after its end.
fn parse_cpu(stat: &str) -> Option<u64> {
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
    let user: u64 = fields.next()?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    Some(user + system)
}

/// The machine's CPU and kernel, for the head of the report.
pub fn machine() -> String {
    let cpu = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpu.lines().find_map(|l| l.strip_prefix("model name")?.split_once(':'));
    let model = model.map_or("unknown processor", |(_, name)| name.trim());
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    format!("{cores} cores of {model}, Linux {}", kernel.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_fields_are_read_after_an_unusual_process_name() {
        let stat = "12 (a) b (c)) S 1 2 3 4 5 6 7 8 9 10 700 33 0 0 20 0 1 0 5 6";
        assert_eq!(parse_cpu(stat), Some(733));
        assert!(Process::own().cpu().is_some() && Process::own().rss() > Some(0));
    }
}
