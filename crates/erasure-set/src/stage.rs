//! STAGE of small bodies: their shards go to the drives, all of a drive together.
//!
//! Usually an update stages what it names. What takes long to plan may be staged before ([`Sets::stage`]), so
//! that the update has the key's turn for a shorter time; it then counts as large data does, whose shards are
//! durable before the update begins (docs/protocol.md 2.6).
//!
//! Invariant: data that is staged before its update is guarded from the collector of this process until it is
//! dropped.
//!
//! Must not depend on: what the bytes are.

use crate::propose::{GRACE, gather, shortage};
use crate::sets::{Inner, Sets};
use crate::table::{Member, View};
use crate::write::Staged;
use crate::{Error, Result};
use ashlar_commit::SlotSet;
use ashlar_drive::{InlineShard, Tally};
use ashlar_format::{Ballot, RegisterKey};
use futures::future::{BoxFuture, join_all};
use smallvec::SmallVec;
use std::sync::Arc;

impl Sets {
    /// Makes small bodies durable before the update that names them, together.
    ///
    /// # Errors
    /// [`Error::Unavailable`] or [`Error::Full`]: too few drives hold one of them.
    pub fn stage<'a>(
        &'a self,
        key: &'a RegisterKey,
        staged: Vec<&'a mut Staged>,
    ) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move { self.inner.stage_before(key, staged).await })
    }
}

impl Inner {
    async fn stage_before(self: &Arc<Self>, key: &RegisterKey, staged: Vec<&mut Staged>) -> Result<()> {
        let view = self.view(key.group())?;
        let mut pending: SmallVec<[&Staged; 2]> = SmallVec::new();
        for s in staged {
            if s.is_pending() {
                s.guard();
                pending.push(s);
            }
        }
        let asked = self.send_shards(&view, key, &pending, self.ballots.next(view.epoch));
        let durable = join_all(pending.iter().map(|s| staged_on(s, &view, asked))).await;
        durable.into_iter().try_for_each(|d| d.map(drop))
    }

    /// Sends the shards of small bodies to all drives; returns which were asked. Drives that are away are left out
    /// while the others are enough: their shards would only wait in memory, and heal makes them later.
    pub(crate) fn send_shards(
        &self,
        view: &Arc<View>,
        key: &RegisterKey,
        staged: &[&Staged],
        ballot: Ballot,
    ) -> SlotSet {
        let asked = view.which(|_| true);
        let away = view.which(Member::is_away);
        let enough = |s: &&Staged| asked.without(away).len() >= s.needed;
        let away = if staged.iter().all(enough) { away } else { SlotSet::EMPTY };
        let tallies: SmallVec<[Arc<Tally>; 2]> = staged.iter().map(|_| Tally::new(asked.len())).collect();
        for (slot, m) in view.members() {
            let mut shards: SmallVec<[_; 2]> = SmallVec::new();
            for (s, tally) in staged.iter().zip(&tallies) {
                let done = tally.completion(slot);
                if away.contains(slot) || !self.allowed(true, slot) {
                    continue;
                }
                let index = s.data.shard_of(slot);
                let shard = InlineShard {
                    owner: key.clone(),
                    write_id: s.data.write_id,
                    index,
                    ballot,
                    epoch: view.epoch,
                    data: s.row(index),
                };
                shards.push((shard, done));
            }
            m.drive.stage_all(shards);
        }
        for (s, tally) in staged.iter().zip(tallies) {
            s.staged_as(tally, asked, view);
        }
        asked
    }
}

/// Waits until enough drives hold the shards of a body that was sent.
pub(crate) async fn staged_on(s: &Staged, view: &View, asked: SlotSet) -> Result<SlotSet> {
    let Some(sent) = s.asked() else { return Err(Error::Invalid("data that was not staged")) };
    let tally = sent.tally;
    let o = gather(&tally, view, asked, s.needed, GRACE).await;
    if o.ok.count_ones() < u32::from(s.needed) {
        return Err(shortage(&tally, "staging", o.ok.count_ones(), s.needed));
    }
    Ok(SlotSet(o.ok))
}
