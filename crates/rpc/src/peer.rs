//! Another node of the cluster, as this one calls it.
//!
//! Invariants: a request with a large payload, or for one, never uses the connection for small messages. The
//! bytes of all calls to a peer are bounded before any memory for them is taken; memory for a large answer is
//! taken before the request is sent, so that no answer waits for memory. Dropping a peer ends its tasks.
//!
//! Must not depend on: what methods mean.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use ashlar_environment::time::{Instant, timeout_at};
use ashlar_machine::Buf;
use bytes::Bytes;
use futures::future::BoxFuture;
use parking_lot::Mutex;
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::call::{Answer, Request};
use crate::connection::{Connection, NotBegun};
use crate::error::{Error, Result, Unsent};
use crate::frame::{MAX_BULK, MAX_HEAD, charge};
use crate::hello::Purpose;
use crate::limits::Transport;
use crate::link::{Link, Target};
use crate::statistics::{RoundTripSummary, RoundTrips};

/// What a peer said about itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Remote {
    /// The random number of its process.
    pub incarnation: u64,
    /// The newest feature level that its process can do.
    pub feature_level: u32,
}

/// Another node.
pub struct Peer {
    node: u16,
    transport: Arc<Transport>,
    address: Arc<Mutex<String>>,
    small: Link,
    bulk: Vec<Link>,
    turn: AtomicUsize,
    /// Bytes that calls may have in flight.
    budget: Semaphore,
    small_trips: Arc<RoundTrips>,
    bulk_trips: Arc<RoundTrips>,
}

impl Peer {
    /// Node `node` at an address (`HOST:PORT`). Connects when it is called for the first time. Must be made
    /// within a runtime, because its connections are tasks.
    #[must_use]
    pub fn new(transport: Arc<Transport>, node: u16, address: impl Into<String>) -> Peer {
        let address = Arc::new(Mutex::new(address.into()));
        let (small_trips, bulk_trips) = (Arc::<RoundTrips>::default(), Arc::<RoundTrips>::default());
        let link = |purpose, trips: &Arc<RoundTrips>| {
            Link::new(Target {
                transport: transport.clone(),
                node,
                address: address.clone(),
                purpose,
                trips: trips.clone(),
            })
        };
        let small = link(Purpose::Small, &small_trips);
        let count = transport.limits.bulk_connections;
        let bulk = (0..count).map(|_| link(Purpose::Bulk, &bulk_trips)).collect();
        let budget = Semaphore::new(transport.limits.in_flight_bytes.min(u32::MAX as usize));
        let turn = AtomicUsize::new(0);
        Peer { node, transport, address, small, bulk, turn, budget, small_trips, bulk_trips }
    }

    /// The number of the node.
    #[must_use]
    pub fn node(&self) -> u16 {
        self.node
    }

    /// Changes the address, for new connections.
    pub fn set_address(&self, address: impl Into<String>) {
        *self.address.lock() = address.into();
    }

