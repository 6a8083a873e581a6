//! `ashlar find`, `ashlar du`, `ashlar tree`, `ashlar head`: look through trees of objects and files.
//!
//! Invariant: nothing is changed; memory does not grow with the number of objects.

use ashlar_client::GetOptions;
use clap::Args;
use futures::{StreamExt, TryStreamExt};
use serde_json::json;
use time::{Duration, OffsetDateTime};

use super::{
    context::{Context, each},
    failure::{Failure, Kind, Outcome, While},
    output::{Tone, size_text, time_json},
    place::Place,
    tree::{self, Item},
};

/// What to find.
#[derive(Args, Debug)]
pub struct FindOptions {
    /// ALIAS/BUCKET[/FOLDER] or local folders
    #[arg(required = true)]
    targets: Vec<String>,
    /// The last segment of the path matches this pattern; `*` stands for anything, `?` for one character
    #[arg(long, value_name = "PATTERN")]
    name: Option<String>,
    /// The whole path below the target matches this pattern
    #[arg(long, value_name = "PATTERN")]
    path: Option<String>,
    /// Larger than this size, for instance 10MiB
    #[arg(long, value_name = "SIZE")]
    larger: Option<String>,
    /// Smaller than this size
    #[arg(long, value_name = "SIZE")]
    smaller: Option<String>,
    /// Changed longer ago than this, for instance 7d10h
    #[arg(long, value_name = "AGE")]
    older_than: Option<String>,
    /// Changed more recently than this
    #[arg(long, value_name = "AGE")]
    newer_than: Option<String>,
}

/// What every item found fulfils.
struct Filter {
    name: Option<String>,
    path: Option<String>,
    larger: Option<u64>,
    smaller: Option<u64>,
    before: Option<OffsetDateTime>,
    after: Option<OffsetDateTime>,
}

impl Filter {
    fn new(options: &FindOptions, now: OffsetDateTime) -> Outcome<Filter> {
        let size = |text: &Option<String>| {
            text.as_deref().map(ashlar_arguments::size::parse).transpose().map_err(Failure::usage)
        };
        let ago = |text: &Option<String>| Outcome::Ok(text.as_deref().map(age).transpose()?.map(|a| now - a));
        Ok(Filter {
            name: options.name.clone(),
            path: options.path.clone(),
            larger: size(&options.larger)?,
            smaller: size(&options.smaller)?,
            before: ago(&options.older_than)?,
            after: ago(&options.newer_than)?,
        })
    }

    fn takes(&self, item: &Item) -> bool {
        let name = item.path.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
        self.name.as_ref().is_none_or(|p| tree::matches(p, name))
            && self.path.as_ref().is_none_or(|p| tree::matches(p, &item.path))
            && self.larger.is_none_or(|n| item.size > n)
            && self.smaller.is_none_or(|n| item.size < n)
            && self.before.is_none_or(|t| item.modified.is_some_and(|m| m < t))
            && self.after.is_none_or(|t| item.modified.is_some_and(|m| m > t))
    }
}

/// An age as people write it: `90s`, `15m`, `7d10h`, `2w`.
pub fn age(text: &str) -> Outcome<Duration> {
    let bad = || Failure::usage(format!("{text:?}: expected an age such as 90s, 15m, 7d10h or 2w"));
    let (mut seconds, mut number) = (0i64, String::new());
    for c in text.chars() {
        if c.is_ascii_digit() {
            number.push(c);
            continue;
        }
        let unit = match c {
            's' => 1,
            'm' => 60,
            'h' => 3600,
            'd' => 86_400,
            'w' => 7 * 86_400,
            _ => return Err(bad()),
        };
        let n: i64 = number.parse().map_err(|_| bad())?;
        seconds = n.checked_mul(unit).and_then(|n| seconds.checked_add(n)).ok_or_else(bad)?;
        number.clear();
    }
    // Beyond a thousand years a time cannot be computed.
    if number.is_empty() && !text.is_empty() && seconds < 1000 * 366 * 86_400 {
        Ok(Duration::seconds(seconds))
    } else {
        Err(bad())
    }
}

/// The name of a place without a slash at its end, as paths below it begin.
fn root(place: &Place) -> String {
    place.to_string().trim_end_matches('/').to_owned()
}

