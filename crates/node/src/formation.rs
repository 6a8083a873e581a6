//! How a node takes part in the formation of a cluster, or joins one: carries out what the registry says.
//!
//! Invariants: a node enrols with drives that are formatted, marked and open; it makes them voters only in the state
//! *founding*, before anything is written; it never leaves the state that others rely on half written.
//!
//! Must not depend on: etcd, how drives are found.

use std::collections::BTreeMap;
use std::time::Duration;

use ashlar_cluster::registry::{NodeDrive, NodeRecord, Registry, State, Step};
use ashlar_cluster::{CodeSpec, Control, Error, Map, Update, Watch};
use ashlar_drive::Drive;
use ashlar_environment::time;
use ashlar_format::DriveId;

use super::clock::now_ms;
use super::drive_discovery;

/// Pause after a change that the control store did not take.
const PAUSE: Duration = Duration::from_millis(500);
/// Time between messages to an operator who waits.
const TELL: Duration = Duration::from_secs(10);

/// A node that takes part.
pub(crate) struct Candidate<'a> {
    pub(crate) control: &'a Control,
    /// Where it is.
    pub(crate) record: NodeRecord,
    /// Its open drives.
    pub(crate) drives: &'a [Drive],
    /// What must be equal on all nodes.
    pub(crate) settings: &'a BTreeMap<String, String>,
    /// How many nodes this one thinks form the cluster, and with which code; `None`: whatever the others say.
    pub(crate) nodes: Option<u16>,
    pub(crate) code: Option<CodeSpec>,
    /// Id of a token and hash of its secret.
    pub(crate) token: Option<(String, String)>,
}

/// The records of the cluster.
///
/// # Errors
/// A message for the operator.
pub(crate) fn registry(control: &Control) -> Result<Registry, String> {
    let read = Registry::read(control).map_err(|e| e.to_string())?;
    read.ok_or_else(|| "the control store belongs to a machine that is alone, not to a cluster".to_owned())
}

/// The map, once there is one.
///
/// # Errors
/// A message for the operator.
pub(crate) fn map(control: &Control, registry: &Registry) -> Result<Option<Map>, String> {
    match registry.cluster.state {
        State::Forming => Ok(None),
        State::Founding | State::Formed => Map::read(control).map(Some).map_err(|e| e.to_string()),
    }
}

/// The drives of a node, as it enrols with them.
pub(crate) fn drives_of(drives: &[Drive]) -> Vec<NodeDrive> {
    let one = |d: &Drive| NodeDrive {
        id: d.label().drive,
        path: d.path().display().to_string(),
        capacity: d.stats().capacity,
        enclosure: drive_discovery::domain(d.path()),
    };
    drives.iter().map(one).collect()
}

