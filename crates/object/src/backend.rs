//! Registers and data over placement groups, or the same in memory.
//!
//! This is the only file that uses `erasure-set`; its errors are translated here. An enum and not a trait,
//! because there are exactly two implementations, and the layers above should not be generic over them.
//!
//! Must not depend on: what records mean.

use std::ops::Range;
use std::sync::Arc;

use ashlar_commit::bucket_fence::Deletion;
use ashlar_erasure_set::{
    Choice, DataWriter, Decision as SetsDecision, Error as SetsError, FencedBucket, ObjectReader, Prefetched,
    Sets, Staged as SetsStaged, UpdateError,
};
use ashlar_format::{
    Ballot, Body, BucketId, Data, GroupId, Page as VersionPage, PageRef, Record, RegisterKey, Space, WriteId,
};
use ashlar_machine::BufferPool;
use bytes::Bytes;
use smallvec::SmallVec;

use crate::memory::{Memory, MemoryReader, MemoryStaged, MemoryWriter};
use crate::timing::drives;
use crate::{Error, Result};

/// A permit to read one body while writing another, to be held as long as both are open: both take memory,
/// and too many at once would wait for each other.
pub struct CopyPermit {
    _turn: Option<ashlar_erasure_set::CopyPermit>,
}

/// Memory for a decoder of a body; dropping it gives the memory back.
pub struct DecoderMemory {
    _room: Option<ashlar_erasure_set::DecoderMemory>,
}

/// Where registers and data are stored.
#[derive(Clone)]
pub(crate) enum Backend {
    Sets(Sets),
    Memory(Arc<Memory>),
}

/// The decision about a register.
pub(crate) enum Decision<R> {
    /// Make `body` the new state; lists show `summary`. Data that the old state names and the new one does
    /// not is dropped, unless `moved`: then another register names it, or the caller drops it.
    Write { body: Body, summary: Bytes, moved: bool, out: R },
    /// The same where the old or the new state has version pages ([`crate::paged`]): `dropped` is what the
    /// old state names, itself or by its pages, and the new one does not; `below` is the staged data that the
    /// new state names by its pages.
    Rewrite { body: Body, summary: Bytes, dropped: Vec<Data>, below: Vec<WriteId>, out: R },
    /// Keep the state, and return this answer.
    Keep(R),
    /// Keep the state, and return this error.
    Refuse(Error),
}

/// Decides, and returns the number of its answer; may be called several times.
pub(crate) type Decide<'a> = dyn FnMut(Option<&Record>) -> Decision<usize> + Send + 'a;

/// Why an update failed.
pub(crate) enum Failed {
    /// The decision returned an error.
    Refused(Error),
    /// The drives could not execute it.
    Set(Error),
}

/// Why an update failed.
pub(crate) enum Stopped {
    Failed(Failed),
    /// The bucket is fenced by this deletion; nothing was changed.
    Fenced(Deletion),
}

impl From<Stopped> for Error {
    fn from(s: Stopped) -> Error {
        match s {
            Stopped::Failed(f) => f.into(),
            Stopped::Fenced(_) => being_deleted(),
        }
    }
}

fn being_deleted() -> Error {
    Error::Unavailable("the bucket is being deleted".to_owned())
}

/// A bucket fenced in every group.
pub(crate) enum Fenced {
    Sets(FencedBucket),
    Memory,
}

impl From<Failed> for Error {
    fn from(f: Failed) -> Error {
        match f {
            Failed::Refused(e) | Failed::Set(e) => e,
        }
    }
}

/// One page of a list of registers: key bytes and summaries.
pub(crate) struct Page {
    pub entries: Vec<(Bytes, Bytes)>,
    pub truncated: bool,
}

/// Writes one body. The large variant is the usual one.
#[allow(clippy::large_enum_variant)]
pub(crate) enum Writer {
    Sets(DataWriter),
    Memory(MemoryWriter),
}

/// A body that waits for a record to name it.
pub(crate) enum Staged {
    Sets(SetsStaged),
    Memory(MemoryStaged),
}

