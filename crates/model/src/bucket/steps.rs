//! The possible next steps in the world of the bucket, and their effects.
//!
//! Invariant: `ashlar_commit::bucket_fence` makes every decision of a drive or a coordinator, except where a
//! mutant removes the rule.
//!
//! Must not depend on: other worlds.

use super::*;

/// Number of the ballot of a writer's attempt.
fn of_attempt(attempt: u8) -> u8 {
    1 + attempt
}

/// Number of the ballot of a deletion's rounds: above every writer's, whose promises are left out.
fn of_deletion(by: Deletion) -> u8 {
    8 + by.0 as u8
}

/// Number of the ballot of the round that fills a drive.
const FILLING: u8 = 20;

impl Scope {
    pub(super) fn writing(&self, w: &World, acts: &mut Vec<Act>) {
        for g in 0..self.groups {
            let writer = &w.writers[g as usize];
            if let Writing::Try(n) = writer.at {
                acts.push(if writer.rounds[n as usize].ballot == 0 { Act::Write(g) } else { Act::Again(g) });
            }
            for (n, round) in writer.rounds.iter().enumerate().filter(|(_, r)| r.ballot > 0) {
                for slot in (0..N as u8).filter(|s| round.to & 1 << s == 0) {
                    acts.push(Act::Accept(g, n as u8, slot));
                }
            }
        }
    }

    pub(super) fn deleting(&self, w: &World, d: u8, acts: &mut Vec<Act>) {
        let me = &w.deleters[d as usize];
        for g in 0..self.groups {
            let i = g as usize;
            for slot in 0..N as u8 {
                if me.by != Deletion::NONE && me.to[i] & 1 << slot == 0 {
                    acts.push(Act::Fence(d, g, slot));
                }
                if me.rounds[i].ballot > 0 && me.rounds[i].to & 1 << slot == 0 {
                    acts.push(Act::Settled(d, g, slot));
                }
                if me.lifts.is_some_and(|l| l[i] & 1 << slot == 0) {
                    acts.push(Act::Lift(d, g, slot));
                }
            }
            if me.at == Deleting::Fence && me.epoch[i] < w.epochs[i] {
                acts.push(Act::Refence(d, g));
            }
        }
        match me.at {
            Deleting::Begin => acts.push(Act::Begin(d)),
            Deleting::Fence | Deleting::Look(_) => acts.push(Act::Look(d)),
            Deleting::Settle(g) if me.rounds[g as usize].ballot == 0 => {
                acts.extend((0..N as u8).map(|away| Act::Prepare(d, away)));
            }
            Deleting::Settle(_) => acts.push(Act::Decided(d)),
            Deleting::Remove => acts.push(Act::Remove(d)),
            Deleting::Abort | Deleting::End => {}
        }
        if !matches!(me.at, Deleting::Begin | Deleting::End) {
            // A deletion may be given up at any time; that is equivalent to a crash that other processes
            // settle.
            if self.others || me.at == Deleting::Abort {
                acts.push(Act::Abort(d));
            }
            if self.others {
                acts.push(Act::Crash(d));
            }
        }
    }

    pub(super) fn others(&self, w: &World, acts: &mut Vec<Act>) {
        if self.others && w.registry.is_some_and(|r| r.open) {
            acts.push(Act::Expire);
        }
        for g in 0..if self.others { self.groups } else { 0 } {
            let fenced = |s: &u8| w.drives[g as usize][*s as usize].fence != Deletion::NONE;
            acts.extend((0..N as u8).filter(fenced).map(|s| Act::Sweep(g, s)));
        }
        match w.join {
            Join::Not if self.replaced => acts.push(Act::Replace),
            Join::Blank => {
                let behind = |s: &u8| w.drives[0][*s as usize].epoch < w.epochs[0];
                acts.extend((1..N as u8).filter(behind).map(Act::Epoch));
                acts.push(Act::CopyFences);
            }
            Join::Fences => acts.push(Act::Vote),
            Join::Not | Join::Votes => {}
        }
    }

