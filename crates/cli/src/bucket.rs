//! `ashlar mb`, `ashlar rb`, `ashlar bucket`: buckets, their versioning and tags; websites and access logs are in `website`.

use ashlar_client::{Identifier, Tags, Target, Versioning};
use clap::{Args, Subcommand};
use futures::StreamExt;
use serde_json::json;

use super::{
    context::{Context, each},
    failure::{Failure, Kind, Outcome, While},
    location::{Location, Remote},
    rm, tree, website,
};

/// Buckets to create.
#[derive(Args, Debug)]
pub struct MakeOptions {
    /// ALIAS/BUCKET
    #[arg(required = true)]
    targets: Vec<String>,
    /// Succeed if the bucket exists and is yours
    #[arg(long, short = 'p')]
    ignore_existing: bool,
    /// Allow object lock for its versions (if the server supports object lock)
    #[arg(long, visible_alias = "l")]
    with_lock: bool,
    /// Enable versioning
    #[arg(long)]
    with_versioning: bool,
}

/// Buckets to remove.
#[derive(Args, Debug)]
pub struct RemoveOptions {
    /// ALIAS/BUCKET
    #[arg(required = true)]
    targets: Vec<String>,
    /// Also remove its content: all objects, all versions, incomplete uploads
    #[arg(long)]
    force: bool,
}

/// Settings of a bucket.
#[derive(Subcommand, Debug)]
pub enum Command {
    /// Keep every version of every object
    #[command(subcommand)]
    Versioning(VersioningCommand),
    /// Tags of a bucket
    #[command(subcommand)]
    Tag(TagCommand),
    /// Serve a bucket as a website
    #[command(subcommand)]
    Website(website::WebsiteCommand),
    /// Log the requests to a bucket (server access logging)
    #[command(subcommand)]
    Logging(website::LoggingCommand),
}

/// Actions on versioning.
#[derive(Subcommand, Debug)]
pub enum VersioningCommand {
    /// Enable versioning: every write creates a version
    Enable {
        /// ALIAS/BUCKET
        target: String,
    },
    /// Suspend versioning: writes replace the null version; existing versions stay
    Suspend {
        /// ALIAS/BUCKET
        target: String,
    },
    /// Show whether versioning is enabled
    Info {
        /// ALIAS/BUCKET
        target: String,
    },
}

/// Actions on tags.
#[derive(Subcommand, Debug)]
pub enum TagCommand {
    /// Show the tags
    List {
        /// ALIAS/BUCKET
        target: String,
    },
    /// Replace all tags
    Set {
        /// ALIAS/BUCKET
        target: String,
        /// As NAME=VALUE&NAME=VALUE
        tags: String,
    },
    /// Remove all tags
    Remove {
        /// ALIAS/BUCKET
        target: String,
    },
}

/// Creates buckets.
pub async fn make(options: &MakeOptions, context: &Context) -> Outcome {
    each(context, &options.targets, |target| async move {
        let remote = Location::remote(target, &context.aliases)?;
        remote.only_bucket()?;
        match remote.client.create_bucket(&remote.bucket, options.with_lock).await {
            Err(error) if options.ignore_existing && error.code() == Some("BucketAlreadyOwnedByYou") => {}
            made => made.when(|| format!("cannot make `{remote}`"))?,
        }
        if options.with_versioning {
            let enabled = remote.client.set_versioning(&remote.bucket, Versioning::Enabled).await;
            enabled.when(|| format!("cannot enable versioning of `{remote}`"))?;
        }
        context.output.done(
            || json!({ "bucket": remote.to_string(), "region": remote.client.config().region }),
            || format!("Bucket `{remote}` made."),
        );
        Ok(())
    })
    .await
}

/// Removes buckets.
pub async fn remove(options: &RemoveOptions, context: &Context) -> Outcome {
    each(context, &options.targets, |target| async move {
        let remote = Location::remote(target, &context.aliases)?;
        remote.only_bucket()?;
        if options.force {
            empty(context, &remote).await.when(|| format!("cannot empty `{remote}`"))?;
        }
        let removed = remote.client.delete_bucket(&remote.bucket).await;
        removed.when(|| match options.force {
            true => format!("cannot remove `{remote}`"),
            false => format!("cannot remove `{remote}` (--force empties it first)"),
        })?;
        context.output.done(|| json!({ "bucket": remote.to_string() }), || format!("Removed `{remote}`."));
        Ok(())
    })
    .await
}

