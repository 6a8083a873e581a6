//! Shares of a quota (`ashlar_commit::quota_share`): two nodes, a bucket of two keys, a limit of a few bytes.
//!
//! A put adds one byte to a key, a deletion removes one, and its node learns of it later; a put whose outcome is lost takes effect at any later time or
//! never. Updates of the control store are compared and arrive later or never; their senders may not learn what
//! became of them. A count reads one key after the other. A node crashes, comes back with another life, or is
//! silent while others take it for gone.
//!
//! Taken for granted: a silent node stops admitting before its share is taken back (clocks), and what the ended
//! life of a node left on its way takes effect before the next count begins, or never.

use crate::Mutant;
use ashlar_commit::quota_share::{Began, Holder, Keep, QuotaRecord, Settled, Settlement};
use stateright::{Model, Property};

/// Nodes.
const N: usize = 2;
/// Keys of the bucket.
const KEYS: usize = 2;

/// What may happen, each at most so many times.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Scope {
    /// Bytes that the bucket may hold.
    pub limit: u8,
    /// Bytes in the first key at the beginning.
    pub filled: u8,
    /// Puts of a byte.
    pub puts: u8,
    /// Of these, with a lost outcome.
    pub lost: u8,
    /// Deletions of a byte.
    pub deletes: u8,
    /// Settlements.
    pub settles: u8,
    /// Updates of the control store with an unknown outcome.
    pub unknown: u8,
    /// Crashes of nodes.
    pub crashes: u8,
    /// Counts.
    pub counts: u8,
    /// Nodes taken for gone.
    pub suspicions: u8,
    /// The rule that is broken.
    pub mutant: Option<Mutant>,
}

/// An update of the control store on its way.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Sent {
    record: QuotaRecord,
    settlement: Settlement,
    /// The record is as it was read.
    fits: bool,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Node {
    holder: Holder,
    up: bool,
    /// It has not had its share confirmed for so long that it admits nothing.
    expired: bool,
    lives: u8,
    /// Puts that were admitted.
    flights: u8,
    /// Deletions that took effect, and whose node does not know it yet: the counts that it knew when they began.
    removing: Vec<Began>,
    sent: Option<Sent>,
}

/// A put with a lost outcome.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Lost {
    key: u8,
    node: u8,
    life: u64,
    /// It may yet take effect.
    pending: bool,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Scan {
    before: QuotaRecord,
    next: u8,
    sum: u8,
}

/// Everything.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct World {
    record: QuotaRecord,
    /// Updates whose sender does not wait any more.
    loose: Vec<QuotaRecord>,
    nodes: [Node; N],
    keys: [u8; KEYS],
    lost: Vec<Lost>,
    scan: Option<Scan>,
    /// What may still happen.
    left: Scope,
}

/// One step.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[allow(missing_docs)] // what they do is in `step`
pub enum Act {
    Admit(u8),
    Land(u8, u8),
    Lose(u8, u8),
    /// A lost put takes effect.
    Late(u8),
    /// A lost put will never take effect.
    Never(u8),
    /// Its node knows that it is over.
    Sure(u8),
    Delete(u8, u8),
    /// Its node knows that a deletion took effect.
    Deleted(u8),
    /// A node without a share learns of a count.
    See(u8),
    SettleRest(u8),
    SettleInUse(u8),
    SettleMore(u8),
    Arrive(u8),
    /// The sender gives up waiting.
    Unknown(u8),
    ArriveLoose(u8),
    Crash(u8),
    Restart(u8),
    Suspect(u8),
    Expire(u8),
    TakeBack(u8),
    CountBegin,
    CountRead,
    CountEnd,
}

fn node_number(n: u8) -> u16 {
    u16::from(n)
}

fn life(n: u8, lives: u8) -> u64 {
    u64::from(n) * 16 + u64::from(lives)
}

/// Takes one away from what is left.
fn spend(left: &mut u8) -> bool {
    let there = *left > 0;
    *left = left.saturating_sub(1);
    there
}

impl World {
    fn stored(&self) -> u8 {
        self.keys.iter().sum()
    }

