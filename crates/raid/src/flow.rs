//! The order of everything that changes a shared group, and the threads that execute batches.
//!
//! Requests wait in a queue. The thread of the oldest one leads: it collects what waits to a batch, and then the next one leads. It lets the blocks
//! of its batch be read, stages it, and takes what is staged to the journals unless another thread does that already. Blocks go in place on
//! threads of the pool. If no member waits for its device, a batch is executed as a whole, and what comes meanwhile is the
//! next one; only rows that are written once go in place while the next one is staged.
//!
//! While enough is being read for, what is staged waits for it, so that the journals get fewer requests ([`Group::may_gather`]). Each thread that
//! changes what this depends on looks whether a request to the journals should begin; one more ([`Flow::gather`]) ends the wait after a time.
//!
//! Batches for which was read, and whatever wants the group alone, have turns in the order in which they asked for one. A batch gives its turn back
//! when it is staged; who wants the group alone waits until nothing is under way, and gives it back at the end.
//!
//! Invariants: a request is answered after its batch is durable, without a journal after it is in place; the queue is bounded by the number of callers;
//! the lock of the queue is never held while the group is waited for. A panic stops the group, and everybody hears of it.
//!
//! Must not depend on: exports, what a batch does to the members.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::{Condvar, Mutex, MutexGuard};

use crate::Error;
use crate::content::Old;
use crate::drive::{InHand, panicked, runs};
use crate::group::Group;
use crate::merge::{Merged, merged};
use crate::pipeline::{Fits, Putting};
use crate::pool::Pool;
use crate::prefetch::Places;
use crate::queue::{Asked, Change, Queue, Results, State, What};
use crate::superblock::Volume;
use crate::write::Request;

/// Data of requests of so many bytes is not copied: to copy a few blocks costs less than to look for them.
const SHARED: usize = 64 << 10;

/// See the module.
pub(crate) struct Flow {
    group: Mutex<Group>,
    /// Something that was under way has ended; with the lock of the group.
    progress: Condvar,
    /// The journals need not wait for batches that are being read for; with the lock of the group.
    gathered: Condvar,
    queue: Mutex<Queue>,
    /// The leader may be able to collect its batch; with the lock of the queue.
    collect: Condvar,
    /// Batches that are staged and not answered, by number.
    staged: Mutex<BTreeMap<u64, Results>>,
    /// Requests of batches that are collected and not staged.
    coming: AtomicUsize,
}

/// A turn. Its end lets the next one begin.
struct Turn<'a> {
    flow: &'a Flow,
    number: u64,
    come: Arc<Condvar>,
}

impl<'a> Turn<'a> {
    /// Waits for it.
    fn wait(&self) {
        let mut queue = self.flow.queue.lock();
        self.come.wait_while(&mut queue, |queue| queue.now != self.number);
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        // After a panic it may not have been its turn yet.
        self.wait();
        self.flow.queue.lock().end_turn();
        self.flow.collect.notify_one();
    }
}

/// A batch of so many requests that is collected and not staged yet.
struct Reading<'a>(&'a Flow, usize);

impl<'a> Reading<'a> {
    fn new(flow: &'a Flow, batch: &[Arc<Asked>]) -> Reading<'a> {
        flow.coming.fetch_add(batch.len(), Ordering::Relaxed);
        Reading(flow, batch.len())
    }
}

impl Drop for Reading<'_> {
    fn drop(&mut self) {
        self.0.coming.fetch_sub(self.1, Ordering::Relaxed);
        self.0.queue.lock().reading -= 1;
        self.0.collect.notify_one();
    }
}

impl Flow {
    pub(crate) fn new(group: Group) -> Arc<Flow> {
        let queue = Queue::new(group.waits(), group.superblock.intents);
        Arc::new(Flow {
            group: Mutex::new(group),
            progress: Condvar::new(),
            gathered: Condvar::new(),
            queue: Mutex::new(queue),
            collect: Condvar::new(),
            staged: Mutex::default(),
            coming: AtomicUsize::new(0),
        })
    }

