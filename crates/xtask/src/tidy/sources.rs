//! Rules for source files: length, module comment, unsafe code, left-over macros, private paths.

use std::path::Path;

use super::tree::{Findings, Tree};

/// The only crates with unsafe code.
const MAY_BE_UNSAFE: [&str; 5] = ["erasure", "checksum", "machine", "fuzz", "gpu"];

/// Numbers of lines at which a file causes a warning, and an error.
const LONG: usize = 500;
const TOO_LONG: usize = 900;

/// Macros that must not be left in sources. Written in two halves, so that this file passes.
const LEFT_OVER: [&str; 3] = [concat!("todo", "!("), concat!("unimplemented", "!("), concat!("dbg", "!(")];

/// Paths of single machines, in two halves as above.
const PRIVATE_PATHS: [&str; 4] =
    [concat!("/ho", "me/"), concat!("/ro", "ot/"), concat!("/wo", "rk/"), concat!("/Us", "ers/")];

/// Checks all source files, scripts and documents.
pub fn check(tree: &Tree, findings: &mut Findings) {
    for (file, text) in tree.texts("rs") {
        source(file, &text, findings);
    }
    for extension in ["rs", "py", "sh", "toml", "md", "yml", "yaml", "json"] {
        for (file, text) in tree.texts(extension) {
            private_paths(file, &text, findings);
        }
    }
}

fn source(file: &Path, text: &str, findings: &mut Findings) {
    let name = file.display();
    let lines = text.lines().count();
    if lines > TOO_LONG {
        findings.errors.push(format!("{name}: {lines} lines; split it (at most {TOO_LONG}, better {LONG})"));
    } else if lines > LONG {
        findings.warnings.push(format!("{name}: {lines} lines; better split it (over {LONG})"));
    }
    let first = text.lines().find(|l| !l.starts_with("#![") && !l.trim().is_empty());
    match first.and_then(|l| l.strip_prefix("//!")) {
        Some(said) if said.trim().len() >= 15 => {}
        Some(_) => findings.errors.push(format!("{name}: its first line says nothing")),
        None => findings.errors.push(format!("{name}: must begin with //! and what it is for")),
    }
    for (number, line) in text.lines().enumerate() {
        if let Some(word) = LEFT_OVER.iter().find(|word| line.contains(*word)) {
            findings.errors.push(format!("{name}:{}: {word}...) is left over", number + 1));
        }
    }
    let Some(owner) = crate_of(file) else { return };
    let root = file.ends_with("src/lib.rs") || file.ends_with("src/main.rs");
    if root && !MAY_BE_UNSAFE.contains(&owner) && !text.contains("#![forbid(unsafe_code)]") {
        findings.errors.push(format!("{name}: must say #![forbid(unsafe_code)]"));
    }
    // Files beside the library (tests, examples, benches) are separate crates, to which the attribute of the
    // library does not apply.
    if !MAY_BE_UNSAFE.contains(&owner)
        && let Some(number) = text.lines().position(has_unsafe)
    {
        findings.errors.push(format!(
            "{name}:{}: unsafe code belongs into {}",
            number + 1,
            MAY_BE_UNSAFE.join(", ")
        ));
    }
}

fn crate_of(file: &Path) -> Option<&str> {
    file.strip_prefix("crates").ok()?.components().next()?.as_os_str().to_str()
}

fn has_unsafe(line: &str) -> bool {
    let code = line.split("//").next().unwrap_or_default();
    ["unsafe {", "unsafe fn", "unsafe impl", "unsafe extern"].iter().any(|u| {
        code.trim_start().starts_with(u) || code.contains(&format!(" {u}")) || code.contains(&format!("({u}"))
    }) && !code.contains('"')
}

fn private_paths(file: &Path, text: &str, findings: &mut Findings) {
    for (number, line) in text.lines().enumerate() {
        // In a URL it is a path on the server.
        let line = line.replace("https://", "").replace("http://", "");
        for path in PRIVATE_PATHS {
            let found = line.match_indices(path).any(|(at, _)| {
                !line[..at].ends_with(|c: char| c.is_ascii_alphanumeric() || "._-}*)".contains(c))
            });
            if found {
                findings.errors.push(format!(
                    "{}:{}: a path of one machine ({path})",
                    file.display(),
                    number + 1
                ));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn errors(file: &str, text: &str) -> Vec<String> {
        let mut findings = Findings::default();
        source(Path::new(file), text, &mut findings);
        private_paths(Path::new(file), text, &mut findings);
        findings.errors
    }

    #[test]
    fn rules() {
        let good = "#![forbid(unsafe_code)]\n//! What this is for, in words.\n";
        assert_eq!(errors("crates/s3/src/lib.rs", good), Vec::<String>::new());
        let long = format!("{good}{}", "\n".repeat(TOO_LONG));
        let left = format!("{good}fn f() {{ {}) }}", LEFT_OVER[0]);
        let path = format!("{good}// see {}me", PRIVATE_PATHS[1]);
        for (text, expected) in [
            ("fn main() {}", "must begin with //!"),
            ("//! placeholder\n#![forbid(unsafe_code)]", "says nothing"),
            ("//! What this is for, in words.", "forbid(unsafe_code)"),
            (&format!("{good}fn f() {{ unsafe {{ g() }} }}"), "unsafe code belongs"),
            (&long, "split it"),
            (&left, "left over"),
            (&path, "a path of one machine"),
        ] {
            let found = errors("crates/s3/src/lib.rs", text);
            assert!(found.iter().any(|e| e.contains(expected)), "{expected}: {found:?}");
        }
        assert!(
            errors("crates/erasure/src/x.rs", "//! What this is for, in words.\nunsafe { x }").is_empty()
        );
    }
}
