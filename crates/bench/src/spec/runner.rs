//! Runs every phase in every state, and repeats phases that vary too much.

use std::collections::BTreeMap;

use ashlar_bench_report::{
    check,
    result::{Caveat, Phase, SET_ASIDE, Severity, averaged},
    stat, units,
};
use serde::Serialize;

use super::{Driver, Rebuild, State};

/// How to run.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// Which states; those after one that is left out may be impossible (no rebuild without down).
    pub states: Vec<State>,
    /// How often each phase is done, at least 2.
    pub repetitions: u32,
    /// Largest coefficient of variation of the repetitions' rates.
    pub cov_limit: f64,
    /// Most repetitions beyond that for a phase whose COV is larger.
    pub reruns: u32,
}

impl Default for Options {
    fn default() -> Options {
        Options { states: State::ALL.to_vec(), repetitions: 3, cov_limit: 0.05, reruns: 2 }
    }
}

/// How long a life cycle takes at least and at most, without preparing data and the rebuild.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Expected {
    /// Measurements without any that must be done again.
    pub measurements: u32,
    /// Seconds that they take.
    pub seconds: f64,
    /// Measurements if all that may be done again are.
    pub at_most: u32,
    /// Seconds that those take.
    pub at_most_seconds: f64,
}

impl Options {
    /// What measuring `phases` phases of `phase_s` seconds takes in every state.
    pub fn expected(&self, phases: usize, phase_s: f64) -> Expected {
        let each = (self.states.len() * phases) as u32;
        let (measurements, at_most) = (each * self.repetitions, each * (self.repetitions + self.reruns));
        Expected {
            measurements,
            seconds: f64::from(measurements) * phase_s,
            at_most,
            at_most_seconds: f64::from(at_most) * phase_s,
        }
    }
}

/// The results of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    /// Every repetition of every phase, in order.
    pub phases: Vec<Phase>,
    /// Restrictions on their validity.
    pub caveats: Vec<Caveat>,
    /// The rebuild, if there was one.
    pub rebuild: Option<Rebuild>,
    /// Whether the user ended it; what was measured until then is here.
    pub interrupted: bool,
}

/// Runs a life cycle. `progress` hears what begins: state, phase, repetition.
///
/// A phase that says `interrupted` is kept and ends the run; [`Driver::restore`] is then called as after an error.
///
/// # Errors
/// The driver's, with what was measured until then; it has been asked to restore what was down.
pub fn run<D: Driver>(
    options: &Options,
    driver: &mut D,
    progress: &mut dyn FnMut(State, &str, u32),
) -> Result<Outcome, (Outcome, D::Error)> {
    assert!(options.repetitions >= 2, "one repetition has no variation");
    let mut outcome = Outcome::default();
    let mut unsteady = Vec::new();
    for &state in &options.states {
        let done = stage(options, driver, state, &mut outcome, &mut unsteady, progress);
        if let Err(error) = done {
            driver.restore();
            finish(&mut outcome);
            return Err((outcome, error));
        }
        if outcome.interrupted {
            driver.restore();
            break;
        }
    }
    finish(&mut outcome);
    outcome.caveats.extend(unsteadiness(&unsteady, options));
    outcome.caveats.extend(check::check(&outcome.phases, &driver.facts()));
    Ok(outcome)
}

