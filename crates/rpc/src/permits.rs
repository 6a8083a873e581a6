//! Permits that a call holds: credit, and its place among the calls of a connection.
//!
//! Must not depend on: connections.

use std::sync::atomic::{AtomicUsize, Ordering};

use ashlar_environment::time::{Instant, timeout_at};
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::error::{Error, Unsent};

/// Permits before the deadline; none if the connection takes no more requests.
pub(crate) async fn acquire(
    semaphore: &Semaphore,
    count: u32,
    deadline: Instant,
) -> Result<Option<SemaphorePermit<'_>>, Error> {
    if let Ok(permits) = semaphore.try_acquire_many(count) {
        return Ok(Some(permits));
    }
    match timeout_at(deadline, semaphore.acquire_many(count)).await {
        Ok(Ok(permits)) => Ok(Some(permits)),
        Ok(Err(_)) => Ok(None),
        Err(_) => Err(Error::NotSent(Unsent::NoCredit)),
    }
}

/// One of a number of calls.
pub(crate) struct Counted<'a>(&'a AtomicUsize);

impl<'a> Counted<'a> {
    pub(crate) fn new(calls: &'a AtomicUsize) -> Counted<'a> {
        calls.fetch_add(1, Ordering::Relaxed);
        Counted(calls)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
