//! Shards -> stripes -> bytes, around damage and slow drives.
//!
//! A healthy read fetches exactly the data rows that overlap the range and hands them on as they
//! came from the drives. A row that is missing, damaged or late is made from `k` others.
//!
//! Invariants: every byte that leaves was verified by its drive against its identity, or computed
//! from rows that were; a shortage is an error before wrong bytes; memory is bounded by the readers'
//! budget, of which a reader whose client is slow holds one stripe; damage is reported and queued, never waited for.

use crate::sets::{Inner, READ_UNIT, Sets};
use crate::table::{Member, View};
use crate::{Error, Result};
use ashlar_commit::SlotSet;
use ashlar_drive::{Error as DriveError, ShardReader};
use ashlar_format::{Data, RegisterKey, WriteId};
use bytes::Bytes;
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use smallvec::SmallVec;
use std::collections::VecDeque;
use std::future::Future;
use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::OwnedSemaphorePermit;

/// Stripes under way at once when drives have to be waited for.
const DEPTH: usize = 3;
/// How long a stripe is waited for when no other shard is left to ask.
const DEADLINE: Duration = Duration::from_secs(30);

/// Reads a range of one body.
pub struct ObjectReader {
    inner: Arc<Inner>,
    view: Arc<View>,
    owner: RegisterKey,
    data: Data,
    size: u64,
    range: Range<u64>,
    /// The next stripe to start, and the one behind the last.
    next: u64,
    end: u64,
    shards: SmallVec<[Shard; 16]>,
    fetches: VecDeque<Fetch>,
    ready: VecDeque<Bytes>,
    /// Bit i: shard i was missing or damaged.
    damage: u64,
    /// For heal, which knows already.
    quiet: bool,
    over: bool,
    /// Memory of the rows in `ready`.
    held: Option<OwnedSemaphorePermit>,
}

#[derive(Clone)]
enum Shard {
    Closed,
    Open(Arc<ShardReader>),
    /// Its drive is not there or failed.
    Away,
    /// Its drive is there and does not have it, or has it damaged.
    Bad,
}

type RowFuture = Pin<Box<dyn Future<Output = Row> + Send>>;

/// The answer to a fetch of one row.
struct Row {
    shard: u8,
    reader: Option<Arc<ShardReader>>,
    bytes: Result<Bytes, DriveError>,
    took: Duration,
}

/// One stripe under way.
struct Fetch {
    stripe: u64,
    row: usize,
    /// Data rows wanted.
    want: u64,
    /// Shards asked, those that answered with bytes, and those that let us wait.
    asked: u64,
    have: u64,
    rows: SmallVec<[(u8, Bytes); 4]>,
    /// `None` until something has to be waited for.
    waiting: Option<FuturesUnordered<RowFuture>>,
    late: u64,
    since: Instant,
    /// Memory of its rows, out of the readers' budget; `None` for a small body.
    room: Option<OwnedSemaphorePermit>,
}

impl Sets {
    /// Opens `range` of a body of `size` bytes. `owner`: the register that names it now.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a range outside the body.
    pub async fn read(
        &self,
        owner: &RegisterKey,
        data: &Data,
        size: u64,
        range: Range<u64>,
    ) -> Result<ObjectReader> {
        self.inner.open(owner, data, size, range).await
    }
}

impl Inner {
    pub(crate) async fn open(
        self: &Arc<Self>,
        owner: &RegisterKey,
        data: &Data,
        size: u64,
        range: Range<u64>,
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
        let reader = ObjectReader {
            inner: self.clone(),
            view,
            owner: owner.clone(),
            data: *data,
            size,
            range,
            next,
            end,
            shards,
            fetches: VecDeque::new(),
            ready: VecDeque::new(),
            damage: 0,
            quiet: false,
            over: false,
            held: None,
        };
        Ok(reader)
    }
}

