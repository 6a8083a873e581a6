//! This node as one of a cluster: its certificate, its endpoint, and the drives of the other nodes.
//!
//! Invariants: the drives of other nodes that are attached are those of the map in use; a drive in service here is
//! served to others as long as it is in service.
//!
//! Must not depend on: how the cluster was formed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use ashlar_cluster::registry::{REMOVED, Registry};
use ashlar_cluster::{Absences, Announcement, Control, DriveState, Levels, Map, Watched};
use ashlar_drive::{Label, Role, State, Stats, Status};
use ashlar_environment::{spawn, time};
use ashlar_erasure_set::{Sets, TurnQueues};
use ashlar_etcd_member::Supervisor;
use ashlar_format::{Ballot, DriveId};
use ashlar_iam::Iam;
use ashlar_machine::BufferPool;
use ashlar_remote::Served;
use ashlar_remote::wire::Heard;
use ashlar_rpc::{Credentials, Endpoint, Limits, Transport};
use futures::future::BoxFuture;
use parking_lot::Mutex;

use super::authority::{self, Standing};
use super::peers::{DriveService, NodeService, Peers};
use super::questions::Questions;

/// How long calls of other nodes may take at the end.
const DRAIN: Duration = Duration::from_secs(5);
/// Time between checks whether the certificate has to be replaced.
const RENEWAL: Duration = Duration::from_secs(3600);
/// Time after which a failed renewal is tried again.
const AGAIN: Duration = Duration::from_secs(5);

/// This node as one of a cluster.
pub struct Member {
    /// The number of this node.
    pub(crate) number: u16,
    /// The name of the cluster.
    pub(crate) cluster: String,
    /// The feature levels that this process can do.
    pub(crate) levels: Levels,
    /// The drives that other nodes may use.
    pub(crate) served: Served,
    /// Who answers the questions of other nodes.
    pub(crate) questions: Questions,
    /// The turns of keys that this node gives.
    pub(crate) turns: Arc<TurnQueues>,
    peers: Arc<Peers>,
    credentials: Arc<Credentials>,
    /// What `credentials` trust, and who signed them.
    standing: Mutex<Standing>,
    endpoint: Mutex<Option<Endpoint>>,
    /// The drives of others that are attached, with their nodes.
    attached: Mutex<BTreeMap<DriveId, u16>>,
    announcement: Mutex<Option<Announcement>>,
    /// How long a node must be away until its slots move to others; `None`: they never do.
    pub(crate) rebuild_after: Option<Duration>,
    /// Nodes that are away.
    pub(crate) absences: Mutex<Absences>,
    /// The member of etcd that this node runs, or would run, if the nodes run etcd themselves.
    pub(crate) etcd_member: Option<Arc<Supervisor>>,
}

impl Member {
    /// Listens at `address` as node `number`. Other nodes reach the drives in `served`.
    ///
    /// # Errors
    /// A message for the operator.
    pub(crate) async fn start(
        (cluster, number, levels): (&str, u16, Levels),
        (control, iam): (&Control, &Iam),
        address: &str,
        memory: usize,
    ) -> Result<Member, String> {
        let standing = authority::wanted(control)?;
        let identity = authority::certify(control, iam, number)?;
        let credentials =
            Credentials::new(identity, authority::trust(control)?).map_err(|e| e.to_string())?;
        // Requests of others and answers to this node must not wait for each other's memory.
        let pools = (BufferPool::new(memory / 2), BufferPool::new(memory / 2));
        let transport =
            Transport::new(credentials.clone(), Limits::default(), levels.range(), pools.0, pools.1);
        let transport = transport.map_err(|e| e.to_string())?;
        let (served, questions) = (Served::default(), Questions::default());
        let turns = Arc::<TurnQueues>::default();
        let service = Arc::new(NodeService {
            drives: DriveService(served.clone()),
            control: control.clone(),
            questions: questions.clone(),
            turns: turns.clone(),
        });
        let endpoint = Endpoint::bind(transport.clone(), address, service).await;
        let endpoint = endpoint.map_err(|e| format!("messages between nodes: {e}"))?;
        Ok(Member {
            number,
            cluster: cluster.to_owned(),
            levels,
            served,
            questions,
            turns,
            peers: Arc::new(Peers::new(transport)),
            credentials,
            standing: Mutex::new(standing),
            endpoint: Mutex::new(Some(endpoint)),
            attached: Mutex::default(),
            announcement: Mutex::default(),
            rebuild_after: None,
            absences: Mutex::default(),
            etcd_member: None,
        })
    }

    /// It was announced at the start.
    pub(crate) fn announced(self, announcement: Option<Announcement>) -> Member {
        *self.announcement.lock() = announcement;
        self
    }

    /// Slots of a node that is away for so long move to others.
    pub(crate) fn rebuilding_after(self, time: Option<Duration>) -> Member {
        Member { rebuild_after: time, ..self }
    }

    /// The nodes run etcd themselves.
    pub(crate) fn with_etcd_member(self, etcd_member: Option<Arc<Supervisor>>) -> Member {
        Member { etcd_member, ..self }
    }