    /// The group, also while batches are under way.
    pub(crate) fn in_hand(&self) -> InHand<'_> {
        InHand::new(self.group.lock())
    }

    fn turn(&self, alone: bool) -> Turn<'_> {
        let (number, come) = self.queue.lock().turn(alone);
        Turn { flow: self, number, come }
    }

    /// Runs `work` with the group while nothing is under way.
    pub(crate) fn alone<T>(self: &Arc<Flow>, work: impl FnOnce(&mut Group) -> T) -> T {
        let turn = self.turn(true);
        turn.wait();
        let mut group = self.in_hand();
        self.until_idle(&mut group.group);
        let done = work(&mut group);
        let (waits, once) = (group.waits(), group.superblock.intents);
        drop(group);
        let mut queue = self.queue.lock();
        (queue.waits, queue.once) = (waits, once);
        done
    }

    /// Waits until nothing is under way, and lets the journals wait for nothing meanwhile.
    fn until_idle(self: &Arc<Flow>, group: &mut MutexGuard<'_, Group>) {
        if group.is_idle() {
            return;
        }
        group.under_way.hurried += 1;
        self.gathered.notify_all();
        if group.wants_journal() {
            let pool = group.pool.clone();
            MutexGuard::unlocked(group, || self.spawn_journal(&pool));
        }
        self.progress.wait_while(group, |group| !group.is_idle());
        group.under_way.hurried -= 1;
    }

    /// Waits until nothing is under way.
    pub(crate) fn end(self: &Arc<Flow>) {
        self.until_idle(&mut self.group.lock());
    }

    /// Waits until a batch is durable.
    pub(crate) fn until_durable(&self, batch: u64) -> Result<(), Error> {
        if batch == 0 {
            return Ok(());
        }
        let mut group = self.group.lock();
        self.progress.wait_while(&mut group, |group| !group.counts(batch));
        group.running()
    }

    /// Executes a change.
    pub(crate) fn change(self: &Arc<Flow>, change: Change) -> Result<(), Error> {
        let asked = self.queue.lock().add(change);
        let mut state = asked.state.lock();
        loop {
            match std::mem::replace(&mut *state, State::Waits) {
                State::Waits => asked.changed.wait(&mut state),
                State::Answered(result) => return result,
                State::Leads => {
                    drop(state);
                    self.lead();
                    state = asked.state.lock();
                }
            }
        }
    }

    /// Collects a batch and executes it, at least until its steps are of others.
    fn lead(self: &Arc<Flow>) {
        let mut queue = self.queue.lock();
        if queue.waits {
            let since = queue.next_turn();
            self.collect.wait_while(&mut queue, |queue| !queue.may_collect(since));
            let batch = queue.collect();
            drop(queue);
            let reading = Reading::new(self, &batch);
            self.guarded(&batch, || self.in_steps(&batch, reading));
            return;
        }
        drop(queue);
        let turn = self.turn(false);
        turn.wait();
        let mut group = self.in_hand();
        if group.superblock.intents {
            self.progress.wait_while(&mut group.group, |group| group.is_full());
        } else {
            self.until_idle(&mut group.group);
        }
        // What came while others had the group is in the batch too.
        let batch = self.queue.lock().collect();
        let reading = Reading::new(self, &batch);
        self.guarded(&batch, || self.at_once(&batch, group, (turn, reading)));
    }

    /// Executes a batch as a whole, but lets rows that are written once go in place while the next batch is staged.
    fn at_once(self: &Arc<Flow>, batch: &[Arc<Asked>], mut group: InHand<'_>, turn: (Turn<'_>, Reading<'_>)) {
        let bytes = batch.iter().map(|asked| asked.change.len()).sum();
        let once = group.may_write_once(bytes) && self.fits_soon(&mut group, batch) == Fits::Once;
        if !once {
            self.until_idle(&mut group.group);
        }
        self.finish(batch, once, group, turn);
    }

    /// Stages a batch and lets things go on, or executes it as a whole; then nothing is under way.
    fn finish(
        self: &Arc<Flow>,
        batch: &[Arc<Asked>],
        staged: bool,
        mut group: InHand<'_>,
        turn: (Turn<'_>, Reading<'_>),
    ) {
        if staged {
            self.stage(&mut group, batch);
            drop(turn);
            if self.go_on(group).is_some() {
                self.journal();
            }
        } else {
            let results = execute(&mut group, batch);
            drop(group);
            self.answer(results);
            drop(turn);
        }
    }

    /// Answers a batch that panics before it is staged, or while that is not known.
    fn guarded(&self, batch: &[Arc<Asked>], work: impl FnOnce()) {
        if catch_unwind(AssertUnwindSafe(work)).is_ok() {
            return;
        }
        let mut group = self.group.lock();
        group.stop_for(panicked());
        let known = self.settle_accounts(&mut group);
        drop(group);
        self.progress.notify_all();
        // Nobody knows whether it was executed.
        if !batch.iter().all(|asked| known.iter().any(|k| Arc::ptr_eq(k, asked))) {
            self.answer(batch.iter().map(|asked| (asked.clone(), Err(panicked()))).collect());
        }
    }

    /// Reads, stages, and takes to the journals.
    fn in_steps(self: &Arc<Flow>, batch: &[Arc<Asked>], reading: Reading<'_>) {
        let others = self.queue.lock().reading > 1;
        let (places, old) = self.read(batch, None, Old::new(), others);
        // What changed since it was read: without a turn, and ahead of those who read for the first time, as others wait for it.
        let (places, old) = self.read(batch, Some(places), old, false);
        let turn = self.turn(false);
        turn.wait();
        let mut group = self.in_hand();
        self.progress.wait_while(&mut group.group, |group| group.is_full());
        drop(group);
        let (_, old) = self.read(batch, Some(places), old, false);
        let mut group = self.in_hand();
        let staged = self.fits_soon(&mut group, batch).is_staged();
        if staged {
            group.old = old;
        }
        self.finish(batch, staged, group, (turn, reading));
    }

    /// Stages a batch.
    fn stage(&self, group: &mut Group, batch: &[Arc<Asked>]) {
        let number = group.open_batch();
        share(group, batch);
        let results = apply_all(group, batch, |group, requests, _| group.stage_all(requests));
        group.shared.clear();
        group.old.clear();
        group.close_batch();
        self.staged.lock().insert(number, results);
    }

    /// Takes what is staged to the journals when it has waited for others for so long that it should not any more.
    fn gather(self: &Arc<Flow>) {
        let mut group = self.group.lock();
        let late = loop {
            let (durable, longest) = (group.durable(), group.gathers.1);
            let late = self.gathered.wait_for(&mut group, longest).timed_out();
            let gathers = self.gathers(&group);
            if late && gathers && group.durable() == durable {
                break true;
            }
            // While a request to the journals is under way, others may come to wait behind it.
            if !gathers && (!late || !group.under_way.journaling) {
                break false;
            }
        };
        group.under_way.gathering = false;
        drop(group);
        if late {
            self.journal();
        }
    }

    /// Whether the next request to the journals should wait for batches that are being read for.
    fn gathers(&self, group: &Group) -> bool {
        group.wants_journal() && group.may_gather(self.coming.load(Ordering::Relaxed))
    }

    /// Reads what a batch needs and is not here; in turn with others, if so.
    fn read(&self, batch: &[Arc<Asked>], places: Option<Places>, old: Old, in_turn: bool) -> (Places, Old) {
        let mut group = self.in_hand();
        if group.running().is_err() {
            return (Places::new(), old);
        }
        let places = places.unwrap_or_else(|| {
            let mut places = Places::new();
            apply_all(&mut group, batch, |group, requests, first| {
                places.extend(if first { group.needed(requests) } else { Places::new() });
                vec![Ok(()); requests.len()]
            });
            places
        });
        let mut fetch = group.plan_fetch(&places, old);
        if !fetch.is_empty() {
            drop(group);
            fetch.run(in_turn);
            group = self.in_hand();
        }
        let old = group.take_fetched(fetch);
        (places, old)
    }

    /// Whether a batch can be staged, at the latest when nothing is under way any more: else nothing is.
    fn fits_soon(self: &Arc<Flow>, group: &mut InHand<'_>, batch: &[Arc<Asked>]) -> Fits {
        let mut fits = self.fits(group, batch);
        if !fits.is_staged() {
            self.until_idle(&mut group.group);
            if fits == Fits::WithRoom && group.running().is_ok() && group.checkpoint().is_ok() {
                fits = self.fits(group, batch);
            }
        }
        fits
    }

    fn fits(&self, group: &mut Group, batch: &[Arc<Asked>]) -> Fits {
        let writes = thin_writes(group, batch);
        if writes.iter().any(|(_, volume, at, len)| group.needs_room(volume, *at, *len)) {
            return Fits::Alone;
        }
        let mut fits = Fits::Yes;
        apply_all(group, batch, |group, requests, _| {
            // A request to a thin virtual drive may have several parts.
            fits = group.fits(requests, requests.len() < batch.len() || !writes.is_empty());
            vec![Ok(()); requests.len()]
        });
        fits
    }

    /// Takes what is staged to the journals, once. If more was staged meanwhile, another thread does the same.
    fn journal(self: &Arc<Flow>) {
        let mut group = self.in_hand();
        let Some(mut journaling) = group.begin_journal() else {
            return self.journal_next(group);
        };
        drop(group);
        let done = catch_unwind(AssertUnwindSafe(|| journaling.run()));
        let mut group = self.in_hand();
        let failed = done.unwrap_or_else(|_| {
            group.stop_for(panicked());
            Vec::new()
        });
        // An error has stopped the group, and reaches everybody from there.
        let _ = group.end_journal(&journaling, failed);
        self.journal_next(group);
    }

    /// Lets things go on, and another thread take the next request to the journals.
    fn journal_next(self: &Arc<Flow>, group: InHand<'_>) {
        if let Some(pool) = self.go_on(group) {
            self.spawn_journal(&pool);
        }
    }

    fn spawn_journal(self: &Arc<Flow>, pool: &Pool) {
        let me = self.clone();
        pool.spawn(Box::new(move || me.guarded(&[], || me.journal())));
    }

    /// Lets blocks go in place that can, and answers what is done. The pool, if a request to the journals should begin.
    fn go_on(self: &Arc<Flow>, group: InHand<'_>) -> Option<Arc<Pool>> {
        let (puts, pool, journal) = self.next_puts(group);
        self.spawn(&pool, puts);
        journal.then_some(pool)
    }

    fn next_puts(self: &Arc<Flow>, mut group: InHand<'_>) -> (Vec<Putting>, Arc<Pool>, bool) {
        let mut puts = Vec::new();
        for slot in group.can_put() {
            while let Some(putting) = group.begin_put(slot) {
                puts.push(putting);
            }
        }
        self.settle_accounts(&mut group);
        let (pool, gathers) = (group.pool.clone(), self.gathers(&group));
        let journal = group.wants_journal() && !gathers;
        let begins = gathers && !std::mem::replace(&mut group.under_way.gathering, true);
        drop(group);
        self.progress.notify_all();
        if begins {
            let me = self.clone();
            pool.spawn(Box::new(move || me.guarded(&[], || me.gather())));
        }
        (puts, pool, journal)
    }

    fn spawn(self: &Arc<Flow>, pool: &Pool, puts: Vec<Putting>) {
        for putting in puts {
            let me = self.clone();
            pool.spawn(Box::new(move || me.guarded(&[], || me.put(putting))));
        }
    }

    /// Writes in place, also what can go there afterwards.
    fn put(self: &Arc<Flow>, putting: Putting) {
        let mut next = Some(putting);
        while let Some(mut putting) = next {
            let done = catch_unwind(AssertUnwindSafe(|| putting.run()));
            let mut group = self.in_hand();
            let failed = done.unwrap_or_else(|_| {
                group.stop_for(panicked());
                Vec::new()
            });
            let _ = group.end_put(&putting, failed);
            let (mut puts, pool, journal) = self.next_puts(group);
            next = puts.pop();
            self.spawn(&pool, puts);
            if journal {
                self.spawn_journal(&pool);
            }
        }
    }

    /// Answers batches that are done; all of them, if the group has stopped. The requests that were answered.
    fn settle_accounts(&self, group: &mut Group) -> Vec<Arc<Asked>> {
        let (finished, stopped) = (group.take_finished(), group.running().err());
        let mut out = Vec::new();
        let mut staged = self.staged.lock();
        for number in finished {
            out.extend(staged.remove(&number));
        }
        if let Some(error) = stopped {
            let all = std::mem::take(&mut *staged).into_values();
            let error = |(asked, result): (_, Result<(), Error>)| (asked, result.and(Err(error.clone())));
            out.extend(all.map(|results| results.into_iter().map(error).collect()));
        }
        drop(staged);
        let mut known = Vec::new();
        for results in out {
            known.extend(results.iter().map(|(asked, _)| asked.clone()));
            self.answer(results);
        }
        known
    }

    /// Answers the requests of a batch.
    fn answer(&self, results: Results) {
        for (asked, result) in results {
            asked.becomes(State::Answered(result));
        }
        let mut queue = self.queue.lock();
        queue.open = queue.open.saturating_sub(1);
        drop(queue);
        self.collect.notify_one();
    }

    /// How many changes are collected and not staged.
    #[cfg(test)]
    pub(crate) fn coming(&self) -> usize {
        self.coming.load(Ordering::Relaxed)
    }

    /// How many changes wait.
    #[cfg(test)]
    pub(crate) fn waiting(&self) -> usize {
        self.queue.lock().waiting.len()
    }
}

