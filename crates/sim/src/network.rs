//! Messages between coordinators and drives: delayed, lost, duplicated, reordered, or blocked in one
//! direction.
//!
//! Invariants: the delivery of a message is drawn when it is sent. A message that would arrive while its
//! direction is blocked is lost. An answer that does not arrive within [`DEADLINE`] is unknown to the caller,
//! while the request may still be executed later. Only requests that may be repeated are duplicated. A paused
//! coordinator neither sends nor receives.
//!
//! Must not depend on: the content of messages.

use std::collections::BTreeSet;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ashlar_drive::{
    Answer, Check, Completion, Drive, Error, Frames, Label, Later, Remote, RemoteReader, RemoteWriter,
    Request, Result, ShardReader, Status, Tally,
};
use ashlar_environment::random::Seeded;
use ashlar_environment::simulation::{Process, spawn_in};
use ashlar_environment::time::{Instant, sleep, sleep_until, timeout};
use ashlar_format::frame::ShardId;
use ashlar_format::{Ballot, GroupId, RegisterKey, WriteId};
use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::oneshot;

use crate::describe;
use crate::host::{Host, ended};
use crate::plan::{Mutant, NetworkFaults};
use crate::trace::Trace;

/// How long a caller waits for an answer.
pub const DEADLINE: Duration = Duration::from_secs(3);

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

    /// Pauses a coordinator.
    pub fn pause(&self, coordinator: usize, time: Duration) {
        self.state.lock().paused_until[coordinator] = Instant::now() + time;
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

/// The connection of one coordinator to one drive.
#[derive(Clone)]
pub struct Link(Arc<Inner>);

struct Inner {
    network: Arc<Network>,
    coordinator: usize,
    /// False: the coordinator crashed, and messages of its destructors are not sent.
    alive: Arc<AtomicBool>,
    host: Arc<Host>,
    /// The drive that reads are sent to (for a mutant, another one).
    reads: Arc<Host>,
    path: PathBuf,
    heard: Mutex<Status>,
    /// The times at which the unanswered requests were sent, by number.
    open: Mutex<std::collections::BTreeMap<u64, Instant>>,
    next: Mutex<u64>,
}

impl Link {
    /// From a coordinator to a drive, which must be in service now or have been before. `groups`: the groups
    /// in which the drive counts as a voter until its first answer; `first`: the first drive.
    #[must_use]
    pub fn new(
        network: &Arc<Network>,
        (coordinator, alive): (usize, &Arc<AtomicBool>),
        host: &Arc<Host>,
        groups: &[GroupId],
        first: &Arc<Host>,
    ) -> Link {
        let unheard = Status {
            state: ashlar_drive::State::Online,
            held: groups.iter().map(|group| (*group, ashlar_drive::Role::Voter, 0)).collect(),
            floor: Ballot::ZERO,
            stats: ashlar_drive::Stats { free: 1 << 40, ..ashlar_drive::Stats::default() },
        };
        let reads = if network.mutant == Some(Mutant::OneSlot) { first } else { host };
        Link(Arc::new(Inner {
            network: network.clone(),
            coordinator,
            alive: alive.clone(),
            host: host.clone(),
            reads: reads.clone(),
            path: PathBuf::from(format!("sim:/{:02x}", host.label.drive.0[0])),
            heard: Mutex::new(host.status().unwrap_or(unheard)),
            open: Mutex::default(),
            next: Mutex::new(0),
        }))
    }

    /// Sends `work` to the drive now; the answer may be lost.
    fn send<T, F>(
        &self,
        name: &'static str,
        repeats: bool,
        at: &Arc<Host>,
        work: impl Fn(Drive, u32) -> F + Send + Sync + 'static,
    ) -> oneshot::Receiver<Result<T>>
    where
        T: Send + 'static,
        F: Future<Output = Result<T>> + Send + 'static,
    {
        let (answered, answer) = oneshot::channel();
        let (me, host) = (self.clone(), at.clone());
        if !me.0.alive.load(Ordering::Relaxed) {
            return answer;
        }
        let number = {
            let mut next = me.0.next.lock();
            *next += 1;
            *next
        };
        me.0.open.lock().insert(number, Instant::now());
        let carry = async move {
            let said = me.carry(name, repeats, &host, work).await;
            if said.is_none() {
                // The caller is not notified that no answer will come.
                sleep(DEADLINE).await;
            }
            me.0.open.lock().remove(&number);
            if let Some((result, status)) = said {
                *me.0.heard.lock() = status;
                // The caller may no longer exist.
                let _ = answered.send(result);
            }
        };
        drop(spawn_in(Process::FIRST, "message", carry));
        answer
    }

    async fn carry<T, F: Future<Output = Result<T>> + Send + 'static>(
        &self,
        name: &'static str,
        repeats: bool,
        host: &Arc<Host>,
        work: impl Fn(Drive, u32) -> F,
    ) -> Option<(Result<T>, Status)> {
        let i = &self.0;
        let (me, drive) = (Node::Coordinator(i.coordinator), Node::Drive(host.label.drive.0[0]));
        let Delivery { there, again, back } = i.network.delivery();
        i.network.while_paused(i.coordinator).await;
        let first = async {
            sleep(there?).await;
            if i.network.is_blocked(me, drive) {
                return None;
            }
            host.serve(&work).await
        };
        let second = async {
            if !repeats {
                return;
            }
            let Some(again) = again else { return };
            sleep(again).await;
            if !i.network.is_blocked(me, drive) {
                host.serve(&work).await;
            }
        };
        let (said, ()) = futures::join!(first, second);
        let said = said?;
        i.network.trace.note(|| {
            let outcome = said.0.as_ref().err().map_or("done".to_owned(), ToString::to_string);
            format!(
                "  {me:?} {drive:?} {name}: {outcome}{}",
                if back.is_none() { ", answer lost" } else { "" }
            )
        });
        sleep(back?).await;
        if i.network.is_blocked(drive, me) {
            return None;
        }
        i.network.while_paused(i.coordinator).await;
        Some(said)
    }
}

