//! Removes a node that is gone for good from the cluster: see `Registry::remove`.
//!
//! Invariants: a node that is announced, or that this node still reaches, is not removed; nothing changes while the control
//! store does not answer.
//!
//! Must not depend on: who may order it.

use ashlar_cluster::registry::{NodeRecord, Registry};
use ashlar_cluster::{Error, Map};
use futures::future::BoxFuture;

use super::clock::now_ms;
use super::control_members;
use super::node::Node;

/// Attempts against changes by others.
const ATTEMPTS: usize = 20;

/// Removes a node, or finds out whether it can be removed; returns the record that it had.
///
/// # Errors
/// `Refused`, with the reason; or those of the control store.
pub fn remove(node: &Node, number: u16, dry_run: bool) -> BoxFuture<'_, Result<NodeRecord, Error>> {
    Box::pin(async move {
        // What other nodes wrote before counts.
        node.control.barrier().await?;
        check_no_etcd(node, number)?;
        check_gone(node, number)?;
        // Several updates, if it has very many drives.
        let mut attempts = 0;
        loop {
            let registry = Registry::read(&node.control)?.ok_or(Error::NotCreated)?;
            let map = Map::read(&node.control)?;
            let (update, last) = registry.remove(number, &map, &node.control, now_ms())?;
            let record = registry.nodes.get(&number).cloned().ok_or(Error::NotCreated)?;
            if dry_run {
                return Ok(record);
            }
            match node.control.update(update).await {
                Ok(_) if last => {
                    tracing::warn!(number, host = record.host, "node removed from the cluster");
                    return Ok(record);
                }
                Ok(_) => attempts = 0,
                Err(Error::Conflict(_)) if attempts < ATTEMPTS => attempts += 1,
                Err(error) => return Err(error),
            }
            check_no_etcd(node, number)?;
            check_gone(node, number)?;
        }
    })
}

/// Refuses a node that is to run a member of etcd.
fn check_no_etcd(node: &Node, number: u16) -> Result<(), Error> {
    let registry = Registry::read(&node.control)?.ok_or(Error::NotCreated)?;
    let record = registry.nodes.get(&number);
    match record.and_then(|record| control_members::of_node(node, &record.address)) {
        None => Ok(()),
        Some(member) => Err(Error::Refused(format!(
            "node {number} has a member of the control store ({member}): first give it to another node, with `ashlar cluster \
             control set-members`"
        ))),
    }
}

/// Refuses a node that runs, as far as this one knows.
fn check_gone(node: &Node, number: u16) -> Result<(), Error> {
    let refused = |why: String| Err(Error::Refused(why));
    let Some(member) = &node.member else {
        return refused("this machine is alone: there is no node to remove".to_owned());
    };
    if number == node.number() {
        return refused(format!("node {number} is the one that answers: it runs"));
    }
    if node.control.announced().borrow().contains(&number) {
        return refused(format!(
            "node {number} runs: it is announced in etcd. Stop it first; one that was killed is announced for 10 s more"
        ));
    }
    if member.peers().numbers().contains(&number) && !member.peers().is_away(number) {
        return refused(format!(
            "node {number} runs: this node reaches it, although it is not announced in etcd"
        ));
    }
    Ok(())
}
