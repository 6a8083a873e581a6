//! MD5 in lanes against the `md-5` crate: many streams, odd chunks, cancelled waits, dropped
//! streams, and sleep when there is nothing to do.

#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "tests run in real time")]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use ashlar_checksum::{Md5Lanes, Tuning, md5_once};
use bytes::Bytes;
use md5::Digest;
use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;

/// A hang is a failure, not a slow test.
const LIMIT: Duration = Duration::from_secs(60);

/// A small generator (xorshift64*), so that a seed names a run.
#[derive(Clone)]
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }
}

fn runtime() -> Runtime {
    Builder::new_multi_thread().worker_threads(3).enable_all().build().expect("a runtime")
}

fn noise(len: usize) -> Bytes {
    let mut random = Random(0x5eed);
    (0..len.div_ceil(8)).flat_map(|_| random.next().to_le_bytes()).take(len).collect()
}

fn reference(data: &[u8]) -> [u8; 16] {
    md5::Md5::digest(data).into()
}

/// A chunk length of one of several kinds: tiny, around blocks, small, around a lane's worth, big.
fn chunk_len(random: &mut Random) -> usize {
    match random.below(10) {
        0 => random.below(4),
        1 => 63 + random.below(3),
        2..=4 => random.below(1500),
        5..=7 => random.below(40_000),
        8 => 65_535 + random.below(3),
        _ => random.below(400_000),
    }
}

/// One upload of random chunks with random waits, some cancelled; some uploads are given up.
async fn upload(lanes: Md5Lanes, noise: Bytes, seed: u64) {
    let mut random = Random(seed);
    let mut stream = lanes.stream();
    let mut expected = md5::Md5::new();
    let pause = Duration::from_micros(random.below(400) as u64);
    for _ in 0..random.below(24) {
        let len = chunk_len(&mut random);
        let start = random.below(noise.len() - len);
        let chunk = noise.slice(start..start + len);
        expected.update(&chunk);
        stream.update(chunk);
        match random.below(8) {
            0 => stream.drained(0).await,
            1 | 2 => stream.drained(100_000).await,
            3 => tokio::select! {
                biased;
                () = stream.drained(random.below(1000)) => {}
                () = tokio::task::yield_now() => {}
            },
            4 => tokio::select! {
                () = stream.drained(0) => assert_eq!(stream.queued(), 0, "seed {seed}"),
                () = tokio::time::sleep(pause) => {}
            },
            5 => tokio::time::sleep(pause).await,
            6 => tokio::task::yield_now().await,
            _ => {}
        }
        if random.below(300) == 0 {
            return;
        }
    }
    let digest: [u8; 16] = expected.finalize().into();
    assert_eq!(stream.finish().await, digest, "seed {seed}");
}

fn stress(tuning: Tuning, tasks: u64, rounds: u64, base: u64) {
    let noise = noise(1 << 20);
    runtime().block_on(async {
        let lanes = Md5Lanes::with_tuning(tuning);
        let tasks: Vec<_> = (0..tasks)
            .map(|task| {
                let (lanes, noise) = (lanes.clone(), noise.clone());
                tokio::spawn(async move {
                    for round in 0..rounds {
                        upload(lanes.clone(), noise.clone(), base + task * 1000 + round + 1).await;
                    }
                })
            })
            .collect();
        for task in tasks {
            timeout(LIMIT, task).await.expect("a stream hangs").expect("a task fails");
        }
    });
}

#[test]
fn hundreds_of_streams_on_one_worker() {
    stress(Tuning { workers: 1, ..Tuning::default() }, 300, 2, 1_000_000);
}

#[test]
fn hundreds_of_streams_on_several_workers() {
    let gather = Duration::from_micros(200);
    stress(Tuning { workers: 3, gather, ..Tuning::default() }, 200, 3, 2_000_000);
}

#[test]
fn few_streams_on_several_workers_hand_over() {
    let gather = Duration::from_micros(50);
    stress(Tuning { workers: 3, gather, ..Tuning::default() }, 20, 20, 3_000_000);
}

