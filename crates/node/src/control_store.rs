//! The control store of a node: the embedded one of a machine that is alone, or etcd.
//!
//! A drive of a cluster has a mark beside its label. Without it, a start that names no cluster would find a drive
//! without a copy of the embedded store and take it for one of a first start that was interrupted.
//!
//! Invariants: what the drives of a node keep of the control store is written only while the folder holds that
//! drive; a drive is marked before it holds anything of a cluster, and a marked drive serves no machine that is alone.
//!
//! Must not depend on: how a start finds its drives, what the control store contains.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use ashlar_cluster::{Control, Embedded, FileMedium, Medium, Result, Update};
use ashlar_drive::Probe;
use ashlar_environment::time;
use ashlar_etcd::Etcd;
use ashlar_format::DriveId;
use ashlar_machine::Folder;

/// The files of the mark.
const MARK: [&str; 2] = ["cluster.0", "cluster.1"];

/// How long a start waits for a folder to say which cluster it belongs to.
const PATIENCE: Duration = Duration::from_secs(2);

/// The driver of the control store. Cheap to clone.
#[derive(Clone)]
pub(crate) enum ControlStore {
    /// Copies on the drives of this machine, which is alone.
    Embedded(Embedded),
    /// etcd, and the handle that tells other nodes; the drives of this node keep snapshots.
    Etcd(Etcd, Control),
}

impl ControlStore {
    /// The handle that users of the store hold.
    pub(crate) fn control(&self) -> Control {
        match self {
            ControlStore::Embedded(embedded) => embedded.control(),
            ControlStore::Etcd(_, control) => control.clone(),
        }
    }

    /// `embedded` or `etcd`.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            ControlStore::Embedded(_) => "embedded",
            ControlStore::Etcd(..) => "etcd",
        }
    }

    /// Why the store cannot be used now, as far as its driver says.
    pub(crate) fn trouble(&self) -> Option<String> {
        match self {
            ControlStore::Embedded(_) => None,
            ControlStore::Etcd(etcd, _) => etcd.trouble(),
        }
    }

    /// Uses other members of etcd from now on: their URLs for clients.
    pub(crate) fn set_endpoints(&self, endpoints: &[String]) {
        match self {
            ControlStore::Embedded(_) => {}
            ControlStore::Etcd(etcd, _) => etcd.set_endpoints(endpoints),
        }
    }

    /// Keeps the store, or its snapshots, on the drive in a folder.
    ///
    /// # Errors
    /// Of the embedded store.
    pub(crate) async fn attach(&self, id: DriveId, path: &Path) -> Result<()> {
        match self {
            ControlStore::Embedded(embedded) => embedded.attach(id, medium(path, id)).await,
            ControlStore::Etcd(etcd, _) => {
                etcd.attach(id, snapshots(path, id));
                Ok(())
            }
        }
    }

    /// Writes to the drive no longer.
    pub(crate) fn detach(&self, id: DriveId) {
        match self {
            ControlStore::Embedded(embedded) => embedded.detach(id),
            ControlStore::Etcd(etcd, _) => etcd.detach(id),
        }
    }

    /// Makes an update after which these drives are the members of the map.
    ///
    /// # Errors
    /// Like [`Control::update`].
    pub(crate) async fn change_members(&self, update: Update, members: Vec<DriveId>) -> Result<u64> {
        match self {
            // Its members are the drives.
            ControlStore::Embedded(embedded) => embedded.change_members(update, members).await,
            ControlStore::Etcd(_, control) => control.update(update).await,
        }
    }
}

/// The copy of the embedded store in the folder of drive `id`.
pub(crate) fn medium(path: &Path, id: DriveId) -> Arc<dyn Medium> {
    Arc::new(OwnFolder { path: path.to_owned(), id, files: FileMedium::new(Folder::real(path, None)) })
}

/// The snapshots of etcd's content in the folder of drive `id`.
pub(crate) fn snapshots(path: &Path, id: DriveId) -> Arc<dyn Medium> {
    let files = FileMedium::named(Folder::real(path, None), ashlar_etcd::FILES);
    Arc::new(OwnFolder { path: path.to_owned(), id, files })
}

/// A control medium in a separate folder.
pub(crate) fn bare_medium(folder: Folder) -> Arc<dyn Medium> {
    Arc::new(FileMedium::new(folder))
}

/// The control store's files of one drive. They are written only while the folder holds that drive: a folder
/// that was emptied must stay blank, so that it can be formatted and join again.
struct OwnFolder {
    path: std::path::PathBuf,
    id: DriveId,
    files: FileMedium,
}

impl OwnFolder {
    fn check(&self) -> std::io::Result<()> {
        match ashlar_drive::probe(&self.path) {
            Probe::Ours(label) if label.drive == self.id => Ok(()),
            other => Err(std::io::Error::other(format!("the folder no longer holds the drive: {other:?}"))),
        }
    }
}

impl Medium for OwnFolder {
    fn read(&self, slot: usize) -> std::io::Result<Option<Vec<u8>>> {
        self.files.read(slot)
    }

    fn write(&self, slot: usize, bytes: &[u8]) -> std::io::Result<()> {
        self.check()?;
        self.files.write(slot, bytes)
    }

    fn read_log(&self) -> std::io::Result<Option<Vec<u8>>> {
        self.files.read_log()
    }

    fn write_log(&self, at: u64, bytes: &[u8]) -> std::io::Result<()> {
        self.check()?;
        self.files.write_log(at, bytes)
    }
}

/// Marks the drive in a folder durably as one of the cluster with this name. Blocks.
///
/// # Errors
/// Of the file system.
pub(crate) fn mark(path: &Path, cluster: &str) -> std::io::Result<()> {
    FileMedium::named(Folder::real(path, None), MARK).write(0, cluster.as_bytes())
}

/// The name of the cluster that the drive in a folder belongs to; `None`: it belongs to a machine that is alone.
/// Blocks.
///
/// # Errors
/// Of the file system.
pub(crate) fn marked(path: &Path) -> std::io::Result<Option<String>> {
    let read = FileMedium::named(Folder::real(path, None), MARK).read(0)?;
    // If a power loss interrupted its writing, what follows it did not happen either.
    let whole = read.filter(|bytes| bytes.iter().any(|b| *b != 0));
    Ok(whole.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()))
}

/// Removes the mark of the drive in a folder. Blocks.
///
/// # Errors
/// Of the file system.
pub(crate) fn unmark(path: &Path) -> std::io::Result<()> {
    let folder = Folder::real(path, None);
    for file in MARK {
        match folder.remove(file) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => return Err(e),
            _ => {}
        }
    }
    folder.sync()
}

/// The marks of folders, each read on a thread of its own. A folder that does not answer in time has an error.
pub(crate) async fn marks(paths: Vec<PathBuf>) -> Vec<(PathBuf, std::io::Result<Option<String>>)> {
    let one = |path: PathBuf| async move {
        let (send, receive) = tokio::sync::oneshot::channel();
        let folder = path.clone();
        let started = ashlar_environment::thread::run_apart("cluster-mark", move || {
            // The receiver is gone if it took too long.
            let _ = send.send(marked(&folder));
        });
        let read = match started {
            Ok(()) => time::timeout(PATIENCE, receive).await,
            Err(error) => return (path, Err(error)),
        };
        let silent = || std::io::Error::other("it does not answer");
        (path, read.map_err(|_| silent()).and_then(|read| read.unwrap_or_else(|_| Err(silent()))))
    };
    futures::future::join_all(paths.into_iter().map(one)).await
}
