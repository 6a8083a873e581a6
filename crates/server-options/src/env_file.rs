//! `--env-file`: a file of `NAME=VALUE` lines, in the format of systemd's `EnvironmentFile` and of MinIO's
//! `MINIO_CONFIG_ENV_FILE`.
//!
//! The program replaces itself (`execve`) with the variables of the file in its environment, because a
//! running program cannot change its environment safely. Variables that are set already win over the file.
//!
//! Invariants: the file is read once per start; a restart reads it again; values never appear in messages.

use ashlar_environment::process;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Names of the variables that came from the file, separated by commas; set in the new program.
const MARK: &str = "ASHLAR_ENV_FILE_NAMES";

/// Replaces this process by the same program with the variables of `file`, unless that was done already.
///
/// # Errors
/// A message for the operator: the file cannot be read, a line is invalid, or the program cannot be started.
pub fn enter(file: Option<&Path>) -> Result<(), String> {
    let Some(file) = file else { return Ok(()) };
    if process::variable_os(MARK).is_some() {
        return Ok(());
    }
    let text = std::fs::read_to_string(file).map_err(|e| format!("--env-file {}: {e}", file.display()))?;
    let all = parse(&text).map_err(|why| format!("--env-file {}: {why}", file.display()))?;
    let new: Vec<_> = all.into_iter().filter(|(name, _)| process::variable_os(name).is_none()).collect();
    let names = new.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>().join(",");
    let mut command = own_program()?;
    command.envs(new).env(MARK, names);
    Err(format!("cannot be restarted: {}", command.exec()))
}

/// Starts the same program with the same arguments in place of this process. Returns only if that fails.
pub fn restart() -> String {
    let mut command = match own_program() {
        Ok(command) => command,
        Err(why) => return why,
    };
    if let Some(names) = process::variable(MARK) {
        for name in names.split(',').filter(|n| !n.is_empty()) {
            command.env_remove(name);
        }
        command.env_remove(MARK);
    }
    format!("cannot be restarted: {}", command.exec())
}

/// This program and its arguments. If the file of the program was replaced, this names the new file.
fn own_program() -> Result<Command, String> {
    let path = process::executable().map_err(|e| format!("cannot be restarted: {e}"))?;
    let path = match path.to_str().and_then(|t| t.strip_suffix(" (deleted)")) {
        Some(path) => PathBuf::from(path),
        None => path,
    };
    let mut command = Command::new(path);
    command.args(process::arguments().into_iter().skip(1));
    Ok(command)
}

/// Reads `NAME=VALUE` lines. Empty lines and lines that begin with `#` are skipped; `export` may stand before
/// a name; a value may be in single or double quotes.
fn parse(text: &str) -> Result<Vec<(String, String)>, String> {
    let mut all = Vec::new();
    for (i, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let bad = || format!("line {}: expected NAME=VALUE", i + 1);
        let (name, value) = line.strip_prefix("export ").unwrap_or(line).split_once('=').ok_or_else(bad)?;
        let name = name.trim();
        let plain = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
        if name.is_empty() || !name.bytes().all(plain) || value.contains('\0') {
            return Err(bad());
        }
        let value = value.trim();
        let unquoted = ['"', '\''].iter().find_map(|q| value.strip_prefix(*q)?.strip_suffix(*q));
        all.push((name.to_owned(), unquoted.unwrap_or(value).to_owned()));
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_an_environment_file() {
        let text = "# comment\n\nMINIO_VOLUMES=\"/mnt/disk{1...4}\"\nexport A='b c'\n  C = d=e \nD=\n";
        let pair = |n: &str, v: &str| (n.to_owned(), v.to_owned());
        assert_eq!(
            parse(text).unwrap(),
            [pair("MINIO_VOLUMES", "/mnt/disk{1...4}"), pair("A", "b c"), pair("C", "d=e"), pair("D", "")]
        );
        for bad in ["word", "=x", "a b=c", "A=\0"] {
            assert!(parse(bad).unwrap_err().contains("line 1"), "{bad:?}");
        }
    }
}
