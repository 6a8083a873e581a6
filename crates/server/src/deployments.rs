//! Which folders held a deployment, noted outside of them: so that a start over folders that are all empty does
//! not take a deployment whose drives are not mounted for one that never was.
//!
//! One small file per deployment in the state folder (`--state-dir`, else what systemd or XDG name). Invariants:
//! the notes decide nothing about drives of a deployment that is there; losing them loses only this protection;
//! a note goes when its folders were removed on purpose.

use std::path::{Path, PathBuf};

use ashlar_format::DeploymentId;
use serde::{Deserialize, Serialize};

use super::drive_discovery::{self, Place};

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
    /// In `given`, or where the environment says.
    pub fn new(given: Option<PathBuf>, environment: impl Fn(&str) -> Option<String>) -> Deployments {
        let set = |name: &str| environment(name).filter(|v| v.starts_with('/'));
        // systemd may name several, with colons.
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

    /// Before a new deployment is made in `places`: refuses when one was there. `confirmed`: the operator says
    /// that it is gone; then its notes go too.
    ///
    /// # Errors
    /// In words for the operator.
    pub fn check_new(&self, places: &[Place], confirmed: bool) -> Result<(), String> {
        for (file, note) in self.notes() {
            let held: Vec<&Noted> = note.folders.iter().filter(|f| still_named(f, places)).collect();
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

    /// Notes the folders of a deployment that is being served; forgets deployments that were removed.
    ///
    /// # Errors
    /// In words: nothing is noted.
    pub fn note(
        &self,
        deployment: DeploymentId,
        places: &[(PathBuf, drive_discovery::Facts)],
    ) -> Result<(), String> {
        let Some(folder) = &self.folder else {
            return Err("neither --state-dir nor HOME names a folder".into());
        };
        let lasting = places.iter().filter(|(_, facts)| !facts.memory);
        let folders = lasting
            .map(|(path, facts)| Noted { path: path.display().to_string(), mount: facts.mount.clone() })
            .collect::<Vec<_>>();
        let deployment = deployment.to_hex();
        for (file, note) in self.notes() {
            // A folder that is there, or whose file system is away, keeps the note.
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
            // Folders that are out of service now stay noted.
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

/// Whether a start over `places` would make a new deployment where this folder was: it is named, and was not
/// removed on purpose.
fn still_named(folder: &Noted, places: &[Place]) -> bool {
    let path = Path::new(&folder.path);
    places.iter().any(|p| p.path == path) && !was_removed(folder)
}

/// The folder is gone while its file system is there: somebody removed it.
fn was_removed(folder: &Noted) -> bool {
    let path = Path::new(&folder.path);
    !path.exists() && nearest_mount(path).is_some_and(|m| m == folder.mount)
}

/// The mount point of a folder, or of the nearest one above it that exists.
fn nearest_mount(path: &Path) -> Option<String> {
    path.ancestors().find_map(drive_discovery::facts).map(|f| f.mount)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ashlar_drive::Probe;

    fn at(path: &Path, probe: Probe) -> Vec<Place> {
        vec![Place { path: path.to_owned(), probe, facts: None }]
    }

    #[test]
    fn a_deployment_that_was_there_is_not_replaced_silently() {
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
        // Removed as a whole, on a file system that is there: on purpose.
        std::fs::remove_dir(&drive).unwrap();
        assert_eq!(state.check_new(&at(&drive, Probe::Missing), false), Ok(()));
        // On one that is not there: not mounted.
        facts.mount = format!("{}", drive.display());
        state.note(id, &[(drive.clone(), facts.clone())]).unwrap();
        let text = state.check_new(&at(&drive, Probe::Missing), false).unwrap_err();
        assert!(text.contains("is not mounted"), "{text}");
        // Confirmed once.
        assert_eq!(state.check_new(&at(&drive, Probe::Missing), true), Ok(()));
        assert_eq!(state.check_new(&at(&drive, Probe::Missing), false), Ok(()));
    }

    #[test]
    fn notes_go_with_their_folders() {
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
        // What lives in memory is gone after a reboot, as everybody expects.
        facts.memory = true;
        let other = Deployments::new(Some(dir.path().join("other")), |_| None);
        other.note(DeploymentId([3; 16]), &[(b, facts)]).unwrap();
        assert!(other.notes().is_empty());
    }

    #[test]
    fn the_state_folder_is_where_the_environment_says() {
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
