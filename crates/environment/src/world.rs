//! The state of a simulation: its clocks, timers and random numbers; and the simulation that a thread is in.
//!
//! Invariants: outside of a simulation every function costs one check of a flag of the thread. No borrow is
//! held while code of a task runs (its steps, its destructors, the destructors of its wakers).
//!
//! Must not depend on: what is simulated.

use std::cell::{Cell, RefCell};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
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
    timers: RefCell<Timers>,
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
            let due = self.timers.borrow_mut().pop(self.clock.get());
            let Some(waker) = due else { break };
            waker.wake();
        }
    }

    /// Moves the clock to the first timer; returns false if there is none.
    pub(crate) fn skip(&self) -> bool {
        let Some(next) = self.timers.borrow_mut().next() else { return false };
        self.clock.set(self.clock.get().max(next));
        true
    }

    fn since_base(&self, at: Instant) -> Duration {
        at.saturating_duration_since(self.base)
    }
}

/// The timers that wait. One that is cancelled stays in the heap until its time has come.
#[derive(Default)]
struct Timers {
    heap: BinaryHeap<Reverse<(Duration, TimerId)>>,
    wakers: Vec<Option<(u64, Waker)>>,
    free: Vec<usize>,
    made: u64,
}

/// A timer: its number, in the order in which they were made, and its place among the wakers.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct TimerId(u64, usize);

impl Timers {
    fn add(&mut self, at: Duration, waker: &Waker) -> TimerId {
        let (number, waker) = (self.made, Some((self.made, waker.clone())));
        self.made += 1;
        let place = match self.free.pop() {
            Some(place) => place,
            None => {
                self.wakers.push(None);
                self.wakers.len() - 1
            }
        };
        self.wakers[place] = waker;
        let id = TimerId(number, place);
        self.heap.push(Reverse((at, id)));
        id
    }

    fn waker(&mut self, id: TimerId) -> Option<&mut Waker> {
        self.wakers[id.1].as_mut().filter(|of| of.0 == id.0).map(|of| &mut of.1)
    }

    fn remove(&mut self, id: TimerId) -> Option<Waker> {
        self.waker(id)?;
        self.free.push(id.1);
        self.wakers[id.1].take().map(|of| of.1)
    }

    /// When the first timer is due.
    fn next(&mut self) -> Option<Duration> {
        loop {
            let Reverse((at, id)) = *self.heap.peek()?;
            if self.waker(id).is_some() {
                return Some(at);
            }
            self.heap.pop();
        }
    }

    /// Removes the first timer that is due at `now`.
    fn pop(&mut self, now: Duration) -> Option<Waker> {
        self.next().filter(|at| *at <= now)?;
        let Reverse((_, id)) = self.heap.pop()?;
        self.remove(id)
    }
}

/// An entry in the list of timers.
pub(crate) struct Timer {
    deadline: Instant,
    id: Option<TimerId>,
}

impl Timer {
    pub(crate) fn until(deadline: Instant) -> Timer {
        Timer { deadline, id: None }
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
        let mut timers = world.timers.borrow_mut();
        let Some(id) = self.id else {
            self.id = Some(timers.add(world.since_base(self.deadline), cx.waker()));
            return Poll::Pending;
        };
        let before = match timers.waker(id) {
            Some(waker) if !waker.will_wake(cx.waker()) => Some(std::mem::replace(waker, cx.waker().clone())),
            _ => None,
        };
        // Its destructor may run code of a task.
        drop(timers);
        drop(before);
        Poll::Pending
    }

    fn cancel(&mut self) {
        if let (Some(id), Some(world)) = (self.id.take(), current()) {
            let waker = world.timers.borrow_mut().remove(id);
            drop(waker);
        }
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        self.cancel();
    }
}
