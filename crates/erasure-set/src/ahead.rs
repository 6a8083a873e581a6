//! What a reader has ready or under way, and may lose while nobody asks for it.
//!
//! Invariant: while a [`Busy`] exists, nothing is taken back. Must not depend on: the reader (`read`,
//! `fetch`), who takes back (`memory`).

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

/// One stripe, or a run of them, under way.
pub(crate) struct Fetch {
    pub(crate) stripe: u64,
    /// Stripes of the run, all of which want the same rows.
    pub(crate) count: u64,
    /// Data rows wanted of each.
    pub(crate) want: u64,
    /// Shards asked, those that answered with bytes, those of them that were checked, and those that let
    /// us wait.
    pub(crate) asked: u64,
    pub(crate) have: u64,
    pub(crate) checked: u64,
    pub(crate) rows: SmallVec<[(u8, Frames); 4]>,
    /// `None` until something has to be waited for.
    pub(crate) waiting: Option<FuturesUnordered<RowFuture>>,
    pub(crate) late: u64,
    pub(crate) since: Instant,
    /// Memory of its rows, out of the readers' budget; `None` for a small body.
    pub(crate) room: Option<Share>,
}

/// What a reader has ready or under way.
#[derive(Default)]
pub(crate) struct Stock {
    /// Rows, in order.
    pub(crate) ready: VecDeque<Bytes>,
    /// Bytes that a row of `ready` keeps alive, as a multiple of its own.
    pub(crate) weight: usize,
    /// Memory of the rows in `ready`.
    pub(crate) room: Option<Share>,
    /// Stripes under way.
    pub(crate) fetches: VecDeque<Fetch>,
    /// All of it was taken back: the reader begins again where it was.
    pub(crate) lost: bool,
}

/// The stock of one reader, which may be taken back while nobody asks for it.
#[derive(Default)]
pub(crate) struct Ahead {
    pub(crate) stock: Mutex<Stock>,
    pub(crate) busy: AtomicBool,
    pub(crate) touched: Mutex<Option<Instant>>,
}

/// While it exists, nothing is taken back.
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
