//! `ashlar admin cluster iam`: exports and imports all users, groups, policies and access keys, with mc's
//! commands.
//!
//! Invariant: the file contains secrets, so only its owner can read it, and an existing file is never
//! overwritten.

use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;

use ashlar_client::Method;
use clap::Subcommand;
use serde_json::{Value, json};

use super::{
    admin_request::ask_with,
    context::Context,
    failure::{Failure, Kind, Outcome},
};

/// Actions on the deployment.
#[derive(Subcommand, Debug)]
pub enum Command {
    /// All identities
    #[command(subcommand)]
    Iam(IamCommand),
}

/// Actions on all identities.
#[derive(Subcommand, Debug)]
pub enum IamCommand {
    /// Write all users, groups, policies and access keys, with their secrets, to a file
    Export {
        /// The server's alias
        alias: String,
        /// The file; ALIAS-iam.json if left out
        #[arg(long, short, value_name = "FILE")]
        output: Option<PathBuf>,
    },
    /// Import a file; identities that it does not name stay. For archives of MinIO: `mc admin cluster iam
    /// import`
    Import {
        /// The server's alias
        alias: String,
        /// The file
        file: PathBuf,
    },
}

/// Runs the command.
pub async fn run(command: Command, context: &Context) -> Outcome {
    let Command::Iam(command) = command;
    match command {
        IamCommand::Export { alias, output } => export(context, &alias, output).await,
        IamCommand::Import { alias, file } => import(context, &alias, file).await,
    }
}

fn failed(path: &std::path::Path, error: impl std::fmt::Display) -> Failure {
    Failure::new(Kind::Failed, format!("{}: {error}", path.display()))
}

async fn export(context: &Context, alias: &str, output: Option<PathBuf>) -> Outcome {
    let answer = ask_with(context, alias, Method::GET, "iam/export", &[], None).await?;
    let path = output.unwrap_or_else(|| format!("{}-iam.json", alias.trim_end_matches('/')).into());
    let text = serde_json::to_vec_pretty(&answer).map_err(|e| failed(&path, e))?;
    let file = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path);
    let mut file = file.map_err(|e| failed(&path, e))?;
    file.write_all(&text).and_then(|()| file.sync_all()).map_err(|e| failed(&path, e))?;
    let count = |name: &str| answer[name].as_object().map_or(0, serde_json::Map::len);
    let counts = ["users", "groups", "policies", "keys"].map(|n| (n, count(n)));
    context.output.done(
        || {
            let mut all = json!({ "file": path.display().to_string() });
            counts.iter().for_each(|(name, n)| all[*name] = json!(n));
            all
        },
        || {
            let [users, groups, policies, keys] = counts.map(|(_, n)| n);
            format!(
                "{users} users, {groups} groups, {policies} policies and {keys} access keys written to `{}`. It holds secrets.",
                path.display()
            )
        },
    );
    Ok(())
}

async fn import(context: &Context, alias: &str, path: PathBuf) -> Outcome {
    let bytes = std::fs::read(&path).map_err(|e| failed(&path, e))?;
    if bytes.starts_with(b"PK") {
        let why = "this is an archive of MinIO; import it with `mc admin cluster iam import`";
        return Err(failed(&path, why));
    }
    let document: Value = serde_json::from_slice(&bytes).map_err(|e| failed(&path, e))?;
    let answer = ask_with(context, alias, Method::POST, "iam/import", &[], Some(&document)).await?;
    let records = answer["records"].as_array().cloned().unwrap_or_default();
    let count = |what: &str| records.iter().filter(|r| r["outcome"] == what).count();
    let refused: Vec<_> = records.iter().filter(|r| r["outcome"] == "failed").collect();
    let show = || answer.clone();
    let text = || {
        let mut lines = vec![format!(
            "{} added, {} skipped, {} failed.",
            count("added"),
            count("skipped"),
            refused.len()
        )];
        for r in &refused {
            let of = |name: &str| r[name].as_str().unwrap_or_default();
            lines.push(format!("{} {}: {}", of("kind"), of("name"), of("why")));
        }
        lines.join("\n")
    };
    context.output.result(show, text);
    if refused.is_empty() { Ok(()) } else { Err(Failure::partly(refused.len() as u64)) }
}
