//! One worker: takes the next intended operation, does it, writes down what happened.
//!
//! A worker is a thread with its own connections. Threads were chosen over one event loop because
//! a thread needs two system calls per small request (write, read) where an event loop needs three,
//! and measured no worse up to 1,000 of them (docs/bench.md, "What the client costs").
//!
//! Invariants: an operation that was begun is recorded, also after the end of the phase; nothing is
//! begun after a stop.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU8, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use super::{
    Arrivals, Mode, Op, Recorder, Sample, Select, Stop, arrivals::Next, keys::Rng, session::Context,
};
use crate::wire::{Answer, Caller, Fault};

/// Why a phase ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[repr(u8)]
#[serde(rename_all = "lowercase")]
pub enum Reason {
    /// Its time was over.
    Time = 1,
    /// All operations were done.
    Count,
    /// All bytes were moved.
    Bytes,
    /// The interval was narrow enough.
    Steady,
    /// Too many failures.
    Errors,
    /// The user or the coordinator ended it.
    Interrupted,
    /// More requests were due than the limit allows.
    Overloaded,
    /// The prepared data is used up.
    Data,
}

impl Reason {
    const ALL: [Reason; 8] = [
        Reason::Time,
        Reason::Count,
        Reason::Bytes,
        Reason::Steady,
        Reason::Errors,
        Reason::Interrupted,
        Reason::Overloaded,
        Reason::Data,
    ];

    /// As results name it.
    pub fn name(self) -> &'static str {
        match self {
            Reason::Time => "time",
            Reason::Count => "count",
            Reason::Bytes => "bytes",
            Reason::Steady => "steady",
            Reason::Errors => "errors",
            Reason::Interrupted => "interrupted",
            Reason::Overloaded => "overloaded",
            Reason::Data => "data",
        }
    }
}

/// What the workers of a phase share.
pub struct Phase {
    /// When it began.
    pub start: Instant,
    /// What was measured.
    pub recorder: Recorder,
    /// The plan of the open loop.
    pub arrivals: Option<Arrivals>,
    stop: Stop,
    ended: AtomicU8,
    ended_ns: AtomicU64,
    tickets: AtomicU64,
    bytes: AtomicU64,
    in_flight: AtomicU64,
}

impl Phase {
    /// A phase that begins now.
    pub fn new(recorder: Recorder, arrivals: Option<Arrivals>, stop: Stop) -> Phase {
        Phase {
            start: Instant::now(),
            recorder,
            arrivals,
            stop,
            ended: AtomicU8::new(0),
            ended_ns: AtomicU64::new(0),
            tickets: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            in_flight: AtomicU64::new(0),
        }
    }

    /// Ends it; the first reason counts.
    pub fn end(&self, reason: Reason) {
        if self.ended.compare_exchange(0, reason as u8, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
            self.ended_ns.store(self.start.elapsed().as_nanos() as u64, Ordering::Release);
        }
    }

    /// Why it ended, if it has.
    pub fn reason(&self) -> Option<Reason> {
        let reason = self.ended.load(Ordering::Acquire);
        Reason::ALL.into_iter().find(|r| *r as u8 == reason)
    }

    /// When it ended, from its start.
    pub fn ended_at(&self) -> Duration {
        match self.reason() {
            Some(Reason::Time) => Duration::from_secs_f64(self.stop.seconds.unwrap_or(0.0)),
            _ => Duration::from_nanos(self.ended_ns.load(Ordering::Acquire)),
        }
    }

    /// Requests without answer.
    pub fn in_flight(&self) -> u64 {
        self.in_flight.load(Ordering::Relaxed)
    }

