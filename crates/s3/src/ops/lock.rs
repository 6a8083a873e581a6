//! Object lock: a bucket's default, retention and legal hold of versions, in headers and documents.
//!
//! The default is stored as text in the bucket's document [`DEFAULT`]: `GOVERNANCE DAYS 30`; a golden test
//! below fixes it. Invariants: while a default cannot be read, nothing can be written (a lock fails closed);
//! a requested retention must be in the future; GOVERNANCE can be bypassed only by a request with both the
//! header and the permission.
//!
//! Must not depend on: how locks are stored.

use ashlar_object::feed::Kind;
use ashlar_object::{Bucket, Object, Retention};
use ashlar_policy::Action;
use http::HeaderMap;
use http::header::{HeaderName, HeaderValue};

use super::{Answer, Call, Context, limit};
use crate::date;
use crate::fault::{Code, Fault, Outcome};
use crate::headers::{self, refuse_unsupported};
use crate::permit::Need;
use crate::xml::{Doc, Xml};

/// The bucket's document that holds the default retention.
pub const DEFAULT: &str = "object-lock";
const MODE: &str = "x-amz-object-lock-mode";
const UNTIL: &str = "x-amz-object-lock-retain-until-date";
const HOLD: &str = "x-amz-object-lock-legal-hold";
/// The headers that lock a new object.
pub const HEADERS: [&str; 3] = [MODE, UNTIL, HOLD];
const DAY_MS: i64 = 86_400_000;
/// Longest default (AWS: 100 years).
const MAX_DAYS: i64 = 36_500;

/// A default retention: COMPLIANCE or GOVERNANCE, and how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Rule {
    compliance: bool,
    years: bool,
    number: i64,
}

impl Rule {
    fn text(self) -> String {
        format!(
            "{} {} {}",
            mode_name(self.compliance),
            if self.years { "YEARS" } else { "DAYS" },
            self.number
        )
    }

    fn parse(text: &str) -> Option<Rule> {
        let mut words = text.split(' ');
        let compliance = mode(words.next()?)?;
        let years = match words.next()? {
            "DAYS" => false,
            "YEARS" => true,
            _ => return None,
        };
        let number = words.next()?.parse().ok()?;
        let rule = Rule { compliance, years, number };
        (words.next().is_none() && rule.is_legal()).then_some(rule)
    }

    fn days(self) -> i64 {
        if self.years { self.number.saturating_mul(365) } else { self.number }
    }

    fn is_legal(self) -> bool {
        (1..=MAX_DAYS).contains(&self.days())
    }
}

/// For the fuzzer: documents, and the kept text of a default.
pub(crate) fn fuzzed(bytes: &[u8]) {
    let _ = parse_retention(bytes);
    let kept = std::str::from_utf8(bytes).ok().and_then(Rule::parse);
    for rule in parse_configuration(bytes).ok().flatten().into_iter().chain(kept) {
        assert_eq!(Rule::parse(&rule.text()), Some(rule), "a default retention that is not itself");
    }
}

fn mode(name: &str) -> Option<bool> {
    match name {
        "COMPLIANCE" => Some(true),
        "GOVERNANCE" => Some(false),
        _ => None,
    }
}

fn mode_name(compliance: bool) -> &'static str {
    if compliance { "COMPLIANCE" } else { "GOVERNANCE" }
}

fn missing_lock() -> Fault {
    Fault::with(Code::INVALID_REQUEST, "Bucket is missing Object Lock Configuration")
}

/// Retention from a mode and a date in words.
fn retention(cx: &Context, mode_text: &str, until: &str) -> Outcome<Retention> {
    let compliance = mode(mode_text).ok_or_else(|| {
        Fault::argument(MODE, &mode_text.chars().take(64).collect::<String>(), "Unknown wormMode directive.")
    })?;
    let until_ms = date::parse_iso(until).map(|s| s.saturating_mul(1000)).ok_or_else(|| {
        let text: String = until.chars().take(64).collect();
        Fault::argument(UNTIL, &text, "The retain until date must be provided in ISO 8601 format")
    })?;
    if until_ms <= (cx.clock)() {
        return Err(Fault::argument(UNTIL, until, "The retain until date must be in the future!"));
    }
    Ok(Retention { compliance, until_ms })
}

/// What the headers ask for.
fn asked(cx: &Context, request: &HeaderMap) -> Outcome<(Option<Retention>, Option<bool>)> {
    let text = |name: &'static str| headers::ascii(request, name).filter(|v| !v.is_empty());
    let retention = match (text(MODE), text(UNTIL)) {
        (None, None) => None,
        (Some(mode), Some(until)) => Some(retention(cx, mode, until)?),
        _ => {
            return Err(Fault::with(
                Code::INVALID_ARGUMENT,
                "x-amz-object-lock-retain-until-date and x-amz-object-lock-mode must both be supplied",
            ));
        }
    };
    let hold = text(HOLD).map(on_or_off).transpose()?;
    Ok((retention, hold))
}

