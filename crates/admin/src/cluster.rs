//! The administration API for the nodes of a cluster.
//!
//! | request | document |
//! |---|---|
//! | `GET cluster` | the nodes, the control store, what may fail; a machine that is alone answers as one node |
//! | `GET cluster/may-stop?node=N` | whether a node can be stopped without an effect on clients: see `may_stop` |
//! | `POST cluster/upgrade` `{"dry_run": bool}` | raises the feature level to the newest one, if all nodes can do it |
//! | `POST cluster/remove` `{"node", "dry_run"}` | removes a node that is gone for good; refused with the reason: 409 |
//! | `POST cluster/control-members` `{"members", "dry_run"}` | changes which nodes run a member of etcd; refused with the reason: 409 |
//! | `POST cluster/tokens` `{"lifetime_s"}` | a token with which one node joins; a machine that is alone refuses: 409 |
//!
//! Invariants: the secret of a token is in the answer only, the control store has its hash; the number of tokens is
//! bounded.
//!
//! Must not depend on: how a cluster is formed, how a node joins.

use std::collections::{BTreeMap, BTreeSet};

use ashlar_cluster::registry::{Registry, State, TOKENS, Token};
use ashlar_cluster::{Control, DriveState, Error, Map};
use ashlar_erasure_set::tolerance;
use ashlar_etcd_member::{MemberState, Members, Status};
use ashlar_node::clock::now_ms;
use ashlar_node::evacuation::{self, Absence};
use ashlar_node::{Node, control_members, removal, token_hash};
use http::StatusCode;
use serde_json::Value;

use super::admin_request::{AdminRequest, AdminResult, Refusal, bad_request};
use super::api::state::NodeInfo;
use super::api::{self, cluster as shape};
use super::authority;
use super::table::Route;

/// Longest lifetime of a token, in seconds.
const MAX_LIFETIME: u64 = 86_400;
/// Most tokens that have not expired.
const MAX_TOKENS: usize = 100;
/// Most expired tokens that one request removes.
const REMOVED: usize = 50;

/// Answers a request that changes something. The caller has checked the permission.
pub async fn answer(node: &Node, req: &AdminRequest) -> AdminResult {
    if req.route == Route::ClusterUpgrade {
        let order: shape::UpgradeOrder = req.document()?;
        if node.member.is_none() {
            return Err(conflict("this machine is alone: a new release needs no other step than its start"));
        }
        return Ok((StatusCode::OK, api::value(upgrade(&node.control, order.dry_run).await?)));
    }
    if req.route == Route::ClusterRemove {
        return remove(node, &req.document()?).await;
    }
    if req.route == Route::ClusterControlMembers {
        return set_control_members(node, &req.document()?).await;
    }
    let order: shape::TokenOrder = req.document()?;
    let token = new_token(node, order).await?;
    Ok((StatusCode::OK, api::value(token)))
}

/// Raises the feature level, if all nodes can do the newest one.
async fn upgrade(control: &Control, dry_run: bool) -> Result<shape::Upgrade, Refusal> {
    // What other nodes wrote before this request counts.
    control.barrier().await.map_err(failed)?;
    let read = control.change(|update| {
        let registry = Registry::read(control)?.ok_or(Error::NotCreated)?;
        if !dry_run && registry.next_level().1.is_empty() {
            registry.raise_level(update)?;
        }
        Ok::<_, Error>(registry)
    });
    let registry = read.await.map_err(|error| match error {
        Error::Refused(why) => conflict(why),
        other => failed(other),
    })?;
    let (target, cannot) = registry.next_level();
    let raised = !dry_run && cannot.is_empty() && target > registry.cluster.level;
    Ok(shape::Upgrade {
        feature_level: if raised { target } else { registry.cluster.level },
        target,
        raised,
        reasons: cannot.into_iter().filter_map(|number| registry.cannot(number, target)).collect(),
    })
}

