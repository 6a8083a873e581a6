//! Makes the control store of a cluster anew in etcd, from the snapshots in folders of drives.
//!
//! The folders may be those of one node, or copies of those of several. They are only read.
//!
//! Invariants: nothing is written to etcd unless every folder could be read, all snapshots belong to one cluster, and
//! one of them continues all others.
//!
//! Must not depend on: the rest of the options of a server, how a node starts.

use std::path::{Path, PathBuf};
use std::time::Duration;

use ashlar_cluster::FileMedium;
use ashlar_cluster::registry::{self, Cluster, State};
use ashlar_drive::{Probe, probe};
use ashlar_environment::{thread, time};
use ashlar_etcd::{FILES, Kept, Options, latest, look};
use ashlar_format::DeploymentId;
use ashlar_machine::Folder;
use futures::future::{BoxFuture, join_all};

/// How long a folder may take to be read.
const PATIENCE: Duration = Duration::from_secs(30);

/// The snapshots in a folder.
pub struct FolderSnapshots {
    /// The folder.
    pub path: PathBuf,
    /// Those that verify, the newest last; or why the folder cannot be used.
    pub found: Result<Vec<Kept>, String>,
}

/// What a restore did.
pub struct Restored {
    /// The deployment.
    pub deployment: DeploymentId,
    /// The revision that it was restored from.
    pub revision: u64,
    /// When that was known to be current, in ms since 1970.
    pub wall_ms: i64,
    /// Keys of the control store.
    pub keys: usize,
    /// An earlier restore had written everything already.
    pub before: bool,
}

/// Reads the snapshots in folders, each on a thread of its own.
pub fn snapshots(paths: Vec<PathBuf>) -> BoxFuture<'static, Vec<FolderSnapshots>> {
    let one = |path: PathBuf| async move {
        let (send, receive) = tokio::sync::oneshot::channel();
        let folder = path.clone();
        let started = thread::run_apart("snapshot-look", move || {
            // The receiver is gone if it took too long.
            let _ = send.send(in_folder(&folder));
        });
        let found = match started {
            Err(error) => Err(error.to_string()),
            Ok(()) => match time::timeout(PATIENCE, receive).await {
                Ok(Ok(found)) => found,
                _ => Err("it does not answer".to_owned()),
            },
        };
        FolderSnapshots { path, found }
    };
    Box::pin(async move { join_all(paths.into_iter().map(one)).await })
}

fn in_folder(path: &Path) -> Result<Vec<Kept>, String> {
    let medium = FileMedium::named(Folder::real(path, None), FILES);
    let mut found = look(&medium).map_err(|e| e.to_string())?;
    found.sort_by_key(Kept::revision);
    // A copy has no label.
    if let Probe::Ours(label) = probe(path)
        && let Some(other) = found.iter().find(|kept| kept.deployment() != label.deployment)
    {
        let (drive, snapshot) = (label.deployment, other.deployment());
        return Err(format!("the drive belongs to the deployment {drive}, its snapshot to {snapshot}"));
    }
    Ok(found)
}

/// The snapshot to restore, which continues all others.
///
/// # Errors
/// A message for the operator.
pub fn choose<'a>(cluster: &str, folders: &'a [FolderSnapshots]) -> Result<&'a Kept, String> {
    let mut all = Vec::new();
    for folder in folders {
        match &folder.found {
            Ok(found) => all.extend(found),
            Err(why) => {
                return Err(format!(
                    "{}: {why}. It may hold a newer snapshot; leave it out to restore without it",
                    folder.path.display()
                ));
            }
        }
    }
    let place = latest(cluster, &all).map_err(|e| e.to_string())?;
    let kept = all.swap_remove(place);
    let formed = kept.entries().get(registry::CLUSTER).map(|value| Cluster::decode(&value.bytes));
    match formed.transpose().map_err(|e| e.to_string())? {
        Some(Cluster { state: State::Formed, .. }) => Ok(kept),
        _ => Err("the snapshot is not of a cluster that was formed".to_owned()),
    }
}

/// Makes the control store anew from the latest snapshot in the folders.
///
/// # Errors
/// A message for the operator. No node can have seen anything of what was written before; the restore can be repeated.
pub fn restore(options: &Options, paths: Vec<PathBuf>) -> BoxFuture<'_, Result<Restored, String>> {
    Box::pin(async move {
        let folders = snapshots(paths).await;
        let kept = choose(&options.cluster, &folders)?;
        let done = ashlar_etcd::restore(options, kept).await.map_err(|e| e.to_string())?;
        Ok(Restored {
            deployment: kept.deployment(),
            revision: kept.revision(),
            wall_ms: kept.wall_ms(),
            keys: done.keys,
            before: done.before,
        })
    })
}
