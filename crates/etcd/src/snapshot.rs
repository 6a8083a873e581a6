//! The last content, on the drives of this node: a restart without etcd begins with it.
//!
//! Several drives may hold it; each has two slots, written in turn, so that the previous one survives a torn
//! write. A drive that hangs or fails keeps no other from being written.
//!
//! Invariants: the bytes are bound to the name of the cluster and to their own checksum; of several snapshots
//! the one with the highest known revision counts.
//!
//! Must not depend on: etcd.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use ashlar_checksum::frame_hash;
use ashlar_cluster::{Medium, decode_entries, encode_entries};
use ashlar_environment::time;
use ashlar_format::DeploymentId;
use ashlar_format::codec::{Reader, Writer};
use ashlar_machine::IoPool;
use bytes::Bytes;
use tokio::sync::Notify;

use crate::memory::{Content, cost};

/// Format number, the first byte.
const FORMAT: u8 = 1;
/// Key of the checksum: "ashlar etcd snapshot 1 .........". Never changes.
const KEY: [u64; 4] = [
    u64::from_le_bytes(*b"ashlar e"),
    u64::from_le_bytes(*b"tcd snap"),
    u64::from_le_bytes(*b"shot 1 ."),
    u64::from_le_bytes(*b"........"),
];
/// The files on a drive.
pub const FILES: [&str; 2] = ["etcd.0", "etcd.1"];

/// Format u8 = 1, cluster name bytes, deployment 16, wall time i64 in ms, identity bytes, etcd's id u64, known
/// u64, revision u64, head u64 and its mark bytes, list of (key bytes, revision u64, value bytes) in order of
/// key, then HighwayHash-256 of all that.
pub fn encode(content: &Content, cluster: &str, wall_ms: i64) -> Vec<u8> {
    let mut w = Writer::with_capacity(content.bytes + 512);
    w.u8(FORMAT);
    w.bytes(cluster.as_bytes());
    w.raw(&content.deployment.0);
    w.i64(wall_ms);
    w.bytes(&content.identity);
    w.u64(content.etcd);
    w.u64(content.known);
    w.u64(content.revision);
    w.u64(content.head.0);
    w.bytes(&content.head.1);
    encode_entries(&mut w, &content.entries);
    let mut out = w.into_vec();
    let hash = frame_hash(&KEY, &[&out]);
    out.extend_from_slice(&hash);
    out
}

/// The inverse of [`encode`]: the content and the time; `None` for anything that is not an intact snapshot of
/// this cluster.
pub fn decode(bytes: &[u8], cluster: &str) -> Option<(Content, i64)> {
    let (body, hash) = bytes.split_at_checked(bytes.len().checked_sub(32)?)?;
    if frame_hash(&KEY, &[body]) != *hash {
        return None;
    }
    let mut r = Reader::new(body);
    if r.u8().ok()? != FORMAT || r.bytes().ok()? != cluster.as_bytes() {
        return None;
    }
    let deployment = DeploymentId(r.array().ok()?);
    let wall_ms = r.i64().ok()?;
    let identity = Bytes::copy_from_slice(r.bytes().ok()?);
    let (etcd, known, revision) = (r.u64().ok()?, r.u64().ok()?, r.u64().ok()?);
    let head = (r.u64().ok()?, Bytes::copy_from_slice(r.bytes().ok()?));
    let list = decode_entries(&mut r).ok()?;
    r.end().ok()?;
    let bytes = list.iter().map(|(k, v)| cost(k, v.bytes.len())).sum();
    let (count, entries) = (list.len(), list.into_iter().collect::<BTreeMap<_, _>>());
    let content = Content { deployment, identity, etcd, known, revision, head, entries, bytes };
    (content.entries.len() == count).then_some((content, wall_ms))
}

/// For the fuzzer: a snapshot without its hash. What decodes must encode to the same snapshot.
#[doc(hidden)]
pub fn fuzzed_snapshot(body: &[u8]) {
    let sealed = [body, &frame_hash(&KEY, &[body])[..]].concat();
    if let Some((content, at)) = decode(&sealed, "prod") {
        let again = decode(&encode(&content, "prod", at), "prod");
        assert!(again.is_some_and(|(c, t)| c == content && t == at), "a snapshot that is not itself");
    }
}

struct Site {
    medium: Arc<dyn Medium>,
    /// One thread, so that a drive that hangs blocks no other.
    pool: IoPool,
    /// The slot to write next.
    slot: AtomicUsize,
    busy: AtomicBool,
}

/// The drives that keep the snapshot.
pub struct Snapshots {
    cluster: String,
    sites: Vec<Arc<Site>>,
    /// A write has ended.
    ended: Arc<Notify>,
}

impl Snapshots {
    /// Keeps snapshots of a cluster on these drives.
    pub fn new(cluster: &str, media: Vec<Arc<dyn Medium>>) -> Snapshots {
        let site = |medium| {
            let pool = IoPool::new("snapshot", 1, 1);
            Arc::new(Site { medium, pool, slot: AtomicUsize::new(0), busy: AtomicBool::new(false) })
        };
        Snapshots {
            cluster: cluster.to_owned(),
            sites: media.into_iter().map(site).collect(),
            ended: Arc::default(),
        }
    }

    /// Whether no drive keeps any.
    pub fn is_empty(&self) -> bool {
        self.sites.is_empty()
    }

