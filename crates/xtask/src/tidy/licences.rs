//! Licences of dependencies, and a recorded decision for each direct dependency.
//!
//! Reads `cargo metadata`, without the network. Invariants: every package that is built in has a licence
//! expression that can be met from [`ALLOWED`] alone, or is listed in [`EXCEPTIONS`] and in
//! docs/decisions/0001-dependencies.md; every dependency that a crate names has its line there.
//!
//! Advisories change daily; `cargo xtask deny` checks them (docs/decisions/0001-dependencies.md).

use std::{collections::BTreeSet, fs};

use serde_json::Value;

use super::tree::{Findings, Tree};

/// Licences that require only a notice.
const ALLOWED: [&str; 11] = [
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "MIT",
    "MIT-0",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "ISC",
    "Zlib",
    "Unicode-3.0",
    "CC0-1.0",
    "Unlicense",
];

/// Packages under another licence, with the licence; the decision has a line with the reason for each.
const EXCEPTIONS: [(&str, &str); 0] = [];

const DECISION: &str = "docs/decisions/0001-dependencies.md";

/// Checks all packages of the lock file.
pub fn check(tree: &Tree, metadata: &Value, findings: &mut Findings) {
    let decision = fs::read_to_string(tree.root.join(DECISION)).unwrap_or_default();
    judge(metadata, &decision, findings);
}

fn judge(metadata: &Value, decision: &str, findings: &mut Findings) {
    let packages = metadata["packages"].as_array().map(Vec::as_slice).unwrap_or_default();
    let decided: BTreeSet<&str> = decision.split(|c: char| !is_name(c)).collect();
    let mut direct = BTreeSet::new();
    for package in packages {
        let name = package["name"].as_str().unwrap_or_default();
        if package["source"].is_null() {
            // A package of this repository: its direct dependencies need a decision.
            let named = package["dependencies"].as_array().into_iter().flatten();
            direct.extend(named.filter(|d| !d["source"].is_null()).filter_map(|d| d["name"].as_str()));
            continue;
        }
        let licence = package["license"].as_str().unwrap_or("no licence");
        let excepted = EXCEPTIONS.contains(&(name, licence)) && decided.contains(name);
        if !(excepted || allowed(licence)) {
            findings.errors.push(format!(
                "Cargo.lock: {name} is under {licence}: use another crate, or record the exception in crates/xtask/src/tidy/licences.rs and {DECISION}"
            ));
        }
    }
    for name in direct {
        if !decided.contains(name) {
            findings.errors.push(format!("{DECISION}: no line says why {name} is used"));
        }
    }
}

fn is_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '-' || c == '_'
}

/// Whether an SPDX expression can be satisfied with [`ALLOWED`]: `AND` needs both sides, `OR` (and the old
/// `/`) one, `AND` has precedence. An invalid expression is not allowed.
fn allowed(expression: &str) -> bool {
    let spaced = expression.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut at = 0;
    let met = any(&words, &mut at);
    met == Some(true) && at == words.len()
}

fn any(words: &[&str], at: &mut usize) -> Option<bool> {
    let mut met = all(words, at)?;
    while words.get(*at) == Some(&"OR") {
        *at += 1;
        met |= all(words, at)?;
    }
    Some(met)
}

fn all(words: &[&str], at: &mut usize) -> Option<bool> {
    let mut met = one(words, at)?;
    while words.get(*at) == Some(&"AND") {
        *at += 1;
        met &= one(words, at)?;
    }
    Some(met)
}

fn one(words: &[&str], at: &mut usize) -> Option<bool> {
    let word = *words.get(*at)?;
    *at += 1;
    if word == "(" {
        let met = any(words, at)?;
        let closed = words.get(*at) == Some(&")");
        *at += 1;
        return closed.then_some(met);
    }
    let mut licence = word.to_owned();
    if words.get(*at) == Some(&"WITH") {
        licence = format!("{word} WITH {}", words.get(*at + 1)?);
        *at += 2;
    }
    Some(ALLOWED.contains(&licence.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn expressions() {
        for good in [
            "MIT",
            "MIT OR Apache-2.0",
            "MIT/Apache-2.0",
            "MIT OR Apache-2.0 OR LGPL-2.1-or-later",
            "(MIT OR GPL-3.0) AND Unicode-3.0",
            "Apache-2.0 WITH LLVM-exception OR GPL-3.0",
            "GPL-2.0 AND MIT OR ISC",
            "ISC AND (Apache-2.0 OR ISC) AND (Apache-2.0 OR ISC OR MIT-0)",
        ] {
            assert!(allowed(good), "{good}");
        }
        for bad in [
            "",
            "no licence",
            "GPL-3.0-only",
            "MPL-2.0",
            "MIT AND GPL-3.0",
            "MIT AND (GPL-3.0 OR AGPL-3.0)",
            "GPL-2.0 WITH Classpath-exception-2.0",
            "(MIT",
            "MIT)",
            "MIT OR",
            "MIT MIT",
        ] {
            assert!(!allowed(bad), "{bad}");
        }
    }

    #[test]
    fn packages() {
        let metadata = json!({ "packages": [
            { "name": "ours", "source": null, "license": "Apache-2.0", "dependencies": [
                { "name": "good", "source": "registry" },
                { "name": "other-of-ours", "source": null },
                { "name": "unheard-of", "source": "registry" } ] },
            { "name": "good", "source": "registry", "license": "MIT", "dependencies": [] },
            { "name": "unheard-of", "source": "registry", "license": "ISC", "dependencies": [] },
            { "name": "deep", "source": "registry", "license": "AGPL-3.0-only", "dependencies": [] },
            { "name": "none", "source": "registry", "license": null, "dependencies": [] },
        ] });
        let mut findings = Findings::default();
        judge(&metadata, "| good, unheard | things |", &mut findings);
        let found = findings.errors.join("\n");
        assert_eq!(findings.errors.len(), 3, "{found}");
        for part in ["deep is under AGPL", "none is under no licence", "why unheard-of is used"] {
            assert!(found.contains(part), "{found}");
        }
    }
}
