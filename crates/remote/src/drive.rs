//! A drive of another node.
//!
//! Invariants: what a drive is known to be changes only with what it or its node said; an answer that cannot be decoded is
//! no answer.
//!
//! Must not depend on: how messages travel.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use ashlar_drive::{
    Answer, Completion, Error, Known as KnownRecord, Label, Later, Prepared, ReadReply, ReadWithShard,
    Remote, RemoteReader, RemoteWriter, Request, Result, Seen, State, Status, WantedShards,
};
use ashlar_environment::time::Instant;
use ashlar_format::frame::ShardId;
use ashlar_format::{Ballot, DriveId, RegisterKey, WriteId};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use parking_lot::Mutex;

use crate::many;
use crate::node::{Line, failed};
use crate::shard;
use crate::transport::{Delivered, Failure, LONGEST};
use crate::unanswered::Calls;
use crate::wire::{self, Heard, In, Malformed, Out, PrepareMany, ReadMany, Told};

/// Time limit of calls that a drive answers from memory, its journal or a page of its index.
const SHORT: Duration = Duration::from_secs(3);
/// Of calls that read or write more, or wait for other work.
const LONG: Duration = Duration::from_secs(10);
/// Of calls that read a whole shard.
const WHOLE: Duration = Duration::from_secs(60);
/// The longest entry of a list: a key, a summary and fixed fields.
const ENTRY: usize = RegisterKey::MAX + ashlar_drive::MAX_SUMMARY + 64;
/// A record that is longer is asked for once more: few are, and memory for the longest is not taken for each call.
const RECORD: usize = 64 << 10;

type Answered = BoxFuture<'static, std::result::Result<Delivered, Failure>>;

/// A drive of another node. Cloning gives another handle.
#[derive(Clone)]
pub(crate) struct RemoteDrive(Arc<Inner>);

struct Inner {
    line: Arc<Line>,
    label: Label,
    path: PathBuf,
    known: Mutex<Known>,
    calls: Arc<Calls>,
}

struct Known {
    status: Status,
    /// How long the drive's oldest call took, as its node said, and when that was.
    oldest: Duration,
    at: Instant,
    /// Whether its node named it when it was asked last.
    served: bool,
}

impl RemoteDrive {
    pub(crate) fn new(line: Arc<Line>, heard: &Heard) -> RemoteDrive {
        let status = heard.status.clone();
        let known = Known { status, oldest: heard.oldest, at: Instant::now(), served: true };
        RemoteDrive(Arc::new(Inner {
            line,
            label: heard.label,
            path: PathBuf::from(&heard.path),
            known: Mutex::new(known),
            calls: Arc::default(),
        }))
    }

    /// Takes over what the node said.
    pub(crate) fn heard(&self, status: Status, oldest: Duration) {
        *self.0.known.lock() = Known { status, oldest, at: Instant::now(), served: true };
    }

    /// Its node answered, and did not name it.
    pub(crate) fn not_served(&self) {
        self.0.known.lock().served = false;
    }

    pub(crate) fn line(&self) -> &Line {
        &self.0.line
    }

    /// A message for this drive.
    pub(crate) fn message(&self) -> Out {
        Out::to(self.0.label.drive)
    }

