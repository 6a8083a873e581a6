//! A call as its caller sees it.
//!
//! Must not depend on: connections.

use bytes::Bytes;

/// A call.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// What is asked for.
    pub method: u16,
    /// The epoch that the caller goes by.
    pub epoch: u32,
    /// The head, at most [`crate::frame::MAX_HEAD`].
    pub head: Bytes,
    /// The payload, in pieces, which are sent without being copied together; at most [`crate::frame::MAX_BULK`].
    pub bulk: Vec<Bytes>,
    /// The longest payload that the answer may have.
    pub answer_limit: usize,
}

/// The answer to a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The head.
    pub head: Bytes,
    /// The payload, in an aligned buffer if it is large.
    pub bulk: Bytes,
}
