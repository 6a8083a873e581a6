//! Ordered, linearizable listing (docs/protocol.md 2.5).
//!
//! One drive of each group returns the page, and the other drives of a majority return only a digest of the
//! same range. Where digests differ, all of them return the page; keys on which they agree are taken, and the
//! others are resolved by reading their registers. Pages of the groups are merged by key.
//!
//! A drive gets one request for all groups whose page it returns, and one for all whose digest it returns
//! (`list_batch`); a group without an answer in time is requested separately.
//!
//! A folded list, for callers that group keys by a delimiter, leaves out keys of a common prefix behind the first one of
//! each group (`Fold`). Drives that agree on a group show the same first keys; what they leave out is not compared. So a page
//! costs as many look-ups as it has common prefixes, times the groups. Of a group that is requested separately, a section is
//! read as it is and folded here.
//!
//! Invariants: an entry is listed only if a majority shows its ballot or its register was read; a key that a
//! majority shows all the time is in exactly one page; fewer drives than a read needs give
//! [`Error::Unavailable`], never a shorter listing; the list waits for a slow drive only if no other can be
//! asked, and for none of a layout that a newer one has replaced: its drives refuse one after the other.
//!
//! Must not depend on: what keys and summaries mean.

use crate::list_batch::Part;
use crate::list_merge::{Cursor, take_ready};
use crate::register::LAYOUTS;
use crate::sets::{Inner, Sets};
use crate::table::{Member, Table, View};
use crate::{Error, Result};
use ashlar_commit::SlotSet;
use ashlar_drive::{Entry, Error as DriveError, Fold};
use ashlar_environment::time::{self, Instant};
use ashlar_format::{BucketId, GroupId, RegisterKey, Space};
use bytes::Bytes;
use futures::StreamExt;
use futures::future::BoxFuture;
use futures::future::join_all;
use futures::stream::FuturesUnordered;
use smallvec::SmallVec;
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::Ordering;
use std::time::Duration;

/// How often a key that keeps changing is read before this process delays its own changes of it.
const LOOKS: u32 = 3;

/// One key of a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// The key bytes, without the register prefix.
    pub key: Bytes,
    /// The summary given with the update.
    pub summary: Bytes,
}

/// One page of a listing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Page {
    /// In order of the key bytes.
    pub entries: Vec<Listed>,
    /// Whether there is at least one more key after the last entry.
    pub truncated: bool,
}

/// The largest allowed page.
pub const MAX_PAGE: usize = 10_000;

/// How long to wait for a drive's part of a page before another one is asked as well.
pub(crate) const HEDGE: Duration = Duration::from_millis(200);
/// How long the drives of a group are asked again after an attempt to list failed.
const PATIENCE: Duration = Duration::from_secs(15);
/// Pages up to this length are compared entry by entry.
pub(crate) const SHORT: usize = 64;

/// A section of one group's registers as its drives show them.
pub(crate) struct Stretch {
    pub(crate) keys: Vec<Shown>,
    /// The start of the next section; `None`: the range is finished.
    pub(crate) next: Option<Vec<u8>>,
    /// Whether less than a majority was asked.
    pub(crate) half: bool,
}

/// One register as the asked drives show it.
pub(crate) enum Shown {
    /// All show this.
    Same(Entry),
    /// The drives differ: which slot shows what.
    Differ(RegisterKey, Vec<(u8, Entry)>),
}

impl Shown {
    pub(crate) fn key(&self) -> &RegisterKey {
        match self {
            Shown::Same(e) => &e.key,
            Shown::Differ(k, _) => k,
        }
    }
}

/// The smallest bytes above every string with the prefix `prefix`; `None` if there are none.
pub(crate) fn above(prefix: &[u8]) -> Option<Vec<u8>> {
    let keep = prefix.iter().rposition(|b| *b != 0xff)?;
    let mut v = prefix[..=keep].to_vec();
    v[keep] += 1;
    Some(v)
}

/// The range of all registers of a group.
pub(crate) fn group_range(group: GroupId) -> (Vec<u8>, Vec<u8>) {
    let from = group.to_bytes().to_vec();
    let to = above(&from).unwrap_or_else(|| vec![0xff; RegisterKey::MAX + 1]);
    (from, to)
}