impl ObjectReader {
    /// The next bytes, in order; `None` at the end of the range. After an error there is no more.
    ///
    /// # Errors
    /// [`Error::Superseded`] when the body was replaced meanwhile, [`Error::Unavailable`] or
    /// [`Error::Corrupt`] when too few shards can be had.
    pub async fn next(&mut self) -> Option<Result<Bytes>> {
        loop {
            if let Some(b) = self.ready.pop_front() {
                return Some(Ok(b));
            }
            if self.over || (self.fetches.is_empty() && self.next == self.end) {
                return None;
            }
            if let Err(e) = self.advance().await {
                self.over = true;
                return Some(Err(e));
            }
        }
    }

    /// Reads for heal: the shards of `slots` are not asked for, and damage is not queued again.
    pub(crate) fn avoid(&mut self, slots: SlotSet) {
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

    /// Finishes the first stripe under way, and starts others when drives have to be waited for.
    async fn advance(&mut self) -> Result<()> {
        // Everything handed out so far has left: whoever waits for room here holds none.
        self.held = None;
        if self.fetches.is_empty() {
            let room = match self.units() {
                0 => None,
                n => self.inner.read_budget.clone().acquire_many_owned(n).await.ok(),
            };
            self.start_stripe(room);
        }
        let Some(mut head) = self.fetches.pop_front() else { return Ok(()) };
        let result = self.complete(&mut head).await;
        result?;
        self.emit(head).await
    }

    /// What a stripe may hold in memory, in units of the readers' budget: its rows, and a few made
    /// from others.
    fn units(&self) -> u32 {
        if self.data.inline {
            return 0;
        }
        let row = self.data.row_len(u64::from(self.data.stripe).min(self.size)) as usize;
        let bytes = row * (usize::from(self.data.k) + 1);
        (bytes.div_ceil(READ_UNIT) as u32).clamp(1, self.inner.read_units)
    }

    fn start_stripe(&mut self, room: Option<OwnedSemaphorePermit>) {
        let stripe = self.next;
        self.next += 1;
        let (at, bytes) = self.extent(stripe);
        let row = self.data.row_len(bytes) as usize;
        let from = self.range.start.max(at) - at;
        let to = self.range.end.min(at + bytes) - at;
        let (first, last) = (from / row as u64, (to - 1) / row as u64);
        let want = (first..=last).fold(0u64, |w, r| w | 1 << r);
        let mut fetch = Fetch {
            stripe,
            row,
            want,
            asked: 0,
            have: 0,
            rows: SmallVec::new(),
            waiting: None,
            late: 0,
            since: Instant::now(),
            room,
        };
        let usable = |i: u8| match self.shards[usize::from(i)] {
            Shard::Away | Shard::Bad => false,
            _ => self.member(i).is_some_and(|m| !m.pulse.is_late()),
        };
        let direct = (0..self.data.k).all(|i| want >> i & 1 == 0 || usable(i));
        if direct {
            for i in 0..self.data.k {
                if want >> i & 1 == 1 {
                    self.ask(&mut fetch, i);
                }
            }
        } else {
            self.ask_more(&mut fetch);
        }
        self.fetches.push_back(fetch);
    }

    /// Where a stripe begins in the body and how many bytes it has.
    fn extent(&self, stripe: u64) -> (u64, u64) {
        let len = u64::from(self.data.stripe);
        let at = stripe * len;
        (at, len.min(self.size - at))
    }

    fn member(&self, shard: u8) -> Option<&Arc<Member>> {
        self.view.member(self.data.slot_of(shard))
    }

    /// Asks for one row. Answers at once where no device has to be waited for.
    fn ask(&mut self, fetch: &mut Fetch, shard: u8) {
        fetch.asked |= 1 << shard;
        let Some(member) = self.member(shard).cloned() else {
            self.shards[usize::from(shard)] = Shard::Away;
            return;
        };
        let id = self.data.write_id;
        if matches!(self.shards[usize::from(shard)], Shard::Closed)
            && let Some(opened) = member.drive.open_shard_now(id, shard)
        {
            match opened.and_then(|r| self.fits(r)) {
                Ok(r) => self.shards[usize::from(shard)] = Shard::Open(Arc::new(r)),
                Err(e) => return self.fail(shard, &e),
            }
        }
        let open = match &self.shards[usize::from(shard)] {
            Shard::Open(r) => Some(r.clone()),
            Shard::Closed => None,
            Shard::Away | Shard::Bad => return,
        };
        let frame = fetch.stripe as u32;
        if let Some(r) = &open
            && let Some(bytes) = r.read_now(frame)
        {
            return self.took(fetch, shard, bytes);
        }
        let began = Instant::now();
        let future: RowFuture = Box::pin(async move {
            let mut reader = open;
            let bytes = async {
                let r = match &reader {
                    Some(r) => r.clone(),
                    None => {
                        let r = Arc::new(member.drive.open_shard(id, shard).await?);
                        reader = Some(r.clone());
                        r
                    }
                };
                r.read(frame).await
            }
            .await;
            let took = began.elapsed();
            if bytes.is_ok() {
                member.pulse.note_read(took);
            }
            Row { shard, reader, bytes, took }
        });
        fetch.waiting.get_or_insert_with(FuturesUnordered::new).push(future);
    }

    /// A shard that is not as long as its body says is not that shard.
    fn fits(&self, r: ShardReader) -> Result<ShardReader, DriveError> {
        let row = self.data.row_len(u64::from(self.data.stripe)) as u32;
        if r.len() != self.data.shard_len(self.size) || (r.frame() != row && r.frames() > 1) {
            return Err(DriveError::Corrupt("a shard of another size".into()));
        }
        Ok(r)
    }

    fn took(&mut self, fetch: &mut Fetch, shard: u8, bytes: Result<Bytes, DriveError>) {
        match bytes {
            Ok(b) if b.len() == fetch.row => {
                if fetch.have >> shard & 1 == 0 {
                    fetch.have |= 1 << shard;
                    fetch.rows.push((shard, b));
                }
            }
            Ok(_) => self.fail(shard, &DriveError::Corrupt("a frame of another size".into())),
            Err(e) => self.fail(shard, &e),
        }
    }

    fn fail(&mut self, shard: u8, e: &DriveError) {
        let state = match e {
            DriveError::Missing | DriveError::Corrupt(_) => {
                if self.damage == 0 && !self.quiet {
                    self.inner.heals.push(&self.owner, true);
                }
                self.damage |= 1 << shard;
                tracing::debug!(shard, write = %self.data.write_id, "shard is bad: {e}");
                Shard::Bad
            }
            _ => Shard::Away,
        };
        self.shards[usize::from(shard)] = state;
    }

    fn is_gone(&self, shard: u8) -> bool {
        matches!(self.shards[usize::from(shard)], Shard::Away | Shard::Bad)
    }

    /// Asks so many further shards that `k` rows can be had from those that are neither gone nor
    /// late: quick drives before late ones, data before parity.
    fn ask_more(&mut self, fetch: &mut Fetch) {
        let n = self.view.n();
        let k = u32::from(self.data.k);
        for late_too in [false, true] {
            for i in 0..n {
                let promising = (0..n)
                    .filter(|s| fetch.asked >> s & 1 == 1 && fetch.late >> s & 1 == 0)
                    .filter(|s| fetch.have >> s & 1 == 1 || !self.is_gone(*s))
                    .count() as u32;
                if promising >= k {
                    return;
                }
                let late = self.member(i).is_none_or(|m| m.pulse.is_late());
                if fetch.asked >> i & 1 == 0 && !self.is_gone(i) && (late_too || !late) {
                    self.ask(fetch, i);
                }
            }
        }
    }

    /// Waits until the stripe's wanted rows are there or can be made.
    async fn complete(&mut self, fetch: &mut Fetch) -> Result<()> {
        loop {
            let enough =
                fetch.have & fetch.want == fetch.want || fetch.have.count_ones() >= u32::from(self.data.k);
            if enough {
                return Ok(());
            }
            // A wanted row cannot come any more: k others must.
            if (0..self.data.k).any(|i| fetch.want >> i & 1 == 1 && self.is_lost(fetch, i)) {
                let before = fetch.asked;
                self.ask_more(fetch);
                if fetch.asked != before {
                    continue;
                }
            }
            if fetch.waiting.as_ref().is_none_or(FuturesUnordered::is_empty) {
                return Err(self.shortage(fetch).await);
            }
            // While this stripe waits for drives, the next ones may be read too.
            while self.fetches.len() + 1 < DEPTH && self.next < self.end {
                let room = self.inner.read_budget.clone().try_acquire_many_owned(self.units());
                let Ok(room) = room else { break };
                self.start_stripe(Some(room));
                if let Some(f) = self.fetches.back_mut() {
                    poll_once(f);
                }
            }
            self.await_row(fetch).await?;
        }
    }

    fn is_lost(&self, fetch: &Fetch, shard: u8) -> bool {
        fetch.have >> shard & 1 == 0 && (self.is_gone(shard) || fetch.late >> shard & 1 == 1)
    }

    /// Waits for one more row, or until it is time to ask others.
    async fn await_row(&mut self, fetch: &mut Fetch) -> Result<()> {
        let open = |s: u8| fetch.asked >> s & 1 == 1 && fetch.have >> s & 1 == 0;
        let pending = (0..self.view.n()).filter(|s| open(*s) && !self.is_gone(*s));
        let prompt: u64 = pending.filter(|s| fetch.late >> s & 1 == 0).fold(0, |b, s| b | 1 << s);
        let members = (0..self.view.n()).filter(|s| prompt >> s & 1 == 1);
        let hedge = members.filter_map(|s| self.member(s).map(|m| m.pulse.hedge_after())).max();
        let patience = hedge.unwrap_or(DEADLINE);
        let Some(waiting) = &mut fetch.waiting else { return Ok(()) };
        match tokio::time::timeout(patience, waiting.next()).await {
            Ok(Some(row)) => {
                self.arrived(fetch, row);
                Ok(())
            }
            Ok(None) => Ok(()),
            Err(_) if hedge.is_none() || fetch.since.elapsed() > DEADLINE => {
                Err(Error::Unavailable("the drives do not answer in time".into()))
            }
            Err(_) => {
                for s in (0..self.view.n()).filter(|s| prompt >> s & 1 == 1) {
                    fetch.late |= 1 << s;
                    if let Some(m) = self.member(s) {
                        m.pulse.strike();
                    }
                }
                self.ask_more(fetch);
                Ok(())
            }
        }
    }

    fn arrived(&mut self, fetch: &mut Fetch, row: Row) {
        if let Some(r) = row.reader
            && matches!(self.shards[usize::from(row.shard)], Shard::Closed)
        {
            let (len, frame, frames) = (r.len(), r.frame(), r.frames());
            let want = self.data.row_len(u64::from(self.data.stripe)) as u32;
            if len != self.data.shard_len(self.size) || (frame != want && frames > 1) {
                return self.fail(row.shard, &DriveError::Corrupt("a shard of another size".into()));
            }
            self.shards[usize::from(row.shard)] = Shard::Open(r);
        }
        tracing::trace!(shard = row.shard, took = ?row.took, "row");
        self.took(fetch, row.shard, row.bytes);
    }

    /// Why the stripe cannot be had.
    async fn shortage(&mut self, fetch: &mut Fetch) -> Error {
        let bad = self.shards.iter().filter(|s| matches!(s, Shard::Bad)).count();
        // The usual reason for missing shards: the version was replaced and its data dropped.
        if bad > 0 && !self.quiet && superseded(&self.inner, &self.owner, self.data.write_id).await {
            return Error::Superseded;
        }
        let (have, k) = (fetch.have.count_ones(), self.data.k);
        let state = |s: &Shard| match s {
            Shard::Bad => 'x',
            Shard::Away => '-',
            Shard::Open(_) | Shard::Closed => '+',
        };
        let states: String = self.shards.iter().map(state).collect();
        let what = format!(
            "{have} of {k} shards of stripe {} can be read ({states} asked {:b} have {:b} late {:b} want {:b})",
            fetch.stripe, fetch.asked, fetch.have, fetch.late, fetch.want
        );
        if bad > usize::from(self.data.m) { Error::Corrupt(what) } else { Error::Unavailable(what) }
    }

    /// Puts the wanted bytes of a complete stripe in the queue, reconstructing what is short.
    async fn emit(&mut self, mut fetch: Fetch) -> Result<()> {
        let missing = fetch.want & !fetch.have;
        if missing != 0 {
            self.reconstruct(&mut fetch, missing).await?;
        }
        let (at, bytes) = self.extent(fetch.stripe);
        let from = self.range.start.max(at) - at;
        let to = self.range.end.min(at + bytes) - at;
        let row = fetch.row as u64;
        self.held = fetch.room.take();
        fetch.rows.sort_unstable_by_key(|r| r.0);
        for (i, b) in fetch.rows.drain(..) {
            if fetch.want >> i & 1 == 0 {
                continue;
            }
            let begin = u64::from(i) * row;
            let (a, z) = (from.max(begin), to.min(begin + row));
            if a < z {
                self.ready.push_back(b.slice((a - begin) as usize..(z - begin) as usize));
            }
        }
        Ok(())
    }

    async fn reconstruct(&mut self, fetch: &mut Fetch, missing: u64) -> Result<()> {
        let wanted: SmallVec<[usize; 8]> =
            (0..usize::from(self.data.k)).filter(|i| missing >> i & 1 == 1).collect();
        let code = self.inner.code(&self.data)?;
        let row = fetch.row;
        let mut buf = self.inner.options.pool.get((wanted.len() * row).max(1)).await;
        {
            let present: SmallVec<[(usize, &[u8]); 16]> =
                fetch.rows.iter().map(|(i, b)| (usize::from(*i), &b[..])).collect();
            let mut out: SmallVec<[&mut [u8]; 8]> = buf.chunks_exact_mut(row).collect();
            code.reconstruct(&present, &wanted, &mut out)
                .map_err(|e| Error::Corrupt(format!("reconstruction: {e}")))?;
        }
        let made = buf.freeze();
        for (j, i) in wanted.iter().enumerate() {
            fetch.rows.push((*i as u8, made.slice(j * row..(j + 1) * row)));
        }
        Ok(())
    }
}

/// Whether the register names other data now. Boxed: settling a register may read data.
fn superseded<'a>(
    inner: &'a Inner,
    owner: &'a RegisterKey,
    id: WriteId,
) -> Pin<Box<dyn Future<Output = bool> + Send + 'a>> {
    Box::pin(async move {
        let hash = ashlar_checksum::key_hash(owner.as_bytes());
        match inner.read_slowly(owner, hash).await {
            Ok(now) => !now.is_some_and(|r| r.record.data().any(|p| p.data.write_id == id)),
            Err(_) => false,
        }
    })
}

/// Lets the reads of a stripe begin; what they yield is taken later.
fn poll_once(fetch: &mut Fetch) {
    use futures::FutureExt;
    if let Some(w) = &mut fetch.waiting
        && let Some(Some(row)) = w.next().now_or_never()
    {
        // Already there: back into the queue as a finished future.
        w.push(Box::pin(std::future::ready(row)));
    }
}
