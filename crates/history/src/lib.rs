#![forbid(unsafe_code)]
//! Judges histories of concurrent calls: were they linearizable?
//!
//! Wing and Gong's search ("Testing and Verifying Concurrent Objects", 1993) with the memory of visited states
//! added by Lowe (2017). What the calls do is a [`Model`]; [`Register`] is that of one key. Histories of things that
//! do not touch each other are judged one by one, which keeps the search short.
//!
//! A call whose outcome is unknown may take effect at any time after it began, or never. With [`Rules::settled`]
//! that time ends: a call that its caller saw end, whatever it was told, takes no effect after a change that was
//! begun later and acknowledged.
//!
//! Must not depend on: anything that makes histories.

mod register;

pub use register::{Call, Event, Register};

use parking_lot::Mutex;
use std::collections::HashSet;
use std::fmt::Debug;
use std::hash::Hash;

/// What calls do, one after another.
pub trait Model {
    /// What calls change.
    type State: Clone + Eq + Hash;
    /// What is asked.
    type Call: Clone + Debug;
    /// What is answered.
    type Answer: Clone + Debug;
    /// The state after a call that was answered so; `answer` is `None`: it took effect, and nobody knows the answer.
    /// `None`: in this state it cannot have been answered so.
    fn apply(
        &self,
        state: &Self::State,
        call: &Self::Call,
        answer: Option<&Self::Answer>,
    ) -> Option<Self::State>;
    /// Whether a call that was answered so may have changed the state.
    fn changes(&self, call: &Self::Call, answer: &Self::Answer) -> bool;
}

/// One call with its place in time.
#[derive(Clone, Debug)]
pub struct Op<C, A> {
    /// What was asked.
    pub call: C,
    /// When it began.
    pub from: u64,
    /// When its caller was told something; `u64::MAX`: never.
    pub to: u64,
    /// What the caller was told; `None`: nothing, or that the outcome is not known.
    pub answer: Option<A>,
}

/// What is asked of a history beyond linearizability.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rules {
    /// What ended without a known outcome takes no effect after a later change that was acknowledged.
    pub settled: bool,
}

/// The calls of many callers, by what they touch. Time is counted in calls and answers.
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
    /// A call that touches `group` begins.
    pub fn call(&self, group: usize, call: C) -> usize {
        let mut s = self.state.lock();
        s.0 += 1;
        let op = Op { call, from: s.0, to: u64::MAX, answer: None };
        s.1.push((group, op));
        s.1.len() - 1
    }

    /// A call ended; an error: its outcome is not known.
    pub fn end<E>(&self, id: usize, answer: Result<A, E>) {
        let mut s = self.state.lock();
        s.0 += 1;
        let now = s.0;
        let op = &mut s.1[id].1;
        (op.to, op.answer) = (now, answer.ok());
    }

    /// A call turned out not to have happened.
    pub fn never(&self, id: usize) {
        // It touches what nobody judges.
        self.state.lock().1[id].0 = usize::MAX;
    }

    /// A call that began and ended at the same times as another.
    pub fn same_time(&self, id: usize, group: usize, call: C, answer: A) {
        let mut s = self.state.lock();
        let (from, to) = (s.1[id].1.from, s.1[id].1.to);
        s.1.push((group, Op { call, from, to, answer: Some(answer) }));
    }

    /// How many calls there were.
    pub fn len(&self) -> usize {
        self.state.lock().1.len()
    }

    /// Whether there were none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The calls that touch `group`.
    pub fn of(&self, group: usize) -> Vec<Op<C, A>> {
        self.state.lock().1.iter().filter(|(g, _)| *g == group).map(|(_, op)| op.clone()).collect()
    }
}

/// Whether the calls can have happened one after another from `begin` on, each between its beginning and its end.
///
/// # Panics
/// If there are more than 128.
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
            let later = |other: &Op<M::Call, M::Answer>| other.from > op.to && changes(other);
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
    /// The calls that were answered.
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
        // Next may be any call that began before the first open one ended.
        let open = |i: &usize| done >> i & 1 == 0;
        let ends = |i: usize| if self.ops[i].answer.is_some() { self.ops[i].to } else { u64::MAX };
        let end = (0..self.ops.len()).filter(open).map(ends).min().unwrap_or(u64::MAX);
        let next: Vec<usize> = (0..self.ops.len())
            .filter(|i| open(i) && self.ops[*i].from < end && self.barred[*i] & done == 0)
            .collect();
        next.into_iter().any(|i| {
            let op = &self.ops[i];
            match self.model.apply(state, &op.call, op.answer.as_ref()) {
                Some(after) => self.from(done | 1 << i, &after),
                None => false,
            }
        })
    }
}
