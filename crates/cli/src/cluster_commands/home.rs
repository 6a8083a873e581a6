//! The folder of a cluster that runs on this machine: its settings, root's credentials, the lock.
//!
//! | file | contents |
//! |---|---|
//! | `cluster.json` | [`Settings`]: what a later start needs |
//! | `credentials` | root's credentials as `NAME=VALUE` lines (mode 0600), unless they come from the environment |
//! | `root-key` | the key that encrypts keys and objects (mode 0600) |
//! | `lock` | held while the cluster runs |
//! | `etcd`, `etcd.log` | etcd's data and its log |
//! | `nodeN`, `nodeN.log` | a node's drives and state, and its log |
//!
//! Invariants: a folder with other content is not touched; the files of a failed first start are removed,
//! except logs; a secret is never in a file that others can read.
//!
//! Must not depend on: processes.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use ashlar_environment::{process as environment, random};
use ashlar_kms::Secret;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};

use crate::failure::{Failure, Kind, Outcome, While as _};

/// What a later start needs to know.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settings {
    /// Format of this file.
    pub format: u32,
    /// The name of the cluster.
    pub cluster: String,
    /// Number of nodes.
    pub nodes: u16,
    /// Number of drives of each.
    pub drives: u16,
    /// `K+M`, if it was named.
    pub code: Option<String>,
    /// The port of S3; that of messages between nodes is the next.
    pub port: u16,
    /// An etcd that runs elsewhere.
    pub control: Option<String>,
    /// The loss of a node may lose objects.
    pub accept_node_loss: bool,
}

/// Root's credentials.
pub struct Root {
    /// The access key.
    pub user: String,
    /// The secret key.
    pub password: String,
    /// Whether they are in the file `credentials`.
    pub stored: bool,
}

/// The folder of a cluster, locked.
pub struct Home {
    /// The folder.
    pub folder: PathBuf,
    /// Whether the cluster is new.
    pub fresh: bool,
    /// Whether the folder was made by this start.
    made: bool,
    _lock: File,
}

const SETTINGS: &str = "cluster.json";
const CREDENTIALS: &str = "credentials";
const ROOT_KEY: &str = "root-key";
const LOCK: &str = "lock";
/// How often it is tried to take the lock, and the pause before the next attempt.
const ATTEMPTS: u32 = 20;
const PAUSE: Duration = Duration::from_millis(50);

/// The settings of the cluster in a folder; `None`: the folder is not there or empty.
///
/// # Errors
/// The folder holds something else, or cannot be read.
pub fn settings(folder: &Path) -> Outcome<Option<Settings>> {
    let cannot = || format!("cannot read {}", folder.display());
    match fs::read(folder.join(SETTINGS)) {
        Ok(bytes) => {
            let settings: Settings = serde_json::from_slice(&bytes)
                .map_err(|e| Failure::new(Kind::Failed, e.to_string()))
                .when(|| format!("cannot read {}", folder.join(SETTINGS).display()))?;
            return Ok(Some(settings));
        }
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => {}
        Err(e) => return Err(e).when(cannot),
    }
    let entries = match fs::read_dir(folder) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        entries => entries.when(cannot)?,
    };
    // What a start leaves that failed before there was a cluster.
    let left = |name: &str| name == LOCK || name.ends_with(".log");
    for entry in entries {
        let name = entry.when(cannot)?.file_name();
        if !name.to_str().is_some_and(left) {
            return Err(Failure::usage(format!(
                "{} holds something else ({}): name a new or empty folder, or one that `ashlar cluster up` made",
                folder.display(),
                name.display()
            )));
        }
    }
    Ok(None)
}

impl Home {
    /// Locks the folder; makes it if it is not there.
    ///
    /// # Errors
    /// Another process runs the cluster, or the folder cannot be written.
    pub fn open(folder: &Path) -> Outcome<Home> {
        let cannot = || format!("cannot write {}", folder.display());
        let made = !folder.exists();
        DirBuilder::new().recursive(true).mode(0o700).create(folder).when(cannot)?;
        let lock = OpenOptions::new().create(true).append(true).mode(0o600).open(folder.join(LOCK));
        let lock = lock.when(cannot)?;
        let mut attempts = 0;
        loop {
            match lock.try_lock() {
                Ok(()) => break,
                // A process that is being started holds the open files of the one that starts it, for an instant.
                Err(TryLockError::WouldBlock) if attempts < ATTEMPTS => {
                    attempts += 1;
                    ashlar_environment::thread::sleep(PAUSE);
                }
                Err(TryLockError::WouldBlock) => {
                    let why = format!("the cluster in {} is running already", folder.display());
                    return Err(Failure::new(Kind::Failed, why));
                }
                Err(TryLockError::Error(e)) => return Err(e).when(cannot),
            }
        }
        let fresh = settings(folder)?.is_none();
        Ok(Home { folder: folder.to_owned(), fresh, made, _lock: lock })
    }

