//! Reading a register (docs/protocol.md 2.4 and 2.13).
//!
//! The usual read asks a majority in the caller's own task, without waiting for any device, and decodes
//! nothing if the record is cached. If a drive would have to wait, or answers differ, the slow path follows:
//! all slots at once, then, if necessary, an identity round.
//!
//! An answer of half of the drives (2.13) is given only if the layout's epoch is still in force after the
//! last of them answered: the other half may have been declared dead and replaced in the meantime.
//!
//! Invariants: [`ashlar_commit::Reader`] has shown that what is served is irrevocable; too few answers are
//! [`Error::Unavailable`], never "absent"; a corrupt register is silence, not absence.
//!
//! Must not depend on: what a record means beyond the data it names.

use crate::ask::Waiting;
use crate::invariants::{Shown, no_joining_votes};
use crate::key_turn::KeyTurn;
use crate::prefetch::{Choice, Prefetched, Wish};
use crate::sets::{Inner, Sets};
use crate::stored::Stored;
use crate::table::{FIRST_HANG_CHECK, HANG_CHECK_INTERVAL, View};
use crate::{Error, Result};
use ashlar_commit::{Proof, ReadStep, Reader, SlotSet};
use ashlar_drive::{Error as DriveError, ReadReply};
use ashlar_environment::time::{self, Instant};
use ashlar_format::{Ballot, Record, RegisterKey};
use bytes::Bytes;
use futures::StreamExt;
use futures::future::BoxFuture;
use smallvec::SmallVec;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// How long a read waits for drives before those that did not answer count as silent.
const DEADLINE: Duration = Duration::from_secs(10);

/// How long a read that has its answer waits for other drives.
const GRACE: Duration = Duration::from_millis(50);

/// Number of layouts that a read or a listing follows before it gives up.
pub(crate) const LAYOUTS: u32 = 8;

/// A register as read.
#[derive(Clone, Debug)]
pub struct Register {
    /// The ballot under which it was chosen.
    pub ballot: Ballot,
    /// [`Record::digest`] of the bytes that the drives store.
    pub digest: u64,
    /// The state; may be a tombstone.
    pub record: Arc<Record>,
}

/// A successful update, with the index of its answer.
pub(crate) struct Done {
    pub(crate) answer: usize,
    /// As [`crate::Updated::ballot`].
    pub(crate) ballot: Ballot,
    pub(crate) register: Option<Register>,
}

/// The answers of drives to one read.
pub(crate) struct Answers {
    pub(crate) reader: Reader,
    /// Records seen, by ballot, with the digest. More than two only in a duel.
    pub(crate) records: SmallVec<[(Ballot, u64, Bytes); 2]>,
    /// What voters showed, and the slots with joining drives.
    shown: Shown,
    pub(crate) joining: SlotSet,
    /// The highest purge horizon of voters without a record.
    purged: Option<Ballot>,
    /// Shards that came with answers, by slot.
    pub(crate) shards: SmallVec<[(u8, Bytes); 4]>,
}

impl Answers {
    pub(crate) fn new(view: &View) -> Answers {
        let (shown, joining) = (Shown::default(), SlotSet::EMPTY);
        let (records, shards) = (SmallVec::new(), SmallVec::new());
        Answers { reader: Reader::new(view.quorum), records, shown, joining, purged: None, shards }
    }

    pub(crate) fn take(&mut self, slot: u8, reply: &ReadReply) -> ReadStep {
        let seen = reply.accepted.as_ref();
        if let Some(s) = seen
            && let Some(bytes) = &s.record
            && !self.records.iter().any(|r| r.0 == s.ballot)
        {
            self.records.push((s.ballot, s.digest, bytes.clone()));
        }
        match seen {
            _ if !reply.voter => {
                self.joining.insert(slot);
            }
            Some(s) => self.shown.add(slot, s.ballot, s.hint),
            None => self.purged = self.purged.max(Some(reply.horizon)),
        }
        // One-sync records are written only if a majority is enough to choose them (update.rs), so they need
        // no other count here.
        match seen {
            None => self.reader.on_absent(slot, reply.horizon, reply.voter),
            Some(s) => self.reader.on_answer(slot, Some(s.ballot), s.hint, reply.voter),
        }
    }

