//! The audit log: who sent each request, how it was decided, and which policy statement decided.
//!
//! | file | what it holds |
//! |---|---|
//! | `record` | one request; which of its headers and parameters may be recorded |
//! | `ring` | the last refusals, in memory |
//! | `queue` | the bounded queue of records that wait for the writer; permits for it |
//! | `writer` | the one thread that writes |
//! | `chain`, `file` | lines chained by hashes; the file, its rotation, its tail after a crash |
//! | `verify`, `find` | verification of files; the record of a request |
//! | `filter`, `backwards`, `search` | conditions on records; lines from the end of a file; a search in steps |
//! | `entry` | a record in the form that MinIO's receivers know |
//! | `spool`, `webhook` | a queue of lines in a folder or in memory; sending from it |
//! | `audit` | [`Audit`], the interface of the crate |
//!
//! Layers, each of which uses only those before it: `error` and `record`; the parts; `writer`; `audit`.
//!
//! Invariants: records contain only the fields, headers and query parameters that `record` lists, so never a
//! signature, token, secret or body; a record that was accepted is written, or counted as dropped; `verify`
//! detects every changed, removed or inserted line; every queue is bounded.
//!
//! Must not depend on: S3, HTTP servers, how a decision is made.

#![forbid(unsafe_code)]

mod audit;
mod backwards;
mod chain;
mod entry;
mod error;
mod file;
mod filter;
mod find;
mod queue;
mod record;
mod ring;
mod search;
mod spool;
mod verify;
mod webhook;
mod writer;

pub use audit::{Audit, Config};
pub use chain::key_from;
pub use error::{Error, Result};
pub use file::FileConfig;
pub use filter::{Filter, parse_network, parse_status};
pub use queue::{PATIENCE, QueuePermit};
pub use record::{ApiLayer, HEADERS, QUERY, Record, headers_of, printable};
#[doc(hidden)]
pub use search::fuzzed_search;
pub use search::{Bounds, Found, Hits, Position, moment_text, parse_moment};
#[doc(hidden)]
pub use verify::fuzzed_lines;
pub use verify::{Report, verify};
pub use webhook::{Full, WebhookConfig};
