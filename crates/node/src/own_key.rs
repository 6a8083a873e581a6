//! The root key that the server generates if none is configured, so that encryption works without
//! configuration.
//!
//! Each deployment has one file, `root-DEPLOYMENT.key`, in a folder of this machine that is not on a drive
//! ([`KeyFolders`]). The key protects data on drives that are removed from the machine; it does not protect
//! against users who can read the file.
//!
//! Invariants: the file is never on a drive; it is not generated again while anything is sealed under a
//! missing one; it is never changed; only its owner can read it. A start that needs the file and does not
//! find it reports where it searched, and fails.
//!
//! Must not depend on: what the key seals.

use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use ashlar_format::DeploymentId;
use ashlar_kms::{Root, Secret, root_from};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// Folders for the file, in order of preference.
#[derive(Clone, Debug, Default)]
pub struct KeyFolders {
    folders: Vec<PathBuf>,
    /// A read-only folder: the credentials of the service manager.
    read_only: Option<PathBuf>,
}

impl KeyFolders {
    /// Only the folder `named`, if there is one; else those of this machine and user: systemd's credentials
    /// (read only), systemd's state directory, `/var/lib/ashlar` for root, `$XDG_STATE_HOME/ashlar`,
    /// `~/.local/state/ashlar`. `get` returns a variable of the environment.
    pub fn find(named: Option<&Path>, superuser: bool, get: impl Fn(&str) -> Option<String>) -> KeyFolders {
        let absolute = |name: &str| get(name).map(PathBuf::from).filter(|p| p.is_absolute());
        let read_only = absolute("CREDENTIALS_DIRECTORY");
        if let Some(folder) = named {
            return KeyFolders { folders: vec![folder.to_owned()], read_only };
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
        KeyFolders { folders, read_only }
    }

    /// The first folder that is written to.
    #[must_use]
    pub fn preferred(&self) -> Option<&Path> {
        self.folders.first().map(PathBuf::as_path)
    }

    /// Removes folders that are on a drive.
    pub fn excluding_drives(mut self, drives: &[PathBuf]) -> KeyFolders {
        let real =
            |p: &Path| p.ancestors().find_map(|a| Some(a.canonicalize().ok()?.join(p.strip_prefix(a).ok()?)));
        let drives: Vec<PathBuf> = drives.iter().map(|d| real(d).unwrap_or_else(|| d.clone())).collect();
        self.folders.retain(|f| {
            let folder = real(f).unwrap_or_else(|| f.clone());
            !drives.iter().any(|d| folder.starts_with(d))
        });
        self
    }

    /// The paths where the file of a deployment may be, in order of preference.
    fn files(&self, deployment: DeploymentId) -> Vec<PathBuf> {
        let name = format!("root-{}.key", deployment.to_hex());
        // A service manager has its own names for credentials.
        let read_only = self.read_only.iter().flat_map(|g| [g.join(&name), g.join("ashlar-root-key")]);
        read_only.chain(self.folders.iter().map(|f| f.join(&name))).collect()
    }

    /// Where a missing file belongs, for messages.
    pub fn expected_path(&self, deployment: DeploymentId) -> String {
        let files: Vec<String> = self.files(deployment).iter().map(|f| f.display().to_string()).collect();
        match files.len() {
            0 => format!("root-{}.key in a folder named by --state-dir", deployment.to_hex()),
            _ => files.join(" or "),
        }
    }

    /// The key and the path of its file; `None` if there is no file.
    ///
    /// # Errors
    /// A message for the operator: the file exists and cannot be used.
    pub fn load(&self, deployment: DeploymentId) -> Result<Option<(Secret, PathBuf)>, String> {
        for file in self.files(deployment) {
            match std::fs::symlink_metadata(&file) {
                Err(e) if matches!(e.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                    continue;
                }
                // A folder that this user may not read contains no key of this server.
                Err(e) if e.kind() == io::ErrorKind::PermissionDenied => {
                    tracing::debug!(file = %file.display(), "no permission to read");
                    continue;
                }
                Err(e) => return Err(format!("the root key in {}: {e}", file.display())),
                Ok(_) => {}
            }
            // Nothing else of the environment: another root key may be configured, with this one as its
            // predecessor.
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

    /// Generates the key and writes the file into the first folder that accepts it.
    ///
    /// # Errors
    /// A message for the operator: the reason for each folder.
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

/// Writes the file atomically and durably.
fn store(folder: &Path, name: &str, key: &Secret) -> io::Result<()> {
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    let part = folder.join(format!("{name}.{}.part", std::process::id()));
    let written = (|| {
        let mut to = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&part)?;
        to.write_all(format!("{}\n", STANDARD.encode(key.expose())).as_bytes())?;
        to.sync_all()?;
        // Fails if the file exists; it is never replaced.
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
    fn key_folders_are_in_order_and_on_no_drive() {
        let found =
            |superuser, pairs: &[(&'static str, &str)]| KeyFolders::find(None, superuser, env(pairs)).folders;
        let home = [("HOME", "/h/u"), ("XDG_STATE_HOME", "/s")];
        assert_eq!(found(false, &home), [Path::new("/s/ashlar"), Path::new("/h/u/.local/state/ashlar")]);
        assert_eq!(found(true, &home), [Path::new("/var/lib/ashlar")]);
        let unit = [("STATE_DIRECTORY", "/var/lib/x:/y"), ("HOME", "relative")];
        assert_eq!(found(false, &unit), [Path::new("/var/lib/x")]);
        let named = KeyFolders::find(Some(Path::new("/k")), true, env(&unit));
        assert_eq!(named.folders, [Path::new("/k")]);
        let away =
            KeyFolders::find(None, false, env(&home)).excluding_drives(&["/h/u".into(), "/data/d1".into()]);
        assert_eq!(away.folders, [Path::new("/s/ashlar")]);
        assert!(away.expected_path(ID).starts_with("/s/ashlar/root-0303"), "{}", away.expected_path(ID));
    }

    #[test]
    fn root_key_file_is_private_and_never_replaced() {
        use std::os::unix::fs::PermissionsExt as _;
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().join("a/b");
        let key_folders = KeyFolders::find(Some(&folder), false, env(&[]));
        assert!(key_folders.load(ID).unwrap().is_none());
        let (key, file) = key_folders.make(ID).unwrap();
        let mode = |p: &Path| std::fs::metadata(p).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&folder), mode(&file)), (0o700, 0o600));
        let (again, from) = key_folders.load(ID).unwrap().unwrap();
        assert_eq!((again.expose(), &from), (key.expose(), &file));
        assert!(key_folders.make(ID).err().unwrap().contains("exists"), "never replaced");
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 1);
        assert!(key_folders.load(DeploymentId([4; 16])).unwrap().is_none());
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
        assert!(key_folders.load(ID).err().unwrap().contains("others may read"));
        // If a folder cannot be created, the next one is tried; the error names all of them.
        std::fs::write(home.path().join("file"), b"").unwrap();
        let bad = home.path().join("file/x");
        let two = KeyFolders { folders: vec![bad.clone(), home.path().join("good")], read_only: None };
        assert!(two.make(ID).unwrap().1.starts_with(home.path().join("good")));
        let none = KeyFolders { folders: vec![bad.clone()], read_only: None };
        assert!(none.make(ID).err().unwrap().contains(&bad.display().to_string()));
    }
}
