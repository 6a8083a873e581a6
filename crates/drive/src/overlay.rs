//! Recent index changes in memory, in front of the index files.
//!
//! There are two generations: changes go to the active one; the frozen one is being written to files and does
//! not change.
//!
//! Invariants: `None` means "removed"; an entry here hides all older ones. The predecessor of a *resolved*
//! entry has been counted; that of an unresolved entry may still be in the index files and is counted when
//! the generation is written.
//!
//! Must not depend on: files.

use crate::changes::Changes;
use crate::entry::{Register, Shard, ShardName};
use ashlar_environment::HashMap;
use ashlar_format::RegisterKey;
use std::ops::Bound;
use std::sync::Arc;

/// A change, and whether the entry that it replaced is known.
#[derive(Clone, Debug)]
pub(crate) struct Change<T> {
    pub now: Option<T>,
    pub resolved: bool,
}

/// One generation.
#[derive(Default)]
pub(crate) struct Generation {
    pub registers: Changes<Register>,
    pub shards: HashMap<ShardName, Change<Shard>>,
    /// Estimated memory, bytes.
    pub bytes: usize,
}

impl Generation {
    pub fn is_empty(&self) -> bool {
        self.registers.is_empty() && self.shards.is_empty()
    }

    /// Its memory without its changes.
    pub fn emptied(mut self) -> Generation {
        self.registers.clear();
        self.shards.clear();
        self.bytes = 0;
        self
    }
}

/// Both generations.
#[derive(Default)]
pub(crate) struct Overlay {
    pub active: Generation,
    pub frozen: Option<Arc<Generation>>,
    /// An empty one with the memory of the last that was written: growing from nothing for each costs copies and pages that were
    /// never touched, several times its size.
    spare: Option<Generation>,
}

/// Memory of an entry in addition to its variable parts: map node, struct, allocations.
const COST: usize = 176;

/// The same for a register, which is found in two ways.
const REGISTER_COST: usize = 240;

impl Overlay {
    /// Freezes the active generation; the next one gets the memory that is left from an earlier one.
    pub fn freeze(&mut self) {
        let next = self.spare.take().unwrap_or_default();
        self.frozen = Some(Arc::new(std::mem::replace(&mut self.active, next)));
    }

    /// The next generation gets the memory of this one, which is empty.
    pub fn reuse(&mut self, empty: Generation) {
        self.spare = Some(empty);
    }

    /// `Some` if the overlay has an entry: `Some(None)` means "removed".
    pub fn register(&self, key: &RegisterKey) -> Option<Option<&Register>> {
        self.active
            .registers
            .get(key)
            .or_else(|| self.frozen.as_ref()?.registers.get(key))
            .map(|c| c.now.as_ref())
    }

    pub fn shard(&self, name: &ShardName) -> Option<Option<&Shard>> {
        self.active
            .shards
            .get(name)
            .or_else(|| self.frozen.as_ref()?.shards.get(name))
            .map(|c| c.now.as_ref())
    }

    /// Puts or removes an entry; returns the previous one: `None` if only the index files can tell.
    pub fn set_register(&mut self, key: RegisterKey, now: Option<Register>) -> Option<Option<Register>> {
        let size = REGISTER_COST + key.as_bytes().len() + now.as_ref().map_or(0, |r| r.summary.len());
        match self.active.registers.get_mut(&key) {
            Some(c) => Some(std::mem::replace(&mut c.now, now)),
            None => {
                let before = self.frozen.as_ref().and_then(|f| f.registers.get(&key)).map(|c| c.now.clone());
                let resolved = before.is_some();
                self.active.bytes += size;
                self.active.registers.set(key, Change { now, resolved });
                before
            }
        }
    }

    pub fn set_shard(&mut self, name: ShardName, now: Option<Shard>) -> Option<Option<Shard>> {
        match self.active.shards.get_mut(&name) {
            Some(c) => Some(std::mem::replace(&mut c.now, now)),
            None => {
                let before = self.frozen.as_ref().and_then(|f| f.shards.get(&name)).map(|c| c.now.clone());
                let resolved = before.is_some();
                self.active.bytes += COST + now.as_ref().map_or(0, |s| s.owner.as_bytes().len());
                self.active.shards.insert(name, Change { now, resolved });
                before
            }
        }
    }

    /// Marks that the entry's predecessor has been counted, or never existed.
    pub fn resolve_shard(&mut self, name: &ShardName) {
        if let Some(c) = self.active.shards.get_mut(name) {
            c.resolved = true;
        }
    }

    /// Like [`Overlay::resolve_shard`].
    pub fn resolve_register(&mut self, key: &RegisterKey) {
        if let Some(c) = self.active.registers.get_mut(key) {
            c.resolved = true;
        }
    }

    /// Copies at most `limit` register changes at or after `from` and below `to`, merged from both
    /// generations. The flag tells that there are no more.
    pub fn registers_from(
        &self,
        from: &[u8],
        to: &[u8],
        limit: usize,
    ) -> (Vec<(RegisterKey, Option<Register>)>, bool) {
        let range = |g: &Generation| {
            // A borrowed bound would be possible with Box<[u8]>, which orders like its bytes. RegisterKey
            // cannot be borrowed as bytes, so the bound is owned if the key is long enough.
            let lower = lower_bound(from);
            g.registers
                .from(lower)
                .skip_while(|(k, _)| k.as_bytes() < from)
                .take_while(|(k, _)| k.as_bytes() < to)
                .take(limit)
                .map(|(k, c)| (k.clone(), c.now.clone()))
                .collect::<Vec<_>>()
        };
        let active = range(&self.active);
        let frozen = self.frozen.as_ref().map(|f| range(f)).unwrap_or_default();
        let mut done = active.len() < limit && frozen.len() < limit;
        let mut out = Vec::with_capacity(active.len().max(frozen.len()));
        let (mut a, mut f) = (active.into_iter().peekable(), frozen.into_iter().peekable());
        while out.len() < limit {
            let take_active = match (a.peek(), f.peek()) {
                (None, None) => break,
                (Some(_), None) => true,
                (None, Some(_)) => false,
                (Some((x, _)), Some((y, _))) => {
                    if x == y {
                        f.next();
                        true
                    } else {
                        x < y
                    }
                }
            };
            out.extend(if take_active { a.next() } else { f.next() });
        }
        if out.len() == limit {
            done = false;
        }
        (out, done)
    }
}

/// The tightest bound that a register key can express for arbitrary bytes.
fn lower_bound(from: &[u8]) -> Bound<RegisterKey> {
    match RegisterKey::from_bytes(from) {
        Some(k) => Bound::Included(k),
        None if from.len() < RegisterKey::PREFIX => {
            // The shortest register key that is not below `from`: padded with zeros.
            let mut b = from.to_vec();
            b.resize(RegisterKey::PREFIX, 0);
            RegisterKey::from_bytes(&b).map_or(Bound::Unbounded, Bound::Included)
        }
        None => RegisterKey::from_bytes(&from[..RegisterKey::MAX]).map_or(Bound::Unbounded, Bound::Included),
    }
}
