//! One hard disk: its bytes, its head, its queue and its counters.
//!
//! The model: one head serves one request after the other. A request that does not begin where the last one ended costs a
//! seek; bytes pass at a fixed rate; a flush costs as much as a seek, and does not move the head. Writes are on the
//! medium when they are answered (no write cache). Of all that wait, the first from the head on is served, and behind the
//! last of them the very first: so the kernel's scheduler and the queue of the disk (NCQ) order them together. But one that waited for
//! [`PATIENCE`] seeks is served next. A flush is served after all that came before it, and before all that came after.
//!
//! Invariants: the time of a request begins when it arrived or when the one before it ended, so that late wake-ups of this process do not
//! add up; bytes are read and written at the end of that time.
//!
//! Must not depend on: how requests arrive.

use std::{
    collections::VecDeque,
    sync::{Condvar, Mutex, MutexGuard},
    time::{Duration, Instant},
};

/// A request that waited for so many seeks is served next: half a second, after which mq-deadline takes a read first.
const PATIENCE: u32 = 64;

/// What a request asks for; offsets in bytes.
pub enum Ask {
    Read {
        at: u64,
        len: usize,
    },
    /// The bytes from `from` on in `bytes`.
    Write {
        at: u64,
        bytes: Vec<u8>,
        from: usize,
    },
    Flush,
}

impl Ask {
    /// The first byte, and how many; `None` for a flush.
    fn extent(&self) -> Option<(u64, u64)> {
        match self {
            Ask::Read { at, len } => Some((*at, *len as u64)),
            Ask::Write { at, bytes, from } => Some((*at, (bytes.len() - from) as u64)),
            Ask::Flush => None,
        }
    }
}

/// A request with what identifies its answer.
pub struct Request {
    pub id: u64,
    pub ask: Ask,
    pub arrived: Instant,
}

/// How long things take. All zero: nothing does.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Speed {
    /// Of a seek, and of a flush.
    pub seek: Duration,
    /// Nanoseconds per KiB.
    pub per_kib: u64,
}

impl Speed {
    /// A disk with this seek time and this rate in bytes per second, `scale` times slower; zero is without any time.
    pub fn new(seek: Duration, rate: u64, scale: u32) -> Speed {
        Speed { seek: seek * scale, per_kib: 1024 * 1_000_000_000 / rate.max(1) * u64::from(scale) }
    }

    fn pass(&self, bytes: u64) -> Duration {
        Duration::from_nanos((u128::from(bytes) * u128::from(self.per_kib) / 1024) as u64)
    }
}

/// What a disk did since the last reset.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub seeks: u64,
    pub flushes: u64,
    pub reads: u64,
    pub bytes_read: u64,
    pub writes: u64,
    pub bytes_written: u64,
    pub busy: Duration,
}

#[derive(Default)]
struct State {
    queue: VecDeque<Request>,
    /// Where the last request ended.
    head: u64,
    speed: Speed,
    counts: Counts,
    closed: bool,
}

/// The queue of a disk. One thread runs [`Disk::serve`].
#[derive(Default)]
pub struct Disk {
    state: Mutex<State>,
    work: Condvar,
}

impl Disk {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    pub fn push(&self, request: Request) {
        self.lock().queue.push_back(request);
        self.work.notify_one();
    }

    /// The disk serves what is queued and ends.
    pub fn close(&self) {
        self.lock().closed = true;
        self.work.notify_one();
    }

    pub fn set_speed(&self, speed: Speed) {
        self.lock().speed = speed;
    }

    /// Sets all counters to zero.
    pub fn reset(&self) {
        self.lock().counts = Counts::default();
    }

    pub fn counts(&self) -> Counts {
        self.lock().counts
    }

    /// Serves requests until [`Disk::close`]. `answer` gets the request's id, what was read (nothing for writes and flushes), and the request.
    pub fn serve(&self, size: usize, mut answer: impl FnMut(u64, &[u8], Ask)) {
        let mut medium = vec![0u8; size];
        let mut free_at = Instant::now();
        loop {
            let (request, end) = {
                let mut state = self.lock();
                while state.queue.is_empty() {
                    if state.closed {
                        return;
                    }
                    state = self.work.wait(state).unwrap_or_else(std::sync::PoisonError::into_inner);
                }
                let oldest = state.queue.front().map_or(free_at, |r| r.arrived);
                let begin = free_at.max(oldest);
                let (request, cost) = state.take(begin);
                let end = begin.max(request.arrived) + cost;
                (request, end)
            };
            if let Some(rest) = end.checked_duration_since(Instant::now()) {
                std::thread::sleep(rest);
            }
            free_at = end;
            let Request { id, ask, .. } = request;
            match ask {
                Ask::Read { at, len } => {
                    let at = (at as usize).min(size);
                    answer(id, &medium[at..(at + len).min(size)], ask);
                }
                Ask::Write { at, ref bytes, from } => {
                    let at = (at as usize).min(size);
                    let len = (bytes.len() - from).min(size - at);
                    medium[at..at + len].copy_from_slice(&bytes[from..from + len]);
                    answer(id, &[], ask);
                }
                Ask::Flush => answer(id, &[], ask),
            }
        }
    }
}

