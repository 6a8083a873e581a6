//! What a node knows of the usage of buckets in a cluster, as a state machine without I/O.
//!
//! Each node counts what its own changes make of a bucket since its process began: its *part*. One node counts each bucket
//! from the index now and then: a *base*, which is what was found, less the parts of all nodes at that time. The base of a
//! bucket and the present parts of all nodes together are its usage, at every node.
//!
//! Invariants: while a node has another process than the base knows, or runs and is not in it, the usage is not complete,
//! because what its process before did last is not known; whoever counts the bucket counts again. Changes while a bucket is counted are half of them in the base: such a count is repeated until nothing changes
//! meanwhile, each time after a longer wait.
//!
//! Must not depend on: how nodes are asked, clocks.

use std::collections::{BTreeMap, HashMap, HashSet};

use ashlar_format::BucketId;
use ashlar_object::{NUMBERS, Numbers, RestOfUsage, UsagePart, sum_of_usage as sum};
use serde::{Deserialize, Serialize};

/// How long a node does not run before buckets are counted without it, in milliseconds: longer than a restart.
const GONE_MS: i64 = 30_000;
/// The least time between counts of one bucket because of changes that a count could not place, in milliseconds.
const AGAIN_MS: i64 = 5 * 60_000;
/// The part of the time that such counts may take.
const AGAIN_EACH: i64 = 50;
/// Time between counts of one bucket for no reason, in milliseconds.
const DAY_MS: i64 = 24 * 3_600_000;

/// What was found in a bucket, less the parts of the nodes.
#[derive(Serialize, Deserialize, Clone, PartialEq, Eq, Debug)]
#[serde(deny_unknown_fields)]
pub struct Base {
    /// The numbers of a usage.
    pub numbers: Numbers,
    /// The processes whose parts are to be added, by node.
    pub lives: BTreeMap<u16, u64>,
    /// Changes of unknown outcome of each of them until then.
    pub losses: BTreeMap<u16, u64>,
    /// When the count ended, in milliseconds since 1970.
    pub counted_ms: i64,
    /// How long it took.
    pub took_ms: i64,
    /// Whether other nodes changed nothing meanwhile.
    pub exact: bool,
}

/// What a node answers about usage.
#[derive(Serialize, Deserialize, Clone, PartialEq, Eq, Debug, Default)]
#[serde(deny_unknown_fields)]
pub struct UsageShare {
    /// A random number of its process.
    pub life: u64,
    /// What to ask for next: the time of parts, and of bases.
    pub next: [u64; 2],
    /// Parts that changed, by the id of the bucket in hexadecimal: numbers and losses.
    pub parts: Vec<(String, Numbers, u64)>,
    /// Bases that it made, by the id of the bucket.
    pub bases: Vec<(String, Base)>,
    /// Whether there are more: to be asked for at once.
    pub more: bool,
}

/// The part of a node in one bucket, when it was asked.
#[derive(Serialize, Deserialize, Clone, Copy, PartialEq, Eq, Debug)]
#[serde(deny_unknown_fields)]
pub struct PartNow {
    /// A random number of its process.
    pub life: u64,
    /// The part.
    pub own: Numbers,
    /// Changes of unknown outcome.
    pub losses: u64,
}

/// Another node.
#[derive(Default)]
struct Other {
    life: u64,
    next: [u64; 2],
    parts: HashMap<BucketId, UsagePart>,
    bases: HashMap<BucketId, Base>,
    /// Its process before this one, and the parts of that.
    former: Option<(u64, HashMap<BucketId, UsagePart>)>,
}

/// What this node knows.
pub struct Board {
    me: u16,
    life: u64,
    others: BTreeMap<u16, Other>,
    /// Bases that this node made, and when in the order of all.
    bases: HashMap<BucketId, (u64, Base)>,
    made: u64,
    /// Since when a node does not run, in milliseconds.
    gone: BTreeMap<u16, i64>,
    running: HashSet<u16>,
}

impl Board {
    /// Of node `me`, whose process has the random number `life`.
    pub fn new(me: u16, life: u64) -> Board {
        let (others, bases, gone) = Default::default();
        Board { me, life, others, bases, made: 0, gone, running: HashSet::from([me]) }
    }

    /// What to ask a node for: the time of parts, and of bases. 0 is everything.
    pub fn since(&self, node: u16) -> [u64; 2] {
        self.others.get(&node).map_or([0; 2], |other| other.next)
    }

    /// A node answered what [`Board::since`] said to ask for. Returns whether to ask it again at once.
    pub fn heard(&mut self, node: u16, share: UsageShare) -> bool {
        let other = self.others.entry(node).or_default();
        if other.life != share.life {
            let was_asked_for_all = other.next == [0; 2];
            let before = std::mem::take(other);
            other.life = share.life;
            other.former = (before.life != 0).then_some((before.life, before.parts));
            // What it counted is still true.
            other.bases = before.bases;
            if !was_asked_for_all {
                // It was asked for what changed in another process.
                return true;
            }
        }
        for (bucket, own, losses) in share.parts {
            if let Some(bucket) = BucketId::from_hex(&bucket) {
                other.parts.insert(bucket, UsagePart { own, losses });
            }
        }
        for (bucket, base) in share.bases {
            if let Some(bucket) = BucketId::from_hex(&bucket) {
                other.bases.insert(bucket, base);
            }
        }
        other.next = share.next;
        share.more
    }

    /// Which nodes run now.
    pub fn running(&mut self, nodes: impl IntoIterator<Item = (u16, bool)>, now_ms: i64) {
        self.running = HashSet::from([self.me]);
        for (node, runs) in nodes {
            if runs {
                self.running.insert(node);
                self.gone.remove(&node);
            } else {
                self.gone.entry(node).or_insert(now_ms);
            }
        }
    }

