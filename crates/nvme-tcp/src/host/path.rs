//! The way to a namespace: its controller, and who connects again when that is lost.
//!
//! One thread per namespace connects, sends Keep Alive and hears of changes. Callers wait for it.
//!
//! Invariants: a controller is given to callers after its namespace was found to be the same one, and after everything that was not
//! flushed was written again; no controller is connected before the one before it has ended.
//!
//! Must not depend on: how requests become commands.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ashlar_environment::{random, time::Instant};
use parking_lot::{Condvar, Mutex};

use crate::error::Error;
use crate::host::address::Address;
use crate::host::call::Piece;
use crate::host::controller::Controller;
use crate::host::facts::NamespaceFacts;
use crate::host::options::HostOptions;
use crate::host::pieces;
use crate::host::unflushed::Unflushed;

/// Time after which a wait looks whether the namespace is still used.
const LOOK: Duration = Duration::from_millis(500);

/// Whether the namespace can be reached.
enum Standing {
    Up(Arc<Controller>),
    /// Since when it cannot be, and why.
    Down(Instant, String),
    /// It is another one now, for good.
    Gone(String),
    Closed,
}

/// The way to a namespace.
pub(crate) struct Path {
    pub(crate) address: Address,
    pub(crate) options: HostOptions,
    pub(crate) facts: NamespaceFacts,
    /// Bytes of data of a command, at most.
    pub(crate) most: usize,
    /// The target may lose writes that were not flushed.
    pub(crate) write_cache: bool,
    standing: Mutex<Standing>,
    changed: Condvar,
    pub(crate) unflushed: Mutex<Unflushed>,
    /// How often a controller was lost.
    pub(crate) losses: AtomicU64,
}

impl Path {
    /// Connects to a namespace.
    ///
    /// # Errors
    /// Those of [`Controller::connect`].
    pub(crate) fn open(address: Address, options: HostOptions) -> Result<Path, Error> {
        let controller = Controller::connect(&address.portal(), &address.nqn, &options)?;
        let facts = controller.identify(address.nsid).inspect_err(|_| controller.close())?;
        let block = facts.block as usize;
        let most = controller.max_transfer().min(65536 * block) / block * block;
        Ok(Path {
            address,
            options,
            facts,
            most: most.max(block),
            write_cache: controller.facts.write_cache,
            standing: Mutex::new(Standing::Up(Arc::new(controller))),
            changed: Condvar::new(),
            unflushed: Mutex::default(),
            losses: AtomicU64::new(0),
        })
    }

    /// A controller in operation. Waits for one, up to the patience of the options.
    ///
    /// # Errors
    /// [`Error::Unreachable`], [`Error::Failed`].
    pub(crate) fn controller(&self) -> Result<Arc<Controller>, Error> {
        let mut standing = self.standing.lock();
        loop {
            match &*standing {
                Standing::Up(controller) => match controller.ended() {
                    None => return Ok(controller.clone()),
                    Some(why) => self.mark_down(&mut standing, why.to_string()),
                },
                Standing::Down(since, why) => {
                    let down = since.elapsed();
                    let Some(left) = self.options.patience.checked_sub(down).filter(|l| !l.is_zero()) else {
                        return Err(Error::Unreachable {
                            namespace: self.address.to_string(),
                            seconds: down.as_secs(),
                            why: why.clone(),
                        });
                    };
                    self.changed.wait_for(&mut standing, left.min(LOOK));
                }
                Standing::Gone(why) => return Err(self.failed("reach it", why.clone())),
                Standing::Closed => return Err(self.failed("reach it", "it is not used any more".into())),
            }
        }
    }

    pub(crate) fn failed(&self, operation: &'static str, why: String) -> Error {
        Error::Failed { namespace: self.address.to_string(), operation, why }
    }

    fn mark_down(&self, standing: &mut Standing, why: String) {
        tracing::warn!(namespace = %self.address, why, "an NVMe namespace is not reached");
        *standing = Standing::Down(Instant::now(), why);
        self.losses.fetch_add(1, Ordering::Relaxed);
        self.changed.notify_all();
    }

    /// No caller gets a controller any more, and the thread ends.
    pub(crate) fn close(&self) {
        let was = std::mem::replace(&mut *self.standing.lock(), Standing::Closed);
        self.changed.notify_all();
        if let Standing::Up(controller) = was {
            controller.close();
        }
    }

    /// Keeps the namespace reachable until it is closed.
    pub(crate) fn keep(&self) {
        let mut pause = self.options.first_pause;
        let mut spoke = Instant::now();
        loop {
            let up = match &*self.standing.lock() {
                Standing::Up(controller) => Some(controller.clone()),
                Standing::Down(..) => None,
                Standing::Gone(_) | Standing::Closed => return,
            };
            if let Some(controller) = up {
                pause = self.options.first_pause;
                self.attend(&controller, &mut spoke);
            } else {
                if !self.pause(pause) {
                    return;
                }
                pause = (pause * 2).min(self.options.longest_pause);
                self.try_again();
                spoke = Instant::now();
            }
        }
    }

