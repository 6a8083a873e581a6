//! Growth: a group gets more members, more parity, or both, while it is in use.
//!
//! Rows move one after another from the first on. The blocks of row `r` of the new shape lie in rows `r` and above of the old one, and all
//! virtual blocks of the old row `r` are in rows up to `r` of the new one ([`Geometry::grows_from`]). So a row that moves overwrites
//! only blocks that have moved already, or that move with it; and for those the journal has the new content of the whole row, as
//! one entry, before anything is in place. Each entry says below which row the new shape is in force, so a power cut finds a row moved as a whole
//! or not at all, and no block is looked for at a place where it is not. A checkpoint takes that row into the superblocks before the journals begin again.
//!
//! Rows that hold nothing move without content. When the last row has moved, the superblocks have the new shape alone.
//!
//! Invariants: the row in the superblocks is never above what is durable; what is staged when a step returns is committed; new members have a
//! superblock of the group, as hot spares, before one says that they are members.
//!
//! Must not depend on: when and how fast it is called: whoever owns the group sets the pace.

use std::collections::BTreeSet;
use std::ops::Range;

use ashlar_erasure::Code;

use crate::Error;
use crate::content::{Content, Staged};
use crate::create::MAX_MEMBERS;
use crate::domain::{Named, all_apart};
use crate::geometry::{BLOCK, Geometry, Level, Place, declustered_does_not_grow};
use crate::group::Group;
#[cfg(test)]
use crate::group::Mutant;
use crate::journal::{Change, MAX_CHANGES};
use crate::member::{Device, Member};
use crate::prefetch::MOST;
use crate::sums::{UNKNOWN, UNWRITTEN};
use crate::superblock::{Growth, MAX_SPARES, MemberState, Policy, Slot};

/// What a group grows to.
#[derive(Clone, Debug, Default)]
pub struct Grow {
    /// The new level; none: the same with more data, and of K+M a larger K.
    pub level: Option<Level>,
    /// Overwrite devices that have other signatures.
    pub force: bool,
    /// Permit that members of one set fail together.
    pub shared_domains: bool,
}

/// A device that becomes a member.
pub enum Joining {
    /// A device that is no part of the group yet.
    Device(Device),
    /// The hot spare of this name.
    Spare(String),
}

/// How far a growth is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Moved {
    /// Rows that have moved.
    pub done: u64,
    /// Rows in all.
    pub rows: u64,
}

impl Group {
    /// Adds members at the end of the positions and begins to change the shape. The devices become hot spares first: if that is all that
    /// a power cut leaves, they are hot spares then.
    ///
    /// # Errors
    /// [`Error::Layout`] if the group cannot get that shape, [`Error::State`] if it grows already, has no journal, or there are too many spares;
    /// [`Error::Signature`], [`Error::Domain`], [`Error::Io`], [`Error::Failed`].
    pub fn grow(&mut self, grow: &Grow, joining: Vec<Joining>) -> Result<(), Error> {
        self.running()?;
        let to = self.grown(grow, joining.len())?;
        self.are_suitable(grow, &to, &joining)?;
        let mut ids = Vec::new();
        let mut prepared = Ok(());
        for joining in joining {
            match joining {
                Joining::Spare(name) => ids.extend(self.spares.iter().find(|m| m.name == name).map(|m| m.id)),
                Joining::Device(device) => match self.prepare(device, grow.force) {
                    Ok(member) => {
                        ids.push(member.id);
                        self.superblock.spares.push(member.id);
                        self.spares.push(member);
                    }
                    Err(error) => {
                        prepared = Err(error);
                        break;
                    }
                },
            }
        }
        self.unsettled = true;
        self.settle()?;
        prepared?;
        self.begin(to, &ids)
    }

    /// The shape that the group would get.
    fn grown(&self, grow: &Grow, more: usize) -> Result<Geometry, Error> {
        let g = *self.geometry();
        if g.is_declustered() {
            return Err(declustered_does_not_grow());
        }
        if self.superblock.growth.is_some() {
            return Err(Error::State("the group grows already".into()));
        }
        if self.superblock.policy != Policy::Journal {
            let policy = self.superblock.policy;
            return Err(Error::State(format!(
                "a group grows with the policy journal only, not with {policy}"
            )));
        }
        let members = g.members() + more;
        if members > MAX_MEMBERS {
            return Err(Error::Layout(format!("a group has at most {MAX_MEMBERS} members")));
        }
        let level = match (grow.level, g.level) {
            (Some(level), _) => level,
            (None, Level::Coded { k, m }) => {
                let most = || Error::Layout(format!("level {} cannot get {more} more drives", g.level));
                let more = u8::try_from(more).map_err(|_| most())?;
                Level::Coded { k: k.checked_add(more).ok_or_else(most)?, m }
            }
            (None, level) => level,
        };
        let to = Geometry::new(level, members, g.strip_blocks * BLOCK as u64, g.rows())?;
        to.grows_from(&g)?;
        self.tolerates(&to)?;
        Ok(to)
    }

