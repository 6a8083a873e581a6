//! Keys for encryption at rest. Keys themselves are never answered.

use serde::Serialize;
use utoipa::ToSchema;

/// Where keys are, and whether they can be used.
#[derive(Serialize, Default, ToSchema)]
pub struct EncryptionStatus {
    /// `builtin`, `vault` or `kes`; empty: no keys are configured.
    pub driver: String,
    /// Address of the key server, if there is one; several, separated by commas.
    pub endpoint: String,
    /// The key that encrypts when nobody names one.
    pub default_key: String,
    /// The default key has just sealed and opened something.
    pub works: bool,
    /// Why it could not.
    pub problem: Option<String>,
}

/// A named key.
#[derive(Serialize, ToSchema)]
pub struct EncryptionKey {
    pub name: String,
    /// The newest version; 0: the key server did not say.
    pub version: u32,
    /// Milliseconds since 1970; 0: the key server did not say.
    pub created_ms: i64,
    /// It encrypts when nobody names one.
    pub default: bool,
}

/// The named keys.
#[derive(Serialize, ToSchema)]
pub struct EncryptionKeyList {
    pub keys: Vec<EncryptionKey>,
}

/// A pass that seals envelopes anew.
#[derive(Serialize, Default, Clone, ToSchema)]
pub struct Rewrap {
    pub bucket: String,
    pub prefix: String,
    pub running: bool,
    /// Versions looked at, and those that were sealed anew.
    pub looked: u64,
    pub sealed: u64,
    /// Versions that could not be.
    pub failed: u64,
    pub last_failure: Option<String>,
    /// What ended the pass early.
    pub problem: Option<String>,
}
