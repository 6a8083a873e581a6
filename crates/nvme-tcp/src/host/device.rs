//! A namespace and its paths: which of them can be used, and which one the next command takes.
//!
//! A path is a port of the subsystem, with one controller at a time. Its standing (is it connected?) and its ANA state decide together
//! whether commands are sent to it. Optimized paths are used before others; the policy chooses among equal ones.
//!
//! Invariants: a path is used only after its namespace was found to be the one that was attached; whoever waits for a path is told when
//! one can be used, and waits for the time of the options at most.
//!
//! Must not depend on: how requests become commands.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use ashlar_environment::time::Instant;
use parking_lot::{Condvar, Mutex};

use crate::ana::AnaState;
use crate::error::Error;
use crate::host::address::Address;
use crate::host::controller::{Controller, discover};
use crate::host::facts::NamespaceFacts;
use crate::host::health::Health;
use crate::host::options::HostOptions;
use crate::host::policy::{self, Candidate, Load};
use crate::host::ranges::Ranges;
use crate::host::unflushed::Unflushed;
use crate::status;

/// Time after which a wait looks whether there is something to do.
pub(crate) const LOOK: Duration = Duration::from_millis(500);
/// Time after which a path is tried again although others are faster.
const STALE: Duration = Duration::from_secs(1);

/// Whether a path is connected.
pub(crate) enum Standing {
    Up(Arc<Controller>),
    /// Why it is not. It is connected again.
    Down(String),
    /// Why it is not, for good.
    Lost(String),
}

/// What changes of a path.
pub(crate) struct Access {
    pub(crate) standing: Standing,
    pub(crate) ana: AnaState,
    /// Since when it has this standing and ANA state.
    pub(crate) since: Instant,
    /// When a command was last sent to it.
    used: Option<Instant>,
}

impl Access {
    /// Why it cannot be used. None: it can.
    fn trouble(&self) -> Option<String> {
        match &self.standing {
            Standing::Up(_) if self.ana.is_accessible() => None,
            Standing::Up(_) => Some(format!("its ANA state is {}", self.ana)),
            Standing::Down(why) | Standing::Lost(why) => Some(why.clone()),
        }
    }
}

/// A path.
pub(crate) struct Path {
    /// `HOST:PORT`.
    pub(crate) portal: String,
    pub(crate) load: Load,
    /// How often its controller was lost.
    pub(crate) losses: AtomicU64,
}

/// What a path looks like from outside.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PathStatus {
    /// Its port: `HOST:PORT`.
    pub portal: String,
    /// `live`, `connecting`, or `lost`: it is given up.
    pub state: &'static str,
    /// Its ANA state; that of the last connection, if there is none.
    pub ana: AnaState,
    /// Why commands are not sent to it.
    pub why: Option<String>,
    /// How often its controller was lost.
    pub losses: u64,
    /// Commands that are on their way.
    pub in_flight: u64,
    /// Commands that it has answered.
    pub commands: u64,
    /// The smoothed time of a command.
    pub latency: Option<Duration>,
}

pub(crate) struct State {
    pub(crate) access: Vec<Access>,
    /// The path that was chosen last.
    last: usize,
    pub(crate) closed: bool,
}

/// A namespace and its paths.
pub(crate) struct Device {
    pub(crate) address: Address,
    pub(crate) options: HostOptions,
    pub(crate) facts: NamespaceFacts,
    /// Bytes of data of a command, at most.
    pub(crate) most: usize,
    /// The target may lose writes that were not flushed.
    pub(crate) write_cache: bool,
    pub(crate) paths: Vec<Path>,
    pub(crate) state: Mutex<State>,
    pub(crate) changed: Condvar,
    pub(crate) unflushed: Mutex<Unflushed>,
    /// A controller was lost that may have completed changes which were not flushed.
    pub(crate) must_restore: AtomicBool,
    /// Whoever writes such changes again has it.
    pub(crate) restoring: Mutex<()>,
    pub(crate) ranges: Ranges,
    /// When the drive was last asked for its health, and what it last said.
    pub(crate) health: Mutex<(Option<Instant>, Option<Health>)>,
}

