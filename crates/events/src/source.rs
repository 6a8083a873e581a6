//! What delivery needs of the change feed.
//!
//! Invariants: positions grow; what [`Reader::done`] was told is not given again, but after a crash, when the
//! last of it may be. Must never know how a feed is kept.

use std::sync::Arc;

use futures::future::BoxFuture;

use crate::{Event, Result, Rules};

/// What a reader gives at once.
#[derive(Debug, Default)]
pub struct Batch {
    /// In the order of their positions. What is no event to anybody is left out.
    pub events: Vec<Arc<Event>>,
    /// All up to and including this position is in the batch, or was left out.
    pub upto: u64,
    /// Changes that the feed had no room for and dropped before them.
    pub lost: u64,
}

/// A place in the feed that is kept.
pub trait Reader: Send + Sync {
    /// The next ones: waits for at least one.
    fn next(&mut self, most: usize) -> BoxFuture<'_, Result<Batch>>;

    /// All up to and including this position has been handled.
    fn done(&self, position: u64);

    /// How many wait.
    fn lag(&self) -> u64;
}

/// A change feed.
pub trait Source: Send + Sync {
    /// The reader of that name: where it was, or at the end if it is new.
    fn reader<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<Box<dyn Reader>>>;

    /// Removes a reader for good.
    fn forget(&self, name: &str);

    /// The names of all readers.
    fn readers(&self) -> Vec<String>;

    /// Who is told what of a bucket; `None`: nobody.
    fn rules(&self, bucket: &str) -> Option<Arc<Rules>>;
}
