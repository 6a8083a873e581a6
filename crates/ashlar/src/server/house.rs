//! Building the house: drives, control store, placement groups, store.
//!
//! Invariants: a first start writes labels, map and credentials before anything is served; a later
//! start finds its drives by their labels, wherever they are; the map decides which drive counts.
//! What happens to drives afterwards is the business of `keeper`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arc_swap::ArcSwap;
use ashlar_cluster::{CodeSpec, Compare, Control, DriveState, FileMedium, Map, Medium, Txn};
use ashlar_drive::{Drive, Label, Options as DriveOptions, Probe, Role};
use ashlar_erasure_set::{Code, Group, Layout, Options as SetOptions, Sets};
use ashlar_format::{DeploymentId, DriveId};
use ashlar_machine::{BufferPool, Folder};
use ashlar_object::Store;
use ashlar_s3::Credential;
use parking_lot::Mutex;

use super::clock::now_ms;
use super::credentials::{self, Keeper, Origin};
use super::kms::Configured;
use super::places::{self, Finding, Place};

/// What the house is built with.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The folders named.
    pub paths: Vec<PathBuf>,
    /// The code asked for.
    pub code: Option<CodeSpec>,
    /// Bytes that buffers and caches may hold together.
    pub memory: u64,
    /// How long a day of lifecycle rules is.
    pub calendar: ashlar_lifecycle::Calendar,
}

/// The house.
pub struct House {
    /// The control store.
    pub control: Control,
    /// The placement groups.
    pub sets: Sets,
    /// The store.
    pub store: Store,
    /// Lifecycle rules.
    pub lifecycle: Arc<super::lifecycle::Lifecycle>,
    /// Where buffers come from.
    pub pool: BufferPool,
    /// The map in force.
    pub map: ArcSwap<Map>,
    /// The folders named, and what is in service at each.
    pub slots: Mutex<Vec<Slot>>,
    /// How drives are opened.
    pub drive_options: DriveOptions,
    /// Serialises changes of the map.
    pub changes: tokio::sync::Mutex<()>,
}

/// One folder named on the command line.
#[derive(Clone)]
pub struct Slot {
    /// The folder.
    pub path: PathBuf,
    /// The drive in service there.
    pub drive: Option<Drive>,
    /// Why there is none, for people.
    pub problem: Option<String>,
    /// Taken out of service by an operator.
    pub held: bool,
    /// It failed in service: it joins again before it is trusted.
    pub distrusted: bool,
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

/// Draws 16 random bytes.
pub fn random_id() -> [u8; 16] {
    let mut id = [0; 16];
    getrandom::fill(&mut id).expect("the operating system gives random bytes");
    id
}

/// The control medium in the folder of drive `id`.
pub fn medium(path: &Path, id: DriveId) -> Arc<dyn Medium> {
    Arc::new(OwnFolder { path: path.to_owned(), id, files: FileMedium::new(Folder::real(path, None)) })
}

/// The control store's files of one drive. Writes only while the folder holds that drive: a folder
/// that was emptied must stay blank, so that it can join again.
struct OwnFolder {
    path: PathBuf,
    id: DriveId,
    files: FileMedium,
}

impl Medium for OwnFolder {
    fn read(&self, slot: usize) -> std::io::Result<Option<Vec<u8>>> {
        self.files.read(slot)
    }

