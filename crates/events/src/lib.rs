//! Bucket notifications: sends events about changes of objects to configured targets, without losing any.
//!
//! | file | what it holds |
//! |---|---|
//! | `name` | the names of events, with wildcards |
//! | `arn`, `rules` | names of targets; the notification configuration of a bucket, in a neutral form |
//! | `event` | one event, and its record in JSON |
//! | `settings` | settings of targets, with MinIO's names, from stored settings or the environment |
//! | `source`, `dead_letter_store` | the traits that delivery needs: the change feed, the store of dead letters |
//! | `store` | both traits over the object store |
//! | `target`, `wire` | one file per protocol; connections |
//! | `worker`, `target_manager` | delivery to one target; all targets |
//!
//! Layers, each of which uses only those before it: names, events and rules; `settings` and `wire`; protocols
//! (`target`: results of sending, the trait of a protocol, one file per protocol, [`target::Target`]);
//! `worker`; `target_manager`. The error type of the crate is in this file and uses nothing.
//!
//! Invariants: an event leaves the feed only after its target has acknowledged it, or after it is stored as a
//! dead letter; a target that does not answer delays no other target; the events of one key arrive in the
//! order of its changes; secrets of targets are in no log and no error.
//!
//! Must not depend on: HTTP servers, drives, XML.

#![forbid(unsafe_code)]

pub mod arn;
pub mod dead_letter_store;
pub mod event;
pub mod name;
mod played;
pub mod rules;
#[doc(hidden)]
pub mod script;
pub mod settings;
pub mod source;
pub mod store;
pub mod target;
pub mod target_manager;
mod wire;
mod worker;

pub use arn::{Kind, TargetId};
pub use dead_letter_store::{DeadLetter, DeadLetterStore};
pub use event::{Event, Message, Site};
pub use name::{Name, Names};
pub use rules::{Parsed, Rule, Rules, Shape};
pub use source::{Batch, Reader, Source};
pub use target_manager::{Status, TargetManager};

/// Why an operation failed. The variants differ in what the caller can do.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The request or the setting has to be changed.
    #[error("{0}")]
    Invalid(String),
    /// A rule names a target that is not configured.
    #[error("A specified destination ARN does not exist or is not well-formed. Verify the destination ARN.")]
    UnknownTarget(String),
    /// Two rules of one target could both mean the same object.
    #[error(
        "Configuration is ambiguously defined. Cannot have overlapping suffixes in two rules if the prefixes are overlapping for the same event type."
    )]
    Overlap,
    /// The target does not take a test event.
    #[error("Unable to validate the following destination configurations: {0}")]
    Unreachable(String),
    /// The store cannot do it now.
    #[error("{0}")]
    Unavailable(String),
}

/// The result of this crate's functions.
pub type Result<T> = std::result::Result<T, Error>;
