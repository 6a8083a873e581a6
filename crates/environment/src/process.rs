//! The environment of the process: environment variables, arguments, the path of the program.
//!
//! Invariant: a simulation has no variables, so that a seed gives the same run on every machine.
//!
//! Must not depend on: what the variables mean.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

/// The value of an environment variable; none if it is not set or is not UTF-8.
#[must_use]
pub fn variable(name: impl AsRef<OsStr>) -> Option<String> {
    variable_os(name)?.into_string().ok()
}

/// The value of an environment variable, whatever its bytes are.
#[must_use]
pub fn variable_os(name: impl AsRef<OsStr>) -> Option<OsString> {
    if crate::world::active() {
        return None;
    }
    std::env::var_os(name)
}

/// All environment variables whose name and value are UTF-8.
#[must_use]
pub fn variables() -> Vec<(String, String)> {
    if crate::world::active() {
        return Vec::new();
    }
    std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect()
}

/// The arguments, the name of the program first.
#[must_use]
pub fn arguments() -> Vec<OsString> {
    std::env::args_os().collect()
}

/// The file of the running program.
///
/// # Errors
/// The error of the system.
pub fn executable() -> std::io::Result<PathBuf> {
    std::env::current_exe()
}
