//! The records of full passes as this process knows them: what is stored, and what could not be stored yet.
//!
//! Invariant: one entry per group.
//!
//! Must not depend on: how records are stored (`scrub_store`), how a pass is made (`scrub_pass`).

use crate::scrub_schedule::ScrubRecord;
use ashlar_environment::HashMap;
use ashlar_environment::time::Instant;
use ashlar_format::GroupId;
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Duration;

/// The records of all groups; one entry per group.
#[derive(Default)]
pub(crate) struct KeptRecords {
    pub(crate) of: Mutex<HashMap<GroupId, Kept>>,
}

/// What this process knows of a group.
pub(crate) struct Kept {
    pub(crate) record: ScrubRecord,
    /// The stored record as it was read last.
    stored: Option<Arc<ScrubRecord>>,
    pub(crate) unsaved: bool,
    /// When this process learned of the last pass, and how old that was then by the wall clock.
    pub(crate) learned: Instant,
    pub(crate) age_then: Duration,
    /// When this process began or resumed a pass.
    pub(crate) begun: Option<Instant>,
}

impl Kept {
    pub(crate) fn new() -> Kept {
        let (record, stored) = (ScrubRecord::default(), None);
        Kept {
            record,
            stored,
            unsaved: false,
            learned: Instant::now(),
            age_then: Duration::ZERO,
            begun: None,
        }
    }

    /// Applies a change of the record.
    pub(crate) fn change<T>(&mut self, now_ms: i64, f: impl FnOnce(&mut ScrubRecord) -> T) -> T {
        let before = self.record.reference_ms();
        let out = f(&mut self.record);
        if self.record.reference_ms() != before {
            (self.learned, self.age_then) = (Instant::now(), self.record.age(now_ms));
        }
        out
    }

    /// Takes in what is stored.
    pub(crate) fn refresh(&mut self, stored: Option<Arc<ScrubRecord>>, now_ms: i64) {
        let Some(stored) = stored else { return };
        if self.stored.as_ref().is_some_and(|known| Arc::ptr_eq(known, &stored)) {
            return;
        }
        self.change(now_ms, |r| *r = std::mem::take(r).merged((*stored).clone(), now_ms));
        self.unsaved = self.record != *stored;
        self.stored = Some(stored);
    }
}
