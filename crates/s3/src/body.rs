//! Bodies: what a client sends ([`Intake`]) and what it gets ([`Body`]).
//!
//! Invariants: bytes go through without a copy; [`Intake::next`] says `None` only when every check
//! that the signature asks for has passed; a client that is too slow is cut off; memory does not
//! grow with the declared length. Must never know objects.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use ashlar_checksum::{INLINE_BELOW, Sha256, Sha256Stream};
use bytes::Bytes;
use http::HeaderMap;
use http_body::{Body as _, Frame, SizeHint};
use hyper::body::Incoming;

use crate::auth::{Payload, Verified};
use crate::chunked::Chunked;
use crate::fault::{Code, Fault, Outcome};

/// Longest silence while a body is awaited.
pub const IDLE: Duration = Duration::from_secs(60);
/// After this long, the body must have come at [`MIN_RATE`] on average.
pub const GRACE: Duration = Duration::from_secs(30);
/// Bytes per second.
pub const MIN_RATE: u64 = 1024;

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
        tokio::time::timeout(patience, all).await.unwrap_or(false)
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
                Poll::Pending => match tokio::time::timeout(pace.patience(), next).await {
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
pub struct Intake {
    source: Source,
    form: Form,
    pace: Pace,
    rest: Bytes,
    /// Decoded bytes to come; `None`: unknown (no length was given).
    size: Option<u64>,
    seen: u64,
    ended: bool,
}

impl Intake {
    /// Sets the decoding up from the head of a verified request.
    ///
    /// # Errors
    /// What is wrong with the head, and the body back.
    #[allow(clippy::result_large_err)]
    pub fn new(
        source: Source,
        headers: &HeaderMap,
        verified: &mut Verified,
    ) -> Result<Intake, (Fault, Source)> {
        match Intake::form_of(headers, verified) {
            Ok((form, size)) => Ok(Intake::with(source, form, size)),
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
    /// As [`Intake::new`].
    #[allow(clippy::result_large_err)]
    pub fn unchecked(source: Source, headers: &HeaderMap) -> Result<Intake, (Fault, Source)> {
        match length(headers, "content-length") {
            Ok(size) => Ok(Intake::with(source, Form::Plain(None), size)),
            Err(fault) => Err((fault, source)),
        }
    }

    fn with(source: Source, form: Form, size: Option<u64>) -> Intake {
        Intake {
            source,
            form,
            pace: Pace { begin: None, bytes: 0 },
            rest: Bytes::new(),
            size,
            seen: 0,
            ended: false,
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

    /// The next bytes of the object; `None` once the body has ended and passed its checks.
    pub async fn next(&mut self) -> Outcome<Option<Bytes>> {
        if self.ended {
            return Ok(None);
        }
        loop {
            if self.rest.is_empty() {
                match self.source.frame(&mut self.pace).await? {
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
        while let Some(data) = next {
            if all.len() + data.len() > limit {
                return Err(too_large());
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

/// A read that failed after the head of the answer was sent: the connection breaks.
#[derive(Debug, thiserror::Error)]
#[error("the answer broke off: {0}")]
pub struct Broken(pub String);

/// The bytes of an object, piece by piece.
pub trait Pieces: Send + 'static {
    /// The next piece. Errors break the connection, so that a short answer cannot pass as whole.
    fn next(&mut self) -> impl Future<Output = Option<Result<Bytes, Broken>>> + Send;
}

type Piece = Option<Result<Bytes, Broken>>;
type Pending = Pin<Box<dyn Future<Output = (Box<dyn AnyPieces>, Piece)> + Send>>;

/// [`Pieces`] behind a pointer.
trait AnyPieces: Send {
    fn advance(self: Box<Self>) -> Pending;
}

impl<P: Pieces> AnyPieces for P {
    fn advance(mut self: Box<Self>) -> Pending {
        Box::pin(async move {
            let piece = self.next().await;
            (self as Box<dyn AnyPieces>, piece)
        })
    }
}

/// A response body.
#[derive(Default)]
pub struct Body(Kind);

#[derive(Default)]
enum Kind {
    #[default]
    Empty,
    Whole(Bytes),
    /// Several pieces in memory; they leave in one vectored write.
    Many(VecDeque<Bytes>, u64),
    Stream(Stream),
    Patient(Patient),
}

/// An answer whose document is not known yet: it begins, and white space keeps the client waiting.
struct Patient {
    /// The XML declaration, which must come before any white space.
    begun: bool,
    work: Option<Pin<Box<dyn Future<Output = String> + Send>>>,
    beat: tokio::time::Interval,
}

struct Stream {
    first: Option<Bytes>,
    idle: Option<Box<dyn AnyPieces>>,
    pending: Option<Pending>,
    left: u64,
    /// Told how many bytes went out when the body is dropped.
    sent: u64,
}

impl Body {
    /// No bytes.
    pub fn empty() -> Body {
        Body(Kind::Empty)
    }

    /// All of it.
    pub fn whole(bytes: impl Into<Bytes>) -> Body {
        let bytes = bytes.into();
        if bytes.is_empty() { Body::empty() } else { Body(Kind::Whole(bytes)) }
    }

    /// All of it, in pieces.
    pub fn many(pieces: VecDeque<Bytes>) -> Body {
        let length = pieces.iter().map(|p| p.len() as u64).sum();
        if length == 0 { Body::empty() } else { Body(Kind::Many(pieces, length)) }
    }

    /// The document that `work` gives, without its XML declaration, whenever it is done; white space
    /// every `beat` until then.
    pub fn patient(work: Pin<Box<dyn Future<Output = String> + Send>>, beat: Duration) -> Body {
        let beat = tokio::time::interval_at(tokio::time::Instant::now() + beat, beat);
        Body(Kind::Patient(Patient { begun: false, work: Some(work), beat }))
    }

    /// `length` bytes: `first`, then what `rest` gives.
    pub fn pieces(first: Bytes, rest: impl Pieces, length: u64) -> Body {
        Body(Kind::Stream(Stream {
            first: Some(first),
            idle: Some(Box::new(rest)),
            pending: None,
            left: length,
            sent: 0,
        }))
    }

    /// Bytes still to be sent; 0 if that is not known.
    pub fn len(&self) -> u64 {
        match &self.0 {
            Kind::Empty | Kind::Patient(_) => 0,
            Kind::Whole(bytes) => bytes.len() as u64,
            Kind::Many(_, length) => *length,
            Kind::Stream(stream) => stream.left,
        }
    }

    /// Whether nothing will be sent.
    pub fn is_empty(&self) -> bool {
        match &self.0 {
            Kind::Patient(patient) => patient.work.is_none(),
            _ => self.len() == 0,
        }
    }

    /// All bytes, for tests and for bodies known to be small.
    pub async fn collect(mut self) -> Result<Bytes, Broken> {
        let mut all = Vec::new();
        while let Some(frame) = std::future::poll_fn(|cx| Pin::new(&mut self).poll_frame(cx)).await {
            if let Ok(data) = frame?.into_data() {
                all.extend_from_slice(&data);
            }
        }
        Ok(all.into())
    }
}

impl Stream {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Broken>>> {
        if let Some(first) = self.first.take() {
            return Poll::Ready(self.pass(Some(Ok(first))));
        }
        if self.left == 0 {
            return Poll::Ready(None);
        }
        let pending = match &mut self.pending {
            Some(pending) => pending,
            None => match self.idle.take() {
                Some(pieces) => self.pending.insert(pieces.advance()),
                None => return Poll::Ready(None),
            },
        };
        let (pieces, piece) = std::task::ready!(pending.as_mut().poll(cx));
        self.pending = None;
        self.idle = Some(pieces);
        Poll::Ready(self.pass(piece))
    }

    /// Counts a piece; a body that ends early or runs over is broken, never short.
    fn pass(&mut self, piece: Piece) -> Piece {
        match piece {
            Some(Ok(data)) if data.len() as u64 <= self.left => {
                self.left -= data.len() as u64;
                self.sent += data.len() as u64;
                Some(Ok(data))
            }
            Some(Ok(_)) => Some(Err(Broken("more bytes than announced".into()))),
            Some(Err(broken)) => Some(Err(broken)),
            None => Some(Err(Broken("fewer bytes than announced".into()))),
        }
    }
}

impl Patient {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        let Some(work) = &mut self.work else { return Poll::Ready(None) };
        if !std::mem::replace(&mut self.begun, true) {
            return Poll::Ready(Some(Bytes::from_static(crate::xml::DECLARATION.as_bytes())));
        }
        if let Poll::Ready(document) = work.as_mut().poll(cx) {
            self.work = None;
            let rest = document.strip_prefix(crate::xml::DECLARATION).unwrap_or(&document);
            return Poll::Ready(Some(Bytes::copy_from_slice(rest.as_bytes())));
        }
        std::task::ready!(self.beat.poll_tick(cx));
        Poll::Ready(Some(Bytes::from_static(b" ")))
    }
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = Broken;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
        match &mut self.0 {
            Kind::Empty => Poll::Ready(None),
            Kind::Whole(bytes) => {
                let bytes = std::mem::take(bytes);
                self.0 = Kind::Empty;
                Poll::Ready(Some(Ok(Frame::data(bytes))))
            }
            Kind::Many(pieces, length) => {
                let piece = pieces.pop_front();
                *length -= piece.as_ref().map_or(0, |p| p.len() as u64);
                Poll::Ready(piece.map(|p| Ok(Frame::data(p))))
            }
            Kind::Stream(stream) => stream.poll(cx).map(|piece| piece.map(|p| p.map(Frame::data))),
            Kind::Patient(patient) => patient.poll(cx).map(|piece| piece.map(|p| Ok(Frame::data(p)))),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Kind::Patient(patient) if patient.work.is_some() => SizeHint::default(),
            _ => SizeHint::with_exact(self.len()),
        }
    }
}
