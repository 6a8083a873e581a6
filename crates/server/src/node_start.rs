//! Building the node: drives, control store, placement groups, store.
//!
//! Invariants: a first start writes labels, map and credentials before anything is served; a later
//! start finds its drives by their labels, wherever they are; the map decides which drive counts.
//! What happens to drives afterwards is the business of `drive_monitor`. A folder that does not answer never holds
//! up a start that most of the drives suffice for: its drive comes later.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arc_swap::ArcSwap;
use ashlar_cluster::drive_monitor::{Action, Event, Monitor, Settings};
use ashlar_cluster::{CodeSpec, Control, Embedded, FoundAt, Map, Update};
use ashlar_drive::{Drive, Label, Options as DriveOptions, Probe};
use ashlar_erasure_set::{Options as SetOptions, Sets};
use ashlar_format::DeploymentId;
use ashlar_machine::{BufferPool, Folder};
use ashlar_object::Store;
use ashlar_s3::Credential;
use parking_lot::Mutex;
use tokio::sync::mpsc;

use super::credentials::{self, CredentialSealer, Origin};
use super::deployments::Deployments;
use super::drive_discovery::{self, Finding, Place};
use super::drive_monitor;
use super::drive_monitor::workers::{self, Workers, format};
use super::kms::Configured;
use super::lifecycle::Lifecycle;
use super::node::{Node, Slot, blocking, layout, medium, random_id};
use super::start_folders::{Folders, Opened};

/// How often root's credentials are read anew when other servers change them.
const TRIES: usize = 16;

/// What the node is built with.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The folders named.
    pub paths: Vec<PathBuf>,
    /// The code asked for.
    pub code: Option<CodeSpec>,
    /// Bytes that buffers and caches may hold together.
    pub memory: u64,
    /// How long slow clients may hold what others wait for.
    pub limits: ashlar_erasure_set::MemoryLimits,
    /// How long a day of lifecycle rules is.
    pub calendar: ashlar_lifecycle::Calendar,
    /// Which folders held a deployment.
    pub deployments: Deployments,
    /// A new deployment is meant, although there was one.
    pub new_deployment: bool,
}

/// What a start did.
pub struct Started {
    /// Folders that were formatted.
    pub formatted: usize,
    /// Root's credentials.
    pub root: Credential,
    /// Where they came from.
    pub origin: Origin,
}

impl Node {
    /// Builds it. What is left to do about its drives is for [`drive_monitor::run`].
    ///
    /// # Errors
    /// In words for the operator.
    pub async fn open(
        plan: &Plan,
        environment: Option<Credential>,
        keys: &mut Configured,
    ) -> Result<(Arc<Node>, Started, drive_monitor::Start), String> {
        let (pool, drive_options) = budget(plan);
        let (sender, answers) = mpsc::unbounded_channel();
        let workers = Workers::new(sender, drive_options);
        let mut folders = Folders::new(&plan.paths, workers, answers);
        folders.look().await;
        let mut found = folders.places();
        let finding = drive_discovery::judge(&found)?;
        let deployment = match finding {
            Finding::New => DeploymentId(random_id()),
            Finding::Existing(id) => id,
        };
        let fresh = finding == Finding::New || never_finished(deployment, &found).await?;
        if fresh {
            plan.deployments.check_new(&found, plan.new_deployment)?;
        } else if plan.new_deployment {
            return Err(format!("the folders hold the deployment {deployment}: leave --new-deployment out"));
        }
        warn_of_wide(&found);
        keys.find_own(deployment, &plan.paths, fresh, environment.is_none())?;
        let mut formatted = 0;
        // Before anything is written: a key server that is away leaves the folders as they are.
        let made = match fresh && environment.is_none() {
            true => Some(keys.sealer().encode(&credentials::generate()).await?),
            false => None,
        };
        if fresh {
            formatted = format_all(deployment, &mut found).await?;
            folders.formatted(&found);
        }
        let opened = folders.open(fresh).await?;
        let embedded = if fresh {
            create_control(deployment, &opened, plan.code, made).await?
        } else {
            open_control(deployment, &opened).await?
        };
        let control = embedded.control();
        let map = read_map(&control)?;
        check_code(&map, plan.code)?;
        if let Err(why) = keys.make_up_for_own(&control, environment.is_none()) {
            close_all(&control, &opened).await;
            return Err(why);
        }
        let (root, origin) = root(&control, environment, &keys.sealer()).await?;
        let (node, start) = assemble(embedded, map, folders, pool, plan)?;
        note_deployment(&node, plan.deployments.clone());
        Ok((
            node,
            Started {
                formatted,
                root,
                origin: if formatted > 0 && origin == Origin::Stored { Origin::Generated } else { origin },
            },
            start,
        ))
    }
}

