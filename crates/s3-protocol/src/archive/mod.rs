//! Archives that are unpacked as a stream: compression and tar, without requests or objects.
//!
//! | file | what it holds |
//! |---|---|
//! | `decode` | detection of the compression; its decoder, fed with pieces |
//! | `tar` | the entries of a tar archive, from pieces |
//! | `name` | keys from names in archives |
//!
//! Everything here is a state machine without I/O: bytes go in as they arrive, and decoded items come out.
//!
//! Invariants: the output and memory of one step are bounded, whatever the archive declares; an archive with
//! an ambiguous part is refused; an unsupported element is refused by name, never stored as something else.
//!
//! Must not depend on requests, the store, or identities.

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
