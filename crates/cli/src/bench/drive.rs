//! `ashlar bench drive`: measures drives, each alone and all together.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
    process::ExitCode,
    sync::atomic::Ordering,
};

use ashlar_bench::{
    block::{self, Access, Test},
    host,
};
use ashlar_bench_report::{
    result::{Operation, Phase, Run},
    units,
};
use clap::{Args, ValueEnum};

use super::{results, s3, shared};
use crate::{
    Globals,
    failure::{Failure, Kind, Outcome},
    output::Output,
};

/// The tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Kinds {
    /// Sequential reading
    SeqRead,
    /// Sequential writing
    SeqWrite,
    /// Random reading
    RandRead,
    /// Random reading and writing
    RandMixed,
    /// Random writing
    RandWrite,
}

/// What to measure.
#[derive(Args)]
#[command(after_long_help = "\
In a folder, an unnamed file is written and measured; it disappears however the program ends. All figures of
several drives come from one interval that they share. Direct I/O is used; a file system without it is an
error, unless --buffered permits the page cache.

Examples:
  ashlar bench drive /mnt/drive{1...4} --out drives.json
  ashlar bench drive /mnt/drive1 --tests rand-read --depth 32 --runtime 30s
  ashlar bench drive /mnt/drive{1...4} -b 4MiB -f 1GiB --serial --write-only
  ashlar bench drive /dev/nvme1n1 --raw-device-data-loss")]
pub struct Options {
    /// Folders on the drives, or raw devices; {1...4} is a range
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<String>,
    /// Block sizes of sequential tests [default: 128KiB,4MiB]
    #[arg(long, short = 'b', value_name = "SIZE", value_delimiter = ',', value_parser = shared::size)]
    block_size: Vec<u64>,
    /// Block size of random tests
    #[arg(long, value_name = "SIZE", default_value = "4KiB", value_parser = shared::size)]
    random_block_size: u64,
    /// Bytes that are written and read per drive [default: 1GiB; all of a raw device]
    #[arg(long, short = 'f', visible_alias = "filesize", value_name = "SIZE", value_parser = shared::size)]
    size: Option<u64>,
    /// I/Os in flight per job
    #[arg(long, short = 'd', value_name = "N", default_value_t = 16)]
    depth: u32,
    /// Jobs per drive; in sequential tests each has its own region
    #[arg(long, short = 'i', visible_alias = "ioperdrive", value_name = "N", default_value_t = 1)]
    jobs: u32,
    /// Percentage of reads in the mixed test
    #[arg(long, value_name = "PERCENT", default_value_t = 70, value_parser = clap::value_parser!(u8).range(0..=100))]
    mix: u8,
    /// Duration of each test
    #[arg(long, short = 't', value_name = "TIME", default_value = "10s", value_parser = shared::seconds)]
    runtime: f64,
    /// Warm-up before it, which is not measured
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = shared::seconds)]
    warmup: f64,
    /// Run only these tests
    #[arg(long, value_name = "TEST", value_delimiter = ',')]
    tests: Vec<Kinds>,
    /// Run only tests that write
    #[arg(long, conflicts_with = "tests")]
    write_only: bool,
    /// Measure only each drive alone
    #[arg(long)]
    serial: bool,
    /// Measure only all drives together
    #[arg(long, conflicts_with = "serial")]
    together: bool,
    /// Number of repetitions
    #[arg(long, value_name = "N", default_value_t = 1)]
    repeat: u32,
    /// Wait until each write is durable (O_DSYNC)
    #[arg(long)]
    sync: bool,
    /// Do not write all data once in advance (only with tests that write)
    #[arg(long)]
    no_precondition: bool,
    /// Use the page cache if direct I/O is not possible; the result notes it
    #[arg(long)]
    buffered: bool,
    /// List drives that differ from the median by more than this percentage
    #[arg(long, value_name = "PERCENT", default_value_t = 10.0)]
    outlier: f64,
    /// Seed of offsets and contents
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Allow PATH to be a raw device: ALL DATA ON IT IS LOST
    #[arg(long)]
    raw_device_data_loss: bool,
    /// Also allow a raw device that holds data (never one that is mounted or in use)
    #[arg(long, requires = "raw_device_data_loss")]
    force: bool,
    /// Name of the result
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Write the result
    #[arg(long, short, value_name = "FILE")]
    out: Option<PathBuf>,
}

/// Runs the command.
pub fn run(options: &Options, globals: &Globals) -> ExitCode {
    results::end(globals, |output| measure(options, output))
}

