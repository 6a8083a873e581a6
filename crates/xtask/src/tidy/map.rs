//! Checks ARCHITECTURE.md: every file and folder in its table "Where do I ..." exists, every required task
//! has a row, and every crate has a row in the table of layers.
//!
//! Method: in the rows of that table, code between back-ticks that looks like a path (it contains `/` or ends
//! in `.rs`, `.md`, `.py` or `.toml`) is a path from the root of the repository. Other code, such as names of
//! types and functions, is ignored.
//!
//! Invariant: changes nothing. Must not depend on: other rules.

use std::{fs, path::Path};

use super::tree::{Findings, Tree};

/// The document and the heading above the table.
const DOCUMENT: &str = "ARCHITECTURE.md";
const HEADING: &str = "## Where do I ...";

/// Required texts in the first column.
const TASKS: [&str; 9] = [
    "add an S3 operation",
    "add a metric",
    "add a setting",
    "add an administration call",
    "add an event target",
    "add a checksum",
    "add a kernel",
    "add a lifecycle action",
    "add a command",
];

/// Checks the table.
pub fn check(tree: &Tree, findings: &mut Findings) {
    let text = fs::read_to_string(tree.root.join(DOCUMENT)).unwrap_or_default();
    findings.errors.extend(problems(&tree.root, &text));
    let manifests = tree.files.iter().filter_map(|f| f.to_str()?.strip_prefix("crates/"));
    let crates = manifests.filter_map(|f| f.strip_suffix("/Cargo.toml"));
    findings.errors.extend(undescribed(crates, &text));
}

/// Crates without a row in the table of layers.
fn undescribed<'a>(crates: impl Iterator<Item = &'a str>, text: &str) -> Vec<String> {
    crates
        .filter(|name| !text.lines().any(|l| l.starts_with('|') && l.contains(&format!("| `{name}` |"))))
        .map(|name| format!("{DOCUMENT}: the table of layers has no row for crates/{name}"))
        .collect()
}

fn problems(root: &Path, text: &str) -> Vec<String> {
    let rows = rows(text);
    let mut problems = Vec::new();
    for task in TASKS {
        if !rows.iter().any(|(_, row)| row.to_lowercase().contains(&task.to_lowercase())) {
            problems.push(format!("{DOCUMENT}: the table under \"{HEADING}\" has no row \"{task}\""));
        }
    }
    for (number, row) in rows {
        // Every second piece between back-ticks is code.
        for path in row.split('`').skip(1).step_by(2).filter(|code| is_path(code)) {
            if !root.join(path).exists() {
                problems.push(format!("{DOCUMENT}:{number}: {path}: no such file or folder"));
            }
        }
    }
    problems
}

/// The rows below the heading, up to the next heading, numbered from 1.
fn rows(text: &str) -> Vec<(usize, &str)> {
    let lines = text.lines().enumerate().map(|(number, line)| (number + 1, line));
    lines
        .skip_while(|(_, line)| line.trim() != HEADING)
        .skip(1)
        .take_while(|(_, line)| !line.starts_with("## "))
        .filter(|(_, line)| line.starts_with('|'))
        .collect()
}

fn is_path(code: &str) -> bool {
    let plain = code.chars().all(|c| c.is_ascii_alphanumeric() || "/._-".contains(c));
    let extension = code.rsplit_once('.').map_or("", |(_, extension)| extension);
    plain && (code.contains('/') || matches!(extension, "rs" | "md" | "py" | "toml"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_file_is_refused() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("docs")).unwrap();
        fs::write(root.path().join("docs/a.md"), "").unwrap();
        let tasks: String = TASKS.iter().map(|t| format!("| {t} | `docs/a.md` |\n")).collect();
        let table =
            |row: &str| format!("| `nowhere/x.rs` |\n{HEADING}\n{tasks}{row}\n## Next\n| `nowhere/y.rs` |");
        for (row, expected) in [
            ("| x | `docs/a.md`, `docs`, `docs/`, `Type::name`, `--option`, `GET /x?a=b` |", None),
            ("| x | `docs/b.md` |", Some("docs/b.md: no such file")),
            ("| x | text | `docs/a.md` and `gone/folder` |", Some("gone/folder: no such file")),
            ("| x | `README.md` |", Some("README.md: no such file")),
        ] {
            let found = problems(root.path(), &table(row));
            assert_eq!(found.len(), usize::from(expected.is_some()), "{row}: {found:?}");
            assert!(found.iter().all(|f| f.contains(expected.unwrap_or_default())), "{row}: {found:?}");
        }
    }

    #[test]
    fn a_missing_crate_is_refused() {
        let text = "| Ground | `format` | text |\n| | `drive` | text |\n`idp` and | `kms` |\n";
        let found = undescribed(["format", "drive", "idp", "kms"].into_iter(), text);
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].contains("crates/idp") && found[1].contains("crates/kms"), "{found:?}");
    }

    #[test]
    fn a_missing_row_is_refused() {
        let text = format!("{HEADING}\n| Add a metric | text |\n");
        let found = problems(Path::new("."), &text);
        assert_eq!(found.len(), TASKS.len() - 1, "{found:?}");
        assert!(found[0].contains("add an S3 operation"), "{found:?}");
        assert_eq!(problems(Path::new("."), "").len(), TASKS.len());
    }
}
