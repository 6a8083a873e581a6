//! Messages between coordinators and drives: delayed, lost, duplicated, reordered, or blocked in one
//! direction.
//!
//! It carries the messages of `ashlar-remote`, as a network between nodes does.
//!
//! Invariants: the delivery of a message is drawn when it is sent. A message that would arrive while its
//! direction is blocked is lost. An answer that does not arrive before the caller's deadline is unknown to the
//! caller, while the request may still be executed later. Only requests that may be repeated are duplicated. A
//! paused coordinator neither sends nor receives.
//!
//! Must not depend on: the content of messages, except to describe them and for mutants.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ashlar_drive::{Answer, ReadWithShard};
use ashlar_environment::random::Seeded;
use ashlar_environment::simulation::{Process, spawn_in};
use ashlar_environment::time::{Instant, sleep, sleep_until, timeout};
use ashlar_remote::wire::{self, In, Out, ReadMany};
use ashlar_remote::{Call, Caller, Delivered, Failure, Transport, method};
use bytes::{Bytes, BytesMut};
use futures::future::BoxFuture;
use parking_lot::Mutex;
use tokio::sync::oneshot;

use crate::describe;
use crate::host::Host;
use crate::mutant;
use crate::plan::{Mutant, NetworkFaults};
use crate::trace::Trace;

/// A sender or receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Node {
    /// A coordinator.
    Coordinator(usize),
    /// A drive, by the first byte of its id.
    Drive(u8),
}

/// The state of the network.
pub struct Network {
    state: Mutex<State>,
    /// The trace of the run.
    pub trace: Trace,
    mutant: Option<Mutant>,
}

struct State {
    rng: Seeded,
    network_faults: NetworkFaults,
    /// Blocked directions.
    blocked: BTreeSet<(Node, Node)>,
    /// Until when each coordinator is paused.
    paused_until: Vec<Instant>,
    /// Drives, and how much longer than others they take to read shards.
    slow_shards: BTreeMap<u8, Duration>,
    /// How many shards each drive was asked to open.
    opened: BTreeMap<u8, u64>,
}

/// The delivery of a message.
struct Delivery {
    there: Option<Duration>,
    again: Option<Duration>,
    back: Option<Duration>,
}

impl Network {
    /// A network of `coordinators` coordinators and any number of drives.
    #[must_use]
    pub fn new(
        seed: u64,
        network_faults: NetworkFaults,
        coordinators: usize,
        mutant: Option<Mutant>,
        trace: Trace,
    ) -> Network {
        let state = State {
            rng: Seeded::new(seed),
            network_faults,
            blocked: BTreeSet::new(),
            paused_until: vec![Instant::now(); coordinators],
            slow_shards: BTreeMap::new(),
            opened: BTreeMap::new(),
        };
        Network { state: Mutex::new(state), trace, mutant }
    }

    /// Sets the rates of network faults.
    pub fn set_faults(&self, network_faults: NetworkFaults) {
        self.state.lock().network_faults = network_faults;
    }

    /// Blocks the direction from `a` to `b`.
    pub fn block(&self, a: Node, b: Node) {
        self.state.lock().blocked.insert((a, b));
    }

    /// Whether the direction is blocked.
    #[must_use]
    pub fn is_blocked(&self, a: Node, b: Node) -> bool {
        self.state.lock().blocked.contains(&(a, b))
    }

    /// Unblocks the direction from `a` to `b`.
    pub fn unblock(&self, a: Node, b: Node) {
        self.state.lock().blocked.remove(&(a, b));
    }

    /// Ends all faults of the network.
    pub fn restore_all(&self) {
        let mut s = self.state.lock();
        s.blocked.clear();
        s.network_faults = NetworkFaults::NONE;
        let now = Instant::now();
        s.paused_until.iter_mut().for_each(|until| *until = (*until).min(now));
    }

    /// A drive takes so much longer than others to read shards.
    pub fn slow_down(&self, drive: u8, by: Duration) {
        self.state.lock().slow_shards.insert(drive, by);
    }

    /// How many shards each drive was asked to open so far.
    #[must_use]
    pub fn opened(&self) -> BTreeMap<u8, u64> {
        self.state.lock().opened.clone()
    }

    /// How much longer than others a drive takes for this call.
    fn extra(&self, drive: u8, method: u16) -> Option<Duration> {
        if !matches!(method, method::OPEN | method::READ_RUN) {
            return None;
        }
        let s = &mut *self.state.lock();
        if method == method::OPEN {
            *s.opened.entry(drive).or_default() += 1;
        }
        s.slow_shards.get(&drive).copied()
    }

    /// Pauses a coordinator.
    pub fn pause(&self, coordinator: usize, time: Duration) {
        self.state.lock().paused_until[coordinator] = Instant::now() + time;
    }

