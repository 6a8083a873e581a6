//! Short runs on a real folder: counting, clean-up, refused options.

use std::{
    fs,
    path::Path,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use ashlar_bench_report::result::Load;

use super::*;
use crate::host;

/// Folders on the disk the repository is on; a memory file system has no direct I/O to test.
fn folders() -> (tempfile::TempDir, Vec<PathBuf>) {
    let base = Path::new(env!("CARGO_MANIFEST_DIR"));
    let home = tempfile::Builder::new().prefix(".bench-drive-").tempdir_in(base).unwrap();
    let paths: Vec<PathBuf> = ["a", "b"].iter().map(|n| home.path().join(n)).collect();
    paths.iter().for_each(|p| fs::create_dir(p).unwrap());
    (home, paths)
}

fn options(paths: Vec<PathBuf>) -> Options {
    Options { paths, size: 8 << 20, depth: 2, runtime_s: 0.2, warmup_s: 0.02, ..Options::default() }
}

/// Runs; on a file system without direct I/O through the page cache.
fn measured(mut options: Options, stop: &AtomicBool) -> Run {
    let mut run = host::new_run("drive", None, Vec::new());
    if let Err(error) = super::run(&options, &mut run, stop, &|_| {}) {
        assert!(error.to_string().contains("--buffered"), "{error}");
        options.access.buffered = true;
        run = host::new_run("drive", None, Vec::new());
        super::run(&options, &mut run, stop, &|_| {}).unwrap();
    }
    run
}

#[test]
fn every_test_runs_on_one_and_on_all_drives() {
    let (_home, paths) = folders();
    let run = measured(options(paths.clone()), &AtomicBool::new(false));
    let names: Vec<&str> = run.phases.iter().map(|p| p.name.as_str()).collect();
    assert_eq!(names.len(), 7 * 3, "{names:?}");
    for name in [
        "seq-read-128KiB",
        "seq-read-4MiB",
        "seq-write-128KiB",
        "seq-write-4MiB",
        "rand-read-4KiB",
        "rand-mixed-70-4KiB",
        "rand-write-4KiB",
    ] {
        assert!(names.contains(&name), "{name}");
        assert!(names.contains(&format!("{name} alone {}", paths[0].display()).as_str()), "{name}");
    }
    for phase in &run.phases {
        let mixed = phase.name.starts_with("rand-mixed");
        assert_eq!(phase.operations.len(), if mixed { 2 } else { 1 }, "{}", phase.name);
        let together = !phase.name.contains(" alone ");
        for operation in &phase.operations {
            // A busy machine may need longer than the interval for one large block.
            let some = operation.count > 0 || phase.name.contains("4MiB");
            assert!(some && operation.errors.is_empty(), "{}: {operation:?}", phase.name);
            assert_eq!(operation.service.count, operation.count);
            // Not beyond what Little's law allows: in flight = rate x mean time.
            let Load::Closed { concurrency } = phase.load else { panic!("{:?}", phase.load) };
            let in_flight = operation.rate_per_s.mean * operation.service.mean_ns / 1e9;
            if operation.count > 1000 {
                let all = f64::from(concurrency);
                assert!(in_flight < all * 1.3, "{}: {in_flight}", phase.name);
                assert!(phase.operations.len() > 1 || in_flight > all * 0.5, "{}: {in_flight}", phase.name);
            }
            assert_eq!(operation.by.len(), if together { 2 } else { 1 });
            assert_eq!(operation.by.values().map(|s| s.count).sum::<u64>(), operation.count);
            assert_eq!(operation.by.values().map(|s| s.bytes).sum::<u64>(), operation.bytes);
            let rate = operation.bytes as f64 / phase.seconds;
            assert!((operation.bytes_per_s.mean / rate - 1.0).abs() < 1e-9);
            // The timeline has the warm-up too.
            assert!(operation.timeline.points.iter().map(|p| p.count).sum::<u64>() >= operation.count);
        }
        if mixed && phase.operations.iter().map(|o| o.count).sum::<u64>() > 2000 {
            let reads = phase.operations[0].count as f64;
            let share = reads / (reads + phase.operations[1].count as f64);
            assert!((share - 0.7).abs() < 0.06, "{share}");
        }
    }
    assert!(run.caveats.iter().any(|c| c.code == "shared-device"));
    assert!(run.environment[0].facts.keys().any(|k| k.starts_with("mount ")));
    for path in paths {
        assert_eq!(fs::read_dir(path).unwrap().count(), 0, "nothing is left behind");
    }
}

#[test]
fn file_has_no_name_and_interruption_keeps_results() {
    let (_home, paths) = folders();
    let stop = AtomicBool::new(false);
    let options = Options {
        runtime_s: 60.0,
        tests: vec![Test::SeqRead],
        sequential: vec![128 << 10],
        paths: paths[..1].to_vec(),
        ..options(Vec::new())
    };
    let run = std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(700));
            assert_eq!(fs::read_dir(&paths[0]).unwrap().count(), 0);
            stop.store(true, Ordering::SeqCst);
        });
        measured(options, &stop)
    });
    let phase = &run.phases[0];
    assert_eq!(phase.stopped_by, "interrupted");
    assert!(phase.seconds > 0.0 && phase.seconds < 20.0, "{}", phase.seconds);
    assert!(phase.operations[0].count > 0);
}

