//! Documents of buckets (CORS rules, a website, ...): the shared code that reads and changes them.
//!
//! Must not depend on: the content of documents.

use std::sync::Arc;

use super::{Answer, Call, Context};
use crate::body::Body;
use crate::fault::Outcome;
use crate::headers::refuse_unsupported;
use crate::xml::Xml;

/// What the call's bucket has of this kind; also checks the headers, and that there is such a bucket.
pub fn stored(cx: &Context, call: &Call, kind: &str) -> Outcome<Option<Arc<str>>> {
    refuse_unsupported(&call.headers, &cx.owner_id)?;
    let bucket = call.open()?;
    Ok(bucket.documents.get(kind).cloned())
}

/// Stores a document, or with `None` removes it.
pub async fn set(cx: &Context, call: &Call, kind: &str, text: Option<&str>) -> Outcome<()> {
    cx.store.set_bucket_document(&call.open()?, kind, text).await.map_err(|e| call.fault(e))
}

/// Removes a document, if there is one, and answers 204.
pub async fn delete(cx: &Context, call: &Call, kind: &str) -> Outcome<Answer> {
    if stored(cx, call, kind)?.is_some() {
        set(cx, call, kind, None).await?;
    }
    Ok(Answer::no_content())
}

/// An answer that is a document as it is kept.
pub fn kept(text: &str) -> Answer {
    let mut answer = Answer::document(Xml::new());
    answer.body = Body::whole(text.to_owned());
    answer
}
