//! The table of drives: which drive is in which slot now, and how quickly it answers.
//!
//! Invariants: a table is immutable; a change makes a new one, and operations that hold the old one finish
//! with it. A slot without a drive is `None` and counts as silent. A late drive keeps its vote and its
//! shards: operations only do not wait for it longer than necessary. A drive *hangs* while a call to its
//! device has not returned for [`STALLED`]: it counts as late, gets no new large shards, and a missing answer
//! counts as silence, never as absence. So does a drive that is *away*, because its node is not reached or
//! silent; it is not among those that the others must be able to replace, since nothing can be expected of it.
//!
//! Must not depend on: what registers and shards contain.

use crate::latency::LatencyTracker;
use crate::layout::Layout;
use crate::{Error, Result};
use arc_swap::ArcSwap;
use ashlar_commit::{Quorum, SlotSet};
use ashlar_drive::{
    DriveHandle, Entry, Error as DriveError, Fold, Range, ReadReply, ReaderHandle, Role, State,
};
use ashlar_environment::HashMap;
use ashlar_environment::time::{self, Instant};
use ashlar_format::{Ballot, DriveId, GroupId, RegisterKey, WriteId};
use smallvec::SmallVec;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

/// A drive that is attached.
pub(crate) struct Member {
    pub(crate) id: DriveId,
    pub(crate) drive: DriveHandle,
    pub(crate) latency: LatencyTracker,
    attached: Arc<Attached>,
    /// Bytes that readers asked it for and that have not come.
    reading: AtomicU64,
    /// Whether it was logged that the drive hangs.
    pub(crate) hang_reported: AtomicBool,
    /// Number of calls for lists.
    #[cfg(test)]
    pub(crate) list_calls: std::sync::atomic::AtomicU64,
}

/// A call to a device that takes this long will not return soon.
pub(crate) const STALLED: Duration = Duration::from_secs(1);
/// How often an operation that waits for drives checks whether one of them hangs.
pub(crate) const HANG_CHECK_INTERVAL: Duration = Duration::from_millis(50);

/// The time until the first such check.
pub(crate) const FIRST_HANG_CHECK: Duration = Duration::from_millis(5);

/// All attached drives, to distinguish a drive that hangs from a machine that is stopped: if more drives
/// stall at once than the others can replace, waiting is the only option. Drives that are away do not count:
/// they would make every drive that hangs one to wait for.
pub(crate) struct Attached {
    /// Those that have slots, with the groups in which they have them.
    drives: ArcSwap<Vec<(DriveHandle, Vec<GroupId>)>>,
    /// Drives of the layout that are not attached.
    missing: AtomicUsize,
    /// The most drives that may hang or be out of service before a stall counts as one of the machine.
    most: AtomicUsize,
}

impl Attached {
    pub(crate) fn new() -> Arc<Attached> {
        let zero = || AtomicUsize::new(0);
        Arc::new(Attached { drives: ArcSwap::default(), missing: zero(), most: zero() })
    }

    /// `spare`: the number of drives that a group can lose and still change its registers.
    pub(crate) fn set(&self, members: &HashMap<DriveId, Arc<Member>>, layout: &Layout, spare: u8) {
        let mut all: HashMap<DriveId, Vec<GroupId>> = HashMap::default();
        for group in &layout.groups {
            group.slots.iter().for_each(|d| all.entry(*d).or_default().push(group.id));
        }
        let missing = all.keys().filter(|id| !members.contains_key(*id)).count();
        self.missing.store(missing, Ordering::Relaxed);
        self.most.store(usize::from(spare).max(all.len() / 4), Ordering::Relaxed);
        let with_slots =
            all.into_iter().filter_map(|(id, groups)| Some((members.get(&id)?.drive.clone(), groups)));
        self.drives.store(Arc::new(with_slots.collect()));
    }

