//! Calls about the server: its state, stop and restart.
//!
//! Must not depend on: drives, except through our own API.

use http::StatusCode;
use serde_json::{Value, json};

use super::answers::{self, CallResult, invalid, unsupported, uuid};
use super::call_context::{CallContext, Minio, string};
use crate::admin_request::Refusal;
use crate::table::Route;

pub async fn info(minio: &Minio, c: &CallContext) -> CallResult {
    let ours = minio.call_api(c, Route::Info, "", Value::Null).await?;
    let none = Vec::new();
    let drives = ours["drives"].as_array().unwrap_or(&none);
    let ok = |d: &&Value| matches!(string(d, "state"), "online" | "joining");
    let online = drives.iter().filter(ok).count();
    // A caller without permission to list targets sees none.
    let events = minio.call_api(c, Route::EventList, "", Value::Null).await.unwrap_or_default();
    let targets = events["targets"].as_array().unwrap_or(&none);
    let arns: Vec<&Value> = targets.iter().map(|t| &t["arn"]).collect();
    let deployment = uuid(string(&ours, "deployment"));
    // MinIO's clients compute the number of data drives as `totalDrivesPerSet` minus the parity.
    answers::document(&json!({
        "mode": "online",
        "deploymentID": deployment,
        "buckets": { "count": ours["buckets"] },
        "objects": { "count": ours["usage"]["objects"] },
        "versions": { "count": ours["usage"]["versions"] },
        "deletemarkers": { "count": ours["usage"]["delete_markers"] },
        "usage": { "size": ours["usage"]["bytes"] },
        "sqsARN": arns,
        "services": { "kms": {}, "ldap": {}, "notifications": notifications(targets) },
        "backend": { "backendType": "Erasure", "onlineDisks": online, "offlineDisks": drives.len() - online,
            "standardSCParity": ours["parity_shards"], "rrSCParity": ours["parity_shards"],
            "totalSets": [1], "totalDrivesPerSet": [drives.len()] },
        "servers": servers(&ours, &c.host),
    }))
}

/// The nodes, each with its drives. `host`: what the client calls the server that it asks.
fn servers(ours: &Value, host: &str) -> Vec<Value> {
    let none = Vec::new();
    let drives = ours["drives"].as_array().unwrap_or(&none);
    let listed = |of: &Value| -> Vec<Value> {
        let of_node = drives.iter().enumerate().filter(|(_, d)| d["node"] == *of);
        of_node.map(|(i, d)| drive(i, d, ours)).collect()
    };
    let version = |of: &Value| format!("ashlar {}", string(of, "version"));
    let Some(nodes) = ours["nodes"].as_array() else {
        return vec![json!({ "state": "online", "endpoint": host, "uptime": ours["uptime_s"],
            "version": version(ours), "commitID": "", "poolNumber": 1, "network": { (host): "online" },
            "drives": listed(&Value::Null) })];
    };
    let network: serde_json::Map<_, _> =
        nodes.iter().map(|n| (address(n).to_owned(), state(n).into())).collect();
    let server = |n: &Value| {
        json!({ "state": state(n), "endpoint": address(n), "uptime": n["uptime_s"].as_u64().unwrap_or(0),
            "version": version(n), "commitID": "", "poolNumber": 1, "network": network,
            "drives": listed(&n["node"]) })
    };
    nodes.iter().map(server).collect()
}

/// Host and port at which a node serves S3.
fn address(node: &Value) -> &str {
    let url = string(node, "endpoint");
    url.split_once("://").map_or(url, |(_, address)| address)
}

/// Whether a node answers, in MinIO's words.
fn state(node: &Value) -> &'static str {
    if node["problem"].is_null() { "online" } else { "offline" }
}

/// Addresses of the nodes that do not answer.
pub fn offline_nodes(ours: &Value) -> Vec<&str> {
    let nodes = ours["nodes"].as_array().into_iter().flatten();
    nodes.filter(|n| state(n) == "offline").map(address).collect()
}

/// Event targets by type, as MinIO lists them: `[{"webhook": [{"1": {"status": "online"}}]}]`.
fn notifications(targets: &[Value]) -> Vec<Value> {
    let mut kinds: std::collections::BTreeMap<&str, Vec<Value>> = Default::default();
    for t in targets {
        let (id, kind) = string(t, "id").rsplit_once(':').unwrap_or_default();
        let status = if t["online"] == true { "online" } else { "offline" };
        kinds.entry(kind).or_default().push(json!({ (id): { "status": status } }));
    }
    kinds.into_iter().map(|(kind, all)| json!({ (kind): all })).collect()
}

/// The drives, and the erasure code.
pub async fn storage(minio: &Minio, c: &CallContext) -> CallResult {
    let ours = minio.call_api(c, Route::Drives, "", Value::Null).await?;
    let none = Vec::new();
    let drives = ours["drives"].as_array().unwrap_or(&none);
    let listed: Vec<Value> = drives.iter().enumerate().map(|(i, d)| drive(i, d, &ours)).collect();
    let ok = drives.iter().filter(|d| matches!(string(d, "state"), "online" | "joining")).count();
    let code = minio.admin.node().map.load().code();
    answers::document(&json!({ "Disks": listed, "Backend": { "Type": 2, "OnlineDisks": { (&c.host): ok },
        "OfflineDisks": { (&c.host): drives.len() - ok }, "StandardSCData": [code.k], "StandardSCParity": code.m,
        "RRSCData": [code.k], "RRSCParity": code.m, "TotalSets": [1], "DrivesPerSet": [drives.len()] } }))
}

