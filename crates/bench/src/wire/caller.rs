//! One worker's client: builds, signs and sends a request, reads its answer, says what happened
//! when.
//!
//! Invariants: at most one request is in flight; times are taken from one monotonic clock, `sent`
//! before the first byte of the request (and before connecting, where that is needed); a body that
//! is compared is compared to the last byte; no allocation once the buffers have grown.
//!
//! What is computed ahead: the signing key of the day. The SHA-256 or checksum of a body is kept
//! from one request to the next only where all objects of a length are the same bytes
//! ([`Slice::is_shared`], constant data); otherwise it is computed for each request, as an SDK does.
//!
//! Must never know: which operation this is, histograms.

use std::{
    io::{self, ErrorKind, Write as _},
    sync::Arc,
    time::{Duration, Instant, SystemTime},
};

use ashlar_checksum::{Algorithm, Hasher, Sha256};
use memchr::{memchr, memmem};

use super::{Framing, Head, Host, Keys, Line, Signer, content::Slice, hex_into, parse, sign::EMPTY_SHA256};

/// Bytes of a signed chunk, as minio-go and the AWS SDKs choose it.
const SIGNED_CHUNK: u64 = 64 << 10;
/// Bytes of an unsigned chunk, as botocore chooses it.
const UNSIGNED_CHUNK: u64 = 1 << 20;
/// Pieces up to this size are gathered before they are sent; longer ones go as they are.
const GATHER: usize = 32 << 10;
/// Bytes kept of an error's message.
const ERROR_BODY: usize = 64 << 10;
/// The most headers that are signed.
const HEADERS: usize = 16;

/// How bodies of objects are covered by the signature.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Payload {
    /// SHA-256 of the body in the head.
    Signed,
    /// `UNSIGNED-PAYLOAD`.
    Unsigned,
    /// `STREAMING-AWS4-HMAC-SHA256-PAYLOAD`: signed chunks of 64 KiB.
    Streaming,
    /// The same with a signed checksum after the last chunk.
    StreamingTrailer,
    /// `STREAMING-UNSIGNED-PAYLOAD-TRAILER`: a checksum follows the data, as the AWS SDKs of 2025
    /// and later do over TLS.
    Trailer,
}

/// What all workers share.
#[derive(Clone)]
pub struct Settings {
    /// Where requests go.
    pub hosts: Vec<Host>,
    /// Needed if a host speaks TLS.
    pub tls: Option<Arc<rustls::ClientConfig>>,
    /// `None` sends anonymous requests.
    pub keys: Option<Keys>,
    /// How long nothing may move before a request has timed out.
    pub timeout: Duration,
    /// How bodies of objects are signed.
    pub payload: Payload,
    /// The checksum sent with objects; the trailing modes need one.
    pub checksum: Option<Algorithm>,
    /// Whether the bucket goes into the host's name.
    pub virtual_host: bool,
}

/// The methods that are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Methods {
    /// Read.
    Get,
    /// Read the head.
    Head,
    /// Write.
    Put,
    /// Everything else.
    Post,
    /// Remove.
    Delete,
}

impl Methods {
    fn name(self) -> &'static str {
        match self {
            Methods::Get => "GET",
            Methods::Head => "HEAD",
            Methods::Put => "PUT",
            Methods::Post => "POST",
            Methods::Delete => "DELETE",
        }
    }
}

/// One request.
#[derive(Clone, Copy)]
pub struct Request<'a> {
    /// Its method.
    pub method: Methods,
    /// The position of its host in [`Settings::hosts`].
    pub host: usize,
    /// Its bucket.
    pub bucket: &'a str,
    /// The key, percent-encoded, after a slash; `/` for the bucket itself.
    pub path: &'a str,
    /// The canonical query: encoded, sorted.
    pub query: &'a str,
    /// Further headers, names in lower case; they are signed.
    pub headers: &'a [(&'a str, &'a str)],
    /// The body.
    pub body: Option<Slice<'a>>,
    /// Whether the body is an object's and goes as [`Settings::payload`] says.
    pub object: bool,
    /// Whether it may be sent again if a kept connection turns out to be closed.
    pub again: bool,
}

impl<'a> Request<'a> {
    /// A request without body, query or further headers that may be repeated.
    pub fn new(method: Methods, host: usize, bucket: &'a str, path: &'a str) -> Request<'a> {
        Request {
            method,
            host,
            bucket,
            path,
            query: "",
            headers: &[],
            body: None,
            object: false,
            again: true,
        }
    }
}

