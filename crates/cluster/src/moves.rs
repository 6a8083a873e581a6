//! Changes of the map that move slots from one drive to another, end that a drive believes to vote where it has no
//! slot any more, and retire drives without slots.
//!
//! A drive that lost its slot while it was away still has its vote of the old epoch when it returns. It may count
//! nowhere: other voters refuse the old epoch. But it must not get a slot of the group, with which it would vote at
//! once without the registers that it missed. So the group lists it until it has *let go*: it has durably lost its
//! vote there.
//!
//! Invariants: a moved slot is joining, in a new epoch of its group; a drive that left a group gets no slot of it
//! before it has let go.
//!
//! Must not depend on: who decides what moves.

use ashlar_format::{DriveId, GroupId};

use crate::map::{Drive, DriveState, Map, NewDrive, Slot, next_epoch};
use crate::{Error, Result};

/// A slot that moves.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct SlotMove {
    /// The group.
    pub group: GroupId,
    /// The drive that has the slot.
    pub from: DriveId,
    /// The drive that gets it.
    pub to: DriveId,
}

impl Map {
    /// Slots move to drives that have none in their groups, which join them in a new epoch. The drives that had them
    /// stay in the map, with their other slots.
    ///
    /// # Errors
    /// `Drive`: `from` does not have the slot; or `to` is unknown, dead, distrusted, in the group already, or left it
    /// and has not let go.
    pub fn move_slots(&self, moves: &[SlotMove]) -> Result<Map> {
        let mut map = self.clone();
        map.epoch = next_epoch(map.epoch)?;
        for SlotMove { group, from, to } in moves {
            if self.alive(*to)?.distrusted.is_some() {
                return Err(Error::Drive(format!("drive {to} is distrusted")));
            }
            let epoch = map.epoch;
            let at = map.groups.binary_search_by_key(group, |g| g.id).ok();
            let no_group = || Error::Drive(format!("there is no group {group}"));
            let group = at.and_then(|i| map.groups.get_mut(i)).ok_or_else(no_group)?;
            if group.slot_of(*to).is_some() {
                return Err(Error::Drive(format!("drive {to} has a slot of group {} already", group.id)));
            }
            if group.left.contains(to) {
                return Err(Error::Drive(format!("drive {to} still has its old vote in group {}", group.id)));
            }
            let Some(slot) = group.slots.iter_mut().find(|s| s.drive == *from) else {
                return Err(Error::Drive(format!("drive {from} has no slot of group {}", group.id)));
            };
            *slot = Slot { drive: *to, joining: true };
            group.left.push(*from);
            group.epoch = epoch;
        }
        map.check()?;
        Ok(map)
    }

    /// A drive that has no slot yet: slots may move to it.
    ///
    /// # Errors
    /// `Drive`: it is in the map already.
    pub fn add_drive(&self, new: NewDrive) -> Result<Map> {
        if self.drive(new.id).is_some() {
            return Err(Error::Drive(format!("drive {} is in the map already", new.id)));
        }
        let mut map = self.clone();
        let number = map.drives.iter().map(|d| d.number).max().unwrap_or(0) + 1;
        map.drives.push(Drive {
            id: new.id,
            number,
            path: new.path,
            state: DriveState::Active,
            weight: new.weight,
            since: map.epoch,
            node: new.node,
            rack: new.rack,
            enclosure: new.enclosure,
            mount: None,
            distrusted: None,
        });
        map.check()?;
        Ok(map)
    }

    /// Drives without a slot are dead from now on: they never get one again. The epochs stay.
    ///
    /// # Errors
    /// `Drive`: one is unknown or dead, or has a slot.
    pub fn retire(&self, ids: &[DriveId]) -> Result<Map> {
        let mut map = self.clone();
        for id in ids {
            self.alive(*id)?;
            let groups = self.groups_of(*id).len();
            if groups > 0 {
                return Err(Error::Drive(format!("drive {id} has slots of {groups} placement groups")));
            }
            map.drives.iter_mut().filter(|d| d.id == *id).for_each(|d| d.state = DriveState::Dead);
        }
        map.check()?;
        Ok(map)
    }

