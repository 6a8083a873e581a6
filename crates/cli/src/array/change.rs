//! Verbs that change something: each makes one call to the process, or creates files and groups here if there is none.
//!
//! Must not depend on: how things are shown.

use std::path::PathBuf;
use std::time::Duration;

use ashlar_arguments::{expand, size};
use ashlar_array::api::{self, Answer, Call, Group, NewGroup, NewVolume};
use ashlar_array::{Error, Kind as Cause, make_file, offline};
use ashlar_environment::time;
use clap::ValueEnum as _;
use serde_json::json;

use super::Context;
use super::nouns::{
    CheckMode, Create, Delete, DgProperty, Edit, GroupOptions, Grow, Import, Marker, Replace, Shrink, Speed,
    Start, Stop, VdProperty,
};
use super::show::{LOOK, check_text, group_named, limits_text};
use crate::failure::{Failure, Kind, Outcome, While as _};
use crate::output::size_text;

fn bytes(option: &str, text: &str) -> Outcome<u64> {
    size::parse(text).map_err(|e| Failure::usage(format!("{option}: {e}")))
}

/// The process may have another working directory. The address of a namespace is the same there.
fn absolute(path: &str) -> Outcome<PathBuf> {
    if offline::is_address(path) {
        return Ok(path.into());
    }
    std::path::absolute(path).when(|| format!("cannot find {path}"))
}

fn paths(arguments: &[String]) -> Outcome<Vec<PathBuf>> {
    expand::expand(arguments).map_err(Failure::usage)?.iter().map(|p| absolute(p)).collect()
}

/// A drive as the process finds it: `GROUP/POSITION` as it is, a path in full.
fn drive(text: &str) -> Outcome<String> {
    if offline::is_path(text) { Ok(absolute(text)?.display().to_string()) } else { Ok(text.to_owned()) }
}

/// Makes the call and prints what was done.
async fn call(call: Call, what: impl Fn(&Answer) -> String, context: &Context<'_>) -> Outcome<Answer> {
    let answer = context.client().call(&call).await?;
    context.output.done(|| json!({ "groups": answer.groups, "volume": answer.volume }), || what(&answer));
    Ok(answer)
}

fn state_of(answer: &Answer) -> String {
    let of = |g: &Group| format!("{} is {}", g.name, g.state);
    answer.groups.iter().map(of).collect::<Vec<_>>().join(", ")
}

fn size_of_volume(answer: &Answer) -> String {
    match &answer.volume {
        Some(v) => format!("the virtual drive {} has {}", v.export, size_text(v.size)),
        None => state_of(answer),
    }
}

/// Creates something.
pub async fn create(noun: Create, context: &Context<'_>) -> Outcome {
    match noun {
        Create::Pd { files, size } => {
            let size = bytes("--size", &size)?;
            for path in paths(&files)? {
                make_file(&path, size)?;
                let shown = path.display().to_string();
                context.output.done(
                    || json!({ "path": shown, "size": size }),
                    || format!("{shown}  {}", size_text(size)),
                );
            }
            Ok(())
        }
        Create::Dg(options) => create_group(options, context).await,
        Create::Vd { group, size, name, thin, iops_limit, bandwidth_limit } => {
            let size = size.map(|s| bytes("SIZE", &s)).transpose()?;
            let bandwidth = bandwidth_limit.map(|s| bytes("--bandwidth-limit", &s)).transpose()?;
            let (iops_limit, bandwidth_limit) = (iops_limit.unwrap_or(0), bandwidth.unwrap_or(0));
            let new = NewVolume { group, name, size, iops_limit, bandwidth_limit, thin };
            call(Call::CreateVolume(new), size_of_volume, context).await.map(drop)
        }
        Create::Host(options) => {
            let keys = options.keys()?;
            let nqn = options.nqn;
            let answer = context.client().call(&Call::SetHost { nqn: nqn.clone(), keys }).await?;
            context.output.done(|| json!({ "host": answer.host }), || format!("{nqn} may connect"));
            Ok(())
        }
    }
}

