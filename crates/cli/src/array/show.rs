//! `list`, `describe` and `progress`: what is said about groups, as text.
//!
//! Must not depend on: verbs that change something.

use std::path::PathBuf;
use std::time::Duration;

use ashlar_arguments::expand;
use ashlar_array::api::{Check, Controller, Drive, Group, Health, Mismatch, Path, State, Task, Volume};
use ashlar_array::offline;
use ashlar_environment::time;
use serde::Serialize;
use serde_json::{Value, json};

use super::Context;
use super::nouns::{Describe, List, ProgressOptions};
use crate::failure::{Failure, Kind, Outcome};
use crate::output::{Output, Tone, empty_table, size_text, span_text, time_text};

/// Time between looks of `--watch` and `--wait`.
pub const LOOK: Duration = Duration::from_millis(500);
/// Bytes of a row on one drive.
const ROW: u64 = 4096;

/// The colour of a state.
pub fn state_tone(state: &str) -> Tone {
    match state {
        "OPTIMAL" | "ONLINE" | "HOTSPARE" | "DONE" => Tone::Good,
        "RECOVERY" | "RESYNC" | "REBUILD" | "RUNNING" | "INACTIVE" => Tone::Size,
        _ => Tone::Bad,
    }
}

/// The address of a virtual drive, as NBD clients take it.
fn volume_uri(endpoint: &str, export: &str, tls: bool) -> String {
    let s = if tls { "s" } else { "" };
    match endpoint.strip_prefix("unix:") {
        Some(path) => format!("nbd{s}+unix:///{export}?socket={path}"),
        None => format!("nbd{s}://{endpoint}/{export}"),
    }
}

/// Where a virtual drive is: its block device of this machine, and its address at an NBD endpoint, if there are such.
pub fn volume_addresses(volume: &Volume, endpoint: Option<&String>, tls: bool) -> Vec<String> {
    let uri = endpoint.map(|endpoint| volume_uri(endpoint, &volume.export, tls));
    volume.block_device.clone().into_iter().chain(uri).collect()
}

fn document(value: &impl Serialize) -> Value {
    serde_json::to_value(value).unwrap_or_default()
}

/// The groups on these drives, or those of the process; and drives without a group.
async fn groups(drives: &[String], context: &Context<'_>) -> Outcome<(Vec<Group>, Vec<Drive>, State)> {
    if drives.is_empty() {
        let state = context.client().state().await?;
        return Ok((state.groups.clone(), Vec::new(), state));
    }
    let paths = expand::expand(drives).map_err(Failure::usage)?;
    let paths: Vec<PathBuf> = paths.iter().map(PathBuf::from).collect();
    let (groups, strangers) = offline::describe(&offline::find(&paths)?);
    Ok((groups, strangers, State::default()))
}

/// Prints the objects of a list, one per line, or the table.
fn print<T: Serialize>(output: &Output, all: &[T], table: impl FnOnce() -> String) {
    if output.json {
        all.iter().for_each(|one| output.result(|| document(one), String::new));
    } else {
        output.result(|| Value::Null, table);
    }
}

/// Lists.
pub async fn list(noun: List, context: &Context<'_>) -> Outcome {
    let output = context.output;
    if let List::Cx = noun {
        let all = context.client().state().await?.controllers;
        print(output, &all, || controller_table(output, &all));
        return Ok(());
    }
    let (List::Pd(among) | List::Dg(among) | List::Vd(among)) = &noun else {
        return crate::fabric::host::list(context.client().state().await?.nvme.hosts, output);
    };
    let (groups, strangers, state) = groups(&among.drives, context).await?;
    match noun {
        List::Dg(_) => {
            print(output, &groups, || group_table(output, &groups));
            for out in &state.out_of_service {
                output.note(&format!("{} is not in service: {}", out.name, out.why));
            }
        }
        List::Pd(_) => {
            let mut drives: Vec<Drive> =
                groups.iter().flat_map(|g| g.drives.iter().chain(&g.spares)).cloned().collect();
            drives.extend(strangers);
            print(output, &drives, || drive_table(output, &drives));
        }
        List::Vd(_) => {
            let volumes: Vec<Volume> = groups.iter().flat_map(|g| g.volumes.clone()).collect();
            print(output, &volumes, || volume_table(output, &volumes, &state));
        }
        List::Host | List::Cx => {}
    }
    Ok(())
}

