//! The embedded driver of the control store: one process, full copies on the drives, no other service.
//!
//! Every change makes a new snapshot, which is acknowledged when a majority of the member drives holds it. A drive
//! that holds the snapshot before it appends the change to its log; every other drive, and one whose log has reached
//! its limit, gets a full copy (`copy`, `change_log`). So the bytes that a change writes do not grow with the store.
//!
//! Invariants: changes are serialized; a (term, revision) is never used for two contents; a read returns what
//! was last acknowledged.
//!
//! Must not depend on: what the values mean.

use ashlar_environment::time;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use ashlar_format::{DeploymentId, DriveId};
use ashlar_machine::IoPool;
use futures::future::BoxFuture;
use parking_lot::{Mutex, RwLock};
use tokio::sync::watch;

use crate::announced::{Announced, Announcement, Nodes};
use crate::change_log::{LogEnd, LoggedChange, RecentChanges};
use crate::control::{Change, Control, ControlDriver, Health, Value, Watch};
use crate::copy::{Copy, MAX_BYTES, Medium, Snapshot};
use crate::history::History;
use crate::update::{Action, Step, Update};
use crate::{Error, Result};

/// How long a change waits for a majority of drives.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// One attached drive.
pub(crate) struct Site {
    pub medium: Arc<dyn Medium>,
    /// At most one thread, so that a drive that hangs blocks no other drive.
    pool: IoPool,
    /// The copy that the drive holds durably.
    pub copy: Copy,
    /// The slot that does not hold this copy.
    slot: usize,
    /// The end of the log behind the other slot; `None`: this process has not written that slot.
    log: Option<LogEnd>,
    /// The next copy to write. Only the newest is kept, so no queue builds up.
    pending: Option<Copy>,
    busy: bool,
    /// A write failed: nothing more is written until the drive is attached again.
    pub failed: bool,
}

impl Site {
    pub(crate) fn new(id: DriveId, medium: Arc<dyn Medium>, copy: Copy, slot: usize) -> Site {
        let name = format!("control-{}", &id.to_hex()[..6]);
        let pool = IoPool::new(&name, 1, 2);
        Site { medium, pool, copy, slot, log: None, pending: None, busy: false, failed: false }
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        self.pool.close();
    }
}

pub(crate) struct Shared {
    pub deployment: DeploymentId,
    /// What readers see: the last snapshot that was decided (or found, while the store is read-only).
    pub seen: RwLock<Arc<Snapshot>>,
    pub sites: Mutex<BTreeMap<DriveId, Site>>,
    /// Highest revision ever passed to a drive in this term. A revision is never reused.
    pub used: Mutex<u64>,
    /// The term this process writes in; 0 while read-only.
    pub term: Mutex<u64>,
    pub turn: tokio::sync::Mutex<()>,
    /// Counts finished writes.
    pub progress: watch::Sender<u64>,
    /// What drives append to their logs.
    recent: Mutex<RecentChanges>,
    history: History,
    announced: Announced,
}

/// The embedded control store. Cheap to clone: all clones are one store. Users hold a [`Control`] over it;
/// only the code that manages the drives holds this.
#[derive(Clone)]
pub struct Embedded {
    pub(crate) shared: Arc<Shared>,
}

impl Embedded {
    pub(crate) fn assemble(
        deployment: DeploymentId,
        sites: BTreeMap<DriveId, Site>,
        seen: Arc<Snapshot>,
    ) -> Embedded {
        let revision = seen.revision;
        Embedded {
            shared: Arc::new(Shared {
                deployment,
                seen: RwLock::new(seen),
                sites: Mutex::new(sites),
                used: Mutex::new(revision),
                term: Mutex::new(0),
                turn: tokio::sync::Mutex::new(()),
                progress: watch::Sender::new(0),
                recent: Mutex::default(),
                history: History::new(revision),
                announced: Announced::default(),
            }),
        }
    }

    /// The member drives.
    #[must_use]
    pub fn members(&self) -> Vec<DriveId> {
        self.shared.seen.read().members.clone()
    }

    /// The handle that users of the store hold.
    #[must_use]
    pub fn control(&self) -> Control {
        Control::new(Arc::new(self.clone()))
    }