/// Lets the group keep parts of long writes instead of copies.
fn share(group: &mut Group, batch: &[Arc<Asked>]) {
    let data = |asked: &Arc<Asked>| match &asked.change.what {
        What::Write(data) if data.len() >= SHARED => Some(data.clone()),
        _ => None,
    };
    group.shared = batch.iter().filter_map(data).collect();
}

/// Executes a batch as a whole: thin virtual drives get room before, and what they do not need any more is taken back afterwards.
fn execute(group: &mut Group, batch: &[Arc<Asked>]) -> Results {
    let writes = thin_writes(group, batch);
    let refused = if writes.is_empty() { BTreeMap::new() } else { group.give_room(&writes) };
    share(group, batch);
    let mut results = apply_all(group, batch, |group, requests, _| group.apply(requests));
    group.shared.clear();
    #[cfg(test)]
    group.write_late();
    for (number, error) in refused {
        results[number].1 = Err(error);
    }
    take_back(group, &writes, &mut results);
    results
}

/// A write to a thin virtual drive: its number in the batch, the virtual drive, the first byte and the bytes.
type ThinWrite<'a> = (usize, &'a Volume, u64, u64);

/// Writes to thin virtual drives that are there, and inside of them.
fn thin_writes<'a>(group: &Group, batch: &'a [Arc<Asked>]) -> Vec<ThinWrite<'a>> {
    let all = batch.iter().map(|asked| &asked.change).enumerate();
    let thin = all.filter(|(_, change)| change.volume.thin.is_some() && change.is_write());
    let writes = thin.map(|(number, change)| (number, &*change.volume, change.at, change.len()));
    writes.filter(|(_, volume, at, len)| runs(group, volume, *at, *len).is_ok()).collect()
}

