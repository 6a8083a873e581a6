//! One worker: takes the next intended operation, runs it, and records the result.
//!
//! A worker is a thread with its own connections. A thread needs two system calls per small request (write,
//! read) where an event loop needs three, and measured no worse up to 1,000 threads (docs/bench.md, "Cost of
//! the client").
//!
//! Invariants: an operation that was begun is recorded, also after the end of the phase; no operation begins
//! after a stop.

use std::{
    sync::{Arc, atomic::Ordering},
    time::{Duration, Instant},
};

use super::{
    Mode, Op, Sample, Select,
    context::Context,
    keys::Rng,
    phase::{Phase, Reason},
};
use crate::wire::{Answer, Caller, Fault};

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
            Op::CreateUpload | Op::PutPart | Op::CompleteUpload => Err("a step is not an operation".into()),
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
    /// The operation that was done, if it differs from the intended one.
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
