//! The settings that are checked: small ones on every change, large ones by hand, and one for every mutant.
//! The README's table has their sizes.

use crate::register::Kind;
use crate::{
    Limits, Mutant, Report, bucket, check, multipart, onesync, pages, quota, register, rename, renames,
    staging,
};
use std::hash::Hash;

type Run = dyn Fn(&str, Limits) -> Report;

/// A world with its bounds, ready to be checked.
pub struct Setting {
    /// Its name in the table.
    pub name: String,
    run: Box<Run>,
}

impl Setting {
    fn new<M>(name: impl Into<String>, model: M) -> Setting
    where
        M: stateright::Model + Clone + Send + Sync + 'static,
        M::State: Clone + PartialEq + Hash + std::fmt::Debug + Send + Sync,
        M::Action: Clone + PartialEq + std::fmt::Debug + Send + Sync,
    {
        let run = Box::new(move |name: &str, limits| check(name, model.clone(), limits));
        Setting { name: name.into(), run }
    }

    /// Checks it.
    #[must_use]
    pub fn run(&self, limits: Limits) -> Report {
        (self.run)(&self.name, limits)
    }
}

const ONE: &[Kind] = &[Kind::Append];
const CONDITIONAL: &[Kind] = &[Kind::Append, Kind::IfNoneMatch];
const MATCHING: &[Kind] = &[Kind::Append, Kind::IfMatch];
const DELETING: &[Kind] = &[Kind::Append, Kind::Delete];

const R3: register::Scope<3> = register::Scope::PLAIN;
const R4: register::Scope<4> = register::Scope::PLAIN;
const R5: register::Scope<5> = register::Scope::PLAIN;
const HALF: register::Scope<4> = register::Scope { half: true, hints: true, ..R4 };
const DEAD: register::Scope<4> = register::Scope { dead: true, writers: ONE, ..R4 };
const MATCH: register::Scope<3> = register::Scope { rounds: 4, learns: true, writers: MATCHING, ..R3 };
const LOOKING: register::Scope<3> = register::Scope { rounds: 4, learns: true, looks: 1, ..R3 };
const PURGE: register::Scope<3> = register::Scope { rounds: 3, writers: DELETING, purge: true, ..R3 };

/// A put that fails, and a delete.
const FAILED: register::Scope<3> = register::Scope {
    writers: &[Kind::Append, Kind::Drop],
    attempts: 1,
    rounds: 3,
    gives_up: true,
    patient: true,
    ..R3
};
/// A put that fails, a restart, two reads.
const QUIET: register::Scope<3> = register::Scope {
    writers: ONE,
    attempts: 1,
    rounds: 3,
    reads: 2,
    gives_up: true,
    patient: true,
    quiet: true,
    ..R3
};
/// A drive goes back behind a purge without being detected.
const BACK: register::Scope<4> =
    register::Scope { writers: DELETING, attempts: 1, rounds: 3, purge: true, images: 1, reads: 1, ..R4 };
/// A drive goes back, is detected, and joins.
const NOTICED: register::Scope<3> =
    register::Scope { images: 1, detected: true, attempts: 1, reads: 1, ..R3 };
const FAILING: register::Scope<3> = register::Scope { fails: 1, crashes: 1, reads: 1, attempts: 1, ..R3 };
const SALVAGE: register::Scope<3> = register::Scope { images: 1, salvage: true, attempts: 1, ..R3 };

const STAGED: staging::Scope<3> =
    staging::Scope { needed: 2, attempts: [2, 0, 1], together: true, crashes: 0, mutant: None };

/// k' = 2 of 3 without a spare: any majority may see too little of a chosen record.
const L3: onesync::Scope<3> = onesync::Scope { rounds: 3, ..onesync::Scope::plain(2, 2) };
/// 2+2.
const L4: onesync::Scope<4> = onesync::Scope::plain(2, 3);
/// 3+2.
const L5: onesync::Scope<5> = onesync::Scope::plain(3, 4);

