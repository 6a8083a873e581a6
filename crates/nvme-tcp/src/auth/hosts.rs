//! Which hosts may connect to a target, with their secrets, and the file that keeps them.
//!
//! The file is TOML, readable by its owner alone:
//!
//! ```toml
//! [[host]]
//! nqn = "nqn.2014-08.org.nvmexpress:uuid:24000000-0000-4000-8000-000000000001"
//! dhchap_secret = "DHHC-1:00:...:"
//! dhchap_ctrl_secret = "DHHC-1:00:...:"   # only if the host authenticates the target too
//! dhchap_hash = "sha256"                  # only if no other hash function may be used
//! dhchap_dhgroup = "ffdhe2048"            # only if no other group may be used
//! tls_key = "NVMeTLSkey-1:01:...:"        # only if the host has to use TLS; it needs no secret then
//! ```
//!
//! Invariants: a change is in the file, durable, before it is in force; the file is replaced as a whole; a host that is not in it is
//! refused; a host that is in it has a secret, a key of TLS, or both.
//!
//! Must not depend on: connections, messages.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::{Mutex, RwLock};
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use super::group::Group;
use super::hash::Hash;
use super::secret::Secret;
use crate::error::Error;
use crate::tls::TlsKey;

/// Bytes of the file, at most.
const MOST: u64 = 1 << 20;
/// Bytes of an NQN, at most (Base 4.5).
const MAX_NQN: usize = 223;
/// Bits of a file's mode that let others than its owner read or write it.
const OTHERS: u32 = 0o077;

/// What a target knows of a host.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct HostKeys {
    /// The secret of the host. None: it need not authenticate itself with one, and has a key of TLS.
    #[serde(default)]
    pub secret: Option<Secret>,
    /// The secret of the target, for hosts that authenticate it too.
    #[serde(default)]
    pub controller_secret: Option<Secret>,
    /// The only hash function; none: the first of SHA-256, SHA-384 and SHA-512 that the host knows.
    #[serde(default)]
    pub hash: Option<Hash>,
    /// The only group; none: the first that the host knows, from 2048 bits up, and none if it knows no other.
    #[serde(default)]
    pub group: Option<Group>,
    /// The key of TLS: the host may connect with TLS only. None: it has none.
    #[serde(default)]
    pub tls: Option<TlsKey>,
}

/// Whether a host may connect.
#[derive(Clone, Debug)]
pub enum Admission {
    /// It may.
    Open,
    /// It may if it proves that it knows its secret, its key of TLS, or both, whichever it has.
    Authenticated(Arc<HostKeys>),
    /// It may not.
    Refused,
}

/// A host that may connect, without its secrets.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Known {
    /// Its name.
    pub nqn: String,
    /// It has a secret of DH-HMAC-CHAP.
    pub dhchap: bool,
    /// It can authenticate the target with DH-HMAC-CHAP.
    pub mutual: bool,
    /// It has a key of TLS.
    pub tls: bool,
    /// The only hash function that may be used.
    pub hash: Option<Hash>,
    /// The only group that may be used.
    pub group: Option<Group>,
}

/// An entry of the file.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    nqn: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    dhchap_secret: Option<Secret>,
    #[serde(skip_serializing_if = "Option::is_none")]
    dhchap_ctrl_secret: Option<Secret>,
    #[serde(skip_serializing_if = "Option::is_none")]
    dhchap_hash: Option<Hash>,
    #[serde(skip_serializing_if = "Option::is_none")]
    dhchap_dhgroup: Option<Group>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tls_key: Option<TlsKey>,
}

/// The file.
#[derive(Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    host: Vec<Entry>,
}

/// The hosts that may connect.
#[derive(Debug)]
pub struct Hosts {
    file: PathBuf,
    known: RwLock<BTreeMap<String, Arc<HostKeys>>>,
    /// Whoever has it changes the file.
    turn: Mutex<()>,
}

impl HostKeys {
    /// Keys of a host that nothing is wrong with.
    ///
    /// # Errors
    /// [`Error::Secret`].
    fn check(self) -> Result<HostKeys, Error> {
        match (&self.secret, &self.controller_secret) {
            (None, _) if self.tls.is_none() => {
                Err(Error::Hosts("a host needs a secret of DH-HMAC-CHAP, or a key of TLS".to_owned()))
            }
            (None, Some(_)) => Err(Error::Secret { what: "the target has one, and the host has none" }),
            (Some(own), Some(theirs)) if own == theirs => {
                Err(Error::Secret { what: "the host and the target have the same one: each needs its own" })
            }
            _ => Ok(self),
        }
    }
}

/// Checks the name of a host or a subsystem (NVM Express Base 2.0, 4.5).
///
/// # Errors
/// [`Error::Hosts`]: it does not begin with `nqn.`, is too long, or has control characters.
pub fn check_name(nqn: &str) -> Result<(), Error> {
    if nqn.starts_with("nqn.") && nqn.len() <= MAX_NQN && !nqn.bytes().any(|b| b.is_ascii_control()) {
        return Ok(());
    }
    Err(Error::Hosts(format!("{nqn:?} does not begin with \"nqn.\", or is longer than 223 bytes")))
}

