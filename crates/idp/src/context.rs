//! [`ProviderContext`]: what the providers need of the server.
//!
//! Must not depend on: providers, requests.

use std::sync::Arc;

use ashlar_iam::Iam;

use crate::{Environment, Web};

/// A clock that returns milliseconds since 1970.
pub type Clock = Arc<dyn Fn() -> i64 + Send + Sync>;

/// What the providers need of the server.
#[derive(Clone)]
pub struct ProviderContext {
    /// The identity store: it stores settings, and learns which providers are configured.
    pub iam: Arc<Iam>,
    /// Settings of the environment.
    pub environment: Environment,
    /// Sends HTTP requests to providers.
    pub web: Arc<dyn Web>,
    /// The clock.
    pub clock: Clock,
    /// Certificate authorities in PEM that are trusted for client certificates and for providers' servers.
    pub authorities: Vec<Vec<u8>>,
}
