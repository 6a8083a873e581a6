//! Threads that ask members at the same time.
//!
//! Threads are started when there is work that no thread waits for, up to a limit, and stay: to start one takes longer than many a
//! request to a member. Work owns what it needs. Work in lanes is that of members which many ask at once: it is done in the order in which it came.
//!
//! Invariants: work never waits for other work, so that it ends with any number of threads; without threads the caller does everything.
//!
//! Must not depend on: members, what the work is.

use std::collections::{BTreeMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use ashlar_environment::thread;
use parking_lot::{Condvar, Mutex};

/// Threads of a group, at most.
const MOST: usize = 192;

/// Work of a lane that is done at once, at most: enough that a member has the next request when it ends one, and so few that what comes first
/// ends first.
const LANE: usize = 4;

/// Reads beside which another one asks its members at the same time.
const FEW: usize = 8;

pub(crate) type Work = Box<dyn FnOnce() + Send>;

#[derive(Default)]
struct State {
    /// Work, and whether a thread waits for it.
    work: VecDeque<(Work, bool)>,
    threads: usize,
    idle: usize,
    closed: bool,
}

/// What waits for one member.
#[derive(Default)]
struct Lane {
    work: VecDeque<Work>,
    running: usize,
}

#[derive(Default)]
struct Inner {
    state: Mutex<State>,
    wake: Condvar,
    lanes: Mutex<BTreeMap<usize, Lane>>,
}

/// See the module. The threads end with it.
#[derive(Default)]
pub(crate) struct Pool {
    inner: Arc<Inner>,
    /// Reads that are under way.
    reads: AtomicUsize,
}

/// A read that is under way.
pub(crate) struct Reading<'a> {
    pool: &'a Pool,
    /// Whether there are so few of them that its members are worth threads. With many each thread of a reader keeps a member busy, and
    /// further ones only take processor time.
    pub(crate) is_one_of_few: bool,
}

impl Drop for Reading<'_> {
    fn drop(&mut self) {
        self.pool.reads.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.inner.state.lock().closed = true;
        self.inner.wake.notify_all();
    }
}

/// What became of work that was done at the same time.
struct Results<R> {
    results: Mutex<(Vec<Option<R>>, usize)>,
    done: Condvar,
}

/// Counts work as done, also if it panics.
struct Done<R>(Arc<Results<R>>);

impl<R> Drop for Done<R> {
    fn drop(&mut self) {
        let mut results = self.0.results.lock();
        results.1 -= 1;
        if results.1 == 0 {
            self.0.done.notify_one();
        }
    }
}

impl Pool {
    /// Counts a read until its end.
    pub(crate) fn reading(&self) -> Reading<'_> {
        let others = self.reads.fetch_add(1, Ordering::Relaxed);
        Reading { pool: self, is_one_of_few: others < FEW }
    }

    /// Does `work` with every state at the same time, with the first one on this thread. The results are in the order of the states.
    ///
    /// # Panics
    /// If `work` does.
    pub(crate) fn run<S: Send + 'static, R: Send + 'static>(
        &self,
        states: Vec<S>,
        work: impl Fn(S) -> R + Send + Sync + 'static,
    ) -> Vec<R> {
        let mut states = states.into_iter();
        let Some(first) = states.next() else { return Vec::new() };
        let others = states.len();
        if others == 0 {
            return vec![work(first)];
        }
        let none = (0..others).map(|_| None).collect();
        let results = Arc::new(Results { results: Mutex::new((none, others)), done: Condvar::new() });
        let work = Arc::new(work);
        for (at, state) in states.enumerate() {
            let (work, done) = (work.clone(), Done(results.clone()));
            let work = move || {
                let result = work(state);
                done.0.results.lock().0[at] = Some(result);
            };
            self.inner.submit(Box::new(work), true);
        }
        // A panic waits until nothing of this is under way.
        let first = catch_unwind(AssertUnwindSafe(|| work(first)));
        // Work that no thread has taken is done here. It may be that of another caller, who hears of its panic.
        while results.results.lock().1 > 0
            && let Some(work) = self.take()
        {
            let _ = catch_unwind(AssertUnwindSafe(work));
        }
        let mut found = results.results.lock();
        while found.1 > 0 {
            results.done.wait(&mut found);
        }
        let mut out = vec![first.unwrap_or_else(|panic| resume_unwind(panic))];
        out.extend(found.0.iter_mut().map(|r| r.take().expect("the work did not panic")));
        out
    }

    /// Does work in lanes: what comes first to a lane begins first, and a few of each lane are done at once. The results are in the order of
    /// the states.
    ///
    /// # Panics
    /// If `work` does.
    pub(crate) fn run_in_lanes<S: Send + 'static, R: Send + 'static>(
        &self,
        states: Vec<(usize, S)>,
        work: impl Fn(S) -> R + Send + Sync + 'static,
    ) -> Vec<R> {
        let none = states.iter().map(|_| None).collect();
        let results = Arc::new(Results { results: Mutex::new((none, states.len())), done: Condvar::new() });
        let work = Arc::new(work);
        let mut idle = Vec::new();
        {
            let mut lanes = self.inner.lanes.lock();
            for (at, (lane, state)) in states.into_iter().enumerate() {
                let (work, done) = (work.clone(), Done(results.clone()));
                let found = lanes.entry(lane).or_default();
                found.work.push_back(Box::new(move || {
                    let result = work(state);
                    done.0.results.lock().0[at] = Some(result);
                }));
                if found.running < LANE {
                    found.running += 1;
                    idle.push(lane);
                }
            }
        }
        for lane in idle {
            let inner = self.inner.clone();
            self.spawn(Box::new(move || inner.serve_lane(lane)));
        }
        let mut found = results.results.lock();
        while found.1 > 0 {
            results.done.wait(&mut found);
        }
        found.0.iter_mut().map(|r| r.take().expect("the work did not panic")).collect()
    }

    /// Threads that were started.
    #[cfg(test)]
    pub(crate) fn threads(&self) -> usize {
        self.inner.state.lock().threads
    }

    /// Takes work that somebody waits for. The other may go on for long, as far as whoever waits is concerned.
    fn take(&self) -> Option<Work> {
        let mut state = self.inner.state.lock();
        let at = state.work.iter().position(|(_, waited_for)| *waited_for)?;
        state.work.remove(at).map(|(work, _)| work)
    }

    /// Does work on a thread, without waiting for it.
    pub(crate) fn spawn(&self, work: Work) {
        self.inner.submit(work, false);
        // There may be no thread at all.
        loop {
            let mut state = self.inner.state.lock();
            if state.threads > 0 {
                return;
            }
            let Some((work, _)) = state.work.pop_front() else { return };
            drop(state);
            work();
        }
    }
}

