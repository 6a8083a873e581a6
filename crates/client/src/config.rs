//! How to reach an endpoint: address, credentials, signing of payloads, TLS, patience.
//!
//! Invariant: nothing here prints a secret.
//!
//! Must never know: where the values come from (files, environment, flags).

use std::{fmt, time::Duration};

use ashlar_checksum::Algorithm;

/// An access key with its secret.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    /// The access key id.
    pub access_key: String,
    /// The secret; never shown.
    pub secret_key: String,
    /// The token of temporary credentials.
    pub session_token: Option<String>,
}

impl Credentials {
    /// Lasting credentials.
    pub fn new(access_key: impl Into<String>, secret_key: impl Into<String>) -> Credentials {
        Credentials { access_key: access_key.into(), secret_key: secret_key.into(), session_token: None }
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials").field("access_key", &self.access_key).finish_non_exhaustive()
    }
}

/// Where the bucket's name goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Addressing {
    /// Virtual-host style for Amazon's own endpoints and names that allow it, path style otherwise.
    #[default]
    Auto,
    /// `http://host/bucket/key`.
    Path,
    /// `http://bucket.host/key`.
    VirtualHost,
}

/// How the bytes of a payload are covered by the signature.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Payload {
    /// Object data goes with a trailing CRC64NVME, everything else with its SHA-256.
    #[default]
    Auto,
    /// `x-amz-content-sha256` is the SHA-256 of the payload. A source that can be read twice is
    /// read twice; one that cannot falls back to [`Payload::SignedChunks`].
    Signed,
    /// `STREAMING-AWS4-HMAC-SHA256-PAYLOAD`: every chunk of 64 KiB carries a signature, as
    /// minio-go and warp do over plain HTTP.
    SignedChunks,
    /// `STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER`: signed chunks, then a signed checksum.
    SignedTrailer(Algorithm),
    /// `UNSIGNED-PAYLOAD`.
    Unsigned,
    /// `STREAMING-UNSIGNED-PAYLOAD-TRAILER`: a checksum follows the data, as today's AWS SDKs do.
    Trailer(Algorithm),
}

/// Whom to trust over TLS.
#[derive(Clone, Debug, Default)]
pub struct Tls {
    /// Accept any certificate: for tests only, since anyone between can then read everything.
    pub insecure: bool,
    /// Certificate authorities in PEM; where there is one, the system's are not used.
    pub authorities: Vec<Vec<u8>>,
}

/// Everything a [`crate::Client`] is made from.
#[derive(Clone, Debug)]
pub struct Config {
    /// `http://host:port` or `https://host:port`; nothing may follow.
    pub endpoint: String,
    /// The region that signatures name.
    pub region: String,
    /// `None` sends anonymous requests.
    pub credentials: Option<Credentials>,
    /// Where the bucket's name goes.
    pub addressing: Addressing,
    /// How payloads are signed unless an operation says otherwise.
    pub payload: Payload,
    /// Whom to trust over TLS.
    pub tls: Tls,
    /// How often a request is sent at most, at least 1.
    pub attempts: u32,
    /// How long making a connection may take.
    pub connect_timeout: Duration,
    /// How long nothing may move before a request is given up.
    pub idle_timeout: Duration,
    /// How many idle connections are kept per host.
    pub max_idle: usize,
    /// The `user-agent` header.
    pub user_agent: String,
}

impl Config {
    /// The defaults for an endpoint.
    pub fn new(endpoint: impl Into<String>, credentials: Option<Credentials>) -> Config {
        Config {
            endpoint: endpoint.into(),
            region: "us-east-1".into(),
            credentials,
            addressing: Addressing::Auto,
            payload: Payload::Auto,
            tls: Tls::default(),
            attempts: 4,
            connect_timeout: Duration::from_secs(10),
            idle_timeout: Duration::from_secs(60),
            max_idle: 64,
            user_agent: concat!("ashlar/", env!("CARGO_PKG_VERSION")).into(),
        }
    }
}