/// What becomes of a good answer's body.
#[derive(Clone, Copy)]
pub enum Sink<'a> {
    /// Counted.
    Discard,
    /// Compared byte by byte.
    Compare(Slice<'a>),
    /// Kept in [`Caller::kept`], at most so many bytes; more is a malformed answer.
    Keep(usize),
}

/// What an answer was.
#[derive(Clone, Copy, Debug)]
pub struct Answer {
    /// The status code.
    pub status: u16,
    /// Bytes of its body.
    pub bytes: u64,
    /// Of those, how many were compared and right.
    pub verified: u64,
    /// Just before the request was sent.
    pub sent: Instant,
    /// When the first bytes of the body were there; `None` without a body.
    pub first_byte: Option<Instant>,
    /// When the last byte was.
    pub ended: Instant,
}

/// Why there is no usable answer.
#[derive(Debug, PartialEq, Eq)]
pub enum Fault {
    /// Nothing moved for too long.
    Timeout,
    /// No connection, or it broke.
    Connection(ErrorKind),
    /// The answer is no HTTP, or too long.
    Malformed(&'static str),
    /// The body is not what was written.
    WrongBytes,
}

impl From<io::Error> for Fault {
    fn from(error: io::Error) -> Fault {
        match error.kind() {
            ErrorKind::WouldBlock | ErrorKind::TimedOut => Fault::Timeout,
            ErrorKind::InvalidData => Fault::Malformed("too long a head, or no TLS"),
            kind => Fault::Connection(kind),
        }
    }
}

impl Fault {
    /// The class it is counted under.
    pub fn class(&self) -> &'static str {
        match self {
            Fault::Timeout => "timeout",
            Fault::Connection(_) => "connection",
            Fault::Malformed(_) => "malformed-answer",
            Fault::WrongBytes => "wrong-bytes",
        }
    }
}

/// What is known of a body that all objects of its length share.
struct Memo {
    len: u64,
    sha256: Option<[u8; 64]>,
    checksum: Option<String>,
}

/// One worker's client.
pub struct Caller {
    settings: Arc<Settings>,
    signer: Option<Signer>,
    lines: Vec<Option<Line>>,
    head: Vec<u8>,
    target: String,
    host: String,
    memo: Option<Memo>,
    /// The body of an error, or of an answer that was to be kept.
    pub kept: Vec<u8>,
    /// The entity tag of the last answer, with its quotes; empty without one.
    pub etag: String,
    /// The version id of the last answer; empty without one.
    pub version: String,
    /// How often a kept connection was closed by the server and a request sent again.
    pub reconnects: u64,
}

impl Caller {
    /// A client that connects when it first has to.
    pub fn new(settings: Arc<Settings>) -> Caller {
        let lines = settings.hosts.iter().map(|_| None).collect();
        Caller {
            signer: settings.keys.clone().map(Signer::new),
            settings,
            lines,
            head: Vec::with_capacity(2048),
            target: String::with_capacity(256),
            host: String::with_capacity(64),
            memo: None,
            kept: Vec::new(),
            etag: String::new(),
            version: String::new(),
            reconnects: 0,
        }
    }

    /// The S3 error code in [`Caller::kept`]; empty if there is none.
    pub fn code(&self) -> &str {
        between(&self.kept, b"<Code>", b"</Code>").unwrap_or("")
    }

    /// Sends a request and reads its answer; any status is an answer.
    pub fn call(&mut self, request: &Request<'_>, sink: Sink<'_>) -> Result<Answer, Fault> {
        let seed = self.build(request);
        let sent = Instant::now();
        let kept_line = self.lines[request.host].take();
        let fresh = kept_line.is_none();
        let mut line = match kept_line {
            Some(line) => line,
            None => self.connect(request.host)?,
        };
        let mut begun = false;
        match self.exchange(&mut line, request, seed, sink, sent, &mut begun) {
            // The server closed a connection that it had kept: usual, and no fault of the request.
            Err(Fault::Connection(_)) if !fresh && !begun && request.again => {
                self.reconnects += 1;
                line = self.connect(request.host)?;
                self.exchange(&mut line, request, seed, sink, sent, &mut begun)
            }
            other => other,
        }
        .map(|(answer, keep)| {
            if keep {
                line.used += 1;
                self.lines[request.host] = Some(line);
            }
            answer
        })
    }

    fn connect(&self, host: usize) -> Result<Line, Fault> {
        let settings = &self.settings;
        Ok(Line::connect(&settings.hosts[host], settings.tls.as_ref(), settings.timeout)?)
    }

