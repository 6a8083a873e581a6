//! Random operations against the model: a few buckets and keys, all features together, then the same over
//! drives, with a drive missing and after reopening.

use std::collections::BTreeMap;

use ashlar_checksum::md5_once;
use ashlar_format::VersionId;
use bytes::Bytes;

use super::s3model::{Id, MBucket, MConditions, MError, MUpload, MVersion, MVersioning, id_text};
use super::{CopySource, Pool, Rng, Store, get, memory, part};
use crate::*;

const BUCKETS: [&str; 2] = ["first", "second"];
const KEYS: [&str; 14] = [
    "a",
    "a/b",
    "a/b/c",
    "a//b",
    "a/../b",
    "./x",
    "..",
    "b",
    "b/",
    "b/\u{e9}",
    "b0",
    "c-",
    "z/z",
    "z/\u{10ffff}",
];

/// The store and the model together.
struct Pair {
    store: Store,
    model: BTreeMap<&'static str, MBucket>,
    rng: Rng,
    /// The operations so far, for the message of a failure.
    trace: Vec<String>,
    max_body: usize,
    /// Those in use.
    keys: &'static [&'static str],
}

fn raw(id: VersionId) -> Id {
    (id != VersionId::ZERO).then_some(id.0)
}

fn version(id: Id) -> VersionId {
    id.map_or(VersionId::ZERO, VersionId)
}

fn etag_of(body: &[u8]) -> String {
    ETag { md5: md5_once(body), parts: 0 }.to_string()
}

fn same_error(e: &Error, m: &MError) -> bool {
    matches!(
        (e, m),
        (Error::NoSuchKey { .. }, MError::NoSuchKey)
            | (Error::NoSuchVersion, MError::NoSuchVersion)
            | (Error::DeleteMarker { .. }, MError::Marker)
            | (Error::PreconditionFailed, MError::Precondition)
    )
}

macro_rules! same {
    ($self:ident, $got:expr, $want:expr) => {
        match (&$got, &$want) {
            (Ok(_), Ok(_)) => {}
            (Err(e), Err(m)) if same_error(e, m) => {}
            (g, w) => {
                let g = g.as_ref().map(|_| ());
                let w = w.as_ref().map(|_| ());
                $self.fail(&format!("store {g:?}, model {w:?}"))
            }
        }
    };
}

// After the macro, which they use.
mod listings;
mod uploads;

impl Pair {
    fn fail(&self, what: &str) -> ! {
        let from = self.trace.len().saturating_sub(25);
        panic!("{what}\nafter:\n{}", self.trace[from..].join("\n"));
    }

