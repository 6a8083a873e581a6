//! Encodes operations as journal records.
//!
//! Invariant: `replay` reads what is encoded here; `ashlar_format::journal` defines the bytes.
//!
//! Must not depend on: batches, flushes, files.

use crate::entry::{Loc, Region, Shard, ShardName};
use crate::op::{FRESH, Op};
use crate::types::Accept;
use ashlar_format::GroupId;
use ashlar_format::codec;
use ashlar_format::journal::{self, AcceptEntry, BatchWriter, ExtentEntry, GroupState, StageEntry, kind};
use ashlar_format::journal::{FenceEntry, LiftEntry};
use ashlar_machine::Buf;

/// Encodes the records of one operation; returns their positions (an accept with its shard has two).
/// `states`: the new state of each group that an operation on states changes.
pub(crate) fn place(
    out: &mut BatchWriter,
    buf: &mut Buf,
    segment: u32,
    op: &Op,
    states: &[(GroupId, GroupState)],
) -> (Loc, Loc) {
    let mut head = codec::Writer::with_capacity(256);
    let mut push = |out: &mut BatchWriter, kind: u8, parts: &[&[u8]]| {
        let len: usize = parts.iter().map(|p| p.len()).sum();
        let at = out.push(buf, kind, parts);
        Loc { segment, at, len: len as u32 }
    };
    let none = Loc::default();
    match op {
        Op::Accept { accept: a, hint, oldest, .. } => {
            let mut shard = none;
            if let Some(i) = &a.inline {
                let mut h = codec::Writer::with_capacity(128);
                let e = StageEntry {
                    write_id: i.write_id,
                    index: i.index,
                    ballot: a.ballot,
                    owner: a.key.as_bytes(),
                    data: &i.data,
                };
                journal::stage_head(&mut h, &e);
                shard = push(out, kind::STAGE, &[&h.into_vec(), &i.data]);
            }
            let e = AcceptEntry {
                key: a.key.as_bytes(),
                ballot: a.ballot,
                flags: accept_flags(a, *hint),
                oldest: if *oldest == FRESH { segment } else { *oldest },
                summary: &a.summary,
                record: &a.record,
            };
            journal::accept_head(&mut head, &e);
            (push(out, kind::ACCEPT, &[&head.into_vec(), &a.record]), shard)
        }
        Op::Stage { shard: s, .. } => {
            let e = StageEntry {
                write_id: s.write_id,
                index: s.index,
                ballot: s.ballot,
                owner: s.owner.as_bytes(),
                data: &s.data,
            };
            journal::stage_head(&mut head, &e);
            (push(out, kind::STAGE, &[&head.into_vec(), &s.data]), none)
        }
        Op::Extent { name, shard, .. } => {
            let r = shard.extent.unwrap_or(Region { segment: 0, offset: 0, frame: 1 });
            journal::extent(&mut head, &extent_entry(*name, shard, r));
            (push(out, kind::EXTENT, &[&head.into_vec()]), none)
        }
        Op::Hint { key, ballot } => {
            journal::hint(&mut head, key.as_bytes(), *ballot);
            (push(out, kind::HINTS, &[&head.into_vec()]), none)
        }
        Op::Purge { key, ballot, oldest, newest } => {
            journal::purge(&mut head, key.as_bytes(), *ballot, *oldest, (*newest).min(segment));
            (push(out, kind::PURGE, &[&head.into_vec()]), none)
        }
        Op::Discard { name: (id, index), target } => {
            journal::discard(&mut head, *id, *index, *target, (0, 0));
            (push(out, kind::DISCARD, &[&head.into_vec()]), none)
        }
        Op::State { .. } | Op::States if states.is_empty() => (none, none),
        Op::State { .. } | Op::States => {
            journal::states(&mut head, states);
            (push(out, kind::STATE, &[&head.into_vec()]), none)
        }
        Op::Fence { .. } => {
            if let Some(e) = fence_entry(op, segment) {
                journal::fence(&mut head, &e);
            }
            (push(out, kind::FENCE, &[&head.into_vec()]), none)
        }
        Op::LiftFence { .. } => {
            if let Some(e) = lift_entry(op, segment) {
                journal::lift(&mut head, &e);
            }
            (push(out, kind::LIFT, &[&head.into_vec()]), none)
        }
        Op::MoveFence { payload, .. } => (push(out, kind::FENCE, &[payload]), none),
        Op::MoveRegister { payload, .. } => (push(out, kind::ACCEPT, &[payload]), none),
        Op::MoveShard { kind, payload, .. } | Op::MoveDeletion { kind, payload, .. } => {
            (push(out, *kind, &[payload]), none)
        }
        // Placed with the batch.
        Op::Forget { .. } | Op::NoteUnnamed | Op::Barrier { .. } => (none, none),
    }
}

/// The record of [`Op::Fence`] in this segment.
pub(crate) fn fence_entry(op: &Op, segment: u32) -> Option<FenceEntry> {
    let Op::Fence { key: (group, bucket), deletion, oldest, .. } = op else { return None };
    let oldest = oldest.unwrap_or(segment);
    Some(FenceEntry { group: *group, bucket: *bucket, deletion: deletion.0, oldest })
}

/// The record of [`Op::LiftFence`] in this segment. Fences that compaction moves in the same batch are in
/// this segment at the latest.
pub(crate) fn lift_entry(op: &Op, segment: u32) -> Option<LiftEntry> {
    let Op::LiftFence { key: (group, bucket), up_to, oldest } = op else { return None };
    let (group, bucket, oldest) = (*group, *bucket, *oldest);
    Some(LiftEntry { group, bucket, up_to: up_to.0, oldest, newest: segment })
}

pub(crate) fn extent_entry(name: ShardName, s: &Shard, r: Region) -> ExtentEntry<'_> {
    ExtentEntry {
        write_id: name.0,
        index: name.1,
        ballot: s.ballot,
        owner: s.owner.as_bytes(),
        len: s.len,
        frame: r.frame,
        segment: r.segment,
        offset: r.offset,
    }
}

pub(crate) fn accept_flags(a: &Accept, hint: bool) -> u8 {
    let one_sync = if a.inline.is_some() { journal::ONE_SYNC } else { 0 };
    one_sync | if hint { journal::HINTED } else { 0 }
}
