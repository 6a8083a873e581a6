//! Moves one file between two places: up, down, or from server to server.
//!
//! Invariants: at most `parallel` requests with data are in flight, however many files and parts
//! there are; a local file appears under its name only when it is complete; a failed multipart
//! upload is given up, an interrupted one is found again and continued.
//!
//! Must never know: how files were chosen.

mod across;
mod download;
mod upload;

use ashlar_client::{Client, Head, Part, PutOptions, limits};
use futures::{StreamExt, TryStreamExt, stream};
use tokio::sync::{Semaphore, SemaphorePermit};

use super::{
    failure::{Failure, Kind, Outcome, While},
    place::{Place, Remote},
    progress::Progress,
    tree::Item,
};

/// How files are moved.
pub struct Engine {
    /// Bytes moved are reported here.
    pub progress: Progress,
    /// Part size in bytes; objects up to this size go in one request.
    pub part_size: u64,
    /// Requests with data in flight.
    pub parallel: usize,
    /// Whether parts of an interrupted upload are looked for.
    pub resume: bool,
    /// Whether each source is removed after its copy is acknowledged (`mv`).
    pub moving: bool,
    /// Metadata, storage class, tags given on the command line.
    pub options: PutOptions,
    permits: Semaphore,
}

/// What is to be moved: a place and what is known of it.
#[derive(Clone)]
pub struct Source {
    /// Where it is: a file or a key.
    pub place: Place,
    /// Size, ETag, time and version as listed; the path is not used.
    pub item: Item,
}

impl Engine {
    /// An engine; `part_size` is kept within what S3 allows.
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

    /// Copies `source` to exactly `target`.
    pub async fn copy(&self, source: &Source, target: &Place) -> Outcome {
        self.progress.message(&source.place.to_string());
        let moved = match (&source.place, target) {
            (Place::Local(from), Place::Remote(to)) => self.upload(from, to).await,
            (Place::Remote(from), Place::Local(to)) => self.download(from, &source.item, to).await,
            (Place::Remote(from), Place::Remote(to)) => self.across(from, &source.item, to).await,
            (Place::Local(_), Place::Local(_)) => {
                Err(Failure::usage("one side must be behind an alias; use cp for local files"))
            }
        };
        moved.when(|| format!("`{}` -> `{target}`", source.place))
    }

    async fn permit(&self) -> SemaphorePermit<'_> {
        self.permits.acquire().await.expect("the semaphore is never closed")
    }

    /// The ranges of the parts of an object of `size` bytes: number, offset, length.
    fn parts(&self, size: u64, least: u64) -> Vec<(u32, u64, u64)> {
        // At most 10,000 parts, in steps of a MiB so that a later attempt finds the same ranges.
        let needed = size.div_ceil(u64::from(limits::PARTS)).next_multiple_of(1 << 20);
        let part = self.part_size.max(least).max(needed);
        let count = size.div_ceil(part).max(1);
        (0..count).map(|n| (n as u32 + 1, n * part, part.min(size - n * part))).collect()
    }

    /// Uploads all parts with `send`, several at a time, and completes; gives the upload up if a
    /// part fails. `have` are parts that are there already.
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
        // An unreachable server keeps the parts for the next attempt.
        if let Err(failure) = &finished
            && failure.kind != Kind::Unavailable
        {
            let _ = to.client.abort_multipart(&to.bucket, &to.key, upload_id).await;
        }
        finished
    }
}

/// The options that give a copy what its source has, with what the command line adds.
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

/// Whether two clients speak to the same endpoint with the same credentials, so that the server
/// can copy by itself.
fn same_endpoint(a: &Client, b: &Client) -> bool {
    let (a, b) = (a.config(), b.config());
    a.endpoint == b.endpoint && a.credentials == b.credentials
}

/// How often a piece of work that cannot be repeated inside the client is tried.
const TRIES: u32 = 4;

/// Tries `work` again while that can help.
async fn persist<T, F: Future<Output = Outcome<T>>>(mut work: impl FnMut() -> F) -> Outcome<T> {
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
