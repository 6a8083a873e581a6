//! Groups that no process has open: what is on drives, and new groups.
//!
//! Invariant: nothing here writes, except [`create`].
//!
//! Must not depend on: groups in service.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use ashlar_raid::{BLOCK, Device, Group, Growth, Id, MemberState, Plan, Policy, Superblock, Volume};

use crate::api;
use crate::error::Error;
use crate::files::{self, Locked};
use crate::identity;

/// A file, and what it says.
pub struct Found {
    /// The file.
    pub path: PathBuf,
    pub(crate) said: Result<(Superblock, Id), Error>,
}

/// What files, and files in folders, say about their groups.
///
/// # Errors
/// If a path does not exist.
pub fn find(paths: &[PathBuf]) -> Result<Vec<Found>, Error> {
    look(paths, true)
}

/// As [`find`]; unless `strict`, a path that does not exist is one of the files.
pub(crate) fn look(paths: &[PathBuf], strict: bool) -> Result<Vec<Found>, Error> {
    let files = files::expand(paths, strict)?;
    Ok(files.into_iter().map(|path| Found { said: files::examine(&path), path }).collect())
}

/// The groups that files belong to, as their newest superblocks say, and the drives that belong to none.
#[must_use]
pub fn describe(found: &[Found]) -> (Vec<api::Group>, Vec<api::Drive>) {
    let mut groups: BTreeMap<Id, (&Superblock, BTreeMap<Id, PathBuf>)> = BTreeMap::new();
    let mut strangers = Vec::new();
    for Found { path, said } in found {
        match said {
            Ok((superblock, id)) => {
                let entry = groups.entry(superblock.group).or_insert_with(|| (superblock, BTreeMap::new()));
                if superblock.generation > entry.0.generation {
                    entry.0 = superblock;
                }
                entry.1.insert(*id, path.clone());
            }
            Err(error) => strangers.push(api::Drive {
                path: Some(path.display().to_string()),
                why: Some(error.message.clone()),
                ..api::Drive::default()
            }),
        }
    }
    let mut out = Vec::new();
    for (superblock, paths) in groups.into_values() {
        let mut group = shape(superblock);
        group.state = "INACTIVE".into();
        group.drives = drives(superblock, &paths);
        group.spares = spares(superblock, &paths);
        let known =
            |id: &Id| superblock.slots.iter().any(|s| s.device == *id) || superblock.spares.contains(id);
        strangers.extend(paths.iter().filter(|(id, _)| !known(id)).map(|(id, path)| api::Drive {
            path: Some(path.display().to_string()),
            id: hex::encode(id),
            why: Some(format!("was in the group {:?} and was replaced", superblock.name)),
            ..api::Drive::default()
        }));
        out.push(group);
    }
    (out, strangers)
}

/// What a superblock says about its group, without drives.
pub(crate) fn shape(superblock: &Superblock) -> api::Group {
    let g = &superblock.geometry;
    let size = g.blocks() * BLOCK as u64;
    let extent = |v: &Volume| v.thin.map_or(v.blocks, |map| map.blocks.into()) * BLOCK as u64;
    let used: u64 = superblock.volumes.iter().map(extent).sum();
    let mut volumes: Vec<api::Volume> = superblock
        .volumes
        .iter()
        .map(|v| api::Volume {
            group: superblock.name.clone(),
            name: v.name.clone(),
            export: format!("{}/{}", superblock.name, v.name),
            nsid: identity::number(v),
            uuid: identity::uuid(&identity::identity(&superblock.group, &v.name)),
            size: v.blocks * BLOCK as u64,
            start: v.start * BLOCK as u64,
            thin: v.thin.is_some(),
            iops_limit: v.limits.iops.into(),
            bandwidth_limit: v.limits.bandwidth,
            ..api::Volume::default()
        })
        .collect();
    volumes.sort_by_key(|v| v.start);
    api::Group {
        name: superblock.name.clone(),
        id: hex::encode(superblock.group),
        nqn: identity::nqn(&superblock.group),
        level: g.level.to_string(),
        data: g.k as u64,
        parity: g.m as u64,
        sets: u64::from(g.sets),
        distributed_spares: g.spares as u64,
        distributed_spares_used: superblock.slots.iter().filter(|s| s.spare.is_some()).count() as u64,
        strip: g.strip_blocks * BLOCK as u64,
        policy: superblock.policy.to_string(),
        policy_note: note(superblock).into(),
        size,
        free: size - used,
        volumes,
        growth: superblock.growth.as_ref().map(growth),
        ..api::Group::default()
    }
}

fn growth(growth: &Growth) -> api::Growth {
    let g = &growth.to;
    api::Growth {
        level: g.level.to_string(),
        data: g.k as u64,
        parity: g.m as u64,
        sets: u64::from(g.sets),
        size: g.blocks() * BLOCK as u64,
        progress: api::Task { done: growth.moved, rows: g.rows(), ..api::Task::default() },
    }
}

