//! Where a virtual block lies: levels, strips, rotation of parity.
//!
//! A group has `sets` sets of `k + m` members. A stripe is one strip on each member of a set; stripes take turns
//! over the sets. A **row** is one block on each member of a set, all at the same block of the data area: the
//! unit of parity, of checksums and of recovery. Row `r` belongs to stripe `r / strip_blocks`. In a row, **role**
//! `0..k` are the data blocks and `k..k + m` the parity blocks of the code; stripe `t` has role `r` on member
//! `(r + n - t mod n) mod n` of the set: the left-symmetric rotation.
//!
//! Invariant: every virtual block maps to one (set, row, role), and every (set, row, role < k) to one block. This
//! mapping is part of the on-drive format.
//!
//! Must not depend on: devices, bytes, the state of members.

use std::fmt;
use std::ops::Range;
use std::str::FromStr;

use ashlar_erasure::MAX_ROWS;

use crate::Error;
use crate::superblock::MAX_SPARES;

/// Bytes of a block: the unit of checksums and of atomicity.
pub const BLOCK: usize = 4096;

/// Members of a group that grows, at most: the blocks of a row move together, in one entry of the journal.
pub(crate) const MOST_GROWING: usize = crate::journal::MAX_CHANGES;

/// A RAID level.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Level {
    /// Stripes without redundancy.
    Raid0,
    /// The same data on every member.
    Raid1,
    /// Stripes over pairs of equal members.
    Raid10,
    /// One parity strip per stripe.
    Raid5,
    /// Two parity strips per stripe.
    Raid6,
    /// `k` data and `m` parity strips per stripe.
    Coded {
        /// Data strips.
        k: u8,
        /// Parity strips.
        m: u8,
    },
    /// Stripes over this many sets of RAID 5.
    Raid50 {
        /// Sets.
        sets: u16,
    },
    /// Stripes over this many sets of RAID 6.
    Raid60 {
        /// Sets.
        sets: u16,
    },
    /// Stripes of `k + m` over more members than that, in turn over all of them, with room distributed over all members into which the
    /// blocks of this many failed ones are rebuilt.
    Declustered {
        /// Data strips.
        k: u8,
        /// Parity strips.
        m: u8,
        /// Distributed spares.
        spares: u8,
    },
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Level::Raid0 => f.write_str("0"),
            Level::Raid1 => f.write_str("1"),
            Level::Raid10 => f.write_str("10"),
            Level::Raid5 => f.write_str("5"),
            Level::Raid6 => f.write_str("6"),
            Level::Coded { k, m } => write!(f, "{k}+{m}"),
            Level::Raid50 { sets } => write!(f, "50x{sets}"),
            Level::Raid60 { sets } => write!(f, "60x{sets}"),
            Level::Declustered { k, m, spares } => write!(f, "{k}+{m}s{spares}"),
        }
    }
}

impl FromStr for Level {
    type Err = Error;
    /// `0`, `1`, `10`, `5`, `6`, `K+M`, `50`, `60`; `50x3` has three sets, `50` two; `K+MsS` is declustered, with S distributed spares.
    fn from_str(s: &str) -> Result<Level, Error> {
        let wrong = || {
            Error::Layout(format!(
                "{s:?} is not a level; levels are 0, 1, 10, 5, 6, K+M, 50, 60, 50xSETS, 60xSETS, K+MsSPARES"
            ))
        };
        if let Some((k, m)) = s.split_once('+') {
            let number = |s: &str| s.parse().map_err(|_| wrong());
            let k = number(k)?;
            return Ok(match m.split_once('s') {
                Some((m, spares)) => Level::Declustered { k, m: number(m)?, spares: number(spares)? },
                None => Level::Coded { k, m: number(m)? },
            });
        }
        let (level, sets) = match s.split_once('x') {
            Some((level, sets)) => (level, Some(sets.parse().map_err(|_| wrong())?)),
            None => (s, None),
        };
        match (level, sets) {
            ("0", None) => Ok(Level::Raid0),
            ("1", None) => Ok(Level::Raid1),
            ("10", None) => Ok(Level::Raid10),
            ("5", None) => Ok(Level::Raid5),
            ("6", None) => Ok(Level::Raid6),
            ("50", sets) => Ok(Level::Raid50 { sets: sets.unwrap_or(2) }),
            ("60", sets) => Ok(Level::Raid60 { sets: sets.unwrap_or(2) }),
            _ => Err(wrong()),
        }
    }
}

/// The place of a virtual block.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Place {
    /// The set of members.
    pub set: u32,
    /// The row of the set.
    pub row: u64,
    /// The role in the row, below `k`.
    pub role: usize,
}

/// The shape of a group.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Geometry {
    /// The level.
    pub level: Level,
    /// Sets of members.
    pub sets: u32,
    /// Data blocks of a row.
    pub k: usize,
    /// Parity blocks of a row.
    pub m: usize,
    /// Distributed spares. With any, the group is declustered: members turn over the sets, and each member has a block of each row that
    /// is one of a set or of a spare.
    pub spares: usize,
    /// Blocks of a strip.
    pub strip_blocks: u64,
    /// Stripes of each set.
    pub stripes: u64,
}

