//! Encrypts a body that is received, and decrypts a body that is sent.
//!
//! Receiving: plaintext is copied into the stripe buffer, as without encryption, and sealed there in place
//! when its package is full; only a package that crosses the end of a stripe uses a separate buffer. Sending:
//! packages are opened from the rows of the drives into an outgoing buffer; only a package that crosses the
//! end of a row is assembled there first. So either way costs one pass of the cipher, and a copy of those
//! packages.
//!
//! The drives need not check what is opened here, so rows are read unchecked first. If a package does not
//! open, the owner of the body reads them again from [`Unsealing::left`] on, checked and so repaired.
//!
//! Invariants: only authenticated bytes are returned; memory is one package per body received, and [`BATCH`]
//! bytes per body sent, or one package while the pool has no more.
//!
//! Must not depend on: who seals content keys.

use std::ops::Range;

use ashlar_machine::{Buf, BufferPool};
use bytes::Bytes;

use crate::backend::{Reader, Writer};
use crate::seal::{ContentKey, PACKAGE, Packages, Seal, Sealed, TAG, WHOLE};
use crate::{Error, Result};

/// Plaintext bytes that are opened and sent with one write: whole packages. With half as many, a GET of 10
/// MiB cost more; with twice as many, sometimes less and sometimes more (docs/benchmarks): each write may
/// wake a client that has caught up.
const BATCH: usize = 8 * PACKAGE;

/// Seals one body.
pub(crate) struct Sealing {
    packages: Packages,
    /// The package being filled, and the number of its bytes so far.
    index: u64,
    filled: usize,
    /// The package, while it crosses two stripes.
    apart: Vec<u8>,
}

impl Sealing {
    pub(crate) fn new(seal: &Seal, nonce: &[u8; 16], number: u16, plain: u64) -> Sealing {
        let packages = Packages::new(&seal.key, seal.cipher, nonce, number, plain);
        Sealing { packages, index: 0, filled: 0, apart: Vec::new() }
    }

    /// Writes plaintext; never more in total than was announced.
    pub(crate) async fn write(&mut self, writer: &mut Writer, mut data: &[u8]) -> Result<()> {
        while !data.is_empty() {
            let plain = self.packages.len(self.index);
            let take = data.len().min(plain - self.filled);
            let done = self.filled + take == plain;
            let inside = match writer.space(plain + TAG).await? {
                Some(space) => {
                    space[self.filled..self.filled + take].copy_from_slice(&data[..take]);
                    if done {
                        self.packages.seal(self.index, space);
                    }
                    true
                }
                None => {
                    self.apart.resize(plain + TAG, 0);
                    self.apart[self.filled..self.filled + take].copy_from_slice(&data[..take]);
                    if done {
                        self.packages.seal(self.index, &mut self.apart);
                    }
                    false
                }
            };
            data = &data[take..];
            self.filled += take;
            if done {
                if inside {
                    writer.filled(plain + TAG).await?;
                } else {
                    writer.copy(&self.apart).await?;
                }
                self.index += 1;
                self.filled = 0;
            }
        }
        Ok(())
    }
}

/// The stored bytes to read for the plaintext `range` of a part of `plain` bytes.
pub(crate) fn stored_range(range: &Range<u64>, plain: u64) -> Range<u64> {
    let (package, whole) = (PACKAGE as u64, WHOLE as u64);
    if range.is_empty() {
        return 0..0;
    }
    let first = range.start / package;
    let end = range.end.div_ceil(package);
    first * whole..crate::seal::sealed_len(plain).min(end * whole)
}

/// Opens a range of one part.
pub(crate) struct Unsealing {
    packages: Packages,
    /// The next package.
    index: u64,
    /// Plaintext bytes to skip at the beginning, and to return in total.
    skip: usize,
    remaining: u64,
    /// Bytes from the drives that were not opened yet.
    piece: Bytes,
}

impl Unsealing {
    /// `range`: plaintext bytes of part `number`, which has `plain` bytes.
    pub(crate) fn new(
        key: &ContentKey,
        sealed: &Sealed,
        nonce: &[u8; 16],
        number: u16,
        plain: u64,
        range: &Range<u64>,
    ) -> Unsealing {
        Unsealing {
            packages: Packages::new(key, sealed.cipher, nonce, number, plain),
            index: range.start / PACKAGE as u64,
            skip: (range.start % PACKAGE as u64) as usize,
            remaining: range.end - range.start,
            piece: Bytes::new(),
        }
    }

