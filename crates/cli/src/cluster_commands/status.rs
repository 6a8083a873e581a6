//! `ashlar cluster status`: nodes, control store, and what may fail.
//!
//! Invariant: with `--json` the server's own answer is printed, so that no field is lost.

use ashlar_arguments::size;
use ashlar_client::Method;
use serde::Deserialize;

use super::alias::alias_or_only;
use crate::admin_request::{ask, understand};
use crate::context::Context;
use crate::failure::{Failure, Kind, Outcome};
use crate::output::{Output, Tone, empty_table, span_text};

/// The cluster as a node answers it.
#[derive(Deserialize, Default)]
#[serde(default)]
pub struct Cluster {
    name: Option<String>,
    state: String,
    nodes: Vec<Node>,
    control_store: ControlStore,
    /// `K+M`.
    pub code: String,
    groups: Groups,
    tolerates: Tolerates,
    feature_level: Option<u32>,
    next_feature_level: Option<u32>,
    authority: Option<Authority>,
}

/// The authority of the nodes' certificates.
#[derive(Deserialize)]
struct Authority {
    phase: Option<String>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Node {
    number: u16,
    host: Option<String>,
    endpoint: Option<String>,
    version: String,
    running: bool,
    drives: Drives,
    this: bool,
    uptime_s: Option<u64>,
    problem: Option<String>,
    away: Option<Away>,
    feature_levels: Option<Levels>,
}

/// The feature levels of its release.
#[derive(Deserialize, PartialEq, Clone, Copy)]
struct Levels {
    oldest: u32,
    newest: u32,
}

/// A node that is neither announced nor reached.
#[derive(Deserialize, Default)]
#[serde(default)]
struct Away {
    since: String,
    rebuild_after_s: Option<u64>,
    groups: u64,
    stuck: Vec<Stuck>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Stuck {
    groups: u64,
    why: String,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Drives {
    in_map: u64,
    serving_here: Option<u64>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct ControlStore {
    kind: String,
    members: u64,
    current: u64,
    writable: bool,
    revision: u64,
    trouble: Option<String>,
    etcd: Option<Vec<EtcdMember>>,
}

/// A member of etcd that a node runs.
#[derive(Deserialize, Default)]
#[serde(default)]
struct EtcdMember {
    address: String,
    healthy: bool,
    leader: bool,
    learner: bool,
    version: Option<String>,
    size: Option<u64>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Groups {
    total: u64,
    writable: u64,
    readable: u64,
    complete: u64,
    left: u64,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Tolerates {
    drives: u64,
    nodes: u64,
    read_drives: u64,
    read_nodes: u64,
}

/// Prints the state of a cluster.
pub async fn status(alias: Option<String>, context: &Context) -> Outcome {
    let alias = alias_or_only(alias, &context.aliases)?;
    let answer = ask(context, &alias, Method::GET, "cluster", None).await?;
    let cluster: Cluster = understand(&answer)?;
    context.output.result(|| answer, || text(&context.output, &cluster));
    let groups = &cluster.groups;
    match (groups.readable < groups.total, groups.writable < groups.total) {
        (true, _) => Err(Failure::new(Kind::Unavailable, "not all data can be read now")),
        (_, true) => Err(Failure::new(Kind::Unavailable, "not all data can be written now")),
        _ => Ok(()),
    }
}

fn text(output: &Output, cluster: &Cluster) -> String {
    let mut table = empty_table();
    table.set_header(["node", "state", "host", "endpoint", "drives", "version", "up"]);
    for node in &cluster.nodes {
        let state = match (node.running, &node.problem) {
            (true, None) => output.paint(Tone::Good, "running"),
            (true, Some(_)) => output.paint(Tone::Bad, "does not answer"),
            (false, _) => output.paint(Tone::Bad, "away"),
        };
        let drives = match node.drives.serving_here {
            Some(n) if n != node.drives.in_map => format!("{n} of {} in service", node.drives.in_map),
            _ => node.drives.in_map.to_string(),
        };
        let shown = |text: &Option<String>| output.printable(text.as_deref().unwrap_or("-"));
        table.add_row([
            format!("{}{}", node.number, if node.this { " (answers)" } else { "" }),
            state,
            shown(&node.host),
            shown(&node.endpoint),
            drives,
            node.version.clone(),
            node.uptime_s.map(span_text).unwrap_or_default(),
        ]);
    }
    let head = match &cluster.name {
        Some(name) => format!("Cluster {}, {}, code {}", output.printable(name), cluster.state, cluster.code),
        None => format!("One server without a cluster, code {}", cluster.code),
    };
    let mut lines = vec![head, table.to_string()];
    lines.extend(cluster.nodes.iter().filter_map(|node| away(output, node)));
    lines.extend([store(output, &cluster.control_store), cluster.what_may_fail()]);
    lines.extend(cluster.levels());
    lines.extend(cluster.authority.as_ref().and_then(authority));
    lines.extend(moving(&cluster.groups));
    lines.join("\n")
}

/// What becomes of the slots of a node that is away.
fn away(output: &Output, node: &Node) -> Option<String> {
    let away = node.away.as_ref()?;
    let after = match away.rebuild_after_s {
        _ if away.groups == 0 => format!(
            "no placement group has a slot on it. If it is gone for good: `ashlar cluster remove {}`",
            node.number
        ),
        None => format!("{} placement groups have slots on it, which stay there", away.groups),
        Some(after) => {
            format!(
                "{} placement groups have slots on it, which move after it has been away for {after} s",
                away.groups
            )
        }
    };
    let mut out =
        format!("Node {} has been away since {}: {after}", node.number, output.printable(&away.since));
    for stuck in &away.stuck {
        out.push_str(&format!("\n  {} cannot move: {}", stuck.groups, output.printable(&stuck.why)));
    }
    Some(out)
}

/// How far the replacement of the authority is.
fn authority(authority: &Authority) -> Option<String> {
    let next = "`ashlar cluster authority rotate` goes on";
    Some(match authority.phase.as_deref()? {
        "introducing" => format!("Authority: a new one is trusted beside the old one; {next}"),
        "renewing" => format!("Authority: the new one signs, the old one is still trusted; {next}"),
        phase => format!("Authority: {phase}"),
    })
}

/// What moves, and what drives have to forget.
fn moving(groups: &Groups) -> Option<String> {
    let joining = groups.total.saturating_sub(groups.complete);
    let joins = (joining > 0).then(|| format!("{joining} are being completed on a drive that joins"));
    let left = (groups.left > 0)
        .then(|| format!("{} moved away from a drive that still holds some of their data", groups.left));
    let both: Vec<String> = joins.into_iter().chain(left).collect();
    (!both.is_empty()).then(|| format!("Of the placement groups, {}", both.join("; ")))
}

fn store(output: &Output, store: &ControlStore) -> String {
    let what = match store.kind.as_str() {
        "embedded" => "on the drives",
        kind => kind,
    };
    let writable = if store.writable { "" } else { ", read-only now" };
    let trouble = store.trouble.as_ref().map(|t| format!("\n  {}", output.printable(t))).unwrap_or_default();
    let members: String = store.etcd.iter().flatten().map(|m| format!("\n  {}", member(output, m))).collect();
    format!(
        "Control store: {what}, {} of {} members current, revision {}{writable}{trouble}{members}",
        store.current, store.members, store.revision
    )
}

/// A member of etcd that a node runs.
fn member(output: &Output, member: &EtcdMember) -> String {
    let state = match (member.healthy, &member.version) {
        (_, None) => output.paint(Tone::Bad, "does not answer"),
        (false, _) => output.paint(Tone::Bad, "has no leader"),
        (true, _) if member.learner => "does not vote yet".to_owned(),
        (true, _) if member.leader => output.paint(Tone::Good, "leads"),
        (true, _) => output.paint(Tone::Good, "follows"),
    };
    let version =
        member.version.as_ref().map(|v| format!(", etcd {}", output.printable(v))).unwrap_or_default();
    let size = member.size.map(|bytes| format!(", {}", size::show(bytes))).unwrap_or_default();
    format!("{} {state}{version}{size}", output.printable(&member.address))
}

impl Cluster {
    /// The feature level in force, and what comes next, for people.
    fn levels(&self) -> Option<String> {
        let level = self.feature_level?;
        let Some(next) = self.next_feature_level.filter(|next| *next > level) else {
            return Some(format!("Feature level: {level}"));
        };
        let can = |node: &&Node| node.feature_levels.is_some_and(|l| (l.oldest..=l.newest).contains(&next));
        let cannot: Vec<String> =
            self.nodes.iter().filter(|node| !can(node)).map(|node| node.number.to_string()).collect();
        Some(match cannot.is_empty() {
            true => format!("Feature level: {level}; all nodes can do {next}: `ashlar cluster upgrade`"),
            false => {
                format!("Feature level: {level}; not all nodes can do {next} yet: {}", cannot.join(", "))
            }
        })
    }

    /// The state of the placement groups and what may fail, for people.
    pub fn what_may_fail(&self) -> String {
        let (groups, may) = (&self.groups, &self.tolerates);
        let all = |n: u64| if n == groups.total { "all".to_owned() } else { format!("only {n}") };
        let alone = self.name.is_none();
        let any = |n: u64, what: &str| match n {
            0 => format!("no {what}"),
            1 => format!("any {what}"),
            n => format!("any {n} {what}s"),
        };
        let lost = |drives: u64, nodes: u64| {
            let drives = format!("{} of a placement group", any(drives, "drive"));
            if alone { drives } else { format!("{drives}, or {}", any(nodes, "node")) }
        };
        let mut out = format!(
            "Placement groups: {}; {} can be read, {} written now\nMay be missing for writes and reads: {}",
            groups.total,
            all(groups.readable),
            all(groups.writable),
            lost(may.drives, may.nodes)
        );
        if (may.read_drives, may.read_nodes) != (may.drives, may.nodes) {
            let more = lost(may.read_drives, may.read_nodes);
            out.push_str(&format!("\nMay be missing for reads: {more}"));
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::globals::Globals;
    use serde_json::json;

    #[test]
    fn text_says_who_is_away_and_what_may_fail() {
        let node = |number: u16, running: bool| {
            json!({ "number": number, "host": "h", "endpoint": "http://h:9000", "version": "0.1.0", "running": running,
                "this": number == 1, "drives": { "in_map": 4, "serving_here": (number == 1).then_some(3) } })
        };
        let answer = json!({ "name": "prod", "state": "formed", "code": "4+4",
            "nodes": [node(1, true), node(2, false)],
            "control_store": { "kind": "etcd", "members": 3, "current": 2, "writable": true, "revision": 17,
                "trouble": "it is away", "etcd": [
                    { "address": "a", "healthy": true, "leader": true, "learner": false, "version": "3.5.9", "size": 20480 },
                    { "address": "b", "healthy": false, "leader": false, "learner": false, "version": null, "size": null }] },
            "groups": { "total": 8, "writable": 0, "readable": 8, "complete": 8, "left": 0 },
            "tolerates": { "drives": 3, "nodes": 0, "read_drives": 4, "read_nodes": 1 } });
        let cluster: Cluster = understand(&answer).unwrap();
        let text = text(&Output::new(&Globals::default()), &cluster);
        for part in [
            "Cluster prod, formed, code 4+4",
            "1 (answers)",
            "away",
            "3 of 4 in service",
            "etcd, 2 of 3 members current, revision 17\n  it is away\n  a leads, etcd 3.5.9, 20.0 KiB\n  b does not answer\n",
            "8; all can be read, only 0 written now",
            "May be missing for writes and reads: any 3 drives of a placement group, or no node\n",
            "May be missing for reads: any 4 drives of a placement group, or any node",
        ] {
            assert!(text.contains(part), "{part}\n{text}");
        }
        assert!(!text.contains("Feature level"), "{text}");
        assert!(!text.contains("moved away") && !text.contains("has been away since"), "{text}");
        let alone = Cluster { name: None, ..cluster };
        assert!(!alone.what_may_fail().contains("node"));
    }
    #[test]
    fn text_says_which_feature_level_is_in_force_and_which_could_be() {
        let of = |next: u32, newest: u32| {
            let node = |number: u16, newest: u32| json!({ "number": number, "feature_levels": { "oldest": 1, "newest": newest } });
            let answer = json!({ "name": "prod", "nodes": [node(1, 2), node(2, newest)], "feature_level": 1,
                "next_feature_level": next });
            understand::<Cluster>(&answer).unwrap().levels().unwrap()
        };
        assert_eq!(of(2, 2), "Feature level: 1; all nodes can do 2: `ashlar cluster upgrade`");
        assert_eq!(of(2, 1), "Feature level: 1; not all nodes can do 2 yet: 2");
        assert_eq!(of(1, 1), "Feature level: 1");
    }

    #[test]
    fn text_says_what_moves_away_from_a_node() {
        let answer = json!({ "name": "prod", "state": "formed", "code": "4+2",
            "nodes": [{ "number": 2, "running": false, "away": { "since": "2026-01-02T03:04:05Z", "seconds": 70,
                "rebuild_after_s": 60, "groups": 5, "stuck": [{ "groups": 2, "why": "no drive can take the slot" }] } }],
            "groups": { "total": 8, "writable": 8, "readable": 8, "complete": 6, "left": 3 } });
        let cluster: Cluster = understand(&answer).unwrap();
        let text = text(&Output::new(&Globals::default()), &cluster);
        for part in [
            "Node 2 has been away since 2026-01-02T03:04:05Z: 5 placement groups have slots on it, which move after it has \
             been away for 60 s\n  2 cannot move: no drive can take the slot\n",
            "2 are being completed on a drive that joins; 3 moved away from a drive",
        ] {
            assert!(text.contains(part), "{part}\n{text}");
        }
    }
}