fn controller_table(output: &Output, all: &[Controller]) -> String {
    let mut table = empty_table();
    table.set_header(["Controller", "State", "Kind", "Engine", "Requests of", "Rebuilds of"]);
    let named = |groups: &[String]| groups.iter().map(|g| output.printable(g)).collect::<Vec<_>>().join(", ");
    for c in all {
        table.add_row([
            c.name.clone(),
            output.paint(state_tone(&c.state), &c.state),
            c.kind.clone(),
            output.printable(&c.engine),
            named(&c.requests),
            named(&c.rebuilds),
        ]);
    }
    table.to_string()
}

fn group_table(output: &Output, groups: &[Group]) -> String {
    if groups.is_empty() {
        return "No drive group.".into();
    }
    let mut table = empty_table();
    table.set_header([
        "Group", "State", "Level", "Drives", "Spares", "Virtual", "Free", "Size", "Policy", "Work",
    ]);
    for g in groups {
        table.add_row([
            output.printable(&g.name),
            output.paint(state_tone(&g.state), &g.state),
            g.level.clone(),
            g.drives.len().to_string(),
            match g.distributed_spares {
                0 => g.spares.len().to_string(),
                all => {
                    format!("{} + {} of {all} distributed", g.spares.len(), all - g.distributed_spares_used)
                }
            },
            g.volumes.len().to_string(),
            size_text(g.free),
            size_text(g.size),
            g.policy.clone(),
            work(g).join("; "),
        ]);
    }
    table.to_string()
}

/// What a group does in the background.
fn work(group: &Group) -> Vec<String> {
    let mut out = Vec::new();
    if let Some(task) = &group.rebuild {
        let to = if task.to_spare { " to a distributed spare" } else { "" };
        out.push(format!("rebuild{to} {}, coded by {}", task_text(task), group.rebuild_coder));
    }
    if let Some(task) = &group.resync {
        out.push(format!("resync {}", task_text(task)));
    }
    if let Some(growth) = &group.growth {
        out.push(format!(
            "growth to RAID {} of {}, {}",
            growth.level,
            size_text(growth.size),
            task_text(&growth.progress)
        ));
    }
    if let Some(check) = group.check.as_ref().filter(|c| c.state == "RUNNING") {
        out.push(format!("check {}", task_text(&check.progress)));
    }
    out
}

fn task_text(task: &Task) -> String {
    let percent = if task.rows == 0 { 0.0 } else { 100.0 * task.done as f64 / task.rows as f64 };
    match (&task.why, task.eta_s) {
        (Some(why), _) => format!("{percent:.1} %, waits: {why}"),
        (None, Some(eta)) => {
            format!("{percent:.1} %, {}/s per drive, {} left", size_text(task.bytes_per_s), span_text(eta))
        }
        (None, None) => format!("{percent:.1} %"),
    }
}

/// How a drive is named.
fn drive_name(drive: &Drive) -> String {
    match drive.position {
        Some(position) => format!("{}/{position}", drive.group),
        None if drive.group.is_empty() => "-".into(),
        None => format!("{} spare", drive.group),
    }
}

fn drive_table(output: &Output, drives: &[Drive]) -> String {
    if drives.is_empty() {
        return "No physical drive.".into();
    }
    let mut table = empty_table();
    table.set_header(["Drive", "State", "Path", "Corrected", "Note"]);
    for d in drives {
        let state = if d.state.is_empty() { "NO GROUP" } else { &d.state };
        let moved = d.distributed_spare.map(|n| format!("distributed spare {n} has blocks of it"));
        let notes: Vec<String> = d.why.iter().cloned().chain(moved).collect();
        table.add_row([
            output.printable(&drive_name(d)),
            output.paint(state_tone(state), state),
            output.printable(d.path.as_deref().unwrap_or("unknown")),
            d.corrected.to_string(),
            output.printable(&notes.join("; ")),
        ]);
    }
    table.to_string()
}

