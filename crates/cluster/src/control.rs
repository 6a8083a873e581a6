//! The control store as its users see it: a small key-value store whose only write names what was read.
//!
//! [`Control`] is the handle that all users hold; a [`ControlDriver`] is what is behind it, here
//! [`Embedded`](crate::Embedded). What every driver keeps to is tested by `tests/conformance.rs`.
//!
//! Invariants: reads are from memory and wait for nobody; a store is changed by an [`Update`] only, which
//! fails with `Conflict` when a key of it is not as it was read; who gets a `Conflict` and reads again sees
//! the state that was in the way, or a later one; limits hold for all drivers alike.
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

/// How often [`Control::change`] tries.
const TRIES: u32 = 16;
/// Longest pause before another try: 2 to the power of this, in milliseconds.
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

/// How the store is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Health {
    /// Members: drives that hold a copy, or servers of the store.
    pub members: usize,
    /// Of these, how many hold the present content durably.
    pub current: usize,
    /// Changes can be made.
    pub writable: bool,
    /// Present term.
    pub term: u64,
    /// Present revision.
    pub revision: u64,
}

/// What a watcher gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Watched {
    /// Changes in order, at least one; all changes of one revision together.
    Changes(Vec<Change>),
    /// The watcher was too far behind: read everything anew; watching goes on from this revision.
    Reset(u64),
}

/// A driver's side of a [`Watch`].
pub trait Follower: Send {
    /// Waits for the next changes. Dropping the future loses none.
    fn next(&mut self) -> BoxFuture<'_, Watched>;
}

/// Follows the changes of a store.
pub struct Watch(Box<dyn Follower>);

impl Watch {
    /// For drivers.
    #[must_use]
    pub fn new(follower: Box<dyn Follower>) -> Watch {
        Watch(follower)
    }

    /// Waits for the next changes. Never answers the same change twice, and leaves none out but with a
    /// [`Watched::Reset`].
    pub async fn next(&mut self) -> Watched {
        self.0.next().await
    }
}

/// What is behind a [`Control`].
///
/// A driver has the content in memory and answers reads from it. One whose content others change too keeps
/// its memory up to date by itself, and brings it up to the state in the way before it answers `Conflict`,
/// and up to the change before it answers that an update went through.
pub trait ControlDriver: Send + Sync + 'static {
    /// The deployment it belongs to.
    fn deployment(&self) -> DeploymentId;
    /// The value of `key`, from memory.
    fn get(&self, key: &str) -> Option<Value>;
    /// All keys that begin with `prefix`, in order, as of one revision, from memory.
    fn list(&self, prefix: &str) -> Vec<(String, Value)>;
    /// The present revision, from memory. It grows with each update that changes something.
    fn revision(&self) -> u64;
    /// How the store is.
    fn health(&self) -> Health;
    /// Makes sure that reads from memory that begin after this answer are linearizable.
    fn barrier(&self) -> BoxFuture<'_, Result<()>>;
    /// Makes an update, which has passed the limits; answers its revision. One that changes nothing answers
    /// the revision at which all its keys were as seen.
    fn update(&self, update: Update) -> BoxFuture<'_, Result<u64>>;
    /// Follows changes after revision `from`.
    fn watch(&self, from: u64) -> Watch;
    /// Announces that a node runs, until the announcement is dropped or the process ends; `Conflict` when
    /// another process announces the same number.
    fn announce(&self, node: u16) -> BoxFuture<'_, Result<Announcement>>;
    /// The nodes that are announced; the receiver gets each later list.
    fn announced(&self) -> watch::Receiver<Nodes>;
    /// Takes no more changes and waits for what is under way.
    fn close(&self) -> BoxFuture<'_, ()>;
}

/// The control store. Cheap to clone: all clones are one store.
#[derive(Clone)]
pub struct Control {
    driver: Arc<dyn ControlDriver>,
    /// Changes by [`Control::change`] go one after another, so that the tasks of one process do not
    /// starve each other.
    turn: Arc<tokio::sync::Mutex<()>>,
}

impl Control {
    /// Over a driver.
    #[must_use]
    pub fn new(driver: Arc<dyn ControlDriver>) -> Control {
        Control { driver, turn: Arc::default() }
    }

    /// The deployment it belongs to.
    #[must_use]
    pub fn deployment(&self) -> DeploymentId {
        self.driver.deployment()
    }

    /// The value of `key`, from memory. Who wants to change it reads it with [`Control::read`].
    #[must_use]
    pub fn get(&self, key: &str) -> Option<Value> {
        self.driver.get(key)
    }

    /// All keys that begin with `prefix`, in order, as of one revision, from memory.
    #[must_use]
    pub fn list(&self, prefix: &str) -> Vec<(String, Value)> {
        self.driver.list(prefix)
    }

    /// A key, there or not, as an [`Update`] needs it; from memory.
    #[must_use]
    pub fn read(&self, key: &str) -> Entry {
        Entry::new(key.to_owned(), self.driver.get(key))
    }

    /// All keys that begin with `prefix`, as [`Control::list`], as an [`Update`] needs them.
    #[must_use]
    pub fn entries(&self, prefix: &str) -> Vec<Entry> {
        self.driver.list(prefix).into_iter().map(|(key, value)| Entry::new(key, Some(value))).collect()
    }

    /// The present revision.
    #[must_use]
    pub fn revision(&self) -> u64 {
        self.driver.revision()
    }

    /// Makes sure that reads from memory that begin after this answer are linearizable.
    ///
    /// # Errors
    /// `Unavailable` while read-only.
    pub async fn barrier(&self) -> Result<()> {
        self.driver.barrier().await
    }

    /// Changes the store; answers the new revision. An update that changes nothing writes nothing.
    ///
    /// # Errors
    /// `Conflict` (nothing changed: a key is not as it was read; read anew and compute anew),
    /// `Unavailable` (before: nothing changed; while waiting for the store: not known, see
    /// [`Error::Unavailable`]), `TooLarge`.
    pub async fn update(&self, update: Update) -> Result<u64> {
        update.check()?;
        self.driver.update(update).await
    }

    /// Reads, computes and changes, anew as long as others are faster, within bounds. `f` reads what it
    /// needs from this store, each time, and fills the update; when it leaves it empty nothing is written.
    ///
    /// # Errors
    /// What `f` answers; `Contended` when others kept changing the same keys (nothing changed); else as
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

    /// [`Control::change`], compiled once. `fill` answers whether to go on.
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
                // Not all others at the same time again.
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

    /// Announces that a node runs, until the announcement is dropped or the process ends.
    ///
    /// # Errors
    /// `Conflict`: the number is announced already. `Unavailable`.
    pub async fn announce(&self, node: u16) -> Result<Announcement> {
        self.driver.announce(node).await
    }

    /// The nodes that are announced. The list is a hint: a node may run without being in it, and a node that
    /// has just died may still be there.
    #[must_use]
    pub fn announced(&self) -> watch::Receiver<Nodes> {
        self.driver.announced()
    }

    /// How the store is.
    #[must_use]
    pub fn health(&self) -> Health {
        self.driver.health()
    }

    /// Takes no more changes and waits for what is under way.
    pub async fn close(&self) {
        self.driver.close().await;
    }
}
