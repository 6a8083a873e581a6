//! Archives that are unpacked while they come: compression and tar, without requests or objects.
//!
//! | file | what it holds |
//! |---|---|
//! | `decode` | which compression the first bytes show; its decoder, fed with pieces |
//! | `tar` | the entries of a tar archive, from pieces |
//! | `name` | keys from the names in archives |
//!
//! Everything here is a state machine without I/O: bytes go in as they come, and what can be said comes out.
//!
//! Invariants: what one step makes and keeps is bounded, whatever the archive declares; a part of an archive that
//! could be read in two ways is refused; what is not understood is refused by name, never stored as something else.
//!
//! Must not depend on requests, the store, or who asks.

mod decode;
#[doc(hidden)]
pub mod fuzzed;
mod name;
mod tar;

pub use decode::{DETECT, Decoder, Format};
pub use name::{key, prefix};
pub use tar::{Entry, Item, Kind, MAX_EXTENSION, Reader};

use crate::fault::{Code, Fault};

/// An archive that cannot be read.
fn broken(why: impl std::fmt::Display) -> Fault {
    Fault::with(Code::BAD_ARCHIVE, format!("The archive cannot be read: {why}."))
}
