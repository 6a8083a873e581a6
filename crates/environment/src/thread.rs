//! Threads, and waiting in them.
//!
//! A simulation has one thread. What needs others has a substitute: a drive is opened without threads
//! (`Drive::open_folder`) and pumped by its callers; MD5 is computed where it is asked for.
//!
//! Invariant: in a simulation no thread is started, and none waits for the system's clock.

use std::io;
use std::time::Duration;

pub use std::thread::{JoinHandle, available_parallelism, panicking};

/// Starts a thread that serves others until they are done with it.
///
/// # Errors
/// What the system says; `Unsupported` in a simulation.
pub fn start<T: Send + 'static>(
    name: impl Into<String>,
    stack: Option<usize>,
    run: impl FnOnce() -> T + Send + 'static,
) -> io::Result<JoinHandle<T>> {
    if crate::world::active() {
        return Err(io::Error::new(io::ErrorKind::Unsupported, "a simulation has one thread"));
    }
    let builder = std::thread::Builder::new().name(name.into());
    stack.into_iter().fold(builder, std::thread::Builder::stack_size).spawn(run)
}

/// Runs work that ends by itself, but may hang, on a thread of its own: the end of the program does not wait for it,
/// as it does for [`crate::spawn_blocking`]. In a simulation the work is one step of a task.
///
/// # Errors
/// What the system says.
pub fn run_apart(name: &'static str, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    if crate::world::active() {
        drop(crate::spawn(name, async move { work() }));
        return Ok(());
    }
    start(name, None, work).map(drop)
}

/// Makes the thread wait. In a simulation the virtual clock moves instead, for all tasks.
pub fn sleep(time: Duration) {
    match crate::world::current() {
        None => std::thread::sleep(time),
        Some(world) => world.advance(time),
    }
}
