//! Requests to a drive that another process serves, and their answers.
//!
//! Invariants: a request owns its parameters, so that it can cross a network; [`Drive::serve`] is the only
//! place that maps requests to calls; an answer that does not arrive in time is [`Error::Unanswered`]: it is
//! unknown whether the drive executed the request, so this is neither a refusal nor "absent". Dropping the
//! future of an answer abandons the answer, not the request.
//!
//! Must not depend on: transports, other drives.

use crate::drive::Drive;
use crate::frames::{Check, Frames};
use crate::types::{
    Accept, Entry, FenceAnswer, Fold, InlineShard, Known, Prepared, Range, ReadReply, Role, ShardInfo, State,
    Stats,
};
use crate::{Completion, Error, Label, Result, Tally};
use ashlar_commit::bucket_fence::{Deletion, Grant};
use ashlar_format::frame::ShardId;
use ashlar_format::{Ballot, BucketId, DriveId, GroupId, RegisterKey, WriteId};
use bytes::Bytes;
use std::future::Future;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

/// The future answer to a request.
pub type Later<'a, T> = Pin<Box<dyn Future<Output = Result<T>> + Send + 'a>>;

/// A call of a drive; see the methods of [`Drive`] with the same names.
#[derive(Clone, Debug)]
#[allow(missing_docs)] // the parameters of those methods
pub enum Request {
    Prepare { key: RegisterKey, ballot: Ballot },
    Accept { accept: Accept, grant: Grant },
    Copy { accept: Accept, hint: bool },
    Stage(InlineShard),
    Confirm { write_id: WriteId, index: u8, ballot: Ballot, epoch: u32 },
    Read { key: RegisterKey, record: bool, epoch: u32 },
    Scan { from: Vec<u8>, to: Vec<u8>, limit: usize, epoch: u32 },
    RangeDigest { from: Vec<u8>, to: Vec<u8>, epoch: u32 },
    ScanMany { ranges: Vec<Range>, fold: Option<Fold>, limit: usize },
    Digests { ranges: Vec<Range>, fold: Option<Fold>, few: bool },
    VerifyRegister { key: RegisterKey },
    VerifyShard { write_id: WriteId, index: u8 },
    Shards { after: Option<(WriteId, u8)>, limit: usize },
    DropOrphan { write_id: WriteId, index: u8, collector: Ballot, epoch: u32 },
    FenceEpoch { group: GroupId, epoch: u32 },
    Found { groups: Vec<GroupId>, epoch: u32 },
    Join { groups: Vec<(GroupId, u32)> },
    Joined { group: GroupId, epoch: u32 },
    Hint { key: RegisterKey, ballot: Ballot, epoch: u32 },
    Purge { key: RegisterKey, ballot: Ballot, epoch: u32 },
    Discard { group: GroupId, epoch: u32, shards: Vec<(WriteId, u8)> },
    FenceBucket { group: GroupId, bucket: BucketId, by: Deletion, epoch: u32 },
    LiftFence { bucket: BucketId, up_to: Deletion },
    Fences,
}

impl Request {
    /// Whether a second execution, at any later time, is harmless. This does not hold for changes of votes.
    #[must_use]
    pub fn may_repeat(&self) -> bool {
        !matches!(self, Request::Found { .. } | Request::Joined { .. } | Request::Copy { .. })
    }

    /// The name of the call.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Request::Prepare { .. } => "prepare",
            Request::Accept { .. } => "accept",
            Request::Copy { .. } => "copy",
            Request::Stage(_) => "stage",
            Request::Confirm { .. } => "confirm",
            Request::Read { .. } => "read",
            Request::Scan { .. } => "scan",
            Request::RangeDigest { .. } => "range digest",
            Request::ScanMany { .. } => "scan many",
            Request::Digests { .. } => "digests",
            Request::VerifyRegister { .. } => "verify register",
            Request::VerifyShard { .. } => "verify shard",
            Request::Shards { .. } => "shards",
            Request::DropOrphan { .. } => "drop orphan",
            Request::FenceEpoch { .. } => "fence epoch",
            Request::Found { .. } => "found",
            Request::Join { .. } => "join",
            Request::Joined { .. } => "joined",
            Request::Hint { .. } => "hint",
            Request::Purge { .. } => "purge",
            Request::Discard { .. } => "discard",
            Request::FenceBucket { .. } => "fence bucket",
            Request::LiftFence { .. } => "lift fence",
            Request::Fences => "fences",
        }
    }
}

