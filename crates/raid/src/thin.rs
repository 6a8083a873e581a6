//! Thin virtual drives: room is given to them in pieces when these are first written, and taken back when they are discarded.
//!
//! A thin virtual drive has an extent of the address space with its map ([`crate::thin_map`]). The map is data of the group like any other, so it
//! has the redundancy, the checksums and the journal of the group. Positions are translated with the group in hand, which every request has for a
//! moment anyway: a look into the map takes no lock of its own, and nobody takes a piece away while others are between its translation and their
//! end ([`crate::flow`], [`crate::drive`]).
//!
//! Invariants:
//! - A piece that none has reads as zeros. So a piece is zeroed, durably, before the map gives it up, and free for others only when that is
//!   durable too; and the map has a piece durably before anything is written to it. A power cut leaves a piece of zeros where it was.
//! - Two entries never name one piece, and no entry one that something else has. A map that says so, or cannot be read, is damaged: its virtual
//!   drive is not served, and no room is given out in the group, as it may be somebody's, until it is deleted.
//! - A write that finds no room changes nothing.
//!
//! Must not depend on: how requests arrive, threads.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use crate::Error;
use crate::geometry::BLOCK;
use crate::group::Group;
#[cfg(test)]
use crate::group::Mutant;
use crate::superblock::{MAX_THIN, ThinMap, Volume};
use crate::thin_map::{self, ENTRIES, Map};
use crate::thin_room::Room;
use crate::thin_state::{Changed, Loaded, Run, ThinStatus};
use crate::write::Request;

/// Blocks of a map that are read at once.
const LOAD: u64 = 256;
/// A map has room for a virtual drive so many times as large.
const GROWTH: u64 = 4;

impl Group {
    /// Blocks of a piece; extents of the address space begin at a multiple of them.
    pub(crate) fn piece_blocks(&self) -> u64 {
        1 << self.piece_log
    }

    fn piece_bytes(&self) -> u64 {
        self.piece_blocks() * BLOCK as u64
    }

    /// Pieces of the address space.
    fn pieces(&self) -> u64 {
        self.geometry().blocks() / self.piece_blocks()
    }

    /// The map of a new thin virtual drive of so many blocks.
    pub(crate) fn map_for(&self, blocks: u64) -> Result<ThinMap, Error> {
        if blocks > MAX_THIN || self.pieces() > u64::from(u32::MAX) - 1 {
            return Err(Error::State(format!(
                "a thin virtual drive has {} bytes at most, and a group with any as many pieces as 32 bits can count",
                MAX_THIN * BLOCK as u64
            )));
        }
        let entries = blocks.div_ceil(self.piece_blocks()) * GROWTH;
        let blocks = entries.div_ceil(ENTRIES as u64).next_multiple_of(self.piece_blocks());
        Ok(ThinMap { blocks: blocks as u32, piece_log: self.piece_log })
    }

    /// Reads all maps.
    ///
    /// # Errors
    /// [`Error::Failed`] and what else stops the group. What a map says is no error of the group.
    pub(crate) fn load_maps(&mut self) -> Result<(), Error> {
        self.thin.maps.clear();
        for volume in self.superblock.volumes.clone() {
            let Some(thin) = volume.thin else { continue };
            let loaded = match self.load_map(volume.start, u64::from(thin.blocks)) {
                Ok(map) => Loaded { map: Some(map), damage: None },
                Err(error) => {
                    self.running()?;
                    Loaded { map: None, damage: Some(format!("its map cannot be read: {error}")) }
                }
            };
            self.thin.maps.insert(volume.start, loaded);
        }
        self.refresh_room();
        Ok(())
    }

    fn load_map(&mut self, start: u64, blocks: u64) -> Result<Map, Error> {
        let mut map = Map::new(blocks);
        let mut bytes = vec![0; LOAD as usize * BLOCK];
        for first in (0..blocks).step_by(LOAD as usize) {
            let count = LOAD.min(blocks - first);
            let bytes = &mut bytes[..count as usize * BLOCK];
            self.read((start + first) * BLOCK as u64, bytes)?;
            (first..).zip(bytes.chunks_exact(BLOCK)).for_each(|(n, b)| map.set(n, thin_map::decode(b)));
        }
        Ok(map)
    }

