//! Tasks: those of tokio, or in a simulation those of its scheduler.
//!
//! Invariants: a task belongs to the simulated process of the task that spawned it; dropping a handle does
//! not end its task. Awaiting a task that panicked returns an error; in a simulation, a panic ends the
//! simulation.
//!
//! Must not depend on: what the tasks do.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};

use parking_lot::Mutex;
use pin_project_lite::pin_project;
use tokio::sync::oneshot;

use crate::scheduler::TaskId;
use crate::world;

/// Runs `work` concurrently with the caller. The name appears in reports of simulations.
pub fn spawn<F>(name: &'static str, work: F) -> JoinHandle<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    let result = Arc::new(Mutex::new(None));
    let filled = result.clone();
    let task = start(name, Box::pin(Fill { work, place: filled }));
    JoinHandle { task, result }
}

pin_project! {
    /// Does `work` and leaves its result. An async block would contain the work twice, before and while it is awaited, and
    /// would copy it.
    struct Fill<F: Future> {
        #[pin]
        work: F,
        place: Arc<Mutex<Option<F::Output>>>,
    }
}

impl<F: Future> Future for Fill<F> {
    type Output = ();
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let me = self.project();
        let out = ready!(me.work.poll(cx));
        *me.place.lock() = Some(out);
        Poll::Ready(())
    }
}

/// Runs blocking work on a thread of the runtime; in a simulation, as one step of a task.
pub fn spawn_blocking<T: Send + 'static>(
    name: &'static str,
    work: impl FnOnce() -> T + Send + 'static,
) -> JoinHandle<T> {
    let result = Arc::new(Mutex::new(None));
    let filled = result.clone();
    let task = start_blocking(
        name,
        Box::new(move || {
            let out = work();
            *filled.lock() = Some(out);
        }),
    );
    JoinHandle { task, result }
}

/// [`spawn`] without generics: tokio's code of a task is compiled once, here, and not once per future in the
/// crates above (a tenth of the server's code).
fn start(name: &'static str, work: Pin<Box<dyn Future<Output = ()> + Send>>) -> Task {
    let Some(world) = world::current() else {
        return Task::System(tokio::spawn(work));
    };
    let (send, end) = oneshot::channel();
    let over = Over::default();
    let seen = over.0.clone();
    let id = world.spawn(
        name,
        world.process(),
        Box::pin(async move {
            let _over = over;
            work.await;
            // Possibly nothing waits for the end.
            let _ = send.send(());
        }),
    );
    Task::Simulated { id, over: seen, end }
}

/// [`spawn_blocking`] without generics.
fn start_blocking(name: &'static str, work: Box<dyn FnOnce() + Send>) -> Task {
    if world::active() {
        return start(name, Box::pin(async move { work() }));
    }
    Task::System(tokio::task::spawn_blocking(work))
}

/// A handle for the result of a task.
#[derive(Debug)]
pub struct JoinHandle<T> {
    task: Task,
    /// Filled when the task ends by itself.
    result: Arc<Mutex<Option<T>>>,
}

#[derive(Debug)]
enum Task {
    System(tokio::task::JoinHandle<()>),
    Simulated { id: Option<TaskId>, over: Arc<AtomicBool>, end: oneshot::Receiver<()> },
}

impl Task {
    fn abort(&self) {
        match self {
            Task::System(handle) => handle.abort(),
            Task::Simulated { id, .. } => {
                if let (Some(world), Some(id)) = (world::current(), *id) {
                    world.abort(id);
                }
            }
        }
    }

    fn poll_end(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), JoinError>> {
        match self {
            Task::System(handle) => Pin::new(handle).poll(cx).map_err(JoinError::from),
            Task::Simulated { end, .. } => Pin::new(end).poll(cx).map_err(|_| JoinError::Aborted),
        }
    }
}

impl<T> JoinHandle<T> {
    /// Ends the task at its current await.
    pub fn abort(&self) {
        self.task.abort();
    }

    /// Whether the task has ended.
    pub fn is_finished(&self) -> bool {
        match &self.task {
            Task::System(handle) => handle.is_finished(),
            Task::Simulated { over, .. } => over.load(Ordering::Relaxed),
        }
    }
}

impl<T> Future for JoinHandle<T> {
    type Output = Result<T, JoinError>;
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.task.poll_end(cx).map(|end| {
            end?;
            Ok(self.result.lock().take().expect("a task is awaited once, and leaves its result"))
        })
    }
}

/// Why a task has no result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JoinError {
    /// It was aborted, or its runtime ended.
    Aborted,
    /// It panicked, with this report.
    Panicked(String),
}

impl From<tokio::task::JoinError> for JoinError {
    fn from(e: tokio::task::JoinError) -> JoinError {
        if e.is_panic() { JoinError::Panicked(e.to_string()) } else { JoinError::Aborted }
    }
}

impl fmt::Display for JoinError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            JoinError::Aborted => f.write_str("the task was aborted"),
            JoinError::Panicked(report) => f.write_str(report),
        }
    }
}

impl std::error::Error for JoinError {}

/// Records that a task has ended, also when it is aborted.
#[derive(Default)]
struct Over(Arc<AtomicBool>);

impl Drop for Over {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
