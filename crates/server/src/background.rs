//! What a node does now and then, each for ever: collecting leftovers, counting buckets, delivering access logs.
//!
//! Invariant: what fails is tried again and costs nothing else. Must not depend on: requests, how a node starts.

use ashlar_environment::time;
use std::sync::Arc;
use std::time::Duration;

use ashlar_iam::Iam;
use ashlar_s3::Service;

use super::clock;
use super::node::Node;

/// How often leftovers of multipart uploads are collected.
const SWEEP: Duration = Duration::from_secs(300);
/// How often the time that locks go by is stored.
const LOCK_TIME: Duration = Duration::from_secs(300);
/// How often it is looked whether buckets have to be counted.
const COUNT: Duration = Duration::from_secs(2);
/// How often all buckets are counted anew.
const COUNT_ALL: Duration = Duration::from_secs(24 * 3600);
/// How often it is stored when access keys were last used.
const USES: Duration = Duration::from_secs(600);

/// Stores now and then when access keys were last used.
pub async fn remember_uses(iam: Arc<Iam>) {
    loop {
        time::sleep(USES).await;
        if let Err(error) = iam.store_uses().await {
            tracing::debug!(%error, "when keys were last used is not stored");
        }
    }
}

/// Delivers access logs of buckets now and then, and early when much waits.
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

/// Opens the change feed; with too few drives, again and again. Until then what is followed is not changed.
pub async fn open_feed(node: &Arc<Node>) {
    let Err(error) = node.store.open_feed().await else { return };
    tracing::warn!(%error, "the change feed is not open yet; tried again until it is");
    let node = node.clone();
    ashlar_environment::spawn("background", async move {
        loop {
            time::sleep(Duration::from_secs(1)).await;
            if node.store.open_feed().await.is_ok() {
                tracing::info!("the change feed is open");
                return;
            }
        }
    });
}

/// Collects leftovers of uploads, at the start and every few minutes.
pub async fn sweep(node: Arc<Node>) {
    loop {
        match node.store.sweep(clock::now_ms()).await {
            Ok(swept) => tracing::debug!(?swept, "leftovers collected"),
            Err(error) => tracing::debug!(%error, "leftovers not collected"),
        }
        time::sleep(SWEEP).await;
    }
}

/// Counts buckets: all at the start, and those again whose count cannot be trusted. What happens between is
/// added; now and then all are counted anew all the same.
pub async fn count(node: Arc<Node>) {
    let mut last = time::Instant::now();
    let mut failing = false;
    loop {
        let all = last.elapsed() >= COUNT_ALL;
        let counted = node.store.count_uncounted(all).await;
        if all {
            last = time::Instant::now();
        }
        if let (Err(error), false) = (&counted, failing) {
            tracing::warn!(%error, "a bucket could not be counted; tried again until it can");
        }
        failing = counted.is_err();
        time::sleep(COUNT).await;
    }
}

/// Stores the time that locks go by.
pub async fn keep_lock_time(node: Arc<Node>) {
    loop {
        if let Err(error) = node.store.keep_lock_time().await {
            tracing::warn!(%error, "the time of locks is not stored; locks may last longer");
        }
        time::sleep(LOCK_TIME).await;
    }
}

/// Gives memory back that has been idle.
pub async fn trim(node: Arc<Node>) {
    loop {
        time::sleep(Duration::from_secs(10)).await;
        node.pool.trim_older(Duration::from_secs(30));
        // The allocator gives pages back only when it frees others: a large block that comes and
        // goes makes it look.
        drop(std::hint::black_box(Vec::<u8>::with_capacity(4 << 20)));
    }
}
