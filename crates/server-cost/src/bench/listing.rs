//! Measures the listing of many keys: the time of the first page, and the cost of all pages.

use std::time::{Duration, Instant};

use ashlar_client::{Identifier, ListOptions};

use super::{load, options::Options, process::Process};
use crate::outcome::Outcome;

/// The result of the listing.
#[derive(serde::Serialize, Debug)]
pub struct Listing {
    /// Keys listed.
    pub keys: u64,
    /// Median time of the first page of 1,000, in milliseconds.
    pub first_page_ms: f64,
    /// Time of all pages, one after the other, in seconds.
    pub whole_s: f64,
    /// The server's CPU time for all pages, in seconds.
    pub server_cpu_s: Option<f64>,
    /// The server's highest memory while it listed, in bytes.
    pub peak_rss_bytes: Option<u64>,
}

/// Writes the keys, lists them, deletes them.
pub fn run(
    options: &Options,
    endpoint: &str,
    prefix: &str,
    count: u32,
    process: Option<&Process>,
    runtime: &tokio::runtime::Runtime,
) -> Outcome<Listing> {
    let client = options.client(endpoint)?;
    let bucket = options.bucket.as_str();
    // A hundred keys per folder, as in real directory trees.
    let prefix = format!("{prefix}list/");
    let keys: Vec<Identifier> = (0..count)
        .map(|n| Identifier { key: format!("{prefix}{:05}/{n:08}", n / 100), version_id: None })
        .collect();
    eprintln!("writing {count} keys to list");
    runtime.block_on(load::fill(&client, bucket, &keys, 4 * options.concurrency as usize))?;
    std::thread::sleep(Duration::from_secs(1));
    let _ = process.map(Process::reset_peak);
    let list = ListOptions { prefix: prefix.clone(), ..ListOptions::default() };
    let mut firsts = Vec::new();
    for _ in 0..9 {
        let begin = Instant::now();
        runtime.block_on(client.list(bucket, &list))?;
        firsts.push(begin.elapsed());
    }
    firsts.sort();
    let cpu_before = process.and_then(Process::cpu);
    let begin = Instant::now();
    let mut seen = 0u64;
    let mut page_options = list;
    loop {
        let page = runtime.block_on(client.list(bucket, &page_options))?;
        for entry in &page.entries {
            if keys.get(seen as usize).map(|k| &k.key) != Some(&entry.key) {
                return Err(format!("the listing is wrong at number {seen}: {}", entry.key).into());
            }
            seen += 1;
        }
        match page.next {
            Some((token, _)) => page_options.token = Some(token),
            None => break,
        }
    }
    let whole = begin.elapsed();
    let cpu = process.and_then(Process::cpu).zip(cpu_before).map(|(a, b)| (a - b).as_secs_f64());
    if seen != u64::from(count) {
        return Err(format!("{seen} of {count} keys were listed").into());
    }
    let peak = process.and_then(Process::peak_rss);
    if !options.keep {
        runtime.block_on(load::remove_keys(&client, bucket, &keys))?;
    }
    Ok(Listing {
        keys: seen,
        first_page_ms: firsts[firsts.len() / 2].as_secs_f64() * 1e3,
        whole_s: whole.as_secs_f64(),
        server_cpu_s: cpu,
        peak_rss_bytes: peak,
    })
}
