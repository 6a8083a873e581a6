//! Reads and stores the records of full passes.
//!
//! Invariants: work goes on while records cannot be stored, and they are stored later; without [`ScrubRecords`] they
//! live as long as the process.
//!
//! Must not depend on: how a pass is made (`scrub_pass`).
//!
//! [`ScrubRecords`]: crate::ScrubRecords

use crate::scrub_records::Kept;
use crate::scrub_schedule::{Elapsed, ScrubPass, ScrubRecord, Step};
use crate::scrub_state::Scrubbed;
use crate::sets::{Inner, Sets};
use ashlar_environment::time::{self, Instant};
use ashlar_format::{DriveId, GroupId, RegisterKey};
use std::time::Duration;

/// How long to wait for a record to be stored.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long a recorded time has to be one of the future before it is replaced: a clock that is wrong after the start of a
/// machine may be set until then.
const CORRECTION: Duration = Duration::from_secs(3600);

impl Sets {
    /// The last passes that verified everything, of the groups that this node scrubs, as one: it began when the earliest
    /// of them did. `None` until each of these groups has had one. The shards and orphans are those of the last census of
    /// this process.
    #[must_use]
    pub fn last_full_scrub(&self) -> Option<Scrubbed> {
        let inner = &self.inner;
        let table = inner.table.load();
        let mut all = Scrubbed { deep: true, began_ms: u64::MAX, ..Scrubbed::default() };
        for view in table.views.iter().filter(|view| inner.scrubs_group(view.group)) {
            inner.with_record(view.group, |kept, _| {
                kept.record.last.as_ref().map(|pass| all.add_pass(pass))
            })?;
        }
        if all.began_ms == u64::MAX {
            return None;
        }
        let census = *inner.scrub.census.lock();
        (all.shards, all.orphans, all.dropped) = (census.shards, census.orphans, census.dropped);
        Some(all)
    }

    /// When a full pass last verified the shards of a register on a drive of its group, in milliseconds since 1970; `None`:
    /// not since `written_ms`, or it is not known, or a drive of the group was away then.
    #[must_use]
    pub fn verified_ms(&self, key: &RegisterKey, drive: DriveId, written_ms: i64) -> Option<i64> {
        let verified = |kept: &mut Kept, _| kept.record.verified_ms(key.as_bytes(), drive, written_ms);
        self.inner.with_record(key.group(), verified)
    }
}

impl Inner {
    fn with_record<T>(&self, group: GroupId, f: impl FnOnce(&mut Kept, i64) -> T) -> T {
        let stored = self.options.scrub_records.as_ref().and_then(|records| records.read(group));
        let now_ms = time::wall_ms();
        let mut of = self.scrub.records.of.lock();
        let kept = of.entry(group).or_insert_with(Kept::new);
        kept.refresh(stored, now_ms);
        f(kept, now_ms)
    }

    /// What to do with a group now.
    pub(crate) fn scrub_step(&self, group: GroupId, drives: &[DriveId], in_round: bool) -> Step {
        let every = self.options.scrub_every;
        self.with_record(group, |kept, now_ms| {
            if kept.record.seen_ms == 0 {
                kept.change(now_ms, |r| r.seen_ms = now_ms);
                kept.unsaved = true;
            }
            if kept.learned.elapsed() >= CORRECTION.min(every / 8) {
                kept.unsaved |= kept.change(now_ms, |r| r.correct(now_ms));
            }
            let elapsed = Elapsed {
                age_then: kept.age_then,
                since_learned: kept.learned.elapsed(),
                since_begun: kept.begun.map(|begun| begun.elapsed()),
                in_round,
            };
            kept.record.step(drives, now_ms, every, elapsed)
        })
    }

    /// The pass to make of a group now: the interrupted one if it was of these drives, otherwise a new one.
    pub(crate) fn begin_pass(&self, group: GroupId, drives: Vec<DriveId>) -> ScrubPass {
        self.with_record(group, |kept, now_ms| {
            kept.begun = Some(Instant::now());
            let current = kept.record.current.clone().filter(|pass| pass.drives == drives);
            let pass = current.unwrap_or_else(|| kept.record.begin(drives, now_ms));
            kept.change(now_ms, |r| r.note(pass.clone()));
            pass
        })
    }

    /// A new pass, from the beginning, that is not noted before it ends.
    pub(crate) fn unnoted_pass(&self, group: GroupId, drives: Vec<DriveId>) -> ScrubPass {
        self.with_record(group, |kept, now_ms| kept.record.begin(drives, now_ms))
    }

    /// Notes the state of a pass, to be stored later.
    pub(crate) fn note_pass(&self, group: GroupId, pass: ScrubPass) {
        self.with_record(group, |kept, now_ms| {
            kept.unsaved = true;
            kept.change(now_ms, |r| r.note(pass));
        });
    }

    /// Whether a pass is the one in progress: no later one has ended or goes on.
    pub(crate) fn is_current(&self, group: GroupId, pass: &ScrubPass) -> bool {
        let began = |record: &ScrubRecord| record.current.as_ref().map(|current| current.began_ms);
        self.with_record(group, |kept, _| began(&kept.record) == Some(pass.began_ms))
    }

    /// Stores the record of a group if that is not done. Returns false if it could not be stored.
    pub(crate) async fn save_record(&self, group: GroupId) -> bool {
        let Some(records) = &self.options.scrub_records else { return true };
        let unsaved = |kept: &mut Kept, _| std::mem::take(&mut kept.unsaved).then(|| kept.record.clone());
        let record = self.with_record(group, unsaved);
        let Some(record) = record else { return true };
        let failed = match time::timeout(PATIENCE, records.write(group, record)).await {
            Ok(Ok(stored)) => {
                self.with_record(group, |kept, now_ms| {
                    kept.change(now_ms, |r| *r = std::mem::take(r).merged(stored, now_ms));
                });
                return true;
            }
            Ok(Err(why)) => why,
            Err(_) => "the control store does not answer".to_owned(),
        };
        tracing::debug!(%group, why = failed, "the record of a full pass is stored later");
        self.with_record(group, |kept, _| kept.unsaved = true);
        false
    }
}
