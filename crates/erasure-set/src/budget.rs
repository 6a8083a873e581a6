//! Memory shared between tenants, with bounded waits.
//!
//! A [`Budget`] is a number of bytes. A holder has a [`Share`] and gives it back by dropping it. While there
//! are waiters, memory that is given back goes to the waiting tenant that holds the least, so no tenant keeps
//! more than its fair part while others wait. A tenant is the identity of a request, or the address of a
//! client without one: [`as_tenant`] sets it for all that a future does.
//!
//! A request may ask that some bytes stay free. Those bytes are a reserve for requests that ask for none to
//! be kept (small bodies, and memory that is held for drives rather than for clients). They are served before
//! the others.
//!
//! Invariants: shares never exceed the budget; without waiters a share costs one uncontended lock; a wait
//! ends at its deadline; a waiter that is dropped leaves no state; the memory of idle holders is reclaimed
//! ([`Reclaim`]) before any request is refused.
//!
//! Must not depend on: what the memory is used for.

use ashlar_environment::HashMap;
use ashlar_environment::time::{self, Instant};
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;
use tokio::sync::oneshot;

tokio::task_local! {
    static TENANT: u64;
}

/// How often a waiter asks idle holders for their memory.
const ASK: Duration = Duration::from_millis(40);

/// Runs `work` for a tenant: a number that stands for an identity or an address.
pub fn as_tenant<F: Future>(tenant: u64, work: F) -> impl Future<Output = F::Output> {
    TENANT.scope(tenant, work)
}

/// The tenant of the current task; 0: the server itself.
fn tenant() -> u64 {
    TENANT.try_with(|t| *t).unwrap_or(0)
}

/// Reclaims memory from idle holders.
pub(crate) trait Reclaim {
    /// Frees up to `bytes`, as far as possible.
    fn reclaim(&self, bytes: usize);
}

/// A number of bytes that is shared.
#[derive(Clone)]
pub(crate) struct Budget {
    shared: Arc<Shared>,
}

struct Shared {
    total: usize,
    state: Mutex<State>,
    /// Bytes that waiters want.
    wanted: AtomicUsize,
    refused: AtomicU64,
}

struct State {
    free: usize,
    /// Bytes held by each tenant that holds some.
    held: HashMap<u64, usize>,
    waiting: VecDeque<Waiting>,
    /// Number of waiters that may use the reserve.
    urgent: usize,
    next: u64,
}

struct Waiting {
    ticket: u64,
    tenant: u64,
    bytes: usize,
    keep: usize,
    granted: oneshot::Sender<Share>,
}

/// Bytes held; dropping the share gives them back.
pub(crate) struct Share {
    shared: Arc<Shared>,
    tenant: u64,
    bytes: usize,
}

impl Share {
    /// Gives back what is above `bytes`.
    pub(crate) fn shrink(&mut self, bytes: usize) {
        if bytes < self.bytes {
            let excess = self.bytes - bytes;
            self.bytes = bytes;
            drop(Share { shared: self.shared.clone(), tenant: self.tenant, bytes: excess });
        }
    }

    /// Takes up to `bytes` of it into a share of their own.
    pub(crate) fn split(&mut self, bytes: usize) -> Share {
        let bytes = bytes.min(self.bytes);
        self.bytes -= bytes;
        Share { shared: self.shared.clone(), tenant: self.tenant, bytes }
    }

    /// Number of bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut s = self.shared.state.lock();
        s.free += self.bytes;
        if let Some(held) = s.held.get_mut(&self.tenant) {
            *held -= self.bytes;
            if *held == 0 {
                s.held.remove(&self.tenant);
            }
        }
        let granted = grant(&self.shared, &mut s);
        drop(s);
        deliver(granted);
    }
}

/// A position in the queue of waiters.
struct Queued<'a> {
    shared: &'a Arc<Shared>,
    ticket: u64,
    bytes: usize,
    granted: oneshot::Receiver<Share>,
}

