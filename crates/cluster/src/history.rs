//! The last changes of a store, for its watchers: shared by all drivers.
//!
//! Invariants: changes are added after the driver's memory has them, in order of their revisions, and all
//! changes of one revision together. A watcher gets every change after its start once, or a reset.
//! [`History::settled`] returns only when the watchers have applied the changes (`progress` says how it knows).
//!
//! Must not depend on: where changes come from.

use std::collections::VecDeque;
use std::sync::Arc;

use futures::future::BoxFuture;
use parking_lot::Mutex;
use tokio::sync::watch;

use crate::control::{Change, Follower, Watch, Watched};
use crate::progress::{Progress, Watchers};

/// Changes kept for watchers that are behind. A watcher that is further behind must read everything again.
const KEPT: usize = 1024;

/// The last changes of one store. Cheap to clone: all clones are one history.
#[derive(Clone)]
pub struct History(Arc<Inner>);

struct Inner {
    /// A revision, the changes after it, and the present revision.
    kept: Mutex<(u64, VecDeque<Change>, u64)>,
    changed: watch::Sender<u64>,
    watchers: Watchers,
}

impl History {
    /// The history of a store at this revision.
    #[must_use]
    pub fn new(revision: u64) -> History {
        History(Arc::new(Inner {
            kept: Mutex::new((revision, VecDeque::new(), revision)),
            changed: watch::Sender::new(revision),
            watchers: Watchers::default(),
        }))
    }

    /// Adds changes, after which the store is at `revision`.
    pub fn add(&self, changes: Vec<Change>, revision: u64) {
        {
            let (base, kept, now) = &mut *self.0.kept.lock();
            kept.extend(changes);
            while kept.len() > KEPT {
                *base = kept.pop_front().map_or(*base, |c| c.revision);
            }
            *now = revision;
        }
        self.0.changed.send_replace(revision);
    }

    /// The store is at `revision`, and it is not known how it got there: watchers read everything again. It
    /// does nothing if the store was at this revision already.
    pub fn jump(&self, revision: u64) {
        {
            let mut kept = self.0.kept.lock();
            if kept.2 != revision {
                *kept = (revision, VecDeque::new(), revision);
            }
        }
        self.0.changed.send_replace(revision);
    }

    /// Follows changes after revision `from`.
    #[must_use]
    pub fn watch(&self, from: u64) -> Watch {
        let (changed, progress) = (self.0.changed.subscribe(), self.0.watchers.add());
        Watch::new(Box::new(Reader { history: self.clone(), from, changed, progress }))
    }

    /// Waits until the store is at `revision`, and every watcher that exists when this function is called has
    /// taken the changes up to it and asked for the next ones, or was dropped. It waits for ever for a
    /// revision that never comes, and for a watcher that never asks.
    pub fn settled(&self, revision: u64) -> impl Future<Output = ()> + Send + use<> {
        let mut changed = self.0.changed.subscribe();
        let watchers = self.0.watchers.settled(revision);
        async move {
            // It fails when the store has ended, and with it whoever could be behind.
            let _ = changed.wait_for(|now| *now >= revision).await.is_ok();
            watchers.await;
        }
    }

    /// What there is after `from`: the present revision, and the changes, or none if some are forgotten.
    fn after(&self, from: u64) -> (u64, Option<Vec<Change>>) {
        let (base, kept, now) = &*self.0.kept.lock();
        let news = || kept.iter().filter(|c| c.revision > from).cloned().collect();
        (*now, (from >= *base).then(news))
    }
}

struct Reader {
    history: History,
    from: u64,
    changed: watch::Receiver<u64>,
    progress: Progress,
}

impl Follower for Reader {
    fn next(&mut self) -> BoxFuture<'_, Watched> {
        Box::pin(async move {
            loop {
                self.progress.asks_after(self.from);
                self.changed.borrow_and_update();
                let (now, news) = self.history.after(self.from);
                if now > self.from {
                    self.from = now;
                    match news {
                        None => return Watched::Reset(now),
                        Some(news) if !news.is_empty() => return Watched::Changes(news),
                        Some(_) => continue,
                    }
                }
                if self.changed.changed().await.is_err() {
                    std::future::pending::<()>().await;
                }
            }
        })
    }
}