    /// The member of etcd that this node runs, or would run; `None`: the operator runs etcd.
    #[must_use]
    pub fn etcd_member(&self) -> Option<&Arc<Supervisor>> {
        self.etcd_member.as_ref()
    }

    /// Takes over the announcement that was made at the start.
    pub(crate) fn take_announcement(&self) -> Option<Announcement> {
        self.announcement.lock().take()
    }

    /// The other nodes.
    #[must_use]
    pub fn peers(&self) -> &Arc<Peers> {
        &self.peers
    }

    /// The name of the cluster.
    #[must_use]
    pub fn cluster(&self) -> &str {
        &self.cluster
    }

    /// Attaches the drives of other nodes that the map has, and detaches those that it no longer has.
    pub(crate) fn reach(&self, control: &Control, map: &Map, sets: &Sets) {
        let nodes = match Registry::read(control) {
            Ok(registry) => registry.map(|r| r.nodes).unwrap_or_default(),
            Err(error) => {
                tracing::error!(%error, "the nodes of the cluster cannot be read; those known before stay");
                return;
            }
        };
        let mut attached = self.attached.lock();
        let mut wanted = BTreeSet::new();
        let drives = map.drives.iter().filter(|d| d.state == DriveState::Active && d.node != self.number);
        for drive in drives {
            let Some(node) = nodes.get(&drive.node) else { continue };
            let remote = self.peers.at(drive.node, &node.address);
            wanted.insert(drive.id);
            if attached.get(&drive.id) != Some(&drive.node) {
                sets.attach(remote.know(&expected(map, drive)));
                attached.insert(drive.id, drive.node);
            }
        }
        attached.retain(|id, _| {
            let keep = wanted.contains(id);
            if !keep {
                sets.detach(*id);
            }
            keep
        });
        for number in self.peers.numbers() {
            if !nodes.contains_key(&number) {
                self.peers.remove(number);
            }
        }
        for (number, node) in nodes.iter().filter(|(number, _)| **number != self.number) {
            self.peers.at(*number, &node.address);
        }
    }

    /// What this node trusts, and who signed its certificate.
    #[must_use]
    pub fn standing(&self) -> Standing {
        self.standing.lock().clone()
    }

    /// Replaces the certificate when it is due or another authority signs, and follows whom the cluster trusts; never
    /// returns.
    pub(crate) fn renew(self: Arc<Self>, control: Control, iam: Arc<Iam>) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            let mut watch = control.watch(control.revision());
            loop {
                let done = self.follow_authority(&control, &iam);
                if let Err(why) = &done {
                    tracing::error!(why, "the certificate of this node cannot be replaced; retrying");
                }
                let until = time::Instant::now() + if done.is_ok() { RENEWAL } else { AGAIN };
                // Whatever else changes is of no concern.
                let ours = |key: &str| key == authority::KEY || key.starts_with(REMOVED);
                while let Ok(news) = time::timeout_at(until, watch.next()).await {
                    match news {
                        Watched::Changes(changes) if !changes.iter().any(|c| ours(&c.key)) => {}
                        _ => break,
                    }
                }
            }
        })
    }

    /// Makes trust and certificate what the cluster wants now.
    fn follow_authority(&self, control: &Control, iam: &Iam) -> Result<(), String> {
        let wanted = authority::wanted(control)?;
        let now = self.standing();
        let identity = self.credentials.identity();
        let due = identity.is_due(time::wall_ms().div_euclid(1000)) || wanted.signer != now.signer;
        if !due && wanted == now {
            return Ok(());
        }
        // Connections stay as they are while the certificate does.
        let identity = if due { authority::certify(control, iam, self.number)? } else { identity };
        self.credentials.replace(identity, authority::trust(control)?).map_err(|e| e.to_string())?;
        *self.standing.lock() = wanted;
        if due {
            tracing::info!("this node has a new certificate");
        }
        Ok(())
    }

    /// Serves no other node any longer.
    pub(crate) async fn close(&self) {
        let endpoint = self.endpoint.lock().take();
        if let Some(endpoint) = endpoint {
            endpoint.shutdown(DRAIN).await;
        }
    }

    /// Starts the tasks that run as long as the node.
    pub(crate) fn begin(self: &Arc<Self>, control: &Control, iam: &Arc<Iam>) {
        spawn("certificate", self.clone().renew(control.clone(), iam.clone()));
    }
}

/// What is expected of a drive before its node says anything.
fn expected(map: &Map, drive: &ashlar_cluster::Drive) -> Heard {
    let role = |joining| if joining { Role::Joining } else { Role::Voter };
    let held = map.groups.iter().filter_map(|g| Some((g.id, role(g.slot_of(drive.id)?.joining), g.epoch)));
    Heard {
        label: Label { deployment: map.deployment, drive: drive.id, created_ms: 0 },
        path: drive.path.clone(),
        status: Status {
            state: State::Online,
            held: held.collect(),
            floor: Ballot::ZERO,
            stats: Stats { free: drive.weight, ..Stats::default() },
        },
        oldest: Duration::ZERO,
    }
}
