//! Failures injected by tests, always compiled in.
//!
//! Invariants: with no fault set, the cost is one relaxed atomic load; a fault never makes an
//! operation succeed that would have failed.
//!
//! Must not depend on: the content of files.

use parking_lot::{Condvar, Mutex};
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// Which operations a fault applies to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Operation {
    /// Positioned reads.
    Read,
    /// Positioned writes.
    Write,
    /// Flushes.
    Sync,
    /// Preallocation of space.
    Allocate,
}

/// What happens to an operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// Fails with this error number (for instance `libc::EIO`).
    Error(i32),
    /// Takes this much longer.
    Delay(Duration),
    /// Read: one bit of the result is flipped.
    Corrupt,
    /// Write: reported as done, not done.
    Lost,
    /// Does not return before [`Faults::clear`]; then it continues normally.
    Hang,
}

#[derive(Clone, Copy)]
struct Rule {
    on: Operation,
    fault: Fault,
    /// Operations to let pass first.
    after: u64,
    /// How many more operations it affects.
    times: u64,
}

/// The faults of one drive. Shared between the test and the drive.
#[derive(Default)]
pub struct Faults {
    armed: AtomicBool,
    rules: Mutex<Vec<Rule>>,
    affected: AtomicU64,
    /// Calls that hang now, and how often all hanging calls were released.
    hanging: Mutex<(usize, u64)>,
    released: Condvar,
}

/// The effect of faults on an operation, apart from failing or waiting.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(crate) struct Verdict {
    pub(crate) corrupt: bool,
    pub(crate) lost: bool,
}

impl Faults {
    /// No faults yet.
    #[must_use]
    pub fn new() -> Faults {
        Faults::default()
    }
    /// `fault` affects every operation of kind `on` from now on.
    pub fn set(&self, on: Operation, fault: Fault) {
        self.set_after(on, fault, 0, u64::MAX);
    }
    /// Lets `after` operations pass, then affects `times` of them.
    pub fn set_after(&self, on: Operation, fault: Fault, after: u64, times: u64) {
        self.rules.lock().push(Rule { on, fault, after, times });
        self.armed.store(true, Ordering::SeqCst);
    }
    /// Removes all faults; hanging calls continue.
    pub fn clear(&self) {
        self.armed.store(false, Ordering::SeqCst);
        self.rules.lock().clear();
        self.hanging.lock().1 += 1;
        self.released.notify_all();
    }
    /// Every operation hangs from now on, until [`Faults::clear`].
    pub fn hang(&self) {
        for on in [Operation::Read, Operation::Write, Operation::Sync, Operation::Allocate] {
            self.set(on, Fault::Hang);
        }
    }
    /// Calls that hang now.
    pub fn hanging(&self) -> usize {
        self.hanging.lock().0
    }
    /// True while any fault is set.
    pub fn is_armed(&self) -> bool {
        self.armed.load(Ordering::Relaxed)
    }
    /// How many operations a fault affected.
    pub fn affected(&self) -> u64 {
        self.affected.load(Ordering::SeqCst)
    }

    pub(crate) fn check(&self, on: Operation) -> io::Result<Verdict> {
        if !self.armed.load(Ordering::Relaxed) {
            return Ok(Verdict::default());
        }
        let mut verdict = Verdict::default();
        let mut wait = Duration::ZERO;
        let mut error = None;
        let mut hang = None;
        for r in self.rules.lock().iter_mut().filter(|r| r.on == on) {
            if r.after > 0 {
                r.after -= 1;
                continue;
            }
            if r.times == 0 {
                continue;
            }
            r.times = if r.times == u64::MAX { u64::MAX } else { r.times - 1 };
            self.affected.fetch_add(1, Ordering::SeqCst);
            match r.fault {
                Fault::Error(n) => error = Some(n),
                Fault::Delay(d) => wait += d,
                Fault::Corrupt => verdict.corrupt = true,
                Fault::Lost => verdict.lost = true,
                // Counted while the rules are locked, so that a release between here and the wait is not
                // missed.
                Fault::Hang => hang = Some(self.hanging.lock().1),
            }
        }
        if let Some(release) = hang {
            let mut h = self.hanging.lock();
            h.0 += 1;
            while h.1 == release {
                self.released.wait(&mut h);
            }
            h.0 -= 1;
        }
        if !wait.is_zero() {
            ashlar_environment::thread::sleep(wait);
        }
        match error {
            Some(n) => Err(io::Error::from_raw_os_error(n)),
            None => Ok(verdict),
        }
    }
}