    fn write(&self, slot: usize, bytes: &[u8]) -> std::io::Result<()> {
        match ashlar_drive::probe(&self.path) {
            Probe::Ours(label) if label.drive == self.id => self.files.write(slot, bytes),
            other => Err(std::io::Error::other(format!("the folder no longer holds the drive: {other:?}"))),
        }
    }
}

/// A control medium in a folder of its own.
pub fn bare_medium(folder: Folder) -> Arc<dyn Medium> {
    Arc::new(FileMedium::new(folder))
}

/// The layout that a map describes.
pub fn layout(map: &Map) -> Layout {
    let groups = map.groups.iter().enumerate();
    Layout {
        epoch: map.epoch,
        code: Code { k: map.code.k, m: map.code.m },
        groups: groups.map(|(i, slots)| Group { id: i as u16, slots: slots.clone() }).collect(),
    }
}

impl House {
    /// Builds it.
    ///
    /// # Errors
    /// In words for the operator.
    pub async fn open(
        plan: &Plan,
        environment: Option<Credential>,
        keys: &mut Configured,
    ) -> Result<(Arc<House>, Started), String> {
        let paths = plan.paths.clone();
        let mut found = blocking(move || places::look(&paths)).await?;
        let finding = places::judge(&found)?;
        let (pool, drive_options) = budget(plan);
        let deployment = match finding {
            Finding::New => DeploymentId(random_id()),
            Finding::Existing(id) => id,
        };
        let fresh = finding == Finding::New || never_finished(deployment, &found).await?;
        warn_of_wide(&found);
        keys.find_own(deployment, &plan.paths, fresh, environment.is_none())?;
        let mut formatted = 0;
        // Before anything is written: a key server that is away leaves the folders as they are.
        let made = match fresh && environment.is_none() {
            true => Some(keys.keeper().encode(&credentials::generate()).await?),
            false => None,
        };
        if fresh {
            formatted = format_all(deployment, &mut found).await?;
        }
        let mut opened = open_drives(&found, &drive_options).await?;
        if !fresh {
            distrust(deployment, &mut opened).await;
        }
        let control = if fresh {
            create_control(deployment, &opened, plan.code, made).await?
        } else {
            open_control(deployment, &opened).await?
        };
        let map = read_map(&control)?;
        check_code(&map, plan.code)?;
        if let Err(why) = keys.make_up_for_own(&control, environment.is_none()) {
            close_all(&control, &opened).await;
            return Err(why);
        }
        let (root, origin) = root(&control, environment, &keys.keeper()).await?;
        let house = assemble(control, map, opened, found, pool, drive_options, plan)?;
        Ok((
            house,
            Started {
                formatted,
                root,
                origin: if formatted > 0 && origin == Origin::Stored { Origin::Generated } else { origin },
            },
        ))
    }

    /// Stops the background work and closes the drives.
    pub async fn close(&self) {
        self.store.close_feed().await;
        self.sets.stop().await;
        self.control.close().await;
        let drives: Vec<Drive> = self.slots.lock().iter().filter_map(|s| s.drive.clone()).collect();
        let closing = drives.iter().map(Drive::close);
        futures::future::join_all(closing).await;
    }

