//! One request: address, signature, sending, retries.
//!
//! Invariants: every attempt has a new signature; there is no further attempt after a body was partly read
//! that cannot be read again; callers never receive an error answer as an [`Answer`].
//!
//! Must not depend on: the semantics of operations.

use futures::future::BoxFuture;
use std::{borrow::Cow, collections::HashMap, sync::Arc, sync::atomic::Ordering, time::Duration};

use http::{
    HeaderMap, HeaderName, HeaderValue, Method, Request, Uri, header,
    uri::{Parts, PathAndQuery},
};
use parking_lot::{Mutex, RwLock};
use time::OffsetDateTime;

use crate::{
    answer::Answer,
    body::{Body, Outgoing, Watch},
    chunked::{Chunked, trailer_name},
    config::{Addressing, Config, Payload},
    encode::{percent_encode_into, query_string},
    error::{Error, Result},
    fault::{Failed, failure, service_error},
    pool::{Host, Pool},
    retry,
    sign::{ChunkSigner, Signer},
    sigv4::{AmzDate, EMPTY_SHA256},
};

const X_AMZ_DECODED_CONTENT_LENGTH: HeaderName = HeaderName::from_static("x-amz-decoded-content-length");
const X_AMZ_TRAILER: HeaderName = HeaderName::from_static("x-amz-trailer");

/// A client of one endpoint. Clones share connections.
#[derive(Clone)]
pub struct Client {
    inner: Arc<Inner>,
}

struct Inner {
    config: Config,
    host: Arc<Host>,
    /// Hosts of buckets in virtual-host style; at most [`BUCKET_HOSTS`].
    bucket_hosts: Mutex<HashMap<String, Arc<Host>>>,
    pool: Arc<Pool>,
    signer: Option<Signer>,
    /// The configured region at first; changes if the server names another one.
    region: RwLock<Arc<str>>,
    user_agent: HeaderValue,
}

const BUCKET_HOSTS: usize = 256;

/// The resource of a request.
#[derive(Clone, Copy, Debug)]
pub enum Target<'a> {
    /// The endpoint itself (list of buckets).
    Service,
    /// A bucket.
    Bucket(&'a str),
    /// A key in a bucket.
    Object(&'a str, &'a str),
    /// A path of the endpoint, beginning with `/`, not encoded (admin API).
    Path(&'a str),
}

/// Whether a request may be sent again although it may have taken effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repeat {
    /// The request is idempotent.
    Harmless,
    /// Only if the server refused it or it was never sent.
    OnlyIfRefused,
}

/// A request to be sent.
#[derive(Debug)]
pub struct Call<'a> {
    /// The HTTP method.
    pub method: Method,
    /// The resource.
    pub target: Target<'a>,
    /// Query parameters, not encoded.
    pub query: Vec<(Cow<'a, str>, Cow<'a, str>)>,
    /// Headers, without those that addressing and signing add.
    pub headers: HeaderMap,
    /// The payload.
    pub body: Body,
    /// How the payload is signed; `None`: as configured.
    pub payload: Option<Payload>,
    /// The SHA-256 of the payload if it is known, for [`Payload::Signed`].
    pub sha256: Option<[u8; 32]>,
    /// `None`: POST and conditional PUT are repeated only if refused, all others are idempotent.
    pub repeat: Option<Repeat>,
    /// How long the server may be silent; `None`: as configured.
    pub patience: Option<Duration>,
}