/// The answer of a drive to a [`Request`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Done; durable where the call promises it.
    Done,
    /// Done and durable on a drive that is joining: not to be counted.
    Uncounted,
    /// Not done: this ballot, or a higher one, was promised or accepted before.
    Refused(Ballot),
    /// Of `prepare`.
    Prepared(Prepared),
    /// Of `read`.
    Read(ReadReply),
    /// Of `scan` and `scan_many`.
    Entries(Vec<Entry>),
    /// Of `range_digest`.
    Digest(u64, u64),
    /// Of `digests`.
    Digests(Vec<(u64, u64)>),
    /// Of `shards`.
    Shards(Vec<ShardInfo>),
    /// Of `drop_orphan`.
    Dropped(bool),
    /// Of `fence_bucket`.
    Fence(FenceAnswer),
    /// Of `fences`.
    Fences(Vec<(GroupId, BucketId, Deletion)>),
}

impl Answer {
    /// Passes the answer to a completion.
    pub fn complete(answer: Result<Answer>, done: Completion) {
        match answer {
            Ok(Answer::Done) => done.ok(),
            Ok(Answer::Uncounted) => done.uncounted(),
            Ok(Answer::Refused(highest)) => done.refused(highest),
            Ok(_) => done.err(Error::Malformed("an answer to another question")),
            Err(e) => done.err(e),
        }
    }
}

/// The last status received from a drive.
#[derive(Clone, Debug, PartialEq)]
pub struct Status {
    /// Whether it works.
    pub state: State,
    /// The groups that it holds, in ascending order; for each whether it may vote, and its layout epoch.
    pub held: Arc<[(GroupId, Role, u32)]>,
    /// Like [`Drive::floor`].
    pub floor: Ballot,
    /// Like [`Drive::stats`].
    pub stats: Stats,
}

impl Status {
    fn group(&self, group: GroupId) -> Option<&(GroupId, Role, u32)> {
        self.held.binary_search_by_key(&group, |of| of.0).ok().map(|i| &self.held[i])
    }

    /// As [`Drive::role`].
    #[must_use]
    pub fn role(&self, group: GroupId) -> Option<Role> {
        self.group(group).map(|of| of.1)
    }

    /// As [`Drive::epoch`].
    #[must_use]
    pub fn epoch(&self, group: GroupId) -> u32 {
        self.group(group).map_or(0, |of| of.2)
    }

    /// As [`Drive::joins`].
    #[must_use]
    pub fn joins(&self) -> bool {
        self.held.is_empty() || self.held.iter().any(|of| of.1 != Role::Voter)
    }
}

/// Shards of one write that a READ of several drives asks for as well.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WantedShards {
    /// The write.
    pub write_id: WriteId,
    /// For each of the drives, in their order, the number of the shard that it should send; `None`: none.
    pub of: Vec<Option<u8>>,
}

/// What one of several drives answered to a READ.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadWithShard {
    /// Its register.
    pub reply: ReadReply,
    /// The whole shard that it was asked for, checked by the drive.
    pub shard: Option<Bytes>,
}

