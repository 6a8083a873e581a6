//! Runs a job from preparation to clean-up, here or on agents, and makes its result.
//!
//! Invariants: prepared data is cleaned up also after a failure; the same rules evaluate every phase, whether
//! it ran here or on agents.

use std::{sync::atomic::Ordering, time::Instant};

use ashlar_bench_report::result::{Run, Severity, title};

use super::{
    Console, Job, Offer, RunContext, Runner, Sparse, Stop, Store, Sweep,
    document::{self, caveat},
    store::Usages,
    verdict::{Judged, finish, judge},
    watch::Watch,
};
use crate::Result;

/// Runs the job.
///
/// # Errors
/// When it could not begin, or its data could not be removed. Failed requests are no errors.
pub fn drive(
    job: &Job,
    runner: &mut dyn Runner,
    console: &mut dyn Console,
    around: &RunContext<'_>,
) -> Result<Run> {
    whole(job, runner, console, around, |driver| match &job.sweep {
        Some(sweep) => driver.sweep(sweep),
        None => driver.repeat(),
    })
}

/// The search for the number of requests in flight beyond which a closed loop gains nothing.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tune {
    /// The first number; it is doubled.
    pub from: u32,
    /// Never more than this.
    pub to: u32,
    /// Seconds of each probe.
    pub probe_s: f64,
    /// The search continues while doubling gains more than this share.
    pub gain: f64,
}

/// Finds the number of requests in flight by short probes, which are not kept, and measures with it under the
/// job's settings.
///
/// # Errors
/// As [`drive`].
pub fn tune(
    job: &Job,
    tune: &Tune,
    runner: &mut dyn Runner,
    console: &mut dyn Console,
    around: &RunContext<'_>,
) -> Result<Run> {
    whole(job, runner, console, around, |driver| driver.tune(tune))
}

fn whole(
    job: &Job,
    runner: &mut dyn Runner,
    console: &mut dyn Console,
    around: &RunContext<'_>,
    measure: impl FnOnce(&mut Driver<'_>) -> Result<()>,
) -> Result<Run> {
    job.check()?;
    let mut run = document::begin(job, around);
    let begun = Instant::now();
    let prepared = runner.prepare(console, around.interrupt);
    let measured = prepared.and_then(|()| {
        measure(&mut Driver { job, runner: &mut *runner, console, around, run: &mut run, begun })
    });
    let interrupted = around.interrupt.load(Ordering::Relaxed);
    let cleaned = runner.clean(console);
    measured?;
    if let Err(error) = cleaned {
        console.note(&format!("cleaning up failed: {error}"));
        run.caveats.push(caveat(Severity::Warning, "left-behind", format!("cleaning up failed: {error}")));
    }
    document::judge(job, &mut run, interrupted);
    if run.name.is_empty() {
        run.name = title::measured(&run);
    }
    Ok(run)
}

struct Driver<'a> {
    job: &'a Job,
    runner: &'a mut dyn Runner,
    console: &'a mut dyn Console,
    around: &'a RunContext<'a>,
    run: &'a mut Run,
    begun: Instant,
}

