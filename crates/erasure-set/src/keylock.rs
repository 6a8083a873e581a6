//! One mutex per key inside this process, so that its own requests do not duel.
//!
//! The locks only improve speed: ballots provide safety. Invariants: waiters are served in order of arrival;
//! a waiter that is dropped passes the lock on; memory is held only for keys that are locked now. Keys whose
//! hashes collide wait for each other.
//!
//! Must not depend on: what the lock protects.

use parking_lot::Mutex;
use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;
use tokio::sync::oneshot;

/// A hasher for keys that are already hashes.
#[derive(Default, Clone)]
pub(crate) struct Same(u64);

impl Hasher for Same {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        for &b in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(b);
        }
    }
    fn write_u64(&mut self, v: u64) {
        self.0 = v;
    }
}

/// A map with keys that are already hashes.
pub(crate) type HashKeyed<V> = HashMap<u64, V, BuildHasherDefault<Same>>;

const SHARDS: usize = 64;

/// The locks.
pub(crate) struct KeyLocks {
    shards: [Mutex<HashKeyed<VecDeque<oneshot::Sender<KeyGuard>>>>; SHARDS],
}

/// The key is locked until this guard is dropped.
pub(crate) struct KeyGuard {
    /// `None`: nothing to release.
    locks: Option<Arc<KeyLocks>>,
    hash: u64,
}

impl KeyLocks {
    pub(crate) fn new() -> Arc<KeyLocks> {
        Arc::new(KeyLocks { shards: std::array::from_fn(|_| Mutex::default()) })
    }

    fn shard(&self, hash: u64) -> &Mutex<HashKeyed<VecDeque<oneshot::Sender<KeyGuard>>>> {
        // The low bits choose the bucket inside the map; use others.
        &self.shards[(hash >> 40) as usize % SHARDS]
    }

    /// Waits for the key of this hash.
    pub(crate) async fn lock(self: &Arc<Self>, hash: u64) -> KeyGuard {
        let turn = {
            let mut map = self.shard(hash).lock();
            match map.get_mut(&hash) {
                None => {
                    map.insert(hash, VecDeque::new());
                    None
                }
                Some(queue) => {
                    let (send, receive) = oneshot::channel();
                    queue.push_back(send);
                    Some(receive)
                }
            }
        };
        match turn {
            None => KeyGuard { locks: Some(self.clone()), hash },
            Some(turn) => match turn.await {
                Ok(guard) => guard,
                Err(_) => unreachable!("a queued waiter is always given its turn"),
            },
        }
    }

    /// Locks the key of this hash, if it is free.
    #[cfg(test)]
    pub(crate) fn try_lock(self: &Arc<Self>, hash: u64) -> Option<KeyGuard> {
        let mut map = self.shard(hash).lock();
        if map.contains_key(&hash) {
            return None;
        }
        map.insert(hash, VecDeque::new());
        Some(KeyGuard { locks: Some(self.clone()), hash })
    }
}

impl Drop for KeyGuard {
    fn drop(&mut self) {
        let Some(locks) = self.locks.take() else { return };
        loop {
            let next = {
                let mut map = locks.shard(self.hash).lock();
                let Some(queue) = map.get_mut(&self.hash) else { return };
                let next = queue.pop_front();
                if next.is_none() {
                    map.remove(&self.hash);
                }
                next
            };
            let Some(next) = next else { return };
            // The guard is sent through the channel: if the waiter is dropped after this, dropping the
            // undelivered guard passes the lock on.
            match next.send(KeyGuard { locks: Some(locks.clone()), hash: self.hash }) {
                Ok(()) => return,
                // The guard was returned unsent: this loop continues in its place.
                Err(mut unsent) => unsent.locks = None,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering};

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn locks_are_exclusive_and_fair() {
        let locks = KeyLocks::new();
        let inside = Arc::new(AtomicU64::new(0));
        let total = Arc::new(AtomicU64::new(0));
        let mut tasks = Vec::new();
        for i in 0..200u64 {
            let (locks, inside, total) = (locks.clone(), inside.clone(), total.clone());
            tasks.push(tokio::spawn(async move {
                for _ in 0..20 {
                    let lock = locks.lock(i % 3);
                    // Every seventh waiter gives up at once.
                    if i % 7 == 0 {
                        let short = std::time::Duration::from_micros(50);
                        let _ = tokio::time::timeout(short, lock).await;
                        continue;
                    }
                    let guard = lock.await;
                    assert!(inside.fetch_add(1, Ordering::SeqCst) < 3);
                    tokio::task::yield_now().await;
                    inside.fetch_sub(1, Ordering::SeqCst);
                    total.fetch_add(1, Ordering::SeqCst);
                    drop(guard);
                }
            }));
        }
        for t in tasks {
            t.await.unwrap();
        }
        assert_eq!(total.load(Ordering::SeqCst), (0..200).filter(|i| i % 7 != 0).count() as u64 * 20);
        for h in 0..3 {
            assert!(locks.try_lock(h).is_some(), "nothing is left locked");
        }
    }
}
