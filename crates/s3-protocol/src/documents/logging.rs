//! The target of a bucket's access log, and its XML.
//!
//! Must not depend on: the content of logs.

use crate::fault::{Code, Fault, Outcome};
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

/// Parses the stored form.
pub fn decode(text: &str) -> Option<Logging> {
    parse(text.as_bytes()).ok().flatten()
}

/// Reads the document that a client sends; `None`: no logging.
///
/// # Errors
/// It is not XML, or not such a document.
pub fn parse(body: &[u8]) -> Outcome<Option<Logging>> {
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

/// The document that clients get.
pub fn print(logging: &Logging) -> String {
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
    fn logging_documents_are_read_and_printed() {
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
