//! After a batch is durable: applies it to the index and the acceptor, then answers.
//!
//! Invariants: nothing here runs before the flush of the batch succeeded (I11); the index and the acceptor
//! change together, under one lock; answers are sent after the lock is released.
//!
//! Must not depend on: how the batch reached the device.

use crate::Completion;
use crate::apply::{register_of, shard_of};
use crate::core::{Core, Shared};
use crate::entry::{Loc, Register, Shard};
use crate::head::Writer;
use crate::op::{FRESH, Op};
use crate::place::{accept_flags, fence_entry, lift_entry};
use crate::types::Role;
use ashlar_format::journal::{self, GroupState, kind};
use ashlar_format::{GroupId, Record, RegisterKey};
use std::sync::Arc;

type Waiters = Vec<tokio::sync::oneshot::Sender<()>>;

impl Shared {
    /// Applies a durable batch and answers.
    pub(super) fn settle(
        self: &Arc<Self>,
        w: &mut Writer,
        batch: &mut Vec<Op>,
        states: &[(GroupId, GroupState)],
    ) {
        w.may_answer();
        let mut waiters = Vec::new();
        let mut repeats = Vec::new();
        {
            let mut core = self.core.lock();
            for (op, placed) in batch.iter_mut().zip(w.placed()) {
                core.apply_op(op, *placed, &mut waiters, &mut repeats);
            }
            core.adopt_states(states, w.position.segment);
            if let Some(note) = w.note.take() {
                core.unnamed.noted = note.into_iter().collect();
            }
            core.applied = w.position;
            let half = u64::from(w.position.at) * 2 > w.bytes;
            let full =
                core.overlay.active.bytes > self.options.cache_bytes / 2 && core.overlay.frozen.is_none();
            let garbage = core.freed_bytes > core.freed_most;
            if (half && core.spare.is_none()) || full || garbage {
                self.wake_maintenance(&mut core);
            }
        }
        for w in waiters {
            let _ = w.send(());
        }
        for (counted, done) in repeats {
            if counted { done.ok() } else { done.uncounted() }
        }
        for op in batch.drain(..) {
            match op {
                Op::Accept { counted: false, copy: false, done, .. } => done.uncounted(),
                op => {
                    if let Some(done) = op.done() {
                        done.ok();
                    }
                }
            }
        }
    }
}

impl Core {
    fn apply_op(
        &mut self,
        op: &mut Op,
        (loc, second): (Loc, Loc),
        waiters: &mut Waiters,
        repeats: &mut Vec<(bool, Completion)>,
    ) {
        match op {
            Op::Accept { hash, accept: a, hint, oldest, counted, .. } => {
                let group = a.key.group();
                *counted &= self.groups.get(group).is_some_and(|g| g.role() == Role::Voter);
                if let Some(i) = &a.inline {
                    let shard = Shard {
                        owner: a.key.clone(),
                        ballot: a.ballot,
                        len: i.data.len() as u64,
                        loc: second,
                        extent: None,
                    };
                    self.apply_written((i.write_id, i.index), shard);
                }
                let now = Register {
                    ballot: a.ballot,
                    digest: Record::digest(&a.record),
                    loc,
                    record_len: a.record.len() as u32,
                    flags: accept_flags(a, *hint),
                    oldest: if *oldest == FRESH { loc.segment } else { *oldest },
                    summary: a.summary.as_ref().into(),
                };
                self.apply_accept(a.key.clone(), now, *oldest == FRESH);
                self.groups.ask(group, |acceptor| acceptor.settled(*hash, a.ballot));
                if let Some(p) = self.pending.get_mut(hash) {
                    p.count = p.count.saturating_sub(1);
                    if p.count == 0 {
                        waiters.append(&mut p.waiters);
                        repeats.extend(p.repeats.drain(..).map(|done| (*counted, done)));
                        self.pending.remove(hash);
                    }
                }
            }
            Op::Stage { shard: s, .. } => {
                let shard = Shard {
                    owner: s.owner.clone(),
                    ballot: s.ballot,
                    len: s.data.len() as u64,
                    loc,
                    extent: None,
                };
                self.apply_written((s.write_id, s.index), shard);
            }
            Op::Extent { name, shard, .. } => {
                let mut shard = (**shard).clone();
                shard.loc = loc;
                if let Some(r) = shard.extent {
                    // From here on the record keeps the region, not the writer.
                    self.extent_written(r);
                }
                self.apply_written(*name, shard);
                if self.unnamed.written(name) {
                    self.lazy.push(Op::Discard { name: *name, target: loc.segment });
                }
            }
            Op::Hint { key, ballot } => self.apply_hint(key, *ballot),
            Op::Purge { key, ballot, oldest, newest } => {
                let hash = promise_key(key);
                let newest = (*newest).min(loc.segment);
                self.apply_purge(key.clone(), Some(hash), *ballot, *oldest, newest, loc);
            }
            Op::Discard { name, target } => self.apply_discard(*name, *target, (0, 0), loc),
            Op::Fence { key, .. } => {
                let key = *key;
                if let Some(e) = fence_entry(op, loc.segment) {
                    self.apply_fence(&e, loc);
                }
                self.fences.answered(&key);
            }
            Op::LiftFence { .. } => {
                if let Some(e) = lift_entry(op, loc.segment) {
                    self.apply_lift(&e, loc);
                }
            }
            Op::MoveFence { payload, .. } => {
                let Ok(entry) = journal::Entry::decode(kind::FENCE, payload) else { return };
                let _ = self.replay(loc, entry);
            }
            Op::MoveRegister { key, from, payload } => {
                let Ok(entry) = journal::Entry::decode(kind::ACCEPT, payload) else { return };
                if self.overlay.register(key).is_none()
                    && let journal::Entry::Accept(e) = &entry
                {
                    self.promote_register(key, register_of(e, *from));
                }
                let _ = self.replay(loc, entry);
            }
            Op::MoveShard { name, from, kind, payload } => {
                let Ok(entry) = journal::Entry::decode(*kind, payload) else { return };
                // It is still the entry of the index files, or it would not be in the batch.
                if self.overlay.shard(name).is_none()
                    && let Some(known) = shard_of(&entry, *from)
                {
                    self.promote_shard(*name, known);
                }
                let _ = self.replay(loc, entry);
            }
            Op::MoveDeletion { need, .. } => {
                self.journal_deletion(loc.segment, loc.bytes(), need.0, need.1);
            }
            Op::State { .. } | Op::States | Op::Forget { .. } | Op::NoteUnnamed | Op::Barrier { .. } => {}
        }
    }

    /// Adopts states that are durable now.
    fn adopt_states(&mut self, written: &[(GroupId, GroupState)], segment: u32) {
        if !written.is_empty() {
            let all = self.groups.adopt(written);
            self.note_states(segment, all);
        }
    }
}

/// The name of a register for the acceptor: a keyed 128-bit hash.
pub(crate) fn promise_key(key: &RegisterKey) -> u128 {
    let h = ashlar_checksum::frame_hash(&ashlar_checksum::KEY_HASH_KEY, &[key.as_bytes()]);
    let mut b = [0; 16];
    b.copy_from_slice(&h[..16]);
    u128::from_le_bytes(b)
}
