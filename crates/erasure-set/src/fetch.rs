//! Fetches one stripe for a reader, or a run of some: which shards are asked, how answers are handled, and which others are
//! asked instead.
//!
//! Invariants: no more shards are asked than the stripe needs unless one is missing or late; a shard that
//! failed once is not asked again by this reader; a drive that takes longer than twice its usual time (a hard disk: that, and longer than what it was asked for may take) is
//! late, and others are asked as well; drives that are away are asked last, and not waited for longer than
//! [`AWAY`]; no row is reconstructed from unchecked rows.
//!
//! Must not depend on: what the bytes are.

use crate::ahead::{Fetch, Row, RowFuture};
use crate::budget::Share;
use crate::prefetch::{self, BodyRange, Choice, Plan, Prefetched};
use crate::read::{ObjectReader, Opened, Shard};
use crate::sets::Inner;
use crate::table::{HANG_CHECK_INTERVAL, Member, View};
use crate::{Error, Result};
use ashlar_commit::SlotSet;
use ashlar_drive::{Check, Error as DriveError, Frames, ReaderHandle};
use ashlar_environment::time::{self, Instant};
use ashlar_format::{Data, Record};
use futures::future::{self, Either};
use futures::stream::FuturesUnordered;
use futures::{FutureExt, StreamExt};
use smallvec::SmallVec;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

/// Number of stripes read together from drives that have to be waited for: one call and one wake-up for all.
pub(crate) const RUN: u64 = 4;
/// Number of such runs under way at the same time.
const DEPTH: usize = 2;
/// Small bodies up to this size are read without a share of memory.
const INLINE_FREE: u64 = 64 << 10;
/// How long to wait for a stripe when no other shard is left to ask.
const DEADLINE: Duration = Duration::from_secs(30);
/// How long to wait if all that are left are on drives that are away: they may be back.
const AWAY: Duration = Duration::from_secs(1);

/// Bytes that a run of `stripes` stripes may hold in memory: its rows, and a few reconstructed ones.
fn room_of(data: &Data, size: u64, stripes: u64) -> usize {
    if data.inline {
        return if size > INLINE_FREE { size as usize } else { 0 };
    }
    let row = data.row_len(u64::from(data.stripe).min(size)) as usize;
    (row * (usize::from(data.k) + 1) * stripes.max(1) as usize).max(1)
}

/// The data rows of a stripe of `bytes` bytes that overlap a range of it, which is not empty; bit i is row i.
fn rows_of(data: &Data, bytes: u64, range: &Range<u64>) -> u64 {
    let row = data.row_len(bytes);
    (range.start / row..=(range.end - 1) / row).fold(0u64, |w, r| w | 1 << r)
}

/// The slots of the shards that a reader asks for first: those of the wanted rows if their drives are prompt, else of `k` that
/// are. `None`: fewer are.
fn first_slots(view: &View, data: &Data, want: u64) -> Option<SlotSet> {
    let is_prompt = |i: &u8| view.member(data.slot_of(*i)).is_some_and(|m| !m.is_late());
    let wanted = (0..data.k).filter(|i| want >> i & 1 == 1);
    let mut shards: SmallVec<[u8; 16]> = wanted.clone().filter(is_prompt).collect();
    if shards.len() < wanted.count() {
        shards = (0..view.n()).filter(is_prompt).take(usize::from(data.k)).collect();
        if shards.len() < usize::from(data.k) {
            return None;
        }
    }
    Some(shards.iter().map(|i| data.slot_of(*i)).collect())
}

impl Inner {
    /// The shards on drives of other nodes that a reader of the body that `choice` chooses from `record` would ask for first, if
    /// they are short.
    pub(crate) fn plan_prefetch(&self, view: &View, record: &Record, choice: Choice<'_>) -> Option<Plan> {
        let BodyRange { data, size, range } = choice(record)?;
        let fits = data.k > 0 && data.k + data.m == view.n() && range.end <= size && !range.is_empty();
        let len = data.shard_len(size);
        // One stripe: a shard is one frame.
        if !fits || size > u64::from(data.stripe) || len > prefetch::MOST {
            return None;
        }
        let slots = first_slots(view, &data, rows_of(&data, size, &range))?.without(view.here);
        if slots.is_empty() {
            return None;
        }
        let room = match room_of(&data, size, 1) {
            0 => None,
            bytes => Some(self.memory.readers.try_take(bytes, 0)?),
        };
        Some(Plan { data, slots, len, room })
    }
}

