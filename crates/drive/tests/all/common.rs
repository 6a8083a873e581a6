//! Helpers of the tests.

use ashlar_drive::{
    Accept, Check, Completion, Drive, Inline, InlineShard, Label, Options, Outcome, Role, Tally,
};
use ashlar_format::{Ballot, BucketId, DeploymentId, DriveId, GroupId, RegisterKey, Space, WriteId};
use ashlar_machine::{BufferPool, Folder, SimDisk};
use bytes::Bytes;
use std::time::Duration;

/// SplitMix64: small, seedable, sufficient to choose test cases.
#[derive(Clone)]
pub struct Rng(pub u64);

impl Rng {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
    pub fn below(&mut self, n: u64) -> u64 {
        self.next() % n.max(1)
    }
    pub fn bytes(&mut self, n: usize) -> Vec<u8> {
        let mut v = Vec::with_capacity(n + 8);
        while v.len() < n {
            v.extend_from_slice(&self.next().to_le_bytes());
        }
        v.truncate(n);
        v
    }
}

/// The group of [`key`].
pub const GROUP: GroupId = GroupId::new(0, 0);
pub const VOTER: &[(GroupId, Role)] = &[(GROUP, Role::Voter)];
pub const JOINING: &[(GroupId, Role)] = &[(GROUP, Role::Joining)];

/// The role of the drive in [`GROUP`]; a drive that does not hold the group has to join it.
pub fn role(drive: &Drive) -> Role {
    drive.role(GROUP).unwrap_or(Role::Joining)
}

pub fn label(n: u8) -> Label {
    Label { deployment: DeploymentId([7; 16]), drive: DriveId([n; 16]), created_ms: 1_700_000_000_000 }
}

pub fn small_options() -> Options {
    let mut o = Options::new(BufferPool::new(64 << 20));
    o.segment_bytes = 1 << 20;
    o.journal_segment_bytes = 64 << 10;
    o.reserve_bytes = 1 << 20;
    o.cache_bytes = 256 << 10;
    o.tick = Duration::from_millis(50);
    o
}

pub fn key(n: u64) -> RegisterKey {
    RegisterKey::new(GROUP, Space::Object, BucketId([1; 16]), format!("key-{n:05}").as_bytes())
}

pub fn ballot(counter: u64) -> Ballot {
    Ballot { epoch: 0, counter, node: 1, nonce: 7 }
}

/// A bucket other than that of [`key`].
pub fn bucket(n: u8) -> BucketId {
    BucketId([100 + n; 16])
}

/// The deletion that has fenced a bucket in [`GROUP`]; 0: none.
pub fn fence_of(d: &Drive, n: u8) -> u64 {
    let fences = d.fences();
    fences.iter().find(|f| (f.0, f.1) == (GROUP, bucket(n))).map_or(0, |f| f.2.0)
}

pub fn write_id(n: u64) -> WriteId {
    let mut b = [0; 16];
    b[..8].copy_from_slice(&n.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes());
    b[8..].copy_from_slice(&n.to_le_bytes());
    WriteId(b)
}

pub fn accept_of(k: u64, b: Ballot, record: &[u8]) -> Accept {
    Accept {
        key: key(k),
        ballot: b,
        epoch: u32::MAX,
        record: Bytes::copy_from_slice(record),
        summary: Bytes::from(format!("summary {k}")),
        inline: None,
    }
}

pub fn inline(id: u64, data: &[u8]) -> Inline {
    Inline { write_id: write_id(id), index: 3, data: Bytes::copy_from_slice(data) }
}

pub fn stage_of(k: u64, id: u64, data: &[u8]) -> InlineShard {
    InlineShard {
        owner: key(k),
        write_id: write_id(id),
        index: 3,
        ballot: ballot(1),
        epoch: u32::MAX,
        data: Bytes::copy_from_slice(data),
    }
}

pub fn block<T>(f: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(f)
}

/// One operation and its outcome.
pub fn one(drive: &Drive, f: impl FnOnce(&Drive, Completion)) -> (Outcome, Option<ashlar_drive::Error>) {
    let t = Tally::new(1);
    f(drive, t.completion(0));
    drive.pump();
    let o = run(drive, t.wait_all());
    (o, t.error())
}

pub fn sim_drive(options: &Options) -> (SimDisk, Folder, Drive) {
    sim_drive_on(false, options)
}

/// Bytes of a simulated block device of a drive.
const DEVICE: u64 = 16 << 20;

/// The root of a drive on a simulated disk: its files, or the files on a block device, which is one of its files.
pub fn root_of(disk: &SimDisk, device: bool, options: &Options) -> Folder {
    if device {
        Folder::simulated_device(disk, DEVICE, options.faults.clone()).unwrap()
    } else {
        Folder::simulated(disk, options.faults.clone())
    }
}

/// As [`sim_drive`], also on a block device.
pub fn sim_drive_on(device: bool, options: &Options) -> (SimDisk, Folder, Drive) {
    let disk = SimDisk::new(256 << 20);
    let folder = root_of(&disk, device, options);
    ashlar_drive::format_folder(&folder, &label(1), VOTER, 64 << 10).unwrap();
    let drive = Drive::open_folder(&folder, options, false).unwrap();
    drive.pump();
    (disk, folder, drive)
}

/// Runs a future over a drive without threads: the drive's work is done whenever the future waits.
pub fn run<T>(drive: &Drive, f: impl Future<Output = T>) -> T {
    let mut f = std::pin::pin!(f);
    let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
    for _ in 0..100 {
        if let std::task::Poll::Ready(v) = f.as_mut().poll(&mut cx) {
            return v;
        }
        drive.pump();
    }
    panic!("it waits for ever");
}

pub fn write_large(
    drive: &Drive,
    k: u64,
    id: u64,
    data: &[u8],
    frame: u32,
) -> Result<(), ashlar_drive::Error> {
    let mut w = drive.begin_shard(&key(k), write_id(id), 3, ballot(1), u32::MAX, data.len() as u64, frame)?;
    for c in data.chunks(frame as usize) {
        run(drive, w.write(Bytes::copy_from_slice(c)))?;
    }
    let (o, e) = one(drive, |_, done| drop(w.finish(done)));
    if o.ok == 1 { Ok(()) } else { Err(e.unwrap()) }
}

pub fn read_shard(drive: &Drive, id: u64) -> Result<Vec<u8>, ashlar_drive::Error> {
    let r = run(drive, drive.open_shard(write_id(id), 3))?;
    let mut out = Vec::new();
    for n in 0..r.frames() {
        out.extend_from_slice(&run(drive, r.read(n, Check::Drive))?);
    }
    assert_eq!(out.len() as u64, r.len());
    Ok(out)
}

pub fn read_record(drive: &Drive, k: u64) -> Result<Option<(Ballot, Vec<u8>)>, ashlar_drive::Error> {
    let r = run(drive, drive.read(&key(k), true, u32::MAX))?;
    Ok(r.accepted.map(|s| (s.ballot, s.record.unwrap().to_vec())))
}