/// Exhaustive within seconds; all must be clean.
#[must_use]
pub fn small() -> Vec<Setting> {
    let mut all = Vec::new();
    let mut reg = |name: &str, s: register::Scope<3>| {
        all.push(Setting::new(format!("register n=3: {name}"), s));
    };
    reg("3 rounds, 1 restart", register::Scope { rounds: 3, crashes: 1, ..R3 });
    let conditional = register::Scope { writers: CONDITIONAL, ..R3 };
    reg("If-None-Match, 3 rounds, 1 restart", register::Scope { rounds: 3, crashes: 1, ..conditional });
    reg("If-Match, 4 rounds", MATCH);
    reg("4 rounds, 1 look between attempts", LOOKING);
    reg("1 replaced, 1 restart", register::Scope { replaced: 1, crashes: 1, ..R3 });
    reg("1 replaced, 1 read", register::Scope { replaced: 1, reads: 1, ..R3 });
    reg("1 replaced, 3 rounds", register::Scope { replaced: 1, rounds: 3, ..R3 });
    let zombies = register::Scope { zombies: true, replaced: 1, ..R3 };
    reg("1 replaced, old drive lives, 1 read", register::Scope { reads: 1, ..zombies });
    reg("1 read, 3 rounds", register::Scope { reads: 1, rounds: 3, ..R3 });
    reg("purge, 3 rounds", PURGE);
    reg("purge, 1 replaced", register::Scope { rounds: 2, replaced: 1, ..PURGE });
    reg("purge, 1 restart, 1 read", register::Scope { rounds: 2, crashes: 1, reads: 1, ..PURGE });
    reg("a put that fails, a delete, a read", register::Scope { reads: 1, ..FAILED });
    reg("a put that fails, restart, 2 reads", QUIET);
    reg("a drive goes back and joins, 1 read", NOTICED);
    reg("a flush fails, 1 restart, 1 read", FAILING);
    reg("distrust of all, one went back", SALVAGE);
    let mut reg = |name: &str, s: register::Scope<4>| {
        all.push(Setting::new(format!("register n=4: {name}"), s));
    };
    reg("a drive goes back behind a purge, 1 read", BACK);
    let one = register::Scope { writers: ONE, rounds: 1, ..HALF };
    reg("half reads, 1 round, 2 reads", register::Scope { reads: 2, ..one });
    let two = register::Scope { writers: ONE, reads: 1, ..HALF };
    reg("half reads, 2 rounds of one writer", two);
    reg("2 dead drives", register::Scope { dead: true, ..R4 });
    reg("2 dead drives, half reads", register::Scope { dead: true, reads: 1, ..one });
    all.push(Setting::new("register n=5: 1 restart", register::Scope { crashes: 1, ..R5 }));

    let s = staging::Scope { crashes: 1, ..STAGED };
    all.push(Setting::new("staging n=3: retry, collector, 1 restart", s));

    let mut light = |name: &str, s: onesync::Scope<3>| {
        all.push(Setting::new(format!("onesync n=3 k'=2 f=0: {name}"), s));
    };
    light("3 rounds, 1 restart", onesync::Scope { crashes: 1, ..L3 });
    light("1 staged, 3 rounds", onesync::Scope { light: [true, false], ..L3 });
    light("hints, 1 read", onesync::Scope { hints: true, reads: 1, rounds: 2, ..L3 });
    let mut light = |name: &str, s: onesync::Scope<4>| {
        all.push(Setting::new(format!("onesync n=4 k'=2 f=1: {name}"), s));
    };
    light("3 rounds", onesync::Scope { rounds: 3, ..L4 });
    light("1 replaced", onesync::Scope { replaced: 1, ..L4 });
    light("2 dead drives", onesync::Scope { dead: true, ..L4 });
    all.push(Setting::new(
        "onesync n=4 k'=3 f=0: 3 rounds",
        onesync::Scope { rounds: 3, ..onesync::Scope::<4>::plain(3, 3) },
    ));
    all.push(Setting::new("onesync n=5 k'=3 f=1: 1 restart", onesync::Scope { crashes: 1, ..L5 }));

    for (name, s) in MULTIPART {
        all.push(Setting::new(format!("multipart: {name}"), s));
    }
    for (name, s) in RENAMES {
        all.push(Setting::new(format!("rename: {name}"), s));
    }
    for (name, s) in BUCKETS {
        all.push(Setting::new(format!("bucket: {name}"), s));
    }
    for (name, s) in PAGES {
        all.push(Setting::new(format!("pages: {name}"), s));
    }
    for (name, s) in QUOTAS {
        all.push(Setting::new(format!("quota: {name}"), s));
    }
    all.push(Setting::new("renames 12+4: with a decision", renames::Scope { n: 16, k: 12, mutant: None }));
    all
}

