//! A server on a real socket over a store in memory, and a client that knows nothing of the crate
//! under test: it builds requests byte by byte and signs them from AWS's description.
#![allow(dead_code)]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as Cx, Poll};
use std::time::Duration;

use ashlar_object::{Options, Store};
use ashlar_s3::{
    Arrival, Config, Context, Credential, HeadScanner, Keys, Origins, Secret, Service, Verifier, Watch,
};
use aws_lc_rs::{digest, hmac};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

pub const KEY: &str = "AKTESTTESTTESTTEST00";
pub const SECRET: &str = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY";
pub const REGION: &str = "us-east-1";

/// A running server; it ends with the test process.
#[derive(Clone)]
pub struct Server {
    pub addr: SocketAddr,
    pub service: Arc<Service>,
}

fn now_ms() -> i64 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_millis() as i64
}

impl Server {
    pub fn start() -> Server {
        Server::with(|_| {})
    }

    pub fn with(change: impl FnOnce(&mut Config) + Send + 'static) -> Server {
        let (send, receive) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async move {
                let store = Store::in_memory(Options { min_part: 1024, ..Options::default() }).await.unwrap();
                let mut config = Config {
                    context: Context {
                        store,
                        region: REGION.into(),
                        owner_id: "0".repeat(64),
                        owner_name: "root".into(),
                        clock: now_ms,
                    },
                    verifier: Verifier {
                        keys: Keys::new(Credential { access_key: KEY.into(), secret: Secret::new(SECRET) }),
                        region: REGION.into(),
                    },
                    domains: vec!["s3.test".into()],
                    origins: Origins::default(),
                    host_id: "host".into(),
                };
                change(&mut config);
                let service = Arc::new(Service::new(config));
                let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
                send.send(Server { addr: listener.local_addr().unwrap(), service: service.clone() }).unwrap();
                loop {
                    let (stream, peer) = listener.accept().await.unwrap();
                    let service = service.clone();
                    tokio::spawn(async move {
                        let watch = Watch::default();
                        let io = TokioIo::new(Scanned { stream, scanner: HeadScanner::new(watch.clone()) });
                        let answer = service_fn(|request| {
                            let (service, watch) = (service.clone(), watch.clone());
                            async move {
                                let arrival = Arrival { peer, tls: false, watch: Some(&watch) };
                                Ok::<_, std::convert::Infallible>(service.handle(request, arrival).await)
                            }
                        });
                        let mut http = http1::Builder::new();
                        http.max_header_size(80 * 1024).max_headers(256).half_close(false);
                        let _ = http.serve_connection(io, answer).await;
                    });
                }
            });
        });
        receive.recv().unwrap()
    }

    /// A signed request.
    pub fn req(&self, method: &str, path: &str) -> Req {
        Req::new(self.addr, method, path)
    }

    pub fn make_bucket(&self, name: &str) {
        self.req("PUT", &format!("/{name}")).send().expect(200);
    }

    pub fn put(&self, path: &str, body: &[u8]) -> Resp {
        self.req("PUT", path).body(body).send()
    }

    pub fn get(&self, path: &str) -> Resp {
        self.req("GET", path).send()
    }
}

struct Scanned {
    stream: tokio::net::TcpStream,
    scanner: HeadScanner,
}

impl AsyncRead for Scanned {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Cx<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        let before = buf.filled().len();
        let result = Pin::new(&mut self.stream).poll_read(cx, buf);
        let new = buf.filled()[before..].to_vec();
        self.scanner.feed(&new);
        result
    }
}

impl AsyncWrite for Scanned {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Cx<'_>, buf: &[u8]) -> Poll<std::io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Cx<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }
    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Cx<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

pub fn sha256_hex(data: &[u8]) -> String {
    hex::encode(digest::digest(&digest::SHA256, data))
}

pub fn hmac256(key: &[u8], data: &[u8]) -> Vec<u8> {
    hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), data).as_ref().to_vec()
}

pub fn hmac1(key: &[u8], data: &[u8]) -> Vec<u8> {
    hmac::sign(&hmac::Key::new(hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, key), data).as_ref().to_vec()
}

pub fn md5_base64(data: &[u8]) -> String {
    STANDARD.encode(ashlar_checksum::md5_once(data))
}

pub fn md5_hex(data: &[u8]) -> String {
    hex::encode(ashlar_checksum::md5_once(data))
}

pub fn checksum(algorithm: &str, data: &[u8]) -> String {
    let algorithm = ashlar_checksum::Algorithm::parse(algorithm).unwrap();
    let mut hasher = ashlar_checksum::Hasher::new(algorithm);
    hasher.update(data);
    hasher.finish().base64()
}

