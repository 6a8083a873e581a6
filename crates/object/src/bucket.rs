//! Buckets: their registry in the control store, its cache, and deletion that loses no write.
//!
//! The registry is read once and kept in memory; every change goes through this process, is made from what
//! the control store holds, and writes the control store first and the memory second. So the hot path does no I/O for the bucket.
//!
//! **Deletion.** Every change of a register passes the gate of its bucket. Deleting closes the gate,
//! waits until those inside are out, looks whether the bucket is empty, and either removes the bucket
//! from the registry (whoever waits at the gate gets "no such bucket") or opens the gate again. So no
//! write is acknowledged into a bucket that is gone, and a crash at any point leaves either the
//! bucket or nothing: the removal is one update. When that update has no known outcome the gate stays
//! shut, with "unavailable", until the bucket, written anew as it is, decides it: either the bucket is
//! gone, or the removal no longer fits what is stored. A bucket made again
//! under the same name has another id, so that nothing of the old one can show in it; uploads that
//! were in progress are listed under `gone/` in the same update and collected by `sweep`.
//! Several nodes will need the gate in the control store; one process has it in memory.

use futures::future::BoxFuture;
use std::collections::BTreeMap;
use std::sync::Arc;

use ashlar_cluster::{Control, Entry, Update};
use ashlar_format::BucketId;
use bytes::Bytes;
use parking_lot::RwLock;
use serde::{Deserialize, Serialize};

use crate::gate::{DEAD, Gate, REMOVING};
use crate::types::Pairs;
use crate::{Error, Result, Store};

/// Largest document of a bucket, in bytes.
const MAX_DOCUMENT: usize = 256 << 10;
/// Keys of buckets in the control store: this and the name.
const PREFIX: &str = "bucket/";
/// Keys of deleted buckets whose uploads are not collected yet: this and the id.
pub(crate) const GONE: &str = "gone/";

/// Whether a bucket keeps versions.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Versioning {
    /// Never enabled: every key has at most the null version, and no version ids are shown.
    #[default]
    Off,
    /// Every change makes a new version.
    Enabled,
    /// Changes replace the null version, older versions stay.
    Suspended,
}

/// What a bucket is made with.
#[derive(Clone, Debug, Default)]
pub struct CreateBucket {
    /// Enables versioning for good and allows object lock (the lock itself is a later door).
    pub object_lock: bool,
    /// Where the bucket says it is; empty for the default region.
    pub region: String,
    /// Documents that it has from the first moment, by kind.
    pub documents: BTreeMap<String, Arc<str>>,
    /// Tags that it has from the first moment.
    pub tags: Pairs,
}

/// A bucket as of one revision of the registry; a cheap, shared snapshot.
#[derive(Clone, Debug)]
pub struct Bucket {
    /// For life; a bucket that is deleted and made again has another.
    pub id: BucketId,
    /// The name.
    pub name: String,
    /// Milliseconds since 1970.
    pub created_ms: i64,
    /// Whether it keeps versions.
    pub versioning: Versioning,
    /// Made with object lock.
    pub object_lock: bool,
    /// As given at creation.
    pub region: String,
    /// Bucket tags; empty when none are set.
    pub tags: Pairs,
    /// Other configuration by name (policy, cors, ...), opaque to this crate.
    pub documents: BTreeMap<String, Arc<str>>,
}

/// The JSON in the control store, format 1.
#[derive(Serialize, Deserialize)]
struct Stored {
    format: u32,
    id: String,
    created_ms: i64,
    versioning: Versioning,
    #[serde(default)]
    object_lock: bool,
    #[serde(default)]
    region: String,
    #[serde(default)]
    tags: Pairs,
    #[serde(default)]
    documents: BTreeMap<String, String>,
}

impl Bucket {
    fn encode(&self) -> Result<Bytes> {
        let stored = Stored {
            format: 1,
            id: self.id.to_hex(),
            created_ms: self.created_ms,
            versioning: self.versioning,
            object_lock: self.object_lock,
            region: self.region.clone(),
            tags: self.tags.clone(),
            documents: self.documents.iter().map(|(k, v)| (k.clone(), v.to_string())).collect(),
        };
        let json = serde_json::to_vec(&stored).map_err(|e| Error::Internal(e.to_string()))?;
        Ok(Bytes::from(json))
    }

