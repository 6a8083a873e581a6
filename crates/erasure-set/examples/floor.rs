//! What the unavoidable parts of a request cost on this machine: `floor FOLDER [SIZE ...]`.
//!
//! Prints a JSON object for each size, with the CPU of each part in microseconds per request (user and system): of a PUT, receiving the
//! body from a socket and answering, the SHA-256 that the client signs, MD5 (large bodies: in full lanes; short ones alone), one copy,
//! the parity of 2+2, and writing four shards to files in FOLDER with a flush of each; of a GET, reading two shards and sending them.
//! Eight connections to one thread, so that it sleeps as rarely as a busy server. A flush is counted once for the requests of all eight connections. `frame_hash` is
//! what checksums of all four shards cost; it is ours, no client asks for it, so it is no part of the floor.
//!
//! tests/speed/floor.py prints it beside what a server takes in the same run.

#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "it runs in real time")]

use std::hint::black_box;
use std::io::{Read as _, Write as _};
use std::path::Path;
use std::time::{Duration, Instant};

use ashlar_checksum::{INLINE_BELOW, Md5Lanes, frame_hashes, md5_once, sha256};
use ashlar_engine::{Code, encode_stripe};
use ashlar_machine::{Buf, BufferPool};
use bytes::Bytes;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;
/// Connections at once.
const FLIGHT: usize = 8;
/// Data and parity shards.
const K: usize = 2;
const N: usize = 4;
/// Bytes of a stripe at most.
const STRIPE: usize = MIB;
/// Bytes of the head of a request, and of an answer.
const HEAD: usize = 700;
/// How long a part is measured.
const TIME: Duration = Duration::from_millis(700);

/// Microseconds of CPU of this process so far, in ticks of the clock.
fn cpu() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").expect("proc");
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or("").split_whitespace().collect();
    (fields[11].parse::<f64>().expect("a number") + fields[12].parse::<f64>().expect("a number")) * 10_000.0
}

/// Microseconds on a processor of this thread so far.
fn thread_cpu() -> f64 {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").expect("schedstat");
    stat.split_whitespace().next().and_then(|n| n.parse::<f64>().ok()).expect("a number") / 1000.0
}

/// Microseconds of this thread for one call.
fn each(mut call: impl FnMut()) -> f64 {
    call();
    let (began, before, mut calls) = (Instant::now(), thread_cpu(), 0u32);
    while began.elapsed() < TIME {
        call();
        calls += 1;
    }
    (thread_cpu() - before) / f64::from(calls)
}

/// Microseconds of the serving thread for a request: it receives `up` bytes behind a head, and answers with a head and `down` bytes.
fn socket(up: usize, down: usize) -> f64 {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    let clients: Vec<_> = (0..FLIGHT)
        .map(|_| {
            std::thread::spawn(move || {
                let mut stream = std::net::TcpStream::connect(address).expect("the server");
                stream.set_nodelay(true).expect("an option");
                let (request, mut answer) = (vec![1; HEAD + up], vec![0; 256 * KIB]);
                // Until the server ends the connection.
                while stream.write_all(&request).is_ok() {
                    let mut left = HEAD + down;
                    while left > 0 {
                        match stream.read(&mut answer[..left.min(256 * KIB)]) {
                            Ok(n) if n > 0 => left -= n,
                            _ => return,
                        }
                    }
                }
            })
        })
        .collect();
    let streams: Vec<_> = (0..FLIGHT).map(|_| listener.accept().expect("a client").0).collect();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let per = runtime.block_on(async {
        let (before, until) = (thread_cpu(), Instant::now() + TIME);
        let tasks: Vec<_> =
            streams.into_iter().map(|stream| tokio::spawn(serve(stream, up, down, until))).collect();
        let mut served = 0;
        for task in tasks {
            served += task.await.expect("a task");
        }
        (thread_cpu() - before) / served as f64
    });
    clients.into_iter().for_each(|client| client.join().expect("a client"));
    per
}

/// Serves one connection for a while. How many requests.
async fn serve(stream: std::net::TcpStream, up: usize, down: usize, until: Instant) -> usize {
    stream.set_nodelay(true).expect("an option");
    stream.set_nonblocking(true).expect("an option");
    let mut stream = tokio::net::TcpStream::from_std(stream).expect("a stream");
    let (mut buffer, answer) = (vec![0; 256 * KIB], vec![2; HEAD + down]);
    let mut served = 0;
    while Instant::now() < until {
        let mut left = HEAD + up;
        while left > 0 {
            let room = left.min(buffer.len());
            left -= stream.read(&mut buffer[..room]).await.expect("a request");
        }
        stream.write_all(&answer).await.expect("a client");
        served += 1;
    }
    served
}

