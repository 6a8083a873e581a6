//! Authentication: from the head of a request to [`Verified`].
//!
//! A request without credentials is [`Scheme::Anonymous`]; every other accepted request has a verified
//! signature. Invariants (docs/proof.md 2.1): the credentials that are looked up and the signature that is
//! checked come from one source (two sources: 400); only this module can make a [`Verified`], and operations
//! accept nothing else; every `x-amz-*` header of the request must be signed; an unknown key costs as much
//! time as a known one. Must not depend on: buckets, objects, or the purpose of the request.

mod keys;
mod payload;
mod v2;
mod v4;

use std::sync::Arc;

use http::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue};
use http::{Method, Uri};

pub use ashlar_iam::{Identity, Root as Credential, Secret};
pub use keys::{Keys, SigningKey, derived_key};
pub use payload::Payload;
pub use v4::Chain;

use crate::fault::{Code, Fault, Outcome};
use crate::target::Target;

/// Largest difference between the clocks of client and server, in seconds.
pub const MAX_SKEW: i64 = 15 * 60;
/// Longest life of a presigned URL, in seconds.
pub const MAX_EXPIRY: i64 = 7 * 24 * 3600;

/// What a signature is checked against.
pub struct Request<'a> {
    /// Method.
    pub method: &'a Method,
    /// The target as it came.
    pub uri: &'a Uri,
    /// The target as decoded.
    pub target: &'a Target,
    /// All headers.
    pub headers: &'a HeaderMap,
}

/// What signatures are checked with.
pub struct Verifier {
    /// The keys.
    pub keys: Keys,
    /// The region of this endpoint.
    pub region: String,
    /// Any region may stand in the credential scope; otherwise only `region`.
    pub any_region: bool,
    /// Signature V2 is taken too. It covers no body, and its hash is SHA-1.
    pub v2: bool,
}

/// How the request was authenticated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scheme {
    /// `Authorization: AWS4-HMAC-SHA256`.
    HeaderV4,
    /// `X-Amz-Signature=`.
    QueryV4,
    /// `Authorization: AWS`.
    HeaderV2,
    /// `Signature=`.
    QueryV2,
    /// Signed policy in a form.
    Form,
    /// Not signed at all.
    Anonymous,
}

/// Proof that a request was signed by the holder of a key. Only this module makes one.
#[derive(Debug)]
pub struct Verified {
    identity: Arc<Identity>,
    scheme: Scheme,
    payload: Payload,
    chain: Option<Chain>,
}

impl Verified {
    /// The access key that signed.
    pub fn access_key(&self) -> &str {
        &self.identity.access_key
    }

    /// The identity of the access key.
    pub fn identity(&self) -> &Arc<Identity> {
        &self.identity
    }

    /// How the request was authenticated.
    pub fn scheme(&self) -> Scheme {
        self.scheme
    }

    /// What the signature covers of the body.
    pub fn payload(&self) -> &Payload {
        &self.payload
    }

    /// The same request of the same caller with the permissions of now, for an answer that goes on for long. `now`: what
    /// `Iam::renewed` says of [`Verified::identity`].
    #[must_use]
    pub fn renewed(&self, now: Arc<Identity>) -> Verified {
        Verified { identity: now, scheme: self.scheme, payload: self.payload.clone(), chain: None }
    }

    /// For signed chunks: what the first chunk's signature follows.
    pub fn take_chain(&mut self) -> Option<Chain> {
        self.chain.take()
    }
}

/// Where the credentials are.
enum Source<'a> {
    Header(&'a str),
    QueryV4,
    QueryV2,
}

