//! Who asked what, and what decided.
//!
//! | file | what it holds |
//! |---|---|
//! | `record` | one request; what of its head may be written down |
//! | `ring` | the last refusals, in memory |
//! | `queue` | records on their way to the writer; room in it |
//! | `writer` | the one thread that writes |
//! | `chain`, `file` | lines chained by hashes; the file, its rotation, its tail after a crash |
//! | `verify`, `find` | is it whole? where is a request? |
//! | `entry` | a record in the form that MinIO's receivers know |
//! | `spool`, `webhook` | a queue on a drive; sending from it |
//! | `audit` | [`Audit`]: all of it together |
//!
//! Layers, each of which uses only those before it: `error` and `record`; the parts; `writer`; `audit`.
//!
//! Invariants: what is written is an allow-list: no signature, token, secret, body, or query value that is
//! not named in `record` can come in; a record that was accepted is written, or counted as dropped; a line
//! that was changed, removed or put in is noticed by `verify`; every queue has its bound beside it.
//!
//! Must never know: S3, HTTP servers, how a decision is made.

#![forbid(unsafe_code)]

mod audit;
mod chain;
mod entry;
mod error;
mod file;
mod find;
mod queue;
mod record;
mod ring;
mod spool;
mod verify;
mod webhook;
mod writer;

pub use audit::{Audit, Config};
pub use chain::key_from;
pub use error::{Error, Result};
pub use file::FileConfig;
pub use queue::{PATIENCE, Ticket};
pub use record::{ApiLayer, HEADERS, QUERY, Record, headers_of, printable};
#[doc(hidden)]
pub use verify::fuzzed_lines;
pub use verify::{Report, verify};
pub use webhook::{Full, WebhookConfig};
