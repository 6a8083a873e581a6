//! Operations on registers other than votes: reads, hints, purges, scans, digests.
//!
//! Invariants: the `_now` functions never wait for a device; a register that cannot be read is an error,
//! never "absent".
//!
//! Must not depend on: other drives.

use crate::Result;
use crate::core::{Core, MAX_UNRESOLVED, Shared};
use crate::drive::Drive;
use crate::entry::Register;
use crate::index::must;
use crate::op::Op;
use crate::run::{Halt, Lookup, Mode};
use crate::settle::promise_key;
use crate::types::{Entry, Fold, Range, ReadReply, Role, Seen};
use ashlar_format::{Ballot, GroupId, RegisterKey};
use bytes::Bytes;
use std::sync::Arc;

/// Entries of a folded page that is read by the caller's thread, if no device is needed.
const SHORT: usize = 100;

impl Drive {
    /// READ for a caller that follows the layout of `epoch` (`u32::MAX`: the caller inspects this drive and
    /// does not read the register).
    ///
    /// # Errors
    /// `Corrupt` or `Io`: the state on this drive is unknown, which is not "no record". `NewerLayout` for an
    /// epoch below the one to which the drive is fenced: drives of other slots may have been replaced.
    pub async fn read(&self, key: &RegisterKey, want_record: bool, epoch: u32) -> Result<ReadReply> {
        if let Some(r) = self.read_now(key, want_record, epoch) {
            return r;
        }
        let key = key.clone();
        self.shared
            .on_io(move |s| {
                s.readable()?;
                let horizon = s.horizon(key.group());
                let found = s.read_register(&key, want_record, Mode::Wait).map_err(must)?;
                reply(s, &key, found, horizon, epoch)
            })
            .await
    }

    /// READ without waiting: `None` if a device would be needed; then call [`Drive::read`].
    #[must_use]
    pub fn read_now(&self, key: &RegisterKey, want_record: bool, epoch: u32) -> Option<Result<ReadReply>> {
        if let Err(e) = self.shared.readable() {
            return Some(Err(e));
        }
        let horizon = self.shared.horizon(key.group());
        match self.shared.read_register(key, want_record, Mode::Now) {
            Ok(found) => Some(reply(&self.shared, key, found, horizon, epoch)),
            Err(Halt::WouldBlock) => None,
            Err(Halt::Failed(e)) => Some(Err(e)),
        }
    }

    /// HINT: `ballot` is chosen. Kept in memory, journaled lazily. No effect for an older layout `epoch`.
    pub fn hint(&self, key: &RegisterKey, ballot: Ballot, epoch: u32) {
        {
            let mut core = self.shared.core.lock();
            if core.groups.in_epoch(key.group(), epoch).is_err() {
                return;
            }
            if core.overlay.register(key).is_some() {
                return core.take_hint(key, ballot, &self.shared);
            }
        }
        self.hint_filed(Mode::Now, key.clone(), ballot, epoch);
    }

    /// HINT of a register that only the index files have: they were written after its ACCEPT, or a heal found the hint
    /// missing.
    fn hint_filed(&self, mode: Mode, key: RegisterKey, ballot: Ballot, epoch: u32) {
        loop {
            let (known, generation) = match self.shared.look_up(&key, mode) {
                Ok(found) => found,
                Err(Halt::WouldBlock) => {
                    let me = self.clone();
                    // A full queue drops the hint: the next heal of the register sends it again.
                    let _ = self.shared.spawn(move || me.hint_filed(Mode::Wait, key, ballot, epoch));
                    return;
                }
                Err(Halt::Failed(_)) => return,
            };
            let mut core = self.shared.core.lock();
            if core.groups.in_epoch(key.group(), epoch).is_err() {
                return;
            }
            if !core.still(&key, known.as_ref().map_or(Ballot::ZERO, |r| r.ballot), generation) {
                continue;
            }
            if let Some(known) = known.filter(|r| r.ballot == ballot && !r.hinted()) {
                core.promote_register(&key, known);
                core.take_hint(&key, ballot, &self.shared);
            }
            return;
        }
    }

