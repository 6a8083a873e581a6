//! The files of the repository, and the findings of the rules.
//!
//! Invariant: changes nothing. Must not depend on: any rule.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use crate::shell::{Outcome, read, root};

/// The findings of all rules.
#[derive(Default)]
pub struct Findings {
    /// Violations.
    pub errors: Vec<String>,
    /// Recommendations.
    pub warnings: Vec<String>,
}

/// The files under version control, and untracked files that are not ignored.
pub struct Tree {
    /// The root of the repository.
    pub root: PathBuf,
    /// Paths from the root.
    pub files: Vec<PathBuf>,
}

impl Tree {
    /// Reads the list of files from git.
    ///
    /// # Errors
    /// This is not a working tree of git.
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

    /// Files with this extension, with their text; files that are not UTF-8 are left out.
    pub fn texts<'a>(&'a self, extension: &'a str) -> impl Iterator<Item = (&'a Path, String)> {
        let of_kind = move |f: &&PathBuf| f.extension().is_some_and(|e| e == extension);
        self.files
            .iter()
            .filter(of_kind)
            .filter_map(|f| Some((f.as_path(), fs::read_to_string(self.root.join(f)).ok()?)))
    }
}
