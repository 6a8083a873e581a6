//! A handle of a drive that is in this process or served by another one.
//!
//! Invariants: both kinds have the same calls. For a drive in this process a call costs one additional
//! comparison, and the `_now` forms work. A remote drive has no `_now` answer, so callers continue with the
//! form that waits; its role, state and floor are the last ones received.
//!
//! Must not depend on: transports, other drives.

use crate::remote::{Answer, Later, ReadWithShard, Remote, Request, WantedShards};
use crate::shard_handle::{ReaderHandle, WriterHandle, strange};
use crate::types::{
    Accept, Entry, FenceAnswer, Fold, InlineShard, Known, Prepared, Range, ReadReply, Role, ShardInfo, State,
    Stats,
};
use crate::{Completion, Drive, Error, Label, Result};
use ashlar_commit::bucket_fence::{Deletion, Grant};
use ashlar_format::frame::ShardId;
use ashlar_format::{Ballot, BucketId, DriveId, GroupId, RegisterKey, WriteId};
use bytes::Bytes;
use futures::future::BoxFuture;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// A drive, local or remote. Cloning gives another handle.
#[derive(Clone)]
pub enum DriveHandle {
    /// A drive of this process.
    Local(Drive),
    /// A drive of another process.
    Remote(Arc<dyn Remote>),
}

impl From<Drive> for DriveHandle {
    fn from(drive: Drive) -> DriveHandle {
        DriveHandle::Local(drive)
    }
}

/// The error of a call for drives of another node.
fn here() -> Error {
    Error::Malformed("a drive of this process is asked by itself")
}

/// Asks a remote drive and extracts the expected kind of answer.
macro_rules! asked {
    ($remote:expr, $request:expr, $answer:pat => $out:expr) => {
        match $remote.ask($request).await? {
            $answer => Ok($out),
            _ => Err(strange()),
        }
    };
}

#[allow(clippy::missing_errors_doc)] // as the methods of `Drive` of the same names
impl DriveHandle {
    /// The drive itself, if it is in this process.
    #[must_use]
    pub fn local(&self) -> Option<&Drive> {
        match self {
            DriveHandle::Local(d) => Some(d),
            DriveHandle::Remote(_) => None,
        }
    }

    /// As [`Drive::label`].
    #[must_use]
    pub fn label(&self) -> &Label {
        match self {
            DriveHandle::Local(d) => d.label(),
            DriveHandle::Remote(r) => r.label(),
        }
    }

    /// As [`Drive::path`].
    #[must_use]
    pub fn path(&self) -> &Path {
        match self {
            DriveHandle::Local(d) => d.path(),
            DriveHandle::Remote(r) => r.path(),
        }
    }

    /// As [`Drive::state`].
    #[must_use]
    pub fn state(&self) -> State {
        match self {
            DriveHandle::Local(d) => d.state(),
            DriveHandle::Remote(r) => r.status().state,
        }
    }

    /// As [`Drive::role`].
    #[must_use]
    pub fn role(&self, group: GroupId) -> Option<Role> {
        match self {
            DriveHandle::Local(d) => d.role(group),
            DriveHandle::Remote(r) => r.status().role(group),
        }
    }

    /// As [`Drive::joins`].
    #[must_use]
    pub fn joins(&self) -> bool {
        match self {
            DriveHandle::Local(d) => d.joins(),
            DriveHandle::Remote(r) => r.status().joins(),
        }
    }

    /// As [`Drive::epoch`].
    #[must_use]
    pub fn epoch(&self, group: GroupId) -> u32 {
        match self {
            DriveHandle::Local(d) => d.epoch(group),
            DriveHandle::Remote(r) => r.status().epoch(group),
        }
    }

