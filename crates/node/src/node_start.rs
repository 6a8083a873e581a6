//! Building the node: drives, control store, placement groups, store.
//!
//! Invariants: a first start writes labels, map and credentials before anything is served; a later start
//! finds its drives by their labels, at whatever path they are; the map decides which drives belong to the
//! deployment. Later changes of drives are the task of `drive_monitor`. A folder that does not answer does
//! not delay a start if enough drives are open: its drive is added later.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arc_swap::ArcSwap;
use ashlar_cluster::drive_monitor::{Action, Event, Monitor, Settings};
use ashlar_cluster::{CodeSpec, Control, Embedded, FoundAt, Map, NewDrive, Update};
use ashlar_drive::{Drive, DriveKind, Label, Options as DriveOptions, Probe};
use ashlar_duties::Duties;
use ashlar_erasure_set::{Options as SetOptions, Sets};
use ashlar_format::DeploymentId;
use ashlar_iam::Root as Credential;
use ashlar_machine::{BufferPool, Folder, Ring};
use ashlar_object::Store;
use futures::future::BoxFuture;
use parking_lot::Mutex;
use tokio::sync::mpsc;

use super::cluster_start::{self, ClusterPlan};
use super::control_store::{self, ControlStore, medium};
use super::credentials::{self, CredentialSealer, Origin};
use super::deployments::Deployments;
use super::drive_discovery::{self, InspectedFolder, StartPlan};
use super::drive_monitor;
use super::drive_monitor::workers::{self, Workers, format};
use super::heal_limits::HealLimits;
use super::kms::Configured;
use super::lifecycle::Lifecycle;
use super::member::Member;
use super::node::{DriveFolder, Node, blocking, layout, random_id};
use super::scrub_records::StoredScrubs;
use super::start_folders::{Opened, StartFolders};
use super::turns;

/// How often the start reads root's credentials again when other servers change them.
const TRIES: usize = 16;

/// The configuration of the node.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The folders of the command line.
    pub paths: Vec<PathBuf>,
    /// The requested erasure code.
    pub code: Option<CodeSpec>,
    /// Maximum bytes of buffers and caches together.
    pub memory: u64,
    /// What the drives are on.
    pub drive_kind: DriveKind,
    /// What reads them without threads that wait, if anything does.
    pub ring: Option<Arc<Ring>>,
    /// The limits on memory that slow clients hold.
    pub limits: ashlar_erasure_set::MemoryLimits,
    /// The limits of healing and scrub where no setting is stored.
    pub heal_limits: HealLimits,
    /// The length of a day in lifecycle rules.
    pub calendar: ashlar_lifecycle::Calendar,
    /// The notes about which folders held a deployment.
    pub deployments: Deployments,
    /// Whether to create a new deployment although one existed.
    pub new_deployment: bool,
    /// Whether to create one, or to replace a drive, although the loss of a disk, of which several drives are parts, loses objects.
    pub allow_shared_drive: bool,
    /// The cluster that this node belongs to; `None`: it is alone.
    pub cluster: Option<ClusterPlan>,
}

/// The result of a start.
pub struct Started {
    /// Number of folders that were formatted.
    pub formatted: usize,
    /// Root's credentials.
    pub root: Credential,
    /// The source of the credentials.
    pub origin: Origin,
}

/// The opened node, what its start found, and what its drive monitor continues with.
pub type Opening = (Arc<Node>, Started, drive_monitor::Start);

