//! All groups of a process: how they come into service, leave it, and are found by name.
//!
//! Invariants: names of groups are unique in a process; management calls are executed one after another.
//!
//! Must not depend on: how it is asked.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock, Weak};

use ashlar_environment::thread::JoinHandle;
use ashlar_nbd::{Export, Exports};
use ashlar_nvme_tcp::{HostKeys, Hosts, TlsMode};
use ashlar_raid::{Group, Grow, Id};
use parking_lot::{Mutex, MutexGuard, RwLock};

use crate::api::{self, Answer, Call, Marker};
use crate::error::{Error, Kind};
use crate::files::{self, Locked};
use crate::group::InService;
use crate::worker::Rebuilds;
use crate::{offline, worker};

/// A group with its worker.
struct Owned {
    group: Arc<InService>,
    worker: JoinHandle<()>,
}

/// The groups of a process.
#[derive(Default)]
pub(crate) struct Owner {
    groups: RwLock<BTreeMap<String, Owned>>,
    out_of_service: Mutex<Vec<api::OutOfService>>,
    /// Who has it may change which groups, drives and virtual drives there are. True: all are closed for good.
    turn: Mutex<bool>,
    rebuilds: Rebuilds,
    /// Itself, if groups share their hot spares.
    lends: Option<Weak<Owner>>,
    /// The hosts that may connect over NVMe/TCP. None: all may.
    hosts: Option<Hosts>,
    tls: TlsMode,
    /// What says where the virtual drive of a name is a block device of this machine.
    block_devices: OnceLock<BlockDevices>,
}

/// Where the virtual drive `GROUP/NAME` is a block device of this machine; none: it is none.
pub(crate) type BlockDevices = Box<dyn Fn(&str) -> Option<PathBuf> + Send + Sync>;

impl Owner {
    /// Without groups. `tls`: what connections over NVMe/TCP need; `shared_spares`: a group without a hot spare of its own gets one of another group.
    pub(crate) fn new(
        rebuilds: Rebuilds,
        hosts: Option<Hosts>,
        tls: TlsMode,
        shared_spares: bool,
    ) -> Arc<Owner> {
        Arc::new_cyclic(|me| {
            let lends = shared_spares.then(|| me.clone());
            Owner { rebuilds, hosts, tls, lends, ..Owner::default() }
        })
    }

    /// What connections over NVMe/TCP need.
    pub(crate) fn nvme_tls(&self) -> TlsMode {
        self.tls
    }

