//! Runs other programs; an error contains their output.

use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use crate::outcome::Outcome;

/// The root of the repository.
pub fn root() -> PathBuf {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent();
    crates.and_then(Path::parent).expect("this crate lies in crates/server-cost").to_path_buf()
}

/// Runs a program and returns its output. The error contains its standard error.
pub fn read(command: &mut Command) -> Outcome<String> {
    let name = line(command);
    let output = command.stdin(Stdio::null()).output().map_err(|e| format!("{name}: {e}"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(format!("{name}: {}: {}", output.status, said.trim()).into());
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// The command line as a user would type it (without quoting).
fn line(command: &Command) -> String {
    let args = command.get_args().map(|a| a.to_string_lossy());
    let program = command.get_program().to_string_lossy();
    std::iter::once(program).chain(args).collect::<Vec<_>>().join(" ")
}

/// Whether this process runs as root.
pub fn is_root() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let uid = status.lines().find_map(|l| l.strip_prefix("Uid:"));
    uid.and_then(|l| l.split_whitespace().nth(1)) == Some("0")
}
