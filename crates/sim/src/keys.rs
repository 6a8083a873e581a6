//! The model of keys, versions and uploads as S3 defines them, against which histories are checked.
//!
//! Must not depend on: the code that records histories.

use ashlar_history::Model;

/// The value of a body, different for each; `None`: a delete marker.
pub type Value = u64;

/// A call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Call {
    /// Puts a value.
    Put(u8, Value),
    /// Puts a value if the key has none.
    Create(u8, Value),
    /// Replaces one value by another.
    Replace(u8, Value, Value),
    /// Deletes the value, or adds a delete marker if the bucket has versions.
    Delete(u8),
    /// Reads.
    Get(u8),
    /// Whether a list shows the key.
    Shown(u8),
    /// Renames the value of one key to another key.
    Rename(u8, u8, Value),
    /// Completes an upload.
    Complete(u64, u8, Value),
    /// Aborts an upload.
    Abort(u64),
    /// Reads the version with this value.
    GetVersion(u8, Value),
    /// Removes the version with this value.
    DeleteVersion(u8, Value),
    /// Deletes the key if it has this value: what a lifecycle rule does.
    Expire(u8, Value),
    /// Reads all versions, newest first.
    Versions(u8),
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Done.
    Done,
    /// Refused, because of the present state.
    Failed,
    /// The value that was read.
    Read(Option<Value>),
    /// Whether the list shows the key.
    Shown(bool),
    /// The versions.
    Versions(Vec<Option<Value>>),
}

/// The model of keys that are checked together.
#[derive(Clone, Copy, Debug)]
pub struct Keys {
    /// The bucket has versions.
    pub versioned: bool,
}

/// The state: the versions of each key, newest first; uploads that are completed (`true`) or aborted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct State {
    keys: Vec<(u8, Vec<Option<Value>>)>,
    uploads: Vec<(u64, bool)>,
}

impl State {
    fn versions(&self, key: u8) -> &[Option<Value>] {
        self.keys.iter().find(|(k, _)| *k == key).map_or(&[], |(_, v)| v)
    }

    fn now(&self, key: u8) -> Option<Value> {
        self.versions(key).first().copied().flatten()
    }

    fn set(&mut self, key: u8, versions: Vec<Option<Value>>) {
        self.keys.retain(|(k, _)| *k != key);
        if !versions.is_empty() {
            self.keys.push((key, versions));
            self.keys.sort_unstable();
        }
    }

    fn upload(&self, id: u64) -> Option<bool> {
        self.uploads.iter().find(|(u, _)| *u == id).map(|(_, done)| *done)
    }

    fn end(&mut self, id: u64, done: bool) {
        self.uploads.push((id, done));
        self.uploads.sort_unstable();
    }
}

impl Call {
    /// The keys, and the upload, that it concerns.
    fn concerns(&self) -> ([Option<u8>; 2], Option<u64>) {
        match self {
            Call::Put(key, _)
            | Call::Create(key, _)
            | Call::Replace(key, ..)
            | Call::Delete(key)
            | Call::Get(key)
            | Call::Shown(key)
            | Call::GetVersion(key, _)
            | Call::DeleteVersion(key, _)
            | Call::Expire(key, _)
            | Call::Versions(key) => ([Some(*key), None], None),
            Call::Rename(from, to, _) => ([Some(*from), Some(*to)], None),
            Call::Complete(upload, key, _) => ([Some(*key), None], Some(*upload)),
            Call::Abort(upload) => ([None, None], Some(*upload)),
        }
    }
}

impl Keys {
    fn put(self, state: &State, key: u8, value: Option<Value>) -> State {
        let mut next = state.clone();
        let mut versions = vec![value];
        if self.versioned {
            versions.extend_from_slice(state.versions(key));
        } else {
            versions.retain(Option::is_some);
        }
        next.set(key, versions);
        next
    }
}

impl Model for Keys {
    type State = State;
    type Call = Call;
    type Answer = Answer;

    /// Keys are registers of their own: what happens to one says nothing about a call that concerns another.
    fn same(&self, a: &Call, b: &Call) -> bool {
        let ((keys, upload), (others, other)) = (a.concerns(), b.concerns());
        keys.iter().flatten().any(|key| others.contains(&Some(*key))) || upload.is_some() && upload == other
    }

