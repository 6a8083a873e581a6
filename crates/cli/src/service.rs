//! `ashlar admin service`: restarts, stops and shows the server's process, with mc's commands.
//!
//! Invariant: "restarted" is printed only after the new process has answered, "stopped" only when no process
//! answers.

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
    rolling,
};

/// Actions on the server's process.
#[derive(Subcommand, Debug)]
pub enum Command {
    /// Complete requests in flight, and start the same program again in place of the process
    #[command(after_long_help = "\
Drives, addresses and every option stay as they were; if the program's file was replaced, the new one starts. The \
command waits until the new process answers.

The nodes of a cluster restart one after another: each when `ashlar cluster may-stop` says that it can be stopped, the \
next one when the one before answers again. With --node only that node restarts, without this check. If the command is interrupted, the remaining nodes keep running; it can be run again.

Examples:
  ashlar admin service restart it
  ashlar admin service restart it --dry-run
  ashlar admin service restart it --node 3")]
    Restart(EndOptions),
    /// Complete requests in flight, and stop the process
    #[command(after_long_help = "\
A service manager that restarts processes (systemd: Restart=always) starts it again: stop it there. In a cluster, the node behind the alias is stopped, or the one that --node names.

Examples:
  ashlar admin service stop it
  ashlar admin service stop it --no-wait")]
    Stop(EndOptions),
    /// Show whether the server is ready, its version, and its uptime
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

/// How to end the process.
#[derive(Args, Debug)]
pub struct EndOptions {
    /// The server's alias
    pub alias: String,
    /// Only show whether it is permitted
    #[arg(long)]
    pub dry_run: bool,
    /// Do not wait for the result
    #[arg(long)]
    pub no_wait: bool,
    /// Only this node of a cluster
    #[arg(long, value_name = "N")]
    pub node: Option<u16>,
    /// How long to wait, in seconds; in a cluster, for each node to be able to stop, and to be back
    #[arg(long, value_name = "SECONDS", default_value_t = 120, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub timeout: u64,
}

/// Runs the command.
pub async fn run(command: Command, context: &Context) -> Outcome {
    match command {
        Command::Restart(options) => match options.node {
            Some(number) => rolling::restart_one(&options, number, context).await,
            None if rolling::is_cluster(context, &options.alias).await => {
                rolling::restart_all(&options, context).await
            }
            None => restart(&options, context).await,
        },
        Command::Stop(options) => match options.node {
            Some(number) => rolling::stop_one(&options, number, context).await,
            None => stop(&options, context).await,
        },
        Command::Status { alias } => status(&alias, context).await,
    }
}

/// Time between requests while waiting.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// Minimum uptime in seconds that distinguishes a process from its successor: uptimes are whole seconds.
const MIN_UPTIME: u64 = 3;
/// Time limit of one request.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Asks the server to end; returns true if there is nothing to wait for.
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

/// A client that reports an unreachable server at once, without retries.
pub fn client_without_retries(alias: &str, context: &Context) -> Outcome<Client> {
    let config = context.aliases.client(alias)?.config().clone();
    Ok(Client::new(Config { attempts: 1, ..config })?)
}

/// The state that the server reports; `None` if it does not answer.
async fn server_info(client: &Client) -> Option<Value> {
    let asked = client.admin(Method::GET, "info", &[], None);
    ashlar_environment::time::timeout(TIMEOUT, asked).await.ok()?.ok()
}

async fn restart(options: &EndOptions, context: &Context) -> Outcome {
    let client = client_without_retries(&options.alias, context)?;
    // The uptime distinguishes the process from its successor, once it is a few seconds old.
    let uptime = |info: &Value| info["uptime_s"].as_u64();
    let mut before = server_info(&client).await.as_ref().and_then(uptime);
    while before.is_some_and(|s| s < MIN_UPTIME) && !options.dry_run && !options.no_wait {
        ashlar_environment::time::sleep(POLL_INTERVAL).await;
        before = server_info(&client).await.as_ref().and_then(uptime);
    }
    let asked = Instant::now();
    if end(options, "restart", context).await? {
        return Ok(());
    }
    let mut away = false;
    while asked.elapsed() < Duration::from_secs(options.timeout) {
        ashlar_environment::time::sleep(POLL_INTERVAL).await;
        // A caller with permission to restart the server may lack the permission to read its state.
        if before.is_none() {
            match client.probe("/minio/health/live").await {
                Ok(()) if away => return restarted(options, asked, None, context),
                Ok(()) => {}
                Err(_) => away = true,
            }
            continue;
        }
        match server_info(&client).await {
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

/// Whether the process with uptime `now` is another one than the process that had uptime `before`, `elapsed`
/// ago.
fn is_new(before: Option<u64>, now: Option<u64>, elapsed: Duration, away: bool) -> bool {
    let (Some(before), Some(now)) = (before, now) else { return away };
    // The same process would be older by the elapsed time; uptimes are whole seconds.
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
    let client = client_without_retries(&options.alias, context)?;
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
        ashlar_environment::time::sleep(POLL_INTERVAL).await;
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
    fn old_process_is_distinguished_from_its_successor() {
        let s = Duration::from_secs;
        assert!(!is_new(Some(100), Some(100), s(0), false), "the old one still answers");
        assert!(!is_new(Some(100), Some(103), s(3), false));
        assert!(!is_new(Some(MIN_UPTIME), Some(4), s(2), false), "whole seconds are coarse");
        assert!(
            is_new(Some(MIN_UPTIME), Some(1), s(1), false),
            "a process that has just run for long enough"
        );
        assert!(is_new(Some(MIN_UPTIME), Some(20), s(20), false), "seen late");
        assert!(is_new(Some(100), Some(0), s(1), false));
        assert!(is_new(Some(100), Some(101), s(150), false), "it took long, and runs for 101 s");
        assert!(is_new(Some(0), Some(0), s(1), true), "it was away");
        assert!(!is_new(None, Some(0), s(1), false));
    }
}
