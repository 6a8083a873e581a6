//! Tests: a drive in this process, and its handle as another node has it, over a transport in memory.

mod away;
mod calls;
mod many;
mod shards;
mod wire;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use ashlar_drive::{Accept, Drive, DriveHandle, Label, Options, Role};
use ashlar_format::{Ballot, BucketId, DeploymentId, DriveId, GroupId, RegisterKey, Space, WriteId};
use ashlar_machine::{BufferPool, Folder, SimDisk};
use bytes::{Bytes, BytesMut};
use futures::future::BoxFuture;
use parking_lot::Mutex;

use crate::{Call, Caller, Delivered, Failure, RemoteNode, Served, Transport};

const GROUP: GroupId = GroupId::new(0, 0);
const ME: Caller = Caller { node: 1, process: 11 };

/// What happens to calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Delivered,
    /// Executed; the answer never arrives.
    AnswerLost,
    NotSent,
    /// Executed; the answer arrives changed.
    Garbled,
}

/// Carries calls to drives of this process.
struct Direct {
    served: Served,
    caller: Caller,
    fate: Mutex<Fate>,
    sent: AtomicUsize,
}

impl Direct {
    fn set(&self, fate: Fate) {
        *self.fate.lock() = fate;
    }

    fn sent(&self) -> usize {
        self.sent.load(Ordering::Relaxed)
    }
}

impl Transport for Direct {
    fn call(&self, call: Call) -> BoxFuture<'static, Result<Delivered, Failure>> {
        let fate = *self.fate.lock();
        if fate == Fate::NotSent {
            return Box::pin(async { Err(Failure::NotSent) });
        }
        self.sent.fetch_add(1, Ordering::Relaxed);
        let (served, caller) = (self.served.clone(), self.caller);
        let executed = ashlar_environment::spawn("call", async move {
            let out =
                served.call(caller, call.method, call.head, joined(&call.bulk), call.answer_limit).await?;
            Ok(Delivered { head: out.head.into_vec().into(), bulk: joined(&out.bulk) })
        });
        Box::pin(async move {
            let answer = executed.await.unwrap();
            match fate {
                Fate::AnswerLost => Err(Failure::Unanswered),
                Fate::Garbled => answer.map(|a| Delivered { head: a.head.slice(1..), bulk: a.bulk }),
                _ => answer,
            }
        })
    }

    fn tell(&self, call: Call) {
        drop(self.call(call));
    }
}

fn joined(parts: &[Bytes]) -> Bytes {
    let mut whole = BytesMut::new();
    parts.iter().for_each(|part| whole.extend_from_slice(part));
    whole.freeze()
}

/// A drive, how it is reached, and its handle.
struct Rig {
    drive: Drive,
    served: Served,
    transport: Arc<Direct>,
    node: Arc<RemoteNode>,
    remote: DriveHandle,
    disk: SimDisk,
}

fn label(n: u8) -> Label {
    Label { deployment: DeploymentId([7; 16]), drive: DriveId([n; 16]), created_ms: 1_700_000_000_000 }
}

fn drive(n: u8) -> (SimDisk, Drive) {
    let mut options = Options::new(BufferPool::new(64 << 20));
    options.segment_bytes = 4 << 20;
    options.journal_segment_bytes = 256 << 10;
    options.reserve_bytes = 1 << 20;
    options.cache_bytes = 256 << 10;
    options.direct = false;
    let disk = SimDisk::new(256 << 20);
    let folder = Folder::simulated(&disk, None);
    ashlar_drive::format_folder(&folder, &label(n), &[(GROUP, Role::Voter)], 256 << 10).unwrap();
    let drive = Drive::open_folder(&folder, &options, false).unwrap();
    drive.pump();
    (disk, drive)
}

async fn rig() -> Rig {
    let (disk, drive) = drive(1);
    let served = Served::default();
    served.set([drive.clone()]);
    let (transport, node) = reach(&served, ME);
    let remote = node.refresh().await.unwrap().remove(0);
    Rig { drive, served, transport, node, remote, disk }
}

/// The served drives, as a process reaches them.
fn reach(served: &Served, caller: Caller) -> (Arc<Direct>, Arc<RemoteNode>) {
    let transport = Arc::new(Direct {
        served: served.clone(),
        caller,
        fate: Mutex::new(Fate::Delivered),
        sent: AtomicUsize::new(0),
    });
    let node = RemoteNode::new(transport.clone());
    (transport, node)
}

fn key(n: u64) -> RegisterKey {
    RegisterKey::new(GROUP, Space::Object, BucketId([1; 16]), format!("key-{n:05}").as_bytes())
}

fn ballot(counter: u64) -> Ballot {
    Ballot { epoch: 0, counter, node: 1, nonce: 7 }
}

fn write_id(n: u64) -> WriteId {
    let mut id = [9; 16];
    id[..8].copy_from_slice(&n.to_le_bytes());
    WriteId(id)
}

fn accept(n: u64, counter: u64, record: &[u8]) -> Accept {
    Accept {
        key: key(n),
        ballot: ballot(counter),
        epoch: u32::MAX,
        record: Bytes::copy_from_slice(record),
        summary: Bytes::from_static(b"summary"),
        inline: None,
    }
}

/// Bytes that differ from place to place.
fn content(len: usize) -> Bytes {
    (0..len).map(|i| (i * 31 + i / 251) as u8).collect::<Vec<_>>().into()
}

/// Waits until something is true, for as long as a busy machine may need.
async fn until(mut holds: impl FnMut() -> bool) {
    for _ in 0..10_000 {
        if holds() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    panic!("it did not become true");
}
