//! GET and HEAD of an object.

use std::collections::VecDeque;
use std::ops::Range;

use ashlar_object::feed::Kind;
use ashlar_object::{Conditions, Error, Match, Object, ObjectBody, Verdict, conditions};
use bytes::Bytes;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::{Method, StatusCode};

use super::{Answer, Call, Context, STORAGE_CLASS};
use crate::body::{Body, Broken, Pieces};
use crate::date;
use crate::fault::{Code, Fault, Outcome};
use crate::headers::{self, Ranged, encode_value};
use crate::notifications;
use crate::sse::{self, Allowed, Found};

const PARTS_COUNT: HeaderName = HeaderName::from_static("x-amz-mp-parts-count");
const TAGGING_COUNT: HeaderName = HeaderName::from_static("x-amz-tagging-count");

/// Query parameters that replace headers of the answer; they are always signed, because every
/// request is.
const OVERRIDES: [(&str, HeaderName); 6] = [
    ("response-cache-control", header::CACHE_CONTROL),
    ("response-content-disposition", header::CONTENT_DISPOSITION),
    ("response-content-encoding", header::CONTENT_ENCODING),
    ("response-content-language", header::CONTENT_LANGUAGE),
    ("response-content-type", header::CONTENT_TYPE),
    ("response-expires", header::EXPIRES),
];

/// What part of the object is asked for.
struct Selection {
    range: Range<u64>,
    partial: bool,
    part: Option<u16>,
}

/// Objects and ranges up to this size are read before the head is sent, so that head and body
/// leave in one write.
const EAGER: u64 = 256 * 1024;
/// How often a version may be replaced between finding and opening it before we give up.
pub const CHANGES: usize = 8;

/// `GetObject` and `HeadObject`.
pub async fn get_object(cx: &Context, call: &mut Call) -> Outcome<Answer> {
    sse::refuse(&call.headers, &cx.owner_id, Allowed::Customer)?;
    let wanted = headers::conditions(&call.headers, "")?;
    let version = call.version()?;
    let expected = expected_range(call, &wanted);
    for _ in 0..CHANGES {
        let bucket = call.open()?;
        let found = match &expected {
            Some(range) => cx.store.get_to_read(&bucket, &call.key, version, range).await,
            None => cx.store.get(&bucket, &call.key, version).await,
        };
        let mut object = found.map_err(|e| call.fault(e))?;
        let needed = call.method == Method::GET || wants_checksum(call);
        let found = Found::of(cx, call, &mut object, needed).await?;
        if let Some(mut answer) = read(call, &wanted, &object, &found).await? {
            found.show(&mut answer);
            super::lock::show(cx, call, &object, &mut answer).await;
            super::lifecycle::show(call, &object, &mut answer);
            if answer.status.is_success() {
                let kind = if call.method == Method::HEAD { Kind::Head } else { Kind::Get };
                notifications::accessed(cx, call, kind, &object);
            }
            return Ok(answer);
        }
    }
    Err(Fault::new(Code::SLOW_DOWN))
}

/// What a `GetObject` will read of a version. `None`: nothing, or it depends on more than the size of the version.
fn expected_range(
    call: &Call,
    wanted: &Conditions,
) -> Option<impl Fn(u64) -> Option<Range<u64>> + Send + Sync + use<>> {
    let depends = !wanted.is_empty() || call.query.get("partNumber").is_some();
    if call.method != Method::GET || depends || call.headers.contains_key(header::IF_RANGE) {
        return None;
    }
    let range = call.headers.get(header::RANGE).and_then(|text| text.to_str().ok()).map(str::to_owned);
    Some(move |size| match range.as_deref().map(|text| headers::range(text, size)) {
        None | Some(Ranged::Whole) => Some(0..size),
        Some(Ranged::Part(range)) => Some(range),
        Some(Ranged::Unsatisfiable) => None,
    })
}