impl Driver<'_> {
    fn interrupted(&self) -> bool {
        self.around.interrupt.load(Ordering::Relaxed)
    }

    fn repeat(&mut self) -> Result<()> {
        for repetition in 1..=self.job.repetitions.max(1) {
            if self.interrupted() {
                break;
            }
            self.phase(&self.job.offer, &self.job.stop, repetition, None)?;
        }
        Ok(())
    }

    fn tune(&mut self, tune: &Tune) -> Result<()> {
        let probe = Stop { seconds: Some(tune.probe_s), ..Stop::default() };
        let (mut concurrency, mut best) = (tune.from.max(1), (tune.from.max(1), 0.0));
        let caveats = self.run.caveats.len();
        for step in 1.. {
            let offer = Offer { concurrency, rate: None, ..self.job.offer };
            let rate = self.phase(&offer, &probe, step, None)?.rate;
            if self.interrupted() {
                return Ok(());
            }
            if rate <= best.1 * (1.0 + tune.gain) {
                break;
            }
            best = (concurrency, rate);
            if concurrency.saturating_mul(2) > tune.to {
                break;
            }
            concurrency *= 2;
        }
        // What probes are too short to say is no news; what they moved is in no number.
        self.run.phases.clear();
        self.run.caveats.truncate(caveats);
        self.run.setup.insert("concurrency".into(), best.0.into());
        let offer = Offer { concurrency: best.0, rate: None, ..self.job.offer };
        self.phase(&offer, &self.job.stop, 1, None).map(drop)
    }

    /// Doubles the rate until the objective is missed, then halves the distance (in logarithms)
    /// between the highest good and the lowest bad rate.
    fn sweep(&mut self, sweep: &Sweep) -> Result<()> {
        let stop = Stop { seconds: Some(sweep.step_s), ..self.job.stop };
        let mut rate = sweep.from;
        if rate <= 0.0 {
            let closed = Offer { rate: None, ..self.job.offer };
            let judged = self.phase(&closed, &stop, 1, None)?;
            rate = (judged.rate / 4.0).max(1.0);
        }
        let most = sweep.to.unwrap_or(f64::INFINITY);
        rate = rate.min(most);
        let (mut good, mut bad) = (0.0_f64, f64::INFINITY);
        let mut best = None;
        for step in 1..=24 {
            if self.interrupted() {
                break;
            }
            let offer = Offer { rate: Some(rate), ..self.job.offer };
            if self.phase(&offer, &stop, step, Some(sweep))?.good {
                if rate > good {
                    best = Some(self.run.phases.len() - 1);
                }
                good = good.max(rate);
            } else {
                bad = bad.min(rate);
            }
            rate = match (good > 0.0, bad.is_finite()) {
                (true, true) if bad / good <= 1.0 + sweep.precision => break,
                (true, true) => (good * bad).sqrt(),
                (true, false) if good >= most => break,
                (true, false) => (good * 2.0).min(most),
                (false, _) if bad < sweep.from.max(1.0) / 64.0 || bad < 1.0 => break,
                (false, _) => bad / 2.0,
            };
        }
        let objective = format!("p{} <= {} ms", sweep.slo.percentile, sweep.slo.nanoseconds as f64 / 1e6);
        if let Some(best) = best {
            self.run.phases[best].values.insert("knee_rate_per_s".into(), good);
            let above = if bad.is_finite() { format!("; {bad:.1}/s misses it") } else { String::new() };
            let text = format!("the highest rate tried that keeps {objective} is {good:.1}/s{above}");
            self.console.note(&text);
            self.run.caveats.push(caveat(Severity::Note, "knee", text));
        } else {
            let text = format!("no rate that was tried keeps {objective}");
            self.console.note(&text);
            self.run.caveats.push(caveat(Severity::Warning, "no-knee", text));
        }
        Ok(())
    }

    fn phase(
        &mut self,
        offer: &Offer,
        stop: &Stop,
        repetition: u32,
        sweep: Option<&Sweep>,
    ) -> Result<Judged> {
        let at_s = self.begun.elapsed().as_secs_f64();
        let name = match offer.rate {
            Some(rate) => format!("{} at {rate:.1}/s", self.job.mode.name()),
            None => format!("{} x{}", self.job.mode.name(), offer.concurrency),
        };
        let mut watch = Watch {
            job: self.job,
            stop: *stop,
            open: offer.rate.is_some(),
            name,
            start: Instant::now(),
            store: Store::new(if stop.seconds.is_some_and(|s| s <= 20.0) { 2 } else { 10 }),
            shown: Instant::now(),
            window: Sparse::default(),
            counts: (0, 0, 0),
            total: (0, 0),
            server: Usages::default(),
            sampled: Instant::now(),
        };
        watch.sample(self.around.server.as_ref(), 0.0);
        let (server, console) = (self.around.server.as_ref(), &mut *self.console);
        let ended = self.runner.run(offer, stop, self.around.interrupt, &mut |agent, delta| {
            watch.take(agent, &delta, server, console)
        });
        self.console.end();
        let ended = ended?;
        watch.sample(self.around.server.as_ref(), watch.start.elapsed().as_secs_f64());
        let (phase, caveats) = finish(self.around, &watch, offer, &ended, repetition, at_s, sweep);
        let judged = judge(&phase, &watch, offer, &ended, sweep);
        let mut phase = phase;
        if sweep.is_some() {
            phase.values.insert("slo_met".into(), f64::from(u8::from(judged.good)));
        }
        self.run.phases.push(phase);
        for caveat in caveats {
            // In a sweep, missing the objective by far is what is looked for.
            if !(sweep.is_some() && caveat.code == "overloaded") {
                self.run.caveats.push(caveat);
            }
        }
        Ok(judged)
    }
}
