//! Moves the control store of a machine that is alone into etcd, so that the machine becomes the first node of a
//! cluster: node 0. No object is touched; the map stays as it is.
//!
//! Order: everything is checked; the drives are marked as those of the cluster; the content is written to etcd, which
//! shows it complete or not at all. From the first mark on, the machine cannot start alone, so nobody changes the content
//! on the drives meanwhile. An import that ended early is repeated, or undone while etcd does not have the content.
//!
//! Invariants: no drive that is not marked may be one of those with which a machine that is alone would start; the drives
//! are locked by this process until the end.
//!
//! Must not depend on: how a node of a cluster starts.

use std::path::PathBuf;
use std::sync::Arc;

use ashlar_cluster::registry::{Cluster, NodeRecord, State};
use ashlar_cluster::{Control, Map};
use ashlar_drive::Drive;
use ashlar_etcd::{Error as EtcdError, Etcd};
use ashlar_format::DeploymentId;
use ashlar_iam::{Iam, Root as Credential};
use bytes::Bytes;
use futures::future::BoxFuture;
use tokio::sync::mpsc;

use super::clock::now_ms;
use super::cluster_start::{self, ClusterPlan};
use super::control_store;
use super::drive_discovery::{self, StartPlan};
use super::drive_monitor::workers::Workers;
use super::formation;
use super::kms::Configured;
use super::node::blocking;
use super::node_start::{self, Plan};
use super::start_folders::{Opened, StartFolders};

/// The number of the node that was alone.
const NUMBER: u16 = 0;

/// What an import did.
pub struct Imported {
    /// The deployment.
    pub deployment: DeploymentId,
    /// Keys of the control store.
    pub keys: usize,
    /// Drives of this machine.
    pub drives: usize,
    /// An earlier import had written everything already.
    pub before: bool,
}

/// Moves the control store of the deployment in the folders of `plan` into etcd.
///
/// # Errors
/// A message for the operator. Unless it says otherwise, nothing was changed.
pub fn import<'a>(
    plan: &'a Plan,
    environment: Option<Credential>,
    keys: Configured,
) -> BoxFuture<'a, Result<Imported, String>> {
    Box::pin(async move {
        let cluster = plan.cluster.as_ref().ok_or("an import needs --control and --cluster")?;
        if cluster.token.is_some() || cluster.nodes.is_some() {
            return Err(
                "an import makes a cluster of one node; others join it: leave --join and --nodes out".into(),
            );
        }
        let (deployment, opened) = open_drives(plan).await?;
        let moved = move_store(plan, cluster, (deployment, &opened), environment, keys).await;
        let drives = opened.iter().filter_map(|(_, d)| d.as_ref().ok());
        futures::future::join_all(drives.map(Drive::close)).await;
        moved
    })
}

/// Opens, and so locks, the drives of the one deployment in the folders.
async fn open_drives(plan: &Plan) -> Result<(DeploymentId, Opened), String> {
    let (_, drive_options) = node_start::budget(plan, 0);
    let (sender, answers) = mpsc::unbounded_channel();
    let mut folders = StartFolders::new(&plan.paths, Workers::new(sender, drive_options), answers);
    folders.inspect().await;
    let deployment = match drive_discovery::decide(&folders.inspected())? {
        StartPlan::Existing(deployment) => deployment,
        StartPlan::New => {
            return Err(
                "the folders hold no deployment: form a cluster with `ashlar server --nodes N`".into()
            );
        }
    };
    Ok((deployment, folders.open(false).await?))
}

async fn move_store(
    plan: &Plan,
    cluster: &ClusterPlan,
    (deployment, opened): (DeploymentId, &Opened),
    environment: Option<Credential>,
    keys: Configured,
) -> Result<Imported, String> {
    let name = cluster.etcd.cluster.as_str();
    let drives: Vec<Drive> = opened.iter().filter_map(|(_, d)| d.as_ref().ok().cloned()).collect();
    let paths: Vec<PathBuf> = drives.iter().map(|d| d.path().to_owned()).collect();
    let marks = marks(paths.clone()).await?;
    let other = |m: &&String| *m != name;
    if let Some((path, other)) = marks.iter().find_map(|(p, m)| Some((p, m.as_ref().filter(other)?))) {
        return Err(format!("{} belongs to the cluster {other}", path.display()));
    }
    let marked = marks.iter().any(|(_, mark)| mark.is_some());
    if let Some(stored) = there_already(cluster, deployment, marked).await? {
        // An earlier import may have ended between the two.
        mark(paths, name).await?;
        return Ok(Imported { deployment, keys: stored, drives: drives.len(), before: true });
    }
    check_clock(cluster).await?;
    let embedded = node_start::open_control(deployment, opened).await?;
    let control = embedded.control();
    let ready = check(plan, cluster, &control, &drives, environment, &keys).await;
    let entries = match ready {
        Ok(()) => entries(cluster, &control, &drives),
        Err(why) => Err(why),
    };
    control.close().await;
    let entries = entries?;
    let count = entries.len();
    mark(paths, name).await?;
    match Etcd::create(&cluster.etcd, deployment, entries).await {
        Ok(()) => Ok(Imported { deployment, keys: count, drives: drives.len(), before: false }),
        Err(why) => Err(format!(
            "{why}\nThe import is not complete, and the server does not start until it is: repeat it, or undo it with \
             --undo"
        )),
    }
}

