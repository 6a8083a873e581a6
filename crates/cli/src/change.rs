//! `ashlar mv`, `ashlar pipe`, `ashlar undo`, `ashlar diff`: move, write the standard input, undo changes,
//! compare.
//!
//! Invariants: a source is removed only after its copy is acknowledged; `undo` removes a version with data
//! only if it is the newest one of its key.

use std::io::Read as _;

use ashlar_client::{Entry, Identifier, PutOptions};
use bytes::Bytes;
use clap::Args;
use futures::{StreamExt, TryStreamExt, stream};
use serde_json::json;

use super::{
    context::Context,
    cp::{self, TransferOptions},
    failure::{Failure, Kind, Outcome, While},
    location::{Location, Remote},
    plan::{Action, merge},
    rm, tree,
};

/// The target of `pipe`.
#[derive(Args, Debug)]
pub struct PipeOptions {
    /// ALIAS/BUCKET/KEY
    target: String,
    #[command(flatten)]
    transfer: TransferOptions,
}

/// The trees to compare.
#[derive(Args, Debug)]
pub struct DiffOptions {
    /// A local folder or ALIAS/BUCKET[/FOLDER]
    first: String,
    /// A local folder or ALIAS/BUCKET[/FOLDER]
    second: String,
}

/// The changes to undo.
#[derive(Args, Debug)]
pub struct UndoOptions {
    /// ALIAS/BUCKET/KEY, or a folder with --recursive
    target: String,
    /// Undo this many changes of each key
    #[arg(long, default_value_t = 1, value_name = "N")]
    last: usize,
    /// Everything below
    #[arg(long, short)]
    recursive: bool,
    /// Confirm; needed with --recursive
    #[arg(long)]
    force: bool,
    /// Undo only changes of this kind: PUT or DELETE
    #[arg(long, value_parser = ["PUT", "DELETE"])]
    action: Option<String>,
    /// Show what would be done
    #[arg(long)]
    dry_run: bool,
}

/// Moves: copies, and removes each source after its copy is acknowledged.
pub async fn mv(options: &cp::Options, context: &Context) -> Outcome {
    cp::move_all(options, context).await
}

/// Writes the standard input to an object; parts are sent while the input is read.
pub async fn pipe(options: &PipeOptions, context: &Context) -> Outcome {
    let remote = Location::remote(&options.target, &context.aliases)?;
    remote.need_key()?;
    let put = options.transfer.put_options()?;
    let part = (options.transfer.part_size as usize) << 20;
    let size = pipe_to(&remote, &put, part).await.when(|| format!("cannot write `{remote}`"))?;
    context.output.done(
        || json!({ "target": remote.to_string(), "size": size }),
        || format!("{size} bytes -> `{remote}`"),
    );
    Ok(())
}

/// Reads `len` bytes, or fewer at the end of the input.
async fn read_part(len: usize) -> Outcome<Bytes> {
    let read = ashlar_environment::spawn_blocking("read-input", move || {
        let mut part = Vec::new();
        std::io::stdin().lock().take(len as u64).read_to_end(&mut part).map(|_| Bytes::from(part))
    });
    let part = read.await.map_err(|e| Failure::new(Kind::Failed, e.to_string()))?;
    part.when(|| "cannot read the standard input".to_owned())
}

async fn pipe_to(remote: &Remote, put: &PutOptions, len: usize) -> Outcome<u64> {
    let (client, bucket, key) = (&remote.client, &remote.bucket, &remote.key);
    let mut part = read_part(len).await?;
    if part.len() < len {
        client.put_object(bucket, key, part.clone(), put).await?;
        return Ok(part.len() as u64);
    }
    let upload = client.create_multipart(bucket, key, put).await?;
    let plain = PutOptions::default();
    let send = async {
        let (mut parts, mut size) = (Vec::new(), 0u64);
        // Every part except the last has `len` bytes; an empty read ends the object.
        while !part.is_empty() {
            let number = u32::try_from(parts.len()).unwrap_or(u32::MAX).saturating_add(1);
            if number > ashlar_client::limits::PARTS {
                return Err(Failure::usage("more than 10,000 parts: choose a larger --part-size"));
            }
            size += part.len() as u64;
            let last = part.len() < len;
            parts.push(client.upload_part(bucket, key, &upload, number, part.clone(), &plain).await?);
            part = if last { Bytes::new() } else { read_part(len).await? };
        }
        client.complete_multipart(bucket, key, &upload, &parts, &plain).await?;
        Outcome::Ok(size)
    };
    let sent = send.await;
    if sent.is_err() {
        let _ = client.abort_multipart(bucket, key, &upload).await;
    }
    sent
}

