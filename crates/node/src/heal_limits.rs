//! The limits of healing, rebuild and scrub on this node, and their change while it runs.
//!
//! A limit comes from the stored setting (subsystem [`SUBSYSTEM`], the same on all nodes), else from the options of this
//! node's start, else it is the default. docs/decisions/0057-limits-of-healing.md has the reasons.
//!
//! Invariants: a value that cannot be used is refused before it is stored; a stored value that cannot be used (another
//! release wrote it) changes nothing.
//!
//! Must not depend on: who may change the setting, how the work is paced.

use ashlar_arguments::size;
use ashlar_erasure_set::Sets;
use ashlar_iam::{DEFAULT_TARGET, Iam, Values};
use ashlar_pacer::Limits;
use futures::future::BoxFuture;
use std::sync::Arc;

use super::node::Node;

/// The subsystem of the setting, with MinIO's name.
pub const SUBSYSTEM: &str = "heal";
/// Bytes per second that a node writes for healing and rebuild.
pub const MAX_RATE: &str = "max_rate";
/// Bytes per second that a node reads for scrubs.
pub const SCRUB_MAX_RATE: &str = "scrub_max_rate";
/// Percent of the time that each task of this work may take while clients' requests are in flight.
pub const BUSY_SHARE: &str = "busy_share";
/// The lowest rate limit in bytes per second. Below it, what is damaged would stay so for too long.
pub const LOWEST_RATE: u64 = 64 << 10;
/// The default of [`BUSY_SHARE`].
pub const DEFAULT_BUSY_SHARE: u8 = 25;

/// A rate limit in bytes per second; `None`: no limit.
pub type RateLimit = Option<u64>;

/// The limits of healing, rebuild and scrub on one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HealLimits {
    /// [`MAX_RATE`].
    pub max_rate: RateLimit,
    /// [`SCRUB_MAX_RATE`].
    pub scrub_max_rate: RateLimit,
    /// [`BUSY_SHARE`], 1 to 100.
    pub busy_share: u8,
}

impl Default for HealLimits {
    fn default() -> HealLimits {
        HealLimits { max_rate: None, scrub_max_rate: None, busy_share: DEFAULT_BUSY_SHARE }
    }
}

/// Parses a rate limit: a size per second such as `100MiB`; `off` or 0: `None`.
///
/// # Errors
/// A message for the operator: not a size, or below [`LOWEST_RATE`].
pub fn rate(text: &str) -> Result<RateLimit, String> {
    if text == "off" {
        return Ok(None);
    }
    let bytes = size::parse(text.strip_suffix("/s").unwrap_or(text))
        .map_err(|_| format!("{text:?} is not a rate; write for instance 100MiB (per second), or off"))?;
    match bytes {
        0 => Ok(None),
        1..LOWEST_RATE => {
            Err(format!("{text} per second is less than {}; off means no limit", size::show(LOWEST_RATE)))
        }
        _ => Ok(Some(bytes)),
    }
}

/// Parses a share in percent, with or without the sign.
///
/// # Errors
/// A message for the operator: not a number from 1 to 100.
pub fn share(text: &str) -> Result<u8, String> {
    let number = text.strip_suffix('%').unwrap_or(text).parse().ok().filter(|n| (1..=100).contains(n));
    number.ok_or_else(|| format!("{text:?} is not a share in percent, from 1 to 100"))
}

impl HealLimits {
    /// These limits, with what a setting has instead.
    ///
    /// # Errors
    /// A message for the administrator: a value that cannot be used.
    pub fn with(mut self, values: &Values) -> Result<HealLimits, String> {
        let say = |name: &'static str| move |why: String| format!("{name}: {why}");
        for (name, value) in values {
            match name.as_str() {
                MAX_RATE => self.max_rate = rate(value).map_err(say(MAX_RATE))?,
                SCRUB_MAX_RATE => self.scrub_max_rate = rate(value).map_err(say(SCRUB_MAX_RATE))?,
                BUSY_SHARE => self.busy_share = share(value).map_err(say(BUSY_SHARE))?,
                _ => {}
            }
        }
        Ok(self)
    }

