//! Tests over real drives in temporary folders, on a memory file system if there is one.

mod away;
pub(crate) mod back;
pub(crate) mod basic;
mod fair;
mod faults;
mod fences;
mod flaws;
mod flushes;
mod half;
mod hang;
mod hard_disks;
mod join;
mod large;
mod list_calls;
mod losses;
mod matrix;
mod moved;
mod outdated;
mod paced;
mod pages;
mod prefetch;
mod race;
mod repairs;
mod salvage;
mod scrubs;
mod singles;
mod torn;
mod unchecked;
mod undecided;

use crate::{Code, Decision, Error, Group, Layout, Options, Register, Result, Sets, UpdateError, Updated};
use ashlar_drive::{Drive, DriveKind, Label, Options as DriveOptions, Role};
use ashlar_format::{
    Body, BucketId, Data, DeploymentId, DriveId, GroupId, Part, Record, RegisterKey, Space, Version,
};
use ashlar_machine::{BufferPool, Faults};
use bytes::Bytes;
use futures::future::BoxFuture;
use parking_lot::Mutex;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Stops an update half-way: the slots that still get STAGE and ACCEPT.
#[derive(Default)]
pub(crate) struct Gate {
    state: Mutex<Option<(u64, u64)>>,
    /// While a test holds it, updates wait before they make the missing shards of a base.
    pub(crate) hold_mending: tokio::sync::Mutex<()>,
    /// How many updates came as far.
    pub(crate) mended: std::sync::atomic::AtomicU64,
}

impl Gate {
    pub(crate) fn allows(&self, stage: bool, slot: u8) -> bool {
        match *self.state.lock() {
            None => true,
            Some((stages, accepts)) => (if stage { stages } else { accepts }) >> slot & 1 == 1,
        }
    }
    pub(crate) async fn mending(&self) {
        self.mended.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        drop(self.hold_mending.lock().await);
    }
    /// Only these slots get the messages from now on; `None`: all do.
    pub(crate) fn set(&self, slots: Option<(u64, u64)>) {
        *self.state.lock() = slots;
    }
}

pub(crate) const BUCKET: BucketId = BucketId([7; 16]);

/// One group over real drives.
/// The layout with all groups in a later epoch.
pub(crate) fn in_epoch(layout: &Layout, epoch: u32) -> Layout {
    let mut layout = Layout { epoch, ..layout.clone() };
    layout.groups.iter_mut().for_each(|g| g.epoch = epoch);
    layout
}

pub(crate) struct Rig {
    dir: tempfile::TempDir,
    pub(crate) code: Code,
    pub(crate) layout: Layout,
    pub(crate) faults: Vec<Arc<Faults>>,
    pool: BufferPool,
    options: Options,
    /// Extents and journal segments.
    sizes: (u64, u64),
    /// How often a drive has its maintenance look.
    pub(crate) tick: Duration,
    /// Large frames are read past the page cache, where the file system can.
    direct: bool,
    kind: DriveKind,
    pub(crate) sets: Sets,
}

fn deployment() -> DeploymentId {
    DeploymentId([9; 16])
}

/// The drive formatted as the `generation`-th in slot `slot`.
pub(crate) fn drive_id(slot: u8, generation: u8) -> DriveId {
    let mut id = [0x40; 16];
    (id[0], id[1]) = (slot, generation);
    DriveId(id)
}

