//! PREPARE, ACCEPT and copies: how a drive votes.
//!
//! Invariants: `ashlar_commit::Acceptor` is called under the lock under which the looked-up ballot is checked
//! to be still that of the register; an operation whose lookup is outdated repeats it; every completion is
//! answered exactly once, here or by the journal.
//!
//! Must not depend on: what a record holds, other drives.

use crate::core::{Core, Shared};
use crate::drive::{Drive, MAX_SUMMARY};
use crate::entry::Register;
use crate::index::must;
use crate::op::{FRESH, Op, StateChange};
use crate::run::{Halt, Lookup, Mode};
use crate::settle::promise_key;
use crate::types::{Accept, Accepted, Known, Prepared, Role};
use crate::{Completion, Error, Result};
use ashlar_commit::bucket_fence::{Grant, admits};
use ashlar_commit::{AcceptAnswer, PrepareAnswer};
use ashlar_format::{Ballot, RegisterKey, journal};
use bytes::Bytes;
use std::sync::Arc;

/// How a record is written to the drive.
#[derive(Clone, Copy)]
enum AcceptKind {
    /// By ACCEPT, with the kind of change for the check against a fence.
    Vote(Grant),
    /// As a copy into a joining drive, which no fence refuses: it adds nothing that was not chosen.
    Copy { hint: bool },
}

/// What to do after checking the state under the lock.
enum Next {
    Again,
    Answer(Prepared),
    Flush(tokio::sync::oneshot::Receiver<()>),
    Raise(Ballot),
}

impl Drive {
    /// PREPARE, in the layout epoch of the ballot. Waits for an accept of the same key in flight, and for the floor to be raised.
    ///
    /// # Errors
    /// A drive that cannot read the register cannot promise: `Corrupt`, `Io`, `Fenced`.
    pub async fn prepare(&self, key: &RegisterKey, ballot: Ballot) -> Result<Prepared> {
        self.prepare_knowing(key, ballot, None).await
    }

