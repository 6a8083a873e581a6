//! The error type of the crate. Its variants follow what the operator can do.
//!
//! Must not depend on: how requests are sent.

/// Short for results of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// Why etcd cannot be used as the control store. None of them changed anything.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A setting is wrong.
    #[error("etcd: {0}")]
    Settings(String),
    /// No endpoint answers.
    #[error("etcd cannot be reached: {0}")]
    Unreachable(String),
    /// A certificate is not accepted: etcd's, or this program's by etcd.
    #[error("etcd cannot be reached, because a certificate is not accepted: {0}")]
    Certificate(String),
    /// Members answer, but they have no leader.
    #[error("etcd has no quorum: {0}")]
    NoQuorum(String),
    /// An etcd without what this driver needs.
    #[error("etcd is too old: {0}; this program needs 3.4 or later")]
    TooOld(String),
    /// User or password.
    #[error("etcd does not accept the user: {0}")]
    Authentication(String),
    /// The user has no permission for the keys.
    #[error("etcd denies access: {0}; the user needs read and write permission for the prefix {1}")]
    Denied(String, String),
    /// etcd accepts no writes because its space is used up.
    #[error(
        "etcd is out of space and read-only (NOSPACE): {0}; compact, defragment, then `etcdctl alarm disarm`"
    )]
    Full(String),
    /// The content is larger than its bound.
    #[error("the control store in etcd: {0} is too large")]
    TooLarge(&'static str),
    /// There is no store of this name yet.
    #[error("etcd holds no cluster named {0}")]
    NotCreated(String),
    /// There is a store of this name already.
    #[error("etcd holds a cluster named {0} already")]
    Exists(String),
    /// The store of this name belongs to another deployment.
    #[error("the cluster named {name} in etcd is deployment {found}, not {expected}")]
    OtherDeployment {
        /// The name of the cluster.
        name: String,
        /// The deployment in etcd.
        found: String,
        /// The deployment that was expected.
        expected: String,
    },
    /// What etcd holds is not a later state of what this node knows.
    #[error(
        "etcd holds another or an older state than this node knows: {0}. Nothing is rolled back. Correct the \
         endpoints, or restore etcd from a newer backup (docs/control-store.md)"
    )]
    Replaced(String),
    /// The store was restored from a state that this node's is a part of.
    #[error(
        "etcd was restored from what the drives kept of it: restart this node, which then goes on with it"
    )]
    Restored,
    /// The store was restored from an older state than this node knows.
    #[error(
        "etcd was restored from revision {restored}, and this node knows revision {known}: what was changed in between is \
         missing in it. Stop all nodes, empty etcd, and repeat `ashlar cluster restore` with the folders of this node; or, \
         if those changes may be lost, remove etcd.0 and etcd.1 from them (docs/control-store.md)"
    )]
    RestoredFromOlder {
        /// The revision that it was restored from.
        restored: u64,
        /// The revision that this node knows, of the same store.
        known: u64,
    },
    /// The store is being made or restored.
    #[error(
        "the control store of the cluster {0} in etcd is being restored, and is not complete: wait, or repeat `ashlar \
         cluster restore` if it was interrupted"
    )]
    Incomplete(String),
    /// Nodes of the cluster run.
    #[error("nodes of the cluster run and are announced in etcd: {0:?}; stop them first")]
    Running(Vec<u16>),
    /// There is no valid snapshot.
    #[error("no snapshot of the control store can be read")]
    NoSnapshot,
    /// Something in etcd cannot be decoded.
    #[error("etcd: {0}")]
    Corrupt(String),
    /// Any other refusal.
    #[error("etcd: {0}")]
    Refused(String),
}

impl From<Error> for ashlar_cluster::Error {
    fn from(error: Error) -> ashlar_cluster::Error {
        match error {
            Error::TooLarge(what) => ashlar_cluster::Error::TooLarge(what),
            Error::NotCreated(_) => ashlar_cluster::Error::NotCreated,
            Error::Exists(_) => ashlar_cluster::Error::Exists,
            Error::Corrupt(what) => ashlar_cluster::Error::Corrupt(what),
            other => ashlar_cluster::Error::Unavailable(other.to_string()),
        }
    }
}
