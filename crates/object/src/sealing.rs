//! An encrypted body on its way in and out.
//!
//! In: plaintext is copied into the stripe buffer, as it is without encryption, and sealed there in place
//! when its package is full; only a package that crosses the end of a stripe goes through a buffer of its
//! own. Out: packages are opened from the rows that the drives gave into an outgoing buffer; only one that
//! crosses the end of a row is put together there first. So either way costs one pass of the cipher, and a
//! copy of those packages.
//!
//! The drives need not check what is opened here, so its rows are read unchecked first. Where a package does
//! not open, the body's owner reads them again, checked and so mended, from [`Unsealing::left`] on.
//!
//! Invariants: nothing leaves that was not authenticated; memory is one package per body in, and
//! [`BATCH`] bytes per body out, one package while the pool has no more.

use std::ops::Range;

use ashlar_machine::{Buf, BufferPool};
use bytes::Bytes;

use crate::backend::{Reader, Writer};
use crate::seal::{ContentKey, PACKAGE, Packages, Seal, Sealed, TAG, WHOLE};
use crate::{Error, Result};

/// Plaintext bytes that are opened at once, and leave in one write: whole packages. With half as many a GET
/// of 10 MiB cost more, with twice as many now less and now more (docs/benchmarks): each write may wake a
/// client that has caught up meanwhile.
const BATCH: usize = 8 * PACKAGE;

/// Seals one body.
pub(crate) struct Sealing {
    packages: Packages,
    /// The package being filled, and the bytes of it that are there.
    index: u64,
    filled: usize,
    /// The package, while it lies across two stripes.
    apart: Vec<u8>,
}

impl Sealing {
    pub(crate) fn new(seal: &Seal, nonce: &[u8; 16], number: u16, plain: u64) -> Sealing {
        let packages = Packages::new(&seal.key, seal.cipher, nonce, number, plain);
        Sealing { packages, index: 0, filled: 0, apart: Vec::new() }
    }

    /// Takes plaintext; never more in all than was announced.
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

/// Stored bytes that have to be read for the plain bytes `range` of a part of `plain` bytes.
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
    /// Plain bytes to leave out at the beginning, and to give in all.
    skip: usize,
    remaining: u64,
    /// What came from the drives and was not opened yet.
    piece: Bytes,
}

impl Unsealing {
    /// `range`: plain bytes of part `number` that has `plain` bytes.
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

    /// Stored bytes of the part from the next package on to the range's last. After an error the next
    /// package is the first whose bytes have not left.
    pub(crate) fn left(&self) -> Range<u64> {
        let from = self.index * PACKAGE as u64;
        stored_range(&(from..from + self.skip as u64 + self.remaining), self.packages.plain)
    }

    /// The next plain bytes, one package at a time if it is `crowded`; `None` after the last of the range. An error is not the end: another reader may
    /// go on from [`Unsealing::left`].
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
        // Whole packages that hold the next bytes of the range, as far as one batch goes.
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
            // It lies across two rows: put together where its plaintext goes, and opened there.
            self.gather(reader, out).await?;
            let mut tag = [0; TAG];
            self.gather(reader, &mut tag).await?;
            self.packages.open_in_place(self.index, out, &tag)?;
        }
        self.index += 1;
        Ok(())
    }

    /// The next stored bytes, as many as `to` holds.
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

/// A buffer of the pool, or of the allocator where there is no pool (stores in memory).
enum Out {
    Pool(Buf),
    Heap(Vec<u8>),
}

impl Out {
    /// Room for `len` bytes, or for the first package of them where the pool has no more.
    fn new(pool: Option<&BufferPool>, len: usize) -> Out {
        match pool {
            // A reader holds rows already: it never waits for more. What goes beyond the ceiling is one
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
