//! Members that are taken out of service and replaced, hot spares and distributed ones.
//!
//! Invariants: no entry of the journal that names the old member is left when a new one takes its position, or a distributed spare its blocks.
//!
//! Must not depend on: how blocks are rebuilt: [`crate::rebuild_rows`] does that.

use crate::Error;
use crate::create::{new_id, smallest};
use crate::geometry::BLOCK;
use crate::group::Group;
use crate::member::{Device, Member};
use crate::superblock::{Id, InSpare, MAX_SPARES, MemberState, Settings, Slot};

impl Group {
    /// Takes a member out of service, as if it had failed.
    ///
    /// # Errors
    /// [`Error::State`] if it is out of service already or the group cannot do without it; [`Error::Failed`].
    pub fn take_out(&mut self, slot: usize) -> Result<(), Error> {
        self.running()?;
        let known = self.superblock.slots.get(slot).is_some_and(|s| s.state != MemberState::Failed);
        if !known {
            return Err(Error::State(format!("position {slot} has no member in service")));
        }
        if self.suspects.is_some() {
            return Err(Error::State(
                "parity is being made anew after an unclean stop, and does not protect all blocks yet: wait until that is done".into(),
            ));
        }
        if !self.spareable(slot) {
            return Err(Error::State(format!("the group cannot do without the member at position {slot}")));
        }
        self.fail(slot, "taken out", &std::io::Error::other("by request"));
        self.settle()
    }

    /// Takes a member out of service and remembers that an operator did it, until another one takes its place.
    ///
    /// # Errors
    /// As [`Group::take_out`].
    pub fn take_offline(&mut self, slot: usize) -> Result<(), Error> {
        let new = self.superblock.settings.offline.insert(slot as u16);
        self.take_out(slot).inspect_err(|_| {
            if new {
                self.superblock.settings.offline.remove(&(slot as u16));
            }
        })
    }

    /// Changes what the owner of the group keeps with it, durably.
    ///
    /// # Errors
    /// [`Error::State`], [`Error::Failed`].
    pub fn configure(&mut self, change: impl FnOnce(&mut Settings)) -> Result<(), Error> {
        self.running()?;
        change(&mut self.superblock.settings);
        self.unsettled = true;
        self.settle()
    }

    /// Adds a hot spare.
    ///
    /// # Errors
    /// [`Error::Signature`], [`Error::Layout`] if it is too small, [`Error::State`] if there are enough.
    pub fn add_spare(&mut self, device: Device, force: bool) -> Result<(), Error> {
        self.running()?;
        self.make_spare(device, force).map(drop)
    }

    /// Makes a device a hot spare; its identity.
    fn make_spare(&mut self, device: Device, force: bool) -> Result<Id, Error> {
        if self.spares.len() >= MAX_SPARES {
            return Err(Error::State(format!("a group has at most {MAX_SPARES} spares")));
        }
        let member = self.prepare(device, force)?;
        let id = member.id;
        self.superblock.spares.push(id);
        self.spares.push(member);
        self.unsettled = true;
        self.settle()?;
        Ok(id)
    }

    /// Gives up a hot spare: its device is no part of the group any more.
    ///
    /// # Errors
    /// [`Error::State`] if no spare has this name; [`Error::Failed`].
    pub fn remove_spare(&mut self, name: &str) -> Result<(), Error> {
        self.running()?;
        let Some(at) = self.spares.iter().position(|m| m.name == name) else {
            return Err(Error::State(format!("{name} is no hot spare of the group")));
        };
        let mut spare = self.spares.remove(at);
        self.superblock.spares = self.spares.iter().map(|m| m.id).collect();
        self.unsettled = true;
        self.settle()?;
        // The group has forgotten it: a superblock that stays here is only an obstacle to using the device again.
        spare.wipe().map_err(|e| Error::Io { op: "remove the superblock", error: format!("{name}: {e}") })
    }

    /// Puts a device in the place of a failed member; its rebuild follows. The device becomes a hot spare first: so it has a
    /// superblock before another one says that it is a member.
    ///
    /// # Errors
    /// [`Error::State`] if that member is in service; else as [`Group::add_spare`].
    pub fn replace(&mut self, slot: usize, device: Device, force: bool) -> Result<(), Error> {
        self.running()?;
        if self.superblock.slots.get(slot).is_none_or(|s| s.state != MemberState::Failed) {
            return Err(Error::State(format!("position {slot} has no failed member to replace")));
        }
        let id = self.make_spare(device, force)?;
        let Some(at) = self.spares.iter().position(|m| m.id == id) else {
            return Err(Error::State("the new drive could not be written".into()));
        };
        let member = self.spares.remove(at);
        self.install(slot, member)
    }