    fn bucket(&mut self) -> &'static str {
        self.rng.pick::<&'static str>(&BUCKETS)
    }

    fn key(&mut self) -> &'static str {
        self.rng.pick::<&'static str>(self.keys)
    }

    fn m(&mut self, bucket: &str) -> &mut MBucket {
        self.model.get_mut(bucket).unwrap()
    }

    fn body(&mut self) -> Bytes {
        let len = match self.rng.below(6) {
            0 => 0,
            5 => self.max_body,
            _ => 300,
        };
        let len = self.rng.below(len as u64 + 1) as usize;
        self.rng.body(len)
    }

    fn conditions(&mut self, bucket: &str, key: &str) -> (Conditions, MConditions) {
        let tag = |t: &str| Some(Match::Tags(vec![EntityTag { weak: false, tag: t.to_owned() }]));
        match self.rng.below(8) {
            0 => (
                Conditions { if_none_match: Some(Match::Any), ..Conditions::NONE },
                MConditions { if_none_match_any: true, ..MConditions::default() },
            ),
            1 => (
                Conditions { if_match: Some(Match::Any), ..Conditions::NONE },
                MConditions { if_match: Some(None), ..MConditions::default() },
            ),
            2 => {
                let t = "0123456789abcdef0123456789abcdef";
                (
                    Conditions { if_match: tag(t), ..Conditions::NONE },
                    MConditions { if_match: Some(Some(t.to_owned())), ..MConditions::default() },
                )
            }
            3 => match self.m(bucket).current(key).map(|v| v.etag.clone()) {
                Some(t) => (
                    Conditions { if_match: tag(&t), ..Conditions::NONE },
                    MConditions { if_match: Some(Some(t)), ..MConditions::default() },
                ),
                None => (Conditions::NONE, MConditions::default()),
            },
            _ => (Conditions::NONE, MConditions::default()),
        }
    }

    /// A version of the key: mostly the current one, sometimes one that does not exist.
    fn some_version(&mut self, bucket: &str, key: &str) -> Option<VersionId> {
        let ids: Vec<Id> =
            self.m(bucket).keys.get(key).map(|l| l.iter().map(|v| v.id).collect()).unwrap_or_default();
        match self.rng.below(5) {
            0 => Some(VersionId::ZERO),
            1 => Some(VersionId([0xee; 16])),
            2 | 3 if !ids.is_empty() => Some(version(*self.rng.pick(&ids))),
            _ => None,
        }
    }

    fn pairs(&mut self, prefix: &str) -> Pairs {
        (0..self.rng.below(3)).map(|i| (format!("{prefix}{i}"), self.rng.below(9).to_string())).collect()
    }

    /// The id that the store returned, which must be of the kind that the bucket uses.
    fn given(&mut self, bucket: &str, shown: Option<VersionId>) -> Id {
        let versioning = self.m(bucket).versioning;
        match (versioning, shown) {
            (MVersioning::Off, None) => None,
            (MVersioning::Suspended, Some(VersionId::ZERO)) => None,
            (MVersioning::On, Some(id)) if id != VersionId::ZERO => Some(id.0),
            other => self.fail(&format!("version id {other:?}")),
        }
    }

    async fn run(&mut self, steps: u64) {
        for _ in 0..steps {
            let limit = std::time::Duration::from_secs(30);
            if tokio::time::timeout(limit, self.step()).await.is_err() {
                self.fail("stuck");
            }
            self.counts().await;
        }
    }

    /// The counts are right.
    async fn counts(&self) {
        for b in BUCKETS {
            if !self.store.usage(b).unwrap().complete {
                self.store.count_uncounted(false).await.unwrap();
            }
            let counted = self.store.usage(b).unwrap();
            let found = super::usage::recount(&self.store, b).await;
            if counted.usage != found || !counted.complete || counted.unsettled > 0 {
                self.fail(&format!("{b}: counted {counted:?}, found {found:?}"));
            }
        }
    }

    async fn step(&mut self) {
        match self.rng.below(20) {
            0..=4 => self.put().await,
            5..=6 => self.delete().await,
            7..=9 => self.read().await,
            10..=11 => self.copy().await,
            12 => self.tags().await,
            13 => self.list().await,
            14 => self.list_versions().await,
            15..=17 => self.multipart().await,
            18 => self.versioning().await,
            _ => self.remake().await,
        }
    }

    async fn put(&mut self) {
        let (b, k, body, spec) = (self.bucket(), self.key(), self.body(), self.pairs("x-amz-meta-"));
        let (c, mc) = self.conditions(b, k);
        self.trace.push(format!("put {b} {k} {} bytes {c:?}", body.len()));
        let want = self.m(b).allows(k, &mc, false);
        let mut put = self.store.put(b, k, PutSpec::new(body.len() as u64)).await.unwrap();
        let cut = self.rng.below(body.len() as u64 + 1) as usize;
        put.write(body.slice(..cut)).await.unwrap();
        put.write(body.slice(cut..)).await.unwrap();
        let tags = self.pairs("t");
        let carried = VersionSpec { meta: spec.clone(), tags: tags.clone(), ..VersionSpec::default() };
        let got = put.commit(carried, &c).await;
        same!(self, got, want);
        if let Ok(done) = got {
            let id = self.given(b, done.version_id);
            let etag = etag_of(&body);
            assert_eq!(done.etag.to_string(), etag);
            let v = MVersion { id, marker: false, body: body.to_vec(), etag, meta: spec, tags };
            self.m(b).add(k, v);
        }
    }

    async fn delete(&mut self) {
        let (b, k) = (self.bucket(), self.key());
        let v = self.some_version(b, k);
        let (c, mc) = self.conditions(b, k);
        self.trace.push(format!("delete {b} {k} {v:?} {c:?}"));
        let want = self.m(b).allows(k, &mc, true);
        let got = self.store.delete(b, k, v, &c).await;
        same!(self, got, want);
        let Ok(done) = got else { return };
        match v {
            Some(id) => {
                let was = self.m(b).delete_version(k, raw(id));
                assert_eq!((done.version_id, done.delete_marker), (Some(id), was));
            }
            None if self.m(b).versioning == MVersioning::Off => {
                assert_eq!(done, Deleted::default());
                self.m(b).delete(k, None);
            }
            None => {
                assert!(done.delete_marker);
                let id = self.given(b, done.version_id);
                self.m(b).delete(k, id);
            }
        }
    }

    async fn read(&mut self) {
        let (b, k) = (self.bucket(), self.key());
        let v = self.some_version(b, k);
        self.trace.push(format!("get {b} {k} {v:?}"));
        let want = self.m(b).find(k, v.map(raw)).cloned();
        let got = self.store.get(b, k, v).await;
        same!(self, got, want);
        let (Ok(got), Ok(want)) = (got, want) else { return };
        let latest = self.m(b).current(k).map(|c| c.id) == Some(want.id);
        let shown = self.m(b).versioning != MVersioning::Off || want.id.is_some();
        assert_eq!((got.etag().to_string(), got.is_latest()), (want.etag.clone(), latest));
        assert_eq!(got.version_id(), shown.then_some(version(want.id)));
        assert_eq!((&got.version().meta, &got.version().tags), (&want.meta, &want.tags));
        let len = want.body.len() as u64;
        let from = self.rng.below(len + 1);
        let to = from + self.rng.below(len - from + 1);
        let mut body = got.read(from..to).await.unwrap();
        let mut out = Vec::new();
        while let Some(piece) = body.next().await {
            out.extend_from_slice(&piece.unwrap());
        }
        if out != want.body[from as usize..to as usize] {
            self.fail("other bytes");
        }
    }

    async fn copy(&mut self) {
        let (b, k, to, tk) = (self.bucket(), self.key(), self.bucket(), self.key());
        let v = self.some_version(b, k);
        let (c, mc) = self.conditions(to, tk);
        let meta = (self.rng.below(2) == 0).then(|| self.pairs("x-amz-meta-n"));
        self.trace.push(format!("copy {b} {k} {v:?} to {to} {tk} {meta:?} {c:?}"));
        let from = CopySource { bucket: b.into(), key: k.into(), version: v, conditions: Conditions::NONE };
        let spec = CopySpec { meta: meta.clone(), conditions: c, ..CopySpec::default() };
        let got = self.store.copy(&from, to, tk, spec).await.map(|c| c.committed);
        let source = self.m(b).find(k, v.map(raw)).cloned();
        let source = match source {
            Ok(s) => s,
            Err(MError::Marker) => {
                assert!(matches!(got, Err(Error::InvalidRequest(_))));
                return;
            }
            Err(e) => {
                let want: std::result::Result<(), MError> = Err(e);
                same!(self, got, want);
                return;
            }
        };
        let current = self.m(b).current(k).is_some_and(|c| c.id == source.id);
        if b == to && k == tk && current && meta.is_none() {
            assert!(matches!(got, Err(Error::InvalidRequest(_))));
            return;
        }
        let want = self.m(to).allows(tk, &mc, false);
        same!(self, got, want);
        if let Ok(done) = got {
            let id = self.given(to, done.version_id);
            // The data is written again as one piece, unless only the record changed.
            let etag = if b == to && k == tk { source.etag } else { etag_of(&source.body) };
            assert_eq!(done.etag.to_string(), etag);
            let meta = meta.unwrap_or(source.meta);
            let v = MVersion { id, marker: false, body: source.body, etag, meta, tags: source.tags };
            self.m(to).add(tk, v);
        }
    }

    async fn tags(&mut self) {
        let (b, k) = (self.bucket(), self.key());
        let v = self.some_version(b, k);
        let tags = self.pairs("n");
        self.trace.push(format!("tags {b} {k} {v:?}"));
        let got = self.store.set_tags(b, k, v, tags.clone()).await;
        let want = self.m(b).find_mut(k, v.map(raw)).map(|m| m.tags = tags);
        same!(self, got, want);
    }

    async fn versioning(&mut self) {
        let b = self.bucket();
        if !self.rng.chance(3) {
            return;
        }
        let (to, m) = *self
            .rng
            .pick(&[(Versioning::Enabled, MVersioning::On), (Versioning::Suspended, MVersioning::Suspended)]);
        self.trace.push(format!("versioning {b} {to:?}"));
        self.store.set_versioning(b, to).await.unwrap();
        self.m(b).versioning = m;
    }

    /// Deletes a bucket (which must be empty), and creates it again.
    async fn remake(&mut self) {
        let b = self.bucket();
        self.trace.push(format!("remake {b}"));
        let got = self.store.delete_bucket(b).await;
        if !self.m(b).keys.is_empty() {
            assert!(matches!(got, Err(Error::BucketNotEmpty)));
            if self.rng.chance(4) {
                self.empty(b).await;
            }
            return;
        }
        got.unwrap();
        assert!(matches!(get(&self.store, b, "a", None).await, Err(Error::NoSuchBucket)));
        self.store.create_bucket(b, &CreateBucket::default()).await.unwrap();
        assert!(matches!(
            self.store.create_bucket(b, &CreateBucket::default()).await,
            Err(Error::BucketExists)
        ));
        *self.m(b) = MBucket::new();
    }

    /// Deletes all versions, as clients do: a page of versions, then a multi-object delete.
    async fn empty(&mut self, b: &'static str) {
        self.trace.push(format!("empty {b}"));
        loop {
            let spec = VersionListSpec { max_keys: 7, ..VersionListSpec::default() };
            let page = self.store.list_versions(b, &spec).await.unwrap();
            if page.entries.is_empty() {
                break;
            }
            let what = page.entries.iter().map(|e| ToDelete {
                key: e.entry.key.clone(),
                version: Some(e.version_id),
                conditions: Conditions::NONE,
                bypass: false,
            });
            for done in self.store.delete_many(b, what.collect()).await.unwrap() {
                done.unwrap();
            }
        }
        self.m(b).keys.clear();
    }
}

