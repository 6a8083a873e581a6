//! Turns: a courtesy between nodes whose proposals for one register meet.
//!
//! Proposals of one process follow one another (`keylock`). Those of several nodes duel: each ballot makes the one before it
//! fail. A node that lost a duel, or read a register whose state somebody is deciding, asks the *preferred node* of the key for
//! a turn before it proposes again, and goes on asking for this key for [`CONTENDED`]. The preferred node gives one turn at a
//! time, in the order of the requests. A key over which nobody duels costs no message.
//!
//! Invariants: a turn protects nothing, ballots do: two nodes may have one, and a node without one may propose. A turn lasts
//! [`HOLD`] at most, nobody waits longer than [`PATIENCE`] for one, so that no node that ends or is cut off stops others. At
//! most [`MOST`] turns and requests for them are kept.
//!
//! Must not depend on: how nodes are reached, what a register contains.

use ashlar_environment::HashMap;
use ashlar_environment::time::{Instant, sleep_until};
use futures::future::BoxFuture;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::oneshot;

/// The longest turn. A proposal takes some milliseconds; on a busy machine, some tenths of a second.
pub const HOLD: Duration = Duration::from_secs(1);
/// How long a node waits for a turn before it proposes without one.
pub const PATIENCE: Duration = Duration::from_secs(5);
/// The most turns and requests that a node keeps.
pub const MOST: usize = 16_384;
/// How long a node asks for turns of a key after its last duel over it.
const CONTENDED: Duration = Duration::from_secs(2);
/// Marks of contended keys; keys share them by their hash.
const MARKS: usize = 4096;

/// A turn: of the register whose key has this hash, and who asked for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn {
    /// The hash of the key.
    pub hash: u64,
    /// The node that asked.
    pub node: u16,
    /// A number that the node has used for no other turn.
    pub number: u64,
}

/// How this node asks others for turns.
pub trait TurnCalls: Send + Sync + 'static {
    /// The node that gives the turns of a key with this hash. Nodes that know the same running nodes agree on it.
    fn preferred(&self, hash: u64) -> u16;
    /// Asks another node for a turn: [`TurnQueues::wait`]. False as soon as that node is known not to answer.
    fn ask(&self, node: u16, turn: Turn, patience: Duration) -> BoxFuture<'static, bool>;
    /// Tells another node that a turn is over, or no longer wanted: [`TurnQueues::end`]. It may get lost.
    fn end(&self, node: u16, turn: Turn);
}

/// The turns that this node gives.
#[derive(Default)]
pub struct TurnQueues(Mutex<Given>);

#[derive(Default)]
struct Given {
    queues: HashMap<u64, Queue>,
    /// Turns and requests in all queues.
    count: usize,
}

/// The turns of one key.
struct Queue {
    holder: Turn,
    until: Instant,
    waiting: VecDeque<(Turn, oneshot::Sender<()>)>,
}

/// What became of a request.
enum Entered {
    Given,
    Waits(oneshot::Receiver<()>),
    Refused,
}

/// A request that waits; dropping it takes it back.
struct Waiting<'a>(&'a TurnQueues, Turn);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.end(self.1);
    }
}

impl TurnQueues {
    /// Waits for a turn. Returns false if none came within `patience`, or if too many are kept. Dropping the future takes the
    /// request back.
    pub fn wait(self: Arc<Self>, turn: Turn, patience: Duration) -> BoxFuture<'static, bool> {
        Box::pin(async move {
            let receive = match self.enter(turn) {
                Entered::Given => return true,
                Entered::Refused => return false,
                Entered::Waits(receive) => receive,
            };
            let waiting = Waiting(&self, turn);
            let end = Instant::now() + patience;
            tokio::pin!(receive);
            loop {
                let over = self.0.lock().queues.get(&turn.hash).map_or(end, |queue| queue.until);
                tokio::select! {
                    biased;
                    given = &mut receive => {
                        // Refused: the request was taken back.
                        if given.is_ok() {
                            std::mem::forget(waiting);
                        }
                        return given.is_ok();
                    }
                    () = sleep_until(over.min(end)) => {}
                }
                if Instant::now() >= end {
                    return false;
                }
                self.0.lock().pass_expired(turn.hash);
            }
        })
    }

    /// A turn is over, or no longer wanted.
    pub fn end(&self, turn: Turn) {
        let mut given = self.0.lock();
        let given = &mut *given;
        let Some(queue) = given.queues.get_mut(&turn.hash) else { return };
        if queue.holder == turn {
            given.pass(turn.hash);
            return;
        }
        let before = queue.waiting.len();
        queue.waiting.retain(|(of, _)| *of != turn);
        given.count -= before - queue.waiting.len();
    }

    /// The number of turns that are given, and of requests that wait.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.lock().count
    }

    /// Whether nobody has a turn or waits for one.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn enter(&self, turn: Turn) -> Entered {
        let mut given = self.0.lock();
        let given = &mut *given;
        if given.count >= MOST {
            given.drop_expired();
        }
        if given.count >= MOST {
            return Entered::Refused;
        }
        given.pass_expired(turn.hash);
        given.count += 1;
        match given.queues.get_mut(&turn.hash) {
            None => {
                let queue = Queue { holder: turn, until: Instant::now() + HOLD, waiting: VecDeque::new() };
                given.queues.insert(turn.hash, queue);
                Entered::Given
            }
            Some(queue) => {
                let (send, receive) = oneshot::channel();
                queue.waiting.push_back((turn, send));
                Entered::Waits(receive)
            }
        }
    }
}

