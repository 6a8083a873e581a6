//! The model of one register with put, create-if-absent, delete and get.
//!
//! Must not depend on: the code that records histories.

use crate::Model;

/// A call to a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// Puts a value unconditionally.
    Put(u64),
    /// Puts a value if none is there.
    Create(u64),
    /// Removes the value.
    Delete,
    /// Reads.
    Get,
}

/// The answer of a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// Answer to put and delete.
    Done,
    /// Answer to create: whether the value was put.
    Created(bool),
    /// Answer to get.
    Read(Option<u64>),
}

/// The model of one register that starts without a value.
pub struct Register;

impl Model for Register {
    type State = Option<u64>;
    type Call = Call;
    type Answer = Event;

    fn apply(&self, state: &Option<u64>, call: &Call, answer: Option<&Event>) -> Option<Option<u64>> {
        let state = *state;
        match (call, answer) {
            (Call::Put(v), None | Some(Event::Done)) => Some(Some(*v)),
            (Call::Delete, None | Some(Event::Done)) => Some(None),
            (Call::Create(v), Some(Event::Created(true))) => state.is_none().then_some(Some(*v)),
            (Call::Create(_), Some(Event::Created(false))) => state.is_some().then_some(state),
            (Call::Create(v), None) => Some(state.or(Some(*v))),
            (Call::Get, Some(Event::Read(r))) => (*r == state).then_some(state),
            (Call::Get, None) => Some(state),
            (call, answer) => panic!("{call:?} cannot answer {answer:?}"),
        }
    }

    fn changes(&self, call: &Call, answer: &Event) -> bool {
        !matches!((call, answer), (Call::Get, _) | (_, Event::Created(false)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Op, Rules, linearizable};

    fn judge(rules: Rules, ops: &[(Call, u64, u64, Option<Event>)]) -> bool {
        let op = |(call, from, to, answer): &(Call, u64, u64, Option<Event>)| Op {
            call: *call,
            from: *from,
            to: *to,
            answer: *answer,
        };
        linearizable(&Register, &None, rules, &ops.iter().map(op).collect::<Vec<_>>())
    }

    const READS: fn(Option<u64>) -> Option<Event> = |v| Some(Event::Read(v));

    #[test]
    fn checker_rejects_invalid_histories() {
        let plain = |ops: &[_]| judge(Rules::default(), ops);
        let put = (Call::Put(1), 1, 4, Some(Event::Done));
        let early = (Call::Get, 2, 3, READS(None));
        let late = (Call::Get, 5, 6, READS(Some(1)));
        assert!(plain(&[put, early, late]));
        assert!(!plain(&[put, (Call::Get, 5, 6, READS(None))]), "a lost write");
        assert!(!plain(&[put, late, (Call::Get, 7, 8, READS(None))]), "a value that vanishes");
        let first = (Call::Create(1), 1, 4, Some(Event::Created(true)));
        assert!(!plain(&[first, (Call::Create(2), 2, 3, Some(Event::Created(true)))]), "two winners");
        let unknown = (Call::Put(2), 1, 2, None);
        assert!(plain(&[unknown, (Call::Get, 5, 6, READS(Some(2)))]));
        assert!(plain(&[unknown, (Call::Get, 5, 6, READS(None))]));
        assert!(
            !plain(&[(Call::Get, 1, 2, READS(Some(2))), (Call::Put(2), 3, 9, None)]),
            "out of the future"
        );
    }

    /// A search that tries the subsets of the calls without an answer does not end.
    #[test]
    fn calls_without_answers_do_not_prolong_the_search() {
        let mut ops = vec![(Call::Put(1), 1, 2, Some(Event::Done))];
        for n in 0..40 {
            let at = 3 + 4 * n;
            ops.push((Call::Put(100 + n), at, at + 1, None));
            ops.push((Call::Get, at + 2, at + 3, None));
        }
        ops.push((Call::Get, 300, 301, READS(Some(1))));
        ops.push((Call::Get, 302, 303, READS(Some(120))));
        assert!(judge(Rules::default(), &ops));
    }

    #[test]
    fn ended_call_takes_no_effect_after_acknowledged_change() {
        let failed = (Call::Put(1), 1, 2, None);
        let deleted = (Call::Delete, 3, 4, Some(Event::Done));
        let back = (Call::Get, 5, 6, READS(Some(1)));
        let settled = Rules { settled: true };
        assert!(judge(Rules::default(), &[failed, deleted, back]));
        assert!(!judge(settled, &[failed, deleted, back]));
        assert!(judge(settled, &[failed, deleted, (Call::Get, 5, 6, READS(None))]));
        // A call that had not ended when the change began may take effect after it.
        assert!(judge(settled, &[(Call::Put(1), 1, u64::MAX, None), deleted, back]));
        assert!(judge(settled, &[(Call::Put(1), 1, 4, None), (Call::Delete, 3, 5, Some(Event::Done)), back]));
    }
}
