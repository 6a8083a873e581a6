//! What the drive monitor of a node does about its drives (`ashlar_cluster::drive_monitor`), as far as it decides about data: a
//! drive that fenced itself, or went back in time, joins again before it votes. A drive that cannot be opened for lack of room is
//! opened again after a pause.
//!
//! Must not depend on: which faults there are.

use std::sync::Arc;
use std::time::Duration;

use ashlar_drive::State;
use ashlar_environment::time::sleep;

use crate::client::Clients;
use crate::faults::change_map;
use crate::host::{Host, Start};

/// Looks after the drives until the run ends.
pub async fn watch(clients: Arc<Clients>) {
    loop {
        sleep(Duration::from_millis(500)).await;
        for host in clients.cluster.hosts() {
            if host.waits_for_room() {
                restart(&clients, &host).await;
                continue;
            }
            let Some(State::Fenced(why)) = host.drive().map(|drive| drive.state()) else { continue };
            if host.faults.affected() == 0 {
                clients.report(format!("drive {} fenced itself: {why}", host.label.drive));
            }
            host.cut_power();
            join_again(&clients, &host, &why).await;
        }
    }
}

/// A drive without power gets it back. Its votes in the groups of the map end durably before it is served.
pub async fn join_again(clients: &Clients, host: &Host, why: &str) {
    let (cluster, id) = (&clients.cluster, host.label.drive);
    cluster.note(|| format!("drive {id} joins again: {why}"));
    // It may have been replaced meanwhile.
    change_map(cluster, |map| Ok(map.distrust(id, why).unwrap_or_else(|_| map.clone()))).await;
    let map = cluster.map();
    if map.groups_of(id).is_empty() {
        return;
    }
    match host.start_joining(map.epoch).await {
        Ok(Start::NoRoom) => cluster.note(|| format!("drive {id} waits for room")),
        Ok(_) => {}
        Err(e) => clients.report(e),
    }
}

/// Starts a host again after a power cut, and records what it reports as a finding.
pub async fn restart(clients: &Clients, host: &Host) {
    let (cluster, id) = (&clients.cluster, host.label.drive);
    if cluster.map().groups_of(id).is_empty() {
        return;
    }
    match host.start() {
        Ok(Start::Served) => cluster.note(|| format!("drive {id} is back")),
        Ok(Start::MustJoin) => join_again(clients, host, "it is damaged, or did not join yet").await,
        Ok(Start::NoRoom) => cluster.note(|| format!("drive {id} waits for room")),
        Err(e) => clients.report(e),
    }
}
