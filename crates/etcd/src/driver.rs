//! The driver: opens the store, and answers as [`ControlDriver`] says.
//!
//! Invariants: reads are served from memory, also while etcd is away. Memory begins with the snapshot on this
//! node's drives if there is one, so that an etcd that went back is noticed at the start too.
//!
//! Must not depend on: drives, what values mean.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use ashlar_cluster::{
    Announcement, Control, ControlDriver, Error as StoreError, Health, Medium, Nodes, Update, Value, Watch,
};
use ashlar_environment::spawn;
use ashlar_environment::time::{self, Instant};
use ashlar_format::{DeploymentId, DriveId};
use bytes::Bytes;
use futures::future::BoxFuture;
use tokio::sync::{mpsc, oneshot, watch};

use crate::announce::{self, Withdraw};
use crate::gateway::{Fault, Gateway};
use crate::identity::Identity;
use crate::memory::{Content, Memory};
use crate::read::{self, Greet};
use crate::shared::{PATIENCE, Shared};
use crate::snapshot::Snapshots;
use crate::wire::Keys;
use crate::{Error, Options, Result, create, follow};

/// Pause before another attempt to open.
const PAUSE: Duration = Duration::from_millis(100);
/// Pause before a store that is being restored is looked at again.
const WAIT: Duration = Duration::from_secs(1);

/// The control store in etcd. Cheap to clone: all clones are one store. It ends with the last clone.
#[derive(Clone)]
pub struct Etcd {
    shared: Arc<Shared>,
    _end: Arc<End>,
}

/// Ends the tasks.
struct End(watch::Sender<bool>);

impl Drop for End {
    fn drop(&mut self) {
        self.0.send_replace(true);
    }
}

impl Etcd {
    /// Creates the store of a new deployment with these entries. Of several processes that do so at once, one
    /// succeeds.
    ///
    /// # Errors
    /// `Exists`; otherwise see [`Error`].
    pub fn create<'a>(
        options: &'a Options,
        deployment: DeploymentId,
        entries: Vec<(String, Bytes)>,
    ) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move { create::create(options, deployment, entries).await })
    }

    /// Opens the store from etcd; `media` keep its snapshots, and more drives may come ([`Etcd::attach`]).
    /// `deployment` is the expected one, if there is one.
    ///
    /// # Errors
    /// `NotCreated`, `Unreachable` and `NoQuorum` after some seconds, `OtherDeployment`; `Replaced` if what
    /// etcd holds does not follow the snapshot.
    pub fn open<'a>(
        options: &'a Options,
        media: Vec<(DriveId, Arc<dyn Medium>)>,
        deployment: Option<DeploymentId>,
    ) -> BoxFuture<'a, Result<Etcd>> {
        Box::pin(async move {
            options.check()?;
            let gateway = Gateway::new(options)?;
            let snapshots = Snapshots::new(&options.cluster, media);
            let known = snapshots.load().await;
            let content = first(&gateway, options, known.as_ref().map(|k| &k.0), deployment).await?;
            let etcd = Etcd::start(options, gateway, snapshots, content, time::wall_ms())?;
            let until = Instant::now() + PATIENCE;
            follow::last_change(&etcd.shared, until).await?;
            follow::states(&etcd.shared).await;
            Ok(etcd)
        })
    }

    /// Opens the store from its snapshot on `media`, without etcd. Reads are served from it; changes wait for
    /// etcd, which is followed as soon as it can be reached.
    ///
    /// # Errors
    /// `NoSnapshot`, `OtherDeployment`, `Settings`.
    pub fn open_from_snapshot<'a>(
        options: &'a Options,
        media: Vec<(DriveId, Arc<dyn Medium>)>,
        deployment: Option<DeploymentId>,
    ) -> BoxFuture<'a, Result<Etcd>> {
        Box::pin(async move {
            options.check()?;
            let gateway = Gateway::new(options)?;
            let snapshots = Snapshots::new(&options.cluster, media);
            let (content, wall_ms) = snapshots.load().await.ok_or(Error::NoSnapshot)?;
            check_deployment(options, content.deployment, deployment)?;
            Etcd::start(options, gateway, snapshots, content, wall_ms)
        })
    }

    fn start(
        options: &Options,
        gateway: Gateway,
        snapshots: Snapshots,
        content: Content,
        wall_ms: i64,
    ) -> Result<Etcd> {
        let (orders, received) = mpsc::unbounded_channel();
        let memory = Memory::new(content);
        let shared = Shared::new(&options.cluster, gateway, memory, snapshots, wall_ms, orders)?;
        drop(spawn("etcd-follow", follow::run(shared.clone())));
        drop(spawn("etcd-heartbeat", follow::beat(shared.clone())));
        drop(spawn("etcd-snapshots", follow::keep(shared.clone())));
        drop(spawn("etcd-announcements", announce::run(shared.clone(), received)));
        Ok(Etcd { _end: Arc::new(End(shared.closed.clone())), shared })
    }

    /// Adds a drive, or a drive that returned, that keeps snapshots from now on. It gets one within seconds,
    /// unless it holds a newer one of this store. The drive is read and written on a thread of its own: this
    /// call waits for nothing.
    pub fn attach(&self, drive: DriveId, medium: Arc<dyn Medium>) {
        self.shared.snapshots.attach(drive, medium);
    }

    /// Detaches a drive, for instance because it failed. A write that is under way may still end.
    pub fn detach(&self, drive: DriveId) {
        self.shared.snapshots.detach(drive);
    }

    /// Uses other members from now on: their URLs for clients. Without any, those before stay in use.
    pub fn set_endpoints(&self, endpoints: &[String]) {
        if !endpoints.is_empty() {
            self.shared.gateway.set_endpoints(endpoints);
        }
    }

    /// The handle that users of the store hold.
    #[must_use]
    pub fn control(&self) -> Control {
        Control::new(Arc::new(self.clone()))
    }

    /// How far the clock of this machine is ahead of that of the member that answers, in ms; negative: it is
    /// behind. It is known to half a second, and half the time that the answer took. `None`: no member answers
    /// with a date.
    pub fn clock_offset(&self) -> BoxFuture<'_, Option<i64>> {
        Box::pin(async move { self.shared.gateway.clock_offset().await })
    }

    /// How long ago memory was last known to be current.
    #[must_use]
    pub fn age(&self) -> Duration {
        self.shared.age()
    }

    /// Why etcd cannot be used at present, and since when.
    #[must_use]
    pub fn trouble(&self) -> Option<String> {
        self.shared.trouble()
    }
}

