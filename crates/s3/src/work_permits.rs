//! Work permits: a limited number of permits for work that costs memory before the client is authenticated.
//!
//! Large request heads, form fields and documents of the token service are held in memory before a signature
//! can be checked. Each of them needs a [`WorkPermit`]. If all are taken, a request waits; meanwhile the
//! oldest holder loses its permit once it has had it for [`MIN_HOLD`], so that incomplete requests cannot
//! block complete ones.
//!
//! Invariants: the number of permits never exceeds the limit; a wait ends at its deadline; taking a free
//! permit costs one uncontended lock.
//!
//! Must not depend on: the purpose of permits.

use ashlar_environment::time::{self, Instant};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

/// How long a permit lasts at least.
pub const MIN_HOLD: Duration = Duration::from_secs(2);
/// How often a waiter looks whether the oldest permit has lasted long enough.
const CHECK_INTERVAL: Duration = Duration::from_millis(100);

/// Places.
pub struct WorkPermits {
    places: Arc<Semaphore>,
    max_wait: Duration,
    min_hold: Duration,
    /// Who holds one, in the order in which they began.
    held: Mutex<BTreeMap<u64, (Instant, Arc<Notify>)>>,
    next: AtomicU64,
    refused: AtomicU64,
    lost: AtomicU64,
}

/// A place, until it is dropped.
pub struct WorkPermit {
    permits: Arc<WorkPermits>,
    number: u64,
    lost: Arc<Notify>,
    _place: OwnedSemaphorePermit,
}

impl WorkPermits {
    /// `places` at a time; others wait for at most `max_wait`.
    pub fn new(places: usize, max_wait: Duration) -> Arc<WorkPermits> {
        WorkPermits::with(places, max_wait, MIN_HOLD)
    }

    fn with(places: usize, max_wait: Duration, min_hold: Duration) -> Arc<WorkPermits> {
        Arc::new(WorkPermits {
            places: Arc::new(Semaphore::new(places)),
            max_wait,
            min_hold,
            held: Mutex::default(),
            next: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            lost: AtomicU64::new(0),
        })
    }

    /// Waits for a permit. `lost` is notified when the permit must be given up. `None`: none became free in
    /// time.
    pub async fn take(self: &Arc<WorkPermits>, lost: Arc<Notify>) -> Option<WorkPermit> {
        let place = match self.places.clone().try_acquire_owned() {
            Ok(place) => place,
            Err(_) => match time::timeout(self.max_wait, self.wait()).await {
                Ok(place) => place?,
                Err(_) => {
                    self.refused.fetch_add(1, Relaxed);
                    return None;
                }
            },
        };
        let number = self.next.fetch_add(1, Relaxed);
        self.held.lock().insert(number, (Instant::now(), lost.clone()));
        Some(WorkPermit { permits: self.clone(), number, lost, _place: place })
    }

    async fn wait(&self) -> Option<OwnedSemaphorePermit> {
        let mut place = std::pin::pin!(self.places.clone().acquire_owned());
        loop {
            self.end_oldest();
            if let Ok(place) = time::timeout(CHECK_INTERVAL, place.as_mut()).await {
                return place.ok();
            }
        }
    }

    /// Ends the oldest permit, if it has lasted long enough.
    fn end_oldest(&self) {
        let mut held = self.held.lock();
        if let Some(oldest) = held.first_entry()
            && oldest.get().0.elapsed() >= self.min_hold
        {
            let (_, lost) = oldest.remove();
            drop(held);
            lost.notify_one();
            self.lost.fetch_add(1, Relaxed);
        }
    }

    /// Waits that ended without a place, and permits that were ended for others.
    pub fn counts(&self) -> (u64, u64) {
        (self.refused.load(Relaxed), self.lost.load(Relaxed))
    }
}

impl WorkPermit {
    /// Waits until the place must be given up.
    pub async fn lost(&self) {
        self.lost.notified().await;
    }
}

impl Drop for WorkPermit {
    fn drop(&mut self) {
        self.permits.held.lock().remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    #[tokio::test]
    async fn oldest_turn_ends_for_a_waiter() {
        let permits = WorkPermits::with(2, LONG, Duration::ZERO);
        let first = permits.take(Arc::default()).await.unwrap();
        let second = permits.take(Arc::default()).await.unwrap();
        let waiting = ashlar_environment::spawn("permits", {
            let permits = permits.clone();
            async move { permits.take(Arc::default()).await.is_some() }
        });
        first.lost().await;
        drop(first);
        assert!(waiting.await.unwrap());
        assert_eq!(permits.counts().0, 0);
        drop(second);
    }

    #[tokio::test]
    async fn wait_ends_at_its_deadline() {
        let permits = WorkPermits::with(1, Duration::from_millis(5), LONG);
        let held = permits.take(Arc::default()).await.unwrap();
        assert!(permits.take(Arc::default()).await.is_none());
        assert_eq!(permits.counts(), (1, 0));
        drop(held);
        assert!(permits.take(Arc::default()).await.is_some());
    }
}
