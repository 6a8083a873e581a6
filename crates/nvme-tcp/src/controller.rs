//! Controllers: one for each host that has connected to an admin queue; their properties, events and end.
//!
//! A controller is dynamic: it is made by the Connect of its admin queue and ends with that connection (Base 3.1.1, "dynamic
//! controller model").
//!
//! Invariants: numbers of controllers are unique in the server; the connections of I/O queues end with their controller;
//! no I/O command is executed after a controller was disabled, or after its host got another one in its place; an event is told once,
//! until the host has read the log page that says more; a controller belongs to the port where its host has connected.
//!
//! Must not depend on: PDUs, how connections work.

use std::collections::BTreeMap;
use std::net::{Shutdown, SocketAddr};
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use ashlar_environment::time::Instant;
use parking_lot::{Mutex, RwLock, RwLockReadGuard};

use crate::ana::{self, AnaState};
use crate::auth::Admission;
use crate::authentication::QueueAuthentication;
use crate::namespace::{Subsystem, Subsystems, Summary};
use crate::reservation::known;
use crate::wire::Socket;

/// VS: 2.0.
pub(crate) const VERSION: u32 = 0x0002_0000;
/// Entries of a queue, at most.
pub(crate) const ENTRIES: u16 = 128;
/// I/O queues of a controller, at most.
pub(crate) const IO_QUEUES: u16 = 8;
/// Commands that wait for an event, at most.
pub(crate) const ASYNC_EVENTS: usize = 4;
/// The last number of a controller (Base 3.1.1).
pub(crate) const LAST_CONTROLLER: u16 = 0xffef;
/// How long a command may be executed after its controller has ended, before its host is told to connect later.
const QUIET: Duration = Duration::from_secs(10);
/// Time for the authentication of a queue, unless another one is named (Base 8.13.5.1: two minutes without a keep-alive time).
pub(crate) const AUTHENTICATION: Duration = Duration::from_secs(120);
/// Changed namespaces that are named, at most (Base 5.16.1.5).
const MAX_CHANGED: usize = 1024;

/// Bits of CC and CSTS (Base 3.1.3.5, 3.1.3.6).
mod bit {
    pub(super) const ENABLE: u32 = 1;
    /// Everything but EN and SHN that is not 0 for: NVM command set, 4 KiB pages, round robin.
    pub(super) const UNSUPPORTED: u32 = 0x0000_3ff0;
    pub(super) const SHUTDOWN: u32 = 3 << 14;
    /// 64 bytes per command, 16 per completion.
    pub(super) const ENTRY_SIZES: u32 = 6 << 16 | 4 << 20;
    pub(super) const READY: u32 = 1;
    pub(super) const FATAL: u32 = 2;
    pub(super) const SHUTDOWN_COMPLETE: u32 = 2 << 2;
}

/// Asynchronous event configuration and OAES: namespace attributes changed (Base 5.27.1.9).
pub(crate) const NAMESPACE_EVENTS: u32 = 1 << 8;
/// A notice that namespaces have changed; the log page with their numbers is 04h (Base 5.2.1).
const NAMESPACES_CHANGED: u64 = 0x04_00_02;
/// A notice that the state of an ANA group has changed; the log page is 0Ch.
const ANA_CHANGED: u64 = 0x0c_03_02;

/// What a server counts.
#[derive(Default)]
pub(crate) struct Counters {
    pub(crate) connections: AtomicU64,
    pub(crate) accepted: AtomicU64,
    pub(crate) refused: AtomicU64,
    pub(crate) broken: AtomicU64,
    pub(crate) reads: AtomicU64,
    pub(crate) writes: AtomicU64,
    pub(crate) others: AtomicU64,
    pub(crate) bytes_read: AtomicU64,
    pub(crate) bytes_written: AtomicU64,
    pub(crate) errors: AtomicU64,
    pub(crate) unauthenticated: AtomicU64,
}

