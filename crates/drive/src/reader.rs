//! Lookups, with and without waiting, and reads of records.
//!
//! Invariants: every record is checked before it is returned, against a hash bound to its position; what
//! cannot be read or checked is an error, never "absent"; the `_now` functions never wait for a device.
//!
//! Must not depend on: what records contain.

use crate::Error;
use crate::core::{Core, Shared};
use crate::entry::{Loc, Region, Register, Shard, ShardName};
use crate::files::Kind;
use crate::frames::ShardReader;
use crate::run::{Halt, Lookup, Mode};
use ashlar_format::RegisterKey;
use ashlar_format::journal::{self, Entry, RECORD_HEADER};
use ashlar_machine::DiskFile;
use bytes::Bytes;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Records of this size or more are read into pooled buffers.
const POOLED: usize = 32 << 10;
/// How often a lookup is repeated if compaction moves the record that it found.
const RETRIES: usize = 16;

impl Core {
    pub fn may_look_up(&self) -> Lookup<()> {
        if self.rebuilding {
            return Err(Halt::Failed(Error::Offline("the index is being rebuilt")));
        }
        Ok(())
    }
}

impl Shared {
    /// The index entry of a register.
    pub fn register_now(&self, key: &RegisterKey, mode: Mode) -> Lookup<Option<Register>> {
        Ok(self.look_up(key, mode)?.0)
    }

    /// The index entry of a register, and the generation of the index in which it was found.
    pub fn look_up(&self, key: &RegisterKey, mode: Mode) -> Lookup<(Option<Register>, u64)> {
        self.look_up_as(key, None, mode)
    }

    /// Like [`Shared::look_up`], for a register that a PREPARE may have looked up. `hash`: its name for the
    /// acceptor.
    pub fn look_up_again(
        &self,
        key: &RegisterKey,
        hash: u128,
        mode: Mode,
    ) -> Lookup<(Option<Register>, u64)> {
        self.look_up_as(key, Some(hash), mode)
    }

    fn look_up_as(
        &self,
        key: &RegisterKey,
        hash: Option<u128>,
        mode: Mode,
    ) -> Lookup<(Option<Register>, u64)> {
        let (runs, generation) = {
            let core = self.core.lock();
            core.may_look_up()?;
            let generation = core.generation;
            if let Some(found) = core.overlay.register(key) {
                return Ok((found.cloned(), generation));
            }
            if let Some(found) = hash.and_then(|h| core.found.get(h, generation)) {
                return Ok((Some(found.clone()), generation));
            }
            (core.runs.clone(), generation)
        };
        Ok((runs.register(key.as_bytes(), mode)?, generation))
    }

    /// The index entry of a shard.
    pub fn shard_now(self: &Arc<Self>, name: ShardName, mode: Mode) -> Lookup<Option<Shard>> {
        self.name_first(name, mode)?;
        Ok(self.look_up_shard(name, mode)?.0)
    }

    /// The index entry of a shard, or what will become one when the record that waits is written; and the generation
    /// of the index in which it was found.
    fn look_up_shard(&self, name: ShardName, mode: Mode) -> Lookup<(Option<Shard>, u64)> {
        let (runs, generation) = {
            let core = self.core.lock();
            core.may_look_up()?;
            if let Some(waits) = core.unnamed.shard(&name) {
                return Ok((Some(waits.clone()), core.generation));
            }
            match core.overlay.shard(&name) {
                Some(found) => return Ok((found.cloned(), core.generation)),
                None => (core.runs.clone(), core.generation),
            }
        };
        Ok((runs.shard(name, mode)?, generation))
    }

    /// Reads and checks a journal record; returns its payload.
    pub fn payload(&self, loc: Loc, kind: u8, mode: Mode) -> Lookup<Bytes> {
        let file = match self.files.peek(Kind::Journal, loc.segment) {
            Some(f) => f,
            None if mode == Mode::Now && self.threads => return Err(Halt::WouldBlock),
            None => self.journal_file(loc.segment).map_err(|e| self.read_failed(loc.segment, &e))?,
        };
        let len = RECORD_HEADER + loc.len as usize;
        let (bytes, found) = if len < POOLED {
            let mut v = vec![0; len];
            self.read_into(&file, &mut v, loc, mode)?;
            let found = self.check(&v, loc)?;
            (Bytes::from(v), found)
        } else {
            let mut b = match self.options.pool.try_get(len) {
                Some(b) => b,
                None if mode == Mode::Now => return Err(Halt::WouldBlock),
                None => self.options.pool.get_reserved(len),
            };
            self.read_into(&file, &mut b, loc, mode)?;
            let found = self.check(&b, loc)?;
            (b.freeze(), found)
        };
        if found != kind {
            return Err(self.corrupt(format!("journal record of another kind at {loc:?}")));
        }
        Ok(bytes.slice(RECORD_HEADER..))
    }

    fn read_into(&self, file: &DiskFile, buf: &mut [u8], loc: Loc, mode: Mode) -> Lookup<()> {
        self.counters.reads.fetch_add(1, Ordering::Relaxed);
        let at = u64::from(loc.at);
        match mode {
            Mode::Wait => file.read_at(buf, at).map_err(|e| self.read_failed(loc.segment, &e)),
            Mode::Now => match file.read_at_now(buf, at) {
                Ok(true) => Ok(()),
                Ok(false) => Err(Halt::WouldBlock),
                Err(e) => Err(self.read_failed(loc.segment, &e)),
            },
        }
    }

