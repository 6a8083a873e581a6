//! A multipart upload: the registers of the key, of the upload and of one part, as compare-and-set registers
//! (docs/protocol.md 2.8, `ashlar_commit::upload` and `ashlar_commit::attempt`). The registers are taken as
//! linearizable, which the other worlds check; a call may stop for ever after any step (a crash) while others
//! go on.
//!
//! Calls: Completes (the second may be a retry through another server), an Abort, writers that replace the
//! object, a writer that replaces the part, a reader of the key, and a collector that drops, finishes and
//! forgets as early as it may and drops data that no record names.

use crate::{Bad, Mutant};
use ashlar_commit::attempt::{Holds, Settle, State, read, settle};
use ashlar_commit::upload::{
    Abort, Attempt, Complete, Replace, Upload, abort, complete, decide, invalidate, replace,
};
use stateright::{Model, Property};

/// Complete calls at most.
const CALLS: usize = 3;
/// Writers of the key at most.
const PUTS: usize = 2;
/// The data of the part, before and after it is replaced.
const PARTS: [u8; 2] = [1, 2];

/// What may happen.
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

/// What the key holds.
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

/// What follows a completion that happened.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Roll {
    Key,
    Part,
    Done,
    Mark,
}

/// Getting the key out of the hands of an attempt.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Clear {
    Look,
    Invalidate,
    Release,
    Roll(Roll),
}

/// Where a call is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum At {
    Begin,
    /// A Complete call has read the upload in this generation; next it reads the part.
    Part(u64),
    /// It has read the part (this data); next it holds the key.
    Hold(u64, u8),
    /// The key is held by another attempt, which is to be cleared; then as above.
    Clear(Attempt, u64, u8, Clear),
    /// It holds the key.
    Decide(u64, u8),
    /// Its attempt failed.
    Release(Attempt),
    Roll(Roll),
    /// A reader met a key that this attempt holds; next it reads the upload.
    Met(Attempt),
    /// ... which says: look again.
    Again(Attempt),
    /// The part is replaced; next the upload's generation grows.
    Grow,
    /// The replaced data is to be dropped.
    DropOld,
    /// The new part came too late.
    Withdraw,
    End,
}

/// Everything.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct World {
    key: Key,
    upload: Reg,
    /// Bit d: data d is named by the part's register. The current data is the highest one.
    part: u8,
    /// Bit d: data d is there.
    data: u8,
    completes: [At; CALLS],
    tries: [u8; CALLS],
    puts: [At; PUTS],
    abort: At,
    replace: At,
    reader: At,
    /// What the key is for whoever looks at everything at once.
    spec: Value,
    /// What the reader found in the record of the held key.
    met: Value,
    /// What the key was since the reader began.
    since: u8,
    /// How often the upload's version was made visible.
    happened: u8,
    /// How often the version was put on the key.
    filled: u8,
    told_aborted: bool,
    bad: Option<Bad>,
}

/// One register is read or changed by one call.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[allow(missing_docs)] // what they do is in `step`
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
    /// It forgets an upload that is over.
    Forget,
    /// It drops data that no record names.
    Orphan(u8),
}

impl Scope {
    fn broken(&self, mutant: Mutant) -> bool {
        self.mutant == Some(mutant)
    }

    fn attempt(&self, generation: u64, call: u8) -> Attempt {
        let nonce = if self.broken(Mutant::AttemptsAlike) { 0 } else { u64::from(call) };
        Attempt { generation, nonce }
    }

    fn roll(&self, w: &mut World, roll: Roll) -> Option<Roll> {
        let early = self.broken(Mutant::UploadDoneEarly);
        match roll {
            Roll::Key => {
                if let (Reg::Completing(attempt, made), Some(held)) = (w.upload, w.key.held)
                    && attempt == held
                {
                    w.filled += 1;
                    w.key = Key { value: Value::Made(made), mark: !self.broken(Mutant::NoMark), held: None };
                }
                if early { None } else { Some(Roll::Part) }
            }
            Roll::Part => {
                if let Reg::Completing(_, made) = w.upload {
                    w.data &= !(w.part & !(1 << made.data));
                    w.part = 0;
                }
                Some(Roll::Done)
            }
            Roll::Done => {
                if let Reg::Completing(_, made) = w.upload {
                    w.upload = Reg::Done(made);
                }
                Some(if early { Roll::Key } else { Roll::Mark })
            }
            Roll::Mark => {
                if matches!(w.upload, Reg::Done(_) | Reg::Gone) {
                    w.key.mark = false;
                }
                None
            }
        }
    }

