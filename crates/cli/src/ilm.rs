//! `ashlar ilm rule`: lifecycle rules of a bucket, in mc's verbs and flags; and what they would do now.

use std::io::Read as _;

use ashlar_client::{
    Lifecycle, LifecycleAbort, LifecycleAnd, LifecycleExpiration, LifecycleFilter, LifecycleNoncurrent,
    LifecycleRule, LifecycleTag, Method,
};
use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::{
    admin_request::ask_with,
    bucket::parse_tags,
    context::Context,
    failure::{Failure, Kind, Outcome, While as _},
    output::{empty_table, size_text},
    place::{Place, Remote},
};
use ashlar_arguments::size;

/// Longest file of rules.
const LIMIT: u64 = 4 << 20;

/// What to do about lifecycles.
#[derive(Subcommand, Debug)]
pub enum Command {
    /// Rules that expire objects and remove old versions
    #[command(subcommand)]
    Rule(RuleCommand),
}

/// What to do about rules.
#[derive(Subcommand, Debug)]
pub enum RuleCommand {
    /// Add a rule
    Add(AddOptions),
    /// Change a rule
    Edit(EditOptions),
    /// List the rules
    #[command(visible_alias = "list")]
    Ls {
        /// ALIAS/BUCKET
        target: String,
    },
    /// Remove a rule, or all
    #[command(visible_alias = "remove")]
    Rm(RemoveOptions),
    /// Print the rules as JSON
    Export {
        /// ALIAS/BUCKET
        target: String,
    },
    /// Replace the rules by those in JSON on standard input
    Import {
        /// ALIAS/BUCKET
        target: String,
    },
    /// Count what the rules would do now, and change nothing
    #[command(visible_alias = "dry-run")]
    Test(TestOptions),
}

/// What a rule says.
#[derive(Args, Debug, Default)]
pub struct Flags {
    /// Only keys that begin with this
    #[arg(long)]
    prefix: Option<String>,
    /// Only versions with these tags: NAME=VALUE&NAME=VALUE
    #[arg(long, value_name = "TAGS")]
    tags: Option<String>,
    /// Only versions smaller than this, such as 1MiB
    #[arg(long, value_name = "SIZE")]
    size_lt: Option<String>,
    /// Only versions larger than this, such as 1MiB
    #[arg(long, value_name = "SIZE")]
    size_gt: Option<String>,
    /// Expire current versions after so many days
    #[arg(long, value_name = "DAYS", visible_alias = "expiry-days")]
    expire_days: Option<u64>,
    /// Expire current versions from this day on, such as 2030-01-31
    #[arg(long, value_name = "DATE", visible_alias = "expiry-date", conflicts_with = "expire_days")]
    expire_date: Option<String>,
    /// Remove delete markers that hide nothing
    #[arg(long, conflicts_with_all = ["expire_days", "expire_date"])]
    expire_delete_marker: bool,
    /// Remove versions so many days after they were replaced
    #[arg(long, value_name = "DAYS")]
    noncurrent_expire_days: Option<u64>,
    /// Keep so many of the versions that were replaced
    #[arg(long, value_name = "NUMBER")]
    noncurrent_expire_newer: Option<u64>,
    /// Give up uploads that were begun so many days ago
    #[arg(long, value_name = "DAYS")]
    abort_incomplete_days: Option<u64>,
}

/// A rule to add.
#[derive(Args, Debug)]
pub struct AddOptions {
    /// ALIAS/BUCKET
    target: String,
    /// Its name; made up unless given
    #[arg(long)]
    id: Option<String>,
    #[command(flatten)]
    flags: Flags,
}

/// A rule to change.
#[derive(Args, Debug)]
pub struct EditOptions {
    /// ALIAS/BUCKET
    target: String,
    /// Which rule
    #[arg(long)]
    id: String,
    /// The rule counts
    #[arg(long, conflicts_with = "disable")]
    enable: bool,
    /// The rule is kept and does nothing
    #[arg(long)]
    disable: bool,
    #[command(flatten)]
    flags: Flags,
}

/// Rules to remove.
#[derive(Args, Debug)]
pub struct RemoveOptions {
    /// ALIAS/BUCKET
    target: String,
    /// Which rule
    #[arg(long, required_unless_present = "all")]
    id: Option<String>,
    /// All rules; with --force
    #[arg(long, conflicts_with = "id", requires = "force")]
    all: bool,
    /// Needed with --all
    #[arg(long)]
    force: bool,
}

