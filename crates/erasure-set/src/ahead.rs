//! What a reader has read ahead: rows that are ready, and fetches under way. It may be reclaimed while the
//! reader is idle.
//!
//! Invariant: while a [`Busy`] exists, nothing is reclaimed.
//!
//! Must not depend on: the reader (`read`, `fetch`), the code that reclaims (`memory`).

use crate::budget::Share;
use ashlar_drive::{Check, Error as DriveError, Frames, ReaderHandle};
use ashlar_environment::time::Instant;
use bytes::Bytes;
use futures::stream::FuturesUnordered;
use parking_lot::Mutex;
use smallvec::SmallVec;
use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

pub(crate) type RowFuture = Pin<Box<dyn Future<Output = Row> + Send>>;

/// The answer to a fetch of one row, or of the rows of a run.
pub(crate) struct Row {
    pub(crate) shard: u8,
    pub(crate) reader: Option<Arc<ReaderHandle>>,
    pub(crate) bytes: Result<Frames, DriveError>,
    pub(crate) check: Check,
    pub(crate) took: Duration,
}

/// A fetch of one stripe, or of a run of stripes.
pub(crate) struct Fetch {
    pub(crate) stripe: u64,
    /// Stripes of the run; all of them want the same rows.
    pub(crate) count: u64,
    /// Data rows wanted of each.
    pub(crate) want: u64,
    /// Shards that were asked, those that answered with bytes, those of them that were checked, and those
    /// whose answer is late.
    pub(crate) asked: u64,
    pub(crate) have: u64,
    pub(crate) checked: u64,
    pub(crate) rows: SmallVec<[(u8, Frames); 4]>,
    /// `None` until some answer has to be waited for.
    pub(crate) waiting: Option<FuturesUnordered<RowFuture>>,
    pub(crate) late: u64,
    pub(crate) since: Instant,
    /// Memory of its rows, from the readers' budget; `None` for a small body.
    pub(crate) room: Option<Share>,
}

/// What a reader has ready or is fetching.
#[derive(Default)]
pub(crate) struct Stock {
    /// Rows, in order.
    pub(crate) ready: VecDeque<Bytes>,
    /// Bytes that a row of `ready` keeps allocated, as a multiple of its own.
    pub(crate) weight: usize,
    /// Memory of the rows in `ready`.
    pub(crate) room: Option<Share>,
    /// Fetches under way.
    pub(crate) fetches: VecDeque<Fetch>,
    /// Everything was reclaimed: the reader starts again at its position.
    pub(crate) lost: bool,
}

/// The stock of one reader, which may be reclaimed while the reader is idle.
#[derive(Default)]
pub(crate) struct Ahead {
    pub(crate) stock: Mutex<Stock>,
    pub(crate) busy: AtomicBool,
    pub(crate) touched: Mutex<Option<Instant>>,
}

/// A guard: while it exists, nothing is reclaimed.
pub(crate) struct Busy<'a>(&'a Ahead);

impl Ahead {
    pub(crate) fn work(&self) -> Busy<'_> {
        self.busy.store(true, Relaxed);
        Busy(self)
    }
}

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        *self.0.touched.lock() = Some(Instant::now());
        self.0.busy.store(false, Relaxed);
    }
}
