//! Measures the cost of the hashes on this machine.
//!
//! `cargo run --release -p ashlar-checksum --example checksum_speed [streams]`
//!
//! MD5 in lanes is measured under played uploads of 10 MiB: tasks on a two-thread runtime that copy
//! each chunk, as from a socket, queue it and keep at most one more chunk queued (1 MiB at least).
//! The figure is processor time, user and system, of the whole process per GiB, less that of the
//! same uploads without MD5. "Fast" uploads bring the next chunk at once, "paced" ones bring 1 MiB
//! every 4 ms, half to one and a half times that, as when the network or the drives set the pace.

#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "it runs in real time")]

use std::future::Future;
use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use ashlar_checksum::{
    Algorithm, Hasher, INLINE_BELOW, Md5Lanes, Sha256Stream, frame_hash, frame_hashes, hmac_sha256, key_hash,
    md5_kernel, md5_once, sha256,
};
use bytes::{Bytes, BytesMut};

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;
const GIB: f64 = (1u64 << 30) as f64;
const OBJECT: usize = 10 * MIB;
const FAST_UPLOADS: usize = 40;

/// Processor time of this process so far, user and system.
fn processor_time() -> Duration {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::uninit();
    // SAFETY: getrusage fills the structure that it is given, and cannot fail for RUSAGE_SELF.
    let usage = unsafe {
        libc::getrusage(libc::RUSAGE_SELF, usage.as_mut_ptr());
        usage.assume_init()
    };
    let time =
        |t: libc::timeval| Duration::from_secs(t.tv_sec as u64) + Duration::from_micros(t.tv_usec as u64);
    time(usage.ru_utime) + time(usage.ru_stime)
}

/// A source of chunks that reuses its buffers, as a server does.
struct Socket {
    content: Bytes,
    free: Vec<BytesMut>,
    sent: Vec<Bytes>,
}

impl Socket {
    fn new(chunk: usize) -> Socket {
        Socket { content: Bytes::from(vec![5; chunk]), free: Vec::new(), sent: Vec::new() }
    }

    /// The next chunk, copied into a buffer that no earlier chunk uses any more.
    fn receive(&mut self) -> Bytes {
        for chunk in std::mem::take(&mut self.sent) {
            match chunk.try_into_mut() {
                Ok(buffer) => self.free.push(buffer),
                Err(chunk) => self.sent.push(chunk),
            }
        }
        let mut buffer = self.free.pop().unwrap_or_default();
        buffer.clear();
        buffer.extend_from_slice(&self.content);
        let chunk = buffer.freeze();
        self.sent.push(chunk.clone());
        chunk
    }
}

/// How uploads are played.
#[derive(Clone, Copy)]
struct Load {
    streams: usize,
    chunk: usize,
    /// The mean time between the chunks of a stream.
    pace: Duration,
    uploads: usize,
}

async fn upload(lanes: Option<Md5Lanes>, load: Load, socket: &mut Socket, random: &mut u64) {
    let mut stream = lanes.map(|lanes| lanes.stream());
    for _ in 0..OBJECT / load.chunk {
        let chunk = socket.receive();
        if let Some(stream) = &mut stream {
            stream.update(chunk);
            stream.drained(load.chunk.max(MIB)).await;
        }
        if load.pace.is_zero() {
            tokio::task::yield_now().await;
        } else {
            *random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let factor = 0.5 + (*random >> 40) as f64 / (1u64 << 24) as f64;
            tokio::time::sleep(load.pace.mul_f64(factor)).await;
        }
    }
    if let Some(stream) = stream {
        black_box(stream.finish().await);
    }
}

/// Runs one task per stream; returns seconds of processor time and of the clock.
fn play<F>(streams: usize, task: impl Fn(u64) -> F) -> (f64, f64)
where
    F: Future<Output = ()> + Send + 'static,
{
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime");
    let (processor, clock) = (processor_time(), Instant::now());
    runtime.block_on(async {
        let tasks: Vec<_> = (0..streams as u64).map(|i| tokio::spawn(task(i))).collect();
        for task in tasks {
            task.await.expect("an upload");
        }
    });
    ((processor_time() - processor).as_secs_f64(), clock.elapsed().as_secs_f64())
}

