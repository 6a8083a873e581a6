//! The scheduler of a simulation: its tasks, and which of them runs next.
//!
//! The next task is drawn at random, from the seed, among those that are ready. Every step advances the clock
//! by a microsecond, so that a task that waits for time to pass without sleeping ends.
//!
//! Invariants: one task runs at a time. A task that was aborted takes no further step, and its destructors
//! run in its process. No borrow is held while code of a task runs.
//!
//! Must not depend on: what the tasks do.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Wake, Waker};
use std::time::Duration;

use parking_lot::Mutex;

use crate::random::Seeded;
use crate::simulation::Process;
use crate::world::World;

type Work = Pin<Box<dyn Future<Output = ()>>>;

/// Virtual time of one step.
const STEP: Duration = Duration::from_micros(1);

/// A task of this scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct TaskId {
    /// Its number among all tasks of the simulation, in the order in which they were spawned.
    number: u64,
    /// Where it is in the list of tasks; a place is used again when its task has ended.
    place: u32,
}

struct Task {
    number: u64,
    name: &'static str,
    process: Process,
    /// Absent during a step.
    work: Option<Work>,
    waker: Arc<Ready>,
}

/// The waker of a task: puts it on the list of ready tasks.
struct Ready {
    id: TaskId,
    /// Whether the task is on the list.
    listed: AtomicBool,
    list: Arc<Mutex<Vec<TaskId>>>,
}

impl Wake for Ready {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }
    fn wake_by_ref(self: &Arc<Self>) {
        if !self.listed.swap(true, Ordering::Relaxed) {
            self.list.lock().push(self.id);
        }
    }
}

/// The unfinished tasks, by their places.
#[derive(Default)]
struct Tasks {
    list: Vec<Option<Task>>,
    free: Vec<u32>,
}

impl Tasks {
    fn add(&mut self, task: impl FnOnce(u32) -> Task) {
        if let Some(place) = self.free.pop() {
            self.list[place as usize] = Some(task(place));
        } else {
            let place = u32::try_from(self.list.len()).expect("fewer tasks than memory has room for");
            self.list.push(Some(task(place)));
        }
    }

    fn get_mut(&mut self, id: TaskId) -> Option<&mut Task> {
        self.list[id.place as usize].as_mut().filter(|task| task.number == id.number)
    }

    fn remove(&mut self, id: TaskId) -> Option<Task> {
        self.get_mut(id)?;
        self.free.push(id.place);
        self.list[id.place as usize].take()
    }

    /// In the order in which they were spawned.
    fn ids(&self, wanted: impl Fn(&Task) -> bool) -> Vec<TaskId> {
        let places = self.list.iter().zip(0..);
        let all = places.filter_map(|(task, place)| Some((task.as_ref()?, place)));
        let mut ids: Vec<TaskId> = all
            .filter(|(task, _)| wanted(task))
            .map(|(task, place)| TaskId { number: task.number, place })
            .collect();
        ids.sort_unstable();
        ids
    }
}

pub(crate) struct Scheduler {
    lots: RefCell<Seeded>,
    tasks: RefCell<Tasks>,
    ready: Arc<Mutex<Vec<TaskId>>>,
    dead: RefCell<BTreeSet<Process>>,
    next_id: Cell<u64>,
    next_process: Cell<u32>,
    running: Cell<Process>,
    steps: Cell<u64>,
    fingerprint: Cell<u64>,
}

impl Scheduler {
    pub(crate) fn new(seed: u64) -> Scheduler {
        Scheduler {
            lots: RefCell::new(Seeded::new(seed)),
            tasks: RefCell::default(),
            ready: Arc::default(),
            dead: RefCell::default(),
            next_id: Cell::new(0),
            next_process: Cell::new(1),
            running: Cell::new(Process::FIRST),
            steps: Cell::new(0),
            fingerprint: Cell::new(0),
        }
    }

    pub(crate) fn new_process(&self) -> Process {
        let number = self.next_process.get();
        self.next_process.set(number + 1);
        Process(number)
    }

    pub(crate) fn steps(&self) -> u64 {
        self.steps.get()
    }

    pub(crate) fn fingerprint(&self) -> u64 {
        self.fingerprint.get()
    }

