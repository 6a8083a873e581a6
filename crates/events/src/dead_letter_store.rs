//! Dead letters: what a target refuses for good, and what was lost on the way.
//!
//! Invariant: a letter that is acknowledged survives what objects survive. Must never know how letters are kept.

use futures::future::BoxFuture;
use serde::{Deserialize, Serialize};

use crate::{Event, Result};

/// Letters of one target that are kept; the oldest make room.
pub const MOST: usize = 10_000;
/// Letters that are listed or sent again at once.
pub const PAGE: usize = 1_000;

/// What was not delivered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeadLetter {
    /// Its name on the shelf: the target and a number that grows.
    pub id: String,
    /// To whom: `ID:TYPE`.
    pub target: String,
    /// Milliseconds since 1970 when it was given up.
    pub at_ms: i64,
    /// Why.
    pub why: String,
    /// By which rule.
    #[serde(default)]
    pub rule: String,
    /// Nothing, where events were lost.
    pub event: Option<Event>,
    /// How many were lost.
    #[serde(default)]
    pub lost: u64,
}

/// Keeps letters.
pub trait DeadLetterStore: Send + Sync {
    /// Puts a letter down; it is durable when this answers.
    fn put(&self, dead_letter: DeadLetter) -> BoxFuture<'_, Result<()>>;

    /// The oldest letters to a target, or to all.
    fn list<'a>(&'a self, target: Option<&'a str>, most: usize) -> BoxFuture<'a, Result<Vec<DeadLetter>>>;

    /// Takes letters away; those that are not there are gone already.
    fn remove(&self, ids: Vec<String>) -> BoxFuture<'_, Result<()>>;
}