/// One upload of one part.
const MULTIPART: [(&str, multipart::Scope); 4] = {
    let two = multipart::Scope {
        completes: 2,
        tries: 2,
        puts: 1,
        replaces: false,
        aborts: true,
        reads: false,
        mutant: None,
    };
    [
        ("2 completes, abort, 1 put", two),
        (
            "1 complete, abort, part replaced, 1 put, 1 read",
            multipart::Scope { completes: 1, replaces: true, reads: true, ..two },
        ),
        ("2 completes, part replaced, 1 put", multipart::Scope { replaces: true, aborts: false, ..two }),
        (
            "2 completes, 2 puts, 1 read",
            multipart::Scope { tries: 1, puts: 2, aborts: false, reads: true, ..two },
        ),
    ]
};

/// Two keys and a third that does not exist.
const RENAMES: [(&str, rename::Scope); 5] = {
    let one =
        rename::Scope { renames: [(0, 1), (1, 0)], count: 1, writers: 0, reader: Some(0), mutant: None };
    [
        ("one, both keys written, source read", rename::Scope { writers: 0b11, ..one }),
        (
            "one to a new key, destination read",
            rename::Scope { renames: [(0, 2), (1, 0)], writers: 0b101, reader: Some(2), ..one },
        ),
        (
            "two against each other, both keys written, one read",
            rename::Scope { count: 2, writers: 0b11, ..one },
        ),
        (
            "one key to two, all written",
            rename::Scope { renames: [(0, 1), (0, 2)], count: 2, writers: 0b111, ..one },
        ),
        (
            "a chain",
            rename::Scope { renames: [(0, 1), (1, 2)], count: 2, writers: 0b101, reader: Some(1), ..one },
        ),
    ]
};

/// One bucket over groups of three drives.
const BUCKETS: [(&str, bucket::Scope); 4] = {
    let one = bucket::Scope {
        writers: [1, 0],
        groups: 1,
        deleters: 1,
        aborted: false,
        others: true,
        replaced: false,
        mutant: None,
    };
    [
        ("1 deletion, 2 groups, 1 writer", bucket::Scope { groups: 2, others: false, ..one }),
        ("1 deletion, 1 writer, crashes", one),
        (
            "a deletion after one that was aborted, 1 writer",
            bucket::Scope { deleters: 2, aborted: true, others: false, ..one },
        ),
        ("1 deletion, 1 writer, a drive replaced", bucket::Scope { replaced: true, others: false, ..one }),
    ]
};
/// A bucket with a quota under two nodes.
const QUOTAS: [(&str, quota::Scope); 5] = {
    let none = quota::Scope {
        limit: 2,
        filled: 0,
        puts: 3,
        lost: 0,
        deletes: 0,
        settles: 5,
        unknown: 0,
        crashes: 0,
        counts: 0,
        suspicions: 0,
        mutant: None,
    };
    [
        ("3 puts, 1 lost, 1 unknown update", quota::Scope { lost: 1, unknown: 1, ..none }),
        ("2 puts, 1 delete, 1 count", quota::Scope { filled: 1, puts: 2, deletes: 1, counts: 1, ..none }),
        (
            "3 puts, 1 delete by a node without a share, 1 count",
            quota::Scope { limit: 3, filled: 2, deletes: 1, counts: 1, settles: 4, ..none },
        ),
        ("3 puts, 1 crash, 1 count", quota::Scope { settles: 4, crashes: 1, counts: 1, ..none }),
        ("3 puts, 1 silent node, 1 count", quota::Scope { settles: 4, suspicions: 1, counts: 1, ..none }),
    ]
};
/// Two deletions, one of which may replace the other.
const TAKEN_OVER: bucket::Scope =
    bucket::Scope { writers: [2, 0], deleters: 2, others: false, ..BUCKETS[1].1 };