    /// Delivers an ACCEPT to a drive; returns whether it counts.
    fn accept(&self, drive: &mut Drive, round: Round, grant: Grant) -> bool {
        let ballot = round.ballot;
        if !admits(drive.fence, grant)
            || ballot / 32 < drive.epoch
            || ballot < drive.promised
            || ballot <= drive.accepted
        {
            return false;
        }
        *drive = Drive { promised: ballot, accepted: ballot, adds: round.adds, ..*drive };
        drive.voter
    }

    /// Delivers a fence to a drive; returns whether it counts.
    fn fence(&self, drive: &mut Drive, by: Deletion, epoch: u8) -> bool {
        if epoch < drive.epoch && !self.broken(Mutant::FenceAcrossEpochs) {
            return false;
        }
        let answer = match set(drive.fence, by) {
            SetFence::Later(_) if self.broken(Mutant::OldFenceWins) => SetFence::Write,
            answer => answer,
        };
        match answer {
            SetFence::Write => drive.fence = by,
            SetFence::Already => {}
            SetFence::Later(_) => return false,
        }
        drive.voter
    }

    fn counted(&self, me: &Deleter, g: usize) -> bool {
        let mut fencing = Fencing::new(quorum());
        let mut step = FenceStep::Wait;
        for slot in slots(me.counted[g]).iter() {
            step = fencing.on_fenced(slot);
        }
        let few = self.broken(Mutant::FenceMinority) && g == 1 && me.counted[g] != 0;
        few || matches!(step, FenceStep::Fenced(_))
    }

    pub(super) fn step(&self, w: &mut World, act: Act) {
        match act {
            Act::Write(_) | Act::Accept(..) | Act::Again(_) => self.write_step(w, act),
            Act::Replace | Act::Epoch(_) | Act::CopyFences | Act::Vote => self.join_step(w, act),
            Act::Expire => w.registry = w.registry.map(|r| r.abort(r.last).unwrap_or(r)),
            Act::Sweep(g, slot) => {
                let drive = &mut w.drives[g as usize][slot as usize];
                if let Met::Lift(up_to) = met(w.registry, drive.fence)
                    && lifts(drive.fence, up_to)
                {
                    drive.fence = Deletion::NONE;
                }
            }
            act => self.delete_step(w, act),
        }
    }

    fn write_step(&self, w: &mut World, act: Act) {
        match act {
            Act::Write(g) => {
                let i = g as usize;
                let Writing::Try(n) = w.writers[i].at else { return };
                let ballot = ballot(w.epochs[i], of_attempt(n));
                w.writers[i].rounds[n as usize] = Round { ballot, adds: true, to: 0, ok: 0 };
                w.writers[i].late |=
                    n == 0 && w.registry.is_some_and(|r| !r.open && r.last != Deletion::NONE);
            }
            Act::Accept(g, n, slot) => {
                let i = g as usize;
                let round = &mut w.writers[i].rounds[n as usize];
                round.to |= 1 << slot;
                if self.accept(&mut w.drives[i][slot as usize], *round, Grant::Plain) {
                    round.ok |= 1 << slot;
                }
                let chosen = slots(round.ok).len() >= quorum().majority();
                if chosen && w.writers[i].at == Writing::Try(n) {
                    w.writers[i].at = Writing::Acknowledged;
                    if w.registry.is_none() {
                        w.bad = Some(Bad::Vanished);
                    }
                }
            }
            Act::Again(g) => {
                let i = g as usize;
                let Writing::Try(n) = w.writers[i].at else { return };
                w.writers[i].at = match w.registry {
                    None => Writing::NoSuchBucket,
                    Some(_) if n + 1 < self.writers[i] => Writing::Try(n + 1),
                    Some(_) => Writing::GaveUp,
                };
            }
            _ => {}
        }
    }

