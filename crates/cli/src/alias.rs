//! `ashlar alias`: set, list, remove, import.

use std::{
    fs,
    io::{IsTerminal, Write},
    path::PathBuf,
};

use clap::{Args, Subcommand};
use serde_json::json;

use super::{
    aliases::{Alias, check_name, parse_mc},
    context::Context,
    failure::{Failure, Kind, Outcome, While},
    output::Tone,
};

/// Actions on aliases.
#[derive(Subcommand, Debug)]
pub enum Command {
    /// Add or change an alias
    Set(SetOptions),
    /// Show aliases (secrets only if asked for)
    #[command(visible_alias = "ls")]
    List(ListOptions),
    /// Remove an alias
    #[command(visible_alias = "rm")]
    Remove {
        /// The alias
        name: String,
    },
    /// Import the aliases of mc
    Import(ImportOptions),
}

/// A new alias.
#[derive(Args, Debug)]
pub struct SetOptions {
    /// The name to use before the first slash of paths
    name: String,
    /// For instance http://127.0.0.1:9000
    url: String,
    /// Access key; asked for if missing
    access_key: Option<String>,
    /// Secret key; asked for if missing, which keeps it out of the shell's history
    secret_key: Option<String>,
    /// Region for signatures [default: us-east-1]
    #[arg(long)]
    region: Option<String>,
    /// Whether the bucket's name goes into the path: on, off or auto
    #[arg(long, value_parser = ["auto", "on", "off"])]
    path: Option<String>,
    /// How data is signed: auto (trailing checksum), signed, or unsigned for old servers
    #[arg(long, value_parser = ["auto", "signed", "unsigned"])]
    payload: Option<String>,
    /// Anonymous access, without keys
    #[arg(long, conflicts_with_all = ["access_key", "secret_key"])]
    anonymous: bool,
    /// Store it without asking the server whether it works
    #[arg(long)]
    no_check: bool,
}

/// Which aliases to list.
#[derive(Args, Debug)]
pub struct ListOptions {
    /// Only this one
    name: Option<String>,
    /// Show secret keys too
    #[arg(long)]
    show_secrets: bool,
}

/// Where to import aliases from.
#[derive(Args, Debug)]
pub struct ImportOptions {
    /// mc's configuration file
    #[arg(default_value = "~/.mc/config.json")]
    file: String,
    /// Replace aliases that exist already
    #[arg(long)]
    overwrite: bool,
}

/// Runs the command.
pub async fn run(command: Command, context: &mut Context) -> Outcome {
    match command {
        Command::Set(options) => set(options, context).await,
        Command::List(options) => list(&options, context),
        Command::Remove { name } => {
            context.aliases.remove(&name)?;
            context.output.done(|| json!({ "alias": name }), || format!("Removed `{name}`."));
            Ok(())
        }
        Command::Import(options) => import(&options, context),
    }
}

async fn set(options: SetOptions, context: &mut Context) -> Outcome {
    check_name(&options.name)?;
    let (access_key, secret_key) = if options.anonymous {
        (String::new(), String::new())
    } else {
        let access = options.access_key.map_or_else(|| ask("Access key: ", false), Ok)?;
        let secret = options.secret_key.map_or_else(|| ask("Secret key: ", true), Ok)?;
        if access.is_empty() || secret.is_empty() {
            return Err(Failure::usage("keys cannot be empty; use --anonymous for none"));
        }
        (access, secret)
    };
    let alias = Alias {
        url: options.url.trim_end_matches('/').to_owned(),
        access_key,
        secret_key,
        session_token: None,
        region: options.region,
        path: options.path,
        payload: options.payload,
    };
    let client = context.aliases.client_of(&alias)?;
    if !options.no_check && !options.anonymous {
        match client.list_buckets().await {
            Ok(_) => {}
            // Keys without permission to list buckets may still work for their own bucket.
            Err(error) if error.code() == Some("AccessDenied") => {}
            Err(error) => {
                return Err(error)
                    .when(|| format!("`{}` does not work (--no-check stores it anyway)", alias.url));
            }
        }
    }
    let url = alias.url.clone();
    context.aliases.set(&options.name, alias)?;
    context
        .output
        .done(|| json!({ "alias": options.name, "URL": url }), || format!("Added `{}`.", options.name));
    Ok(())
}

