//! One group in service: its drives' files and devices, its exports, and what operators ask of it.
//!
//! Invariants: the lock of the group is never waited for while `inner` is held; a file that leaves the group gives up
//! its lock.
//!
//! Must not depend on: other groups, how it is asked.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use ashlar_raid::{
    Group, GroupState, Grow, Id, Joining, MemberState, NewVolume, Shared, Superblock, ThinStatus,
    VolumeLimits,
};
use parking_lot::{Condvar, Mutex};

use crate::api;
use crate::error::{Error, Kind};
use crate::export::Exported;
use crate::files::{self, Hold, Locked};
use crate::identity;
use crate::namespace;
use crate::offline;
use crate::remote;

/// What changes while a group is in service, beside the group itself.
pub(crate) struct Inner {
    /// The files of drives, also of those that failed, and their locks.
    files: BTreeMap<Id, (PathBuf, Hold)>,
    pub(crate) speed: api::Speed,
    pub(crate) rebuild: Option<api::Task>,
    /// How far a resync is; none: there is none, or no step of it was done.
    pub(crate) resync: Option<api::Task>,
    /// How far a growth is; none: the superblock says it.
    pub(crate) growth: Option<api::Task>,
    pub(crate) check: Option<api::Check>,
    /// The check is to end.
    pub(crate) stop_check: bool,
    /// The worker is to end.
    pub(crate) stop: bool,
}

/// A group in service.
pub(crate) struct InService {
    pub(crate) name: String,
    pub(crate) id: Id,
    pub(crate) shared: Arc<Shared>,
    pub(crate) inner: Mutex<Inner>,
    /// There is work, or an end.
    pub(crate) wake: Condvar,
    exports: Mutex<BTreeMap<String, Arc<Exported>>>,
    /// It has left service.
    closed: AtomicBool,
    /// Requests of clients.
    pub(crate) foreground: Arc<AtomicU64>,
}

/// What a group says at one time.
struct Snapshot {
    superblock: Superblock,
    state: GroupState,
    members: Vec<ashlar_raid::MemberStatus>,
    counters: ashlar_raid::Counters,
    thin: Vec<ThinStatus>,
    free: u64,
    coder: Arc<dyn ashlar_raid::Coder>,
}

impl InService {
    /// Takes a group over, with the locks of its files by the identities of its drives.
    pub(crate) fn new(group: Group, files: BTreeMap<Id, Locked>) -> Arc<InService> {
        let (name, id) = (group.superblock().name.clone(), group.superblock().group);
        let speed = speed_of(group.superblock().settings.rebuild_speed);
        let volumes: Vec<String> = group.superblock().volumes.iter().map(|v| v.name.clone()).collect();
        let me = Arc::new(InService {
            name,
            id,
            shared: Shared::new(group),
            inner: Mutex::new(Inner {
                files: files.into_iter().map(|(id, f)| (id, (f.path, f.lock))).collect(),
                speed,
                rebuild: None,
                resync: None,
                growth: None,
                check: None,
                stop_check: false,
                stop: false,
            }),
            wake: Condvar::new(),
            exports: Mutex::default(),
            closed: AtomicBool::new(false),
            foreground: Arc::default(),
        });
        volumes.iter().for_each(|v| me.export(v));
        me
    }

    /// A new group, whose drives and spares have the order of their locks.
    pub(crate) fn made(group: Group, locks: Vec<Locked>) -> Arc<InService> {
        let superblock = group.superblock();
        let ids = superblock.slots.iter().map(|s| s.device).chain(superblock.spares.iter().copied());
        let files = ids.collect::<Vec<Id>>().into_iter().zip(locks).collect();
        InService::new(group, files)
    }

    fn export(&self, volume: &str) {
        let (policy, known_as) = self.shared.look(|g| {
            let superblock = g.superblock();
            (superblock.policy, identity::known_as(superblock, volume))
        });
        if let Some(drive) = self.shared.volume(volume) {
            let name = format!("{}/{volume}", self.name);
            let exported = Exported::new(drive, name, known_as, policy, self.foreground.clone());
            self.exports.lock().insert(volume.to_owned(), Arc::new(exported));
        }
    }

    /// The export of a virtual drive.
    pub(crate) fn exported(&self, volume: &str) -> Option<Arc<Exported>> {
        self.exports.lock().get(volume).cloned()
    }