    /// Drops a tombstone that all voters accepted at `ballot`; the purge horizon rises to it. No effect if
    /// the register has changed, or for an older layout `epoch`. Journaled lazily.
    pub fn purge(&self, key: &RegisterKey, ballot: Ballot, epoch: u32) {
        let hash = promise_key(key);
        let mut core = self.shared.core.lock();
        if core.groups.in_epoch(key.group(), epoch).is_err() {
            return;
        }
        if core.pending.contains_key(&hash) {
            return;
        }
        let found = core.overlay.register(key).map(|f| f.map(|r| (r.ballot, r.oldest, r.loc)));
        match found {
            Some(Some((b, oldest, loc))) if b == ballot => {
                let op = Op::Purge { key: key.clone(), ballot, oldest, newest: loc.segment };
                core.enqueue_lazy(op, &self.shared.journal_work);
            }
            Some(_) => {}
            None if core.unresolved.len() < MAX_UNRESOLVED => {
                core.unresolved.push((key.clone(), ballot));
            }
            // Too many are queued: the collector repeats the request.
            None => {}
        }
    }

    /// Registers with `from <= key < to` in order, at most `limit`.
    ///
    /// # Errors
    /// `Corrupt` or `Io` if the index cannot be read, `Fenced`.
    pub async fn scan(&self, from: &[u8], to: &[u8], limit: usize, epoch: u32) -> Result<Vec<Entry>> {
        if let Some(r) = self.scan_now(from, to, limit, epoch) {
            return r;
        }
        let (from, to) = (from.to_vec(), to.to_vec());
        let f = move |s: &Arc<Shared>| {
            let found = s.scan((&from, &to), None, limit, Mode::Wait).map_err(must)?;
            in_epoch(&s.core.lock(), &from, &to, epoch).map(|()| found)
        };
        self.shared.on_io(f).await
    }

    /// Like [`Drive::scan`], if no device is needed.
    #[must_use]
    pub fn scan_now(&self, from: &[u8], to: &[u8], limit: usize, epoch: u32) -> Option<Result<Vec<Entry>>> {
        if let Err(e) = self.shared.readable() {
            return Some(Err(e));
        }
        match self.shared.scan((from, to), None, limit, Mode::Now) {
            Ok(v) => Some(in_epoch(&self.shared.core.lock(), from, to, epoch).map(|()| v)),
            Err(Halt::WouldBlock) => None,
            Err(Halt::Failed(e)) => Some(Err(e)),
        }
    }

    /// The summary of a register, if its record is that of `ballot` and no device is needed. `None`: ask by
    /// [`Drive::scan`].
    #[must_use]
    pub fn summary_now(&self, key: &RegisterKey, ballot: Ballot, epoch: u32) -> Option<Bytes> {
        self.shared.readable().ok()?;
        let (entry, _) = self.shared.look_up_again(key, promise_key(key), Mode::Now).ok()?;
        self.shared.core.lock().groups.in_epoch(key.group(), epoch).ok()?;
        entry.filter(|r| r.ballot == ballot).map(|r| r.summary.into_vec().into())
    }

    /// Number and order-independent digest of (key, ballot, record digest) over `from <= key < to`.
    ///
    /// # Errors
    /// Like [`Drive::scan`].
    pub async fn range_digest(&self, from: &[u8], to: &[u8], epoch: u32) -> Result<(u64, u64)> {
        self.shared.readable()?;
        let (from, to) = (from.to_vec(), to.to_vec());
        let f = move |s: &Arc<Shared>| {
            let digest = s.range_digest((&from, &to), None, Mode::Wait).map_err(must)?;
            in_epoch(&s.core.lock(), &from, &to, epoch).map(|()| digest)
        };
        self.shared.on_io(f).await
    }

    /// Registers of several groups in the order of their keys without the group, at most `limit`: a page of a
    /// list. At its end, every range is covered up to the last returned key, or completely. What `fold` leaves out of
    /// each range is not returned.
    ///
    /// # Errors
    /// Like [`Drive::scan`], for any of the groups.
    pub async fn scan_many(
        &self,
        ranges: Vec<Range>,
        fold: Option<Fold>,
        limit: usize,
    ) -> Result<Vec<Entry>> {
        self.shared.readable()?;
        // A long folded page has a look-up in the index for each entry, which would keep the caller's thread.
        if fold.is_none() || limit <= SHORT {
            match self.shared.scan_many(&ranges, fold.as_ref(), limit, Mode::Now) {
                Ok(found) => return all_in_epoch(&self.shared, &ranges).map(|()| found),
                Err(Halt::Failed(e)) => return Err(e),
                Err(Halt::WouldBlock) => {}
            }
        }
        let f = move |s: &Arc<Shared>| {
            let found = s.scan_many(&ranges, fold.as_ref(), limit, Mode::Wait).map_err(must)?;
            all_in_epoch(s, &ranges).map(|()| found)
        };
        self.shared.on_io(f).await
    }

