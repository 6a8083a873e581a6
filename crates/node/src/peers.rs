//! The other nodes of a cluster: how this one reaches their drives, and how it serves its own to them.
//!
//! The numbers of methods below [`OWN`] are those of `ashlar-remote`.
//!
//! Invariants: a call that may have been executed is never reported as not sent. What a process left open on our drives
//! ends with its last connection.
//!
//! Must not depend on: who is a node of the cluster, and why.

use std::collections::BTreeMap;
use std::sync::Arc;

use ashlar_cluster::Control;
use ashlar_environment::task::JoinHandle;
use ashlar_environment::time::Instant;
use ashlar_erasure_set::TurnQueues;
use ashlar_remote::{Call, Caller, Delivered, Failure, RemoteNode, Served, Transport, follow};
use ashlar_rpc::{Answer, Error, Incoming, Peer, Refusal, Reply, Request, Service};
use bytes::Bytes;
use futures::FutureExt;
use futures::future::{BoxFuture, join_all};
use parking_lot::Mutex;

use super::questions::{self, ASK, NoAnswer, Questions};
use super::turns;

/// Methods from this number on are not about drives.
pub const OWN: u16 = 256;

/// Answers when this process has applied a revision of the control store: u64, little-endian.
pub(crate) const SETTLE: u16 = OWN;

/// The code of a refusal: not executed.
const REFUSED: u16 = 1;
/// The code of a refusal: executed, but the answer is too long.
const TOO_LONG: u16 = 2;
/// The code of a refusal: no such method.
const UNKNOWN: u16 = 3;

/// Carries calls of drives to another node.
struct DriveCalls(Arc<Peer>);

impl DriveCalls {
    fn send(&self, call: Call) -> BoxFuture<'static, Result<Delivered, Failure>> {
        let peer = self.0.clone();
        Box::pin(async move {
            let deadline = Instant::now() + call.deadline;
            let request = Request {
                method: call.method,
                // Calls of drives carry the epoch of their group in the head.
                epoch: 0,
                head: call.head,
                bulk: call.bulk,
                answer_limit: call.answer_limit,
            };
            let answer = peer.call(request, deadline).await;
            answer.map(|Answer { head, bulk }| Delivered { head, bulk }).map_err(|e| failure(&e))
        })
    }
}

fn failure(error: &Error) -> Failure {
    match error {
        Error::Refused(Refusal { code: TOO_LONG | Refusal::TOO_LONG, .. }) => Failure::TooLong,
        Error::Refused(Refusal { code: REFUSED | UNKNOWN, message }) => Failure::Refused(message.clone()),
        e if e.is_not_executed() => Failure::NotSent,
        _ => Failure::Unanswered,
    }
}

impl Transport for DriveCalls {
    fn call(&self, call: Call) -> BoxFuture<'static, Result<Delivered, Failure>> {
        let mut sending = self.send(call);
        // The first step sends the call, also if the caller waits for something else first. It is polled again with
        // the caller's waker.
        match (&mut sending).now_or_never() {
            Some(answer) => Box::pin(std::future::ready(answer)),
            None => sending,
        }
    }

    fn tell(&self, call: Call) {
        let sending = self.send(call);
        drop(ashlar_environment::spawn("tell", async move {
            // Nobody waits for the answer.
            let _ = sending.await;
        }));
    }

    fn is_connected(&self) -> bool {
        !self.0.is_unreachable()
    }
}

/// Serves the drives of this process to other nodes.
pub struct DriveService(pub Served);

impl Service for DriveService {
    fn call(
        &self,
        caller: &ashlar_rpc::Caller,
        request: Incoming,
    ) -> BoxFuture<'static, Result<Reply, Refusal>> {
        let (served, caller) = (self.0.clone(), process(caller));
        Box::pin(async move {
            let Incoming { method, head, bulk, answer_limit, .. } = request;
            if method >= OWN {
                return Err(Refusal::new(UNKNOWN, format!("there is no method {method}")));
            }
            match served.call(caller, method, head, bulk, answer_limit).await {
                Ok(out) => Ok(Reply { head: Bytes::from(out.head.into_vec()), bulk: out.bulk }),
                Err(Failure::TooLong) => Err(Refusal::new(TOO_LONG, "the answer is too long")),
                Err(e) => Err(Refusal::new(REFUSED, e.to_string())),
            }
        })
    }

    fn disconnected(&self, caller: &ashlar_rpc::Caller, remaining: usize) {
        if remaining == 0 {
            self.0.ended(process(caller));
        }
    }
}

/// Serves the drives of this process, and what nodes ask each other besides.
pub(crate) struct NodeService {
    pub(crate) drives: DriveService,
    pub(crate) control: Control,
    pub(crate) questions: Questions,
    pub(crate) turns: Arc<TurnQueues>,
}