    /// The export of a virtual drive that an operator has named.
    fn known(&self, volume: &str) -> Result<Arc<Exported>, Error> {
        let no_such = || format!("the group {:?} has no virtual drive {volume:?}", self.name);
        self.exported(volume).ok_or_else(|| Error::not_found(no_such()))
    }

    /// All exports.
    pub(crate) fn all_exported(&self) -> Vec<Arc<Exported>> {
        self.exports.lock().values().cloned().collect()
    }

    /// The export that has this number as a namespace.
    pub(crate) fn exported_as(&self, nsid: u32) -> Option<Arc<Exported>> {
        self.exports.lock().values().find(|e| e.nsid == nsid && nsid > 0).cloned()
    }

    /// Whether it is in service.
    pub(crate) fn is_open(&self) -> bool {
        !self.closed.load(Ordering::Acquire)
    }

    /// No export is found any more.
    fn withdraw(&self) {
        self.closed.store(true, Ordering::Release);
        // Clients that are still there get errors, and need not wait for them.
        self.end_waits();
        self.exports.lock().clear();
    }

    /// Names of virtual drives.
    pub(crate) fn volumes(&self) -> Vec<String> {
        self.exports.lock().keys().cloned().collect()
    }

    fn snapshot(&self) -> Snapshot {
        self.shared.look(|g| Snapshot {
            superblock: g.superblock().clone(),
            state: g.state(),
            members: g.members(),
            counters: g.counters(),
            thin: g.thin_drives(),
            free: g.free(),
            coder: g.batching().coder.clone(),
        })
    }

    /// The document of the group.
    pub(crate) fn describe(&self) -> api::Group {
        let seen = self.snapshot();
        let inner = self.inner.lock();
        let paths = inner.files.iter().map(|(id, (path, _))| (*id, path.clone())).collect();
        let mut out = offline::shape(&seen.superblock);
        out.state = state_word(seen.state).into();
        out.free = seen.free;
        out.rebuild_speed = match inner.speed {
            api::Speed::Low => "low",
            api::Speed::Normal => "normal",
            api::Speed::High => "high",
        }
        .into();
        out.rebuild_coder = seen.coder.name();
        out.drives = offline::drives(&seen.superblock, &paths);
        for (drive, member) in out.drives.iter_mut().zip(&seen.members) {
            drive.corrected = member.corrected;
            drive.why.clone_from(&member.why);
            drive.failure_domain.clone_from(&member.domain);
        }
        out.spares = offline::spares(&seen.superblock, &paths);
        for drive in out.drives.iter_mut().chain(&mut out.spares) {
            if let Some(path) = &drive.path {
                (drive.paths, drive.health) = remote::status(path.as_ref());
            }
        }
        out.rebuild.clone_from(&inner.rebuild);
        out.resync.clone_from(&inner.resync);
        if let Some((growth, progress)) = out.growth.as_mut().zip(inner.growth.as_ref()) {
            growth.progress.clone_from(progress);
        }
        out.check.clone_from(&inner.check);
        let settings = &seen.superblock.settings;
        out.check_interval_s = settings.check_interval_s.into();
        out.next_check_ms = (settings.check_interval_s > 0)
            .then(|| settings.checked_ms as i64 + i64::from(settings.check_interval_s) * 1000);
        drop(inner);
        for volume in &mut out.volumes {
            if let Some(thin) = seen.thin.iter().find(|t| t.name == volume.name) {
                volume.allocated = Some(thin.allocated);
                volume.damage.clone_from(&thin.damage);
            }
            if let Some(exported) = self.exported(&volume.name) {
                let c = &exported.counters;
                let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
                (volume.reads, volume.bytes_read) = (of(&c.reads), of(&c.bytes_read));
                (volume.writes, volume.bytes_written) = (of(&c.writes), of(&c.bytes_written));
                volume.errors = of(&c.errors);
                volume.limit_wait_us = exported.limiter.waited_us();
                volume.reservation = namespace::describe(&exported.reservations.status());
            }
        }
        out.counters = counters(&seen.counters);
        out
    }

