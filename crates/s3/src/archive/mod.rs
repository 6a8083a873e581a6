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

/// For the fuzzer: unpacks `pieces` to the end and returns how many entries and bytes there were.
///
/// # Errors
/// What a request with this archive would be refused with.
pub fn unpack_all(pieces: impl IntoIterator<Item = bytes::Bytes>) -> crate::fault::Outcome<(u64, u64)> {
    let mut pieces = pieces.into_iter();
    let mut input = bytes::BytesMut::new();
    while input.len() < DETECT {
        let Some(piece) = pieces.next() else { break };
        input.extend_from_slice(&piece);
    }
    let mut decoder = Decoder::new(Format::detect(&input)?);
    let mut reader = Reader::default();
    let (mut entries, mut bytes) = (0, 0);
    let mut next = Some(input.freeze());
    loop {
        match next.take() {
            Some(piece) => decoder.push(piece),
            None => decoder.end(),
        }
        while let Some(mut plain) = decoder.step()? {
            assert!(plain.len() <= decode::MAX_STEP, "a step made {} bytes", plain.len());
            while let Some(item) = reader.step(&mut plain)? {
                match item {
                    Item::Entry(_) => entries += 1,
                    Item::Data(data) => bytes += data.len() as u64,
                    Item::Finished => {}
                }
            }
        }
        if decoder.is_ended() {
            reader.end()?;
            return Ok((entries, bytes));
        }
        next = pieces.next();
    }
}