/// The ports of an address. Those of discovery controllers are asked once, here.
fn portals(address: &Address, options: &HostOptions) -> Result<Vec<String>, Error> {
    let named: Vec<String> = address.portals.iter().map(ToString::to_string).collect();
    if !address.discovery {
        return Ok(named);
    }
    let (mut found, mut last) = (Vec::new(), None);
    for portal in &named {
        match discover(portal, options) {
            Ok(entries) => found.extend(
                entries.into_iter().filter(|e| !e.discovery && e.nqn == address.nqn).map(|e| e.portal()),
            ),
            Err(e) => last = Some(e),
        }
    }
    found.sort();
    found.dedup();
    found.truncate(crate::host::address::MAX_PORTALS);
    match last {
        Some(error) if found.is_empty() => Err(error),
        _ if found.is_empty() => {
            Err(Error::Refused(format!("the discovery controller knows no port of {}", address.nqn)))
        }
        _ => Ok(found),
    }
}

impl Device {
    /// Connects to a namespace by the first of its ports that answers. The others are connected later.
    ///
    /// # Errors
    /// Those of the last port: [`Controller::connect`].
    pub(crate) fn open(address: Address, options: HostOptions) -> Result<Device, Error> {
        let portals = portals(&address, &options)?;
        let mut tried = Vec::new();
        let mut reached = None;
        for (index, portal) in portals.iter().enumerate() {
            match Device::first(portal, &address, &options) {
                Ok(found) => {
                    reached = Some((index, found));
                    break;
                }
                Err(e) => tried.push(e),
            }
        }
        let Some((index, (controller, facts, ana))) = reached else {
            return Err(tried.pop().unwrap_or_else(|| Error::Refused("it has no port".into())));
        };
        let block = facts.block as usize;
        let most = controller.max_transfer().min(65536 * block) / block * block;
        let write_cache = controller.facts.write_cache;
        let mut first = Some(Arc::new(controller));
        let mut whys = tried.into_iter().map(|e| e.to_string());
        let access = (0..portals.len()).map(|i| {
            let standing = match first.take_if(|_| i == index) {
                Some(controller) => Standing::Up(controller),
                None => Standing::Down(whys.next().unwrap_or_else(|| "it was not connected yet".into())),
            };
            Access { standing, ana, since: Instant::now(), used: None }
        });
        let access = access.collect();
        Ok(Device {
            ranges: Ranges::of(&facts.identity),
            address,
            options,
            facts,
            most: most.max(block),
            write_cache,
            paths: portals
                .into_iter()
                .map(|portal| Path { portal, load: Load::default(), losses: AtomicU64::new(0) })
                .collect(),
            state: Mutex::new(State { access, last: 0, closed: false }),
            changed: Condvar::new(),
            unflushed: Mutex::default(),
            must_restore: AtomicBool::new(false),
            restoring: Mutex::default(),
            health: Mutex::default(),
        })
    }

    fn first(
        portal: &str,
        address: &Address,
        options: &HostOptions,
    ) -> Result<(Controller, NamespaceFacts, AnaState), Error> {
        let controller = Controller::connect(portal, &address.nqn, options)?;
        let known = controller.identify(address.nsid).and_then(|f| Ok((controller.ana(f.ana_group)?, f)));
        let (ana, facts) = known.inspect_err(|_| controller.close())?;
        Ok((controller, facts, ana))
    }

    pub(crate) fn failed(&self, operation: &'static str, why: String) -> Error {
        Error::Failed { namespace: self.address.to_string(), operation, why }
    }

    /// A command was answered with a status that no repetition changes.
    pub(crate) fn refused(&self, operation: &'static str, status: u16) -> Error {
        if status::is_conflict(status) {
            return Error::Reserved { namespace: self.address.to_string(), operation };
        }
        self.failed(operation, status::describe(status))
    }

    /// A path that can be used, and its controller. Waits for one, up to the time of the options. `avoid`: taken only if there is no
    /// other one.
    ///
    /// # Errors
    /// [`Error::Unreachable`], [`Error::Failed`].
    pub(crate) fn choose(&self, avoid: Option<usize>) -> Result<(usize, Arc<Controller>), Error> {
        let mut state = self.state.lock();
        loop {
            if state.closed {
                return Err(self.failed("reach it", "it is not used any more".into()));
            }
            if let Some(found) = self.take_path(&mut state, avoid) {
                return Ok(found);
            }
            let hope = state.access.iter().filter(|a| !matches!(a.standing, Standing::Lost(_)));
            let Some(since) = hope.map(|a| a.since).max() else {
                return Err(self.failed("reach it", self.why(&state)));
            };
            let most = self.options.fast_io_fail_timeout;
            let Some(left) = most.checked_sub(since.elapsed()).filter(|l| !l.is_zero()) else {
                return Err(self.unreachable(since.elapsed(), self.why(&state)));
            };
            self.changed.wait_for(&mut state, left.min(LOOK));
        }
    }

