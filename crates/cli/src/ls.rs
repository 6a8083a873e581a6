//! `ashlar ls`: lists buckets, keys and versions; folders are listed as such unless `--recursive`.

use ashlar_client::{Entry, ListOptions, ListVersionsOptions};
use clap::Args;
use futures::{StreamExt, TryStreamExt, stream, stream::BoxStream};
use serde_json::{Value, json};

use super::{
    context::{Context, each},
    failure::{Failure, Kind, Outcome, While},
    location::{Location, Remote},
    output::{Tone, size_text, time_json, time_text},
    tree::FolderIterator,
};

/// What to list.
#[derive(Args, Debug)]
pub struct Options {
    /// ALIAS, ALIAS/BUCKET or ALIAS/BUCKET/FOLDER; also local folders
    #[arg(required = true)]
    targets: Vec<String>,
    /// List all folders recursively
    #[arg(long, short)]
    recursive: bool,
    /// Show all versions and delete markers
    #[arg(long)]
    versions: bool,
    /// Also print the number of objects and their total size
    #[arg(long)]
    summarize: bool,
}

#[derive(Default)]
struct Sum {
    objects: u64,
    size: u64,
    lines: u64,
}

/// Runs the command.
pub async fn run(options: &Options, context: &Context) -> Outcome {
    each(context, &options.targets, |target| async move {
        let mut sum = Sum::default();
        match Location::parse(target, &context.aliases)? {
            Location::Local(folder) => local(options, context, &folder, &mut sum)?,
            Location::Remote(remote) if remote.bucket.is_empty() => {
                buckets(context, &remote, &mut sum).await.when(|| format!("cannot list `{remote}`"))?;
            }
            Location::Remote(remote) => {
                keys(options, context, &remote, &mut sum).await.when(|| format!("cannot list `{remote}`"))?;
            }
        }
        if options.summarize {
            context.output.result(
                || json!({ "totalObjects": sum.objects, "totalSize": sum.size }),
                || format!("\nTotal size: {}\nTotal objects: {}", size_text(sum.size), sum.objects),
            );
        }
        Ok(())
    })
    .await
}

async fn buckets(context: &Context, remote: &Remote, sum: &mut Sum) -> Outcome {
    for bucket in remote.client.list_buckets().await? {
        sum.lines += 1;
        context.output.result(
            || {
                json!({
                    "type": "folder", "lastModified": time_json(bucket.created), "size": 0,
                    "key": format!("{}/", bucket.name), "url": remote.client.config().endpoint,
                })
            },
            || line(context, bucket.created, None, "", &format!("{}/", bucket.name)),
        );
    }
    Ok(())
}

/// One thing to print.
enum Found {
    Folder(String),
    Entry(Entry),
}

/// All pages below a prefix; in each page, folders come before keys.
fn pages(options: &Options, remote: &Remote, prefix: &str) -> BoxStream<'static, Outcome<Vec<Found>>> {
    let delimiter = (!options.recursive).then(|| "/".to_owned());
    let prefix = prefix.to_owned();
    let page = |page: ashlar_client::ListPage| {
        let mut found: Vec<Found> = page.prefixes.into_iter().map(Found::Folder).collect();
        found.extend(page.entries.into_iter().map(Found::Entry));
        found
    };
    if options.versions {
        let list = ListVersionsOptions { prefix, delimiter, ..ListVersionsOptions::default() };
        remote.client.version_pages(&remote.bucket, list).map_ok(page).map_err(Failure::from).boxed()
    } else {
        let list = ListOptions { prefix, delimiter, ..ListOptions::default() };
        remote.client.pages(&remote.bucket, list).map_ok(page).map_err(Failure::from).boxed()
    }
}

async fn keys(options: &Options, context: &Context, remote: &Remote, sum: &mut Sum) -> Outcome {
    let folder = remote.folder();
    let mut everything: Vec<BoxStream<'static, Outcome<Vec<Found>>>> = Vec::new();
    if folder != remote.key {
        // Without a trailing slash the path may be a key, a folder, or both.
        let exact = remote.key.clone();
        let only = pages(&Options { recursive: false, targets: Vec::new(), ..*options }, remote, &remote.key);
        let only = only.map_ok(move |found| {
            let same = |f: &Found| matches!(f, Found::Entry(e) if e.key == exact);
            found.into_iter().filter(same).collect()
        });
        everything.push(while_found(only.boxed()));
    }
    everything.push(pages(options, remote, &folder));
    let base = folder.rfind('/').map_or("", |at| &folder[..=at]).to_owned();
    let mut all = stream::iter(everything).flatten();
    let mut ordinal = Ordinal::default();
    while let Some(found) = all.try_next().await? {
        for one in found {
            sum.lines += 1;
            print(options, context, remote, &base, one, sum, &mut ordinal);
        }
    }
    // An empty bucket is no error; a path without any key is.
    if sum.lines == 0 && !remote.key.is_empty() {
        return Err(Failure::new(Kind::NotFound, "there is nothing"));
    }
    Ok(())
}