impl State {
    /// Takes the next request out of the queue, which is not empty, and says how long it takes.
    fn take(&mut self, now: Instant) -> (Request, Duration) {
        let next = self.next(now);
        let Some(request) = self.queue.remove(next) else { unreachable!("the queue is not empty") };
        let mut cost = Duration::ZERO;
        match request.ask.extent() {
            None => {
                self.counts.flushes += 1;
                cost += self.speed.seek;
            }
            Some((at, bytes)) => {
                if at != self.head {
                    self.counts.seeks += 1;
                    cost += self.speed.seek;
                }
                self.head = at + bytes;
                cost += self.speed.pass(bytes);
                let (calls, sum) = match request.ask {
                    Ask::Read { .. } => (&mut self.counts.reads, &mut self.counts.bytes_read),
                    _ => (&mut self.counts.writes, &mut self.counts.bytes_written),
                };
                *calls += 1;
                *sum += bytes;
            }
        }
        self.counts.busy += cost;
        (request, cost)
    }

    /// The position in the queue of the request to be served next.
    fn next(&self, now: Instant) -> usize {
        let Some(first) = self.queue.front() else { return 0 };
        let waits = now.saturating_duration_since(first.arrived);
        if waits > self.speed.seek * PATIENCE {
            return 0;
        }
        // No choice if a flush is first.
        let choice = self.queue.iter().map_while(|r| r.ask.extent()).map(|(at, _)| (at < self.head, at));
        choice.enumerate().min_by_key(|(_, place)| *place).map_or(0, |(i, _)| i)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(id: u64, at: u64) -> Request {
        Request { id, ask: Ask::Read { at, len: 1024 }, arrived: Instant::now() }
    }

    fn state() -> State {
        State { speed: Speed::new(Duration::from_millis(8), 200_000_000, 1), ..State::default() }
    }

    #[test]
    fn requests_are_served_upwards_and_cost_no_seek_if_they_continue() {
        let mut state = state();
        state.queue.extend([read(1, 4096), read(2, 0), read(3, 5120), read(4, 1024)]);
        let order: Vec<(u64, bool)> = (0..4)
            .map(|_| {
                let (request, cost) = state.take(Instant::now());
                (request.id, cost >= Duration::from_millis(8))
            })
            .collect();
        assert_eq!(order, [(2, false), (4, false), (1, true), (3, false)]);
        assert_eq!((state.counts.seeks, state.counts.reads, state.counts.bytes_read), (1, 4, 4096));
        // 5.12 us per KiB at 200 MB/s.
        assert_eq!(state.counts.busy, Duration::from_millis(8) + Duration::from_nanos(4 * 5120));
    }

    #[test]
    fn flush_separates_what_came_before_from_what_came_after() {
        let mut state = state();
        let flush = Request { id: 2, ask: Ask::Flush, arrived: Instant::now() };
        state.queue.extend([read(1, 1 << 20), flush, read(3, 0)]);
        let order: Vec<u64> = (0..3).map(|_| state.take(Instant::now()).0.id).collect();
        assert_eq!(order, [1, 2, 3]);
        assert_eq!((state.counts.seeks, state.counts.flushes), (2, 1));
    }

    #[test]
    fn request_that_waits_too_long_is_served_next() {
        let mut state = state();
        state.queue.extend([read(1, 1 << 20), read(2, 1024), read(3, 0)]);
        state.head = 2048;
        assert_eq!(state.take(Instant::now()).0.id, 1);
        state.queue.push_front(read(1, 1 << 20));
        state.head = 0;
        let later = Instant::now() + Duration::from_millis(8) * (PATIENCE + 1);
        assert_eq!(state.take(later).0.id, 1);
    }

    #[test]
    fn served_bytes_are_those_written_and_take_their_time() {
        let disk = Disk::default();
        disk.set_speed(Speed::new(Duration::from_millis(5), 200_000_000, 2));
        let arrived = Instant::now();
        let write = Ask::Write { at: 2048, bytes: [[0; 8], [7; 8]].concat(), from: 8 };
        disk.push(Request { id: 1, ask: write, arrived });
        disk.push(Request { id: 2, ask: Ask::Read { at: 2052, len: 8 }, arrived });
        disk.close();
        let mut answers = Vec::new();
        disk.serve(1 << 20, |id, bytes, _| answers.push((id, bytes.to_vec())));
        assert_eq!(answers, [(1, vec![]), (2, vec![7, 7, 7, 7, 0, 0, 0, 0])]);
        assert!(arrived.elapsed() >= Duration::from_millis(20));
    }
}
