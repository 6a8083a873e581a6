//! Which room may use which: a room uses only rooms on lower floors.
//!
//! Arrows within a floor are refused unless they are listed here with their reason. Tests follow
//! the same rule, except that they may use the rooms of proof.

use std::{collections::BTreeMap, fs};

use super::{Findings, Tree};
use crate::Outcome;

/// The floors from the ground up, with their rooms. A room that is not listed has no floor yet:
/// give it one here, and say in DESIGN or ARCHITECTURE what it is for.
const FLOORS: [(&str, &[&str]); 10] = [
    ("ground", &["erasure", "checksum", "policy", "format", "machine", "metrics", "arguments"]),
    ("plumbing", &["engine", "commit", "rpc", "pacer", "outbound"]),
    ("drives", &["drive", "cluster"]),
    ("arrays", &["erasure-set", "raid"]),
    ("stores", &["object", "export"]),
    ("services", &["iam", "idp", "audit", "kms", "events", "lifecycle", "replication"]),
    ("doors", &["s3", "admin", "console", "client"]),
    ("guests", &["bench", "server-cost"]),
    ("node and commands", &["server", "cli"]),
    ("programs", &["ashlar", "xtask"]),
];

/// Rooms of proof: they may use any room, and only tests may use them.
const PROOF: [&str; 3] = ["model", "sim", "fuzz"];

/// Arrows within a floor, and why.
const SIDEWAYS: [(&str, &str, &str); 1] =
    [("idp", "iam", "it vouches in iam's words, and tells iam whom to trust")];

/// Arrows that must not be although the floors would allow them, and why.
const FORBIDDEN: [(&str, &str, &str); 5] = [
    ("server", "bench", "a server does not measure itself"),
    ("server", "client", "a server asks no other server over S3"),
    ("client", "s3", "a client is judged by the wire, not by sharing the server's code"),
    ("client", "object", "a client is judged by the wire, not by sharing the server's code"),
    ("xtask", "ashlar", "the tool drives the program from outside"),
];

struct Manifest {
    room: String,
    uses: Vec<String>,
    tests_use: Vec<String>,
}

/// Reads all manifests and checks their arrows.
pub fn check(tree: &Tree, findings: &mut Findings) -> Outcome {
    for file in &tree.files {
        if file.starts_with("crates") && file.file_name().is_some_and(|n| n == "Cargo.toml") {
            let manifest = parse(&fs::read_to_string(tree.root.join(file))?)
                .map_err(|e| format!("{}: {e}", file.display()))?;
            judge(&manifest, findings);
        }
    }
    Ok(())
}

fn parse(text: &str) -> Outcome<Manifest> {
    let table: toml::Table = text.parse()?;
    let name = table.get("package").and_then(|p| p.get("name")).and_then(|n| n.as_str());
    let room = room_of(name.ok_or("no package name")?).to_owned();
    let rooms = |section: &str| -> Vec<String> {
        let dependencies = table.get(section).and_then(|d| d.as_table());
        let names = dependencies.into_iter().flat_map(|d| d.keys());
        names.filter(|n| n.starts_with("ashlar-") || *n == "ashlar").map(|n| room_of(n).to_owned()).collect()
    };
    let mut uses = rooms("dependencies");
    uses.extend(rooms("build-dependencies"));
    Ok(Manifest { room, uses, tests_use: rooms("dev-dependencies") })
}

fn room_of(package: &str) -> &str {
    package.strip_prefix("ashlar-").unwrap_or(package)
}

fn judge(manifest: &Manifest, findings: &mut Findings) {
    let floors: BTreeMap<&str, usize> = FLOORS
        .iter()
        .enumerate()
        .flat_map(|(floor, (_, rooms))| rooms.iter().map(move |room| (*room, floor)))
        .collect();
    let room = manifest.room.as_str();
    if PROOF.contains(&room) {
        return;
    }
    let Some(&floor) = floors.get(room) else {
        findings
            .errors
            .push(format!("crates/{room} has no floor; list it in crates/xtask/src/tidy/arrows.rs"));
        return;
    };
    let with_kind =
        manifest.uses.iter().map(|u| (u, false)).chain(manifest.tests_use.iter().map(|u| (u, true)));
    for (used, only_tests) in with_kind {
        let used = used.as_str();
        if let Some((_, _, why)) = FORBIDDEN.iter().find(|(a, b, _)| *a == room && *b == used) {
            findings.errors.push(format!("{room} -> {used}: {why}"));
            continue;
        }
        if PROOF.contains(&used) {
            if !only_tests {
                findings.errors.push(format!("{room} -> {used}: rooms of proof are for tests only"));
            }
            continue;
        }
        let listed = SIDEWAYS.iter().any(|(a, b, _)| *a == room && *b == used);
        match floors.get(used) {
            Some(&below) if below < floor => {}
            Some(&same) if same == floor && (listed || used == room) => {}
            Some(&other) => {
                let direction = if other == floor { "sideways" } else { "upward" };
                findings.errors.push(format!(
                    "{room} ({}) -> {used} ({}): {direction}; a room uses only rooms below it",
                    FLOORS[floor].0, FLOORS[other].0
                ));
            }
            None => findings.errors.push(format!("{room} -> {used}: {used} has no floor")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(text: &str) -> Vec<String> {
        let mut findings = Findings::default();
        judge(&parse(text).unwrap(), &mut findings);
        findings.errors
    }

    #[test]
    fn downward_only() {
        let manifest = |room: &str, section: &str, uses: &str| {
            format!(
                "[package]\nname = \"ashlar-{room}\"\n[{section}]\n{uses}.workspace = true\nserde = \"1\""
            )
        };
        assert!(verdict(&manifest("drive", "dependencies", "ashlar-machine")).is_empty());
        assert!(verdict(&manifest("drive", "dev-dependencies", "ashlar-model")).is_empty());
        assert!(verdict(&manifest("model", "dependencies", "ashlar-drive")).is_empty());
        for (room, section, uses, expected) in [
            ("drive", "dependencies", "ashlar-object", "upward"),
            ("drive", "dev-dependencies", "ashlar-object", "upward"),
            ("drive", "dependencies", "ashlar-cluster", "sideways"),
            ("drive", "dependencies", "ashlar-model", "tests only"),
            ("client", "dependencies", "ashlar-s3", "judged by the wire"),
            ("cellar", "dependencies", "ashlar-machine", "has no floor"),
        ] {
            let errors = verdict(&manifest(room, section, uses));
            assert!(errors.len() == 1 && errors[0].contains(expected), "{room} {uses}: {errors:?}");
        }
    }
}
