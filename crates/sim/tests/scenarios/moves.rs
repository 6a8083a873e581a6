//! A node ends for good, its slots move to another drive while clients go on, and the node returns with its old drive, its
//! old votes and, in one coordinator, the old map.
//!
//! Must not depend on: the default faults.

use std::sync::Arc;
use std::time::Duration;

use ashlar_cluster::{Map, NewDrive, SlotMove};
use ashlar_environment::random::Seeded;
use ashlar_environment::time::sleep;
use ashlar_format::{DriveId, GroupId};

use crate::{findings, without_faults};
use ashlar_sim::client::Clients;
use ashlar_sim::cluster::{Cluster, drive_id};
use ashlar_sim::faults::{change_map, stop_faults};
use ashlar_sim::host::Host;
use ashlar_sim::network::{Network, Node};
use ashlar_sim::plan::{NetworkFaults, Plan};
use ashlar_sim::run::{check_recovered, judge};
use ashlar_sim::work::{Client, SINGLES};

/// The drive that slots move to, and the two that they leave.
const SPARE: u8 = 50;
const GONE: u8 = 1;
const LATER: u8 = 2;

fn plan(seed: u64) -> Plan {
    let network_faults = match seed % 3 {
        0 => NetworkFaults::NONE,
        1 => NetworkFaults { lost: 10, twice: 10, slow: 50, late: 5 },
        _ => NetworkFaults { lost: 5, twice: 200, slow: 300, late: 10 },
    };
    let (drives, groups) = (4 + (seed % 3) as usize, 1 + (seed % 2) as u16);
    Plan { coordinators: 3, drives, groups, clients: 3, calls: 12, network_faults, ..without_faults(seed) }
}

/// Moves the slots of `from` in some groups to `to`, as far as it has any.
async fn move_slots(cluster: &Arc<Cluster>, groups: &[GroupId], from: DriveId, to: DriveId) {
    let moved = |map: &Map| {
        let of = groups.iter().filter(|g| map.groups_of(from).contains(g));
        let moves: Vec<SlotMove> = of.map(|group| SlotMove { group: *group, from, to }).collect();
        map.move_slots(&moves)
    };
    change_map(cluster, moved).await;
    cluster.note(|| format!("slots of {groups:?} move from drive {from} to drive {to}"));
}

/// The drive of a host durably loses its vote in the groups that it left, and the map says so. With `keeps_vote`, only the
/// map says so: a mutant.
async fn let_go(clients: &Arc<Clients>, host: &Host, keeps_vote: bool) {
    let (cluster, id) = (&clients.cluster, host.label.drive);
    let left = cluster.map().left_by(id);
    let Some(drive) = host.drive() else { return clients.report("the drive that returned is down") };
    let left = if keeps_vote { Vec::new() } else { left };
    let lost = host.serve(|_| async move {
        for (group, epoch) in &left {
            drive.fence_epoch(*group, *epoch).await?;
        }
        drive.set_joining(&left).await
    });
    if let Some(Err(e)) = lost.await {
        clients.report(format!("the drive does not lose its votes: {e}"));
    }
    let groups: Vec<GroupId> = cluster.map().left_by(id).into_iter().map(|(g, _)| g).collect();
    change_map(cluster, |map| Ok(map.let_go(id, &groups).unwrap_or_else(|| map.clone()))).await;
}

