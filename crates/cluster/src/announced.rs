//! The list of running nodes: each node announces itself in the control store while its process runs.
//!
//! Invariants: at most one node announces a number at a time. An announcement ends with the process that made
//! it: at once here; within the time of a lease if the store is another process. So the list is a hint about
//! running nodes and never a lock. It is not stored on drives.
//!
//! Must not depend on: drives, what the nodes do.

use std::collections::BTreeSet;
use std::sync::Arc;

use tokio::sync::watch;

use crate::{Error, Result};

/// The numbers of the running nodes, in ascending order.
pub type Nodes = Arc<BTreeSet<u16>>;

/// Keeps a node announced; dropping it withdraws the announcement.
pub struct Announcement(
    #[expect(dead_code, reason = "it is held for what dropping it does")] Box<dyn Send + Sync>,
);

impl Announcement {
    /// For drivers: dropping `guard` withdraws the announcement.
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

    /// The announced nodes; the receiver gets each later list.
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
