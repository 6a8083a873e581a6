//! `ashlar info`, `ashlar heal`, `ashlar drive`: the state of an Ashlar server and its drives.
//!
//! Invariant: with `--json` the server's own answer is printed, so that no field is lost.

use ashlar_client::Method;
use clap::{Args, Subcommand};
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::HashSet;

use super::{
    admin_request::{ask, understand},
    context::Context,
    failure::{Failure, Kind, Outcome, While},
    heal_limits,
    output::{Output, Tone, empty_table, size_text, span_text},
    progress::Progress,
};

/// Which server to show.
#[derive(Args, Debug)]
pub struct InfoOptions {
    /// The server's alias
    alias: String,
    /// Print the bearer token that metrics are read with, and nothing else
    #[arg(long)]
    metrics_token: bool,
}

/// Actions on repair.
#[derive(Subcommand, Debug)]
pub enum HealCommand {
    /// Show what is being repaired and how long it will take
    Status {
        /// The server's alias
        alias: String,
        /// Wait until nothing is left to repair
        #[arg(long)]
        watch: bool,
    },
    /// Compare everything on all drives and repair what differs
    Start {
        /// The server's alias
        alias: String,
        /// Also read and verify all data, instead of only checking that it exists
        #[arg(long)]
        deep: bool,
    },
    /// Show or change how fast all nodes heal, rebuild and scrub at most
    Limit(heal_limits::LimitOptions),
}

/// Actions on drives.
#[derive(Subcommand, Debug)]
pub enum DriveCommand {
    /// Show all drives
    #[command(visible_alias = "ls")]
    List {
        /// The server's alias
        alias: String,
    },
    /// Take a drive out of service
    Offline(DriveOptions),
    /// Put a drive back into service
    Online(DriveOptions),
    /// Replace a drive by the blank folder at its path; the new drive joins and is rebuilt
    Replace(DriveOptions),
    /// Recover when too many drives are distrusted: for each key, take the newest record that any drive still
    /// has, give the drives their votes back, and list uncertain keys. See docs/operating.md first
    Recover(super::recover::RecoverOptions),
    /// Read and verify everything on all drives and repair what is damaged
    Scrub {
        /// The server's alias
        alias: String,
    },
}

