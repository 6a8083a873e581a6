//! The website endpoint: BUCKET.DOMAIN for a configured domain serves browsers, not S3 clients.
//!
//! All requests are anonymous here: a website shows what the bucket's policy lets anonymous requests read.
//! Invariants: only GET and HEAD are allowed; credentials in a request are ignored; errors are HTML; no part
//! of a request gets into a header or a document unescaped.
//!
//! Must not depend on: how objects are read.

use std::sync::Arc;

use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::request::Parts;
use http::{Method, StatusCode};

use crate::admit::Head;
use crate::body::Body;
use crate::fault::{Code, Fault, Outcome};
use crate::operation::Operation;
use crate::ops::{self, Answer};
use crate::request_body::Source;
use crate::service::{Arrival, Seen, Service};
use crate::target::Target;
use crate::website::{Redirect, Website};

const REDIRECT: HeaderName = HeaderName::from_static("x-amz-website-redirect-location");
const ERROR_CODE: HeaderName = HeaderName::from_static("x-amz-error-code");
const ERROR_MESSAGE: HeaderName = HeaderName::from_static("x-amz-error-message");
const HTML: HeaderValue = HeaderValue::from_static("text/html; charset=utf-8");
/// What of a request counts here.
const TAKEN: [HeaderName; 7] = [
    header::HOST,
    header::RANGE,
    header::IF_RANGE,
    header::IF_MATCH,
    header::IF_NONE_MATCH,
    header::IF_MODIFIED_SINCE,
    header::IF_UNMODIFIED_SINCE,
];

