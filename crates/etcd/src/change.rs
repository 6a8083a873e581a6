//! Changes: one transaction each, and what became of it.
//!
//! A transaction compares the revision of every key, and three keys of its own: the identity (the store is
//! the one that this node knows), the head (it is not older than memory), and the fence. When a request was
//! not answered, it may still be carried out, at any time: it may wait in a member that hangs. So before it is
//! judged or sent again the fence is written: what compares the old fence cannot succeed any more. The mark
//! that a change writes into the head then tells whether it was made.
//!
//! Invariants: of all requests for one change at most one succeeds, and none succeeds after the caller was
//! told `Conflict`, success, or an error that says that nothing was changed.
//!
//! Must not depend on: how memory follows etcd.

use std::sync::atomic::Ordering;
use std::time::Duration;

use ashlar_cluster::{Action, Error, Result, Update};
use ashlar_environment::time::{self, Instant};
use bytes::Bytes;

use crate::gateway::Fault;
use crate::memory::{Content, cost};
use crate::shared::{PATIENCE, Shared};
use crate::wire::{self, Done};

/// Pause before a transaction is sent again.
const PAUSE: Duration = Duration::from_millis(20);
/// Largest content after a change, as the embedded driver has it.
const MAX_CONTENT: usize = ashlar_cluster::MAX_BYTES / 2;

/// What an attempt came to.
enum Attempt {
    /// Decided.
    Over(Result<u64>),
    /// Not made, and it cannot be any more: it may be sent again.
    Again,
    /// No answer.
    Unknown(String),
}

/// Removes the mark when the change is over; an undecided one may still come.
struct Waiting<'a> {
    shared: &'a Shared,
    mark: Bytes,
    open: bool,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.shared.memory.take(&self.mark);
        if self.open {
            self.shared.loose.fetch_add(1, Ordering::AcqRel);
        }
    }
}

impl Shared {
    /// Makes a change.
    pub async fn commit(&self, update: &Update) -> Result<u64> {
        let _working = self.working.read().await;
        self.usable()?;
        let content = self.memory.content();
        if update.is_empty() {
            return Ok(content.revision);
        }
        fits(&content, update)?;
        drop(content);
        let until = Instant::now() + PATIENCE;
        let loose = self.loose.load(Ordering::Acquire);
        if loose > 0 {
            let raised = self.raise_fence(until).await;
            raised.map_err(|why| Error::Unavailable(format!("{why}; nothing was changed")))?;
            // One that was given up meanwhile stays.
            let _ = self.loose.compare_exchange(loose, 0, Ordering::AcqRel, Ordering::Acquire);
        }
        let mut waiting = Waiting { shared: self, mark: self.mark(), open: false };
        self.memory.expect(waiting.mark.clone());
        let gaps = self.memory.gaps();
        loop {
            waiting.open = update.changes_something();
            let mut attempt = self.attempt(update, &waiting.mark, until).await;
            if let Attempt::Unknown(why) = attempt {
                if !waiting.open {
                    attempt = Attempt::Again;
                } else {
                    attempt = self.decide(&waiting.mark, gaps, why, until).await;
                }
            }
            match attempt {
                Attempt::Over(result) => {
                    waiting.open = false;
                    return result;
                }
                Attempt::Again => waiting.open = false,
                Attempt::Unknown(why) => return Err(Error::Unavailable(why)),
            }
            if Instant::now() >= until || self.trouble().is_some() {
                self.usable()?;
                return Err(Error::Unavailable("etcd does not answer in time; nothing was changed".into()));
            }
            time::sleep(PAUSE).await;
        }
    }

    /// # Errors
    /// The driver is closed, or it is known that etcd cannot be used.
    pub fn usable(&self) -> Result<()> {
        if self.closing.load(Ordering::Acquire) {
            return Err(Error::Unavailable("it is closed".to_owned()));
        }
        match self.trouble() {
            Some(why) => Err(Error::Unavailable(format!("{why}; nothing was changed"))),
            None => Ok(()),
        }
    }

    async fn attempt(&self, update: &Update, mark: &Bytes, until: Instant) -> Attempt {
        let (content, fence) = (self.memory.content(), self.fence.load(Ordering::Acquire));
        let ask = self.transaction(update, &content, fence, mark);
        let (known, identity) = (content.head.0, content.identity.clone());
        let etcd = content.etcd;
        drop(content);
        let done: Done = match self.gateway.call("/v3/kv/txn", ask).await {
            Ok(done) => done,
            Err(Fault::Silent(why)) => return Attempt::Unknown(why),
            // etcd refuses these before it makes them.
            Err(Fault::TooLarge(_)) => {
                return Attempt::Over(Err(Error::TooLarge("a change for one request to etcd")));
            }
            Err(fault) => {
                if matches!(fault, Fault::Full(_)) {
                    self.members.lock().full = true;
                }
                let why = fault.into_error(&self.keys.root);
                return Attempt::Over(Err(Error::Unavailable(format!("{why}; nothing was changed"))));
            }
        };
        if done.succeeded {
            self.members.lock().full &= !update.changes_something();
            let head = match done.found(0).first() {
                Some(head) if !update.changes_something() => head.mod_revision,
                _ => done.header.revision,
            };
            return Attempt::Over(match self.reach(head, until).await {
                true => Ok(head),
                false => {
                    Err(Error::Unavailable("etcd made the change, but its watch does not keep up".into()))
                }
            });
        }
        let is_same = done.found(0).first().is_some_and(|found| found.value == identity);
        let head = done.found(2).first().map_or(0, |head| head.mod_revision);
        if !is_same || done.header.cluster_id != etcd || head < known {
            self.kick.notify_one();
            return Attempt::Over(Err(Error::Unavailable(
                "etcd holds another or an older state than this node knows; nothing was changed".to_owned(),
            )));
        }
        if let Some(fence) = done.found(1).first() {
            self.fence.fetch_max(fence.mod_revision, Ordering::AcqRel);
        }
        self.judge(update, head, until).await
    }

