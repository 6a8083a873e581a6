//! What strikes a cluster while clients work: crashes, power cuts, pauses, cuts of the network and of the control store,
//! clocks that jump, a drive that is replaced.
//!
//! Invariants: every fault ends by itself within seconds; at most one drive of a run is replaced, since each one is a
//! copy less; [`calm`] ends all of them. A finding of a fault itself (a drive that does not open after a power cut) is
//! noted with the others.
//!
//! Must not depend on: what clients do.

use std::sync::Arc;
use std::time::Duration;

use ashlar_cluster::Map;
use ashlar_environment::random::Seeded;
use ashlar_environment::simulation::set_wall_ahead;
use ashlar_environment::time::sleep;

use crate::client::Clients;
use crate::cluster::{Cluster, drive_id};
use crate::host::Host;
use crate::network::Node;

/// The strikes of a run.
pub struct Faults {
    clients: Arc<Clients>,
    cluster: Arc<Cluster>,
    dice: Seeded,
    replaced: bool,
}

impl Faults {
    /// Nothing has struck yet.
    #[must_use]
    pub fn new(clients: &Arc<Clients>) -> Faults {
        let cluster = clients.cluster.clone();
        let dice = Seeded::new(cluster.plan.seed ^ 0x0066_6175_6c74);
        Faults { clients: clients.clone(), cluster, dice, replaced: false }
    }

    fn millis(&mut self, most: u64) -> Duration {
        Duration::from_millis(1 + self.dice.below(most))
    }

    fn coordinator(&mut self) -> usize {
        self.dice.below(self.cluster.plan.coordinators as u64) as usize
    }

    fn host(&mut self) -> Arc<Host> {
        let hosts = self.cluster.hosts();
        hosts[self.dice.below(hosts.len() as u64) as usize].clone()
    }

    /// Strikes so many times.
    pub async fn strike(mut self, times: u64) {
        let mut ends = Vec::new();
        for _ in 0..times {
            sleep(self.millis(150)).await;
            let end = match self.dice.below(10) {
                0 => self.crash(),
                1 | 2 => self.power(),
                3 => self.stand(),
                4 => self.drive_stands(),
                5..8 => self.cut(),
                8 => self.unreachable(),
                _ => {
                    self.rare().await;
                    continue;
                }
            };
            ends.push(ashlar_environment::spawn("fault ends", end));
        }
        for end in ends {
            // It panics with the simulation, or not at all.
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
        // Now and then everything goes at once.
        let all = self.dice.below(5) == 0;
        let hosts = if all { self.cluster.hosts() } else { vec![self.host()] };
        let (down, clients) = (self.millis(2500), self.clients.clone());
        for h in &hosts {
            self.cluster.note(|| format!("power cut of {}", h.label.drive));
            h.cut();
        }
        Box::pin(async move {
            sleep(down).await;
            hosts.iter().for_each(|h| restart(&clients, h));
        })
    }

    fn stand(&mut self) -> End {
        let (number, time) = (self.coordinator(), self.millis(6000));
        self.cluster.note(|| format!("coordinator {number} stands still for {time:?}"));
        self.cluster.network.stand(number, time);
        Box::pin(sleep(time))
    }

    fn drive_stands(&mut self) -> End {
        let (host, time) = (self.host(), self.millis(6000));
        self.cluster.note(|| format!("drive {} stands still for {time:?}", host.label.drive));
        host.stand(time);
        Box::pin(sleep(time))
    }

    fn cut(&mut self) -> End {
        let (c, time, network) =
            (Node::Coordinator(self.coordinator()), self.millis(4000), self.cluster.network.clone());
        let mut ways = Vec::new();
        for _ in 0..1 + self.dice.below(4) {
            let d = Node::Drive(self.host().label.drive.0[0]);
            match self.dice.below(3) {
                0 => ways.push((c, d)),
                1 => ways.push((d, c)),
                _ => ways.extend([(c, d), (d, c)]),
            }
        }
        self.cluster.note(|| format!("cut: {ways:?}"));
        ways.iter().for_each(|(a, b)| network.cut(*a, *b));
        Box::pin(async move {
            sleep(time).await;
            ways.iter().for_each(|(a, b)| network.mend(*a, *b));
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

    async fn rare(&mut self) {
        if self.dice.below(2) == 0 && !self.replaced && self.cluster.plan.drives > 4 {
            self.replaced = true;
            let old = self.host();
            replace(&self.cluster, old.label.drive.0[0], 50).await;
            return;
        }
        let number = self.coordinator();
        let Some(c) = self.cluster.coordinator(number) else { return };
        let ahead = self.dice.below(240_000) as i64 - 120_000;
        self.cluster.note(|| format!("the clock of coordinator {number} is {ahead} ms ahead"));
        set_wall_ahead(c.process, ahead);
    }
}

type End = std::pin::Pin<Box<dyn Future<Output = ()> + Send>>;

/// Puts a drive back into service, and notes what it finds.
fn restart(clients: &Clients, host: &Host) {
    let mapped = !clients.cluster.map().groups_of(host.label.drive).is_empty();
    if !mapped {
        return;
    }
    match host.start() {
        Ok(()) => clients.cluster.note(|| format!("drive {} is back", host.label.drive)),
        Err(e) => clients.find(e),
    }
}

/// The drive `old` is lost and a blank one, `new`, is put in its place. The map is changed as a monitor does it: from
/// what is stored.
///
/// # Panics
/// When the map does not take it.
pub async fn replace(cluster: &Arc<Cluster>, old: u8, new: u8) {
    cluster.note(|| format!("drive {old} is lost, {new} is put in its place"));
    if let Some(host) = cluster.host(drive_id(old)) {
        host.lose();
    }
    cluster.add_host(new);
    let control = cluster.control.open(0);
    cluster.control.set_reachable(0, true);
    let change = |update: &mut ashlar_cluster::Update| {
        let map = Map::read(&control)?;
        let next = map.replace(drive_id(old), drive_id(new), "sim:/new", 1 << 30)?;
        *update = next.update(&map, &control)?;
        Ok::<_, ashlar_cluster::Error>(())
    };
    control.change(change).await.expect("a map that takes a new drive");
}

/// All faults are over, and everything runs.
pub async fn calm(clients: &Arc<Clients>) {
    let cluster = &clients.cluster;
    cluster.note(|| "all faults are over");
    cluster.network.mend_all();
    cluster.control.mend_all();
    for host in cluster.hosts() {
        host.stand(Duration::ZERO);
        restart(clients, &host);
    }
    for number in 0..cluster.plan.coordinators {
        if cluster.coordinator(number).is_none() {
            cluster.start(number).await;
        }
    }
}