    /// Carries a message between two coordinators. False: it is lost.
    pub async fn carry(&self, from: usize, to: usize) -> bool {
        self.while_paused(from).await;
        let Some(time) = self.delivery().there else { return false };
        sleep(time).await;
        self.while_paused(to).await;
        !self.is_blocked(Node::Coordinator(from), Node::Coordinator(to))
    }

    /// Waits while a coordinator is paused.
    pub async fn while_paused(&self, coordinator: usize) {
        loop {
            let until = self.state.lock().paused_until[coordinator];
            if until <= Instant::now() {
                return;
            }
            // Checked again periodically, since the end may be moved.
            sleep_until(until.min(Instant::now() + Duration::from_millis(100))).await;
        }
    }

    fn delivery(&self) -> Delivery {
        let s = &mut *self.state.lock();
        let (network_faults, rng) = (s.network_faults, &mut s.rng);
        let mut one_way = || {
            let drawn = rng.below(1000);
            let micros = if drawn < network_faults.late {
                rng.below(3_000_000)
            } else if drawn < network_faults.late + network_faults.slow {
                rng.below(50_000)
            } else {
                100 + rng.below(400)
            };
            (rng.below(1000) >= network_faults.lost).then(|| Duration::from_micros(micros))
        };
        let (there, again, back) = (one_way(), one_way(), one_way());
        let again = again.filter(|_| rng.below(1000) < network_faults.twice);
        Delivery { there, again, back }
    }
}

/// The way from one coordinator to one drive.
#[derive(Clone)]
pub struct Link(Arc<Inner>);

struct Inner {
    network: Arc<Network>,
    /// The process of the coordinator, as drives see it.
    caller: Caller,
    /// False: the coordinator crashed, and messages of its destructors are not sent.
    alive: Arc<AtomicBool>,
    host: Arc<Host>,
    /// The drive that reads are sent to (for a mutant, another one).
    reads: Arc<Host>,
}

impl Link {
    /// From a process of a coordinator to a drive; `first`: the first drive.
    #[must_use]
    pub fn new(
        network: &Arc<Network>,
        (caller, alive): (Caller, &Arc<AtomicBool>),
        host: &Arc<Host>,
        first: &Arc<Host>,
    ) -> Link {
        let reads = if network.mutant == Some(Mutant::OneSlot) { first } else { host };
        Link(Arc::new(Inner {
            network: network.clone(),
            caller,
            alive: alive.clone(),
            host: host.clone(),
            reads: reads.clone(),
        }))
    }

    /// Sends a call to the drive now; the answer may be lost.
    fn send(&self, call: Call) -> oneshot::Receiver<Result<Delivered, Failure>> {
        let (answered, answer) = oneshot::channel();
        let me = self.clone();
        if !me.0.alive.load(Ordering::Relaxed) {
            return answer;
        }
        let carry = async move {
            let (deadline, method, mutant) = (call.deadline, call.method, me.0.network.mutant);
            let said = match me.carry(call).await {
                Some(said) => said,
                None => match mutant::silence(mutant, method) {
                    Some(said) => Ok(said),
                    // The caller is not notified that no answer will come.
                    None => return sleep(deadline).await,
                },
            };
            // The caller may no longer exist.
            let _ = answered.send(said);
        };
        // Boxed, so that it is not copied on its way into a task.
        drop(spawn_in(Process::FIRST, "message", Box::pin(carry)));
        answer
    }

    async fn carry(&self, call: Call) -> Option<Result<Delivered, Failure>> {
        let i = &self.0;
        let coordinator = usize::from(i.caller.node);
        let mut message = Message::of(call);
        let mut host = &i.host;
        let reads = matches!(message.method, method::READ | method::READ_WITH_SHARDS);
        if reads && !Arc::ptr_eq(&i.reads, &i.host) {
            host = &i.reads;
            message.readdress(host);
        }
        let number = host.label.drive.0[0];
        let (me, drive) = (Node::Coordinator(coordinator), Node::Drive(number));
        let extra = i.network.extra(number, message.method);
        let Delivery { there, again, back } = i.network.delivery();
        i.network.while_paused(coordinator).await;
        let first = async {
            sleep(there?).await;
            if i.network.is_blocked(me, drive) {
                return None;
            }
            if let Some(extra) = extra {
                sleep(extra).await;
            }
            self.execute(host, &message).await
        };
        let first = std::pin::pin!(first);
        let said = match again.filter(|_| message.may_repeat()) {
            None => first.await,
            Some(again) => {
                let second = Box::pin(async {
                    sleep(again).await;
                    if !i.network.is_blocked(me, drive) {
                        self.execute(host, &message).await;
                    }
                });
                futures::join!(first, second).0
            }
        };
        let said = said?;
        i.network.trace.note(|| {
            let lost = if back.is_none() { ", answer lost" } else { "" };
            format!("  {coordinator}>{} {}{lost}", host.label.drive.0[0], message.describe(&said))
        });
        sleep(back?).await;
        if i.network.is_blocked(drive, me) {
            return None;
        }
        i.network.while_paused(coordinator).await;
        Some(said)
    }

