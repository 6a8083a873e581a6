//! Replaces a drive by a blank one.

use std::path::Path;
use std::sync::Arc;

use ashlar_cluster::{FoundAt, Map};
use ashlar_drive::Drive;
use ashlar_format::DriveId;
use ashlar_machine::Folder;

use super::put_in_service;
use crate::control_store::{ControlStore, bare_medium};
use crate::node::{self, Node};

/// Folder with the copy of the control store while a drive is being replaced.
const HANDOVER: &str = "handover";

/// Refuses a drive in the place of `old` if it is on a disk whose loss would then lose objects, and that is not accepted. `domain`: what the new drive
/// fails with.
pub(super) fn check_disk(
    map: &Map,
    accepted: bool,
    old: DriveId,
    domain: Option<&str>,
) -> Result<(), String> {
    if accepted { Ok(()) } else { map.check_replacement(old, domain).map_err(|e| e.to_string()) }
}

/// Writes the map that gives the slots of `old` to `drive`, and puts `drive` into service.
pub async fn replace(node: &Arc<Node>, i: usize, old: DriveId, drive: Drive) -> Result<(), String> {
    let _one = node.changes.lock().await;
    let map = node.map.load_full();
    let (id, path) = (drive.label().drive, drive.path().to_owned());
    let next = map
        .replace(old, id, &path.display().to_string(), drive.stats().capacity)
        .map_err(|e| e.to_string())?;
    // In the same change, because the drive may be unmounted before the next one.
    let mount = node.folders.lock().get(i).and_then(|s| s.facts.as_ref().map(|f| f.mount.clone()));
    let found = FoundAt { id, path: path.display().to_string(), mount };
    let next = next.found_at(&[found]).unwrap_or(next);
    // A new drive in the place of another one is another disk.
    let domain = node.folders.lock().get(i).and_then(|s| s.facts.as_ref().and_then(|f| f.domain.clone()));
    // It was checked before the drive was formatted; drives of other nodes may have got other disks since.
    check_disk(&map, node.accepts_shared_drive(), old, domain.as_deref())?;
    let next = next.in_domain(id, domain);
    let handover = hand_over(node, old, &path).await?;
    node.control_store.attach(id, &path).await.map_err(|e| e.to_string())?;
    let written = node.write_map(&map, next.clone()).await;
    if handover.is_some() || written.is_ok() {
        node.control_store.detach(old);
    }
    if handover.is_some() {
        let folder = Folder::real(&path, None);
        let _ = node::blocking(move || folder.remove_folder(HANDOVER)).await;
    }
    written?;
    node.sets.set_layout(node::layout(&next)).map_err(|e| e.to_string())?;
    node.sets.detach(old);
    tracing::warn!(drive = %path.display(), %old, new = %id, epoch = next.epoch, "a blank drive replaces another");
    put_in_service(node, i, drive);
    Ok(())
}

/// If too few copies of the control store are left to change it, the blank drive first takes over the copy of
/// the drive that it replaces: the copy is rebuilt from those that are left, which hold everything that was
/// acknowledged (docs/decisions/0005-commit-protocol.md).
async fn hand_over(node: &Node, old: DriveId, path: &Path) -> Result<Option<()>, String> {
    if node.control.health().writable {
        return Ok(None);
    }
    let ControlStore::Embedded(embedded) = &node.control_store else {
        return Err("waiting for the control store, which takes no changes".into());
    };
    let folder = Folder::real(path, None).sub(HANDOVER);
    let made = folder.clone();
    node::blocking(move || made.make()).await?.map_err(|e| format!("{}: {e}", folder.path().display()))?;
    embedded.attach(old, bare_medium(folder)).await.map_err(|e| e.to_string())?;
    if node.control.health().writable {
        return Ok(Some(()));
    }
    // Other drives must be handed over too; this one waits for them.
    Err("waiting for more drives: the control store has no majority".into())
}
