//! The map: which drives there are, what they hold, under which epoch.
//!
//! Invariants: every slot of every group names a drive of the map; a group never names a drive
//! twice; a change of a slot is a new epoch; a dead drive never becomes anything else. The map is
//! kept in the control store under [`Map::KEY`] as JSON that people can read.

use ashlar_format::{DeploymentId, DriveId};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::layout::{CodeSpec, plan};
use crate::{Error, Result};

/// Format number of the JSON.
const FORMAT: u32 = 2;

/// Where a drive stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DriveState {
    /// In service, with a vote in its groups.
    Active,
    /// Takes a slot and writes, but has no vote until every register is there (docs/protocol.md 2.7).
    Joining,
    /// Gone for good: holds no vote even if it comes back.
    Dead,
}

/// One drive of the map.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Drive {
    /// Its identity, as on its label.
    #[serde(serialize_with = "drive_to_hex", deserialize_with = "drive_from_hex")]
    pub id: DriveId,
    /// Where it was last seen; only a hint, the label decides.
    pub path: String,
    /// Where it stands.
    pub state: DriveState,
    /// Capacity in bytes, for placement.
    pub weight: u64,
    /// Epoch in which it entered the map.
    pub since: u32,
    /// The mount point of the file system that its folder was on when it was last in service; `None`: not
    /// known. A blank folder under another mount point is a drive that is not mounted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mount: Option<String>,
    /// Why the drive must be made joining before it is put in service, for people: it fenced itself, or went
    /// back in time. Kept here because a drive that failed may not be able to remember it. `None` once the
    /// drive itself says durably that it joins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub distrusted: Option<String>,
}

/// Where a drive was found: for [`Map::found_at`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FoundAt {
    /// Which drive.
    pub id: DriveId,
    /// The folder.
    pub path: String,
    /// The mount point of the folder's file system, if it can be told.
    pub mount: Option<String>,
}

/// The map of one pool.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Map {
    /// Format number, 2.
    format: u32,
    /// Layout epoch: the first field of every ballot.
    pub epoch: u32,
    /// The deployment.
    #[serde(serialize_with = "deployment_to_hex", deserialize_with = "deployment_from_hex")]
    pub deployment: DeploymentId,
    /// The code of all groups.
    pub code: CodeSpec,
    /// All drives that are or were in the map.
    pub drives: Vec<Drive>,
    /// Of each placement group, the drives by slot.
    #[serde(serialize_with = "groups_to_hex", deserialize_with = "groups_from_hex")]
    pub groups: Vec<Vec<DriveId>>,
}

impl Map {
    /// The key of the map in the control store.
    pub const KEY: &'static str = "map";

    /// The first map of a deployment, epoch 1. `drives`: id, path, capacity; in the order in which
    /// slots of a single group are numbered.
    ///
    /// # Errors
    /// `Layout`, in words.
    pub fn first(
        deployment: DeploymentId,
        drives: &[(DriveId, String, u64)],
        code: Option<CodeSpec>,
    ) -> Result<Map> {
        let weights: Vec<_> = drives.iter().map(|(d, _, w)| (*d, *w)).collect();
        let plan = plan(&weights, code)?;
        let drives = drives
            .iter()
            .map(|(id, path, weight)| Drive {
                id: *id,
                path: path.clone(),
                state: DriveState::Active,
                weight: *weight,
                since: 1,
                mount: None,
                distrusted: None,
            })
            .collect();
        let map = Map { format: FORMAT, epoch: 1, deployment, code: plan.code, drives, groups: plan.groups };
        map.check()?;
        Ok(map)
    }

    /// The drive with this id, dead or alive.
    #[must_use]
    pub fn drive(&self, id: DriveId) -> Option<&Drive> {
        self.drives.iter().find(|d| d.id == id)
    }

    /// The drives that count in the control store: all that are not dead.
    #[must_use]
    pub fn members(&self) -> Vec<DriveId> {
        self.drives.iter().filter(|d| d.state != DriveState::Dead).map(|d| d.id).collect()
    }

    /// A blank drive takes all slots of `old` in a new epoch and joins; `old` is dead from then on.
    ///
    /// # Errors
    /// `Drive`: `old` is unknown or dead already, or `new` is in the map already.
    pub fn replace(&self, old: DriveId, new: DriveId, path: &str, weight: u64) -> Result<Map> {
        match self.drive(old) {
            None => return Err(Error::Drive(format!("drive {old} is not in the map"))),
            Some(d) if d.state == DriveState::Dead => {
                return Err(Error::Drive(format!("drive {old} was replaced or removed already")));
            }
            Some(_) => {}
        }
        if self.drive(new).is_some() {
            return Err(Error::Drive(format!("drive {new} is in the map already")));
        }
        let mut map = self.clone();
        map.epoch = next_epoch(map.epoch)?;
        for d in &mut map.drives {
            if d.id == old {
                d.state = DriveState::Dead;
            }
        }
        map.drives.push(Drive {
            id: new,
            path: path.to_owned(),
            state: DriveState::Joining,
            weight,
            since: map.epoch,
            mount: None,
            distrusted: None,
        });
        for slot in map.groups.iter_mut().flatten().filter(|s| **s == old) {
            *slot = new;
        }
        map.check()?;
        Ok(map)
    }

