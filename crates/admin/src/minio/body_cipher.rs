//! Encryption of request and answer bodies, with limits on the memory and time that callers can use for it.
//!
//! Deriving a key takes 64 MiB and about 50 ms of a processor. Invariants: one key at a time is derived for
//! root and one for all other users, outside the threads that serve requests; at most [`QUEUE`] requests wait
//! in each of the two queues, at most [`EACH`] of one user, and others are answered with SlowDown, so that no
//! user waits for many requests of another; only signed requests of callers with permission for the call
//! reach this module.
//!
//! Must not depend on: the content of the bodies.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ashlar_iam::Identity;
use ashlar_s3::Code;
use ashlar_s3::madmin::{Key, Sealed};
use bytes::Bytes;
use http::StatusCode;
use parking_lot::Mutex;
use tokio::sync::Semaphore;

use crate::admin_request::Refusal;

/// Maximum number of requests per queue that wait or run.
pub const QUEUE: usize = 16;
/// Maximum number of requests of one user other than root that wait or run.
pub const EACH: usize = 2;

/// Derives keys, and encrypts and decrypts with them.
pub struct BodyCipher {
    root: Queue,
    others: Queue,
    refused: AtomicU64,
}

/// A queue that derives one key at a time.
struct Queue {
    turn: Arc<Semaphore>,
    /// Number of requests that wait or run, by user.
    waiting: Arc<Mutex<HashMap<String, usize>>>,
    each: usize,
}

/// Counts a request while it waits or runs.
struct Waiting {
    all: Arc<Mutex<HashMap<String, usize>>>,
    user: String,
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let mut all = self.all.lock();
        if let Some(mine) = all.get_mut(&self.user) {
            *mine -= 1;
            if *mine == 0 {
                all.remove(&self.user);
            }
        }
    }
}

impl Queue {
    fn new(each: usize) -> Queue {
        Queue { turn: Arc::new(Semaphore::new(1)), waiting: Arc::default(), each }
    }

    fn enter(&self, user: &str) -> Option<Waiting> {
        let mut all = self.waiting.lock();
        let mine = all.get(user).copied().unwrap_or(0);
        if mine >= self.each || all.values().sum::<usize>() >= QUEUE {
            return None;
        }
        *all.entry(user.to_owned()).or_default() += 1;
        drop(all);
        Some(Waiting { all: self.waiting.clone(), user: user.to_owned() })
    }
}

fn busy() -> Refusal {
    Refusal {
        status: StatusCode::SERVICE_UNAVAILABLE,
        code: Code::SLOW_DOWN.name,
        why: "too many sealed administration requests at once; try again".into(),
    }
}

fn random<const N: usize>() -> [u8; N] {
    let mut out = [0; N];
    ashlar_environment::random::fill(&mut out).expect("the operating system gives random bytes");
    out
}

impl BodyCipher {
    /// New, without requests.
    pub fn new() -> BodyCipher {
        BodyCipher { root: Queue::new(QUEUE), others: Queue::new(EACH), refused: AtomicU64::new(0) }
    }

    /// Number of requests that were refused because too many were waiting.
    pub fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    /// Runs `work` for `caller` when its turn comes.
    async fn run<T: Send + 'static>(
        &self,
        caller: &Identity,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Refusal> {
        // Restricted keys of root may be given to others, so they use the other queue.
        let queue = if caller.is_unbounded_root() { &self.root } else { &self.others };
        let Some(waiting) = queue.enter(caller.principal().name) else {
            self.refused.fetch_add(1, Ordering::Relaxed);
            return Err(busy());
        };
        let turn = queue.turn.clone().acquire_owned().await.map_err(|_| busy())?;
        let done = ashlar_environment::spawn_blocking("body-cipher", move || {
            let done = work();
            // Held until the work ends, even if the caller no longer waits for it.
            drop((turn, waiting));
            done
        });
        done.await.map_err(|_| Refusal {
            status: StatusCode::INTERNAL_SERVER_ERROR,
            code: "InternalError",
            why: "the document could not be worked on".into(),
        })
    }

