//! Tests: a simulation is repeatable, its clock is virtual, and it affects only its own thread.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

use crate::simulation::{self, Simulation};
use crate::time::{self, Clock, Instant, ManualClock, SystemClock};
use crate::{HashSet, random, spawn, spawn_blocking, task, thread};

const HOUR: Duration = Duration::from_secs(3600);

/// Tasks that draw random numbers, sleep and race; returns what they observed.
async fn history() -> Vec<(usize, u64, Duration)> {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let began = Instant::now();
    let tasks: Vec<_> = (0..8)
        .map(|n| {
            let seen = seen.clone();
            spawn("racer", async move {
                for _ in 0..20 {
                    let drawn = random::u64().unwrap();
                    time::sleep(Duration::from_micros(drawn % 50)).await;
                    tokio::task::yield_now().await;
                    seen.lock().push((n, drawn, began.elapsed()));
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    seen.lock().clone()
}

#[test]
fn same_seed_repeats_and_another_differs() {
    let run = |seed| {
        let simulation = Simulation::new(seed);
        let seen = simulation.run(history()).unwrap();
        (seen, simulation.fingerprint(), simulation.steps())
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1).0, run(2).0);
    assert_ne!(run(1).1, run(2).1);
}

#[test]
fn simulations_in_threads_are_independent() {
    let alone = Simulation::new(7).run(history()).unwrap();
    let all: Vec<_> =
        (0..4).map(|_| std::thread::spawn(|| Simulation::new(7).run(history()).unwrap())).collect();
    let real = std::thread::spawn(|| {
        let mut bytes = [[0; 16]; 2];
        bytes.iter_mut().for_each(|b| random::fill(b).unwrap());
        (simulation::is_running(), bytes[0] == bytes[1])
    });
    for thread in all {
        assert_eq!(thread.join().unwrap(), alone);
    }
    assert_eq!(real.join().unwrap(), (false, false));
}

#[test]
fn clock_is_virtual() {
    let real = std::time::Instant::now();
    let simulation = Simulation::new(3);
    simulation
        .run(async {
            let (began, wall) = (Instant::now(), time::wall_ms());
            time::sleep(HOUR).await;
            assert!(began.elapsed() >= HOUR && began.elapsed() < HOUR + Duration::from_millis(1));
            assert_eq!(time::wall_ms() - wall, 3_600_000);

            let late = time::timeout(HOUR, time::sleep(2 * HOUR)).await;
            assert!(late.is_err(), "the timeout is the earlier of the two");
            assert_eq!(time::timeout(HOUR, async { 5 }).await.unwrap(), 5);
            assert!(time::timeout_at(began, std::future::pending::<()>()).await.is_err());

            let mut sleep = Box::pin(time::sleep(Duration::from_secs(1)));
            let before = Instant::now();
            sleep.as_mut().reset(before + HOUR);
            sleep.await;
            assert!(before.elapsed() >= HOUR);

            let before = Instant::now();
            thread::sleep(HOUR);
            assert!(before.elapsed() >= HOUR, "a thread's sleep moves the clock");

            let (before, mut interval) = (Instant::now(), time::interval(HOUR));
            for _ in 0..3 {
                interval.tick().await;
            }
            assert!(before.elapsed() >= 2 * HOUR && before.elapsed() < 3 * HOUR, "the first tick is at once");
        })
        .unwrap();
    assert!(simulation.elapsed() > 5 * HOUR && real.elapsed() < HOUR);
    assert!(Instant::now().into_std() < real + HOUR, "the thread is back in real time");
}

#[test]
fn time_is_real_outside_of_simulation() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(async {
        let began = std::time::Instant::now();
        time::sleep(Duration::from_millis(5)).await;
        assert!(began.elapsed() >= Duration::from_millis(5));
        assert!(time::timeout(Duration::from_millis(5), std::future::pending::<()>()).await.is_err());
        let mut interval = time::interval(Duration::from_millis(2));
        interval.tick().await;
        interval.tick().await;
        assert!(began.elapsed() >= Duration::from_millis(12));
        let error = spawn("fails", async { panic!("on purpose") }).await;
        assert!(matches!(error, Err(task::JoinError::Panicked(_))), "{error:?}");
        assert_eq!(spawn_blocking("adds", || 1 + 1).await.unwrap(), 2);
    });
}

#[test]
fn tasks_are_aborted_and_processes_killed() {
    let simulation = Simulation::new(5);
    simulation
        .run(async {
            let forever = spawn("forever", std::future::pending::<()>());
            assert!(!forever.is_finished());
            forever.abort();
            assert!(forever.is_finished());
            assert_eq!(forever.await, Err(task::JoinError::Aborted));
            assert_eq!(spawn_blocking("adds", || 1 + 1).await.unwrap(), 2);

            let ticks = Arc::new(AtomicU64::new(0));
            let node = simulation::new_process();
            let counted = ticks.clone();
            let parent = simulation::spawn_in(node, "parent", async move {
                let child = spawn("child", async move {
                    assert_eq!(simulation::process(), node, "children belong to the process of their parent");
                    loop {
                        time::sleep(Duration::from_secs(1)).await;
                        counted.fetch_add(1, Ordering::Relaxed);
                    }
                });
                child.await
            });
            time::sleep(Duration::from_millis(3500)).await;
            assert_eq!(ticks.load(Ordering::Relaxed), 3);
            simulation::kill(node);
            time::sleep(HOUR).await;
            assert_eq!((ticks.load(Ordering::Relaxed), Arc::strong_count(&ticks)), (3, 1));
            assert_eq!(parent.await, Err(task::JoinError::Aborted));
            let after = simulation::spawn_in(node, "late", async {});
            assert_eq!(after.await, Err(task::JoinError::Aborted), "the dead spawn nothing");
        })
        .unwrap();
}

#[test]
fn wall_clocks_jump_per_process() {
    let simulation = Simulation::new(6);
    simulation
        .run(async {
            let node = simulation::new_process();
            simulation::set_wall_ahead(node, -60_000);
            let here = time::wall_ms();
            let there = simulation::spawn_in(node, "node", async { time::wall_ms() }).await.unwrap();
            assert!((here - there - 60_000).abs() <= 1);
        })
        .unwrap();
}

#[test]
fn stuck_tasks_are_named() {
    let simulation = Simulation::new(8);
    let stuck = simulation.run(std::future::pending::<()>()).unwrap_err();
    assert_eq!(stuck.to_string(), "no task can go on; not over: main (0)");
    let simulation = Simulation::new(8).with_limit(1000);
    let busy = async {
        loop {
            tokio::task::yield_now().await;
        }
    };
    assert_eq!(simulation.run::<()>(busy).unwrap_err().why, "the limit of steps is reached");
    assert_eq!(simulation.steps(), 1000);
}

#[test]
fn simulation_has_one_thread_and_no_network() {
    Simulation::new(9)
        .run(async {
            assert!(thread::start("worker", None, || ()).is_err());
            assert!(crate::net::bind("127.0.0.1:0").await.is_err());
            assert!(crate::net::connect("127.0.0.1:1").await.is_err());
            assert_eq!(crate::process::variable("PATH"), None);
            let (send, receive) = tokio::sync::oneshot::channel();
            thread::run_apart("work", move || send.send(5).unwrap()).unwrap();
            assert_eq!(receive.await, Ok(5));
        })
        .unwrap();
}

#[test]
fn maps_have_repeatable_order_in_simulation() {
    let order = || {
        let set: HashSet<u32> = (0..100).collect();
        set.into_iter().collect::<Vec<_>>()
    };
    let run = || Simulation::new(1).run(async move { order() }).unwrap();
    assert_eq!(run(), run());
    assert_ne!(order(), order(), "outside it is random: 1 in 100! that this fails");
}

#[test]
fn clocks_as_parameters() {
    let manual = ManualClock::default();
    manual.advance(Duration::from_millis(1500));
    assert_eq!((manual.wall_ms(), manual.elapsed()), (1500, Duration::from_millis(1500)));
    let system = SystemClock::default();
    assert!(system.wall_ms() > 1_600_000_000_000 && system.elapsed() < Duration::from_secs(60));
    Simulation::new(2)
        .run(async {
            let system = SystemClock::default();
            time::sleep(HOUR).await;
            assert!(system.elapsed() >= HOUR, "the system's clock is the virtual one");
        })
        .unwrap();
}
