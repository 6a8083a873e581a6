//! Reads of files without a thread that waits: io_uring.
//!
//! A [`Ring`] has some queues; a thread always begins its calls on the same one. [`Ring::read`] returns at once, and [`Ring::reap`]
//! runs what was to be done at the end of the calls that have ended. For the runtime the end of a call is an event like those of
//! sockets ([`Ring::serve`]).
//!
//! Only calls that the kernel can begin without waiting are made here (`RWF_NOWAIT`): whatever else it would do, take memory, wait for a lock
//! or a place in the queue of the device, it refuses, and the caller does the same with a thread of the drive
//! ([`Ended::NotNow`]). So a drive that hangs keeps no thread of the kernel busy that another drive needs.
//!
//! Invariants: the buffer of a call is owned by the ring until the kernel has ended it, whoever still waits for it; a call is
//! recorded in the [`crate::Watch`] of its folder that long, and only as many are begun as that has places for; no call is repeated here; at
//! most [`MOST`] calls of a queue are under way, so that the kernel always has room for their ends.
//!
//! Must not depend on: the meaning of the bytes.

use crate::buffer::Buf;
use crate::file::DiskFile;
use crate::watch::Held;
use io_uring::{IoUring, Probe, opcode, squeue, types};
use parking_lot::Mutex;
use std::cell::Cell;
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Calls of a queue under way at once: the ends that the kernel keeps for so many entries are twice as many.
const MOST: usize = 256;
/// Most queues.
const MOST_QUEUES: usize = 64;
/// How often the kernel is asked to take a call that it does not take.
const TRIES: usize = 8;

/// How a call ended.
#[derive(Debug)]
pub enum Ended {
    /// All bytes were read.
    Done,
    /// The kernel would have had to wait, or stopped in the middle: a thread is to do all of it.
    NotNow,
    /// As the same call of [`DiskFile`].
    Failed(io::Error),
}

/// What is to be done at the end of a call. Must not wait for a device.
pub type AtEnd = Box<dyn FnOnce(Buf, Ended) + Send>;

/// A call that was not begun: its buffer and what was to be done.
pub struct NotBegun(pub Buf, pub AtEnd);

struct Call {
    buf: Buf,
    /// Keeps the descriptor open.
    _file: Arc<DiskFile>,
    _watched: Option<Held>,
    done: AtEnd,
}

struct Queue {
    ring: IoUring,
    calls: Vec<Option<Call>>,
    free: Vec<usize>,
    /// The kernel did not take a call: it is asked for nothing any more.
    broken: bool,
}

/// The queues of a process.
pub struct Ring {
    queues: Box<[Mutex<Queue>]>,
    /// Those of the queues, which are open as long as they.
    descriptors: Box<[RawFd]>,
    done: AtomicU64,
    not_now: AtomicU64,
}

/// A queue, as the runtime sees it: readable when calls have ended.
struct Events {
    ring: Arc<Ring>,
    queue: usize,
}

impl AsRawFd for Events {
    fn as_raw_fd(&self) -> RawFd {
        self.ring.descriptors[self.queue]
    }
}

thread_local! {
    /// The number of this thread among those that begin calls.
    static THREAD: Cell<Option<usize>> = const { Cell::new(None) };
}
static THREADS: AtomicUsize = AtomicUsize::new(0);

fn thread() -> usize {
    THREAD.with(|number| match number.get() {
        Some(n) => n,
        None => {
            let n = THREADS.fetch_add(1, Ordering::Relaxed);
            number.set(Some(n));
            n
        }
    })
}

impl Ring {
    /// Queues for so many threads that begin calls at the same time.
    ///
    /// # Errors
    /// The kernel has no io_uring, one that is too old (before 5.19), or does not permit it.
    pub fn new(queues: usize) -> io::Result<Ring> {
        let queues: Vec<IoUring> =
            (0..queues.clamp(1, MOST_QUEUES)).map(|_| make_queue()).collect::<io::Result<_>>()?;
        Ok(Ring {
            done: AtomicU64::new(0),
            not_now: AtomicU64::new(0),
            descriptors: queues.iter().map(|q| q.as_raw_fd()).collect(),
            queues: queues
                .into_iter()
                .map(|ring| Mutex::new(Queue { ring, calls: Vec::new(), free: Vec::new(), broken: false }))
                .collect(),
        })
    }

    /// The number of queues.
    #[must_use]
    pub fn queues(&self) -> usize {
        self.queues.len()
    }

    /// Calls under way.
    #[must_use]
    pub fn under_way(&self) -> usize {
        self.queues.iter().map(|q| q.lock().under_way()).sum()
    }

    /// Calls that ended until now: done, and left to threads.
    #[must_use]
    pub fn counts(&self) -> (u64, u64) {
        (self.done.load(Ordering::Relaxed), self.not_now.load(Ordering::Relaxed))
    }