impl<'a> Call<'a> {
    /// A request without query, headers and payload.
    pub fn new(method: Method, target: Target<'a>) -> Call<'a> {
        Call {
            method,
            target,
            query: Vec::new(),
            headers: HeaderMap::new(),
            body: Body::Empty,
            payload: None,
            sha256: None,
            repeat: None,
            patience: None,
        }
    }

    /// Adds a query parameter.
    pub fn query(mut self, name: &'a str, value: impl Into<Cow<'a, str>>) -> Self {
        self.query.push((Cow::Borrowed(name), value.into()));
        self
    }

    /// Adds a query parameter if there is a value.
    pub fn maybe_query(self, name: &'a str, value: Option<impl Into<Cow<'a, str>>>) -> Self {
        match value {
            Some(value) => self.query(name, value),
            None => self,
        }
    }

    /// Adds a header. Control characters, line ends included, are refused.
    pub fn header(mut self, name: HeaderName, value: &str) -> Result<Self> {
        let value = HeaderValue::from_bytes(value.as_bytes())
            .map_err(|_| Error::Invalid(format!("header {name}: control characters in {value:?}")))?;
        self.headers.append(name, value);
        Ok(self)
    }

    /// Sets the payload.
    pub fn body(mut self, body: impl Into<Body>) -> Self {
        self.body = body.into();
        self
    }

    fn repeat(&self) -> Repeat {
        self.repeat.unwrap_or_else(|| {
            let conditional = self.headers.contains_key(header::IF_MATCH)
                || self.headers.contains_key(header::IF_NONE_MATCH);
            let reads = self.method == Method::GET || self.method == Method::HEAD;
            if reads || (self.method != Method::POST && !conditional) {
                Repeat::Harmless
            } else {
                Repeat::OnlyIfRefused
            }
        })
    }
}

/// The parts of a call that do not change between attempts.
struct Prepared {
    method: Method,
    host: Arc<Host>,
    path: String,
    query: String,
    headers: HeaderMap,
    body: Body,
    /// The value of `x-amz-content-sha256`.
    payload: HeaderValue,
    framing: Framing,
    patience: Duration,
}

#[derive(Clone, Copy)]
enum Framing {
    Plain,
    Chunks { signed: bool, trailer: Option<ashlar_checksum::Algorithm> },
}

impl Client {
    /// Creates a client; fails if the configuration is invalid. Does not connect yet.
    pub fn new(config: Config) -> Result<Client> {
        let host = Arc::new(Host::parse(&config.endpoint)?);
        let pool = Arc::new(Pool::new(&config, host.https)?);
        let user_agent = HeaderValue::from_str(&config.user_agent)
            .map_err(|_| Error::Invalid("user agent: control characters".into()))?;
        let inner = Inner {
            host,
            bucket_hosts: Mutex::default(),
            pool,
            signer: config.credentials.clone().map(Signer::new),
            region: RwLock::new(config.region.as_str().into()),
            user_agent,
            config,
        };
        Ok(Client { inner: Arc::new(inner) })
    }

    /// The configuration of the client.
    pub fn config(&self) -> &Config {
        &self.inner.config
    }

    /// A presigned URL, with which anyone may do `method` on `target` for `seconds` (1 to 604,800).
    /// Fails without credentials.
    pub fn presign(
        &self,
        method: &Method,
        target: Target<'_>,
        query: &[(&str, &str)],
        seconds: u32,
    ) -> Result<String> {
        if !(1..=604_800).contains(&seconds) {
            return Err(Error::Invalid("a presigned URL is valid for 1 to 604,800 seconds".into()));
        }
        let signer = self.inner.signer.as_ref();
        let signer = signer.ok_or_else(|| Error::Invalid("presigning needs credentials".into()))?;
        let (host, path) = self.address(target)?;
        let date = AmzDate::new(OffsetDateTime::from(ashlar_environment::time::wall()));
        let region = self.inner.region.read().clone();
        let query = signer.presign(&region, date, method, &host.authority, &path, query, seconds);
        Ok(format!("{}://{}{path}?{query}", host.scheme(), host.authority))
    }

    /// Sends a request and waits for the head of a successful (2xx) answer.
    pub fn execute<'a>(&'a self, call: Call<'a>) -> BoxFuture<'a, Result<Answer>> {
        Box::pin(async move {
            let repeat = call.repeat();
            let prepared = self.prepare(call).await?;
            let mut attempt = 1;
            let mut stale = 0;
            let mut moved = false;
            loop {
                let error = match self.attempt(&prepared, stale > 2).await {
                    Ok(answer) if answer.status().is_success() => return Ok(answer),
                    Ok(answer) => service_error(answer, &prepared.method).await,
                    Err(Failed::Stale) => {
                        stale += 1;
                        continue;
                    }
                    Err(Failed::Error(error)) => error,
                };
                tracing::debug!(%error, attempt, method = %prepared.method, path = %prepared.path, "failed");
                let spent = matches!(&prepared.body, Body::Stream { stream, .. } if stream.lock().is_none());
                if spent {
                    return Err(error);
                }
                if !moved && self.follow_region(&error) {
                    moved = true;
                    continue;
                }
                if attempt >= self.inner.config.attempts || !retry::worth_it(&error, repeat) {
                    return Err(error);
                }
                let random = ashlar_environment::random::u64().unwrap_or(u64::MAX / 2);
                ashlar_environment::time::sleep(retry::pause(attempt, random, &error)).await;
                attempt += 1;
            }
        })
    }

    /// Adopts the region that an error names; returns whether it is a new one.
    fn follow_region(&self, error: &Error) -> bool {
        let Some(region) = error.service().and_then(|e| e.region.as_deref()) else { return false };
        let mut current = self.inner.region.write();
        let new = **current != *region;
        if new {
            *current = region.into();
        }
        new
    }

