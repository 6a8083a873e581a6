//! Facts about the measured server in a result: product, version, drives, erasure code.
//!
//! Invariant: a fact that the server did not report is `unknown`, never guessed.
//!
//! Must not depend on: how the server was asked.

use std::collections::BTreeMap;

use serde_json::Value;

use super::Host;
use crate::units;

/// Stands for an unknown fact.
pub const UNKNOWN: &str = "unknown";
/// Facts that every server has in a result, known or not.
const ALWAYS: [&str; 4] = ["name", "version", "drives", "code"];

/// The server of a result. `info` is the answer of an Ashlar server's administration, if there is one.
pub fn host(name: &str, info: Option<&Value>) -> Host {
    let mut facts: BTreeMap<String, String> =
        ALWAYS.iter().map(|fact| ((*fact).to_owned(), UNKNOWN.to_owned())).collect();
    facts.insert("name".to_owned(), name.to_owned());
    let Some(info) = info else { return Host { role: "server".to_owned(), facts } };
    let text = |v: &Value| v.as_str().map_or_else(|| v.to_string(), str::to_owned);
    for name in ["version", "code", "deployment"] {
        if !info[name].is_null() {
            facts.insert(name.to_owned(), text(&info[name]));
        }
    }
    if !info["version"].is_null() {
        facts.insert("product".to_owned(), "Ashlar".to_owned());
    }
    if let Some(drives) = info["drives"].as_array() {
        facts.insert("drives".to_owned(), drives.len().to_string());
        for drive in drives {
            let capacity = drive["capacity"].as_f64().map_or_else(|| UNKNOWN.to_owned(), units::bytes);
            facts.insert(format!("drive {}", text(&drive["path"])), capacity);
        }
    }
    Host { role: "server".to_owned(), facts }
}

/// The server in a line: `it: Ashlar 0.1.0, 4 drives, code 2+2`.
pub fn line(host: &Host) -> String {
    let fact = |name: &str| host.facts.get(name).map_or(UNKNOWN, String::as_str);
    let version = match (host.facts.get("product"), fact("version")) {
        (Some(product), version) => format!("{product} {version}"),
        (None, UNKNOWN) => format!("version {UNKNOWN}"),
        (None, version) => version.to_owned(),
    };
    let drives = match fact("drives") {
        UNKNOWN => format!("drives {UNKNOWN}"),
        "1" => "1 drive".to_owned(),
        n => format!("{n} drives"),
    };
    format!("{}: {version}, {drives}, erasure code {}", fact("name"), fact("code"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn server_is_described_by_its_own_report() {
        let info = json!({
            "version": "0.1.0", "code": "2+2", "deployment": "ab", "drives": [
                {"path": "/d/1", "capacity": 1e12}, {"path": "/d/2", "capacity": null}]
        });
        let server = host("it", Some(&info));
        assert_eq!(line(&server), "it: Ashlar 0.1.0, 2 drives, erasure code 2+2");
        assert_eq!(server.facts["drive /d/1"], "1.00 TB");
        assert_eq!(server.facts["drive /d/2"], "unknown");
    }

    #[test]
    fn unreported_facts_are_unknown() {
        let server = host("s3.example", None);
        assert_eq!(line(&server), "s3.example: version unknown, drives unknown, erasure code unknown");
        assert_eq!(server.facts["version"], "unknown");
    }
}
