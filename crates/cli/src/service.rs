//! `ashlar admin service`: restart, stop and look at the server's process, in mc's verbs.
//!
//! Invariant: "restarted" is said only when the new process has answered, "stopped" only when nobody answers.

use ashlar_environment::time::Instant;
use std::time::Duration;

use ashlar_client::{Client, Config, Method};
use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::{
    admin_request::ask_with,
    context::Context,
    failure::{Failure, Kind, Outcome},
    output::span_text,
};

/// What to do about the server's process.
#[derive(Subcommand, Debug)]
pub enum Command {
    /// Let requests in flight end, and start the same program again in place of the process
    #[command(after_long_help = "\
Drives, addresses and every option stay as they were; if the program's file was replaced, the new one starts. The \
command waits until the new process answers.

Examples:
  ashlar admin service restart it
  ashlar admin service restart it --dry-run")]
    Restart(EndOptions),
    /// Let requests in flight end, and stop the process
    #[command(after_long_help = "\
Under a service manager that restarts what ends (systemd: Restart=always) it comes back: stop it there.

Examples:
  ashlar admin service stop it
  ashlar admin service stop it --no-wait")]
    Stop(EndOptions),
    /// Show whether the server serves, its version, and since when it runs
    #[command(after_long_help = "\
The exit code is 5 if the server does not answer, or cannot read and write all of its data now.

Examples:
  ashlar admin service status it
  ashlar --json admin service status it")]
    Status {
        /// The server's alias
        alias: String,
    },
}

/// How to end it.
#[derive(Args, Debug)]
pub struct EndOptions {
    /// The server's alias
    alias: String,
    /// Only say whether it would be permitted
    #[arg(long)]
    dry_run: bool,
    /// Do not wait until it is done
    #[arg(long)]
    no_wait: bool,
    /// How long to wait, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 120, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    timeout: u64,
}

/// Does it.
pub async fn run(command: Command, context: &Context) -> Outcome {
    match command {
        Command::Restart(options) => restart(&options, context).await,
        Command::Stop(options) => stop(&options, context).await,
        Command::Status { alias } => status(&alias, context).await,
    }
}

/// How often the server is asked whether it is done.
const EVERY: Duration = Duration::from_millis(100);
/// Seconds that a process must have run to be told from the one that follows: they are counted whole.
const YOUNG: u64 = 3;
/// How long one question may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// Asks the server to end; true if there is nothing to wait for.
async fn end(options: &EndOptions, verb: &str, context: &Context) -> Outcome<bool> {
    let order = json!({ "dry_run": options.dry_run });
    let path = format!("service/{verb}");
    let answer = ask_with(context, &options.alias, Method::POST, &path, &[], Some(&order)).await?;
    if options.dry_run {
        context.output.done(|| answer, || format!("`{}` would {verb}.", options.alias));
        return Ok(true);
    }
    if options.no_wait {
        let text = format!("`{}` will {verb} when requests in flight have ended.", options.alias);
        context.output.done(|| answer, || text);
        return Ok(true);
    }
    Ok(false)
}

/// A client that sees it when the server is away, instead of trying again.
fn impatient(alias: &str, context: &Context) -> Outcome<Client> {
    let config = context.aliases.client(alias)?.config().clone();
    Ok(Client::new(Config { attempts: 1, ..config })?)
}

/// What the server says of itself; nothing if it does not answer.
async fn look(client: &Client) -> Option<Value> {
    let asked = client.admin(Method::GET, "info", &[], None);
    ashlar_environment::time::timeout(PATIENCE, asked).await.ok()?.ok()
}

async fn restart(options: &EndOptions, context: &Context) -> Outcome {
    let client = impatient(&options.alias, context)?;
    // How long the process runs tells it from the one that follows, once it has run for some seconds.
    let uptime = |info: &Value| info["uptime_s"].as_u64();
    let mut before = look(&client).await.as_ref().and_then(uptime);
    while before.is_some_and(|s| s < YOUNG) && !options.dry_run && !options.no_wait {
        ashlar_environment::time::sleep(EVERY).await;
        before = look(&client).await.as_ref().and_then(uptime);
    }
    let asked = Instant::now();
    if end(options, "restart", context).await? {
        return Ok(());
    }
    let mut away = false;
    while asked.elapsed() < Duration::from_secs(options.timeout) {
        ashlar_environment::time::sleep(EVERY).await;
        // Who may restart the server need not be permitted to look at it.
        if before.is_none() {
            match client.probe("/minio/health/live").await {
                Ok(()) if away => return restarted(options, asked, None, context),
                Ok(()) => {}
                Err(_) => away = true,
            }
            continue;
        }
        match look(&client).await {
            Some(info) if is_new(before, uptime(&info), asked.elapsed(), away) => {
                return restarted(options, asked, Some(&info), context);
            }
            Some(_) => {}
            None => away = true,
        }
    }
    let why = format!("it has not answered within {} s; its log says why", options.timeout);
    Err(Failure {
        what: format!("`{}` was asked to restart", options.alias),
        ..Failure::new(Kind::Unavailable, why)
    })
}

