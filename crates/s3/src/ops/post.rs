//! POST of a form: an upload from a browser, allowed by a signed policy.

use ashlar_object::feed::Kind;
use ashlar_object::{MAX_PUT, PutSpec, VersionSpec};
use ashlar_policy::Action;
use bytes::{Bytes, BytesMut};
use http::StatusCode;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};

use super::new_object::DEFAULT_CHECKSUM;
use super::{Answer, Context, RequestOrigin, STORAGE_CLASS, fault};
use crate::audit_context::AuditContext;
use crate::auth::{Scheme, Verifier};
use crate::buckets::Buckets;
use crate::document_cache::Origin;
use crate::fault::{Code, Fault, Outcome};
use crate::form::{Fields, Form};
use crate::headers::{self, DeclaredChecksums};
use crate::permit::{Asker, Need};
use crate::policy::Policy;
use crate::sse::{self, Allowed};
use crate::target::{Query, check_key};
use crate::xml::{Xml, url_encode};

/// Files up to this size are held, so that their size is known whatever follows them.
const HELD: usize = 64 * 1024;

/// Where a form came from.
pub(crate) struct From<'a> {
    pub origin: &'a Origin,
    /// The buckets that it is about.
    pub buckets: &'a Buckets,
    pub tls: bool,
    /// The Host header.
    pub host: &'a str,
    /// The id of the request.
    pub id: &'a str,
}

/// `PostObject`.
pub(crate) async fn post_object(
    cx: &Context,
    verifier: &Verifier,
    bucket: &str,
    from: From<'_>,
    form: &mut Form,
    audit_context: &mut AuditContext,
) -> Outcome<Answer> {
    let now = (cx.clock)().div_euclid(1000);
    let key = form.fields.get("key").unwrap_or_default();
    if key.is_empty() {
        return Err(Fault::with(
            Code::INVALID_ARGUMENT,
            "Bucket POST must contain a field named 'key'. If it is specified, please check the order of the fields.",
        )
        .element("ArgumentName", "key"));
    }
    let key = key.replace("${filename}", &form.file_name);
    check_key(&key)?;
    form.fields.set("key", key.clone());
    (audit_context.bucket, audit_context.key) = (bucket.to_owned(), key.clone());
    let AuditContext { verified, authz_decision, .. } = audit_context;
    let verified = &*verified.insert(verifier.verify_form(&form.fields, now)?);
    tracing::debug!(access_key = verified.access_key(), bucket, "form upload");
    let From { origin, buckets, tls, host, id } = from;
    let endpoint = &super::endpoint(tls, host);
    let unsigned = verified.scheme() == Scheme::Anonymous && form.fields.get("policy").is_none();
    let policy = match unsigned {
        true => None,
        false => Some(Policy::parse(form.fields.get("policy").unwrap_or_default())?),
    };
    if let Some(policy) = &policy {
        policy.check(&form.fields, bucket, now)?;
    }
    let request = as_headers(form)?;
    let tags = match form.fields.get("tagging") {
        Some(text) => super::tagging::parse_form(text),
        None => headers::tagging(&request).map(Option::unwrap_or_default),
    };
    let stored = tags.as_ref().ok();
    let query = &Query::default();
    let asker =
        Asker { verified, headers: &request, buckets, query, tls, origin, authz_decision, tags: stored };
    permit(cx, &asker, bucket, &key, form).await?;
    // Errors in the tags are reported only after that.
    let tags = tags?;
    sse::refuse(&request, &cx.owner_id, Allowed::All)?;
    super::extract::refuse(&request, "as a form")?;
    let class = headers::class(&request)?;
    let mut meta = headers::metadata(&request)?;
    if class != ashlar_object::Class::Standard {
        meta.push((STORAGE_CLASS.as_str().to_owned(), class.name().to_owned()));
    }
    let stated = DeclaredChecksums::read(&request)?;
    let (held, size) = measure(form).await?;
    if let Some(policy) = &policy {
        policy.check_size(size)?;
    }
    if size > MAX_PUT {
        return Err(Fault::new(Code::ENTITY_TOO_LARGE).closing());
    }
    let named = buckets.named(bucket);
    let made = sse::for_new(cx, named, &key, &request, tls).await?;
    let spec = PutSpec {
        size,
        checksum: Some(stated.algorithm().unwrap_or(DEFAULT_CHECKSUM)),
        want_md5: made.as_ref().is_none_or(|m| m.seal.md5),
        class,
    };
    let of_store = |e| fault(e, bucket, &key);
    let open = named.open()?;
    let store =
        RequestOrigin { verified, headers: &request, origin, tls, host, id }.store(cx, &open, Kind::Post);
    let seal = made.as_ref().map(|m| m.seal.clone());
    let mut put = store.put_sealed(&open, &key, spec, seal).await.map_err(of_store)?;
    if !held.is_empty() {
        put.write(held).await.map_err(of_store)?;
    }
    while let Some(data) = form.next().await? {
        put.write(data).await.map_err(of_store)?;
    }
    let sums = put.end().await.map_err(of_store)?;
    form.finish().await?;
    check_sum(stated, sums.checksum.as_ref())?;
    let of_bucket = super::new_object::of_bucket(cx, named, verified.identity(), &request)?;
    let spec = VersionSpec { meta, tags, ..of_bucket };
    let rules = super::lifecycle::rules(&open, origin).map(|rules| (rules, spec.tags.clone()));
    let committed = put.commit(spec, &ashlar_object::Conditions::NONE).await.map_err(of_store)?;
    let mut answer = success(&form.fields, bucket, &key, endpoint, &committed.etag.to_string())?;
    answer.committed(&committed);
    if let Some((rules, tags)) = rules {
        super::lifecycle::tell(&rules, &key, (committed.modified_ms, committed.size), &tags, &mut answer);
    }
    if let Some(made) = &made {
        made.show(&mut answer);
    }
    Ok(answer)
}

