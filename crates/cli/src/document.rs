//! Configuration documents of buckets, as the commands read them from a file and print them.
//!
//! Invariant: a document is passed to and from the server unchanged; the server checks it.
//!
//! Must not depend on: the meaning of the documents.

use std::io::Read as _;

use serde_json::json;

use super::{
    context::Context,
    failure::{Failure, Kind, Outcome, While},
    location::{Location, Remote},
};

/// Maximum size in bytes of a document.
const LIMIT: u64 = 4 << 20;

/// Reads a file, or the standard input for `-`.
///
/// # Errors
/// The file cannot be read, is not UTF-8, or is longer than [`LIMIT`].
pub fn read(file: &str) -> Outcome<String> {
    let mut text = String::new();
    let read = match file {
        "-" => std::io::stdin().lock().take(LIMIT + 1).read_to_string(&mut text),
        _ => std::fs::File::open(file).and_then(|f| f.take(LIMIT + 1).read_to_string(&mut text)),
    };
    let name = if file == "-" { "standard input" } else { file };
    let length = read.when(|| format!("cannot read {name}"))?;
    if length as u64 > LIMIT {
        return Err(Failure::usage(format!("{name} is longer than {} MiB", LIMIT >> 20)));
    }
    Ok(text)
}

/// The bucket that ALIAS/BUCKET names.
pub fn bucket(text: &str, context: &Context) -> Outcome<Remote> {
    let remote = Location::remote(text, &context.aliases)?;
    remote.only_bucket()?;
    Ok(remote)
}

/// Replaces the document `name` (`cors`, `policy`, `website` and others) of a bucket.
pub async fn set(context: &Context, remote: &Remote, name: &str, text: &str) -> Outcome {
    let done = remote.client.set_document(&remote.bucket, name, text).await;
    done.when(|| format!("cannot change the {name} settings of `{remote}`"))?;
    context.output.done(
        || json!({ "bucket": remote.to_string() }),
        || format!("The {name} settings of `{remote}` are changed."),
    );
    Ok(())
}

/// The document of a bucket.
///
/// # Errors
/// [`Kind::NotFound`]: there is none.
pub async fn get(remote: &Remote, name: &str) -> Outcome<String> {
    let text = remote.client.document(&remote.bucket, name).await;
    let text = text.when(|| format!("cannot read the {name} settings of `{remote}`"))?;
    text.ok_or_else(|| none(remote, name))
}

/// The failure of a command that needs a document that the bucket does not have.
pub fn none(remote: &Remote, name: &str) -> Failure {
    Failure::new(Kind::NotFound, format!("`{remote}` has no {name} settings"))
}

/// Prints the document of a bucket.
pub async fn show(context: &Context, remote: &Remote, name: &str) -> Outcome {
    let text = get(remote, name).await?;
    print(context, remote, &text);
    Ok(())
}

/// Prints a document.
pub fn print(context: &Context, remote: &Remote, text: &str) {
    context.output.result(|| json!({ "bucket": remote.to_string(), "document": text }), || text.to_owned());
}

/// Removes the document of a bucket.
pub async fn clear(context: &Context, remote: &Remote, name: &str) -> Outcome {
    let done = remote.client.delete_document(&remote.bucket, name).await;
    done.when(|| format!("cannot remove the {name} settings of `{remote}`"))?;
    context.output.done(
        || json!({ "bucket": remote.to_string() }),
        || format!("The {name} settings of `{remote}` are removed."),
    );
    Ok(())
}

/// Text as the content of an XML element.
pub fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
