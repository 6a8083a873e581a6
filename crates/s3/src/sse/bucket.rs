//! The default encryption of a bucket, and `?encryption`.
//!
//! Stored as text in the bucket's document [`DEFAULT`]: `s3`, or `kms KEY BUCKET-KEY` (the key as given, by
//! name or ARN, `-`: the default key; `0` or `1`). Invariant: while a default cannot be read, nothing can be
//! written.

use ashlar_object::Bucket;

use super::ask::{Asked, key_name};
use super::encryption::of_kms;
use crate::fault::{Code, Fault, Outcome};
use crate::headers::refuse_unsupported;
use crate::ops::{Answer, Call, Context, document, limit};
use crate::xml::{Doc, Xml};

/// The bucket's document that holds its default encryption.
pub const DEFAULT: &str = "encryption";

#[derive(Clone, PartialEq, Eq, Debug)]
enum Rule {
    S3,
    Kms { key_id: Option<String>, bucket_key: bool },
}

impl Rule {
    fn text(&self) -> String {
        match self {
            Rule::S3 => "s3".to_owned(),
            Rule::Kms { key_id, bucket_key } => {
                format!("kms {} {}", key_id.as_deref().unwrap_or("-"), u8::from(*bucket_key))
            }
        }
    }

    fn parse(text: &str) -> Option<Rule> {
        let words: Vec<&str> = text.split(' ').collect();
        match words[..] {
            ["s3"] => Some(Rule::S3),
            ["kms", key, bucket_key @ ("0" | "1")] => Some(Rule::Kms {
                key_id: (key != "-").then(|| key.to_owned()),
                bucket_key: bucket_key == "1",
            }),
            _ => None,
        }
    }
}

fn stored(bucket: &Bucket) -> Outcome<Option<Rule>> {
    let Some(text) = bucket.documents.get(DEFAULT) else { return Ok(None) };
    match Rule::parse(text) {
        Some(rule) => Ok(Some(rule)),
        None => {
            tracing::error!(
                bucket = bucket.name,
                "the default encryption cannot be read; nothing is written"
            );
            Err(Fault::internal("the bucket's default encryption cannot be read"))
        }
    }
}

/// What was asked for, or the bucket's default.
pub(super) fn or_default(bucket: &Bucket, asked: Asked) -> Outcome<Asked> {
    if !matches!(asked, Asked::Nothing) {
        return Ok(asked);
    }
    Ok(match stored(bucket)? {
        None => Asked::Nothing,
        Some(Rule::S3) => Asked::S3,
        Some(Rule::Kms { key_id, bucket_key }) => Asked::Kms {
            key_id: key_id.as_deref().map(key_name).transpose()?,
            context: String::new(),
            bucket_key,
        },
    })
}

/// `GetBucketEncryption`.
pub fn get(cx: &Context, call: &mut Call) -> Outcome<Answer> {
    refuse_unsupported(&call.headers, &cx.owner_id)?;
    let rule = stored(&*call.open()?)?
        .ok_or_else(|| Fault::new(Code::NO_BUCKET_ENCRYPTION).element("BucketName", call.bucket.as_str()))?;
    let mut xml = Xml::new();
    xml.root("ServerSideEncryptionConfiguration").open("Rule").open("ApplyServerSideEncryptionByDefault");
    let bucket_key = match rule {
        Rule::S3 => {
            xml.leaf("SSEAlgorithm", "AES256");
            false
        }
        Rule::Kms { key_id, bucket_key } => {
            xml.leaf("SSEAlgorithm", "aws:kms");
            if let Some(name) = key_id {
                xml.leaf("KMSMasterKeyID", &name);
            }
            bucket_key
        }
    };
    xml.close().leaf("BucketKeyEnabled", if bucket_key { "true" } else { "false" }).close().close();
    Ok(Answer::document(xml))
}

/// `PutBucketEncryption`. A key that is named must be there.
pub async fn put(cx: &Context, call: &mut Call) -> Outcome<Answer> {
    refuse_unsupported(&call.headers, &cx.owner_id)?;
    call.open()?;
    let body = call.document(limit::CONFIGURATION).await?;
    let rule = parse(&body)?;
    // Without keys nothing could be written any more.
    let keys = cx.encryption.keys()?;
    if let Rule::Kms { key_id: Some(id), .. } = &rule {
        keys.generate(&key_name(id)?, b"check").await.map_err(of_kms)?;
    }
    document::set(cx, call, DEFAULT, Some(&rule.text())).await?;
    Ok(Answer::ok())
}

/// `DeleteBucketEncryption`.
pub async fn delete(cx: &Context, call: &mut Call) -> Outcome<Answer> {
    refuse_unsupported(&call.headers, &cx.owner_id)?;
    call.open()?;
    document::set(cx, call, DEFAULT, None).await?;
    Ok(Answer::no_content())
}