    /// The highest ballot shown: of a record, or of a tombstone that a voter purged. `None`: nothing was answered.
    pub(crate) fn newest(&self) -> Option<Ballot> {
        self.records.iter().map(|r| r.0).max().max(self.purged)
    }

    /// Checks that the record of this ballot may be served without a round.
    fn check(&self, ballot: Ballot, majority: u8) {
        no_joining_votes(self.reader.answered_by(), self.joining);
        self.shown.may_serve(ballot, majority);
    }

    pub(crate) fn silent(&mut self, slot: u8) -> ReadStep {
        self.reader.on_silent(slot)
    }
}

impl Sets {
    /// Reads a register. `None`: it has no record (a tombstone is a record).
    ///
    /// # Errors
    /// [`Error::Unavailable`] if too few drives answer to be certain.
    pub fn read_register<'a>(&'a self, key: &'a RegisterKey) -> BoxFuture<'a, Result<Option<Register>>> {
        Box::pin(async move {
            let hash = ashlar_checksum::key_hash(key.as_bytes());
            self.inner.read(key, hash, None).await
        })
    }

    /// Like [`Sets::read_register`]; drives of other nodes send the shards of what `choice` chooses with their answers, if they
    /// are short and [`Sets::bring_shards`] allows it. What came may be nothing, or of another body than the register names.
    ///
    /// # Errors
    /// Like [`Sets::read_register`].
    pub fn read_register_for<'a>(
        &'a self,
        key: &'a RegisterKey,
        choice: Choice<'a>,
    ) -> BoxFuture<'a, Result<(Option<Register>, Prefetched)>> {
        Box::pin(async move {
            let hash = ashlar_checksum::key_hash(key.as_bytes());
            let mut wish = Wish { choice, got: Prefetched::default() };
            let register = self.inner.read(key, hash, Some(&mut wish)).await?;
            Ok((register, wish.got))
        })
    }

    /// Whether reads may ask drives of other nodes for shards as well: all nodes have to understand that call. No, at first.
    pub fn bring_shards(&self, may: bool) {
        self.inner.may_bring_shards.store(may, Ordering::Relaxed);
    }
}

impl Inner {
    /// `wish`: what to ask drives of other nodes for as well.
    pub(crate) async fn read(
        &self,
        key: &RegisterKey,
        hash: u64,
        wish: Option<&mut Wish<'_>>,
    ) -> Result<Option<Register>> {
        match self.read_now(key, hash) {
            Some(done) => done,
            None => self.read_asking(key, hash, wish).await,
        }
    }

