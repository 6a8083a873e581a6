//! Objects: put, get, head, delete, multi-delete, copy.

use futures::future::BoxFuture;
use std::collections::BTreeMap;

use ashlar_checksum::Algorithm;
use http::{HeaderMap, HeaderName, HeaderValue, Method, header};

use crate::{
    answer::Answer,
    body::Body,
    call::{Call, Client, Target},
    config::Payload,
    encode::percent_encode,
    error::{Error, Result},
    limits,
    ops::bucket::content_md5,
    types::{DeleteError, DeleteOutcome, Deleted, Head, Identifier, ObjectData, PutOutcome, unquote},
    xml::{Element, Writer},
};

pub(crate) const X_AMZ_VERSION_ID: &str = "x-amz-version-id";

/// Options for writing an object.
#[derive(Debug, Clone, Default)]
pub struct PutOptions {
    /// The media type; `None` sends `application/octet-stream`.
    pub content_type: Option<String>,
    /// User metadata, names without `x-amz-meta-`.
    pub metadata: BTreeMap<String, String>,
    /// Other headers: conditions, storage class, tags, cache control.
    pub headers: HeaderMap,
    /// How the payload is signed; `None`: as configured.
    pub payload: Option<Payload>,
    /// The SHA-256 of the payload, if known.
    pub sha256: Option<[u8; 32]>,
}

/// Options for reading an object.
#[derive(Debug, Clone, Default)]
pub struct GetOptions {
    /// The first and (inclusive) the last byte; `None` for the last: to the end.
    pub range: Option<(u64, Option<u64>)>,
    /// The version; `None`: the current one.
    pub version_id: Option<String>,
    /// One part of a multipart object.
    pub part_number: Option<u32>,
    /// Fail unless the ETag (without quotes) is this one.
    pub if_match: Option<String>,
    /// Also return the stored checksum.
    pub checksum: bool,
}

/// Options for copying an object.
#[derive(Debug, Clone, Default)]
pub struct CopyOptions {
    /// The version to copy; `None`: the current one.
    pub source_version: Option<String>,
    /// Fail unless the source's ETag (without quotes) is this one.
    pub source_if_match: Option<String>,
    /// Metadata and type of the copy instead of the source's.
    pub replace: Option<PutOptions>,
}

impl PutOptions {
    /// The headers of these options.
    pub(crate) fn to_headers(&self) -> Result<HeaderMap> {
        let mut headers = self.headers.clone();
        let invalid = |what: &str| Error::Invalid(format!("{what}: not allowed in a header"));
        let kind = self.content_type.as_deref().unwrap_or("application/octet-stream");
        let kind = HeaderValue::from_str(kind).map_err(|_| invalid(kind))?;
        headers.insert(header::CONTENT_TYPE, kind);
        for (name, value) in &self.metadata {
            let name = HeaderName::try_from(format!("x-amz-meta-{name}")).map_err(|_| invalid(name))?;
            // UTF-8 is sent unchanged; all current servers accept it.
            let value = HeaderValue::from_bytes(value.as_bytes()).map_err(|_| invalid(value))?;
            headers.insert(name, value);
        }
        Ok(headers)
    }
}

/// How object data is signed by default: with its hash if known, or with a trailing checksum as in current
/// SDKs.
pub(crate) fn data_payload(configured: Payload, options: &PutOptions) -> Payload {
    match options.payload.unwrap_or(configured) {
        Payload::Auto if options.sha256.is_some() => Payload::Signed,
        Payload::Auto => Payload::Trailer(Algorithm::Crc64Nvme),
        other => other,
    }
}

pub(crate) fn put_outcome(answer: &Answer) -> PutOutcome {
    PutOutcome {
        etag: answer.header("etag").map(unquote).unwrap_or_default(),
        version_id: answer.header(X_AMZ_VERSION_ID).map(str::to_owned),
    }
}

impl Client {
    /// Writes an object in one request (at most 5 GiB by the protocol).
    pub async fn put_object(
        &self,
        bucket: &str,
        key: &str,
        body: impl Into<Body>,
        options: &PutOptions,
    ) -> Result<PutOutcome> {
        let mut call = Call::new(Method::PUT, Target::Object(bucket, key)).body(body);
        call.headers = options.to_headers()?;
        call.payload = Some(data_payload(self.config().payload, options));
        call.sha256 = options.sha256;
        Ok(put_outcome(&self.done(call).await?))
    }

