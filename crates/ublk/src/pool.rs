//! The threads that execute the requests of one device: as many as there is work for, up to [`MOST`].
//!
//! Invariants: a request that was given is executed and answered, whatever happens to threads; after [`Pool::finish`] there is no thread.
//!
//! Must not depend on: what requests do, the driver.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use ashlar_environment::thread;
use parking_lot::{Condvar, Mutex};

/// Threads of a device, at most.
const MOST: usize = 16;
/// Time without work after which a thread ends.
const IDLE: Duration = Duration::from_secs(10);

/// Executes one piece of work; it must not be lost when a piece panics.
pub(crate) type Run<J> = Box<dyn Fn(J) + Send + Sync>;

/// Threads, and the work that waits for them.
pub(crate) struct Pool<J> {
    run: Run<J>,
    state: Mutex<State<J>>,
    ready: Condvar,
    ended: Condvar,
}

struct State<J> {
    waiting: VecDeque<J>,
    threads: usize,
    idle: usize,
    finish: bool,
}

impl<J: Send + 'static> Pool<J> {
    /// Without threads.
    pub(crate) fn new(run: Run<J>) -> Arc<Pool<J>> {
        let state = State { waiting: VecDeque::new(), threads: 0, idle: 0, finish: false };
        Arc::new(Pool { run, state: Mutex::new(state), ready: Condvar::new(), ended: Condvar::new() })
    }

    /// Lets a thread execute it, or this one if none can be had.
    pub(crate) fn give(self: &Arc<Self>, job: J) {
        let mut state = self.state.lock();
        state.waiting.push_back(job);
        if state.idle >= state.waiting.len() {
            self.ready.notify_one();
            return;
        }
        if state.threads == MOST {
            return;
        }
        state.threads += 1;
        drop(state);
        let pool = self.clone();
        if thread::start("ublk-request", None, move || pool.work()).is_err() {
            let mut state = self.state.lock();
            state.threads -= 1;
            // Others will do it.
            let job = if state.threads == 0 { state.waiting.pop_front() } else { None };
            drop(state);
            job.into_iter().for_each(|job| self.perform(job));
        }
    }

    fn perform(&self, job: J) {
        // What has panicked has said so; the request is answered by whoever made the job.
        let _ = catch_unwind(AssertUnwindSafe(|| (self.run)(job)));
    }

    fn work(&self) {
        let mut state = self.state.lock();
        loop {
            if let Some(job) = state.waiting.pop_front() {
                drop(state);
                self.perform(job);
                state = self.state.lock();
                continue;
            }
            if state.finish {
                break;
            }
            state.idle += 1;
            let late = self.ready.wait_for(&mut state, IDLE).timed_out();
            state.idle -= 1;
            if late && state.waiting.is_empty() {
                break;
            }
        }
        state.threads -= 1;
        if state.threads == 0 {
            self.ended.notify_all();
        }
    }

    /// Waits until all that was given is done, and the threads have ended. Nothing may be given any more.
    pub(crate) fn finish(&self) {
        let mut state = self.state.lock();
        state.finish = true;
        self.ready.notify_all();
        while state.threads > 0 {
            self.ended.wait(&mut state);
        }
    }

    /// Threads that there are.
    #[cfg(test)]
    pub(crate) fn threads(&self) -> usize {
        self.state.lock().threads
    }
}