/// Percent-encoding as AWS describes it.
pub fn encode(text: &str, keep_slash: bool) -> String {
    text.bytes()
        .map(|b| match b {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => (b as char).to_string(),
            b'/' if keep_slash => "/".into(),
            b => format!("%{b:02X}"),
        })
        .collect()
}

/// `YYYYMMDDTHHMMSSZ` of so many seconds from now.
pub fn stamp(offset: i64) -> String {
    let at = httpdate::fmt_http_date(
        std::time::SystemTime::UNIX_EPOCH + Duration::from_secs((now_ms() / 1000 + offset) as u64),
    );
    // "Sun, 06 Nov 1994 08:49:37 GMT"
    let months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let month = months.iter().position(|m| *m == &at[8..11]).unwrap() + 1;
    format!("{}{month:02}{}T{}{}{}Z", &at[12..16], &at[5..7], &at[17..19], &at[20..22], &at[23..25])
}

pub fn http_date(offset: i64) -> String {
    httpdate::fmt_http_date(
        std::time::SystemTime::UNIX_EPOCH + Duration::from_secs((now_ms() / 1000 + offset) as u64),
    )
}

pub fn unix(offset: i64) -> i64 {
    now_ms() / 1000 + offset
}

/// How the body is signed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    Hash,
    Unsigned,
    Signed,
    SignedTrailer,
    UnsignedTrailer,
}

/// A request to be signed and sent. Everything can be bent.
#[derive(Clone)]
pub struct Req {
    pub addr: SocketAddr,
    pub method: String,
    /// Raw path as sent.
    pub path: String,
    /// Path that is signed, if another one.
    pub signed_path: Option<String>,
    /// Decoded query.
    pub query: Vec<(String, String)>,
    pub headers: Vec<(String, String)>,
    /// Sent, but left out of the signature.
    pub unsigned: Vec<(String, String)>,
    pub body: Vec<u8>,
    pub mode: Mode,
    pub chunk: usize,
    pub trailers: Vec<(String, String)>,
    pub host: String,
    pub key: String,
    pub secret: String,
    pub region: String,
    pub service: String,
    pub stamp: String,
    pub scope_date: Option<String>,
    /// Not signed at all.
    pub anonymous: bool,
    /// Override of x-amz-content-sha256.
    pub payload: Option<String>,
}

impl Req {
    pub fn new(addr: SocketAddr, method: &str, path: &str) -> Req {
        Req {
            addr,
            method: method.into(),
            path: encode(path, true),
            signed_path: None,
            query: Vec::new(),
            headers: Vec::new(),
            unsigned: Vec::new(),
            body: Vec::new(),
            mode: Mode::Hash,
            chunk: 8192,
            trailers: Vec::new(),
            host: addr.to_string(),
            key: KEY.into(),
            secret: SECRET.into(),
            region: REGION.into(),
            service: "s3".into(),
            stamp: stamp(0),
            scope_date: None,
            anonymous: false,
            payload: None,
        }
    }

    pub fn raw_path(mut self, path: &str) -> Req {
        self.path = path.into();
        self
    }
    pub fn body(mut self, body: impl AsRef<[u8]>) -> Req {
        self.body = body.as_ref().to_vec();
        self
    }
    pub fn mode(mut self, mode: Mode) -> Req {
        self.mode = mode;
        self
    }
    pub fn header(mut self, name: &str, value: impl Into<String>) -> Req {
        self.headers.push((name.into(), value.into()));
        self
    }
    pub fn unsigned(mut self, name: &str, value: impl Into<String>) -> Req {
        self.unsigned.push((name.into(), value.into()));
        self
    }
    pub fn q(mut self, name: &str, value: &str) -> Req {
        self.query.push((name.into(), value.into()));
        self
    }
    pub fn trailer(mut self, name: &str, value: impl Into<String>) -> Req {
        self.trailers.push((name.into(), value.into()));
        self
    }
    pub fn anonymous(mut self) -> Req {
        self.anonymous = true;
        self
    }
    pub fn stamp(mut self, offset: i64) -> Req {
        self.stamp = stamp(offset);
        self
    }
    pub fn set(mut self, change: impl FnOnce(&mut Req)) -> Req {
        change(&mut self);
        self
    }

    fn scope(&self) -> String {
        let date = self.scope_date.clone().unwrap_or_else(|| self.stamp[..8].into());
        format!("{date}/{}/{}/aws4_request", self.region, self.service)
    }

