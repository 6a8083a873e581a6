//! Received bytes become messages; a large payload goes straight to where the receiver wants it.
//!
//! Invariants: a header is decoded completely before anything is allocated for its message; head and payload
//! are at most as long as it says. While the receiver waits for memory, nothing is read: what was received
//! behind that message stays in the stash, which holds at most one read.
//!
//! Must not depend on: sockets, roles.

use std::pin::Pin;
use std::task::{Context, Poll};

use ashlar_machine::Buf;
use bytes::{Bytes, BytesMut};
use futures::future::BoxFuture;

use crate::error::{Error, Result};
use crate::frame::{HEADER, Header};

/// Where a payload goes.
pub(crate) enum Place {
    /// Ordinary memory.
    Heap,
    /// A buffer of the payload's length.
    Buffer(Buf),
    /// A buffer that there will be.
    Wait(BoxFuture<'static, Buf>),
    /// Nobody wants it.
    Discard,
}

/// What takes messages.
pub(crate) trait Receiver {
    /// The version agreed on; none before the hello.
    fn version(&self) -> Option<u8>;
    /// Where the payload of a message goes, which has one.
    fn place(&mut self, header: &Header) -> Result<Place>;
    /// A complete message; without the payload if it was discarded.
    fn message(&mut self, header: Header, head: Bytes, bulk: Option<Bytes>) -> Result<()>;
}

enum Space {
    Heap(Vec<u8>),
    Buffer(Buf),
    Discard,
}

enum State {
    Header { bytes: [u8; HEADER], have: usize },
    Head { header: Header, head: BytesMut },
    Wait { header: Header, head: Bytes, buf: BoxFuture<'static, Buf> },
    Bulk { header: Header, head: Bytes, space: Space, have: usize },
}

const START: State = State::Header { bytes: [0; HEADER], have: 0 };

/// Bytes of a connection that are not messages yet.
pub(crate) struct Inbound {
    state: State,
    stash: Vec<u8>,
}

impl Default for Inbound {
    fn default() -> Inbound {
        Inbound { state: START, stash: Vec::new() }
    }
}

impl Inbound {
    /// Keeps bytes for later.
    pub(crate) fn keep(&mut self, bytes: &[u8]) {
        self.stash.extend_from_slice(bytes);
    }

    /// Whether a message is not complete.
    pub(crate) fn is_partial(&self) -> bool {
        !matches!(self.state, State::Header { have: 0, .. }) || !self.stash.is_empty()
    }

    /// Waits for the memory that a message needs, and then goes on with the stash.
    pub(crate) fn poll_ready(&mut self, cx: &mut Context<'_>, to: &mut impl Receiver) -> Poll<Result<()>> {
        loop {
            if let State::Wait { buf, .. } = &mut self.state {
                let Poll::Ready(buf) = Pin::new(buf).poll(cx) else { return Poll::Pending };
                if let State::Wait { header, head, .. } = std::mem::replace(&mut self.state, START) {
                    self.state = State::Bulk { header, head, space: Space::Buffer(buf), have: 0 };
                }
            }
            if self.stash.is_empty() {
                return Poll::Ready(Ok(()));
            }
            let stash = std::mem::take(&mut self.stash);
            self.feed(&stash, to)?;
        }
    }

    /// The memory that the payload's rest goes to, if it is a buffer.
    pub(crate) fn space(&mut self) -> Option<&mut [u8]> {
        match &mut self.state {
            State::Bulk { space: Space::Buffer(buf), have, .. } => buf.get_mut(*have..),
            _ => None,
        }
    }

    /// Notes that bytes were read into [`Inbound::space`].
    pub(crate) fn filled(&mut self, len: usize, to: &mut impl Receiver) -> Result<()> {
        if let State::Bulk { header, have, .. } = &mut self.state {
            *have += len;
            if *have == header.bulk_len as usize {
                return self.complete(to);
            }
        }
        Ok(())
    }

    /// Takes bytes in the order of the connection.
    pub(crate) fn feed(&mut self, mut data: &[u8], to: &mut impl Receiver) -> Result<()> {
        while !data.is_empty() {
            match &mut self.state {
                State::Header { bytes, have } => {
                    let len = data.len().min(HEADER - *have);
                    bytes[*have..*have + len].copy_from_slice(&data[..len]);
                    *have += len;
                    data = &data[len..];
                    if *have == HEADER {
                        let header = Header::decode(bytes, to.version())?;
                        data = self.begin(header, data, to)?;
                    }
                }
                State::Head { header, head } => {
                    let len = data.len().min(header.head_len as usize - head.len());
                    head.extend_from_slice(&data[..len]);
                    data = &data[len..];
                    if head.len() == header.head_len as usize {
                        let (header, head) = (*header, head.split().freeze());
                        self.body(header, head, to)?;
                    }
                }
                State::Bulk { header, space, have, .. } => {
                    let len = data.len().min(header.bulk_len as usize - *have);
                    match space {
                        Space::Heap(bytes) => bytes.extend_from_slice(&data[..len]),
                        Space::Buffer(buf) => buf[*have..*have + len].copy_from_slice(&data[..len]),
                        Space::Discard => {}
                    }
                    data = &data[len..];
                    self.filled(len, to)?;
                }
                State::Wait { .. } => {
                    self.stash.extend_from_slice(data);
                    break;
                }
            }
        }
        Ok(())
    }

    /// Begins with what follows a header; returns what is left of the data.
    fn begin<'d>(&mut self, header: Header, data: &'d [u8], to: &mut impl Receiver) -> Result<&'d [u8]> {
        self.state = START;
        let len = header.head_len as usize;
        match data.split_at_checked(len) {
            Some((head, rest)) => {
                self.body(header, Bytes::copy_from_slice(head), to)?;
                Ok(rest)
            }
            None => {
                let mut head = BytesMut::with_capacity(len);
                head.extend_from_slice(data);
                self.state = State::Head { header, head };
                Ok(&[])
            }
        }
    }

    fn body(&mut self, header: Header, head: Bytes, to: &mut impl Receiver) -> Result<()> {
        header.check_head(&head)?;
        let len = header.bulk_len as usize;
        if len == 0 {
            self.state = START;
            return to.message(header, head, Some(Bytes::new()));
        }
        let space = match to.place(&header)? {
            Place::Heap => Space::Heap(Vec::with_capacity(len)),
            Place::Buffer(buf) if buf.len() == len => Space::Buffer(buf),
            Place::Buffer(_) => return Err(Error::malformed("a buffer of another length")),
            Place::Discard => Space::Discard,
            Place::Wait(buf) => {
                self.state = State::Wait { header, head, buf };
                return Ok(());
            }
        };
        self.state = State::Bulk { header, head, space, have: 0 };
        Ok(())
    }

    fn complete(&mut self, to: &mut impl Receiver) -> Result<()> {
        if let State::Bulk { header, head, space, .. } = std::mem::replace(&mut self.state, START) {
            let bulk = match space {
                Space::Heap(bytes) => Some(Bytes::from(bytes)),
                Space::Buffer(buf) => Some(buf.freeze()),
                Space::Discard => None,
            };
            to.message(header, head, bulk)?;
        }
        Ok(())
    }
}