    /// Refuses a shape whose sets cannot do without the members that are out of service: its other members are in service.
    fn tolerates(&self, to: &Geometry) -> Result<(), Error> {
        let slots = self.superblock.slots.iter().enumerate();
        let down: Vec<u32> =
            slots.filter(|(_, s)| s.state != MemberState::Online).map(|(s, _)| to.set(s)).collect();
        let worst = down.iter().map(|set| down.iter().filter(|s| *s == set).count()).max().unwrap_or(0);
        if worst > to.m {
            return Err(Error::State(format!(
                "{worst} drives of a set of level {} would be out of service: rebuild them first",
                to.level
            )));
        }
        Ok(())
    }

    /// Whether these can become members. Writes nothing.
    fn are_suitable(&self, grow: &Grow, to: &Geometry, joining: &[Joining]) -> Result<(), Error> {
        let mut all: Vec<Named> = self.members.iter().map(|m| named(m.as_ref())).collect();
        let (mut names, mut new) = (BTreeSet::new(), 0);
        for joining in joining {
            match joining {
                Joining::Device(device) => {
                    self.suits(device, grow.force)?;
                    new += 1;
                    names.insert(&device.name);
                    all.push(Named::of(device));
                }
                Joining::Spare(name) => {
                    let Some(spare) = self.spares.iter().find(|m| m.name == *name) else {
                        return Err(Error::State(format!("{name} is no hot spare of the group")));
                    };
                    names.insert(name);
                    all.push(named(Some(spare)));
                }
            }
        }
        if names.len() < joining.len() {
            return Err(Error::State("a drive is named twice".into()));
        }
        if self.spares.len() + new > MAX_SPARES {
            return Err(Error::State(format!(
                "new drives are hot spares at first, of which a group has at most {MAX_SPARES}: add fewer at once"
            )));
        }
        if grow.shared_domains { Ok(()) } else { all_apart(to, &all) }
    }

    /// Makes members of hot spares.
    fn begin(&mut self, to: Geometry, ids: &[[u8; 16]]) -> Result<(), Error> {
        let code = Code::new(to.k, to.m).map_err(|e| Error::Layout(e.to_string()))?;
        self.checkpoint()?;
        self.tolerates(&to)?;
        let (new, spares): (Vec<Member>, Vec<Member>) =
            std::mem::take(&mut self.spares).into_iter().partition(|m| ids.contains(&m.id));
        self.spares = spares;
        if new.len() < ids.len() {
            self.spares.extend(new);
            return Err(Error::State("a new drive could not be written; the others are hot spares".into()));
        }
        let mut new: Vec<Option<Member>> = new.into_iter().map(Some).collect();
        for id in ids {
            // In the order in which they were named.
            let member = new.iter_mut().find(|m| m.as_ref().is_some_and(|m| m.id == *id));
            self.members.push(member.and_then(Option::take));
            self.superblock.slots.push(Slot { device: *id, state: MemberState::Online, spare: None });
            self.corrected.push(0);
            self.why.push(None);
        }
        self.superblock.spares = self.spares.iter().map(|m| m.id).collect();
        self.superblock.growth = Some(Growth { to, moved: 0 });
        (self.new_code, self.moved) = (Some(code), 0);
        // Their journals are of the same epoch before a superblock says that they count.
        self.new_epoch()?;
        self.unsettled = true;
        self.settle()
    }

    /// Moves up to `rows` rows. None: the group does not grow.
    ///
    /// # Errors
    /// [`Error::Lost`] if a block of the next row cannot be reconstructed: the growth stays where it is. [`Error::Failed`].
    pub fn move_rows(&mut self, rows: u64) -> Result<Option<Moved>, Error> {
        self.running()?;
        let Some(Growth { to, .. }) = self.superblock.growth else { return Ok(None) };
        let all = to.rows();
        let end = self.moved.saturating_add(rows.max(1)).min(all);
        // What a window needs is in memory.
        let window = (MOST as u64 / to.per_row().max(1)).max(1);
        let mut at = self.moved;
        while at < end {
            let next = (at + window).min(end);
            let moved = self.move_window(&to, at..next);
            self.old.clear();
            // Also what moved before a row that cannot.
            self.commit()?;
            moved?;
            at = next;
        }
        if end == all && self.superblock.growth.is_some() {
            self.checkpoint()?;
        }
        Ok(Some(Moved { done: end, rows: all }))
    }

    /// The first row that has not moved, of a group that grows; else 0.
    #[must_use]
    pub fn moved_rows(&self) -> u64 {
        self.moved
    }

