//! Threads, and waiting in them.
//!
//! A simulation has one thread. Components that need more threads have a substitute: a drive is opened
//! without threads (`Drive::open_folder`) and its callers do its work; MD5 is computed by the caller.
//!
//! Invariant: in a simulation no thread is started, and none waits for the system's clock.
//!
//! Must not depend on: what the threads do.

use std::io;
use std::time::Duration;

pub use std::thread::{JoinHandle, available_parallelism, panicking};

/// Starts a thread that works for other threads until they no longer need it.
///
/// # Errors
/// The error of the system; `Unsupported` in a simulation.
pub fn start(
    name: impl Into<String>,
    stack: Option<usize>,
    run: impl FnOnce() + Send + 'static,
) -> io::Result<JoinHandle<()>> {
    start_boxed(name.into(), stack, Box::new(run))
}

/// [`start`] without generics: the standard library's code of a thread is compiled once, here, and not once per
/// thread in the crates above.
fn start_boxed(
    name: String,
    stack: Option<usize>,
    run: Box<dyn FnOnce() + Send>,
) -> io::Result<JoinHandle<()>> {
    if crate::world::active() {
        return Err(io::Error::new(io::ErrorKind::Unsupported, "a simulation has one thread"));
    }
    let builder = std::thread::Builder::new().name(name);
    stack.into_iter().fold(builder, std::thread::Builder::stack_size).spawn(run)
}

/// Runs work that may hang on its own thread. Unlike with [`crate::spawn_blocking`], the exit of the program
/// does not wait for it. In a simulation the work is one step of a task.
///
/// # Errors
/// The error of the system.
pub fn run_apart(name: &'static str, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    run_boxed_apart(name, Box::new(work))
}

/// [`run_apart`] without generics, as [`start_boxed`].
fn run_boxed_apart(name: &'static str, work: Box<dyn FnOnce() + Send>) -> io::Result<()> {
    if crate::world::active() {
        drop(crate::spawn(name, async move { work() }));
        return Ok(());
    }
    start_boxed(name.to_owned(), None, work).map(drop)
}

/// Makes the thread wait. In a simulation it advances the virtual clock instead, for all tasks.
pub fn sleep(time: Duration) {
    match crate::world::current() {
        None => std::thread::sleep(time),
        Some(world) => world.advance(time),
    }
}
