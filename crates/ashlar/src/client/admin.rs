//! `ashlar info`, `ashlar heal`, `ashlar drive`: the state of an Ashlar server and its drives.
//!
//! Invariant: with `--json` the server's own answer is printed, so that no field gets lost.

use ashlar_client::{Client, Method};
use clap::{Args, Subcommand};
use comfy_table::{Table, presets::UTF8_FULL_CONDENSED};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    Context,
    failure::{Failure, Kind, Outcome, While},
    output::{Output, Tone, size_text, span_text},
    place::Place,
    progress::Progress,
};

/// Which server.
#[derive(Args, Debug)]
pub struct InfoOptions {
    /// The server's alias
    alias: String,
    /// Print the bearer token that metrics are read with, and nothing else
    #[arg(long)]
    metrics_token: bool,
}

/// What to do about repair.
#[derive(Subcommand, Debug)]
pub enum HealCommand {
    /// Show what is being repaired and how long it will take
    Status {
        /// The server's alias
        alias: String,
        /// Until nothing is left to repair
        #[arg(long)]
        watch: bool,
    },
    /// Compare everything on all drives and repair what differs
    Start {
        /// The server's alias
        alias: String,
        /// Read and verify all data too, not only look whether it is there
        #[arg(long)]
        deep: bool,
    },
}

/// What to do about drives.
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
    /// Put the blank folder at a drive's path in that drive's place; it joins and is rebuilt
    Replace(DriveOptions),
    /// Read and verify everything on all drives and repair what is damaged
    Scrub {
        /// The server's alias
        alias: String,
    },
}

/// Which drive.
#[derive(Args, Debug)]
pub struct DriveOptions {
    /// The server's alias
    alias: String,
    /// The drive: its path, its id, or the beginning of its id
    drive: String,
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
    /// Things to look at in this phase, and how many were.
    registers: u64,
    looked: u64,
    bytes: u64,
    rate: f64,
    eta_s: Option<u64>,
    why: Option<String>,
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

/// Asks the administration of an alias.
async fn ask(
    context: &Context,
    alias: &str,
    method: Method,
    path: &str,
    body: Option<&Value>,
) -> Outcome<Value> {
    ask_with(context, alias, method, path, &[], body).await
}

/// As [`ask`], with a query.
pub(super) async fn ask_with(
    context: &Context,
    alias: &str,
    method: Method,
    path: &str,
    query: &[(&str, &str)],
    body: Option<&Value>,
) -> Outcome<Value> {
    let client = client(context, alias)?;
    let answer = client.admin(method, path, query, body).await;
    answer.map_err(|error| {
        let strange = matches!(error, ashlar_client::Error::Unexpected(_))
            || matches!(error.code(), Some("NoSuchBucket" | "NoSuchKey" | "NotFound" | "MethodNotAllowed"))
                && !path.contains('/');
        let mut failure = Failure::from(error);
        failure.what = format!("`{alias}`");
        if strange {
            failure.cause = format!("this is no Ashlar server, or an older one ({})", failure.cause);
        }
        failure
    })
}

pub(super) fn client(context: &Context, alias: &str) -> Outcome<Client> {
    // `it/` is taken for `it`.
    Ok(Place::remote(alias.trim_end_matches('/'), &context.aliases)?.client)
}

fn understand<T: for<'a> Deserialize<'a>>(value: &Value) -> Outcome<T> {
    T::deserialize(value)
        .map_err(|e| Failure::new(Kind::Failed, format!("the server's answer is not understood: {e}")))
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
    [
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
        drives_text(output, &info.drives),
    ]
    .join("\n")
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
        (0, true) => "a pass over everything is running".to_owned(),
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
    let done = rebuild.looked.min(rebuild.registers) * 100;
    if let Some(percent) = done.checked_div(rebuild.registers) {
        text.push_str(&format!(" {percent} %"));
    }
    if rebuild.rate >= 1.0 {
        text.push_str(&format!(", {:.0}/s", rebuild.rate));
    }
    if rebuild.bytes > 0 {
        text.push_str(&format!(", {} made", size_text(rebuild.bytes)));
    }
    if let Some(eta) = rebuild.eta_s {
        text.push_str(&format!(", ETA {}", span_text(eta)));
    }
    if let Some(why) = &rebuild.why {
        text.push_str(&format!(" ({why})"));
    }
    text
}

fn drives_text(output: &Output, drives: &[Drive]) -> String {
    let mut table = Table::new();
    table.load_preset(UTF8_FULL_CONDENSED).set_content_arrangement(comfy_table::ContentArrangement::Dynamic);
    table.set_header(["Drive", "State", "Used", "Capacity", "Errors", "Commit", "Id", "Note"]);
    for drive in drives {
        let healthy = drive.state == "online";
        let rebuild = drive.rebuild.as_ref().map(rebuild_text);
        table.add_row([
            drive.path.clone(),
            output.paint(if healthy { Tone::Good } else { Tone::Bad }, &drive.state),
            size_text(drive.used),
            size_text(drive.capacity),
            drive.read_errors.to_string(),
            format!("{:.2} ms", drive.commit_ms),
            drive.id.chars().take(8).collect(),
            rebuild.or_else(|| drive.problem.clone()).unwrap_or_default(),
        ]);
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
                    let rebuilds = heal.rebuilds.iter().filter(|r| r.phase != "done");
                    lines.extend(rebuilds.map(|r| format!("drive {}: {}", short(&r.drive), rebuild_text(r))));
                    lines.join("\n")
                },
            );
            Ok(())
        }
        HealCommand::Status { alias, watch: true } => watch(context, &alias).await,
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
    loop {
        let answer =
            ask(context, alias, Method::GET, "heal", None).await.inspect_err(|_| progress.finish())?;
        let heal: Heal = understand(&answer)?;
        let rebuilds: Vec<&Rebuild> = heal.rebuilds.iter().filter(|r| r.phase != "done").collect();
        let looked: u64 = rebuilds.iter().map(|r| r.looked).sum();
        let registers: u64 = rebuilds.iter().map(|r| r.registers).sum();
        progress.set(looked, registers.max(looked).max(1));
        progress.message(&watch_text(&context.output, &heal, &rebuilds));
        let over = heal.queued == 0 && !heal.running && rebuilds.is_empty();
        if over || context.output.json {
            progress.print(|| context.output.result(|| object(answer), || heal_text(&context.output, &heal)));
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
        tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    }
}