async fn heard<T>(answer: oneshot::Receiver<Result<T>>) -> Result<T> {
    match timeout(DEADLINE, answer).await {
        Ok(Ok(said)) => said,
        _ => Err(Error::Unanswered),
    }
}

impl Remote for Link {
    fn label(&self) -> &Label {
        &self.0.host.label
    }
    fn path(&self) -> &Path {
        &self.0.path
    }
    fn status(&self) -> Status {
        self.0.heard.lock().clone()
    }
    fn oldest(&self) -> Duration {
        self.0.open.lock().values().next().map_or(Duration::ZERO, Instant::elapsed)
    }
    fn frames_waiting(&self) -> u64 {
        0
    }

    fn ask(&self, request: Request) -> Later<'static, Answer> {
        let mutant = self.0.network.mutant;
        let at = if matches!(request, Request::Read { .. }) { &self.0.reads } else { &self.0.host };
        let (name, repeats) = (request.name(), request.may_repeat());
        let (network, coordinator) = (self.0.network.clone(), self.0.coordinator);
        let work = move |drive: Drive, _| {
            let (request, network) = (request.clone(), network.clone());
            async move {
                let asked = network.trace.is_kept().then(|| describe::request(&request));
                let id = drive.label().drive.0[0];
                let answer = drive.serve(request).await;
                network.trace.note(|| {
                    let said = answer.as_ref().map_or_else(ToString::to_string, describe::answer);
                    format!("  {coordinator}>{id} {}: {said}", asked.unwrap_or_default())
                });
                match answer {
                    Ok(Answer::Refused(_)) if mutant == Some(Mutant::RefusedCounts) => Ok(Answer::Done),
                    answer => answer,
                }
            }
        };
        Box::pin(heard(self.send(name, repeats, at, work)))
    }

    fn order(&self, request: Request, done: Completion) {
        let answer = self.ask(request);
        drop(ashlar_environment::spawn("order", async move { Answer::complete(answer.await, done) }));
    }

    fn tell(&self, request: Request) {
        drop(self.ask(request));
    }

    fn begin_shard(
        &self,
        owner: &RegisterKey,
        shard: ShardId,
        ballot: Ballot,
        epoch: u32,
        len: u64,
        frame: u32,
    ) -> Result<Box<dyn RemoteWriter>> {
        let (link, owner) = (self.clone(), owner.clone());
        Ok(Box::new(Writer { link, owner, shard, ballot, epoch, len, frame, frames: Vec::new() }))
    }

    fn open_shard(&self, write_id: WriteId, index: u8) -> Later<'static, Box<dyn RemoteReader>> {
        let work = move |drive: Drive, incarnation| async move {
            Ok((Arc::new(drive.open_shard(write_id, index).await?), incarnation))
        };
        let answer = self.send("open shard", true, &self.0.host, work);
        let link = self.clone();
        Box::pin(async move {
            let (reader, incarnation) = heard(answer).await?;
            Ok(Box::new(Reader { link, reader, incarnation }) as Box<dyn RemoteReader>)
        })
    }
}