    /// A joining drive has every register now and votes. The epoch stays.
    ///
    /// # Errors
    /// `Drive`: it is not joining.
    pub fn joined(&self, id: DriveId) -> Result<Map> {
        let mut map = self.clone();
        match map.drives.iter_mut().find(|d| d.id == id) {
            Some(d) if d.state == DriveState::Joining => {
                d.state = DriveState::Active;
                d.distrusted = None;
            }
            Some(d) => return Err(Error::Drive(format!("drive {id} is {:?}, not joining", d.state))),
            None => return Err(Error::Drive(format!("drive {id} is not in the map"))),
        }
        Ok(map)
    }

    /// An active drive must join again, because it was away for too long or its journal is damaged.
    /// New epoch, so that what it may have promised or voted counts no more.
    ///
    /// # Errors
    /// `Drive`: it is unknown or dead.
    pub fn rejoin(&self, id: DriveId) -> Result<Map> {
        let mut map = self.clone();
        map.epoch = next_epoch(map.epoch)?;
        match map.drives.iter_mut().find(|d| d.id == id) {
            Some(d) if d.state != DriveState::Dead => d.state = DriveState::Joining,
            Some(_) => return Err(Error::Drive(format!("drive {id} was replaced or removed"))),
            None => return Err(Error::Drive(format!("drive {id} is not in the map"))),
        }
        Ok(map)
    }

    /// The same in a new epoch: what was promised before counts no more.
    ///
    /// # Errors
    /// `Drive`: no epochs are left.
    pub fn next_epoch(&self) -> Result<Map> {
        Ok(Map { epoch: next_epoch(self.epoch)?, ..self.clone() })
    }

    /// A drive failed in service, or shows that it went back in time: as [`Map::rejoin`], and it must be made
    /// joining, durably and by itself, before it is put in service again.
    ///
    /// # Errors
    /// As [`Map::rejoin`].
    pub fn distrust(&self, id: DriveId, why: &str) -> Result<Map> {
        let mut map = self.rejoin(id)?;
        if let Some(d) = map.drives.iter_mut().find(|d| d.id == id) {
            d.distrusted = Some(why.to_owned());
        }
        Ok(map)
    }

    /// A distrusted drive was made joining and says so itself from now on; `None` when nothing changes.
    #[must_use]
    pub fn joins_by_itself(&self, id: DriveId) -> Option<Map> {
        let mut map = self.clone();
        map.drives.iter_mut().find(|d| d.id == id)?.distrusted.take()?;
        Some(map)
    }

    /// Notes where drives were found; `None` when nothing changes.
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

    /// JSON, as stored.
    #[must_use]
    pub fn to_json(&self) -> Vec<u8> {
        // Serialising these types cannot fail: no maps with odd keys, no floats.
        serde_json::to_vec_pretty(self).unwrap_or_default()
    }

    /// The inverse of [`Map::to_json`], checked.
    ///
    /// # Errors
    /// `Corrupt` for anything that breaks the invariants.
    pub fn from_json(bytes: &[u8]) -> Result<Map> {
        let map: Map = serde_json::from_slice(bytes).map_err(|e| Error::Corrupt(format!("the map: {e}")))?;
        if map.format != FORMAT {
            return Err(Error::Corrupt(format!("the map has format {}, unknown here", map.format)));
        }
        map.check()?;
        Ok(map)
    }

    fn check(&self) -> Result<()> {
        let bad = |why: String| Err(Error::Corrupt(format!("the map: {why}")));
        if self.groups.is_empty() || self.groups.len() > usize::from(u16::MAX) {
            return bad(format!("{} placement groups", self.groups.len()));
        }
        for (i, group) in self.groups.iter().enumerate() {
            if group.len() != self.code.slots() || self.code.k == 0 {
                return bad(format!("group {i} has {} slots, code {}", group.len(), self.code));
            }
            for (s, id) in group.iter().enumerate() {
                if self.drive(*id).is_none() {
                    return bad(format!("slot {s} of group {i} names an unknown drive"));
                }
                if group[..s].contains(id) {
                    return bad(format!("group {i} names a drive twice"));
                }
            }
        }
        Ok(())
    }
}