    /// Makes a virtual drive; its name.
    pub(crate) fn create_volume(&self, new: &api::NewVolume) -> Result<String, Error> {
        let limits = limits(new.iops_limit, new.bandwidth_limit)?;
        let made = self.shared.with(|g| {
            let taken = |n: &str| g.superblock().volumes.iter().any(|v| v.name == n);
            let free = (0..).map(|i| format!("vd{i}")).find(|n| !taken(n)).unwrap_or_default();
            let name = new.name.clone().unwrap_or(free);
            g.make_volume(&NewVolume { name, bytes: new.size, limits, thin: new.thin })
        })?;
        self.export(&made.name);
        Ok(made.name)
    }

    /// Sets what the clients of a virtual drive get at most; none: as it is. It counts at once, also for requests that wait.
    pub(crate) fn limit_volume(
        &self,
        name: &str,
        iops: Option<u32>,
        bandwidth: Option<u64>,
    ) -> Result<(), Error> {
        let exported = self.known(name)?;
        let before = self.shared.volume(name).map(|drive| drive.limits()).unwrap_or_default();
        let limits = limits(iops.unwrap_or(before.iops), bandwidth.unwrap_or(before.bandwidth))?;
        self.shared.with(|g| g.limit_volume(name, limits))?;
        self.changed(name, &exported);
        Ok(())
    }

    /// Nobody waits any more for the limits of virtual drives: the process ends.
    pub(crate) fn end_waits(&self) {
        self.all_exported().iter().for_each(|exported| exported.limiter.end());
    }

    /// What is exported is what the superblock says.
    fn changed(&self, name: &str, exported: &Exported) {
        if let Some(drive) = self.shared.volume(name) {
            exported.has_changed(drive);
        }
    }

    /// Removes the reservation of a virtual drive and the registrations of all hosts, which are told.
    pub(crate) fn clear_reservation(&self, name: &str) -> Result<(), Error> {
        if self.known(name)?.reservations.clear() {
            tracing::warn!(
                volume = format!("{}/{name}", self.name),
                "an operator has cleared the reservation"
            );
        }
        Ok(())
    }

    /// Deletes a virtual drive; its clients get errors from then on.
    pub(crate) fn delete_volume(&self, name: &str) -> Result<(), Error> {
        self.known(name)?;
        self.shared.with(|g| g.delete_volume(name))?;
        if let Some(exported) = self.exports.lock().remove(name) {
            exported.withdraw();
        }
        Ok(())
    }

    /// Makes a virtual drive larger; its clients may use the new room at once.
    pub(crate) fn grow_volume(&self, name: &str, size: Option<u64>) -> Result<(), Error> {
        let exported = self.known(name)?;
        self.shared.with(|g| g.grow_volume(name, size))?;
        self.changed(name, &exported);
        Ok(())
    }

    /// Makes a virtual drive smaller; its clients meet the new end at once.
    pub(crate) fn shrink_volume(&self, name: &str, size: u64) -> Result<(), Error> {
        let exported = self.known(name)?;
        self.shared.with(|g| g.shrink_volume(name, size))?;
        self.changed(name, &exported);
        Ok(())
    }

    /// The position of a drive, by `POSITION` or path; none: it is a spare, or not of this group.
    pub(crate) fn position(&self, drive: &str) -> Option<usize> {
        let superblock = self.shared.look(|g| g.superblock().clone());
        if let Ok(position) = drive.parse::<usize>() {
            return (position < superblock.slots.len()).then_some(position);
        }
        let id = self.id_of(drive)?;
        superblock.slots.iter().position(|s| s.device == id)
    }

    /// The identity of the drive at a path.
    fn id_of(&self, path: &str) -> Option<Id> {
        let whole = files::known_path(std::path::Path::new(path)).unwrap_or_else(|_| path.into());
        self.inner.lock().files.iter().find(|(_, (p, _))| *p == whole).map(|(id, _)| *id)
    }

    /// Whether a path is one of its drives or spares.
    pub(crate) fn has(&self, path: &str) -> bool {
        self.id_of(path).is_some()
    }

    /// Takes a drive out of service.
    pub(crate) fn take_offline(&self, position: usize) -> Result<(), Error> {
        self.shared.with(|g| g.take_offline(position))?;
        self.wake.notify_all();
        Ok(())
    }