    /// Gives a failed member a spare, if there are both: a distributed one, else a hot spare in its place. The position, if so. A hot spare that
    /// fails together with another member of the set is used only if there is no other one; one that is known to be gone is not used.
    ///
    /// In a declustered group a hot spare waits until all blocks that can be in distributed spares are there: that is sooner.
    ///
    /// # Errors
    /// [`Error::Failed`].
    pub fn use_spare(&mut self) -> Result<Option<usize>, Error> {
        self.running()?;
        let failed = |me: &Group, s: &usize| me.superblock.slots[*s].state == MemberState::Failed;
        let slots = 0..self.superblock.slots.len();
        let without = slots.clone().find(|s| failed(self, s) && self.superblock.slots[*s].spare.is_none());
        if let Some((slot, index)) = without.zip(self.free_spare()) {
            self.checkpoint()?;
            self.superblock.slots[slot].spare = Some(InSpare { index, below: 0 });
            self.unsettled = true;
            self.settle()?;
            return Ok(Some(slot));
        }
        if self.to_spare().is_some() {
            return Ok(None);
        }
        let Some(slot) = without.or_else(|| slots.clone().find(|s| failed(self, s))) else { return Ok(None) };
        let Some(chosen) = self.best_spare(slot) else { return Ok(None) };
        let member = self.spares.remove(chosen);
        self.install(slot, member)?;
        Ok(Some(slot))
    }

    /// Whether a member has failed that no spare is for.
    #[must_use]
    pub fn lacks_spare(&self) -> bool {
        let failed = |s: &Slot| s.state == MemberState::Failed && s.spare.is_none();
        self.stopped.is_none() && self.spares.is_empty() && self.superblock.slots.iter().any(failed)
    }

    /// The name of a hot spare of at least so many bytes, of those the smallest, that the group can give away: none of its members is out of service.
    #[must_use]
    pub fn spare_to_lend(&self, bytes: u64) -> Option<String> {
        if self.stopped.is_some() || self.superblock.slots.iter().any(|s| s.state != MemberState::Online) {
            return None;
        }
        let there = self.spares.iter().filter(|m| m.gone().is_none());
        let sizes = there.filter_map(|m| Some((m.medium().size().ok()?, &m.name)));
        sizes.filter(|(size, _)| *size >= bytes).min().map(|(_, name)| name.clone())
    }

    /// Bytes that a device needs to be a member.
    #[must_use]
    pub fn member_size(&self) -> u64 {
        (self.layout.data_start + self.layout.data_blocks) * BLOCK as u64
    }

    /// Whether a device can become a member or a spare of this group. Writes nothing.
    ///
    /// # Errors
    /// [`Error::Signature`], [`Error::Layout`] if it is too small, [`Error::Io`].
    pub fn suits(&self, device: &Device, force: bool) -> Result<(), Error> {
        let blocks = smallest(std::iter::once(device), force)?;
        let need = self.member_size() / BLOCK as u64;
        if blocks < need {
            return Err(Error::Layout(format!(
                "{} has {} bytes; a member of this group needs {}",
                device.name,
                blocks * BLOCK as u64,
                need * BLOCK as u64
            )));
        }
        Ok(())
    }

    pub(crate) fn prepare(&self, device: Device, force: bool) -> Result<Member, Error> {
        self.suits(&device, force)?;
        let name = device.name.clone();
        Member::format(device, new_id()?, &self.layout)
            .map_err(|e| Error::Io { op: "format a member", error: format!("{name}: {e}") })
    }

    fn install(&mut self, slot: usize, member: Member) -> Result<(), Error> {
        // From here on the journal names no member that was at this position before.
        self.checkpoint()?;
        self.pages.forget(slot);
        self.superblock.slots[slot].device = member.id;
        self.superblock.slots[slot].state = MemberState::Rebuild { done: 0 };
        // A distributed spare that has nothing yet is free again.
        self.superblock.slots[slot].spare.take_if(|spare| spare.below == 0);
        self.superblock.settings.offline.remove(&(slot as u16));
        self.superblock.spares = self.spares.iter().map(|m| m.id).collect();
        self.members[slot] = Some(member);
        self.why[slot] = None;
        if self.journaled() {
            // Its journal is of the same epoch before a superblock says that it counts.
            self.new_epoch()?;
        }
        self.unsettled = true;
        self.settle()
    }
}
