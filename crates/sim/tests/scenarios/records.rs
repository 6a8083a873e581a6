//! Two nodes change one record of the control store: the time of object lock, and keys that are sealed again under a new root
//! key while another node rotates them.
//!
//! Must not depend on: how the control store compares.

use std::sync::Arc;
use std::time::Duration;

use ashlar_environment::random::Seeded;
use ashlar_environment::time::sleep;
use ashlar_kms::{Builtin, Kms, Secret};
use ashlar_sim::client::Clients;
use ashlar_sim::cluster::Cluster;
use ashlar_sim::plan::{Mutant, Plan};

use crate::{assert_found, findings, without_faults};

/// The key of the time of object lock.
const LOCK_TIME: &str = "lock-time";

/// The stored time of object lock, milliseconds since 1970.
fn lock_time(cluster: &Cluster) -> Option<u64> {
    let (_, bytes) = cluster.control.read_all(LOCK_TIME).into_iter().next()?;
    let text = String::from_utf8(bytes.to_vec()).ok()?;
    let digits = text.split("\"ms\":").nth(1)?;
    digits.trim_end_matches('}').parse().ok()
}

/// Each node stores the time again and again. One starts again meanwhile, and is behind the other since then.
async fn two_nodes_store_the_lock_time(clients: Arc<Clients>) {
    let cluster = clients.cluster.clone();
    let watcher = clients.clone();
    let watch = ashlar_environment::spawn("watch", async move {
        let mut newest = 0;
        loop {
            if let Some(now) = lock_time(&watcher.cluster) {
                if now < newest {
                    watcher.report(format!("the lock time goes back from {newest} to {now}"));
                }
                newest = newest.max(now);
            }
            sleep(Duration::from_micros(300)).await;
        }
    });
    let saves = |at: usize, times: u64, most: u64| {
        let clients = clients.clone();
        async move {
            let mut rng = Seeded::new(clients.cluster.plan.seed ^ (at as u64 + 1) << 33);
            for _ in 0..times {
                sleep(Duration::from_micros(rng.below(most))).await;
                drop(clients.at(at, "save the lock time", |s| async move { s.save_lock_time().await }).await);
            }
        }
    };
    saves(0, 3, 100_000).await;
    sleep(Duration::from_secs(5)).await;
    cluster.crash(1);
    cluster.start(1).await;
    futures::join!(saves(0, 20, 30_000), saves(1, 20, 30_000));
    if lock_time(&cluster).is_none() {
        clients.report("no lock time is stored: the scenario shows nothing");
    }
    watch.abort();
}

#[test]
fn lock_time_never_goes_back() {
    let found = findings(0..20, without_faults, two_nodes_store_the_lock_time);
    assert!(found.is_empty(), "{found:#?}");
    assert_found(Mutant::NoCompare, 0..20, without_faults, two_nodes_store_the_lock_time);
}

/// One node seals the keys again, under a new root key, while another one, which has the old root key, rotates a key and seals
/// data under its new version. Either the rotation is refused, or the new version is kept.
async fn rotation_while_keys_are_sealed_again(clients: Arc<Clients>) {
    let (old, new) = (Secret::generate(), Secret::generate());
    let Some(first) = clients.cluster.coordinator(0) else { return clients.report("it is down") };
    let Some(second) = clients.cluster.coordinator(1) else { return clients.report("it is down") };
    let Ok(keys) = Builtin::open_keys(first.control, old.clone(), None, || 1).await else {
        return clients.report("the keys do not open");
    };
    let Ok(kms) = Kms::builtin(keys, "key").await else { return clients.report("there is no default key") };
    let Ok(before) = kms.generate("key", b"context").await else {
        return clients.report("nothing is sealed");
    };
    sleep(Duration::from_millis(200)).await;
    let mut rng = Seeded::new(clients.cluster.plan.seed);
    let (one, two) = (Duration::from_micros(rng.below(6_000)), Duration::from_micros(rng.below(6_000)));
    let rotate = async {
        sleep(one).await;
        kms.rotate("key").await.ok()?;
        kms.generate("key", b"context").await.ok()
    };
    let reseal = async {
        sleep(two).await;
        Builtin::open_keys(second.control.clone(), new.clone(), Some(&old), || 1).await
    };
    let (sealed, resealed) = futures::join!(rotate, reseal);
    if resealed.is_err() {
        return clients.report("the keys are not sealed again");
    }
    sleep(Duration::from_secs(1)).await;
    // A node that starts later. A rotation may have come after the keys were read: they are sealed again then, too.
    let opened = Builtin::open_keys(second.control, new, Some(&old), || 1).await;
    let Ok(keys) = opened else { return clients.report("the keys do not open under the new root key") };
    let Ok(later) = Kms::builtin(keys, "key").await else { return clients.report("there is no default key") };
    for sealed in [Some(before), sealed].into_iter().flatten() {
        if later.open("key", &sealed.sealed, b"context").await.is_err() {
            clients.report("what was sealed while keys were sealed again does not open");
        }
    }
}

#[test]
fn rotation_while_keys_are_sealed_again_is_kept_or_refused() {
    let found = findings(0..40, without_faults, rotation_while_keys_are_sealed_again);
    assert!(found.is_empty(), "{found:#?}");
    assert_found(Mutant::NoCompare, 0..40, without_faults, rotation_while_keys_are_sealed_again);
}

/// A coordinator completes an upload; others collect what uploads left behind, and one of them completes it again, as a client
/// does that did not get the first answer.
async fn sweeps_during_completion(clients: Arc<Clients>) {
    const KEY: u8 = 4;
    let Some(upload) = clients.begin(0, KEY, 14).await.ok() else {
        return clients.report("the upload cannot begin");
    };
    let mut rng = Seeded::new(clients.cluster.plan.seed ^ 0x5eed);
    let pauses: Vec<Duration> = (0..4).map(|_| Duration::from_micros(rng.below(40_000))).collect();
    let sweeps = async {
        for pause in &pauses[..3] {
            sleep(*pause).await;
            clients.sweep(1).await;
        }
    };
    let again = async {
        sleep(pauses[3]).await;
        drop(clients.complete(1, KEY, 14, upload).await);
    };
    drop(futures::join!(clients.complete(0, KEY, 14, upload), sweeps, again));
    drop(clients.get(1, KEY).await);
    clients.sweep(0).await;
    drop(clients.complete(0, KEY, 14, upload).await);
    drop(clients.get(0, KEY).await);
    ashlar_sim::run::check_recovered(&clients).await;
    ashlar_sim::run::judge(&clients);
}

#[test]
fn uploads_that_complete_are_not_collected() {
    let plan = |seed| Plan { coordinators: 2, ..without_faults(seed) };
    let found = findings(0..30, plan, sweeps_during_completion);
    assert!(found.is_empty(), "{found:#?}");
    assert_found(Mutant::SweepsEarly, 0..30, plan, sweeps_during_completion);
}