fn next_epoch(epoch: u32) -> Result<u32> {
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

fn groups_to_hex<S: Serializer>(groups: &[Vec<DriveId>], s: S) -> std::result::Result<S::Ok, S::Error> {
    let text: Vec<Vec<String>> = groups.iter().map(|g| g.iter().map(|d| d.to_hex()).collect()).collect();
    text.serialize(s)
}

fn groups_from_hex<'de, D: Deserializer<'de>>(d: D) -> std::result::Result<Vec<Vec<DriveId>>, D::Error> {
    let text = Vec::<Vec<String>>::deserialize(d)?;
    text.iter()
        .map(|g| g.iter().map(|t| DriveId::from_hex(t)).collect::<Option<Vec<_>>>())
        .collect::<Option<Vec<_>>>()
        .ok_or_else(|| serde::de::Error::custom("not a drive id"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(n: u8) -> DriveId {
        DriveId([n; 16])
    }

    fn first(n: u8) -> Map {
        let drives: Vec<_> = (1..=n).map(|i| (id(i), format!("/d{i}"), 1000)).collect();
        Map::first(DeploymentId([7; 16]), &drives, None).unwrap()
    }

    #[test]
    fn golden_json() {
        let found = FoundAt { id: id(1), path: "/mnt/a/d".to_owned(), mount: Some("/mnt/a".to_owned()) };
        let map = first(2).found_at(&[found]).unwrap().distrust(id(2), "journal flush failed").unwrap();
        let text = String::from_utf8(map.to_json()).unwrap();
        assert_eq!(text.trim(), include_str!("../tests/map-2.json").trim());
        assert_eq!(Map::from_json(text.as_bytes()).unwrap(), map);
        let older = text.replacen("\"format\": 2", "\"format\": 1", 1);
        assert!(Map::from_json(older.as_bytes()).unwrap_err().to_string().contains("format 1"));
    }

    #[test]
    fn a_blank_drive_takes_the_slots() {
        let map = first(24);
        let next = map.replace(id(3), id(99), "/new", 1000).unwrap();
        assert_eq!(next.epoch, 2);
        assert_eq!(next.drive(id(3)).unwrap().state, DriveState::Dead);
        assert_eq!(next.drive(id(99)).unwrap().state, DriveState::Joining);
        assert!(next.groups.iter().flatten().all(|d| *d != id(3)));
        for (a, b) in map.groups.iter().flatten().zip(next.groups.iter().flatten()) {
            assert!(a == b || (*a == id(3) && *b == id(99)), "only the slots of the old drive move");
        }
        assert!(!next.members().contains(&id(3)) && next.members().contains(&id(99)));
        assert!(next.replace(id(3), id(100), "/x", 1).is_err(), "dead stays dead");
        assert!(next.replace(id(4), id(99), "/x", 1).is_err(), "no drive twice");
        assert!(next.rejoin(id(3)).is_err());
        let joined = next.joined(id(99)).unwrap();
        assert_eq!((joined.epoch, joined.drive(id(99)).unwrap().state), (2, DriveState::Active));
        assert!(joined.joined(id(99)).is_err());
        assert_eq!(joined.rejoin(id(99)).unwrap().epoch, 3);
    }

    #[test]
    fn a_distrusted_drive_is_noted_until_it_joins_by_itself() {
        let map = first(4).distrust(id(2), "a flush failed").unwrap();
        let drive = map.drive(id(2)).unwrap();
        assert_eq!((map.epoch, drive.state), (2, DriveState::Joining));
        assert_eq!(drive.distrusted.as_deref(), Some("a flush failed"));
        let map = map.joins_by_itself(id(2)).unwrap();
        assert_eq!(map.drive(id(2)).unwrap().distrusted, None);
        assert!(map.joins_by_itself(id(2)).is_none() && map.joins_by_itself(id(9)).is_none());
        let again = map.distrust(id(2), "once more").unwrap().joined(id(2)).unwrap();
        assert_eq!(again.drive(id(2)).unwrap().distrusted, None);
        let dead = map.replace(id(2), id(9), "/new", 1).unwrap();
        assert!(dead.distrust(id(2), "too late").is_err());
    }

    #[test]
    fn broken_maps_are_refused() {
        let mut map = first(4);
        map.groups[0][0] = id(2);
        assert!(Map::from_json(&map.to_json()).is_err(), "a drive twice in a group");
        map.groups[0][0] = id(200);
        assert!(Map::from_json(&map.to_json()).is_err(), "an unknown drive");
        let mut map = first(4);
        map.groups[0].pop();
        assert!(Map::from_json(&map.to_json()).is_err(), "a slot missing");
        assert!(Map::from_json(b"{}").is_err());
    }
}
