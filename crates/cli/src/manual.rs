//! `ashlar completion` and `ashlar man`: generated from the definition of the command line.

use std::io;
use std::path::{Path, PathBuf};

use clap::{Args, CommandFactory, Parser, builder::Resettable};
use clap_complete::Shell;

use super::{
    Globals,
    failure::{EXIT_CODES, Outcome, While},
    output::Output,
};
use crate::examples;

/// Which shell.
#[derive(Args, Debug)]
pub struct CompletionOptions {
    /// The shell
    shell: Shell,
}

/// The output of `ashlar man`.
#[derive(Args, Debug)]
pub struct ManOptions {
    /// Folder for one page per command; without it the main page is printed
    folder: Option<PathBuf>,
}

/// The commands of this crate, if `main` does not provide the command line of the whole program.
#[derive(Parser)]
#[command(name = "ashlar", version, about = "S3 object storage on erasure-coded drives")]
struct ClientOnly {
    #[command(flatten)]
    _globals: Globals,
    #[command(subcommand)]
    _command: super::commands::Command,
}

fn root(globals: &Globals) -> clap::Command {
    match globals.root {
        Some(root) => root(),
        None => examples::add(ClientOnly::command().after_long_help(EXIT_CODES)),
    }
}

/// Prints a shell's completions.
pub fn completion(options: &CompletionOptions, globals: &Globals) -> Outcome {
    // Rendered to memory first: `clap_complete` panics if its reader closes the pipe (`ashlar completion bash
    // | head`).
    let mut text = Vec::new();
    clap_complete::generate(options.shell, &mut root(globals), "ashlar", &mut text);
    Output::new(globals).bytes(&text);
    Ok(())
}

/// Writes the manual pages.
pub fn man(options: &ManOptions, globals: &Globals) -> Outcome {
    let root = root(globals);
    match &options.folder {
        None => {
            let mut text = Vec::new();
            render(root, &mut text)?;
            Output::new(globals).bytes(&text);
            Ok(())
        }
        Some(folder) => {
            std::fs::create_dir_all(folder).when(|| format!("cannot make {}", folder.display()))?;
            let mut root = root.disable_help_subcommand(true);
            root.build();
            pages(&root, folder).when(|| format!("cannot write to {}", folder.display()))
        }
    }
}

/// Writes the page of a command and those of its subcommands.
fn pages(command: &clap::Command, folder: &Path) -> io::Result<()> {
    for sub in command.get_subcommands().filter(|s| !s.is_hide_set()) {
        pages(sub, folder)?;
    }
    let name = command.get_display_name().unwrap_or_else(|| command.get_name());
    let mut text = Vec::new();
    render(command.clone(), &mut text)?;
    std::fs::write(folder.join(format!("{name}.1")), text)
}

/// Renders a page, with the examples in a section of their own.
fn render(command: clap::Command, to: &mut Vec<u8>) -> io::Result<()> {
    let help = examples::help(&command);
    let (lines, rest) = examples::split(&help);
    let rest = if rest.is_empty() { Resettable::Reset } else { Resettable::Value(rest.into()) };
    let command = command.after_help(Resettable::Reset).after_long_help(rest);
    let has_subcommands = command.get_subcommands().any(|s| !s.is_hide_set());
    let has_rest = command.get_after_long_help().is_some();
    let has_version = command.get_version().or_else(|| command.get_long_version()).is_some();
    let man = clap_mangen::Man::new(command);
    man.render_title(to)?;
    man.render_name_section(to)?;
    man.render_synopsis_section(to)?;
    man.render_description_section(to)?;
    man.render_options_section(to)?;
    if has_subcommands {
        man.render_subcommands_section(to)?;
    }
    if has_rest {
        man.render_extra_section(to)?;
    }
    if !lines.is_empty() {
        to.extend_from_slice(b".SH EXAMPLES\n.nf\n");
        for line in lines {
            to.extend_from_slice(verbatim(line).as_bytes());
        }
        to.extend_from_slice(b".fi\n");
    }
    if has_version {
        man.render_version_section(to)?;
    }
    Ok(())
}

/// Escapes a line so that troff prints it literally.
fn verbatim(line: &str) -> String {
    let line = line.replace('\\', "\\e").replace('-', "\\-").replace('\'', "\\(aq");
    format!("\\&{line}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_line_is_consistent() {
        ClientOnly::command().debug_assert();
        let folder = tempfile::tempdir().unwrap();
        let options = ManOptions { folder: Some(folder.path().to_path_buf()) };
        man(&options, &Globals::default()).unwrap();
        let page = std::fs::read_to_string(folder.path().join("ashlar-mirror.1")).unwrap();
        assert!(page.contains("overwrite"));
        assert!(folder.path().join("ashlar-bucket-versioning-enable.1").exists());
        for entry in std::fs::read_dir(folder.path()).unwrap() {
            let path = entry.unwrap().path();
            let page = std::fs::read_to_string(&path).unwrap();
            let (_, examples) = page.split_once("\n.SH EXAMPLES\n.nf\n").unwrap_or_default();
            assert!(
                examples.trim_start_matches(['\\', '&', ' ']).starts_with("ashlar "),
                "{}",
                path.display()
            );
            assert_eq!(page.matches("Examples:").count(), 0, "{}", path.display());
        }
    }

    #[test]
    fn example_lines_are_escaped_for_troff() {
        assert_eq!(verbatim(".a -b 'c\\d'"), "\\&.a \\-b \\(aqc\\ed\\(aq\n");
    }
}