/// What all connections share.
pub(crate) struct Core {
    pub(crate) subsystems: Arc<dyn Subsystems>,
    pub(crate) counters: Counters,
    /// Where the server listens.
    pub(crate) addresses: RwLock<Vec<SocketAddr>>,
    /// Bytes of data of a connection.
    pub(crate) window: usize,
    /// Threads of an I/O queue.
    pub(crate) workers: usize,
    /// Numbers of its controllers.
    pub(crate) numbers: RangeInclusive<u16>,
    /// Time from the Connect of a queue until its host is authenticated.
    pub(crate) authentication: Duration,
    pub(crate) stopping: AtomicBool,
    controllers: Mutex<BTreeMap<u16, Arc<Controller>>>,
    /// Controllers that have ended, as long as commands of theirs may be executed.
    ending: Mutex<Vec<Arc<Controller>>>,
    /// The number of the last controller: numbers are not used again soon.
    last: Mutex<u16>,
}

/// Who connects to an admin queue.
pub(crate) struct Host {
    pub(crate) id: [u8; 16],
    pub(crate) nqn: String,
}

/// The queue that a connection is, after Connect.
pub(crate) struct Queue {
    /// 0: the admin queue.
    pub(crate) id: u16,
    pub(crate) controller: Arc<Controller>,
    /// Responses tell the submission queue head pointer.
    pub(crate) flow_control: bool,
    /// What its host has to pass before anything is executed. None: nothing.
    pub(crate) authentication: Option<QueueAuthentication>,
}

impl Queue {
    /// Whether it executes commands.
    pub(crate) fn is_open(&self) -> bool {
        self.authentication.as_ref().is_none_or(QueueAuthentication::is_passed)
    }
}

/// What changes of a controller.
#[derive(Default)]
struct State {
    /// CC.
    configuration: u32,
    /// CSTS.
    status: u32,
    /// Time without a command after which it ends; zero: none.
    patience: Duration,
    /// Asynchronous event configuration.
    events: u32,
    /// Commands that wait for an event.
    waiting: Vec<u16>,
    /// Namespaces as the host knows them.
    known: Vec<Summary>,
    /// Numbers of those that have changed since the host has read the log page.
    changed: Vec<u32>,
    /// The host was told, and has not read the log page.
    told: bool,
    ana: ana::Known,
    reservations: known::Known,
}

/// A controller.
pub(crate) struct Controller {
    pub(crate) id: u16,
    pub(crate) host: Host,
    /// None: of the discovery subsystem.
    pub(crate) subsystem: Option<Arc<dyn Subsystem>>,
    /// Where its host has connected: an address of the server.
    port: SocketAddr,
    state: Mutex<State>,
    ended: AtomicBool,
    /// Held while an I/O command is executed.
    executing: RwLock<()>,
    began: Instant,
    /// When the last command arrived, in milliseconds since it began.
    heard: AtomicU64,
    sockets: Mutex<BTreeMap<u16, Arc<dyn Socket>>>,
    pub(crate) use_counters: UseCounters,
}

/// What its host has read and written: log page 02h.
#[derive(Default)]
pub(crate) struct UseCounters {
    pub(crate) bytes_read: AtomicU64,
    pub(crate) bytes_written: AtomicU64,
    pub(crate) reads: AtomicU64,
    pub(crate) writes: AtomicU64,
    pub(crate) media_errors: AtomicU64,
}

impl Core {
    pub(crate) fn new(subsystems: Arc<dyn Subsystems>, window: usize, workers: usize) -> Arc<Core> {
        Core::with_numbers(subsystems, window, workers, 1..=LAST_CONTROLLER, AUTHENTICATION)
    }

    /// Its controllers get numbers of a range.
    pub(crate) fn with_numbers(
        subsystems: Arc<dyn Subsystems>,
        window: usize,
        workers: usize,
        numbers: RangeInclusive<u16>,
        authentication: Duration,
    ) -> Arc<Core> {
        Arc::new(Core {
            subsystems,
            counters: Counters::default(),
            addresses: RwLock::default(),
            window,
            workers,
            last: Mutex::new(numbers.start() - 1),
            numbers,
            authentication,
            stopping: AtomicBool::new(false),
            controllers: Mutex::default(),
            ending: Mutex::default(),
        })
    }

