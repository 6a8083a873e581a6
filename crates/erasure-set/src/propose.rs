//! One attempt on one register: sends the messages of a [`Proposer`] and waits for their answers.
//!
//! Invariants: the proposer gets every answer that arrived in time and nothing else; a slot that does not
//! answer within the deadline is silent. The attempt does not wait longer than necessary for a drive that is
//! only late ([`crate::latency::LatencyTracker`]).
//!
//! Must not depend on: what a record means beyond the data it names.

use crate::bucket_fence::grant;
use crate::cache::{Sent, Updating};
use crate::invariants::{drops_after_choice, no_joining_votes};
use crate::register::Register;
use crate::sent_records::Lineage;
use crate::sets::Inner;
use crate::stage::staged_on;
use crate::stored::{OneSyncRecord, Parent, Stored};
use crate::table::{FIRST_HANG_CHECK, HANG_CHECK_INTERVAL, View};
use crate::tail_queue::{Drops, Writes};
use crate::update::set_durable;
use crate::write::{AskedDrives, Staged};
use crate::{Error, Result};
use ashlar_commit::bucket_fence::{Deletion, admits, could_be_chosen};
use ashlar_commit::{Footing, Proposer, Recovery, SlotSet, Step};
use ashlar_drive::{Accept, DriveHandle, Error as DriveError, Inline, Known, Outcome, Prepared, Tally};
use ashlar_environment::time::{self, Instant};
use ashlar_format::{Ballot, Body, DriveId, Record, RegisterKey};
use bytes::Bytes;
use futures::future::{BoxFuture, join_all};
use futures::stream::FuturesUnordered;
use futures::{FutureExt, StreamExt};
use parking_lot::Mutex;
use smallvec::SmallVec;
use std::sync::Arc;
use std::time::Duration;

/// How long a phase waits for the answers it needs.
const DEADLINE: Duration = Duration::from_secs(20);
/// How long it waits, once it has what it needs, for drives that are usually prompt.
pub(crate) const GRACE: Duration = Duration::from_millis(50);

/// The base of an attempt.
pub(crate) struct Based {
    pub(crate) ballot: Ballot,
    /// The encoded record, without a wrapper.
    pub(crate) bytes: Bytes,
    pub(crate) record: Arc<Record>,
    /// Digest of `bytes`.
    pub(crate) digest: u64,
    /// Digest of what the drives hold.
    stored_digest: u64,
    /// What it was built on, if what the drives hold shows it.
    parent: Option<Parent>,
}

impl Based {
    /// Its place among the records of the register, and that of the record that it was built on, if that is known.
    pub(crate) fn lineage(&self) -> (Lineage, Option<Lineage>) {
        let parent = self.parent.as_ref().and_then(|parent| Lineage::of_parent(parent, &self.bytes));
        (Lineage::of(&self.record, self.digest), parent)
    }
}

/// One attempt; see the module.
pub(crate) struct Attempt<'a> {
    inner: &'a Inner,
    view: Arc<View>,
    key: &'a RegisterKey,
    hash: u64,
    p: Proposer<Bytes>,
    pub(crate) base: Option<Based>,
    /// The record that this process wrote last, and its summary.
    sent: Option<(Known, Bytes)>,
    /// The base was taken out of an overtaken one-sync record, with this summary.
    overtaken: Option<Bytes>,
    completed: bool,
    /// PREPAREs not yet answered, and their slots. Never contended: the mutex only makes the attempt
    /// shareable between threads.
    waiting: Mutex<FuturesUnordered<BoxFuture<'a, Replies>>>,
    open: SlotSet,
    /// Slots whose drives are joining.
    joining: SlotSet,
    /// The highest purge horizon of the slots that promised.
    purged: Ballot,
    /// Slots that promised and have a fence of the bucket, and the latest deletion among them.
    fenced: SlotSet,
    fence: Deletion,
    /// Set from the first ACCEPT on.
    updating: Option<Updating<'a>>,
    /// The record proposed is a tombstone.
    pub(crate) tombstone: bool,
    /// Data whose shards are in the ACCEPTs.
    carried: Writes,
}