fn on_or_off(text: &str) -> Outcome<bool> {
    match text {
        "ON" => Ok(true),
        "OFF" => Ok(false),
        other => {
            let text: String = other.chars().take(64).collect();
            Err(Fault::argument(HOLD, &text, "Legal Hold must be either of 'ON' or 'OFF'"))
        }
    }
}

/// Retention and legal hold of a new object: what the headers ask for, or the bucket's default.
///
/// # Errors
/// The headers are wrong, the bucket has no object lock, or its default cannot be read.
pub fn for_new_object(
    cx: &Context,
    bucket: &Bucket,
    request: &HeaderMap,
) -> Outcome<(Option<Retention>, bool)> {
    let (retention, hold) = asked(cx, request)?;
    if !bucket.object_lock {
        return match (retention, hold) {
            (None, None) => Ok((None, false)),
            _ => Err(missing_lock()),
        };
    }
    let retention = match retention {
        Some(asked) => Some(asked),
        None => default(bucket)?.map(|rule| Retention {
            compliance: rule.compliance,
            until_ms: (cx.clock)().saturating_add(rule.days().saturating_mul(DAY_MS)),
        }),
    };
    Ok((retention, hold.unwrap_or(false)))
}

fn default(bucket: &Bucket) -> Outcome<Option<Rule>> {
    let Some(text) = bucket.documents.get(DEFAULT) else { return Ok(None) };
    let rule = Rule::parse(text).ok_or_else(|| {
        tracing::error!(bucket = bucket.name, "the default retention cannot be read; nothing is written");
        Fault::internal("the bucket's default retention cannot be read")
    })?;
    Ok(Some(rule))
}

/// `GetObjectLockConfiguration`.
pub fn get_configuration(cx: &Context, call: &mut Call) -> Outcome<Answer> {
    refuse_unsupported(&call.headers, &cx.owner_id)?;
    let bucket = call.open()?;
    if !bucket.object_lock {
        return Err(Fault::new(Code::NO_LOCK_CONFIGURATION).element("BucketName", call.bucket.as_str()));
    }
    let mut xml = Xml::new();
    xml.root("ObjectLockConfiguration").leaf("ObjectLockEnabled", "Enabled");
    if let Some(rule) = default(&bucket)? {
        xml.open("Rule").open("DefaultRetention").leaf("Mode", mode_name(rule.compliance));
        xml.plain(if rule.years { "Years" } else { "Days" }, rule.number).close().close();
    }
    xml.close();
    Ok(Answer::document(xml))
}

/// `PutObjectLockConfiguration`. Switches object lock on in a bucket that keeps versions; never off.
pub async fn put_configuration(cx: &Context, call: &mut Call) -> Outcome<Answer> {
    refuse_unsupported(&call.headers, &cx.owner_id)?;
    let bucket = call.open()?;
    let body = call.document(limit::CONFIGURATION).await?;
    let rule = parse_configuration(&body)?;
    if !bucket.object_lock {
        cx.store.enable_object_lock(&bucket).await.map_err(|e| call.fault(e))?;
    }
    let text = rule.map(Rule::text);
    if text.is_some() || bucket.documents.contains_key(DEFAULT) {
        let set = cx.store.set_bucket_document(&bucket, DEFAULT, text.as_deref());
        set.await.map_err(|e| call.fault(e))?;
    }
    Ok(Answer::ok())
}

fn parse_configuration(body: &[u8]) -> Outcome<Option<Rule>> {
    let malformed = || Fault::new(Code::MALFORMED_XML);
    let mut doc = Doc::open(body, "ObjectLockConfiguration")?;
    let (mut enabled, mut rule) = (false, None);
    while let Some(name) = doc.child()? {
        match name.as_str() {
            "ObjectLockEnabled" => enabled = doc.text()? == "Enabled",
            "Rule" if rule.is_none() => {
                while let Some(name) = doc.child()? {
                    if name != "DefaultRetention" || rule.is_some() {
                        return doc.unexpected(&name);
                    }
                    rule = Some(default_retention(&mut doc)?);
                }
                rule.ok_or_else(malformed)?;
            }
            other => return doc.unexpected(other),
        }
    }
    doc.finish()?;
    if enabled { Ok(rule) } else { Err(malformed()) }
}

