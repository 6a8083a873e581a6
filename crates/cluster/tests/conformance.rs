//! The embedded driver keeps the contract of the control store.
//!
//! Must not depend on: what one driver offers beyond the interface.

#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "tests run in real time")]

use std::sync::Arc;

use ashlar_cluster::{Embedded, Medium, MemoryMedium};
use ashlar_format::DriveId;

#[path = "conformance/contract.rs"]
mod contract;

use contract::{DEPLOYMENT, Driver};

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn embedded_driver_conforms() {
    contract::conforms(&|| {
        Box::pin(async {
            let medium = |n| (DriveId([n; 16]), Arc::new(MemoryMedium::default()) as Arc<dyn Medium>);
            let media = (1..=3).map(medium).collect();
            Arc::new(Embedded::create(DEPLOYMENT, media, Vec::new()).await.unwrap()) as Driver
        })
    })
    .await;
}
