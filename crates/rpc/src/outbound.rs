//! Messages on their way to the socket.
//!
//! Headers, heads and small payloads are copied together, so that many messages are one piece; large payloads
//! are pieces of their own and are not copied.
//!
//! Invariant: the pieces are the messages in the order in which they were added.
//!
//! Must not depend on: sockets, roles.

use std::collections::VecDeque;

use bytes::{BufMut as _, Bytes, BytesMut};

use crate::frame::Header;

/// Payloads up to this length are copied.
const COPIED: usize = 16 << 10;
/// No more messages are added while so many bytes wait: they can still be withdrawn, and keep their memory
/// where it is.
const FULL: usize = 256 << 10;

/// Messages to send.
#[derive(Default)]
pub(crate) struct Outbound {
    staged: BytesMut,
    pieces: VecDeque<Bytes>,
}

impl Outbound {
    /// Adds a message. The lengths in the header are set here.
    pub(crate) fn push(&mut self, mut header: Header, head: &[u8], bulk: Vec<Bytes>) {
        let len: usize = bulk.iter().map(Bytes::len).sum();
        header.bulk_len = len as u32;
        header.encode(head, &mut self.staged);
        if len <= COPIED {
            for piece in &bulk {
                self.staged.put_slice(piece);
            }
            return;
        }
        self.seal();
        self.pieces.extend(bulk.into_iter().filter(|piece| !piece.is_empty()));
    }

    /// All pieces.
    pub(crate) fn pieces(&mut self) -> &mut VecDeque<Bytes> {
        self.seal();
        &mut self.pieces
    }

    /// Whether nothing waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.staged.is_empty() && self.pieces.is_empty()
    }

    /// Whether enough waits.
    pub(crate) fn is_full(&self) -> bool {
        let mut len = self.staged.len();
        self.pieces.iter().any(|piece| {
            len += piece.len();
            len >= FULL
        }) || len >= FULL
    }

    /// Gives the memory back if nothing waits.
    pub(crate) fn release(&mut self) {
        if self.is_empty() {
            *self = Outbound::default();
        }
    }

    fn seal(&mut self) {
        if !self.staged.is_empty() {
            self.pieces.push_back(self.staged.split().freeze());
        }
    }
}
