//! The walk of a request: gate, operation, answer.
//!
//! Invariants: nothing about buckets or keys is looked at before the signature is verified, so an
//! anonymous request learns nothing, whatever its conditions; every answer, errors included, has
//! the same identifying headers; a body that was not read to its end never leaves the connection in
//! an unknown place. Must never know drives.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::request::Parts;
use http::{Method, StatusCode};
use hyper::body::Incoming;

use crate::auth::{self, Scheme, Verified, Verifier};
use crate::body::{Body, Intake, Source};
use crate::cors::Origins;
use crate::fault::{Code, Fault, Outcome};
use crate::form::{self, Form};
use crate::framing::{Framing, Watch};
use crate::metrics::Metrics;
use crate::operation::{Operation, classify};
use crate::ops::{self, Answer, Call, Context};
use crate::target::{Target, is_bucket_name};

/// Longest header block.
pub const MAX_HEADERS: usize = 64 * 1024;
/// Bytes of an unread body that are passed over so that the client can read an early answer.
const DRAIN: u64 = 1 << 20;
const DRAIN_TIME: Duration = Duration::from_secs(2);

/// How long a long operation may take before its answer begins.
const PATIENCE: Duration = Duration::from_secs(10);
/// How often white space is sent after that.
const BEAT: Duration = Duration::from_secs(5);

const REQUEST_ID: HeaderName = HeaderName::from_static("x-amz-request-id");
const HOST_ID: HeaderName = HeaderName::from_static("x-amz-id-2");
const SERVER: HeaderValue = HeaderValue::from_static("Ashlar");
const XML: HeaderValue = HeaderValue::from_static("application/xml");

/// How the service is set up.
pub struct Config {
    /// What operations share.
    pub context: Context,
    /// The keys, and the region.
    pub verifier: Verifier,
    /// Base domains of virtual-host style requests.
    pub domains: Vec<String>,
    /// Who may ask from a browser.
    pub origins: Origins,
    /// Identifies this server in answers (`x-amz-id-2`).
    pub host_id: String,
}

/// The S3 service.
pub struct Service {
    context: Arc<Context>,
    verifier: Verifier,
    domains: Vec<String>,
    origins: Origins,
    host_id: HeaderValue,
    metrics: Metrics,
    ids: AtomicU64,
}

/// What the connection knows about a request.
pub struct Arrival<'a> {
    /// The other end.
    pub peer: std::net::SocketAddr,
    /// Over TLS.
    pub tls: bool,
    /// The scanner of the connection, if there is one.
    pub watch: Option<&'a Watch>,
}

/// What a request was, for the log and the counters.
struct Seen {
    op: Operation,
    verified: bool,
    received: u64,
    /// The body, if any of it may be unread.
    left: Option<Source>,
}

impl Service {
    /// Puts the service together.
    pub fn new(config: Config) -> Service {
        let mut seed = [0u8; 8];
        getrandom::fill(&mut seed).expect("the operating system gives random bytes");
        Service {
            context: Arc::new(config.context),
            verifier: config.verifier,
            domains: config.domains.into_iter().map(|d| d.trim_matches('.').to_ascii_lowercase()).collect(),
            origins: config.origins,
            host_id: HeaderValue::from_str(&config.host_id).unwrap_or(HeaderValue::from_static("ashlar")),
            metrics: Metrics::default(),
            ids: AtomicU64::new(u64::from_le_bytes(seed)),
        }
    }

    /// The counters.
    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// The keys, for the program.
    pub fn verifier(&self) -> &Verifier {
        &self.verifier
    }

    /// What operations share.
    pub fn context(&self) -> &Context {
        &self.context
    }

    /// A fresh request id: 16 upper-case hexadecimal digits.
    pub fn request_id(&self) -> String {
        // A bijection of a counter (splitmix64): unique, and not guessable as a sequence.
        let mut z = self.ids.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        format!("{:016X}", z ^ (z >> 31))
    }

    /// Answers a request.
    pub async fn handle(
        &self,
        request: http::Request<Incoming>,
        arrival: Arrival<'_>,
    ) -> http::Response<Body> {
        let (parts, incoming) = request.into_parts();
        self.answer(parts, Source::Hyper(incoming), arrival).await
    }

