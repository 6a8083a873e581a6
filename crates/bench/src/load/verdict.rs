//! The evaluation of a phase: its numbers, its cost, and caveats about them.

use std::collections::BTreeMap;

use ashlar_bench_report::result::{Caveat, Cost, Load, Operation, Phase, ProcessCost, Severity};

use super::{Ended, Offer, Sweep, Warmup, document::caveat, phase::Reason, runner::RunContext, watch::Watch};
use crate::cost::{Source, Usage};

/// The share of this machine's CPU above which the client is the limit.
const THROTTLED: f64 = 0.9;

/// The numbers by which a sweep decides.
pub(super) struct Judged {
    pub(super) good: bool,
    pub(super) rate: f64,
}

pub(super) fn judge(
    phase: &Phase,
    watch: &Watch<'_>,
    offer: &Offer,
    ended: &Ended,
    sweep: Option<&Sweep>,
) -> Judged {
    let whole = |o: &&Operation| !is_step(&o.name);
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

pub(super) fn finish(
    around: &RunContext<'_>,
    watch: &Watch<'_>,
    offer: &Offer,
    ended: &Ended,
    repetition: u32,
    at_s: f64,
    sweep: Option<&Sweep>,
) -> (Phase, Vec<Caveat>) {
    let job = watch.job;
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
    let agents = &around.agents;
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
    for (agent, stalls) in &ended.stalls {
        let whose = agent.as_ref().map(|a| format!(" on agent {a}")).unwrap_or_default();
        caveats.extend(stalls.caveat(&format!("{} #{repetition}{whose}", job.mode.name())));
        for (name, value) in stalls.values() {
            // Of several machines the worst.
            let worst = values.entry(name).or_insert(value);
            *worst = worst.max(value);
        }
    }
    for lost in &ended.lost {
        caveats.push(caveat(Severity::Warning, "lost-agent", lost.clone()));
    }
    let local = around.server.as_ref().is_some_and(Source::is_local) && agents.is_empty();
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
    operations: &[Operation],
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
