//! Limits of the system for this process.
//!
//! Must not depend on: what the files are.

use rustix::process::{Resource, getrlimit, setrlimit};

/// Raises the limit of open files and sockets to the maximum that is allowed without privileges. Returns the
/// new limit; `None`: no limit.
pub fn raise_open_files() -> Option<u64> {
    let mut limit = getrlimit(Resource::Nofile);
    if limit.current != limit.maximum {
        let before = limit.current;
        limit.current = limit.maximum;
        if setrlimit(Resource::Nofile, limit).is_err() {
            return before;
        }
    }
    limit.current
}
