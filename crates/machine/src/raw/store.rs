//! The files of a device: names, places, space, and how changes become durable.
//!
//! All names and places are in memory. Changes of them are collected and written as one batch into one of two logs when somebody asks
//! for durability; when a log is full, the whole state goes to the other one as a checkpoint.
//!
//! Invariants: a batch takes effect whole or not at all; the data that it speaks of was flushed before it is written; blocks that the
//! durable state uses are not given to another file; a log is overwritten only when the other one is whole and flushed; after a
//! failed write or flush of a batch nothing becomes durable any more, and everybody who asks is told.
//!
//! Must not depend on: what files contain, paths.

use std::io::{self, ErrorKind, IoSlice};
use std::sync::{Arc, OnceLock};

use parking_lot::{Mutex, MutexGuard};

use super::device::RawDevice;
use super::inode::Blocks;
use super::layout::{
    BLOCK, Change, Place, Superblock, batch_head, check_name, decode_batch, encode_batch, size_of_file,
};
use super::state::{Inode, State, broken};
use crate::space::Space;

/// Bytes at both ends of a device that are zero if nothing is on it.
const LOOKED_AT: u64 = 1 << 20;
/// Smallest log, in blocks.
const SMALLEST_LOG: u64 = 64;
/// Largest log, in blocks.
const LARGEST_LOG: u64 = 1 << 18;
/// A log has a block for so many blocks of the device.
const BLOCKS_FOR_ONE_OF_A_LOG: u64 = 1024;

#[derive(Default)]
struct Log {
    which: usize,
    generation: u64,
    sequence: u64,
    /// The next block in the log.
    at: u64,
    failed: Option<String>,
}

/// The files of a device.
pub(crate) struct Store {
    pub(super) device: Box<dyn RawDevice>,
    /// Not there: the device is blank.
    superblock: OnceLock<Superblock>,
    state: Mutex<State>,
    /// Taken before the state.
    log: Mutex<Log>,
}

/// Blocks of each log on a device of so many.
fn log_blocks(blocks: u64) -> u64 {
    (blocks / BLOCKS_FOR_ONE_OF_A_LOG).clamp(SMALLEST_LOG, LARGEST_LOG)
}

impl Store {
    /// Reads what is on a device. A device of zeros is a blank store; it is formatted when the first file is made.
    ///
    /// # Errors
    /// `AlreadyExists` if something else is on the device; `InvalidData` if the store is damaged; `Unsupported` if the device is too small;
    /// errors of the device.
    pub(crate) fn open(device: Box<dyn RawDevice>) -> io::Result<Arc<Store>> {
        let blocks = device.size() / BLOCK;
        if blocks < 4 * SMALLEST_LOG {
            return Err(io::Error::new(ErrorKind::Unsupported, "the device is too small for a drive"));
        }
        let mut block = vec![0; BLOCK as usize];
        let mut found = None;
        for at in [0, blocks - 1] {
            device.read(&mut block, at * BLOCK)?;
            found = found.or_else(|| Superblock::decode(&block, blocks));
        }
        let store =
            Store { device, superblock: OnceLock::new(), state: Mutex::default(), log: Mutex::default() };
        match found {
            None => store.check_blank(blocks)?,
            Some(superblock) => {
                store.replay(&superblock)?;
                store.superblock.get_or_init(|| superblock);
            }
        }
        Ok(Arc::new(store))
    }

    fn check_blank(&self, blocks: u64) -> io::Result<()> {
        let len = LOOKED_AT.min(blocks * BLOCK / 2);
        let mut bytes = vec![0; len as usize];
        for at in [0, blocks * BLOCK - len] {
            self.device.read(&mut bytes, at)?;
            // A power cut may have left the log of a format that did not finish.
            let (_, rest) = bytes.split_at_mut(BLOCK as usize);
            let (first, _) = rest.split_at_mut(BLOCK as usize);
            if at == 0 && batch_head(first).is_some() && decode_batch(first).is_some_and(|c| c.is_empty()) {
                first.fill(0);
            }
            if bytes.iter().any(|b| *b != 0) {
                return Err(io::Error::new(
                    ErrorKind::AlreadyExists,
                    "something is on the device; if it is not needed, erase it (blkdiscard --zeroout, or wipefs --all and zeros over the first and the last MiB)",
                ));
            }
        }
        Ok(())
    }

