//! AWS Signature Version 4: header, query (presigned) and form.
//!
//! Reference: AWS, "Signature Version 4 for Amazon S3". S3 encodes the path once.

use std::cell::RefCell;

use ashlar_checksum::sha256;
use aws_lc_rs::hmac;
use http::header::{HeaderMap, HeaderName};

use super::payload::{self, Payload};
use super::{
    MAX_EXPIRY, MAX_SKEW, Request, Scheme, SigningKey, Verified, Verifier, unknown_key, wrong_signature,
};
use crate::date;
use crate::fault::{Code, Fault, Outcome};
use crate::target::canonical_encode;

pub(super) const ALGORITHM: &str = "AWS4-HMAC-SHA256";
/// Most names in SignedHeaders.
const MAX_SIGNED: usize = 128;

/// A credential scope: `access key/date/region/service/aws4_request`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Scope<'a> {
    /// Access key id; may contain slashes.
    access_key: &'a str,
    /// `YYYYMMDD`.
    date: &'a str,
    region: &'a str,
    /// Only `s3` is served.
    service: &'a str,
}

impl<'a> Scope<'a> {
    fn parse(text: &'a str) -> Option<Scope<'a>> {
        let mut parts = text.rsplitn(5, '/');
        let (end, service, region, date, access_key) =
            (parts.next()?, parts.next()?, parts.next()?, parts.next()?, parts.next()?);
        let date_ok = date.len() == 8 && date.bytes().all(|b| b.is_ascii_digit());
        (end == "aws4_request" && date_ok && !access_key.is_empty()).then_some(Scope {
            access_key,
            date,
            region,
            service,
        })
    }
}

/// What the signature of the next chunk follows.
#[derive(Clone)]
pub struct Chain {
    key: SigningKey,
    /// `date\nscope\n`, as in every string to sign.
    stamp: String,
    previous: String,
}

impl std::fmt::Debug for Chain {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Chain")
    }
}

impl Chain {
    /// Checks a chunk's signature (64 hexadecimal digits) over the hash of its data and moves on.
    pub fn check_chunk(&mut self, signature: &[u8], data: &[u8; 32]) -> bool {
        const EMPTY: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        let text = format!(
            "AWS4-HMAC-SHA256-PAYLOAD\n{}{}\n{EMPTY}\n{}",
            self.stamp,
            self.previous,
            hex::encode(data)
        );
        self.check(signature, &text)
    }

    /// Checks the signature of the trailer, whose canonical form (`name:value\n` lines) is given.
    pub fn check_trailer(&mut self, signature: &[u8], canonical: &[u8]) -> bool {
        let text = format!(
            "AWS4-HMAC-SHA256-TRAILER\n{}{}\n{}",
            self.stamp,
            self.previous,
            hex::encode(sha256(canonical))
        );
        self.check(signature, &text)
    }

    fn check(&mut self, signature: &[u8], text: &str) -> bool {
        let mut given = [0; 32];
        if hex::decode_to_slice(signature, &mut given).is_err() {
            return false;
        }
        let good = hmac::verify(&self.key, text.as_bytes(), &given).is_ok();
        if good {
            self.previous = String::from_utf8_lossy(signature).to_ascii_lowercase();
        }
        good
    }
}

pub(super) fn malformed(why: impl std::fmt::Display) -> Fault {
    Fault::with(
        Code::AUTH_HEADER_MALFORMED,
        format!(
            "The authorization header is malformed; {why}. Expected: {ALGORITHM} Credential=KEY/YYYYMMDD/REGION/s3/aws4_request, SignedHeaders=LIST, Signature=HEX"
        ),
    )
}

fn bad_query(why: impl Into<std::borrow::Cow<'static, str>>) -> Fault {
    Fault::with(Code::AUTH_QUERY_PARAMETERS, why)
}

/// The three fields of the header, in any order.
struct Fields<'a> {
    credential: &'a str,
    signed: &'a str,
    signature: &'a str,
}

