//! Named runs for defects that were found by reading code, each of which would have found its defect.
//!
//! A scenario for a known defect that still exists asserts that the defect is found; the assertion is
//! inverted when the defect is fixed.
//!
//! Must not depend on: the default calls of clients.

use std::sync::Arc;
use std::time::Duration;

use ashlar_drive::Entry;
use ashlar_environment::random::Seeded;
use ashlar_environment::time::sleep;
use ashlar_kms::{Builtin, Kms, Secret};
use ashlar_object::{Error, ListSpec, Store, UploadId, UploadSpec};

use ashlar_sim::client::{Clients, Outcome, PLAIN, name};
use ashlar_sim::cluster::drive_id;
use ashlar_sim::faults::{replace, stop_faults};
use ashlar_sim::host::Host;
use ashlar_sim::monitor::join_again;
use ashlar_sim::network::{Network, Node};
use ashlar_sim::plan::{Mutant, Plan};
use ashlar_sim::run::{check_recovered, judge};

use crate::moves::each_link;
use crate::{assert_found, findings, put, without_faults};

/// A short random pause, so that the steps of both coordinators interleave in any order.
async fn random_pause(clients: &Clients, salt: u64, most: u64) {
    let micros = Seeded::new(clients.cluster.plan.seed ^ salt << 17).below(most);
    sleep(Duration::from_micros(micros)).await;
}

/// One coordinator completes an upload while the other aborts it: one of them succeeds, and the answers to
/// the clients stay true.
async fn complete_and_abort(clients: Arc<Clients>) {
    const KEY: u8 = 4;
    let Some(upload) = clients.begin(0, KEY, 14).await.ok() else {
        return clients.report("the upload cannot begin");
    };
    let complete = async {
        random_pause(&clients, 1, 8_000).await;
        clients.complete(0, KEY, 14, upload).await
    };
    let abort = async {
        random_pause(&clients, 2, 8_000).await;
        clients.abort(1, KEY, 14, upload.0).await
    };
    futures::join!(complete, abort);
    for at in [1, 0] {
        drop(clients.get(at, KEY).await);
    }
    check_recovered(&clients).await;
    judge(&clients);
}

#[test]
fn two_coordinators_complete_and_abort_one_upload() {
    let found = findings(0..60, without_faults, complete_and_abort);
    assert!(found.is_empty(), "{found:#?}");
}

/// One coordinator deletes a bucket while the other writes into it and begins an upload.
async fn bucket_deleted_under_a_write(clients: Arc<Clients>) {
    let delete = async {
        random_pause(&clients, 1, 8_000).await;
        clients.at(0, "delete the bucket", |s| async move { s.delete_bucket(PLAIN).await }).await
    };
    let write = async {
        random_pause(&clients, 2, 8_000).await;
        clients.at(1, "put", |s| put(s, PLAIN, name(2), 5)).await
    };
    let upload = async {
        random_pause(&clients, 3, 8_000).await;
        let begin = |s: Store| async move {
            s.create_upload(&s.bucket(PLAIN)?, "upload", UploadSpec::default()).await
        };
        let begun: Outcome<UploadId> = clients.at(1, "begin an upload", begin).await;
        begun
    };
    let (deleted, written, _begun) = futures::join!(delete, write, upload);
    sleep(Duration::from_secs(2)).await;
    if matches!((&deleted, &written), (Outcome::Answer(()), Outcome::Answer(()))) {
        clients.report("a write was acknowledged into a bucket whose deletion was acknowledged");
    }
    // A deleted bucket is gone at every coordinator.
    if matches!(deleted, Outcome::Answer(())) {
        let list = |s: Store| async move {
            match s.list(&s.bucket(PLAIN)?, &ListSpec { max_keys: 10, ..ListSpec::default() }).await {
                Err(Error::NoSuchBucket) => Ok(true),
                other => other.map(|_| false),
            }
        };
        if matches!(clients.at(1, "list", list).await, Outcome::Answer(false)) {
            clients.report("a coordinator still shows a bucket that is gone");
        }
    }
}

#[test]
fn bucket_deleted_during_write() {
    let found = findings(0..20, without_faults, bucket_deleted_under_a_write);
    assert!(found.is_empty(), "{found:#?}");
    assert_found(Mutant::BucketsReadOnce, 0..20, without_faults, bucket_deleted_under_a_write);
}