#[test]
fn streams_without_waiting_for_others() {
    let tuning = Tuning { workers: 2, gather: Duration::ZERO, decline: 0, ..Tuning::default() };
    stress(tuning, 40, 10, 4_000_000);
}

#[test]
fn a_lone_stream_and_an_empty_one() {
    let noise = noise(3_000_001);
    runtime().block_on(async {
        let lanes = Md5Lanes::new();
        let mut stream = lanes.stream();
        stream.update(noise.clone());
        stream.drained(0).await;
        assert_eq!(stream.queued(), 0);
        assert_eq!(stream.finish().await, reference(&noise));
        assert_eq!(lanes.stream().finish().await, reference(b""));
        assert_eq!(md5_once(&noise), reference(&noise));
        let stats = lanes.stats();
        assert_eq!(stats.bytes, 3_000_000 / 64 * 64, "the lane took the whole blocks");
    });
}

/// Streams fed without end do not keep others out of the lanes.
#[test]
fn more_streams_than_lanes_all_advance() {
    let noise = noise(1 << 18);
    runtime().block_on(async {
        let lanes = Md5Lanes::with_tuning(Tuning { workers: 1, ..Tuning::default() });
        let finished = Arc::new(AtomicUsize::new(0));
        let greedy: Vec<_> = (0..20)
            .map(|_| {
                let (lanes, noise, finished) = (lanes.clone(), noise.clone(), finished.clone());
                tokio::spawn(async move {
                    let mut stream = lanes.stream();
                    while finished.load(Ordering::Relaxed) < 4 {
                        stream.update(noise.clone());
                        stream.drained(2 * noise.len()).await;
                    }
                })
            })
            .collect();
        for _ in 0..4 {
            let mut stream = lanes.stream();
            stream.update(noise.clone());
            let digest = timeout(LIMIT, stream.finish()).await.expect("starved");
            assert_eq!(digest, reference(&noise));
            finished.fetch_add(1, Ordering::Relaxed);
        }
        for task in greedy {
            timeout(LIMIT, task).await.expect("a stream hangs").expect("a task fails");
        }
    });
}

/// Bytes that count their owners.
struct Counted(Vec<u8>, Arc<AtomicUsize>);

impl AsRef<[u8]> for Counted {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.1.fetch_sub(1, Ordering::Relaxed);
    }
}

#[test]
fn a_dropped_stream_lets_go_of_its_chunks() {
    runtime().block_on(async {
        let lanes = Md5Lanes::new();
        let held = Arc::new(AtomicUsize::new(0));
        for round in 0..20 {
            let mut stream = lanes.stream();
            for _ in 0..20 {
                held.fetch_add(1, Ordering::Relaxed);
                stream.update(Bytes::from_owner(Counted(vec![1; 200_000], held.clone())));
            }
            if round % 2 == 0 {
                stream.drained(3_900_000).await;
            }
            drop(stream);
        }
        for _ in 0..1000 {
            if held.load(Ordering::Relaxed) == 0 {
                return;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        panic!("{} chunks are still held", held.load(Ordering::Relaxed));
    });
}

/// With nothing to hash, workers wake for nothing, even while streams are open.
#[test]
fn idle_workers_sleep() {
    let noise = noise(200_000);
    runtime().block_on(async {
        let lanes = Md5Lanes::new();
        let mut streams: Vec<_> = (0..5).map(|_| lanes.stream()).collect();
        for stream in &mut streams {
            stream.update(noise.clone());
        }
        for stream in &mut streams {
            stream.drained(0).await;
        }
        // Longer than a worker expects a stream back.
        tokio::time::sleep(Duration::from_millis(100)).await;
        let before = lanes.stats();
        tokio::time::sleep(Duration::from_millis(100)).await;
        assert_eq!(lanes.stats(), before);
        for stream in streams {
            assert_eq!(stream.finish().await, reference(&noise));
        }
    });
}
