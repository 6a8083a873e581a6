//! The simulated cluster: coordinators with real stores, hosts with real drives, the network and the control
//! store.
//!
//! Invariants: a coordinator is a process of the simulation; a crash ends all of its tasks at once, and none
//! of its messages is sent afterwards. The map is in the control store, and each coordinator follows it on
//! its own.
//!
//! Must not depend on: what clients do.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use ashlar_cluster::{CodeSpec, Control, Map};
use ashlar_commit::version_list::Bounds;
use ashlar_drive::Role;
use ashlar_duties::Duties;
use ashlar_environment::simulation::{self, Process};
use ashlar_environment::time::sleep;
use ashlar_erasure_set::{
    Code, EpochSource, Group, Layout, Options as SetsOptions, Others, Sets, TurnQueues,
};
use ashlar_format::DriveId;
use ashlar_machine::BufferPool;
use ashlar_object::{Options, Store};
use ashlar_remote::{Caller, RemoteNode};
use parking_lot::Mutex;

use crate::control::ControlStore;
use crate::host::{DEPLOYMENT, Host};
use crate::network::{Link, Network};
use crate::plan::{Mutant, Plan};
use crate::trace::Trace;
use crate::turns::Calls;

/// A cluster.
pub struct Cluster {
    /// The plan that the cluster was made from.
    pub plan: Plan,
    /// The network between coordinators and drives.
    pub network: Arc<Network>,
    /// The control store.
    pub control: Arc<ControlStore>,
    hosts: Mutex<BTreeMap<DriveId, Arc<Host>>>,
    coordinators: Vec<Mutex<Option<Coordinator>>>,
    /// The number of processes that were started.
    processes: AtomicU64,
}

type Nodes = Arc<Mutex<BTreeMap<DriveId, Arc<RemoteNode>>>>;

/// A running coordinator.
#[derive(Clone)]
pub struct Coordinator {
    /// Its tasks.
    pub process: Process,
    /// Its process, as drives see it.
    caller: Caller,
    /// The machines of the drives, as it reaches them.
    nodes: Nodes,
    /// Its store.
    pub store: Store,
    /// The placement groups that the store uses.
    pub sets: Sets,
    /// Its connection to the control store.
    pub control: Control,
    /// The turns that it gives to others.
    pub turns: Arc<TurnQueues>,
    alive: Arc<AtomicBool>,
}

/// The drive with this number.
#[must_use]
pub fn drive_id(number: u8) -> DriveId {
    DriveId([number; 16])
}

fn layout(map: &Map) -> Layout {
    let group = |g: &ashlar_cluster::Group| Group {
        id: g.id,
        epoch: g.epoch,
        slots: g.slots.iter().map(|s| s.drive).collect(),
    };
    let code = Code { k: map.code().k, m: map.code().m };
    Layout { epoch: map.epoch, code, groups: map.groups.iter().map(group).collect() }
}

/// The map in a coordinator's copy of the control store.
fn map_of(control: &Control) -> Option<Map> {
    Map::read(control).ok()
}