/// Takes pieces back that requests have made zeros as a whole, unless the same batch has written to them.
fn take_back(group: &mut Group, writes: &[ThinWrite<'_>], results: &mut [(Arc<Asked>, Result<(), Error>)]) {
    let (mut pieces, mut numbers) = (BTreeSet::new(), Vec::new());
    for (number, (asked, result)) in results.iter().enumerate() {
        let change = &asked.change;
        if change.volume.thin.is_some() && !change.is_write() && result.is_ok() {
            let whole = group.whole_pieces(&change.volume, change.at, change.len()).into_iter();
            pieces.extend(whole.map(|index| (change.volume.start, index)));
            numbers.push(number);
        }
    }
    if pieces.is_empty() {
        return;
    }
    for (_, volume, at, len) in writes {
        group.touched(*at, *len).for_each(|index| _ = pieces.remove(&(volume.start, index)));
    }
    if let Err(error) = group.take_back(&pieces) {
        numbers.into_iter().for_each(|number| results[number].1 = Err(error.clone()));
    }
}

/// Applies requests that wait together, those that continue each other as one; those of one that is lost again, each by itself.
/// `apply` is told whether it is the first time.
fn apply_all(
    group: &mut Group,
    batch: &[Arc<Asked>],
    mut apply: impl FnMut(&mut Group, &[Request<'_>], bool) -> Vec<Result<(), Error>>,
) -> Results {
    let mut results: Vec<Result<(), Error>> = vec![Ok(()); batch.len()];
    let (mut places, mut requests) = (Vec::new(), Vec::new());
    for (number, asked) in batch.iter().enumerate() {
        let change = &asked.change;
        // Whether the virtual drive is still there is known only with the group in hand.
        match runs(group, &change.volume, change.at, change.len()) {
            Err(e) => results[number] = Err(e),
            // Nothing of it is executed.
            Ok(runs) if change.is_write() && runs.iter().any(|run| run.at.is_none()) => {
                results[number] = Err(Error::NoSpace);
            }
            Ok(runs) => {
                let there = || runs.iter().filter_map(|run| Some((run, run.at?)));
                if let Err(e) = there().try_for_each(|(run, at)| group.make_consistent(at, run.len)) {
                    results[number] = Err(e);
                    continue;
                }
                for (run, at) in there() {
                    places.push(number);
                    requests.push(change.request(run, at));
                }
            }
        }
    }
    let merged = merged(&requests, group.stripe_bytes());
    let all: Vec<Request<'_>> = merged.iter().map(Merged::request).collect();
    let mut again: Vec<usize> = Vec::new();
    for (merged, result) in merged.iter().zip(apply(group, &all, true)) {
        match result {
            // Only some of them need what is lost.
            Err(Error::Lost { .. }) if merged.of.len() > 1 => again.extend(merged.of.iter()),
            Err(error) => merged.of.iter().for_each(|place| results[places[*place]] = Err(error.clone())),
            Ok(()) => {}
        }
    }
    let alone: Vec<Request<'_>> = again.iter().map(|place| requests[*place]).collect();
    if !alone.is_empty() {
        let done = apply(group, &alone, false);
        for (place, result) in again.iter().zip(done) {
            if let Err(error) = result {
                results[places[*place]] = Err(error);
            }
        }
    }
    batch.iter().cloned().zip(results).collect()
}
