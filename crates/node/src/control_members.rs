//! Which nodes run a member of etcd, if the nodes run it themselves: the list in the control store.
//!
//! Every node follows the list and remembers it for its next start (`ashlar_etcd_member`). A node that is on it and has no
//! member adds one to the cluster by itself. The node whose member leads removes members that are not on the list: dead
//! ones at once, others when all on the list vote.
//!
//! Invariants: the list is changed by compare-and-set only. A member is removed only by the list as it is after a
//! linearizable read.
//!
//! Must not depend on: how members are added and removed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use ashlar_cluster::registry::Registry;
use ashlar_cluster::{Control, Error, Watched};
use ashlar_environment::time::{self, Instant};
use ashlar_etcd_member::{Address, Error as MemberError, Members, Supervisor};
use bytes::Bytes;
use futures::future::BoxFuture;
use serde::{Deserialize, Serialize};

use super::node::Node;

/// Format number of the value.
const FORMAT: u32 = 1;
/// The key in the control store.
pub const KEY: &str = "control-members";
/// Time between looks at members that are not on the list.
const LOOK: Duration = Duration::from_secs(5);

/// Follows the list and makes the members what it says; never returns.
pub fn run(node: Arc<Node>) -> BoxFuture<'static, ()> {
    Box::pin(async move {
        let Some(supervisor) = node.member.as_ref().and_then(|m| m.etcd_member.clone()) else { return };
        let mut watch = node.control.watch(node.control.revision());
        loop {
            if let Err(why) = step(&node, &supervisor).await {
                tracing::debug!(
                    why,
                    "the members of the control store are not what they should be yet; retrying"
                );
            }
            let until = Instant::now() + LOOK;
            while let Ok(news) = time::timeout_at(until, watch.next()).await {
                match news {
                    Watched::Changes(changes) if !changes.iter().any(|c| c.key == KEY) => {}
                    _ => break,
                }
            }
        }
    })
}

async fn step(node: &Node, supervisor: &Supervisor) -> Result<(), String> {
    let said = |e: &dyn std::fmt::Display| e.to_string();
    match stored(&node.control)? {
        Some(members) => {
            supervisor.follow(&members).map_err(|e| said(&e))?;
            node.control_store.set_endpoints(&supervisor.endpoints());
        }
        None if node.control.health().writable => {
            let first = supervisor.members();
            let changed = node.control.change(|update| {
                let entry = node.control.read(KEY);
                if entry.bytes().is_none() {
                    update.set(&entry, encode(&first));
                }
                Ok::<_, Error>(())
            });
            changed.await.map_err(|e| said(&e))?;
        }
        None => {}
    }
    if !supervisor.leads().await {
        return Ok(());
    }
    node.control.barrier().await.map_err(|e| said(&e))?;
    match stored(&node.control)? {
        Some(wanted) => supervisor.remove_surplus(&wanted).await.map(drop).map_err(|e| said(&e)),
        None => Ok(()),
    }
}

fn stored(control: &Control) -> Result<Option<Members>, String> {
    control.get(KEY).map(|value| decode(&value.bytes)).transpose()
}

/// The value of [`KEY`].
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Stored {
    format: u32,
    members: Members,
}

fn decode(bytes: &[u8]) -> Result<Members, String> {
    let wrong = |why: &dyn std::fmt::Display| format!("the members in the control store: {why}");
    let stored: Stored = serde_json::from_slice(bytes).map_err(|e| wrong(&e))?;
    match stored.format {
        FORMAT => Ok(stored.members),
        other => Err(wrong(&format_args!("the format {other} is of another release"))),
    }
}

fn encode(members: &Members) -> Bytes {
    let stored = Stored { format: FORMAT, members: members.clone() };
    serde_json::to_vec(&stored).expect("addresses are JSON").into()
}

