//! Runs other programs: prints the command line, and fails with their error output.
//!
//! Must not depend on: other modules of this crate.

use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

/// The result of a task; the error says what to do.
pub type Outcome<T = ()> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// The root of the repository.
pub fn root() -> PathBuf {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent();
    crates.and_then(Path::parent).expect("this crate lies in crates/xtask").to_path_buf()
}

/// The cargo that runs this program, in the root of the repository.
pub fn cargo() -> Command {
    let mut command = Command::new(std::env::var("CARGO").unwrap_or_else(|_| "cargo".into()));
    command.current_dir(root());
    command
}

/// Runs a program with its output shown; a failure is an error that names it.
pub fn show(command: &mut Command) -> Outcome {
    let name = line(command);
    let status = command.status().map_err(|e| format!("{name}: {e}"))?;
    if !status.success() {
        return Err(format!("{name}: {status}").into());
    }
    Ok(())
}

/// Runs a program and returns its output; a failure is an error with its error output.
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
pub fn line(command: &Command) -> String {
    let args = command.get_args().map(|a| a.to_string_lossy());
    let program = command.get_program().to_string_lossy();
    std::iter::once(program).chain(args).collect::<Vec<_>>().join(" ")
}

/// A duration as minutes and seconds.
pub fn clock(time: Duration) -> String {
    format!("{}:{:02}", time.as_secs() / 60, time.as_secs() % 60)
}