fn volume_table(output: &Output, volumes: &[Volume], state: &State) -> String {
    if volumes.is_empty() {
        return "No virtual drive.".into();
    }
    let tls = !matches!(state.nbd.tls.as_str(), "" | "off");
    let mut table = empty_table();
    table.set_header([
        "Virtual drive",
        "Size",
        "Allocated",
        "Limits",
        "Read",
        "Written",
        "Errors",
        "NSID",
        "Address",
    ]);
    for v in volumes {
        let addresses = volume_addresses(v, state.nbd.endpoints.first(), tls);
        table.add_row([
            output.printable(&v.export),
            size_text(v.size),
            allocated_text(output, v),
            limits_text(v),
            size_text(v.bytes_read),
            size_text(v.bytes_written),
            v.errors.to_string(),
            v.nsid.to_string(),
            addresses.join("\n"),
        ]);
    }
    table.to_string()
}

/// What a virtual drive has of its group.
fn allocated_text(output: &Output, volume: &Volume) -> String {
    match (&volume.damage, volume.allocated) {
        (Some(why), _) => output.paint(Tone::Bad, output.printable(why)),
        (None, Some(bytes)) => size_text(bytes),
        (None, None) if volume.thin => "thin".into(),
        (None, None) => "all".into(),
    }
}

/// What the clients of a virtual drive get at most.
pub fn limits_text(volume: &Volume) -> String {
    let iops = (volume.iops_limit > 0).then(|| format!("{} requests/s", volume.iops_limit));
    let bytes = (volume.bandwidth_limit > 0).then(|| format!("{}/s", size_text(volume.bandwidth_limit)));
    let all: Vec<String> = iops.into_iter().chain(bytes).collect();
    if all.is_empty() { "no limits".into() } else { all.join(", ") }
}

/// A virtual drive, with what hosts have reserved.
fn volume_text(output: &Output, volume: &Volume, state: &State) -> String {
    let table = volume_table(output, std::slice::from_ref(volume), state);
    let Some(reservation) = &volume.reservation else { return table };
    let kind = reservation.kind.as_deref().unwrap_or("none, but hosts have registered");
    let mut hosts = empty_table();
    hosts.set_header(["Registered host", "Host ID", "Key", "Holder"]);
    for r in &reservation.registrants {
        let holder = if r.holder { "yes" } else { "" };
        hosts.add_row([output.printable(&r.nqn), r.host_id.clone(), r.key.clone(), holder.into()]);
    }
    format!("{table}\n\nReservation: {kind} (generation {})\n{hosts}", reservation.generation)
}

/// The group of a name.
pub fn group_named(groups: Vec<Group>, name: &str) -> Outcome<Group> {
    let missing = || Failure::new(Kind::NotFound, format!("there is no drive group {name:?}"));
    groups.into_iter().find(|g| g.name == name).ok_or_else(missing)
}

