//! Making a group out of devices, and opening one.
//!
//! Invariants: a device with the signature of something else is not touched unless the caller forces it; the superblocks
//! are written last, so that a crash leaves no half-made group in force on any device but whole ones.
//!
//! Must not depend on: the data path.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use ashlar_erasure::Code;

use crate::Error;
use crate::bitmap::Bitmap;
use crate::coder::Batching;
use crate::content::Overlay;
use crate::domain;
use crate::geometry::{BLOCK, Geometry, Level};
use crate::group::{Counters, Group};
use crate::layout::Layout;
use crate::member::{Device, Found, Member};
use crate::permutation::Table;
use crate::sums::{Pages, Summer};
use crate::superblock::{
    Id, MAX_NAME, MAX_SPARES, MemberState, PIECE_LOG, Policy, Settings, Slot, Superblock,
};
use crate::thin_state::Thin;
use crate::under_way::UnderWay;

/// Members of a group, at most: their list fits the superblock.
pub const MAX_MEMBERS: usize = 256;

/// What a new group is to be.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Its name.
    pub name: String,
    /// Its level.
    pub level: Level,
    /// Bytes of a strip: 4 KiB to 1 MiB, a power of two.
    pub strip: u64,
    /// Its policy.
    pub policy: Policy,
    /// Bytes of each member's journal.
    pub journal: u64,
    /// Overwrite devices that have other signatures.
    pub force: bool,
    /// Permit that members of one set fail together ([`Group::apart`]).
    pub shared_domains: bool,
}

impl Default for Plan {
    fn default() -> Plan {
        Plan {
            name: String::new(),
            level: Level::Raid5,
            strip: 64 << 10,
            policy: Policy::Journal,
            journal: 32 << 20,
            force: false,
            shared_domains: false,
        }
    }
}

impl Group {
    /// Makes a group of `devices` and hot spares, and opens it. Its blocks read as zeros; there is nothing to initialise.
    ///
    /// # Errors
    /// [`Error::Layout`], [`Error::Signature`], [`Error::Domain`], [`Error::Io`].
    pub fn create(plan: &Plan, devices: Vec<Device>, spares: Vec<Device>) -> Result<Group, Error> {
        let least = smallest(devices.iter().chain(&spares), plan.force)?;
        if devices.len() > MAX_MEMBERS || spares.len() > MAX_SPARES || plan.name.len() > MAX_NAME {
            return Err(Error::Layout(format!(
                "a group has at most {MAX_MEMBERS} members, {MAX_SPARES} spares and {MAX_NAME} bytes of name"
            )));
        }
        let layout = Layout::divide(least, plan.journal / BLOCK as u64)?;
        let geometry = Geometry::new(plan.level, devices.len(), plan.strip, layout.data_blocks)?;
        if !plan.shared_domains {
            domain::all_apart(&geometry, &devices.iter().map(domain::Named::of).collect::<Vec<_>>())?;
        }
        let layout = Layout { data_blocks: geometry.rows(), ..layout };
        let group = new_id()?;
        let mut superblock = Superblock {
            group,
            generation: 0,
            name: plan.name.clone(),
            geometry,
            policy: plan.policy,
            intents: false,
            journal_blocks: layout.journal_blocks,
            data_start: layout.data_start,
            clean: false,
            slots: Vec::new(),
            spares: Vec::new(),
            volumes: Vec::new(),
            settings: Settings::default(),
            directory: false,
            growth: None,
        };
        let format = |device: Device| {
            let name = device.name.clone();
            let io = |e: std::io::Error| Error::Io { op: "format a member", error: format!("{name}: {e}") };
            Member::format(device, new_id()?, &layout).map_err(io)
        };
        let members: Vec<Member> = devices.into_iter().map(format).collect::<Result<_, _>>()?;
        let spares: Vec<Member> = spares.into_iter().map(format).collect::<Result<_, _>>()?;
        superblock.slots =
            members.iter().map(|m| Slot { device: m.id, state: MemberState::Online, spare: None }).collect();
        superblock.spares = spares.iter().map(|m| m.id).collect();
        let mut made = Group::assemble(superblock, layout, members.into_iter().map(Some).collect(), spares)?;
        if made.journaled() {
            made.new_epoch()?;
        }
        made.superblock.intents = made.may_have_intents();
        made.unsettled = true;
        made.settle()?;
        Ok(made)
    }

    /// What the superblock of a device says, and the identity of the device. Writes nothing.
    ///
    /// # Errors
    /// [`Error::NoMember`].
    pub fn examine(device: Device) -> Result<(Superblock, Id), Error> {
        Member::find(device).map(|found| (found.superblock, found.member.id))
    }

