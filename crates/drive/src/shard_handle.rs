//! Handles for reading and writing shards of a local or remote drive (`handle`).
//!
//! Invariants: those of `handle`; a shard of a remote drive has no `_now` answer.
//!
//! Must not depend on: transports, other drives.

use crate::extent::{ShardWriter, Unfinished};
use crate::frames::{Check, Frames, ShardReader};
use crate::remote::{RemoteReader, RemoteWriter};
use crate::{Completion, Error, Result};
use ashlar_format::frame::ShardId;
use bytes::Bytes;

/// The error for an answer that does not match its request.
pub(crate) fn strange() -> Error {
    Error::Malformed("an answer to another question")
}

/// Writes one large shard; dropping it before it is finished abandons the shard.
pub enum WriterHandle {
    /// On a drive of this process.
    Local(ShardWriter),
    /// On a drive of another process.
    Remote(Box<dyn RemoteWriter>),
}

#[allow(clippy::missing_errors_doc)] // as the methods of `ShardWriter` of the same names
impl WriterHandle {
    /// As [`ShardWriter::write`].
    pub async fn write(&mut self, frame: Bytes) -> Result<()> {
        match self {
            WriterHandle::Local(w) => w.write(frame).await,
            WriterHandle::Remote(w) => {
                let Some((id, n)) = w.next_frame() else { return Err(Error::Malformed("finished")) };
                let hash = id.frame_hash(n, &frame);
                w.write_hashed(frame, hash).await
            }
        }
    }

    /// As [`ShardWriter::write_hashed`].
    pub async fn write_hashed(&mut self, frame: Bytes, hash: [u8; 32]) -> Result<()> {
        match self {
            WriterHandle::Local(w) => w.write_hashed(frame, hash).await,
            WriterHandle::Remote(w) => w.write_hashed(frame, hash).await,
        }
    }

    /// Waits until the drive has taken what was written and sent: a drive of another process says only then that it refuses the
    /// shard. The last frame is sent when the shard is finished.
    pub async fn taken(&mut self) -> Result<()> {
        match self {
            WriterHandle::Local(_) => Ok(()),
            WriterHandle::Remote(w) => w.taken().await,
        }
    }

    /// Like [`ShardWriter::handle`]. For a remote shard there is nothing in this process that could be given
    /// up.
    #[must_use]
    pub fn handle(&self) -> Unfinished {
        match self {
            WriterHandle::Local(w) => w.handle(),
            WriterHandle::Remote(_) => Unfinished::elsewhere(),
        }
    }

    /// As [`ShardWriter::next_frame`].
    #[must_use]
    pub fn next_frame(&self) -> Option<(ShardId, u32)> {
        match self {
            WriterHandle::Local(w) => w.next_frame(),
            WriterHandle::Remote(w) => w.next_frame(),
        }
    }

    /// As [`ShardWriter::finish`].
    pub fn finish(self, done: Completion) -> Unfinished {
        match self {
            WriterHandle::Local(w) => w.finish(done),
            WriterHandle::Remote(w) => {
                w.finish(done);
                Unfinished::elsewhere()
            }
        }
    }
}

/// Reads one shard, which stays readable while this is held.
pub enum ReaderHandle {
    /// From a drive of this process.
    Local(ShardReader),
    /// From a drive of another process.
    Remote(Box<dyn RemoteReader>),
    /// A shard of one frame that a drive of another process has sent and checked.
    Whole(Bytes),
}

#[allow(clippy::missing_errors_doc)] // as the methods of `ShardReader` of the same names
impl ReaderHandle {
    /// As [`ShardReader::len`].
    #[must_use]
    #[allow(clippy::len_without_is_empty)] // a shard is never empty
    pub fn len(&self) -> u64 {
        match self {
            ReaderHandle::Local(r) => r.len(),
            ReaderHandle::Remote(r) => r.size(),
            ReaderHandle::Whole(bytes) => bytes.len() as u64,
        }
    }

    /// As [`ShardReader::frame`].
    #[must_use]
    pub fn frame(&self) -> u32 {
        match self {
            ReaderHandle::Local(r) => r.frame(),
            ReaderHandle::Remote(r) => r.frame(),
            ReaderHandle::Whole(bytes) => bytes.len() as u32,
        }
    }

    /// As [`ShardReader::frames`].
    #[must_use]
    pub fn frames(&self) -> u32 {
        match self {
            ReaderHandle::Local(r) => r.frames(),
            ReaderHandle::Remote(r) => r.size().div_ceil(u64::from(r.frame())) as u32,
            ReaderHandle::Whole(_) => 1,
        }
    }

    /// As [`ShardReader::is_direct`].
    #[must_use]
    pub fn is_direct(&self) -> bool {
        match self {
            ReaderHandle::Local(r) => r.is_direct(),
            // A message for several frames costs little more than a message for one.
            ReaderHandle::Remote(_) => true,
            ReaderHandle::Whole(_) => false,
        }
    }

    /// As [`ShardReader::read`].
    pub async fn read(&self, n: u32, check: Check) -> Result<Bytes> {
        match self {
            ReaderHandle::Local(r) => r.read(n, check).await,
            ReaderHandle::Remote(r) => r.read_run(n, 1, check).await?.into_iter().next().ok_or_else(strange),
            ReaderHandle::Whole(bytes) => whole(bytes, n, 1),
        }
    }

    /// As [`ShardReader::read_run`].
    pub async fn read_run(&self, n: u32, count: u32, check: Check) -> Result<Frames> {
        match self {
            ReaderHandle::Local(r) => r.read_run(n, count, check).await,
            ReaderHandle::Remote(r) => r.read_run(n, count, check).await,
            ReaderHandle::Whole(bytes) => whole(bytes, n, count).map(|frame| [frame].into_iter().collect()),
        }
    }

    /// As [`ShardReader::verify`].
    pub async fn verify(&self, n: u32, frames: Frames) -> Result<()> {
        match self {
            ReaderHandle::Local(r) => r.verify(n, frames).await,
            ReaderHandle::Remote(r) => r.verify(n, frames).await,
            // Its drive has checked it.
            ReaderHandle::Whole(_) => Ok(()),
        }
    }

    /// As [`ShardReader::read_run_now`].
    #[must_use]
    pub fn read_run_now(&self, n: u32, count: u32, check: Check) -> Option<Result<Frames>> {
        match self {
            ReaderHandle::Local(r) => r.read_run_now(n, count, check),
            ReaderHandle::Remote(_) => None,
            ReaderHandle::Whole(bytes) => Some(whole(bytes, n, count).map(|b| [b].into_iter().collect())),
        }
    }
}

/// The only frame of a shard.
fn whole(bytes: &Bytes, n: u32, count: u32) -> Result<Bytes> {
    if (n, count) == (0, 1) { Ok(bytes.clone()) } else { Err(Error::Malformed("frame number")) }
}
