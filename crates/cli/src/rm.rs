//! `ashlar rm`: removes objects, folders, versions.
//!
//! Invariants: a folder is removed only with `--recursive --force`; removing `a/b` never removes `a/bc`;
//! requests of a thousand keys each, four at a time.

use ashlar_client::{Deleted, Identifier, limits};
use clap::Args;
use futures::{Stream, StreamExt, stream};
use serde_json::json;

use super::{
    context::{Context, each},
    failure::{Failure, Kind, Outcome, While},
    location::{Location, Remote},
    progress::Progress,
    tree,
};

/// What to remove.
#[derive(Args, Debug)]
pub struct Options {
    /// ALIAS/BUCKET/KEY
    #[arg(required = true)]
    targets: Vec<String>,
    /// Everything below (needs --force)
    #[arg(long, short)]
    recursive: bool,
    /// All versions and delete markers; this cannot be undone
    #[arg(long, conflicts_with = "version_id")]
    versions: bool,
    /// Confirm; a missing object is not an error
    #[arg(long)]
    force: bool,
    /// Only this version; this cannot be undone
    #[arg(long, visible_alias = "vid", conflicts_with = "recursive")]
    version_id: Option<String>,
    /// Show what would be removed
    #[arg(long)]
    dry_run: bool,
}

/// Deletes in flight.
const IN_FLIGHT: usize = 4;

/// Runs the command.
pub async fn run(options: &Options, context: &Context) -> Outcome {
    if options.recursive && !options.force && !options.dry_run {
        return Err(Failure::usage(
            "--recursive removes everything below: add --force, or --dry-run to see it",
        ));
    }
    each(context, &options.targets, |target| async move {
        let remote = Location::remote(target, &context.aliases)?;
        remote.need_bucket()?;
        let removed = async {
            if options.recursive {
                recursive(options, context, &remote).await
            } else {
                single(options, context, &remote).await
            }
        };
        removed.await.when(|| format!("cannot remove `{remote}`"))
    })
    .await
}

async fn single(options: &Options, context: &Context, remote: &Remote) -> Outcome {
    remote.need_key()?;
    if options.versions {
        let all = tree::versions(remote, remote.key.clone());
        let key = remote.key.clone();
        // The versions of the key come first; longer keys with the same prefix follow.
        let own = all.take_while(move |e| std::future::ready(e.as_ref().map_or(true, |e| e.key == key)));
        let own = own.map(|e| e.map(|e| Identifier { key: e.key, version_id: e.version_id }));
        let removed = remove_all(options.dry_run, context, remote, own).await?;
        return if removed == 0 && !options.force {
            Err(Failure::new(Kind::NotFound, super::failure::MISSING))
        } else {
            Ok(())
        };
    }
    let get = ashlar_client::GetOptions { version_id: options.version_id.clone(), ..Default::default() };
    // S3 does not report a missing key; people want to see that they mistyped it.
    if !options.force && options.version_id.is_none() {
        remote.client.head_object(&remote.bucket, &remote.key, &get).await?;
    }
    let version = options.version_id.as_deref();
    let mut marker = None;
    if !options.dry_run {
        let outcome = remote.client.delete_object(&remote.bucket, &remote.key, version).await?;
        marker = outcome.delete_marker.then_some(outcome.version_id).flatten();
    }
    report(context, options.dry_run, remote, &remote.key, version, marker.as_deref());
    Ok(())
}

async fn recursive(options: &Options, context: &Context, remote: &Remote) -> Outcome {
    let folder = remote.folder();
    let below: stream::BoxStream<'static, Outcome<Identifier>> = if options.versions {
        let all = tree::versions(remote, folder.clone());
        all.map(|e| e.map(|e| Identifier { key: e.key, version_id: e.version_id })).boxed()
    } else {
        let list = ashlar_client::ListOptions { prefix: folder.clone(), ..Default::default() };
        let pages = remote.client.pages(&remote.bucket, list);
        pages
            .flat_map(|page| {
                stream::iter(match page {
                    Ok(page) => page
                        .entries
                        .into_iter()
                        .map(|e| Ok(Identifier { key: e.key, version_id: None }))
                        .collect(),
                    Err(error) => vec![Err(Failure::from(error))],
                })
            })
            .boxed()
    };
    let mut removed = remove_all(options.dry_run, context, remote, below).await?;
    if folder != remote.key {
        // The key `a/b` may exist beside the folder `a/b/`.
        let own =
            Options { recursive: false, force: false, targets: Vec::new(), version_id: None, ..*options };
        match single(&own, context, remote).await {
            Ok(()) => removed += 1,
            Err(failure) if failure.kind == Kind::NotFound => {}
            Err(failure) => return Err(failure),
        }
    }
    if removed == 0 && !remote.key.is_empty() && !options.force {
        return Err(Failure::new(Kind::NotFound, "there is nothing"));
    }
    Ok(())
}

/// Removes everything in the stream; returns the number of removed items.
pub async fn remove_all(
    dry_run: bool,
    context: &Context,
    remote: &Remote,
    all: impl Stream<Item = Outcome<Identifier>> + Send,
) -> Outcome<u64> {
    let progress = Progress::items(&context.output);
    let batches = all.ready_chunks(limits::DELETE_KEYS).map(|batch| {
        let progress = progress.clone();
        async move {
            let batch = batch.into_iter().collect::<Outcome<Vec<Identifier>>>()?;
            progress.found(batch.len() as u64);
            let outcome = if dry_run {
                Deleted { deleted: batch, errors: Vec::new() }
            } else {
                remote.client.delete_objects(&remote.bucket, &batch).await?
            };
            progress.done((outcome.deleted.len() + outcome.errors.len()) as u64);
            Outcome::Ok(outcome)
        }
    });
    let mut batches = std::pin::pin!(batches.buffer_unordered(IN_FLIGHT));
    let (mut removed, mut failed) = (0, 0);
    while let Some(outcome) = batches.next().await {
        let outcome = outcome.inspect_err(|_| progress.finish())?;
        progress.print(|| {
            for object in &outcome.deleted {
                report(context, dry_run, remote, &object.key, object.version_id.as_deref(), None);
            }
            for error in &outcome.errors {
                let what = remote.with_key(&error.object.key);
                let mut failure = Failure::new(Kind::Failed, format!("{} ({})", error.message, error.code));
                failure.what = format!("cannot remove `{what}`");
                context.output.failure(&failure);
            }
        });
        removed += outcome.deleted.len() as u64;
        failed += outcome.errors.len() as u64;
    }
    progress.finish();
    if failed > 0 { Err(Failure::partly(failed)) } else { Ok(removed) }
}

fn report(
    context: &Context,
    dry_run: bool,
    remote: &Remote,
    key: &str,
    version: Option<&str>,
    marker: Option<&str>,
) {
    context.output.done(
        || {
            let name = format!("{}/{}/{key}", remote.alias, remote.bucket);
            json!({
                "key": name, "versionID": version, "deleteMarker": marker.is_some(),
                "deleteMarkerVersionID": marker, "dryRun": dry_run,
            })
        },
        || {
            let name = remote.with_key(key);
            let version = version.map_or(String::new(), |v| format!(" (version {v})"));
            let verb = if dry_run { "Would remove" } else { "Removed" };
            let note = marker.map_or(String::new(), |m| format!(", delete marker {m}"));
            format!("{verb} `{name}`{version}{note}.")
        },
    );
}