    /// Puts a drive that is out of service back at its position; it is rebuilt from its first block on.
    pub(crate) fn bring_online(&self, position: usize) -> Result<(), Error> {
        let superblock = self.shared.look(|g| g.superblock().clone());
        let slot = superblock.slots[position];
        if slot.state != MemberState::Failed {
            return Err(Error::conflict(format!("{}/{position} is in service", self.name)));
        }
        let Some((path, hold)) = self.inner.lock().files.remove(&slot.device) else {
            return Err(Error::not_found(format!(
                "the file of {}/{position} is not known; use replace",
                self.name
            )));
        };
        let keep = |id: Id, path: PathBuf, hold: Hold| self.inner.lock().files.insert(id, (path, hold));
        let locked = match hold {
            Hold::Nothing => self.find_again(position, &slot.device, &path),
            hold if hold.is_gone() => {
                // Nobody can have it, nor another one its name, before it is given up.
                drop(hold);
                self.find_again(position, &slot.device, &path)
            }
            hold => Ok(Locked { path: path.clone(), lock: hold }),
        };
        let locked = match locked {
            Ok(locked) => locked,
            Err(error) => {
                keep(slot.device, path, Hold::Nothing);
                return Err(error);
            }
        };
        // It has the superblock of this group: that is what is overwritten.
        let done = self.put(position, &locked, true);
        let id = self.shared.look(|g| g.superblock().slots[position].device);
        keep(id, locked.path, locked.lock);
        done
    }

    /// Locks the device at a path that was a drive of this group and was gone. Another device may have its name by now.
    fn find_again(&self, position: usize, id: &Id, path: &std::path::Path) -> Result<Locked, Error> {
        let locked = files::lock(path)?;
        if self.is_drive(&locked, id) {
            return Ok(locked);
        }
        let shown = path.display();
        Err(Error::conflict(format!(
            "{shown} is not the device that was {}/{position}; name the right one to replace",
            self.name
        )))
    }

    /// Whether something locked is this drive of the group, by its superblock.
    fn is_drive(&self, locked: &Locked, id: &Id) -> bool {
        files::examine_locked(locked).is_ok_and(|(found, its)| found.group == self.id && its == *id)
    }

    /// Block devices of drives that are out of service are given up when they are gone: only then the kernel forgets them, and they can come
    /// back under their names.
    pub(crate) fn let_go_of_gone(&self) {
        let superblock = self.shared.look(|g| g.superblock().clone());
        let mut inner = self.inner.lock();
        for slot in superblock.slots.iter().filter(|s| s.state == MemberState::Failed) {
            if let Some((_, hold)) = inner.files.get_mut(&slot.device)
                && hold.is_gone()
            {
                *hold = Hold::Nothing;
            }
        }
    }

    /// Puts what is locked in the place of a drive that is out of service.
    fn put(&self, position: usize, new: &Locked, force: bool) -> Result<(), Error> {
        let device = files::open(new)?;
        self.shared.with(|g| g.replace(position, device, force))?;
        self.wake.notify_all();
        Ok(())
    }

    /// Replaces a drive, which is taken out of service before if it is not already.
    pub(crate) fn replace(
        &self,
        position: usize,
        new: Locked,
        force: bool,
        shared_domains: bool,
    ) -> Result<(), Error> {
        let device = files::open(&new)?;
        // The drive itself, under another name: nothing else is overwritten.
        let known = self.shared.look(|g| g.superblock().slots[position]);
        let force = force || known.state == MemberState::Failed && self.is_drive(&new, &known.device);
        let slot = self.shared.with(|g| -> Result<_, Error> {
            // Before anything changes.
            g.suits(&device, force)?;
            if !shared_domains {
                g.apart(position, &device)?;
            }
            let slot = g.superblock().slots[position];
            if slot.state != MemberState::Failed {
                g.take_out(position)?;
            }
            Ok(slot)
        })?;
        drop(device);
        self.put(position, &new, force)?;
        let id = self.shared.look(|g| g.superblock().slots[position].device);
        let mut inner = self.inner.lock();
        inner.files.remove(&slot.device);
        inner.files.insert(id, (new.path, new.lock));
        Ok(())
    }

    /// Adds a hot spare.
    pub(crate) fn add_spare(&self, new: Locked, force: bool) -> Result<(), Error> {
        let device = files::open(&new)?;
        let id = self.shared.with(|g| {
            g.add_spare(device, force)?;
            Ok::<_, ashlar_raid::Error>(g.superblock().spares.last().copied())
        })?;
        let mut inner = self.inner.lock();
        inner.files.extend(id.map(|id| (id, (new.path, new.lock))));
        drop(inner);
        self.wake.notify_all();
        Ok(())
    }

