//! Names by which users find devices: `FOLDER/NAME` is a link to `/dev/ublkbN`.
//!
//! Invariants: nothing but links is replaced or removed, and nothing outside of the folder.
//!
//! Must not depend on: devices.

use std::io;
use std::os::unix::fs::symlink;
use std::path::{Component, Path, PathBuf};

/// The folder of the links.
pub(crate) struct Links(PathBuf);

impl Links {
    /// Makes the folder.
    pub(crate) fn new(folder: &Path) -> io::Result<Links> {
        std::fs::create_dir_all(folder)?;
        Ok(Links(folder.to_owned()))
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.0
    }

    /// Where the link of a name is. The name must be a path below the folder.
    pub(crate) fn path(&self, name: &str) -> io::Result<PathBuf> {
        let below = Path::new(name);
        let normal = below.components().all(|part| matches!(part, Component::Normal(_)));
        if normal && below.components().next().is_some() {
            Ok(self.0.join(below))
        } else {
            Err(io::Error::new(io::ErrorKind::InvalidInput, "the name is no path below the folder"))
        }
    }

    /// Makes a name mean a device, at once: it is never missing if it was there before.
    pub(crate) fn set(&self, name: &str, device: &Path) -> io::Result<()> {
        let path = self.path(name)?;
        match std::fs::symlink_metadata(&path) {
            Ok(found) if !found.is_symlink() => {
                return Err(io::Error::new(io::ErrorKind::AlreadyExists, "this is no link"));
            }
            _ => {}
        }
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent)?;
        }
        let mut new = path.clone().into_os_string();
        new.push(".new");
        let _ = std::fs::remove_file(&new).or_else(|error| match error.kind() {
            io::ErrorKind::NotFound => Ok(()),
            _ => Err(error),
        });
        symlink(device, &new)?;
        std::fs::rename(&new, &path)
    }

    /// Removes a name that means this device, and the folder of its group if it was the last.
    pub(crate) fn remove(&self, name: &str, device: &Path) {
        let Ok(path) = self.path(name) else { return };
        if std::fs::read_link(&path).is_ok_and(|to| to == device) {
            let _ = std::fs::remove_file(&path);
            if let Some(parent) = path.parent().filter(|parent| *parent != self.0) {
                let _ = std::fs::remove_dir(parent);
            }
        }
    }
}
