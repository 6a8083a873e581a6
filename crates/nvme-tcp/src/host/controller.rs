//! A controller of a target, from its first connection until it is lost or closed: admin queue and I/O queues.
//!
//! Invariants: it is complete or it is not there; when one of its queues ends, all end, so that nothing of an old controller
//! is answered while a new one is in use.
//!
//! Must not depend on: how often it is tried, what is read and written.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use ashlar_environment::{thread, time::Instant};

use crate::ana::{self, AnaState, DESCRIPTOR, LOG_HEADER};
use crate::error::Error;
use crate::host::address::{Address, Portal};
use crate::host::authenticate;
use crate::host::call::{Call, Failure, Outcome, Piece};
use crate::host::facts::{self, DiscoveryEntry, Facts, NamespaceFacts, RECORD, STRUCTURE};
use crate::host::health::{self, Health};
use crate::host::options::HostOptions;
use crate::host::queue::{Opening, Queue, data_of};
use crate::host::request::{self, Request, property};
use crate::host::slots::Sink;
use crate::pdu::MAX_DATA;
use crate::pdu::u32_at;
use crate::tls::{Derivation, Psk};
use crate::{namespace::DISCOVERY, status};

/// The number of a controller that does not exist yet.
const NEW: u16 = 0xffff;
/// Entries of the admin queue: the least that a target has to take (Base 6.3).
const ADMIN_ENTRIES: u16 = 32;
/// Commands of the admin queue on their way, at most.
const ADMIN_DEPTH: usize = 8;
/// CC: enabled; 64 bytes per command, 16 per completion.
const ENABLED: u32 = 1 | 6 << 16 | 4 << 20;
/// CC: normal shutdown.
const SHUTDOWN: u32 = 1 << 14;
/// Time between two looks at a controller that is not ready yet.
const LOOK: Duration = Duration::from_millis(20);
/// Time for a shutdown, at most.
const FAREWELL: Duration = Duration::from_secs(5);
/// Asynchronous event configuration: namespace attributes.
const NAMESPACE_EVENTS: u32 = 1 << 8;
/// Entries of a discovery log page that are read, at most.
const MAX_RECORDS: u64 = 1024;
/// The log page of changed namespaces.
const CHANGED: u8 = 0x04;
const HEALTH: u8 = 0x02;
const ANA: u8 = 0x0c;
const DISCOVERY_LOG: u8 = 0x70;
/// Bytes of a log page that are read at once: what every target permits (MDTS).
const PART: usize = 4096;
/// The number of the last controller of this process, as [`Controller::serial`].
static SERIAL: AtomicU64 = AtomicU64::new(0);

mod cns {
    pub(super) const NAMESPACE: u8 = 0;
    pub(super) const CONTROLLER: u8 = 1;
    pub(super) const ACTIVE: u8 = 2;
    pub(super) const DESCRIPTORS: u8 = 3;
}

/// What may have changed.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Changes {
    pub(crate) namespaces: bool,
    pub(crate) ana: bool,
}

/// A controller.
pub(crate) struct Controller {
    /// No other one of this process has it; not 0.
    pub(crate) serial: u64,
    admin: Arc<Queue>,
    io: Vec<Arc<Queue>>,
    next: AtomicUsize,
    pub(crate) facts: Facts,
    /// Why it was lost.
    why: OnceLock<Arc<Error>>,
}

/// What an admin command was for, in its error.
fn refused(what: &'static str) -> impl Fn(Failure) -> Error {
    move |failure| match failure {
        Failure::Status(s) => Error::Refused(format!("{what}: {}", status::describe(s))),
        Failure::Digest => Error::Refused(format!("{what}: the digest of its data is wrong")),
        Failure::Lost | Failure::Unsent => lost(what),
    }
}

fn lost(what: &'static str) -> Error {
    let text = format!("{what}: the connection was lost");
    Error::Connection(std::io::Error::new(std::io::ErrorKind::ConnectionReset, text))
}

fn structure(queue: &Queue, request: Request<'_>, what: &'static str) -> Result<Box<[u8; STRUCTURE]>, Error> {
    let data = data_of(queue.call(request)).map_err(refused(what))?;
    data.into_boxed_slice().try_into().map_err(|_| lost(what))
}

/// Closes queues unless they become those of a controller.
struct Open(Vec<Arc<Queue>>);

impl Drop for Open {
    fn drop(&mut self) {
        self.0.iter().for_each(|q| q.close());
    }
}

fn opening(options: &HostOptions, depth: usize) -> Opening {
    let HostOptions { header_digest, data_digest, command_timeout, connect_timeout, .. } = *options;
    Opening { header_digest, data_digest, depth, timeout: command_timeout, connect: connect_timeout }
}