impl Geometry {
    /// The shape of `members` members of `data_blocks` blocks each. Blocks that do not fill a strip are unused.
    ///
    /// # Errors
    /// [`Error::Layout`].
    pub fn new(level: Level, members: usize, strip_bytes: u64, data_blocks: u64) -> Result<Geometry, Error> {
        if !strip_bytes.is_power_of_two() || !(4 << 10..=1 << 20).contains(&strip_bytes) {
            return Err(Error::Layout(format!(
                "a strip has 4 KiB to 1 MiB, a power of two; {strip_bytes} bytes is not"
            )));
        }
        let strip_blocks = strip_bytes / BLOCK as u64;
        let (sets, k, m, spares) = shape(level, members)?;
        let stripes = data_blocks / strip_blocks;
        if stripes == 0 {
            return Err(Error::Layout(format!(
                "members of {data_blocks} data blocks hold no strip of {strip_bytes} bytes"
            )));
        }
        Ok(Geometry { level, sets, k, m, spares, strip_blocks, stripes })
    }

    /// Members of a set.
    #[must_use]
    pub fn n(&self) -> usize {
        self.k + self.m
    }

    /// Members of the group.
    #[must_use]
    pub fn members(&self) -> usize {
        self.sets as usize * self.n() + self.spares
    }

    /// Whether members turn over the sets: then [`Geometry::slot`] and what belongs to it do not say where a block is.
    #[must_use]
    pub fn is_declustered(&self) -> bool {
        self.spares > 0
    }

    /// How many parts of the members there are of which each tolerates failures for itself: the sets, or one that has all members.
    pub(crate) fn parts(&self) -> u32 {
        if self.is_declustered() { 1 } else { self.sets }
    }

    /// The part that a member is of.
    pub(crate) fn part(&self, slot: usize) -> u32 {
        if self.is_declustered() { 0 } else { self.set(slot) }
    }

    /// The members of a part.
    pub(crate) fn members_of(&self, part: u32) -> Range<usize> {
        let n = if self.is_declustered() { self.members() } else { self.n() };
        part as usize * n..(part as usize + 1) * n
    }

    /// Blocks of the virtual address space.
    #[must_use]
    pub fn blocks(&self) -> u64 {
        self.stripes * self.strip_blocks * self.k as u64 * u64::from(self.sets)
    }

    /// Rows of each set: blocks of each member that are used.
    #[must_use]
    pub fn rows(&self) -> u64 {
        self.stripes * self.strip_blocks
    }

    /// Where a virtual block lies.
    #[must_use]
    pub fn locate(&self, block: u64) -> Place {
        let (strip, offset) = (block / self.strip_blocks, block % self.strip_blocks);
        let per_stripe = self.k as u64;
        let (over_sets, role) = (strip / per_stripe, (strip % per_stripe) as usize);
        let (stripe, set) = (over_sets / u64::from(self.sets), (over_sets % u64::from(self.sets)) as u32);
        Place { set, row: stripe * self.strip_blocks + offset, role }
    }

    /// The virtual block at a place; none for parity.
    #[must_use]
    pub fn block(&self, place: Place) -> Option<u64> {
        if place.role >= self.k {
            return None;
        }
        let (stripe, offset) = (place.row / self.strip_blocks, place.row % self.strip_blocks);
        let strip =
            (stripe * u64::from(self.sets) + u64::from(place.set)) * self.k as u64 + place.role as u64;
        Some(strip * self.strip_blocks + offset)
    }

    /// The position in the group of the member that has a role in a row, unless the group is declustered.
    #[must_use]
    pub fn slot(&self, set: u32, row: u64, role: usize) -> usize {
        let n = self.n() as u64;
        let turn = (row / self.strip_blocks) % n;
        set as usize * self.n() + ((role as u64 + n - turn) % n) as usize
    }

    /// The positions of the members of a row, by role.
    #[must_use]
    pub fn slots(&self, set: u32, row: u64) -> Vec<usize> {
        (0..self.n()).map(|role| self.slot(set, row, role)).collect()
    }

    /// Blocks of the virtual address space that a row of all sets has.
    #[must_use]
    pub fn per_row(&self) -> u64 {
        self.k as u64 * u64::from(self.sets)
    }

    /// The role that a member has in a row: the inverse of [`Geometry::slot`] within its set.
    #[must_use]
    pub fn role(&self, slot: usize, row: u64) -> usize {
        let n = self.n() as u64;
        ((slot as u64 % n + row / self.strip_blocks) % n) as usize
    }

    /// The set of a member, unless the group is declustered.
    #[must_use]
    pub fn set(&self, slot: usize) -> u32 {
        (slot / self.n()) as u32
    }
}

