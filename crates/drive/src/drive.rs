//! A drive in service: what the layers above call.
//!
//! Invariants: PREPARE, ACCEPT and READ follow `ashlar_commit::Acceptor`; the `_now` functions never
//! wait; every completion is answered exactly once. Must never know: other drives.

use crate::core::{MAX_UNRESOLVED, Shared};
use crate::entry::Register;
use crate::extent::ShardWriter;
use crate::index::must;
use crate::journal::{FRESH, Op, StateChange, promise_key};
use crate::reader::ShardReader;
use crate::run::{Halt, Look, Mode};
use crate::types::{
    Accept, Accepted, Entry, InlineShard, Options, Prepared, ReadReply, Role, Seen, ShardInfo, State, Stats,
};
use crate::{Completion, Error, Label, Result, Tally};
use ashlar_commit::{AcceptAnswer, ConfirmAnswer, PrepareAnswer};
use ashlar_format::{Ballot, RegisterKey, WriteId, journal};
use ashlar_machine::Folder;
use bytes::Bytes;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Longest summary of a register, in bytes.
pub const MAX_SUMMARY: usize = 256;
/// Stack of the drive's two own threads.
const STACK: usize = 256 << 10;

/// A drive in service. Cloning gives another handle; when the last is dropped the threads end.
#[derive(Clone)]
pub struct Drive {
    shared: Arc<Shared>,
    path: Arc<PathBuf>,
    _last: Arc<Last>,
}

/// Ends the threads with the last handle.
struct Last(Arc<Shared>);

impl Drop for Last {
    fn drop(&mut self) {
        self.0.core.lock().closing = true;
        self.0.journal_work.notify_all();
        self.0.keeper_work.notify_all();
        self.0.io.close();
        if !self.0.threads {
            self.0.lock.lock().take();
        }
    }
}

/// What to do after a look at the state under the lock.
enum Next {
    Again,
    Answer(Prepared),
    Flush(tokio::sync::oneshot::Receiver<()>),
    Raise(Ballot),
}

impl Drive {
    /// Opens a formatted folder: recovery, then ready. Blocking: call it off the async runtime.
    ///
    /// # Errors
    /// `Unsuitable` when there is no drive or it is in use, `Corrupt` for the label, `Io`.
    pub fn open(path: &Path, options: &Options) -> Result<Drive> {
        Drive::open_folder(&Folder::real(path, options.faults.clone()), options, true)
    }

    /// As [`Drive::open`] over any folder. Without threads nothing happens by itself: a test calls
    /// [`Drive::pump`] and [`Drive::tidy`].
    #[doc(hidden)]
    pub fn open_folder(folder: &Folder, options: &Options, threads: bool) -> Result<Drive> {
        let shared = crate::probe::open_shared(folder, options, threads)?;
        if threads {
            let done = shared.journal_ended.completion(0);
            start(&shared, "journal", Shared::run_journal, move |_| done.ok())?;
            start(&shared, "keeper", Shared::run_keeper, |s| {
                s.ended.send_replace(true);
            })?;
        }
        let path = Arc::new(folder.path());
        Ok(Drive { _last: Arc::new(Last(shared.clone())), shared, path })
    }

    /// The label.
    #[must_use]
    pub fn label(&self) -> &Label {
        &self.shared.label
    }

    /// The folder.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether it works.
    #[must_use]
    pub fn state(&self) -> State {
        self.shared.state()
    }

    /// Whether it may vote.
    #[must_use]
    pub fn role(&self) -> Role {
        Shared::role(&self.shared.core.lock())
    }

    /// The layout epoch it was last fenced to.
    #[must_use]
    pub fn epoch(&self) -> u32 {
        self.shared.core.lock().acceptor.epoch()
    }

    /// The ballot floor: above every ballot ever promised; after a restart proposers need more.
    #[must_use]
    pub fn floor(&self) -> Ballot {
        self.shared.core.lock().acceptor.floor()
    }

