//! A queue of a device: one thread takes its requests and hands in their answers, as the driver demands; others execute them.
//!
//! Invariants: a request is answered once, after it was executed; when the thread is told to stop, it ends after the last request that
//! was taken is answered, and what arrives meanwhile stays with the kernel.
//!
//! Must not depend on: what requests do.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;

use ashlar_machine::{UblkChannel, UblkDescriptor, UblkEvent, UblkQueue, UblkWaker, become_io_flusher};
use parking_lot::Mutex;

use crate::driver::EIO;
use crate::pool::Pool;
use crate::request::Data;

/// Answers on their way to the thread of a queue.
pub(crate) struct Answers {
    done: Mutex<Vec<(u16, i32)>>,
    stopping: AtomicBool,
    waker: UblkWaker,
}

impl Answers {
    pub(crate) fn new() -> io::Result<Arc<Answers>> {
        let (done, stopping) = (Mutex::default(), AtomicBool::new(false));
        Ok(Arc::new(Answers { done, stopping, waker: UblkWaker::new()? }))
    }

    fn add(&self, tag: u16, result: i32) {
        let mut done = self.done.lock();
        done.push((tag, result));
        let first = done.len() == 1;
        drop(done);
        if first {
            self.waker.wake();
        }
    }

    /// Lets the thread end.
    pub(crate) fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
        self.waker.wake();
    }
}

/// A request that was taken. It is answered with an error if nobody answers it.
pub(crate) struct Job {
    pub(crate) asked: UblkDescriptor,
    answers: Arc<Answers>,
    channel: Arc<UblkChannel>,
    queue: u16,
    tag: u16,
    answered: bool,
}

impl Job {
    pub(crate) fn answer(mut self, result: i32) {
        self.answered = true;
        self.answers.add(self.tag, result);
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        if !self.answered {
            self.answers.add(self.tag, -EIO);
        }
    }
}

impl Data for Job {
    fn take(&self, from: u32, out: &mut [u8]) -> io::Result<()> {
        self.channel.data_of(self.queue, self.tag, from, out)
    }

    fn give(&self, from: u32, data: &[u8]) -> io::Result<()> {
        self.channel.give_data(self.queue, self.tag, from, data)
    }
}

/// What the thread of a queue needs.
pub(crate) struct Queue {
    pub(crate) channel: Arc<UblkChannel>,
    pub(crate) number: u16,
    pub(crate) depth: u16,
    pub(crate) answers: Arc<Answers>,
    pub(crate) pool: Arc<Pool<Job>>,
}

impl Queue {
    /// Runs in the thread. Tells `ready` when requests can come, or why none will.
    pub(crate) fn run(self, ready: &Sender<io::Result<()>>) {
        // Without the privilege it works as well, until memory is short.
        let _ = become_io_flusher();
        let mut ring = match self.begin() {
            Ok(ring) => ring,
            Err(error) => {
                let _ = ready.send(Err(error));
                return;
            }
        };
        let _ = ready.send(Ok(()));
        if let Err(error) = self.serve(&mut ring) {
            tracing::error!(queue = self.number, %error, "a queue of a block device has failed");
        }
    }

    fn begin(&self) -> io::Result<UblkQueue> {
        let waker = self.answers.waker.clone();
        let mut ring = UblkQueue::new(self.channel.clone(), self.number, self.depth, waker)?;
        (0..self.depth).try_for_each(|tag| ring.fetch(tag))?;
        ring.submit()?;
        // What the driver refuses it refuses at once.
        let mut events = Vec::new();
        ring.take(&mut events);
        match events.first() {
            Some(UblkEvent::Ended(_, error)) => Err(io::Error::from_raw_os_error(-error)),
            _ => Ok(ring),
        }
    }

    fn serve(&self, ring: &mut UblkQueue) -> io::Result<()> {
        let (mut events, mut done) = (Vec::new(), Vec::new());
        // Requests that are being executed, and numbers that the driver does not use any more.
        let (mut under_way, mut ended) = (0, 0);
        loop {
            std::mem::swap(&mut *self.answers.done.lock(), &mut done);
            for (tag, result) in done.drain(..) {
                under_way -= 1;
                ring.commit(tag, result)?;
            }
            let stopping = self.answers.stopping.load(Ordering::Acquire);
            if under_way == 0 && (stopping || ended >= self.depth) {
                return ring.submit();
            }
            ring.wait(&mut events)?;
            for event in events.drain(..) {
                match event {
                    UblkEvent::Request(tag) if !stopping => {
                        under_way += 1;
                        self.pool.give(self.job(tag, ring.descriptor(tag)));
                    }
                    // The kernel sends it again to the next process.
                    UblkEvent::Request(_) => {}
                    UblkEvent::Ended(..) => ended += 1,
                }
            }
        }
    }

    fn job(&self, tag: u16, asked: UblkDescriptor) -> Job {
        let (answers, channel) = (self.answers.clone(), self.channel.clone());
        Job { asked, answers, channel, queue: self.number, tag, answered: false }
    }
}