    /// Sends a call now; the future is its answer.
    pub(crate) fn call<T: Send + 'static>(
        &self,
        method: u16,
        out: Out,
        answer_limit: usize,
        deadline: Duration,
        body: fn(&mut In<'_>) -> std::result::Result<T, Malformed>,
    ) -> Later<'static, T> {
        let answer = self.send(method, out, answer_limit, deadline);
        let drive = self.clone();
        Box::pin(async move { drive.understand(answer.await, body) })
    }

    /// Sends a call now; the future is its answer, not decoded.
    pub(crate) fn send(&self, method: u16, out: Out, answer_limit: usize, deadline: Duration) -> Answered {
        let bytes = out.bulk.iter().map(bytes::Bytes::len).sum::<usize>() as u64;
        let answer = Box::pin(self.0.line.call(method, out, answer_limit, deadline));
        // A call that may take a minute says nothing about a drive that has not answered for a second.
        let mut answer = self.0.calls.sent(bytes, deadline < WHOLE, answer);
        // From the first look on, it is known when the answer arrives.
        match (&mut answer).now_or_never() {
            Some(answer) => Box::pin(std::future::ready(answer)),
            None => Box::pin(answer),
        }
    }

    fn send_request(&self, request: &Request, answer_limit: usize) -> Answered {
        let mut out = self.message();
        wire::encode_request(&mut out, request);
        self.send(wire::method(request), out, answer_limit, deadline(request))
    }

    /// Completes a promise that came without its record, which was long. The drive has promised; if it has accepted
    /// another record since, nothing can be said about this one.
    async fn with_record(&self, request: &Request, mut prepared: Prepared) -> Result<Answer> {
        let (Request::Prepare { key, ballot }, Prepared::Promised { accepted: Some(accepted), .. }) =
            (request, &mut prepared)
        else {
            return Err(Error::Unanswered);
        };
        let id = self.0.label.drive;
        accepted.record = self.record_of(id, key, accepted.ballot, ballot.epoch).await?;
        Ok(Answer::Prepared(prepared))
    }

    /// The record that a drive of the same node accepted under a ballot.
    pub(crate) async fn record_of(
        &self,
        drive: DriveId,
        key: &RegisterKey,
        of: Ballot,
        epoch: u32,
    ) -> Result<bytes::Bytes> {
        let mut out = Out::to(drive);
        let read = Request::Read { key: key.clone(), record: true, epoch };
        wire::encode_request(&mut out, &read);
        let answer = self.send(wire::method(&read), out, LONGEST, deadline(&read)).await;
        let delivered = answer.map_err(|e| failed(&e))?;
        let reply = wire::decode_reply(&delivered.head, &delivered.bulk, wire::decode_answer);
        match reply.map_err(|_| Error::Unanswered)?.result? {
            Answer::Read(ReadReply { accepted: Some(Seen { ballot, record: Some(record), .. }), .. })
                if ballot == of =>
            {
                Ok(record)
            }
            _ => Err(Error::Unanswered),
        }
    }

    fn understand<T>(
        &self,
        answer: std::result::Result<Delivered, Failure>,
        body: fn(&mut In<'_>) -> std::result::Result<T, Malformed>,
    ) -> Result<T> {
        let delivered = answer.map_err(|e| failed(&e))?;
        match wire::decode_reply(&delivered.head, &delivered.bulk, body) {
            Ok(reply) => {
                if let Some(status) = reply.status {
                    self.0.known.lock().status = status;
                }
                reply.result
            }
            Err(e) => {
                tracing::warn!(drive = %self.0.path.display(), "an answer cannot be decoded: {e}");
                Err(Error::Unanswered)
            }
        }
    }
}

impl Remote for RemoteDrive {
    fn label(&self) -> &Label {
        &self.0.label
    }

    fn path(&self) -> &Path {
        &self.0.path
    }

    fn status(&self) -> Status {
        self.0.known.lock().status.clone()
    }

