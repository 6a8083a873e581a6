//! The possible actions of the world, and its properties.
//!
//! Must not depend on: other worlds.

use super::state::{Drive, KEY, Read, Scope, World, bit};
use crate::{Bad, Log, Seen};
use ashlar_commit::{Acceptor, Copy, OnePromise, Reader, Role, SlotSet};
use smallvec::SmallVec;
use stateright::{Model, Property};

/// One action. `who`: operation; `r`: index of a round, in order of their ballots; `i`, `j`: slots.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[allow(missing_docs)] // the fields are named above
pub enum Act {
    /// An attempt begins; its first PREPARE arrives.
    Start { who: u8, i: u8 },
    /// PREPARE arrives and is answered.
    Prepare { r: u8, i: u8 },
    /// The proposer stops waiting for promises.
    GiveUp { r: u8 },
    /// A single shard arrives and is flushed: staged, or made again for the base.
    Shard { r: u8, i: u8 },
    /// ACCEPT arrives, with its shard if one-sync, and is flushed.
    Accept { r: u8, i: u8 },
    /// HINT arrives.
    Hint { r: u8, i: u8 },
    /// A drive restarts.
    Crash { i: u8 },
    /// A drive is replaced by a blank one, in a new epoch.
    Replace { i: u8 },
    /// A voter is fenced for the new epoch and read.
    FenceAndRead { i: u8 },
    /// Two drives are declared dead, in a new epoch.
    Dead { i: u8, j: u8 },
    /// A blank drive takes the copy and becomes a voter.
    Join { i: u8 },
    /// A read begins; its first answer comes back.
    StartRead { i: u8 },
    /// An answer to the read.
    Answer { i: u8 },
    /// The read stops waiting.
    Deadline,
}

impl<const N: usize> Model for Scope<N> {
    type State = World<N>;
    type Action = Act;

    fn init_states(&self) -> Vec<World<N>> {
        vec![World {
            drives: std::array::from_fn(|_| Drive::new(Role::Voter, 1)),
            rounds: SmallVec::new(),
            read: None,
            epoch: 1,
            joining: SlotSet::EMPTY,
            resync: None,
            replaced: self.replaced,
            dead: self.dead,
            lost: 0,
            reported: false,
            attempts: [0; 3],
            answered: 0,
            crashes: self.crashes,
            reads: self.reads,
            skipped: 0,
            overtaken: false,
            mended: false,
            blocked: false,
            seen: Seen::default(),
        }]
    }

    fn actions(&self, w: &World<N>, acts: &mut Vec<Act>) {
        if w.seen.bad.is_some() || w.reported {
            return;
        }
        let slots = 0..N as u8;
        for who in 0..2u8 {
            let more = w.rounds.len() < self.rounds && w.attempts[who as usize] < self.attempts;
            if more && w.answered >> who & 1 == 0 {
                acts.extend(slots.clone().map(|i| Act::Start { who, i }));
            }
        }
        for (r, round) in w.rounds.iter().enumerate() {
            let r = r as u8;
            let ballot = round.prop.ballot();
            let mends = round.based && !round.proposed && !round.prop.may_propose(0);
            let stages = round.based && !round.proposed && !mends && self.stages(round) > 0;
            for i in slots.clone() {
                let drive = &w.drives[i as usize];
                let promised = drive.acc.promised(KEY, drive.accepted);
                let voter = drive.acc.role() == Role::Voter;
                if round.proposed && drive.accepted < ballot && promised <= ballot {
                    acts.push(Act::Accept { r, i });
                }
                if voter && !round.based && !round.chosen && promised < ballot {
                    acts.push(Act::Prepare { r, i });
                }
                let lacks = |mark: u8| drive.shards & bit(mark) == 0;
                // Made from k' others, if they still exist; if not, the round has lost anyway.
                if mends && lacks(round.mends) && w.copies(round.mends) >= self.k
                    || stages && !round.prop.staged_by().contains(i)
                {
                    acts.push(Act::Shard { r, i });
                }
                if self.hints && round.chosen && drive.accepted == ballot && !drive.hint {
                    acts.push(Act::Hint { r, i });
                }
            }
            if !round.based && round.prop.promised_by().len() >= self.quorum().majority() {
                acts.push(Act::GiveUp { r });
            }
        }
        let used = !w.rounds.is_empty() && w.joining.is_empty();
        if w.replaced > 0 && used {
            acts.extend(slots.clone().map(|i| Act::Replace { i }));
        }
        if w.dead && used {
            for i in 0..N as u8 {
                acts.extend((i + 1..N as u8).map(|j| Act::Dead { i, j }));
            }
        }
        if let Some(resync) = &w.resync {
            let left = resync.sources().without(resync.read_by());
            acts.extend(left.iter().map(|i| Act::FenceAndRead { i }));
            if resync.copy() != Copy::Wait {
                acts.extend(w.joining.iter().map(|i| Act::Join { i }));
            }
        }
        if w.crashes > 0 {
            acts.extend(slots.clone().map(|i| Act::Crash { i }));
        }
        match &w.read {
            None if w.reads > 0 && !w.rounds.is_empty() => {
                acts.extend(slots.map(|i| Act::StartRead { i }));
            }
            None => {}
            Some(read) => {
                let answered = read.reader.answered_by();
                let rest = self.quorum().all().without(answered);
                acts.extend(rest.iter().map(|i| Act::Answer { i }));
                if answered.len() >= self.quorum().half() {
                    acts.push(Act::Deadline);
                }
            }
        }
    }

