//! The superblock: what a member says about its group. **Part of the on-drive format** (docs/array.md, "Format").
//!
//! A member has two places for it. A new one is written to the place that does not hold the newest, and flushed, so a
//! crash at any instant leaves a valid one. All members have the same content but for their own identity; the highest
//! generation is in force.
//!
//! Invariants: a superblock with any flipped bit is refused; two of the same generation that differ in what they say
//! about the group are a conflict.
//!
//! Must not depend on: devices.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use ashlar_checksum::frame_hash;
use ashlar_format::codec::{Reader, Writer};

use crate::geometry::{BLOCK, Geometry, Level};
use crate::properties;
use crate::reference::Reference;

/// Version of the on-drive format of a group.
pub const FORMAT: u32 = 1;
/// The version while a group grows: releases that cannot go on with that refuse it.
pub const FORMAT_GROWING: u32 = 2;
/// The version of a declustered group: releases that do not know such groups refuse it.
pub const FORMAT_DECLUSTERED: u32 = 3;
/// The version of a group with virtual drives that have properties: releases that do not know these refuse it.
pub const FORMAT_PROPERTIES: u32 = 4;
/// Bytes of each of the two places.
pub(crate) const LEN: usize = 4 * BLOCK;
const MAGIC: &[u8; 8] = b"ASHLRAID";
pub(crate) const KEY: [u64; 4] = [
    u64::from_le_bytes(*b"ashlar r"),
    u64::from_le_bytes(*b"aid supe"),
    u64::from_le_bytes(*b"rblock v"),
    u64::from_le_bytes(*b"1 ......"),
];
/// The version of a group whose virtual drives are in a directory ([`crate::directory`]): releases that do not know it refuse it.
pub const FORMAT_DIRECTORY: u32 = 5;
/// Virtual drives of a group, at most.
pub const MAX_VOLUMES: usize = 1023;
/// Virtual drives that a superblock has, at most; with more there is a directory.
pub(crate) const IN_SUPERBLOCK: usize = 128;
/// Bytes of a superblock for its virtual drives: what all else leaves, at least.
pub(crate) const VOLUMES_LEN: usize = 8800;
/// Hot spares of a group, at most; also distributed ones.
pub const MAX_SPARES: usize = 16;
/// Bytes of a name, at most.
pub const MAX_NAME: usize = 48;

/// How a group keeps data and parity consistent over a loss of power.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Policy {
    /// Every change is in a journal before it is in place. Protects in every state.
    Journal,
    /// Regions that are being written are marked; after an unclean stop their parity is made anew. Does not protect a
    /// degraded group, nor unflushed writes.
    Bitmap,
    /// Nothing is marked; after an unclean stop all parity is made anew. Does not protect a degraded group, nor
    /// unflushed writes.
    None,
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Policy::Journal => "journal",
            Policy::Bitmap => "bitmap",
            Policy::None => "none",
        })
    }
}

impl FromStr for Policy {
    type Err = crate::Error;
    /// `journal`, `bitmap`, `none`.
    fn from_str(s: &str) -> Result<Policy, crate::Error> {
        match s {
            "journal" => Ok(Policy::Journal),
            "bitmap" => Ok(Policy::Bitmap),
            "none" => Ok(Policy::None),
            _ => Err(crate::Error::Layout(format!(
                "{s:?} is no policy of consistency; they are journal, bitmap, none"
            ))),
        }
    }
}

/// What the group says about a position.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MemberState {
    /// In service.
    Online,
    /// Out of service: its device failed, or was taken out, or is missing.
    Failed,
    /// Its blocks are made anew, and so many rows of it are in service.
    Rebuild {
        /// Rows that are rebuilt: the first ones; of a declustered group the last ones.
        done: u64,
    },
}

/// An identity: of a group, of a device.
pub type Id = [u8; 16];

/// A position of a member.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Slot {
    /// The device.
    pub device: Id,
    /// Its state.
    pub state: MemberState,
    /// The distributed spare that has blocks of it. A member in service has none.
    pub spare: Option<InSpare>,
}

