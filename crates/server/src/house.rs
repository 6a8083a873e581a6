//! Building the house: drives, control store, placement groups, store.
//!
//! Invariants: a first start writes labels, map and credentials before anything is served; a later
//! start finds its drives by their labels, wherever they are; the map decides which drive counts.
//! What happens to drives afterwards is the business of `drive_monitor`. A folder that does not answer never holds
//! up a start that most of the drives suffice for: its drive comes later.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use ashlar_cluster::drive_monitor::{Action, Event, Monitor, Settings};
use ashlar_cluster::{CodeSpec, Control, Embedded, FileMedium, FoundAt, Map, Medium, Update};
use ashlar_drive::{Drive, Label, Options as DriveOptions, Probe, Role};
use ashlar_erasure_set::{Code, Group, Layout, Options as SetOptions, Sets};
use ashlar_format::{DeploymentId, DriveId};
use ashlar_machine::{BufferPool, Folder};
use ashlar_object::Store;
use ashlar_s3::Credential;
use parking_lot::Mutex;
use tokio::sync::mpsc::{self, UnboundedReceiver};

use super::credentials::{self, Keeper, Origin};
use super::deployments::Deployments;
use super::drive_monitor::workers::{self, Answer, AtOpen, Workers, format};
use super::drive_monitor::{self, Orders};
use super::places::{self, Facts, Finding, Place};

/// How long a start waits for folders to say what they are when others have said it.
const LOOK: Duration = Duration::from_secs(2);
/// The same when none has: disks that stand still need a while.
const LOOK_ALL: Duration = Duration::from_secs(30);
/// How long it waits for the last drives to open when most have.
const OPEN: Duration = Duration::from_secs(2);
/// How long one drive, and the control store, may take to close.
const CLOSE: Duration = Duration::from_secs(10);
/// How often root's credentials are read anew when other servers change them.
const TRIES: usize = 16;
use super::kms::Configured;

/// What the house is built with.
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

/// The house.
pub struct House {
    /// The control store.
    pub control: Control,
    /// The same, as what keeps its copies on the drives.
    pub embedded: Embedded,
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
    /// Serialises changes of the map.
    pub changes: tokio::sync::Mutex<()>,
    /// Where orders of operators about drives go.
    pub orders: Orders,
    /// Drives that were put in service without a vote since the start.
    pub joins: Mutex<HashSet<DriveId>>,
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
    /// Its file system, when it was last looked at.
    pub facts: Option<Facts>,
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
    /// Builds it. What is left to do about its drives is for [`drive_monitor::run`].
    ///
    /// # Errors
    /// In words for the operator.
    pub async fn open(
        plan: &Plan,
        environment: Option<Credential>,
        keys: &mut Configured,
    ) -> Result<(Arc<House>, Started, drive_monitor::Start), String> {
        let (pool, drive_options) = budget(plan);
        let (sender, answers) = mpsc::unbounded_channel();
        let workers = Workers::new(sender, drive_options);
        let mut folders = Folders::new(&plan.paths, workers, answers);
        folders.look().await;
        let mut found = folders.places();
        let finding = places::judge(&found)?;
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
            true => Some(keys.keeper().encode(&credentials::generate()).await?),
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
        let (root, origin) = root(&control, environment, &keys.keeper()).await?;
        let (house, start) = assemble(embedded, map, folders, pool, plan)?;
        note_deployment(&house, plan.deployments.clone());
        Ok((
            house,
            Started {
                formatted,
                root,
                origin: if formatted > 0 && origin == Origin::Stored { Origin::Generated } else { origin },
            },
            start,
        ))
    }

    /// What an operator should know about where the drives are.
    pub fn warnings(&self) -> Vec<String> {
        let slots = self.slots.lock().clone();
        let serving = slots.iter().filter(|s| s.drive.is_some());
        let facts: Vec<_> = serving.filter_map(|s| Some((s.path.as_path(), s.facts.as_ref()?))).collect();
        places::warnings(&facts, self.map.load().code.m)
    }

    /// Stops the background work and closes the drives.
    pub async fn close(&self) {
        // A drive that hangs holds up neither the others nor the end.
        let _ = tokio::time::timeout(CLOSE, self.store.close_feed()).await;
        self.sets.stop().await;
        let _ = tokio::time::timeout(CLOSE, self.control.close()).await;
        let drives: Vec<Drive> = self.slots.lock().iter().filter_map(|s| s.drive.clone()).collect();
        let closing = drives.iter().map(|drive| async move {
            if tokio::time::timeout(CLOSE, drive.close()).await.is_err() {
                tracing::warn!(drive = %drive.path().display(), "it does not close; its next start recovers it");
            }
        });
        futures::future::join_all(closing).await;
    }