fn uploads(load: Load) {
    let run = |lanes: Option<Md5Lanes>| {
        play(load.streams, |i| {
            let lanes = lanes.clone();
            async move {
                let (mut socket, mut random) = (Socket::new(load.chunk), i + 1);
                for _ in 0..load.uploads {
                    upload(lanes.clone(), load, &mut socket, &mut random).await;
                }
            }
        })
    };
    let gib = (load.uploads * load.streams * OBJECT) as f64 / GIB;
    let without = run(None).0 / gib;
    let lanes = Md5Lanes::new();
    let (with, clock) = run(Some(lanes.clone()));
    let stats = lanes.stats();
    println!(
        "{} {:2} streams, {:4} KiB chunks: {:.3} CPU-s/GiB, {:.2} GiB/s, {:4.1} lanes, {:4.0} runs/GiB, {:4.0} waits/GiB",
        if load.pace.is_zero() { "fast " } else { "paced" },
        load.streams,
        load.chunk / KIB,
        with / gib - without,
        gib / clock,
        stats.bytes as f64 / stats.lane_bytes.max(1) as f64,
        stats.runs as f64 / gib,
        stats.waits as f64 / gib,
    );
}

/// What streams at their own pace cost a fast one: its rate beside so many of them.
fn beside(paced: usize) {
    let lanes = Md5Lanes::new();
    let done = Arc::new(AtomicBool::new(false));
    let (_, seconds) = play(paced + 1, |i| {
        let (lanes, done) = (Some(lanes.clone()), done.clone());
        async move {
            let (mut socket, mut random) = (Socket::new(MIB / 4), i + 1);
            let pace = Duration::from_millis(if i == 0 { 0 } else { 1 });
            let load = Load { streams: 1, chunk: MIB / 4, pace, uploads: FAST_UPLOADS };
            for _ in 0..FAST_UPLOADS {
                if i > 0 && done.load(Ordering::Relaxed) {
                    break;
                }
                upload(lanes.clone(), load, &mut socket, &mut random).await;
            }
            done.fetch_or(i == 0, Ordering::Relaxed);
        }
    });
    let rate = (FAST_UPLOADS * OBJECT) as f64 / GIB / seconds;
    println!("a fast stream beside {paced} paced ones: {rate:.2} GiB/s");
}

/// Whole bodies in one chunk: hashed by the task itself, or by a stream.
fn bodies(streams: usize, size: usize) {
    let count = (256 * MIB / size / streams).max(1);
    let once = play(streams, |_| async move {
        let mut socket = Socket::new(size);
        for _ in 0..count {
            black_box(md5_once(&socket.receive()));
            tokio::task::yield_now().await;
        }
    });
    let lanes = Md5Lanes::new();
    let laned = play(streams, |_| {
        let lanes = lanes.clone();
        async move {
            let mut socket = Socket::new(size);
            for _ in 0..count {
                let mut stream = lanes.stream();
                stream.update(socket.receive());
                black_box(stream.finish().await);
            }
        }
    });
    let each = |seconds: f64| seconds * 1e6 / (count * streams) as f64;
    println!(
        "bodies of {:4} KiB, {streams} at a time: md5_once {:6.1} CPU-us, stream {:6.1} CPU-us",
        size / KIB,
        each(once.0),
        each(laned.0)
    );
}

/// SHA-256 of two bodies that come in turn.
fn pairs() {
    let data = Bytes::from(vec![7u8; MIB / 4]);
    for streams in [1, 2] {
        let start = processor_time();
        let count = 512 / streams;
        let mut all: Vec<Sha256Stream> = (0..streams).map(|_| Sha256Stream::new()).collect();
        for _ in 0..count {
            all.iter_mut().for_each(|stream| stream.update(&data));
        }
        let seconds = (processor_time() - start).as_secs_f64();
        let gib = (count * streams * data.len()) as f64 / GIB;
        println!("SHA-256 of {streams} bodies side by side: {:.3} CPU-s/GiB", seconds / gib);
    }
}

/// Place and content of a frame.
type Frame<'a> = ([u8; 32], &'a [u8]);