/// As [`Etcd::clock_offset`], before there is a store. `None` also if the options cannot be used.
pub fn clock_offset(options: &Options) -> BoxFuture<'_, Option<i64>> {
    Box::pin(async move {
        options.check().ok()?;
        Gateway::new(options).ok()?.clock_offset().await
    })
}

fn check_deployment(options: &Options, found: DeploymentId, expected: Option<DeploymentId>) -> Result<()> {
    match expected {
        Some(expected) if expected != found => Err(Error::OtherDeployment {
            name: options.cluster.clone(),
            found: found.to_hex(),
            expected: expected.to_hex(),
        }),
        _ => Ok(()),
    }
}

/// The content to begin with: `known` if etcd continues it, else what etcd holds.
async fn first(
    gateway: &Gateway,
    options: &Options,
    known: Option<&Content>,
    expected: Option<DeploymentId>,
) -> Result<Content> {
    let begin = Instant::now();
    let until = begin + PATIENCE / 4;
    let mut left = gateway.members();
    loop {
        let at = *gateway.current().borrow();
        left = left.saturating_sub(1);
        match attempt(gateway, options, at, known, expected).await {
            // Every member is asked once at least.
            Err(Error::Unreachable(_) | Error::NoQuorum(_)) if left > 0 || Instant::now() < until => {
                gateway.leave(at);
                time::sleep(PAUSE).await;
            }
            Ok(Some(content)) => return Ok(content),
            // A restore takes seconds, unless it was interrupted.
            Err(Error::Incomplete(_)) if known.is_some() && Instant::now() < begin + PATIENCE => {
                tracing::info!("the control store is being restored; waiting");
                time::sleep(WAIT).await;
            }
            // Compacted meanwhile.
            Ok(None) => {}
            Err(error) => return Err(error),
        }
    }
}

