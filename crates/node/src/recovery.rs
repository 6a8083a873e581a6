//! Recovery: an operator gives distrusted drives their votes back when too few other drives are left.
//!
//! The rule is `ashlar_erasure_set::Sets::salvage`. Invariant: a recovery begins with a new epoch. Must not
//! depend on: requests, reports.

use ashlar_erasure_set::Salvaged;
use futures::future::BoxFuture;

use super::node::{self, Node};

/// How often the map is read again because another node changed it.
const TRIES: u32 = 5;

/// Recovers distrusted drives; `dry_run` only finds out what a recovery would do.
///
/// # Errors
/// A message for the operator: the recovery failed; it can be started again.
pub fn recover(node: &Node, dry_run: bool) -> BoxFuture<'_, Result<Salvaged, String>> {
    Box::pin(async move {
        if !dry_run {
            // The new epoch invalidates promises that a distrusted drive may have made before.
            let _one = node.changes.lock().await;
            let mut tries = 0;
            loop {
                let map = node.map.load_full();
                let next = map.next_epoch().map_err(|e| e.to_string())?;
                let layout = node::layout(&next);
                match node.write_map(&map, next).await {
                    Ok(()) => {
                        node.sets.set_layout(layout).map_err(|e| e.to_string())?;
                        break;
                    }
                    // Another node changed the map; this node uses that one now.
                    Err(_) if tries < TRIES && node.map.load().epoch > map.epoch => tries += 1,
                    Err(e) => return Err(e),
                }
            }
        }
        node.sets.salvage(!dry_run).await.map_err(|e| e.to_string())
    })
}