/// Checksums of frames: HighwayHash side by side, and CRC-64/NVME, which is what a checksum without a key costs.
fn frames() {
    let words = (0..(32 * MIB / 8) as u64).map(|i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let data: Vec<u8> = words.flat_map(u64::to_le_bytes).collect();
    // 32 MiB are more than the second-level cache of a core holds.
    let cases = [
        ("near", 256 * KIB, 16 * KIB),
        ("near", 256 * KIB, 64 * KIB),
        ("far", 32 * MIB, 64 * KIB),
        ("far", 32 * MIB, MIB / 2),
    ];
    for (name, all, size) in cases {
        let frames: Vec<Frame<'_>> = data[..all].chunks_exact(size).map(|f| ([1; 32], f)).collect();
        let rounds = 512 * MIB / all;
        let figure = |hash: &dyn Fn(&[Frame<'_>])| {
            let start = processor_time();
            (0..rounds).for_each(|_| hash(black_box(&frames)));
            (processor_time() - start).as_secs_f64() * GIB / (rounds * all) as f64
        };
        let highway = |side_by_side: usize| {
            figure(&|frames| {
                let mut out = [[0; 32]; 4];
                for some in frames.chunks(side_by_side) {
                    frame_hashes(&[1, 2, 3, 4], some, &mut out[..some.len()]);
                }
                black_box(out);
            })
        };
        let crc = figure(&|frames| {
            for (place, frame) in frames {
                let mut hasher = Hasher::new(Algorithm::Crc64Nvme);
                hasher.update(place);
                hasher.update(frame);
                black_box(hasher.finish());
            }
        });
        let kib = size / KIB;
        println!(
            "frames of {kib} KiB, {name}: HighwayHash of 1, 2, 4 {:.3}, {:.3}, {:.3}, CRC-64/NVME {crc:.3} CPU-s/GiB",
            highway(1),
            highway(2),
            highway(4)
        );
    }
}

/// Hashes of frames, one after the other and side by side.
fn rows() {
    let data = vec![7u8; MIB / 2];
    for rows in [1, 2, 4] {
        let items = vec![([1u8; 32], &data[..]); rows];
        let mut out = vec![[0; 32]; rows];
        let (start, count) = (processor_time(), 2048 / rows);
        for _ in 0..count {
            frame_hashes(&[1, 2, 3, 4], black_box(&items), &mut out);
        }
        let seconds = (processor_time() - start).as_secs_f64();
        let gib = (count * rows * data.len()) as f64 / GIB;
        println!("HighwayHash of {rows} frames side by side: {:.3} CPU-s/GiB", seconds / gib);
    }
}

fn rate(name: &str, size: usize, function: impl Fn(&[u8])) {
    let data = vec![7u8; size];
    let (start, mut calls) = (Instant::now(), 0);
    while start.elapsed() < Duration::from_millis(200) {
        for _ in 0..1 + MIB / 8 / size {
            function(&data);
            calls += 1;
        }
    }
    let seconds = start.elapsed().as_secs_f64();
    let bytes = (calls * size) as f64;
    println!(
        "{name:16} {size:8} bytes: {:6.2} GB/s, {:.3} s/GiB, {:8.0} ns each",
        bytes / seconds / 1e9,
        seconds * GIB / bytes,
        seconds * 1e9 / f64::from(calls as u32)
    );
}

fn main() {
    let only = std::env::args().nth(1).and_then(|arg| arg.parse::<usize>().ok());
    println!("MD5 lanes: {}; INLINE_BELOW {} KiB", md5_kernel(), INLINE_BELOW / KIB);
    for pace in [Duration::ZERO, Duration::from_millis(4)] {
        for chunk in [MIB, MIB / 4] {
            for streams in [1, 2, 4, 8, 16] {
                if only.is_none_or(|only| only == streams) {
                    let uploads = if pace.is_zero() { (100 / streams).max(10) } else { 10 };
                    let pace = pace.mul_f64(chunk as f64 / MIB as f64);
                    self::uploads(Load { streams, chunk, pace, uploads });
                }
            }
        }
    }
    // About what each of eight uploads brings to a server on two cores.
    let pace = Duration::from_millis(6);
    for streams in [2, 8] {
        if only.is_none_or(|only| only == streams) {
            uploads(Load { streams, chunk: MIB / 4, pace, uploads: 10 });
        }
    }
    pairs();
    rows();
    frames();
    for paced in [0, 1, 3] {
        beside(paced);
    }
    for size in [16, 32, 64, 128, 256] {
        for streams in [1, 8] {
            bodies(streams, size * KIB);
        }
    }
    let key = [1, 2, 3, 4];
    for size in [64, 4 * KIB, 128 * KIB] {
        rate("md5_once", size, |data| {
            black_box(md5_once(data));
        });
        rate("frame_hash", size, |data| {
            black_box(frame_hash(&key, &[data]));
        });
        rate("key_hash", size, |data| {
            black_box(key_hash(data));
        });
        rate("sha256", size, |data| {
            black_box(sha256(data));
        });
        rate("hmac_sha256", size, |data| {
            black_box(hmac_sha256(b"a key of thirty-two bytes ......", data));
        });
        for algorithm in Algorithm::ALL {
            rate(algorithm.name(), size, |data| {
                let mut hasher = Hasher::new(algorithm);
                hasher.update(data);
                black_box(hasher.finish());
            });
        }
    }
}
