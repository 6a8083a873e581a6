//! `ashlar event`, `ashlar watch`: bucket notifications with mc's commands, undelivered events, and a live
//! stream of events.

use std::time::Duration;

use ashlar_client::{Call, Method, Notice, Target};
use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::{
    admin_request::ask_with,
    context::Context,
    document,
    failure::{Failure, Kind, Outcome},
    location::Location,
};

/// Time limit for silence of a stream: the server sends pings more often.
const IDLE_TIMEOUT: Duration = Duration::from_secs(60);

/// Actions on bucket notifications.
#[derive(Subcommand, Debug)]
pub enum Command {
    /// Send events of a bucket to a target
    Add(Rule),
    /// Show the notification rules of a bucket
    #[command(visible_alias = "list")]
    Ls {
        /// ALIAS/BUCKET
        target: String,
    },
    /// Stop sending events of a bucket to a target, or to all
    #[command(visible_alias = "remove")]
    Rm(RemoveOptions),
    /// Print the notification rules of a bucket as XML
    Export {
        /// ALIAS/BUCKET
        target: String,
    },
    /// Replace the notification rules of a bucket by those in a file, S3's XML
    Import {
        /// ALIAS/BUCKET
        target: String,
        /// The rules; `-` reads the standard input
        #[arg(default_value = "-")]
        file: String,
    },
    /// Show the targets and their state
    Targets {
        /// The server's alias
        alias: String,
    },
    /// Send a test event to a target, and show whether it was accepted
    Test {
        /// The server's alias
        alias: String,
        /// The target, ID:TYPE
        target: String,
    },
    /// List, resend or remove events that could not be delivered
    #[command(subcommand)]
    DeadLetters(DeadLetterCommand),
}

/// A notification rule.
#[derive(Args, Debug)]
pub struct Rule {
    /// ALIAS/BUCKET
    target: String,
    /// The target's ARN: arn:minio:sqs::ID:TYPE
    arn: String,
    #[command(flatten)]
    events: Events,
}

/// Notification rules to remove.
#[derive(Args, Debug)]
pub struct RemoveOptions {
    /// ALIAS/BUCKET
    target: String,
    /// The target's ARN: arn:minio:sqs::ID:TYPE
    #[arg(required_unless_present = "force")]
    arn: Option<String>,
    /// Without an ARN: remove all rules
    #[arg(long, conflicts_with_all = ["arn", "event", "prefix", "suffix"])]
    force: bool,
    #[command(flatten)]
    events: Events,
}

/// The events of a notification rule.
#[derive(Args, Debug)]
pub struct Events {
    /// put, delete, get, or names such as s3:ObjectTagging:*
    #[arg(long, value_delimiter = ',', default_value = "put,delete,get")]
    event: Vec<String>,
    /// Only keys with this prefix
    #[arg(long, default_value = "")]
    prefix: String,
    /// Only keys with this suffix
    #[arg(long, default_value = "")]
    suffix: String,
}

/// Actions on events that could not be delivered.
#[derive(Subcommand, Debug)]
pub enum DeadLetterCommand {
    /// Show the oldest
    #[command(visible_alias = "list")]
    Ls {
        /// The server's alias
        alias: String,
        /// Only those for this target, ID:TYPE
        target: Option<String>,
    },
    /// Send them again, oldest first
    Replay {
        /// The server's alias
        alias: String,
        /// The target, ID:TYPE
        target: String,
    },
    /// Remove them
    #[command(visible_alias = "remove")]
    Rm {
        /// The server's alias
        alias: String,
        /// The target, ID:TYPE
        target: String,
        /// Only this one
        #[arg(long)]
        id: Option<String>,
    },
}

/// Which events to print.
#[derive(Args, Debug)]
pub struct WatchOptions {
    /// ALIAS, ALIAS/BUCKET or ALIAS/BUCKET/PREFIX
    target: String,
    /// put, delete, get, or names such as s3:ObjectTagging:*
    #[arg(long, value_delimiter = ',', default_value = "put,delete,get")]
    event: Vec<String>,
    /// Only keys with this suffix
    #[arg(long, default_value = "")]
    suffix: String,
}

