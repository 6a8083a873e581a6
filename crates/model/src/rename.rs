//! A rename: source, destination and the register of the rename as three compare-and-set registers
//! (`ashlar_commit::attempt`). The registers are assumed to be linearizable, which the other worlds check; a
//! call may stop forever after any step (a crash) while others continue.
//!
//! Calls: two renames (in opposite directions, or of one key to two), writers that replace either key, a
//! reader, and a collector that aborts, drops and removes as early as it may.
//!
//! Must not depend on: other worlds.

use crate::{Bad, Mutant};
use ashlar_commit::attempt::{Holds, Settle, State, read, settle};
use stateright::{Model, Property};

/// Number of concurrent renames.
const RENAMES: usize = 2;
/// Number of keys.
const KEYS: usize = 3;

/// The bounds of the world.
#[derive(Clone, Copy, Debug)]
pub struct Scope {
    /// For each rename, source and destination, in the order in which the keys are held.
    pub renames: [(u8, u8); RENAMES],
    /// Renames that are made, 1..=2.
    pub count: u8,
    /// Bit k: a writer replaces key k.
    pub writers: u8,
    /// The key that is read.
    pub reader: Option<u8>,
    /// The rule that is broken.
    pub mutant: Option<Mutant>,
}

/// The register of a key.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Key {
    /// 0: nothing.
    value: u8,
    /// The rename that holds it.
    held: Option<u8>,
}

/// The register of a rename; `u8`: the value that moves.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Reg {
    Absent,
    Open,
    Completing(u8),
    Done,
    Aborted,
}

impl Reg {
    fn found(self) -> Option<State<u8>> {
        match self {
            Reg::Absent => None,
            Reg::Open => Some(State::Open),
            Reg::Completing(v) => Some(State::Completing(v)),
            Reg::Done => Some(State::Done(0)),
            Reg::Aborted => Some(State::Aborted),
        }
    }
}

/// The steps that release a key from a rename.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Clear {
    Look,
    Abort,
    Release,
    Roll(Roll),
}

/// The steps after a rename that happened.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Roll {
    Destination,
    Source,
    Done,
}

/// The state of a call.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum At {
    Begin,
    /// A rename has read this value and holds this number of keys.
    Hold(u8, u8),
    /// A key must be cleared of this rename first; then as above.
    Clear(u8, u8, u8, u8, Clear),
    /// It holds all keys.
    Commit(u8),
    Roll(Roll),
    /// A reader found a key that this rename holds; next it reads the rename.
    Met(u8),
    /// The rename's register does not know the rename: the reader reads the key again.
    Again(u8),
    End,
}

/// The state of the world.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct World {
    keys: [Key; KEYS],
    regs: [Reg; RENAMES],
    /// Whether the staged data of a rename exists.
    data: [bool; RENAMES],
    renames: [At; RENAMES],
    writers: [At; KEYS],
    reader: At,
    /// The contents of the keys as an atomic observer sees them.
    spec: [u8; KEYS],
    /// What the reader found in the record of the held key.
    met: u8,
    /// Bit v: the key that is read has had the value v since the reader began.
    since: u16,
    happened: u8,
    bad: Option<Bad>,
}

/// One call reads or changes one register.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[allow(missing_docs)] // see `step`
pub enum Act {
    Rename(u8),
    Write(u8),
    Read,
    /// The collector: Open -> Aborted.
    Abort(u8),
    /// The collector drops the data of an aborted rename and removes its register.
    Drop(u8),
    /// The register of a finished rename is removed.
    Forget(u8),
}

impl Scope {
    fn broken(&self, mutant: Mutant) -> bool {
        self.mutant == Some(mutant)
    }

    fn ends(&self, r: u8) -> (usize, usize) {
        let (from, to) = self.renames[r as usize];
        (from as usize, to as usize)
    }

    fn roll(&self, w: &mut World, r: u8, roll: Roll) -> Option<Roll> {
        let (from, to) = self.ends(r);
        let early = self.broken(Mutant::RenameDoneEarly);
        let i = r as usize;
        match roll {
            Roll::Destination => {
                if let (Reg::Completing(v), true) = (w.regs[i], w.keys[to].held == Some(r)) {
                    if !w.data[i] {
                        w.bad = Some(Bad::Thin);
                    }
                    w.keys[to] = Key { value: v, held: None };
                }
                Some(if early { Roll::Done } else { Roll::Source })
            }
            Roll::Source => {
                if self.broken(Mutant::RenameSourceFree) {
                    w.keys[from].value = 0;
                }
                if w.keys[from].held == Some(r) {
                    w.keys[from] = Key { value: 0, held: None };
                }
                (!early).then_some(Roll::Done)
            }
            Roll::Done => {
                if let Reg::Completing(_) = w.regs[i] {
                    w.regs[i] = Reg::Done;
                }
                early.then_some(Roll::Source)
            }
        }
    }

