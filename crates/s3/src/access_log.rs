//! Access logs of buckets: a line for each request, in AWS's format, delivered as objects.
//!
//! As in AWS a log is best effort: lines are held in memory until they are delivered, a crash loses those,
//! and beyond [`HELD`] bytes lines are dropped and counted. Deliveries are not logged as requests, so that a
//! log of the bucket that receives the logs does not grow by itself. While no bucket has a log, a request
//! pays one load.
//!
//! Format: Amazon S3 User Guide, "Amazon S3 server access log format".
//!
//! Must not depend on: sockets, permissions to read logs.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};

use ashlar_metrics::{Group, Page};
use ashlar_object::Store;
use http::Method;
use parking_lot::Mutex;

use crate::buckets::Buckets;
use crate::context::Context;
use crate::date;
use crate::documents::logging::{DOCUMENT, Logging, decode};
use crate::operation::Operation;

mod delivery;

/// Most bytes of lines held in memory.
pub const HELD: usize = 16 << 20;
/// Lines of one bucket that are delivered without waiting for the time.
const EARLY: usize = 4 << 20;

/// A request as the log records it.
pub struct Entry<'a> {
    /// The bucket that was asked.
    pub bucket: &'a str,
    /// When it ended, in milliseconds since 1970.
    pub at_ms: i64,
    /// The address of the client.
    pub ip: IpAddr,
    /// The caller; empty if anonymous.
    pub requester: &'a str,
    /// Its id.
    pub request_id: &'a str,
    /// The operation.
    pub op: Operation,
    /// How it was sent.
    pub method: &'a Method,
    /// The key; empty for the bucket.
    pub key: &'a str,
    /// Target and protocol as they came, without secrets.
    pub uri: &'a str,
    /// The answer's status.
    pub status: u16,
    /// The answer's error; empty for none.
    pub error: &'a str,
    /// Bytes of the answer's body.
    pub sent: u64,
    /// Bytes of the object; `None` where there is none.
    pub size: Option<u64>,
    /// From beginning to end.
    pub took_ms: u64,
    /// Headers as they came.
    pub referer: &'a str,
    /// As the client sent it.
    pub agent: &'a str,
    /// As the client sent it.
    pub host: &'a str,
    /// The version that was named.
    pub version: &'a str,
    /// This server's id.
    pub host_id: &'a str,
    /// `SigV4`, `SigV2`, or nothing.
    pub signature: &'a str,
    /// `AuthHeader`, `QueryString`, or nothing.
    pub auth: &'a str,
    /// It came over TLS.
    pub tls: bool,
}

/// Lines that wait.
struct Waiting {
    logging: Logging,
    lines: String,
    /// When the first of them was written.
    since_ms: i64,
}

/// The logs of all buckets.
#[derive(Default)]
pub struct Logs {
    any: AtomicBool,
    pressing: AtomicBool,
    held: AtomicUsize,
    dropped: AtomicU64,
    delivered: AtomicU64,
    waiting: Mutex<BTreeMap<String, Waiting>>,
}

impl Logs {
    /// Whether any bucket has a log.
    pub fn any(&self) -> bool {
        self.any.load(Relaxed)
    }

    /// Whether a delivery should not wait.
    pub fn is_pressing(&self) -> bool {
        self.pressing.load(Relaxed)
    }

    /// Finds out whether any bucket has a log.
    pub fn look_again(&self, store: &Store) {
        self.any.store(store.buckets().iter().any(|b| b.documents.contains_key(DOCUMENT)), Relaxed);
    }