const PAGES_JOIN: [&[pages::Op]; 2] = [&[pages::Op::Put, pages::Op::Spill], &[pages::Op::Remove(1)]];

/// A list of versions in pages.
const PAGES: [(&str, pages::Scope); 5] = {
    use pages::Op::{Put, Remove, Spill};
    let one =
        pages::Scope { versions: 3, writers: [&[Put, Spill], &[]], crashes: 1, reads: true, mutant: None };
    [
        ("a put and a spill, 1 crash, 1 read", one),
        ("two put and spill, 1 crash", pages::Scope { writers: [&[Put, Spill]; 2], reads: false, ..one }),
        (
            "a spill that joins pages, an old version goes, 1 read",
            pages::Scope { versions: 4, writers: [&[Spill], &[Remove(1)]], crashes: 0, ..one },
        ),
        (
            "two remove neighbours, 1 crash",
            pages::Scope { versions: 6, writers: [&[Remove(2)], &[Remove(3)]], reads: false, ..one },
        ),
        (
            "all versions go, one is put",
            pages::Scope {
                versions: 2,
                writers: [&[Remove(2), Remove(1)], &[Put]],
                crashes: 0,
                reads: false,
                ..one
            },
        ),
    ]
};

/// Larger settings, up to the limit of the run; by hand or at night.
#[must_use]
pub fn large() -> Vec<Setting> {
    let mut all = Vec::new();
    let mut reg = |name: &str, s: register::Scope<3>| {
        all.push(Setting::new(format!("register n=3: {name}"), s));
    };
    let hinted = register::Scope { hints: true, ..R3 };
    reg("hints, 1 restart, 1 read", register::Scope { crashes: 1, reads: 1, ..hinted });
    reg("hints, 1 restart, 2 reads", register::Scope { crashes: 1, reads: 2, ..hinted });
    reg("hints, 3 rounds, 1 restart, 2 reads", register::Scope { rounds: 3, crashes: 1, reads: 2, ..hinted });
    let replaced = register::Scope { replaced: 1, ..R3 };
    reg("1 replaced, 1 restart, 1 read", register::Scope { crashes: 1, reads: 1, ..replaced });
    reg("1 replaced, 1 restart, 3 rounds", register::Scope { crashes: 1, rounds: 3, ..replaced });
    reg("2 replaced, one after the other", register::Scope { replaced: 2, ..R3 });
    reg("purge, 3 rounds, 1 restart", register::Scope { crashes: 1, ..PURGE });
    reg("purge, 3 rounds, 1 replaced", register::Scope { replaced: 1, ..PURGE });
    reg("If-Match, 4 rounds, 1 read", register::Scope { reads: 1, ..MATCH });
    let four = register::Scope { rounds: 4, crashes: 1, ..R3 };
    reg("4 rounds, 1 restart", four);
    reg("4 rounds, 1 restart, retries above all", register::Scope { learns: true, ..four });
    let mut reg = |name: &str, s: register::Scope<4>| {
        all.push(Setting::new(format!("register n=4: {name}"), s));
    };
    reg("half reads, 1 read", register::Scope { reads: 1, ..HALF });
    reg("half reads, 2 reads", register::Scope { reads: 2, ..HALF });
    let dead = register::Scope { half: true, hints: true, reads: 1, ..DEAD };
    reg("2 dead drives, half reads, 2 rounds", dead);
    reg(
        "hints, a drive goes back behind a purge, 1 read",
        register::Scope { hints: true, patient: true, ..BACK },
    );
    reg("2 dead drives that live on, half reads, 2 rounds", register::Scope { zombies: true, ..dead });
    all.push(Setting::new(
        "register n=5: 3 rounds, 1 restart",
        register::Scope { rounds: 3, crashes: 1, ..R5 },
    ));

    let zombies = register::Scope { replaced: 1, zombies: true, reads: 1, ..R5 };
    all.push(Setting::new("register n=5: 1 replaced, old drive lives, 1 read", zombies));

    let apart = staging::Scope { together: false, ..STAGED };
    all.push(Setting::new("staging n=3: STAGE apart, retry, collector", apart));
    let more = staging::Scope { attempts: [2, 1, 1], ..apart };
    all.push(Setting::new("staging n=3: STAGE apart, second writer", more));
    let more = staging::Scope { attempts: [2, 1, 1], crashes: 1, ..STAGED };
    all.push(Setting::new("staging n=3: second writer, 1 restart", more));
    let more = staging::Scope { attempts: [2, 0, 2], ..STAGED };
    all.push(Setting::new("staging n=3: 2 collectors", more));
    let four: staging::Scope<4> =
        staging::Scope { needed: 3, attempts: [2, 0, 1], together: true, crashes: 0, mutant: None };
    all.push(Setting::new("staging n=4: retry, collector", four));

    let all_calls =
        multipart::Scope { completes: 3, tries: 2, puts: 2, replaces: true, reads: true, ..MULTIPART[0].1 };
    all.push(Setting::new("multipart: 3 completes, abort, part replaced, 2 puts, 1 read", all_calls));
    let joined = pages::Scope { crashes: 1, writers: PAGES_JOIN, ..PAGES[2].1 };
    all.push(Setting::new("pages: a put, a spill that joins, an old version goes, 1 crash, 1 read", joined));
    let more = pages::Scope { crashes: 2, reads: true, ..PAGES[1].1 };
    all.push(Setting::new("pages: two put and spill, 2 crashes, 1 read", more));

    all.push(Setting::new("bucket: 2 deletions, 2 attempts of a writer", TAKEN_OVER));
    let again = bucket::Scope { writers: [2, 0], ..BUCKETS[1].1 };
    all.push(Setting::new("bucket: 1 deletion, 2 attempts of a writer, crashes", again));
    let all_of_it = bucket::Scope { writers: [1, 1], others: true, ..BUCKETS[0].1 };
    all.push(Setting::new("bucket: 1 deletion, 2 groups, 2 writers, crashes", all_of_it));
    let replaced = bucket::Scope { others: true, ..BUCKETS[3].1 };
    all.push(Setting::new("bucket: 1 deletion, 1 writer, a drive replaced, crashes", replaced));
    let all_of_it = quota::Scope { settles: 8, lost: 1, deletes: 1, unknown: 1, ..QUOTAS[3].1 };
    all.push(Setting::new("quota: 3 puts, 1 lost, 1 delete, 1 unknown update, 1 crash, 1 count", all_of_it));

    let s = onesync::Scope { hints: true, reads: 1, ..L3 };
    all.push(Setting::new("onesync n=3 k'=2 f=0: hints, 3 rounds, 1 read", s));
    let mut light = |name: &str, s: onesync::Scope<4>| {
        all.push(Setting::new(format!("onesync n=4 k'=2 f=1: {name}"), s));
    };
    let mixed = onesync::Scope { light: [true, false], rounds: 3, ..L4 };
    light("1 staged, 3 rounds", mixed);
    light("1 staged, 3 rounds, 1 restart", onesync::Scope { crashes: 1, ..mixed });
    light("hints, 1 read", onesync::Scope { hints: true, reads: 1, ..L4 });
    light("hints, 1 replaced", onesync::Scope { hints: true, replaced: 1, ..L4 });
    light("1 replaced, 3 rounds", onesync::Scope { replaced: 1, rounds: 3, ..L4 });
    light("2 dead drives, 3 rounds", onesync::Scope { dead: true, rounds: 3, ..L4 });
    let mut light = |name: &str, s: onesync::Scope<5>| {
        all.push(Setting::new(format!("onesync n=5 k'=3 f=1: {name}"), s));
    };
    light("3 rounds", onesync::Scope { rounds: 3, ..L5 });
    light("1 read", onesync::Scope { reads: 1, ..L5 });
    light("1 replaced", onesync::Scope { replaced: 1, ..L5 });
    light("2 dead drives", onesync::Scope { dead: true, ..L5 });
    light("hints, 1 restart, 1 read", onesync::Scope { hints: true, crashes: 1, reads: 1, ..L5 });
    all
}