/// The slots of one drive move while it is off. It returns while a coordinator still has the old map, and later gets the
/// slots of another drive that goes.
async fn slots_move(clients: Arc<Clients>, keeps_vote: bool) {
    let cluster = clients.cluster.clone();
    let rng = &mut Seeded::new(cluster.plan.seed ^ 0x6d6f_7665);
    let pause = |rng: &mut Seeded, most: u64| sleep(Duration::from_millis(rng.below(most)));
    cluster.add_host(SPARE);
    let spare = NewDrive {
        id: drive_id(SPARE),
        path: "sim:/spare".to_owned(),
        weight: 1 << 30,
        node: 9,
        rack: None,
        enclosure: None,
    };
    change_map(&cluster, |map| map.add_drive(spare.clone())).await;
    let work: Vec<_> = (0..cluster.plan.clients as u64)
        .map(|n| ashlar_environment::spawn("client", Client::new(&clients, n).work(cluster.plan.calls)))
        .collect();
    pause(rng, 300).await;
    let Some(host) = cluster.host(drive_id(GONE)) else { return };
    host.cut_power();
    pause(rng, 1500).await;
    // A coordinator that does not hear of the moves.
    let deaf = 1 + rng.below(2) as usize;
    cluster.control.set_reachable(deaf, false);
    let groups: Vec<GroupId> = cluster.map().groups.iter().map(|g| g.id).collect();
    // It returns before the last group has moved, or after.
    let early = rng.below(2) == 0;
    for (n, group) in groups.iter().enumerate() {
        move_slots(&cluster, std::slice::from_ref(group), drive_id(GONE), drive_id(SPARE)).await;
        pause(rng, 2500).await;
        if early && n == 0 {
            start(&clients, &host);
        }
    }
    start(&clients, &host);
    pause(rng, 4000).await;
    cluster.control.set_reachable(deaf, true);
    for client in work {
        if client.await.is_err() {
            clients.report("a client ended early");
        }
    }
    stop_faults(&clients).await;
    check_recovered(&clients).await;
    if clients.findings.lock().is_empty() {
        takes_another(&clients, &host, &groups, keeps_vote).await;
    }
    judge(&clients);
}

/// The drive that returned lets go, and takes the slots of another one. With five slots, two drives miss the last writes, and
/// later only these two and the drive that returned answer: if it voted there as before, the three of them would be a
/// majority that knows nothing of the writes.
async fn takes_another(clients: &Arc<Clients>, host: &Host, groups: &[GroupId], keeps_vote: bool) {
    let cluster = &clients.cluster;
    let_go(clients, host, keeps_vote).await;
    let (behind, ahead) = ([3, 5], [4, SPARE]);
    let five = cluster.plan.drives == 5;
    if five {
        each_link(cluster, &behind, Network::block);
    }
    for key in SINGLES {
        drop(clients.put(usize::from(key % 2), key, 90_000 + u64::from(key)).await);
    }
    if let Some(later) = cluster.host(drive_id(LATER)) {
        later.cut_power();
    }
    if five {
        each_link(cluster, &ahead, Network::block);
        each_link(cluster, &behind, Network::unblock);
    }
    move_slots(cluster, groups, drive_id(LATER), drive_id(GONE)).await;
    sleep(Duration::from_secs(3)).await;
    for key in SINGLES {
        drop(clients.get(usize::from(key % 2), key).await);
    }
    cluster.network.restore_all();
    check_recovered(clients).await;
}

/// Both directions between every coordinator and these drives.
pub(crate) fn each_link(cluster: &Cluster, drives: &[u8], change: impl Fn(&Network, Node, Node)) {
    for drive in drives {
        for number in 0..cluster.plan.coordinators {
            let (a, b) = (Node::Coordinator(number), Node::Drive(*drive));
            change(&cluster.network, a, b);
            change(&cluster.network, b, a);
        }
    }
}

fn start(clients: &Clients, host: &Host) {
    if let Err(e) = host.start() {
        clients.report(e);
    }
}

#[test]
fn slots_move_from_a_drive_that_is_gone_and_returns() {
    let found = findings(0..40, plan, |clients| slots_move(clients, false));
    assert!(found.is_empty(), "{found:#?}");
}

#[test]
fn drive_that_returns_with_its_vote_is_found() {
    let found = findings(0..12, plan, |clients| slots_move(clients, true));
    assert!(!found.is_empty(), "a drive that votes without the registers that it missed is not found");
}
