//! Checks that relative links between documents lead to existing files and headings.

use std::{collections::BTreeSet, fs, path::Path};

use super::tree::{Findings, Tree};

/// Checks the relative links of all Markdown files.
pub fn check(tree: &Tree, findings: &mut Findings) {
    for (file, text) in tree.texts("md") {
        for (number, target) in links(&text) {
            if let Some(problem) = problem(&tree.root, file, &text, &target) {
                findings.errors.push(format!("{}:{number}: {target}: {problem}", file.display()));
            }
        }
    }
}

fn problem(root: &Path, file: &Path, text: &str, target: &str) -> Option<&'static str> {
    let (path, heading) = target.split_once('#').unwrap_or((target, ""));
    if path.contains("://") || path.starts_with("mailto:") {
        return None;
    }
    if path.is_empty() {
        return (!headings(text).contains(heading)).then_some("no such heading");
    }
    let folder = root.join(file.parent().unwrap_or(Path::new("")));
    let linked = folder.join(path);
    if !linked.exists() {
        return Some("no such file");
    }
    if heading.is_empty() || linked.extension().is_none_or(|e| e != "md") {
        return None;
    }
    let other = fs::read_to_string(linked).unwrap_or_default();
    (!headings(&other).contains(heading)).then_some("no such heading")
}

/// Lines outside fenced code, numbered from 1.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut fenced = false;
    text.lines().enumerate().filter_map(move |(number, line)| {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
            return None;
        }
        (!fenced).then_some((number + 1, line))
    })
}

/// The targets of `[text](target)` outside code.
fn links(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (number, line) in prose(text) {
        // Every second piece between back-ticks is code.
        let plain: String = line.split('`').step_by(2).collect::<Vec<_>>().join("code");
        for (at, _) in plain.match_indices("](") {
            if let Some(end) = plain[at + 2..].find(')') {
                let target = plain[at + 2..at + 2 + end].split(' ').next().unwrap_or_default();
                found.push((number, target.trim_matches(['<', '>']).to_owned()));
            }
        }
    }
    found
}

/// Headings as the anchors that forges generate.
fn headings(text: &str) -> BTreeSet<String> {
    let titles =
        prose(text).filter(|(_, l)| l.starts_with('#')).map(|(_, l)| l.trim_start_matches('#').trim());
    titles
        .map(|title| {
            title
                .to_lowercase()
                .chars()
                .filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'))
                .map(|c| if c == ' ' { '-' } else { c })
                .collect()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_broken_links() {
        let home = tempfile::tempdir().unwrap();
        fs::write(home.path().join("b.md"), "# One two: `three`\n").unwrap();
        let text = "# Here\n[a](b.md) [b](b.md#one-two-three) [c](#here) [d](https://x/#y)\n\
                    [e](c.md) [f](b.md#four) [g](#there) `[h](nowhere)`\n```\n[i](nowhere)\n```\n";
        let broken: Vec<_> = links(text)
            .into_iter()
            .filter(|(_, t)| problem(home.path(), Path::new("a.md"), text, t).is_some())
            .map(|(_, t)| t)
            .collect();
        assert_eq!(broken, ["c.md", "b.md#four", "#there"]);
    }
}
