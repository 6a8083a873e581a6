//! The time of day, for reports to people.
//!
//! Invariant: nothing is decided by it; what is decided by time uses `Instant`. Depends on nothing here.

/// Milliseconds since 1970.
pub(crate) fn now_ms() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |d| u64::try_from(d.as_millis()).unwrap_or(u64::MAX))
}
