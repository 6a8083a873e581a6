//! Server-side encryption: requested encryption, sources of content keys, headers of answers.
//!
//! | file | what it holds |
//! |---|---|
//! | `ask` | the headers of the three kinds, checked; keys of customers |
//! | `encryption` | the key service, the names of headers |
//! | `envelope` | the envelope that is stored with a version |
//! | `bucket` | the default of a bucket; `?encryption` |
//!
//! Three kinds: SSE-S3 (`AES256`: the default key of the key service), SSE-KMS (`aws:kms`: a named key),
//! SSE-C (the customer sends the key with every request; neither the key nor a digest of it is stored). Each
//! version has its own content key, sealed for its bucket and key.
//!
//! Invariants: a request for encryption is encrypted or refused, never stored in clear; while a bucket's
//! default cannot be read, nothing can be written; SSE-C requires TLS; errors never say which bytes of a key
//! were wrong. Texts of errors: Amazon S3 API Reference, and MinIO where AWS has no such case.
//!
//! Must not depend on: the format of packages, the location of named keys.

mod ask;
pub mod bucket;
mod encryption;
mod envelope;

use ashlar_kms::{DataKey, Kms, Secret};
use ashlar_object::{AppendBase, Bucket, BucketId, Cipher, ContentKey, Object, Seal, Sealed};
use http::HeaderMap;

use crate::buckets::Named;
use crate::fault::{Code, Fault, Outcome};
use crate::ops::{Answer, Call, Context};

use encryption::{ARN, BUCKET_KEY, CUSTOMER, CUSTOMER_MD5, KEY_ID, KIND, of_kms};

pub use ask::{Allowed, Asked, CustomerKey, Side, asked, customer, gives_any, refuse, same_as_upload};
pub use encryption::Encryption;
pub use envelope::{Envelope, Kind};

/// How a new version is encrypted.
pub struct Made {
    /// For the store.
    pub seal: Seal,
    /// For the answer.
    pub envelope: Envelope,
    customer_md5: Option<String>,
}

impl Made {
    /// Says in the answer how the version is encrypted.
    pub fn show(&self, answer: &mut Answer) {
        show(answer, &self.envelope, self.customer_md5.as_deref());
    }
}

/// What a content key is bound to: the bucket (for life, not by name), the key, and the client's context.
fn context(bucket: BucketId, key: &str, given: &str) -> Vec<u8> {
    let length = (key.len() as u32).to_be_bytes();
    [b"ashlar object 1", &bucket.0[..], &length, key.as_bytes(), given.as_bytes()].concat()
}

/// How a new version is to be encrypted: as the request asks, or by the bucket's default.
pub async fn for_new(
    cx: &Context,
    bucket: Named<'_>,
    key: &str,
    headers: &HeaderMap,
    tls: bool,
) -> Outcome<Option<Made>> {
    let asked = asked(headers, tls)?;
    let bucket = bucket.open()?;
    match bucket::or_default(&bucket, asked)? {
        Asked::Nothing => Ok(None),
        asked => make(cx, bucket.id, key, asked).await.map(Some),
    }
}

/// How what is appended is to be encrypted: as the version that is there, for which a request can only ask
/// again; of a key without version as [`for_new`].
pub async fn for_append(cx: &Context, call: &Call, tail: &AppendBase) -> Outcome<Option<Made>> {
    if !tail.exists {
        return for_new(cx, call.named(), &call.key, &call.headers, call.tls).await;
    }
    let asked = asked(&call.headers, call.tls)?;
    let Some(sealed) = &tail.sealed else {
        return match bucket::or_default(&*call.open()?, asked)? {
            Asked::Nothing => Ok(None),
            _ => Err(Fault::with(
                Code::INVALID_REQUEST,
                "The object is not encrypted, and what is appended should be. Copy the object onto itself with encryption first.",
            )),
        };
    };
    let envelope = envelope(sealed)?;
    let customer = match (asked, envelope.kind) {
        // Of an object with another kind of key that is refused below.
        (Asked::Customer(customer), _) => Some(customer),
        (Asked::Nothing, _) | (Asked::S3, Kind::S3) => None,
        (Asked::Kms { key_id, context, .. }, Kind::Kms)
            if key_id.as_ref().is_none_or(|id| *id == envelope.key_id)
                && (context.is_empty() || context == envelope.context) =>
        {
            None
        }
        _ => return Err(not_applicable()),
    };
    let key = open(cx, call.open()?.id, &call.key, &envelope, customer.as_ref()).await?;
    let md5 = envelope.kind == Kind::S3;
    let seal = Seal { key, cipher: sealed.cipher, envelope: sealed.envelope.clone(), md5 };
    Ok(Some(Made { seal, envelope, customer_md5: customer.map(|c| c.md5) }))
}

