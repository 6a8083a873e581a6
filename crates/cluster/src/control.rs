//! The embedded control store: one process, whole copies on the drives, no other service.
//!
//! Every change is a new snapshot, written whole to all member drives and answered when a majority
//! holds it. The store is small (the map, the buckets, the credentials) and changes rarely, so that
//! whole copies cost nothing that matters and need no log. Invariants: transactions go one after
//! another; a (term, revision) is never used for two contents; what is read is what was last
//! answered. It never knows what the values mean.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use ashlar_format::{DeploymentId, DriveId};
use ashlar_machine::IoPool;
use bytes::Bytes;
use parking_lot::{Mutex, RwLock};
use tokio::sync::watch;

use crate::copy::{Copy, MAX_BYTES, Medium, Snapshot};
use crate::{Error, Result};

/// How long a change waits for a majority of drives.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);
/// Changes kept for watchers that are behind; older ones are told to begin anew.
const HISTORY: usize = 1024;
/// Longest value, in bytes.
const MAX_VALUE: usize = 4 << 20;

/// A stored value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Value {
    /// Revision of the store at which it was last written.
    pub revision: u64,
    /// The bytes.
    pub bytes: Bytes,
}

/// What a transaction wants to find.
#[derive(Clone, Debug)]
pub enum Compare {
    /// The key does not exist.
    Absent(String),
    /// The key exists and was last written at this revision.
    Revision(String, u64),
}

/// A transaction: when all compares hold, all changes are made, else none.
#[derive(Clone, Debug, Default)]
pub struct Txn {
    /// What must hold.
    pub compares: Vec<Compare>,
    /// What is written.
    pub puts: Vec<(String, Bytes)>,
    /// What is removed.
    pub deletes: Vec<String>,
    /// `Some`: the drives that count from now on. They must be attached.
    pub members: Option<Vec<DriveId>>,
}

/// One change, for watchers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Revision of the store.
    pub revision: u64,
    /// The key.
    pub key: String,
    /// The new value; `None`: removed.
    pub value: Option<Bytes>,
}

/// How the store is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Health {
    /// Member drives.
    pub members: usize,
    /// Of these, how many hold the present content durably.
    pub current: usize,
    /// Changes can be made.
    pub writable: bool,
    /// Present term.
    pub term: u64,
    /// Present revision.
    pub revision: u64,
}

/// What a watcher gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Watched {
    /// Changes in order, at least one.
    Changes(Vec<Change>),
    /// The watcher was too far behind: read everything anew; watching goes on from this revision.
    Reset(u64),
}

/// One attached drive.
pub(crate) struct Site {
    pub medium: Arc<dyn Medium>,
    /// One thread at most, so that a hung drive holds up nobody else.
    pool: IoPool,
    /// What the drive holds durably.
    pub copy: Copy,
    /// The slot that does not hold it.
    slot: usize,
    /// What it is to hold next: the newest wins, so that nothing queues up.
    pending: Option<Copy>,
    busy: bool,
    /// A write failed: nothing more is written until the drive is attached again.
    pub failed: bool,
}

impl Site {
    pub(crate) fn new(id: DriveId, medium: Arc<dyn Medium>, copy: Copy, slot: usize) -> Site {
        let name = format!("control-{}", &id.to_hex()[..6]);
        let pool = IoPool::new(&name, 1, 2);
        Site { medium, pool, copy, slot, pending: None, busy: false, failed: false }
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        self.pool.close();
    }
}

pub(crate) struct Shared {
    pub deployment: DeploymentId,
    /// What readers see: the last snapshot that was decided (or found, while read-only).
    pub seen: RwLock<Arc<Snapshot>>,
    pub sites: Mutex<BTreeMap<DriveId, Site>>,
    /// Highest revision ever handed to a drive in this term; never used twice.
    pub used: Mutex<u64>,
    /// The term this process writes in; 0 while read-only.
    pub term: Mutex<u64>,
    pub turn: tokio::sync::Mutex<()>,
    /// Counts finished writes.
    pub progress: watch::Sender<u64>,
    /// Changes after the revision beside them.
    history: Mutex<(u64, VecDeque<Change>)>,
    changed: watch::Sender<u64>,
}

