//! The temperature of a drive: it approaches a value that its load decides, and a hot drive works slower.
//!
//! A first-order model: `T' = (ambient + idle + load x rise - T) / time constant`. Pure: time and load are arguments.
//!
//! Must not depend on: other files of this crate, except `setup`.

use std::time::Duration;

use crate::setup::Heat;

/// Kelvins below the throttling temperature at which a drive is fast again.
const HYSTERESIS: f64 = 3.0;

/// The temperature of one drive.
#[derive(Clone, Debug)]
pub(crate) struct Thermal {
    heat: Heat,
    celsius: f64,
    throttled: bool,
    at: Duration,
    worked: Duration,
    /// Time at the throttling temperature and above.
    warned: Duration,
    busy: Duration,
}

impl Thermal {
    /// A drive that has been idle for long.
    pub(crate) fn new(heat: Heat) -> Thermal {
        let celsius = heat.ambient + heat.idle;
        Thermal {
            heat,
            celsius,
            throttled: false,
            at: Duration::ZERO,
            worked: Duration::ZERO,
            warned: Duration::ZERO,
            busy: Duration::ZERO,
        }
    }

    /// Goes on to `now`; `worked`: the work that the drive was given since its start.
    pub(crate) fn advance(&mut self, now: Duration, worked: Duration) {
        let passed = now.saturating_sub(self.at);
        if passed < Duration::from_millis(1) {
            return;
        }
        // Work that was given ahead counts as done when there was time for it.
        let done = worked.saturating_sub(self.worked).min(passed);
        let load = done.as_secs_f64() / passed.as_secs_f64();
        let aim = self.heat.ambient + self.heat.idle + load * self.heat.rise;
        let left = (-passed.as_secs_f64() / self.heat.seconds).exp();
        self.celsius = aim + (self.celsius - aim) * left;
        self.at = now;
        self.worked += done;
        self.busy += done;
        if self.celsius >= self.heat.throttle {
            self.throttled = true;
            self.warned += passed;
        } else if self.celsius < self.heat.throttle - HYSTERESIS {
            self.throttled = false;
        }
    }

    /// How many times longer its work takes now.
    pub(crate) fn slowness(&self) -> f64 {
        if self.throttled { self.heat.factor } else { 1.0 }
    }

    pub(crate) fn celsius(&self) -> f64 {
        self.celsius
    }

    pub(crate) fn throttled(&self) -> bool {
        self.throttled
    }

    /// Time at the throttling temperature and above.
    pub(crate) fn warned(&self) -> Duration {
        self.warned
    }

    /// Time in which it worked.
    pub(crate) fn busy(&self) -> Duration {
        self.busy
    }
}
