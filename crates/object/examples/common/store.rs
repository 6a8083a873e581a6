//! A store over four drives (2+2) in a folder, for examples.
//!
//! Must not depend on: what an example measures.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use ashlar_cluster::{Embedded, FileMedium, Map, Medium};
use ashlar_drive::Drive;
use ashlar_erasure_set::{Code, Group, Layout, Sets};
use ashlar_format::{DeploymentId, DriveId};
use ashlar_machine::{BufferPool, Folder};
use ashlar_object::{Options, Store};

const DEPLOYMENT: DeploymentId = DeploymentId([7; 16]);

pub type Fallible<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// A store over four drives in a folder.
pub struct Opened {
    pub store: Store,
    sets: Sets,
    drives: Vec<Drive>,
}

/// Opens the store in `folder`, of so many placement groups; makes it if the folder is empty.
pub async fn open(folder: &Path, groups: usize, options: Options) -> Fallible<Opened> {
    let made = !folder.join("drive1").exists();
    let buffers = BufferPool::new(1 << 30);
    let ids: Vec<(DriveId, PathBuf)> =
        (1..=4u8).map(|i| (DriveId([i; 16]), folder.join(format!("drive{i}")))).collect();
    let named: Vec<_> = ids.iter().map(|(d, p)| (*d, p.display().to_string(), 1 << 30)).collect();
    let map = Map::first(DEPLOYMENT, &named, None, Some(groups))?;
    let (mut drives, mut media) = (Vec::new(), Vec::new());
    for (id, path) in &ids {
        if made {
            std::fs::create_dir_all(path)?;
            let label = ashlar_drive::Label { deployment: DEPLOYMENT, drive: *id, created_ms: 1 };
            let votes: Vec<_> =
                map.groups_of(*id).into_iter().map(|g| (g, ashlar_drive::Role::Voter)).collect();
            ashlar_drive::format(path, &label, &votes)?;
        }
        media.push((*id, Arc::new(FileMedium::new(Folder::real(path, None))) as Arc<dyn Medium>));
        drives.push(Drive::open(path, &ashlar_drive::Options::new(buffers.clone()))?);
    }
    let control = if made {
        Embedded::create(DEPLOYMENT, media, Vec::new()).await?.control()
    } else {
        Embedded::open(DEPLOYMENT, media).await?.control()
    };
    let group = |g: &ashlar_cluster::Group| Group {
        id: g.id,
        epoch: g.epoch,
        slots: g.slots.iter().map(|s| s.drive).collect(),
    };
    let layout = Layout {
        epoch: map.epoch,
        code: Code { k: map.code().k, m: map.code().m },
        groups: map.groups.iter().map(group).collect(),
    };
    let sets = Sets::new(layout, drives.clone(), ashlar_erasure_set::Options::new(buffers))?;
    sets.start();
    let store = Store::open(sets.clone(), control, options)?;
    Ok(Opened { store, sets, drives })
}

impl Opened {
    /// Closes everything. A drive that does not close in time is left.
    pub async fn close(self) {
        self.sets.stop().await;
        for drive in self.drives {
            let _ = tokio::time::timeout(Duration::from_secs(2), drive.close()).await;
        }
    }
}
