//! Reading and writing a file of a [`Store`].
//!
//! Invariants: a block that a request uses stays the file's until the request ends; bytes that were not written read as zeros; a block is
//! noted as written only after its write has returned, so that a commit that flushes then makes both durable; a request of anything but
//! whole blocks has the file alone.
//!
//! Must not depend on: names, what files contain.

use std::io::{self, ErrorKind, IoSlice};
use std::sync::Arc;

use parking_lot::RwLock;

use super::inode::{Extent, Piece};
use super::layout::BLOCK;
use super::store::Store;

const B: usize = BLOCK as usize;

/// An open file.
pub(crate) struct RawFile {
    store: Arc<Store>,
    id: u64,
    requests: Arc<RwLock<()>>,
}

impl Drop for RawFile {
    fn drop(&mut self) {
        self.store.close(self.id);
    }
}

impl RawFile {
    /// Makes a file.
    ///
    /// # Errors
    /// Of [`Store::create`].
    pub(crate) fn create(store: &Arc<Store>, name: &str) -> io::Result<RawFile> {
        Ok(RawFile::over(store, store.create(name)?))
    }

    /// Opens a file.
    ///
    /// # Errors
    /// `NotFound`.
    pub(crate) fn open(store: &Arc<Store>, name: &str) -> io::Result<RawFile> {
        Ok(RawFile::over(store, store.find(name)?))
    }

    fn over(store: &Arc<Store>, id: u64) -> RawFile {
        let requests = store.state().inode(id).requests.clone();
        RawFile { store: store.clone(), id, requests }
    }

    /// A number of the store, and its own in it.
    pub(crate) fn identity(&self) -> (u64, u64) {
        (self.store.id(), self.id)
    }

    /// Whether it has a name.
    pub(crate) fn linked(&self) -> bool {
        self.store.state().is_named(self.id)
    }

    /// Bytes.
    pub(crate) fn len(&self) -> u64 {
        self.store.state().inode(self.id).len
    }

    /// Fills `buf` with the bytes from `at` on.
    ///
    /// # Errors
    /// `UnexpectedEof` beyond the end; errors of the device.
    pub(crate) fn read_at(&self, buf: &mut [u8], at: u64) -> io::Result<()> {
        let _shared = self.requests.read();
        if end_of(at, buf.len())? > self.len() {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        let inside = (at % BLOCK) as usize;
        let (head, rest) = buf.split_at_mut(if inside == 0 { 0 } else { buf.len().min(B - inside) });
        let whole = rest.len() / B * B;
        let (middle, tail) = rest.split_at_mut(whole);
        if !head.is_empty() {
            head.copy_from_slice(&self.block(at / BLOCK)?[inside..inside + head.len()]);
        }
        let first = (at + head.len() as u64) / BLOCK;
        self.read_blocks(middle, first)?;
        if !tail.is_empty() {
            tail.copy_from_slice(&self.block(first + (whole / B) as u64)?[..tail.len()]);
        }
        Ok(())
    }

    /// Writes the slices one after another.
    ///
    /// # Errors
    /// `StorageFull`; errors of the device: then any part may be written.
    pub(crate) fn write_at(&self, slices: &[IoSlice<'_>], at: u64) -> io::Result<()> {
        let total: usize = slices.iter().map(|s| s.len()).sum();
        let end = end_of(at, total)?;
        if total == 0 {
            return Ok(());
        }
        if at.is_multiple_of(BLOCK) && total.is_multiple_of(B) {
            let _shared = self.requests.read();
            let len = self.len();
            // Otherwise bytes behind the end are between the two.
            if at <= len || len.is_multiple_of(BLOCK) {
                return self.write_blocks(slices, at / BLOCK, total, end);
            }
        }
        let _alone = self.requests.write();
        self.clear_tail(at)?;
        let (first, last) = (at / BLOCK, (end - 1) / BLOCK);
        let mut bytes = vec![0; ((last - first + 1) * BLOCK) as usize];
        let inside = (at % BLOCK) as usize;
        if inside > 0 {
            bytes[..B].copy_from_slice(&self.known(first)?);
        }
        if !end.is_multiple_of(BLOCK) && (last > first || inside == 0) {
            let from = bytes.len() - B;
            bytes[from..].copy_from_slice(&self.known(last)?);
        }
        let mut to = inside;
        for slice in slices {
            bytes[to..to + slice.len()].copy_from_slice(slice);
            to += slice.len();
        }
        self.write_blocks(&[IoSlice::new(&bytes)], first, bytes.len(), end)
    }

    /// Makes what was written durable, with what is needed to read it.
    ///
    /// # Errors
    /// Of [`Store::commit`].
    pub(crate) fn sync(&self) -> io::Result<()> {
        let changed = self.store.state().is_changed(self.id);
        if changed { self.store.commit() } else { self.store.device.flush() }
    }

    /// Gives the file `len` bytes, of which all have a place.
    ///
    /// # Errors
    /// `StorageFull`: nothing changes; errors of the device.
    pub(crate) fn allocate(&self, len: u64) -> io::Result<()> {
        let _alone = self.requests.write();
        self.clear_tail(len)?;
        self.place(0, len.div_ceil(BLOCK))?;
        self.store.state().change(self.id, |f| f.len = f.len.max(len));
        Ok(())
    }

    /// Changes the length. New bytes are zeros without a place.
    ///
    /// # Errors
    /// Of the device.
    pub(crate) fn set_len(&self, len: u64) -> io::Result<()> {
        let _alone = self.requests.write();
        self.clear_tail(len)?;
        let mut state = self.store.state();
        state.free_blocks(self.id, len.div_ceil(BLOCK), u64::MAX);
        state.change(self.id, |f| f.len = len);
        Ok(())
    }

    /// Gives the blocks of a range back; it reads as zeros. False: the store has no room for more pieces.
    ///
    /// # Errors
    /// Of the device.
    pub(crate) fn punch(&self, at: u64, len: u64) -> io::Result<bool> {
        let _alone = self.requests.write();
        let mut state = self.store.state();
        if !self.store.has_room(&state, 3) {
            return Ok(false);
        }
        let end = end_of(at, len as usize)?.min(state.inode(self.id).len);
        if at >= end {
            return Ok(true);
        }
        // The last block is whole if the file ends in it.
        let to = if end == state.inode(self.id).len { end.div_ceil(BLOCK) } else { end / BLOCK };
        let from = at.div_ceil(BLOCK);
        if from < to {
            state.free_blocks(self.id, from, to);
        }
        drop(state);
        let head = at..end.min(from * BLOCK);
        let tail = head.end.max(to * BLOCK)..end;
        for edge in [head, tail] {
            if edge.start < edge.end {
                self.clear(
                    edge.start / BLOCK,
                    (edge.start % BLOCK) as usize,
                    (edge.end - edge.start) as usize,
                )?;
            }
        }
        Ok(true)
    }

    /// Zeros of the last block behind the end of the file, before the file grows to `len` or a write begins there.
    fn clear_tail(&self, len: u64) -> io::Result<()> {
        let now = self.len();
        let inside = (now % BLOCK) as usize;
        if inside > 0 && len > now { self.clear(now / BLOCK, inside, B - inside) } else { Ok(()) }
    }

    /// Zeros a part of a block, if it was written.
    fn clear(&self, block: u64, from: usize, len: usize) -> io::Result<()> {
        let [Piece::Placed(e)] = self.store.state().inode(self.id).blocks.pieces(block, block + 1)[..] else {
            return Ok(());
        };
        if !e.written {
            return Ok(());
        }
        let mut bytes = self.block(block)?;
        bytes[from..from + len].fill(0);
        self.store.device.write(&mut [IoSlice::new(&bytes)], e.start * BLOCK)
    }

    fn block(&self, number: u64) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; B];
        self.read_blocks(&mut bytes, number)?;
        Ok(bytes)
    }

