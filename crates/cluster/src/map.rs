//! The map: the drives of a deployment, their groups, and the epochs.
//!
//! Invariants: every slot of every group names a drive of the map; a group never names a drive twice; a
//! change of a slot is a new epoch of its group; a dead drive never becomes anything else; a drive that left a
//! group has no slot of it until it has let go. The map is stored
//! in the control store as JSON that people can read, split into values that are changed together:
//!
//! | key | value |
//! |---|---|
//! | `map` | format, epoch, deployment, pools |
//! | `map/drive/ID` | one drive |
//! | `map/groups/POOL/N` | groups N * 64 and following of a pool, at most 64; slots name drives by their number |
//!
//! Must not depend on: devices; how the control store is replicated.

use std::collections::{BTreeMap, HashMap};

use ashlar_format::{DeploymentId, DriveId, GroupId};
use bytes::Bytes;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::control::Control;
use crate::domains::{self, Accept};
use crate::layout::{CodeSpec, Plan, plan};
use crate::spread::{Placed, spread};
use crate::update::Update;
use crate::{Error, Result};

/// Format number of the JSON.
const FORMAT: u32 = 3;
/// Groups in one value.
const GROUPS_PER_VALUE: usize = 64;

/// The state of a drive. Whether it votes is recorded per group: [`Slot::joining`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DriveState {
    /// In service.
    Active,
    /// Lost for good: it has no vote even if it returns.
    Dead,
}

/// One drive of the map.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Drive {
    /// Its identity, as on its label.
    #[serde(serialize_with = "drive_to_hex", deserialize_with = "drive_from_hex")]
    pub id: DriveId,
    /// Its number in the values that contain groups; never used for another drive.
    pub number: u32,
    /// Where it was last seen. Only a hint: the label identifies the drive.
    pub path: String,
    /// Its state.
    pub state: DriveState,
    /// Capacity in bytes, for placement.
    pub weight: u64,
    /// Epoch of the map in which the drive was added.
    pub since: u32,
    /// Failure domain: the server that serves it.
    pub node: u16,
    /// Failure domain above the server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rack: Option<String>,
    /// Failure domain below the server: drives that fail as a whole, for instance the disk of which several drives are parts
    /// ([`crate::domain_text`]).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enclosure: Option<String>,
    /// The mount point of the file system that its folder was on when the drive was last in service; `None`:
    /// not known. A blank folder under another mount point means that the drive is not mounted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mount: Option<String>,
    /// Why the drive must be made joining before it is put in service, for people: it fenced itself, or went
    /// back in time. Recorded here because a drive that failed may not be able to record it. `None` once the
    /// drive itself durably records that it joins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub distrusted: Option<String>,
}

/// Where a drive was found, as input of [`Map::found_at`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FoundAt {
    /// The drive.
    pub id: DriveId,
    /// The folder.
    pub path: String,
    /// The mount point of the folder's file system, if it can be determined.
    pub mount: Option<String>,
}

/// A drive as input of [`Map::first_alone`] and [`Map::first_over_nodes`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NewDrive {
    /// Its identity, as on its label.
    pub id: DriveId,
    /// The folder.
    pub path: String,
    /// Capacity in bytes.
    pub weight: u64,
    /// The node that serves it.
    pub node: u16,
    /// Failure domain above the node.
    pub rack: Option<String>,
    /// Failure domain below the node.
    pub enclosure: Option<String>,
}

/// Placement groups of one code.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pool {
    /// Its number, the first bytes of the keys of its registers.
    pub id: u16,
    /// The code of all its groups.
    pub code: CodeSpec,
    /// How many groups it has. Never changes.
    pub groups: u32,
}

/// A place in a placement group.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Slot {
    /// The drive in this slot.
    pub drive: DriveId,
    /// Whether the drive accepts writes without a vote here, until it has every register of the group
    /// (docs/protocol.md 2.7).
    pub joining: bool,
}

/// One placement group.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Group {
    /// Its id.
    pub id: GroupId,
    /// Layout epoch: the first field of every ballot. It is the epoch of the map in which the slots last
    /// changed.
    pub epoch: u32,
    /// The slots.
    pub slots: Vec<Slot>,
    /// Drives that had a slot and may still believe that they vote here: none of them gets a slot of this group before
    /// it has let go of it ([`Map::let_go`]).
    pub left: Vec<DriveId>,
}

