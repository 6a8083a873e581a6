//! What the room needs of the program around it.
//!
//! Must never know: who uses it.

use std::sync::Arc;

use ashlar_iam::Iam;

use crate::{Environment, Web};

/// Time, in milliseconds since 1970.
pub type Clock = Arc<dyn Fn() -> i64 + Send + Sync>;

/// What the room needs of the program around it.
#[derive(Clone)]
pub struct Around {
    /// Where settings are stored, and who has to know whom to trust.
    pub iam: Arc<Iam>,
    /// Settings of the environment.
    pub environment: Environment,
    /// How providers are asked over HTTP.
    pub web: Arc<dyn Web>,
    /// What time it is.
    pub clock: Clock,
    /// Certificates in PEM that may vouch for clients and for servers that are asked.
    pub authorities: Vec<Vec<u8>>,
}