    /// Brings what is known of the drive up to date: asks the node of a drive of another process. [`DriveHandle::role`],
    /// [`DriveHandle::epoch`] and [`DriveHandle::state`] of such a drive are otherwise what it said last, up to a second ago.
    pub fn ask_status(&self) -> BoxFuture<'_, Result<()>> {
        Box::pin(async move {
            match self {
                DriveHandle::Local(_) => Ok(()),
                DriveHandle::Remote(r) => r.ask_status().await,
            }
        })
    }

    /// As [`Drive::floor`].
    #[must_use]
    pub fn floor(&self) -> Ballot {
        match self {
            DriveHandle::Local(d) => d.floor(),
            DriveHandle::Remote(r) => r.status().floor,
        }
    }

    /// As [`Drive::stats`].
    #[must_use]
    pub fn stats(&self) -> Stats {
        match self {
            DriveHandle::Local(d) => d.stats(),
            DriveHandle::Remote(r) => r.status().stats,
        }
    }

    /// How long the oldest running call has not been answered; zero if there is none.
    #[must_use]
    pub fn oldest(&self) -> Duration {
        match self {
            DriveHandle::Local(d) => d.watch().oldest(),
            DriveHandle::Remote(r) => r.oldest(),
        }
    }

    /// As [`Drive::stalled`].
    #[must_use]
    pub fn stalled(&self) -> Option<Duration> {
        match self {
            DriveHandle::Local(d) => d.stalled(),
            DriveHandle::Remote(r) => Some(r.oldest()).filter(|age| *age >= Duration::from_secs(1)),
        }
    }

    /// As [`Remote::is_away`]; a drive of this process never is.
    #[must_use]
    pub fn is_away(&self) -> bool {
        match self {
            DriveHandle::Local(_) => false,
            DriveHandle::Remote(r) => r.is_away(),
        }
    }

    /// As [`Drive::frames_waiting`].
    #[must_use]
    pub fn frames_waiting(&self) -> u64 {
        match self {
            DriveHandle::Local(d) => d.frames_waiting(),
            DriveHandle::Remote(r) => r.frames_waiting(),
        }
    }

    /// As [`Drive::is_hard_disk`]; of a drive of another process that is not known, and false.
    #[must_use]
    pub fn is_hard_disk(&self) -> bool {
        match self {
            DriveHandle::Local(d) => d.is_hard_disk(),
            DriveHandle::Remote(_) => false,
        }
    }

    /// As [`Drive::check_room`].
    pub fn check_room(&self, bytes: u64) -> Result<()> {
        match self {
            DriveHandle::Local(d) => d.check_room(bytes),
            DriveHandle::Remote(r) => match r.status() {
                s if s.state == State::ReadOnly => Err(Error::ReadOnly),
                s if s.state != State::Online => Err(Error::Offline("it is out of service")),
                s if s.stats.free < bytes => Err(Error::Full),
                _ => Ok(()),
            },
        }
    }

    /// As [`Drive::fence_epoch`].
    pub fn fence_epoch(&self, group: GroupId, epoch: u32) -> BoxFuture<'_, Result<()>> {
        Box::pin(async move {
            match self {
                DriveHandle::Local(d) => d.fence_epoch(group, epoch).await,
                DriveHandle::Remote(r) => asked!(r, Request::FenceEpoch { group, epoch }, Answer::Done => ()),
            }
        })
    }

    /// As [`Drive::found`].
    pub fn found<'a>(&'a self, groups: &'a [GroupId], epoch: u32) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            match self {
                DriveHandle::Local(d) => d.found(groups, epoch).await,
                DriveHandle::Remote(r) => {
                    asked!(r, Request::Found { groups: groups.to_vec(), epoch }, Answer::Done => ())
                }
            }
        })
    }

    /// As [`Drive::join`].
    pub fn join<'a>(&'a self, groups: &'a [(GroupId, u32)]) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            match self {
                DriveHandle::Local(d) => d.join(groups).await,
                DriveHandle::Remote(r) => {
                    asked!(r, Request::Join { groups: groups.to_vec() }, Answer::Done => ())
                }
            }
        })
    }

    /// As [`Drive::fence_bucket`].
    pub fn fence_bucket(
        &self,
        group: GroupId,
        bucket: BucketId,
        by: Deletion,
        epoch: u32,
    ) -> BoxFuture<'_, Result<FenceAnswer>> {
        Box::pin(async move {
            match self {
                DriveHandle::Local(d) => d.fence_bucket(group, bucket, by, epoch).await,
                DriveHandle::Remote(r) => {
                    asked!(r, Request::FenceBucket { group, bucket, by, epoch }, Answer::Fence(answer) => answer)
                }
            }
        })
    }

    /// As [`Drive::lift_fence`].
    pub fn lift_fence(&self, bucket: BucketId, up_to: Deletion) -> BoxFuture<'_, Result<()>> {
        Box::pin(async move {
            match self {
                DriveHandle::Local(d) => d.lift_fence(bucket, up_to).await,
                DriveHandle::Remote(r) => asked!(r, Request::LiftFence { bucket, up_to }, Answer::Done => ()),
            }
        })
    }

    /// As [`Drive::fences`].
    pub fn fences(&self) -> BoxFuture<'_, Result<Vec<(GroupId, BucketId, Deletion)>>> {
        Box::pin(async move {
            match self {
                DriveHandle::Local(d) => Ok(d.fences()),
                DriveHandle::Remote(r) => asked!(r, Request::Fences, Answer::Fences(fences) => fences),
            }
        })
    }

    /// As [`Drive::joined`].
    pub fn joined(&self, group: GroupId, epoch: u32) -> BoxFuture<'_, Result<()>> {
        Box::pin(async move {
            match self {
                DriveHandle::Local(d) => d.joined(group, epoch).await,
                DriveHandle::Remote(r) => asked!(r, Request::Joined { group, epoch }, Answer::Done => ()),
            }
        })
    }

    /// As [`Drive::prepare`].
    pub async fn prepare(&self, key: &RegisterKey, ballot: Ballot) -> Result<Prepared> {
        match self {
            DriveHandle::Local(d) => d.prepare(key, ballot).await,
            DriveHandle::Remote(r) => {
                asked!(r, Request::Prepare { key: key.clone(), ballot }, Answer::Prepared(p) => p)
            }
        }
    }

    /// As [`Drive::prepare_knowing`]; a remote drive always sends its record.
    pub async fn prepare_knowing(
        &self,
        key: &RegisterKey,
        ballot: Ballot,
        known: Option<&Known>,
    ) -> Result<Prepared> {
        match self {
            DriveHandle::Local(d) => d.prepare_knowing(key, ballot, known).await,
            DriveHandle::Remote(_) => self.prepare(key, ballot).await,
        }
    }

    /// As [`Drive::accept`].
    pub fn accept(&self, accept: Accept, done: Completion) {
        self.accept_with(accept, Grant::Plain, done);
    }

    /// As [`Drive::accept_with`].
    pub fn accept_with(&self, accept: Accept, grant: Grant, done: Completion) {
        match self {
            DriveHandle::Local(d) => d.accept_with(accept, grant, done),
            DriveHandle::Remote(r) => r.order(Request::Accept { accept, grant }, done),
        }
    }

    /// As [`Drive::copy`].
    pub fn copy(&self, accept: Accept, hint: bool, done: Completion) {
        match self {
            DriveHandle::Local(d) => d.copy(accept, hint, done),
            DriveHandle::Remote(r) => r.order(Request::Copy { accept, hint }, done),
        }
    }

    /// As [`Drive::stage`].
    pub fn stage(&self, shard: InlineShard, done: Completion) {
        match self {
            DriveHandle::Local(d) => d.stage(shard, done),
            DriveHandle::Remote(r) => r.order(Request::Stage(shard), done),
        }
    }

    /// As [`Drive::stage_all`].
    pub fn stage_all(&self, shards: impl IntoIterator<Item = (InlineShard, Completion)>) {
        match self {
            DriveHandle::Local(d) => d.stage_all(shards),
            DriveHandle::Remote(r) => {
                shards.into_iter().for_each(|(shard, done)| r.order(Request::Stage(shard), done));
            }
        }
    }

    /// As [`Drive::confirm`].
    pub fn confirm(
        &self,
        write_id: WriteId,
        index: u8,
        ballot: Ballot,
        epoch: u32,
    ) -> BoxFuture<'_, Result<()>> {
        Box::pin(async move {
            match self {
                DriveHandle::Local(d) => d.confirm(write_id, index, ballot, epoch).await,
                DriveHandle::Remote(r) => {
                    asked!(r, Request::Confirm { write_id, index, ballot, epoch }, Answer::Done => ())
                }
            }
        })
    }

    /// As [`Drive::read`].
    pub fn read<'a>(
        &'a self,
        key: &'a RegisterKey,
        record: bool,
        epoch: u32,
    ) -> BoxFuture<'a, Result<ReadReply>> {
        Box::pin(async move {
            match self {
                DriveHandle::Local(d) => d.read(key, record, epoch).await,
                DriveHandle::Remote(r) => {
                    asked!(r, Request::Read { key: key.clone(), record, epoch }, Answer::Read(reply) => reply)
                }
            }
        })
    }

    /// As [`Drive::read_now`].
    #[must_use]
    pub fn read_now(&self, key: &RegisterKey, record: bool, epoch: u32) -> Option<Result<ReadReply>> {
        self.local()?.read_now(key, record, epoch)
    }

    /// As [`Remote::node`]; `None` for a drive of this process.
    #[must_use]
    pub fn node(&self) -> Option<usize> {
        match self {
            DriveHandle::Local(_) => None,
            DriveHandle::Remote(r) => Some(r.node()),
        }
    }

    /// As [`Remote::read_many`].
    #[must_use]
    pub fn read_many(
        &self,
        drives: &[DriveId],
        key: &RegisterKey,
        known: Ballot,
        epoch: u32,
        shards: Option<WantedShards>,
    ) -> Later<'static, Vec<Option<ReadWithShard>>> {
        match self {
            DriveHandle::Local(_) => Box::pin(async { Err(here()) }),
            DriveHandle::Remote(r) => r.read_many(drives, key, known, epoch, shards),
        }
    }

    /// As [`Remote::prepare_many`].
    #[must_use]
    pub fn prepare_many(
        &self,
        drives: &[DriveId],
        key: &RegisterKey,
        ballot: Ballot,
        known: Option<&Known>,
    ) -> Later<'static, Vec<Result<Prepared>>> {
        match self {
            DriveHandle::Local(_) => Box::pin(async { Err(here()) }),
            DriveHandle::Remote(r) => r.prepare_many(drives, key, ballot, known),
        }
    }

    /// As [`Remote::hint_many`]. `drives` are those of one node; on a drive of this process it is for that drive.
    pub fn hint_many(&self, drives: &[DriveId], key: &RegisterKey, ballot: Ballot, epoch: u32) {
        match self {
            DriveHandle::Local(d) => d.hint(key, ballot, epoch),
            DriveHandle::Remote(r) => r.hint_many(drives, key, ballot, epoch),
        }
    }

    /// As [`Drive::scan`].
    pub fn scan<'a>(
        &'a self,
        from: &'a [u8],
        to: &'a [u8],
        limit: usize,
        epoch: u32,
    ) -> BoxFuture<'a, Result<Vec<Entry>>> {
        Box::pin(async move {
            match self {
                DriveHandle::Local(d) => d.scan(from, to, limit, epoch).await,
                DriveHandle::Remote(r) => {
                    let (from, to) = (from.to_vec(), to.to_vec());
                    asked!(r, Request::Scan { from, to, limit, epoch }, Answer::Entries(found) => found)
                }
            }
        })
    }

    /// As [`Drive::scan_now`].
    #[must_use]
    pub fn scan_now(&self, from: &[u8], to: &[u8], limit: usize, epoch: u32) -> Option<Result<Vec<Entry>>> {
        self.local()?.scan_now(from, to, limit, epoch)
    }

    /// As [`Drive::summary_now`].
    #[must_use]
    pub fn summary_now(&self, key: &RegisterKey, ballot: Ballot, epoch: u32) -> Option<Bytes> {
        self.local()?.summary_now(key, ballot, epoch)
    }

    /// As [`Drive::range_digest`].
    pub fn range_digest<'a>(
        &'a self,
        from: &'a [u8],
        to: &'a [u8],
        epoch: u32,
    ) -> BoxFuture<'a, Result<(u64, u64)>> {
        Box::pin(async move {
            match self {
                DriveHandle::Local(d) => d.range_digest(from, to, epoch).await,
                DriveHandle::Remote(r) => {
                    let (from, to) = (from.to_vec(), to.to_vec());
                    asked!(r, Request::RangeDigest { from, to, epoch }, Answer::Digest(n, sum) => (n, sum))
                }
            }
        })
    }

    /// As [`Drive::scan_many`].
    pub fn scan_many(
        &self,
        ranges: Vec<Range>,
        fold: Option<Fold>,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<Entry>>> {
        Box::pin(async move {
            match self {
                DriveHandle::Local(d) => d.scan_many(ranges, fold, limit).await,
                DriveHandle::Remote(r) => {
                    asked!(r, Request::ScanMany { ranges, fold, limit }, Answer::Entries(found) => found)
                }
            }
        })
    }

    /// As [`Drive::digests`].
    pub fn digests(
        &self,
        ranges: Vec<Range>,
        fold: Option<Fold>,
        few: bool,
    ) -> BoxFuture<'_, Result<Vec<(u64, u64)>>> {
        Box::pin(async move {
            match self {
                DriveHandle::Local(d) => d.digests(ranges, fold, few).await,
                DriveHandle::Remote(r) => {
                    asked!(r, Request::Digests { ranges, fold, few }, Answer::Digests(digests) => digests)
                }
            }
        })
    }

    /// As [`Drive::verify_register`].
    pub fn verify_register<'a>(&'a self, key: &'a RegisterKey) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            match self {
                DriveHandle::Local(d) => d.verify_register(key).await,
                DriveHandle::Remote(r) => {
                    asked!(r, Request::VerifyRegister { key: key.clone() }, Answer::Done => ())
                }
            }
        })
    }

    /// As [`Drive::hint`].
    pub fn hint(&self, key: &RegisterKey, ballot: Ballot, epoch: u32) {
        match self {
            DriveHandle::Local(d) => d.hint(key, ballot, epoch),
            DriveHandle::Remote(r) => r.tell(Request::Hint { key: key.clone(), ballot, epoch }),
        }
    }

    /// As [`Drive::purge`].
    pub fn purge(&self, key: &RegisterKey, ballot: Ballot, epoch: u32) {
        match self {
            DriveHandle::Local(d) => d.purge(key, ballot, epoch),
            DriveHandle::Remote(r) => r.tell(Request::Purge { key: key.clone(), ballot, epoch }),
        }
    }

    /// As [`Drive::begin_shard`].
    #[allow(clippy::too_many_arguments)] // as `Drive::begin_shard`
    pub fn begin_shard(
        &self,
        owner: &RegisterKey,
        write_id: WriteId,
        index: u8,
        ballot: Ballot,
        epoch: u32,
        len: u64,
        frame: u32,
    ) -> Result<WriterHandle> {
        match self {
            DriveHandle::Local(d) => {
                d.begin_shard(owner, write_id, index, ballot, epoch, len, frame).map(WriterHandle::Local)
            }
            DriveHandle::Remote(r) => {
                let shard = ShardId { deployment: r.label().deployment, write_id, index };
                r.begin_shard(owner, shard, ballot, epoch, len, frame).map(WriterHandle::Remote)
            }
        }
    }

    /// As [`Drive::open_shard`].
    pub fn open_shard(&self, write_id: WriteId, index: u8) -> BoxFuture<'_, Result<ReaderHandle>> {
        Box::pin(async move {
            match self {
                DriveHandle::Local(d) => d.open_shard(write_id, index).await.map(ReaderHandle::Local),
                DriveHandle::Remote(r) => r.open_shard(write_id, index).await.map(ReaderHandle::Remote),
            }
        })
    }

    /// As [`Drive::open_shard_now`].
    #[must_use]
    pub fn open_shard_now(&self, write_id: WriteId, index: u8) -> Option<Result<ReaderHandle>> {
        self.local()?.open_shard_now(write_id, index).map(|r| r.map(ReaderHandle::Local))
    }

    /// As [`Drive::discard`].
    pub fn discard(&self, group: GroupId, epoch: u32, shards: &[(WriteId, u8)]) {
        match self {
            DriveHandle::Local(d) => d.discard(group, epoch, shards),
            DriveHandle::Remote(r) => r.tell(Request::Discard { group, epoch, shards: shards.to_vec() }),
        }
    }

    /// As [`Drive::shards`].
    pub fn shards(
        &self,
        after: Option<(WriteId, u8)>,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<ShardInfo>>> {
        Box::pin(async move {
            match self {
                DriveHandle::Local(d) => d.shards(after, limit).await,
                DriveHandle::Remote(r) => asked!(r, Request::Shards { after, limit }, Answer::Shards(s) => s),
            }
        })
    }

    /// As [`Drive::drop_orphan`].
    pub fn drop_orphan(
        &self,
        write_id: WriteId,
        index: u8,
        collector: Ballot,
        epoch: u32,
    ) -> BoxFuture<'_, Result<bool>> {
        Box::pin(async move {
            match self {
                DriveHandle::Local(d) => d.drop_orphan(write_id, index, collector, epoch).await,
                DriveHandle::Remote(r) => {
                    let request = Request::DropOrphan { write_id, index, collector, epoch };
                    asked!(r, request, Answer::Dropped(gone) => gone)
                }
            }
        })
    }

    /// As [`Drive::verify_shard`].
    pub fn verify_shard(&self, write_id: WriteId, index: u8) -> BoxFuture<'_, Result<()>> {
        Box::pin(async move {
            match self {
                DriveHandle::Local(d) => d.verify_shard(write_id, index).await,
                DriveHandle::Remote(r) => {
                    asked!(r, Request::VerifyShard { write_id, index }, Answer::Done => ())
                }
            }
        })
    }
}