    /// The newest snapshot, and the wall time at which it was current.
    pub async fn load(&self) -> Option<(Content, i64)> {
        let mut best: Option<(Content, i64)> = None;
        for site in &self.sites {
            let (site, cluster) = (site.clone(), self.cluster.clone());
            let reading = ashlar_environment::spawn_blocking("snapshot", move || read(&site, &cluster));
            // A drive that does not answer does not delay the start for long.
            let read = time::timeout(std::time::Duration::from_secs(10), reading).await;
            let Ok(Ok(Some(found))) = read else { continue };
            if best.as_ref().is_none_or(|b| b.0.known < found.0.known) {
                best = Some(found);
            }
        }
        best
    }

    /// Begins to write a snapshot to every drive whose previous write has ended. Returns its size.
    pub async fn save(&self, content: Arc<Content>, wall_ms: i64) -> usize {
        let cluster = self.cluster.clone();
        let encoding =
            ashlar_environment::spawn_blocking("snapshot", move || encode(&content, &cluster, wall_ms));
        // It fails only when the runtime ends.
        let Ok(bytes) = encoding.await else { return 0 };
        let bytes: Arc<[u8]> = bytes.into();
        for site in &self.sites {
            if site.busy.swap(true, Ordering::AcqRel) {
                continue;
            }
            let (own, bytes, ended) = (site.clone(), bytes.clone(), self.ended.clone());
            let begun = site.pool.run(move || {
                let slot = own.slot.load(Ordering::Acquire);
                match own.medium.write(slot, &bytes) {
                    Ok(()) => own.slot.store(1 - slot, Ordering::Release),
                    Err(error) => tracing::warn!(%error, "etcd: a drive does not take the snapshot"),
                }
                own.busy.store(false, Ordering::Release);
                ended.notify_waiters();
            });
            if begun.is_err() {
                site.busy.store(false, Ordering::Release);
            }
        }
        bytes.len()
    }

    /// Waits until no write is under way.
    pub async fn settled(&self) {
        loop {
            let ended = self.ended.notified();
            if self.sites.iter().all(|s| !s.busy.load(Ordering::Acquire)) {
                return;
            }
            let _ = time::timeout(std::time::Duration::from_millis(100), ended).await;
        }
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        self.pool.close();
    }
}

fn read(site: &Site, cluster: &str) -> Option<(Content, i64)> {
    let slots = [0, 1].map(|slot| site.medium.read(slot).ok().flatten());
    let [a, b] = slots.map(|bytes| bytes.and_then(|b| decode(&b, cluster)));
    let known = |s: &Option<(Content, i64)>| s.as_ref().map(|s| s.0.known);
    let second_is_newer = known(&b) > known(&a);
    // The older one is written next, or the one that holds none.
    site.slot.store(usize::from(!second_is_newer && a.is_some()), Ordering::Release);
    if second_is_newer { b } else { a }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ashlar_cluster::{MemoryMedium, Value};

    fn sample(known: u64) -> Content {
        let value = Value { revision: 7, bytes: Bytes::from_static(b"{}") };
        Content {
            deployment: DeploymentId([9; 16]),
            identity: Bytes::from_static(b"id"),
            etcd: 5,
            known,
            revision: 8,
            head: (8, Bytes::from_static(b"mark")),
            entries: BTreeMap::from([("map".to_owned(), value)]),
            bytes: cost("map", 2),
        }
    }

    #[test]
    fn golden_and_identity() {
        let bytes = encode(&sample(11), "prod", 1_000);
        let hex: String = bytes.iter().map(|b| format!("{b:02x}")).collect();
        assert_eq!(hex, include_str!("../tests/snapshot-1.hex").trim());
        assert_eq!(decode(&bytes, "prod"), Some((sample(11), 1_000)));
        assert_eq!(decode(&bytes, "test"), None);
        for i in 0..bytes.len() {
            let mut bad = bytes.clone();
            bad[i] ^= 1;
            assert_eq!(decode(&bad, "prod"), None, "byte {i}");
            assert_eq!(decode(&bytes[..i], "prod"), None, "cut at {i}");
            fuzzed_snapshot(&bad[..bad.len() - 32]);
        }
    }

    #[tokio::test]
    async fn the_newest_sound_snapshot_counts() {
        let drives = [Arc::new(MemoryMedium::default()), Arc::new(MemoryMedium::default())];
        let media = || drives.iter().map(|d| d.clone() as Arc<dyn Medium>).collect();
        let kept = Snapshots::new("c", media());
        assert_eq!(kept.load().await, None);
        for known in 1..=3 {
            kept.save(Arc::new(sample(known)), 5).await;
            kept.settled().await;
        }
        assert_eq!(Snapshots::new("c", media()).load().await, Some((sample(3), 5)));
        assert_eq!(Snapshots::new("other", media()).load().await, None);
        // The newest is torn on one drive, and the other drive is blank: the previous one counts.
        let [a, b] = drives[0].slots();
        drives[0].set_slots([a.map(|a| a[..a.len() - 1].to_vec()), b]);
        drives[1].set_slots([None, None]);
        let kept = Snapshots::new("c", media());
        assert_eq!(kept.load().await, Some((sample(2), 5)));
        // The torn slot is written next.
        kept.save(Arc::new(sample(4)), 6).await;
        kept.settled().await;
        let again = drives[0].slots().map(|s| decode(&s.unwrap(), "c").unwrap().0.known);
        assert_eq!(again, [4, 2]);
    }
}