    /// Writes the head into `self.head` and returns the signature that a chain of chunks begins with.
    fn build(&mut self, request: &Request<'_>) -> [u8; 64] {
        let Caller { settings, signer, head, target, host, memo, .. } = self;
        host.clear();
        target.clear();
        if settings.virtual_host {
            host.push_str(request.bucket);
            host.push('.');
        } else {
            target.push('/');
            target.push_str(request.bucket);
        }
        host.push_str(&settings.hosts[request.host].authority);
        if settings.virtual_host || request.path != "/" {
            target.push_str(request.path);
        }
        let body_len = request.body.map_or(0, |b| b.len());
        let payload = if request.object { settings.payload } else { Payload::Signed };
        let checksum = settings.checksum.filter(|_| request.object);
        let mut numbers = [0_u8; 20];
        let mut sha = [0_u8; 64];
        let mut sum = String::new();
        let mut list = List { items: [("", ""); HEADERS], len: 0 };
        let token = match (payload, request.body) {
            (Payload::Signed, Some(body)) if signer.is_some() => {
                sha =
                    match memo.as_ref().filter(|m| body.is_shared() && request.object && m.len == body.len())
                    {
                        Some(Memo { sha256: Some(known), .. }) => *known,
                        _ => sha256_hex(&body),
                    };
                std::str::from_utf8(&sha).expect("hexadecimal digits")
            }
            (Payload::Signed, None) => EMPTY_SHA256,
            (Payload::Signed | Payload::Unsigned, _) => "UNSIGNED-PAYLOAD",
            (Payload::Streaming, _) => "STREAMING-AWS4-HMAC-SHA256-PAYLOAD",
            (Payload::StreamingTrailer, _) => "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER",
            (Payload::Trailer, _) => "STREAMING-UNSIGNED-PAYLOAD-TRAILER",
        };
        let mut length = body_len;
        match payload {
            Payload::Signed | Payload::Unsigned => {
                if let (Some(algorithm), Some(body)) = (checksum, request.body) {
                    let known = memo.as_mut().filter(|m| body.is_shared() && m.len == body.len());
                    sum = match known.and_then(|m| m.checksum.clone()) {
                        Some(sum) => sum,
                        None => checksum_of(algorithm, &body),
                    };
                    list.add(header_name(algorithm), &sum);
                    list.add("x-amz-sdk-checksum-algorithm", algorithm.name());
                }
            }
            Payload::Streaming | Payload::StreamingTrailer | Payload::Trailer => {
                let trailer = checksum.filter(|_| payload != Payload::Streaming);
                length = encoded_len(body_len, payload, trailer);
                list.add("content-encoding", "aws-chunked");
                list.add("x-amz-decoded-content-length", decimal(&mut numbers, body_len));
                if let Some(algorithm) = trailer {
                    list.add("x-amz-sdk-checksum-algorithm", algorithm.name());
                    list.add("x-amz-trailer", header_name(algorithm));
                }
            }
        }
        list.add("host", host);
        for (name, value) in request.headers {
            list.add(name, value);
        }
        head.clear();
        for piece in [request.method.name(), " ", target] {
            head.extend_from_slice(piece.as_bytes());
        }
        if !request.query.is_empty() {
            head.push(b'?');
            head.extend_from_slice(request.query.as_bytes());
        }
        head.extend_from_slice(b" HTTP/1.1\r\n");
        let mut seed = [b'0'; 64];
        let mut date = [0_u8; 16];
        if let Some(signer) = signer {
            signer.at(SystemTime::now());
            date.copy_from_slice(signer.date().as_bytes());
            let secret_token = signer.token().map(str::to_owned);
            list.add("x-amz-content-sha256", token);
            list.add("x-amz-date", std::str::from_utf8(&date).expect("digits"));
            if let Some(secret_token) = &secret_token {
                list.add("x-amz-security-token", secret_token);
            }
            list.write(head);
            head.extend_from_slice(b"authorization: ");
            let name = request.method.name();
            let path = if target.is_empty() { "/" } else { target.as_str() };
            seed = signer.authorize(head, name, path, request.query, list.items(), token);
            head.extend_from_slice(b"\r\n");
        } else {
            list.write(head);
        }
        if request.body.is_some() || matches!(request.method, Methods::Put | Methods::Post) {
            let mut digits = [0_u8; 20];
            head.extend_from_slice(b"content-length: ");
            head.extend_from_slice(decimal(&mut digits, length).as_bytes());
            head.extend_from_slice(b"\r\n");
        }
        head.extend_from_slice(
            concat!("user-agent: ashlar-bench/", env!("CARGO_PKG_VERSION"), "\r\n\r\n").as_bytes(),
        );
        if let Some(body) = request.body.filter(|b| b.is_shared() && request.object) {
            *memo = Some(Memo {
                len: body.len(),
                sha256: (token.len() == 64).then_some(sha),
                checksum: (!sum.is_empty()).then_some(sum),
            });
        }
        seed
    }

