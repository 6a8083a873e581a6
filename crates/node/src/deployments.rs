//! Notes about which folders held a deployment, stored outside of them. If all folders are empty at a start,
//! the notes show whether a deployment existed there whose drives are not mounted.
//!
//! Each deployment has one small file in the state folder (`--state-dir`, else as systemd or XDG define it).
//! Invariants: the notes decide nothing about a deployment that is present; losing the notes loses only this
//! protection; a note is removed when its folders were removed on purpose.

use std::path::{Path, PathBuf};

use ashlar_format::DeploymentId;
use serde::{Deserialize, Serialize};

use super::drive_discovery::{self, InspectedFolder};

/// Format number of the notes.
const FORMAT: u32 = 1;
const PREFIX: &str = "deployment-";

#[derive(Serialize, Deserialize, PartialEq, Eq, Debug)]
struct Note {
    format: u32,
    deployment: String,
    folders: Vec<Noted>,
}

#[derive(Serialize, Deserialize, PartialEq, Eq, Debug)]
struct Noted {
    path: String,
    /// Mount point of its file system.
    mount: String,
}

/// The state folder.
#[derive(Debug, Clone, Default)]
pub struct Deployments {
    folder: Option<PathBuf>,
}

impl Deployments {
    /// The state folder `given`, or the one that the environment defines.
    pub fn new(given: Option<PathBuf>, environment: impl Fn(&str) -> Option<String>) -> Deployments {
        let set = |name: &str| environment(name).filter(|v| v.starts_with('/'));
        // systemd separates several folders by colons.
        let systemd = set("STATE_DIRECTORY").and_then(|v| v.split(':').next().map(PathBuf::from));
        let xdg = set("XDG_STATE_HOME").map(|v| Path::new(&v).join("ashlar"));
        let home = set("HOME").map(|v| Path::new(&v).join(".local/state/ashlar"));
        Deployments { folder: given.or(systemd).or(xdg).or(home) }
    }

    fn notes(&self) -> Vec<(PathBuf, Note)> {
        let Some(entries) = self.folder.as_ref().and_then(|f| std::fs::read_dir(f).ok()) else {
            return Vec::new();
        };
        let ours = |p: &PathBuf| p.file_name().is_some_and(|n| n.to_string_lossy().starts_with(PREFIX));
        let files = entries.filter_map(|e| Some(e.ok()?.path())).filter(ours);
        let read = |p: &Path| serde_json::from_slice(&std::fs::read(p).ok()?).ok();
        files.filter_map(|p| read(&p).map(|n| (p, n))).collect()
    }

    /// Called before a new deployment is made in `folders`; fails if a deployment existed there. `confirmed`:
    /// the operator says that it is gone, and its notes are removed.
    ///
    /// # Errors
    /// A message for the operator.
    pub(crate) fn check_new(&self, folders: &[InspectedFolder], confirmed: bool) -> Result<(), String> {
        for (file, note) in self.notes() {
            let held: Vec<&Noted> = note.folders.iter().filter(|f| still_named(f, folders)).collect();
            if held.is_empty() {
                continue;
            }
            if confirmed {
                std::fs::remove_file(&file).map_err(|e| format!("{}: {e}", file.display()))?;
                continue;
            }
            let names: Vec<&str> = held.iter().map(|f| f.path.as_str()).collect();
            let away = held.iter().find(|f| nearest_mount(Path::new(&f.path)).is_some_and(|m| m != f.mount));
            let hint = away.map_or(String::new(), |f| {
                format!(" The file system that was mounted at {} is not mounted.", f.mount)
            });
            return Err(format!(
                "{} held the deployment {} and are empty now.{hint} Mount its drives and start again; if it is meant to be gone, start once with --new-deployment",
                names.join(", "),
                note.deployment
            ));
        }
        Ok(())
    }

    /// Notes the folders of the deployment in service; removes notes of deployments that were removed.
    ///
    /// # Errors
    /// A message for the operator: the note was not written.
    pub(crate) fn note(
        &self,
        deployment: DeploymentId,
        folders: &[(PathBuf, drive_discovery::Facts)],
    ) -> Result<(), String> {
        let Some(folder) = &self.folder else {
            return Err("neither --state-dir nor HOME names a folder".into());
        };
        let lasting = folders.iter().filter(|(_, facts)| !facts.memory);
        let folders = lasting
            .map(|(path, facts)| Noted { path: path.display().to_string(), mount: facts.mount.clone() })
            .collect::<Vec<_>>();
        let deployment = deployment.to_hex();
        for (file, note) in self.notes() {
            // The note stays while a folder exists or its file system is not mounted.
            if note.deployment != deployment && note.folders.iter().all(was_removed) {
                let _ = std::fs::remove_file(file);
            }
        }
        if folders.is_empty() {
            return Ok(());
        }
        let file = folder.join(format!("{PREFIX}{deployment}.json"));
        let mut note = Note { format: FORMAT, deployment, folders };
        if let Some((_, old)) = self.notes().into_iter().find(|(f, _)| *f == file) {
            // Folders that are out of service now stay in the note.
            let new = |f: &Noted| !note.folders.iter().any(|n| n.path == f.path);
            let kept: Vec<Noted> = old.folders.into_iter().filter(new).collect();
            note.folders.extend(kept);
        }
        let text = serde_json::to_vec_pretty(&note).map_err(|e| e.to_string())?;
        let io = |e: std::io::Error| format!("{}: {e}", file.display());
        if std::fs::read(&file).is_ok_and(|old| old == text) {
            return Ok(());
        }
        std::fs::create_dir_all(folder).map_err(io)?;
        let new = file.with_extension("new");
        std::fs::write(&new, &text).and_then(|()| std::fs::rename(&new, &file)).map_err(io)
    }
}