impl ObjectReader {
    /// Bytes that a run may hold in memory.
    pub(crate) fn room(&self) -> usize {
        let most = self.longest_run(self.rows(self.next)).unwrap_or(RUN);
        room_of(&self.data, self.size, (self.end - self.next).min(most))
    }

    pub(crate) fn start_stripe(&mut self, mut room: Option<Share>) {
        let stripe = self.next;
        let want = self.rows(stripe);
        let count = self.run_length(stripe, want);
        if let Some(room) = room.as_mut().filter(|_| !self.data.inline) {
            // The share was taken for a full run.
            room.shrink(self.row(stripe) * (usize::from(self.data.k) + 1) * count as usize);
        }
        self.next += count;
        let mut fetch = Fetch {
            stripe,
            count,
            want,
            asked: 0,
            have: 0,
            checked: 0,
            rows: SmallVec::new(),
            waiting: None,
            late: 0,
            since: Instant::now(),
            room,
        };
        if let Some(shards) = self.least_loaded(want, count) {
            if shards != want {
                // Rows will be reconstructed.
                self.check = Check::Drive;
            }
            self.ask_all(&mut fetch, shards);
        } else if (0..self.data.k).all(|i| want >> i & 1 == 0 || self.is_prompt(i)) {
            self.ask_all(&mut fetch, want);
        } else {
            self.ask_more(&mut fetch);
        }
        self.ahead.stock.lock().fetches.push_back(fetch);
    }

    /// Whether a shard is not known to be missing, and its drive not to be late.
    pub(crate) fn is_prompt(&self, shard: u8) -> bool {
        match &self.shards[usize::from(shard)] {
            Shard::Away | Shard::Bad => false,
            // It is here already.
            Shard::Open(r) if matches!(**r, ReaderHandle::Whole(_)) => true,
            _ => self.member(shard).is_some_and(|m| !m.is_late()),
        }
    }

    fn ask_all(&mut self, fetch: &mut Fetch, shards: u64) {
        for i in (0..self.view.n()).filter(|i| shards >> i & 1 == 1) {
            self.ask(fetch, i);
        }
    }

    /// How many stripes to read together, from `stripe` on: several only if some drive has to be waited for anyway. The first
    /// stripe of a reader is read alone unless all its shards are open, so that its bytes come soon.
    fn run_length(&self, stripe: u64, want: u64) -> u64 {
        let long = self.longest_run(want);
        let mut waits = long.is_some();
        for i in (0..self.data.k).filter(|i| long.is_none() && want >> i & 1 == 1) {
            match &self.shards[usize::from(i)] {
                Shard::Open(r) => waits |= r.is_direct(),
                Shard::Opening(_) if stripe > self.first => waits = true,
                Shard::Opening(_) | Shard::Closed | Shard::Away | Shard::Bad => return 1,
            }
        }
        if !waits {
            return 1;
        }
        let end = self.end.min(stripe + long.unwrap_or(RUN));
        (stripe..end).take_while(|s| self.rows(*s) == want).count() as u64
    }

    /// Bytes of a row of a stripe.
    pub(crate) fn row(&self, stripe: u64) -> usize {
        self.data.row_len(self.extent(stripe).1) as usize
    }

    /// The data rows of a stripe that overlap the range.
    pub(crate) fn rows(&self, stripe: u64) -> u64 {
        let (at, bytes) = self.extent(stripe);
        let from = self.range.start.max(at) - at;
        let to = self.range.end.min(at + bytes) - at;
        rows_of(&self.data, bytes, &(from..to))
    }

    /// The offset of a stripe in the body and its number of bytes.
    pub(crate) fn extent(&self, stripe: u64) -> (u64, u64) {
        let len = u64::from(self.data.stripe);
        let at = stripe * len;
        (at, len.min(self.size - at))
    }

