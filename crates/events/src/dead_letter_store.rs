//! Dead letters: events that a target refused permanently, and events that were lost before delivery.
//!
//! Invariant: an acknowledged dead letter is as durable as an object. Must not depend on how dead letters are
//! stored.

use futures::future::BoxFuture;
use serde::{Deserialize, Serialize};

use crate::{Event, Result};

/// Most dead letters of one target; beyond that, the oldest are removed.
pub const MOST: usize = 10_000;
/// Most dead letters that one call lists or sends again.
pub const PAGE: usize = 1_000;

/// An event that was not delivered, or a number of lost events.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeadLetter {
    /// Its id in the store: the target and a number that grows.
    pub id: String,
    /// The target: `ID:TYPE`.
    pub target: String,
    /// When delivery was given up, in milliseconds since 1970.
    pub at_ms: i64,
    /// Why it was not delivered.
    pub why: String,
    /// The id of the rule that selected the event.
    #[serde(default)]
    pub rule: String,
    /// The event; `None` if events were lost.
    pub event: Option<Event>,
    /// How many events were lost.
    #[serde(default)]
    pub lost: u64,
}

/// Stores dead letters.
pub trait DeadLetterStore: Send + Sync {
    /// Stores a dead letter. It is durable when this returns.
    fn put(&self, dead_letter: DeadLetter) -> BoxFuture<'_, Result<()>>;

    /// The oldest dead letters of a target, or of all targets.
    fn list<'a>(&'a self, target: Option<&'a str>, most: usize) -> BoxFuture<'a, Result<Vec<DeadLetter>>>;

    /// Removes dead letters. Ids that do not exist are ignored.
    fn remove(&self, ids: Vec<String>) -> BoxFuture<'_, Result<()>>;
}