    /// Makes the store on a blank device. The superblocks come last: without one the device is blank.
    fn format(&self, log: &mut Log) -> io::Result<()> {
        let blocks = self.device.size() / BLOCK;
        let mut store = [0; 16];
        ashlar_environment::random::fill(&mut store).map_err(io::Error::other)?;
        let superblock = Superblock { store, blocks, log: log_blocks(blocks) };
        let checkpoint = encode_batch(Place { store, generation: 1, sequence: 0 }, &[]);
        self.device.write(&mut [IoSlice::new(&checkpoint)], superblock.log_at(0) * BLOCK)?;
        self.device.flush()?;
        for at in [0, blocks - 1] {
            self.device.write(&mut [IoSlice::new(&superblock.encode())], at * BLOCK)?;
        }
        self.device.flush()?;
        let at = checkpoint.len() as u64 / BLOCK;
        *log = Log { which: 0, generation: 1, sequence: 1, at, failed: None };
        let added = self.state.lock().free.add(superblock.files_at(), superblock.files());
        assert!(added, "a new store has its space once");
        self.superblock.get_or_init(|| superblock);
        Ok(())
    }

    /// Reads the valid log.
    fn replay(&self, superblock: &Superblock) -> io::Result<()> {
        let mut logs = Vec::new();
        for which in 0..2 {
            if let Some((place, changes, blocks)) = self.batch(superblock, which, 0)?
                && place.sequence == 0
            {
                logs.push((place.generation, which, changes, blocks));
            }
        }
        let (generation, which, mut changes, mut at) =
            logs.into_iter().max_by_key(|l| l.0).ok_or_else(|| broken("it has no checkpoint"))?;
        let mut sequence = 1;
        while let Some((place, more, blocks)) = self.batch(superblock, which, at)? {
            if (place.generation, place.sequence) != (generation, sequence) {
                break;
            }
            changes.extend(more);
            (at, sequence) = (at + blocks, sequence + 1);
        }
        // What was read may be in the cache of the device only, and is relied on from now on.
        self.device.flush()?;
        *self.log.lock() = Log { which, generation, sequence, at, failed: None };
        *self.state.lock() = State::of(changes, superblock)?;
        Ok(())
    }