impl Staged {
    pub(crate) fn data(&self) -> Data {
        match self {
            Staged::Sets(s) => s.data(),
            Staged::Memory(s) => s.data,
        }
    }
}

/// Reads a range of a body. The large variant is the usual one; boxing it would cost every read.
#[allow(clippy::large_enum_variant)]
pub(crate) enum Reader {
    Sets(ObjectReader),
    Memory(MemoryReader),
}

impl Backend {
    pub(crate) fn group_of(&self, bucket: BucketId, key: &[u8]) -> GroupId {
        match self {
            Backend::Sets(s) => s.group_of(bucket, key),
            Backend::Memory(m) => m.group_of(key),
        }
    }

    pub(crate) async fn read_register(&self, key: &RegisterKey) -> Result<Option<Arc<Record>>> {
        Ok(self.read_register_with_ballot(key).await?.map(|(record, _)| record))
    }

    /// Like [`Backend::read_register`], with the ballot under which the state was chosen; in memory always zero.
    pub(crate) async fn read_register_with_ballot(
        &self,
        key: &RegisterKey,
    ) -> Result<Option<(Arc<Record>, Ballot)>> {
        match self {
            Backend::Sets(s) => {
                let register = drives(s.read_register(key)).await.map_err(translate)?;
                Ok(register.map(|r| (r.record, r.ballot)))
            }
            Backend::Memory(m) => Ok(m.read_register(key).await?.map(|record| (record, Ballot::ZERO))),
        }
    }

    /// Like [`Backend::read_register_with_ballot`]; shards of what `choice` chooses may come along.
    pub(crate) async fn read_register_for(
        &self,
        key: &RegisterKey,
        choice: Choice<'_>,
    ) -> Result<(Option<(Arc<Record>, Ballot)>, Prefetched)> {
        match self {
            Backend::Sets(s) => {
                let (register, came) = drives(s.read_register_for(key, choice)).await.map_err(translate)?;
                Ok((register.map(|r| (r.record, r.ballot)), came))
            }
            Backend::Memory(_) => Ok((self.read_register_with_ballot(key).await?, Prefetched::default())),
        }
    }

    /// Changes a register by a function of its state. Returns the answer of the decision.
    pub(crate) async fn update<R: Send>(
        &self,
        key: &RegisterKey,
        staged: &[&Staged],
        decide: impl FnMut(Option<&Record>) -> Decision<R> + Send,
    ) -> std::result::Result<R, Stopped> {
        Ok(self.update_with_ballot(key, staged, decide).await?.0)
    }

    /// [`Backend::update`], with the place of the change in the order of all changes of the register.
    pub(crate) async fn update_with_ballot<R: Send>(
        &self,
        key: &RegisterKey,
        staged: &[&Staged],
        mut decide: impl FnMut(Option<&Record>) -> Decision<R> + Send,
    ) -> std::result::Result<(R, Ballot), Stopped> {
        // The answers stay here, so that the code below is compiled once and not for every type of answer.
        let mut answers: SmallVec<[Option<R>; 1]> = SmallVec::new();
        let (answer, ballot) = {
            let mut note = |out| {
                answers.push(Some(out));
                answers.len() - 1
            };
            let mut choose = |old: Option<&Record>| match decide(old) {
                Decision::Write { body, summary, moved, out } => {
                    Decision::Write { body, summary, moved, out: note(out) }
                }
                Decision::Rewrite { body, summary, dropped, below, out } => {
                    Decision::Rewrite { body, summary, dropped, below, out: note(out) }
                }
                Decision::Keep(out) => Decision::Keep(note(out)),
                Decision::Refuse(e) => Decision::Refuse(e),
            };
            self.update_by(key, staged, &mut choose).await?
        };
        let Some(out) = answers[answer].take() else { unreachable!("an update ends once") };
        Ok((out, ballot))
    }

    /// A ballot above those of all changes of a register so far, and below those of all that follow.
    pub(crate) async fn present_ballot(&self, key: &RegisterKey) -> Result<Ballot> {
        let ((), ballot) = self.update_with_ballot(key, &[], |_| Decision::Keep(())).await?;
        Ok(ballot)
    }

