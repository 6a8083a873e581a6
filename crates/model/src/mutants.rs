//! The rules of the protocol, each described by the fault that appears without it.
//!
//! Must not depend on: the worlds.

/// A removed rule. For every one, a scope of [`crate::scopes::mutants`] finds the fault.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Mutant {
    /// A restarted drive starts without its promises and without its floor.
    PromiseForgotten,
    /// Promises are lost at a restart, but a drive accepts only from proposers to which it has promised since
    /// (the first design).
    SameIncarnationOnly,
    /// A blank drive votes at once.
    BlankVotes,
    /// A blank drive is filled without fencing the drives it is filled from.
    NoFence,
    /// A read serves the newest answer of a majority.
    NewestOfMajority,
    /// A failed condition is answered from a base that is not known to be chosen.
    AnswerUndecided,
    /// A retry answers 412 from a chosen base, although its earlier attempt may still appear.
    RetryForgets,
    /// A writer takes its record for passed because of a record that is not chosen.
    PassedByUndecided,
    /// A fenced drive still answers readers of the old epoch, which may count a replaced drive.
    OldEpochReads,
    /// With half the drives, the newest answer is served, hinted or not.
    HalfNewest,
    /// With half of the drives, a record that all of them show is served, hinted or not.
    HalfOfOneMind,
    /// With half the drives, the epoch is not confirmed after the answers.
    HalfOldEpoch,
    /// Dead drives are recovered from some survivors, not all.
    DeadFromSome,
    /// A tombstone is purged without a horizon.
    NoHorizon,
    /// A tombstone is purged when a majority has it.
    PurgeByMajority,
    /// A tombstone is purged when all *voters* have it, while a slot is joining.
    PurgeWhileJoining,
    /// A delete that finds nothing is answered from what a majority has promised.
    IdleDelete,
    /// A read is answered as soon as a majority agrees, whatever others would show.
    ReadPassesBy,
    /// A read that saw something undecided answers from a majority that shows nothing of it.
    ReadSettlesHalf,
    /// A drive answers "no record" without the purge horizon.
    AbsenceWithoutHorizon,
    /// A drive that went back in time votes.
    BackVotes,
    /// A drive whose flush failed votes again without joining.
    FencedVotes,
    /// After too many drives are distrusted, the record that most drives show is taken.
    SalvageMost,
    /// The record is sent before k' + f shards are durable.
    RecordBeforeData,
    /// The collector reads a majority, without a ballot.
    SweepWithoutBallot,
    /// The collector wins PREPARE at a majority and drops.
    SweepOnlyPrepares,
    /// A writer with a raised ballot counts its old stages without confirmation.
    NoReconfirm,
    /// A confirmed stage is lost at a restart.
    ConfirmForgotten,
    /// One-sync: a record with fewer than k' copies is ignored without counting the silent slots.
    IgnoreWithoutCount,
    /// One-sync: the record does not contain its parent.
    HiddenParent,
    /// One-sync: a joining drive copies nothing where the newest record is overtaken.
    CopyNothing,
    /// One-sync: the base is built upon before its data is on k' + f drives.
    BuildOnThin,
    /// One-sync: acknowledged at M accepts.
    AckAtMajority,
    /// One-sync: a read serves what M voters show.
    ReadAtMajority,
    /// Abort sets Aborted without checking for Completing.
    BlindAbort,
    /// The version is added to the key without a mark, so that it may be removed before the upload is done.
    NoMark,
    /// A completion is decided from an upload of any generation.
    GenerationIgnored,
    /// All attempts of one generation have the same name.
    AttemptsAlike,
    /// The data of a replaced part is dropped before the generation of its upload grows.
    PartDroppedFirst,
    /// A writer releases a key from an attempt without making sure that the attempt fails.
    UploadReleaseOpen,
    /// An upload is done before its version is on the key.
    UploadDoneEarly,
    /// A reader that finds no upload, or one that is done, does not read the key again.
    UploadNoSecondLook,
    /// A reader that finds no register of the rename does not read the key again.
    RenameNoSecondLook,
    /// A writer releases a key from a rename without aborting it.
    RenameReleaseOpen,
    /// A rename is done before its source is gone.
    RenameDoneEarly,
    /// The source of a rename is not held.
    RenameSourceFree,
    /// A bucket is deleted although one group is fenced on a minority.
    FenceMinority,
    /// The drives are inspected for records before the bucket is fenced.
    LookFirst,
    /// Any majority is inspected for records, not the drives that were fenced.
    LookElsewhere,
    /// An undecided record counts as absent.
    UndecidedIsAbsent,
    /// A drive votes without the fences of its group.
    FenceNotCopied,
    /// Fences of two layout epochs are counted together.
    FenceAcrossEpochs,
    /// A late fence of an older deletion replaces that of a later one.
    OldFenceWins,
    /// A deletion lifts the fence of a later one.
    LiftForeign,
    /// A deletion that was aborted or replaced still removes the bucket.
    RemoveUnasked,
    /// Pages: what a record no longer names is dropped before the record is chosen.
    PageDroppedFirst,
    /// Pages: the record is sent before its pages are durable.
    RecordBeforePage,
    /// Pages: a spill writes what it has planned without comparing the record.
    SpillWithoutBase,
    /// Pages: the collector looks at the chosen record while another is undecided.
    PageSweptUndecided,
    /// Pages: the collector looks at the record only, not at its pages.
    SweepPassesPages,
    /// Pages: a reader takes a page that is gone for the end of the list.
    PageGoneIsAbsent,
    /// A node goes on admitting on what it gives back until it knows that the record says so.
    QuotaReturnInUse,
    /// A put with an unknown outcome gives its bytes back.
    QuotaLostIsFree,
    /// A count is taken up without what nodes added meanwhile.
    QuotaCountUnanswered,
    /// What nodes removed during a count is subtracted from it.
    QuotaCountNet,
    /// A removal that began before the last count is subtracted after it.
    QuotaOldRemoval,
    /// A count goes on although the life of a node ended meanwhile.
    QuotaCountAcrossLives,
    /// The share of a node is taken back while it still admits on it.
    QuotaTakenAlive,
    /// The commit is n renames, and readers count versions.
    CountRenames,
}