    fn exchange(
        &mut self,
        line: &mut Line,
        request: &Request<'_>,
        seed: [u8; 64],
        sink: Sink<'_>,
        sent: Instant,
        begun: &mut bool,
    ) -> Result<(Answer, bool), Fault> {
        let whole = match self.send(line, request, seed) {
            Ok(()) => true,
            // A server may refuse a body before it has read it, and close: then it has answered.
            Err(error) if broken(&error) && request.body.is_some() => false,
            Err(error) => return Err(error.into()),
        };
        let mut arrived;
        let head = loop {
            if line.receive()? == 0 {
                return Err(Fault::Connection(ErrorKind::UnexpectedEof));
            }
            arrived = Instant::now();
            *begun = true;
            match parse(line.held()).map_err(Fault::Malformed)? {
                Some(head) if (100..200).contains(&head.status) => {
                    line.take(head.len);
                    if let Some(head) = parse(line.held()).map_err(Fault::Malformed)? {
                        break head;
                    }
                }
                Some(head) => break head,
                None => {}
            }
        };
        copy(&mut self.etag, line.held(), head.etag);
        copy(&mut self.version, line.held(), head.version);
        line.take(head.len);
        self.kept.clear();
        let sink = if head.status >= 300 { Sink::Keep(ERROR_BODY) } else { sink };
        let mut reader = Reader { sink, kept: &mut self.kept, bytes: 0, wrong: false };
        let bodyless = request.method == Methods::Head || matches!(head.status, 204 | 304);
        let mut first_byte = None;
        let (arrived, ended) = if bodyless {
            (arrived, arrived)
        } else {
            body(line, &head, &mut reader, arrived, &mut first_byte)?
        };
        let _ = arrived;
        let Reader { bytes, wrong, .. } = reader;
        let compared = matches!(sink, Sink::Compare(_));
        if let Sink::Compare(expected) = sink
            && (wrong || bytes != expected.len())
        {
            return Err(Fault::WrongBytes);
        }
        let verified = if compared { bytes } else { 0 };
        let keep = whole && !head.close && head.framing != Framing::Close;
        Ok((
            Answer { status: head.status, bytes, verified, sent, first_byte, ended },
            keep || (bodyless && whole && !head.close),
        ))
    }

    fn send(&mut self, line: &mut Line, request: &Request<'_>, seed: [u8; 64]) -> io::Result<()> {
        let Some(body) = request.body else { return line.send(&self.head, &[]) };
        let payload = if request.object { self.settings.payload } else { Payload::Signed };
        if !matches!(payload, Payload::Signed | Payload::Unsigned) {
            return self.send_chunks(line, body, payload, seed);
        }
        let mut at = 0;
        loop {
            let piece = body.piece(at, u64::MAX);
            at += piece.len() as u64;
            if at < body.len() && piece.len() <= GATHER {
                self.head.extend_from_slice(piece);
                continue;
            }
            line.send(&self.head, piece)?;
            self.head.clear();
            if at >= body.len() {
                return Ok(());
            }
        }
    }