    /// Executes a message on the machine of the drive.
    async fn execute(&self, host: &Host, message: &Message) -> Option<Result<Delivered, Failure>> {
        let Message { method, head, bulk, answer_limit } = message.clone();
        let caller = self.0.caller;
        if let Some(answer) = mutant::idle(self.0.network.mutant, method, caller.node, &head) {
            return Some(Ok(answer));
        }
        let head = mutant::request(self.0.network.mutant, method, head, &bulk);
        let said = host
            .serve(|served| async move { served.call(caller, method, head, bulk, answer_limit).await })
            .await?;
        Some(said.map(|out| mutant::answer(self.0.network.mutant, method, delivered(out))))
    }
}

impl Transport for Link {
    fn call(&self, call: Call) -> BoxFuture<'static, Result<Delivered, Failure>> {
        let deadline = call.deadline;
        let answer = self.send(call);
        Box::pin(async move {
            match timeout(deadline, answer).await {
                Ok(Ok(said)) => said,
                _ => Err(Failure::Unanswered),
            }
        })
    }

    fn tell(&self, call: Call) {
        drop(self.send(call));
    }
}

/// A call on its way.
#[derive(Clone)]
struct Message {
    method: u16,
    head: Bytes,
    bulk: Bytes,
    answer_limit: usize,
}

impl Message {
    fn of(call: Call) -> Message {
        let Call { method, head, answer_limit, .. } = call;
        Message { method, head, bulk: joined(&call.bulk), answer_limit }
    }

    /// Sends it to another drive.
    fn readdress(&mut self, host: &Host) {
        let mut head = BytesMut::from(&self.head[..]);
        // A call for several drives, of which a node has one here, begins with their number.
        let at = usize::from(self.method == method::READ_WITH_SHARDS);
        head[at..at + 16].copy_from_slice(&host.label.drive.0);
        self.head = head.freeze();
    }

    fn may_repeat(&self) -> bool {
        match self.method {
            method::WRITE_FRAME | method::OPEN => false,
            method::DRIVES | method::END | method::READ_RUN | method::VERIFY | method::READ_WITH_SHARDS => {
                true
            }
            _ => self.request().is_some_and(|request| request.may_repeat()),
        }
    }

    fn request(&self) -> Option<ashlar_drive::Request> {
        let mut message = In::new(&self.head, &self.bulk);
        message.drive().ok()?;
        wire::decode_request(self.method, message).ok()
    }

    fn describe(&self, said: &Result<Delivered, Failure>) -> String {
        let asked = match (self.method, self.request()) {
            (_, Some(request)) => describe::request(&request),
            (method::DRIVES, _) => "drives".to_owned(),
            (method::WRITE_FRAME, _) => "write frame".to_owned(),
            (method::END, _) => "end of a session".to_owned(),
            (method::OPEN, _) => "open shard".to_owned(),
            (method::READ_RUN, _) => "read shard".to_owned(),
            (method::READ_WITH_SHARDS, _) => self.describe_read(said).unwrap_or_else(|| "read".to_owned()),
            _ => "verify".to_owned(),
        };
        let answer = match said {
            Err(e) => e.to_string(),
            Ok(Delivered { head, bulk }) => match wire::decode_reply(head, bulk, wire::decode_answer) {
                Ok(reply) => reply.result.as_ref().map_or_else(ToString::to_string, describe::answer),
                Err(_) => "done".to_owned(),
            },
        };
        format!("{asked}: {answer}")
    }
}

impl Message {
    /// A READ that asks for shards, and what came.
    fn describe_read(&self, said: &Result<Delivered, Failure>) -> Option<String> {
        let asked = ReadMany::decode(self.method, In::new(&self.head, &self.bulk)).ok()?;
        let Delivered { head, bulk } = said.as_ref().ok()?;
        let answers = wire::decode_reads_with_shards(In::new(head, bulk)).ok()?;
        let shown = |answer: &Option<ReadWithShard>| match answer {
            Some(ReadWithShard { reply, shard }) => {
                format!("{}, shard {}", describe::answer(&Answer::Read(reply.clone())), shard.is_some())
            }
            None => "to be asked by itself".to_owned(),
        };
        let shown: Vec<String> = answers.iter().map(shown).collect();
        Some(format!("read {:?} e{} with shard: {}", asked.key, asked.epoch, shown.join("; ")))
    }
}

fn joined(parts: &[Bytes]) -> Bytes {
    if let [one] = parts {
        return one.clone();
    }
    let mut whole = BytesMut::new();
    parts.iter().for_each(|part| whole.extend_from_slice(part));
    whole.freeze()
}

pub(crate) fn delivered(out: Out) -> Delivered {
    Delivered { head: out.head.into_vec().into(), bulk: joined(&out.bulk) }
}