    /// Sends a request and waits for its answer until the deadline. Dropping the future cancels the request.
    ///
    /// # Errors
    /// See [`Error`]: [`Error::is_not_executed`] tells whether it can be repeated without harm.
    pub fn call(&self, mut request: Request, deadline: Instant) -> BoxFuture<'_, Result<Answer>> {
        Box::pin(async move {
            let bulk: usize = request.bulk.iter().map(Bytes::len).sum();
            let expected = request.answer_limit;
            if request.head.len() > MAX_HEAD || bulk > MAX_BULK || expected > MAX_BULK {
                return Err(Error::NotSent(Unsent::TooLong("above the limits of a message")));
            }
            let is_bulk = bulk.max(expected) > self.transport.limits.bulk_threshold;
            let _budget = self.budget(charge(bulk) as usize + charge(expected) as usize, deadline).await?;
            let mut buf = match is_bulk && charge(expected) > 0 {
                true => Some(self.buf(expected, deadline).await?),
                false => None,
            };
            loop {
                let connection = self.connection(is_bulk, deadline).await?;
                match connection.call(request, &mut buf, deadline).await {
                    Ok(answer) => return Ok(answer),
                    Err(NotBegun::Failed(why)) => return Err(why),
                    Err(NotBegun::Retry(same)) => request = same,
                }
            }
        })
    }

    async fn budget(&self, bytes: usize, deadline: Instant) -> Result<Option<SemaphorePermit<'_>>> {
        if bytes == 0 {
            return Ok(None);
        }
        let count = bytes.min(self.transport.limits.in_flight_bytes) as u32;
        match timeout_at(deadline, self.budget.acquire_many(count)).await {
            Ok(Ok(permit)) => Ok(Some(permit)),
            Ok(Err(_)) => Err(Error::NotSent(Unsent::Closed)),
            Err(_) => Err(Error::NotSent(Unsent::NoCredit)),
        }
    }

    /// Memory for an answer.
    async fn buf(&self, len: usize, deadline: Instant) -> Result<Buf> {
        let pool = &self.transport.answers;
        if let Some(buf) = pool.try_get(len) {
            return Ok(buf);
        }
        timeout_at(deadline, pool.get(len)).await.map_err(|_| Error::NotSent(Unsent::NoCredit))
    }

    /// The connection for a call: of those for large messages, the one with the fewest calls.
    async fn connection(&self, is_bulk: bool, deadline: Instant) -> Result<Arc<Connection>> {
        if !is_bulk {
            return self.small.connection(deadline).await;
        }
        let mut best: Option<(usize, Arc<Connection>)> = None;
        let mut missing = None;
        // Calls that come before any connection is open wait for different ones.
        let first = self.turn.fetch_add(1, Ordering::Relaxed) % self.bulk.len().max(1);
        for link in self.bulk.iter().cycle().skip(first).take(self.bulk.len()) {
            let Some(connection) = link.current() else {
                missing = missing.or(Some(link));
                continue;
            };
            let load = connection.load();
            if best.as_ref().is_none_or(|(least, _)| load < *least) {
                best = Some((load, connection));
            }
        }
        match (best, missing) {
            (Some((load, connection)), missing) => {
                // The next call has one more to choose from.
                if let Some(link) = missing
                    && load > 0
                {
                    link.want();
                }
                Ok(connection)
            }
            (None, Some(link)) => match link.connection(deadline).await {
                Ok(connection) => Ok(connection),
                // One of the others may have been made meanwhile.
                Err(why) => self.bulk.iter().find_map(Link::current).ok_or(why),
            },
            (None, None) => Err(Error::NotSent(Unsent::Closed)),
        }
    }

    fn connections(&self) -> impl Iterator<Item = Arc<Connection>> + '_ {
        std::iter::once(&self.small).chain(&self.bulk).filter_map(Link::current)
    }

    /// Bytes of payload, and of answers that are waited for, of the calls in flight.
    #[must_use]
    pub fn in_flight_bytes(&self) -> usize {
        let all = self.transport.limits.in_flight_bytes.min(u32::MAX as usize);
        all.saturating_sub(self.budget.available_permits())
    }

    /// For how long the oldest request in flight has been unanswered.
    #[must_use]
    pub fn oldest(&self) -> Option<Duration> {
        self.connections().filter_map(|c| c.oldest()).min().map(|at| at.elapsed())
    }

    /// How long the peer has been silent although it was asked for a sign of life: zero if it answers, or if
    /// there is no connection.
    #[must_use]
    pub fn silent_for(&self) -> Duration {
        self.small.current().map_or(Duration::ZERO, |c| c.silent_for())
    }

    /// Whether there is a connection for small messages.
    #[must_use]
    pub fn is_connected(&self) -> bool {
        self.small.current().is_some()
    }

    /// Whether the last attempt to connect failed and no connection for small messages was made since: calls fail at
    /// once. False before the first attempt.
    #[must_use]
    pub fn is_unreachable(&self) -> bool {
        self.small.has_failed()
    }

    /// What the peer said about itself, if there is a connection.
    #[must_use]
    pub fn remote(&self) -> Option<Remote> {
        let connection = self.connections().next()?;
        let hello = &connection.remote;
        Some(Remote { incarnation: hello.incarnation, feature_level: hello.feature_level })
    }

    /// Round-trip times of calls with small payloads.
    #[must_use]
    pub fn small_round_trips(&self) -> RoundTripSummary {
        self.small_trips.summary()
    }

    /// Round-trip times of calls with large payloads.
    #[must_use]
    pub fn bulk_round_trips(&self) -> RoundTripSummary {
        self.bulk_trips.summary()
    }
}

impl std::fmt::Debug for Peer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Peer(node {} at {})", self.node, self.address.lock())
    }
}
