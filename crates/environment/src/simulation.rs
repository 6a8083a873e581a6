//! A simulation: one thread in which time, randomness and the order of tasks come from a seed.
//!
//! [`Simulation::run`] runs a future and everything it spawns. The virtual clock advances by a microsecond
//! per step, in [`crate::thread::sleep`], and to the next timer if no task is ready. Tasks belong to
//! simulated processes: a spawned task belongs to the process of its parent, [`kill`] ends all tasks of a
//! process at once, and each process has its own wall clock.
//!
//! The values of killed tasks are dropped, so their destructors run. A crashed process would not run them:
//! take the image of a simulated disk before the kill.
//!
//! Invariants: the same seed and the same code make the same steps ([`Simulation::fingerprint`]), if the code
//! uses this crate for everything that its description lists, does not depend on the iteration order of std's
//! hash maps, and uses `biased` in `tokio::select!`. Two simulations in two threads do not affect each other.
//!
//! Must not depend on: what is simulated.

use std::cell::RefCell;
use std::fmt;
use std::future::Future;
use std::rc::Rc;
use std::time::Duration;

use crate::task::JoinHandle;
use crate::world::{self, World};

/// A simulated process: tasks that end together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Process(pub(crate) u32);

impl Process {
    /// The process of the future given to [`Simulation::run`].
    pub const FIRST: Process = Process(0);
}

/// A simulation with its tasks.
pub struct Simulation {
    world: Rc<World>,
    limit: u64,
}

impl fmt::Debug for Simulation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Simulation after {} steps", self.world.scheduler.steps())
    }
}

impl Simulation {
    /// A simulation in which everything depends on `seed`.
    #[must_use]
    pub fn new(seed: u64) -> Simulation {
        Simulation { world: Rc::new(World::new(seed)), limit: u64::MAX }
    }

    /// Limits [`Simulation::run`] to `steps` steps of tasks.
    #[must_use]
    pub fn with_limit(mut self, steps: u64) -> Simulation {
        self.limit = steps;
        self
    }

    /// Runs `main` until it finishes. Other tasks are suspended until the next call.
    ///
    /// # Errors
    /// [`Stuck`] if no task can continue, or the limit of steps is reached.
    ///
    /// # Panics
    /// If a task panics, with the same panic.
    pub fn run<T: 'static>(&self, main: impl Future<Output = T> + 'static) -> Result<T, Stuck> {
        let _entered = world::enter(&self.world);
        let result = Rc::new(RefCell::new(None));
        let place = result.clone();
        let work = Box::pin(async move {
            let done = main.await;
            *place.borrow_mut() = Some(done);
        });
        self.world.spawn("main", Process::FIRST, work);
        loop {
            if let Some(done) = result.borrow_mut().take() {
                return Ok(done);
            }
            if self.world.scheduler.steps() >= self.limit {
                return Err(self.stuck("the limit of steps is reached"));
            }
            if !self.world.step() {
                return Err(self.stuck("no task can go on"));
            }
        }
    }

    /// A number that is equal for equal runs: a hash of the steps so far and their times.
    #[must_use]
    pub fn fingerprint(&self) -> u64 {
        self.world.scheduler.fingerprint()
    }

    /// Number of steps of all tasks.
    #[must_use]
    pub fn steps(&self) -> u64 {
        self.world.scheduler.steps()
    }

    /// The virtual time since the beginning.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        self.world.elapsed()
    }

    fn stuck(&self, why: &'static str) -> Stuck {
        Stuck { why, tasks: self.world.scheduler.names() }
    }
}

impl Drop for Simulation {
    fn drop(&mut self) {
        // A simulation that is dropped inside another one, or inside itself, drops its tasks without entering
        // its world.
        let _entered = (!world::active()).then(|| world::enter(&self.world));
        self.world.clear();
    }
}

/// Why a simulation could not finish.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stuck {
    /// The reason.
    pub why: &'static str,
    /// The unfinished tasks.
    pub tasks: Vec<(Process, &'static str)>,
}

impl fmt::Display for Stuck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; not over:", self.why)?;
        self.tasks.iter().try_for_each(|(process, name)| write!(f, " {name} ({})", process.0))
    }
}

impl std::error::Error for Stuck {}

/// Whether this thread runs a simulation.
#[must_use]
pub fn is_running() -> bool {
    world::active()
}

/// A new process, without tasks.
///
/// # Panics
/// Outside of a simulation, as all functions below.
#[must_use]
pub fn new_process() -> Process {
    world().scheduler.new_process()
}

/// The process of the running task.
#[must_use]
pub fn process() -> Process {
    world().process()
}

/// Runs `work` as a task of `process`. If the process was killed, the work is dropped.
pub fn spawn_in<F>(process: Process, name: &'static str, work: F) -> JoinHandle<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    world().scheduler.within(process, || crate::spawn(name, work))
}

/// Ends a process permanently: its tasks are dropped at their current await. A task that kills its own
/// process ends after its current step.
pub fn kill(process: Process) {
    world().kill(process);
}

/// Sets how far the wall clock of `process` is ahead of the others (behind, if negative). The clock jumps.
pub fn set_wall_ahead(process: Process, ms: i64) {
    world().set_wall_ahead(process, ms);
}

/// The virtual time since the simulation began.
#[must_use]
pub fn elapsed() -> Duration {
    world().elapsed()
}

fn world() -> Rc<World> {
    world::current().expect("this thread does not simulate")
}