impl Node {
    /// Builds the node. [`drive_monitor::run`] completes the work on its drives.
    ///
    /// # Errors
    /// A message for the operator.
    pub fn open<'a>(
        plan: &'a Plan,
        environment: Option<Credential>,
        keys: &'a mut Configured,
    ) -> BoxFuture<'a, Result<Opening, String>> {
        crate::namespaces::enable();
        if let Some(cluster) = &plan.cluster {
            return cluster_start::open(plan, cluster, environment, keys);
        }
        Box::pin(async move {
            let (pool, drive_options) = budget(plan, 0);
            let (sender, answers) = mpsc::unbounded_channel();
            let workers = Workers::new(sender, drive_options);
            let mut folders = StartFolders::new(&plan.paths, workers, answers);
            folders.inspect().await;
            let mut found = folders.inspected();
            let finding = drive_discovery::decide(&found)?;
            check_alone(&found).await?;
            let deployment = match finding {
                StartPlan::New => DeploymentId(random_id()),
                StartPlan::Existing(id) => id,
            };
            let fresh = finding == StartPlan::New || never_finished(deployment, &found).await?;
            if fresh {
                plan.deployments.check_new(&found, plan.new_deployment)?;
            } else if plan.new_deployment {
                return Err(format!(
                    "the folders hold the deployment {deployment}: leave --new-deployment out"
                ));
            }
            warn_of_wide(&found);
            keys.load_own_key(deployment, &plan.paths, fresh, environment.is_none())?;
            let mut formatted = 0;
            // Before anything is written: if the key server is unreachable, the folders stay unchanged.
            let made = match fresh && environment.is_none() {
                true => Some(keys.sealer().encode(&credentials::generate()).await?),
                false => None,
            };
            if fresh {
                formatted = format_all(deployment, None, &mut found).await?;
                folders.formatted(&found);
            }
            let opened = folders.open(fresh).await?;
            let embedded = if fresh {
                create_control(deployment, &opened, plan, made).await?
            } else {
                open_control(deployment, &opened).await?
            };
            let control = embedded.control();
            let map = read_map(&control)?;
            check_code(&map, plan.code)?;
            if let Err(why) = keys.create_missing_own_key(&control, environment.is_none()) {
                close_all(&control, &opened).await;
                return Err(why);
            }
            let (root, origin) = root(&control, environment, &keys.sealer()).await?;
            let control_store = ControlStore::Embedded(embedded);
            let parts = Parts { control_store, map, folders, pool, member: None, since: 0 };
            let (node, start) = assemble(parts, plan)?;
            note_deployment(&node, plan.deployments.clone());
            Ok((
                node,
                Started {
                    formatted,
                    root,
                    origin: if formatted > 0 && origin == Origin::Stored {
                        Origin::Generated
                    } else {
                        origin
                    },
                },
                start,
            ))
        })
    }
}

/// Refuses drives of a cluster: their map is not on them.
async fn check_alone(found: &[InspectedFolder]) -> Result<(), String> {
    let paths: Vec<_> = labels(found).map(|(path, _)| path.to_owned()).collect();
    let marks = control_store::marks(paths).await;
    match marks.into_iter().find_map(|(path, mark)| Some((path, mark.ok()??))) {
        Some((path, cluster)) => Err(format!(
            "{} belongs to the cluster {cluster}: start with --control and --cluster {cluster}",
            path.display()
        )),
        None => Ok(()),
    }
}

/// Warns of folders that other users may read. Files that this program creates in them are private.
pub(crate) fn warn_of_wide(found: &[InspectedFolder]) {
    for inspected in found.iter().filter(|p| matches!(p.probe, Probe::Ours(_) | Probe::Blank)) {
        if let Ok(mode) = Folder::real(&inspected.path, None).mode()
            && mode & 0o077 != 0
        {
            tracing::warn!(
                drive = %inspected.path.display(),
                mode = format_args!("{mode:04o}"),
                "other users can read the drive's folder: chmod 700"
            );
        }
    }
}

/// Closes the drives after a start that failed.
async fn close_all(control: &Control, opened: &Opened) {
    control.close().await;
    let drives = opened.iter().filter_map(|(_, d)| d.as_ref().ok());
    futures::future::join_all(drives.map(Drive::close)).await;
}

/// Divides the memory: two thirds for buffers, of which `messages` are those of messages between nodes; the rest for
/// the caches of drives and records.
pub(crate) fn budget(plan: &Plan, messages: usize) -> (BufferPool, DriveOptions) {
    let memory = usize::try_from(plan.memory).unwrap_or(usize::MAX);
    let pool = BufferPool::new((memory / 3 * 2).saturating_sub(messages).max(memory / 3));
    let mut options = DriveOptions::new(pool.clone());
    options.kind = plan.drive_kind;
    options.ring.clone_from(&plan.ring);
    options.cache_bytes = (memory / 6 / plan.paths.len().max(1)).clamp(1 << 20, options.cache_bytes);
    (pool, options)
}