    /// The batch at a block of a log. None: there is none.
    fn batch(
        &self,
        superblock: &Superblock,
        which: usize,
        at: u64,
    ) -> io::Result<Option<(Place, Vec<Change>, u64)>> {
        if at >= superblock.log {
            return Ok(None);
        }
        let from = (superblock.log_at(which) + at) * BLOCK;
        let mut bytes = vec![0; BLOCK as usize];
        self.device.read(&mut bytes, from)?;
        let Some((place, blocks)) = batch_head(&bytes) else { return Ok(None) };
        if place.store != superblock.store || blocks > superblock.log - at {
            return Ok(None);
        }
        bytes.resize((blocks * BLOCK) as usize, 0);
        self.device.read(&mut bytes, from)?;
        Ok(decode_batch(&bytes).map(|changes| (place, changes, blocks)))
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Makes everything durable that was changed until now.
    ///
    /// # Errors
    /// Of the device, and then always; `StorageFull` if the logs are too small for the state.
    pub(crate) fn commit(&self) -> io::Result<()> {
        let mut log = self.log.lock();
        if let Some(why) = &log.failed {
            return Err(io::Error::other(why.clone()));
        }
        let Some(superblock) = self.superblock.get() else { return Ok(()) };
        let (batch, checkpoint, freed) = self.take(superblock, &log);
        let done = match batch {
            // Names and places are durable; data may not be.
            None => self.device.flush(),
            Some(batch) => self.write_batch(superblock, &mut log, &batch, checkpoint),
        };
        if let Err(e) = &done {
            log.failed = Some(format!("changes of the store of files could not be written: {e}"));
        } else {
            // Some drives are faster, and last longer, if they know. Before others can have the blocks.
            freed.iter().for_each(|(start, count)| self.device.discard(start * BLOCK, count * BLOCK));
        }
        let mut state = self.state.lock();
        state.busy = false;
        for (start, count) in freed.iter().filter(|_| done.is_ok()) {
            assert!(state.free.add(*start, *count), "blocks are freed once");
        }
        done
    }

    /// Takes what changed: the bytes of a batch, whether it is a checkpoint, and the blocks that are free once it is durable.
    fn take(&self, superblock: &Superblock, log: &Log) -> (Option<Vec<u8>>, bool, Vec<(u64, u64)>) {
        let mut state = self.state.lock();
        let state = &mut *state;
        state.busy = true;
        let freed = std::mem::take(&mut state.freed);
        let mut body = Vec::new();
        for id in std::mem::take(&mut state.changed) {
            state.file(id).into_iter().for_each(|c| c.encode(&mut body));
        }
        std::mem::take(&mut state.renamed).iter().for_each(|c| c.encode(&mut body));
        if body.is_empty() {
            return (None, false, freed);
        }
        let place = Place { store: superblock.store, generation: log.generation, sequence: log.sequence };
        let batch = encode_batch(place, &body);
        if batch.len() as u64 / BLOCK <= superblock.log - log.at {
            return (Some(batch), false, freed);
        }
        let place = Place { generation: log.generation + 1, sequence: 0, ..place };
        (Some(encode_batch(place, &state.encode())), true, freed)
    }

    fn write_batch(
        &self,
        superblock: &Superblock,
        log: &mut Log,
        batch: &[u8],
        checkpoint: bool,
    ) -> io::Result<()> {
        let blocks = batch.len() as u64 / BLOCK;
        if blocks > superblock.log {
            return Err(io::Error::new(ErrorKind::StorageFull, "the logs are too small"));
        }
        self.device.flush()?;
        let (which, at) = if checkpoint { (1 - log.which, 0) } else { (log.which, log.at) };
        self.device.write(&mut [IoSlice::new(batch)], (superblock.log_at(which) + at) * BLOCK)?;
        self.device.flush()?;
        if checkpoint {
            (log.generation, log.sequence) = (log.generation + 1, 0);
        }
        (log.which, log.at, log.sequence) = (which, at + blocks, log.sequence + 1);
        Ok(())
    }

    /// Makes a new file.
    ///
    /// # Errors
    /// `AlreadyExists`; `StorageFull` if there is no room for more files; on a blank device, errors of the device.
    pub(crate) fn create(&self, name: &str) -> io::Result<u64> {
        check_name(name)?;
        self.made()?;
        let mut state = self.state.lock();
        if state.names.contains_key(name) {
            return Err(ErrorKind::AlreadyExists.into());
        }
        self.check_room(&state)?;
        let id = state.next;
        state.next += 1;
        let inode =
            Inode { len: 0, blocks: Blocks::default(), handles: 1, named: true, requests: Arc::default() };
        state.files.insert(id, inode);
        state.names.insert(name.to_owned(), id);
        state.changed.insert(id);
        state.renamed.push(Change::Name { name: name.to_owned(), file: Some(id) });
        Ok(id)
    }

    /// Makes the store if the device is blank.
    fn made(&self) -> io::Result<()> {
        if self.superblock.get().is_some() {
            return Ok(());
        }
        let mut log = self.log.lock();
        if self.superblock.get().is_none() { self.format(&mut log) } else { Ok(()) }
    }

    /// Refuses what makes the state larger when a checkpoint would hardly fit.
    pub(super) fn check_room(&self, state: &State) -> io::Result<()> {
        if self.has_room(state, 4) { Ok(()) } else { Err(rustix::io::Errno::NOSPC.into()) }
    }

    /// Whether a checkpoint takes less than so many fifths of a log.
    pub(super) fn has_room(&self, state: &State, fifths: u64) -> bool {
        let size = size_of_file(0) * state.files.len() as u64 + size_of_file(state.extents) - size_of_file(0);
        let log = self.superblock.get().map_or(SMALLEST_LOG, |s| s.log);
        size < log * BLOCK / 5 * fifths
    }

    /// Opens a file: the caller has one handle more.
    ///
    /// # Errors
    /// `NotFound`.
    pub(crate) fn find(&self, name: &str) -> io::Result<u64> {
        let mut state = self.state.lock();
        let id = *state.names.get(name).ok_or(ErrorKind::NotFound)?;
        state.inode(id).handles += 1;
        Ok(id)
    }

    /// The number of a file, without opening it.
    ///
    /// # Errors
    /// `NotFound`.
    pub(crate) fn number(&self, name: &str) -> io::Result<u64> {
        Ok(*self.state.lock().names.get(name).ok_or(ErrorKind::NotFound)?)
    }

    /// Closes a handle.
    pub(super) fn close(&self, id: u64) {
        let mut state = self.state.lock();
        state.inode(id).handles -= 1;
        state.forget_unused(id);
    }

    /// Removes a name. The file lives on while it is open.
    ///
    /// # Errors
    /// `NotFound`.
    pub(crate) fn remove(&self, name: &str) -> io::Result<()> {
        let mut state = self.state.lock();
        let id = state.names.remove(name).ok_or(ErrorKind::NotFound)?;
        state.renamed.push(Change::Name { name: name.to_owned(), file: None });
        state.inode(id).named = false;
        state.forget_unused(id);
        Ok(())
    }

    /// Renames a file over another.
    ///
    /// # Errors
    /// `NotFound`.
    pub(crate) fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        check_name(to)?;
        let mut state = self.state.lock();
        let id = *state.names.get(from).ok_or(ErrorKind::NotFound)?;
        if from == to {
            return Ok(());
        }
        state.names.remove(from);
        state.renamed.push(Change::Name { name: from.to_owned(), file: None });
        state.renamed.push(Change::Name { name: to.to_owned(), file: Some(id) });
        if let Some(replaced) = state.names.insert(to.to_owned(), id) {
            state.inode(replaced).named = false;
            state.forget_unused(replaced);
        }
        Ok(())
    }

