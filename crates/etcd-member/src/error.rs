//! The error type of the crate. Its variants follow what the operator can do.
//!
//! Must not depend on: how members are run.

/// Short for results of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a member cannot be run, or its cluster not be asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A setting is wrong.
    #[error("{0}")]
    Settings(String),
    /// The program etcd is missing, too old, or cannot be run.
    #[error("{0}")]
    Program(String),
    /// The folder of the member cannot be used.
    #[error("the folder of the etcd member: {0}")]
    Folder(String),
    /// Certificates cannot be made.
    #[error("certificates of the etcd members: {0}")]
    Certificate(String),
    /// No member answers, or none that has a quorum.
    #[error("{0}")]
    Unavailable(String),
    /// etcd refuses a change of its members.
    #[error("etcd refuses: {0}")]
    Refused(String),
}