/// Warns of folders that others may look into; what this program makes in them is its owner's alone.
fn warn_of_wide(found: &[Place]) {
    for place in found.iter().filter(|p| matches!(p.probe, Probe::Ours(_) | Probe::Blank)) {
        if let Ok(mode) = Folder::real(&place.path, None).mode()
            && mode & 0o077 != 0
        {
            tracing::warn!(
                drive = %place.path.display(),
                mode = format_args!("{mode:04o}"),
                "others may look into the drive's folder: chmod 700"
            );
        }
    }
}

/// A start that ends: leaves the drives in order.
async fn close_all(control: &Control, opened: &Opened) {
    control.close().await;
    let drives = opened.iter().filter_map(|(_, d)| d.as_ref().ok());
    futures::future::join_all(drives.map(Drive::close)).await;
}

/// Divides the memory: two thirds for buffers, the rest for the caches of drives and records.
fn budget(plan: &Plan) -> (BufferPool, DriveOptions) {
    let memory = usize::try_from(plan.memory).unwrap_or(usize::MAX);
    let pool = BufferPool::new(memory / 3 * 2);
    let mut options = DriveOptions::new(pool.clone());
    options.cache_bytes = (memory / 6 / plan.paths.len().max(1)).clamp(1 << 20, options.cache_bytes);
    (pool, options)
}