/// What a policy promises and costs: docs/array.md.
fn note(superblock: &Superblock) -> &'static str {
    match superblock.policy {
        Policy::Journal if superblock.intents => {
            "every answer is durable, in every state; whole rows are written once, other changed blocks twice"
        }
        Policy::Journal => "every answer is durable, in every state; changed blocks are written twice",
        Policy::Bitmap => "what was flushed stays; a degraded group is not protected from a loss of power",
        Policy::None => "as bitmap, and after an unclean stop all parity is made anew",
    }
}

fn path_of(paths: &BTreeMap<Id, PathBuf>, id: &Id) -> Option<String> {
    paths.get(id).map(|p| p.display().to_string())
}

/// The drives of a superblock.
pub(crate) fn drives(superblock: &Superblock, paths: &BTreeMap<Id, PathBuf>) -> Vec<api::Drive> {
    let slots = superblock.slots.iter().enumerate();
    slots
        .map(|(slot, s)| {
            let path = path_of(paths, &s.device);
            let state = match s.state {
                _ if path.is_none() => "MISSING",
                MemberState::Online => "ONLINE",
                MemberState::Failed if superblock.settings.offline.contains(&(slot as u16)) => "OFFLINE",
                MemberState::Failed => "FAILED",
                MemberState::Rebuild { .. } => "REBUILD",
            };
            api::Drive {
                group: superblock.name.clone(),
                position: Some(slot as u64),
                state: state.into(),
                path,
                distributed_spare: s.spare.map(|s| s.index.into()),
                id: hex::encode(s.device),
                ..api::Drive::default()
            }
        })
        .collect()
}

/// The hot spares of a superblock.
pub(crate) fn spares(superblock: &Superblock, paths: &BTreeMap<Id, PathBuf>) -> Vec<api::Drive> {
    let spares = superblock.spares.iter();
    spares
        .map(|id| {
            let path = path_of(paths, id);
            api::Drive {
                group: superblock.name.clone(),
                state: if path.is_some() { "HOTSPARE" } else { "MISSING" }.into(),
                path,
                id: hex::encode(id),
                ..api::Drive::default()
            }
        })
        .collect()
}

/// A name of a group: what a name of a virtual drive may be.
pub(crate) fn check_name(name: &str) -> Result<(), Error> {
    let suitable = !name.is_empty()
        && name.len() <= ashlar_raid::MAX_NAME
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b));
    if suitable {
        return Ok(());
    }
    let most = ashlar_raid::MAX_NAME;
    Err(Error::invalid(format!("{name:?} is no name: it has 1 to {most} letters, digits, '-', '_', '.'")))
}

/// A new group, open, with the locks of its drives and spares in their order.
pub(crate) fn make(new: &api::NewGroup, name: &str) -> Result<(Group, Vec<Locked>), Error> {
    check_name(name)?;
    let plan = Plan {
        name: name.to_owned(),
        level: new.level.parse()?,
        strip: new.strip,
        policy: new.policy.parse()?,
        journal: new.journal,
        force: new.force,
        shared_domains: new.shared_domains,
    };
    let lock = |path: &PathBuf| files::lock(path);
    let locks: Vec<Locked> = new.drives.iter().chain(&new.spares).map(lock).collect::<Result<_, _>>()?;
    let mut devices: Vec<Device> = locks.iter().map(files::open).collect::<Result<_, _>>()?;
    let spares = devices.split_off(new.drives.len());
    let group = Group::create(&plan, devices, spares)?;
    Ok((group, locks))
}

/// Makes a group without a process that owns it, and closes it.
///
/// # Errors
/// [`Error`]; drives may have been written if it is about the system.
pub fn create(new: &api::NewGroup) -> Result<api::Group, Error> {
    let name = new.name.clone().unwrap_or_else(|| "dg0".to_owned());
    let (mut group, locks) = make(new, &name)?;
    group.close()?;
    drop(group);
    let paths: Vec<PathBuf> = locks.iter().map(|l| l.path.clone()).collect();
    let (mut groups, _) = describe(&find(&paths)?);
    groups.pop().ok_or_else(|| Error::not_found("the group that was made is not on its drives"))
}

/// Whether a text is the address of a namespace, or a path that means something that exists.
#[must_use]
pub fn is_path(text: &str) -> bool {
    is_address(text) || text.starts_with(['/', '.']) || Path::new(text).exists()
}

/// Whether a text is meant as the address of a namespace: it means the same in every working directory.
#[must_use]
pub fn is_address(text: &str) -> bool {
    ashlar_nvme_tcp::host::is_address(text)
}

/// The path by which a drive is known, if it leads to something: links are followed; an address has its canonical form.
#[must_use]
pub fn known_path(text: &str) -> Option<String> {
    files::known_path(Path::new(text)).ok().map(|p| p.display().to_string())
}