    pub(crate) fn member(&self, shard: u8) -> Option<&Arc<Member>> {
        self.view.member(self.data.slot_of(shard))
    }

    /// Asks for one row. Answers at once if no device has to be waited for.
    fn ask(&mut self, fetch: &mut Fetch, shard: u8) {
        fetch.asked |= 1 << shard;
        let Some(member) = self.member(shard).cloned() else {
            self.shards[usize::from(shard)] = Shard::Away;
            return;
        };
        self.open_now(shard);
        let open = match &self.shards[usize::from(shard)] {
            Shard::Open(r) => Some(r.clone()),
            Shard::Opening(_) | Shard::Closed => None,
            Shard::Away | Shard::Bad => return,
        };
        let (frame, count, check) = (fetch.stripe as u32, fetch.count as u32, self.check);
        if let Some(r) = &open
            && let Some(bytes) = r.read_run_now(frame, count, check)
        {
            return self.took(fetch, shard, check, bytes);
        }
        let handle = match open {
            Some(r) => Either::Left(future::ready(Ok(r))),
            None => Either::Right(self.opening(shard, &member)),
        };
        let began = Instant::now();
        let asked = member.asked_for(self.row(fetch.stripe) as u64 * fetch.count);
        let future: RowFuture = Box::pin(async move {
            let _asked = asked;
            let handle = handle.await;
            let bytes = match &handle {
                Ok(r) if count == 1 => r.read(frame, check).await.map(|b| [b].into_iter().collect()),
                Ok(r) => r.read_run(frame, count, check).await,
                Err(e) => Err(e.clone()),
            };
            let took = began.elapsed();
            if bytes.is_ok() {
                member.latency.note_read(took);
            }
            Row { shard, reader: handle.ok(), bytes, check, took }
        });
        fetch.waiting.get_or_insert_with(FuturesUnordered::new).push(future);
    }

    /// The handle of a shard that is not open yet: fetches of several stripes open it once.
    fn opening(&mut self, shard: u8, member: &Arc<Member>) -> Opened {
        let state = &mut self.shards[usize::from(shard)];
        if let Shard::Opening(opened) = state {
            return opened.clone();
        }
        let (member, id) = (member.clone(), self.data.write_id);
        let open = async move { member.drive.open_shard(id, shard).await.map(Arc::new) };
        let opened = open.boxed().shared();
        *state = Shard::Opening(opened.clone());
        opened
    }

    /// Opens a shard if that needs no device.
    pub(crate) fn open_now(&mut self, shard: u8) {
        let Some(member) = self.member(shard) else {
            self.shards[usize::from(shard)] = Shard::Away;
            return;
        };
        if matches!(self.shards[usize::from(shard)], Shard::Closed | Shard::Opening(_))
            && let Some(opened) = member.drive.open_shard_now(self.data.write_id, shard)
        {
            match opened.and_then(|r| self.fits(r)) {
                Ok(r) => self.shards[usize::from(shard)] = Shard::Open(Arc::new(r)),
                Err(e) => self.fail(shard, &e),
            }
        }
    }

    /// Takes the shards that came with the record, if they are of this write.
    pub(crate) fn take_prefetched(&mut self, prefetched: Prefetched) {
        if prefetched.write_id != Some(self.data.write_id) {
            return;
        }
        self.prefetched_room = prefetched.room;
        for (shard, bytes) in prefetched.shards {
            // One that does not fit is asked for again, which finds out why.
            if let Some(Shard::Closed) = self.shards.get(usize::from(shard))
                && let Ok(r) = self.fits(ReaderHandle::Whole(bytes))
            {
                self.shards[usize::from(shard)] = Shard::Open(Arc::new(r));
            }
        }
    }

    /// Checks that a shard has the length that its body requires.
    fn fits(&self, r: ReaderHandle) -> Result<ReaderHandle, DriveError> {
        let row = self.data.row_len(u64::from(self.data.stripe)) as u32;
        if r.len() != self.data.shard_len(self.size) || (r.frame() != row && r.frames() > 1) {
            return Err(DriveError::Corrupt("a shard of another size".into()));
        }
        Ok(r)
    }