    fn delete_step(&self, w: &mut World, act: Act) {
        let (Act::Begin(d)
        | Act::Fence(d, ..)
        | Act::Refence(d, _)
        | Act::Look(d)
        | Act::Prepare(d, _)
        | Act::Settled(d, ..)
        | Act::Decided(d)
        | Act::Remove(d)
        | Act::Abort(d)
        | Act::Lift(d, ..)
        | Act::Crash(d)) = act
        else {
            return;
        };
        let mut me = w.deleters[d as usize];
        match act {
            Act::Begin(_) => match w.registry {
                None => me.at = Deleting::End,
                Some(r) => {
                    let next = r.begin();
                    w.registry = Some(next);
                    me.by = next.last;
                    me.epoch = w.epochs;
                    me.at = if self.broken(Mutant::LookFirst) { Deleting::Look(0) } else { Deleting::Fence };
                }
            },
            Act::Fence(_, g, slot) => {
                let i = g as usize;
                me.to[i] |= 1 << slot;
                if self.fence(&mut w.drives[i][slot as usize], me.by, me.epoch[i]) {
                    me.counted[i] |= 1 << slot;
                }
            }
            Act::Refence(_, g) => {
                let i = g as usize;
                me.epoch[i] = w.epochs[i];
                me.to[i] = 0;
                if !self.broken(Mutant::FenceAcrossEpochs) {
                    me.counted[i] = 0;
                }
            }
            Act::Look(_) => self.look(w, &mut me),
            Act::Prepare(_, away) => prepare(w, &mut me, away),
            Act::Settled(_, g, slot) => {
                let i = g as usize;
                let round = &mut me.rounds[i];
                round.to |= 1 << slot;
                if self.accept(&mut w.drives[i][slot as usize], *round, Grant::Of(me.by)) {
                    round.ok |= 1 << slot;
                }
            }
            Act::Decided(_) => {
                let Deleting::Settle(g) = me.at else { return };
                let round = me.rounds[g as usize];
                if slots(round.ok).len() >= quorum().majority() {
                    me.at = if round.adds { Deleting::Abort } else { self.next_group(g) };
                }
            }
            Act::Remove(_) => {
                let mine = w.registry.is_some_and(|r| r.is_open(me.by));
                let unasked = self.broken(Mutant::RemoveUnasked) && w.registry.is_some();
                if mine || unasked {
                    w.registry = None;
                    if w.acknowledged() {
                        w.bad = Some(Bad::Vanished);
                    }
                }
                me.at = Deleting::End;
            }
            Act::Abort(_) => {
                w.registry = w.registry.map(|r| r.abort(me.by).unwrap_or(r));
                // In scopes that inspect the lifts of another deletion, those of this one never arrive.
                if w.registry.is_some() && !self.aborted {
                    me.lifts = Some([0; GROUPS]);
                }
                me.at = Deleting::End;
            }
            Act::Lift(_, g, slot) => {
                if let Some(l) = &mut me.lifts {
                    l[g as usize] |= 1 << slot;
                }
                let drive = &mut w.drives[g as usize][slot as usize];
                if lifts(drive.fence, me.by) || self.broken(Mutant::LiftForeign) {
                    drive.fence = Deletion::NONE;
                }
            }
            Act::Crash(_) => me.at = Deleting::End,
            _ => {}
        }
        w.deleters[d as usize] = me;
    }

    fn next_group(&self, g: u8) -> Deleting {
        if g + 1 < self.groups { Deleting::Look(g + 1) } else { Deleting::Remove }
    }

