//! The control store of a cluster as the users of this node see it: a change is answered when the other running nodes
//! have applied it, so that a client that talks to several nodes sees what it did.
//!
//! Invariants: what the others say decides nothing: the change is made, and its answer waits for them at most
//! [`PATIENCE`]. Nodes that do not run, or cannot be reached, are not waited for longer than that.
//!
//! Must not depend on: what values mean.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use ashlar_cluster::{Announcement, Control, ControlDriver, Health, Nodes, Result, Update, Value, Watch};
use ashlar_environment::time::Instant;
use ashlar_etcd::Etcd;
use ashlar_format::DeploymentId;
use ashlar_rpc::Request;
use bytes::Bytes;
use futures::future::{BoxFuture, join_all};
use tokio::sync::watch;

use super::peers::{Peers, SETTLE};

/// How long the answer to a change waits for other nodes.
const PATIENCE: Duration = Duration::from_millis(500);

/// The driver.
pub(crate) struct ToldControl {
    etcd: Etcd,
    /// This node and the others, once it has connections.
    others: OnceLock<(u16, Arc<Peers>)>,
}

impl ToldControl {
    /// Over this driver; tells nobody yet.
    pub(crate) fn new(etcd: Etcd) -> Arc<ToldControl> {
        Arc::new(ToldControl { etcd, others: OnceLock::new() })
    }

    /// The handle that users of the store hold.
    pub(crate) fn control(self: &Arc<Self>) -> Control {
        Control::new(self.clone())
    }

    /// From now on, answers wait for the nodes that `peers` reaches.
    pub(crate) fn tell(&self, me: u16, peers: Arc<Peers>) {
        // It is called once.
        let _ = self.others.set((me, peers));
    }

    /// Waits until the other running nodes have applied a revision.
    async fn settle(&self, revision: u64) {
        let Some((me, peers)) = self.others.get() else { return };
        let running = self.etcd.announced().borrow().clone();
        let deadline = Instant::now() + PATIENCE;
        let asked = running.iter().filter(|n| *n != me).filter_map(|n| peers.peer(*n)).map(|peer| async move {
            let head = Bytes::copy_from_slice(&revision.to_le_bytes());
            let request = Request { method: SETTLE, head, ..Request::default() };
            if let Err(error) = peer.call(request, deadline).await {
                tracing::debug!(node = peer.node(), %error, "a change is answered before the node has applied it");
            }
        });
        join_all(asked).await;
    }
}

impl ControlDriver for ToldControl {
    fn deployment(&self) -> DeploymentId {
        self.etcd.deployment()
    }

    fn get(&self, key: &str) -> Option<Value> {
        self.etcd.get(key)
    }

    fn list(&self, prefix: &str) -> Vec<(String, Value)> {
        self.etcd.list(prefix)
    }

    fn revision(&self) -> u64 {
        self.etcd.revision()
    }

    fn health(&self) -> Health {
        self.etcd.health()
    }

    fn barrier(&self) -> BoxFuture<'_, Result<()>> {
        self.etcd.barrier()
    }

    fn update(&self, update: Update) -> BoxFuture<'_, Result<u64>> {
        Box::pin(async move {
            let changes = update.changes_something();
            let revision = self.etcd.update(update).await?;
            if changes {
                self.settle(revision).await;
            }
            Ok(revision)
        })
    }

    fn watch(&self, from: u64) -> Watch {
        self.etcd.watch(from)
    }

    fn settled(&self, revision: u64) -> BoxFuture<'_, ()> {
        self.etcd.settled(revision)
    }

    fn announce(&self, node: u16) -> BoxFuture<'_, Result<Announcement>> {
        self.etcd.announce(node)
    }

    fn announced(&self) -> watch::Receiver<Nodes> {
        self.etcd.announced()
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        self.etcd.close()
    }
}
