//! Follows the feature level in force and whether this node was removed from the cluster, and says what this process can do if
//! that could not be written at its start. What the level adds is allowed here.
//!
//! A node checks the level when it starts. Without etcd it may start with an old snapshot, or with a release whose levels
//! the others do not know yet; then the level may have been raised above what it can do.
//!
//! Invariant: a process does not go on serving once it knows that it cannot do the level in force, or is none of the
//! cluster any more.
//!
//! Must not depend on: how the level is raised, how a process ends.

use std::sync::Arc;
use std::time::Duration;

use ashlar_cluster::registry::{CLUSTER, Registry};
use ashlar_cluster::{BALLOTS_OF_CHANGES, FOLDED_LISTS, Levels, READ_WITH_SHARDS, Update, Watched};
use ashlar_environment::time;
use futures::future::BoxFuture;

use super::node::Node;

/// Time between attempts to write what this process can do.
const AGAIN: Duration = Duration::from_secs(5);

/// Returns why this process has to end: it cannot do the level in force, or its node was removed. Never, if that does not happen.
pub fn run(node: Arc<Node>) -> BoxFuture<'static, String> {
    Box::pin(async move {
        let Some(member) = &node.member else { return std::future::pending().await };
        let mut watch = node.control.watch(node.control.revision());
        let mut level = 0;
        loop {
            match Registry::read(&node.control) {
                Ok(Some(registry)) => {
                    let may_stay = registry.check_not_removed(member.number);
                    if let Err(why) = may_stay.and_then(|()| registry.check_level(member.levels)) {
                        return why.to_string();
                    }
                    if std::mem::replace(&mut level, registry.cluster.level) != registry.cluster.level {
                        tracing::info!(level, "feature level in force");
                    }
                    node.sets.bring_shards(level >= READ_WITH_SHARDS);
                    node.sets.fold_lists(level >= FOLDED_LISTS);
                    node.store.feed().tell_ballots(level >= BALLOTS_OF_CHANGES);
                    say(&node, &registry, member.number, member.levels).await;
                }
                Ok(None) => {}
                Err(error) => tracing::error!(%error, "the feature level of the cluster cannot be read"),
            }
            // Whatever else changes is looked at with the next one.
            let until = time::Instant::now() + AGAIN;
            loop {
                match time::timeout_at(until, watch.next()).await {
                    Ok(Watched::Changes(changes)) if changes.iter().all(|c| c.key != CLUSTER) => {}
                    _ => break,
                }
            }
        }
    })
}

/// Writes what this process can do, if the registry says something else.
async fn say(node: &Node, registry: &Registry, me: u16, levels: Levels) {
    let Some(record) = registry.nodes.get(&me).filter(|record| record.levels != levels) else { return };
    let mut now = record.clone().with_levels(levels);
    now.version = env!("CARGO_PKG_VERSION").to_owned();
    let mut update = Update::new();
    let written = match registry.moved(me, &now, &mut update) {
        Ok(()) => node.control.update(update).await.map(drop),
        Err(error) => Err(error),
    };
    if let Err(error) = written {
        tracing::debug!(%error, "what this release can do is not known to the others yet");
    }
}