/// Whether a first start was interrupted: labels are there, but no drive holds a map yet.
async fn never_finished(deployment: DeploymentId, found: &[Place]) -> Result<bool, String> {
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

fn labels(found: &[Place]) -> impl Iterator<Item = (&Path, &Label)> {
    found.iter().filter_map(|p| match &p.probe {
        Probe::Ours(label) => Some((p.path.as_path(), label)),
        _ => None,
    })
}

/// Makes missing folders and formats everything blank.
async fn format_all(deployment: DeploymentId, found: &mut Vec<Place>) -> Result<usize, String> {
    let mut places = std::mem::take(found);
    let (places, done) = blocking(move || {
        let mut formatted = 0;
        for place in &mut places {
            if place.probe == Probe::Missing {
                let above = place.path.parent().map_or(Ok(()), std::fs::create_dir_all);
                above
                    .and_then(|()| Folder::real(&place.path, None).make())
                    .map_err(|e| format!("{}: cannot be made: {e}", place.path.display()))?;
                *place = drive_discovery::look(&place.path);
            }
            if place.probe == Probe::Blank {
                format(&place.path, deployment)?;
                *place = drive_discovery::look(&place.path);
                formatted += 1;
            }
            if !matches!(place.probe, Probe::Ours(_)) {
                return Err(format!("{}: could not be formatted ({:?})", place.path.display(), place.probe));
            }
        }
        Ok((places, formatted))
    })
    .await??;
    *found = places;
    Ok(done)
}

async fn create_control(
    deployment: DeploymentId,
    opened: &Opened,
    code: Option<CodeSpec>,
    credentials: Option<Vec<u8>>,
) -> Result<Embedded, String> {
    let mut drives = Vec::new();
    for (path, drive) in opened {
        let drive = drive.as_ref().map_err(|e| format!("{}: {e}", path.display()))?;
        drives.push((drive.label().drive, path.display().to_string(), drive.stats().capacity));
    }
    let map = Map::first(deployment, &drives, code, None).map_err(|e| e.to_string())?;
    let mount = |path: &str| drive_discovery::facts(Path::new(path)).map(|f| f.mount);
    let found =
        drives.iter().map(|(id, path, _)| FoundAt { id: *id, path: path.clone(), mount: mount(path) });
    let map = map.found_at(&found.collect::<Vec<_>>()).unwrap_or(map);
    found_groups(&map, opened).await?;
    let media = opened.iter().zip(&drives).map(|((path, _), (id, ..))| (*id, medium(path, *id))).collect();
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

async fn open_control(deployment: DeploymentId, opened: &Opened) -> Result<Embedded, String> {
    let drives = opened.iter().filter_map(|(path, d)| d.as_ref().ok().map(|d| (path, d)));
    let media = drives.map(|(path, d)| (d.label().drive, medium(path, d.label().drive))).collect();
    Embedded::open(deployment, media).await.map_err(|e| {
        format!("the drives that are there cannot say what the deployment is: {e}. Bring more of its drives back and start again")
    })
}

fn read_map(control: &Control) -> Result<Map, String> {
    Map::read(control).map_err(|e| e.to_string())
}

fn check_code(map: &Map, asked: Option<CodeSpec>) -> Result<(), String> {
    match asked {
        Some(code) if code != map.code() => Err(format!(
            "--code {code}: this deployment was made with {} and keeps it. Leave --code out",
            map.code()
        )),
        _ => Ok(()),
    }
}

/// Root's credentials: the environment wins; else what is stored; else new ones, which are stored.
async fn root(
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
            // Another server was faster: its credentials count.
            Err(ashlar_cluster::Error::Conflict(_)) => continue,
            Err(e) if origin == Origin::Stored => {
                return Err(format!("root's credentials cannot be sealed anew: {e}"));
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

/// Writes sealed credentials a second time: a drive keeps the copy of the control store before the newest.
async fn write_again(control: &Control, sealed: &bytes::Bytes) -> Result<(), String> {
    let again = |update: &mut Update| {
        let entry = control.read(credentials::KEY);
        if entry.bytes() == Some(sealed) {
            update.set(&entry, sealed.clone());
        }
        Ok::<_, ashlar_cluster::Error>(())
    };
    control.change(again).await.map_err(|e| format!("root's credentials cannot be sealed anew: {e}"))
}

/// Puts together what was opened; what is left to do goes to the monitor.
fn assemble(
    embedded: Embedded,
    map: Map,
    folders: Folders,
    pool: BufferPool,
    plan: &Plan,
) -> Result<(Arc<Node>, drive_monitor::Start), String> {
    let control = embedded.control();
    let Folders { all, workers, answers } = folders;
    let paths: Vec<String> = all.iter().map(|f| f.path.display().to_string()).collect();
    let deployment = map.deployment;
    let mut monitor = Monitor::new(&paths, Arc::new(map.clone()), Settings::default());
    let mut slots = Vec::new();
    let (mut first, mut serving, mut waiting) = (Vec::new(), Vec::new(), HashMap::new());
    for (i, folder) in all.into_iter().enumerate() {
        let facts = folder.place.as_ref().and_then(|p| p.facts.clone());
        slots.push(Slot { path: folder.path, drive: None, problem: None, held: false, facts });
        let event = match (folder.opening, folder.opened, folder.place) {
            (_, Some(Ok((drive, distrust))), _) => {
                let event = drive_monitor::opened_event(i, &drive, distrust);
                waiting.insert(i, drive);
                Some(event)
            }
            (_, Some(Err(why)), _) => Some(Event::Opened(i, Err(why))),
            (false, None, Some(place)) => Some(Event::Probed(i, workers::found(&place, deployment))),
            // Still to come.
            _ => None,
        };
        monitor.begun(i, folder.opening);
        if let Some(event) = event {
            first.extend(monitor.step(event));
        } else {
            slots[i].problem = Some("it does not answer yet".into());
        }
    }
    // What can serve serves from the beginning.
    first.retain(|action| match action {
        Action::Attach(i) => {
            if let Some(drive) = waiting.remove(i) {
                slots[*i].drive = Some(drive.clone());
                serving.push(drive);
            }
            false
        }
        Action::Note(i, why) => {
            slots[*i].problem.clone_from(why);
            false
        }
        _ => true,
    });
    let memory = usize::try_from(plan.memory).unwrap_or(usize::MAX);
    let mut options = SetOptions::new(pool.clone());
    options.memory = plan.limits;
    options.record_cache = (memory / 12).min(options.record_cache);
    let sets = Sets::new(layout(&map), serving, options).map_err(|e| e.to_string())?;
    let store = Store::open(sets.clone(), control.clone(), ashlar_object::Options::default())
        .map_err(|e| e.to_string())?;
    sets.start();
    let lifecycle = Arc::new(Lifecycle::new(store.clone(), control.clone(), plan.calendar));
    let (orders, ordered) = mpsc::unbounded_channel();
    let joins = slots.iter().filter_map(|s| s.drive.as_ref()).filter(|d| !d.votes());
    let joins = Mutex::new(joins.map(|d| d.label().drive).collect());
    let node = Arc::new(Node {
        lifecycle,
        control,
        embedded,
        sets,
        store,
        pool,
        map: ArcSwap::from_pointee(map),
        slots: Mutex::new(slots),
        changes: tokio::sync::Mutex::new(()),
        orders,
        joins,
    });
    let start = drive_monitor::Start { monitor, first, opened: waiting, workers, answers, orders: ordered };
    Ok((node, start))
}

/// Notes outside the drives which folders hold the deployment; the folders of others may hang.
fn note_deployment(node: &Node, deployments: Deployments) {
    let slots = node.slots.lock().clone();
    let serving = slots.iter().filter(|s| s.drive.is_some());
    let folders: Vec<_> = serving.filter_map(|s| Some((s.path.clone(), s.facts.clone()?))).collect();
    let deployment = node.map.load().deployment;
    std::thread::spawn(move || {
        if let Err(why) = deployments.note(deployment, &folders) {
            tracing::warn!(why, "it is not noted outside the drives that they hold a deployment");
        }
    });
}
