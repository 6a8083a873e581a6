//! Makes the store anew in an etcd that lost it, from a snapshot on drives.
//!
//! The entries are those of the snapshot, at other revisions; the identity names what it was restored from
//! ([`Identity`]). They are written and read back while the identity says that the store is not complete, so nobody
//! opens it; the last transaction completes it. A restore that ended early is repeated.
//!
//! Invariants: only a prefix that holds nothing, or what a restore of the same or an older state left, is written to.
//! The store is not completed while a node of the cluster is announced. Snapshots are only read.
//!
//! Must not depend on: folders, what values mean.

use std::collections::BTreeMap;
use std::time::Duration;

use ashlar_cluster::{Medium, Nodes, Value};
use ashlar_environment::thread;
use ashlar_environment::time::{self, Instant};
use ashlar_format::DeploymentId;
use bytes::Bytes;
use futures::future::BoxFuture;

use crate::create::Creator;
use crate::identity::Identity;
use crate::memory::Content;
use crate::read::{self, Greeting};
use crate::shared::PATIENCE;
use crate::wire::{self, Done, Keys};
use crate::{Error, Options, Result, snapshot};

/// How long the announcements of nodes that have ended may stay: longer than their lease.
const ENDED: Duration = Duration::from_secs(15);
/// How long it takes nodes that run to announce themselves in an etcd that lost everything: longer than the time between
/// renewals of their lease.
const ANNOUNCED: Duration = Duration::from_secs(5);
/// Pause before the announcements are read again.
const PAUSE: Duration = Duration::from_millis(500);
/// How often slots are read that do not verify, and the pause between.
const LOOKS: u32 = 5;
const BETWEEN_LOOKS: Duration = Duration::from_millis(100);
/// Most keys of a prefix that is not empty that are looked at.
const FOREIGN: usize = 1000;

/// A snapshot that verified.
pub struct Kept {
    cluster: String,
    content: Content,
    wall_ms: i64,
    identity: Identity,
}

/// What became of a restore.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Restored {
    /// Keys of the control store.
    pub keys: usize,
    /// An earlier restore of the same state was complete.
    pub before: bool,
}

impl Kept {
    /// The name of the cluster.
    #[must_use]
    pub fn cluster(&self) -> &str {
        &self.cluster
    }

    /// The deployment.
    #[must_use]
    pub fn deployment(&self) -> DeploymentId {
        self.content.deployment
    }

    /// The store, in 32 hexadecimal digits: one that was made anew or restored has another one.
    #[must_use]
    pub fn store(&self) -> &str {
        &self.identity.store
    }

    /// The revision of the last change.
    #[must_use]
    pub fn revision(&self) -> u64 {
        self.content.head.0
    }

    /// The wall time at which it was known to be current, in ms since 1970, by the clock of its node.
    #[must_use]
    pub fn wall_ms(&self) -> i64 {
        self.wall_ms
    }

    /// The entries.
    #[must_use]
    pub fn entries(&self) -> &BTreeMap<String, Value> {
        &self.content.entries
    }
}

/// The snapshots of one drive that verify; at most two. A slot that does not verify may be one that a node writes at
/// the moment: both are read again then, a few times. Blocks.
///
/// # Errors
/// Of the drive.
pub fn look(medium: &dyn Medium) -> std::io::Result<Vec<Kept>> {
    for _ in 1..LOOKS {
        if let (all, true) = look_once(medium)? {
            return Ok(all);
        }
        thread::sleep(BETWEEN_LOOKS);
    }
    look_once(medium).map(|(all, _)| all)
}

/// The snapshots that verify, and whether every slot that was ever written does.
fn look_once(medium: &dyn Medium) -> std::io::Result<(Vec<Kept>, bool)> {
    let (mut all, mut whole) = (Vec::new(), true);
    for slot in 0..snapshot::FILES.len() {
        let Some(bytes) = medium.read(slot)? else { continue };
        let Some((cluster, content, wall_ms)) = snapshot::decode_any(&bytes) else {
            whole = false;
            continue;
        };
        let identity = Identity::decode(&content.identity).map_err(std::io::Error::other)?;
        all.push(Kept { cluster, content, wall_ms, identity });
    }
    Ok((all, whole))
}

/// The place of the latest of some snapshots, which continues all others.
///
/// # Errors
/// `NoSnapshot`; `Settings` if they are not all of this cluster and one deployment; `Refused` if one knows a change that
/// the latest lacks.
pub fn latest(cluster: &str, all: &[&Kept]) -> Result<usize> {
    let first = all.first().ok_or(Error::NoSnapshot)?;
    for kept in all {
        if kept.cluster != cluster {
            return Err(Error::Settings(format!(
                "a snapshot is of the cluster {}, not of {cluster}",
                kept.cluster
            )));
        }
        if kept.deployment() != first.deployment() {
            return Err(Error::Settings(format!(
                "the snapshots are of the deployments {} and {}",
                first.deployment(),
                kept.deployment()
            )));
        }
    }
    let order = |kept: &Kept| (kept.content.head.0, kept.content.known, kept.wall_ms);
    // Of a store, the latest state; of stores, the one that was restored from all others.
    let candidates = (0..all.len()).filter(|at| {
        all.iter().all(|other| other.store() != all[*at].store() || order(other) <= order(all[*at]))
    });
    let mut conflict = None;
    for at in candidates {
        match all.iter().find_map(|other| all[at].lacks(other)) {
            None => return Ok(at),
            Some(why) => conflict = conflict.or(Some(why)),
        }
    }
    Err(Error::Refused(format!(
        "{}. Name the folders of one of both only, and keep copies of the others",
        conflict.unwrap_or_default()
    )))
}

