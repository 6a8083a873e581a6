//! The background work of one group: parity is made anew after an unclean stop, failed drives get distributed spares or hot ones, drives are
//! rebuilt, the group grows, and it is checked, in that order of urgency.
//!
//! Work is done in steps of about [`STEP`], between which requests get their turn; the speed says how long a pause follows.
//!
//! Invariant: a step holds the group no longer than its rows take.
//!
//! Must not depend on: how the work is asked for.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use ashlar_environment::{thread, time, time::Instant};
use ashlar_raid::{BLOCK, Batching, Group, MemberState, Repair, Wanted};

use crate::api;
use crate::group::InService;
use crate::lend;
use crate::owner::Owner;

/// Time of a step.
const STEP: Duration = Duration::from_millis(25);
/// Time of a step where recording how far a rebuild is takes long, at most: half of the step is work then.
const LONGEST_STEP: Duration = Duration::from_millis(500);
/// Rows that move in a step of a growth, at least: a step ends with flushes, which take as long for few rows.
const LEAST_MOVED: u64 = 128;
/// Time without work after which the group is looked at again.
const QUIET: Duration = Duration::from_millis(500);
/// Time after which work that failed is tried again.
const AGAIN: Duration = Duration::from_secs(10);
/// The part of a group's room below which a warning says so, if it has thin virtual drives.
const LOW_ROOM: u64 = 10;
/// Mismatches of a check that are listed.
const LISTED: usize = 100;

/// How groups are rebuilt and checked.
#[derive(Clone, Default)]
pub(crate) struct Rebuilds {
    pub(crate) wanted: Wanted,
    pub(crate) batching: Batching,
}

/// What a worker knows from its steps.
struct Worker {
    group: Arc<InService>,
    rebuilds: Rebuilds,
    /// It was decided who codes.
    chosen: bool,
    /// Rows of the next step.
    rows: u64,
    /// Bytes of one drive per second.
    rate: f64,
    /// Requests of clients at the last step.
    foreground: u64,
    /// When the last step ended, and what it was.
    last: Option<(Instant, &'static str)>,
    /// The row at which the check goes on.
    check_at: u64,
    /// Whom to ask for a hot spare of another group.
    lends: Option<Weak<Owner>>,
    /// Why no spare could be used.
    refused: Option<String>,
    /// It was said that there is little room for thin virtual drives.
    low_on_room: bool,
}

/// Starts the worker of a group. It ends when the group is to stop.
pub(crate) fn start(
    group: Arc<InService>,
    rebuilds: Rebuilds,
    lends: Option<Weak<Owner>>,
) -> std::io::Result<thread::JoinHandle<()>> {
    thread::start("array-worker", None, move || {
        group.shared.with(|g| g.set_batching(rebuilds.batching.clone()));
        let mut me = Worker {
            group,
            rebuilds,
            chosen: false,
            rows: 64,
            rate: 0.0,
            foreground: 0,
            last: None,
            check_at: 0,
            lends,
            refused: None,
            low_on_room: false,
        };
        while let Some(pause) = me.step() {
            me.wait(pause);
        }
    })
}

impl Worker {
    fn wait(&self, pause: Duration) {
        let mut inner = self.group.inner.lock();
        if !inner.stop && !pause.is_zero() {
            // Woken early, it only looks whether there is work.
            let _ = self.group.wake.wait_for(&mut inner, pause);
        }
    }

    /// Does a piece of work; the pause after it. None: the end.
    fn step(&mut self) -> Option<Duration> {
        if self.group.inner.lock().stop {
            return None;
        }
        self.look_for_drives();
        self.look_for_room();
        if self.group.shared.look(|g| g.resyncing().is_some()) {
            return Some(self.resync());
        }
        self.group.inner.lock().resync = None;
        if self.group.shared.look(|g| g.superblock().slots.iter().any(|s| s.state == MemberState::Failed)) {
            self.use_spare();
        }
        if self.group.shared.look(|g| g.rebuilding().is_some()) {
            return Some(self.rebuild());
        }
        self.group.inner.lock().rebuild = None;
        if self.group.shared.look(|g| g.superblock().growth.is_some()) {
            return Some(self.grow());
        }
        self.group.inner.lock().growth = None;
        self.start_due_check();
        let checking = self.group.inner.lock().check.as_ref().is_some_and(|c| c.state == "RUNNING");
        if checking {
            return Some(self.check());
        }
        (self.last, self.check_at) = (None, 0);
        Some(QUIET)
    }

