//! Injects faults into a cluster while clients work: crashes, power cuts, pauses, interruptions of the
//! network and of the control store, clock jumps, full drives, drives that read wrongly, that lose what they acknowledged, or
//! are replaced.
//!
//! Invariants: every fault ends by itself within seconds; of the drives of a run, at most as many as may be lost together
//! ever lose anything or read wrongly, and a majority of each group keeps its votes; [`stop_faults`] ends all faults. If a fault itself shows a defect (a drive that does
//! not open after a power cut), it is recorded as a finding.
//!
//! Must not depend on: what clients do.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use ashlar_cluster::Map;
use ashlar_environment::random::Seeded;
use ashlar_environment::simulation::set_wall_ahead;
use ashlar_environment::time::sleep;
use ashlar_machine::{Fault, Operation};

use crate::client::Clients;
use crate::cluster::{Cluster, drive_id};
use crate::host::Host;
use crate::monitor::{join_again, restart};
use crate::network::Node;
use crate::plan::Mutant;

/// The fault injector of a run.
pub struct Faults {
    clients: Arc<Clients>,
    cluster: Arc<Cluster>,
    rng: Seeded,
    /// The drives that lost something.
    lost: BTreeSet<u8>,
    /// The number of the next drive that replaces another one.
    spare: u8,
}

impl Faults {
    /// An injector that has injected nothing yet.
    #[must_use]
    pub fn new(clients: &Arc<Clients>) -> Faults {
        let cluster = clients.cluster.clone();
        let rng = Seeded::new(cluster.plan.seed ^ 0x0066_6175_6c74);
        Faults { clients: clients.clone(), cluster, rng, lost: BTreeSet::new(), spare: 50 }
    }

    fn millis(&mut self, most: u64) -> Duration {
        Duration::from_millis(1 + self.rng.below(most))
    }

    fn coordinator(&mut self) -> usize {
        self.rng.below(self.cluster.plan.coordinators as u64) as usize
    }

    fn host(&mut self) -> Arc<Host> {
        let hosts = self.cluster.hosts();
        hosts[self.rng.below(hosts.len() as u64) as usize].clone()
    }

    /// Injects this number of faults.
    pub async fn inject(mut self, times: u64) {
        let mut ends = Vec::new();
        for _ in 0..times {
            sleep(self.millis(150)).await;
            let end = match self.rng.below(15) {
                0 => self.crash(),
                1 | 2 => self.power(),
                3 => self.pause(),
                4 => self.drive_stands(),
                5..8 => self.block(),
                8 => self.unreachable(),
                9 | 10 => {
                    self.lose().await;
                    continue;
                }
                11 => self.full(),
                12 | 13 => self.misread(),
                _ => {
                    self.jump();
                    continue;
                }
            };
            ends.push(ashlar_environment::spawn("fault ends", end));
        }
        for end in ends {
            // The task panics only together with the simulation.
            let _ = end.await;
        }
    }

    fn crash(&mut self) -> End {
        let (number, down, cluster) = (self.coordinator(), self.millis(2000), self.cluster.clone());
        cluster.crash(number);
        Box::pin(async move {
            sleep(down).await;
            if cluster.coordinator(number).is_none() {
                cluster.start(number).await;
            }
        })
    }

    fn power(&mut self) -> End {
        // Sometimes all hosts lose power together.
        let all = self.rng.below(5) == 0;
        let hosts = if all { self.cluster.hosts() } else { vec![self.host()] };
        let (down, clients) = (self.millis(2500), self.clients.clone());
        for h in &hosts {
            self.cluster.note(|| format!("power cut of {}", h.label.drive));
            h.cut_power();
        }
        Box::pin(async move {
            sleep(down).await;
            for host in hosts {
                restart(&clients, &host).await;
            }
        })
    }

    fn pause(&mut self) -> End {
        let (number, time) = (self.coordinator(), self.millis(6000));
        self.cluster.note(|| format!("coordinator {number} pauses for {time:?}"));
        self.cluster.network.pause(number, time);
        Box::pin(sleep(time))
    }

    fn drive_stands(&mut self) -> End {
        let (host, time) = (self.host(), self.millis(6000));
        self.cluster.note(|| format!("drive {} pauses for {time:?}", host.label.drive));
        host.pause(time);
        Box::pin(sleep(time))
    }

    fn block(&mut self) -> End {
        let (c, time, network) =
            (Node::Coordinator(self.coordinator()), self.millis(4000), self.cluster.network.clone());
        let mut directions = Vec::new();
        for _ in 0..1 + self.rng.below(4) {
            let d = Node::Drive(self.host().label.drive.0[0]);
            match self.rng.below(3) {
                0 => directions.push((c, d)),
                1 => directions.push((d, c)),
                _ => directions.extend([(c, d), (d, c)]),
            }
        }
        self.cluster.note(|| format!("cut: {directions:?}"));
        directions.iter().for_each(|(a, b)| network.block(*a, *b));
        Box::pin(async move {
            sleep(time).await;
            directions.iter().for_each(|(a, b)| network.unblock(*a, *b));
        })
    }

    fn unreachable(&mut self) -> End {
        let (number, time, control) = (self.coordinator(), self.millis(5000), self.cluster.control.clone());
        self.cluster.note(|| format!("coordinator {number} does not reach the control store for {time:?}"));
        control.set_reachable(number, false);
        Box::pin(async move {
            sleep(time).await;
            control.set_reachable(number, true);
        })
    }