    /// [`Drive::range_digest`] of several ranges, in their order, without what `fold` leaves out of each. `few`: the
    /// ranges are expected to be small, so that no other thread is used unless a device is needed.
    ///
    /// # Errors
    /// Like [`Drive::scan_many`].
    pub async fn digests(
        &self,
        ranges: Vec<Range>,
        fold: Option<Fold>,
        few: bool,
    ) -> Result<Vec<(u64, u64)>> {
        self.shared.readable()?;
        let all = move |s: &Arc<Shared>, ranges: &[Range], mode| {
            let digest = |r: &Range| s.range_digest((&r.from, &r.to), fold.as_ref(), mode);
            ranges.iter().map(digest).collect::<Lookup<Vec<_>>>()
        };
        if few {
            match all(&self.shared, &ranges, Mode::Now) {
                Ok(found) => return all_in_epoch(&self.shared, &ranges).map(|()| found),
                Err(Halt::Failed(e)) => return Err(e),
                Err(Halt::WouldBlock) => {}
            }
        }
        let f = move |s: &Arc<Shared>| {
            let found = all(s, &ranges, Mode::Wait).map_err(must)?;
            all_in_epoch(s, &ranges).map(|()| found)
        };
        self.shared.on_io(f).await
    }

    /// Reads a register's record from the device and checks it (scrub).
    ///
    /// # Errors
    /// `Corrupt`, `Io`.
    pub async fn verify_register(&self, key: &RegisterKey) -> Result<()> {
        let key = key.clone();
        self.shared
            .on_io(move |s| {
                s.readable()?;
                s.read_register(&key, true, Mode::Wait).map_err(must).map(|_| ())
            })
            .await
    }
}

/// Refuses readers of an older layout ([`ashlar_commit::Acceptor::may_read`]) of the groups whose registers
/// are in `from <= key < to`, and of groups that are not held. Checked after the lookup: what was seen before
/// the fence is an answer from before it.
fn in_epoch(core: &Core, from: &[u8], to: &[u8], epoch: u32) -> Result<()> {
    let (first, last) = (group_at(from, 0), group_at(to, 0));
    if first == last {
        return core.groups.in_epoch(first, epoch).map(drop);
    }
    for (id, _) in core.groups.range(first, last) {
        // A range that ends at the beginning of a group contains nothing of it.
        if to > &id.to_bytes()[..] {
            core.groups.in_epoch(id, epoch)?;
        }
    }
    match first.next() {
        Some(next) if to <= &next.to_bytes()[..] => core.groups.in_epoch(first, epoch).map(drop),
        _ => Ok(()),
    }
}

/// Like [`in_epoch`], for several ranges.
fn all_in_epoch(s: &Shared, ranges: &[Range]) -> Result<()> {
    let core = s.core.lock();
    ranges.iter().try_for_each(|r| in_epoch(&core, &r.from, &r.to, r.epoch))
}

/// The group to which a bound of a range belongs.
fn group_at(bound: &[u8], pad: u8) -> GroupId {
    let mut bytes = [pad; GroupId::LEN];
    let n = bound.len().min(GroupId::LEN);
    bytes[..n].copy_from_slice(&bound[..n]);
    GroupId::from_bytes(bytes)
}

impl Shared {
    /// The purge horizon. Read it before a register is looked up: a record that arrives after the lookup is
    /// above it.
    fn horizon(&self, group: GroupId) -> Ballot {
        self.core.lock().groups.get(group).map_or(Ballot::ZERO, |g| g.acceptor.horizon())
    }
}

fn reply(
    s: &Shared,
    key: &RegisterKey,
    found: Option<(Register, Option<Bytes>)>,
    horizon: Ballot,
    epoch: u32,
) -> Result<ReadReply> {
    let voter = {
        let core = s.core.lock();
        core.groups.in_epoch(key.group(), epoch)?.role() == Role::Voter
    };
    Ok(ReadReply {
        voter,
        horizon,
        accepted: found.map(|(r, record)| Seen {
            ballot: r.ballot,
            hint: r.hinted(),
            with_shard: r.one_sync(),
            digest: r.digest,
            record,
        }),
    })
}
