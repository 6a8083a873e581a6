//! Tests of the whole command line: every command has examples that parse, options are in groups.

use ashlar_cli::examples::{LINES, add, lines};
use ashlar_cli::{ALL, Globals};
use clap::{Command, CommandFactory as _, Parser as _};

use crate::{Cli, documentation::commands};

fn each(command: &Command, path: &str, see: &mut impl FnMut(&Command, &str)) {
    see(command, path);
    for sub in command.get_subcommands().filter(|s| !s.is_hide_set()) {
        each(sub, &format!("{path} {}", sub.get_name()), see);
    }
}

#[test]
fn every_command_has_examples_that_parse() {
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

/// clap checks this only in builds with debug assertions.
#[test]
fn arguments_of_a_command_have_different_names() {
    let mut wrong = Vec::new();
    let mut root = Cli::command();
    root.build();
    each(&root, "ashlar", &mut |command, path| {
        let mut seen = std::collections::HashSet::new();
        for arg in command.get_arguments() {
            let long = arg.get_long().map(|l| format!("--{l}"));
            let short = arg.get_short().map(|s| format!("-{s}"));
            for name in [Some(arg.get_id().to_string()), long, short].into_iter().flatten() {
                if !seen.insert(name.clone()) {
                    wrong.push(format!("{path}: {name} twice"));
                }
            }
        }
    });
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_line_belongs_to_a_command() {
    let mut paths = Vec::new();
    each(&Cli::command(), "ashlar", &mut |command, path| {
        if !command.has_subcommands() {
            paths.push(format!("{path} "));
        }
    });
    let lost: Vec<&str> =
        LINES.lines().filter(|l| !paths.iter().any(|p| format!("{l} ").starts_with(p.as_str()))).collect();
    assert!(lost.is_empty(), "{}", lost.join("\n"));
}

#[test]
fn server_options_are_grouped() {
    let mut root = Cli::command();
    root.build();
    let server = root.find_subcommand("server").expect("the server is a command");
    let mut alone = Vec::new();
    for option in server.get_arguments().filter(|o| !o.is_positional() && !o.is_hide_set()) {
        let name = option.get_long().unwrap_or_default();
        if is_of_every_command(name) {
            assert_eq!(option.get_help_heading(), Some(ALL), "{name}");
        } else if option.get_help_heading().is_none() {
            alone.push(name);
        }
    }
    // The options that a first start needs.
    alone.retain(|name| !["help", "version"].contains(name));
    assert_eq!(alone, ["code", "new-deployment", "allow-shared-drive", "state-dir", "env-file"]);
}

fn is_of_every_command(name: &str) -> bool {
    let own = <Globals as clap::Args>::augment_args(clap::Command::new("x"));
    own.get_arguments().any(|o| o.get_long() == Some(name))
}
