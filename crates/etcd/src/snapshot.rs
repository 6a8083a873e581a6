//! The last content, on the drives of this node: a restart without etcd begins with it.
//!
//! Several drives may hold it, and they come and go while the node runs. Each has two slots, written in turn,
//! so that the previous one survives a torn write. Each is read and written on a thread of its own, which
//! writes the newest snapshot that it was given: a drive that hangs or fails keeps no other from being written.
//!
//! Invariants: the bytes are bound to the name of the cluster and to their own checksum; of several snapshots
//! the latest one counts ([`is_later`]); a drive's snapshot is never replaced by an older one of the same store, nor
//! by one of a store that was restored from less than it.
//!
//! Must not depend on: etcd.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use ashlar_checksum::frame_hash;
use ashlar_cluster::{Medium, decode_entries, encode_entries};
use ashlar_environment::time::{self, Instant};
use ashlar_format::codec::{Reader, Writer};
use ashlar_format::{DeploymentId, DriveId};
use ashlar_machine::IoPool;
use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::{Notify, mpsc};

use crate::identity::{is_later, keeps};
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
/// How long the start waits for drives that do not answer.
const READING: Duration = Duration::from_secs(10);
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
    decode_any(bytes).filter(|(name, ..)| name == cluster).map(|(_, content, wall_ms)| (content, wall_ms))
}

