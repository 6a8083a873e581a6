//! The root key that the server makes for itself, where none is configured: encryption works out of the box.
//!
//! One file per deployment, `root-DEPLOYMENT.key`, in a folder of this machine that is on none of the drives
//! ([`Places`]). It protects what is on drives that leave the machine without it; it does not protect from who
//! can read the file.
//!
//! Invariants: the file is never on a drive, never made anew while anything is sealed under the one that is missing,
//! never changed once made, and its owner's alone. A start that needs it and does not find it says where it
//! was looked for and ends.
//!
//! Must never know: what the key seals.

use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use ashlar_format::DeploymentId;
use ashlar_kms::{Root, Secret, root_from};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// Folders for the file, the best first.
#[derive(Clone, Debug, Default)]
pub struct Places {
    folders: Vec<PathBuf>,
    /// Only looked into: what the service manager hands over.
    given: Option<PathBuf>,
}

impl Places {
    /// The folder that was named, alone, or else those of this machine and user: systemd's credentials (read
    /// only), systemd's state directory, `/var/lib/ashlar` for root, `$XDG_STATE_HOME/ashlar`,
    /// `~/.local/state/ashlar`. `get` asks for a variable of the environment.
    pub fn find(named: Option<&Path>, superuser: bool, get: impl Fn(&str) -> Option<String>) -> Places {
        let absolute = |name: &str| get(name).map(PathBuf::from).filter(|p| p.is_absolute());
        let given = absolute("CREDENTIALS_DIRECTORY");
        if let Some(folder) = named {
            return Places { folders: vec![folder.to_owned()], given };
        }
        let mut folders = Vec::new();
        // Several folders are separated by colons.
        if let Some(state) = get("STATE_DIRECTORY") {
            folders.extend(state.split(':').next().map(PathBuf::from).filter(|p| p.is_absolute()));
        }
        if superuser {
            folders.push("/var/lib/ashlar".into());
        } else {
            folders.extend(absolute("XDG_STATE_HOME").map(|p| p.join("ashlar")));
            folders.extend(absolute("HOME").map(|p| p.join(".local/state/ashlar")));
        }
        Places { folders, given }
    }

    /// Without those that are on a drive.
    pub fn away_from(mut self, drives: &[PathBuf]) -> Places {
        let real =
            |p: &Path| p.ancestors().find_map(|a| Some(a.canonicalize().ok()?.join(p.strip_prefix(a).ok()?)));
        let drives: Vec<PathBuf> = drives.iter().map(|d| real(d).unwrap_or_else(|| d.clone())).collect();
        self.folders.retain(|f| {
            let folder = real(f).unwrap_or_else(|| f.clone());
            !drives.iter().any(|d| folder.starts_with(d))
        });
        self
    }

    /// Where the file of a deployment is looked for, the best place first.
    fn files(&self, deployment: DeploymentId) -> Vec<PathBuf> {
        let name = format!("root-{}.key", deployment.to_hex());
        // A service manager names credentials itself.
        let given = self.given.iter().flat_map(|g| [g.join(&name), g.join("ashlar-root-key")]);
        given.chain(self.folders.iter().map(|f| f.join(&name))).collect()
    }

    /// For people: where a missing file belongs.
    pub fn wanted(&self, deployment: DeploymentId) -> String {
        let files: Vec<String> = self.files(deployment).iter().map(|f| f.display().to_string()).collect();
        match files.len() {
            0 => format!("root-{}.key in a folder named by --state-dir", deployment.to_hex()),
            _ => files.join(" or "),
        }
    }

    /// The key, and the file that it is in; `None`: there is no such file.
    ///
    /// # Errors
    /// In words: there is one, and it cannot be used.
    pub fn load(&self, deployment: DeploymentId) -> Result<Option<(Secret, PathBuf)>, String> {
        for file in self.files(deployment) {
            match std::fs::symlink_metadata(&file) {
                Err(e) if matches!(e.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                    continue;
                }
                // A folder that this user may not look into holds nothing for this server.
                Err(e) if e.kind() == io::ErrorKind::PermissionDenied => {
                    tracing::debug!(file = %file.display(), "may not be looked at");
                    continue;
                }
                Err(e) => return Err(format!("the root key in {}: {e}", file.display())),
                Ok(_) => {}
            }
            // Nothing else of the environment: a root key may be configured besides, and this is the one before it.
            let passphrase = |name: &str| {
                let asked = name.starts_with("ASHLAR_KMS_ROOT_KEY_PASSPHRASE");
                asked.then(|| ashlar_environment::process::variable(name)).flatten()
            };
            let root = root_from(Some(&file), passphrase).map_err(|e| e.to_string())?;
            if let Some(Root { key, .. }) = root {
                return Ok(Some((key, file)));
            }
        }
        Ok(None)
    }