/// The map of a deployment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Map {
    /// Grows with every new epoch of any group, and is at least the epoch of every group.
    pub epoch: u32,
    /// The deployment.
    pub deployment: DeploymentId,
    /// The pools, in ascending order; one today.
    pub pools: Vec<Pool>,
    /// All drives that are or were in the map, in order of their numbers.
    pub drives: Vec<Drive>,
    /// The groups of all pools, in order.
    pub groups: Vec<Group>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Head {
    format: u32,
    epoch: u32,
    #[serde(serialize_with = "deployment_to_hex", deserialize_with = "deployment_from_hex")]
    deployment: DeploymentId,
    pools: Vec<Pool>,
}

/// A group as it is stored in a value.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    epoch: u32,
    /// Numbers of drives.
    slots: Vec<u32>,
    /// Slots whose drive is joining.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    joining: Vec<u8>,
    /// Numbers of drives that left and have not let go.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    left: Vec<u32>,
}

impl Group {
    /// The slot of a drive.
    #[must_use]
    pub fn slot_of(&self, drive: DriveId) -> Option<&Slot> {
        self.slots.iter().find(|s| s.drive == drive)
    }
}

impl Map {
    /// The key of the map's head in the control store; the other keys begin with it and a slash.
    pub const KEY: &'static str = "map";

    /// The first map of a deployment, epoch 1, with one pool. `drives`: id, path, capacity. `groups`: the
    /// least number of placement groups, `None` for as many as the drives need.
    ///
    /// # Errors
    /// `Layout`, with a message for the operator.
    pub fn first(
        deployment: DeploymentId,
        drives: &[(DriveId, String, u64)],
        code: Option<CodeSpec>,
        groups: Option<usize>,
    ) -> Result<Map> {
        let new = |(id, path, weight): &(DriveId, String, u64)| NewDrive {
            id: *id,
            path: path.clone(),
            weight: *weight,
            node: 0,
            rack: None,
            enclosure: None,
        };
        Map::first_alone(deployment, &drives.iter().map(new).collect::<Vec<_>>(), code, groups, false)
    }

    /// Like [`Map::first`], over drives of one machine of which some may fail together. With `shared_drive`, the loss of a
    /// disk of which several drives are parts may cost a group more shards than its code can lose.
    ///
    /// # Errors
    /// `Layout`, with a message for the operator.
    pub fn first_alone(
        deployment: DeploymentId,
        drives: &[NewDrive],
        code: Option<CodeSpec>,
        groups: Option<usize>,
        shared_drive: bool,
    ) -> Result<Map> {
        if domains::any_shared(drives) {
            // All is lost with the one machine.
            return Map::first_over_nodes(
                deployment,
                drives,
                code,
                groups,
                Accept { node_loss: true, shared_drive },
            );
        }
        let weights: Vec<_> = drives.iter().map(|d| (d.id, d.weight)).collect();
        let plan = plan(&weights, code, groups)?;
        Map::planned(deployment, drives.iter().cloned(), &plan)
    }

    /// Like [`Map::first`], over the drives of several nodes. `accept`: which losses may cost a group more shards than its
    /// code can lose.
    ///
    /// # Errors
    /// `Layout`, with a message for the operator.
    pub fn first_over_nodes(
        deployment: DeploymentId,
        drives: &[NewDrive],
        code: Option<CodeSpec>,
        groups: Option<usize>,
        accept: Accept,
    ) -> Result<Map> {
        let plan = spread(&Placed::of(drives), code, groups, accept.node_loss)?;
        if !accept.shared_drive {
            domains::check(drives, &plan)?;
        }
        Map::planned(deployment, drives.iter().cloned(), &plan)
    }

