//! A namespace of a target as a block device of this process.
//!
//! What is repeated when a connection is lost: everything that is not answered, on another path if there is one. Reads, writes of the same
//! data to the same place, zeros and deallocations lead to the same state when they are executed twice. The target may still execute
//! the first one later: `ranges` keeps later changes of the same blocks back until it cannot. Flush is repeated after everything
//! that it is for was written again (see `unflushed`).
//!
//! Invariants: memory is bounded by the callers' own buffers, the queues' depth, and [`crate::host::unflushed::MOST`]; a call that
//! fails says which namespace it was, and why; a read is answered by a controller only after what lost controllers have completed, and
//! was not flushed, was written again.
//!
//! Must not depend on: what the blocks are for.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use ashlar_environment::{thread, time::Instant};

use crate::error::Error;
use crate::host::address::Address;
use crate::host::call::{Failure, Outcome, Piece};
use crate::host::controller::Controller;
use crate::host::device::{Device, LOOK, PathStatus};
use crate::host::facts::{Facts, NamespaceFacts};
use crate::host::health::Health;
use crate::host::options::HostOptions;
use crate::host::pending::Begun;
use crate::host::pieces;
use crate::host::request::{self, Request};
use crate::host::unflushed::Change;
use crate::status;

/// Bytes of one change that are on their way together, at most.
const TOGETHER: usize = 2 << 20;
/// Times that a command is repeated which the target has answered with an error, or whose connection was lost.
const REPETITIONS: u32 = 8;
/// Time before the first repetition of a command that was answered with an error; each further one waits longer.
const PAUSE: Duration = Duration::from_millis(50);
/// Blocks of a range of Dataset Management, at most.
const RANGE: u64 = 1 << 20;

/// What commands were executed for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Read,
    /// A change, or Flush.
    Change,
}

/// What commands have done.
pub(crate) struct Done {
    /// The data of each.
    pub(crate) data: Vec<Vec<u8>>,
    /// The controller that has completed all of them; 0: several have.
    controller: u64,
}

/// A namespace of a target.
pub struct RemoteNamespace {
    device: Arc<Device>,
}

impl RemoteNamespace {
    /// Connects to a namespace. An attempt on one of its ports has to succeed; later, lost connections are made again.
    ///
    /// # Errors
    /// [`Error::Connection`] if nothing answers there; [`Error::Refused`], [`Error::Protocol`], [`Error::Ended`].
    pub fn attach(address: &Address, options: HostOptions) -> Result<RemoteNamespace, Error> {
        let device = Arc::new(Device::open(address.clone(), options)?);
        let namespace = RemoteNamespace { device: device.clone() };
        for index in 0..device.paths.len() {
            let mine = device.clone();
            // It ends when the namespace is closed: within the time of a connection that it makes meanwhile.
            thread::start("nvme-path", None, move || mine.keep(index))?;
        }
        Ok(namespace)
    }

    /// Where it is.
    #[must_use]
    pub fn address(&self) -> &Address {
        &self.device.address
    }

    /// What it is.
    #[must_use]
    pub fn facts(&self) -> &NamespaceFacts {
        &self.device.facts
    }

