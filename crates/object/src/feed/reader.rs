//! Follows the feed: from a durable position, or live.
//!
//! Invariants: a reader gets every change from its position on, in order, or the number of those that are
//! lost; a slow watcher misses changes and gets their number; neither delays writers.
//!
//! Must not depend on: what readers do with changes.

use futures::future::BoxFuture;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;

use super::entry::Entry;
use super::{Change, Cursor, Feed, Shared, background, log};
use crate::{Error, Result};

/// Follows the feed from a position that survives restarts.
pub struct Reader {
    feed: Feed,
    name: String,
    /// The next position to return.
    next: u64,
    /// Changes of a segment that was read.
    read: VecDeque<Arc<Change>>,
}

/// Some changes, in order.
#[derive(Debug, Default)]
pub struct Batch {
    /// The changes.
    pub changes: Vec<Arc<Change>>,
    /// Number of changes before them that were dropped because the feed was full.
    pub lost: u64,
}

/// Where the next change is.
enum NextChanges {
    Some(Batch),
    /// It is in this segment.
    Cold(log::SegmentRef),
    /// There is nothing newer.
    Nothing,
}

impl Feed {
    /// A reader by name: it continues where it was done; a new one begins at the end. A name may have one
    /// reader at a time.
    ///
    /// # Errors
    /// `Unavailable`: a new position cannot be stored, or the feed is not open.
    pub fn reader<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<Reader>> {
        Box::pin(async move {
            let found = {
                let mut s = self.shared.state.lock();
                if !s.opened {
                    return Err(Error::Unavailable("the change feed is not open yet".to_owned()));
                }
                s.gone.retain(|n| n != name);
                s.readers.get(name).map(|c| c.done)
            };
            let done = match found {
                Some(done) => done,
                None => {
                    // Later changes are kept from now on; the stored position may be slightly before the end.
                    let at = {
                        let mut s = self.shared.state.lock();
                        let at = s.durable;
                        s.readers.insert(name.to_owned(), Cursor { done: at, saved: at });
                        at
                    };
                    if let Err(e) =
                        log::keep(&self.shared.control, self.shared.node, &[(name.to_owned(), at)], &[]).await
                    {
                        self.shared.state.lock().readers.remove(name);
                        return Err(e);
                    }
                    at
                }
            };
            Ok(Reader { feed: self.clone(), name: name.to_owned(), next: done + 1, read: VecDeque::new() })
        })
    }

    /// Removes a reader: nothing is kept for it any more.
    pub fn forget(&self, name: &str) {
        let mut s = self.shared.state.lock();
        if s.readers.remove(name).is_some() {
            s.gone.push(name.to_owned());
        }
        drop(s);
        self.shared.maintenance.notify_one();
    }

    /// Follows all changes of all buckets from now on, without a durable position.
    #[must_use]
    pub fn watch(&self) -> Watcher {
        self.shared.watchers.fetch_add(1, Ordering::SeqCst);
        Watcher { shared: self.shared.clone(), changes: self.shared.live.subscribe() }
    }
}