impl Sets {
    /// Like [`Sets::list`], for a caller that groups keys: of keys that have the same bytes up to the end of the first
    /// `delimiter` behind `prefix`, only the first one of each placement group is in the page. Such a key has an empty summary
    /// if it was found to be removed while it was listed; there may be others behind it that were left out.
    ///
    /// # Errors
    /// Like [`Sets::list`].
    pub fn list_folded<'a>(
        &'a self,
        space: Space,
        bucket: BucketId,
        (prefix, delimiter): (&'a [u8], &'a [u8]),
        from: &'a [u8],
        limit: usize,
    ) -> BoxFuture<'a, Result<Page>> {
        let fold = Fold { prefix: prefix.len(), delimiter: delimiter.to_vec() };
        self.list_by(space, bucket, prefix, from, (limit, Some(fold).filter(|f| !f.delimiter.is_empty())))
    }

    /// Whether drives of other nodes may be asked for folded lists: all nodes have to understand that call. No, at first.
    pub fn fold_lists(&self, may: bool) {
        self.inner.may_fold_lists.store(may, Ordering::Relaxed);
    }

    /// Keys of `bucket` that start with `prefix`, at or after `from` (inclusive: for "after key X"
    /// pass X and a zero byte), in order of bytes, at most `limit` (1..=[`MAX_PAGE`]). Registers
    /// with an empty summary are left out.
    ///
    /// # Errors
    /// [`Error::Unavailable`] if a group has too few drives.
    pub fn list<'a>(
        &'a self,
        space: Space,
        bucket: BucketId,
        prefix: &'a [u8],
        from: &'a [u8],
        limit: usize,
    ) -> BoxFuture<'a, Result<Page>> {
        self.list_by(space, bucket, prefix, from, (limit, None))
    }

    fn list_by<'a>(
        &'a self,
        space: Space,
        bucket: BucketId,
        prefix: &'a [u8],
        from: &'a [u8],
        (limit, fold): (usize, Option<Fold>),
    ) -> BoxFuture<'a, Result<Page>> {
        Box::pin(async move {
            if limit == 0 || limit > MAX_PAGE {
                return Err(Error::Invalid("a page has 1..=10,000 entries"));
            }
            let longest = RegisterKey::MAX - RegisterKey::PREFIX;
            if prefix.len() > longest || from.len() > longest + 1 {
                return Ok(Page::default());
            }
            for _ in 0..LAYOUTS {
                let table = self.inner.table.load_full();
                let page = self.inner.page(&table, space, bucket, (prefix, from), (limit, fold.as_ref()));
                let (page, half) = match page.await {
                    // Drives that follow a newer layout refuse readers of this one.
                    Err(Error::Unavailable(_)) if self.inner.knew_too_little(&table.views).await => continue,
                    r => r?,
                };
                if !half || self.inner.in_force(table.layout.epoch).await? {
                    return Ok(page);
                }
            }
            Err(Error::Unavailable("the layout keeps changing".into()))
        })
    }
}

impl Inner {
    /// A page as the drives of one layout show it; the flag tells that only half of a group's drives
    /// answered.
    async fn page(
        &self,
        table: &Table,
        space: Space,
        bucket: BucketId,
        (prefix, from): (&[u8], &[u8]),
        (limit, fold): (usize, Option<&Fold>),
    ) -> Result<(Page, bool)> {
        let mut cursors: Vec<Cursor> = Vec::with_capacity(table.views.len());
        for view in &table.views {
            let head = RegisterKey::new(view.group, space, bucket, prefix);
            let head = head.as_bytes();
            let mut start = head[..RegisterKey::PREFIX].to_vec();
            start.extend_from_slice(from.max(prefix));
            let to = above(head).unwrap_or_else(|| vec![0xff; RegisterKey::MAX + 1]);
            let from = (start < to).then_some(start);
            cursors.push(Cursor { view: view.clone(), from, to, ready: VecDeque::new(), half: false });
        }
        let groups = cursors.len();
        let chunk = if groups == 1 { limit + 1 } else { (limit * 3 / 2 / groups + 16).min(limit + 1) };
        let page = self.merge(&mut cursors, chunk, (limit, fold)).await?;
        Ok((page, cursors.iter().any(|c| c.half)))
    }