fn stage<D: Driver>(
    options: &Options,
    driver: &mut D,
    state: State,
    outcome: &mut Outcome,
    unsteady: &mut Vec<(String, f64)>,
    progress: &mut dyn FnMut(State, &str, u32),
) -> Result<(), D::Error> {
    match state {
        State::Baseline => driver.expose()?,
        State::Nominal => driver.assemble()?,
        State::Down => driver.take_down()?,
        State::Rebuild => driver.start_rebuild()?,
        State::After => {
            outcome.rebuild = Some(rebuilt(driver)?);
        }
    }
    for name in driver.phases() {
        let mut kept: Vec<Phase> = Vec::new();
        let mut aside: Vec<Phase> = Vec::new();
        loop {
            let repetition = (kept.len() + aside.len() + 1) as u32;
            progress(state, &name, repetition);
            let measured = driver.phase(&name);
            let mut phase = match measured {
                Ok(phase) => phase,
                Err(error) => {
                    keep(kept, aside, outcome);
                    return Err(error);
                }
            };
            outcome.interrupted = phase.stopped_by == "interrupted";
            phase.state = Some(state.name().to_owned());
            phase.repetition = repetition;
            work_per_cpu(&mut phase);
            if outcome.interrupted {
                kept.push(phase);
                keep(kept, aside, outcome);
                return Ok(());
            }
            if state == State::Rebuild && driver.rebuild()?.done {
                // Part of it ran without a rebuild: it belongs to no state.
                outcome.caveats.push(short_rebuild(&name, kept.len()));
                break;
            }
            kept.push(phase);
            if kept.len() < options.repetitions as usize {
                continue;
            }
            let rates: Vec<f64> = kept.iter().map(Phase::rate_per_s).collect();
            let cov = stat::cov(&rates).unwrap_or(0.0);
            if cov <= options.cov_limit {
                break;
            }
            if aside.len() >= options.reruns as usize {
                unsteady.push((format!("`{name}`, {}", state.name()), cov));
                break;
            }
            aside.push(kept.remove(farthest(&rates)));
        }
        keep(kept, aside, outcome);
    }
    // When `After` is not asked for, the rebuild is nevertheless followed to its end.
    if state == State::Rebuild && !options.states.contains(&State::After) {
        outcome.rebuild = Some(rebuilt(driver)?);
    }
    Ok(())
}

/// Adds the repetitions of a phase, those that were replaced marked.
fn keep(kept: Vec<Phase>, aside: Vec<Phase>, outcome: &mut Outcome) {
    let mut all = kept;
    all.extend(aside.into_iter().map(|mut phase| {
        phase.values.insert(SET_ASIDE.to_owned(), 1.0);
        phase
    }));
    all.sort_by_key(|p| p.repetition);
    outcome.phases.extend(all);
}

/// Waits for the end of the rebuild.
fn rebuilt<D: Driver>(driver: &mut D) -> Result<Rebuild, D::Error> {
    loop {
        let now = driver.rebuild()?;
        if now.done {
            return Ok(now);
        }
        driver.wait();
    }
}

/// The value farthest from the median.
fn farthest(rates: &[f64]) -> usize {
    let middle = stat::median(rates).unwrap_or(0.0);
    let off = |i: &usize| (rates[*i] - middle).abs();
    (0..rates.len()).max_by(|a, b| off(a).total_cmp(&off(b))).unwrap_or(0)
}

/// Operations per second for each per cent of one core that the server used.
fn work_per_cpu(phase: &mut Phase) {
    let Some(server) = phase.cost.as_ref().and_then(|c| c.server.as_ref()) else { return };
    let percent = (server.user_s + server.system_s) / phase.seconds * 100.0;
    let work = phase.rate_per_s() / percent;
    if work.is_finite() {
        phase.values.insert("work_per_cpu_percent".to_owned(), work);
    }
}

