//! The control store as its users see it: a small key-value store in which every write names what was read.
//!
//! [`Control`] is the handle that all users hold. A [`ControlDriver`] implements it: here
//! [`Embedded`](crate::Embedded), and `Etcd` in a crate of its own. `tests/conformance` tests the contract of
//! every driver.
//!
//! Invariants: reads are served from memory and wait for nothing. Only an [`Update`] changes the store; it
//! fails with `Conflict` if one of its keys is not as it was read. A caller that gets a `Conflict` and reads
//! again sees the state that caused it, or a later one. All drivers have the same limits.
//!
//! Must not depend on: drives, and what values mean.

use ashlar_environment::time;
use std::sync::Arc;
use std::time::Duration;

use ashlar_format::DeploymentId;
use bytes::Bytes;
use futures::future::BoxFuture;
use tokio::sync::watch;

use crate::announced::{Announcement, Nodes};
use crate::update::{Entry, Update};
use crate::{Error, Result};

/// Number of attempts of [`Control::change`].
const TRIES: u32 = 16;
/// Longest pause before another attempt: 2 to the power of this, in milliseconds.
const MAX_PAUSE: u32 = 6;

/// A stored value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Value {
    /// Revision of the store at which it was last written.
    pub revision: u64,
    /// The bytes.
    pub bytes: Bytes,
}

/// One change, for watchers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Revision of the store.
    pub revision: u64,
    /// The key.
    pub key: String,
    /// The new value; `None`: removed.
    pub value: Option<Bytes>,
}

/// The state of the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Health {
    /// Members: drives that hold a copy, or servers of the store.
    pub members: usize,
    /// How many of these hold the present content durably.
    pub current: usize,
    /// Whether changes can be made.
    pub writable: bool,
    /// Present term.
    pub term: u64,
    /// Present revision.
    pub revision: u64,
    /// How long ago memory was last confirmed to be current. Zero if no other process can change the store.
    pub age: Duration,
}

/// What a watcher receives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Watched {
    /// Changes in order, at least one. All changes of one revision are together.
    Changes(Vec<Change>),
    /// The watcher was too far behind: read everything again. Watching continues from this revision.
    Reset(u64),
}

/// The driver's side of a [`Watch`].
pub trait Follower: Send {
    /// Waits for the next changes. Dropping the future loses none.
    fn next(&mut self) -> BoxFuture<'_, Watched>;
}

/// Follows the changes of a store.
pub struct Watch(Box<dyn Follower>);

impl Watch {
    /// For drivers: wraps a follower.
    #[must_use]
    pub fn new(follower: Box<dyn Follower>) -> Watch {
        Watch(follower)
    }

    /// Waits for the next changes. Never returns a change twice, and skips changes only together with a
    /// [`Watched::Reset`].
    pub async fn next(&mut self) -> Watched {
        self.0.next().await
    }
}

/// The implementation of a [`Control`].
///
/// A driver keeps the content in memory and serves reads from it. If other processes change the content too,
/// the driver keeps its memory up to date by itself. Before it returns `Conflict`, its memory contains the
/// state that caused it; before it returns success, its memory contains the change.
pub trait ControlDriver: Send + Sync + 'static {
    /// The deployment that the store belongs to.
    fn deployment(&self) -> DeploymentId;
    /// The value of `key`, from memory.
    fn get(&self, key: &str) -> Option<Value>;
    /// All keys that begin with `prefix`, in ascending order, as of one revision, from memory.
    fn list(&self, prefix: &str) -> Vec<(String, Value)>;
    /// The present revision, from memory. It grows with each update that changes something.
    fn revision(&self) -> u64;
    /// The state of the store.
    fn health(&self) -> Health;
    /// Makes sure that reads from memory that begin after this call returns are linearizable.
    fn barrier(&self) -> BoxFuture<'_, Result<()>>;
    /// Makes an update that has passed the limits; returns its revision. For an update that changes nothing:
    /// the revision at which all its keys were as seen.
    fn update(&self, update: Update) -> BoxFuture<'_, Result<u64>>;
    /// Follows changes after revision `from`.
    fn watch(&self, from: u64) -> Watch;
    /// Waits until memory is at `revision`, and every [`Watch`] of this process that exists when this function
    /// is called has returned the changes up to it and was asked for the next ones, or was dropped.
    fn settled(&self, revision: u64) -> BoxFuture<'_, ()>;
    /// Announces that a node runs, until the announcement is dropped or the process ends; `Conflict` when
    /// another process announces the same number.
    fn announce(&self, node: u16) -> BoxFuture<'_, Result<Announcement>>;
    /// The announced nodes; the receiver gets each later list.
    fn announced(&self) -> watch::Receiver<Nodes>;
    /// Stops accepting changes and waits for those under way.
    fn close(&self) -> BoxFuture<'_, ()>;
}

/// The control store. Cheap to clone: all clones are one store.
#[derive(Clone)]
pub struct Control {
    driver: Arc<dyn ControlDriver>,
    /// Serializes the calls of [`Control::change`], so that the tasks of one process do not starve each
    /// other.
    turn: Arc<tokio::sync::Mutex<()>>,
}

impl Control {
    /// A store with this driver.
    #[must_use]
    pub fn new(driver: Arc<dyn ControlDriver>) -> Control {
        Control { driver, turn: Arc::default() }
    }

