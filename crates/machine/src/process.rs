//! Limits that the system sets for this process.

use rustix::process::{Resource, getrlimit, setrlimit};

/// Raises the number of files and sockets that may be open to the most that is allowed without privileges. Answers
/// how many may be open now; `None`: any number.
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