    /// Sends a body as `aws-chunked`. Pieces go after one another; what is small is gathered.
    fn send_chunks(
        &mut self,
        line: &mut Line,
        body: Slice<'_>,
        payload: Payload,
        seed: [u8; 64],
    ) -> io::Result<()> {
        let Caller { signer, head, settings, .. } = self;
        let mut signer = signer.as_mut().filter(|_| payload != Payload::Trailer);
        let algorithm = settings.checksum.filter(|_| payload != Payload::Streaming);
        let mut checksum = algorithm.map(Hasher::new);
        let most = if payload == Payload::Trailer { UNSIGNED_CHUNK } else { SIGNED_CHUNK };
        let mut previous = seed;
        let mut at = 0;
        loop {
            let to = (at + most).min(body.len());
            write!(head, "{:x}", to - at)?;
            if let Some(signer) = &mut signer {
                let mut hash = Sha256::new();
                body.each(at, to, |piece| hash.update(piece));
                previous = signer.chunk(&previous, &hash.finish());
                head.extend_from_slice(b";chunk-signature=");
                head.extend_from_slice(&previous);
            }
            head.extend_from_slice(b"\r\n");
            if at == to {
                break;
            }
            let mut failed = Ok(());
            body.each(at, to, |piece| {
                if let Some(checksum) = &mut checksum {
                    checksum.update(piece);
                }
                if failed.is_ok() && piece.len() > GATHER {
                    failed = line.send(head, piece);
                    head.clear();
                } else {
                    head.extend_from_slice(piece);
                }
            });
            failed?;
            head.extend_from_slice(b"\r\n");
            at = to;
        }
        if let (Some(checksum), Some(algorithm)) = (checksum, algorithm) {
            let from = head.len();
            let value = checksum.finish().base64();
            write!(head, "{}:{value}\n", header_name(algorithm))?;
            let signature = signer.map(|signer| signer.trailer(&previous, &head[from..]));
            head.pop();
            head.extend_from_slice(b"\r\n");
            if let Some(signature) = signature {
                head.extend_from_slice(b"x-amz-trailer-signature:");
                head.extend_from_slice(&signature);
                head.extend_from_slice(b"\r\n");
            }
        }
        head.extend_from_slice(b"\r\n");
        line.send(head, &[])
    }
}

fn broken(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset | ErrorKind::ConnectionAborted)
}

fn copy(to: &mut String, from: &[u8], place: Option<(usize, usize)>) {
    to.clear();
    if let Some(text) = place.and_then(|(a, b)| std::str::from_utf8(&from[a..b]).ok()) {
        to.push_str(text);
    }
}

/// The text between two marks.
pub(crate) fn between<'a>(bytes: &'a [u8], open: &[u8], close: &[u8]) -> Option<&'a str> {
    let from = memmem::find(bytes, open)? + open.len();
    let len = memmem::find(&bytes[from..], close)?;
    std::str::from_utf8(&bytes[from..from + len]).ok()
}

/// Takes in a body.
struct Reader<'a> {
    sink: Sink<'a>,
    kept: &'a mut Vec<u8>,
    bytes: u64,
    wrong: bool,
}

impl Reader<'_> {
    fn data(&mut self, bytes: &[u8]) -> Result<(), Fault> {
        match self.sink {
            Sink::Discard => {}
            // Read on after a mismatch, so that the connection stays usable and the time is whole.
            Sink::Compare(expected) => self.wrong |= !expected.equals(self.bytes, bytes),
            Sink::Keep(limit) => {
                if self.kept.len() + bytes.len() > limit {
                    return Err(Fault::Malformed("too long an answer"));
                }
                self.kept.extend_from_slice(bytes);
            }
        }
        self.bytes += bytes.len() as u64;
        Ok(())
    }
}

/// Reads a body to its end; returns when its first bytes and its last were there.
fn body(
    line: &mut Line,
    head: &Head,
    reader: &mut Reader<'_>,
    mut now: Instant,
    first: &mut Option<Instant>,
) -> Result<(Instant, Instant), Fault> {
    let mut left = match head.framing {
        Framing::Length(n) => n,
        Framing::Close | Framing::Chunked => 0,
    };
    let mut last_chunk = false;
    loop {
        let held = line.held();
        if !held.is_empty() && first.is_none() {
            *first = Some(now);
        }
        match head.framing {
            Framing::Length(_) | Framing::Close => {
                let all = held.len();
                let n = if head.framing == Framing::Close {
                    all
                } else {
                    all.min(usize::try_from(left).unwrap_or(all))
                };
                reader.data(&held[..n])?;
                line.take(n);
                left = left.saturating_sub(n as u64);
                if left == 0 && head.framing != Framing::Close {
                    return Ok((first.unwrap_or(now), now));
                }
            }
            Framing::Chunked => {
                if chunks(line, reader, &mut left, &mut last_chunk)? {
                    return Ok((first.unwrap_or(now), now));
                }
            }
        }
        let n = line.receive()?;
        now = Instant::now();
        if n == 0 {
            return match head.framing {
                Framing::Close => Ok((first.unwrap_or(now), now)),
                _ => Err(Fault::Connection(ErrorKind::UnexpectedEof)),
            };
        }
    }
}

