//! Maps errors of the store to errors of S3.
//!
//! Must not depend on: requests, operations.

use ashlar_object::{Error, VersionId, version_text};
use http::header::{self, HeaderValue};

use crate::answer::{DELETE_MARKER, VERSION_ID};
use crate::date;
use crate::fault::{Code, Fault};

const TRUE: HeaderValue = HeaderValue::from_static("true");

/// The one place where errors of the store become errors of S3.
pub fn fault(error: Error, bucket: &str, key: &str) -> Fault {
    let text = error.to_string();
    match error {
        Error::NoSuchBucket => Fault::new(Code::NO_SUCH_BUCKET).element("BucketName", bucket),
        Error::BucketExists => Fault::new(Code::BUCKET_ALREADY_OWNED).element("BucketName", bucket),
        Error::BucketNotEmpty => Fault::new(Code::BUCKET_NOT_EMPTY).element("BucketName", bucket),
        Error::InvalidBucketName(_) => Fault::new(Code::INVALID_BUCKET_NAME).element("BucketName", bucket),
        Error::InvalidBucketState(why) => Fault::with(Code::INVALID_BUCKET_STATE, why),
        Error::NoSuchKey { delete_marker } => {
            let fault = Fault::new(Code::NO_SUCH_KEY).element("Key", key);
            match delete_marker {
                Some(id) => fault.header(DELETE_MARKER, TRUE).header(VERSION_ID, version_value(id)),
                None => fault,
            }
        }
        Error::NoSuchVersion => Fault::new(Code::NO_SUCH_VERSION).element("Key", key),
        Error::DeleteMarker { version_id, modified_ms } => {
            let modified = HeaderValue::from_str(&date::format_http(modified_ms.div_euclid(1000)));
            let fault = Fault::new(Code::METHOD_NOT_ALLOWED)
                .element("Method", "GET")
                .element("ResourceType", "DeleteMarker")
                .header(DELETE_MARKER, TRUE)
                .header(VERSION_ID, version_value(version_id))
                .header(header::ALLOW, HeaderValue::from_static("DELETE"));
            match modified {
                Ok(value) => fault.header(header::LAST_MODIFIED, value),
                Err(_) => fault,
            }
        }
        Error::TokenReused => Fault::new(Code::IDEMPOTENCY_MISMATCH),
        Error::NoSuchUpload => Fault::new(Code::NO_SUCH_UPLOAD),
        Error::InvalidPart(number) => Fault::new(Code::INVALID_PART).element("PartNumber", number.to_string()),
        Error::InvalidPartOrder => Fault::new(Code::INVALID_PART_ORDER),
        Error::EntityTooSmall { number, size } => Fault::new(Code::ENTITY_TOO_SMALL)
            .element("ProposedSize", size.to_string())
            .element("MinSizeAllowed", ashlar_object::MIN_PART.to_string())
            .element("PartNumber", number.to_string()),
        Error::WrongOffset { size } => {
            Fault::new(Code::INVALID_WRITE_OFFSET).element("ObjectSize", size.to_string())
        }
        Error::TooManyParts => Fault::new(Code::TOO_MANY_PARTS),
        Error::Locked => Fault::with(
            Code::ACCESS_DENIED,
            "Access Denied because object protected by object lock.",
        ),
        Error::QuotaExceeded { used, limit } => Fault::new(Code::QUOTA_EXCEEDED)
            .element("Used", used.to_string())
            .element("Quota", limit.to_string()),
        Error::EntityTooLarge => {
            Fault::new(Code::ENTITY_TOO_LARGE).element("MaxSizeAllowed", ashlar_object::MAX_PUT.to_string())
        }
        Error::IncompleteBody { .. } => Fault::new(Code::INCOMPLETE_BODY).closing(),
        Error::BadDigest => Fault::with(Code::BAD_DIGEST, "The checksum you specified did not match the calculated checksum."),
        Error::InvalidArgument(why) => Fault::with(Code::INVALID_ARGUMENT, why),
        Error::InvalidRequest(why) => Fault::with(Code::INVALID_REQUEST, why),
        Error::KeyTooLong => Fault::new(Code::KEY_TOO_LONG),
        Error::PreconditionFailed => Fault::new(Code::PRECONDITION_FAILED),
        Error::Conflict => Fault::new(Code::CONDITIONAL_CONFLICT).element("Key", key),
        Error::Changed | Error::Busy => Fault::new(Code::SLOW_DOWN),
        Error::Unavailable(_) => Fault::new(Code::UNAVAILABLE).because(text),
        Error::ControlStore(_) => Fault::with(
            Code::UNAVAILABLE,
            "The control store takes no changes now, and this needs one: buckets, their settings and their quotas are kept there. Try again later; see `ashlar cluster status`.",
        )
        .because(text),
        Error::Full => Fault::new(Code::STORAGE_FULL),
        // Not "internal": the server works, and the bytes come back when drives do.
        Error::Corrupt(_) => Fault::with(
            Code::UNAVAILABLE,
            "The object is damaged beyond its parity and cannot be read. Bring missing drives back, or restore it from a copy.",
        )
        .because(text),
        Error::TooManyVersions => {
            Fault::with(Code::INVALID_REQUEST, "The key has too many versions. Delete old versions first.")
        }
        Error::KeyNeeded => Fault::with(
            Code::INVALID_REQUEST,
            "The object was stored using a form of Server Side Encryption. The correct parameters must be provided to retrieve the object.",
        ),
        Error::Internal(_) => Fault::internal(text),
    }
}

fn version_value(id: VersionId) -> HeaderValue {
    HeaderValue::from_str(&version_text(id)).unwrap_or(HeaderValue::from_static("null"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// For lost data, the answer is neither "internal error" nor that there is no such key.
    #[test]
    fn lost_data_is_reported_as_unavailable() {
        let fault =
            fault(Error::Corrupt("1 of 2 shards of stripe 0 can be read (xx-+)".to_owned()), "b", "k");
        assert_eq!(fault.status().as_u16(), 503);
        assert!(fault.message().contains("damaged beyond its parity"), "{}", fault.message());
        assert!(fault.cause().is_some_and(|c| c.contains("1 of 2 shards")), "for the log");
    }
}
