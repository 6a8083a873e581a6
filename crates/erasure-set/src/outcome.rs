//! Finding out what became of a record that was sent, without proposing.
//!
//! An update whose proposal lost waits for its turn. Meanwhile others may change the register so often that the base of its
//! next attempt does not tell any longer whether its record is among the ancestors. So it reads the register right after it
//! lost, while the record that beat its own is the newest, until a majority shows a record that tells. For the same reason an
//! attempt that was slow looks whether others were quicker before it sends its record.
//!
//! Invariants: nothing is decided here, so nobody's proposal is made to fail; only a record that a majority shows proves
//! anything.
//!
//! Must not depend on: what an update does.

use crate::ask::Waiting;
use crate::invariants::no_joining_votes;
use crate::register::{Answers, Done, Register};
use crate::sent_records::{Lineage, SentRecords};
use crate::sets::Inner;
use crate::stored::Stored;
use crate::table::View;
use ashlar_commit::ReadStep;
use ashlar_environment::time;
use ashlar_format::{Ballot, Record, RegisterKey};
use futures::StreamExt;
use futures::future::{Either, select};
use smallvec::SmallVec;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::Notify;

/// The most reads. The one that made the proposal fail needs some round trips; if it ended, nobody may ever choose anything.
const READS: u32 = 64;
/// The longest pause between two. Others change a contended register every few milliseconds; at most one change may pass by
/// unseen.
const PAUSE: u64 = 4000;

/// The most reads during one attempt, after [`PAUSE`] and then after twice the time each.
const WATCHES: u32 = 5;

/// How long an update that has its turn waits for the read under way.
pub(crate) const LAST_READ: Duration = Duration::from_millis(5);

/// What drives show of a register.
#[derive(Default)]
struct Peeked {
    seen: SmallVec<[Lineage; 4]>,
    /// The record that a majority shows.
    chosen: Option<(Lineage, Register)>,
}

/// Ends the reads of [`Inner::learn_outcome`] after the one that is under way: what that one shows may be gone when the next
/// attempt begins.
#[derive(Default)]
pub(crate) struct Stop {
    stopped: AtomicBool,
    wake: Notify,
}

impl Stop {
    pub(crate) fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
        self.wake.notify_one();
    }
}

impl Inner {
    /// Reads the register until it is known of every sent record whether it is applied, a bounded number of times. Returns the
    /// answer of the one that is applied, and the register then or later.
    pub(crate) async fn learn_outcome(
        &self,
        key: &RegisterKey,
        sent: &mut SentRecords,
        stop: &Stop,
    ) -> Option<Done> {
        for read in 0..READS {
            if sent.are_passed() {
                return None;
            }
            if read > 0 {
                let most = PAUSE.min(250 << read.min(8));
                let pause = time::sleep(Duration::from_micros(self.ballots.jitter() % most));
                select(pin!(pause), pin!(stop.wake.notified())).await;
            }
            if stop.stopped.load(Ordering::Relaxed) {
                return None;
            }
            let view = self.view(key.group()).ok()?;
            let Peeked { seen, chosen } = self.peek(&view, key).await;
            let applied = sent.learn(seen, chosen.as_ref().map(|c| c.0));
            if let (Some((answer, ballot)), Some((_, register))) = (applied, chosen) {
                return Some(Done { answer, ballot, register: Some(register) });
            }
        }
        None
    }

    /// Waits for `slow`, a part of an attempt between its promises and its ACCEPTs. Returns `None` in place of the result if a
    /// majority has accepted a record of a later ballot meanwhile: that of this attempt would be refused. It is not sent then,
    /// so that its outcome is known.
    pub(crate) async fn unless_overtaken<T>(
        &self,
        this: (&View, &RegisterKey, Ballot),
        sent: &mut SentRecords,
        slow: impl Future<Output = T> + Send,
    ) -> Option<T> {
        let (done, overtaken) = self.watching(this, sent, slow).await;
        (!overtaken).then_some(done)
    }

    /// Waits for `slow`, a part of an attempt after its promises, and reads the register meanwhile if that takes long. Returns
    /// also whether a majority has accepted a record of a later ballot.
    pub(crate) async fn watching<T>(
        &self,
        (view, key, ballot): (&View, &RegisterKey, Ballot),
        sent: &mut SentRecords,
        slow: impl Future<Output = T> + Send,
    ) -> (T, bool) {
        if self.options.sole {
            return (slow.await, false);
        }
        let overtaken = AtomicBool::new(false);
        let watch = async {
            for read in 0..WATCHES {
                time::sleep(Duration::from_micros(PAUSE << read)).await;
                let Peeked { seen, chosen } = self.peek(view, key).await;
                let later = chosen.as_ref().is_some_and(|(_, register)| register.ballot > ballot);
                overtaken.fetch_or(later, Ordering::Relaxed);
                sent.learn(seen, chosen.map(|c| c.0));
            }
        };
        // What is staged is not given up halfway.
        let done = match select(pin!(slow), pin!(watch)).await {
            Either::Left((done, _)) => done,
            Either::Right(((), slow)) => slow.await,
        };
        (done, overtaken.into_inner())
    }

    /// The highest ballot of a record that a voter shows, or of a tombstone that it purged. If one was chosen and M voters answer,
    /// at least one of them shows it or a higher one.
    pub(crate) async fn newest_shown(&self, view: &View, key: &RegisterKey) -> Option<Ballot> {
        self.ask_until(view, key, |_| false).await.newest()
    }

    /// The answers of the drives, with their records, until they suffice for a read or are `enough`.
    async fn ask_until(&self, view: &View, key: &RegisterKey, enough: fn(&Answers) -> bool) -> Answers {
        let mut answers = Answers::new(view);
        let mut waiting = Waiting::new();
        let mut step = self.ask_each(view, key, None, &mut answers, &mut waiting);
        while step == ReadStep::Wait && !enough(&answers) {
            let Some(told) = waiting.next().await else { break };
            step = self.hear(view, key, told, &mut answers, &mut waiting);
        }
        no_joining_votes(answers.reader.answered_by(), answers.joining);
        answers
    }

    /// What the drives show, until a majority shows the same or none will.
    async fn peek(&self, view: &View, key: &RegisterKey) -> Peeked {
        let answers = self.ask_until(view, key, |a| a.reader.majority_shows().is_some()).await;
        let mut peeked = Peeked::default();
        for (ballot, digest, bytes) in &answers.records {
            // A record that cannot be decoded shows nothing.
            let Ok(stored) = Stored::parse(bytes) else { continue };
            let Ok(record) = stored.decode() else { continue };
            let lineage = Lineage::of(&record, Record::digest(&stored.record));
            peeked.seen.push(lineage);
            let parent = stored.one_sync_record.as_ref();
            peeked.seen.extend(parent.and_then(|p| Lineage::of_parent(&p.parent, &stored.record)));
            if answers.reader.majority_shows() == Some(*ballot) {
                let register = Register { ballot: *ballot, digest: *digest, record: Arc::new(record) };
                peeked.chosen = Some((lineage, register));
            }
        }
        peeked
    }
}
