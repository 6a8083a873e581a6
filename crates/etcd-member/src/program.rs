//! The program etcd on this machine: where it is, and what it can do.
//!
//! Invariant: a program is used only if it is etcd 3.4 or later.
//!
//! Must not depend on: what it is started with.

use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use ashlar_environment::process as environment;

use crate::{Error, Result};

/// How to install it, where it is not found.
pub const INSTALL: &str = "etcd is not installed here (no `etcd` on PATH); it holds the control store of a cluster. \
Debian and Ubuntu: `apt-get install etcd-server`; other systems: https://github.com/etcd-io/etcd/releases";

/// The oldest release that can be used.
const OLDEST: (u32, u32) = (3, 4);

/// The options with which a release does not compare the address that another member connects from with the names in its
/// certificate, the newer one first. All certificates of the authority are trusted equally, and a machine may have
/// several addresses.
const SKIP_ADDRESS: [&str; 2] =
    ["peer-skip-client-san-verification", "experimental-peer-skip-client-san-verification"];

/// etcd on this machine.
#[derive(Clone, Debug)]
pub struct Program {
    /// The file.
    pub path: PathBuf,
    /// Its release.
    pub version: String,
    /// The option for [`SKIP_ADDRESS`] that it has.
    pub skip_address: Option<&'static str>,
}

/// The file `etcd` on PATH.
///
/// # Errors
/// `Program`: it is not there; the message says how to install it.
pub fn find() -> Result<PathBuf> {
    let path = environment::variable_os("PATH").unwrap_or_default();
    find_in(&path).ok_or_else(|| Error::Program(INSTALL.to_owned()))
}

fn find_in(path: &OsStr) -> Option<PathBuf> {
    let runs =
        |file: &PathBuf| file.metadata().is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0);
    std::env::split_paths(path).map(|folder| folder.join("etcd")).find(runs)
}

impl Program {
    /// The program that is named, else that on PATH. Runs it to learn its release.
    ///
    /// # Errors
    /// `Program`: it is missing, cannot be run, or is too old.
    pub fn open(named: Option<&Path>) -> Result<Program> {
        let path = match named {
            Some(path) => path.to_owned(),
            None => find()?,
        };
        let said = |option: &str| {
            let mut command = Command::new(&path);
            command.arg(option).stdin(Stdio::null());
            clean(&mut command);
            let output = command.output().map_err(|e| Error::Program(format!("{}: {e}", path.display())))?;
            let both = [output.stdout, output.stderr].concat();
            Ok(String::from_utf8_lossy(&both).into_owned())
        };
        let version = version(&said("--version")?);
        let version = version.ok_or_else(|| Error::Program(format!("{} is not etcd", path.display())))?;
        if numbers(&version) < OLDEST {
            let (major, minor) = OLDEST;
            return Err(Error::Program(format!(
                "{} is etcd {version}; {major}.{minor} or later is needed",
                path.display()
            )));
        }
        let help = said("--help")?;
        let has = |option: &&&str| help.contains(&format!("--{option} "));
        Ok(Program { path, version, skip_address: SKIP_ADDRESS.iter().find(has).copied() })
    }
}

/// Leaves out what the environment says about etcd, or knows of secrets of this program.
pub(crate) fn clean(command: &mut Command) {
    let ours = ["ETCD_", "ASHLAR_", "MINIO_", "AWS_"];
    for (name, _) in environment::variables() {
        // Members reach each other directly, as nodes do.
        let is_proxy = name.to_ascii_lowercase().ends_with("_proxy");
        if is_proxy || ours.iter().any(|prefix| name.starts_with(prefix)) {
            command.env_remove(name);
        }
    }
}

/// The release in the answer to `--version`.
fn version(said: &str) -> Option<String> {
    said.lines().find_map(|line| line.strip_prefix("etcd Version: ")).map(|v| v.trim().to_owned())
}

fn numbers(version: &str) -> (u32, u32) {
    let mut parts = version.split('.').map(|p| p.parse::<u32>().unwrap_or(0));
    (parts.next().unwrap_or(0), parts.next().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn script(folder: &Path, text: &str) -> PathBuf {
        let file = folder.join("etcd");
        std::fs::write(&file, format!("#!/bin/sh\n{text}\n")).unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).unwrap();
        file
    }

    #[test]
    fn program_is_found_on_the_path_only_if_it_can_run() {
        let home = tempfile::tempdir().unwrap();
        let folders = ["a", "b", "c"].map(|name| home.path().join(name));
        folders.iter().for_each(|f| std::fs::create_dir(f).unwrap());
        let path = std::env::join_paths(&folders).unwrap();
        assert_eq!(find_in(&path), None);
        assert_eq!(find_in(OsStr::new("")), None);
        std::fs::create_dir(folders[0].join("etcd")).unwrap();
        for folder in &folders[1..] {
            std::fs::write(folder.join("etcd"), "").unwrap();
        }
        std::fs::set_permissions(folders[2].join("etcd"), std::fs::Permissions::from_mode(0o755)).unwrap();
        assert_eq!(find_in(&path), Some(folders[2].join("etcd")));
        assert!(INSTALL.contains("apt-get install etcd-server"));
    }

    #[test]
    fn release_is_checked() {
        let home = tempfile::tempdir().unwrap();
        // A child of another test may have the file open for writing for a moment.
        let open = |text: &str| loop {
            let opened = Program::open(Some(&script(home.path(), text))).map_err(|e| e.to_string());
            if !opened.as_ref().is_err_and(|why| why.contains("Text file busy")) {
                return opened;
            }
        };
        let found = open(
            "echo 'etcd Version: 3.5.9'; echo '  --experimental-peer-skip-client-san-verification false'",
        );
        let found = found.unwrap();
        assert_eq!((found.version.as_str(), found.skip_address), ("3.5.9", Some(SKIP_ADDRESS[1])));
        assert_eq!(open("echo 'etcd Version: 3.7.0'").unwrap().skip_address, None);
        assert!(open("echo 'etcd Version: 3.3.27'").unwrap_err().contains("3.4 or later"));
        assert!(open("echo hello").unwrap_err().contains("is not etcd"));
        let missing = Program::open(Some(&home.path().join("none"))).unwrap_err().to_string();
        assert!(missing.contains("none: No such file"), "{missing}");
    }
}
