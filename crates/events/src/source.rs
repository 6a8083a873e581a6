//! The traits that delivery needs of the change feed.
//!
//! Invariants: positions grow; a reader does not return changes again that [`Reader::done`] covered, except
//! the last of them after a crash. Must not depend on how a feed is stored.

use std::sync::Arc;

use futures::future::BoxFuture;

use crate::{Event, Result, Rules};

/// A batch of events from a reader.
#[derive(Debug, Default)]
pub struct Batch {
    /// In the order of their positions. Changes that are not events are left out.
    pub events: Vec<Arc<Event>>,
    /// The last position that the batch covers.
    pub upto: u64,
    /// Changes before this batch that the feed dropped because it was full.
    pub lost: u64,
}

/// A durable position in the feed.
pub trait Reader: Send + Sync {
    /// The next events, at most `most`. Waits for at least one.
    fn next(&mut self, most: usize) -> BoxFuture<'_, Result<Batch>>;

    /// Stores that everything up to and including this position has been handled.
    fn done(&self, position: u64);

    /// How many changes the reader has not read.
    fn lag(&self) -> u64;
}

/// A change feed.
pub trait Source: Send + Sync {
    /// The reader of that name, at its stored position; at the end of the feed if it is new.
    fn reader<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<Box<dyn Reader>>>;

    /// Removes a reader permanently.
    fn forget(&self, name: &str);

    /// The names of all readers.
    fn readers(&self) -> Vec<String>;

    /// The notification rules of a bucket; `None`: it has none.
    fn rules(&self, bucket: &str) -> Option<Arc<Rules>>;
}
