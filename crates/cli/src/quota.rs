//! `ashlar quota`: quotas of buckets, with mc's commands.

use ashlar_client::Method;
use clap::Subcommand;
use serde_json::{Value, json};

use super::{
    admin_request::ask_with,
    context::Context,
    failure::{Failure, Outcome},
    location::Location,
    output::size_text,
};
use ashlar_arguments::size;

/// Actions on the quota of a bucket.
#[derive(Subcommand, Debug)]
pub enum Command {
    /// Limit the total size of all versions in a bucket
    Set {
        /// ALIAS/BUCKET
        target: String,
        /// The limit, such as 500GB or 2TiB
        #[arg(long, value_name = "SIZE")]
        size: String,
    },
    /// Show the limit of a bucket and its size
    Info {
        /// ALIAS/BUCKET
        target: String,
    },
    /// Remove the limit of a bucket
    Clear {
        /// ALIAS/BUCKET
        target: String,
    },
}

/// Shows or changes a quota.
pub async fn run(command: Command, context: &Context) -> Outcome {
    let (target, method, body) = match &command {
        Command::Set { target, size } => {
            let bytes = size::parse(size).map_err(|why| Failure::usage(format!("--size: {why}")))?;
            (target, Method::PUT, Some(json!({ "quota": bytes })))
        }
        Command::Info { target } => (target, Method::GET, None),
        Command::Clear { target } => (target, Method::DELETE, None),
    };
    let remote = Location::remote(target, &context.aliases)?;
    remote.only_bucket()?;
    let alias = target.split('/').next().unwrap_or_default();
    let path = format!("quotas/{}", remote.bucket);
    let answer = ask_with(context, alias, method, &path, &[], body.as_ref()).await?;
    let text = match (answer["quota"].as_u64(), answer["bytes"].as_u64()) {
        (None, _) => format!("`{remote}` has no limit."),
        (Some(limit), None) => format!("`{remote}` may hold {}; it is being counted.", size_text(limit)),
        (Some(limit), Some(used)) => {
            let percent = used.saturating_mul(100) / limit.max(1);
            format!("`{remote}` holds {} of {} ({percent} %).", size_text(used), size_text(limit))
        }
    };
    let show = || -> Value { answer.clone() };
    match command {
        Command::Info { .. } => context.output.result(show, || text),
        _ => context.output.done(show, || text),
    }
    Ok(())
}
