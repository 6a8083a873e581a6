//! A folder as one file: all objects below a prefix as a ZIP archive, sent as they are read.
//!
//! `GET s3/BUCKET/PREFIX?ashlar-zip` with a ticket. Lists and reads are calls to S3 with the session's credentials, as the
//! page could make them itself: permissions, audit log and trace are those of any client. The list is read first, so that
//! the browser knows how long the file is; each object is then read on the condition that it is still the one of the list.
//!
//! Invariants: at most [`ENTRIES`] objects, whose names are in memory; at most [`AT_ONCE`] archives at once; an archive that
//! lacks anything breaks off, so that it cannot pass as whole.
//!
//! Must not depend on: the format (`zip`), cookies.

use std::pin::Pin;
use std::sync::Arc;

use ashlar_iam::Identity;
use ashlar_s3::body::{Broken, Pieces};
use ashlar_s3::{Arrival, Body, Service, Source};
use bytes::Bytes;
use futures::future::BoxFuture;
use http::header::{self, HeaderMap, HeaderValue};
use http::request::Parts;
use http::{Method, Request, Response, StatusCode, Uri};
use hyper::body::Body as _;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::gateway::{Handled, Refusal};
use crate::sign::{Signer, UNSIGNED};
use crate::sign_in::leaf;
use crate::zip::{Entry, Names, Written, directory, length};

/// The parameter that asks for an archive.
pub(crate) const ZIP: &str = "ashlar-zip";
/// Most objects of an archive.
const ENTRIES: usize = 100_000;
/// Most archives that are sent at once.
pub(crate) const AT_ONCE: usize = 8;

/// Whether a download asks for an archive.
pub(crate) fn is_asked_for(target: &Uri) -> bool {
    target.query().unwrap_or_default().split('&').any(|pair| pair == ZIP)
}

/// Who reads, and in whose name calls are signed.
pub(crate) struct Reader {
    pub service: Arc<Service>,
    pub identity: Arc<Identity>,
    pub token: String,
    /// Host and user agent of the browser's request.
    pub headers: HeaderMap,
    pub peer: std::net::SocketAddr,
    pub tls: bool,
}

impl Reader {
    /// A read of S3. `if_match`: only if the object has this entity tag.
    fn get<'a>(
        &'a self,
        target: &'a str,
        if_match: Option<&'a str>,
    ) -> BoxFuture<'a, Result<Response<Body>, String>> {
        Box::pin(async move {
            let uri: Uri = target.parse().map_err(|_| "an address that cannot be read".to_owned())?;
            let mut parts: Parts = Request::builder()
                .method(Method::GET)
                .uri(uri)
                .body(())
                .map_err(|e| e.to_string())?
                .into_parts()
                .0;
            parts.headers = self.headers.clone();
            if let Some(tag) = if_match.and_then(|tag| HeaderValue::from_str(tag).ok()) {
                parts.headers.insert(header::IF_MATCH, tag);
            }
            let context = self.service.context();
            let signer = Signer {
                access_key: &self.identity.access_key,
                secret: self.identity.secret.expose(),
                token: Some(&self.token),
                region: &context.region,
                now_s: (context.clock)().div_euclid(1000),
            };
            signer.sign(&mut parts, "s3", UNSIGNED).map_err(|fault| fault.message().to_owned())?;
            let arrival = Arrival { peer: self.peer, tls: self.tls, certificates: &[], watch: None };
            Ok(self.service.answer(parts, Source::memory(String::new()), arrival).await)
        })
    }

    /// All objects whose keys begin with `prefix`: their keys, entity tags and entries.
    async fn list(&self, bucket: &str, prefix: &str) -> Result<Vec<Found>, Refusal> {
        let failed = |why: String| Refusal(StatusCode::INTERNAL_SERVER_ERROR, "InternalError", why);
        let (mut all, mut names, mut token) = (Vec::new(), Names::new(prefix), None::<String>);
        loop {
            let mut target =
                format!("/{}?encoding-type=url&list-type=2&prefix={}", encoded(bucket), encoded(prefix));
            if let Some(token) = &token {
                target.push_str(&format!("&continuation-token={}", encoded(token)));
            }
            let answer = self.get(&target, None).await.map_err(failed)?;
            let status = answer.status();
            let text = answer.into_body().collect().await.map_err(|e| failed(e.to_string()))?;
            let text = String::from_utf8_lossy(&text).into_owned();
            if !status.is_success() {
                let why = leaf(&text, "Message").unwrap_or_default();
                return Err(Refusal(status, "ListRefused", format!("the folder cannot be listed: {why}")));
            }
            all.extend(found(&text, &mut names));
            if all.len() > ENTRIES {
                let why = format!(
                    "more than {ENTRIES} objects do not fit into one archive; use a client: ashlar cp -r"
                );
                return Err(Refusal(StatusCode::BAD_REQUEST, "TooManyObjects", why));
            }
            token = leaf(&text, "NextContinuationToken");
            if token.is_none() || leaf(&text, "IsTruncated").as_deref() != Some("true") {
                return Ok(all);
            }
        }
    }
}

