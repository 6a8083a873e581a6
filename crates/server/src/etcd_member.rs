//! The member of etcd of this node, where nothing else runs yet.
//!
//! Must not depend on: how members are run.

use std::sync::Arc;
use std::time::Duration;

use ashlar_etcd_member::{Settings, Supervisor};

/// Time limit for the etcd that this node founds alone.
const FOUNDED: Duration = Duration::from_secs(60);

/// Begins to run the member of etcd of this node.
///
/// # Errors
/// A message for the operator.
pub async fn start(settings: Settings) -> Result<Arc<Supervisor>, String> {
    Supervisor::start(settings).await.map(Arc::new).map_err(|e| e.to_string())
}

/// Waits until the only member of etcd answers.
///
/// # Errors
/// A message for the operator.
pub async fn founded(member: &Supervisor) -> Result<(), String> {
    let (members, folder) = (member.members(), member.folder().display());
    if members.all().len() != 1 {
        return Err(format!(
            "the folder {folder} has a member of an etcd of {members}, which cannot run alone: stop all nodes, and move that \
             folder away on every one"
        ));
    }
    match member.healthy(FOUNDED).await {
        true => Ok(()),
        false => Err(format!(
            "etcd of this node does not answer; the log has more. If the folder {folder} has an etcd of before, move it away"
        )),
    }
}