    /// As [`Service::handle`], with the body from anywhere.
    pub async fn answer(
        &self,
        mut parts: Parts,
        source: Source,
        arrival: Arrival<'_>,
    ) -> http::Response<Body> {
        let began = Instant::now();
        let running = self.metrics.begin();
        let framing = arrival.watch.map_or(Framing::Unknown, Watch::take);
        let origin = parts.headers.get(header::ORIGIN).cloned();
        let mut seen = Seen { op: Operation::Unknown, verified: false, received: 0, left: None };
        // The headers go to the operation; this is what is needed of them afterwards.
        let expects = parts.headers.contains_key(header::EXPECT);
        let transfer = parts.headers.contains_key(header::TRANSFER_ENCODING);
        let outcome = self.serve(&mut parts, source, framing, &arrival, &mut seen).await;
        let mut close = framing == Framing::Unknown && arrival.watch.is_some() && transfer;
        let id = self.request_id();
        let (mut response, cause) = match outcome {
            Ok(answer) => (into_response(answer), None),
            Err(fault) => {
                close |= fault.closes();
                if !seen.verified {
                    self.metrics.rejected(fault.code().name);
                }
                let cause = fault.cause().map(str::to_owned);
                (self.refusal(&fault, &parts, &id), cause)
            }
        };
        if let Some(mut left) = seen.left.take()
            && !left.is_ended()
        {
            // Reading would tell a waiting client to send a body that nobody wants.
            close |= expects || !left.drain(DRAIN, DRAIN_TIME).await;
        }
        if let (Some(watch), false) = (arrival.watch, close) {
            watch.arm();
        }
        self.finish(&mut response, &id, origin.as_ref(), close);
        let status = response.status();
        let sent = if parts.method == Method::HEAD { 0 } else { response.body().len() };
        self.metrics.end(seen.op, status.as_u16(), began.elapsed(), seen.received, sent);
        drop(running);
        log(&parts, &seen, status, &id, began, cause.as_deref(), &arrival);
        response
    }

    async fn serve(
        &self,
        parts: &mut Parts,
        source: Source,
        framing: Framing,
        arrival: &Arrival<'_>,
        seen: &mut Seen,
    ) -> Outcome<Answer> {
        let head = match self.head(parts, framing) {
            Ok(head) => head,
            Err(fault) => {
                seen.left = Some(source);
                return Err(fault);
            }
        };
        if parts.method == Method::OPTIONS {
            seen.op = Operation::Preflight;
            seen.left = Some(source);
            return self.origins.preflight(&parts.headers);
        }
        if let Some(boundary) = posted_form(parts, &head.target) {
            seen.op = Operation::PostObject;
            let endpoint = ops::endpoint(arrival.tls, &head.host);
            return Box::pin(self.form(parts, source, head.target, &boundary, &endpoint, seen)).await;
        }
        let (mut call, op) = match self.admit(parts, source, head, arrival.tls, seen) {
            Ok(admitted) => admitted,
            Err((fault, source)) => {
                seen.left = source;
                return Err(fault);
            }
        };
        if ops::is_long(op) {
            return self.patiently(op, call, parts, seen).await;
        }
        let outcome = ops::run(&self.context, op, &mut call).await;
        seen.received = call.intake.received();
        seen.left = Some(call.intake.into_source());
        outcome
    }

    /// Runs an operation that may take long. After [`PATIENCE`] the answer begins with status 200 and
    /// white space, as AWS does it, so that no client takes the silence for a dead connection; how
    /// it ended is in the document.
    async fn patiently(
        &self,
        op: Operation,
        mut call: Call,
        parts: &Parts,
        seen: &mut Seen,
    ) -> Outcome<Answer> {
        let (context, host_id, id) = (self.context.clone(), self.host_id.clone(), self.request_id());
        let resource = parts.uri.path().to_owned();
        let mut work = Box::pin(async move {
            let outcome = ops::run(&context, op, &mut call).await;
            (outcome, call.intake)
        });
        match tokio::time::timeout(PATIENCE, work.as_mut()).await {
            Ok((outcome, intake)) => {
                seen.received = intake.received();
                seen.left = Some(intake.into_source());
                outcome
            }
            Err(_) => {
                let document = Box::pin(async move {
                    match work.await.0 {
                        Ok(answer) => match answer.body.collect().await {
                            Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
                            Err(broken) => Fault::internal(broken).document(&resource, &id, ""),
                        },
                        Err(fault) => {
                            tracing::warn!(target: "ashlar::request", request_id = id, code = fault.code().name, cause = fault.cause(), "a long request failed");
                            fault.document(&resource, &id, host_id.to_str().unwrap_or_default())
                        }
                    }
                });
                let mut answer = Answer::ok();
                answer.headers.insert(header::CONTENT_TYPE, XML);
                answer.body = Body::patient(document, BEAT);
                Ok(answer)
            }
        }
    }

