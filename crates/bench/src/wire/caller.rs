//! One worker's client: builds, signs and sends a request, reads its answer, and returns what happened when.
//!
//! Invariants: at most one request is in flight; times are taken from one monotonic clock, `sent` before the
//! first byte of the request (and before connecting, if that is needed); a compared body is compared to the
//! last byte; no allocation once the buffers have grown.
//!
//! Only the signing key of the day is computed in advance. The SHA-256 or checksum of a body is kept from one
//! request to the next only where all objects of a length are the same bytes ([`Slice::is_shared`], constant
//! data); otherwise it is computed for each request, as an SDK does.
//!
//! Must not depend on: operations, histograms.

use std::{
    io::{self, ErrorKind, Write as _},
    sync::Arc,
    time::{Instant, SystemTime},
};

use ashlar_checksum::{Hasher, Sha256};

use super::{
    Answer, Buffer, Fault, Framing, Line, Methods, Payload, Request, Settings, Signer, Sink,
    content::Slice,
    framed::{List, SIGNED_CHUNK, UNSIGNED_CHUNK, checksum_of, decimal, encoded_len, sha256_hex},
    parse,
    read::{Reader, between, body},
    sign::EMPTY_SHA256,
};

/// Pieces up to this size are gathered before they are sent; longer ones go as they are.
const GATHER: usize = 32 << 10;
/// Bytes kept of an error's message.
const ERROR_BODY: usize = 64 << 10;

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
    buffer: Buffer,
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
            buffer: Buffer::new(),
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
        .and_then(|(answer, keep, wrong)| {
            if keep {
                self.lines[request.host] = Some(line);
            }
            if wrong { Err(Fault::WrongBytes) } else { Ok(answer) }
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
        let mut list = List::new();
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
                    list.add(algorithm.header(), &sum);
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
                    list.add("x-amz-trailer", algorithm.header());
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

    /// Returns the answer, whether the connection can be used again, and whether its bytes are wrong.
    fn exchange(
        &mut self,
        line: &mut Line,
        request: &Request<'_>,
        seed: [u8; 64],
        sink: Sink<'_>,
        sent: Instant,
        begun: &mut bool,
    ) -> Result<(Answer, bool, bool), Fault> {
        let whole = match self.send(line, request, seed) {
            Ok(()) => true,
            // A server may refuse a body before it has read it, and close: then it has answered.
            Err(error) if broken(&error) && request.body.is_some() => false,
            Err(error) => return Err(error.into()),
        };
        self.buffer.clear();
        let mut arrived;
        let head = loop {
            if self.buffer.receive(line)? == 0 {
                return Err(Fault::Connection(ErrorKind::UnexpectedEof));
            }
            arrived = Instant::now();
            *begun = true;
            match parse(self.buffer.held()).map_err(Fault::Malformed)? {
                Some(head) if (100..200).contains(&head.status) => {
                    self.buffer.take(head.len);
                    if let Some(head) = parse(self.buffer.held()).map_err(Fault::Malformed)? {
                        break head;
                    }
                }
                Some(head) => break head,
                None => {}
            }
        };
        copy(&mut self.etag, self.buffer.held(), head.etag);
        copy(&mut self.version, self.buffer.held(), head.version);
        self.buffer.take(head.len);
        self.kept.clear();
        let sink = if head.status >= 300 { Sink::Keep(ERROR_BODY) } else { sink };
        let mut reader = Reader { sink, kept: &mut self.kept, bytes: 0, wrong: false };
        let bodyless = request.method == Methods::Head || matches!(head.status, 204 | 304);
        let mut first_byte = None;
        let ended = if bodyless {
            arrived
        } else {
            body(line, &mut self.buffer, &head, &mut reader, arrived, &mut first_byte)?
        };
        let Reader { bytes, wrong, .. } = reader;
        let wrong = match sink {
            Sink::Compare(expected) => wrong || bytes != expected.len(),
            _ => false,
        };
        let verified = if matches!(sink, Sink::Compare(_)) { bytes } else { 0 };
        // Unexpected bytes after an answer: the connection is out of step and must not be reused.
        let in_step = whole && !head.close && self.buffer.held().is_empty();
        let keep = in_step && (bodyless || head.framing != Framing::Close);
        Ok((Answer { status: head.status, bytes, verified, sent, first_byte, ended }, keep, wrong))
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
            writeln!(head, "{}:{value}", algorithm.header())?;
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
