//! Shared parts of encryption: the key service, the cipher, the names of headers.
//!
//! Must not depend on: requests, answers, the rest of this folder.

use std::sync::Arc;

use ashlar_kms::Kms;
use ashlar_object::Cipher;
use http::header::HeaderName;

use crate::fault::{Code, Fault, Outcome};

pub(super) const KIND: HeaderName = HeaderName::from_static("x-amz-server-side-encryption");
pub(super) const KEY_ID: HeaderName = HeaderName::from_static("x-amz-server-side-encryption-aws-kms-key-id");
pub(super) const CONTEXT: HeaderName = HeaderName::from_static("x-amz-server-side-encryption-context");
pub(super) const BUCKET_KEY: HeaderName =
    HeaderName::from_static("x-amz-server-side-encryption-bucket-key-enabled");
pub(super) const CUSTOMER: HeaderName =
    HeaderName::from_static("x-amz-server-side-encryption-customer-algorithm");
pub(super) const CUSTOMER_MD5: HeaderName =
    HeaderName::from_static("x-amz-server-side-encryption-customer-key-md5");
/// How AWS's clients name keys of this kind; it is MinIO's form.
pub(super) const ARN: &str = "arn:aws:kms:";

/// What requests for encryption need.
#[derive(Clone, Default)]
pub struct Encryption {
    /// Where named keys are; `None`: SSE-S3 and SSE-KMS are refused.
    pub kms: Option<Arc<Kms>>,
    /// The cipher of new versions; `None`: the quicker one on this machine.
    pub cipher: Option<Cipher>,
}

impl Encryption {
    /// The key service.
    pub(super) fn keys(&self) -> Outcome<&Arc<Kms>> {
        self.kms.as_ref().ok_or_else(|| {
        Fault::with(
            Code::NOT_IMPLEMENTED,
            "Server side encryption specified but KMS is not configured. Start the server with a root key \
             (--kms-root-key-file) or a key service.",
        )
    })
    }
}

/// Errors of the key service as errors of S3.
pub(super) fn of_kms(error: ashlar_kms::Error) -> Fault {
    use ashlar_kms::Error as E;
    let text = error.to_string();
    match error {
        E::Missing(name) => Fault::with(Code::KMS_NOT_FOUND, format!("Invalid keyId '{name}'")),
        E::Exists(_) | E::Invalid(_) => Fault::with(Code::INVALID_ARGUMENT, text),
        E::Refused(_) => Fault::with(
            Code::ACCESS_DENIED,
            "The key service refuses to use the key. Let this server use it, or name another key.",
        )
        .because(text),
        E::Unavailable(_) => {
            Fault::with(Code::UNAVAILABLE, "The key service cannot be reached. Try again.").because(text)
        }
        E::Sealed | E::Corrupt(_) | E::OtherRoot => Fault::with(
            Code::INTERNAL,
            "The key of the object cannot be opened. Restore the keys of the key service that it was written with.",
        )
        .because(text),
    }
}