impl Cluster {
    /// Creates the drives and the control store; no coordinator runs yet.
    ///
    /// # Panics
    /// If the plan describes no valid cluster.
    #[must_use]
    pub fn new(plan: Plan) -> Arc<Cluster> {
        let flushes = plan.mutant != Some(Mutant::NoFlush);
        let ids: Vec<DriveId> = (1..=plan.drives as u8).map(drive_id).collect();
        let named: Vec<(DriveId, String, u64)> =
            ids.iter().map(|d| (*d, format!("sim:/{d}"), 1 << 30)).collect();
        let code = CodeSpec { k: 2, m: plan.drives as u8 - 2 };
        let map = Map::first(DEPLOYMENT, &named, Some(code), Some(usize::from(plan.groups)));
        let map = map.expect("a map of the plan's drives");
        let host = |d: &DriveId| {
            let seed = plan.seed ^ u64::from(d.0[0]) << 32;
            let votes: Vec<_> = map.groups_of(*d).into_iter().map(|g| (g, Role::Voter)).collect();
            (*d, Arc::new(Host::new(*d, &votes, seed, flushes)))
        };
        let trace = Trace::new(plan.traced);
        let entries = map.entries().into_iter().collect();
        Arc::new(Cluster {
            network: Arc::new(Network::new(
                plan.seed ^ 1,
                plan.network_faults,
                plan.coordinators,
                plan.mutant,
                trace,
            )),
            control: ControlStore::new(
                plan.seed ^ 2,
                plan.coordinators,
                entries,
                plan.mutant != Some(Mutant::NoCompare),
            ),
            hosts: Mutex::new(ids.iter().map(host).collect()),
            coordinators: (0..plan.coordinators).map(|_| Mutex::new(None)).collect(),
            processes: AtomicU64::new(1),
            plan,
        })
    }

    /// Adds a line to the trace.
    pub fn note<T: std::fmt::Display>(&self, line: impl FnOnce() -> T) {
        self.network.trace.note(line);
    }

    /// The hosts, by the ids of their drives.
    #[must_use]
    pub fn hosts(&self) -> Vec<Arc<Host>> {
        self.hosts.lock().values().cloned().collect()
    }

    /// The host of a drive.
    #[must_use]
    pub fn host(&self, id: DriveId) -> Option<Arc<Host>> {
        self.hosts.lock().get(&id).cloned()
    }

    /// Adds a host with a blank drive for a replacement.
    pub fn add_host(&self, number: u8) -> Arc<Host> {
        let flushes = self.plan.mutant != Some(Mutant::NoFlush);
        let host = Host::new(drive_id(number), &[], self.plan.seed ^ u64::from(number) << 40, flushes);
        let host = Arc::new(host);
        self.hosts.lock().insert(drive_id(number), host.clone());
        host
    }

    /// A coordinator, if it is running.
    #[must_use]
    pub fn coordinator(&self, number: usize) -> Option<Coordinator> {
        self.coordinators[number].lock().clone()
    }

    /// The newest map.
    ///
    /// # Panics
    /// If there is none.
    #[must_use]
    pub fn map(&self) -> Map {
        let entries = self.control.read_all(Map::KEY);
        let map = Map::from_entries(entries.iter().map(|(key, value)| (key.as_str(), &value[..])));
        map.expect("a map that was written as one")
    }

    /// Starts a coordinator.
    ///
    /// # Panics
    /// If it cannot start.
    pub async fn start(self: &Arc<Self>, number: usize) {
        let process = simulation::new_process();
        let me = self.clone();
        let started = simulation::spawn_in(process, "start", async move { me.assemble(number, process) });
        let coordinator = started.await.expect("nobody kills a coordinator that starts");
        *self.coordinators[number].lock() = Some(coordinator);
        self.note(|| format!("coordinator {number} runs"));
    }

