//! Requests, built byte by byte and signed as AWS documents it.

use std::net::SocketAddr;
use std::time::Duration;

use aws_lc_rs::{digest, hmac};

use super::answer::{Resp, raw};
use super::{KEY, REGION, SECRET, now_ms};

pub fn sha256_hex(data: &[u8]) -> String {
    hex::encode(digest::digest(&digest::SHA256, data))
}

pub fn hmac256(key: &[u8], data: &[u8]) -> Vec<u8> {
    hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), data).as_ref().to_vec()
}

pub fn hmac1(key: &[u8], data: &[u8]) -> Vec<u8> {
    hmac::sign(&hmac::Key::new(hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, key), data).as_ref().to_vec()
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