    /// A path that can be used now, and its controller.
    pub(crate) fn choose_now(&self) -> Option<(usize, Arc<Controller>)> {
        let mut state = self.state.lock();
        if state.closed { None } else { self.take_path(&mut state, None) }
    }

    fn take_path(&self, state: &mut State, avoid: Option<usize>) -> Option<(usize, Arc<Controller>)> {
        self.notice_losses(state);
        let index = self.pick(state, avoid)?;
        let Standing::Up(controller) = &state.access[index].standing else { return None };
        let controller = controller.clone();
        state.last = index;
        state.access[index].used = Some(Instant::now());
        Some((index, controller))
    }

    pub(crate) fn unreachable(&self, time: Duration, why: String) -> Error {
        Error::Unreachable { namespace: self.address.to_string(), seconds: time.as_secs(), why }
    }

    /// Why no path can be used.
    fn why(&self, state: &State) -> String {
        let all = self.paths.iter().zip(&state.access);
        let all: Vec<(&str, String)> =
            all.filter_map(|(p, a)| Some((p.portal.as_str(), a.trouble()?))).collect();
        match &all[..] {
            [(_, why)] if self.paths.len() == 1 => why.clone(),
            all => all.iter().map(|(portal, why)| format!("{portal}: {why}")).collect::<Vec<_>>().join("; "),
        }
    }

    fn pick(&self, state: &State, avoid: Option<usize>) -> Option<usize> {
        let usable = |ana: AnaState, avoid: Option<usize>| -> Vec<Candidate> {
            let all = self.paths.iter().zip(&state.access).enumerate();
            let of = all.filter(|(i, (_, a))| {
                Some(*i) != avoid && a.ana == ana && matches!(a.standing, Standing::Up(_))
            });
            of.map(|(index, (path, a))| Candidate {
                index,
                in_flight: path.load.in_flight(),
                latency: path.load.latency().filter(|_| a.used.is_some_and(|t| t.elapsed() < STALE)),
            })
            .collect()
        };
        [
            (AnaState::Optimized, avoid),
            (AnaState::NonOptimized, avoid),
            (AnaState::Optimized, None),
            (AnaState::NonOptimized, None),
        ]
        .into_iter()
        .find_map(|(ana, avoid)| policy::choose(self.options.policy, &usable(ana, avoid), state.last))
    }

    /// Paths whose controller is lost are down.
    pub(crate) fn notice_losses(&self, state: &mut State) {
        for (path, access) in self.paths.iter().zip(&mut state.access) {
            let Standing::Up(controller) = &access.standing else { continue };
            let Some(why) = controller.ended() else { continue };
            tracing::warn!(namespace = %self.address, portal = path.portal, %why, "a path to an NVMe namespace is lost");
            access.standing = Standing::Down(why.to_string());
            access.since = Instant::now();
            path.losses.fetch_add(1, Ordering::Relaxed);
            if self.write_cache {
                self.must_restore.store(true, Ordering::Release);
            }
            self.changed.notify_all();
        }
    }

    /// The controllers that are connected, by their serial numbers.
    pub(crate) fn controllers(&self) -> Vec<Arc<Controller>> {
        let mut state = self.state.lock();
        self.notice_losses(&mut state);
        let up = state.access.iter().filter_map(|a| match &a.standing {
            Standing::Up(controller) => Some(controller.clone()),
            Standing::Down(_) | Standing::Lost(_) => None,
        });
        up.collect()
    }

    /// The path that has this controller, if it is connected.
    pub(crate) fn path_of(&self, serial: u64) -> Option<(usize, Arc<Controller>)> {
        let mut state = self.state.lock();
        self.notice_losses(&mut state);
        state.access.iter().enumerate().find_map(|(index, a)| match &a.standing {
            Standing::Up(controller) if controller.serial == serial => Some((index, controller.clone())),
            _ => None,
        })
    }

