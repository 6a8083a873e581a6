//! A change that spans registers: keys held by an attempt, and one register that decides (docs/protocol.md 2.14).
//!
//! A rename and the completion of a multipart upload both change the register of a key together with a
//! register of their own, R (the upload's, beside the key). R decides. An attempt:
//! 1. CAS each key to a record that holds the key's versions and the name of the attempt; the conditions are
//!    judged here.
//! 2. CAS R to Completing, in the name of this attempt. **This is the change**; nothing undoes it.
//! 3. CAS each key that the attempt holds to its new state.
//! 4. R -> Done, kept for retries.
//!
//! A held key is what R says, however late the holder: [`read`]. Whoever wants to change a held key makes
//! sure first that the attempt is over: [`settle`]. An attempt that R does not know any more never happened,
//! because R is forgotten only when no key of a change that happened is held; but R must be read *after* the
//! key, and the key read again when R does not know the attempt (mutant "no second look").
//!
//! What R says of one attempt is a [`State`]. The register of a rename is one attempt's; of an upload, see
//! [`crate::upload::Upload::attempt`].
//!
//! Must not depend on: what the registers hold besides.

/// Where an attempt stands; `R` is what the change makes of the key.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum State<R> {
    /// It may still happen.
    Open,
    /// It has happened; perhaps not every key shows it.
    Completing(R),
    /// It has happened, and no key is held any more.
    Done(R),
    /// It will never happen.
    Aborted,
}

/// What a held key holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Holds {
    /// What it held before.
    Before,
    /// What the change made of it.
    After,
    /// Read the key again; if the same attempt still holds it, [`Holds::Before`].
    Again,
}

/// What the reader of a held key makes of R, read after the key. `None`: R is not there, or another's.
pub fn read<R>(found: Option<&State<R>>) -> Holds {
    match found {
        Some(State::Open | State::Aborted) => Holds::Before,
        Some(State::Completing(_)) => Holds::After,
        Some(State::Done(_)) | None => Holds::Again,
    }
}

/// What a writer that meets a held key does next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Settle {
    /// CAS R so that this attempt cannot happen any more, then look again.
    Abort,
    /// Do steps 3 and 4.
    RollForward,
    /// CAS the key, if this attempt still holds it, to what it held before.
    Release,
}

/// As [`read`], for writers.
pub fn settle<R>(found: Option<&State<R>>) -> Settle {
    match found {
        Some(State::Open) => Settle::Abort,
        Some(State::Completing(_)) => Settle::RollForward,
        // Done: no key is held any more, so the CAS finds another record.
        Some(State::Aborted | State::Done(_)) | None => Settle::Release,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table() {
        use State::{Aborted, Completing, Done, Open};
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
