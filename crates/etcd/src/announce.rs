//! The announcements of this process: one key per node, under one lease.
//!
//! One task carries out all orders in turn and renews the lease, so that a withdrawal and a new announcement
//! of the same number do not overtake each other.
//!
//! Invariants: a key is written only if it is absent or this process wrote it, and removed only if this
//! process wrote it. If this process ends, etcd removes its keys with the lease.
//!
//! Must not depend on: what the nodes do.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use ashlar_cluster::{Error, Result};
use ashlar_environment::time::{self, Instant};
use bytes::Bytes;
use serde_json::json;
use tokio::sync::{mpsc, oneshot};

use crate::gateway::Fault;
use crate::shared::Shared;
use crate::wire::{self, Done, Lease, Renewed};

/// Time in seconds after which etcd removes the announcements of a process that has ended.
const TTL: u64 = 10;
/// Time between two renewals.
const RENEWAL: Duration = Duration::from_secs(3);
/// How long an announcement waits for etcd.
const PATIENCE: Duration = Duration::from_secs(6);

/// What the task is asked for.
pub enum Order {
    /// Announces a node.
    Announce(u16, oneshot::Sender<Result<()>>),
    /// Withdraws its announcement.
    Withdraw(u16),
}

struct Office {
    shared: Arc<Shared>,
    nodes: BTreeSet<u16>,
    /// 0: none.
    lease: u64,
}

/// Carries out orders until the driver is closed, and then withdraws all announcements.
pub async fn run(shared: Arc<Shared>, mut orders: mpsc::UnboundedReceiver<Order>) {
    let mut closed = shared.closed.subscribe();
    let mut office = Office { shared, nodes: BTreeSet::new(), lease: 0 };
    let mut renewal = time::interval(RENEWAL);
    loop {
        tokio::select! {
            _ = async { closed.wait_for(|closed| *closed).await.is_ok() } => break,
            order = orders.recv() => match order {
                Some(Order::Announce(node, answer)) => {
                    // The caller may have given up: then nobody would withdraw it.
                    let result = office.announce(node).await;
                    if answer.send(result).is_err() {
                        office.withdraw(node).await;
                    }
                }
                Some(Order::Withdraw(node)) => office.withdraw(node).await,
                None => break,
            },
            _ = renewal.tick() => office.renew().await,
        }
    }
    if office.lease != 0 {
        let ask = wire::body(&json!({ "ID": office.lease.to_string() }));
        let revoked = office.shared.gateway.call::<serde_json::Value>("/v3/lease/revoke", ask);
        let _ = time::timeout(Duration::from_secs(1), revoked).await;
    }
}

impl Office {
    async fn announce(&mut self, node: u16) -> Result<()> {
        if !self.nodes.insert(node) {
            return Err(Error::Conflict(format!("node {node}")));
        }
        let until = Instant::now() + PATIENCE;
        let done = self.write(node, until).await;
        if done.is_err() {
            self.nodes.remove(&node);
        }
        done
    }

    /// Writes the key of a node, with a new lease if the last one is gone.
    async fn write(&mut self, node: u16, until: Instant) -> Result<()> {
        loop {
            let lease = self.leased(until).await?;
            let (key, value) = (self.shared.keys.node(node), self.shared.process.clone().into_bytes());
            let put = || vec![wire::put_leased(&key, &value, lease)];
            let look = vec![wire::read(wire::range(&key))];
            let absent = wire::txn(vec![wire::written_at(&key, 0)], put(), look);
            let done: Done = match self.ask("/v3/kv/txn", absent, until).await {
                Ok(done) => done,
                Err(Fault::Refused(_)) if Instant::now() < until => {
                    // The lease has ended meanwhile.
                    self.lease = 0;
                    continue;
                }
                Err(fault) => return Err(fault.into_error(&self.shared.keys.root).into()),
            };
            if done.succeeded {
                return Ok(());
            }
            let Some(found) = done.found(0).first() else { continue };
            if found.value != value {
                return Err(Error::Conflict(format!("node {node}")));
            }
            let own = wire::txn(vec![wire::has_value(&key, &value)], put(), Vec::new());
            match self.ask::<Done>("/v3/kv/txn", own, until).await {
                Ok(done) if done.succeeded => return Ok(()),
                Ok(_) => {}
                Err(Fault::Refused(_)) if Instant::now() < until => self.lease = 0,
                Err(fault) => return Err(fault.into_error(&self.shared.keys.root).into()),
            }
        }
    }

    async fn leased(&mut self, until: Instant) -> Result<u64> {
        if self.lease == 0 {
            let ask = wire::body(&json!({ "TTL": TTL.to_string() }));
            let given: std::result::Result<Lease, Fault> = self.ask("/v3/lease/grant", ask, until).await;
            let given = given.map_err(|f| Error::from(f.into_error(&self.shared.keys.root)))?;
            self.lease = given.id;
        }
        Ok(self.lease)
    }

    async fn withdraw(&mut self, node: u16) {
        if !self.nodes.remove(&node) {
            return;
        }
        let (key, value) = (self.shared.keys.node(node), self.shared.process.as_bytes());
        let ask = wire::txn(vec![wire::has_value(&key, value)], vec![wire::delete(&key)], Vec::new());
        let until = Instant::now() + PATIENCE;
        if let Err(fault) = self.ask::<Done>("/v3/kv/txn", ask, until).await {
            // It ends with the lease: without one, all others are announced under a new one.
            tracing::warn!(node, ?fault, "control store: an announcement could not be withdrawn");
            self.lease = 0;
        }
    }

    async fn renew(&mut self) {
        if self.nodes.is_empty() {
            return;
        }
        if self.lease != 0 {
            let ask = wire::body(&json!({ "ID": self.lease.to_string() }));
            match self.shared.gateway.call::<Renewed>("/v3/lease/keepalive", ask).await {
                Ok(Renewed { result }) if result.ttl > 0 => {}
                // The lease has ended.
                Ok(_) | Err(Fault::Refused(_)) => self.lease = 0,
                // Not answered: the next renewal is in time.
                Err(_) => return,
            }
        }
        if self.lease == 0 {
            tracing::info!("control store: the announcements of this process are made again");
            for node in self.nodes.clone() {
                if let Err(error) = self.write(node, Instant::now() + RENEWAL).await {
                    tracing::warn!(node, %error, "control store: the node cannot be announced again");
                    self.lease = 0;
                    return;
                }
            }
        }
    }

    async fn ask<T: serde::de::DeserializeOwned>(
        &self,
        path: &str,
        body: Bytes,
        until: Instant,
    ) -> std::result::Result<T, Fault> {
        self.shared.gateway.patient(path, body, until).await
    }
}

/// Withdraws an announcement when it is dropped.
pub struct Withdraw {
    pub orders: mpsc::UnboundedSender<Order>,
    pub node: u16,
}

impl Drop for Withdraw {
    fn drop(&mut self) {
        // After the end of the task, etcd removes the key with the lease.
        let _ = self.orders.send(Order::Withdraw(self.node));
    }
}