    /// What can be said about the head before knowing who asks.
    fn head(&self, parts: &Parts, framing: Framing) -> Outcome<Head> {
        match framing {
            Framing::Both => {
                return Err(Fault::with(
                    Code::INVALID_REQUEST,
                    "Content-Length and Transfer-Encoding were both sent. Send one of them.",
                )
                .closing());
            }
            Framing::Bare => {
                return Err(Fault::with(
                    Code::INVALID_REQUEST,
                    "A line of the request head does not end in CR LF.",
                )
                .closing());
            }
            Framing::Unknown | Framing::Clean | Framing::Transfer => {}
        }
        let size: usize = parts.headers.iter().map(|(n, v)| n.as_str().len() + v.len() + 4).sum();
        if size > MAX_HEADERS {
            return Err(Fault::with(Code::HEADERS_TOO_LARGE, Code::HEADERS_TOO_LARGE.text)
                .element("MaxSizeAllowed", MAX_HEADERS.to_string())
                .closing());
        }
        auth::refuse_duplicates(&parts.headers)?;
        let host = parts.headers.get(header::HOST).and_then(|h| h.to_str().ok()).filter(|h| !h.is_empty());
        let host =
            host.ok_or_else(|| Fault::with(Code::INVALID_REQUEST, "The request has no Host header."))?;
        if parts.uri.authority().is_some_and(|a| !a.as_str().eq_ignore_ascii_case(host)) {
            return Err(Fault::with(
                Code::INVALID_REQUEST,
                "The host of the request target is not the host of the Host header.",
            )
            .closing());
        }
        let target = Target::parse(parts.uri.path(), parts.uri.query(), self.bucket_of(host))?;
        Ok(Head { target, host: host.to_owned() })
    }

    /// Whether the Host header names a bucket.
    pub fn is_virtual_host(&self, headers: &HeaderMap) -> bool {
        let host = headers.get(header::HOST).and_then(|h| h.to_str().ok());
        host.is_some_and(|h| self.bucket_of(h).is_some())
    }

    /// The bucket that a Host header names, if it is below one of our domains.
    fn bucket_of<'h>(&self, host: &'h str) -> Option<&'h str> {
        if self.domains.is_empty() {
            return None;
        }
        let name = match host.rsplit_once(':') {
            Some((name, port)) if port.bytes().all(|b| b.is_ascii_digit()) => name,
            _ => host,
        };
        self.domains.iter().find_map(|domain| {
            let cut = name.len().checked_sub(domain.len() + 1)?;
            let (bucket, rest) = (name.get(..cut)?, name.get(cut..)?);
            (rest.starts_with('.') && rest[1..].eq_ignore_ascii_case(domain) && !bucket.is_empty())
                .then_some(bucket)
        })
    }

    /// Verifies the signature, finds the operation, and prepares the body.
    #[allow(clippy::result_large_err)]
    fn admit(
        &self,
        parts: &mut Parts,
        source: Source,
        head: Head,
        tls: bool,
        seen: &mut Seen,
    ) -> Result<(Call, Operation), (Fault, Option<Source>)> {
        let Head { target, host } = head;
        let admitted = self.verify(parts, &target, seen);
        let (mut verified, op, headers) = match admitted {
            Ok(admitted) => admitted,
            Err(fault) => return Err((fault, Some(source))),
        };
        seen.op = op;
        let intake =
            Intake::new(source, &headers, &mut verified).map_err(|(fault, source)| (fault, Some(source)))?;
        let call = Call {
            method: parts.method.clone(),
            bucket: target.bucket.unwrap_or_default(),
            key: target.key.unwrap_or_default(),
            query: target.query,
            headers,
            intake,
            verified,
            host,
            tls,
        };
        Ok((call, op))
    }

    fn verify(
        &self,
        parts: &mut Parts,
        target: &Target,
        seen: &mut Seen,
    ) -> Outcome<(Verified, Operation, HeaderMap)> {
        let now = (self.context.clock)().div_euclid(1000);
        let request =
            auth::Request { method: &parts.method, uri: &parts.uri, target, headers: &parts.headers };
        let verified = self.verifier.verify(&request, now)?;
        seen.verified = true;
        let copy = parts.headers.contains_key("x-amz-copy-source");
        let op = classify(&parts.method, target, copy, false)?;
        if let Some(bucket) = target.bucket.as_deref().filter(|b| !is_bucket_name(b)) {
            return Err(Fault::new(Code::INVALID_BUCKET_NAME)
                .element("BucketName", bucket.chars().take(128).collect::<String>()));
        }
        let mut headers = std::mem::take(&mut parts.headers);
        if verified.scheme() == Scheme::QueryV4 {
            hoist(target, &mut headers)?;
        }
        Ok((verified, op, headers))
    }

    async fn form(
        &self,
        parts: &Parts,
        source: Source,
        target: Target,
        boundary: &str,
        endpoint: &str,
        seen: &mut Seen,
    ) -> Outcome<Answer> {
        let both = parts.headers.contains_key(header::AUTHORIZATION)
            || target.query.has("X-Amz-Signature")
            || target.query.has("Signature");
        let bucket = target.bucket.unwrap_or_default();
        if both || !target.query.is_empty() {
            seen.left = Some(source);
            return Err(Fault::with(
                Code::INVALID_ARGUMENT,
                "A form upload carries its signature in its fields, and has no query and no Authorization header.",
            ));
        }
        let intake = match Intake::unchecked(source, &parts.headers) {
            Ok(intake) => intake,
            Err((fault, source)) => {
                seen.left = Some(source);
                return Err(fault);
            }
        };
        let mut form = match Form::read(intake, boundary).await {
            Ok(form) => form,
            Err((fault, intake)) => {
                seen.left = Some(intake.into_source());
                return Err(fault);
            }
        };
        let outcome =
            ops::post::post_object(&self.context, &self.verifier, &bucket, endpoint, &mut form).await;
        seen.verified = true;
        let intake = form.into_intake();
        seen.received = intake.received();
        seen.left = Some(intake.into_source());
        outcome
    }

    fn refusal(&self, fault: &Fault, parts: &Parts, id: &str) -> http::Response<Body> {
        let status = fault.status();
        let mut response = http::Response::new(Body::empty());
        *response.status_mut() = status;
        response.headers_mut().extend(fault.headers().clone());
        let silent = parts.method == Method::HEAD || status == StatusCode::NOT_MODIFIED;
        if !silent {
            let host_id = self.host_id.to_str().unwrap_or_default();
            *response.body_mut() = Body::whole(fault.document(parts.uri.path(), id, host_id));
        }
        response.headers_mut().insert(header::CONTENT_TYPE, XML);
        response
    }

    /// What every answer has.
    fn finish(
        &self,
        response: &mut http::Response<Body>,
        id: &str,
        origin: Option<&HeaderValue>,
        close: bool,
    ) {
        let headers = response.headers_mut();
        headers.insert(header::SERVER, SERVER);
        if let Ok(id) = HeaderValue::from_str(id) {
            headers.insert(REQUEST_ID, id);
        }
        headers.insert(HOST_ID, self.host_id.clone());
        if close {
            headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
        self.origins.decorate(origin, headers);
    }
}

