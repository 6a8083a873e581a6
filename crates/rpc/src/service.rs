//! What a node offers to others: the interface between this crate and those above it.
//!
//! Must not depend on: connections, frames.

use ashlar_environment::time::Instant;
use bytes::Bytes;
use futures::future::BoxFuture;

use crate::error::Refusal;

/// A node that calls, and the connection that it uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Caller {
    /// The number in its certificate.
    pub node: u16,
    /// The random number of its process. A session belongs to `(node, incarnation)`, because one process uses
    /// several connections.
    pub incarnation: u64,
    /// The number of the connection in this process.
    pub connection: u64,
    /// The newest feature level that its process can do.
    pub feature_level: u32,
}

/// A request as it arrives.
#[derive(Debug)]
pub struct Incoming {
    /// What is asked for.
    pub method: u16,
    /// The epoch that the caller goes by.
    pub epoch: u32,
    /// The head.
    pub head: Bytes,
    /// The payload, in an aligned buffer if it is large. The caller can send as many bytes again only when
    /// all clones and slices of it are dropped: copy what is kept for long.
    pub bulk: Bytes,
    /// After this time nobody waits for the answer.
    pub deadline: Instant,
    /// The longest payload that the answer may have.
    pub answer_limit: usize,
}

/// What a service answers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reply {
    /// The head.
    pub head: Bytes,
    /// The payload, in pieces, which are sent without being copied together.
    pub bulk: Vec<Bytes>,
}

/// What a node does for others.
pub trait Service: Send + Sync + 'static {
    /// Carries out a request.
    ///
    /// The future is polled once by the task of the connection, so that what is answered at once needs no
    /// task. If it is not ready it goes on in a task of its own. It is dropped when the caller gives up or the
    /// connection ends. A panic is answered with [`Refusal::INTERNAL`].
    fn call(&self, caller: &Caller, request: Incoming) -> BoxFuture<'static, Result<Reply, Refusal>>;

    /// A connection ended; `remaining` others of the same process remain.
    fn disconnected(&self, caller: &Caller, remaining: usize) {
        let _ = (caller, remaining);
    }
}
