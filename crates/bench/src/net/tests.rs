//! Nodes over loopback: throughput, directions, pairs, tokens, lost nodes.

use std::{
    io::Write,
    net::TcpListener,
    sync::{Mutex, PoisonError},
};

use ashlar_bench_report::plan::measured;

use super::*;
use crate::host;

/// One test at a time: they load the machine.
static ONE: Mutex<()> = Mutex::new(());

fn options(nodes: Vec<String>) -> Options {
    Options {
        nodes,
        directions: vec![Direction::Send, Direction::Receive, Direction::Both],
        streams: 2,
        shape: Shape { warmup_s: 0.1, duration_s: 0.25, block: 128 << 10 },
        all_pairs: false,
        serial: false,
        repeat: 1,
    }
}

/// `n` listeners while `work` runs.
fn with_nodes(n: usize, token: &str, work: impl FnOnce(Vec<String>)) {
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    let listeners: Vec<TcpListener> = (0..n).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
    let addresses = listeners.iter().map(|l| l.local_addr().unwrap().to_string()).collect();
    let stop = AtomicBool::new(false);
    let token = Token::new(token).unwrap();
    thread::scope(|scope| {
        for listener in &listeners {
            let (token, stop) = (&token, &stop);
            scope.spawn(move || listen(listener, token, stop, |_| {}).unwrap());
        }
        let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| work(addresses)));
        stop.store(true, Ordering::SeqCst);
        if let Err(panic) = caught {
            std::panic::resume_unwind(panic);
        }
    });
}

fn measure(options: &Options, token: &str) -> Result<Run> {
    let mut run = host::new_run("net", None, Vec::new());
    super::run(options, &Token::new(token)?, &mut run, &AtomicBool::new(false), &|_| {})?;
    Ok(run)
}

#[test]
fn throughput_from_here_in_each_direction() {
    with_nodes(1, "token-one", |nodes| {
        let run = measure(&options(nodes.clone()), "token-one").unwrap();
        assert_eq!(
            run.phases.iter().map(|p| p.name.as_str()).collect::<Vec<_>>(),
            ["send", "receive", "both"]
        );
        let there = format!("pair here -> {}", nodes[0]);
        let back = format!("pair {} -> here", nodes[0]);
        for (phase, expected) in run.phases.iter().zip([vec![&there], vec![&back], vec![&there, &back]]) {
            let stream = &phase.operations[0];
            assert!(stream.errors.is_empty(), "{:?}", run.caveats);
            let mut pairs: Vec<&String> = stream.by.keys().collect();
            pairs.sort();
            let mut expected = expected;
            expected.sort();
            assert_eq!(pairs, expected);
            assert!(stream.bytes > 1_000_000, "{}: {}", phase.name, stream.bytes);
            assert!(stream.by.values().all(|s| s.bytes > 0));
            assert_eq!(stream.by.values().map(|s| s.bytes).sum::<u64>(), stream.bytes);
            assert!((stream.bytes_per_s.mean - stream.bytes as f64 / 0.25).abs() < 1.0);
            assert!(stream.timeline.points.iter().map(|p| p.bytes).sum::<u64>() >= stream.bytes / 2);
            for name in ["ping", "ping-idle"] {
                let times = times(phase, name).unwrap();
                assert!(
                    times.count > 5 && times.min_ns > 1000 && times.max_ns < 5_000_000_000,
                    "{name}: {times:?}"
                );
            }
            assert!(phase.values["start_skew_s"] < 1.0);
        }
        assert!(run.caveats.iter().any(|c| c.code == "loopback"));
    });
}

#[test]
fn all_pairs_together_and_one_by_one() {
    with_nodes(3, "token-two", |nodes| {
        let options = Options { all_pairs: true, serial: true, streams: 1, ..options(nodes.clone()) };
        let all_sent = |run: &Run| run.phases[6].operations[0].by.values().all(|s| s.bytes > 0);
        let measure = || measure(&options, "token-two").unwrap();
        // On a busy machine a stream may get no turn in a quarter of a second.
        let run = std::iter::repeat_with(measure)
            .take(10)
            .find(all_sent)
            .expect("every pair sends in one of ten runs");
        assert_eq!(run.phases.len(), 7);
        for phase in &run.phases[..6] {
            assert_eq!(phase.operations[0].by.len(), 1, "{}", phase.name);
        }
        let mesh = &run.phases[6];
        assert_eq!((mesh.name.as_str(), mesh.operations[0].by.len()), ("all-pairs", 6));
        assert_eq!(mesh.operations[1].by.len(), 6);
        let plan = measured::profile(&Run { mode: "drive".into(), ..Run::default() }, Some(&run), 2, 1);
        assert!(plan.unwrap_err().to_string().contains("sequential read"));
    });
}

