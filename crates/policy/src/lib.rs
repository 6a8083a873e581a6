//! # ashlar-policy: the access-policy language
//!
//! AWS's language, parsed strictly, compiled once, evaluated for every request. [`decide`] defines the order
//! of evaluation; `docs/policy.md` describes the language for users, `docs/decisions/0006-policy.md` says
//! where and why it differs from AWS and MinIO.
//!
//! | module | what |
//! |---|---|
//! | `action`, `key` | the tables: every action, every condition key |
//! | `json`, `document`, `write` | documents: strict reading, canonical writing |
//! | `pattern`, `value`, `condition`, `resource`, `principal` | the parts of a statement, compiled |
//! | `policy` | compiled policies |
//! | `request` | the request to decide |
//! | `decide` | the decision, with the deciding statement |
//! | `public`, `acl`, `builtin` | public access block · access control lists · built-in policies |
//!
//! Invariants: pure (no clock, no I/O, no threads); deciding never allocates for ordinary requests and never
//! fails: a request that cannot be decided is denied. Must not depend on: users' storage, HTTP, XML, buckets.

#![forbid(unsafe_code)]
#![cfg_attr(
    test,
    allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "tests run in real time")
)]

mod acl;
mod action;
mod builtin;
mod condition;
mod decide;
mod document;
mod json;
mod key;
mod pattern;
mod policy;
mod principal;
mod public;
mod request;
mod resource;
mod value;
mod write;

pub use acl::{
    Acl, AclError, Canned, Check, Grant, Grantee, Of, Ownership, Permission, Requester, allows, check_put,
    needs, owner_of_new_object,
};
pub use action::{Action, ActionSet, Level};
pub use builtin::{BUILTIN, builtin};
pub use decide::{Authority, BucketRules, DecidedBy, Decision, Explanation, Source, Trace, decide, explain};
pub use document::{Block, Document, Effect, Listed, StatementDocument, Version};
pub use key::{Key, KeyId};
pub use policy::{Attached, Policy};
pub use public::{PublicAccessBlock, check_put_policy};
pub use request::{Context, Lookup, Principal, Request, Values, Who};

/// An error in a document. The author has to change it; the text says where and how.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Longer than its kind may be.
    #[error("the policy has {size} bytes; at most {limit} are allowed")]
    TooLarge {
        /// Bytes it has.
        size: usize,
        /// Bytes it may have.
        limit: usize,
    },
    /// Not JSON, or JSON that means two things.
    #[error("line {line}, column {column}: {problem}")]
    Syntax {
        /// Line, from 1.
        line: usize,
        /// Column, from 1, in bytes.
        column: usize,
        /// What is wrong.
        problem: String,
    },
    /// JSON, but not a policy.
    #[error("{path}: {problem}")]
    Invalid {
        /// The place in the document, such as `Statement[1].Action[0]`.
        path: String,
        /// What is wrong and what to write.
        problem: String,
    },
    /// The bucket's public access block does not take a policy that lets the public in.
    #[error(
        "public policies are blocked by the BlockPublicPolicy setting of the bucket's public access block"
    )]
    PublicPolicy,
}

/// What this crate's functions return.
pub type Result<T> = std::result::Result<T, Error>;
