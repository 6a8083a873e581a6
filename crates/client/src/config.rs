//! The configuration of a client: address, credentials, signing of payloads, TLS, timeouts.
//!
//! Invariant: nothing here prints a secret.
//!
//! Must not depend on: the source of the values (files, environment, flags).

use std::{fmt, time::Duration};

use ashlar_checksum::Algorithm;

/// An access key with its secret.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    /// The access key id.
    pub access_key: String,
    /// The secret; never printed.
    pub secret_key: String,
    /// The token of temporary credentials.
    pub session_token: Option<String>,
}

impl Credentials {
    /// Permanent credentials.
    pub fn new(access_key: impl Into<String>, secret_key: impl Into<String>) -> Credentials {
        Credentials { access_key: access_key.into(), secret_key: secret_key.into(), session_token: None }
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials").field("access_key", &self.access_key).finish_non_exhaustive()
    }
}

/// Where requests have the name of the bucket.
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

/// How the signature covers the payload.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Payload {
    /// Object data is sent with a trailing CRC64NVME, everything else with its SHA-256.
    #[default]
    Auto,
    /// `x-amz-content-sha256` is the SHA-256 of the payload. A source that can be read again is read twice; a
    /// stream uses [`Payload::SignedChunks`].
    Signed,
    /// `STREAMING-AWS4-HMAC-SHA256-PAYLOAD`: every chunk of 64 KiB carries a signature, as
    /// minio-go and warp do over plain HTTP.
    SignedChunks,
    /// `STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER`: signed chunks, then a signed checksum.
    SignedTrailer(Algorithm),
    /// `UNSIGNED-PAYLOAD`.
    Unsigned,
    /// `STREAMING-UNSIGNED-PAYLOAD-TRAILER`: a checksum follows the data, as in current AWS SDKs.
    Trailer(Algorithm),
}

/// Which certificates are accepted.
#[derive(Clone, Debug, Default)]
pub struct Tls {
    /// Accept any certificate. For tests only: anyone on the network path can then read all data.
    pub insecure: bool,
    /// Certificate authorities in PEM; if there are any, the system's are not used.
    pub authorities: Vec<Vec<u8>>,
}

/// The configuration of a [`crate::Client`].
#[derive(Clone, Debug)]
pub struct Config {
    /// `http://host:port` or `https://host:port`, without a path.
    pub endpoint: String,
    /// The region in signatures.
    pub region: String,
    /// `None` sends anonymous requests.
    pub credentials: Option<Credentials>,
    /// Where requests have the name of the bucket.
    pub addressing: Addressing,
    /// How payloads are signed, unless an operation requires another way.
    pub payload: Payload,
    /// Which certificates are accepted.
    pub tls: Tls,
    /// Maximum number of attempts per request, at least 1.
    pub attempts: u32,
    /// Time limit for connecting.
    pub connect_timeout: Duration,
    /// Time without progress after which a request is aborted.
    pub idle_timeout: Duration,
    /// Maximum number of idle connections per host.
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