    /// Adds drives, which may be hot spares of the group, and begins to change its shape.
    pub(crate) fn grow(&self, grow: &Grow, drives: &[PathBuf]) -> Result<(), Error> {
        let (mut joining, mut locked) = (Vec::new(), Vec::new());
        for drive in drives {
            let whole = files::known_path(drive).unwrap_or_else(|_| drive.clone()).display().to_string();
            let is_spare = self.shared.look(|g| g.spares().contains(&whole));
            if is_spare {
                joining.push(Joining::Spare(whole));
                continue;
            }
            let new = files::lock(drive)?;
            joining.push(Joining::Device(files::open(&new)?));
            locked.push(new);
        }
        let (done, known) = self.shared.with(|g| {
            let done = g.grow(grow, joining);
            // Also if it failed, a drive may have become a hot spare, or a member.
            let devices = g.members().into_iter().map(|m| m.device);
            let names = devices.chain(g.spares().into_iter().map(Some));
            let superblock = g.superblock();
            let ids = superblock.slots.iter().map(|s| s.device).chain(superblock.spares.iter().copied());
            (done, names.zip(ids).filter_map(|(name, id)| Some((name?, id))).collect::<BTreeMap<_, _>>())
        });
        let mut inner = self.inner.lock();
        for new in locked {
            let id = known.get(&new.path.display().to_string());
            inner.files.extend(id.map(|id| (*id, (new.path, new.lock))));
        }
        drop(inner);
        self.wake.notify_all();
        Ok(done?)
    }

    /// Removes a hot spare, which is no part of any group then.
    pub(crate) fn remove_spare(&self, path: &str) -> Result<(), Error> {
        self.give_up_spare(path).map(drop)
    }

    /// Removes a hot spare and leaves it locked.
    pub(crate) fn give_up_spare(&self, path: &str) -> Result<Locked, Error> {
        let known = self.id_of(path).and_then(|id| Some((id, self.inner.lock().files.get(&id)?.0.clone())));
        let Some((id, whole)) = known else {
            return Err(Error::not_found(format!("{path} is no drive of the group {:?}", self.name)));
        };
        self.shared.with(|g| g.remove_spare(&whole.display().to_string()))?;
        let lock = self.inner.lock().files.remove(&id).map_or(Hold::Nothing, |(_, lock)| lock);
        Ok(Locked { path: whole, lock })
    }

    /// Sets how fast it is rebuilt and checked, also after a restart.
    pub(crate) fn set_speed(&self, speed: api::Speed) -> Result<(), Error> {
        self.shared.with(|g| g.configure(|s| s.rebuild_speed = number_of(speed)))?;
        self.inner.lock().speed = speed;
        self.wake.notify_all();
        Ok(())
    }

    /// Sets the seconds between two checks; 0: none is started by itself. The first one is due a whole interval from now.
    pub(crate) fn set_check_interval(&self, seconds: u32) -> Result<(), Error> {
        self.shared.with(|g| {
            g.configure(|s| (s.check_interval_s, s.checked_ms) = (seconds, now_ms()))?;
            Ok::<_, Error>(())
        })?;
        self.wake.notify_all();
        Ok(())
    }

    /// Whether a check is due by its interval. A clock that was set far back does not put it off for ever.
    pub(crate) fn check_is_due(&self) -> bool {
        self.shared.with(|g| {
            let settings = &g.superblock().settings;
            let interval = u64::from(settings.check_interval_s) * 1000;
            interval > 0
                && g.state() != GroupState::Failed
                && now_ms().abs_diff(settings.checked_ms) >= interval
        })
    }

