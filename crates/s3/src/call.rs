//! [`Call`]: a verified request and the parts of it that operations read.
//!
//! Invariant: a [`Call`] contains a [`Verified`]. Must not depend on: operations, decisions about requests.

use std::sync::Arc;

use ashlar_checksum::Algorithm;
use ashlar_object::feed::{Cause, Kind};
use ashlar_object::{Bucket, Error, OpenBucket, Store, VersionId, parse_version};
use bytes::Bytes;
use http::Method;
use http::header::{self, HeaderMap};

use crate::auth::Verified;
use crate::authz_decision::DecisionSlot;
use crate::buckets::{Buckets, Named};
use crate::context::Context;
use crate::document_cache::Origin;
use crate::fault::{Code, Fault, Outcome};
use crate::headers::{self, DeclaredChecksums, content_md5, unknown_algorithm};
use crate::request_body::RequestBody;
use crate::store_fault::fault;
use crate::target::Query;

/// A verified request on its way to an operation.
pub struct Call {
    /// The method.
    pub method: Method,
    /// The bucket; empty when the operation has none.
    pub bucket: String,
    /// The buckets that it is about.
    pub buckets: Arc<Buckets>,
    /// The key; empty when the operation has none.
    pub key: String,
    /// Decoded query.
    pub query: Query,
    /// Headers; of presigned requests with the `x-amz-*` query parameters among them.
    pub headers: HeaderMap,
    /// The body.
    pub request_body: RequestBody,
    /// The caller.
    pub verified: Verified,
    /// The Host header.
    pub host: String,
    /// The request came over TLS.
    pub tls: bool,
    /// The origin of the request.
    pub origin: Origin,
    /// The last decision.
    pub authz_decision: DecisionSlot,
    /// The id of the request.
    pub id: String,
}

/// Limits of documents, in bytes.
pub mod limit {
    /// Small configuration documents.
    pub const CONFIGURATION: usize = 64 * 1024;
    /// A multi-object delete: 1,000 keys.
    pub const DELETE: usize = 2 * 1024 * 1024;
    /// A completed upload: 10,000 parts.
    pub const COMPLETE: usize = 4 * 1024 * 1024;
}

/// The caller and address of a change, for the change feed.
pub struct RequestOrigin<'a> {
    /// The verified identity.
    pub verified: &'a Verified,
    /// The headers.
    pub headers: &'a HeaderMap,
    /// The origin of the request.
    pub origin: &'a Origin,
    /// It came over TLS.
    pub tls: bool,
    /// The Host header.
    pub host: &'a str,
    /// The id of the request.
    pub id: &'a str,
}

impl RequestOrigin<'_> {
    /// The store that notes this request in the change feed for changes of `bucket`, if the bucket is followed.
    pub fn store(&self, cx: &Context, bucket: &Bucket, kind: Kind) -> Store {
        match cx.store.feed().wants(bucket) {
            true => cx.store.by(Arc::new(self.cause(kind))),
            false => cx.store.clone(),
        }
    }

    /// The cause of a change.
    pub fn cause(&self, kind: Kind) -> Cause {
        let agent = self.headers.get(header::USER_AGENT).and_then(|v| v.to_str().ok());
        Cause {
            kind,
            who: self.verified.access_key().to_owned(),
            source: self.origin.ip.to_string(),
            request_id: self.id.to_owned(),
            agent: agent.unwrap_or_default().chars().take(256).collect(),
            endpoint: endpoint(self.tls, self.host),
        }
    }
}