fn malformed(why: &'static str) -> Fault {
    Fault::with(Code::MALFORMED_XML, why)
}

/// For the fuzzer: documents, and the kept text of a rule.
pub(crate) fn fuzzed(bytes: &[u8]) {
    let kept = std::str::from_utf8(bytes).ok().and_then(Rule::parse);
    for rule in parse(bytes).ok().into_iter().chain(kept) {
        assert_eq!(Rule::parse(&rule.text()), Some(rule), "a default encryption that is not itself");
    }
}

fn parse(body: &[u8]) -> Outcome<Rule> {
    let mut doc = Doc::open(body, "ServerSideEncryptionConfiguration")?;
    let mut rule = None;
    while let Some(name) = doc.child()? {
        if name != "Rule" {
            return doc.unexpected(&name);
        }
        if rule.replace(parse_rule(&mut doc)?).is_some() {
            return Err(malformed("There must be exactly one Rule."));
        }
    }
    doc.finish()?;
    rule.ok_or_else(|| malformed("There must be exactly one Rule."))
}

fn parse_rule(doc: &mut Doc<'_>) -> Outcome<Rule> {
    let (mut algorithm, mut key_id, mut bucket_key) = (None, None, false);
    while let Some(name) = doc.child()? {
        match name.as_str() {
            "ApplyServerSideEncryptionByDefault" => {
                while let Some(name) = doc.child()? {
                    match name.as_str() {
                        "SSEAlgorithm" => algorithm = Some(doc.text()?),
                        "KMSMasterKeyID" => key_id = Some(doc.text()?).filter(|t| !t.is_empty()),
                        other => return doc.unexpected(other),
                    }
                }
            }
            "BucketKeyEnabled" => bucket_key = doc.text()?.trim() == "true",
            other => return doc.unexpected(other),
        }
    }
    match (algorithm.as_deref(), key_id) {
        (Some("AES256"), None) => Ok(Rule::S3),
        (Some("AES256"), Some(_)) => {
            Err(malformed("KMSMasterKeyID is only allowed with the algorithm aws:kms."))
        }
        (Some("aws:kms"), key) => {
            key.as_deref().map(key_name).transpose()?;
            Ok(Rule::Kms { key_id: key, bucket_key })
        }
        (Some("aws:kms:dsse"), _) => {
            Err(Fault::not_implemented("Dual-layer server-side encryption (aws:kms:dsse)"))
        }
        _ => Err(malformed("SSEAlgorithm must be AES256 or aws:kms.")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encryption_documents_are_read_and_printed() {
        let kms = |key: Option<&str>, bucket_key| Rule::Kms { key_id: key.map(Into::into), bucket_key };
        for (rule, text) in
            [(Rule::S3, "s3"), (kms(None, false), "kms - 0"), (kms(Some("k"), true), "kms k 1")]
        {
            assert_eq!(rule.text(), text);
            assert_eq!(Rule::parse(text), Some(rule));
        }
        for bad in ["", "s3 x", "kms", "kms k", "kms k 2", "aes"] {
            assert_eq!(Rule::parse(bad), None, "{bad:?}");
        }
        let document = |inner: &str| {
            parse(
                format!("<ServerSideEncryptionConfiguration>{inner}</ServerSideEncryptionConfiguration>")
                    .as_bytes(),
            )
            .map_err(|f| f.code().name)
        };
        let rule = |inner: &str| {
            document(&format!(
                "<Rule><ApplyServerSideEncryptionByDefault>{inner}</ApplyServerSideEncryptionByDefault></Rule>"
            ))
        };
        assert_eq!(rule("<SSEAlgorithm>AES256</SSEAlgorithm>"), Ok(Rule::S3));
        let key = "<SSEAlgorithm>aws:kms</SSEAlgorithm><KMSMasterKeyID>arn:aws:kms:k</KMSMasterKeyID>";
        assert_eq!(rule(key), Ok(kms(Some("arn:aws:kms:k"), false)));
        assert_eq!(rule(&key.replace("arn:aws:kms:", "")), Ok(kms(Some("k"), false)));
        assert_eq!(rule(&key.replace("arn:aws:kms:", "a b")), Err("KMS.NotFoundException"));
        for bad in ["", "<SSEAlgorithm>x</SSEAlgorithm>", "<Other/>"] {
            assert_eq!(rule(bad), Err("MalformedXML"), "{bad}");
        }
        assert_eq!(document(""), Err("MalformedXML"));
        assert_eq!(rule("<SSEAlgorithm>aws:kms:dsse</SSEAlgorithm>"), Err("NotImplemented"));
    }
}
