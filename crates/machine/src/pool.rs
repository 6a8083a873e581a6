//! The thread pool of one drive.
//!
//! Invariants: a pool has its own threads, so that a hung drive never blocks another; threads start only when
//! there is work and exit after an idle time; the queue is bounded and a full queue is reported to the caller
//! immediately. In a simulation, which has one thread, every job is one step of a task.
//!
//! Must not depend on: what the jobs do.

use ashlar_environment::{simulation, thread};
use parking_lot::{Condvar, Mutex};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

type Job = Box<dyn FnOnce() + Send>;

/// How long a thread without work waits before it exits.
const LINGER: Duration = Duration::from_secs(5);
/// Stack of one thread: the jobs are shallow.
const STACK: usize = 256 << 10;

/// The queue is full: the drive is too slow or hangs. Contains the job.
pub struct Busy(pub Box<dyn FnOnce() + Send>);

struct State {
    queue: VecDeque<Job>,
    threads: usize,
    idle: usize,
    closed: bool,
}

struct Shared {
    state: Mutex<State>,
    work: Condvar,
    name: String,
    max_threads: usize,
    max_queue: usize,
}

/// A small pool of lazily started threads with a bounded queue.
#[derive(Clone)]
pub struct IoPool {
    shared: Arc<Shared>,
}

impl IoPool {
    /// At most `max_threads` threads named `name` and `max_queue` waiting jobs.
    #[must_use]
    pub fn new(name: &str, max_threads: usize, max_queue: usize) -> IoPool {
        assert!(max_threads > 0 && max_queue > 0);
        IoPool {
            shared: Arc::new(Shared {
                state: Mutex::new(State { queue: VecDeque::new(), threads: 0, idle: 0, closed: false }),
                work: Condvar::new(),
                name: name.chars().take(15).collect(),
                max_threads,
                max_queue,
            }),
        }
    }

    /// Runs `job` on one of the threads.
    ///
    /// # Errors
    /// [`Busy`] when the queue is full, the pool is closed, or no thread could be started.
    pub fn run(&self, job: impl FnOnce() + Send + 'static) -> Result<(), Busy> {
        self.run_boxed(Box::new(job))
    }

    /// [`IoPool::run`] without generics: compiled once, not once per kind of job in the crates above.
    fn run_boxed(&self, job: Job) -> Result<(), Busy> {
        let mut s = self.shared.state.lock();
        if s.closed || s.queue.len() >= self.shared.max_queue {
            return Err(Busy(job));
        }
        if simulation::is_running() {
            drop(ashlar_environment::spawn("io", async move { job() }));
            return Ok(());
        }
        let start = s.idle <= s.queue.len() && s.threads < self.shared.max_threads;
        s.queue.push_back(job);
        if !start {
            let wake = s.idle > 0;
            drop(s);
            if wake {
                self.shared.work.notify_one();
            }
            return Ok(());
        }
        s.threads += 1;
        drop(s);
        let shared = self.shared.clone();
        let started = thread::start(self.shared.name.clone(), Some(STACK), move || work(&shared));
        if started.is_err() {
            let mut s = self.shared.state.lock();
            s.threads -= 1;
            // Another thread will run it; without any thread the job is returned.
            if s.threads == 0
                && let Some(job) = s.queue.pop_back()
            {
                return Err(Busy(job));
            }
        }
        Ok(())
    }

    /// Jobs that wait for a thread.
    #[must_use]
    pub fn queued(&self) -> usize {
        self.shared.state.lock().queue.len()
    }

    /// Refuses new jobs; threads exit when the queue is empty.
    pub fn close(&self) {
        self.shared.state.lock().closed = true;
        self.shared.work.notify_all();
    }
}

fn work(shared: &Shared) {
    let mut s = shared.state.lock();
    loop {
        if let Some(job) = s.queue.pop_front() {
            drop(s);
            // A panicking job must not end the thread and lose the queued jobs.
            let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(job));
            s = shared.state.lock();
            continue;
        }
        if s.closed {
            break;
        }
        s.idle += 1;
        let timeout = shared.work.wait_for(&mut s, LINGER).timed_out();
        s.idle -= 1;
        if timeout && s.queue.is_empty() {
            break;
        }
    }
    s.threads -= 1;
}
