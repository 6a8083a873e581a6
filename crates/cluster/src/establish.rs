//! Creates and opens the store: how a process becomes the one writer at its start.
//!
//! Only one process writes at a time (it locks the drives), but each may leave copies on a minority that the
//! next one does not see. So a start follows Paxos: first a majority durably promises a new term; then the
//! highest content among the copies is written under that term; only then does the store answer. A promise is
//! a full copy in the other slot, with unchanged content. Fewer drives than a majority, but at least one of every
//! majority (n - M + 1), allow only reading (docs/protocol.md 2.13).
//!
//! Invariant: blank copies hold no decision and never count for reading.
//!
//! Must not depend on: what the values mean.

use ashlar_environment::time;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use ashlar_format::{DeploymentId, DriveId};
use bytes::Bytes;
use futures::future::BoxFuture;

use crate::change_log::replay;
use crate::control::Value;
use crate::copy::{Copy, Medium, Snapshot};
use crate::embedded::{Embedded, PATIENCE, Site};
use crate::{Error, Result};

impl Embedded {
    /// Creates the store of a new deployment on its drives. All drives must be present and blank (or left by
    /// an interrupted `create`). Writes all of them, then opens the store.
    ///
    /// # Errors
    /// `Exists` if any drive was in service already, `Unavailable` if a drive cannot be written.
    pub fn create<'a>(
        deployment: DeploymentId,
        media: Vec<(DriveId, Arc<dyn Medium>)>,
        entries: Vec<(String, Bytes)>,
    ) -> BoxFuture<'a, Result<Embedded>> {
        Box::pin(async move {
            let members: Vec<DriveId> = media.iter().map(|(d, _)| *d).collect();
            let sites = read_sites(deployment, media).await;
            if sites.len() != members.len() || members.is_empty() {
                return Err(Error::Unavailable("not all drives can be read".to_owned()));
            }
            // Only this function writes term 1; the first opening writes term 2.
            if sites.values().any(|s| s.copy.snapshot.term > 1) {
                return Err(Error::Exists);
            }
            let entries = entries.into_iter().map(|(k, bytes)| (k, Value { revision: 1, bytes })).collect();
            let first = Snapshot { term: 1, revision: 1, before: members.clone(), members, entries };
            let first = Arc::new(first);
            let control = Embedded::assemble(deployment, sites, first.clone());
            control.write_all(&first, 0);
            for id in &first.members {
                if !control.wait(&[&[*id]], |s| s.copy.snapshot == first).await {
                    return Err(Error::Unavailable(format!("drive {id} cannot be written")));
                }
            }
            control.establish().await?;
            Ok(control)
        })
    }

    /// Opens the store from the drives that are present. It opens with at least one drive of every majority,
    /// and accepts changes with a majority.
    ///
    /// # Errors
    /// `NotCreated` if all drives are blank, `Unavailable` if too few copies can be read.
    pub fn open(
        deployment: DeploymentId,
        media: Vec<(DriveId, Arc<dyn Medium>)>,
    ) -> BoxFuture<'static, Result<Embedded>> {
        Box::pin(async move {
            let asked = media.len();
            let sites = read_sites(deployment, media).await;
            let best = best(&sites);
            if best.term == 0 {
                return Err(if sites.len() == asked && asked > 0 {
                    Error::NotCreated
                } else {
                    Error::Unavailable("no copy of it can be read".to_owned())
                });
            }
            readable(&best, &sites)?;
            let control = Embedded::assemble(deployment, sites, best);
            match control.establish().await {
                Ok(()) | Err(Error::Unavailable(_)) => Ok(control),
                Err(e) => Err(e),
            }
        })
    }

    /// Adds a drive, or a drive that returned. Its copy is brought up to date. A read-only store may accept
    /// changes again after this.
    ///
    /// # Errors
    /// `Unavailable` if the drive cannot be read, `Superseded` if it shows a later writer.
    pub fn attach(&self, id: DriveId, medium: Arc<dyn Medium>) -> BoxFuture<'_, Result<()>> {
        Box::pin(async move {
            // Before the lock: a drive that hangs here must not block changes.
            let mut site = read_sites(self.shared.deployment, vec![(id, medium)]).await;
            let _turn = self.shared.turn.lock().await;
            let Some(site) = site.remove(&id) else {
                return Err(Error::Unavailable(format!("drive {id} cannot be read")));
            };
            let term = *self.shared.term.lock();
            if term > 0 {
                // A majority promised a later term; this process would have seen that.
                if site.copy.snapshot.term > term {
                    return Err(Error::Superseded);
                }
                self.shared.sites.lock().insert(id, site);
                let seen = self.shared.seen.read().clone();
                self.write_one(id, Copy { promised: term, snapshot: seen });
                return Ok(());
            }
            self.shared.sites.lock().insert(id, site);
            let best = best(&self.shared.sites.lock());
            self.show(best);
            match self.establish().await {
                Ok(()) | Err(Error::Unavailable(_)) => Ok(()),
                Err(e) => Err(e),
            }
        })
    }

    /// The two rounds. On success this process is the one writer.
    async fn establish(&self) -> Result<()> {
        let best = self.shared.seen.read().clone();
        let term = {
            let sites = self.shared.sites.lock();
            readable(&best, &sites)?;
            sites.values().map(|s| s.copy.promised.max(s.copy.snapshot.term)).max().unwrap_or(0) + 1
        };
        let sets: [&[DriveId]; 2] = [&best.members, &best.before];
        if sets.iter().any(|set| !self.reachable(set)) {
            return Err(Error::Unavailable("fewer than a majority of its drives".to_owned()));
        }
        // Round one: promises, each with the content that the drive has.
        let copies: Vec<(DriveId, Copy)> =
            self.shared.sites.lock().iter().map(|(d, s)| (*d, s.copy.clone())).collect();
        for (id, copy) in copies {
            self.write_one(id, Copy { promised: term, ..copy });
        }
        if !self.wait(&sets, |s| s.copy.promised >= term).await {
            return Err(Error::Unavailable("no majority of its drives can be written".to_owned()));
        }
        // Round two: the highest content under the new term. All contents were read before.
        let next = Arc::new(Snapshot { term, ..(*best).clone() });
        self.write_all(&next, term);
        if !self.wait(&sets, |s| s.copy.snapshot.position() >= next.position()).await {
            return Err(Error::Unavailable("no majority of its drives can be written".to_owned()));
        }
        *self.shared.used.lock() = next.revision;
        self.show(next);
        *self.shared.term.lock() = term;
        Ok(())
    }

    fn reachable(&self, set: &[DriveId]) -> bool {
        let sites = self.shared.sites.lock();
        set.iter().filter(|d| sites.get(d).is_some_and(|s| !s.failed)).count() > set.len() / 2
    }
}