fn default_retention(doc: &mut Doc<'_>) -> Outcome<Rule> {
    let (mut compliance, mut length) = (None, None);
    while let Some(name) = doc.child()? {
        match name.as_str() {
            "Mode" => compliance = mode(&doc.text()?),
            "Days" if length.is_none() => length = Some((false, doc.parse("Days")?)),
            "Years" if length.is_none() => length = Some((true, doc.parse("Years")?)),
            other => return doc.unexpected(other),
        }
    }
    let (Some(compliance), Some((years, number))) = (compliance, length) else {
        return Err(Fault::new(Code::MALFORMED_XML));
    };
    let rule = Rule { compliance, years, number };
    if !rule.is_legal() {
        let text = "Default retention period must be a positive integer value, of 100 years at most";
        return Err(Fault::with(Code::INVALID_RETENTION_PERIOD, text));
    }
    Ok(rule)
}

/// Whether this request bypasses GOVERNANCE: it has the header, and the caller has the permission.
pub async fn bypasses(cx: &Context, call: &Call, key: &str, version: Option<&str>) -> bool {
    let said = headers::ascii(&call.headers, "x-amz-bypass-governance-retention");
    if !said.is_some_and(|v| v.eq_ignore_ascii_case("true")) {
        return false;
    }
    let action = Action::BypassGovernanceRetention;
    call.may(cx, &Need { action, bucket: &call.bucket, key, version }).await
}

