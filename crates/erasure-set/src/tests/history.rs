//! A checker of linearizability for one register with put, create-if-absent, delete and get.
//!
//! Wing and Gong's search ("Testing and Verifying Concurrent Objects", 1993) with the memory of
//! visited states added by Lowe (2017). Keys are independent, so each is checked by itself. A call
//! whose outcome is unknown may take effect at any time after it began, or never.

use parking_lot::Mutex;
use std::collections::HashSet;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Call {
    Put(u64),
    Create(u64),
    Delete,
    Get,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    Done,
    Created(bool),
    Read(Option<u64>),
}

#[derive(Clone, Debug)]
pub(crate) struct Op {
    key: usize,
    pub(crate) call: Call,
    pub(crate) from: u64,
    /// `u64::MAX`: not known to have ended.
    pub(crate) to: u64,
    pub(crate) result: Option<Event>,
}

#[derive(Default)]
pub(crate) struct History {
    state: Mutex<(u64, Vec<Op>)>,
}

impl History {
    pub(crate) fn call(&self, key: usize, call: Call) -> usize {
        let mut s = self.state.lock();
        s.0 += 1;
        let op = Op { key, call, from: s.0, to: u64::MAX, result: None };
        s.1.push(op);
        s.1.len() - 1
    }
    pub(crate) fn end<E>(&self, id: usize, result: Result<Event, E>) {
        let mut s = self.state.lock();
        s.0 += 1;
        let now = s.0;
        if let Ok(e) = result {
            (s.1[id].to, s.1[id].result) = (now, Some(e));
        }
    }
    pub(crate) fn of(&self, key: usize) -> Vec<Op> {
        self.state.lock().1.iter().filter(|o| o.key == key).cloned().collect()
    }
}

/// What the call does to the state; `None`: it cannot have had this result.
fn apply(op: &Op, state: Option<u64>) -> Option<Option<u64>> {
    match (op.call, op.result) {
        (Call::Put(v), None | Some(Event::Done)) => Some(Some(v)),
        (Call::Delete, None | Some(Event::Done)) => Some(None),
        (Call::Create(v), Some(Event::Created(true))) => state.is_none().then_some(Some(v)),
        (Call::Create(_), Some(Event::Created(false))) => state.is_some().then_some(state),
        (Call::Create(v), None) => Some(state.or(Some(v))),
        (Call::Get, Some(Event::Read(r))) => (r == state).then_some(state),
        (Call::Get, None) => Some(state),
        (call, result) => panic!("{call:?} cannot answer {result:?}"),
    }
}

pub(crate) fn linearizable(ops: &[Op]) -> bool {
    assert!(ops.len() <= 128, "one bit per operation");
    let mut seen = HashSet::new();
    search(ops, 0, None, &mut seen)
}

fn search(ops: &[Op], done: u128, state: Option<u64>, seen: &mut HashSet<(u128, Option<u64>)>) -> bool {
    let open = |i: usize| done >> i & 1 == 0;
    if (0..ops.len()).all(|i| !open(i) || ops[i].result.is_none()) {
        return true;
    }
    if !seen.insert((done, state)) {
        return false;
    }
    // Next may be any operation that began before the first open one ended.
    let end = (0..ops.len()).filter(|i| open(*i)).map(|i| ops[i].to).min().unwrap_or(u64::MAX);
    (0..ops.len())
        .filter(|i| open(*i) && ops[*i].from < end)
        .any(|i| apply(&ops[i], state).is_some_and(|next| search(ops, done | 1 << i, next, seen)))
}

#[test]
fn the_checker_can_say_no() {
    let op = |call, from, to, result| Op { key: 0, call, from, to, result: Some(result) };
    let put = op(Call::Put(1), 1, 4, Event::Done);
    let early = op(Call::Get, 2, 3, Event::Read(None));
    let late = op(Call::Get, 5, 6, Event::Read(Some(1)));
    let stale = op(Call::Get, 7, 8, Event::Read(None));
    assert!(linearizable(&[put.clone(), early, late.clone()]));
    assert!(!linearizable(&[put.clone(), late.clone(), stale]));
    let both = |r| op(Call::Create(9), 1, 9, Event::Created(r));
    assert!(!linearizable(&[both(true), both(true)]));
    assert!(linearizable(&[both(true), both(false)]));
    let unknown = Op { result: None, to: u64::MAX, ..put };
    assert!(linearizable(&[unknown.clone(), late]));
    assert!(linearizable(&[unknown, op(Call::Get, 5, 6, Event::Read(None))]));
}