/// Waits for `need` successes of the slots `asked`, then a short time for the rest.
pub(crate) async fn gather(tally: &Tally, view: &View, asked: SlotSet, need: u8, grace: Duration) -> Outcome {
    let prompt = view.which(|m| !m.is_late()).and(asked);
    let all = async {
        loop {
            let o = tally.outcome();
            let hoped = prompt.without(SlotSet(o.failed | o.refused | o.uncounted));
            if hoped.without(SlotSet(o.ok)).is_empty() || hoped.len() <= need {
                return;
            }
            // Ends when they have answered, or when one more has failed.
            tally.wait(o.ok.count_ones() as u8 + hoped.without(SlotSet(o.ok)).len()).await;
        }
    };
    if time::timeout(grace, all).await.is_err() {
        let o = tally.outcome();
        let answered = SlotSet(o.ok | o.failed | o.refused | o.uncounted);
        // With too few answers the group is slow, not a single drive.
        if answered.len() >= need {
            for slot in prompt.without(answered).iter() {
                if let Some(m) = view.member(slot) {
                    m.latency.mark_slow();
                }
            }
        }
    }
    let began = Instant::now();
    let o = loop {
        match time::timeout(HANG_CHECK_INTERVAL, tally.wait(need)).await {
            Ok(o) => break o,
            Err(_) => {
                let o = tally.outcome();
                let answered = SlotSet(o.ok | o.failed | o.refused | o.uncounted);
                let open = asked.without(answered);
                let hung = view.hung(open);
                // Too many hang to ever have enough: report that soon.
                let hopeless = !hung.is_empty() && SlotSet(o.ok).or(open.without(hung)).len() < need;
                if hopeless || began.elapsed() > DEADLINE {
                    break o;
                }
            }
        }
    };
    for (slot, m) in view.members() {
        if o.ok >> slot & 1 == 1 {
            m.latency.in_time();
        }
    }
    o
}

/// The error that the tally's first error means for the caller.
pub(crate) fn shortage(tally: &Tally, what: &str, have: u32, need: u8) -> Error {
    match tally.error() {
        Some(DriveError::Full) => Error::Full,
        Some(DriveError::BucketFenced(d)) => Error::BucketFenced(d),
        Some(e) => Error::Unavailable(format!("{what}: {have} of {need} drives ({e})")),
        None => Error::Unavailable(format!("{what}: {have} of {need} drives")),
    }
}

type Reply = (u8, Result<Prepared, DriveError>);
/// What one message, or one drive of this process, answered.
type Replies = SmallVec<[Reply; 4]>;

async fn ask(
    drive: DriveHandle,
    slot: u8,
    key: &RegisterKey,
    ballot: Ballot,
    known: Option<Known>,
) -> Replies {
    let reply = drive.prepare_knowing(key, ballot, known.as_ref()).await;
    [(slot, reply)].into_iter().collect()
}

/// Asks several drives of one node, with one message.
fn ask_together<'a>(
    view: &View,
    slots: SlotSet,
    key: &'a RegisterKey,
    ballot: Ballot,
    known: Option<&Known>,
) -> Option<BoxFuture<'a, Replies>> {
    let asked: SmallVec<[_; 16]> = view.members().filter(|(slot, _)| slots.contains(*slot)).collect();
    let (slot, first) = *asked.first()?;
    if asked.len() == 1 {
        return Some(ask(first.drive.clone(), slot, key, ballot, known.cloned()).boxed());
    }
    let drives: SmallVec<[DriveId; 16]> = asked.iter().map(|(_, m)| m.id).collect();
    let answer = first.drive.prepare_many(&drives, key, ballot, known);
    Some(Box::pin(async move {
        match answer.await {
            Ok(replies) => slots.iter().zip(replies).collect(),
            Err(e) => slots.iter().map(|slot| (slot, Err(e.clone()))).collect(),
        }
    }))
}

