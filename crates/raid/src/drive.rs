//! A group that several threads use at once.
//!
//! What changes the group goes through [`crate::flow`]: requests in batches, of which several are under way, and everything else alone. Reads only
//! plan with the group in hand.
//!
//! Invariants: a request is answered after its batch was committed; whoever has the group in hand for something else than a batch has it while no
//! batch is under way. A panic with the group in hand stops the group: what is in memory may be one half of a change, and what was answered is
//! on the members.
//!
//! Must not depend on: exports.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::thread;

use parking_lot::MutexGuard;

use crate::Error;
use crate::flow::Flow;
use crate::geometry::BLOCK;
use crate::group::Group;
use crate::queue::{Change, What};
use crate::read::ReadPlan;
use crate::superblock::{Policy, Volume, VolumeLimits};
use crate::thin_state::Run;

/// The group, of one thread alone.
pub(crate) struct InHand<'a> {
    pub(crate) group: MutexGuard<'a, Group>,
    /// The thread was in a panic already.
    panicking: bool,
}

impl<'a> InHand<'a> {
    pub(crate) fn new(group: MutexGuard<'a, Group>) -> InHand<'a> {
        InHand { group, panicking: thread::panicking() }
    }
}

impl Deref for InHand<'_> {
    type Target = Group;

    fn deref(&self) -> &Group {
        &self.group
    }
}

impl DerefMut for InHand<'_> {
    fn deref_mut(&mut self) -> &mut Group {
        &mut self.group
    }
}

impl Drop for InHand<'_> {
    fn drop(&mut self) {
        if thread::panicking() && !self.panicking {
            self.group.stop_for(panicked());
        }
    }
}

pub(crate) fn panicked() -> Error {
    Error::State("the group has stopped, because executing a request panicked".into())
}

/// A group that can be shared.
pub struct Shared {
    flow: Arc<Flow>,
}

impl Drop for Shared {
    /// Nobody writes to the members any more.
    fn drop(&mut self) {
        self.flow.end();
    }
}

impl Shared {
    /// Shares a group.
    #[must_use]
    pub fn new(group: Group) -> Arc<Shared> {
        Arc::new(Shared { flow: Flow::new(group) })
    }

    /// Runs `work` with the group, alone: while no batch is under way. Whoever waits for the group gets it next, so that background work
    /// that calls this again and again does not keep requests out.
    pub fn with<T>(&self, work: impl FnOnce(&mut Group) -> T) -> T {
        self.flow.alone(work)
    }

    /// Looks at the group, also while batches are under way.
    pub fn look<T>(&self, work: impl FnOnce(&Group) -> T) -> T {
        work(&self.flow.in_hand())
    }

    /// As [`Group::drop_gone`], also while batches are under way: members may fail at any time.
    ///
    /// # Errors
    /// As [`Group::drop_gone`].
    pub fn drop_gone(&self) -> Result<Vec<usize>, Error> {
        self.flow.in_hand().drop_gone()
    }

    /// The virtual drive of a name.
    #[must_use]
    pub fn volume(self: &Arc<Shared>, name: &str) -> Option<VirtualDrive> {
        let volume =
            self.look(|group| group.superblock().volumes.iter().find(|v| v.name == name).cloned())?;
        Some(VirtualDrive { shared: self.clone(), volume: Arc::new(volume) })
    }

    /// How many changes wait.
    #[cfg(test)]
    pub(crate) fn waiting(&self) -> usize {
        self.flow.waiting()
    }

