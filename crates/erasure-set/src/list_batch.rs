//! A page of a list over many placement groups, with one request to each drive (docs/protocol.md 2.5).
//!
//! The leaders are the fewest drives that can return the registers of all groups; each leader scans the
//! ranges of its groups in one call and merges them by key. Every other drive that a group needs returns the
//! digests of its groups in one call.
//!
//! Invariants: a group is answered only if as many drives as [`askable`] requires show the same, and those
//! are a majority. In every other case (late, silent, refused, different) the group stays unanswered here and
//! is left to [`Inner::any_stretch`].
//!
//! Must not depend on: what keys and summaries mean.

use crate::list::{HEDGE, SHORT, Shown, Stretch, askable, digest, prompt_first};
use crate::sets::Inner;
use crate::table::{Member, View};
use ashlar_commit::SlotSet;
use ashlar_drive::{Entry, Fold, Range};
use ashlar_environment::time;
use ashlar_format::{DriveId, GroupId};
use futures::future::join_all;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The rest of the range of a group.
pub(crate) struct Part<'a> {
    pub(crate) view: &'a View,
    pub(crate) from: &'a [u8],
    pub(crate) to: &'a [u8],
}

/// A part with the state of its answers.
struct Asked<'a> {
    part: &'a Part<'a>,
    /// Which slots may be asked, and how many of them must show the same.
    slots: SlotSet,
    need: u8,
    leader: Option<u8>,
    entries: Vec<Entry>,
    /// Where the leader's answer ends; `None`: at the end of the range.
    end: Option<Vec<u8>>,
    /// Slots that show the same as the leader.
    same: u8,
    differs: bool,
}

/// The requests by drive: for each, the indexes of its parts.
type ByDrive = BTreeMap<DriveId, (Arc<Member>, Vec<usize>)>;

