//! A simulation: one thread in which time, randomness and the order of tasks come from a seed.
//!
//! [`Simulation::run`] runs a future and everything it spawns. The virtual clock moves when nothing else can be done, by
//! a microsecond per step, and in [`crate::thread::sleep`]. Tasks belong to simulated processes: a task that is spawned
//! belongs to the process of its parent, [`kill`] ends all tasks of a process at once, and each process has a wall clock
//! of its own.
//!
//! What killed tasks own is dropped, so that destructors run, which those of a crashed process do not: take the image of
//! a simulated disk before.
//!
//! Invariants: the same seed and the same code make the same steps ([`Simulation::fingerprint`]), if the code uses this
//! crate for everything that its description lists, does not let the order of std's hash maps decide anything, and
//! writes `biased` in `tokio::select!`. Two simulations in two threads do not disturb each other.

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

/// A world with its tasks.
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
    /// A world in which everything depends on `seed`.
    #[must_use]
    pub fn new(seed: u64) -> Simulation {
        Simulation { world: Rc::new(World::new(seed)), limit: u64::MAX }
    }

    /// Gives up after `steps` steps of tasks.
    #[must_use]
    pub fn with_limit(mut self, steps: u64) -> Simulation {
        self.limit = steps;
        self
    }

    /// Runs `main` until it is done. Other tasks wait where they are, for the next call.
    ///
    /// # Errors
    /// [`Stuck`] when no task can go on, or the limit of steps is reached.
    ///
    /// # Panics
    /// When a task panics, with its panic.
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

    /// A number that is equal for equal runs: of the steps so far and their times.
    #[must_use]
    pub fn fingerprint(&self) -> u64 {
        self.world.scheduler.fingerprint()
    }

    /// The steps that tasks have taken.
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
        // A simulation that is dropped in another one, or in itself, leaves its tasks without a world.
        let _entered = (!world::active()).then(|| world::enter(&self.world));
        self.world.clear();
    }
}

/// A simulation cannot be finished.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stuck {
    /// Why.
    pub why: &'static str,
    /// The tasks that are not over.
    pub tasks: Vec<(Process, &'static str)>,
}

impl fmt::Display for Stuck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; not over:", self.why)?;
        self.tasks.iter().try_for_each(|(process, name)| write!(f, " {name} ({})", process.0))
    }
}

impl std::error::Error for Stuck {}

/// Whether this thread simulates.
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

/// Ends a process for ever: its tasks are dropped where they wait. A task that kills its own process ends with its
/// current step.
pub fn kill(process: Process) {
    world().kill(process);
}

/// Sets how far the wall clock of `process` is ahead of the others (behind, if negative): it jumps.
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