    /// Notes a request, if its bucket has a log.
    pub fn note(&self, cx: &Context, buckets: &Buckets, entry: &Entry<'_>) {
        let Ok(bucket) = buckets.find(entry.bucket) else { return };
        let Some(text) = bucket.documents.get(DOCUMENT) else { return };
        let line = line(&cx.owner_id, entry);
        if self.held.load(Relaxed) + line.len() > HELD {
            self.dropped.fetch_add(1, Relaxed);
            return;
        }
        let mut waiting = self.waiting.lock();
        let of = match waiting.get_mut(entry.bucket) {
            Some(of) => of,
            None => {
                let Some(logging) = decode(text) else { return };
                let fresh = Waiting { logging, lines: String::new(), since_ms: entry.at_ms };
                waiting.entry(entry.bucket.to_owned()).or_insert(fresh)
            }
        };
        self.held.fetch_add(line.len(), Relaxed);
        of.lines.push_str(&line);
        if of.lines.len() >= EARLY {
            self.pressing.store(true, Relaxed);
        }
    }

    /// Adds what is counted.
    pub fn render(&self, page: &mut Page) {
        let (node, delivered, dropped) =
            (Group::Node, self.delivered.load(Relaxed), self.dropped.load(Relaxed));
        page.count(node, "ashlar_access_log_objects_total", "Access log objects delivered.", delivered);
        page.count(node, "ashlar_access_log_dropped_total", "Access log lines or objects dropped.", dropped);
        let held = self.held.load(Relaxed);
        page.value(node, "ashlar_access_log_bytes", "Bytes of access log lines in memory.", held);
    }
}

/// A field that may hold anything: without what would end it or the line.
fn field(out: &mut String, text: &str) {
    out.push(' ');
    if text.is_empty() {
        out.push('-');
    }
    for c in text.chars() {
        match c {
            ' ' => out.push_str("%20"),
            '"' => out.push_str("%22"),
            c if c.is_control() => {
                let mut bytes = [0; 4];
                for b in c.encode_utf8(&mut bytes).bytes() {
                    out.push_str(percent_encoding::percent_encode_byte(b));
                }
            }
            c => out.push(c),
        }
    }
}

fn quoted(out: &mut String, text: &str) {
    let legal = |c: char| if c == '"' || c.is_control() { '_' } else { c };
    let text: String = text.chars().map(legal).take(4096).collect();
    let _ = match text.is_empty() {
        true => write!(out, " \"-\""),
        false => write!(out, " \"{text}\""),
    };
}

fn number(out: &mut String, n: Option<u64>) {
    let _ = match n {
        Some(n) => write!(out, " {n}"),
        None => write!(out, " -"),
    };
}

/// `06/Feb/2019:00:00:38 +0000`.
fn time(ms: i64) -> String {
    // `Wed, 06 Feb 2019 00:00:38 GMT`
    let text = date::format_http(ms.div_euclid(1000));
    let part = |from, to| text.get(from..to).unwrap_or_default();
    format!("{}/{}/{}:{} +0000", part(5, 7), part(8, 11), part(12, 16), part(17, 25))
}

fn line(owner: &str, e: &Entry<'_>) -> String {
    let mut out = String::with_capacity(384);
    out.push_str(owner);
    field(&mut out, e.bucket);
    let _ = write!(out, " [{}] {}", time(e.at_ms), e.ip);
    field(&mut out, e.requester);
    field(&mut out, e.request_id);
    field(&mut out, &operation(e.op, e.method));
    // Keys are encoded twice in AWS's logs, so that nothing of them ends a field.
    field(&mut out, &if e.key.is_empty() { String::new() } else { crate::xml::url_encode(e.key) });
    quoted(&mut out, e.uri);
    let _ = write!(out, " {}", e.status);
    field(&mut out, e.error);
    number(&mut out, (e.sent > 0).then_some(e.sent));
    number(&mut out, e.size);
    let _ = write!(out, " {} {}", e.took_ms, e.took_ms);
    quoted(&mut out, e.referer);
    quoted(&mut out, e.agent);
    field(&mut out, e.version);
    field(&mut out, e.host_id);
    field(&mut out, e.signature);
    out.push_str(" -");
    field(&mut out, e.auth);
    field(&mut out, e.host);
    field(&mut out, if e.tls { "TLS" } else { "" });
    out.push_str(" - -\n");
    out
}

