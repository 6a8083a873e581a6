//! Examples of every command, for `--help` and the manual pages.
//!
//! A command that says more than an example has its own in `after_help`; for the others examples.txt has lines that
//! belong to the command they call. A command that only holds others shows the first of theirs.
//!
//! Invariants: every command that is shown has an example, and every example is a command line that is understood
//! (tests below).

use clap::Command;

/// Lines `ashlar COMMAND ...`.
const LINES: &str = include_str!("examples.txt");
/// What stands above examples.
pub const TITLE: &str = "Examples:";
/// Examples of a command that holds others.
const SHOWN: usize = 4;

/// The examples below `Examples:` in a command's help, and what stands around them.
pub fn split(help: &str) -> (Vec<&str>, String) {
    let (mut examples, mut rest, mut within) = (Vec::new(), Vec::new(), false);
    for line in help.lines() {
        if line.trim_end() == TITLE {
            within = true;
        } else if within && line.trim().is_empty() {
            within = false;
            rest.push(line);
        } else if within {
            examples.push(line);
        } else {
            rest.push(line);
        }
    }
    (examples, rest.join("\n").trim().to_owned())
}

/// What a command says after its options.
pub fn help(command: &Command) -> String {
    let styled = command.get_after_long_help().or_else(|| command.get_after_help());
    styled.map(ToString::to_string).unwrap_or_default()
}

/// The command lines among the examples of a command.
fn lines(command: &Command) -> Vec<String> {
    let help = help(command);
    let (examples, _) = split(&help);
    examples.iter().map(|l| l.trim()).filter(|l| l.starts_with("ashlar ")).map(str::to_owned).collect()
}

/// The program's command line with examples everywhere.
pub fn add(root: Command) -> Command {
    let path = root.get_name().to_owned();
    with(root, &path, LINES)
}

fn with(command: Command, path: &str, all: &str) -> Command {
    let command = command.mut_subcommands(|sub| {
        let path = format!("{path} {}", sub.get_name());
        with(sub, &path, all)
    });
    if !lines(&command).is_empty() {
        return command;
    }
    let own =
        |line: &&str| line.strip_prefix(path).is_some_and(|rest| rest.is_empty() || rest.starts_with(' '));
    let mut examples: Vec<String> = if command.has_subcommands() {
        let each = command.get_subcommands().filter(|s| !s.is_hide_set());
        each.filter_map(|s| lines(s).first().cloned()).take(SHOWN).collect()
    } else {
        all.lines().filter(own).map(str::to_owned).collect()
    };
    examples.dedup();
    if examples.is_empty() {
        return command;
    }
    let said = help(&command);
    let said = if said.is_empty() { said } else { format!("{said}\n\n") };
    command.after_long_help(format!("{said}{TITLE}\n  {}", examples.join("\n  ")))
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory as _, Parser as _};

    use super::*;
    use crate::{Cli, documentation::commands};

    fn each(command: &Command, path: &str, see: &mut impl FnMut(&Command, &str)) {
        see(command, path);
        for sub in command.get_subcommands().filter(|s| !s.is_hide_set()) {
            each(sub, &format!("{path} {}", sub.get_name()), see);
        }
    }

    #[test]
    fn every_command_has_examples_that_are_understood() {
        let root = add(Cli::command());
        let (mut seen, mut wrong) = (0, Vec::new());
        each(&root, "ashlar", &mut |command, path| {
            let examples = lines(command);
            if examples.is_empty() {
                wrong.push(format!("{path}: no example"));
            }
            for example in examples {
                seen += 1;
                if !command.has_subcommands()
                    && !example.starts_with(path)
                    && !example.contains(&path["ashlar".len()..])
                {
                    wrong.push(format!("{path}: `{example}` is of another command"));
                }
                for words in commands(&example).iter().filter(|w| w[0] == "ashlar") {
                    if let Err(error) = Cli::try_parse_from(words) {
                        wrong.push(format!("{path}: `{example}`: {error}"));
                    }
                }
            }
        });
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
        assert!(seen > 180, "only {seen} examples");
    }

    #[test]
    fn every_line_belongs_to_a_command() {
        let mut paths = Vec::new();
        each(&Cli::command(), "ashlar", &mut |command, path| {
            if !command.has_subcommands() {
                paths.push(format!("{path} "));
            }
        });
        let lost: Vec<&str> = LINES
            .lines()
            .filter(|l| !paths.iter().any(|p| format!("{l} ").starts_with(p.as_str())))
            .collect();
        assert!(lost.is_empty(), "{}", lost.join("\n"));
    }

    #[test]
    fn examples_are_told_from_what_stands_around_them() {
        let (examples, rest) = split("Text.\n\nExamples:\n  ashlar a\n  ashlar b\n\nExit codes:\n  0  done");
        assert_eq!(
            (examples, rest.as_str()),
            (vec!["  ashlar a", "  ashlar b"], "Text.\n\n\nExit codes:\n  0  done")
        );
    }
}