fn fields(value: &str) -> Outcome<Fields<'_>> {
    let rest = value.strip_prefix(ALGORITHM).unwrap_or(value);
    let (mut credential, mut signed, mut signature) = (None, None, None);
    for field in rest.split(',') {
        let (name, text) = field.trim().split_once('=').ok_or_else(|| malformed("a field has no value"))?;
        let slot = match name {
            "Credential" => &mut credential,
            "SignedHeaders" => &mut signed,
            "Signature" => &mut signature,
            _ => return Err(malformed("it has an unknown field")),
        };
        if slot.replace(text).is_some() {
            return Err(malformed(format_args!("{name} is given twice")));
        }
    }
    match (credential, signed, signature) {
        (Some(credential), Some(signed), Some(signature)) => Ok(Fields { credential, signed, signature }),
        (None, ..) => Err(malformed("Credential is missing")),
        (_, None, _) => Err(malformed("SignedHeaders is missing")),
        (.., None) => Err(malformed("Signature is missing")),
    }
}

pub(super) fn header(verifier: &Verifier, request: &Request<'_>, value: &str, now: i64) -> Outcome<Verified> {
    let payload = request.headers.get("x-amz-content-sha256");
    let payload = payload.map(|v| v.to_str().map_err(|_| payload::missing()));
    signed(verifier, request, value, now, ("s3", payload.transpose()?))
}

/// As [`header`], for a request whose body is here, to the security token service.
pub(super) fn sts(
    verifier: &Verifier,
    request: &Request<'_>,
    value: &str,
    body: &[u8],
    now: i64,
) -> Outcome<Verified> {
    signed(verifier, request, value, now, ("sts", Some(&hex::encode(sha256(body)))))
}

/// The last: the service it must be signed for, and what the signature covers of the body.
fn signed(
    verifier: &Verifier,
    request: &Request<'_>,
    value: &str,
    now: i64,
    (service, payload): (&'static str, Option<&str>),
) -> Outcome<Verified> {
    let fields = fields(value)?;
    let scope = Scope::parse(fields.credential).ok_or_else(|| {
        malformed(
            "the Credential is mal-formed; expecting \"<YOUR-AKID>/YYYYMMDD/REGION/SERVICE/aws4_request\"",
        )
    })?;
    let (stamp, at) = request_date(request.headers)?;
    if (now - at).abs() > MAX_SKEW {
        return Err(skewed(&stamp, now));
    }
    if scope.date != &stamp[..8] {
        return Err(malformed("the date in the Credential is not the date of the request"));
    }
    // MinIO's administration clients sign for no region at all.
    let ours = |path: &str| path.starts_with("/minio/admin/") || path.starts_with("/minio/kms/");
    let administration = !request.target.virtual_host && ours(&request.target.path);
    let free = administration && service == "s3" && scope.region.is_empty() && scope.service == service;
    let checked = if free { Ok(()) } else { check_scope(verifier, &scope, service) };
    checked.map_err(|(why, region)| {
        let fault = malformed(why);
        if region { fault.element("Region", verifier.region.clone()) } else { fault }
    })?;
    let payload = payload.ok_or_else(payload::missing)?;
    check(
        verifier,
        request,
        &Claim {
            scope: &scope,
            stamp: &stamp,
            signed: fields.signed,
            signature: fields.signature,
            payload,
            presigned: false,
            service,
        },
    )
}

pub(super) fn query(verifier: &Verifier, request: &Request<'_>, now: i64) -> Outcome<Verified> {
    let query = &request.target.query;
    let need = |name: &'static str| {
        query.filled(name).ok_or_else(|| {
            bad_query("Query-string authentication version 4 requires the X-Amz-Algorithm, X-Amz-Credential, X-Amz-Signature, X-Amz-Date, X-Amz-SignedHeaders, and X-Amz-Expires parameters.")
        })
    };
    match need("X-Amz-Algorithm")? {
        ALGORITHM => {}
        "AWS4-ECDSA-P256-SHA256" => {
            return Err(Fault::not_implemented("The signing algorithm AWS4-ECDSA-P256-SHA256 (SigV4A)"));
        }
        _ => {
            return Err(bad_query(
                "X-Amz-Algorithm only supports \"AWS4-HMAC-SHA256 and AWS4-ECDSA-P256-SHA256\"",
            ));
        }
    }
    let scope = Scope::parse(need("X-Amz-Credential")?).ok_or_else(|| {
        bad_query("Error parsing the X-Amz-Credential parameter; the Credential is mal-formed; expecting \"<YOUR-AKID>/YYYYMMDD/REGION/SERVICE/aws4_request\".")
    })?;
    let stamp = need("X-Amz-Date")?;
    let at = date::parse_basic(stamp)
        .ok_or_else(|| bad_query("X-Amz-Date must be in the ISO8601 Long Format \"yyyyMMdd'T'HHmmss'Z'\""))?;
    let expires: i64 =
        need("X-Amz-Expires")?.parse().map_err(|_| bad_query("X-Amz-Expires should be a number"))?;
    if expires < 1 {
        return Err(bad_query("X-Amz-Expires must be at least 1 second"));
    }
    if expires > MAX_EXPIRY {
        return Err(bad_query(
            "X-Amz-Expires must be less than a week (in seconds); that is, the given X-Amz-Expires must be less than 604800 seconds",
        ));
    }
    if scope.date != &stamp[..8] {
        return Err(bad_query(format!(
            "Error parsing the X-Amz-Credential parameter; incorrect date \"{}\". This date in the credential must be in the format \"yyyyMMdd\" and be the date of X-Amz-Date.",
            scope.date
        )));
    }
    check_scope(verifier, &scope, "s3").map_err(|(why, region)| {
        let fault = bad_query(format!("Error parsing the X-Amz-Credential parameter; {why}"));
        if region { fault.element("Region", verifier.region.clone()) } else { fault }
    })?;
    if at - now > MAX_SKEW {
        return Err(Fault::new(Code::REQUEST_NOT_VALID_YET).element("ServerTime", date::format_iso_secs(now)));
    }
    if now > at + expires {
        return Err(Fault::with(Code::ACCESS_DENIED, "Request has expired")
            .element("X-Amz-Expires", expires.to_string())
            .element("Expires", date::format_iso_secs(at + expires))
            .element("ServerTime", date::format_iso_secs(now)));
    }
    let signed = need("X-Amz-SignedHeaders")?;
    let payload = match request.headers.get("x-amz-content-sha256") {
        Some(value) => value.to_str().map_err(|_| payload::missing())?,
        None => query.filled("X-Amz-Content-Sha256").unwrap_or("UNSIGNED-PAYLOAD"),
    };
    let signature = need("X-Amz-Signature")?;
    check(
        verifier,
        request,
        &Claim { scope: &scope, stamp, signed, signature, payload, presigned: true, service: "s3" },
    )
}

