//! Makes a store: of a new deployment, or one that is restored.
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
use crate::identity::Identity;
use crate::shared::PATIENCE;
use crate::wire::{self, Done, Keys};
use crate::{Error, Options, Result};

/// Makes one store.
pub struct Creator {
    pub gateway: Gateway,
    pub keys: Keys,
    identity: Identity,
    /// The identity as it is in etcd while the store is not complete.
    own: Bytes,
}

/// Creates the store with these entries.
pub async fn create(
    options: &Options,
    deployment: DeploymentId,
    entries: Vec<(String, Bytes)>,
) -> Result<()> {
    let creator = Creator::new(options, Identity::new(deployment)?)?;
    creator.version().await?;
    creator.fill(entries).await?;
    creator.complete(Vec::new(), b"created").await
}

impl Creator {
    /// # Errors
    /// `Settings`.
    pub fn new(options: &Options, identity: Identity) -> Result<Creator> {
        options.check()?;
        let own = identity.encode(false);
        Ok(Creator { gateway: Gateway::new(options)?, keys: Keys::new(&options.cluster), identity, own })
    }

    /// Begins the store, or takes over one that was not completed, and puts the entries.
    ///
    /// # Errors
    /// `Exists` also if another process makes the store.
    pub async fn fill(&self, entries: Vec<(String, Bytes)>) -> Result<()> {
        self.begin().await?;
        let data = self.keys.data();
        let (mut puts, mut size) = (Vec::new(), 0);
        for (key, value) in entries {
            let cost = 2 * key.len() + value.len() + Update::PER_KEY;
            if puts.len() == Update::MAX_KEYS || size + cost > Update::MAX_BYTES {
                self.write(std::mem::take(&mut puts)).await?;
                size = 0;
            }
            puts.push(wire::put(&format!("{data}{key}"), &value));
            size += cost;
        }
        if puts.is_empty() { Ok(()) } else { self.write(puts).await }
    }

    fn taken(&self) -> Error {
        Error::Exists(self.keys.name().to_owned())
    }

    /// Refuses an etcd that is too old.
    pub async fn version(&self) -> Result<()> {
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

    /// Puts the identity.
    async fn begin(&self) -> Result<()> {
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
            let theirs = Identity::decode(&found)?;
            if theirs.complete {
                return Err(self.taken());
            }
            self.identity.may_take_over(&theirs, self.keys.name())?;
            let put = vec![wire::delete_all(&self.keys.data()), wire::put(&identity, &self.own)];
            done = self.send(vec![wire::has_value(&identity, &found)], put, look()).await?;
        }
        Ok(())
    }

    /// Puts entries.
    async fn write(&self, puts: Vec<Value>) -> Result<()> {
        let own = vec![wire::has_value(&self.keys.identity(), &self.own)];
        let done = self.send(own, puts, Vec::new()).await?;
        if done.succeeded { Ok(()) } else { Err(self.taken()) }
    }

    /// From now on the store can be opened. `also`: what must hold besides.
    ///
    /// # Errors
    /// `Exists`: another process makes the store, or `also` does not hold.
    pub async fn complete(&self, also: Vec<Value>, mark: &[u8]) -> Result<()> {
        let (key, identity) = (self.keys.identity(), self.identity.encode(true));
        let puts = vec![
            wire::put(&key, &identity),
            wire::put(&self.keys.head(), mark),
            wire::put(&self.keys.fence(), mark),
        ];
        let look = vec![wire::read(wire::range(&key))];
        let compare = [vec![wire::has_value(&key, &self.own)], also].concat();
        let done = self.send(compare, puts, look).await?;
        let made = done.succeeded || done.found(0).first().is_some_and(|p| p.value == identity);
        if made { Ok(()) } else { Err(self.taken()) }
    }

    /// Sends a transaction that may be repeated.
    pub async fn send(&self, compare: Vec<Value>, success: Vec<Value>, failure: Vec<Value>) -> Result<Done> {
        let ask = wire::txn(compare, success, failure);
        let until = Instant::now() + PATIENCE;
        let done = self.gateway.patient("/v3/kv/txn", ask, until).await;
        done.map_err(|fault| fault.into_error(&self.keys.root))
    }
}