/// Translates mc's words to names of events; other names stay.
fn names(words: &[String]) -> Vec<String> {
    let of = |word: &String| match word.as_str() {
        "put" => "s3:ObjectCreated:*".to_owned(),
        "delete" => "s3:ObjectRemoved:*".to_owned(),
        "get" => "s3:ObjectAccessed:*".to_owned(),
        "ilm" => "s3:LifecycleExpiration:*".to_owned(),
        name => name.to_owned(),
    };
    words.iter().map(of).collect()
}

/// Shows or changes notification rules.
pub async fn run(command: Command, context: &Context) -> Outcome {
    match command {
        Command::Ls { target } => {
            let remote = Location::remote(&target, &context.aliases)?;
            remote.only_bucket()?;
            let all = remote.client.notifications(&remote.bucket).await?;
            for n in &all {
                let filter = |name: &str, value: &str| match value {
                    "" => String::new(),
                    value => format!("  {name}=\"{value}\""),
                };
                let (prefix, suffix) = (filter("prefix", &n.prefix), filter("suffix", &n.suffix));
                let text = format!("{}  {}{prefix}{suffix}", n.arn, n.events.join(","));
                context.output.result(|| shown(n), || text);
            }
            Ok(())
        }
        Command::Add(rule) => {
            let remote = Location::remote(&rule.target, &context.aliases)?;
            remote.only_bucket()?;
            let mut all = remote.client.notifications(&remote.bucket).await?;
            let new = Notice {
                id: String::new(),
                shape: "QueueConfiguration".into(),
                arn: rule.arn,
                events: names(&rule.events.event),
                prefix: rule.events.prefix,
                suffix: rule.events.suffix,
            };
            let text = format!("`{}` receives {} of `{remote}`.", new.arn, new.events.join(", "));
            let object = shown(&new);
            all.push(new);
            remote.client.set_notices(&remote.bucket, &all).await?;
            context.output.done(|| object, || text);
            Ok(())
        }
        Command::Rm(options) => remove(options, context).await,
        Command::Export { target } => {
            let remote = document::bucket(&target, context)?;
            match document::get(&remote, "notification").await? {
                // A bucket without rules has an empty document.
                text if text.contains("Configuration>") && text.contains("<Event>") => {
                    document::print(context, &remote, &text);
                }
                _ => return Err(document::none(&remote, "notification")),
            }
            Ok(())
        }
        Command::Import { target, file } => {
            let remote = document::bucket(&target, context)?;
            document::set(context, &remote, "notification", &document::read(&file)?).await
        }
        Command::Targets { alias } => {
            let answer = ask_with(context, &alias, Method::GET, "events", &[], None).await?;
            let text = lines(&answer["targets"], |t| {
                let state = t["problem"].as_str().map_or("online".to_owned(), |why| format!("away: {why}"));
                format!(
                    "{}  sent {}  waiting {}  dead {}  {state}",
                    word(t, "arn"),
                    t["sent"],
                    t["lag"],
                    t["dead"]
                )
            });
            context.output.result(|| answer, || text);
            Ok(())
        }
        Command::Test { alias, target } => {
            let path = format!("events/{target}/test");
            let answer = ask_with(context, &alias, Method::POST, &path, &[], None).await?;
            if answer["accepted"] != true {
                let why = word(&answer, "problem").to_owned();
                let what = format!("`{target}` did not accept the test event");
                return Err(Failure { what, ..Failure::new(Kind::Failed, why) });
            }
            let text = format!("`{target}` accepted the test event in {} ms.", answer["took_ms"]);
            context.output.done(|| answer, || text);
            Ok(())
        }
        Command::DeadLetters(command) => dead_letters(command, context).await,
    }
}

/// Removes the rules that have this target and exactly these events and filters; without a target, all rules.
async fn remove(options: RemoveOptions, context: &Context) -> Outcome {
    let RemoveOptions { target, arn, events: rule, .. } = options;
    let remote = document::bucket(&target, context)?;
    let all = remote.client.notifications(&remote.bucket).await?;
    let Some(arn) = arn else {
        remote.client.set_notices(&remote.bucket, &[]).await?;
        let text = format!("No target receives events of `{remote}` any more.");
        context.output.done(|| json!({ "removed": all.len() }), || text);
        return Ok(());
    };
    let mut events = names(&rule.event);
    events.sort();
    let meant = |n: &Notice| {
        let mut theirs = n.events.clone();
        theirs.sort();
        n.arn == arn && theirs == events && n.prefix == rule.prefix && n.suffix == rule.suffix
    };
    let (gone, rest): (Vec<Notice>, Vec<Notice>) = all.into_iter().partition(meant);
    if gone.is_empty() {
        return Err(Failure::usage(format!(
            "`{remote}` has no such rule; name events, prefix and suffix as `ashlar event ls` shows them"
        )));
    }
    remote.client.set_notices(&remote.bucket, &rest).await?;
    context
        .output
        .done(|| json!({ "removed": gone.len() }), || format!("`{arn}` no longer receives these events."));
    Ok(())
}

