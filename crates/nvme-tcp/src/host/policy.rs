//! Which of several paths a command takes: the I/O policies that Linux knows as `iopolicy`, without `numa`, and one by latency.
//!
//! Invariant: only paths that are given are chosen; the same numbers lead to the same choice.
//!
//! Must not depend on: connections.

use std::fmt;
use std::str::FromStr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Which path the next commands take, among those with the best access (ANA state).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum IoPolicy {
    /// One after the other.
    #[default]
    RoundRobin,
    /// The one with the fewest commands on their way.
    QueueDepth,
    /// The one with the least smoothed time of a command, times the commands on their way and one. A path that was not used for a second
    /// gets the next command, so that its time is known.
    Latency,
}

impl fmt::Display for IoPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            IoPolicy::RoundRobin => "round-robin",
            IoPolicy::QueueDepth => "queue-depth",
            IoPolicy::Latency => "latency",
        })
    }
}

impl FromStr for IoPolicy {
    type Err = String;

    fn from_str(text: &str) -> Result<IoPolicy, String> {
        match text {
            "round-robin" => Ok(IoPolicy::RoundRobin),
            "queue-depth" => Ok(IoPolicy::QueueDepth),
            "latency" => Ok(IoPolicy::Latency),
            _ => Err(format!("{text:?} is none of round-robin, queue-depth, latency")),
        }
    }
}

/// What a path is busy with, and how fast it was.
#[derive(Default)]
pub(crate) struct Load {
    in_flight: AtomicU64,
    /// Smoothed nanoseconds of a command; 0: not known.
    latency: AtomicU64,
    /// Commands that were answered.
    commands: AtomicU64,
}

impl Load {
    pub(crate) fn in_flight(&self) -> u64 {
        self.in_flight.load(Ordering::Relaxed)
    }

    pub(crate) fn commands(&self) -> u64 {
        self.commands.load(Ordering::Relaxed)
    }

    /// The smoothed time of a command; none: not known.
    pub(crate) fn latency(&self) -> Option<Duration> {
        Some(self.latency.load(Ordering::Relaxed)).filter(|n| *n > 0).map(Duration::from_nanos)
    }

    pub(crate) fn begin(&self, commands: u64) {
        self.in_flight.fetch_add(commands, Ordering::Relaxed);
    }

    /// Commands have ended together after `time`; `answered` of them by the target.
    pub(crate) fn end(&self, commands: u64, answered: u64, time: Duration) {
        self.in_flight.fetch_sub(commands, Ordering::Relaxed);
        if answered == 0 {
            return;
        }
        self.commands.fetch_add(answered, Ordering::Relaxed);
        let now = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX).max(1);
        // An eighth of the new value, as the round-trip time of TCP (RFC 6298). Two at once may lose one: it is a measurement.
        let old = self.latency.load(Ordering::Relaxed);
        let new = if old == 0 { now } else { old - old / 8 + now / 8 };
        self.latency.store(new.max(1), Ordering::Relaxed);
    }
}

/// A path that may be taken.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Candidate {
    pub(crate) index: usize,
    pub(crate) in_flight: u64,
    /// None: not known, or not of late.
    pub(crate) latency: Option<Duration>,
}

/// The path of the next commands; `last`: the one of the commands before. None: there is none.
pub(crate) fn choose(policy: IoPolicy, among: &[Candidate], last: usize) -> Option<usize> {
    // The order of turns, which also decides between equal ones.
    let (before, after): (Vec<Candidate>, Vec<Candidate>) = among.iter().partition(|c| c.index <= last);
    let turns = || after.iter().chain(&before);
    let chosen = match policy {
        IoPolicy::RoundRobin => turns().next(),
        IoPolicy::QueueDepth => turns().min_by_key(|c| c.in_flight),
        IoPolicy::Latency => {
            turns().min_by_key(|c| c.latency.map_or(0, |l| l.as_nanos() * u128::from(c.in_flight + 1)))
        }
    };
    chosen.map(|c| c.index)
}
