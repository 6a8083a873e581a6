//! The steps of a rename (docs/protocol.md 2.14): three compare-and-set registers, of which one decides.
//!
//! The data of the new version is staged like the parts of an upload, whose register R, beside the
//! destination key, decides what becomes of it: Open -> Completing (the rename has happened) -> Done, or
//! Open -> Aborted. By whoever renames:
//! 1. Create R, Open, with the name of this attempt; stage the data.
//! 2. CAS the source and the destination, the lesser key first, to a record that holds the key's
//!    versions and the attempt; the conditions are judged here.
//! 3. CAS R: Open -> Completing. **This is the rename.**
//! 4. CAS the destination to the new version, then the source to nothing.
//! 5. R -> Done, kept for retries.
//!
//! A held key is what R says, however late the holder: [`read`]. Who wants to change a held key sees to
//! it first that the attempt is over: [`settle`]. An attempt that nobody knows any more never happened,
//! because R is forgotten only when no key of a rename that happened is held; but R must be looked for
//! *after* the key, and the key read again when R is not there (mutant "no second look").

use crate::upload::Upload;

/// What a held key holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Holds {
    /// What it held before.
    Before,
    /// What the rename made of it: nothing, or the new version.
    After,
    /// Read the key again; if the same attempt still holds it, [`Holds::Before`].
    Again,
}

/// What the reader of a held key makes of R, read after the key. `None`: not there, or another
/// attempt's.
pub fn read<R>(found: Option<&Upload<R>>) -> Holds {
    match found {
        Some(Upload::Open | Upload::Aborted) => Holds::Before,
        Some(Upload::Completing(_)) => Holds::After,
        Some(Upload::Done(_)) | None => Holds::Again,
    }
}

/// What who wants to change a held key does next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Settle {
    /// CAS R from Open to Aborted, then look again.
    Abort,
    /// Do steps 4 and 5.
    RollForward,
    /// CAS the key, if this attempt still holds it, to what it held before.
    Release,
}

/// As [`read`], for writers.
pub fn settle<R>(found: Option<&Upload<R>>) -> Settle {
    match found {
        Some(Upload::Open) => Settle::Abort,
        Some(Upload::Completing(_)) => Settle::RollForward,
        // Done: no key is held any more, so the CAS finds another record.
        Some(Upload::Aborted | Upload::Done(_)) | None => Settle::Release,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table() {
        use Upload::{Aborted, Completing, Done, Open};
        let rows = [
            (None, Holds::Again, Settle::Release),
            (Some(Open), Holds::Before, Settle::Abort),
            (Some(Completing(1)), Holds::After, Settle::RollForward),
            (Some(Done(1)), Holds::Again, Settle::Release),
            (Some(Aborted), Holds::Before, Settle::Release),
        ];
        for (found, reads, settles) in rows {
            assert_eq!((read(found.as_ref()), settle(found.as_ref())), (reads, settles), "{found:?}");
        }
    }
}