impl Drop for Queued<'_> {
    fn drop(&mut self) {
        self.shared.wanted.fetch_sub(self.bytes, Relaxed);
        let mut s = self.shared.state.lock();
        if let Some(at) = s.waiting.iter().position(|w| w.ticket == self.ticket) {
            s.urgent -= usize::from(s.waiting[at].keep == 0);
            s.waiting.remove(at);
            // Others may have waited only because of this one.
            let granted = grant(self.shared, &mut s);
            drop(s);
            deliver(granted);
        }
        // A share that was granted in the meantime is given back with the receiver, after the lock is
        // released.
    }
}

impl Budget {
    pub(crate) fn new(total: usize) -> Budget {
        let state =
            State { free: total, held: HashMap::default(), waiting: VecDeque::new(), urgent: 0, next: 0 };
        let (wanted, refused) = (AtomicUsize::new(0), AtomicU64::new(0));
        Budget { shared: Arc::new(Shared { total, state: Mutex::new(state), wanted, refused }) }
    }

    /// Total bytes of the budget.
    pub(crate) fn total(&self) -> usize {
        self.shared.total
    }

    /// Bytes that are held.
    pub(crate) fn used(&self) -> usize {
        self.shared.total - self.shared.state.lock().free
    }

    /// Number of waits that ended at their deadline.
    pub(crate) fn refused(&self) -> u64 {
        self.shared.refused.load(Relaxed)
    }

    /// Takes `bytes` now, if `keep` bytes are still free afterwards and no waiter has precedence. A request
    /// for more than the total counts as one for the total.
    pub(crate) fn try_take(&self, bytes: usize, keep: usize) -> Option<Share> {
        let bytes = bytes.min(self.shared.total.saturating_sub(keep));
        let mut s = self.shared.state.lock();
        let ahead = if keep == 0 { s.urgent == 0 } else { s.waiting.is_empty() };
        (ahead && s.free >= bytes + keep).then(|| take(&self.shared, &mut s, tenant(), bytes))
    }

    /// Like [`Budget::try_take`], waiting for at most `patience`; `holders` are asked to free idle memory.
    pub(crate) async fn take(
        &self,
        bytes: usize,
        keep: usize,
        patience: Duration,
        holders: &(impl Reclaim + ?Sized),
    ) -> Option<Share> {
        let bytes = bytes.min(self.shared.total.saturating_sub(keep));
        if let Some(share) = self.try_take(bytes, keep) {
            return Some(share);
        }
        let began = Instant::now();
        let mut place = self.queue(bytes, keep);
        loop {
            holders.reclaim(self.shared.wanted.load(Relaxed));
            let Some(left) = patience.checked_sub(began.elapsed()).filter(|l| !l.is_zero()) else {
                self.shared.refused.fetch_add(1, Relaxed);
                return None;
            };
            if let Ok(granted) = time::timeout(ASK.min(left), &mut place.granted).await {
                return granted.ok();
            }
        }
    }

    fn queue(&self, bytes: usize, keep: usize) -> Queued<'_> {
        let (tx, granted) = oneshot::channel();
        self.shared.wanted.fetch_add(bytes, Relaxed);
        let mut s = self.shared.state.lock();
        let ticket = s.next;
        s.next += 1;
        s.urgent += usize::from(keep == 0);
        s.waiting.push_back(Waiting { ticket, tenant: tenant(), bytes, keep, granted: tx });
        // Grants what was given back since the last check.
        let done = grant(&self.shared, &mut s);
        drop(s);
        deliver(done);
        Queued { shared: &self.shared, ticket, bytes, granted }
    }
}

fn take(shared: &Arc<Shared>, s: &mut State, tenant: u64, bytes: usize) -> Share {
    s.free -= bytes;
    if bytes > 0 {
        *s.held.entry(tenant).or_default() += bytes;
    }
    Share { shared: shared.clone(), tenant, bytes }
}

