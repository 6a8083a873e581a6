//! Periodic background work of a node: division of duties, collecting remains of uploads, counting buckets.
//!
//! Invariant: a failed run is repeated later and affects nothing else. Must not depend on: requests, how a
//! node starts.

use ashlar_cluster::registry::Registry;
use ashlar_duties::{Duty, Unit};
use ashlar_environment::time;
use futures::future::BoxFuture;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::clock;
use super::node::Node;

/// Time between attempts to announce this node.
const ANNOUNCE: Duration = Duration::from_secs(1);
/// Time between collections of the remains of multipart uploads.
const SWEEP: Duration = Duration::from_secs(300);
/// Time between writes of the clock that object locks use.
const LOCK_TIME: Duration = Duration::from_secs(300);
/// Time between checks whether a bucket has to be counted.
const COUNT: Duration = Duration::from_secs(2);
/// Time between looks at which nodes run.
const LOOK: Duration = Duration::from_secs(5);
/// How long a node does not run before another takes over its change feed: longer than a restart.
const GONE: Duration = Duration::from_secs(30);
/// Time between complete recounts of all buckets.
pub const COUNT_ALL: Duration = Duration::from_secs(24 * 3600);

/// Announces this node, and divides background work between the nodes that are announced.
pub fn divide_duties(node: Arc<Node>) -> BoxFuture<'static, ()> {
    Box::pin(async move {
        let mut nodes = node.control.announced();
        let at_start = node.member.as_ref().and_then(|member| member.take_announcement());
        let _announced = loop {
            if let Some(announcement) = at_start {
                break announcement;
            }
            match node.control.announce(node.duties.node()).await {
                Ok(announcement) => break announcement,
                Err(error) => {
                    tracing::warn!(%error, "this node cannot be announced; tried again until it can")
                }
            }
            time::sleep(ANNOUNCE).await;
        };
        loop {
            node.duties.set_nodes(nodes.borrow_and_update().iter().copied());
            if nodes.changed().await.is_err() {
                return;
            }
        }
    })
}

/// Opens the change feed; retries while too few drives are available. Until it is open, buckets that are
/// followed accept no changes.
pub fn open_feed(node: &Arc<Node>) -> BoxFuture<'_, ()> {
    Box::pin(async move {
        let Err(error) = node.store.open_feed().await else { return };
        tracing::warn!(%error, "the change feed cannot be opened yet; retrying");
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
    })
}

/// Collects remains of uploads, at the start and then periodically.
pub fn sweep(node: Arc<Node>) -> BoxFuture<'static, ()> {
    Box::pin(async move {
        loop {
            match node.store.sweep(clock::now_ms()).await {
                Ok(swept) => tracing::debug!(?swept, "remains of uploads collected"),
                Err(error) => tracing::debug!(%error, "remains of uploads not collected"),
            }
            time::sleep(SWEEP).await;
        }
    })
}

/// Counts buckets: all at the start, later those whose count is unreliable. Changes in between are added to
/// the count; all buckets are recounted once a day. In a cluster only as far as limits need it: there, who counts a bucket
/// is divided as [`Node::counts`] says.
pub fn count(node: Arc<Node>) -> BoxFuture<'static, ()> {
    Box::pin(async move {
        let mut last = time::Instant::now();
        let mut failing = false;
        loop {
            let all = node.member.is_none() && last.elapsed() >= COUNT_ALL;
            let counted = node.store.count_uncounted(all).await;
            if all {
                last = time::Instant::now();
            }
            if let (Err(error), false) = (&counted, failing) {
                tracing::warn!(%error, "a bucket could not be counted; retrying");
            }
            failing = counted.is_err();
            time::sleep(COUNT).await;
        }
    })
}

/// Stores periodically the clock that object locks use.
pub fn store_lock_time(node: Arc<Node>) -> BoxFuture<'static, ()> {
    Box::pin(async move {
        loop {
            if let Err(error) = node.store.save_lock_time().await {
                tracing::warn!(%error, "the clock of object locks cannot be stored; locks may last longer");
            }
            time::sleep(LOCK_TIME).await;
        }
    })
}

/// Returns idle memory to the operating system.
pub fn trim(node: Arc<Node>) -> BoxFuture<'static, ()> {
    Box::pin(async move {
        loop {
            time::sleep(Duration::from_secs(10)).await;
            node.pool.trim_older(Duration::from_secs(30));
            // The allocator returns pages only when it frees others. Allocating and freeing a large block makes
            // it check.
            drop(std::hint::black_box(Vec::<u8>::with_capacity(4 << 20)));
        }
    })
}

/// Takes over the change feeds of nodes that are gone, so that their last events are delivered.
pub fn take_over_feeds(node: Arc<Node>) -> BoxFuture<'static, ()> {
    Box::pin(async move {
        let mut gone: BTreeMap<u16, time::Instant> = BTreeMap::new();
        loop {
            time::sleep(LOOK).await;
            let Ok(Some(registry)) = Registry::read(&node.control) else { continue };
            let running = node.control.announced().borrow().clone();
            gone.retain(|number, _| registry.nodes.contains_key(number) && !running.contains(number));
            for number in registry.nodes.keys().filter(|number| !running.contains(number)) {
                gone.entry(*number).or_insert_with(time::Instant::now);
            }
            let ours = |number: u16| node.duties.mine(Duty::Feed, &Unit::node(number));
            for (number, _) in gone.iter().filter(|(number, since)| since.elapsed() >= GONE && ours(**number))
            {
                match node.store.take_over_feed(*number).await {
                    Ok(0) => {}
                    Ok(changes) => {
                        tracing::info!(node = number, changes, "the change feed of a node was taken over")
                    }
                    Err(error) => {
                        tracing::debug!(node = number, %error, "its change feed is not taken over yet")
                    }
                }
            }
        }
    })
}