    /// The first map, of this plan.
    fn planned(deployment: DeploymentId, drives: impl Iterator<Item = NewDrive>, plan: &Plan) -> Result<Map> {
        let drives = (0u32..).zip(drives).map(|(number, new)| Drive {
            id: new.id,
            number,
            path: new.path,
            state: DriveState::Active,
            weight: new.weight,
            since: 1,
            node: new.node,
            rack: new.rack,
            enclosure: new.enclosure,
            mount: None,
            distrusted: None,
        });
        let drives = drives.collect();
        let slot = |drive: &DriveId| Slot { drive: *drive, joining: false };
        let group = |(number, slots): (u16, &Vec<DriveId>)| Group {
            id: GroupId::new(0, number),
            epoch: 1,
            slots: slots.iter().map(slot).collect(),
            left: Vec::new(),
        };
        let groups: Vec<Group> = (0u16..).zip(&plan.groups).map(group).collect();
        let pools = vec![Pool { id: 0, code: plan.code, groups: groups.len() as u32 }];
        let map = Map { epoch: 1, deployment, pools, drives, groups };
        map.check()?;
        Ok(map)
    }

    /// The code of the first pool.
    #[must_use]
    pub fn code(&self) -> CodeSpec {
        self.pools[0].code
    }

    /// The drive with this id, active or dead.
    #[must_use]
    pub fn drive(&self, id: DriveId) -> Option<&Drive> {
        self.drives.iter().find(|d| d.id == id)
    }

    /// The members of the control store: all drives that are not dead.
    #[must_use]
    pub fn members(&self) -> Vec<DriveId> {
        self.drives.iter().filter(|d| d.state != DriveState::Dead).map(|d| d.id).collect()
    }

    /// The groups in which a drive has a slot.
    #[must_use]
    pub fn groups_of(&self, id: DriveId) -> Vec<GroupId> {
        self.groups.iter().filter(|g| g.slot_of(id).is_some()).map(|g| g.id).collect()
    }

    /// Whether a drive has yet to join one of its groups.
    #[must_use]
    pub fn is_joining(&self, id: DriveId) -> bool {
        self.groups.iter().any(|g| g.slot_of(id).is_some_and(|s| s.joining))
    }

    /// The drive, unless it is unknown or dead.
    pub(crate) fn alive(&self, id: DriveId) -> Result<&Drive> {
        match self.drive(id) {
            None => Err(Error::Drive(format!("drive {id} is not in the map"))),
            Some(d) if d.state == DriveState::Dead => {
                Err(Error::Drive(format!("drive {id} was replaced or removed already")))
            }
            Some(d) => Ok(d),
        }
    }

    /// A new epoch of every group for which `change` returns that it changed the slots.
    fn change(&self, mut change: impl FnMut(&mut Group) -> bool) -> Result<Map> {
        let mut map = self.clone();
        map.epoch = next_epoch(map.epoch)?;
        for group in &mut map.groups {
            if change(group) {
                group.epoch = map.epoch;
            }
        }
        Ok(map)
    }

    /// A blank drive takes all slots of `old` in a new epoch and joins; `old` is dead from then on.
    ///
    /// # Errors
    /// `Drive`: `old` is unknown or dead already, or `new` is in the map already.
    pub fn replace(&self, old: DriveId, new: DriveId, path: &str, weight: u64) -> Result<Map> {
        let was = self.alive(old)?.clone();
        if self.drive(new).is_some() {
            return Err(Error::Drive(format!("drive {new} is in the map already")));
        }
        let mut map = self.change(|g| {
            // A dead drive never gets a slot, whatever it lets go of.
            g.left.retain(|d| *d != old);
            let mut mine = g.slots.iter_mut().filter(|s| s.drive == old);
            mine.next().map(|s| *s = Slot { drive: new, joining: true }).is_some()
        })?;
        let number = map.drives.iter().map(|d| d.number).max().unwrap_or(0) + 1;
        for d in map.drives.iter_mut().filter(|d| d.id == old) {
            d.state = DriveState::Dead;
        }
        map.drives.push(Drive {
            id: new,
            number,
            path: path.to_owned(),
            state: DriveState::Active,
            weight,
            since: map.epoch,
            // It is in the place of the other drive.
            node: was.node,
            rack: was.rack,
            enclosure: was.enclosure,
            mount: None,
            distrusted: None,
        });
        map.check()?;
        Ok(map)
    }