    /// Nobody waits any longer until dead drives let go, in at most `most` groups: they never get a slot. The epochs stay.
    #[must_use]
    pub fn without_dead(&self, most: usize) -> Map {
        let mut map = self.clone();
        let dead = |id: &DriveId| self.drive(*id).is_some_and(|d| d.state == DriveState::Dead);
        for group in map.groups.iter_mut().filter(|g| g.left.iter().any(dead)).take(most) {
            group.left.retain(|id| !dead(id));
        }
        map
    }

    /// The groups that a drive left and has not let go of, with the present epoch of each, in order.
    #[must_use]
    pub fn left_by(&self, id: DriveId) -> Vec<(GroupId, u32)> {
        self.groups.iter().filter(|g| g.left.contains(&id)).map(|g| (g.id, g.epoch)).collect()
    }

    /// A drive has durably lost its vote in these groups, which it left: it may get a slot of them again. `None` if
    /// nothing changes. The epochs stay.
    #[must_use]
    pub fn let_go(&self, id: DriveId, groups: &[GroupId]) -> Option<Map> {
        let mut map = self.clone();
        for group in map.groups.iter_mut().filter(|g| groups.contains(&g.id)) {
            group.left.retain(|d| *d != id);
        }
        (map != *self).then_some(map)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ashlar_format::DeploymentId;

    fn id(n: u8) -> DriveId {
        DriveId([n; 16])
    }

    fn map() -> Map {
        let drives: Vec<_> = (1..=4).map(|n| (id(n), format!("/d{n}"), 1000)).collect();
        let code = crate::CodeSpec { k: 1, m: 1 };
        Map::first(DeploymentId([7; 16]), &drives, Some(code), Some(6)).unwrap()
    }

    /// A move of a slot of the first group to a drive outside of it.
    fn first_move(map: &Map) -> SlotMove {
        let group = &map.groups[0];
        let to = map.drives.iter().find(|d| group.slot_of(d.id).is_none()).unwrap().id;
        SlotMove { group: group.id, from: group.slots[0].drive, to }
    }

    fn again(map: &Map) -> Map {
        let entries = map.entries();
        Map::from_entries(entries.iter().map(|(k, v)| (k.as_str(), &v[..]))).unwrap()
    }

    #[test]
    fn moved_slot_joins_in_new_epoch_and_its_drive_is_listed() {
        let map = map();
        let m = first_move(&map);
        let next = map.move_slots(&[m]).unwrap();
        assert_eq!((next.epoch, next.groups[0].epoch), (2, 2));
        assert_eq!(next.groups[0].slots[0], Slot { drive: m.to, joining: true });
        assert_eq!(next.groups[0].slots[1], map.groups[0].slots[1]);
        assert_eq!(next.groups[1..], map.groups[1..], "other groups stay in their epochs");
        assert_eq!(next.left_by(m.from), [(m.group, 2)]);
        assert_eq!(next.drive(m.from).unwrap().state, DriveState::Active);
        assert_eq!(again(&next), next);
        let text = |map: &Map| String::from_utf8(map.entries()["map/groups/0/0000"].to_vec()).unwrap();
        assert!(text(&next).contains("\"left\"") && !text(&map).contains("left"), "{}", text(&next));
    }

    #[test]
    fn drive_that_left_gets_no_slot_before_it_has_let_go() {
        let map = map();
        let m = first_move(&map);
        let next = map.move_slots(&[m]).unwrap();
        let other = next.groups[0].slots[1].drive;
        let back = SlotMove { group: m.group, from: other, to: m.from };
        assert!(next.move_slots(&[back]).unwrap_err().to_string().contains("old vote"));
        assert!(next.let_go(m.from, &[]).is_none() && next.let_go(m.to, &[m.group]).is_none());
        let free = next.let_go(m.from, &[m.group]).unwrap();
        assert_eq!((free.epoch, free.left_by(m.from)), (2, vec![]));
        let back = free.move_slots(&[back]).unwrap();
        assert_eq!((back.epoch, back.left_by(other)), (3, vec![(m.group, 3)]));
    }

    #[test]
    fn moves_that_make_no_sense_are_refused() {
        let map = map();
        let m = first_move(&map);
        let twice = SlotMove { to: map.groups[0].slots[1].drive, ..m };
        assert!(map.move_slots(&[twice]).is_err(), "a drive twice in a group");
        assert!(map.move_slots(&[m, m]).is_err(), "one slot twice");
        assert!(map.move_slots(&[SlotMove { to: id(99), ..m }]).is_err(), "an unknown drive");
        assert!(map.move_slots(&[SlotMove { group: GroupId::new(0, 99), ..m }]).is_err());
        let distrusted = map.distrust(m.to, "a flush failed").unwrap();
        assert!(distrusted.move_slots(&[m]).is_err(), "a drive that must join first");
        let dead = map.replace(m.to, id(9), "/new", 1).unwrap();
        assert!(dead.move_slots(&[m]).is_err(), "a dead drive");
    }

    #[test]
    fn added_drive_has_no_slot_and_takes_one() {
        let map = map();
        let (path, node) = ("/new".to_owned(), 3);
        let new = NewDrive { id: id(9), path, weight: 1000, node, rack: None, enclosure: None };
        let next = map.add_drive(new.clone()).unwrap();
        assert!(next.add_drive(new).is_err(), "no drive twice");
        assert_eq!((next.epoch, &next.groups, next.groups_of(id(9))), (1, &map.groups, vec![]));
        assert!(!next.is_joining(id(9)) && next.members().contains(&id(9)));
        assert_eq!((next.drive(id(9)).unwrap().number, next.drive(id(9)).unwrap().node), (4, 3));
        let moved = next.move_slots(&[SlotMove { to: id(9), ..first_move(&map) }]).unwrap();
        assert!(moved.is_joining(id(9)));
        assert_eq!(again(&moved), moved);
    }

    #[test]
    fn only_drives_without_slots_are_retired_and_nobody_waits_for_them() {
        let map = map();
        let gone = map.groups[0].slots[0].drive;
        assert!(map.retire(&[gone]).unwrap_err().to_string().contains("has slots"));
        let mut next = map.clone();
        for group in map.groups_of(gone) {
            let group = map.groups.iter().find(|g| g.id == group).unwrap();
            let to = map.drives.iter().find(|d| group.slot_of(d.id).is_none()).unwrap().id;
            next = next.move_slots(&[SlotMove { group: group.id, from: gone, to }]).unwrap();
        }
        assert!(!next.left_by(gone).is_empty());
        let retired = next.retire(&[gone]).unwrap();
        let left = next.left_by(gone).len();
        assert_eq!(retired.left_by(gone).len(), left);
        assert_eq!(retired.without_dead(left - 1).left_by(gone).len(), 1);
        let retired = retired.without_dead(left);
        assert_eq!((retired.epoch, retired.left_by(gone)), (next.epoch, vec![]));
        assert_eq!(retired.drive(gone).unwrap().state, DriveState::Dead);
        assert!(!retired.members().contains(&gone));
        let other = retired.groups[0].slots[0].drive;
        let back = SlotMove { group: retired.groups[0].id, from: other, to: gone };
        assert!(retired.move_slots(&[back]).is_err(), "a dead drive gets no slot");
        assert!(retired.retire(&[gone]).is_err() && retired.retire(&[id(99)]).is_err());
        assert_eq!(again(&retired), retired);
    }

    #[test]
    fn a_drive_that_dies_lets_go_of_nothing() {
        let map = map();
        let m = first_move(&map);
        let next = map.move_slots(&[m]).unwrap().replace(m.from, id(9), "/new", 1000).unwrap();
        assert!(next.groups.iter().all(|g| g.left.is_empty()));
        assert!(next.groups_of(id(9)).iter().all(|g| *g != m.group), "only the slots that it had");
        assert_eq!(again(&next), next);
    }
}