    /// Makes a controller, whose admin queue is this socket. None: there are too many.
    pub(crate) fn create(
        &self,
        host: Host,
        subsystem: Option<Arc<dyn Subsystem>>,
        patience: Duration,
        socket: Arc<dyn Socket>,
    ) -> Option<Arc<Controller>> {
        let mut controllers = self.controllers.lock();
        let mut last = self.last.lock();
        let mut following = (*last + 1..=*self.numbers.end()).chain(*self.numbers.start()..=*last);
        let id = following.find(|id| !controllers.contains_key(id))?;
        *last = id;
        let known = subsystem.as_ref().map(|s| Summary::of(&**s)).unwrap_or_default();
        let port = self.port(socket.local());
        let controller = Arc::new(Controller {
            id,
            host,
            subsystem,
            port,
            state: Mutex::new(State { patience, known, ..State::default() }),
            ended: AtomicBool::new(false),
            executing: RwLock::default(),
            began: Instant::now(),
            heard: AtomicU64::new(0),
            sockets: Mutex::new(BTreeMap::from([(0, socket)])),
            use_counters: UseCounters::default(),
        });
        // What is so from the beginning is no change.
        controller.look_at_ana(&mut controller.state.lock().ana);
        controller.look_at_reservations(&mut controller.state.lock().reservations, true);
        controllers.insert(id, controller.clone());
        Some(controller)
    }

    /// The address of the server by which a host has reached `local`.
    fn port(&self, local: Option<SocketAddr>) -> SocketAddr {
        let local = local.unwrap_or_else(|| SocketAddr::from(([0, 0, 0, 0], 0)));
        let addresses = self.addresses.read();
        let whole = |a: &&SocketAddr| a.ip().is_unspecified() && a.port() == local.port();
        let exact = addresses.iter().find(|a| **a == local);
        exact.or_else(|| addresses.iter().find(whole)).copied().unwrap_or(local)
    }

    /// The controller of a number.
    pub(crate) fn controller(&self, id: u16) -> Option<Arc<Controller>> {
        self.controllers.lock().get(&id).cloned()
    }

    /// How many controllers there are.
    pub(crate) fn controllers(&self) -> usize {
        self.controllers.lock().len()
    }

    /// The connection of a queue has ended.
    pub(crate) fn leave(&self, queue: &Queue) {
        if queue.id == 0 {
            queue.controller.end();
            let mut ending = self.ending.lock();
            ending.retain(|c| c.is_executing());
            ending.push(queue.controller.clone());
            drop(ending);
            self.controllers.lock().remove(&queue.controller.id);
        }
        queue.controller.sockets.lock().remove(&queue.id);
    }

    /// Waits until no command of an earlier controller of this host is executed: a host that has lost its connections sends
    /// its commands again, and other ones after them. False: one is still executed after [`QUIET`].
    pub(crate) fn wait_for_earlier(&self, host: &Host) -> bool {
        let until = Instant::now() + QUIET;
        let same = |c: &&Arc<Controller>| c.host.id == host.id && c.host.nqn == host.nqn;
        let earlier: Vec<_> = self.ending.lock().iter().filter(same).cloned().collect();
        earlier.iter().all(|c| c.wait_until_idle(until.saturating_duration_since(Instant::now())))
    }

    /// Ends controllers whose hosts are silent for too long or may not connect any more, or whose subsystem is not served any more.
    pub(crate) fn expire(&self) {
        let all: Vec<Arc<Controller>> = self.controllers.lock().values().cloned().collect();
        for controller in all {
            let gone = controller.subsystem.as_ref().is_some_and(|s| !s.in_service());
            let refused = controller.subsystem.is_some()
                && matches!(self.subsystems.admission(&controller.host.nqn), Admission::Refused);
            if (gone || refused || controller.is_silent()) && !controller.ended() {
                let why = match (gone, refused) {
                    (true, _) => "its subsystem is not served any more",
                    (_, true) => "its host may not connect any more",
                    _ => "its host is silent",
                };
                tracing::warn!(
                    controller = controller.id,
                    host = controller.host.nqn,
                    why,
                    "an NVMe controller ends"
                );
                controller.end();
            }
        }
    }
}

