//! Runs a job from preparation to clean-up and makes the result of it, whoever does the work.
//!
//! Invariants: what was prepared is cleaned up also after a failure; every phase is judged by the
//! same rules, whether it ran here or on agents.

use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicBool, Ordering},
    time::Instant,
};

use super::{Delta, Job, Offer, Sparse, Stop, Store, Sweep, Warmup, document, store::Usages, worker::Reason};
use crate::{
    Result,
    cost::{Source, Usage},
    result::{Caveat, Cost, Load, Phase, ProcessCost, Run, Severity},
};

/// Where progress is shown. Every method may do nothing.
pub trait Console {
    /// Something with so many steps begins (0: unknown).
    fn begin(&mut self, what: &str, total: u64);
    /// So many are done.
    fn progress(&mut self, done: u64);
    /// It is over.
    fn end(&mut self);
    /// Something worth a line.
    fn note(&mut self, text: &str);
    /// A second of a phase.
    fn snapshot(&mut self, snapshot: &Snapshot);
}

/// Shows nothing.
pub struct Silent;

impl Console for Silent {
    fn begin(&mut self, _: &str, _: u64) {}
    fn progress(&mut self, _: u64) {}
    fn end(&mut self) {}
    fn note(&mut self, _: &str) {}
    fn snapshot(&mut self, _: &Snapshot) {}
}

/// A second of a phase.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// What runs, for instance `get, 20 in flight`.
    pub name: String,
    /// Seconds since its start.
    pub at_s: f64,
    /// What share of it is done, if that can be known.
    pub done: Option<f64>,
    /// Operations per second, whole operations only.
    pub rate: f64,
    /// Bytes per second.
    pub bytes: f64,
    /// Median and 99th percentile, nanoseconds; response time in an open loop.
    pub p50: u64,
    /// See `p50`.
    pub p99: u64,
    /// Failures since the start.
    pub errors: u64,
}

/// How a phase ended.
#[derive(Clone, Debug)]
pub struct Ended {
    /// Why.
    pub reason: Reason,
    /// When, in seconds from its start.
    pub seconds: f64,
    /// Requests that were due and not sent.
    pub unsent: u64,
    /// Agents that were lost, with the reason.
    pub lost: Vec<String>,
}

/// Who does the work: this machine ([`super::Session`]) or agents.
pub trait Runner {
    /// Makes buckets and data.
    ///
    /// # Errors
    /// When the run cannot begin.
    fn prepare(&mut self, console: &mut dyn Console, interrupt: &AtomicBool) -> Result<()>;

    /// Runs a phase; `sink` gets what is measured, about once a second, and may end it.
    ///
    /// # Errors
    /// When there is nothing to judge.
    fn run(
        &mut self,
        offer: &Offer,
        stop: &Stop,
        interrupt: &AtomicBool,
        sink: &mut dyn FnMut(Option<u32>, Delta) -> Option<Reason>,
    ) -> Result<Ended>;

    /// Removes what the run wrote.
    ///
    /// # Errors
    /// When something stays behind.
    fn clean(&mut self, console: &mut dyn Console) -> Result<()>;
}

/// Everything a run needs besides its job.
pub struct Surroundings<'a> {
    /// Where the server's usage is read.
    pub server: Option<Source>,
    /// The names of agents; empty for a local run.
    pub agents: Vec<String>,
    /// The command line, without secrets.
    pub command: Vec<String>,
    /// What the user calls the run.
    pub name: Option<String>,
    /// Set to end the run early.
    pub interrupt: &'a AtomicBool,
}

/// The share of this machine's CPU above which the client is the limit.
const THROTTLED: f64 = 0.9;
/// Requests before an error rate is judged.
const JUDGED: u64 = 100;

/// Runs the job.
///
/// # Errors
/// When it could not begin, or its data could not be removed. Failed requests are no errors.
pub fn drive(
    job: &Job,
    runner: &mut dyn Runner,
    console: &mut dyn Console,
    around: &Surroundings<'_>,
) -> Result<Run> {
    job.check()?;
    let mut run = document::begin(job, around);
    let begun = Instant::now();
    let measured = runner.prepare(console, around.interrupt).and_then(|()| {
        let mut driver = Driver { job, runner, console, around, run: &mut run, begun };
        match &job.sweep {
            Some(sweep) => driver.sweep(sweep),
            None => driver.repeat(),
        }
    });
    let cleaned = runner.clean(console);
    measured?;
    if let Err(error) = cleaned {
        console.note(&format!("cleaning up failed: {error}"));
        run.caveats.push(caveat(Severity::Warning, "left-behind", format!("cleaning up failed: {error}")));
    }
    document::judge(job, &mut run);
    Ok(run)
}

pub(super) fn caveat(severity: Severity, code: &str, text: String) -> Caveat {
    Caveat { severity, code: code.into(), text }
}

struct Driver<'a> {
    job: &'a Job,
    runner: &'a mut dyn Runner,
    console: &'a mut dyn Console,
    around: &'a Surroundings<'a>,
    run: &'a mut Run,
    begun: Instant,
}

