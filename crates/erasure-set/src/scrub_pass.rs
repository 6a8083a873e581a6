//! The passes of the scrub over the registers of placement groups, and the background task that makes them.
//!
//! A *look* reads all registers and heals what is behind or missing; it runs soon after the start and after every change
//! of drives, and so also finishes what an interrupted rebuild left. A *full* pass verifies every shard and record of a
//! group against its hashes. `scrub_schedule` decides when one is due; it is recorded (`scrub_store`), and goes on after
//! a restart. After the full passes that were due together, the census runs (`scrub`).
//!
//! Invariants: passes are paced; a group that fails does not stop the others.
//!
//! Must not depend on: what a version means beyond the data it names.

use crate::Result;
use crate::heal_group::STRETCH;
use crate::heal_queue::Healed;
use crate::scrub_schedule::{ScrubPass, Step, next_limit};
use crate::scrub_state::Scrubbed;
use crate::sets::{Inner, Sets};
use crate::table::View;
use ashlar_duties::Unit;
use ashlar_environment::HashSet;
use ashlar_environment::time::{self, Instant};
use ashlar_format::{DriveId, GroupId};
use futures::future::BoxFuture;
use parking_lot::Mutex;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

/// How long the background task waits before its first pass: a server that starts under load should not begin with it.
const START: Duration = Duration::from_secs(5);

impl Sets {
    /// One pass over all placement groups, including those of other nodes, now. `deep`: a full pass,
    /// otherwise a look.
    ///
    /// # Errors
    /// [`Error::Unavailable`](crate::Error::Unavailable) if a group has too few drives.
    pub fn scrub(&self, deep: bool) -> BoxFuture<'_, Result<Scrubbed>> {
        Box::pin(async move { self.inner.scrub(deep, true).await })
    }

    /// The result of the last pass.
    #[must_use]
    pub fn last_scrub(&self) -> Option<Scrubbed> {
        *self.inner.scrub.last.lock()
    }
}

/// Whether a full pass reached the end of its group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reached {
    End,
    /// The group has other drives now, or is the work of another node, or a later pass of it was made, or a look is owed.
    Mark,
}

/// Full passes that were due together.
#[derive(Default)]
struct Round {
    tried: HashSet<GroupId>,
    ended: usize,
    found: Option<Scrubbed>,
}

