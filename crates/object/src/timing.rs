//! Measures how long a call waits for the drives, for traces.
//!
//! [`measured`] runs a future and adds up the time that it spends in registers and data below this crate.
//! Work that the future passes to other tasks is not included. Cost without a measurement: one relaxed load
//! per call of the backend.
//!
//! Must not depend on: who measures.

use ashlar_environment::time::Instant;
use std::cell::Cell;
use std::future::Future;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

/// Number of futures that are being measured in the whole process.
static MEASURED: AtomicUsize = AtomicUsize::new(0);

tokio::task_local! {
    static SPENT: Cell<Duration>;
}

struct Counted;

impl Drop for Counted {
    fn drop(&mut self) {
        MEASURED.fetch_sub(1, Relaxed);
    }
}

/// Runs a future; returns its result, and how long it waited for the drives. Concurrent waits are added up.
pub async fn measured<T>(future: impl Future<Output = T>) -> (T, Duration) {
    MEASURED.fetch_add(1, Relaxed);
    let _counted = Counted;
    let run = async {
        let out = future.await;
        (out, SPENT.with(Cell::get))
    };
    SPENT.scope(Cell::new(Duration::ZERO), run).await
}

/// A wait for the drives.
pub(crate) async fn drives<T>(future: impl Future<Output = T>) -> T {
    if MEASURED.load(Relaxed) == 0 {
        return future.await;
    }
    let began = Instant::now();
    let out = future.await;
    // Outside of a measured future there is nothing to add to.
    let _ = SPENT.try_with(|spent| spent.set(spent.get() + began.elapsed()));
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn only_waits_for_drives_are_counted() {
        let pause = |ms| tokio::time::sleep(Duration::from_millis(ms));
        let (n, spent) = measured(async {
            pause(30).await;
            drives(pause(5)).await;
            drives(pause(5)).await;
            7
        })
        .await;
        assert_eq!(n, 7);
        assert!(spent >= Duration::from_millis(10), "{spent:?}");
        let (_, none) = measured(pause(1)).await;
        assert_eq!(none, Duration::ZERO);
        drives(pause(1)).await;
    }
}
