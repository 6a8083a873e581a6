//! Sends records to a webhook, in MinIO's form.
//!
//! Invariants: records are sent in order, [`CONCURRENCY`] requests at a time, at least once; a line leaves
//! the queue only after the receiver answered 200, 201, 202 or 204; while a receiver does not answer,
//! attempts continue without end, with growing pauses up to [`SLOWEST`]; redirects are not followed; the
//! token is in no log.

use ashlar_environment::time::{self, Instant};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use ashlar_metrics::Kind;
use ashlar_outbound::{Outbound, Rules, Url};
use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_TYPE, HeaderName, HeaderValue};
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::spool::Spool;
use crate::{Error, Result};

/// Most requests in flight.
const CONCURRENCY: usize = 8;
/// First pause after a failure.
const SOON: Duration = Duration::from_millis(250);
/// Longest pause after a failure.
const SLOWEST: Duration = Duration::from_secs(15);
/// How long [`Target::close`] waits for the receiver.
const LAST: Duration = Duration::from_secs(3);
/// Most lines of a queue in memory.
const IN_MEMORY: u64 = 10_000;

/// What happens to a record when the queue is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Full {
    /// The record is dropped, and counted.
    #[default]
    Drop,
    /// The record waits, and so do requests, which are refused after [`crate::PATIENCE`].
    Wait,
}

/// A receiver.
#[derive(Clone)]
pub struct WebhookConfig {
    /// Names it in metrics.
    pub name: String,
    /// The URL that records are sent to.
    pub url: String,
    /// The value of `Authorization`.
    pub token: Option<String>,
    /// The folder of the queue; without one the queue is in memory and is lost when the process exits.
    pub queue_dir: Option<PathBuf>,
    /// Most records that wait.
    pub queue_size: u64,
    /// Records per request; with more than one, a line each.
    pub batch: usize,
    /// What happens when the queue is full.
    pub full: Full,
    /// Which addresses may be connected to.
    pub rules: Rules,
}

/// A webhook with its queue and its sending thread.
pub struct Target {
    name: String,
    host: String,
    spool: Spool,
    full: Full,
    wake: Notify,
    closed: AtomicBool,
    sent: AtomicU64,
    failed: AtomicU64,
    dropped: AtomicU64,
    thread: Mutex<Option<std::thread::JoinHandle<()>>>,
}

type Family = (&'static str, Kind, &'static str, fn(&Target) -> u64);

/// The metrics of webhooks, under MinIO's names where it has one.
pub const FAMILIES: [Family; 4] = [
    ("minio_audit_total_messages", Kind::Counter, "Audit records sent.", |t| t.sent.load(Relaxed)),
    ("minio_audit_failed_messages", Kind::Counter, "Attempts to send audit records that failed.", |t| {
        t.failed.load(Relaxed)
    }),
    ("minio_audit_target_queue_length", Kind::Gauge, "Audit records that wait to be sent.", |t| {
        t.spool.waiting()
    }),
    ("ashlar_audit_dropped_total", Kind::Counter, "Audit records dropped because the queue was full.", |t| {
        t.dropped.load(Relaxed)
    }),
];