/// What to count.
#[derive(Args, Debug)]
pub struct TestOptions {
    /// ALIAS/BUCKET
    target: String,
    /// As if it were this time, such as 2030-01-31T00:00:00Z
    #[arg(long, value_name = "TIME")]
    at: Option<String>,
}

impl Flags {
    /// Changes a rule to what was asked for.
    fn apply(&self, rule: &mut LifecycleRule) -> Outcome {
        let bytes = |text: &Option<String>, flag: &str| {
            let parsed = text.as_deref().map(size::parse).transpose();
            parsed.map_err(|why| Failure::usage(format!("{flag}: {why}")))
        };
        let mut all = rule.filter.conditions();
        if let Some(old) = rule.prefix.take() {
            all.prefix = old;
        }
        if let Some(prefix) = &self.prefix {
            all.prefix.clone_from(prefix);
        }
        if let Some(tags) = &self.tags {
            let tags = parse_tags(tags)?.into_iter();
            all.tags = tags.map(|(key, value)| LifecycleTag { key, value }).collect();
        }
        all.object_size_less_than = bytes(&self.size_lt, "--size-lt")?.or(all.object_size_less_than);
        all.object_size_greater_than = bytes(&self.size_gt, "--size-gt")?.or(all.object_size_greater_than);
        rule.filter = LifecycleFilter::of(all);
        let date = self
            .expire_date
            .as_ref()
            .map(|d| if d.len() == 10 { format!("{d}T00:00:00Z") } else { d.clone() });
        if self.expire_days.is_some() || date.is_some() || self.expire_delete_marker {
            rule.expiration = LifecycleExpiration {
                days: self.expire_days,
                date,
                delete_marker: self.expire_delete_marker,
            };
        }
        let n = &mut rule.noncurrent;
        n.noncurrent_days = self.noncurrent_expire_days.or(n.noncurrent_days);
        n.newer_noncurrent_versions = self.noncurrent_expire_newer.or(n.newer_noncurrent_versions);
        rule.abort.days_after_initiation = self.abort_incomplete_days.or(rule.abort.days_after_initiation);
        let nothing = rule.expiration == LifecycleExpiration::default()
            && rule.noncurrent == LifecycleNoncurrent::default()
            && rule.abort == LifecycleAbort::default();
        match nothing {
            true => Err(Failure::usage(
                "the rule does nothing: say when something expires, for instance --expire-days 30",
            )),
            false => Ok(()),
        }
    }
}

/// Shows or changes rules.
pub async fn run(command: Command, context: &Context) -> Outcome {
    let Command::Rule(command) = command;
    match command {
        RuleCommand::Add(options) => add(&options, context).await,
        RuleCommand::Edit(options) => edit(&options, context).await,
        RuleCommand::Ls { target } => list(&target, context).await,
        RuleCommand::Rm(options) => remove(&options, context).await,
        RuleCommand::Export { target } => {
            let (_, rules) = read(&target, context).await?;
            let value = serde_json::to_value(&rules).unwrap_or_default();
            let text = serde_json::to_string_pretty(&value).unwrap_or_default();
            context.output.result(|| value, || text);
            Ok(())
        }
        RuleCommand::Import { target } => import(&target, context).await,
        RuleCommand::Test(options) => test(&options, context).await,
    }
}

fn place(target: &str, context: &Context) -> Outcome<Remote> {
    let remote = Place::remote(target, &context.aliases)?;
    remote.only_bucket()?;
    Ok(remote)
}

/// The rules that a bucket has.
async fn read(target: &str, context: &Context) -> Outcome<(Remote, Lifecycle)> {
    let remote = place(target, context)?;
    let rules = remote.client.lifecycle(&remote.bucket).await;
    let rules = rules.when(|| format!("cannot read the lifecycle rules of `{remote}`"))?;
    if rules.rules.is_empty() {
        return Err(Failure::new(Kind::NotFound, format!("`{remote}` has no lifecycle rules")));
    }
    Ok((remote, rules))
}

async fn write(remote: &Remote, rules: &Lifecycle) -> Outcome {
    let set = remote.client.set_lifecycle(&remote.bucket, rules).await;
    set.when(|| format!("cannot change the lifecycle rules of `{remote}`"))
}

