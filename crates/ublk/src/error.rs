//! The error type of the crate.
//!
//! Must not depend on: other files of this crate.

use std::io;
use std::path::PathBuf;

/// Why virtual drives cannot be block devices of this machine.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no driver: load it.
    #[error("{path}: this kernel has no ublk driver in use: load it (modprobe ublk_drv; Linux 6.5 or newer)")]
    NoDriver {
        /// Where it would be.
        path: &'static str,
    },
    /// The driver is too old: another kernel is needed.
    #[error("the ublk driver of this kernel lacks {missing}: Linux 6.5 or newer is needed")]
    OldDriver {
        /// What it lacks.
        missing: &'static str,
    },
    /// The system does not permit it: use another account, or give it to the service or the container.
    #[error("ublk is not permitted: {0}; it needs root (CAP_SYS_ADMIN) and access to /dev/ublk-control")]
    Denied(String),
    /// This process may not use io_uring: permit it.
    #[error(
        "ublk needs io_uring, which this system forbids: {0} (see sysctl kernel.io_uring_disabled, and the filter of system calls of \
         the container or service)"
    )]
    IoUring(io::Error),
    /// The folder of the links cannot be used: name another one.
    #[error("{path}: {error}")]
    Folder {
        /// The folder.
        path: PathBuf,
        /// The error of the system.
        error: io::Error,
    },
    /// A device cannot be made, or not be taken over.
    #[error("{what}: {error}")]
    Device {
        /// The device, and what was tried.
        what: String,
        /// The error of the system.
        error: io::Error,
    },
    /// A device cannot be used as it is; the reason says what to do.
    #[error("{0}")]
    Refused(String),
}