/// The form's policy limits the upload. The permissions of its signer are checked too.
async fn permit(cx: &Context, asker: &Asker<'_>, bucket: &str, key: &str, form: &Form) -> Outcome<()> {
    let mut actions = vec![Action::PutObject];
    if form.fields.get("tagging").is_some() {
        actions.push(Action::PutObjectTagging);
    }
    actions.extend(crate::permit::carried(asker.headers));
    for action in actions {
        if !asker.may(cx, &Need { action, bucket, key, version: None }).await {
            return Err(Fault::new(Code::ACCESS_DENIED));
        }
    }
    asker.verified.identity().used((cx.clock)());
    Ok(())
}

fn check_sum(stated: DeclaredChecksums, computed: Option<&ashlar_checksum::Digest>) -> Outcome<()> {
    match stated {
        DeclaredChecksums::Nothing => Ok(()),
        DeclaredChecksums::Value(digest) if computed == Some(&digest) => Ok(()),
        DeclaredChecksums::Value(digest) => Err(Fault::with(
            Code::BAD_DIGEST,
            format!("The {} you specified did not match the calculated checksum.", digest.algorithm()),
        )),
        DeclaredChecksums::Trailer(_) => Err(Fault::new(Code::MALFORMED_TRAILER)),
    }
}

/// The size of the file: measured when it is small, else from the length of the body.
async fn measure(form: &mut Form) -> Outcome<(Bytes, u64)> {
    let mut held = BytesMut::new();
    while held.len() <= HELD {
        match form.next().await? {
            Some(data) => held.extend_from_slice(&data),
            None => {
                let size = held.len() as u64;
                return Ok((held.freeze(), size));
            }
        }
    }
    Ok((held.freeze(), form.expected))
}

/// The fields that stand for headers, as headers.
fn as_headers(form: &Form) -> Outcome<HeaderMap> {
    let mut out = HeaderMap::new();
    for (name, value) in form.fields.iter() {
        let name = match name {
            "acl" => "x-amz-acl",
            n if n.starts_with("x-amz-") || headers::KEPT.contains(&n) => n,
            _ => continue,
        };
        let name = HeaderName::from_bytes(name.as_bytes()).map_err(|_| Fault::new(Code::MALFORMED_POST))?;
        let value = HeaderValue::from_bytes(value.as_bytes()).map_err(|_| {
            Fault::with(Code::INVALID_ARGUMENT, format!("The form field {name} is not a legal header value."))
        })?;
        out.insert(name, value);
    }
    Ok(out)
}

fn success(fields: &Fields, bucket: &str, key: &str, endpoint: &str, etag: &str) -> Outcome<Answer> {
    let location = format!("{endpoint}/{bucket}/{}", url_encode(key));
    let redirect = fields.get("success_action_redirect").or_else(|| fields.get("redirect"));
    if let Some(url) = redirect.filter(|u| u.starts_with("http://") || u.starts_with("https://")) {
        let separator = if url.contains('?') { '&' } else { '?' };
        let encode = |text: &str| {
            let mut out = Vec::new();
            crate::target::canonical_encode(&mut out, text, false);
            String::from_utf8(out).unwrap_or_default()
        };
        let target =
            format!("{url}{separator}bucket={}&key={}&etag=%22{etag}%22", encode(bucket), encode(key));
        let mut answer = Answer::new(StatusCode::SEE_OTHER);
        answer.set(header::LOCATION, target);
        return Ok(answer);
    }
    let mut answer = match fields.get("success_action_status") {
        Some("200") => Answer::ok(),
        Some("201") => {
            let mut xml = Xml::new();
            xml.open("PostResponse")
                .leaf("Location", &location)
                .leaf("Bucket", bucket)
                .leaf("Key", key)
                .etag(etag)
                .close();
            let mut answer = Answer::document(xml);
            answer.status = StatusCode::CREATED;
            answer
        }
        _ => Answer::no_content(),
    };
    answer.set(header::LOCATION, location);
    Ok(answer)
}