impl Rig {
    pub(crate) fn new(k: u8, m: u8) -> BoxFuture<'static, Rig> {
        Rig::with(k, m, 1, |_| {})
    }

    /// A boxed future, as of the others: it is compiled once and not in every test.
    pub(crate) fn with(
        k: u8,
        m: u8,
        groups: u16,
        tune: impl FnOnce(&mut Options),
    ) -> BoxFuture<'static, Rig> {
        let mut options = Options::new(BufferPool::new(64 << 20));
        options.recheck = 1;
        tune(&mut options);
        Box::pin(Rig::made(Code { k, m }, groups, (false, DriveKind::Ssd), options))
    }

    /// On the file system of temporary files rather than in memory, read past the page cache.
    pub(crate) async fn direct(k: u8, m: u8) -> Rig {
        let mut options = Options::new(BufferPool::new(64 << 20));
        options.recheck = 1;
        Rig::made(Code { k, m }, 1, (true, DriveKind::Ssd), options).await
    }

    /// The same with drives that are told to be hard disks.
    pub(crate) async fn hard_disks(k: u8, m: u8) -> Rig {
        let mut options = Options::new(BufferPool::new(256 << 20));
        options.recheck = 1;
        Rig::made(Code { k, m }, 1, (true, DriveKind::Hdd), options).await
    }

    async fn made(code: Code, groups: u16, (direct, kind): (bool, DriveKind), options: Options) -> Rig {
        let shm = PathBuf::from("/dev/shm");
        let mut builder = tempfile::Builder::new();
        builder.prefix("ashlar-set-");
        let dir = if shm.is_dir() && !direct { builder.tempdir_in(shm) } else { builder.tempdir() }.unwrap();
        let slots: Vec<DriveId> = (0..code.n()).map(|s| drive_id(s, 0)).collect();
        let n = slots.len();
        let groups = (0..groups)
            .map(|id| {
                let mut slots = slots.clone();
                slots.rotate_left(usize::from(id) % n);
                Group { id: GroupId::new(0, id), epoch: 1, slots }
            })
            .collect();
        let layout = Layout { epoch: 1, code, groups };
        let faults: Vec<_> = (0..n).map(|_| Arc::new(Faults::new())).collect();
        let sets = Sets::new(layout.clone(), Vec::new(), options.clone()).unwrap();
        let pool = options.pool.clone();
        let (sizes, tick) = ((4 << 20, 1 << 20), Duration::from_millis(50));
        let rig = Rig { dir, code, layout, faults, pool, options, sizes, tick, direct, kind, sets };
        for slot in 0..code.n() {
            rig.format(slot, 0, Role::Voter);
            rig.plug(slot, 0).await;
        }
        rig
    }

    pub(crate) fn path(&self, slot: u8, generation: u8) -> PathBuf {
        self.dir.path().join(format!("d{slot}.{generation}"))
    }

    pub(crate) fn format(&self, slot: u8, generation: u8, role: Role) {
        let path = self.path(slot, generation);
        std::fs::create_dir_all(&path).unwrap();
        let label = Label { deployment: deployment(), drive: drive_id(slot, generation), created_ms: 1 };
        // A drive that joins learns later which groups it holds.
        let voter = |g: &Group| (role == Role::Voter).then_some((g.id, role));
        let groups: Vec<_> = self.layout.groups.iter().filter_map(voter).collect();
        ashlar_drive::format(&path, &label, &groups).unwrap();
    }

    pub(crate) fn drive_options(&self, slot: u8) -> DriveOptions {
        let mut o = DriveOptions::new(self.pool.clone());
        (o.segment_bytes, o.journal_segment_bytes) = self.sizes;
        o.reserve_bytes = 1 << 20;
        o.cache_bytes = 1 << 20;
        o.io_threads = 2;
        o.direct = self.direct;
        o.kind = self.kind;
        o.tick = self.tick;
        o.faults = Some(self.faults[usize::from(slot)].clone());
        o
    }

    pub(crate) async fn open(&self, slot: u8, generation: u8) -> Drive {
        let (path, options) = (self.path(slot, generation), self.drive_options(slot));
        tokio::task::spawn_blocking(move || Drive::open(&path, &options)).await.unwrap().unwrap()
    }

    /// Opens a formatted drive and puts it in service.
    pub(crate) async fn plug(&self, slot: u8, generation: u8) -> Drive {
        let drive = self.open(slot, generation).await;
        self.sets.attach(drive.clone());
        drive
    }

    /// Takes a drive out and closes it.
    pub(crate) async fn unplug(&self, slot: u8, generation: u8) {
        if let Some(d) = self.sets.detach(drive_id(slot, generation)) {
            shut(&d).await;
        }
    }

    /// Closes and opens everything again, like a new process.
    pub(crate) fn restart(&mut self, generation: impl Fn(u8) -> u8) -> BoxFuture<'_, ()> {
        let generations = (0..self.code.n()).map(generation).collect();
        Box::pin(self.restarted(generations))
    }

    async fn restarted(&mut self, generations: Vec<u8>) {
        self.sets.stop().await;
        let open: Vec<Drive> = self.sets.drives();
        for d in &open {
            self.sets.detach(d.label().drive);
        }
        self.sets = Sets::new(self.layout.clone(), Vec::new(), self.options.clone()).unwrap();
        for d in open {
            shut(&d).await;
        }
        for (slot, generation) in (0..).zip(generations) {
            self.plug(slot, generation).await;
        }
    }

    pub(crate) async fn close(self) {
        self.sets.stop().await;
        for d in self.sets.drives() {
            self.sets.detach(d.label().drive);
            shut(&d).await;
        }
    }

    pub(crate) fn key(&self, name: &str) -> RegisterKey {
        key(&self.sets, name)
    }

    pub(crate) async fn put(&self, name: &str, bytes: &[u8]) -> Result<Register> {
        put(&self.sets, name, bytes).await
    }

    pub(crate) async fn get(&self, name: &str) -> Result<Option<Vec<u8>>> {
        get(&self.sets, name).await
    }

    pub(crate) async fn delete(&self, name: &str) -> Result<()> {
        delete(&self.sets, name).await
    }
}

