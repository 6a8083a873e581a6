//! All checks that must pass before a change is accepted; those that fail soonest run first.
//!
//! Invariant: the commands are those that a developer types; a check that passes here also passes there.

use std::{
    io::{BufRead, BufReader},
    path::PathBuf,
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use clap::{Arg, ArgAction, ArgMatches, ValueEnum, builder::PossibleValue, value_parser};

use crate::{
    deny, programs,
    shell::{Outcome, cargo, clock, line, root, show},
    tidy,
};

/// Which steps to run.
pub struct Options {
    only: Vec<Step>,
    skip: Vec<Step>,
    keep_going: bool,
}

impl Options {
    /// Describes the options on the command line.
    pub fn describe(command: clap::Command) -> clap::Command {
        let steps = |name: &'static str, value: &'static str| {
            let arg = Arg::new(name).long(name).value_name(value).action(ArgAction::Append);
            arg.value_delimiter(',').value_parser(value_parser!(Step))
        };
        let keep_going = Arg::new("keep-going").long("keep-going").action(ArgAction::SetTrue);
        command
            .arg(steps("only", "ONLY").help("Only these steps"))
            .arg(steps("skip", "SKIP").help("All but these steps"))
            .arg(keep_going.help("Goes on after a failure and fails at the end"))
    }

    /// The options on the command line.
    pub fn of(given: &ArgMatches) -> Options {
        let steps = |name| given.get_many::<Step>(name).into_iter().flatten().copied().collect();
        Options { only: steps("only"), skip: steps("skip"), keep_going: given.get_flag("keep-going") }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Step {
    Tidy,
    Deny,
    Fmt,
    Clippy,
    Test,
    Sim,
    Fuzz,
    System,
}

impl ValueEnum for Step {
    fn value_variants<'a>() -> &'a [Step] {
        &STEPS
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(match self {
            Step::Tidy => {
                PossibleValue::new("tidy").help("The repository's rules that the compiler does not check")
            }
            Step::Deny => PossibleValue::new("deny").help(
                "Licences, sources, bans and duplicates of dependencies; advisories where they can be reached",
            ),
            Step::Fmt => PossibleValue::new("fmt").help("Formatting"),
            Step::Clippy => PossibleValue::new("clippy").help("Lints; every warning is an error"),
            Step::Test => PossibleValue::new("test").help("All tests of all crates, optimised; installs etcd if it is missing"),
            Step::Sim => {
                PossibleValue::new("sim").help("20,000 whole clusters, each in one thread; fewer if that takes 12 minutes")
            }
            Step::Fuzz => {
                PossibleValue::new("fuzz").help("Every decoder, fuzzed from its kept inputs")
            }
            Step::System => PossibleValue::new("system").help(
                "Real clients, crashes, power cuts and pulled drives against `ashlar server`",
            ),
        })
    }
}

/// Features that are off by default and linted and tested all the same.
const FEATURES: [&str; 2] = ["--features", "ashlar/gpu"];

const STEPS: [Step; 8] =
    [Step::Tidy, Step::Deny, Step::Fmt, Step::Clippy, Step::Test, Step::Sim, Step::Fuzz, Step::System];

/// What became of a step: its name, its summary or error, and how long it took.
type Done = (String, Outcome<String>, Duration);

/// Runs the steps.
pub fn run(options: &Options) -> Outcome {
    let chosen: Vec<Step> = STEPS
        .into_iter()
        .filter(|s| options.only.is_empty() || options.only.contains(s))
        .filter(|s| !options.skip.contains(s))
        .collect();
    // The system tests mostly wait. What they leave of the processor is enough for the steps that only compute.
    let with_system = chosen.contains(&Step::System);
    let (beside, alone): (Vec<Step>, Vec<Step>) =
        chosen.iter().partition(|s| with_system && s.only_computes());
    let tested = chosen.contains(&Step::Test);
    let begin = Instant::now();
    let mut done: Vec<Done> = Vec::new();
    for (number, step) in alone.iter().enumerate() {
        println!("\n=== [{}/{}] {}", number + 1, alone.len(), step.name());
        let results = match step {
            Step::System => system_and(&beside, tested),
            step => vec![timed(step.name(), || step.run(tested))],
        };
        for (name, result, _) in &results {
            if let Err(error) = result {
                eprintln!("\n{name} failed: {error}");
            }
        }
        let failed = results.iter().any(|(_, result, _)| result.is_err());
        done.extend(results);
        if failed && !options.keep_going {
            break;
        }
    }
    println!();
    for (name, result, took) in &done {
        let note = result.as_ref().map_or("FAILED", String::as_str);
        println!("{name:8} {:>7}  {note}", clock(*took));
    }
    let failed: Vec<&str> = done.iter().filter(|d| d.1.is_err()).map(|d| d.0.as_str()).collect();
    if failed.is_empty() {
        println!("all passed in {}", clock(begin.elapsed()));
        Ok(())
    } else {
        Err(format!("failed: {}, after {}", failed.join(", "), clock(begin.elapsed())).into())
    }
}

fn timed(name: String, work: impl FnOnce() -> Outcome<String>) -> Done {
    let begin = Instant::now();
    let result = work();
    (name, result, begin.elapsed())
}

/// Runs the system tests, and `beside` them one after the other the steps that only compute, with the lowest
/// priority. The output of these is shown at their end.
fn system_and(beside: &[Step], tested: bool) -> Vec<Done> {
    thread::scope(|scope| {
        let computing = scope.spawn(|| {
            let steps = beside.iter().map(|step| {
                let mut text = String::new();
                let done = timed(step.name(), || step.run_in_background(tested, &mut text));
                println!("\n=== {} (ran beside system)\n{text}", done.0);
                done
            });
            steps.collect::<Vec<_>>()
        });
        let mut done = vec![timed(Step::System.name(), || Step::System.run(tested))];
        done.extend(computing.join().expect("steps return errors and do not panic"));
        done
    })
}

impl Step {
    /// Runs the step; returns a summary of its success. `tested`: the programs of the workspace are built with its
    /// tests, whose libraries they share; alone a program needs them once more, with fewer features.
    fn run(self, tested: bool) -> Outcome<String> {
        match self {
            Step::Tidy => tidy::run(&tidy::Options::default()).map(|()| String::new()),
            Step::Deny => deny::run(),
            Step::Fmt => show(cargo().args(["fmt", "--all", "--check"])).map(|()| String::new()),
            Step::Clippy => {
                let what = ["clippy", "--release", "--workspace", "--all-targets"];
                let lints = ["--", "-D", "warnings"];
                show(cargo().args(what).args(FEATURES).args(lints)).map(|()| String::new())
            }
            Step::Test => tests(),
            Step::Sim | Step::Fuzz => {
                let mut command = self.program(tested)?;
                show(&mut command).map(|()| String::new())
            }
            Step::System => system(),
        }
    }

    fn name(self) -> String {
        format!("{self:?}").to_lowercase()
    }

    /// Whether the step is one program that neither waits nor measures time.
    fn only_computes(self) -> bool {
        matches!(self, Step::Sim | Step::Fuzz)
    }

    /// Builds the program of a step that only computes; returns the command that runs it.
    fn program(self, tested: bool) -> Outcome<Command> {
        match self {
            Step::Sim => program("ashlar-sim", "sim", &["--seeds=20000", "--minutes=12"], tested),
            Step::Fuzz => program("ashlar-fuzz", "ashlar-fuzz", &["--seconds", "8"], tested),
            other => Err(format!("{} is not one program", other.name()).into()),
        }
    }

    /// Runs a step that only computes, with the lowest priority; adds its output to `text`.
    fn run_in_background(self, tested: bool, text: &mut String) -> Outcome<String> {
        let command = self.program(tested)?;
        let mut nice = Command::new("nice");
        nice.args(["-n", "19"]).arg(command.get_program()).args(command.get_args());
        let output = nice.current_dir(root()).stdin(Stdio::null()).output()?;
        text.push_str(&String::from_utf8_lossy(&output.stdout));
        text.push_str(&String::from_utf8_lossy(&output.stderr));
        match output.status.success() {
            true => Ok("beside system".into()),
            false => Err(format!("{}: {}", line(&command), output.status).into()),
        }
    }
}

/// Installs what tests start, runs all tests, prints their output as it arrives and counts passed tests.
fn tests() -> Outcome<String> {
    programs::install()?;
    let mut command = cargo();
    command
        .args(["test", "--release", "--workspace", "--no-fail-fast"])
        .args(FEATURES)
        .stdout(Stdio::piped());
    let name = line(&command);
    let mut child = command.spawn()?;
    let output = child.stdout.take().ok_or("no output")?;
    let mut counts = Counts::default();
    for text in BufReader::new(output).lines() {
        let text = text?;
        counts.add(&text);
        println!("{text}");
    }
    let status = child.wait()?;
    if !status.success() || counts.failed > 0 {
        return Err(format!("{name}: {status}, {} failed", counts.failed).into());
    }
    if counts.passed == 0 {
        return Err(format!("{name}: no test was run").into());
    }
    Ok(format!("{} passed, {} ignored", counts.passed, counts.ignored))
}

#[derive(Default, Debug, PartialEq, Eq)]
struct Counts {
    passed: u64,
    failed: u64,
    ignored: u64,
}

impl Counts {
    /// Reads `test result: ok. 25 passed; 0 failed; 1 ignored; ...`.
    fn add(&mut self, text: &str) {
        let Some((_, rest)) = text.strip_prefix("test result: ").and_then(|t| t.split_once(". ")) else {
            return;
        };
        for field in rest.split(';') {
            let mut words = field.split_whitespace();
            let number: u64 = words.next().and_then(|n| n.parse().ok()).unwrap_or(0);
            match words.next() {
                Some("passed") => self.passed += number,
                Some("failed") => self.failed += number,
                Some("ignored") => self.ignored += number,
                _ => {}
            }
        }
    }
}

/// Builds a program of the workspace; returns the command that runs it.
fn program(package: &str, name: &str, arguments: &[&str], tested: bool) -> Outcome<Command> {
    let package = ["--package", package];
    let tests = ["--workspace", "--bins", "--tests", FEATURES[0], FEATURES[1]];
    let what: &[&str] = if tested { &tests } else { &package };
    show(cargo().args(["build", "--release"]).args(what))?;
    let folder = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from);
    let mut command = Command::new(folder.join("release").join(name));
    command.current_dir(root()).args(arguments);
    Ok(command)
}

fn system() -> Outcome<String> {
    let suite = root().join("tests/system/run");
    show(Command::new(suite).current_dir(root()).stdin(Stdio::null())).map(|()| String::new())
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn counts() {
        let mut counts = Counts::default();
        counts.add("test result: ok. 25 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out");
        counts.add("test result: FAILED. 3 passed; 2 failed; 0 ignored; 0 measured");
        counts.add("test something ... ok");
        assert_eq!(counts, Counts { passed: 28, failed: 2, ignored: 1 });
    }
}