    /// The controller of a path has said which ANA state it has.
    pub(crate) fn set_ana(&self, index: usize, controller: &Controller, ana: AnaState) {
        let mut state = self.state.lock();
        let access = &mut state.access[index];
        let same = matches!(&access.standing, Standing::Up(c) if c.serial == controller.serial);
        if same && access.ana != ana {
            let portal = &self.paths[index].portal;
            tracing::info!(namespace = %self.address, portal, %ana, was = %access.ana, "an ANA state has changed");
            (access.ana, access.since) = (ana, Instant::now());
            self.changed.notify_all();
        }
    }

    /// Another namespace is behind a path: it is given up.
    pub(crate) fn give_up(&self, index: usize, why: String) {
        tracing::error!(namespace = %self.address, portal = self.paths[index].portal, why, "a path to an NVMe namespace is given up");
        let mut state = self.state.lock();
        let access = &mut state.access[index];
        if let Standing::Up(controller) = &access.standing {
            controller.cut();
            if self.write_cache {
                self.must_restore.store(true, Ordering::Release);
            }
        }
        (access.standing, access.since) = (Standing::Lost(why), Instant::now());
        self.changed.notify_all();
    }

    /// Whether a namespace is the one that was attached.
    pub(crate) fn same(&self, now: &NamespaceFacts) -> Result<(), String> {
        if now.identity != self.facts.identity {
            return Err(format!("another namespace is there: {}, not {}", now.identity, self.facts.identity));
        }
        if now.block != self.facts.block || now.blocks < self.facts.blocks {
            return Err("it has been formatted, or has shrunk".into());
        }
        Ok(())
    }

    /// Asks the targets that are connected whether the namespace is still the one that was attached. False: every path leads to another
    /// one.
    pub(crate) fn verify(&self) -> bool {
        let up: Vec<(usize, Arc<Controller>)> = {
            let state = self.state.lock();
            let all = state.access.iter().enumerate();
            all.filter_map(|(i, a)| match &a.standing {
                Standing::Up(controller) => Some((i, controller.clone())),
                Standing::Down(_) | Standing::Lost(_) => None,
            })
            .collect()
        };
        for (index, controller) in up {
            if let Ok(now) = controller.identify(self.address.nsid)
                && let Err(why) = self.same(&now)
            {
                self.give_up(index, why);
            }
        }
        let state = self.state.lock();
        !state.closed && state.access.iter().any(|a| !matches!(a.standing, Standing::Lost(_)))
    }

    /// Why requests fail at once, if they do: no path could be used for the time of the options, or all are given up.
    pub(crate) fn gone(&self) -> Option<String> {
        let mut state = self.state.lock();
        self.notice_losses(&mut state);
        if self.pick(&state, None).is_some() {
            return None;
        }
        let hope = state.access.iter().filter(|a| !matches!(a.standing, Standing::Lost(_)));
        let waits =
            hope.map(|a| a.since).max().is_some_and(|s| s.elapsed() < self.options.fast_io_fail_timeout);
        (!waits).then(|| self.why(&state))
    }

    /// What its paths look like.
    pub(crate) fn status(&self) -> Vec<PathStatus> {
        let mut state = self.state.lock();
        self.notice_losses(&mut state);
        let of = |(path, access): (&Path, &Access)| PathStatus {
            portal: path.portal.clone(),
            state: match access.standing {
                Standing::Up(_) => "live",
                Standing::Down(_) => "connecting",
                Standing::Lost(_) => "lost",
            },
            ana: access.ana,
            why: access.trouble(),
            losses: path.losses.load(Ordering::Relaxed),
            in_flight: path.load.in_flight(),
            commands: path.load.commands(),
            latency: path.load.latency(),
        };
        self.paths.iter().zip(&state.access).map(of).collect()
    }

    /// No caller gets a path any more, and the threads of the paths end.
    pub(crate) fn close(&self) {
        let mut state = self.state.lock();
        state.closed = true;
        self.changed.notify_all();
        let was = state.access.iter_mut().map(|access| {
            std::mem::replace(&mut access.standing, Standing::Lost("it is not used any more".into()))
        });
        let was: Vec<Standing> = was.collect();
        drop(state);
        for standing in was {
            if let Standing::Up(controller) = standing {
                controller.close();
            }
        }
        self.ranges.leave(&self.facts.identity);
    }
}