#[test]
fn jobs_have_separate_regions_and_queue_depth_shares_one() {
    let (_home, paths) = folders();
    let options = Options {
        jobs: 2,
        depth: 3,
        tests: vec![Test::SeqWrite, Test::RandWrite],
        sequential: vec![64 << 10],
        paths: paths[..1].to_vec(),
        precondition: false,
        ..options(Vec::new())
    };
    let run = measured(options, &AtomicBool::new(false));
    assert_eq!(run.phases.len(), 2);
    for phase in &run.phases {
        assert_eq!(phase.load, Load::Closed { concurrency: 6 });
        assert!(phase.operations[0].count > 6);
    }
}

#[test]
fn invalid_options_are_refused() {
    let (home, paths) = folders();
    let refused = |options: Options, word: &str| {
        let mut run = Run::default();
        let error = super::run(&options, &mut run, &AtomicBool::new(false), &|_| {}).unwrap_err();
        assert!(error.to_string().contains(word), "{word}: {error}");
    };
    let good = || options(paths.clone());
    refused(Options { paths: vec![], ..good() }, "name at least one drive");
    refused(Options { paths: vec![paths[0].clone(), paths[0].clone()], ..good() }, "twice");
    refused(Options { paths: vec![home.path().join("none")], ..good() }, "none");
    refused(Options { random: 1000, ..good() }, "multiples of 4 KiB");
    refused(Options { depth: 0, ..good() }, "at least 1");
    refused(Options { depth: 5000, ..good() }, "in flight");
    refused(Options { size: 1 << 20, ..good() }, "at least one block");
    refused(Options { precondition: false, ..good() }, "holes");
    refused(Options { tests: vec![], ..good() }, "nothing to measure");
    refused(Options { size: 1 << 60, ..good() }, "");
    let file = home.path().join("file");
    fs::write(&file, "x").unwrap();
    refused(Options { paths: vec![file], ..good() }, "neither a folder nor a block device");
    if Path::new("/dev/shm").is_dir() {
        refused(Options { paths: vec!["/dev/shm".into()], ..good() }, "--buffered");
    }
    if Path::new("/dev/loop0").exists() {
        refused(Options { paths: vec!["/dev/loop0".into()], ..good() }, "--raw-device-data-loss");
    }
}

#[test]
fn buffered_runs_are_marked() {
    let (_home, paths) = folders();
    let access = Access { buffered: true, ..Access::default() };
    let options = Options { access, tests: vec![Test::RandRead], ..options(paths) };
    let run = measured(options, &AtomicBool::new(false));
    let caveat = run.caveats.iter().find(|c| c.code == "cached-data").unwrap();
    assert_eq!(caveat.severity, Severity::Invalid);
}
