//! Shards -> stripes -> bytes, around damage and slow drives.
//!
//! A healthy read fetches exactly the data rows that overlap the range and returns them as they came from the
//! drives. A row that is missing, damaged or late is reconstructed from `k` others.
//!
//! Invariants: every returned byte was verified by its drive against its identity, or computed from rows that
//! were, unless the caller takes over the check ([`ObjectReader::uncheck`]); a shortage is an error before
//! wrong bytes are returned; memory is bounded by the readers' budget, and the read-ahead of a reader with a
//! slow client is reclaimed when others wait (`memory`); damage is reported and queued for heal, never waited
//! for.
//!
//! Must not depend on: what the bytes are.

use crate::ahead::{Ahead, Fetch};
use crate::budget::Share;
use crate::memory::{LATER, Lent, PIECE};
use crate::prefetch::{Opening, Prefetched};
use crate::sets::{Inner, Sets};
use crate::table::View;
use crate::{Error, Result};
use ashlar_commit::SlotSet;
use ashlar_drive::{Check, Error as DriveError, Frames, ReaderHandle};
use ashlar_format::{Data, RegisterKey, WriteId};
use bytes::Bytes;
use futures::future::{BoxFuture, Shared};
use smallvec::SmallVec;
use std::future::Future;
use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;

/// Reads a range of one body.
pub struct ObjectReader {
    pub(crate) inner: Arc<Inner>,
    pub(crate) view: Arc<View>,
    pub(crate) owner: RegisterKey,
    pub(crate) data: Data,
    pub(crate) size: u64,
    pub(crate) range: Range<u64>,
    /// The first stripe, the next one to start, and the end.
    pub(crate) first: u64,
    pub(crate) next: u64,
    pub(crate) end: u64,
    pub(crate) shards: SmallVec<[Shard; 16]>,
    /// The rows that are ready or being fetched.
    pub(crate) ahead: Arc<Ahead>,
    /// The offset of the next byte to return.
    at: u64,
    /// Whether its read-ahead may be reclaimed.
    listed: bool,
    /// Whether it was once.
    pub(crate) was_reclaimed: bool,
    /// Whether anything was read.
    begun: bool,
    /// Memory of a small body.
    pinned: Option<Share>,
    /// Memory that was taken with the record.
    pub(crate) prefetched_room: Option<Share>,
    /// Bit i: shard i was missing or damaged.
    pub(crate) damage: u64,
    /// For heal, which has recorded the damage already.
    pub(crate) quiet: bool,
    /// Who checks the bytes that are read from now on.
    pub(crate) check: Check,
    pub(crate) over: bool,
}

/// The handle of a shard, as soon as it is open. Whoever waits drives it, so that no fetch depends on another one.
pub(crate) type Opened = Shared<BoxFuture<'static, std::result::Result<Arc<ReaderHandle>, DriveError>>>;

#[derive(Clone)]
pub(crate) enum Shard {
    Closed,
    /// It is being opened; all fetches wait for the same handle.
    Opening(Opened),
    Open(Arc<ReaderHandle>),
    /// Its drive is missing or failed.
    Away,
    /// Its drive is available but lacks the shard, or has it damaged.
    Bad,
}

impl Sets {
    /// Opens `range` of a body of `size` bytes. `owner`: the register that names the body now.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a range outside the body.
    pub fn read<'a>(
        &'a self,
        owner: &'a RegisterKey,
        data: &'a Data,
        size: u64,
        range: Range<u64>,
    ) -> BoxFuture<'a, Result<ObjectReader>> {
        Box::pin(async move { self.inner.open(owner, data, size, range, Opening::default()).await })
    }

    /// Like [`Sets::read`], with the shards that came with the record, if they are of this body.
    ///
    /// # Errors
    /// Like [`Sets::read`].
    pub fn read_prefetched<'a>(
        &'a self,
        owner: &'a RegisterKey,
        data: &'a Data,
        size: u64,
        range: Range<u64>,
        prefetched: Prefetched,
    ) -> BoxFuture<'a, Result<ObjectReader>> {
        let opening = Opening { prefetched, avoid: None };
        Box::pin(async move { self.inner.open(owner, data, size, range, opening).await })
    }
}

impl Inner {
    pub(crate) async fn open(
        self: &Arc<Self>,
        owner: &RegisterKey,
        data: &Data,
        size: u64,
        range: Range<u64>,
        opening: Opening,
    ) -> Result<ObjectReader> {
        if range.start > range.end || range.end > size {
            return Err(Error::Invalid("a range outside the body"));
        }
        let view = self.view(owner.group())?;
        if data.k + data.m != view.n() {
            return Err(Error::Invalid("data of another code"));
        }
        let stripe = u64::from(data.stripe);
        let (next, end) = match range.is_empty() {
            true => (0, 0),
            false => (range.start / stripe, (range.end - 1) / stripe + 1),
        };
        let shards = (0..view.n())
            .map(|i| if view.member(data.slot_of(i)).is_some() { Shard::Closed } else { Shard::Away })
            .collect();
        let mut reader = ObjectReader {
            inner: self.clone(),
            view,
            owner: owner.clone(),
            data: *data,
            size,
            at: range.start,
            first: next,
            listed: false,
            was_reclaimed: false,
            begun: false,
            pinned: None,
            prefetched_room: None,
            range,
            next,
            end,
            shards,
            ahead: Arc::default(),
            damage: 0,
            quiet: false,
            check: Check::Drive,
            over: false,
        };
        if let Some(slots) = opening.avoid {
            reader.avoid(slots);
        }
        reader.take_prefetched(opening.prefetched);
        reader.pin().await?;
        Ok(reader)
    }
}

