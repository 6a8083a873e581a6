//! The names and files of a store, and what changed since the last batch.
//!
//! Invariants: blocks that the durable state uses are not given to another file; a file exists while it has a name or a handle; the order
//! of changes of names is kept.
//!
//! Must not depend on: the device, when something becomes durable.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, ErrorKind};
use std::sync::Arc;

use ashlar_environment::HashMap;
use parking_lot::RwLock;

use super::inode::{Blocks, Extent, Piece};
use super::layout::{Change, Superblock};
use super::space::FreeSpace;

/// A file.
pub(super) struct Inode {
    pub(super) len: u64,
    pub(super) blocks: Blocks,
    /// Open handles.
    pub(super) handles: u64,
    /// Names: one or none.
    pub(super) named: bool,
    /// Requests share it; what takes blocks away, or reads blocks and writes them again, has it alone.
    pub(super) requests: Arc<RwLock<()>>,
}

#[derive(Default)]
pub(super) struct State {
    pub(super) names: BTreeMap<String, u64>,
    pub(super) files: HashMap<u64, Inode>,
    pub(super) next: u64,
    pub(super) free: FreeSpace,
    /// Extents of all files, for the size of a checkpoint.
    pub(super) extents: usize,
    /// Changes of names since the last batch, in their order.
    pub(super) renamed: Vec<Change>,
    /// Files that changed since the last batch.
    pub(super) changed: BTreeSet<u64>,
    /// Blocks that the durable state may use.
    pub(super) freed: Vec<(u64, u64)>,
    /// A batch is being written.
    pub(super) busy: bool,
    /// Names whose lock is held.
    pub(super) locked: BTreeSet<String>,
}

pub(super) fn broken(why: &str) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, format!("the store of files on the device is damaged: {why}"))
}

impl State {
    /// The state behind all changes of a log.
    pub(super) fn of(changes: Vec<Change>, superblock: &Superblock) -> io::Result<State> {
        let mut state = State::default();
        let end = superblock.files_at() + superblock.files();
        for change in changes {
            match change {
                Change::File { id, len, extents } => {
                    let mut blocks = Blocks::default();
                    for (at, e) in extents {
                        let inside = e.count > 0
                            && e.start >= superblock.files_at()
                            && e.start.checked_add(e.count).is_some_and(|to| to <= end)
                            && at.checked_add(e.count).is_some()
                            && blocks.pieces(at, at + e.count) == [Piece::Hole(e.count)];
                        if !inside {
                            return Err(broken("a file has blocks where none can be"));
                        }
                        blocks.insert(at, e);
                    }
                    let inode = Inode { len, blocks, handles: 0, named: false, requests: Arc::default() };
                    state.files.insert(id, inode);
                    state.next = state.next.max(id.saturating_add(1));
                }
                Change::Name { name, file: Some(id) } => drop(state.names.insert(name, id)),
                Change::Name { name, file: None } => drop(state.names.remove(&name)),
            }
        }
        for id in state.names.values() {
            let inode = state.files.get_mut(id).ok_or_else(|| broken("a name means no file"))?;
            inode.named = true;
        }
        // Files without a name were removed, perhaps while they were open.
        state.files.retain(|_, f| f.named);
        assert!(state.free.add(superblock.files_at(), superblock.files()), "all space is free once");
        for inode in state.files.values() {
            for (_, e) in inode.blocks.iter() {
                if !state.free.remove(e.start, e.count) {
                    return Err(broken("two files have the same blocks"));
                }
            }
            state.extents += inode.blocks.len();
        }
        Ok(state)
    }

    /// A file that is known to exist.
    pub(super) fn inode(&mut self, id: u64) -> &mut Inode {
        self.files.get_mut(&id).expect("a file exists while it has a name or a handle")
    }

    pub(super) fn file(&self, id: u64) -> Option<Change> {
        let inode = self.files.get(&id)?;
        Some(Change::File { id, len: inode.len, extents: inode.blocks.iter().collect() })
    }

    /// The whole state.
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        for id in self.files.keys() {
            self.file(*id).into_iter().for_each(|c| c.encode(&mut out));
        }
        for (name, id) in &self.names {
            Change::Name { name: name.clone(), file: Some(*id) }.encode(&mut out);
        }
        out
    }

    /// Whether the file has changes that no finished batch has.
    pub(super) fn is_changed(&self, id: u64) -> bool {
        self.busy || self.changed.contains(&id)
    }

    /// Whether a name still means the file.
    pub(super) fn is_named(&self, id: u64) -> bool {
        self.files.get(&id).is_some_and(|f| f.named)
    }

    /// Changes a file.
    pub(super) fn change<R>(&mut self, id: u64, change: impl FnOnce(&mut Inode) -> R) -> R {
        let inode = self.inode(id);
        let before = inode.blocks.len();
        let out = change(inode);
        let after = inode.blocks.len();
        self.extents = self.extents + after - before;
        self.changed.insert(id);
        out
    }

    /// Takes the blocks `from..to` of a file away from it.
    pub(super) fn free_blocks(&mut self, id: u64, from: u64, to: u64) {
        let freed = self.change(id, |f| f.blocks.carve(from, to));
        self.freed.extend(freed.into_iter().map(|(_, e)| (e.start, e.count)));
    }

    /// Gives places to those blocks `from..to` of a file that have none. False, and nothing changes: there are too few.
    #[must_use]
    pub(super) fn place_blocks(&mut self, id: u64, from: u64, to: u64) -> bool {
        let pieces = self.inode(id).blocks.pieces(from, to);
        let missing: u64 = pieces.iter().map(|p| if let Piece::Hole(n) = p { *n } else { 0 }).sum();
        if missing > self.free.blocks() {
            return false;
        }
        let mut at = from;
        for piece in pieces {
            match piece {
                Piece::Placed(e) => at += e.count,
                Piece::Hole(mut n) => {
                    while n > 0 {
                        let (start, count) =
                            self.free.take(n).expect("there are as many free blocks as missing");
                        let extent = Extent { start, count, written: false };
                        self.change(id, |f| f.blocks.insert(at, extent));
                        (at, n) = (at + count, n - count);
                    }
                }
            }
        }
        true
    }

    pub(super) fn forget_unused(&mut self, id: u64) {
        let inode = self.inode(id);
        if inode.named || inode.handles > 0 {
            return;
        }
        self.free_blocks(id, 0, u64::MAX);
        self.files.remove(&id);
        self.changed.remove(&id);
    }
}
