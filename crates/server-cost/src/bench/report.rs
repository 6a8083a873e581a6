//! The result table: measurements, limits, goals and MinIO's values.

use serde::Serialize;

use super::{
    listing::Listing,
    load::{Measured, Verb},
    options::Options,
    process,
};
use crate::size::Size;

/// All measurements.
#[derive(Serialize, Debug)]
pub struct Report {
    /// The environment of the measurement.
    pub environment: Environment,
    /// The server's memory before any load, in bytes.
    pub idle_rss_bytes: Option<u64>,
    /// One row per operation and size.
    pub rows: Vec<Row>,
    /// The listing, if asked for.
    pub listing: Option<Listing>,
}

/// The environment of the measurement.
#[derive(Serialize, Debug)]
pub struct Environment {
    machine: String,
    endpoint: String,
    program: Option<String>,
    drives: Option<String>,
    payload: String,
    concurrency: u32,
    threads: usize,
    seconds: f64,
}

impl Environment {
    /// This machine and these options.
    pub fn here(endpoint: &str, options: &Options) -> Environment {
        Environment {
            machine: process::machine(),
            endpoint: endpoint.to_owned(),
            program: options.start.clone(),
            drives: options.drives.clone(),
            payload: format!("{:?}", options.payload).to_lowercase(),
            concurrency: options.concurrency,
            threads: options.threads(),
            seconds: options.seconds,
        }
    }
}

/// One operation at one size.
#[derive(Serialize, Debug)]
pub struct Row {
    verb: Verb,
    size_bytes: u64,
    requests: u64,
    /// Requests that failed.
    pub errors: u64,
    first_error: Option<String>,
    mib_per_s: f64,
    requests_per_s: f64,
    p50_us: u64,
    p99_us: u64,
    max_us: u64,
    server_cpu_us_per_request: Option<f64>,
    server_cpu_s_per_gib: Option<f64>,
    client_cpu_us_per_request: f64,
    peak_rss_bytes: Option<u64>,
}

impl Row {
    /// A row from a measurement.
    pub fn new(verb: Verb, size: Size, measured: Measured, peak_rss_bytes: Option<u64>) -> Row {
        let requests = measured.requests as f64;
        let gib = measured.bytes as f64 / (1u64 << 30) as f64;
        let seconds = measured.elapsed.as_secs_f64();
        let cpu = measured.server_cpu.map(|c| c.as_secs_f64());
        Row {
            verb,
            size_bytes: size.0,
            requests: measured.requests,
            errors: measured.errors,
            first_error: measured.first_error,
            mib_per_s: gib * 1024.0 / seconds,
            requests_per_s: requests / seconds,
            p50_us: measured.latency.value_at_quantile(0.5),
            p99_us: measured.latency.value_at_quantile(0.99),
            max_us: measured.latency.max(),
            server_cpu_us_per_request: cpu.map(|c| c * 1e6 / requests),
            server_cpu_s_per_gib: cpu.filter(|_| gib > 0.0).map(|c| c / gib),
            client_cpu_us_per_request: measured.client_cpu.as_secs_f64() * 1e6 / requests,
            peak_rss_bytes,
        }
    }

    /// One line while the benchmark runs.
    pub fn line(&self) -> String {
        self.cells().join("  ")
    }

    /// Objects of a MiB and more are compared per GiB, smaller ones per request.
    fn by_gib(&self) -> bool {
        self.size_bytes >= 1 << 20
    }

    fn cost(&self, us_per_request: f64) -> String {
        if self.by_gib() {
            let per_gib = us_per_request / 1e6 * (1u64 << 30) as f64 / self.size_bytes as f64;
            format!("{per_gib:.2} s/GiB")
        } else {
            format!("{us_per_request:.0} us")
        }
    }

