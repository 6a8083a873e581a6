//! Bytes -> stripes -> shards.
//!
//! A body is collected into a stripe buffer (its only copy), which has space for the parity rows after the
//! data rows. The encoded buffer is frozen and its rows are passed to the drives as slices. Small bodies stay
//! in memory until the update that names them stages them.
//!
//! Invariants: enough drives have reserved space before the first byte is accepted, those of other nodes as far as they are
//! known; a drive that fails or lags during the body is left out as long as k' + f remain; memory is one stripe per body, or what its
//! client has sent of it while memory is short (`memory`); a body has exactly the announced length.
//!
//! Must not depend on: what the bytes are.

use crate::budget::{Budget, Share};
use crate::disk_turns::DiskTurn;
use crate::layout::{rotation, stripe_len, width};
use crate::memory::{COLLECT, Hold, LATER, Parked, Pieces, SMALL, Stripe};
use crate::propose::{gather, shortage};
use crate::register::LAYOUTS;
use crate::sets::{Inner, Sets};
use crate::table::{HANG_CHECK_INTERVAL, Member, View};
use crate::tail_queue::InFlight;
use crate::{Error, Result};
use ashlar_commit::{SlotSet, lower_k};
use ashlar_drive::{Error as DriveError, Tally, Unfinished, WriterHandle};
use ashlar_engine::{Code, Error as EngineError};
use ashlar_environment::time::{self, Instant};
use ashlar_format::{Ballot, Data, GroupId, RegisterKey, WriteId};
use bytes::Bytes;
use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use parking_lot::Mutex;
use smallvec::SmallVec;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The longest inline stripe: a small body is one stripe.
const INLINE_MAX: u64 = 2 << 20;
/// Once enough drives took a stripe: how long to wait for the others, at least, and as a multiple of the time
/// that the quick ones took. With 30 ms, drives on a machine with busy processors were left out without need:
/// heal made their shards later, and reads avoided them until then. The first span is for drives that were
/// late before, the second for the others; a drive that hangs or is away is not waited for.
const STALL: (Duration, Duration, u32) = (Duration::from_millis(100), Duration::from_millis(500), 8);
/// A drive that was late is left out of new large bodies if more than this many bytes of others wait for it
/// in memory.
const BEHIND: u64 = 8 << 20;
/// Both for hard disks, which write one shard after the other and flush after many.
const STALL_DISK: Duration = Duration::from_secs(5);
const BEHIND_DISK: u64 = 128 << 20;
/// How long a stripe may take in all.
const DEADLINE: Duration = Duration::from_secs(30);
/// How long to wait for the others after enough shards are durable.
const GRACE: Duration = Duration::from_millis(100);

/// Writes one body.
pub struct DataWriter {
    inner: Arc<Inner>,
    view: Arc<View>,
    owner: RegisterKey,
    data: Data,
    size: u64,
    needed: u8,
    code: Code,
    /// Bytes accepted so far.
    taken: u64,
    /// The stripe that is being filled.
    hold: Hold,
    /// The stripe while the writer waits for the client; its memory may then be reclaimed.
    parked: Arc<Parked>,
    listed: bool,
    sink: Sink,
    in_flight: Option<InFlightWrite>,
    /// The most data shards that it may have.
    most: u8,
    /// Its turn, if it is for hard disks.
    turn: Option<Arc<DiskTurn>>,
    /// The rows of the only stripe, and their length, until the shards are finished: drives of other nodes take or refuse them
    /// only then. The writers of those hold the same memory.
    only: Option<(Bytes, usize)>,
}

enum Sink {
    /// The encoded stripe, once it exists, and its row length.
    Inline(Option<(Bytes, usize)>),
    /// One writer per slot; `None`: left out.
    Extents(Vec<Option<WriterHandle>>),
}

/// A guard: while it exists, the collector does not touch the write.
struct InFlightWrite {
    inner: Arc<Inner>,
    id: WriteId,
}

impl InFlightWrite {
    fn new(inner: &Arc<Inner>, id: WriteId) -> InFlightWrite {
        inner.writes_in_flight.lock().insert(id, InFlight::default());
        InFlightWrite { inner: inner.clone(), id }
    }
}

impl Drop for InFlightWrite {
    fn drop(&mut self) {
        self.inner.writes_in_flight.lock().remove(&self.id);
    }
}