impl Reader {
    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The next changes, at most `max`; waits until there is one. May be cancelled and called again.
    ///
    /// # Errors
    /// `Unavailable`, `Corrupt`: the segments cannot be read now; call again later.
    pub fn next(&mut self, max: usize) -> BoxFuture<'_, Result<Batch>> {
        Box::pin(async move {
            let mut newest = self.feed.shared.newest.subscribe();
            let mut lost = 0;
            loop {
                newest.borrow_and_update();
                if !self.read.is_empty() {
                    let take = self.read.len().min(max.max(1));
                    let changes: Vec<Arc<Change>> = self.read.drain(..take).collect();
                    self.next = changes.last().map_or(self.next, |c| c.position + 1);
                    return Ok(Batch { changes, lost });
                }
                match self.find_next(max.max(1), &mut lost) {
                    NextChanges::Some(batch) => {
                        self.next = batch.changes.last().map_or(self.next, |c| c.position + 1);
                        return Ok(Batch { lost, ..batch });
                    }
                    NextChanges::Cold(segment_ref) => {
                        match background::segment(&self.feed.shared, segment_ref).await {
                            Ok(segment) => {
                                let wanted = |e: Entry| match e {
                                    Entry::Change(_, c) if c.position >= self.next => Some(c),
                                    _ => None,
                                };
                                self.read = segment.entries.into_iter().filter_map(wanted).collect();
                                if self.read.is_empty() {
                                    return Err(Error::Internal(format!(
                                        "segment {} of the change feed lacks position {}",
                                        segment_ref.number, self.next
                                    )));
                                }
                            }
                            // It was removed in the meantime, perhaps by a node that has taken it over.
                            Err(Error::Changed) => self.feed.shared.is_gone(segment_ref),
                            Err(e) => return Err(e),
                        }
                    }
                    NextChanges::Nothing => {
                        if newest.changed().await.is_err() {
                            return Err(Error::Unavailable("the change feed is closed".to_owned()));
                        }
                    }
                }
            }
        })
    }

    /// Whether there is nothing newer now.
    #[cfg(test)]
    pub(crate) fn is_at_end(&self) -> bool {
        self.read.is_empty() && self.next >= self.feed.shared.state.lock().next
    }

    fn find_next(&mut self, max: usize, lost: &mut u64) -> NextChanges {
        let s = self.feed.shared.state.lock();
        if self.next >= s.next {
            return NextChanges::Nothing;
        }
        if let Some(first) = s.tail.front().map(|c| c.position).filter(|first| *first <= self.next) {
            let skip = (self.next - first) as usize;
            let changes = s.tail.iter().skip(skip).take(max).cloned().collect();
            return NextChanges::Some(Batch { changes, lost: 0 });
        }
        if let Some(front) = s.segments.front()
            && front.first > self.next
        {
            *lost += front.first - self.next;
            self.next = front.first;
        }
        let at = s.segments.partition_point(|p| p.first <= self.next);
        // Several segments may begin at one position if all but the last contain no change.
        match at.checked_sub(1).map(|i| s.segments[i]) {
            Some(segment_ref) => NextChanges::Cold(segment_ref),
            None => NextChanges::Nothing,
        }
    }

    /// Everything up to `position` (a returned change) is done. The position is stored soon; after a crash
    /// some changes may be returned again.
    pub fn done(&self, position: u64) {
        let mut s = self.feed.shared.state.lock();
        if let Some(cursor) = s.readers.get_mut(&self.name) {
            cursor.done = cursor.done.max(position);
        }
        drop(s);
        self.feed.shared.maintenance.notify_one();
    }

    /// Number of changes that are not done.
    #[must_use]
    pub fn lag(&self) -> u64 {
        let s = self.feed.shared.state.lock();
        s.readers.get(&self.name).map_or(0, |c| (s.next - 1).saturating_sub(c.done))
    }
}

/// Follows changes live.
pub struct Watcher {
    shared: Arc<Shared>,
    changes: Receiver<Arc<Change>>,
}

/// What a watcher receives.
#[derive(Debug)]
pub enum WatchEvent {
    /// A change; its position is 0 when its bucket is not recorded.
    Change(Arc<Change>),
    /// Number of changes missed because the watcher was slow.
    Missed(u64),
    /// The store is closed.
    Closed,
}

impl Watcher {
    /// The next change.
    pub async fn next(&mut self) -> WatchEvent {
        self.boxed_next().await
    }

    fn boxed_next(&mut self) -> BoxFuture<'_, WatchEvent> {
        Box::pin(async move {
            match self.changes.recv().await {
                Ok(change) => WatchEvent::Change(change),
                Err(RecvError::Lagged(missed)) => WatchEvent::Missed(missed),
                Err(RecvError::Closed) => WatchEvent::Closed,
            }
        })
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.shared.watchers.fetch_sub(1, Ordering::SeqCst);
    }
}