impl Verifier {
    /// Checks the head of a request; `now` is in seconds since 1970.
    pub fn verify(&self, request: &Request<'_>, now: i64) -> Outcome<Verified> {
        let verified = match source(request)? {
            None => self.anonymous(request)?,
            Some(Source::QueryV4) => v4::query(self, request, now)?,
            Some(Source::QueryV2) => {
                self.allow_v2()?;
                v2::query(self, request, now)?
            }
            Some(Source::Header(value)) if value.starts_with(v4::ALGORITHM) => {
                v4::header(self, request, value, now)?
            }
            Some(Source::Header(value)) if value.starts_with("AWS ") => {
                self.allow_v2()?;
                v2::header(self, request, value, now)?
            }
            Some(Source::Header(value)) if value.starts_with("AWS4-ECDSA-P256-SHA256") => {
                return Err(Fault::not_implemented("The signing algorithm AWS4-ECDSA-P256-SHA256 (SigV4A)"));
            }
            Some(Source::Header(_)) => {
                return Err(Fault::with(
                    Code::INVALID_ARGUMENT,
                    "Unsupported Authorization Type. Use AWS4-HMAC-SHA256 or AWS.",
                ));
            }
        };
        if let Payload::Reserved(name) = verified.payload {
            return Err(Fault::not_implemented(name));
        }
        Ok(verified)
    }

    /// Checks a request to the security token service, whose signature covers the `body`.
    pub fn verify_sts(&self, request: &Request<'_>, body: &[u8], now: i64) -> Outcome<Verified> {
        match source(request)? {
            Some(Source::Header(value)) if value.starts_with(v4::ALGORITHM) => {
                v4::sts(self, request, value, body, now)
            }
            _ => Err(Fault::new(Code::ACCESS_DENIED)),
        }
    }

    /// Checks the signature of a form's policy; see [`crate::form`].
    pub fn verify_form(&self, fields: &crate::fields::Fields, now: i64) -> Outcome<Verified> {
        match (fields.get("x-amz-signature"), fields.get("signature")) {
            (Some(_), Some(_)) => Err(only_one()),
            (Some(signature), None) => v4::form(self, fields, signature, now),
            (None, Some(signature)) => {
                self.allow_v2()?;
                v2::form(self, fields, signature)
            }
            (None, None) => Ok(Verified {
                identity: self.keys.nobody(),
                scheme: Scheme::Anonymous,
                payload: Payload::Unsigned,
                chain: None,
            }),
        }
    }

    /// As AWS answers in regions that never had V2.
    fn allow_v2(&self) -> Outcome<()> {
        if self.v2 {
            return Ok(());
        }
        Err(Fault::with(
            Code::INVALID_REQUEST,
            "The authorization mechanism you have provided is not supported. Please use AWS4-HMAC-SHA256.",
        ))
    }

    /// The identity behind `id`, or a decoy so that an unknown id costs the same; the flag says which.
    fn identity_of(&self, id: &str, token: Option<&str>) -> Outcome<(Arc<Identity>, bool)> {
        self.keys.find(id, token)
    }

    /// A request without credentials is anonymous. Policies decide what it may do.
    fn anonymous(&self, request: &Request<'_>) -> Outcome<Verified> {
        let payload = match request.headers.get("x-amz-content-sha256") {
            None => Payload::Unsigned,
            Some(value) => Payload::parse(value.to_str().map_err(|_| payload::missing())?)?,
        };
        match payload {
            // Signed chunks need a signed request.
            Payload::Signed | Payload::SignedTrailer => return Err(Fault::new(Code::ACCESS_DENIED)),
            Payload::Single(_) | Payload::Unsigned | Payload::UnsignedTrailer | Payload::Reserved(_) => {}
        }
        let (identity, scheme) = (self.keys.nobody(), Scheme::Anonymous);
        Ok(Verified { identity, scheme, payload, chain: None })
    }
}

fn only_one() -> Fault {
    Fault::with(
        Code::INVALID_ARGUMENT,
        "Only one auth mechanism allowed; only the X-Amz-Algorithm query parameter, Signature query string parameter or the Authorization header should be specified",
    )
    .element("ArgumentName", "Authorization")
}