/// The record that a drive has sent, if it is above the known one.
fn learned(known: Option<Known>, reply: &Reply) -> Option<Known> {
    let (_, Ok(Prepared::Promised { accepted: Some(a), .. })) = reply else { return known };
    match known {
        Some(known) if known.ballot >= a.ballot => Some(known),
        _ => Some(Known { ballot: a.ballot, digest: Record::digest(&a.record), record: a.record.clone() }),
    }
}

impl<'a> Attempt<'a> {
    /// Sends PREPARE to all slots and waits until the base is known. `again`: an earlier attempt of the same
    /// update sent ACCEPTs, so no base counts as known to be chosen. `None`: try again, because a higher
    /// ballot won or something undecided was settled first.
    pub(crate) async fn prepare(
        inner: &'a Inner,
        view: Arc<View>,
        key: &'a RegisterKey,
        hash: u64,
        again: bool,
    ) -> Result<Option<Attempt<'a>>> {
        let ballot = inner.ballots.next(view.epoch);
        let p = if again { Proposer::retry(view.quorum, ballot) } else { Proposer::new(view.quorum, ballot) };
        let mut a = Attempt {
            inner,
            view,
            key,
            hash,
            p,
            base: None,
            sent: inner.cache.sent(hash, key),
            overtaken: None,
            completed: false,
            waiting: Mutex::new(FuturesUnordered::new()),
            open: SlotSet::EMPTY,
            joining: SlotSet::EMPTY,
            purged: Ballot::ZERO,
            fenced: SlotSet::EMPTY,
            fence: Deletion::NONE,
            updating: None,
            tombstone: false,
            carried: Writes::new(),
        };
        let mut step = Step::Wait;
        let view = a.view.clone();
        // One copy of the record is enough while the drives agree.
        let mut known = a.sent.as_ref().map(|(known, _)| known.clone());
        for (slot, member) in (0..).zip(&view.slots) {
            let new = match member {
                None => a.p.on_silent(slot),
                Some(_) if !view.here.contains(slot) => Step::Wait,
                Some(m) => {
                    // Most drives answer without waiting: no need to queue the future.
                    let mut f = ask(m.drive.clone(), slot, key, ballot, known.clone()).boxed();
                    match f.as_mut().now_or_never() {
                        Some(replies) => {
                            known = replies.iter().fold(known, learned);
                            a.feed(replies)
                        }
                        // A request would only fill its queue.
                        None if m.is_hung() => a.p.on_silent(slot),
                        None => {
                            a.waiting.get_mut().push(f);
                            a.open.insert(slot);
                            Step::Wait
                        }
                    }
                }
            };
            if new != Step::Wait {
                step = new;
            }
        }
        for slots in &view.there {
            let hung = view.hung(*slots);
            for slot in hung.iter() {
                let new = a.p.on_silent(slot);
                if new != Step::Wait {
                    step = new;
                }
            }
            let asked = slots.without(hung);
            if let Some(f) = ask_together(&view, asked, key, ballot, known.as_ref()) {
                a.waiting.get_mut().push(f);
                a.open = a.open.or(asked);
            }
        }
        if step == Step::Wait {
            step = a.await_base().await;
        }
        a.based(step).await
    }

    /// Waits until the base is known, or cannot be.
    async fn await_base(&mut self) -> Step<Bytes> {
        let deadline = time::sleep(DEADLINE);
        tokio::pin!(deadline);
        let mut hurried = false;
        let mut check_after = FIRST_HANG_CHECK;
        loop {
            if self.p.could_decide() && !hurried {
                // The others could only show that the highest record is dead, or make mending unnecessary.
                hurried = true;
                deadline.as_mut().reset(Instant::now() + GRACE);
            }
            tokio::select! {
                biased;
                next = self.waiting.get_mut().next() => match next {
                    Some(reply) => {
                        let step = self.feed(reply);
                        if step != Step::Wait {
                            return step;
                        }
                    }
                    None => unreachable!("the proposer decides when all have answered"),
                },
                () = &mut deadline => {
                    for slot in self.view.quorum.all().iter() {
                        let step = self.p.on_silent(slot);
                        if step != Step::Wait {
                            return step;
                        }
                    }
                    unreachable!("all are silent that have not answered");
                }
                () = time::sleep(check_after) => {
                    check_after = HANG_CHECK_INTERVAL;
                    for slot in self.view.hung(self.open).iter() {
                        let step = self.p.on_silent(slot);
                        if step != Step::Wait {
                            return step;
                        }
                    }
                }
            }
        }
    }

    /// Waits a short time for the promises of slots that are usually prompt: with all of them, "nothing to
    /// change" needs no round.
    pub(crate) async fn await_all_promises(&mut self) {
        let patient = time::sleep(GRACE);
        tokio::pin!(patient);
        loop {
            let prompt = self.view.which(|m| !m.is_late());
            if self.open.is_empty() || self.open.without(prompt).len() == self.open.len() {
                return;
            }
            tokio::select! {
                biased;
                next = self.waiting.get_mut().next() => match next {
                    // The base is returned: later answers can only show something above it.
                    Some(reply) => {
                        let _ = self.feed(reply);
                    }
                    None => return,
                },
                () = &mut patient => {
                    for slot in self.open.and(prompt).iter() {
                        if let Some(m) = self.view.member(slot) {
                            m.latency.mark_slow();
                        }
                    }
                    return;
                }
            }
        }
    }

    /// Passes answers to the proposer; the step that they lead to.
    fn feed(&mut self, replies: Replies) -> Step<Bytes> {
        let mut step = Step::Wait;
        for reply in replies {
            let new = self.feed_one(reply);
            if new != Step::Wait {
                step = new;
            }
        }
        step
    }

    fn feed_one(&mut self, (slot, reply): Reply) -> Step<Bytes> {
        self.open.remove(slot);
        if let Ok(Prepared::Promised { fence, purged, .. }) = &reply {
            self.purged = self.purged.max(*purged);
            if *fence != Deletion::NONE {
                self.fenced.insert(slot);
                self.fence = self.fence.max(*fence);
            }
        }
        match reply {
            Ok(Prepared::Promised { accepted: None, horizon, .. }) => self.p.on_absent(slot, horizon),
            Ok(Prepared::Promised { accepted: Some(a), .. }) => {
                if a.hint {
                    self.p.on_hint(a.ballot);
                }
                match Stored::parse(&a.record) {
                    Ok(Stored { one_sync_record: None, .. }) => {
                        self.p.on_promise(slot, Some((a.ballot, a.record)))
                    }
                    Ok(Stored { one_sync_record: Some(l), .. }) => {
                        let pair = (a.ballot, a.record);
                        self.p.on_promise_one_sync(slot, pair, l.one_sync, a.with_shard)
                    }
                    Err(_) => {
                        self.inner.heals.push(self.key, true);
                        self.p.on_silent(slot)
                    }
                }
            }
            Ok(Prepared::Refused { highest }) => self.p.on_refused(slot, highest),
            Ok(Prepared::NotVoter) => {
                self.joining.insert(slot);
                self.p.on_silent(slot)
            }
            Err(e) => {
                self.inner.note(self.key, &e);
                self.p.on_silent(slot)
            }
        }
    }

    async fn based(mut self, step: Step<Bytes>) -> Result<Option<Attempt<'a>>> {
        no_joining_votes(self.p.promised_by(), self.joining);
        // So that what this process sends later is not taken for something sent before that purge.
        self.inner.ballots.pass(self.purged, self.view.epoch)?;
        match step {
            Step::Base(None, _) => Ok(Some(self)),
            Step::Base(Some((ballot, bytes)), _) => {
                assert!(
                    ballot < self.p.ballot(),
                    "I1: the base {ballot:?} is not below {:?}",
                    self.p.ballot()
                );
                self.base = Some(self.base_of(ballot, &bytes)?);
                Ok(Some(self))
            }
            Step::Recover(r) => self.recover(r).await,
            Step::Lost { retry_above } => {
                self.inner.ballots.pass(retry_above, self.view.epoch)?;
                Ok(None)
            }
            Step::Unavailable => {
                // A slot that refused may have a newer epoch: report that rather than "too few".
                self.inner.ballots.pass(self.p.highest(), self.view.epoch)?;
                let have = self.p.promised_by().len();
                let need = self.view.quorum.majority();
                Err(Error::Unavailable(format!("{have} of {need} voters answered")))
            }
            Step::Wait | Step::Chosen => unreachable!("not a step of the first phase"),
        }
    }

    fn base_of(&self, ballot: Ballot, stored: &Bytes) -> Result<Based> {
        let bad = |e| Error::Corrupt(format!("the record of {:?} at {ballot:?}: {e}", self.key));
        let parts = Stored::parse(stored).map_err(bad)?;
        let digest = Record::digest(&parts.record);
        if let Some((b, stored_digest, record)) = self.inner.cache.get(self.hash, self.key)
            && b == ballot
        {
            let (bytes, parent) = (parts.record, parts.one_sync_record.map(|one_sync| one_sync.parent));
            return Ok(Based { ballot, bytes, record, digest, stored_digest, parent });
        }
        let record = Arc::new(parts.decode().map_err(bad)?);
        let stored_digest = if parts.one_sync_record.is_some() { Record::digest(stored) } else { digest };
        let (bytes, parent) = (parts.record, parts.one_sync_record.map(|one_sync| one_sync.parent));
        Ok(Based { ballot, bytes, record, digest, stored_digest, parent })
    }

    /// Handles a one-sync record that needs recovery before anything is built on it.
    async fn recover(mut self, r: Recovery<Bytes>) -> Result<Option<Attempt<'a>>> {
        let bad = |e| Error::Corrupt(format!("a one-sync record: {e}"));
        let parts = Stored::parse(&r.value).map_err(bad)?;
        let Some(one_sync_record) = parts.one_sync_record.clone() else {
            return Err(Error::Corrupt("a one-sync record without its wrapper".into()));
        };
        match r.footing {
            Footing::Overtaken => {
                self.overtaken = Some(one_sync_record.parent_summary.clone());
                if !one_sync_record.parent.is_none() {
                    let record = one_sync_record.parent.bytes(&parts.record);
                    let parent = Stored { record, one_sync_record: None };
                    let record = Arc::new(parent.decode().map_err(bad)?);
                    let digest = Record::digest(&parent.record);
                    let (ballot, stored_digest) = (one_sync_record.parent_ballot, digest);
                    let bytes = parent.record;
                    self.base = Some(Based { ballot, bytes, record, digest, stored_digest, parent: None });
                }
                Ok(Some(self))
            }
            Footing::Mend { holders, needed } => {
                let base = self.base_of(r.ballot, &r.value)?;
                self.inner.before_mending().await;
                if let Err(why) = self.mend(&base, &one_sync_record, holders, needed).await {
                    // The usual reason: another process was quicker, and its record replaced the data.
                    let shown = self.inner.newest_shown(&self.view, self.key).await;
                    if let Some(above) = shown.filter(|shown| *shown > base.ballot) {
                        self.inner.ballots.pass(above, self.view.epoch)?;
                        return Ok(None);
                    }
                    // Drives that follow a newer layout tell a reader of this one nothing.
                    if self.inner.newer_layout(std::slice::from_ref(&self.view)).await {
                        return Err(Error::Unavailable(
                            "the layout changed while a write was finished".into(),
                        ));
                    }
                    // The drives that had it are gone since they answered: what the others have decides.
                    if shown != Some(base.ballot) {
                        return Ok(None);
                    }
                    // A drive lost its shard since it answered, or one that has a shard answered too late. Nobody was told that
                    // this write is done, so nothing is damaged.
                    let why = match why {
                        Error::Corrupt(why) => {
                            Error::Unavailable(format!("an unfinished write cannot be finished now: {why}"))
                        }
                        why => why,
                    };
                    return Err(why);
                }
                // The data is safe now: the record continues as a plain one.
                self.complete(Some(&base)).await?;
                Ok(None)
            }
        }
    }

    /// Makes the missing shards of a one-sync record durable.
    async fn mend(
        &mut self,
        base: &Based,
        one_sync_record: &OneSyncRecord,
        holders: SlotSet,
        needed: u8,
    ) -> Result<()> {
        let part = base.record.data().find(|p| p.data.write_id == one_sync_record.write_id);
        let Some(part) = part else {
            return Err(Error::Corrupt("a one-sync record that does not name its data".into()));
        };
        let wanted = self.view.which(|_| true).without(holders);
        let ballot = self.p.ballot();
        let Some(inner) = self.inner.me.upgrade() else {
            return Err(Error::Unavailable("stopping".into()));
        };
        let made = inner.make_shards(&self.view, self.key, part, wanted, ballot, None).await?;
        for slot in made.iter() {
            self.p.on_mended(slot);
        }
        if holders.or(made).len() < needed {
            return Err(Error::Unavailable("an unfinished write lacks drives to be finished".into()));
        }
        Ok(())
    }

    /// Fails if so many drives are fenced that the proposal cannot be chosen. Checked before it is sent, so
    /// that no outcome stays unknown.
    pub(crate) fn check_fence(&self) -> Result<()> {
        let closed = match admits(self.fence, grant(self.key, self.tombstone)) {
            true => SlotSet::EMPTY,
            false => self.fenced,
        };
        match could_be_chosen(self.view.quorum, self.view.quorum.all(), closed) {
            true => Ok(()),
            false => Err(Error::BucketFenced(self.fence)),
        }
    }

    pub(crate) fn view(&self) -> &View {
        &self.view
    }
    pub(crate) fn ballot(&self) -> Ballot {
        self.p.ballot()
    }
    pub(crate) fn purged(&self) -> Ballot {
        self.purged
    }
    pub(crate) fn promised(&self) -> SlotSet {
        self.p.promised_by()
    }
    pub(crate) fn chosen_known(&self) -> bool {
        self.overtaken.is_none() && self.p.chosen_known()
    }

    /// Whether "nothing to change" may be answered without a round.
    pub(crate) fn idle_known(&self) -> bool {
        self.overtaken.is_none() && self.p.idle_known()
    }

    /// The base as a register: unchanged, or as it was completed.
    pub(crate) fn register(&self, base: Based) -> Register {
        if self.completed {
            Register { ballot: self.ballot(), digest: base.digest, record: base.record }
        } else {
            Register { ballot: base.ballot, digest: base.stored_digest, record: base.record }
        }
    }

    /// The identity round: the base itself (a tombstone if there is none) under this ballot. `None`: lost.
    pub(crate) async fn complete(&mut self, base: Option<&Based>) -> Result<Option<()>> {
        let Some(summary) = self.summary_of(base).await else { return Ok(None) };
        self.tombstone = base.is_none_or(|b| matches!(b.record.body, Body::Tombstone));
        self.check_fence()?;
        let bytes = match base {
            Some(b) => b.bytes.clone(),
            None => Bytes::from(Record { seq: 1, parent: 0, nonce: 0, body: Body::Tombstone }.encode()),
        };
        let len = bytes.len();
        let chosen = self.accept(bytes, summary, 0, Drops::new()).await?;
        if chosen.is_some() {
            self.completed = true;
            if let Some(b) = base {
                let (ballot, key) = (self.ballot(), self.key);
                self.inner.cache.put(self.hash, key, ballot, b.digest, &b.record, len);
                self.inner.cache.decided(self.hash, key, ballot);
            }
        }
        Ok(chosen.map(|_| ()))
    }

    /// The summary stored with the base on the drives. `None`: no drive shows the base any more, so another
    /// proposer has built on it.
    pub(crate) async fn summary_of(&self, base: Option<&Based>) -> Option<Bytes> {
        let Some(base) = base else { return Some(Bytes::new()) };
        if matches!(base.record.body, Body::Tombstone) {
            return Some(Bytes::new());
        }
        if let Some(s) = &self.overtaken {
            return Some(s.clone());
        }
        if let Some((known, summary)) = &self.sent
            && known.ballot == base.ballot
        {
            return Some(summary.clone());
        }
        self.inner.summary(&self.view, self.key, base.ballot).await
    }

    /// Makes the data `named` durable, writes the slots into `body`, and returns how many durable shards the
    /// proposal needs.
    pub(crate) async fn stage(&mut self, named: &[&Staged], body: &mut Body) -> Result<u8> {
        let mut common = self.view.quorum.all();
        let mut most = 0;
        let this = &*self;
        let pending: SmallVec<[&Staged; 2]> = named.iter().copied().filter(|s| s.is_pending()).collect();
        let asked = this.inner.send_shards(&this.view, this.key, &pending, this.p.ballot());
        let staging = named.iter().map(|s| {
            let sent = pending.iter().any(|p| std::ptr::eq(*p, *s));
            async move {
                match sent {
                    true => staged_on(s, &this.view, asked).await,
                    false => Ok(this.confirmed(s).await),
                }
            }
        });
        for (s, durable) in named.iter().zip(join_all(staging).await) {
            let durable = durable?;
            // I4, for each piece of data separately.
            if durable.len() < s.needed {
                let have = durable.len();
                return Err(Error::Unavailable(format!("{have} of {} shards durable", s.needed)));
            }
            set_durable(body, &s.data, durable);
            common = common.and(durable);
            most = most.max(s.needed);
        }
        if named.is_empty() {
            return Ok(0);
        }
        for slot in common.iter() {
            self.p.on_stage_durable(slot);
        }
        Ok(most.min(common.len()))
    }

    /// The slots whose durable shard is safe from collectors with a lower ballot (docs/protocol.md 2.6).
    /// Collectors of this process do not touch live writes; those of other processes need the confirmation.
    async fn confirmed(&self, s: &Staged) -> SlotSet {
        let durable = s.durable(&self.view);
        if self.inner.options.sole {
            return durable;
        }
        let asks =
            self.view.members().filter(|(slot, _)| durable.contains(*slot)).map(|(slot, m)| async move {
                let (id, index) = (s.data.write_id, s.data.shard_of(slot));
                m.in_time(m.drive.confirm(id, index, self.p.ballot(), self.view.epoch))
                    .await
                    .is_ok()
                    .then_some(slot)
            });
        join_all(asks).await.into_iter().flatten().collect()
    }

    /// Sends ACCEPT to all slots. `Some`: chosen; the digest of the stored bytes, and what was sent. `None`: lost.
    /// `drops` are dropped on the slots that accepted the record.
    pub(crate) async fn accept(
        &mut self,
        record: Bytes,
        summary: Bytes,
        needed: u8,
        drops: Drops,
    ) -> Result<Option<(u64, Sent)>> {
        self.p.propose(needed);
        let accepts_needed = self.view.quorum.majority();
        self.send(record, summary, None, accepts_needed, drops).await
    }

    /// Sends ACCEPT of a one-sync record, to each slot with its shard.
    pub(crate) async fn accept_one_sync(
        &mut self,
        record: Bytes,
        summary: Bytes,
        one_sync_record: &OneSyncRecord,
        staged: &Staged,
        drops: Drops,
    ) -> Result<Option<(u64, Sent)>> {
        self.p.one_sync(one_sync_record.one_sync);
        let accepts_needed = one_sync_record.one_sync.accepts_needed(self.view.quorum);
        self.send(Stored::wrap(&record, one_sync_record), summary, Some(staged), accepts_needed, drops).await
    }

    async fn send(
        &mut self,
        record: Bytes,
        summary: Bytes,
        inline: Option<&Staged>,
        accepts_needed: u8,
        drops: Drops,
    ) -> Result<Option<(u64, Sent)>> {
        let view = self.view.clone();
        let asked = view.which(|_| true);
        let grant = grant(self.key, self.tombstone);
        let tally = Tally::new(asked.len());
        self.updating = Some(self.inner.cache.updating(self.hash));
        self.carried = inline.iter().map(|s| s.data.write_id).collect();
        for (slot, m) in view.members() {
            let done = tally.completion(slot);
            if !self.inner.allowed(false, slot) {
                continue;
            }
            let inline = inline.map(|s| {
                let index = s.data.shard_of(slot);
                Inline { write_id: s.data.write_id, index, data: s.row(index) }
            });
            let (key, record, summary) = (self.key.clone(), record.clone(), summary.clone());
            let (ballot, epoch) = (self.p.ballot(), view.epoch);
            let accept = Accept { key, ballot, epoch, record, summary, inline };
            m.drive.accept_with(accept, grant, done);
        }
        let o = gather(&tally, &view, asked, accepts_needed, GRACE).await;
        let step = self.count(&o, &view);
        self.inner.ballots.pass(self.p.highest().max(o.highest), view.epoch)?;
        match step {
            Step::Chosen => {
                self.after(&o, tally, asked, drops);
                Ok(Some((Record::digest(&record), Sent { bytes: record, summary })))
            }
            Step::Lost { .. } => Ok(None),
            // Some slots refuse because of a higher ballot, and the others had no time to answer: the next
            // attempt asks all again, and detects whether too few are available.
            _ if o.refused != 0 => Ok(None),
            _ => Err(shortage(&tally, "accepting", o.ok.count_ones(), accepts_needed)),
        }
    }

    /// Passes the answers to the ACCEPTs to the proposer.
    fn count(&mut self, o: &Outcome, view: &View) -> Step<Bytes> {
        let mut step = Step::Wait;
        for slot in view.quorum.all().iter() {
            let bit = 1u64 << slot;
            let new = if o.ok & bit != 0 {
                self.p.on_accepted(slot)
            } else if o.refused & bit != 0 {
                self.p.on_accept_refused(slot, o.highest)
            } else {
                // Failed, joining, without a drive, or not in time.
                self.p.on_accept_silent(slot)
            };
            if new != Step::Wait {
                step = new;
            }
        }
        step
    }

    /// After a record was chosen: drops old data, follows late answers, schedules the purge of a tombstone.
    fn after(&self, o: &Outcome, tally: Arc<Tally>, asked: SlotSet, drops: Drops) {
        let view = &self.view;
        let has = SlotSet(o.ok | o.uncounted);
        drops_after_choice(&drops, SlotSet(o.ok), view.quorum.majority());
        self.inner.drop_on(view, has, &drops);
        // Lazily: with less than a majority left, only hinted records can be read (2.13).
        let useful = view.quorum.half() < view.quorum.majority();
        if useful {
            view.hint(self.key, self.p.ballot(), has);
        }
        let failed = SlotSet(o.failed | o.refused).without(has);
        let waiting = asked.without(has).without(failed);
        self.inner.heal_if_up(self.key, view, failed);
        if !waiting.is_empty() {
            let left = (self.carried.clone(), Vec::new());
            self.inner.follow(self.key, self.p.ballot(), view, tally, waiting, drops, left);
        }
        if self.tombstone {
            self.inner.queue_purge(self.key, self.p.ballot(), view, SlotSet(o.ok));
        }
    }
}

impl Attempt<'_> {
    /// Takes care of the shards of data that a chosen record names now: those still being made durable are
    /// followed, those left out are queued for heal.
    pub(crate) fn queue_unfinished_shards(&self, staged: &[&Staged]) {
        for s in staged {
            let Some(AskedDrives { tally, slots, view }) = s.asked() else { continue };
            let writes: Writes = [s.data.write_id].into_iter().collect();
            let o = tally.outcome();
            // A slot may have moved to another drive since the shards were sent: that drive was not asked.
            let moved = self.view.moved_since(&view);
            let has = SlotSet(o.ok | o.uncounted).without(moved);
            let waiting = slots.without(SlotSet(o.ok | o.uncounted | o.failed | o.refused)).without(moved);
            let lost = self.view.quorum.all().without(has).without(waiting);
            self.inner.heal_if_up(self.key, &self.view, lost);
            if !waiting.is_empty() {
                let (ballot, none) = (self.p.ballot(), Drops::new());
                self.inner.follow(
                    self.key,
                    ballot,
                    &self.view,
                    tally,
                    waiting,
                    none,
                    (writes, s.unfinished()),
                );
            }
        }
    }
}