    /// The record is written: nothing else that was read before fits any more.
    fn write(&mut self, record: QuotaRecord) {
        self.record = record;
        self.loose.clear();
        self.nodes.iter_mut().filter_map(|n| n.sent.as_mut()).for_each(|s| s.fits = false);
    }

    fn change(&mut self, f: impl FnOnce(&mut QuotaRecord) -> bool) -> bool {
        let mut record = self.record.clone();
        let changed = f(&mut record);
        if changed {
            self.write(record);
        }
        changed
    }

    fn present(&self, n: u8) -> Option<u64> {
        self.record.shares.get(&node_number(n)).map(|s| s.life)
    }
}

impl Scope {
    fn is(&self, mutant: Mutant) -> bool {
        self.mutant == Some(mutant)
    }

    fn settle(&self, w: &mut World, n: u8, keep: Keep) -> bool {
        let mut record = w.record.clone();
        let node = &w.nodes[usize::from(n)];
        if self.is(Mutant::QuotaCountNet)
            && let (Some(count), Some(share)) = (&mut record.count, record.shares.get(&node_number(n)))
            && let Some(base) = count.waits.get_mut(&node_number(n))
        {
            // What was removed is subtracted.
            let after = node.holder.clone();
            let mut probe = w.record.clone();
            probe.count = None;
            let _ = after.settle(&mut probe, u64::from(self.limit), Keep::Rest);
            let (gross, net) = probe.shares.get(&node_number(n)).map_or((0, 0), |s| (s.gross, s.net));
            *base += (gross - share.gross).saturating_add_signed(share.net - net);
        }
        let settled = node.holder.settle(&mut record, u64::from(self.limit), keep);
        let node = &mut w.nodes[usize::from(n)];
        match settled {
            Settled::Write(settlement) if record != w.record => {
                if !self.is(Mutant::QuotaReturnInUse) {
                    node.holder.sent(settlement);
                }
                node.sent = Some(Sent { record, settlement, fits: true });
                true
            }
            Settled::Write(_) | Settled::NotCounted | Settled::Short { .. } => false,
            Settled::TakenBack => {
                node.lives += 1;
                node.holder = Holder::new(node_number(n), life(n, node.lives));
                (node.flights, node.expired) = (0, false);
                true
            }
        }
    }

    fn change(&self, w: &mut World, act: Act) -> bool {
        let lives = |n: &Node| (n.holder.life(), n.up);
        match act {
            Act::Admit(n) => {
                let node = &mut w.nodes[usize::from(n)];
                if !node.up || node.expired || w.left.puts == 0 || !node.holder.reserve(1) {
                    return false;
                }
                node.flights += 1;
                spend(&mut w.left.puts)
            }
            Act::Land(n, key) | Act::Lose(n, key) => {
                let node = &mut w.nodes[usize::from(n)];
                let loses = matches!(act, Act::Lose(..));
                if node.flights == 0 || node.expired || loses && !spend(&mut w.left.lost) {
                    return false;
                }
                node.flights -= 1;
                let life = node.holder.life();
                if loses {
                    w.lost.push(Lost { key, node: n, life, pending: true });
                    if !self.is(Mutant::QuotaLostIsFree) {
                        node.holder.lost(1);
                    }
                } else {
                    w.keys[usize::from(key)] += 1;
                    node.holder.landed(1, node.holder.began());
                }
                node.holder.release(life, 1);
                true
            }
            Act::Late(i) | Act::Never(i) => {
                let Some(lost) = w.lost.get_mut(usize::from(i)).filter(|l| l.pending) else { return false };
                lost.pending = false;
                w.keys[usize::from(lost.key)] += u8::from(matches!(act, Act::Late(_)));
                true
            }
            Act::Sure(i) => {
                if w.lost.get(usize::from(i)).is_none_or(|l| l.pending) {
                    return false;
                }
                let lost = w.lost.remove(usize::from(i));
                let node = &mut w.nodes[usize::from(lost.node)];
                if lives(node) == (lost.life, true) && !self.is(Mutant::QuotaLostIsFree) {
                    node.holder.sure(lost.life, 1);
                }
                true
            }
            Act::Delete(n, key) => {
                let (node, size) = (&mut w.nodes[usize::from(n)], &mut w.keys[usize::from(key)]);
                if !node.up || *size == 0 || !spend(&mut w.left.deletes) {
                    return false;
                }
                *size -= 1;
                node.removing.push(node.holder.began());
                true
            }
            Act::Deleted(n) => {
                let node = &mut w.nodes[usize::from(n)];
                if node.removing.is_empty() {
                    return false;
                }
                let began = node.removing.remove(0);
                let began = if self.is(Mutant::QuotaOldRemoval) { node.holder.began() } else { began };
                node.holder.landed(-1, began);
                true
            }
            Act::See(n) => {
                let (node, counts) = (&mut w.nodes[usize::from(n)], w.record.counts);
                let (up, before) = (node.up, node.holder.began());
                if up {
                    node.holder.saw(counts);
                }
                node.holder.began() != before
            }
            _ => self.control(w, act),
        }
    }

