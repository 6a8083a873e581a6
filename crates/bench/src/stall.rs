//! Detection of stalls of this machine during a measurement: suspension or pause of the machine, a changed
//! clock, CPU time that a hypervisor gave to others.
//!
//! [`Watch`] runs a thread that wakes up every [`TICK`] and records how late it was; the kernel's files give
//! the rest. Invariant: a value that could not be read is absent, never zero, and never a reason to reject a
//! result.
//!
//! Must not depend on: the measurement.

use std::{
    fs,
    sync::mpsc,
    thread,
    time::{Duration, Instant, SystemTime},
};

use ashlar_bench_report::{
    result::{Caveat, Severity},
    units,
};
use serde::{Deserialize, Serialize};

/// How often the watch wants to wake up.
const TICK: Duration = Duration::from_millis(20);
/// A wake-up that is less late than this is the scheduler's doing and counts as none.
const LATE: f64 = 0.2;
/// One stall of so many seconds makes a result invalid.
const LONGEST: f64 = 1.0;
/// Stalls that together take so much of the time make a result invalid, if they take [`LONGEST`] too.
const SHARE: f64 = 0.05;
/// A clock that went ahead or back by more seconds than this against the others.
const CLOCK: f64 = 1.0;
/// Stolen share of all CPU time above which a result is invalid.
const STOLEN: f64 = 0.1;
/// Seconds below which the stolen share is not judged: the kernel counts in steps of 10 ms.
const SHORT: f64 = 5.0;

/// What was noticed of stalls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Stalls {
    /// Seconds that were watched, by the monotonic clock.
    pub seconds: f64,
    /// The longest stall, in seconds, however short.
    pub longest_s: f64,
    /// All stalls of more than 0.2 s together.
    pub total_s: f64,
    /// Seconds in which the machine was suspended.
    pub suspended_s: Option<f64>,
    /// Seconds that the wall clock went ahead of (or, negative, behind) the monotonic clock, without suspension.
    pub clock_s: Option<f64>,
    /// Share of all CPU time that the hypervisor gave to others.
    pub stolen: Option<f64>,
}

impl Stalls {
    /// Notes a wake-up that was `late_s` late.
    fn late(&mut self, late_s: f64) {
        self.longest_s = self.longest_s.max(late_s);
        if late_s > LATE {
            self.total_s += late_s;
        }
    }

    /// Why what was measured meanwhile must not be used; nothing if it may.
    pub fn reason(&self) -> Option<String> {
        let mut why = Vec::new();
        if let Some(s) = self.suspended_s.filter(|s| *s >= CLOCK) {
            why.push(format!("the machine was suspended for {}", units::seconds(s)));
        }
        if self.longest_s >= LONGEST || (self.total_s >= LONGEST && self.total_s >= SHARE * self.seconds) {
            why.push(format!(
                "nothing ran for {} at a time, {} in all",
                units::seconds(self.longest_s),
                units::seconds(self.total_s.max(self.longest_s))
            ));
        }
        if let Some(s) = self.clock_s.filter(|s| s.abs() >= CLOCK) {
            let way = if s > 0.0 { "ahead" } else { "back" };
            why.push(format!("the clock jumped {way} by {}", units::seconds(s.abs())));
        }
        if let Some(share) = self.stolen.filter(|s| *s >= STOLEN && self.seconds >= SHORT) {
            why.push(format!("{} of the CPU time was given to other machines", units::percent(share)));
        }
        (!why.is_empty()).then(|| why.join("; "))
    }

    /// The caveat that rejects what `of` measured, if it must be rejected.
    pub fn caveat(&self, of: &str) -> Option<Caveat> {
        let reason = self.reason()?;
        Some(Caveat {
            severity: Severity::Invalid,
            code: "stalled".to_owned(),
            text: format!("{of}: the measuring machine stalled: {reason}"),
        })
    }

    /// The values for [`ashlar_bench_report::result::Phase::values`].
    pub fn values(&self) -> impl Iterator<Item = (String, f64)> {
        let stolen = self.stolen.map(|s| ("stolen_cpu_percent".to_owned(), s * 100.0));
        [("longest_stall_s".to_owned(), self.longest_s)].into_iter().chain(stolen)
    }
}

/// The clocks at one moment.
struct Clocks {
    monotonic: Instant,
    wall: SystemTime,
    /// Seconds since the machine started, suspension included.
    uptime_s: Option<f64>,
    /// Ticks of all CPUs: stolen and all.
    cpu: Option<(u64, u64)>,
}

impl Clocks {
    fn read() -> Clocks {
        let uptime = fs::read_to_string("/proc/uptime").ok();
        let stat = fs::read_to_string("/proc/stat").ok();
        Clocks {
            monotonic: Instant::now(),
            wall: SystemTime::now(),
            uptime_s: uptime.and_then(|t| t.split(' ').next()?.parse().ok()),
            cpu: stat.as_deref().and_then(cpu),
        }
    }

    /// Adds to `stalls` what the clocks of `self` and `later` say.
    fn until(&self, later: &Clocks, stalls: &mut Stalls) {
        let seconds = later.monotonic.saturating_duration_since(self.monotonic).as_secs_f64();
        stalls.seconds = seconds;
        // The monotonic clock stands while the machine is suspended, the uptime does not.
        let suspended = self.uptime_s.zip(later.uptime_s).map(|(a, b)| (b - a - seconds).max(0.0));
        stalls.suspended_s = suspended;
        let wall = match later.wall.duration_since(self.wall) {
            Ok(ahead) => ahead.as_secs_f64(),
            Err(back) => -back.duration().as_secs_f64(),
        };
        stalls.clock_s = Some(wall - seconds - suspended.unwrap_or(0.0));
        stalls.stolen = self.cpu.zip(later.cpu).and_then(|((stolen, all), (stolen_later, all_later))| {
            let all = all_later.checked_sub(all).filter(|n| *n > 0)?;
            Some(stolen_later.saturating_sub(stolen) as f64 / all as f64)
        });
    }
}