impl Geometry {
    /// Whether a group of the shape `from` can get this one: why not.
    ///
    /// No row of this shape may need a block that lies below it in the old one, so that rows move in their order, and each one over
    /// blocks that have moved or move with it. With at least as many data blocks in a row (of all sets) that is so: the blocks of row `r`
    /// come from rows `r` and above.
    ///
    /// # Errors
    /// [`Error::Layout`].
    pub fn grows_from(&self, from: &Geometry) -> Result<(), Error> {
        let not = |why: String| Err(Error::Layout(why));
        if self.is_declustered() || from.is_declustered() {
            return Err(declustered_does_not_grow());
        }
        if self.strip_blocks != from.strip_blocks || self.stripes != from.stripes {
            return not("growth changes neither the strip nor the size of members".into());
        }
        if self.members() < from.members() {
            return not("growth takes no drive away".into());
        }
        if self.per_row() < from.per_row() {
            return not(format!(
                "level {} of {} drives has less room than level {} of {}: growth makes nothing smaller",
                self.level,
                self.members(),
                from.level,
                from.members()
            ));
        }
        if self.m < from.m {
            return not(format!(
                "level {} has less parity than level {}: growth takes none away",
                self.level, from.level
            ));
        }
        if (self.per_row(), self.m, self.members()) == (from.per_row(), from.m, from.members()) {
            return not(format!("the group has level {} with {} drives already", from.level, from.members()));
        }
        if self.members() > MOST_GROWING {
            return not(format!("a group of more than {MOST_GROWING} drives does not grow"));
        }
        Ok(())
    }
}

/// Why a declustered group is no shape before or after growth.
pub(crate) fn declustered_does_not_grow() -> Error {
    Error::Layout("a declustered group does not grow, and no group becomes one".into())
}

/// Sets, k, m and distributed spares of a level.
fn shape(level: Level, members: usize) -> Result<(u32, usize, usize, usize), Error> {
    let (sets, m, least) = match level {
        Level::Raid0 => (1, 0, 1),
        Level::Raid1 => (1, members.saturating_sub(1), 2),
        Level::Raid10 => (members / 2, 1, 2),
        Level::Raid5 => (1, 1, 3),
        Level::Raid6 => (1, 2, 4),
        Level::Coded { k, m } => (1, usize::from(m), usize::from(k.max(1)) + usize::from(m)),
        Level::Raid50 { sets } => (usize::from(sets), 1, 3),
        Level::Raid60 { sets } => (usize::from(sets), 2, 4),
        Level::Declustered { k, m, spares } => {
            return declustered(level, usize::from(k), usize::from(m), usize::from(spares), members);
        }
    };
    if sets == 0 || !members.is_multiple_of(sets) || members / sets < least {
        return Err(Error::Layout(format!(
            "level {level} needs at least {least} members in each of its {} sets, all equal; {members} members do not fit",
            sets.max(1)
        )));
    }
    let n = members / sets;
    if let Level::Coded { k, m } = level
        && n != usize::from(k) + usize::from(m)
    {
        return Err(Error::Layout(format!(
            "level {level} has {} members, not {members}",
            u32::from(k) + u32::from(m)
        )));
    }
    if n > MAX_ROWS {
        return Err(Error::Layout(format!("a set has at most {MAX_ROWS} members, not {n}")));
    }
    if let Level::Coded { k: 0, .. } = level {
        return Err(Error::Layout("a level K+M needs K of at least 1".into()));
    }
    Ok((sets as u32, n - m, m, 0))
}

/// As [`shape`], of a declustered level: what is left of the members without the spares are whole stripes.
fn declustered(
    level: Level,
    k: usize,
    m: usize,
    spares: usize,
    members: usize,
) -> Result<(u32, usize, usize, usize), Error> {
    let n = k + m;
    if k == 0 || m == 0 || n > MAX_ROWS || spares == 0 || spares > MAX_SPARES {
        return Err(Error::Layout(format!(
            "a declustered level has stripes of at least one data and one parity strip, at most {MAX_ROWS} together, and 1 to {MAX_SPARES} \
             distributed spares; {level} has not"
        )));
    }
    let left = members.saturating_sub(spares);
    if left == 0 || !left.is_multiple_of(n) {
        let fits = (1..=MAX_SPARES).filter(|s| members > *s && (members - s).is_multiple_of(n));
        let fits: Vec<String> = fits.map(|s| s.to_string()).collect();
        let hint = match fits.is_empty() {
            true => {
                format!("; stripes of {n} fit no number of spares: choose another width, or other drives")
            }
            false => format!("; with stripes of {n} and {members} members it can be {}", fits.join(", ")),
        };
        return Err(Error::Layout(format!(
            "level {level} of {members} members: the members without the {spares} distributed spares have to be a multiple of \
             the {n} of a stripe{hint}"
        )));
    }
    Ok(((left / n) as u32, k, m, spares))
}