impl Service {
    /// The bucket whose website a Host header names.
    pub fn website_of<'h>(&self, headers: &'h HeaderMap) -> Option<&'h str> {
        if self.websites.is_empty() {
            return None;
        }
        let host = headers.get(header::HOST).and_then(|h| h.to_str().ok())?;
        crate::admit::below(&self.websites, host)
    }

    /// Answers a browser.
    pub(crate) async fn host(
        &self,
        bucket: &str,
        parts: &Parts,
        arrival: &Arrival<'_>,
        seen: &mut Seen,
        id: &str,
    ) -> Answer {
        seen.op = Operation::WebsiteRequest;
        let shown = self.show(bucket, parts, arrival, seen, id).await;
        shown.unwrap_or_else(|fault| {
            seen.error = fault.code().name;
            self.page(&fault, &parts.method, id)
        })
    }

    async fn show(
        &self,
        bucket: &str,
        parts: &Parts,
        arrival: &Arrival<'_>,
        seen: &mut Seen,
        id: &str,
    ) -> Outcome<Answer> {
        if !matches!(parts.method, Method::GET | Method::HEAD) {
            return Err(Fault::new(Code::METHOD_NOT_ALLOWED).element("Method", parts.method.as_str()));
        }
        let target = Target::parse(parts.uri.path(), None, Some(bucket))?;
        let path = target.path[1..].to_owned();
        let found = seen.buckets.named(bucket).open()?;
        let site = self
            .document_cache
            .features
            .website
            .of(&found)
            .ok_or_else(|| Fault::new(Code::NO_SUCH_WEBSITE).element("BucketName", bucket))?;
        let host = parts.headers.get(header::HOST).and_then(|h| h.to_str().ok()).unwrap_or_default();
        if let Some(redirect) = site.redirect(&path, None, arrival.tls, host) {
            return Ok(moved(&redirect));
        }
        let key = site.key(&path);
        let fault = match self.fetch(bucket, &key, parts, arrival, seen, id).await {
            Ok(answer) => return Ok(answer),
            Err(fault) => fault,
        };
        let status = fault.status().as_u16();
        if !path.is_empty() && !path.ends_with('/') && matches!(status, 403 | 404) {
            let folder = site.key(&format!("{path}/"));
            let mut head = parts.clone();
            head.method = Method::HEAD;
            if self.fetch(bucket, &folder, &head, arrival, seen, id).await.is_ok() {
                let location = format!("/{}/", crate::xml::url_encode(&path));
                return Ok(moved(&Redirect { status: 302, location }));
            }
        }
        if let Some(redirect) = site.redirect(&path, Some(status), arrival.tls, host) {
            return Ok(moved(&redirect));
        }
        self.error_document(bucket, &site, parts, arrival, seen, id).await.map_or(Err(fault), |mut answer| {
            answer.status = StatusCode::from_u16(status).unwrap_or(StatusCode::NOT_FOUND);
            Ok(answer)
        })
    }

    async fn error_document(
        &self,
        bucket: &str,
        site: &Arc<Website>,
        parts: &Parts,
        arrival: &Arrival<'_>,
        seen: &mut Seen,
        id: &str,
    ) -> Option<Answer> {
        let key = site.error.as_deref()?;
        let mut whole = parts.clone();
        // What was asked of the page that is missing is not asked of this one.
        whole.headers.retain_host();
        self.fetch(bucket, key, &whole, arrival, seen, id).await.ok()
    }

    /// Reads an object anonymously.
    async fn fetch(
        &self,
        bucket: &str,
        key: &str,
        parts: &Parts,
        arrival: &Arrival<'_>,
        seen: &mut Seen,
        id: &str,
    ) -> Outcome<Answer> {
        crate::target::check_key(key)?;
        let mut own = parts.clone();
        own.headers = HeaderMap::new();
        for name in TAKEN {
            if let Some(value) = parts.headers.get(&name) {
                own.headers.insert(name, value.clone());
            }
        }
        let target = Target {
            path: format!("/{key}"),
            bucket: Some(bucket.to_owned()),
            key: (!key.is_empty()).then(|| key.to_owned()),
            ..Target::default()
        };
        if target.key.is_none() {
            return Err(Fault::new(Code::NO_SUCH_KEY).element("Key", key));
        }
        let head = Head { target, host: String::new() };
        let nothing = Source::memory(bytes::Bytes::new());
        let (mut call, op) =
            self.admit(&mut own, nothing, head, arrival, seen, id).map_err(|(fault, _)| fault)?;
        seen.op = Operation::WebsiteRequest;
        let outcome = match call.permit_all(&self.context, op).await {
            Ok(()) => ops::run(&self.context, op, &mut call).await,
            Err(fault) => Err(fault),
        };
        let outcome = match outcome {
            Err(fault) => Err(call.hide(&self.context, fault).await),
            outcome => outcome,
        };
        seen.took(call);
        let mut answer = outcome?;
        if let Some(to) = answer.headers.remove(REDIRECT) {
            answer = Answer::new(StatusCode::MOVED_PERMANENTLY);
            answer.headers.insert(header::LOCATION, to);
        }
        Ok(answer)
    }

    /// An error as a page, in AWS's form.
    fn page(&self, fault: &Fault, method: &Method, id: &str) -> Answer {
        let status = fault.status();
        let title = format!("{} {}", status.as_u16(), status.canonical_reason().unwrap_or_default());
        let mut answer = Answer::new(status);
        answer.headers.extend(fault.headers().clone());
        answer.headers.insert(header::CONTENT_TYPE, HTML);
        answer.set(ERROR_CODE, fault.code().name).set(ERROR_MESSAGE, fault.message());
        if method != Method::HEAD {
            let item = |name: &str, value: &str| format!("<li>{}: {}</li>\n", html(name), html(value));
            let mut list = item("Code", fault.code().name) + &item("Message", fault.message());
            for (name, value) in fault.elements() {
                list += &item(name, value);
            }
            list += &item("RequestId", id);
            answer.body = Body::whole(format!(
                "<html>\n<head><title>{title}</title></head>\n<body>\n<h1>{title}</h1>\n<ul>\n{list}</ul>\n<hr/>\n</body>\n</html>\n"
            ));
        }
        answer
    }
}

/// Keeps of the headers only the host.
trait RetainHost {
    fn retain_host(&mut self);
}

impl RetainHost for HeaderMap {
    fn retain_host(&mut self) {
        let host = self.remove(header::HOST);
        self.clear();
        if let Some(host) = host {
            self.insert(header::HOST, host);
        }
    }
}

fn moved(to: &Redirect) -> Answer {
    let mut answer = Answer::new(StatusCode::from_u16(to.status).unwrap_or(StatusCode::FOUND));
    answer.set(header::LOCATION, &to.location);
    answer
}

fn html(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c => out.push(c),
        }
    }
    out
}