/// Microseconds of the process for the MD5 of a body: long ones with sixteen beside it, so that all lanes are full.
fn md5(size: usize) -> f64 {
    let body = Bytes::from(vec![3; size]);
    if size < INLINE_BELOW {
        return each(|| {
            black_box(md5_once(&body));
        });
    }
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    let lanes = Md5Lanes::new();
    let streams = 32;
    let rounds = (256 * MIB / size / streams).max(1);
    let before = cpu();
    for _ in 0..rounds {
        let mut all: Vec<_> = (0..streams).map(|_| lanes.stream()).collect();
        for stream in &mut all {
            stream.update(body.clone());
        }
        for mut stream in all {
            runtime.block_on(stream.drained(0));
        }
    }
    (cpu() - before) / (rounds * streams) as f64
}

/// Microseconds for the parity of a body, and for the checksums of its shards.
fn code(size: usize) -> (f64, f64) {
    let stripe = size.min(STRIPE);
    let row = stripe.div_ceil(K);
    let code = Code::new(K, N - K).expect("a code");
    let mut bytes = vec![5; row * N];
    let stripes = size as f64 / stripe as f64;
    let parity = each(|| encode_stripe(&code, black_box(&mut bytes), row).expect("a stripe"));
    let hashes = each(|| {
        let items: Vec<_> = bytes.chunks_exact(row).map(|row| ([0; 32], row)).collect();
        frame_hashes(&[1, 2, 3, 4], black_box(&items), &mut [[0; 32]; N]);
    });
    (parity * stripes, hashes * stripes)
}

/// Microseconds to write a body's four shards with a flush of each for the requests of all connections, and to read two of them.
fn files(folder: &Path, size: usize) -> (f64, f64) {
    let shard = size.div_ceil(K).next_multiple_of(4096);
    let piece = shard.min(STRIPE / K);
    let direct = piece >= 64 * KIB;
    let home = ashlar_machine::Folder::real(folder, None);
    let names: Vec<String> = (0..N).map(|n| format!("floor-{}-{n}", std::process::id())).collect();
    let pool = BufferPool::new(16 * MIB);
    let mut buffer: Buf = pool.try_get(piece).expect("memory");
    let files: Vec<_> = names.iter().map(|name| home.create(name, direct).expect("a file")).collect();
    // Places that were written before, as segments of a drive are that are used again.
    let places = (32 * MIB / shard).max(FLIGHT * 2) as u64;
    let (write, flush) = (
        |at: u64, buffer: &Buf| {
            for file in &files {
                for part in (0..shard as u64).step_by(piece) {
                    file.write_at(&buffer[..piece], at * shard as u64 + part).expect("a write");
                }
            }
        },
        || files.iter().for_each(|file| file.sync_data().expect("a flush")),
    );
    (0..places).for_each(|at| write(at, &buffer));
    flush();
    let mut at = 0;
    let written = each(|| {
        for _ in 0..FLIGHT {
            write(at % places, &buffer);
            at += 1;
        }
        flush();
    }) / FLIGHT as f64;
    let read = each(|| {
        for file in &files[..K] {
            for part in (0..shard as u64).step_by(piece) {
                file.read_at(&mut buffer[..piece], at % places * shard as u64 + part).expect("a read");
            }
        }
        at += 1;
    });
    names.iter().for_each(|name| std::fs::remove_file(folder.join(name)).expect("a file"));
    (written, read)
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let folder = arguments.next().expect("floor FOLDER [SIZE ...]");
    let mut sizes: Vec<usize> = arguments.map(|size| size.parse().expect("bytes")).collect();
    if sizes.is_empty() {
        sizes = vec![10 * MIB, MIB, 128 * KIB, 4 * KIB];
    }
    for size in sizes {
        let body = vec![7; size];
        let mut other = vec![0; size];
        let sha = each(|| {
            black_box(sha256(black_box(&body)));
        });
        let copy = each(|| black_box(&mut other).copy_from_slice(black_box(&body)));
        let (parity, frame_hash) = code(size);
        let (write, read) = files(Path::new(&folder), size);
        let (receive, send, md5) = (socket(size, 0), socket(0, size), md5(size));
        println!(
            "{{\"size\":{size},\"put\":{{\"socket\":{receive:.2},\"sha256\":{sha:.2},\"md5\":{md5:.2},\"copy\":{copy:.2},\
             \"parity\":{parity:.2},\"write\":{write:.2}}},\"get\":{{\"read\":{read:.2},\"socket\":{send:.2}}},\
             \"frame_hash\":{frame_hash:.2}}}"
        );
    }
}
