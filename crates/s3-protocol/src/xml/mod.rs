//! The XML of the protocol: a small writer and a limited reader.
//!
//! Invariants: any XML parser reads back the text that the writer was given (control characters and carriage
//! returns are references); the reader never expands an entity, never reads a DTD, never nests deeper than
//! [`read::DEPTH`], and allocates no more than a small multiple of its input. Must not depend on: the purpose
//! of a document.

mod read;
mod write;

pub use read::Doc;
pub use write::{Xml, url_encode};

/// How every document begins.
pub const DECLARATION: &str = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n";

/// Namespace of every S3 document.
pub const NAMESPACE: &str = "http://s3.amazonaws.com/doc/2006-03-01/";
