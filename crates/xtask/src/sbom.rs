//! The software bill of materials of a release: every package that is built into `ashlar`, as a CycloneDX 1.6
//! document.
//!
//! Reads `cargo metadata` and Cargo.lock. Invariants: packages that only tests and build-time tests need are
//! left out; the same lock file yields the same bytes; every package of a registry has the hash of
//! Cargo.lock.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

use clap::{Arg, ArgMatches, Command};
use serde_json::{Value, json};

use crate::shell::{Outcome, cargo, read, root};

/// The program that is released.
const PROGRAM: &str = "ashlar";

/// The output file and the platform.
pub struct Options {
    output: PathBuf,
    target: String,
}

impl Options {
    /// Describes the options on the command line.
    pub fn describe(command: Command) -> Command {
        let output = Arg::new("output").long("output").value_name("FILE");
        let target = Arg::new("target").long("target").value_name("TRIPLE");
        command.arg(output.default_value("target/ashlar.cdx.json").help("The file to write")).arg(
            target
                .default_value("x86_64-unknown-linux-gnu")
                .help("The platform that the release is built for"),
        )
    }

    /// The options on the command line.
    pub fn of(given: &ArgMatches) -> Options {
        let text = |name| given.get_one::<String>(name).cloned().unwrap_or_default();
        Options { output: text("output").into(), target: text("target") }
    }
}

/// Writes the document.
///
/// # Errors
/// The lock file does not match the sources, or the file cannot be written.
pub fn run(options: &Options) -> Outcome {
    let path = root().join(&options.output);
    println!("{}: {} packages", path.display(), write(&path, &options.target)?);
    Ok(())
}

/// Writes the document for a platform to a file; returns the number of packages.
///
/// # Errors
/// As [`run`].
pub fn write(path: &Path, target: &str) -> Outcome<usize> {
    let document = document(target)?;
    std::fs::write(path, serde_json::to_string_pretty(&document)? + "\n")
        .map_err(|e| format!("{}: {e}", path.display()))?;
    Ok(document["components"].as_array().map_or(0, Vec::len))
}

/// The document for a platform.
///
/// # Errors
/// As [`run`].
pub fn document(target: &str) -> Outcome<Value> {
    let arguments = ["metadata", "--locked", "--format-version", "1", "--filter-platform", target];
    let metadata: Value = serde_json::from_str(&read(cargo().args(arguments))?)?;
    let lock = std::fs::read_to_string(root().join("Cargo.lock"))?;
    made_of(&metadata, &hashes(&lock))
}

/// The hashes of packages by name and version.
///
/// Cargo writes one `name = "value"` per line below each `[[package]]`, so the file can be parsed by lines.
fn hashes(lock: &str) -> BTreeMap<(String, String), String> {
    let value = |package: &str, name: &str| {
        let mut lines = package.lines().filter_map(|l| l.split_once(" = "));
        lines.find(|(n, _)| *n == name).map(|(_, v)| v.trim_matches('"').to_owned())
    };
    let packages = lock.split("[[package]]\n").skip(1);
    packages
        .filter_map(|p| Some(((value(p, "name")?, value(p, "version")?), value(p, "checksum")?)))
        .collect()
}

fn made_of(metadata: &Value, hashes: &BTreeMap<(String, String), String>) -> Outcome<Value> {
    let text = |v: &Value| v.as_str().unwrap_or_default().to_owned();
    let array = |v: &Value| v.as_array().cloned().unwrap_or_default();
    let packages: BTreeMap<String, Value> =
        array(&metadata["packages"]).into_iter().map(|p| (text(&p["id"]), p)).collect();
    let nodes: BTreeMap<String, Vec<String>> = array(&metadata["resolve"]["nodes"])
        .into_iter()
        .map(|n| {
            (
                text(&n["id"]),
                array(&n["deps"]).iter().filter(|d| is_built_in(d)).map(|d| text(&d["pkg"])).collect(),
            )
        })
        .collect();
    let program = packages.values().find(|p| p["name"] == PROGRAM && p["source"].is_null());
    let program = program.ok_or_else(|| format!("there is no package {PROGRAM}"))?;
    // All packages that are reachable from the program.
    let mut reached = BTreeSet::new();
    let mut waiting = vec![text(&program["id"])];
    while let Some(id) = waiting.pop() {
        if reached.insert(id.clone()) {
            waiting.extend(nodes.get(&id).into_iter().flatten().cloned());
        }
    }
    let package = |id: &String| packages.get(id).ok_or_else(|| format!("{id} is not described"));
    let mut components = Vec::new();
    let mut dependencies = Vec::new();
    for id in &reached {
        let p = package(id)?;
        let component = component(p, hashes)?;
        let on = nodes
            .get(id)
            .into_iter()
            .flatten()
            .map(|d| package(d).map(purl))
            .collect::<Result<BTreeSet<_>, _>>()?;
        dependencies.push(json!({ "ref": component["bom-ref"], "dependsOn": on }));
        if p["id"] != program["id"] {
            components.push(component);
        }
    }
    components.sort_by_key(|c| text(&c["bom-ref"]));
    dependencies.sort_by_key(|d| text(&d["ref"]));
    let mut main = component(program, hashes)?;
    main["type"] = json!("application");
    Ok(json!({
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": { "component": main },
        "components": components,
        "dependencies": dependencies,
    }))
}