/// Whether a start over `folders` would replace the deployment of this folder: the folder is among them, and
/// was not removed on purpose.
fn still_named(folder: &Noted, folders: &[InspectedFolder]) -> bool {
    let path = Path::new(&folder.path);
    folders.iter().any(|p| p.path == path) && !was_removed(folder)
}

/// Whether the folder was removed on purpose: it does not exist although its file system is mounted.
fn was_removed(folder: &Noted) -> bool {
    let path = Path::new(&folder.path);
    !path.exists() && nearest_mount(path).is_some_and(|m| m == folder.mount)
}

/// The mount point of a folder, or of the nearest existing folder above it.
fn nearest_mount(path: &Path) -> Option<String> {
    path.ancestors().find_map(drive_discovery::facts).map(|f| f.mount)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ashlar_drive::Probe;

    fn at(path: &Path, probe: Probe) -> Vec<InspectedFolder> {
        vec![InspectedFolder { path: path.to_owned(), probe, facts: None }]
    }

    #[test]
    fn existing_deployment_is_not_replaced_silently() {
        let dir = tempfile::tempdir().unwrap();
        let state = Deployments::new(Some(dir.path().join("state")), |_| None);
        let drive = dir.path().join("d1");
        assert_eq!(state.check_new(&at(&drive, Probe::Missing), false), Ok(()), "nothing was ever there");
        std::fs::create_dir(&drive).unwrap();
        let mut facts = drive_discovery::facts(&drive).unwrap();
        facts.memory = false;
        let id = DeploymentId([7; 16]);
        state.note(id, &[(drive.clone(), facts.clone())]).unwrap();
        let text = state.check_new(&at(&drive, Probe::Blank), false).unwrap_err();
        assert!(text.contains(&id.to_hex()) && text.contains("--new-deployment"), "{text}");
        assert_eq!(
            state.check_new(&at(&dir.path().join("d2"), Probe::Blank), false),
            Ok(()),
            "another folder"
        );
        // The folder was removed, on a mounted file system: on purpose.
        std::fs::remove_dir(&drive).unwrap();
        assert_eq!(state.check_new(&at(&drive, Probe::Missing), false), Ok(()));
        // On a file system that is not mounted.
        facts.mount = format!("{}", drive.display());
        state.note(id, &[(drive.clone(), facts.clone())]).unwrap();
        let text = state.check_new(&at(&drive, Probe::Missing), false).unwrap_err();
        assert!(text.contains("is not mounted"), "{text}");
        // The confirmation is for one start.
        assert_eq!(state.check_new(&at(&drive, Probe::Missing), true), Ok(()));
        assert_eq!(state.check_new(&at(&drive, Probe::Missing), false), Ok(()));
    }

    #[test]
    fn note_is_removed_with_its_folders() {
        let dir = tempfile::tempdir().unwrap();
        let state = Deployments::new(Some(dir.path().join("state")), |_| None);
        let (a, b) = (dir.path().join("a"), dir.path().join("b"));
        for (n, path) in [(1, &a), (2, &b)] {
            std::fs::create_dir(path).unwrap();
            let mut facts = drive_discovery::facts(path).unwrap();
            facts.memory = false;
            state.note(DeploymentId([n; 16]), &[(path.clone(), facts)]).unwrap();
        }
        assert_eq!(state.notes().len(), 2);
        std::fs::remove_dir(&a).unwrap();
        let mut facts = drive_discovery::facts(&b).unwrap();
        facts.memory = false;
        state.note(DeploymentId([2; 16]), &[(b.clone(), facts.clone())]).unwrap();
        assert_eq!(state.notes().len(), 1);
        // A drive in memory is gone after a reboot, as expected.
        facts.memory = true;
        let other = Deployments::new(Some(dir.path().join("other")), |_| None);
        other.note(DeploymentId([3; 16]), &[(b, facts)]).unwrap();
        assert!(other.notes().is_empty());
    }

    #[test]
    fn state_folder_follows_environment() {
        let of = |set: &[(&str, &str)]| {
            let set: Vec<(String, String)> = set.iter().map(|(a, b)| ((*a).into(), (*b).into())).collect();
            let get = move |name: &str| set.iter().find(|(n, _)| n == name).map(|(_, v)| v.clone());
            Deployments::new(None, get).folder
        };
        assert_eq!(of(&[("HOME", "/h")]), Some("/h/.local/state/ashlar".into()));
        assert_eq!(of(&[("HOME", "/h"), ("XDG_STATE_HOME", "/s")]), Some("/s/ashlar".into()));
        assert_eq!(of(&[("HOME", "/h"), ("STATE_DIRECTORY", "/var/lib/a:/b")]), Some("/var/lib/a".into()));
        assert_eq!(of(&[("HOME", "relative")]), None);
    }
}