    /// Begins to fill `buf` with the bytes of the file at `at`, bypassing the page cache.
    ///
    /// # Errors
    /// Not begun: the file is not direct, not everything is aligned to [`crate::ALIGN`], faults are injected, too many calls are under way,
    /// or the kernel did not take it.
    pub fn read(&self, file: &Arc<DiskFile>, mut buf: Buf, at: u64, done: AtEnd) -> Result<(), NotBegun> {
        let len = buf.len();
        let aligned = len > 0 && (len | at as usize).is_multiple_of(crate::ALIGN);
        let wanted = aligned.then(|| u32::try_from(len).ok()).flatten();
        let Some((wanted, fd)) = wanted.zip(file.ring_descriptor()) else { return Err(NotBegun(buf, done)) };
        let Ok(watched) = file.hold() else { return Err(NotBegun(buf, done)) };
        let entry = opcode::Read::new(types::Fd(fd), buf.as_mut_ptr(), wanted).offset(at);
        let entry = entry.rw_flags(libc::RWF_NOWAIT).build();
        let call = Call { buf, _file: file.clone(), _watched: watched, done };
        let mut queue = self.queues[thread() % self.queues.len()].lock();
        queue.begin(call, &entry).map_err(|call| NotBegun(call.buf, call.done))
    }

    /// What a task of the runtime in which this is called is to do for a queue, as long as that runs: [`Ring::reap`] whenever
    /// calls have ended.
    ///
    /// # Errors
    /// The runtime cannot wait for it.
    pub fn serve(self: &Arc<Ring>, queue: usize) -> io::Result<impl Future<Output = ()> + Send + use<>> {
        let events = Events { ring: self.clone(), queue };
        // SAFETY: `events` keeps the ring, which keeps the same descriptor open until it is dropped.
        let events = unsafe { AsyncFd::register_with_interest(events, Interest::READABLE) }?;
        Ok(async move {
            while let Ok(mut ready) = events.readable().await {
                // First: what ends from here on is another event.
                ready.clear_ready();
                events.get_ref().ring.reap(queue);
            }
        })
    }

    /// Does what was to be done at the end of the calls of a queue that have ended.
    pub fn reap(&self, queue: usize) {
        loop {
            let ended = self.queues[queue].lock().take_ended();
            if ended.is_empty() {
                return;
            }
            for (call, result) in ended {
                let Call { buf, _file, _watched, done } = call;
                drop(_watched);
                let how = how(result, buf.len());
                match how {
                    Ended::Done => self.done.fetch_add(1, Ordering::Relaxed),
                    Ended::NotNow => self.not_now.fetch_add(1, Ordering::Relaxed),
                    Ended::Failed(_) => 0,
                };
                // The others are to be done, too.
                let _ = catch_unwind(AssertUnwindSafe(|| done(buf, how)));
            }
        }
    }
}

fn make_queue() -> io::Result<IoUring> {
    let ring = IoUring::builder().setup_coop_taskrun().dontfork().build(MOST as u32)?;
    let mut probe = Probe::new();
    ring.submitter().register_probe(&mut probe)?;
    if probe.is_supported(opcode::Read::CODE) { Ok(ring) } else { Err(io::ErrorKind::Unsupported.into()) }
}

/// What the kernel's answer to a call of `len` bytes means.
fn how(result: i32, len: usize) -> Ended {
    match -result {
        _ if usize::try_from(result) == Ok(len) => Ended::Done,
        // A part: a thread reads up to the end of the file.
        ..=0 => Ended::NotNow,
        // Also of a thread that ended meanwhile.
        libc::EAGAIN | libc::EINTR | libc::ECANCELED | libc::EOPNOTSUPP => Ended::NotNow,
        error => Ended::Failed(io::Error::from_raw_os_error(error)),
    }
}

impl Queue {
    fn under_way(&self) -> usize {
        self.calls.len() - self.free.len()
    }

    #[allow(clippy::result_large_err)] // goes back to its owner, rarely
    fn begin(&mut self, call: Call, entry: &squeue::Entry) -> Result<(), Call> {
        if self.broken || self.under_way() >= MOST {
            return Err(call);
        }
        let place = self.free.pop().unwrap_or_else(|| {
            self.calls.push(None);
            self.calls.len() - 1
        });
        self.calls[place] = Some(call);
        let entry = entry.clone().user_data(place as u64);
        // SAFETY: the entry names memory of the buffer and the descriptor of the file that `calls` now owns. They are
        // freed or used again only when the kernel has ended the call, or below, where it has not taken it and never will.
        let pushed = unsafe { self.ring.submission().push(&entry) };
        let taken = pushed.is_ok() && (0..TRIES).any(|_| self.submit());
        if taken {
            return Ok(());
        }
        self.broken |= pushed.is_ok();
        self.free.push(place);
        self.calls[place].take().map_or(Ok(()), Err)
    }

    /// Whether the kernel has taken what was pushed.
    fn submit(&mut self) -> bool {
        let _ = self.ring.submit();
        self.ring.submission().is_empty()
    }

    fn take_ended(&mut self) -> Vec<(Call, i32)> {
        let Queue { ring, calls, free, .. } = self;
        let mut ended = Vec::new();
        for end in ring.completion() {
            let place = end.user_data() as usize;
            if let Some(call) = calls.get_mut(place).and_then(Option::take) {
                free.push(place);
                ended.push((call, end.result()));
            }
        }
        ended
    }
}

impl std::fmt::Debug for Ring {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Ring of {} queues", self.queues())
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        let _ = self.take_ended();
        // The kernel may still use them, and nobody will learn when it has ended.
        std::mem::forget(std::mem::take(&mut self.calls));
    }
}

#[cfg(test)]
#[path = "ring_tests.rs"]
mod tests;