/// Blocks of a member of a declustered group that are in the distributed spare room.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct InSpare {
    /// The number of the spare, from 0 on. No two members have the same one.
    pub index: u8,
    /// Its blocks of rows below this one are there.
    pub below: u64,
}

/// What clients of a virtual drive get at most, reads and writes together.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct VolumeLimits {
    /// Requests per second; 0: any number.
    pub iops: u32,
    /// Bytes per second; 0: any number.
    pub bandwidth: u64,
}

/// The map of a thin virtual drive, which has its own extent of the address space.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ThinMap {
    /// Blocks of the map.
    pub blocks: u32,
    /// Blocks of a piece, as a power of two; the same for all of a group.
    pub piece_log: u8,
}

/// Blocks of a thin virtual drive, at most: 1 PiB.
pub(crate) const MAX_THIN: u64 = 1 << 38;
/// Blocks of a piece, as a power of two: 1 MiB.
pub(crate) const PIECE_LOG: u8 = 8;

/// A part of the address space with a name: a virtual drive.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Volume {
    /// Its name.
    pub name: String,
    /// Its first block; of a thin one, that of its map.
    pub start: u64,
    /// Its blocks, as its clients see it.
    pub blocks: u64,
    /// Its map, if it is thin: then it has only the room that it needs.
    pub thin: Option<ThinMap>,
    /// What its clients get at most.
    pub limits: VolumeLimits,
}

/// What the owner of a group keeps with it, beside what the group needs itself. Superblocks of releases that did not have it say zeros, which
/// are the defaults; those releases do not read it.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Settings {
    /// How fast it is rebuilt and checked: 0 normal, 1 low, 2 high.
    pub rebuild_speed: u8,
    /// Positions whose member did not fail, but was taken out of service by an operator.
    pub offline: BTreeSet<u16>,
    /// Seconds between the starts of two consistency checks; 0: they are started by hand only.
    pub check_interval_s: u32,
    /// When the last check was started, or the interval was set: milliseconds since 1970.
    pub checked_ms: u64,
}

/// A group gets another shape: it grows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Growth {
    /// The shape that it gets.
    pub to: Geometry,
    /// Rows below this one have it; entries of the journal may say that further ones have.
    pub moved: u64,
}

/// What all members of a group agree on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Superblock {
    /// The group.
    pub group: Id,
    /// Counts changes of the superblock.
    pub generation: u64,
    /// The name of the group.
    pub name: String,
    /// Its shape.
    pub geometry: Geometry,
    /// Its policy.
    pub policy: Policy,
    /// The journals may have intents: releases that do not know these refuse the group. Only under [`Policy::Journal`], and not after it
    /// was closed.
    pub intents: bool,
    /// Blocks of each member's journal.
    pub journal_blocks: u64,
    /// First block of the data area of each member.
    pub data_start: u64,
    /// The group was closed after everything was flushed.
    pub clean: bool,
    /// The members, by position.
    pub slots: Vec<Slot>,
    /// Hot spares.
    pub spares: Vec<Id>,
    /// Virtual drives.
    pub volumes: Vec<Volume>,
    /// What its owner keeps with it.
    pub settings: Settings,
    /// Its virtual drives are in the directory of each member, and not in the superblock.
    pub directory: bool,
    /// The growth that is under way. `slots` has the members of both shapes.
    pub growth: Option<Growth>,
}

impl Superblock {
    /// The bytes for the member with identity `device`, of a group without a directory.
    ///
    /// # Panics
    /// If there is a directory, or names or lists are longer than the limits of this module.
    #[must_use]
    pub fn encode(&self, device: &Id) -> Vec<u8> {
        self.encode_with(device, None)
    }

