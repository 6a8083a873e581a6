//! What a member remembers on its own disk: the file `member.json` in its folder, and the folder's lock.
//!
//! | name | contents |
//! |---|---|
//! | `member.json` | [`State`] |
//! | `lock` | locked by the process that uses the folder |
//! | `tls/` | certificates for etcd, made at each start |
//! | `data/` | etcd's own |
//!
//! Invariants: the file is replaced as a whole and flushed before what it announces is done; an *incarnation* is a random
//! number that exists only here, so a folder that is lost cannot be mistaken for the one that was there before.
//!
//! Must not depend on: etcd.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use ashlar_environment::random;
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};

use crate::{Address, Certificates, Error, Members, Result};

/// Format of the file.
const FORMAT: u32 = 1;
/// Largest file that is read.
const LARGEST: u64 = 1 << 20;

/// The members of a new etcd cluster: the incarnation of each by its name.
pub type Plan = BTreeMap<String, String>;

/// How the etcd of this folder came or comes to be.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Origin {
    /// There is none yet.
    Blank,
    /// It founds a cluster with these members; it has not been started yet.
    Planned(Plan),
    /// It was started to found a cluster.
    Founded(Plan),
    /// It was added to a cluster with this list of `NAME=URL`, and started.
    Added {
        /// For `--initial-cluster`.
        initial: String,
    },
}

/// What a member remembers.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct State {
    format: u32,
    /// The name of the cluster of nodes.
    pub cluster: String,
    /// A random number of this folder.
    pub incarnation: String,
    /// How its etcd came to be.
    pub origin: Origin,
    /// The number that etcd gave this member, in decimal digits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Where its etcd is reached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub own: Option<Address>,
    /// The members as the control store named them last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub members: Option<Members>,
}

impl State {
    fn new(cluster: &str) -> Result<State> {
        Ok(State {
            format: FORMAT,
            cluster: cluster.to_owned(),
            incarnation: incarnation()?,
            origin: Origin::Blank,
            id: None,
            own: None,
            members: None,
        })
    }

    /// The same folder after its etcd was lost or removed: another incarnation, which no cluster knows.
    ///
    /// # Errors
    /// `Folder` if the system has no random bytes.
    pub fn blank(&self) -> Result<State> {
        Ok(State { members: self.members.clone(), ..State::new(&self.cluster)? })
    }

    /// Whether its etcd was started once.
    #[must_use]
    pub fn was_started(&self) -> bool {
        matches!(self.origin, Origin::Founded(_) | Origin::Added { .. })
    }
}

fn incarnation() -> Result<String> {
    let mut bytes = [0; 16];
    random::fill(&mut bytes).map_err(|e| Error::Folder(format!("no random bytes: {e}")))?;
    Ok(bytes.iter().map(|b| format!("{b:02x}")).collect())
}

/// The folder of a member, locked by this process.
pub struct Folder {
    path: PathBuf,
    _lock: File,
}

impl Folder {
    /// Makes the folder if it is missing, and locks it.
    ///
    /// # Errors
    /// `Folder`; also if another process uses it.
    pub fn open(path: &Path) -> Result<Folder> {
        let failed = |e: std::io::Error| Error::Folder(format!("{}: {e}", path.display()));
        fs::DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(failed)?;
        let mut options = OpenOptions::new();
        options.create(true).truncate(false).write(true).mode(0o600);
        let lock = options.open(path.join("lock")).map_err(failed)?;
        flock(&lock, FlockOperation::NonBlockingLockExclusive).map_err(|e| match e {
            rustix::io::Errno::WOULDBLOCK => {
                Error::Folder(format!("{}: another process uses it", path.display()))
            }
            e => failed(e.into()),
        })?;
        Ok(Folder { path: path.to_owned(), _lock: lock })
    }

    /// Its path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Etcd's own folder.
    #[must_use]
    pub fn data(&self) -> PathBuf {
        self.path.join("data")
    }

