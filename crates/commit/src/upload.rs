//! The states of a multipart upload (docs/protocol.md 2.8): Open -> Completing -> Done, or Aborted.
//!
//! An upload is a register of its own, R, in the placement group of its key. A call that completes the upload
//! makes an attempt (see [`crate::attempt`]); it reads R first:
//! 1. Read R: it must be Open ([`complete`]). Its generation and a random number are the name of the attempt.
//! 2. Read the parts and check them.
//! 3. CAS the key to a record that contains its versions and the name of the attempt; evaluate the
//!    conditions.
//! 4. CAS R from Open **of the same generation** to Completing(attempt, version) ([`decide`]). This is the
//!    completion. On failure, release the key and start again.
//! 5. CAS the key, if the attempt still holds it, to the list with the new version, which carries the mark of
//!    the upload. A marked version is not removed before the upload is Done.
//! 6. Make the part registers tombstones: the data belongs to the key now.
//! 7. R -> Done, kept 24 h for retries. Remove the mark.
//!
//! Completing is never undone: a call that finds it does steps 5 to 7. Refusals happen in steps 1 to 3, while
//! R is still Open, so that the client may try again or abort.
//!
//! The generation grows whenever an attempt that has read R must not succeed:
//! - a writer finds a key held by an attempt that makes no progress ([`invalidate`]);
//! - a part replaces another ([`replace`]). Its register names the replaced data too until the generation has
//!   grown: after that, no attempt that read the replaced part can succeed, and the data can be dropped
//!   (mutants "part dropped first", "generation ignored").
//!
//! Must not depend on: what a version or a part is.

use crate::attempt::State;

/// The unique name of an attempt to complete an upload.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Attempt {
    /// Generation of the upload that the attempt has read.
    pub generation: u64,
    /// Random; distinguishes attempts of one generation.
    pub nonce: u64,
}

impl Attempt {
    /// The bytes stored in records.
    #[must_use]
    pub fn to_bytes(self) -> [u8; 16] {
        (u128::from(self.generation) << 64 | u128::from(self.nonce)).to_be_bytes()
    }

    /// The inverse of [`Attempt::to_bytes`].
    #[must_use]
    pub fn from_bytes(bytes: [u8; 16]) -> Attempt {
        let both = u128::from_be_bytes(bytes);
        #[allow(clippy::cast_possible_truncation)] // the halves
        Attempt { generation: (both >> 64) as u64, nonce: both as u64 }
    }
}

/// The state of an upload; `R` is the result of completing it.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Upload<R> {
    /// Parts may be uploaded. The number is the generation.
    Open(u64),
    /// This attempt has completed it with this result; nothing can stop it.
    Completing(Attempt, R),
    /// The version has been visible.
    Done(R),
    /// It will never be completed.
    Aborted,
}

impl<R> Upload<R> {
    /// The state of one attempt, according to the upload.
    pub fn attempt(self, attempt: Attempt) -> State<R> {
        match self {
            Upload::Open(generation) if generation == attempt.generation => State::Open,
            Upload::Completing(winner, r) if winner == attempt => State::Completing(r),
            Upload::Done(r) => State::Done(r),
            Upload::Open(_) | Upload::Completing(..) | Upload::Aborted => State::Aborted,
        }
    }
}

/// What a call that completes an upload must do.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Complete<R> {
    /// Make an attempt in this generation (steps 2 to 7).
    Attempt(u64),
    /// Finish with this result (steps 5 to 7).
    RollForward(R),
    /// Return this result: the upload was completed before.
    Completed(R),
    /// The upload was aborted, or does not exist any more.
    NoSuchUpload,
}

/// Step 1.
pub fn complete<R>(found: Option<&Upload<R>>) -> Complete<&R> {
    match found {
        Some(Upload::Open(generation)) => Complete::Attempt(*generation),
        Some(Upload::Completing(_, r)) => Complete::RollForward(r),
        Some(Upload::Done(r)) => Complete::Completed(r),
        Some(Upload::Aborted) | None => Complete::NoSuchUpload,
    }
}

/// Step 4: whether this attempt, which holds the key, may set R to Completing.
pub fn decide<R>(found: Option<&Upload<R>>, attempt: Attempt) -> bool {
    matches!(found, Some(Upload::Open(generation)) if *generation == attempt.generation)
}

