//! `ashlar stat`: shows the properties of an object, a bucket or a file.

use ashlar_client::{GetOptions, Head, Method, Target, Versioning};
use clap::Args;
use serde_json::{Value, json};

use super::{
    context::{Context, each},
    failure::{Outcome, While},
    location::{Location, Remote},
    output::{size_text, time_json, time_text},
};

/// What to show.
#[derive(Args, Debug)]
pub struct Options {
    /// ALIAS/BUCKET or ALIAS/BUCKET/KEY; also local files
    #[arg(required = true)]
    targets: Vec<String>,
    /// This version
    #[arg(long, visible_alias = "vid")]
    version_id: Option<String>,
}

/// Runs the command.
pub async fn run(options: &Options, context: &Context) -> Outcome {
    each(context, &options.targets, |target| async move {
        match Location::parse(target, &context.aliases)? {
            Location::Local(file) => {
                let found = file.metadata().when(|| format!("`{}` is neither an alias nor a file", file.display()))?;
                let modified = found.modified().ok().map(Into::into);
                let kind = if found.is_dir() { "folder" } else { "file" };
                context.output.result(
                    || json!({ "name": file, "type": kind, "size": found.len(), "lastModified": time_json(modified) }),
                    || fields(&[("Name", file.display().to_string()), ("Date", time_text(modified)), ("Size", size_text(found.len())), ("Type", kind.into())]),
                );
                Ok(())
            }
            Location::Remote(remote) => {
                remote.need_bucket()?;
                let shown = async {
                    if remote.key.is_empty() {
                        bucket(context, &remote).await
                    } else {
                        object(options, context, &remote).await
                    }
                };
                shown.await.when(|| format!("cannot stat `{remote}`"))
            }
        }
    })
    .await
}

async fn bucket(context: &Context, remote: &Remote) -> Outcome {
    let name = remote.bucket.as_str();
    let location = remote.client.bucket_location(name).await?;
    let versioning = match remote.client.versioning(name).await? {
        Versioning::Off => "off",
        Versioning::Enabled => "enabled",
        Versioning::Suspended => "suspended",
    };
    let tags = remote.client.tags(Target::Bucket(name), None).await.unwrap_or_default();
    // Callers without permission, and other servers, do not get the usage.
    let usage = remote.client.admin(Method::GET, &format!("usage/{name}"), &[], None).await.ok();
    context.output.result(
        || {
            json!({ "name": name, "type": "folder", "location": location, "versioning": versioning,
                "tags": tags, "usage": usage })
        },
        || {
            let tags: Vec<String> = tags.iter().map(|(n, v)| format!("{n}={v}")).collect();
            fields(&[
                ("Name", name.into()),
                ("Type", "bucket".into()),
                ("Location", location.clone()),
                ("Versioning", versioning.into()),
                ("Tags", tags.join(" ")),
                ("Holds", usage.as_ref().map(holds).unwrap_or_default()),
            ])
        },
    );
    Ok(())
}

/// The usage of a bucket as text.
fn holds(usage: &Value) -> String {
    let n = |name: &str| usage[name].as_u64().unwrap_or(0);
    let counting = if usage["complete"] == false { " so far; it is being counted" } else { "" };
    format!(
        "{} objects, {} versions, {} delete markers, {} ({} bytes){counting}",
        n("objects"),
        n("versions"),
        n("delete_markers"),
        size_text(n("bytes")),
        n("bytes")
    )
}

async fn object(options: &Options, context: &Context, remote: &Remote) -> Outcome {
    let get = GetOptions { version_id: options.version_id.clone(), checksum: true, ..GetOptions::default() };
    let head: Head = remote.client.head_object(&remote.bucket, &remote.key, &get).await?;
    context.output.result(
        || {
            json!({
                "name": remote.key, "type": "file", "size": head.size, "etag": head.etag,
                "lastModified": time_json(head.modified), "versionID": head.version_id,
                "contentType": head.content_type, "metadata": head.metadata, "headers": head.headers,
            })
        },
        || {
            let mut lines = vec![
                ("Name", remote.key.clone()),
                ("Date", time_text(head.modified)),
                ("Size", format!("{} ({} bytes)", size_text(head.size), head.size)),
                ("ETag", head.etag.clone()),
                ("Type", head.content_type.clone().unwrap_or_default()),
                ("Version", head.version_id.clone().unwrap_or_default()),
            ];
            lines.extend(head.headers.iter().map(|(n, v)| ("Header", format!("{n}: {v}"))));
            lines.extend(head.metadata.iter().map(|(n, v)| ("Metadata", format!("{n}: {v}"))));
            fields(&lines)
        },
    );
    Ok(())
}

/// Names and values in columns, without empty values.
fn fields(lines: &[(&str, String)]) -> String {
    let shown = lines.iter().filter(|(_, value)| !value.is_empty());
    shown.map(|(name, value)| format!("{name:10} : {value}")).collect::<Vec<_>>().join("\n")
}
