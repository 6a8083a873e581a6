//! `?website`: the website configuration of a bucket, stored as the document that is returned.

use super::{Answer, Call, Context, document, limit};
pub use crate::documents::website::{DOCUMENT, decode};
use crate::documents::website::{parse, print};
use crate::fault::{Code, Fault, Outcome};

/// `GetBucketWebsite`.
pub fn get(cx: &Context, call: &mut Call) -> Outcome<Answer> {
    let text = document::stored(cx, call, DOCUMENT)?
        .ok_or_else(|| Fault::new(Code::NO_SUCH_WEBSITE).element("BucketName", call.bucket.as_str()))?;
    Ok(document::kept(&text))
}

/// `PutBucketWebsite`.
pub async fn put(cx: &Context, call: &mut Call) -> Outcome<Answer> {
    document::stored(cx, call, DOCUMENT)?;
    let body = call.document(limit::CONFIGURATION).await?;
    document::set(cx, call, DOCUMENT, Some(&print(&parse(&body)?))).await?;
    Ok(Answer::ok())
}

/// `DeleteBucketWebsite`.
pub async fn delete(cx: &Context, call: &mut Call) -> Outcome<Answer> {
    document::delete(cx, call, DOCUMENT).await
}