/// The drives that were asked to hold the shards of a body: the answers, and the slots, with the drives that had them then.
#[derive(Clone)]
pub(crate) struct AskedDrives {
    pub(crate) tally: Arc<Tally>,
    pub(crate) slots: SlotSet,
    pub(crate) view: Arc<View>,
}

/// Bytes that were written and wait for a record that names them. Dropping it without such a record drops the
/// bytes.
pub struct Staged {
    inner: Arc<Inner>,
    owner: RegisterKey,
    pub(crate) data: Data,
    pub(crate) size: u64,
    pub(crate) needed: u8,
    /// The rows of a small body, and their length.
    rows: Option<(Bytes, usize)>,
    /// The drives that were asked to hold a shard; `None`: none was asked yet.
    asked: Mutex<Option<AskedDrives>>,
    /// For a large body: shards that are still being made durable.
    unfinished: Mutex<Vec<(u8, Unfinished)>>,
    kept: AtomicBool,
    /// A record that names it was chosen.
    named: AtomicBool,
    _in_flight: Option<InFlightWrite>,
}

impl std::fmt::Debug for Staged {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Staged({}, {} bytes)", self.data.write_id, self.size)
    }
}

impl Staged {
    /// The data for the record; the update fills in `durable`.
    #[must_use]
    pub fn data(&self) -> Data {
        self.data
    }
    /// Bytes of the body.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.size
    }
    /// Whether it was not sent to any drive yet.
    pub(crate) fn is_pending(&self) -> bool {
        self.rows.is_some() && self.asked.lock().is_none()
    }
    /// One shard of a small body.
    pub(crate) fn row(&self, shard: u8) -> Bytes {
        match &self.rows {
            Some((rows, len)) => rows.slice(usize::from(shard) * len..(usize::from(shard) + 1) * len),
            None => unreachable!("only small bodies are staged by the update"),
        }
    }
    /// From here on the collector of this process does not touch it.
    pub(crate) fn guard(&mut self) {
        self._in_flight = Some(InFlightWrite::new(&self.inner, self.data.write_id));
    }
    pub(crate) fn staged_as(&self, tally: Arc<Tally>, slots: SlotSet, view: &Arc<View>) {
        *self.asked.lock() = Some(AskedDrives { tally, slots, view: view.clone() });
    }
    /// The drives that were asked to hold a shard, and their answers.
    pub(crate) fn asked(&self) -> Option<AskedDrives> {
        self.asked.lock().clone()
    }
    /// Shards that may still be being made durable, for the code that follows them.
    pub(crate) fn unfinished(&self) -> Vec<(u8, Unfinished)> {
        std::mem::take(&mut *self.unfinished.lock())
    }
    /// Slots whose shard is durable now on the drive that has the slot in `view`.
    pub(crate) fn durable(&self, view: &View) -> SlotSet {
        self.asked.lock().as_ref().map_or(SlotSet::EMPTY, |asked| {
            // A shard on a joining drive is as durable as any other.
            let o = asked.tally.outcome();
            SlotSet(o.ok | o.uncounted).without(view.moved_since(&asked.view))
        })
    }
    /// A record that names it is about to be sent: from here on it belongs to the register.
    pub(crate) fn keep(&self) {
        self.kept.store(true, Ordering::Release);
    }
    /// A record that names it was chosen.
    pub(crate) fn was_named(&self) {
        self.named.store(true, Ordering::Release);
    }
}

impl Drop for Staged {
    fn drop(&mut self) {
        if self.named.load(Ordering::Acquire) {
            return;
        }
        let Some(asked) = self.asked.get_mut().take() else { return };
        let kept = self.kept.load(Ordering::Acquire);
        let o = asked.tally.outcome();
        let answered = SlotSet(o.ok | o.uncounted | o.failed | o.refused);
        if kept || !asked.slots.without(answered).is_empty() {
            // A record may name it after all, or a drive may still be writing it and accept it after the
            // drop.
            self.inner.scrub.abandoned(&self.owner, self.data.write_id);
        }
        if kept {
            return;
        }
        for (_, shard) in self.unfinished.get_mut().drain(..) {
            shard.give_up();
        }
        let epoch = self.inner.epoch_now(&asked.view);
        for (slot, m) in asked.view.members() {
            m.drive.discard(asked.view.group, epoch, &[(self.data.write_id, self.data.shard_of(slot))]);
        }
    }
}

