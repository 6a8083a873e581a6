//! Loads against a server whose delays and faults are known.

#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "tests run in real time")]

mod common;

use std::{
    io::{Read, Write},
    net::TcpListener,
    sync::{
        Arc, Condvar, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use ashlar_bench::{
    load::{
        Job, Mode, Offer, Op, RunContext, Select, Session, Silent, Sizes, Slo, Stop, Sweep, Tune, drive, tune,
    },
    wire::{Caller, Content, Fault, Host, Methods, Payload, Request, Settings, Sink},
};
use ashlar_bench_report::result::{Load, Operation, Run, Severity};
use common::{Server, job};

/// The longest delay of a thread that only sleeps: beyond it the machine is taken to have disturbed a measurement.
const DISTURBED: Duration = Duration::from_millis(4);
/// So often a disturbed measurement is made at most.
const ATTEMPTS: u32 = 6;

/// Runs a test of times. One that fails while the machine did not run a thread that was due is repeated: its times say
/// nothing about the program.
fn undisturbed(test: fn()) {
    for attempt in 1.. {
        let over = Arc::new(AtomicBool::new(false));
        let watch = {
            let over = over.clone();
            thread::spawn(move || {
                let mut worst = Duration::ZERO;
                while !over.load(Ordering::Relaxed) {
                    let begin = Instant::now();
                    thread::sleep(Duration::from_millis(1));
                    worst = worst.max(begin.elapsed());
                }
                worst
            })
        };
        let outcome = std::panic::catch_unwind(test);
        over.store(true, Ordering::Relaxed);
        let worst = watch.join().unwrap();
        match outcome {
            Ok(()) => return,
            Err(_) if worst >= DISTURBED && attempt < ATTEMPTS => {
                println!("attempt {attempt} was disturbed: a thread waited {worst:?}");
            }
            Err(failure) => {
                println!("the longest wait of a thread was {worst:?}");
                std::panic::resume_unwind(failure);
            }
        }
    }
}

fn measure(job: &Job) -> Run {
    let interrupt = AtomicBool::new(false);
    drive(job, &mut Session::new(job.clone()).unwrap(), &mut Silent, &around(&interrupt)).unwrap()
}

fn around(interrupt: &AtomicBool) -> RunContext<'_> {
    RunContext { server: None, host: None, agents: vec![], command: vec![], name: None, interrupt }
}

fn only(run: &Run) -> &Operation {
    assert_eq!((run.phases.len(), run.phases[0].operations.len()), (1, 1), "{run:?}");
    &run.phases[0].operations[0]
}

fn percentile(times: &mut [Duration], q: f64) -> f64 {
    times.sort();
    times[((times.len() as f64 * q).ceil() as usize).max(1) - 1].as_secs_f64()
}

/// 97 of 100 answers take 50 ms, the others 200 ms: p50 and p99 come out within 1 % of what the
/// server measured itself.
#[test]
fn histograms_show_known_delays() {
    undisturbed(measured_histograms_show_known_delays);
}

fn measured_histograms_show_known_delays() {
    let server = Server::start(Box::new(|request, _| {
        static TURN: AtomicU64 = AtomicU64::new(0);
        if request.method == "GET" && !request.key.is_empty() {
            let slow = TURN.fetch_add(1, Ordering::Relaxed) % 33 == 32;
            thread::sleep(Duration::from_millis(if slow { 200 } else { 50 }));
        }
        None
    }));
    let job = Job {
        offer: Offer { concurrency: 16, ..job(&server, Mode::Get).offer },
        stop: Stop { count: Some(990), ..Stop::default() },
        ..job(&server, Mode::Get)
    };
    // A busy machine delays the client's own clock: what is shown must fit in one of five runs.
    let off = |_| {
        server.state.took.lock().unwrap().clear();
        let run = measure(&job);
        let get = only(&run);
        let stopped = run.phases[0].stopped_by.as_str();
        assert_eq!((get.count, get.verified_bytes, stopped), (990, 990_000, "count"));
        let first = get.first_byte.as_ref().unwrap();
        assert!(first.count == 990 && first.max_ns <= get.service.max_ns);
        let mut took = server.state.took.lock().unwrap().clone();
        let far = [("p50", 0.5), ("p99", 0.99)].map(|(name, q)| {
            let shown = get.service.percentiles_ns[name] as f64 / 1e9;
            (shown / percentile(&mut took, q) - 1.0).abs()
        });
        far[0].max(far[1])
    };
    let seen: std::cell::RefCell<Vec<f64>> = std::cell::RefCell::default();
    let fits = (0..5).map(off).inspect(|far| seen.borrow_mut().push(*far)).any(|far| far < 0.01);
    assert!(fits, "off by {seen:?}");
}

/// A server that stalls for a second once, two seconds after the first GET.
fn stalling() -> Server {
    let first: Arc<Mutex<Option<Instant>>> = Arc::default();
    Server::start(Box::new(move |request, _| {
        if request.method == "GET" && !request.key.is_empty() {
            let begun = *first.lock().unwrap().get_or_insert_with(Instant::now);
            let at = begun.elapsed();
            let (from, to) = (Duration::from_secs(2), Duration::from_secs(3));
            thread::sleep(if at >= from && at < to { to - at } else { Duration::from_millis(2) });
        }
        None
    }))
}

/// 200 per second for 5 s with a stall of 1 s: 200 of 1000 requests were to start in it, and wait a
/// time that is uniform between 0 and 1 s. So of all, a tenth waits more than 0.5 s and a hundredth
/// more than 0.95 s. The closed loop has four requests in the stall, and shows nothing at p99.
#[test]
fn stall_is_in_the_response_times() {
    undisturbed(measured_stall_is_in_the_response_times);
}

fn measured_stall_is_in_the_response_times() {
    let server = stalling();
    let base = job(&server, Mode::Get);
    let open = Job {
        offer: Offer { concurrency: 8, rate: Some(200.0), poisson: false, limit: 10_000 },
        stop: Stop { seconds: Some(5.0), ..Stop::default() },
        ..base
    };
    let run = measure(&open);
    let get = only(&run);
    assert!((995..=1000).contains(&get.count), "{}", get.count);
    let response = get.response.as_ref().unwrap();
    let seconds = |name: &str| response.percentiles_ns[name] as f64 / 1e9;
    assert!((0.90..1.02).contains(&seconds("p99")), "p99 {}", seconds("p99"));
    assert!((0.42..0.56).contains(&seconds("p90")), "p90 {}", seconds("p90"));
    assert!(seconds("p50") < 0.1, "p50 {}", seconds("p50"));
    let slow: u64 = get.service.buckets.iter().filter(|b| b.0 > 500_000_000).map(|b| b.1).sum();
    assert!(slow <= 8, "only what was in flight was slow by itself: {slow}");
    assert_eq!(run.phases[0].values["unsent"], 0.0);

    let server = stalling();
    let closed = Job { stop: Stop { seconds: Some(5.0), ..Stop::default() }, ..job(&server, Mode::Get) };
    let run = measure(&closed);
    let get = only(&run);
    assert!(get.response.is_none() && get.service.percentiles_ns["p99"] < 100_000_000);
    assert!(get.service.max_ns > 800_000_000);
}

/// More than the limit due: the run ends, says so, and counts what it did not send.
#[test]
fn overload_is_reported() {
    undisturbed(measured_overload_is_reported);
}

fn measured_overload_is_reported() {
    let server = Server::start(Box::new(|request, _| {
        if request.method == "GET" {
            thread::sleep(Duration::from_millis(20));
        }
        None
    }));
    let job = Job {
        offer: Offer { concurrency: 2, rate: Some(1000.0), poisson: true, limit: 300 },
        stop: Stop { seconds: Some(10.0), ..Stop::default() },
        ..job(&server, Mode::Get)
    };
    let run = measure(&job);
    assert_eq!(run.phases[0].stopped_by, "overloaded");
    let unsent = run.phases[0].values["unsent"];
    assert!((250.0..400.0).contains(&unsent), "{unsent}");
    assert!(run.caveats.iter().any(|c| c.code == "overloaded" && c.severity == Severity::Invalid));
}

/// The server can do 4 in parallel in 10 ms each: some 400 per second; a sweep finds a knee below.
#[test]
fn sweep_finds_the_knee() {
    undisturbed(measured_sweep_finds_the_knee);
}

fn measured_sweep_finds_the_knee() {
    let server = Server::start(Box::new(|request, _| {
        if request.method == "GET" && !request.key.is_empty() {
            thread::sleep(Duration::from_millis(10));
        }
        None
    }));
    let base = job(&server, Mode::Get);
    let slo: Slo = "p90=40ms".parse().unwrap();
    let job = Job {
        offer: Offer { limit: 2000, ..base.offer },
        sweep: Some(Sweep { slo, from: 100.0, to: None, step_s: 0.8, precision: 0.3 }),
        ..base
    };
    let run = measure(&job);
    let knee: Vec<f64> = run.phases.iter().filter_map(|p| p.values.get("knee_rate_per_s")).copied().collect();
    assert_eq!(knee.len(), 1);
    assert!((150.0..420.0).contains(&knee[0]), "{knee:?}");
    assert!(run.phases.iter().any(|p| p.values["slo_met"] == 0.0));
}

/// The server can do 4 in parallel in 25 ms each: doubling gains up to 4 or 8 in flight, and not from 8 to 16.
#[test]
fn tuned_load_ends_where_doubling_has_no_effect() {
    undisturbed(measured_tuned_load_ends_where_doubling_has_no_effect);
}

fn measured_tuned_load_ends_where_doubling_has_no_effect() {
    let free = Arc::new((Mutex::new(4), Condvar::new()));
    let server = Server::start(Box::new(move |request, _| {
        if request.method == "GET" && !request.key.is_empty() {
            let (left, changed) = &*free;
            let mut left = changed.wait_while(left.lock().unwrap(), |left| *left == 0).unwrap();
            *left -= 1;
            drop(left);
            thread::sleep(Duration::from_millis(25));
            *free.0.lock().unwrap() += 1;
            changed.notify_one();
        }
        None
    }));
    let job = Job { stop: Stop { seconds: Some(1.0), ..Stop::default() }, ..job(&server, Mode::Get) };
    let interrupt = AtomicBool::new(false);
    let around = around(&interrupt);
    let search = Tune { from: 1, to: 64, probe_s: 1.0, gain: 0.2 };
    let run = tune(&job, &search, &mut Session::new(job.clone()).unwrap(), &mut Silent, &around).unwrap();
    let get = only(&run);
    let Load::Closed { concurrency } = run.phases[0].load else { panic!("{:?}", run.phases[0].load) };
    assert!((2..=8).contains(&concurrency), "{concurrency}");
    assert_eq!(run.setup["concurrency"], concurrency);
    assert!(get.count > 20 && run.name.starts_with("GET of "), "{} {}", get.count, run.name);
}

/// A byte is flipped in every tenth answer: each is found, and the result is marked invalid.
#[test]
fn flipped_byte_is_detected() {
    let server = Server::start(Box::new(|request, body| {
        static TURN: AtomicU64 = AtomicU64::new(0);
        if request.method == "GET" && !request.key.is_empty() {
            let turn = TURN.fetch_add(1, Ordering::Relaxed);
            if turn % 10 == 3 {
                let at = turn as usize * 37 % body.len();
                body[at] ^= 1 << (turn % 8);
            }
        }
        None
    }));
    let job = Job { stop: Stop { count: Some(500), ..Stop::default() }, ..job(&server, Mode::Get) };
    let run = measure(&job);
    let get = only(&run);
    assert_eq!((get.count, get.errors["wrong-bytes"]), (450, 50));
    assert_eq!(get.verified_bytes, 450_000);
    assert!(run.caveats.iter().any(|c| c.code == "wrong-data" && c.severity == Severity::Invalid));
}

/// Whatever runs: other people's keys stay, ours go, their bucket stays, ours goes.
#[test]
fn only_own_objects_are_removed() {
    let server = Server::plain();
    let foreign = ["a", "mine/ashlar-bench-other/x", "mine/file", "z"];
    foreign.iter().for_each(|key| server.put("bench", key, b"precious"));
    for mode in [Mode::Put, Mode::Get, Mode::Delete, Mode::Mixed, Mode::List, Mode::Stat] {
        let base = job(&server, mode);
        let mix = if mode == Mode::Mixed {
            // More is written than removed, so that something is always left to read.
            vec![(Op::Get, 2), (Op::Put, 3), (Op::Delete, 1), (Op::Head, 1)]
        } else {
            base.mix.clone()
        };
        let job = Job {
            mix,
            prefix: "mine/".into(),
            stop: Stop { seconds: Some(0.3), ..Stop::default() },
            sizes: Sizes::Random(5000),
            depth: 2,
            ..base
        };
        let run = measure(&job);
        let failed: u64 = run.phases[0].operations.iter().flat_map(|o| o.errors.values()).sum();
        assert_eq!(failed, 0, "{mode:?} {:?}", run.phases[0].operations);
        assert_eq!(server.keys("bench").unwrap(), foreign, "{mode:?}");
    }
    // Existing data: read, never written or removed.
    let existing = Job { existing: true, verify: false, prefix: "mine/".into(), ..job(&server, Mode::Get) };
    let run = measure(&Job { stop: Stop { count: Some(50), ..Stop::default() }, ..existing.clone() });
    assert_eq!((only(&run).count, server.keys("bench").unwrap().len()), (50, 4));
    assert!(Session::new(Job { mix: vec![(Op::Delete, 1)], ..existing }).is_err());
    // Buckets of this run are removed unless others have put objects into them.
    let own = Job { bucket: "own".into(), buckets: 3, ..job(&server, Mode::Put) };
    measure(&Job { stop: Stop { count: Some(30), ..Stop::default() }, ..own });
    assert!((0..3).all(|i| server.keys(&format!("own-{i}")).is_none()));
}

#[test]
fn runs_end_at_their_limits() {
    let server = Server::plain();
    let base = || Job { verify: false, ..job(&server, Mode::Put) };
    let stop = |stop: Stop| {
        let run = measure(&Job { stop, ..base() });
        (run.phases[0].stopped_by.clone(), only(&run).count, only(&run).bytes)
    };
    assert_eq!(stop(Stop { count: Some(777), ..Stop::default() }), ("count".into(), 777, 777_000));
    let (why, count, bytes) = stop(Stop { bytes: Some(50_000), ..Stop::default() });
    assert!(why == "bytes" && bytes >= 50_000 && count <= 54, "{why} {count}");
    let (why, count, _) = stop(Stop { seconds: Some(0.5), ..Stop::default() });
    assert!(why == "time" && count > 10);
    let broken = Server::start(Box::new(|r, _| (r.method == "PUT" && !r.key.is_empty()).then_some(503)));
    let job = Job { stop: Stop { seconds: Some(20.0), ..Stop::default() }, ..job(&broken, Mode::Put) };
    let begun = Instant::now();
    let run = measure(&job);
    assert_eq!(run.phases[0].stopped_by, "errors");
    assert!(only(&run).errors["Injected"] >= 20 && begun.elapsed() < Duration::from_secs(5));
}

/// A slow first second and a steady rest: the first second is cut, and the run ends by itself.
#[test]
fn steady_runs_end_early() {
    undisturbed(measured_steady_runs_end_early);
}

fn measured_steady_runs_end_early() {
    let first: Mutex<Option<Instant>> = Mutex::default();
    let server = Server::start(Box::new(move |request, _| {
        if request.method == "GET" && !request.key.is_empty() {
            let begun = *first.lock().unwrap().get_or_insert_with(Instant::now);
            let slow = begun.elapsed() < Duration::from_secs(1);
            // Long beside what a busy machine adds.
            thread::sleep(Duration::from_millis(if slow { 100 } else { 10 }));
        }
        None
    }));
    let job = Job {
        stop: Stop { seconds: Some(30.0), steady: Some(0.3), ..Stop::default() },
        warmup: ashlar_bench::load::Warmup::Auto,
        ..job(&server, Mode::Get)
    };
    let run = measure(&job);
    let phase = &run.phases[0];
    assert_eq!(phase.stopped_by, "steady", "{phase:?}");
    assert!((0.8..6.0).contains(&phase.warmup_s), "{}", phase.warmup_s);
    assert!(phase.operations[0].rate_per_s.ci95.is_some());
}

/// Two names of one server take turns, and each has its share.
#[test]
fn hosts_are_used_in_turn() {
    undisturbed(measured_hosts_are_used_in_turn);
}

fn measured_hosts_are_used_in_turn() {
    let server = Server::plain();
    let base = job(&server, Mode::Get);
    for select in [Select::RoundRobin, Select::Least] {
        let mut job = Job { stop: Stop { count: Some(400), ..Stop::default() }, ..base.clone() };
        job.target.endpoints.push(server.url.replace("127.0.0.1", "localhost"));
        job.target.select = select;
        let run = measure(&job);
        let get = only(&run);
        let shares: Vec<u64> =
            job.target.endpoints.iter().map(|e| get.by[&format!("host {e}")].count).collect();
        assert_eq!((shares.iter().sum::<u64>(), get.count), (400, 400));
        assert!(shares.iter().all(|n| *n >= 100), "{select:?} {shares:?}");
    }
}

/// Answers of one connection after the other, raw; returns what was asked.
fn scripted(answers: Vec<Vec<&'static str>>) -> (String, thread::JoinHandle<Vec<String>>) {
    let socket = TcpListener::bind("127.0.0.1:0").unwrap();
    let host = socket.local_addr().unwrap().to_string();
    let server = thread::spawn(move || {
        let mut asked = Vec::new();
        for connection in answers {
            let (mut stream, _) = socket.accept().unwrap();
            for answer in connection {
                let mut text = Vec::new();
                while !text.windows(4).any(|w| w == b"\r\n\r\n") {
                    let mut byte = [0; 1];
                    stream.read_exact(&mut byte).unwrap();
                    text.push(byte[0]);
                }
                asked.push(String::from_utf8(text).unwrap());
                // In pieces, so that heads and chunks are cut anywhere.
                for piece in answer.as_bytes().chunks(7) {
                    stream.write_all(piece).unwrap();
                    stream.flush().unwrap();
                    thread::sleep(Duration::from_millis(1));
                }
            }
        }
        asked
    });
    (host, server)
}

#[test]
fn requests_and_answers_have_the_expected_bytes() {
    let chunked = "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nETag: \"e\"\r\n\r\n\
                   5;x=y\r\nhello\r\n6\r\n world\r\n0\r\nTrailer: x\r\n\r\n";
    let plain = "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc";
    let error = "HTTP/1.1 404 No\r\nContent-Length: 32\r\n\r\n<Error><Code>Gone</Code></Error>";
    let closing = "HTTP/1.1 200 OK\r\n\r\nto the end";
    // Two connections are closed by the server while they are kept: what came next is sent again.
    let (host, server) = scripted(vec![vec![chunked, plain], vec![error], vec![closing]]);
    let settings = Settings {
        hosts: vec![Host::parse(&host).unwrap()],
        tls: None,
        keys: job(&Server::plain(), Mode::Get).target.keys,
        timeout: Duration::from_secs(5),
        payload: Payload::Signed,
        checksum: None,
        virtual_host: true,
    };
    let mut caller = Caller::new(Arc::new(settings));
    let get = Request { query: "a=b", ..Request::new(Methods::Get, 0, "bucket", "/a%20key") };
    let answer = caller.call(&get, Sink::Keep(100)).unwrap();
    assert_eq!((answer.status, answer.bytes, &caller.kept[..]), (200, 11, &b"hello world"[..]));
    assert_eq!(caller.etag, "\"e\"");
    assert!(answer.first_byte.unwrap() >= answer.sent && answer.ended >= answer.first_byte.unwrap());
    let wrong = Content::of(b"abd");
    assert_eq!(caller.call(&get, Sink::Compare(wrong.whole())).unwrap_err(), Fault::WrongBytes);
    thread::sleep(Duration::from_millis(50));
    let answer = caller.call(&get, Sink::Discard).unwrap();
    assert_eq!((answer.status, caller.code(), caller.reconnects), (404, "Gone", 1));
    let answer = caller.call(&get, Sink::Discard).unwrap();
    assert_eq!((answer.status, answer.bytes, caller.reconnects), (200, 10, 2));
    let asked = server.join().unwrap();
    assert!(asked[0].starts_with("GET /a%20key?a=b HTTP/1.1\r\n"), "{}", asked[0]);
    assert!(asked[0].contains(&format!("\r\nhost: bucket.{host}\r\n")), "{}", asked[0]);
    assert!(asked[0].contains("SignedHeaders=host;x-amz-content-sha256;x-amz-date, Signature="));
}
