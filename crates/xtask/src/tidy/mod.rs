//! Rules of the repository that the compiler does not check.
//!
//! Invariant: changes nothing; every finding names the file and says what to do.

mod layers;
mod licences;
mod links;
mod lookups;
mod loops;
mod map;
mod sources;
mod tokens;
mod tree;

use clap::{Arg, ArgAction, ArgMatches, Command};

use serde_json::Value;

use crate::shell::{Outcome, cargo, read};
use tree::{Findings, Tree};

/// The options of `tidy`.
#[derive(Default)]
pub struct Options {
    strict: bool,
    loops: bool,
}

impl Options {
    /// Describes the options on the command line.
    pub fn describe(command: Command) -> Command {
        let flag = |name: &'static str| Arg::new(name).long(name).action(ArgAction::SetTrue);
        command
            .arg(flag("strict").help("Warnings fail too"))
            .arg(flag("loops").help("Lists the imports within loops that are too long, instead of checking"))
    }

    /// The options on the command line.
    pub fn of(given: &ArgMatches) -> Options {
        Options { strict: given.get_flag("strict"), loops: given.get_flag("loops") }
    }
}

/// Checks the repository and prints the findings.
pub fn run(options: &Options) -> Outcome {
    let tree = Tree::of_repository()?;
    if options.loops {
        print!("{}", loops::describe(&tree));
        return Ok(());
    }
    let mut findings = Findings::default();
    let metadata = read(cargo().args(["metadata", "--locked", "--format-version", "1"]))?;
    let metadata: Value = serde_json::from_str(&metadata)?;
    layers::check(&metadata, &mut findings);
    loops::check(&tree, &mut findings);
    sources::check(&tree, &mut findings);
    links::check(&tree, &mut findings);
    lookups::check(&tree, &mut findings);
    map::check(&tree, &mut findings);
    licences::check(&tree, &metadata, &mut findings);
    for warning in &findings.warnings {
        println!("warning: {warning}");
    }
    for error in &findings.errors {
        println!("error: {error}");
    }
    let failed = findings.errors.len() + if options.strict { findings.warnings.len() } else { 0 };
    if failed > 0 {
        return Err(format!("{failed} violations of the repository's rules").into());
    }
    println!("{} files follow the repository's rules", tree.files.len());
    Ok(())
}