/// The generation that makes this attempt fail, if the attempt may still succeed.
pub fn invalidate<R>(found: Option<&Upload<R>>, attempt: Attempt) -> Option<u64> {
    decide(found, attempt).then(|| attempt.generation + 1)
}

/// What a call that aborts an upload must do.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Abort<R> {
    /// Set R to Aborted, from the state that was read; then drop the parts.
    Set,
    /// Too late: finish with this result, and answer that there is no such upload.
    RollForward(R),
    /// Drop the parts that are left, and answer that there is no such upload.
    Again,
    /// Answer that there is no such upload.
    NoSuchUpload,
}

/// What a call that aborts an upload must do in the state that was read.
pub fn abort<R>(found: Option<&Upload<R>>) -> Abort<&R> {
    match found {
        Some(Upload::Open(_)) => Abort::Set,
        Some(Upload::Completing(_, r)) => Abort::RollForward(r),
        Some(Upload::Aborted) => Abort::Again,
        Some(Upload::Done(_)) | None => Abort::NoSuchUpload,
    }
}

/// What to do after a part was written over another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Replace {
    /// Set R to Open of this generation, from the state that was read; then drop the replaced data.
    Grow(u64),
    /// Drop nothing: the version may use the replaced data. The new part counts if the version has it.
    TooLate,
}

/// A part has replaced another, whose data the register of the part still names.
pub fn replace<R>(found: Option<&Upload<R>>) -> Replace {
    match found {
        Some(Upload::Open(generation)) => Replace::Grow(generation + 1),
        Some(Upload::Completing(..) | Upload::Done(_) | Upload::Aborted) | None => Replace::TooLate,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINE: Attempt = Attempt { generation: 4, nonce: 7 };
    const OTHER: Attempt = Attempt { generation: 4, nonce: 8 };

    #[test]
    fn calls_in_each_state() {
        use Upload::{Aborted, Completing, Done, Open};
        let states = [None, Some(Open(4)), Some(Completing(OTHER, 3)), Some(Done(3)), Some(Aborted)];
        let found = |i: usize| states[i].as_ref();
        assert_eq!(complete(found(0)), Complete::NoSuchUpload);
        assert_eq!(complete(found(1)), Complete::Attempt(4));
        assert_eq!(complete(found(2)), Complete::RollForward(&3));
        assert_eq!(complete(found(3)), Complete::Completed(&3));
        assert_eq!(complete(found(4)), Complete::NoSuchUpload);
        assert_eq!(abort(found(0)), Abort::NoSuchUpload);
        assert_eq!(abort(found(1)), Abort::Set);
        assert_eq!(abort(found(2)), Abort::RollForward(&3));
        assert_eq!(abort(found(3)), Abort::NoSuchUpload);
        assert_eq!(abort(found(4)), Abort::Again);
        let grown: Vec<Replace> = states.iter().map(|s| replace(s.as_ref())).collect();
        let late = Replace::TooLate;
        assert_eq!(grown, [late, Replace::Grow(5), late, late, late]);
        let may: Vec<bool> = states.iter().map(|s| decide(s.as_ref(), MINE)).collect();
        assert_eq!(may, [false, true, false, false, false]);
        assert_eq!(invalidate(found(1), MINE), Some(5));
        assert_eq!(invalidate(Some(&Open::<u8>(5)), MINE), None);
    }

    #[test]
    fn attempt_state_from_upload() {
        use Upload::{Aborted, Completing, Done, Open};
        assert_eq!(Open::<u8>(4).attempt(MINE), State::Open);
        assert_eq!(Open::<u8>(5).attempt(MINE), State::Aborted);
        assert_eq!(Completing(MINE, 3).attempt(MINE), State::Completing(3));
        assert_eq!(Completing(OTHER, 3).attempt(MINE), State::Aborted);
        assert_eq!(Done(3).attempt(MINE), State::Done(3));
        assert_eq!(Aborted::<u8>.attempt(MINE), State::Aborted);
    }

    #[test]
    fn attempt_names_are_sixteen_bytes() {
        let bytes = MINE.to_bytes();
        assert_eq!(bytes, [0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0, 7]);
        assert_eq!(Attempt::from_bytes(bytes), MINE);
    }
}