    /// What concerns the control store.
    fn control(&self, w: &mut World, act: Act) -> bool {
        match act {
            Act::SettleRest(n) | Act::SettleInUse(n) | Act::SettleMore(n) => {
                let node = &w.nodes[usize::from(n)];
                if !node.up || node.sent.is_some() || !spend(&mut w.left.settles) {
                    return false;
                }
                let keep = match act {
                    Act::SettleRest(_) => Keep::Rest,
                    Act::SettleInUse(_) => Keep::InUse,
                    _ => Keep::More { need: 1, ask: None },
                };
                self.settle(w, n, keep)
            }
            Act::Arrive(n) => {
                let Some(sent) = w.nodes[usize::from(n)].sent.take() else { return false };
                if sent.fits {
                    w.write(sent.record);
                }
                let node = &mut w.nodes[usize::from(n)];
                if sent.fits {
                    node.holder.written(sent.settlement);
                    node.expired = false;
                } else if !self.is(Mutant::QuotaReturnInUse) {
                    node.holder.refused(sent.settlement);
                }
                true
            }
            Act::Unknown(n) => {
                if w.nodes[usize::from(n)].sent.is_none() || !spend(&mut w.left.unknown) {
                    return false;
                }
                Self::loosen(w, n);
                true
            }
            Act::ArriveLoose(i) => {
                let Some(record) = w.loose.get(usize::from(i)).cloned() else { return false };
                w.write(record);
                true
            }
            _ => self.lives(w, act),
        }
    }

    fn loosen(w: &mut World, n: u8) {
        if let Some(sent) = w.nodes[usize::from(n)].sent.take().filter(|s| s.fits) {
            w.loose.push(sent.record);
        }
    }

