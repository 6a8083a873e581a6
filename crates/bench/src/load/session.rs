//! One machine's share of a job: the state of its workers, prepared data, phases, clean-up.
//!
//! Invariants: `prepare` comes first, `clean` last, and `clean` removes exactly the objects under this run's
//! prefix and the buckets that this run made; a phase ends within the timeout of a request after its stop.

use std::{
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering},
        mpsc,
    },
    thread,
    time::{Duration, Instant},
};

use ashlar_checksum::Algorithm;
use parking_lot::Mutex;

use super::{
    Arrivals, Delta, Job, Mode, Offer, Op, Recorder, Stop, TICK,
    buckets::Buckets,
    context::{Context, RING},
    keys::Keys,
    ops_more::encoded,
    phase::{Phase, Reason},
    population::Population,
    runner::{Console, Ended, Runner},
    worker::Worker,
};
use crate::{
    Error, Result, cost, stall,
    wire::{Host, Pool, Settings, client_config},
};

/// One machine's share of a job.
pub struct Session {
    context: Arc<Context>,
    buckets: Buckets,
}

/// Attempts per object while preparing.
const ATTEMPTS: u32 = 4;
/// Threads that prepare, at most: more only queue at the server.
const FILLERS: u32 = 32;
/// How long an open loop may go on sending what was intended before its end.
const DRAIN: Duration = Duration::from_secs(30);

impl Session {
    /// Checks the job, resolves hosts, connects to nothing yet.
    ///
    /// # Errors
    /// [`Error::Usage`] for a job that makes no sense, [`Error::Setup`] for names without address.
    pub fn new(job: Job) -> Result<Session> {
        job.check()?;
        let hosts = job.target.endpoints.iter().map(|e| Host::parse(e)).collect::<Result<Vec<_>>>()?;
        let tls = hosts.iter().any(|h| h.tls);
        let tls =
            tls.then(|| client_config(job.target.insecure, job.target.authority.as_deref())).transpose()?;
        let checksum = match &job.target.checksum {
            None => None,
            Some(name) => Some(
                Algorithm::parse(name)
                    .ok_or_else(|| Error::usage(format!("`{name}` is not a known checksum")))?,
            ),
        };
        let settings = Settings {
            tls,
            keys: job.target.keys.clone(),
            timeout: Duration::from_secs_f64(job.target.timeout_s.clamp(0.01, 3600.0)),
            payload: job.target.payload,
            checksum,
            virtual_host: job.target.virtual_host,
            hosts,
        };
        let buckets = Buckets::new(&job)?;
        let prefix = if job.existing { job.prefix.clone() } else { job.run_prefix() };
        let removes = job.mode == Mode::Mixed && job.mix.iter().any(|m| m.0 == Op::Delete && m.1 > 0);
        let versioned = if job.mode == Mode::Versioned { job.objects * u64::from(job.versions) } else { 0 };
        let conditional = job.mode == Mode::Conditional;
        let context = Context {
            pool: Pool::new(job.shape, job.seed),
            keys: Keys::new(&prefix, job.depth, job.fanout, job.order),
            buckets: (0..job.buckets).map(|i| job.bucket_name(i)).collect(),
            listed: Vec::new(),
            next: AtomicU64::new(job.objects),
            turns: AtomicU64::new(0),
            deleted: AtomicU64::new(0),
            // Twice the capacity, so that objects written in excess of those removed can be read as well.
            population: removes
                .then(|| Population::new(job.objects.saturating_mul(2).min(1 << 24), job.objects)),
            versions: (0..versioned).map(|_| OnceLock::new()).collect(),
            created: (0..if conditional { RING } else { 0 }).map(|_| AtomicU64::new(0)).collect(),
            replaced: (0..if conditional { job.objects.min(4096) } else { 0 })
                .map(|_| Mutex::default())
                .collect(),
            outstanding: settings.hosts.iter().map(|_| AtomicU32::new(0)).collect(),
            phases: AtomicU64::new(0),
            settings: Arc::new(settings),
            job,
        };
        if context.job.mode == Mode::Put || context.job.mode == Mode::MultipartPut {
            context.next.store(0, Ordering::Relaxed);
        }
        Ok(Session { context: Arc::new(context), buckets })
    }

    fn fill(&self, console: &mut dyn Console, interrupt: &AtomicBool) -> Result<()> {
        let job = &self.context.job;
        let per_key = if job.mode == Mode::Versioned { u64::from(job.versions) } else { 1 };
        let total = job.objects * per_key;
        let next = AtomicU64::new(0);
        let done = AtomicU64::new(0);
        let failure: Mutex<Option<String>> = Mutex::new(None);
        let phase = Arc::new(Phase::new(Recorder::new(1, 1), None, Stop::default()));
        let threads = job.offer.concurrency.min(FILLERS).min(u32::try_from(total).unwrap_or(FILLERS)).max(1);
        console.begin("Preparing", total);
        let running = &AtomicU32::new(threads);
        thread::scope(|scope| {
            for id in 0..threads {
                let (next, done, failure, phase) = (&next, &done, &failure, &phase);
                scope.spawn(move || {
                    let mut worker = Worker::new(self.context.clone(), phase.clone(), id);
                    loop {
                        let ticket = next.fetch_add(1, Ordering::Relaxed);
                        let stopped = interrupt.load(Ordering::Relaxed) || failure.lock().is_some();
                        if ticket >= total || stopped {
                            break;
                        }
                        match self.fill_one(&mut worker, ticket % job.objects, ticket / job.objects) {
                            Ok(()) => drop(done.fetch_add(1, Ordering::Relaxed)),
                            Err(class) => *failure.lock() = Some(class),
                        }
                    }
                    running.fetch_sub(1, Ordering::Release);
                });
            }
            while running.load(Ordering::Acquire) > 0 {
                thread::sleep(Duration::from_millis(20));
                console.progress(done.load(Ordering::Relaxed));
            }
        });
        console.end();
        match failure.into_inner() {
            Some(class) => Err(Error::setup(format!(
                "preparing data failed after {} of {total} objects: {class}",
                done.into_inner()
            ))),
            None => Ok(()),
        }
    }