/// A fresh content key for what is asked for.
pub async fn make(cx: &Context, id: BucketId, key: &str, asked: Asked) -> Outcome<Made> {
    let cipher = cx.encryption.cipher.unwrap_or_else(Cipher::best);
    let (plain, envelope, customer_md5, md5) = match asked {
        Asked::Nothing => return Err(Fault::internal("nothing asks for encryption")),
        Asked::S3 => {
            let kms = cx.encryption.keys()?;
            let made = kms.generate(kms.default_key(), &context(id, key, "")).await.map_err(of_kms)?;
            let DataKey { plain, sealed, key_id } = made;
            (plain, Envelope::s3(key_id, sealed), None, true)
        }
        Asked::Kms { key_id, context: given, bucket_key } => {
            let kms = cx.encryption.keys()?;
            let name = key_id.as_deref().unwrap_or_else(|| kms.default_key());
            let made = kms.generate(name, &context(id, key, &given)).await.map_err(of_kms)?;
            let DataKey { plain, sealed, key_id } = made;
            (plain, Envelope::kms(key_id, sealed, given, bucket_key), None, false)
        }
        Asked::Customer(customer) => {
            let plain = Secret::generate();
            let sealed = ashlar_kms::seal(&customer.key, &plain, &context(id, key, ""));
            (plain, Envelope::customer(sealed), Some(customer.md5), false)
        }
    };
    let seal = Seal { key: ContentKey::new(*plain.expose()), cipher, envelope: envelope.text(), md5 };
    Ok(Made { seal, envelope, customer_md5 })
}

/// The content key again; `customer`: what the request brings.
pub async fn open(
    cx: &Context,
    id: BucketId,
    key: &str,
    envelope: &Envelope,
    customer: Option<&CustomerKey>,
) -> Outcome<ContentKey> {
    let context = context(id, key, &envelope.context);
    let plain = match (envelope.kind, customer) {
        (Kind::Customer, None) => {
            return Err(Fault::with(
                Code::INVALID_REQUEST,
                "The object was stored using a form of Server Side Encryption. The correct parameters must be provided to retrieve the object.",
            ));
        }
        (Kind::Customer, Some(customer)) => ashlar_kms::open(&customer.key, &envelope.sealed, &context)
            .map_err(|_| {
                Fault::with(
                    Code::ACCESS_DENIED,
                    "Access Denied: the key is not the one that the object was stored with.",
                )
            })?,
        (_, Some(_)) => return Err(not_applicable()),
        (_, None) => {
            cx.encryption.keys()?.open(&envelope.key_id, &envelope.sealed, &context).await.map_err(of_kms)?
        }
    };
    Ok(ContentKey::new(*plain.expose()))
}

fn not_applicable() -> Fault {
    Fault::with(Code::INVALID_REQUEST, "The encryption parameters are not applicable to this object.")
}

/// The envelope of what is stored.
pub fn envelope(sealed: &Sealed) -> Outcome<Envelope> {
    Envelope::parse(&sealed.envelope).ok_or_else(|| Fault::internal("an envelope cannot be read"))
}

/// How a version that was found is encrypted, and its key as far as it is needed.
pub struct Found {
    envelope: Option<(Envelope, Option<String>)>,
    /// The key, if it was needed.
    pub key: Option<ContentKey>,
}

