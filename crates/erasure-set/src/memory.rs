//! The memory of bodies under way: how it is divided, and how it is reclaimed from slow clients.
//!
//! | budget | share of the pool | held by |
//! |---|---|---|
//! | `readers` | 4/16 | rows that were read and not returned yet |
//! | `lent` | 2/16 | rows that were returned and that the socket has not taken |
//! | `writers` | 4/16 | whole stripes: while the client fills them, and while the drives take them |
//! | `pieces` | 3/16 | what clients sent of stripes that got no whole buffer |
//! | `decoders` | 2/16, outside of the pool | memory of decoders of compressed bodies; separate from stripes, so that a body never waits for itself |
//!
//! The rest is for what needs no share: small bodies, stripes that are mended, journals.
//!
//! A reader whose client takes nothing for [`STALL`] loses its read-ahead as soon as there are waiters; it
//! reads again when the client continues. When `lent` is used up, rows are sent as copies of at most
//! [`PIECE`] bytes, so a client that stalls holds no more than that. A writer gets a whole stripe while a
//! quarter of `writers` is free. After that it holds only what its client has sent, and gets the stripe when
//! it can be filled at once. A stripe whose client sends less than [`Limits::busy_rate`] after
//! [`Limits::grace`] is given up when there are waiters.
//!
//! Invariants: no wait is longer than [`Limits::patience`] before the first byte of a body and [`LATER`]
//! after it; reclaiming never affects a body that is being processed; what is reclaimed is lost to a writer
//! (which gets an error) and never to a reader.
//!
//! Must not depend on: who the clients are.

use crate::ahead::{Ahead, Stock};
use crate::budget::{Budget, Reclaim, Share};
use ashlar_environment::HashMap;
use ashlar_environment::time::Instant;
use ashlar_machine::{Buf, BufferPool};
use bytes::Bytes;
use parking_lot::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Weak};
use std::time::Duration;

/// A reader that was idle for this long may lose what it holds.
const STALL: Duration = Duration::from_millis(50);
/// Longest wait in the middle of a body.
pub(crate) const LATER: Duration = Duration::from_secs(30);
/// Bytes that are sent at once when no more rows can be lent, and bytes of a piece of a stripe being
/// collected.
pub(crate) const PIECE: usize = 32 << 10;
/// Like [`PIECE`], for a stripe that is collected.
pub(crate) const COLLECT: usize = 16 << 10;
/// Bodies up to this size may use the reserve.
pub(crate) const SMALL: u64 = 128 << 10;
/// Minimum interval between two checks of the holders.
const EVERY: Duration = Duration::from_millis(20);

/// How long clients may keep others waiting.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// How long a body waits for its first buffer before it is refused.
    pub patience: Duration,
    /// How long a stripe may take while others wait, whatever its rate.
    pub grace: Duration,
    /// Bytes per second below which a stripe is given up while others wait.
    pub busy_rate: u64,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { patience: Duration::from_secs(4), grace: Duration::from_secs(5), busy_rate: 64 << 10 }
    }
}

/// What is held and what was refused; see [`crate::Sets::memory`].
#[derive(Clone, Copy, Debug, Default)]
pub struct MemoryStats {
    /// Bytes of rows that were read and not returned.
    pub reading: usize,
    /// Bytes of rows that were returned and that sockets have not taken.
    pub lent: usize,
    /// Bytes of whole stripes of bodies being written.
    pub writing: usize,
    /// Bytes of stripes being collected.
    pub collecting: usize,
    /// Reads refused because memory was not available in time.
    pub refused_reads: u64,
    /// Writes refused because memory was not available in time.
    pub refused_writes: u64,
    /// Readers whose read-ahead was reclaimed.
    pub reclaimed_reads: u64,
    /// Writes given up because their clients were too slow while others waited.
    pub evicted_writes: u64,
}

/// The memory of all bodies under way.
pub(crate) struct Memory {
    pub(crate) readers: Budget,
    pub(crate) writers: Budget,
    pub(crate) pieces: Budget,
    pub(crate) decoders: Budget,
    pub(crate) reading: Readers,
    pub(crate) filling: Writers,
    pub(crate) limits: Limits,
    lent: Arc<AtomicUsize>,
    most_lent: usize,
}