    fn first(&self) -> Roll {
        if self.broken(Mutant::UploadDoneEarly) { Roll::Part } else { Roll::Key }
    }

    /// `None`: the key may be tried again.
    fn clear(&self, w: &mut World, held: Attempt, clear: Clear) -> Option<Clear> {
        match clear {
            Clear::Look => Some(match settle(w.upload.attempt(held).as_ref()) {
                Settle::Abort if self.broken(Mutant::UploadReleaseOpen) => Clear::Release,
                Settle::Abort => Clear::Invalidate,
                Settle::RollForward => Clear::Roll(self.first()),
                Settle::Release => Clear::Release,
            }),
            Clear::Invalidate => {
                if let Some(generation) = invalidate(w.upload.found().as_ref(), held) {
                    w.upload = Reg::Open(generation);
                }
                Some(Clear::Look)
            }
            Clear::Release => {
                release(w, held);
                None
            }
            Clear::Roll(roll) => self.roll(w, roll).map(Clear::Roll),
        }
    }

    fn complete(&self, w: &mut World, c: u8) {
        let i = usize::from(c);
        w.completes[i] = match w.completes[i] {
            At::Begin => match complete(w.upload.found().as_ref()) {
                Complete::Attempt(_) if w.tries[i] == self.tries => At::End,
                Complete::Attempt(generation) => {
                    w.tries[i] += 1;
                    At::Part(generation)
                }
                Complete::RollForward(_) => At::Roll(self.first()),
                Complete::Completed(_) => told(w),
                Complete::NoSuchUpload => At::End,
            },
            At::Part(generation) => match PARTS.iter().rev().find(|d| w.part & 1 << **d != 0) {
                Some(data) => At::Hold(generation, *data),
                None => At::End,
            },
            At::Hold(generation, data) => match w.key.held {
                Some(other) => At::Clear(other, generation, data, Clear::Look),
                None => {
                    w.key.held = Some(self.attempt(generation, c));
                    At::Decide(generation, data)
                }
            },
            At::Clear(other, generation, data, clear) => match self.clear(w, other, clear) {
                Some(next) => At::Clear(other, generation, data, next),
                None => At::Hold(generation, data),
            },
            At::Decide(generation, data) => {
                let attempt = self.attempt(generation, c);
                let any = self.broken(Mutant::GenerationIgnored) && matches!(w.upload, Reg::Open(_));
                if decide(w.upload.found().as_ref(), attempt) || any {
                    let made = Made { by: c, data };
                    w.upload = Reg::Completing(attempt, made);
                    w.spec = Value::Made(made);
                    w.happened += 1;
                    told(w);
                    At::Roll(self.first())
                } else {
                    At::Release(attempt)
                }
            }
            At::Release(attempt) => {
                // As anybody who meets the key: it may be the result of a call that was answered late.
                match settle(w.upload.attempt(attempt).as_ref()) {
                    Settle::RollForward => At::Roll(self.first()),
                    _ => {
                        release(w, attempt);
                        At::Begin
                    }
                }
            }
            At::Roll(roll) => self.roll(w, roll).map_or(At::End, At::Roll),
            other => other,
        };
    }

    fn put(&self, w: &mut World, n: u8) {
        let i = usize::from(n);
        w.puts[i] = match w.puts[i] {
            At::Begin => match w.key {
                Key { held: Some(held), .. } => At::Clear(held, 0, 0, Clear::Look),
                Key { mark: true, .. } => At::Roll(Roll::Part),
                Key { value, .. } => {
                    if let Value::Made(made) = value {
                        w.data &= !(1 << made.data);
                    }
                    w.key.value = Value::Put(n);
                    w.spec = Value::Put(n);
                    At::End
                }
            },
            At::Clear(held, g, d, clear) => match self.clear(w, held, clear) {
                Some(next) => At::Clear(held, g, d, next),
                None => At::Begin,
            },
            At::Roll(roll) => self.roll(w, roll).map_or(At::Begin, At::Roll),
            other => other,
        };
    }

