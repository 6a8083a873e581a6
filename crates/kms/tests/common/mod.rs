//! A control store in memory that can be reopened.

use std::sync::Arc;

use ashlar_cluster::{Control, Embedded, MemoryMedium};
use ashlar_format::DeploymentId;

const DEPLOYMENT: DeploymentId = DeploymentId([3; 16]);

/// A new store and its medium.
pub async fn create() -> (Control, Arc<MemoryMedium>) {
    let slots = Arc::new(MemoryMedium::default());
    (Embedded::create(DEPLOYMENT, slots.as_only_drive(), Vec::new()).await.unwrap().control(), slots)
}

/// The same store, reopened as after a restart.
pub async fn again(slots: &Arc<MemoryMedium>) -> Control {
    Embedded::open(DEPLOYMENT, slots.as_only_drive()).await.unwrap().control()
}
