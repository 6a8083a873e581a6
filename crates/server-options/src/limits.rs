//! Limits on what one client may use while others wait, and on background work.
//!
//! Invariant: every limit has a default under which one client cannot shut out others.

use std::time::Duration;

use ashlar_erasure_set::MemoryLimits;
use ashlar_node::heal_limits::{HealLimits, RateLimit, rate, share};

use ashlar_arguments::size;

/// Limits on connections.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Maximum in total.
    pub all: usize,
    /// Maximum per remote address; addresses of this machine are exempt.
    pub each: usize,
    /// Maximum bytes of answers that sockets have not taken.
    pub unsent: usize,
}

/// Options for resources that clients share.
#[derive(clap::Args)]
#[group(skip)]
pub struct Args {
    /// Maximum number of connections. A new connection replaces idle or unauthenticated ones, oldest first.
    #[arg(long, value_name = "N", env = "ASHLAR_MAX_CONNECTIONS", default_value_t = 4096, value_parser = clap::value_parser!(u32).range(16..=1_000_000))]
    max_connections: u32,
    /// Maximum number of connections from one remote address; addresses of this machine are exempt.
    #[arg(long, value_name = "N", env = "ASHLAR_MAX_CONNECTIONS_PER_ADDRESS", default_value_t = 1024, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    max_connections_per_address: u32,
    /// Maximum number of listeners to events.
    #[arg(long, value_name = "N", env = "ASHLAR_MAX_LISTENERS", default_value_t = 512)]
    max_listeners: u32,
    /// Maximum number of listeners to events per user.
    #[arg(long, value_name = "N", env = "ASHLAR_MAX_LISTENERS_PER_USER", default_value_t = 64)]
    max_listeners_per_user: u32,
    /// Seconds that a body waits for memory before it is refused with 503 SlowDown.
    #[arg(long, value_name = "SECONDS", env = "ASHLAR_MEMORY_WAIT", default_value_t = 4, value_parser = clap::value_parser!(u64).range(1..=60))]
    memory_wait: u64,
    /// Minimum rate of an upload in bytes per second while others wait for memory; slower uploads are
    /// aborted.
    #[arg(long, value_name = "SIZE", env = "ASHLAR_BUSY_RATE", default_value = "64KiB")]
    busy_rate: String,
}

impl Args {
    /// The limits on memory that slow clients hold while others wait.
    ///
    /// # Errors
    /// A message for the operator.
    pub fn memory(&self) -> Result<MemoryLimits, String> {
        let busy_rate = size::parse(&self.busy_rate).map_err(|e| format!("--busy-rate: {e}"))?;
        Ok(MemoryLimits {
            patience: Duration::from_secs(self.memory_wait),
            busy_rate,
            ..MemoryLimits::default()
        })
    }

    /// The limits on connections, with `memory` bytes in total.
    pub fn connections(&self, memory: u64) -> Bounds {
        Bounds {
            all: self.max_connections as usize,
            each: self.max_connections_per_address as usize,
            unsent: usize::try_from(memory / 4).unwrap_or(usize::MAX),
        }
    }

    /// Raises the limit of open files as far as the system allows, so that all connections fit.
    pub fn raise_open_files(&self) {
        // For drives, event targets and outgoing connections.
        let needed = u64::from(self.max_connections) + 1024;
        if let Some(open) = ashlar_machine::raise_open_files().filter(|open| *open < needed) {
            tracing::warn!(
                open,
                needed,
                "fewer files may be open than connections are allowed; raise the limit (LimitNOFILE, ulimit -n) or lower --max-connections"
            );
        }
    }

    /// The limits on listeners: in total, and per user.
    pub fn listeners(&self) -> (usize, usize) {
        (self.max_listeners as usize, self.max_listeners_per_user as usize)
    }
}

/// Options for healing and scrub: they hold until an administrator stores a setting, which is the same for all nodes.
#[derive(clap::Args)]
#[group(skip)]
pub struct HealArgs {
    /// Bytes per second that this node writes at most for healing and rebuild, for instance 100MiB; off: no limit.
    /// `ashlar heal limit` changes it for all nodes while they run.
    #[arg(long, value_name = "SIZE", env = "ASHLAR_HEAL_MAX_RATE", default_value = "off", value_parser = rate)]
    heal_max_rate: RateLimit,
    /// Bytes per second that this node reads at most to verify everything (scrub); off: no limit.
    #[arg(long, value_name = "SIZE", env = "ASHLAR_SCRUB_MAX_RATE", default_value = "off", value_parser = rate)]
    scrub_max_rate: RateLimit,
    /// Percent of the time that a task of healing, rebuild or scrub works while clients' requests are in flight.
    #[arg(long, value_name = "PERCENT", env = "ASHLAR_BUSY_SHARE", default_value = "25", value_parser = share)]
    busy_share: u8,
}

impl HealArgs {
    /// The limits.
    pub fn limits(&self) -> HealLimits {
        let HealArgs { heal_max_rate: max_rate, scrub_max_rate, busy_share } = *self;
        HealLimits { max_rate, scrub_max_rate, busy_share }
    }
}
