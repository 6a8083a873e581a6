//! Turns among nodes (`ashlar_erasure_set::TurnQueues`): how this node asks others for them, and gives its own.
//!
//! Messages: [`TURN`] with the hash of the key u64, the number of the turn u64 and how long the caller waits, u32 in
//! milliseconds, all little-endian; the head of the answer is one byte, 1 if the turn is given. [`END_TURN`] with the hash and the
//! number; the answer is empty. Who asks is the node of the connection.
//!
//! Invariant: a node that is away is not waited for.
//!
//! Must not depend on: what turns are for.

use std::sync::{Arc, Weak};
use std::time::Duration;

use ashlar_duties::{Duties, Duty, Unit};
use ashlar_environment::time::{Instant, timeout};
use ashlar_erasure_set::{Others, Turn, TurnCalls, TurnQueues};
use ashlar_rpc::{Incoming, Refusal, Reply, Request};
use bytes::Bytes;
use futures::future::BoxFuture;

use super::peers::{OWN, Peers};

/// Asks for a turn.
pub(crate) const TURN: u16 = OWN + 2;
/// Ends a turn, or takes a request for one back.
pub(crate) const END_TURN: u16 = OWN + 3;

/// Time limit of the message that ends a turn.
const END: Duration = Duration::from_secs(3);
/// How often a node that is waited for is looked at.
const LOOK: Duration = Duration::from_millis(100);
/// The code of a refusal: not executed.
const REFUSED: u16 = 1;

/// Asks the other nodes.
struct Calls {
    peers: Weak<Peers>,
    duties: Duties,
}

/// With whom the proposals of this node take turns.
pub(crate) fn others(queues: &Arc<TurnQueues>, peers: &Arc<Peers>, duties: &Duties) -> Others {
    let calls = Calls { peers: Arc::downgrade(peers), duties: duties.clone() };
    Others { queues: queues.clone(), calls: Arc::new(calls) }
}

impl TurnCalls for Calls {
    fn preferred(&self, hash: u64) -> u16 {
        // As long as it is not known who runs, every node gives its own turns.
        self.duties.owner(Duty::Turns, &Unit::key(hash)).unwrap_or(self.duties.node())
    }

    fn ask(&self, node: u16, turn: Turn, patience: Duration) -> BoxFuture<'static, bool> {
        let peers = self.peers.upgrade();
        Box::pin(async move {
            let Some(peers) = peers else { return false };
            let Some(peer) = peers.peer(node).filter(|_| !peers.is_away(node)) else { return false };
            let mut head = [0; 20];
            head[..8].copy_from_slice(&turn.hash.to_le_bytes());
            head[8..16].copy_from_slice(&turn.number.to_le_bytes());
            let waits = u32::try_from(patience.as_millis()).unwrap_or(u32::MAX);
            head[16..].copy_from_slice(&waits.to_le_bytes());
            let request = Request { method: TURN, head: Bytes::copy_from_slice(&head), ..Request::default() };
            let answer = peer.call(request, Instant::now() + patience);
            tokio::pin!(answer);
            loop {
                match timeout(LOOK, &mut answer).await {
                    Ok(answer) => return answer.is_ok_and(|answer| answer.head[..] == [1]),
                    Err(_) if peers.is_away(node) => return false,
                    Err(_) => {}
                }
            }
        })
    }

    fn end(&self, node: u16, turn: Turn) {
        let Some(peer) = self.peers.upgrade().and_then(|peers| peers.peer(node)) else { return };
        let mut head = [0; 16];
        head[..8].copy_from_slice(&turn.hash.to_le_bytes());
        head[8..].copy_from_slice(&turn.number.to_le_bytes());
        let request = Request { method: END_TURN, head: Bytes::copy_from_slice(&head), ..Request::default() };
        drop(ashlar_environment::spawn("end-turn", async move {
            // If it is lost, the turn ends by its time limit.
            let _ = peer.call(request, Instant::now() + END).await;
        }));
    }
}

/// Answers the messages of other nodes about turns.
pub(crate) fn serve(
    queues: &Arc<TurnQueues>,
    caller: u16,
    request: &Incoming,
) -> BoxFuture<'static, Result<Reply, Refusal>> {
    let queues = queues.clone();
    let (method, head) = (request.method, request.head.clone());
    Box::pin(async move {
        let malformed = || Refusal::new(REFUSED, "not a message about turns");
        let (turn, rest) = turn(caller, &head).ok_or_else(malformed)?;
        if method == END_TURN && rest.is_empty() {
            queues.end(turn);
            return Ok(Reply::default());
        }
        let waits = <[u8; 4]>::try_from(rest).map_err(|_| malformed())?;
        if method != TURN {
            return Err(malformed());
        }
        let patience = Duration::from_millis(u32::from_le_bytes(waits).into());
        let given = queues.wait(turn, patience).await;
        Ok(Reply { head: Bytes::copy_from_slice(&[u8::from(given)]), bulk: Vec::new() })
    })
}

fn turn(node: u16, head: &[u8]) -> Option<(Turn, &[u8])> {
    let (hash, rest) = head.split_first_chunk::<8>()?;
    let (number, rest) = rest.split_first_chunk::<8>()?;
    Some((Turn { hash: u64::from_le_bytes(*hash), node, number: u64::from_le_bytes(*number) }, rest))
}
