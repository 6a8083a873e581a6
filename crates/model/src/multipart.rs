//! Multipart uploads: two compare-and-set registers and the calls that race on them (docs/protocol.md
//! 2.8, `ashlar_commit::upload`). The registers are taken as linearizable, which the other worlds
//! check; a call may stop for ever after any step (a crash) while others go on.
//!
//! Calls: two Completes with different part lists (the second may be a retry, or the collector
//! that rolls forward), an Abort, writers that replace the object and carry marks along, and a
//! cleaner that forgets a finished upload.

use crate::{Bad, Mutant};
use ashlar_commit::upload::{Change, Upload, abort, complete, recheck};
use stateright::{Model, Property};

/// What may happen.
#[derive(Clone, Copy, Debug)]
pub struct Scope {
    /// Complete calls, 1..=3.
    pub completes: u8,
    /// Replacing writes to the key.
    pub puts: u8,
    /// The rule that is broken.
    pub mutant: Option<Mutant>,
}

/// Where a Complete call is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum At {
    /// It has read nothing.
    Begin,
    /// It knows the result; next it reads the key.
    ReadKey(u8),
    /// It has read the key (at this revision); next it reads the upload again.
    Recheck(u8, u8),
    /// It may change the key from this revision.
    Apply(u8, u8),
    /// The version is in; next the upload becomes Done.
    Finish(u8),
    /// The mark is to be taken off; the client has its answer.
    Unmark,
    /// Over.
    End,
}

/// Everything.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct World {
    upload: Option<UploadState>,
    /// The key's record: revision, visible version (0: none, results are 1.., puts are 100..), and
    /// whether it carries the upload's mark.
    revision: u8,
    version: u8,
    mark: bool,
    calls: [At; 3],
    abort_called: bool,
    puts: u8,
    /// How often the upload's version was made visible.
    applied: u8,
    /// What the client of Complete was told (0: nothing yet).
    told: u8,
    told_aborted: bool,
    /// Parts are still there.
    parts: bool,
    bad: Option<Bad>,
}

/// `Upload<u8>`, copyable.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum UploadState {
    Open,
    Completing(u8),
    Done(u8),
    Aborted,
}

impl From<UploadState> for Upload<u8> {
    fn from(s: UploadState) -> Upload<u8> {
        match s {
            UploadState::Open => Upload::Open,
            UploadState::Completing(r) => Upload::Completing(r),
            UploadState::Done(r) => Upload::Done(r),
            UploadState::Aborted => Upload::Aborted,
        }
    }
}

fn state(u: &Upload<u8>) -> UploadState {
    match u {
        Upload::Open => UploadState::Open,
        Upload::Completing(r) => UploadState::Completing(*r),
        Upload::Done(r) => UploadState::Done(*r),
        Upload::Aborted => UploadState::Aborted,
    }
}

/// One thing that happens. `c`: which Complete call.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[allow(missing_docs)] // the fields are named above
pub enum Act {
    /// A Complete call makes its next step.
    Complete { c: u8 },
    /// Abort, whole (it is one compare-and-set).
    Abort,
    /// A client replaces the object.
    Put,
    /// The collector drops the parts of an aborted upload.
    DropParts,
    /// After 24 h the finished upload is forgotten.
    Forget,
}

impl Scope {
    fn broken(&self, mutant: Mutant) -> bool {
        self.mutant == Some(mutant)
    }

