//! Tests that this program can parse the command lines in the documentation.
//!
//! tests/system/test_documentation.py runs them; this test also covers those that need external systems.

use clap::Parser as _;

use crate::Cli;

/// The lines of shell blocks that call `program`, as words; comments, pipes and conditions end a line.
fn command_lines(text: &str, program: &str) -> Vec<Vec<String>> {
    let mut lines = Vec::new();
    for block in text.split("```sh\n").skip(1) {
        let block = block.split("```").next().unwrap_or_default().replace("\\\n", " ");
        lines.extend(block.lines().flat_map(commands).filter(|words| words[0] == program));
    }
    lines
}

/// The commands of one line: words without quotes and redirections.
pub fn commands(line: &str) -> Vec<Vec<String>> {
    let (mut all, mut words, mut word) = (Vec::new(), Vec::new(), None::<String>);
    let mut quote = None;
    for c in line.chars() {
        match (quote, c) {
            (Some(q), c) if c == q => quote = None,
            (None, '\'' | '"') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None, '#') if word.is_none() => break,
            (None, ' ') => words.extend(word.take()),
            (None, '|' | '&' | ';' | '>' | '<') => {
                words.extend(word.take());
                all.push(std::mem::take(&mut words));
                if matches!(c, '>' | '<') {
                    break;
                }
            }
            (_, c) => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    all.push(words);
    // Assignments before a command belong to the shell.
    for words in &mut all {
        let variables =
            words.iter().take_while(|w| w.split_once('=').is_some_and(|(n, _)| is_name(n))).count();
        words.drain(..variables);
    }
    all.retain(|words| !words.is_empty());
    all
}

fn is_name(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_')
}

#[test]
fn lines_are_split_as_a_shell_splits_them() {
    let lines = |text: &str| command_lines(&format!("x\n```sh\n{text}\n```\nashlar no"), "ashlar");
    assert_eq!(lines("A=1 B='c d' ashlar ls 'a b' # ashlar rm"), [["ashlar", "ls", "a b"]]);
    assert_eq!(lines("ashlar a \\\n  b && ashlar c > d"), [vec!["ashlar", "a", "b"], vec!["ashlar", "c"]]);
}

#[test]
fn every_command_line_in_the_documentation_parses() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut files = vec![root.join("README.md")];
    for folder in ["docs", "docs/decisions", "docs/benchmarks", "docs/benchmarks/history"] {
        let entries = std::fs::read_dir(root.join(folder)).expect("the documentation is in the repository");
        files.extend(entries.map(|e| e.unwrap().path()).filter(|p| p.extension().is_some_and(|e| e == "md")));
    }
    let (mut seen, mut wrong) = (0, Vec::new());
    for file in files {
        let text = std::fs::read_to_string(&file).unwrap();
        for line in command_lines(&text, "ashlar") {
            seen += 1;
            if let Err(error) = Cli::try_parse_from(&line) {
                wrong.push(format!("{}: {}\n{error}", file.display(), line.join(" ")));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(seen > 30, "only {seen} command lines were found");
}