    /// The fast path; `None`: use the slow path.
    fn read_now(&self, key: &RegisterKey, hash: u64) -> Option<Result<Option<Register>>> {
        if self.undecided_registers.has(hash) {
            return None;
        }
        let all = self.all_may_be_undecided();
        let table = self.table.load();
        let view = match table.view(key.group()) {
            Ok(v) => v,
            Err(e) => return Some(Err(e)),
        };
        // Drives of other nodes have to be waited for.
        if all && !view.there.is_empty() {
            return None;
        }
        if self.options.sole
            && let Some((ballot, digest, record)) = self.cache.current(hash, key)
        {
            return Some(Ok(Some(Register { ballot, digest, record })));
        }
        let watch = self.cache.watch(hash);
        let cached = self.cache.get(hash, key);
        let n = view.n();
        let first = (hash % u64::from(n)) as u8;
        let mut answers = Answers::new(view);
        let mut want = cached.is_none();
        for i in 0..n {
            let slot = (first + i) % n;
            let step = match view.member(slot) {
                None => answers.silent(slot),
                Some(m) => match m.drive.read_now(key, want, view.epoch)? {
                    Ok(reply) => {
                        // One copy of the record is enough while the drives agree.
                        want &= reply.accepted.is_none();
                        answers.take(slot, &reply)
                    }
                    Err(e) => {
                        self.note(key, &e);
                        answers.silent(slot)
                    }
                },
            };
            match step {
                ReadStep::Wait => {}
                // A slot outside of the majority may show something else.
                _ if all && i + 1 < n => {}
                ReadStep::Absent { majority: true } => return Some(Ok(None)),
                // Answers of half of the drives: the epoch has to be confirmed.
                ReadStep::Absent { majority: false } => return None,
                ReadStep::Serve { proof: Proof::HintHalf | Proof::Half, .. } => return None,
                ReadStep::Serve { ballot, .. } => {
                    answers.check(ballot, view.quorum.majority());
                    if let Some((b, digest, record)) = cached
                        && b == ballot
                    {
                        self.cache.confirm(hash, key, ballot, watch);
                        return Some(Ok(Some(Register { ballot, digest, record })));
                    }
                    let found = answers.records.iter().find(|r| r.0 == ballot)?;
                    let register = self.decoded(key, hash, found)?;
                    self.cache.confirm(hash, key, ballot, watch);
                    return Some(Ok(Some(register)));
                }
                // A write of this process may be under way: the slow path waits for it.
                ReadStep::NeedIdentityRound | ReadStep::Unavailable => return None,
            }
        }
        None
    }

    fn decoded(&self, key: &RegisterKey, hash: u64, r: &(Ballot, u64, Bytes)) -> Option<Register> {
        let (ballot, digest, bytes) = r;
        let record = Stored::parse(bytes).and_then(|s| s.decode()).ok().map(Arc::new)?;
        self.cache.put(hash, key, *ballot, *digest, &record, bytes.len());
        Some(Register { ballot: *ballot, digest: *digest, record })
    }

    /// A drive failed to show a register.
    pub(crate) fn note(&self, key: &RegisterKey, e: &DriveError) {
        if matches!(e, DriveError::Corrupt(_)) {
            self.heals.push(key, true);
        }
    }

    /// Asks all slots at once; settles what is undecided.
    pub(crate) async fn read_slowly(&self, key: &RegisterKey, hash: u64) -> Result<Option<Register>> {
        self.read_asking(key, hash, None).await
    }

    async fn read_asking(
        &self,
        key: &RegisterKey,
        hash: u64,
        wish: Option<&mut Wish<'_>>,
    ) -> Result<Option<Register>> {
        if !self.undecided_registers.has(hash) {
            if let Asked::Known(r) = self.ask_all(key, hash, wish).await? {
                return Ok(r);
            }
            self.turns.met(hash);
        }
        // Wait for a write of this process, or of another node, which usually decides it; otherwise decide it here.
        let mut turn = self.turn(hash).await;
        self.read_in_turn(key, hash, &mut turn).await
    }

    /// Asks all slots; settles what is undecided. The caller holds the key's turn.
    pub(crate) async fn read_in_turn(
        &self,
        key: &RegisterKey,
        hash: u64,
        turn: &mut KeyTurn,
    ) -> Result<Option<Register>> {
        if self.undecided_registers.has(hash) {
            return self.settle(key, hash, turn).await;
        }
        match self.ask_all(key, hash, None).await? {
            Asked::Known(r) => Ok(r),
            Asked::Undecided(shown) => match (self.settle(key, hash, turn).await, shown) {
                // It is chosen: what is above it can be settled only when enough drives can be written.
                (Err(e @ (Error::Unavailable(_) | Error::BucketFenced(_))), Some(shown)) => {
                    tracing::debug!(?key, "served although something undecided lies above it: {e}");
                    Ok(Some(shown))
                }
                (r, _) => r,
            },
        }
    }

    /// The state that is known without deciding anything; `None`: undecided. The caller holds the turn.
    pub(crate) async fn ask_all_again(
        &self,
        key: &RegisterKey,
        hash: u64,
    ) -> Result<Option<Option<Register>>> {
        Ok(match self.ask_all(key, hash, None).await? {
            Asked::Known(r) => Some(r),
            Asked::Undecided(_) => None,
        })
    }