    /// Changes the members together with keys, atomically. `members` must be attached.
    ///
    /// # Errors
    /// Like [`Control::update`].
    pub fn change_members(&self, update: Update, members: Vec<DriveId>) -> BoxFuture<'_, Result<u64>> {
        Box::pin(async move {
            update.check()?;
            self.commit(&update, Some(members)).await
        })
    }

    async fn commit(&self, update: &Update, members: Option<Vec<DriveId>>) -> Result<u64> {
        let _turn = self.shared.turn.lock().await;
        let term = self.writer()?;
        let old = self.shared.seen.read().clone();
        check(&old, update)?;
        if members.is_none() && !update.changes_something() {
            return Ok(old.revision);
        }
        let revision = {
            let mut used = self.shared.used.lock();
            *used += 1;
            *used
        };
        let (next, changes) = apply(&old, update, members, term, revision)?;
        if let Some(change) = LoggedChange::between(&old, &next, &changes) {
            self.shared.recent.lock().add(change);
        }
        let next = Arc::new(next);
        self.write_all(&next, term);
        if !self.wait_majority(&next).await {
            return Err(Error::Unavailable("no majority of its drives took the change".to_owned()));
        }
        *self.shared.seen.write() = next;
        self.shared.history.add(changes, revision);
        Ok(revision)
    }

    /// The term this process writes in.
    fn writer(&self) -> Result<u64> {
        match *self.shared.term.lock() {
            0 => Err(Error::Unavailable("fewer than a majority of its drives".to_owned())),
            term => Ok(term),
        }
    }

    /// Publishes `seen` to readers without an update (at the start, or for a copy found later).
    pub(crate) fn show(&self, seen: Arc<Snapshot>) {
        let revision = seen.revision;
        *self.shared.seen.write() = seen;
        self.shared.history.jump(revision);
    }

    /// Detaches a drive, for instance because it failed.
    pub fn detach(&self, drive: DriveId) {
        self.shared.sites.lock().remove(&drive);
        self.shared.progress.send_modify(|n| *n += 1);
    }

    /// Passes a snapshot to every attached member; each writes the newest one it was given.
    pub(crate) fn write_all(&self, snapshot: &Arc<Snapshot>, promised: u64) {
        let ids: Vec<DriveId> = self.shared.sites.lock().keys().copied().collect();
        for id in ids {
            self.write_one(id, Copy { promised, snapshot: snapshot.clone() });
        }
    }

    /// Passes one drive the next copy to write.
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

    /// Waits until majorities of `members` and `before` hold `snapshot`; false if that became impossible or
    /// took too long.
    async fn wait_majority(&self, snapshot: &Snapshot) -> bool {
        self.wait(&[&snapshot.members, &snapshot.before], |s| {
            s.copy.snapshot.position() >= snapshot.position()
        })
        .await
    }

    /// Waits until `done` holds for a majority of each of `sets`.
    pub(crate) async fn wait(&self, sets: &[&[DriveId]], done: impl Fn(&Site) -> bool) -> bool {
        let mut progress = self.shared.progress.subscribe();
        let deadline = time::Instant::now() + PATIENCE;
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
            if time::timeout_at(deadline, progress.changed()).await.is_err() {
                return false;
            }
        }
    }
}

