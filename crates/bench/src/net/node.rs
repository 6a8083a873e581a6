//! One node of a network test: its streams, its interval, the received bytes.
//!
//! Invariants: throughput is counted at the receiver, within one interval that all streams of the node share;
//! clocks of different nodes are never compared; every thread ends with its session.

use std::{
    io::{ErrorKind, Read, Write},
    net::{Shutdown, TcpStream},
    sync::{
        Arc, Condvar, Mutex, MutexGuard,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use ashlar_bench_report::{
    random::Random,
    result::{Histogram, Point, Timeline, hist},
};
use hdrhistogram::Histogram as Recorder;

use super::wire::{self, Dial, Pings, Received, Report, Role, Shape, Token};
use crate::error::{Error, Result};

/// Most streams of one node.
pub const MOST_STREAMS: usize = 1024;
/// Time from joining to the start after which a session is given up.
const PREPARE: Duration = Duration::from_secs(60);
/// Senders go on so long after the interval, since receivers may have started later.
const TAIL: Duration = Duration::from_millis(250);
/// Wait for streams to end.
const GRACE: Duration = Duration::from_secs(3);
/// How often blocked threads look whether the session is over.
const LOOK: Duration = Duration::from_millis(200);
/// Bytes of a ping.
const PING: usize = 64;
/// Pings before the load: so many, or for a second.
const IDLE_PINGS: usize = 300;
/// Pause between pings under load.
const PING_PAUSE: Duration = Duration::from_millis(5);

/// What counts, by this node's clock.
#[derive(Clone, Copy)]
struct Interval {
    start: Instant,
    from: Instant,
    to: Instant,
    step_s: f64,
    steps: usize,
}

/// A node's part in one session.
pub struct Session {
    /// Which one.
    pub id: u64,
    name: String,
    shape: Shape,
    token: Token,
    created: Instant,
    interval: Mutex<Option<Interval>>,
    started: Condvar,
    over: AtomicBool,
    threads: AtomicUsize,
    report: Mutex<Report>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// Length of a timeline step for a session.
pub fn step_s(shape: &Shape) -> f64 {
    ((shape.warmup_s + shape.duration_s) / Timeline::MAX as f64 * 10.0).ceil().max(1.0) / 10.0
}

impl Session {
    /// Takes part in a session.
    ///
    /// # Errors
    /// [`Error::Usage`] when its shape is out of bounds.
    pub fn join(id: u64, name: &str, shape: Shape, token: &Token) -> Result<Arc<Session>> {
        shape.check()?;
        Ok(Arc::new(Session {
            id,
            name: name.to_owned(),
            shape,
            token: token.clone(),
            created: Instant::now(),
            interval: Mutex::new(None),
            started: Condvar::new(),
            over: AtomicBool::new(false),
            threads: AtomicUsize::new(0),
            report: Mutex::new(Report::default()),
        }))
    }

    /// Opens streams and one ping connection to every target; returns when all are open and the
    /// pings of an idle network are done.
    ///
    /// # Errors
    /// [`Error::Setup`] when a target cannot be reached or refuses.
    pub fn dial(self: &Arc<Session>, targets: &[Dial]) -> Result<()> {
        for target in targets {
            for (count, sends) in [(target.send, true), (target.receive, false)] {
                for _ in 0..count {
                    let role = Role::Stream {
                        session: self.id,
                        from: self.name.clone(),
                        to: target.name.clone(),
                        sends,
                    };
                    let stream = wire::dial(&target.address, &self.token, role)?;
                    self.stream(stream, sends, &target.name)?;
                }
            }
            let mut stream = wire::dial(&target.address, &self.token, Role::Ping)?;
            let failed = |e| Error::setup(format!("{}: ping: {e}", target.address));
            // One target after the other: on an idle network nothing else is under way.
            let idle = idle_pings(&mut stream).map_err(failed)?;
            let (session, to) = (self.clone(), target.name.clone());
            self.spawn(move || {
                let loaded = session.loaded_pings(&mut stream);
                let pings = Pings {
                    from: session.name.clone(),
                    to,
                    idle: Histogram::from(&idle),
                    loaded: Histogram::from(&loaded),
                };
                lock(&session.report).pings.push(pings);
            })?;
        }
        Ok(())
    }

    /// Takes a stream that was dialled or accepted; `peer` is the other node's name.
    ///
    /// # Errors
    /// [`Error::Setup`] when there are too many streams, or no thread can be started.
    pub fn stream(self: &Arc<Session>, stream: TcpStream, sends: bool, peer: &str) -> Result<()> {
        let failed = |e| Error::setup(format!("{peer}: {e}"));
        stream.set_read_timeout(Some(LOOK)).map_err(failed)?;
        stream.set_write_timeout(Some(LOOK)).map_err(failed)?;
        let (session, peer) = (self.clone(), peer.to_owned());
        self.spawn(move || if sends { session.send(stream, &peer) } else { session.receive(stream, &peer) })
    }

    fn spawn(self: &Arc<Session>, work: impl FnOnce() + Send + 'static) -> Result<()> {
        if self.threads.fetch_add(1, Ordering::SeqCst) >= MOST_STREAMS {
            self.threads.fetch_sub(1, Ordering::SeqCst);
            return Err(Error::setup(format!("more than {MOST_STREAMS} streams on one node")));
        }
        let session = self.clone();
        let started = thread::Builder::new().stack_size(256 << 10).spawn(move || {
            work();
            session.threads.fetch_sub(1, Ordering::SeqCst);
        });
        started.map(drop).map_err(|e| {
            self.threads.fetch_sub(1, Ordering::SeqCst);
            Error::setup(format!("cannot start a thread: {e}"))
        })
    }

    /// Starts: sets the interval for all streams of this node.
    pub fn go(&self) {
        let start = Instant::now();
        let from = start + Duration::from_secs_f64(self.shape.warmup_s);
        let step_s = step_s(&self.shape);
        let whole = self.shape.warmup_s + self.shape.duration_s;
        *lock(&self.interval) = Some(Interval {
            start,
            from,
            to: from + Duration::from_secs_f64(self.shape.duration_s),
            step_s,
            steps: (whole / step_s).ceil() as usize,
        });
        self.started.notify_all();
    }

    /// Ends everything now.
    pub fn end(&self) {
        self.over.store(true, Ordering::SeqCst);
        self.started.notify_all();
    }

    /// Waits for the end and returns what was measured. `alive` is asked five times a second whether the
    /// result is still wanted.
    ///
    /// # Errors
    /// [`Error::Setup`] when it is not.
    pub fn report(&self, mut alive: impl FnMut() -> bool) -> Result<Report> {
        let end = lock(&self.interval).map_or(self.created, |i| i.to) + TAIL + GRACE;
        while self.threads.load(Ordering::SeqCst) > 0 && Instant::now() < end {
            if !alive() {
                self.end();
                return Err(Error::setup("the coordinator went away"));
            }
            thread::sleep(Duration::from_millis(20));
        }
        self.end();
        // Threads look every LOOK whether it is over.
        let last = Instant::now() + 2 * LOOK;
        while self.threads.load(Ordering::SeqCst) > 0 && Instant::now() < last {
            thread::sleep(Duration::from_millis(10));
        }
        let left = self.threads.load(Ordering::SeqCst);
        let mut report = std::mem::take(&mut *lock(&self.report));
        if left > 0 {
            report.errors.push(format!("{}: {left} streams did not end", self.name));
        }
        Ok(report)
    }

    /// The interval, when it is known; waits for it. None: the session is over.
    fn wait(&self) -> Option<Interval> {
        let mut interval = lock(&self.interval);
        loop {
            if let Some(known) = *interval {
                return Some(known);
            }
            if self.gone() {
                return None;
            }
            let waited = self.started.wait_timeout(interval, LOOK);
            interval = waited.map_or_else(|p| p.into_inner().0, |w| w.0);
        }
    }

    /// Over, or never started.
    fn gone(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    fn expired(&self) -> bool {
        self.created.elapsed() > PREPARE
    }

    fn error(&self, text: String) {
        let mut report = lock(&self.report);
        // The first few say it all.
        if report.errors.len() < 20 {
            report.errors.push(text);
        }
    }

    fn send(&self, mut stream: TcpStream, peer: &str) {
        let mut block = vec![0_u8; self.shape.block as usize];
        crate::block::fill(&mut block, &mut Random(self.id));
        let Some(interval) = self.wait() else { return };
        let end = interval.to + TAIL;
        while Instant::now() < end && !self.gone() {
            match stream.write(&block) {
                Ok(0) => break,
                Ok(_) => {}
                Err(e) if is_pause(e.kind()) => {}
                Err(e) => {
                    // After the interval the receiver may close first.
                    if Instant::now() < interval.to {
                        self.error(format!("{} -> {peer}: {e}", self.name));
                    }
                    return;
                }
            }
        }
        // The peer may have closed it already.
        let _ = stream.shutdown(Shutdown::Write);
    }

    fn receive(&self, mut stream: TcpStream, peer: &str) {
        let mut buffer = vec![0_u8; (self.shape.block as usize).max(256 << 10)];
        let mut interval = None;
        let mut seen = Received { from: peer.to_owned(), to: self.name.clone(), ..Received::default() };
        loop {
            let result = stream.read(&mut buffer);
            let now = Instant::now();
            // The sender may have started earlier: bytes before this node's start are warm-up.
            interval = interval.or_else(|| *lock(&self.interval));
            let over = interval.is_some_and(|i: Interval| now > i.to + TAIL + GRACE);
            if over || self.gone() || (interval.is_none() && self.expired()) {
                break;
            }
            match result {
                Ok(0) => break,
                Ok(n) => {
                    if let Some(interval) = interval {
                        interval.count(&mut seen, now, n as u64);
                    }
                }
                Err(e) if is_pause(e.kind()) => {}
                Err(e) => {
                    self.error(format!("{peer} -> {}: {e}", self.name));
                    break;
                }
            }
        }
        if interval.is_some_and(|i| Instant::now() < i.to) && !self.gone() {
            self.error(format!("{peer} -> {}: ended early", self.name));
        }
        lock(&self.report).received.push(seen);
    }

    fn loaded_pings(&self, stream: &mut TcpStream) -> Recorder<u64> {
        let mut times = hist::recorder();
        let Some(interval) = self.wait() else { return times };
        // A round trip under load may take longer than a stream's look.
        let _ = stream.set_read_timeout(Some(GRACE));
        while Instant::now() < interval.to && !self.gone() {
            match ping(stream) {
                Ok(took) if Instant::now() >= interval.from => times.saturating_record(took),
                Ok(_) => {}
                Err(e) => {
                    self.error(format!("{}: ping: {e}", self.name));
                    break;
                }
            }
            thread::sleep(PING_PAUSE);
        }
        times
    }
}

impl Interval {
    fn count(&self, seen: &mut Received, now: Instant, bytes: u64) {
        if now >= self.from && now < self.to {
            seen.bytes += bytes;
        }
        let step = (now.saturating_duration_since(self.start).as_secs_f64() / self.step_s) as usize;
        if step < self.steps {
            if seen.points.is_empty() {
                seen.points = vec![Point::default(); self.steps];
            }
            seen.points[step].bytes += bytes;
            seen.points[step].count += 1;
        }
    }
}

fn is_pause(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}

fn ping(stream: &mut TcpStream) -> std::io::Result<u64> {
    let mut message = [0; PING];
    let start = Instant::now();
    stream.write_all(&message)?;
    stream.read_exact(&mut message)?;
    Ok(start.elapsed().as_nanos() as u64)
}

fn idle_pings(stream: &mut TcpStream) -> std::io::Result<Recorder<u64>> {
    let mut times = hist::recorder();
    let start = Instant::now();
    // The first one warms the path.
    ping(stream)?;
    while (times.len() as usize) < IDLE_PINGS && start.elapsed() < Duration::from_secs(1) {
        times.saturating_record(ping(stream)?);
    }
    Ok(times)
}

/// The other end of pings, until the peer closes or is silent for longer than a session may last.
pub fn echo(stream: &mut TcpStream) {
    let mut message = [0; PING];
    if stream.set_read_timeout(Some(Duration::from_secs(3700))).is_err() {
        return;
    }
    while stream.read_exact(&mut message).is_ok() && stream.write_all(&message).is_ok() {}
}