/// Serves waiters while there is enough for the next one: first those that may use the reserve, then those of
/// the tenant that holds least.
fn grant(shared: &Arc<Shared>, s: &mut State) -> Vec<(oneshot::Sender<Share>, Share)> {
    let mut granted = Vec::new();
    while s.free > 0 && !s.waiting.is_empty() {
        let holds = |w: &Waiting| s.held.get(&w.tenant).copied().unwrap_or(0);
        // The first waiter of those whose tenants hold equally little.
        let Some(at) = (0..s.waiting.len()).min_by_key(|i| (s.waiting[*i].keep, holds(&s.waiting[*i])))
        else {
            break;
        };
        if s.free < s.waiting[at].bytes + s.waiting[at].keep {
            break;
        }
        if let Some(w) = s.waiting.remove(at) {
            s.urgent -= usize::from(w.keep == 0);
            let share = take(shared, s, w.tenant, w.bytes);
            granted.push((w.granted, share));
        }
    }
    granted
}

/// Outside of the lock: a share whose waiter is gone is given back, which takes the lock again.
fn deliver(granted: Vec<(oneshot::Sender<Share>, Share)>) {
    for (to, share) in granted {
        drop(to.send(share));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Nobody;
    impl Reclaim for Nobody {
        fn reclaim(&self, _: usize) {}
    }

    const LONG: Duration = Duration::from_secs(60);

    #[tokio::test]
    async fn tenant_with_least_memory_is_served_first() {
        let budget = Budget::new(100);
        let mut greedy: Vec<Share> = Vec::new();
        for _ in 0..10 {
            greedy.push(as_tenant(1, async { budget.try_take(10, 0) }).await.unwrap());
        }
        assert!(as_tenant(2, async { budget.try_take(10, 0) }).await.is_none());
        let order = Arc::new(Mutex::new(Vec::new()));
        let mut waiters = Vec::new();
        for (i, who) in [1, 1, 1, 2, 3].into_iter().enumerate() {
            let (b, order) = (budget.clone(), order.clone());
            waiters.push(ashlar_environment::spawn(
                "budget",
                as_tenant(who, async move {
                    let share = b.take(10, 0, LONG, &Nobody).await.unwrap();
                    order.lock().push(who);
                    share
                }),
            ));
            while budget.shared.state.lock().waiting.len() <= i {
                tokio::task::yield_now().await;
            }
        }
        for n in 1..=5 {
            greedy.pop();
            while order.lock().len() < n {
                tokio::task::yield_now().await;
            }
        }
        assert_eq!(*order.lock(), [2, 3, 1, 1, 1]);
        drop((waiters, greedy));
    }

    #[tokio::test]
    async fn wait_ends_at_deadline_without_residue() {
        let budget = Budget::new(100);
        let all = budget.try_take(1000, 0).unwrap();
        assert_eq!(budget.used(), 100);
        assert!(budget.take(1, 0, Duration::from_millis(5), &Nobody).await.is_none());
        assert_eq!(budget.refused(), 1);
        let given_up = tokio::time::timeout(Duration::from_millis(5), budget.take(1, 0, LONG, &Nobody)).await;
        assert!(given_up.is_err());
        assert!(budget.shared.state.lock().waiting.is_empty());
        drop(all);
        assert_eq!((budget.used(), budget.shared.wanted.load(Relaxed)), (0, 0));
        assert!(budget.shared.state.lock().held.is_empty());
        // Some bytes may have to stay free for others.
        assert!(budget.try_take(60, 50).is_some_and(|s| s.bytes == 50));
        let mut less = budget.try_take(60, 0).unwrap();
        less.shrink(20);
        assert_eq!((less.bytes(), budget.used()), (20, 20));
        drop(less);
        assert_eq!(budget.used(), 0);
        let half = budget.try_take(50, 0).unwrap();
        assert!(budget.try_take(10, 50).is_none() && budget.try_take(10, 0).is_some());
        drop(half);
    }

    #[tokio::test]
    async fn idle_memory_is_reclaimed_for_waiters() {
        struct Idle(Mutex<Option<Share>>, AtomicUsize);
        impl Reclaim for Idle {
            fn reclaim(&self, bytes: usize) {
                self.1.store(bytes, Relaxed);
                drop(self.0.lock().take());
            }
        }
        let budget = Budget::new(100);
        let idle = Idle(Mutex::new(budget.try_take(90, 0)), AtomicUsize::new(0));
        assert!(budget.take(30, 0, LONG, &idle).await.is_some());
        assert_eq!(idle.1.load(Relaxed), 30);
    }
}