    /// Begins to read an object.
    pub fn get_object<'a>(
        &'a self,
        bucket: &'a str,
        key: &'a str,
        options: &'a GetOptions,
    ) -> BoxFuture<'a, Result<ObjectData>> {
        Box::pin(async move {
            let body = self.execute(read(Method::GET, bucket, key, options)?).await?;
            let head = Head::parse(body.headers());
            let length = body.header("content-length").and_then(|v| v.parse().ok()).unwrap_or(head.size);
            Ok(ObjectData { head, length, body })
        })
    }

    /// Reads a whole object of at most `limit` bytes.
    pub fn get_bytes<'a>(
        &'a self,
        bucket: &'a str,
        key: &'a str,
        limit: usize,
    ) -> BoxFuture<'a, Result<bytes::Bytes>> {
        Box::pin(async move {
            let mut object = self.get_object(bucket, key, &GetOptions::default()).await?;
            object.body.collect(limit).await
        })
    }

    /// The properties of an object.
    pub fn head_object<'a>(
        &'a self,
        bucket: &'a str,
        key: &'a str,
        options: &'a GetOptions,
    ) -> BoxFuture<'a, Result<Head>> {
        Box::pin(async move {
            let answer = self.done(read(Method::HEAD, bucket, key, options)?).await?;
            Ok(Head::parse(answer.headers()))
        })
    }

    /// Deletes a key (in a bucket with versions: writes a delete marker) or one version.
    pub fn delete_object<'a>(
        &'a self,
        bucket: &'a str,
        key: &'a str,
        version: Option<&'a str>,
    ) -> BoxFuture<'a, Result<DeleteOutcome>> {
        Box::pin(async move {
            let call = Call::new(Method::DELETE, Target::Object(bucket, key));
            let answer = self.done(call.maybe_query("versionId", version)).await?;
            Ok(DeleteOutcome {
                version_id: answer.header(X_AMZ_VERSION_ID).map(str::to_owned),
                delete_marker: answer.header("x-amz-delete-marker") == Some("true"),
            })
        })
    }

    /// Deletes up to 1,000 keys or versions in one request. Failures of single keys are in the result.
    pub fn delete_objects<'a>(
        &'a self,
        bucket: &'a str,
        objects: &'a [Identifier],
    ) -> BoxFuture<'a, Result<Deleted>> {
        Box::pin(async move {
            if objects.len() > limits::DELETE_KEYS {
                return Err(Error::Invalid("at most 1,000 keys can be deleted at once".into()));
            }
            if objects.is_empty() {
                return Ok(Deleted::default());
            }
            let mut body = Writer::new("Delete");
            for object in objects {
                body.open("Object").leaf("Key", &object.key);
                if let Some(version) = &object.version_id {
                    body.leaf("VersionId", version);
                }
                body.close("Object");
            }
            let body = body.finish("Delete");
            let md5 = content_md5(body.as_bytes());
            let mut call = Call::new(Method::POST, Target::Bucket(bucket))
                .query("delete", "")
                .header(HeaderName::from_static("content-md5"), &md5)?
                .header(header::CONTENT_TYPE, "application/xml")?
                .body(body);
            // Deleting a missing key is not an error.
            call.repeat = Some(crate::call::Repeat::Harmless);
            let (root, _) = self.xml(call).await?;
            let identifier = |e: &Element| Identifier {
                key: e.text_of("Key").to_owned(),
                version_id: e.some_text("VersionId"),
            };
            Ok(Deleted {
                deleted: root.all("Deleted").map(identifier).collect(),
                errors: root
                    .all("Error")
                    .map(|e| DeleteError {
                        object: identifier(e),
                        code: e.text_of("Code").to_owned(),
                        message: e.text_of("Message").to_owned(),
                    })
                    .collect(),
            })
        })
    }

    /// Copies an object of at most 5 GiB within the endpoint.
    pub fn copy_object<'a>(
        &'a self,
        source: (&'a str, &'a str),
        target: (&'a str, &'a str),
        options: &'a CopyOptions,
    ) -> BoxFuture<'a, Result<PutOutcome>> {
        Box::pin(async move {
            let mut call = Call::new(Method::PUT, Target::Object(target.0, target.1));
            if let Some(replace) = &options.replace {
                call.headers = replace.to_headers()?;
                call = call.header(HeaderName::from_static("x-amz-metadata-directive"), "REPLACE")?;
            }
            call = copy_headers(call, source, options)?;
            call.patience = Some(PATIENCE);
            let (root, answer) = self.xml(call).await?;
            Ok(PutOutcome {
                etag: unquote(root.text_of("ETag")),
                version_id: answer.header(X_AMZ_VERSION_ID).map(str::to_owned),
            })
        })
    }
}

/// How long the server may be silent during copies and completions, which take time before the answer.
pub(crate) const PATIENCE: std::time::Duration = std::time::Duration::from_secs(600);

/// Adds the headers that name the source of a copy.
pub(crate) fn copy_headers<'a>(
    call: Call<'a>,
    source: (&str, &str),
    options: &CopyOptions,
) -> Result<Call<'a>> {
    let mut from = format!("/{}/{}", percent_encode(source.0, false), percent_encode(source.1, true));
    if let Some(version) = &options.source_version {
        from.push_str("?versionId=");
        from.push_str(&percent_encode(version, false));
    }
    let mut call = call.header(HeaderName::from_static("x-amz-copy-source"), &from)?;
    if let Some(etag) = &options.source_if_match {
        let name = HeaderName::from_static("x-amz-copy-source-if-match");
        call = call.header(name, &format!("\"{etag}\""))?;
    }
    Ok(call)
}

fn read<'a>(method: Method, bucket: &'a str, key: &'a str, options: &'a GetOptions) -> Result<Call<'a>> {
    let mut call = Call::new(method, Target::Object(bucket, key))
        .maybe_query("versionId", options.version_id.as_deref())
        .maybe_query("partNumber", options.part_number.map(|n| n.to_string()));
    if let Some((first, last)) = options.range {
        let last = last.map(|l| l.to_string()).unwrap_or_default();
        call = call.header(header::RANGE, &format!("bytes={first}-{last}"))?;
    }
    if let Some(etag) = &options.if_match {
        call = call.header(header::IF_MATCH, &format!("\"{etag}\""))?;
    }
    if options.checksum {
        call = call.header(HeaderName::from_static("x-amz-checksum-mode"), "ENABLED")?;
    }
    Ok(call)
}