/// Whether a dependency is built into the program, and not for tests only.
fn is_built_in(dependency: &Value) -> bool {
    let kinds = dependency["dep_kinds"].as_array().map(Vec::as_slice).unwrap_or_default();
    kinds.iter().any(|k| k["kind"].is_null() || k["kind"] == "build")
}

fn purl(package: &Value) -> String {
    let text = |name: &str| package[name].as_str().unwrap_or_default();
    // A plus sign in build metadata is not allowed literally in a package URL.
    format!("pkg:cargo/{}@{}", text("name"), text("version").replace('+', "%2B"))
}

fn component(package: &Value, hashes: &BTreeMap<(String, String), String>) -> Outcome<Value> {
    let text = |name: &str| package[name].as_str().unwrap_or_default().to_owned();
    let (name, version, purl) = (text("name"), text("version"), purl(package));
    let mut out = json!({
        "type": "library", "bom-ref": purl, "name": name, "version": version, "purl": purl, "scope": "required",
    });
    if let Some(licence) = package["license"].as_str() {
        // Old manifests write a slash for OR, which is not valid in SPDX.
        out["licenses"] = json!([{ "expression": licence.replace('/', " OR ") }]);
    }
    if !package["source"].is_null() {
        let hash = hashes.get(&(name.clone(), version));
        let hash = hash.ok_or_else(|| format!("Cargo.lock has no hash of {name}"))?;
        out["hashes"] = json!([{ "alg": "SHA-256", "content": hash }]);
    }
    if let Some(url) = package["repository"].as_str().filter(|u| u.starts_with("http")) {
        out["externalReferences"] = json!([{ "type": "vcs", "url": url }]);
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The document of this repository: what CycloneDX requires, and our own invariants.
    #[test]
    fn document_lists_all_packages_with_hashes() {
        let document = document("x86_64-unknown-linux-gnu").unwrap();
        assert_eq!((&document["bomFormat"], &document["specVersion"]), (&json!("CycloneDX"), &json!("1.6")));
        assert_eq!(document["metadata"]["component"]["name"], "ashlar");
        let components = document["components"].as_array().unwrap();
        let main = &document["metadata"]["component"];
        let refs: BTreeSet<&str> =
            components.iter().chain([main]).map(|c| c["bom-ref"].as_str().unwrap()).collect();
        assert_eq!(refs.len(), components.len() + 1, "references are unique");
        for c in components {
            let name = c["name"].as_str().unwrap();
            assert!(c["purl"].as_str().unwrap().starts_with(&format!("pkg:cargo/{name}@")), "{c}");
            assert!(!c["version"].as_str().unwrap().is_empty() && c["type"] == "library", "{c}");
            let licence = c["licenses"][0]["expression"].as_str().unwrap_or_default();
            assert!(!licence.is_empty() && !licence.contains('/'), "{c}");
            if !name.starts_with("ashlar") {
                let hash = c["hashes"][0]["content"].as_str().unwrap();
                assert!(hash.len() == 64 && hash.bytes().all(|b| b.is_ascii_hexdigit()), "{c}");
            }
        }
        let edges = document["dependencies"].as_array().unwrap();
        assert_eq!(edges.len(), refs.len());
        for edge in edges {
            assert!(refs.contains(edge["ref"].as_str().unwrap()));
            for on in edge["dependsOn"].as_array().unwrap() {
                assert!(refs.contains(on.as_str().unwrap()), "{on}");
            }
        }
        let has = |name: &str| components.iter().any(|c| c["name"] == name);
        assert!(has("hyper") && has("aws-lc-rs") && has("ashlar-erasure-set"));
        // Only tests need these.
        assert!(!has("tempfile") && !has("xtask"));
        assert_eq!(super::document("x86_64-unknown-linux-gnu").unwrap(), document, "the same every time");
    }

    #[test]
    fn test_dependencies_are_left_out() {
        let kinds = |kinds: &[Value]| json!({ "dep_kinds": kinds.iter().map(|k| json!({ "kind": k })).collect::<Vec<_>>() });
        assert!(is_built_in(&kinds(&[Value::Null])) && is_built_in(&kinds(&[json!("build")])));
        assert!(!is_built_in(&kinds(&[json!("dev")])) && is_built_in(&kinds(&[json!("dev"), Value::Null])));
    }
}
