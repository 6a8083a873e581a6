//! The node: drives, control store, placement groups and store, which everything in a running server shares.
//!
//! `node_start` builds it, `drive_monitor` looks after its drives, `rollback` notes how far they have come.
//!
//! Invariant: the map in force is the one in the control store. Must not depend on: requests, how a start finds
//! its drives.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use ashlar_cluster::{Control, Embedded, FileMedium, Map, Medium};
use ashlar_drive::{Drive, Probe};
use ashlar_erasure_set::{Code, Group, Layout, Sets};
use ashlar_format::DriveId;
use ashlar_machine::{BufferPool, Folder};
use ashlar_object::Store;
use parking_lot::Mutex;

use super::drive_discovery::{self, Facts};
use super::drive_monitor::order::Orders;
use super::lifecycle::Lifecycle;

/// How long one drive, and the control store, may take to close.
const CLOSE: Duration = Duration::from_secs(10);

/// The node.
pub struct Node {
    /// The control store.
    pub control: Control,
    /// The same, as what keeps its copies on the drives.
    pub embedded: Embedded,
    /// The placement groups.
    pub sets: Sets,
    /// The store.
    pub store: Store,
    /// Lifecycle rules.
    pub lifecycle: Arc<Lifecycle>,
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
    let code = map.code();
    let group = |g: &ashlar_cluster::Group| Group {
        id: g.id,
        epoch: g.epoch,
        slots: g.slots.iter().map(|s| s.drive).collect(),
    };
    Layout {
        epoch: map.epoch,
        code: Code { k: code.k, m: code.m },
        groups: map.groups.iter().map(group).collect(),
    }
}

impl Node {
    /// What an operator should know about where the drives are.
    pub fn warnings(&self) -> Vec<String> {
        let slots = self.slots.lock().clone();
        let serving = slots.iter().filter(|s| s.drive.is_some());
        let facts: Vec<_> = serving.filter_map(|s| Some((s.path.as_path(), s.facts.as_ref()?))).collect();
        drive_discovery::warnings(&facts, self.map.load().code().m)
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
        let now = Map::read(&self.control).map_err(|e| e.to_string())?;
        if now != *before {
            if now.epoch > before.epoch {
                self.sets.set_layout(layout(&now)).map_err(|e| e.to_string())?;
            }
            self.map.store(Arc::new(now));
            return Err("the map was changed meanwhile; try again".to_owned());
        }
        let update = next.update(before, &self.control).map_err(|e| e.to_string())?;
        self.embedded.change_members(update, next.members()).await.map_err(|e| e.to_string())?;
        self.map.store(Arc::new(next));
        Ok(())
    }
}

/// Runs something that blocks off the runtime.
pub async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, String> {
    tokio::task::spawn_blocking(work).await.map_err(|e| format!("internal error: {e}"))
}
