//! [`Audit`], the interface of the crate: open the log, add records, find a request, close the log.
//!
//! Invariant: the writer is the only thread that writes; closing waits for it. This is the top of the crate:
//! nothing in it uses this file.

use ashlar_environment::time;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use ashlar_metrics::{Group, Page};

use crate::file::{self, FileConfig};
use crate::filter::Filter;
use crate::queue::{self, PATIENCE, QueuePermit};
use crate::search::{self, Bounds, Hits, Position};
use crate::webhook::{self, WebhookConfig};
use crate::{Error, Record, Result, find, ring, writer};

/// Where the audit log is written, and the key that signs it.
#[derive(Default)]
pub struct Config {
    /// Identifies the deployment, in hexadecimal digits.
    pub deployment: String,
    /// The key that signs checkpoints: [`crate::key_from`].
    pub key: [u8; 32],
    /// The file.
    pub file: Option<FileConfig>,
    /// The webhooks.
    pub webhooks: Vec<WebhookConfig>,
}

/// How many searches run at a time.
const SEARCHES: usize = 2;

fn searches() -> Arc<tokio::sync::Semaphore> {
    Arc::new(tokio::sync::Semaphore::new(SEARCHES))
}

/// The audit log.
pub struct Audit {
    ring: ring::Ring,
    shared: Option<Arc<queue::Shared>>,
    file: Option<PathBuf>,
    targets: Vec<Arc<webhook::Target>>,
    written: Arc<AtomicU64>,
    /// Limits how many searches run at a time.
    searches: Arc<tokio::sync::Semaphore>,
    writer: parking_lot::Mutex<Option<std::thread::JoinHandle<()>>>,
}

impl Audit {
    /// An audit log that is off: it keeps only the last refusals, in memory.
    pub fn off() -> Audit {
        Audit {
            ring: ring::Ring::default(),
            shared: None,
            file: None,
            targets: Vec::new(),
            written: Arc::default(),
            searches: searches(),
            writer: parking_lot::Mutex::default(),
        }
    }

    /// Opens the configured file and webhooks; without any, the same as [`Audit::off`].
    ///
    /// # Errors
    /// A file or folder cannot be used, or a URL or certificate is not understood.
    pub fn open(config: Config) -> Result<Audit> {
        if config.file.is_none() && config.webhooks.is_empty() {
            return Ok(Audit::off());
        }
        let path = config.file.as_ref().map(|f| f.path.clone());
        let file = match &config.file {
            Some(file) => Some(file::File::open(file, &config.deployment, config.key)?),
            None => None,
        };
        let mut targets = Vec::new();
        for webhook in &config.webhooks {
            targets.push(webhook::Target::start(webhook, &config.deployment)?);
        }
        let shared = queue::Shared::new();
        let written = Arc::<AtomicU64>::default();
        let work = writer::Writer {
            shared: shared.clone(),
            file,
            targets: targets.clone(),
            deployment: config.deployment,
            written: written.clone(),
        };
        let thread = ashlar_environment::thread::start("audit", None, move || work.run());
        let thread =
            thread.map_err(|e| Error::Invalid(format!("the audit thread cannot be started: {e}")))?;
        let writer = parking_lot::Mutex::new(Some(thread));
        let (ring, shared, searches) = (ring::Ring::default(), Some(shared), searches());
        Ok(Audit { ring, shared, file: path, targets, written, searches, writer })
    }

    /// Whether every request is recorded; otherwise only refusals are.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.shared.is_some()
    }

    /// Reserves space for one record in the queue. Waits for it, at most [`PATIENCE`].
    ///
    /// # Errors
    /// The queue stays full: the caller must not carry out the request.
    pub async fn reserve(&self) -> Result<QueuePermit> {
        match &self.shared {
            None => Ok(QueuePermit::default()),
            Some(shared) => shared.reserve().await,
        }
    }

    /// Keeps a refusal in memory.
    pub fn refused(&self, record: &Record) {
        self.ring.push(record.clone());
    }

    /// Queues a record. The writer writes it soon.
    pub fn note(&self, permit: QueuePermit, record: Record) {
        permit.note(record);
    }

    /// Queues a record and waits until it is on stable storage.
    ///
    /// # Errors
    /// The record was not written in time; it may still be written later.
    pub async fn note_and_wait(&self, permit: QueuePermit, record: Record) -> Result<()> {
        let Some(done) = permit.note_urgent(record) else { return Ok(()) };
        match time::timeout(PATIENCE, done).await {
            Ok(Ok(())) => Ok(()),
            _ => Err(Error::Stuck),
        }
    }

    /// The record of a request: from memory, otherwise from the audit file.
    pub async fn find(&self, id: &str) -> Option<serde_json::Value> {
        if let Some(record) = self.ring.find(id) {
            return serde_json::to_value(record).ok();
        }
        let (path, id) = (self.file.clone()?, id.to_owned());
        ashlar_environment::spawn_blocking("audit-find", move || find::find(&path, &id)).await.ok().flatten()
    }

    /// Searches the records: in the audit files, or, without one, among the last refusals. `from`: where an earlier search
    /// ended.
    ///
    /// # Errors
    /// A file cannot be read, or too many searches run.
    pub async fn search(&self, filter: Filter, from: Option<Position>, bounds: Bounds) -> Result<Hits> {
        let busy = || Error::Busy;
        let turn = time::timeout(bounds.time, self.searches.clone().acquire_owned()).await;
        let turn = turn.map_err(|_| busy())?.map_err(|_| busy())?;
        let path = self.file.clone();
        let refusals = if path.is_none() { self.ring.all() } else { Default::default() };
        let work = move || {
            let _turn = turn;
            match path {
                Some(path) => search::search(&path, &filter, from, &bounds),
                None => {
                    let (count, all) = &refusals;
                    let numbered = (0..*count).rev().map(|n| n + 1).zip(all.iter().rev());
                    Ok(search::search_refusals(numbered, &filter, from, &bounds))
                }
            }
        };
        ashlar_environment::spawn_blocking("audit-search", work).await.map_err(|_| busy())?
    }

    /// Writes the records that are still queued and stops the writer.
    pub fn close(&self) {
        if let Some(shared) = &self.shared {
            shared.close();
        }
        if let Some(thread) = self.writer.lock().take() {
            let _ = thread.join();
        }
        for target in &self.targets {
            target.close();
        }
    }

    /// Adds the metrics of the audit log to a page.
    pub fn render(&self, page: &mut Page) {
        let Some(shared) = &self.shared else { return };
        let node = Group::Node;
        page.count(node, "ashlar_audit_records_total", "Audit records written.", self.written.load(Relaxed));
        page.value(node, "ashlar_audit_queued", "Audit records that wait for the writer.", shared.waiting());
        page.count(
            node,
            "ashlar_audit_refused_total",
            "Requests refused because the audit log had no room.",
            shared.refused(),
        );
        for (name, kind, help, value) in webhook::FAMILIES {
            for target in &self.targets {
                page.family(node, kind, name, help).add(&[("target_id", target.name())], value(target));
            }
        }
    }
}