/// As [`decode`], of any cluster, whose name comes first.
pub fn decode_any(bytes: &[u8]) -> Option<(String, Content, i64)> {
    let (body, hash) = bytes.split_at_checked(bytes.len().checked_sub(32)?)?;
    if frame_hash(&KEY, &[body]) != *hash {
        return None;
    }
    let mut r = Reader::new(body);
    if r.u8().ok()? != FORMAT {
        return None;
    }
    let name = r.string().ok()?;
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
    (content.entries.len() == count).then_some((name, content, wall_ms))
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

/// A snapshot to write.
struct Image {
    /// What is in it, without the entries.
    of: Content,
    bytes: Vec<u8>,
}

/// What a drive holds.
struct Held {
    /// What the newest snapshot is of.
    newest: Option<Content>,
    /// The slot to write next.
    slot: usize,
}

#[derive(Default)]
struct State {
    /// `None`: the drive was not read yet.
    held: Option<Held>,
    /// The next snapshot to write. Only the newest is kept, so no queue builds up.
    pending: Option<Arc<Image>>,
    /// The thread writes, or is about to.
    busy: bool,
}

/// One attached drive.
struct Site {
    id: DriveId,
    medium: Arc<dyn Medium>,
    /// One thread, so that a drive that hangs blocks no other.
    pool: IoPool,
    state: Mutex<State>,
}

/// The drives that keep the snapshot.
pub struct Snapshots {
    cluster: Arc<str>,
    sites: Mutex<BTreeMap<DriveId, Arc<Site>>>,
    /// A drive was attached that has yet to get the snapshot.
    attached: Notify,
    /// A drive has no more to write.
    ended: Arc<Notify>,
}

impl Snapshots {
    /// Keeps snapshots of a cluster on these drives.
    pub fn new(cluster: &str, media: Vec<(DriveId, Arc<dyn Medium>)>) -> Snapshots {
        let sites = media.into_iter().map(|(id, medium)| (id, Site::new(id, medium))).collect();
        Snapshots {
            cluster: cluster.into(),
            sites: Mutex::new(sites),
            attached: Notify::new(),
            ended: Arc::default(),
        }
    }

    /// Adds a drive, in place of the one with the same id if there is one. It gets the next snapshot.
    pub fn attach(&self, id: DriveId, medium: Arc<dyn Medium>) {
        self.sites.lock().insert(id, Site::new(id, medium));
        self.attached.notify_one();
    }

    /// Removes a drive. A write that is under way may still end.
    pub fn detach(&self, id: DriveId) {
        let site = self.sites.lock().remove(&id);
        if let Some(site) = site {
            site.state.lock().pending = None;
            self.ended.notify_waiters();
        }
    }

    /// Waits until a drive was attached after the last call.
    pub async fn attached(&self) {
        self.attached.notified().await;
    }

    /// Whether no drive keeps any.
    pub fn is_empty(&self) -> bool {
        self.sites.lock().is_empty()
    }

    fn all(&self) -> Vec<Arc<Site>> {
        self.sites.lock().values().cloned().collect()
    }

    /// The newest snapshot, and the wall time at which it was current. A drive that does not answer delays the
    /// start for a bounded time.
    pub async fn load(&self) -> Option<(Content, i64)> {
        let (send, mut receive) = mpsc::unbounded_channel();
        for site in self.all() {
            let (own, send, cluster) = (site.clone(), send.clone(), self.cluster.clone());
            if site.pool.run(move || drop(send.send(own.read(&cluster)))).is_err() {
                tracing::warn!(drive = %site.id, "etcd: no thread for a drive");
            }
        }
        drop(send);
        let until = Instant::now() + READING;
        let mut best: Option<(Content, i64)> = None;
        loop {
            match time::timeout_at(until, receive.recv()).await {
                Ok(Some(Some(found))) if best.as_ref().is_none_or(|b| is_later(&found.0, &b.0)) => {
                    best = Some(found);
                }
                Ok(Some(_)) => {}
                Ok(None) => return best,
                Err(_) => {
                    tracing::warn!("etcd: not all drives answer; their snapshots are not looked at");
                    return best;
                }
            }
        }
    }

    /// Passes a snapshot to every drive; each writes the newest one that it was given. Returns its size, 0 if
    /// there are no drives.
    pub async fn save(&self, content: Arc<Content>, wall_ms: i64) -> usize {
        if self.is_empty() {
            return 0;
        }
        let cluster = self.cluster.clone();
        let encoding = ashlar_environment::spawn_blocking("snapshot", move || Image {
            of: content.without_entries(),
            bytes: encode(&content, &cluster, wall_ms),
        });
        // It fails only when the runtime ends.
        let Ok(image) = encoding.await else { return 0 };
        let image = Arc::new(image);
        for site in self.all() {
            site.give(image.clone(), &self.cluster, &self.ended);
        }
        image.bytes.len()
    }

    /// Waits until no write is under way, at most for this time.
    pub async fn settled(&self, at_most: Duration) {
        let until = Instant::now() + at_most;
        loop {
            let ended = self.ended.notified();
            if self.all().iter().all(|s| !s.state.lock().busy) {
                return;
            }
            if time::timeout_at(until, ended).await.is_err() {
                return;
            }
        }
    }
}

impl Site {
    fn new(id: DriveId, medium: Arc<dyn Medium>) -> Arc<Site> {
        // Reading at the start, and writing.
        let pool = IoPool::new("snapshot", 1, 2);
        Arc::new(Site { id, medium, pool, state: Mutex::default() })
    }

    fn give(self: Arc<Site>, image: Arc<Image>, cluster: &Arc<str>, ended: &Arc<Notify>) {
        {
            let mut state = self.state.lock();
            state.pending = Some(image);
            if std::mem::replace(&mut state.busy, true) {
                return;
            }
        }
        let (own, cluster, ended) = (self.clone(), cluster.clone(), ended.clone());
        if self.pool.run(move || own.write_pending(&cluster, &ended)).is_err() {
            tracing::warn!(drive = %self.id, "etcd: no thread for a drive");
            self.state.lock().busy = false;
        }
    }

    /// Runs on the drive's own thread: writes until nothing is pending.
    fn write_pending(&self, cluster: &str, ended: &Notify) {
        loop {
            let image = {
                let mut state = self.state.lock();
                let Some(image) = state.pending.take() else {
                    state.busy = false;
                    drop(state);
                    return ended.notify_waiters();
                };
                image
            };
            if let Err(error) = self.write(&image, cluster) {
                tracing::warn!(drive = %self.id, %error, "etcd: a drive does not take the snapshot");
            }
        }
    }

    fn write(&self, image: &Image, cluster: &str) -> std::io::Result<()> {
        if self.state.lock().held.is_none() {
            self.read(cluster);
        }
        let slot = {
            let state = self.state.lock();
            let held = state.held.as_ref();
            if let Some(newest) = held.and_then(|held| held.newest.as_ref())
                && let Some(why) = keeps(newest, &image.of)
            {
                // It was in service when this node knew more. Memory gets there, or etcd went back: then the
                // drive shows it at the next start.
                let (drive, holds, given) = (self.id, newest.known, image.of.known);
                tracing::warn!(%drive, holds, given, why, "etcd: the drive keeps its snapshot");
                return Ok(());
            }
            held.map_or(0, |held| held.slot)
        };
        self.medium.write(slot, &image.bytes)?;
        self.state.lock().held = Some(Held { newest: Some(image.of.clone()), slot: 1 - slot });
        Ok(())
    }

    /// The newest snapshot on the drive.
    fn read(&self, cluster: &str) -> Option<(Content, i64)> {
        let slots = [0, 1].map(|slot| self.medium.read(slot).ok().flatten());
        let [a, b] = slots.map(|bytes| bytes.and_then(|b| decode(&b, cluster)));
        let second_is_newer = match (&a, &b) {
            (Some(a), Some(b)) => is_later(&b.0, &a.0),
            (a, b) => a.is_none() && b.is_some(),
        };
        // The older one is written next, or the one that holds none.
        let slot = usize::from(!second_is_newer && a.is_some());
        let found = if second_is_newer { b } else { a };
        let newest = found.as_ref().map(|(content, _)| content.without_entries());
        self.state.lock().held = Some(Held { newest, slot });
        found
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        self.pool.close();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identity::tests::{made, restored};
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

    type Drive = Arc<MemoryMedium>;

    /// Snapshots on these drives, whose ids are their places.
    fn on(cluster: &str, drives: &[Drive]) -> Snapshots {
        let media = (1..).zip(drives).map(|(n, d)| (DriveId([n; 16]), d.clone() as Arc<dyn Medium>));
        Snapshots::new(cluster, media.collect())
    }

    async fn saved(kept: &Snapshots, content: Content, wall_ms: i64) {
        kept.save(Arc::new(content), wall_ms).await;
        kept.settled(Duration::from_secs(60)).await;
    }

    #[tokio::test]
    async fn the_newest_sound_snapshot_counts() {
        let drives = [Drive::default(), Drive::default()];
        let kept = on("c", &drives);
        assert_eq!(kept.load().await, None);
        for known in 1..=3 {
            saved(&kept, sample(known), 5).await;
        }
        assert_eq!(on("c", &drives).load().await, Some((sample(3), 5)));
        assert_eq!(on("other", &drives).load().await, None);
        // The newest is torn on one drive, and the other drive is blank: the previous one counts.
        let [a, b] = drives[0].slots();
        drives[0].set_slots([a.map(|a| a[..a.len() - 1].to_vec()), b]);
        drives[1].set_slots([None, None]);
        let kept = on("c", &drives);
        assert_eq!(kept.load().await, Some((sample(2), 5)));
        // The torn slot is written next.
        saved(&kept, sample(4), 6).await;
        let again = drives[0].slots().map(|s| decode(&s.unwrap(), "c").unwrap().0.known);
        assert_eq!(again, [4, 2]);
    }

    /// A drive that comes while the node runs is read before it is written: what it holds is replaced in order,
    /// and never by something older of the same store.
    #[tokio::test]
    async fn an_attached_drive_keeps_what_is_newer() {
        let drive = [Drive::default()];
        let before = on("c", &drive);
        for known in [5, 6] {
            saved(&before, sample(known), 5).await;
        }
        let kept = Snapshots::new("c", Vec::new());
        assert_eq!((kept.is_empty(), kept.save(Arc::new(sample(4)), 5).await), (true, 0));
        kept.attach(DriveId([1; 16]), drive[0].clone());
        time::timeout(Duration::from_secs(60), kept.attached()).await.unwrap();
        let known = || drive[0].slots().map(|s| decode(&s.unwrap(), "c").unwrap().0.known);
        saved(&kept, sample(4), 5).await;
        assert_eq!(known(), [5, 6], "4 is older than what the drive holds");
        saved(&kept, sample(7), 5).await;
        assert_eq!(known(), [7, 6], "the older slot is written first");
        // A store of another identity says nothing about this one.
        let other = Content { identity: Bytes::from_static(b"made again"), ..sample(3) };
        saved(&kept, other.clone(), 5).await;
        assert_eq!(known(), [7, 3]);
        saved(&kept, other, 6).await;
        assert_eq!(known(), [3, 3]);
        kept.detach(DriveId([1; 16]));
        assert!(kept.is_empty());
        saved(&kept, sample(9), 5).await;
        assert_eq!(known(), [3, 3], "it is no longer written");
    }

    /// After a restore the revisions are lower. Of the old store, no snapshot counts any more; but one that knows more
    /// than what was restored is not written over.
    #[tokio::test]
    async fn a_restored_store_takes_over_the_drives_of_the_old_one() {
        let drives = [Drive::default(), Drive::default()];
        let kept = on("c", &drives);
        let old = made("old", 1000);
        saved(&kept, old.clone(), 5).await;
        let kept = on("c", &drives[..1]);
        let new = restored(&old, "new", 5);
        saved(&kept, new.clone(), 6).await;
        assert_eq!(on("c", &drives).load().await, Some((new.clone(), 6)), "one drive has the old store yet");
        let later = restored(&old, "new", 6);
        let kept = on("c", &drives);
        saved(&kept, later.clone(), 7).await;
        saved(&kept, later.clone(), 7).await;
        let stores = |drive: &Drive| {
            let of = |slot: Option<Vec<u8>>| decode(&slot.unwrap(), "c").unwrap().0;
            drive.slots().map(|slot| of(slot).head.0)
        };
        assert_eq!([stores(&drives[0]), stores(&drives[1])], [[6, 6], [6, 6]]);
        // A drive that was away and knows a change that is lost.
        let away = [Drive::default()];
        saved(&on("c", &away), made("old", 1001), 5).await;
        let kept = on("c", &away);
        saved(&kept, later.clone(), 8).await;
        assert_eq!(on("c", &away).load().await, Some((made("old", 1001), 5)));
        let both = [away[0].clone(), drives[0].clone()];
        assert_eq!(on("c", &both).load().await.map(|l| l.0), Some(later));
        // A process that still has the old store in memory.
        saved(&on("c", &drives), old, 9).await;
        assert_eq!(stores(&drives[0]), [6, 6]);
    }
}