    /// Drives that are missing or joining cannot replace one that hangs. One that takes over some groups and votes in
    /// most of its groups can.
    fn can_do_without(&self) -> bool {
        let drives = self.drives.load();
        let joins = |d: &DriveHandle, groups: &[GroupId]| {
            let votes = groups.iter().filter(|g| d.role(**g) == Some(Role::Voter)).count();
            votes * 2 < groups.len()
        };
        let out = |(d, groups): &&(DriveHandle, Vec<GroupId>)| {
            joins(d, groups) || d.oldest() >= STALLED && !d.is_away()
        };
        let out = drives.iter().filter(out).count() + self.missing.load(Ordering::Relaxed);
        out <= self.most.load(Ordering::Relaxed)
    }
}

/// How long to wait for an answer that no other drive can give.
const PATIENCE: Duration = Duration::from_secs(10);

impl Member {
    pub(crate) fn new(drive: DriveHandle, attached: Arc<Attached>) -> Member {
        Member {
            id: drive.label().drive,
            drive,
            latency: LatencyTracker::new(),
            attached,
            reading: AtomicU64::new(0),
            hang_reported: AtomicBool::new(false),
            #[cfg(test)]
            list_calls: std::sync::atomic::AtomicU64::new(0),
        }
    }

    /// Whether it is of another node that is not reached, or silent.
    pub(crate) fn is_away(&self) -> bool {
        self.drive.is_away()
    }

    /// Whether it is away, or a call to its device does not return and others can replace it.
    pub(crate) fn is_hung(&self) -> bool {
        self.is_away() || self.drive.oldest() >= STALLED && self.attached.can_do_without()
    }

    /// Whether calls to it are answered soon: it does not stall, whether others can replace it or not, and is not
    /// away.
    pub(crate) fn responds(&self) -> bool {
        !self.is_away() && self.drive.stalled().is_none()
    }

    /// Whether operations should not wait for it longer than necessary.
    pub(crate) fn is_late(&self) -> bool {
        self.latency.is_late() || self.latency.is_laggard() || self.is_hung()
    }

    /// Counts `bytes` that it is asked for, until the result is dropped.
    pub(crate) fn asked_for(self: &Arc<Self>, bytes: u64) -> Asked {
        self.reading.fetch_add(bytes, Ordering::Relaxed);
        Asked { of: self.clone(), bytes }
    }

    /// Bytes that wait for its device.
    pub(crate) fn load(&self) -> u64 {
        self.reading.load(Ordering::Relaxed).saturating_add(self.drive.frames_waiting())
    }

    /// How long to wait for a frame before another shard is asked too.
    pub(crate) fn hedge_after(&self) -> Duration {
        match self.drive.is_hard_disk() {
            true => self.latency.hedge_after_on_disk(self.load()),
            false => self.latency.hedge_after(),
        }
    }

    /// Whether it votes in a group; a drive that has not joined the group does not.
    pub(crate) fn is_voter(&self, group: GroupId) -> bool {
        self.drive.role(group) == Some(Role::Voter)
    }

    /// READ in a layout, without waiting if possible, and with a time limit.
    pub(crate) async fn read(
        &self,
        key: &RegisterKey,
        record: bool,
        epoch: u32,
    ) -> Result<ReadReply, DriveError> {
        match self.drive.read_now(key, record, epoch) {
            Some(r) => r,
            None => self.in_time(self.drive.read(key, record, epoch)).await,
        }
    }

    /// Opens a shard, with the waits of [`Member::read`].
    pub(crate) async fn open(&self, id: WriteId, shard: u8) -> Result<ReaderHandle, DriveError> {
        match self.drive.open_shard_now(id, shard) {
            Some(r) => r,
            None => self.in_time(self.drive.open_shard(id, shard)).await,
        }
    }

    /// Registers of a range, with the waits of [`Member::read`].
    pub(crate) async fn scan(
        &self,
        from: &[u8],
        to: &[u8],
        limit: usize,
        epoch: u32,
    ) -> Result<Vec<Entry>, DriveError> {
        self.listed();
        match self.drive.scan_now(from, to, limit, epoch) {
            Some(r) => r,
            None => self.in_time(self.drive.scan(from, to, limit, epoch)).await,
        }
    }

    /// Registers of ranges of several groups, with the waits of [`Member::read`].
    pub(crate) async fn scan_many(
        &self,
        ranges: Vec<Range>,
        fold: Option<Fold>,
        limit: usize,
    ) -> Result<Vec<Entry>, DriveError> {
        self.listed();
        self.in_time(self.drive.scan_many(ranges, fold, limit)).await
    }

