//! One step of each call, by the functions of `ashlar_commit`.
//!
//! Must not depend on: the properties.

use super::{Act, At, Clear, Key, Made, PARTS, Reg, Roll, Scope, Value, World};
use crate::{Bad, Mutant};
use ashlar_commit::attempt::{Holds, Settle, State, read, settle};
use ashlar_commit::upload::{
    Abort, Attempt, Complete, Replace, abort, complete, decide, invalidate, replace,
};

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

    pub(super) fn complete(&self, w: &mut World, c: u8) {
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
                // Like any operation that finds the key held: it may be the result of a call that was
                // answered late.
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

    pub(super) fn put(&self, w: &mut World, n: u8) {
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

    pub(super) fn abort(&self, w: &mut World) {
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

    pub(super) fn replace(&self, w: &mut World) {
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
                // The replaced data may belong to the version: only its own data is dropped.
                if w.part & 1 << new != 0 {
                    w.part = 0;
                    w.data &= !(1 << new);
                }
                At::End
            }
            other => other,
        };
    }

    pub(super) fn read(&self, w: &mut World) {
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

    /// The steps of the collector.
    pub(super) fn collect(&self, w: &mut World, act: Act) {
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

/// The client of Complete gets a success.
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