/// Whether the process that has run for `now` seconds is another one than that which had run for `before`, which was
/// `elapsed` ago.
fn is_new(before: Option<u64>, now: Option<u64>, elapsed: Duration, away: bool) -> bool {
    let (Some(before), Some(now)) = (before, now) else { return away };
    // One that goes on would be older by what passed; seconds are counted whole.
    away || now < before || now + 2 < before + elapsed.as_secs()
}

fn restarted(options: &EndOptions, asked: Instant, info: Option<&Value>, context: &Context) -> Outcome {
    let seconds = asked.elapsed().as_secs_f64();
    let version = info.and_then(|i| i["version"].as_str());
    context.output.done(
        || json!({ "alias": options.alias, "restarted": true, "seconds": seconds, "version": version }),
        || match version {
            Some(version) => {
                format!("`{}` was restarted in {seconds:.1} s and runs {version}.", options.alias)
            }
            None => format!("`{}` was restarted in {seconds:.1} s.", options.alias),
        },
    );
    Ok(())
}

async fn stop(options: &EndOptions, context: &Context) -> Outcome {
    let client = impatient(&options.alias, context)?;
    let asked = Instant::now();
    if end(options, "stop", context).await? {
        return Ok(());
    }
    while asked.elapsed() < Duration::from_secs(options.timeout) {
        if client.probe("/minio/health/live").await.is_err() {
            context.output.done(
                || json!({ "alias": options.alias, "stopped": true }),
                || format!("`{}` is stopped.", options.alias),
            );
            return Ok(());
        }
        ashlar_environment::time::sleep(EVERY).await;
    }
    let why = format!(
        "it still answers after {} s: requests in flight may go on, or it was started again",
        options.timeout
    );
    Err(Failure { what: format!("`{}` was asked to stop", options.alias), ..Failure::new(Kind::Failed, why) })
}

async fn status(alias: &str, context: &Context) -> Outcome {
    let info = ask_with(context, alias, Method::GET, "info", &[], None).await?;
    let yes = |name: &str| info[name].as_bool().unwrap_or(false);
    let (readable, writable) = (yes("readable"), yes("writable"));
    let state = match (readable, writable) {
        (true, true) => "serving",
        (true, false) => "reading only: too many drives are missing to write everywhere",
        _ => "not all data can be read: too many drives are missing",
    };
    let up = info["uptime_s"].as_u64().unwrap_or(0);
    let version = info["version"].as_str().unwrap_or("unknown").to_owned();
    context.output.result(
        || {
            json!({ "alias": alias, "state": if readable && writable { "serving" } else { "degraded" },
                "readable": readable, "writable": writable, "version": version, "uptime_s": up })
        },
        || format!("`{alias}`: {state}, version {version}, up {}", span_text(up)),
    );
    if readable && writable { Ok(()) } else { Err(Failure::new(Kind::Unavailable, state)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_process_that_was_there_is_not_taken_for_the_next() {
        let s = Duration::from_secs;
        assert!(!is_new(Some(100), Some(100), s(0), false), "the old one still answers");
        assert!(!is_new(Some(100), Some(103), s(3), false));
        assert!(!is_new(Some(YOUNG), Some(4), s(2), false), "whole seconds are coarse");
        assert!(is_new(Some(YOUNG), Some(1), s(1), false), "a process that has just run for long enough");
        assert!(is_new(Some(YOUNG), Some(20), s(20), false), "seen late");
        assert!(is_new(Some(100), Some(0), s(1), false));
        assert!(is_new(Some(100), Some(101), s(150), false), "it took long, and runs for 101 s");
        assert!(is_new(Some(0), Some(0), s(1), true), "it was away");
        assert!(!is_new(None, Some(0), s(1), false));
    }
}