    /// Bytes.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.device.facts.blocks * u64::from(self.device.facts.block)
    }

    /// Bytes of a block of it.
    #[must_use]
    pub fn block(&self) -> u32 {
        self.device.facts.block
    }

    /// Whether it is still at its address, as far as the target can be asked now. Once every path has led to another namespace, all
    /// requests to this one fail.
    #[must_use]
    pub fn is_same(&self) -> bool {
        self.device.verify()
    }

    /// Why requests fail at once, if they do: no path could be used for `fast_io_fail_timeout`, or all are given up. Asks no target.
    #[must_use]
    pub fn gone(&self) -> Option<String> {
        self.device.gone()
    }

    /// How often a controller was lost.
    #[must_use]
    pub fn losses(&self) -> u64 {
        self.device.paths.iter().map(|p| p.losses.load(Ordering::Relaxed)).sum()
    }

    /// Its paths.
    #[must_use]
    pub fn paths(&self) -> Vec<PathStatus> {
        self.device.status()
    }

    /// What the drive measured of itself when it was last asked, which is done every 30 s. None: it has not answered.
    #[must_use]
    pub fn health(&self) -> Option<Health> {
        self.device.health.lock().1
    }

    pub(crate) fn device(&self) -> &Arc<Device> {
        &self.device
    }

    pub(crate) fn check(&self, at: u64, len: u64) -> Result<(), Error> {
        let (block, size) = (u64::from(self.device.facts.block), self.size());
        let inside = at.checked_add(len).is_some_and(|end| end <= size);
        if inside && at.is_multiple_of(block) && len.is_multiple_of(block) {
            return Ok(());
        }
        Err(Error::Range { at, len, size })
    }

    /// Reads whole blocks.
    ///
    /// # Errors
    /// [`Error::Range`], [`Error::Unreachable`], [`Error::Failed`].
    pub fn read(&self, at: u64, out: &mut [u8]) -> Result<(), Error> {
        self.check(at, out.len() as u64)?;
        let (device, mut at) = (&*self.device, at);
        for out in out.chunks_mut(TOGETHER.max(device.most)) {
            let requests = pieces::of_read(device, at, out.len() as u64);
            let read = device.run("read", Kind::Read, &mut None, |_| requests.clone())?;
            for (to, from) in out.chunks_mut(device.most).zip(read.data) {
                to.copy_from_slice(&from);
            }
            at += out.len() as u64;
        }
        Ok(())
    }

    /// Writes whole blocks. They are durable after the next [`RemoteNamespace::flush`].
    ///
    /// # Errors
    /// As [`RemoteNamespace::read`]; then any part may have been written.
    pub fn write(&self, at: u64, data: &[u8]) -> Result<(), Error> {
        self.check(at, data.len() as u64)?;
        let mut at = at;
        for data in data.chunks(TOGETHER.max(self.device.most)) {
            self.device.change("write", &Change::Write { at, data: data.into() })?;
            at += data.len() as u64;
        }
        Ok(())
    }

    /// Writes slices one after another, which together are whole blocks, as [`RemoteNamespace::write`].
    ///
    /// # Errors
    /// As [`RemoteNamespace::write`].
    pub fn write_slices(&self, at: u64, slices: &[std::io::IoSlice<'_>]) -> Result<(), Error> {
        match slices {
            [one] => self.write(at, one),
            many => self.write(at, &many.iter().map(|s| &**s).collect::<Vec<_>>().concat()),
        }
    }

    /// Makes whole blocks read as zeros.
    ///
    /// # Errors
    /// As [`RemoteNamespace::write`].
    pub fn zero(&self, at: u64, len: u64) -> Result<(), Error> {
        self.check(at, len)?;
        let (end, step) = (at + len, TOGETHER.max(self.device.most) as u64);
        let mut at = at;
        while at < end {
            let len = step.min(end - at);
            self.device.change("write zeros", &Change::Zero { at, len })?;
            at += len;
        }
        Ok(())
    }

    /// The content of whole blocks does not matter any more. A target that has no use for that is not told.
    ///
    /// # Errors
    /// As [`RemoteNamespace::write`].
    pub fn discard(&self, at: u64, len: u64) -> Result<(), Error> {
        self.check(at, len)?;
        let (device, block) = (&*self.device, u64::from(self.device.facts.block));
        let (mut first, end) = (at / block, (at + len) / block);
        while first < end && device.choose(None)?.1.facts.deallocate {
            let count = RANGE.min(end - first);
            let range = request::range(first, count as u32);
            let (from, to) = (first * block, (first + count) * block);
            let (held, mut doubt) = (device.ranges.begin(from, to), None);
            let done = device.run("deallocate", Kind::Change, &mut doubt, |_| {
                vec![request::deallocate(device.address.nsid, &range)]
            });
            device.unflushed.lock().forget(from, to);
            device.ranges.end(held, doubt);
            done?;
            first += count;
        }
        Ok(())
    }

    /// Makes every write that has returned durable.
    ///
    /// # Errors
    /// As [`RemoteNamespace::write`]; then such a write may be lost.
    pub fn flush(&self) -> Result<(), Error> {
        self.device.flush()
    }
}

impl Device {
    /// Executes a change. No other change of its range is on its way meanwhile.
    fn change(&self, operation: &'static str, change: &Change) -> Result<(), Error> {
        if self.facts.read_only {
            return Err(self.failed(operation, "the namespace is read-only".into()));
        }
        // Without a volatile write cache nothing is kept.
        while self.write_cache && !self.unflushed.lock().has_room(change) {
            self.flush()?;
        }
        let (at, end) = change.range();
        let held = self.ranges.begin(at, end);
        self.change_held(operation, change, held, None)
    }

    /// Executes a change whose range is held, and gives the range back. `begun`: its only command is on its way already.
    pub(crate) fn change_held(
        &self,
        operation: &'static str,
        change: &Change,
        held: u64,
        begun: Option<Begun>,
    ) -> Result<(), Error> {
        let mut doubt = None;
        let requests = |facts: &Facts| pieces::of_change(change, self, facts);
        let done = self.run_begun(operation, Kind::Change, &mut doubt, requests, begun);
        if let Ok(done) = &done
            && self.write_cache
        {
            self.unflushed.lock().done(change.clone(), done.controller);
            // It may have been lost before the change was kept.
            if !self.controllers().iter().any(|c| c.serial == done.controller) {
                self.must_restore.store(true, Ordering::Release);
            }
        }
        self.ranges.end(held, doubt);
        done.map(drop)
    }