fn shown(n: &Notice) -> Value {
    json!({ "id": n.id, "arn": n.arn, "events": n.events, "prefix": n.prefix, "suffix": n.suffix })
}

fn word<'a>(value: &'a Value, name: &str) -> &'a str {
    value[name].as_str().unwrap_or_default()
}

fn lines(list: &Value, one: impl Fn(&Value) -> String) -> String {
    let all: Vec<String> = list.as_array().into_iter().flatten().map(one).collect();
    if all.is_empty() { "There are none.".into() } else { all.join("\n") }
}

async fn dead_letters(command: DeadLetterCommand, context: &Context) -> Outcome {
    let path = |target: &str, end: &str| format!("dead-letters/{target}{end}");
    match command {
        DeadLetterCommand::Ls { alias, target } => {
            let query: Vec<(&str, &str)> = target.iter().map(|t| ("target", t.as_str())).collect();
            let answer = ask_with(context, &alias, Method::GET, "dead-letters", &query, None).await?;
            let text = lines(&answer["letters"], |l| {
                let event = &l["event"];
                let what = match event.is_null() {
                    true => format!("{} changes", l["lost"]),
                    false => {
                        format!("{} {}/{}", word(event, "name"), word(event, "bucket"), word(event, "key"))
                    }
                };
                format!("{}  {what}  {}", word(l, "id"), word(l, "why"))
            });
            context.output.result(|| answer, || text);
        }
        DeadLetterCommand::Replay { alias, target } => {
            let answer =
                ask_with(context, &alias, Method::POST, &path(&target, "/replay"), &[], None).await?;
            let text = format!("{} sent to `{target}` again.", answer["count"]);
            context.output.done(|| answer, || text);
        }
        DeadLetterCommand::Rm { alias, target, id } => {
            let query: Vec<(&str, &str)> = id.iter().map(|i| ("id", i.as_str())).collect();
            let answer = ask_with(context, &alias, Method::DELETE, &path(&target, ""), &query, None).await?;
            let text = format!("{} removed.", answer["count"]);
            context.output.done(|| answer, || text);
        }
    }
    Ok(())
}

/// Prints events until it is interrupted or the server stops.
pub async fn watch(options: &WatchOptions, context: &Context) -> Outcome {
    let remote = Location::remote(&options.target, &context.aliases)?;
    let target = if remote.bucket.is_empty() { Target::Service } else { Target::Bucket(&remote.bucket) };
    let events = names(&options.event).join(",");
    let call = Call::new(Method::GET, target).query("ping", "10").query("events", events);
    let mut call = call.query("prefix", remote.key.as_str()).query("suffix", options.suffix.as_str());
    call.patience = Some(IDLE_TIMEOUT);
    let mut answer = remote.client.execute(call).await?;
    let mut rest = Vec::new();
    while let Some(piece) = answer.piece().await? {
        rest.extend_from_slice(&piece);
        while let Some(at) = rest.iter().position(|b| *b == b'\n') {
            let line: Vec<u8> = rest.drain(..=at).collect();
            let Ok(document) = serde_json::from_slice::<Value>(&line) else { continue };
            if let Some(missed) = document["Missed"].as_u64() {
                context.output.note(&format!("{missed} events were missed"));
            }
            for record in document["Records"].as_array().into_iter().flatten() {
                let (s3, key) = (&record["s3"], word(&record["s3"]["object"], "key"));
                let text = format!(
                    "[{}] {} {}/{key}",
                    word(record, "eventTime"),
                    word(record, "eventName"),
                    word(&s3["bucket"], "name")
                );
                context.output.result(|| record.clone(), || text);
                context.output.flush();
            }
        }
    }
    Ok(())
}
