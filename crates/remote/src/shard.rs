//! Shards that are written to and read from a drive of another node.
//!
//! The last frame of a shard waits for [`RemoteWriter::finish`] and travels with it: a shard of one frame costs one
//! message. One message of a shard is under way at a time.
//!
//! Invariants: frames are sent in order, each once; a shard that is dropped before it is finished is given up on the
//! drive's node.
//!
//! Must not depend on: how messages travel.

use std::time::Duration;

use ashlar_drive::{Answer, Check, Completion, Error, Frames, Later, RemoteReader, RemoteWriter, Result};
use ashlar_format::frame::ShardId;
use bytes::Bytes;
use parking_lot::Mutex;

use crate::drive::RemoteDrive;
use crate::transport::method;
use crate::wire::{self, Begin, Open, Opened, ReadRun, Verify, WriteFrame};

/// Time limit of a message with data.
const DATA: Duration = Duration::from_secs(10);
/// Time limit of a message that ends a session.
const END: Duration = Duration::from_secs(3);

/// A shard that is written.
pub(crate) struct Writer {
    drive: RemoteDrive,
    session: u64,
    shard: Begin,
    /// The number of the next frame.
    next: u32,
    /// The last frame, until the shard is finished.
    last: Option<(Bytes, [u8; 32])>,
    /// The answer to the message that was sent last.
    answer: Mutex<Option<Later<'static, Answer>>>,
    /// Whether the drive's node may have the session.
    begun: bool,
    /// Whether a call of the writer was dropped while it waited, so that a frame is missing.
    broken: bool,
}

impl Writer {
    pub(crate) fn new(drive: RemoteDrive, shard: Begin) -> Writer {
        let session = drive.line().session();
        Writer {
            drive,
            session,
            shard,
            next: 0,
            last: None,
            answer: Mutex::default(),
            begun: false,
            broken: false,
        }
    }

    fn frames(&self) -> u32 {
        self.shard.len.div_ceil(u64::from(self.shard.frame)) as u32
    }

    /// Bytes of frame `n`.
    fn size(&self, n: u32) -> u64 {
        let before = u64::from(n) * u64::from(self.shard.frame);
        (self.shard.len - before).min(u64::from(self.shard.frame))
    }

    /// Sends a frame now.
    fn send(&mut self, number: u32, (frame, hash): (Bytes, [u8; 32]), last: bool) -> Later<'static, Answer> {
        let begin = (!self.begun).then(|| self.shard.clone());
        self.begun = true;
        let message = WriteFrame { session: self.session, begin, number, hash, frame, last };
        let mut out = self.drive.message();
        message.encode(&mut out);
        self.drive.call(method::WRITE_FRAME, out, 0, DATA, wire::decode_answer)
    }

    /// Waits for the answer to the message before.
    async fn answered(&mut self) -> Result<()> {
        let answer = self.answer.get_mut().take();
        match answer {
            Some(answer) => answer.await.map(|_| ()),
            None => Ok(()),
        }
    }
}

impl RemoteWriter for Writer {
    fn next_frame(&self) -> Option<(ShardId, u32)> {
        (self.next < self.frames()).then_some((self.shard.shard, self.next))
    }

    fn write_hashed(&mut self, frame: Bytes, hash: [u8; 32]) -> Later<'_, ()> {
        Box::pin(async move {
            let number = self.next;
            if self.broken || number >= self.frames() {
                return Err(Error::Malformed("finished"));
            }
            if frame.len() as u64 != self.size(number) {
                return Err(Error::Malformed("frame length"));
            }
            self.broken = true;
            self.answered().await?;
            self.next += 1;
            if self.next == self.frames() {
                self.last = Some((frame, hash));
            } else {
                let answer = self.send(number, (frame, hash), false);
                *self.answer.get_mut() = Some(answer);
            }
            self.broken = false;
            Ok(())
        })
    }

    fn taken(&mut self) -> Later<'_, ()> {
        Box::pin(async move {
            if std::mem::replace(&mut self.broken, true) {
                return Err(Error::Malformed("finished"));
            }
            self.answered().await?;
            self.broken = false;
            Ok(())
        })
    }

    fn finish(mut self: Box<Self>, done: Completion) {
        let Some(last) = self.last.take().filter(|_| !self.broken) else {
            done.err(Error::Malformed("frames are missing"));
            return;
        };
        drop(ashlar_environment::spawn("finish-shard", async move {
            if let Err(e) = self.answered().await {
                return done.err(e);
            }
            let number = self.next - 1;
            let answer = self.send(number, last, true);
            // The last frame ends the session.
            self.begun = false;
            Answer::complete(answer.await, done);
        }));
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        if self.begun {
            end(&self.drive, self.session);
        }
    }
}

