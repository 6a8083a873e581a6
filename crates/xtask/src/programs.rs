//! Programs that the tests of crates start. The system suite installs its own (tests/system/install).
//!
//! Invariant: a program on PATH is used as it is; a missing one is installed from Debian, or is an error.

use std::{env, process::Command};

use crate::shell::{Outcome, read, show};

/// Programs and their Debian packages.
const NEEDED: [(&str, &str); 1] = [("etcd", "etcd-server")];

/// Installs what is missing, with root or sudo.
pub fn install() -> Outcome {
    let path = env::var_os("PATH").unwrap_or_default();
    let is_there = |program: &str| env::split_paths(&path).any(|folder| folder.join(program).is_file());
    let missing: Vec<&str> =
        NEEDED.iter().filter(|(p, _)| !is_there(p)).map(|(_, package)| *package).collect();
    if missing.is_empty() {
        return Ok(());
    }
    println!("installing {} from Debian", missing.join(" "));
    apt_get(&["update", "-qq"])?;
    apt_get(&[&["install", "-y", "-qq", "--no-install-recommends"], &missing[..]].concat())
}

fn apt_get(arguments: &[&str]) -> Outcome {
    let is_root = read(Command::new("id").arg("-u"))? == "0";
    let mut command = Command::new(if is_root { "env" } else { "sudo" });
    show(command.args(["DEBIAN_FRONTEND=noninteractive", "apt-get"]).args(arguments))
}