    /// Stages rows, the first of which is the first that has not moved.
    fn move_window(&mut self, to: &Geometry, rows: Range<u64>) -> Result<(), Error> {
        let mut places = BTreeSet::new();
        for block in rows.clone().flat_map(|row| row_blocks(to, row)).flatten() {
            if let Some(place) = self.old_place(block) {
                self.sources(place.set, place.row, &[place.role], &mut places);
            }
        }
        self.fetch_all(places);
        // An entry: its blocks, and the first row behind it.
        let (mut entry, mut end): (Vec<Staged>, u64) = (Vec::new(), rows.start);
        for row in rows {
            let blocks = match self.moved_row(to, row) {
                Ok(blocks) => blocks,
                Err(e) => {
                    self.append_rows(entry, end)?;
                    return Err(e);
                }
            };
            let other_kind =
                entry.first().zip(blocks.first()).is_some_and(|(a, b)| a.1.is_some() != b.1.is_some());
            if other_kind || entry.len() + blocks.len() > MAX_CHANGES {
                self.append_rows(std::mem::take(&mut entry), end)?;
            }
            entry.extend(blocks);
            end = row + 1;
        }
        self.append_rows(entry, end)
    }

    fn append_rows(&mut self, entry: Vec<Staged>, end: u64) -> Result<(), Error> {
        #[cfg(test)]
        if self.has(Mutant::MovedInParts) && entry.len() > 1 {
            let mut first = entry;
            let second = first.split_off(first.len() / 2);
            self.append_moved(first, end)?;
            return self.append_moved(second, end);
        }
        if entry.is_empty() {
            // Nothing changes on any member: the next entry or superblock says that these rows have moved.
            self.moved = self.moved.max(end);
            return Ok(());
        }
        self.append_moved(entry, end)
    }

    /// Where a virtual block lies that has not moved. None: it is beyond the end of the old shape.
    fn old_place(&self, block: u64) -> Option<Place> {
        let g = self.geometry();
        (block < g.blocks()).then(|| g.locate(block))
    }

    /// The blocks of a row in its new shape, as far as members for them are in service and they change: all with content, or none.
    fn moved_row(&mut self, to: &Geometry, row: u64) -> Result<Vec<Staged>, Error> {
        let sets = row_blocks(to, row);
        let mut holes = true;
        for block in sets.iter().flatten() {
            holes &= self.is_hole(*block);
        }
        let mut out = Vec::new();
        for (set, blocks) in (0..).zip(sets) {
            let content = if holes { None } else { Some(self.new_content(to, &blocks)?) };
            let mut content = content.map(Vec::into_iter);
            for slot in to.slots(set, row) {
                let content = content.as_mut().map(|c| Content::from(c.next().unwrap_or_default()));
                if !self.up(slot, row) || content.is_none() && self.sum(slot, row) == UNWRITTEN {
                    continue;
                }
                // The page has to be in memory when the checksum is set.
                self.sum(slot, row);
                let sum = if content.is_some() { UNKNOWN } else { UNWRITTEN };
                out.push((Change { slot: slot as u16, row, sum }, content));
            }
        }
        Ok(out)
    }

    /// Whether a virtual block that has not moved holds nothing.
    fn is_hole(&mut self, block: u64) -> bool {
        let Some(place) = self.old_place(block) else { return true };
        let slot = self.slot(&place);
        if self.up(slot, place.row) {
            return self.sum(slot, place.row) == UNWRITTEN;
        }
        let slots = self.slots(place.set, place.row);
        slots.iter().all(|s| !self.up(*s, place.row) || self.sum(*s, place.row) == UNWRITTEN)
    }

    /// The content of a row of one set in its new shape, by role.
    fn new_content(&mut self, to: &Geometry, blocks: &[u64]) -> Result<Vec<Vec<u8>>, Error> {
        let mut data = Vec::with_capacity(to.n());
        for block in blocks {
            data.push(match self.old_place(*block) {
                Some(place) => self.gather(place.set, place.row, &[place.role])?.remove(0),
                None => vec![0; BLOCK],
            });
        }
        let mut parity = vec![vec![0; BLOCK]; to.m];
        let rows: Vec<&[u8]> = data.iter().map(|b| &b[..]).collect();
        let mut out: Vec<&mut [u8]> = parity.iter_mut().map(|b| &mut b[..]).collect();
        let code = self.new_code.as_ref().unwrap_or(&self.code);
        code.encode(&rows, &mut out).map_err(|e| Error::State(e.to_string()))?;
        data.extend(parity);
        Ok(data)
    }

    /// Takes into the superblock how far the growth is; everything is durable in place. At its end the new shape is the only one.
    pub(crate) fn record_moved(&mut self) {
        let Some(growth) = &mut self.superblock.growth else { return };
        if growth.moved == self.moved && self.moved < growth.to.rows() {
            return;
        }
        growth.moved = self.moved;
        self.unsettled = true;
        if growth.moved == growth.to.rows() {
            self.superblock.geometry = growth.to;
            self.superblock.growth = None;
            self.moved = 0;
            if let Some(code) = self.new_code.take() {
                self.code = code;
            }
        }
    }
}

/// The virtual blocks of a row of a shape: by set, then role.
fn row_blocks(to: &Geometry, row: u64) -> Vec<Vec<u64>> {
    let of = |set| (0..to.k).filter_map(|role| to.block(Place { set, row, role })).collect();
    (0..to.sets).map(of).collect()
}

fn named(member: Option<&Member>) -> Named {
    Named {
        name: member.map(|m| m.name.clone()).unwrap_or_default(),
        domain: member.and_then(Member::domain),
    }
}