    /// Whether etcd has written a log here: without it, etcd would begin anew.
    ///
    /// # Errors
    /// `Folder`: it cannot be found out.
    pub fn has_data(&self) -> Result<bool> {
        let files = match fs::read_dir(self.data().join("member/wal")) {
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(false),
            files => files.map_err(|e| self.failed(&e))?,
        };
        for file in files {
            let name = file.map_err(|e| self.failed(&e))?.file_name();
            if name.to_string_lossy().ends_with(".wal") {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Removes etcd's own folder.
    ///
    /// # Errors
    /// `Folder`.
    pub fn remove_data(&self) -> Result<()> {
        match fs::remove_dir_all(self.data()) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => Err(self.failed(&e)),
            _ => Ok(()),
        }
    }

    /// What is remembered, or a new state for the cluster of this name.
    ///
    /// # Errors
    /// `Folder`: it cannot be read, is of another cluster or of another release.
    pub fn load(&self, cluster: &str) -> Result<State> {
        let file = self.path.join("member.json");
        let bytes = match fs::metadata(&file) {
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return self.first(cluster),
            Err(e) => return Err(self.failed(&e)),
            Ok(m) if m.len() > LARGEST => return Err(self.failed(&"member.json is too large")),
            Ok(_) => fs::read(&file).map_err(|e| self.failed(&e))?,
        };
        let state: State =
            serde_json::from_slice(&bytes).map_err(|e| self.failed(&format_args!("member.json: {e}")))?;
        if state.format != FORMAT {
            return Err(self.failed(&format_args!("member.json has the format {}", state.format)));
        }
        if state.cluster != cluster {
            return Err(
                self.failed(&format_args!("it belongs to the cluster {}, not to {cluster}", state.cluster))
            );
        }
        Ok(state)
    }

    fn first(&self, cluster: &str) -> Result<State> {
        if self.data().exists() {
            return Err(self
                .failed(&"there is an etcd in it, but no member.json: name another folder (--control-dir)"));
        }
        let state = State::new(cluster)?;
        self.store(&state)?;
        Ok(state)
    }

    /// Remembers; it is on the disk when this returns.
    ///
    /// # Errors
    /// `Folder`.
    pub fn store(&self, state: &State) -> Result<()> {
        let text = serde_json::to_vec_pretty(state).map_err(|e| self.failed(&e))?;
        self.write("member.json", &text).map_err(|e| self.failed(&e))
    }

    /// Writes the certificates for etcd, and says where they are: authority, certificate, key.
    ///
    /// # Errors
    /// `Folder`.
    pub fn certificates(&self, all: &Certificates) -> Result<[PathBuf; 3]> {
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(self.path.join("tls"))
            .map_err(|e| self.failed(&e))?;
        let texts = [all.authority.as_str(), all.own.as_str(), all.key.as_str()];
        let names = ["tls/authority.pem", "tls/member.pem", "tls/member.key"];
        for (name, text) in names.into_iter().zip(texts) {
            self.write(name, text.as_bytes()).map_err(|e| self.failed(&e))?;
        }
        Ok(names.map(|name| self.path.join(name)))
    }

    /// Replaces a file by one with this content, flushed.
    fn write(&self, name: &str, bytes: &[u8]) -> std::io::Result<()> {
        let (file, new) = (self.path.join(name), self.path.join(format!("{name}.new")));
        let mut options = OpenOptions::new();
        let mut written = options.create(true).truncate(true).write(true).mode(0o600).open(&new)?;
        written.write_all(bytes)?;
        written.sync_all()?;
        fs::rename(&new, &file)?;
        File::open(file.parent().unwrap_or(&self.path))?.sync_all()
    }

    fn failed(&self, why: &dyn std::fmt::Display) -> Error {
        Error::Folder(format!("{}: {why}", self.path.display()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn state_survives_and_is_of_one_cluster() {
        let home = tempfile::tempdir().unwrap();
        let folder = Folder::open(&home.path().join("a/b")).unwrap();
        let mut state = folder.load("prod").unwrap();
        assert_eq!(folder.load("prod").unwrap(), state);
        state.origin = Origin::Planned([("a:1".to_owned(), state.incarnation.clone())].into());
        state.members = Some(Members::parse("a,b,c").unwrap());
        folder.store(&state).unwrap();
        assert_eq!(folder.load("prod").unwrap(), state);
        assert!(!state.was_started());
        assert!(folder.load("test").unwrap_err().to_string().contains("belongs to the cluster prod"));
        let blank = state.blank().unwrap();
        assert_ne!(blank.incarnation, state.incarnation);
        assert_eq!((blank.origin, blank.members), (Origin::Blank, state.members));
        fs::write(folder.path().join("member.json"), "{}").unwrap();
        assert!(folder.load("prod").unwrap_err().to_string().contains("member.json"));
    }

    #[test]
    fn a_folder_has_one_user_and_foreign_data_is_not_taken() {
        let home = tempfile::tempdir().unwrap();
        let folder = Folder::open(home.path()).unwrap();
        assert!(Folder::open(home.path()).err().unwrap().to_string().contains("another process uses it"));
        fs::create_dir_all(folder.data().join("member/wal")).unwrap();
        assert!(folder.load("prod").unwrap_err().to_string().contains("--control-dir"));
        assert_eq!(folder.has_data(), Ok(false));
        fs::write(folder.data().join("member/wal/0.wal"), "").unwrap();
        assert_eq!(folder.has_data(), Ok(true));
        folder.remove_data().unwrap();
        folder.remove_data().unwrap();
        assert!(folder.has_data() == Ok(false) && folder.load("prod").is_ok());
    }
}