/// The connection of this process to a drive that another process serves.
pub trait Remote: Send + Sync + 'static {
    /// The label.
    fn label(&self) -> &Label;
    /// Where it is, for messages.
    fn path(&self) -> &Path;
    /// The last status received. Never waits.
    fn status(&self) -> Status;
    /// Asks its node for its status now. Afterwards [`Remote::status`] is what the node said.
    fn ask_status(&self) -> Later<'static, ()>;
    /// The age of the oldest unanswered request; zero if there is none.
    fn oldest(&self) -> Duration;
    /// Whether no answer can be expected now: its node cannot be reached, has been silent for too long although it was
    /// asked, or does not serve it. A call may be sent all the same; one answer of the node ends it. Never waits.
    fn is_away(&self) -> bool;
    /// Bytes of large shards that wait to be sent.
    fn frames_waiting(&self) -> u64;
    /// Identifies its node: drives with the same number are of one node. Never waits.
    fn node(&self) -> usize;
    /// READ of one register on several drives of its node, with one message that is sent now. The answers are in the order of
    /// `drives`; `None`: ask this drive by itself, because it has to wait for a device, or because of an error. A record is in
    /// the first of the answers that show it, and in none if it is of the ballot `known`.
    ///
    /// A drive sends the shard that `shards` names for it if it shows the ballot `known`, has the whole shard in one frame,
    /// reads and checks it without waiting for a device, and the answer has room for it. Otherwise it sends none, which
    /// says nothing about the shard.
    fn read_many(
        &self,
        drives: &[DriveId],
        key: &RegisterKey,
        known: Ballot,
        epoch: u32,
        shards: Option<WantedShards>,
    ) -> Later<'static, Vec<Option<ReadWithShard>>>;
    /// As [`Drive::prepare_knowing`] on several drives of its node, with one message that is sent now. The answers are in the
    /// order of `drives`; one that did not come within a second is [`Error::Unanswered`].
    fn prepare_many(
        &self,
        drives: &[DriveId],
        key: &RegisterKey,
        ballot: Ballot,
        known: Option<&Known>,
    ) -> Later<'static, Vec<Result<Prepared>>>;
    /// HINT to several drives of its node, with one message.
    fn hint_many(&self, drives: &[DriveId], key: &RegisterKey, ballot: Ballot, epoch: u32);
    /// Sends a request now; the future is its answer.
    fn ask(&self, request: Request) -> Later<'static, Answer>;
    /// Sends a request; `done` gets its answer.
    fn order(&self, request: Request, done: Completion);
    /// Sends a request whose answer is not needed.
    fn tell(&self, request: Request);
    /// As [`Drive::begin_shard`]; `shard` names it, `len` and `frame` are its sizes.
    ///
    /// # Errors
    /// Like [`Drive::begin_shard`], as far as they can be detected here.
    fn begin_shard(
        &self,
        owner: &RegisterKey,
        shard: ShardId,
        ballot: Ballot,
        epoch: u32,
        len: u64,
        frame: u32,
    ) -> Result<Box<dyn RemoteWriter>>;
    /// As [`Drive::open_shard`].
    fn open_shard(&self, write_id: WriteId, index: u8) -> Later<'static, Box<dyn RemoteReader>>;
}

/// A large shard that is being sent to a remote drive; dropping it abandons the shard.
pub trait RemoteWriter: Send + Sync {
    /// As [`crate::ShardWriter::next_frame`].
    fn next_frame(&self) -> Option<(ShardId, u32)>;
    /// As [`crate::ShardWriter::write_hashed`].
    fn write_hashed(&mut self, frame: Bytes, hash: [u8; 32]) -> Later<'_, ()>;
    /// Waits until the drive has taken the frames that were sent. The last one is not: it is sent by `finish`.
    fn taken(&mut self) -> Later<'_, ()>;
    /// As [`crate::ShardWriter::finish`].
    fn finish(self: Box<Self>, done: Completion);
}

/// A shard of a remote drive; it stays readable while this is held.
pub trait RemoteReader: Send + Sync {
    /// Bytes of the shard.
    fn size(&self) -> u64;
    /// Bytes of a frame, except the last.
    fn frame(&self) -> u32;
    /// As [`crate::ShardReader::read_run`].
    fn read_run(&self, n: u32, count: u32, check: Check) -> Later<'_, Frames>;
    /// As [`crate::ShardReader::verify`].
    fn verify(&self, n: u32, frames: Frames) -> Later<'_, ()>;
}

