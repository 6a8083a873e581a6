//! The node: drives, control store, placement groups and store, the shared state of a running server.
//!
//! `node_start` builds it, `drive_monitor` manages its drives, `rollback` stores their journal sequences.
//!
//! Invariant: the map in use is the one in the control store. Must not depend on: requests, how a start finds
//! its drives.

use ashlar_environment::time;
use std::collections::{BTreeMap, HashSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use ashlar_cluster::registry::Registry;
use ashlar_cluster::{Control, Map};
use ashlar_drive::Drive;
use ashlar_duties::{Duties, Duty, Unit};
use ashlar_erasure_set::{Code, Group, Layout, Sets};
use ashlar_format::{BucketId, DriveId};
use ashlar_machine::BufferPool;
use ashlar_object::Store;
use bytes::Bytes;
use futures::future::BoxFuture;
use parking_lot::Mutex;

use super::control_store::ControlStore;
use super::drive_discovery::{self, Facts};
use super::drive_monitor::order::Orders;
use super::heal_limits::HealLimits;
use super::lifecycle::Lifecycle;
use super::member::Member;
use super::questions::{Answers, NoAnswer};
use super::rotation::NodeStanding;

/// Time limit for closing one drive, and for closing the control store.
const CLOSE: Duration = Duration::from_secs(10);

/// The node.
pub struct Node {
    /// The control store.
    pub control: Control,
    /// Its driver.
    pub(crate) control_store: ControlStore,
    /// What this node is in its cluster; `None`: it is alone.
    pub member: Option<Arc<Member>>,
    /// The placement groups.
    pub sets: Sets,
    /// The store.
    pub store: Store,
    /// The work of lifecycle rules.
    pub lifecycle: Arc<Lifecycle>,
    /// Which background work is done here.
    pub(crate) duties: Duties,
    /// The pool of buffers.
    pub pool: BufferPool,
    /// The map in use.
    pub map: ArcSwap<Map>,
    /// A revision of the control store that was taken before the first map was read.
    pub(crate) map_since: u64,
    /// The folders of the command line, and the drive in service at each.
    pub folders: Mutex<Vec<DriveFolder>>,
    /// Held during a change of the map.
    pub(crate) changes: tokio::sync::Mutex<()>,
    /// Sends operators' orders to the drive monitor.
    pub(crate) orders: Orders,
    /// Drives that were put into service without a vote since the start.
    pub(crate) joins: Mutex<HashSet<DriveId>>,
    /// The limits of healing and scrub in the options of the start.
    pub(crate) heal_limits: HealLimits,
    /// Whether the options of the start accept that the loss of a disk, of which several drives are parts, loses objects.
    pub(crate) allow_shared_drive: bool,
}

/// One folder named on the command line.
#[derive(Clone)]
pub struct DriveFolder {
    /// The folder.
    pub path: PathBuf,
    /// The drive in service there.
    pub drive: Option<Drive>,
    /// Why no drive is in service there.
    pub problem: Option<String>,
    /// Whether an operator took it out of service.
    pub held: bool,
    /// Its file system at the last inspection.
    pub facts: Option<Facts>,
}

/// Generates 16 random bytes.
pub fn random_id() -> [u8; 16] {
    let mut id = [0; 16];
    ashlar_environment::random::fill(&mut id).expect("the operating system gives random bytes");
    id
}

/// The layout that a map describes.
pub fn layout(map: &Map) -> Layout {
    let code = map.code();
    let group = |g: &ashlar_cluster::Group| Group {
        id: g.id,
        epoch: g.epoch,
        slots: g.slots.iter().map(|s| s.drive).collect(),
    };
    Layout {
        epoch: map.epoch,
        code: Code { k: code.k, m: code.m },
        groups: map.groups.iter().map(group).collect(),
    }
}

impl Node {
    /// Whether it is accepted that the loss of a disk, of which several drives are parts, loses objects: by the options of this start, or of the
    /// one that formed the cluster.
    pub(crate) fn accepts_shared_drive(&self) -> bool {
        let formed =
            || Registry::read(&self.control).ok().flatten().is_some_and(|r| r.cluster.allow_shared_drive);
        self.allow_shared_drive || formed()
    }

    /// Warnings about the placement of the drives.
    pub fn warnings(&self) -> Vec<String> {
        let drive_folders = self.folders.lock().clone();
        let serving = drive_folders.iter().filter(|s| s.drive.is_some());
        let facts: Vec<_> = serving.filter_map(|s| Some((s.path.as_path(), s.facts.as_ref()?))).collect();
        drive_discovery::warnings(&facts, self.map.load().code().m)
    }

    /// Stops background work and closes the drives.
    pub fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            // A drive that hangs must not delay the others or the stop.
            let _ = time::timeout(CLOSE, self.store.close_feed()).await;
            if let Some(member) = &self.member {
                member.close().await;
            }
            self.sets.stop().await;
            let _ = time::timeout(CLOSE, self.control.close()).await;
            let drives: Vec<Drive> = self.folders.lock().iter().filter_map(|s| s.drive.clone()).collect();
            let closing = drives.iter().map(|drive| async move {
            if time::timeout(CLOSE, drive.close()).await.is_err() {
                tracing::warn!(drive = %drive.path().display(), "the drive does not close; its next start recovers it");
            }
        });
            futures::future::join_all(closing).await;
        })
    }

    /// The number of this node; 0: it is alone.
    pub fn number(&self) -> u16 {
        self.duties.node()
    }

    /// Whether this node counts the content of a bucket for all.
    pub fn counts(&self, bucket: BucketId) -> bool {
        self.duties.mine(Duty::Count, &Unit::Bucket(bucket.0))
    }

    /// The nodes of the cluster by number, this one included, and whether each runs as far as this node knows, without
    /// asking. A node that has just crashed still does, until its connections break. Empty: this node is alone.
    pub fn nodes(&self) -> Vec<(u16, bool)> {
        let Some(member) = &self.member else { return Vec::new() };
        let mut numbers = member.peers().numbers();
        numbers.push(self.number());
        numbers.sort_unstable();
        numbers.into_iter().map(|number| (number, self.runs(number))).collect()
    }

    /// Whether a node runs, as far as this node knows.
    fn runs(&self, number: u16) -> bool {
        let Some(member) = self.member.as_ref().filter(|_| number != self.number()) else { return true };
        let announced = || self.control.announced().borrow().contains(&number);
        (!self.knows_announced() || announced()) && !member.peers().is_unreachable(number)
    }

    /// Whether a node that is not announced does not run. Not while the control store is away or takes no changes: a node
    /// whose lease ends then cannot announce itself again.
    pub fn knows_announced(&self) -> bool {
        self.control_trouble().is_none() && self.control.health().writable
    }

    /// Registers what answers the questions of other nodes, once.
    pub fn answer_with(&self, answers: Arc<dyn Answers>) {
        if let Some(member) = &self.member {
            member.questions.register(answers);
        }
    }

    /// Asks another node, and waits for the answer no longer than `patience`. A question may arrive twice.
    ///
    /// # Errors
    /// See [`NoAnswer`].
    pub fn ask(
        &self,
        number: u16,
        question: Bytes,
        patience: Duration,
    ) -> BoxFuture<'_, Result<Bytes, NoAnswer>> {
        Box::pin(async move {
            match &self.member {
                Some(member) if self.runs(number) => {
                    member.peers().ask(number, question, time::Instant::now() + patience).await
                }
                _ => Err(NoAnswer::NotRunning),
            }
        })
    }

    /// Asks all other nodes of the cluster at once; one result for each, by number. Nodes that do not run are not waited
    /// for, others no longer than `patience`.
    pub fn ask_all(
        &self,
        question: Bytes,
        patience: Duration,
    ) -> BoxFuture<'_, Vec<(u16, Result<Bytes, NoAnswer>)>> {
        Box::pin(async move {
            let Some(member) = &self.member else { return Vec::new() };
            let deadline = time::Instant::now() + patience;
            member.peers().ask_all(|number| self.runs(number), question, deadline).await
        })
    }

    /// What the other nodes of the registry say to a question about their certificates; see `rotation`. A node that may
    /// run is waited for, no longer than `patience`.
    pub fn standings(
        &self,
        question: Bytes,
        patience: Duration,
    ) -> BoxFuture<'_, BTreeMap<u16, NodeStanding>> {
        Box::pin(async move {
            let Some(member) = &self.member else { return BTreeMap::new() };
            let until = time::Instant::now() + patience;
            let asked = member.peers().numbers().into_iter().map(|number| {
                let question = question.clone();
                async move {
                    // One that is announced runs, although this node may not have reached it again yet; one that is cut off
                    // from the control store only still talks to the others.
                    let announced = self.control.announced().borrow().contains(&number);
                    let announced = announced || self.control_trouble().is_some();
                    if !announced && member.peers().is_away(number) {
                        return (number, NodeStanding::Away);
                    }
                    let answer = member.peers().ask(number, question, until).await;
                    let said = answer.map_err(|no| no.to_string()).and_then(|bytes| {
                        serde_json::from_slice(&bytes)
                            .map_err(|e| format!("gave an answer that is not understood: {e}"))
                    });
                    (number, said.map_or_else(NodeStanding::Silent, NodeStanding::Said))
                }
            });
            let own = (self.number(), NodeStanding::Said(member.standing()));
            futures::future::join_all(asked).await.into_iter().chain([own]).collect()
        })
    }

    /// Where the control store is: `embedded` (on the drives) or `etcd`.
    pub fn control_kind(&self) -> &'static str {
        self.control_store.kind()
    }

    /// Why the control store cannot be used now, as far as its driver says.
    pub fn control_trouble(&self) -> Option<String> {
        self.control_store.trouble()
    }

    /// Writes a map that was made from `before`, the map in use. If the control store holds another map, that
    /// one is used from now on and nothing is written. The caller holds `changes`.
    ///
    /// # Errors
    /// A message for the operator.
    pub(crate) async fn write_map(&self, before: &Map, next: Map) -> Result<(), String> {
        let now = Map::read(&self.control).map_err(|e| e.to_string())?;
        if now != *before {
            self.use_map(now)?;
            return Err("the map was changed meanwhile; try again".to_owned());
        }
        let update = next.update(before, &self.control).map_err(|e| e.to_string())?;
        let written = self.control_store.change_members(update, next.members()).await;
        written.map_err(|e| e.to_string())?;
        self.map.store(Arc::new(next));
        Ok(())
    }

    /// Uses the map in the control store from now on. The caller holds `changes`.
    ///
    /// # Errors
    /// A message for the operator.
    pub(crate) fn use_map(&self, now: Map) -> Result<(), String> {
        if now.epoch > self.map.load().epoch {
            self.sets.set_layout(layout(&now)).map_err(|e| e.to_string())?;
        }
        if let Some(member) = &self.member {
            member.reach(&self.control, &now, &self.sets);
        }
        self.map.store(Arc::new(now));
        Ok(())
    }

    /// Serves the drives in service here to other nodes, and no others.
    pub(crate) fn serve_to_others(&self) {
        if let Some(member) = &self.member {
            member.served.set(self.folders.lock().iter().filter_map(|s| s.drive.clone()));
        }
    }
}

/// Runs blocking work on the thread pool of the runtime.
pub async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, String> {
    ashlar_environment::spawn_blocking("node", work).await.map_err(|e| format!("internal error: {e}"))
}
