//! The rules of the protocol, each as the fault that appears without it.

/// One rule taken away. Every one is found by a scope of
/// [`crate::scopes::mutants`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Mutant {
    /// A restarted drive starts without promises and without its floor.
    PromiseForgotten,
    /// Promises are forgotten at a restart, but a drive accepts only from proposers to whom it
    /// promised since (the first design).
    SameIncarnationOnly,
    /// A blank drive votes at once.
    BlankVotes,
    /// A blank drive is filled without fencing the drives it is filled from.
    NoFence,
    /// A read trusts the newest answer of a majority.
    NewestOfMajority,
    /// A failed condition is answered from a base that is not known to be chosen.
    AnswerUndecided,
    /// A retry answers 412 from a chosen base, although its earlier attempt may still appear.
    RetryForgets,
    /// A fenced drive still answers readers of the old epoch, which may count a replaced drive.
    OldEpochReads,
    /// With half the drives, the newest answer is served, hinted or not.
    HalfNewest,
    /// With half the drives, what all of them show is served, hinted or not.
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
    /// "No record" is said without the purge horizon.
    AbsenceWithoutHorizon,
    /// A drive that went back in time votes.
    BackVotes,
    /// A drive whose flush failed votes again without joining.
    FencedVotes,
    /// After distrust of too many, the record that most drives show is taken.
    SalvageMost,
    /// The record is sent before k' + f shards are durable.
    RecordBeforeData,
    /// The collector looks at a majority, without a ballot.
    SweepWithoutBallot,
    /// The collector wins PREPARE at a majority and drops.
    SweepOnlyPrepares,
    /// A writer with a raised ballot counts its old stages without having them confirmed.
    NoReconfirm,
    /// A confirmed stage is forgotten at a restart.
    ConfirmForgotten,
    /// One-sync: a record with fewer than k' copies is ignored without counting who is silent.
    IgnoreWithoutCount,
    /// One-sync: the record does not carry its parent.
    HiddenParent,
    /// One-sync: a joining drive copies nothing where the newest record is overtaken.
    CopyNothing,
    /// One-sync: the base is built upon before its data is on k' + f drives.
    BuildOnThin,
    /// One-sync: acknowledged at M accepts.
    AckAtMajority,
    /// One-sync: a read serves what M voters show.
    ReadAtMajority,
    /// Abort sets Aborted without looking for Completing.
    BlindAbort,
    /// The version is put on the key without a mark, so that it may be removed before the upload is done.
    NoMark,
    /// A completion is decided from an upload of any generation.
    GenerationIgnored,
    /// Attempts of one generation have one name.
    AttemptsAlike,
    /// The data of a replaced part is dropped before the generation of its upload grows.
    PartDroppedFirst,
    /// A writer takes a key back from an attempt without making sure that it fails.
    UploadReleaseOpen,
    /// An upload is done before its version is on the key.
    UploadDoneEarly,
    /// A reader who finds no upload, or one that is done, does not look at the key again.
    UploadNoSecondLook,
    /// A reader who finds no register of the rename does not look at the key again.
    RenameNoSecondLook,
    /// A writer takes a key back from a rename without aborting it.
    RenameReleaseOpen,
    /// A rename is done before its source is gone.
    RenameDoneEarly,
    /// The source of a rename is not held.
    RenameSourceFree,
    /// A bucket is deleted although one group is fenced on a minority.
    FenceMinority,
    /// Whether a bucket is empty is looked at before it is fenced.
    LookFirst,
    /// Whether a bucket is empty is asked of any majority, not of the drives that were fenced.
    LookElsewhere,
    /// A record of which it is not decided whether it is chosen counts as absent.
    UndecidedIsAbsent,
    /// A drive votes without the fences of its group.
    FenceNotCopied,
    /// Fences of two layout epochs are counted together.
    FenceAcrossEpochs,
    /// A late fence of an older deletion replaces that of a later one.
    OldFenceWins,
    /// A deletion lifts the fence of a later one.
    LiftForeign,
    /// A deletion that was aborted or taken over still removes the bucket.
    RemoveUnasked,
    /// A node goes on admitting on what it gives back until it knows that the record says so.
    QuotaReturnInUse,
    /// A put with an unknown outcome gives its bytes back.
    QuotaLostIsFree,
    /// A count is taken up without what nodes added meanwhile.
    QuotaCountUnanswered,
    /// What nodes removed during a count is subtracted from it.
    QuotaCountNet,
    /// A count goes on although the life of a node ended meanwhile.
    QuotaCountAcrossLives,
    /// The share of a node is taken back while it still admits on it.
    QuotaTakenAlive,
    /// The commit is n renames; versions are counted.
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
        Mutant::QuotaReturnInUse,
        Mutant::QuotaLostIsFree,
        Mutant::QuotaCountUnanswered,
        Mutant::QuotaCountNet,
        Mutant::QuotaCountAcrossLives,
        Mutant::QuotaTakenAlive,
        Mutant::CountRenames,
    ];
}
