//! The one thread that writes records to the file, then to the webhooks' queues.
//!
//! Invariants: a record keeps its space in the queue until it is written everywhere; while the file cannot be
//! written, the writer tries again and requests wait; a request that waits for its record is answered only
//! after a flush.

use ashlar_environment::time::Instant;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use crate::file::File;
use crate::queue::{Entry, Shared};
use crate::webhook::Target;

/// Pause between attempts to write to the file.
const AGAIN: Duration = Duration::from_millis(500);
/// How long closing waits for a file that cannot be written.
const LAST: Duration = Duration::from_secs(5);
/// Shortest time between two log messages that the file cannot be written.
const SAY: Duration = Duration::from_secs(30);

/// The state of the thread.
pub struct Writer {
    /// Where records come from.
    pub shared: Arc<Shared>,
    /// The file.
    pub file: Option<File>,
    /// The webhooks.
    pub targets: Vec<Arc<Target>>,
    /// The deployment, for the webhooks' entries.
    pub deployment: String,
    /// Counts.
    pub written: Arc<AtomicU64>,
}

impl Writer {
    /// Writes until the queue is closed.
    pub fn run(mut self) {
        let mut spare = Vec::new();
        while let Some(mut entries) = self.shared.take(std::mem::take(&mut spare)) {
            self.batch(&mut entries);
            let count = entries.len();
            entries.clear();
            // Release the memory that a burst of records took.
            spare = if entries.capacity() > 4096 { Vec::new() } else { entries };
            self.shared.done(count);
            self.written.fetch_add(count as u64, Relaxed);
        }
        if let Some(file) = &mut self.file
            && let Err(error) = file.end()
        {
            tracing::warn!(%error, "the audit file was not closed properly");
        }
    }

    fn batch(&mut self, entries: &mut [Entry]) {
        let urgent = entries.iter().any(|e| e.done.is_some());
        if let Some(file) = &mut self.file {
            let (began, mut said) = (Instant::now(), None::<Instant>);
            for entry in entries.iter() {
                file.add(&entry.record);
            }
            while let Err(error) = file.write(urgent) {
                if said.is_none_or(|at| at.elapsed() > SAY) {
                    tracing::error!(%error, "the audit file cannot be written; requests wait, then are refused");
                    said = Some(Instant::now());
                }
                if self.shared.is_closed() && began.elapsed() > LAST {
                    tracing::error!(
                        records = entries.len(),
                        "audit records were lost: the file cannot be written"
                    );
                    return;
                }
                ashlar_environment::thread::sleep(AGAIN);
            }
        }
        if !self.targets.is_empty() && !entries.is_empty() {
            let mut text = Vec::with_capacity(entries.len() * 1024);
            let mut ends = Vec::with_capacity(entries.len());
            for entry in entries.iter() {
                crate::entry::write(&entry.record, &self.deployment, &mut text);
                ends.push(text.len());
            }
            for target in &self.targets {
                target.put(&text, &ends, urgent, || self.shared.is_closed());
            }
        }
        for entry in entries {
            if let Some(done) = entry.done.take() {
                let _ = done.send(());
            }
        }
    }
}