    /// Stored bytes of the part from the next package to the last of the range. After an error the next
    /// package is the first one whose bytes were not returned.
    pub(crate) fn left(&self) -> Range<u64> {
        let from = self.index * PACKAGE as u64;
        stored_range(&(from..from + self.skip as u64 + self.remaining), self.packages.plain)
    }

    /// The next plaintext bytes, one package at a time if it is `crowded`; `None` after the last of the
    /// range. After an error, another reader may continue from [`Unsealing::left`].
    pub(crate) async fn next(
        &mut self,
        reader: &mut Reader,
        pool: Option<&BufferPool>,
        crowded: bool,
    ) -> Option<Result<Bytes>> {
        if self.remaining == 0 {
            return None;
        }
        let from = self.index;
        let batch = self.batch(reader, pool, if crowded { PACKAGE } else { BATCH }).await;
        if batch.is_err() {
            self.index = from;
            self.piece = Bytes::new();
        }
        Some(batch)
    }

    async fn batch(&mut self, reader: &mut Reader, pool: Option<&BufferPool>, most: usize) -> Result<Bytes> {
        // Whole packages that contain the next bytes of the range, up to one batch.
        let from = self.index * PACKAGE as u64;
        let end = from + self.skip as u64 + self.remaining;
        let len = (end.div_ceil(PACKAGE as u64) * PACKAGE as u64).min(self.packages.plain) - from;
        let mut out = Out::new(pool, len.min(most as u64) as usize);
        let len = out.bytes().len();
        let mut at = 0;
        while at < len {
            let plain = self.packages.len(self.index);
            self.open_next(reader, &mut out.bytes()[at..at + plain]).await?;
            at += plain;
        }
        let take = (len - self.skip).min(usize::try_from(self.remaining).unwrap_or(usize::MAX));
        let bytes = out.freeze().slice(self.skip..self.skip + take);
        self.skip = 0;
        self.remaining -= take as u64;
        Ok(bytes)
    }

    async fn open_next(&mut self, reader: &mut Reader, out: &mut [u8]) -> Result<()> {
        let whole = out.len() + TAG;
        if self.piece.is_empty() {
            self.piece = piece(reader).await?;
        }
        if self.piece.len() >= whole {
            self.packages.open(self.index, &self.piece[..whole], out)?;
            bytes::Buf::advance(&mut self.piece, whole);
        } else {
            // It crosses two rows: assembled at the position of its plaintext, and opened there.
            self.gather(reader, out).await?;
            let mut tag = [0; TAG];
            self.gather(reader, &mut tag).await?;
            self.packages.open_in_place(self.index, out, &tag)?;
        }
        self.index += 1;
        Ok(())
    }

    /// Reads the next stored bytes, as many as `to` holds.
    async fn gather(&mut self, reader: &mut Reader, to: &mut [u8]) -> Result<()> {
        let mut at = 0;
        while at < to.len() {
            if self.piece.is_empty() {
                self.piece = piece(reader).await?;
            }
            let take = self.piece.len().min(to.len() - at);
            to[at..at + take].copy_from_slice(&self.piece[..take]);
            bytes::Buf::advance(&mut self.piece, take);
            at += take;
        }
        Ok(())
    }
}

async fn piece(reader: &mut Reader) -> Result<Bytes> {
    match reader.next().await {
        Some(piece) => piece,
        None => Err(Error::Corrupt("an encrypted part is shorter than its record says".to_owned())),
    }
}

/// A buffer of the pool, or of the allocator if there is no pool (stores in memory).
enum Out {
    Pool(Buf),
    Heap(Vec<u8>),
}

impl Out {
    /// A buffer of `len` bytes, or for the first package of them if the pool has no more.
    fn new(pool: Option<&BufferPool>, len: usize) -> Out {
        match pool {
            // A reader holds rows already, so it never waits for more memory. Above the ceiling, it is one
            // package per open read.
            Some(pool) => Out::Pool(pool.try_get(len).unwrap_or_else(|| pool.get_reserved(len.min(PACKAGE)))),
            None => Out::Heap(vec![0; len]),
        }
    }

    fn bytes(&mut self) -> &mut [u8] {
        match self {
            Out::Pool(buf) => buf,
            Out::Heap(v) => v,
        }
    }

    fn freeze(self) -> Bytes {
        match self {
            Out::Pool(buf) => buf.freeze(),
            Out::Heap(v) => v.into(),
        }
    }
}