    fn apply(&self, state: &State, call: &Call, answer: Option<&Answer>) -> Option<State> {
        let same = || Some(state.clone());
        // If the condition holds, the call is done; otherwise it failed. An unknown answer fits both.
        let either = |holds: bool, next: State| match answer {
            Some(Answer::Done) => holds.then_some(next),
            Some(Answer::Failed) => (!holds).then(|| state.clone()),
            None => Some(if holds { next } else { state.clone() }),
            Some(_) => None,
        };
        let reads = |seen: Answer| answer.is_none_or(|a| *a == seen).then(|| state.clone());
        match call {
            Call::Put(key, value) => either(true, self.put(state, *key, Some(*value))),
            Call::Create(key, value) => {
                either(state.now(*key).is_none(), self.put(state, *key, Some(*value)))
            }
            Call::Replace(key, old, value) => {
                either(state.now(*key) == Some(*old), self.put(state, *key, Some(*value)))
            }
            Call::Delete(key) => either(true, self.put(state, *key, None)),
            Call::Expire(key, value) => either(state.now(*key) == Some(*value), self.put(state, *key, None)),
            Call::Get(key) => reads(Answer::Read(state.now(*key))),
            Call::Shown(key) => reads(Answer::Shown(state.now(*key).is_some())),
            Call::Rename(from, to, value) => {
                let mut next = self.put(state, *to, Some(*value));
                next.set(*from, Vec::new());
                either(state.now(*from) == Some(*value), next)
            }
            Call::Complete(id, key, value) => match (state.upload(*id), answer) {
                (None, None | Some(Answer::Done)) => {
                    let mut next = self.put(state, *key, Some(*value));
                    next.end(*id, true);
                    Some(next)
                }
                (Some(true), None | Some(Answer::Done)) => same(),
                (Some(false), None | Some(Answer::Failed)) => same(),
                _ => None,
            },
            Call::Abort(id) => match (state.upload(*id), answer) {
                (None, None | Some(Answer::Done)) => {
                    let mut next = state.clone();
                    next.end(*id, false);
                    Some(next)
                }
                (Some(_), None | Some(Answer::Failed)) => same(),
                // A repetition by a client that did not get the first answer.
                (Some(false), Some(Answer::Done)) => same(),
                _ => None,
            },
            Call::GetVersion(key, value) => {
                let there = state.versions(*key).contains(&Some(*value));
                reads(Answer::Read(there.then_some(*value)))
            }
            Call::DeleteVersion(key, value) => {
                let mut next = state.clone();
                let rest = state.versions(*key).iter().copied().filter(|v| *v != Some(*value)).collect();
                next.set(*key, rest);
                either(true, next)
            }
            Call::Versions(key) => reads(Answer::Versions(state.versions(*key).to_vec())),
        }
    }

    fn changes(&self, call: &Call, answer: &Answer) -> bool {
        let reads = matches!(call, Call::Get(_) | Call::Shown(_) | Call::GetVersion(..) | Call::Versions(_));
        !reads && *answer == Answer::Done
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ashlar_history::{Op, Rules, linearizable};

    fn judge(ops: &[(Call, u64, u64, Option<Answer>)]) -> bool {
        let op = |(call, from, to, answer): &(Call, u64, u64, Option<Answer>)| Op {
            call: call.clone(),
            from: *from,
            to: *to,
            answer: answer.clone(),
        };
        let ops: Vec<_> = ops.iter().map(op).collect();
        linearizable(&Keys { versioned: false }, &State::default(), Rules { settled: true }, &ops)
    }

    /// Found by seed 586: keys that a rename may connect are judged together, and yet are registers of their own.
    #[test]
    fn change_of_one_key_does_not_settle_an_unknown_change_of_another() {
        let unknown = (Call::Put(1, 10), 1, 2, None);
        let not_yet = (Call::Shown(1), 5, 6, Some(Answer::Shown(false)));
        let late = (Call::Get(1), 7, 8, Some(Answer::Read(Some(10))));
        let put = |key| (Call::Put(key, 11), 3, 4, Some(Answer::Done));
        assert!(judge(&[unknown.clone(), put(0), not_yet, late.clone()]));
        assert!(!judge(&[unknown, put(1), late]), "it takes effect after an acknowledged change of its key");
        let renamed = (Call::Rename(1, 0, 9), 1, 2, None);
        let from = (Call::Put(1, 9), 3, 4, Some(Answer::Done));
        assert!(!judge(&[renamed, from, (Call::Get(0), 5, 6, Some(Answer::Read(Some(9))))]));
    }
}