/// An object of a list.
struct Found {
    /// As in an address.
    key: String,
    etag: String,
    entry: Entry,
}

fn encoded(text: &str) -> String {
    let mut out = Vec::new();
    ashlar_s3::target::canonical_encode(&mut out, text, false);
    String::from_utf8(out).unwrap_or_default()
}

/// The objects of a page of a list.
fn found(xml: &str, names: &mut Names) -> Vec<Found> {
    let one = |part: &str| {
        let part = part.split_once("</Contents>")?.0;
        let key = leaf(part, "Key")?;
        let plain = decoded(&key)?;
        let modified = ashlar_s3::date::parse_iso(&leaf(part, "LastModified")?)?;
        let size: u64 = leaf(part, "Size")?.parse().ok()?;
        // A key that ends like a folder and has bytes is a file all the same.
        let plain = if size > 0 { plain.trim_end_matches('/').to_owned() } else { plain };
        let entry = Entry { name: names.of(&plain), size, modified_ms: modified * 1000 };
        Some(Found { key: plain_to_path(&decoded(&key)?), etag: leaf(part, "ETag")?, entry })
    };
    xml.split("<Contents>").skip(1).filter_map(one).collect()
}

fn plain_to_path(key: &str) -> String {
    key.split('/').map(encoded).collect::<Vec<_>>().join("/")
}

/// Text that S3 encoded for an address.
fn decoded(text: &str) -> Option<String> {
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(b) = bytes.next() {
        match b {
            b'%' => {
                let digits = [bytes.next()?, bytes.next()?];
                out.push(u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?);
            }
            b'+' => out.push(b' '),
            other => out.push(other),
        }
    }
    String::from_utf8(out).ok()
}

/// Answers a download of a folder. `target`: `/BUCKET/PREFIX?...`.
pub(crate) async fn answer(reader: Reader, target: &Uri, room: &Arc<Semaphore>) -> Handled {
    let busy = || {
        let why = format!("{AT_ONCE} archives are sent already; try again when one is done");
        Refusal(StatusCode::SERVICE_UNAVAILABLE, "SlowDown", why)
    };
    let place = room.clone().try_acquire_owned().map_err(|_| busy())?;
    let unreadable = || Refusal(StatusCode::BAD_REQUEST, "InvalidRequest", "the path cannot be read".into());
    let path = decoded(&target.path().replace('+', "%2B")).ok_or_else(unreadable)?;
    let (bucket, prefix) = path.strip_prefix('/').and_then(|p| p.split_once('/')).ok_or_else(unreadable)?;
    let found = reader.list(bucket, prefix).await?;
    if found.is_empty() {
        let why = "there is no object in this folder".to_owned();
        return Err(Refusal(StatusCode::NOT_FOUND, "NoSuchKey", why));
    }
    let (mut entries, mut objects) = (Vec::new(), Vec::new());
    for f in found {
        objects.push((f.key, f.etag));
        entries.push(f.entry);
    }
    let length = length(&entries);
    let name = prefix.trim_end_matches('/').rsplit('/').next().filter(|n| !n.is_empty()).unwrap_or(bucket);
    let disposition = format!("attachment; filename*=UTF-8''{}.zip", encoded(name));
    let archive = Archive {
        reader,
        bucket: encoded(bucket),
        entries,
        objects,
        written: Vec::new(),
        open: None,
        at: 0,
        ended: false,
        _place: place,
    };
    let mut response = Response::new(Body::pieces(Bytes::new(), archive, length));
    let out = response.headers_mut();
    out.insert(header::SERVER, HeaderValue::from_static("Ashlar"));
    out.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/zip"));
    out.insert(header::CONTENT_LENGTH, HeaderValue::from(length));
    if let Ok(value) = HeaderValue::from_str(&disposition) {
        out.insert(header::CONTENT_DISPOSITION, value);
    }
    Ok(response)
}

/// An object that is being read.
struct Open {
    body: Body,
    crc: flate2::Crc,
    left: u64,
}

