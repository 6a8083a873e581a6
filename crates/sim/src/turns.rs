//! Turns between coordinators, over the network between them.
//!
//! Invariants: a message is delayed or lost like those to drives; the request of a coordinator that crashes is taken back.
//!
//! Must not depend on: what turns are for.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use ashlar_environment::simulation::{Process, spawn_in};
use ashlar_environment::time::timeout;
use ashlar_erasure_set::{Turn, TurnCalls};
use futures::future::BoxFuture;

use crate::cluster::Cluster;

/// How a coordinator asks the others.
pub(crate) struct Calls {
    pub(crate) cluster: Weak<Cluster>,
    pub(crate) me: usize,
    /// False: it crashed.
    pub(crate) alive: Arc<AtomicBool>,
}

impl TurnCalls for Calls {
    fn preferred(&self, hash: u64) -> u16 {
        let count = self.cluster.upgrade().map_or(1, |cluster| cluster.plan.coordinators);
        (hash % count as u64) as u16
    }

    fn ask(&self, node: u16, turn: Turn, patience: Duration) -> BoxFuture<'static, bool> {
        let (cluster, me, to) = (self.cluster.clone(), self.me, usize::from(node));
        let asked = async move {
            let Some(cluster) = cluster.upgrade() else { return false };
            if !cluster.network.carry(me, to).await {
                return std::future::pending().await;
            }
            let Some(giver) = cluster.coordinator(to) else { return false };
            let queues = giver.turns.clone();
            drop(giver);
            let given = queues.wait(turn, patience).await;
            match cluster.network.carry(to, me).await {
                true => given,
                false => std::future::pending().await,
            }
        };
        Box::pin(async move { timeout(patience, asked).await.unwrap_or(false) })
    }

    fn end(&self, node: u16, turn: Turn) {
        if !self.alive.load(Ordering::Relaxed) {
            return;
        }
        let (cluster, me, to) = (self.cluster.clone(), self.me, usize::from(node));
        drop(spawn_in(Process::FIRST, "end-turn", async move {
            let Some(cluster) = cluster.upgrade() else { return };
            if cluster.network.carry(me, to).await
                && let Some(giver) = cluster.coordinator(to)
            {
                giver.turns.end(turn);
            }
        }));
    }
}
