//! Follows the map and the registry of nodes, which other nodes change too.
//!
//! Invariant: the map in use follows the one in the control store; a change that cannot be used is reported and
//! changes nothing.
//!
//! Must not depend on: who changes them.

use std::sync::Arc;
use std::time::Duration;

use ashlar_cluster::registry::NODES;
use ashlar_cluster::{Map, Watched};
use ashlar_environment::time;
use futures::future::BoxFuture;

use super::node::Node;

/// Time between looks in case a change could not be used.
const AGAIN: Duration = Duration::from_secs(5);

/// Uses every later map; never returns.
pub fn run(node: Arc<Node>) -> BoxFuture<'static, ()> {
    Box::pin(async move {
        let mut watch = node.control.watch(node.map_since);
        let mut failed = false;
        loop {
            let ours = |key: &str| key.starts_with(Map::KEY) || key.starts_with(NODES);
            let news = match time::timeout(AGAIN, watch.next()).await {
                Ok(Watched::Changes(changes)) => changes.iter().any(|c| ours(&c.key)),
                Ok(Watched::Reset(_)) => true,
                Err(_) => failed,
            };
            if news {
                failed = follow(&node)
                    .await
                    .inspect_err(|why| tracing::error!(why, "the map cannot be used"))
                    .is_err();
            }
        }
    })
}

async fn follow(node: &Node) -> Result<(), String> {
    let _one = node.changes.lock().await;
    let now = Map::read(&node.control).map_err(|e| e.to_string())?;
    if now.epoch < node.map.load().epoch {
        return Err(format!(
            "the control store has epoch {}, this node {}",
            now.epoch,
            node.map.load().epoch
        ));
    }
    node.use_map(now)
}
