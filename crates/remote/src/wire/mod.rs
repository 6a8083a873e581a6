//! The messages between a node and the drives of another node, as bytes.
//!
//! A message has a head and a bulk payload. Byte strings above [`INLINE`] bytes travel in the bulk payload, in the
//! order in which the head names them, so that neither end copies them.
//!
//! Invariants: every message has one encoding; what is decoded was checked (lengths, tags, no trailing bytes); a decoder
//! allocates no more than its input could hold. docs/formats.md describes the bytes.
//!
//! Must not depend on: transports, the execution of requests.

mod answer;
mod many;
mod request;
mod session;
mod status;

use ashlar_commit::bucket_fence::Deletion;
use ashlar_format::codec::{Reader, Writer};
use ashlar_format::{Ballot, DriveId, GroupId, RegisterKey, WriteId};
use bytes::Bytes;

pub use answer::{Told, decode_answer, decode_told, encode_answer, encode_told};
pub use many::{
    HintMany, MOST, PrepareMany, ReadMany, ToldPrepared, decode_promises, decode_reads,
    decode_reads_with_shards, encode_promises, encode_reads, encode_reads_with_shards,
};
pub use request::{decode_request, encode_request, method};
pub use session::{Begin, Open, Opened, ReadRun, Verify, WriteFrame};
pub use status::{Heard, Reply, decode_heard, decode_reply, encode_heard, encode_reply};

/// The longest byte string inside a head.
pub const INLINE: usize = 4096;

/// Why bytes are not a message.
pub type Malformed = ashlar_format::Error;

/// A message under construction.
#[derive(Default)]
pub struct Out {
    /// The head.
    pub head: Writer,
    /// The bulk payload.
    pub bulk: Vec<Bytes>,
}

impl Out {
    /// A message for one drive.
    #[must_use]
    pub fn to(drive: DriveId) -> Out {
        let mut out = Out::with_room(128);
        out.head.raw(&drive.0);
        out
    }

    /// A message whose head will have about `bytes` bytes.
    fn with_room(bytes: usize) -> Out {
        Out { head: Writer::with_capacity(bytes), bulk: Vec::new() }
    }

    /// A byte string, in the head or in the bulk payload.
    pub fn blob(&mut self, bytes: &Bytes) {
        let outside = bytes.len() > INLINE;
        self.head.bool(outside);
        if outside {
            self.head.var(bytes.len() as u64);
            self.bulk.push(bytes.clone());
        } else {
            self.head.bytes(bytes);
        }
    }

    fn key(&mut self, key: &RegisterKey) {
        self.head.bytes(key.as_bytes());
    }

    fn ballot(&mut self, ballot: Ballot) {
        self.head.raw(&ballot.to_bytes());
    }

    fn group(&mut self, group: GroupId) {
        self.head.raw(&group.to_bytes());
    }

    fn write_id(&mut self, id: WriteId) {
        self.head.raw(&id.0);
    }

    fn deletion(&mut self, deletion: Deletion) {
        self.head.u64(deletion.0);
    }
}

/// A message being read.
pub struct In<'a> {
    /// What is left of the head.
    pub head: Reader<'a>,
    whole: &'a Bytes,
    bulk: Bytes,
}

impl<'a> In<'a> {
    /// Reads a message.
    #[must_use]
    pub fn new(head: &'a Bytes, bulk: &Bytes) -> In<'a> {
        In { head: Reader::new(head), whole: head, bulk: bulk.clone() }
    }

    /// The inverse of [`Out::blob`]; the result shares the memory of the message.
    pub fn blob(&mut self) -> Result<Bytes, Malformed> {
        if !self.head.bool()? {
            let bytes = self.head.bytes()?;
            if bytes.len() > INLINE {
                return Err(Malformed::Malformed("long bytes in a head"));
            }
            return Ok(self.whole.slice_ref(bytes));
        }
        let len = usize::try_from(self.head.var()?).map_err(|_| Malformed::Malformed("length"))?;
        if len <= INLINE || len > self.bulk.len() {
            return Err(Malformed::Malformed("length of bulk bytes"));
        }
        Ok(self.bulk.split_to(len))
    }

    /// Fails unless everything was read.
    pub fn end(self) -> Result<(), Malformed> {
        if !self.bulk.is_empty() {
            return Err(Malformed::Malformed("trailing bulk bytes"));
        }
        self.head.end()
    }

    /// The drive that a message is for.
    pub fn drive(&mut self) -> Result<DriveId, Malformed> {
        Ok(DriveId(self.head.array()?))
    }

    fn key(&mut self) -> Result<RegisterKey, Malformed> {
        RegisterKey::from_bytes(self.head.bytes()?).ok_or(Malformed::Malformed("register key"))
    }

    fn ballot(&mut self) -> Result<Ballot, Malformed> {
        Ok(Ballot::from_bytes(&self.head.array()?))
    }

    fn group(&mut self) -> Result<GroupId, Malformed> {
        Ok(GroupId::from_bytes(self.head.array()?))
    }

    fn write_id(&mut self) -> Result<WriteId, Malformed> {
        Ok(WriteId(self.head.array()?))
    }

    fn deletion(&mut self) -> Result<Deletion, Malformed> {
        Ok(Deletion(self.head.u64()?))
    }

    /// A count, then each item, of which every one takes at least one byte of the head.
    fn list<T>(
        &mut self,
        mut item: impl FnMut(&mut In<'a>) -> Result<T, Malformed>,
    ) -> Result<Vec<T>, Malformed> {
        let count = self.head.var()?;
        if count > self.head.rest().len() as u64 {
            return Err(Malformed::Malformed("count"));
        }
        (0..count).map(|_| item(self)).collect()
    }
}

/// A tag that no message has.
fn unknown<T>() -> Result<T, Malformed> {
    Err(Malformed::Malformed("unknown tag"))
}