/// Finds the one place where credentials are given.
fn source<'a>(request: &Request<'a>) -> Outcome<Option<Source<'a>>> {
    let query = &request.target.query;
    let mut headers = request.headers.get_all(AUTHORIZATION).iter();
    let header = headers.next();
    if headers.next().is_some() {
        return Err(only_one());
    }
    let v4 = query.has("X-Amz-Signature") || query.has("X-Amz-Credential") || query.has("X-Amz-Algorithm");
    let v2 = query.has("Signature") || query.has("AWSAccessKeyId");
    if usize::from(header.is_some()) + usize::from(v4) + usize::from(v2) > 1 {
        return Err(only_one());
    }
    // A token stands where the signature stands, and nowhere else.
    let in_query = query.has("X-Amz-Security-Token");
    let in_header = request.headers.contains_key("x-amz-security-token");
    if (in_query && !v4) || (in_header && header.is_none()) {
        return Err(Fault::new(Code::INVALID_TOKEN));
    }
    Ok(match header {
        Some(value) => {
            let value = value.to_str().map_err(|_| v4::malformed("it is not ASCII"))?;
            Some(Source::Header(value.trim()))
        }
        None if v4 => Some(Source::QueryV4),
        None if v2 => Some(Source::QueryV2),
        None => None,
    })
}

/// Headers that have one meaning and are refused when they occur twice: credentials, length and checksum of
/// the body, subject of the request.
const SINGLE: [&str; 15] = [
    "authorization",
    "content-length",
    "content-md5",
    "date",
    "expect",
    "expires",
    "host",
    "range",
    "transfer-encoding",
    "x-amz-content-sha256",
    "x-amz-copy-source",
    "x-amz-date",
    "x-amz-decoded-content-length",
    "x-amz-security-token",
    "x-amz-tagging",
];

/// Refuses headers that came in several lines and mean something to us: for APIs without lists in headers.
///
/// # Errors
/// `InvalidRequest` or `InvalidArgument`.
pub fn refuse_duplicates(headers: &HeaderMap) -> Outcome<()> {
    if headers.len() == headers.keys_len() {
        return Ok(());
    }
    for name in headers.keys() {
        let n = name.as_str();
        let ours = SINGLE.contains(&n) || n.starts_with("x-amz-") || n.starts_with("content-");
        if ours && headers.get_all(name).iter().nth(1).is_some() {
            return Err(sent_twice(n));
        }
    }
    Ok(())
}

fn sent_twice(name: &str) -> Fault {
    if name == "authorization" {
        return only_one();
    }
    Fault::with(Code::INVALID_REQUEST, format!("The header {name} was sent more than once. Send it once."))
}

/// Makes one header of those that came in several lines: their values in order, joined with commas, as RFC
/// 9110 says and as both signature versions sign them. Cookies and similar headers are not changed.
///
/// # Errors
/// `InvalidRequest` or `InvalidArgument` for a header that must come once.
pub fn join_repeated(headers: &mut HeaderMap) -> Outcome<()> {
    if headers.len() == headers.keys_len() {
        return Ok(());
    }
    let repeated: Vec<HeaderName> =
        headers.keys().filter(|name| headers.get_all(*name).iter().nth(1).is_some()).cloned().collect();
    for name in repeated {
        let n = name.as_str();
        if SINGLE.contains(&n) {
            return Err(sent_twice(n));
        }
        let ours =
            ["x-amz-", "content-", "if-", "cache-control", "x-minio-"].iter().any(|p| n.starts_with(p));
        if ours {
            let values: Vec<&[u8]> =
                headers.get_all(&name).iter().map(|v| v.as_bytes().trim_ascii()).collect();
            // Made of valid values and commas.
            let Ok(joined) = HeaderValue::from_bytes(&values.join(&b","[..])) else { continue };
            headers.insert(name, joined);
        }
    }
    Ok(())
}

/// The error of AWS; it cost as much work as a known key.
fn unknown_key(access_key: &str) -> Fault {
    Fault::new(Code::INVALID_ACCESS_KEY_ID)
        .element("AWSAccessKeyId", access_key.chars().take(128).collect::<String>())
}

fn wrong_signature(
    access_key: &str,
    provided: &str,
    string_to_sign: &str,
    canonical: Option<&[u8]>,
) -> Fault {
    let fault = Fault::new(Code::SIGNATURE_MISMATCH)
        .element("AWSAccessKeyId", access_key.chars().take(128).collect::<String>())
        .element("StringToSign", string_to_sign)
        .element("SignatureProvided", provided.chars().take(128).collect::<String>());
    match canonical {
        Some(c) => fault.element("CanonicalRequest", String::from_utf8_lossy(c).into_owned()),
        None => fault,
    }
}