    /// Writes a new map, unless another was written meanwhile.
    ///
    /// # Errors
    /// In words.
    pub async fn write_map(&self, next: Map) -> Result<(), String> {
        let now = self.control.get(Map::KEY).ok_or("the control store holds no map")?;
        let members = next.members();
        let txn = Txn {
            compares: vec![Compare::Revision(Map::KEY.to_owned(), now.revision)],
            puts: vec![(Map::KEY.to_owned(), next.to_json().into())],
            deletes: Vec::new(),
            members: Some(members),
        };
        self.control.txn(txn).await.map_err(|e| e.to_string())?;
        self.map.store(Arc::new(next));
        Ok(())
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

/// Runs something that blocks off the runtime.
pub async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, String> {
    tokio::task::spawn_blocking(work).await.map_err(|e| format!("internal error: {e}"))
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
    match Control::open(deployment, media).await {
        Ok(control) => {
            control.close().await;
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
                place.probe = ashlar_drive::probe(&place.path);
            }
            if place.probe == Probe::Blank {
                format(&place.path, deployment, Role::Voter)?;
                place.probe = ashlar_drive::probe(&place.path);
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

/// Formats one blank folder; answers its label.
///
/// # Errors
/// In words.
pub fn format(path: &Path, deployment: DeploymentId, role: Role) -> Result<Label, String> {
    let label = Label { deployment, drive: DriveId(random_id()), created_ms: now_ms() };
    ashlar_drive::format(path, &label, role).map_err(|e| format!("{}: {e}", path.display()))?;
    Ok(label)
}

/// Opens every drive that is there, in parallel: recovery reads.
async fn open_drives(
    found: &[Place],
    options: &DriveOptions,
) -> Result<Vec<(PathBuf, Result<Drive, String>)>, String> {
    let opening = labels(found).map(|(path, _)| {
        let (path, options) = (path.to_owned(), options.clone());
        async move {
            let opened = open_drive(path.clone(), options).await;
            (path, opened)
        }
    });
    let opened = futures::future::join_all(opening).await;
    if opened.iter().all(|(_, o)| o.is_err()) {
        let why: Vec<String> = opened
            .into_iter()
            .filter_map(|(p, o)| o.err().map(|e| format!("{}: {e}", p.display())))
            .collect();
        return Err(format!("no drive can be opened\n{}", why.join("\n")));
    }
    Ok(opened)
}

/// Takes the vote of drives that went back in time; who cannot be asked to is not used.
async fn distrust(deployment: DeploymentId, opened: &mut Opened) {
    let paths = opened.iter().map(|(path, _)| path.clone()).collect();
    let noted = super::rollback::noted(paths, deployment).await;
    for (_, drive) in opened {
        if let Ok(d) = drive
            && let Err(why) = super::rollback::distrust(d, &noted).await
        {
            *drive = Err(why);
        }
    }
}

/// Opens one drive.
///
/// # Errors
/// In words.
pub async fn open_drive(path: PathBuf, options: DriveOptions) -> Result<Drive, String> {
    blocking(move || Drive::open(&path, &options).map_err(|e| e.to_string())).await?
}

type Opened = Vec<(PathBuf, Result<Drive, String>)>;

async fn create_control(
    deployment: DeploymentId,
    opened: &Opened,
    code: Option<CodeSpec>,
    credentials: Option<Vec<u8>>,
) -> Result<Control, String> {
    let mut drives = Vec::new();
    for (path, drive) in opened {
        let drive = drive.as_ref().map_err(|e| format!("{}: {e}", path.display()))?;
        drives.push((drive.label().drive, path.display().to_string(), drive.stats().capacity));
    }
    let map = Map::first(deployment, &drives, code).map_err(|e| e.to_string())?;
    let media = opened.iter().zip(&drives).map(|((path, _), (id, ..))| (*id, medium(path, *id))).collect();
    let mut entries = vec![(Map::KEY.to_owned(), map.to_json().into())];
    if let Some(made) = credentials {
        entries.push((credentials::KEY.to_owned(), made.into()));
    }
    Control::create(deployment, media, entries).await.map_err(|e| e.to_string())
}

async fn open_control(deployment: DeploymentId, opened: &Opened) -> Result<Control, String> {
    let drives = opened.iter().filter_map(|(path, d)| d.as_ref().ok().map(|d| (path, d)));
    let media = drives.map(|(path, d)| (d.label().drive, medium(path, d.label().drive))).collect();
    Control::open(deployment, media).await.map_err(|e| {
        format!("the drives that are there cannot say what the deployment is: {e}. Bring more of its drives back and start again")
    })
}

fn read_map(control: &Control) -> Result<Map, String> {
    let value = control.get(Map::KEY).ok_or("the control store holds no map")?;
    Map::from_json(&value.bytes).map_err(|e| e.to_string())
}

fn check_code(map: &Map, asked: Option<CodeSpec>) -> Result<(), String> {
    match asked {
        Some(code) if code != map.code => Err(format!(
            "--code {code}: this deployment was made with {} and keeps it. Leave --code out",
            map.code
        )),
        _ => Ok(()),
    }
}

/// Root's credentials: the environment wins; else what is stored; else new ones, which are stored.
async fn root(
    control: &Control,
    environment: Option<Credential>,
    keeper: &Keeper,
) -> Result<(Credential, Origin), String> {
    if let Some(credential) = environment {
        return Ok((credential, Origin::Environment));
    }
    if let Some(value) = control.get(credentials::KEY) {
        let (stored, anew) = keeper.decode(&value.bytes).await?;
        if anew {
            let sealed: bytes::Bytes = keeper.encode(&stored).await?.into();
            // Twice: a drive keeps the copy of the control store before the newest.
            for _ in 0..2 {
                let puts = vec![(credentials::KEY.to_owned(), sealed.clone())];
                let done = control.txn(Txn { puts, ..Txn::default() }).await;
                done.map_err(|e| format!("root's credentials cannot be sealed anew: {e}"))?;
            }
        }
        return Ok((stored, Origin::Stored));
    }
    let fresh = credentials::generate();
    let txn = Txn {
        compares: vec![Compare::Absent(credentials::KEY.to_owned())],
        puts: vec![(credentials::KEY.to_owned(), keeper.encode(&fresh).await?.into())],
        ..Txn::default()
    };
    control.txn(txn).await.map_err(|e| format!("the new credentials cannot be stored: {e}"))?;
    Ok((fresh, Origin::Generated))
}

fn assemble(
    control: Control,
    map: Map,
    opened: Opened,
    found: Vec<Place>,
    pool: BufferPool,
    drive_options: DriveOptions,
    plan: &Plan,
) -> Result<Arc<House>, String> {
    let mut slots: Vec<Slot> = found
        .into_iter()
        .map(|place| Slot {
            path: place.path,
            drive: None,
            problem: problem(&place.probe),
            held: false,
            distrusted: false,
        })
        .collect();
    let mut serving = Vec::new();
    for (path, drive) in opened {
        let Some(slot) = slots.iter_mut().find(|s| s.path == path) else { continue };
        match drive {
            Ok(drive) => match map.drive(drive.label().drive).map(|d| d.state) {
                Some(DriveState::Active | DriveState::Joining) => {
                    serving.push(drive.clone());
                    slot.drive = Some(drive);
                }
                Some(DriveState::Dead) => {
                    slot.problem = Some("it was replaced; empty the folder to use it again".into());
                }
                None => slot.problem = Some(UNKNOWN.into()),
            },
            Err(why) => slot.problem = Some(why),
        }
    }
    let memory = usize::try_from(plan.memory).unwrap_or(usize::MAX);
    let mut options = SetOptions::new(pool.clone());
    options.record_cache = (memory / 12).min(options.record_cache);
    let sets = Sets::new(layout(&map), serving, options).map_err(|e| e.to_string())?;
    let store = Store::open(sets.clone(), control.clone(), ashlar_object::Options::default())
        .map_err(|e| e.to_string())?;
    sets.start();
    let lifecycle = Arc::new(super::lifecycle::Lifecycle::new(store.clone(), control.clone(), plan.calendar));
    Ok(Arc::new(House {
        lifecycle,
        control,
        sets,
        store,
        pool,
        map: ArcSwap::from_pointee(map),
        slots: Mutex::new(slots),
        drive_options,
        changes: tokio::sync::Mutex::new(()),
    }))
}

/// A drive of this deployment that never entered the map: a join that was interrupted.
pub const UNKNOWN: &str = "it is not in the map of this deployment yet";

/// Why a path is not in service.
pub fn problem(probe: &Probe) -> Option<String> {
    match probe {
        Probe::Ours(_) => None,
        Probe::Blank => Some("blank".into()),
        Probe::Foreign(why) => Some(format!("not a drive of ashlar: {why}")),
        Probe::Missing => Some("the folder does not exist".into()),
        Probe::Unreadable(why) => Some(why.clone()),
    }
}