/// One line: what is being rebuilt first, because a narrow terminal shows no more.
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
        DriveCommand::Offline(options) => (options, "offline"),
        DriveCommand::Online(options) => (options, "online"),
        DriveCommand::Replace(options) => (options, "replace"),
    };
    let order = json!({ "drive": options.drive });
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

/// What the server answered, or an empty object.
fn object(answer: Value) -> Value {
    if answer.is_object() { answer } else { json!({}) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::Globals;

    #[test]
    fn an_answer_is_shown() {
        let answer = json!({
            "version": "0.1.0", "uptime_s": 3700, "code": "2+2", "data_shards": 2, "parity_shards": 2, "reads_tolerate": 2, "writes_tolerate": 1,
            "groups": [{"group": 0, "slots": 4, "voters": 4, "readable": true, "writable": true}],
            "drives": [
                {"id": "abcdef0123", "path": "/d/1", "state": "joining", "problem": null,
                 "capacity": 1073741824u64, "used": 1048576, "read_errors": 0, "commit_ms": 1.5,
                 "rebuild": {"drive": "abcdef0123", "phase": "shards", "registers": 4, "looked": 1,
                    "bytes": 1048576, "rate": 12.0, "eta_s": 65, "why": null}},
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
    fn a_rebuild_is_watched() {
        let output = Output::new(&Globals::default());
        let text = |rebuild: Value| {
            let rebuild: Rebuild = understand(&rebuild).unwrap();
            watch_text(&output, &Heal::default(), &[&rebuild])
        };
        // Nothing is claimed that is not known yet.
        assert_eq!(
            text(json!({ "drive": "abcdef0123", "phase": "records", "registers": 0, "looked": 0 })),
            "drive abcdef01: records; nothing waits, 0 records and 0 shards repaired"
        );
        assert_eq!(
            text(json!({ "drive": "abcdef0123", "phase": "shards", "registers": 200, "looked": 50,
                "bytes": 3 << 20, "rate": 12.4, "eta_s": 65 })),
            "drive abcdef01: shards 25 %, 12/s, 3.0 MiB made, ETA 1m 5s; nothing waits, 0 records and 0 shards repaired"
        );
    }
}