/// A drive. `ours`: the document that it is from, which may have the nodes.
pub fn drive(index: usize, d: &Value, ours: &Value) -> Value {
    let state = match string(d, "state") {
        "online" | "joining" => "ok",
        // What cannot be asked is away.
        "offline" | "held" | "unknown" => "offline",
        other => other,
    };
    let path = string(d, "path");
    let node = ours["nodes"].as_array().and_then(|all| all.iter().find(|n| n["node"] == d["node"]));
    let endpoint = node.map_or_else(|| path.to_owned(), |n| format!("{}{path}", string(n, "endpoint")));
    let local = node.is_none_or(|n| n["this"] == true);
    json!({ "endpoint": endpoint, "path": path, "state": state, "uuid": uuid(string(d, "id")),
        "healing": string(d, "state") == "joining", "totalspace": d["capacity"].as_u64().unwrap_or(0),
        "usedspace": d["used"].as_u64().unwrap_or(0), "availspace": d["free"].as_u64().unwrap_or(0),
        "metrics": {}, "local": local, "pool_index": 0, "set_index": 0, "disk_index": index })
}

pub async fn service(minio: &Minio, c: &CallContext) -> CallResult {
    let action = c.query("action");
    let route = match action {
        // MinIO ends all nodes at once, and nothing is served meanwhile.
        "stop" | "restart" if minio.admin.node().member.is_some() => {
            let why = format!(
                "\"{action}\" of a whole cluster at once is not implemented by this server: `ashlar admin service restart` \
                 restarts its nodes one after another; with --node, it and `ashlar admin service stop` end one"
            );
            return Err(Refusal { status: StatusCode::NOT_IMPLEMENTED, code: "NotImplemented", why });
        }
        "stop" => Route::ServiceStop,
        "restart" => Route::ServiceRestart,
        "freeze" | "unfreeze" => return Err(unsupported(&format!("The service action \"{action}\""))),
        other => {
            return Err(invalid(format!("\"{other}\" is no service action; there are stop and restart")));
        }
    };
    let dry = c.query("dry-run") == "true";
    minio.call_api(c, route, "", json!({ "dry_run": dry })).await?;
    answers::document(&json!({ "action": action, "dryRun": dry, "results": [{ "host": c.host }] }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_node_is_a_server_with_its_drives_and_one_that_does_not_answer_is_offline() {
        let node = |number: u16, problem: Value, uptime: Value| {
            json!({ "node": number, "endpoint": format!("http://10.0.0.{number}:9000"), "version": "0.1.0",
                "this": number == 1, "uptime_s": uptime, "problem": problem })
        };
        let row = |node: u16, state: &str| json!({ "node": node, "path": "/d", "id": "", "state": state });
        let ours = json!({ "nodes": [node(1, Value::Null, json!(9)), node(2, json!("node 2 is not running"), Value::Null)],
            "drives": [row(1, "online"), row(1, "held"), row(2, "unknown")] });
        let servers = servers(&ours, "balancer:9000");
        let shown: Vec<_> = servers
            .iter()
            .map(|s| (string(s, "endpoint"), string(s, "state"), s["drives"].as_array().unwrap().len()))
            .collect();
        assert_eq!(shown, [("10.0.0.1:9000", "online", 2), ("10.0.0.2:9000", "offline", 1)]);
        assert_eq!((&servers[0]["uptime"], &servers[1]["uptime"]), (&json!(9), &json!(0)));
        assert_eq!(servers[0]["network"], json!({ "10.0.0.1:9000": "online", "10.0.0.2:9000": "offline" }));
        let of = |server: usize, drive: usize, field: &str| servers[server]["drives"][drive][field].clone();
        assert_eq!(
            (of(0, 0, "state"), of(0, 1, "state"), of(1, 0, "state")),
            ("ok".into(), "offline".into(), "offline".into())
        );
        assert_eq!((of(0, 0, "local"), of(1, 0, "local")), (json!(true), json!(false)));
        assert_eq!(of(1, 0, "endpoint"), "http://10.0.0.2:9000/d");
        assert_eq!(of(1, 0, "disk_index"), 2);
        assert_eq!(offline_nodes(&ours), ["10.0.0.2:9000"]);
    }

    #[test]
    fn a_machine_that_is_alone_is_one_server_named_as_the_client_names_it() {
        let ours = json!({ "version": "0.1.0", "uptime_s": 7, "drives": [{ "path": "/d", "id": "", "state": "online" }] });
        let servers = servers(&ours, "here:9000");
        assert_eq!(servers.len(), 1);
        assert_eq!((&servers[0]["endpoint"], &servers[0]["uptime"]), (&json!("here:9000"), &json!(7)));
        let drive = &servers[0]["drives"][0];
        assert_eq!((&drive["endpoint"], &drive["local"]), (&json!("/d"), &json!(true)));
        assert!(offline_nodes(&ours).is_empty());
    }
}
