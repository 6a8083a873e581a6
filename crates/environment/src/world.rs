//! The state of a simulation: its clocks, timers and random numbers; and the simulation that a thread is in.
//!
//! Invariants: outside of a simulation every function costs one check of a flag of the thread. No borrow is
//! held while code of a task runs (its steps, its destructors, the destructors of its wakers).
//!
//! Must not depend on: what is simulated.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use crate::random::Seeded;
use crate::scheduler::Scheduler;
use crate::simulation::Process;

/// The wall clock when a simulation begins: 2026-01-01.
const BEGIN_MS: i64 = 1_767_225_600_000;

thread_local! {
    static ACTIVE: Cell<bool> = const { Cell::new(false) };
    static WORLD: RefCell<Option<Rc<World>>> = const { RefCell::new(None) };
    static TIMERS: Cell<u64> = const { Cell::new(0) };
}

/// Whether this thread runs a simulation.
#[inline]
pub(crate) fn active() -> bool {
    ACTIVE.get()
}

/// The state of the simulation that this thread runs, if any.
#[inline]
pub(crate) fn current() -> Option<Rc<World>> {
    if ACTIVE.get() { WORLD.with_borrow(Clone::clone) } else { None }
}

/// What `read` finds in the simulation that this thread runs, if any. It runs no code of a task.
#[inline]
pub(crate) fn with<T>(read: impl FnOnce(&World) -> T) -> Option<T> {
    if ACTIVE.get() { WORLD.with_borrow(|world| world.as_deref().map(read)) } else { None }
}

/// A guard: its thread is in a simulation while it exists.
pub(crate) struct Entered(());

pub(crate) fn enter(world: &Rc<World>) -> Entered {
    assert!(!ACTIVE.get(), "this thread simulates already");
    WORLD.set(Some(world.clone()));
    ACTIVE.set(true);
    Entered(())
}

impl Drop for Entered {
    fn drop(&mut self) {
        ACTIVE.set(false);
        WORLD.set(None);
    }
}

pub(crate) struct World {
    /// The origin of the virtual clock; any real moment is suitable.
    base: Instant,
    /// The virtual clock.
    clock: Cell<Duration>,
    /// How far the wall clocks of the processes are ahead.
    walls: RefCell<BTreeMap<Process, i64>>,
    /// The random numbers of the simulated code.
    pub(crate) random: RefCell<Seeded>,
    timers: RefCell<BTreeMap<(Duration, u64), Waker>>,
    pub(crate) scheduler: Scheduler,
}

impl World {
    pub(crate) fn new(seed: u64) -> World {
        let mut seeds = Seeded::new(seed);
        World {
            base: Instant::now(),
            clock: Cell::default(),
            walls: RefCell::default(),
            random: RefCell::new(Seeded::new(seeds.next())),
            timers: RefCell::default(),
            scheduler: Scheduler::new(seeds.next()),
        }
    }

    pub(crate) fn now(&self) -> Instant {
        self.base + self.clock.get()
    }

    /// Time since the simulation began.
    pub(crate) fn elapsed(&self) -> Duration {
        self.clock.get()
    }

    /// The wall clock of the running process.
    pub(crate) fn wall_ms(&self) -> i64 {
        let ahead = self.walls.borrow().get(&self.process()).copied().unwrap_or(0);
        let passed = i64::try_from(self.clock.get().as_millis()).unwrap_or(i64::MAX);
        BEGIN_MS.saturating_add(passed).saturating_add(ahead)
    }

    pub(crate) fn set_wall_ahead(&self, process: Process, ms: i64) {
        self.walls.borrow_mut().insert(process, ms);
    }

    pub(crate) fn advance(&self, by: Duration) {
        self.clock.set(self.clock.get().saturating_add(by));
    }

    /// Wakes the tasks whose timers are due.
    pub(crate) fn fire(&self) {
        loop {
            let due = {
                let mut timers = self.timers.borrow_mut();
                let first = timers.first_entry();
                first
                    .filter(|t| t.key().0 <= self.clock.get())
                    .map(std::collections::btree_map::OccupiedEntry::remove)
            };
            let Some(waker) = due else { break };
            waker.wake();
        }
    }

    /// Moves the clock to the first timer; returns false if there is none.
    pub(crate) fn skip(&self) -> bool {
        let Some(next) = self.timers.borrow().first_key_value().map(|(at, _)| at.0) else { return false };
        self.clock.set(self.clock.get().max(next));
        true
    }

    fn since_base(&self, at: Instant) -> Duration {
        at.saturating_duration_since(self.base)
    }
}

/// An entry in the list of timers.
pub(crate) struct Timer {
    deadline: Instant,
    key: Option<(Duration, u64)>,
}

impl Timer {
    pub(crate) fn until(deadline: Instant) -> Timer {
        Timer { deadline, key: None }
    }

    pub(crate) fn reset(&mut self, deadline: Instant) {
        self.cancel();
        self.deadline = deadline;
    }

    pub(crate) fn poll(&mut self, cx: &Context<'_>) -> Poll<()> {
        let Some(world) = current() else { panic!("a virtual timer is used outside of its simulation") };
        if world.since_base(self.deadline) <= world.elapsed() {
            self.cancel();
            return Poll::Ready(());
        }
        let key = *self.key.get_or_insert_with(|| {
            let number = TIMERS.get();
            TIMERS.set(number + 1);
            (world.since_base(self.deadline), number)
        });
        if world.timers.borrow().get(&key).is_some_and(|waker| waker.will_wake(cx.waker())) {
            return Poll::Pending;
        }
        let before = world.timers.borrow_mut().insert(key, cx.waker().clone());
        drop(before);
        Poll::Pending
    }

    fn cancel(&mut self) {
        if let (Some(key), Some(world)) = (self.key.take(), current()) {
            let waker = world.timers.borrow_mut().remove(&key);
            drop(waker);
        }
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        self.cancel();
    }
}