    async fn ask_all(&self, key: &RegisterKey, hash: u64, mut wish: Option<&mut Wish<'_>>) -> Result<Asked> {
        // A record that this process has is not sent again; if another one turns out to be needed, all are asked for.
        let mut with_records = false;
        for _ in 0..LAYOUTS {
            let view = self.view(key.group())?;
            let wish = wish.as_deref_mut().filter(|_| !with_records);
            let (asked, whole) = match self.ask_view(&view, key, hash, wish, with_records).await {
                // Drives that follow a newer layout refuse readers of this one.
                Err(Error::Unavailable(_)) if self.newer_layout(std::slice::from_ref(&view)).await => {
                    continue;
                }
                Ok(None) => {
                    with_records = true;
                    continue;
                }
                r => match r? {
                    Some(asked) => asked,
                    None => continue,
                },
            };
            if whole || self.in_force(view.layout).await? {
                return Ok(asked);
            }
        }
        Err(Error::Unavailable("the layout, or the record, keeps changing".into()))
    }

    /// Whether this epoch of the layout is the newest. Asked after answers of half of the drives.
    pub(crate) async fn in_force(&self, epoch: u32) -> Result<bool> {
        let now = match &self.options.epoch {
            Some(source) => source().await.map_err(Error::Unavailable)?,
            None => self.table.load().layout.epoch,
        };
        let here = self.table.load().layout.epoch;
        if now > here {
            // The process that changed the map announces it soon; until then this half cannot answer.
            return Err(Error::Unavailable(format!(
                "only half the drives answered, and the layout they are asked in, epoch {here}, is not \
                 the newest, {now}"
            )));
        }
        Ok(here == epoch)
    }

    /// The answers of the drives of one layout; the flag tells that they are valid whatever the newest layout
    /// is. `None`: the record is needed, which is not the one that this process has.
    async fn ask_view(
        &self,
        view: &View,
        key: &RegisterKey,
        hash: u64,
        wish: Option<&mut Wish<'_>>,
        with_records: bool,
    ) -> Result<Option<(Asked, bool)>> {
        let mut answers = Answers::new(view);
        let cached = self.cache.get(hash, key).filter(|_| !with_records);
        let cached = cached.map(|(ballot, digest, record)| Register { ballot, digest, record });
        let mut waiting = Waiting::new();
        let known = cached.as_ref().map_or(Ballot::ZERO, |c| c.ballot);
        let known = (!with_records).then_some(known);
        let newest = self.ask_here(view, key, known, &mut answers, &mut waiting);
        let wish = wish.filter(|_| self.may_bring_shards.load(Ordering::Relaxed));
        let mut have: SmallVec<[Register; 2]> = cached.into_iter().collect();
        let plan = wish.as_ref().and_then(|wish| {
            if have.iter().all(|r| Some(r.ballot) != newest) {
                let shown = answers.records.iter().find(|r| Some(r.0) == newest)?;
                have.push(self.decoded(key, hash, shown)?);
            }
            self.plan_prefetch(view, &have.last()?.record, wish.choice)
        });
        let mut step = self.ask_there(view, key, newest, plan.as_ref(), &mut answers, &mut waiting);
        let deadline = Instant::now() + DEADLINE;
        // The first check is early, so that the others can answer before drives that hang count as silent. One timer does: a
        // read over nodes is woken by each of them.
        let check = time::sleep(FIRST_HANG_CHECK);
        tokio::pin!(check);
        loop {
            while step == ReadStep::Wait {
                tokio::select! {
                    biased;
                    next = waiting.next() => match next {
                        None => step = answers.reader.on_deadline(),
                        Some(told) => step = self.hear(view, key, told, &mut answers, &mut waiting),
                    },
                    () = &mut check => {
                        let now = Instant::now();
                        check.as_mut().reset(now + HANG_CHECK_INTERVAL);
                        for slot in view.hung(view.quorum.all()).iter() {
                            step = answers.silent(slot);
                        }
                        if now >= deadline {
                            step = answers.reader.on_deadline();
                        }
                    }
                }
            }
            if self.all_may_be_undecided() && answers.reader.more() {
                step = self.ask_more(view, key, &mut answers, &mut waiting).await;
            }
            // What was heard beyond an answer can show a higher ballot, which the slots still open must settle.
            if step != ReadStep::Wait {
                break;
            }
        }
        if let (Some(wish), Some(plan)) = (wish, plan) {
            wish.got = plan.got(std::mem::take(&mut answers.shards));
        }
        let asked = answers.reader.answered_by().len();
        let enough = asked >= view.quorum.half();
        assert!(enough || step == ReadStep::Unavailable, "I9: {asked} voters cannot tell");
        // Another drive has it, which did not send it.
        let left_out = |ballot: Ballot| {
            !with_records && known != Some(ballot) && !answers.records.iter().any(|r| r.0 == ballot)
        };
        match step {
            ReadStep::Absent { majority } => Ok(Some((Asked::Known(None), majority))),
            ReadStep::Serve { ballot, proof, .. } => {
                answers.check(ballot, view.quorum.majority());
                let whole = matches!(proof, Proof::Majority | Proof::Hint);
                match self.shown(key, hash, ballot, &have, &answers) {
                    Some(r) => Ok(Some((Asked::Known(Some(r)), whole))),
                    None if left_out(ballot) => Ok(None),
                    None => {
                        Err(Error::Corrupt(format!("the record of {key:?} at {ballot:?} cannot be decoded")))
                    }
                }
            }
            ReadStep::NeedIdentityRound => {
                let shown = answers.reader.majority_shows();
                if shown.is_some_and(left_out) {
                    return Ok(None);
                }
                let shown = shown.and_then(|b| self.shown(key, hash, b, &have, &answers));
                Ok(Some((Asked::Undecided(shown), true)))
            }
            ReadStep::Unavailable => {
                Err(Error::Unavailable("too few drives answered to read a record".into()))
            }
            ReadStep::Wait => unreachable!("the loop ends with another step"),
        }
    }