    /// Digests of ranges of several groups, with the waits of [`Member::read`].
    pub(crate) async fn digests(
        &self,
        ranges: Vec<Range>,
        fold: Option<Fold>,
        few: bool,
    ) -> Result<Vec<(u64, u64)>, DriveError> {
        self.listed();
        self.in_time(self.drive.digests(ranges, fold, few)).await
    }

    /// Counts a call for a list.
    pub(crate) fn listed(&self) {
        #[cfg(test)]
        self.list_calls.fetch_add(1, Ordering::Relaxed);
    }

    /// Waits for a drive, up to a time limit.
    pub(crate) async fn in_time<T>(
        &self,
        answer: impl Future<Output = Result<T, DriveError>>,
    ) -> Result<T, DriveError> {
        let began = Instant::now();
        tokio::pin!(answer);
        loop {
            match time::timeout(HANG_CHECK_INTERVAL, &mut answer).await {
                Ok(r) => return r,
                Err(_) if self.is_hung() || began.elapsed() >= PATIENCE => {
                    self.latency.mark_slow();
                    return Err(DriveError::Offline("it does not answer"));
                }
                Err(_) => {}
            }
        }
    }

    /// Waits for long work of a drive while its device answers.
    pub(crate) async fn patiently<T>(
        &self,
        answer: impl Future<Output = Result<T, DriveError>>,
    ) -> Result<T, DriveError> {
        tokio::pin!(answer);
        loop {
            match time::timeout(HANG_CHECK_INTERVAL, &mut answer).await {
                Ok(r) => return r,
                Err(_) if self.is_hung() => return Err(DriveError::Offline("it does not answer")),
                Err(_) => {}
            }
        }
    }

    /// Whether it is in service, as far as is known: if it is away, when it was heard last.
    pub(crate) fn is_up(&self) -> bool {
        matches!(self.drive.state(), State::Online | State::ReadOnly)
    }

    /// Whether it is in service and not away.
    pub(crate) fn is_here(&self) -> bool {
        self.is_up() && !self.is_away()
    }
}

/// Bytes that a drive was asked for: see [`Member::asked_for`].
pub(crate) struct Asked {
    of: Arc<Member>,
    bytes: u64,
}