    /// Like [`Drive::prepare`], for a caller that has a record. If it is the one that the drive accepted last,
    /// it is the answer, and the drive does not read its copy.
    ///
    /// # Errors
    /// Those of [`Drive::prepare`].
    pub async fn prepare_knowing(
        &self,
        key: &RegisterKey,
        ballot: Ballot,
        known: Option<&Known>,
    ) -> Result<Prepared> {
        self.shared.writable()?;
        let hash = promise_key(key);
        loop {
            let (entry, generation, record) = self.entry_and_record(key, known).await?;
            match self.try_prepare(key, hash, ballot, entry, record, generation) {
                Next::Again => {}
                Next::Answer(a) => return Ok(a),
                Next::Raise(to) => self.change(key.group(), StateChange::Floor(to)).await?,
                Next::Flush(flushed) => {
                    self.pump_if_manual();
                    flushed.await.map_err(|_| self.gone())?;
                    let (entry, _, record) = self.entry_and_record(key, known).await?;
                    let core = self.shared.core.lock();
                    return Ok(match entry {
                        Some(e) if e.ballot > ballot => Prepared::Refused { highest: e.ballot },
                        // A horizon read now would not match the record that was looked up before.
                        e => Prepared::Promised {
                            accepted: accepted(e, record),
                            horizon: Ballot::ZERO,
                            purged: core.groups.horizon(key.group()),
                            fence: core.fences.of(key),
                        },
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
        match (core.recent(key), &entry) {
            (Some(now), _) if now != have => return Next::Again,
            (Some(_), _) => {}
            (None, _) if core.generation != generation => return Next::Again,
            (None, Some(entry)) => core.found.put(hash, entry, generation),
            (None, None) => {}
        }
        let pending = core.pending.get(&hash).map_or(Ballot::ZERO, |p| p.ballot);
        let group = key.group();
        let asked = core.groups.ask(group, |acceptor| acceptor.prepare(hash, have.max(pending), ballot));
        // A drive that has not joined the group has no vote in it either.
        let answer = match asked.unwrap_or(PrepareAnswer::NotVoter) {
            PrepareAnswer::NotVoter => Next::Answer(Prepared::NotVoter),
            PrepareAnswer::Refused { highest } => Next::Answer(Prepared::Refused { highest }),
            PrepareAnswer::RaiseFloorFirst { to } => Next::Raise(to),
            PrepareAnswer::Promised => match core.pending.get_mut(&hash) {
                Some(p) => {
                    let (tx, rx) = tokio::sync::oneshot::channel();
                    p.waiters.push(tx);
                    Next::Flush(rx)
                }
                None => {
                    let horizon = core.groups.horizon(group);
                    Next::Answer(Prepared::Promised {
                        accepted: accepted(entry, record),
                        horizon,
                        purged: horizon,
                        fence: core.fences.of(key),
                    })
                }
            },
        };
        core.raise_floors(Some(group), &self.shared.journal_work);
        answer
    }

    async fn entry_and_record(
        &self,
        key: &RegisterKey,
        known: Option<&Known>,
    ) -> Result<(Option<Register>, u64, Option<Bytes>)> {
        match entry_and_record(&self.shared, key, known, Mode::Now) {
            Err(Halt::WouldBlock) => {
                let (key, known) = (key.clone(), known.cloned());
                let f = move |s: &Arc<Shared>| {
                    entry_and_record(s, &key, known.as_ref(), Mode::Wait).map_err(must)
                };
                self.shared.on_io(f).await
            }
            r => r.map_err(must),
        }
    }

    /// ACCEPT: completes when durable. On a joining drive the answer is `uncounted`.
    pub fn accept(&self, accept: Accept, done: Completion) {
        self.accept_with(accept, Grant::Plain, done);
    }

    /// Like [`Drive::accept`], for a record that a fence of its bucket may admit. Fails with `BucketFenced`
    /// if the fence does not admit it.
    pub fn accept_with(&self, accept: Accept, grant: Grant, done: Completion) {
        if let Err(e) = self.check_accept(&accept) {
            return done.err(e);
        }
        let hash = promise_key(&accept.key);
        self.accept_in(Mode::Now, accept, hash, AcceptKind::Vote(grant), done);
    }

    /// Copies an accepted record into a joining drive (resync): regardless of promises, the higher of its own
    /// record and the copy stays. Answers `ok` when durable.
    pub fn copy(&self, accept: Accept, hint: bool, done: Completion) {
        if let Err(e) = self.check_accept(&accept) {
            return done.err(e);
        }
        let hash = promise_key(&accept.key);
        self.accept_in(Mode::Now, accept, hash, AcceptKind::Copy { hint }, done);
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

    fn accept_in(&self, mode: Mode, accept: Accept, hash: u128, kind: AcceptKind, done: Completion) {
        let mut accept = accept;
        let mut done = done;
        loop {
            match self.shared.look_up_again(&accept.key, hash, mode) {
                Err(Halt::Failed(e)) => return done.err(e),
                Err(Halt::WouldBlock) => {
                    let me = self.clone();
                    let job = move || me.accept_in(Mode::Wait, accept, hash, kind, done);
                    // A full queue drops the job, and with it the completion: that is a failure.
                    let _ = self.shared.spawn(job);
                    return;
                }
                Ok((entry, generation)) => {
                    match self.try_accept(accept, hash, kind, entry, generation, done) {
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

    /// Returns its arguments if the lookup has to be repeated.
    fn try_accept(
        &self,
        accept: Accept,
        hash: u128,
        kind: AcceptKind,
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
        let group = accept.key.group();
        let joining = match core.groups.in_epoch(group, accept.epoch) {
            Ok(vote) => vote.role() != Role::Voter,
            // Refused, as any ballot of that epoch.
            Err(Error::NewerLayout(now)) if matches!(kind, AcceptKind::Vote(_)) => {
                done.refused(Ballot::fence(now));
                return None;
            }
            Err(e) => {
                done.err(e);
                return None;
            }
        };
        let pending = core.pending.get(&hash).map(|p| p.ballot);
        let known = have.max(pending.unwrap_or(Ballot::ZERO));
        let fence = core.fences.of(&accept.key);
        let answer = match kind {
            // What it has already accepted stays accepted.
            AcceptKind::Vote(grant) if accept.ballot != known && !admits(fence, grant) => {
                done.err(Error::BucketFenced(fence));
                return None;
            }
            AcceptKind::Vote(_) => {
                let ballot = accept.ballot;
                match core.groups.ask(group, |acceptor| acceptor.accept(hash, known, ballot)) {
                    Some(answer) => answer,
                    None => {
                        done.err(Error::NotHeld(group));
                        return None;
                    }
                }
            }
            AcceptKind::Copy { .. } if !joining => {
                done.err(Error::Malformed("a copy into a drive that is not joining"));
                return None;
            }
            AcceptKind::Copy { .. } if accept.ballot < known => {
                done.ok();
                return None;
            }
            AcceptKind::Copy { .. } if accept.ballot == known => AcceptAnswer::Already { counted: true },
            AcceptKind::Copy { .. } => AcceptAnswer::GoUncounted,
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
                self.enqueue_accept(core, accept, hash, kind, oldest, answer, done);
            }
        }
        None
    }

    #[allow(clippy::too_many_arguments)] // the parts of one journal operation
    fn enqueue_accept(
        &self,
        core: &mut Core,
        accept: Accept,
        hash: u128,
        kind: AcceptKind,
        oldest: u32,
        answer: AcceptAnswer,
        done: Completion,
    ) {
        let group = accept.key.group();
        core.found.forget(hash);
        let p = core.pending.entry(hash).or_default();
        p.ballot = p.ballot.max(accept.ballot);
        p.count += 1;
        let counted = answer == AcceptAnswer::Go;
        let (hint, copy) = match kind {
            AcceptKind::Vote(_) => (false, false),
            AcceptKind::Copy { hint } => (hint, true),
        };
        let op = Op::Accept { hash, accept, hint, oldest, counted, copy, done };
        let here = self.shared.here;
        if let Err((op, e)) = core.enqueue_for(op, &self.shared.journal_work, here) {
            // Space was checked before the acceptor was called.
            op.fail(&e);
        }
        core.raise_floors(Some(group), &self.shared.journal_work);
    }

    /// An accept of the ballot that the register already has: answered again if the record is readable,
    /// otherwise written again (this heals a damaged record).
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
                self.enqueue_accept(&mut core, accept, hash, AcceptKind::Vote(Grant::Plain), 0, answer, done);
                drop(core);
                if self.shared.here {
                    self.shared.commit_here();
                }
            }
            Err(h) => done.err(must(h)),
            Ok(_) => done.err(Error::Offline("the register changed meanwhile")),
        }
    }
}

impl Core {
    /// Whether the result of a lookup is still the entry of the index.
    pub(crate) fn still(&self, key: &RegisterKey, have: Ballot, generation: u64) -> bool {
        self.recent(key).map_or(self.generation == generation, |now| now == have)
    }

    /// The ballot of a register of which the overlay has an entry; zero if it is removed.
    fn recent(&self, key: &RegisterKey) -> Option<Ballot> {
        self.overlay.register(key).map(|found| found.map_or(Ballot::ZERO, |r| r.ballot))
    }
}

fn entry_and_record(
    s: &Shared,
    key: &RegisterKey,
    known: Option<&Known>,
    mode: Mode,
) -> Lookup<(Option<Register>, u64, Option<Bytes>)> {
    let (entry, generation) = s.look_up(key, mode)?;
    let Some(entry) = entry else { return Ok((None, generation, None)) };
    if let Some(known) = known
        && (known.ballot, known.digest) == (entry.ballot, entry.digest)
    {
        return Ok((Some(entry), generation, Some(known.record.clone())));
    }
    if let Some(record) = s.record_of(key, &entry, mode)? {
        return Ok((Some(entry), generation, Some(record)));
    }
    // Reads the entry again: compaction has moved it, which changes nothing else.
    Ok(match s.read_register(key, true, mode)? {
        Some((r, record)) => (Some(r), generation, record),
        None => (None, generation, None),
    })
}

fn accepted(entry: Option<Register>, record: Option<Bytes>) -> Option<Accepted> {
    let (e, record) = (entry?, record?);
    Some(Accepted { ballot: e.ballot, hint: e.hinted(), with_shard: e.one_sync(), record })
}
