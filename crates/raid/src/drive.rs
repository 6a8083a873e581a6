//! A group that several threads use at once.
//!
//! Requests that change something wait in a queue. One of their threads takes all that wait and executes them as one batch, with one
//! flush of the journals for all of them; the others wait for their result, not for the group, so that the next batch has all that came
//! meanwhile.
//!
//! Invariants: a request is answered after its batch was committed; the queue is bounded by the number of callers; the lock of the queue
//! is never held while the group is waited for. A panic with the group in hand stops the group: what is in memory may be one half of a
//! change, and what was answered is on the members.
//!
//! Must not depend on: exports.

use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread;

use parking_lot::{Condvar, Mutex, MutexGuard};

use crate::Error;
use crate::geometry::BLOCK;
use crate::group::Group;
use crate::merge::{Merged, merged};
use crate::superblock::Volume;
use crate::write::Request;

/// Bytes of a batch, about, at most.
const BATCH: usize = 8 << 20;

/// A change of a virtual drive; positions are bytes from its start.
struct Change {
    volume: Arc<Volume>,
    at: u64,
    what: What,
}

enum What {
    Write(Vec<u8>),
    Zero(u64),
}

impl Change {
    fn len(&self) -> u64 {
        match &self.what {
            What::Write(data) => data.len() as u64,
            What::Zero(len) => *len,
        }
    }
}

#[derive(Default)]
struct Queue {
    next: u64,
    waiting: BTreeMap<u64, Change>,
    done: BTreeMap<u64, Result<(), Error>>,
    /// A thread executes a batch.
    leading: bool,
}

/// A batch on its way. Its end gives the results, and lets another thread begin the next one, also after a panic.
struct Leading<'a> {
    shared: &'a Shared,
    results: BTreeMap<u64, Result<(), Error>>,
}

impl Drop for Leading<'_> {
    fn drop(&mut self) {
        let mut queue = self.shared.queue.lock();
        queue.done.append(&mut self.results);
        queue.leading = false;
        self.shared.done.notify_all();
    }
}

/// The group, of one thread alone.
struct InHand<'a> {
    /// None: it was given back.
    group: Option<MutexGuard<'a, Group>>,
    /// Whoever waits gets it next.
    fair: bool,
    /// The thread was in a panic already.
    panicking: bool,
}

impl Deref for InHand<'_> {
    type Target = Group;

    fn deref(&self) -> &Group {
        self.group.as_ref().expect("it is given back at the end")
    }
}

impl DerefMut for InHand<'_> {
    fn deref_mut(&mut self) -> &mut Group {
        self.group.as_mut().expect("it is given back at the end")
    }
}

impl Drop for InHand<'_> {
    fn drop(&mut self) {
        let Some(mut group) = self.group.take() else { return };
        if thread::panicking() && !self.panicking {
            group.stopped.get_or_insert_with(panicked);
        }
        if self.fair {
            MutexGuard::unlock_fair(group);
        }
    }
}

fn panicked() -> Error {
    Error::State("the group has stopped, because executing a request panicked".into())
}

/// A group that can be shared.
pub struct Shared {
    group: Mutex<Group>,
    queue: Mutex<Queue>,
    /// A batch has ended.
    done: Condvar,
}

impl Shared {
    /// Shares a group.
    #[must_use]
    pub fn new(group: Group) -> Arc<Shared> {
        Arc::new(Shared { group: Mutex::new(group), queue: Mutex::default(), done: Condvar::new() })
    }

    /// Runs `work` with the group, alone. Whoever waits for the group gets it next, so that background work that calls this
    /// again and again does not keep requests out.
    pub fn with<T>(&self, work: impl FnOnce(&mut Group) -> T) -> T {
        work(&mut self.in_hand(true))
    }

    fn in_hand(&self, fair: bool) -> InHand<'_> {
        InHand { group: Some(self.group.lock()), fair, panicking: thread::panicking() }
    }

    /// The virtual drive of a name.
    #[must_use]
    pub fn volume(self: &Arc<Shared>, name: &str) -> Option<VirtualDrive> {
        let volume = self.in_hand(false).superblock().volumes.iter().find(|v| v.name == name).cloned()?;
        Some(VirtualDrive { shared: self.clone(), volume: Arc::new(volume) })
    }

    fn change(&self, change: Change) -> Result<(), Error> {
        let mut queue = self.queue.lock();
        let ticket = queue.next;
        queue.next += 1;
        queue.waiting.insert(ticket, change);
        loop {
            if let Some(result) = queue.done.remove(&ticket) {
                return result;
            }
            if queue.leading {
                self.done.wait(&mut queue);
                continue;
            }
            queue.leading = true;
            drop(queue);
            self.lead();
            queue = self.queue.lock();
        }
    }

    /// Executes the requests that wait, as the only thread that does.
    fn lead(&self) {
        let mut leading = Leading { shared: self, results: BTreeMap::new() };
        let mut batch = Vec::new();
        let done = catch_unwind(AssertUnwindSafe(|| {
            let mut group = self.in_hand(true);
            // What came while others had the group is in the batch too.
            batch = self.next_batch();
            execute(&mut group, &batch)
        }));
        leading.results = done.unwrap_or_else(|_| {
            // Nobody knows which of them were executed.
            batch.iter().map(|(ticket, _)| (*ticket, Err(panicked()))).collect()
        });
    }

    /// How many changes wait.
    #[cfg(test)]
    pub(crate) fn waiting(&self) -> usize {
        self.queue.lock().waiting.len()
    }

    /// The oldest requests that wait.
    fn next_batch(&self) -> Vec<(u64, Change)> {
        let mut queue = self.queue.lock();
        let (mut out, mut bytes) = (Vec::new(), 0);
        while bytes < BATCH
            && let Some((ticket, change)) = queue.waiting.pop_first()
        {
            bytes += match &change.what {
                What::Write(data) => data.len(),
                What::Zero(_) => BLOCK,
            };
            out.push((ticket, change));
        }
        out
    }
}