    fn decode(name: &str, bytes: &[u8]) -> Result<Bucket> {
        let bad = |why: String| Error::Internal(format!("bucket {name} in the registry: {why}"));
        let s: Stored = serde_json::from_slice(bytes).map_err(|e| bad(e.to_string()))?;
        if s.format != 1 {
            return Err(bad(format!("format {} is not known here", s.format)));
        }
        Ok(Bucket {
            id: BucketId::from_hex(&s.id).ok_or_else(|| bad("its id".to_owned()))?,
            name: name.to_owned(),
            created_ms: s.created_ms,
            versioning: s.versioning,
            object_lock: s.object_lock,
            region: s.region,
            tags: s.tags,
            documents: s.documents.into_iter().map(|(k, v)| (k, Arc::from(v))).collect(),
        })
    }
}

/// A bucket in memory.
pub(crate) struct Live {
    bucket: RwLock<Arc<Bucket>>,
    pub gate: Gate,
}

impl Live {
    pub(crate) fn bucket(&self) -> Arc<Bucket> {
        self.bucket.read().clone()
    }
}

/// All buckets in memory over the control store.
pub(crate) struct Registry {
    pub control: Control,
    live: RwLock<BTreeMap<String, Arc<Live>>>,
    /// Changes of the registry go one after another.
    turn: tokio::sync::Mutex<()>,
}

impl Registry {
    pub(crate) fn load(control: Control) -> Result<Registry> {
        let mut live = BTreeMap::new();
        for (key, value) in control.list(PREFIX) {
            let bucket = Bucket::decode(&key[PREFIX.len()..], &value.bytes)?;
            live.insert(bucket.name.clone(), Arc::new(Live::new(bucket)));
        }
        Ok(Registry { control, live: RwLock::new(live), turn: tokio::sync::Mutex::new(()) })
    }

    pub(crate) fn live(&self, name: &str) -> Result<Arc<Live>> {
        self.live.read().get(name).cloned().ok_or(Error::NoSuchBucket)
    }

    pub(crate) fn all(&self) -> Vec<Arc<Live>> {
        self.live.read().values().cloned().collect()
    }

    /// Changes one bucket, control store first; `change` is asked anew when others were faster.
    pub(crate) async fn modify(
        &self,
        name: &str,
        mut change: impl FnMut(&mut Bucket) -> Result<()> + Send,
    ) -> Result<()> {
        let _turn = self.turn.lock().await;
        let live = self.live(name)?;
        let was = live.bucket();
        let write = |update: &mut Update| {
            let entry = self.control.read(&format!("{PREFIX}{name}"));
            let mut bucket = same(&was, &entry)?.ok_or(Error::NoSuchBucket)?;
            change(&mut bucket)?;
            update.set(&entry, bucket.encode()?);
            Ok::<_, Error>(bucket)
        };
        let bucket = self.control.change(write).await?;
        *live.bucket.write() = Arc::new(bucket);
        Ok(())
    }

    /// Decides removals without a known outcome, so that gates that are shut for them open. Answers the
    /// buckets that are gone.
    pub(crate) async fn resolve(&self) -> Vec<BucketId> {
        let shut: Vec<Arc<Live>> =
            self.live.read().values().filter(|l| l.gate.is_undecided()).cloned().collect();
        if shut.is_empty() {
            return Vec::new();
        }
        let _turn = self.turn.lock().await;
        let mut gone = Vec::new();
        for live in shut {
            match self.decide(&live).await {
                Ok(true) => live.gate.open(),
                Ok(false) => gone.push(self.forget(&live)),
                Err(error) => tracing::debug!(%error, "whether a bucket is gone is not known yet"),
            }
        }
        gone
    }

    /// Whether a bucket is there after a removal without a known outcome. It is written anew as it is: a
    /// removal that is still under way then no longer fits.
    async fn decide(&self, live: &Live) -> Result<bool> {
        let was = live.bucket();
        let write = |update: &mut Update| {
            let entry = self.control.read(&format!("{PREFIX}{}", was.name));
            let there = same(&was, &entry)?.is_some();
            if let Some(bytes) = entry.bytes().filter(|_| there) {
                update.set(&entry, bytes.clone());
            }
            Ok(there)
        };
        self.control.change(write).await
    }

    /// A bucket that is gone from the control store.
    fn forget(&self, live: &Live) -> BucketId {
        let bucket = live.bucket();
        self.live.write().remove(&bucket.name);
        live.gate.mark(DEAD);
        bucket.id
    }
}

/// The bucket as it is stored; `None`: it is gone, and perhaps another has its name.
fn same(was: &Bucket, entry: &Entry) -> Result<Option<Bucket>> {
    let stored = entry.bytes().map(|b| Bucket::decode(&was.name, b)).transpose()?;
    Ok(stored.filter(|b| b.id == was.id))
}