    fn cells(&self) -> Vec<String> {
        let target = TARGETS.iter().find(|t| t.verb == self.verb && t.size == self.size_bytes);
        let unit = if self.by_gib() { "s/GiB" } else { "us" };
        let figure = |value: Option<f64>| value.map_or(String::from("-"), |v| format!("{v} {unit}"));
        let errors = match (&self.first_error, self.errors) {
            (Some(first), n) if n > 0 => format!(" {n} ERRORS: {first}"),
            _ => String::new(),
        };
        vec![
            format!("{:?} {}{errors}", self.verb, Size(self.size_bytes))
                .replace("Put", "PUT")
                .replace("Get", "GET"),
            self.server_cpu_us_per_request.map_or(String::from("-"), |c| self.cost(c)),
            figure(target.map(|t| t.must)),
            figure(target.map(|t| t.aim)),
            figure(target.map(|t| t.minio)),
            if self.by_gib() {
                format!("{:.0} MiB/s", self.mib_per_s)
            } else {
                format!("{:.0} /s", self.requests_per_s)
            },
            milliseconds(self.p50_us),
            milliseconds(self.p99_us),
            self.cost(self.client_cpu_us_per_request),
            mebibytes(self.peak_rss_bytes),
        ]
    }
}

const HEADINGS: [&str; 10] =
    ["", "server CPU", "must", "aim", "MinIO", "rate", "p50", "p99", "client CPU", "peak memory"];

/// The project's own goals and MinIO's values with its last public source: 4 drives, EC:2, signed requests,
/// concurrency 8, XFS on loop devices in memory, 2 Zen 5 cores under a hypervisor.
struct Target {
    verb: Verb,
    size: u64,
    minio: f64,
    must: f64,
    aim: f64,
}

const fn target(verb: Verb, size: u64, minio: f64, must: f64, aim: f64) -> Target {
    Target { verb, size, minio, must, aim }
}

const TARGETS: [Target; 8] = [
    target(Verb::Put, 10 << 20, 2.95, 1.7, 1.3),
    target(Verb::Get, 10 << 20, 0.47, 0.40, 0.33),
    target(Verb::Put, 1 << 20, 4.45, 2.0, 1.4),
    target(Verb::Get, 1 << 20, 0.98, 0.50, 0.38),
    target(Verb::Put, 128 << 10, 1756.0, 450.0, 300.0),
    target(Verb::Get, 128 << 10, 483.0, 130.0, 80.0),
    target(Verb::Put, 4 << 10, 1198.0, 200.0, 110.0),
    target(Verb::Get, 4 << 10, 315.0, 80.0, 45.0),
];

fn milliseconds(us: u64) -> String {
    format!("{:.2} ms", us as f64 / 1e3)
}

fn mebibytes(bytes: Option<u64>) -> String {
    bytes.map_or(String::from("-"), |b| format!("{} MiB", b >> 20))
}

impl Report {
    /// Prints everything as a Markdown table.
    pub fn print(&self) {
        let e = &self.environment;
        println!("{}", e.machine);
        if let (Some(program), Some(drives)) = (&e.program, &e.drives) {
            println!("{program} on {drives}");
        } else {
            println!("{}", e.endpoint);
        }
        println!(
            "payload {}, concurrency {}, {} load thread(s), {} s per phase\n",
            e.payload, e.concurrency, e.threads, e.seconds
        );
        let mut lines = vec![HEADINGS.map(String::from).to_vec()];
        lines.extend(self.rows.iter().map(Row::cells));
        print_table(&lines);
        if let Some(listing) = &self.listing {
            println!(
                "\nListing {} keys: first page {:.2} ms (must: 10 ms); whole {:.2} s, server CPU {} s (must: 2 s); peak memory {}",
                listing.keys,
                listing.first_page_ms,
                listing.whole_s,
                listing.server_cpu_s.map_or("-".into(), |c| format!("{c:.2}")),
                mebibytes(listing.peak_rss_bytes),
            );
        }
        if self.idle_rss_bytes.is_some() {
            println!("\nMemory before any load: {} (must: 64 MiB)", mebibytes(self.idle_rss_bytes));
        }
    }
}

fn print_table(lines: &[Vec<String>]) {
    let columns = lines.first().map_or(0, Vec::len);
    let width = |c: usize| lines.iter().map(|l| l[c].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns).map(width).collect();
    for (number, line) in lines.iter().enumerate() {
        let cells: Vec<_> = line.iter().zip(&widths).map(|(cell, w)| format!("{cell:w$}")).collect();
        println!("| {} |", cells.join(" | "));
        if number == 0 {
            let rules: Vec<_> = widths.iter().map(|w| "-".repeat(*w)).collect();
            println!("|-{}-|", rules.join("-|-"));
        }
    }
}
