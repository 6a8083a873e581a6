//! Live notifications: listeners, and events of reads.
//!
//! Invariants: the number of listeners is limited, in total and for each identity, so that they cannot take
//! all connections; without subscribers to events of reads, a read only checks a counter and a map.
//!
//! Must not depend on: targets, XML.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

use ashlar_events::{Parsed, Site, TargetManager};
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

mod elsewhere;
mod listen;

pub use elsewhere::{Elsewhere, Filter, Heard};
pub use listen::{Listener, Stream, accessed};

/// Default limits of listeners: in total, and of one identity.
const LISTENERS: usize = 512;
const LISTENERS_EACH: usize = 64;

/// What operations share about notifications.
pub struct Notifications {
    target_manager: Option<Arc<TargetManager>>,
    parsed: Arc<Parsed>,
    listeners: Arc<Semaphore>,
    /// How many each identity has, and may have.
    each: Arc<Mutex<HashMap<String, usize>>>,
    most_each: usize,
    refused: AtomicU64,
    /// Listeners who want to hear of reads.
    reads: Arc<AtomicUsize>,
    /// True when the server stops.
    stopping: Option<watch::Receiver<bool>>,
    /// Where listeners hear of the changes of other nodes, if there are any.
    elsewhere: OnceLock<Arc<dyn Elsewhere>>,
}

impl Default for Notifications {
    /// No targets; listeners are served.
    fn default() -> Notifications {
        Notifications {
            target_manager: None,
            parsed: Arc::new(Parsed::new("")),
            listeners: Arc::new(Semaphore::new(LISTENERS)),
            each: Arc::default(),
            most_each: LISTENERS_EACH,
            refused: AtomicU64::new(0),
            reads: Arc::default(),
            stopping: None,
            elsewhere: OnceLock::new(),
        }
    }
}

impl Notifications {
    /// With targets.
    #[must_use]
    pub fn new(
        target_manager: Arc<TargetManager>,
        parsed: Arc<Parsed>,
        stopping: watch::Receiver<bool>,
    ) -> Notifications {
        Notifications {
            target_manager: Some(target_manager),
            parsed,
            stopping: Some(stopping),
            ..Notifications::default()
        }
    }

    /// From now on, listeners also hear of what happens there. The first call counts.
    pub fn listen_elsewhere(&self, elsewhere: Arc<dyn Elsewhere>) {
        // It is called once.
        let _ = self.elsewhere.set(elsewhere);
    }

    /// With other bounds on listeners: in all, and of one identity.
    #[must_use]
    pub fn bounded(self, all: usize, each: usize) -> Notifications {
        Notifications { listeners: Arc::new(Semaphore::new(all)), most_each: each, ..self }
    }

    /// Listeners that were refused because there were too many.
    #[must_use]
    pub fn refused(&self) -> u64 {
        self.refused.load(Relaxed)
    }

    fn place(&self, who: &str) -> Option<Place> {
        let place = self.listeners.clone().try_acquire_owned().ok()?;
        let mut each = self.each.lock();
        let mine = each.entry(who.to_owned()).or_default();
        if *mine >= self.most_each {
            return None;
        }
        *mine += 1;
        drop(each);
        Some(Place { each: self.each.clone(), who: who.to_owned(), _place: place })
    }

    /// The targets.
    #[must_use]
    pub fn target_manager(&self) -> Option<&Arc<TargetManager>> {
        self.target_manager.as_ref()
    }

    fn site(&self) -> Arc<Site> {
        self.target_manager.as_ref().map_or_else(Arc::default, |h| h.site().clone())
    }
}

/// A listener's place among all, and among those of its identity.
struct Place {
    each: Arc<Mutex<HashMap<String, usize>>>,
    who: String,
    _place: OwnedSemaphorePermit,
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut each = self.each.lock();
        if let Some(mine) = each.get_mut(&self.who) {
            *mine -= 1;
            if *mine == 0 {
                each.remove(&self.who);
            }
        }
    }
}

/// Listeners that want to hear of reads are counted.
struct Counted(Arc<AtomicUsize>);

impl Counted {
    fn new(of: &Arc<AtomicUsize>) -> Counted {
        of.fetch_add(1, Relaxed);
        Counted(of.clone())
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}