/// Removes all versions, delete markers and incomplete uploads.
async fn empty(context: &Context, remote: &Remote) -> Outcome {
    let all = tree::versions(remote, String::new());
    let all = all.map(|e| e.map(|e| Identifier { key: e.key, version_id: e.version_id }));
    rm::remove_all(false, context, remote, all).await?;
    let mut marker = None;
    loop {
        let page = remote.client.list_uploads(&remote.bucket, "", None, marker.as_ref()).await?;
        for upload in &page.uploads {
            match remote.client.abort_multipart(&remote.bucket, &upload.key, &upload.upload_id).await {
                Err(error) if !error.is_not_found() => return Err(error.into()),
                _ => {}
            }
        }
        match page.next {
            Some(next) => marker = Some(next),
            None => return Ok(()),
        }
    }
}

/// Shows or changes settings.
pub async fn run(command: Command, context: &Context) -> Outcome {
    match command {
        Command::Versioning(command) => versioning(command, context).await,
        Command::Tag(command) => tag(command, context).await,
        Command::Website(command) => website::website(command, context).await,
        Command::Logging(command) => website::access_log(command, context).await,
    }
}

async fn versioning(command: VersioningCommand, context: &Context) -> Outcome {
    let (target, wanted) = match &command {
        VersioningCommand::Enable { target } => (target, Some(Versioning::Enabled)),
        VersioningCommand::Suspend { target } => (target, Some(Versioning::Suspended)),
        VersioningCommand::Info { target } => (target, None),
    };
    let remote = Location::remote(target, &context.aliases)?;
    remote.only_bucket()?;
    if let Some(wanted) = wanted {
        let set = remote.client.set_versioning(&remote.bucket, wanted).await;
        set.when(|| format!("cannot change the versioning of `{remote}`"))?;
    }
    let now = remote.client.versioning(&remote.bucket).await;
    let (word, sentence) = match now.when(|| format!("cannot read the versioning of `{remote}`"))? {
        Versioning::Off => ("", "keeps no versions"),
        Versioning::Enabled => ("Enabled", "keeps every version"),
        Versioning::Suspended => ("Suspended", "keeps the versions it has and makes no new ones"),
    };
    let show = || json!({ "url": remote.to_string(), "versioning": { "status": word } });
    let text = || format!("`{remote}` {sentence}.");
    match wanted {
        Some(_) => context.output.done(show, text),
        None => context.output.result(show, text),
    }
    Ok(())
}

async fn tag(command: TagCommand, context: &Context) -> Outcome {
    let (TagCommand::List { target } | TagCommand::Set { target, .. } | TagCommand::Remove { target }) =
        &command;
    let remote = Location::remote(target, &context.aliases)?;
    remote.only_bucket()?;
    let bucket = Target::Bucket(&remote.bucket);
    match &command {
        TagCommand::List { .. } => {
            let tags = remote
                .client
                .tags(bucket, None)
                .await
                .when(|| format!("cannot read the tags of `{remote}`"))?;
            if tags.is_empty() {
                return Err(Failure::new(Kind::NotFound, format!("`{remote}` has no tags")));
            }
            context.output.result(
                || json!({ "url": remote.to_string(), "tagset": tags }),
                || tags.iter().map(|(n, v)| format!("{n:20} : {v}")).collect::<Vec<_>>().join("\n"),
            );
            return Ok(());
        }
        TagCommand::Set { tags, .. } => {
            let tags = parse_tags(tags)?;
            remote
                .client
                .set_tags(bucket, None, &tags)
                .await
                .when(|| format!("cannot set the tags of `{remote}`"))?;
        }
        TagCommand::Remove { .. } => {
            remote
                .client
                .delete_tags(bucket, None)
                .await
                .when(|| format!("cannot remove the tags of `{remote}`"))?;
        }
    }
    context.output.done(|| json!({ "name": remote.to_string() }), || format!("Tags of `{remote}` changed."));
    Ok(())
}

/// Parses `NAME=VALUE&NAME=VALUE`; `%XX` is a byte, so that values can contain `&` and `=`.
pub fn parse_tags(text: &str) -> Outcome<Tags> {
    let mut tags = Tags::new();
    for pair in text.split('&').filter(|p| !p.is_empty()) {
        let (name, value) =
            pair.split_once('=').ok_or_else(|| Failure::usage(format!("{pair:?}: expected NAME=VALUE")))?;
        let decode = |text: &str| {
            ashlar_client::percent_decode(text, false)
                .ok_or_else(|| Failure::usage(format!("{text:?} is not UTF-8")))
        };
        if tags.insert(decode(name)?, decode(value)?).is_some() {
            return Err(Failure::usage(format!("tag {name:?} is given twice")));
        }
    }
    if tags.is_empty() {
        return Err(Failure::usage("no tags are given"));
    }
    Ok(tags)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags() {
        let tags = parse_tags("colour=deep red&shape=a%26b%3D").unwrap();
        assert_eq!(tags["colour"], "deep red");
        assert_eq!(tags["shape"], "a&b=");
        for bad in ["", "colour", "a=1&a=2"] {
            assert!(parse_tags(bad).is_err(), "{bad}");
        }
    }
}
