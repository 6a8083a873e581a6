//! [`RequestBody`]: the body of a request, decoded and verified as a stream.
//!
//! Invariants: bytes are not copied; [`RequestBody::next`] returns `None` only after every check that the
//! signature demands has passed; a client that is too slow is disconnected; memory does not grow with the
//! declared length. Must not depend on: objects.

use ashlar_environment::time::{self, Instant};
use std::collections::VecDeque;
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use ashlar_checksum::{INLINE_BELOW, Sha256, Sha256Stream};
use bytes::Bytes;
use http::HeaderMap;
use http_body::Body as _;
use hyper::body::Incoming;
use tokio::sync::Semaphore;

use crate::auth::{Payload, Verified};
use crate::chunked::Chunked;
use crate::fault::{Code, Fault, Outcome};

/// Longest silence while a body is awaited.
pub const IDLE: Duration = Duration::from_secs(60);
/// After this long, the body must have come at [`MIN_RATE`] on average.
pub const GRACE: Duration = Duration::from_secs(30);
/// Bytes per second.
pub const MIN_RATE: u64 = 1024;

/// Documents up to this size are read without a place.
const SMALL_DOCUMENT: usize = 64 * 1024;
/// Larger documents that are being read at a time: with the longest, this many times 2 MiB.
static DOCUMENTS: Semaphore = Semaphore::const_new(16);
/// How long one waits for its place.
const PLACE: Duration = Duration::from_secs(4);

/// Where request bytes come from.
pub enum Source {
    /// A connection.
    Hyper(Incoming),
    /// A connection whose body was read to its end.
    Ended,
    /// Memory: bodies already read, and tests.
    Memory(VecDeque<Bytes>),
}

impl Source {
    /// A body in memory.
    pub fn memory(bytes: impl Into<Bytes>) -> Source {
        Source::Memory([bytes.into()].into())
    }

    /// Whether nothing more can come.
    pub fn is_ended(&self) -> bool {
        match self {
            Source::Memory(pieces) => pieces.is_empty(),
            Source::Hyper(incoming) => incoming.is_end_stream(),
            Source::Ended => true,
        }
    }

    /// Reads and drops what is still to come, at most `limit` bytes and `patience`, so that the
    /// client gets to read an early answer. True when the end was reached.
    pub async fn drain(&mut self, limit: u64, patience: Duration) -> bool {
        let mut pace = Pace { begin: None, bytes: 0 };
        let all = async {
            loop {
                match self.frame(&mut pace).await {
                    Ok(None) => return true,
                    Ok(Some(_)) if pace.bytes <= limit => {}
                    Ok(Some(_)) | Err(_) => return false,
                }
            }
        };
        time::timeout(patience, all).await.unwrap_or(false)
    }

    async fn frame(&mut self, pace: &mut Pace) -> Outcome<Option<Bytes>> {
        let incoming = match self {
            Source::Memory(pieces) => return Ok(pieces.pop_front()),
            Source::Ended => return Ok(None),
            Source::Hyper(incoming) => incoming,
        };
        loop {
            let mut next = std::pin::pin!(std::future::poll_fn(|cx| Pin::new(&mut *incoming).poll_frame(cx)));
            let frame = match futures::poll!(next.as_mut()) {
                Poll::Ready(frame) => frame,
                // Only a wait costs a timer.
                Poll::Pending => match time::timeout(pace.patience(), next).await {
                    Ok(frame) => frame,
                    Err(_) => return Err(Fault::new(Code::REQUEST_TIMEOUT).closing()),
                },
            };
            match frame {
                None => {
                    *self = Source::Ended;
                    return Ok(None);
                }
                Some(Err(error)) => {
                    return Err(Fault::new(Code::INCOMPLETE_BODY).because(error).closing());
                }
                Some(Ok(frame)) => {
                    // HTTP trailers are no part of S3.
                    if let Ok(data) = frame.into_data()
                        && !data.is_empty()
                    {
                        pace.took(data.len());
                        return Ok(Some(data));
                    }
                }
            }
        }
    }
}

/// The minimum rate.
struct Pace {
    begin: Option<Instant>,
    bytes: u64,
}

impl Pace {
    fn took(&mut self, n: usize) {
        self.bytes += n as u64;
    }

    /// How long the next frame may take.
    fn patience(&mut self) -> Duration {
        let begin = *self.begin.get_or_insert_with(Instant::now);
        // The moment at which the bytes so far would fall below the rate.
        let due = GRACE.max(Duration::from_secs(self.bytes / MIN_RATE));
        due.saturating_sub(begin.elapsed()).clamp(Duration::from_millis(1), IDLE)
    }
}

/// How the bytes on the wire become the bytes of the object.
enum Form {
    Plain(Option<Check>),
    Chunked(Box<Chunked>),
}

struct Check {
    hash: Hash,
    want: [u8; 32],
}

enum Hash {
    Small(Sha256),
    /// A larger body: beside another one, as far as there is one.
    Large(Sha256Stream),
}