    /// Waits for the next operation; `Some(None)` is "now" in a closed loop, `Some(Some(t))` was
    /// intended for `t`. `None` ends the worker.
    fn next(&self) -> Option<Option<Instant>> {
        if self.ended.load(Ordering::Acquire) != 0 && self.arrivals.is_none() {
            return None;
        }
        let now = self.start.elapsed();
        if self.arrivals.is_none() && self.stop.seconds.is_some_and(|s| now.as_secs_f64() >= s) {
            self.end(Reason::Time);
            return None;
        }
        if self.stop.bytes.is_some_and(|most| self.bytes.load(Ordering::Relaxed) >= most) {
            self.end(Reason::Bytes);
            return None;
        }
        let Some(arrivals) = &self.arrivals else {
            return self.ticket().then_some(None);
        };
        // After its time an open loop still sends what was intended before.
        if self.reason().is_some_and(|r| r != Reason::Time) {
            return None;
        }
        match arrivals.take(now, self.in_flight()) {
            Next::End => {
                self.end(Reason::Time);
                None
            }
            Next::Overloaded => {
                self.end(Reason::Overloaded);
                None
            }
            Next::At(at) => {
                if !self.ticket() {
                    return None;
                }
                self.wait(at).then(|| Some(self.start + at))
            }
        }
    }

    fn ticket(&self) -> bool {
        let Some(count) = self.stop.count else { return true };
        let free = self.tickets.fetch_add(1, Ordering::Relaxed) < count;
        if !free && self.in_flight() == 0 {
            self.end(Reason::Count);
        }
        free
    }

    /// Sleeps until `at`; `false` if the phase ends before.
    fn wait(&self, at: Duration) -> bool {
        loop {
            let now = self.start.elapsed();
            if now >= at {
                return true;
            }
            if self.reason().is_some_and(|r| r != Reason::Time) {
                return false;
            }
            std::thread::sleep((at - now).min(Duration::from_millis(50)));
        }
    }
}

/// One worker.
pub struct Worker {
    pub(super) context: Arc<Context>,
    pub(super) phase: Arc<Phase>,
    pub(super) id: u32,
    pub(super) caller: Caller,
    pub(super) rng: Rng,
    /// Reused by operations.
    pub(super) path: String,
    pub(super) query: String,
    pub(super) xml: String,
    /// Versions this worker wrote and may remove: (object, version id), at most [`OWN`].
    pub(super) own: Vec<(u64, Box<str>)>,
    turn: usize,
    weights: u64,
}

/// Versions a worker remembers.
pub(super) const OWN: usize = 64;
/// Pause after a failed connection, so that a dead server is not asked in a tight loop.
const PAUSE: Duration = Duration::from_millis(20);

impl Worker {
    /// Worker `id` of a phase.
    pub fn new(context: Arc<Context>, phase: Arc<Phase>, id: u32) -> Worker {
        let seed = context.job.seed ^ (u64::from(id) << 32) ^ context.epoch();
        Worker {
            caller: Caller::new(context.settings.clone()),
            rng: Rng::new(seed),
            id,
            path: String::with_capacity(256),
            query: String::with_capacity(256),
            xml: String::new(),
            own: Vec::new(),
            turn: id as usize,
            weights: context.job.mix.iter().map(|m| u64::from(m.1)).sum(),
            context,
            phase,
        }
    }