/// Checks the signature of a form: HMAC of its base64 policy.
pub(super) fn form(
    verifier: &Verifier,
    fields: &crate::fields::Fields,
    signature: &str,
    now: i64,
) -> Outcome<Verified> {
    let need = |name: &'static str| {
        fields.get(name).ok_or_else(|| Fault::argument(name, "", format!("Bucket POST must contain a field named '{name}'. If it is specified, please check the order of the fields.")))
    };
    if need("x-amz-algorithm")? != ALGORITHM {
        return Err(Fault::argument("x-amz-algorithm", "", format!("x-amz-algorithm must be {ALGORITHM}")));
    }
    let scope = Scope::parse(need("x-amz-credential")?)
        .ok_or_else(|| Fault::argument("x-amz-credential", "", "The credential is malformed."))?;
    let stamp = need("x-amz-date")?;
    let at = date::parse_basic(stamp)
        .ok_or_else(|| Fault::argument("x-amz-date", stamp, "x-amz-date must be YYYYMMDDTHHMMSSZ"))?;
    if at - now > MAX_SKEW {
        return Err(Fault::new(Code::REQUEST_NOT_VALID_YET));
    }
    if now - at > MAX_EXPIRY {
        return Err(Fault::with(
            Code::ACCESS_DENIED,
            "The policy was signed more than a week ago. Sign a new one.",
        ));
    }
    if scope.date != &stamp[..8] {
        return Err(Fault::argument(
            "x-amz-credential",
            "",
            "The date in the credential is not the date of x-amz-date.",
        ));
    }
    check_scope(verifier, &scope, "s3").map_err(|(why, _)| Fault::argument("x-amz-credential", "", why))?;
    let policy = need("policy")?;
    let token = fields.get("x-amz-security-token");
    let (identity, known) = verifier.identity_of(scope.access_key, token)?;
    let key = verifier.keys.signing_key(&identity, scope.date, scope.region, "s3");
    let mut given = [0; 32];
    let parsed = hex::decode_to_slice(signature, &mut given).is_ok();
    let good = hmac::verify(&key, policy.as_bytes(), &given).is_ok();
    if !known {
        return Err(unknown_key(scope.access_key));
    }
    if !(good && parsed) {
        return Err(wrong_signature(scope.access_key, signature, policy, None));
    }
    Ok(Verified { identity, scheme: Scheme::Form, payload: Payload::Unsigned, chain: None })
}

