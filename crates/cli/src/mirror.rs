//! `ashlar mirror`: synchronizes a tree and copies only what differs.
//!
//! Invariants: the source is not changed; files that only the target has are removed only if requested, and
//! never if the source could not be read completely; a repeated run continues an interrupted one.

use std::{fs, path::Path, sync::Mutex};

use ashlar_client::Identifier;
use ashlar_environment::time::Instant;
use clap::Args;
use futures::{StreamExt, stream};
use serde_json::json;

use super::{
    context::Context,
    cp::{Job, TransferOptions, conclude, copy_all, job_below},
    failure::{Failure, Kind, Outcome},
    location::Location,
    plan::{Action, merge},
    progress::Progress,
    rm,
    tree::{self, Item, Items},
};

/// The trees to synchronize.
#[derive(Args, Debug)]
pub struct Options {
    /// A local folder or ALIAS/BUCKET[/FOLDER]
    source: String,
    /// A local folder or ALIAS/BUCKET[/FOLDER]
    target: String,
    /// Replace files that differ; without it they are reported as failed
    #[arg(long)]
    overwrite: bool,
    /// Remove files that the source does not have
    #[arg(long)]
    remove: bool,
    /// Show what would be done
    #[arg(long)]
    dry_run: bool,
    /// Skip paths that match; `*` matches any text
    #[arg(long, value_name = "PATTERN")]
    exclude: Vec<String>,
    #[command(flatten)]
    transfer: TransferOptions,
}

/// Findings of the comparison.
#[derive(Default)]
struct Found {
    /// Paths that only the target has.
    extra: Vec<String>,
    same: u64,
    differing: u64,
    /// Whether the source could not be read completely.
    incomplete: bool,
}

/// Runs the command.
pub async fn run(options: &Options, context: &Context) -> Outcome {
    let source = Location::parse(&options.source, &context.aliases)?;
    let target = Location::parse(&options.target, &context.aliases)?;
    for (location, text) in [(&source, &options.source), (&target, &options.target)] {
        match location {
            Location::Remote(remote) => remote.need_bucket()?,
            Location::Local(path) if path.is_file() => {
                return Err(Failure::usage(format!("`{text}` is a file: use cp")));
            }
            Location::Local(_) => {}
        }
    }
    if let Location::Local(path) = &source
        && !path.is_dir()
    {
        let cause = format!("`{}` is neither an alias nor a folder", path.display());
        return Err(Failure::new(Kind::NotFound, cause));
    }
    let progress = Progress::bytes(&context.output);
    let engine = options.transfer.engine(&progress, true)?;
    let begin = Instant::now();
    let found = Mutex::new(Found::default());
    let actions = merge(filtered(&source, &options.exclude), filtered(&target, &options.exclude));
    let jobs = actions.filter_map(|action| {
        let job = decide(options, context, &source, &target, action, &found);
        std::future::ready(job.transpose())
    });
    let mut jobs = std::pin::pin!(jobs);
    let mut tally = copy_all(&engine, context, &mut jobs, |_| std::future::ready(false)).await?;
    let found = found.into_inner().unwrap_or_default();
    tally.skipped = found.same;
    if found.differing > 0 {
        context.output.note(&format!("{} differ; --overwrite replaces them", found.differing));
    }
    if options.remove && (found.incomplete || tally.failed > found.differing) {
        context.output.note("Nothing is removed, because not everything could be read and copied.");
    } else if options.remove {
        remove(options, context, &target, found.extra).await?;
    }
    conclude(&context.output, &progress, &tally, begin)
}

fn filtered(location: &Location, exclude: &[String]) -> Items {
    let exclude = exclude.to_vec();
    let keep = move |item: &Outcome<Item>| match item {
        Ok(item) => !exclude.iter().any(|pattern| tree::matches(pattern, &item.path)),
        Err(_) => true,
    };
    tree::items(location).filter(move |item| std::future::ready(keep(item))).boxed()
}

/// The job for an action, if the action needs one.
fn decide(
    options: &Options,
    context: &Context,
    source: &Location,
    target: &Location,
    action: Outcome<Action>,
    found: &Mutex<Found>,
) -> Outcome<Option<Job>> {
    let mut found = found.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let item = match action {
        Err(failure) => {
            found.incomplete = true;
            return Err(failure);
        }
        Ok(Action::Same(_)) => {
            found.same += 1;
            return Ok(None);
        }
        Ok(Action::Extra(item)) => {
            // Removed at the end, and only if nothing failed. Only paths are kept in memory.
            if options.remove {
                found.extra.push(item.path);
            }
            return Ok(None);
        }
        Ok(Action::Replace(item)) if !options.overwrite => {
            found.differing += 1;
            let cause = "the target differs; --overwrite replaces it";
            return Err(Failure { what: format!("`{}`", item.path), ..Failure::new(Kind::Failed, cause) });
        }
        Ok(Action::Add(item) | Action::Replace(item)) => item,
    };
    if item.is_folder_marker() && matches!(target, Location::Local(_)) {
        return Ok(None);
    }
    let job = job_below(source, target, "", item)?;
    if options.dry_run {
        context.output.result(
            || json!({ "source": job.source.location.to_string(), "target": job.target.to_string(), "size": job.source.item.size, "dryRun": true }),
            || format!("Would copy `{}` -> `{}`", job.source.location, job.target),
        );
        return Ok(None);
    }
    Ok(Some(job))
}

async fn remove(options: &Options, context: &Context, target: &Location, extra: Vec<String>) -> Outcome {
    match target {
        Location::Remote(remote) => {
            let folder = remote.folder();
            let all = extra
                .into_iter()
                .map(|path| Ok(Identifier { key: format!("{folder}{path}"), version_id: None }));
            rm::remove_all(options.dry_run, context, remote, stream::iter(all)).await.map(drop)
        }
        Location::Local(folder) => {
            for path in extra {
                let file = folder.join(&path);
                if !options.dry_run {
                    fs::remove_file(&file)?;
                    remove_empty_folders(folder, &file);
                }
                let verb = if options.dry_run { "Would remove" } else { "Removed" };
                context.output.done(
                    || json!({ "key": file, "dryRun": options.dry_run }),
                    || format!("{verb} `{}`.", file.display()),
                );
            }
            Ok(())
        }
    }
}

/// Removes folders that are empty after the removal of a file, except the root of the tree.
fn remove_empty_folders(root: &Path, file: &Path) {
    let mut folder = file.parent();
    while let Some(empty) = folder.filter(|f| *f != root && f.starts_with(root)) {
        if fs::remove_dir(empty).is_err() {
            return;
        }
        folder = empty.parent();
    }
}