impl Call {
    /// The caller and its address.
    pub fn request_origin(&self) -> RequestOrigin<'_> {
        RequestOrigin {
            verified: &self.verified,
            headers: &self.headers,
            origin: &self.origin,
            tls: self.tls,
            host: &self.host,
            id: &self.id,
        }
    }

    /// The store, for a change of this kind to the call's key.
    pub fn store(&self, cx: &Context, kind: Kind) -> Store {
        match self.buckets.find(&self.bucket) {
            Ok(bucket) => self.request_origin().store(cx, &bucket, kind),
            Err(_) => cx.store.clone(),
        }
    }

    /// The call's bucket by its name, to be looked up where it is needed.
    pub fn named(&self) -> Named<'_> {
        self.buckets.named(&self.bucket)
    }

    /// The call's bucket, or that there is none.
    pub fn open(&self) -> Outcome<OpenBucket> {
        self.named().open()
    }

    /// `scheme://host` as the client sees it, for `Location`.
    pub fn endpoint(&self) -> String {
        endpoint(self.tls, &self.host)
    }

    /// `versionId`, if given.
    pub fn version(&self) -> Outcome<Option<VersionId>> {
        match self.query.get("versionId") {
            None => Ok(None),
            Some("") => Err(Fault::argument("versionId", "", "Version id cannot be the empty string")),
            Some(text) => match parse_version(text) {
                Some(id) => Ok(Some(id)),
                None => Err(Fault::argument("versionId", text, "Invalid version id specified")),
            },
        }
    }

    /// `uploadId`. A missing bucket is reported first.
    pub fn upload(&self) -> Outcome<ashlar_object::UploadId> {
        self.open()?;
        let text = self.query.get("uploadId").unwrap_or_default();
        ashlar_object::UploadId::parse(text).ok_or_else(|| self.no_such_upload(text))
    }

    /// 404 for an upload.
    pub fn no_such_upload(&self, id: &str) -> Fault {
        Fault::new(Code::NO_SUCH_UPLOAD).element("UploadId", id.chars().take(128).collect::<String>())
    }

    /// A number in the query, with AWS's words when it is none.
    pub fn number(&self, name: &'static str, default: usize) -> Outcome<usize> {
        match self.query.get(name) {
            None | Some("") => Ok(default),
            Some(text) => match text.parse::<i64>() {
                Ok(n) if (0..=i64::from(i32::MAX)).contains(&n) => Ok(n as usize),
                Ok(_) => Err(Fault::argument(
                    name,
                    text,
                    format!("Argument {name} must be an integer between 0 and 2147483647"),
                )),
                Err(_) => Err(Fault::argument(
                    name,
                    text,
                    format!("Provided {name} not an integer or within integer range"),
                )),
            },
        }
    }

    /// Reads a document, at most `limit` bytes, and checks the digests that came with it.
    pub async fn document(&mut self, limit: usize) -> Outcome<Bytes> {
        let md5 = content_md5(&self.headers)?;
        let stated = DeclaredChecksums::read(&self.headers)?;
        let body = self.request_body.collect(limit).await?;
        if md5.is_some_and(|want| want != ashlar_checksum::md5_once(&body)) {
            return Err(Fault::new(Code::BAD_DIGEST));
        }
        let computed = stated.algorithm().map(|algorithm| {
            let mut hasher = ashlar_checksum::Hasher::new(algorithm);
            hasher.update(&body);
            hasher.finish()
        });
        stated.check(computed.as_ref(), &self.request_body)?;
        Ok(body)
    }

    /// `x-amz-checksum-algorithm`, if given.
    pub fn checksum_algorithm(&self) -> Outcome<Option<Algorithm>> {
        match headers::ascii(&self.headers, "x-amz-checksum-algorithm") {
            None | Some("") => Ok(None),
            Some(name) => Algorithm::parse(name).map(Some).ok_or_else(unknown_algorithm),
        }
    }

    /// Turns an error of the store into the error of S3 for this request.
    pub fn fault(&self, error: Error) -> Fault {
        fault(error, &self.bucket, &self.key)
    }
}

/// The address of this server in the words of a client.
pub fn endpoint(tls: bool, host: &str) -> String {
    format!("{}://{host}", if tls { "https" } else { "http" })
}