/// Two monitors replace two drives, each from its own copy of the map: both are replaced, one after the
/// other, and nothing is lost.
async fn two_monitors(clients: Arc<Clients>) {
    for key in [0, 1, 2, 3] {
        drop(clients.put(usize::from(key % 2), key, 21 + u64::from(key)).await);
    }
    // Every drive is complete, so that two may be lost.
    check_recovered(&clients).await;
    futures::join!(replace(&clients.cluster, 1, 50), replace(&clients.cluster, 2, 51));
    let group = clients.cluster.map().groups[0].clone();
    if group.slots.iter().any(|s| s.drive.0[0] == 1 || s.drive.0[0] == 2) {
        clients.report(format!("one of two replacements was lost: {group:?}"));
    }
    for key in [0, 2] {
        drop(clients.put(1, key, 31 + u64::from(key)).await);
    }
    check_recovered(&clients).await;
    judge(&clients);
}

#[test]
fn two_monitors_replace_drives() {
    let plan = |seed| Plan { drives: 6, ..without_faults(seed) };
    let found = findings(0..4, plan, two_monitors);
    assert!(found.is_empty(), "{found:#?}");
    assert_found(Mutant::NoCompare, 0..4, plan, two_monitors);
}

/// Two coordinators rotate one key at the same time and seal under it: both can open what either has sealed.
async fn two_rotations(clients: Arc<Clients>) {
    let root = Secret::generate();
    let mut kms = Vec::new();
    for number in 0..2 {
        let Some(c) = clients.cluster.coordinator(number) else { return clients.report("it is down") };
        let opened = Builtin::open_keys(c.control, root.clone(), None, || 1).await;
        let Ok(keys) = opened else { return clients.report("the keys do not open") };
        match Kms::builtin(keys, "key").await {
            Ok(k) => kms.push(k),
            Err(e) => return clients.report(format!("the default key: {e}")),
        }
        sleep(Duration::from_millis(200)).await;
    }
    let rotate = |k: usize| {
        let (clients, kms) = (&clients, &kms);
        async move {
            random_pause(clients, k as u64 + 1, 5_000).await;
            let version = kms[k].rotate("key").await.map_err(|e| e.to_string())?;
            let sealed = kms[k].generate("key", b"context").await.map_err(|e| e.to_string())?;
            Ok::<_, String>((version, sealed))
        }
    };
    let (a, b) = futures::join!(rotate(0), rotate(1));
    sleep(Duration::from_secs(1)).await;
    let (Ok(a), Ok(b)) = (a, b) else { return clients.report("a rotation failed") };
    if a.0 == b.0 {
        clients.report(format!("two rotations made one version, {}", a.0));
    }
    for k in &kms {
        for (_, sealed) in [&a, &b] {
            if k.open("key", &sealed.sealed, b"context").await.is_err() {
                clients.report("what was sealed during a rotation does not open");
            }
        }
    }
}

#[test]
fn two_key_rotations() {
    let found = findings(0..20, without_faults, two_rotations);
    assert!(found.is_empty(), "{found:#?}");
    assert_found(Mutant::NoCompare, 0..20, without_faults, two_rotations);
}

/// D1: a put reaches fewer slots than a majority and fails; a delete of the same key is acknowledged; the put
/// must not reappear.
async fn failed_put_then_delete(clients: Arc<Clients>) {
    const KEY: u8 = 2;
    let (cluster, rng) = (&clients.cluster, &mut Seeded::new(clients.cluster.plan.seed));
    // The record reaches one drive, whose answer arrives or not.
    let lucky = 1 + rng.below(4) as u8;
    let put = clients.put(0, KEY, 17);
    let block = async {
        sleep(Duration::from_micros(1_000 + rng.below(6_000))).await;
        for d in (1..=4).filter(|d| *d != lucky) {
            cluster.network.block(Node::Coordinator(0), Node::Drive(d));
        }
    };
    drop(futures::join!(put, block));
    drop(clients.delete(1, KEY).await);
    drop(clients.get(1, KEY).await);
    if rng.below(2) == 0 {
        cluster.crash(0);
    }
    stop_faults(&clients).await;
    sleep(Duration::from_secs(30)).await;
    for at in [0, 1, 0] {
        drop(clients.get(at, KEY).await);
    }
    check_recovered(&clients).await;
    judge(&clients);
}

#[test]
fn delete_after_failed_put_stays_deleted() {
    let found = findings(0..60, without_faults, failed_put_then_delete);
    assert!(found.is_empty(), "{found:#?}");
}

/// Whether a drive has a record of a key.
fn holds(host: &Host, key: u8) -> bool {
    let found = host.drive().and_then(|d| d.scan_now(b"", &[0xff; 64], 1000, u32::MAX));
    let is = |e: &Entry| e.key.as_bytes().ends_with(name(key).as_bytes());
    found.is_some_and(|entries| entries.is_ok_and(|e| e.iter().any(is)))
}