    /// [`Backend::update_with_ballot`] that returns the number of the answer.
    async fn update_by(
        &self,
        key: &RegisterKey,
        staged: &[&Staged],
        decide: &mut Decide<'_>,
    ) -> std::result::Result<(usize, Ballot), Stopped> {
        match self {
            Backend::Sets(s) => {
                let of_sets = staged.iter().filter_map(|staged| match staged {
                    Staged::Sets(s) => Some(s),
                    Staged::Memory(_) => None,
                });
                let staged: SmallVec<[&SetsStaged; 2]> = of_sets.collect();
                let done = s.update_register(key, &staged, |old| match decide(old) {
                    Decision::Write { body, summary, moved, out } => {
                        SetsDecision::Write { body, summary, moved, out }
                    }
                    Decision::Rewrite { body, summary, dropped, below, out } => {
                        SetsDecision::Rewrite { body, summary, dropped, below, out }
                    }
                    Decision::Keep(out) => SetsDecision::Keep(out),
                    Decision::Refuse(e) => SetsDecision::Refuse(e),
                });
                match drives(done).await {
                    Ok(done) => Ok((done.out, done.ballot)),
                    Err(UpdateError::Refused(e)) => Err(Stopped::Failed(Failed::Refused(e))),
                    Err(UpdateError::Set(SetsError::BucketFenced(by))) => Err(Stopped::Fenced(by)),
                    Err(UpdateError::Set(e)) => Err(Stopped::Failed(Failed::Set(translate(e)))),
                }
            }
            Backend::Memory(m) => {
                let of_memory = staged.iter().filter_map(|staged| match staged {
                    Staged::Memory(s) => Some(s),
                    Staged::Sets(_) => None,
                });
                let staged: SmallVec<[&MemoryStaged; 2]> = of_memory.collect();
                m.update(key, &staged, decide).await
            }
        }
    }

    /// Fences a bucket on a majority of every group.
    pub(crate) async fn fence_bucket(&self, bucket: BucketId, by: Deletion) -> Result<Fenced> {
        match self {
            Backend::Sets(s) => match drives(s.fence_bucket(bucket, by)).await {
                Ok(fenced) => Ok(Fenced::Sets(fenced)),
                // A later deletion has replaced this one.
                Err(SetsError::BucketFenced(_)) => Err(Error::Conflict),
                Err(e) => Err(translate(e)),
            },
            Backend::Memory(m) => m.fence_bucket(bucket, by).await.map(|()| Fenced::Memory),
        }
    }

    /// Key and summary of an existing register behind the fences.
    pub(crate) async fn first_behind(
        &self,
        fenced: &Fenced,
        space: Space,
        bucket: BucketId,
    ) -> Result<Option<(Bytes, Bytes)>> {
        match (self, fenced) {
            (Backend::Sets(s), Fenced::Sets(fenced)) => {
                drives(s.first_behind(fenced, space)).await.map_err(translate)
            }
            _ => Ok(self.list(space, bucket, b"", b"", 1).await?.entries.into_iter().next()),
        }
    }

    /// Lifts the fences of a bucket, up to those of a deletion.
    pub(crate) async fn lift_fences(&self, bucket: BucketId, up_to: Deletion) -> Result<()> {
        match self {
            Backend::Sets(s) => drives(s.lift_fences(bucket, up_to)).await.map_err(translate),
            Backend::Memory(m) => m.lift_fences(bucket, up_to).await,
        }
    }

    /// The buckets that are fenced.
    pub(crate) async fn fences(&self) -> Vec<(BucketId, Deletion)> {
        match self {
            Backend::Sets(s) => s.fences().await,
            Backend::Memory(m) => m.fences(),
        }
    }

    /// Whether no other process uses these registers.
    pub(crate) fn is_sole(&self) -> bool {
        match self {
            Backend::Sets(s) => s.is_sole(),
            Backend::Memory(_) => true,
        }
    }