/// Describes one thing.
pub async fn describe(noun: Describe, context: &Context<'_>) -> Outcome {
    let output = context.output;
    match noun {
        Describe::Dg { group, drives } => {
            let (all, _, _) = groups(&drives, context).await?;
            let group = group_named(all, &group)?;
            output.result(|| document(&group), || group_text(output, &group));
        }
        Describe::Pd { drive } => {
            let drive = find_drive(&drive, context).await?;
            output.result(|| document(&drive), || drive_text(output, &drive));
        }
        Describe::Vd { volume } => {
            let (all, _, state) = groups(&[], context).await?;
            let of = |v: &&Volume| v.export == volume || v.name == volume;
            let found: Vec<Volume> = all.iter().flat_map(|g| &g.volumes).filter(of).cloned().collect();
            let [found] = found.as_slice() else {
                let why = if found.is_empty() { "there is no" } else { "several groups have a" };
                return Err(Failure::new(Kind::NotFound, format!("{why} virtual drive {volume:?}")));
            };
            output.result(|| document(found), || volume_text(output, found, &state));
        }
        Describe::Cx { controller } => {
            let all = context.client().state().await?.controllers;
            let Some(found) = all.iter().find(|c| c.name == controller) else {
                return Err(Failure::new(Kind::NotFound, format!("there is no controller {controller:?}")));
            };
            output.result(|| document(found), || controller_table(output, std::slice::from_ref(found)));
        }
        Describe::ConsistencyCheck { group } => {
            let (all, _, _) = groups(&[], context).await?;
            let found = group_named(all, &group)?;
            let Some(check) = found.check else {
                return Err(Failure::new(
                    Kind::NotFound,
                    format!("{group:?} was not checked since it is in service"),
                ));
            };
            output.result(|| document(&check), || check_text(output, &check));
        }
    }
    Ok(())
}

/// A drive of the process, or a file that no process has.
async fn find_drive(drive: &str, context: &Context<'_>) -> Outcome<Drive> {
    let is = |d: &Drive| {
        let whole = offline::known_path(drive);
        drive_name(d) == drive || d.path.is_some() && d.path == whole
    };
    let asked = groups(&[], context).await;
    let find = |(groups, strangers, _): (Vec<Group>, Vec<Drive>, State)| {
        let mut all = groups.into_iter().flat_map(|g| g.drives.into_iter().chain(g.spares)).chain(strangers);
        all.find(|d| is(d))
    };
    match asked {
        Ok(all) => {
            if let Some(found) = find(all) {
                return Ok(found);
            }
        }
        Err(failure) if failure.kind != Kind::Unavailable || !offline::is_path(drive) => return Err(failure),
        Err(_) => {}
    }
    let missing = || Failure::new(Kind::NotFound, format!("{drive} is no drive of a group"));
    if !offline::is_path(drive) {
        return Err(missing());
    }
    find(groups(&[drive.to_owned()], context).await?).ok_or_else(missing)
}

fn drive_text(output: &Output, drive: &Drive) -> String {
    let state = if drive.state.is_empty() { "NO GROUP" } else { &drive.state };
    let mut lines = vec![
        format!(
            "{}  {}",
            output.paint(Tone::Folder, drive_name(drive)),
            output.paint(state_tone(state), state)
        ),
        format!("Path       {}", output.printable(drive.path.as_deref().unwrap_or("unknown"))),
        format!("Corrected  {} blocks", drive.corrected),
    ];
    if let Some(domain) = &drive.failure_domain {
        lines.push(format!("Fails with {}", output.printable(domain)));
    }
    if !drive.id.is_empty() {
        lines.push(format!("Identity   {}", drive.id));
    }
    lines.extend(
        drive.distributed_spare.map(|n| format!("Spare      the distributed spare {n} has blocks of it")),
    );
    lines.extend(drive.why.iter().map(|why| format!("Note       {}", output.printable(why))));
    lines.extend(drive.health.iter().flat_map(health_lines));
    if !drive.paths.is_empty() {
        lines.push(path_table(output, &drive.paths));
    }
    lines.join("\n")
}

fn path_table(output: &Output, paths: &[Path]) -> String {
    let mut table = empty_table();
    table.set_header(["Path", "State", "ANA state", "Commands", "Under way", "Latency", "Losses", "Note"]);
    for p in paths {
        let tone = if p.state == "live" { Tone::Good } else { Tone::Bad };
        table.add_row([
            output.printable(&p.address),
            output.paint(tone, &p.state),
            p.ana_state.clone(),
            p.commands.to_string(),
            p.in_flight.to_string(),
            p.latency_us.map_or_else(|| "-".into(), |us| format!("{us} us")),
            p.losses.to_string(),
            output.printable(p.why.as_deref().unwrap_or_default()),
        ]);
    }
    table.to_string()
}