#[test]
fn peers_without_the_token_are_refused() {
    with_nodes(1, "token-three", |nodes| {
        let error = measure(&options(nodes.clone()), "token-wrong").unwrap_err().to_string();
        assert!(error.contains("token"), "{error}");
        // A stream of no session is refused, and noise does not disturb.
        let token = Token::new("token-three").unwrap();
        let role = Role::Stream { session: 1, from: "x".into(), to: "y".into(), sends: true };
        wire::dial(&nodes[0], &token, role).unwrap();
        let mut noise = TcpStream::connect(&nodes[0]).unwrap();
        noise.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
        let mut long = TcpStream::connect(&nodes[0]).unwrap();
        // It may be closed while this is being written.
        let _ = long.write_all(&vec![b'x'; 100_000]);
        let quick = Options { directions: vec![Direction::Send], ..options(nodes) };
        assert!(measure(&quick, "token-three").is_ok());
    });
}

#[test]
fn unreachable_and_busy_listeners_are_reported() {
    with_nodes(1, "token-four", |nodes| {
        let silent = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = silent.local_addr().unwrap().to_string();
        thread::spawn(move || {
            if let Ok((mut stream, _)) = silent.accept() {
                let _ = stream.write_all(b"220 smtp\n");
            }
        });
        let error = measure(&options(vec![address]), "token-four").unwrap_err().to_string();
        assert!(error.contains("is not an `ashlar bench net --listen`"), "{error}");

        let token = Token::new("token-four").unwrap();
        let control = |id: u64| -> Result<Member> {
            let asks = wire::dial(&nodes[0], &token, Role::Control)?;
            let answers = BufReader::new(asks.try_clone().unwrap());
            let mut member = Member::Listener { name: "n".into(), asks, answers };
            let shape = Shape { warmup_s: 0.0, duration_s: 1.0, block: 4096 };
            member.ask(&Ask::Join { session: id, name: "n".into(), shape })?;
            Ok(member)
        };
        let first = control(1).unwrap();
        assert!(control(2).err().unwrap().to_string().contains("another session"));
        drop(first);
        // The session ended with its connection.
        let freed = (0..50).any(|_| {
            thread::sleep(Duration::from_millis(20));
            control(3).is_ok()
        });
        assert!(freed);
    });
}

#[test]
fn interruption_ends_the_phase() {
    with_nodes(1, "token-five", |nodes| {
        let mut long = options(nodes);
        long.shape.duration_s = 60.0;
        let stop = AtomicBool::new(false);
        let mut run = Run::default();
        let start = Instant::now();
        thread::scope(|scope| {
            scope.spawn(|| {
                thread::sleep(Duration::from_millis(600));
                stop.store(true, Ordering::SeqCst);
            });
            super::run(&long, &Token::new("token-five").unwrap(), &mut run, &stop, &|_| {}).unwrap();
        });
        assert!(run.phases.is_empty() && start.elapsed() < Duration::from_secs(10));
    });
}

#[test]
fn invalid_options_are_refused() {
    let bad = |options: Options| {
        let mut run = Run::default();
        let token = Token::new("token-six").unwrap();
        let error = super::run(&options, &token, &mut run, &AtomicBool::new(false), &|_| {}).unwrap_err();
        assert!(matches!(error, Error::Usage(_)), "{error}");
    };
    let one = || options(vec!["127.0.0.1:1".into()]);
    bad(options(vec![]));
    bad(options(vec!["127.0.0.1:1".into(), "127.0.0.1:1".into()]));
    bad(Options { all_pairs: true, ..one() });
    bad(Options { streams: 0, ..one() });
    bad(Options { streams: 5000, ..one() });
    bad(Options { shape: Shape { duration_s: 0.0, ..one().shape }, ..one() });
    bad(Options { shape: Shape { block: 1, ..one().shape }, ..one() });
    assert!(Token::new("short").is_err());
    assert!(Token::random().unwrap().text().len() >= 16);
}