impl Sets {
    /// Begins a body of exactly `size` bytes, at least 1 (an empty object has no data). `owner`: the register
    /// that will name it first.
    ///
    /// # Errors
    /// [`Error::Full`] or [`Error::Unavailable`] before any byte is accepted.
    pub fn write<'a>(&'a self, owner: &'a RegisterKey, size: u64) -> BoxFuture<'a, Result<DataWriter>> {
        Box::pin(async move { self.inner.begin(owner, size, u8::MAX).await })
    }

    /// Checks whether a body of `size` bytes could be begun now. No I/O.
    ///
    /// # Errors
    /// [`Error::Full`] or [`Error::Unavailable`].
    pub fn check_room(&self, group: GroupId, size: u64) -> Result<()> {
        let table = self.inner.table.load();
        plan(table.view(group)?, size, self.inner.options.min_shard, u8::MAX).map(|_| ())
    }
}

/// The slots that get a shard, k' and k' + f.
struct Plan {
    slots: SlotSet,
    k: u8,
    needed: u8,
}

/// Lowers k' until enough drives have space.
fn plan(view: &View, size: u64, min_shard: u32, most: u8) -> Result<Plan> {
    let k = width(view.k, size, min_shard).min(most).max(1);
    let mut full = false;
    let mut slots = SlotSet::EMPTY;
    let mut voters = 0;
    // The length of a shard depends on k', which depends on the drives with space. An estimate with the usual
    // k' is close enough, since begin_shard reserves the exact length.
    let share = size.div_ceil(u64::from(k));
    for (slot, m) in view.members() {
        // It counts as missing.
        if m.is_hung() {
            continue;
        }
        match m.drive.check_room(share) {
            Ok(()) => {
                slots.insert(slot);
                voters += u8::from(m.is_voter(view.group));
            }
            Err(DriveError::Full) => {
                full = true;
                // It still has space for records, so it votes.
                voters += u8::from(m.is_voter(view.group));
            }
            Err(_) => {}
        }
    }
    let need = view.quorum.majority();
    if voters < need {
        return Err(Error::Unavailable(format!("{voters} of {need} voters can be written to")));
    }
    match lower_k(view.k, view.m, slots.len()) {
        // f remains that of the configured code.
        Some((lowered, needed)) => {
            let f = needed - lowered;
            let k = lowered.min(k);
            Ok(Plan { slots, k, needed: k + f })
        }
        None if full => Err(Error::Full),
        None => Err(Error::Unavailable(format!("{} drives have room", slots.len()))),
    }
}

impl Inner {
    /// Begins a body with at most `most` data shards.
    pub(crate) async fn begin(
        self: &Arc<Self>,
        owner: &RegisterKey,
        size: u64,
        most: u8,
    ) -> Result<DataWriter> {
        if size == 0 {
            return Err(Error::Invalid("an empty body has no data"));
        }
        for _ in 1..LAYOUTS {
            let view = self.view(owner.group())?;
            match self.begin_in(&view, owner, size, most) {
                Err(Error::Unavailable(_)) if self.knew_too_little(std::slice::from_ref(&view)).await => {}
                begun => return begun,
            }
        }
        self.begin_in(&self.view(owner.group())?, owner, size, most)
    }

    fn begin_in(
        self: &Arc<Self>,
        view: &Arc<View>,
        owner: &RegisterKey,
        size: u64,
        most: u8,
    ) -> Result<DataWriter> {
        let plan = plan(view, size, self.options.min_shard, most)?;
        let n = view.n();
        let hash = ashlar_checksum::key_hash(owner.as_bytes());
        let inline =
            size.div_ceil(u64::from(plan.k)) <= u64::from(self.options.inline_shard) && size <= INLINE_MAX;
        let stripe = if inline { size as u32 } else { stripe_len(plan.k) };
        let data = Data {
            write_id: self.ids.next(),
            k: plan.k,
            m: n - plan.k,
            rotate: rotation(hash, n),
            stripe,
            durable: 0,
            inline,
        };
        let code = self.code(&data)?;
        let mut w = DataWriter {
            inner: self.clone(),
            // A small body is staged and named within one update, which holds the key's turn.
            in_flight: (!inline).then(|| InFlightWrite::new(self, data.write_id)),
            owner: owner.clone(),
            data,
            size,
            needed: plan.needed,
            code,
            taken: 0,
            hold: Hold::Empty,
            parked: Arc::default(),
            listed: false,
            sink: Sink::Inline(None),
            view: view.clone(),
            most,
            turn: (!inline && size > SMALL && has_hard_disk(view)).then(Arc::default),
            only: None,
        };
        if !inline {
            w.reserve(plan.slots)?;
        }
        Ok(w)
    }