impl Controller {
    /// A command of its host has arrived.
    pub(crate) fn heard(&self) {
        self.heard.store(self.began.elapsed().as_millis() as u64, Ordering::Relaxed);
    }

    /// Whether its host was silent for longer than agreed. With traffic based keep alive a host may take twice the time
    /// (Base 3.9.4).
    fn is_silent(&self) -> bool {
        let patience = self.state.lock().patience;
        let since =
            self.began.elapsed().saturating_sub(Duration::from_millis(self.heard.load(Ordering::Relaxed)));
        !patience.is_zero() && since > 2 * patience
    }

    pub(crate) fn set_patience(&self, patience: Duration) {
        self.state.lock().patience = patience;
    }

    pub(crate) fn patience(&self) -> Duration {
        self.state.lock().patience
    }

    pub(crate) fn ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    /// Ends it: its connections break.
    pub(crate) fn end(&self) {
        self.ended.store(true, Ordering::Release);
        self.sockets.lock().values().for_each(|s| s.shut(Shutdown::Both));
    }

    /// What is held while an I/O command is executed. None: it is not executed, because the controller has ended, or is not
    /// ready any more.
    pub(crate) fn execute(&self) -> Option<RwLockReadGuard<'_, ()>> {
        // A worker may begin while another one waits for the end of all.
        let executing = self.executing.read_recursive();
        (self.ready() && !self.ended()).then_some(executing)
    }

    fn is_executing(&self) -> bool {
        self.executing.try_write().is_none()
    }

    fn wait_until_idle(&self, most: Duration) -> bool {
        self.executing.try_write_for(most).is_some()
    }

    /// Adds the connection of an I/O queue. False: there is one already.
    pub(crate) fn join(&self, queue: u16, socket: Arc<dyn Socket>) -> bool {
        let mut sockets = self.sockets.lock();
        if sockets.contains_key(&queue) || self.ended() {
            return false;
        }
        sockets.insert(queue, socket);
        true
    }

    /// CC.
    pub(crate) fn configuration(&self) -> u32 {
        self.state.lock().configuration
    }

    /// CSTS.
    pub(crate) fn status(&self) -> u32 {
        self.state.lock().status
    }

    /// Whether it executes more than fabrics commands.
    pub(crate) fn ready(&self) -> bool {
        let state = self.state.lock();
        state.status & bit::READY != 0 && state.status & bit::SHUTDOWN_COMPLETE == 0
    }

    /// Writes CC: enables, disables, shuts down (Base 3.5, 3.6).
    pub(crate) fn configure(&self, new: u32) {
        let old = std::mem::replace(&mut self.state.lock().configuration, new);
        let (was, is) = (old & bit::ENABLE != 0, new & bit::ENABLE != 0);
        if new & bit::SHUTDOWN != 0 && old & bit::SHUTDOWN == 0 {
            self.close_io_queues();
            drop(self.executing.write());
            self.flush_all();
            self.state.lock().status |= bit::SHUTDOWN_COMPLETE;
        }
        let sizes = new & 0x00ff_0000;
        // A discovery controller has no I/O queues, and hosts may leave their entry sizes out.
        let wrong = new & bit::UNSUPPORTED != 0 || self.subsystem.is_some() && sizes != bit::ENTRY_SIZES;
        if is && !was {
            let mut state = self.state.lock();
            state.status = if wrong { bit::FATAL } else { bit::READY };
        }
        if was && !is {
            // No command is executed when the host sees that it is not ready (Base 3.7.2).
            self.state.lock().status &= !bit::READY;
            self.close_io_queues();
            drop(self.executing.write());
            let mut state = self.state.lock();
            state.status = 0;
            state.events = 0;
        }
    }

    fn close_io_queues(&self) {
        self.sockets.lock().range(1..).for_each(|(_, s)| s.shut(Shutdown::Both));
    }

    /// A host that shuts down has nothing that is not durable afterwards.
    fn flush_all(&self) {
        let Some(subsystem) = &self.subsystem else { return };
        for nsid in subsystem.namespaces() {
            if let Some(Err(fault)) = subsystem.namespace(nsid).map(|n| n.flush()) {
                tracing::error!(nsid, ?fault, "a namespace was not flushed when its host shut down");
            }
        }
    }

    pub(crate) fn set_events(&self, wanted: u32) {
        self.state.lock().events = wanted;
    }

    pub(crate) fn events(&self) -> u32 {
        self.state.lock().events
    }

    /// Keeps a command until there is an event. False: there are too many.
    pub(crate) fn wait_for_event(&self, command: u16) -> bool {
        let mut state = self.state.lock();
        if state.waiting.len() >= ASYNC_EVENTS {
            return false;
        }
        state.waiting.push(command);
        true
    }

    /// A command that waited, and the event that it tells.
    pub(crate) fn event(&self) -> Option<(u16, u64)> {
        let subsystem = self.subsystem.as_ref()?;
        let now = Summary::of(&**subsystem);
        let mut state = self.state.lock();
        let state = &mut *state;
        if now != state.known {
            let differ = |a: &[Summary], b: &[Summary]| -> Vec<u32> {
                a.iter().filter(|s| !b.contains(s)).map(|s| s.nsid).collect()
            };
            state.changed.extend(differ(&now, &state.known));
            state.changed.extend(differ(&state.known, &now));
            state.changed.sort_unstable();
            state.changed.dedup();
            state.known = now;
        }
        self.look_at_ana(&mut state.ana);
        self.look_at_reservations(&mut state.reservations, false);
        if !state.changed.is_empty() && !state.told && state.events & NAMESPACE_EVENTS != 0 {
            let command = state.waiting.pop()?;
            state.told = true;
            return Some((command, NAMESPACES_CHANGED));
        }
        if state.events & ana::EVENTS != 0 && state.ana.is_untold() {
            let command = state.waiting.pop()?;
            state.ana.tell();
            return Some((command, ANA_CHANGED));
        }
        // Nobody has to ask for it: it is for hosts that have registered.
        if state.reservations.is_untold() {
            let command = state.waiting.pop()?;
            state.reservations.tell();
            return Some((command, known::AVAILABLE));
        }
        None
    }

    /// Numbers of namespaces that have changed; 0xffff_ffff alone: too many to name. `keep`: they are told again.
    pub(crate) fn changed(&self, keep: bool) -> Vec<u32> {
        let mut state = self.state.lock();
        let mut out = state.changed.clone();
        if out.len() > MAX_CHANGED {
            out = vec![u32::MAX];
        }
        if !keep {
            state.changed.clear();
            state.told = false;
        }
        out
    }

    /// How often the ANA states have changed, and the state of each group with how often that has. `keep`: a change is told again.
    pub(crate) fn ana(&self, keep: bool) -> (u64, Vec<(AnaState, u64)>) {
        let mut state = self.state.lock();
        self.look_at_ana(&mut state.ana);
        state.ana.read(keep)
    }

    /// The oldest notice of reservations that the host has not read. `keep`: it is told again.
    pub(crate) fn reservation_notice(&self, keep: bool) -> [u8; known::PAGE] {
        let mut state = self.state.lock();
        self.look_at_reservations(&mut state.reservations, false);
        state.reservations.page(keep)
    }

    /// Which notices of the reservations of a namespace are not told.
    pub(crate) fn reservation_mask(&self, nsid: u32) -> u32 {
        self.state.lock().reservations.mask(nsid)
    }

    pub(crate) fn set_reservation_mask(&self, nsid: u32, mask: u32) {
        self.state.lock().reservations.set_mask(nsid, mask);
    }

    fn look_at_reservations(&self, known: &mut known::Known, first: bool) {
        if let Some(subsystem) = &self.subsystem {
            known.look(&**subsystem, &self.host.id, first);
        }
    }

    fn look_at_ana(&self, known: &mut ana::Known) {
        if let Some(subsystem) = &self.subsystem {
            known.look(&**subsystem, self.port);
        }
    }

    /// The status with which I/O commands of a namespace are refused at the port of this controller, if they are.
    pub(crate) fn refusal(&self, nsid: u32) -> Option<u16> {
        let subsystem = self.subsystem.as_ref()?;
        subsystem.ana_state(self.port, subsystem.ana_group(nsid)).refusal()
    }
}