    /// Why a transaction did not succeed, from memory that has what it met.
    async fn judge(&self, update: &Update, head: u64, until: Instant) -> Attempt {
        if !self.reach(head, until).await {
            let why = "the watch of etcd does not keep up; nothing was changed".to_owned();
            return Attempt::Over(Err(Error::Unavailable(why)));
        }
        let content = self.memory.content();
        let is_stale = |key: &str, seen: Option<u64>| content.entries.get(key).map(|v| v.revision) != seen;
        let stale = update.steps().find(|s| is_stale(s.key, s.seen.revision()));
        match stale {
            Some(step) => Attempt::Over(Err(Error::Conflict(step.key.to_owned()))),
            // The fence was written, or the key is as it was seen again.
            None => Attempt::Again,
        }
    }

    /// Decides a change that was not answered.
    async fn decide(&self, mark: &Bytes, gaps: u64, why: String, until: Instant) -> Attempt {
        let unknown =
            |why: String| Attempt::Unknown(format!("{why}; whether the change was made is not known"));
        let head = match self.raise_fence(until).await {
            Ok(head) => head,
            Err(e) => return unknown(format!("{why}; {e}")),
        };
        if !self.reach(head, until).await {
            return unknown(format!("{why}; the watch does not keep up"));
        }
        match self.memory.made(mark) {
            Some(revision) => Attempt::Over(Ok(revision)),
            // Everything was read again: the head at that time may hide this change.
            None if self.memory.gaps() != gaps => unknown(why),
            None => Attempt::Again,
        }
    }

    /// Makes sure that no transaction sent before succeeds any more. Returns the revision of the last change.
    async fn raise_fence(&self, until: Instant) -> std::result::Result<u64, String> {
        let used = self.fence.load(Ordering::Acquire);
        let (fence, head) = (self.keys.fence(), self.keys.head());
        let ask = wire::txn(
            vec![wire::written_at(&fence, used)],
            vec![wire::read(wire::range(&head)), wire::put(&fence, self.process.as_bytes())],
            vec![wire::read(wire::range(&head)), wire::read(wire::range(&fence))],
        );
        loop {
            match self.gateway.call::<Done>("/v3/kv/txn", ask.clone()).await {
                Ok(done) => {
                    let now = match done.succeeded {
                        true => done.header.revision,
                        // It was written since: that serves as well.
                        false => done.found(1).first().map_or(0, |f| f.mod_revision),
                    };
                    if now <= used {
                        return Err("etcd holds an older state than this node knows".to_owned());
                    }
                    self.fence.fetch_max(now, Ordering::AcqRel);
                    return Ok(done.found(0).first().map_or(0, |h| h.mod_revision));
                }
                Err(Fault::Silent(why)) => {
                    if Instant::now() >= until {
                        return Err(why);
                    }
                    if let Some(trouble) = self.trouble() {
                        return Err(trouble);
                    }
                    time::sleep(PAUSE).await;
                }
                Err(fault) => return Err(fault.into_error(&self.keys.root).to_string()),
            }
        }
    }

    fn transaction(&self, update: &Update, content: &Content, fence: u64, mark: &Bytes) -> Bytes {
        let keys = &self.keys;
        let data = keys.data();
        let mut compare = vec![
            wire::has_value(&keys.identity(), &content.identity),
            wire::written_at(&keys.fence(), fence),
            wire::written_since(&keys.head(), content.head.0),
        ];
        let mut success = vec![match update.changes_something() {
            true => wire::put(&keys.head(), mark),
            false => wire::read(wire::range(&keys.head())),
        }];
        for step in update.steps() {
            let key = format!("{data}{}", step.key);
            compare.push(wire::written_at(&key, step.seen.revision().unwrap_or(0)));
            match step.action {
                Action::Set(bytes) => success.push(wire::put(&key, bytes)),
                Action::Remove if step.seen.revision().is_some() => success.push(wire::delete(&key)),
                Action::Remove | Action::Expect => {}
            }
        }
        let look = [keys.identity(), keys.fence(), keys.head()].map(|k| wire::read(wire::range(&k)));
        wire::txn(compare, success, look.into())
    }
}

/// Refuses a change after which the content is too large.
fn fits(content: &Content, update: &Update) -> Result<()> {
    let old = |key: &str| content.entries.get(key).map_or(0, |v| cost(key, v.bytes.len()));
    let mut size = content.bytes;
    let mut grows = false;
    for step in update.steps() {
        match step.action {
            Action::Set(bytes) => {
                let (old, new) = (old(step.key), cost(step.key, bytes.len()));
                grows |= new > old;
                size = size + new - old.min(size + new);
            }
            Action::Remove => size -= old(step.key).min(size),
            Action::Expect => {}
        }
    }
    if grows && size > MAX_CONTENT { Err(Error::TooLarge("the store")) } else { Ok(()) }
}
