//! Parsing and checks of the headers of the three kinds of encryption.

use ashlar_kms::Secret;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::HeaderMap;
use http::header::HeaderName;

use super::encryption::{ARN, BUCKET_KEY, CONTEXT, KEY_ID, KIND};
use super::envelope::{Envelope, Kind};
use crate::fault::{Code, Fault, Outcome};
use crate::headers;

const PREFIX: &str = "x-amz-server-side-encryption";
const SOURCE_PREFIX: &str = "x-amz-copy-source-server-side-encryption-customer-";
/// Longest encryption context, in bytes of its base64.
const MAX_CONTEXT: usize = 4096;

/// What a request asks for.
pub enum Asked {
    /// Nothing: the bucket's default.
    Nothing,
    /// SSE-S3.
    S3,
    /// SSE-KMS.
    Kms {
        /// The named key; `None`: the default.
        key_id: Option<String>,
        /// The client's context, base64 of JSON, or nothing.
        context: String,
        /// Kept and answered; every version has a key of its own here anyway.
        bucket_key: bool,
    },
    /// SSE-C.
    Customer(CustomerKey),
}

/// A key that the customer brings: used for this request and forgotten.
pub struct CustomerKey {
    pub(super) key: Secret,
    /// Base64, as it was given and checked.
    pub(super) md5: String,
}

impl CustomerKey {
    /// The MD5 of the key, base64, as AWS answers it.
    pub fn md5(&self) -> &str {
        &self.md5
    }
}

/// Whose key: that of the object itself, or of the source of a copy.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// `x-amz-server-side-encryption-customer-*`.
    Here,
    /// `x-amz-copy-source-server-side-encryption-customer-*`.
    Source,
}

/// Which headers of encryption an operation takes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Allowed {
    /// A customer's key: reading.
    Customer,
    /// A customer's key, with the encryption of the upload, which parts and the completion repeat.
    Part,
    /// As [`Allowed::Part`], and the key of a source.
    PartAndSource,
    /// Everything: making an object.
    All,
    /// Everything, and the key of a source.
    AllAndSource,
}

/// Whether the headers say anything about encryption.
pub fn gives_any(request: &HeaderMap) -> bool {
    request.keys().any(|n| n.as_str().starts_with(PREFIX))
}

/// As [`headers::refuse_unsupported`], for operations that take headers of encryption.
pub fn refuse(request: &HeaderMap, owner: &str, allowed: Allowed) -> Outcome<()> {
    headers::refuse_others(request, owner)?;
    for name in request.keys() {
        let n = name.as_str();
        let known = if let Some(rest) = n.strip_prefix(PREFIX) {
            match rest {
                "-customer-algorithm" | "-customer-key" | "-customer-key-md5" => true,
                "" | "-aws-kms-key-id" | "-context" | "-bucket-key-enabled" => {
                    if allowed == Allowed::Customer {
                        return Err(not_here(request, n));
                    }
                    true
                }
                _ => false,
            }
        } else if n.starts_with("x-amz-copy-source-server-side-encryption") {
            matches!(allowed, Allowed::PartAndSource | Allowed::AllAndSource)
                && matches!(n.strip_prefix(SOURCE_PREFIX), Some("algorithm" | "key" | "key-md5"))
        } else {
            true
        };
        if !known {
            return Err(Fault::not_implemented(&format!("Server-side encryption (header {n})")));
        }
    }
    Ok(())
}

const KIND_NAME: &str = "x-amz-server-side-encryption";

/// A header that this operation does not take.
fn not_here(request: &HeaderMap, name: &str) -> Fault {
    let value = headers::ascii(request, name).unwrap_or_default();
    Fault::argument(KIND_NAME, value, format!("{name} header is not supported for this operation."))
}

/// Refuses headers that ask for another encryption than an upload has. AWS refuses them in any case; minio-go
/// says again with each part, and at the end, what it made the upload with.
///
/// # Errors
/// `InvalidArgument`; as [`asked`].
pub fn same_as_upload(request: &HeaderMap, tls: bool, envelope: Option<&Envelope>) -> Outcome<()> {
    let given = |name: &str| headers::ascii(request, name).is_some_and(|v| !v.is_empty());
    let names = [KIND, KEY_ID, CONTEXT, BUCKET_KEY];
    let Some(first) = names.iter().map(HeaderName::as_str).find(|name| given(name)) else { return Ok(()) };
    let same = match (asked(request, tls)?, envelope) {
        (Asked::Nothing, _) => true,
        (Asked::S3, Some(e)) => e.kind == Kind::S3,
        (Asked::Kms { key_id, context, .. }, Some(e)) => {
            e.kind == Kind::Kms
                && key_id.is_none_or(|id| id == e.key_id)
                && (context.is_empty() || context == e.context)
        }
        (Asked::S3 | Asked::Kms { .. } | Asked::Customer(_), _) => false,
    };
    if same { Ok(()) } else { Err(not_here(request, first)) }
}

