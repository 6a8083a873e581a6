//! Applies durable journal records to the index: the same code while running and in recovery.
//!
//! Invariants: records are applied in journal order, each once, on top of the state before it; the entry of a
//! register never goes back to a lower ballot; bytes that stop being live are counted in the segment that
//! holds them.
//!
//! Must not depend on: how a batch reached the device.

use crate::core::{Core, Shared};
use crate::entry::{Loc, Region, Register, Shard, ShardName};
use crate::op::Op;
use ashlar_format::journal::{self, Entry};
use ashlar_format::{Ballot, Record, RegisterKey};

impl Core {
    /// A register accepted a record. `fresh`: the index is known to have had no entry for this key. Returns
    /// false if a higher ballot is there already.
    pub fn apply_accept(&mut self, key: RegisterKey, mut now: Register, fresh: bool) -> bool {
        let loc = now.loc;
        if let Some(Some(old)) = self.overlay.register(&key) {
            if old.ballot > now.ballot {
                return false;
            }
            if old.ballot == now.ballot {
                now.flags |= old.flags & journal::HINTED;
            }
        }
        self.journal_live(loc, true);
        let again = fresh.then(|| key.clone());
        match self.overlay.set_register(key, Some(now)) {
            Some(Some(old)) => self.journal_live(old.loc, false),
            Some(None) => {}
            None => {
                if let Some(k) = again {
                    self.overlay.resolve_register(&k);
                }
            }
        }
        true
    }

    /// A shard was written: it is durable, in the journal or in an extent. A drop that waits for a lookup concerns the one
    /// before it.
    pub fn apply_written(&mut self, name: ShardName, now: Shard) {
        self.unresolved_discards.remove(&name);
        self.apply_shard(name, now);
    }

    /// The record of a shard is durable. A drop that waits for a lookup concerns the shard also if its record was moved.
    pub fn apply_shard(&mut self, name: ShardName, now: Shard) {
        self.journal_live(now.loc, true);
        let (region, bytes) = (now.extent, now.region_bytes());
        let old = self.overlay.set_shard(name, Some(now)).flatten();
        if let Some(old) = &old {
            self.journal_live(old.loc, false);
            if old.extent == region {
                // The same region, or none, under a new journal record.
                return;
            }
        }
        if let Some(r) = region {
            self.region_live(r, bytes);
        }
        if let Some(old) = old
            && let Some(r) = old.extent
        {
            self.free_region(r, old.region_bytes());
        }
    }

    /// Frees what `old` occupied.
    pub fn shard_gone(&mut self, old: &Shard) {
        self.journal_live(old.loc, false);
        if let Some(r) = old.extent {
            self.free_region(r, old.region_bytes());
        }
    }

    /// Copies an entry that only the index files have into the overlay, before it is moved or compared with a
    /// deletion, so that the change is counted against it.
    pub fn promote_shard(&mut self, name: ShardName, known: Shard) {
        if self.overlay.shard(&name).is_none() {
            self.overlay.set_shard(name, Some(known));
            self.overlay.resolve_shard(&name);
        }
    }

    /// Like [`Core::promote_shard`].
    pub fn promote_register(&mut self, key: &RegisterKey, known: Register) {
        if self.overlay.register(key).is_none() {
            self.overlay.set_register(key.clone(), Some(known));
            self.overlay.resolve_register(key);
        }
    }

    /// A register of the overlay gets a hint, which is journaled lazily; unless it has another record, or the hint.
    pub fn take_hint(&mut self, key: &RegisterKey, ballot: Ballot, shared: &Shared) {
        let fresh = matches!(self.overlay.register(key), Some(Some(r)) if r.ballot == ballot && !r.hinted());
        if fresh {
            self.apply_hint(key, ballot);
            self.enqueue_lazy(Op::Hint { key: key.clone(), ballot }, &shared.journal_work);
        }
    }

    pub fn apply_hint(&mut self, key: &RegisterKey, ballot: Ballot) {
        if let Some(Some(r)) = self.overlay.register(key)
            && r.ballot == ballot
            && !r.hinted()
        {
            let mut r = r.clone();
            r.flags |= journal::HINTED;
            let loc = r.loc;
            // Live bytes move from the old entry to the same place: no change.
            if let Some(Some(old)) = self.overlay.set_register(key.clone(), Some(r)) {
                assert_eq!(old.loc, loc);
            }
        }
    }