/// The keys of this host for a subsystem; none: it uses no TLS. Targets know one version or the other.
fn psks(options: &HostOptions, nqn: &str) -> Result<Vec<Psk>, Error> {
    let Some(key) = &options.tls_key else { return Ok(Vec::new()) };
    let of = |version| Psk::new(key, &options.host_nqn, nqn, version, Derivation::Specified);
    let psks: Vec<Psk> = [1, 0].into_iter().filter_map(of).collect();
    if psks.is_empty() {
        return Err(Error::Refused(
            "the names of the host and the subsystem are too long for TLS".to_owned(),
        ));
    }
    Ok(psks)
}

fn connect(
    queue: &Queue,
    id: u16,
    entries: u16,
    controller: u16,
    nqn: &str,
    o: &HostOptions,
) -> Result<u16, Error> {
    let data = request::connect_data(&o.host_id, controller, nqn, &o.host_nqn);
    let kato = if id == 0 { u32::try_from(o.keep_alive.as_millis()).unwrap_or(u32::MAX) } else { 0 };
    let Outcome { result, .. } = queue
        .call(request::connect(id, entries, kato, &data))
        .map_err(refused("connect to the subsystem"))?;
    authenticate::answer_demand(queue, result, nqn, o)?;
    Ok(result as u16)
}

/// Enables the controller and waits until it is ready (Base 3.5.4). The answer is CAP.
fn enable(admin: &Queue) -> Result<u64, Error> {
    let cap = admin.call(request::property_get(property::CAP, true)).map_err(refused("read CAP"))?.result;
    admin.call(request::property_set(property::CC, ENABLED)).map_err(refused("enable the controller"))?;
    let until = Instant::now() + Duration::from_millis(500) * u32::from((cap >> 24) as u8).max(1);
    loop {
        let ready =
            admin.call(request::property_get(property::CSTS, false)).map_err(refused("read CSTS"))?.result;
        if ready & 2 != 0 {
            return Err(Error::Refused("the controller reports a fatal status".into()));
        }
        if ready & 1 != 0 {
            return Ok(cap);
        }
        if Instant::now() >= until {
            return Err(Error::Refused("the controller was not ready in the time that it states".into()));
        }
        thread::sleep(LOOK);
    }
}

impl Controller {
    /// Connects to a subsystem and to its I/O queues.
    ///
    /// # Errors
    /// [`Error::Connection`], [`Error::Protocol`], [`Error::Ended`], [`Error::Refused`].
    pub(crate) fn connect(portal: &str, nqn: &str, options: &HostOptions) -> Result<Controller, Error> {
        let mut open = Open(Vec::new());
        let admin = Queue::open(portal, &opening(options, ADMIN_DEPTH), psks(options, nqn)?)?;
        open.0.push(admin.clone());
        let id = connect(&admin, 0, ADMIN_ENTRIES, NEW, nqn, options)?;
        let cap = enable(&admin)?;
        let page = 1usize << (12 + (cap >> 48 & 0xf));
        let told = structure(&admin, request::identify(cns::CONTROLLER, 0), "identify the controller")?;
        let facts = Facts::decode(&told, page);
        if nqn != DISCOVERY {
            let wanted = u32::from(options.queues.clamp(1, 64)) - 1;
            let set = admin.call(request::set_feature(7, wanted | wanted << 16));
            let granted = set.map_err(refused("ask for I/O queues"))?.result as u32;
            let queues = wanted.min(granted & 0xffff).min(granted >> 16) + 1;
            let entries = (cap as u16).saturating_add(1).min(options.depth.clamp(1, 1023) + 1).max(2);
            for number in 1..=queues as u16 {
                // A queue of n entries has at most n - 1 commands in it.
                let queue =
                    Queue::open(portal, &opening(options, usize::from(entries) - 1), psks(options, nqn)?)?;
                open.0.push(queue.clone());
                connect(&queue, number, entries, id, nqn, options)?;
                queue.limit_capsules(facts.in_capsule);
            }
            watch(&admin, &facts)?;
        }
        let io = open.0.split_off(1);
        open.0.clear();
        let serial = SERIAL.fetch_add(1, Ordering::Relaxed) + 1;
        Ok(Controller { serial, admin, io, next: AtomicUsize::new(0), facts, why: OnceLock::new() })
    }

    /// Bytes of data of a command, at most.
    pub(crate) fn max_transfer(&self) -> usize {
        self.facts.max_transfer.unwrap_or(MAX_DATA).min(MAX_DATA)
    }

