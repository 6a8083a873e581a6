//! The change feed and the store of dead letters, over the object store.
//!
//! Dead letters are objects of one bucket, `TARGET/TIME-POSITION.json`, so that they are as durable as
//! objects and can be read as objects. Invariant: at most [`MOST`] plus [`TRIM`] per target.

use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use ashlar_object::feed::{Change, Feed, Kind};
use ashlar_object::{Ballot, Conditions, CreateBucket, ListSpec, PutSpec, Store, VersionSpec, version_text};
use bytes::Bytes;
use futures::future::BoxFuture;

use crate::dead_letter_store::MOST;
use crate::rules::DOCUMENT;
use crate::{Batch, DeadLetter, DeadLetterStore, Error, Event, Name, Parsed, Reader, Result, Rules, Source};

/// How many dead letters are stored between two checks of their number.
const TRIM: u64 = 256;

/// The event of a kind of change; `None` for changes without an event.
#[must_use]
pub fn name(kind: Kind) -> Option<Name> {
    Some(match kind {
        Kind::Put | Kind::Append => Name::CreatedPut,
        Kind::Post => Name::CreatedPost,
        Kind::Copy | Kind::Rename => Name::CreatedCopy,
        Kind::Complete => Name::CreatedComplete,
        Kind::Delete => Name::RemovedDelete,
        Kind::Mark => Name::RemovedMarker,
        Kind::TagsPut => Name::TaggingPut,
        Kind::TagsDelete => Name::TaggingDelete,
        Kind::AclPut => Name::AclPut,
        Kind::RetentionPut => Name::PutRetention,
        Kind::LegalHoldPut => Name::PutLegalHold,
        Kind::Expire => Name::ExpirationDelete,
        Kind::ExpireMark => Name::ExpirationMarker,
        Kind::Get => Name::AccessedGet,
        Kind::Head => Name::AccessedHead,
        Kind::GetRetention => Name::AccessedRetention,
        Kind::GetLegalHold => Name::AccessedLegalHold,
        Kind::Attributes => Name::AccessedAttributes,
        _ => return None,
    })
}

/// The event of a change; `None` for changes without an event.
#[must_use]
pub fn event(change: &Change) -> Option<Event> {
    let cause = &change.cause;
    Some(Event {
        position: change.position,
        ballot: digits(change.ballot),
        time_ms: change.time_ms,
        name: name(change.kind)?,
        bucket: change.bucket.clone(),
        key: change.key.clone(),
        version: change.version_id.map(version_text),
        size: change.size,
        etag: change.etag.as_ref().map(ToString::to_string),
        meta: change.meta.clone(),
        who: cause.who.clone(),
        source: cause.source.clone(),
        request_id: cause.request_id.clone(),
        agent: cause.agent.clone(),
        endpoint: cause.endpoint.clone(),
    })
}

/// Empty if it is not known.
fn digits(ballot: Ballot) -> String {
    let mut out = String::new();
    if ballot != Ballot::ZERO {
        for byte in ballot.to_bytes() {
            let _ = write!(out, "{byte:02X}");
        }
    }
    out
}

fn unavailable(e: ashlar_object::Error) -> Error {
    Error::Unavailable(e.to_string())
}

/// The store's change feed.
pub struct Feeds {
    store: Store,
    feed: Feed,
    parsed: Arc<Parsed>,
}

impl Feeds {
    /// The feeds of a store.
    #[must_use]
    pub fn new(store: Store, parsed: Arc<Parsed>) -> Feeds {
        let feed = store.feed().clone();
        Feeds { store, feed, parsed }
    }
}

struct FeedReader(ashlar_object::feed::Reader);

impl Reader for FeedReader {
    fn next(&mut self, most: usize) -> BoxFuture<'_, Result<Batch>> {
        Box::pin(async move {
            let batch = self.0.next(most).await.map_err(unavailable)?;
            let upto = batch.changes.last().map_or(0, |c| c.position);
            let events = batch.changes.iter().filter_map(|c| event(c)).map(Arc::new).collect();
            Ok(Batch { events, upto, lost: batch.lost })
        })
    }

    fn done(&self, position: u64) {
        self.0.done(position);
    }

    fn lag(&self) -> u64 {
        self.0.lag()
    }
}

impl Source for Feeds {
    fn reader<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<Box<dyn Reader>>> {
        Box::pin(async move {
            let reader = self.feed.reader(name).await.map_err(unavailable)?;
            Ok(Box::new(FeedReader(reader)) as Box<dyn Reader>)
        })
    }

    fn forget(&self, name: &str) {
        self.feed.forget(name);
    }

    fn readers(&self) -> Vec<String> {
        self.feed.stats().readers.into_iter().map(|(name, _)| name).collect()
    }

    fn rules(&self, bucket: &str) -> Option<Arc<Rules>> {
        let bucket = self.store.bucket(bucket).ok()?;
        bucket.documents.get(DOCUMENT).map(|text| self.parsed.of(&bucket.name, text))
    }
}