/// Reads what a request asks for.
pub fn asked(request: &HeaderMap, tls: bool) -> Outcome<Asked> {
    if !gives_any(request) {
        return Ok(Asked::Nothing);
    }
    let text = |name: &str| headers::ascii(request, name);
    let kind = text(KIND.as_str());
    let customer = customer(request, Side::Here, tls)?;
    if let Some(customer) = customer {
        if let Some(kind) = kind {
            return Err(Fault::argument(
                KIND_NAME,
                kind,
                "Server Side Encryption with Customer provided key is incompatible with the encryption method specified",
            ));
        }
        return Ok(Asked::Customer(customer));
    }
    let key_id = text(KEY_ID.as_str()).filter(|v| !v.is_empty());
    let context = text(CONTEXT.as_str()).unwrap_or_default();
    let bucket_key = text(BUCKET_KEY.as_str()).is_some_and(|v| v.eq_ignore_ascii_case("true"));
    match kind {
        Some("AES256") | None if key_id.is_some() || !context.is_empty() => Err(Fault::argument(
            KIND_NAME,
            kind.unwrap_or_default(),
            "Server Side Encryption with AWS KMS managed key requires HTTP header x-amz-server-side-encryption : aws:kms",
        )),
        // The bucket's default decides; a bucket key alone changes nothing.
        None => Ok(Asked::Nothing),
        Some("AES256") => Ok(Asked::S3),
        Some("aws:kms") => Ok(Asked::Kms {
            key_id: key_id.map(key_name).transpose()?,
            context: check_context(context)?,
            bucket_key,
        }),
        Some("aws:kms:dsse") => {
            Err(Fault::not_implemented("Dual-layer server-side encryption (aws:kms:dsse)"))
        }
        Some(other) => {
            Err(Fault::argument(KIND_NAME, other, "The encryption method specified is not supported"))
        }
    }
}

/// The name in a key id: as it is, or behind MinIO's form of an ARN.
pub(super) fn key_name(id: &str) -> Outcome<String> {
    let name = id.strip_prefix(ARN).unwrap_or(id);
    match ashlar_kms::check_name(name) {
        Ok(()) => Ok(name.to_owned()),
        Err(_) => {
            let shown: String = id.chars().take(128).collect();
            Err(Fault::with(Code::KMS_NOT_FOUND, format!("Invalid keyId '{shown}'")))
        }
    }
}

fn check_context(text: &str) -> Outcome<String> {
    if text.is_empty() {
        return Ok(String::new());
    }
    let json = STANDARD.decode(text).ok().filter(|_| text.len() <= MAX_CONTEXT);
    let map =
        json.and_then(|j| serde_json::from_slice::<std::collections::BTreeMap<String, String>>(&j).ok());
    match map {
        Some(_) => Ok(text.to_owned()),
        None => Err(Fault::with(
            Code::INVALID_ARGUMENT,
            "The header 'x-amz-server-side-encryption-context' shall be Base64-encoded UTF-8 string holding JSON which represents a string-string map",
        )),
    }
}

/// The key that the customer brings, if any.
pub fn customer(request: &HeaderMap, side: Side, tls: bool) -> Outcome<Option<CustomerKey>> {
    let names = match side {
        Side::Here => [
            "x-amz-server-side-encryption-customer-algorithm",
            "x-amz-server-side-encryption-customer-key",
            "x-amz-server-side-encryption-customer-key-md5",
        ],
        Side::Source => [
            "x-amz-copy-source-server-side-encryption-customer-algorithm",
            "x-amz-copy-source-server-side-encryption-customer-key",
            "x-amz-copy-source-server-side-encryption-customer-key-md5",
        ],
    };
    if !names.iter().any(|n| request.contains_key(*n)) {
        return Ok(None);
    }
    let wrong = |name: &'static str, text: &'static str| {
        Fault::with(Code::INVALID_ARGUMENT, text)
            .element("ArgumentName", name)
            .element("ArgumentValue", "null")
    };
    if !tls {
        return Err(Fault::with(
            Code::INVALID_REQUEST,
            "Requests specifying Server Side Encryption with Customer provided keys must be made over a secure connection.",
        ));
    }
    let [algorithm, key, md5] = names.map(|n| headers::ascii(request, n).filter(|v| !v.is_empty()));
    match algorithm {
        Some("AES256") => {}
        Some(other) => {
            return Err(Fault::new(Code::INVALID_ENCRYPTION_ALGORITHM)
                .element("ArgumentName", names[0])
                .element("ArgumentValue", other.chars().take(64).collect::<String>()));
        }
        None => {
            return Err(wrong(
                names[0],
                "Requests specifying Server Side Encryption with Customer provided keys must provide a valid encryption algorithm.",
            ));
        }
    }
    let key = key.ok_or_else(|| {
        wrong(
            names[1],
            "Requests specifying Server Side Encryption with Customer provided keys must provide an appropriate secret key.",
        )
    })?;
    let md5 = md5.ok_or_else(|| {
        wrong(
            names[2],
            "Requests specifying Server Side Encryption with Customer provided keys must provide the client calculated MD5 of the secret key.",
        )
    })?;
    let bytes = STANDARD.decode(key).unwrap_or_default();
    let sum = STANDARD.encode(ashlar_checksum::md5_once(&bytes));
    let key = Secret::take(bytes)
        .ok_or_else(|| wrong(names[1], "The secret key was invalid for the specified algorithm."))?;
    if sum != md5 {
        return Err(wrong(
            names[2],
            "The calculated MD5 hash of the key did not match the hash that was provided.",
        ));
    }
    Ok(Some(CustomerKey { key, md5: sum }))
}
