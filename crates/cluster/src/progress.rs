//! How far the watchers of a store have come, for whoever must know that they have applied a change.
//!
//! A watcher that asks for the next changes has applied those that it was given before: components apply
//! changes in the loop that follows them. A component that has begun to watch and has not asked yet may still
//! hold what it read before.
//!
//! Invariants: a watcher has come as far as it had been told when it last asked, and nowhere before it first
//! asked; it never goes back. Without anybody who waits, a watcher's step costs no more than its own counter.
//!
//! Must not depend on: what the changes are.

use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use tokio::sync::watch;

/// The watchers of one store, for its driver. Cheap to clone: all clones are the same watchers.
#[derive(Clone, Default)]
pub struct Watchers(Arc<Mutex<Vec<Weak<watch::Sender<u64>>>>>);

/// How far one watcher has come. It belongs to the watcher, and ends with it.
pub struct Progress(Arc<watch::Sender<u64>>);

impl Progress {
    /// The watcher asks for what comes after `revision`. Without effect if it has come further already.
    pub fn asks_after(&self, revision: u64) {
        self.0.send_if_modified(|now| {
            let grows = *now < revision;
            *now = revision.max(*now);
            grows
        });
    }
}

impl Watchers {
    /// A new watcher.
    #[must_use]
    pub fn add(&self) -> Progress {
        let progress = Arc::new(watch::Sender::new(0));
        let mut all = self.0.lock();
        all.retain(|one| one.strong_count() > 0);
        all.push(Arc::downgrade(&progress));
        Progress(progress)
    }

    /// Waits until every watcher that exists when this function is called has come to `revision`, or has
    /// ended.
    pub fn settled(&self, revision: u64) -> impl Future<Output = ()> + Send + use<> {
        let one = |one: &Weak<watch::Sender<u64>>| one.upgrade().map(|one| one.subscribe());
        let all: Vec<watch::Receiver<u64>> = self.0.lock().iter().filter_map(one).collect();
        async move {
            for mut one in all {
                // It fails when the watcher has ended.
                let _ = one.wait_for(|now| *now >= revision).await.is_ok();
            }
        }
    }
}