    pub(crate) fn code(&self, data: &Data) -> Result<Code> {
        self.engine.code(data.k, data.m).map_err(|e| Error::Corrupt(format!("the code: {e}")))
    }
}

impl DataWriter {
    /// Reserves the shards.
    fn reserve(&mut self, slots: SlotSet) -> Result<()> {
        let len = self.data.shard_len(self.size);
        let frame = self.data.row_len(u64::from(self.data.stripe)) as u32;
        let ballot: Ballot = self.inner.ballots.next(self.view.epoch);
        // A drive that hangs, is late repeatedly, or has too much waiting is left out while the others are
        // enough: heal makes its shard. Having been late once is no reason: that happens to every drive of a
        // busy machine.
        let most = |m: &Member| if m.drive.is_hard_disk() { BEHIND_DISK } else { BEHIND };
        let behind = |m: &Member| m.is_late() && m.drive.frames_waiting() > most(m);
        let prompt = slots.without(self.view.which(|m| m.is_hung() || m.latency.is_slow() || behind(m)));
        let slots = if prompt.len() >= self.needed { prompt } else { slots };
        let mut full = false;
        let mut have = 0;
        let mut writers: Vec<Option<WriterHandle>> = (0..self.view.n()).map(|_| None).collect();
        let mut handles = Vec::with_capacity(writers.len());
        for slot in slots.iter() {
            let Some(m) = self.view.member(slot) else { continue };
            let (id, shard) = (self.data.write_id, self.data.shard_of(slot));
            match m.drive.begin_shard(&self.owner, id, shard, ballot, self.view.epoch, len, frame) {
                Ok(w) => {
                    handles.push((m.id, w.handle()));
                    writers[usize::from(slot)] = Some(w);
                    have += 1;
                }
                Err(e) => full |= e == DriveError::Full,
            }
        }
        self.sink = Sink::Extents(writers);
        if let Some(in_flight) = self.inner.writes_in_flight.lock().get_mut(&self.data.write_id) {
            *in_flight = InFlight { shards: handles, needed: usize::from(self.needed) };
        }
        match have {
            h if h >= self.needed => Ok(()),
            _ if full => Err(Error::Full),
            h => Err(Error::Unavailable(format!("{h} of {} drives took the write", self.needed))),
        }
    }

    /// Writes the next bytes. Waits while memory is short or the drives are slow.
    ///
    /// # Errors
    /// [`Error::Invalid`] for more bytes than announced; [`Error::Unavailable`] or [`Error::Full`] if too few
    /// drives are left; [`Error::Busy`] if memory is not available in time, or was reclaimed because the
    /// bytes came too slowly while others waited.
    pub async fn write(&mut self, bytes: impl AsRef<[u8]>) -> Result<()> {
        self.take(bytes.as_ref()).await
    }

