//! Time for the server: the wall clock, and a coarse clock that is cheap to read.

use ashlar_environment::time;
use futures::future::BoxFuture;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Milliseconds since 1970.
pub fn now_ms() -> i64 {
    time::wall_ms().max(0)
}

static SECONDS: AtomicU64 = AtomicU64::new(1);

/// Seconds since the server started, accurate to one second; never 0.
#[inline]
pub fn coarse() -> u64 {
    SECONDS.load(Relaxed)
}

/// Advances [`coarse`]; never returns.
pub fn tick() -> BoxFuture<'static, ()> {
    Box::pin(async move {
        let mut interval = time::interval(Duration::from_secs(1));
        let begin = time::Instant::now();
        loop {
            interval.tick().await;
            SECONDS.store(begin.elapsed().as_secs() + 1, Relaxed);
        }
    })
}