    fn assemble(
        superblock: Superblock,
        layout: Layout,
        members: Vec<Option<Member>>,
        spares: Vec<Member>,
    ) -> Result<Group, Error> {
        let g = superblock.geometry;
        let code = |g: &Geometry| Code::new(g.k, g.m).map_err(|e| Error::Layout(e.to_string()));
        let growth = superblock.growth;
        let piece_log = superblock.volumes.iter().find_map(|v| v.thin).map_or(PIECE_LOG, |t| t.piece_log);
        Ok(Group {
            summer: Summer::new(&superblock.group),
            corrected: vec![0; members.len()],
            why: vec![None; members.len()],
            superblock,
            layout,
            code: code(&g)?,
            table: g.is_declustered().then(|| Arc::new(Table::new(&g))),
            new_code: growth.map(|growth| code(&growth.to)).transpose()?,
            moved: growth.map_or(0, |growth| growth.moved),
            pages: Pages::default(),
            members,
            spares,
            epoch: 0,
            sequence: 0,
            overlay: Overlay::new(),
            under_way: UnderWay::default(),
            joint: Vec::new(),
            parts: Vec::new(),
            old: BTreeMap::new(),
            fresh: Vec::new(),
            discarded: BTreeSet::new(),
            bitmap: Bitmap::default(),
            suspects: None,
            unsettled: false,
            stopped: None,
            counters: Counters::default(),
            batching: Batching::default(),
            pool: std::sync::Arc::default(),
            workers: Vec::new(),
            workers_of: (0, 0),
            buffers: Vec::new(),
            recording: Duration::ZERO,
            once_rows: crate::once::LEAST,
            shared: Vec::new(),
            gathers: (crate::pipeline::GATHERED, crate::pipeline::GATHERS),
            thin: Thin::default(),
            piece_log,
            #[cfg(test)]
            mutant: crate::group::OPENED_WITH.get(),
        })
    }

    /// Opens the group that `devices` are members of, recovers it from its journal (or makes marked regions consistent) and
    /// puts it in service. `without_missing` permits the start although members are missing that were in service: they
    /// count as failed from then on.
    ///
    /// # Errors
    /// [`Error::NoMember`], [`Error::Conflict`], [`Error::Missing`], [`Error::Failed`], [`Error::Io`]. Nothing was
    /// written in the first three cases.
    pub fn open(devices: Vec<Device>, without_missing: bool) -> Result<Group, Error> {
        let found: Vec<Found> = devices.into_iter().map(Member::find).collect::<Result<_, _>>()?;
        let superblock = newest(&found)?;
        let layout = Layout::existing(
            superblock.journal_blocks,
            superblock.directory,
            superblock.data_start,
            superblock.geometry.rows(),
        )
        .ok_or_else(|| Error::Conflict("the superblock's areas do not fit together".into()))?;
        let mut members: Vec<Option<Member>> = superblock.slots.iter().map(|_| None).collect();
        let mut spares = Vec::new();
        for Found { member, .. } in found {
            if let Some(slot) = superblock.slots.iter().position(|s| s.device == member.id) {
                if members[slot].is_some() {
                    return Err(Error::Conflict(format!("{} is a copy of another member", member.name)));
                }
                // One that has failed is not used again, even if it is back.
                if superblock.slots[slot].state != MemberState::Failed {
                    members[slot] = Some(member);
                }
            } else if superblock.spares.contains(&member.id) {
                spares.push(member);
            } else {
                return Err(Error::Conflict(format!(
                    "{} was a member of the group {:?} and was replaced; it has no current data",
                    member.name, superblock.name
                )));
            }
        }
        let mut group = Group::assemble(superblock, layout, members, spares)?;
        group.admit(without_missing)?;
        group.recover()?;
        group.superblock.spares = group.spares.iter().map(|m| m.id).collect();
        group.superblock.clean = false;
        group.superblock.intents = group.may_have_intents();
        group.unsettled = true;
        group.settle()?;
        group.load_maps()?;
        Ok(group)
    }

    /// Decides whether the members that are here suffice.
    fn admit(&mut self, without_missing: bool) -> Result<(), Error> {
        let slots = 0..self.members.len();
        let missing: Vec<usize> = slots
            .filter(|s| self.members[*s].is_none() && self.superblock.slots[*s].state != MemberState::Failed)
            .collect();
        if !missing.is_empty() && !without_missing {
            return Err(Error::Missing { slots: missing });
        }
        for slot in missing {
            self.superblock.slots[slot].state = MemberState::Failed;
            self.why[slot] = Some("missing when the group was opened".into());
            self.unsettled = true;
        }
        self.suffices()
    }

    /// Refuses if more members of a set are out of service than the level tolerates.
    pub(crate) fn suffices(&self) -> Result<(), Error> {
        for g in self.shapes() {
            for set in 0..g.parts() {
                let (down, tolerated) = (self.down(&g, set), g.m);
                if down > tolerated {
                    return Err(Error::Failed { set, down, tolerated });
                }
            }
        }
        Ok(())
    }
}

/// The superblock in force.
fn newest(found: &[Found]) -> Result<Superblock, Error> {
    let Some(best) = found.iter().max_by_key(|f| f.superblock.generation) else {
        return Err(Error::Conflict("no device is named".into()));
    };
    for other in found {
        if other.superblock.group != best.superblock.group {
            return Err(Error::Conflict(format!(
                "{} and {} are members of different groups",
                best.member.name, other.member.name
            )));
        }
        if other.superblock.generation == best.superblock.generation && other.superblock != best.superblock {
            return Err(Error::Conflict(format!(
                "{} and {} have gone on without each other; name the devices of one of the two parts",
                best.member.name, other.member.name
            )));
        }
    }
    Ok(best.superblock.clone())
}

/// Blocks of the smallest device.
pub(crate) fn smallest<'a>(devices: impl Iterator<Item = &'a Device>, force: bool) -> Result<u64, Error> {
    let mut least = u64::MAX;
    for device in devices {
        least = least.min(Member::inspect(device, force)?);
    }
    if least == u64::MAX { Err(Error::Layout("a group has at least one member".into())) } else { Ok(least) }
}

pub(crate) fn new_id() -> Result<Id, Error> {
    let mut id = [0; 16];
    ashlar_environment::random::fill(&mut id)
        .map_err(|e| Error::Io { op: "draw an identity", error: e.to_string() })?;
    Ok(id)
}