    /// Writes again what lost controllers have completed and nobody has flushed.
    fn restore(&self) -> Result<(), Error> {
        // One at a time; the others wait for it, as they need its result.
        let _one = self.restoring.lock();
        if !self.must_restore.swap(false, Ordering::AcqRel) {
            return Ok(());
        }
        let done = self.restore_all();
        if done.is_err() {
            self.must_restore.store(true, Ordering::Release);
        }
        done
    }

    fn restore_all(&self) -> Result<(), Error> {
        loop {
            let up: Vec<u64> = self.controllers().iter().map(|c| c.serial).collect();
            let lost = self.unflushed.lock().lost_ranges(&up);
            let mut free =
                lost.iter().filter_map(|(at, end)| Some((*at, *end, self.ranges.try_begin(*at, *end)?)));
            let Some((at, end, held)) = free.next() else {
                if lost.is_empty() {
                    return Ok(());
                }
                // A change that has a range takes the place of what it overlaps, or gives it back.
                self.ranges.wait(LOOK);
                continue;
            };
            let mut parts = self.unflushed.lock().lost(&up, at, end);
            // The range is that of one entry, which may have been overwritten in its middle.
            match parts.pop() {
                Some(part) => self.change_held("write again what was not flushed", &part, held, None)?,
                None => self.ranges.end(held, None),
            }
        }
    }

    /// Makes every change that was answered durable.
    pub(crate) fn flush(&self) -> Result<(), Error> {
        if !self.write_cache {
            return Ok(());
        }
        let mut why = String::new();
        for turn in 0..=REPETITIONS {
            thread::sleep(PAUSE * turn);
            self.restore()?;
            let marks = self.unflushed.lock().marks();
            if marks.is_empty() {
                // What was written before the namespace was attached.
                let requests = |_: &Facts| vec![request::flush(self.address.nsid)];
                return self.run("flush", Kind::Change, &mut None, requests).map(drop);
            }
            let mut again = false;
            for (controller, last) in marks {
                match self.flush_by(controller)? {
                    None => self.unflushed.lock().flushed(controller, last),
                    Some(trouble) => (again, why) = (true, trouble),
                }
            }
            if !again {
                return Ok(());
            }
        }
        Err(self.failed("flush", format!("{why}, {} times", REPETITIONS + 1)))
    }

    /// Lets a controller flush. Some: it has not, for this reason; then it is to be tried again.
    fn flush_by(&self, serial: u64) -> Result<Option<String>, Error> {
        let found = self.controllers().into_iter().find(|c| c.serial == serial);
        let mut pieces = [Piece::new(request::flush(self.address.nsid))];
        if let Some(controller) = &found {
            controller.execute(&mut pieces);
        }
        let trouble = match pieces[0].answer.take().unwrap_or(Err(Failure::Unsent)) {
            Ok(_) => return Ok(None),
            Err(Failure::Status(s)) if !status::is_of_path(s) && !status::may_repeat(s) => {
                return Err(self.refused("flush", s));
            }
            Err(Failure::Status(s)) if status::is_of_path(s) => {
                // Another controller can only flush what it has completed itself.
                self.unflushed.lock().disown(serial);
                self.must_restore.store(true, Ordering::Release);
                status::describe(s)
            }
            Err(failure) => {
                if matches!(failure, Failure::Lost | Failure::Unsent) {
                    self.must_restore.store(true, Ordering::Release);
                }
                pieces::describe(failure)
            }
        };
        Ok(Some(trouble))
    }