    fn took(&mut self, fetch: &mut Fetch, shard: u8, check: Check, bytes: Result<Frames, DriveError>) {
        let fits = |b: &Frames| {
            b.len() as u64 == fetch.count
                && (fetch.stripe..).zip(b.iter()).all(|(s, b)| b.len() == self.row(s))
        };
        match bytes {
            Ok(b) if fits(&b) => {
                if fetch.have >> shard & 1 == 0 {
                    fetch.have |= 1 << shard;
                    fetch.checked |= u64::from(check == Check::Drive) << shard;
                    fetch.rows.push((shard, b));
                }
            }
            Ok(_) => self.fail(shard, &DriveError::Corrupt("a frame of another size".into())),
            Err(e) => self.fail(shard, &e),
        }
    }

    pub(crate) fn fail(&mut self, shard: u8, e: &DriveError) {
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

    pub(crate) fn is_gone(&self, shard: u8) -> bool {
        matches!(self.shards[usize::from(shard)], Shard::Away | Shard::Bad)
    }

    /// Asks as many further shards as are needed to have `k` rows that are neither missing nor late: quick
    /// drives before late ones, data before parity. Since rows will be reconstructed, the drives check from
    /// now on what this reader reads.
    fn ask_more(&mut self, fetch: &mut Fetch) {
        self.check = Check::Drive;
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
                let late = self.member(i).is_none_or(|m| m.is_late());
                if fetch.asked >> i & 1 == 0 && !self.is_gone(i) && (late_too || !late) {
                    self.ask(fetch, i);
                }
            }
        }
    }

    /// Waits until the wanted rows of the stripe have arrived or can be reconstructed.
    pub(crate) async fn complete(&mut self, fetch: &mut Fetch) -> Result<()> {
        let began = Instant::now();
        loop {
            if fetch.have & fetch.want == fetch.want {
                return Ok(());
            }
            if fetch.have.count_ones() >= u32::from(self.data.k) {
                match self.unchecked(fetch) {
                    None => return Ok(()),
                    Some(shard) => self.verify(fetch, shard).await,
                }
                continue;
            }
            // A wanted row will not arrive, or not soon: k others are needed.
            if (0..self.data.k).any(|i| fetch.want >> i & 1 == 1 && self.is_suspect(fetch, i)) {
                let before = fetch.asked;
                self.ask_more(fetch);
                if fetch.asked != before {
                    continue;
                }
            }
            if fetch.waiting.as_ref().is_none_or(FuturesUnordered::is_empty) {
                return Err(self.shortage(fetch.have.count_ones(), fetch.stripe).await);
            }
            let pending = self.pending(fetch);
            if began.elapsed() >= AWAY && self.are_away(pending) {
                fetch.late |= pending;
                let before = fetch.asked;
                self.ask_more(fetch);
                if fetch.asked == before {
                    return Err(self.shortage(fetch.have.count_ones(), fetch.stripe).await);
                }
                continue;
            }
            // While this stripe waits for drives, the next ones may be read too.
            while self.ahead.stock.lock().fetches.len() + 1 < DEPTH && self.next < self.end {
                // Leaves the rest of the budget free: this is not needed yet.
                let readers = &self.inner.memory.readers;
                let Some(room) = readers.try_take(self.room(), readers.total() / 4) else { break };
                self.start_stripe(Some(room));
                if let Some(f) = self.ahead.stock.lock().fetches.back_mut() {
                    poll_once(f);
                }
            }
            self.await_row(fetch, began).await?;
        }
    }

    /// A row that has arrived and was not checked.
    fn unchecked(&self, fetch: &Fetch) -> Option<u8> {
        (0..self.view.n()).find(|s| (fetch.have & !fetch.checked) >> s & 1 == 1)
    }

    /// Checks the rows of a shard before others are reconstructed from them; rows that do not verify count as
    /// missing.
    async fn verify(&mut self, fetch: &mut Fetch, shard: u8) {
        let frames = fetch.rows.iter().find(|r| r.0 == shard).map(|r| r.1.clone());
        let done = match (&self.shards[usize::from(shard)], self.member(shard), frames) {
            (Shard::Open(r), Some(member), Some(frames)) => {
                member.in_time(r.verify(fetch.stripe as u32, frames)).await
            }
            _ => Err(DriveError::Offline("its shard was given up meanwhile")),
        };
        match done {
            Ok(()) => fetch.checked |= 1 << shard,
            Err(e) => {
                fetch.have &= !(1 << shard);
                fetch.rows.retain(|r| r.0 != shard);
                // The state of a shard that was given up already does not change.
                if !self.is_gone(shard) {
                    self.fail(shard, &e);
                }
            }
        }
    }

    fn is_suspect(&self, fetch: &Fetch, shard: u8) -> bool {
        let bit = |set: u64| set >> shard & 1 == 1;
        !bit(fetch.have) && (!bit(fetch.asked) || bit(fetch.late) || self.is_gone(shard))
    }

    /// The shards that were asked for and may still come, as bits.
    fn pending(&self, fetch: &Fetch) -> u64 {
        let open = fetch.asked & !fetch.have;
        (0..self.view.n()).filter(|s| open >> s & 1 == 1 && !self.is_gone(*s)).fold(0, |b, s| b | 1 << s)
    }

    /// Whether the drives of all these shards are away.
    fn are_away(&self, shards: u64) -> bool {
        let mut of = (0..self.view.n()).filter(|s| shards >> s & 1 == 1);
        of.all(|s| self.member(s).is_none_or(|m| m.is_away()))
    }

    /// Waits for one more row, or until others should be asked; if there are none, a short time, in which drives
    /// may be found to be away. `began`: when the reader began to wait for the stripe.
    async fn await_row(&mut self, fetch: &mut Fetch, began: Instant) -> Result<()> {
        let prompt = self.pending(fetch) & !fetch.late;
        let members = (0..self.view.n()).filter(|s| prompt >> s & 1 == 1);
        let hedge = members.filter_map(|s| self.member(s).map(|m| m.hedge_after())).max();
        let patience = hedge.unwrap_or(HANG_CHECK_INTERVAL);
        let Some(waiting) = &mut fetch.waiting else { return Ok(()) };
        match time::timeout(patience, waiting.next()).await {
            Ok(Some(row)) => {
                self.arrived(fetch, row);
                Ok(())
            }
            Ok(None) => Ok(()),
            Err(_) if hedge.is_none() && began.elapsed() <= DEADLINE => Ok(()),
            Err(_) if hedge.is_none() || fetch.since.elapsed() > DEADLINE => {
                Err(Error::Unavailable("the drives do not answer in time".into()))
            }
            Err(_) => {
                for s in (0..self.view.n()).filter(|s| prompt >> s & 1 == 1) {
                    fetch.late |= 1 << s;
                    if let Some(m) = self.member(s) {
                        m.latency.mark_slow();
                    }
                }
                self.ask_more(fetch);
                Ok(())
            }
        }
    }

    fn arrived(&mut self, fetch: &mut Fetch, row: Row) {
        if let Some(r) = row.reader
            && matches!(self.shards[usize::from(row.shard)], Shard::Opening(_))
        {
            let (len, frame, frames) = (r.len(), r.frame(), r.frames());
            let want = self.data.row_len(u64::from(self.data.stripe)) as u32;
            if len != self.data.shard_len(self.size) || (frame != want && frames > 1) {
                return self.fail(row.shard, &DriveError::Corrupt("a shard of another size".into()));
            }
            self.shards[usize::from(row.shard)] = Shard::Open(r);
        }
        tracing::trace!(shard = row.shard, took = ?row.took, "row");
        self.took(fetch, row.shard, row.check, row.bytes);
    }
}

/// Starts the reads of a stripe; their results are processed later.
fn poll_once(fetch: &mut Fetch) {
    if let Some(w) = &mut fetch.waiting
        && let Some(Some(row)) = w.next().now_or_never()
    {
        // The row has arrived: it goes back into the queue as a finished future.
        w.push(Box::pin(std::future::ready(row)));
    }
}
