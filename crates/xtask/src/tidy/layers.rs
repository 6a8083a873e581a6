//! Dependencies between crates: a crate depends only on crates of lower layers.
//!
//! A dependency within a layer is refused unless it is listed here with its reason. Tests follow the same
//! rule, except that they may also depend on crates of the proof layer.
//!
//! Invariant: the check uses the manifests, not the code: code cannot name a crate that is not a dependency.
//! Must not depend on: other rules.

use std::collections::BTreeMap;

use serde_json::Value;

use super::tree::Findings;

/// The layers from bottom to top, with their crates. Assign a new crate to a layer here, and describe it in
/// ARCHITECTURE.md.
const LAYERS: [(&str, &[&str]); 12] = [
    ("environment", &["environment"]),
    ("ground", &["erasure", "checksum", "policy", "format", "machine", "metrics", "arguments"]),
    (
        "plumbing",
        &[
            "engine",
            "gpu",
            "commit",
            "rpc",
            "pacer",
            "duties",
            "outbound",
            "time-series",
            "nbd",
            "nvme-tcp",
            "ublk",
            "vhost-user",
        ],
    ),
    ("drives", &["drive", "cluster", "remote", "etcd", "etcd-member"]),
    ("arrays", &["erasure-set", "raid"]),
    ("stores", &["object", "export"]),
    ("services", &["iam", "idp", "audit", "kms", "events", "lifecycle", "replication"]),
    ("node", &["node", "array", "fabric"]),
    ("API layer", &["s3-protocol", "s3", "admin", "console", "client"]),
    ("benchmarks", &["bench-report", "bench", "server-cost"]),
    ("programs", &["server-options", "server", "cli"]),
    ("main program and tools", &["ashlar", "xtask"]),
];

/// Crates of the proof layer: they may depend on any crate, and only tests may depend on them.
const PROOF: [&str; 4] = ["model", "history", "sim", "fuzz"];

/// Permitted dependencies within a layer, with reasons.
const SIDEWAYS: [(&str, &str, &str); 11] = [
    ("ublk", "nbd", "it serves the same devices: what a block device does is said once"),
    ("vhost-user", "nbd", "it serves the same devices: what a block device does is said once"),
    (
        "server",
        "server-options",
        "the options that it is started with; apart, so that a change of an operation builds sooner",
    ),
    (
        "s3",
        "s3-protocol",
        "requests and answers look as it says; apart, so that a change of an operation builds sooner",
    ),
    (
        "bench",
        "bench-report",
        "what it measures becomes a document; apart, so that both are compiled beside each other",
    ),
    ("idp", "iam", "it authenticates users for iam with iam's types, and tells iam which providers to trust"),
    ("admin", "s3", "its requests are signed, read and answered as those of S3, by the same service"),
    ("console", "s3", "its gateway is a client of the S3 service, in the same process"),
    ("console", "admin", "its gateway is a client of the administration API, in the same process"),
    ("remote", "drive", "it carries the calls of drive to another process, as drive's interface says"),
    ("etcd", "cluster", "it is a driver of cluster's control store, kept apart for its HTTP client"),
];

/// Refused dependencies that the layers would permit, with reasons.
const FORBIDDEN: [(&str, &str, &str); 16] = [
    ("server-options", "s3", "it is compiled beside s3, not after it"),
    ("server-options", "admin", "it is compiled beside admin, not after it"),
    ("client", "s3-protocol", "a client is tested over the wire; it shares no code with the server"),
    ("s3-protocol", "node", "it knows no process"),
    ("server", "bench", "the server does not contain the load generator"),
    ("server", "client", "a server is no S3 client of other servers"),
    ("client", "s3", "a client is tested over the wire; it shares no code with the server"),
    ("client", "object", "a client is tested over the wire; it shares no code with the server"),
    ("client", "node", "a client is tested over the wire; it shares no code with the server"),
    ("bench", "node", "a server is measured over the wire; the load generator shares no code with it"),
    ("bench-report", "client", "documents are read and written without a network"),
    ("bench", "admin", "a server is measured over the wire; the load generator shares no code with it"),
    ("cli", "node", "commands ask a server over the wire; they share no code with it"),
    ("cli", "admin", "commands ask a server over the wire; they share no code with it"),
    ("s3", "node", "S3 is served from a store; it does not know the drives below it"),
    ("xtask", "ashlar", "the tool runs the program from outside"),
];

struct Manifest {
    name: String,
    uses: Vec<String>,
    tests_use: Vec<String>,
}