/// Removes a node that is gone for good.
async fn remove(node: &Node, order: &shape::RemoveOrder) -> AdminResult {
    if node.member.is_none() {
        return Err(conflict("this machine is alone: there is no node to remove"));
    }
    let removed = removal::remove(node, order.node, order.dry_run).await.map_err(|error| match error {
        Error::Refused(why) => conflict(why),
        other => failed(other),
    })?;
    Ok((
        StatusCode::OK,
        api::value(shape::NodeRemoved {
            node: order.node,
            host: removed.host,
            address: removed.address,
            removed: !order.dry_run,
        }),
    ))
}

/// Changes which nodes run a member of etcd.
async fn set_control_members(node: &Node, order: &shape::ControlMembersOrder) -> AdminResult {
    let members =
        Members::parse(&order.members.join(",")).map_err(|e| bad_request(format!("members: {e}")))?;
    let set = control_members::set(node, &members, order.dry_run);
    let before = set.await.map_err(|error| match error {
        Error::Refused(why) => conflict(why),
        other => failed(other),
    })?;
    let text = |members: &Members| members.all().iter().map(ToString::to_string).collect();
    let answer = shape::ControlMembers {
        before: text(&before),
        members: text(&members),
        changed: !order.dry_run && before != members,
    };
    Ok((StatusCode::OK, api::value(answer)))
}

/// The members of etcd that nodes run themselves; `None` if they do not.
pub async fn etcd_members(node: &Node) -> Option<Vec<shape::EtcdMember>> {
    let supervisor = node.member.as_ref()?.etcd_member()?;
    let shown = |member: MemberState| {
        let status = member.status.as_ref();
        shape::EtcdMember {
            address: member.address,
            healthy: status.is_some_and(Status::has_leader),
            leader: member.leads,
            learner: status.is_some_and(|s| s.is_learner),
            version: status.map(|s| s.version.clone()),
            size: status.map(|s| s.size),
        }
    };
    Some(supervisor.overview().await.into_iter().map(shown).collect())
}

pub(crate) fn conflict(why: impl Into<String>) -> Refusal {
    Refusal { status: StatusCode::CONFLICT, code: "Conflict", why: why.into() }
}

