//! Receives a body: counts and hashes it, and passes it to the drives piece by piece.
//!
//! Invariants: never more bytes are passed on than were announced; every byte is hashed once per requested
//! hash; memory that waits for MD5 is bounded by [`MAX_QUEUED`].
//!
//! Must not depend on: HTTP, what the body becomes.

use ashlar_checksum::{Hasher, INLINE_BELOW, Md5Stream, md5_once};
use ashlar_format::RegisterKey;
use bytes::Bytes;

use crate::backend::{Staged, Writer};
use crate::seal::{self, Seal};
use crate::sealing::Sealing;
use crate::spec::{PutSpec, Sums};
use crate::store::Inner;
use crate::usage::Reservation;
use crate::{Error, MAX_PUT, Result};

/// Bytes of one body that may wait for MD5; above it, the body waits.
const MAX_QUEUED: usize = 4 << 20;

/// How the MD5 of this body is computed.
enum Md5 {
    /// Not wanted.
    No,
    /// A small body that arrived in at most one piece: hashed here at the end, which is cheaper than a lane
    /// (below [`INLINE_BELOW`] bytes, 64 KiB).
    Once(Bytes),
    /// Every other body: in a lane, in parallel with other uploads.
    Lane(Md5Stream),
}

/// A body that is being received.
pub(crate) struct BodyWriter {
    size: u64,
    got: u64,
    md5: Md5,
    hasher: Option<Hasher>,
    /// `None` for an empty body, which has no data.
    writer: Option<Writer>,
    /// Encrypts; boxed, since most bodies are not encrypted.
    sealing: Option<Box<Sealing>>,
    /// For an encrypted body: part of the key of its packages.
    nonce: Option<[u8; 16]>,
    /// The result of the writer, once it has ended.
    staged: Option<Staged>,
    sums: Option<Sums>,
    /// Space reserved under the bucket's limit, kept until the change is committed.
    reservation: Reservation,
}

impl BodyWriter {
    /// Reserves space before the first byte.
    pub(crate) async fn begin(
        inner: &Inner,
        owner: &RegisterKey,
        spec: &PutSpec,
        number: u16,
        seal: Option<&Seal>,
    ) -> Result<BodyWriter> {
        if spec.size > MAX_PUT {
            return Err(Error::EntityTooLarge);
        }
        let reservation = inner.reserve(owner.bucket(), spec.size).await?;
        let writer = match spec.size {
            0 => None,
            size => {
                let stored = seal.map_or(size, |_| seal::sealed_len(size));
                Some(inner.backend.write(owner, stored).await?)
            }
        };
        let (mut sealing, mut nonce) = (None, None);
        if let Some(seal) = seal {
            let mut fresh = [0; 16];
            ashlar_environment::random::fill(&mut fresh)
                .map_err(|e| Error::Internal(format!("no randomness: {e}")))?;
            sealing = Some(Box::new(Sealing::new(seal, &fresh, number, spec.size)));
            nonce = Some(fresh);
        }
        let md5 = if !spec.want_md5 {
            Md5::No
        } else if spec.size < INLINE_BELOW as u64 {
            Md5::Once(Bytes::new())
        } else {
            Md5::Lane(inner.md5.stream())
        };
        let hasher = spec.checksum.map(Hasher::new);
        Ok(BodyWriter {
            size: spec.size,
            got: 0,
            md5,
            hasher,
            writer,
            sealing,
            nonce,
            staged: None,
            sums: None,
            reservation,
        })
    }

    pub(crate) async fn write(&mut self, inner: &Inner, data: Bytes) -> Result<()> {
        if data.is_empty() {
            return Ok(());
        }
        self.got += data.len() as u64;
        let Some(writer) = self.writer.as_mut().filter(|_| self.got <= self.size) else {
            return Err(Error::IncompleteBody { expected: self.size, got: self.got });
        };
        if let Some(h) = &mut self.hasher {
            h.update(&data);
        }
        match &mut self.md5 {
            Md5::No => {}
            Md5::Once(first) if first.is_empty() => *first = data.clone(),
            Md5::Once(first) => {
                let mut stream = inner.md5.stream();
                stream.update(std::mem::take(first));
                stream.update(data.clone());
                self.md5 = Md5::Lane(stream);
            }
            Md5::Lane(stream) => {
                stream.update(data.clone());
                if stream.queued() > MAX_QUEUED {
                    stream.drained(MAX_QUEUED / 2).await;
                }
            }
        }
        match &mut self.sealing {
            None => writer.write(data).await,
            Some(sealing) => {
                sealing.write(writer, &data).await?;
                writer.park();
                Ok(())
            }
        }
    }

    /// For an encrypted body: the nonce that its record must contain.
    pub(crate) fn nonce(&self) -> Option<[u8; 16]> {
        self.nonce
    }

    /// The bytes reserved for it.
    pub(crate) fn reservation(&self) -> &Reservation {
        &self.reservation
    }

    /// Number of stored bytes.
    pub(crate) fn stored_size(&self) -> u64 {
        if self.nonce.is_some() { seal::sealed_len(self.size) } else { self.size }
    }

    /// The computed sums. The first call makes the data durable and hashes the rest. The drives come first:
    /// in the meantime MD5 continues in parallel with other bodies.
    pub(crate) async fn end(&mut self) -> Result<Sums> {
        if let Some(sums) = self.sums {
            return Ok(sums);
        }
        if self.got != self.size {
            return Err(Error::IncompleteBody { expected: self.size, got: self.got });
        }
        self.staged = self.finish().await?;
        let md5 = match std::mem::replace(&mut self.md5, Md5::No) {
            Md5::No => None,
            Md5::Once(data) => Some(md5_once(&data)),
            Md5::Lane(stream) => Some(stream.finish().await),
        };
        let checksum = self.hasher.take().map(Hasher::finish);
        let sums = Sums { size: self.size, md5, checksum };
        self.sums = Some(sums);
        Ok(sums)
    }

    /// Waits until a record may name the data; `None` for an empty body.
    pub(crate) async fn finish(&mut self) -> Result<Option<Staged>> {
        match self.writer.take() {
            None => Ok(self.staged.take()),
            Some(writer) => writer.finish().await.map(Some),
        }
    }
}
