//! Long campaigns: what `ci` does in a bounded form, for hours. A person starts them and reports the figures.
//!
//! Invariant: they run the tests of `ci`, with other numbers in their environment.
//!
//! Must not depend on: what the tests do.

use std::process::{Command, Stdio};
use std::time::Instant;

use clap::{Arg, ArgMatches, builder::PossibleValuesParser};

use crate::shell::{self, Outcome, clock, root};

/// One campaign.
struct Campaign {
    name: &'static str,
    about: &'static str,
    /// The variables that the tests read.
    environment: &'static [(&'static str, &'static str)],
    /// Arguments of `tests/system/run`, which passes them to pytest.
    arguments: &'static [&'static str],
}

const CAMPAIGNS: [Campaign; 6] = [
    Campaign {
        name: "cluster",
        about: "the whole system tests, each connection of a client to another one of four nodes",
        environment: &[("ASHLAR_TEST_CLUSTER", "1")],
        arguments: &["--ignore-glob=*/test_cluster*"],
    },
    Campaign {
        name: "cluster-down",
        about: "the same with one of the four nodes dead",
        environment: &[("ASHLAR_TEST_CLUSTER", "down")],
        arguments: &["--ignore-glob=*/test_cluster*"],
    },
    Campaign {
        name: "kills",
        about: "1,000 kills of a server and of renames under load",
        environment: &[("ASHLAR_KILL_CYCLES", "1000")],
        arguments: &["-k", "test_crash or test_rename"],
    },
    Campaign {
        name: "power",
        about: "100 power cuts for each file system and for each code on drives with a volatile cache",
        environment: &[("ASHLAR_POWER_CYCLES", "100"), ("ASHLAR_VOLATILE_CUTS", "100")],
        arguments: &["-k", "test_power_cut or test_volatile_cache"],
    },
    Campaign {
        name: "hang",
        about: "2,000 requests for each hung drive",
        environment: &[("ASHLAR_HANG_ROUNDS", "2000")],
        arguments: &["-k", "test_hang"],
    },
    Campaign {
        name: "simulator",
        about: "1,000,000 runs of simulated clusters",
        environment: &[],
        arguments: &[],
    },
];

/// Describes the options on the command line.
pub fn describe(command: clap::Command) -> clap::Command {
    let names = CAMPAIGNS.iter().map(|c| clap::builder::PossibleValue::new(c.name).help(c.about));
    let parser = PossibleValuesParser::new(names);
    command.arg(Arg::new("campaign").value_name("CAMPAIGN").required(true).value_parser(parser).help("Which"))
}

/// Runs a campaign.
///
/// # Errors
/// It is not known, or fails; its output says what.
pub fn run(given: &ArgMatches) -> Outcome {
    let name = given.get_one::<String>("campaign").map_or("", String::as_str);
    let campaign = CAMPAIGNS.iter().find(|c| c.name == name).ok_or("no such campaign")?;
    let begin = Instant::now();
    shell::show(&mut command(campaign))?;
    println!("{name}: passed in {}", clock(begin.elapsed()));
    Ok(())
}

fn command(campaign: &Campaign) -> Command {
    if campaign.name == "simulator" {
        let mut command = shell::cargo();
        command.args(["run", "--release", "--package", "ashlar-sim", "--", "--seeds=1000000"]);
        return command;
    }
    let mut command = Command::new(root().join("tests/system/run"));
    command.current_dir(root()).stdin(Stdio::null());
    command.envs(campaign.environment.iter().copied()).args(campaign.arguments);
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn campaigns_set_variables_that_tests_read() {
        let tests = root().join("tests/system");
        let files = std::fs::read_dir(tests).unwrap().map(|f| f.unwrap().path());
        let python = files.filter(|f| f.extension().is_some_and(|e| e == "py"));
        let text: String = python.map(|f| std::fs::read_to_string(f).unwrap()).collect();
        for campaign in &CAMPAIGNS {
            for (variable, _) in campaign.environment {
                assert!(text.contains(&format!("\"{variable}\"")), "{}: {variable}", campaign.name);
            }
        }
    }
}
