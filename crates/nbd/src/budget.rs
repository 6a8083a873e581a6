//! Memory of requests: a ceiling for each connection and one for all of them.
//!
//! Invariant: what is taken is given back when its [`Reservation`] is dropped. A request that is larger than a ceiling
//! would wait for ever: [`crate::Limits`] keeps both above the largest request.
//!
//! Must not depend on: what the memory is for.

use std::sync::Arc;

use parking_lot::{Condvar, Mutex};

/// Bytes that may be in use.
pub(crate) struct Budget {
    free: Mutex<u64>,
    given_back: Condvar,
    above: Option<Arc<Budget>>,
}

/// Bytes in use.
pub(crate) struct Reservation {
    budget: Arc<Budget>,
    bytes: u64,
}

impl Budget {
    /// A ceiling of `bytes`, below that of `above`.
    pub(crate) fn new(bytes: u64, above: Option<Arc<Budget>>) -> Arc<Budget> {
        Arc::new(Budget { free: Mutex::new(bytes), given_back: Condvar::new(), above })
    }

    /// Waits until `bytes` are free, and takes them.
    pub(crate) fn take(self: &Arc<Budget>, bytes: u64) -> Reservation {
        self.enter(bytes);
        Reservation { budget: self.clone(), bytes }
    }

    fn enter(&self, bytes: u64) {
        {
            let mut free = self.free.lock();
            self.given_back.wait_while(&mut free, |free| *free < bytes);
            *free -= bytes;
        }
        if let Some(above) = &self.above {
            above.enter(bytes);
        }
    }

    fn leave(&self, bytes: u64) {
        if let Some(above) = &self.above {
            above.leave(bytes);
        }
        *self.free.lock() += bytes;
        self.given_back.notify_all();
    }

    /// Bytes that are free.
    #[cfg(test)]
    pub(crate) fn free(&self) -> u64 {
        *self.free.lock()
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.budget.leave(self.bytes);
    }
}
