//! Calls for monitoring: trace, log, healing, usage, real-time metrics.
//!
//! Must not depend on: the sources of the data, except our own API and `monitor`.

use std::time::Duration;

use ashlar_node::clock::{coarse, now_ms};
use ashlar_s3::StillPermitted;
use ashlar_s3::trace::Event;
use serde_json::{Value, json};

use super::answers::{self, CallResult, invalid, unsupported};
use super::call_context::{CallContext, Minio, string};
use super::info;
use super::lines::{MinioLines, MinioLogs};
use crate::admin_request::Refusal;
use crate::followed::{Followed, TraceFilter};
use crate::monitor;
use crate::table::Route;

/// Number of log lines by default.
const LINES: usize = 10;

/// Whether the caller may still have a stream, whenever that is asked.
fn still(minio: &Minio, c: &CallContext) -> StillPermitted {
    let actions = c.call.routes().first().map_or(&[][..], |route| route.actions());
    minio.admin.still(&c.req, actions)
}

/// Parses a duration in Go's format: `1h2m3.5s`, `100ms`, `0`.
fn duration(text: &str) -> Option<Duration> {
    let mut rest = text.trim();
    let mut all = 0.0;
    if rest == "0" {
        return Some(Duration::ZERO);
    }
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, tail) = rest.split_at(digits);
        let unit = tail.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(unit);
        let seconds = match unit {
            "h" => 3600.0,
            "m" => 60.0,
            "s" => 1.0,
            "ms" => 1e-3,
            "us" | "\u{b5}s" | "\u{3bc}s" => 1e-6,
            "ns" => 1e-9,
            _ => return None,
        };
        all += number.parse::<f64>().ok()? * seconds;
        rest = tail;
    }
    Duration::try_from_secs_f64(all).ok()
}

/// The trace of S3 calls. Other kinds of traces do not exist here.
pub async fn trace(minio: &Minio, c: &CallContext) -> CallResult {
    let slower = match c.query("threshold") {
        "" => Duration::ZERO,
        text => duration(text).ok_or_else(|| invalid(format!("\"{text}\" is no duration")))?,
    };
    let filter = TraceFilter { errors: c.query("err") == "true", slower, ..TraceFilter::default() };
    let still = still(minio, c);
    if c.query("s3") != "true" {
        return answers::stream(minio.admin.monitor().trace(Box::new(|_: &Event| None), None, still));
    }
    let lines = MinioLines::of(minio.admin.node(), &c.host);
    let what = Followed::Trace { filter: filter.clone(), minio: true };
    let others = minio.admin.follow_others(what, lines.clone().trace_report()).await;
    answers::stream(minio.admin.monitor().trace(lines.trace_formatter(filter), others, still))
}

/// The log, and lines to come.
pub async fn logs(minio: &Minio, c: &CallContext) -> CallResult {
    let last = match c.query("limit") {
        "" => LINES,
        // All lines.
        "0" => usize::MAX,
        text => text.parse().map_err(|_| invalid(format!("\"{text}\" is no number of lines")))?,
    };
    let kind = c.query("logType").to_ascii_uppercase();
    let lines = MinioLines::of(minio.admin.node(), &c.host);
    let what = Followed::MinioLogs { last, kind: kind.clone() };
    let others = minio.admin.follow_others(what, lines.clone().log_report()).await;
    let form = MinioLogs { lines, kind }.formatter();
    let still = still(minio, c);
    answers::stream(minio.admin.monitor().logs(last, true, form, others, still))
}

/// Held locks: always none, because no request holds a lock while it waits for a client.
pub async fn locks(minio: &Minio, c: &CallContext) -> CallResult {
    minio.call_api(c, Route::Top, "", Value::Null).await?;
    answers::document(&json!([]))
}

/// The usage of buckets.
pub async fn usage(minio: &Minio, c: &CallContext) -> CallResult {
    minio.call_api(c, Route::UsageList, "", Value::Null).await?;
    let mut all = monitor::minio_usage(&minio.admin.node().store);
    let capacity = minio.admin.refresh_usage().await;
    all["lastUpdate"] = json!(answers::time(now_ms()));
    all["capacity"] = json!(capacity.usable);
    all["freeCapacity"] = json!(capacity.usable_free);
    all["usedCapacity"] = json!(capacity.usable.saturating_sub(capacity.usable_free));
    answers::document(&all)
}