/// Dead letters as objects of a bucket.
pub struct DeadLetterBucket {
    store: Store,
    bucket: String,
    region: String,
    count: AtomicU64,
}

impl DeadLetterBucket {
    /// Stores dead letters in `bucket`, which is created with the first one.
    #[must_use]
    pub fn new(store: Store, bucket: &str, region: &str) -> DeadLetterBucket {
        let (bucket, region) = (bucket.to_owned(), region.to_owned());
        DeadLetterBucket { store, bucket, region, count: AtomicU64::new(0) }
    }

    async fn write(&self, key: &str, body: Bytes) -> ashlar_object::Result<()> {
        let bucket = self.store.bucket(&self.bucket)?;
        let mut put = self.store.put(&bucket, key, PutSpec::new(body.len() as u64)).await?;
        put.write(body).await?;
        let meta = vec![("content-type".to_owned(), "application/json".to_owned())];
        put.commit(VersionSpec { meta, ..VersionSpec::default() }, &Conditions::default()).await.map(drop)
    }

    async fn keys(&self, prefix: &str, most: usize) -> Result<Vec<String>> {
        let mut keys = Vec::new();
        let mut after = String::new();
        let bucket = match self.store.bucket(&self.bucket) {
            Err(ashlar_object::Error::NoSuchBucket) => return Ok(keys),
            bucket => bucket.map_err(unavailable)?,
        };
        while keys.len() < most {
            let max_keys = (most - keys.len()).min(1000);
            let spec = ListSpec { prefix, start_after: &after, max_keys, ..ListSpec::default() };
            let page = self.store.list(&bucket, &spec).await.map_err(unavailable)?;
            keys.extend(page.entries.into_iter().map(|e| e.key));
            match page.next {
                Some(next) => after = next,
                None => break,
            }
        }
        Ok(keys)
    }

    /// Removes the oldest dead letters of a target when there are too many.
    async fn trim(&self, target: &str) -> Result<()> {
        let keys = self.keys(&format!("{target}/"), MOST + 2 * TRIM as usize).await?;
        let bucket = self.store.bucket(&self.bucket).map_err(unavailable)?;
        for key in keys.iter().take(keys.len().saturating_sub(MOST)) {
            tracing::warn!(target_id = target, key, "there are too many dead letters; the oldest is dropped");
            self.store.delete(&bucket, key, None, &Conditions::default()).await.map_err(unavailable)?;
        }
        Ok(())
    }

    async fn read(&self, key: &str) -> Option<DeadLetter> {
        let bucket = self.store.bucket(&self.bucket).ok()?;
        let object = self.store.get(&bucket, key, None).await.ok()?;
        let mut body = object.read(0..object.size()).await.ok()?;
        let mut text = Vec::new();
        while let Some(piece) = body.next().await {
            text.extend_from_slice(&piece.ok()?);
        }
        serde_json::from_slice(&text).ok()
    }
}

impl DeadLetterStore for DeadLetterBucket {
    fn put(&self, dead_letter: DeadLetter) -> BoxFuture<'_, Result<()>> {
        Box::pin(async move {
            let body = serde_json::to_vec(&dead_letter).map_err(|e| Error::Unavailable(e.to_string()))?;
            let (key, body) = (format!("{}.json", dead_letter.id), Bytes::from(body));
            match self.write(&key, body.clone()).await {
                Err(ashlar_object::Error::NoSuchBucket) => {
                    let spec = CreateBucket { region: self.region.clone(), ..CreateBucket::default() };
                    match self.store.create_bucket(&self.bucket, &spec).await {
                        Ok(_) | Err(ashlar_object::Error::BucketExists) => {}
                        Err(e) => return Err(unavailable(e)),
                    }
                    self.write(&key, body).await.map_err(unavailable)?;
                }
                done => done.map_err(unavailable)?,
            }
            if self.count.fetch_add(1, Relaxed).is_multiple_of(TRIM)
                && let Err(error) = self.trim(&dead_letter.target).await
            {
                tracing::debug!(%error, "old dead letters were not dropped");
            }
            Ok(())
        })
    }

    fn list<'a>(&'a self, target: Option<&'a str>, most: usize) -> BoxFuture<'a, Result<Vec<DeadLetter>>> {
        Box::pin(async move {
            let prefix = target.map(|t| format!("{t}/")).unwrap_or_default();
            let mut letters = Vec::new();
            for key in self.keys(&prefix, most).await? {
                // Objects that others put into the bucket are not dead letters.
                letters.extend(self.read(&key).await);
            }
            Ok(letters)
        })
    }

    fn remove(&self, ids: Vec<String>) -> BoxFuture<'_, Result<()>> {
        Box::pin(async move {
            for id in ids {
                let bucket = self.store.bucket(&self.bucket).map_err(unavailable)?;
                let key = format!("{id}.json");
                self.store.delete(&bucket, &key, None, &Conditions::default()).await.map_err(unavailable)?;
            }
            Ok(())
        })
    }
}
