//! All checks that must pass before a change is accepted. Those that fail soonest run first, except those that only
//! compute: they run beside the tests, which mostly wait.
//!
//! Invariant: what a check does here is what the command that a developer types does: a check that passes here also
//! passes there.

use std::{
    path::PathBuf,
    process::{Command, Stdio},
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

use clap::{Arg, ArgAction, ArgMatches, ValueEnum, builder::PossibleValue, value_parser};

use crate::{
    crate_tests::{self, Program},
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
    Test,
    System,
    Sim,
    Fuzz,
    Clippy,
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
                PossibleValue::new("sim").help("20,000 whole clusters, each in one thread; fewer if that takes 6 minutes")
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

/// In the order in which they begin. Lints come last: while cargo compiles for them, it would not build what the others need.
const STEPS: [Step; 8] =
    [Step::Tidy, Step::Deny, Step::Fmt, Step::Sim, Step::Test, Step::System, Step::Fuzz, Step::Clippy];

/// What became of a step: its name, its summary or error, and how long it took.
type Done = (String, Outcome<String>, Duration);

/// Runs the steps.
pub fn run(options: &Options) -> Outcome {
    let chosen = |step: &Step| {
        (options.only.is_empty() || options.only.contains(step)) && !options.skip.contains(step)
    };
    let (tests, others): (Vec<Step>, Vec<Step>) =
        STEPS.iter().filter(|s| chosen(s)).partition(|s| s.uses_tests());
    let (beside, first): (Vec<Step>, Vec<Step>) =
        others.iter().partition(|s| !tests.is_empty() && s.only_computes());
    let begin = Instant::now();
    let mut done: Vec<Done> = Vec::new();
    for step in first {
        done.push(announced(step.name(), || step.run(None)));
        if failed(&done).next().is_some() && !options.keep_going {
            break;
        }
    }
    if options.keep_going || failed(&done).next().is_none() {
        done.extend(tests_and(&tests, &beside, options.keep_going));
    }
    println!();
    for (name, result, took) in &done {
        let note = result.as_ref().map_or("FAILED", String::as_str);
        println!("{name:8} {:>7}  {note}", clock(*took));
    }
    let failed: Vec<&str> = failed(&done).collect();
    if failed.is_empty() {
        println!("all passed in {}", clock(begin.elapsed()));
        Ok(())
    } else {
        Err(format!("failed: {}, after {}", failed.join(", "), clock(begin.elapsed())).into())
    }
}

/// The names of the steps that failed.
fn failed(done: &[Done]) -> impl Iterator<Item = &str> {
    done.iter().filter(|d| d.1.is_err()).map(|d| d.0.as_str())
}

/// Runs a step that shows what it does.
fn announced(name: String, work: impl FnOnce() -> Outcome<String>) -> Done {
    println!("\n=== {name}");
    let done = timed(name, work);
    if let Err(error) = &done.1 {
        eprintln!("\n{} failed: {error}", done.0);
    }
    done
}

fn timed(name: String, work: impl FnOnce() -> Outcome<String>) -> Done {
    let begin = Instant::now();
    let result = work();
    (name, result, begin.elapsed())
}

/// Builds the tests, then runs the steps `tests` one after another, and beside them, one after the other with the lowest priority,
/// those that only compute. The output of these is shown at their end. Ends early after a failure, unless it shall keep going.
fn tests_and(tests: &[Step], beside: &[Step], keep_going: bool) -> Vec<Done> {
    let mut done = Vec::new();
    let mut built = None;
    thread::scope(|scope| {
        let installing = tests.iter().any(|s| *s != Step::Sim).then(|| scope.spawn(|| installed(tests)));
        if tests.contains(&Step::Test) {
            // Before the others: cargo builds one thing at a time, and what they run is built with the tests.
            let programs = built.insert(Vec::new());
            done.push(announced("build".to_owned(), || {
                *programs = crate_tests::build(&FEATURES)?;
                Ok(String::new())
            }));
        }
        done.extend(installing.map(|thread| thread.join().expect("steps return errors and do not panic")));
    });
    if failed(&done).next().is_some() && !keep_going {
        return done;
    }
    let built = built.as_deref();
    // Alone, because it uses every processor for minutes: tests beside it would wait for their turn.
    let (alone, tests): (Vec<Step>, Vec<Step>) = tests.iter().partition(|s| **s == Step::Sim);
    for step in alone {
        done.push(announced(step.name(), || step.run(built)));
        if failed(&done).next().is_some() && !keep_going {
            return done;
        }
    }
    let ended = AtomicBool::new(false);
    thread::scope(|scope| {
        let computing = scope.spawn(|| {
            let steps = beside.iter().take_while(|_| !ended.load(Ordering::Relaxed));
            steps.map(|step| in_background(*step, built.is_some())).collect::<Vec<_>>()
        });
        for step in tests {
            done.push(announced(step.name(), || step.run(built)));
            if failed(&done).next().is_some() && !keep_going {
                ended.store(true, Ordering::Relaxed);
                break;
            }
        }
        done.extend(computing.join().expect("steps return errors and do not panic"));
    });
    done
}

/// Installs what tests start, beside the build: this mostly waits for the network. Its output is shown at its end.
fn installed(tests: &[Step]) -> Done {
    let mut text = String::new();
    let done = timed("install".to_owned(), || {
        if tests.contains(&Step::Test) {
            programs::install()?;
        }
        if tests.contains(&Step::System) {
            captured(&mut Command::new(root().join("tests/system/install")), &mut text)?;
        }
        Ok("beside the build".to_owned())
    });
    show_output(&done, "the build", &text);
    done
}

/// Runs a step and shows its output when it has ended.
fn in_background(step: Step, tested: bool) -> Done {
    let mut text = String::new();
    let done = timed(step.name(), || step.run_in_background(tested, &mut text));
    show_output(&done, "the tests", &text);
    done
}

/// Shows the output of a step that ran beside others.
fn show_output(done: &Done, beside: &str, text: &str) {
    println!("\n=== {} (ran beside {beside})\n{text}", done.0);
    if let Err(error) = &done.1 {
        eprintln!("\n{} failed: {error}", done.0);
    }
}

/// Runs a command; adds what it writes to `text`.
fn captured(command: &mut Command, text: &mut String) -> Outcome {
    let output = command.current_dir(root()).stdin(Stdio::null()).output()?;
    text.push_str(&String::from_utf8_lossy(&output.stdout));
    text.push_str(&String::from_utf8_lossy(&output.stderr));
    if output.status.success() { Ok(()) } else { Err(format!("{}: {}", line(command), output.status).into()) }
}

impl Step {
    /// Runs the step; returns a summary of its success. `built`: the programs of tests, if they were built.
    fn run(self, built: Option<&[Program]>) -> Outcome<String> {
        match self {
            Step::Tidy => tidy::run(&tidy::Options::default()).map(|()| String::new()),
            Step::Deny => deny::run(),
            Step::Fmt => show(cargo().args(["fmt", "--all", "--check"])).map(|()| String::new()),
            Step::Test => tests(built.unwrap_or_default()),
            Step::Clippy | Step::Fuzz => {
                let mut command = self.program(built.is_some())?;
                show(&mut command).map(|()| String::new())
            }
            Step::Sim => {
                let mut text = String::new();
                let outcome = captured(&mut self.program(built.is_some())?, &mut text);
                print!("{text}");
                outcome.map(|()| text.lines().last().unwrap_or_default().to_owned())
            }
            Step::System => system(),
        }
    }

    fn name(self) -> String {
        format!("{self:?}").to_lowercase()
    }

    /// Whether the step runs what is built with the tests of the workspace, and is waited for.
    fn uses_tests(self) -> bool {
        matches!(self, Step::Sim | Step::Test | Step::System)
    }

    /// Whether the step is one program that neither waits nor measures time, so that it runs beside tests.
    fn only_computes(self) -> bool {
        matches!(self, Step::Clippy | Step::Fuzz)
    }

    /// Builds the program of a step that only computes; returns the command that runs it. `tested`: the programs of the
    /// workspace are built with its tests, whose libraries they share; alone a program needs them once more, with fewer features.
    fn program(self, tested: bool) -> Outcome<Command> {
        match self {
            Step::Clippy => {
                let mut command = cargo();
                command.args(["clippy", "--release", "--workspace", "--all-targets"]).args(FEATURES);
                command.args(["--", "-D", "warnings"]);
                Ok(command)
            }
            Step::Sim => program("ashlar-sim", "sim", &["--seeds=20000", "--minutes=6"], tested),
            Step::Fuzz => program("ashlar-fuzz", "ashlar-fuzz", &["--seconds", "4"], tested),
            other => Err(format!("{} is not one program", other.name()).into()),
        }
    }

    /// Runs a step that only computes, with the lowest priority; adds its output to `text`.
    fn run_in_background(self, tested: bool, text: &mut String) -> Outcome<String> {
        let command = self.program(tested)?;
        let mut nice = Command::new("nice");
        nice.args(["-n", "19"]).arg(command.get_program()).args(command.get_args());
        captured(&mut nice, text)?;
        Ok("beside the tests".to_owned())
    }
}

/// Runs all tests of crates.
fn tests(built: &[Program]) -> Outcome<String> {
    let counts = crate_tests::run(built, &FEATURES)?;
    Ok(format!("{} passed, {} ignored", counts.passed, counts.ignored))
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
