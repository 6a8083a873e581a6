//! The state of the driver that its tasks share, and what it knows about etcd.
//!
//! Invariant: [`Shared::trouble`] is set while etcd cannot be used, and says since when.
//!
//! Must not depend on: what the tasks do.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use ::time::OffsetDateTime;
use ::time::format_description::well_known::Rfc3339;
use ashlar_cluster::Nodes;
use ashlar_environment::time::{self, Instant};
use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::{Notify, mpsc, watch};

use crate::Error;
use crate::announce::Order;
use crate::gateway::Gateway;
use crate::memory::Memory;
use crate::snapshot::Snapshots;
use crate::wire::{Header, Keys};

/// How long a change waits for etcd, as with the embedded driver.
pub const PATIENCE: Duration = Duration::from_secs(20);
/// How long memory may be behind before the watch is made anew.
pub const STALL: Duration = Duration::from_secs(3);

/// Why etcd cannot be used.
#[derive(Clone, Debug)]
struct Trouble {
    /// How many attempts have failed in a row.
    attempts: usize,
    /// The last failure.
    error: Error,
    /// When the first one happened.
    since_ms: i64,
}

/// What the members said last.
#[derive(Clone, Copy, Debug, Default)]
pub struct Members {
    /// Members that answer and have a leader.
    pub good: usize,
    /// Whether one of them accepts no writes for lack of space.
    pub full: bool,
}

/// The state of the driver.
pub struct Shared {
    pub keys: Keys,
    pub gateway: Gateway,
    pub memory: Memory,
    pub snapshots: Snapshots,
    pub nodes: watch::Sender<Nodes>,
    /// Revision of the key of which every change says when it was written; 0: not known yet.
    pub fence: AtomicU64,
    /// How many changes whose outcome is not known may still come: the next one writes the fence first.
    pub loose: AtomicU64,
    /// A number of this process, in hexadecimal digits: no other has it.
    pub process: String,
    counter: AtomicU64,
    trouble: Mutex<Option<Trouble>>,
    /// When memory was last known to be current: by the clock of the process, or before it by the wall clock.
    confirmed: Mutex<(Option<Instant>, i64)>,
    started: Instant,
    pub members: Mutex<Members>,
    pub term: AtomicU64,
    /// The watch is to be made anew.
    pub kick: Notify,
    /// No change is accepted any more.
    pub closing: AtomicBool,
    /// The tasks end.
    pub closed: watch::Sender<bool>,
    /// Changes under way hold it for reading.
    pub working: tokio::sync::RwLock<()>,
    pub orders: mpsc::UnboundedSender<Order>,
}

impl Shared {
    pub fn new(
        cluster: &str,
        gateway: Gateway,
        memory: Memory,
        snapshots: Snapshots,
        confirmed_ms: i64,
        orders: mpsc::UnboundedSender<Order>,
    ) -> Result<Arc<Shared>, Error> {
        let process = ashlar_environment::random::u64()
            .map_err(|e| Error::Settings(format!("no random bytes: {e}")))?;
        Ok(Arc::new(Shared {
            keys: Keys::new(cluster),
            gateway,
            memory,
            snapshots,
            nodes: watch::Sender::new(Nodes::default()),
            fence: AtomicU64::new(0),
            loose: AtomicU64::new(0),
            process: format!("{process:016x}"),
            counter: AtomicU64::new(0),
            trouble: Mutex::new(None),
            confirmed: Mutex::new((None, confirmed_ms)),
            started: Instant::now(),
            members: Mutex::default(),
            term: AtomicU64::new(0),
            kick: Notify::new(),
            closing: AtomicBool::new(false),
            closed: watch::Sender::new(false),
            working: tokio::sync::RwLock::new(()),
            orders,
        }))
    }

    /// A mark that no other change has.
    pub fn mark(&self) -> Bytes {
        let number = self.counter.fetch_add(1, Ordering::Relaxed);
        Bytes::from(format!("{}-{number}", self.process))
    }

    /// Whether the driver was closed.
    pub fn is_closed(&self) -> bool {
        *self.closed.borrow()
    }

    /// An attempt to follow etcd failed.
    pub fn failed(&self, error: Error) {
        let mut trouble = self.trouble.lock();
        match &mut *trouble {
            Some(trouble) => {
                if trouble.error != error {
                    tracing::warn!(%error, "control store");
                }
                trouble.attempts += 1;
                trouble.error = error;
            }
            None => {
                tracing::warn!(%error, "control store");
                *trouble = Some(Trouble { attempts: 1, error, since_ms: time::wall_ms() });
            }
        }
    }

    /// etcd is followed.
    pub fn recovered(&self) {
        if self.trouble.lock().take().is_some() {
            tracing::info!("control store: etcd can be used again");
        }
    }

    /// Why etcd cannot be used, if it cannot. A member that fails while there are others is no trouble yet.
    pub fn trouble(&self) -> Option<String> {
        let trouble = self.trouble.lock();
        let trouble = trouble.as_ref()?;
        let passing = matches!(trouble.error, Error::Unreachable(_) | Error::NoQuorum(_));
        if passing && trouble.attempts < self.gateway.members().max(2) {
            return None;
        }
        Some(format!("{} (since {})", trouble.error, utc(trouble.since_ms)))
    }

    /// Memory is as etcd was at `start` or later.
    pub fn confirm(&self, start: Instant, header: &Header) {
        self.memory.confirm(header.revision);
        self.term.store(header.raft_term, Ordering::Relaxed);
        let mut confirmed = self.confirmed.lock();
        if confirmed.0.is_none_or(|before| before < start) {
            *confirmed = (Some(start), time::wall_ms() - start.elapsed().as_millis() as i64);
        }
    }

    /// How long ago memory was last known to be current. Before the first contact with etcd it is by the wall
    /// clock, but at least as long as this process runs.
    pub fn age(&self) -> Duration {
        match *self.confirmed.lock() {
            (Some(at), _) => at.elapsed(),
            (None, wall_ms) => {
                let by_wall = Duration::from_millis(u64::try_from(time::wall_ms() - wall_ms).unwrap_or(0));
                by_wall.max(self.started.elapsed())
            }
        }
    }

    /// The wall time at which memory was last known to be current.
    pub fn confirmed_ms(&self) -> i64 {
        self.confirmed.lock().1
    }

    /// Begins to write a snapshot to the drives. Returns its size, 0 if there are no drives.
    pub async fn save(&self) -> usize {
        self.snapshots.save(self.memory.content(), self.confirmed_ms()).await
    }

    /// Waits until memory has the changes up to `head`; makes the watch anew if it takes long.
    pub async fn reach(&self, head: u64, until: Instant) -> bool {
        let mut reached = self.memory.reached();
        loop {
            let step = (Instant::now() + STALL).min(until);
            if let Ok(Ok(_)) = time::timeout_at(step, reached.wait_for(|now| *now >= head)).await {
                return true;
            }
            if Instant::now() >= until {
                return false;
            }
            self.kick.notify_one();
        }
    }
}

fn utc(wall_ms: i64) -> String {
    let at = OffsetDateTime::from_unix_timestamp(wall_ms.div_euclid(1000));
    at.ok().and_then(|at| at.format(&Rfc3339).ok()).unwrap_or_else(|| format!("{wall_ms} ms"))
}
