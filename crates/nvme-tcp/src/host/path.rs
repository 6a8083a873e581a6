//! The thread of a path: connects again when its controller is lost, sends Keep Alive, and hears of changes.
//!
//! Invariants: no controller of a path is connected before the one before it has ended; a path is given to callers after its namespace
//! was found to be the one that was attached.
//!
//! Must not depend on: how requests become commands.

use std::sync::Arc;
use std::time::Duration;

use ashlar_environment::{random, time::Instant};

use crate::ana::AnaState;
use crate::error::Error;
use crate::host::controller::Controller;
use crate::host::device::{Device, LOOK, Standing};

/// Time after which the drive is asked again for its health.
const HEALTH: Duration = Duration::from_secs(30);

/// What a path needs now.
enum Need {
    Attendance(Arc<Controller>),
    Connection,
}

impl Device {
    /// Keeps a path connected, until the namespace is closed or the path is given up. `at_once`: it was never connected.
    pub(crate) fn keep(&self, index: usize) {
        let mut delay = self.options.first_delay;
        let mut spoke = Instant::now();
        while let Some(need) = self.need(index) {
            match need {
                Need::Attendance(controller) => {
                    delay = self.options.first_delay;
                    self.attend(index, &controller, &mut spoke);
                }
                Need::Connection => {
                    if !self.pause(index, delay) {
                        return;
                    }
                    delay = (delay * 2).min(self.options.reconnect_delay);
                    self.connect(index);
                    spoke = Instant::now();
                }
            }
        }
    }

    fn need(&self, index: usize) -> Option<Need> {
        let mut state = self.state.lock();
        if state.closed {
            return None;
        }
        self.notice_losses(&mut state);
        let access = &mut state.access[index];
        match &access.standing {
            Standing::Up(controller) => Some(Need::Attendance(controller.clone())),
            Standing::Lost(_) => None,
            Standing::Down(why) => {
                let away = access.since.elapsed();
                if self.options.ctrl_loss_timeout.is_none_or(|most| away < most) {
                    return Some(Need::Connection);
                }
                let why = format!("it was not connected for {} s and is given up: {why}", away.as_secs());
                drop(state);
                self.give_up(index, why);
                None
            }
        }
    }

    /// Waits before an attempt. Half of the time is random, so that hosts of a target that restarts do not come at once. False:
    /// it is not to be made.
    fn pause(&self, index: usize, time: Duration) -> bool {
        let half = time / 2;
        let some = random::u64().unwrap_or(0) % (half.as_millis() as u64).max(1);
        let until = Instant::now() + half + Duration::from_millis(some);
        let mut state = self.state.lock();
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if state.closed || left.is_zero() {
                return !state.closed && matches!(state.access[index].standing, Standing::Down(_));
            }
            self.changed.wait_for(&mut state, left);
        }
    }

    fn connect(&self, index: usize) {
        let portal = &self.paths[index].portal;
        let made = Controller::connect(portal, &self.address.nqn, &self.options);
        let ready = made.and_then(|c| {
            let now = c.identify(self.address.nsid)?;
            if let Err(why) = self.same(&now) {
                self.give_up(index, why.clone());
                return Err(Error::Refused(why));
            }
            if c.max_transfer() < self.most {
                return Err(Error::Refused("the target takes smaller commands than before".into()));
            }
            if c.facts.write_cache && !self.write_cache {
                // Answered writes, which were durable then, were not kept for it.
                return Err(Error::Refused("the target has a volatile write cache now, and had none".into()));
            }
            Ok((c.ana(self.facts.ana_group)?, c))
        });
        let mut state = self.state.lock();
        let closed = state.closed;
        let access = &mut state.access[index];
        match (&mut access.standing, ready) {
            (Standing::Down(_), Ok((ana, controller))) if !closed => {
                let after = access.since.elapsed();
                tracing::info!(namespace = %self.address, portal, ?after, %ana, "a path to an NVMe namespace is connected");
                access.standing = Standing::Up(Arc::new(controller));
                (access.ana, access.since) = (ana, Instant::now());
                self.changed.notify_all();
            }
            (Standing::Down(why), Err(error)) => *why = error.to_string(),
            _ => {}
        }
    }

    /// Looks after a controller for a while.
    fn attend(&self, index: usize, controller: &Controller, spoke: &mut Instant) {
        let half = self.options.keep_alive / 2;
        let wait = if half.is_zero() { LOOK } else { half.saturating_sub(spoke.elapsed()).min(LOOK) };
        let tended = controller.wait_for_change(wait).and_then(|changes| {
            if changes.namespaces
                && let Ok(now) = controller.identify(self.address.nsid)
                && let Err(why) = self.same(&now)
            {
                self.give_up(index, why);
                return Ok(());
            }
            self.look_at_ana(index, controller, changes.ana)?;
            self.look_at_health(controller);
            Ok(())
        });
        if let Err(error) = tended {
            tracing::debug!(namespace = %self.address, portal = self.paths[index].portal, %error, "a controller");
            controller.cut();
        }
        if controller.facts.keep_alive && !half.is_zero() && spoke.elapsed() >= half {
            *spoke = Instant::now();
            if controller.keep_alive(self.options.keep_alive).is_err() {
                controller.cut();
            }
        }
    }

    /// Reads the ANA state if it has changed, and while it is not the best one: a target need not tell. A transition that takes longer than
    /// the target says ends the controller.
    fn look_at_ana(&self, index: usize, controller: &Controller, changed: bool) -> Result<(), Error> {
        let (known, since) = {
            let state = self.state.lock();
            (state.access[index].ana, state.access[index].since)
        };
        if !changed && known == AnaState::Optimized {
            return Ok(());
        }
        let now = controller.ana(self.facts.ana_group)?;
        self.set_ana(index, controller, now);
        let most = controller.facts.ana.map_or(Duration::MAX, |a| a.transition.max(LOOK));
        if now == AnaState::Change && known == now && since.elapsed() > most {
            return Err(Error::Refused(
                "a transition of the ANA state takes longer than the target says".into(),
            ));
        }
        Ok(())
    }

    /// Asks for the health of the drive, if nobody has of late. That a target has none is no error.
    fn look_at_health(&self, controller: &Controller) {
        let mut known = self.health.lock();
        if known.0.is_some_and(|when| when.elapsed() < HEALTH) {
            return;
        }
        known.0 = Some(Instant::now());
        drop(known);
        if let Ok(health) = controller.health() {
            self.health.lock().1 = Some(health);
        }
    }
}