    /// Executes commands until all have succeeded. `doubt`: when nothing of them can be executed any more that a lost controller had.
    fn run<'a>(
        &self,
        operation: &'static str,
        kind: Kind,
        doubt: &mut Option<Instant>,
        requests: impl Fn(&Facts) -> Vec<Request<'a>>,
    ) -> Result<Done, Error> {
        self.run_begun(operation, kind, doubt, requests, None)
    }

    /// As [`Device::run`]. `begun`: the only command is on its way already, as the first attempt.
    pub(crate) fn run_begun<'a>(
        &self,
        operation: &'static str,
        kind: Kind,
        doubt: &mut Option<Instant>,
        requests: impl Fn(&Facts) -> Vec<Request<'a>>,
        mut begun: Option<Begun>,
    ) -> Result<Done, Error> {
        let mut attempts = Attempts::default();
        let (mut done, mut by): (Vec<Option<Vec<u8>>>, Option<u64>) = (Vec::new(), None);
        loop {
            let begun = begun.take();
            let (index, controller) = match &begun {
                Some(begun) => begun.by(),
                None => self.choose(attempts.avoid)?,
            };
            if begun.is_none() && kind == Kind::Read && self.must_restore.load(Ordering::Acquire) {
                self.restore()?;
                continue;
            }
            let mut pieces: Vec<Piece<'a>> =
                requests(&controller.facts).into_iter().map(Piece::new).collect();
            // What it consists of may depend on the controller: then all is done again.
            if done.len() != pieces.len() {
                (done, by) = (vec![None; pieces.len()], None);
            }
            for (piece, done) in pieces.iter_mut().zip(&done) {
                piece.answer = done.is_some().then(|| Ok(Outcome::default()));
            }
            match begun {
                Some(begun) => pieces.iter_mut().for_each(|p| p.answer = Some(begun.wait(self))),
                None => self.execute(index, &controller, &mut pieces),
            }
            let mut failed = None;
            for (piece, done) in pieces.into_iter().zip(&mut done).filter(|(_, done)| done.is_none()) {
                match piece.answer.unwrap_or(Err(Failure::Lost)) {
                    Ok(outcome) => {
                        *done = Some(outcome.data);
                        by = Some(if by.is_none_or(|b| b == controller.serial) {
                            controller.serial
                        } else {
                            0
                        });
                    }
                    Err(Failure::Status(s)) if !status::is_of_path(s) && !status::may_repeat(s) => {
                        return Err(self.refused(operation, s));
                    }
                    Err(failure) => {
                        if kind == Kind::Change && failure == Failure::Lost {
                            *doubt = (*doubt).max(Some(controller.quiet_at(&self.options)));
                        }
                        failed = Some(failure);
                    }
                }
            }
            let Some(failure) = failed else {
                return Ok(Done { data: done.into_iter().flatten().collect(), controller: by.unwrap_or(0) });
            };
            self.failed_attempt(&mut attempts, operation, failure, index, &controller)?;
        }
    }

    fn execute(&self, index: usize, controller: &Controller, pieces: &mut [Piece<'_>]) {
        let load = &self.paths[index].load;
        let waits: Vec<usize> = (0..pieces.len()).filter(|i| pieces[*i].answer.is_none()).collect();
        load.begin(waits.len() as u64);
        let began = Instant::now();
        controller.execute(pieces);
        let answered = waits
            .iter()
            .filter(|i| !matches!(pieces[**i].answer, Some(Err(Failure::Lost | Failure::Unsent)) | None));
        load.end(waits.len() as u64, answered.count() as u64, began.elapsed());
    }

    /// Decides what follows a failure that a repetition may mend.
    fn failed_attempt(
        &self,
        attempts: &mut Attempts,
        operation: &'static str,
        failure: Failure,
        index: usize,
        controller: &Controller,
    ) -> Result<(), Error> {
        attempts.avoid = Some(index);
        tracing::debug!(namespace = %self.address, portal = self.paths[index].portal, operation, ?failure, "commands are repeated");
        if let Failure::Status(s) = failure
            && status::is_of_path(s)
        {
            let since = *attempts.path_trouble.get_or_insert_with(Instant::now);
            if since.elapsed() > self.options.fast_io_fail_timeout {
                return Err(self.unreachable(since.elapsed(), status::describe(s)));
            }
            match controller.ana(self.facts.ana_group) {
                Ok(state) if state.is_accessible() => thread::sleep(PAUSE),
                Ok(state) => self.set_ana(index, controller, state),
                Err(_) => controller.cut(),
            }
            return Ok(());
        }
        attempts.repeated += 1;
        if attempts.repeated > REPETITIONS {
            let why = match (failure, controller.ended()) {
                (Failure::Lost | Failure::Unsent, Some(why)) => why.to_string(),
                _ => pieces::describe(failure),
            };
            return Err(self.failed(operation, format!("{why}, {} times", attempts.repeated)));
        }
        if !matches!(failure, Failure::Lost | Failure::Unsent) {
            thread::sleep(PAUSE * attempts.repeated);
        }
        Ok(())
    }
}

/// Attempts to execute commands.
#[derive(Default)]
struct Attempts {
    /// Those that have failed, beside those of [`Attempts::path_trouble`].
    repeated: u32,
    /// Since when the target answers that a path cannot be used.
    path_trouble: Option<Instant>,
    /// The path of the last attempt.
    avoid: Option<usize>,
}

impl Drop for RemoteNamespace {
    fn drop(&mut self) {
        self.device.close();
    }
}