    /// Starts a check.
    pub(crate) fn start_check(&self, mode: api::CheckMode) -> Result<(), Error> {
        let rows = self.shared.with(|g| {
            let scheduled = g.superblock().settings.check_interval_s > 0;
            if scheduled && self.inner.lock().check.as_ref().is_none_or(|c| c.state != "RUNNING") {
                g.configure(|s| s.checked_ms = now_ms())?;
            }
            Ok::<_, Error>(g.geometry().rows())
        })?;
        let mut inner = self.inner.lock();
        if inner.check.as_ref().is_some_and(|c| c.state == "RUNNING") {
            return Err(Error::conflict(format!("a consistency check of {:?} is running", self.name)));
        }
        inner.check = Some(api::Check {
            state: "RUNNING".into(),
            mode: match mode {
                api::CheckMode::AutoFix => "auto_fix",
                api::CheckMode::StopOnError => "stop_on_error",
            }
            .into(),
            began_ms: ashlar_environment::time::wall_ms(),
            progress: api::Task { rows, ..api::Task::default() },
            ..api::Check::default()
        });
        inner.stop_check = false;
        drop(inner);
        self.wake.notify_all();
        Ok(())
    }

    /// Stops the check.
    pub(crate) fn stop_check(&self) -> Result<(), Error> {
        let mut inner = self.inner.lock();
        if inner.check.as_ref().is_none_or(|c| c.state != "RUNNING") {
            return Err(Error::conflict(format!("no consistency check of {:?} is running", self.name)));
        }
        inner.stop_check = true;
        drop(inner);
        self.wake.notify_all();
        Ok(())
    }

    /// Deletes the group: no drive belongs to it any more.
    pub(crate) fn delete(&self) -> Result<(), Error> {
        self.withdraw();
        Ok(self.shared.with(Group::delete)?)
    }

    /// Makes everything durable, and lets go of the drives: clients that are still there get errors.
    pub(crate) fn close(&self) -> Result<(), Error> {
        self.withdraw();
        let done = self.shared.with(|g| {
            let done = g.close();
            g.stop();
            done
        });
        done.map_err(|e| {
            Error::new(
                Kind::Failed,
                format!("the group {:?} is out of service, but was not closed: {e}", self.name),
            )
        })
    }

    /// A hot spare has taken a position: gives up the file of the drive that was there.
    pub(crate) fn release(&self) {
        let superblock = self.shared.look(|g| g.superblock().clone());
        let known =
            |id: &Id| superblock.slots.iter().any(|s| s.device == *id) || superblock.spares.contains(id);
        let mut inner = self.inner.lock();
        inner.files.retain(|id, _| known(id));
    }
}

/// The least limits of a virtual drive: below them hosts that wait for their requests would take it for broken.
const LEAST_IOPS: u32 = 10;
const LEAST_BANDWIDTH: u64 = 1 << 20;

fn limits(iops: u32, bandwidth: u64) -> Result<VolumeLimits, Error> {
    if (1..LEAST_IOPS).contains(&iops) || (1..LEAST_BANDWIDTH).contains(&bandwidth) {
        return Err(Error::invalid(format!(
            "the least limits of a virtual drive are {LEAST_IOPS} requests and {LEAST_BANDWIDTH} bytes per second"
        )));
    }
    Ok(VolumeLimits { iops, bandwidth })
}

fn now_ms() -> u64 {
    u64::try_from(ashlar_environment::time::wall_ms()).unwrap_or(0)
}

/// A speed as superblocks have it.
fn number_of(speed: api::Speed) -> u8 {
    match speed {
        api::Speed::Normal => 0,
        api::Speed::Low => 1,
        api::Speed::High => 2,
    }
}

/// Its inverse; a speed of a later release is the normal one.
fn speed_of(number: u8) -> api::Speed {
    let all = [api::Speed::Low, api::Speed::High];
    all.into_iter().find(|s| number_of(*s) == number).unwrap_or_default()
}

/// The state of a group in the words of operators.
fn state_word(state: GroupState) -> &'static str {
    match state {
        GroupState::Optimal => "OPTIMAL",
        GroupState::Degraded => "DEGRADED",
        GroupState::PartiallyDegraded => "PARTIALLY_DEGRADED",
        GroupState::Recovery => "RECOVERY",
        GroupState::Resync => "RESYNC",
        GroupState::Failed => "FAILED",
    }
}

fn counters(c: &ashlar_raid::Counters) -> api::Counters {
    api::Counters {
        corrected: c.corrected,
        pages_lost: c.pages_lost,
        replayed: c.replayed,
        dropped: c.dropped,
        resynced: c.resynced,
        unprotected: c.unprotected,
        blocks_read: c.blocks_read,
        blocks_written: c.blocks_written,
    }
}
