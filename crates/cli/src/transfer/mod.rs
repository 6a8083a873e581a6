//! Transfers one file between two locations: upload, download, or copy between servers.
//!
//! Invariants: at most `parallel` requests with data are in flight, for all files and parts together; a local
//! file appears under its name only when it is complete; a failed multipart upload is aborted, an interrupted
//! one is found and continued by a later run.
//!
//! Must not depend on: how files were selected.

mod across;
mod download;
mod upload;

use ashlar_client::{Client, Head, Part, PutOptions, limits};
use futures::{StreamExt, TryStreamExt, stream};
use tokio::sync::{Semaphore, SemaphorePermit};

use super::{
    failure::{Failure, Kind, Outcome, While},
    location::{Location, Remote},
    progress::Progress,
    tree::Item,
};

/// The transfer engine.
pub struct Engine {
    /// Counts transferred bytes.
    pub progress: Progress,
    /// Part size in bytes; smaller objects are sent in one request.
    pub part_size: u64,
    /// Requests with data in flight.
    pub parallel: usize,
    /// Whether to look for parts of an interrupted upload.
    pub resume: bool,
    /// Whether to remove each source after its copy is acknowledged (`mv`).
    pub moving: bool,
    /// Metadata, storage class and tags of the command line.
    pub options: PutOptions,
    permits: Semaphore,
}

/// The source of a transfer: a location and its properties.
#[derive(Clone)]
pub struct Source {
    /// The location: a file or a key.
    pub location: Location,
    /// Size, ETag, time and version as listed; the path is not used.
    pub item: Item,
}

impl Engine {
    /// A new engine; `part_size` is limited to the range that S3 allows.
    pub fn new(
        progress: Progress,
        part_size: u64,
        parallel: usize,
        resume: bool,
        options: PutOptions,
    ) -> Engine {
        Engine {
            progress,
            part_size: part_size.clamp(limits::MIN_PART, 5 << 30),
            parallel: parallel.max(1),
            resume,
            moving: false,
            options,
            permits: Semaphore::new(parallel.max(1)),
        }
    }

    /// Copies `source` to `target`, which includes the name.
    pub async fn copy(&self, source: &Source, target: &Location) -> Outcome {
        self.progress.message(&source.location.to_string());
        let moved = match (&source.location, target) {
            (Location::Local(from), Location::Remote(to)) => self.upload(from, to).await,
            (Location::Remote(from), Location::Local(to)) => self.download(from, &source.item, to).await,
            (Location::Remote(from), Location::Remote(to)) => self.across(from, &source.item, to).await,
            (Location::Local(_), Location::Local(_)) => {
                Err(Failure::usage("one side must be ALIAS/BUCKET; use cp for local files"))
            }
        };
        moved.when(|| format!("`{}` -> `{target}`", source.location))
    }

    async fn permit(&self) -> SemaphorePermit<'_> {
        self.permits.acquire().await.expect("the semaphore is never closed")
    }

    /// The ranges of the parts of an object of `size` bytes: number, offset, length.
    fn parts(&self, size: u64, least: u64) -> Vec<(u32, u64, u64)> {
        // At most 10,000 parts, in steps of one MiB, so that a later run computes the same ranges.
        let needed = size.div_ceil(u64::from(limits::PARTS)).next_multiple_of(1 << 20);
        let part = self.part_size.max(least).max(needed);
        let count = size.div_ceil(part).max(1);
        (0..count).map(|n| (n as u32 + 1, n * part, part.min(size - n * part))).collect()
    }

    /// Uploads all parts with `send`, several at a time, and completes the upload; aborts it if a part fails.
    /// `have`: parts that exist already.
    async fn multipart<F>(
        &self,
        to: &Remote,
        upload_id: &str,
        ranges: Vec<(u32, u64, u64)>,
        have: Vec<Part>,
        options: &PutOptions,
        send: impl Fn(u32, u64, u64) -> F,
    ) -> Outcome
    where
        F: Future<Output = Outcome<Part>>,
    {
        let missing = ranges.into_iter().filter(|(n, ..)| have.iter().all(|p| p.number != *n));
        let sent = stream::iter(missing)
            .map(|(number, offset, length)| send(number, offset, length))
            .buffer_unordered(self.parallel)
            .try_collect::<Vec<Part>>()
            .await;
        let finished = match sent {
            Ok(sent) => {
                let mut parts = have;
                parts.extend(sent);
                parts.sort_by_key(|p| p.number);
                let complete = PutOptions { headers: Default::default(), ..options.clone() };
                let done = to.client.complete_multipart(&to.bucket, &to.key, upload_id, &parts, &complete);
                done.await.map(drop).map_err(Failure::from)
            }
            Err(failure) => Err(failure),
        };
        // If the server is unreachable, the parts stay for a later run.
        if let Err(failure) = &finished
            && failure.kind != Kind::Unavailable
        {
            let _ = to.client.abort_multipart(&to.bucket, &to.key, upload_id).await;
        }
        finished
    }
}

/// The options that give a copy the metadata of its source, with those of the command line.
fn options_of(head: &Head, added: &PutOptions) -> PutOptions {
    let mut options = added.clone();
    if options.content_type.is_none() {
        options.content_type.clone_from(&head.content_type);
    }
    for (name, value) in &head.metadata {
        options.metadata.entry(name.clone()).or_insert_with(|| value.clone());
    }
    for name in ["cache-control", "content-disposition", "content-encoding", "content-language", "expires"] {
        if let Some(value) = head.headers.get(name).and_then(|v| v.parse().ok())
            && !options.headers.contains_key(name)
        {
            options.headers.insert(name, value);
        }
    }
    options
}

/// Whether two clients use the same endpoint with the same credentials, so that the server can copy by
/// itself.
fn same_endpoint(a: &Client, b: &Client) -> bool {
    let (a, b) = (a.config(), b.config());
    a.endpoint == b.endpoint && a.credentials == b.credentials
}

/// Maximum number of attempts for work that the client cannot repeat internally.
const TRIES: u32 = 4;

/// Repeats `work` while a retry can help.
async fn retry<T, F: Future<Output = Outcome<T>>>(mut work: impl FnMut() -> F) -> Outcome<T> {
    let mut tries = 1;
    loop {
        match work().await {
            Err(failure) if tries < TRIES && failure.kind == Kind::Unavailable => {
                let pause = std::time::Duration::from_millis(200) * 3u32.pow(tries);
                ashlar_environment::time::sleep(pause).await;
                tries += 1;
            }
            outcome => return outcome,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{globals::Globals, output::Output};

    #[test]
    fn parts_cover_the_object() {
        let output = Output::new(&Globals { quiet: true, ..Globals::default() });
        let engine = |part| Engine::new(Progress::bytes(&output), part, 4, false, PutOptions::default());
        for (size, part) in [
            (0, 0),
            (1, 5 << 20),
            (5 << 20, 5 << 20),
            ((5 << 20) + 1, 5 << 20),
            (1 << 40, 16 << 20),
            (5 << 40, 1),
        ] {
            let parts = engine(part).parts(size, 0);
            assert!(parts.len() <= 10_000);
            let mut at = 0;
            for (index, (number, offset, length)) in parts.iter().enumerate() {
                assert_eq!((*number as usize, *offset), (index + 1, at));
                assert!(*length >= limits::MIN_PART || index + 1 == parts.len());
                at += length;
            }
            assert_eq!(at, size);
        }
    }
}