impl Hash {
    fn new(size: Option<u64>) -> Hash {
        match size {
            Some(size) if size < INLINE_BELOW as u64 => Hash::Small(Sha256::new()),
            _ => Hash::Large(Sha256Stream::new()),
        }
    }

    fn update(&mut self, data: &Bytes) {
        match self {
            Hash::Small(hash) => hash.update(data),
            Hash::Large(hash) => hash.update(data),
        }
    }

    async fn finish(self) -> [u8; 32] {
        match self {
            Hash::Small(hash) => hash.finish(),
            Hash::Large(hash) => hash.finish().await,
        }
    }
}

/// A request body being read.
pub struct RequestBody {
    source: Source,
    form: Form,
    pace: Pace,
    rest: Bytes,
    /// Decoded bytes to come; `None`: unknown (no length was given).
    size: Option<u64>,
    seen: u64,
    ended: bool,
    /// How long the server waited for the client, if a trace needs it.
    waited: Option<Duration>,
}

impl RequestBody {
    /// Sets the decoding up from the head of a verified request.
    ///
    /// # Errors
    /// What is wrong with the head, and the body back.
    #[allow(clippy::result_large_err)]
    pub fn new(
        source: Source,
        headers: &HeaderMap,
        verified: &mut Verified,
    ) -> Result<RequestBody, (Fault, Source)> {
        match RequestBody::form_of(headers, verified) {
            Ok((form, size)) => Ok(RequestBody::with(source, form, size)),
            Err(fault) => Err((fault, source)),
        }
    }

    fn form_of(headers: &HeaderMap, verified: &mut Verified) -> Outcome<(Form, Option<u64>)> {
        let chunked_encoding = headers.get("content-encoding").is_some_and(|v| {
            v.to_str().is_ok_and(|v| v.split(',').any(|e| e.trim().eq_ignore_ascii_case("aws-chunked")))
        });
        let chain = verified.take_chain();
        let length = length(headers, "content-length")?;
        let (form, size) = match verified.payload() {
            Payload::Single(want) => {
                (Form::Plain(Some(Check { hash: Hash::new(length), want: *want })), length)
            }
            Payload::Unsigned => (Form::Plain(None), length),
            Payload::Reserved(name) => return Err(Fault::not_implemented(name)),
            mode @ (Payload::Signed | Payload::SignedTrailer | Payload::UnsignedTrailer) => {
                let size = length_required(headers, "x-amz-decoded-content-length")?;
                let declared = match mode {
                    Payload::Signed => None,
                    _ => Some(declared_trailer(headers)?),
                };
                (Form::Chunked(Box::new(Chunked::new(size, chain, declared))), Some(size))
            }
        };
        if chunked_encoding
            && matches!(form, Form::Plain(_))
            && headers.contains_key("x-amz-decoded-content-length")
        {
            return Err(Fault::with(
                Code::INVALID_REQUEST,
                "The body is aws-chunked, but x-amz-content-sha256 does not name a STREAMING payload mode.",
            ));
        }
        Ok((form, size))
    }

    /// A body with no checks of its own, for forms.
    ///
    /// # Errors
    /// As [`RequestBody::new`].
    #[allow(clippy::result_large_err)]
    pub fn unchecked(source: Source, headers: &HeaderMap) -> Result<RequestBody, (Fault, Source)> {
        match length(headers, "content-length") {
            Ok(size) => Ok(RequestBody::with(source, Form::Plain(None), size)),
            Err(fault) => Err((fault, source)),
        }
    }

    fn with(source: Source, form: Form, size: Option<u64>) -> RequestBody {
        RequestBody {
            source,
            form,
            pace: Pace { begin: None, bytes: 0 },
            rest: Bytes::new(),
            size,
            seen: 0,
            ended: false,
            waited: None,
        }
    }

    /// Decoded length, if known.
    pub fn size(&self) -> Option<u64> {
        self.size
    }

    /// Whether the body has been read to its end.
    pub fn is_ended(&self) -> bool {
        self.ended
    }

    /// Bytes taken from the wire so far.
    pub fn received(&self) -> u64 {
        self.pace.bytes
    }

    /// Whether the signature covers every byte that was given so far: of a signed chunk, all of it has come.
    /// What is signed as a whole, or not at all, is not looked at.
    pub fn is_covered(&self) -> bool {
        match &self.form {
            Form::Plain(_) => true,
            Form::Chunked(chunked) => chunked.is_covered(),
        }
    }

    /// Time that the server took and the client is not to be blamed for: its rate is measured without.
    pub fn excuse(&mut self, time: Duration) {
        if let Some(begin) = &mut self.pace.begin {
            *begin += time;
        }
    }

    /// Measures from now on how long the client is waited for.
    pub fn measure(&mut self) {
        self.waited = Some(Duration::ZERO);
    }

    /// How long the client was waited for; 0 unless it is measured.
    pub fn waited(&self) -> Duration {
        self.waited.unwrap_or_default()
    }

