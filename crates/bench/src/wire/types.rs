//! Requests, answers and faults: the types between a load and the client.

use std::{
    io::{self, ErrorKind},
    sync::Arc,
    time::{Duration, Instant},
};

use ashlar_checksum::Algorithm;

use super::{Host, Keys, content::Slice};

/// How bodies of objects are covered by the signature.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Payload {
    /// SHA-256 of the body in the head.
    Signed,
    /// `UNSIGNED-PAYLOAD`.
    Unsigned,
    /// `STREAMING-AWS4-HMAC-SHA256-PAYLOAD`: signed chunks of 64 KiB.
    Streaming,
    /// The same with a signed checksum after the last chunk.
    StreamingTrailer,
    /// `STREAMING-UNSIGNED-PAYLOAD-TRAILER`: a checksum follows the data, as the AWS SDKs of 2025
    /// and later do over TLS.
    Trailer,
}

/// What all workers share.
#[derive(Clone)]
pub struct Settings {
    /// Where requests go.
    pub hosts: Vec<Host>,
    /// Needed if a host speaks TLS.
    pub tls: Option<Arc<rustls::ClientConfig>>,
    /// `None` sends anonymous requests.
    pub keys: Option<Keys>,
    /// How long nothing may move before a request has timed out.
    pub timeout: Duration,
    /// How bodies of objects are signed.
    pub payload: Payload,
    /// The checksum sent with objects; the trailing modes need one.
    pub checksum: Option<Algorithm>,
    /// Whether the bucket goes into the host's name.
    pub virtual_host: bool,
}

/// The methods that are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Methods {
    /// Read.
    Get,
    /// Read the head.
    Head,
    /// Write.
    Put,
    /// Everything else.
    Post,
    /// Remove.
    Delete,
}

impl Methods {
    pub(super) fn name(self) -> &'static str {
        match self {
            Methods::Get => "GET",
            Methods::Head => "HEAD",
            Methods::Put => "PUT",
            Methods::Post => "POST",
            Methods::Delete => "DELETE",
        }
    }
}

/// One request.
#[derive(Clone, Copy)]
pub struct Request<'a> {
    /// Its method.
    pub method: Methods,
    /// The position of its host in [`Settings::hosts`].
    pub host: usize,
    /// Its bucket.
    pub bucket: &'a str,
    /// The key, percent-encoded, after a slash; `/` for the bucket itself.
    pub path: &'a str,
    /// The canonical query: encoded, sorted.
    pub query: &'a str,
    /// Further headers, names in lower case; they are signed.
    pub headers: &'a [(&'a str, &'a str)],
    /// The body.
    pub body: Option<Slice<'a>>,
    /// Whether the body is an object's and is sent in the form of [`Settings::payload`].
    pub object: bool,
    /// Whether it may be sent again if a kept connection turns out to be closed.
    pub again: bool,
}

impl<'a> Request<'a> {
    /// A request without body, query or further headers that may be repeated.
    pub fn new(method: Methods, host: usize, bucket: &'a str, path: &'a str) -> Request<'a> {
        Request {
            method,
            host,
            bucket,
            path,
            query: "",
            headers: &[],
            body: None,
            object: false,
            again: true,
        }
    }
}

/// What becomes of a good answer's body.
#[derive(Clone, Copy)]
pub enum Sink<'a> {
    /// Counted.
    Discard,
    /// Compared byte by byte.
    Compare(Slice<'a>),
    /// Kept in [`super::Caller::kept`], at most so many bytes; more is a malformed answer.
    Keep(usize),
}

/// The outcome of an answer.
#[derive(Clone, Copy, Debug)]
pub struct Answer {
    /// The status code.
    pub status: u16,
    /// Bytes of its body.
    pub bytes: u64,
    /// Of those, how many were compared and right.
    pub verified: u64,
    /// Just before the request was sent.
    pub sent: Instant,
    /// When the first bytes of the body were there; `None` without a body.
    pub first_byte: Option<Instant>,
    /// When the last byte was.
    pub ended: Instant,
}

/// Why there is no usable answer.
#[derive(Debug, PartialEq, Eq)]
pub enum Fault {
    /// Nothing moved for too long.
    Timeout,
    /// No connection, or it broke.
    Connection(ErrorKind),
    /// The answer is no HTTP, or too long.
    Malformed(&'static str),
    /// The body is not what was written.
    WrongBytes,
}

impl From<io::Error> for Fault {
    fn from(error: io::Error) -> Fault {
        match error.kind() {
            ErrorKind::WouldBlock | ErrorKind::TimedOut => Fault::Timeout,
            ErrorKind::InvalidData => Fault::Malformed("too long a head, or no TLS"),
            kind => Fault::Connection(kind),
        }
    }
}

impl Fault {
    /// The class it is counted under.
    pub fn class(&self) -> &'static str {
        match self {
            Fault::Timeout => "timeout",
            Fault::Connection(_) => "connection",
            Fault::Malformed(_) => "malformed-answer",
            Fault::WrongBytes => "wrong-bytes",
        }
    }
}
