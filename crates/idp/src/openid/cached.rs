//! What a provider said, kept for a while.
//!
//! Invariants: a provider is asked at most once in [`PAUSE_MS`], however often somebody wants to know, and
//! by one at a time, so that forged tokens cannot make this server hammer it; what is known goes on
//! counting for [`STALE_MS`] while the provider cannot be asked; a new answer replaces the old one as a
//! whole, so that keys that were taken back count no longer; a question goes on when the client whose
//! request led to it has gone, so that clients that come and go cannot keep an answer from everybody.
//!
//! Must never know: what is kept.

use std::future::Future;
use std::sync::Arc;

use parking_lot::Mutex;

/// The least time between two questions, in milliseconds.
pub const PAUSE_MS: i64 = 10_000;
/// How long an answer counts when no newer one can be had.
pub const STALE_MS: i64 = 24 * 3_600_000;

struct State<T> {
    value: Option<Arc<T>>,
    /// When the value came.
    since_ms: i64,
    /// When the provider was asked last.
    asked_ms: Option<i64>,
    /// Why there is no newer value.
    why: String,
}

/// Something that is kept.
pub struct Cached<T> {
    fresh_ms: i64,
    state: Arc<Mutex<State<T>>>,
    turn: Arc<tokio::sync::Mutex<()>>,
}

impl<T> State<T> {
    /// Takes an answer.
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

    /// What is known, unless it is too old to count.
    fn kept(&self, now_ms: i64) -> Result<Arc<T>, String> {
        match &self.value {
            Some(value) if now_ms - self.since_ms < STALE_MS => Ok(value.clone()),
            _ => Err(self.why.clone()),
        }
    }
}

impl<T: Send + Sync + 'static> Cached<T> {
    /// Nothing yet; an answer is renewed when it is older than `fresh_ms`.
    pub fn new(fresh_ms: i64) -> Cached<T> {
        let state = State { value: None, since_ms: 0, asked_ms: None, why: String::new() };
        Cached { fresh_ms, state: Arc::new(Mutex::new(state)), turn: Arc::default() }
    }

    /// The value; asked for anew when it is old, or when it is not `enough`. What comes back is perhaps not
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
        // Somebody else asked meanwhile, perhaps.
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
        // It ends: what is asked of a provider has an end in time.
        let _ = task.await;
        self.state.lock().kept(now_ms)
    }

    /// The answer if nobody is to be asked.
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
    async fn a_client_that_goes_takes_nothing_along() {
        let cached: Arc<Cached<usize>> = Arc::new(Cached::new(60_000));
        let (go, wait) = tokio::sync::oneshot::channel::<()>();
        let asking = cached.clone();
        let client = ashlar_environment::spawn("openid-fetch", async move {
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
    async fn a_provider_is_asked_seldom_and_its_last_answer_lasts() {
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
        // Not enough, a thousand times at once: asked once more, then not before the pause is over.
        for _ in 0..1000 {
            assert!(cached.get(70_000, |_| false, || ask(true)).await.is_ok());
            assert!(cached.get(79_999, |_| false, || ask(true)).await.is_ok());
        }
        assert_eq!(asked.load(Ordering::SeqCst), 3);
        assert_eq!(got(cached.get(80_000, |_| false, || ask(true)).await), Ok(3));
        // Away: what is known goes on, but not for ever.
        assert_eq!(got(cached.get(200_000, |_| true, || ask(false)).await), Ok(3));
        let end = 80_000 + STALE_MS;
        assert_eq!(got(cached.get(end - 1, |_| true, || ask(false)).await), Ok(3));
        assert_eq!(got(cached.get(end + PAUSE_MS, |_| true, || ask(false)).await), Err("away".into()));
        assert_eq!(got(cached.get(end + 2 * PAUSE_MS, |_| true, || ask(true)).await), Ok(7));
    }
}
