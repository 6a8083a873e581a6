//! This node's share of the limit of a bucket, and what is under way about it.
//!
//! Invariants: what a share may admit is decided by `ashlar_commit::quota_share`; here are the times that it must not
//! know. How long ago a share was confirmed is told by whichever clock shows more ([`Confirmed`]).
//!
//! Must not depend on: the control store, what a bucket holds.

use std::collections::BTreeMap;
use std::time::Duration;

use ashlar_commit::quota_share::{Holder, Keep, NodeNumber, QuotaRecord, Settled, Settlement};
use ashlar_environment::time::{self, Instant};

use crate::{Error, Result};

/// A node whose share was not confirmed for so long admits nothing on it.
pub(crate) const EXPIRY: Duration = Duration::from_secs(4 * 3600);
/// How long a change with a lost outcome may still take effect: until its key has been read often enough.
const UNSURE: Duration = Duration::from_secs(900);
/// A share that nothing was admitted on for so long is given back.
const IDLE: Duration = Duration::from_secs(60);

/// When a share was known to be there. The clock that counts intervals stands still while the machine sleeps or its
/// virtual machine is paused, and others may take the share back meanwhile: the wall clock shows that. It may also be
/// put back, and then it does not count.
#[derive(Clone, Copy)]
pub(crate) struct Confirmed {
    at: Instant,
    wall_ms: i64,
}

impl Confirmed {
    pub fn now() -> Confirmed {
        Confirmed { at: Instant::now(), wall_ms: time::wall_ms() }
    }

    /// The time since then, by the clock that shows more.
    pub fn elapsed(&self) -> Duration {
        let wall = time::wall_ms().saturating_sub(self.wall_ms);
        self.at.elapsed().max(Duration::from_millis(u64::try_from(wall).unwrap_or(0)))
    }

    /// The later of two.
    pub fn max(self, other: Confirmed) -> Confirmed {
        if other.at > self.at { other } else { self }
    }
}

/// A share.
pub(crate) struct NodeShare {
    pub holder: Holder,
    node: NodeNumber,
    /// Changes with a lost outcome: since when, of which life, bytes.
    unsure: Vec<(Instant, u64, u64)>,
    /// When something was admitted last.
    used: Instant,
    /// Since then the share is known to be there.
    pub confirmed: Confirmed,
    /// When the bucket was full, as all nodes said, and what the others were granted then.
    pub full: Option<(Instant, u64)>,
    /// Suspicions of nodes that are not announced, and since when they are known here.
    pub gone: BTreeMap<u64, Instant>,
    /// The record as it was before the scan that is under way.
    pub scanning: Option<QuotaRecord>,
    /// The same of a scan that is done, and of which the others do not know yet.
    pub counted: Option<QuotaRecord>,
    /// The bucket is to be counted, so that what was taken back is found again.
    pub recount: bool,
}

impl NodeShare {
    pub fn new(node: NodeNumber) -> Result<NodeShare> {
        let now = Instant::now();
        Ok(NodeShare {
            holder: Holder::new(node, fresh_life()?),
            node,
            unsure: Vec::new(),
            used: now,
            confirmed: Confirmed::now(),
            full: None,
            gone: BTreeMap::new(),
            scanning: None,
            counted: None,
            recount: false,
        })
    }

    /// Admits a body, if there is room.
    pub fn reserve(&mut self, bytes: u64) -> bool {
        let there = !self.is_expired() && self.holder.reserve(bytes);
        if there {
            self.used = Instant::now();
        }
        there
    }

    /// Whether a change took effect that would add so many bytes is not known.
    pub fn lost(&mut self, bytes: u64) {
        self.holder.lost(bytes);
        self.unsure.push((Instant::now(), self.holder.life(), bytes));
    }

    /// What was lost long ago cannot take effect any more.
    pub fn forget_lost(&mut self) {
        let over = |at: &Instant| at.elapsed() >= UNSURE;
        for (_, life, bytes) in self.unsure.iter().filter(|(at, ..)| over(at)) {
            self.holder.sure(*life, *bytes);
        }
        self.unsure.retain(|(at, ..)| !over(at));
    }

    /// The share was not confirmed for too long.
    pub fn is_expired(&self) -> bool {
        self.confirmed.elapsed() >= EXPIRY
    }

    /// `record` was read after `began`: if the share is there and nobody takes its owner for gone, it is good.
    /// Without a share nothing is admitted, so that there is nothing to confirm.
    pub fn confirm(&mut self, record: &QuotaRecord, began: Confirmed) {
        let mut share = record.shares.get(&self.node).into_iter();
        let good = share.any(|s| s.life == self.holder.life() && s.suspected.is_none());
        if good || !self.holder.has_share() {
            self.confirmed = self.confirmed.max(began);
        }
    }

    /// The record has the share of an earlier life of this node: the process has begun anew.
    pub fn is_new_in(&self, record: &QuotaRecord) -> bool {
        !self.holder.has_share() && record.shares.contains_key(&self.node)
    }

    /// There is room that nobody here has needed for a while.
    pub fn is_idle(&self) -> bool {
        self.used.elapsed() >= IDLE && (self.holder.free() > 0 || self.holder.unsettled())
    }

    /// Settles ([`Holder::settle`]). Answers also the life that the settlement is of, if it has to be written.
    pub fn settle(
        &mut self,
        record: &mut QuotaRecord,
        limit: u64,
        keep: Keep,
    ) -> Result<(Settled, Option<u64>)> {
        let read = record.clone();
        let settled = self.holder.settle(record, limit, keep);
        match settled {
            Settled::Write(s) if *record != read || !self.holder.is_at(s) || self.is_expired() => {
                self.holder.sent(s);
                return Ok((settled, Some(self.holder.life())));
            }
            // Another life begins, without a share.
            Settled::TakenBack => *self = NodeShare::new(self.node)?,
            _ => {}
        }
        Ok((settled, None))
    }

    /// The record has a settlement of this life.
    pub fn written(&mut self, life: u64, settlement: Settlement, began: Confirmed) {
        if life == self.holder.life() {
            self.holder.written(settlement);
            self.confirmed = self.confirmed.max(began);
        }
    }

    /// A settlement of this life was refused.
    pub fn refused(&mut self, life: u64, settlement: Settlement) {
        if life == self.holder.life() {
            self.holder.refused(settlement);
        }
    }
}

/// A number for a life that no other has.
fn fresh_life() -> Result<u64> {
    ashlar_environment::random::u64().map_err(|e| Error::Internal(format!("no randomness: {e}")))
}