    /// A new virtual drive has an empty map.
    pub(crate) fn add_map(&mut self, volume: &Volume) {
        if let Some(thin) = volume.thin {
            let map = Some(Map::new(u64::from(thin.blocks)));
            self.thin.maps.insert(volume.start, Loaded { map, damage: None });
        }
    }

    /// Finds out what is free from what the superblock and the maps say, and which maps are damaged.
    pub(crate) fn refresh_room(&mut self) {
        let thin: BTreeMap<u64, u64> = self
            .superblock
            .volumes
            .iter()
            .filter(|v| v.thin.is_some())
            .map(|v| (v.start, v.blocks))
            .collect();
        self.thin.maps.retain(|start, _| thin.contains_key(start));
        if thin.is_empty() {
            self.thin.room = None;
            return;
        }
        let piece = self.piece_blocks();
        let mut room = Room::new(self.pieces());
        for (start, end) in self.extents() {
            (start / piece..end.div_ceil(piece)).for_each(|p| _ = room.take(p));
        }
        let mut twice: BTreeMap<u64, &'static str> = BTreeMap::new();
        let named = self.thin.maps.values().filter_map(|l| l.map.as_ref()).flat_map(Map::all);
        let mut seen = Room::new(room.pieces());
        for (_, p) in named {
            if !seen.take(p) {
                twice.insert(p, if p < room.pieces() { "two entries name it" } else { "there is none" });
            } else if !room.take(p) {
                twice.insert(p, "something else has it");
            }
        }
        for (start, loaded) in &mut self.thin.maps {
            let Some(map) = &loaded.map else { continue };
            let wrong = map.all().find_map(|(index, p)| match twice.get(&p) {
                Some(why) => Some((index, p, *why)),
                None if index * piece >= thin[start] => Some((index, p, "it is behind the end")),
                None => None,
            });
            loaded.damage = wrong.map(|(index, p, why)| {
                format!("its map is damaged: the entry of its piece {index} names piece {p} of the group, but {why}")
            });
        }
        self.thin.room = Some(room);
    }

    /// Refuses while it is not known which room is free.
    pub(crate) fn room_is_known(&self) -> Result<(), Error> {
        let damaged = |v: &&Volume| self.thin.maps.get(&v.start).is_some_and(|l| l.damage.is_some());
        match self.superblock.volumes.iter().find(damaged) {
            Some(v) => Err(Error::State(format!(
                "the map of the virtual drive {:?} is damaged: no room is given out in this group before it is deleted",
                v.name
            ))),
            None => Ok(()),
        }
    }

    /// The map of a virtual drive that is served.
    fn map(&self, volume: &Volume) -> Result<&Map, Error> {
        match self.thin.maps.get(&volume.start) {
            Some(Loaded { map: Some(map), damage: None }) => Ok(map),
            Some(Loaded { damage: Some(why), .. }) => {
                Err(Error::Damaged(format!("the virtual drive {:?} is not served: {why}", volume.name)))
            }
            _ => Err(Error::State(format!("the virtual drive {:?} was deleted", volume.name))),
        }
    }

    /// Pieces of a thin virtual drive that a range touches.
    pub(crate) fn touched(&self, at: u64, len: u64) -> Range<u64> {
        if len == 0 { 0..0 } else { at / self.piece_bytes()..(at + len).div_ceil(self.piece_bytes()) }
    }

    /// Where a range of a thin virtual drive is. Pieces that lie one after another are one run. The range is inside of it.
    ///
    /// # Errors
    /// [`Error::Damaged`], [`Error::State`].
    pub(crate) fn translate(&self, volume: &Volume, at: u64, len: u64) -> Result<Vec<Run>, Error> {
        let (map, piece) = (self.map(volume)?, self.piece_bytes());
        let mut out: Vec<Run> = Vec::new();
        for index in self.touched(at, len) {
            let begin = at.max(index * piece);
            let end = (at + len).min((index + 1) * piece);
            let place = map.get(index).map(|p| p * piece + begin % piece);
            match out.last_mut() {
                Some(last) if last.at.map(|a| a + last.len) == place => last.len += end - begin,
                _ => out.push(Run { from: begin - at, len: end - begin, at: place }),
            }
        }
        Ok(out)
    }