/// The pieces of an archive.
struct Archive {
    reader: Reader,
    bucket: String,
    entries: Vec<Entry>,
    /// Paths and entity tags, in the same order.
    objects: Vec<(String, String)>,
    written: Vec<Written>,
    open: Option<Open>,
    /// Bytes that were given out.
    at: u64,
    ended: bool,
    _place: OwnedSemaphorePermit,
}

impl Archive {
    /// Opens the next object and gives its header.
    async fn begin(&mut self) -> Result<Vec<u8>, Broken> {
        let index = self.written.len();
        let (Some(entry), Some((path, etag))) = (self.entries.get(index), self.objects.get(index)) else {
            return Err(Broken("an archive without its object".into()));
        };
        let offset = self.at;
        let body = if entry.size == 0 {
            Body::empty()
        } else {
            let target = format!("/{}/{path}", self.bucket);
            let answer = self.reader.get(&target, Some(etag)).await.map_err(Broken)?;
            if answer.status() != StatusCode::OK {
                return Err(Broken(format!("{path} cannot be read any more: {}", answer.status())));
            }
            answer.into_body()
        };
        let header = entry.header();
        self.open = Some(Open { body, crc: flate2::Crc::new(), left: entry.size });
        self.written.push(Written { crc: 0, offset });
        Ok(header)
    }

    /// The next bytes of the open object, or what follows its last.
    async fn go_on(&mut self, mut open: Open) -> Result<Bytes, Broken> {
        while open.left > 0 {
            let frame = std::future::poll_fn(|cx| Pin::new(&mut open.body).poll_frame(cx)).await;
            let data = match frame {
                None => return Err(Broken("an object ended early".into())),
                Some(Err(e)) => return Err(Broken(e.to_string())),
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => data,
                    Err(_) => continue,
                },
            };
            open.left = open
                .left
                .checked_sub(data.len() as u64)
                .ok_or_else(|| Broken("an object is longer than its list said".into()))?;
            open.crc.update(&data);
            self.open = Some(open);
            return Ok(data);
        }
        let crc = open.crc.sum();
        let (Some(entry), Some(written)) =
            (self.entries.get(self.written.len().saturating_sub(1)), self.written.last_mut())
        else {
            return Err(Broken("an archive without its object".into()));
        };
        written.crc = crc;
        Ok(entry.descriptor(crc).into())
    }

    async fn piece(&mut self) -> Option<Result<Bytes, Broken>> {
        let made = match self.open.take() {
            Some(open) => self.go_on(open).await,
            None if self.written.len() < self.entries.len() => self.begin().await.map(Bytes::from),
            None if self.ended => return None,
            None => {
                self.ended = true;
                Ok(directory(&self.entries, &self.written, self.at).into())
            }
        };
        match &made {
            Ok(bytes) => self.at += bytes.len() as u64,
            Err(Broken(why)) => tracing::warn!(bucket = self.bucket, why, "a download of a folder broke off"),
        }
        Some(made)
    }
}

impl Pieces for Archive {
    async fn next(&mut self) -> Option<Result<Bytes, Broken>> {
        self.piece().await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_the_server_are_read() {
        let xml = "<ListBucketResult><Contents><Key>a%2Fb+c%26.txt</Key><LastModified>2026-11-26T10:00:00.000Z</LastModified>\
                   <ETag>&quot;x&quot;</ETag><Size>5</Size></Contents><Contents><Key>a%2F</Key>\
                   <LastModified>2026-11-26T10:00:00.000Z</LastModified><ETag>&quot;y&quot;</ETag><Size>0</Size></Contents>\
                   </ListBucketResult>";
        let all = found(xml, &mut Names::new("a/"));
        let seen: Vec<_> = all
            .iter()
            .map(|f| (f.key.as_str(), f.etag.as_str(), f.entry.name.as_str(), f.entry.size))
            .collect();
        assert_eq!(seen, [("a/b%20c%26.txt", "\"x\"", "a/b c&.txt", 5), ("a/", "\"y\"", "a/", 0)]);
        assert_eq!(decoded("%zz"), None);
    }

    #[test]
    fn archives_are_asked_for_by_name() {
        let asked = |uri: &str| is_asked_for(&uri.parse().unwrap());
        assert!(asked("/b/p/?ashlar-zip") && asked("/b/p/?x=1&ashlar-zip"));
        assert!(!asked("/b/p/") && !asked("/b/p/?x=ashlar-zip") && !asked("/b/ashlar-zip"));
    }
}