    /// The limits of heal and rebuild, and those of the scrub, for the pacers.
    #[must_use]
    pub fn paced(self) -> (Limits, Limits) {
        let of = |per_second| Limits {
            per_second,
            busy_share: f64::from(self.busy_share) / 100.0,
            ..Limits::default()
        };
        (of(self.max_rate), of(self.scrub_max_rate))
    }

    /// The limits in force.
    #[must_use]
    pub fn of(sets: &Sets) -> HealLimits {
        let (heal, scrub) = sets.background();
        HealLimits {
            max_rate: heal.per_second,
            scrub_max_rate: scrub.per_second,
            // Set as a whole number of percent.
            busy_share: (heal.busy_share * 100.0).round().clamp(1.0, 100.0) as u8,
        }
    }
}

impl Node {
    /// Applies the stored setting over the options of the start, and returns the limits in force from now on.
    pub fn apply_heal_limits(&self, iam: &Iam) -> HealLimits {
        let values = iam.setting(SUBSYSTEM, DEFAULT_TARGET).map(|s| s.values.clone()).unwrap_or_default();
        let before = HealLimits::of(&self.sets);
        match self.heal_limits.with(&values) {
            Ok(limits) => {
                let (heal, scrub) = limits.paced();
                self.sets.set_background(heal, scrub);
                if limits != before {
                    tracing::info!(?limits, "limits of healing and scrub");
                }
                limits
            }
            Err(why) => {
                tracing::warn!(why, "the stored limits of healing cannot be used; those in force stay");
                before
            }
        }
    }
}

/// Applies the setting now and after every change; returns only if the settings are closed.
pub fn follow(node: Arc<Node>, iam: Arc<Iam>) -> BoxFuture<'static, ()> {
    Box::pin(async move {
        let mut news = iam.settings_changed();
        loop {
            node.apply_heal_limits(&iam);
            if news.changed().await.is_err() {
                return;
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_and_shares_parse() {
        for none in ["off", "0", "0MiB"] {
            assert_eq!(rate(none), Ok(None), "{none}");
        }
        assert_eq!(rate("100MiB"), Ok(Some(100 << 20)));
        assert_eq!(rate("100MB/s"), Ok(Some(100_000_000)));
        assert_eq!(rate("65536"), Ok(Some(LOWEST_RATE)));
        for bad in ["", "fast", "100", "63KiB", "-1", "1MiB/h"] {
            assert!(rate(bad).is_err(), "{bad}");
        }
        assert_eq!((share("1"), share("25%"), share("100")), (Ok(1), Ok(25), Ok(100)));
        for bad in ["", "0", "101", "-5", "25.5", "half"] {
            assert!(share(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn setting_overrides_the_start_value_by_value() {
        let start = HealLimits { max_rate: Some(1 << 20), ..HealLimits::default() };
        let values = |pairs: &[(&str, &str)]| -> Values {
            pairs.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect()
        };
        assert_eq!(start.with(&Values::new()), Ok(start));
        let changed = start.with(&values(&[("scrub_max_rate", "2MiB"), ("busy_share", "50")])).unwrap();
        assert_eq!(changed, HealLimits { scrub_max_rate: Some(2 << 20), busy_share: 50, ..start });
        assert_eq!(start.with(&values(&[("max_rate", "off")])).unwrap().max_rate, None);
        let why = start.with(&values(&[("busy_share", "0")])).unwrap_err();
        assert!(why.starts_with("busy_share: "), "{why}");
        let (heal, scrub) = changed.paced();
        assert_eq!(
            (heal.per_second, scrub.per_second, scrub.busy_share),
            (Some(1 << 20), Some(2 << 20), 0.5)
        );
        assert_eq!(HealLimits::default().paced().0, Limits::default(), "the default is the pacer's");
    }
}
