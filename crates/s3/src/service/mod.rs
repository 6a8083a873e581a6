//! The request path: admission, authorization, operation, answer.
//!
//! Invariants: authentication and authorization precede every answer about buckets or keys, so a caller
//! without permission cannot tell whether a bucket or key exists, whatever conditions the request has; every
//! answer, including errors, has the same identifying headers; a body that was not read to its end never
//! leaves the connection at an unknown position. Must not depend on: drives.

use ashlar_environment::time::Instant;
use futures::future::BoxFuture;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ashlar_audit::{Audit, QueuePermit};
use ashlar_iam::Authenticator;
use http::header::{self, HeaderName, HeaderValue};
use http::request::Parts;
use http::{Method, StatusCode};
use hyper::body::Incoming;

use crate::admit::posted_form;
use crate::audit_context::{self, AuditContext, Note};
use crate::auth::Verifier;
use crate::body::Body;
use crate::buckets::Buckets;
use crate::cors::Origins;
use crate::document_cache::DocumentCache;
use crate::fault::{Code, Fault, Outcome};
use crate::framing::{Framing, Watch};
use crate::metrics::{InBucket, Metrics};
use crate::operation::Operation;
use crate::ops::{self, Answer, Call, Context};
use crate::request_body::Source;
use crate::sts;
use crate::target::Target;
use crate::trace::{SLOW, Sending, Slow, Tracer};
use crate::work_permits::{WorkPermit, WorkPermits};

mod form;
mod long;
mod records;

use records::log;

/// Bytes of an unread body that are passed over so that the client can read an early answer.
const DRAIN: u64 = 1 << 20;
const DRAIN_TIME: Duration = Duration::from_secs(2);

/// Forms and requests for tokens whose bodies are read before a signature can be checked, at a time.
const UNSIGNED: usize = 64;
/// How long others wait for that.
const PLACE: Duration = Duration::from_secs(4);

const REQUEST_ID: HeaderName = HeaderName::from_static("x-amz-request-id");
const HOST_ID: HeaderName = HeaderName::from_static("x-amz-id-2");
const SERVER: HeaderValue = HeaderValue::from_static("Ashlar");
/// Keeps browsers from treating a stored object as another type than it has.
const NOSNIFF: HeaderValue = HeaderValue::from_static("nosniff");
const XML: HeaderValue = HeaderValue::from_static("application/xml");

/// How the service is set up.
pub struct Config {
    /// What operations share.
    pub context: Context,
    /// The keys, and the region.
    pub verifier: Verifier,
    /// The identity providers.
    pub authenticator: Option<Arc<dyn Authenticator>>,
    /// Base domains of virtual-host style requests.
    pub domains: Vec<String>,
    /// Base domains of websites: BUCKET.DOMAIN answers browsers.
    pub websites: Vec<String>,
    /// Origins that browsers may send requests from, for buckets without their own CORS rules.
    pub origins: Origins,
    /// Where requests are recorded; `None`: only the last refusals are kept.
    pub audit: Option<Arc<Audit>>,
    /// Identifies this server in answers (`x-amz-id-2`).
    pub host_id: String,
}

/// The S3 service.
pub struct Service {
    pub(crate) context: Arc<Context>,
    pub(crate) verifier: Verifier,
    pub(crate) authenticator: Option<Arc<dyn Authenticator>>,
    pub(crate) domains: Vec<String>,
    pub(crate) websites: Vec<String>,
    origins: Origins,
    host_id: HeaderValue,
    metrics: Metrics,
    ids: AtomicU64,
    pub(crate) document_cache: Arc<DocumentCache>,
    audit: Arc<Audit>,
    /// For what is read before a signature can be checked.
    unsigned: Arc<WorkPermits>,
    tracer: Arc<Tracer>,
    /// Milliseconds after which a request is logged as slow.
    slow_ms: AtomicU64,
}

/// What the connection knows about a request.
pub struct Arrival<'a> {
    /// The address of the client.
    pub peer: std::net::SocketAddr,
    /// Over TLS.
    pub tls: bool,
    /// The client's certificates in DER, its own first, if TLS asked for them.
    pub certificates: &'a [Vec<u8>],
    /// The scanner of the connection, if there is one.
    pub watch: Option<&'a Watch>,
}

/// What a request was, for the log and the counters.
pub(crate) struct Seen {
    pub op: Operation,
    pub verified: bool,
    pub received: u64,
    /// The code of the error that was answered.
    pub error: &'static str,
    /// For the audit log.
    pub audit_context: AuditContext,
    /// The body, if any of it may be unread.
    pub left: Option<Source>,
    /// Whether a trace has listeners.
    pub traced: bool,
    /// How long the server waited for the client, if a trace has listeners.
    pub waited: Duration,
    /// The request in its bucket's counters.
    pub in_bucket: Option<InBucket>,
    /// The buckets that it is about.
    pub buckets: Arc<Buckets>,
}

