//! Recovery on an operator's order, if too many drives of a group are distrusted to fill any of them
//! (docs/protocol.md 2.14, "Recovery from correlated distrust").
//!
//! For each key, the record with the highest ballot that verifies on any drive of the group becomes the
//! state; [`ashlar_commit::Resync::salvage`] has the rule. States that are not known to be the newest are
//! reported by name.
//!
//! Invariants: a recovery never starts automatically; every drive of a group is fenced in the layout's epoch
//! before it is read (I7); no drive gets its vote back before every register of every group was processed, so
//! that nothing is served or written before, and an interrupted recovery can be started again.
//!
//! Must not depend on: what a version means beyond the data it names.

use crate::list::group_range;
use crate::rebuild::hold;
use crate::register::LAYOUTS;
use crate::sets::{Inner, Sets};
use crate::stored::Stored;
use crate::table::{Member, View};
use crate::{Error, Result};
use ashlar_commit::{Copy, Resync, SlotSet};
use ashlar_drive::{Entry, Error as DriveError, Role};
use ashlar_format::{Ballot, DriveId, RegisterKey};
use bytes::Bytes;
use futures::future::BoxFuture;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Registers read at a time.
const STRETCH: usize = 512;
/// Most registers that are reported by name; the others are counted.
pub const MAX_NAMED: usize = 100_000;

/// What a drive shows of a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Showing {
    /// A record of this ballot.
    Record(Ballot),
    /// No record.
    Nothing,
    /// Bytes that do not verify.
    Unreadable,
}

/// A register whose kept state is not known to be the newest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Uncertain {
    /// The register.
    pub key: RegisterKey,
    /// The ballot that is kept; `None`: nothing.
    pub kept: Option<Ballot>,
    /// What each drive shows.
    pub shown: Vec<(DriveId, Showing)>,
}

/// What a recovery found and did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Salvaged {
    /// Registers processed.
    pub registers: u64,
    /// Records copied to drives that showed an older one or none.
    pub copied: u64,
    /// Registers that are reported; `named` holds at most [`MAX_NAMED`] of them.
    pub uncertain: u64,
    /// The registers reported.
    pub named: Vec<Uncertain>,
    /// Drives that get their vote back (or would).
    pub drives: Vec<DriveId>,
}

impl Salvaged {
    /// The report of a recovery that began again: what was copied `before` was not copied a second time, and what was
    /// reported then may look certain now.
    fn after(mut self, before: Salvaged) -> Salvaged {
        let named: BTreeSet<&RegisterKey> = self.named.iter().map(|u| &u.key).collect();
        let earlier: Vec<_> = before.named.into_iter().filter(|u| !named.contains(&u.key)).collect();
        self.uncertain = before.uncertain.max(self.uncertain + earlier.len() as u64);
        self.named.extend(earlier);
        self.named.truncate(MAX_NAMED);
        self.copied += before.copied;
        self
    }
}

impl Sets {
    /// Gives distrusted drives their vote back, after every register of their groups has the highest record
    /// that verifies on any drive. If `apply` is false, nothing is changed: only the report is made.
    ///
    /// # Errors
    /// [`Error::Invalid`] if no group needs it; [`Error::Unavailable`] if a drive of a group is not attached
    /// or cannot be read: replace it by a blank one first, which declares it dead.
    pub fn salvage(&self, apply: bool) -> BoxFuture<'_, Result<Salvaged>> {
        Box::pin(async move {
            let mut before = Salvaged::default();
            let mut layouts = 0;
            loop {
                let table = self.inner.table.load_full();
                let mut out = Salvaged::default();
                match self.inner.salvage(apply, &mut out).await {
                    // Another process has changed the layout.
                    Err(Error::Unavailable(_))
                        if layouts < LAYOUTS && self.inner.newer_layout(&table.views).await =>
                    {
                        layouts += 1;
                        if apply {
                            before = out.after(before);
                        }
                    }
                    done => return done.map(|()| out.after(before)),
                }
            }
        })
    }

    /// Whether some group has too few voters to fill its distrusted drives automatically.
    #[must_use]
    pub fn needs_salvage(&self) -> bool {
        let table = self.inner.table.load();
        table.views.iter().any(|v| needs(v))
    }
}