/// The highest content among the copies.
fn best(sites: &BTreeMap<DriveId, Site>) -> Arc<Snapshot> {
    sites.values().map(|s| s.copy.snapshot.clone()).max_by_key(|s| s.position()).unwrap_or_default()
}

/// Whether at least one of every majority of `members` and of `before` has content: then nothing that was
/// decided is missing from what was read.
fn readable(best: &Snapshot, sites: &BTreeMap<DriveId, Site>) -> Result<()> {
    for set in [&best.members, &best.before] {
        let majority = set.len() / 2 + 1;
        let need = set.len() - majority + 1;
        let have = set.iter().filter(|d| sites.get(d).is_some_and(|s| !s.copy.is_blank())).count();
        if have < need {
            let text = format!("{have} of its {} drives hold a copy, {need} are needed", set.len());
            return Err(Error::Unavailable(text));
        }
    }
    Ok(())
}

/// How long the store waits for the last drives when most have answered.
const GRACE: Duration = Duration::from_secs(2);

/// Reads all drives at the same time; those that fail or hang are left out.
async fn read_sites(
    deployment: DeploymentId,
    media: Vec<(DriveId, Arc<dyn Medium>)>,
) -> BTreeMap<DriveId, Site> {
    let mut silent: Vec<DriveId> = media.iter().map(|(id, _)| *id).collect();
    let asked = silent.len();
    let (send, mut receive) = tokio::sync::mpsc::unbounded_channel();
    for (id, medium) in media {
        let send = send.clone();
        // A separate thread: a drive that hangs must not occupy a thread that others need.
        let started = ashlar_environment::thread::run_apart("control-read", move || {
            let _ = send.send((id, read_site(deployment, id, medium)));
        });
        if let Err(error) = started {
            tracing::warn!(drive = %id, %error, "control store: no thread can be started for the drive");
            silent.retain(|d| *d != id);
        }
    }
    drop(send);
    let mut deadline = time::Instant::now() + PATIENCE;
    let mut sites = BTreeMap::new();
    while !silent.is_empty() {
        let Ok(Some((id, result))) = time::timeout_at(deadline, receive.recv()).await else { break };
        silent.retain(|d| *d != id);
        match result {
            Ok(site) => {
                sites.insert(id, site);
                if sites.len() > asked / 2 {
                    deadline = deadline.min(time::Instant::now() + GRACE);
                }
            }
            Err(error) => tracing::warn!(drive = %id, %error, "control store: the copy cannot be read"),
        }
    }
    for id in silent {
        tracing::warn!(drive = %id, "control store: the drive does not answer");
    }
    sites
}

fn read_site(deployment: DeploymentId, id: DriveId, medium: Arc<dyn Medium>) -> std::io::Result<Site> {
    let newer = || std::io::Error::other("the copy was written by a newer release");
    let mut found = Copy::default();
    let mut slot = 0;
    let log = medium.read_log()?.unwrap_or_default();
    for s in 0..2 {
        let Some(bytes) = medium.read(s)? else { continue };
        if Copy::is_newer(&bytes) {
            return Err(newer());
        }
        let Some(mut copy) = Copy::decode(&bytes, deployment, id) else { continue };
        replay(&bytes, Arc::make_mut(&mut copy.snapshot), &log).map_err(|_| newer())?;
        let order = |c: &Copy| (c.snapshot.position(), c.promised);
        if order(&copy) >= order(&found) {
            found = copy;
            slot = 1 - s;
        }
    }
    Ok(Site::new(id, medium, found, slot))
}