impl Live {
    fn new(bucket: Bucket) -> Live {
        Live { bucket: RwLock::new(Arc::new(bucket)), gate: Gate::default() }
    }
}

/// Errors of the control store, translated.
pub(crate) fn control_error(e: ashlar_cluster::Error) -> Error {
    match e {
        ashlar_cluster::Error::Conflict(_) | ashlar_cluster::Error::Contended(_) => Error::Conflict,
        ashlar_cluster::Error::TooLarge(_) => Error::EntityTooLarge,
        ashlar_cluster::Error::Unavailable(why) => Error::Unavailable(why),
        e => Error::Internal(e.to_string()),
    }
}

impl From<ashlar_cluster::Error> for Error {
    fn from(e: ashlar_cluster::Error) -> Error {
        control_error(e)
    }
}

/// The rules of S3 for bucket names.
fn check_name(name: &str) -> Result<()> {
    let bad = |why| Err(Error::InvalidBucketName(why));
    if !(3..=63).contains(&name.len()) {
        return bad("3 to 63 characters are allowed");
    }
    let legal = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-' || b == b'.';
    if !name.bytes().all(legal) {
        return bad("only lower-case letters, digits, dots and hyphens are allowed");
    }
    let ends = |b: Option<u8>| b.is_some_and(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
    if !ends(name.bytes().next()) || !ends(name.bytes().last()) {
        return bad("it must begin and end with a letter or digit");
    }
    if name.contains("..") {
        return bad("two dots in a row");
    }
    if name.parse::<std::net::Ipv4Addr>().is_ok() {
        return bad("it looks like an IP address");
    }
    if name.starts_with("xn--") || name.ends_with("-s3alias") || name.ends_with("--ol-s3") {
        return bad("a reserved prefix or suffix");
    }
    Ok(())
}

impl Store {
    /// Makes a bucket.
    ///
    /// # Errors
    /// `BucketExists`, `InvalidBucketName`, `Unavailable`.
    pub fn create_bucket<'a>(
        &'a self,
        name: &'a str,
        spec: &'a CreateBucket,
    ) -> BoxFuture<'a, Result<Arc<Bucket>>> {
        Box::pin(async move {
            check_name(name)?;
            let registry = &self.inner.registry;
            let _turn = registry.turn.lock().await;
            if registry.live.read().contains_key(name) {
                return Err(Error::BucketExists);
            }
            let mut id = [0; 16];
            getrandom::fill(&mut id).map_err(|e| Error::Internal(format!("no randomness: {e}")))?;
            let bucket = Bucket {
                id: BucketId(id),
                name: name.to_owned(),
                created_ms: self.inner.now_ms(),
                versioning: if spec.object_lock { Versioning::Enabled } else { Versioning::Off },
                object_lock: spec.object_lock,
                region: spec.region.clone(),
                tags: spec.tags.clone(),
                documents: spec.documents.clone(),
            };
            let json = bucket.encode()?;
            let make = |update: &mut Update| {
                let entry = registry.control.read(&format!("{PREFIX}{name}"));
                if entry.bytes().is_some() {
                    return Err(Error::BucketExists);
                }
                update.set(&entry, json.clone());
                Ok(())
            };
            registry.control.change(make).await?;
            let live = Arc::new(Live::new(bucket));
            let bucket = live.bucket();
            self.inner.usage.made(bucket.id, self.inner.now_ms());
            registry.live.write().insert(name.to_owned(), live);
            Ok(bucket)
        })
    }

    /// The bucket, from memory: no I/O.
    ///
    /// # Errors
    /// `NoSuchBucket`.
    pub fn bucket(&self, name: &str) -> Result<Arc<Bucket>> {
        Ok(self.inner.registry.live(name)?.bucket())
    }

    /// All buckets in order of name, from memory.
    #[must_use]
    pub fn buckets(&self) -> Vec<Arc<Bucket>> {
        self.inner.registry.live.read().values().map(|l| l.bucket()).collect()
    }

    /// Deletes an empty bucket; uploads in progress in it are given up.
    ///
    /// # Errors
    /// `NoSuchBucket`, `BucketNotEmpty`, `Conflict` (it is being deleted), `Unavailable`.
    pub fn delete_bucket<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let registry = &self.inner.registry;
            let live = registry.live(name)?;
            let was = live.bucket();
            let Some(_closed) = live.gate.close().await else {
                live.gate.enter().await?;
                return Err(Error::Conflict);
            };
            let _turn = registry.turn.lock().await;
            self.inner.check_empty(was.id).await?;
            let remove = |update: &mut Update| {
                let entry = registry.control.read(&format!("{PREFIX}{name}"));
                let there = same(&was, &entry)?.is_some();
                if there {
                    update.remove(&entry);
                    let gone = registry.control.read(&format!("{GONE}{}", was.id));
                    update.set(&gone, Bytes::from_static(b"{\"format\":1}"));
                }
                Ok(there)
            };
            live.gate.mark(REMOVING);
            let done = match registry.control.change(remove).await {
                // Another server removed it.
                Ok(false) => Err(Error::NoSuchBucket),
                Ok(true) => Ok(()),
                Err(Error::Unavailable(why)) => match registry.decide(&live).await {
                    Ok(false) => Ok(()),
                    Ok(true) => {
                        live.gate.unmark(REMOVING);
                        return Err(Error::Unavailable(why));
                    }
                    Err(_) => return Err(Error::Unavailable(why)),
                },
                Err(e) => {
                    live.gate.unmark(REMOVING);
                    return Err(e);
                }
            };
            self.inner.usage.forget(registry.forget(&live));
            done
        })
    }

    /// Enables or suspends versioning. `Off` is refused: it cannot be had back.
    ///
    /// # Errors
    /// `NoSuchBucket`, `InvalidBucketState` (suspending with object lock), `InvalidArgument`.
    pub fn set_versioning<'a>(&'a self, name: &'a str, versioning: Versioning) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let registry = &self.inner.registry;
            registry
                .modify(name, |b| {
                    if versioning == Versioning::Off {
                        return Err(Error::InvalidArgument("versioning can be suspended, not removed"));
                    }
                    if b.object_lock && versioning != Versioning::Enabled {
                        return Err(Error::InvalidBucketState("object lock needs versioning"));
                    }
                    b.versioning = versioning;
                    Ok(())
                })
                .await
        })
    }

    /// Replaces (or with `None` removes) the tags of the bucket.
    ///
    /// # Errors
    /// `NoSuchBucket`, `Unavailable`.
    pub fn set_bucket_tags<'a>(&'a self, name: &'a str, tags: Option<Pairs>) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let change = |b: &mut Bucket| {
                b.tags = tags.clone().unwrap_or_default();
                Ok(())
            };
            self.inner.registry.modify(name, change).await
        })
    }

    /// Stores (or with `None` removes) a document of the bucket: at most 256 KiB.
    ///
    /// # Errors
    /// `NoSuchBucket`, `EntityTooLarge`, `Unavailable`.
    pub fn set_bucket_document<'a>(
        &'a self,
        name: &'a str,
        kind: &'a str,
        text: Option<&'a str>,
    ) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            if text.is_some_and(|t| t.len() > MAX_DOCUMENT) {
                return Err(Error::EntityTooLarge);
            }
            let change = |b: &mut Bucket| {
                match text {
                    Some(t) => b.documents.insert(kind.to_owned(), Arc::from(t)),
                    None => b.documents.remove(kind),
                };
                Ok(())
            };
            self.inner.registry.modify(name, change).await
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        for good in ["abc", "a.b-c", "0123", &"x".repeat(63)] {
            assert!(check_name(good).is_ok(), "{good}");
        }
        for bad in ["ab", "Abc", "a_b", "-ab", "ab-", "a..b", "1.2.3.4", "xn--abc", &"x".repeat(64), "a/b"] {
            assert!(check_name(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn golden_json() {
        let bucket = Bucket {
            id: BucketId([1; 16]),
            name: "b".into(),
            created_ms: 5,
            versioning: Versioning::Enabled,
            object_lock: false,
            region: "x".into(),
            tags: vec![("k".into(), "v".into())],
            documents: [("cors".to_owned(), Arc::from("<a/>"))].into(),
        };
        let json = bucket.encode().unwrap();
        assert_eq!(
            std::str::from_utf8(&json).unwrap(),
            "{\"format\":1,\"id\":\"01010101010101010101010101010101\",\"created_ms\":5,\
             \"versioning\":\"enabled\",\"object_lock\":false,\"region\":\"x\",\"tags\":[[\"k\",\"v\"]],\
             \"documents\":{\"cors\":\"<a/>\"}}"
        );
        assert_eq!(Bucket::decode("b", &json).unwrap().encode().unwrap(), json);
        assert!(Bucket::decode("b", b"{}").is_err());
    }
}