impl Memory {
    pub(crate) fn new(pool: &BufferPool, limits: Limits) -> Memory {
        let part = pool.ceiling() / 16;
        Memory {
            readers: Budget::new(4 * part),
            writers: Budget::new(4 * part),
            pieces: Budget::new(3 * part),
            decoders: Budget::new(2 * part),
            reading: Readers::default(),
            filling: Writers {
                limits,
                known: Mutex::default(),
                last: Mutex::new(None),
                evicted: AtomicU64::new(0),
            },
            limits,
            lent: Arc::default(),
            most_lent: 2 * part,
        }
    }

    /// Memory for a decoder that needs `bytes`; a request for more than the total counts as one for the
    /// total. `None`: not available in time.
    pub(crate) async fn decoder(&self, bytes: usize) -> Option<Share> {
        self.decoders.take(bytes, 0, self.limits.patience, &Nobody).await
    }

    /// Lends `bytes` of rows that the receiver of an answer holds until the loan is dropped.
    pub(crate) fn lend(&self, bytes: usize) -> Option<Loan> {
        if self.lent.fetch_add(bytes, Relaxed) + bytes > self.most_lent {
            self.lent.fetch_sub(bytes, Relaxed);
            return None;
        }
        Some(Loan { lent: self.lent.clone(), bytes })
    }

    /// Whether few more rows can be lent: answers are then sent in small pieces.
    pub(crate) fn is_crowded(&self) -> bool {
        self.lent.load(Relaxed) + 2 * crate::MAX_ROW as usize > self.most_lent
    }

    pub(crate) fn stats(&self) -> MemoryStats {
        MemoryStats {
            reading: self.readers.used(),
            lent: self.lent.load(Relaxed),
            writing: self.writers.used(),
            collecting: self.pieces.used(),
            refused_reads: self.readers.refused(),
            refused_writes: self.writers.refused() + self.decoders.refused(),
            reclaimed_reads: self.reading.reclaimed.load(Relaxed),
            evicted_writes: self.filling.evicted.load(Relaxed),
        }
    }
}

/// Decoders give nothing back before they end.
struct Nobody;

impl Reclaim for Nobody {
    fn reclaim(&self, _bytes: usize) {}
}

/// Bytes of rows that a receiver holds.
pub(crate) struct Loan {
    lent: Arc<AtomicUsize>,
    bytes: usize,
}

impl Drop for Loan {
    fn drop(&mut self) {
        self.lent.fetch_sub(self.bytes, Relaxed);
    }
}

/// A piece of a row with its loan.
pub(crate) struct Lent {
    pub(crate) bytes: Bytes,
    pub(crate) _loan: Loan,
}

impl AsRef<[u8]> for Lent {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// The readers that hold memory.
#[derive(Default)]
pub(crate) struct Readers {
    known: Mutex<HashMap<usize, Weak<Ahead>>>,
    last: Mutex<Option<Instant>>,
    reclaimed: AtomicU64,
}

/// Whether the holders should be checked again.
fn is_due(last: &Mutex<Option<Instant>>) -> bool {
    let mut last = last.lock();
    let due = last.is_none_or(|at| at.elapsed() >= EVERY);
    if due {
        *last = Some(Instant::now());
    }
    due
}

impl Readers {
    pub(crate) fn add(&self, ahead: &Arc<Ahead>) {
        self.known.lock().insert(Arc::as_ptr(ahead) as usize, Arc::downgrade(ahead));
    }

