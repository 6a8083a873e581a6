//! Opening and sealing documents without letting anybody spend the machine's memory and time on it.
//!
//! A key costs 64 MiB and some 50 ms of a processor. Invariants: one key is made at a time, off the
//! threads that serve; at most [`QUEUE`] requests wait for theirs, and others are told to slow down; only
//! requests that were signed by somebody who may make the call come here.
//!
//! Must never know: what a document says.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use ashlar_iam::Identity;
use ashlar_s3::Code;
use ashlar_s3::madmin::{Key, Sealed};
use bytes::Bytes;
use http::StatusCode;
use tokio::sync::Semaphore;

use crate::server::admin::Refusal;

/// Requests that may wait for a key.
pub const QUEUE: usize = 16;

/// Makes keys, one at a time.
pub struct Vault {
    turn: Arc<Semaphore>,
    waiting: Arc<AtomicUsize>,
}

/// Counts a request while it waits or works.
struct Waiting(Arc<AtomicUsize>);

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
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
    getrandom::fill(&mut out).expect("the operating system gives random bytes");
    out
}

impl Vault {
    /// An idle one.
    pub fn new() -> Vault {
        Vault { turn: Arc::new(Semaphore::new(1)), waiting: Arc::default() }
    }

    /// Runs `work` when it is its turn.
    async fn run<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> Result<T, Refusal> {
        let before = self.waiting.fetch_add(1, Ordering::AcqRel);
        let waiting = Waiting(self.waiting.clone());
        if before >= QUEUE {
            return Err(busy());
        }
        let turn = self.turn.clone().acquire_owned().await.map_err(|_| busy())?;
        let done = tokio::task::spawn_blocking(move || {
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
        let opened = self.run(move || {
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
        let who = who.clone();
        self.run(move || Key::new(who.secret.expose().as_bytes(), random()).seal(random(), &text)).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn one_at_a_time_few_wait_and_the_rest_are_told_so() {
        let vault = Arc::new(Vault::new());
        let held = vault.turn.clone().acquire_owned().await.unwrap();
        let waiting: Vec<_> = (0..QUEUE)
            .map(|i| {
                let vault = vault.clone();
                tokio::spawn(async move { vault.run(move || i).await.unwrap() })
            })
            .collect();
        while vault.waiting.load(Ordering::Acquire) < QUEUE {
            tokio::task::yield_now().await;
        }
        let refused = vault.run(|| ()).await.unwrap_err();
        assert_eq!((refused.status.as_u16(), refused.code), (503, "SlowDown"));
        drop(held);
        for (i, w) in waiting.into_iter().enumerate() {
            assert_eq!(w.await.unwrap(), i);
        }
        assert_eq!(vault.waiting.load(Ordering::Acquire), 0);
        // A request that is given up makes room.
        let held = vault.turn.clone().acquire_owned().await.unwrap();
        let gone = tokio::time::timeout(std::time::Duration::from_millis(5), vault.run(|| ())).await;
        assert!(gone.is_err() && vault.waiting.load(Ordering::Acquire) == 0);
        drop(held);
        vault.run(|| ()).await.unwrap();
    }
}