    pub(crate) async fn write(&self, owner: &RegisterKey, size: u64) -> Result<Writer> {
        match self {
            Backend::Sets(s) => Ok(Writer::Sets(drives(s.write(owner, size)).await.map_err(translate)?)),
            Backend::Memory(m) => Ok(Writer::Memory(m.write(owner, size).await?)),
        }
    }

    /// Memory for a decoder.
    pub(crate) async fn reserve_decoder_memory(&self, bytes: usize) -> Result<DecoderMemory> {
        match self {
            Backend::Sets(s) => {
                Ok(DecoderMemory { _room: Some(s.reserve_decoder_memory(bytes).await.map_err(translate)?) })
            }
            Backend::Memory(_) => Ok(DecoderMemory { _room: None }),
        }
    }

    /// A permit to read one body while writing another.
    pub(crate) async fn copy_permit(&self) -> CopyPermit {
        match self {
            Backend::Sets(s) => CopyPermit { _turn: Some(s.copy_permit().await) },
            Backend::Memory(_) => CopyPermit { _turn: None },
        }
    }

    pub(crate) async fn read(
        &self,
        owner: &RegisterKey,
        data: &Data,
        size: u64,
        range: Range<u64>,
    ) -> Result<Reader> {
        self.read_prefetched(owner, data, size, range, Prefetched::default()).await
    }

    /// Like [`Backend::read`], with what came with the record.
    pub(crate) async fn read_prefetched(
        &self,
        owner: &RegisterKey,
        data: &Data,
        size: u64,
        range: Range<u64>,
        came: Prefetched,
    ) -> Result<Reader> {
        match self {
            Backend::Sets(s) => {
                let reader = drives(s.read_prefetched(owner, data, size, range, came)).await;
                Ok(Reader::Sets(reader.map_err(translate)?))
            }
            Backend::Memory(m) => Ok(Reader::Memory(m.read(data, size, range).await?)),
        }
    }

    /// A version page. `Changed`: the register names it no more.
    pub(crate) async fn version_page(&self, owner: &RegisterKey, r: &PageRef) -> Result<Arc<VersionPage>> {
        match self {
            Backend::Sets(s) => drives(s.read_page(owner, r)).await.map_err(translate),
            Backend::Memory(m) => m.version_page(r).await,
        }
    }

    /// Makes small bodies durable before the update that names them, together.
    pub(crate) async fn stage(&self, key: &RegisterKey, staged: &mut [Staged]) -> Result<()> {
        match self {
            Backend::Sets(s) => {
                let of_sets = staged.iter_mut().filter_map(|staged| match staged {
                    Staged::Sets(s) => Some(s),
                    Staged::Memory(_) => None,
                });
                drives(s.stage(key, of_sets.collect())).await.map_err(translate)
            }
            Backend::Memory(_) => Ok(()),
        }
    }

    /// Keeps a version page that was just written, so that it need not be read.
    pub(crate) fn keep_page(&self, data: &Data, page: Arc<VersionPage>, bytes: usize) {
        if let Backend::Sets(s) = self {
            s.keep_page(data, page, bytes);
        }
    }

    pub(crate) async fn list(
        &self,
        space: Space,
        bucket: BucketId,
        prefix: &[u8],
        from: &[u8],
        limit: usize,
    ) -> Result<Page> {
        match self {
            Backend::Sets(s) => {
                let page = drives(s.list(space, bucket, prefix, from, limit)).await.map_err(translate)?;
                let entries = page.entries.into_iter().map(|e| (e.key, e.summary)).collect();
                Ok(Page { entries, truncated: page.truncated })
            }
            Backend::Memory(m) => m.list(space, bucket, prefix, from, (limit, b"")).await,
        }
    }

