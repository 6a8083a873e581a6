//! `RenameObject`: gives an object another key in its bucket.
//!
//! As in Amazon S3 Express One Zone, here for every bucket without versioning. Must not depend on: how the
//! rename is made atomic.

use ashlar_checksum::{Algorithm, Hasher};
use ashlar_object::feed::Kind;
use ashlar_object::{Error, RenameSpec};

use super::get::CHANGES;
use super::{Answer, Call, Context, fault};
use crate::fault::{Code, Fault, Outcome};
use crate::headers;
use crate::sse;
use crate::target::{check_key, decode};

/// The key that is renamed, URL-encoded, with or without a slash before it.
const SOURCE: &str = "x-amz-rename-source";
/// Makes retries answer the same.
const TOKEN: &str = "x-amz-client-token";
/// Longest token, in characters.
const MAX_TOKEN: usize = 64;

/// Reads the key that is renamed.
pub(crate) fn source(call: &Call) -> Outcome<String> {
    let bad = |why: &'static str| Fault::argument(SOURCE, "", why);
    let text =
        headers::text(&call.headers, SOURCE).ok_or_else(|| bad("The key to be renamed is missing."))?;
    let key = decode(&text, false).map_err(|_| bad("The key to be renamed is not URL-encoded."))?;
    let key = key.strip_prefix('/').unwrap_or(&key);
    if key.is_empty() {
        return Err(bad("The key to be renamed is empty."));
    }
    check_key(key)?;
    Ok(key.to_owned())
}

/// The name that retries with the same token have in common.
fn token(call: &Call) -> Outcome<Option<[u8; 16]>> {
    let Some(value) = call.headers.get(TOKEN) else { return Ok(None) };
    let text = value.to_str().unwrap_or_default();
    if text.is_empty() || text.len() > MAX_TOKEN || !text.bytes().all(|b| b.is_ascii_graphic()) {
        let why = format!("A client token has 1 to {MAX_TOKEN} ASCII characters without spaces.");
        return Err(Fault::argument(TOKEN, text, why));
    }
    let mut hasher = Hasher::new(Algorithm::Sha256);
    hasher.update(b"RenameObject ");
    hasher.update(text.as_bytes());
    Ok(hasher.finish().as_bytes().first_chunk().copied())
}

/// `RenameObject`.
pub async fn rename_object(cx: &Context, call: &mut Call) -> Outcome<Answer> {
    let from = source(call)?;
    call.headers.remove(SOURCE);
    headers::refuse_unsupported(&call.headers, &cx.owner_id)?;
    let mut spec = RenameSpec {
        source: headers::conditions(&call.headers, "x-amz-rename-source-")?,
        conditions: headers::conditions(&call.headers, "")?,
        token: token(call)?,
        envelope: None,
    };
    let of_source = |e: Error| fault(e, &call.bucket, &from);
    if let Some(token) = spec.token
        && cx
            .store
            .rename_happened(&call.open()?, &from, &call.key, token)
            .await
            .map_err(|e| call.fault(e))?
    {
        return Ok(Answer::ok());
    }
    for _ in 0..CHANGES {
        let bucket = call.buckets.find(&call.bucket).map_err(of_source)?;
        let source = cx.store.get(&bucket, &from, None).await.map_err(of_source)?;
        spec.envelope = match source.sealed() {
            Some(sealed) => Some(sse::rename(cx, (&bucket, &from, &call.key), sealed).await?),
            None => None,
        };
        match call.store(cx, Kind::Rename).rename(&source, &call.key, &spec).await {
            Ok(()) => return Ok(Answer::ok()),
            Err(Error::Changed) => {}
            Err(e) => return Err(call.fault(e)),
        }
    }
    Err(Fault::new(Code::SLOW_DOWN))
}
