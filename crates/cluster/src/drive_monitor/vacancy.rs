//! Which drives are this node's, which blank folder replaces which of them, and when only an operator may decide
//! that.
//!
//! Must not depend on: devices, threads, requests.

use std::path::Path;
use std::time::Duration;

use ashlar_format::DriveId;

use super::types::Action;
use super::{Monitor, Phase};
use crate::map::{Drive, DriveState};

/// A folder without a drive of the map.
#[derive(Clone, Debug)]
pub(super) struct Blank {
    /// When it was first found blank.
    pub since: Duration,
    /// The mount point of its file system.
    pub mount: Option<String>,
    /// The drive in it that never entered the map, after an interrupted replacement.
    pub unknown: Option<DriveId>,
}

impl Monitor {
    /// Lets a blank folder replace a drive, if one may.
    pub(super) fn fill(&mut self) {
        let mut alone = Vec::new();
        for i in 0..self.folders.len() {
            let f = &self.folders[i];
            // A folder that is being probed again counts too; it is used when the probe has ended.
            let rests = matches!(f.phase, Phase::Idle | Phase::Probing(_));
            if !rests || f.held || f.blank.is_none() {
                continue;
            }
            let Some(old) = self.vacancy(i) else {
                self.note(i, "blank, and no drive is missing");
                continue;
            };
            if self.folders[i].ordered {
                self.take(i, old);
            } else if let Some(mount) = self.lost_mount(i, old) {
                self.note(i, &format!("blank, and the drive that belongs here was on a file system mounted at {mount}: is it not mounted? `ashlar drive replace` uses the folder anyway"));
            } else {
                alone.push((i, old));
            }
        }
        if alone.len() > 1 {
            for (i, _) in &alone {
                self.folders[*i].needs_operator = true;
            }
        }
        for (i, old) in &alone {
            if self.folders[*i].needs_operator {
                let count = alone.len();
                let others = if count > 1 {
                    format!("{count} folders are blank at once")
                } else {
                    "blank, as others were at the same time".to_owned()
                };
                self.note(*i, &format!("{others}: are drives not mounted? No drive is replaced automatically; use `ashlar drive replace`"));
            } else if let Some(why) = self.must_wait(*i, *old) {
                self.note(*i, &why);
            } else {
                self.take(*i, *old);
            }
        }
    }

    /// Why a blank folder is not used yet.
    fn must_wait(&self, i: usize, old: DriveId) -> Option<String> {
        if let Some(d) = self.map.drives.iter().find(|d| d.id != old && self.map.is_joining(d.id)) {
            return Some(format!(
                "blank: waits until the drive of {} has joined; `ashlar drive replace` does not wait",
                d.path
            ));
        }
        if self.folders.iter().any(|f| f.replaces.is_some()) {
            return Some("blank: waits until another drive is replaced".to_owned());
        }
        let blank = self.folders[i].blank.as_ref()?;
        let waited = self.now.saturating_sub(blank.since);
        // A folder that was never probed may be blank too.
        let unseen = self.folders.iter().any(|f| !f.seen && !f.held);
        let enough = waited >= self.settings.blank_for && (!unseen || waited >= self.settings.patience);
        (!enough).then(|| "blank".to_owned())
    }

    fn take(&mut self, i: usize, old: DriveId) {
        let f = &mut self.folders[i];
        let Some(blank) = f.blank.as_ref().filter(|_| f.phase == Phase::Idle) else { return };
        f.replaces = Some(old);
        match blank.unknown {
            // Made by an interrupted replacement.
            Some(id) => {
                (f.phase, f.drive) = (Phase::Opening(self.now), Some(id));
                self.out.push(Action::Open(i));
            }
            None => {
                let mount = if f.ordered { None } else { blank.mount.clone() };
                f.phase = Phase::Formatting;
                self.out.push(Action::Format(i, mount));
            }
        }
    }

    /// The mount point where the drive `old` was, if folder `i` is on a parent file system: then the file
    /// system of the drive is not mounted.
    fn lost_mount(&self, i: usize, old: DriveId) -> Option<String> {
        let blank = self.folders[i].blank.as_ref()?;
        if blank.unknown.is_some() {
            return None; // checked when it was formatted
        }
        let was = self.map.drive(old)?.mount.as_deref()?;
        // An unknown mount point counts as the root.
        let is = blank.mount.as_deref().unwrap_or("/");
        (was != is && Path::new(was).starts_with(is)).then(|| was.to_owned())
    }

    /// The drive of the map that folder `i` replaces: the one of this node that was last seen there; otherwise
    /// any drive of this node that is missing, if no other folder belongs to it.
    pub(super) fn vacancy(&self, i: usize) -> Option<DriveId> {
        let here = &self.folders[i].path;
        let others = || self.folders.iter().enumerate().filter(|(j, _)| *j != i).map(|(_, f)| f);
        let missing = |id: DriveId| !others().any(|f| f.drive == Some(id) || f.replaces == Some(id));
        let own = self.map.drives.iter().filter(|d| d.state != DriveState::Dead && self.is_own(d));
        let mut gone = own.filter(|d| missing(d.id));
        if let Some(drive) = gone.clone().find(|d| d.path == *here) {
            return Some(drive.id);
        }
        gone.find(|d| !self.folders.iter().any(|f| f.path == d.path)).map(|d| d.id)
    }

    /// Whether this node serves a drive of the map.
    pub(super) fn is_own(&self, drive: &Drive) -> bool {
        self.settings.node.is_none_or(|own| drive.node == own)
    }

    /// Why a drive of the map is not opened here, if another node serves it.
    pub(super) fn is_of_another(&self, id: DriveId) -> Option<String> {
        let drive = self.map.drive(id).filter(|d| !self.is_own(d))?;
        Some(format!("it is a drive of node {}: put it back there, or replace it there", drive.node))
    }

    /// Whether `old` may still be replaced by the drive in folder `i`.
    pub(super) fn may_take(&self, i: usize, old: DriveId) -> bool {
        let alive = self.map.drive(old).is_some_and(|d| d.state != DriveState::Dead && self.is_own(d));
        alive && !self.folders.iter().enumerate().any(|(j, f)| j != i && f.drive == Some(old))
    }
}
