//! Types for encryption keys at rest. No answer contains a key.

use serde::Serialize;
use utoipa::ToSchema;

/// The state of the encryption keys.
#[derive(Serialize, Default, ToSchema)]
pub struct EncryptionStatus {
    /// `builtin`, `vault` or `kes`; empty if no keys are configured.
    pub driver: String,
    /// Addresses of the key servers, separated by commas; empty for the built-in driver.
    pub endpoint: String,
    /// The key that encrypts when a request names none.
    pub default_key: String,
    /// Whether the default key has just sealed and opened a test value.
    pub works: bool,
    /// Why the default key does not work.
    pub problem: Option<String>,
}

/// A named key.
#[derive(Serialize, ToSchema)]
pub struct EncryptionKey {
    pub name: String,
    /// The newest version; 0 if the key server does not report it.
    pub version: u32,
    /// Milliseconds since 1970; 0 if the key server does not report it.
    pub created_ms: i64,
    /// Whether this is the default key.
    pub default: bool,
}

/// The named keys.
#[derive(Serialize, ToSchema)]
pub struct EncryptionKeyList {
    pub keys: Vec<EncryptionKey>,
}

/// A pass that seals envelopes again under another key or version.
#[derive(Serialize, Default, Clone, ToSchema)]
pub struct Rewrap {
    pub bucket: String,
    pub prefix: String,
    pub running: bool,
    /// Versions examined, and those whose envelope was sealed again.
    pub looked: u64,
    pub sealed: u64,
    /// Versions whose envelope could not be sealed again.
    pub failed: u64,
    pub last_failure: Option<String>,
    /// Why the pass ended early.
    pub problem: Option<String>,
}