/// What a drive says about its health.
fn health_lines(health: &Health) -> Vec<String> {
    let warnings = match health.warnings.as_slice() {
        [] => "no warning".to_owned(),
        some => format!("warns of {}", some.join(", ")),
    };
    let temperature = health.temperature_c.map(|c| format!(", {c} degrees Celsius")).unwrap_or_default();
    vec![
        format!(
            "Health     {warnings}; {} % of its life used, {} % spare (warns at {} %){temperature}",
            health.percentage_used, health.available_spare_percent, health.spare_threshold_percent
        ),
        format!(
            "Life       {} read, {} written, {} hours, {} power cycles, {} unsafe shutdowns, {} media errors",
            size_text(health.bytes_read),
            size_text(health.bytes_written),
            health.power_on_hours,
            health.power_cycles,
            health.unsafe_shutdowns,
            health.media_errors
        ),
    ]
}

fn group_text(output: &Output, group: &Group) -> String {
    let kind = if group.distributed_spares > 0 { "stripes" } else { "sets" };
    let sets = if group.sets > 1 { format!("{} {kind} of ", group.sets) } else { String::new() };
    let mut lines = vec![
        format!(
            "{}  {}",
            output.paint(Tone::Folder, &group.name),
            output.paint(state_tone(&group.state), &group.state)
        ),
        format!(
            "Level     RAID {}: {sets}{} data and {} parity drives, {}strips of {}",
            group.level,
            group.data,
            group.parity,
            if group.distributed_spares > 0 { "in turn over all drives, " } else { "" },
            size_text(group.strip)
        ),
        format!("Policy    {}: {}", group.policy, group.policy_note),
        format!("Space     {} free of {}", size_text(group.free), size_text(group.size)),
    ];
    if group.distributed_spares > 0 {
        lines.push(format!(
            "Declustered  stripes of {} drives over {}; {} distributed spares, of which {} have blocks of failed drives",
            group.data + group.parity,
            group.drives.len(),
            group.distributed_spares,
            group.distributed_spares_used
        ));
    }
    if !group.rebuild_speed.is_empty() {
        lines.push(format!("Speed     {}", group.rebuild_speed));
    }
    if let Some(next) = group.next_check_ms {
        let every = span_text(group.check_interval_s);
        let at = ::time::OffsetDateTime::from_unix_timestamp(next / 1000).ok();
        lines.push(format!("Checks    every {every}; the next one is due at {}", time_text(at)));
    }
    if !group.rebuild_coder.is_empty() {
        lines.push(format!("Coder     {}", group.rebuild_coder));
    }
    lines.extend(work(group).into_iter().map(|w| format!("Work      {w}")));
    if let Some(check) = &group.check {
        lines.push(format!("Check     {}", check_line(output, check)));
    }
    let c = &group.counters;
    if (c.corrected, c.pages_lost, c.unprotected) != (0, 0, 0) {
        lines.push(format!(
            "Damage    {} blocks corrected, {} checksum pages lost, {} rows unprotected",
            c.corrected, c.pages_lost, c.unprotected
        ));
    }
    lines.push(format!("Identity  {}", group.id));
    lines.push(format!("NVMe      {}", output.printable(&group.nqn)));
    let drives: Vec<Drive> = group.drives.iter().chain(&group.spares).cloned().collect();
    lines.push(drive_table(output, &drives));
    if !group.volumes.is_empty() {
        lines.push(volume_table(output, &group.volumes, &State::default()));
    }
    lines.join("\n")
}