    /// Root's credentials: those of the folder, else of the environment, else new ones.
    ///
    /// # Errors
    /// A cluster that is not new had credentials from the environment, and they are not there now.
    pub fn root(&self) -> Outcome<Root> {
        let file = self.folder.join(CREDENTIALS);
        match fs::read_to_string(&file) {
            Ok(text) => {
                let wrong = || Failure::new(Kind::Failed, format!("{} is damaged", file.display()));
                return parse(&text).ok_or_else(wrong);
            }
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => {}
            Err(e) => return Err(e).when(|| format!("cannot read {}", file.display())),
        }
        if let Some(root) = from_environment()? {
            return Ok(root);
        }
        if !self.fresh {
            return Err(Failure::usage(
                "root's credentials of this cluster came from the environment: set the same ASHLAR_ROOT_USER and \
                 ASHLAR_ROOT_PASSWORD again",
            ));
        }
        let root = generate()?;
        let text = format!("ASHLAR_ROOT_USER={}\nASHLAR_ROOT_PASSWORD={}\n", root.user, root.password);
        write(&file, &text)?;
        Ok(root)
    }

    /// The file with the root key of encryption; made at the first start.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn root_key(&self) -> Outcome<PathBuf> {
        let file = self.folder.join(ROOT_KEY);
        if self.fresh && !file.exists() {
            write(&file, &format!("{}\n", STANDARD.encode(Secret::generate().expose())))?;
        }
        Ok(file)
    }

    /// The file with root's credentials.
    pub fn credentials(&self) -> PathBuf {
        self.folder.join(CREDENTIALS)
    }

    /// Remembers the settings for later starts.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn remember(&self, settings: &Settings) -> Outcome {
        let new = self.folder.join("cluster.json.new");
        let _ = fs::remove_file(&new);
        let text = serde_json::to_string_pretty(settings).unwrap_or_default();
        write(&new, &format!("{text}\n"))?;
        let file = self.folder.join(SETTINGS);
        fs::rename(&new, &file).when(|| format!("cannot write {}", file.display()))
    }

    /// Removes what a first start has made, except logs: there is no cluster. The caller has ended all processes.
    pub fn forget(&self, nodes: u16) {
        if !self.fresh {
            return;
        }
        for file in [SETTINGS, CREDENTIALS, ROOT_KEY] {
            let _ = fs::remove_file(self.folder.join(file));
        }
        let _ = fs::remove_dir_all(self.folder.join("etcd"));
        for node in 1..=nodes {
            let _ = fs::remove_dir_all(self.node(node));
        }
        if self.made {
            // Stays if there are logs.
            let _ = fs::remove_file(self.folder.join(LOCK));
            let _ = fs::remove_dir(&self.folder);
        }
    }

    /// The folder of a node.
    pub fn node(&self, number: u16) -> PathBuf {
        self.folder.join(format!("node{number}"))
    }

    /// The log of a process.
    pub fn log(&self, name: &str) -> PathBuf {
        self.folder.join(format!("{name}.log"))
    }
}

/// Writes a new file that only its owner can read; it is durable when this returns.
fn write(file: &Path, text: &str) -> Outcome {
    use std::io::Write as _;
    let new = OpenOptions::new().write(true).create_new(true).mode(0o600).open(file);
    let written = new.and_then(|mut new| new.write_all(text.as_bytes()).and_then(|()| new.sync_all()));
    written.when(|| format!("cannot write {}", file.display()))
}

fn parse(text: &str) -> Option<Root> {
    let value = |name: &str| {
        let line = text.lines().find_map(|l| l.strip_prefix(name)?.strip_prefix('='));
        line.map(str::to_owned).filter(|v| !v.is_empty())
    };
    Some(Root { user: value("ASHLAR_ROOT_USER")?, password: value("ASHLAR_ROOT_PASSWORD")?, stored: true })
}