    /// Counters.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.shared.stats()
    }

    /// Damage found when the drive was opened, in words for people (at most 64 lines).
    #[must_use]
    pub fn damage(&self) -> Vec<String> {
        self.shared.counters.damage.lock().clone()
    }

    /// Whether `bytes` of new data have room above the reserve. No I/O.
    ///
    /// # Errors
    /// `Full`, `ReadOnly`, `Fenced`.
    pub fn check_room(&self, bytes: u64) -> Result<()> {
        self.shared.check_room(bytes)
    }

    /// Takes the drive out of service: for a health monitor that has seen enough.
    pub fn fence(&self, why: &str) {
        self.shared.fence(why);
    }

    /// Flushes, writes the index out, stops the threads.
    pub async fn close(&self) {
        {
            let mut core = self.shared.core.lock();
            core.checkpoint_on_close = true;
            core.closing = true;
        }
        self.shared.journal_work.notify_all();
        self.shared.keeper_work.notify_all();
        if self.shared.threads {
            let _ = self.shared.ended.subscribe().wait_for(|ended| *ended).await;
        } else {
            self.shared.set_closed();
            self.shared.lock.lock().take();
        }
        self.shared.io.close();
    }

    // --- registers

    /// PREPARE. Waits for an accept of the same key in flight, and for the floor to be raised.
    ///
    /// # Errors
    /// When the register cannot be read the drive cannot promise: `Corrupt`, `Io`, `Fenced`.
    pub async fn prepare(&self, key: &RegisterKey, ballot: Ballot) -> Result<Prepared> {
        self.shared.writable()?;
        let hash = promise_key(key);
        loop {
            let (entry, generation, record) = self.entry_and_record(key).await?;
            match self.try_prepare(key, hash, ballot, entry, record, generation) {
                Next::Again => {}
                Next::Answer(a) => return Ok(a),
                Next::Raise(to) => self.change(StateChange::Floor(to)).await?,
                Next::Flush(flushed) => {
                    self.pump_if_manual();
                    flushed.await.map_err(|_| self.gone())?;
                    let (entry, _, record) = self.entry_and_record(key).await?;
                    return Ok(match entry {
                        Some(e) if e.ballot > ballot => Prepared::Refused { highest: e.ballot },
                        e => Prepared::Promised { accepted: accepted(e, record) },
                    });
                }
            }
        }
    }

    fn try_prepare(
        &self,
        key: &RegisterKey,
        hash: u128,
        ballot: Ballot,
        entry: Option<Register>,
        record: Option<Bytes>,
        generation: u64,
    ) -> Next {
        let mut core = self.shared.core.lock();
        let core = &mut *core;
        let have = entry.as_ref().map_or(Ballot::ZERO, |e| e.ballot);
        if !core.still(key, have, generation) {
            return Next::Again;
        }
        let pending = core.pending.get(&hash).map_or(Ballot::ZERO, |p| p.ballot);
        let answer = match core.acceptor.prepare(hash, have.max(pending), ballot) {
            PrepareAnswer::NotVoter => Next::Answer(Prepared::NotVoter),
            PrepareAnswer::Refused { highest } => Next::Answer(Prepared::Refused { highest }),
            PrepareAnswer::RaiseFloorFirst { to } => Next::Raise(to),
            PrepareAnswer::Promised => match core.pending.get_mut(&hash) {
                Some(p) => {
                    let (tx, rx) = tokio::sync::oneshot::channel();
                    p.waiters.push(tx);
                    Next::Flush(rx)
                }
                None => Next::Answer(Prepared::Promised { accepted: accepted(entry, record) }),
            },
        };
        core.raise_floor_ahead(&self.shared.journal_work);
        answer
    }

    async fn entry_and_record(&self, key: &RegisterKey) -> Result<(Option<Register>, u64, Option<Bytes>)> {
        match entry_and_record(&self.shared, key, Mode::Now) {
            Err(Halt::WouldBlock) => {
                let key = key.clone();
                let f = move |s: &Arc<Shared>| entry_and_record(s, &key, Mode::Wait).map_err(must);
                self.shared.on_io(f).await
            }
            r => r.map_err(must),
        }
    }

    fn gone(&self) -> Error {
        self.shared.writable().err().unwrap_or(Error::Offline("the accept before it failed"))
    }

    /// ACCEPT: answers when durable. On a joining drive the answer is `uncounted`.
    pub fn accept(&self, accept: Accept, done: Completion) {
        if let Err(e) = self.check_accept(&accept) {
            return done.err(e);
        }
        let hash = promise_key(&accept.key);
        self.accept_in(Mode::Now, accept, hash, None, done);
    }

    /// Copies an accepted record into a joining drive (resync): whatever the promises say, the
    /// higher of what it has and the copy stays. Answers `ok` when durable.
    pub fn copy(&self, accept: Accept, hint: bool, done: Completion) {
        if let Err(e) = self.check_accept(&accept) {
            return done.err(e);
        }
        let hash = promise_key(&accept.key);
        self.accept_in(Mode::Now, accept, hash, Some(hint), done);
    }

    fn check_accept(&self, a: &Accept) -> Result<()> {
        self.shared.writable()?;
        let data = a.inline.as_ref().map_or(0, |i| i.data.len());
        let most = self.max_record();
        if a.summary.len() > MAX_SUMMARY || a.record.len() > most || data > most {
            return Err(Error::Malformed("record, summary or shard too long"));
        }
        if a.inline.is_some() { self.shared.check_room(data as u64) } else { Ok(()) }
    }

    /// The longest record or inline shard, in bytes.
    #[must_use]
    pub fn max_record(&self) -> usize {
        let segment = self.shared.options.journal_segment_bytes as usize;
        (journal::MAX_PAYLOAD - (64 << 10)).min(segment / 2)
    }

    fn accept_in(&self, mode: Mode, accept: Accept, hash: u128, copy: Option<bool>, done: Completion) {
        let mut accept = accept;
        let mut done = done;
        loop {
            match self.shared.look_up(&accept.key, mode) {
                Err(Halt::Failed(e)) => return done.err(e),
                Err(Halt::WouldBlock) => {
                    let me = self.clone();
                    let job = move || me.accept_in(Mode::Wait, accept, hash, copy, done);
                    // A full queue drops the job, and with it the completion: that is a failure.
                    let _ = self.shared.spawn(job);
                    return;
                }
                Ok((entry, generation)) => {
                    match self.try_accept(accept, hash, copy, entry, generation, done) {
                        None => {
                            if self.shared.here {
                                self.shared.commit_here();
                            }
                            return;
                        }
                        Some((a, d)) => (accept, done) = (a, d),
                    }
                }
            }
        }
    }

    /// Gives its arguments back when the lookup has to be repeated.
    fn try_accept(
        &self,
        accept: Accept,
        hash: u128,
        copy: Option<bool>,
        entry: Option<Register>,
        generation: u64,
        done: Completion,
    ) -> Option<(Accept, Completion)> {
        let mut core = self.shared.core.lock();
        let core = &mut *core;
        let have = entry.as_ref().map_or(Ballot::ZERO, |e| e.ballot);
        if !core.still(&accept.key, have, generation) {
            return Some((accept, done));
        }
        let weight = 512 + accept.record.len() + accept.inline.as_ref().map_or(0, |i| i.data.len());
        if let Err(e) = core.may_enqueue(weight + accept.key.as_bytes().len() * 2) {
            done.err(e);
            return None;
        }
        let pending = core.pending.get(&hash).map(|p| p.ballot);
        let known = have.max(pending.unwrap_or(Ballot::ZERO));
        let answer = match copy {
            None => core.acceptor.accept(hash, known, accept.ballot),
            Some(_) if core.acceptor.role() == ashlar_commit::Role::Voter => {
                done.err(Error::Malformed("a copy into a drive that is not joining"));
                return None;
            }
            Some(_) if accept.ballot < known => {
                done.ok();
                return None;
            }
            Some(_) if accept.ballot == known => AcceptAnswer::Already { counted: true },
            Some(_) => AcceptAnswer::GoUncounted,
        };
        match answer {
            AcceptAnswer::Refused { highest } => done.refused(highest),
            AcceptAnswer::Already { .. } if pending == Some(accept.ballot) => {
                if let Some(p) = core.pending.get_mut(&hash) {
                    p.repeats.push(done);
                }
            }
            AcceptAnswer::Already { counted } => {
                let me = self.clone();
                let job = move || me.accept_again(accept, hash, counted, done);
                let _ = self.shared.spawn_unlocked(job);
            }
            AcceptAnswer::Go | AcceptAnswer::GoUncounted => {
                let oldest = match (&entry, pending) {
                    (Some(e), _) => e.oldest,
                    (None, None) => FRESH,
                    (None, Some(_)) => 0,
                };
                self.enqueue_accept(core, accept, hash, copy, oldest, answer, done);
            }
        }
        None
    }

    #[allow(clippy::too_many_arguments)] // the parts of one journal operation
    fn enqueue_accept(
        &self,
        core: &mut crate::core::Core,
        accept: Accept,
        hash: u128,
        copy: Option<bool>,
        oldest: u32,
        answer: AcceptAnswer,
        done: Completion,
    ) {
        let p = core.pending.entry(hash).or_default();
        p.ballot = p.ballot.max(accept.ballot);
        p.count += 1;
        let counted = answer == AcceptAnswer::Go;
        let (hint, copy) = (copy == Some(true), copy.is_some());
        let op = Op::Accept { hash, accept, hint, oldest, counted, copy, done };
        let here = self.shared.here;
        if let Err((op, e)) = core.enqueue_for(op, &self.shared.journal_work, here) {
            // Room was checked before the acceptor was asked.
            op.fail(&e);
        }
        core.raise_floor_ahead(&self.shared.journal_work);
    }

    /// An accept of a ballot the register has already: answered again if the record is readable,
    /// else written again (this is how a damaged record is healed).
    fn accept_again(&self, accept: Accept, hash: u128, counted: bool, done: Completion) {
        match self.shared.read_register(&accept.key, true, Mode::Wait) {
            Ok(Some((r, _))) if r.ballot >= accept.ballot => {
                if counted {
                    done.ok()
                } else {
                    done.uncounted()
                }
            }
            Err(Halt::Failed(Error::Corrupt(_))) => {
                let mut core = self.shared.core.lock();
                let answer = if counted { AcceptAnswer::Go } else { AcceptAnswer::GoUncounted };
                self.enqueue_accept(&mut core, accept, hash, None, 0, answer, done);
                drop(core);
                if self.shared.here {
                    self.shared.commit_here();
                }
            }
            Err(h) => done.err(must(h)),
            Ok(_) => done.err(Error::Offline("the register changed meanwhile")),
        }
    }

    /// READ.
    ///
    /// # Errors
    /// `Corrupt` or `Io`: this drive does not know, which is not "no record".
    pub async fn read(&self, key: &RegisterKey, want_record: bool) -> Result<ReadReply> {
        if let Some(r) = self.read_now(key, want_record) {
            return r;
        }
        let key = key.clone();
        self.shared
            .on_io(move |s| {
                s.readable()?;
                let found = s.read_register(&key, want_record, Mode::Wait).map_err(must)?;
                Ok(reply(s, found))
            })
            .await
    }

    /// READ without waiting: `None` when a device would have to be asked; then call
    /// [`Drive::read`].
    #[must_use]
    pub fn read_now(&self, key: &RegisterKey, want_record: bool) -> Option<Result<ReadReply>> {
        if let Err(e) = self.shared.readable() {
            return Some(Err(e));
        }
        match self.shared.read_register(key, want_record, Mode::Now) {
            Ok(found) => Some(Ok(reply(&self.shared, found))),
            Err(Halt::WouldBlock) => None,
            Err(Halt::Failed(e)) => Some(Err(e)),
        }
    }

    /// HINT: `ballot` is chosen. Kept in memory, journalled lazily.
    pub fn hint(&self, key: &RegisterKey, ballot: Ballot) {
        let mut core = self.shared.core.lock();
        let fresh = matches!(core.overlay.register(key),
            Some(Some(r)) if r.ballot == ballot && !r.hinted());
        if fresh {
            core.apply_hint(key, ballot);
            core.enqueue_lazy(Op::Hint { key: key.clone(), ballot }, &self.shared.journal_work);
        }
    }

    /// A tombstone accepted by all voters at `ballot` is dropped; the purge horizon rises to it.
    /// Nothing happens when the register has moved on. Lazily journalled.
    pub fn purge(&self, key: &RegisterKey, ballot: Ballot) {
        let hash = promise_key(key);
        let mut core = self.shared.core.lock();
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
            // Too many wait: the collector above comes again.
            None => {}
        }
    }

    /// Registers with `from <= key < to` in order, at most `limit`.
    ///
    /// # Errors
    /// `Corrupt` or `Io` when the index cannot be read, `Fenced`.
    pub async fn scan(&self, from: &[u8], to: &[u8], limit: usize) -> Result<Vec<Entry>> {
        if let Some(r) = self.scan_now(from, to, limit) {
            return r;
        }
        let (from, to) = (from.to_vec(), to.to_vec());
        let f = move |s: &Arc<Shared>| s.scan(&from, &to, limit, Mode::Wait).map_err(must);
        self.shared.on_io(f).await
    }

    /// As [`Drive::scan`] when no device has to be asked.
    #[must_use]
    pub fn scan_now(&self, from: &[u8], to: &[u8], limit: usize) -> Option<Result<Vec<Entry>>> {
        if let Err(e) = self.shared.readable() {
            return Some(Err(e));
        }
        match self.shared.scan(from, to, limit, Mode::Now) {
            Ok(v) => Some(Ok(v)),
            Err(Halt::WouldBlock) => None,
            Err(Halt::Failed(e)) => Some(Err(e)),
        }
    }

    /// Number and order-independent digest of (key, ballot, record digest) over `from <= key < to`.
    ///
    /// # Errors
    /// As [`Drive::scan`].
    pub async fn range_digest(&self, from: &[u8], to: &[u8]) -> Result<(u64, u64)> {
        self.shared.readable()?;
        let (from, to) = (from.to_vec(), to.to_vec());
        self.shared.on_io(move |s| s.range_digest(&from, &to).map_err(must)).await
    }

    // --- data

    /// STAGE of a small shard: answers when durable.
    pub fn stage(&self, shard: InlineShard, done: Completion) {
        if shard.data.is_empty() || shard.data.len() > self.max_record() {
            return done.err(Error::Malformed("inline shard length"));
        }
        if let Err(e) = self.shared.check_room(shard.data.len() as u64) {
            return done.err(e);
        }
        let failed = {
            let mut core = self.shared.core.lock();
            let op = Op::Stage { shard, done };
            core.enqueue_for(op, &self.shared.journal_work, self.shared.here).err()
        };
        match failed {
            Some((op, e)) => op.fail(&e),
            None if self.shared.here => self.shared.commit_here(),
            None => {}
        }
    }

    /// STAGE of a large shard of `len` bytes in frames of `frame` bytes (1..=8 MiB): space is
    /// reserved now, so `Full` is told before any byte is written. Seldom blocks, for as long as
    /// making an extent segment takes.
    ///
    /// # Errors
    /// `Full`, `ReadOnly`, `Fenced`, `Malformed`.
    pub fn begin_shard(
        &self,
        owner: &RegisterKey,
        write_id: WriteId,
        index: u8,
        ballot: Ballot,
        len: u64,
        frame: u32,
    ) -> Result<ShardWriter> {
        self.shared.begin_shard(owner, (write_id, index), ballot, len, frame)
    }

    /// Opens a shard for reading; it stays readable until the reader is dropped, even if discarded.
    ///
    /// # Errors
    /// `Missing`, `Corrupt`, `Io`, `Fenced`.
    pub async fn open_shard(&self, write_id: WriteId, index: u8) -> Result<ShardReader> {
        if let Some(r) = self.open_shard_now(write_id, index) {
            return r;
        }
        let f = move |s: &Arc<Shared>| s.open_shard((write_id, index), Mode::Wait).map_err(must);
        self.shared.on_io(f).await
    }

    /// As [`Drive::open_shard`] when no device has to be asked. An inline shard is read whole.
    #[must_use]
    pub fn open_shard_now(&self, write_id: WriteId, index: u8) -> Option<Result<ShardReader>> {
        if let Err(e) = self.shared.readable() {
            return Some(Err(e));
        }
        match self.shared.open_shard((write_id, index), Mode::Now) {
            Ok(r) => Some(Ok(r)),
            Err(Halt::WouldBlock) => None,
            Err(Halt::Failed(e)) => Some(Err(e)),
        }
    }

    /// Drops shards; lazily journalled. Space comes back when no reader holds them.
    pub fn discard(&self, ids: &[(WriteId, u8)]) {
        let mut core = self.shared.core.lock();
        for name in ids {
            let found = core.overlay.shard(name).map(|f| f.map(|s| s.loc.segment));
            match found {
                Some(Some(target)) => {
                    let op = Op::Discard { name: *name, target };
                    core.enqueue_lazy(op, &self.shared.journal_work);
                }
                Some(None) => {}
                None if core.runs.runs.is_empty() => {}
                None if core.unresolved_discards.len() < MAX_UNRESOLVED => {
                    core.unresolved_discards.insert(*name);
                }
                // Too many wait: the orphan collector finds it again.
                None => {}
            }
        }
        if core.unresolved_discards.len() > 256 {
            self.shared.kick_keeper(&mut core);
        }
    }

    /// The next at most `limit` shards after `after`, in order of (write id, index).
    ///
    /// # Errors
    /// As [`Drive::scan`].
    pub async fn shards(&self, after: Option<(WriteId, u8)>, limit: usize) -> Result<Vec<ShardInfo>> {
        self.shared.readable()?;
        self.shared.on_io(move |s| s.census(after, limit).map_err(must)).await
    }

    /// A writer with a raised ballot asks whether its staged shard is safe from collectors below
    /// that ballot (PROTOCOL.md 2.6). Noted in memory; may have to raise the floor.
    ///
    /// # Errors
    /// `Missing` when the shard is not here.
    pub async fn confirm(&self, write_id: WriteId, index: u8, ballot: Ballot) -> Result<()> {
        let name = (write_id, index);
        loop {
            let here = match self.shared.shard_now(name, Mode::Now) {
                Err(Halt::WouldBlock) => {
                    self.shared.on_io(move |s| s.shard_now(name, Mode::Wait).map_err(must)).await?
                }
                r => r.map_err(must)?,
            };
            if here.is_none() {
                return Err(Error::Missing);
            }
            let raise = {
                let mut core = self.shared.core.lock();
                match core.acceptor.confirm(ballot) {
                    ConfirmAnswer::Confirmed => {
                        if core.confirmed.len() >= crate::core::MAX_QUEUE_OPS {
                            return Err(Error::Offline("too many confirmed shards"));
                        }
                        let b = core.confirmed.entry(name).or_default();
                        *b = ballot.max(*b);
                        return Ok(());
                    }
                    ConfirmAnswer::RaiseFloorFirst { to } => to,
                }
            };
            self.change(StateChange::Floor(raise)).await?;
        }
    }

    /// The collector with ballot `collector` found that no record names this shard: drops it unless
    /// a writer with a higher ballot may still need it. True: dropped (or not here).
    ///
    /// # Errors
    /// As [`Drive::scan`].
    pub async fn drop_orphan(&self, write_id: WriteId, index: u8, collector: Ballot) -> Result<bool> {
        let name = (write_id, index);
        let found = self.shared.on_io(move |s| s.shard_now(name, Mode::Wait).map_err(must)).await?;
        let Some(s) = found else { return Ok(true) };
        {
            let core = self.shared.core.lock();
            let stage = core.confirmed.get(&name).copied().unwrap_or_default().max(s.ballot);
            if !core.acceptor.may_drop(stage, collector) {
                return Ok(false);
            }
        }
        self.discard(&[name]);
        Ok(true)
    }

    /// Reads a whole shard from the device and checks everything about it (scrub).
    ///
    /// # Errors
    /// `Missing`, `Corrupt`, `Io`.
    pub async fn verify_shard(&self, write_id: WriteId, index: u8) -> Result<()> {
        self.shared.readable()?;
        self.shared.on_io(move |s| s.verify_shard((write_id, index))).await
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

    // --- membership

    /// Durably refuses every ballot below `(epoch, 0, 0, 0)` from now on.
    ///
    /// # Errors
    /// `Fenced`, `ReadOnly`, `Full`.
    pub async fn fence_epoch(&self, epoch: u32) -> Result<()> {
        self.change(StateChange::Epoch(epoch)).await
    }

    /// Durably takes the vote away.
    ///
    /// # Errors
    /// As [`Drive::fence_epoch`].
    pub async fn set_joining(&self) -> Result<()> {
        self.change(StateChange::Voter(false)).await
    }

    /// Durably gives the vote (back): every range has been resynced.
    ///
    /// # Errors
    /// As [`Drive::fence_epoch`].
    pub async fn joined(&self) -> Result<()> {
        self.change(StateChange::Voter(true)).await
    }

    async fn change(&self, change: StateChange) -> Result<()> {
        self.shared.writable()?;
        let tally = Tally::new(1);
        let op = Op::State { change, done: tally.completion(0) };
        self.submit(op, &tally).await
    }

    /// Waits until everything submitted so far, lazy operations too, is durable.
    ///
    /// # Errors
    /// As [`Drive::fence_epoch`].
    pub async fn flush(&self) -> Result<()> {
        let tally = Tally::new(1);
        self.submit(Op::Barrier { done: tally.completion(0) }, &tally).await
    }

    async fn submit(&self, op: Op, tally: &Tally) -> Result<()> {
        let failed = self.shared.core.lock().enqueue(op, &self.shared.journal_work).err();
        if let Some((op, e)) = failed {
            op.fail(&e);
            return Err(e);
        }
        self.pump_if_manual();
        if tally.wait(1).await.ok == 1 {
            return Ok(());
        }
        Err(tally.error().unwrap_or_else(|| self.gone()))
    }

    // --- upkeep

    /// Does all upkeep there is to do now (index written out, merges, compaction, space given back)
    /// instead of when the keeper finds time. Blocking.
    ///
    /// # Errors
    /// What the upkeep ends with.
    #[doc(hidden)]
    pub fn tidy(&self) -> Result<()> {
        let _one = self.shared.upkeep.lock();
        for _ in 0..3 {
            self.shared.submit_and_wait(Vec::new())?;
            self.shared.drop_empty_extents();
            let mut merge = None;
            self.shared.round(&mut merge, true)?;
        }
        Ok(())
    }

    /// Without threads: commits what waits.
    #[doc(hidden)]
    pub fn pump(&self) {
        while self.shared.commit() {}
    }

    /// Without threads: what the keeper does once per tick.
    #[doc(hidden)]
    pub fn tick(&self) {
        self.shared.tick();
    }

    fn pump_if_manual(&self) {
        if !self.shared.threads {
            self.pump();
        }
    }
}

