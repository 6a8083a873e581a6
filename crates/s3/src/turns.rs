//! Turns: a bounded number of places for work that costs memory before anybody vouched for the client.
//!
//! Large request heads, form fields and documents of the token service are held before a signature can be
//! checked. Each of them needs a [`Turn`]. Whoever finds all places taken waits; meanwhile the holder that began
//! first loses its place once it has had it for [`MIN_TURN`], so that half-sent requests cannot keep complete ones
//! out.
//!
//! Invariants: there are never more turns than places; a wait ends at its deadline; a free place costs one
//! uncontended lock.
//!
//! Must not depend on what the turns are for.

use ashlar_environment::time::{self, Instant};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

/// How long a turn lasts at least.
pub const MIN_TURN: Duration = Duration::from_secs(2);
/// How often a waiter looks whether the oldest turn has lasted long enough.
const LOOK: Duration = Duration::from_millis(100);

/// Places.
pub struct Turns {
    places: Arc<Semaphore>,
    patience: Duration,
    least: Duration,
    /// Who holds one, in the order in which they began.
    held: Mutex<BTreeMap<u64, (Instant, Arc<Notify>)>>,
    next: AtomicU64,
    refused: AtomicU64,
    lost: AtomicU64,
}

/// A place, until it is dropped.
pub struct Turn {
    turns: Arc<Turns>,
    ticket: u64,
    lost: Arc<Notify>,
    _place: OwnedSemaphorePermit,
}

impl Turns {
    /// `places` at a time; others wait for at most `patience`.
    pub fn new(places: usize, patience: Duration) -> Arc<Turns> {
        Turns::with(places, patience, MIN_TURN)
    }

    fn with(places: usize, patience: Duration, least: Duration) -> Arc<Turns> {
        Arc::new(Turns {
            places: Arc::new(Semaphore::new(places)),
            patience,
            least,
            held: Mutex::default(),
            next: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            lost: AtomicU64::new(0),
        })
    }

    /// Waits for a place. `lost` is told when the place must be given up. `None`: none came free in time.
    pub async fn take(self: &Arc<Turns>, lost: Arc<Notify>) -> Option<Turn> {
        let place = match self.places.clone().try_acquire_owned() {
            Ok(place) => place,
            Err(_) => match time::timeout(self.patience, self.wait()).await {
                Ok(place) => place?,
                Err(_) => {
                    self.refused.fetch_add(1, Relaxed);
                    return None;
                }
            },
        };
        let ticket = self.next.fetch_add(1, Relaxed);
        self.held.lock().insert(ticket, (Instant::now(), lost.clone()));
        Some(Turn { turns: self.clone(), ticket, lost, _place: place })
    }

    async fn wait(&self) -> Option<OwnedSemaphorePermit> {
        let mut place = std::pin::pin!(self.places.clone().acquire_owned());
        loop {
            self.end_oldest();
            if let Ok(place) = time::timeout(LOOK, place.as_mut()).await {
                return place.ok();
            }
        }
    }

    /// Ends the oldest turn, if it has lasted long enough.
    fn end_oldest(&self) {
        let mut held = self.held.lock();
        if let Some(oldest) = held.first_entry()
            && oldest.get().0.elapsed() >= self.least
        {
            let (_, lost) = oldest.remove();
            drop(held);
            lost.notify_one();
            self.lost.fetch_add(1, Relaxed);
        }
    }

    /// Waits that ended without a place, and turns that were ended for others.
    pub fn counts(&self) -> (u64, u64) {
        (self.refused.load(Relaxed), self.lost.load(Relaxed))
    }
}

impl Turn {
    /// Waits until the place must be given up.
    pub async fn lost(&self) {
        self.lost.notified().await;
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.turns.held.lock().remove(&self.ticket);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    #[tokio::test]
    async fn the_oldest_turn_ends_for_whoever_waits() {
        let turns = Turns::with(2, LONG, Duration::ZERO);
        let first = turns.take(Arc::default()).await.unwrap();
        let second = turns.take(Arc::default()).await.unwrap();
        let waiting = ashlar_environment::spawn("turns", {
            let turns = turns.clone();
            async move { turns.take(Arc::default()).await.is_some() }
        });
        first.lost().await;
        drop(first);
        assert!(waiting.await.unwrap());
        assert_eq!(turns.counts().0, 0);
        drop(second);
    }

    #[tokio::test]
    async fn a_wait_ends() {
        let turns = Turns::with(1, Duration::from_millis(5), LONG);
        let held = turns.take(Arc::default()).await.unwrap();
        assert!(turns.take(Arc::default()).await.is_none());
        assert_eq!(turns.counts(), (1, 0));
        drop(held);
        assert!(turns.take(Arc::default()).await.is_some());
    }
}