    /// A block without what is behind the end of the file in it.
    fn known(&self, number: u64) -> io::Result<Vec<u8>> {
        let mut bytes = self.block(number)?;
        let known = self.len().saturating_sub(number * BLOCK).min(BLOCK) as usize;
        bytes[known..].fill(0);
        Ok(bytes)
    }

    /// Whole blocks from `first` on.
    fn read_blocks(&self, buf: &mut [u8], first: u64) -> io::Result<()> {
        let count = (buf.len() / B) as u64;
        let pieces = self.store.state().inode(self.id).blocks.pieces(first, first + count);
        let mut rest = buf;
        for piece in pieces {
            let (count, place) = match piece {
                Piece::Placed(e) => (e.count, Some(e).filter(|e| e.written)),
                Piece::Hole(n) => (n, None),
            };
            let (now, later) = rest.split_at_mut(count as usize * B);
            match place {
                Some(e) => self.store.device.read(now, e.start * BLOCK)?,
                None => now.fill(0),
            }
            rest = later;
        }
        Ok(())
    }

    /// Writes whole blocks from `first` on; the file then has at least `len` bytes.
    fn write_blocks(&self, slices: &[IoSlice<'_>], first: u64, total: usize, len: u64) -> io::Result<()> {
        let last = first + (total / B) as u64;
        self.place(first, last)?;
        let pieces = self.store.state().inode(self.id).blocks.pieces(first, last);
        let mut done = 0;
        for piece in pieces {
            let Piece::Placed(Extent { start, count, .. }) = piece else {
                return Err(io::Error::other("blocks of a write lost their place"));
            };
            let count = count as usize * B;
            self.store.device.write(&mut part(slices, done, count), start * BLOCK)?;
            done += count;
        }
        let mut state = self.store.state();
        let inode = state.inode(self.id);
        let news = len > inode.len || {
            let placed = |p: &Piece| matches!(p, Piece::Placed(e) if !e.written);
            inode.blocks.pieces(first, last).iter().any(placed)
        };
        if news {
            state.change(self.id, |f| {
                f.blocks.mark_written(first, last);
                f.len = f.len.max(len);
            });
        }
        Ok(())
    }

    /// Gives the blocks `from..to` a place, if necessary.
    fn place(&self, from: u64, to: u64) -> io::Result<()> {
        let missing = |p: &Piece| matches!(p, Piece::Hole(_));
        {
            let mut state = self.store.state();
            if !state.inode(self.id).blocks.pieces(from, to).iter().any(missing) {
                return Ok(());
            }
            self.store.check_room(&state)?;
            if state.place_blocks(self.id, from, to) {
                return Ok(());
            }
        }
        self.store.reclaim()?;
        if self.store.state().place_blocks(self.id, from, to) {
            Ok(())
        } else {
            Err(rustix::io::Errno::NOSPC.into())
        }
    }
}

fn end_of(at: u64, len: usize) -> io::Result<u64> {
    at.checked_add(len as u64).ok_or_else(|| ErrorKind::InvalidInput.into())
}

/// The bytes `from..from + len` of the slices.
fn part<'a>(slices: &'a [IoSlice<'_>], mut from: usize, mut len: usize) -> Vec<IoSlice<'a>> {
    let mut out = Vec::new();
    for slice in slices {
        if from >= slice.len() {
            from -= slice.len();
            continue;
        }
        let n = (slice.len() - from).min(len);
        if n > 0 {
            out.push(IoSlice::new(&slice[from..from + n]));
        }
        (from, len) = (0, len - n);
        if len == 0 {
            break;
        }
    }
    out
}