/// One setting per mutant, in which it must be found.
#[must_use]
pub fn mutants() -> Vec<(Mutant, Setting)> {
    Mutant::ALL.iter().map(|m| (*m, mutant(*m))).collect()
}

fn mutant(m: Mutant) -> Setting {
    use Mutant as M;
    let mutant = Some(m);
    let name = format!("without the rule: {m:?}");
    let three = |s: register::Scope<3>| register::Scope { mutant, ..s };
    let four = |s: register::Scope<4>| register::Scope { mutant, ..s };
    match m {
        M::PromiseForgotten | M::SameIncarnationOnly => {
            Setting::new(name, three(register::Scope { rounds: 3, crashes: 1, ..R3 }))
        }
        M::BlankVotes | M::NoFence => {
            Setting::new(name, three(register::Scope { rounds: 3, replaced: 1, ..R3 }))
        }
        M::NewestOfMajority => Setting::new(name, three(register::Scope { reads: 1, ..R3 })),
        M::AnswerUndecided => {
            Setting::new(name, three(register::Scope { writers: CONDITIONAL, reads: 1, ..R3 }))
        }
        M::RetryForgets => Setting::new(name, three(MATCH)),
        M::PassedByUndecided => Setting::new(name, three(LOOKING)),
        M::OldEpochReads => {
            let zombies = register::Scope { zombies: true, replaced: 1, reads: 1, ..R3 };
            Setting::new(name, three(zombies))
        }
        M::HalfNewest | M::HalfOfOneMind => {
            Setting::new(name, four(register::Scope { reads: 2, hints: false, ..HALF }))
        }
        M::HalfOldEpoch => {
            let zombies = register::Scope { zombies: true, half: true, reads: 1, rounds: 1, ..DEAD };
            Setting::new(name, four(zombies))
        }
        M::DeadFromSome => Setting::new(name, four(register::Scope { dead: true, ..R4 })),
        M::NoHorizon | M::PurgeByMajority => Setting::new(name, three(PURGE)),
        M::PurgeWhileJoining => Setting::new(name, three(register::Scope { replaced: 1, ..PURGE })),
        M::IdleDelete => Setting::new(name, three(register::Scope { reads: 1, ..FAILED })),
        M::ReadPassesBy | M::ReadSettlesHalf => Setting::new(name, three(QUIET)),
        M::AbsenceWithoutHorizon => Setting::new(name, four(BACK)),
        M::BackVotes => Setting::new(name, three(NOTICED)),
        M::FencedVotes => Setting::new(name, three(FAILING)),
        M::SalvageMost => Setting::new(name, three(SALVAGE)),
        M::SweepWithoutBallot | M::SweepOnlyPrepares | M::NoReconfirm => {
            Setting::new(name, staging::Scope { mutant, ..STAGED })
        }
        M::RecordBeforeData => Setting::new(name, staging::Scope { mutant, together: false, ..STAGED }),
        M::ConfirmForgotten => Setting::new(name, staging::Scope { mutant, crashes: 1, ..STAGED }),
        M::IgnoreWithoutCount | M::HiddenParent => Setting::new(name, onesync::Scope { mutant, ..L3 }),
        M::CopyNothing => {
            Setting::new(name, onesync::Scope { mutant, dead: true, attempts: 1, reads: 1, ..L4 })
        }
        M::BuildOnThin => Setting::new(name, onesync::Scope { mutant, rounds: 3, ..L4 }),
        M::AckAtMajority | M::ReadAtMajority => Setting::new(name, onesync::Scope { mutant, reads: 1, ..L5 }),
        M::BlindAbort | M::NoMark | M::UploadReleaseOpen | M::AttemptsAlike | M::UploadDoneEarly => {
            Setting::new(name, multipart::Scope { mutant, ..MULTIPART[0].1 })
        }
        M::GenerationIgnored | M::PartDroppedFirst | M::UploadNoSecondLook => {
            Setting::new(name, multipart::Scope { mutant, ..MULTIPART[1].1 })
        }
        M::RenameNoSecondLook | M::RenameReleaseOpen | M::RenameDoneEarly | M::RenameSourceFree => {
            Setting::new(name, rename::Scope { mutant, writers: 0b11, ..RENAMES[0].1 })
        }
        M::FenceMinority => Setting::new(name, bucket::Scope { mutant, writers: [0, 1], ..BUCKETS[0].1 }),
        M::LookFirst | M::LookElsewhere | M::UndecidedIsAbsent => {
            Setting::new(name, bucket::Scope { mutant, ..BUCKETS[1].1 })
        }
        M::FenceNotCopied | M::FenceAcrossEpochs => {
            Setting::new(name, bucket::Scope { mutant, ..BUCKETS[3].1 })
        }
        M::OldFenceWins | M::LiftForeign => Setting::new(name, bucket::Scope { mutant, ..BUCKETS[2].1 }),
        M::RemoveUnasked => Setting::new(name, bucket::Scope { mutant, ..BUCKETS[1].1 }),
        M::PageSweptUndecided | M::RecordBeforePage | M::SweepPassesPages => {
            Setting::new(name, pages::Scope { mutant, reads: false, ..PAGES[0].1 })
        }
        M::PageDroppedFirst | M::SpillWithoutBase => {
            Setting::new(name, pages::Scope { mutant, ..PAGES[1].1 })
        }
        M::PageGoneIsAbsent => Setting::new(name, pages::Scope { mutant, ..PAGES[2].1 }),
        M::QuotaReturnInUse => Setting::new(name, quota::Scope { mutant, ..QUOTAS[0].1 }),
        M::QuotaLostIsFree => Setting::new(name, quota::Scope { mutant, ..QUOTAS[0].1 }),
        M::QuotaCountUnanswered => Setting::new(name, quota::Scope { mutant, ..QUOTAS[1].1 }),
        M::QuotaCountNet => Setting::new(name, quota::Scope { puts: 3, deletes: 2, mutant, ..QUOTAS[1].1 }),
        M::QuotaOldRemoval => Setting::new(name, quota::Scope { mutant, ..QUOTAS[2].1 }),
        M::QuotaCountAcrossLives => Setting::new(name, quota::Scope { mutant, ..QUOTAS[3].1 }),
        M::QuotaTakenAlive => Setting::new(name, quota::Scope { mutant, ..QUOTAS[4].1 }),
        M::CountRenames => Setting::new(name, renames::Scope { n: 16, k: 12, mutant }),
    }
}