/// Prompts on the terminal (without echo for secrets), or reads a line of the standard input.
pub(super) fn ask(prompt: &str, secret: bool) -> Outcome<String> {
    let terminal = std::io::stdin().is_terminal();
    let echo = |on: bool| {
        if terminal && secret {
            let flag = if on { "echo" } else { "-echo" };
            let _ = std::process::Command::new("stty").arg(flag).status();
        }
    };
    if terminal {
        eprint!("{prompt}");
        let _ = std::io::stderr().flush();
    }
    echo(false);
    let mut line = String::new();
    let read = std::io::stdin().read_line(&mut line);
    echo(true);
    if terminal && secret {
        eprintln!();
    }
    if read.when(|| "cannot read the keys".into())? == 0 {
        return Err(Failure::usage("the access key and the secret key are missing"));
    }
    Ok(line.trim_end_matches(['\r', '\n']).to_owned())
}

fn list(options: &ListOptions, context: &Context) -> Outcome {
    let mut shown = 0;
    for (name, alias, from_environment) in context.aliases.all() {
        if options.name.as_deref().is_some_and(|wanted| wanted != name) {
            continue;
        }
        shown += 1;
        let secret = match (alias.secret_key.as_str(), options.show_secrets) {
            ("", _) => "",
            (secret, true) => secret,
            (_, false) => "***",
        };
        let source = if from_environment {
            "environment".into()
        } else {
            context.aliases.file().display().to_string()
        };
        context.output.result(
            || {
                json!({
                    "alias": name, "URL": alias.url, "accessKey": alias.access_key, "secretKey": secret,
                    "region": alias.region, "path": alias.path.as_deref().unwrap_or("auto"), "src": source,
                })
            },
            || {
                let name = context.output.paint(Tone::Folder, name);
                let keys = if alias.access_key.is_empty() {
                    "anonymous".into()
                } else {
                    format!("{} {secret}", alias.access_key)
                };
                format!("{name}\n  URL  {}\n  Keys {keys}\n  From {source}", alias.url)
            },
        );
    }
    match (&options.name, shown) {
        (Some(name), 0) => Err(Failure::new(Kind::NotFound, format!("no alias is called `{name}`"))),
        (None, 0) => {
            context.output.note("No alias yet: ashlar alias set NAME URL");
            Ok(())
        }
        _ => Ok(()),
    }
}

fn import(options: &ImportOptions, context: &mut Context) -> Outcome {
    let file = match options.file.strip_prefix("~/") {
        Some(rest) => {
            PathBuf::from(ashlar_environment::process::variable_os("HOME").unwrap_or_default()).join(rest)
        }
        None => PathBuf::from(&options.file),
    };
    let text = fs::read_to_string(&file).when(|| format!("cannot read {}", file.display()))?;
    let mut found =
        parse_mc(&text).map_err(|e| Failure::new(Kind::Failed, format!("{}: {e}", file.display())))?;
    let names: Vec<String> = found.keys().cloned().collect();
    for name in names {
        let exists = context.aliases.get(&name).is_some() && !options.overwrite;
        if exists || check_name(&name).is_err() {
            let why =
                if exists { "exists already (--overwrite replaces it)" } else { "is not a valid alias name" };
            context.output.note(&format!("`{name}` {why}"));
            found.remove(&name);
        }
    }
    let imported: Vec<(String, String)> = found.iter().map(|(n, a)| (n.clone(), a.url.clone())).collect();
    context.aliases.extend(found)?;
    for (name, url) in &imported {
        context
            .output
            .done(|| json!({ "alias": name, "URL": url }), || format!("Imported `{name}` ({url})."));
    }
    if imported.is_empty() {
        context.output.note("Nothing to import.");
    }
    Ok(())
}
