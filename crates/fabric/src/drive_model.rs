//! How long a drive takes for a command.
//!
//! A flash drive has one limiter for its rates (commands and bytes, additive over reads and writes as in the planner's formula
//! M2) and a curve of its service time against the queue depth: a command takes the longer of both. Beyond the depth at which
//! the limiter is busy, latency = depth / rate (Little's law).
//!
//! A disk does one command after the other, in the order in which they arrive: seek (square root of the distance, as in
//! C. Ruemmler and J. Wilkes, "An introduction to disk drive modeling", 1994), wait for the sector, transfer. What follows on
//! the end of the last command needs only the transfer. There is no cache and no reordering.
//!
//! Pure: time is an argument, nothing is random.
//!
//! Must not depend on: ports, faults other than slowness.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use crate::limiter::{Limiter, Picos, each, span, transfer};
use crate::setup::{Curve, Disk, Flash, Media};
use crate::thermal::Thermal;

/// What a command does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Operation {
    /// Moves data from the drive.
    Read,
    /// Moves data to the drive.
    Write,
    /// A change without data: zeros, deallocation.
    Change,
    /// Makes data durable.
    Flush,
}

/// A drive.
#[derive(Debug)]
pub(crate) struct DriveModel {
    media: Media,
    limiter: Limiter,
    pub(crate) thermal: Thermal,
    /// How many times longer everything takes: a fault.
    pub(crate) slowness: f64,
    /// When the commands in progress end.
    pending: BinaryHeap<Reverse<Duration>>,
    head: Head,
}

/// Where the head of a disk is, and when its last command ends.
#[derive(Debug, Default)]
struct Head {
    at: u64,
    free: Duration,
    worked: Duration,
}

impl DriveModel {
    pub(crate) fn new(media: Media, thermal: Thermal) -> DriveModel {
        DriveModel {
            media,
            limiter: Limiter::default(),
            thermal,
            slowness: 1.0,
            pending: BinaryHeap::new(),
            head: Head::default(),
        }
    }

    /// Commands in progress at `now`.
    pub(crate) fn depth(&mut self, now: Duration) -> usize {
        while self.pending.peek().is_some_and(|end| end.0 <= now) {
            self.pending.pop();
        }
        self.pending.len()
    }

    /// Begins a command at `now` on `len` bytes from `at` of the drive; returns when it is done.
    pub(crate) fn begin(&mut self, now: Duration, operation: Operation, at: u64, len: u64) -> Duration {
        self.thermal.advance(now, self.worked());
        let slow = self.slowness * self.thermal.slowness();
        let depth = self.depth(now) + 1;
        let end = match self.media.clone() {
            Media::Flash(flash) => self.flash(&flash, now, operation, len, depth, slow),
            Media::Disk(disk) => self.disk(&disk, now, operation, (at, len), slow),
        };
        self.pending.push(Reverse(end));
        end
    }

    /// Work that it was given since its start.
    pub(crate) fn worked(&self) -> Duration {
        self.limiter.worked() + self.head.worked
    }

    fn flash(
        &mut self,
        flash: &Flash,
        now: Duration,
        operation: Operation,
        len: u64,
        depth: usize,
        slow: f64,
    ) -> Duration {
        let reads = operation == Operation::Read;
        let (rate, bytes, curve) = match reads {
            true => (flash.read_iops, flash.read, &flash.read_us),
            false => (flash.write_iops, flash.write, &flash.write_us),
        };
        let moved = if matches!(operation, Operation::Read | Operation::Write) { len } else { 0 };
        let work = scale(each(rate).max(transfer(moved, bytes)), slow);
        let by_rate = self.limiter.reserve(now, work);
        let latency = Duration::from_secs_f64(at_depth(curve, depth) * slow / 1e6);
        by_rate.max(now + latency + span(work))
    }

    fn disk(
        &mut self,
        disk: &Disk,
        now: Duration,
        operation: Operation,
        (at, len): (u64, u64),
        slow: f64,
    ) -> Duration {
        if matches!(operation, Operation::Flush | Operation::Change) {
            // Nothing is cached, and what is deallocated is a mark.
            return now.max(self.head.free);
        }
        let start = now.max(self.head.free);
        let stretch = |seconds: f64| Duration::from_secs_f64(seconds * disk.scale * slow);
        let mut ready = start;
        if at != self.head.at {
            let share = at.abs_diff(self.head.at) as f64 / disk.capacity as f64;
            let average = (disk.seek_ms - disk.track_ms).max(0.0);
            let seek = stretch((disk.track_ms + average * (3.0 * share).sqrt()) / 1e3);
            ready = start + seek + stretch(wait(disk, (start + seek).as_secs_f64(), at));
        }
        // The rate is divided by the scale already.
        let end = ready + Duration::from_secs_f64(len as f64 / disk.rate * slow);
        self.head.worked += end - start;
        self.head.at = at + len;
        self.head.free = end;
        end
    }
}

/// Seconds until the sector at `at` is under the head, which stands over its track at `now`; of the disk at 1:1.
fn wait(disk: &Disk, now: f64, at: u64) -> f64 {
    let turn = 60.0 / disk.rpm;
    let track = disk.rate * disk.scale * turn;
    let target = (at as f64 / track).fract();
    // A turn takes longer at a scale, as everything does.
    let angle = (now / (turn * disk.scale)).fract();
    (target - angle).rem_euclid(1.0) * turn
}

fn scale(work: Picos, by: f64) -> Picos {
    (work as f64 * by) as Picos
}

/// Microseconds at a queue depth: between points by a straight line, outside of them as at the nearest.
fn at_depth(curve: &Curve, depth: usize) -> f64 {
    let depth = depth as f64;
    let points = curve.points();
    let after = points.iter().position(|p| p.0 >= depth);
    match after {
        None => points.last().map_or(0.0, |p| p.1),
        Some(0) => points[0].1,
        Some(i) => {
            let (a, b) = (points[i - 1], points[i]);
            a.1 + (b.1 - a.1) * (depth - a.0) / (b.0 - a.0)
        }
    }
}