/// Whether a first start was interrupted: labels exist, but no drive holds a map yet.
async fn never_finished(deployment: DeploymentId, found: &[InspectedFolder]) -> Result<bool, String> {
    let whole = found.iter().all(|p| matches!(p.probe, Probe::Ours(_) | Probe::Blank));
    if !whole {
        return Ok(false);
    }
    let media: Vec<_> = labels(found).map(|(path, label)| (label.drive, medium(path, label.drive))).collect();
    match Embedded::open(deployment, media).await {
        Ok(embedded) => {
            embedded.control().close().await;
            Ok(false)
        }
        Err(ashlar_cluster::Error::NotCreated) => Ok(true),
        Err(_) => Ok(false),
    }
}

pub(crate) fn labels(found: &[InspectedFolder]) -> impl Iterator<Item = (&Path, &Label)> {
    found.iter().filter_map(|p| match &p.probe {
        Probe::Ours(label) => Some((p.path.as_path(), label)),
        _ => None,
    })
}

/// Creates missing folders and formats all blank ones, as drives of a cluster if one is named.
pub(crate) async fn format_all(
    deployment: DeploymentId,
    cluster: Option<&str>,
    found: &mut Vec<InspectedFolder>,
) -> Result<usize, String> {
    let cluster = cluster.map(str::to_owned);
    let mut inspected = std::mem::take(found);
    let (inspected, done) = blocking(move || {
        let mut formatted = 0;
        for inspected in &mut inspected {
            if inspected.probe == Probe::Missing {
                if drive_discovery::would_be_a_device(&inspected.path) {
                    return Err(format!("{}: there is no such device", inspected.path.display()));
                }
                let above = inspected.path.parent().map_or(Ok(()), std::fs::create_dir_all);
                above
                    .and_then(|()| Folder::real(&inspected.path, None).make())
                    .map_err(|e| format!("{}: cannot be made: {e}", inspected.path.display()))?;
                *inspected = drive_discovery::inspect(&inspected.path);
            }
            if inspected.probe == Probe::Blank {
                format(&inspected.path, deployment, cluster.as_deref())?;
                *inspected = drive_discovery::inspect(&inspected.path);
                formatted += 1;
            }
            if !matches!(inspected.probe, Probe::Ours(_)) {
                return Err(format!(
                    "{}: could not be formatted ({:?})",
                    inspected.path.display(),
                    inspected.probe
                ));
            }
        }
        Ok((inspected, formatted))
    })
    .await??;
    *found = inspected;
    Ok(done)
}

async fn create_control(
    deployment: DeploymentId,
    opened: &Opened,
    plan: &Plan,
    credentials: Option<Vec<u8>>,
) -> Result<Embedded, String> {
    let mut drives = Vec::new();
    for (path, drive) in opened {
        let drive = drive.as_ref().map_err(|e| format!("{}: {e}", path.display()))?;
        drives.push(NewDrive {
            id: drive.label().drive,
            path: path.display().to_string(),
            weight: drive.stats().capacity,
            node: 0,
            rack: None,
            enclosure: drive_discovery::domain(path),
        });
    }
    let map = Map::first_alone(deployment, &drives, plan.code, None, plan.allow_shared_drive);
    let map = map.map_err(|e| e.to_string())?;
    let mount = |path: &str| drive_discovery::facts(Path::new(path)).map(|f| f.mount);
    let found = drives.iter().map(|d| FoundAt { id: d.id, path: d.path.clone(), mount: mount(&d.path) });
    let map = map.found_at(&found.collect::<Vec<_>>()).unwrap_or(map);
    found_groups(&map, opened).await?;
    let media = opened.iter().zip(&drives).map(|((path, _), d)| (d.id, medium(path, d.id))).collect();
    let mut entries: Vec<_> = map.entries().into_iter().collect();
    if let Some(made) = credentials {
        entries.push((credentials::KEY.to_owned(), made.into()));
    }
    Embedded::create(deployment, media, entries).await.map_err(|e| e.to_string())
}

/// Every drive votes in its groups before there is a map that says so: nothing was written yet.
async fn found_groups(map: &Map, opened: &Opened) -> Result<(), String> {
    for (path, drive) in opened {
        let drive = drive.as_ref().map_err(|e| format!("{}: {e}", path.display()))?;
        let done = drive.found(&map.groups_of(drive.label().drive), map.epoch).await;
        done.map_err(|e| format!("{}: {e}", path.display()))?;
    }
    Ok(())
}