    /// Waits before an attempt. Half of the time is random, so that hosts of a target that restarts do not come at once. False:
    /// it is closed.
    fn pause(&self, time: Duration) -> bool {
        let half = time / 2;
        let some = random::u64().unwrap_or(0) % (half.as_millis() as u64).max(1);
        let until = Instant::now() + half + Duration::from_millis(some);
        let mut standing = self.standing.lock();
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if matches!(*standing, Standing::Closed) || left.is_zero() {
                return matches!(*standing, Standing::Down(..));
            }
            self.changed.wait_for(&mut standing, left);
        }
    }

    /// Looks after a controller for a while.
    fn attend(&self, controller: &Controller, spoke: &mut Instant) {
        let half = self.options.keep_alive / 2;
        let wait = if half.is_zero() { LOOK } else { half.saturating_sub(spoke.elapsed()).min(LOOK) };
        let changed = controller.wait_for_change(wait);
        if let Ok(true) = changed
            && let Ok(now) = controller.identify(self.address.nsid)
            && let Err(why) = self.same(&now)
        {
            self.give_up(why);
            controller.cut();
            return;
        }
        if controller.facts.keep_alive && !half.is_zero() && spoke.elapsed() >= half {
            *spoke = Instant::now();
            if controller.keep_alive().is_err() {
                controller.cut();
            }
        }
        if let Err(error) = changed {
            tracing::debug!(namespace = %self.address, %error, "events of a target");
            controller.cut();
        }
        if let Some(why) = controller.ended() {
            let mut standing = self.standing.lock();
            if matches!(&*standing, Standing::Up(_)) {
                self.mark_down(&mut standing, why.to_string());
            }
        }
    }

    /// Whether a namespace is the one that was opened.
    fn same(&self, now: &NamespaceFacts) -> Result<(), String> {
        if now.identity != self.facts.identity {
            return Err(format!("another namespace is there: {}, not {}", now.identity, self.facts.identity));
        }
        if now.block != self.facts.block || now.blocks < self.facts.blocks {
            return Err("it has been formatted, or has shrunk".into());
        }
        Ok(())
    }

    /// Asks the target, if it is reached, whether the namespace is still the one that was opened. False: another one is at its
    /// address.
    pub(crate) fn verify(&self) -> bool {
        let controller = match &*self.standing.lock() {
            Standing::Up(controller) => controller.clone(),
            Standing::Down(..) => return true,
            Standing::Gone(_) | Standing::Closed => return false,
        };
        let now = controller.identify(self.address.nsid);
        match now.map(|now| self.same(&now)) {
            Ok(Err(why)) => {
                self.give_up(why);
                controller.cut();
                false
            }
            _ => true,
        }
    }

    fn give_up(&self, why: String) {
        tracing::error!(namespace = %self.address, why, "an NVMe namespace is lost");
        let mut standing = self.standing.lock();
        if !matches!(&*standing, Standing::Closed) {
            *standing = Standing::Gone(why);
        }
        self.changed.notify_all();
    }

    fn try_again(&self) {
        let made = Controller::connect(&self.address.portal(), &self.address.nqn, &self.options);
        let ready = made.and_then(|c| {
            let now = c.identify(self.address.nsid)?;
            if let Err(why) = self.same(&now) {
                self.give_up(why.clone());
                return Err(Error::Refused(why));
            }
            if c.max_transfer() < self.most {
                return Err(Error::Refused("the target takes smaller commands than before".into()));
            }
            if c.facts.write_cache && !self.write_cache {
                // Answered writes, which were durable then, were not kept for it.
                return Err(Error::Refused("the target has a volatile write cache now, and had none".into()));
            }
            self.write_again(&c)?;
            Ok(c)
        });
        let mut standing = self.standing.lock();
        match (&mut *standing, ready) {
            (Standing::Down(since, _), Ok(controller)) => {
                let after = since.elapsed();
                tracing::info!(namespace = %self.address, ?after, "an NVMe namespace is reached again");
                *standing = Standing::Up(Arc::new(controller));
                self.changed.notify_all();
            }
            (Standing::Down(_, why), Err(error)) => *why = error.to_string(),
            _ => {}
        }
    }

    /// Writes what was not flushed, in its order.
    fn write_again(&self, controller: &Controller) -> Result<(), Error> {
        let all = self.unflushed.lock().all();
        for change in &all {
            let requests = pieces::of_change(change, self, &controller.facts);
            let mut pieces: Vec<Piece<'_>> = requests.into_iter().map(Piece::new).collect();
            controller.execute(&mut pieces);
            if let Some(failure) = pieces.iter().find_map(|p| p.answer.as_ref()?.as_ref().err()) {
                let why = pieces::describe(*failure);
                return Err(self.failed("write again what was not flushed", why));
            }
        }
        Ok(())
    }
}