    /// Names that begin with `prefix`, up to the next slash behind it.
    pub(crate) fn list(&self, prefix: &str) -> Vec<String> {
        let state = self.state.lock();
        let below = state.names.range(prefix.to_owned()..).map_while(|(n, _)| n.strip_prefix(prefix));
        let mut out: Vec<String> = below.map(|n| n.split('/').next().unwrap_or(n).to_owned()).collect();
        out.dedup();
        out
    }

    /// Space of files.
    pub(crate) fn space(&self) -> Space {
        let blocks = self.superblock.get().map(Superblock::files);
        let state = self.state.lock();
        let freed: u64 = state.freed.iter().map(|(_, n)| n).sum();
        let total = blocks.unwrap_or(self.device.size() / BLOCK) * BLOCK;
        let free = if blocks.is_some() { (state.free.blocks() + freed) * BLOCK } else { total };
        Space { total, free, read_only: false, inodes: 0, inodes_free: 0 }
    }

    /// Takes the lock of a name. False: it is taken.
    pub(crate) fn lock(&self, name: &str) -> bool {
        self.state.lock().locked.insert(name.to_owned())
    }

    /// Gives the lock of a name back.
    pub(crate) fn unlock(&self, name: &str) {
        self.state.lock().locked.remove(name);
    }

    /// A number of the store, for identities of files.
    pub(crate) fn id(&self) -> u64 {
        let store = self.superblock.get().map_or([0; 16], |s| s.store);
        u64::from_le_bytes(std::array::from_fn(|i| store[i]))
    }

    /// Makes blocks that were freed available, as far as that takes a commit.
    pub(super) fn reclaim(&self) -> io::Result<()> {
        let waiting = !self.state.lock().freed.is_empty();
        if waiting { self.commit() } else { Ok(()) }
    }
}