    /// A joining drive now has every register of these groups and votes in them. The epochs stay.
    ///
    /// # Errors
    /// `Drive`: it is not joining one of them.
    pub fn joined(&self, id: DriveId, groups: &[GroupId]) -> Result<Map> {
        self.alive(id)?;
        let mut map = self.clone();
        for group in groups {
            let at = map.groups.binary_search_by_key(group, |g| g.id).ok();
            let mine = at.and_then(|i| map.groups[i].slots.iter_mut().find(|s| s.drive == id));
            match mine.filter(|s| s.joining) {
                Some(slot) => slot.joining = false,
                None => return Err(Error::Drive(format!("drive {id} is not joining group {group}"))),
            }
        }
        if !map.is_joining(id) {
            for d in map.drives.iter_mut().filter(|d| d.id == id) {
                d.distrusted = None;
            }
        }
        Ok(map)
    }

    /// A drive must join again those of its groups that `which` selects, because it was away for too long or
    /// its journal is damaged. The groups get new epochs, so that its earlier promises and votes count no
    /// more.
    ///
    /// # Errors
    /// `Drive`: the drive is unknown or dead.
    pub fn rejoin(&self, id: DriveId, which: impl Fn(GroupId) -> bool) -> Result<Map> {
        self.alive(id)?;
        self.change(|g| {
            let named = which(g.id);
            let mut mine = g.slots.iter_mut().filter(|s| s.drive == id && named);
            mine.next().map(|s| s.joining = true).is_some()
        })
    }

    /// The same map in a new epoch of every group: earlier promises count no more.
    ///
    /// # Errors
    /// `Drive`: no epochs are left.
    pub fn next_epoch(&self) -> Result<Map> {
        self.change(|_| true)
    }

    /// A drive failed in service, or went back in time: like [`Map::rejoin`] for all its groups, and the
    /// drive must be made joining, recorded durably by itself, before it is put in service again.
    ///
    /// # Errors
    /// Like [`Map::rejoin`].
    pub fn distrust(&self, id: DriveId, why: &str) -> Result<Map> {
        let mut map = self.rejoin(id, |_| true)?;
        for d in map.drives.iter_mut().filter(|d| d.id == id) {
            d.distrusted = Some(why.to_owned());
        }
        Ok(map)
    }

    /// A distrusted drive was made joining and records that itself from now on; `None` if nothing changes.
    #[must_use]
    pub fn joins_by_itself(&self, id: DriveId) -> Option<Map> {
        self.drive(id)?.distrusted.as_ref()?;
        let mut map = self.clone();
        map.drives.iter_mut().find(|d| d.id == id)?.distrusted = None;
        Some(map)
    }

    /// Records where drives were found; `None` if nothing changes.
    #[must_use]
    pub fn found_at(&self, found: &[FoundAt]) -> Option<Map> {
        let mut map = self.clone();
        for f in found {
            if let Some(d) = map.drives.iter_mut().find(|d| d.id == f.id) {
                d.path.clone_from(&f.path);
                if f.mount.is_some() {
                    d.mount.clone_from(&f.mount);
                }
            }
        }
        (map != *self).then_some(map)
    }

    /// Keys and values as stored, in order of key.
    #[must_use]
    pub fn entries(&self) -> BTreeMap<String, Bytes> {
        // Serialising these types cannot fail: no maps with odd keys, no floats.
        fn json(value: &impl Serialize) -> Bytes {
            serde_json::to_vec(value).unwrap_or_default().into()
        }
        let (format, deployment, pools) = (FORMAT, self.deployment, self.pools.clone());
        let head = Head { format, epoch: self.epoch, deployment, pools };
        let mut out = BTreeMap::from([(Map::KEY.to_owned(), json(&head))]);
        out.extend(self.drives.iter().map(|d| (drive_key(d.id), json(d))));
        let numbers: HashMap<DriveId, u32> = self.drives.iter().map(|d| (d.id, d.number)).collect();
        let row = |g: &Group| Row {
            epoch: g.epoch,
            slots: g.slots.iter().map(|s| numbers[&s.drive]).collect(),
            joining: (0u8..).zip(&g.slots).filter(|(_, s)| s.joining).map(|(i, _)| i).collect(),
            left: g.left.iter().map(|d| numbers[d]).collect(),
        };
        for pool in self.groups.chunk_by(|a, b| a.id.pool == b.id.pool) {
            for (i, some) in pool.chunks(GROUPS_PER_VALUE).enumerate() {
                let rows: Vec<Row> = some.iter().map(row).collect();
                out.insert(groups_key(pool[0].id.pool, i), json(&rows));
            }
        }
        out
    }

