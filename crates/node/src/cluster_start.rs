//! Building a node of a cluster: control store in etcd, formation or return, certificate, drives, store.
//!
//! Invariants: nothing is written to a folder before etcd, root's credentials and the settings are found to be those of
//! the cluster; a folder that belongs to a machine that is alone, or to another cluster, is not touched; without etcd a
//! node returns with what its drives keep of the control store, and never forms or joins.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use ashlar_cluster::registry::{Cluster, NodeRecord, State};
use ashlar_cluster::{Accept, Announcement, Control, Error as StoreError, Levels, Map};
use ashlar_drive::{Drive, Probe};
use ashlar_environment::time::{self, Instant};
use ashlar_etcd::{Error as EtcdError, Etcd};
use ashlar_etcd_member::Supervisor;
use ashlar_format::DeploymentId;
use ashlar_iam::{Error as IamError, Iam, Root as Credential, Secret};
use futures::future::BoxFuture;
use tokio::sync::mpsc;

use super::authority;
use super::clock::now_ms;
use super::control_store::{self, ControlStore, snapshots};
use super::credentials::Origin;
use super::drive_discovery::{self, InspectedFolder, StartPlan};
use super::drive_monitor::workers::Workers;
use super::formation::{self, Candidate};
use super::kms::Configured;
use super::member::Member;
use super::node::random_id;
use super::node_start::{self, Opening, Parts, Plan, Started};
use super::start_folders::{Opened, StartFolders};
use super::told_control::ToldControl;

/// How far the clock of this machine may be off from that of etcd, in milliseconds.
const CLOCK: i64 = 30_000;
/// How long a start waits for the end of the announcement of an earlier process: longer than its lease.
const ANNOUNCED: Duration = Duration::from_secs(15);
/// How long a start waits for etcd of this node, which was started at the same time: for an election.
const OWN_ETCD: Duration = Duration::from_secs(10);
/// Time between attempts to reach an etcd that nodes are about to found, and between notes about it.
const FOUNDING: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));
/// Least memory for messages in each direction: the longest message must fit.
const MESSAGES: usize = 16 << 20;

/// The cluster that a node belongs to.
#[derive(Clone, Debug)]
pub struct ClusterPlan {
    /// Where etcd is, with the name of the cluster.
    pub etcd: ashlar_etcd::Options,
    /// The member of etcd that this node runs, or would run, if the nodes run etcd themselves.
    pub etcd_member: Option<Arc<Supervisor>>,
    /// How many nodes form the cluster; needed for its first start.
    pub nodes: Option<u16>,
    /// `HOST:PORT` for messages between nodes, as the others reach it.
    pub address: String,
    /// The URL at which this node serves S3.
    pub endpoint: String,
    /// The name of this machine.
    pub host: String,
    /// Permission to join a formed cluster: `ID.SECRET`.
    pub token: Option<String>,
    /// The loss of a node may cost a group more shards than its code can lose.
    pub accept_node_loss: bool,
    /// How long a node must be away until its slots move to drives of the others; `None`: they never do.
    pub rebuild_after: Option<Duration>,
    /// The feature levels of this release.
    pub levels: Levels,
    /// What must be equal on all nodes, by name.
    pub settings: BTreeMap<String, String>,
    /// Root's previous secret, after a change.
    pub old_secret: Option<Secret>,
}