    /// How many changes are collected and not staged.
    #[cfg(test)]
    pub(crate) fn coming(&self) -> usize {
        self.flow.coming()
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

    /// What its clients get at most, as it was when it was asked for.
    #[must_use]
    pub fn limits(&self) -> VolumeLimits {
        self.volume.limits
    }

    /// Reads.
    ///
    /// # Errors
    /// As [`Group::read`]; [`Error::Damaged`].
    pub fn read(&self, at: u64, out: &mut [u8]) -> Result<(), Error> {
        let (runs, plans) = {
            let mut group = self.shared.flow.in_hand();
            let runs = runs(&group, &self.volume, at, out.len() as u64)?;
            let plans =
                runs.iter().map(|run| run.at.map(|at| group.plan_read(at, run.len as usize)).transpose());
            let plans: Vec<Option<ReadPlan>> = plans.collect::<Result<_, _>>()?;
            (runs, plans)
        };
        // Meanwhile others read and write. What they change does not match the plan, and is read again with the group in hand.
        let (mut after, mut left) = (0, Vec::new());
        for (run, plan) in runs.iter().zip(&plans) {
            let to = &mut out[run.from as usize..(run.from + run.len) as usize];
            let Some(plan) = plan else {
                to.fill(0);
                continue;
            };
            let done = plan.run(to);
            after = after.max(plan.after);
            if !done.is_whole() {
                left.push((run, plan, done));
            }
        }
        if left.is_empty() {
            return self.shared.flow.until_durable(after);
        }
        let mut group = self.shared.flow.in_hand();
        // It may have been deleted, and its blocks be those of another one.
        let now = self::runs(&group, &self.volume, at, out.len() as u64)?;
        if now == runs {
            for (run, plan, done) in left {
                let to = &mut out[run.from as usize..(run.from + run.len) as usize];
                after = after.max(group.finish_read(plan, done, to)?);
            }
        } else {
            // So may a part of a thin one.
            for run in now {
                let to = &mut out[run.from as usize..(run.from + run.len) as usize];
                match run.at {
                    Some(at) => after = after.max(group.read_now(at, to)?),
                    None => to.fill(0),
                }
            }
        }
        drop(group);
        self.shared.flow.until_durable(after)
    }

    /// Writes. Durable when it returns under the policy `journal`, else after [`VirtualDrive::flush`].
    ///
    /// # Errors
    /// As [`Group::write`]; [`Error::NoSpace`] and [`Error::Damaged`] if it is thin.
    pub fn write(&self, at: u64, data: Vec<u8>) -> Result<(), Error> {
        self.shared.flow.change(Change { volume: self.volume.clone(), at, what: What::Write(data.into()) })
    }

    /// Makes a range read as zeros; whole rows give their space back, and of a thin one whole pieces (1 MiB) their room.
    ///
    /// # Errors
    /// As [`Group::write`]; [`Error::Damaged`].
    pub fn zero(&self, at: u64, len: u64) -> Result<(), Error> {
        self.shared.flow.change(Change { volume: self.volume.clone(), at, what: What::Zero(len) })
    }

    /// Makes everything that was answered durable.
    ///
    /// # Errors
    /// [`Error::Failed`].
    pub fn flush(&self) -> Result<(), Error> {
        let journaled = self.shared.look(|group| group.superblock().policy == Policy::Journal);
        // Without a journal everything that is under way has to be in place.
        if journaled { self.shared.flow.in_hand().flush() } else { self.shared.with(Group::flush) }
    }

    /// The pieces of a range that were never written or were discarded, and those that hold data: lengths in bytes, true
    /// for data, at most `most` pieces, from `at` on; blocks that a range ends in count whole.
    ///
    /// # Errors
    /// [`Error::Range`], [`Error::State`].
    pub fn allocated(&self, at: u64, len: u64, most: usize) -> Result<Vec<(u64, bool)>, Error> {
        let mut group = self.shared.flow.in_hand();
        let mut out: Vec<(u64, bool)> = Vec::new();
        for run in runs(&group, &self.volume, at, len)? {
            let pieces = match run.at {
                Some(at) => group.allocated(at, run.len, most)?,
                None => vec![(run.len, false)],
            };
            let seen: u64 = pieces.iter().map(|(len, _)| len).sum();
            for (len, data) in pieces {
                let full = out.len() == most;
                match out.last_mut() {
                    Some((last, d)) if *d == data => *last += len,
                    _ if full => return Ok(out),
                    _ => out.push((len, data)),
                }
            }
            if seen < run.len {
                return Ok(out);
            }
        }
        Ok(out)
    }

    /// Bytes of the group that it has, if it is thin; none: it has all of its size from the beginning, or it was deleted.
    #[must_use]
    pub fn given(&self) -> Option<u64> {
        self.volume.thin?;
        self.shared.look(|group| group.given(&self.volume))
    }
}

/// Where a range is in the group. A virtual drive that was deleted, or whose name another one has, is refused; one that has grown has
/// the size for this caller that it had before, and one that was made smaller the size that it has now.
pub(crate) fn runs(group: &Group, volume: &Volume, at: u64, len: u64) -> Result<Vec<Run>, Error> {
    // The start first: there may be many, and each request looks.
    let same = |v: &&Volume| v.start == volume.start && v.name == volume.name && v.thin == volume.thin;
    let Some(now) = group.superblock().volumes.iter().find(same) else {
        return Err(Error::State(format!("the virtual drive {:?} was deleted", volume.name)));
    };
    let size = volume.blocks.min(now.blocks) * BLOCK as u64;
    match at.checked_add(len) {
        Some(end) if end <= size && volume.thin.is_some() => group.translate(volume, at, len),
        Some(end) if end <= size => {
            Ok(vec![Run { from: 0, len, at: Some(volume.start * BLOCK as u64 + at) }])
        }
        _ => Err(Error::Range { at, len, size }),
    }
}