    /// Forgets buckets that are gone.
    pub fn keep(&mut self, there: &HashSet<BucketId>) {
        self.bases.retain(|id, _| there.contains(id));
        for other in self.others.values_mut() {
            other.parts.retain(|id, _| there.contains(id));
            other.bases.retain(|id, _| there.contains(id));
        }
    }

    /// This node counted a bucket.
    pub fn counted(&mut self, bucket: BucketId, base: Base) {
        self.made += 1;
        self.bases.insert(bucket, (self.made, base));
    }

    /// The bases that this node made since a time, at most `most`: see [`UsageShare`].
    pub fn bases_since(&self, since: u64, most: usize) -> (u64, Vec<(String, Base)>, bool) {
        let mut all: Vec<_> = self.bases.iter().filter(|(_, (at, _))| *at > since).collect();
        all.sort_unstable_by_key(|(_, (at, _))| *at);
        let more = all.len() > most;
        all.truncate(most);
        let next = all.last().map_or(since, |(_, (at, _))| *at);
        (next, all.into_iter().map(|(id, (_, base))| (id.to_hex(), base.clone())).collect(), more)
    }

    /// The last base of a bucket that any node made.
    fn base(&self, bucket: BucketId) -> Option<&Base> {
        let own = self.bases.get(&bucket).map(|(_, base)| (base, self.me));
        let others = self.others.iter().filter_map(|(n, o)| Some((o.bases.get(&bucket)?, *n)));
        others.chain(own).max_by_key(|(base, node)| (base.counted_ms, *node)).map(|(base, _)| base)
    }

    /// The process of a node, as far as it said.
    fn life(&self, node: u16) -> Option<u64> {
        if node == self.me { Some(self.life) } else { self.others.get(&node).map(|other| other.life) }
    }

    /// Whether a base is of the processes that run.
    fn fits(&self, base: &Base) -> bool {
        base.lives.iter().all(|(node, life)| self.life(*node) == Some(*life))
            && self.running.iter().all(|node| base.lives.contains_key(node))
    }

    /// What is in a bucket besides the part of this node.
    pub fn rest(&self, bucket: BucketId) -> RestOfUsage {
        let base = self.base(bucket);
        let mut numbers = base.map_or([0; NUMBERS], |base| base.numbers);
        for (node, other) in &self.others {
            if let Some(part) = other.parts.get(&bucket) {
                numbers = sum(&numbers, &part.own);
            }
            // What its process before made of the bucket since, as far as it was heard of.
            if let Some((life, parts)) = &other.former
                && base.is_some_and(|base| base.lives.get(node) == Some(life))
                && let Some(part) = parts.get(&bucket)
            {
                numbers = sum(&numbers, &part.own);
            }
        }
        RestOfUsage {
            numbers,
            complete: base.is_some_and(|base| self.fits(base)),
            counted_ms: base.map_or(0, |base| base.counted_ms),
        }
    }

    /// Whether whoever counts this bucket is to count it now. `losses`: of this node in it.
    pub fn wants_count(&self, bucket: BucketId, losses: u64, now_ms: i64) -> bool {
        let Some(base) = self.base(bucket) else { return true };
        // A node that runs and did not say which process it is has to be asked first.
        let unknown = self.running.iter().any(|node| self.life(*node).is_none());
        let joined = self.running.iter().any(|node| base.lives.get(node).copied() != self.life(*node));
        let left = base.lives.keys().any(|node| {
            !self.running.contains(node) && self.gone.get(node).is_none_or(|at| now_ms - at >= GONE_MS)
        });
        let age_ms = now_ms.saturating_sub(base.counted_ms);
        let lost = |node: u16| match node == self.me {
            true => losses,
            false => self.others.get(&node).and_then(|o| o.parts.get(&bucket)).map_or(0, |p| p.losses),
        };
        let unsure = !base.exact || base.losses.iter().any(|(node, before)| lost(*node) != *before);
        let wait = AGAIN_MS.max(base.took_ms.saturating_mul(AGAIN_EACH));
        (!unknown && (joined || left)) || (unsure && age_ms >= wait) || age_ms >= DAY_MS
    }
}

/// The base that a count makes. `found`: numbers of the bucket; `own`: the part of this node at the same time; `before` and
/// `after`: the parts of the others before and after the count. `None`: a node began another process meanwhile.
pub fn base(
    found: Numbers,
    (me, own): (u16, PartNow),
    before: &BTreeMap<u16, PartNow>,
    after: &BTreeMap<u16, PartNow>,
    (counted_ms, took_ms): (i64, i64),
) -> Option<Base> {
    let same = |n: &u16, a: &PartNow| before.get(n).is_some_and(|b| b.life == a.life);
    if before.len() != after.len() || !after.iter().all(|(n, a)| same(n, a)) {
        return None;
    }
    let mut numbers = less(&found, &own.own);
    for (node, now) in after {
        let was = &before[node];
        // Of what it changed meanwhile, half is taken to be in what was found.
        let middle: Numbers =
            std::array::from_fn(|i| was.own[i].wrapping_add(now.own[i].wrapping_sub(was.own[i]) / 2));
        numbers = less(&numbers, &middle);
    }
    let all = || after.iter().map(|(n, p)| (*n, p)).chain([(me, &own)]);
    Some(Base {
        numbers,
        lives: all().map(|(n, p)| (n, p.life)).collect(),
        losses: all().map(|(n, p)| (n, p.losses)).collect(),
        counted_ms,
        took_ms,
        exact: before == after,
    })
}

fn less(a: &Numbers, b: &Numbers) -> Numbers {
    std::array::from_fn(|i| a[i].wrapping_sub(b[i]))
}

#[cfg(test)]
#[path = "usage_board_tests.rs"]
mod tests;