    /// The deployment that the store belongs to.
    #[must_use]
    pub fn deployment(&self) -> DeploymentId {
        self.driver.deployment()
    }

    /// The value of `key`, from memory. To change it, read it with [`Control::read`].
    #[must_use]
    pub fn get(&self, key: &str) -> Option<Value> {
        self.driver.get(key)
    }

    /// All keys that begin with `prefix`, in ascending order, as of one revision, from memory.
    #[must_use]
    pub fn list(&self, prefix: &str) -> Vec<(String, Value)> {
        self.driver.list(prefix)
    }

    /// A key, present or absent, as an [`Update`] needs it; from memory.
    #[must_use]
    pub fn read(&self, key: &str) -> Entry {
        Entry::new(key.to_owned(), self.driver.get(key))
    }

    /// All keys that begin with `prefix`, like [`Control::list`], as an [`Update`] needs them.
    #[must_use]
    pub fn entries(&self, prefix: &str) -> Vec<Entry> {
        self.driver.list(prefix).into_iter().map(|(key, value)| Entry::new(key, Some(value))).collect()
    }

    /// The present revision.
    #[must_use]
    pub fn revision(&self) -> u64 {
        self.driver.revision()
    }

    /// Makes sure that reads from memory that begin after this call returns are linearizable.
    ///
    /// # Errors
    /// `Unavailable` while the store is read-only.
    pub async fn barrier(&self) -> Result<()> {
        self.driver.barrier().await
    }

    /// Changes the store; returns the new revision. An update that changes nothing writes nothing.
    ///
    /// # Errors
    /// `Conflict`: nothing changed, because a key is not as it was read; read and compute again.
    /// `Unavailable`: if reported before the write, nothing changed; while waiting for the store, the outcome
    /// is unknown, see [`Error::Unavailable`]. `TooLarge`.
    pub async fn update(&self, update: Update) -> Result<u64> {
        update.check()?;
        self.driver.update(update).await
    }

    /// Reads, computes and changes, and repeats that while other writers change the same keys, up to a limit.
    /// `f` reads what it needs from this store each time, and fills the update; if it leaves the update
    /// empty, nothing is written.
    ///
    /// # Errors
    /// The error of `f`; `Contended` if others kept changing the same keys (nothing changed); otherwise like
    /// [`Control::update`].
    pub async fn change<T, E>(
        &self,
        mut f: impl FnMut(&mut Update) -> std::result::Result<T, E> + Send,
    ) -> std::result::Result<T, E>
    where
        T: Send,
        E: From<Error> + Send,
    {
        let mut answer = None;
        let mut fill = |update: &mut Update| {
            let answered = f(update);
            let goes_on = answered.is_ok();
            answer = Some(answered);
            goes_on
        };
        self.change_by(&mut fill).await?;
        let Some(answer) = answer else { unreachable!("it is asked at least once") };
        answer
    }

    /// [`Control::change`] without generics, compiled once. `fill` returns whether to continue.
    fn change_by<'a>(
        &'a self,
        fill: &'a mut (dyn FnMut(&mut Update) -> bool + Send),
    ) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let _turn = self.turn.lock().await;
            let mut contended = String::new();
            for attempt in 0..TRIES {
                let mut update = Update::new();
                if !fill(&mut update) || update.is_empty() {
                    return Ok(());
                }
                match self.update(update).await {
                    Ok(_) => return Ok(()),
                    Err(Error::Conflict(key)) => contended = key,
                    Err(e) => return Err(e),
                }
                // A random pause, so that writers do not all retry at the same time.
                let mut chance = [0];
                let _ = ashlar_environment::random::fill(&mut chance);
                let most = 1000_u64 << attempt.min(MAX_PAUSE);
                time::sleep(Duration::from_micros(most * u64::from(chance[0]) / 255)).await;
            }
            Err(Error::Contended(contended))
        })
    }

    /// Follows changes after revision `from`.
    #[must_use]
    pub fn watch(&self, from: u64) -> Watch {
        self.driver.watch(from)
    }

    /// Waits until this process has applied what changed up to `revision`: memory is at that revision, and
    /// every [`Watch`] that exists when this function is called has returned those changes and was asked for
    /// the next ones, or was dropped. A watch that was never asked for anything counts as one that has taken
    /// nothing. There is no limit of time: a revision that never comes, or a watch that nobody asks, is waited
    /// for until the caller gives up.
    pub fn settled(&self, revision: u64) -> BoxFuture<'_, ()> {
        self.driver.settled(revision)
    }

    /// Announces that a node runs, until the announcement is dropped or the process ends.
    ///
    /// # Errors
    /// `Conflict`: the number is announced already. `Unavailable`.
    pub async fn announce(&self, node: u16) -> Result<Announcement> {
        self.driver.announce(node).await
    }

    /// The announced nodes. The list is a hint: a node may run without being in it, and a node that has just
    /// crashed may still be in it.
    #[must_use]
    pub fn announced(&self) -> watch::Receiver<Nodes> {
        self.driver.announced()
    }

    /// The state of the store.
    #[must_use]
    pub fn health(&self) -> Health {
        self.driver.health()
    }

    /// Stops accepting changes and waits for those under way.
    pub async fn close(&self) {
        self.driver.close().await;
    }
}