    /// `None`: the key may be tried again.
    fn clear(&self, w: &mut World, key: usize, r: u8, clear: Clear) -> Option<Clear> {
        let i = r as usize;
        match clear {
            Clear::Look => Some(match settle(w.regs[i].found().as_ref()) {
                Settle::Abort if self.broken(Mutant::RenameReleaseOpen) => Clear::Release,
                Settle::Abort => Clear::Abort,
                Settle::RollForward => Clear::Roll(Roll::Destination),
                Settle::Release => Clear::Release,
            }),
            Clear::Abort => {
                if w.regs[i] == Reg::Open {
                    w.regs[i] = Reg::Aborted;
                }
                Some(Clear::Look)
            }
            Clear::Release => {
                if w.keys[key].held == Some(r) {
                    w.keys[key].held = None;
                }
                None
            }
            Clear::Roll(roll) => self.roll(w, r, roll).map(Clear::Roll),
        }
    }

    fn rename(&self, w: &mut World, r: u8) {
        let (from, to) = self.ends(r);
        let i = r as usize;
        let order = if from < to { [from, to] } else { [to, from] };
        w.renames[i] = match w.renames[i] {
            At::Begin => match w.keys[from] {
                // A rename that finds its source held clears it first; that is equivalent to arriving later.
                Key { value: v @ 1.., held: None } => {
                    w.regs[i] = Reg::Open;
                    w.data[i] = true;
                    At::Hold(v, 0)
                }
                Key { held: Some(other), .. } => At::Clear(from as u8, other, 0, 0, Clear::Look),
                Key { value: 0, .. } => At::End,
            },
            At::Hold(v, 2) => At::Commit(v),
            At::Hold(v, n) => {
                let key = order[n as usize];
                let free = self.broken(Mutant::RenameSourceFree) && key == from;
                match w.keys[key].held {
                    _ if free => At::Hold(v, n + 1),
                    Some(other) => At::Clear(key as u8, other, v, n, Clear::Look),
                    None if key == from && w.keys[key].value != v => At::End,
                    None => {
                        w.keys[key].held = Some(r);
                        At::Hold(v, n + 1)
                    }
                }
            }
            At::Clear(key, other, v, n, clear) => match self.clear(w, key as usize, other, clear) {
                Some(next) => At::Clear(key, other, v, n, next),
                None if v == 0 => At::Begin,
                None => At::Hold(v, n),
            },
            At::Commit(v) if w.regs[i] == Reg::Open => {
                w.regs[i] = Reg::Completing(v);
                if w.spec[from] != v {
                    w.bad = Some(Bad::Fork);
                }
                w.spec[from] = 0;
                w.spec[to] = v;
                w.happened += 1;
                At::Roll(Roll::Destination)
            }
            At::Commit(_) => At::End,
            At::Roll(roll) => self.roll(w, r, roll).map_or(At::End, At::Roll),
            other => other,
        };
    }

    fn write(&self, w: &mut World, key: usize) {
        w.writers[key] = match w.writers[key] {
            At::Begin => match w.keys[key].held {
                None => {
                    w.keys[key].value = 10 + key as u8;
                    w.spec[key] = 10 + key as u8;
                    At::End
                }
                Some(r) => At::Clear(key as u8, r, 0, 0, Clear::Look),
            },
            At::Clear(k, r, _, _, clear) => match self.clear(w, key, r, clear) {
                Some(next) => At::Clear(k, r, 0, 0, next),
                None => At::Begin,
            },
            other => other,
        };
    }