impl ObjectReader {
    /// Opens the shards that a healthy read needs, as far as no device is needed. From then on they stay
    /// readable, whatever happens to the register.
    async fn pin(&mut self) -> Result<()> {
        let rows = match self.end - self.next {
            0 => 0,
            1 => self.rows(self.next),
            _ => u64::MAX >> (64 - self.data.k),
        };
        for shard in (0..self.data.k).filter(|i| rows >> i & 1 == 1) {
            self.open_now(shard);
        }
        let good = (0..self.view.n()).filter(|i| !self.is_gone(*i)).count();
        if rows != 0 && good < usize::from(self.data.k) {
            return Err(self.shortage(0, self.next).await);
        }
        Ok(())
    }

    /// For a caller that detects any change of a byte itself: from now on, bytes from drives that answer in
    /// time are returned unchecked. Reconstructed rows are made from checked ones. Damage is not found; a
    /// caller that detects it reads again without this option.
    pub fn uncheck(&mut self) {
        self.check = Check::Reader;
    }

    /// The next bytes, in order; `None` at the end of the range. After an error there is no more.
    ///
    /// # Errors
    /// [`Error::Superseded`] if the body was replaced in the meantime, [`Error::Unavailable`] or
    /// [`Error::Corrupt`] if too few shards are available.
    pub async fn next(&mut self) -> Option<Result<Bytes>> {
        self.boxed_next().await
    }