pub(crate) fn failed(error: Error) -> Refusal {
    let (status, code) = match &error {
        Error::Unavailable(_) | Error::Contended(_) | Error::Conflict(_) => {
            (StatusCode::SERVICE_UNAVAILABLE, "ServiceUnavailable")
        }
        _ => (StatusCode::INTERNAL_SERVER_ERROR, "InternalError"),
    };
    Refusal { status, code, why: error.to_string() }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

/// Makes a token; it is stored when this returns.
async fn new_token(node: &Node, order: shape::TokenOrder) -> Result<shape::Token, Refusal> {
    if node.member.is_none() {
        return Err(conflict(
            "this machine is alone, so no node can join: a cluster has its control store in etcd (`ashlar server \
             --control`, docs/cluster-quick-start.md)",
        ));
    }
    if !(1..=MAX_LIFETIME).contains(&order.lifetime_s) {
        return Err(bad_request(format!("lifetime_s: 1 to {MAX_LIFETIME} seconds (24 hours)")));
    }
    let (mut id, mut secret) = ([0; 8], [0; 32]);
    for bytes in [&mut id[..], &mut secret[..]] {
        let filled = ashlar_environment::random::fill(bytes);
        filled.map_err(|e| failed(Error::Unavailable(format!("no random bytes: {e}"))))?;
    }
    let (id, secret) = (hex(&id), hex(&secret));
    let now = now_ms();
    let expires_ms = now + order.lifetime_s as i64 * 1000;
    store(&node.control, &id, &Token::new(token_hash(&secret), expires_ms), now).await?;
    let expires = ashlar_s3::date::format_iso(expires_ms);
    Ok(shape::Token { token: format!("{id}.{secret}"), expires })
}

/// Stores a token, and removes some that have expired.
async fn store(control: &Control, id: &str, token: &Token, now: i64) -> Result<(), Refusal> {
    let (key, value) = token.entry(id);
    let changed = control.change::<bool, Error>(|update| {
        let valid = |bytes: Option<&bytes::Bytes>| {
            let stored = bytes.and_then(|b| serde_json::from_slice::<Token>(b).ok());
            // One that this release cannot read may be of a later one.
            stored.is_none_or(|token| token.expires_ms > now)
        };
        let (kept, expired): (Vec<_>, Vec<_>) =
            control.entries(TOKENS).into_iter().partition(|entry| valid(entry.bytes()));
        if kept.len() >= MAX_TOKENS {
            return Ok(false);
        }
        expired.iter().take(REMOVED).for_each(|entry| update.remove(entry));
        update.set(&control.read(&key), value.clone());
        Ok(true)
    });
    match changed.await.map_err(failed)? {
        true => Ok(()),
        false => Err(conflict(format!("{MAX_TOKENS} tokens have not expired yet: use one of them, or wait"))),
    }
}

/// What `GET cluster` answers. `said`: what the nodes said about themselves. The caller has checked the permission.
///
/// # Errors
/// The control store cannot be read.
pub fn status(
    node: &Node,
    said: &[NodeInfo],
    etcd: Option<Vec<shape::EtcdMember>>,
) -> Result<Value, Refusal> {
    let map = node.map.load();
    let registry = Registry::read(&node.control).map_err(failed)?;
    let health = node.control.health();
    let trouble = node.control_trouble();
    let mut nodes = nodes(node, &map, registry.as_ref());
    for row in &mut nodes {
        if let Some(info) = said.iter().find(|info| info.node == row.number) {
            (row.uptime_s, row.problem) = (info.uptime_s, info.problem.clone());
            row.version.clone_from(&info.version);
        }
    }
    let away: Vec<u16> = nodes.iter().filter(|n| !n.running).map(|n| n.number).collect();
    let state = match registry.as_ref().map(|r| r.cluster.state) {
        None => "alone",
        Some(State::Forming) => "forming",
        Some(State::Founding) => "founding",
        Some(State::Formed) => "formed",
    };
    Ok(api::value(shape::Cluster {
        name: node.member.as_ref().map(|member| member.cluster().to_owned()),
        deployment: map.deployment.to_hex(),
        state,
        control_store: shape::ControlStore {
            kind: node.control_kind(),
            members: health.members as u64,
            current: health.current as u64,
            writable: health.writable,
            revision: health.revision,
            age_ms: u64::try_from(health.age.as_millis()).unwrap_or(u64::MAX),
            trouble,
            etcd,
        },
        code: map.code().to_string(),
        groups: groups(node, &map, &away),
        tolerates: tolerates(&map),
        feature_level: registry.as_ref().map(|r| r.cluster.level),
        next_feature_level: registry.as_ref().map(|r| r.next_level().0),
        authority: match registry {
            Some(_) => Some(authority::state(&node.control)?),
            None => None,
        },
        nodes,
    }))
}

fn nodes(node: &Node, map: &Map, registry: Option<&Registry>) -> Vec<shape::ClusterNode> {
    let me = node.number();
    let others: BTreeSet<u16> = match node.knows_announced() {
        true => node.control.announced().borrow().iter().copied().collect(),
        false => node.nodes().into_iter().filter(|(_, runs)| *runs).map(|(number, _)| number).collect(),
    };
    let describe = |number: u16| {
        let serving = || node.folders.lock().iter().filter(|f| f.drive.is_some()).count() as u64;
        let in_map = map.drives.iter().filter(|d| d.node == number && d.state == DriveState::Active);
        let record = registry.and_then(|r| r.nodes.get(&number));
        let own = || env!("CARGO_PKG_VERSION").to_owned();
        shape::ClusterNode {
            number,
            host: record.map(|r| r.host.clone()),
            address: record.map(|r| r.address.clone()),
            endpoint: record.map(|r| r.endpoint.clone()),
            version: record.map_or_else(own, |r| r.version.clone()),
            feature_levels: record
                .map(|r| shape::FeatureLevels { oldest: r.levels.oldest, newest: r.levels.newest }),
            running: number == me || others.contains(&number),
            drives: shape::NodeDrives {
                in_map: in_map.count() as u64,
                serving_here: (number == me).then(serving),
            },
            this: number == me,
            uptime_s: None,
            problem: None,
            away: evacuation::absence(node, number).map(away),
        }
    };
    match registry {
        Some(registry) => registry.nodes.keys().map(|number| describe(*number)).collect(),
        None => vec![describe(me)],
    }
}

fn away(absence: Absence) -> shape::AwayNode {
    let seconds = absence.since.as_secs();
    let stuck = |(why, groups)| shape::StuckGroups { groups: groups as u64, why };
    shape::AwayNode {
        since: ashlar_s3::date::format_iso(now_ms() - seconds as i64 * 1000),
        seconds,
        rebuild_after_s: absence.moves_after.map(|time| time.as_secs()),
        groups: absence.groups as u64,
        stuck: absence.stuck.into_iter().map(stuck).collect(),
    }
}

/// The states of the groups. `away`: nodes that do not run; what was heard last of their drives may be old.
fn groups(node: &Node, map: &Map, away: &[u16]) -> shape::GroupCounts {
    let tolerance = tolerance(map.code().k, map.code().m);
    let places = places(map);
    let mut counts = shape::GroupCounts {
        total: map.groups.len() as u64,
        writable: 0,
        readable: 0,
        complete: map.groups.iter().filter(|g| !g.slots.iter().any(|s| s.joining)).count() as u64,
        left: map.groups.iter().filter(|g| !g.left.is_empty()).count() as u64,
    };
    for health in node.sets.health() {
        let group = map.groups.iter().position(|g| g.id == health.group);
        let slots = group.map(|i| &places[i]);
        let missing = slots.map_or(0, |slots| away.iter().filter_map(|n| slots.get(n)).sum::<u64>());
        counts.writable += u64::from(health.writable && missing <= u64::from(tolerance.writes));
        counts.readable += u64::from(health.readable && missing <= u64::from(tolerance.reads));
    }
    counts
}

/// How many slots of each group each node has.
fn places(map: &Map) -> Vec<BTreeMap<u16, u64>> {
    let nodes: BTreeMap<_, _> = map.drives.iter().map(|d| (d.id, d.node)).collect();
    let slots = map.groups.iter().map(|group| {
        let mut slots = BTreeMap::new();
        for slot in &group.slots {
            *slots.entry(nodes.get(&slot.drive).copied().unwrap_or_default()).or_default() += 1;
        }
        slots
    });
    slots.collect()
}

/// What may be missing, of whichever drives and nodes.
fn tolerates(map: &Map) -> shape::Tolerates {
    let tolerance = tolerance(map.code().k, map.code().m);
    let (reads, writes) = (u64::from(tolerance.reads), u64::from(tolerance.writes));
    let places = places(map);
    let nodes = |drives: u64| places.iter().map(|slots| lost_nodes(slots, drives)).min().unwrap_or(0);
    let both = reads.min(writes);
    shape::Tolerates { drives: both, nodes: nodes(both), read_drives: reads, read_nodes: nodes(reads) }
}

/// How many nodes may be missing, whichever they are, so that a group misses no more than `drives` slots.
fn lost_nodes(slots: &BTreeMap<u16, u64>, drives: u64) -> u64 {
    let mut sizes: Vec<u64> = slots.values().copied().collect();
    sizes.sort_unstable_by(|a, b| b.cmp(a));
    let sums = sizes.iter().scan(0, |sum, size| {
        *sum += size;
        Some(*sum)
    });
    sums.take_while(|sum| *sum <= drives).count() as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use ashlar_cluster::registry::{Cluster as Registered, NodeDrive, NodeRecord};
    use ashlar_cluster::{Accept, CodeSpec, Embedded, Levels, MemoryMedium, NewDrive, Update};
    use ashlar_format::{DeploymentId, DriveId};

    fn map(nodes: u16, drives: u16, code: CodeSpec) -> Map {
        let drive = |node: u16, n: u16| NewDrive {
            id: DriveId([(node * 16 + n) as u8; 16]),
            path: format!("/n{node}/d{n}"),
            weight: 1 << 40,
            node,
            rack: None,
            enclosure: None,
        };
        let all: Vec<_> = (1..=nodes).flat_map(|node| (0..drives).map(move |n| drive(node, n))).collect();
        Map::first_over_nodes(
            DeploymentId([1; 16]),
            &all,
            Some(code),
            None,
            Accept { node_loss: true, ..Accept::default() },
        )
        .unwrap()
    }

    #[test]
    fn what_may_be_missing_follows_from_code_and_places() {
        let of = |nodes, drives, k, m| {
            let t = tolerates(&map(nodes, drives, CodeSpec { k, m }));
            (t.drives, t.nodes, t.read_drives, t.read_nodes)
        };
        assert_eq!(of(4, 4, 12, 4), (4, 1, 4, 1));
        assert_eq!(of(3, 2, 4, 2), (2, 1, 2, 1));
        assert_eq!(of(2, 4, 4, 4), (3, 0, 4, 1), "half of the slots can be read, but not written");
        assert_eq!(of(1, 4, 2, 2), (1, 0, 2, 0));
        assert_eq!(of(8, 1, 4, 4), (3, 3, 4, 4));
    }

    #[test]
    fn largest_nodes_count_first() {
        let slots = |sizes: &[u64]| sizes.iter().enumerate().map(|(n, size)| (n as u16, *size)).collect();
        assert_eq!(lost_nodes(&slots(&[1, 3, 1]), 3), 1);
        assert_eq!(lost_nodes(&slots(&[1, 3, 1]), 2), 0);
        assert_eq!(lost_nodes(&slots(&[1, 1, 1]), 2), 2);
    }

    #[tokio::test]
    async fn tokens_are_stored_as_hashes_and_bounded() {
        let control = Embedded::create(DeploymentId([7; 16]), MemoryMedium::one_drive(), Vec::new());
        let control = control.await.unwrap().control();
        let token = |expires_ms| Token::new(token_hash("secret"), expires_ms);
        for n in 0..MAX_TOKENS {
            store(&control, &format!("{n:04}"), &token(1000 + n as i64), 0).await.unwrap();
        }
        assert_eq!(store(&control, "more", &token(1000), 0).await.unwrap_err().status, StatusCode::CONFLICT);
        assert!(control.get("tokens/more").is_none());
        // All have expired: some make room for each new one.
        store(&control, "more", &token(10_000), 5000).await.unwrap();
        assert_eq!(control.list(TOKENS).len(), MAX_TOKENS - REMOVED + 1);
        store(&control, "else", &token(10_000), 5000).await.unwrap();
        assert_eq!(control.list(TOKENS).len(), 2);
        let stored = control.get("tokens/more").unwrap().bytes;
        let stored = String::from_utf8(stored.to_vec()).unwrap();
        assert!(stored.contains(&token_hash("secret")) && !stored.contains("\"secret\""), "{stored}");
    }

    #[tokio::test]
    async fn the_feature_level_is_raised_once_all_nodes_can_do_it() {
        let record = |n: u8, newest| {
            let drive = NodeDrive { id: DriveId([n; 16]), path: "/d".into(), capacity: 1, enclosure: None };
            let node =
                NodeRecord::new(format!("n{n}:1"), String::new(), "host".into(), "1".into(), vec![drive]);
            node.with_levels(Levels { oldest: 1, newest }).imported(n.into())
        };
        let cluster = Registered::imported(CodeSpec { k: 1, m: 1 }, BTreeMap::new()).at_level(1);
        let entries = vec![cluster.entry(), record(1, 2), record(2, 1)];
        let control = Embedded::create(DeploymentId([7; 16]), MemoryMedium::one_drive(), entries);
        let control = control.await.unwrap().control();
        let answer = upgrade(&control, false).await.unwrap();
        assert_eq!((answer.feature_level, answer.target, answer.raised), (1, 2, false));
        assert!(answer.reasons[0].starts_with("node 2 (host)"), "{answer:?}");
        let (key, value) = record(2, 2);
        let mut update = Update::new();
        update.set(&control.read(&key), value);
        control.update(update).await.unwrap();
        let level = || Registry::read(&control).unwrap().unwrap().cluster.level;
        let ready = shape::Upgrade { feature_level: 1, target: 2, raised: false, reasons: Vec::new() };
        assert_eq!((upgrade(&control, true).await.unwrap(), level()), (ready, 1));
        let done = shape::Upgrade { feature_level: 2, target: 2, raised: true, reasons: Vec::new() };
        assert_eq!((upgrade(&control, false).await.unwrap(), level()), (done, 2));
        assert!(!upgrade(&control, false).await.unwrap().raised);
    }
}
