//! How much one client may take while others wait.
//!
//! Invariant: what is not set has a default under which one client cannot keep others out.

use std::time::Duration;

use ashlar_erasure_set::MemoryLimits;

use ashlar_arguments::size;

/// How many connections there may be.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// In all.
    pub all: usize,
    /// From one address that is not this machine.
    pub each: usize,
    /// Bytes of answers that sockets have not taken.
    pub unsent: usize,
}

/// Bounds of what clients share.
#[derive(clap::Args)]
pub struct Args {
    /// Most connections. A new one displaces those that have shown nothing or are idle, oldest first.
    #[arg(long, value_name = "N", env = "ASHLAR_MAX_CONNECTIONS", default_value_t = 4096, value_parser = clap::value_parser!(u32).range(16..=1_000_000))]
    max_connections: u32,
    /// Most connections from one address that is not this machine.
    #[arg(long, value_name = "N", env = "ASHLAR_MAX_CONNECTIONS_PER_ADDRESS", default_value_t = 1024, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    max_connections_per_address: u32,
    /// Most listeners to events at a time.
    #[arg(long, value_name = "N", env = "ASHLAR_MAX_LISTENERS", default_value_t = 512)]
    max_listeners: u32,
    /// Most listeners to events of one user.
    #[arg(long, value_name = "N", env = "ASHLAR_MAX_LISTENERS_PER_USER", default_value_t = 64)]
    max_listeners_per_user: u32,
    /// How long a body waits for memory before it is refused with 503 SlowDown, in seconds.
    #[arg(long, value_name = "SECONDS", env = "ASHLAR_MEMORY_WAIT", default_value_t = 4, value_parser = clap::value_parser!(u64).range(1..=60))]
    memory_wait: u64,
    /// Bytes per second below which an upload is given up while others wait for memory.
    #[arg(long, value_name = "SIZE", env = "ASHLAR_BUSY_RATE", default_value = "64KiB")]
    busy_rate: String,
}

impl Args {
    /// How long slow clients may hold memory that others wait for.
    ///
    /// # Errors
    /// In words.
    pub fn memory(&self) -> Result<MemoryLimits, String> {
        let busy_rate = size::parse(&self.busy_rate).map_err(|e| format!("--busy-rate: {e}"))?;
        Ok(MemoryLimits {
            patience: Duration::from_secs(self.memory_wait),
            busy_rate,
            ..MemoryLimits::default()
        })
    }

    /// Of connections, with `memory` bytes in all.
    pub fn connections(&self, memory: u64) -> Bounds {
        Bounds {
            all: self.max_connections as usize,
            each: self.max_connections_per_address as usize,
            unsent: usize::try_from(memory / 4).unwrap_or(usize::MAX),
        }
    }

    /// Makes the system allow as many open sockets as there may be connections, as far as it can.
    pub fn raise_open_files(&self) {
        // Drives, targets and connections to others.
        let needed = u64::from(self.max_connections) + 1024;
        if let Some(open) = ashlar_machine::raise_open_files().filter(|open| *open < needed) {
            tracing::warn!(
                open,
                needed,
                "fewer files may be open than connections are allowed; raise the limit (LimitNOFILE, ulimit -n) or lower --max-connections"
            );
        }
    }

    /// Of listeners: in all, and of one user.
    pub fn listeners(&self) -> (usize, usize) {
        (self.max_listeners as usize, self.max_listeners_per_user as usize)
    }
}