    fn next_state(&self, last: &World<N>, act: Act) -> Option<World<N>> {
        let mut w = last.clone();
        match act {
            Act::Start { who, i } => {
                let r = self.start(&mut w, who, Log::default());
                self.prepare(&mut w, r, i as usize)?;
            }
            Act::Prepare { r, i } => self.prepare(&mut w, r as usize, i as usize)?,
            Act::GiveUp { r } => self.give_up(&mut w, r as usize),
            Act::Shard { r, i } => self.shard(&mut w, r as usize, i as usize),
            Act::Accept { r, i } => self.accept(&mut w, r as usize, i as usize)?,
            Act::Hint { r: _, i } => w.drives[i as usize].hint = true,
            Act::Crash { i } => {
                w.crashes -= 1;
                let drive = &mut w.drives[i as usize];
                let (role, epoch, floor) = (drive.acc.role(), drive.acc.epoch(), drive.acc.floor());
                let acc: Acceptor<OnePromise> =
                    Acceptor::with_promises(role, epoch, floor, 0, OnePromise::default());
                if acc == drive.acc && !drive.hint {
                    return None;
                }
                drive.acc = acc;
                drive.hint = false;
                w.skipped = w.skipped.max(floor.counter);
            }
            Act::Replace { i } => {
                w.replaced -= 1;
                self.blank(&mut w, [i].into_iter().collect(), false);
            }
            Act::Dead { i, j } => {
                w.dead = false;
                self.blank(&mut w, [i, j].into_iter().collect(), true);
            }
            Act::FenceAndRead { i } => self.fence_and_read(&mut w, i),
            Act::Join { i } => self.join(&mut w, i)?,
            Act::StartRead { i } => {
                w.reads -= 1;
                w.read = Some(Read { reader: Reader::new(self.quorum()), min: w.seen.log });
                self.answer(&mut w, i as usize);
            }
            Act::Answer { i } => self.answer(&mut w, i as usize),
            Act::Deadline => {
                let mut read = w.read.take()?;
                let step = read.reader.on_deadline();
                self.serve(&mut w, read, step);
            }
        }
        // Observed states keep their data, except on drives that were removed.
        if w.thinnest(w.seen.log).saturating_add(w.lost) < self.needed {
            w.seen.fail(Bad::Thin);
        }
        Some(w)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        // Any majority of promises shows k' shards of every chosen record: then nothing blocks, as long as no
        // drive lost its shards.
        let overlap = self.quorum().majority().max(self.needed) + self.quorum().majority();
        let whole = self.replaced == 0 && !self.dead;
        let decides = overlap >= self.k + N as u8;
        let mut all: Vec<Property<Self>> = vec![
            Property::always("no observed state is lost", |_, w: &World<N>| w.seen.bad != Some(Bad::Fork)),
            Property::always("nothing older than observed is answered", |_, w: &World<N>| {
                w.seen.bad != Some(Bad::Stale)
            }),
            Property::always("what is decided has its data", |_, w: &World<N>| w.seen.bad != Some(Bad::Thin)),
            Property::sometimes("reached: both writers have their answer", |_, w: &World<N>| w.answered == 3),
            Property::sometimes("reached: a record is overtaken", |_, w: &World<N>| w.overtaken),
        ];
        if self.needed > self.k {
            all.push(Property::sometimes("reached: a record is mended", |_, w: &World<N>| w.mended));
        }
        if decides && whole {
            all.push(Property::always("a majority always decides", |_, w: &World<N>| !w.blocked));
        } else if whole {
            all.push(Property::sometimes("reached: blocked", |_, w: &World<N>| w.blocked));
        }
        all
    }
}
