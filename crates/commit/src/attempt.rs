//! Changes that span several registers: an attempt holds keys, and one register decides (docs/protocol.md
//! 2.14).
//!
//! A rename and the completion of a multipart upload both change the register of a key together with a
//! register of their own, R (for an upload, its own register next to the key). R decides. An attempt:
//! 1. CAS each key to a record that contains the key's versions and the name of the attempt. Conditions are
//!    evaluated here.
//! 2. CAS R to Completing, with the name of this attempt. **This is the change**; nothing undoes it.
//! 3. CAS each key that the attempt holds to its new state.
//! 4. R -> Done, kept for retries.
//!
//! R decides what a held key means, however old the hold is: [`read`]. A writer that wants to change a held
//! key first makes sure that the attempt is over: [`settle`]. If R does not contain the attempt any more, the
//! attempt never happened, because R is removed only when no key of a change that happened is held. But R
//! must be read *after* the key, and the key must be read again when R does not contain the attempt (mutant
//! "no second look").
//!
//! The state of one attempt in R is a [`State`]. The register of a rename belongs to one attempt; for an
//! upload, see [`crate::upload::Upload::attempt`].
//!
//! Must not depend on: what else the registers contain.

/// The state of an attempt. `R` is the new content of the key.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum State<R> {
    /// The change may still happen.
    Open,
    /// The change has happened; perhaps not every key shows it yet.
    Completing(R),
    /// The change has happened, and no key is held any more.
    Done(R),
    /// The change will never happen.
    Aborted,
}

/// Which content of a held key is valid.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Holds {
    /// The content from before the attempt.
    Before,
    /// The content that the change gave it.
    After,
    /// Unknown: read the key again. If the same attempt still holds it, [`Holds::Before`].
    Again,
}

/// How a reader of a held key interprets R, which it read after the key. `None`: R is absent, or belongs to
/// another attempt.
pub fn read<R>(found: Option<&State<R>>) -> Holds {
    match found {
        Some(State::Open | State::Aborted) => Holds::Before,
        Some(State::Completing(_)) => Holds::After,
        Some(State::Done(_)) | None => Holds::Again,
    }
}

/// What a writer that finds a held key does next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Settle {
    /// CAS R so that this attempt cannot happen any more, then read again.
    Abort,
    /// Do steps 3 and 4.
    RollForward,
    /// CAS the key, if this attempt still holds it, to its content from before the attempt.
    Release,
}

/// Like [`read`], for writers.
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
