//! Time for the server: the wall clock in one place, and a coarse clock that costs nothing to read.

use ashlar_environment::time;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Milliseconds since 1970.
pub fn now_ms() -> i64 {
    time::wall_ms().max(0)
}

static SECONDS: AtomicU64 = AtomicU64::new(1);

/// Seconds since the server began, give or take one; never 0.
pub fn coarse() -> u64 {
    SECONDS.load(Relaxed)
}

/// Keeps [`coarse`] going; runs for ever.
pub async fn tick() {
    let mut interval = time::interval(Duration::from_secs(1));
    let begin = time::Instant::now();
    loop {
        interval.tick().await;
        SECONDS.store(begin.elapsed().as_secs() + 1, Relaxed);
    }
}