impl Kept {
    /// What another snapshot knows that this one does not continue.
    fn lacks(&self, other: &Kept) -> Option<String> {
        let shown = |kept: &Kept| format!("revision {} of store {}", kept.revision(), kept.store());
        if self.store() != other.store() {
            return match self.identity.continues(&other.content) {
                Some(Ok(())) => None,
                Some(Err(_)) | None => {
                    Some(format!("{} is not a later state of {}", shown(self), shown(other)))
                }
            };
        }
        let differs =
            self.content.head.0 == other.content.head.0 && self.content.head.1 != other.content.head.1;
        differs.then(|| format!("{} was two different changes", shown(self)))
    }
}

/// Makes the store anew from a snapshot.
///
/// # Errors
/// `Running`: nodes of the cluster are announced. `Exists`: etcd holds a cluster of this name. `Refused`: other keys are
/// under the prefix, or a restore of a later state was begun. All others change nothing that a node could see either.
pub fn restore<'a>(options: &'a Options, kept: &'a Kept) -> BoxFuture<'a, Result<Restored>> {
    Box::pin(async move {
        if kept.cluster != options.cluster {
            return Err(Error::Settings(format!(
                "the snapshot is of the cluster {}, not of {}",
                kept.cluster, options.cluster
            )));
        }
        let creator = Creator::new(options, Identity::continuing(&kept.content)?)?;
        let keys = kept.content.entries.len();
        creator.version().await?;
        if let Found::Complete(before) = found(&creator).await? {
            let same = before.source().is_some_and(|from| from.is(&kept.content, kept.store()));
            return if same {
                Ok(Restored { keys, before: true })
            } else {
                Err(Error::Exists(options.cluster.clone()))
            };
        }
        nobody_runs(&creator).await?;
        let entries = kept.content.entries.iter().map(|(key, value)| (key.clone(), value.bytes.clone()));
        creator.fill(entries.collect()).await?;
        verify(&creator, kept).await?;
        let nobody = vec![wire::nothing_under(&creator.keys.nodes())];
        match creator.complete(nobody, b"restored").await {
            // A node may have been started meanwhile.
            Err(Error::Exists(name)) => match announced(&creator).await? {
                none if none.is_empty() => Err(Error::Exists(name)),
                nodes => Err(Error::Running(nodes)),
            },
            other => other.map(|()| Restored { keys, before: false }),
        }
    })
}

/// What is under the prefix.
enum Found {
    /// Nothing, or a store that is not complete.
    Free,
    Complete(Identity),
}

async fn found(creator: &Creator) -> Result<Found> {
    let Keys { root } = &creator.keys;
    let reads = [wire::range(&creator.keys.identity()), wire::range_names(root, FOREIGN)];
    let reads = reads.into_iter().map(wire::read).collect();
    let done: Done = creator.send(Vec::new(), reads, Vec::new()).await?;
    if let Some(identity) = done.found(0).first() {
        let identity = Identity::decode(&identity.value)?;
        return Ok(if identity.complete { Found::Complete(identity) } else { Found::Free });
    }
    // Nodes that run announce themselves in any etcd.
    let nodes = creator.keys.nodes().into_bytes();
    match done.found(1).iter().find(|pair| !pair.key.starts_with(&nodes)) {
        None => Ok(Found::Free),
        Some(other) => Err(Error::Refused(format!(
            "{root} is not empty: it has {}, and no store. Remove what is there first (`etcdctl del --prefix {root}`)",
            String::from_utf8_lossy(&other.key)
        ))),
    }
}

async fn announced(creator: &Creator) -> Result<Vec<u16>> {
    let read = vec![wire::read(wire::range_names(&creator.keys.nodes(), FOREIGN))];
    let done: Done = creator.send(Vec::new(), read, Vec::new()).await?;
    Ok(done.found(0).iter().filter_map(|pair| read::number(&creator.keys, &pair.key)).collect())
}

/// Waits until no node is announced, for as long as a node that runs needs to announce itself.
async fn nobody_runs(creator: &Creator) -> Result<()> {
    let begin = Instant::now();
    let mut alone = begin;
    while alone.elapsed() < ANNOUNCED {
        let nodes = announced(creator).await?;
        if !nodes.is_empty() {
            if begin.elapsed() > ENDED {
                return Err(Error::Running(nodes));
            }
            alone = Instant::now();
        }
        time::sleep(PAUSE).await;
    }
    Ok(())
}

/// Reads everything back.
async fn verify(creator: &Creator, kept: &Kept) -> Result<()> {
    let until = Instant::now() + PATIENCE;
    loop {
        let at = *creator.gateway.current().borrow();
        let read = vec![wire::read(wire::range(&creator.keys.identity()))];
        let start = Instant::now();
        let header = creator.send(Vec::new(), read, Vec::new()).await?.header;
        let (identity, head) = (kept.content.identity.clone(), (0, Bytes::new()));
        let begun = Greeting { start, header, identity, head, fence: 0, nodes: Nodes::default() };
        match read::everything(&creator.gateway, &creator.keys, at, &begun).await {
            // Compacted meanwhile.
            Ok(None) => {}
            Err(Error::Unreachable(_)) if Instant::now() < until => {
                creator.gateway.leave(at);
                time::sleep(PAUSE).await;
            }
            Err(error) => return Err(error),
            Ok(Some(content)) => {
                let all = |content: &Content| -> Vec<(String, Bytes)> {
                    content.entries.iter().map(|(key, value)| (key.clone(), value.bytes.clone())).collect()
                };
                let differs = "what was written is not what etcd has: another program writes to it";
                return match all(&content) == all(&kept.content) {
                    true => Ok(()),
                    false => Err(Error::Corrupt(differs.to_owned())),
                };
            }
        }
    }
}