fn check_line(output: &Output, check: &Check) -> String {
    let at = |ms: i64| {
        let at = ::time::OffsetDateTime::from_unix_timestamp(ms / 1000).ok();
        time_text(at)
    };
    let when = match check.ended_ms {
        Some(ended) => format!("ended {}", at(ended)),
        None => format!("began {}", at(check.began_ms)),
    };
    let found = match check.mismatches {
        0 => "nothing wrong".to_owned(),
        n => format!("{n} rows wrong, {} corrected", check.fixed),
    };
    format!("{} ({}), {when}: {found}", output.paint(state_tone(&check.state), &check.state), check.mode)
}

/// A check in full.
pub fn check_text(output: &Output, check: &Check) -> String {
    let mut lines = vec![check_line(output, check), format!("Progress  {}", task_text(&check.progress))];
    for Mismatch { set, row, positions, fixed } in &check.first {
        let who = match positions.as_slice() {
            [] => "the row does not match its parity".to_owned(),
            some => {
                let all: Vec<String> = some.iter().map(u64::to_string).collect();
                format!("wrong on position {}", all.join(", "))
            }
        };
        let end = if *fixed { "corrected" } else { "not corrected" };
        lines.push(format!("  set {set}, row {row} ({} on each drive): {who}; {end}", size_text(row * ROW)));
    }
    lines.join("\n")
}

/// Shows resyncs, rebuilds, growth and checks, once or until they are done.
pub async fn progress(options: &ProgressOptions, context: &Context<'_>) -> Outcome {
    let output = context.output;
    let bar = crate::progress::Progress::part(output);
    loop {
        let (all, _, _) = groups(&[], context).await?;
        for name in &options.groups {
            group_named(all.clone(), name)?;
        }
        let named = |g: &Group| options.groups.is_empty() || options.groups.contains(&g.name);
        let all: Vec<Group> = all.into_iter().filter(named).collect();
        let busy: Vec<&Group> = all.iter().filter(|g| g.rebuild.is_some() || !work(g).is_empty()).collect();
        // A failed drive whose spare is about to step in.
        let about = all.iter().any(|g| {
            let free = g.distributed_spares_used < g.distributed_spares;
            g.drives.iter().any(|d| {
                matches!(d.state.as_str(), "FAILED" | "OFFLINE" | "REBUILD")
                    && (!g.spares.is_empty() || free && d.distributed_spare.is_none())
            })
        });
        let rebuilding = all.iter().any(|g| matches!(g.state.as_str(), "RECOVERY" | "RESYNC"));
        let tasks = |g: &Group| {
            [g.resync.clone(), g.rebuild.clone(), g.growth.as_ref().map(|growth| growth.progress.clone())]
        };
        let stuck = busy.iter().any(|g| tasks(g).into_iter().flatten().any(|t| t.why.is_some()));
        if !options.watch || stuck || busy.is_empty() && !about && !rebuilding {
            bar.finish();
            show_progress(output, &all);
            return match stuck && options.watch {
                true => Err(Failure::new(Kind::Failed, "a resync, a rebuild or a growth does not go on")),
                false => Ok(()),
            };
        }
        let check = |g: &Group| g.check.as_ref().map(|c| c.progress.clone());
        if let Some(task) = busy.first().and_then(|g| tasks(g).into_iter().flatten().next().or(check(g))) {
            bar.set(task.done, task.rows.max(1));
            bar.message(&work(busy[0]).join("; "));
        }
        time::sleep(LOOK).await;
    }
}

fn show_progress(output: &Output, groups: &[Group]) {
    let of = |g: &Group| json!({ "group": g.name, "state": g.state, "resync": g.resync, "rebuild": g.rebuild, "growth": g.growth, "check": g.check });
    let all: Vec<Value> = groups.iter().map(of).collect();
    print(output, &all, || {
        let line = |g: &Group| {
            let work = work(g);
            let work = if work.is_empty() { "nothing to do".to_owned() } else { work.join("; ") };
            format!(
                "{}  {}  {work}",
                output.paint(Tone::Folder, &g.name),
                output.paint(state_tone(&g.state), &g.state)
            )
        };
        groups.iter().map(line).collect::<Vec<_>>().join("\n")
    });
}