/// What a sweep decides by.
struct Judged {
    good: bool,
    rate: f64,
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
        let (phase, caveats) = finish(self, &watch, offer, &ended, repetition, at_s, sweep);
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

/// Watches a phase while it runs.
struct Watch<'a> {
    job: &'a Job,
    stop: Stop,
    open: bool,
    name: String,
    start: Instant,
    store: Store,
    shown: Instant,
    /// Since the last snapshot: times, (operations, bytes, ticks).
    window: Sparse,
    counts: (u64, u64, u32),
    total: (u64, u64),
    server: Usages,
    sampled: Instant,
}

impl Watch<'_> {
    fn sample(&mut self, server: Option<&Source>, at: f64) {
        if let Some(Ok(usage)) = server.map(Source::read) {
            self.server.add(at, usage);
        }
        self.sampled = Instant::now();
    }

    fn take(
        &mut self,
        agent: Option<u32>,
        delta: &Delta,
        server: Option<&Source>,
        console: &mut dyn Console,
    ) -> Option<Reason> {
        self.store.add(agent, delta);
        for (op, cell) in delta.ops.iter().filter(|(op, _)| !op.is_step()) {
            let _ = op;
            self.counts.0 += cell.count;
            self.counts.1 += cell.bytes;
            self.total.0 += cell.count;
            self.total.1 += cell.bytes;
            self.window.merge(if cell.response.0.is_empty() { &cell.service } else { &cell.response });
        }
        let every = if server.is_some_and(Source::is_local) { 1 } else { 5 };
        if server.is_some() && self.sampled.elapsed().as_secs() >= every {
            self.sample(server, self.start.elapsed().as_secs_f64());
        }
        let (failed, good) = self.store.outcome();
        if self.shown.elapsed().as_millis() >= 950 {
            self.show(failed, console);
            if self.is_steady() {
                return Some(Reason::Steady);
            }
        }
        let judged = failed + good >= JUDGED || (good == 0 && failed >= 20);
        let rate = failed as f64 / (failed + good).max(1) as f64;
        (judged && rate > self.job.max_error_rate).then_some(Reason::Errors)
    }

    fn show(&mut self, errors: u64, console: &mut dyn Console) {
        let seconds = self.shown.elapsed().as_secs_f64();
        let at_s = self.start.elapsed().as_secs_f64();
        let shares = [
            self.stop.seconds.map(|s| at_s / s),
            self.stop.count.map(|n| self.total.0 as f64 / n.max(1) as f64),
            self.stop.bytes.map(|n| self.total.1 as f64 / n.max(1) as f64),
        ];
        console.snapshot(&Snapshot {
            name: self.name.clone(),
            at_s,
            done: shares.into_iter().flatten().reduce(f64::max).map(|d| d.min(1.0)),
            rate: self.counts.0 as f64 / seconds,
            bytes: self.counts.1 as f64 / seconds,
            p50: self.window.quantile(0.5),
            p99: self.window.quantile(0.99),
            errors,
        });
        self.window = Sparse::default();
        self.counts = (0, 0, 0);
        self.shown = Instant::now();
    }

    fn is_steady(&self) -> bool {
        let Some(limit) = self.stop.steady else { return false };
        let now = self.start.elapsed().as_secs_f64();
        let cut = match self.job.warmup {
            Warmup::Seconds(s) => s,
            Warmup::Auto => match self.store.warmup(now, self.open) {
                Some(cut) => cut,
                None => return false,
            },
        };
        // 20 batches of a quarter of a second at least.
        now - cut >= 5.0 && self.store.confidence(cut, now).is_some_and(|i| i.relative() <= limit)
    }
}

fn judge(phase: &Phase, watch: &Watch<'_>, offer: &Offer, ended: &Ended, sweep: Option<&Sweep>) -> Judged {
    let whole = |o: &&crate::result::Operation| !is_step(&o.name);
    let rate: f64 = phase.operations.iter().filter(whole).map(|o| o.rate_per_s.mean).sum();
    let Some(sweep) = sweep else { return Judged { good: true, rate } };
    let time = watch.store.times(phase.warmup_s).quantile(sweep.slo.percentile / 100.0);
    let errors: u64 = phase.operations.iter().flat_map(|o| o.errors.values()).sum();
    let kept = time > 0 && time <= sweep.slo.nanoseconds;
    let achieved = rate >= 0.95 * offer.rate.unwrap_or(0.0);
    Judged { good: kept && achieved && errors == 0 && ended.reason == Reason::Time, rate }
}

pub(super) fn is_step(name: &str) -> bool {
    super::Op::ALL.iter().any(|op| op.is_step() && op.name() == name)
}