async fn attempt(
    gateway: &Gateway,
    options: &Options,
    at: usize,
    known: Option<&Content>,
    expected: Option<DeploymentId>,
) -> Result<Option<Content>> {
    let keys = Keys::new(&options.cluster);
    gateway.check_version(at).await?;
    let found = match read::greet(gateway, &keys, at).await {
        Ok(found) => found,
        Err(Greet::Fault(Fault::Silent(why))) => return Err(gateway.silence(at, why).await),
        Err(Greet::Fault(fault)) => return Err(fault.into_error(&keys.root)),
        Err(Greet::Absent) if known.is_some() => {
            return Err(Error::Replaced(format!(
                "there is nothing under {}, but this node has a snapshot",
                keys.root
            )));
        }
        Err(Greet::Absent) => return Err(Error::NotCreated(options.cluster.clone())),
        // Whoever makes a store goes on where another one was interrupted, except with one that is being restored.
        Err(Greet::Incomplete(identity)) => {
            let restores = !Identity::decode(&identity)?.restored.is_empty();
            return Err(match restores || known.is_some() {
                true => Error::Incomplete(options.cluster.clone()),
                false => Error::NotCreated(options.cluster.clone()),
            });
        }
    };
    let identity = Identity::decode(&found.identity)?;
    check_deployment(options, identity.deployment()?, expected)?;
    let Some(known) = known else { return read::everything(gateway, &keys, at, &found).await };
    if found.identity != known.identity
        && let Some(continues) = identity.continues(known)
    {
        continues?;
        let content = read::everything(gateway, &keys, at, &found).await?;
        tracing::info!("the control store in etcd was restored; this node goes on with it");
        return Ok(content);
    }
    if read::follows(gateway, &keys, at, known, &found).await?.is_some() {
        return Ok(Some(known.clone()));
    }
    let content = read::everything(gateway, &keys, at, &found).await?;
    if let Some(content) = &content {
        known.precedes(content)?;
    }
    Ok(content)
}

impl ControlDriver for Etcd {
    fn deployment(&self) -> DeploymentId {
        self.shared.memory.content().deployment
    }

    fn get(&self, key: &str) -> Option<Value> {
        self.shared.memory.get(key)
    }

    fn list(&self, prefix: &str) -> Vec<(String, Value)> {
        let content = self.shared.memory.content();
        let from = content.entries.range(prefix.to_owned()..);
        from.take_while(|(k, _)| k.starts_with(prefix)).map(|(k, v)| (k.clone(), v.clone())).collect()
    }

    fn revision(&self) -> u64 {
        self.shared.memory.content().revision
    }

    fn health(&self) -> Health {
        let members = *self.shared.members.lock();
        Health {
            members: self.shared.gateway.members(),
            current: members.good,
            writable: self.shared.usable().is_ok() && !members.full,
            term: self.shared.term.load(Ordering::Relaxed),
            revision: self.revision(),
            age: self.age(),
        }
    }

    fn barrier(&self) -> BoxFuture<'_, ashlar_cluster::Result<()>> {
        Box::pin(async move {
            self.shared.usable()?;
            follow::last_change(&self.shared, Instant::now() + PATIENCE).await?;
            Ok(())
        })
    }

    fn update(&self, update: Update) -> BoxFuture<'_, ashlar_cluster::Result<u64>> {
        Box::pin(async move { self.shared.commit(&update).await })
    }

    fn watch(&self, from: u64) -> Watch {
        self.shared.memory.history().watch(from)
    }

    fn settled(&self, revision: u64) -> BoxFuture<'_, ()> {
        Box::pin(self.shared.memory.history().settled(revision))
    }

    fn announce(&self, node: u16) -> BoxFuture<'_, ashlar_cluster::Result<Announcement>> {
        Box::pin(async move {
            self.shared.usable()?;
            let (answer, answered) = oneshot::channel();
            let closed = || StoreError::Unavailable("it is closed".to_owned());
            let order = announce::Order::Announce(node, answer);
            self.shared.orders.send(order).map_err(|_| closed())?;
            answered.await.map_err(|_| closed())??;
            let withdraw = Withdraw { orders: self.shared.orders.clone(), node };
            // The caller finds itself in the list.
            let mut nodes = self.shared.nodes.subscribe();
            let _ = time::timeout(PATIENCE, nodes.wait_for(|nodes| nodes.contains(&node))).await.is_ok();
            Ok(Announcement::new(withdraw))
        })
    }

    fn announced(&self) -> watch::Receiver<Nodes> {
        self.shared.nodes.subscribe()
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            self.shared.closing.store(true, Ordering::Release);
            let _ = time::timeout(PATIENCE, self.shared.working.write()).await.is_ok();
            if !self.shared.is_closed() {
                self.shared.save().await;
                // A drive that hangs must not keep the process from ending.
                self.shared.snapshots.settled(PATIENCE / 2).await;
            }
            self.shared.closed.send_replace(true);
        })
    }
}