/// When a bucket was last counted.
pub async fn scan_status(minio: &Minio, c: &CallContext) -> CallResult {
    let bucket = c.names.first().map(String::as_str).unwrap_or_default();
    let ours = minio.call_api(c, Route::UsageGet, bucket, Value::Null).await?;
    let at = answers::time(ours["counted_ms"].as_i64().unwrap_or(0));
    answers::document(&json!([{ "pool": 0, "set": 0, "cycle": 1, "ongoing": ours["complete"] == false,
        "last_update": at, "last_started": at, "completed": [at] }]))
}

/// The drives and their rebuilds.
pub async fn heal_status(minio: &Minio, c: &CallContext) -> CallResult {
    let heal = minio.call_api(c, Route::HealStatus, "", Value::Null).await?;
    let ours = minio.call_api(c, Route::Info, "", Value::Null).await?;
    let none = Vec::new();
    let drives = ours["drives"].as_array().unwrap_or(&none);
    let started = answers::time(now_ms() - i64::try_from(coarse()).unwrap_or(0) * 1000);
    let (mut healing, mut disks) = (Vec::new(), Vec::new());
    for (i, d) in drives.iter().enumerate() {
        let mut disk = info::drive(i, d, &ours);
        if string(d, "state") == "joining" {
            healing.push(d["path"].clone());
            disk["heal_info"] = healed(i, d, &ours, &started);
        }
        disks.push(disk);
    }
    let running = heal["running"] == true;
    let state = if running || !healing.is_empty() { "Healing" } else { "Idle" };
    let parity = &ours["parity_shards"];
    answers::document(&json!({
        "offline_nodes": info::offline_nodes(&ours),
        "ScannedItemsCount": heal["looked"],
        "HealDisks": healing,
        "sets": [{ "id": string(&ours, "deployment"), "pool_index": 0, "set_index": 0, "heal_status": state,
            "heal_priority": "", "total_objects": ours["usage"]["versions"], "disks": disks }],
        "mrf": { (&c.host): { "bytes_healed": 0, "items_healed": heal["shards"], "total_items": heal["queued"],
            "total_bytes": 0, "started": started } },
        "scParity": { "STANDARD": parity, "REDUCED_REDUNDANCY": parity },
    }))
}

/// The progress of rebuilding a drive.
fn healed(index: usize, d: &Value, ours: &Value, started: &str) -> Value {
    let r = &d["rebuild"];
    let number = |name: &str| r[name].as_u64().unwrap_or(0);
    json!({ "id": answers::uuid(string(d, "id")), "pool_index": 0, "set_index": 0, "disk_index": index,
        "endpoint": d["path"], "path": d["path"], "started": started, "last_update": answers::time(now_ms()),
        "objects_total_count": number("registers"), "objects_total_size": ours["usage"]["bytes"],
        "items_healed": number("looked"), "items_failed": number("missing"), "bytes_done": number("bytes"),
        "bytes_failed": 0, "bytes_skipped": 0, "items_skipped": 0, "objects_healed": number("looked"),
        "objects_failed": number("missing"), "current_bucket": "", "current_object": "", "queued_buckets": [],
        "healed_buckets": [], "finished": false })
}