fn finish(
    driver: &Driver<'_>,
    watch: &Watch<'_>,
    offer: &Offer,
    ended: &Ended,
    repetition: u32,
    at_s: f64,
    sweep: Option<&Sweep>,
) -> (Phase, Vec<Caveat>) {
    let job = driver.job;
    let store = &watch.store;
    let mut caveats = Vec::new();
    let end = ended.seconds;
    let cut = match job.warmup {
        Warmup::Seconds(s) => s.min(end / 2.0),
        Warmup::Auto => store.warmup(end, offer.rate.is_some()).unwrap_or_else(|| {
            // Too short to say is normal for a step of a sweep; say it once for a phase.
            if sweep.is_none() {
                caveats.push(caveat(
                    Severity::Warning,
                    "not-steady",
                    format!(
                        "no steady state was found in {end:.1} s: nothing was cut as warm-up; run longer"
                    ),
                ));
            }
            0.0
        }),
    };
    let cut = if store.boundary(cut) < end { store.boundary(cut) } else { 0.0 };
    let agents = &driver.around.agents;
    let operations = store.operations(cut, end, &job.target.endpoints, agents);
    let seconds = (end - cut).max(0.0);
    let mut values: BTreeMap<String, f64> =
        store.counters(cut).into_iter().map(|(name, n)| (name, n as f64)).collect();
    if offer.rate.is_some() {
        values.insert("unsent".into(), ended.unsent as f64);
    }
    if ended.reason == Reason::Overloaded {
        caveats.push(caveat(
            Severity::Invalid,
            "overloaded",
            format!(
                "more than {} requests were due and unanswered after {end:.1} s, or those due were not \
                 answered within 30 s after the end; {} were never sent, and their response times are not known",
                offer.limit, ended.unsent
            ),
        ));
    }
    for lost in &ended.lost {
        caveats.push(caveat(Severity::Warning, "lost-agent", lost.clone()));
    }
    let local = driver.around.server.as_ref().is_some_and(Source::is_local) && agents.is_empty();
    let cost = cost(watch, cut, end, &operations, local, &mut caveats);
    let load = match offer.rate {
        None => Load::Closed { concurrency: offer.concurrency },
        Some(rate) => Load::Open {
            rate_per_s: rate,
            arrivals: if offer.poisson { "poisson" } else { "fixed" }.into(),
            limit: u32::try_from(offer.limit).unwrap_or(u32::MAX),
        },
    };
    let phase = Phase {
        name: job.mode.name().into(),
        state: None,
        repetition,
        load,
        at_s,
        warmup_s: cut,
        seconds,
        stopped_by: ended.reason.name().into(),
        operations,
        cost,
        values,
    };
    (phase, caveats)
}

fn cost(
    watch: &Watch<'_>,
    cut: f64,
    end: f64,
    operations: &[crate::result::Operation],
    local: bool,
    caveats: &mut Vec<Caveat>,
) -> Option<Cost> {
    let seconds = (end - cut).max(1e-6);
    let of = |usage: &Usage, cores: f64| ProcessCost {
        user_s: usage.user_s,
        system_s: usage.system_s,
        cpu_share: (usage.user_s + usage.system_s) / seconds / cores.max(1.0),
        peak_bytes: usage.peak_bytes,
    };
    let mut client = Usage::default();
    let (mut cores, mut worst) = (0.0, 0.0_f64);
    for usages in watch.store.usages.values() {
        if let Some(usage) = usages.between(cut, end) {
            client = client.plus(&usage);
            cores += f64::from(usage.cores.max(1));
            worst = worst.max(of(&usage, f64::from(usage.cores.max(1))).cpu_share);
        }
    }
    if worst > THROTTLED {
        caveats.push(caveat(
            Severity::Invalid,
            "client-throttled",
            format!(
                "the load generator used {:.0} % of its machine's CPU: the result shows the client's limit, \
                 not the server's",
                worst * 100.0
            ),
        ));
    }
    let whole = operations.iter().filter(|o| !is_step(&o.name));
    let (count, bytes) = whole.fold((0, 0), |sum, o| (sum.0 + o.count, sum.1 + o.bytes));
    let server = watch.server.between(cut, end);
    // The kernel counts in steps of 10 ms: less than two of them say nothing.
    let total =
        |p: &Option<ProcessCost>| p.as_ref().map(|p| p.user_s + p.system_s).filter(|cpu| *cpu >= 0.02);
    let client = (cores > 0.0).then(|| of(&client, cores));
    let server = server.map(|usage| of(&usage, f64::from(usage.cores.max(1))));
    let shares = client.iter().chain(&server).map(|p| p.cpu_share).sum::<f64>();
    if local && shares > THROTTLED && worst <= THROTTLED {
        caveats.push(caveat(
            Severity::Warning,
            "shared-cpu",
            format!(
                "client and server together used {:.0} % of this machine's CPU: the server had only what the \
                 client left ({:.0} %)",
                shares * 100.0,
                worst * 100.0
            ),
        ));
    }
    let per = |cpu: Option<f64>, n: f64| cpu.filter(|_| n > 0.0).map(|cpu| cpu / n);
    Some(Cost {
        server_s_per_gib: per(total(&server), bytes as f64 / f64::from(1 << 30)),
        server_us_per_op: per(total(&server), count as f64 / 1e6),
        client_us_per_op: per(total(&client), count as f64 / 1e6),
        client,
        server,
    })
}
