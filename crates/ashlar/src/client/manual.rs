//! `ashlar completion` and `ashlar man`: made from the command line's own description.

use std::path::PathBuf;

use clap::{Args, CommandFactory, Parser};
use clap_complete::Shell;

use super::{
    Globals,
    failure::{EXIT_CODES, Outcome, While},
    output::Output,
};

/// Which shell.
#[derive(Args, Debug)]
pub struct CompletionOptions {
    /// The shell
    shell: Shell,
}

/// Where to.
#[derive(Args, Debug)]
pub struct ManOptions {
    /// A folder for one page per command; without it the main page is printed
    folder: Option<PathBuf>,
}

/// The commands of this file alone, where `main` does not say what the whole program has.
#[derive(Parser)]
#[command(name = "ashlar", version, about = "S3 object storage on erasure-coded drives")]
struct ClientOnly {
    #[command(flatten)]
    _globals: Globals,
    #[command(subcommand)]
    _command: super::Command,
}

fn root(globals: &Globals) -> clap::Command {
    let root = globals.root.map_or_else(ClientOnly::command, |root| root());
    root.name("ashlar").after_long_help(EXIT_CODES)
}

/// Prints a shell's completions.
pub fn completion(options: &CompletionOptions, globals: &Globals) -> Outcome {
    // Rendered first: `clap_complete` panics where its reader goes away (`ashlar completion bash | head`).
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
            clap_mangen::Man::new(root).render(&mut text)?;
            Output::new(globals).bytes(&text);
            Ok(())
        }
        Some(folder) => {
            std::fs::create_dir_all(folder).when(|| format!("cannot make {}", folder.display()))?;
            clap_mangen::generate_to(root, folder).when(|| format!("cannot write to {}", folder.display()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_sound() {
        ClientOnly::command().debug_assert();
        let folder = tempfile::tempdir().unwrap();
        let options = ManOptions { folder: Some(folder.path().to_path_buf()) };
        man(&options, &Globals::default()).unwrap();
        let page = std::fs::read_to_string(folder.path().join("ashlar-mirror.1")).unwrap();
        assert!(page.contains("overwrite"));
        assert!(folder.path().join("ashlar-bucket-versioning-enable.1").exists());
    }
}
