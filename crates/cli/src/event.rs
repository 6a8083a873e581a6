//! `ashlar event`, `ashlar watch`: who is told of what happens in a bucket, in mc's verbs; what could not be
//! delivered; what happens now.

use std::time::Duration;

use ashlar_client::{Call, Method, Notice, Target};
use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::{
    admin_request::ask_with,
    context::Context,
    failure::{Failure, Outcome},
    place::Place,
};

/// How long a stream may be silent: it is pinged more often.
const SILENCE: Duration = Duration::from_secs(60);

/// What to do about events.
#[derive(Subcommand, Debug)]
pub enum Command {
    /// Tell a target of what happens in a bucket
    Add(Rule),
    /// Show who is told of what happens in a bucket
    #[command(visible_alias = "list")]
    Ls {
        /// ALIAS/BUCKET
        target: String,
    },
    /// Tell a target no longer
    #[command(visible_alias = "remove")]
    Rm(Rule),
    /// Show where events are sent and how that goes
    Targets {
        /// The server's alias
        alias: String,
    },
    /// Events that could not be delivered
    #[command(subcommand)]
    DeadLetters(Letters),
}

/// Who is told what.
#[derive(Args, Debug)]
pub struct Rule {
    /// ALIAS/BUCKET
    target: String,
    /// The target's ARN: arn:minio:sqs::ID:TYPE
    arn: String,
    /// put, delete, get, or names such as s3:ObjectTagging:*
    #[arg(long, value_delimiter = ',', default_value = "put,delete,get")]
    event: Vec<String>,
    /// Keys begin so
    #[arg(long, default_value = "")]
    prefix: String,
    /// Keys end so
    #[arg(long, default_value = "")]
    suffix: String,
}

/// What to do about events that could not be delivered.
#[derive(Subcommand, Debug)]
pub enum Letters {
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

/// What to watch.
#[derive(Args, Debug)]
pub struct WatchOptions {
    /// ALIAS, ALIAS/BUCKET or ALIAS/BUCKET/PREFIX
    target: String,
    /// put, delete, get, or names such as s3:ObjectTagging:*
    #[arg(long, value_delimiter = ',', default_value = "put,delete,get")]
    event: Vec<String>,
    /// Keys end so
    #[arg(long, default_value = "")]
    suffix: String,
}

/// mc's words, and names as they are.
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

/// Shows or changes who is told.
pub async fn run(command: Command, context: &Context) -> Outcome {
    match command {
        Command::Ls { target } => {
            let remote = Place::remote(&target, &context.aliases)?;
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
            let remote = Place::remote(&rule.target, &context.aliases)?;
            remote.only_bucket()?;
            let mut all = remote.client.notifications(&remote.bucket).await?;
            let new = Notice {
                id: String::new(),
                shape: "QueueConfiguration".into(),
                arn: rule.arn,
                events: names(&rule.event),
                prefix: rule.prefix,
                suffix: rule.suffix,
            };
            let text = format!("`{}` is told of {} in `{remote}`.", new.arn, new.events.join(", "));
            let object = shown(&new);
            all.push(new);
            remote.client.set_notices(&remote.bucket, &all).await?;
            context.output.done(|| object, || text);
            Ok(())
        }
        Command::Rm(rule) => {
            let remote = Place::remote(&rule.target, &context.aliases)?;
            remote.only_bucket()?;
            let all = remote.client.notifications(&remote.bucket).await?;
            let mut events = names(&rule.event);
            events.sort();
            let meant = |n: &Notice| {
                let mut theirs = n.events.clone();
                theirs.sort();
                n.arn == rule.arn && theirs == events && n.prefix == rule.prefix && n.suffix == rule.suffix
            };
            let (gone, rest): (Vec<Notice>, Vec<Notice>) = all.into_iter().partition(meant);
            if gone.is_empty() {
                return Err(Failure::usage(format!(
                    "`{remote}` has no such rule; name events, prefix and suffix as `ashlar event ls` shows them"
                )));
            }
            remote.client.set_notices(&remote.bucket, &rest).await?;
            let text = format!("`{}` is told of that no longer.", rule.arn);
            context.output.done(|| json!({ "removed": gone.len() }), || text);
            Ok(())
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
        Command::DeadLetters(command) => letters(command, context).await,
    }
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

async fn letters(command: Letters, context: &Context) -> Outcome {
    let path = |target: &str, end: &str| format!("dead-letters/{target}{end}");
    match command {
        Letters::Ls { alias, target } => {
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
        Letters::Replay { alias, target } => {
            let answer =
                ask_with(context, &alias, Method::POST, &path(&target, "/replay"), &[], None).await?;
            let text = format!("{} sent to `{target}` again.", answer["count"]);
            context.output.done(|| answer, || text);
        }
        Letters::Rm { alias, target, id } => {
            let query: Vec<(&str, &str)> = id.iter().map(|i| ("id", i.as_str())).collect();
            let answer = ask_with(context, &alias, Method::DELETE, &path(&target, ""), &query, None).await?;
            let text = format!("{} removed.", answer["count"]);
            context.output.done(|| answer, || text);
        }
    }
    Ok(())
}

/// Prints what happens until it is interrupted or the server ends.
pub async fn watch(options: &WatchOptions, context: &Context) -> Outcome {
    let remote = Place::remote(&options.target, &context.aliases)?;
    let target = if remote.bucket.is_empty() { Target::Service } else { Target::Bucket(&remote.bucket) };
    let events = names(&options.event).join(",");
    let call = Call::new(Method::GET, target).query("ping", "10").query("events", events);
    let mut call = call.query("prefix", remote.key.as_str()).query("suffix", options.suffix.as_str());
    call.patience = Some(SILENCE);
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