impl Service for NodeService {
    fn call(
        &self,
        caller: &ashlar_rpc::Caller,
        request: Incoming,
    ) -> BoxFuture<'static, Result<Reply, Refusal>> {
        match request.method {
            SETTLE => settle(self.control.clone(), request),
            ASK => self.questions.answer(caller, request),
            turns::TURN | turns::END_TURN => turns::serve(&self.turns, caller.node, &request),
            _ => self.drives.call(caller, request),
        }
    }

    fn disconnected(&self, caller: &ashlar_rpc::Caller, remaining: usize) {
        self.drives.disconnected(caller, remaining);
    }
}

fn settle(control: Control, request: Incoming) -> BoxFuture<'static, Result<Reply, Refusal>> {
    Box::pin(async move {
        let revision = <[u8; 8]>::try_from(&request.head[..]);
        let revision = revision.map_err(|_| Refusal::new(REFUSED, "not a revision"))?;
        control.settled(u64::from_le_bytes(revision)).await;
        Ok(Reply::default())
    })
}

fn process(caller: &ashlar_rpc::Caller) -> Caller {
    Caller { node: caller.node, process: caller.incarnation }
}

/// The other nodes, by number.
pub struct Peers {
    transport: Arc<ashlar_rpc::Transport>,
    nodes: Mutex<BTreeMap<u16, OtherNode>>,
}

struct OtherNode {
    peer: Arc<Peer>,
    drives: Arc<RemoteNode>,
    /// Asks for the states of its drives.
    status: JoinHandle<()>,
}

impl Drop for OtherNode {
    fn drop(&mut self) {
        self.status.abort();
    }
}

impl Peers {
    /// No other node yet.
    #[must_use]
    pub fn new(transport: Arc<ashlar_rpc::Transport>) -> Peers {
        Peers { transport, nodes: Mutex::default() }
    }

    /// The node with a number, which is reached at `address` from now on.
    pub fn at(&self, number: u16, address: &str) -> Arc<RemoteNode> {
        let mut nodes = self.nodes.lock();
        if let Some(known) = nodes.get(&number) {
            known.peer.set_address(address);
            return known.drives.clone();
        }
        let peer = Arc::new(Peer::new(self.transport.clone(), number, address));
        let drives = RemoteNode::new(Arc::new(DriveCalls(peer.clone())));
        let status = ashlar_environment::spawn("peer-status", follow(drives.clone()));
        nodes.insert(number, OtherNode { peer, drives: drives.clone(), status });
        drives
    }

    /// How to call a node about something else than its drives.
    #[must_use]
    pub fn peer(&self, number: u16) -> Option<Arc<Peer>> {
        self.nodes.lock().get(&number).map(|node| node.peer.clone())
    }

    /// The numbers of the nodes.
    #[must_use]
    pub fn numbers(&self) -> Vec<u16> {
        self.nodes.lock().keys().copied().collect()
    }

    /// Asks a node, and waits for its answer until the deadline.
    ///
    /// # Errors
    /// See [`NoAnswer`].
    pub async fn ask(&self, number: u16, question: Bytes, deadline: Instant) -> Result<Bytes, NoAnswer> {
        match self.peer(number) {
            Some(peer) => questions::ask(&peer, question, deadline).await,
            None => Err(NoAnswer::NotRunning),
        }
    }

    /// Asks all nodes at once. Those that do not run are not asked. One result for each node, by number.
    pub async fn ask_all(
        &self,
        runs: impl Fn(u16) -> bool,
        question: Bytes,
        deadline: Instant,
    ) -> Vec<(u16, Result<Bytes, NoAnswer>)> {
        let asked = self.numbers().into_iter().map(|number| {
            let (running, question) = (runs(number), question.clone());
            async move {
                let answer = match running {
                    true => self.ask(number, question, deadline).await,
                    false => Err(NoAnswer::NotRunning),
                };
                (number, answer)
            }
        });
        join_all(asked).await
    }

    /// Whether the last attempt to reach a node failed. False for one that nobody has tried to reach.
    #[must_use]
    pub fn is_unreachable(&self, number: u16) -> bool {
        self.peer(number).is_some_and(|peer| peer.is_unreachable())
    }

    /// Whether a node cannot be reached, or is silent. True for one that is not known.
    #[must_use]
    pub fn is_away(&self, number: u16) -> bool {
        self.nodes.lock().get(&number).is_none_or(|node| node.drives.is_away())
    }

    /// Forgets a node: its connections end.
    pub fn remove(&self, number: u16) {
        let gone = self.nodes.lock().remove(&number);
        drop(gone);
    }
}