/// A level as the process reads it.
fn level(text: &str) -> String {
    let level = text.to_ascii_lowercase();
    level.strip_prefix("raid").unwrap_or(&level).to_owned()
}

/// The level of a declustered group, if it is to be one.
fn declustered(options: &GroupOptions, drives: usize) -> Outcome<Option<String>> {
    if options.stripe_width.is_none() && options.distributed_spares.is_none() {
        return Ok(None);
    }
    let inner = level(&options.level);
    let wrong = |why: &str| Failure::usage(format!("level {}: {why}", options.level));
    let both = inner.split_once('+').and_then(|(k, m)| Some((k.parse::<u8>().ok()?, m.parse::<u8>().ok()?)));
    let (k, m) = match (inner.as_str(), both, options.stripe_width) {
        (_, Some((k, m)), None) => (k, m),
        (_, Some((k, m)), Some(width)) if u16::from(k) + u16::from(m) == u16::from(width) => (k, m),
        (_, Some(_), Some(_)) => return Err(wrong("its width is K+M, not that of --stripe-width")),
        ("5" | "6", None, None) => return Err(wrong("it needs --stripe-width to be declustered")),
        ("5", None, Some(width)) if width > 2 => (width - 1, 1),
        ("6", None, Some(width)) if width > 3 => (width - 2, 2),
        ("5" | "6", None, Some(_)) => return Err(wrong("a stripe has two data drives at least")),
        _ => return Err(wrong("only raid5, raid6 and K+M can be declustered")),
    };
    let width = (usize::from(k) + usize::from(m)).max(1);
    // What is left beside whole stripes, and one whole stripe less if that is nothing.
    let least = match drives % width {
        0 => width,
        rest => rest,
    };
    let spares = options.distributed_spares.map_or(least, usize::from);
    Ok(Some(format!("{k}+{m}s{spares}")))
}

async fn create_group(options: GroupOptions, context: &Context<'_>) -> Outcome {
    let drives = paths(&options.drives)?;
    let declustered = declustered(&options, drives.len())?;
    let new = NewGroup {
        name: options.name,
        level: declustered.unwrap_or_else(|| level(&options.level)),
        strip: bytes("--strip", &options.strip)?,
        policy: options.policy,
        journal: bytes("--journal", &options.journal)?,
        drives,
        spares: paths(&options.spare)?,
        force: options.force,
        shared_domains: options.allow_shared_drive,
    };
    let made = |g: &Group| {
        format!("the drive group {} is {}: RAID {}, {}", g.name, g.state, g.level, size_text(g.size))
    };
    let asked = context.client().call(&Call::CreateGroup(new.clone())).await;
    let group = match asked {
        Err(Error { kind: Cause::Unavailable, .. }) => {
            let group = offline::create(&new)?;
            context.output.note("no process owns groups here: start it with `ashlar array serve DRIVE...`");
            group
        }
        Ok(answer) => answer.groups.into_iter().next().unwrap_or_default(),
        Err(error) => return Err(error.into()),
    };
    context.output.done(|| json!({ "groups": [group], "volume": null }), || made(&group));
    Ok(())
}

/// Deletes something.
pub async fn delete(noun: Delete, context: &Context<'_>) -> Outcome {
    let (what, shown) = match noun {
        Delete::Pd { drive: d } => {
            (Call::DeleteDrive { drive: drive(&d)? }, format!("{d} is no hot spare any more"))
        }
        Delete::Dg { group, force } => {
            let shown = format!("the drive group {group} is deleted");
            (Call::DeleteGroup { group, force }, shown)
        }
        Delete::Host { nqn } => {
            context.client().call(&Call::RemoveHost { nqn: nqn.clone() }).await?;
            context.output.done(|| json!({ "nqn": nqn }), || format!("{nqn} may not connect any more"));
            return Ok(());
        }
        Delete::Vd { volume } => {
            let shown = format!("the virtual drive {volume} is deleted");
            (Call::DeleteVolume { volume }, shown)
        }
    };
    call(what, |_| shown.clone(), context).await.map(drop)
}