    fn abort(&self, w: &mut World) {
        w.abort = match w.abort {
            At::Begin => match abort(w.upload.found().as_ref()) {
                Abort::Set => aborted(w),
                _ if self.broken(Mutant::BlindAbort) && w.upload != Reg::Gone => aborted(w),
                Abort::RollForward(_) => At::Roll(self.first()),
                Abort::Again | Abort::NoSuchUpload => At::End,
            },
            At::Roll(roll) => self.roll(w, roll).map_or(At::End, At::Roll),
            other => other,
        };
    }

    fn replace(&self, w: &mut World) {
        let [old, new] = PARTS;
        w.replace = match w.replace {
            At::Begin if matches!(w.upload, Reg::Open(_)) => {
                w.data |= 1 << new;
                let first = self.broken(Mutant::PartDroppedFirst);
                w.part = if first { 1 << new } else { w.part | 1 << new };
                if first {
                    w.data &= !(1 << old);
                }
                At::Grow
            }
            At::Begin => At::End,
            At::Grow => match replace(w.upload.found().as_ref()) {
                Replace::Grow(generation) => {
                    w.upload = Reg::Open(generation);
                    At::DropOld
                }
                Replace::TooLate => match w.upload {
                    Reg::Completing(_, made) if made.data == new => At::End,
                    _ => At::Withdraw,
                },
            },
            At::DropOld => {
                if w.part & 1 << new != 0 {
                    w.data &= !(w.part & 1 << old);
                    w.part = 1 << new;
                }
                At::End
            }
            At::Withdraw => {
                // What it replaced may be the version's: only its own data goes.
                if w.part & 1 << new != 0 {
                    w.part = 0;
                    w.data &= !(1 << new);
                }
                At::End
            }
            other => other,
        };
    }

    fn read(&self, w: &mut World) {
        let Key { value, held, .. } = w.key;
        w.reader = match w.reader {
            At::Begin => {
                w.since |= w.spec.bit();
                w.met = value;
                held.map_or_else(|| answer(w, value), At::Met)
            }
            At::Met(a) => {
                let state = w.upload.attempt(a);
                match (read(state.as_ref()), state) {
                    (Holds::After, Some(State::Completing(made))) => answer(w, Value::Made(made)),
                    (Holds::Before | Holds::After, _) => answer(w, w.met),
                    (Holds::Again, _) if self.broken(Mutant::UploadNoSecondLook) => answer(w, w.met),
                    (Holds::Again, _) => At::Again(a),
                }
            }
            At::Again(a) => match held {
                Some(h) if h != a => {
                    w.met = value;
                    At::Met(h)
                }
                _ => answer(w, value),
            },
            other => other,
        };
    }

    /// What only the collector does.
    fn collect(&self, w: &mut World, act: Act) {
        match act {
            Act::Finish(0) => {
                for roll in [Roll::Key, Roll::Part, Roll::Done] {
                    self.roll(w, roll);
                }
            }
            Act::Finish(_) => drop(self.roll(w, Roll::Mark)),
            Act::DropParts => {
                w.data &= !w.part;
                w.part = 0;
            }
            Act::Forget => w.upload = Reg::Gone,
            Act::Orphan(d) => w.data &= !(1 << d),
            _ => {}
        }
    }
}

fn release(w: &mut World, held: Attempt) {
    if w.key.held == Some(held) {
        w.key.held = None;
    }
}

fn aborted(w: &mut World) -> At {
    w.upload = Reg::Aborted;
    w.told_aborted = true;
    At::End
}

/// The client of Complete hears that it succeeded.
fn told(w: &mut World) -> At {
    if w.told_aborted || w.happened == 0 {
        w.bad = Some(Bad::BothWon);
    }
    At::End
}

fn answer(w: &mut World, value: Value) -> At {
    if w.since & value.bit() == 0 {
        w.bad = Some(Bad::Stale);
    }
    At::End
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

/// What whoever looks at everything at once sees of the key.
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
            // A mark means that somebody may need the upload.
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
            Property::always("a reader sees what the key was meanwhile", |_, w: &World| {
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