impl Candidate<'_> {
    /// Takes part until the cluster is formed and this node is one of it; returns its number.
    ///
    /// # Errors
    /// A message for the operator.
    pub(crate) async fn take_part(&self) -> Result<u16, String> {
        let mut watch = self.control.watch(self.control.revision());
        let ids: Vec<DriveId> = self.drives.iter().map(|d| d.label().drive).collect();
        let mut told = None;
        loop {
            let registry = registry(self.control)?;
            registry.check_settings(self.settings).map_err(|e| e.to_string())?;
            registry.check_level(self.record.levels).map_err(|e| e.to_string())?;
            self.check_shape(&registry)?;
            let map = map(self.control, &registry)?;
            let found = registry.find(&ids, map.as_ref(), &self.record.address);
            let me = found.map_err(|e| e.to_string())?;
            me.map_or(Ok(()), |me| registry.check_not_removed(me)).map_err(|e| e.to_string())?;
            let step = registry.step(me);
            if told.as_ref() != Some(&step) {
                tell(&step);
                told = Some(step.clone());
            }
            match (step, me) {
                (Step::Serve, Some(me)) => {
                    if self.moved(&registry, me).await {
                        return Ok(me);
                    }
                }
                (Step::Wait { .. } | Step::WaitFor(_), _) => wait(&mut watch).await,
                (Step::Found, Some(me)) => {
                    self.found(map.as_ref()).await?;
                    self.change(|update| {
                        registry.founded(me, update);
                        Ok(())
                    })
                    .await?;
                }
                (step, _) => self.perform(&registry, step).await?,
            }
        }
    }

    /// While the cluster is formed, all nodes must agree about its shape.
    fn check_shape(&self, registry: &Registry) -> Result<(), String> {
        let cluster = &registry.cluster;
        if cluster.state == State::Formed {
            return Ok(());
        }
        if let Some(nodes) = self.nodes.filter(|n| *n != cluster.nodes) {
            return Err(format!(
                "--nodes {nodes}: another node began to form this cluster of {} nodes; say the same on all",
                cluster.nodes
            ));
        }
        if let Some(code) = self.code.filter(|code| cluster.code != Some(*code)) {
            let theirs = cluster.code.map_or("no code, so the default".to_owned(), |code| code.to_string());
            return Err(format!(
                "--code {code}: another node began to form this cluster with {theirs}; say the same on all"
            ));
        }
        Ok(())
    }

    async fn perform(&self, registry: &Registry, step: Step) -> Result<(), String> {
        match step {
            Step::Enrol => {
                self.change(|update| registry.enrol(&self.record, self.control, update).map(drop)).await
            }
            Step::Plan => {
                let updates = registry.plan(self.control).map_err(|e| {
                    format!(
                        "{e}. To form the cluster with other options, end its nodes, remove its keys from etcd (`etcdctl del \
                         --prefix /ashlar/NAME/`) and empty the folders"
                    )
                });
                for update in updates? {
                    if !self.send(update).await? {
                        break;
                    }
                }
                Ok(())
            }
            Step::Form => {
                self.change(|update| {
                    registry.form(update);
                    Ok(())
                })
                .await
            }
            Step::Join => self.join(registry).await,
            // A node without a number has no other step.
            step => Err(format!("this node is none of the cluster: {step:?}")),
        }
    }

    async fn join(&self, registry: &Registry) -> Result<(), String> {
        let Some((id, hash)) = &self.token else {
            return Err(format!(
                "the cluster has {} nodes already, and this is none of them: to join it, make a token on one of them \
                 (`ashlar cluster token`) and start with --join TOKEN",
                registry.nodes.len()
            ));
        };
        if registry.cluster.state != State::Formed {
            time::sleep(PAUSE).await;
            return Ok(());
        }
        let by = (id.as_str(), hash.as_str());
        self.change(|update| registry.join(&self.record, by, now_ms(), self.control, update).map(drop)).await
    }

    /// Makes the drives voters of the groups that the first map gives them.
    async fn found(&self, map: Option<&Map>) -> Result<(), String> {
        let map = map.ok_or("there is no map yet")?;
        for drive in self.drives {
            let done = drive.found(&map.groups_of(drive.label().drive), map.epoch).await;
            done.map_err(|e| format!("{}: {e}", drive.path().display()))?;
        }
        Ok(())
    }

    /// Writes where this node is now, and what it can do. While the control store takes no changes, others use what they
    /// know. False: what it was derived from has changed.
    async fn moved(&self, registry: &Registry, me: u16) -> bool {
        let mut update = Update::new();
        let filled = registry.moved(me, &self.record, &mut update);
        let written = match filled {
            Ok(()) if update.is_empty() => return true,
            Ok(()) => self.control.update(update).await.map(drop),
            Err(e) => Err(e),
        };
        match written {
            Ok(()) => true,
            Err(Error::Conflict(_)) => false,
            Err(error) => {
                tracing::warn!(%error, "the new address or release of this node is not known to the others yet");
                true
            }
        }
    }

    async fn change(
        &self,
        fill: impl FnOnce(&mut Update) -> ashlar_cluster::Result<()>,
    ) -> Result<(), String> {
        let mut update = Update::new();
        fill(&mut update).map_err(|e| e.to_string())?;
        self.send(update).await.map(drop)
    }

    /// Sends an update; false: what it was derived from has changed, or may have.
    async fn send(&self, update: Update) -> Result<bool, String> {
        match self.control.update(update).await {
            Ok(_) => Ok(true),
            // The state that caused the conflict is known now.
            Err(Error::Conflict(_)) => Ok(false),
            Err(Error::Unavailable(why)) => {
                tracing::warn!(why, "the control store does not take changes; waiting");
                time::sleep(PAUSE).await;
                Ok(false)
            }
            Err(e) => Err(e.to_string()),
        }
    }
}

/// Waits for a change of the control store, or a while.
async fn wait(watch: &mut Watch) {
    let _ = time::timeout(TELL, watch.next()).await;
}

fn tell(step: &Step) {
    match step {
        Step::Enrol => tracing::info!("cluster: this node enrols"),
        Step::Wait { have, wanted } => {
            tracing::info!("cluster: {have} of {wanted} nodes are here; waiting for the others")
        }
        Step::Plan => tracing::info!("cluster: all nodes are here; the drives get their placement groups"),
        Step::Found => tracing::info!("cluster: the drives of this node take their places"),
        Step::WaitFor(nodes) => tracing::info!(?nodes, "cluster: waiting for the drives of these nodes"),
        Step::Form | Step::Serve => {}
        Step::Join => tracing::info!("cluster: this node joins"),
    }
}

#[cfg(test)]
#[path = "formation_tests.rs"]
mod tests;