/// Answers with the version found; `None` when it was replaced meanwhile.
async fn read(call: &Call, wanted: &Conditions, object: &Object, found: &Found) -> Outcome<Option<Answer>> {
    let modified_ms = object.version().modified_ms;
    match conditions::evaluate(wanted, Some((&object.etag(), modified_ms)), true) {
        Verdict::Proceed => {}
        Verdict::NotModified => return Ok(Some(not_modified(object))),
        Verdict::Failed | Verdict::Absent => {
            let condition = if wanted.if_match.is_some() { "If-Match" } else { "If-Unmodified-Since" };
            return Err(Fault::new(Code::PRECONDITION_FAILED).element("Condition", condition));
        }
    }
    let selection = select(call, object)?;
    let mut answer = head(call, object, &selection)?;
    if call.method == Method::HEAD || selection.range.is_empty() {
        return Ok(Some(answer));
    }
    let length = selection.range.end - selection.range.start;
    let mut pieces = match object.read_with(selection.range, found.key.as_ref()).await {
        Ok(pieces) => pieces,
        Err(Error::Changed) => return Ok(None),
        Err(error) => return Err(call.fault(error)),
    };
    // The first piece is read before the head is sent, so that a failing read has its own status.
    let mut ready = VecDeque::with_capacity(4);
    let mut got = 0;
    // All of them, or the first: what is held for a slow client is little while there are many of those.
    let eager = length <= EAGER && !pieces.is_crowded();
    while got == 0 || (got < length && eager) {
        match pieces.next().await {
            Some(Ok(piece)) => {
                got += piece.len() as u64;
                ready.push_back(piece);
            }
            Some(Err(Error::Changed)) => return Ok(None),
            Some(Err(error)) => return Err(call.fault(error)),
            None => return Err(Fault::internal("a read gave too few bytes")),
        }
    }
    answer.body = if got == length {
        Body::many(ready)
    } else {
        Body::pieces(ready.pop_front().unwrap_or_default(), ObjectPieces(pieces), length)
    };
    Ok(Some(answer))
}

/// The bytes of an object as those of an answer.
struct ObjectPieces(ObjectBody);

impl Pieces for ObjectPieces {
    async fn next(&mut self) -> Option<Result<Bytes, Broken>> {
        Some(self.0.next().await?.map_err(|error| {
            tracing::warn!(%error, "an object could not be read to its end");
            Broken(error.to_string())
        }))
    }
}

fn select(call: &Call, object: &Object) -> Outcome<Selection> {
    let size = object.size();
    let range = call.headers.get(header::RANGE);
    if let Some(text) = call.query.get("partNumber") {
        if range.is_some() {
            return Err(Fault::with(
                Code::INVALID_REQUEST,
                "Cannot specify both Range header and partNumber query parameter",
            ));
        }
        let number =
            text.parse().ok().filter(|n| (1..=ashlar_object::MAX_PARTS).contains(n)).ok_or_else(|| {
                Fault::argument(
                    "partNumber",
                    text,
                    "Part number must be an integer between 1 and 10000, inclusive",
                )
            })?;
        let range = object.part_range(number).ok_or_else(|| {
            Fault::new(Code::INVALID_PART_NUMBER)
                .element("ActualPartCount", object.version().parts_count.max(1).to_string())
                .element("PartNumberRequested", number.to_string())
        })?;
        let partial = size > 0;
        return Ok(Selection { range, partial, part: Some(number) });
    }
    let whole = Selection { range: 0..size, partial: false, part: None };
    let Some(range) = range else { return Ok(whole) };
    if !if_range_holds(&call.headers, object) {
        return Ok(whole);
    }
    let Ok(text) = range.to_str() else { return Ok(whole) };
    match headers::range(text, size) {
        Ranged::Whole => Ok(whole),
        Ranged::Part(range) => Ok(Selection { range, partial: true, part: None }),
        Ranged::Unsatisfiable => {
            let total = HeaderValue::from_str(&format!("bytes */{size}"));
            let fault = Fault::new(Code::INVALID_RANGE)
                .element("RangeRequested", text)
                .element("ActualObjectSize", size.to_string());
            Err(match total {
                Ok(value) => fault.header(header::CONTENT_RANGE, value),
                Err(_) => fault,
            })
        }
    }
}

/// `If-Range`: a range counts only while the object is the one the client has part of.
fn if_range_holds(headers: &HeaderMap, object: &Object) -> bool {
    let Some(value) = headers::ascii(headers, "if-range") else { return true };
    if let Some(at) = date::parse_http(value) {
        return object.version().modified_ms.div_euclid(1000) == at;
    }
    Match::parse(value).is_some_and(|m| m.holds(&object.etag(), true))
}

