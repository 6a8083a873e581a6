//! Tests of the whole crate.
//!
//! | file | what it tests |
//! |---|---|
//! | `s3model` | the S3 semantics over plain maps, written independently of the store |
//! | `random` | random operations against that model, in memory and over drives |
//! | `interleave` | every order of steps of concurrent calls, and crashes between any two |
//! | `upload` | multipart: the table of errors, checksums, retries, interleavings (T14) |
//! | `race` | conditional writes (T13), bucket deletion, lists under change (T16) |
//! | `deletion` | the deletion of a bucket by another process loses no acknowledged write |
//! | `flaws` | F7, F8, F12 of docs/protocol.md 4: clocks, slow clients, folders |
//! | `lock` | locked versions stay |
//! | `seal` | encrypted bodies: ranges, damage, copies, uploads, envelopes |
//! | `shares` | several nodes keep a limit together |
//! | `share_times` | the same over hours of simulated time: nodes that stay away, clocks that jump |
//! | `usage` | limits of buckets hold, and counts are right |
//! | `expire` | the removals of lifecycle rules |
//! | `feed` | the change feed is complete |
//! | `takeover` | the change feed of a node that is gone is taken over completely |
//! | `rename` | a rename is atomic |
//! | `paged` | keys whose older versions are in pages look like any other |
//! | `append` | appended bytes are added exactly once |
//! | `basic` | the guarantees of S3 for single operations |
//! | `by_name` | the store with the names of buckets, as tests call it |
//! | `registry` | several processes over one registry of buckets |

mod append;
mod basic;
mod by_name;
mod deletion;
mod expire;
mod feed;
mod flaws;
mod folders;
mod interleave;
mod lock;
mod paged;
mod race;
mod random;
mod registry;
mod rename;
mod s3model;
mod seal;
mod share_times;
mod shares;
mod takeover;
mod upload;
mod usage;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ashlar_cluster::{Control, Embedded, FileMedium, Map, Medium};
use ashlar_commit::version_list::Bounds;
use ashlar_drive::Drive;
use ashlar_erasure_set::{Code, Group, Layout, Sets};
use ashlar_format::{DeploymentId, DriveId, VersionId};
use ashlar_machine::{BufferPool, Folder};
use bytes::Bytes;

pub(crate) use self::by_name::{CopySource, Store};
use crate::backend::Backend;
use crate::memory::{Memory, control};
use crate::{
    Committed, Conditions, Object, Options, PartEntry, PartSpec, PutSpec, Result, UploadId, VersionSpec,
};

/// xorshift64*, seeded: every failure prints the seed.
pub(crate) struct Rng(pub u64);

impl Rng {
    pub fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) % n
    }
    pub fn chance(&mut self, one_in: u64) -> bool {
        self.below(one_in) == 0
    }
    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len() as u64) as usize]
    }
    pub fn body(&mut self, len: usize) -> Bytes {
        let seed = self.below(1 << 30) as u32;
        Bytes::from(
            (0..len)
                .map(|i| (seed.wrapping_add(i as u32).wrapping_mul(2_654_435_761) >> 24) as u8)
                .collect::<Vec<_>>(),
        )
    }
}

/// Lists of more than two versions have pages, and soon pages of every kind.
pub(crate) const SMALL: Bounds = Bounds { head: 2, keep: 1, leaf: 4, fan: 2, ..Bounds::STANDARD };

/// Options with parts of any size.
pub(crate) fn options() -> Options {
    Options { min_part: 100, version_bounds: SMALL, ..Options::default() }
}

/// A strict store in memory, and its backend.
pub(crate) async fn memory() -> (Store, Arc<Memory>, Control) {
    let memory = Arc::new(Memory::new(true));
    let control = control(DeploymentId([1; 16]), DriveId([1; 16])).await.unwrap();
    (again(&memory, &control), memory, control)
}

/// Waits until no version is being moved to a page.
pub(crate) async fn spilled(store: &Store) {
    while !store.inner.spills_idle() {
        tokio::task::yield_now().await;
    }
}

/// Options of a store in memory: where the memory refuses writes, changes are refused soon.
pub(crate) fn options_in_memory() -> Options {
    let feed = crate::feed::Limits { intent_timeout: Duration::from_millis(50), ..Default::default() };
    Options { feed, ..options() }
}

/// A store like after a restart.
pub(crate) fn again(memory: &Arc<Memory>, control: &Control) -> Store {
    Store::over(Backend::Memory(memory.clone()), control.clone(), options_in_memory()).unwrap()
}

/// A pool of drives in a temporary folder.
pub(crate) struct Pool {
    _dir: tempfile::TempDir,
    paths: Vec<(DriveId, PathBuf)>,
    map: Map,
    drives: Vec<Drive>,
    control: Option<Control>,
    pub sets: Option<Sets>,
    /// No other coordinator uses the drives (see [`Pool::gateway`]).
    pub sole: bool,
}

/// Fewer than a deployment has, to save time.
const GROUPS: usize = 5;
const DEPLOYMENT: DeploymentId = DeploymentId([0xd; 16]);