impl Seen {
    /// Takes what is left of a call.
    pub(crate) fn took(&mut self, call: Call) {
        let version = call.query.filled("versionId").map(str::to_owned);
        self.waited = call.request_body.waited();
        let audit_context = &mut self.audit_context;
        (audit_context.bucket, audit_context.key, audit_context.version) = (call.bucket, call.key, version);
        (audit_context.verified, audit_context.authz_decision) = (Some(call.verified), call.authz_decision);
        self.left = Some(call.request_body.into_source());
    }
}

impl Service {
    /// Puts the service together.
    pub fn new(config: Config) -> Service {
        let mut seed = [0u8; 8];
        ashlar_environment::random::fill(&mut seed).expect("the operating system gives random bytes");
        let plain = |d: String| d.trim_matches('.').to_ascii_lowercase();
        let mut context = config.context;
        context.people = context.people.or_else(|| config.verifier.keys.iam().cloned());
        let audit = config.audit.unwrap_or_else(|| Arc::new(Audit::off()));
        Service {
            context: Arc::new_cyclic(|me| Context { me: me.clone(), ..context }),
            verifier: config.verifier,
            authenticator: config.authenticator,
            domains: config.domains.into_iter().map(plain).collect(),
            websites: config.websites.into_iter().map(plain).collect(),
            origins: config.origins,
            host_id: HeaderValue::from_str(&config.host_id).unwrap_or(HeaderValue::from_static("ashlar")),
            metrics: Metrics::default(),
            ids: AtomicU64::new(u64::from_le_bytes(seed)),
            document_cache: Arc::new(DocumentCache::new(audit.is_on())),
            audit,
            unsigned: WorkPermits::new(UNSIGNED, PLACE),
            tracer: Arc::default(),
            slow_ms: AtomicU64::new(SLOW.as_millis() as u64),
        }
    }

    /// Requests that take longer than this are logged; [`SLOW`] by default. Zero: none.
    pub fn log_slower_than(&self, limit: Duration) {
        let ms = if limit.is_zero() { u64::MAX } else { limit.as_millis() as u64 };
        self.slow_ms.store(ms, Ordering::Relaxed);
    }

    /// The live trace of requests.
    pub fn tracer(&self) -> &Arc<Tracer> {
        &self.tracer
    }

    /// The counters.
    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// The keys, for the program.
    pub fn verifier(&self) -> &Verifier {
        &self.verifier
    }

