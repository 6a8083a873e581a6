//! Opening and sealing documents without letting anybody spend the machine's memory and time on it.
//!
//! A key costs 64 MiB and some 50 ms of a processor. Invariants: one key is made at a time for root and one for
//! everybody else, off the threads that serve; at most [`QUEUE`] requests wait in each of the two lanes, of one
//! user at most [`EACH`], and others are told to slow down, so nobody waits behind many of another's; only requests
//! that were signed by somebody who may make the call come here.
//!
//! Must never know: what a document says.

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

/// Requests of a lane that may wait or work.
pub const QUEUE: usize = 16;
/// Requests of one user other than root that may wait or work.
pub const EACH: usize = 2;

/// Makes keys.
pub struct Vault {
    root: Lane,
    others: Lane,
    refused: AtomicU64,
}

/// Makes keys one at a time.
struct Lane {
    turn: Arc<Semaphore>,
    /// Requests that wait or work, by user.
    waiting: Arc<Mutex<HashMap<String, usize>>>,
    each: usize,
}

/// Counts a request while it waits or works.
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

impl Lane {
    fn new(each: usize) -> Lane {
        Lane { turn: Arc::new(Semaphore::new(1)), waiting: Arc::default(), each }
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

impl Vault {
    /// An idle one.
    pub fn new() -> Vault {
        Vault { root: Lane::new(QUEUE), others: Lane::new(EACH), refused: AtomicU64::new(0) }
    }

    /// Requests that were refused because too many were under way.
    pub fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    /// Runs `work` for `who` when it is its turn.
    async fn run<T: Send + 'static>(
        &self,
        who: &Identity,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Refusal> {
        // Keys of root that are bounded may be in anybody's hands.
        let lane = if who.is_unbounded_root() { &self.root } else { &self.others };
        let Some(waiting) = lane.enter(who.principal().name) else {
            self.refused.fetch_add(1, Ordering::Relaxed);
            return Err(busy());
        };
        let turn = lane.turn.clone().acquire_owned().await.map_err(|_| busy())?;
        let done = ashlar_environment::spawn_blocking("vault", move || {
            let done = work();
            // Held to the end of the work, even when nobody waits for it any more.
            drop((turn, waiting));
            done
        });
        done.await.map_err(|_| Refusal {
            status: StatusCode::INTERNAL_SERVER_ERROR,
            code: "InternalError",
            why: "the document could not be worked on".into(),
        })
    }

    /// Opens a document sealed under the secret of `who`. The key can seal the answer.
    ///
    /// # Errors
    /// It is not sealed so; too many wait.
    pub async fn open(&self, who: &Arc<Identity>, sealed: Bytes) -> Result<(Bytes, Key), Refusal> {
        let broken = |e: ashlar_s3::madmin::Broken| Refusal {
            status: StatusCode::BAD_REQUEST,
            code: "XMinioAdminConfigBadJSON",
            why: e.to_string(),
        };
        Sealed::parse(&sealed).map_err(broken)?;
        let who = who.clone();
        let asker = who.clone();
        let opened = self.run(&asker, move || {
            let sealed = Sealed::parse(&sealed)?;
            let key = sealed.key(who.secret.expose().as_bytes());
            let text = sealed.open(&key)?;
            Ok((Bytes::from(text), key))
        });
        opened.await?.map_err(broken)
    }

    /// Seals an answer under the secret of `who`, with the request's key if there is one.
    ///
    /// # Errors
    /// Too many wait.
    pub async fn seal(
        &self,
        who: &Arc<Identity>,
        key: Option<Key>,
        text: Vec<u8>,
    ) -> Result<Vec<u8>, Refusal> {
        if let Some(key) = key {
            return Ok(key.seal(random(), &text));
        }
        let asker = who.clone();
        let who = who.clone();
        self.run(&asker, move || Key::new(who.secret.expose().as_bytes(), random()).seal(random(), &text))
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

    /// Waits in a lane that stands still.
    fn waiter(vault: &Arc<Vault>, who: Identity) -> tokio::task::JoinHandle<bool> {
        let vault = vault.clone();
        tokio::spawn(async move { vault.run(&who, || ()).await.is_ok() })
    }

    async fn until(vault: &Vault, waiting: usize) {
        while vault.others.waiting.lock().values().sum::<usize>() < waiting {
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn one_user_cannot_shut_out_others_nor_all_of_them_root() {
        let vault = Arc::new(Vault::new());
        let held = vault.others.turn.clone().acquire_owned().await.unwrap();
        let mut waiting = Vec::new();
        for i in 0..EACH {
            waiting.push(waiter(&vault, user("eve")));
            until(&vault, i + 1).await;
        }
        let refused = vault.run(&user("eve"), || ()).await.unwrap_err();
        assert_eq!((refused.status.as_u16(), refused.code), (503, "SlowDown"));
        for i in EACH..QUEUE {
            waiting.push(waiter(&vault, user(&format!("user{i}"))));
            until(&vault, i + 1).await;
        }
        let refused = vault.run(&user("late"), || ()).await.unwrap_err();
        assert_eq!((refused.code, vault.refused()), ("SlowDown", 2));
        vault.run(&root(), || ()).await.expect("root has a lane of its own");
        drop(held);
        for w in waiting {
            assert!(w.await.unwrap());
        }
        assert!(vault.others.waiting.lock().is_empty());
        // A request that is given up makes room.
        let held = vault.others.turn.clone().acquire_owned().await.unwrap();
        let gone =
            tokio::time::timeout(std::time::Duration::from_millis(5), vault.run(&user("eve"), || ())).await;
        assert!(gone.is_err() && vault.others.waiting.lock().is_empty());
        drop(held);
        vault.run(&user("eve"), || ()).await.unwrap();
    }
}