/// The stolen ticks and all ticks of the first line of /proc/stat.
fn cpu(stat: &str) -> Option<(u64, u64)> {
    let line = stat.lines().next()?.strip_prefix("cpu ")?;
    // User, nice, system, idle, iowait, irq, softirq, steal; what guests use is in user and nice already.
    let ticks: Vec<u64> = line.split_ascii_whitespace().take(8).map_while(|n| n.parse().ok()).collect();
    (ticks.len() == 8).then(|| (ticks[7], ticks.iter().sum()))
}

/// Watches from [`Watch::start`] to [`Watch::end`].
pub struct Watch {
    clocks: Clocks,
    /// Dropped to end the thread.
    stop: mpsc::Sender<()>,
    thread: Option<thread::JoinHandle<Stalls>>,
}

impl Watch {
    /// Begins to watch. Where no thread can be started, only the clocks are compared.
    pub fn start() -> Watch {
        let clocks = Clocks::read();
        let (stop, stopped) = mpsc::channel::<()>();
        let thread = thread::Builder::new().name("stall".into()).spawn(move || {
            let mut stalls = Stalls::default();
            let mut last = Instant::now();
            loop {
                let ended = stopped.recv_timeout(TICK) != Err(mpsc::RecvTimeoutError::Timeout);
                let now = Instant::now();
                stalls.late((now - last).saturating_sub(TICK).as_secs_f64());
                last = now;
                if ended {
                    return stalls;
                }
            }
        });
        Watch { clocks, stop, thread: thread.ok() }
    }

    /// What was noticed since the start.
    pub fn end(self) -> Stalls {
        let later = Clocks::read();
        drop(self.stop);
        let mut stalls = self.thread.and_then(|t| t.join().ok()).unwrap_or_default();
        self.clocks.until(&later, &mut stalls);
        stalls
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_machine_has_no_stall() {
        let quiet = Stalls { seconds: 30.0, longest_s: 0.9, total_s: 0.9, ..Stalls::default() };
        assert_eq!((quiet.reason(), quiet.caveat("get")), (None, None));
        // A hundredth of a second more or less is how coarse the files are.
        let coarse = Stalls {
            suspended_s: Some(0.02),
            clock_s: Some(-0.02),
            stolen: Some(0.05),
            seconds: 30.0,
            ..Stalls::default()
        };
        assert_eq!(coarse.reason(), None);
    }

    #[test]
    fn every_kind_of_stall_is_a_reason() {
        let of = |stalls: Stalls| Stalls { seconds: 10.0, ..stalls }.reason().unwrap_or_default();
        let mut once = Stalls::default();
        [0.01, 2.5, 0.3].into_iter().for_each(|s| once.late(s));
        assert_eq!(of(once), "nothing ran for 2.5 s at a time, 2.8 s in all");
        let often = Stalls { longest_s: 0.4, total_s: 1.2, ..Stalls::default() };
        assert!(of(often).contains("1.2 s in all"));
        assert_eq!(Stalls { seconds: 600.0, ..often }.reason(), None, "0.2 % of the time");
        assert!(of(Stalls { suspended_s: Some(3600.0), ..Stalls::default() }).contains("suspended for 1 h"));
        assert!(of(Stalls { clock_s: Some(-5.0), ..Stalls::default() }).contains("back by 5 s"));
        let stolen = Stalls { stolen: Some(0.25), ..Stalls::default() };
        assert!(of(stolen).contains("25.0 % of the CPU time"));
        assert_eq!(Stalls { seconds: 1.0, ..stolen }.reason(), None, "too short to say");
        let caveat = Stalls { seconds: 10.0, ..stolen }.caveat("get").expect("a caveat");
        assert_eq!((caveat.severity, caveat.code.as_str()), (Severity::Invalid, "stalled"));
    }

    #[test]
    fn clock_changes_are_detected() {
        let now = Instant::now();
        let wall = SystemTime::UNIX_EPOCH + Duration::from_secs(1000);
        let clocks = |monotonic: u64, wall_s: u64, uptime: f64, cpu| Clocks {
            monotonic: now + Duration::from_secs(monotonic),
            wall: wall + Duration::from_secs(wall_s),
            uptime_s: Some(uptime),
            cpu: Some(cpu),
        };
        let mut stalls = Stalls::default();
        clocks(0, 0, 50.0, (10, 1000)).until(&clocks(10, 17, 64.0, (60, 2000)), &mut stalls);
        assert_eq!((stalls.seconds, stalls.suspended_s, stalls.clock_s), (10.0, Some(4.0), Some(3.0)));
        assert_eq!(stalls.stolen, Some(0.05));
    }

    #[test]
    fn proc_stat_line_is_parsed() {
        assert_eq!(cpu("cpu  1 2 3 4 5 6 7 8 9 9\ncpu0 1"), Some((8, 36)));
        assert_eq!((cpu("cpu0 1 2 3 4 5 6 7 8"), cpu("cpu  1 2")), (None, None));
    }

    #[test]
    fn watch_covers_the_measured_time() {
        let watch = Watch::start();
        let start = Instant::now();
        thread::sleep(Duration::from_millis(100));
        let slept = start.elapsed().as_secs_f64();
        let stalls = watch.end();
        assert!(stalls.seconds >= slept && stalls.longest_s <= stalls.seconds, "{stalls:?}");
        assert!(stalls.suspended_s.is_some() && stalls.clock_s.is_some(), "{stalls:?}");
    }
}