/// Reads the text of a file of hosts.
///
/// # Errors
/// [`Error::Hosts`], [`Error::Secret`]. Neither has a secret in it.
pub(crate) fn parse(text: &str) -> Result<BTreeMap<String, Arc<HostKeys>>, Error> {
    // The message of the parser is followed by a part of the text, with secrets in it.
    let document: Document = toml::from_str(text).map_err(|e| {
        let at = e.span().map_or(0, |s| s.start);
        let line = text.bytes().take(at).filter(|b| *b == b'\n').count() + 1;
        Error::Hosts(format!("line {line}: {}", e.message()))
    })?;
    let mut known = BTreeMap::new();
    for entry in document.host {
        check_name(&entry.nqn)?;
        let keys = HostKeys {
            secret: entry.dhchap_secret,
            controller_secret: entry.dhchap_ctrl_secret,
            hash: entry.dhchap_hash,
            group: entry.dhchap_dhgroup,
            tls: entry.tls_key,
        };
        if known.insert(entry.nqn.clone(), Arc::new(keys.check()?)).is_some() {
            return Err(Error::Hosts(format!("{} is there twice", entry.nqn)));
        }
    }
    Ok(known)
}

/// For the fuzzer: what is read is written to the same.
pub(crate) fn examine(text: &str) {
    if let Ok(known) = parse(text) {
        let again = print(&known).and_then(|t| parse(&t));
        assert!(again.is_ok_and(|a| a == known));
    }
}

fn print(known: &BTreeMap<String, Arc<HostKeys>>) -> Result<Zeroizing<String>, Error> {
    let entry = |(nqn, keys): (&String, &Arc<HostKeys>)| Entry {
        nqn: nqn.clone(),
        dhchap_secret: keys.secret.clone(),
        dhchap_ctrl_secret: keys.controller_secret.clone(),
        dhchap_hash: keys.hash,
        dhchap_dhgroup: keys.group,
        tls_key: keys.tls.clone(),
    };
    let document = Document { host: known.iter().map(entry).collect() };
    let text = toml::to_string(&document).map_err(|e| Error::Hosts(e.to_string()))?;
    Ok(Zeroizing::new(text))
}

fn read(file: &Path) -> io::Result<Option<Zeroizing<String>>> {
    let opened = match File::open(file) {
        Ok(opened) => opened,
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(e),
    };
    if opened.metadata()?.permissions().mode() & OTHERS != 0 {
        return Err(io::Error::other("others than its owner may read or write it; set its mode to 600"));
    }
    let mut text = Zeroizing::new(String::new());
    opened.take(MOST).read_to_string(&mut text)?;
    Ok(Some(text))
}

fn write(file: &Path, text: &str) -> io::Result<()> {
    let mut new = file.as_os_str().to_owned();
    new.push(".new");
    let new = PathBuf::from(new);
    // What an earlier process has left there may have another mode.
    match fs::remove_file(&new) {
        Err(e) if e.kind() != ErrorKind::NotFound => return Err(e),
        _ => {}
    }
    let mut out = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
    out.write_all(text.as_bytes())?;
    out.sync_all()?;
    fs::rename(&new, file)?;
    let folder = file.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(folder)?.sync_all()
}

impl Hosts {
    /// Reads a file. One that does not exist has no hosts, and is made by the first change.
    ///
    /// # Errors
    /// [`Error::Hosts`], [`Error::Secret`].
    pub fn open(file: &Path) -> Result<Hosts, Error> {
        let named = |why: String| Error::Hosts(format!("{}: {why}", file.display()));
        let text = read(file).map_err(|e| named(e.to_string()))?;
        let known = text.map(|t| parse(&t)).transpose().map_err(|e| named(e.to_string()))?;
        let known = RwLock::new(known.unwrap_or_default());
        Ok(Hosts { file: file.to_owned(), known, turn: Mutex::default() })
    }

    /// Whether a host may connect.
    #[must_use]
    pub fn admission(&self, nqn: &str) -> Admission {
        match self.known.read().get(nqn) {
            Some(keys) => Admission::Authenticated(keys.clone()),
            None => Admission::Refused,
        }
    }

    /// The hosts, by their names.
    #[must_use]
    pub fn list(&self) -> Vec<Known> {
        let of = |(nqn, keys): (&String, &Arc<HostKeys>)| Known {
            nqn: nqn.clone(),
            dhchap: keys.secret.is_some(),
            mutual: keys.controller_secret.is_some(),
            tls: keys.tls.is_some(),
            hash: keys.hash,
            group: keys.group,
        };
        self.known.read().iter().map(of).collect()
    }

    /// Sets what is known of a host. It is in force for its next authentication. True: the host is new.
    ///
    /// # Errors
    /// [`Error::Hosts`], [`Error::Secret`]; then nothing has changed.
    pub fn set(&self, nqn: &str, keys: HostKeys) -> Result<bool, Error> {
        check_name(nqn)?;
        let keys = keys.check()?;
        let new = self.change(|known| known.insert(nqn.to_owned(), Arc::new(keys)).is_none())?;
        tracing::info!(host = nqn, new, "the keys of an NVMe host were set");
        Ok(new)
    }

    /// Removes a host: its controllers end. False: there is none of this name.
    ///
    /// # Errors
    /// [`Error::Hosts`]; then nothing has changed.
    pub fn remove(&self, nqn: &str) -> Result<bool, Error> {
        if !self.known.read().contains_key(nqn) {
            return Ok(false);
        }
        let removed = self.change(|known| known.remove(nqn).is_some())?;
        tracing::info!(host = nqn, "the keys of an NVMe host were removed");
        Ok(removed)
    }

    fn change(&self, edit: impl FnOnce(&mut BTreeMap<String, Arc<HostKeys>>) -> bool) -> Result<bool, Error> {
        let _turn = self.turn.lock();
        let mut known = self.known.read().clone();
        let changed = edit(&mut known);
        let text = print(&known)?;
        write(&self.file, &text).map_err(|e| Error::Hosts(format!("{}: {e}", self.file.display())))?;
        *self.known.write() = known;
        Ok(changed)
    }
}