    /// Whether a write needs room that its virtual drive does not have.
    pub(crate) fn needs_room(&self, volume: &Volume, at: u64, len: u64) -> bool {
        self.map(volume).is_ok_and(|map| self.touched(at, len).any(|index| map.get(index).is_none()))
    }

    /// Gives writes room, by their numbers: virtual drive, first byte and bytes, inside of it. The errors of those that get none. Nothing is under way.
    pub(crate) fn give_room(&mut self, writes: &[(usize, &Volume, u64, u64)]) -> BTreeMap<usize, Error> {
        let mut refused = BTreeMap::new();
        let mut given: BTreeMap<(u64, u64), u64> = BTreeMap::new();
        for (number, volume, at, len) in writes {
            let Ok(map) = self.map(volume) else { continue };
            let missing: Vec<u64> = self
                .touched(*at, *len)
                .filter(|index| map.get(*index).is_none() && !given.contains_key(&(volume.start, *index)))
                .collect();
            if missing.is_empty() {
                continue;
            }
            match self.choose_pieces(missing.len() as u64) {
                Ok(pieces) => {
                    given.extend(missing.into_iter().map(|index| (volume.start, index)).zip(pieces));
                }
                Err(error) => drop(refused.insert(*number, error)),
            }
        }
        if given.is_empty() {
            return refused;
        }
        let mut changed = Changed::new();
        for ((start, index), piece) in &given {
            let (block, at) = Map::place(*index);
            let entries =
                changed.entry((*start, block)).or_insert_with(|| self.thin.maps[start].entries(block));
            entries[at] =
                thin_map::entry(*piece).expect("the group has no more pieces than entries can name");
        }
        #[cfg(test)]
        if self.has(Mutant::MappedTooLate) {
            for ((start, block), entries) in &changed {
                let map = self.thin.maps.get_mut(start).and_then(|l| l.map.as_mut()).unwrap();
                map.set(*block, Some(entries.clone()));
            }
            self.thin.late = changed;
            return refused;
        }
        let failed = self.write_maps(changed);
        for ((start, index), piece) in &given {
            if let Some(error) = failed.get(&(*start, Map::place(*index).0)) {
                self.give_back(*piece);
                let without = writes.iter().filter(|(_, volume, at, len)| {
                    volume.start == *start && self.touched(*at, *len).contains(index)
                });
                refused.extend(without.map(|(number, ..)| (*number, error.clone())));
            }
        }
        refused
    }

    fn give_back(&mut self, piece: u64) {
        if let Some(room) = &mut self.thin.room {
            room.give(piece);
        }
    }

    /// Writes what a mutant has not written.
    #[cfg(test)]
    pub(crate) fn write_late(&mut self) {
        let late = std::mem::take(&mut self.thin.late);
        if !late.is_empty() {
            assert!(self.write_maps(late).is_empty());
        }
    }

    /// Takes so many free pieces.
    fn choose_pieces(&mut self, count: u64) -> Result<Vec<u64>, Error> {
        self.room_is_known()?;
        if self.thin.room.as_ref().is_some_and(|room| room.pieces() != self.pieces()) {
            // The group has grown.
            self.refresh_room();
        }
        let Some(room) = self.thin.room.as_mut().filter(|room| room.free() >= count) else {
            return Err(Error::NoSpace);
        };
        Ok((0..count).filter_map(|_| room.take_first()).collect())
    }

    /// Writes blocks of maps, durably, and takes over those that were. The errors of the others.
    fn write_maps(&mut self, changed: Changed) -> BTreeMap<(u64, u64), Error> {
        let content: Vec<(u64, Vec<u8>)> = changed
            .iter()
            .map(|((start, block), entries)| ((start + block) * BLOCK as u64, thin_map::encode(entries)))
            .collect();
        let requests: Vec<Request<'_>> =
            content.iter().map(|(at, data)| Request::Write { at: *at, data }).collect();
        let mut results = self.apply(&requests);
        if let Err(error) = self.flush() {
            results.fill(Err(error));
        }
        let mut failed = BTreeMap::new();
        for (((start, block), entries), result) in changed.into_iter().zip(results) {
            match (result, self.thin.maps.get_mut(&start).and_then(|l| l.map.as_mut())) {
                (Ok(()), Some(map)) => map.set(block, Some(entries)),
                (Ok(()), None) => {}
                (Err(error), _) => drop(failed.insert((start, block), error)),
            }
        }
        failed
    }

