//! Periodic background work of the services over the node: the last use of access keys, access logs.
//!
//! Invariant: a failed run is repeated later and affects nothing else. Must not depend on: requests, how a
//! node starts.

use std::sync::Arc;
use std::time::Duration;

use ashlar_environment::time;
use ashlar_iam::Iam;
use ashlar_s3::Service;

/// Time between writes of the last use of access keys.
const USES: Duration = Duration::from_secs(600);

/// Stores periodically when access keys were last used.
pub async fn store_key_uses(iam: Arc<Iam>) {
    loop {
        time::sleep(USES).await;
        if let Err(error) = iam.store_uses().await {
            tracing::debug!(%error, "the last use of access keys cannot be stored");
        }
    }
}

/// Delivers access logs of buckets periodically, and early when many records wait.
pub async fn deliver_logs(service: Arc<Service>, interval: Duration) {
    let logs = service.access_logs();
    logs.look_again(&service.context().store);
    let mut last = time::Instant::now();
    loop {
        time::sleep(Duration::from_secs(1)).await;
        if last.elapsed() >= interval || logs.is_pressing() {
            logs.deliver(service.context()).await;
            last = time::Instant::now();
        }
    }
}