    fn step(&self, w: &mut World, c: usize) {
        let upload = w.upload.map(Upload::from);
        w.calls[c] = match w.calls[c] {
            At::Begin => match complete(upload.as_ref(), || c as u8 + 1) {
                Change::Set(to) => {
                    w.upload = Some(state(&to));
                    At::Begin // and go on with whatever is there now
                }
                Change::RollForward(r) => At::ReadKey(r),
                Change::Completed(r) => tell(w, r),
                Change::NoSuchUpload => At::End,
            },
            At::ReadKey(r) => {
                let there = if self.broken(Mutant::NoMark) { w.version == r } else { w.mark };
                match there {
                    true => At::Finish(r),
                    // The mutant has looked at the upload before: now it goes straight on.
                    false if self.broken(Mutant::UploadBeforeKey) => At::Apply(r, w.revision),
                    false => At::Recheck(r, w.revision),
                }
            }
            At::Recheck(r, revision) => match recheck(upload.as_ref()) {
                None => At::Apply(r, revision),
                Some(Change::Completed(r)) => tell(w, r),
                Some(_) => At::End,
            },
            At::Apply(r, revision) if revision == w.revision => {
                if !w.parts {
                    w.bad = Some(Bad::Thin);
                }
                w.revision += 1;
                w.version = r;
                w.mark = true;
                w.applied += 1;
                At::Finish(r)
            }
            At::Apply(r, _) => At::ReadKey(r),
            At::Finish(r) => {
                if w.upload == Some(UploadState::Completing(r)) {
                    w.upload = Some(UploadState::Done(r));
                }
                match w.upload {
                    Some(UploadState::Aborted) => w.bad = Some(Bad::BothWon),
                    _ => drop(tell(w, r)),
                }
                At::Unmark
            }
            At::Unmark => {
                if w.mark {
                    w.revision += 1;
                    w.mark = false;
                }
                At::End
            }
            At::End => At::End,
        };
    }
}

/// The client of Complete hears the result.
fn tell(w: &mut World, r: u8) -> At {
    if w.told != 0 && w.told != r || w.told_aborted {
        w.bad = Some(Bad::BothWon);
    }
    w.told = r;
    At::Unmark
}

impl Model for Scope {
    type State = World;
    type Action = Act;

    fn init_states(&self) -> Vec<World> {
        vec![World {
            upload: Some(UploadState::Open),
            revision: 0,
            version: 0,
            mark: false,
            calls: [At::Begin; 3],
            abort_called: false,
            puts: 0,
            applied: 0,
            told: 0,
            told_aborted: false,
            parts: true,
            bad: None,
        }]
    }

    fn actions(&self, w: &World, acts: &mut Vec<Act>) {
        if w.bad.is_some() {
            return;
        }
        for c in 0..self.completes {
            if w.calls[c as usize] != At::End {
                acts.push(Act::Complete { c });
            }
        }
        if !w.abort_called {
            acts.push(Act::Abort);
        }
        if w.puts < self.puts {
            acts.push(Act::Put);
        }
        if w.parts && w.upload == Some(UploadState::Aborted) {
            acts.push(Act::DropParts);
        }
        // Only what nobody can need any more; a mark means that somebody may.
        if matches!(w.upload, Some(UploadState::Done(_) | UploadState::Aborted)) && !w.mark {
            acts.push(Act::Forget);
        }
    }

    fn next_state(&self, last: &World, act: Act) -> Option<World> {
        let mut w = *last;
        match act {
            Act::Complete { c } => self.step(&mut w, c as usize),
            Act::Abort => {
                w.abort_called = true;
                let upload = w.upload.map(Upload::from);
                let blind = self.broken(Mutant::BlindAbort) && upload.is_some();
                if blind || abort(upload.as_ref()) == Change::Set(Upload::Aborted) {
                    w.upload = Some(UploadState::Aborted);
                    w.told_aborted = true;
                    if w.told != 0 {
                        w.bad = Some(Bad::BothWon);
                    }
                }
            }
            Act::Put => {
                w.puts += 1;
                w.revision += 1;
                w.version = 100 + w.puts;
            }
            Act::DropParts => w.parts = false,
            Act::Forget => w.upload = None,
        }
        if w.applied > 1 {
            // The version came back after it had been visible (and perhaps replaced).
            w.bad = w.bad.or(Some(Bad::Stale));
        }
        if w.applied > 0 && w.told_aborted {
            w.bad = w.bad.or(Some(Bad::BothWon));
        }
        Some(w)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("one outcome", |_, w: &World| w.bad != Some(Bad::BothWon)),
            Property::always("the version appears once", |_, w: &World| w.bad != Some(Bad::Stale)),
            Property::always("its parts are there", |_, w: &World| w.bad != Some(Bad::Thin)),
            Property::sometimes("reached: completed, replaced, forgotten", |s: &Scope, w: &World| {
                w.told != 0 && w.upload.is_none() && w.puts == s.puts
            }),
            Property::sometimes("reached: aborted", |_, w: &World| w.told_aborted),
        ]
    }
}