    /// Executes commands on one of the I/O queues, together, until each has an answer.
    pub(crate) fn execute(&self, pieces: &mut [Piece<'_>]) {
        let turn = self.next.fetch_add(1, Ordering::Relaxed);
        match self.io.get(turn % self.io.len().max(1)) {
            Some(queue) => queue.execute(pieces),
            None => pieces.iter_mut().for_each(|p| p.answer = Some(Err(Failure::Unsent))),
        }
    }

    /// Sends a command that needs nothing more from its caller than to be waited for. False: there is no place for it now, or its data
    /// does not fit the capsule.
    pub(crate) fn submit(&self, request: &Request<'_>, call: &Arc<Call>) -> bool {
        let turn = self.next.fetch_add(1, Ordering::Relaxed);
        let Some(queue) = self.io.get(turn % self.io.len().max(1)) else { return false };
        let fits = request.data.len() <= queue.in_capsule();
        fits && matches!(queue.submit(request, Sink::Call(call.clone(), 0), false), Ok(true))
    }

    /// Why it is lost, if it is. Then all of its queues have ended.
    pub(crate) fn ended(&self) -> Option<Arc<Error>> {
        if let Some(why) = self.why.get() {
            return Some(why.clone());
        }
        let why = std::iter::once(&self.admin).chain(&self.io).find_map(|q| q.ended())?;
        // Not that of queues which end because of it.
        let why = self.why.get_or_init(|| why).clone();
        self.cut();
        Some(why)
    }

    /// Ends all queues at once.
    pub(crate) fn cut(&self) {
        std::iter::once(&self.admin).chain(&self.io).for_each(|q| q.close());
    }

    /// Shuts the controller down (Base 3.6.1), then ends its queues.
    pub(crate) fn close(&self) {
        let until = Instant::now() + FAREWELL;
        let within = |request| Request { timeout: Some(FAREWELL), ..request };
        let mut asked = self.admin.call(within(request::property_set(property::CC, ENABLED | SHUTDOWN)));
        while let Ok(outcome) = asked
            && outcome.result >> 2 & 3 != 2
            && Instant::now() < until
        {
            thread::sleep(LOOK);
            asked = self.admin.call(within(request::property_get(property::CSTS, false)));
        }
        self.cut();
    }

    /// Tells the target that this host is there, and waits at most for a time.
    pub(crate) fn keep_alive(&self, most: Duration) -> Result<(), Failure> {
        self.admin.call(Request { timeout: Some(most), ..request::keep_alive() }).map(drop)
    }

    /// When nothing of this controller, which is lost, is executed any more: its target knows of the loss at the latest when its
    /// keep-alive timer has expired, and has stopped executing after another while (Base 2.1, "Communication Loss Handling").
    pub(crate) fn quiet_at(&self, options: &HostOptions) -> Instant {
        let knows = self.admin.ended_by_target() || self.io.iter().all(|q| q.ended_by_target());
        let unknown = match options.keep_alive {
            // The timer is looked at once in its time, if it is based on traffic; the last command may have come after a look.
            time if !time.is_zero() && self.facts.traffic_based => 3 * time,
            time if !time.is_zero() => 2 * time,
            _ => options.command_timeout,
        };
        let quiesce = self.facts.quiesce.unwrap_or(options.quiesce);
        Instant::now() + if knows { quiesce } else { unknown + quiesce }
    }

    /// The ANA state of a group at the port of this controller. Reading it makes the next event possible. A target without ANA has
    /// optimized access only; so has a group that it does not report.
    pub(crate) fn ana(&self, group: u32) -> Result<AnaState, Error> {
        let Some(known) = self.facts.ana else { return Ok(AnaState::Optimized) };
        let what = "read the ANA log page";
        let part = |offset: usize, len: usize| {
            let page = u32::from(ANA) | ana::GROUPS_ONLY << 8;
            data_of(self.admin.call(request::log(page, 0, offset as u64, len))).map_err(refused(what))
        };
        let whole = LOG_HEADER + DESCRIPTOR * known.groups;
        for _ in 0..8 {
            let mut page = Vec::with_capacity(whole);
            while page.len() < whole {
                page.extend(part(page.len(), PART.min(whole - page.len()))?);
            }
            let Some((changes, state)) = facts::ana(&page, group) else { break };
            // A page that changes while it is read is read again.
            let same = whole <= PART || part(0, LOG_HEADER)?[..8] == changes.to_le_bytes();
            if same {
                return Ok(state.unwrap_or_default());
            }
        }
        Err(Error::Refused("the ANA log page changes all the time".into()))
    }

    /// What the controller measures of its drive.
    pub(crate) fn health(&self) -> Result<Health, Error> {
        let what = "read the health of the drive";
        let page = data_of(self.admin.call(request::log(HEALTH.into(), u32::MAX, 0, health::LEN)));
        let page = page.map_err(refused(what))?;
        Ok(Health::decode(page.first_chunk().ok_or_else(|| lost(what))?))
    }

    /// Waits until namespaces or ANA states have changed, the controller is lost, or `time` is over.
    pub(crate) fn wait_for_change(&self, time: Duration) -> Result<Changes, Error> {
        let events = self.admin.wait_for_event(time);
        let mut changes = Changes::default();
        for event in &events {
            if (event >> 16) as u8 == ANA {
                // Whoever looks at the states reads the page.
                changes.ana = true;
            } else {
                changes.namespaces = true;
                // Reading the page makes the next event possible.
                let page = data_of(self.admin.call(request::log(CHANGED.into(), u32::MAX, 0, STRUCTURE)));
                page.map_err(refused("read which namespaces have changed"))?;
            }
            self.admin.await_event(&request::async_event()).map_err(refused("ask for events"))?;
        }
        Ok(changes)
    }

    /// Numbers of the namespaces of the subsystem, at most 1024.
    pub(crate) fn namespaces(&self) -> Result<Vec<u32>, Error> {
        let list = structure(&self.admin, request::identify(cns::ACTIVE, 0), "list the namespaces")?;
        Ok(facts::numbers(&list[..]))
    }

    /// What a namespace is.
    ///
    /// # Errors
    /// [`Error::Refused`] if it is not there or cannot be used.
    pub(crate) fn identify(&self, nsid: u32) -> Result<NamespaceFacts, Error> {
        let what = "identify the namespace";
        let told = structure(&self.admin, request::identify(cns::NAMESPACE, nsid), what)?;
        let (block, blocks, read_only) = facts::namespace(&told).map_err(|e| Error::Refused(e.to_owned()))?;
        let list = structure(&self.admin, request::identify(cns::DESCRIPTORS, nsid), what)?;
        let identity = facts::identity(&list).ok_or_else(|| {
            Error::Refused(
                "the namespace has no UUID, NGUID or EUI64, so it could be confused with others".into(),
            )
        })?;
        Ok(NamespaceFacts { block, blocks, read_only, identity, ana_group: u32_at(&told[..], 92) })
    }

    /// The entries of a discovery log page, at most 1024. One that changes while it is read is read again.
    fn discover(&self) -> Result<Vec<DiscoveryEntry>, Error> {
        let part = |offset: u64| -> Result<[u8; RECORD], Error> {
            let data = data_of(self.admin.call(request::log(DISCOVERY_LOG.into(), 0, offset, RECORD)));
            let data = data.map_err(refused("read the discovery log page"))?;
            data.first_chunk().copied().ok_or_else(|| lost("read the discovery log page"))
        };
        for _ in 0..8 {
            let (generation, count) = facts::discovery(&part(0)?);
            let mut out = Vec::new();
            for number in 0..count.min(MAX_RECORDS) {
                out.extend(facts::record(&part((number + 1) * RECORD as u64)?));
            }
            if facts::discovery(&part(0)?).0 == generation {
                return Ok(out);
            }
        }
        Err(Error::Refused("the discovery log page changes all the time".into()))
    }
}

impl Drop for Controller {
    fn drop(&mut self) {
        self.cut();
    }
}

/// Asks for events about namespaces and ANA states, if the target can tell any.
fn watch(admin: &Queue, facts: &Facts) -> Result<(), Error> {
    let events = facts.events & (NAMESPACE_EVENTS | ana::EVENTS);
    if events == 0 {
        return Ok(());
    }
    admin.call(request::set_feature(0x0b, events)).map_err(refused("ask for events"))?;
    admin.await_event(&request::async_event()).map_err(refused("ask for events"))
}

/// The subsystems that the discovery subsystem at `HOST:PORT` knows.
///
/// # Errors
/// [`Error`].
pub fn discover(portal: &str, options: &HostOptions) -> Result<Vec<DiscoveryEntry>, Error> {
    let controller = Controller::connect(portal, DISCOVERY, options)?;
    let found = controller.discover();
    controller.close();
    found
}

/// A namespace of a list: its address, and what it is, or why this host cannot use it.
pub type Listed = (Address, Result<NamespaceFacts, Error>);

/// The namespaces of a subsystem at `HOST:PORT`.
///
/// # Errors
/// [`Error`]. Namespaces that this host cannot use are errors too, but only of themselves.
pub fn list(portal: &str, nqn: &str, options: &HostOptions) -> Result<Vec<Listed>, Error> {
    let at: Portal = portal.parse().map_err(|what| Error::Address { text: portal.to_owned(), what })?;
    let controller = Controller::connect(portal, nqn, options)?;
    let of = |nsid| {
        let address = Address { portals: vec![at.clone()], discovery: false, nqn: nqn.to_owned(), nsid };
        (address, controller.identify(nsid))
    };
    let found = controller.namespaces().map(|all| all.into_iter().map(of).collect());
    controller.close();
    found
}
