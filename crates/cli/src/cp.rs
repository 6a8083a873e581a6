//! `ashlar cp`: files and objects, up, down and between servers.
//!
//! A source folder that ends in a slash stands for what is in it; one that does not is copied with
//! its name, as `cp -r` and `mc cp -r` do.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use ashlar_client::{GetOptions, PutOptions};
use ashlar_environment::time::Instant;
use clap::Args;
use futures::{StreamExt, stream, stream::BoxStream};
use serde_json::json;
use time::OffsetDateTime;

use super::{
    bucket::parse_tags,
    context::Context,
    failure::{Failure, Kind, Outcome, While},
    output::{Output, size_text},
    place::{Place, local_path},
    plan::same,
    progress::Progress,
    transfer::{Engine, Source},
    tree::{self, Item},
};

/// What to copy where.
#[derive(Args, Debug)]
pub struct Options {
    /// One or more sources, then the target: local paths or ALIAS/BUCKET/KEY
    #[arg(required = true, num_args = 2.., value_names = ["SOURCE", "TARGET"])]
    paths: Vec<String>,
    /// Folders with everything in them
    #[arg(long, short)]
    recursive: bool,
    /// Skip what the target has already (same size, same ETag or not older) and continue
    /// interrupted uploads
    #[arg(long, visible_alias = "continue")]
    resume: bool,
    /// Copy this version
    #[arg(long, visible_alias = "vid", conflicts_with = "recursive")]
    version_id: Option<String>,
    #[command(flatten)]
    transfer: TransferOptions,
}

/// How data is moved; shared with `mirror`.
#[derive(Args, Debug)]
pub struct TransferOptions {
    /// Requests with data in flight
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=1024), value_name = "N")]
    pub parallel: u16,
    /// Larger files go in parts of so many MiB
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u32).range(5..=5120), value_name = "MIB")]
    pub part_size: u32,
    /// Metadata as NAME=VALUE;NAME=VALUE; Content-Type, Cache-Control and the like are headers
    #[arg(long, value_name = "ATTRIBUTES")]
    pub attr: Option<String>,
    /// Tags as NAME=VALUE&NAME=VALUE
    #[arg(long)]
    pub tags: Option<String>,
    /// Storage class of what is written
    #[arg(long, visible_alias = "sc", value_name = "CLASS")]
    pub storage_class: Option<String>,
}

impl TransferOptions {
    /// The engine these options mean.
    pub fn engine(&self, progress: &Progress, resume: bool) -> Outcome<Engine> {
        let part_size = u64::from(self.part_size) << 20;
        let put = self.put_options()?;
        Ok(Engine::new(progress.clone(), part_size, usize::from(self.parallel), resume, put))
    }

    /// What is stored with the data.
    pub fn put_options(&self) -> Outcome<PutOptions> {
        let mut put = PutOptions::default();
        let mut header = |name: &'static str, value: &str| {
            let value =
                value.parse().map_err(|_| Failure::usage(format!("{value:?} cannot be sent as {name}")))?;
            put.headers.insert(name, value);
            Outcome::Ok(())
        };
        const HEADERS: [&str; 5] =
            ["cache-control", "content-disposition", "content-encoding", "content-language", "expires"];
        let mut metadata = Vec::new();
        for pair in self.attr.iter().flat_map(|a| a.split(';')).filter(|p| !p.trim().is_empty()) {
            let (name, value) = pair
                .split_once('=')
                .ok_or_else(|| Failure::usage(format!("{pair:?}: expected NAME=VALUE")))?;
            let lower = name.trim().to_ascii_lowercase();
            match HEADERS.iter().find(|h| **h == lower) {
                Some(name) => header(name, value)?,
                None => metadata.push((lower, value.to_owned())),
            }
        }
        if let Some(class) = &self.storage_class {
            header("x-amz-storage-class", class)?;
        }
        if let Some(tags) = &self.tags {
            let pairs = parse_tags(tags)?;
            let encode = |text: &str| ashlar_client::percent_encode(text, false);
            let pairs: Vec<_> = pairs.iter().map(|(n, v)| format!("{}={}", encode(n), encode(v))).collect();
            header("x-amz-tagging", &pairs.join("&"))?;
        }
        for (name, value) in metadata {
            if name == "content-type" {
                put.content_type = Some(value);
            } else {
                let name = name.strip_prefix("x-amz-meta-").unwrap_or(&name).to_owned();
                put.metadata.insert(name, value);
            }
        }
        Ok(put)
    }
}