struct Head {
    target: Target,
    host: String,
}

fn into_response(answer: Answer) -> http::Response<Body> {
    let mut response = http::Response::new(answer.body);
    *response.status_mut() = answer.status;
    *response.headers_mut() = answer.headers;
    response
}

/// The boundary, if this is a form posted to a bucket.
fn posted_form(parts: &Parts, target: &Target) -> Option<String> {
    let at_bucket = target.bucket.is_some() && target.key.is_none() && !target.query.has("delete");
    (parts.method == Method::POST && at_bucket).then(|| form::boundary(&parts.headers)).flatten()
}

/// SDKs move `x-amz-*` headers of presigned requests into the query; they are signed there. A
/// header of the same name must not say something else.
fn hoist(target: &Target, headers: &mut HeaderMap) -> Outcome<()> {
    const OF_THE_SIGNATURE: [&str; 8] = [
        "x-amz-algorithm",
        "x-amz-credential",
        "x-amz-date",
        "x-amz-expires",
        "x-amz-signedheaders",
        "x-amz-signature",
        "x-amz-content-sha256",
        "x-amz-user-agent",
    ];
    for (name, value) in target.query.iter() {
        let lower = name.to_ascii_lowercase();
        if !lower.starts_with("x-amz-") || OF_THE_SIGNATURE.contains(&lower.as_str()) {
            continue;
        }
        let bad = || {
            Fault::with(
                Code::INVALID_ARGUMENT,
                format!("The query parameter {lower} cannot stand for a header."),
            )
        };
        let name = HeaderName::from_bytes(lower.as_bytes()).map_err(|_| bad())?;
        let value = HeaderValue::from_bytes(value.as_bytes()).map_err(|_| bad())?;
        if headers.get(&name).is_some_and(|v| *v != value) {
            return Err(bad());
        }
        headers.insert(name, value);
    }
    Ok(())
}

fn log(
    parts: &Parts,
    seen: &Seen,
    status: StatusCode,
    id: &str,
    began: Instant,
    cause: Option<&str>,
    arrival: &Arrival<'_>,
) {
    let micros = began.elapsed().as_micros() as u64;
    // Only the path: a presigned query is a credential.
    let (method, path, op, peer) = (&parts.method, parts.uri.path(), seen.op.name(), arrival.peer);
    if status.is_server_error() && status != StatusCode::NOT_IMPLEMENTED {
        let cause = cause.unwrap_or_default();
        tracing::warn!(target: "ashlar::request", request_id = id, %method, path, op, status = status.as_u16(), micros, %peer, cause, "request failed");
    } else {
        tracing::debug!(target: "ashlar::request", request_id = id, %method, path, op, status = status.as_u16(), micros, %peer, cause, "request");
    }
}