    /// The next bytes of the object; `None` once the body has ended and passed its checks.
    pub async fn next(&mut self) -> Outcome<Option<Bytes>> {
        if self.ended {
            return Ok(None);
        }
        loop {
            if self.rest.is_empty() {
                let began = self.waited.map(|_| Instant::now());
                let frame = self.source.frame(&mut self.pace).await?;
                if let (Some(waited), Some(began)) = (&mut self.waited, began) {
                    *waited += began.elapsed();
                }
                match frame {
                    Some(frame) => self.rest = frame,
                    None => {
                        self.end().await?;
                        return Ok(None);
                    }
                }
            }
            match &mut self.form {
                Form::Plain(check) => {
                    let data = std::mem::take(&mut self.rest);
                    if let Some(check) = check {
                        check.hash.update(&data);
                    }
                    self.seen += data.len() as u64;
                    return Ok(Some(data));
                }
                Form::Chunked(chunked) => {
                    if let Some(data) = chunked.take(&mut self.rest)? {
                        self.seen += data.len() as u64;
                        return Ok(Some(data));
                    }
                }
            }
        }
    }

    async fn end(&mut self) -> Outcome<()> {
        if self.size.is_some_and(|size| size != self.seen) {
            return Err(Fault::new(Code::INCOMPLETE_BODY).closing());
        }
        match &mut self.form {
            Form::Plain(None) => {}
            Form::Plain(Some(check)) => {
                // Asked again after a mismatch, the body matches nothing.
                let hash = std::mem::replace(&mut check.hash, Hash::Small(Sha256::new()));
                let sum = hash.finish().await;
                if sum != check.want {
                    return Err(Fault::new(Code::CONTENT_SHA256_MISMATCH)
                        .element("ClientComputedContentSHA256", hex::encode(check.want))
                        .element("S3ComputedContentSHA256", hex::encode(sum)));
                }
            }
            Form::Chunked(chunked) => chunked.end()?,
        }
        self.ended = true;
        Ok(())
    }

    /// A header of the trailer; only after the end.
    pub fn trailer(&self, name: &str) -> Option<&str> {
        match &self.form {
            Form::Chunked(chunked) => {
                chunked.trailers().iter().find(|(n, _)| n == name).map(|(_, v)| v.as_str())
            }
            Form::Plain(_) => None,
        }
    }

    /// Reads all of it, at most `limit` bytes.
    pub async fn collect(&mut self, limit: usize) -> Outcome<Bytes> {
        let too_large = || {
            Fault::with(
                Code::MESSAGE_TOO_LARGE,
                format!("Your request was too large: at most {limit} bytes here."),
            )
            .element("MaxMessageLengthBytes", limit.to_string())
            .closing()
        };
        if self.size.is_some_and(|size| size > limit as u64) {
            return Err(too_large());
        }
        let Some(first) = self.next().await? else { return Ok(Bytes::new()) };
        let Some(second) = self.next().await? else { return Ok(first) };
        let mut all = Vec::with_capacity((first.len() + second.len()).max(8192));
        all.extend_from_slice(&first);
        let mut next = Some(second);
        let mut place = None;
        while let Some(data) = next {
            if all.len() + data.len() > limit {
                return Err(too_large());
            }
            if place.is_none() && all.len() + data.len() > SMALL_DOCUMENT {
                let wait = time::timeout(PLACE, DOCUMENTS.acquire()).await;
                place = Some(wait.map_err(|_| {
                    Fault::new(Code::SLOW_DOWN).because("too many large documents at once").closing()
                })?);
            }
            all.extend_from_slice(&data);
            next = self.next().await?;
        }
        if all.len() > limit {
            return Err(too_large());
        }
        Ok(all.into())
    }

    /// The body, to be passed over after a fault.
    pub fn into_source(self) -> Source {
        self.source
    }
}

/// The names in `x-amz-trailer`.
fn declared_trailer(headers: &HeaderMap) -> Outcome<Vec<String>> {
    let value = headers.get("x-amz-trailer").and_then(|v| v.to_str().ok()).ok_or_else(|| {
        Fault::with(Code::INVALID_REQUEST, "Missing required header for this request: x-amz-trailer")
    })?;
    Ok(value.split(',').map(|n| n.trim().to_ascii_lowercase()).filter(|n| !n.is_empty()).collect())
}

fn length(headers: &HeaderMap, name: &'static str) -> Outcome<Option<u64>> {
    let Some(value) = headers.get(name) else { return Ok(None) };
    let digits = value.as_bytes();
    let good = !digits.is_empty() && digits.len() < 20 && digits.iter().all(u8::is_ascii_digit);
    match value.to_str().ok().filter(|_| good).and_then(|v| v.parse().ok()) {
        Some(n) => Ok(Some(n)),
        None => {
            Err(Fault::with(Code::INVALID_REQUEST, format!("The header {name} must be a number of bytes."))
                .closing())
        }
    }
}

fn length_required(headers: &HeaderMap, name: &'static str) -> Outcome<u64> {
    length(headers, name)?.ok_or_else(|| {
        Fault::with(Code::MISSING_CONTENT_LENGTH, format!("You must provide the {name} HTTP header."))
    })
}