async fn add(options: &AddOptions, context: &Context) -> Outcome {
    let remote = place(&options.target, context)?;
    let found = remote.client.lifecycle(&remote.bucket).await;
    let mut rules = found.when(|| format!("cannot read the lifecycle rules of `{remote}`"))?;
    let id = match &options.id {
        Some(id) => id.clone(),
        None => fresh_id(&rules),
    };
    if rules.rules.iter().any(|r| r.id == id) {
        return Err(Failure::usage(format!("there is a rule `{id}`; `ashlar ilm rule edit` changes it")));
    }
    let mut rule = LifecycleRule { id: id.clone(), status: "Enabled".into(), ..LifecycleRule::default() };
    options.flags.apply(&mut rule)?;
    rules.rules.push(rule);
    write(&remote, &rules).await?;
    context.output.done(
        || json!({ "target": remote.to_string(), "id": id }),
        || format!("Rule `{id}` added to `{remote}`."),
    );
    Ok(())
}

/// A name that no rule has.
fn fresh_id(rules: &Lifecycle) -> String {
    let taken = |id: &str| rules.rules.iter().any(|r| r.id == id);
    let free = (1u32..).map(|n| format!("rule-{n}")).find(|id| !taken(id));
    free.unwrap_or_default()
}

async fn edit(options: &EditOptions, context: &Context) -> Outcome {
    let (remote, mut rules) = read(&options.target, context).await?;
    let rule = named(&mut rules, &options.id, &remote)?;
    options.flags.apply(rule)?;
    if options.enable || options.disable {
        rule.status = if options.enable { "Enabled" } else { "Disabled" }.into();
    }
    write(&remote, &rules).await?;
    context.output.done(
        || json!({ "target": remote.to_string(), "id": options.id }),
        || format!("Rule `{}` of `{remote}` changed.", options.id),
    );
    Ok(())
}

fn named<'a>(rules: &'a mut Lifecycle, id: &str, remote: &Remote) -> Outcome<&'a mut LifecycleRule> {
    let found = rules.rules.iter_mut().find(|r| r.id == id);
    found.ok_or_else(|| Failure::new(Kind::NotFound, format!("`{remote}` has no rule `{id}`")))
}

async fn remove(options: &RemoveOptions, context: &Context) -> Outcome {
    let (remote, mut rules) = read(&options.target, context).await?;
    match &options.id {
        None => rules.rules.clear(),
        Some(id) => {
            named(&mut rules, id, &remote)?;
            rules.rules.retain(|r| r.id != *id);
        }
    }
    write(&remote, &rules).await?;
    context.output.done(
        || json!({ "target": remote.to_string(), "id": options.id, "all": options.all }),
        || match &options.id {
            Some(id) => format!("Rule `{id}` of `{remote}` removed."),
            None => format!("All rules of `{remote}` removed."),
        },
    );
    Ok(())
}

async fn list(target: &str, context: &Context) -> Outcome {
    let (_, rules) = read(target, context).await?;
    if context.output.json {
        let value = serde_json::to_value(&rules).unwrap_or_default();
        context.output.result(|| json!({ "target": target, "config": value }), String::new);
        return Ok(());
    }
    let mut table = empty_table();
    table.set_header(["Id", "Status", "Which", "What"]);
    for rule in &rules.rules {
        table.add_row([rule.id.clone(), rule.status.clone(), which(rule), what(rule)]);
    }
    context.output.result(|| Value::Null, || table.to_string());
    Ok(())
}

fn which(rule: &LifecycleRule) -> String {
    let LifecycleAnd { mut prefix, tags, object_size_greater_than, object_size_less_than } =
        rule.filter.conditions();
    if let Some(old) = &rule.prefix {
        prefix.clone_from(old);
    }
    let mut parts: Vec<String> = Vec::new();
    if !prefix.is_empty() {
        parts.push(format!("prefix {prefix}"));
    }
    parts.extend(tags.iter().map(|t| format!("tag {}={}", t.key, t.value)));
    parts.extend(object_size_greater_than.map(|n| format!("more than {}", size_text(n))));
    parts.extend(object_size_less_than.map(|n| format!("less than {}", size_text(n))));
    if parts.is_empty() { "all".to_owned() } else { parts.join(", ") }
}

fn what(rule: &LifecycleRule) -> String {
    let mut parts: Vec<String> = Vec::new();
    parts.extend(rule.expiration.days.map(|n| format!("expire after {n} days")));
    parts.extend(rule.expiration.date.as_ref().map(|d| format!("expire from {d} on")));
    if rule.expiration.delete_marker {
        parts.push("remove delete markers that hide nothing".to_owned());
    }
    let keep = rule.noncurrent.newer_noncurrent_versions;
    match (rule.noncurrent.noncurrent_days, keep) {
        (None, None) => {}
        (days, keep) => parts.push(format!(
            "remove old versions after {} days{}",
            days.unwrap_or(0),
            keep.map(|n| format!(", keep {n}")).unwrap_or_default()
        )),
    }
    parts.extend(rule.abort.days_after_initiation.map(|n| format!("give up uploads after {n} days")));
    parts.join("; ")
}