    /// Where requests are recorded.
    pub fn audit(&self) -> &Arc<Audit> {
        &self.audit
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
    pub fn handle<'a>(
        &'a self,
        request: http::Request<Incoming>,
        arrival: Arrival<'a>,
    ) -> BoxFuture<'a, http::Response<Body>> {
        Box::pin(async move {
            let (parts, incoming) = request.into_parts();
            self.answer(parts, Source::Hyper(incoming), arrival).await
        })
    }

    /// As [`Service::handle`], with the body from anywhere.
    pub fn answer<'a>(
        &'a self,
        mut parts: Parts,
        source: Source,
        arrival: Arrival<'a>,
    ) -> BoxFuture<'a, http::Response<Body>> {
        Box::pin(async move {
            let began = Instant::now();
            let running = self.metrics.begin();
            let framing = arrival.watch.map_or(Framing::Unknown, Watch::take);
            let origin = parts.headers.get(header::ORIGIN).cloned();
            let mut seen = Seen {
                op: Operation::Unknown,
                verified: false,
                received: 0,
                error: "",
                audit_context: AuditContext::default(),
                left: None,
                traced: self.tracer.is_on(),
                waited: Duration::ZERO,
                in_bucket: None,
                buckets: Buckets::new(&self.context.store),
            };
            seen.audit_context.head(&parts.headers, self.audit.is_on());
            let rules = origin.as_ref().and_then(|_| self.cors_of(&parts, &seen.buckets));
            let traced = seen.traced.then(|| Box::new(self.heard(&parts, &arrival)));
            let mut drives = Duration::ZERO;
            let logged = self.document_cache.logs.any().then(|| {
                [header::REFERER, header::USER_AGENT, header::HOST]
                    .map(|name| parts.headers.get(name).cloned())
            });
            // The headers go to the operation; this is what is needed of them afterwards.
            let expects = parts.headers.contains_key(header::EXPECT);
            let transfer = parts.headers.contains_key(header::TRANSFER_ENCODING);
            let id = self.request_id();
            let (ticket, outcome) = match self.audit.reserve().await {
                Ok(ticket) => {
                    let work = self.serve(&mut parts, source, framing, &arrival, &mut seen, &id);
                    let outcome = if traced.is_some() {
                        let (outcome, spent) = Box::pin(ashlar_object::timing::measured(work)).await;
                        drives = spent;
                        outcome
                    } else {
                        work.await
                    };
                    (ticket, outcome)
                }
                // What cannot be recorded is not done.
                Err(error) => {
                    seen.left = Some(source);
                    (QueuePermit::default(), Err(Fault::new(Code::SLOW_DOWN).because(error)))
                }
            };
            let mut close = framing == Framing::Unknown && arrival.watch.is_some() && transfer;
            let (mut response, cause) = match outcome {
                Ok(answer) => (into_response(answer), None),
                Err(fault) => {
                    close |= fault.closes();
                    if !seen.verified {
                        self.metrics.rejected(fault.code().name);
                    }
                    let cause = fault.cause().map(str::to_owned);
                    seen.error = fault.code().name;
                    (self.refusal(&fault, &parts, &id), cause)
                }
            };
            if let Some(mut left) = seen.left.take()
                && !left.is_ended()
            {
                // Reading would make a waiting client send a body that is not needed.
                close |= expects || !left.drain(DRAIN, DRAIN_TIME).await;
            }
            if let (Some(watch), false) = (arrival.watch, close) {
                watch.arm();
            }
            if let (Some(rules), Some(origin)) = (&rules, &origin) {
                rules.decorate(origin, parts.method.as_str(), response.headers_mut());
            }
            let origin = origin.filter(|_| rules.is_none());
            self.finish(&mut response, &id, origin.as_ref(), close);
            let status = response.status();
            let sent = if parts.method == Method::HEAD { 0 } else { response.body().len() };
            let first_byte = began.elapsed();
            self.metrics.end(seen.op, status.as_u16(), first_byte, seen.received, sent);
            if let Some(counted) = seen.in_bucket.take() {
                counted.end(status.as_u16(), first_byte, seen.received, sent);
            }
            drop(running);
            log(&parts, &seen, status, &id, began, cause.as_deref(), &arrival);
            if let Some(head) = logged {
                self.note(&parts, &seen, &response, &head, (&id, began), &arrival);
            }
            let mut note = Note::new(began);
            let mut wanted = false;
            if let Some(mut event) = traced {
                event.request_id.clone_from(&id);
                (event.operation, event.kind) = (seen.op.name(), audit_context::api_layer(seen.op).name());
                (event.status, event.error) = (status.as_u16(), seen.error);
                (event.bytes_in, event.first_byte) = (seen.received, first_byte);
                (event.waited_for_client, event.waited_for_drives) = (seen.waited, drives);
                if let Some(verified) = &seen.audit_context.verified {
                    event.access_key = verified.access_key().to_owned();
                }
                note.trace(Sending { tracer: self.tracer.clone(), event: *event });
                wanted = true;
            }
            let limit = Duration::from_millis(self.slow_ms.load(Ordering::Relaxed));
            if response.body().is_stream() || first_byte >= limit {
                note.slow(Slow {
                    limit,
                    id: id.clone(),
                    method: parts.method.clone(),
                    uri: parts.uri.clone(),
                    op: seen.op.name(),
                    peer: arrival.peer,
                    status: status.as_u16(),
                    received: seen.received,
                    first_byte,
                });
                wanted = true;
            }
            let refused = matches!(status.as_u16(), 401 | 403);
            if refused || ticket.is_real() {
                wanted |= ticket.is_real();
                self.record(&parts, seen, (status, &id, began), &arrival, ticket, &mut note);
            }
            if wanted {
                let body = response.body_mut();
                if parts.method == Method::HEAD { Body::empty().note(note) } else { body.note(note) }
            }
            response
        })
    }

    /// Access logs of buckets.
    pub fn access_logs(&self) -> &crate::access_log::Logs {
        &self.document_cache.logs
    }

    /// The rules for browsers of the bucket that a request is for, if it has its own.
    fn cors_of(&self, parts: &Parts, buckets: &Buckets) -> Option<Arc<crate::cors_rules::Rules>> {
        let host = parts.headers.get(header::HOST).and_then(|h| h.to_str().ok());
        let of_host = host.and_then(|h| self.bucket_of(h).or_else(|| crate::admit::below(&self.websites, h)));
        let target = Target::parse(parts.uri.path(), None, of_host).ok()?;
        let bucket = buckets.find(&target.bucket?).ok()?;
        self.document_cache.features.cors.of(&bucket)
    }

    async fn serve(
        &self,
        parts: &mut Parts,
        source: Source,
        framing: Framing,
        arrival: &Arrival<'_>,
        seen: &mut Seen,
        id: &str,
    ) -> Outcome<Answer> {
        let head = match self.head(parts, framing) {
            Ok(head) => head,
            Err(fault) => {
                seen.left = Some(source);
                return Err(fault);
            }
        };
        if let Some(bucket) = self.website_of(&parts.headers).map(str::to_owned) {
            let answer = Box::pin(self.host(&bucket, parts, arrival, seen, id)).await;
            if let (Some(watch), true) = (arrival.watch, answer.status.is_success()) {
                watch.know();
            }
            seen.left = Some(source);
            return Ok(answer);
        }
        if parts.method == Method::OPTIONS {
            seen.op = Operation::Preflight;
            seen.left = Some(source);
            return match self.cors_of(parts, &seen.buckets) {
                Some(rules) => rules.preflight(&parts.headers),
                None => self.origins.preflight(&parts.headers),
            };
        }
        if sts::is_sts(parts, &head.target) {
            return Box::pin(self.sts(parts, source, &head.target, arrival, seen, id)).await;
        }
        if let Some(boundary) = posted_form(parts, &head.target) {
            seen.op = Operation::PostObject;
            return Box::pin(self.form(parts, source, head, &boundary, (arrival, id), seen)).await;
        }
        let (call, op) = match self.admit(parts, source, head, arrival, seen, id) {
            Ok(admitted) => admitted,
            Err((fault, source)) => {
                seen.left = source;
                return Err(fault);
            }
        };
        if let Err(fault) = call.permit_all(&self.context, op).await {
            seen.took(call);
            return Err(fault);
        }
        call.verified.identity().used((self.context.clock)());
        seen.verified = true;
        let exists = || seen.buckets.find(&call.bucket).is_ok();
        seen.in_bucket = self.metrics.begin_in(&call.bucket, op, exists);
        if let Some(watch) = arrival.watch {
            watch.know();
        }
        let tenant = tenant(call.verified.identity(), arrival);
        ashlar_object::as_tenant(tenant, self.operate(op, call, parts, seen, id)).await
    }

    /// Runs a permitted operation.
    async fn operate(
        &self,
        op: Operation,
        mut call: Call,
        parts: &Parts,
        seen: &mut Seen,
        id: &str,
    ) -> Outcome<Answer> {
        if ops::is_long(op) {
            return self.patiently(op, call, parts, seen, id).await;
        }
        let outcome = match ops::run(&self.context, op, &mut call).await {
            Err(fault) => Err(call.hide(&self.context, fault).await),
            outcome => outcome,
        };
        seen.received = call.request_body.received();
        seen.took(call);
        outcome
    }

    /// A place to read a body before a signature can be checked.
    pub(crate) async fn unsigned_permit(&self) -> Option<WorkPermit> {
        self.unsigned.take(Arc::default()).await
    }

    /// Bodies without a checked signature that were refused, and those that were cut off for others.
    pub fn unsigned_counts(&self) -> (u64, u64) {
        self.unsigned.counts()
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
        if fault.code() == Code::SLOW_DOWN {
            response.headers_mut().entry(header::RETRY_AFTER).or_insert(HeaderValue::from_static("1"));
        }
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
        headers.insert(header::X_CONTENT_TYPE_OPTIONS, NOSNIFF);
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

/// Too many bodies without a checked signature at once.
pub(crate) fn crowded() -> Fault {
    Fault::new(Code::SLOW_DOWN).because("too many requests without a checked signature").closing()
}

/// The tenant for sharing memory: the user, with all its keys; for an anonymous request the address.
fn tenant(who: &ashlar_iam::Identity, arrival: &Arrival<'_>) -> u64 {
    use std::hash::{Hash as _, Hasher as _};
    let principal = who.principal();
    if principal.who == ashlar_policy::Who::Anonymous {
        return of_address(arrival);
    }
    let mut hash = std::hash::DefaultHasher::new();
    (principal.who == ashlar_policy::Who::Root, principal.name).hash(&mut hash);
    hash.finish().max(1)
}

fn of_address(arrival: &Arrival<'_>) -> u64 {
    use std::hash::{Hash as _, Hasher as _};
    let mut hash = std::hash::DefaultHasher::new();
    match arrival.peer.ip() {
        // One customer has a whole /64.
        std::net::IpAddr::V6(ip) => ip.segments()[..4].hash(&mut hash),
        ip => ip.hash(&mut hash),
    }
    hash.finish().max(1)
}

fn into_response(answer: Answer) -> http::Response<Body> {
    let mut response = http::Response::new(answer.body);
    *response.status_mut() = answer.status;
    *response.headers_mut() = answer.headers;
    response
}
