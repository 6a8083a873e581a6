//! A multipart upload: the registers of the key, of the upload and of one part, as compare-and-set registers
//! (docs/protocol.md 2.8, `ashlar_commit::upload` and `ashlar_commit::attempt`). The registers are assumed to
//! be linearizable, which the other worlds check; a call may stop forever after any step (a crash) while
//! others continue.
//!
//! Calls: Completes (the second may be a retry through another server), an Abort, writers that replace the
//! object, a writer that replaces the part, a reader of the key, and a collector that drops, finishes and
//! removes as early as it may and drops data that no record names.
//!
//! Must not depend on: other worlds.

use crate::{Bad, Mutant};
use ashlar_commit::attempt::State;
use ashlar_commit::upload::{Attempt, Upload};
use stateright::{Model, Property};

mod steps;

/// Most Complete calls.
const CALLS: usize = 3;
/// Most writers of the key.
const PUTS: usize = 2;
/// The data of the part, before and after it is replaced.
const PARTS: [u8; 2] = [1, 2];

/// The bounds of the world.
#[derive(Clone, Copy, Debug)]
pub struct Scope {
    /// Complete calls, 1..=3.
    pub completes: u8,
    /// Attempts that a Complete call makes.
    pub tries: u8,
    /// Replacing writes to the key, 0..=2.
    pub puts: u8,
    /// The part is replaced.
    pub replaces: bool,
    /// The upload is aborted.
    pub aborts: bool,
    /// The key is read.
    pub reads: bool,
    /// The rule that is broken.
    pub mutant: Option<Mutant>,
}

/// The version that an upload makes: by which call, and from which data.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Made {
    by: u8,
    data: u8,
}

/// The content of the key.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Value {
    Nothing,
    Made(Made),
    Put(u8),
}

impl Value {
    fn bit(self) -> u8 {
        match self {
            Value::Nothing => 1,
            Value::Made(made) => 2 << made.by,
            Value::Put(n) => 16 << n,
        }
    }
}

/// The key's register.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Key {
    value: Value,
    /// The value carries the mark of the upload.
    mark: bool,
    held: Option<Attempt>,
}

/// The upload's register.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Reg {
    Gone,
    Open(u64),
    Completing(Attempt, Made),
    Done(Made),
    Aborted,
}

impl Reg {
    fn found(self) -> Option<Upload<Made>> {
        match self {
            Reg::Gone => None,
            Reg::Open(generation) => Some(Upload::Open(generation)),
            Reg::Completing(attempt, made) => Some(Upload::Completing(attempt, made)),
            Reg::Done(made) => Some(Upload::Done(made)),
            Reg::Aborted => Some(Upload::Aborted),
        }
    }

    fn attempt(self, attempt: Attempt) -> Option<State<Made>> {
        self.found().map(|u| u.attempt(attempt))
    }
}

/// The steps after a completion that happened.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Roll {
    Key,
    Part,
    Done,
    Mark,
}

/// The steps that release a key from an attempt.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Clear {
    Look,
    Invalidate,
    Release,
    Roll(Roll),
}

/// The state of a call.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum At {
    Begin,
    /// A Complete call has read the upload in this generation; next it reads the part.
    Part(u64),
    /// It has read the part (this data); next it holds the key.
    Hold(u64, u8),
    /// Another attempt holds the key and must be cleared first; then as above.
    Clear(Attempt, u64, u8, Clear),
    /// It holds the key.
    Decide(u64, u8),
    /// Its attempt failed.
    Release(Attempt),
    Roll(Roll),
    /// A reader found a key that this attempt holds; next it reads the upload.
    Met(Attempt),
    /// The upload does not know the attempt: the reader reads the key again.
    Again(Attempt),
    /// The part is replaced; next the upload's generation grows.
    Grow,
    /// The replaced data is to be dropped.
    DropOld,
    /// The new part was uploaded too late.
    Withdraw,
    End,
}

/// The state of the world.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct World {
    key: Key,
    upload: Reg,
    /// Bit d: data d is named by the part's register. The current data is the highest one.
    part: u8,
    /// Bit d: data d exists.
    data: u8,
    completes: [At; CALLS],
    tries: [u8; CALLS],
    puts: [At; PUTS],
    abort: At,
    replace: At,
    reader: At,
    /// The content of the key as an atomic observer sees it.
    spec: Value,
    /// What the reader found in the record of the held key.
    met: Value,
    /// The contents that the key has had since the reader began.
    since: u8,
    /// How often the version of the upload became visible.
    happened: u8,
    /// How often the version was added to the key.
    filled: u8,
    told_aborted: bool,
    bad: Option<Bad>,
}

