//! The tests of all crates: builds the programs that contain them, and runs several of these at a time.
//!
//! Many test programs wait most of their time: for other processes, for timers, for a network that is cut off. One after
//! the other, as `cargo test` runs them, they leave processors idle.
//!
//! Invariants:
//! - a test program runs in the folder of its crate, as under `cargo test`;
//! - every program that was built is run; a program that reports no result has failed;
//! - the output of a program is shown whole, when it ends, and not mixed with that of others.
//!
//! Must not depend on: `ci`.

use std::{
    io::{self, BufRead, BufReader, Read},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::atomic::{AtomicUsize, Ordering},
    thread,
    time::Instant,
};

use serde_json::Value;

use crate::shell::{Outcome, cargo, clock, line};

/// Programs that run at a time for each processor: most of them wait.
const PER_PROCESSOR: usize = 2;

/// Numbers of tests.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct Counts {
    pub passed: u64,
    pub failed: u64,
    pub ignored: u64,
}

impl Counts {
    /// Reads `test result: ok. 25 passed; 0 failed; 1 ignored; ...`; returns whether it was such a line.
    fn add(&mut self, text: &str) -> bool {
        let Some((_, rest)) = text.strip_prefix("test result: ").and_then(|t| t.split_once(". ")) else {
            return false;
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
        true
    }

    fn join(&mut self, other: Counts) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.ignored += other.ignored;
    }
}

/// A program with tests of one target of one crate.
#[derive(Debug, PartialEq, Eq)]
pub struct Program {
    /// The crate's folder and the target's source, to show.
    name: String,
    file: PathBuf,
    folder: PathBuf,
}

impl Program {
    /// The program of a message of cargo, if it tells of one. Source of the format: the Cargo book, "External tools",
    /// "Artifact messages".
    fn of(message: &Value) -> Option<Program> {
        if message["reason"] != "compiler-artifact" || message["profile"]["test"] != true {
            return None;
        }
        let file = PathBuf::from(message["executable"].as_str()?);
        let folder = Path::new(message["manifest_path"].as_str()?).parent()?.to_path_buf();
        let source = Path::new(message["target"]["src_path"].as_str()?);
        let shown = source.strip_prefix(&folder).unwrap_or(source);
        let name = format!("{}: {}", folder.file_name()?.to_string_lossy(), shown.display());
        Some(Program { name, file, folder })
    }

    /// Runs the tests; returns what the program wrote, whether it succeeded, and what it counted.
    fn run(&self) -> io::Result<(String, bool, Counts)> {
        let (mut reader, writer) = io::pipe()?;
        let mut command = Command::new(&self.file);
        command.current_dir(&self.folder).env("CARGO_MANIFEST_DIR", &self.folder).stdin(Stdio::null());
        command.stdout(writer.try_clone()?).stderr(writer);
        let mut child = command.spawn()?;
        // It holds the other end of the pipe, whose end would never come.
        drop(command);
        let mut output = Vec::new();
        reader.read_to_end(&mut output)?;
        let succeeded = child.wait()?.success();
        let output = String::from_utf8_lossy(&output).into_owned();
        let mut counts = Counts::default();
        // Not `any`: every line has to be looked at.
        let reported = output.lines().filter(|text| counts.add(text)).count() > 0;
        Ok((output, succeeded && reported && counts.failed == 0, counts))
    }
}

/// Runs all tests of these programs, and those in the documentation; `features`: arguments for cargo.
///
/// # Errors
/// If a test fails, or no test was run; after all programs were run.
pub fn run(programs: &[Program], features: &[&str]) -> Outcome<Counts> {
    let mut failed = Vec::new();
    let mut counts = run_programs(programs, &mut failed);
    if let Err(error) = documentation(features, &mut counts) {
        failed.push(error.to_string());
    }
    if !failed.is_empty() {
        return Err(format!("{} tests failed, in:\n  {}", counts.failed, failed.join("\n  ")).into());
    }
    if counts.passed == 0 {
        return Err("no test was run".into());
    }
    Ok(counts)
}

/// Builds all test programs and the programs that they start; `features`: arguments for cargo. Not the examples, which no test
/// starts; the lints compile them.
///
/// # Errors
/// If something does not build.
pub fn build(features: &[&str]) -> Outcome<Vec<Program>> {
    let mut command = cargo();
    command
        .args(["test", "--release", "--workspace", "--lib", "--bins", "--tests", "--no-run"])
        .args(features);
    command.arg("--message-format=json-render-diagnostics");
    let mut programs = Vec::new();
    each_line(&mut command, |message| {
        programs.extend(Program::of(&serde_json::from_str(message)?));
        Ok(())
    })?;
    Ok(programs)
}

