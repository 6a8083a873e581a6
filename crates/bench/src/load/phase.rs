//! The state of a running phase: its start, the reason of its end, the remaining requests.
//!
//! Invariants: the first reason to end is kept; no request begins after a stop. Must not depend on: the work
//! of workers (`worker`).

use std::{
    sync::atomic::{AtomicU8, AtomicU64, Ordering},
    time::{Duration, Instant},
};

use super::{Arrivals, Recorder, Stop, arrivals::Next};

/// Why a phase ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[repr(u8)]
#[serde(rename_all = "lowercase")]
pub enum Reason {
    /// The duration was over.
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
    /// The recorded measurements.
    pub recorder: Recorder,
    /// The plan of the open loop.
    pub arrivals: Option<Arrivals>,
    pub(super) stop: Stop,
    ended: AtomicU8,
    ended_ns: AtomicU64,
    tickets: AtomicU64,
    pub(super) bytes: AtomicU64,
    pub(super) in_flight: AtomicU64,
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

    /// Gives up what an open loop has left to send after its time.
    pub fn abandon(&self) {
        let end = self.ended_at();
        self.ended_ns.store(end.as_nanos() as u64, Ordering::Release);
        self.ended.store(Reason::Overloaded as u8, Ordering::Release);
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
    pub(super) fn next(&self) -> Option<Option<Instant>> {
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
