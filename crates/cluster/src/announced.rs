//! Which nodes run: each announces itself in the control store for as long as it lives.
//!
//! Invariants: a number is announced by one node at a time; an announcement ends with the process that made it
//! (at once here; within the time of a lease where the store is another process), so that the list is a hint
//! about who runs and never a lock. Nothing of it is stored on drives.
//!
//! Must not depend on: drives, what the nodes do.

use std::collections::BTreeSet;
use std::sync::Arc;

use tokio::sync::watch;

use crate::{Error, Result};

/// The numbers of the nodes that run, in order.
pub type Nodes = Arc<BTreeSet<u16>>;

/// Keeps a node announced; dropping it withdraws the announcement.
pub struct Announcement(
    #[expect(dead_code, reason = "it is held for what dropping it does")] Box<dyn Send + Sync>,
);

impl Announcement {
    /// For drivers: `guard` withdraws the announcement when it is dropped.
    #[must_use]
    pub fn new(guard: impl Send + Sync + 'static) -> Announcement {
        Announcement(Box::new(guard))
    }
}

/// The announcements of a store that lives in this process, for its driver.
#[derive(Clone, Default)]
pub struct Announced(watch::Sender<Nodes>);

impl Announced {
    /// Announces a node.
    ///
    /// # Errors
    /// `Conflict`: the number is announced already.
    pub fn announce(&self, node: u16) -> Result<Announcement> {
        let new = self.0.send_if_modified(|nodes| Arc::make_mut(nodes).insert(node));
        if !new {
            return Err(Error::Conflict(format!("node {node}")));
        }
        Ok(Announcement::new(Withdraw { from: self.clone(), node }))
    }

    /// The nodes that are announced; the receiver gets each later list.
    #[must_use]
    pub fn watch(&self) -> watch::Receiver<Nodes> {
        self.0.subscribe()
    }
}

struct Withdraw {
    from: Announced,
    node: u16,
}

impl Drop for Withdraw {
    fn drop(&mut self) {
        self.from.0.send_if_modified(|nodes| Arc::make_mut(nodes).remove(&self.node));
    }
}