/// Runs a command and calls `take` with each line of its output as it comes.
fn each_line(command: &mut Command, mut take: impl FnMut(&str) -> Outcome) -> Outcome {
    let mut child = command.stdout(Stdio::piped()).spawn()?;
    let output = child.stdout.take().ok_or("no output")?;
    for text in BufReader::new(output).lines() {
        take(&text?)?;
    }
    match child.wait()? {
        status if status.success() => Ok(()),
        status => Err(format!("{}: {status}", line(command)).into()),
    }
}

/// Runs the programs, several at a time; adds the names of those that failed to `failed`.
fn run_programs(programs: &[Program], failed: &mut Vec<String>) -> Counts {
    let next = AtomicUsize::new(0);
    let work = || {
        let (mut counts, mut failed) = (Counts::default(), Vec::new());
        while let Some(program) = programs.get(next.fetch_add(1, Ordering::Relaxed)) {
            run_program(program, &mut counts, &mut failed);
        }
        (counts, failed)
    };
    let workers = PER_PROCESSOR * thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let mut counts = Counts::default();
    thread::scope(|scope| {
        let workers: Vec<_> = (0..workers).map(|_| scope.spawn(work)).collect();
        for worker in workers {
            let (new, names) = worker.join().expect("a failure of a program is a result");
            counts.join(new);
            failed.extend(names);
        }
    });
    counts
}

/// Runs one program, shows its output and adds its result.
fn run_program(program: &Program, counts: &mut Counts, failed: &mut Vec<String>) {
    let begin = Instant::now();
    let result = program.run();
    let (output, succeeded, new) = result
        .unwrap_or_else(|error| (format!("{}: {error}", program.file.display()), false, Counts::default()));
    counts.join(new);
    // One call, so that the outputs of two programs do not mix.
    println!("\n--- {} ({})\n{}", program.name, clock(begin.elapsed()), output.trim());
    if !succeeded {
        failed.push(program.name.clone());
    }
}

/// Runs the examples in the documentation.
fn documentation(features: &[&str], counts: &mut Counts) -> Outcome {
    let mut command = cargo();
    command.args(["test", "--release", "--workspace", "--doc", "--no-fail-fast"]).args(features);
    each_line(&mut command, |text| {
        counts.add(text);
        println!("{text}");
        Ok(())
    })
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn counts() {
        let mut counts = Counts::default();
        assert!(counts.add("test result: ok. 25 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out"));
        assert!(counts.add("test result: FAILED. 3 passed; 2 failed; 0 ignored; 0 measured"));
        assert!(!counts.add("test something ... ok"));
        assert_eq!(counts, Counts { passed: 28, failed: 2, ignored: 1 });
    }

    fn script(folder: &Path, text: &str) -> Program {
        let file = folder.join("program");
        std::fs::write(folder.join("text"), format!("#!/bin/sh\n{text}")).unwrap();
        // Another process writes it: a program that this process had open for writing may not start ("text file busy").
        let mut copy = Command::new("install");
        assert!(copy.current_dir(folder).args(["-m", "755", "text", "program"]).status().unwrap().success());
        Program { name: "name".to_owned(), file, folder: folder.to_path_buf() }
    }

    /// Runs a program of this text alone; returns the counts and the names of what failed.
    fn outcome(text: &str) -> (Counts, Vec<String>) {
        let folder = tempfile::tempdir().unwrap();
        let mut failed = Vec::new();
        let counts = run_programs(&[script(folder.path(), text)], &mut failed);
        (counts, failed)
    }

    #[test]
    fn failures_of_programs_are_noticed() {
        let good = "test result: ok. 2 passed; 0 failed; 0 ignored";
        assert_eq!(
            outcome(&format!("echo '{good}'")),
            (Counts { passed: 2, ..Counts::default() }, Vec::new())
        );
        let failed = vec!["name".to_owned()];
        assert_eq!(outcome(&format!("echo '{good}'; kill -9 $$")).1, failed);
        assert_eq!(outcome("echo nothing was counted").1, failed);
        let bad = "test result: FAILED. 1 passed; 1 failed; 0 ignored";
        assert_eq!(
            outcome(&format!("echo '{bad}'; exit 101")),
            (Counts { passed: 1, failed: 1, ignored: 0 }, failed)
        );
    }

    #[test]
    fn programs_are_found_in_messages() {
        let text = r#"{"reason":"compiler-artifact","manifest_path":"/r/crates/a/Cargo.toml","profile":{"test":true},
            "target":{"src_path":"/r/crates/a/tests/all/main.rs"},"executable":"/r/target/all-1"}"#;
        let mut message: Value = serde_json::from_str(text).unwrap();
        let program = Program::of(&message).unwrap();
        assert_eq!(program.name, "a: tests/all/main.rs");
        assert_eq!((program.file, program.folder), ("/r/target/all-1".into(), "/r/crates/a".into()));
        message["profile"]["test"] = false.into();
        assert_eq!(Program::of(&message), None);
    }
}