    /// The bytes for a member with this directory. There is one exactly if the superblock says so.
    pub(crate) fn encode_with(&self, device: &Id, directory: Option<&Reference>) -> Vec<u8> {
        assert_eq!(directory.is_some(), self.directory);
        let g = &self.geometry;
        let mut w = Writer::with_capacity(LEN);
        w.raw(MAGIC);
        let shape_format = match (&self.growth, g.spares) {
            (Some(_), _) => FORMAT_GROWING,
            (None, 0) => FORMAT,
            (None, _) => FORMAT_DECLUSTERED,
        };
        let has_properties = !self.directory && self.volumes.iter().any(properties::has_any);
        w.u32(match (self.directory, has_properties) {
            (true, _) => FORMAT_DIRECTORY,
            (false, true) => FORMAT_PROPERTIES,
            (false, false) => shape_format,
        });
        w.raw(&self.group);
        w.u64(self.generation);
        w.raw(device);
        w.bytes(self.name.as_bytes());
        put_level(&mut w, g.level);
        w.u64(g.strip_blocks);
        w.u64(g.stripes);
        w.u8(match self.policy {
            Policy::Journal if self.intents => 3,
            Policy::Journal => 0,
            Policy::Bitmap => 1,
            Policy::None => 2,
        });
        w.u64(self.journal_blocks);
        w.u64(self.data_start);
        w.bool(self.clean);
        w.list(&self.slots, |w, slot| {
            w.raw(&slot.device);
            match slot.state {
                MemberState::Online => w.u8(0),
                MemberState::Failed => w.u8(1),
                MemberState::Rebuild { done } => {
                    w.u8(2);
                    w.u64(done);
                }
            }
        });
        w.list(&self.spares, |w, id| w.raw(id));
        put_volumes(&mut w, if self.directory { &[] } else { &self.volumes });
        let settings = &self.settings;
        w.u8(settings.rebuild_speed);
        w.list(&settings.offline.iter().copied().collect::<Vec<u16>>(), |w, position| w.u16(*position));
        w.u32(settings.check_interval_s);
        w.u64(settings.checked_ms);
        if has_properties || self.directory {
            w.u32(shape_format);
        }
        if let Some(growth) = &self.growth {
            w.u16(g.members() as u16);
            put_level(&mut w, growth.to.level);
            w.u64(growth.moved);
        } else if g.spares > 0 {
            let slots = (0u16..).zip(&self.slots);
            let moved: Vec<_> = slots.filter_map(|(position, slot)| Some((position, slot.spare?))).collect();
            w.list(&moved, |w, (position, spare)| {
                w.u16(*position);
                w.u8(spare.index);
                w.u64(spare.below);
            });
        }
        if has_properties {
            properties::put(&mut w, &self.volumes);
        }
        if let Some(directory) = directory {
            directory.put(&mut w);
        }
        let mut out = w.into_vec();
        assert!(out.len() <= LEN - 32, "the limits of names and lists keep a superblock in its place");
        out.resize(LEN - 32, 0);
        let sum = frame_hash(&KEY, &[&out]);
        out.extend_from_slice(&sum);
        out
    }

    /// The inverse of [`Superblock::encode`], with the identity of the member. Of a superblock with a directory the list of virtual drives is empty.
    ///
    /// # Errors
    /// [`ashlar_format::Error`]: `Version` for another format, `Checksum` for damage, else `Malformed`.
    pub fn decode(bytes: &[u8]) -> Result<(Superblock, Id), ashlar_format::Error> {
        Superblock::decode_with(bytes).map(|(superblock, id, _)| (superblock, id))
    }