/// One file to copy.
pub struct Job {
    /// From where.
    pub source: Source,
    /// To exactly where.
    pub target: Place,
}

/// What was done.
#[derive(Default)]
pub struct Tally {
    /// Files copied, and their bytes.
    pub copied: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Files that the target had.
    pub skipped: u64,
    /// Files that failed; each has been printed.
    pub failed: u64,
}

/// Copies.
pub async fn run(options: &Options, context: &Context) -> Outcome {
    transfer(options, context, false).await
}

/// Copies, and removes each source after its copy is acknowledged.
pub async fn move_all(options: &Options, context: &Context) -> Outcome {
    if options.version_id.is_some() {
        return Err(Failure::usage("a version cannot be moved: copy it"));
    }
    transfer(options, context, true).await
}

/// Copies one job; a move removes the source when the copy is acknowledged.
async fn carry(engine: &Engine, job: &Job) -> Outcome {
    if !engine.moving {
        return engine.copy(&job.source, &job.target).await;
    }
    if let (Place::Remote(from), Place::Remote(to)) = (&job.source.place, &job.target) {
        let same_server = from.client.config().endpoint == to.client.config().endpoint;
        if same_server && (&from.bucket, &from.key) == (&to.bucket, &to.key) {
            return Err(Failure::usage(format!("`{from}` cannot be moved onto itself")));
        }
    }
    engine.copy(&job.source, &job.target).await?;
    let removed = match &job.source.place {
        Place::Local(path) => fs::remove_file(path).map_err(Failure::from),
        Place::Remote(from) => {
            from.client.delete_object(&from.bucket, &from.key, None).await.map(drop).map_err(Failure::from)
        }
    };
    removed.when(|| format!("`{}` is copied but cannot be removed", job.source.place))
}

async fn transfer(options: &Options, context: &Context, moving: bool) -> Outcome {
    let (target_text, sources) = options.paths.split_last().ok_or_else(|| Failure::usage("no paths"))?;
    let target = Place::parse(target_text, &context.aliases)?;
    if let Place::Remote(remote) = &target {
        remote.need_bucket()?;
    }
    let into = sources.len() > 1 || options.recursive;
    let progress = Progress::bytes(&context.output);
    let mut engine = options.transfer.engine(&progress, options.resume)?;
    engine.moving = moving;
    let mut jobs: Vec<BoxStream<'static, Outcome<Job>>> = Vec::new();
    for text in sources {
        let source = Place::parse(text, &context.aliases)?;
        if options.recursive && is_folder(&source).await? {
            jobs.push(below(&source, text, &target));
        } else {
            let job = single(options, source, text, &target, target_text, into).await;
            if !into {
                return one(&engine, options, context, job?).await.inspect_err(|_| progress.finish());
            }
            jobs.push(stream::iter([job]).boxed());
        }
    }
    let begin = Instant::now();
    let mut all = stream::iter(jobs).flatten();
    let resume = options.resume;
    let tally =
        copy_all(&engine, context, &mut all, |job| async move { resume && is_there(job).await }).await?;
    conclude(&context.output, &progress, &tally, begin)
}

/// One file, whose failure is the command's.
async fn one(engine: &Engine, options: &Options, context: &Context, job: Job) -> Outcome {
    let job = Arc::new(job);
    let begin = Instant::now();
    let mut tally = Tally::default();
    if options.resume && is_there(job.clone()).await {
        tally.skipped = 1;
    } else {
        engine.progress.found_file(job.source.item.size);
        carry(engine, &job).await?;
        tally = Tally { copied: 1, bytes: job.source.item.size, ..Tally::default() };
        copied(context, &job);
    }
    if context.output.wants_progress() {
        return conclude(&context.output, &engine.progress, &tally, begin);
    }
    Ok(())
}

/// A line per file is for logs and pipes; on a terminal the bar shows the same.
fn copied(context: &Context, job: &Job) {
    if context.output.wants_progress() {
        return;
    }
    let (source, target) = (&job.source.place, &job.target);
    context.output.done(
        || json!({ "source": source.to_string(), "target": target.to_string(), "size": job.source.item.size }),
        || format!("`{source}` -> `{target}`"),
    );
}

