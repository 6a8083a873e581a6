//! `ashlar bench net`: measures the network between nodes.

use std::{path::PathBuf, process::ExitCode, sync::atomic::Ordering};

use ashlar_bench::{
    host,
    net::{self, Direction, Shape, Token},
};
use ashlar_bench_report::{
    result::{Phase, Run},
    units,
};
use clap::{Args, ValueEnum};
use serde_json::json;

use super::{results, s3, shared};
use crate::{
    Globals,
    failure::{Failure, Kind, Outcome},
    output::Output,
};

/// The direction of data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Way {
    /// To the listeners
    Send,
    /// From the listeners
    Receive,
    /// Both at once
    Both,
    /// First send, then receive
    Each,
}

/// What to measure.
#[derive(Args)]
#[command(after_long_help = "\
Examples:
  ashlar bench net --listen 10.0.0.1:7762             # on each node; prints a token
  ashlar bench net 10.0.0.1:7762 --token TOKEN        # from here to it and back
  ashlar bench net 10.0.0.{1...4}:7762 --all-pairs --out net.json   # with ASHLAR_BENCH_TOKEN set")]
pub struct Options {
    /// Listeners; {1...4} is a range
    #[arg(value_name = "HOST:PORT", required_unless_present = "listen", conflicts_with = "listen")]
    nodes: Vec<String>,
    /// Wait for coordinators; anyone with the token can make this machine send and receive
    #[arg(long, value_name = "ADDR", num_args = 0..=1, default_missing_value = "127.0.0.1:7762")]
    listen: Option<String>,
    /// Shared secret, at least 8 characters; by default a listener generates and prints one
    #[arg(long, value_name = "TOKEN", env = "ASHLAR_BENCH_TOKEN", hide_env_values = true)]
    token: Option<String>,
    /// Direction of data, seen from here
    #[arg(long, value_name = "WAY", default_value = "each")]
    direction: Way,
    /// TCP streams per pair and direction
    #[arg(long, short = 's', value_name = "N", default_value_t = 4)]
    streams: u32,
    /// Duration of the measurement
    #[arg(long, short = 't', value_name = "TIME", default_value = "10s", value_parser = shared::seconds)]
    duration: f64,
    /// Warm-up before it, which is not measured
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = shared::seconds)]
    warmup: f64,
    /// Bytes per write
    #[arg(long, short = 'b', value_name = "SIZE", default_value = "1MiB", value_parser = shared::size)]
    block_size: u64,
    /// Measure between all listeners at once, in both directions
    #[arg(long)]
    all_pairs: bool,
    /// Before that, measure each listener (each pair) alone
    #[arg(long)]
    serial: bool,
    /// Number of repetitions
    #[arg(long, value_name = "N", default_value_t = 1)]
    repeat: u32,
    /// Name of the result
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Write the result
    #[arg(long, short, value_name = "FILE")]
    out: Option<PathBuf>,
}

/// Runs the command.
pub fn run(options: &Options, globals: &Globals) -> ExitCode {
    results::end(globals, |output| match &options.listen {
        Some(address) => listen(options, address, output),
        None => measure(options, output),
    })
}

fn listen(options: &Options, address: &str, output: &Output) -> Outcome {
    let stop = s3::interrupt(None);
    let token = match &options.token {
        Some(text) => Token::new(text),
        None => Token::random(),
    };
    let token = token.map_err(shared::failed)?;
    let listener = ashlar_environment::net::bind_blocking(address)
        .map_err(|e| Failure::new(Kind::Failed, format!("cannot listen on {address}: {e}")))?;
    let bound = listener.local_addr()?;
    // A token from the command line is not printed.
    let shown = options.token.is_none().then(|| token.text().to_owned());
    output.result(
        || json!({ "listening": bound.to_string(), "token": shown }),
        || match &shown {
            Some(token) => {
                format!("listening on {bound}; token {token}\nashlar bench net {bound} --token {token}")
            }
            None => format!("listening on {bound}"),
        },
    );
    output.flush();
    let quiet = output.quiet || output.json;
    let note = move |text: &str| {
        if !quiet {
            eprintln!("{text}");
        }
    };
    net::listen(&listener, &token, stop, note).map_err(shared::failed)
}

fn measure(options: &Options, output: &Output) -> Outcome {
    let stop = s3::interrupt(None);
    let text = options.token.as_ref();
    let text =
        text.ok_or_else(|| Failure::usage("--token, as the listener printed it (or ASHLAR_BENCH_TOKEN)"))?;
    let token = Token::new(text).map_err(shared::failed)?;
    let parameters = net::Options {
        nodes: ashlar_arguments::expand::expand(&options.nodes).map_err(Failure::usage)?,
        directions: match options.direction {
            Way::Send => vec![Direction::Send],
            Way::Receive => vec![Direction::Receive],
            Way::Both => vec![Direction::Both],
            Way::Each => vec![Direction::Send, Direction::Receive],
        },
        streams: options.streams,
        shape: Shape { warmup_s: options.warmup, duration_s: options.duration, block: options.block_size },
        all_pairs: options.all_pairs,
        serial: options.serial,
        repeat: options.repeat,
    };
    let mut run = host::new_run("net", options.name.as_deref(), shared::command());
    net::run(&parameters, &token, &mut run, stop, &|text| output.note(text)).map_err(shared::failed)?;
    shared::store(options.out.as_deref(), &run)?;
    output.result(|| serde_json::to_value(&run).unwrap_or_default(), || table(&run));
    shared::caveats(output, &run);
    if stop.load(Ordering::SeqCst) {
        return Err(Failure::new(
            Kind::Interrupted,
            "interrupted: the last phase was given up, and the result is marked invalid",
        ));
    }
    Ok(())
}

fn table(run: &Run) -> String {
    let header = ["phase", "pair", "rate", "idle p50", "p50", "p99", "largest"];
    let mut table = shared::table(&header, 2);
    for phase in &run.phases {
        let Some(stream) = phase.operations.first() else { continue };
        let mut all = vec![phase.name.clone(), format!("all, {} streams", phase.values["streams"])];
        all.push(units::bytes_per_s(stream.bytes_per_s.mean));
        all.extend(times(phase));
        table.add_row(all);
        if stream.by.len() > 1 {
            for (pair, share) in &stream.by {
                let rate = units::bytes_per_s(share.bytes as f64 / phase.seconds.max(1e-9));
                table.add_row([String::new(), pair.trim_start_matches("pair ").to_owned(), rate]);
            }
        }
    }
    format!("{table}\nround trips of 64 bytes: idle before the load, the others under it")
}

fn times(phase: &Phase) -> Vec<String> {
    let percentile = |name: &str, p: &str| {
        let ns = net::times(phase, name).and_then(|h| h.percentiles_ns.get(p).copied());
        ns.map_or_else(String::new, |ns| units::ns(ns as f64))
    };
    let largest = net::times(phase, "ping").filter(|h| h.count > 0).map(|h| units::ns(h.max_ns as f64));
    vec![
        percentile("ping-idle", "p50"),
        percentile("ping", "p50"),
        percentile("ping", "p99"),
        largest.unwrap_or_default(),
    ]
}