    /// The same, with what it says of the directory.
    pub(crate) fn decode_with(
        bytes: &[u8],
    ) -> Result<(Superblock, Id, Option<Reference>), ashlar_format::Error> {
        use ashlar_format::Error::{Checksum, Malformed, Version};
        if bytes.len() != LEN {
            return Err(Malformed("superblock length"));
        }
        let (body, sum) = bytes.split_at(LEN - 32);
        let mut r = Reader::new(body);
        if r.raw(8)? != MAGIC {
            return Err(Malformed("no superblock"));
        }
        if frame_hash(&KEY, &[body]) != sum {
            return Err(Checksum("superblock"));
        }
        let of_shape = |format| [FORMAT, FORMAT_GROWING, FORMAT_DECLUSTERED].contains(&format);
        let mut format = r.u32()?;
        let (has_properties, has_directory) = (format == FORMAT_PROPERTIES, format == FORMAT_DIRECTORY);
        if !of_shape(format) && !has_properties && !has_directory {
            return Err(Version { what: "superblock", found: format });
        }
        let group = r.array()?;
        let generation = r.u64()?;
        let device = r.array()?;
        let name = r.string()?;
        let level = get_level(&mut r)?;
        let (strip_blocks, stripes) = (r.u64()?, r.u64()?);
        let (policy, intents) = match r.u8()? {
            0 => (Policy::Journal, false),
            1 => (Policy::Bitmap, false),
            2 => (Policy::None, false),
            3 => (Policy::Journal, true),
            _ => return Err(Malformed("policy")),
        };
        let (journal_blocks, data_start, clean) = (r.u64()?, r.u64()?, r.bool()?);
        let mut slots = r.list(|r| {
            let device = r.array()?;
            let state = match r.u8()? {
                0 => MemberState::Online,
                1 => MemberState::Failed,
                2 => MemberState::Rebuild { done: r.u64()? },
                _ => return Err(Malformed("state")),
            };
            Ok(Slot { device, state, spare: None })
        })?;
        let spares = r.list(|r| r.array())?;
        let mut volumes = get_volumes(&mut r)?;
        let settings = Settings {
            rebuild_speed: r.u8()?,
            offline: r.list(|r| r.u16())?.into_iter().collect(),
            check_interval_s: r.u32()?,
            checked_ms: r.u64()?,
        };
        if has_properties || has_directory {
            format = r.u32()?;
            if !of_shape(format) {
                return Err(Malformed("version of the shape"));
            }
        }
        if strip_blocks == 0 || strip_blocks > 256 {
            return Err(Malformed("geometry"));
        }
        // All members together, and the areas before their data, are addressed by bytes in 63 bits.
        let rows = u128::from(stripes) * u128::from(strip_blocks);
        let blocks = rows * slots.len().max(1) as u128 + u128::from(data_start) + u128::from(journal_blocks);
        if blocks * BLOCK as u128 > i64::MAX as u128 {
            return Err(Malformed("geometry"));
        }
        let shape = |level, members| {
            Geometry::new(level, members, strip_blocks * BLOCK as u64, stripes * strip_blocks)
                .map_err(|_| Malformed("geometry"))
        };
        let (geometry, growth) = if format == FORMAT_GROWING {
            let geometry = usize::from(r.u16()?);
            let (to, moved) = (get_level(&mut r)?, r.u64()?);
            let (geometry, to) = (shape(level, geometry)?, shape(to, slots.len())?);
            if to.grows_from(&geometry).is_err() || moved > to.rows() {
                return Err(Malformed("growth"));
            }
            (geometry, Some(Growth { to, moved }))
        } else {
            (shape(level, slots.len())?, None)
        };
        if (geometry.spares > 0) != (format == FORMAT_DECLUSTERED) {
            return Err(Malformed("level of this format"));
        }
        if geometry.spares > 0 {
            let moved = r.list(|r| Ok((r.u16()?, InSpare { index: r.u8()?, below: r.u64()? })))?;
            put_in_spares(&mut slots, &moved, &geometry).ok_or(Malformed("distributed spares"))?;
        }
        if has_properties {
            properties::get(&mut r, &mut volumes)?;
        }
        let directory = if has_directory { Some(Reference::get(&mut r)?) } else { None };
        if has_directory && !volumes.is_empty() {
            return Err(Malformed("virtual drives beside a directory"));
        }
        let whole = Superblock {
            group,
            generation,
            name,
            geometry,
            policy,
            intents,
            journal_blocks,
            data_start,
            clean,
            slots,
            spares,
            volumes,
            settings,
            directory: has_directory,
            growth,
        };
        Ok((whole, device, directory))
    }
}