    fn take<'a>(&'a mut self, mut bytes: &'a [u8]) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            if bytes.len() as u64 > self.size - self.taken {
                return Err(Error::Invalid("more bytes than announced"));
            }
            self.unpark()?;
            while !bytes.is_empty() {
                if matches!(self.hold, Hold::Empty) {
                    self.begin_stripe(bytes.len()).await?;
                }
                let take = match &mut self.hold {
                    Hold::Whole(s) => {
                        let take = bytes.len().min(s.bytes - s.filled);
                        s.buf[s.filled..s.filled + take].copy_from_slice(&bytes[..take]);
                        s.filled += take;
                        take
                    }
                    Hold::Pieces(_) => self.collect(bytes).await?,
                    Hold::Empty | Hold::Lost => unreachable!("begun above"),
                };
                self.taken += take as u64;
                bytes = &bytes[take..];
                if matches!(&self.hold, Hold::Whole(s) if s.filled == s.bytes) {
                    self.close_stripe().await?;
                }
            }
            self.park();
            Ok(())
        })
    }

    /// Tells that the writer waits for its client: until more bytes come, the memory may be reclaimed.
    pub fn park(&mut self) {
        if let Some(turn) = &self.turn {
            turn.waits_for_client(true);
        }
        if matches!(self.hold, Hold::Empty) {
            return;
        }
        *self.parked.lock() = std::mem::take(&mut self.hold);
        if !std::mem::replace(&mut self.listed, true) {
            self.inner.memory.filling.add(&self.parked);
        }
    }

    /// Takes the stripe back after waiting.
    fn unpark(&mut self) -> Result<()> {
        if let Some(turn) = &self.turn {
            turn.waits_for_client(false);
        }
        if !self.listed || !matches!(self.hold, Hold::Empty) {
            return Ok(());
        }
        let mut parked = self.parked.lock();
        if matches!(*parked, Hold::Lost) {
            return Err(Error::Busy("the body came too slowly while others waited for memory"));
        }
        self.hold = std::mem::take(&mut *parked);
        Ok(())
    }

    /// The next `len` bytes of the stripe, to be filled in place, so that a body that is transformed while it
    /// is received needs no separate buffer; the same bytes until [`DataWriter::filled`] is called. `None`:
    /// they would cross the end of the stripe, or the stripe is collected in pieces.
    ///
    /// # Errors
    /// As [`DataWriter::write`].
    pub fn space(&mut self, len: usize) -> BoxFuture<'_, Result<Option<&mut [u8]>>> {
        Box::pin(async move {
            if len as u64 > self.size - self.taken {
                return Err(Error::Invalid("more bytes than announced"));
            }
            self.unpark()?;
            if matches!(self.hold, Hold::Empty) {
                self.begin_stripe(len).await?;
            }
            Ok(match &mut self.hold {
                Hold::Whole(s) if len <= s.bytes - s.filled => Some(&mut s.buf[s.filled..s.filled + len]),
                _ => None,
            })
        })
    }

    /// The first `len` bytes of [`DataWriter::space`] are filled.
    ///
    /// # Errors
    /// As [`DataWriter::write`].
    pub fn filled(&mut self, len: usize) -> BoxFuture<'_, Result<()>> {
        Box::pin(async move {
            self.unpark()?;
            let Hold::Whole(s) = &mut self.hold else { return Err(Error::Invalid("no space was asked for")) };
            assert!(len <= s.bytes - s.filled, "more than there was space for");
            s.filled += len;
            self.taken += len as u64;
            if s.filled == s.bytes {
                self.close_stripe().await?;
            }
            Ok(())
        })
    }

    /// The length of the stripe after `taken` bytes, of its rows, and of all rows.
    fn stripe_at(&self, taken: u64) -> (usize, usize, usize) {
        let bytes = u64::from(self.data.stripe).min(self.size - taken);
        let row = self.data.row_len(bytes) as usize;
        (bytes as usize, row, row * usize::from(self.data.k + self.data.m))
    }

    /// Bytes that must stay free for requests that need little, and for memory that is held only for drives.
    fn keep(&self, budget: &Budget) -> usize {
        if self.size <= SMALL { 0 } else { budget.total() / 16 }
    }

    /// Begins a stripe of which the client has sent `here` bytes.
    async fn begin_stripe(&mut self, here: usize) -> Result<()> {
        self.take_turn().await?;
        let (bytes, row, len) = self.stripe_at(self.taken);
        let since = Instant::now();
        let memory = &self.inner.memory;
        // While a quarter is free, the writer takes all of it at once, which saves a copy.
        let room = if here >= bytes {
            Some(self.wait_for(len).await?)
        } else {
            memory.writers.try_take(len, memory.writers.total() / 4)
        };
        self.hold = match room {
            Some(room) => Hold::Whole(self.stripe(bytes, row, len, room, since)),
            None => Hold::Pieces(Pieces { bufs: Vec::new(), bytes, filled: 0, since }),
        };
        Ok(())
    }

    /// Waits for the turn to write the next stripe to hard disks, if it needs one and has none.
    async fn take_turn(&self) -> Result<()> {
        let (_, _, len) = self.stripe_at(self.taken);
        let Some(turn) = self.turn.as_ref().filter(|t| !t.covers(len)) else { return Ok(()) };
        let Sink::Extents(writers) = &self.sink else { return Ok(()) };
        let shards: Vec<_> = writers.iter().flatten().map(WriterHandle::handle).collect();
        let row = u64::from(self.data.stripe) / u64::from(self.data.k.max(1));
        let left = (self.size - self.taken).div_ceil(u64::from(self.data.k.max(1)));
        match self.inner.disk_turns.take(turn, (left, row, self.data.k + self.data.m), shards).await {
            true => Ok(()),
            false => Err(Error::Busy("the turn to write to hard disks did not come in time")),
        }
    }

    fn stripe(&self, bytes: usize, row: usize, len: usize, room: Share, since: Instant) -> Stripe {
        let pool = &self.inner.options.pool;
        // The share bounds it.
        let buf = pool.try_get(len).unwrap_or_else(|| pool.get_reserved(len));
        Stripe { buf, row, bytes, filled: 0, room: Some(room), since }
    }

    /// Memory for a whole stripe.
    async fn wait_for(&self, len: usize) -> Result<Share> {
        let memory = &self.inner.memory;
        let patience = if self.taken == 0 { memory.limits.patience } else { LATER };
        let share = memory.writers.take(len, self.keep(&memory.writers), patience, &memory.filling).await;
        share.ok_or(Error::Busy("no memory for writing came in time"))
    }

    /// Adds as many of `bytes` as fit to the pieces of the stripe; unites the pieces when the stripe is
    /// complete, or if there is no memory for another piece.
    async fn collect(&mut self, bytes: &[u8]) -> Result<usize> {
        let Hold::Pieces(p) = &mut self.hold else { return Ok(0) };
        let missing = p.bytes - p.filled;
        if bytes.len() < missing {
            let at = p.filled % COLLECT;
            if at == 0 {
                let memory = &self.inner.memory;
                let keep = if self.size <= SMALL { 0 } else { memory.pieces.total() / 8 };
                if let Some(share) = memory.pieces.try_take(COLLECT, keep) {
                    let pool = &self.inner.options.pool;
                    let buf = pool.try_get(COLLECT).unwrap_or_else(|| pool.get_reserved(COLLECT));
                    p.bufs.push((buf, share));
                } else {
                    self.unite().await?;
                    return Ok(0);
                }
            }
            let Some((buf, _)) = p.bufs.last_mut() else { unreachable!("there is one") };
            let take = bytes.len().min(COLLECT - at);
            buf[at..at + take].copy_from_slice(&bytes[..take]);
            p.filled += take;
            return Ok(take);
        }
        self.unite().await?;
        Ok(0)
    }

    /// Copies the pieces into one stripe.
    async fn unite(&mut self) -> Result<()> {
        let Hold::Pieces(p) = &self.hold else { return Ok(()) };
        let (since, filled) = (p.since, p.filled);
        let (bytes, row, len) = self.stripe_at(self.taken - filled as u64);
        let room = self.wait_for(len).await?;
        let mut stripe = self.stripe(bytes, row, len, room, since);
        if let Hold::Pieces(p) = std::mem::take(&mut self.hold) {
            for (to, (from, _)) in stripe.buf[..filled].chunks_mut(COLLECT).zip(&p.bufs) {
                to.copy_from_slice(&from[..to.len()]);
            }
        }
        stripe.filled = filled;
        self.hold = Hold::Whole(stripe);
        Ok(())
    }

    /// Encodes the stripe and passes its rows to the drives.
    async fn close_stripe(&mut self) -> Result<()> {
        let Hold::Whole(Stripe { mut buf, row, bytes, room: _room, .. }) = std::mem::take(&mut self.hold)
        else {
            return Ok(());
        };
        // The last data row is padded with zeros; the buffer had other content before.
        buf[bytes..row * usize::from(self.data.k)].fill(0);
        self.inner.engine.encode(&self.code, &mut buf, row).map_err(|e| match e {
            EngineError::Miscalculated { .. } => {
                tracing::error!("{e}");
                Error::Unavailable(e.to_string())
            }
            EngineError::Code(e) => Error::Corrupt(e.to_string()),
        })?;
        let rows = match &self.turn {
            Some(turn) => turn.rows(buf.freeze()),
            None => buf.freeze(),
        };
        match &mut self.sink {
            Sink::Inline(done) => {
                *done = Some((rows, row));
                Ok(())
            }
            Sink::Extents(_) => self.pass_on(rows, row).await,
        }
    }

    /// Passes the rows of a stripe to the drives. A drive of another node that follows a newer layout refuses the shard with its
    /// first frame; nothing else of a shard depends on the layout. So the first rows are kept until they are taken: if too few
    /// drives took them because of the layout, the body begins again in the newer one.
    async fn pass_on(&mut self, rows: Bytes, row: usize) -> Result<()> {
        let is_first = self.taken <= u64::from(self.data.stripe);
        if !is_first || self.view.there.is_empty() {
            return self.hand_out(Some(&rows), row).await;
        }
        let is_only = self.taken == self.size;
        for layouts in 1.. {
            let mut passed = self.hand_out(Some(&rows), row).await;
            if passed.is_ok() && !is_only {
                passed = self.hand_out(None, row).await;
            }
            match passed {
                Err(Error::Unavailable(_)) if layouts < LAYOUTS && self.begin_again().await => {}
                passed => {
                    self.only = is_only.then_some((rows, row));
                    return passed;
                }
            }
        }
        unreachable!("the loop returns")
    }

    /// Begins the body again if a newer layout than that of its view is in force and has it encoded alike. Afterwards none of its
    /// rows were passed on.
    async fn begin_again(&mut self) -> bool {
        if !self.inner.newer_layout(std::slice::from_ref(&self.view)).await {
            return false;
        }
        let inner = self.inner.clone();
        let Ok(mut anew) = inner.begin(&self.owner, self.size, self.most).await else { return false };
        let code = |d: &Data| (d.k, d.m, d.rotate, d.stripe, d.inline);
        if code(&anew.data) != code(&self.data) {
            return false;
        }
        anew.taken = self.taken;
        *self = anew;
        true
    }

    /// Passes one row to each drive, concurrently; without rows, waits until the drives have taken those passed before. A drive
    /// that stalls while enough others continued is left out; if drives are away and the others are not enough, this fails
    /// soon.
    async fn hand_out(&mut self, rows: Option<&Bytes>, row: usize) -> Result<()> {
        let Sink::Extents(writers) = &mut self.sink else { return Ok(()) };
        let began = Instant::now();
        let (mut taken, mut gone) = (SlotSet::EMPTY, SlotSet::EMPTY);
        let mut error = None;
        {
            let mut waiting = FuturesUnordered::new();
            let mut asked = SlotSet::EMPTY;
            let hashes = rows.map(|rows| row_hashes(writers, &self.data, rows, row));
            let mut hashes = hashes.into_iter().flatten();
            for (slot, w) in writers.iter_mut().enumerate() {
                let Some(w) = w else { continue };
                let slot = slot as u8;
                let at = usize::from(self.data.shard_of(slot)) * row;
                let frame = rows.map(|rows| rows.slice(at..at + row));
                let hash = hashes.next().flatten();
                waiting.push(async move {
                    let done = match (frame, hash) {
                        (Some(frame), Some(hash)) => w.write_hashed(frame, hash).await,
                        (Some(frame), None) => w.write(frame).await,
                        (None, _) => w.taken().await,
                    };
                    (slot, done)
                });
                asked.insert(slot);
            }
            while taken.len() + gone.len() < asked.len() {
                // A fixed span while all are needed; then a multiple of the time that the quick ones took.
                let open = asked.without(taken).without(gone);
                let hung = self.view.hung(open);
                let enough = taken.len() >= self.needed;
                let patience = if enough {
                    if open == hung {
                        break;
                    }
                    let late = open.without(self.view.which(Member::is_late)).is_empty();
                    let disk = !self.view.which(|m| m.drive.is_hard_disk()).and(open).is_empty();
                    let least = match (disk, late) {
                        (true, _) => STALL_DISK,
                        (false, true) => STALL.0,
                        (false, false) => STALL.1,
                    };
                    (began.elapsed() * STALL.2).max(least)
                } else {
                    let away = hung.and(self.view.which(Member::is_away));
                    // The others will not be enough.
                    if !away.is_empty() && taken.or(open.without(hung)).len() < self.needed {
                        break;
                    }
                    HANG_CHECK_INTERVAL
                };
                match time::timeout(patience, waiting.next()).await {
                    Ok(Some((slot, Ok(())))) => {
                        taken.insert(slot);
                    }
                    Ok(Some((slot, Err(e)))) => {
                        gone.insert(slot);
                        error.get_or_insert(e);
                    }
                    Err(_) if !enough && began.elapsed() < DEADLINE => {}
                    Ok(None) | Err(_) => break,
                }
            }
        }
        for (slot, w) in writers.iter_mut().enumerate() {
            let slot = slot as u8;
            if w.is_some() && !taken.contains(slot) {
                // Dropping the writer abandons the shard; heal makes it later.
                *w = None;
                let Some(m) = self.view.member(slot) else { continue };
                if let Some(in_flight) = self.inner.writes_in_flight.lock().get_mut(&self.data.write_id) {
                    in_flight.shards.retain(|(drive, _)| *drive != m.id);
                }
                if !gone.contains(slot) {
                    m.latency.mark_slow();
                }
            }
        }
        if taken.len() >= self.needed {
            return Ok(());
        }
        let have = format!("{} of {} drives went on writing", taken.len(), self.needed);
        Err(match error {
            Some(DriveError::Full) => Error::Full,
            Some(e) => Error::Unavailable(format!("{have}: {e}")),
            None => Error::Unavailable(have),
        })
    }

    /// Ends the body: waits until enough shards of a large one are durable.
    ///
    /// # Errors
    /// [`Error::Invalid`] if bytes are missing; [`Error::Unavailable`] or [`Error::Full`].
    pub fn finish(mut self) -> BoxFuture<'static, Result<Staged>> {
        Box::pin(async move {
            if self.taken != self.size {
                return Err(Error::Invalid("fewer bytes than announced"));
            }
            for layouts in 1.. {
                let rows = self.only.take();
                match (self.finish_shards().await, rows) {
                    // As for the first of several stripes.
                    (Err(Error::Unavailable(_)), Some((rows, row)))
                        if layouts < LAYOUTS && self.begin_again().await =>
                    {
                        self.pass_on(rows, row).await?;
                    }
                    (finished, _) => return finished,
                }
            }
            unreachable!("the loop returns")
        })
    }

    fn finish_shards(&mut self) -> BoxFuture<'_, Result<Staged>> {
        Box::pin(async move {
            let mut staged = Staged {
                inner: self.inner.clone(),
                owner: self.owner.clone(),
                data: self.data,
                size: self.size,
                needed: self.needed,
                rows: None,
                asked: Mutex::new(None),
                unfinished: Mutex::default(),
                kept: AtomicBool::new(false),
                named: AtomicBool::new(false),
                _in_flight: None,
            };
            match std::mem::replace(&mut self.sink, Sink::Inline(None)) {
                Sink::Inline(rows) => staged.rows = rows,
                Sink::Extents(writers) => {
                    let tally = Tally::new(writers.iter().flatten().count() as u8);
                    let mut asked = SlotSet::EMPTY;
                    for (slot, w) in writers.into_iter().enumerate() {
                        if let Some(w) = w {
                            asked.insert(slot as u8);
                            let shard = w.finish(tally.completion(slot as u8));
                            staged.unfinished.get_mut().push((slot as u8, shard));
                        }
                    }
                    staged.staged_as(tally.clone(), asked, &self.view);
                    let o = gather(&tally, &self.view, asked, self.needed, GRACE).await;
                    let have = o.ok.count_ones();
                    if have < u32::from(self.needed) {
                        return Err(shortage(&tally, "finishing", have, self.needed));
                    }
                }
            }
            staged._in_flight = self.in_flight.take();
            Ok(staged)
        })
    }

    /// The code of this body, for tests and figures.
    #[must_use]
    pub fn code(&self) -> (u8, u8) {
        (self.data.k, self.data.m)
    }
}