    /// Merges the groups' parts by key.
    async fn merge(
        &self,
        cursors: &mut [Cursor],
        chunk: usize,
        (limit, fold): (usize, Option<&Fold>),
    ) -> Result<Page> {
        let mut page = Page::default();
        loop {
            let short = cursors.iter_mut().filter(|c| c.ready.is_empty() && c.from.is_some());
            let mut short: Vec<&mut Cursor> = short.collect();
            match &mut short[..] {
                [] => {}
                // Drives fold only what is requested for several groups.
                [one] if fold.is_none() => self.refill(one, chunk, None).await?,
                some => self.refill_all(some, chunk, (limit + 1 - page.entries.len(), fold)).await?,
            }
            if take_ready(cursors, &mut page, limit) {
                return Ok(page);
            }
        }
    }

    /// Refills several cursors with one request to each drive, as far as possible; at least one cursor makes
    /// progress.
    async fn refill_all(
        &self,
        cursors: &mut [&mut Cursor],
        chunk: usize,
        (limit, fold): (usize, Option<&Fold>),
    ) -> Result<()> {
        let all = self.all_may_be_undecided() || self.undecided_registers.any();
        let parts: Vec<Part<'_>> = {
            let asked = cursors.iter().filter_map(|c| Some((&*c.view, c.from.as_deref()?, &c.to[..])));
            asked.map(|(view, from, to)| Part { view, from, to }).collect()
        };
        // Without leave to ask drives for folded lists, each group is requested by itself, and folded here.
        let may_fold = self.options.sole || self.may_fold_lists.load(Ordering::Relaxed);
        let mut answered = match fold {
            Some(_) if !may_fold => Vec::new(),
            _ => self.batch(&parts, (limit, fold), all).await,
        };
        answered.resize_with(cursors.len(), || None);
        let each = cursors.iter_mut().zip(answered).map(|(c, stretch)| async move {
            match stretch {
                Some(stretch) => {
                    c.from = None;
                    self.put(c, stretch, fold, true).await
                }
                None => self.refill(c, chunk, fold).await,
            }
        });
        join_all(each).await.into_iter().collect()
    }

    async fn refill(&self, c: &mut Cursor, chunk: usize, fold: Option<&Fold>) -> Result<()> {
        let Some(from) = c.from.take() else { return Ok(()) };
        let all = self.all_may_be_undecided() || self.undecided_registers.any();
        let stretch = self.any_stretch(&c.view, &from, &c.to, chunk, all).await?;
        self.put(c, stretch, fold, false).await
    }

    /// Adds a section to its cursor, which has nothing at hand. `by_drives`: the drives left out what `fold` says; then a
    /// key that turns out to be removed stays, because others may have been left out behind it.
    async fn put(
        &self,
        c: &mut Cursor,
        stretch: Stretch,
        fold: Option<&Fold>,
        by_drives: bool,
    ) -> Result<()> {
        c.from = stretch.next;
        c.half |= stretch.half;
        // The end of the common prefix of the last key.
        let mut behind: Option<Vec<u8>> = None;
        for shown in stretch.keys {
            if behind.as_ref().is_some_and(|end| shown.key().as_bytes() < &end[..]) {
                continue;
            }
            let stays = match &shown {
                Shown::Same(e) if fold.is_some() && by_drives && !e.summary.is_empty() => Some(e.key.clone()),
                _ => None,
            };
            let entry = match shown {
                // Agreement of half of the drives proves nothing (2.13): one must have a hint that it is
                // chosen.
                Shown::Same(e) if stretch.half && !e.hint => self.resolve(&c.view, e.key, &[]).await?,
                // Its last update failed: it is settled before it is shown.
                Shown::Same(e)
                    if self.undecided_registers.any() && self.undecided_registers.has(hash_of(&e.key)) =>
                {
                    self.resolve(&c.view, e.key, &[]).await?
                }
                Shown::Same(e) => Some((e.key, e.summary)),
                Shown::Differ(key, seen) => self.resolve(&c.view, key, &seen).await?,
            };
            let entry = entry.filter(|(_, summary)| !summary.is_empty());
            if let Some((key, summary)) = entry.or_else(|| stays.map(|key| (key, Bytes::new()))) {
                behind = fold.and_then(|fold| fold.end(key.as_bytes()));
                c.ready.push_back(Listed { key: Bytes::copy_from_slice(key.key()), summary });
            }
        }
        // The next section begins behind what this one leaves out.
        if let Some(end) = behind.filter(|end| c.from.as_ref().is_some_and(|from| from < end)) {
            c.from = (end < c.to).then_some(end);
        }
        Ok(())
    }

    /// Resolves a key on which the drives differ, by reading its register.
    async fn resolve(
        &self,
        view: &View,
        key: RegisterKey,
        seen: &[(u8, Entry)],
    ) -> Result<Option<(RegisterKey, Bytes)>> {
        let hash = ashlar_checksum::key_hash(key.as_bytes());
        for _ in 0..LOOKS {
            let Some(now) = self.read_slowly(&key, hash).await? else { return Ok(None) };
            if let Some((_, e)) = seen.iter().find(|(_, e)| e.ballot == now.ballot) {
                return Ok(Some((key, e.summary.clone())));
            }
            if let Some(s) = self.summary(view, &key, now.ballot).await {
                return Ok(Some((key, s)));
            }
        }
        // It changes between the two requests every time: delay the next change by this process.
        let mut turn = self.turn(hash).await;
        let Some(now) = self.read_in_turn(&key, hash, &mut turn).await? else { return Ok(None) };
        match self.summary(view, &key, now.ballot).await {
            Some(s) => Ok(Some((key, s))),
            None => Err(Error::Unavailable("a key keeps changing".into())),
        }
    }

    /// [`Inner::stretch`] over the drives that answer first; `all`: over all prompt drives, not only a
    /// majority.
    pub(crate) async fn any_stretch(
        &self,
        view: &View,
        from: &[u8],
        to: &[u8],
        limit: usize,
        all: bool,
    ) -> Result<Stretch> {
        // A drive that fails here counts as late from then on, so the next attempt prefers others.
        let begin = Instant::now();
        let mut result = self.stretch_of(view, askable(view, all)?, from, to, limit).await;
        for _ in 0..view.n() {
            // Answers that are lost cost each attempt the time limit of a call.
            if result.is_ok() || self.is_replaced(view) || begin.elapsed() > PATIENCE {
                break;
            }
            result = self.stretch_of(view, askable(view, all)?, from, to, limit).await;
        }
        result
    }

    /// About `limit` registers in `from..to`, as shown by all drives of `slots`.
    pub(crate) async fn stretch(
        &self,
        view: &View,
        slots: SlotSet,
        from: &[u8],
        to: &[u8],
        limit: usize,
    ) -> Result<Stretch> {
        self.stretch_of(view, (slots, slots.len()), from, to, limit).await
    }

    /// Like [`Inner::stretch`], for `need` of the slots.
    async fn stretch_of(
        &self,
        view: &View,
        (slots, need): (SlotSet, u8),
        from: &[u8],
        to: &[u8],
        limit: usize,
    ) -> Result<Stretch> {
        let half = need < view.quorum.majority();
        let (leader, entries) = self.first_page(view, slots, from, to, limit).await?;
        let (end, next) = match entries.last() {
            Some(e) if entries.len() >= limit => {
                let mut end = e.key.as_bytes().to_vec();
                end.push(0);
                (end.clone(), Some(end))
            }
            _ => (to.to_vec(), None),
        };
        let (slots, same) = self.compare(view, (slots, need), leader, from, &end, &entries).await?;
        if same {
            return Ok(Stretch { keys: entries.into_iter().map(Shown::Same).collect(), next, half });
        }
        let mut shown: BTreeMap<RegisterKey, Vec<(u8, Entry)>> = BTreeMap::new();
        for e in entries {
            shown.entry(e.key.clone()).or_default().push((leader, e));
        }
        for slot in slots.without([leader].into_iter().collect()).iter() {
            let mut at = from.to_vec();
            loop {
                let part = self.scan(view, slot, &at, &end, 1024).await?;
                let full = part.len() == 1024;
                if let (true, Some(e)) = (full, part.last()) {
                    at = e.key.as_bytes().to_vec();
                    at.push(0);
                }
                for e in part {
                    shown.entry(e.key.clone()).or_default().push((slot, e));
                }
                if !full {
                    break;
                }
            }
        }
        let count = usize::from(slots.len());
        let keys = shown
            .into_iter()
            .map(|(key, mut seen)| {
                seen.sort_by_key(|(_, e)| e.ballot);
                let newest = seen.last().map(|(_, e)| e.ballot);
                let holders = seen.iter().filter(|(_, e)| Some(e.ballot) == newest).count();
                if holders < count {
                    self.heals.push(&key, false);
                }
                // Enough drives show it, and none shows anything higher.
                let same = holders >= count.min(usize::from(view.quorum.majority()));
                match seen.pop() {
                    Some((_, e)) if same => Shown::Same(e),
                    Some(last) => {
                        seen.push(last);
                        Shown::Differ(key, seen)
                    }
                    None => Shown::Differ(key, seen),
                }
            })
            .collect();
        Ok(Stretch { keys, next, half })
    }

    /// The page as one of `slots` shows it: the first drive asked, unless it takes long.
    async fn first_page(
        &self,
        view: &View,
        slots: SlotSet,
        from: &[u8],
        to: &[u8],
        limit: usize,
    ) -> Result<(u8, Vec<Entry>)> {
        let mut order = prompt_first(view, slots).into_iter();
        let mut error = Error::Unavailable("no drive to list".into());
        let mut waiting = FuturesUnordered::new();
        loop {
            self.check_current(view)?;
            if let Some(slot) = order.next() {
                waiting.push(async move { (slot, self.scan(view, slot, from, to, limit).await) });
            }
            loop {
                match time::timeout(HEDGE, waiting.next()).await {
                    Ok(Some((slot, Ok(entries)))) => return Ok((slot, entries)),
                    Ok(Some((_, Err(e)))) => error = e,
                    Ok(None) if order.len() == 0 => return Err(error),
                    Ok(None) => {}
                    Err(_) if order.len() == 0 => {
                        self.check_current(view)?;
                        continue;
                    }
                    Err(_) => {}
                }
                break;
            }
        }
    }

    /// Which `need` drives of `slots`, including the leader, answered, and whether all of them show exactly
    /// the `entries` of the leader in the range.
    pub(crate) async fn compare(
        &self,
        view: &View,
        (slots, need): (SlotSet, u8),
        leader: u8,
        from: &[u8],
        to: &[u8],
        entries: &[Entry],
    ) -> Result<(SlotSet, bool)> {
        let mine = (entries.len() as u64, entries.iter().fold(0u64, |d, e| d.wrapping_add(digest(e))));
        let mut order = prompt_first(view, slots).into_iter().filter(|s| *s != leader);
        let mut answered: SlotSet = [leader].into_iter().collect();
        let mut same = true;
        let mut waiting = FuturesUnordered::new();
        let mut start = usize::from(need) - 1;
        let ask = |slot| async move { (slot, shows_same(view, slot, from, to, entries, mine).await) };
        while answered.len() < need {
            self.check_current(view)?;
            for slot in order.by_ref().take(start) {
                waiting.push(ask(slot));
            }
            start = 0;
            match time::timeout(HEDGE, waiting.next()).await {
                Ok(Some((slot, Ok(s)))) => {
                    answered.insert(slot);
                    same &= s;
                }
                // Another drive has to be asked in its place.
                Ok(Some((slot, Err(e)))) => {
                    tracing::debug!(slot, "listing: {e}");
                    if let Some(m) = view.member(slot) {
                        m.latency.mark_slow();
                    }
                    start = 1;
                }
                Err(_) => start = usize::from(need - answered.len()),
                Ok(None) => {
                    let next = order.next();
                    let Some(slot) = next else {
                        let have = answered.len();
                        return Err(Error::Unavailable(format!("listing: {have} of {need} drives")));
                    };
                    waiting.push(ask(slot));
                }
            }
        }
        Ok((answered, same))
    }

    /// Whether this process knows a newer layout of the group.
    fn is_replaced(&self, view: &View) -> bool {
        self.table.load().view(view.group).is_ok_and(|now| now.epoch > view.epoch)
    }

    /// Fails if [`Inner::is_replaced`]: the caller begins again in the newer layout.
    fn check_current(&self, view: &View) -> Result<()> {
        match self.is_replaced(view) {
            true => Err(Error::Unavailable(format!("listing: group {} has a newer layout", view.group))),
            false => Ok(()),
        }
    }

    pub(crate) async fn scan(
        &self,
        view: &View,
        slot: u8,
        from: &[u8],
        to: &[u8],
        limit: usize,
    ) -> Result<Vec<Entry>> {
        let Some(m) = view.member(slot) else {
            return Err(Error::Unavailable("a drive went away".into()));
        };
        m.scan(from, to, limit, view.epoch).await.map_err(|e| {
            m.latency.mark_slow();
            Error::Unavailable(format!("listing: {e}"))
        })
    }
}