/// A virtual drive that several threads use at once. All positions are bytes from its start.
#[derive(Clone)]
pub struct VirtualDrive {
    shared: Arc<Shared>,
    volume: Arc<Volume>,
}

impl VirtualDrive {
    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.volume.name
    }

    /// Its bytes.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.volume.blocks * BLOCK as u64
    }

    /// Reads.
    ///
    /// # Errors
    /// As [`Group::read`].
    pub fn read(&self, at: u64, out: &mut [u8]) -> Result<(), Error> {
        let plan = {
            let mut group = self.shared.in_hand(false);
            let at = place(&group, &self.volume, at, out.len() as u64)?;
            group.plan_read(at, out.len())?
        };
        // Meanwhile others read and write. What they change does not match the plan, and is read again with the group in hand.
        let done = plan.run(out);
        if done.is_whole() {
            return Ok(());
        }
        let mut group = self.shared.in_hand(false);
        // It may have been deleted, and its blocks be those of another one.
        place(&group, &self.volume, at, out.len() as u64)?;
        group.finish_read(&plan, done, out)
    }

    /// Writes. Durable when it returns under the policy `journal`, else after [`VirtualDrive::flush`].
    ///
    /// # Errors
    /// As [`Group::write`].
    pub fn write(&self, at: u64, data: Vec<u8>) -> Result<(), Error> {
        self.shared.change(Change { volume: self.volume.clone(), at, what: What::Write(data) })
    }

    /// Makes a range read as zeros; whole rows give their space back.
    ///
    /// # Errors
    /// As [`Group::write`].
    pub fn zero(&self, at: u64, len: u64) -> Result<(), Error> {
        self.shared.change(Change { volume: self.volume.clone(), at, what: What::Zero(len) })
    }

    /// Makes everything that was answered durable.
    ///
    /// # Errors
    /// [`Error::Failed`].
    pub fn flush(&self) -> Result<(), Error> {
        self.shared.in_hand(false).flush()
    }

    /// The pieces of a range that were never written or were discarded, and those that hold data: lengths in bytes, true
    /// for data, at most `most` pieces, from `at` on; blocks that a range ends in count whole.
    ///
    /// # Errors
    /// [`Error::Range`], [`Error::State`].
    pub fn allocated(&self, at: u64, len: u64, most: usize) -> Result<Vec<(u64, bool)>, Error> {
        let mut group = self.shared.in_hand(false);
        let at = place(&group, &self.volume, at, len)?;
        group.allocated(at, len, most)
    }
}

/// Executes a batch. The results are by ticket.
fn execute(group: &mut Group, batch: &[(u64, Change)]) -> BTreeMap<u64, Result<(), Error>> {
    let mut results = BTreeMap::new();
    let (mut tickets, mut requests) = (Vec::new(), Vec::new());
    for (ticket, change) in batch {
        // Whether the virtual drive is still there is known only with the group in hand.
        match place(group, &change.volume, change.at, change.len()) {
            Err(e) => drop(results.insert(*ticket, Err(e))),
            Ok(at) => {
                tickets.push(*ticket);
                requests.push(match &change.what {
                    What::Write(data) => Request::Write { at, data },
                    What::Zero(len) => Request::Zero { at, len: *len },
                });
            }
        }
    }
    results.extend(tickets.into_iter().zip(apply(group, &requests)));
    results
}

/// Executes requests that wait together, those that continue each other as one.
fn apply(group: &mut Group, requests: &[Request<'_>]) -> Vec<Result<(), Error>> {
    let merged = merged(requests);
    let all: Vec<Request<'_>> = merged.iter().map(Merged::request).collect();
    let mut results: Vec<Result<(), Error>> = vec![Ok(()); requests.len()];
    let mut again: Vec<usize> = Vec::new();
    for (merged, result) in merged.iter().zip(group.apply(&all)) {
        match result {
            // Only some of them need what is lost.
            Err(Error::Lost { .. }) if merged.of.len() > 1 => again.extend(merged.of.iter()),
            result => merged.of.iter().for_each(|place| results[*place] = result.clone()),
        }
    }
    let alone: Vec<Request<'_>> = again.iter().map(|place| requests[*place]).collect();
    if !alone.is_empty() {
        again.iter().zip(group.apply(&alone)).for_each(|(place, result)| results[*place] = result);
    }
    results
}

/// The position in the group. A virtual drive that was deleted, or whose name another one has, is refused.
fn place(group: &Group, volume: &Volume, at: u64, len: u64) -> Result<u64, Error> {
    if !group.superblock().volumes.contains(volume) {
        return Err(Error::State(format!("the virtual drive {:?} was deleted", volume.name)));
    }
    let size = volume.blocks * BLOCK as u64;
    match at.checked_add(len) {
        Some(end) if end <= size => Ok(volume.start * BLOCK as u64 + at),
        _ => Err(Error::Range { at, len, size }),
    }
}