/// The head of a 200 or 206.
fn head(call: &Call, object: &Object, selection: &Selection) -> Outcome<Answer> {
    let version = object.version();
    let mut answer =
        Answer::new(if selection.partial { StatusCode::PARTIAL_CONTENT } else { StatusCode::OK });
    validators(&mut answer, object);
    let length = selection.range.end - selection.range.start;
    answer.headers.insert(header::ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    answer.headers.insert(header::CONTENT_LENGTH, HeaderValue::from(length));
    if selection.partial {
        answer.set(
            header::CONTENT_RANGE,
            format!("bytes {}-{}/{}", selection.range.start, selection.range.end - 1, object.size()),
        );
    }
    stored_headers(&mut answer, &version.meta);
    if selection.part.is_some() && version.parts_count > 0 {
        answer.set(PARTS_COUNT, version.parts_count.to_string());
    }
    if !version.tags.is_empty() {
        answer.set(TAGGING_COUNT, version.tags.len().to_string());
    }
    if wants_checksum(call) {
        checksum(&mut answer, object, selection);
    }
    if !call.query.is_empty() {
        overrides(call, &mut answer)?;
    }
    Ok(answer)
}

/// Whether the checksum is to be shown.
fn wants_checksum(call: &Call) -> bool {
    headers::ascii(&call.headers, "x-amz-checksum-mode").is_some_and(|m| m.eq_ignore_ascii_case("ENABLED"))
}

fn validators(answer: &mut Answer, object: &Object) {
    answer.etag(object.etag());
    answer.set(header::LAST_MODIFIED, date::format_http(object.version().modified_ms.div_euclid(1000)));
    answer.version(object.version_id());
}

/// Metadata as headers.
fn stored_headers(answer: &mut Answer, meta: &[(String, String)]) {
    answer.headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(headers::DEFAULT_TYPE));
    for (name, value) in meta {
        if name == STORAGE_CLASS.as_str() && value == "STANDARD" {
            continue;
        }
        // Only what belongs outside: the record may hold more than headers one day.
        let ours = name.starts_with("x-amz-meta-")
            || name == STORAGE_CLASS.as_str()
            || headers::KEPT.contains(&name.as_str());
        if !ours {
            continue;
        }
        if let (Ok(name), Some(value)) = (HeaderName::from_bytes(name.as_bytes()), encode_value(value)) {
            answer.headers.insert(name, value);
        }
    }
}

/// The checksum of what is sent: of the whole, or of the one part asked for.
fn checksum(answer: &mut Answer, object: &Object, selection: &Selection) {
    let version = object.version();
    match selection.part {
        Some(number) if version.parts_count > 0 => {
            let part = version.parts.get(usize::from(number) - 1);
            answer.checksum(part.and_then(|p| p.checksum.as_ref()), 0);
        }
        Some(_) => {
            answer.checksum(version.checksum.as_ref(), version.parts_count);
        }
        None if !selection.partial => {
            answer.checksum(version.checksum.as_ref(), version.parts_count);
        }
        None => {}
    }
}

fn overrides(call: &Call, answer: &mut Answer) -> Outcome<()> {
    for (name, header) in OVERRIDES {
        let Some(value) = call.query.get(name) else { continue };
        // Neither CR nor LF nor anything else that could end the header gets through.
        let value = encode_value(value).ok_or_else(|| {
            Fault::argument("response-*", value, format!("{name} is not a legal header value."))
        })?;
        answer.headers.insert(header, value);
    }
    Ok(())
}

/// 304: the headers that a cache needs, and no body.
fn not_modified(object: &Object) -> Answer {
    let mut answer = Answer::new(StatusCode::NOT_MODIFIED);
    validators(&mut answer, object);
    for (name, value) in &object.version().meta {
        if matches!(name.as_str(), "cache-control" | "expires")
            && let (Ok(name), Some(value)) = (HeaderName::from_bytes(name.as_bytes()), encode_value(value))
        {
            answer.headers.insert(name, value);
        }
    }
    answer
}