pub(crate) async fn open_control(deployment: DeploymentId, opened: &Opened) -> Result<Embedded, String> {
    let drives = opened.iter().filter_map(|(path, d)| d.as_ref().ok().map(|d| (path, d)));
    let media = drives.map(|(path, d)| (d.label().drive, medium(path, d.label().drive))).collect();
    Embedded::open(deployment, media).await.map_err(|e| {
        format!("too few drives are present to read the control store of the deployment: {e}. Bring back more of its drives and start again")
    })
}

fn read_map(control: &Control) -> Result<Map, String> {
    Map::read(control).map_err(|e| e.to_string())
}

pub(crate) fn check_code(map: &Map, asked: Option<CodeSpec>) -> Result<(), String> {
    match asked {
        Some(code) if code != map.code() => Err(format!(
            "--code {code}: this deployment was made with {} and keeps it. Leave --code out",
            map.code()
        )),
        _ => Ok(()),
    }
}

/// Root's credentials: from the environment, else stored ones, else new ones, which are stored.
pub(crate) async fn root(
    control: &Control,
    environment: Option<Credential>,
    sealer: &CredentialSealer,
) -> Result<(Credential, Origin), String> {
    if let Some(credential) = environment {
        return Ok((credential, Origin::Environment));
    }
    for _ in 0..TRIES {
        let entry = control.read(credentials::KEY);
        let mut update = Update::new();
        let (credential, origin) = match entry.bytes() {
            Some(bytes) => {
                let (stored, anew) = sealer.decode(bytes).await?;
                if !anew {
                    return Ok((stored, Origin::Stored));
                }
                (stored, Origin::Stored)
            }
            None => (credentials::generate(), Origin::Generated),
        };
        let sealed: bytes::Bytes = sealer.encode(&credential).await?.into();
        update.set(&entry, sealed.clone());
        match control.update(update).await {
            Ok(_) => {}
            // Another server was faster: its credentials are used.
            Err(ashlar_cluster::Error::Conflict(_)) => continue,
            Err(e) if origin == Origin::Stored => {
                return Err(format!("root's credentials cannot be sealed again: {e}"));
            }
            Err(e) => return Err(format!("the new credentials cannot be stored: {e}")),
        }
        if origin == Origin::Stored {
            write_again(control, &sealed).await?;
        }
        return Ok((credential, origin));
    }
    Err("root's credentials are being changed by other servers; start again".to_owned())
}

/// Writes sealed credentials twice, because a drive keeps the previous copy of the control store.
async fn write_again(control: &Control, sealed: &bytes::Bytes) -> Result<(), String> {
    let again = |update: &mut Update| {
        let entry = control.read(credentials::KEY);
        if entry.bytes() == Some(sealed) {
            update.set(&entry, sealed.clone());
        }
        Ok::<_, ashlar_cluster::Error>(())
    };
    control.change(again).await.map_err(|e| format!("root's credentials cannot be sealed again: {e}"))
}

/// What a node is assembled of.
pub(crate) struct Parts {
    pub(crate) control_store: ControlStore,
    pub(crate) map: Map,
    pub(crate) folders: StartFolders,
    pub(crate) pool: BufferPool,
    /// What the node is in its cluster.
    pub(crate) member: Option<Arc<Member>>,
    /// A revision of the control store that was taken before the map was read.
    pub(crate) since: u64,
}