/// Starts a scrub, or reports its progress. Only one scrub runs at a time, and it covers all buckets.
pub async fn heal(minio: &Minio, c: &CallContext) -> CallResult {
    let bucket = c.names.first().map(|n| n.split('/').next().unwrap_or_default()).unwrap_or_default();
    if !bucket.is_empty() {
        minio.admin.node().store.bucket(bucket).map_err(|e| ashlar_s3::ops::fault(e, bucket, ""))?;
    }
    if c.query("forceStop") == "true" {
        return Err(unsupported("Stopping a pass over everything"));
    }
    let token = c.query("clientToken");
    if !token.is_empty() {
        let status = minio.call_api(c, Route::HealStatus, "", Value::Null).await?;
        let summary = if status["running"] == true { "running" } else { "finished" };
        return answers::document(&json!({ "summary": summary, "detail": "", "startTime": started_of(token),
            "settings": { "recursive": true, "dryRun": false, "remove": false, "scanMode": 1 }, "items": [] }));
    }
    let options: Value = if c.req.body.is_empty() { Value::Null } else { c.document()? };
    if options["dryRun"] == true {
        return Err(unsupported("A dry run of healing"));
    }
    let order = json!({ "deep": options["scanMode"] == 2 });
    match minio.call_api(c, Route::HealStart, "", order).await {
        // A scrub is running: it covers everything, and the client can wait for it.
        Ok(_) | Err(Refusal { code: "Conflict", .. }) => {}
        Err(no) => return Err(no),
    }
    let token = now_ms().to_string();
    answers::document(&json!({ "clientToken": token, "clientAddress": c.req.ip.to_string(),
        "startTime": started_of(&token) }))
}

/// The token of a scrub encodes the time when it was requested.
fn started_of(token: &str) -> String {
    answers::time(token.parse().unwrap_or(0))
}

/// Current metrics of scanner, drives, memory and processor, repeated as often as requested.
pub fn metrics(minio: &Minio, c: &CallContext) -> CallResult {
    let types: u64 = match c.query("types") {
        "" => 0,
        text => text.parse().map_err(|_| invalid(format!("\"{text}\" is no set of types")))?,
    };
    let times: u64 = c.query("n").parse().unwrap_or(0);
    let interval = match c.query("interval") {
        "" => Duration::from_secs(1),
        text => duration(text).ok_or_else(|| invalid(format!("\"{text}\" is no duration")))?,
    };
    let interval = interval.clamp(Duration::from_secs(1), Duration::from_secs(3600));
    let (node, host) = (minio.admin.node().clone(), c.host.clone());
    let make = move |last: bool| {
        let all = |bit: u64| types == 0 || types & bit != 0;
        let at = answers::time(now_ms());
        let mut aggregated = json!({});
        if all(1) {
            let [keys, expired, passes] = node.lifecycle.done();
            let counting = node.store.usages().iter().filter(|(_, c)| !c.complete).count();
            aggregated["scanner"] = json!({ "collected": at, "ongoing_buckets": counting,
                "life_time_ops": { "ScanObject": keys as u64, "ScanCycle": passes as u64 },
                "ilm_ops": { "DeleteAction": expired as u64 }, "last_minute": {} });
        }
        if all(2) {
            let drive_folders = node.folders.lock().clone();
            let away = drive_folders.iter().filter(|s| s.drive.is_none()).count();
            let stats = drive_folders.iter().filter_map(|s| s.drive.as_ref().map(ashlar_drive::Drive::stats));
            let (mut commits, mut micros, mut reads) = (0, 0, 0);
            for s in stats {
                (commits, micros, reads) = (commits + s.batches, micros + s.commit_us, reads + s.reads);
            }
            aggregated["disk"] = json!({ "collected": at, "n_disks": drive_folders.len(), "offline": away,
                "life_time_ops": { "Commit": commits, "Read": reads },
                "last_minute": { "operations": { "Commit": { "count": commits, "acc_time_ns": micros * 1000 } } } });
        }
        json!({ "hosts": [host], "aggregated": aggregated, "final": last })
    };
    let still = still(minio, c);
    answers::stream(minio.admin.monitor().repeat((times > 0).then_some(times), interval, make, still))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_parse_as_in_go() {
        for (text, ms) in
            [("0", 0), ("0s", 0), ("10ms", 10), ("1m0.5s", 60_500), ("1h2m3s", 3_723_000), ("1.5s", 1500)]
        {
            assert_eq!(duration(text), Some(Duration::from_millis(ms)), "{text}");
        }
        for bad in ["1", "s", "1x", "1.2.3s", "-1s"] {
            assert_eq!(duration(bad), None, "{bad}");
        }
    }
}
