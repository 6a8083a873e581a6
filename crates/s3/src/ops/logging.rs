//! `?logging`: the target of a bucket's access log.

use ashlar_policy::Action;

use super::{Answer, Call, Context, document, limit};
pub use crate::documents::logging::{DOCUMENT, Logging, decode};
use crate::documents::logging::{parse, print};
use crate::fault::{Code, Fault, Outcome};
use crate::permit::Need;
use crate::xml::Xml;

/// `GetBucketLogging`.
pub fn get(cx: &Context, call: &mut Call) -> Outcome<Answer> {
    match document::stored(cx, call, DOCUMENT)? {
        Some(text) => Ok(document::kept(&text)),
        None => {
            let mut xml = Xml::new();
            xml.root("BucketLoggingStatus").close();
            Ok(Answer::document(xml))
        }
    }
}

/// `PutBucketLogging`; an empty document ends it.
pub async fn put(cx: &Context, call: &mut Call) -> Outcome<Answer> {
    let before = document::stored(cx, call, DOCUMENT)?;
    let body = call.document(limit::CONFIGURATION).await?;
    let text = match parse(&body)? {
        None => None,
        Some(logging) => {
            if !permits(cx, call, &logging).await {
                return Err(Fault::with(
                    Code::INVALID_LOG_TARGET,
                    "The target bucket for logging does not exist, is not owned by you, or does not have the appropriate grants for the log-delivery group.",
                )
                .element("TargetBucket", logging.target));
            }
            Some(print(&logging))
        }
    };
    if text.is_some() || before.is_some() {
        document::set(cx, call, DOCUMENT, text.as_deref()).await?;
    }
    call.origin.document_cache.logs.look_again(&cx.store);
    Ok(Answer::ok())
}

/// Whether the target exists and lets the caller write log objects under the prefix. Both are refused alike:
/// a caller without permission cannot tell whether the bucket exists.
async fn permits(cx: &Context, call: &Call, logging: &Logging) -> bool {
    // The name of a log object, as `access_log` makes them.
    let key = format!("{}2006-01-02-15-04-05-0123456789ABCDEF", logging.prefix);
    let need = Need { action: Action::PutObject, bucket: &logging.target, key: &key, version: None };
    let permitted = call.may(cx, &need).await;
    permitted && call.buckets.find(&logging.target).is_ok()
}
