//! The benchmark: a closed loop of signed requests against any S3 server, and the server's cost.
//!
//! The measure is server CPU time (user and system, all threads), because it is steady on noisy machines;
//! throughput and latency are reported too. For each size: PUT for some seconds, then GET of the written
//! objects, then the objects are deleted.
//!
//! Invariants: a request is sent once (an error is counted, never hidden by a repetition); the benchmark
//! writes only below its own prefix of its own bucket and removes that at the end.
//!
//! Must not depend on: the server's insides.

mod listing;
mod load;
mod options;
mod process;
mod report;
mod start;

use std::time::Duration;

use crate::outcome::Outcome;
pub use options::Options;
use process::Process;
use report::{Environment, Report, Row};

/// Runs the benchmark and prints the table.
pub fn run(options: &Options) -> Outcome {
    let server = match (&options.start, &options.drives) {
        (Some(program), Some(drives)) => Some(start::Server::start(program, drives, options)?),
        _ => None,
    };
    let endpoint = match (&server, &options.endpoint) {
        (Some(server), _) => server.endpoint.clone(),
        (None, Some(endpoint)) => endpoint.clone(),
        (None, None) => return Err("name --endpoint or --start".into()),
    };
    let pid = server.as_ref().map(start::Server::pid).or(options.pid);
    let process = pid.map(Process::open).transpose()?;
    if process.is_none() {
        eprintln!("note: without --pid the server's CPU time and memory are not known");
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let outcome = measure(options, &endpoint, process.as_ref(), &runtime);
    if let Some(server) = server {
        server.stop(options.keep)?;
    }
    let report = outcome?;
    report.print();
    if let Some(path) = &options.json {
        std::fs::write(path, serde_json::to_vec_pretty(&report)?)?;
    }
    if report.rows.iter().any(|row| row.errors > 0) {
        return Err("some requests failed; see the table".into());
    }
    Ok(())
}

fn measure(
    options: &Options,
    endpoint: &str,
    process: Option<&Process>,
    runtime: &tokio::runtime::Runtime,
) -> Outcome<Report> {
    let client = options.client(endpoint)?;
    runtime.block_on(async {
        if !client.bucket_exists(&options.bucket).await? {
            client.create_bucket(&options.bucket, false).await?;
        }
        Outcome::Ok(())
    })?;
    let prefix = format!("bench-{:08x}/", getrandom::u32()?);
    let mut report = Report {
        environment: Environment::here(endpoint, options),
        idle_rss_bytes: process.and_then(Process::rss),
        rows: Vec::new(),
        listing: None,
    };
    let settle = Duration::from_millis(500);
    for &size in &options.sizes {
        let objects = load::Objects::new(&prefix, size, options)?;
        for verb in [load::Verb::Put, load::Verb::Get] {
            let _ = process.map(Process::reset_peak);
            let measured = load::run(options, endpoint, &objects, verb, process, settle)?;
            let row = Row::new(verb, size, measured, process.and_then(Process::peak_rss));
            eprintln!("{}", row.line());
            report.rows.push(row);
        }
        if !options.keep {
            runtime.block_on(load::remove(&client, &options.bucket, &objects))?;
        }
    }
    let keys = options.listing();
    if keys > 0 {
        let _ = process.map(Process::reset_peak);
        report.listing = Some(listing::run(options, endpoint, &prefix, keys, process, runtime)?);
    }
    if !options.keep {
        // Fails if the bucket contains other objects, as intended.
        let _ = runtime.block_on(client.delete_bucket(&options.bucket));
    }
    Ok(report)
}