    /// Members that are gone leave service, also if no request meets them.
    fn look_for_drives(&self) {
        for position in self.group.shared.drop_gone().unwrap_or_default() {
            tracing::error!(group = self.group.name, position, "a drive is gone: it is out of service");
        }
        self.group.let_go_of_gone();
    }

    /// Says when there is little room for thin virtual drives, once until there is more again.
    fn look_for_room(&mut self) {
        let (thin, free, size) =
            self.group.shared.look(|g| (!g.thin_drives().is_empty(), g.free(), g.size()));
        let low = thin && free < size / LOW_ROOM;
        if low && !self.low_on_room {
            tracing::warn!(
                group = self.group.name,
                free,
                size,
                "little room is left for thin virtual drives"
            );
        }
        // Not again for each piece that goes to and fro.
        if low || free >= size / LOW_ROOM * 2 {
            self.low_on_room = low;
        }
    }

    /// Starts the check that is due by the interval of the group; what is wrong is corrected.
    fn start_due_check(&self) {
        let running = self.group.inner.lock().check.as_ref().is_some_and(|c| c.state == "RUNNING");
        if running || !self.group.check_is_due() {
            return;
        }
        match self.group.start_check(api::CheckMode::AutoFix) {
            Ok(()) => tracing::info!(group = self.group.name, "a consistency check is due and begins"),
            Err(error) => {
                tracing::error!(group = self.group.name, %error, "a consistency check is due and cannot begin")
            }
        }
    }

    fn use_spare(&mut self) {
        match self.group.shared.with(Group::use_spare) {
            Ok(Some(position)) => {
                let what = match self.group.shared.look(|g| g.superblock().slots[position].state) {
                    MemberState::Failed => "the blocks of a drive go to a distributed spare",
                    _ => "a hot spare takes the place of a drive",
                };
                tracing::warn!(group = self.group.name, position, "{what}");
                self.group.release();
            }
            Ok(None) => self.borrow_spare(),
            Err(error) => self.refuse(&error.to_string()),
        }
    }

    /// Gets a hot spare of another group, if groups share them; the next step uses it.
    fn borrow_spare(&mut self) {
        let Some(owner) = self.lends.as_ref().and_then(Weak::upgrade) else { return };
        if !self.group.shared.look(Group::lacks_spare) {
            return;
        }
        match lend::spare(&owner, &self.group) {
            Ok(Some(from)) => {
                tracing::warn!(
                    group = self.group.name,
                    from,
                    "a hot spare of another group is one of this group now"
                );
            }
            Ok(None) => {}
            Err(error) => self.refuse(&error.to_string()),
        }
    }

    fn refuse(&mut self, error: &str) {
        if self.refused.as_deref() != Some(error) {
            tracing::error!(group = self.group.name, error, "a spare cannot be used");
            self.refused = Some(error.to_owned());
        }
    }

    /// Decides who codes. Measuring takes a while, so it is done without the group, and only when something is to be rebuilt.
    fn choose(&mut self) {
        if std::mem::replace(&mut self.chosen, true) {
            return;
        }
        let (k, m) = self.group.shared.look(|g| (g.geometry().k, g.geometry().m));
        match ashlar_raid::choose(k, m, self.rebuilds.wanted, &self.rebuilds.batching) {
            Ok(batching) => {
                tracing::info!(group = self.group.name, coder = batching.coder.name(), "who codes rebuilds");
                self.group.shared.with(|g| g.set_batching(batching));
            }
            Err(error) => tracing::error!(group = self.group.name, %error, "the CPU codes rebuilds"),
        }
    }

