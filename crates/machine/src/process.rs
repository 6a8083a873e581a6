//! Limits of the system for this process, and the memory that its allocator keeps.
//!
//! Must not depend on: what the files and the memory are.

use libmimalloc_sys as _;
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

/// `mi_option_purge_delay` of mimalloc: milliseconds until memory that is free goes back to the system.
const PURGE_DELAY: libc::c_int = 15;
/// A tenth of mimalloc's default: short enough that what one load has freed is gone before the next one has its own.
const DELAY_MS: libc::c_long = 100;

unsafe extern "C" {
    fn mi_option_get(option: libc::c_int) -> libc::c_long;
    fn mi_option_set_default(option: libc::c_int, value: libc::c_long);
}

/// Has the allocator of the program (mimalloc, if it is the one) give memory back to the system soon after it is free, unless
/// the environment variable `MIMALLOC_PURGE_DELAY` says when.
pub fn return_free_memory_soon() {
    // SAFETY: both functions take numbers and store one; any thread may call them at any time.
    unsafe {
        if mi_option_get(PURGE_DELAY) > DELAY_MS {
            mi_option_set_default(PURGE_DELAY, DELAY_MS);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The number of an option may be another one in another version of mimalloc: its default tells.
    #[test]
    fn the_option_of_the_allocator_is_the_delay() {
        // SAFETY: as above.
        let delay = || unsafe { mi_option_get(PURGE_DELAY) };
        if std::env::var_os("MIMALLOC_PURGE_DELAY").is_none() {
            assert_eq!(delay(), 1000);
            return_free_memory_soon();
            assert_eq!(delay(), DELAY_MS);
        }
    }
}