    fn check(&self, bytes: &[u8], loc: Loc) -> Lookup<u8> {
        match journal::record(bytes, &self.key, loc.segment, loc.at) {
            Ok((kind, p)) if p.len() == loc.len as usize => Ok(kind),
            _ => Err(self.corrupt(format!("journal record at {loc:?}"))),
        }
    }

    pub(crate) fn corrupt(&self, what: String) -> Halt {
        self.counters.read_errors.fetch_add(1, Ordering::Relaxed);
        Halt::Failed(Error::Corrupt(what))
    }

    pub(crate) fn read_failed(&self, segment: u32, e: &std::io::Error) -> Halt {
        match e.kind() {
            std::io::ErrorKind::NotFound | std::io::ErrorKind::UnexpectedEof => {
                self.corrupt(format!("segment {segment}: {e}"))
            }
            _ => {
                self.counters.read_errors.fetch_add(1, Ordering::Relaxed);
                Halt::Failed(Error::io(format!("reading segment {segment}"), e))
            }
        }
    }

    /// Repeats a read whose record compaction has moved in the meantime.
    fn settled<T>(&self, segment: u32, r: Lookup<T>) -> Option<Lookup<T>> {
        let moved = matches!(&r, Err(Halt::Failed(_))) && !self.core.lock().journal.contains_key(&segment);
        (!moved).then_some(r)
    }

    /// Entry and record bytes of a register.
    pub fn read_register(
        &self,
        key: &RegisterKey,
        want_record: bool,
        mode: Mode,
    ) -> Lookup<Option<(Register, Option<Bytes>)>> {
        for attempt in 0.. {
            let Some(r) = self.register_now(key, mode)? else { return Ok(None) };
            if !want_record {
                return Ok(Some((r, None)));
            }
            match self.record_of(key, &r, mode)? {
                Some(record) => return Ok(Some((r, Some(record)))),
                None if attempt < RETRIES => {}
                None => return Err(self.corrupt("a record that moves".into())),
            }
        }
        unreachable!("the loop returns")
    }

    /// The record bytes of an index entry. `None`: compaction has moved them.
    pub fn record_of(&self, key: &RegisterKey, r: &Register, mode: Mode) -> Lookup<Option<Bytes>> {
        let found = self.payload(r.loc, journal::kind::ACCEPT, mode);
        let Some(found) = self.settled(r.loc.segment, found) else { return Ok(None) };
        let payload = found?;
        let same = matches!(
            Entry::decode(journal::kind::ACCEPT, &payload),
            Ok(Entry::Accept(e)) if e.key == key.as_bytes() && e.ballot == r.ballot
        );
        if !same {
            return Err(self.corrupt(format!("the record of {key:?} is another one's")));
        }
        Ok(Some(payload.slice(payload.len() - r.record_len as usize..)))
    }

    /// Opens a shard.
    pub fn open_shard(self: &Arc<Self>, name: ShardName, mode: Mode) -> Lookup<ShardReader> {
        for attempt in 0.. {
            let (Some(s), generation) = self.look_up_shard(name, mode)? else {
                return Err(Halt::Failed(Error::Missing));
            };
            if let Some(region) = s.extent {
                return match self.open_extent(name, (&s, generation), region, mode)? {
                    Some(r) => Ok(r),
                    None if attempt < RETRIES => continue,
                    None => Err(Halt::Failed(Error::Missing)),
                };
            }
            let found = self.payload(s.loc, journal::kind::STAGE, mode);
            let found = match self.settled(s.loc.segment, found) {
                Some(f) => f,
                None if attempt < RETRIES => continue,
                None => Err(self.corrupt("a shard that moves".into())),
            };
            let payload = found?;
            let data = match Entry::decode(journal::kind::STAGE, &payload) {
                Ok(Entry::Stage(e)) if (e.write_id, e.index) == name && e.data.len() as u64 == s.len => {
                    payload.slice(payload.len() - e.data.len()..)
                }
                _ => return Err(self.corrupt("a shard's record is another one's".into())),
            };
            return Ok(ShardReader::inline(data));
        }
        unreachable!("the loop returns")
    }

    /// `None`: the entry has changed in the meantime.
    fn open_extent(
        self: &Arc<Self>,
        name: ShardName,
        (s, generation): (&Shard, u64),
        region: Region,
        mode: Mode,
    ) -> Lookup<Option<ShardReader>> {
        let file = match self.files.peek(Kind::Extent, region.segment) {
            Some(f) => f,
            None if mode == Mode::Now && self.threads => return Err(Halt::WouldBlock),
            None => match self.extent_file(region.segment) {
                Ok(f) => f,
                // The number is gone because its segment was empty: the entry is an old one.
                Err(_) if !self.core.lock().extents.contains_key(&region.segment) => return Ok(None),
                Err(e) => return Err(self.read_failed(region.segment, &e)),
            },
        };
        {
            // Pinned under the lock under which a discard would free it.
            let mut core = self.core.lock();
            // The region of a shard whose record waits cannot be freed before that is written.
            let waits = core.unnamed.shard(&name).is_some_and(|now| now.extent == s.extent);
            match core.overlay.shard(&name) {
                _ if waits => {}
                Some(Some(now)) if now.extent == s.extent => {}
                Some(_) => return Ok(None),
                // The index files changed since the lookup: the change that freed the region may be in them.
                None if core.generation != generation => return Ok(None),
                None => {}
            }
            // An empty segment leaves the table before it is used again or removed.
            if !core.extents.contains_key(&region.segment) {
                return Ok(None);
            }
            *core.pins.entry((region.segment, region.offset)).or_insert(0) += 1;
        }
        Ok(Some(ShardReader::in_extent(self.clone(), file, (name, s.len), region)))
    }
}