/// D2: a key is deleted and its record purged; then one drive goes back to a time when it had the key.
async fn a_drive_goes_back(clients: Arc<Clients>) {
    const KEY: u8 = 3;
    drop(clients.put(0, KEY, 23).await);
    sleep(Duration::from_secs(5)).await;
    let Some(host) = clients.cluster.hosts().first().cloned() else { return };
    let before = host.position();
    drop(clients.delete(1, KEY).await);
    // Long enough for the tombstone to be purged.
    sleep(Duration::from_secs(20)).await;
    if clients.cluster.hosts().iter().any(|h| holds(h, KEY)) {
        clients.report("the record of a deleted key is not purged: the scenario shows nothing");
    }
    host.go_back(before);
    if let Err(e) = host.start() {
        return clients.report(e);
    }
    if !holds(&host, KEY) {
        clients.report("the drive did not go back: the scenario shows nothing");
    }
    for at in [0, 1] {
        drop(clients.get(at, KEY).await);
        clients.list(at, &[KEY], 10).await;
    }
    clients.create(0, KEY, 24).await;
    drop(clients.get(1, KEY).await);
    judge(&clients);
}

#[test]
fn drive_rollback_restores_no_deleted_key() {
    let found = findings(0..20, without_faults, a_drive_goes_back);
    assert!(found.is_empty(), "{found:#?}");
}

/// Of five drives, two miss a write, and one that has it goes back to before it. Then only these three can be reached: if
/// the one voted as before, they would be a majority that knows nothing of the write.
async fn a_voter_goes_back(clients: Arc<Clients>) {
    const KEY: u8 = 2;
    let (back, behind, ahead) = (1, [3, 5], [2, 4]);
    let cluster = clients.cluster.clone();
    drop(clients.put(0, KEY, 23).await);
    sleep(Duration::from_secs(5)).await;
    let Some(host) = cluster.host(drive_id(back)) else { return };
    let before = host.position();
    each_link(&cluster, &behind, Network::block);
    drop(clients.put(0, KEY, 24).await);
    host.go_back(before);
    if cluster.plan.mutant == Some(Mutant::KeepsVote) {
        if let Err(e) = host.start() {
            return clients.report(e);
        }
    } else {
        join_again(&clients, &host, "it went back in time").await;
    }
    each_link(&cluster, &ahead, Network::block);
    each_link(&cluster, &behind, Network::unblock);
    sleep(Duration::from_secs(3)).await;
    for at in [0, 1] {
        drop(clients.get(at, KEY).await);
    }
    cluster.network.restore_all();
    check_recovered(&clients).await;
    judge(&clients);
}

/// Of five drives, two miss a write, and one that has it goes back to before it and joins again. A coordinator that does
/// not know that yet lists with these three: what the one that joins lacks must not be missing from the list.
async fn a_drive_that_joins_is_listed(clients: Arc<Clients>) {
    const KEY: u8 = 2;
    let (back, behind, ahead) = (1, [3, 5], [2, 4]);
    let cluster = clients.cluster.clone();
    clients.list(1, &[KEY], 10).await;
    let Some(host) = cluster.host(drive_id(back)) else { return };
    let before = host.position();
    each_link(&cluster, &behind, Network::block);
    drop(clients.put(0, KEY, 24).await);
    host.go_back(before);
    join_again(&clients, &host, "it went back in time").await;
    each_link(&cluster, &ahead, Network::block);
    each_link(&cluster, &behind, Network::unblock);
    for at in [0, 1, 1] {
        clients.list(at, &[KEY], 10).await;
    }
    cluster.network.restore_all();
    check_recovered(&clients).await;
    judge(&clients);
}

/// Found by seed 22020064.
#[test]
fn drive_that_joins_confirms_no_list() {
    let plan = |seed| Plan { drives: 5, ..without_faults(seed) };
    let found = findings(0..10, plan, a_drive_that_joins_is_listed);
    assert!(found.is_empty(), "{found:#?}");
    assert_found(Mutant::NonVotersList, 0..10, plan, a_drive_that_joins_is_listed);
}

#[test]
fn drive_that_went_back_joins_before_it_votes() {
    let plan = |seed| Plan { drives: 5, ..without_faults(seed) };
    let found = findings(0..10, plan, a_voter_goes_back);
    assert!(found.is_empty(), "{found:#?}");
    assert_found(Mutant::KeepsVote, 0..10, plan, a_voter_goes_back);
}