    /// Inspects the next group, on the drives that were counted.
    fn look(&self, w: &World, me: &mut Deleter) {
        let first = self.broken(Mutant::LookFirst);
        match me.at {
            Deleting::Fence if !(0..self.groups as usize).all(|g| self.counted(me, g)) => return,
            Deleting::Fence if first => {
                me.at = Deleting::Remove;
                return;
            }
            Deleting::Fence => me.at = Deleting::Look(0),
            _ => {}
        }
        let Deleting::Look(g) = me.at else { return };
        let drives = &w.drives[g as usize];
        let mut asked = slots(me.counted[g as usize]);
        if self.broken(Mutant::LookElsewhere) {
            asked = [1, 2].into_iter().collect();
        }
        if first {
            asked = quorum().all();
        }
        // A drive that follows a newer layout does not answer readers of an older one.
        let newer = asked.iter().any(|s| drives[s as usize].epoch > me.epoch[g as usize]);
        let other = w.epochs[g as usize] > me.epoch[g as usize];
        if (newer || other) && !self.broken(Mutant::FenceAcrossEpochs) {
            me.at = Deleting::Fence;
            return;
        }
        let shown = asked.iter().map(|s| drives[s as usize]);
        let shown = shown.map(|d| (d.accepted > 0).then(|| (as_ballot(d.accepted), d.adds)));
        me.at = match judge(shown) {
            Verdict::Absent => self.next_group(g),
            Verdict::Present => Deleting::Abort,
            Verdict::Settle if self.broken(Mutant::UndecidedIsAbsent) => self.next_group(g),
            Verdict::Settle if me.rounds[g as usize].ballot > 0 => Deleting::Abort,
            Verdict::Settle => Deleting::Settle(g),
        };
        if first && me.at == Deleting::Remove {
            me.at = Deleting::Fence;
        }
    }

    fn join_step(&self, w: &mut World, act: Act) {
        let epoch = w.epochs[0];
        match act {
            Act::Replace => {
                w.join = Join::Blank;
                w.epochs[0] += 1;
                w.drives[0][0] = Drive { voter: false, ..BLANK };
            }
            Act::Epoch(slot) => w.drives[0][slot as usize].epoch = epoch,
            Act::CopyFences if w.drives[0][1..].iter().all(|d| d.epoch == epoch) => {
                w.join = Join::Fences;
                if !self.broken(Mutant::FenceNotCopied) {
                    w.drives[0][0].fence = joined(w.drives[0].map(|d| d.fence));
                }
            }
            Act::Vote => {
                let [to, a, b] = &mut w.drives[0];
                let newest = if a.accepted >= b.accepted { *a } else { *b };
                let mut record = Round { ballot: newest.accepted, adds: newest.adds, to: 0, ok: 0 };
                if a.accepted != b.accepted {
                    // A round decides, like one of any other coordinator.
                    let grant = if record.adds { Grant::Plain } else { Grant::Empties };
                    record.ballot = ballot(epoch, FILLING);
                    if !admits(a.fence, grant) || !admits(b.fence, grant) {
                        return;
                    }
                    for d in [a, b] {
                        *d = Drive {
                            promised: record.ballot,
                            accepted: record.ballot,
                            adds: record.adds,
                            ..*d
                        };
                    }
                }
                let promised = ballot(epoch, 0).max(record.ballot);
                *to =
                    Drive { promised, accepted: record.ballot, adds: record.adds, epoch, voter: true, ..*to };
                w.join = Join::Votes;
            }
            _ => {}
        }
    }
}

/// PREPARE of a round at all slots but `away`: the base is proposed again, or nothing.
fn prepare(w: &mut World, me: &mut Deleter, away: u8) {
    let Deleting::Settle(g) = me.at else { return };
    let i = g as usize;
    let ballot = ballot(w.epochs[i], of_deletion(me.by));
    let asked = (0..N).filter(|s| *s != away as usize);
    let promises = |d: &Drive| d.voter && ballot > d.promised.max(d.accepted) && ballot / 32 >= d.epoch;
    if !asked.clone().all(|s| promises(&w.drives[i][s])) {
        return;
    }
    let mut base = (0, false);
    for s in asked {
        let d = &mut w.drives[i][s];
        d.promised = ballot;
        base = base.max((d.accepted, d.adds));
    }
    me.rounds[i] = Round { ballot, adds: base.1, to: 0, ok: 0 };
}