/// Builds the node; see [`super::Node::open`].
pub(crate) fn open<'a>(
    plan: &'a Plan,
    cluster: &'a ClusterPlan,
    environment: Option<Credential>,
    keys: &'a mut Configured,
) -> BoxFuture<'a, Result<Opening, String>> {
    Box::pin(async move {
        let name = cluster.etcd.cluster.as_str();
        let messages = (usize::try_from(plan.memory).unwrap_or(usize::MAX) / 6).max(2 * MESSAGES);
        let (pool, drive_options) = node_start::budget(plan, messages);
        let (sender, answers) = mpsc::unbounded_channel();
        let workers = Workers::new(sender, drive_options).in_cluster(name);
        let mut folders = StartFolders::new(&plan.paths, workers, answers);
        folders.inspect().await;
        let mut found = folders.inspected();
        let known = match drive_discovery::decide(&found)? {
            StartPlan::New => None,
            StartPlan::Existing(id) => Some(id),
        };
        let unmarked = check_marks(&found, name).await?;
        node_start::warn_of_wide(&found);
        let etcd = open_store(cluster, &found, known, plan).await?;
        let told = ToldControl::new(etcd.clone());
        let control = told.control();
        if let Some(path) = unmarked
            && known.is_some()
            && formation::registry(&control).is_err()
        {
            return Err(format!("{path} belongs to a machine that is alone, not to the cluster {name}"));
        }
        if let Ok(registry) = formation::registry(&control) {
            registry.check_level(cluster.levels).map_err(|e| e.to_string())?;
        }
        check_offset(etcd.clock_offset().await)?;
        let (root, origin) = root(&control, environment, keys).await?;
        let iam = identities(&control, &root, cluster).await?;
        authority::ensure(&control, &iam).await?;
        let deployment = control.deployment();
        let formed = formation::registry(&control)?.cluster.state == State::Formed;
        let fresh = known.is_none() || !formed;
        let mut formatted = 0;
        if fresh {
            plan.deployments.check_new(&found, plan.new_deployment)?;
            formation::registry(&control)?.check_settings(&cluster.settings).map_err(|e| e.to_string())?;
            formatted = node_start::format_all(deployment, Some(name), &mut found).await?;
            folders.formatted(&found);
        }
        let opened = folders.open(fresh).await?;
        let drives: Vec<Drive> = opened.iter().filter_map(|(_, d)| d.as_ref().ok().cloned()).collect();
        if fresh {
            all_open(&opened)?;
        }
        let record = NodeRecord::new(
            cluster.address.clone(),
            cluster.endpoint.clone(),
            cluster.host.clone(),
            env!("CARGO_PKG_VERSION").to_owned(),
            formation::drives_of(&drives),
        )
        .with_levels(cluster.levels);
        let candidate = Candidate {
            control: &control,
            record,
            drives: &drives,
            settings: &cluster.settings,
            nodes: cluster.nodes,
            code: plan.code,
            token: cluster.token.as_deref().map(token).transpose()?,
        };
        let number = candidate.take_part().await?;
        let announced = announce(&control, number).await?;
        for drive in &drives {
            etcd.attach(drive.label().drive, snapshots(drive.path(), drive.label().drive));
        }
        let since = control.revision();
        let map = Map::read(&control).map_err(|e| e.to_string())?;
        node_start::check_code(&map, plan.code)?;
        let member = (name, number, cluster.levels);
        let member = Member::start(member, (&control, &iam), &cluster.address, messages)
            .await?
            .announced(announced)
            .rebuilding_after(cluster.rebuild_after)
            .with_etcd_member(cluster.etcd_member.clone());
        let member = Arc::new(member);
        told.tell(number, member.peers().clone());
        member.begin(&control, &Arc::new(iam));
        let parts = Parts {
            control_store: ControlStore::Etcd(etcd, control.clone()),
            map,
            folders,
            pool,
            member: Some(member),
            since,
        };
        let (node, start) = node_start::assemble(parts, plan)?;
        node_start::note_deployment(&node, plan.deployments.clone());
        Ok((node, Started { formatted, root, origin }, start))
    })
}

/// Refuses folders that belong to another cluster; returns one that belongs to none.
async fn check_marks(found: &[InspectedFolder], name: &str) -> Result<Option<String>, String> {
    let ours = found.iter().filter(|f| matches!(f.probe, Probe::Ours(_)));
    let paths: Vec<_> = ours.map(|f| f.path.clone()).collect();
    let mut unmarked = None;
    for (path, mark) in control_store::marks(paths).await {
        let path = path.display().to_string();
        match mark {
            Ok(Some(other)) if other != name => {
                return Err(format!("{path} belongs to the cluster {other}, not to {name}"));
            }
            Ok(Some(_)) => {}
            Ok(None) => unmarked = Some(path),
            Err(error) => tracing::warn!(path, %error, "the folder does not say which cluster it belongs to"),
        }
    }
    Ok(unmarked)
}

/// Opens the control store; makes it at the first start of the cluster. Without etcd, what the drives keep of it.
async fn open_store(
    cluster: &ClusterPlan,
    found: &[InspectedFolder],
    known: Option<DeploymentId>,
    plan: &Plan,
) -> Result<Etcd, String> {
    if let Some(member) = &cluster.etcd_member {
        member.ready(OWN_ETCD).await;
    }
    let media = || node_start::labels(found).map(|(path, l)| (l.drive, snapshots(path, l.drive))).collect();
    let (mut made, mut told) = (0, None);
    while made < 3 {
        match Etcd::open(&cluster.etcd, media(), known).await {
            Ok(etcd) => return Ok(etcd),
            Err(EtcdError::NotCreated(name)) if known.is_some() => {
                return Err(format!(
                    "etcd holds no cluster named {name}, but the drives belong to one: correct --control and --cluster, \
                     or restore etcd from a backup (docs/control-store.md)"
                ));
            }
            Err(EtcdError::NotCreated(_)) => {
                made += 1;
                create(cluster, plan).await?;
            }
            // The nodes found etcd at their first start; this one may be the first of them.
            Err(why @ (EtcdError::Unreachable(_) | EtcdError::NoQuorum(_)))
                if known.is_none() && cluster.etcd_member.is_some() =>
            {
                if told.is_none_or(|at: Instant| at.elapsed() > FOUNDING.1) {
                    tracing::info!(%why, "waiting for the etcd that the nodes run");
                    told = Some(Instant::now());
                }
                time::sleep(FOUNDING.0).await;
            }
            Err(why @ (EtcdError::Unreachable(_) | EtcdError::NoQuorum(_))) if known.is_some() => {
                let etcd = Etcd::open_from_snapshot(&cluster.etcd, media(), known).await;
                let etcd = etcd.map_err(|e| format!("{why}; and without it: {e}"))?;
                if formation::registry(&etcd.control())?.cluster.state != State::Formed {
                    return Err(why.to_string());
                }
                tracing::warn!(%why, "this node starts with what its drives keep of the control store");
                return Ok(etcd);
            }
            Err(e) => return Err(e.to_string()),
        }
    }
    Err("the control store keeps being made and removed; start again".to_owned())
}