/// Changes a property.
pub async fn edit(noun: Edit, context: &Context<'_>) -> Outcome {
    let what = match noun {
        Edit::Pd { drive: d, what: _, marker, group, force } => Call::Mark {
            drive: drive(&d)?,
            marker: match marker {
                Marker::Offline => api::Marker::Offline,
                Marker::Online => api::Marker::Online,
                Marker::Hotspare => api::Marker::Hotspare,
            },
            group,
            force,
        },
        Edit::Dg { group, what: DgProperty::RebuildSpeed, value } => Call::SetSpeed {
            group,
            speed: match Speed::from_str(&value, true)
                .map_err(|_| Failure::usage("rebuild_speed: low, normal or high"))?
            {
                Speed::Low => api::Speed::Low,
                Speed::Normal => api::Speed::Normal,
                Speed::High => api::Speed::High,
            },
        },
        Edit::Dg { group, what: DgProperty::CheckInterval, value } => {
            Call::SetCheckInterval { group, seconds: interval(&value)? }
        }
        Edit::Vd { volume, what: VdProperty::Reservation, value } => {
            if value != "clear" {
                return Err(Failure::usage("reservation: clear removes it; hosts make reservations"));
            }
            let shown = format!("the virtual drive {volume} has no reservation and no registered hosts");
            let what = Call::ClearReservation { volume };
            return call(what, |_| shown.clone(), context).await.map(drop);
        }
        Edit::Vd { volume, what, value } => {
            let off = value == "off";
            let (mut iops, mut bandwidth) = (None, None);
            match what {
                VdProperty::IopsLimit if off => iops = Some(0),
                VdProperty::IopsLimit => {
                    let number = value.parse::<u32>().ok().filter(|n| *n > 0);
                    let wrong = || Failure::usage("iops_limit: a number of requests per second, or off");
                    iops = Some(number.ok_or_else(wrong)?);
                }
                VdProperty::BandwidthLimit if off => bandwidth = Some(0),
                VdProperty::BandwidthLimit => {
                    let number = Some(bytes("bandwidth_limit", &value)?).filter(|n| *n > 0);
                    let wrong =
                        || Failure::usage("bandwidth_limit: bytes per second, for instance 200MiB, or off");
                    bandwidth = Some(number.ok_or_else(wrong)?);
                }
                VdProperty::Reservation => {}
            }
            let what = Call::LimitVolume { volume, iops, bandwidth };
            return call(what, limits_of_volume, context).await.map(drop);
        }
    };
    call(what, state_of, context).await.map(drop)
}

fn limits_of_volume(answer: &Answer) -> String {
    match &answer.volume {
        Some(v) => format!("the virtual drive {}: {}", v.export, limits_text(v)),
        None => state_of(answer),
    }
}

/// The shortest interval between two checks.
const SHORTEST: Duration = Duration::from_secs(60);

fn interval(text: &str) -> Outcome<u32> {
    if text == "off" {
        return Ok(0);
    }
    let wrong = |why: String| Failure::usage(format!("check_interval: {why}, or off"));
    let time = ashlar_arguments::time::parse(text).map_err(wrong)?;
    if time < SHORTEST {
        return Err(Failure::usage("check_interval: a minute is the shortest interval; off ends the checks"));
    }
    u32::try_from(time.as_secs()).map_err(|e| wrong(e.to_string()))
}

/// Replaces a drive.
pub async fn replace(noun: Replace, context: &Context<'_>) -> Outcome {
    let Replace::Pd { old, new, force, allow_shared_drive } = noun;
    let what =
        Call::Replace { old: drive(&old)?, new: absolute(&new)?, force, shared_domains: allow_shared_drive };
    call(what, state_of, context).await.map(drop)
}

