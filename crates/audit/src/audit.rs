//! The audit log as its users see it: opened, noted in, asked, closed.
//!
//! Invariant: the writer is the only thread that writes; closing waits for it. This is the top of the crate:
//! nothing in it uses this file.

use ashlar_environment::time;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use ashlar_metrics::{Group, Page};

use crate::file::{self, FileConfig};
use crate::queue::{self, PATIENCE, Ticket};
use crate::webhook::{self, WebhookConfig};
use crate::{Error, Record, Result, find, ring, writer};

/// Where records go.
#[derive(Default)]
pub struct Config {
    /// Identifies the deployment, in hexadecimal digits.
    pub deployment: String,
    /// What checkpoints are signed with: [`crate::key_from`].
    pub key: [u8; 32],
    /// The file.
    pub file: Option<FileConfig>,
    /// The webhooks.
    pub webhooks: Vec<WebhookConfig>,
}

/// The audit log.
pub struct Audit {
    ring: ring::Ring,
    shared: Option<Arc<queue::Shared>>,
    file: Option<PathBuf>,
    targets: Vec<Arc<webhook::Target>>,
    written: Arc<AtomicU64>,
    writer: parking_lot::Mutex<Option<std::thread::JoinHandle<()>>>,
}

impl Audit {
    /// Only the last refusals are kept, in memory.
    pub fn off() -> Audit {
        Audit {
            ring: ring::Ring::default(),
            shared: None,
            file: None,
            targets: Vec::new(),
            written: Arc::default(),
            writer: parking_lot::Mutex::default(),
        }
    }

    /// Opens what is configured; with nothing configured, as [`Audit::off`].
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
        let thread = thread.map_err(|e| Error::Invalid(format!("the audit thread does not start: {e}")))?;
        let writer = parking_lot::Mutex::new(Some(thread));
        Ok(Audit { ring: ring::Ring::default(), shared: Some(shared), file: path, targets, written, writer })
    }

    /// Whether every request is to be recorded; else only refusals.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.shared.is_some()
    }

    /// Room for one record. Waits for it, at most [`PATIENCE`].
    ///
    /// # Errors
    /// There is none: the request must not be done.
    pub async fn ticket(&self) -> Result<Ticket> {
        match &self.shared {
            None => Ok(Ticket::default()),
            Some(shared) => shared.ticket().await,
        }
    }

    /// Keeps a refusal in memory.
    pub fn refused(&self, record: &Record) {
        self.ring.push(record.clone());
    }

    /// Hands a record over. It is written soon.
    pub fn note(&self, ticket: Ticket, record: Record) {
        ticket.note(record);
    }

    /// Hands a record over and waits until it is on stable storage.
    ///
    /// # Errors
    /// It was not written in time; it still may be.
    pub async fn note_and_wait(&self, ticket: Ticket, record: Record) -> Result<()> {
        let Some(done) = ticket.note_urgent(record) else { return Ok(()) };
        match time::timeout(PATIENCE, done).await {
            Ok(Ok(())) => Ok(()),
            _ => Err(Error::Stuck),
        }
    }

    /// What is known about a request: from memory, else from the audit file.
    pub async fn find(&self, id: &str) -> Option<serde_json::Value> {
        if let Some(record) = self.ring.find(id) {
            return serde_json::to_value(record).ok();
        }
        let (path, id) = (self.file.clone()?, id.to_owned());
        ashlar_environment::spawn_blocking("audit-find", move || find::find(&path, &id)).await.ok().flatten()
    }

    /// Writes what is left and ends.
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

    /// Adds what is counted.
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