async fn pair(store: Store, seed: u64, max_body: usize) -> Pair {
    let mut model = BTreeMap::new();
    for b in BUCKETS {
        store.create_bucket(b, &CreateBucket::default()).await.unwrap();
        model.insert(b, MBucket::new());
    }
    let trace = vec![format!("seed {seed:#x}")];
    Pair { store, model, rng: Rng(seed), trace, max_body, keys: &KEYS }
}

#[tokio::test]
async fn in_memory() {
    for seed in 1..=40 * super::times() {
        let (store, memory, control) = memory().await;
        let mut p = pair(store, seed * 0x9e37_79b9, 3000).await;
        if seed % 2 == 0 {
            // Long lists of versions.
            p.keys = &KEYS[..3];
        }
        p.run(500).await;
        p.compare().await;
        p.store = super::again(&memory, &control);
        p.compare().await;
        // After everything is deleted and swept, nothing is left.
        for b in BUCKETS {
            for u in p.m(b).uploads.clone() {
                p.store.abort_upload(b, &u.key, UploadId(u.id)).await.unwrap();
            }
            p.empty(b).await;
            p.store.delete_bucket(b).await.unwrap();
        }
        p.store.sweep(i64::MAX / 2).await.unwrap();
        super::spilled(&p.store).await;
        let (registers, bodies) = memory.census();
        let left: usize = registers.saturating_sub(0);
        assert_eq!((left, bodies), (0, 0), "seed {seed}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn over_drives() {
    for (n, seed) in [(4u8, 0xabc1u64), (1, 0xabc2), (3, 0xabc3)] {
        let mut pool = Pool::new(n).await;
        let store = pool.open(&[]).await;
        let mut p = pair(store, seed, 400_000).await;
        p.run(150).await;
        p.compare().await;
        pool.close().await;
        if n > 1 {
            // With a drive missing, reads and writes continue.
            p.store = pool.open(&[n as usize - 1]).await;
            p.compare().await;
            p.run(100).await;
            p.compare().await;
            pool.close().await;
        }
        p.store = pool.open(&[]).await;
        p.compare().await;
        p.run(50).await;
        p.compare().await;
        pool.close().await;
    }
}