    fn signing_key(&self) -> Vec<u8> {
        let date = self.scope_date.clone().unwrap_or_else(|| self.stamp[..8].into());
        let mut key = hmac256(format!("AWS4{}", self.secret).as_bytes(), date.as_bytes());
        for step in [&self.region, &self.service, "aws4_request"] {
            key = hmac256(&key, step.as_bytes());
        }
        key
    }

    fn decoded_path(&self) -> String {
        // What the server must sign over: decoded, then encoded once.
        let raw = self.signed_path.clone().unwrap_or_else(|| self.path.clone());
        let b = raw.as_bytes();
        let mut out = Vec::new();
        let mut i = 0;
        while i < b.len() {
            if b[i] == b'%' && i + 2 < b.len() && u8::from_str_radix(&raw[i + 1..i + 3], 16).is_ok() {
                out.push(u8::from_str_radix(&raw[i + 1..i + 3], 16).unwrap());
                i += 3;
            } else {
                out.push(b[i]);
                i += 1;
            }
        }
        String::from_utf8_lossy(&out).into_owned()
    }

    fn canonical_query(query: &[(String, String)]) -> String {
        let mut pairs: Vec<_> = query.iter().map(|(n, v)| (encode(n, false), encode(v, false))).collect();
        pairs.sort();
        pairs.iter().map(|(n, v)| format!("{n}={v}")).collect::<Vec<_>>().join("&")
    }

    fn payload_name(&self) -> String {
        if let Some(payload) = &self.payload {
            return payload.clone();
        }
        match self.mode {
            Mode::Hash => sha256_hex(&self.body),
            Mode::Unsigned => "UNSIGNED-PAYLOAD".into(),
            Mode::Signed => "STREAMING-AWS4-HMAC-SHA256-PAYLOAD".into(),
            Mode::SignedTrailer => "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER".into(),
            Mode::UnsignedTrailer => "STREAMING-UNSIGNED-PAYLOAD-TRAILER".into(),
        }
    }

    fn string_to_sign(&self, canonical: &str) -> String {
        format!("AWS4-HMAC-SHA256\n{}\n{}\n{}", self.stamp, self.scope(), sha256_hex(canonical.as_bytes()))
    }

    fn canonical(
        &self,
        headers: &[(String, String)],
        query: &[(String, String)],
        payload: &str,
    ) -> (String, String) {
        let mut sorted: Vec<(String, String)> = headers
            .iter()
            .map(|(n, v)| (n.to_ascii_lowercase(), v.split_whitespace().collect::<Vec<_>>().join(" ")))
            .collect();
        sorted.sort();
        let names = sorted.iter().map(|(n, _)| n.clone()).collect::<Vec<_>>().join(";");
        let lines: String = sorted.iter().map(|(n, v)| format!("{n}:{v}\n")).collect();
        let text = format!(
            "{}\n{}\n{}\n{lines}\n{names}\n{payload}",
            self.method,
            encode(&self.decoded_path(), true),
            Self::canonical_query(query)
        );
        (text, names)
    }

    /// The body as it goes out, given the seed signature.
    pub fn wire_body(&self, seed: &str) -> Vec<u8> {
        if matches!(self.mode, Mode::Hash | Mode::Unsigned) {
            return self.body.clone();
        }
        let signed = matches!(self.mode, Mode::Signed | Mode::SignedTrailer);
        let key = self.signing_key();
        let mut previous = seed.to_owned();
        let mut out = Vec::new();
        let mut chunks: Vec<&[u8]> = self.body.chunks(self.chunk).collect();
        chunks.push(&[]);
        for chunk in chunks {
            if signed {
                let text = format!(
                    "AWS4-HMAC-SHA256-PAYLOAD\n{}\n{}\n{previous}\n{}\n{}",
                    self.stamp,
                    self.scope(),
                    sha256_hex(b""),
                    sha256_hex(chunk)
                );
                previous = hex::encode(hmac256(&key, text.as_bytes()));
                out.extend_from_slice(format!("{:x};chunk-signature={previous}\r\n", chunk.len()).as_bytes());
            } else {
                out.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
            }
            out.extend_from_slice(chunk);
            if !chunk.is_empty() {
                out.extend_from_slice(b"\r\n");
            }
        }
        for (name, value) in &self.trailers {
            out.extend_from_slice(format!("{name}:{value}\r\n").as_bytes());
        }
        if self.mode == Mode::SignedTrailer {
            let canonical: String = self.trailers.iter().map(|(n, v)| format!("{n}:{v}\n")).collect();
            let text = format!(
                "AWS4-HMAC-SHA256-TRAILER\n{}\n{}\n{previous}\n{}",
                self.stamp,
                self.scope(),
                sha256_hex(canonical.as_bytes())
            );
            out.extend_from_slice(
                format!("x-amz-trailer-signature:{}\r\n", hex::encode(hmac256(&key, text.as_bytes())))
                    .as_bytes(),
            );
        }
        out.extend_from_slice(b"\r\n");
        out
    }