impl Target {
    /// Opens the queue and starts the thread that sends.
    ///
    /// # Errors
    /// The URL, token or certificate is not understood, or the folder cannot be used.
    pub fn start(config: &WebhookConfig, _deployment: &str) -> Result<Arc<Target>> {
        let invalid =
            |e: &dyn std::fmt::Display| Error::Invalid(format!("audit webhook {}: {e}", config.name));
        let host = Url::parse(&config.url).map_err(|e| invalid(&e))?.host;
        let outbound = Outbound::new(config.rules.clone()).map_err(|e| invalid(&e))?;
        let kind = if config.batch > 1 { "application/x-ndjson" } else { "application/json" };
        let mut headers = vec![(CONTENT_TYPE, HeaderValue::from_static(kind))];
        if let Some(token) = config.token.as_deref().filter(|t| !t.is_empty()) {
            let value = HeaderValue::from_str(token);
            let mut value = value
                .map_err(|_| invalid(&"the token contains characters that are not allowed in a header"))?;
            value.set_sensitive(true);
            headers.push((AUTHORIZATION, value));
        }
        let limit = match config.queue_dir {
            Some(_) => config.queue_size,
            None => config.queue_size.min(IN_MEMORY),
        };
        let target = Arc::new(Target {
            name: config.name.clone(),
            host,
            spool: Spool::open(config.queue_dir.as_deref(), limit.max(1))?,
            full: config.full,
            wake: Notify::new(),
            closed: AtomicBool::new(false),
            sent: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            dropped: AtomicU64::new(0),
            thread: Mutex::default(),
        });
        let (work, url, batch) = (target.clone(), config.url.clone(), config.batch.max(1));
        let thread = ashlar_environment::thread::start("audit-send", None, move || {
            match tokio::runtime::Builder::new_current_thread().enable_all().build() {
                Ok(runtime) => runtime.block_on(work.run(&outbound, &url, &headers, batch)),
                Err(error) => tracing::error!(%error, "audit records are not sent"),
            }
        });
        *target.thread.lock() = Some(thread.map_err(|e| invalid(&e))?);
        Ok(target)
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Queues lines that end at `ends` of `text`.
    pub fn put(&self, text: &[u8], ends: &[usize], flush: bool, closing: impl Fn() -> bool) {
        let (mut done, mut said) = (0usize, None::<Instant>);
        loop {
            let from = done.checked_sub(1).map_or(0, |last| ends[last]);
            let rest: Vec<usize> = ends[done..].iter().map(|e| e - from).collect();
            let result = self.spool.put(&text[from..], &rest, flush);
            done += result.as_ref().map_or(0, |n| *n);
            self.wake.notify_one();
            if done == ends.len() {
                return;
            }
            let why = result.err().map_or_else(|| "its queue is full".to_owned(), |e| e.to_string());
            let wait = self.full == Full::Wait && !closing();
            if said.is_none_or(|at| at.elapsed() > Duration::from_secs(30)) {
                tracing::error!(
                    target_id = self.name,
                    why,
                    wait,
                    "audit records cannot be queued for the webhook"
                );
                said = Some(Instant::now());
            }
            if !wait {
                self.dropped.fetch_add((ends.len() - done) as u64, Relaxed);
                return;
            }
            ashlar_environment::thread::sleep(Duration::from_millis(100));
        }
    }

    async fn run(&self, outbound: &Outbound, url: &str, headers: &[(HeaderName, HeaderValue)], batch: usize) {
        let mut pause = SOON;
        loop {
            let lines = self.spool.next(batch * CONCURRENCY).unwrap_or_else(|error| {
                tracing::error!(target_id = self.name, %error, "the queue of the audit webhook cannot be read");
                Vec::new()
            });
            if lines.is_empty() {
                if self.closed.load(Relaxed) {
                    return;
                }
                // Wake up without a notification too: it may have come before this line.
                let _ = time::timeout(Duration::from_secs(5), self.wake.notified()).await;
                continue;
            }
            let (count, result) = self.send(outbound, url, headers, batch, &lines).await;
            self.sent.fetch_add(count as u64, Relaxed);
            if let Err(error) = self.spool.took(&lines[..count]) {
                tracing::warn!(target_id = self.name, %error, "audit records may be sent twice");
            }
            if count > 0 {
                pause = SOON;
            }
            match result {
                Ok(()) => {}
                Err(why) => {
                    self.failed.fetch_add(1, Relaxed);
                    tracing::warn!(
                        target_id = self.name,
                        host = self.host,
                        why,
                        "audit records were not sent; they stay in the queue"
                    );
                    if self.closed.load(Relaxed) {
                        return;
                    }
                    let until = Instant::now() + pause;
                    while Instant::now() < until && !self.closed.load(Relaxed) {
                        time::sleep(Duration::from_millis(50).min(pause)).await;
                    }
                    pause = (pause * 2).min(SLOWEST);
                }
            }
        }
    }

    /// Sends lines, several requests at a time. Returns how many of them, from the first, the receiver has,
    /// and why it does not have the others.
    async fn send(
        &self,
        outbound: &Outbound,
        url: &str,
        headers: &[(HeaderName, HeaderValue)],
        batch: usize,
        lines: &[Bytes],
    ) -> (usize, std::result::Result<(), String>) {
        let posts = lines.chunks(batch).map(|chunk| async move {
            let body = match chunk {
                [one] => one.clone(),
                many => Bytes::from(many.concat()),
            };
            let answer = outbound.post(url, headers, body).await.map_err(|e| e.to_string())?;
            match answer.status.as_u16() {
                200 | 201 | 202 | 204 => Ok(()),
                403 => Err("the receiver answered 403: check the token".to_owned()),
                status => Err(format!("the receiver answered {status}")),
            }
        });
        let results = futures::future::join_all(posts).await;
        let good = results.iter().take_while(|r| r.is_ok()).count();
        let all = results.into_iter().collect();
        ((good * batch).min(lines.len()), all)
    }

    /// Sends what it can in a short time and stops the thread.
    pub fn close(&self) {
        self.closed.store(true, Relaxed);
        self.wake.notify_one();
        let Some(thread) = self.thread.lock().take() else { return };
        let until = Instant::now() + LAST;
        while !thread.is_finished() && Instant::now() < until {
            ashlar_environment::thread::sleep(Duration::from_millis(10));
        }
        if thread.is_finished() {
            let _ = thread.join();
        }
    }
}