    /// A tombstone of ballot `ballot` is dropped; the purge record is at `loc`. `hash`: the name of the
    /// register for the acceptor, which recovery does not need.
    pub fn apply_purge(
        &mut self,
        key: RegisterKey,
        hash: Option<u128>,
        ballot: Ballot,
        oldest: u32,
        newest: u32,
        loc: Loc,
    ) {
        self.journal_deletion(loc.segment, loc.bytes(), oldest, newest);
        self.groups.raise_horizon(key.group(), ballot);
        if hash.is_some_and(|h| self.pending.contains_key(&h)) {
            // A higher record is being written and will replace the tombstone.
            return;
        }
        match self.overlay.register(&key) {
            Some(Some(r)) if r.ballot > ballot => return,
            Some(None) => return,
            _ => {}
        }
        if let Some(h) = hash {
            self.groups.ask(key.group(), |acceptor| acceptor.purged(h, ballot));
        }
        if let Some(Some(old)) = self.overlay.set_register(key, None) {
            self.journal_live(old.loc, false);
        }
    }

    /// A shard is dropped; the discard record is at `loc`, the record of the shard in `target`. A shard that
    /// was staged again at or after `before` stays.
    pub fn apply_discard(&mut self, name: ShardName, target: u32, before: (u32, u32), loc: Loc) {
        self.journal_deletion(loc.segment, loc.bytes(), target, target);
        let before = if before == (0, 0) { (loc.segment, loc.at) } else { before };
        match self.overlay.shard(&name) {
            Some(Some(s)) if (s.loc.segment, s.loc.at) >= before => return,
            Some(None) => return,
            _ => {}
        }
        self.confirmed.remove(&name);
        if let Some(Some(old)) = self.overlay.set_shard(name, None) {
            self.shard_gone(&old);
        }
    }

    /// States were written to `segment`; `all`: those of every group, so that no older segment counts.
    pub fn note_states(&mut self, segment: u32, all: bool) {
        if all || self.state_segment == 0 {
            self.state_segment = segment;
        }
    }

    /// Applies a record found by recovery.
    pub fn replay(&mut self, loc: Loc, entry: Entry<'_>) -> Result<(), ashlar_format::Error> {
        let key =
            |k: &[u8]| RegisterKey::from_bytes(k).ok_or(ashlar_format::Error::Malformed("register key"));
        match entry {
            Entry::Accept(e) => {
                self.apply_accept(key(e.key)?, register_of(&e, loc), false);
            }
            Entry::Stage(ref e) => {
                let now = shard_of(&entry, loc).ok_or(ashlar_format::Error::Malformed("register key"))?;
                self.apply_shard((e.write_id, e.index), now);
            }
            Entry::Extent(ref e) => {
                self.unnamed.replay_region(e.segment, e.offset);
                let now = shard_of(&entry, loc).ok_or(ashlar_format::Error::Malformed("register key"))?;
                self.apply_shard((e.write_id, e.index), now);
            }
            Entry::Hints(hints) => {
                for (k, b) in hints {
                    self.apply_hint(&key(k)?, b);
                }
            }
            Entry::Purge { key: k, ballot, oldest, newest } => {
                self.apply_purge(key(k)?, None, ballot, oldest, newest, loc);
            }
            Entry::Discard { write_id, index, segment, before } => {
                self.apply_discard((write_id, index), segment, before, loc);
            }
            Entry::State(found) => {
                let all = self.groups.restore(&found);
                self.note_states(loc.segment, all);
            }
            Entry::Fence(e) => self.apply_fence(&e, loc),
            Entry::Lift(e) => self.apply_lift(&e, loc),
            Entry::Unnamed(note) => self.unnamed.replay_note(note),
            Entry::Segments(_) | Entry::Seal { .. } => {}
        }
        Ok(())
    }
}

/// The index entry of an accepted record at `loc`.
pub(crate) fn register_of(e: &journal::AcceptEntry<'_>, loc: Loc) -> Register {
    Register {
        ballot: e.ballot,
        digest: Record::digest(e.record),
        loc,
        record_len: e.record.len() as u32,
        flags: e.flags,
        oldest: e.oldest,
        summary: e.summary.into(),
    }
}

/// The index entry of a shard whose record is at `loc`; `None` if the record is not one of a shard.
pub(crate) fn shard_of(entry: &Entry<'_>, loc: Loc) -> Option<Shard> {
    Some(match entry {
        Entry::Stage(e) => Shard {
            owner: RegisterKey::from_bytes(e.owner)?,
            ballot: e.ballot,
            len: e.data.len() as u64,
            loc,
            extent: None,
        },
        Entry::Extent(e) => Shard {
            owner: RegisterKey::from_bytes(e.owner)?,
            ballot: e.ballot,
            len: e.len,
            loc,
            extent: Some(Region { segment: e.segment, offset: e.offset, frame: e.frame }),
        },
        _ => return None,
    })
}