fn measure(options: &Options, output: &Output) -> Outcome {
    let stop = s3::interrupt(None);
    let parameters = parameters(options)?;
    let mut run = host::new_run("drive", options.name.as_deref(), shared::command());
    block::run(&parameters, &mut run, stop, &|text| output.note(text)).map_err(shared::failed)?;
    shared::store(options.out.as_deref(), &run)?;
    output.result(|| serde_json::to_value(&run).unwrap_or_default(), || text(&run));
    shared::caveats(output, &run);
    if stop.load(Ordering::SeqCst) {
        return Err(Failure::new(
            Kind::Interrupted,
            "interrupted: the last test is shorter than asked for, and the result is marked invalid",
        ));
    }
    Ok(())
}

fn parameters(options: &Options) -> Outcome<block::Options> {
    let defaults = block::Options::default();
    let paths = ashlar_arguments::expand::expand(&options.paths).map_err(Failure::usage)?;
    let wanted = |test: Test| {
        let kind = match test {
            Test::SeqRead => Kinds::SeqRead,
            Test::SeqWrite => Kinds::SeqWrite,
            Test::RandRead => Kinds::RandRead,
            Test::RandMixed => Kinds::RandMixed,
            Test::RandWrite => Kinds::RandWrite,
        };
        (options.tests.is_empty() || options.tests.contains(&kind))
            && (!options.write_only || test.writes_only())
    };
    let size = options.size.unwrap_or(if options.raw_device_data_loss { 0 } else { defaults.size });
    Ok(block::Options {
        paths: paths.into_iter().map(PathBuf::from).collect(),
        size,
        sequential: if options.block_size.is_empty() {
            defaults.sequential
        } else {
            options.block_size.clone()
        },
        random: options.random_block_size,
        tests: Test::ALL.into_iter().filter(|t| wanted(*t)).collect(),
        depth: options.depth,
        jobs: options.jobs,
        mix: options.mix,
        runtime_s: options.runtime,
        warmup_s: options.warmup,
        alone: !options.together,
        together: !options.serial,
        repeat: options.repeat,
        precondition: !options.no_precondition,
        access: Access {
            buffered: options.buffered,
            sync: options.sync,
            raw: options.raw_device_data_loss,
            force: options.force,
        },
        outlier_percent: options.outlier,
        seed: options.seed,
    })
}

/// A row for each test and drive, and a row for each test over all drives.
fn text(run: &Run) -> String {
    let header = ["test", "drives", "", "rate", "I/Os", "p50", "p99", "p99.9", "largest"];
    let mut table = shared::table(&header, 3);
    for phase in &run.phases {
        let (name, drives) = match phase.name.split_once(" alone ") {
            Some((name, path)) => (name, format!("{path} alone")),
            None => (phase.name.as_str(), together(phase)),
        };
        for operation in &phase.operations {
            table.add_row(row(name, &drives, operation));
        }
    }
    let mut text = table.to_string();
    if let Some(slowest) = by_drive(run) {
        text.push_str(&format!(
            "\n\neach drive's share of what all reached together, slowest first:\n{slowest}"
        ));
    }
    text
}

fn together(phase: &Phase) -> String {
    let names: BTreeSet<&String> = phase.operations.iter().flat_map(|o| o.by.keys()).collect();
    match names.into_iter().collect::<Vec<_>>().as_slice() {
        [one] => one.trim_start_matches("drive ").to_owned(),
        _ => format!("all {} together", phase.values.get("drives").copied().unwrap_or_default()),
    }
}

fn row(name: &str, drives: &str, o: &Operation) -> Vec<String> {
    let percentile =
        |p: &str| o.service.percentiles_ns.get(p).map_or_else(String::new, |ns| units::ns(*ns as f64));
    vec![
        name.to_owned(),
        drives.to_owned(),
        o.name.clone(),
        units::bytes_per_s(o.bytes_per_s.mean),
        units::per_s(o.rate_per_s.mean),
        percentile("p50"),
        percentile("p99"),
        percentile("p99.9"),
        units::ns(o.service.max_ns as f64),
    ]
}

/// For tests over all drives: the drives ordered by rate.
fn by_drive(run: &Run) -> Option<comfy_table::Table> {
    let mut table = shared::table(&["test", "drive", "rate", "of the mean"], 2);
    let mut any = false;
    for phase in &run.phases {
        let mut rates: BTreeMap<&str, f64> = BTreeMap::new();
        for (drive, share) in phase.operations.iter().flat_map(|o| &o.by) {
            *rates.entry(drive.trim_start_matches("drive ")).or_default() +=
                share.bytes as f64 / phase.seconds.max(1e-9);
        }
        if rates.len() < 2 {
            continue;
        }
        any = true;
        let mean = rates.values().sum::<f64>() / rates.len() as f64;
        let mut sorted: Vec<(&str, f64)> = rates.into_iter().collect();
        sorted.sort_by(|a, b| a.1.total_cmp(&b.1));
        for (drive, rate) in sorted {
            let share = format!("{:.0} %", rate / mean * 100.0);
            table.add_row([phase.name.clone(), drive.to_owned(), units::bytes_per_s(rate), share]);
        }
    }
    any.then_some(table)
}
