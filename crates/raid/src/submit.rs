//! Commands of several members that are under way at once, without threads: all are submitted, then all are waited for.
//!
//! Invariants: when a function returns, nothing that it submitted is under way any more; a member gets nothing more after a command
//! that failed was seen.
//!
//! Must not depend on: groups, what the commands are for.

use std::collections::BTreeSet;
use std::io;

use crate::medium::{Command, Medium, Pending};

/// A command for a member.
pub(crate) struct Submission<'a> {
    /// Its position.
    pub(crate) slot: usize,
    pub(crate) medium: &'a dyn Medium,
    pub(crate) command: Command<'a>,
}

/// What became of a command; none: it was not submitted, as its medium does not do that, or a command of its member has failed.
pub(crate) type Answer = Option<io::Result<Vec<u8>>>;

/// Executes commands in no particular order. The answers are in theirs.
pub(crate) fn execute(all: &[Submission<'_>]) -> Vec<Answer> {
    let mut answers: Vec<Answer> = all.iter().map(|_| None).collect();
    let mut left: Vec<usize> = (0..all.len()).collect();
    let mut failed = BTreeSet::new();
    loop {
        let under_way = submit(all, &mut left);
        if under_way.is_empty() {
            return answers;
        }
        for (place, pending) in under_way {
            let slot = all[place].slot;
            if failed.contains(&slot) {
                // It ends, and nothing of it is repeated.
                drop(pending);
                continue;
            }
            let answer = pending.wait();
            if answer.is_err() {
                failed.insert(slot);
            }
            answers[place] = Some(answer);
        }
        left.retain(|place| !failed.contains(&all[*place].slot));
    }
}

/// Submits what the media take now; `left` keeps the rest.
fn submit(all: &[Submission<'_>], left: &mut Vec<usize>) -> Vec<(usize, Box<dyn Pending>)> {
    let mut under_way = Vec::new();
    // Members that have something under way, and those of them that took no more.
    let (mut busy, mut full) = (BTreeSet::new(), BTreeSet::new());
    left.retain(|place| {
        let one = &all[*place];
        if full.contains(&one.slot) {
            return true;
        }
        let pending = one.medium.submit(&one.command);
        if pending.is_none() && busy.contains(&one.slot) {
            full.insert(one.slot);
        }
        let Some(pending) = pending else { return true };
        busy.insert(one.slot);
        under_way.push((*place, pending));
        false
    });
    under_way
}

#[cfg(test)]
mod tests {
    use std::io::IoSlice;
    use std::sync::Arc;

    use parking_lot::Mutex;

    use super::*;

    /// It takes so many commands at once, and fails at this byte.
    #[derive(Default)]
    struct Narrow {
        places: usize,
        fails_at: Option<u64>,
        state: Arc<Mutex<State>>,
    }

    #[derive(Default)]
    struct State {
        under_way: usize,
        most: usize,
        submitted: Vec<u64>,
        waited: Vec<u64>,
    }

    struct Place(u64, Option<u64>, Arc<Mutex<State>>);

    impl Pending for Place {
        fn wait(self: Box<Self>) -> io::Result<Vec<u8>> {
            self.2.lock().waited.push(self.0);
            if self.1 == Some(self.0) {
                Err(io::ErrorKind::BrokenPipe.into())
            } else {
                Ok(vec![self.0 as u8])
            }
        }
    }

    impl Drop for Place {
        fn drop(&mut self) {
            self.2.lock().under_way -= 1;
        }
    }

    impl Medium for Narrow {
        fn size(&self) -> io::Result<u64> {
            Ok(0)
        }

        fn read_at(&self, _out: &mut [u8], _at: u64) -> io::Result<()> {
            Ok(())
        }

        fn write_slices_at(&self, _slices: &mut [IoSlice<'_>], _at: u64) -> io::Result<()> {
            Ok(())
        }

        fn flush(&self) -> io::Result<()> {
            Ok(())
        }

        fn discard(&self, _at: u64, _len: u64) -> io::Result<()> {
            Ok(())
        }

        fn submit(&self, command: &Command<'_>) -> Option<Box<dyn Pending>> {
            let Command::Read { at, .. } = command else { return None };
            let mut state = self.state.lock();
            if state.under_way == self.places {
                return None;
            }
            state.under_way += 1;
            state.most = state.most.max(state.under_way);
            state.submitted.push(*at);
            Some(Box::new(Place(*at, self.fails_at, self.state.clone())))
        }
    }

    fn reads<'a>(slot: usize, medium: &'a Narrow, count: u64) -> Vec<Submission<'a>> {
        (0..count).map(|at| Submission { slot, medium, command: Command::Read { at, len: 1 } }).collect()
    }

    #[test]
    fn more_commands_than_places_are_executed() {
        let (three, one) =
            (Narrow { places: 3, ..Narrow::default() }, Narrow { places: 1, ..Narrow::default() });
        let mut all = reads(0, &three, 8);
        all.extend(reads(1, &one, 4));
        all.push(Submission { slot: 1, medium: &one, command: Command::Flush });
        let answers: Vec<_> = execute(&all).into_iter().map(|a| a.map(Result::unwrap)).collect();
        let of = |count: u8| (0..count).map(|at| Some(vec![at]));
        assert_eq!(answers, of(8).chain(of(4)).chain([None]).collect::<Vec<_>>());
        let (three, one) = (three.state.lock(), one.state.lock());
        assert_eq!((three.most, three.under_way, one.most, one.under_way), (3, 0, 1, 0));
    }

    #[test]
    fn a_member_that_failed_is_asked_nothing_more() {
        let bad = Narrow { places: 3, fails_at: Some(1), ..Narrow::default() };
        let good = Narrow { places: 3, ..Narrow::default() };
        let mut all = reads(0, &bad, 8);
        all.extend(reads(1, &good, 8));
        let answers = execute(&all);
        assert!(matches!(answers[..3], [Some(Ok(_)), Some(Err(_)), None]));
        assert!(answers[3..8].iter().all(Option::is_none) && answers[8..].iter().all(Option::is_some));
        let state = bad.state.lock();
        assert_eq!(
            (&state.submitted[..], &state.waited[..], state.under_way),
            (&[0, 1, 2][..], &[0, 1][..], 0)
        );
    }

    #[test]
    fn nobody_has_a_place() {
        let none = Narrow::default();
        assert!(execute(&reads(0, &none, 3)).iter().all(Option::is_none));
        assert!(execute(&[]).is_empty());
    }
}