fn hash_of(key: &RegisterKey) -> u64 {
    ashlar_checksum::key_hash(key.as_bytes())
}

/// The digest of one entry, as [`ashlar_drive::Drive::range_digest`] computes it.
pub(crate) fn digest(e: &Entry) -> u64 {
    let mut bytes = SmallVec::<[u8; 256]>::new();
    bytes.extend_from_slice(&e.ballot.to_bytes());
    bytes.extend_from_slice(&e.digest.to_le_bytes());
    bytes.extend_from_slice(e.key.as_bytes());
    ashlar_checksum::key_hash(&bytes)
}

/// Whether a drive shows exactly these entries, whose number and digest are `mine`, in the range.
async fn shows_same(
    view: &View,
    slot: u8,
    from: &[u8],
    to: &[u8],
    entries: &[Entry],
    mine: (u64, u64),
) -> Result<bool, DriveError> {
    let Some(m) = view.member(slot) else { return Err(DriveError::Offline("it went away")) };
    // A short page is compared directly, which needs no other thread.
    m.listed();
    if entries.len() <= SHORT
        && let Some(theirs) = m.drive.scan_now(from, to, entries.len() + 1, view.epoch)
    {
        let theirs = theirs?;
        let pairs = theirs.iter().zip(entries);
        return Ok(theirs.len() == entries.len() && { pairs }
            .all(|(a, b)| (a.ballot, a.digest, &a.key) == (b.ballot, b.digest, &b.key)));
    }
    m.in_time(m.drive.range_digest(from, to, view.epoch)).await.map(|d| d == mine)
}