    pub(crate) fn remove(&self, ahead: &Arc<Ahead>) {
        self.known.lock().remove(&(Arc::as_ptr(ahead) as usize));
    }
}

impl Reclaim for Readers {
    fn reclaim(&self, bytes: usize) {
        if !is_due(&self.last) {
            return;
        }
        let all: Vec<Arc<Ahead>> = self.known.lock().values().filter_map(Weak::upgrade).collect();
        let idle = |a: &Ahead| a.touched.lock().map(|at| at.elapsed()).filter(|idle| *idle >= STALL);
        let mut stuck: Vec<_> = all.iter().filter_map(|a| Some((idle(a)?, a))).collect();
        stuck.sort_unstable_by_key(|(idle, _)| std::cmp::Reverse(*idle));
        let mut freed = 0;
        for (_, ahead) in stuck {
            if freed >= bytes {
                return;
            }
            let mut stock = ahead.stock.lock();
            // Checked under the lock that the reader takes before it uses its stock.
            if ahead.busy.load(Relaxed) || (stock.room.is_none() && stock.fetches.is_empty()) {
                continue;
            }
            let gone = std::mem::replace(&mut *stock, Stock { lost: true, ..Stock::default() });
            drop(stock);
            freed += gone.room.iter().map(Share::bytes).sum::<usize>();
            freed += gone.fetches.iter().filter_map(|f| f.room.as_ref()).map(Share::bytes).sum::<usize>();
            self.reclaimed.fetch_add(1, Relaxed);
        }
    }
}

/// A stripe that is being filled.
#[derive(Default)]
pub(crate) enum Hold {
    /// No stripe was begun.
    #[default]
    Empty,
    /// A buffer for the whole stripe.
    Whole(Stripe),
    /// The received bytes are kept in pieces.
    Pieces(Pieces),
    /// The stripe was given up.
    Lost,
}

/// A stripe with all of its memory: space for its data rows, and for parity after them.
pub(crate) struct Stripe {
    pub(crate) buf: Buf,
    /// Bytes of each row.
    pub(crate) row: usize,
    /// Object bytes of the stripe, and how many have arrived.
    pub(crate) bytes: usize,
    pub(crate) filled: usize,
    /// Its memory, until its rows are passed on.
    pub(crate) room: Option<Share>,
    pub(crate) since: Instant,
}

/// The beginning of a stripe.
pub(crate) struct Pieces {
    pub(crate) bufs: Vec<(Buf, Share)>,
    pub(crate) bytes: usize,
    pub(crate) filled: usize,
    pub(crate) since: Instant,
}

impl Hold {
    /// Bytes held, bytes that the client sent, and since when; `None`: nothing is held.
    fn weigh(&self) -> Option<(usize, usize, Instant)> {
        match self {
            Hold::Empty | Hold::Lost => None,
            Hold::Whole(s) => Some((s.room.as_ref().map_or(0, Share::bytes), s.filled, s.since)),
            Hold::Pieces(p) => Some((p.bufs.iter().map(|b| b.1.bytes()).sum(), p.filled, p.since)),
        }
    }
}

/// The stripe of a writer that waits for its client.
pub(crate) type Parked = Mutex<Hold>;

/// The writers that wait for their clients.
pub(crate) struct Writers {
    limits: Limits,
    known: Mutex<HashMap<usize, Weak<Parked>>>,
    last: Mutex<Option<Instant>>,
    evicted: AtomicU64,
}

impl Writers {
    pub(crate) fn add(&self, parked: &Arc<Parked>) {
        self.known.lock().insert(Arc::as_ptr(parked) as usize, Arc::downgrade(parked));
    }

    pub(crate) fn remove(&self, parked: &Arc<Parked>) {
        self.known.lock().remove(&(Arc::as_ptr(parked) as usize));
    }
}

impl Reclaim for Writers {
    fn reclaim(&self, bytes: usize) {
        if !is_due(&self.last) {
            return;
        }
        let all: Vec<Arc<Parked>> = self.known.lock().values().filter_map(Weak::upgrade).collect();
        let mut slow: Vec<(u64, &Arc<Parked>)> = Vec::new();
        for parked in &all {
            let Some((_, sent, since)) = parked.lock().weigh() else { continue };
            let age = since.elapsed();
            let rate = sent as u64 * 1000 / (age.as_millis() as u64).max(1);
            if age >= self.limits.grace && rate < self.limits.busy_rate {
                slow.push((rate, parked));
            }
        }
        slow.sort_unstable_by_key(|(rate, _)| *rate);
        let mut freed = 0;
        for (_, parked) in slow {
            if freed >= bytes {
                return;
            }
            let mut hold = parked.lock();
            // The writer may have continued since.
            let Some((held, ..)) = hold.weigh() else { continue };
            let gone = std::mem::replace(&mut *hold, Hold::Lost);
            drop(hold);
            drop(gone);
            freed += held;
            self.evicted.fetch_add(1, Relaxed);
        }
    }
}
