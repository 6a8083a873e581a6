//! The operations, one file per family; each takes a [`Call`] and returns an [`Answer`] or a fault.
//!
//! Invariants: a [`Call`] contains a [`Verified`](crate::auth::Verified) and was authorized before it gets
//! here; an operation on several keys or buckets authorizes each with [`Call::permit`]; the store evaluates
//! conditions on the state that they are about; a body is read only after the store has reserved memory for
//! it. Must not depend on: sockets, drives, how signatures work.

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