/// The control store. Cheap to clone: all clones are one store.
#[derive(Clone)]
pub struct Control {
    pub(crate) shared: Arc<Shared>,
}

impl Control {
    pub(crate) fn assemble(
        deployment: DeploymentId,
        sites: BTreeMap<DriveId, Site>,
        seen: Arc<Snapshot>,
    ) -> Control {
        let revision = seen.revision;
        Control {
            shared: Arc::new(Shared {
                deployment,
                seen: RwLock::new(seen),
                sites: Mutex::new(sites),
                used: Mutex::new(revision),
                term: Mutex::new(0),
                turn: tokio::sync::Mutex::new(()),
                progress: watch::Sender::new(0),
                history: Mutex::new((revision, VecDeque::new())),
                changed: watch::Sender::new(revision),
            }),
        }
    }

    /// The deployment it belongs to.
    #[must_use]
    pub fn deployment(&self) -> DeploymentId {
        self.shared.deployment
    }

    /// The value of `key`, from memory.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<Value> {
        self.shared.seen.read().entries.get(key).cloned()
    }

    /// All keys that begin with `prefix`, in order, from memory.
    #[must_use]
    pub fn list(&self, prefix: &str) -> Vec<(String, Value)> {
        let seen = self.shared.seen.read().clone();
        seen.entries
            .range(prefix.to_owned()..)
            .take_while(|(k, _)| k.starts_with(prefix))
            .map(|(k, v)| (k.clone(), v.clone()))
            .collect()
    }

    /// The present revision.
    #[must_use]
    pub fn revision(&self) -> u64 {
        self.shared.seen.read().revision
    }

    /// The drives that count.
    #[must_use]
    pub fn members(&self) -> Vec<DriveId> {
        self.shared.seen.read().members.clone()
    }

    /// Makes sure that reads from memory that begin after this answer are linearizable: this process
    /// is the one writer and a majority holds what it shows.
    ///
    /// # Errors
    /// `Unavailable` while read-only.
    pub async fn barrier(&self) -> Result<()> {
        let _turn = self.shared.turn.lock().await;
        if *self.shared.term.lock() == 0 {
            return Err(Error::Unavailable("fewer than a majority of its drives".to_owned()));
        }
        Ok(())
    }

    /// Changes the store; answers the new revision.
    ///
    /// # Errors
    /// `Conflict` (nothing changed), `Unavailable` (before: nothing changed; while waiting for the
    /// drives: not known, see [`Error::Unavailable`]), `TooLarge`.
    pub async fn txn(&self, txn: Txn) -> Result<u64> {
        let _turn = self.shared.turn.lock().await;
        let term = *self.shared.term.lock();
        if term == 0 {
            return Err(Error::Unavailable("fewer than a majority of its drives".to_owned()));
        }
        let old = self.shared.seen.read().clone();
        check(&old, &txn.compares)?;
        let revision = {
            let mut used = self.shared.used.lock();
            *used += 1;
            *used
        };
        let (next, changes) = apply(&old, &txn, term, revision)?;
        let next = Arc::new(next);
        self.write_all(&next, term);
        if !self.wait_majority(&next).await {
            return Err(Error::Unavailable("no majority of its drives took the change".to_owned()));
        }
        *self.shared.seen.write() = next;
        {
            let (base, history) = &mut *self.shared.history.lock();
            history.extend(changes);
            while history.len() > HISTORY {
                *base = history.pop_front().map_or(*base, |c| c.revision);
            }
        }
        self.shared.changed.send_replace(revision);
        Ok(revision)
    }

    /// Follows changes after revision `from`.
    #[must_use]
    pub fn watch(&self, from: u64) -> Watch {
        Watch { control: self.clone(), from, changed: self.shared.changed.subscribe() }
    }

    /// How the store is.
    #[must_use]
    pub fn health(&self) -> Health {
        let seen = self.shared.seen.read().clone();
        let sites = self.shared.sites.lock();
        let holds = |d: &DriveId| {
            sites.get(d).is_some_and(|s| !s.failed && s.copy.snapshot.position() >= seen.position())
        };
        let current = seen.members.iter().filter(|d| holds(d)).count();
        let alive = seen.members.iter().filter(|d| sites.get(d).is_some_and(|s| !s.failed)).count();
        Health {
            members: seen.members.len(),
            current,
            writable: *self.shared.term.lock() > 0 && alive > seen.members.len() / 2,
            term: seen.term,
            revision: seen.revision,
        }
    }

    /// Takes no more changes and waits until no drive is being written. Needed before the same drives
    /// are opened again by this process; a process that ends needs it not.
    pub async fn close(&self) {
        let _turn = self.shared.turn.lock().await;
        *self.shared.term.lock() = 0;
        let mut progress = self.shared.progress.subscribe();
        let deadline = tokio::time::Instant::now() + PATIENCE;
        loop {
            progress.borrow_and_update();
            if self.shared.sites.lock().values().all(|s| !s.busy) {
                return;
            }
            if tokio::time::timeout_at(deadline, progress.changed()).await.is_err() {
                return;
            }
        }
    }

    /// Shows `seen` to readers without a transaction (start, or a copy found later).
    pub(crate) fn show(&self, seen: Arc<Snapshot>) {
        let revision = seen.revision;
        if self.shared.seen.read().revision != revision {
            *self.shared.history.lock() = (revision, VecDeque::new());
        }
        *self.shared.seen.write() = seen;
        self.shared.changed.send_replace(revision);
    }

    /// Takes a drive away, for instance because it failed.
    pub fn detach(&self, drive: DriveId) {
        self.shared.sites.lock().remove(&drive);
        self.shared.progress.send_modify(|n| *n += 1);
    }

    /// Hands a snapshot to every attached drive that counts; each writes the newest it was handed.
    pub(crate) fn write_all(&self, snapshot: &Arc<Snapshot>, promised: u64) {
        let ids: Vec<DriveId> = self.shared.sites.lock().keys().copied().collect();
        for id in ids {
            self.write_one(id, Copy { promised, snapshot: snapshot.clone() });
        }
    }

    /// Hands one drive what it is to hold next.
    pub(crate) fn write_one(&self, id: DriveId, copy: Copy) {
        let mut sites = self.shared.sites.lock();
        let Some(site) = sites.get_mut(&id).filter(|s| !s.failed) else { return };
        site.pending = Some(copy);
        if site.busy {
            return;
        }
        site.busy = true;
        let shared = self.shared.clone();
        let medium = site.medium.clone();
        if site.pool.run(move || write_pending(&shared, id, &medium)).is_err() {
            site.busy = false;
            site.failed = true;
        }
    }

    /// Waits until majorities of `members` and `before` hold `snapshot`; false when that cannot be
    /// any more or took too long.
    async fn wait_majority(&self, snapshot: &Snapshot) -> bool {
        self.wait(&[&snapshot.members, &snapshot.before], |s| {
            s.copy.snapshot.position() >= snapshot.position()
        })
        .await
    }

    /// Waits until `done` holds for a majority of each of `sets`.
    pub(crate) async fn wait(&self, sets: &[&[DriveId]], done: impl Fn(&Site) -> bool) -> bool {
        let mut progress = self.shared.progress.subscribe();
        let deadline = tokio::time::Instant::now() + PATIENCE;
        loop {
            progress.borrow_and_update();
            let (mut all, mut possible) = (true, true);
            {
                let sites = self.shared.sites.lock();
                for set in sets {
                    let need = set.len() / 2 + 1;
                    let have = |d: &&DriveId| sites.get(d).is_some_and(&done);
                    let may = |d: &&DriveId| sites.get(d).is_some_and(|s| !s.failed || done(s));
                    all &= set.iter().filter(have).count() >= need;
                    possible &= set.iter().filter(may).count() >= need;
                }
            }
            if all || !possible {
                return all;
            }
            if tokio::time::timeout_at(deadline, progress.changed()).await.is_err() {
                return false;
            }
        }
    }
}

