//! Examples of every command, for `--help` and the manual pages.
//!
//! A command with more than examples to say has them in its `after_help`; the examples of the others are
//! lines of examples.txt that call them. A command group shows the first examples of its commands.
//!
//! Invariants: every visible command has an example, and every example is a valid command line (tests of the
//! program).

use clap::Command;

/// Lines `ashlar COMMAND ...`.
pub const LINES: &str = include_str!("examples.txt");
/// The heading above examples.
pub const TITLE: &str = "Examples:";
/// Number of examples of a command group.
const SHOWN: usize = 4;

/// Splits a help text into the examples below `Examples:` and the rest.
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

/// The text of a command after its options.
pub fn help(command: &Command) -> String {
    let styled = command.get_after_long_help().or_else(|| command.get_after_help());
    styled.map(ToString::to_string).unwrap_or_default()
}

/// The command lines among the examples of a command.
pub fn lines(command: &Command) -> Vec<String> {
    let help = help(command);
    let (examples, _) = split(&help);
    examples.iter().map(|l| l.trim()).filter(|l| l.starts_with("ashlar ")).map(str::to_owned).collect()
}

/// Adds examples to all commands of the program.
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
    use super::*;

    #[test]
    fn examples_are_split_from_the_rest_of_the_help() {
        let (examples, rest) = split("Text.\n\nExamples:\n  ashlar a\n  ashlar b\n\nExit codes:\n  0  done");
        assert_eq!(
            (examples, rest.as_str()),
            (vec!["  ashlar a", "  ashlar b"], "Text.\n\n\nExit codes:\n  0  done")
        );
    }
}
