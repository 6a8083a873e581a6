//! Limits of connections, and what both ends of them share: who this process is.
//!
//! Invariant: every queue and every buffer of this crate is bounded by one of these limits.
//!
//! Must not depend on: sockets.

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use ashlar_environment::{random, thread};
use ashlar_format::DeploymentId;
use ashlar_machine::BufferPool;

use crate::credentials::Credentials;
use crate::error::{Error, Result};
use crate::frame::{MAX_BULK, MAX_VERSION, MIN_VERSION};
use crate::hello::{Hello, Purpose};

/// Limits of connections.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Time for a connection to be made, and for the other end to prove who it is.
    pub handshake: Duration,
    /// Accepted connections that have not proved who they are. The oldest gives way to a new one.
    pub unauthenticated: usize,
    /// Accepted connections of one node. The oldest gives way to a new one.
    pub connections_per_peer: usize,
    /// Requests in flight on one accepted connection.
    pub requests: u32,
    /// Bytes of payload of requests in the buffers of one accepted connection for small messages, and bytes
    /// of the answers to them.
    pub small_window: u32,
    /// The same of one for large messages; at least [`MAX_BULK`].
    pub bulk_window: u32,
    /// Connections for large messages to one peer.
    pub bulk_connections: usize,
    /// Requests with more payload than this, or for more, use these.
    pub bulk_threshold: usize,
    /// Bytes of payload, and of answers that are waited for, of all calls to one peer.
    pub in_flight_bytes: usize,
    /// Time without a message after which a ping is sent.
    pub ping: Duration,
    /// A connection ends when it is silent for this long although something should have come.
    pub silence: Duration,
    /// A connection is replaced by a new one after this time.
    pub renew_after: Duration,
    /// The first and the longest wait after an attempt to connect failed.
    pub retry: (Duration, Duration),
}

impl Default for Limits {
    fn default() -> Limits {
        let cores = thread::available_parallelism().map_or(1, std::num::NonZero::get);
        Limits {
            handshake: Duration::from_secs(5),
            unauthenticated: 128,
            connections_per_peer: 32,
            requests: 1024,
            small_window: 4 << 20,
            bulk_window: 32 << 20,
            bulk_connections: cores.clamp(1, 4),
            bulk_threshold: 64 << 10,
            in_flight_bytes: 128 << 20,
            ping: Duration::from_secs(1),
            silence: Duration::from_secs(10),
            renew_after: Duration::from_secs(6 * 3600),
            retry: (Duration::from_millis(50), Duration::from_secs(2)),
        }
    }
}

/// How a connection is protected.
#[derive(Clone)]
pub(crate) enum Security {
    Tls(Arc<Credentials>),
    /// Not at all: for measurements.
    Plain(DeploymentId, u16),
}

/// This process as a node: what all its connections have in common.
pub struct Transport {
    pub(crate) security: Security,
    pub(crate) limits: Limits,
    /// For payloads of requests that others send.
    pub(crate) requests: BufferPool,
    /// For payloads of answers.
    pub(crate) answers: BufferPool,
    incarnation: u64,
    /// The feature levels that this process can do.
    levels: RangeInclusive<u32>,
    versions: (u8, u8),
}

impl Transport {
    /// The node with these credentials, whose process can do these feature levels.
    ///
    /// Payloads of requests that this node receives come from the pool `requests`, those of answers that it
    /// waits for from `answers`. They must not be one pool: if requests of others waited for memory that calls
    /// to others hold, two nodes could wait for each other.
    ///
    /// # Errors
    /// [`Error::Identity`] if the system has no random bytes.
    pub fn new(
        credentials: Arc<Credentials>,
        limits: Limits,
        levels: RangeInclusive<u32>,
        requests: BufferPool,
        answers: BufferPool,
    ) -> Result<Arc<Transport>> {
        Transport::make(Security::Tls(credentials), limits, levels, requests, answers)
    }

    /// A node without TLS: anybody can say that they are any node. For measuring what TLS costs only.
    ///
    /// # Errors
    /// As for [`Transport::new`].
    #[doc(hidden)]
    pub fn insecure_without_tls(
        cluster: DeploymentId,
        node: u16,
        limits: Limits,
        requests: BufferPool,
        answers: BufferPool,
    ) -> Result<Arc<Transport>> {
        Transport::make(Security::Plain(cluster, node), limits, 0..=0, requests, answers)
    }

    fn make(
        security: Security,
        mut limits: Limits,
        levels: RangeInclusive<u32>,
        requests: BufferPool,
        answers: BufferPool,
    ) -> Result<Arc<Transport>> {
        limits.bulk_window = limits.bulk_window.max(MAX_BULK as u32);
        limits.small_window = limits.small_window.max(limits.bulk_threshold as u32);
        limits.bulk_connections = limits.bulk_connections.max(1);
        let incarnation = random::u64().map_err(|e| Error::identity("incarnation", e))?;
        let versions = (MIN_VERSION, MAX_VERSION);
        Ok(Arc::new(Transport { security, limits, requests, answers, incarnation, levels, versions }))
    }

    /// The same node with other protocol versions, for tests.
    ///
    /// # Errors
    /// As for [`Transport::new`].
    #[doc(hidden)]
    pub fn with_versions(&self, min: u8, max: u8) -> Result<Arc<Transport>> {
        let incarnation = random::u64().map_err(|e| Error::identity("incarnation", e))?;
        Ok(Arc::new(Transport {
            security: self.security.clone(),
            limits: self.limits.clone(),
            requests: self.requests.clone(),
            answers: self.answers.clone(),
            incarnation,
            levels: self.levels.clone(),
            versions: (min, max),
        }))
    }

    /// The same node with other feature levels, for tests.
    ///
    /// # Errors
    /// As for [`Transport::new`].
    #[doc(hidden)]
    pub fn with_levels(&self, levels: RangeInclusive<u32>) -> Result<Arc<Transport>> {
        let (limits, pools) = (self.limits.clone(), (self.requests.clone(), self.answers.clone()));
        Transport::make(self.security.clone(), limits, levels, pools.0, pools.1)
    }

    /// The cluster and the number of this node.
    #[must_use]
    pub fn node(&self) -> (DeploymentId, u16) {
        match &self.security {
            Security::Tls(credentials) => {
                let identity = credentials.identity();
                (identity.cluster(), identity.node())
            }
            Security::Plain(cluster, node) => (*cluster, *node),
        }
    }

    /// The random number of this process.
    #[must_use]
    pub fn incarnation(&self) -> u64 {
        self.incarnation
    }

    /// What this node says to another one.
    pub(crate) fn hello(&self, to: u16, purpose: Purpose, window: u32, requests: u32) -> Hello {
        let (cluster, from) = self.node();
        let (min_version, max_version) = self.versions;
        Hello {
            cluster,
            from,
            to,
            incarnation: self.incarnation,
            min_version,
            max_version,
            purpose,
            feature_level: *self.levels.end(),
            window,
            requests,
            oldest_level: *self.levels.start(),
        }
    }

    pub(crate) fn credentials(&self) -> Option<&Arc<Credentials>> {
        match &self.security {
            Security::Tls(credentials) => Some(credentials),
            Security::Plain(..) => None,
        }
    }
}

impl std::fmt::Debug for Transport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (cluster, node) = self.node();
        write!(f, "Transport(node {node} of {cluster})")
    }
}
