//! The load: a fixed number of requests in flight, each answered before the next is sent.
//!
//! Invariants: every request is counted once, in the phase in which it began; a phase ends with its last
//! answer; keys are never written twice, so every PUT creates a new object.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use ashlar_client::{Call, Client, Identifier, Method, Payload, Target};
use bytes::Bytes;
use futures::{StreamExt, TryStreamExt, stream::FuturesUnordered};
use hdrhistogram::Histogram;

use super::{options::Options, process::Process};
use crate::{outcome::Outcome, size::Size};

/// The operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub enum Verb {
    /// Write new objects.
    #[serde(rename = "PUT")]
    Put,
    /// Read them in random order.
    #[serde(rename = "GET")]
    Get,
}

/// The objects of one size.
pub struct Objects {
    prefix: String,
    bodies: Vec<(Bytes, [u8; 32])>,
    /// Next key number; all keys below it were written unless a request failed.
    written: AtomicU64,
    limit: u64,
    pub size: Size,
}

/// Different contents per size, so that no intermediate layer can profit from repetition in one object.
const BODIES: usize = 4;

impl Objects {
    /// Random contents of this size under this prefix.
    pub fn new(prefix: &str, size: Size, options: &Options) -> Outcome<Objects> {
        let mut bodies = Vec::with_capacity(BODIES);
        for _ in 0..BODIES {
            let body = noise(size.0 as usize)?;
            let hash = ashlar_client::sha256(&body);
            bodies.push((body, hash));
        }
        let limit = (options.max_bytes.0 / size.0.max(1)).clamp(u64::from(options.concurrency), 10_000_000);
        let prefix = format!("{prefix}{}/", size.0);
        Ok(Objects { prefix, bodies, written: AtomicU64::new(0), limit, size })
    }

    fn key(&self, number: u64) -> String {
        format!("{}{number:08}", self.prefix)
    }

    fn body(&self, number: u64) -> &(Bytes, [u8; 32]) {
        &self.bodies[number as usize % BODIES]
    }
}

/// Random bytes that do not compress.
fn noise(len: usize) -> Outcome<Bytes> {
    let mut state = getrandom::u64()? | 1;
    let mut out = Vec::with_capacity(len + 8);
    while out.len() < len {
        out.extend_from_slice(&splitmix(&mut state).to_le_bytes());
    }
    out.truncate(len);
    Ok(out.into())
}

/// SplitMix64 (Steele, Lea, Flood 2014), to pick keys and fill bodies.
fn splitmix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ z >> 31
}

/// The result of one phase.
pub struct Measured {
    /// Requests that began in the measured time and succeeded.
    pub requests: u64,
    /// Requests that failed, at any time.
    pub errors: u64,
    /// The first failure in words.
    pub first_error: Option<String>,
    /// Object bytes of the successful requests.
    pub bytes: u64,
    /// From the end of the warm-up to the last answer.
    pub elapsed: Duration,
    /// Microseconds.
    pub latency: Histogram<u64>,
    /// The server's CPU time in that interval and half a second after, for deferred work.
    pub server_cpu: Option<Duration>,
    /// This process's CPU time in that interval.
    pub client_cpu: Duration,
}

struct Phase<'a> {
    options: &'a Options,
    objects: &'a Objects,
    verb: Verb,
    measured_from: Instant,
    deadline: Instant,
    /// How many objects can be read.
    readable: u64,
}

#[derive(Debug)]
struct Tally {
    requests: u64,
    bytes: u64,
    errors: u64,
    first_error: Option<String>,
    latency: Histogram<u64>,
}

impl Tally {
    fn new() -> Tally {
        // 1 us to 10 min, three digits: 200 KiB each.
        let latency = Histogram::new_with_bounds(1, 600_000_000, 3).expect("valid bounds");
        Tally { requests: 0, bytes: 0, errors: 0, first_error: None, latency }
    }

    fn add(&mut self, other: Tally) {
        self.requests += other.requests;
        self.bytes += other.bytes;
        self.errors += other.errors;
        self.first_error = self.first_error.take().or(other.first_error);
        self.latency.add(other.latency).expect("the same bounds");
    }
}

/// A worker stops after this many consecutive failures.
const GIVE_UP: u32 = 20;

/// Runs one phase.
pub fn run(
    options: &Options,
    endpoint: &str,
    objects: &Objects,
    verb: Verb,
    process: Option<&Process>,
    settle: Duration,
) -> Outcome<Measured> {
    let begin = Instant::now();
    let measured_from = begin + Duration::from_secs_f64(options.warmup);
    let deadline = measured_from + Duration::from_secs_f64(options.seconds);
    let readable = objects.written.load(Ordering::Relaxed);
    if verb == Verb::Get && readable == 0 {
        return Err("nothing was written that could be read".into());
    }
    let phase = Phase { options, objects, verb, measured_from, deadline, readable };
    let own = Process::own();
    let threads = options.threads();
    let mut total = Tally::new();
    let (mut server_before, mut own_before) = (None, Duration::ZERO);
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|thread| {
                let phase = &phase;
                scope.spawn(move || run_thread(phase, endpoint, thread, threads))
            })
            .collect();
        std::thread::sleep(measured_from.saturating_duration_since(Instant::now()));
        server_before = process.and_then(Process::cpu);
        own_before = own.cpu().unwrap_or_default();
        for worker in workers {
            let tally = worker.join().map_err(|_| "a load thread panicked")??;
            total.add(tally);
        }
        Outcome::Ok(())
    })?;
    let elapsed = measured_from.elapsed();
    let client_cpu = own.cpu().unwrap_or_default().saturating_sub(own_before);
    std::thread::sleep(settle);
    let server_cpu = process.and_then(Process::cpu).zip(server_before).map(|(after, before)| after - before);
    if total.requests == 0 {
        let why = total.first_error.unwrap_or_else(|| "no request ended in time".into());
        return Err(format!("{verb:?} of {}: {why}", objects.size).into());
    }
    Ok(Measured {
        requests: total.requests,
        errors: total.errors,
        first_error: total.first_error,
        bytes: total.bytes,
        elapsed,
        latency: total.latency,
        server_cpu,
        client_cpu,
    })
}