    /// The turn to change which drives groups have, if nobody has it and not all are closed. Background work does not wait for it: who has it may wait
    /// for the end of that work.
    pub(crate) fn try_turn(&self) -> Option<MutexGuard<'_, bool>> {
        self.turn.try_lock().filter(|closed| !**closed)
    }

    /// Virtual drives are block devices of this machine too, from now on.
    pub(crate) fn has_block_devices(&self, devices: BlockDevices) {
        let _ = self.block_devices.set(devices);
    }

    /// The kernel cannot be told that a block device became smaller: whoever uses it would write behind its end.
    fn refuse_block_device(&self, export: &str) -> Result<(), Error> {
        let Some(path) = self.block_devices.get().and_then(|of| of(export)) else { return Ok(()) };
        let path = path.display();
        Err(Error::conflict(format!(
            "{export} is the block device {path} of this machine, whose size cannot change; start the process without --ublk to shrink it"
        )))
    }

    /// The hosts that may connect over NVMe/TCP. None: all may.
    pub(crate) fn hosts(&self) -> Option<&Hosts> {
        self.hosts.as_ref()
    }

    fn guarded(&self) -> Result<&Hosts, Error> {
        self.hosts.as_ref().ok_or_else(|| {
            Error::invalid(
                "the process lets all hosts connect over NVMe/TCP; start it with --nvme-hosts FILE",
            )
        })
    }

    fn set_host(&self, nqn: &str, keys: &HostKeys) -> Result<Answer, Error> {
        let hosts = self.guarded()?;
        hosts.set(nqn, keys.clone()).map_err(|e| Error::invalid(e.to_string()))?;
        let host = hosts.list().into_iter().find(|h| h.nqn == nqn);
        Ok(Answer { host, ..Answer::default() })
    }

    fn remove_host(&self, nqn: &str) -> Result<Answer, Error> {
        match self.guarded()?.remove(nqn) {
            Ok(true) => Ok(Answer::default()),
            Ok(false) => Err(Error::not_found(format!("there is no host {nqn:?}"))),
            Err(error) => Err(Error::new(Kind::Failed, error.to_string())),
        }
    }

    /// The groups, by name.
    pub(crate) fn groups(&self) -> Vec<Arc<InService>> {
        self.groups.read().values().map(|o| o.group.clone()).collect()
    }

    /// Groups that could not be put in service.
    pub(crate) fn out_of_service(&self) -> Vec<api::OutOfService> {
        self.out_of_service.lock().clone()
    }

    fn group(&self, name: &str) -> Result<Arc<InService>, Error> {
        let found = self.groups.read().get(name).map(|o| o.group.clone());
        found.ok_or_else(|| Error::not_found(format!("there is no drive group {name:?} in service")))
    }

    /// The group and the position of a drive: `GROUP/POSITION`, or the path of its file.
    fn drive(&self, drive: &str) -> Result<(Arc<InService>, Option<usize>), Error> {
        if let Some((group, position)) = drive.rsplit_once('/')
            && position.parse::<usize>().is_ok()
            && let Ok(group) = self.group(group)
        {
            let at = group.position(position);
            return match at {
                Some(at) => Ok((group, Some(at))),
                None => {
                    Err(Error::not_found(format!("the group {:?} has no position {position}", group.name)))
                }
            };
        }
        let group = self.groups().into_iter().find(|g| g.has(drive));
        let group =
            group.ok_or_else(|| Error::not_found(format!("{drive} is no drive of a group in service")))?;
        let at = group.position(drive);
        Ok((group, at))
    }

    /// The group and the name of a virtual drive: `GROUP/NAME`, or `NAME` if only one group has it.
    fn volume(&self, volume: &str) -> Result<(Arc<InService>, String), Error> {
        if let Some((group, name)) = volume.split_once('/') {
            let group = self.group(group)?;
            return Ok((group, name.to_owned()));
        }
        let mut having = self.groups().into_iter().filter(|g| g.exported(volume).is_some());
        match (having.next(), having.next()) {
            (Some(group), None) => Ok((group, volume.to_owned())),
            (Some(a), Some(b)) => Err(Error::conflict(format!(
                "{:?} and {:?} have a virtual drive {volume:?}; name it GROUP/{volume}",
                a.name, b.name
            ))),
            _ => Err(Error::not_found(format!("there is no virtual drive {volume:?}"))),
        }
    }

    /// Executes a call.
    pub(crate) fn perform(&self, call: &Call) -> Result<Answer, Error> {
        let closed = self.turn.lock();
        if *closed {
            return Err(Error::new(Kind::Unavailable, "the process ends"));
        }
        let of = |group: &InService| Ok(Answer { groups: vec![group.describe()], ..Answer::default() });
        let of_volume = |group: &InService, name: &str| {
            let described = group.describe();
            let volume = described.volumes.iter().find(|v| v.name == name).cloned();
            Ok(Answer { groups: vec![described], volume, ..Answer::default() })
        };
        match call {
            Call::CreateGroup(new) => self.create_group(new),
            Call::ImportGroups { drives, without_missing } => {
                let (done, failed) = self.open(drives, *without_missing)?;
                match failed.into_iter().next() {
                    Some((_, _, error)) if done.is_empty() => Err(error),
                    Some((_, _, error)) => {
                        let names: Vec<&str> = done.iter().map(|g| g.name.as_str()).collect();
                        let message = format!("{error}; {} in service", names.join(", "));
                        Err(Error { message, ..error })
                    }
                    None => Ok(Answer {
                        groups: done.iter().map(|g| g.describe()).collect(),
                        ..Answer::default()
                    }),
                }
            }
            Call::StopGroup { group } => self.stop_group(group, |g| g.close()),
            Call::DeleteGroup { group, force } => {
                let volumes = self.group(group)?.volumes();
                if !volumes.is_empty() && !force {
                    return Err(Error::conflict(format!(
                        "the group {group:?} has the virtual drives {}; delete them first, or force it",
                        volumes.join(", ")
                    )));
                }
                self.stop_group(group, |g| g.delete())
            }
            Call::CreateVolume(new) => {
                let group = self.group(&new.group)?;
                let name = group.create_volume(new)?;
                of_volume(&group, &name)
            }
            Call::LimitVolume { volume, iops, bandwidth } => {
                let (group, name) = self.volume(volume)?;
                group.limit_volume(&name, *iops, *bandwidth)?;
                of_volume(&group, &name)
            }
            Call::GrowVolume { volume, size } => {
                let (group, name) = self.volume(volume)?;
                group.grow_volume(&name, *size)?;
                of_volume(&group, &name)
            }
            Call::ShrinkVolume { volume, size, force } => {
                let (group, name) = self.volume(volume)?;
                if !force {
                    return Err(Error::conflict(format!(
                        "what {}/{name} has behind {size} bytes would be lost; force it",
                        group.name
                    )));
                }
                self.refuse_block_device(&format!("{}/{name}", group.name))?;
                group.shrink_volume(&name, *size)?;
                of_volume(&group, &name)
            }
            Call::ClearReservation { volume } => {
                let (group, name) = self.volume(volume)?;
                group.clear_reservation(&name)?;
                of_volume(&group, &name)
            }
            Call::DeleteVolume { volume } => {
                let (group, name) = self.volume(volume)?;
                group.delete_volume(&name)?;
                of(&group)
            }
            Call::Mark { drive, marker, group, force } => {
                let group = self.mark(drive, *marker, group.as_deref(), *force)?;
                of(&group)
            }
            Call::DeleteDrive { drive } => {
                let (group, at) = self.drive(drive)?;
                if at.is_some() {
                    return Err(Error::conflict(format!(
                        "{drive} is no hot spare; use replace, or delete the group"
                    )));
                }
                group.remove_spare(drive)?;
                of(&group)
            }
            Call::Replace { old, new, force, shared_domains } => {
                let (group, at) = self.drive(old)?;
                let Some(at) = at else {
                    return Err(Error::conflict(format!("{old} is a hot spare; delete it instead")));
                };
                group.replace(at, files::lock(new)?, *force, *shared_domains)?;
                of(&group)
            }
            Call::GrowGroup { group, level, drives, force, shared_domains } => {
                let group = self.group(group)?;
                let level = level.as_deref().map(str::parse).transpose()?;
                let grow = Grow { level, force: *force, shared_domains: *shared_domains };
                group.grow(&grow, drives)?;
                of(&group)
            }
            Call::StartCheck { group, mode } => {
                let group = self.group(group)?;
                group.start_check(*mode)?;
                of(&group)
            }
            Call::StopCheck { group } => {
                let group = self.group(group)?;
                group.stop_check()?;
                of(&group)
            }
            Call::SetSpeed { group, speed } => {
                let group = self.group(group)?;
                group.set_speed(*speed)?;
                of(&group)
            }
            Call::SetCheckInterval { group, seconds } => {
                let group = self.group(group)?;
                group.set_check_interval(*seconds)?;
                of(&group)
            }
            Call::SetHost { nqn, keys } => self.set_host(nqn, keys),
            Call::RemoveHost { nqn } => self.remove_host(nqn),
        }
    }

    fn create_group(&self, new: &api::NewGroup) -> Result<Answer, Error> {
        let taken = |name: &str| self.groups.read().contains_key(name);
        let free = (0..).map(|i| format!("dg{i}")).find(|n| !taken(n)).unwrap_or_default();
        let name = new.name.clone().unwrap_or(free);
        if taken(&name) {
            return Err(Error::conflict(format!("there is a drive group {name:?} already")));
        }
        let (group, locks) = offline::make(new, &name)?;
        let group = self.put_in_service(InService::made(group, locks))?;
        Ok(Answer { groups: vec![group.describe()], ..Answer::default() })
    }

    fn put_in_service(&self, group: Arc<InService>) -> Result<Arc<InService>, Error> {
        let worker = worker::start(group.clone(), self.rebuilds.clone(), self.lends.clone())
            .map_err(|e| Error::io("start a thread", &e))?;
        self.groups.write().insert(group.name.clone(), Owned { group: group.clone(), worker });
        Ok(group)
    }

    fn mark(
        &self,
        drive: &str,
        marker: Marker,
        group: Option<&str>,
        force: bool,
    ) -> Result<Arc<InService>, Error> {
        if marker == Marker::Hotspare {
            if let Ok((group, _)) = self.drive(drive) {
                return Err(Error::conflict(format!(
                    "{drive} is a drive of the group {:?} already",
                    group.name
                )));
            }
            let mut all = self.groups();
            let group = match (group, all.len()) {
                (Some(name), _) => self.group(name)?,
                (None, 1) => all.remove(0),
                (None, _) => {
                    return Err(Error::invalid("name the group of the hot spare: there is not only one"));
                }
            };
            group.add_spare(files::lock(Path::new(drive))?, force)?;
            return Ok(group);
        }
        let (group, at) = self.drive(drive)?;
        let Some(at) = at else { return Err(Error::conflict(format!("{drive} is a hot spare"))) };
        match marker {
            Marker::Offline => group.take_offline(at)?,
            _ => group.bring_online(at)?,
        }
        Ok(group)
    }

    fn stop_group(
        &self,
        name: &str,
        end: impl FnOnce(&InService) -> Result<(), Error>,
    ) -> Result<Answer, Error> {
        let described = self.group(name)?.describe();
        let Some(owned) = self.groups.write().remove(name) else {
            return Err(Error::not_found(format!("there is no drive group {name:?} in service")));
        };
        let result = end_of(owned, end);
        result.map(|()| Answer { groups: vec![described], ..Answer::default() })
    }

    /// Opens the groups that files belong to; those that could not be opened, with their drives and the reason.
    #[allow(clippy::type_complexity)] // used here only
    pub(crate) fn open(
        &self,
        paths: &[PathBuf],
        without_missing: bool,
    ) -> Result<(Vec<Arc<InService>>, Vec<(String, Vec<PathBuf>, Error)>), Error> {
        let mut by_group: BTreeMap<Id, (String, u64, Vec<PathBuf>)> = BTreeMap::new();
        let (mut done, mut failed) = (Vec::new(), Vec::new());
        for found in offline::look(paths, false)? {
            match found.said {
                Ok((superblock, _)) => {
                    let entry = by_group.entry(superblock.group).or_default();
                    if entry.0.is_empty() || entry.1 < superblock.generation {
                        (entry.0, entry.1) = (superblock.name.clone(), superblock.generation);
                    }
                    entry.2.push(found.path);
                }
                Err(error) => failed.push((found.path.display().to_string(), vec![found.path], error)),
            }
        }
        for (name, _, paths) in by_group.into_values() {
            match self.open_one(&name, &paths, without_missing) {
                Ok(group) => done.push(group),
                Err(error) => failed.push((name, paths, error)),
            }
        }
        Ok((done, failed))
    }

    fn open_one(
        &self,
        name: &str,
        paths: &[PathBuf],
        without_missing: bool,
    ) -> Result<Arc<InService>, Error> {
        if self.groups.read().contains_key(name) {
            return Err(Error::conflict(format!("there is a drive group {name:?} in service already")));
        }
        let mut locked: BTreeMap<Id, Locked> = BTreeMap::new();
        let mut newest: Option<ashlar_raid::Superblock> = None;
        for path in paths {
            let lock = files::lock(path)?;
            // Again, now that nobody else writes it.
            let (superblock, id) = files::examine_locked(&lock)?;
            if let Some(other) = locked.get(&id) {
                let (a, b) = (lock.path.display(), other.path.display());
                return Err(Error::conflict(format!("{a} is a copy of {b}")));
            }
            if newest.as_ref().is_none_or(|n| n.generation < superblock.generation) {
                newest = Some(superblock);
            }
            locked.insert(id, lock);
        }
        if let Some(newest) = newest {
            let known = |id: &Id| newest.slots.iter().any(|s| s.device == *id) || newest.spares.contains(id);
            locked.retain(|id, lock| {
                if !known(id) {
                    let path = lock.path.display();
                    tracing::warn!(group = name, %path, "a drive is left out: the group has replaced it");
                }
                known(id)
            });
        }
        let devices = locked.values().map(files::open).collect::<Result<_, _>>()?;
        let group = Group::open(devices, without_missing)?;
        let counters = group.counters();
        tracing::info!(
            group = name,
            replayed = counters.replayed,
            resynced = counters.resynced,
            "a group is in service"
        );
        let group = self.put_in_service(InService::new(group, locked))?;
        self.out_of_service.lock().retain(|o| o.name != name);
        Ok(group)
    }

    /// Remembers a group that could not be opened.
    pub(crate) fn leave_out(&self, name: String, paths: &[PathBuf], why: String) {
        let paths = paths.iter().map(|p| p.display().to_string()).collect();
        self.out_of_service.lock().push(api::OutOfService { name, paths, why });
    }

    /// Nobody waits any more for the limits of virtual drives.
    pub(crate) fn end_waits(&self) {
        self.groups().iter().for_each(|group| group.end_waits());
    }

    /// Takes all groups out of service; the errors of those that could not be closed.
    pub(crate) fn close(&self) -> Vec<Error> {
        *self.turn.lock() = true;
        let all = std::mem::take(&mut *self.groups.write());
        all.into_values().filter_map(|owned| end_of(owned, |g| g.close()).err()).collect()
    }
}

fn end_of(owned: Owned, end: impl FnOnce(&InService) -> Result<(), Error>) -> Result<(), Error> {
    owned.group.inner.lock().stop = true;
    owned.group.wake.notify_all();
    // A worker that panicked has ended too.
    let _ = owned.worker.join();
    end(&owned.group)
}

impl Exports for Owner {
    fn list(&self) -> Vec<(String, String)> {
        let of = |group: Arc<InService>| {
            let name = group.name.clone();
            group
                .volumes()
                .into_iter()
                .map(move |v| (format!("{name}/{v}"), format!("virtual drive {v} of {name}")))
        };
        self.groups().into_iter().flat_map(of).collect()
    }

    fn open(&self, name: &str) -> Option<Export> {
        let (group, volume) = if name.is_empty() {
            let mut all = self.list();
            let only = if all.len() == 1 { all.pop()?.0 } else { return None };
            self.volume(&only).ok()?
        } else {
            self.volume(name).ok()?
        };
        let device = group.exported(&volume)?;
        let name = format!("{}/{volume}", group.name);
        Some(Export { description: format!("virtual drive {volume} of {}", group.name), name, device })
    }
}