    /// The names of the unfinished tasks, with their processes.
    pub(crate) fn names(&self) -> Vec<(Process, &'static str)> {
        let tasks = &mut *self.tasks.borrow_mut();
        let ids = tasks.ids(|_| true);
        ids.into_iter().filter_map(|id| tasks.get_mut(id).map(|task| (task.process, task.name))).collect()
    }

    /// Runs `code` as part of `process`.
    pub(crate) fn within<T>(&self, process: Process, code: impl FnOnce() -> T) -> T {
        let before = self.running.replace(process);
        let done = code();
        self.running.set(before);
        done
    }

    fn draw(&self) -> Option<TaskId> {
        let mut ready = self.ready.lock();
        if ready.is_empty() {
            return None;
        }
        let at = self.lots.borrow_mut().below(ready.len() as u64) as usize;
        Some(ready.swap_remove(at))
    }
}

impl World {
    pub(crate) fn process(&self) -> Process {
        self.scheduler.running.get()
    }

    /// Adds a task, unless its process was killed.
    pub(crate) fn spawn(&self, name: &'static str, process: Process, work: Work) -> Option<TaskId> {
        let s = &self.scheduler;
        let number = s.next_id.replace(s.next_id.get() + 1);
        if s.dead.borrow().contains(&process) {
            s.within(process, || drop(work));
            return None;
        }
        let mut added = None;
        s.tasks.borrow_mut().add(|place| {
            let id = TaskId { number, place };
            let waker = Arc::new(Ready { id, listed: AtomicBool::new(false), list: s.ready.clone() });
            waker.wake_by_ref();
            added = Some(id);
            Task { number, name, process, work: Some(work), waker }
        });
        added
    }

    pub(crate) fn abort(&self, id: TaskId) {
        let task = self.scheduler.tasks.borrow_mut().remove(id);
        if let Some(task) = task {
            // A task that is in a step is dropped after the step.
            self.scheduler.within(task.process, || drop(task.work));
        }
    }

    /// Ends a process: its tasks, and those that their destructors try to spawn.
    pub(crate) fn kill(&self, process: Process) {
        self.scheduler.dead.borrow_mut().insert(process);
        // No task of it is spawned any more.
        let tasks = self.scheduler.tasks.borrow().ids(|task| task.process == process);
        tasks.into_iter().for_each(|id| self.abort(id));
    }

    /// Ends all tasks.
    pub(crate) fn clear(&self) {
        loop {
            let tasks = self.scheduler.tasks.borrow().ids(|_| true);
            if tasks.is_empty() {
                return;
            }
            for id in tasks {
                let task = self.scheduler.tasks.borrow_mut().remove(id);
                let Some(task) = task else { continue };
                self.scheduler.dead.borrow_mut().insert(task.process);
                self.scheduler.within(task.process, || drop(task.work));
            }
        }
    }

    /// One step of one task. If no task is ready, the clock first moves to the next timer; returns false if
    /// there is none.
    pub(crate) fn step(&self) -> bool {
        let s = &self.scheduler;
        self.fire();
        let id = loop {
            if let Some(id) = s.draw() {
                break id;
            }
            if !self.skip() {
                return false;
            }
            self.fire();
        };
        let taken = {
            let mut tasks = s.tasks.borrow_mut();
            tasks.get_mut(id).and_then(|task| Some((task.process, task.work.take()?, task.waker.clone())))
        };
        // Otherwise the task was aborted after it was woken.
        let Some((process, mut work, waker)) = taken else { return true };
        waker.listed.store(false, Ordering::Relaxed);
        self.note(id.number);
        let waker = Waker::from(waker);
        let over = s.within(process, || work.as_mut().poll(&mut Context::from_waker(&waker)).is_ready());
        self.advance(STEP);
        let rest = {
            let mut tasks = s.tasks.borrow_mut();
            match tasks.get_mut(id) {
                Some(task) if !over => task.work.replace(work),
                _ => {
                    tasks.remove(id);
                    Some(work)
                }
            }
        };
        s.within(process, || drop(rest));
        true
    }

    /// Adds a step to the fingerprint.
    fn note(&self, task: u64) {
        let s = &self.scheduler;
        s.steps.set(s.steps.get() + 1);
        let time = self.elapsed().as_nanos() as u64;
        let mut mixed = Seeded::new(s.fingerprint.get() ^ task.rotate_left(48) ^ time);
        s.fingerprint.set(mixed.next());
    }
}