impl Given {
    /// Gives the turn of a key to the next that waits for it.
    fn pass(&mut self, hash: u64) {
        let Some(queue) = self.queues.get_mut(&hash) else { return };
        self.count -= 1;
        while let Some((turn, send)) = queue.waiting.pop_front() {
            (queue.holder, queue.until) = (turn, Instant::now() + HOLD);
            if send.send(()).is_ok() {
                return;
            }
            // It no longer waits.
            self.count -= 1;
        }
        self.queues.remove(&hash);
    }

    fn pass_expired(&mut self, hash: u64) {
        if self.queues.get(&hash).is_some_and(|queue| queue.until <= Instant::now()) {
            self.pass(hash);
        }
    }

    /// Forgets turns whose end was lost and for which nobody waits.
    fn drop_expired(&mut self) {
        let now = Instant::now();
        let before = self.queues.len();
        self.queues.retain(|_, queue| queue.until > now || !queue.waiting.is_empty());
        self.count -= before - self.queues.len();
    }
}

/// The turns of this process's own proposals.
pub(crate) struct Turns {
    /// `None`: no other process proposes.
    others: Option<Others>,
    node: u16,
    next: AtomicU64,
    start: Instant,
    /// Milliseconds after `start` until which keys with such a hash are contended.
    marks: Box<[AtomicU64]>,
}

/// What a process needs to take turns with others.
#[derive(Clone)]
pub struct Others {
    /// The turns that this node gives.
    pub queues: Arc<TurnQueues>,
    /// How it asks other nodes.
    pub calls: Arc<dyn TurnCalls>,
}

/// A turn of this process. Dropping it ends the turn.
pub(crate) struct Held {
    others: Others,
    giver: u16,
    turn: Turn,
}

impl Drop for Held {
    fn drop(&mut self) {
        if self.giver == self.turn.node {
            self.others.queues.end(self.turn);
        } else {
            self.others.calls.end(self.giver, self.turn);
        }
    }
}

impl Turns {
    /// `first`: a random number, so that a process is not taken for an earlier one of its node.
    pub(crate) fn new(others: Option<Others>, node: u16, first: u64) -> Turns {
        let marks = if others.is_some() { MARKS } else { 0 };
        let marks = (0..marks).map(|_| AtomicU64::new(0)).collect();
        Turns { others, node, next: AtomicU64::new(first), start: Instant::now(), marks }
    }

    fn now_ms(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    fn mark(&self, hash: u64) -> Option<&AtomicU64> {
        self.marks.get((hash >> 24) as usize % MARKS)
    }

    /// Proposals of several nodes met at the register of a key with this hash.
    pub(crate) fn met(&self, hash: u64) {
        if let Some(mark) = self.mark(hash) {
            mark.store(self.now_ms() + CONTENDED.as_millis() as u64, Ordering::Relaxed);
        }
    }

    /// Whether proposals met there a short time ago.
    pub(crate) fn is_contended(&self, hash: u64) -> bool {
        let until = self.mark(hash).map_or(0, |mark| mark.load(Ordering::Relaxed));
        until != 0 && self.now_ms() < until
    }

    /// Waits for a turn. `None`: propose without one.
    pub(crate) async fn take(&self, hash: u64) -> Option<Held> {
        let others = self.others.clone()?;
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let turn = Turn { hash, node: self.node, number };
        let giver = others.calls.preferred(hash);
        // If it is dropped while it waits, the request is taken back.
        let held = Held { others, giver, turn };
        let given = if giver == self.node {
            held.others.queues.clone().wait(turn, PATIENCE).await
        } else {
            held.others.calls.ask(giver, turn, PATIENCE).await
        };
        given.then_some(held)
    }
}

#[cfg(test)]
#[path = "tests/turns.rs"]
mod tests;