    /// Makes the file, in the first folder that takes it.
    ///
    /// # Errors
    /// In words, for every folder: why it does not.
    pub fn make(&self, deployment: DeploymentId) -> Result<(Secret, PathBuf), String> {
        let name = format!("root-{}.key", deployment.to_hex());
        let mut why = Vec::new();
        for folder in &self.folders {
            let key = Secret::generate();
            match store(folder, &name, &key) {
                Ok(()) => return Ok((key, folder.join(&name))),
                Err(e) => why.push(format!("{}: {e}", folder.display())),
            }
        }
        if why.is_empty() {
            why.push("there is no folder for it".to_owned());
        }
        Err(why.join("; "))
    }
}

/// Durable and whole under its name, or not there.
fn store(folder: &Path, name: &str, key: &Secret) -> io::Result<()> {
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    let part = folder.join(format!("{name}.{}.part", std::process::id()));
    let written = (|| {
        let mut to = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&part)?;
        to.write_all(format!("{}\n", STANDARD.encode(key.expose())).as_bytes())?;
        to.sync_all()?;
        // Fails where there is one already, which is never replaced.
        std::fs::hard_link(&part, folder.join(name))
    })();
    let _ = std::fs::remove_file(&part);
    written?;
    std::fs::File::open(folder)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: DeploymentId = DeploymentId([3; 16]);

    fn env(pairs: &[(&'static str, &str)]) -> impl Fn(&str) -> Option<String> {
        let pairs: Vec<_> = pairs.iter().map(|(k, v)| (*k, (*v).to_owned())).collect();
        move |name: &str| pairs.iter().find(|(k, _)| *k == name).map(|(_, v)| v.clone())
    }

    #[test]
    fn folders_are_those_of_the_machine_and_the_user_and_on_no_drive() {
        let found =
            |superuser, pairs: &[(&'static str, &str)]| Places::find(None, superuser, env(pairs)).folders;
        let home = [("HOME", "/h/u"), ("XDG_STATE_HOME", "/s")];
        assert_eq!(found(false, &home), [Path::new("/s/ashlar"), Path::new("/h/u/.local/state/ashlar")]);
        assert_eq!(found(true, &home), [Path::new("/var/lib/ashlar")]);
        let unit = [("STATE_DIRECTORY", "/var/lib/x:/y"), ("HOME", "relative")];
        assert_eq!(found(false, &unit), [Path::new("/var/lib/x")]);
        let named = Places::find(Some(Path::new("/k")), true, env(&unit));
        assert_eq!(named.folders, [Path::new("/k")]);
        let away = Places::find(None, false, env(&home)).away_from(&["/h/u".into(), "/data/d1".into()]);
        assert_eq!(away.folders, [Path::new("/s/ashlar")]);
        assert!(away.wanted(ID).starts_with("/s/ashlar/root-0303"), "{}", away.wanted(ID));
    }

    #[test]
    fn the_file_is_made_once_and_is_its_owners_alone() {
        use std::os::unix::fs::PermissionsExt as _;
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().join("a/b");
        let places = Places::find(Some(&folder), false, env(&[]));
        assert!(places.load(ID).unwrap().is_none());
        let (key, file) = places.make(ID).unwrap();
        let mode = |p: &Path| std::fs::metadata(p).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&folder), mode(&file)), (0o700, 0o600));
        let (again, from) = places.load(ID).unwrap().unwrap();
        assert_eq!((again.expose(), &from), (key.expose(), &file));
        assert!(places.make(ID).err().unwrap().contains("exists"), "never replaced");
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 1);
        assert!(places.load(DeploymentId([4; 16])).unwrap().is_none());
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
        assert!(places.load(ID).err().unwrap().contains("others may read"));
        // A folder that cannot be made: the next is tried, and every one is named.
        std::fs::write(home.path().join("file"), b"").unwrap();
        let bad = home.path().join("file/x");
        let two = Places { folders: vec![bad.clone(), home.path().join("good")], given: None };
        assert!(two.make(ID).unwrap().1.starts_with(home.path().join("good")));
        let none = Places { folders: vec![bad.clone()], given: None };
        assert!(none.make(ID).err().unwrap().contains(&bad.display().to_string()));
    }
}
