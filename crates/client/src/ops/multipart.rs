//! Multipart uploads: create, upload parts, complete, abort, list.

use ashlar_checksum::Algorithm;
use futures::future::BoxFuture;
use http::{HeaderName, Method};

use crate::{
    body::Body,
    call::{Call, Client, Repeat, Target},
    chunked::trailer_name,
    config::Payload,
    error::{Error, Result},
    ops::object::{CopyOptions, PATIENCE, PutOptions, X_AMZ_VERSION_ID, copy_headers, data_payload},
    types::{Part, PutOutcome, UploadPage, unquote},
    xml::{Element, Writer},
};

impl Client {
    /// Begins an upload; returns its id. If parts will have a trailing checksum, the request announces it.
    pub fn create_multipart<'a>(
        &'a self,
        bucket: &'a str,
        key: &'a str,
        options: &'a PutOptions,
    ) -> BoxFuture<'a, Result<String>> {
        Box::pin(async move {
            let mut call = Call::new(Method::POST, Target::Object(bucket, key)).query("uploads", "");
            call.headers = options.to_headers()?;
            if let Payload::Trailer(algorithm) | Payload::SignedTrailer(algorithm) =
                data_payload(self.config().payload, options)
            {
                let name = HeaderName::from_static("x-amz-checksum-algorithm");
                call = call.header(name, algorithm.name())?;
                let kind = if algorithm == Algorithm::Crc64Nvme { "FULL_OBJECT" } else { "COMPOSITE" };
                call = call.header(HeaderName::from_static("x-amz-checksum-type"), kind)?;
            }
            let (root, _) = self.xml(call).await?;
            root.some_text("UploadId").ok_or_else(|| Error::Unexpected("an upload without id".into()))
        })
    }

    /// Uploads a part (1 to 10,000), 5 MiB to 5 GiB unless it is the last.
    #[allow(clippy::too_many_arguments)] // where, which, what, how
    pub async fn upload_part(
        &self,
        bucket: &str,
        key: &str,
        upload_id: &str,
        number: u32,
        body: impl Into<Body>,
        options: &PutOptions,
    ) -> Result<Part> {
        let body = body.into();
        let size = body.len();
        let mut call = Call::new(Method::PUT, Target::Object(bucket, key))
            .query("partNumber", number.to_string())
            .query("uploadId", upload_id)
            .body(body);
        call.payload = Some(data_payload(self.config().payload, options));
        call.sha256 = options.sha256;
        let answer = self.done(call).await?;
        let etag = answer.header("etag").map(unquote).unwrap_or_default();
        let checksum =
            Algorithm::ALL.into_iter().find_map(|a| Some((a, answer.header(trailer_name(a))?.to_owned())));
        Ok(Part { number, etag, size, checksum })
    }

    /// Creates a part from (a range of) an object of the endpoint: first and last byte, inclusive.
    #[allow(clippy::too_many_arguments)] // where, which, from what
    pub fn upload_part_copy<'a>(
        &'a self,
        bucket: &'a str,
        key: &'a str,
        upload_id: &'a str,
        number: u32,
        source: (&'a str, &'a str),
        range: (u64, u64),
        options: &'a CopyOptions,
    ) -> BoxFuture<'a, Result<Part>> {
        Box::pin(async move {
            let call = Call::new(Method::PUT, Target::Object(bucket, key))
                .query("partNumber", number.to_string())
                .query("uploadId", upload_id);
            let mut call = copy_headers(call, source, options)?.header(
                HeaderName::from_static("x-amz-copy-source-range"),
                &format!("bytes={}-{}", range.0, range.1),
            )?;
            call.patience = Some(PATIENCE);
            let (root, _) = self.xml(call).await?;
            let size = range.1.saturating_sub(range.0) + 1;
            Ok(Part { number, etag: unquote(root.text_of("ETag")), size, checksum: checksum_of(&root) })
        })
    }

    /// Completes an upload with its parts, which must be in ascending order. `options.headers` may contain
    /// conditions.
    ///
    /// The request is repeated if the connection breaks. If the upload then does not exist, and the object
    /// exists with the ETag of these parts, the first attempt had succeeded.
    pub fn complete_multipart<'a>(
        &'a self,
        bucket: &'a str,
        key: &'a str,
        upload_id: &'a str,
        parts: &'a [Part],
        options: &'a PutOptions,
    ) -> BoxFuture<'a, Result<PutOutcome>> {
        Box::pin(async move {
            let mut body = Writer::new("CompleteMultipartUpload");
            for part in parts {
                body.open("Part").leaf("PartNumber", &part.number.to_string());
                body.leaf("ETag", &format!("\"{}\"", part.etag));
                if let Some((algorithm, value)) = &part.checksum {
                    body.leaf(&format!("Checksum{}", algorithm.name()), value);
                }
                body.close("Part");
            }
            let mut call = Call::new(Method::POST, Target::Object(bucket, key))
                .query("uploadId", upload_id)
                .body(body.finish("CompleteMultipartUpload"));
            call.headers = options.headers.clone();
            call.repeat = Some(Repeat::Harmless);
            call.patience = Some(PATIENCE);
            match self.xml(call).await {
                Ok((root, answer)) => Ok(PutOutcome {
                    etag: unquote(root.text_of("ETag")),
                    version_id: answer.header(X_AMZ_VERSION_ID).map(str::to_owned),
                }),
                Err(error) if error.code() == Some("NoSuchUpload") => {
                    let head = self.head_object(bucket, key, &Default::default()).await;
                    match (head, multipart_etag(parts)) {
                        (Ok(head), Some(etag)) if head.etag == etag => {
                            Ok(PutOutcome { etag, version_id: head.version_id })
                        }
                        _ => Err(error),
                    }
                }
                Err(error) => Err(error),
            }
        })
    }

    /// Aborts an upload; the server frees its parts.
    pub fn abort_multipart<'a>(
        &'a self,
        bucket: &'a str,
        key: &'a str,
        upload_id: &'a str,
    ) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let call = Call::new(Method::DELETE, Target::Object(bucket, key));
            self.done(call.query("uploadId", upload_id)).await.map(drop)
        })
    }

    /// All parts uploaded so far, in order; requests as many pages as needed.
    pub fn list_parts<'a>(
        &'a self,
        bucket: &'a str,
        key: &'a str,
        upload_id: &'a str,
    ) -> BoxFuture<'a, Result<Vec<Part>>> {
        Box::pin(async move {
            let mut parts: Vec<Part> = Vec::new();
            loop {
                let after = parts.last().map(|p| p.number.to_string());
                let call = Call::new(Method::GET, Target::Object(bucket, key))
                    .query("uploadId", upload_id)
                    .maybe_query("part-number-marker", after);
                let (root, _) = self.xml(call).await?;
                let before = parts.len();
                for part in root.all("Part") {
                    let Some(number) = part.number("PartNumber").and_then(|n| u32::try_from(n).ok()) else {
                        return Err(Error::Unexpected("a part without number".into()));
                    };
                    parts.push(Part {
                        number,
                        etag: unquote(part.text_of("ETag")),
                        size: part.number("Size").unwrap_or(0),
                        checksum: checksum_of(part),
                    });
                }
                if !root.is_true("IsTruncated") || parts.len() == before {
                    return Ok(parts);
                }
            }
        })
    }

    /// One page of incomplete uploads; `marker`: from the previous page.
    pub fn list_uploads<'a>(
        &'a self,
        bucket: &'a str,
        prefix: &'a str,
        delimiter: Option<&'a str>,
        marker: Option<&'a (String, String)>,
    ) -> BoxFuture<'a, Result<UploadPage>> {
        Box::pin(async move {
            let call = Call::new(Method::GET, Target::Bucket(bucket))
                .query("uploads", "")
                .query("encoding-type", "url")
                .query("prefix", prefix)
                .maybe_query("delimiter", delimiter)
                .maybe_query("key-marker", marker.map(|m| m.0.as_str()))
                .maybe_query("upload-id-marker", marker.map(|m| m.1.as_str()).filter(|m| !m.is_empty()));
            Ok(UploadPage::parse(&self.xml(call).await?.0))
        })
    }
}

fn checksum_of(element: &Element) -> Option<(Algorithm, String)> {
    Algorithm::ALL.into_iter().find_map(|a| Some((a, element.some_text(&format!("Checksum{}", a.name()))?)))
}

/// The ETag that S3 gives an object with these parts: the MD5 of their MD5s, and their number.
/// `None` if an ETag is not an MD5 (encrypted parts).
pub(crate) fn multipart_etag(parts: &[Part]) -> Option<String> {
    let mut all = Vec::with_capacity(parts.len() * 16);
    for part in parts {
        let md5 = hex::decode(&part.etag).ok().filter(|md5| md5.len() == 16)?;
        all.extend_from_slice(&md5);
    }
    Some(format!("{}-{}", hex::encode(ashlar_checksum::md5_once(&all)), parts.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn etag_of_parts() {
        let part = |etag: &str| Part { number: 1, etag: etag.into(), size: 0, checksum: None };
        let parts = [part("d41d8cd98f00b204e9800998ecf8427e"), part("5d41402abc4b2a76b9719d911017c592")];
        assert_eq!(multipart_etag(&parts).unwrap(), "5aef4171af045af5f02042484bf38760-2");
        assert_eq!(multipart_etag(&[part("not-md5")]), None);
    }
}