    /// Works until the phase ends.
    pub fn run(mut self) {
        // Sleeping threads wake up to 50 us late by default; intended times need better.
        let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1000));
        while let Some(intended) = self.phase.next() {
            let op = self.pick();
            self.phase.in_flight.fetch_add(1, Ordering::Relaxed);
            self.perform(op, intended);
            self.phase.in_flight.fetch_sub(1, Ordering::Relaxed);
        }
        if self.phase.stop.count.is_some() && self.phase.in_flight() == 0 {
            self.phase.end(Reason::Count);
        }
        if self.caller.reconnects > 0 {
            self.phase.recorder.count(self.id, "reconnects", self.caller.reconnects);
        }
    }

    fn pick(&mut self) -> Op {
        let mix = &self.context.job.mix;
        if let [(only, _)] = mix[..] {
            return only;
        }
        let mut at = self.rng.below(self.weights);
        for (op, weight) in mix {
            if at < u64::from(*weight) {
                return *op;
            }
            at -= u64::from(*weight);
        }
        mix[0].0
    }

    /// The host of the next request.
    pub(super) fn host(&mut self) -> usize {
        let hosts = self.context.settings.hosts.len();
        self.turn = (self.turn + 1) % hosts;
        if hosts == 1 || self.context.job.target.select == Select::RoundRobin {
            return self.turn;
        }
        let turn = self.turn;
        let load = |i: &usize| self.context.outstanding[*i].load(Ordering::Relaxed);
        (0..hosts).map(|i| (turn + i) % hosts).min_by_key(load).unwrap_or(turn)
    }

    fn perform(&mut self, op: Op, intended: Option<Instant>) {
        let host = self.host();
        let outstanding = &self.context.clone().outstanding[host];
        outstanding.fetch_add(1, Ordering::Relaxed);
        let mode = self.context.job.mode;
        let done = match op {
            Op::Put if mode == Mode::Versioned => self.put_version(host),
            Op::Delete if mode == Mode::Versioned => self.delete_version(host),
            Op::Put => self.put(host),
            Op::Get => self.get(host),
            Op::Head => self.head(host),
            Op::List => self.list(host),
            Op::Delete => self.delete(host),
            Op::MultiDelete => self.multi_delete(host),
            Op::PutIfNoneMatch => self.put_if_none_match(host),
            Op::PutIfMatch => self.put_if_match(host),
            Op::Upload => self.upload(host),
            Op::CreateUpload | Op::PutPart | Op::CompleteUpload => Err("a step is no operation".into()),
        };
        outstanding.fetch_sub(1, Ordering::Relaxed);
        if let Some(done) = done.transpose() {
            self.record(op, host, intended, done);
        }
    }

    /// Writes down how an operation ended.
    pub(super) fn record(
        &mut self,
        op: Op,
        host: usize,
        intended: Option<Instant>,
        done: Result<Done, String>,
    ) {
        match done {
            Ok(done) => {
                let sample = Sample {
                    op: done.op.unwrap_or(op),
                    host,
                    bytes: done.bytes,
                    verified: done.verified,
                    service: done.ended - done.sent,
                    response: intended.map(|at| done.ended.saturating_duration_since(at)),
                    first_byte: done.first_byte.map(|at| at - done.sent),
                };
                self.phase.recorder.ok(self.id, &sample);
                if !op.is_step() {
                    self.phase.bytes.fetch_add(done.bytes, Ordering::Relaxed);
                }
            }
            Err(class) => {
                self.phase.recorder.failed(self.id, op, host, &class);
                if class == "connection" {
                    std::thread::sleep(PAUSE);
                }
            }
        }
    }

    /// The answer if its status is one of `wanted`, else the class of the failure.
    pub(super) fn expect(&self, answer: Result<Answer, Fault>, wanted: &[u16]) -> Result<Answer, String> {
        let answer = answer.map_err(|fault| fault.class().to_owned())?;
        if wanted.contains(&answer.status) {
            return Ok(answer);
        }
        let code = self.caller.code();
        Err(if code.is_empty() { format!("http-{}", answer.status) } else { code.to_owned() })
    }
}

/// An operation that ended well.
#[derive(Clone, Copy, Debug)]
pub(super) struct Done {
    /// What it was, if not what was asked for.
    pub op: Option<Op>,
    pub bytes: u64,
    pub verified: u64,
    pub sent: Instant,
    pub first_byte: Option<Instant>,
    pub ended: Instant,
}

impl Done {
    /// An operation of one request with so many payload bytes.
    pub fn of(answer: &Answer, bytes: u64) -> Done {
        Done {
            op: None,
            bytes,
            verified: answer.verified,
            sent: answer.sent,
            first_byte: answer.first_byte,
            ended: answer.ended,
        }
    }
}