/// Closes a drive; a close that does not end fails the test instead of hanging.
pub(crate) async fn shut(drive: &Drive) {
    for _ in 0..200 {
        if tokio::time::timeout(Duration::from_millis(100), drive.close()).await.is_ok() {
            return;
        }
    }
    panic!("{} does not close", drive.path().display());
}

pub(crate) fn key(sets: &Sets, name: &str) -> RegisterKey {
    RegisterKey::new(sets.group_of(BUCKET, name.as_bytes()), Space::Object, BUCKET, name.as_bytes())
}

/// A body with one version of `size` bytes.
pub(crate) fn body(size: u64, data: Option<Data>) -> Body {
    let part = |data| Part { number: 1, size, md5: [0; 16], checksum: None, modified_ms: 0, data };
    Body::Versions(vec![Version { size, parts: data.map(part).into_iter().collect(), ..Version::default() }])
}

pub(crate) fn summary(size: u64) -> Bytes {
    Bytes::copy_from_slice(&size.to_le_bytes())
}

pub(crate) async fn put(sets: &Sets, name: &str, bytes: &[u8]) -> Result<Register> {
    let done: Updated<()> = put_if(sets, name, bytes, |_| true).await?.ok_or(Error::Contended)?;
    Ok(done.register.unwrap())
}

/// Puts if `check` allows; `None`: it did not.
pub(crate) async fn put_if(
    sets: &Sets,
    name: &str,
    bytes: &[u8],
    mut check: impl FnMut(Option<&Record>) -> bool + Send,
) -> Result<Option<Updated<()>>> {
    let key = key(sets, name);
    let size = bytes.len() as u64;
    let mut staged = Vec::new();
    if size > 0 {
        let mut w = sets.write(&key, size).await?;
        for piece in bytes.chunks(100_000) {
            w.write(piece).await?;
        }
        staged.push(w.finish().await?);
    }
    let refs: Vec<_> = staged.iter().collect();
    let data = staged.first().map(crate::Staged::data);
    let done = sets
        .update_register::<(), ()>(&key, &refs, |base| {
            if !check(base) {
                return Decision::Refuse(());
            }
            Decision::Write { body: body(size, data), summary: summary(size), moved: false, out: () }
        })
        .await;
    match done {
        Ok(u) => Ok(Some(u)),
        Err(UpdateError::Refused(())) => Ok(None),
        Err(UpdateError::Set(e)) => Err(e),
    }
}

pub(crate) async fn delete(sets: &Sets, name: &str) -> Result<()> {
    let done = sets
        .update_register::<(), ()>(&key(sets, name), &[], |base| match base {
            None => Decision::Keep(()),
            Some(r) if r.body == Body::Tombstone => Decision::Keep(()),
            Some(_) => {
                let (body, summary) = (Body::Tombstone, Bytes::new());
                Decision::Write { body, summary, moved: false, out: () }
            }
        })
        .await;
    match done {
        Ok(_) => Ok(()),
        Err(UpdateError::Set(e)) => Err(e),
        Err(UpdateError::Refused(())) => unreachable!(),
    }
}

pub(crate) async fn get(sets: &Sets, name: &str) -> Result<Option<Vec<u8>>> {
    loop {
        let key = key(sets, name);
        let Some(r) = sets.read_register(&key).await? else { return Ok(None) };
        let Body::Versions(v) = &r.record.body else { return Ok(None) };
        match read_all(sets, &key, &v[0]).await {
            Err(Error::Superseded) => continue,
            other => return other.map(Some),
        }
    }
}

pub(crate) async fn read_all(sets: &Sets, key: &RegisterKey, v: &Version) -> Result<Vec<u8>> {
    let mut out = Vec::new();
    for p in &v.parts {
        let mut r = sets.read(key, &p.data, p.size, 0..p.size).await?;
        while let Some(b) = r.next().await {
            out.extend_from_slice(&b?);
        }
    }
    assert_eq!(out.len() as u64, v.size, "a whole body or an error");
    Ok(out)
}

/// `ASHLAR_TIMES` (see `cargo xtask sim`): multiplies the usual number of random cases.
pub(crate) fn times() -> u64 {
    std::env::var("ASHLAR_TIMES").ok().and_then(|s| s.parse().ok()).unwrap_or(1)
}

/// Reproducible bytes.
pub(crate) fn noise(seed: u64, len: usize) -> Vec<u8> {
    let mut x = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut out = Vec::with_capacity(len + 8);
    while out.len() < len {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        out.extend_from_slice(&x.to_le_bytes());
    }
    out.truncate(len);
    out
}

/// A small generator for tests; the seed is printed by those that use it.
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Dice {
        Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }
    pub(crate) fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % sides
    }
}