    /// Whether the drive may lose something: after so many losses, `k` shards of everything are left, and a majority of
    /// votes (docs/protocol.md 2.1: f).
    fn may_lose(&mut self, host: &Host) -> bool {
        let id = host.label.drive;
        if self.cluster.map().groups_of(id).is_empty() {
            return false;
        }
        let spare_shards = (self.cluster.plan.drives - 2).div_ceil(2);
        let may = self.lost.len() < spare_shards || self.lost.contains(&id.0[0]);
        if may {
            self.lost.insert(id.0[0]);
        }
        may
    }

    /// A drive is replaced, or goes back to an earlier state and joins again.
    async fn lose(&mut self) {
        let host = self.host();
        if !self.may_lose(&host) {
            return;
        }
        if self.rng.below(2) == 0 {
            lose_writes(&self.clients, &host).await;
            return;
        }
        let new = self.spare;
        self.spare += 1;
        replace(&self.cluster, host.label.drive.0[0], new).await;
    }

    /// One drive has little room or none, or all have.
    fn full(&mut self) -> End {
        let all = self.rng.below(3) == 0;
        let hosts = if all { self.cluster.hosts() } else { vec![self.host()] };
        let most = [1, 64 << 10, 2 << 20][self.rng.below(3) as usize];
        let (room, time) = (self.rng.below(most), self.millis(4000));
        for h in &hosts {
            self.cluster.note(|| format!("drive {} has room for {room} bytes", h.label.drive));
            h.limit_room(Some(room));
        }
        Box::pin(async move {
            sleep(time).await;
            hosts.iter().for_each(|h| h.limit_room(None));
        })
    }

    /// Some reads of a drive fail, or return a wrong bit.
    fn misread(&mut self) -> End {
        let (host, time) = (self.host(), self.millis(4000));
        if !self.may_lose(&host) {
            return Box::pin(std::future::ready(()));
        }
        let fault = if self.rng.below(2) == 0 { Fault::Corrupt } else { Fault::Error(EIO) };
        let (after, times) = (self.rng.below(30), 1 + self.rng.below(4));
        self.cluster.note(|| format!("drive {}: {fault:?} at {times} reads", host.label.drive));
        host.faults.set_after(Operation::Read, fault, after, times);
        Box::pin(async move {
            sleep(time).await;
            host.faults.clear();
        })
    }

    /// The clock of a coordinator jumps.
    fn jump(&mut self) {
        let number = self.coordinator();
        let Some(c) = self.cluster.coordinator(number) else { return };
        let ahead = self.rng.below(240_000) as i64 - 120_000;
        self.cluster.note(|| format!("the clock of coordinator {number} is {ahead} ms ahead"));
        set_wall_ahead(c.process, ahead);
    }
}

/// The number of the error of a medium that cannot be read.
const EIO: i32 = 5;

type End = std::pin::Pin<Box<dyn Future<Output = ()> + Send>>;

/// A drive loses power and what it acknowledged lately. It has no vote before it has joined again, as the notes of its
/// peers demand (docs/protocol.md 2.14).
async fn lose_writes(clients: &Arc<Clients>, host: &Host) {
    let (cluster, id) = (&clients.cluster, host.label.drive);
    cluster.note(|| format!("drive {id} loses what it acknowledged"));
    if !host.lose_writes() {
        return;
    }
    if cluster.plan.mutant == Some(Mutant::KeepsVote) {
        return restart(clients, host).await;
    }
    join_again(clients, host, "it went back in time").await;
}

/// The drive `old` is lost and replaced by the blank drive `new`. The map is changed as a drive monitor does
/// it: from the stored map.
///
/// # Panics
/// If the map refuses the change.
pub async fn replace(cluster: &Arc<Cluster>, old: u8, new: u8) {
    cluster.note(|| format!("drive {old} is lost, {new} is put in its place"));
    if let Some(host) = cluster.host(drive_id(old)) {
        host.destroy();
    }
    cluster.add_host(new);
    change_map(cluster, |map| map.replace(drive_id(old), drive_id(new), "sim:/new", 1 << 30)).await;
}

/// Changes the stored map.
///
/// # Panics
/// If the map refuses the change.
pub async fn change_map(cluster: &Arc<Cluster>, next: impl Fn(&Map) -> ashlar_cluster::Result<Map> + Sync) {
    let control = cluster.control.open(cluster.plan.coordinators);
    let change = |update: &mut ashlar_cluster::Update| {
        let map = Map::read(&control)?;
        *update = next(&map)?.update(&map, &control)?;
        Ok::<_, ashlar_cluster::Error>(())
    };
    control.change(change).await.expect("a map that takes the change");
}

/// Ends all faults and starts everything again.
pub async fn stop_faults(clients: &Arc<Clients>) {
    let cluster = &clients.cluster;
    cluster.note(|| "all faults are over");
    cluster.network.restore_all();
    cluster.control.restore_all();
    for host in cluster.hosts() {
        host.pause(Duration::ZERO);
        host.faults.clear();
        host.limit_room(None);
        restart(clients, &host).await;
    }
    for number in 0..cluster.plan.coordinators {
        if cluster.coordinator(number).is_none() {
            cluster.start(number).await;
        }
    }
}