impl Drop for DataWriter {
    fn drop(&mut self) {
        if self.listed {
            self.inner.memory.filling.remove(&self.parked);
        }
        if let Some(turn) = &self.turn {
            self.inner.disk_turns.forget(turn);
        }
    }
}

fn has_hard_disk(view: &View) -> bool {
    view.members().any(|(_, m)| m.drive.is_hard_disk())
}

/// The hashes of the rows for `writers`, in their order, computed together. `None` for a writer that is
/// finished, which reports that itself.
fn row_hashes(
    writers: &[Option<WriterHandle>],
    data: &Data,
    rows: &Bytes,
    row: usize,
) -> SmallVec<[Option<[u8; 32]>; 16]> {
    let next: SmallVec<[_; 16]> =
        (0u8..).zip(writers).filter_map(|(slot, w)| Some((slot, w.as_ref()?.next_frame()))).collect();
    let Some(key) = next.iter().find_map(|(_, f)| f.map(|(id, _)| id.key())) else {
        return SmallVec::from_elem(None, next.len());
    };
    let items: SmallVec<[([u8; 32], &[u8]); 16]> = next
        .iter()
        .map(|(slot, f)| {
            let at = usize::from(data.shard_of(*slot)) * row;
            let place = f.map_or([0; 32], |(id, n)| id.frame_place(n, row));
            (place, &rows[at..at + row])
        })
        .collect();
    let mut hashes: SmallVec<[[u8; 32]; 16]> = SmallVec::from_elem([0; 32], items.len());
    ashlar_checksum::frame_hashes(&key, &items, &mut hashes);
    hashes.into_iter().zip(next).map(|(hash, (_, f))| f.map(|_| hash)).collect()
}