fn needs(view: &View) -> bool {
    let all = view.which(Member::is_up).len() == view.n();
    all && view.which(|m| m.is_up() && m.is_voter(view.group)).len() < view.quorum.half()
}

impl Inner {
    async fn salvage(self: &Arc<Self>, apply: bool, out: &mut Salvaged) -> Result<()> {
        let table = self.table.load_full();
        // A drive whose journal was damaged may have lost the list of its groups.
        hold(&table).await;
        if !table.views.iter().any(|v| needs(v)) {
            return Err(Error::Invalid(
                "no group needs a recovery: enough drives vote, or some are not there",
            ));
        }
        let distrusts = |v: &&Arc<View>| v.members().any(|(_, m)| !m.is_voter(v.group));
        let views: Vec<Arc<View>> = table.views.iter().filter(distrusts).cloned().collect();
        let mut joining: Vec<Arc<Member>> = Vec::new();
        for view in &views {
            self.salvage_group(view, apply, out).await?;
            for (_, m) in view.members().filter(|(_, m)| !m.is_voter(view.group)) {
                if apply {
                    self.copy_fences(view, m, view.which(|_| true)).await?;
                }
                if !joining.iter().any(|j| j.id == m.id) {
                    joining.push(m.clone());
                }
            }
        }
        out.drives = joining.iter().map(|m| m.id).collect();
        if apply {
            for view in &views {
                for (_, m) in view.members().filter(|(_, m)| !m.is_voter(view.group)) {
                    let joined = || m.drive.joined(view.group, view.epoch.max(m.drive.epoch(view.group)));
                    let joined = match joined().await {
                        // Its refusal says which layout it follows now.
                        Err(DriveError::NewerLayout(_)) => joined().await,
                        r => r,
                    };
                    joined.map_err(|e| Error::Unavailable(format!("joining: {e}")))?;
                }
            }
            for m in &joining {
                tracing::warn!(drive = %m.id, "the drive votes again, as an operator asked for");
            }
            self.cache.invalidate_all();
            self.rebuilds.refresh();
            // Shards that were lost with the damage are made again.
            self.scrub.scan_soon();
        }
        Ok(())
    }

    async fn salvage_group(
        self: &Arc<Self>,
        view: &Arc<View>,
        apply: bool,
        out: &mut Salvaged,
    ) -> Result<()> {
        let (from, to) = group_range(view.group);
        let mut sources = SlotSet::EMPTY;
        for slot in 0..view.n() {
            let m = view.member(slot).filter(|m| m.is_up());
            let m = m.ok_or_else(|| {
                Error::Unavailable(format!(
                    "slot {slot} of group {} has no drive: bring it back, or replace it by a blank one",
                    view.group
                ))
            })?;
            if apply {
                let fenced = m.in_time(m.drive.fence_epoch(view.group, view.epoch)).await;
                fenced.map_err(|e| Error::Unavailable(format!("fencing drive {}: {e}", m.id)))?;
            }
            // A drive that never voted and holds no record is like a blank one: it is no source. One that lost its
            // vote is a source, whatever is left on it: with many groups, what it lost may be all it had of this one.
            let voted = matches!(m.drive.role(view.group), Some(Role::Voter | Role::Distrusted));
            if voted || !self.entries_of(m, &from, &to, 1).await?.is_empty() {
                sources.insert(slot);
            }
        }
        let mut at = from;
        loop {
            let mut keys: BTreeSet<RegisterKey> = BTreeSet::new();
            // The key up to which every drive was asked.
            let mut end: Option<RegisterKey> = None;
            for (_, m) in view.members().filter(|(s, _)| sources.contains(*s)) {
                let entries = self.entries_of(m, &at, &to, STRETCH).await?;
                if entries.len() == STRETCH
                    && let Some(last) = entries.last()
                    && end.as_ref().is_none_or(|e| last.key < *e)
                {
                    end = Some(last.key.clone());
                }
                keys.extend(entries.into_iter().map(|e| e.key));
            }
            for key in keys {
                if end.as_ref().is_none_or(|e| key <= *e) {
                    self.salvage_key(view, sources, &key, apply, out).await?;
                }
            }
            let Some(end) = end else { return Ok(()) };
            at = end.as_bytes().to_vec();
            at.push(0);
        }
    }