    /// The inverse of [`Map::entries`], checked. Other keys are ignored.
    ///
    /// # Errors
    /// `Corrupt` for anything that breaks the invariants.
    pub fn from_entries<'a>(entries: impl IntoIterator<Item = (&'a str, &'a [u8])>) -> Result<Map> {
        let bad = |what: &str, e: &dyn std::fmt::Display| Error::Corrupt(format!("the map: {what}: {e}"));
        let all: BTreeMap<&str, &[u8]> = entries.into_iter().collect();
        let head = all.get(Map::KEY).ok_or_else(|| Error::Corrupt("there is no map".to_owned()))?;
        known_format(head)?;
        let head: Head = serde_json::from_slice(head).map_err(|e| bad(Map::KEY, &e))?;
        let mut drives = Vec::new();
        for (key, value) in all.iter().filter(|(k, _)| k.starts_with(DRIVES)) {
            let drive: Drive = serde_json::from_slice(value).map_err(|e| bad(key, &e))?;
            if drive_key(drive.id) != **key {
                return Err(bad(key, &"it belongs to another drive"));
            }
            drives.push(drive);
        }
        drives.sort_by_key(|d| d.number);
        let ids: HashMap<u32, DriveId> = drives.iter().map(|d| (d.number, d.id)).collect();
        if ids.len() != drives.len() {
            return Err(bad(DRIVES, &"two drives have the same number"));
        }
        let mut groups: Vec<Group> = Vec::new();
        for pool in &head.pools {
            let count = pool.groups as usize;
            let before = groups.len();
            for i in 0..count.min(usize::from(u16::MAX)).div_ceil(GROUPS_PER_VALUE) {
                let key = groups_key(pool.id, i);
                let value = all.get(key.as_str()).ok_or_else(|| bad(&key, &"missing"))?;
                let rows: Vec<Row> = serde_json::from_slice(value).map_err(|e| bad(&key, &e))?;
                for row in rows {
                    let number = u16::try_from(groups.len() - before).map_err(|e| bad(&key, &e))?;
                    let group = row.group(GroupId::new(pool.id, number), &ids);
                    groups.push(
                        group.ok_or_else(|| bad(&key, &"it names a slot or a drive that does not exist"))?,
                    );
                }
            }
            if groups.len() - before != count {
                return Err(bad(Map::KEY, &format!("pool {} does not have {count} groups", pool.id)));
            }
        }
        let Head { epoch, deployment, pools, .. } = head;
        let map = Map { epoch, deployment, pools, drives, groups };
        map.check()?;
        Ok(map)
    }

    /// The map in a control store, as of one revision.
    ///
    /// # Errors
    /// Like [`Map::from_entries`].
    pub fn read(control: &Control) -> Result<Map> {
        let all = control.list(Map::KEY);
        Map::from_entries(all.iter().map(|(k, v)| (k.as_str(), &v.bytes[..])))
    }

    /// The change from `before` to this map in a control store. It succeeds only if the store still holds
    /// `before`.
    ///
    /// # Errors
    /// `Conflict`: the store holds something else now.
    pub fn update(&self, before: &Map, control: &Control) -> Result<Update> {
        let (was, now) = (before.entries(), self.entries());
        let mut update = Update::new();
        for (key, value) in &now {
            let old = was.get(key);
            if key == Map::KEY || old != Some(value) {
                let entry = control.read(key);
                if entry.bytes() != old {
                    return Err(Error::Conflict(key.clone()));
                }
                match old == Some(value) {
                    // Every change of the map depends on its head.
                    true => update.expect(&entry),
                    false => update.set(&entry, value.clone()),
                }
            }
        }
        Ok(update)
    }

    pub(crate) fn check(&self) -> Result<()> {
        let bad = |why: String| Err(Error::Corrupt(format!("the map: {why}")));
        let ascends = self.pools.is_sorted_by(|a, b| a.id < b.id);
        if self.pools.is_empty() || !ascends {
            return bad(format!("{} pools, not in ascending order", self.pools.len()));
        }
        let known: HashMap<DriveId, &Drive> = self.drives.iter().map(|d| (d.id, d)).collect();
        if known.len() != self.drives.len() {
            return bad("a drive is in it twice".to_owned());
        }
        for pool in &self.pools {
            let count = pool.groups;
            if count == 0 || count > u32::from(u16::MAX) || pool.code.k == 0 {
                return bad(format!("pool {}: {count} placement groups, code {}", pool.id, pool.code));
            }
        }
        for g in &self.groups {
            let Some(pool) = self.pools.iter().find(|p| p.id == g.id.pool) else {
                return bad(format!("group {} belongs to no pool", g.id));
            };
            if g.slots.len() != pool.code.slots() || g.epoch > self.epoch {
                let (n, code, epoch) = (g.slots.len(), pool.code, g.epoch);
                return bad(format!("group {} has {n} slots, code {code}, epoch {epoch}", g.id));
            }
            for (s, slot) in g.slots.iter().enumerate() {
                if !known.contains_key(&slot.drive) {
                    return bad(format!("slot {s} of group {} names an unknown drive", g.id));
                }
                if g.slots[..s].iter().any(|t| t.drive == slot.drive) {
                    return bad(format!("group {} names a drive twice", g.id));
                }
            }
            if g.left.iter().any(|d| !known.contains_key(d) || g.slot_of(*d).is_some()) {
                return bad(format!("group {}: a drive that left it is unknown, or has a slot", g.id));
            }
        }
        Ok(())
    }
}