    /// The register as drives show it; `have`: what is decoded already.
    fn shown(
        &self,
        key: &RegisterKey,
        hash: u64,
        ballot: Ballot,
        have: &[Register],
        answers: &Answers,
    ) -> Option<Register> {
        match have.iter().find(|r| r.ballot == ballot) {
            Some(r) => Some(r.clone()),
            None => self.decoded(key, hash, answers.records.iter().find(|r| r.0 == ballot)?),
        }
    }

    /// There is an answer; answers of other slots are included if they are prompt.
    async fn ask_more<'a>(
        &self,
        view: &View,
        key: &'a RegisterKey,
        answers: &mut Answers,
        waiting: &mut Waiting<'a>,
    ) -> ReadStep {
        let prompt = view.which(|m| !m.is_late());
        let open = prompt.without(answers.reader.answered_by());
        let patience = view.members().filter(|(slot, _)| open.contains(*slot));
        let patience = patience.map(|(_, m)| m.latency.grace(GRACE)).max().unwrap_or(GRACE);
        let patient = time::sleep(patience);
        tokio::pin!(patient);
        while answers.reader.more() && !prompt.without(answers.reader.answered_by()).is_empty() {
            tokio::select! {
                biased;
                next = waiting.next() => match next {
                    None => break,
                    Some(told) => {
                        let _ = self.hear(view, key, told, answers, waiting);
                    }
                },
                () = &mut patient => {
                    for slot in prompt.without(answers.reader.answered_by()).iter() {
                        if let Some(m) = view.member(slot) {
                            m.latency.mark_slow();
                        }
                    }
                    break;
                }
            }
        }
        answers.reader.step()
    }
}

enum Asked {
    Known(Option<Register>),
    /// A majority shows the same state and another slot shows one above it: that state.
    Undecided(Option<Register>),
}
