//! How calls reach another node.
//!
//! Invariants: a call is sent when [`Transport::call`] is called, not when its future is first polled; no call is sent
//! twice.
//!
//! Must not depend on: the content of messages.

use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;

/// A message to another node.
#[derive(Clone, Debug)]
pub struct Call {
    /// What is called; see [`crate::method`].
    pub method: u16,
    /// Parameters.
    pub head: Bytes,
    /// Long parameters.
    pub bulk: Vec<Bytes>,
    /// The longest payload that the answer may have: memory for it is taken before the call is sent, and a long one
    /// must not delay short ones.
    pub answer_limit: usize,
    /// How long the caller waits.
    pub deadline: Duration,
}

/// The answer to a [`Call`].
#[derive(Clone, Debug)]
pub struct Delivered {
    /// The result.
    pub head: Bytes,
    /// Long results.
    pub bulk: Bytes,
}

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// The call was not sent, so that it was certainly not executed.
    #[error("the node cannot be reached")]
    NotSent,
    /// It is unknown whether the call was executed.
    #[error("the node did not answer in time")]
    Unanswered,
    /// The node refused the call before executing it.
    #[error("the node refused the call: {0}")]
    Refused(String),
    /// The call was executed, but its answer is longer than it may be.
    #[error("the answer is too long")]
    TooLong,
}

/// The longest payload of an answer.
pub const LONGEST: usize = 8 << 20;

/// The connection to one node.
pub trait Transport: Send + Sync + 'static {
    /// Sends a call. Dropping the future abandons the answer, and possibly the call.
    fn call(&self, call: Call) -> BoxFuture<'static, Result<Delivered, Failure>>;
    /// Sends a call whose answer is not needed.
    fn tell(&self, call: Call);
    /// False: the node cannot be reached, and calls fail at once. True also while that is not known.
    fn is_connected(&self) -> bool {
        true
    }
}

/// Numbers of methods: those that are not a [`ashlar_drive::Request`], which has 1 to 26 ([`crate::wire::method`]), and
/// those of requests that the simulator treats in a special way.
pub mod method {
    /// [`ashlar_drive::Request::Accept`].
    pub const ACCEPT: u16 = 2;
    /// [`ashlar_drive::Request::Copy`].
    pub const COPY: u16 = 3;
    /// [`ashlar_drive::Request::Read`].
    pub const READ: u16 = 6;
    /// The drives that a node serves, with their states.
    pub const DRIVES: u16 = 64;
    /// One frame of a shard.
    pub const WRITE_FRAME: u16 = 65;
    /// Ends a session.
    pub const END: u16 = 66;
    /// Opens a shard for reading.
    pub const OPEN: u16 = 67;
    /// Reads frames.
    pub const READ_RUN: u16 = 68;
    /// Compares frames by their hashes.
    pub const VERIFY: u16 = 69;
    /// [`ashlar_drive::Remote::read_many`].
    pub const READ_MANY: u16 = 70;
    /// [`ashlar_drive::Remote::prepare_many`].
    pub const PREPARE_MANY: u16 = 71;
    /// [`ashlar_drive::Remote::hint_many`].
    pub const HINT_MANY: u16 = 72;
    /// [`ashlar_drive::Remote::read_many`] with shards; from feature level 2 on.
    pub const READ_WITH_SHARDS: u16 = 73;
}
