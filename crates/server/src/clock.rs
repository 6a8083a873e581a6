//! Time for the server: the wall clock, and a coarse clock that is cheap to read.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Milliseconds since 1970.
pub fn now_ms() -> i64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |d| i64::try_from(d.as_millis()).unwrap_or(i64::MAX))
}

static SECONDS: AtomicU64 = AtomicU64::new(1);

/// Seconds since the server started, accurate to one second; never 0.
pub fn coarse() -> u64 {
    SECONDS.load(Relaxed)
}

/// Advances [`coarse`]; never returns.
pub async fn tick() {
    let mut interval = tokio::time::interval(Duration::from_secs(1));
    interval.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let begin = std::time::Instant::now();
    loop {
        interval.tick().await;
        SECONDS.store(begin.elapsed().as_secs() + 1, Relaxed);
    }
}