    /// The pieces of a thin virtual drive that lie in a range as a whole, as far as it has any.
    pub(crate) fn whole_pieces(&self, volume: &Volume, at: u64, len: u64) -> Vec<u64> {
        let Ok(map) = self.map(volume) else { return Vec::new() };
        let now = self.superblock.volumes.iter().find(|v| v.start == volume.start);
        let size = now.map_or(0, |v| v.blocks) * BLOCK as u64;
        let (piece, end) = (self.piece_bytes(), at + len);
        // What is behind the end of the last one reads as zeros.
        let last = if end == size { end.div_ceil(piece) } else { end / piece };
        (at.div_ceil(piece)..last).filter(|index| map.get(*index).is_some()).collect()
    }

    /// Takes pieces back, which read as zeros, durably so under the policy `journal`. Nothing is under way.
    ///
    /// # Errors
    /// [`Error::Lost`], [`Error::Failed`]: those whose part of the map could not be written stay.
    pub(crate) fn take_back(&mut self, pieces: &BTreeSet<(u64, u64)>) -> Result<(), Error> {
        if pieces.is_empty() {
            return Ok(());
        }
        self.flush()?;
        let (mut changed, mut freed) = (Changed::new(), Vec::new());
        for (start, index) in pieces {
            let Some(loaded) = self.thin.maps.get(start) else { continue };
            let (block, at) = Map::place(*index);
            let entries = changed.entry((*start, block)).or_insert_with(|| loaded.entries(block));
            if let Some(piece) = loaded.map.as_ref().and_then(|m| m.get(*index)) {
                entries[at] = 0;
                freed.push(((*start, block), piece));
            }
        }
        #[cfg(test)]
        if self.has(Mutant::FreeTooSoon) {
            freed.iter().for_each(|(_, piece)| self.give_back(*piece));
            for ((start, block), entries) in changed {
                self.thin
                    .maps
                    .get_mut(&start)
                    .and_then(|l| l.map.as_mut())
                    .unwrap()
                    .set(block, Some(entries));
            }
            return Ok(());
        }
        let failed = self.write_maps(changed);
        for (place, piece) in freed {
            if !failed.contains_key(&place) {
                self.give_back(piece);
            }
        }
        failed.into_values().next().map_or(Ok(()), Err)
    }

    /// Makes a range of a thin virtual drive zeros and takes its whole pieces back, also a large range. Nothing is under way.
    pub(crate) fn clear_thin(&mut self, volume: &Volume, at: u64, len: u64) -> Result<(), Error> {
        let (piece, end, size) = (self.piece_bytes(), at + len, volume.blocks * BLOCK as u64);
        let range = self.touched(at, len);
        let has: Vec<(u64, u64)> =
            self.map(volume)?.all().filter(|(index, _)| range.contains(index)).collect();
        let mut runs: Vec<(u64, u64)> = Vec::new();
        let mut whole = BTreeSet::new();
        for (index, place) in has {
            let (from, to) = (at.max(index * piece), end.min((index + 1) * piece));
            // What is behind the end of the last one reads as zeros.
            if from == index * piece && (to == from + piece || to == size) {
                whole.insert((volume.start, index));
            }
            let (place, bytes) = (place * piece + from % piece, to - from);
            match runs.last_mut() {
                Some((begin, len)) if *begin + *len == place => *len += bytes,
                _ => runs.push((place, bytes)),
            }
        }
        #[cfg(test)]
        if self.has(Mutant::GivenUpUncleared) {
            runs.clear();
        }
        runs.iter().try_for_each(|(at, len)| self.zero(*at, *len))?;
        self.take_back(&whole)
    }

    /// Makes everything zeros that a virtual drive has, and its map, so that it can be removed.
    pub(crate) fn empty_thin(&mut self, volume: &Volume, thin: ThinMap) -> Result<(), Error> {
        if self.map(volume).is_ok() {
            self.clear_thin(volume, 0, volume.blocks * BLOCK as u64)?;
        } else {
            self.empty_damaged(volume)?;
        }
        self.zero(volume.start * BLOCK as u64, u64::from(thin.blocks) * BLOCK as u64)?;
        self.flush()
    }

