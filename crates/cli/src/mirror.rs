//! `ashlar mirror`: makes one tree like another and copies only what differs.
//!
//! Invariants: nothing of the source is changed; what the target has beyond the source is removed
//! only if asked for, and not at all if the source could not be read completely; run again, it
//! goes on where it stopped.

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
    place::Place,
    plan::{Action, merge},
    progress::Progress,
    rm,
    tree::{self, Item, Items},
};

/// What to make like what.
#[derive(Args, Debug)]
pub struct Options {
    /// A local folder or ALIAS/BUCKET[/FOLDER]
    source: String,
    /// A local folder or ALIAS/BUCKET[/FOLDER]
    target: String,
    /// Replace what differs; without it such files are reported as failed
    #[arg(long)]
    overwrite: bool,
    /// Remove what the source does not have
    #[arg(long)]
    remove: bool,
    /// Show what would be done
    #[arg(long)]
    dry_run: bool,
    /// Leave out paths that match; `*` stands for anything
    #[arg(long, value_name = "PATTERN")]
    exclude: Vec<String>,
    #[command(flatten)]
    transfer: TransferOptions,
}

/// What is found out while the trees are compared.
#[derive(Default)]
struct Found {
    /// Paths only the target has.
    extra: Vec<String>,
    same: u64,
    differing: u64,
    /// Whether the source could not be read completely.
    incomplete: bool,
}

/// Mirrors.
pub async fn run(options: &Options, context: &Context) -> Outcome {
    let source = Place::parse(&options.source, &context.aliases)?;
    let target = Place::parse(&options.target, &context.aliases)?;
    for (place, text) in [(&source, &options.source), (&target, &options.target)] {
        match place {
            Place::Remote(remote) => remote.need_bucket()?,
            Place::Local(path) if path.is_file() => {
                return Err(Failure::usage(format!("`{text}` is a file: use cp")));
            }
            Place::Local(_) => {}
        }
    }
    if let Place::Local(path) = &source
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

fn filtered(place: &Place, exclude: &[String]) -> Items {
    let exclude = exclude.to_vec();
    let keep = move |item: &Outcome<Item>| match item {
        Ok(item) => !exclude.iter().any(|pattern| tree::matches(pattern, &item.path)),
        Err(_) => true,
    };
    tree::items(place).filter(move |item| std::future::ready(keep(item))).boxed()
}

/// The job that an action means, if it means one.
fn decide(
    options: &Options,
    context: &Context,
    source: &Place,
    target: &Place,
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
            // Held until the end, so that nothing is removed if something fails. Paths only.
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
    if item.is_folder_marker() && matches!(target, Place::Local(_)) {
        return Ok(None);
    }
    let job = job_below(source, target, "", item)?;
    if options.dry_run {
        context.output.result(
            || json!({ "source": job.source.place.to_string(), "target": job.target.to_string(), "size": job.source.item.size, "dryRun": true }),
            || format!("Would copy `{}` -> `{}`", job.source.place, job.target),
        );
        return Ok(None);
    }
    Ok(Some(job))
}

async fn remove(options: &Options, context: &Context, target: &Place, extra: Vec<String>) -> Outcome {
    match target {
        Place::Remote(remote) => {
            let folder = remote.folder();
            let all = extra
                .into_iter()
                .map(|path| Ok(Identifier { key: format!("{folder}{path}"), version_id: None }));
            rm::remove_all(options.dry_run, context, remote, stream::iter(all)).await.map(drop)
        }
        Place::Local(folder) => {
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

/// Removes the folders that a removed file leaves empty, but not the root of the tree.
fn remove_empty_folders(root: &Path, file: &Path) {
    let mut folder = file.parent();
    while let Some(empty) = folder.filter(|f| *f != root && f.starts_with(root)) {
        if fs::remove_dir(empty).is_err() {
            return;
        }
        folder = empty.parent();
    }
}