impl crate::core::Core {
    /// Is what a lookup found still what the index says?
    fn still(&self, key: &RegisterKey, have: Ballot, generation: u64) -> bool {
        match self.overlay.register(key) {
            Some(found) => found.map_or(Ballot::ZERO, |r| r.ballot) == have,
            None => self.generation == generation,
        }
    }
}

fn start(
    shared: &Arc<Shared>,
    what: &str,
    run: impl Fn(&Arc<Shared>) + Send + 'static,
    after: impl FnOnce(&Arc<Shared>) + Send + 'static,
) -> Result<()> {
    let me = shared.clone();
    let name = format!("{what}-{}", &shared.label.drive.to_hex()[..6]);
    std::thread::Builder::new()
        .name(name)
        .stack_size(STACK)
        .spawn(move || {
            let r = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| run(&me)));
            if r.is_err() {
                me.fence("a thread of the drive panicked");
            }
            after(&me);
        })
        .map_err(|e| Error::io("starting a thread", &e))?;
    Ok(())
}

fn entry_and_record(
    s: &Shared,
    key: &RegisterKey,
    mode: Mode,
) -> Look<(Option<Register>, u64, Option<Bytes>)> {
    let (entry, generation) = s.look_up(key, mode)?;
    if entry.is_none() {
        return Ok((None, generation, None));
    }
    // Reads the entry again: compaction may have moved it, which changes nothing else.
    Ok(match s.read_register(key, true, mode)? {
        Some((r, record)) => (Some(r), generation, record),
        None => (None, generation, None),
    })
}

fn accepted(entry: Option<Register>, record: Option<Bytes>) -> Option<Accepted> {
    let (e, record) = (entry?, record?);
    Some(Accepted { ballot: e.ballot, hint: e.hinted(), with_shard: e.one_sync(), record })
}

fn reply(s: &Shared, found: Option<(Register, Option<Bytes>)>) -> ReadReply {
    ReadReply {
        voter: Shared::role(&s.core.lock()) == Role::Voter,
        accepted: found.map(|(r, record)| Seen {
            ballot: r.ballot,
            hint: r.hinted(),
            with_shard: r.one_sync(),
            digest: r.digest,
            record,
        }),
    }
}