    fn resync(&mut self) -> Duration {
        let (begun, rows) = (Instant::now(), self.rows);
        let before = self.group.shared.look(|g| g.resyncing().map_or(0, |r| r.done));
        match self.group.shared.with(|g| g.resync(rows)) {
            Ok(Some(r)) => {
                let pause = self.paced(begun, STEP, r.done.saturating_sub(before), "resync");
                let task = self.task(None, r.done, r.rows);
                let over = r.done == r.rows;
                self.group.inner.lock().resync = (!over).then_some(task);
                if over {
                    let counters = self.group.shared.look(Group::counters);
                    let (resynced, unprotected) = (counters.resynced, counters.unprotected);
                    tracing::warn!(
                        group = self.group.name,
                        resynced,
                        unprotected,
                        "parity was made anew after an unclean stop"
                    );
                    self.last = None;
                }
                pause
            }
            Ok(None) => Duration::ZERO,
            Err(error) => {
                self.waits("resync", self.group.inner.lock().resync.get_or_insert_default(), &error)
            }
        }
    }

    fn rebuild(&mut self) -> Duration {
        self.choose();
        let begun = Instant::now();
        let rows = self.rows;
        let before = self.group.shared.look(Group::rebuilding);
        match self.group.shared.with(|g| g.rebuild(rows)) {
            Ok(Some(p)) => {
                let same = before.filter(|b| (b.slot, b.to_spare) == (p.slot, p.to_spare));
                let done = p.done.saturating_sub(same.map_or(p.done, |b| b.done));
                let recording = self.group.shared.look(Group::recording);
                let pause = self.paced(begun, step_time(recording), done, "rebuild");
                let task =
                    api::Task { to_spare: p.to_spare, ..self.task(Some(p.slot as u64), p.done, p.rows) };
                let over = p.done == p.rows;
                self.group.inner.lock().rebuild = (!over).then_some(task);
                if over {
                    let to_spare = p.to_spare;
                    tracing::warn!(
                        group = self.group.name,
                        position = p.slot,
                        to_spare,
                        "a drive is rebuilt"
                    );
                    self.last = None;
                    self.group.shared.with(Group::release_batches);
                }
                pause
            }
            Ok(None) => Duration::ZERO,
            Err(error) => {
                self.waits("rebuild", self.group.inner.lock().rebuild.get_or_insert_default(), &error)
            }
        }
    }

    fn grow(&mut self) -> Duration {
        let begun = Instant::now();
        let rows = self.rows.max(LEAST_MOVED);
        let (before, result) = self.group.shared.with(|g| (g.moved_rows(), g.move_rows(rows)));
        match result {
            Ok(Some(moved)) => {
                let pause = self.paced(begun, STEP, moved.done.saturating_sub(before), "growth");
                let task = self.task(None, moved.done, moved.rows);
                let over = moved.done == moved.rows;
                self.group.inner.lock().growth = (!over).then_some(task);
                if over {
                    let level = self.group.shared.look(|g| g.geometry().level);
                    tracing::warn!(group = self.group.name, %level, "the group has grown");
                    // The code is another one.
                    (self.last, self.chosen) = (None, false);
                }
                pause
            }
            Ok(None) => Duration::ZERO,
            Err(error) => {
                let (done, rows) = self.group.shared.look(|g| (g.moved_rows(), g.geometry().rows()));
                let mut inner = self.group.inner.lock();
                let task = inner.growth.get_or_insert_default();
                (task.done, task.rows) = (done, rows);
                self.waits("growth", task, &error)
            }
        }
    }

    /// Work that failed is tried again later; the log has it once.
    fn waits(&self, what: &str, task: &mut api::Task, error: &ashlar_raid::Error) -> Duration {
        if task.why.is_none() {
            tracing::error!(group = self.group.name, %error, "a {what} does not go on");
        }
        (task.why, task.eta_s) = (Some(error.to_string()), None);
        AGAIN
    }