/// A shard that is sent when it is complete.
struct Writer {
    link: Link,
    owner: RegisterKey,
    shard: ShardId,
    ballot: Ballot,
    epoch: u32,
    len: u64,
    frame: u32,
    frames: Vec<(Bytes, [u8; 32])>,
}

impl RemoteWriter for Writer {
    fn next_frame(&self) -> Option<(ShardId, u32)> {
        Some((self.shard, self.frames.len() as u32))
    }

    fn write_hashed(&mut self, frame: Bytes, hash: [u8; 32]) -> Later<'_, ()> {
        self.frames.push((frame, hash));
        Box::pin(async { Ok(()) })
    }

    fn finish(self: Box<Self>, done: Completion) {
        let Writer { link, owner, shard, ballot, epoch, len, frame, frames } = *self;
        let work = move |drive: Drive, _| {
            let (owner, frames) = (owner.clone(), frames.clone());
            async move {
                let (id, index) = (shard.write_id, shard.index);
                let mut writer = drive.begin_shard(&owner, id, index, ballot, epoch, len, frame)?;
                for (frame, hash) in frames {
                    writer.write_hashed(frame, hash).await?;
                }
                let tally = Tally::new(1);
                writer.finish(tally.completion(0));
                drive.pump();
                match tally.wait_all().await.ok {
                    1 => Ok(Answer::Done),
                    _ => Err(tally.error().unwrap_or_else(ended)),
                }
            }
        };
        let answer = link.send("write shard", false, &link.0.host, work);
        drop(ashlar_environment::spawn("order", async move { Answer::complete(heard(answer).await, done) }));
    }
}

/// A shard that is open on the machine of a drive.
struct Reader {
    link: Link,
    reader: Arc<ShardReader>,
    incarnation: u32,
}

impl RemoteReader for Reader {
    fn size(&self) -> u64 {
        self.reader.len()
    }
    fn frame(&self) -> u32 {
        self.reader.frame()
    }

    fn read_run(&self, n: u32, count: u32, check: Check) -> Later<'_, Frames> {
        let (reader, opened) = (self.reader.clone(), self.incarnation);
        let work = move |_, incarnation| {
            let reader = reader.clone();
            async move {
                if incarnation == opened { reader.read_run(n, count, check).await } else { Err(ended()) }
            }
        };
        Box::pin(heard(self.link.send("read shard", true, &self.link.0.host, work)))
    }

    fn verify(&self, n: u32, frames: Frames) -> Later<'_, ()> {
        let (reader, opened) = (self.reader.clone(), self.incarnation);
        let work = move |_, incarnation| {
            let (reader, frames) = (reader.clone(), frames.clone());
            async move { if incarnation == opened { reader.verify(n, frames).await } else { Err(ended()) } }
        };
        Box::pin(heard(self.link.send("verify", true, &self.link.0.host, work)))
    }
}