/// Prints the differences of two trees: `<` only in the first, `>` only in the second, `!` different.
pub async fn diff(options: &DiffOptions, context: &Context) -> Outcome {
    let first = Location::parse(&options.first, &context.aliases)?;
    let second = Location::parse(&options.second, &context.aliases)?;
    for location in [&first, &second] {
        match location {
            Location::Remote(remote) => remote.need_bucket()?,
            Location::Local(path) if !path.is_dir() => {
                let cause = format!("`{}` is neither an alias nor a folder", path.display());
                return Err(Failure::new(Kind::NotFound, cause));
            }
            Location::Local(_) => {}
        }
    }
    let mut actions = std::pin::pin!(merge(tree::items(&first), tree::items(&second)));
    while let Some(action) = actions.next().await {
        let (sign, word, item) = match action? {
            Action::Same(_) => continue,
            Action::Add(item) => ("<", "only-in-first", item),
            Action::Extra(item) => (">", "only-in-second", item),
            Action::Replace(item) => ("!", "differ", item),
        };
        context.output.result(
            || json!({ "key": item.path, "diff": word, "size": item.size }),
            || format!("{sign} {}", context.output.printable(&item.path)),
        );
    }
    Ok(())
}

/// Undoes the newest changes of keys in a bucket with versioning.
pub async fn undo(options: &UndoOptions, context: &Context) -> Outcome {
    let remote = Location::remote(&options.target, &context.aliases)?;
    remote.need_bucket()?;
    if options.recursive && !options.force && !options.dry_run {
        return Err(Failure::usage(
            "--recursive undoes changes of everything below: add --force, or --dry-run to see them",
        ));
    }
    if options.last == 0 {
        return Err(Failure::usage("--last must be at least 1"));
    }
    if !options.recursive {
        remote.need_key()?;
    }
    let prefix = if options.recursive { remote.folder() } else { remote.key.clone() };
    let versions = tree::versions(&remote, prefix);
    let (exact, key) = (!options.recursive, remote.key.clone());
    let mut versions =
        std::pin::pin!(versions.try_filter(move |e| std::future::ready(!exact || e.key == key)));
    let (mut going, mut keys) = (Vec::new(), Newest::default());
    while let Some(entry) = versions.try_next().await? {
        if keys.takes(&entry, options.last, options.action.as_deref()) {
            going.push(Identifier { key: entry.key, version_id: entry.version_id });
        }
    }
    if going.is_empty() {
        return Err(Failure::new(Kind::NotFound, "there is nothing to undo"));
    }
    rm::remove_all(options.dry_run, context, &remote, stream::iter(going.into_iter().map(Ok))).await.map(drop)
}

/// Counts the newest versions of each key in listing order, newest first.
#[derive(Default)]
struct Newest {
    key: String,
    taken: usize,
    /// An older change cannot be undone while a newer one is kept.
    stopped: bool,
}

impl Newest {
    fn takes(&mut self, entry: &Entry, last: usize, action: Option<&str>) -> bool {
        if self.key != entry.key {
            *self = Newest { key: entry.key.clone(), taken: 0, stopped: false };
        }
        let kind = if entry.delete_marker { "DELETE" } else { "PUT" };
        let unversioned = entry.version_id.as_deref().is_none_or(|v| v == "null" && !entry.delete_marker);
        self.stopped |= unversioned || self.taken == last || action.is_some_and(|a| a != kind);
        self.taken += usize::from(!self.stopped);
        !self.stopped
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn undo_removes_only_newest_changes() {
        let entry = |key: &str, version: &str, marker| Entry {
            key: key.into(),
            size: 0,
            etag: String::new(),
            modified: None,
            storage_class: String::new(),
            version_id: Some(version.into()),
            is_latest: false,
            delete_marker: marker,
        };
        let all =
            [entry("a", "3", true), entry("a", "2", false), entry("a", "1", false), entry("b", "1", false)];
        let of = |last, action| {
            let mut keys = Newest::default();
            let taken = all.iter().filter(|e| keys.takes(e, last, action));
            taken.map(|e| format!("{}{}", e.key, e.version_id.as_deref().unwrap_or(""))).collect::<Vec<_>>()
        };
        assert_eq!(of(1, None), ["a3", "b1"]);
        assert_eq!(of(2, None), ["a3", "a2", "b1"]);
        assert_eq!(of(2, Some("DELETE")), ["a3"]);
        assert_eq!(of(2, Some("PUT")), ["b1"], "what is below a newer change of another kind stays");
        let mut keys = Newest::default();
        assert!(
            !keys.takes(&entry("c", "null", false), 1, None),
            "an object without versions is never removed"
        );
    }
}