impl Found {
    /// Looks at an object that is read. `needed`: bytes or checksums are asked for. The key of SSE-C is
    /// always checked.
    pub async fn of(cx: &Context, call: &Call, object: &mut Object, needed: bool) -> Outcome<Found> {
        let customer = customer(&call.headers, Side::Here, call.tls)?;
        Found::with(cx, &call.key, object, customer, needed).await
    }

    /// As [`Found::of`], of any object.
    pub async fn with(
        cx: &Context,
        key: &str,
        object: &mut Object,
        customer: Option<CustomerKey>,
        needed: bool,
    ) -> Outcome<Found> {
        let Some(sealed) = object.sealed() else {
            return match customer {
                None => Ok(Found { envelope: None, key: None }),
                Some(_) => Err(not_applicable()),
            };
        };
        let envelope = envelope(sealed)?;
        let key = if needed || customer.is_some() || envelope.kind == Kind::Customer {
            Some(open(cx, object.bucket().id, key, &envelope, customer.as_ref()).await?)
        } else {
            None
        };
        if let Some(key) = &key {
            object.unlock(key);
        }
        Ok(Found { envelope: Some((envelope, customer.map(|c| c.md5))), key })
    }

    /// The envelope, if it is encrypted.
    pub fn envelope(&self) -> Option<&Envelope> {
        self.envelope.as_ref().map(|(e, _)| e)
    }

    /// Says in the answer how the version is encrypted.
    pub fn show(&self, answer: &mut Answer) {
        if let Some((envelope, md5)) = &self.envelope {
            show(answer, envelope, md5.as_deref());
        }
    }
}

/// Says in the answer how a version is encrypted.
pub fn show(answer: &mut Answer, envelope: &Envelope, customer_md5: Option<&str>) {
    match envelope.kind {
        Kind::S3 => {
            answer.set(KIND, "AES256");
        }
        Kind::Kms => {
            answer.set(KIND, "aws:kms");
            answer.set(KEY_ID, format!("{ARN}{}", envelope.key_id));
            if envelope.bucket_key {
                answer.set(BUCKET_KEY, "true");
            }
        }
        Kind::Customer => {
            answer.set(CUSTOMER, "AES256");
            if let Some(md5) = customer_md5 {
                answer.set(CUSTOMER_MD5, md5);
            }
        }
    }
}

/// The key of an upload's parts.
pub async fn of_upload(
    cx: &Context,
    call: &Call,
    sealed: Option<&Sealed>,
) -> Outcome<Option<(Envelope, ContentKey, Option<String>)>> {
    let customer = customer(&call.headers, Side::Here, call.tls)?;
    let Some(sealed) = sealed else {
        same_as_upload(&call.headers, call.tls, None)?;
        return if customer.is_some() { Err(not_applicable()) } else { Ok(None) };
    };
    let envelope = envelope(sealed)?;
    same_as_upload(&call.headers, call.tls, Some(&envelope))?;
    if envelope.kind == Kind::Customer && customer.is_none() {
        return Err(Fault::with(
            Code::INVALID_REQUEST,
            "The multipart upload initiate requested encryption. Subsequent part requests must include the appropriate encryption parameters.",
        ));
    }
    let key = open(cx, call.open()?.id, &call.key, &envelope, customer.as_ref()).await;
    let key = key.map_err(|fault| match (envelope.kind, fault.code()) {
        (Kind::Customer, Code::ACCESS_DENIED) => Fault::with(
            Code::INVALID_REQUEST,
            "The provided encryption parameters did not match the ones used originally to initiate the multipart upload.",
        ),
        _ => fault,
    })?;
    Ok(Some((envelope, key, customer.map(|c| c.md5))))
}

