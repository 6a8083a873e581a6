//! Metrics of the process and the machine, read from /proc.
//!
//! Must not depend on: the work of the server.

use std::sync::LazyLock;

use ashlar_erasure_set::HealStats;
use ashlar_metrics::{Group, Page};
use ashlar_node::clock::{coarse, now_ms};
use parking_lot::Mutex;

/// Adds all metrics of this module to a page.
pub fn render(page: &mut Page) {
    process(page);
    system(page);
}

/// Nanoseconds since healing last made progress; -1 before the first progress. Progress is noticed when
/// metrics are read.
pub fn since_healing(now: &HealStats) -> i128 {
    static LAST: LazyLock<Mutex<([u64; 3], i64)>> = LazyLock::new(Mutex::default);
    let mut last = LAST.lock();
    let counts = [now.looked, now.records, now.shards];
    if counts != last.0 {
        *last = (counts, now_ms());
    }
    if last.1 == 0 { -1 } else { i128::from((now_ms() - last.1).max(0)) * 1_000_000 }
}

fn process(page: &mut Page) {
    let n = Group::Node;
    let v3 = Group::V3("system/process");
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let field = |name: &str| number(&status, name);
    if let Some(kib) = field("VmRSS:") {
        let help = "Resident memory size in bytes.";
        page.value(n, "minio_node_process_resident_memory_bytes", help, kib * 1024);
        page.value(v3, "minio_system_process_resident_memory_bytes", help, kib * 1024);
    }
    if let Some(kib) = field("VmSize:") {
        page.value(
            v3,
            "minio_system_process_virtual_memory_bytes",
            "Virtual memory size in bytes.",
            kib * 1024,
        );
    }
    if let Some(threads) = field("Threads:") {
        // MinIO's dashboards show the number of goroutines here.
        page.value(n, "minio_node_go_routine_total", "Threads of the process.", threads);
    }
    if let Some(seconds) = cpu_seconds() {
        let help = "Total user and system CPU time spent in seconds.";
        page.count(n, "minio_node_process_cpu_total_seconds", help, seconds);
        page.count(v3, "minio_system_process_cpu_total_seconds", help, seconds);
    }
    if let Ok(files) = std::fs::read_dir("/proc/self/fd") {
        let (help, files) = ("Total number of open file descriptors.", files.count());
        page.value(n, "minio_node_file_descriptor_open_total", help, files);
        page.value(v3, "minio_system_process_file_descriptor_open_total", help, files);
    }
    let limits = std::fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let files = limits.lines().find_map(|l| l.strip_prefix("Max open files"));
    if let Some(most) = files.and_then(|l| l.split_whitespace().next()?.parse::<u64>().ok()) {
        let help = "Limit on total number of open file descriptors.";
        page.value(n, "minio_node_file_descriptor_limit_total", help, most);
        page.value(v3, "minio_system_process_file_descriptor_limit_total", help, most);
    }
    let io = std::fs::read_to_string("/proc/self/io").unwrap_or_default();
    for (field, name, v3_name, help) in [
        (
            "rchar:",
            "minio_node_io_rchar_bytes",
            "io_rchar_bytes",
            "Bytes read by the process, caches included.",
        ),
        (
            "wchar:",
            "minio_node_io_wchar_bytes",
            "io_wchar_bytes",
            "Bytes written by the process, caches included.",
        ),
        ("read_bytes:", "minio_node_io_read_bytes", "io_read_bytes", "Bytes read from devices."),
        ("write_bytes:", "minio_node_io_write_bytes", "io_write_bytes", "Bytes written to devices."),
        ("syscr:", "minio_node_syscall_read_total", "syscall_read_total", "Read system calls."),
        ("syscw:", "minio_node_syscall_write_total", "syscall_write_total", "Write system calls."),
    ] {
        if let Some(value) = number(&io, field) {
            page.count(n, name, help, value);
            page.count(v3, &format!("minio_system_process_{v3_name}"), help, value);
        }
    }
    let uptime = coarse();
    let start = now_ms() / 1000 - uptime as i64;
    let help = "Uptime of the process in seconds.";
    page.value(n, "minio_node_process_uptime_seconds", help, uptime);
    page.value(v3, "minio_system_process_uptime_seconds", help, uptime);
    let help = "Start time of the process in seconds since epoch.";
    page.value(n, "minio_node_process_starttime_seconds", help, start);
    page.value(v3, "minio_system_process_start_time_seconds", help, start);
    let help = "Version of the server.";
    let version = [("version", env!("CARGO_PKG_VERSION"))];
    page.gauge(n, "minio_software_version_info", help).add(&version, 1);
}

