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
use std::task::{Context, Poll};

use tokio::sync::oneshot;

use crate::world;

/// Runs `work` concurrently with the caller. The name appears in reports of simulations.
pub fn spawn<F>(name: &'static str, work: F) -> JoinHandle<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    let Some(world) = world::current() else {
        return JoinHandle(Inner::System(tokio::spawn(work)));
    };
    let (send, result) = oneshot::channel();
    let over = Over::default();
    let seen = over.0.clone();
    let id = world.spawn(
        name,
        world.process(),
        Box::pin(async move {
            let _over = over;
            // Possibly nothing waits for the result.
            let _ = send.send(work.await);
        }),
    );
    JoinHandle(Inner::Simulated { id, over: seen, result })
}

/// Runs blocking work on a thread of the runtime; in a simulation, as one step of a task.
pub fn spawn_blocking<T: Send + 'static>(
    name: &'static str,
    work: impl FnOnce() -> T + Send + 'static,
) -> JoinHandle<T> {
    if world::active() {
        return spawn(name, async move { work() });
    }
    JoinHandle(Inner::System(tokio::task::spawn_blocking(work)))
}

/// A handle for the result of a task.
#[derive(Debug)]
pub struct JoinHandle<T>(Inner<T>);

#[derive(Debug)]
enum Inner<T> {
    System(tokio::task::JoinHandle<T>),
    Simulated { id: u64, over: Arc<AtomicBool>, result: oneshot::Receiver<T> },
}

impl<T> JoinHandle<T> {
    /// Ends the task at its current await.
    pub fn abort(&self) {
        match &self.0 {
            Inner::System(handle) => handle.abort(),
            Inner::Simulated { id, .. } => {
                if let Some(world) = world::current() {
                    world.abort(*id);
                }
            }
        }
    }

    /// Whether the task has ended.
    pub fn is_finished(&self) -> bool {
        match &self.0 {
            Inner::System(handle) => handle.is_finished(),
            Inner::Simulated { over, .. } => over.load(Ordering::Relaxed),
        }
    }
}

impl<T> Future for JoinHandle<T> {
    type Output = Result<T, JoinError>;
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut self.0 {
            Inner::System(handle) => Pin::new(handle).poll(cx).map_err(JoinError::from),
            Inner::Simulated { result, .. } => Pin::new(result).poll(cx).map_err(|_| JoinError::Aborted),
        }
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
