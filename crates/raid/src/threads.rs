//! The batches of a rebuild on threads: each reads, verifies, has coded and writes batches of its own.
//!
//! Each thread has a worker with memory. With a coder that computes by itself, a worker has several batches under way: the oldest is
//! written when no memory is free for the next one to be read into.
//!
//! Invariants: one worker runs on the thread that calls, in the order of the batches; all batches have ended when
//! [`run`] returns.
//!
//! Must not depend on: what batches are of.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};

use ashlar_erasure::Code;

use crate::Error;
use crate::batch::{Batch, Outcome, Site};
use crate::coder::{Batching, Memory};

/// The memory of one thread.
pub(crate) struct Worker {
    free: Vec<Box<dyn Memory>>,
}

/// Workers for all threads, for batches of up to so many bytes.
pub(crate) fn workers(
    batching: &Batching,
    code: &Code,
    input: usize,
    output: usize,
) -> Result<Vec<Worker>, Error> {
    let worker = |_| {
        let memory = |_| batching.coder.memory(code, input, output);
        Ok(Worker { free: (0..batching.coder.under_way().max(1)).map(memory).collect::<Result<_, Error>>()? })
    };
    (0..batching.threads.max(1)).map(worker).collect()
}

/// Runs `work` with every state at the same time, the first one on this thread.
pub(crate) fn on_threads<S: Send, R: Send>(states: &mut [S], work: impl Fn(&mut S) -> R + Sync) -> Vec<R> {
    let Some((first, others)) = states.split_first_mut() else { return Vec::new() };
    if others.is_empty() {
        return vec![work(first)];
    }
    let work = &work;
    std::thread::scope(|scope| {
        let others: Vec<_> = others.iter_mut().map(|s| scope.spawn(move || work(s))).collect();
        let mut out = vec![work(first)];
        for other in others {
            match other.join() {
                Ok(result) => out.push(result),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        out
    })
}

/// Runs all batches. The outcomes are in their order.
pub(crate) fn run(workers: &mut [Worker], site: Site<'_>, batches: &[Batch]) -> Vec<Outcome> {
    let next = AtomicUsize::new(0);
    let most = workers.len().min(batches.len());
    let done = on_threads(&mut workers[..most], |worker| worker.run(site, batches, &next));
    let mut out: Vec<Outcome> = batches.iter().map(|_| Outcome::default()).collect();
    for (at, outcome) in done.into_iter().flatten() {
        out[at] = outcome;
    }
    out
}

impl Worker {
    fn run(&mut self, site: Site<'_>, batches: &[Batch], next: &AtomicUsize) -> Vec<(usize, Outcome)> {
        let mut under_way: VecDeque<(usize, Box<dyn Memory>, Outcome)> = VecDeque::new();
        let mut done = Vec::new();
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let batch = batches.get(at);
            if batch.is_none() || self.free.is_empty() {
                // All of them at the end, else the oldest.
                while let Some((at, mut memory, mut outcome)) = under_way.pop_front() {
                    batches[at].finish(site, &mut *memory, &mut outcome);
                    done.push((at, outcome));
                    self.free.push(memory);
                    if batch.is_some() {
                        break;
                    }
                }
            }
            let Some(batch) = batch else { return done };
            let mut outcome = Outcome::default();
            if batch.is_empty() {
                done.push((at, outcome));
                continue;
            }
            let Some(mut memory) = self.free.pop() else { return done };
            if begin(batch, site, &mut *memory, &mut outcome) {
                under_way.push_back((at, memory, outcome));
            } else {
                done.push((at, outcome));
                self.free.push(memory);
            }
        }
    }
}

/// Reads a batch and starts the coder; false: the outcome says why not.
fn begin(batch: &Batch, site: Site<'_>, memory: &mut dyn Memory, outcome: &mut Outcome) -> bool {
    let filled = memory.input().map(|input| batch.fill(site, input, outcome));
    match filled {
        Ok(true) => {}
        Ok(false) => {
            outcome.left = batch.given_up().left;
            return false;
        }
        Err(e) => {
            batch.give_up(outcome, e);
            return false;
        }
    }
    match memory.start(batch.parts()) {
        Ok(()) => true,
        Err(e) => {
            batch.give_up(outcome, e);
            false
        }
    }
}
