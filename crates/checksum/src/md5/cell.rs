//! The state that a stream shares with the thread that hashes it: the queue, and the waiter.
//!
//! Invariants:
//! * Bytes are hashed in the order of their arrival: the queue is taken whole, from the front,
//!   by at most one owner. `scheduled` says that a list or a lane holds the cell; only then may
//!   a worker touch `md5`, and only otherwise may the stream.
//! * `queued` counts the bytes that have arrived and are not hashed, wherever they are.
//! * No wake-up is lost: a waiter leaves its waker and looks at the outcome under the same lock
//!   under which a worker changes the outcome and takes the waker.
//!
//! Must not depend on: lanes, threads, when to hash.

use std::collections::VecDeque;
use std::mem;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Waker;

use bytes::Bytes;
use parking_lot::{Mutex, MutexGuard};

use super::state::Md5;

/// The shared part of one stream.
pub(super) struct Cell {
    /// Unique among the streams of a scheduler.
    pub(super) id: u64,
    /// Set when the stream is dropped: the owner of the cell releases it soon.
    dropped: AtomicBool,
    inner: Mutex<Inner>,
}

/// The state under the lock.
pub(super) struct Inner {
    /// The hash so far; away in a lane while one has it.
    pub(super) md5: Md5,
    /// Queued chunks, in order. The caller bounds them with `drained`.
    pub(super) queue: VecDeque<Bytes>,
    /// Bytes that arrived and are not hashed.
    pub(super) queued: usize,
    /// A list or a lane has the cell.
    pub(super) scheduled: bool,
    /// What `finish` waits for.
    pub(super) digest: Option<[u8; 16]>,
    /// The task to wake, and when.
    pub(super) waiter: Option<(Until, Waker)>,
}

/// What a stream waits for.
#[derive(Clone, Copy)]
pub(super) enum Until {
    /// At most so many bytes are not hashed.
    Queued(usize),
    /// The digest of all; nothing comes behind the queue.
    Digest,
}

/// What a lane gets when its chunks are used up.
pub(super) enum Refill {
    /// More chunks, now in the lane.
    More,
    /// Nothing now; the hash is back in the cell, and no lane or list holds the cell.
    Idle,
    /// More chunks, left in the cell with the hash; the cell stays scheduled.
    Later,
    /// Nothing any more: the padding is next.
    Finish,
}

impl Cell {
    /// A stream without bytes.
    pub(super) fn new(id: u64) -> Cell {
        let inner = Inner {
            md5: Md5::new(),
            queue: VecDeque::new(),
            queued: 0,
            scheduled: false,
            digest: None,
            waiter: None,
        };
        Cell { id, dropped: AtomicBool::new(false), inner: Mutex::new(inner) }
    }

    /// The locked state. Held for a few instructions only, and no other lock is taken meanwhile.
    pub(super) fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock()
    }

    /// Whether the stream was dropped.
    pub(super) fn is_dropped(&self) -> bool {
        self.dropped.load(Ordering::Relaxed)
    }

    /// The stream is dropped: clears the queue and the waiter.
    pub(super) fn drop_stream(&self) {
        self.dropped.store(true, Ordering::Relaxed);
        let mut inner = self.inner.lock();
        let queue = mem::take(&mut inner.queue);
        let waiter = inner.waiter.take();
        drop(inner);
        // The drop code of their owners runs outside of the lock.
        drop((queue, waiter));
    }

    /// A lane begins with the cell: gives it the hash, and all chunks by exchange with the empty
    /// `chunks`, so that neither side allocates again.
    pub(super) fn claim(&self, chunks: &mut VecDeque<Bytes>) -> Md5 {
        let mut inner = self.inner.lock();
        assert!(inner.scheduled && chunks.is_empty(), "a lane claims what was scheduled, once");
        mem::swap(&mut inner.queue, chunks);
        inner.md5.clone()
    }

    /// A lane has used up its chunks, the last of which had `hashed` bytes. With `yields` it takes
    /// no more.
    pub(super) fn refill(
        &self,
        hashed: usize,
        chunks: &mut VecDeque<Bytes>,
        md5: &Md5,
        yields: bool,
    ) -> Refill {
        let mut inner = self.inner.lock();
        let waker = inner.hashed(hashed);
        let refill = if !inner.queue.is_empty() && yields {
            inner.md5 = md5.clone();
            Refill::Later
        } else if !inner.queue.is_empty() {
            mem::swap(&mut inner.queue, chunks);
            Refill::More
        } else if matches!(inner.waiter, Some((Until::Digest, _))) {
            Refill::Finish
        } else {
            inner.md5 = md5.clone();
            inner.scheduled = false;
            Refill::Idle
        };
        drop(inner);
        wake(waker);
        refill
    }

    /// A lane has hashed a chunk of `bytes`, and has more.
    pub(super) fn hashed(&self, bytes: usize) {
        let waker = self.inner.lock().hashed(bytes);
        wake(waker);
    }

    /// A lane has hashed the padding.
    pub(super) fn finished(&self, digest: [u8; 16]) {
        let mut inner = self.inner.lock();
        inner.digest = Some(digest);
        inner.scheduled = false;
        let waker = inner.waiter.take().map(|(_, waker)| waker);
        drop(inner);
        wake(waker);
    }

    /// A lane gives the cell up with `chunks` not hashed, and `hashed` bytes of a chunk that are;
    /// it stays scheduled.
    pub(super) fn give_back(&self, hashed: usize, md5: &Md5, mut chunks: VecDeque<Bytes>) {
        let mut inner = self.inner.lock();
        let waker = inner.hashed(hashed);
        inner.md5 = md5.clone();
        chunks.append(&mut inner.queue);
        inner.queue = chunks;
        drop(inner);
        wake(waker);
    }
}

impl Inner {
    /// Whether the condition that the stream waits for is fulfilled.
    pub(super) fn reached(&self, until: Until) -> bool {
        match until {
            Until::Queued(at_most) => self.queued <= at_most,
            Until::Digest => self.digest.is_some(),
        }
    }

    /// Counts `bytes` as hashed; returns the task to wake.
    fn hashed(&mut self, bytes: usize) -> Option<Waker> {
        assert!(bytes <= self.queued, "hashed bytes were queued");
        self.queued -= bytes;
        let reached = self.waiter.as_ref().is_some_and(|(until, _)| self.reached(*until));
        if reached { self.waiter.take().map(|(_, waker)| waker) } else { None }
    }

    /// Hashes everything that is queued on this thread, and the padding for `Until::Digest`. Only for a cell
    /// that no list or lane holds. Returns the chunks, for the caller to drop outside of the lock.
    #[must_use]
    pub(super) fn hash_here(&mut self, until: Until) -> VecDeque<Bytes> {
        assert!(!self.scheduled, "a lane has the hash");
        let chunks = mem::take(&mut self.queue);
        for chunk in &chunks {
            self.queued -= chunk.len();
            self.md5.update(chunk);
        }
        assert!(self.queued == 0, "all bytes were in the queue");
        if matches!(until, Until::Digest) {
            self.digest = Some(self.md5.clone().finish());
        }
        chunks
    }
}

fn wake(waker: Option<Waker>) {
    if let Some(waker) = waker {
        waker.wake();
    }
}