impl Pool {
    /// Formats `n` drives.
    pub async fn new(n: u8) -> Pool {
        let dir = if std::path::Path::new("/dev/shm").is_dir() {
            tempfile::tempdir_in("/dev/shm").unwrap()
        } else {
            tempfile::tempdir().unwrap()
        };
        let folder = |i: u8| dir.path().join(format!("drive{i}"));
        let ids = (1..=n).map(|i| (DriveId([i; 16]), folder(i).display().to_string(), 1 << 30));
        let map = Map::first(DEPLOYMENT, &ids.collect::<Vec<_>>(), None, Some(GROUPS)).unwrap();
        let mut paths = Vec::new();
        for i in 1..=n {
            let path = folder(i);
            std::fs::create_dir(&path).unwrap();
            let id = DriveId([i; 16]);
            let label = ashlar_drive::Label { deployment: DEPLOYMENT, drive: id, created_ms: 1 };
            let groups = map.groups_of(id).into_iter().map(|g| (g, ashlar_drive::Role::Voter));
            ashlar_drive::format(&path, &label, &groups.collect::<Vec<_>>()).unwrap();
            paths.push((id, path));
        }
        let entries = map.entries().into_iter().collect();
        let control = Embedded::create(DEPLOYMENT, media(&paths), entries).await.unwrap().control();
        control.close().await;
        Pool { _dir: dir, paths, map, drives: Vec::new(), control: None, sets: None, sole: true }
    }

    /// Opens the store over all drives but those in `missing` (numbers from 0).
    pub async fn open(&mut self, missing: &[usize]) -> Store {
        let buffers = BufferPool::new(256 << 20);
        let present: Vec<(DriveId, PathBuf)> = self
            .paths
            .iter()
            .enumerate()
            .filter(|(i, _)| !missing.contains(i))
            .map(|(_, p)| p.clone())
            .collect();
        self.drives = present
            .iter()
            .map(|(_, p)| {
                let mut o = ashlar_drive::Options::new(buffers.clone());
                o.segment_bytes = 32 << 20;
                o.journal_segment_bytes = 8 << 20;
                o.reserve_bytes = 1 << 20;
                Drive::open(p, &o).unwrap()
            })
            .collect();
        let layout = Layout {
            epoch: self.map.epoch,
            code: Code { k: self.map.code().k, m: self.map.code().m },
            groups: self
                .map
                .groups
                .iter()
                .map(|g| Group { id: g.id, epoch: g.epoch, slots: g.slots.iter().map(|s| s.drive).collect() })
                .collect(),
        };
        let mut o = ashlar_erasure_set::Options::new(buffers);
        o.sole = self.sole;
        let sets = Sets::new(layout, self.drives.clone(), o).unwrap();
        sets.start();
        let control = Embedded::open(DEPLOYMENT, media(&present)).await.unwrap().control();
        self.control = Some(control.clone());
        self.sets = Some(sets.clone());
        Store::open(sets, control, options()).unwrap()
    }

    /// Another coordinator over the same drives, as another node would be.
    pub fn gateway(&self, node: u16) -> (Store, Sets) {
        let layout = (*self.sets.as_ref().unwrap().layout()).clone();
        let mut o = ashlar_erasure_set::Options::new(BufferPool::new(64 << 20));
        assert!(!self.sole, "every coordinator must know of the others");
        o.node = node;
        o.sole = false;
        let sets = Sets::new(layout, self.drives.clone(), o).unwrap();
        sets.start();
        let store = Store::open(sets.clone(), self.control.clone().unwrap(), options()).unwrap();
        (store, sets)
    }

    /// Registers that lists and digests of all drives went through since they were opened.
    pub fn scanned(&self) -> u64 {
        self.drives.iter().map(Drive::scanned).sum()
    }

    /// Closes everything.
    pub async fn close(&mut self) {
        if let Some(sets) = self.sets.take() {
            sets.stop().await;
        }
        for d in self.drives.drain(..) {
            // Polled rather than awaited without limit: a drive has one waiter at a time.
            let patience = std::time::Duration::from_millis(200);
            while tokio::time::timeout(patience, d.close()).await.is_err() {}
        }
        if let Some(control) = self.control.take() {
            control.close().await;
        }
    }
}

fn media(paths: &[(DriveId, PathBuf)]) -> Vec<(DriveId, Arc<dyn Medium>)> {
    paths
        .iter()
        .map(|(d, p)| (*d, Arc::new(FileMedium::new(Folder::real(p, None))) as Arc<dyn Medium>))
        .collect()
}

// Short forms of the calls that tests make most.

pub(crate) async fn put(s: &Store, bucket: &str, key: &str, body: &Bytes) -> Result<Committed> {
    put_if(s, bucket, key, body, &Conditions::NONE).await
}

pub(crate) async fn put_if(
    s: &Store,
    bucket: &str,
    key: &str,
    body: &Bytes,
    conditions: &Conditions,
) -> Result<Committed> {
    let mut p = s.put(bucket, key, PutSpec::new(body.len() as u64)).await?;
    p.write(body.clone()).await?;
    p.commit(VersionSpec::default(), conditions).await
}

pub(crate) async fn get(s: &Store, bucket: &str, key: &str, v: Option<VersionId>) -> Result<Vec<u8>> {
    let o = s.get(bucket, key, v).await?;
    read(&o).await
}

/// `ASHLAR_TIMES` (see `cargo xtask sim`): multiplies the usual number of random cases.
pub(crate) fn times() -> u64 {
    std::env::var("ASHLAR_TIMES").ok().and_then(|s| s.parse().ok()).unwrap_or(1)
}

pub(crate) async fn read(o: &Object) -> Result<Vec<u8>> {
    let mut body = o.read(0..o.size()).await?;
    let mut out = Vec::new();
    while let Some(piece) = body.next().await {
        out.extend_from_slice(&piece?);
    }
    Ok(out)
}

pub(crate) async fn part(
    s: &Store,
    bucket: &str,
    key: &str,
    id: UploadId,
    number: u16,
    body: &Bytes,
) -> Result<PartEntry> {
    let spec = PartSpec { number, size: body.len() as u64, checksum: None, want_md5: true };
    let mut p = s.upload_part(bucket, key, id, spec).await?;
    p.write(body.clone()).await?;
    p.commit().await
}