impl Drop for Asked {
    fn drop(&mut self) {
        self.of.reading.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// One group with the drives in its slots.
pub(crate) struct View {
    pub(crate) group: GroupId,
    /// The epoch of the group.
    pub(crate) epoch: u32,
    /// The epoch of the layout that the view belongs to.
    pub(crate) layout: u32,
    pub(crate) quorum: Quorum,
    pub(crate) k: u8,
    pub(crate) m: u8,
    pub(crate) slots: SmallVec<[Option<Arc<Member>>; 16]>,
    /// The slots whose drives are in this process.
    pub(crate) here: SlotSet,
    /// The slots whose drives are of other nodes, by node.
    pub(crate) there: SmallVec<[SlotSet; 8]>,
}

impl View {
    fn new(layout: &Layout, group: &crate::layout::Group, members: &HashMap<DriveId, Arc<Member>>) -> View {
        let slots: SmallVec<[Option<Arc<Member>>; 16]> =
            group.slots.iter().map(|d| members.get(d).cloned()).collect();
        let mut here = SlotSet::EMPTY;
        let mut there: SmallVec<[(usize, SlotSet); 8]> = SmallVec::new();
        for (slot, member) in (0..).zip(&slots) {
            let Some(member) = member else { continue };
            match member.drive.node() {
                None => {
                    here.insert(slot);
                }
                Some(node) => match there.iter_mut().find(|(of, _)| *of == node) {
                    Some((_, slots)) => {
                        slots.insert(slot);
                    }
                    None => there.push((node, [slot].into_iter().collect())),
                },
            }
        }
        View {
            group: group.id,
            epoch: group.epoch,
            layout: layout.epoch,
            quorum: Quorum::new(layout.code.n()),
            k: layout.code.k,
            m: layout.code.m,
            slots,
            here,
            there: there.into_iter().map(|(_, slots)| slots).collect(),
        }
    }

    pub(crate) fn n(&self) -> u8 {
        self.quorum.n
    }

    pub(crate) fn member(&self, slot: u8) -> Option<&Arc<Member>> {
        self.slots.get(usize::from(slot)).and_then(Option::as_ref)
    }

    /// Tells the drives of these slots that a ballot is chosen.
    pub(crate) fn hint(&self, key: &RegisterKey, ballot: Ballot, slots: SlotSet) {
        for (_, m) in self.members().filter(|(slot, _)| self.here.and(slots).contains(*slot)) {
            m.drive.hint(key, ballot, self.epoch);
        }
        for there in &self.there {
            let told = self.members().filter(|(slot, _)| there.and(slots).contains(*slot));
            let drives: SmallVec<[DriveId; 16]> = told.clone().map(|(_, m)| m.id).collect();
            if let Some((_, first)) = told.clone().next() {
                first.drive.hint_many(&drives, key, ballot, self.epoch);
            }
        }
    }

    /// The slots with a drive, and the drives.
    pub(crate) fn members(&self) -> impl Iterator<Item = (u8, &Arc<Member>)> + Clone {
        self.slots.iter().enumerate().filter_map(|(s, m)| Some((s as u8, m.as_ref()?)))
    }

    /// The slots that have another drive than in an earlier view of the group.
    pub(crate) fn moved_since(&self, earlier: &View) -> SlotSet {
        let drive = |view: &View, slot| view.member(slot).map(|m| m.id);
        self.quorum.all().iter().filter(|slot| drive(self, *slot) != drive(earlier, *slot)).collect()
    }

    /// How many of `slots` have a drive that is in service and answers, as far as is known.
    pub(crate) fn in_service(&self, slots: SlotSet) -> u32 {
        slots.iter().filter_map(|slot| self.member(slot)).filter(|m| m.is_here() && !m.is_hung()).count()
            as u32
    }

    /// Those of `slots` whose drive hangs or is away.
    pub(crate) fn hung(&self, slots: SlotSet) -> SlotSet {
        self.members().filter(|(s, m)| slots.contains(*s) && m.is_hung()).map(|(s, _)| s).collect()
    }

    /// The members, ordered so that those that are likely to answer soon come first.
    pub(crate) fn prompt_first(&self) -> SmallVec<[(u8, &Arc<Member>); 16]> {
        let mut all: SmallVec<[_; 16]> = self.members().collect();
        all.sort_by_cached_key(|(_, m)| m.is_late());
        all
    }

    /// The slots whose drive votes in this group.
    pub(crate) fn voters(&self) -> SlotSet {
        self.which(|m| m.is_voter(self.group))
    }

    /// The slots whose drive matches.
    pub(crate) fn which(&self, fits: impl Fn(&Member) -> bool) -> SlotSet {
        self.members().filter(|(_, m)| fits(m)).map(|(s, _)| s).collect()
    }
}

/// The placement of all groups at one moment.
pub(crate) struct Table {
    pub(crate) layout: Arc<Layout>,
    pub(crate) members: HashMap<DriveId, Arc<Member>>,
    pub(crate) views: Vec<Arc<View>>,
}

impl Table {
    pub(crate) fn new(layout: Arc<Layout>, members: HashMap<DriveId, Arc<Member>>) -> Table {
        let views = layout.groups.iter().map(|g| Arc::new(View::new(&layout, g, &members))).collect();
        Table { layout, members, views }
    }

    /// Whether a drive has a slot of a group in which it does not vote. What it holds of groups in which it has no slot
    /// does not count.
    pub(crate) fn joins(&self, drive: DriveId) -> bool {
        let lacks = |v: &Arc<View>| v.members().any(|(_, m)| m.id == drive && !m.is_voter(v.group));
        self.views.iter().any(lacks)
    }

    pub(crate) fn view(&self, group: GroupId) -> Result<&Arc<View>> {
        self.layout
            .index(group)
            .and_then(|i| self.views.get(i))
            .ok_or(Error::Invalid("no such placement group"))
    }
}