/// Checks the dependencies of all crates, as `cargo metadata` describes them.
pub fn check(metadata: &Value, findings: &mut Findings) {
    let packages = metadata["packages"].as_array().map(Vec::as_slice).unwrap_or_default();
    // Packages without a source are those of this repository.
    for package in packages.iter().filter(|p| p["source"].is_null()) {
        judge(&manifest(package), findings);
    }
}

fn manifest(package: &Value) -> Manifest {
    let name = crate_of(package["name"].as_str().unwrap_or_default()).to_owned();
    let (mut uses, mut tests_use) = (Vec::new(), Vec::new());
    for dependency in package["dependencies"].as_array().into_iter().flatten() {
        let on = dependency["name"].as_str().unwrap_or_default();
        if on == "ashlar" || on.starts_with("ashlar-") {
            let kind = if dependency["kind"] == "dev" { &mut tests_use } else { &mut uses };
            kind.push(crate_of(on).to_owned());
        }
    }
    Manifest { name, uses, tests_use }
}

fn crate_of(package: &str) -> &str {
    package.strip_prefix("ashlar-").unwrap_or(package)
}

fn judge(manifest: &Manifest, findings: &mut Findings) {
    let layers: BTreeMap<&str, usize> = LAYERS
        .iter()
        .enumerate()
        .flat_map(|(layer, (_, crates))| crates.iter().map(move |name| (*name, layer)))
        .collect();
    let name = manifest.name.as_str();
    if PROOF.contains(&name) {
        return;
    }
    let Some(&layer) = layers.get(name) else {
        findings
            .errors
            .push(format!("crates/{name} has no layer; list it in crates/xtask/src/tidy/layers.rs"));
        return;
    };
    let with_kind =
        manifest.uses.iter().map(|u| (u, false)).chain(manifest.tests_use.iter().map(|u| (u, true)));
    for (used, only_tests) in with_kind {
        let used = used.as_str();
        if let Some((_, _, why)) = FORBIDDEN.iter().find(|(a, b, _)| *a == name && *b == used) {
            findings.errors.push(format!("{name} -> {used}: {why}"));
            continue;
        }
        if PROOF.contains(&used) {
            if !only_tests {
                findings
                    .errors
                    .push(format!("{name} -> {used}: crates of the proof layer are for tests only"));
            }
            continue;
        }
        let listed = SIDEWAYS.iter().any(|(a, b, _)| *a == name && *b == used);
        match layers.get(used) {
            Some(&below) if below < layer => {}
            Some(&same) if same == layer && (listed || used == name) => {}
            Some(&other) => {
                let direction = if other == layer { "sideways" } else { "upward" };
                findings.errors.push(format!(
                    "{name} ({}) -> {used} ({}): {direction}; a crate depends only on crates of lower layers",
                    LAYERS[layer].0, LAYERS[other].0
                ));
            }
            None => findings.errors.push(format!("{name} -> {used}: {used} has no layer")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn verdict(name: &str, kind: &Value, on: &str) -> Vec<String> {
        let dependencies = json!([{ "name": on, "kind": kind }, { "name": "serde", "kind": null }]);
        let package =
            json!({ "name": format!("ashlar-{name}"), "source": null, "dependencies": dependencies });
        let other = json!({ "name": "ashlar-unknown", "source": "a registry", "dependencies": dependencies });
        let mut findings = Findings::default();
        check(&json!({ "packages": [package, other] }), &mut findings);
        findings.errors
    }

    #[test]
    fn dependencies_point_downward() {
        let (normal, dev, build) = (Value::Null, json!("dev"), json!("build"));
        assert!(verdict("drive", &normal, "ashlar-machine").is_empty());
        assert!(verdict("drive", &dev, "ashlar-model").is_empty());
        assert!(verdict("model", &normal, "ashlar-drive").is_empty());
        for (name, kind, on, expected) in [
            ("drive", &normal, "ashlar-object", "upward"),
            ("drive", &dev, "ashlar-object", "upward"),
            ("drive", &build, "ashlar-object", "upward"),
            ("drive", &normal, "ashlar-cluster", "sideways"),
            ("drive", &normal, "ashlar-model", "tests only"),
            ("client", &normal, "ashlar-s3", "tested over the wire"),
            ("cli", &normal, "ashlar-admin", "share no code"),
            ("node", &normal, "ashlar-s3", "upward"),
            ("unknown", &normal, "ashlar-machine", "has no layer"),
        ] {
            let errors = verdict(name, kind, on);
            assert!(errors.len() == 1 && errors[0].contains(expected), "{name} {on}: {errors:?}");
        }
    }
}
