//! The states of a multipart upload (docs/protocol.md 2.8): Open -> Completing -> Done, or Aborted.
//!
//! An upload is a register of its own in the placement group of its key. Every change below is a
//! compare-and-set on that register or on the key's register. Complete, by anybody, the collector
//! included:
//! 1. [`complete`]: CAS Open -> Completing(result). The result (version id, ETag, part list) is
//!    fixed here; whoever finds Completing goes on with that result, not with his own.
//! 2. Read the **key** register. If its record carries this upload's mark, go to 5.
//! 3. **Then** read the upload again: still Completing, or stop and answer what it says.
//! 4. CAS the key register *from the state read in 2* to a record with the new version and the
//!    mark of the upload. On failure go to 2.
//! 5. CAS Completing -> Done(result); answer the result.
//! 6. CAS the key register to a record without the mark.
//!
//! Every other writer of the key carries marks along, whatever it does to the versions; a record
//! with a mark is never purged. The mark is what makes step 4 happen once: looking for the version
//! instead would bring back a version that was deleted or overwritten between a crash after step 4
//! and the roll-forward (found by the model, mutant "no mark"). The order of 2 and 3 is what makes
//! it happen once for a completer that sleeps until the mark has been taken off again (mutant
//! "upload read before key").
//!
//! Done and Aborted are kept 24 h for retries; part data goes with Aborted, or when no version
//! names it.

/// The state of an upload; `R` is the result of completing it.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Upload<R> {
    /// Parts may come.
    Open,
    /// It will be completed with this result; nobody can stop it.
    Completing(R),
    /// The version has been visible.
    Done(R),
    /// It will never be completed.
    Aborted,
}

/// What a call that wants to change an upload has to do.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Change<R> {
    /// Set the register to this, from the state that was read; on failure read again.
    Set(Upload<R>),
    /// Finish with this result (steps 2 to 6).
    RollForward(R),
    /// Answer this result: it was completed before.
    Completed(R),
    /// It was aborted, or is not known any more.
    NoSuchUpload,
}

/// The call Complete. `mine` is the result if nobody has fixed another.
pub fn complete<R: Clone>(found: Option<&Upload<R>>, mine: impl FnOnce() -> R) -> Change<R> {
    match found {
        Some(Upload::Open) => Change::Set(Upload::Completing(mine())),
        Some(Upload::Completing(r)) => Change::RollForward(r.clone()),
        Some(Upload::Done(r)) => Change::Completed(r.clone()),
        Some(Upload::Aborted) | None => Change::NoSuchUpload,
    }
}

/// The call Abort. `Completing` cannot be aborted: roll it forward and answer that the upload does
/// not exist any more.
pub fn abort<R: Clone>(found: Option<&Upload<R>>) -> Change<R> {
    match found {
        Some(Upload::Open) => Change::Set(Upload::Aborted),
        Some(Upload::Completing(r)) => Change::RollForward(r.clone()),
        Some(Upload::Done(_) | Upload::Aborted) | None => Change::NoSuchUpload,
    }
}

/// Step 3, for a completer that holds the key's state read before. `Some` = stop with this.
pub fn recheck<R: Clone>(found: Option<&Upload<R>>) -> Option<Change<R>> {
    match found {
        Some(Upload::Completing(_)) => None,
        Some(Upload::Done(r)) => Some(Change::Completed(r.clone())),
        // Open cannot follow Completing.
        Some(Upload::Open | Upload::Aborted) | None => Some(Change::NoSuchUpload),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table() {
        use Upload::{Aborted, Completing, Done, Open};
        assert_eq!(complete(Some(&Open), || 7), Change::Set(Completing(7)));
        assert_eq!(complete(Some(&Completing(3)), || 7), Change::RollForward(3));
        assert_eq!(complete(Some(&Done(3)), || 7), Change::Completed(3));
        assert_eq!(complete(Some(&Aborted), || 7), Change::NoSuchUpload);
        assert_eq!(complete(None, || 7), Change::NoSuchUpload);
        assert_eq!(abort::<u8>(Some(&Open)), Change::Set(Aborted));
        assert_eq!(abort(Some(&Completing(3))), Change::RollForward(3));
        assert_eq!(abort(Some(&Done(3))), Change::NoSuchUpload);
        assert_eq!(abort::<u8>(Some(&Aborted)), Change::NoSuchUpload);
        assert_eq!(recheck(Some(&Completing(3))), None);
        assert_eq!(recheck(Some(&Done(3))), Some(Change::Completed(3)));
        assert_eq!(recheck::<u8>(None), Some(Change::NoSuchUpload));
    }
}
