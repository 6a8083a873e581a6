//! The operations, one file per family; each takes a [`Call`] and gives an [`Answer`] or a fault.
//!
//! Invariants: a [`Call`] holds a [`Verified`](crate::auth::Verified) and was permitted before it came here; what an operation
//! decides itself (several keys, several buckets) it asks [`Call::permit`];
//! conditions are judged by the store on the state they are about; a body is taken only after the
//! store has said that there is room. Must not depend on: sockets, drives, or how signatures work.

pub mod acl;
pub mod append;
pub mod attributes;
pub mod bucket;
pub mod bucket_policy;
pub mod copy;
pub mod cors;
pub mod delete;
pub mod document;
pub mod extract;
pub mod get;
pub mod lifecycle;
pub mod list;
pub mod lock;
pub mod logging;
pub mod multipart;
pub mod new_object;
pub mod notification;
pub mod post;
pub mod put;
pub mod rename;
mod route;
pub mod tagging;
pub mod unset;
pub mod website;

pub use crate::answer::{
    Answer, CHECKSUM_ALGORITHM, CHECKSUM_TYPE, DELETE_MARKER, STORAGE_CLASS, VERSION_ID,
};
pub use crate::call::{Call, RequestOrigin, endpoint, limit};
pub use crate::context::Context;
pub use crate::store_fault::fault;
pub use route::{is_long, run};