fn now_ms() -> u64 {
    time::wall_ms().max(0).unsigned_abs()
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

impl Inner {
    /// Whether the background task of this node scrubs a group.
    pub(crate) fn scrubs_group(&self, group: GroupId) -> bool {
        self.scrubs(&Unit::group(group.number()))
    }

    /// One pass. `all`: includes the groups and drives that other nodes scrub.
    async fn scrub(self: &Arc<Self>, deep: bool, all: bool) -> Result<Scrubbed> {
        let began = Instant::now();
        let before = self.damages.count();
        let began_ms = now_ms();
        let mut found = Scrubbed { deep, began_ms: u64::MAX, ..Scrubbed::default() };
        let table = self.table.load_full();
        let begun = self.undecided_registers.begin();
        let mut sure = true;
        for view in &table.views {
            if !all && !self.scrubs_group(view.group) {
                sure = false;
                continue;
            }
            sure &= whole(view);
            let failed =
                if deep { self.full(view, &mut found).await? } else { self.look(view, &mut found).await? };
            sure &= failed == 0 && whole(view);
        }
        if sure {
            // Every register was seen on every slot that answers.
            self.undecided_registers.end(begun);
        }
        self.settle_left().await;
        if deep {
            self.count_census(all, &mut found).await;
        }
        if found.began_ms == u64::MAX {
            found.began_ms = began_ms;
        }
        found.took_ms = millis(began.elapsed());
        found.damaged = self.damages.count() - before;
        *self.scrub.last.lock() = Some(found);
        if deep {
            log_full(&found, table.views.len());
        }
        Ok(found)
    }

    /// A look at a group. Returns how many registers could not be inspected.
    async fn look(self: &Arc<Self>, view: &Arc<View>, found: &mut Scrubbed) -> Result<u64> {
        let healed = Mutex::new(found);
        let told = |h: Healed, looked: u64| {
            let mut found = healed.lock();
            found.registers += looked;
            found.healed.add(h);
        };
        self.heal_group(view, false, told).await
    }

    /// A full pass of a group from its beginning. Returns how many registers could not be inspected.
    async fn full(self: &Arc<Self>, view: &Arc<View>, found: &mut Scrubbed) -> Result<u64> {
        let mut pass = self.unnoted_pass(view.group, self.slots_of(view.group));
        let mut failed = 0;
        while self.full_stretch(view.group, &mut pass, STRETCH, &mut failed).await?.is_some() {}
        found.add_pass(&pass);
        self.note_pass(view.group, pass);
        self.save_record(view.group).await;
        Ok(failed)
    }

    /// The next stretch of a full pass. Returns whether it should be stored; `None`: this was the last stretch.
    async fn full_stretch(
        self: &Arc<Self>,
        group: GroupId,
        pass: &mut ScrubPass,
        limit: usize,
        failed: &mut u64,
    ) -> Result<Option<bool>> {
        let (began, before) = (Instant::now(), self.damages.count());
        let start = group.to_bytes();
        let from = if pass.position.is_empty() { &start[..] } else { &pass.position };
        let healed = Mutex::new((0, Healed::default()));
        let told = |h: Healed, looked: u64| {
            let mut healed = healed.lock();
            healed.0 += looked;
            healed.1.add(h);
        };
        let answers = everyone_answers(&*self.view(group)?);
        let stretch = self.heal_stretch(group, true, (from, limit), &told).await?;
        let (registers, healed) = healed.into_inner();
        *failed += stretch.failed;
        pass.whole &= answers
            && stretch.failed == 0
            && healed.missing + healed.lost + healed.later + healed.unheard == 0;
        pass.whole &= everyone_answers(&*self.view(group)?);
        let counts = &mut pass.counts;
        counts.took_ms += millis(began.elapsed());
        counts.damaged += self.damages.count() - before;
        counts.registers += registers;
        counts.records += u64::from(healed.records);
        counts.shards += u64::from(healed.shards);
        counts.missing += u64::from(healed.missing);
        counts.lost += u64::from(healed.lost);
        counts.bytes += healed.bytes;
        Ok(match stretch.next {
            Some(next) => Some(pass.advance(&next, time::wall_ms(), self.table.load().views.len())),
            None => {
                pass.end(time::wall_ms());
                None
            }
        })
    }

    /// Begins or resumes the full pass of a group, as far as it gets.
    async fn recorded_pass(self: &Arc<Self>, view: &View, found: &mut Scrubbed) -> Result<Reached> {
        let (group, drives) = (view.group, self.slots_of(view.group));
        let owed = self.scrub.owed.load(Ordering::Acquire);
        let mut pass = self.begin_pass(group, drives.clone());
        let (mut limit, mut failed) = (STRETCH, 0);
        loop {
            let began = Instant::now();
            let mark = match self.full_stretch(group, &mut pass, limit, &mut failed).await {
                Ok(mark) => mark,
                Err(e) => {
                    self.note_pass(group, pass);
                    return Err(e);
                }
            };
            limit = next_limit(limit, STRETCH, began.elapsed());
            let Some(mark) = mark else { break };
            if mark {
                self.note_pass(group, pass.clone());
                self.save_record(group).await;
                if !self.is_current(group, &pass) || !self.scrubs_group(group) {
                    return Ok(Reached::Mark);
                }
            }
            // A drive that missed more than is noted has too few copies until the look: it does not wait for days.
            if self.slots_of(group) != drives || self.scrub.owed.load(Ordering::Acquire) != owed {
                self.note_pass(group, pass);
                return Ok(Reached::Mark);
            }
        }
        found.add_pass(&pass);
        self.note_pass(group, pass);
        self.save_record(group).await;
        Ok(Reached::End)
    }

    fn slots_of(&self, group: GroupId) -> Vec<DriveId> {
        let table = self.table.load();
        table.layout.index(group).map(|i| table.layout.groups[i].slots.clone()).unwrap_or_default()
    }

    /// Makes the full pass of a group that is due and was not tried in this round. Returns false if there is none: then the
    /// round is over.
    async fn next_full_pass(self: &Arc<Self>, round: &mut Round) -> bool {
        let table = self.table.load_full();
        let mut stores = true;
        for view in table.views.iter().filter(|view| self.scrubs_group(view.group)) {
            let step = self.scrub_step(view.group, &self.slots_of(view.group), round.found.is_some());
            // One that is not stored costs the others no wait.
            stores = stores && self.save_record(view.group).await;
            if step == Step::Wait || !round.tried.insert(view.group) {
                continue;
            }
            let found = round.found.get_or_insert_with(|| Scrubbed {
                deep: true,
                began_ms: u64::MAX,
                ..Scrubbed::default()
            });
            match self.recorded_pass(view, found).await {
                Ok(reached) => {
                    round.ended += usize::from(reached == Reached::End);
                    tracing::debug!(group = %view.group, ?step, ?reached, "full pass");
                }
                Err(e) => tracing::debug!(group = %view.group, ?step, "the full pass goes on later: {e}"),
            }
            return true;
        }
        false
    }

    /// Ends a round: what remains once the groups are verified.
    async fn end_round(self: &Arc<Self>, round: Round) -> bool {
        let Some(mut found) = round.found.filter(|_| round.ended > 0) else { return false };
        if self.undecided_registers.all() {
            // Only a look at all groups at once ends that.
            if let Err(e) = self.scrub(false, false).await {
                tracing::debug!("scrub: {e}");
            }
        } else {
            self.settle_left().await;
        }
        self.count_census(false, &mut found).await;
        *self.scrub.last.lock() = Some(found);
        log_full(&found, round.ended);
        true
    }

    async fn settle_left(self: &Arc<Self>) {
        let left = self.settle_undecided().await;
        if left > 0 {
            tracing::debug!(left, "registers of failed updates are not settled yet");
        }
    }

    /// The census, counted in `found` and remembered.
    async fn count_census(self: &Arc<Self>, all: bool, found: &mut Scrubbed) {
        self.census_all(all, found).await;
        *self.scrub.census.lock() = *found;
    }
}

fn log_full(found: &Scrubbed, groups: usize) {
    tracing::info!(
        groups,
        registers = found.registers,
        shards = found.shards,
        damaged = found.damaged,
        repaired = found.healed.shards,
        missing = found.healed.missing,
        lost = found.healed.lost,
        took_ms = found.took_ms,
        "placement groups were read and verified"
    );
}

/// Whether no drive of the group is in service and slow.
fn whole(view: &View) -> bool {
    view.which(|m| m.is_up() && m.is_late()).is_empty()
}

/// Whether every slot has a drive that answers.
fn everyone_answers(view: &View) -> bool {
    view.which(|m| m.is_here() && !m.is_hung()).len() == view.n()
}

/// The background task.
pub(crate) async fn run(of: Weak<Inner>) {
    let (started, mut first, mut wait) = (Instant::now(), true, START);
    let mut census: Option<Instant> = None;
    let mut round = Round::default();
    let Some(mut duties) = of.upgrade().map(|inner| inner.options.duties.watch()) else { return };
    loop {
        let Some(inner) = of.upgrade() else { return };
        let soon = async {
            tokio::select! {
                biased;
                () = inner.scrub.soon.notified() => {}
                // Groups that have another owner now were not checked here.
                Ok(()) = duties.changed() => {}
            }
        };
        let looking = time::timeout(wait, soon).await.is_ok();
        let owed = inner.scrub.owed.load(Ordering::Acquire);
        if std::mem::take(&mut first) || looking || inner.scrub.owes_pass() {
            match inner.scrub(false, false).await {
                Ok(s) => {
                    inner.scrub.passed.store(owed, Ordering::Release);
                    tracing::debug!("scrub: {s:?}");
                }
                Err(e) => tracing::debug!("scrub: {e}"),
            }
        }
        let goes_on = inner.next_full_pass(&mut round).await;
        if !goes_on && inner.end_round(std::mem::take(&mut round)).await {
            census = Some(Instant::now());
        }
        inner.collect_abandoned().await;
        let early = inner.none_in_flight() && census.is_none()
            || inner.scrub.overflowed.swap(false, Ordering::Relaxed);
        if early || census.unwrap_or(started).elapsed() >= inner.options.census_every {
            let mut found = Scrubbed::default();
            inner.count_census(false, &mut found).await;
            tracing::debug!("census: {found:?}");
            if found.dropped > 0 {
                tracing::info!(orphans = found.orphans, dropped = found.dropped, "data that no record names");
            }
            census = Some(Instant::now());
        }
        let every = inner.options.scrub_every.min(inner.orphan_age() * 8);
        // The next group of a round follows at once.
        let pause = (every / 8).clamp(Duration::from_millis(100), Duration::from_secs(60));
        wait = if goes_on { Duration::ZERO } else { pause };
    }
}