    fn fill_one(&self, worker: &mut Worker, number: u64, version: u64) -> Result<(), String> {
        let mode = self.context.job.mode;
        let mut attempt = 0;
        loop {
            let host = worker.host();
            let done = match mode {
                Mode::Multipart => worker.upload_number(host, number, false),
                _ => worker.put_number(host, number, version),
            };
            match done {
                Ok(_) => break,
                Err(class) if attempt + 1 == ATTEMPTS => {
                    let text = between_message(&worker.caller.kept);
                    return Err(if text.is_empty() { class } else { format!("{class} ({text})") });
                }
                Err(_) => thread::sleep(Duration::from_millis(50 << attempt)),
            }
            attempt += 1;
        }
        if mode == Mode::Versioned {
            if worker.caller.version.is_empty() {
                return Err("the server returns no version ids".into());
            }
            let at = number * u64::from(self.context.job.versions) + version;
            let _ = self.context.versions[at as usize].set(encoded(&worker.caller.version));
        }
        Ok(())
    }
}

fn between_message(body: &[u8]) -> String {
    crate::wire::between(body, b"<Message>", b"</Message>").unwrap_or_default().to_owned()
}

impl Runner for Session {
    fn prepare(&mut self, console: &mut dyn Console, interrupt: &AtomicBool) -> Result<()> {
        self.buckets.ensure()?;
        if self.context.job.existing {
            let listed = self.buckets.existing(&self.context.job)?;
            if listed.is_empty() && self.context.job.mode != Mode::List {
                return Err(Error::setup(format!(
                    "there are no objects under `{}` in `{}`",
                    self.context.job.prefix, self.context.job.bucket
                )));
            }
            Arc::get_mut(&mut self.context).expect("no worker runs yet").listed = listed;
        }
        if self.context.job.needs_data() { self.fill(console, interrupt) } else { Ok(()) }
    }

    fn run(
        &mut self,
        offer: &Offer,
        stop: &Stop,
        interrupt: &AtomicBool,
        sink: &mut dyn FnMut(Option<u32>, Delta) -> Option<Reason>,
    ) -> Result<Ended> {
        let job = &self.context.job;
        let number = self.context.phases.fetch_add(1, Ordering::Relaxed);
        let before = cost::own().unwrap_or_default();
        let watch = stall::Watch::start();
        let hosts = self.context.settings.hosts.len();
        let end = stop.seconds.map(Duration::from_secs_f64);
        let arrivals = offer
            .rate
            .map(|rate| Arrivals::new(rate, offer.poisson, offer.limit, end, job.seed ^ number << 8));
        let phase = Arc::new(Phase::new(Recorder::new(offer.concurrency, hosts), arrivals, *stop));
        let (finished, all_finished) = mpsc::channel::<()>();
        for id in 0..offer.concurrency {
            let worker = Worker::new(self.context.clone(), phase.clone(), id);
            let finished = finished.clone();
            let spawned =
                thread::Builder::new().name(format!("load-{id}")).stack_size(256 << 10).spawn(move || {
                    worker.run();
                    drop(finished);
                });
            if let Err(error) = spawned {
                phase.end(Reason::Errors);
                return Err(Error::Io { what: format!("cannot start worker {id}"), source: error });
            }
        }
        drop(finished);
        let every = delta_ticks(stop);
        let mut next = 1_u32;
        loop {
            let due = phase.start + TICK * next;
            let ended = matches!(
                all_finished.recv_timeout(due.saturating_duration_since(Instant::now())),
                Err(mpsc::RecvTimeoutError::Disconnected)
            );
            let now = Recorder::tick_of(phase.start, Instant::now());
            phase.recorder.tick(if ended { (now + 1).max(next) } else { now.max(next) });
            next = now.max(next) + 1;
            if ended || (next - 1).is_multiple_of(every) {
                let usage = cost::own().unwrap_or_default().since(&before);
                if let Some(reason) = sink(None, phase.recorder.drain(usage)) {
                    phase.end(reason);
                }
            }
            if ended {
                break;
            }
            if interrupt.load(Ordering::Relaxed) {
                phase.end(Reason::Interrupted);
            }
            if phase.reason() == Some(Reason::Time)
                && phase.arrivals.is_some()
                && phase.start.elapsed() > phase.ended_at() + DRAIN
            {
                // What is still due now is counted as unsent.
                phase.abandon();
            }
        }
        let reason = phase.reason().unwrap_or(Reason::Time);
        let at = phase.ended_at();
        let unsent = match reason {
            Reason::Time | Reason::Count => 0,
            _ => phase.arrivals.as_ref().map_or(0, |a| a.unsent(at)),
        };
        let stalls = vec![(None, watch.end())];
        Ok(Ended { reason, seconds: at.as_secs_f64(), unsent, lost: Vec::new(), stalls })
    }

    fn clean(&mut self, console: &mut dyn Console) -> Result<()> {
        self.buckets.clean(&self.context.job, console)
    }
}

/// Ticks between deltas: a second, or a fifth in short phases so that a warm-up can be cut finely.
fn delta_ticks(stop: &Stop) -> u32 {
    if stop.seconds.is_some_and(|s| s <= 20.0) { 2 } else { 10 }
}
