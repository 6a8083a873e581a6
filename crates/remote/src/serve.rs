//! Executes calls of other nodes on the drives of this process.
//!
//! Invariants: a call that cannot be decoded is refused and changes nothing; a call for a drive that is not served here is
//! answered as *offline*, never as *missing*; an answer that can change what the caller believes about the drive comes with
//! the drive's status; a change of several steps is completed also if its caller goes away.
//!
//! Must not depend on: how messages travel, who may call.

use std::sync::Arc;
use std::time::Duration;

use ashlar_drive::{Answer, Check, Drive, Error, Request, Result, ShardWriter, Status};
use ashlar_environment::HashMap;
use ashlar_format::DriveId;
use bytes::Bytes;
use futures::future::BoxFuture;
use parking_lot::RwLock;

use crate::sessions::Sessions;
use crate::transport::{Failure, method};
use crate::wire::{
    self, Heard, In, Malformed, Open, Opened, Out, ReadRun, Reply, Verify, WriteFrame, encode_answer,
    encode_reply,
};

/// A shard of one frame up to this size is sent when it is opened.
const SHORT: u64 = 128 << 10;

/// One process of another node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Caller {
    /// The node.
    pub node: u16,
    /// A number that the process drew when it started.
    pub process: u64,
}

/// The drives of this process as other nodes see them. Cloning gives another handle.
#[derive(Clone, Default)]
pub struct Served(Arc<Inner>);

#[derive(Default)]
struct Inner {
    drives: RwLock<HashMap<DriveId, Drive>>,
    sessions: Sessions,
}

impl Served {
    /// Replaces the list of drives that are served.
    pub fn set(&self, drives: impl IntoIterator<Item = Drive>) {
        *self.0.drives.write() = drives.into_iter().map(|drive| (drive.label().drive, drive)).collect();
    }

    /// Ends what a process has open. To be called when it is known to have ended.
    pub fn ended(&self, caller: Caller) {
        self.0.sessions.end_of(caller);
    }

    /// The number of shards that other nodes have open.
    #[must_use]
    pub fn sessions(&self) -> usize {
        self.0.sessions.len()
    }