/// The pages of a prefix of which only the exact key is wanted. It is the first key with the prefix, so the
/// first page contains it; only its versions may continue on later pages.
fn while_found(pages: BoxStream<'static, Outcome<Vec<Found>>>) -> BoxStream<'static, Outcome<Vec<Found>>> {
    pages.take_while(|page| std::future::ready(page.as_ref().map_or(true, |found| !found.is_empty()))).boxed()
}

/// Numbers the versions of a key, newest first.
#[derive(Default)]
struct Ordinal {
    key: String,
    index: u64,
}

fn print(
    options: &Options,
    context: &Context,
    remote: &Remote,
    base: &str,
    found: Found,
    sum: &mut Sum,
    ordinal: &mut Ordinal,
) {
    let relative = |key: &str| key.strip_prefix(base).filter(|k| !k.is_empty()).unwrap_or(key).to_owned();
    let url = || format!("{}/{}", remote.client.config().endpoint, remote.bucket);
    match found {
        Found::Folder(prefix) => context.output.result(
            || json!({ "type": "folder", "lastModified": Value::Null, "size": 0, "key": relative(&prefix), "url": url() }),
            || line(context, None, None, "", &relative(&prefix)),
        ),
        Found::Entry(entry) => {
            sum.objects += u64::from(!entry.delete_marker);
            sum.size += entry.size;
            if ordinal.key == entry.key {
                ordinal.index += 1;
            } else {
                *ordinal = Ordinal { key: entry.key.clone(), index: 0 };
            }
            context.output.result(
                || {
                    let mut object = json!({
                        "type": "file", "lastModified": time_json(entry.modified), "size": entry.size,
                        "key": relative(&entry.key), "etag": entry.etag, "url": url(),
                        "storageClass": entry.storage_class,
                    });
                    if options.versions {
                        object["versionId"] = json!(entry.version_id);
                        object["versionIndex"] = json!(ordinal.index);
                        object["isLatest"] = json!(entry.is_latest);
                        object["isDeleteMarker"] = json!(entry.delete_marker);
                    }
                    object
                },
                || {
                    let mut note = entry.storage_class.clone();
                    if options.versions {
                        let what = if entry.delete_marker { "DEL" } else { "PUT" };
                        note = format!("{} {what}", entry.version_id.as_deref().unwrap_or("null"));
                    }
                    line(context, entry.modified, Some(entry.size), &note, &relative(&entry.key))
                },
            );
        }
    }
}

fn line(
    context: &Context,
    modified: Option<time::OffsetDateTime>,
    size: Option<u64>,
    note: &str,
    name: &str,
) -> String {
    let paint = |tone, text: String| context.output.paint(tone, text);
    let time = paint(Tone::Time, format!("[{}]", time_text(modified)));
    let size = paint(Tone::Size, format!("{:>10}", size.map_or(String::new(), size_text)));
    let name = context.output.printable(name);
    let name = if name.ends_with('/') { paint(Tone::Folder, name) } else { name };
    if note.is_empty() { format!("{time} {size} {name}") } else { format!("{time} {size} {note} {name}") }
}

fn local(options: &Options, context: &Context, folder: &std::path::Path, sum: &mut Sum) -> Outcome {
    if !folder.exists() {
        return Err(Failure::new(
            Kind::NotFound,
            format!("`{}` is neither an alias nor a file", folder.display()),
        ));
    }
    let file = |name: String, size: u64, modified, sum: &mut Sum| {
        sum.objects += 1;
        sum.size += size;
        let json_name = name.clone();
        context.output.result(
            || json!({ "type": "file", "lastModified": time_json(modified), "size": size, "key": json_name }),
            || line(context, modified, Some(size), "", &name),
        );
    };
    if folder.is_file() {
        let found = folder.metadata()?;
        let modified = found.modified().ok().map(Into::into);
        file(folder.display().to_string(), found.len(), modified, sum);
        return Ok(());
    }
    if options.recursive {
        for item in FolderIterator::new(folder) {
            match item {
                Ok(item) => file(item.path, item.size, item.modified, sum),
                Err(failure) => context.output.failure(&failure),
            }
        }
        return Ok(());
    }
    let mut entries: Vec<_> = std::fs::read_dir(folder)?.collect::<Result<_, _>>()?;
    entries.sort_by_key(std::fs::DirEntry::file_name);
    for entry in entries {
        let name = entry.file_name().to_string_lossy().into_owned();
        let found = entry.metadata()?;
        let modified = found.modified().ok().map(Into::into);
        if found.is_dir() {
            let name = format!("{name}/");
            context.output.result(
                || json!({ "type": "folder", "lastModified": time_json(modified), "size": 0, "key": name }),
                || line(context, modified, None, "", &name),
            );
        } else {
            file(name, found.len(), modified, sum);
        }
    }
    Ok(())
}