fn system(page: &mut Page) {
    let r = Group::Resource;
    let memory = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let v3 = Group::V3("system/memory");
    for (field, name) in [
        ("MemTotal:", "total"),
        ("MemFree:", "free"),
        ("MemAvailable:", "available"),
        ("Buffers:", "buffers"),
        ("Cached:", "cache"),
        ("Shmem:", "shared"),
    ] {
        if let Some(kib) = number(&memory, field) {
            page.value(r, &format!("minio_node_mem_{name}"), "Memory of the machine in bytes.", kib * 1024);
            page.value(
                v3,
                &format!("minio_system_memory_{name}"),
                "Memory of the machine in bytes.",
                kib * 1024,
            );
        }
    }
    if let (Some(total), Some(free)) = (number(&memory, "MemTotal:"), number(&memory, "MemAvailable:")) {
        let used = total.saturating_sub(free) * 1024;
        page.value(r, "minio_node_mem_used", "Memory in use in bytes.", used);
        page.value(v3, "minio_system_memory_used", "Memory in use in bytes.", used);
    }
    let v3 = Group::V3("system/cpu");
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    for (name, value) in ["load1", "load5", "load15"].iter().zip(load.split_whitespace()) {
        if let Ok(value) = value.parse::<f64>() {
            page.value(r, &format!("minio_node_cpu_avg_{name}"), "Load of the machine.", value);
            page.value(v3, &format!("minio_system_cpu_{name}"), "Load of the machine.", value);
        }
    }
    let stat = std::fs::read_to_string("/proc/stat").unwrap_or_default();
    let all: Vec<f64> = stat
        .lines()
        .next()
        .into_iter()
        .flat_map(|l| l.split_whitespace().skip(1))
        .filter_map(|n| n.parse().ok())
        .collect();
    let sum: f64 = all.iter().take(8).sum();
    for (i, name) in ["user", "nice", "system", "idle", "iowait"].iter().enumerate() {
        if let Some(value) = all.get(i).filter(|_| sum > 0.0) {
            let help = "Share of the time since the machine started, in percent.";
            page.value(r, &format!("minio_node_cpu_avg_{name}"), help, value * 100.0 / sum);
            page.value(v3, &format!("minio_system_cpu_{name}"), help, value * 100.0 / sum);
        }
    }
    let network = std::fs::read_to_string("/proc/net/dev").unwrap_or_default();
    for line in network.lines().skip(2) {
        let Some((name, numbers)) = line.split_once(':') else { continue };
        let numbers: Vec<u64> = numbers.split_whitespace().filter_map(|n| n.parse().ok()).collect();
        let interface = [("interface", name.trim())];
        for (i, name, help) in [
            (0, "rx_bytes", "Bytes received on the interface."),
            (2, "rx_errors", "Receive errors on the interface."),
            (8, "tx_bytes", "Bytes sent on the interface."),
            (10, "tx_errors", "Transmit errors on the interface."),
        ] {
            if let Some(value) = numbers.get(i) {
                page.counter(r, &format!("minio_node_if_{name}"), help).add(&interface, value);
            }
        }
    }
}

/// The number after `name` on the line that begins with it.
fn number(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|l| l.strip_prefix(name))?.split_whitespace().next()?.parse().ok()
}

/// CPU time of this process in user and system mode.
pub fn cpu_seconds() -> Option<f64> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    // The process name in parentheses may contain any character.
    let rest = stat.rsplit_once(')')?.1;
    let mut fields = rest.split_ascii_whitespace().skip(11);
    let (user, system): (f64, f64) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
    // USER_HZ is 100 on every Linux architecture that we support.
    Some((user + system) / 100.0)
}
