//! Calls about the server: its state, stop and restart.
//!
//! Must not depend on: drives, except through our own API.

use serde_json::{Value, json};

use super::answers::{self, CallResult, invalid, unsupported};
use super::call_context::{CallContext, Minio, string};
use crate::table::Route;

pub async fn info(minio: &Minio, c: &CallContext) -> CallResult {
    let ours = minio.call_api(c, Route::Info, "", Value::Null).await?;
    let none = Vec::new();
    let drives = ours["drives"].as_array().unwrap_or(&none);
    let ok = |d: &&Value| matches!(string(d, "state"), "online" | "joining");
    let online = drives.iter().filter(ok).count();
    let listed: Vec<Value> = drives.iter().enumerate().map(|(i, d)| drive(i, d)).collect();
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
        "servers": [{ "state": "online", "endpoint": c.host, "uptime": ours["uptime_s"],
            "version": format!("ashlar {}", string(&ours, "version")), "commitID": "", "poolNumber": 1,
            "network": { (&c.host): "online" }, "drives": listed }],
    }))
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
    let listed: Vec<Value> = drives.iter().enumerate().map(|(i, d)| drive(i, d)).collect();
    let ok = drives.iter().filter(|d| matches!(string(d, "state"), "online" | "joining")).count();
    let code = minio.admin.node().map.load().code();
    answers::document(&json!({ "Disks": listed, "Backend": { "Type": 2, "OnlineDisks": { (&c.host): ok },
        "OfflineDisks": { (&c.host): drives.len() - ok }, "StandardSCData": [code.k], "StandardSCParity": code.m,
        "RRSCData": [code.k], "RRSCParity": code.m, "TotalSets": [1], "DrivesPerSet": [drives.len()] } }))
}

pub fn drive(index: usize, d: &Value) -> Value {
    let state = match string(d, "state") {
        "online" | "joining" => "ok",
        "offline" | "held" => "offline",
        other => other,
    };
    json!({ "endpoint": d["path"], "path": d["path"], "state": state, "uuid": uuid(string(d, "id")),
        "healing": string(d, "state") == "joining", "totalspace": d["capacity"].as_u64().unwrap_or(0),
        "usedspace": d["used"].as_u64().unwrap_or(0), "availspace": d["free"].as_u64().unwrap_or(0),
        "metrics": {}, "local": true, "pool_index": 0, "set_index": 0, "disk_index": index })
}

/// 32 hexadecimal digits formatted as a UUID.
pub fn uuid(hex: &str) -> String {
    match (hex.get(..8), hex.get(8..12), hex.get(12..16), hex.get(16..20), hex.get(20..)) {
        (Some(a), Some(b), Some(c), Some(d), Some(e)) => format!("{a}-{b}-{c}-{d}-{e}"),
        _ => hex.to_owned(),
    }
}

pub async fn service(minio: &Minio, c: &CallContext) -> CallResult {
    let action = c.query("action");
    let route = match action {
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
