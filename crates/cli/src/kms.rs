//! `ashlar admin kms`: encryption keys of objects.

use ashlar_client::Method;
use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::{
    admin_request::ask_with,
    context::Context,
    failure::Outcome,
    output::{empty_table, time_text},
};

/// Actions on encryption keys.
#[derive(Subcommand, Debug)]
pub enum Command {
    /// Show where keys are stored and whether they work
    Status {
        /// The server's alias
        alias: String,
    },
    /// Named keys
    #[command(subcommand)]
    Key(KeyCommand),
    /// Seal the keys of objects again, under the newest version of the named key; no data is moved
    Rewrap(RewrapOptions),
}

/// Actions on named keys.
#[derive(Subcommand, Debug)]
pub enum KeyCommand {
    /// Create a key
    Create(One),
    /// Show all keys
    #[command(visible_alias = "ls")]
    List {
        /// The server's alias
        alias: String,
    },
    /// Test a key, and show it
    Status(One),
    /// Add a version to a key: it seals new data keys, the older versions still open theirs
    Rotate(One),
}

/// A server and a key.
#[derive(Args, Debug)]
pub struct One {
    /// The server's alias
    alias: String,
    /// The key's name
    name: String,
}

/// Which objects to rewrap.
#[derive(Args, Debug)]
pub struct RewrapOptions {
    /// ALIAS/BUCKET, or ALIAS with --status
    target: String,
    /// Only objects with this prefix
    #[arg(long, default_value = "")]
    prefix: String,
    /// The named key to seal under; by default the key of each object
    #[arg(long, value_name = "NAME")]
    key: Option<String>,
    /// Show the progress of the last pass
    #[arg(long)]
    status: bool,
}

fn key_text(key: &Value) -> String {
    let version = match key["version"].as_u64() {
        Some(0) | None => "-".to_owned(),
        Some(n) => n.to_string(),
    };
    format!("`{}` works; version {version}", key["name"].as_str().unwrap_or_default())
}

fn table(answer: &Value) -> String {
    let mut table = empty_table();
    table.set_header(["Key", "Version", "Made", "Default"]);
    for key in answer["keys"].as_array().into_iter().flatten() {
        let made = match key["created_ms"].as_i64() {
            Some(ms) if ms > 0 => {
                time_text(time::OffsetDateTime::from_unix_timestamp(ms.div_euclid(1000)).ok())
            }
            _ => "-".to_owned(),
        };
        let default = if key["default"] == true { "yes" } else { "" };
        let name = key["name"].as_str().unwrap_or_default();
        table.add_row([name, &key["version"].to_string(), &made, default]);
    }
    table.to_string()
}

fn rewrap_text(answer: &Value) -> String {
    let state = if answer["running"] == true { "running" } else { "ended" };
    let mut text = format!(
        "`{}`: {state}; {} versions examined, {} sealed again, {} failed",
        answer["bucket"].as_str().unwrap_or_default(),
        answer["looked"],
        answer["sealed"],
        answer["failed"]
    );
    for name in ["last_failure", "problem"] {
        if let Some(why) = answer[name].as_str() {
            text.push_str(&format!("\n{why}"));
        }
    }
    text
}

/// Runs the command.
pub async fn run(command: Command, context: &Context) -> Outcome {
    let (alias, method, path, body) = match &command {
        Command::Status { alias } => (alias.as_str(), Method::GET, "kms/status".to_owned(), None),
        Command::Key(KeyCommand::List { alias }) => {
            (alias.as_str(), Method::GET, "kms/keys".to_owned(), None)
        }
        Command::Key(KeyCommand::Create(one)) => {
            (one.alias.as_str(), Method::PUT, format!("kms/keys/{}", one.name), None)
        }
        Command::Key(KeyCommand::Status(one)) => {
            (one.alias.as_str(), Method::GET, format!("kms/keys/{}", one.name), None)
        }
        Command::Key(KeyCommand::Rotate(one)) => {
            (one.alias.as_str(), Method::POST, format!("kms/keys/{}/rotate", one.name), None)
        }
        Command::Rewrap(options) => {
            let (alias, bucket) = options.target.split_once('/').unwrap_or((&options.target, ""));
            let bucket = bucket.trim_end_matches('/');
            if options.status {
                (alias, Method::GET, "kms/rewrap".to_owned(), None)
            } else {
                let mut body = json!({ "bucket": bucket, "prefix": options.prefix });
                if let Some(key) = &options.key {
                    body["key"] = json!(key);
                }
                (alias, Method::POST, "kms/rewrap".to_owned(), Some(body))
            }
        }
    };
    let answer = ask_with(context, alias, method, &path, &[], body.as_ref()).await?;
    let text = match &command {
        Command::Status { .. } => match answer["driver"].as_str() {
            None | Some("") => "No keys are configured: requests for encryption are refused.".to_owned(),
            Some(driver) => {
                let works = match answer["problem"].as_str() {
                    None => "works".to_owned(),
                    Some(why) => format!("does not work: {why}"),
                };
                let key = answer["default_key"].as_str().unwrap_or_default();
                format!(
                    "Keys: {driver} {}\nThe default key `{key}` {works}",
                    answer["endpoint"].as_str().unwrap_or_default()
                )
            }
        },
        Command::Key(KeyCommand::List { .. }) => table(&answer),
        Command::Key(_) => key_text(&answer),
        Command::Rewrap(_) => rewrap_text(&answer),
    };
    let show = || -> Value { answer.clone() };
    match command {
        Command::Status { .. } | Command::Key(KeyCommand::List { .. } | KeyCommand::Status(_)) => {
            context.output.result(show, || text);
        }
        _ => context.output.done(show, || text),
    }
    Ok(())
}
