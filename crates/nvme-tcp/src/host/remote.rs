//! A namespace of a target as a block device of this process.
//!
//! What is repeated when a connection is lost: everything that is not answered. Reads, writes of the same data to the same place, zeros
//! and deallocations lead to the same state when they are executed twice, which the caller, who waits, cannot tell from
//! once. Flush is repeated too, after everything that it is for was written again (see `unflushed`).
//!
//! Invariants: memory is bounded by the callers' own buffers, the queues' depth, and [`crate::host::unflushed::MOST`]; a call that
//! fails says which namespace it was, and why.
//!
//! Must not depend on: what the blocks are for.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use ashlar_environment::thread;
use parking_lot::Mutex;

use crate::error::Error;
use crate::host::address::Address;
use crate::host::call::{Failure, Outcome, Piece};
use crate::host::facts::{Facts, NamespaceFacts};
use crate::host::options::HostOptions;
use crate::host::path::Path;
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

/// A namespace of a target.
pub struct RemoteNamespace {
    path: Arc<Path>,
    keeper: Mutex<Option<thread::JoinHandle<()>>>,
}

impl RemoteNamespace {
    /// Connects to a namespace. The first attempt has to succeed; later, lost connections are made again.
    ///
    /// # Errors
    /// [`Error::Connection`] if nothing answers there; [`Error::Refused`], [`Error::Protocol`], [`Error::Ended`].
    pub fn attach(address: &Address, options: HostOptions) -> Result<RemoteNamespace, Error> {
        let path = Arc::new(Path::open(address.clone(), options)?);
        let mine = path.clone();
        let keeper = thread::start("nvme-path", None, move || mine.keep())?;
        Ok(RemoteNamespace { path, keeper: Mutex::new(Some(keeper)) })
    }

    /// Where it is.
    #[must_use]
    pub fn address(&self) -> &Address {
        &self.path.address
    }

    /// What it is.
    #[must_use]
    pub fn facts(&self) -> &NamespaceFacts {
        &self.path.facts
    }

    /// Bytes.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.path.facts.blocks * u64::from(self.path.facts.block)
    }

    /// Whether it is still at its address, as far as the target can be asked now. Once another namespace was found there, all requests to
    /// this one fail.
    #[must_use]
    pub fn is_same(&self) -> bool {
        self.path.verify()
    }

    /// How often its controller was lost.
    #[must_use]
    pub fn losses(&self) -> u64 {
        self.path.losses.load(Ordering::Relaxed)
    }

    fn check(&self, at: u64, len: u64) -> Result<(), Error> {
        let (block, size) = (u64::from(self.path.facts.block), self.size());
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
        let mut at = at;
        for out in out.chunks_mut(TOGETHER.max(self.path.most)) {
            let requests = pieces::of_read(&self.path, at, out.len() as u64);
            let read = self.run("read", |_| requests.clone())?;
            for (to, from) in out.chunks_mut(self.path.most).zip(read) {
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
        for data in data.chunks(TOGETHER.max(self.path.most)) {
            self.change("write", Change::Write { at, data: data.into() })?;
            at += data.len() as u64;
        }
        Ok(())
    }

    /// Makes whole blocks read as zeros.
    ///
    /// # Errors
    /// As [`RemoteNamespace::write`].
    pub fn zero(&self, at: u64, len: u64) -> Result<(), Error> {
        self.check(at, len)?;
        let (end, step) = (at + len, TOGETHER.max(self.path.most) as u64);
        let mut at = at;
        while at < end {
            let len = step.min(end - at);
            self.change("write zeros", Change::Zero { at, len })?;
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
        let (nsid, block) = (self.path.address.nsid, u64::from(self.path.facts.block));
        let (mut first, end) = (at / block, (at + len) / block);
        while first < end && self.path.controller()?.facts.deallocate {
            let count = RANGE.min(end - first);
            let range = request::range(first, count as u32);
            self.run("deallocate", |_| vec![request::deallocate(nsid, &range)])?;
            first += count;
        }
        Ok(())
    }

    /// Makes every write that has returned durable.
    ///
    /// # Errors
    /// As [`RemoteNamespace::write`]; then such a write may be lost.
    pub fn flush(&self) -> Result<(), Error> {
        // Without a volatile write cache nothing is kept either.
        if !self.path.write_cache {
            return Ok(());
        }
        let answered = self.path.unflushed.lock().answered();
        // If the controller is lost meanwhile, what was answered is written again before the Flush is.
        self.run("flush", |_| vec![request::flush(self.path.address.nsid)])?;
        self.path.unflushed.lock().flushed(&answered);
        Ok(())
    }

    fn change(&self, operation: &'static str, change: Change) -> Result<(), Error> {
        if self.path.facts.read_only {
            return Err(self.path.failed(operation, "the namespace is read-only".into()));
        }
        if !self.path.write_cache {
            return self.run(operation, |facts| pieces::of_change(&change, &self.path, facts)).map(drop);
        }
        let number = loop {
            let mut unflushed = self.path.unflushed.lock();
            if unflushed.has_room(&change) {
                break unflushed.begin(change.clone());
            }
            drop(unflushed);
            self.flush()?;
        };
        let done = self.run(operation, |facts| pieces::of_change(&change, &self.path, facts));
        let mut unflushed = self.path.unflushed.lock();
        match &done {
            Ok(_) => unflushed.done(number),
            Err(_) => unflushed.failed(number),
        }
        done.map(drop)
    }

    /// Executes commands until all have succeeded; their data.
    fn run<'a>(
        &self,
        operation: &'static str,
        requests: impl Fn(&Facts) -> Vec<Request<'a>>,
    ) -> Result<Vec<Vec<u8>>, Error> {
        let mut done: Vec<Option<Vec<u8>>> = Vec::new();
        let mut repeated = 0;
        loop {
            let controller = self.path.controller()?;
            let mut pieces: Vec<Piece<'a>> =
                requests(&controller.facts).into_iter().map(Piece::new).collect();
            // What it consists of may depend on the controller: then all is done again.
            if done.len() != pieces.len() {
                done = vec![None; pieces.len()];
            }
            for (piece, done) in pieces.iter_mut().zip(&done) {
                piece.answer = done.is_some().then(|| Ok(Outcome::default()));
            }
            controller.execute(&mut pieces);
            let mut failed = None;
            for (piece, done) in pieces.into_iter().zip(&mut done).filter(|(_, done)| done.is_none()) {
                match piece.answer.unwrap_or(Err(Failure::Lost)) {
                    Ok(outcome) => *done = Some(outcome.data),
                    Err(Failure::Status(s)) if !status::may_repeat(s) => {
                        return Err(self.path.failed(operation, status::describe(s)));
                    }
                    Err(failure) => failed = Some(failure),
                }
            }
            let Some(failure) = failed else {
                return Ok(done.into_iter().flatten().collect());
            };
            repeated += 1;
            if repeated > REPETITIONS {
                let why = match (failure, controller.ended()) {
                    (Failure::Lost, Some(why)) => why.to_string(),
                    _ => pieces::describe(failure),
                };
                return Err(self.path.failed(operation, format!("{why}, {repeated} times")));
            }
            tracing::debug!(namespace = %self.path.address, operation, ?failure, "commands are repeated");
            if failure != Failure::Lost {
                thread::sleep(PAUSE * repeated);
            }
        }
    }
}

impl Drop for RemoteNamespace {
    fn drop(&mut self) {
        self.path.close();
        if let Some(keeper) = self.keeper.lock().take() {
            // One that panicked has ended too.
            let _ = keeper.join();
        }
    }
}