    /// [`Backend::list`] for a caller that groups keys by a delimiter behind the prefix: see [`Sets::list_folded`].
    pub(crate) async fn list_folded(
        &self,
        space: Space,
        bucket: BucketId,
        (prefix, delimiter): (&[u8], &[u8]),
        from: &[u8],
        limit: usize,
    ) -> Result<Page> {
        match self {
            Backend::Sets(s) => {
                let page = s.list_folded(space, bucket, (prefix, delimiter), from, limit);
                let page = drives(page).await.map_err(translate)?;
                let entries = page.entries.into_iter().map(|e| (e.key, e.summary)).collect();
                Ok(Page { entries, truncated: page.truncated })
            }
            Backend::Memory(m) => m.list(space, bucket, prefix, from, (limit, delimiter)).await,
        }
    }

    /// Like [`Sets::is_crowded`]; always false in memory.
    pub(crate) fn is_crowded(&self) -> bool {
        match self {
            Backend::Sets(s) => s.is_crowded(),
            Backend::Memory(_) => false,
        }
    }

    /// The pool of buffers; `None` in memory.
    pub(crate) fn pool(&self) -> Option<&BufferPool> {
        match self {
            Backend::Sets(s) => Some(s.pool()),
            Backend::Memory(_) => None,
        }
    }

    pub(crate) fn discard(&self, group: GroupId, data: &[Data]) {
        match self {
            Backend::Sets(s) => s.discard(group, data),
            Backend::Memory(m) => m.discard(data),
        }
    }
}

impl Writer {
    /// Like [`DataWriter::space`]; `None` in memory.
    pub(crate) async fn space(&mut self, len: usize) -> Result<Option<&mut [u8]>> {
        match self {
            Writer::Sets(w) => drives(w.space(len)).await.map_err(translate),
            Writer::Memory(_) => Ok(None),
        }
    }

    /// Like [`DataWriter::park`].
    pub(crate) fn park(&mut self) {
        if let Writer::Sets(w) = self {
            w.park();
        }
    }

    /// Like [`DataWriter::filled`].
    pub(crate) async fn filled(&mut self, len: usize) -> Result<()> {
        match self {
            Writer::Sets(w) => drives(w.filled(len)).await.map_err(translate),
            Writer::Memory(_) => Err(Error::Internal("there is no space in memory".to_owned())),
        }
    }

    /// Writes a copy of the bytes.
    pub(crate) async fn copy(&mut self, bytes: &[u8]) -> Result<()> {
        match self {
            Writer::Sets(w) => drives(w.write(bytes)).await.map_err(translate),
            Writer::Memory(w) => {
                w.write(bytes);
                Ok(())
            }
        }
    }

    pub(crate) async fn write(&mut self, bytes: Bytes) -> Result<()> {
        match self {
            Writer::Sets(w) => drives(w.write(bytes)).await.map_err(translate),
            Writer::Memory(w) => {
                w.write(&bytes);
                Ok(())
            }
        }
    }

    pub(crate) async fn finish(self) -> Result<Staged> {
        match self {
            Writer::Sets(w) => Ok(Staged::Sets(drives(w.finish()).await.map_err(translate)?)),
            Writer::Memory(w) => Ok(Staged::Memory(w.finish().await?)),
        }
    }
}

impl Reader {
    /// Like [`ObjectReader::uncheck`]: for bytes that are authenticated before they are sent.
    pub(crate) fn uncheck(&mut self) {
        if let Reader::Sets(r) = self {
            r.uncheck();
        }
    }

    pub(crate) async fn next(&mut self) -> Option<Result<Bytes>> {
        match self {
            Reader::Sets(r) => drives(r.next()).await.map(|r| r.map_err(translate)),
            Reader::Memory(r) => r.next(),
        }
    }
}

/// Translates an error of the placement groups.
fn translate(e: SetsError) -> Error {
    match e {
        SetsError::Unavailable(why) => Error::Unavailable(why),
        SetsError::Contended | SetsError::Busy(_) => Error::Busy,
        SetsError::Full => Error::Full,
        SetsError::Corrupt(what) => Error::Corrupt(what),
        SetsError::Superseded => Error::Changed,
        SetsError::Unknown(_) => Error::Unavailable("whether the change happened is not known".to_owned()),
        SetsError::Invalid(what) => Error::Internal(what.to_owned()),
        SetsError::BucketFenced(_) => being_deleted(),
    }
}
