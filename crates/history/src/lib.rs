#![forbid(unsafe_code)]
//! Checks whether histories of concurrent calls are linearizable.
//!
//! The algorithm is Wing and Gong's search ("Testing and Verifying Concurrent Objects", 1993) with the cache
//! of visited states added by Lowe (2017). A [`Model`] defines what the calls do; [`Register`] is the model
//! of one key. Histories of independent objects are checked separately, which keeps the search short.
//!
//! A call with an unknown outcome may take effect at any time after it began, or never. [`Rules::settled`]
//! limits that time: once its caller has received any result, including an unknown outcome, the call takes no
//! effect after a change that began later and was acknowledged.
//!
//! Must not depend on: the code that records histories.

mod register;

pub use register::{Call, Event, Register};

use parking_lot::Mutex;
use std::collections::HashSet;
use std::fmt::Debug;
use std::hash::Hash;

/// The sequential behaviour of calls.
pub trait Model {
    /// The state that calls change.
    type State: Clone + Eq + Hash;
    /// A call.
    type Call: Clone + Debug;
    /// An answer.
    type Answer: Clone + Debug;
    /// The state after a call with this answer. If `answer` is `None`, the call took effect and its answer is
    /// unknown. Returns `None` if the answer is impossible in this state.
    fn apply(
        &self,
        state: &Self::State,
        call: &Self::Call,
        answer: Option<&Self::Answer>,
    ) -> Option<Self::State>;
    /// Whether a call with this answer may have changed the state.
    fn changes(&self, call: &Self::Call, answer: &Self::Answer) -> bool;
    /// Whether two calls may change the same thing. [`Rules::settled`] is about such calls.
    fn same(&self, _a: &Self::Call, _b: &Self::Call) -> bool {
        true
    }
}

/// One call with the times of its beginning and end.
#[derive(Clone, Debug)]
pub struct Op<C, A> {
    /// The call.
    pub call: C,
    /// When it began.
    pub from: u64,
    /// When its caller received a result; `u64::MAX`: never.
    pub to: u64,
    /// The answer; `None`: there was none, or the outcome is unknown.
    pub answer: Option<A>,
}

/// Requirements beyond linearizability.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rules {
    /// A call that ended with an unknown outcome takes no effect after a later acknowledged change of the same thing.
    pub settled: bool,
}

/// The calls of many callers, grouped by the object they concern. Time is counted in calls and answers.
pub struct History<C, A> {
    state: Mutex<(u64, Grouped<C, A>)>,
}

/// Calls with their groups.
type Grouped<C, A> = Vec<(usize, Op<C, A>)>;

impl<C, A> Default for History<C, A> {
    fn default() -> History<C, A> {
        History { state: Mutex::new((0, Vec::new())) }
    }
}

impl<C: Clone, A: Clone> History<C, A> {
    /// Records the beginning of a call that concerns `group`.
    pub fn call(&self, group: usize, call: C) -> usize {
        let mut s = self.state.lock();
        s.0 += 1;
        let op = Op { call, from: s.0, to: u64::MAX, answer: None };
        s.1.push((group, op));
        s.1.len() - 1
    }

    /// Records the end of a call; an error means that its outcome is unknown.
    pub fn end<E>(&self, id: usize, answer: Result<A, E>) {
        let mut s = self.state.lock();
        s.0 += 1;
        let now = s.0;
        let op = &mut s.1[id].1;
        (op.to, op.answer) = (now, answer.ok());
    }

    /// Records that a call had no effect.
    pub fn never(&self, id: usize) {
        // Moved to a group that is not checked.
        self.state.lock().1[id].0 = usize::MAX;
    }

    /// Records a call with the times of another one.
    pub fn same_time(&self, id: usize, group: usize, call: C, answer: A) {
        let mut s = self.state.lock();
        let (from, to) = (s.1[id].1.from, s.1[id].1.to);
        s.1.push((group, Op { call, from, to, answer: Some(answer) }));
    }

    /// Number of calls.
    pub fn len(&self) -> usize {
        self.state.lock().1.len()
    }

    /// Whether there are no calls.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The calls that concern `group`.
    pub fn of(&self, group: usize) -> Vec<Op<C, A>> {
        self.state.lock().1.iter().filter(|(g, _)| *g == group).map(|(_, op)| op.clone()).collect()
    }
}

/// Whether some sequential order of the calls, starting from `begin`, explains all answers, with each call
/// between its beginning and its end.
///
/// # Panics
/// If there are more than 128 calls.
#[must_use]
pub fn linearizable<M: Model>(
    model: &M,
    begin: &M::State,
    rules: Rules,
    ops: &[Op<M::Call, M::Answer>],
) -> bool {
    assert!(ops.len() <= 128, "one bit per operation");
    let changes =
        |op: &Op<M::Call, M::Answer>| op.answer.as_ref().is_some_and(|a| model.changes(&op.call, a));
    // For each call without an answer: the changes after which it takes no effect any more.
    let barred = ops
        .iter()
        .map(|op| {
            let later = |other: &Op<M::Call, M::Answer>| {
                other.from > op.to && changes(other) && model.same(&op.call, &other.call)
            };
            let after =
                ops.iter().enumerate().filter(|(_, o)| later(o)).fold(0, |mask, (i, _)| mask | 1 << i);
            if rules.settled && op.answer.is_none() { after } else { 0 }
        })
        .collect();
    let known =
        ops.iter().enumerate().filter(|(_, o)| o.answer.is_some()).fold(0, |mask, (i, _)| mask | 1 << i);
    Search { model, ops, barred, known, seen: HashSet::new() }.from(0, begin)
}

struct Search<'a, M: Model> {
    model: &'a M,
    ops: &'a [Op<M::Call, M::Answer>],
    barred: Vec<u128>,
    /// The answered calls.
    known: u128,
    seen: HashSet<(u128, M::State)>,
}

impl<M: Model> Search<'_, M> {
    fn from(&mut self, done: u128, state: &M::State) -> bool {
        if self.known & !done == 0 {
            return true;
        }
        if !self.seen.insert((done, state.clone())) {
            return false;
        }
        // The next call may be any that began before the first unfinished one ended.
        let open = |i: &usize| done >> i & 1 == 0;
        let ends = |i: usize| if self.ops[i].answer.is_some() { self.ops[i].to } else { u64::MAX };
        let end = (0..self.ops.len()).filter(open).map(ends).min().unwrap_or(u64::MAX);
        let next: Vec<usize> = (0..self.ops.len())
            .filter(|i| open(i) && self.ops[*i].from < end && self.barred[*i] & done == 0)
            .collect();
        // Answered calls first: most of the others took no effect, and their subsets are many.
        let (answered, unknown): (Vec<_>, Vec<_>) =
            next.into_iter().partition(|i| self.ops[*i].answer.is_some());
        answered.into_iter().chain(unknown).any(|i| {
            let op = &self.ops[i];
            match self.model.apply(state, &op.call, op.answer.as_ref()) {
                // As if it never took effect.
                Some(after) if op.answer.is_none() && after == *state => false,
                Some(after) => self.from(done | 1 << i, &after),
                None => false,
            }
        })
    }
}