/// Removes the marks of an import that did not complete.
///
/// # Errors
/// A message for the operator: etcd has the content, or cannot say.
pub fn undo(plan: &Plan) -> BoxFuture<'_, Result<usize, String>> {
    Box::pin(async move {
        let cluster = plan.cluster.as_ref().ok_or("an import needs --control and --cluster")?;
        let name = cluster.etcd.cluster.as_str();
        let (deployment, opened) = open_drives(plan).await?;
        let drives: Vec<Drive> = opened.iter().filter_map(|(_, d)| d.as_ref().ok().cloned()).collect();
        let undone = async {
            if there_already(cluster, deployment, true).await?.is_some() {
                return Err(format!("the import into the cluster {name} is complete: it cannot be undone"));
            }
            let ours = marks(drives.iter().map(|d| d.path().to_owned()).collect()).await?;
            let ours: Vec<PathBuf> =
                ours.into_iter().filter(|(_, m)| m.as_deref() == Some(name)).map(|(p, _)| p).collect();
            blocking(move || {
                ours.iter().try_for_each(|p| {
                    control_store::unmark(p).map_err(|e| format!("{}: {e}", p.display()))
                })?;
                Ok(ours.len())
            })
            .await?
        };
        let undone = undone.await;
        futures::future::join_all(drives.iter().map(Drive::close)).await;
        undone
    })
}

/// The marks of folders.
async fn marks(paths: Vec<PathBuf>) -> Result<Vec<(PathBuf, Option<String>)>, String> {
    let read = control_store::marks(paths).await.into_iter();
    read.map(|(path, mark)| match mark {
        Ok(mark) => Ok((path, mark)),
        Err(e) => Err(format!("{}: {e}", path.display())),
    })
    .collect()
}

async fn mark(paths: Vec<PathBuf>, name: &str) -> Result<(), String> {
    let name = name.to_owned();
    blocking(move || {
        let one = |p: &PathBuf| control_store::mark(p, &name).map_err(|e| format!("{}: {e}", p.display()));
        paths.iter().try_for_each(one)
    })
    .await?
}

/// How many keys etcd has, if it has the content of this deployment already.
async fn there_already(
    cluster: &ClusterPlan,
    deployment: DeploymentId,
    marked: bool,
) -> Result<Option<usize>, String> {
    let name = &cluster.etcd.cluster;
    let etcd = match Etcd::open(&cluster.etcd, Vec::new(), None).await {
        Ok(etcd) => etcd,
        Err(EtcdError::NotCreated(_)) => return Ok(None),
        Err(e) => return Err(e.to_string()),
    };
    let control = etcd.control();
    let (found, keys) = (control.deployment(), control.list("").len());
    let registry = formation::registry(&control);
    control.close().await;
    let formed = registry?.cluster.state == State::Formed;
    if found != deployment || !formed || !marked {
        return Err(format!("etcd holds a cluster named {name} already: choose another name"));
    }
    Ok(Some(keys))
}

async fn check_clock(cluster: &ClusterPlan) -> Result<(), String> {
    cluster_start::check_offset(ashlar_etcd::clock_offset(&cluster.etcd).await)
}

/// Everything that the start of a node of a cluster will need, so that no import is followed by a start that fails.
async fn check(
    plan: &Plan,
    cluster: &ClusterPlan,
    control: &Control,
    drives: &[Drive],
    environment: Option<Credential>,
    keys: &Configured,
) -> Result<(), String> {
    let health = control.health();
    if !health.writable {
        return Err(
            "too few drives are present to change the control store: bring back more of them first".into()
        );
    }
    let map = Map::read(control).map_err(|e| e.to_string())?;
    node_start::check_code(&map, plan.code)?;
    let present = |id| drives.iter().any(|d| d.label().drive == id);
    let members = map.members();
    let missing = members.iter().filter(|id| !present(**id)).count();
    // A machine that is alone reads the control store with one drive of every majority.
    if missing >= members.len() - members.len() / 2 {
        return Err(format!("{missing} of {} drives of the deployment are missing", members.len()));
    }
    if let Some(d) = drives.iter().find(|d| map.drive(d.label().drive).is_none()) {
        tracing::warn!(drive = %d.path().display(), "the map does not have this drive; it is not used");
    }
    keys.check_shared(control, &plan.paths, environment.is_none()).await?;
    let (root, _) = node_start::root(control, environment, &keys.sealer()).await?;
    let old = cluster.old_secret.as_ref();
    let iam = Iam::open(control.clone(), root, old, Arc::new(now_ms)).await;
    iam.map(drop).map_err(|e| format!("identities: {e}"))
}

/// What etcd will hold: the content as it is, and the records of a cluster of one node.
fn entries(
    cluster: &ClusterPlan,
    control: &Control,
    drives: &[Drive],
) -> Result<Vec<(String, Bytes)>, String> {
    let map = Map::read(control).map_err(|e| e.to_string())?;
    let record = NodeRecord::new(
        cluster.address.clone(),
        cluster.endpoint.clone(),
        cluster.host.clone(),
        env!("CARGO_PKG_VERSION").to_owned(),
        formation::drives_of(drives),
    )
    .with_levels(cluster.levels);
    let mut entries: Vec<(String, Bytes)> =
        control.list("").into_iter().map(|(key, value)| (key, value.bytes)).collect();
    let record_of_all = Cluster::imported(map.code(), cluster.settings.clone());
    entries.push(record_of_all.at_level(cluster.levels.newest).entry());
    entries.push(record.imported(NUMBER));
    Ok(entries)
}