    /// The host and the encoded path of a target.
    fn address(&self, target: Target<'_>) -> Result<(Arc<Host>, String)> {
        let (bucket, key) = match target {
            Target::Service => return Ok((self.inner.host.clone(), "/".into())),
            Target::Path(path) if path.starts_with('/') => {
                return Ok((self.inner.host.clone(), crate::encode::percent_encode(path, true)));
            }
            Target::Path(path) => {
                return Err(Error::Invalid(format!("path {path:?} must begin with /")));
            }
            Target::Bucket(bucket) => (bucket, ""),
            Target::Object(_, "") => return Err(Error::Invalid("a key cannot be empty".into())),
            Target::Object(bucket, key) => (bucket, key),
        };
        if bucket.is_empty() || bucket.contains('/') {
            return Err(Error::Invalid(format!("{bucket:?} is not a bucket name")));
        }
        let mut path = String::with_capacity(bucket.len() + key.len() + 16);
        path.push('/');
        let host = if self.virtual_host(bucket) {
            self.bucket_host(bucket)?
        } else {
            percent_encode_into(&mut path, bucket, false);
            if !key.is_empty() {
                path.push('/');
            }
            self.inner.host.clone()
        };
        percent_encode_into(&mut path, key, true);
        Ok((host, path))
    }

    fn virtual_host(&self, bucket: &str) -> bool {
        match self.inner.config.addressing {
            Addressing::Path => false,
            Addressing::VirtualHost => true,
            // A name with a dot does not match the wildcard certificate.
            Addressing::Auto => {
                let amazon = [".amazonaws.com", ".amazonaws.com.cn"];
                amazon.iter().any(|suffix| self.inner.host.name.ends_with(suffix))
                    && !(bucket.contains('.') && self.inner.host.https)
            }
        }
    }

    fn bucket_host(&self, bucket: &str) -> Result<Arc<Host>> {
        let mut hosts = self.inner.bucket_hosts.lock();
        if let Some(host) = hosts.get(bucket) {
            return Ok(host.clone());
        }
        let host = self.inner.host.of_bucket(bucket);
        let host = host.ok_or_else(|| Error::Invalid(format!("{bucket:?} cannot be part of a host name")))?;
        let host = Arc::new(host);
        if hosts.len() >= BUCKET_HOSTS {
            hosts.clear();
        }
        hosts.insert(bucket.to_owned(), host.clone());
        Ok(host)
    }

    async fn prepare(&self, call: Call<'_>) -> Result<Prepared> {
        let (host, path) = self.address(call.target)?;
        let query = query_string(&call.query);
        let mode = call.payload.unwrap_or(self.inner.config.payload);
        let (payload, framing) = self.payload(mode, &call.body, call.sha256).await?;
        let mut headers = call.headers;
        headers.insert(header::HOST, host.header.clone());
        headers.insert(header::USER_AGENT, self.inner.user_agent.clone());
        if let Framing::Chunks { trailer, .. } = framing {
            let coding = match headers.get(header::CONTENT_ENCODING) {
                Some(own) => [b"aws-chunked,", own.as_bytes()].concat(),
                None => b"aws-chunked".to_vec(),
            };
            let coding = HeaderValue::from_bytes(&coding).expect("it was a header value before");
            headers.insert(header::CONTENT_ENCODING, coding);
            headers.insert(X_AMZ_DECODED_CONTENT_LENGTH, call.body.len().into());
            if let Some(algorithm) = trailer {
                let name = HeaderValue::from_static(trailer_name(algorithm));
                headers.insert(X_AMZ_TRAILER, name);
            }
        }
        Ok(Prepared {
            method: call.method,
            host,
            path,
            query,
            headers,
            body: call.body,
            payload,
            framing,
            patience: call.patience.unwrap_or(self.inner.config.idle_timeout),
        })
    }