/// Which drive to act on.
#[derive(Args, Debug)]
pub struct DriveOptions {
    /// The server's alias
    alias: String,
    /// The drive: its path, its id, or the beginning of its id
    drive: String,
    /// The node of a cluster that has it; needed if several have a drive of that path
    #[arg(long, value_name = "N")]
    node: Option<u16>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Info {
    version: String,
    uptime_s: u64,
    code: String,
    reads_tolerate: u32,
    writes_tolerate: u32,
    groups: Vec<Group>,
    drives: Vec<Drive>,
    heal: Heal,
    buckets: u64,
    usage: Usage,
    capacity: Capacity,
    memory: Memory,
    /// Empty: one machine.
    nodes: Vec<Node>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Node {
    node: u16,
    endpoint: String,
    version: String,
    uptime_s: Option<u64>,
    problem: Option<String>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Usage {
    objects: u64,
    versions: u64,
    delete_markers: u64,
    bytes: u64,
    complete: bool,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Group {
    readable: bool,
    writable: bool,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Drive {
    node: Option<u16>,
    id: String,
    path: String,
    state: String,
    problem: Option<String>,
    capacity: u64,
    used: u64,
    read_errors: u64,
    commit_ms: f64,
    rebuild: Option<Rebuild>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Rebuild {
    drive: String,
    phase: String,
    shards: u64,
    bytes: u64,
    /// Live bytes on the drive, and how many it will have.
    done_bytes: u64,
    total_bytes: u64,
    eta_s: Option<u64>,
    why: Option<String>,
    began_ms: u64,
    ended_ms: Option<u64>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Scrub {
    began_ms: u64,
    took_ms: u64,
    damaged: u64,
    healed_shards: u64,
    missing: u64,
    lost: u64,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Damage {
    at_ms: u64,
    path: String,
    bucket: String,
    key: String,
    what: String,
    repaired: bool,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Heal {
    queued: u64,
    records: u64,
    shards: u64,
    lost: u64,
    running: bool,
    rebuilds: Vec<Rebuild>,
    rebuilt: Vec<Rebuild>,
    last_full_scrub: Option<Scrub>,
    damages: Vec<Damage>,
    limits: heal_limits::Limits,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Capacity {
    usable: u64,
    usable_free: u64,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Memory {
    buffers: u64,
    ceiling: u64,
}

/// Shows the state of a server.
pub async fn info(options: &InfoOptions, context: &Context) -> Outcome {
    if options.metrics_token {
        let answer = ask(context, &options.alias, Method::GET, "metrics-token", None).await?;
        let token = answer["token"].as_str().unwrap_or_default().to_owned();
        context.output.result(|| answer, || token);
        return Ok(());
    }
    let answer = ask(context, &options.alias, Method::GET, "info", None).await?;
    let info: Info = understand(&answer)?;
    context.output.result(|| answer, || info_text(&context.output, &options.alias, &info));
    Ok(())
}

fn info_text(output: &Output, alias: &str, info: &Info) -> String {
    let groups = info.groups.len();
    let state = |able: &dyn Fn(&Group) -> bool| {
        let n = info.groups.iter().filter(|g| able(g)).count();
        output.paint(if n == groups { Tone::Good } else { Tone::Bad }, format!("{n} of {groups}"))
    };
    let mut lines = vec![
        format!(
            "{}  Ashlar {}, up {}",
            output.paint(Tone::Folder, alias),
            info.version,
            span_text(info.uptime_s)
        ),
        format!(
            "Code     {}: of each placement group, reads survive any {} missing drives, writes any {}",
            info.code, info.reads_tolerate, info.writes_tolerate
        ),
        format!("Groups   {} readable, {} writable", state(&|g| g.readable), state(&|g| g.writable)),
        format!(
            "Space    {} free of {}",
            size_text(info.capacity.usable_free),
            size_text(info.capacity.usable)
        ),
        format!(
            "Memory   {} of {} for buffers",
            size_text(info.memory.buffers),
            size_text(info.memory.ceiling)
        ),
        format!("Buckets  {}, {}", info.buckets, usage_text(&info.usage)),
        format!("Repair   {}", heal_text(output, &info.heal)),
    ];
    if !info.nodes.is_empty() {
        lines.push(nodes_text(output, &info.nodes));
    }
    lines.push(drives_text(output, &info.drives));
    lines.join("\n")
}

fn nodes_text(output: &Output, nodes: &[Node]) -> String {
    let mut table = empty_table();
    table.set_header(["Node", "State", "Endpoint", "Version", "Up", "Note"]);
    for node in nodes {
        let (tone, state) = match node.problem {
            None => (Tone::Good, "online"),
            Some(_) => (Tone::Bad, "offline"),
        };
        table.add_row([
            node.node.to_string(),
            output.paint(tone, state),
            output.printable(&node.endpoint),
            node.version.clone(),
            node.uptime_s.map(span_text).unwrap_or_default(),
            output.printable(node.problem.as_deref().unwrap_or_default()),
        ]);
    }
    table.to_string()
}

fn usage_text(usage: &Usage) -> String {
    let counting = if usage.complete { "" } else { " so far; they are being counted" };
    format!(
        "{} objects, {} versions, {} delete markers, {}{counting}",
        usage.objects,
        usage.versions,
        usage.delete_markers,
        size_text(usage.bytes)
    )
}

fn heal_text(output: &Output, heal: &Heal) -> String {
    let waiting = match (heal.queued, heal.running) {
        (0, false) => "nothing waits".to_owned(),
        (0, true) => "a scrub is running".to_owned(),
        (n, _) => format!("{n} wait"),
    };
    let lost = match heal.lost {
        0 => String::new(),
        n => output.paint(Tone::Bad, format!(", {n} LOST")),
    };
    format!("{waiting}, {} records and {} shards repaired{lost}", heal.records, heal.shards)
}

fn rebuild_text(rebuild: &Rebuild) -> String {
    let mut text = rebuild.phase.clone();
    let done = rebuild.done_bytes.min(rebuild.total_bytes);
    if let Some(percent) = done.saturating_mul(100).checked_div(rebuild.total_bytes) {
        let (done, total) = (size_text(done), size_text(rebuild.total_bytes));
        text.push_str(&format!(" {percent} %, {done} of {total}"));
    }
    if let Some(eta) = rebuild.eta_s {
        text.push_str(&format!(", ETA {}", span_text(eta)));
    }
    if let Some(why) = &rebuild.why {
        text.push_str(&format!(" ({why})"));
    }
    text
}

/// A completed rebuild, as text.
fn rebuilt_text(rebuild: &Rebuild) -> String {
    let ended = rebuild.ended_ms.unwrap_or(rebuild.began_ms);
    format!(
        "drive {}: rebuilt at {} in {}, {} shards of {} made",
        short(&rebuild.drive),
        moment(ended),
        span_text(ended.saturating_sub(rebuild.began_ms).div_ceil(1000)),
        rebuild.shards,
        size_text(rebuild.bytes)
    )
}

/// A time in milliseconds since 1970, RFC 3339.
pub fn moment(ms: u64) -> String {
    let text = i64::try_from(ms / 1000)
        .ok()
        .and_then(|s| time::OffsetDateTime::from_unix_timestamp(s).ok())
        .and_then(|t| t.format(&time::format_description::well_known::Rfc3339).ok());
    text.unwrap_or_else(|| format!("{ms} ms"))
}

/// The lines of `heal status` after the first.
fn heal_lines(output: &Output, heal: &Heal) -> Vec<String> {
    let under_way = heal.rebuilds.iter().filter(|r| r.phase != "done");
    let mut lines: Vec<String> =
        under_way.map(|r| format!("drive {}: {}", short(&r.drive), rebuild_text(r))).collect();
    lines.extend(heal.rebuilt.iter().map(rebuilt_text));
    lines.push(match &heal.last_full_scrub {
        None => "Last scrub: not everything was verified yet".to_owned(),
        Some(s) => format!(
            "Last scrub: {}, took {}, {} damaged, {} shards repaired, {} missing, {} lost",
            moment(s.began_ms),
            span_text(s.took_ms.div_ceil(1000)),
            s.damaged,
            s.healed_shards,
            s.missing,
            s.lost
        ),
    });
    if heal.limits.is_known() {
        lines.push(heal.limits.text());
    }
    let all = heal.damages.len();
    let shown = heal.damages.iter().skip(all.saturating_sub(20));
    if all > 20 {
        lines.push(format!("Damage found since the start, the last 20 of {all}:"));
    } else if all > 0 {
        lines.push("Damage found since the start:".to_owned());
    }
    lines.extend(shown.map(|d| {
        let state = if d.repaired {
            output.paint(Tone::Good, "repaired")
        } else {
            output.paint(Tone::Bad, "not repaired")
        };
        let (at, key) = (moment(d.at_ms), d.key.escape_debug());
        format!("  {at}  {}  {}/{key}  {}  {state}", d.path, d.bucket, d.what)
    }));
    lines
}

/// Whether nothing waits or runs.
fn is_over(heal: &Heal) -> bool {
    heal.queued == 0 && !heal.running && heal.rebuilds.iter().all(|r| r.phase == "done")
}

fn drives_text(output: &Output, drives: &[Drive]) -> String {
    let mut table = empty_table();
    // Drives of a machine that is alone have no node.
    let node = |drive: &Drive| drive.node.map(|n| n.to_string());
    let heads = ["Drive", "State", "Used", "Capacity", "Errors", "Commit", "Id", "Note"].map(str::to_owned);
    table.set_header(
        drives.iter().any(|d| d.node.is_some()).then(|| "Node".to_owned()).into_iter().chain(heads),
    );
    for drive in drives {
        let healthy = drive.state == "online";
        let rebuild = drive.rebuild.as_ref().map(rebuild_text);
        let row = [
            drive.path.clone(),
            output.paint(if healthy { Tone::Good } else { Tone::Bad }, &drive.state),
            size_text(drive.used),
            size_text(drive.capacity),
            drive.read_errors.to_string(),
            format!("{:.2} ms", drive.commit_ms),
            drive.id.chars().take(8).collect(),
            rebuild.or_else(|| drive.problem.clone()).unwrap_or_default(),
        ];
        table.add_row(node(drive).into_iter().chain(row));
    }
    table.to_string()
}

/// Watches or starts repair.
pub async fn heal(command: HealCommand, context: &Context) -> Outcome {
    match command {
        HealCommand::Start { alias, deep } => start(context, &alias, deep).await,
        HealCommand::Status { alias, watch: false } => {
            let answer = ask(context, &alias, Method::GET, "heal", None).await?;
            let heal: Heal = understand(&answer)?;
            context.output.result(
                || answer,
                || {
                    let mut lines = vec![heal_text(&context.output, &heal)];
                    lines.extend(heal_lines(&context.output, &heal));
                    lines.join("\n")
                },
            );
            Ok(())
        }
        HealCommand::Status { alias, watch: true } => watch(context, &alias).await,
        HealCommand::Limit(options) => heal_limits::run(&options, context).await,
    }
}

async fn start(context: &Context, alias: &str, deep: bool) -> Outcome {
    let order = json!({ "deep": deep });
    let answer = ask(context, alias, Method::POST, "heal", Some(&order)).await?;
    context.output.done(
        || object(answer),
        || format!("Started; `ashlar heal status --watch {alias}` shows how it goes."),
    );
    Ok(())
}

/// Shows repair and rebuild until nothing is left.
async fn watch(context: &Context, alias: &str) -> Outcome {
    let progress = Progress::part(&context.output);
    let mut watched = HashSet::new();
    loop {
        let answer =
            ask(context, alias, Method::GET, "heal", None).await.inspect_err(|_| progress.finish())?;
        let heal: Heal = understand(&answer)?;
        let rebuilds: Vec<&Rebuild> = heal.rebuilds.iter().filter(|r| r.phase != "done").collect();
        watched.extend(rebuilds.iter().map(|r| r.drive.clone()));
        let done: u64 = rebuilds.iter().map(|r| r.done_bytes).sum();
        let total: u64 = rebuilds.iter().map(|r| r.total_bytes).sum();
        progress.set(done, total.max(done).max(1));
        progress.message(&watch_text(&context.output, &heal, &rebuilds));
        let over = is_over(&heal);
        if over || context.output.json {
            let closing = || closing_text(&context.output, &heal, &watched);
            progress.print(|| context.output.result(|| object(answer), closing));
            context.output.flush();
        }
        if over {
            progress.finish();
            return if heal.lost > 0 {
                Err(Failure::new(Kind::Partly, format!("{} lost", heal.lost)))
            } else {
                Ok(())
            };
        }
        ashlar_environment::time::sleep(std::time::Duration::from_secs(1)).await;
    }
}

/// The output at the end of a watch: the rebuilds of the drives in `watched`. If the watch saw no rebuild, it
/// prints what `heal status` prints, because the rebuild may have ended before.
fn closing_text(output: &Output, heal: &Heal, watched: &HashSet<String>) -> String {
    let mut lines = vec![heal_text(output, heal)];
    if watched.is_empty() {
        lines.extend(heal_lines(output, heal));
    } else {
        lines.extend(heal.rebuilt.iter().filter(|r| watched.contains(&r.drive)).map(rebuilt_text));
    }
    lines.join("\n")
}

/// One line; rebuilds come first, because a narrow terminal cuts the line.
fn watch_text(output: &Output, heal: &Heal, rebuilds: &[&Rebuild]) -> String {
    let mut parts: Vec<String> =
        rebuilds.iter().map(|r| format!("drive {}: {}", short(&r.drive), rebuild_text(r))).collect();
    parts.push(heal_text(output, heal));
    parts.join("; ")
}

fn short(id: &str) -> &str {
    id.get(..8).unwrap_or(id)
}

/// Lists or changes drives.
pub async fn drive(command: DriveCommand, context: &Context) -> Outcome {
    let (options, verb) = match command {
        DriveCommand::List { alias } => return list(context, &alias).await,
        DriveCommand::Scrub { alias } => return start(context, &alias, true).await,
        DriveCommand::Recover(options) => return super::recover::recover(options, context).await,
        DriveCommand::Offline(options) => (options, "offline"),
        DriveCommand::Online(options) => (options, "online"),
        DriveCommand::Replace(options) => (options, "replace"),
    };
    let mut order = json!({ "drive": options.drive });
    if let Some(node) = options.node {
        order["node"] = json!(node);
    }
    let answer = ask(context, &options.alias, Method::POST, &format!("drives/{verb}"), Some(&order)).await;
    let answer = answer.when(|| format!("cannot {verb} `{}`", options.drive))?;
    context.output.done(
        || object(answer),
        || match verb {
            "offline" => format!("`{}` is out of service.", options.drive),
            "online" => format!("`{}` is in service.", options.drive),
            _ => format!(
                "`{}` joins and is rebuilt; `ashlar heal status --watch {}` shows how it goes.",
                options.drive, options.alias
            ),
        },
    );
    Ok(())
}

async fn list(context: &Context, alias: &str) -> Outcome {
    let answer = ask(context, alias, Method::GET, "drives", None).await?;
    let list = answer.get("drives").unwrap_or(&answer);
    if context.output.json {
        for drive in list.as_array().into_iter().flatten() {
            context.output.result(|| drive.clone(), String::new);
        }
        return Ok(());
    }
    let drives: Vec<Drive> = understand(list)?;
    context.output.result(|| Value::Null, || drives_text(&context.output, &drives));
    Ok(())
}

/// The answer of the server as an object; other values become an empty object.
fn object(answer: Value) -> Value {
    if answer.is_object() { answer } else { json!({}) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Globals;

    #[test]
    fn info_and_heal_texts_contain_all_fields() {
        let answer = json!({
            "version": "0.1.0", "uptime_s": 3700, "code": "2+2", "data_shards": 2, "parity_shards": 2, "reads_tolerate": 2, "writes_tolerate": 1,
            "groups": [{"group": 0, "slots": 4, "voters": 4, "readable": true, "writable": true}],
            "drives": [
                {"id": "abcdef0123", "path": "/d/1", "state": "joining", "problem": null,
                 "capacity": 1073741824u64, "used": 1048576, "read_errors": 0, "commit_ms": 1.5,
                 "rebuild": {"drive": "abcdef0123", "phase": "shards", "registers": 4, "looked": 3,
                    "bytes": 1048576, "done_bytes": 1048576, "total_bytes": 4194304, "rate": 12.0, "eta_s": 65, "why": null}},
                {"path": "/d/2", "state": "offline", "problem": "Input/output error"}],
            "heal": {"queued": 3, "records": 5, "shards": 6, "lost": 0},
            "capacity": {"usable": 1073741824u64, "usable_free": 1073741824u64},
            "buckets": 2, "memory": {"ceiling": 536870912, "buffers": 1048576}, "new_field": 1
        });
        let info: Info = understand(&answer).unwrap();
        let text = info_text(&Output::new(&Globals::default()), "it", &info);
        for part in [
            "2+2: of each placement group, reads survive any 2 missing drives, writes any 1",
            "1 of 1",
            "shards 25 %",
            "ETA 1m 5s",
            "up 1h 1m",
            "512.0 MiB",
            "abcdef01",
            "Input/output",
            "3 wait",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }

    #[test]
    fn drives_of_a_cluster_are_shown_with_their_node_and_nodes_with_their_state() {
        let output = Output::new(&Globals::default());
        let rows =
            json!([{ "node": 3, "path": "/mnt/d1", "state": "unknown", "problem": "node 3 is not running" }]);
        let text = drives_text(&output, &understand::<Vec<Drive>>(&rows).unwrap());
        assert!(text.contains("Node") && text.contains("node 3 is not running"), "{text}");
        let alone = json!([{ "path": "/mnt/d1", "state": "online" }]);
        assert!(!drives_text(&output, &understand::<Vec<Drive>>(&alone).unwrap()).contains("Node"));
        let info = json!({ "nodes": [
            { "node": 1, "endpoint": "http://h1:9000", "version": "0.1.0", "uptime_s": 61, "problem": null },
            { "node": 2, "endpoint": "http://h2:9000", "version": "0.1.0", "problem": "node 2 does not answer" }] });
        let text = info_text(&output, "it", &understand(&info).unwrap());
        for part in ["http://h1:9000", "online", "1m 1s", "offline", "node 2 does not answer"] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }

    #[test]
    fn watch_line_shows_rebuild_progress() {
        let output = Output::new(&Globals::default());
        let text = |rebuild: Value| {
            let rebuild: Rebuild = understand(&rebuild).unwrap();
            watch_text(&output, &Heal::default(), &[&rebuild])
        };
        // The line shows nothing that is not known yet.
        assert_eq!(
            text(json!({ "drive": "abcdef0123", "phase": "records", "registers": 0, "looked": 0 })),
            "drive abcdef01: records; nothing waits, 0 records and 0 shards repaired"
        );
        assert_eq!(
            text(json!({ "drive": "abcdef0123", "phase": "shards", "registers": 200, "looked": 150,
                "done_bytes": 3 << 20, "total_bytes": 12 << 20, "rate": 12.4, "eta_s": 65 })),
            "drive abcdef01: shards 25 %, 3.0 MiB of 12.0 MiB, ETA 1m 5s; nothing waits, 0 records and 0 shards repaired"
        );
    }

    #[test]
    fn watch_waits_for_rebuild_that_has_not_begun() {
        let over = |rebuilds: Value| {
            let heal = json!({"queued": 0, "running": false, "rebuilds": rebuilds});
            is_over(&understand(&heal).unwrap())
        };
        assert!(over(json!([])));
        assert!(over(json!([{"drive": "ab", "phase": "done"}])));
        assert!(!over(json!([{"drive": "ab", "phase": "done"}, {"drive": "cd", "phase": "waiting"}])));
    }

    #[test]
    fn late_watch_prints_completed_rebuilds() {
        let heal = json!({"rebuilt": [
            {"drive": "abcdef0123", "phase": "done", "shards": 7, "bytes": 1048576,
                "began_ms": 1_700_000_000_000u64, "ended_ms": 1_700_000_065_000u64},
            {"drive": "0123abcdef", "phase": "done", "began_ms": 0, "ended_ms": 1}]});
        let text = |watched: &[&str]| {
            let watched = watched.iter().map(|w| (*w).to_owned()).collect();
            closing_text(&Output::new(&Globals::default()), &understand(&heal).unwrap(), &watched)
        };
        assert!(text(&[]).contains("drive abcdef01: rebuilt at") && text(&[]).contains("drive 0123abcd"));
        let one = text(&["abcdef0123"]);
        assert!(one.contains("drive abcdef01: rebuilt at") && !one.contains("0123abcd"), "{one}");
    }

    #[test]
    fn heal_status_lists_damage_scrubs_and_rebuilds() {
        let heal = json!({
            "rebuilds": [{"drive": "cd", "phase": "waiting", "why": "it has not begun"}],
            "rebuilt": [{"drive": "abcdef0123", "phase": "done", "shards": 7, "bytes": 1048576,
                "began_ms": 1_700_000_000_000u64, "ended_ms": 1_700_000_065_000u64}],
            "last_full_scrub": {"deep": true, "began_ms": 1_700_000_000_000u64, "took_ms": 3500,
                "damaged": 2, "healed_shards": 1, "missing": 1, "lost": 0},
            "damages": [{"at_ms": 1_700_000_001_000u64, "path": "/d/3", "bucket": "photos",
                "key": "a\u{1b}.jpg", "what": "shard 1", "repaired": true}],
            "limits": {"max_rate": 104_857_600, "scrub_max_rate": 0, "busy_share": 25},
        });
        let text = heal_lines(&Output::new(&Globals::default()), &understand(&heal).unwrap()).join("\n");
        for part in [
            "it has not begun",
            "drive abcdef01: rebuilt at 2023-11-14T22:14:25Z in 1m 5s, 7 shards of 1.0 MiB made",
            "Last scrub: 2023-11-14T22:13:20Z, took 4s, 2 damaged, 1 shards repaired, 1 missing, 0 lost",
            "Each node heals at most 100.0 MiB/s, scrubs without limit; 25 % of the time while requests are in flight",
            "/d/3  photos/a\\u{1b}.jpg  shard 1",
        ] {
            assert!(text.contains(part), "{part} is not in:\n{text}");
        }
    }
}
