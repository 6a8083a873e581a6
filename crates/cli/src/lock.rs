//! `ashlar retention` and `ashlar legalhold`: protection of versions, with mc's commands.
//!
//! Invariants: nothing is changed before all arguments are valid; a failing key does not stop the others, and
//! is reported.
//!
//! Must not depend on: how locks are stored.

use std::pin::pin;

use ashlar_client::{DefaultRetention, ListOptions, Retention};
use clap::{Args, Subcommand, ValueEnum};
use futures::{StreamExt, TryStreamExt, stream};
use serde_json::{Value, json};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::{
    context::Context,
    failure::{Failure, Kind, Outcome, While},
    location::{Location, Remote},
    tree,
};

/// Requests in flight.
const IN_FLIGHT: usize = 8;
/// Longest retention that the protocol allows.
const MOST_DAYS: u32 = 36_500;

/// Which versions to act on.
#[derive(Args, Debug)]
pub struct Scope {
    /// ALIAS/BUCKET/KEY, or a folder with --recursive
    target: String,
    /// Everything below
    #[arg(long, short)]
    recursive: bool,
    /// All versions, not only the current ones
    #[arg(long, conflicts_with = "version_id")]
    versions: bool,
    /// This version
    #[arg(long, visible_alias = "vid", conflicts_with = "recursive")]
    version_id: Option<String>,
}

/// The retention mode.
#[derive(ValueEnum, Clone, Copy, Debug)]
pub enum Mode {
    /// A caller with the permission can shorten it
    Governance,
    /// Nobody can shorten it
    Compliance,
}

impl Mode {
    fn name(self) -> &'static str {
        match self {
            Mode::Governance => "GOVERNANCE",
            Mode::Compliance => "COMPLIANCE",
        }
    }
}

/// Actions on retention.
#[derive(Subcommand, Debug)]
pub enum RetentionCommand {
    /// Retain objects for some time, or set the default retention of a bucket
    Set {
        /// The retention mode
        mode: Mode,
        /// How long: 30d, 1y; or until the end of a day or an instant, in UTC: 2030-12-31, 2030-12-31T12:00:00Z
        validity: String,
        #[command(flatten)]
        scope: Scope,
        /// Set the default for new objects of the bucket; existing objects are unchanged
        #[arg(long, conflicts_with_all = ["recursive", "versions", "version_id", "bypass"])]
        default: bool,
        /// Allow to shorten a retention in governance mode
        #[arg(long)]
        bypass: bool,
    },
    /// Show the retention of objects, or the default of a bucket
    Info {
        #[command(flatten)]
        scope: Scope,
        /// Show the default for new objects of the bucket
        #[arg(long, conflicts_with_all = ["recursive", "versions", "version_id"])]
        default: bool,
    },
    /// Remove a retention in governance mode, or the default of a bucket
    Clear {
        #[command(flatten)]
        scope: Scope,
        /// Remove the default for new objects of the bucket
        #[arg(long, conflicts_with_all = ["recursive", "versions", "version_id"])]
        default: bool,
    },
}

/// Actions on legal holds.
#[derive(Subcommand, Debug)]
pub enum HoldCommand {
    /// Put objects under legal hold
    Set(Scope),
    /// Lift legal holds
    Clear(Scope),
    /// Show whether objects are under legal hold
    Info(Scope),
}

/// Parses a duration: `30d`, `1y`.
fn validity(text: &str) -> Outcome<(u32, bool)> {
    let wrong = || match instant(text) {
        Some(_) => Failure::usage(format!("`{text}`: a default is days or years, such as 30d or 1y")),
        None => Failure::usage(format!(
            "`{text}`: expected days or years, such as 30d or 1y, or a day, such as 2030-12-31"
        )),
    };
    let (number, years) = match (text.strip_suffix(['d', 'D']), text.strip_suffix(['y', 'Y'])) {
        (Some(number), _) => (number, false),
        (_, Some(number)) => (number, true),
        _ => return Err(wrong()),
    };
    let count: u32 = number.parse().map_err(|_| wrong())?;
    let days = count.saturating_mul(if years { 365 } else { 1 });
    if days == 0 || days > MOST_DAYS {
        return Err(Failure::usage(format!("`{text}`: must be 1 day to 100 years")));
    }
    Ok((count, years))
}

