//! The files of the repository, and what the rules find in them.
//!
//! Invariant: pure reading. Must not depend on: any rule.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use crate::shell::{Outcome, read, root};

/// What the rules find in a repository.
#[derive(Default)]
pub struct Findings {
    /// What must be corrected.
    pub errors: Vec<String>,
    /// What should be corrected.
    pub warnings: Vec<String>,
}

/// The files under version control, and those that would be added.
pub struct Tree {
    /// The root of the repository.
    pub root: PathBuf,
    /// Paths from the root.
    pub files: Vec<PathBuf>,
}

impl Tree {
    /// Asks git for the files.
    ///
    /// # Errors
    /// This is no working tree of git.
    pub fn of_repository() -> Outcome<Tree> {
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
    pub fn texts<'a>(&'a self, extension: &'a str) -> impl Iterator<Item = (&'a Path, String)> {
        let of_kind = move |f: &&PathBuf| f.extension().is_some_and(|e| e == extension);
        self.files
            .iter()
            .filter(of_kind)
            .filter_map(|f| Some((f.as_path(), fs::read_to_string(self.root.join(f)).ok()?)))
    }
}
