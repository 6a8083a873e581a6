//! The error type of the crate.
//!
//! Must not depend on: other files of this crate.

use std::io;

/// Why a server could not start, a connection ended, or a request to a namespace of a target failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Nothing can listen there: name another address, or end the program that has this one.
    #[error("cannot listen at {address}: {error}")]
    Listen {
        /// The address.
        address: String,
        /// The error of the system.
        error: io::Error,
    },
    /// The connection broke: connect again.
    #[error("{0}")]
    Connection(#[from] io::Error),
    /// The other end does not follow the protocol: another host, or target, is needed. It is told in a `TermReq`.
    #[error("the other end broke the protocol: {what} (fatal error status {fes}, at {at})")]
    Protocol {
        /// What is wrong.
        what: &'static str,
        /// The fatal error status of the `TermReq` (TCP 3.6.2.4).
        fes: u16,
        /// The byte of the header that is wrong, where the status has one.
        at: u32,
    },
    /// The target ended the connection with a `C2HTermReq`: it says that this host broke the protocol.
    #[error("the target found an error of this host (fatal error status {fes}, at {at})")]
    Ended {
        /// The fatal error status (TCP 3.6.2.5).
        fes: u16,
        /// The byte of the header that is wrong, where the status has one.
        at: u32,
    },
    /// It is no address of a namespace: correct it.
    #[error("{text:?} is no address nvme-tcp://HOST:PORT/NQN/NSID: {what}")]
    Address {
        /// What was given.
        text: String,
        /// What is wrong with it.
        what: &'static str,
    },
    /// The target does not let this host use the subsystem or the namespace, or has no such: name another one. Some targets say so
    /// while they start.
    #[error("{0}")]
    Refused(String),
    /// The target has not been reached for too long: look at it, and at the network.
    #[error("{namespace} has not been reached for {seconds} s: {why}")]
    Unreachable {
        /// The address of the namespace.
        namespace: String,
        /// Seconds since the connection was lost.
        seconds: u64,
        /// Why the last attempt failed.
        why: String,
    },
    /// The target answered, and did not do it: look at the target.
    #[error("{namespace}: {operation}: {why}")]
    Failed {
        /// The address of the namespace.
        namespace: String,
        /// The operation.
        operation: &'static str,
        /// The status, in words, or what else is wrong.
        why: String,
    },
    /// Another host has reserved the namespace: end its use there, or remove the reservation at the target.
    #[error("{namespace}: {operation}: another host has reserved the namespace (Reservation Conflict)")]
    Reserved {
        /// The address of the namespace.
        namespace: String,
        /// The operation.
        operation: &'static str,
    },
    /// The range is not one of whole blocks inside of the namespace: ask for another one.
    #[error("the range {at}+{len} is not one of whole blocks in the {size} bytes of the namespace")]
    Range {
        /// First byte.
        at: u64,
        /// Bytes.
        len: u64,
        /// Bytes of the namespace.
        size: u64,
    },
    /// It is no secret of DH-HMAC-CHAP: correct it. The text of the secret is not in the error.
    #[error("no secret of DH-HMAC-CHAP (DHHC-1:HH:BASE64:): {what}")]
    Secret {
        /// What is wrong with it.
        what: &'static str,
    },
    /// It is no key of TLS: correct it. The text of the key is not in the error.
    #[error("no key of TLS (NVMeTLSkey-1:HH:BASE64:): {what}")]
    TlsKey {
        /// What is wrong with it.
        what: &'static str,
    },
    /// The hosts of a target cannot be read or changed: correct the file, or its permissions.
    #[error("hosts of the NVMe/TCP target: {0}")]
    Hosts(String),
}