/// Sets what is known only at the end: the rebuild and how much it slowed the foreground.
fn finish(outcome: &mut Outcome) {
    let mut nominal: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for phase in averaged(&outcome.phases).filter(|p| p.state.as_deref() == Some("nominal")) {
        nominal.entry(phase.name.clone()).or_default().push(phase.rate_per_s());
    }
    for phase in outcome.phases.iter_mut().filter(|p| p.state.as_deref() == Some("rebuild")) {
        let before = nominal.get(&phase.name).and_then(|rates| stat::mean(rates)).filter(|r| *r > 0.0);
        if let Some(before) = before {
            let slower = (1.0 - phase.rate_per_s() / before) * 100.0;
            phase.values.insert("foreground_slowdown_percent".to_owned(), slower);
        }
        if let Some(rebuild) = outcome.rebuild {
            phase.values.insert("rebuild_seconds".to_owned(), rebuild.seconds);
            for (name, per_s, amount) in [
                ("rebuild_bytes", "rebuild_bytes_per_s", rebuild.bytes),
                ("rebuild_items", "rebuild_items_per_s", rebuild.items),
            ] {
                let Some(amount) = amount else { continue };
                phase.values.insert(name.to_owned(), amount as f64);
                if rebuild.seconds > 0.0 {
                    phase.values.insert(per_s.to_owned(), amount as f64 / rebuild.seconds);
                }
            }
        }
    }
}

fn short_rebuild(name: &str, done: usize) -> Caveat {
    Caveat {
        severity: Severity::Warning,
        code: "rebuild-short".to_owned(),
        text: format!(
            "The rebuild ended during `{name}` after {done} whole repetitions: use more data to measure the rest of this state."
        ),
    }
}

/// One caveat for all phases whose repetitions differ too much.
fn unsteadiness(found: &[(String, f64)], options: &Options) -> Option<Caveat> {
    let (worst, cov) = found.iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
    Some(Caveat {
        severity: Severity::Warning,
        code: "unsteady".to_owned(),
        text: format!(
            "Repetitions of {} phases differ by a COV above {} even after {} more; most of all {worst}: {}.",
            found.len(),
            units::percent(options.cov_limit),
            options.reruns,
            units::percent(*cov)
        ),
    })
}

#[cfg(test)]
mod tests {
    use ashlar_bench_report::{
        check::Facts,
        result::{Cost, Estimate, Load, Operation, ProcessCost},
    };

    use super::*;

    /// A system with known rates: 1,000/s, half of it with a drive down, a quarter in rebuild.
    struct Fake {
        state: State,
        /// What each phase adds to its rate, in order; then nothing.
        noise: Vec<f64>,
        done: usize,
        rebuild_left: usize,
        fail_at: Option<usize>,
        interrupt_at: Option<usize>,
        restored: bool,
        client_share: f64,
    }

    impl Fake {
        fn new(noise: &[f64]) -> Fake {
            Fake {
                state: State::Nominal,
                noise: noise.to_vec(),
                done: 0,
                rebuild_left: 100,
                fail_at: None,
                interrupt_at: None,
                restored: false,
                client_share: 0.3,
            }
        }
    }

    impl Driver for Fake {
        type Error = String;

        fn phases(&self) -> Vec<String> {
            vec!["seq".into(), "rand".into()]
        }

        fn phase(&mut self, name: &str) -> Result<Phase, String> {
            if self.fail_at == Some(self.done) {
                return Err("broken".into());
            }
            let share = match self.state {
                State::Baseline => 2.0,
                State::Nominal | State::After => 1.0,
                State::Down => 0.5,
                State::Rebuild => 0.25,
            };
            let rate = 1000.0 * share + self.noise.get(self.done).copied().unwrap_or(0.0);
            let interrupted = self.interrupt_at == Some(self.done);
            self.done += 1;
            self.rebuild_left = self.rebuild_left.saturating_sub(usize::from(self.state == State::Rebuild));
            let operation = Operation {
                name: "GET".into(),
                count: (rate * 10.0) as u64,
                bytes: (rate * 10.0) as u64 * 100,
                rate_per_s: Estimate { mean: rate, ..Estimate::default() },
                bytes_per_s: Estimate { mean: rate * 100.0, ..Estimate::default() },
                ..Operation::default()
            };
            let process = |share| ProcessCost { user_s: 4.0, system_s: 1.0, cpu_share: share, peak_bytes: 1 };
            Ok(Phase {
                name: name.into(),
                state: None,
                repetition: 0,
                load: Load::Closed { concurrency: 1 },
                at_s: 0.0,
                warmup_s: 0.0,
                seconds: 10.0,
                stopped_by: if interrupted { "interrupted" } else { "time" }.into(),
                operations: vec![operation],
                cost: Some(Cost {
                    client: Some(process(self.client_share)),
                    server: Some(process(0.25)),
                    ..Cost::default()
                }),
                values: BTreeMap::new(),
            })
        }