    fn check(&mut self) -> Duration {
        let begun = Instant::now();
        let (from, rows) = (self.check_at, self.rows);
        let (stop, mode) = {
            let inner = self.group.inner.lock();
            let fixes = inner.check.as_ref().is_some_and(|c| c.mode == "auto_fix");
            (inner.stop_check, if fixes { Repair::AutoFix } else { Repair::StopOnError })
        };
        if stop {
            self.end_check("STOPPED", None);
            return Duration::ZERO;
        }
        let result = self.group.shared.with(|g| (g.check(from, rows, mode), g.geometry().rows()));
        let (checked, all) = match result {
            (Ok(checked), all) => (checked, all),
            (Err(error), _) => {
                self.end_check("FAILED", Some(error.to_string()));
                return Duration::ZERO;
            }
        };
        let stopped = mode == Repair::StopOnError && !checked.mismatches.is_empty();
        let done = if stopped { checked.mismatches[0].row } else { checked.next.unwrap_or(all) };
        let pause = self.paced(begun, STEP, done - from, "check");
        let progress = self.task(None, done, all);
        {
            let mut inner = self.group.inner.lock();
            let Some(check) = &mut inner.check else { return Duration::ZERO };
            check.progress = progress;
            check.mismatches += checked.mismatches.len() as u64;
            check.fixed += checked.mismatches.iter().filter(|m| m.fixed).count() as u64;
            let room = LISTED.saturating_sub(check.first.len());
            check.first.extend(checked.mismatches.iter().take(room).map(|m| api::Mismatch {
                set: u64::from(m.set),
                row: m.row,
                positions: m.members.iter().map(|p| *p as u64).collect(),
                fixed: m.fixed,
            }));
        }
        match checked.next {
            Some(next) => {
                self.check_at = next;
                pause
            }
            None => {
                self.end_check(if stopped { "STOPPED" } else { "DONE" }, None);
                Duration::ZERO
            }
        }
    }

    fn end_check(&mut self, state: &str, why: Option<String>) {
        (self.check_at, self.last) = (0, None);
        self.group.shared.with(Group::release_batches);
        let mut inner = self.group.inner.lock();
        inner.stop_check = false;
        if let Some(check) = &mut inner.check {
            check.state = state.into();
            check.ended_ms = Some(time::wall_ms());
            check.progress.why = why;
            check.progress.eta_s = None;
            tracing::info!(
                group = self.group.name,
                state,
                mismatches = check.mismatches,
                fixed = check.fixed,
                "a consistency check has ended"
            );
        }
    }

    /// Learns from a step that began then and is to take so long; the pause after it.
    fn paced(&mut self, begun: Instant, wanted: Duration, rows: u64, what: &'static str) -> Duration {
        let now = Instant::now();
        let took = now.saturating_duration_since(begun);
        let factor = (wanted.as_secs_f64() / took.as_secs_f64().max(1e-6)).clamp(0.5, 2.0);
        self.rows = ((self.rows as f64 * factor) as u64).clamp(16, 16 << 10);
        // From the end of one step to that of the next: pauses count.
        let since = match self.last {
            Some((last, kind)) if kind == what => now.saturating_duration_since(last),
            _ => {
                self.rate = 0.0;
                took
            }
        };
        self.last = Some((now, what));
        let rate = (rows * BLOCK as u64) as f64 / since.as_secs_f64().max(1e-6);
        self.rate = if self.rate == 0.0 { rate } else { 0.9 * self.rate + 0.1 * rate };
        let requests = self.group.foreground.load(Ordering::Relaxed);
        let busy = std::mem::replace(&mut self.foreground, requests) != requests;
        let speed = self.group.inner.lock().speed;
        match speed {
            api::Speed::Low => took * 9,
            api::Speed::Normal if busy => took,
            api::Speed::Normal | api::Speed::High => Duration::ZERO,
        }
    }

    fn task(&self, position: Option<u64>, done: u64, rows: u64) -> api::Task {
        let left = (rows - done) as f64 * BLOCK as f64;
        let eta_s = (self.rate > 0.0).then(|| (left / self.rate).ceil() as u64);
        api::Task { position, done, rows, bytes_per_s: self.rate as u64, eta_s, ..api::Task::default() }
    }
}

/// The time of a step of a rebuild. A step that only lasted as long as recording its end would shrink to nothing but that: on drives
/// behind a slow network a rebuild did 16 rows at a time, and recorded each time on every drive.
fn step_time(recording: Duration) -> Duration {
    (2 * recording).clamp(STEP, LONGEST_STEP)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recording_takes_half_of_a_step_at_most() {
        let of = |ms| step_time(Duration::from_millis(ms)).as_millis();
        assert_eq!((of(0), of(12), of(100), of(1000)), (25, 25, 200, 500));
    }
}
