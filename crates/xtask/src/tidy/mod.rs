//! The house rules that a compiler does not check.
//!
//! Invariant: pure reading; every finding names the file and says what to do.

mod arrows;
mod licences;
mod links;
mod sources;

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use clap::Args;

use crate::{
    Outcome,
    shell::{read, root},
};

/// How strict.
#[derive(Args, Default)]
pub struct Options {
    /// Warnings fail too
    #[arg(long)]
    strict: bool,
}

/// What the rules have to say of a repository.
#[derive(Default)]
struct Findings {
    errors: Vec<String>,
    warnings: Vec<String>,
}

/// The files under version control, and those that would be added.
struct Tree {
    root: PathBuf,
    files: Vec<PathBuf>,
}

impl Tree {
    fn of_repository() -> Outcome<Tree> {
        let root = root();
        let listed = read(Command::new("git").current_dir(&root).args([
            "ls-files",
            "-z",
            "--cached",
            "--others",
            "--exclude-standard",
        ]))?;
        let files = listed.split('\0').filter(|f| !f.is_empty()).map(PathBuf::from);
        let files = files.filter(|f| root.join(f).is_file()).collect();
        Ok(Tree { root, files })
    }

    /// Files with this extension and their text; others than UTF-8 are left out.
    fn texts<'a>(&'a self, extension: &'a str) -> impl Iterator<Item = (&'a Path, String)> {
        let of_kind = move |f: &&PathBuf| f.extension().is_some_and(|e| e == extension);
        self.files
            .iter()
            .filter(of_kind)
            .filter_map(|f| Some((f.as_path(), fs::read_to_string(self.root.join(f)).ok()?)))
    }
}

/// Checks the repository and prints what it finds.
pub fn run(options: &Options) -> Outcome {
    let tree = Tree::of_repository()?;
    let mut findings = Findings::default();
    arrows::check(&tree, &mut findings)?;
    sources::check(&tree, &mut findings);
    links::check(&tree, &mut findings);
    licences::check(&tree, &mut findings)?;
    for warning in &findings.warnings {
        println!("warning: {warning}");
    }
    for error in &findings.errors {
        println!("error: {error}");
    }
    let failed = findings.errors.len() + if options.strict { findings.warnings.len() } else { 0 };
    if failed > 0 {
        return Err(format!("{failed} house rules are broken").into());
    }
    println!("{} files keep the house rules", tree.files.len());
    Ok(())
}