/// Refuses unless allowed, with what the document asks for as facts, and nothing that headers say of locks.
async fn permitted(
    cx: &Context,
    call: &mut Call,
    action: Action,
    facts: &[(&'static str, &str)],
) -> Outcome<()> {
    for name in HEADERS {
        call.headers.remove(name);
    }
    for (name, value) in facts {
        let value = HeaderValue::from_str(value).map_err(|_| Fault::new(Code::MALFORMED_XML))?;
        call.headers.insert(*name, value);
    }
    let version = call.query.filled("versionId");
    call.permit(cx, &Need { action, bucket: &call.bucket, key: &call.key, version }).await
}

/// `PutObjectRetention`.
pub async fn put_retention(cx: &Context, call: &mut Call) -> Outcome<Answer> {
    call.permit_before_body(cx, Action::PutObjectRetention).await?;
    let body = call.document(limit::CONFIGURATION).await?;
    let (mode, until) = parse_retention(&body)?;
    let facts = [(MODE, mode.as_str()), (UNTIL, until.as_str())];
    let facts: Vec<_> = facts.into_iter().filter(|(_, text)| !text.is_empty()).collect();
    permitted(cx, call, Action::PutObjectRetention, &facts).await?;
    if !mode.is_empty() && self::mode(&mode).is_none() {
        return Err(Fault::new(Code::MALFORMED_XML));
    }
    refuse_unsupported(&call.headers, &cx.owner_id)?;
    let wanted = match (mode.is_empty(), until.is_empty()) {
        (true, true) => None,
        _ => Some(retention(cx, &mode, &until)?),
    };
    let version = call.version()?;
    let bypass = bypasses(cx, call, &call.key, call.query.filled("versionId")).await;
    let store = call.store(cx, Kind::RetentionPut);
    let bucket = call.open()?;
    let set = store.set_retention(&bucket, &call.key, version, wanted, bypass);
    let shown = set.await.map_err(|e| call.fault(e))?;
    let mut answer = Answer::ok();
    answer.version(shown);
    Ok(answer)
}

/// Mode and date; both empty for a document that takes a retention away.
fn parse_retention(body: &[u8]) -> Outcome<(String, String)> {
    let mut doc = Doc::open(body, "Retention")?;
    let (mut mode, mut until) = (String::new(), String::new());
    while let Some(name) = doc.child()? {
        match name.as_str() {
            "Mode" => mode = doc.text()?.trim().to_owned(),
            "RetainUntilDate" => until = doc.text()?.trim().to_owned(),
            other => return doc.unexpected(other),
        }
    }
    doc.finish()?;
    if mode.is_empty() != until.is_empty() {
        return Err(Fault::new(Code::MALFORMED_XML));
    }
    Ok((mode, until))
}

async fn version_of(cx: &Context, call: &Call) -> Outcome<Object> {
    refuse_unsupported(&call.headers, &cx.owner_id)?;
    let bucket = call.open()?;
    let version = call.version()?;
    let object = cx.store.get(&bucket, &call.key, version).await.map_err(|e| call.fault(e))?;
    if bucket.object_lock { Ok(object) } else { Err(missing_lock()) }
}

/// `GetObjectRetention`.
pub async fn get_retention(cx: &Context, call: &mut Call) -> Outcome<Answer> {
    let object = version_of(cx, call).await?;
    crate::notifications::accessed(cx, call, Kind::GetRetention, &object);
    let retention = object.version().retention.as_ref();
    let r = retention.ok_or_else(|| Fault::new(Code::NO_LOCK_OF_OBJECT))?;
    let mut xml = Xml::new();
    xml.root("Retention").leaf("Mode", mode_name(r.compliance));
    xml.plain("RetainUntilDate", date::format_iso(r.until_ms)).close();
    Ok(Answer::document(xml))
}

/// `PutObjectLegalHold`.
pub async fn put_legal_hold(cx: &Context, call: &mut Call) -> Outcome<Answer> {
    call.permit_before_body(cx, Action::PutObjectLegalHold).await?;
    let body = call.document(limit::CONFIGURATION).await?;
    let mut doc = Doc::open(&body, "LegalHold")?;
    let mut status = None;
    while let Some(name) = doc.child()? {
        if name != "Status" {
            return doc.unexpected(&name);
        }
        status = Some(doc.text()?.trim().to_owned());
    }
    doc.finish()?;
    let status = status.ok_or_else(|| Fault::new(Code::MALFORMED_XML))?;
    let on = on_or_off(&status).map_err(|_| Fault::new(Code::MALFORMED_XML))?;
    permitted(cx, call, Action::PutObjectLegalHold, &[(HOLD, status.as_str())]).await?;
    refuse_unsupported(&call.headers, &cx.owner_id)?;
    let version = call.version()?;
    let store = call.store(cx, Kind::LegalHoldPut);
    let bucket = call.open()?;
    let set = store.set_legal_hold(&bucket, &call.key, version, on);
    let shown = set.await.map_err(|e| call.fault(e))?;
    let mut answer = Answer::ok();
    answer.version(shown);
    Ok(answer)
}

/// `GetObjectLegalHold`. For a version that never had one the answer is OFF.
pub async fn get_legal_hold(cx: &Context, call: &mut Call) -> Outcome<Answer> {
    let object = version_of(cx, call).await?;
    crate::notifications::accessed(cx, call, Kind::GetLegalHold, &object);
    let mut xml = Xml::new();
    xml.root("LegalHold").leaf("Status", if object.version().legal_hold { "ON" } else { "OFF" }).close();
    Ok(Answer::document(xml))
}

/// Headers of an answer about locks, for callers with permission to see them.
pub async fn show(cx: &Context, call: &Call, object: &Object, answer: &mut Answer) {
    let v = object.version();
    if v.retention.is_none() && !v.legal_hold {
        return;
    }
    let version = call.query.filled("versionId");
    let need = |action| Need { action, bucket: &call.bucket, key: &call.key, version };
    if let Some(r) = &v.retention
        && call.may(cx, &need(Action::GetObjectRetention)).await
    {
        let name = HeaderName::from_static;
        answer.set(name(MODE), mode_name(r.compliance)).set(name(UNTIL), date::format_iso(r.until_ms));
    }
    if v.legal_hold && call.may(cx, &need(Action::GetObjectLegalHold)).await {
        answer.set(HeaderName::from_static(HOLD), "ON");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stored_lock_defaults_are_golden() {
        for (text, rule) in [
            ("GOVERNANCE DAYS 30", Rule { compliance: false, years: false, number: 30 }),
            ("COMPLIANCE YEARS 7", Rule { compliance: true, years: true, number: 7 }),
        ] {
            assert_eq!(rule.text(), text);
            assert_eq!(Rule::parse(text), Some(rule));
        }
        for bad in [
            "",
            "GOVERNANCE DAYS",
            "GOVERNANCE DAYS 0",
            "GOVERNANCE DAYS 1 ",
            "X DAYS 1",
            "COMPLIANCE YEARS 101",
        ] {
            assert_eq!(Rule::parse(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn lock_documents_are_read_and_printed() {
        let of = |inner: &str| {
            let text = format!("<ObjectLockConfiguration>{inner}</ObjectLockConfiguration>");
            parse_configuration(text.as_bytes()).map_err(|f| f.code().name)
        };
        let enabled = "<ObjectLockEnabled>Enabled</ObjectLockEnabled>";
        let rule =
            |inner: &str| of(&format!("{enabled}<Rule><DefaultRetention>{inner}</DefaultRetention></Rule>"));
        assert_eq!(of(enabled), Ok(None));
        assert!(rule("<Mode>GOVERNANCE</Mode><Days>1</Days>").unwrap().is_some());
        assert_eq!(rule("<Mode>GOVERNANCE</Mode><Days>0</Days>"), Err("InvalidRetentionPeriod"));
        for bad in ["", "<Mode>GOVERNANCE</Mode>", "<Days>1</Days>", "<Mode>X</Mode><Days>1</Days>"] {
            assert_eq!(rule(bad), Err("MalformedXML"), "{bad}");
        }
        assert_eq!(rule("<Mode>GOVERNANCE</Mode><Days>1</Days><Years>1</Years>"), Err("MalformedXML"));
        assert_eq!(of(""), Err("MalformedXML"));
        assert_eq!(of(&format!("{enabled}<Rule/>")), Err("MalformedXML"));
    }
}
