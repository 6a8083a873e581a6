//! A device in memory: for tests, and to measure what the protocol costs.
//!
//! Must not depend on: the protocol.

use std::sync::Arc;

use parking_lot::RwLock;

use crate::device::{Device, Export, Exports, Extent, Fault};

/// Bytes of a piece with its own lock, so that threads do not wait for each other.
const PIECE: usize = 1 << 20;

/// A device in memory, which is also the only export of a server, under the name `memory`.
pub struct Memory {
    size: u64,
    /// None: it reads as zeros.
    pieces: Vec<RwLock<Option<Box<[u8]>>>>,
}

impl Memory {
    /// A device of `size` bytes that reads as zeros.
    #[must_use]
    pub fn new(size: u64) -> Arc<Memory> {
        let pieces = (0..size.div_ceil(PIECE as u64)).map(|_| RwLock::new(None)).collect();
        Arc::new(Memory { size, pieces })
    }

    /// The pieces of a range: number, first byte in it, bytes.
    fn split(at: u64, len: u64) -> impl Iterator<Item = (usize, usize, usize)> {
        let (mut at, end) = (at, at + len);
        std::iter::from_fn(move || {
            (at < end).then(|| {
                let (piece, from) = ((at / PIECE as u64) as usize, (at % PIECE as u64) as usize);
                let n = (PIECE - from).min((end - at) as usize);
                at += n as u64;
                (piece, from, n)
            })
        })
    }
}

impl Device for Memory {
    fn size(&self) -> u64 {
        self.size
    }

    fn read(&self, at: u64, out: &mut [u8]) -> Result<(), Fault> {
        let mut done = 0;
        for (piece, from, n) in Memory::split(at, out.len() as u64) {
            let to = &mut out[done..done + n];
            match &*self.pieces[piece].read() {
                Some(bytes) => to.copy_from_slice(&bytes[from..from + n]),
                None => to.fill(0),
            }
            done += n;
        }
        Ok(())
    }

    fn write(&self, at: u64, data: Vec<u8>, _durable: bool) -> Result<(), Fault> {
        let mut done = 0;
        for (piece, from, n) in Memory::split(at, data.len() as u64) {
            let mut piece = self.pieces[piece].write();
            let bytes = piece.get_or_insert_with(|| vec![0; PIECE].into_boxed_slice());
            bytes[from..from + n].copy_from_slice(&data[done..done + n]);
            done += n;
        }
        Ok(())
    }

    fn flush(&self) -> Result<(), Fault> {
        Ok(())
    }

    fn zero(&self, at: u64, len: u64, _keep: bool, _durable: bool) -> Result<(), Fault> {
        for (piece, from, n) in Memory::split(at, len) {
            let mut piece = self.pieces[piece].write();
            match &mut *piece {
                Some(_) if n == PIECE => *piece = None,
                Some(bytes) => bytes[from..from + n].fill(0),
                None => {}
            }
        }
        Ok(())
    }

    fn trim(&self, at: u64, len: u64, durable: bool) -> Result<(), Fault> {
        self.zero(at, len, false, durable)
    }

    fn extents(&self, at: u64, len: u64, most: usize) -> Result<Vec<Extent>, Fault> {
        let mut out: Vec<Extent> = Vec::new();
        for (piece, _, n) in Memory::split(at, len) {
            let data = self.pieces[piece].read().is_some();
            let full = out.len() == most;
            match out.last_mut() {
                Some(last) if last.data == data => last.len += n as u64,
                _ if full => break,
                _ => out.push(Extent { len: n as u64, data }),
            }
        }
        Ok(out)
    }
}

/// A device as the only export.
pub(crate) struct Only(pub(crate) Export);

impl Exports for Only {
    fn list(&self) -> Vec<(String, String)> {
        vec![(self.0.name.clone(), self.0.description.clone())]
    }

    fn open(&self, name: &str) -> Option<Export> {
        (name.is_empty() || name == self.0.name).then(|| self.0.clone())
    }
}

impl Memory {
    /// This device as the only export of a server.
    #[must_use]
    pub fn exports(self: Arc<Memory>) -> Arc<dyn Exports> {
        let (name, description) = ("memory".to_owned(), "a device in memory".to_owned());
        Arc::new(Only(Export { name, description, device: self }))
    }
}