/// Runs on the drive's own thread: writes what is pending until nothing is.
fn write_pending(shared: &Shared, id: DriveId, medium: &Arc<dyn Medium>) {
    loop {
        let (copy, slot) = {
            let mut sites = shared.sites.lock();
            // The drive may have been attached anew under the same id: that one has its own thread.
            let Some(site) = sites.get_mut(&id).filter(|s| Arc::ptr_eq(&s.medium, medium)) else { return };
            match site.pending.take() {
                Some(copy) if !site.failed => (copy, site.slot),
                _ => {
                    site.busy = false;
                    drop(sites);
                    shared.progress.send_modify(|n| *n += 1);
                    return;
                }
            }
        };
        let result = medium.write(slot, &copy.encode(shared.deployment, id));
        let mut sites = shared.sites.lock();
        let Some(site) = sites.get_mut(&id).filter(|s| Arc::ptr_eq(&s.medium, medium)) else { return };
        match result {
            Ok(()) => {
                site.copy = copy;
                site.slot = 1 - slot;
            }
            Err(error) => {
                tracing::warn!(drive = %id, %error, "control store: the drive no longer takes changes");
                site.failed = true;
            }
        }
        drop(sites);
        shared.progress.send_modify(|n| *n += 1);
    }
}

fn check(old: &Snapshot, compares: &[Compare]) -> Result<()> {
    for compare in compares {
        let (key, holds) = match compare {
            Compare::Absent(key) => (key, !old.entries.contains_key(key)),
            Compare::Revision(key, r) => (key, old.entries.get(key).is_some_and(|v| v.revision == *r)),
        };
        if !holds {
            return Err(Error::Conflict(key.clone()));
        }
    }
    Ok(())
}