    /// Lives of nodes, and counts.
    fn lives(&self, w: &mut World, act: Act) -> bool {
        match act {
            Act::Crash(n) => {
                if !w.nodes[usize::from(n)].up || !spend(&mut w.left.crashes) {
                    return false;
                }
                Self::loosen(w, n);
                let node = &mut w.nodes[usize::from(n)];
                (node.up, node.flights) = (false, 0);
                node.removing.clear();
                true
            }
            Act::Restart(n) => {
                let node = &mut w.nodes[usize::from(n)];
                if node.up {
                    return false;
                }
                node.lives += 1;
                node.holder = Holder::new(node_number(n), life(n, node.lives));
                (node.up, node.expired) = (true, false);
                true
            }
            Act::Suspect(n) => {
                let Some(life) = w.present(n) else { return false };
                spend(&mut w.left.suspicions) && w.change(|r| r.suspect(node_number(n), life).is_some())
            }
            Act::Expire(n) => {
                let suspected = w.record.shares.get(&node_number(n)).is_some_and(|s| s.suspected.is_some());
                let node = &mut w.nodes[usize::from(n)];
                let expires = suspected && node.up && !node.expired;
                node.expired |= expires;
                expires
            }
            Act::TakeBack(n) => {
                let node = &w.nodes[usize::from(n)];
                let ended = !node.up || node.expired || self.is(Mutant::QuotaTakenAlive);
                let Some(life) = w.present(n).filter(|_| ended) else { return false };
                let suspicion = w.record.shares.get(&node_number(n)).and_then(|s| s.suspected);
                suspicion.is_some_and(|suspicion| w.change(|r| r.take_back(node_number(n), life, suspicion)))
            }
            Act::CountBegin => {
                let current = |l: &Lost| w.present(l.node) == Some(l.life);
                let ended = w.lost.iter().any(|l| l.pending && !current(l));
                if w.scan.is_some() || ended || !spend(&mut w.left.counts) {
                    return false;
                }
                w.scan = Some(Scan { before: w.record.clone(), next: 0, sum: 0 });
                true
            }
            Act::CountRead => {
                let Some(scan) = w.scan.as_mut().filter(|s| usize::from(s.next) < KEYS) else { return false };
                scan.sum += w.keys[usize::from(scan.next)];
                scan.next += 1;
                true
            }
            Act::CountEnd => {
                let read = |s: &Scan| usize::from(s.next) == KEYS;
                let Some(mut scan) = w.scan.take_if(|s| read(s)) else { return false };
                if self.is(Mutant::QuotaCountAcrossLives) {
                    scan.before.ended = w.record.ended;
                }
                let unanswered = self.is(Mutant::QuotaCountUnanswered);
                w.change(|record| {
                    let counted = record.counted(&scan.before, u64::from(scan.sum));
                    if unanswered && let Some(count) = record.count.take() {
                        record.charged = record.charged.map(|c| c.min(count.bytes));
                    }
                    counted
                });
                true
            }
            _ => false,
        }
    }
}

impl Model for Scope {
    type State = World;
    type Action = Act;

    fn init_states(&self) -> Vec<World> {
        let node = |n: u8| Node {
            holder: Holder::new(node_number(n), life(n, 0)),
            up: true,
            expired: false,
            lives: 0,
            flights: 0,
            removing: Vec::new(),
            sent: None,
        };
        vec![World {
            record: QuotaRecord { charged: Some(u64::from(self.filled)), ..QuotaRecord::default() },
            loose: Vec::new(),
            nodes: [node(0), node(1)],
            keys: [self.filled, 0],
            lost: Vec::new(),
            scan: None,
            left: *self,
        }]
    }

    fn actions(&self, w: &World, acts: &mut Vec<Act>) {
        for n in 0..N as u8 {
            for key in 0..KEYS as u8 {
                acts.extend([Act::Land(n, key), Act::Lose(n, key), Act::Delete(n, key)]);
            }
            acts.extend([Act::Admit(n), Act::SettleRest(n), Act::SettleInUse(n), Act::SettleMore(n)]);
            acts.extend([Act::Arrive(n), Act::Unknown(n), Act::Crash(n), Act::Restart(n)]);
            acts.extend([Act::Suspect(n), Act::Expire(n), Act::TakeBack(n)]);
            acts.extend([Act::Deleted(n), Act::See(n)]);
        }
        for i in 0..w.lost.len() as u8 {
            acts.extend([Act::Late(i), Act::Never(i), Act::Sure(i)]);
        }
        acts.extend((0..w.loose.len() as u8).map(Act::ArriveLoose));
        acts.extend([Act::CountBegin, Act::CountRead, Act::CountEnd]);
    }

    fn next_state(&self, last: &World, act: Act) -> Option<World> {
        let mut w = last.clone();
        self.change(&mut w, act).then_some(w)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let mut all = vec![Property::always("the bucket never holds more than its quota", |s: &Scope, w| {
            w.stored() <= s.limit
        })];
        if self.mutant.is_some() {
            return all;
        }
        all.push(Property::sometimes("reached: the bucket is full", |s: &Scope, w: &World| {
            w.stored() == s.limit
        }));
        all.push(Property::sometimes("reached: both nodes admitted", |_, w: &World| {
            w.nodes.iter().all(|n| n.flights > 0)
        }));
        if self.counts > 0 && self.crashes + self.suspicions > 0 {
            all.push(Property::sometimes(
                "reached: filled again after a life ended",
                |s: &Scope, w: &World| w.record.ended > 0 && w.left.puts == 0 && w.stored() == s.limit,
            ));
        }
        all
    }
}