/// One thread with its own runtime and connections: nothing is shared between threads.
fn run_thread(phase: &Phase<'_>, endpoint: &str, thread: usize, threads: usize) -> Outcome<Tally> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let client = phase.options.client(endpoint)?;
    let concurrency = phase.options.concurrency as usize;
    let mine = concurrency / threads + usize::from(thread < concurrency % threads);
    runtime.block_on(async {
        let mut total = Tally::new();
        // One task for all workers: each is polled only when its own answer has arrived.
        let mut workers: FuturesUnordered<_> = (0..mine).map(|_| worker(phase, &client)).collect();
        while let Some(tally) = workers.next().await {
            total.add(tally);
        }
        Ok(total)
    })
}

async fn worker(phase: &Phase<'_>, client: &Client) -> Tally {
    let mut tally = Tally::new();
    let mut random = getrandom::u64().unwrap_or(1);
    let mut failed_in_a_row = 0;
    loop {
        let begin = Instant::now();
        if begin >= phase.deadline || failed_in_a_row >= GIVE_UP {
            return tally;
        }
        let number = match phase.verb {
            Verb::Put => phase.objects.written.fetch_add(1, Ordering::Relaxed),
            Verb::Get => splitmix(&mut random) % phase.readable,
        };
        if phase.verb == Verb::Put && number >= phase.objects.limit {
            phase.objects.written.fetch_min(phase.objects.limit, Ordering::Relaxed);
            return tally;
        }
        let outcome = match phase.verb {
            Verb::Put => put(phase, client, number).await,
            Verb::Get => get(phase, client, number).await,
        };
        match outcome {
            Ok(()) if begin >= phase.measured_from => {
                tally.requests += 1;
                tally.bytes += phase.objects.size.0;
                tally.latency.saturating_record(begin.elapsed().as_micros() as u64);
                failed_in_a_row = 0;
            }
            Ok(()) => failed_in_a_row = 0,
            Err(error) => {
                tally.errors += 1;
                failed_in_a_row += 1;
                tally.first_error.get_or_insert_with(|| error.to_string());
            }
        }
    }
}

async fn put(phase: &Phase<'_>, client: &Client, number: u64) -> Outcome {
    let (body, hash) = phase.objects.body(number);
    let key = phase.objects.key(number);
    let mut call = Call::new(Method::PUT, Target::Object(&phase.options.bucket, &key)).body(body.clone());
    let payload = phase.options.payload.payload();
    call.payload = Some(payload);
    call.sha256 = (payload == Payload::Signed).then_some(*hash);
    client.execute(call).await?.drain().await?;
    Ok(())
}

async fn get(phase: &Phase<'_>, client: &Client, number: u64) -> Outcome {
    let key = phase.objects.key(number);
    let call = Call::new(Method::GET, Target::Object(&phase.options.bucket, &key));
    let mut answer = client.execute(call).await?;
    let (body, _) = phase.objects.body(number);
    let mut at = 0;
    while let Some(piece) = answer.piece().await? {
        let end = at + piece.len();
        if phase.options.verify && body.get(at..end) != Some(&piece[..]) {
            return Err(format!("{key}: WRONG BYTES in {at}..{end}").into());
        }
        at = end;
    }
    if at != body.len() {
        return Err(format!("{key}: {at} bytes instead of {}", body.len()).into());
    }
    Ok(())
}

/// Deletes the objects of one size.
pub async fn remove(client: &Client, bucket: &str, objects: &Objects) -> Outcome {
    let written = objects.written.load(Ordering::Relaxed);
    let keys: Vec<Identifier> =
        (0..written).map(|number| Identifier { key: objects.key(number), version_id: None }).collect();
    remove_keys(client, bucket, &keys).await
}

/// Deletes keys, a thousand per request.
pub async fn remove_keys(client: &Client, bucket: &str, keys: &[Identifier]) -> Outcome {
    for chunk in keys.chunks(1000) {
        let outcome = client.delete_objects(bucket, chunk).await?;
        if let Some(error) = outcome.errors.first() {
            return Err(format!("deleting {}: {} {}", error.object.key, error.code, error.message).into());
        }
    }
    Ok(())
}

/// Puts one empty object per key with many requests in flight, to prepare a listing.
pub async fn fill(client: &Client, bucket: &str, keys: &[Identifier], in_flight: usize) -> Outcome {
    let next = Arc::new(AtomicU64::new(0));
    let workers = (0..in_flight).map(|_| {
        let next = next.clone();
        async move {
            while let Some(id) = keys.get(next.fetch_add(1, Ordering::Relaxed) as usize) {
                let call = Call::new(Method::PUT, Target::Object(bucket, &id.key)).body("x");
                client.execute(call).await?.drain().await?;
            }
            Outcome::Ok(())
        }
    });
    workers.collect::<FuturesUnordered<_>>().try_collect().await
}