    fn boxed_next(&mut self) -> BoxFuture<'_, Option<Result<Bytes>>> {
        Box::pin(async move {
            let ahead = self.ahead.clone();
            let _busy = ahead.work();
            loop {
                if let Some(b) = self.hand_out() {
                    self.at += b.len() as u64;
                    return Some(Ok(b));
                }
                if self.over || (self.next == self.end && ahead.stock.lock().fetches.is_empty()) {
                    return None;
                }
                if let Err(e) = self.advance().await {
                    self.over = true;
                    return Some(Err(e));
                }
            }
        })
    }

    /// The next piece of what is ready. Rows are returned without a copy while enough can be lent.
    fn hand_out(&mut self) -> Option<Bytes> {
        let mut stock = self.ahead.stock.lock();
        if std::mem::take(&mut stock.lost) {
            // Starts again at its position, and reads no longer runs than it must.
            self.was_reclaimed = true;
            self.range.start = self.at;
            self.next =
                if self.at == self.range.end { self.end } else { self.at / u64::from(self.data.stripe) };
            return None;
        }
        let weight = stock.weight;
        let front = stock.ready.front_mut()?;
        if front.len() > PIECE {
            match self.inner.memory.lend(front.len() * weight) {
                Some(loan) => {
                    let bytes = stock.ready.pop_front()?;
                    return Some(Bytes::from_owner(Lent { bytes, _loan: loan }));
                }
                None => return Some(Bytes::copy_from_slice(&front.split_to(PIECE))),
            }
        }
        stock.ready.pop_front()
    }

    /// Prepares a read for heal: the shards of `slots` are not asked for, and damage is not queued again.
    fn avoid(&mut self, slots: SlotSet) {
        self.quiet = true;
        for slot in slots.iter() {
            self.shards[usize::from(self.data.shard_of(slot))] = Shard::Bad;
        }
    }

    /// Shards found missing or damaged so far: bit i is shard i. They are queued for heal.
    #[must_use]
    pub fn damage(&self) -> u64 {
        self.damage
    }

    /// Finishes the first stripe under way, and starts others if drives have to be waited for.
    async fn advance(&mut self) -> Result<()> {
        // Everything returned so far has been sent: a reader that waits for memory here holds none.
        let idle = {
            let mut stock = self.ahead.stock.lock();
            stock.room = None;
            stock.fetches.is_empty()
        };
        if idle {
            let room = match self.room() {
                0 => None,
                n => Some(self.wait_for(n).await?),
            };
            self.start_stripe(room);
        }
        let Some(mut head) = self.ahead.stock.lock().fetches.pop_front() else { return Ok(()) };
        let result = self.complete(&mut head).await;
        result?;
        self.emit(head).await
    }

    /// Memory for a run, as soon as it is available.
    async fn wait_for(&mut self, bytes: usize) -> Result<Share> {
        let memory = &self.inner.memory;
        if !std::mem::replace(&mut self.listed, true) {
            memory.reading.add(&self.ahead);
        }
        if let Some(share) = self.prefetched_room.take().filter(|share| share.bytes() >= bytes) {
            return Ok(share);
        }
        if let Some(share) = memory.readers.try_take(bytes, 0) {
            return Ok(share);
        }
        let patience = if self.begun { LATER } else { memory.limits.patience };
        let share = memory.readers.take(bytes, 0, patience, &memory.reading).await;
        share.ok_or(Error::Busy("no memory for reading came in time"))
    }

    /// The error if the stripe cannot be read.
    pub(crate) async fn shortage(&mut self, have: u32, stripe: u64) -> Error {
        let bad = self.shards.iter().filter(|s| matches!(s, Shard::Bad)).count();
        // The usual reason for missing shards: the version was replaced and its data dropped. While that cannot be
        // told, nothing is known to be damaged.
        let named = match bad > 0 && !self.quiet {
            true => named_now(&self.inner, &self.owner, self.data.write_id).await,
            false => Ok(true),
        };
        if let Ok(false) = named {
            return Error::Superseded;
        }
        let k = self.data.k;
        let state = |s: &Shard| match s {
            Shard::Bad => 'x',
            Shard::Away => '-',
            Shard::Open(_) | Shard::Opening(_) | Shard::Closed => '+',
        };
        let states: String = self.shards.iter().map(state).collect();
        let what = format!("{have} of {k} shards of stripe {stripe} can be read ({states})");
        match named {
            Ok(_) if bad > usize::from(self.data.m) => Error::Corrupt(what),
            Ok(_) => Error::Unavailable(what),
            Err(e) => {
                Error::Unavailable(format!("{what}, and whether they are still named is not known: {e}"))
            }
        }
    }

    /// Queues the wanted bytes of a complete run, reconstructing missing rows.
    async fn emit(&mut self, mut fetch: Fetch) -> Result<()> {
        let missing = fetch.want & !fetch.have;
        if missing != 0 {
            self.reconstruct(&mut fetch, missing).await?;
        }
        fetch.rows.sort_unstable_by_key(|r| r.0);
        let ahead = self.ahead.clone();
        let mut stock = ahead.stock.lock();
        match self.data.inline {
            // The open shards hold the bytes of a small body while the reader exists.
            true => self.pinned = fetch.room.take(),
            false => stock.room = fetch.room.take(),
        }
        stock.weight = if fetch.count > 1 { 2 } else { 1 };
        self.begun = true;
        for j in 0..fetch.count {
            let stripe = fetch.stripe + j;
            let (at, bytes) = self.extent(stripe);
            let from = self.range.start.max(at) - at;
            let to = self.range.end.min(at + bytes) - at;
            let row = self.row(stripe) as u64;
            for (i, frames) in fetch.rows.iter().filter(|(i, _)| fetch.want >> i & 1 == 1) {
                let begin = u64::from(*i) * row;
                let (a, z) = (from.max(begin), to.min(begin + row));
                if a < z {
                    let b = &frames[j as usize];
                    stock.ready.push_back(b.slice((a - begin) as usize..(z - begin) as usize));
                }
            }
        }
        Ok(())
    }

    async fn reconstruct(&mut self, fetch: &mut Fetch, missing: u64) -> Result<()> {
        let wanted: SmallVec<[usize; 8]> =
            (0..usize::from(self.data.k)).filter(|i| missing >> i & 1 == 1).collect();
        let code = self.inner.code(&self.data)?;
        let mut all: SmallVec<[Frames; 8]> = wanted.iter().map(|_| Frames::new()).collect();
        for j in 0..fetch.count {
            let row = self.row(fetch.stripe + j);
            // The memory of the run includes them.
            let len = (wanted.len() * row).max(1);
            let pool = &self.inner.options.pool;
            let mut buf = pool.try_get(len).unwrap_or_else(|| pool.get_reserved(len));
            {
                let present: SmallVec<[(usize, &[u8]); 16]> =
                    fetch.rows.iter().map(|(i, b)| (usize::from(*i), &b[j as usize][..])).collect();
                let mut out: SmallVec<[&mut [u8]; 8]> = buf.chunks_exact_mut(row).collect();
                code.reconstruct(&present, &wanted, &mut out)
                    .map_err(|e| Error::Corrupt(format!("reconstruction: {e}")))?;
            }
            let made = buf.freeze();
            for (i, frames) in all.iter_mut().enumerate() {
                frames.push(made.slice(i * row..(i + 1) * row));
            }
        }
        fetch.rows.extend(wanted.iter().map(|i| *i as u8).zip(all));
        Ok(())
    }
}

impl Drop for ObjectReader {
    fn drop(&mut self) {
        if self.listed {
            self.inner.memory.reading.remove(&self.ahead);
        }
    }
}

/// Whether the register still names this data. Boxed: settling a register may read data.
fn named_now<'a>(
    inner: &'a Inner,
    owner: &'a RegisterKey,
    id: WriteId,
) -> Pin<Box<dyn Future<Output = Result<bool>> + Send + 'a>> {
    Box::pin(inner.named_now(owner, id))
}