/// Changes the list, or finds out whether it can be changed; returns the list before. Nodes do the rest by themselves.
///
/// # Errors
/// `Refused`, with the reason; or those of the control store.
pub async fn set(node: &Node, wanted: &Members, dry_run: bool) -> Result<Members, Error> {
    let refused = |why: String| Error::Refused(why);
    let Some(supervisor) = node.member.as_ref().and_then(|m| m.etcd_member()) else {
        return Err(refused(
            "the nodes do not run etcd themselves (--control managed): change its members with etcdctl"
                .to_owned(),
        ));
    };
    node.control.barrier().await?;
    let hosts = hosts(&node.control)?;
    let announced: BTreeSet<u16> = node.control.announced().borrow().iter().copied().collect();
    let before = || {
        let before = stored(&node.control).map_err(refused)?;
        let before =
            before.ok_or_else(|| refused("no list of members is stored yet: try again".to_owned()))?;
        check(&before, wanted, &hosts, &announced).map_err(refused)?;
        Ok::<_, Error>(before)
    };
    before()?;
    supervisor.check_change(wanted).await.map_err(told)?;
    node.control
        .change(|update| {
            let entry = node.control.read(KEY);
            let before = before()?;
            if !dry_run && before != *wanted {
                update.set(&entry, encode(wanted));
            }
            Ok(before)
        })
        .await
}

fn told(error: MemberError) -> Error {
    match error {
        MemberError::Refused(why) => Error::Refused(why),
        other => Error::Unavailable(other.to_string()),
    }
}

/// The hosts of node addresses, with their nodes.
fn hosts(control: &Control) -> Result<BTreeMap<String, u16>, Error> {
    let registry = Registry::read(control)?.ok_or(Error::NotCreated)?;
    let host = |address: &str| address.rsplit_once(':').map(|(host, _)| host.to_ascii_lowercase());
    Ok(registry.nodes.iter().filter_map(|(number, record)| Some((host(&record.address)?, *number))).collect())
}

/// Refuses a list of which a new member is not on a node that runs.
fn check(
    before: &Members,
    wanted: &Members,
    hosts: &BTreeMap<String, u16>,
    announced: &BTreeSet<u16>,
) -> Result<(), String> {
    for address in wanted.all() {
        match before.of_host(&address.host) {
            Some(known) if known == address => continue,
            Some(known) => {
                return Err(format!("{address}: this member has the ports of {known}, which cannot change"));
            }
            None => {}
        }
        let Some(number) = hosts.get(&address.host) else {
            let known: Vec<&str> = hosts.keys().map(String::as_str).collect();
            return Err(format!(
                "{address}: no node has this host in its node address; there are {}",
                known.join(", ")
            ));
        };
        if !announced.contains(number) {
            return Err(format!("{address}: node {number} does not run, so it cannot become a member"));
        }
    }
    Ok(())
}

/// The member at a node's address, if nodes run etcd and it has one. A list that was left by nodes that ran etcd once does not
/// count.
#[must_use]
pub fn of_node(node: &Node, address: &str) -> Option<Address> {
    node.member.as_ref()?.etcd_member()?;
    let (host, _) = address.rsplit_once(':')?;
    stored(&node.control).ok()??.of_host(host).cloned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn golden() {
        let bytes = br#"{"format":1,"members":["a","b:1:2","c"]}"#;
        let members = decode(bytes).unwrap();
        assert_eq!(members.to_string(), "a,b:1:2,c");
        assert_eq!(encode(&members), bytes.as_slice());
        assert!(decode(br#"{"format":2,"members":["a"]}"#).unwrap_err().contains("format 2"));
        assert!(decode(br#"{"format":1,"members":["a","b"]}"#).is_err());
    }

    #[test]
    fn new_members_are_nodes_that_run() {
        let list = |text: &str| Members::parse(text).unwrap();
        let hosts: BTreeMap<String, u16> =
            [("a", 0), ("b", 1), ("c", 2), ("d", 3)].map(|(h, n)| (h.to_owned(), n)).into();
        let announced = BTreeSet::from([0, 1, 3]);
        let of = |wanted: &str| check(&list("a,b,c"), &list(wanted), &hosts, &announced);
        assert_eq!(of("a,b,d"), Ok(()));
        // One that is away stays what it is.
        assert_eq!(of("a,b,c"), Ok(()));
        assert_eq!(of("a"), Ok(()));
        assert!(of("a,b,x").unwrap_err().contains("no node has this host"));
        assert!(of("a:1:2,b,c").unwrap_err().contains("cannot change"));
        let fewer = check(&list("a,b,d"), &list("a,b,c"), &hosts, &announced).unwrap_err();
        assert_eq!(fewer, "c: node 2 does not run, so it cannot become a member");
    }
}