/// The end of a retention that begins now: after days or years, or at the day or instant that `text` names.
///
/// # Errors
/// It is none of these, has passed, or is more than 100 years away.
fn until(text: &str) -> Outcome<String> {
    let now = OffsetDateTime::from(ashlar_environment::time::wall());
    let end = match instant(text) {
        Some(end) => end,
        None => {
            let (count, years) = validity(text)?;
            now + time::Duration::days(i64::from(count) * if years { 365 } else { 1 })
        }
    };
    if end <= now || end > now + time::Duration::days(i64::from(MOST_DAYS)) {
        return Err(Failure::usage(format!("`{text}`: must be in the future, and within 100 years")));
    }
    let end = end.to_offset(time::UtcOffset::UTC);
    let end = end.replace_nanosecond(0).unwrap_or(end);
    end.format(&Rfc3339).map_err(|e| Failure::usage(format!("the end of the retention: {e}")))
}

/// The end of a day in UTC, or an instant.
fn instant(text: &str) -> Option<OffsetDateTime> {
    let full = if text.len() == 10 { format!("{text}T23:59:59Z") } else { text.to_owned() };
    OffsetDateTime::parse(&full, &Rfc3339).ok()
}

/// A key and a version of it.
type Named = (String, Option<String>);

/// The output for one version: as an object, and as text.
type Printed = (Value, String);

/// Runs `work` on all versions in scope, several at once; prints in order. `changed`: `--quiet` hides the
/// lines.
async fn each_version<F: Future<Output = Outcome<Printed>>>(
    scope: &Scope,
    context: &Context,
    remote: &Remote,
    changed: bool,
    work: impl Fn(Named) -> F,
) -> Outcome {
    let all = if scope.versions {
        let (prefix, key) = match scope.recursive {
            true => (remote.folder(), None),
            false => (remote.key.clone(), Some(remote.key.clone())),
        };
        let all = tree::versions(remote, prefix).try_filter(move |e| {
            std::future::ready(!e.delete_marker && key.as_ref().is_none_or(|key| *key == e.key))
        });
        all.map_ok(|e| (e.key, e.version_id)).boxed()
    } else if scope.recursive {
        let list = ListOptions { prefix: remote.folder(), ..ListOptions::default() };
        let pages = remote.client.pages(&remote.bucket, list).map_err(Failure::from);
        let keys = |page: ashlar_client::ListPage| page.entries.into_iter().map(|e| Ok((e.key, None)));
        pages.map_ok(move |page| stream::iter(keys(page))).try_flatten().boxed()
    } else {
        stream::iter([Ok((remote.key.clone(), scope.version_id.clone()))]).boxed()
    };
    let several = scope.recursive || scope.versions;
    let work = &work;
    let done = all.map(|named: Outcome<Named>| async move {
        let named = named?;
        let shown = remote.with_key(&named.0);
        Outcome::Ok(work(named).await.when(|| format!("`{shown}`")))
    });
    let mut done = pin!(done.buffered(IN_FLIGHT));
    let (mut count, mut failed) = (0, 0);
    while let Some(outcome) = done.next().await {
        count += 1;
        match outcome? {
            Ok((object, text)) if changed => context.output.done(|| object, || text),
            Ok((object, text)) => context.output.result(|| object, || text),
            Err(failure) if !several => return Err(failure),
            Err(failure) => {
                context.output.failure(&failure);
                failed += 1;
            }
        }
    }
    match (count, failed) {
        (0, _) => Err(Failure::new(Kind::NotFound, format!("there is nothing below `{remote}`"))),
        (_, 0) => Ok(()),
        _ => Err(Failure::partly(failed)),
    }
}

fn bucket_location(scope: &Scope, context: &Context, bucket: bool) -> Outcome<Remote> {
    let remote = Location::remote(&scope.target, &context.aliases)?;
    if bucket {
        remote.only_bucket()?;
    } else {
        remote.need_bucket()?;
        if !scope.recursive {
            remote.need_key()?;
        }
    }
    Ok(remote)
}

fn named(remote: &Remote, (key, version): &Named) -> (Value, String) {
    let name = format!("{}/{}/{key}", remote.alias, remote.bucket);
    let text = match version {
        Some(version) => format!("`{name}` (version {version})"),
        None => format!("`{name}`"),
    };
    (json!({ "key": name, "versionID": version }), text)
}

/// `ashlar retention`.
pub async fn retention(command: RetentionCommand, context: &Context) -> Outcome {
    match &command {
        RetentionCommand::Set { mode, validity: text, scope, default, bypass } => {
            let remote = bucket_location(scope, context, *default)?;
            if *default {
                let span = validity(text)?;
                let rule = DefaultRetention { mode: mode.name().into(), count: span.0, years: span.1 };
                return set_default(context, &remote, Some(rule)).await;
            }
            let wanted = Retention { mode: mode.name().into(), until: until(text)? };
            set(context, scope, &remote, Some(&wanted), *bypass).await
        }
        RetentionCommand::Clear { scope, default } => {
            let remote = bucket_location(scope, context, *default)?;
            if *default {
                return set_default(context, &remote, None).await;
            }
            set(context, scope, &remote, None, true).await
        }
        RetentionCommand::Info { scope, default } => {
            let remote = bucket_location(scope, context, *default)?;
            if *default {
                let rule = remote.client.default_retention(&remote.bucket).await?;
                show_default(context, &remote, rule.as_ref(), false);
                return Ok(());
            }
            let remote = &remote;
            each_version(scope, context, remote, false, |object| async move {
                let found = remote.client.retention(&remote.bucket, &object.0, object.1.as_deref()).await?;
                Ok(printed(remote, &object, found.as_ref()))
            })
            .await
        }
    }
}

