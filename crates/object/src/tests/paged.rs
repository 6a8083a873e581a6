//! Keys whose older versions are in pages look like any other.

use std::sync::Arc;

use ashlar_commit::version_list::{Bounds, Need, Pages, Window, change, is_long, spill};
use ashlar_format::{Body, VersionId};

use super::{Store, again, memory, put};
use crate::*;

const KEYS: [(&str, usize); 4] = [("a", 3), ("k", 400), ("k2", 1), ("z", 20)];

/// Every version, in lists of `max`.
async fn listed(store: &Store, max: usize) -> Vec<VersionEntry> {
    let (mut all, mut key, mut version) = (Vec::new(), String::new(), None);
    loop {
        let spec = VersionListSpec {
            key_marker: &key,
            version_marker: version,
            max_keys: max,
            ..VersionListSpec::default()
        };
        let page = store.list_versions("bucket", &spec).await.unwrap();
        assert!(page.entries.len() <= max && (!page.truncated || page.entries.len() == max));
        all.extend(page.entries);
        if !page.truncated {
            return all;
        }
        (key, version) = (page.next_key.unwrap(), page.next_version);
    }
}

/// What every version has, by key and id.
async fn bodies(store: &Store, entries: &[VersionEntry]) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    for e in entries {
        let object = store.get("bucket", &e.entry.key, Some(e.version_id)).await.unwrap();
        assert_eq!((object.version_id(), object.is_latest()), (Some(e.version_id), e.latest));
        let mut body = object.read(0..object.size()).await.unwrap();
        let mut bytes = Vec::new();
        while let Some(piece) = body.next().await {
            bytes.extend_from_slice(&piece.unwrap());
        }
        all.push(bytes);
    }
    all
}

#[tokio::test]
async fn pages_are_read_like_records() {
    let (store, memory, control) = memory().await;
    store.create_bucket("bucket", &CreateBucket::default()).await.unwrap();
    // The null version is the oldest of its key.
    put(&store, "bucket", "k", &"null".into()).await.unwrap();
    store.set_versioning("bucket", Versioning::Enabled).await.unwrap();
    for (key, count) in KEYS {
        for i in 0..count {
            put(&store, "bucket", key, &format!("{key} {i}").into()).await.unwrap();
        }
    }
    store.count_usage("bucket").await.unwrap();
    let before = (listed(&store, 1000).await, store.usage("bucket").unwrap().usage);
    let bytes = bodies(&store, &before.0).await;
    assert_eq!(before.0.len(), 425);

    for (key, count) in KEYS {
        let register = store.inner.object_key(&store.bucket("bucket").unwrap(), key).unwrap();
        let paged = memory.spill(&register, &Bounds::STANDARD);
        assert_eq!(paged, count > Bounds::STANDARD.head);
    }
    let store = again(&memory, &control);
    store.count_usage("bucket").await.unwrap();
    for max in [1000, 7, 3] {
        assert!(listed(&store, max).await == before.0, "in lists of {max}");
    }
    assert_eq!(store.usage("bucket").unwrap().usage, before.1);
    assert!(bodies(&store, &before.0).await == bytes);
    let absent = store.get("bucket", "k", Some(VersionId([7; 16]))).await;
    assert!(matches!(absent.err(), Some(Error::NoSuchVersion)));
    // The first page of a long list reads none of the older pages but those that it shows.
    let steps = memory.steps.load(std::sync::atomic::Ordering::SeqCst);
    let spec = VersionListSpec { prefix: "k", max_keys: 5, ..VersionListSpec::default() };
    store.list_versions("bucket", &spec).await.unwrap();
    let steps = memory.steps.load(std::sync::atomic::Ordering::SeqCst) - steps;
    assert!(steps < 12, "{steps} steps");
    // A marker that is gone shows the key's versions again rather than leaving some out.
    let spec = VersionListSpec {
        key_marker: "k",
        version_marker: Some(VersionId([7; 16])),
        max_keys: 1000,
        ..VersionListSpec::default()
    };
    assert_eq!(store.list_versions("bucket", &spec).await.unwrap().entries.len(), 401 + 1 + 20);
    // Nothing changes such a list yet, and nothing is lost by trying.
    assert!(matches!(put(&store, "bucket", "k", &"one more".into()).await, Err(Error::Internal(_))));
    assert!(listed(&store, 1000).await == before.0);
}

impl crate::memory::Memory {
    /// Moves the older versions of a key to pages. True: it has pages now.
    fn spill(&self, key: &ashlar_format::RegisterKey, bounds: &Bounds) -> bool {
        self.rewrite(key, |body, put_page| {
            if !is_long(body, bounds) {
                return None;
            }
            // As it is: a plan of the list itself, and then without most of its head.
            let window = Window::of(body, &Pages::default(), &[]).ok()?;
            let same = change(body, &window, window.versions().to_vec(), &Pages::default(), bounds);
            assert_eq!(same.map(|p| p.body(&[])), Ok(body.clone()));
            let plan = match spill(body, &Pages::default(), bounds) {
                Ok(plan) => plan?,
                Err(Need(_)) => unreachable!("there are no pages yet"),
            };
            let mut written = Vec::new();
            for i in 0..plan.pages() {
                written.push(put_page(plan.page(i, &written).encode()));
            }
            Some(plan.body(&written))
        })
    }

    fn rewrite(
        &self,
        key: &ashlar_format::RegisterKey,
        make: impl FnOnce(&Body, &mut dyn FnMut(Vec<u8>) -> (ashlar_format::Data, u64)) -> Option<Body>,
    ) -> bool {
        let record = self.record(key);
        let mut put_page = |bytes: Vec<u8>| {
            let size = bytes.len() as u64;
            (self.insert(bytes.into()), size)
        };
        let Some(body) = make(&record.body, &mut put_page) else { return false };
        self.replace(key, Arc::new(ashlar_format::Record { body, ..(*record).clone() }));
        true
    }
}