    /// Nobody knows what a virtual drive has whose map is damaged: all is made zeros that nothing else has.
    fn empty_damaged(&mut self, volume: &Volume) -> Result<(), Error> {
        let unknown = |v: &&Volume| {
            v.start != volume.start && self.thin.maps.get(&v.start).is_some_and(|l| l.map.is_none())
        };
        if let Some(other) = self.superblock.volumes.iter().find(unknown) {
            return Err(Error::State(format!(
                "the map of the virtual drive {:?} cannot be read either: what is deleted cannot be told from what it has",
                other.name
            )));
        }
        let all = self.pieces();
        let named = |start: &u64, loaded: &Loaded| -> Vec<u64> {
            let others = loaded.map.as_ref().filter(|_| *start != volume.start);
            others.map(|map| map.all().map(|(_, p)| p).filter(|p| *p < all).collect()).unwrap_or_default()
        };
        let pieces: Vec<u64> = self.thin.maps.iter().flat_map(|(start, l)| named(start, l)).collect();
        let mut taken = self.extents();
        taken.extend(pieces.into_iter().map(|p| (p * self.piece_blocks(), (p + 1) * self.piece_blocks())));
        for (start, len) in self.between(taken) {
            self.zero(start * BLOCK as u64, len * BLOCK as u64)?;
        }
        self.flush()
    }

    /// Extents of the address space that virtual drives have from the beginning: first block, and the one behind the last.
    fn extents(&self) -> Vec<(u64, u64)> {
        let extent = |v: &Volume| (v.start, v.start + v.thin.map_or(v.blocks, |t| u64::from(t.blocks)));
        self.superblock.volumes.iter().map(extent).collect()
    }

    /// What virtual drives have of the address space: first block, and the one behind the last.
    pub(crate) fn taken(&self) -> Vec<(u64, u64)> {
        let mut out = self.extents();
        let piece = self.piece_blocks();
        let maps = self.thin.maps.values().filter_map(|l| l.map.as_ref());
        out.extend(maps.flat_map(Map::all).map(|(_, p)| (p * piece, (p + 1) * piece)));
        out
    }

    /// The room between extents, from multiples of a piece on: first block and blocks.
    pub(crate) fn between(&self, mut taken: Vec<(u64, u64)>) -> Vec<(u64, u64)> {
        taken.sort_unstable();
        taken.push((self.geometry().blocks(), 0));
        let (mut free, mut out) = (0u64, Vec::new());
        for (start, end) in taken {
            if start > free {
                out.push((free, start - free));
            }
            free = free.max(end.next_multiple_of(self.piece_blocks()));
        }
        out
    }

    /// Bytes of a virtual drive that its map has room for.
    pub(crate) fn most_of(&self, thin: ThinMap) -> u64 {
        (u64::from(thin.blocks) * ENTRIES as u64 * self.piece_blocks()).min(MAX_THIN)
    }

    /// What the thin virtual drives have.
    #[must_use]
    pub fn thin_drives(&self) -> Vec<ThinStatus> {
        let thin = self.superblock.volumes.iter().filter(|v| v.thin.is_some());
        let status = |v: &Volume| {
            let loaded = self.thin.maps.get(&v.start)?;
            let given = loaded.map.as_ref().map_or(0, Map::given);
            let damage = loaded.damage.clone();
            Some(ThinStatus { name: v.name.clone(), allocated: given * self.piece_bytes(), damage })
        };
        thin.filter_map(status).collect()
    }

    /// Bytes of the group that a thin virtual drive has.
    pub(crate) fn given(&self, volume: &Volume) -> Option<u64> {
        Some(self.thin.maps.get(&volume.start)?.map.as_ref()?.given() * self.piece_bytes())
    }

    /// Bytes of the address space that no virtual drive has.
    #[must_use]
    pub fn free(&self) -> u64 {
        let extents: u64 = self.extents().iter().map(|(start, end)| end - start).sum();
        let thin: u64 = self.thin_drives().iter().map(|t| t.allocated).sum();
        self.size().saturating_sub(extents * BLOCK as u64 + thin)
    }
}
