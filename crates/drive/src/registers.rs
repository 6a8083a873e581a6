//! Operations on registers other than votes: reads, hints, purges, scans, digests.
//!
//! Invariants: the `_now` functions never wait for a device; a register that cannot be read is an error,
//! never "absent".
//!
//! Must not depend on: other drives.

use crate::core::{Core, MAX_UNRESOLVED, Shared};
use crate::drive::Drive;
use crate::entry::Register;
use crate::index::must;
use crate::op::Op;
use crate::run::{Halt, Lookup, Mode};
use crate::settle::promise_key;
use crate::types::{Entry, Fold, Range, ReadReply, Role, Seen};
use crate::{Error, Result};
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
                let before = s.standing(key.group());
                let found = s.read_register(&key, want_record, Mode::Wait).map_err(must)?;
                reply(s, &key, found, before, epoch)
            })
            .await
    }

    /// READ without waiting: `None` if a device would be needed; then call [`Drive::read`].
    #[must_use]
    pub fn read_now(&self, key: &RegisterKey, want_record: bool, epoch: u32) -> Option<Result<ReadReply>> {
        if let Err(e) = self.shared.readable() {
            return Some(Err(e));
        }
        let before = self.shared.standing(key.group());
        match self.shared.read_register(key, want_record, Mode::Now) {
            Ok(found) => Some(reply(&self.shared, key, found, before, epoch)),
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

    /// Registers with `from <= key < to` in order, at most `limit`, for a caller that follows the layout of `epoch`
    /// (`u32::MAX`: the caller inspects this drive, which may lack registers).
    ///
    /// # Errors
    /// `Corrupt` or `Io` if the index cannot be read, `Fenced`. `NewerLayout` as for [`Drive::read`]. `NotHeld` if the drive does
    /// not vote in a group of the range: what a caller knows of its votes may be out of date.
    pub async fn scan(&self, from: &[u8], to: &[u8], limit: usize, epoch: u32) -> Result<Vec<Entry>> {
        if let Some(r) = self.scan_now(from, to, limit, epoch) {
            return r;
        }
        let (from, to) = (from.to_vec(), to.to_vec());
        let f = move |s: &Arc<Shared>| {
            let ranges = [(&from[..], &to[..], epoch)];
            s.listed(ranges, || s.scan((&from, &to), None, limit, Mode::Wait)).map_err(must)
        };
        self.shared.on_io(f).await
    }

    /// Like [`Drive::scan`], if no device is needed.
    #[must_use]
    pub fn scan_now(&self, from: &[u8], to: &[u8], limit: usize, epoch: u32) -> Option<Result<Vec<Entry>>> {
        if let Err(e) = self.shared.readable() {
            return Some(Err(e));
        }
        let s = &self.shared;
        match s.listed([(from, to, epoch)], || s.scan((from, to), None, limit, Mode::Now)) {
            Ok(v) => Some(Ok(v)),
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
            let ranges = [(&from[..], &to[..], epoch)];
            s.listed(ranges, || s.range_digest((&from, &to), None, Mode::Wait)).map_err(must)
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
        let short = fold.is_none() || limit <= SHORT;
        let all = move |s: &Arc<Shared>, ranges: &[Range], mode| {
            s.listed(ranges.iter().map(parts), || s.scan_many(ranges, fold.as_ref(), limit, mode))
        };
        // A long folded page has a look-up in the index for each entry, which would keep the caller's thread.
        if short {
            match all(&self.shared, &ranges, Mode::Now) {
                Err(Halt::WouldBlock) => {}
                found => return found.map_err(must),
            }
        }
        self.shared.on_io(move |s| all(s, &ranges, Mode::Wait).map_err(must)).await
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
            s.listed(ranges.iter().map(parts), || ranges.iter().map(digest).collect::<Lookup<Vec<_>>>())
        };
        if few {
            match all(&self.shared, &ranges, Mode::Now) {
                Err(Halt::WouldBlock) => {}
                found => return found.map_err(must),
            }
        }
        self.shared.on_io(move |s| all(s, &ranges, Mode::Wait).map_err(must)).await
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

/// A range of registers: `from <= key < to`, and the layout epoch of the reader.
type Part<'a> = (&'a [u8], &'a [u8], u32);

fn parts(r: &Range) -> Part<'_> {
    (&r.from, &r.to, r.epoch)
}

/// Refuses readers of an older layout ([`ashlar_commit::Acceptor::may_read`]) of the groups whose registers
/// are in the range, and of groups in which the drive does not vote. `u32::MAX` as the epoch: a reader that knows that
/// the drive may lack registers, and asks any drive that holds the group.
fn may_list(core: &Core, (from, to, epoch): Part<'_>) -> Result<()> {
    let one = |id: GroupId| {
        let vote = core.groups.in_epoch(id, epoch)?;
        match epoch == u32::MAX || vote.role() == Role::Voter {
            true => Ok(()),
            false => Err(Error::NotHeld(id)),
        }
    };
    let (first, last) = (group_at(from, 0), group_at(to, 0));
    if first == last {
        return one(first);
    }
    for (id, _) in core.groups.range(first, last) {
        // A range that ends at the beginning of a group contains nothing of it.
        if to > &id.to_bytes()[..] {
            one(id)?;
        }
    }
    match first.next() {
        Some(next) if to <= &next.to_bytes()[..] => one(first),
        _ => Ok(()),
    }
}

/// The group to which a bound of a range belongs.
fn group_at(bound: &[u8], pad: u8) -> GroupId {
    let mut bytes = [pad; GroupId::LEN];
    let n = bound.len().min(GroupId::LEN);
    bytes[..n].copy_from_slice(&bound[..n]);
    GroupId::from_bytes(bytes)
}

impl Shared {
    /// What `scan` finds in `ranges`, if the drive may answer for them ([`may_list`]). That is checked before and after it: what was
    /// seen before a fence is an answer from before it, and what was seen before the drive voted is none.
    fn listed<'a, T>(
        &self,
        ranges: impl IntoIterator<Item = Part<'a>> + Clone,
        scan: impl FnOnce() -> Lookup<T>,
    ) -> Lookup<T> {
        let check = || {
            let core = self.core.lock();
            let mut ranges = ranges.clone().into_iter();
            let may = ranges.try_for_each(|part| may_list(&core, part));
            may.map(|()| core.groups.votes_begun()).map_err(Halt::Failed)
        };
        let begun = check()?;
        let found = scan()?;
        match check()? == begun {
            true => Ok(found),
            false => Err(Halt::Failed(Error::Offline("it began to vote meanwhile"))),
        }
    }

    /// What an answer about a group depends on besides the register. To be read before the register is looked up.
    fn standing(&self, group: GroupId) -> Standing {
        let core = self.core.lock();
        let vote = core.groups.get(group);
        Standing {
            horizon: vote.map_or(Ballot::ZERO, |g| g.acceptor.horizon()),
            voter: vote.is_some_and(|g| g.role() == Role::Voter),
            votes_begun: core.groups.votes_begun(),
        }
    }
}

/// The state of a drive in a group before a register is looked up.
struct Standing {
    /// The purge horizon: a record that arrives after the lookup is above it.
    horizon: Ballot,
    /// Whether it votes: one that begins to vote after the lookup may have lacked the register.
    voter: bool,
    votes_begun: u64,
}

fn reply(
    s: &Shared,
    key: &RegisterKey,
    found: Option<(Register, Option<Bytes>)>,
    before: Standing,
    epoch: u32,
) -> Result<ReadReply> {
    let voter = {
        let core = s.core.lock();
        let votes = core.groups.in_epoch(key.group(), epoch)?.role() == Role::Voter;
        votes && before.voter && before.votes_begun == core.groups.votes_begun()
    };
    Ok(ReadReply {
        voter,
        horizon: before.horizon,
        accepted: found.map(|(r, record)| Seen {
            ballot: r.ballot,
            hint: r.hinted(),
            with_shard: r.one_sync(),
            digest: r.digest,
            record,
        }),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulated::simulated_drive;
    use ashlar_format::{BucketId, Space};
    use ashlar_machine::SimDisk;

    const GROUP: GroupId = GroupId::new(0, 0);

    /// A drive that holds [`GROUP`] and does not vote in it.
    fn joining() -> (SimDisk, Drive) {
        simulated_drive(Role::Joining, 1 << 20, 64 << 10)
    }

    fn begin_to_vote(d: &Drive) {
        let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
        let mut joined = std::pin::pin!(d.joined(GROUP, 0));
        for _ in 0..100 {
            if joined.as_mut().poll(&mut cx).is_ready() {
                assert_eq!(d.role(GROUP), Some(Role::Voter));
                return;
            }
            d.pump();
        }
        panic!("it did not begin to vote");
    }

    fn key() -> RegisterKey {
        RegisterKey::new(GROUP, Space::Object, BucketId([1; 16]), b"k")
    }

    /// What was seen before the drive voted may lack what it accepted elsewhere in the meantime: it counts for no quorum.
    #[test]
    fn read_that_begins_before_the_drive_votes_is_no_vote() {
        let (_disk, d) = joining();
        let before = d.shared.standing(GROUP);
        let found = d.shared.read_register(&key(), true, Mode::Wait).map_err(must).unwrap();
        begin_to_vote(&d);
        assert!(!reply(&d.shared, &key(), found, before, 0).unwrap().voter);
        assert!(d.read_now(&key(), true, 0).unwrap().unwrap().voter, "one that begins now");
    }

    /// The role is a voter's at the beginning and at the end, but not throughout: the drive lost its vote and got it back.
    #[test]
    fn read_during_which_the_drive_votes_again_is_no_vote() {
        let (_disk, d) = joining();
        begin_to_vote(&d);
        let before = d.shared.standing(GROUP);
        d.shared.core.lock().groups.distrust();
        begin_to_vote(&d);
        assert!(!reply(&d.shared, &key(), None, before, 0).unwrap().voter);
    }

    #[test]
    fn list_during_which_the_drive_begins_to_vote_is_none() {
        let (_disk, d) = joining();
        let (from, to) = (GROUP.to_bytes(), GROUP.next().unwrap().to_bytes());
        let range: Part<'_> = (&from, &to, 0);
        let scan = || d.shared.scan((&from, &to), None, 10, Mode::Wait);
        assert!(matches!(d.shared.listed([range], scan), Err(Halt::Failed(Error::NotHeld(_)))));
        let inspected = (range.0, range.1, u32::MAX);
        let overtaken = d.shared.listed([inspected], || {
            let found = scan();
            begin_to_vote(&d);
            found
        });
        assert!(matches!(overtaken, Err(Halt::Failed(Error::Offline(_)))));
        assert!(matches!(d.shared.listed([range], scan), Ok(found) if found.is_empty()));
    }
}