fn skewed(stamp: &str, now: i64) -> Fault {
    Fault::new(Code::REQUEST_TIME_SKEWED)
        .element("RequestTime", stamp)
        .element("ServerTime", date::format_iso_secs(now))
        .element("MaxAllowedSkewMilliseconds", (MAX_SKEW * 1000).to_string())
}

/// `x-amz-date`, or `Date` where that is missing; as `YYYYMMDDTHHMMSSZ` and seconds.
fn request_date(headers: &HeaderMap) -> Outcome<(String, i64)> {
    let text = |name: &str| headers.get(name).and_then(|v| v.to_str().ok());
    if let Some(stamp) = text("x-amz-date") {
        let at = date::parse_basic(stamp).or_else(|| date::parse_http(stamp));
        return at.map(|at| (date::format_basic(at), at)).ok_or_else(no_date);
    }
    let stamp = text("date").ok_or_else(no_date)?;
    let at = date::parse_basic(stamp).or_else(|| date::parse_http(stamp)).ok_or_else(no_date)?;
    Ok((date::format_basic(at), at))
}

fn no_date() -> Fault {
    Fault::with(Code::ACCESS_DENIED, "AWS authentication requires a valid Date or x-amz-date header")
}

/// The error text, and whether the region is what is wrong.
fn check_scope(verifier: &Verifier, scope: &Scope<'_>, service: &str) -> Result<(), (String, bool)> {
    if scope.service != service {
        return Err((
            format!("incorrect service \"{}\". This endpoint belongs to \"{service}\".", scope.service),
            false,
        ));
    }
    if !verifier.any_region && scope.region != verifier.region {
        return Err((
            format!("the region '{}' is wrong; expecting '{}'", scope.region, verifier.region),
            true,
        ));
    }
    Ok(())
}

/// What a client claims to have signed.
struct Claim<'a> {
    scope: &'a Scope<'a>,
    stamp: &'a str,
    signed: &'a str,
    signature: &'a str,
    payload: &'a str,
    presigned: bool,
    service: &'static str,
}

thread_local! {
    /// The canonical request is built here, so that a request allocates nothing for it.
    static CANONICAL: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

fn check(verifier: &Verifier, request: &Request<'_>, claim: &Claim<'_>) -> Outcome<Verified> {
    let signed = signed_names(request.headers, claim)?;
    let payload = Payload::parse(claim.payload)?;
    let token = match claim.presigned {
        true => request.target.query.get("X-Amz-Security-Token"),
        false => request.headers.get("x-amz-security-token").and_then(|t| t.to_str().ok()),
    };
    let (identity, known) = verifier.identity_of(claim.scope.access_key, token)?;
    let (date, region, service) = (claim.scope.date, claim.scope.region, claim.service);
    let key = verifier.keys.signing_key(&identity, date, region, service);
    let stamp = format!("{}\n{date}/{region}/{service}/aws4_request\n", claim.stamp);
    let mut given = [0; 32];
    let parsed = claim.signature.len() == 64 && hex::decode_to_slice(claim.signature, &mut given).is_ok();
    CANONICAL.with_borrow_mut(|buffer| {
        buffer.clear();
        canonical_request(buffer, request, claim, &signed);
        let mut hash = [0u8; 64];
        hex::encode_to_slice(sha256(buffer), &mut hash).expect("64 digits for 32 bytes");
        let mut text = String::with_capacity(160);
        text.push_str(ALGORITHM);
        text.push('\n');
        text.push_str(&stamp);
        text.extend(hash.iter().map(|b| *b as char));
        let good = hmac::verify(&key, text.as_bytes(), &given).is_ok();
        if !known {
            Err(unknown_key(claim.scope.access_key))
        } else if good && parsed {
            Ok(())
        } else {
            Err(wrong_signature(claim.scope.access_key, claim.signature, &text, Some(buffer)))
        }
    })?;
    let chain = match payload {
        Payload::Signed | Payload::SignedTrailer => {
            Some(Chain { key, stamp, previous: claim.signature.to_ascii_lowercase() })
        }
        Payload::Single(_) | Payload::Unsigned | Payload::UnsignedTrailer | Payload::Reserved(_) => None,
    };
    let scheme = if claim.presigned { Scheme::QueryV4 } else { Scheme::HeaderV4 };
    Ok(Verified { identity, scheme, payload, chain })
}

/// The names in SignedHeaders, after checking that they cover what must be covered.
fn signed_names<'a>(headers: &HeaderMap, claim: &Claim<'a>) -> Outcome<Vec<&'a str>> {
    let bad = |why: &'static str| {
        if claim.presigned {
            bad_query(format!("X-Amz-SignedHeaders is malformed; {why}"))
        } else {
            malformed(why)
        }
    };
    let mut names: Vec<&str> = Vec::with_capacity(16);
    for name in claim.signed.split(';') {
        if name.is_empty() || names.len() == MAX_SIGNED {
            return Err(bad("SignedHeaders has an empty name or too many names"));
        }
        if name.bytes().any(|b| b.is_ascii_uppercase()) {
            return Err(bad("SignedHeaders must be in lower case"));
        }
        if names.contains(&name) {
            return Err(bad("SignedHeaders names a header twice"));
        }
        names.push(name);
    }
    if !names.contains(&"host") {
        return Err(bad("SignedHeaders must include host"));
    }
    let unsigned =
        |name: &&HeaderName| name.as_str().starts_with("x-amz-") && !names.contains(&name.as_str());
    let missing: Vec<&str> = headers.keys().filter(unsigned).map(HeaderName::as_str).collect();
    if !missing.is_empty() {
        return Err(Fault::with(
            Code::ACCESS_DENIED,
            "There were headers present in the request which were not signed",
        )
        .element("HeadersNotSigned", missing.join(", ")));
    }
    Ok(names)
}