fn apply(old: &Snapshot, txn: &Txn, term: u64, revision: u64) -> Result<(Snapshot, Vec<Change>)> {
    let mut next = old.clone();
    next.term = term;
    next.revision = revision;
    next.before.clone_from(&old.members);
    if let Some(members) = &txn.members {
        next.members.clone_from(members);
    }
    let mut changes = Vec::new();
    for (key, bytes) in &txn.puts {
        if bytes.len() > MAX_VALUE {
            return Err(Error::TooLarge("the value"));
        }
        next.entries.insert(key.clone(), Value { revision, bytes: bytes.clone() });
        changes.push(Change { revision, key: key.clone(), value: Some(bytes.clone()) });
    }
    for key in &txn.deletes {
        if next.entries.remove(key).is_some() {
            changes.push(Change { revision, key: key.clone(), value: None });
        }
    }
    let size: usize = next.entries.iter().map(|(k, v)| k.len() + v.bytes.len() + 32).sum();
    if size > MAX_BYTES / 2 {
        return Err(Error::TooLarge("the store"));
    }
    Ok((next, changes))
}

/// Follows the changes of a store.
pub struct Watch {
    control: Control,
    from: u64,
    changed: watch::Receiver<u64>,
}

impl Watch {
    /// Waits for the next changes. Never answers the same change twice.
    pub async fn next(&mut self) -> Watched {
        loop {
            self.changed.borrow_and_update();
            let now = self.control.revision();
            if now > self.from {
                let (complete, news) = {
                    let (base, history) = &*self.control.shared.history.lock();
                    let fresh = |c: &&Change| c.revision > self.from && c.revision <= now;
                    let news: Vec<Change> = history.iter().filter(fresh).cloned().collect();
                    (self.from >= *base, news)
                };
                self.from = now;
                if !complete {
                    return Watched::Reset(now);
                }
                if !news.is_empty() {
                    return Watched::Changes(news);
                }
                continue;
            }
            if self.changed.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }
}