    /// The value of `x-amz-content-sha256` and the corresponding framing.
    async fn payload(
        &self,
        mode: Payload,
        body: &Body,
        known: Option<[u8; 32]>,
    ) -> Result<(HeaderValue, Framing)> {
        let fixed = HeaderValue::from_static;
        let chunks = |signed, trailer| Framing::Chunks { signed, trailer };
        if body.is_empty() && known.is_none() {
            return Ok((fixed(EMPTY_SHA256), Framing::Plain));
        }
        let mode = match mode {
            // Without credentials there is no seed signature for the chain.
            Payload::SignedChunks if self.inner.signer.is_none() => Payload::Unsigned,
            Payload::SignedTrailer(a) if self.inner.signer.is_none() => Payload::Trailer(a),
            Payload::Signed if known.is_none() && !body.replayable() => Payload::SignedChunks,
            other => other,
        };
        Ok(match mode {
            Payload::Unsigned => (fixed("UNSIGNED-PAYLOAD"), Framing::Plain),
            Payload::SignedChunks => (fixed("STREAMING-AWS4-HMAC-SHA256-PAYLOAD"), chunks(true, None)),
            Payload::SignedTrailer(algorithm) => {
                (fixed("STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER"), chunks(true, Some(algorithm)))
            }
            Payload::Trailer(algorithm) => {
                (fixed("STREAMING-UNSIGNED-PAYLOAD-TRAILER"), chunks(false, Some(algorithm)))
            }
            Payload::Signed | Payload::Auto => {
                let hash = match known {
                    Some(hash) => hash,
                    None => body.sha256().await?.ok_or_else(|| {
                        Error::Invalid("a stream cannot be hashed before it is sent".into())
                    })?,
                };
                let hash = HeaderValue::try_from(hex::encode(hash)).expect("hexadecimal digits");
                (hash, Framing::Plain)
            }
        })
    }

    async fn attempt(&self, call: &Prepared, fresh: bool) -> std::result::Result<Answer, Failed> {
        let inner = &self.inner;
        let mut connection = inner.pool.get(&call.host, fresh).await.map_err(Failed::Error)?;
        let watch = Watch::default();
        let request = self.request(call, watch.clone()).map_err(Failed::Error)?;
        let mut sending = std::pin::pin!(connection.sender.try_send_request(request));
        let mut seen = 0;
        let outcome = loop {
            match ashlar_environment::time::timeout(call.patience, &mut sending).await {
                Ok(outcome) => break outcome,
                Err(_) => {
                    let sent = watch.sent.load(Ordering::Relaxed);
                    if sent == seen {
                        let seconds = call.patience.as_secs();
                        let what = "waiting for the answer";
                        return Err(Failed::Error(Error::Timeout { what, seconds }));
                    }
                    seen = sent;
                }
            }
        };
        match outcome {
            Ok(response) => {
                Ok(Answer::new(response, inner.pool.clone(), connection, inner.config.idle_timeout))
            }
            Err(mut error) => {
                let unsent = error.take_message().map(|request| call.body.give_back(request.into_body()));
                Err(failure(&connection, unsent.is_some(), error.into_error(), &watch))
            }
        }
    }

    /// The request to send, with a new signature.
    fn request(&self, call: &Prepared, watch: Watch) -> Result<Request<Outgoing>> {
        let inner = &self.inner;
        let mut headers = call.headers.clone();
        let mut signed = None;
        if let Some(signer) = &inner.signer {
            let region = inner.region.read().clone();
            let date = AmzDate::new(OffsetDateTime::from(ashlar_environment::time::wall()));
            signed = Some(signer.sign(
                &region,
                date,
                &call.method,
                &call.path,
                &call.query,
                &mut headers,
                &call.payload,
            ));
        } else if let Framing::Chunks { .. } = call.framing {
            headers.insert(crate::sign::X_AMZ_CONTENT_SHA256, call.payload.clone());
        }
        let input = call.body.open();
        let input = input.ok_or_else(|| Error::Invalid("the stream was read before".into()))?;
        if input.left() == 0 && (call.method == Method::PUT || call.method == Method::POST) {
            // The HTTP library sends no length for an empty body, but S3 requires it.
            headers.insert(header::CONTENT_LENGTH, HeaderValue::from_static("0"));
        }
        let body = match call.framing {
            Framing::Plain => Outgoing::plain(input, watch),
            Framing::Chunks { signed: chunks_signed, trailer } => {
                let chain = signed.filter(|_| chunks_signed).map(ChunkSigner::new);
                Outgoing::chunked(Chunked::new(input, chain, trailer), watch)
            }
        };
        let mut target = String::with_capacity(call.path.len() + 1 + call.query.len());
        target.push_str(&call.path);
        if !call.query.is_empty() {
            target.push('?');
            target.push_str(&call.query);
        }
        let mut parts = Parts::default();
        parts.path_and_query = Some(
            PathAndQuery::try_from(target)
                .map_err(|_| Error::Invalid(format!("path too long: {}", call.path)))?,
        );
        let mut request = Request::new(body);
        *request.method_mut() = call.method.clone();
        *request.uri_mut() = Uri::from_parts(parts).map_err(|e| Error::Invalid(format!("path: {e}")))?;
        *request.headers_mut() = headers;
        Ok(request)
    }
}