/// AWS's name of an operation in its logs.
fn operation(op: Operation, method: &Method) -> String {
    use Operation as Op;
    let what = match op {
        Op::WebsiteRequest => return format!("WEBSITE.{method}.OBJECT"),
        Op::CopyObject => return "REST.COPY.OBJECT".into(),
        Op::RenameObject => return "REST.RENAME.OBJECT".into(),
        Op::UploadPartCopy => return "REST.COPY.PART".into(),
        Op::DeleteObjects => "MULTI_OBJECT_DELETE",
        Op::GetObject | Op::HeadObject | Op::PutObject | Op::DeleteObject | Op::PostObject => "OBJECT",
        Op::GetObjectAttributes => "OBJECT_ATTRIBUTES",
        Op::GetObjectTagging | Op::PutObjectTagging | Op::DeleteObjectTagging => "OBJECT_TAGGING",
        Op::GetObjectAcl | Op::PutObjectAcl | Op::GetBucketAcl | Op::PutBucketAcl => "ACL",
        Op::GetObjectRetention | Op::PutObjectRetention => "OBJECT_LOCK_RETENTION",
        Op::GetObjectLegalHold | Op::PutObjectLegalHold => "OBJECT_LOCK_LEGALHOLD",
        Op::GetObjectLockConfiguration | Op::PutObjectLockConfiguration => "OBJECT_LOCK_CONFIGURATION",
        Op::CreateMultipartUpload | Op::ListMultipartUploads => "UPLOADS",
        Op::CompleteMultipartUpload | Op::AbortMultipartUpload | Op::ListParts => "UPLOAD",
        Op::UploadPart => "PART",
        Op::ListObjectVersions => "BUCKETVERSIONS",
        Op::GetBucketLocation => "LOCATION",
        Op::GetBucketVersioning | Op::PutBucketVersioning => "VERSIONING",
        Op::GetBucketTagging | Op::PutBucketTagging | Op::DeleteBucketTagging => "TAGGING",
        Op::GetBucketPolicy | Op::PutBucketPolicy | Op::DeleteBucketPolicy => "BUCKETPOLICY",
        Op::GetBucketLifecycleConfiguration
        | Op::PutBucketLifecycleConfiguration
        | Op::DeleteBucketLifecycle => "LIFECYCLE",
        Op::GetBucketCors | Op::PutBucketCors | Op::DeleteBucketCors => "CORS",
        Op::GetBucketWebsite | Op::PutBucketWebsite | Op::DeleteBucketWebsite => "WEBSITE",
        Op::GetBucketLogging | Op::PutBucketLogging => "LOGGING_STATUS",
        Op::Preflight => "PREFLIGHT",
        Op::GetPublicAccessBlock | Op::PutPublicAccessBlock | Op::DeletePublicAccessBlock => {
            "PUBLIC_ACCESS_BLOCK"
        }
        Op::Unknown => "UNKNOWN",
        _ => "BUCKET",
    };
    format!("REST.{method}.{what}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn log_line_has_the_format_of_aws() {
        let entry = Entry {
            bucket: "b",
            at_ms: 1_549_411_238_123,
            ip: "192.0.2.3".parse().unwrap(),
            requester: "AK",
            request_id: "3E57427F33A59F07",
            op: Operation::GetObject,
            method: &Method::GET,
            key: "a \"b\"\n",
            uri: "GET /b/a%20%22b%22 HTTP/1.1",
            status: 200,
            error: "",
            sent: 7,
            size: Some(9),
            took_ms: 5,
            referer: "",
            agent: "S3\"Console\r\n/0.4",
            host: "b.s3.example",
            version: "",
            host_id: "h",
            signature: "SigV4",
            auth: "AuthHeader",
            tls: false,
        };
        assert_eq!(
            line("owner", &entry),
            "owner b [06/Feb/2019:00:00:38 +0000] 192.0.2.3 AK 3E57427F33A59F07 REST.GET.OBJECT a%20%22b%22%0A \"GET /b/a%20%22b%22 HTTP/1.1\" 200 - 7 9 5 5 \"-\" \"S3_Console__/0.4\" - h SigV4 - AuthHeader b.s3.example - - -\n"
        );
    }
}
