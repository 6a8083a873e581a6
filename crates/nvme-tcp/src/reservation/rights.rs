//! What hosts may do with a namespace.
//!
//! Must not depend on: other files of this crate.

/// The identifier of a host (HOSTID).
pub(crate) type HostId = [u8; 16];

/// What an I/O command does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Class {
    /// Read, Compare.
    Read,
    /// Write, Write Zeroes, Dataset Management, Flush.
    Write,
}

/// What hosts may do.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) enum Rights {
    /// Everything.
    #[default]
    Open,
    /// Some may do everything; the others read, or nothing.
    Reserved { hosts: Vec<HostId>, others_read: bool },
}

impl Rights {
    pub(crate) fn allow(&self, host: &HostId, class: Class) -> bool {
        match self {
            Rights::Open => true,
            Rights::Reserved { hosts, others_read } => {
                (*others_read && class == Class::Read) || hosts.contains(host)
            }
        }
    }
}
