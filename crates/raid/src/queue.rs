//! Requests that wait to be executed, and when they become a batch.
//!
//! Several batches are collected while others are read for, so that members have work; not where requests continue each other: those that come
//! soon make whole stripes together.
//!
//! Invariants: requests are collected in their order; one thread collects at a time, that of the oldest request; a batch is not collected while
//! somebody who came before it wants the group alone.
//!
//! Must not depend on: groups, what a batch does.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::{Condvar, Mutex};

use crate::Error;
use crate::geometry::BLOCK;
use crate::superblock::Volume;
use crate::thin_state::Run;
use crate::write::Request;

/// Bytes of a batch, about, at most.
const BATCH: usize = 8 << 20;
/// The same, of members that do not wait for their devices, where rows are written once.
const BATCH_ONCE: usize = 2 << 20;
/// Batches whose blocks are read at once, at most.
const READING: usize = 32;
/// Requests of such a batch that continue no other one, at most: a large one would hold up those of it that are ready, and the members have the
/// same step of all of them to do at once.
const ALONE: usize = 8;
/// Ends of requests that are remembered, to see which ones continue others.
const ENDS: usize = 64;
/// Requests of so many bytes have whole stripes without those that follow them.
pub(crate) const LONG: u64 = 512 << 10;

/// A change of a virtual drive; positions are bytes from its start.
pub(crate) struct Change {
    pub(crate) volume: Arc<Volume>,
    pub(crate) at: u64,
    pub(crate) what: What,
}

pub(crate) enum What {
    Write(Bytes),
    Zero(u64),
}

impl Change {
    pub(crate) fn len(&self) -> u64 {
        match &self.what {
            What::Write(data) => data.len() as u64,
            What::Zero(len) => *len,
        }
    }

    /// Bytes that it takes in a batch.
    fn weight(&self) -> usize {
        match &self.what {
            What::Write(data) => data.len(),
            What::Zero(_) => BLOCK,
        }
    }

    /// The part of it that is at `at` of the group.
    pub(crate) fn request(&self, run: &Run, at: u64) -> Request<'_> {
        match &self.what {
            What::Write(data) => {
                Request::Write { at, data: &data[run.from as usize..(run.from + run.len) as usize] }
            }
            What::Zero(_) => Request::Zero { at, len: run.len },
        }
    }

    pub(crate) fn is_write(&self) -> bool {
        matches!(self.what, What::Write(_))
    }
}

/// What the thread of a request is to do.
pub(crate) enum State {
    Waits,
    /// It collects the next batch.
    Leads,
    Answered(Result<(), Error>),
}

/// A change that was asked for.
pub(crate) struct Asked {
    pub(crate) change: Change,
    /// It begins where another one ended not long ago, and more may follow: it is better together with these.
    continues: bool,
    pub(crate) state: Mutex<State>,
    pub(crate) changed: Condvar,
}

impl Asked {
    pub(crate) fn becomes(&self, state: State) {
        *self.state.lock() = state;
        self.changed.notify_one();
    }
}

/// Requests of a batch, with what became of each.
pub(crate) type Results = Vec<(Arc<Asked>, Result<(), Error>)>;

/// See the module.
#[derive(Default)]
pub(crate) struct Queue {
    pub(crate) waiting: VecDeque<Arc<Asked>>,
    /// A thread collects a batch.
    leading: bool,
    /// The next turn that is given, and the one that is taken now.
    next: u64,
    pub(crate) now: u64,
    /// Turns that were given and are not over: what their owners wait for, and whether they want the group alone.
    turns: BTreeMap<u64, (Arc<Condvar>, bool)>,
    /// Batches that were collected and are not staged, and those that are not answered.
    pub(crate) reading: usize,
    pub(crate) open: usize,
    /// Where the last requests ended.
    ends: VecDeque<u64>,
    /// Members wait for their devices.
    pub(crate) waits: bool,
    /// Rows may be written once.
    pub(crate) once: bool,
}

impl Queue {
    /// An empty one of a group whose members wait for their devices, or not, and whose rows may be written once, or not.
    pub(crate) fn new(waits: bool, once: bool) -> Queue {
        Queue { waits, once, ..Queue::default() }
    }

    /// Adds a change.
    pub(crate) fn add(&mut self, change: Change) -> Arc<Asked> {
        let from = change.volume.start * BLOCK as u64 + change.at;
        let continues = change.len() < LONG && self.ends.contains(&from);
        self.ends.push_back(from.saturating_add(change.len()));
        if self.ends.len() > ENDS {
            self.ends.pop_front();
        }
        let (state, changed) = (Mutex::new(State::Waits), Condvar::new());
        let asked = Arc::new(Asked { change, continues, state, changed });
        self.waiting.push_back(asked.clone());
        self.appoint();
        asked
    }

    /// Lets the thread of the oldest request lead, if none does.
    fn appoint(&mut self) {
        if !self.leading
            && let Some(first) = self.waiting.front()
        {
            self.leading = true;
            first.becomes(State::Leads);
        }
    }

    /// Gives a turn, and what tells that it has come.
    pub(crate) fn turn(&mut self, alone: bool) -> (u64, Arc<Condvar>) {
        let (number, come) = (self.next, Arc::new(Condvar::new()));
        self.next += 1;
        self.turns.insert(number, (come.clone(), alone));
        (number, come)
    }

    /// Ends the turn that is taken now.
    pub(crate) fn end_turn(&mut self) {
        self.turns.remove(&self.now);
        self.now += 1;
        if let Some((come, _)) = self.turns.get(&self.now) {
            come.notify_all();
        }
    }

    /// The turn that will be given next.
    pub(crate) fn next_turn(&self) -> u64 {
        self.next
    }

    /// Whether a leader should collect its batch now; turns from `since` on were given after it began to lead.
    pub(crate) fn may_collect(&self, since: u64) -> bool {
        if self.turns.range(..since).any(|(_, (_, alone))| *alone) {
            return false;
        }
        self.open == 0 || self.reading < READING && !self.waiting.iter().any(|asked| asked.continues)
    }

    /// The oldest requests that wait.
    pub(crate) fn collect(&mut self) -> Vec<Arc<Asked>> {
        let (mut out, mut bytes, mut alone) = (Vec::new(), 0, 0);
        // One goes in place while the next one is staged.
        let most = if self.once && !self.waits { BATCH_ONCE } else { BATCH };
        while bytes < most
            && (alone < ALONE || !self.waits)
            && let Some(asked) = self.waiting.pop_front()
        {
            bytes += asked.change.weight();
            alone += usize::from(!asked.continues);
            out.push(asked);
        }
        self.reading += 1;
        self.open += 1;
        self.leading = false;
        self.appoint();
        out
    }
}