    /// Executes a call. `answer_limit`: the longest payload of the answer.
    ///
    /// # Errors
    /// `Refused`: it is not a call; nothing was executed. `TooLong`: it was executed.
    pub fn call(
        &self,
        caller: Caller,
        method: u16,
        head: Bytes,
        bulk: Bytes,
        answer_limit: usize,
    ) -> BoxFuture<'_, std::result::Result<Out, Failure>> {
        Box::pin(async move {
            let answered = match method {
                method::DRIVES => Ok(wire::encode_heard(&self.heard())),
                method::WRITE_FRAME => self.write_frame(caller, &head, &bulk).await,
                method::END => self.end(caller, &head, &bulk),
                method::OPEN => self.open(caller, &head, &bulk).await,
                method::READ_RUN => self.read_run(caller, &head, &bulk).await,
                method::VERIFY => self.verify(caller, &head, &bulk).await,
                method::READ_MANY | method::READ_WITH_SHARDS => {
                    self.read_many(method, In::new(&head, &bulk), answer_limit)
                }
                method::PREPARE_MANY => self.prepare_many(In::new(&head, &bulk), answer_limit).await,
                method::HINT_MANY => self.hint_many(In::new(&head, &bulk)),
                _ => self.request(method, &head, &bulk, answer_limit).await,
            };
            let out = answered.map_err(|e| Failure::Refused(e.to_string()))?;
            let payload: usize = out.bulk.iter().map(Bytes::len).sum();
            if payload <= answer_limit { Ok(out) } else { Err(Failure::TooLong) }
        })
    }

    /// The drives that are served, with their states.
    fn heard(&self) -> Vec<Heard> {
        let drives = self.0.drives.read();
        let mut heard: Vec<Heard> = drives.values().map(heard).collect();
        heard.sort_by_key(|heard| heard.label.drive);
        heard
    }

    pub(crate) fn drive(&self, id: DriveId) -> Result<Drive> {
        self.0.drives.read().get(&id).cloned().ok_or(Error::Offline("its node does not serve it"))
    }

    async fn request(
        &self,
        method: u16,
        head: &Bytes,
        bulk: &Bytes,
        answer_limit: usize,
    ) -> std::result::Result<Out, Malformed> {
        let mut message = In::new(head, bulk);
        let id = message.drive()?;
        let request = wire::decode_request(method, message)?;
        let drive = match self.drive(id) {
            Ok(drive) => drive,
            Err(e) => return Ok(refused(e)),
        };
        let changes_role = matches!(
            request,
            Request::FenceEpoch { .. }
                | Request::Found { .. }
                | Request::Join { .. }
                | Request::Joined { .. }
        );
        // The caller may go away between two steps of a change; the change must not stop there.
        let result = if changes_role
            || matches!(request, Request::FenceBucket { .. } | Request::LiftFence { .. })
        {
            let served = drive.clone();
            let done = ashlar_environment::spawn("drive-call", async move { served.serve(request).await });
            done.await.unwrap_or(Err(Error::Unanswered))
        } else {
            drive.serve(request).await
        };
        Ok(reply(&drive, changes_role, result, |out, answer| wire::encode_told(out, answer, answer_limit)))
    }

    async fn write_frame(
        &self,
        caller: Caller,
        head: &Bytes,
        bulk: &Bytes,
    ) -> std::result::Result<Out, Malformed> {
        let mut message = In::new(head, bulk);
        let id = message.drive()?;
        let frame = WriteFrame::decode(message)?;
        let at = (caller, id, frame.session);
        let last = frame.last;
        let written = self.write(at, frame).await;
        if last || written.is_err() {
            self.0.sessions.end(at);
        }
        Ok(match self.drive(id) {
            Ok(drive) => reply(&drive, false, written, encode_answer),
            Err(e) => refused(written.err().unwrap_or(e)),
        })
    }

    async fn write(&self, at: (Caller, DriveId, u64), frame: WriteFrame) -> Result<Answer> {
        let (writer, drive) = match &frame.begin {
            Some(begin) => {
                let drive = self.drive(at.1)?;
                if begin.shard.deployment != drive.label().deployment {
                    return Err(Error::Malformed("the shard is of another deployment"));
                }
                let (id, index) = (begin.shard.write_id, begin.shard.index);
                let begun = drive.begin_shard(
                    &begin.owner,
                    id,
                    index,
                    begin.ballot,
                    begin.epoch,
                    begin.len,
                    begin.frame,
                )?;
                if frame.last {
                    // The whole shard is here: there is nothing to come back for.
                    return write_whole(&drive, begun, frame).await;
                }
                (self.0.sessions.write(at, begun, drive.clone())?, drive)
            }
            None => self.0.sessions.writer(at)?,
        };
        let mut writer = writer.lock().await;
        let Some(mut open) = writer.take() else { return Err(Error::Offline(crate::sessions::ENDED)) };
        if frame.last {
            return write_whole(&drive, open, frame).await;
        }
        write_one(&mut open, frame).await?;
        *writer = Some(open);
        Ok(Answer::Done)
    }

    fn end(&self, caller: Caller, head: &Bytes, bulk: &Bytes) -> std::result::Result<Out, Malformed> {
        let mut message = In::new(head, bulk);
        let (drive, session) = (message.drive()?, message.head.u64()?);
        message.end()?;
        self.0.sessions.end((caller, drive, session));
        let done = Reply { status: None, result: Ok(Answer::Done) };
        Ok(encode_reply(&done, encode_answer))
    }

    async fn open(&self, caller: Caller, head: &Bytes, bulk: &Bytes) -> std::result::Result<Out, Malformed> {
        let mut message = In::new(head, bulk);
        let id = message.drive()?;
        let open = Open::decode(message)?;
        let drive = match self.drive(id) {
            Ok(drive) => drive,
            Err(e) => return Ok(refused(e)),
        };
        let opened = self.opened(&drive, (caller, id, open.session), open).await;
        Ok(reply(&drive, false, opened, |out, opened| opened.encode(out)))
    }

    async fn opened(&self, drive: &Drive, at: (Caller, DriveId, u64), open: Open) -> Result<Opened> {
        let reader = drive.open_shard(open.write_id, open.index).await?;
        let (len, frame) = (reader.len(), reader.frame());
        if reader.frames() == 1 && len <= SHORT {
            let content = reader.read(0, Check::Drive).await?;
            return Ok(Opened { len, frame, content: Some(content) });
        }
        self.0.sessions.read(at, Arc::new(reader))?;
        Ok(Opened { len, frame, content: None })
    }

    async fn read_run(
        &self,
        caller: Caller,
        head: &Bytes,
        bulk: &Bytes,
    ) -> std::result::Result<Out, Malformed> {
        let mut message = In::new(head, bulk);
        let id = message.drive()?;
        let read = ReadRun::decode(message)?;
        let frames = match self.0.sessions.reader((caller, id, read.session)) {
            // What is in memory needs no other thread.
            Ok(reader) => match reader.read_run_now(read.first, read.count, read.check) {
                Some(frames) => frames,
                None => reader.read_run(read.first, read.count, read.check).await,
            },
            Err(e) => Err(e),
        };
        Ok(encode_reply(&Reply { status: None, result: frames }, ReadRun::encode_frames))
    }

    async fn verify(
        &self,
        caller: Caller,
        head: &Bytes,
        bulk: &Bytes,
    ) -> std::result::Result<Out, Malformed> {
        let mut message = In::new(head, bulk);
        let id = message.drive()?;
        let verify = Verify::decode(message)?;
        let result = match self.0.sessions.reader((caller, id, verify.session)) {
            Ok(reader) => reader.verify_hashes(verify.first, verify.hashes).await,
            Err(e) => Err(e),
        };
        Ok(encode_reply(&Reply { status: None, result: result.map(|()| Answer::Done) }, encode_answer))
    }
}