    /// Decrypts a body that is encrypted under the secret of `caller`. The returned key can encrypt the
    /// answer.
    ///
    /// # Errors
    /// The body is not encrypted under this secret; too many requests wait.
    pub async fn open(&self, caller: &Arc<Identity>, sealed: Bytes) -> Result<(Bytes, Key), Refusal> {
        let broken = |e: ashlar_s3::madmin::Broken| Refusal {
            status: StatusCode::BAD_REQUEST,
            code: "XMinioAdminConfigBadJSON",
            why: e.to_string(),
        };
        Sealed::parse(&sealed).map_err(broken)?;
        let caller = caller.clone();
        let asker = caller.clone();
        let opened = self.run(&asker, move || {
            let sealed = Sealed::parse(&sealed)?;
            let key = sealed.key(caller.secret.expose().as_bytes());
            let text = sealed.open(&key)?;
            Ok((Bytes::from(text), key))
        });
        opened.await?.map_err(broken)
    }

    /// Encrypts an answer under the secret of `caller`, with the key of the request if there is one.
    ///
    /// # Errors
    /// Too many requests wait.
    pub async fn seal(
        &self,
        caller: &Arc<Identity>,
        key: Option<Key>,
        text: Vec<u8>,
    ) -> Result<Vec<u8>, Refusal> {
        if let Some(key) = key {
            return Ok(key.seal(random(), &text));
        }
        let asker = caller.clone();
        let caller = caller.clone();
        self.run(&asker, move || Key::new(caller.secret.expose().as_bytes(), random()).seal(random(), &text))
            .await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ashlar_iam::Kind;

    fn user(name: &str) -> Identity {
        let mut user = Identity::anonymous();
        (user.kind, user.user) = (Kind::User, name.to_owned());
        user
    }

    fn root() -> Identity {
        let secret = ashlar_iam::Secret::new("a root secret");
        Identity::of_root(&ashlar_iam::Root { access_key: "root".to_owned(), secret })
    }

    /// Waits in a queue that makes no progress.
    fn waiter(body_cipher: &Arc<BodyCipher>, caller: Identity) -> tokio::task::JoinHandle<bool> {
        let body_cipher = body_cipher.clone();
        tokio::spawn(async move { body_cipher.run(&caller, || ()).await.is_ok() })
    }

    async fn until(body_cipher: &BodyCipher, waiting: usize) {
        while body_cipher.others.waiting.lock().values().sum::<usize>() < waiting {
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn one_user_cannot_starve_others_nor_root() {
        let body_cipher = Arc::new(BodyCipher::new());
        let held = body_cipher.others.turn.clone().acquire_owned().await.unwrap();
        let mut waiting = Vec::new();
        for i in 0..EACH {
            waiting.push(waiter(&body_cipher, user("eve")));
            until(&body_cipher, i + 1).await;
        }
        let refused = body_cipher.run(&user("eve"), || ()).await.unwrap_err();
        assert_eq!((refused.status.as_u16(), refused.code), (503, "SlowDown"));
        for i in EACH..QUEUE {
            waiting.push(waiter(&body_cipher, user(&format!("user{i}"))));
            until(&body_cipher, i + 1).await;
        }
        let refused = body_cipher.run(&user("late"), || ()).await.unwrap_err();
        assert_eq!((refused.code, body_cipher.refused()), ("SlowDown", 2));
        body_cipher.run(&root(), || ()).await.expect("root has a lane of its own");
        drop(held);
        for w in waiting {
            assert!(w.await.unwrap());
        }
        assert!(body_cipher.others.waiting.lock().is_empty());
        // A cancelled request leaves the queue.
        let held = body_cipher.others.turn.clone().acquire_owned().await.unwrap();
        let gone =
            tokio::time::timeout(std::time::Duration::from_millis(5), body_cipher.run(&user("eve"), || ()))
                .await;
        assert!(gone.is_err() && body_cipher.others.waiting.lock().is_empty());
        drop(held);
        body_cipher.run(&user("eve"), || ()).await.unwrap();
    }
}