        fn expose(&mut self) -> Result<(), String> {
            self.state = State::Baseline;
            Ok(())
        }

        fn assemble(&mut self) -> Result<(), String> {
            self.state = State::Nominal;
            Ok(())
        }

        fn take_down(&mut self) -> Result<(), String> {
            self.state = State::Down;
            Ok(())
        }

        fn start_rebuild(&mut self) -> Result<(), String> {
            self.state = State::Rebuild;
            Ok(())
        }

        fn rebuild(&mut self) -> Result<Rebuild, String> {
            Ok(Rebuild { done: self.rebuild_left == 0, seconds: 60.0, bytes: Some(6_000), items: None })
        }

        fn wait(&mut self) {
            self.rebuild_left = 0;
            self.state = State::After;
        }

        fn restore(&mut self) {
            self.restored = true;
        }

        fn facts(&self) -> Facts {
            Facts { data_bytes: Some(10 << 30), memory_bytes: Some(1 << 30), caches_bypassed: None }
        }
    }

    fn rates(outcome: &Outcome, state: &str, name: &str) -> Vec<f64> {
        averaged(&outcome.phases)
            .filter(|p| p.state.as_deref() == Some(state) && p.name == name)
            .map(Phase::rate_per_s)
            .collect()
    }

    #[test]
    fn all_states_are_measured() {
        let mut driver = Fake::new(&[]);
        let mut heard = Vec::new();
        let outcome =
            run(&Options::default(), &mut driver, &mut |s, n, r| heard.push((s, n.to_owned(), r))).unwrap();
        assert_eq!(outcome.phases.len(), 4 * 2 * 3);
        assert_eq!(
            heard[..3],
            [
                (State::Nominal, "seq".into(), 1),
                (State::Nominal, "seq".into(), 2),
                (State::Nominal, "seq".into(), 3)
            ]
        );
        for (state, rate) in [("nominal", 1000.0), ("down", 500.0), ("rebuild", 250.0), ("after", 1000.0)] {
            assert_eq!(rates(&outcome, state, "seq"), [rate; 3], "{state}");
            assert_eq!(rates(&outcome, state, "rand"), [rate; 3], "{state}");
        }
        // Five CPU seconds in ten seconds are 50 % of a core.
        assert_eq!(outcome.phases[0].values["work_per_cpu_percent"], 20.0);
        let rebuild = outcome.phases.iter().find(|p| p.state.as_deref() == Some("rebuild")).unwrap();
        assert_eq!(rebuild.values["foreground_slowdown_percent"], 75.0);
        assert_eq!((rebuild.values["rebuild_seconds"], rebuild.values["rebuild_bytes_per_s"]), (60.0, 100.0));
        assert_eq!(outcome.caveats, []);
    }

    #[test]
    fn an_array_has_its_drives_as_the_first_state() {
        let options = Options { states: State::ARRAY.to_vec(), ..Options::default() };
        let outcome = run(&options, &mut Fake::new(&[]), &mut |_, _, _| {}).unwrap();
        assert_eq!(outcome.phases.len(), 5 * 2 * 3);
        for (state, rate) in [("baseline", 2000.0), ("nominal", 1000.0), ("down", 500.0), ("after", 1000.0)] {
            assert_eq!(rates(&outcome, state, "rand"), [rate; 3], "{state}");
        }
    }