/// Copies all jobs, several at a time; `skip` says which need no copying.
pub async fn copy_all<'j, F: Future<Output = bool> + Send>(
    engine: &Engine,
    context: &Context,
    jobs: &mut (impl futures::Stream<Item = Outcome<Job>> + Send + Unpin + 'j),
    skip: impl Fn(Arc<Job>) -> F + Sync,
) -> Outcome<Tally> {
    let progress = &engine.progress;
    let skip = &skip;
    let running = jobs.map(|job| async move {
        let job = Arc::new(job?);
        if skip(job.clone()).await {
            return Outcome::Ok((job, false));
        }
        progress.found_file(job.source.item.size);
        carry(engine, &job).await?;
        progress.file_done();
        Ok((job, true))
    });
    let mut running = running.buffer_unordered(engine.parallel);
    let mut tally = Tally::default();
    while let Some(done) = running.next().await {
        match done {
            Ok((_, false)) => tally.skipped += 1,
            Ok((job, true)) => {
                tally.copied += 1;
                tally.bytes += job.source.item.size;
                copied(context, &job);
            }
            Err(failure) if failure.kind == Kind::Usage => {
                progress.finish();
                return Err(failure);
            }
            Err(failure) => {
                progress.print(|| context.output.failure(&failure));
                tally.failed += 1;
            }
        }
    }
    Ok(tally)
}

/// Prints the sum and turns failures into the command's.
pub fn conclude(output: &Output, progress: &Progress, tally: &Tally, begin: Instant) -> Outcome {
    progress.finish();
    let seconds = begin.elapsed().as_secs_f64();
    let speed = (tally.bytes as f64 / seconds.max(1e-3)) as u64;
    output.done(
        || {
            json!({
                "total": tally.bytes, "transferred": tally.bytes, "duration": seconds, "speed": speed,
                "copied": tally.copied, "skipped": tally.skipped, "failed": tally.failed,
            })
        },
        || {
            let skipped =
                if tally.skipped > 0 { format!(", {} were there", tally.skipped) } else { String::new() };
            let failed = if tally.failed > 0 { format!(", {} FAILED", tally.failed) } else { String::new() };
            format!(
                "{} copied, {} in {seconds:.1}s ({}/s){skipped}{failed}",
                tally.copied,
                size_text(tally.bytes),
                size_text(speed)
            )
        },
    );
    match tally.failed {
        0 => Ok(()),
        n => Err(Failure::partly(n)),
    }
}

async fn is_folder(source: &Place) -> Outcome<bool> {
    match source {
        Place::Local(path) => Ok(path.is_dir()),
        Place::Remote(remote) if remote.key.is_empty() || remote.key.ends_with('/') => Ok(true),
        Place::Remote(remote) => {
            let list = ashlar_client::ListOptions {
                prefix: remote.folder(),
                max_keys: Some(1),
                ..Default::default()
            };
            let page =
                remote.client.list(&remote.bucket, &list).await.when(|| format!("cannot list `{remote}`"))?;
            Ok(!page.entries.is_empty())
        }
    }
}

/// Everything below a folder.
fn below(source: &Place, text: &str, target: &Place) -> BoxStream<'static, Outcome<Job>> {
    let base = if text.ends_with('/') { String::new() } else { folder_name(source) };
    let (source, target) = (source.clone(), target.clone());
    let items = tree::items(&source);
    let jobs = items.map(move |item| {
        let item = item?;
        if item.is_folder_marker() && matches!(target, Place::Local(_)) {
            return Ok(None);
        }
        job_below(&source, &target, &base, item).map(Some)
    });
    jobs.filter_map(|job: Outcome<Option<Job>>| std::future::ready(job.transpose())).boxed()
}

/// The job that copies one item of the tree `source` to its place in the tree `target`.
pub fn job_below(source: &Place, target: &Place, base: &str, item: Item) -> Outcome<Job> {
    let path = item.path.clone();
    let place = match source {
        Place::Local(folder) => Place::Local(folder.join(&path)),
        Place::Remote(remote) => Place::Remote(remote.with_key(format!("{}{path}", remote.folder()))),
    };
    let target = match target {
        Place::Local(folder) => Place::Local(local_path(folder, &format!("{base}{path}"))?),
        Place::Remote(remote) => Place::Remote(remote.with_key(format!("{}{base}{path}", remote.folder()))),
    };
    Ok(Job { source: Source { place, item }, target })
}

/// The last segment of a folder's path with a slash; empty for `.` and the like.
fn folder_name(place: &Place) -> String {
    let name = match place {
        Place::Local(path) => path.file_name().and_then(|n| n.to_str()).unwrap_or_default(),
        Place::Remote(remote) if remote.key.is_empty() => &remote.bucket,
        Place::Remote(remote) => remote.key.rsplit('/').next().unwrap_or_default(),
    };
    if name.is_empty() { String::new() } else { format!("{name}/") }
}