    /// Writes a map that was made from `before`, the map in force. When the control store holds another,
    /// that one is in force from now on and nothing is written.
    ///
    /// # Errors
    /// In words.
    pub async fn write_map(&self, before: &Map, next: Map) -> Result<(), String> {
        let entry = self.control.read(Map::KEY);
        let json = entry.bytes().ok_or("the control store holds no map")?;
        let now = Map::from_json(json).map_err(|e| e.to_string())?;
        if now.to_json() != before.to_json() {
            if now.epoch > before.epoch {
                self.sets.set_layout(layout(&now)).map_err(|e| e.to_string())?;
            }
            self.map.store(Arc::new(now));
            return Err("the map was changed meanwhile; try again".to_owned());
        }
        let mut update = Update::new();
        update.set(&entry, next.to_json());
        self.embedded.change_members(update, next.members()).await.map_err(|e| e.to_string())?;
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
                *place = places::look(&place.path);
            }
            if place.probe == Probe::Blank {
                format(&place.path, deployment, Role::Voter)?;
                *place = places::look(&place.path);
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

/// Drives that were opened, by folder.
type Opened = Vec<(PathBuf, Result<Drive, String>)>;

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
    let map = Map::first(deployment, &drives, code).map_err(|e| e.to_string())?;
    let mount = |path: &str| places::facts(Path::new(path)).map(|f| f.mount);
    let found =
        drives.iter().map(|(id, path, _)| FoundAt { id: *id, path: path.clone(), mount: mount(path) });
    let map = map.found_at(&found.collect::<Vec<_>>()).unwrap_or(map);
    let media = opened.iter().zip(&drives).map(|((path, _), (id, ..))| (*id, medium(path, *id))).collect();
    let mut entries = vec![(Map::KEY.to_owned(), map.to_json().into())];
    if let Some(made) = credentials {
        entries.push((credentials::KEY.to_owned(), made.into()));
    }
    Embedded::create(deployment, media, entries).await.map_err(|e| e.to_string())
}

async fn open_control(deployment: DeploymentId, opened: &Opened) -> Result<Embedded, String> {
    let drives = opened.iter().filter_map(|(path, d)| d.as_ref().ok().map(|d| (path, d)));
    let media = drives.map(|(path, d)| (d.label().drive, medium(path, d.label().drive))).collect();
    Embedded::open(deployment, media).await.map_err(|e| {
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
    for _ in 0..TRIES {
        let entry = control.read(credentials::KEY);
        let mut update = Update::new();
        let (credential, origin) = match entry.bytes() {
            Some(bytes) => {
                let (stored, anew) = keeper.decode(bytes).await?;
                if !anew {
                    return Ok((stored, Origin::Stored));
                }
                (stored, Origin::Stored)
            }
            None => (credentials::generate(), Origin::Generated),
        };
        let sealed: bytes::Bytes = keeper.encode(&credential).await?.into();
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
) -> Result<(Arc<House>, drive_monitor::Start), String> {
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
    let lifecycle = Arc::new(super::lifecycle::Lifecycle::new(store.clone(), control.clone(), plan.calendar));
    let (orders, ordered) = mpsc::unbounded_channel();
    let joins = slots.iter().filter_map(|s| s.drive.as_ref()).filter(|d| d.role() == Role::Joining);
    let joins = Mutex::new(joins.map(|d| d.label().drive).collect());
    let house = Arc::new(House {
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
    Ok((house, start))
}

/// Notes outside the drives which folders hold the deployment; the folders of others may hang.
fn note_deployment(house: &House, deployments: Deployments) {
    let slots = house.slots.lock().clone();
    let serving = slots.iter().filter(|s| s.drive.is_some());
    let folders: Vec<_> = serving.filter_map(|s| Some((s.path.clone(), s.facts.clone()?))).collect();
    let deployment = house.map.load().deployment;
    std::thread::spawn(move || {
        if let Err(why) = deployments.note(deployment, &folders) {
            tracing::warn!(why, "it is not noted outside the drives that they hold a deployment");
        }
    });
}

/// The folders at a start.
struct Folders {
    all: Vec<AtStart>,
    workers: Workers,
    answers: UnboundedReceiver<Answer>,
}

/// One of them.
struct AtStart {
    path: PathBuf,
    place: Option<Place>,
    opening: bool,
    opened: Option<Result<(Drive, Option<String>), String>>,
}

impl Folders {
    fn new(paths: &[PathBuf], workers: Workers, answers: UnboundedReceiver<Answer>) -> Folders {
        let folder = |p: &PathBuf| AtStart { path: p.clone(), place: None, opening: false, opened: None };
        Folders { all: paths.iter().map(folder).collect(), workers, answers }
    }

    /// Waits for answers until `enough`, or `until`.
    async fn gather(&mut self, until: Option<Instant>, enough: impl Fn(&[AtStart]) -> bool) {
        while !enough(&self.all) {
            let answer = match until {
                None => self.answers.recv().await,
                Some(at) => match tokio::time::timeout_at(at.into(), self.answers.recv()).await {
                    Ok(answer) => answer,
                    Err(_) => return,
                },
            };
            match answer {
                Some(Answer::Probed(i, place)) => self.all[i].place = Some(place),
                Some(Answer::Opened(i, outcome)) => {
                    self.all[i].opened = Some(outcome.map(|AtOpen { drive, facts, distrust }| {
                        if let Some(place) = &mut self.all[i].place {
                            place.facts = facts;
                        }
                        (drive, distrust)
                    }));
                }
                Some(_) => {}
                None => return,
            }
        }
    }

    /// Looks at all of them.
    async fn look(&mut self) {
        for (i, folder) in self.all.iter().enumerate() {
            self.workers.probe(i, folder.path.clone());
        }
        let began = Instant::now();
        let all = |f: &[AtStart]| f.iter().all(|f| f.place.is_some());
        self.gather(Some(began + LOOK), all).await;
        let ours = |f: &AtStart| f.place.as_ref().is_some_and(|p| matches!(p.probe, Probe::Ours(_)));
        self.gather(Some(began + LOOK_ALL), |f| all(f) || f.iter().any(ours)).await;
    }

    /// What is known of them; a folder that does not answer cannot be read.
    fn places(&self) -> Vec<Place> {
        let silent = |path: &Path| Place {
            path: path.to_owned(),
            probe: Probe::Unreadable("it does not answer".into()),
            facts: None,
        };
        self.all.iter().map(|f| f.place.clone().unwrap_or_else(|| silent(&f.path))).collect()
    }

    fn formatted(&mut self, found: &[Place]) {
        for (folder, place) in self.all.iter_mut().zip(found) {
            folder.place = Some(place.clone());
        }
    }

    /// Opens the drives, at the same time: recovery reads. With `all`, waits for every one of them; else until most
    /// are open and the others had a while.
    async fn open(&mut self, all: bool) -> Result<Opened, String> {
        let peers: Vec<PathBuf> = self.all.iter().map(|f| f.path.clone()).collect();
        for (i, folder) in self.all.iter_mut().enumerate() {
            if folder.place.as_ref().is_some_and(|p| matches!(p.probe, Probe::Ours(_))) {
                folder.opening = true;
                self.workers.open(i, folder.path.clone(), peers.clone());
            }
        }
        let answered = |f: &[AtStart]| f.iter().all(|f| !f.opening || f.opened.is_some());
        let is_open = |f: &&AtStart| matches!(f.opened, Some(Ok(_)));
        let most = |f: &[AtStart]| f.iter().filter(is_open).count() > f.len() / 2;
        let began = Instant::now();
        if !all {
            self.gather(Some(began + OPEN), answered).await;
        }
        let mut told = Instant::now();
        while !answered(&self.all) && (all || !most(&self.all)) {
            self.gather(Some(Instant::now() + Duration::from_millis(500)), |f| {
                answered(f) || !all && most(f)
            })
            .await;
            if told.elapsed() >= Duration::from_secs(10) {
                told = Instant::now();
                let silent = self.all.iter().filter(|f| f.opening && f.opened.is_none());
                for folder in silent {
                    tracing::warn!(drive = %folder.path.display(), "it is being opened: it recovers, or does not answer; too few others are open to start without it");
                }
            }
        }
        let outcome = |f: &AtStart| {
            let opened = f.opened.as_ref()?;
            Some((f.path.clone(), opened.as_ref().map(|(drive, _)| drive.clone()).map_err(String::clone)))
        };
        let opened: Opened = self.all.iter().filter_map(outcome).collect();
        if opened.iter().all(|(_, o)| o.is_err()) {
            let why =
                opened.into_iter().filter_map(|(p, o)| o.err().map(|e| format!("{}: {e}", p.display())));
            return Err(format!("no drive can be opened\n{}", why.collect::<Vec<_>>().join("\n")));
        }
        Ok(opened)
    }
}