fn folder(text: &str, context: &Context) -> Outcome<Place> {
    let place = Place::parse(text, &context.aliases)?;
    match &place {
        Place::Remote(remote) => remote.need_bucket()?,
        Place::Local(path) if !path.is_dir() => {
            let cause = format!("`{}` is neither an alias nor a folder", path.display());
            return Err(Failure::new(Kind::NotFound, cause));
        }
        Place::Local(_) => {}
    }
    Ok(place)
}

/// Prints the path of everything that fulfils all conditions.
pub async fn find(options: &FindOptions, context: &Context) -> Outcome {
    let filter = Filter::new(options, OffsetDateTime::from(ashlar_environment::time::wall()))?;
    let filter = &filter;
    each(context, &options.targets, |target| async move {
        let place = folder(target, context)?;
        let root = root(&place);
        let mut items = tree::items(&place);
        while let Some(item) = items.try_next().await? {
            if filter.takes(&item) {
                let name = format!("{root}/{}", item.path);
                context.output.result(
                    || json!({ "key": name, "size": item.size, "lastModified": time_json(item.modified), "etag": item.etag }),
                    || context.output.printable(&name),
                );
            }
        }
        Ok(())
    })
    .await
}

/// What to sum up.
#[derive(Args, Debug)]
pub struct DuOptions {
    /// ALIAS/BUCKET[/FOLDER] or local folders
    #[arg(required = true)]
    targets: Vec<String>,
    /// Also the sums of folders down to this depth
    #[arg(long, short, default_value_t = 1, value_name = "N")]
    depth: usize,
    /// All versions, not only the current ones
    #[arg(long)]
    versions: bool,
}

/// A folder whose objects are being added up.
struct Sum {
    path: String,
    size: u64,
    objects: u64,
}

/// Prints how much is in folders: sizes of objects, not what they take on drives.
pub async fn du(options: &DuOptions, context: &Context) -> Outcome {
    each(context, &options.targets, |target| async move {
        let place = folder(target, context)?;
        let root = root(&place);
        let mut items = match (&place, options.versions) {
            (Place::Remote(remote), true) => {
                let prefix = remote.folder();
                let below = prefix.clone();
                let all = tree::versions(remote, prefix);
                all.map_ok(move |e| Item {
                    path: e.key.strip_prefix(&below).unwrap_or(&e.key).to_owned(),
                    size: e.size,
                    modified: e.modified,
                    etag: None,
                    version_id: e.version_id,
                })
                .boxed()
            }
            _ => tree::items(&place),
        };
        // Folders come in order, so that only those on the way to the current object are open.
        let mut open = vec![Sum { path: String::new(), size: 0, objects: 0 }];
        while let Some(item) = items.try_next().await? {
            let depth = options.depth.saturating_sub(1);
            let ends = item.path.match_indices('/').map(|(i, _)| &item.path[..=i]).take(depth);
            let folders: Vec<&str> = ends.collect();
            let common = 1 + open[1..].iter().zip(&folders).take_while(|(o, f)| o.path == **f).count();
            while open.len() > common {
                close(context, &root, open.pop());
            }
            for path in &folders[common - 1..] {
                open.push(Sum { path: (*path).to_owned(), size: 0, objects: 0 });
            }
            for sum in &mut open {
                sum.size += item.size;
                sum.objects += 1;
            }
        }
        while !open.is_empty() {
            close(context, &root, open.pop());
        }
        Ok(())
    })
    .await
}

fn close(context: &Context, root: &str, sum: Option<Sum>) {
    let Some(sum) = sum else { return };
    let name = format!("{root}/{}", sum.path);
    let name = name.trim_end_matches('/');
    context.output.result(
        || json!({ "prefix": name, "size": sum.size, "objects": sum.objects }),
        || {
            let size = context.output.paint(Tone::Size, format!("{:>11}", size_text(sum.size)));
            format!("{size} {:>10} objects  {}", sum.objects, context.output.printable(name))
        },
    );
}

/// What to draw.
#[derive(Args, Debug)]
pub struct TreeOptions {
    /// ALIAS/BUCKET[/FOLDER] or local folders
    #[arg(required = true)]
    targets: Vec<String>,
    /// Files too, not only folders
    #[arg(long, short)]
    files: bool,
    /// Only so many levels
    #[arg(long, short, value_name = "N")]
    depth: Option<usize>,
}