    fn read(&self, w: &mut World, key: usize) {
        let Key { value, held } = w.keys[key];
        w.reader = match w.reader {
            At::Begin => {
                w.since |= 1 << w.spec[key];
                w.met = value;
                held.map_or_else(|| answer(w, value), At::Met)
            }
            At::Met(r) => match read(w.regs[r as usize].found().as_ref()) {
                Holds::Before => answer(w, w.met),
                Holds::After => {
                    let v = match w.regs[r as usize] {
                        Reg::Completing(v) if self.ends(r).1 == key => v,
                        _ => 0,
                    };
                    answer(w, v)
                }
                Holds::Again if self.broken(Mutant::RenameNoSecondLook) => answer(w, w.met),
                Holds::Again => At::Again(r),
            },
            At::Again(r) => match held {
                Some(h) if h == r => answer(w, value),
                Some(other) => {
                    w.met = value;
                    At::Met(other)
                }
                None => answer(w, value),
            },
            other => other,
        };
    }
}

fn answer(w: &mut World, value: u8) -> At {
    if w.since & 1 << value == 0 {
        w.bad = Some(Bad::Stale);
    }
    At::End
}

impl Model for Scope {
    type State = World;
    type Action = Act;

    fn init_states(&self) -> Vec<World> {
        let free = |value| Key { value, held: None };
        vec![World {
            keys: [free(1), free(2), free(0)],
            regs: [Reg::Absent; RENAMES],
            data: [false; RENAMES],
            renames: [At::Begin; RENAMES],
            writers: [At::Begin; KEYS],
            reader: At::Begin,
            spec: [1, 2, 0],
            met: 0,
            since: 0,
            happened: 0,
            bad: None,
        }]
    }

    fn actions(&self, w: &World, acts: &mut Vec<Act>) {
        if w.bad.is_some() {
            return;
        }
        for r in 0..self.count {
            let i = r as usize;
            if w.renames[i] != At::End {
                acts.push(Act::Rename(r));
            }
            match w.regs[i] {
                Reg::Open => acts.push(Act::Abort(r)),
                Reg::Aborted => acts.push(Act::Drop(r)),
                Reg::Done => acts.push(Act::Forget(r)),
                Reg::Absent | Reg::Completing(_) => {}
            }
        }
        for k in 0..KEYS as u8 {
            if self.writers & 1 << k != 0 && w.writers[k as usize] != At::End {
                acts.push(Act::Write(k));
            }
        }
        if self.reader.is_some() && w.reader != At::End {
            acts.push(Act::Read);
        }
    }

    fn next_state(&self, last: &World, act: Act) -> Option<World> {
        let mut w = *last;
        match act {
            Act::Rename(r) => self.rename(&mut w, r),
            Act::Write(k) => self.write(&mut w, k as usize),
            Act::Read => self.read(&mut w, usize::from(self.reader?)),
            Act::Abort(r) => w.regs[r as usize] = Reg::Aborted,
            Act::Drop(r) => {
                w.data[r as usize] = false;
                w.regs[r as usize] = Reg::Absent;
            }
            Act::Forget(r) => w.regs[r as usize] = Reg::Absent,
        }
        if let (Some(key), At::Met(_) | At::Again(_)) = (self.reader, w.reader) {
            w.since |= 1 << w.spec[usize::from(key)];
        }
        // What an atomic observer sees.
        for key in 0..KEYS {
            let held = w.keys[key].held.map(|r| (r, w.regs[r as usize]));
            let now = match held {
                Some((r, Reg::Completing(v))) if self.ends(r).1 == key => v,
                Some((_, Reg::Completing(_))) => 0,
                _ => w.keys[key].value,
            };
            if now != w.spec[key] {
                w.bad = w.bad.or(Some(Bad::Fork));
            }
        }
        Some(w)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("no key is lost, doubled or brought back", |_, w: &World| {
                w.bad != Some(Bad::Fork)
            }),
            Property::always("a reader sees a value that the key had during the read", |_, w: &World| {
                w.bad != Some(Bad::Stale)
            }),
            Property::always("the data is there", |_, w: &World| w.bad != Some(Bad::Thin)),
            Property::sometimes(
                "reached: all renames happened and were forgotten",
                |s: &Scope, w: &World| {
                    w.happened == s.count && w.regs[..usize::from(s.count)].iter().all(|r| *r == Reg::Absent)
                },
            ),
            Property::sometimes("reached: aborted, and its key held for ever", |_, w: &World| {
                let gone = |r: u8| w.regs[usize::from(r)] == Reg::Absent && w.happened == 0;
                w.keys.iter().any(|k| k.held.is_some_and(gone))
            }),
        ]
    }
}
