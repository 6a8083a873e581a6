//! A drive whose node answers much more slowly than the others, though not so slowly that it is silent: it is asked last, and
//! nobody waits for it, until it answers like the others again.
//!
//! Must not depend on: the default calls of clients.

use std::sync::Arc;
use std::time::Duration;

use ashlar_environment::time::{Instant, sleep};
use ashlar_remote::method;

use crate::{findings, without_faults};
use ashlar_sim::client::Clients;
use ashlar_sim::keys::Value;
use ashlar_sim::run::{check_recovered, judge};

/// The slow drive.
const SLOW: u8 = 1;
/// Keys whose bodies are read; of about half of them, the drive has a row.
const KEYS: [u8; 5] = [0, 1, 2, 3, 4];
/// More than ten times what the others take, less than what a read waits for a drive without being asked to.
const DELAY: Duration = Duration::from_millis(40);

/// Reads every key twice. Returns the median time of a read, and how often the drive was asked for a shard.
async fn read(clients: &Clients) -> (Duration, u64) {
    let before = clients.cluster.network.calls(SLOW, method::OPEN);
    let mut times = Vec::new();
    for key in KEYS.iter().chain(&KEYS) {
        let began = Instant::now();
        drop(clients.get(0, *key).await);
        times.push(began.elapsed());
    }
    times.sort_unstable();
    (times[times.len() / 2], clients.cluster.network.calls(SLOW, method::OPEN) - before)
}

async fn slow_drive(clients: Arc<Clients>) {
    for key in KEYS {
        // Of several frames.
        let value: Value = 7 * (Value::from(key) + 1);
        drop(clients.put(0, key, value).await);
    }
    let (usual, asked) = read(&clients).await;
    if asked == 0 || usual >= DELAY / 2 {
        clients.report(format!("the scenario shows nothing: {asked} shards, {usual:?}"));
    }
    clients.cluster.network.delay(SLOW, DELAY);
    for _ in 0..3 {
        let _ = read(&clients).await;
    }
    // Until it is compared with the others.
    sleep(Duration::from_secs(3)).await;
    let (took, asked) = read(&clients).await;
    if asked > 0 || took >= DELAY / 2 {
        clients.report(format!("the slow drive was asked {asked} times, and a read took {took:?}"));
    }
    clients.cluster.network.delay(SLOW, Duration::ZERO);
    for _ in 0..3 {
        let _ = read(&clients).await;
        sleep(Duration::from_secs(15)).await;
    }
    let (took, asked) = read(&clients).await;
    if asked == 0 || took >= DELAY / 2 {
        clients.report(format!("the drive is quick again; it was asked {asked} times, {took:?}"));
    }
    check_recovered(&clients).await;
    judge(&clients);
}

#[test]
fn slow_drive_is_asked_last_until_it_is_quick_again() {
    let found = findings(0..6, without_faults, slow_drive);
    assert!(found.is_empty(), "{found:#?}");
}