/// Root's credentials from the variables that the server reads.
fn from_environment() -> Outcome<Option<Root>> {
    for prefix in ["ASHLAR", "MINIO"] {
        let names = [format!("{prefix}_ROOT_USER"), format!("{prefix}_ROOT_PASSWORD")];
        match names.each_ref().map(environment::variable) {
            [Some(user), Some(password)] => return Ok(Some(Root { user, password, stored: false })),
            [None, None] => {}
            _ => return Err(Failure::usage(format!("{} and {} must be set together", names[0], names[1]))),
        }
    }
    Ok(None)
}

/// Credentials of 20 and 40 characters.
fn generate() -> Outcome<Root> {
    let user = letters(18, b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567")?;
    let password = letters(40, b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz012345678901")?;
    Ok(Root { user: format!("AK{user}"), password, stored: true })
}

/// Random letters of an alphabet whose size is a power of two.
pub fn letters(count: usize, alphabet: &[u8]) -> Outcome<String> {
    let mut bytes = vec![0; count];
    let filled = random::fill(&mut bytes);
    filled.map_err(|e| Failure::new(Kind::Failed, format!("no random bytes: {e}")))?;
    Ok(bytes.iter().map(|b| char::from(alphabet[usize::from(*b) % alphabet.len()])).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    fn example() -> Settings {
        Settings {
            format: 1,
            cluster: "c".into(),
            nodes: 2,
            drives: 2,
            code: None,
            port: 9000,
            control: None,
            accept_node_loss: false,
        }
    }

    #[test]
    fn credentials_are_made_once_and_private() {
        let parent = tempfile::tempdir().unwrap();
        let folder = parent.path().join("new/folder");
        let home = Home::open(&folder).unwrap();
        assert!(home.fresh);
        let first = home.root().unwrap();
        assert_eq!((first.user.len(), first.password.len(), first.stored), (20, 40, true));
        let mode = |file: &Path| fs::metadata(file).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&home.credentials()), mode(&home.root_key().unwrap())), (0o600, 0o600));
        let again = home.root().unwrap();
        assert_eq!((again.user, again.password), (first.user, first.password));
        home.remember(&example()).unwrap();
        home.remember(&Settings { port: 9100, ..example() }).unwrap();
        assert_eq!(settings(&folder).unwrap(), Some(Settings { port: 9100, ..example() }));
        assert!(Home::open(&folder).err().unwrap().cause.contains("is running already"));
        drop(home);
        let home = Home::open(&folder).unwrap();
        assert!(!home.fresh);
        // Credentials that came from the environment are not made up later.
        fs::remove_file(home.credentials()).unwrap();
        assert!(home.root().err().unwrap().cause.contains("ASHLAR_ROOT_USER"));
        assert!(!home.credentials().exists());
    }

    #[test]
    fn folder_with_something_else_is_refused_and_not_touched() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("thesis.tex"), "x").unwrap();
        let why = settings(folder.path()).unwrap_err();
        assert_eq!(why.kind, Kind::Usage);
        assert!(why.cause.contains("thesis.tex"), "{why}");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn failed_first_start_leaves_only_logs() {
        let parent = tempfile::tempdir().unwrap();
        let folder = parent.path().join("c");
        let home = Home::open(&folder).unwrap();
        home.root().unwrap();
        home.root_key().unwrap();
        home.remember(&example()).unwrap();
        fs::create_dir_all(home.node(2).join("drive1")).unwrap();
        fs::write(home.log("node2"), "why").unwrap();
        home.forget(2);
        drop(home);
        let mut left: Vec<_> = fs::read_dir(&folder).unwrap().map(|e| e.unwrap().file_name()).collect();
        left.sort();
        assert_eq!(left, ["node2.log"]);
        assert_eq!(settings(&folder).unwrap(), None, "it can be used again");
        // A cluster that exists is never removed.
        let home = Home::open(&folder).unwrap();
        home.remember(&example()).unwrap();
        drop(home);
        let home = Home::open(&folder).unwrap();
        home.forget(2);
        assert!(settings(&folder).unwrap().is_some());
    }
}