async fn single(
    options: &Options,
    source: Place,
    text: &str,
    target: &Place,
    target_text: &str,
    into: bool,
) -> Outcome<Job> {
    let item = match &source {
        Place::Local(path) => {
            let found =
                fs::metadata(path).when(|| format!("`{}` is neither an alias nor a file", path.display()))?;
            if found.is_dir() {
                return Err(Failure::usage(format!("`{text}` is a folder: add --recursive")));
            }
            let modified = found.modified().ok().map(OffsetDateTime::from);
            Item { path: String::new(), size: found.len(), modified, etag: None, version_id: None }
        }
        Place::Remote(remote) => {
            remote.need_key()?;
            let get = GetOptions { version_id: options.version_id.clone(), ..GetOptions::default() };
            let head = remote.client.head_object(&remote.bucket, &remote.key, &get).await;
            let head = head.when(|| format!("cannot read `{remote}`"))?;
            Item {
                path: String::new(),
                size: head.size,
                modified: head.modified,
                etag: Some(head.etag),
                version_id: options.version_id.clone(),
            }
        }
    };
    let name = text.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
    let target = match target {
        Place::Local(path) => {
            let folder = into || path.is_dir() || target_text.ends_with('/');
            Place::Local(if folder { local_path(path, name)? } else { checked(path)? })
        }
        Place::Remote(remote) => {
            let folder = into || remote.key.is_empty() || remote.key.ends_with('/');
            Place::Remote(if folder {
                remote.with_key(format!("{}{name}", remote.folder()))
            } else {
                remote.clone()
            })
        }
    };
    Ok(Job { source: Source { place: source, item }, target })
}

/// A mistyped alias looks like a local path in a folder that does not exist.
fn checked(path: &Path) -> Outcome<PathBuf> {
    let parent = path.parent().filter(|p| !p.as_os_str().is_empty());
    if let Some(parent) = parent
        && !parent.exists()
    {
        let cause = format!("`{}`: there is no folder and no alias `{}`", path.display(), parent.display());
        return Err(Failure::new(Kind::NotFound, cause));
    }
    Ok(path.to_path_buf())
}

/// Whether the target has the same already.
async fn is_there(job: Arc<Job>) -> bool {
    let found = match &job.target {
        Place::Local(path) => fs::metadata(path).ok().map(|m| Item {
            path: String::new(),
            size: m.len(),
            modified: m.modified().ok().map(OffsetDateTime::from),
            etag: None,
            version_id: None,
        }),
        Place::Remote(remote) => {
            let head =
                remote.client.head_object(&remote.bucket, &remote.key, &GetOptions::default()).await.ok();
            head.map(|head| Item {
                path: String::new(),
                size: head.size,
                modified: head.modified,
                etag: Some(head.etag),
                version_id: None,
            })
        }
    };
    found.is_some_and(|target| same(&job.source.item, &target))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes() {
        let options = TransferOptions {
            parallel: 1,
            part_size: 16,
            attr: Some("Content-Type=text/x;Cache-Control=no-store; Colour=red=ish".into()),
            tags: Some("a b=c%26d".into()),
            storage_class: Some("REDUCED".into()),
        };
        let put = options.put_options().unwrap();
        assert_eq!(put.content_type.as_deref(), Some("text/x"));
        assert_eq!(put.metadata["colour"], "red=ish");
        assert_eq!(put.headers["cache-control"], "no-store");
        assert_eq!(put.headers["x-amz-tagging"], "a%20b=c%26d");
        assert_eq!(put.headers["x-amz-storage-class"], "REDUCED");
    }

    #[test]
    fn items_land_in_their_place() {
        let item =
            |path: &str| Item { path: path.into(), size: 0, modified: None, etag: None, version_id: None };
        let (source, target) = (Place::Local("/s/dir".into()), Place::Local("/t".into()));
        let job = job_below(&source, &target, &folder_name(&source), item("a/b")).unwrap();
        assert_eq!(job.source.place.to_string(), "/s/dir/a/b");
        assert_eq!(job.target.to_string(), "/t/dir/a/b");
        assert!(job_below(&source, &target, "", item("../b")).is_err());
        assert_eq!(folder_name(&Place::Local(".".into())), "");
    }
}