fn end(drive: &RemoteDrive, session: u64) {
    let mut out = drive.message();
    out.head.u64(session);
    drive.line().tell(method::END, out, END);
}

/// A shard that is read.
pub(crate) struct Reader {
    drive: RemoteDrive,
    session: u64,
    id: ShardId,
    opened: Opened,
}

/// Ends a session whose opening may have succeeded although nobody waits for the answer.
struct Opening(Option<(RemoteDrive, u64)>);

impl Drop for Opening {
    fn drop(&mut self) {
        if let Some((drive, session)) = &self.0 {
            end(drive, *session);
        }
    }
}

impl Reader {
    pub(crate) fn open(drive: RemoteDrive, id: ShardId) -> Later<'static, Box<dyn RemoteReader>> {
        let session = drive.line().session();
        let mut out = drive.message();
        Open { session, write_id: id.write_id, index: id.index }.encode(&mut out);
        let answer = drive.call(method::OPEN, out, 128 << 10, DATA, Opened::decode);
        Box::pin(async move {
            let mut opening = Opening(Some((drive.clone(), session)));
            let opened = answer.await;
            // An answer says whether there is a session.
            if !matches!(opened, Err(Error::Unanswered)) {
                opening.0 = None;
            }
            Ok(Box::new(Reader { drive, session, id, opened: opened? }) as Box<dyn RemoteReader>)
        })
    }
}

impl RemoteReader for Reader {
    fn size(&self) -> u64 {
        self.opened.len
    }

    fn frame(&self) -> u32 {
        self.opened.frame
    }

    fn read_run(&self, n: u32, count: u32, check: Check) -> Later<'_, Frames> {
        if let Some(content) = &self.opened.content {
            let whole = (n, count) == (0, 1);
            let frames = if whole {
                Ok([content.clone()].into_iter().collect())
            } else {
                Err(Error::Malformed("frame number"))
            };
            return Box::pin(async { frames });
        }
        let mut out = self.drive.message();
        ReadRun { session: self.session, first: n, count, check }.encode(&mut out);
        let bytes = (self.opened.frame as usize).saturating_mul(count as usize);
        let frames = self.drive.call(method::READ_RUN, out, bytes, DATA, ReadRun::decode_frames);
        Box::pin(async move {
            let frames = frames.await?;
            let expected = (n..n.saturating_add(count)).map(|n| self.expected(n));
            if frames.iter().map(|frame| frame.len() as u64).eq(expected) {
                Ok(frames)
            } else {
                Err(Error::Unanswered)
            }
        })
    }

    fn verify(&self, n: u32, frames: Frames) -> Later<'_, ()> {
        if self.opened.content.is_some() {
            // Its drive has checked it.
            return Box::pin(async { Ok(()) });
        }
        let hashes = (n..).zip(&frames).map(|(n, frame)| self.id.frame_hash(n, frame)).collect();
        let mut out = self.drive.message();
        Verify { session: self.session, first: n, hashes }.encode(&mut out);
        let answer = self.drive.call(method::VERIFY, out, 0, DATA, wire::decode_answer);
        Box::pin(async move { answer.await.map(|_| ()) })
    }
}

impl Reader {
    /// Bytes of frame `n`.
    fn expected(&self, n: u32) -> u64 {
        let before = u64::from(n) * u64::from(self.opened.frame);
        self.opened.len.saturating_sub(before).min(u64::from(self.opened.frame))
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        if self.opened.content.is_none() {
            end(&self.drive, self.session);
        }
    }
}