/// Draws folders as a tree.
pub async fn tree(options: &TreeOptions, context: &Context) -> Outcome {
    each(context, &options.targets, |target| async move {
        let place = folder(target, context)?;
        let name = root(&place);
        context
            .output
            .result(|| json!({ "key": name, "type": "folder" }), || context.output.printable(&name));
        let mut shown: Vec<String> = Vec::new();
        let mut items = tree::items(&place);
        while let Some(item) = items.try_next().await? {
            let segments: Vec<&str> = item.path.trim_end_matches('/').split('/').collect();
            let folders = if item.is_folder_marker() { segments.len() } else { segments.len() - 1 };
            let common = shown.iter().zip(&segments[..folders]).take_while(|(a, b)| a == *b).count();
            shown.truncate(common);
            for (level, segment) in segments.iter().enumerate().skip(common) {
                let is_folder = level < folders;
                if (!is_folder && !options.files) || options.depth.is_some_and(|d| level >= d) {
                    break;
                }
                let path = segments[..=level].join("/");
                let kind = if is_folder { "folder" } else { "file" };
                context.output.result(
                    || json!({ "key": format!("{name}/{path}"), "type": kind }),
                    || {
                        let text = context.output.printable(segment);
                        let text = match is_folder {
                            true => context.output.paint(Tone::Folder, format!("{text}/")),
                            false => text,
                        };
                        format!("{}├─ {text}", "│  ".repeat(level))
                    },
                );
                if is_folder {
                    shown.push((*segment).to_owned());
                }
            }
        }
        Ok(())
    })
    .await
}

/// What to print the beginning of.
#[derive(Args, Debug)]
pub struct HeadOptions {
    /// ALIAS/BUCKET/KEY
    #[arg(required = true)]
    targets: Vec<String>,
    /// So many lines
    #[arg(long, short = 'n', default_value_t = 10, value_name = "N")]
    lines: u64,
    /// This version
    #[arg(long, visible_alias = "vid")]
    version_id: Option<String>,
}

/// Prints the first lines of objects.
pub async fn head(options: &HeadOptions, context: &Context) -> Outcome {
    each(context, &options.targets, |target| async move {
        let remote = Place::remote(target, &context.aliases)?;
        remote.need_key()?;
        let get = GetOptions { version_id: options.version_id.clone(), ..GetOptions::default() };
        let print = async {
            let mut object = remote.client.get_object(&remote.bucket, &remote.key, &get).await?;
            let mut left = options.lines;
            while let Some(piece) = object.body.piece().await? {
                let mut end = 0;
                for (i, _) in piece.iter().enumerate().filter(|(_, b)| **b == b'\n') {
                    if left == 0 {
                        break;
                    }
                    left -= 1;
                    end = i + 1;
                }
                context.output.bytes(if left == 0 { &piece[..end] } else { &piece });
                if left == 0 {
                    break;
                }
            }
            Outcome::Ok(())
        };
        print.await.when(|| format!("cannot read `{remote}`"))
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages() {
        assert_eq!(age("90s").unwrap(), Duration::seconds(90));
        assert_eq!(age("7d10h").unwrap(), Duration::hours(7 * 24 + 10));
        assert_eq!(age("2w").unwrap(), Duration::days(14));
        for bad in ["", "7", "d", "7x", "-1d", "99999999999999999w", "400000d1"] {
            assert!(age(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn filters() {
        let now = OffsetDateTime::UNIX_EPOCH + Duration::days(100);
        let mut options = FindOptions {
            targets: Vec::new(),
            name: Some("*.log".into()),
            path: None,
            larger: Some("1KiB".into()),
            smaller: None,
            older_than: Some("10d".into()),
            newer_than: None,
        };
        let item = |path: &str, size, days| Item {
            path: path.into(),
            size,
            modified: Some(OffsetDateTime::UNIX_EPOCH + Duration::days(days)),
            etag: None,
            version_id: None,
        };
        let filter = Filter::new(&options, now).unwrap();
        assert!(filter.takes(&item("a/b.log", 2000, 50)));
        assert!(!filter.takes(&item("a/b.log", 1024, 50)), "not larger");
        assert!(!filter.takes(&item("a/b.log", 2000, 95)), "too new");
        assert!(!filter.takes(&item("a.log/b", 2000, 50)), "another name");
        options.larger = Some("many".into());
        assert!(Filter::new(&options, now).is_err());
    }
}