async fn write_one(writer: &mut ShardWriter, frame: WriteFrame) -> Result<()> {
    match writer.next_frame() {
        Some((_, next)) if next == frame.number => writer.write_hashed(frame.frame, frame.hash).await,
        _ => Err(Error::Malformed("order of frames")),
    }
}

/// Writes the last frame and makes the shard durable.
async fn write_whole(drive: &Drive, mut writer: ShardWriter, frame: WriteFrame) -> Result<Answer> {
    write_one(&mut writer, frame).await?;
    drive
        .complete(|done| {
            writer.finish(done);
        })
        .await
}

fn heard(drive: &Drive) -> Heard {
    Heard {
        label: *drive.label(),
        path: drive.path().display().to_string(),
        status: drive.status(),
        oldest: drive.watch().oldest().max(drive.stalled().unwrap_or(Duration::ZERO)),
    }
}

/// The answer when nothing is known about the drive.
fn refused(error: Error) -> Out {
    encode_reply(&Reply::<Answer> { status: None, result: Err(error) }, encode_answer)
}

fn reply<T>(drive: &Drive, changes_role: bool, result: Result<T>, body: impl FnOnce(&mut Out, &T)) -> Out {
    let tells = changes_role || result.as_ref().is_err_and(tells_of_status);
    let status: Option<Status> = tells.then(|| drive.status());
    encode_reply(&Reply { status, result }, body)
}

/// Whether an error means that the caller's idea of the drive is old.
fn tells_of_status(error: &Error) -> bool {
    match error {
        Error::Full
        | Error::ReadOnly
        | Error::Fenced(_)
        | Error::Offline(_)
        | Error::NewerLayout(_)
        | Error::NotHeld(_)
        | Error::Unsuitable(_)
        | Error::Io { .. } => true,
        Error::Missing
        | Error::Corrupt(_)
        | Error::Unanswered
        | Error::BucketFenced(_)
        | Error::Malformed(_) => false,
    }
}