/// One call reads or changes one register.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[allow(missing_docs)] // see `step`
pub enum Act {
    Complete(u8),
    Put(u8),
    Abort,
    Replace,
    Read,
    /// The collector finishes a completion that happened.
    Finish(u8),
    /// It drops the parts of an upload that is over.
    DropParts,
    /// It removes an upload that is over.
    Forget,
    /// It drops data that no record names.
    Orphan(u8),
}

/// Bit d: some record names data d.
fn named(w: &World) -> u8 {
    let mut named = w.part;
    if let Value::Made(made) = w.key.value {
        named |= 1 << made.data;
    }
    if let Reg::Completing(_, made) = w.upload {
        named |= 1 << made.data;
    }
    named
}

/// The content of the key as an atomic observer sees it.
fn visible(w: &World) -> Value {
    match w.key.held.and_then(|held| w.upload.attempt(held)) {
        Some(State::Completing(made)) => Value::Made(made),
        _ => w.key.value,
    }
}

impl Model for Scope {
    type State = World;
    type Action = Act;

    fn init_states(&self) -> Vec<World> {
        vec![World {
            key: Key { value: Value::Nothing, mark: false, held: None },
            upload: Reg::Open(0),
            part: 1 << PARTS[0],
            data: 1 << PARTS[0],
            completes: [At::Begin; CALLS],
            tries: [0; CALLS],
            puts: [At::Begin; PUTS],
            abort: At::Begin,
            replace: At::Begin,
            reader: At::Begin,
            spec: Value::Nothing,
            met: Value::Nothing,
            since: 0,
            happened: 0,
            filled: 0,
            told_aborted: false,
            bad: None,
        }]
    }

    fn actions(&self, w: &World, acts: &mut Vec<Act>) {
        if w.bad.is_some() {
            return;
        }
        let going = |at: At| at != At::End;
        acts.extend((0..self.completes).filter(|c| going(w.completes[usize::from(*c)])).map(Act::Complete));
        acts.extend((0..self.puts).filter(|n| going(w.puts[usize::from(*n)])).map(Act::Put));
        let once = [
            (self.aborts && going(w.abort), Act::Abort),
            (self.replaces && going(w.replace), Act::Replace),
            (self.reads && going(w.reader), Act::Read),
            (matches!(w.upload, Reg::Completing(..)), Act::Finish(0)),
            (matches!(w.upload, Reg::Done(_)) && w.key.mark, Act::Finish(1)),
            (w.part != 0 && matches!(w.upload, Reg::Aborted | Reg::Done(_) | Reg::Gone), Act::DropParts),
            // A mark means that the upload may still be needed.
            (matches!(w.upload, Reg::Done(_)) && !w.key.mark, Act::Forget),
            (w.upload == Reg::Aborted && w.part == 0, Act::Forget),
        ];
        acts.extend(once.iter().filter(|(may, _)| *may).map(|(_, act)| *act));
        acts.extend(PARTS.iter().filter(|d| w.data & !named(w) & 1 << **d != 0).map(|d| Act::Orphan(*d)));
    }

    fn next_state(&self, last: &World, act: Act) -> Option<World> {
        let mut w = *last;
        match act {
            Act::Complete(c) => self.complete(&mut w, c),
            Act::Put(n) => self.put(&mut w, n),
            Act::Abort => self.abort(&mut w),
            Act::Replace => self.replace(&mut w),
            Act::Read => self.read(&mut w),
            other => self.collect(&mut w, other),
        }
        if matches!(w.reader, At::Met(_) | At::Again(_)) {
            w.since |= w.spec.bit();
        }
        let bad = if visible(&w) != w.spec || w.filled > 1 {
            Some(Bad::Fork)
        } else if named(&w) & !w.data != 0 {
            Some(Bad::Thin)
        } else if w.happened > 1 || w.happened > 0 && w.told_aborted {
            Some(Bad::BothWon)
        } else {
            None
        };
        w.bad = w.bad.or(bad);
        Some(w)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("one outcome", |_, w: &World| w.bad != Some(Bad::BothWon)),
            Property::always("nothing is lost or brought back", |_, w: &World| w.bad != Some(Bad::Fork)),
            Property::always("a reader sees a value that the key had during the read", |_, w: &World| {
                w.bad != Some(Bad::Stale)
            }),
            Property::always("named data is there", |_, w: &World| w.bad != Some(Bad::Thin)),
            Property::sometimes("reached: completed, replaced, forgotten", |s: &Scope, w: &World| {
                w.happened == 1
                    && w.upload == Reg::Gone
                    && (s.puts == 0 || matches!(w.key.value, Value::Put(_)))
            }),
            Property::sometimes("reached: aborted, and its key held", |s: &Scope, w: &World| {
                !s.aborts || w.upload == Reg::Gone && w.told_aborted && w.key.held.is_some()
            }),
        ]
    }
}
