//! A lean, blocking HTTP/1.1 client for S3 loads: one [`Line`] per worker and host, no allocation
//! per request once its buffers have grown.
//!
//! * [`Host`] is the destination of requests; [`expand`] parses `host{1...4}`.
//! * [`Request`] is one request with everything that is signed; [`Caller`] sends it and reads the
//!   [`Answer`].
//! * [`Signer`] is SigV4 with the derived key of the day kept.
//!
//! Invariants: the signed bytes are the sent bytes; a connection is used again only after its answer was read
//! to the end; a request is sent a second time only if a kept connection turned out to be closed before any
//! byte of an answer, and only if the caller allows it.
//!
//! The module does not use the `client` crate: that is asynchronous, allocates per request and retries, which
//! costs more CPU than the measured operation. Here blocking threads need one `write` and one `read` per
//! small request. The `client` crate does everything that is not measured; this module uses only its
//! percent-encoding and the strings to sign of SigV4, which are appended to buffers.
//!
//! Must not depend on: loads, statistics.

mod caller;
mod content;
mod framed;
mod head;
mod host;
mod line;
mod read;
mod sign;
mod tls;
mod types;

pub use caller::Caller;
pub use content::{Content, Pool, Shape, Slice};
pub use head::{Framing, Head, parse};
pub use host::{Host, expand};
pub use line::{Buffer, Line};
pub use sign::{Keys, Signer};
pub use tls::client_config;
pub use types::{Answer, Fault, Methods, Payload, Request, Settings, Sink};

pub(crate) use ashlar_client::{hex_into, percent_encode_into as encode_into};
pub(crate) use read::between;
