//! A cache of a provider's answer.
//!
//! Invariants: a provider is asked at most once in [`PAUSE_MS`], by one task at a time, so that forged tokens
//! cannot make this server flood it with requests; while the provider does not answer, the last answer is
//! valid for [`STALE_MS`]; a new answer replaces the old one as a whole, so that revoked keys are no longer
//! accepted; a request to the provider continues if the client that caused it disconnects, so that such
//! clients cannot delay the answer for others.
//!
//! Must not depend on: the content of answers.

use std::future::Future;
use std::sync::Arc;

use parking_lot::Mutex;

/// Shortest time between two requests to the provider, in milliseconds.
pub const PAUSE_MS: i64 = 10_000;
/// How long an answer is valid while the provider does not answer, in milliseconds.
pub const STALE_MS: i64 = 24 * 3_600_000;

struct State<T> {
    value: Option<Arc<T>>,
    /// When the value arrived.
    since_ms: i64,
    /// When the provider was asked last.
    asked_ms: Option<i64>,
    /// Why there is no newer value.
    why: String,
}

/// A cached value.
pub struct Cached<T> {
    fresh_ms: i64,
    state: Arc<Mutex<State<T>>>,
    turn: Arc<tokio::sync::Mutex<()>>,
}

impl<T> State<T> {
    /// Stores an answer.
    fn take(&mut self, now_ms: i64, answer: Result<T, String>) {
        match answer {
            Ok(value) => {
                self.since_ms = now_ms;
                self.why.clear();
                self.value = Some(Arc::new(value));
            }
            Err(why) => {
                tracing::warn!(why, "an identity provider does not answer");
                self.why = why;
            }
        }
    }

    /// The last answer, unless it is older than [`STALE_MS`].
    fn kept(&self, now_ms: i64) -> Result<Arc<T>, String> {
        match &self.value {
            Some(value) if now_ms - self.since_ms < STALE_MS => Ok(value.clone()),
            _ => Err(self.why.clone()),
        }
    }
}

impl<T: Send + Sync + 'static> Cached<T> {
    /// An empty cache. An answer is renewed when it is older than `fresh_ms`.
    pub fn new(fresh_ms: i64) -> Cached<T> {
        let state = State { value: None, since_ms: 0, asked_ms: None, why: String::new() };
        Cached { fresh_ms, state: Arc::new(Mutex::new(state)), turn: Arc::default() }
    }

    /// The value; requested again if it is old, or if it is not `enough`. The returned value may not be
    /// enough either.
    ///
    /// # Errors
    /// There is no value, and why.
    pub async fn get<F>(
        &self,
        now_ms: i64,
        enough: impl Fn(&T) -> bool,
        ask: impl FnOnce() -> F,
    ) -> Result<Arc<T>, String>
    where
        F: Future<Output = Result<T, String>> + Send + 'static,
    {
        if let Some(value) = self.settled(now_ms, &enough) {
            return value;
        }
        let turn = self.turn.clone().lock_owned().await;
        // Another task may have asked meanwhile.
        if let Some(value) = self.settled(now_ms, &enough) {
            return value;
        }
        self.state.lock().asked_ms = Some(now_ms);
        let (question, state) = (ask(), self.state.clone());
        let task = ashlar_environment::spawn("openid-fetch", async move {
            let answer = question.await;
            state.lock().take(now_ms, answer);
            drop(turn);
        });
        // It ends: every request to a provider has a time limit.
        let _ = task.await;
        self.state.lock().kept(now_ms)
    }

    /// The result if the provider need not, or must not, be asked now.
    fn settled(&self, now_ms: i64, enough: &impl Fn(&T) -> bool) -> Option<Result<Arc<T>, String>> {
        let state = self.state.lock();
        let fresh = now_ms - state.since_ms < self.fresh_ms;
        if let Some(value) = state.value.as_ref().filter(|v| fresh && enough(v)) {
            return Some(Ok(value.clone()));
        }
        let asked = state.asked_ms.is_some_and(|at| now_ms - at < PAUSE_MS);
        asked.then(|| state.kept(now_ms))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[tokio::test]
    async fn request_continues_after_its_client_disconnects() {
        let cached: Arc<Cached<usize>> = Arc::new(Cached::new(60_000));
        let (go, wait) = tokio::sync::oneshot::channel::<()>();
        let asking = cached.clone();
        let client = tokio::spawn(async move {
            let ask = || async move { wait.await.map(|()| 5).map_err(|e| e.to_string()) };
            asking.get(0, |_| true, ask).await
        });
        while cached.state.lock().asked_ms.is_none() {
            tokio::task::yield_now().await;
        }
        client.abort();
        assert!(client.await.unwrap_err().is_cancelled());
        go.send(()).unwrap();
        while cached.state.lock().value.is_none() {
            tokio::task::yield_now().await;
        }
        assert_eq!(cached.get(1, |_| true, || async { Err("again".into()) }).await.map(|v| *v), Ok(5));
    }

    #[tokio::test]
    async fn requests_are_rate_limited_and_last_answer_stays_valid() {
        let cached: Cached<usize> = Cached::new(60_000);
        let asked = AtomicUsize::new(0);
        let ask = |works: bool| {
            let n = asked.fetch_add(1, Ordering::SeqCst);
            async move { if works { Ok(n) } else { Err("away".to_owned()) } }
        };
        let got = |r: Result<Arc<usize>, String>| r.map(|v| *v);
        assert_eq!(got(cached.get(0, |_| true, || ask(true)).await), Ok(0));
        assert_eq!(got(cached.get(59_999, |_| true, || ask(true)).await), Ok(0), "fresh");
        assert_eq!(got(cached.get(60_000, |_| true, || ask(true)).await), Ok(1), "old");
        // A thousand concurrent calls with a value that is not enough: one request, no more before the pause
        // ends.
        for _ in 0..1000 {
            assert!(cached.get(70_000, |_| false, || ask(true)).await.is_ok());
            assert!(cached.get(79_999, |_| false, || ask(true)).await.is_ok());
        }
        assert_eq!(asked.load(Ordering::SeqCst), 3);
        assert_eq!(got(cached.get(80_000, |_| false, || ask(true)).await), Ok(3));
        // While the provider does not answer, the last answer is valid, but not without limit.
        assert_eq!(got(cached.get(200_000, |_| true, || ask(false)).await), Ok(3));
        let end = 80_000 + STALE_MS;
        assert_eq!(got(cached.get(end - 1, |_| true, || ask(false)).await), Ok(3));
        assert_eq!(got(cached.get(end + PAUSE_MS, |_| true, || ask(false)).await), Err("away".into()));
        assert_eq!(got(cached.get(end + 2 * PAUSE_MS, |_| true, || ask(true)).await), Ok(7));
    }
}
