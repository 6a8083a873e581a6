//! A successful answer, and the names of headers that several operations set.
//!
//! Must not depend on: requests, operations.

use ashlar_object::{Committed, VersionId, version_text};
use http::StatusCode;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};

use crate::body::Body;
use crate::headers::{checksum_header, checksum_text, checksum_type};
use crate::xml::Xml;

/// A successful answer.
pub struct Answer {
    /// The status.
    pub status: StatusCode,
    /// Headers beside those that every answer has.
    pub headers: HeaderMap,
    /// The body.
    pub body: Body,
}

impl Answer {
    /// A status and nothing else.
    pub fn new(status: StatusCode) -> Answer {
        Answer { status, headers: HeaderMap::with_capacity(16), body: Body::empty() }
    }

    /// 200 with nothing else.
    pub fn ok() -> Answer {
        Answer::new(StatusCode::OK)
    }

    /// 204.
    pub fn no_content() -> Answer {
        Answer::new(StatusCode::NO_CONTENT)
    }

    /// 200 with a document.
    pub fn document(xml: Xml) -> Answer {
        let mut answer = Answer::ok();
        answer.headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/xml"));
        answer.body = Body::whole(xml.finish());
        answer
    }

    /// Sets a header whose value is known to be legal ASCII.
    pub fn set(&mut self, name: HeaderName, value: impl AsRef<str>) -> &mut Answer {
        if let Ok(value) = HeaderValue::from_str(value.as_ref()) {
            self.headers.insert(name, value);
        }
        self
    }

    /// `x-amz-version-id`, if the bucket has versions.
    pub fn version(&mut self, id: Option<VersionId>) -> &mut Answer {
        if let Some(id) = id {
            self.set(VERSION_ID, version_text(id));
        }
        self
    }

    /// `x-amz-version-id` of a version that was just made: not for the null version, as in AWS.
    pub fn made(&mut self, id: Option<VersionId>) -> &mut Answer {
        self.version(id.filter(|id| *id != VersionId::ZERO))
    }

    /// `ETag`, quoted.
    pub fn etag(&mut self, etag: impl std::fmt::Display) -> &mut Answer {
        self.set(header::ETAG, format!("\"{etag}\""))
    }

    /// The stored checksum and its type.
    pub fn checksum(&mut self, checksum: Option<&ashlar_object::Checksum>, parts: u16) -> &mut Answer {
        if let Some((algorithm, text)) = checksum.and_then(|c| checksum_text(c, parts)) {
            self.set(checksum_header(algorithm), text);
            self.set(CHECKSUM_TYPE, checksum_type(checksum.is_some_and(|c| c.composite)));
        }
        self
    }

    /// Sets the headers of a committed change.
    pub fn committed(&mut self, committed: &Committed) -> &mut Answer {
        self.made(committed.version_id);
        self.etag(committed.etag);
        self.checksum(committed.checksum.as_ref(), committed.etag.parts)
    }
}

/// `x-amz-version-id`.
pub const VERSION_ID: HeaderName = HeaderName::from_static("x-amz-version-id");
/// `x-amz-delete-marker`.
pub const DELETE_MARKER: HeaderName = HeaderName::from_static("x-amz-delete-marker");
/// `x-amz-checksum-type`.
pub const CHECKSUM_TYPE: HeaderName = HeaderName::from_static("x-amz-checksum-type");
/// `x-amz-checksum-algorithm`.
pub const CHECKSUM_ALGORITHM: HeaderName = HeaderName::from_static("x-amz-checksum-algorithm");
/// `x-amz-storage-class`.
pub const STORAGE_CLASS: HeaderName = HeaderName::from_static("x-amz-storage-class");
