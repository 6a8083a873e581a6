//! What listeners want to hear of, and where they hear of the changes that other nodes make.
//!
//! Must not depend on: how other nodes are asked.

use ashlar_events::{Event, Names};
use bytes::Bytes;
use futures::future::BoxFuture;

/// What a listener wants to hear of.
#[derive(Clone, Debug)]
pub struct Filter {
    /// The bucket; empty: all.
    pub bucket: String,
    /// Keys begin so.
    pub prefix: String,
    /// Keys end so.
    pub suffix: String,
    /// Which events, as text: names, or beginnings with a star.
    pub events: Vec<String>,
    /// The same.
    pub names: Names,
}

impl Filter {
    /// # Errors
    /// The text that is no event.
    pub fn new(
        bucket: String,
        prefix: String,
        suffix: String,
        events: Vec<String>,
    ) -> Result<Filter, String> {
        let mut names = Names::default();
        for event in &events {
            names = names.and(Names::parse(event).ok_or_else(|| event.clone())?);
        }
        Ok(Filter { bucket, prefix, suffix, events, names })
    }

    pub(super) fn fits(&self, event: &Event) -> bool {
        self.names.has(event.name)
            && (self.bucket.is_empty() || self.bucket == event.bucket)
            && event.key.starts_with(&self.prefix)
            && event.key.ends_with(&self.suffix)
    }
}

/// Where listeners hear of the changes that other nodes make.
pub trait Elsewhere: Send + Sync + 'static {
    /// Begins to listen at all other nodes. Ready when those that answer have begun.
    fn listen(&self, filter: &Filter) -> BoxFuture<'static, Box<dyn Heard>>;
}

/// A listener at other nodes.
pub trait Heard: Send + 'static {
    /// The next lines; waits without end for them. What was received is not lost if this is given up.
    fn next(&mut self) -> BoxFuture<'_, Bytes>;
}