    fn assemble(self: &Arc<Self>, number: usize, process: Process) -> Coordinator {
        let control = self.control.open(number);
        let map = map_of(&control).expect("the control store has a map");
        let mut options = SetsOptions::new(BufferPool::new(64 << 20));
        options.node = number as u16;
        options.sole = self.plan.mutant == Some(Mutant::Sole);
        options.inline_shard = 2048;
        options.recheck = 1;
        options.epoch = Some(newest(&control));
        let (alive, turns) = (Arc::new(AtomicBool::new(true)), Arc::<TurnQueues>::default());
        let calls = Calls { cluster: Arc::downgrade(self), me: number, alive: alive.clone() };
        options.turns =
            self.plan.takes_turns.then(|| Others { queues: turns.clone(), calls: Arc::new(calls) });
        let sets = Sets::new(layout(&map), Vec::new(), options).expect("a layout of the map");
        let process_number = self.processes.fetch_add(1, Ordering::Relaxed);
        let caller = Caller { node: number as u16, process: process_number };
        let nodes = Nodes::default();
        sets.bring_shards(true);
        sets.fold_lists(true);
        self.attach(caller, &alive, &nodes, &sets, &map);
        sets.start();
        let duties = Duties::alone(number as u16);
        let mut options = Options { min_part: 1, duties, ..Options::default() };
        if self.plan.small_pages {
            options.version_bounds =
                Bounds { head: 2, head_bytes: 4 << 10, keep: 1, leaf: 2, page_bytes: 4 << 10, fan: 2 };
        }
        let store = Store::open(sets.clone(), control.clone(), options).expect("a store opens");
        let coordinator = Coordinator { process, caller, nodes, store, sets, control, turns, alive };
        if self.plan.mutant != Some(Mutant::MapReadOnce) {
            drop(ashlar_environment::spawn("follow", self.clone().follow(number, coordinator.clone())));
        }
        if self.plan.mutant != Some(Mutant::BucketsReadOnce) {
            drop(ashlar_environment::spawn("follow-buckets", coordinator.store.follow_buckets()));
        }
        coordinator
    }

    /// Attaches every drive of the map that the sets do not have yet.
    fn attach(&self, caller: Caller, alive: &Arc<AtomicBool>, nodes: &Nodes, sets: &Sets, map: &Map) {
        let mut nodes = nodes.lock();
        let layout = layout(map);
        let hosts = self.hosts();
        for id in layout.groups.iter().flat_map(|g| &g.slots).collect::<std::collections::BTreeSet<_>>() {
            if let Some(host) = self.host(*id) {
                let groups = map.groups_of(*id);
                let link = Link::new(&self.network, (caller, alive), &host, &hosts[0]);
                let Entry::Vacant(unknown) = nodes.entry(*id) else { continue };
                let node = unknown.insert(RemoteNode::new(Arc::new(link))).clone();
                sets.attach(node.know(&host.heard(&groups)));
                drop(ashlar_environment::spawn("status", ashlar_remote::follow(node)));
            }
        }
    }

    /// Follows the map.
    async fn follow(self: Arc<Self>, number: usize, me: Coordinator) {
        let mut epoch = me.sets.layout().epoch;
        let mut revision = 0;
        loop {
            sleep(Duration::from_millis(100)).await;
            self.network.while_paused(number).await;
            let seen = std::mem::replace(&mut revision, me.control.revision());
            if seen == revision {
                continue;
            }
            let Some(map) = map_of(&me.control) else { continue };
            if map.epoch <= epoch {
                continue;
            }
            epoch = map.epoch;
            self.note(|| format!("coordinator {number} sees epoch {epoch}"));
            if me.sets.set_layout(layout(&map)).is_ok() {
                self.attach(me.caller, &me.alive, &me.nodes, &me.sets, &map);
            }
        }
    }

    /// A coordinator crashes: it ends at once, with all its work.
    pub fn crash(&self, number: usize) {
        let Some(gone) = self.coordinators[number].lock().take() else { return };
        self.note(|| format!("coordinator {number} crashes"));
        gone.alive.store(false, Ordering::Relaxed);
        simulation::kill(gone.process);
        self.hosts().iter().for_each(|host| host.ended(gone.caller));
    }

    /// Runs the maintenance of all drives until it fails.
    pub async fn maintain(self: Arc<Self>) -> String {
        loop {
            sleep(Duration::from_millis(700)).await;
            for host in self.hosts() {
                if let Err(e) = host.maintain() {
                    return format!("drive {}: {e}", host.label.drive);
                }
            }
        }
    }
}

/// Reads the newest epoch from the control store.
fn newest(control: &Control) -> EpochSource {
    let control = control.clone();
    Arc::new(move || {
        let control = control.clone();
        Box::pin(async move {
            control.barrier().await.map_err(|e| e.to_string())?;
            map_of(&control).map(|m| m.epoch).ok_or_else(|| "there is no map".to_owned())
        })
    })
}