pub(crate) fn get_volumes(r: &mut Reader<'_>) -> Result<Vec<Volume>, ashlar_format::Error> {
    r.list(|r| Ok(Volume { name: r.string()?, start: r.u64()?, blocks: r.u64()?, ..Volume::default() }))
}

pub(crate) fn put_volumes(w: &mut Writer, volumes: &[Volume]) {
    w.list(volumes, |w, v| {
        w.bytes(v.name.as_bytes());
        w.u64(v.start);
        w.u64(v.blocks);
    });
}

/// Whether virtual drives fit the superblock, whatever else it says.
pub(crate) fn fit(volumes: &[Volume]) -> bool {
    let mut w = Writer::with_capacity(LEN);
    put_volumes(&mut w, volumes);
    properties::put(&mut w, volumes);
    volumes.len() <= IN_SUPERBLOCK && w.into_vec().len() <= VOLUMES_LEN
}

/// Gives members their distributed spares. None: these cannot be; the strips of a row are always all in one place.
fn put_in_spares(slots: &mut [Slot], moved: &[(u16, InSpare)], g: &Geometry) -> Option<()> {
    for (position, spare) in moved {
        let taken = slots.iter().any(|s| s.spare.is_some_and(|s| s.index == spare.index));
        let slot = slots.get_mut(usize::from(*position))?;
        let whole = spare.below.is_multiple_of(g.strip_blocks) && spare.below <= g.rows();
        let fits = usize::from(spare.index) < g.spares && !taken && slot.spare.is_none();
        if !whole || !fits || slot.state == MemberState::Online {
            return None;
        }
        slot.spare = Some(*spare);
    }
    let whole = |slot: &Slot| match slot.state {
        MemberState::Rebuild { done } => {
            let left = g.rows().checked_sub(done);
            let below = slot.spare.map_or(0, |s| s.below);
            done.is_multiple_of(g.strip_blocks) && left.is_some_and(|left| below <= left)
        }
        _ => true,
    };
    // In the order of positions, as it was written.
    (moved.is_sorted_by_key(|(position, _)| *position) && slots.iter().all(whole)).then_some(())
}

fn put_level(w: &mut Writer, level: Level) {
    let (level, a, b) = match level {
        Level::Raid0 => (0, 0, 0),
        Level::Raid1 => (1, 0, 0),
        Level::Raid10 => (10, 0, 0),
        Level::Raid5 => (5, 0, 0),
        Level::Raid6 => (6, 0, 0),
        Level::Coded { k, m } => (7, u16::from(k), u16::from(m)),
        Level::Raid50 { sets } => (50, sets, 0),
        Level::Raid60 { sets } => (60, sets, 0),
        Level::Declustered { k, m, spares } => (8, u16::from(k) | u16::from(m) << 8, u16::from(spares)),
    };
    w.u8(level);
    w.u16(a);
    w.u16(b);
}

fn get_level(r: &mut Reader<'_>) -> Result<Level, ashlar_format::Error> {
    let wrong = ashlar_format::Error::Malformed("level");
    let (level, a, b) = (r.u8()?, r.u16()?, r.u16()?);
    Ok(match (level, u8::try_from(a), u8::try_from(b)) {
        (0, ..) => Level::Raid0,
        (1, ..) => Level::Raid1,
        (10, ..) => Level::Raid10,
        (5, ..) => Level::Raid5,
        (6, ..) => Level::Raid6,
        (7, Ok(k), Ok(m)) => Level::Coded { k, m },
        (8, _, Ok(spares)) => Level::Declustered { k: a as u8, m: (a >> 8) as u8, spares },
        (50, ..) => Level::Raid50 { sets: a },
        (60, ..) => Level::Raid60 { sets: a },
        _ => return Err(wrong),
    })
}