/// Takes what is held of a chunked body; `true` at its end. `left` counts the bytes of the chunk
/// that is being read and its line end.
fn chunks(line: &mut Line, reader: &mut Reader<'_>, left: &mut u64, last: &mut bool) -> Result<bool, Fault> {
    loop {
        let held = line.held();
        if *left > 0 {
            if held.is_empty() {
                return Ok(false);
            }
            let n = held.len().min(usize::try_from(*left).unwrap_or(usize::MAX));
            // The two last bytes are the line end.
            let data = left.saturating_sub(2).min(n as u64) as usize;
            reader.data(&held[..data])?;
            *left -= n as u64;
            line.take(n);
            continue;
        }
        let Some(end) = memchr(b'\n', held) else { return Ok(false) };
        let text = held[..end].trim_ascii();
        if *last {
            // Trailing headers, then an empty line.
            let done = text.is_empty();
            line.take(end + 1);
            if done {
                return Ok(true);
            }
            continue;
        }
        let digits = text.split(|b| *b == b';').next().unwrap_or_default().trim_ascii();
        let size = std::str::from_utf8(digits).ok().and_then(|t| u64::from_str_radix(t, 16).ok());
        let size = size.filter(|s| *s <= 1 << 40).ok_or(Fault::Malformed("a bad chunk"))?;
        line.take(end + 1);
        *last = size == 0;
        *left = if size == 0 { 0 } else { size + 2 };
    }
}

/// Headers in the order of their names.
struct List<'a> {
    items: [(&'a str, &'a str); HEADERS],
    len: usize,
}

impl<'a> List<'a> {
    fn add(&mut self, name: &'a str, value: &'a str) {
        assert!(self.len < HEADERS, "requests have few headers");
        let mut at = self.len;
        while at > 0 && self.items[at - 1].0 > name {
            self.items[at] = self.items[at - 1];
            at -= 1;
        }
        self.items[at] = (name, value);
        self.len += 1;
    }

    fn items(&self) -> &[(&'a str, &'a str)] {
        &self.items[..self.len]
    }

    fn write(&self, out: &mut Vec<u8>) {
        for (name, value) in self.items() {
            out.extend_from_slice(name.as_bytes());
            out.extend_from_slice(b": ");
            out.extend_from_slice(value.as_bytes());
            out.extend_from_slice(b"\r\n");
        }
    }
}

fn decimal(buffer: &mut [u8; 20], mut value: u64) -> &str {
    let mut at = buffer.len();
    loop {
        at -= 1;
        buffer[at] = b'0' + (value % 10) as u8;
        value /= 10;
        if value == 0 {
            return std::str::from_utf8(&buffer[at..]).expect("digits");
        }
    }
}

fn sha256_hex(body: &Slice<'_>) -> [u8; 64] {
    let mut hash = Sha256::new();
    body.each(0, body.len(), |piece| hash.update(piece));
    let mut hex = Vec::with_capacity(64);
    hex_into(&mut hex, &hash.finish());
    hex.try_into().expect("32 bytes are 64 digits")
}

fn checksum_of(algorithm: Algorithm, body: &Slice<'_>) -> String {
    let mut hasher = Hasher::new(algorithm);
    body.each(0, body.len(), |piece| hasher.update(piece));
    hasher.finish().base64()
}

fn header_name(algorithm: Algorithm) -> &'static str {
    match algorithm {
        Algorithm::Crc32 => "x-amz-checksum-crc32",
        Algorithm::Crc32c => "x-amz-checksum-crc32c",
        Algorithm::Crc64Nvme => "x-amz-checksum-crc64nvme",
        Algorithm::Sha1 => "x-amz-checksum-sha1",
        Algorithm::Sha256 => "x-amz-checksum-sha256",
    }
}

/// Bytes of a body of `len` once it is framed.
fn encoded_len(len: u64, payload: Payload, trailer: Option<Algorithm>) -> u64 {
    let signed = payload != Payload::Trailer;
    let chunk = if signed { SIGNED_CHUNK } else { UNSIGNED_CHUNK };
    let signature = if signed { 17 + 64 } else { 0 };
    let digits = |n: u64| u64::from((64 - n.leading_zeros()).div_ceil(4).max(1));
    let framed = |n: u64| digits(n) + signature + 2 + n + 2;
    let mut total = len / chunk * framed(chunk);
    if !len.is_multiple_of(chunk) {
        total += framed(len % chunk);
    }
    total += 1 + signature + 2 + 2;
    if let Some(algorithm) = trailer {
        let value = algorithm.digest_len().div_ceil(3) * 4;
        total += (header_name(algorithm).len() + 1 + value + 2) as u64;
        total += if signed { 24 + 64 + 2 } else { 0 };
    }
    total
}
