//! What a request is told about its connection.
//!
//! Must not depend on: how connections are accepted and closed.

use std::net::SocketAddr;

use ashlar_s3::Watch;

/// What is known about the client of a connection.
pub struct Peer {
    /// Its address.
    pub address: SocketAddr,
    /// Whether the connection uses TLS.
    pub tls: bool,
    /// The client's certificates in DER, its own first; empty unless TLS asked for them.
    pub certificates: Vec<Vec<u8>>,
    /// Finds request heads in the traffic, and notes whether a request was permitted.
    pub watch: Watch,
}