    /// Signs with the Authorization header; answers the head and the body as they go out.
    pub fn wire(&self) -> (String, Vec<u8>) {
        let payload = self.payload_name();
        let mut headers = vec![("host".to_owned(), self.host.clone())];
        if !self.anonymous {
            headers.push(("x-amz-date".into(), self.stamp.clone()));
            headers.push(("x-amz-content-sha256".into(), payload.clone()));
        }
        if !matches!(self.mode, Mode::Hash | Mode::Unsigned) {
            headers.push(("x-amz-decoded-content-length".into(), self.body.len().to_string()));
            headers.push(("content-encoding".into(), "aws-chunked".into()));
            if !self.trailers.is_empty() {
                let names: Vec<&str> = self.trailers.iter().map(|(n, _)| n.as_str()).collect();
                headers.push(("x-amz-trailer".into(), names.join(",")));
            }
        }
        // A header given by the test replaces one made here.
        for (name, value) in &self.headers {
            headers.retain(|(n, _)| {
                !n.eq_ignore_ascii_case(name) || self.headers.iter().any(|(m, w)| m == n && w != value)
            });
            headers.push((name.clone(), value.clone()));
        }
        let mut seed = String::new();
        let mut authorization = None;
        if !self.anonymous {
            let (canonical, names) = self.canonical(&headers, &self.query, &payload);
            seed = hex::encode(hmac256(&self.signing_key(), self.string_to_sign(&canonical).as_bytes()));
            authorization = Some(format!(
                "AWS4-HMAC-SHA256 Credential={}/{}, SignedHeaders={names}, Signature={seed}",
                self.key,
                self.scope()
            ));
        }
        let body = self.wire_body(&seed);
        let mut target = self.path.clone();
        if !self.query.is_empty() {
            target.push('?');
            target.push_str(&Self::canonical_query(&self.query));
        }
        let mut head = format!("{} {target} HTTP/1.1\r\n", self.method);
        for (name, value) in headers.iter().chain(&self.unsigned) {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        if let Some(authorization) = authorization {
            head.push_str(&format!("authorization: {authorization}\r\n"));
        }
        let said = |n: &str| headers.iter().chain(&self.unsigned).any(|(m, _)| m.eq_ignore_ascii_case(n));
        if !said("content-length")
            && !said("transfer-encoding")
            && (!body.is_empty() || matches!(self.method.as_str(), "PUT" | "POST"))
        {
            head.push_str(&format!("content-length: {}\r\n", body.len()));
        }
        (head, body)
    }

    pub fn send(&self) -> Resp {
        let (head, body) = self.wire();
        let mut bytes = format!("{head}connection: close\r\n\r\n").into_bytes();
        bytes.extend_from_slice(&body);
        raw(self.addr, &bytes)
    }

    /// The query of a presigned URL. `expires` in seconds.
    pub fn presigned_query(
        &self,
        expires: &str,
        signed_headers: &[(String, String)],
    ) -> Vec<(String, String)> {
        let mut headers = vec![("host".to_owned(), self.host.clone())];
        headers.extend_from_slice(signed_headers);
        let mut names: Vec<String> = headers.iter().map(|(n, _)| n.to_ascii_lowercase()).collect();
        names.sort();
        let mut query = self.query.clone();
        for (name, value) in [
            ("X-Amz-Algorithm", "AWS4-HMAC-SHA256".to_owned()),
            ("X-Amz-Credential", format!("{}/{}", self.key, self.scope())),
            ("X-Amz-Date", self.stamp.clone()),
            ("X-Amz-Expires", expires.to_owned()),
            ("X-Amz-SignedHeaders", names.join(";")),
        ] {
            query.push((name.into(), value));
        }
        let (canonical, _) = self.canonical(&headers, &query, "UNSIGNED-PAYLOAD");
        let signature = hex::encode(hmac256(&self.signing_key(), self.string_to_sign(&canonical).as_bytes()));
        query.push(("X-Amz-Signature".into(), signature));
        query
    }

    /// Sends with a presigned query and the headers given, which are signed.
    pub fn send_presigned(&self, expires: &str) -> Resp {
        let query = self.presigned_query(expires, &self.headers);
        let mut head = format!(
            "{} {}?{} HTTP/1.1\r\nhost: {}\r\n",
            self.method,
            self.path,
            Self::canonical_query(&query),
            self.host
        );
        for (name, value) in self.headers.iter().chain(&self.unsigned) {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        if !self.body.is_empty() || self.method == "PUT" {
            head.push_str(&format!("content-length: {}\r\n", self.body.len()));
        }
        head.push_str("connection: close\r\n\r\n");
        let mut bytes = head.into_bytes();
        bytes.extend_from_slice(&self.body);
        raw(self.addr, &bytes)
    }
}

/// An answer.
#[derive(Debug, Clone)]
pub struct Resp {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Resp {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, v)| v.as_str())
    }
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
    /// `<Code>` of an error document.
    pub fn code(&self) -> String {
        self.tag("Code").unwrap_or_default()
    }
    /// Text of the first element of this name.
    pub fn tag(&self, name: &str) -> Option<String> {
        let text = self.text();
        let from = text.find(&format!("<{name}>"))? + name.len() + 2;
        let to = text[from..].find(&format!("</{name}>"))? + from;
        Some(text[from..to].to_owned())
    }
    /// Texts of all elements of this name.
    pub fn tags(&self, name: &str) -> Vec<String> {
        let text = self.text();
        let (open, close) = (format!("<{name}>"), format!("</{name}>"));
        let mut out = Vec::new();
        let mut rest = text.as_str();
        while let Some(from) = rest.find(&open) {
            rest = &rest[from + open.len()..];
            let Some(to) = rest.find(&close) else { break };
            out.push(rest[..to].to_owned());
            rest = &rest[to..];
        }
        out
    }
    #[track_caller]
    pub fn expect(self, status: u16) -> Resp {
        assert_eq!(self.status, status, "{}", self.text());
        self
    }
    #[track_caller]
    pub fn refused(self, status: u16, code: &str) -> Resp {
        assert_eq!((self.status, self.code().as_str()), (status, code), "{}", self.text());
        assert!(self.header("x-amz-request-id").is_some());
        self
    }
}