/// Lets a group or a virtual drive grow.
pub async fn grow(noun: Grow, context: &Context<'_>) -> Outcome {
    let options = match noun {
        Grow::Dg(options) => options,
        Grow::Vd { volume, size } => {
            let size = size.map(|s| bytes("SIZE", &s)).transpose()?;
            return call(Call::GrowVolume { volume, size }, size_of_volume, context).await.map(drop);
        }
    };
    let what = Call::GrowGroup {
        group: options.group,
        level: options.level.as_deref().map(level),
        drives: paths(&options.drives)?,
        force: options.force,
        shared_domains: options.allow_shared_drive,
    };
    let begun = |answer: &Answer| {
        let of = |g: &Group| match &g.growth {
            Some(growth) => format!(
                "{} grows to RAID {} with {} drives, {}",
                g.name,
                growth.level,
                g.drives.len(),
                size_text(growth.size)
            ),
            None => format!("{} has grown to RAID {}, {}", g.name, g.level, size_text(g.size)),
        };
        answer.groups.iter().map(of).collect::<Vec<_>>().join(", ")
    };
    call(what, begun, context).await.map(drop)
}

/// Makes a virtual drive smaller.
pub async fn shrink(noun: Shrink, context: &Context<'_>) -> Outcome {
    let Shrink::Vd { volume, size, force } = noun;
    let what = Call::ShrinkVolume { volume, size: bytes("SIZE", &size)?, force };
    call(what, size_of_volume, context).await.map(drop)
}

/// Puts groups in service.
pub async fn import(noun: Import, context: &Context<'_>) -> Outcome {
    let Import::Dg { drives, without_missing } = noun;
    let drives = paths(&drives)?;
    call(Call::ImportGroups { drives, without_missing }, state_of, context).await.map(drop)
}

/// Starts a check.
pub async fn start(noun: Start, context: &Context<'_>) -> Outcome {
    let Start::ConsistencyCheck { group, mode, wait } = noun;
    let mode = match mode {
        CheckMode::AutoFix => api::CheckMode::AutoFix,
        CheckMode::StopOnError => api::CheckMode::StopOnError,
    };
    let what = Call::StartCheck { group: group.clone(), mode };
    let begun = |_: &Answer| format!("a consistency check of {group} has begun");
    if !wait {
        return call(what, begun, context).await.map(drop);
    }
    context.client().call(&what).await?;
    let bar = crate::progress::Progress::part(context.output);
    loop {
        let state = context.client().state().await?;
        let Some(check) = group_named(state.groups, &group)?.check else {
            return Err(Failure::new(Kind::Failed, "the check is gone: the group was taken out of service"));
        };
        if check.state != "RUNNING" {
            bar.finish();
            context.output.result(|| json!({ "check": check }), || check_text(context.output, &check));
            return match (check.state.as_str(), check.mismatches) {
                ("DONE", 0) => Ok(()),
                (_, 0) => Err(Failure::new(Kind::Failed, format!("the check was {}", check.state))),
                (_, n) => Err(Failure::new(Kind::Failed, format!("{n} rows were wrong"))),
            };
        }
        bar.set(check.progress.done, check.progress.rows.max(1));
        time::sleep(LOOK).await;
    }
}

/// Stops a check or a group.
pub async fn stop(noun: Stop, context: &Context<'_>) -> Outcome {
    match noun {
        Stop::ConsistencyCheck { group } => {
            let shown = format!("the consistency check of {group} stops");
            call(Call::StopCheck { group }, |_| shown.clone(), context).await.map(drop)
        }
        Stop::Dg { group } => {
            let shown = format!("the drive group {group} is out of service");
            call(Call::StopGroup { group }, |_| shown.clone(), context).await.map(drop)
        }
    }
}
