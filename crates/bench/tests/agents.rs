//! Agents: exact merging, the shared secret, loss of an agent.

#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "tests run in real time")]

mod common;

use std::{
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use ashlar_bench::{
    agent::{Coordinator, Listener, serve},
    load::{Job, Mode, RunContext, Silent, Stop, drive},
};
use ashlar_bench_report::result::Run;
use common::{Server, job};

struct Agents {
    names: Vec<String>,
    end: Arc<AtomicBool>,
}

impl Agents {
    fn start(n: usize, token: &str) -> Agents {
        let end = Arc::new(AtomicBool::new(false));
        let names = (0..n)
            .map(|_| {
                let listener = Listener::bind("127.0.0.1:0", token).unwrap();
                let name = listener.address().unwrap().to_string();
                let end = end.clone();
                thread::spawn(move || serve(&listener, &end, &mut |_| {}));
                name
            })
            .collect();
        Agents { names, end }
    }
}

impl Drop for Agents {
    fn drop(&mut self) {
        self.end.store(true, Ordering::Relaxed);
    }
}

fn measure(job: &Job, agents: &[String], token: &str) -> Run {
    let mut coordinator = Coordinator::connect(agents, token, job.clone()).unwrap();
    let interrupt = AtomicBool::new(false);
    let around = RunContext {
        server: None,
        host: None,
        agents: agents.to_vec(),
        command: vec![],
        name: None,
        interrupt: &interrupt,
    };
    drive(job, &mut coordinator, &mut Silent, &around).unwrap()
}

#[test]
fn results_of_agents_add_up_exactly() {
    let server = Server::plain();
    let agents = Agents::start(3, "secret");
    let job = Job { stop: Stop { count: Some(1000), ..Stop::default() }, ..job(&server, Mode::Get) };
    let run = measure(&job, &agents.names, "secret");
    let get = &run.phases[0].operations[0];
    assert_eq!((get.count, get.bytes, get.verified_bytes), (1000, 1_000_000, 1_000_000));
    assert_eq!(get.service.count, 1000);
    assert_eq!(get.timeline.points.iter().map(|p| p.count).sum::<u64>(), 1000);
    let shares: Vec<u64> = agents.names.iter().map(|name| get.by[&format!("agent {name}")].count).collect();
    assert_eq!(shares, [334, 333, 333]);
    // Bucket by bucket, the whole is the sum of the agents.
    let mut sum = std::collections::BTreeMap::new();
    for share in get.by.values() {
        share.service.buckets.iter().for_each(|(ns, n)| *sum.entry(*ns).or_insert(0) += n);
    }
    assert_eq!(sum.into_iter().collect::<Vec<_>>(), get.service.buckets);
    assert_eq!(server.keys("bench"), None, "the bucket of the run is gone");
    let cores = run.phases[0].cost.as_ref().and_then(|c| c.client.as_ref());
    assert!(cores.is_some());
}

#[test]
fn coordinators_without_the_token_are_refused() {
    let server = Server::plain();
    let agents = Agents::start(1, "secret");
    let job = job(&server, Mode::Get);
    let why = |names: &[String], token| match Coordinator::connect(names, token, job.clone()) {
        Ok(_) => panic!("connected"),
        Err(error) => error.to_string(),
    };
    assert!(why(&agents.names, "guess").contains("wrong token"));
    assert!(why(&["127.0.0.1:1".into()], "secret").contains("127.0.0.1:1"));
    assert_eq!(server.keys("bench"), None);
}

/// A way to an agent that can be cut.
fn wire_to(name: &str) -> (String, Arc<AtomicBool>) {
    let socket = TcpListener::bind("127.0.0.1:0").unwrap();
    let ours = socket.local_addr().unwrap().to_string();
    let (name, cut) = (name.to_owned(), Arc::new(AtomicBool::new(false)));
    let flag = cut.clone();
    thread::spawn(move || {
        let (near, _) = socket.accept().unwrap();
        let far = TcpStream::connect(name).unwrap();
        let pump = |mut from: TcpStream, mut to: TcpStream| {
            thread::spawn(move || {
                let mut buffer = [0; 4096];
                while let Ok(n @ 1..) = from.read(&mut buffer) {
                    if to.write_all(&buffer[..n]).is_err() {
                        break;
                    }
                }
            })
        };
        pump(near.try_clone().unwrap(), far.try_clone().unwrap());
        pump(far.try_clone().unwrap(), near.try_clone().unwrap());
        while !flag.load(Ordering::Relaxed) {
            thread::sleep(Duration::from_millis(10));
        }
        let _ = (near.shutdown(std::net::Shutdown::Both), far.shutdown(std::net::Shutdown::Both));
    });
    (ours, cut)
}

#[test]
fn lost_agent_is_reported_and_others_continue() {
    let server = Server::start(Box::new(|request, _| {
        if request.method == "GET" {
            thread::sleep(Duration::from_millis(2));
        }
        None
    }));
    let agents = Agents::start(2, "secret");
    let (detour, cut) = wire_to(&agents.names[1]);
    let names = [agents.names[0].clone(), detour];
    let job = Job { stop: Stop { seconds: Some(3.0), ..Stop::default() }, ..job(&server, Mode::Get) };
    let cutter = thread::spawn(move || {
        thread::sleep(Duration::from_millis(1500));
        cut.store(true, Ordering::Relaxed);
    });
    let run = measure(&job, &names, "secret");
    cutter.join().unwrap();
    let lost = run.caveats.iter().find(|c| c.code == "lost-agent").expect("reported");
    assert!(lost.text.contains(&names[1]), "{}", lost.text);
    let get = &run.phases[0].operations[0];
    let count = |name: &String| get.by[&format!("agent {name}")].count;
    assert!(run.phases[0].stopped_by == "time" && run.phases[0].seconds >= 2.9);
    assert!(count(&names[1]) > 0 && count(&names[0]) > count(&names[1]));
    assert_eq!(count(&names[0]) + count(&names[1]), get.count);
    assert_eq!(server.keys("bench"), None, "also what the lost agent wrote is gone");
}