/// Makes the control store of a cluster that begins to be formed. Another node may be faster.
async fn create(cluster: &ClusterPlan, plan: &Plan) -> Result<(), String> {
    if cluster.token.is_some() {
        return Err(format!("--join: etcd holds no cluster named {}", cluster.etcd.cluster));
    }
    let Some(nodes) = cluster.nodes.filter(|n| *n > 0) else {
        return Err(format!(
            "etcd holds no cluster named {}: to form it, say on every node how many there will be (--nodes N)",
            cluster.etcd.cluster
        ));
    };
    let accept = Accept { node_loss: cluster.accept_node_loss, shared_drive: plan.allow_shared_drive };
    let record = Cluster::forming(nodes, plan.code, accept, cluster.settings.clone());
    let record = record.at_level(cluster.levels.newest);
    let (key, value) = record.entry();
    match Etcd::create(&cluster.etcd, DeploymentId(random_id()), vec![(key, value)]).await {
        Ok(()) | Err(EtcdError::Exists(_)) => Ok(()),
        Err(e) => Err(e.to_string()),
    }
}

/// Refuses a clock that is this many milliseconds ahead of etcd's: signatures, locks and certificates depend on it.
pub(crate) fn check_offset(offset: Option<i64>) -> Result<(), String> {
    match offset {
        Some(off) if off.abs() > CLOCK => Err(format!(
            "the clock of this machine is {} s {} that of etcd: set both by NTP",
            off.abs() / 1000,
            if off > 0 { "ahead of" } else { "behind" }
        )),
        _ => Ok(()),
    }
}

/// Root's credentials: from the environment, which must be the same on all nodes; or made and stored by the first node,
/// if there is a key to seal them with.
async fn root(
    control: &Control,
    environment: Option<Credential>,
    keys: &Configured,
) -> Result<(Credential, Origin), String> {
    if environment.is_none() && keys.is_none() {
        return Err("a node of a cluster needs root's credentials: set the same ASHLAR_ROOT_USER and \
                    ASHLAR_ROOT_PASSWORD on every node, or configure the same root key or key server on every node"
            .to_owned());
    }
    node_start::root(control, environment, &keys.sealer()).await
}

/// Opens the identity store, which tells whether root's password is that of the cluster.
async fn identities(control: &Control, root: &Credential, cluster: &ClusterPlan) -> Result<Iam, String> {
    let old = cluster.old_secret.as_ref();
    Iam::open(control.clone(), root.clone(), old, Arc::new(now_ms)).await.map_err(|e| match e {
        IamError::OtherSeal => {
            "root's password differs from that of the cluster: set the same ASHLAR_ROOT_PASSWORD \
                                on all nodes (after a change, ASHLAR_ROOT_PASSWORD_OLD too)"
                .to_owned()
        }
        e => e.to_string(),
    })
}

/// At its first start, a node needs all its drives.
fn all_open(opened: &Opened) -> Result<(), String> {
    let failed: Vec<String> =
        opened.iter().filter_map(|(p, d)| Some(format!("{}: {}", p.display(), d.as_ref().err()?))).collect();
    if failed.is_empty() { Ok(()) } else { Err(failed.join("\n")) }
}

/// Announces this node, unless etcd is away. An earlier process of this node may still be announced for a while.
async fn announce(control: &Control, number: u16) -> Result<Option<Announcement>, String> {
    let until = Instant::now() + ANNOUNCED;
    loop {
        match control.announce(number).await {
            Ok(announcement) => return Ok(Some(announcement)),
            Err(StoreError::Conflict(_)) if Instant::now() < until => {
                tracing::info!(number, "another process is announced as this node; waiting for its end");
                time::sleep(Duration::from_secs(1)).await;
            }
            Err(StoreError::Conflict(_)) => {
                return Err(format!(
                    "node {number} runs already, in another process: no two may serve the same drives"
                ));
            }
            Err(error) => {
                tracing::warn!(%error, "this node cannot be announced yet");
                return Ok(None);
            }
        }
    }
}

/// The id of a token and the hash of its secret.
fn token(text: &str) -> Result<(String, String), String> {
    let (id, secret) = text.split_once('.').ok_or("--join: a token has the form ID.SECRET")?;
    Ok((id.to_owned(), token_hash(secret)))
}

/// The stored form of a token's secret: SHA-256 in hexadecimal.
#[must_use]
pub fn token_hash(secret: &str) -> String {
    ashlar_checksum::sha256(secret.as_bytes()).iter().map(|b| format!("{b:02x}")).collect()
}