impl Inner {
    /// Adds work, and a thread for it if none waits.
    fn submit(self: &Arc<Inner>, work: Work, waited_for: bool) {
        let mut state = self.state.lock();
        state.work.push_back((work, waited_for));
        if state.idle >= state.work.len() {
            self.wake.notify_one();
        } else if state.threads < MOST {
            state.threads += 1;
            drop(state);
            let inner = self.clone();
            if thread::start("array-member", None, move || inner.serve()).is_err() {
                self.state.lock().threads -= 1;
            }
        }
    }

    /// Does the work of a lane until there is none, or until other work waits for a thread, behind which it goes on.
    fn serve_lane(self: &Arc<Inner>, lane: usize) {
        loop {
            let mut lanes = self.lanes.lock();
            let Some(found) = lanes.get_mut(&lane) else { return };
            let Some(work) = found.work.pop_front() else {
                found.running -= 1;
                if found.running == 0 {
                    lanes.remove(&lane);
                }
                return;
            };
            drop(lanes);
            // Whoever waits for the result sees that it has none.
            let _ = catch_unwind(AssertUnwindSafe(work));
            if !self.state.lock().work.is_empty() {
                let me = self.clone();
                return self.submit(Box::new(move || me.serve_lane(lane)), false);
            }
        }
    }