async fn set_default(context: &Context, remote: &Remote, rule: Option<DefaultRetention>) -> Outcome {
    remote.client.set_default_retention(&remote.bucket, rule.as_ref()).await?;
    show_default(context, remote, rule.as_ref(), true);
    Ok(())
}

fn show_default(context: &Context, remote: &Remote, rule: Option<&DefaultRetention>, changed: bool) {
    let object = || match rule {
        Some(r) => json!({
            "bucket": remote.bucket, "enabled": true, "mode": r.mode,
            "validity": format!("{}{}", r.count, if r.years { "YEARS" } else { "DAYS" }),
        }),
        None => json!({ "bucket": remote.bucket, "enabled": false }),
    };
    let text = || match rule {
        Some(r) => {
            let unit = if r.years { "years" } else { "days" };
            format!("New objects of `{remote}` are kept for {} {unit} in {} mode.", r.count, r.mode)
        }
        None => format!("New objects of `{remote}` have no retention by default."),
    };
    if changed { context.output.done(object, text) } else { context.output.result(object, text) }
}

async fn set(
    context: &Context,
    scope: &Scope,
    remote: &Remote,
    wanted: Option<&Retention>,
    bypass: bool,
) -> Outcome {
    each_version(scope, context, remote, true, |object| async move {
        let (key, version) = (&object.0, object.1.as_deref());
        remote.client.set_retention(&remote.bucket, key, version, wanted, bypass).await?;
        Ok(printed(remote, &object, wanted))
    })
    .await
}

fn printed(remote: &Remote, object: &Named, found: Option<&Retention>) -> Printed {
    let (mut value, name) = named(remote, object);
    value["mode"] = json!(found.map(|r| &r.mode));
    value["until"] = json!(found.map(|r| &r.until));
    let text = match found {
        Some(r) => format!("{name} is kept until {} in {} mode.", r.until, r.mode),
        None => format!("{name} has no retention."),
    };
    (value, text)
}

/// `ashlar legalhold`.
pub async fn hold(command: HoldCommand, context: &Context) -> Outcome {
    let (scope, wanted) = match &command {
        HoldCommand::Set(scope) => (scope, Some(true)),
        HoldCommand::Clear(scope) => (scope, Some(false)),
        HoldCommand::Info(scope) => (scope, None),
    };
    let remote = &bucket_location(scope, context, false)?;
    each_version(scope, context, remote, wanted.is_some(), |object| async move {
        let (key, version) = (&object.0, object.1.as_deref());
        let on = match wanted {
            Some(on) => {
                remote.client.set_legal_hold(&remote.bucket, key, version, on).await?;
                on
            }
            None => remote.client.legal_hold(&remote.bucket, key, version).await?,
        };
        let (mut value, name) = named(remote, &object);
        value["legalhold"] = json!(if on { "ON" } else { "OFF" });
        Ok((value, format!("{name} is {}under legal hold.", if on { "" } else { "not " })))
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans() {
        assert_eq!(validity("30d").unwrap(), (30, false));
        assert_eq!(validity("2Y").unwrap(), (2, true));
        for bad in ["", "d", "0d", "30", "-1d", "1.5d", "101y", "99999999999d", "1w"] {
            assert!(validity(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn ends_of_retentions() {
        assert_eq!(until("2098-12-31").unwrap(), "2098-12-31T23:59:59Z");
        assert_eq!(until("2098-12-31T01:00:00.5+02:00").unwrap(), "2098-12-30T23:00:00Z");
        let days = instant(&until("30d").unwrap()).unwrap() - OffsetDateTime::now_utc();
        assert!((29..=30).contains(&days.whole_days()), "{days}");
        for bad in
            ["2020-01-01", "2020-01-01T00:00:00Z", "3000-01-01", "2098-13-01", "2098-12-31T", "31.12.2098"]
        {
            assert!(until(bad).is_err(), "{bad}");
        }
        assert!(validity("2098-12-31").is_err(), "a default has no day");
    }
}
