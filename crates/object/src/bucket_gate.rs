//! The gate of a bucket: a lock that every change of its registers passes; deleting the bucket closes it (see
//! `buckets`).
//!
//! Invariants: the closer is alone when `close` returns; nothing enters while the gate is closed; a removal
//! with an unknown outcome keeps it closed. A change costs two atomic additions.
//!
//! Must not depend on: what changes do.

use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::Notify;

use crate::{Error, Result};

/// The gate is closed.
const CLOSED: u64 = 1;
/// The bucket is gone.
pub(crate) const DEAD: u64 = 2;
/// It is unknown whether the bucket is gone.
const UNDECIDED: u64 = 4;
/// The removal has begun: if its outcome stays unknown, the gate becomes undecided.
pub(crate) const REMOVING: u64 = 8;
const ONE: u64 = 16;

/// Counts the changes of the bucket that are under way, and lets one closer wait until there are none.
#[derive(Default)]
pub(crate) struct BucketGate {
    /// Multiples of [`ONE`]: the number of changes inside; low bits: flags.
    state: AtomicU64,
    moved: Notify,
}

/// A guard for being inside; dropping it leaves.
pub(crate) struct GateGuard<'a>(&'a BucketGate);

impl Drop for GateGuard<'_> {
    fn drop(&mut self) {
        if self.0.state.fetch_sub(ONE, Ordering::AcqRel) & CLOSED != 0 {
            self.0.moved.notify_waiters();
        }
    }
}

/// A guard for the closed gate. Dropping it opens the gate, unless the bucket is dead, or its removal has
/// begun and the outcome is unknown (also if the caller was dropped).
pub(crate) struct ClosedGate<'a>(&'a BucketGate);

impl Drop for ClosedGate<'_> {
    fn drop(&mut self) {
        match self.0.state.load(Ordering::Acquire) {
            s if s & DEAD != 0 => {}
            s if s & REMOVING != 0 => self.0.mark(UNDECIDED),
            _ => self.0.open(),
        }
    }
}

impl BucketGate {
    /// Enters; waits while the gate is closed.
    pub(crate) async fn enter(&self) -> Result<GateGuard<'_>> {
        loop {
            let before = self.state.fetch_add(ONE, Ordering::AcqRel);
            let pass = GateGuard(self);
            if before & (CLOSED | DEAD | UNDECIDED) == 0 {
                return Ok(pass);
            }
            drop(pass);
            let moved = self.moved.notified();
            tokio::pin!(moved);
            moved.as_mut().enable();
            let now = self.state.load(Ordering::Acquire);
            if now & DEAD != 0 {
                return Err(Error::NoSuchBucket);
            }
            if now & UNDECIDED != 0 {
                return Err(Error::Unavailable("the bucket may be deleted".to_owned()));
            }
            if now & CLOSED != 0 {
                moved.await;
            }
        }
    }

    /// Whether this process is deleting the bucket.
    pub(crate) fn is_closed(&self) -> bool {
        self.state.load(Ordering::Acquire) & (CLOSED | UNDECIDED) != 0
    }

    /// Whether the removal has begun.
    pub(crate) fn is_removing(&self) -> bool {
        self.state.load(Ordering::Acquire) & REMOVING != 0
    }

    pub(crate) fn is_undecided(&self) -> bool {
        self.state.load(Ordering::Acquire) & UNDECIDED != 0
    }

    /// Closes it and waits until nothing is inside; `None`: it is closed already.
    pub(crate) async fn close(&self) -> Option<ClosedGate<'_>> {
        if self.state.fetch_or(CLOSED, Ordering::AcqRel) & (CLOSED | DEAD | UNDECIDED) != 0 {
            return None;
        }
        let closed = ClosedGate(self);
        loop {
            let moved = self.moved.notified();
            tokio::pin!(moved);
            moved.as_mut().enable();
            if self.state.load(Ordering::Acquire) < ONE {
                return Some(closed);
            }
            moved.await;
        }
    }

    pub(crate) fn open(&self) {
        self.state.fetch_and(!(CLOSED | UNDECIDED | REMOVING), Ordering::AcqRel);
        self.moved.notify_waiters();
    }

    pub(crate) fn unmark(&self, flag: u64) {
        self.state.fetch_and(!flag, Ordering::AcqRel);
    }

    pub(crate) fn mark(&self, flag: u64) {
        self.state.fetch_or(flag, Ordering::AcqRel);
        self.moved.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[tokio::test]
    async fn gate_excludes_changes_while_closed() {
        let gate = Arc::new(BucketGate::default());
        let pass = gate.enter().await.unwrap();
        let closer = {
            let gate = gate.clone();
            tokio::spawn(async move {
                let closed = gate.close().await.unwrap();
                tokio::task::yield_now().await;
                drop(closed);
            })
        };
        tokio::task::yield_now().await;
        assert!(gate.close().await.is_none(), "one closer at a time");
        drop(pass);
        let again = gate.enter().await.unwrap();
        closer.await.unwrap();
        drop(again);
        gate.mark(DEAD);
        assert!(matches!(gate.enter().await, Err(Error::NoSuchBucket)));
    }
}