async fn import(target: &str, context: &Context) -> Outcome {
    let remote = place(target, context)?;
    let mut text = String::new();
    let read = std::io::stdin().lock().take(LIMIT).read_to_string(&mut text);
    read.map_err(|e| Failure::new(Kind::Failed, format!("cannot read standard input: {e}")))?;
    let rules: Lifecycle = serde_json::from_str(&text)
        .map_err(|e| Failure::usage(format!("standard input holds no lifecycle rules: {e}")))?;
    if rules.rules.is_empty() {
        return Err(Failure::usage(
            "there are no rules in it; `ashlar ilm rule rm --all --force` removes all",
        ));
    }
    write(&remote, &rules).await?;
    context.output.done(
        || json!({ "target": remote.to_string(), "rules": rules.rules.len() }),
        || format!("`{remote}` has {} rules now.", rules.rules.len()),
    );
    Ok(())
}

/// Counts, call by call until everything was looked at.
async fn test(options: &TestOptions, context: &Context) -> Outcome {
    let remote = place(&options.target, context)?;
    let alias = options.target.split('/').next().unwrap_or_default();
    let path = format!("lifecycle/{}/test", remote.bucket);
    let mut order = json!({ "at": options.at });
    let mut total: Option<Value> = None;
    loop {
        let answer = ask_with(context, alias, Method::POST, &path, &[], Some(&order)).await;
        let mut answer = answer.when(|| format!("cannot count for `{remote}`"))?;
        let after = answer["after"].take();
        // All calls count for the time of the first.
        order = json!({ "at": answer["at"], "after": after });
        match &mut total {
            None => total = Some(answer),
            Some(total) => sum(total, &answer),
        }
        if after.is_null() {
            break;
        }
    }
    let total = total.unwrap_or_default();
    let mut table = empty_table();
    table.set_header(["Rule", "Expire", "Old versions", "Markers", "Uploads", "Size"]);
    for rule in total["rules"].as_array().into_iter().flatten() {
        let n = |name: &str| rule[name].as_u64().unwrap_or(0);
        let id = rule["id"].as_str().unwrap_or_default();
        table.add_row([
            if rule["enabled"] == true { id.to_owned() } else { format!("{id} (disabled)") },
            n("expire").to_string(),
            n("remove_versions").to_string(),
            n("remove_markers").to_string(),
            n("abort_uploads").to_string(),
            size_text(n("bytes")),
        ]);
    }
    let text = format!(
        "{table}\n{} looked at; {} due and locked. Nothing was changed.",
        total["looked_at"], total["locked"]
    );
    context.output.result(|| total, || text);
    Ok(())
}

/// Adds the numbers of one answer to another's.
fn sum(total: &mut Value, more: &Value) {
    let add = |total: &mut Value, more: &Value, name: &str| {
        total[name] = json!(total[name].as_u64().unwrap_or(0) + more[name].as_u64().unwrap_or(0));
    };
    for name in ["looked_at", "locked"] {
        add(total, more, name);
    }
    let Some(rules) = total["rules"].as_array_mut() else { return };
    for (rule, more) in rules.iter_mut().zip(more["rules"].as_array().into_iter().flatten()) {
        for name in ["expire", "remove_versions", "remove_markers", "abort_uploads", "bytes"] {
            add(rule, more, name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_make_rules() {
        let mut rule = LifecycleRule::default();
        let flags = Flags {
            prefix: Some("a/".into()),
            tags: Some("k=v".into()),
            size_gt: Some("1KiB".into()),
            expire_days: Some(3),
            noncurrent_expire_newer: Some(2),
            ..Flags::default()
        };
        flags.apply(&mut rule).unwrap();
        assert_eq!(rule.filter.and.object_size_greater_than, Some(1024));
        assert_eq!(which(&rule), "prefix a/, tag k=v, more than 1.0 KiB");
        assert_eq!(what(&rule), "expire after 3 days; remove old versions after 0 days, keep 2");
        let date = Flags { expire_date: Some("2030-01-31".into()), ..Flags::default() };
        date.apply(&mut rule).unwrap();
        assert_eq!(
            (rule.expiration.days, rule.expiration.date.as_deref()),
            (None, Some("2030-01-31T00:00:00Z"))
        );
        assert!(Flags::default().apply(&mut LifecycleRule::default()).is_err());
    }
}