/// Sends bytes as they are and reads the answer to its end.
pub fn raw(addr: SocketAddr, bytes: &[u8]) -> Resp {
    let mut stream = TcpStream::connect(addr).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    stream.set_write_timeout(Some(Duration::from_secs(20))).unwrap();
    // The server may answer and close before everything is sent.
    let _ = stream.write_all(bytes);
    let method = String::from_utf8_lossy(&bytes[..bytes.len().min(8)]).into_owned();
    read_response(&mut stream, method.starts_with("HEAD"))
}

/// Reads one answer.
pub fn read_response(stream: &mut impl Read, head: bool) -> Resp {
    let mut data = Vec::new();
    let mut buf = [0u8; 65536];
    let end = loop {
        if let Some(i) = data.windows(4).position(|w| w == b"\r\n\r\n") {
            // Interim answers are passed over.
            if data.starts_with(b"HTTP/1.1 100") {
                data.drain(..i + 4);
                continue;
            }
            break i;
        }
        match stream.read(&mut buf) {
            Ok(0) => panic!("no answer, only {:?}", String::from_utf8_lossy(&data)),
            Ok(n) => data.extend_from_slice(&buf[..n]),
            Err(e) => panic!("no answer ({e}), only {:?}", String::from_utf8_lossy(&data)),
        }
    };
    let text = String::from_utf8_lossy(&data[..end]).into_owned();
    let mut lines = text.split("\r\n");
    let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
    let headers: Vec<(String, String)> =
        lines.filter_map(|l| l.split_once(": ").map(|(n, v)| (n.to_owned(), v.to_owned()))).collect();
    let mut body = data[end + 4..].to_vec();
    let length = headers
        .iter()
        .find(|(n, _)| n.eq_ignore_ascii_case("content-length"))
        .map(|(_, v)| v.parse::<usize>().unwrap());
    let none = head || status == 204 || status == 304;
    let want = if none { 0 } else { length.unwrap_or(usize::MAX) };
    while body.len() < want {
        match stream.read(&mut buf) {
            Ok(0) | Err(_) => break,
            Ok(n) => body.extend_from_slice(&buf[..n]),
        }
    }
    Resp { status, headers, body }
}

/// Bytes that are not all alike.
pub fn noise(n: usize, seed: u64) -> Vec<u8> {
    let mut x = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    (0..n)
        .map(|_| {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
            (x >> 24) as u8
        })
        .collect()
}