fn canonical_request(out: &mut Vec<u8>, request: &Request<'_>, claim: &Claim<'_>, signed: &[&str]) {
    out.extend_from_slice(request.method.as_str().as_bytes());
    out.push(b'\n');
    canonical_encode(out, &request.target.path, true);
    out.push(b'\n');
    canonical_query(out, request, claim.presigned);
    out.push(b'\n');
    for name in signed {
        out.extend_from_slice(name.as_bytes());
        out.push(b':');
        for (i, value) in request.headers.get_all(*name).iter().enumerate() {
            if i > 0 {
                out.push(b',');
            }
            push_trimmed(out, value.as_bytes());
        }
        out.push(b'\n');
    }
    out.push(b'\n');
    out.extend_from_slice(claim.signed.as_bytes());
    out.push(b'\n');
    out.extend_from_slice(claim.payload.as_bytes());
}

fn canonical_query(out: &mut Vec<u8>, request: &Request<'_>, presigned: bool) {
    let query = &request.target.query;
    if query.is_empty() {
        return;
    }
    let mut pairs: Vec<(Vec<u8>, Vec<u8>)> = query
        .iter()
        .filter(|(name, _)| !(presigned && *name == "X-Amz-Signature"))
        .map(|(name, value)| {
            let (mut n, mut v) = (Vec::with_capacity(name.len() + 8), Vec::with_capacity(value.len() + 8));
            canonical_encode(&mut n, name, false);
            canonical_encode(&mut v, value, false);
            (n, v)
        })
        .collect();
    // By name, then by value; but MinIO's clients, which alone name several events, sign them in the order in
    // which they send them.
    let value = |a: &(Vec<u8>, Vec<u8>), b: &(Vec<u8>, Vec<u8>)| match a.0.as_slice() {
        b"events" => std::cmp::Ordering::Equal,
        _ => a.1.cmp(&b.1),
    };
    pairs.sort_by(|a, b| a.0.cmp(&b.0).then_with(|| value(a, b)));
    for (i, (name, value)) in pairs.iter().enumerate() {
        if i > 0 {
            out.push(b'&');
        }
        out.extend_from_slice(name);
        out.push(b'=');
        out.extend_from_slice(value);
    }
}

/// Header values without white space at the ends, and with single spaces inside.
fn push_trimmed(out: &mut Vec<u8>, value: &[u8]) {
    let mut space = false;
    for &b in value.trim_ascii() {
        if b == b' ' || b == b'\t' {
            space = true;
            continue;
        }
        if std::mem::take(&mut space) {
            out.push(b' ');
        }
        out.push(b);
    }
}