/// Assembles the node; remaining work on drives goes to the drive monitor.
pub(crate) fn assemble(parts: Parts, plan: &Plan) -> Result<(Arc<Node>, drive_monitor::Start), String> {
    let Parts { control_store, map, folders, pool, member, since } = parts;
    let control = control_store.control();
    let number = member.as_ref().map_or(0, |m| m.number);
    let StartFolders { all, workers, answers } = folders;
    let paths: Vec<String> = all.iter().map(|f| f.path.display().to_string()).collect();
    let deployment = map.deployment;
    let settings = Settings { node: member.as_ref().map(|m| m.number), ..Settings::default() };
    let mut monitor = Monitor::new(&paths, Arc::new(map.clone()), settings);
    let mut drive_folders = Vec::new();
    let (mut first, mut serving, mut waiting) = (Vec::new(), Vec::new(), HashMap::new());
    for (i, folder) in all.into_iter().enumerate() {
        let facts = folder.inspected.as_ref().and_then(|p| p.facts.clone());
        drive_folders.push(DriveFolder { path: folder.path, drive: None, problem: None, held: false, facts });
        let event = match (folder.opening, folder.opened, folder.inspected) {
            (_, Some(Ok((drive, distrust))), _) => {
                let event = drive_monitor::opened_event(i, &drive, distrust);
                waiting.insert(i, drive);
                Some(event)
            }
            (_, Some(Err(why)), _) => Some(Event::Opened(i, Err(why))),
            (false, None, Some(inspected)) => Some(Event::Probed(i, workers::found(&inspected, deployment))),
            // Its inspection has not ended.
            _ => None,
        };
        monitor.started(i, folder.opening);
        if let Some(event) = event {
            first.extend(monitor.step(event));
        } else {
            drive_folders[i].problem = Some("it does not answer yet".into());
        }
    }
    // Drives that can serve are in service from the start.
    first.retain(|action| match action {
        Action::Attach(i) => {
            if let Some(drive) = waiting.remove(i) {
                drive_folders[*i].drive = Some(drive.clone());
                serving.push(drive);
            }
            false
        }
        Action::Note(i, why) => {
            drive_folders[*i].problem.clone_from(why);
            false
        }
        _ => true,
    });
    let memory = usize::try_from(plan.memory).unwrap_or(usize::MAX);
    let mut options = SetOptions::new(pool.clone());
    options.memory = plan.limits;
    (options.heal, options.scrub) = plan.heal_limits.paced();
    options.node = number;
    options.sole = member.is_none();
    options.duties = Duties::alone(number);
    let duties = options.duties.clone();
    options.turns = member.as_ref().map(|m| turns::others(&m.turns, m.peers(), &duties));
    options.record_cache = (memory / 12).min(options.record_cache);
    options.scrub_records = Some(Arc::new(StoredScrubs::new(control.clone())));
    let sets = Sets::new(layout(&map), serving, options).map_err(|e| e.to_string())?;
    let objects = ashlar_object::Options { duties: duties.clone(), ..ashlar_object::Options::default() };
    let store = Store::open(sets.clone(), control.clone(), objects).map_err(|e| e.to_string())?;
    if let Some(member) = &member {
        member.served.set(drive_folders.iter().filter_map(|s| s.drive.clone()));
        member.reach(&control, &map, &sets);
    }
    sets.start();
    let lifecycle = Arc::new(Lifecycle::new(store.clone(), control.clone(), duties.clone(), plan.calendar));
    let (orders, ordered) = mpsc::unbounded_channel();
    let joins = drive_folders.iter().filter_map(|s| s.drive.as_ref()).filter(|d| !d.votes());
    let joins = Mutex::new(joins.map(|d| d.label().drive).collect());
    let node = Arc::new(Node {
        lifecycle,
        duties,
        control,
        control_store,
        member,
        sets,
        store,
        pool,
        map: ArcSwap::from_pointee(map),
        map_since: since,
        folders: Mutex::new(drive_folders),
        changes: tokio::sync::Mutex::new(()),
        orders,
        joins,
        heal_limits: plan.heal_limits,
        allow_shared_drive: plan.allow_shared_drive,
    });
    let start = drive_monitor::Start { monitor, first, opened: waiting, workers, answers, orders: ordered };
    Ok((node, start))
}

/// Notes outside the drives which folders hold the deployment. Inspecting folders may hang.
pub(crate) fn note_deployment(node: &Node, deployments: Deployments) {
    let drive_folders = node.folders.lock().clone();
    let serving = drive_folders.iter().filter(|s| s.drive.is_some());
    let folders: Vec<_> = serving.filter_map(|s| Some((s.path.clone(), s.facts.clone()?))).collect();
    let deployment = node.map.load().deployment;
    let started = ashlar_environment::thread::run_apart("note-deployment", move || {
        if let Err(why) = deployments.note(deployment, &folders) {
            tracing::warn!(why, "the note outside the drives about this deployment cannot be written");
        }
    });
    if let Err(error) = started {
        tracing::warn!(%error, "it is not noted outside the drives that they hold a deployment");
    }
}
