//! Bucket notifications: which changes are told to whom, in what words, and that none is lost.
//!
//! | file | what it holds |
//! |---|---|
//! | `name` | the names of events, with wildcards |
//! | `arn`, `rules` | who is told what: the configuration of a bucket, in a neutral form |
//! | `event` | one event, and its record in JSON |
//! | `settings` | where targets are: names and values as MinIO has them, from settings or the environment |
//! | `source`, `dead_letter_store` | what delivery needs of the store: the change feed, a place for dead letters |
//! | `store` | the feed and the shelf, over objects |
//! | `target`, `wire` | one file per protocol; connections |
//! | `worker`, `target_manager` | delivery to one target; all targets |
//!
//! Layers, each of which uses only those before it: names, events and rules; `settings` and `wire`; protocols
//! (`target`: what became of messages, what a protocol is, one file per protocol, [`target::Target`]);
//! `worker`; `target_manager`. The error of the crate stands here and uses nothing.
//!
//! Invariants: an event leaves the feed only after its target has acknowledged it, or it lies on the shelf
//! of dead letters; a target that is away holds up nobody else; of one key, events arrive in the order of
//! its changes; secrets of targets are in no log and no error.
//!
//! Must never know: HTTP servers, drives, XML.

#![forbid(unsafe_code)]

pub mod arn;
pub mod dead_letter_store;
pub mod event;
pub mod name;
#[cfg(feature = "script")]
mod played;
pub mod rules;
#[cfg(feature = "script")]
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

/// What went wrong, by what the caller can do.
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

/// What this room answers.
pub type Result<T> = std::result::Result<T, Error>;