    /// Does work until the pool ends.
    fn serve(&self) {
        let mut state = self.state.lock();
        loop {
            if let Some((work, _)) = state.work.pop_front() {
                drop(state);
                // Whoever waits for the result sees that it has none.
                let _ = catch_unwind(AssertUnwindSafe(work));
                state = self.state.lock();
            } else if state.closed {
                return;
            } else {
                state.idle += 1;
                self.wake.wait(&mut state);
                state.idle -= 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn work_is_done_at_the_same_time_and_in_order() {
        let pool = Pool::default();
        for turn in 0..200 {
            let inside = Arc::new(AtomicUsize::new(0));
            let here = inside.clone();
            let results = pool.run((0..8).collect(), move |i: usize| {
                here.fetch_add(1, Ordering::SeqCst);
                // All are there at once, or it takes too long.
                let begun = Instant::now();
                while here.load(Ordering::SeqCst) < 8 && begun.elapsed() < Duration::from_secs(60) {
                    std::thread::yield_now();
                }
                i + turn
            });
            assert_eq!(inside.load(Ordering::SeqCst), 8);
            assert_eq!(results, (turn..turn + 8).collect::<Vec<_>>());
        }
        assert!(pool.inner.state.lock().threads <= MOST);
    }

    #[test]
    fn callers_share_the_threads() {
        let pool = Pool::default();
        std::thread::scope(|scope| {
            for _ in 0..16 {
                scope.spawn(|| {
                    for n in 0..100 {
                        let results = pool.run((0..n).collect(), |i: usize| i * 2);
                        assert_eq!(results, (0..n).map(|i| i * 2).collect::<Vec<_>>());
                    }
                });
            }
        });
        assert!(pool.inner.state.lock().threads <= MOST);
    }

    #[test]
    fn lanes_keep_their_order() {
        let pool = Pool::default();
        let log = Arc::new(Mutex::new(Vec::new()));
        std::thread::scope(|scope| {
            for n in 0..8usize {
                let (log, pool) = (log.clone(), &pool);
                scope.spawn(move || {
                    let states = (0..60).map(|i| (i % 3, i)).collect();
                    let results = pool.run_in_lanes(states, move |i: usize| {
                        log.lock().push((n, i));
                        i * n
                    });
                    assert_eq!(results, (0..60).map(|i| i * n).collect::<Vec<_>>());
                });
            }
        });
        let log = std::mem::take(&mut *log.lock());
        for n in 0..8 {
            for lane in 0..3 {
                // As many as are done at once may change places.
                let mine = log.iter().filter(|(m, i)| *m == n && i % 3 == lane).map(|(_, i)| i / 3);
                assert!(mine.enumerate().all(|(at, i)| i < at + LANE), "{log:?}");
            }
        }
        // Their threads see soon that there is nothing more.
        let begun = Instant::now();
        while !pool.inner.lanes.lock().is_empty() && begun.elapsed() < Duration::from_secs(60) {
            std::thread::yield_now();
        }
        assert!(pool.inner.lanes.lock().is_empty());
        let panics = || pool.run_in_lanes(vec![(0, 0), (1, 1)], |i: i32| assert!(i != 1, "one"));
        assert!(catch_unwind(AssertUnwindSafe(panics)).is_err());
        assert_eq!(pool.run_in_lanes(vec![(1, 2)], |i| i), [2], "it goes on");
    }

    #[test]
    fn reads_beside_many_are_told() {
        let pool = Pool::default();
        let mut reads: Vec<_> = (0..FEW).map(|_| pool.reading()).collect();
        assert!(reads.iter().all(|r| r.is_one_of_few));
        assert!(!pool.reading().is_one_of_few);
        reads.pop();
        assert!(pool.reading().is_one_of_few);
    }

    /// Without a thread that is free, callers do what waits, also that of others.
    #[test]
    fn a_panic_reaches_no_other_caller() {
        let pool = Pool::default();
        pool.inner.state.lock().threads = MOST;
        let (begun, taken) = (AtomicUsize::new(0), Arc::new(AtomicUsize::new(0)));
        let wait = |what: &AtomicUsize, until: usize| {
            let start = Instant::now();
            while what.load(Ordering::SeqCst) < until && start.elapsed() < Duration::from_secs(60) {
                std::thread::yield_now();
            }
        };
        std::thread::scope(|scope| {
            let (pool, begun, mine) = (&pool, &begun, taken.clone());
            let panics = scope.spawn(move || {
                let work = move |i: usize| {
                    if i == 0 {
                        // The other one is taken by somebody else.
                        wait(&mine, 1);
                    } else {
                        mine.fetch_add(1, Ordering::SeqCst);
                        panic!("of the first caller");
                    }
                };
                begun.fetch_add(1, Ordering::SeqCst);
                pool.run(vec![0, 1], work);
            });
            wait(begun, 1);
            while pool.inner.state.lock().work.is_empty() && taken.load(Ordering::SeqCst) == 0 {
                std::thread::yield_now();
            }
            assert_eq!(pool.run(vec![1, 2], |i| i), [1, 2]);
            assert!(panics.join().is_err());
        });
    }

    /// Whoever waits does nothing that nobody waits for, and need not end soon.
    #[test]
    fn callers_do_only_what_is_waited_for() {
        let pool = Pool::default();
        pool.inner.state.lock().threads = MOST;
        let done = Arc::new(AtomicUsize::new(0));
        let mine = done.clone();
        pool.spawn(Box::new(move || {
            mine.fetch_add(1, Ordering::SeqCst);
        }));
        assert_eq!(pool.run(vec![1, 2, 3], |i| i), [1, 2, 3]);
        assert_eq!(done.load(Ordering::SeqCst), 0);
        let work = std::mem::take(&mut pool.inner.state.lock().work);
        assert_eq!(work.len(), 1, "it still waits");
    }

    /// Whoever is told of a panic can rely on it that nothing is under way.
    #[test]
    fn a_panic_waits_for_the_others() {
        let pool = Pool::default();
        for _ in 0..50 {
            let ended = Arc::new(AtomicUsize::new(0));
            let mine = ended.clone();
            let work = move |i: usize| {
                assert!(i != 0, "the first");
                std::thread::sleep(Duration::from_millis(2));
                mine.fetch_add(1, Ordering::SeqCst);
            };
            assert!(catch_unwind(AssertUnwindSafe(|| pool.run((0..4).collect(), work))).is_err());
            assert_eq!(ended.load(Ordering::SeqCst), 3);
        }
    }

    #[test]
    fn a_panic_reaches_the_caller() {
        let pool = Pool::default();
        let run = || pool.run(vec![0, 1, 2], |i: i32| assert!(i != 2, "two"));
        assert!(catch_unwind(AssertUnwindSafe(run)).is_err());
        assert_eq!(pool.run(vec![1, 2], |i| i), [1, 2], "it goes on");
    }
}