    #[test]
    fn an_outlier_is_replaced_and_kept() {
        // The second of the first phase is far off.
        let mut driver = Fake::new(&[0.0, 400.0, 10.0, -10.0]);
        let options = Options { states: vec![State::Nominal], ..Options::default() };
        let outcome = run(&options, &mut driver, &mut |_, _, _| {}).unwrap();
        let seq: Vec<_> = outcome.phases.iter().filter(|p| p.name == "seq").collect();
        assert_eq!(seq.iter().map(|p| p.repetition).collect::<Vec<_>>(), [1, 2, 3, 4]);
        assert!(seq[1].values.contains_key(SET_ASIDE));
        assert_eq!(rates(&outcome, "nominal", "seq"), [1000.0, 1010.0, 990.0]);
        assert_eq!(outcome.caveats, []);
    }

    #[test]
    fn reruns_are_bounded() {
        let noise: Vec<f64> = (0..40).map(|i| f64::from(i) * 150.0).collect();
        let mut driver = Fake::new(&noise);
        let options = Options { states: vec![State::Nominal], ..Options::default() };
        let outcome = run(&options, &mut driver, &mut |_, _, _| {}).unwrap();
        assert_eq!(outcome.phases.len(), 2 * (3 + 2));
        assert_eq!(outcome.caveats.iter().map(|c| c.code.as_str()).collect::<Vec<_>>(), ["unsteady"]);
        assert!(outcome.caveats[0].text.contains("of 2 phases"), "{:?}", outcome.caveats);
    }

    #[test]
    fn rebuild_that_ends_early_is_reported() {
        let mut driver = Fake::new(&[]);
        driver.rebuild_left = 2;
        let outcome = run(&Options::default(), &mut driver, &mut |_, _, _| {}).unwrap();
        assert_eq!(
            (rates(&outcome, "rebuild", "seq").len(), rates(&outcome, "rebuild", "rand").len()),
            (1, 0)
        );
        assert!(outcome.caveats.iter().all(|c| c.code == "rebuild-short") && outcome.caveats.len() == 2);
    }

    #[test]
    fn driver_is_restored_after_an_error() {
        let mut driver = Fake::new(&[]);
        driver.fail_at = Some(8);
        let (outcome, error) = run(&Options::default(), &mut driver, &mut |_, _, _| {}).unwrap_err();
        assert_eq!((error.as_str(), driver.restored), ("broken", true));
        assert_eq!(outcome.phases.len(), 8, "what was measured until then is kept");
    }

    #[test]
    fn interrupted_run_keeps_its_measurements() {
        let mut driver = Fake::new(&[]);
        driver.interrupt_at = Some(8);
        let outcome = run(&Options::default(), &mut driver, &mut |_, _, _| {}).unwrap();
        assert!(outcome.interrupted && driver.restored);
        assert_eq!((outcome.phases.len(), driver.done), (9, 9), "nothing is begun afterwards");
        assert_eq!(outcome.phases.last().map(|p| p.stopped_by.as_str()), Some("interrupted"));
    }

    #[test]
    fn expected_duration_is_computed() {
        let all = Options::default().expected(5, 30.0);
        assert_eq!((all.measurements, all.at_most), (60, 100));
        assert_eq!((all.seconds, all.at_most_seconds), (1800.0, 3000.0));
        let two = Options { states: vec![State::Nominal, State::Down], reruns: 0, ..Options::default() };
        assert_eq!(two.expected(5, 1.0).measurements, 30);
        assert_eq!(two.expected(5, 1.0).at_most, 30);
    }

    #[test]
    fn throttled_client_makes_the_result_invalid() {
        let mut driver = Fake::new(&[]);
        driver.client_share = 0.95;
        let options = Options { states: vec![State::Nominal], ..Options::default() };
        let outcome = run(&options, &mut driver, &mut |_, _, _| {}).unwrap();
        assert!(
            outcome.caveats.iter().any(|c| c.code == "client-throttled" && c.severity == Severity::Invalid)
        );
    }
}
