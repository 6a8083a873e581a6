//! Makes the store of a new deployment.
//!
//! The identity comes first, and says that the store is not complete; then the entries, in as many
//! transactions as they need; the last one makes the store complete. Whoever finds one that was not completed
//! takes it over and begins again.
//!
//! Invariants: nobody opens a store that is not complete. Of several processes that create at once, one
//! succeeds; each transaction but the first holds on to the identity of its process. Repeating any of them
//! does no harm.
//!
//! Must not depend on: how a store is opened.

use ashlar_cluster::Update;
use ashlar_environment::time::Instant;
use ashlar_format::DeploymentId;
use bytes::Bytes;
use serde_json::Value;

use crate::gateway::Gateway;
use crate::read::Identity;
use crate::shared::PATIENCE;
use crate::wire::{self, Done, Keys};
use crate::{Error, Options, Result};

struct Creator {
    gateway: Gateway,
    keys: Keys,
    /// The identity while the store is not complete.
    own: Bytes,
}

/// Creates the store with these entries.
pub async fn create(
    options: &Options,
    deployment: DeploymentId,
    entries: Vec<(String, Bytes)>,
) -> Result<()> {
    options.check()?;
    let random = || ashlar_environment::random::u64().map_err(|e| Error::Settings(e.to_string()));
    let store = format!("{:016x}{:016x}", random()?, random()?);
    let encode = |complete| {
        let identity =
            Identity { format: 1, deployment: deployment.to_hex(), store: store.clone(), complete };
        Bytes::from(serde_json::to_vec(&identity).unwrap_or_default())
    };
    let creator =
        Creator { gateway: Gateway::new(options)?, keys: Keys::new(&options.cluster), own: encode(false) };
    creator.version().await?;
    let taken = || Error::Exists(options.cluster.clone());
    creator.begin().await?.then_some(()).ok_or_else(taken)?;
    let data = creator.keys.data();
    let (mut puts, mut size) = (Vec::new(), 0);
    for (key, value) in entries {
        let cost = 2 * key.len() + value.len() + Update::PER_KEY;
        if puts.len() == Update::MAX_KEYS || size + cost > Update::MAX_BYTES {
            creator.write(std::mem::take(&mut puts)).await?.then_some(()).ok_or_else(taken)?;
            size = 0;
        }
        puts.push(wire::put(&format!("{data}{key}"), &value));
        size += cost;
    }
    if !puts.is_empty() {
        creator.write(puts).await?.then_some(()).ok_or_else(taken)?;
    }
    creator.complete(&encode(true)).await?.then_some(()).ok_or_else(taken)
}

impl Creator {
    async fn version(&self) -> Result<()> {
        let until = Instant::now() + PATIENCE;
        loop {
            let at = *self.gateway.current().borrow();
            match self.gateway.check_version(at).await {
                Err(Error::Unreachable(why)) => {
                    self.gateway.leave(at);
                    if Instant::now() >= until || self.gateway.members() == 1 {
                        return Err(Error::Unreachable(why));
                    }
                    ashlar_environment::time::sleep(std::time::Duration::from_millis(100)).await;
                }
                other => return other,
            }
        }
    }

    /// Puts the identity; false if there is a complete store.
    async fn begin(&self) -> Result<bool> {
        let identity = self.keys.identity();
        let look = || vec![wire::read(wire::range(&identity))];
        let mut done = self
            .send(vec![wire::written_at(&identity, 0)], vec![wire::put(&identity, &self.own)], look())
            .await?;
        while !done.succeeded {
            let Some(found) = done.found(0).first().map(|p| p.value.clone()) else {
                return Err(Error::Refused("the identity of the cluster was removed meanwhile".into()));
            };
            if found == self.own {
                break;
            }
            if Identity::decode(&found)?.complete {
                return Ok(false);
            }
            // Takes over what was not completed.
            let put = vec![wire::delete_all(&self.keys.data()), wire::put(&identity, &self.own)];
            done = self.send(vec![wire::has_value(&identity, &found)], put, look()).await?;
        }
        Ok(true)
    }

    /// Puts entries; false if another process creates the store.
    async fn write(&self, puts: Vec<Value>) -> Result<bool> {
        let own = vec![wire::has_value(&self.keys.identity(), &self.own)];
        Ok(self.send(own, puts, Vec::new()).await?.succeeded)
    }

    async fn complete(&self, identity: &Bytes) -> Result<bool> {
        let key = self.keys.identity();
        let puts = vec![
            wire::put(&key, identity),
            wire::put(&self.keys.head(), b"created"),
            wire::put(&self.keys.fence(), b"created"),
        ];
        let look = vec![wire::read(wire::range(&key))];
        let done = self.send(vec![wire::has_value(&key, &self.own)], puts, look).await?;
        Ok(done.succeeded || done.found(0).first().is_some_and(|p| p.value == *identity))
    }

    async fn send(&self, compare: Vec<Value>, success: Vec<Value>, failure: Vec<Value>) -> Result<Done> {
        let ask = wire::txn(compare, success, failure);
        let until = Instant::now() + PATIENCE;
        let done = self.gateway.patient("/v3/kv/txn", ask, until).await;
        done.map_err(|fault| fault.into_error(&self.keys.root))
    }
}