/// The slots, ordered so that drives that are likely to answer soon come first.
pub(crate) fn prompt_first(view: &View, slots: SlotSet) -> SmallVec<[u8; 16]> {
    let prompt = slots.and(view.which(|m| !m.is_late()));
    prompt.iter().chain(slots.without(prompt).iter()).collect()
}

/// The slots that a section may ask, and how many of them it needs: as [`voters`]; if undecided registers may
/// be outside of a majority, all prompt drives as well.
pub(crate) fn askable(view: &View, all: bool) -> Result<(SlotSet, u8)> {
    let (up, need) = voters(view)?;
    if !all || need < view.quorum.majority() {
        return Ok((up, need));
    }
    Ok((up, need.max(up.and(view.which(|m| !m.is_late())).len())))
}

/// The slots that a listing may ask, and how many of them it needs: a majority; with fewer voters, all of
/// them if they are at least half (docs/protocol.md 2.13). Drives that are away are asked only if the others
/// are fewer than a majority.
fn voters(view: &View) -> Result<(SlotSet, u8)> {
    let up = view.which(|m: &Member| m.is_voter(view.group) && m.is_up());
    let here = up.and(view.which(Member::is_here));
    let up = if here.len() >= view.quorum.majority() { here } else { up };
    if up.len() < view.quorum.half() {
        let have = up.len();
        return Err(Error::Unavailable(format!("{have} voters of group {}", view.group)));
    }
    Ok((up, up.len().min(view.quorum.majority())))
}

/// A majority of the voters, those that are likely to answer soon.
pub(crate) fn readers(view: &View) -> Result<SlotSet> {
    let (up, need) = voters(view)?;
    Ok(prompt_first(view, up).into_iter().take(usize::from(need)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefix_upper_bound() {
        assert_eq!(above(b"a/"), Some(b"a0".to_vec()));
        assert_eq!(above(&[1, 0xff, 0xff]), Some(vec![2]));
        assert_eq!(above(&[0xff]), None);
        assert_eq!(above(b""), None);
    }
}
