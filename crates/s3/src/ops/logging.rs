//! `?logging`: where the access log of a bucket goes.

use ashlar_policy::Action;

use super::{Answer, Call, Context, document, limit};
use crate::fault::{Code, Fault, Outcome};
use crate::permit::Need;
use crate::xml::{Doc, Xml};

/// The bucket's document that holds it.
pub const DOCUMENT: &str = "logging";
/// Longest prefix of log objects.
const MAX_PREFIX: usize = 512;

/// Where log objects go.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Logging {
    /// The bucket.
    pub target: String,
    /// Before every key.
    pub prefix: String,
    /// Keys have owner, region, bucket and date in them; the date is of the events (true) or of the
    /// delivery (false). `None`: the form without.
    pub partitioned: Option<bool>,
}

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
    call.origin.gate.logs.look_again(&cx.store);
    Ok(Answer::ok())
}

/// Whether the target exists and lets the caller write log objects under the prefix. Both are refused alike:
/// a caller without permission cannot tell whether the bucket exists.
async fn permits(cx: &Context, call: &Call, logging: &Logging) -> bool {
    // The name of a log object, as `access_log` makes them.
    let key = format!("{}2006-01-02-15-04-05-0123456789ABCDEF", logging.prefix);
    let need = Need { action: Action::PutObject, bucket: &logging.target, key: &key, version: None };
    let permitted = call.may(cx, &need).await;
    permitted && cx.store.bucket(&logging.target).is_ok()
}

/// As it is kept.
pub fn decode(text: &str) -> Option<Logging> {
    parse(text.as_bytes()).ok().flatten()
}

fn parse(body: &[u8]) -> Outcome<Option<Logging>> {
    let mut doc = Doc::open(body, "BucketLoggingStatus")?;
    let mut found = None;
    while let Some(name) = doc.child()? {
        if name != "LoggingEnabled" || found.is_some() {
            return doc.unexpected(&name);
        }
        found = Some(enabled(&mut doc)?);
    }
    doc.finish()?;
    Ok(found)
}

fn enabled(doc: &mut Doc<'_>) -> Outcome<Logging> {
    let mut logging = Logging::default();
    let mut prefix = None;
    while let Some(name) = doc.child()? {
        match name.as_str() {
            "TargetBucket" => logging.target = doc.text()?.trim().to_owned(),
            "TargetPrefix" => prefix = Some(doc.text()?),
            "TargetGrants" => {
                if doc.child()?.is_some() {
                    return Err(Fault::not_implemented("Granting access to log objects (TargetGrants)"));
                }
            }
            "TargetObjectKeyFormat" => {
                while let Some(name) = doc.child()? {
                    match name.as_str() {
                        "SimplePrefix" => doc.skip()?,
                        "PartitionedPrefix" => logging.partitioned = Some(partitioned(doc)?),
                        other => return doc.unexpected(other),
                    }
                }
            }
            other => return doc.unexpected(other),
        }
    }
    let Some(prefix) = prefix.filter(|_| !logging.target.is_empty()) else {
        return Err(Fault::new(Code::MALFORMED_XML));
    };
    if prefix.len() > MAX_PREFIX || prefix.contains('\0') {
        return Err(Fault::with(Code::INVALID_ARGUMENT, "TargetPrefix is longer than 512 bytes."));
    }
    logging.prefix = prefix;
    Ok(logging)
}

fn partitioned(doc: &mut Doc<'_>) -> Outcome<bool> {
    let mut of_events = false;
    while let Some(name) = doc.child()? {
        if name != "PartitionDateSource" {
            return doc.unexpected(&name);
        }
        of_events = match doc.text()?.trim() {
            "EventTime" => true,
            "DeliveryTime" => false,
            _ => return Err(Fault::new(Code::MALFORMED_XML)),
        };
    }
    Ok(of_events)
}

fn print(logging: &Logging) -> String {
    let mut xml = Xml::new();
    xml.root("BucketLoggingStatus").open("LoggingEnabled");
    xml.leaf("TargetBucket", &logging.target).leaf("TargetPrefix", &logging.prefix);
    if let Some(of_events) = logging.partitioned {
        let source = if of_events { "EventTime" } else { "DeliveryTime" };
        xml.open("TargetObjectKeyFormat").open("PartitionedPrefix");
        xml.leaf("PartitionDateSource", source).close().close();
    }
    xml.close().close();
    xml.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents() {
        let with = |what: &str| format!("<BucketLoggingStatus>{what}</BucketLoggingStatus>");
        assert_eq!(parse(with("").as_bytes()).unwrap(), None);
        let base = "<LoggingEnabled><TargetBucket>logs</TargetBucket><TargetPrefix>p/</TargetPrefix>";
        for (tail, want) in [
            ("", None),
            ("<TargetGrants/><TargetObjectKeyFormat><SimplePrefix/></TargetObjectKeyFormat>", None),
            (
                "<TargetObjectKeyFormat><PartitionedPrefix><PartitionDateSource>EventTime</PartitionDateSource></PartitionedPrefix></TargetObjectKeyFormat>",
                Some(true),
            ),
        ] {
            let logging = parse(with(&format!("{base}{tail}</LoggingEnabled>")).as_bytes()).unwrap().unwrap();
            assert_eq!((logging.target.as_str(), logging.partitioned), ("logs", want));
            assert_eq!(decode(&print(&logging)), Some(logging));
        }
        for bad in [
            "<LoggingEnabled/>",
            "<LoggingEnabled><TargetBucket>b</TargetBucket></LoggingEnabled>",
            "<Other/>",
        ] {
            assert!(parse(with(bad).as_bytes()).is_err(), "{bad}");
        }
    }
}
