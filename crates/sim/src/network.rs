//! Messages between coordinators and drives: late, lost, twice, in any order, or held back on one way.
//!
//! Invariants: what happens to a message is drawn when it is sent; a message crosses a cut that is there when it
//! would arrive, or not at all; an answer that does not come in [`DEADLINE`] is unknown to who waits, while the request
//! may still be done later; only what may be repeated comes twice. A coordinator that stands still neither sends nor
//! hears.
//!
//! Must not depend on: what is said.

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
use crate::plan::{Mutant, Weather};
use crate::trace::Trace;

/// How long an answer is waited for.
pub const DEADLINE: Duration = Duration::from_secs(3);

/// Who speaks.
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
    /// For those who want to know what happened.
    pub trace: Trace,
    mutant: Option<Mutant>,
}

struct State {
    dice: Seeded,
    weather: Weather,
    /// Ways on which nothing comes through.
    cut: BTreeSet<(Node, Node)>,
    /// Until when each coordinator stands still.
    stands: Vec<Instant>,
}

/// What becomes of a message.
struct Fate {
    there: Option<Duration>,
    again: Option<Duration>,
    back: Option<Duration>,
}

impl Network {
    /// A network of `coordinators` and any drives.
    #[must_use]
    pub fn new(
        seed: u64,
        weather: Weather,
        coordinators: usize,
        mutant: Option<Mutant>,
        trace: Trace,
    ) -> Network {
        let state = State {
            dice: Seeded::new(seed),
            weather,
            cut: BTreeSet::new(),
            stands: vec![Instant::now(); coordinators],
        };
        Network { state: Mutex::new(state), trace, mutant }
    }

    /// Other weather.
    pub fn set_weather(&self, weather: Weather) {
        self.state.lock().weather = weather;
    }

    /// Nothing comes through from `a` to `b` any more.
    pub fn cut(&self, a: Node, b: Node) {
        self.state.lock().cut.insert((a, b));
    }

    /// Whether something is cut.
    #[must_use]
    pub fn is_cut(&self, a: Node, b: Node) -> bool {
        self.state.lock().cut.contains(&(a, b))
    }

    /// The way is open again.
    pub fn mend(&self, a: Node, b: Node) {
        self.state.lock().cut.remove(&(a, b));
    }

    /// All is well.
    pub fn mend_all(&self) {
        let mut s = self.state.lock();
        s.cut.clear();
        s.weather = Weather::CALM;
        let now = Instant::now();
        s.stands.iter_mut().for_each(|until| *until = (*until).min(now));
    }

    /// A coordinator stands still.
    pub fn stand(&self, coordinator: usize, time: Duration) {
        self.state.lock().stands[coordinator] = Instant::now() + time;
    }

    /// Waits until a coordinator goes on.
    pub async fn going(&self, coordinator: usize) {
        loop {
            let until = self.state.lock().stands[coordinator];
            if until <= Instant::now() {
                return;
            }
            // Looked at now and then, since the end may be moved.
            sleep_until(until.min(Instant::now() + Duration::from_millis(100))).await;
        }
    }

    fn fate(&self) -> Fate {
        let s = &mut *self.state.lock();
        let (weather, dice) = (s.weather, &mut s.dice);
        let mut way = || {
            let drawn = dice.below(1000);
            let micros = if drawn < weather.late {
                dice.below(3_000_000)
            } else if drawn < weather.late + weather.slow {
                dice.below(50_000)
            } else {
                100 + dice.below(400)
            };
            (dice.below(1000) >= weather.lost).then(|| Duration::from_micros(micros))
        };
        let (there, again, back) = (way(), way(), way());
        let again = again.filter(|_| dice.below(1000) < weather.twice);
        Fate { there, again, back }
    }
}

/// One coordinator's way to one drive.
#[derive(Clone)]
pub struct Link(Arc<Inner>);

struct Inner {
    network: Arc<Network>,
    coordinator: usize,
    /// False: the coordinator crashed, and what its destructors say is not sent.
    alive: Arc<AtomicBool>,
    host: Arc<Host>,
    /// The drive that is asked to read (for a mutant, another one).
    reads: Arc<Host>,
    path: PathBuf,
    heard: Mutex<Status>,
    /// When the requests without an answer were sent, by number.
    open: Mutex<std::collections::BTreeMap<u64, Instant>>,
    next: Mutex<u64>,
}

impl Link {
    /// From a coordinator to a drive, which must be in service now or have been before. `groups`: where the drive
    /// is taken for a voter until it is heard; `first`: the first drive.
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

    /// Sends `work` to the drive now; the answer comes, or does not.
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
                // Nobody tells who waits that nothing will come.
                sleep(DEADLINE).await;
            }
            me.0.open.lock().remove(&number);
            if let Some((result, status)) = said {
                *me.0.heard.lock() = status;
                // The caller may have gone.
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
        let Fate { there, again, back } = i.network.fate();
        i.network.going(i.coordinator).await;
        let first = async {
            sleep(there?).await;
            if i.network.is_cut(me, drive) {
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
            if !i.network.is_cut(me, drive) {
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
        if i.network.is_cut(drive, me) {
            return None;
        }
        i.network.going(i.coordinator).await;
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
        let work = move |drive: Drive, life| async move {
            Ok((Arc::new(drive.open_shard(write_id, index).await?), life))
        };
        let answer = self.send("open shard", true, &self.0.host, work);
        let link = self.clone();
        Box::pin(async move {
            let (reader, life) = heard(answer).await?;
            Ok(Box::new(Reader { link, reader, life }) as Box<dyn RemoteReader>)
        })
    }
}

/// A shard that is sent when it is whole.
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

/// A shard that is open on a drive's machine.
struct Reader {
    link: Link,
    reader: Arc<ShardReader>,
    life: u32,
}

impl RemoteReader for Reader {
    fn size(&self) -> u64 {
        self.reader.len()
    }
    fn frame(&self) -> u32 {
        self.reader.frame()
    }

    fn read_run(&self, n: u32, count: u32, check: Check) -> Later<'_, Frames> {
        let (reader, opened) = (self.reader.clone(), self.life);
        let work = move |_, life| {
            let reader = reader.clone();
            async move { if life == opened { reader.read_run(n, count, check).await } else { Err(ended()) } }
        };
        Box::pin(heard(self.link.send("read shard", true, &self.link.0.host, work)))
    }

    fn verify(&self, n: u32, frames: Frames) -> Later<'_, ()> {
        let (reader, opened) = (self.reader.clone(), self.life);
        let work = move |_, life| {
            let (reader, frames) = (reader.clone(), frames.clone());
            async move { if life == opened { reader.verify(n, frames).await } else { Err(ended()) } }
        };
        Box::pin(heard(self.link.send("verify", true, &self.link.0.host, work)))
    }
}