    fn ask_status(&self) -> Later<'static, ()> {
        let (answer, drive) = (self.0.line.ask_drives(), self.clone());
        Box::pin(async move {
            match answer.await?.into_iter().find(|heard| heard.label.drive == drive.0.label.drive) {
                Some(heard) => drive.heard(heard.status, heard.oldest),
                None => drive.not_served(),
            }
            Ok(())
        })
    }

    fn oldest(&self) -> Duration {
        let own = self.0.calls.oldest();
        let known = self.0.known.lock();
        // What the node said is of use until it says something else. Most drives have nothing old: no look at the clock then.
        if known.oldest <= own || known.at.elapsed() >= SHORT { own } else { known.oldest }
    }

    fn is_away(&self) -> bool {
        self.0.line.is_away() || !self.0.known.lock().served
    }

    fn frames_waiting(&self) -> u64 {
        self.0.calls.bytes()
    }

    fn node(&self) -> usize {
        Arc::as_ptr(&self.0.line).cast::<()>() as usize
    }

    fn read_many(
        &self,
        drives: &[DriveId],
        key: &RegisterKey,
        known: Ballot,
        epoch: u32,
        shards: Option<WantedShards>,
    ) -> Later<'static, Vec<Option<ReadWithShard>>> {
        let message = ReadMany { drives: drives.to_vec(), key: key.clone(), known, epoch, shards };
        many::read_many(self, message)
    }

    fn prepare_many(
        &self,
        drives: &[DriveId],
        key: &RegisterKey,
        ballot: Ballot,
        known: Option<&KnownRecord>,
    ) -> Later<'static, Vec<Result<Prepared>>> {
        let shown = known.map(|known| (known.ballot, known.digest));
        let message = PrepareMany { drives: drives.to_vec(), key: key.clone(), ballot, known: shown };
        many::prepare_many(self, message, known.cloned())
    }

    fn hint_many(&self, drives: &[DriveId], key: &RegisterKey, ballot: Ballot, epoch: u32) {
        many::hint_many(self, drives, key, ballot, epoch);
    }

    fn ask(&self, request: Request) -> Later<'static, Answer> {
        let answer = self.send_request(&request, answer_limit(&request));
        let drive = self.clone();
        Box::pin(async move {
            let answer = match answer.await {
                Err(Failure::TooLong) if only_reads(&request) => drive.send_request(&request, LONGEST).await,
                answer => answer,
            };
            match drive.understand(answer, wire::decode_told)? {
                Told::Whole(answer) => Ok(answer),
                Told::WithoutRecord(prepared) => drive.with_record(&request, prepared).await,
            }
        })
    }

    fn order(&self, request: Request, done: Completion) {
        let answer = self.ask(request);
        drop(ashlar_environment::spawn("order", async move { Answer::complete(answer.await, done) }));
    }

    fn tell(&self, request: Request) {
        let mut out = self.message();
        wire::encode_request(&mut out, &request);
        self.0.line.tell(wire::method(&request), out, deadline(&request));
    }

    fn begin_shard(
        &self,
        owner: &RegisterKey,
        shard: ShardId,
        ballot: Ballot,
        epoch: u32,
        len: u64,
        frame: u32,
    ) -> Result<Box<dyn RemoteWriter>> {
        if len == 0 || frame == 0 || len.div_ceil(u64::from(frame)) > u64::from(u32::MAX) {
            return Err(Error::Malformed("shard or frame length"));
        }
        {
            let known = self.0.known.lock();
            match &known.status.state {
                // What was heard last may be old: the drive says it again.
                State::Online if known.status.epoch(owner.group()) > epoch => {
                    return Err(Error::NewerLayout(known.status.epoch(owner.group())));
                }
                State::Online if known.status.stats.free < len => return Err(Error::Full),
                State::Online => {}
                State::ReadOnly => return Err(Error::ReadOnly),
                State::Fenced(reason) => return Err(Error::Fenced(reason.clone())),
                State::Closed => return Err(Error::Offline("closed")),
            }
        }
        let begin = wire::Begin { owner: owner.clone(), shard, ballot, epoch, len, frame };
        Ok(Box::new(shard::Writer::new(self.clone(), begin)))
    }

    fn open_shard(&self, write_id: WriteId, index: u8) -> Later<'static, Box<dyn RemoteReader>> {
        let id = ShardId { deployment: self.0.label.deployment, write_id, index };
        shard::Reader::open(self.clone(), id)
    }
}

fn deadline(request: &Request) -> Duration {
    match request {
        Request::Prepare { .. }
        | Request::Accept { .. }
        | Request::Copy { .. }
        | Request::Stage(_)
        | Request::Confirm { .. }
        | Request::Read { .. }
        | Request::Hint { .. }
        | Request::Purge { .. }
        | Request::Discard { .. } => SHORT,
        Request::Scan { .. }
        | Request::RangeDigest { .. }
        | Request::ScanMany { .. }
        | Request::Digests { .. }
        | Request::VerifyRegister { .. }
        | Request::Shards { .. }
        | Request::DropOrphan { .. }
        | Request::FenceEpoch { .. }
        | Request::Found { .. }
        | Request::Join { .. }
        | Request::Joined { .. }
        | Request::FenceBucket { .. }
        | Request::LiftFence { .. }
        | Request::Fences => LONG,
        Request::VerifyShard { .. } => WHOLE,
    }
}

/// The longest payload of the answer, in most cases.
fn answer_limit(request: &Request) -> usize {
    match request {
        Request::Read { record: true, .. } | Request::Prepare { .. } => RECORD,
        Request::Scan { limit, .. } | Request::ScanMany { limit, .. } | Request::Shards { limit, .. } => {
            limit.saturating_mul(ENTRY).min(LONGEST)
        }
        Request::Digests { ranges, .. } => ranges.len().saturating_mul(16).saturating_add(16).min(LONGEST),
        Request::Fences => RECORD,
        _ => 0,
    }
}

fn only_reads(request: &Request) -> bool {
    matches!(
        request,
        Request::Read { .. }
            | Request::Scan { .. }
            | Request::ScanMany { .. }
            | Request::Digests { .. }
            | Request::Shards { .. }
            | Request::Fences
    )
}