    /// Registers of any drive, also of one that does not vote.
    async fn entries_of(&self, m: &Member, from: &[u8], to: &[u8], limit: usize) -> Result<Vec<Entry>> {
        let page = m.scan(from, to, limit, u32::MAX).await;
        page.map_err(|e| Error::Unavailable(format!("drive {}: {e}", m.id)))
    }

    async fn salvage_key(
        self: &Arc<Self>,
        view: &Arc<View>,
        sources: SlotSet,
        key: &RegisterKey,
        apply: bool,
        out: &mut Salvaged,
    ) -> Result<()> {
        let _turn = self.locks.lock(ashlar_checksum::key_hash(key.as_bytes())).await;
        out.registers += 1;
        let trusted = view.voters();
        let rule = Resync::salvage(view.quorum, view.epoch, sources, trusted);
        let mut rule: Resync<Bytes> =
            rule.ok_or_else(|| Error::Unavailable("less than half of a group can be read".into()))?;
        let mut shown = Vec::new();
        for slot in sources.iter() {
            let m = view.member(slot).ok_or_else(|| Error::Unavailable("a drive went away".into()))?;
            rule.on_fenced(slot);
            let epoch = view.epoch.max(m.drive.epoch(view.group));
            let reply = match m.read(key, true, epoch).await {
                Ok(reply) => reply,
                Err(DriveError::Corrupt(_)) => {
                    rule.on_unreadable(slot);
                    shown.push((m.id, Showing::Unreadable));
                    continue;
                }
                Err(e) => return Err(Error::Unavailable(format!("drive {}: {e}", m.id))),
            };
            let horizon = reply.horizon;
            let Some(seen) = reply.accepted else {
                rule.on_absent(slot, horizon);
                shown.push((m.id, Showing::Nothing));
                continue;
            };
            let Some(stored) = seen.record.as_ref().map(Stored::parse) else { continue };
            match (stored, seen.record) {
                (Ok(stored), Some(bytes)) => {
                    match stored.one_sync_record.filter(|_| !seen.hint) {
                        Some(l) => {
                            rule.on_record_one_sync(slot, (seen.ballot, bytes), l.one_sync, seen.with_shard);
                        }
                        None => rule.on_record(slot, Some((seen.ballot, bytes))),
                    }
                    shown.push((m.id, Showing::Record(seen.ballot)));
                }
                _ => {
                    rule.on_unreadable(slot);
                    shown.push((m.id, Showing::Unreadable));
                }
            }
        }
        let certain = rule.certain();
        let mut kept = None;
        let lacking = |ballot: Ballot| {
            let shows = |id: DriveId| {
                shown.iter().any(|(d, s)| *d == id && matches!(s, Showing::Record(b) if *b >= ballot))
            };
            view.members()
                .filter(|(_, m)| !m.is_voter(view.group) && !shows(m.id))
                .map(|(_, m)| m.clone())
                .collect()
        };
        match rule.copy() {
            Copy::Wait => return Err(Error::Unavailable("not every drive was read".into())),
            Copy::Nothing => {}
            Copy::Record((ballot, _)) => {
                kept = Some(*ballot);
                let to: Vec<Arc<Member>> = lacking(*ballot);
                if apply && !to.is_empty() {
                    let want = self.register_at(view, key, *ballot).await?;
                    let want = want.ok_or_else(|| Error::Unavailable("a drive changed".into()))?;
                    for m in &to {
                        self.copy_to(view, m, key, &want, false).await?;
                        self.must_hold(m, key, *ballot).await?;
                    }
                }
                out.copied += to.len() as u64;
            }
            Copy::Parent { of: (ballot, bytes), .. } => {
                kept = Stored::parse(bytes).ok().and_then(|s| s.one_sync_record).map(|l| l.parent_ballot);
                // The record itself stays where it is; a round detects that it was overtaken.
                let to: Vec<Arc<Member>> = lacking(*ballot);
                if apply {
                    for m in &to {
                        self.copy_parent(view, m, key, bytes).await?;
                    }
                }
                out.copied += to.len() as u64;
            }
        }
        let all_show = |b| shown.iter().all(|(_, s)| *s == Showing::Record(b));
        if apply && !kept.is_some_and(all_show) {
            self.heals.push(key, true);
        }
        if !certain {
            out.uncertain += 1;
            if out.named.len() < MAX_NAMED {
                out.named.push(Uncertain { key: key.clone(), kept, shown });
            }
        }
        Ok(())
    }
}
