//! A drive takes much longer than the others to read shards: reads ask another one instead, soon, and do not ask it again.
//!
//! Must not depend on: how long a drive is waited for.

use std::sync::Arc;
use std::time::Duration;

use ashlar_environment::time::{Instant, sleep};
use ashlar_sim::client::Clients;
use ashlar_sim::plan::Plan;

use crate::{findings, without_faults};

const KEY: u8 = 2;
/// A body of 20,000 bytes, whose shards are no part of the journal.
const VALUE: u64 = 14;
/// Shards that a read needs.
const K: u64 = 2;
/// Reads before the drive is slow, and after.
const READS: u64 = 20;
/// How much longer the drive takes to open a shard, and again to read it. Others take about a millisecond for each.
const SLOW: Duration = Duration::from_millis(100);

/// Reads the key, and returns the longest and the total time, and how many shards were opened.
async fn read(clients: &Clients, times: u64) -> (Duration, Duration, u64) {
    let count = || clients.cluster.network.opened().values().sum::<u64>();
    let (before, mut longest, mut total) = (count(), Duration::ZERO, Duration::ZERO);
    for _ in 0..times {
        sleep(Duration::from_millis(20)).await;
        let began = Instant::now();
        if clients.get(0, KEY).await.ok().flatten().is_none_or(|got| got.value != VALUE) {
            clients.report("the value is not read");
        }
        longest = longest.max(began.elapsed());
        total += began.elapsed();
    }
    (longest, total, count() - before)
}

async fn slow_drive(clients: Arc<Clients>) {
    let network = clients.cluster.network.clone();
    drop(clients.put(0, KEY, VALUE).await);
    // Short shards would come with the record otherwise.
    if let Some(coordinator) = clients.cluster.coordinator(0) {
        coordinator.sets.bring_shards(false);
    }
    sleep(Duration::from_secs(2)).await;
    let (_, _, opened) = read(&clients, READS).await;
    if opened != K * READS {
        clients.report(format!("{opened} shards were opened for {READS} reads of quick drives"));
    }
    let Some((slow, _)) = network.opened().into_iter().max_by_key(|(_, count)| *count) else {
        return clients.report("no shard was read");
    };
    network.slow_down(slow, SLOW);
    let (longest, total, opened) = read(&clients, READS).await;
    println!("longest {longest:?}, all {total:?}, {opened} shards opened");
    // The slow drive takes twice SLOW. Another shard is asked for after 20 ms.
    if longest >= SLOW * 2 / 5 {
        clients.report(format!("a read took {longest:?}"));
    }
    if total >= SLOW {
        clients.report(format!("{READS} reads took {total:?}: the slow drive is asked again"));
    }
    // The slow one is asked once or twice in this time.
    if opened > K * READS + 2 {
        clients.report(format!("{opened} shards were opened for {READS} reads"));
    }
}

/// The shards of a small body come with the record, which the coordinator has: no drive is asked to open one.
async fn small_body(clients: Arc<Clients>) {
    drop(clients.put(0, KEY, VALUE).await);
    sleep(Duration::from_secs(2)).await;
    let (_, _, opened) = read(&clients, READS).await;
    if opened != 0 {
        clients.report(format!("{opened} shards were opened for {READS} reads"));
    }
}

#[test]
fn shards_of_a_small_body_come_with_its_record() {
    let quick = ashlar_sim::plan::NetworkFaults { slow: 0, ..ashlar_sim::plan::NetworkFaults::NONE };
    let plan = |seed| Plan { drives: 6, network_faults: quick, ..without_faults(seed) };
    let found = findings(0..20, plan, small_body);
    assert!(found.is_empty(), "{found:#?}");
}

#[test]
fn reads_do_not_wait_for_a_drive_that_is_much_slower_than_others() {
    // No message of the network is slow by chance.
    let quick = ashlar_sim::plan::NetworkFaults { slow: 0, ..ashlar_sim::plan::NetworkFaults::NONE };
    let plan = |seed| Plan { drives: 6, network_faults: quick, ..without_faults(seed) };
    let found = findings(0..20, plan, slow_drive);
    assert!(found.is_empty(), "{found:#?}");
}