impl Mutant {
    /// All of them.
    pub const ALL: &'static [Mutant] = &[
        Mutant::PromiseForgotten,
        Mutant::SameIncarnationOnly,
        Mutant::BlankVotes,
        Mutant::NoFence,
        Mutant::NewestOfMajority,
        Mutant::AnswerUndecided,
        Mutant::RetryForgets,
        Mutant::PassedByUndecided,
        Mutant::OldEpochReads,
        Mutant::HalfNewest,
        Mutant::HalfOfOneMind,
        Mutant::HalfOldEpoch,
        Mutant::DeadFromSome,
        Mutant::NoHorizon,
        Mutant::PurgeByMajority,
        Mutant::PurgeWhileJoining,
        Mutant::IdleDelete,
        Mutant::ReadPassesBy,
        Mutant::ReadSettlesHalf,
        Mutant::AbsenceWithoutHorizon,
        Mutant::BackVotes,
        Mutant::FencedVotes,
        Mutant::SalvageMost,
        Mutant::RecordBeforeData,
        Mutant::SweepWithoutBallot,
        Mutant::SweepOnlyPrepares,
        Mutant::NoReconfirm,
        Mutant::ConfirmForgotten,
        Mutant::IgnoreWithoutCount,
        Mutant::HiddenParent,
        Mutant::CopyNothing,
        Mutant::BuildOnThin,
        Mutant::AckAtMajority,
        Mutant::ReadAtMajority,
        Mutant::BlindAbort,
        Mutant::NoMark,
        Mutant::GenerationIgnored,
        Mutant::AttemptsAlike,
        Mutant::PartDroppedFirst,
        Mutant::UploadReleaseOpen,
        Mutant::UploadDoneEarly,
        Mutant::UploadNoSecondLook,
        Mutant::RenameNoSecondLook,
        Mutant::RenameReleaseOpen,
        Mutant::RenameDoneEarly,
        Mutant::RenameSourceFree,
        Mutant::FenceMinority,
        Mutant::LookFirst,
        Mutant::LookElsewhere,
        Mutant::UndecidedIsAbsent,
        Mutant::FenceNotCopied,
        Mutant::FenceAcrossEpochs,
        Mutant::OldFenceWins,
        Mutant::LiftForeign,
        Mutant::RemoveUnasked,
        Mutant::PageDroppedFirst,
        Mutant::RecordBeforePage,
        Mutant::SpillWithoutBase,
        Mutant::PageSweptUndecided,
        Mutant::SweepPassesPages,
        Mutant::PageGoneIsAbsent,
        Mutant::QuotaReturnInUse,
        Mutant::QuotaLostIsFree,
        Mutant::QuotaCountUnanswered,
        Mutant::QuotaCountNet,
        Mutant::QuotaOldRemoval,
        Mutant::QuotaCountAcrossLives,
        Mutant::QuotaTakenAlive,
        Mutant::CountRenames,
    ];
}