/// An envelope sealed anew under the newest version of its key (`to`: of another key). `None`: it is, or
/// its key is the customer's.
///
/// # Errors
/// As [`Kms::rewrap`].
pub async fn rewrap(
    kms: &Kms,
    (bucket, key): (BucketId, &str),
    text: &str,
    to: Option<&str>,
) -> ashlar_kms::Result<Option<String>> {
    let mut envelope = Envelope::parse(text)
        .ok_or_else(|| ashlar_kms::Error::Corrupt("an envelope cannot be read".to_owned()))?;
    if envelope.kind == Kind::Customer {
        return Ok(None);
    }
    let context = context(bucket, key, &envelope.context);
    let to = to.unwrap_or(&envelope.key_id).to_owned();
    let Some(sealed) = kms.rewrap(&envelope.key_id, &to, &envelope.sealed, &context).await? else {
        return Ok(None);
    };
    (envelope.sealed, envelope.key_id) = (sealed, to);
    Ok(Some(envelope.text()))
}

/// An envelope for the same content key, of an object that gets another key of its bucket. A customer's
/// key would have to come with the request, and does not.
pub async fn rename(
    cx: &Context,
    (bucket, from, to): (&Bucket, &str, &str),
    sealed: &Sealed,
) -> Outcome<String> {
    let mut envelope = envelope(sealed)?;
    if envelope.kind == Kind::Customer {
        return Err(Fault::with(
            Code::INVALID_REQUEST,
            "Objects that are encrypted with a key of the customer (SSE-C) cannot be renamed. Copy the object and delete it.",
        ));
    }
    let id = bucket.id;
    let old = context(id, from, &envelope.context);
    let new = context(id, to, &envelope.context);
    envelope.sealed =
        cx.encryption.keys()?.rebind(&envelope.key_id, &envelope.sealed, &old, &new).await.map_err(of_kms)?;
    Ok(envelope.text())
}

/// How a copy is encrypted: shares the data if that is possible, else a fresh key. `another_sum`: a checksum
/// is asked for, which may need the data.
pub async fn for_copy(
    cx: &Context,
    call: &Call,
    source: &Found,
    same_key: bool,
    another_sum: bool,
) -> Outcome<(ashlar_object::CopySeal, Shown)> {
    use ashlar_object::CopySeal;
    let asked = asked(&call.headers, call.tls)?;
    let asked = bucket::or_default(&*call.open()?, asked)?;
    let plain = |asked: &Asked| matches!(asked, Asked::Nothing);
    if plain(&asked) {
        return Ok((CopySeal::Plain, Shown(None)));
    }
    if let Some(old) = source.envelope().filter(|_| same_key && !another_sum) {
        match &asked {
            Asked::S3 if old.kind == Kind::S3 => {
                return Ok((CopySeal::Kept, Shown(Some((old.clone(), None)))));
            }
            Asked::Kms { key_id, context, .. } if old.kind == Kind::Kms => {
                let name = match key_id {
                    Some(name) => name.as_str(),
                    None => cx.encryption.keys()?.default_key(),
                };
                if name == old.key_id && *context == old.context {
                    return Ok((CopySeal::Kept, Shown(Some((old.clone(), None)))));
                }
            }
            Asked::Customer(customer) if old.kind == Kind::Customer => {
                if let Some(text) = rewrapped(call, source, customer)? {
                    let envelope = Envelope::customer(text);
                    let shown = Shown(Some((envelope.clone(), Some(customer.md5.clone()))));
                    return Ok((CopySeal::Envelope(envelope.text()), shown));
                }
            }
            _ => {}
        }
    }
    let made = make(cx, call.open()?.id, &call.key, asked).await?;
    let shown = Shown(Some((made.envelope, made.customer_md5)));
    Ok((CopySeal::Fresh(made.seal), shown))
}

/// The same content key under another key of the customer's.
fn rewrapped(call: &Call, source: &Found, to: &CustomerKey) -> Outcome<Option<Vec<u8>>> {
    let Some(key) = &source.key else { return Ok(None) };
    let id = call.open()?.id;
    let plain = Secret::new(*key.expose());
    Ok(Some(ashlar_kms::seal(&to.key, &plain, &context(id, &call.key, ""))))
}

/// The headers of an answer.
pub struct Shown(Option<(Envelope, Option<String>)>);

impl Shown {
    /// Adds them to an answer.
    pub fn show(&self, answer: &mut Answer) {
        if let Some((envelope, md5)) = &self.0 {
            show(answer, envelope, md5.as_deref());
        }
    }
}