/// Runs on the drive's own thread: writes until nothing is pending.
fn write_pending(shared: &Shared, id: DriveId, medium: &Arc<dyn Medium>) {
    loop {
        let (copy, slot, record) = {
            let mut sites = shared.sites.lock();
            // The drive may have been attached again under the same id: that one has its own thread.
            let Some(site) = sites.get_mut(&id).filter(|s| Arc::ptr_eq(&s.medium, medium)) else { return };
            match site.pending.take() {
                Some(copy) if !site.failed => {
                    let record = shared.record(site, &copy);
                    (copy, site.slot, record)
                }
                _ => {
                    site.busy = false;
                    drop(sites);
                    shared.progress.send_modify(|n| *n += 1);
                    return;
                }
            }
        };
        let result = match record {
            Some((at, bytes, end)) => medium.write_log(at, &bytes).map(|()| (slot, end)),
            None => {
                let bytes = copy.encode(shared.deployment, id);
                medium.write(slot, &bytes).map(|()| (1 - slot, LogEnd::behind(&bytes)))
            }
        };
        let mut sites = shared.sites.lock();
        let Some(site) = sites.get_mut(&id).filter(|s| Arc::ptr_eq(&s.medium, medium)) else { return };
        match result {
            Ok((slot, end)) => {
                site.copy = copy;
                site.slot = slot;
                site.log = Some(end);
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

impl Shared {
    /// The record that makes what the drive holds this copy: where it begins, its bytes, and the end of the log behind
    /// it. `None`: the drive needs a full copy.
    fn record(&self, site: &Site, next: &Copy) -> Option<(u64, Vec<u8>, LogEnd)> {
        let log = site.log.filter(|_| site.copy.promised == next.promised)?;
        let path = self.recent.lock().path(site.copy.snapshot.position(), next.snapshot.position())?;
        let (bytes, end) = log.record(&path)?;
        Some((log.at(), bytes, end))
    }
}

impl ControlDriver for Embedded {
    fn deployment(&self) -> DeploymentId {
        self.shared.deployment
    }

    fn get(&self, key: &str) -> Option<Value> {
        self.shared.seen.read().entries.get(key).cloned()
    }

    fn list(&self, prefix: &str) -> Vec<(String, Value)> {
        let seen = self.shared.seen.read().clone();
        seen.entries
            .range(prefix.to_owned()..)
            .take_while(|(k, _)| k.starts_with(prefix))
            .map(|(k, v)| (k.clone(), v.clone()))
            .collect()
    }

    fn revision(&self) -> u64 {
        self.shared.seen.read().revision
    }

    fn health(&self) -> Health {
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
            age: Duration::ZERO,
        }
    }

    /// Succeeds if this process is the one writer and a majority holds the published snapshot.
    fn barrier(&self) -> BoxFuture<'_, Result<()>> {
        Box::pin(async move {
            let _turn = self.shared.turn.lock().await;
            self.writer().map(|_| ())
        })
    }

    fn update(&self, update: Update) -> BoxFuture<'_, Result<u64>> {
        Box::pin(async move { self.commit(&update, None).await })
    }

    fn watch(&self, from: u64) -> Watch {
        self.shared.history.watch(from)
    }

    fn settled(&self, revision: u64) -> BoxFuture<'_, ()> {
        Box::pin(self.shared.history.settled(revision))
    }

    fn announce(&self, node: u16) -> BoxFuture<'_, Result<Announcement>> {
        Box::pin(std::future::ready(self.shared.announced.announce(node)))
    }

    fn announced(&self) -> watch::Receiver<Nodes> {
        self.shared.announced.watch()
    }

    /// Waits until no write is running. Needed before this process opens the same drives again; not needed
    /// when the process exits.
    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            let _turn = self.shared.turn.lock().await;
            *self.shared.term.lock() = 0;
            let mut progress = self.shared.progress.subscribe();
            let deadline = time::Instant::now() + PATIENCE;
            loop {
                progress.borrow_and_update();
                if self.shared.sites.lock().values().all(|s| !s.busy) {
                    return;
                }
                if time::timeout_at(deadline, progress.changed()).await.is_err() {
                    return;
                }
            }
        })
    }
}

fn check(old: &Snapshot, update: &Update) -> Result<()> {
    for step in update.steps() {
        let now = old.entries.get(step.key).map(|v| v.revision);
        if now != step.seen.revision() {
            return Err(Error::Conflict(step.key.to_owned()));
        }
    }
    Ok(())
}

fn apply(
    old: &Snapshot,
    update: &Update,
    members: Option<Vec<DriveId>>,
    term: u64,
    revision: u64,
) -> Result<(Snapshot, Vec<Change>)> {
    let mut next = old.clone();
    next.term = term;
    next.revision = revision;
    next.before.clone_from(&old.members);
    if let Some(members) = members {
        next.members = members;
    }
    let mut changes = Vec::new();
    for Step { key, action, .. } in update.steps() {
        let value = match action {
            Action::Expect => continue,
            Action::Set(bytes) => {
                next.entries.insert(key.to_owned(), Value { revision, bytes: bytes.clone() });
                Some(bytes.clone())
            }
            Action::Remove if next.entries.remove(key).is_some() => None,
            Action::Remove => continue,
        };
        changes.push(Change { revision, key: key.to_owned(), value });
    }
    let size: usize = next.entries.iter().map(|(k, v)| k.len() + v.bytes.len() + 32).sum();
    if size > MAX_BYTES / 2 {
        return Err(Error::TooLarge("the store"));
    }
    Ok((next, changes))
}