impl Inner {
    /// The sections of these parts on which the drives agree, about `limit` registers together; `None` for a
    /// part that has to be requested separately. `fold`: what is left out of each. `all`: all prompt drives have to agree,
    /// not only a majority.
    pub(crate) async fn batch(
        &self,
        parts: &[Part<'_>],
        (limit, fold): (usize, Option<&Fold>),
        all: bool,
    ) -> Vec<Option<Stretch>> {
        let mut asked: Vec<Asked<'_>> = parts.iter().map(|part| Asked::new(part, all)).collect();
        self.lead(&mut asked, (limit, fold)).await;
        self.agree(&mut asked, fold).await;
        asked.into_iter().map(Asked::answer).collect()
    }

    /// Gets the registers from the leaders.
    async fn lead(&self, asked: &mut [Asked<'_>], (limit, fold): (usize, Option<&Fold>)) {
        let leaders = choose(asked);
        let scans = leaders.values().map(|(m, of)| {
            let ranges = of.iter().map(|i| asked[*i].range(asked[*i].part.to)).collect();
            async move { time::timeout(HEDGE, m.scan_many(ranges, fold.cloned(), limit)).await }
        });
        let found = join_all(scans).await;
        for ((m, of), found) in leaders.values().zip(found) {
            let Ok(Ok(entries)) = found else {
                m.latency.mark_slow();
                continue;
            };
            // If the answer has its full length, every range is covered only up to its last key.
            let last = entries.last().filter(|_| entries.len() >= limit);
            let last = last.map(|e| (e.key.group(), e.key.as_bytes()[GroupId::LEN..].to_vec()));
            for i in of {
                let a = &mut asked[*i];
                a.leader = a.slot_of(m.id);
                let group = a.part.view.group;
                let end = last.as_ref().map(|(of, last)| {
                    let behind: &[u8] = if *of == group { &[0] } else { &[] };
                    [&group.to_bytes()[..], last, behind].concat()
                });
                a.end = end.filter(|e| &e[..] < a.part.to).map(|e| e.max(a.part.from.to_vec()));
            }
            let at: BTreeMap<GroupId, usize> = of.iter().map(|i| (asked[*i].part.view.group, *i)).collect();
            for e in entries {
                if let Some(i) = at.get(&e.key.group()) {
                    asked[*i].entries.push(e);
                }
            }
        }
    }

    /// Gets what the other drives show of the same ranges.
    async fn agree(&self, asked: &mut [Asked<'_>], fold: Option<&Fold>) {
        let mut others = ByDrive::new();
        for (i, a) in asked.iter().enumerate() {
            let Some(leader) = a.leader else { continue };
            let rest = a.slots.without([leader].into_iter().collect());
            // Drives that are asked anyway come first, so that few drives are asked.
            let mut order = prompt_first(a.part.view, rest);
            order.sort_by_key(|slot| {
                let m = a.part.view.member(*slot);
                m.is_none_or(|m| m.is_late() || !others.contains_key(&m.id))
            });
            for slot in order.into_iter().take(usize::from(a.need) - 1) {
                if let Some(m) = a.part.view.member(slot) {
                    others.entry(m.id).or_insert_with(|| (m.clone(), Vec::new())).1.push(i);
                }
            }
        }
        let asks = others.values().map(|(m, of)| {
            let few = of.iter().map(|i| asked[*i].entries.len()).sum::<usize>() <= SHORT;
            let range = |i: &usize| asked[*i].range(asked[*i].end.as_deref().unwrap_or(asked[*i].part.to));
            let ranges = of.iter().map(range).collect();
            async move { time::timeout(HEDGE, m.digests(ranges, fold.cloned(), few)).await }
        });
        let found = join_all(asks).await;
        for ((m, of), found) in others.values().zip(found) {
            let Ok(Ok(digests)) = found else {
                m.latency.mark_slow();
                continue;
            };
            for (i, theirs) in of.iter().zip(digests) {
                let a = &mut asked[*i];
                let mine = a.entries.iter().fold(0u64, |d, e| d.wrapping_add(digest(e)));
                match theirs == (a.entries.len() as u64, mine) {
                    true => a.same += 1,
                    false => a.differs = true,
                }
            }
        }
    }
}

impl<'a> Asked<'a> {
    fn new(part: &'a Part<'a>, all: bool) -> Asked<'a> {
        // With half of the drives, or fewer, other rules apply: no such group is handled here.
        let (slots, need) = match askable(part.view, all) {
            Ok((slots, need)) if need >= part.view.quorum.majority() => (slots, need),
            _ => (SlotSet::EMPTY, u8::MAX),
        };
        let (leader, end) = (None, None);
        Asked { part, slots, need, leader, entries: Vec::new(), end, same: 1, differs: false }
    }

    fn range(&self, to: &[u8]) -> Range {
        Range { from: self.part.from.to_vec(), to: to.to_vec(), epoch: self.part.view.epoch }
    }

    fn slot_of(&self, drive: DriveId) -> Option<u8> {
        self.part.view.members().find(|(_, m)| m.id == drive).map(|(slot, _)| slot)
    }

    fn answer(self) -> Option<Stretch> {
        let agreed = self.leader.is_some() && !self.differs && self.same >= self.need;
        let keys = self.entries.into_iter().map(Shown::Same);
        agreed.then(|| Stretch { keys: keys.collect(), next: self.end, half: false })
    }
}

/// Chooses the leaders: repeatedly the drive that can return most of the remaining groups.
fn choose(asked: &[Asked<'_>]) -> ByDrive {
    let mut able = ByDrive::new();
    for (i, a) in asked.iter().enumerate() {
        for slot in a.slots.iter() {
            if let Some(m) = a.part.view.member(slot).filter(|m| !m.is_late()) {
                able.entry(m.id).or_insert_with(|| (m.clone(), Vec::new())).1.push(i);
            }
        }
    }
    let mut leaders = ByDrive::new();
    let mut open: Vec<bool> = asked.iter().map(|a| !a.slots.is_empty()).collect();
    loop {
        for (_, of) in able.values_mut() {
            of.retain(|i| open[*i]);
        }
        // Among equal drives, take turns: the order of slots differs from group to group.
        let turn = |of: &[usize], m: &Member| of.first().and_then(|i| asked[*i].slot_of(m.id));
        let best = able.iter().max_by_key(|(_, (m, of))| (of.len(), std::cmp::Reverse(turn(of, m))));
        let Some((id, (m, of))) = best.filter(|(_, (_, of))| !of.is_empty()) else { return leaders };
        for i in of {
            open[*i] = false;
        }
        leaders.insert(*id, (m.clone(), of.clone()));
    }
}