impl Drive {
    /// Executes a request.
    ///
    /// # Errors
    /// Those of the requested call.
    pub async fn serve(&self, request: Request) -> Result<Answer> {
        Ok(match request {
            Request::Prepare { key, ballot } => Answer::Prepared(self.prepare(&key, ballot).await?),
            Request::Accept { accept, grant } => {
                return self.complete(|done| self.accept_with(accept, grant, done)).await;
            }
            Request::Copy { accept, hint } => {
                return self.complete(|done| self.copy(accept, hint, done)).await;
            }
            Request::Stage(shard) => return self.complete(|done| self.stage(shard, done)).await,
            Request::Confirm { write_id, index, ballot, epoch } => {
                self.confirm(write_id, index, ballot, epoch).await?;
                Answer::Done
            }
            Request::Read { key, record, epoch } => Answer::Read(self.read(&key, record, epoch).await?),
            Request::Scan { from, to, limit, epoch } => {
                Answer::Entries(self.scan(&from, &to, limit, epoch).await?)
            }
            Request::RangeDigest { from, to, epoch } => {
                let (count, sum) = self.range_digest(&from, &to, epoch).await?;
                Answer::Digest(count, sum)
            }
            Request::ScanMany { ranges, fold, limit } => {
                Answer::Entries(self.scan_many(ranges, fold, limit).await?)
            }
            Request::Digests { ranges, fold, few } => Answer::Digests(self.digests(ranges, fold, few).await?),
            Request::VerifyRegister { key } => {
                self.verify_register(&key).await?;
                Answer::Done
            }
            Request::VerifyShard { write_id, index } => {
                self.verify_shard(write_id, index).await?;
                Answer::Done
            }
            Request::Shards { after, limit } => Answer::Shards(self.shards(after, limit).await?),
            Request::DropOrphan { write_id, index, collector, epoch } => {
                Answer::Dropped(self.drop_orphan(write_id, index, collector, epoch).await?)
            }
            Request::FenceEpoch { group, epoch } => {
                self.fence_epoch(group, epoch).await?;
                Answer::Done
            }
            Request::Found { groups, epoch } => {
                self.found(&groups, epoch).await?;
                Answer::Done
            }
            Request::Join { groups } => {
                self.join(&groups).await?;
                Answer::Done
            }
            Request::Joined { group, epoch } => {
                self.joined(group, epoch).await?;
                Answer::Done
            }
            Request::Hint { key, ballot, epoch } => {
                self.hint(&key, ballot, epoch);
                Answer::Done
            }
            Request::Purge { key, ballot, epoch } => {
                self.purge(&key, ballot, epoch);
                Answer::Done
            }
            Request::Discard { group, epoch, shards } => {
                self.discard(group, epoch, &shards);
                Answer::Done
            }
            Request::FenceBucket { group, bucket, by, epoch } => {
                Answer::Fence(self.fence_bucket(group, bucket, by, epoch).await?)
            }
            Request::LiftFence { bucket, up_to } => {
                self.lift_fence(bucket, up_to).await?;
                Answer::Done
            }
            Request::Fences => Answer::Fences(self.fences()),
        })
    }

    /// The answer of a call that answers through a completion.
    ///
    /// # Errors
    /// Those of the call.
    pub async fn complete(&self, call: impl FnOnce(Completion)) -> Result<Answer> {
        let tally = Tally::new(1);
        call(tally.completion(0));
        self.pump_if_manual();
        let got = tally.wait_all().await;
        if got.ok == 1 {
            return Ok(Answer::Done);
        }
        if got.uncounted == 1 {
            return Ok(Answer::Uncounted);
        }
        if got.refused == 1 {
            return Ok(Answer::Refused(got.highest));
        }
        Err(tally.error().unwrap_or_else(|| self.gone()))
    }

    /// The present status.
    #[must_use]
    pub fn status(&self) -> Status {
        Status { state: self.state(), held: self.held_since(), floor: self.floor(), stats: self.stats() }
    }
}
