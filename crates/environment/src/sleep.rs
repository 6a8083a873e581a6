//! Waiting for time to pass, in asynchronous code.
//!
//! Invariant: a wait is created as a virtual one or as a real one. It ends on the thread (of a simulation) or
//! in the runtime (of tokio) in which it was created.
//!
//! Must not depend on: what is waited for.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use pin_project_lite::pin_project;

use crate::time::Instant;
use crate::world;

pin_project! {
    /// A future that ends at a point in time.
    #[project = SleepProjected]
    #[must_use = "futures do nothing unless polled"]
    pub enum Sleep {
        /// By the clock of the system.
        #[doc(hidden)]
        System { #[pin] sleep: tokio::time::Sleep },
        /// By the virtual clock.
        #[doc(hidden)]
        Virtual { timer: world::Timer },
    }
}

impl Sleep {
    /// Sets a new deadline, even if the wait has ended.
    pub fn reset(self: Pin<&mut Self>, deadline: Instant) {
        match self.project() {
            SleepProjected::System { sleep } => sleep.reset(deadline.0.into()),
            SleepProjected::Virtual { timer } => timer.reset(deadline.0),
        }
    }
}

impl Future for Sleep {
    type Output = ();
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        match self.project() {
            SleepProjected::System { sleep } => sleep.poll(cx),
            SleepProjected::Virtual { timer } => timer.poll(cx),
        }
    }
}

impl fmt::Debug for Sleep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Sleep")
    }
}

/// Waits for `time`.
pub fn sleep(time: Duration) -> Sleep {
    match world::current() {
        None => Sleep::System { sleep: tokio::time::sleep(time) },
        Some(world) => Sleep::Virtual { timer: world::Timer::until(later(world.now(), time)) },
    }
}

/// Waits until `deadline`.
pub fn sleep_until(deadline: Instant) -> Sleep {
    if world::active() {
        return Sleep::Virtual { timer: world::Timer::until(deadline.0) };
    }
    Sleep::System { sleep: tokio::time::sleep_until(deadline.0.into()) }
}

/// `time` later, or in thirty years if that cannot be represented.
fn later(now: std::time::Instant, time: Duration) -> std::time::Instant {
    now.checked_add(time).unwrap_or_else(|| now + Duration::from_secs(30 * 365 * 86_400))
}

/// The error of a timeout: the time passed before the work finished.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Elapsed(());

impl fmt::Display for Elapsed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("deadline has elapsed")
    }
}

impl std::error::Error for Elapsed {}

pin_project! {
    /// The future of [`timeout`]: work with a time limit.
    #[project = TimeoutProjected]
    #[must_use = "futures do nothing unless polled"]
    pub enum Timeout<F> {
        /// By the clock of the system.
        #[doc(hidden)]
        System { #[pin] inner: tokio::time::Timeout<F> },
        /// By the virtual clock.
        #[doc(hidden)]
        Virtual { #[pin] work: F, timer: world::Timer },
    }
}

impl<F: Future> Future for Timeout<F> {
    type Output = Result<F::Output, Elapsed>;
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match self.project() {
            TimeoutProjected::System { inner } => inner.poll(cx).map_err(|_| Elapsed(())),
            TimeoutProjected::Virtual { work, timer } => {
                if let Poll::Ready(done) = work.poll(cx) {
                    return Poll::Ready(Ok(done));
                }
                ready!(timer.poll(cx));
                Poll::Ready(Err(Elapsed(())))
            }
        }
    }
}

impl<F> fmt::Debug for Timeout<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Timeout")
    }
}

/// Runs `work` for at most `time`, then drops it.
pub fn timeout<F: Future>(time: Duration, work: F) -> Timeout<F> {
    match world::current() {
        None => Timeout::System { inner: tokio::time::timeout(time, work) },
        Some(world) => Timeout::Virtual { work, timer: world::Timer::until(later(world.now(), time)) },
    }
}

/// Runs `work` until `deadline`, then drops it.
pub fn timeout_at<F: Future>(deadline: Instant, work: F) -> Timeout<F> {
    if world::active() {
        return Timeout::Virtual { work, timer: world::Timer::until(deadline.0) };
    }
    Timeout::System { inner: tokio::time::timeout_at(deadline.0.into(), work) }
}

/// Periodic ticks. A late tick delays the following ones; missed ticks are not repeated.
#[derive(Debug)]
pub struct Interval {
    period: Duration,
    sleep: Pin<Box<Sleep>>,
}

impl Interval {
    /// Waits for the next tick.
    pub async fn tick(&mut self) {
        std::future::poll_fn(|cx| self.poll_tick(cx)).await;
    }

    /// Waits for the next tick.
    pub fn poll_tick(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        ready!(self.sleep.as_mut().poll(cx));
        self.sleep.as_mut().reset(Instant(later(Instant::now().0, self.period)));
        Poll::Ready(())
    }
}

/// A tick now, and one after each `period`.
#[must_use]
pub fn interval(period: Duration) -> Interval {
    interval_at(Instant::now(), period)
}

/// A tick at `start`, and one after each `period`.
#[must_use]
pub fn interval_at(start: Instant, period: Duration) -> Interval {
    assert!(!period.is_zero(), "an interval of zero");
    Interval { period, sleep: Box::pin(sleep_until(start)) }
}