impl Row {
    fn group(self, id: GroupId, drives: &HashMap<u32, DriveId>) -> Option<Group> {
        let slot = |number: &u32| Some(Slot { drive: *drives.get(number)?, joining: false });
        let mut slots: Vec<Slot> = self.slots.iter().map(slot).collect::<Option<_>>()?;
        if !self.joining.is_sorted_by(|a, b| a < b) {
            return None;
        }
        for i in &self.joining {
            slots.get_mut(usize::from(*i))?.joining = true;
        }
        let left = self.left.iter().map(|number| drives.get(number).copied()).collect::<Option<_>>()?;
        Some(Group { id, epoch: self.epoch, slots, left })
    }
}

/// A head of another format may have any other fields: its number is checked first.
fn known_format(head: &[u8]) -> Result<()> {
    #[derive(Deserialize)]
    struct Numbered {
        format: u32,
    }
    let bad = |e| Error::Corrupt(format!("the map: {e}"));
    match serde_json::from_slice::<Numbered>(head).map_err(bad)?.format {
        FORMAT => Ok(()),
        other => Err(Error::Corrupt(format!(
            "the map has format {other}, unknown here: another release made this deployment"
        ))),
    }
}

/// Prefix of the keys of drives.
const DRIVES: &str = "map/drive/";

fn drive_key(id: DriveId) -> String {
    format!("{DRIVES}{id}")
}

fn groups_key(pool: u16, i: usize) -> String {
    format!("map/groups/{pool}/{i:04}")
}

pub(crate) fn next_epoch(epoch: u32) -> Result<u32> {
    epoch.checked_add(1).ok_or_else(|| Error::Drive("no epochs are left".to_owned()))
}

fn drive_to_hex<S: Serializer>(id: &DriveId, s: S) -> std::result::Result<S::Ok, S::Error> {
    s.serialize_str(&id.to_hex())
}

fn drive_from_hex<'de, D: Deserializer<'de>>(d: D) -> std::result::Result<DriveId, D::Error> {
    let text = String::deserialize(d)?;
    DriveId::from_hex(&text).ok_or_else(|| serde::de::Error::custom("not a drive id"))
}

fn deployment_to_hex<S: Serializer>(id: &DeploymentId, s: S) -> std::result::Result<S::Ok, S::Error> {
    s.serialize_str(&id.to_hex())
}

fn deployment_from_hex<'de, D: Deserializer<'de>>(d: D) -> std::result::Result<DeploymentId, D::Error> {
    let text = String::deserialize(d)?;
    DeploymentId::from_hex(&text).ok_or_else(|| serde::de::Error::custom("not a deployment id"))
}

#[cfg(test)]
#[path = "map_tests.rs"]
mod tests;
