//! Settings of a run as people read them: names in words, values with units, nothing nested.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::units;

/// Settings with their values, in the order of their names. What was not set is left out.
pub fn readable(setup: &BTreeMap<String, Value>) -> Vec<(String, String)> {
    let mut rows = Vec::new();
    for (name, value) in setup {
        add(&mut rows, &words(name), name, value);
    }
    rows
}

/// One value as people read it: `4 KiB`, `30 s`, `5.0 %`; nested ones in a line.
pub fn value(name: &str, value: &Value) -> String {
    let mut rows = Vec::new();
    add(&mut rows, "", name, value);
    match rows.as_slice() {
        [] => "not set".to_owned(),
        [(inner, text)] if inner.is_empty() => text.clone(),
        all => all.iter().map(|(n, v)| format!("{} {v}", n.trim())).collect::<Vec<_>>().join(", "),
    }
}

fn words(name: &str) -> String {
    name.trim_end_matches("_s").replace(['-', '_'], " ")
}

/// Adds the rows of one setting; `key` is its innermost name, which says the unit.
fn add(rows: &mut Vec<(String, String)>, name: &str, key: &str, value: &Value) {
    match value {
        Value::Null => {}
        Value::Object(map) => {
            for (inner, value) in map {
                // A single alternative (`{"seconds": 10}`) with a unit of its own needs no name.
                let inner_words = words(&inner.to_lowercase());
                let joined = match (map.len(), inner_words.as_str()) {
                    (1, _) => name.to_owned(),
                    (_, "seconds") => format!("{name} after"),
                    _ => format!("{name} {inner_words}"),
                };
                add(rows, &joined, &inner.to_lowercase(), value);
            }
        }
        Value::Array(list) => {
            let all: Vec<String> = list.iter().map(|v| scalar(key, v)).collect();
            if !all.is_empty() {
                rows.push((name.to_owned(), all.join(", ")));
            }
        }
        single => rows.push((name.to_owned(), scalar(key, single))),
    }
}

fn scalar(key: &str, value: &Value) -> String {
    let number = match value {
        Value::String(text) => return text.clone(),
        Value::Bool(on) => return if *on { "yes" } else { "no" }.to_owned(),
        Value::Number(number) => number.as_f64().unwrap_or(f64::NAN),
        nested => return self::value(key, nested),
    };
    match key {
        // A seed is a name, not an amount.
        "seed" => value.to_string(),
        "size" | "part-size" | "block-size" | "random-block-size" | "large" | "small" | "bytes" => {
            units::size(number)
        }
        "timeout" | "duration" | "warmup" | "runtime" | "seconds" | "step_s" => units::seconds(number),
        "max-error-rate" | "cov" | "precision" | "steady" => units::percent(number),
        "nanoseconds" => units::plain_ns(number),
        "mix" => format!("{number:.0} % reads"),
        "from" | "to" | "rate" => units::per_s(number),
        _ if number.fract() == 0.0 && number.abs() < 1e15 => units::count(number as i64),
        _ => units::plain(number),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn settings_have_names_and_units() {
        let setup: BTreeMap<String, Value> = serde_json::from_value(json!({
            "size": 4096, "verify": true, "checksum": null, "endpoint": ["http://a", "http://b"],
            "stop": {"seconds": 30.0, "count": null, "bytes": 1048576, "steady": null}, "warmup": {"Seconds": 10.0},
            "max-error-rate": 0.5, "seed": 1234567, "objects": 2500, "mix": "get=1",
            "sweep": {"slo": {"percentile": 99.0, "nanoseconds": 50_000_000}, "from": 0.0, "to": null, "step_s": 10.0,
                "precision": 0.05}
        }))
        .expect("a map");
        let rows = readable(&setup);
        let shown: Vec<String> = rows.iter().map(|(n, v)| format!("{n}: {v}")).collect();
        for expected in [
            "size: 4 KiB",
            "verify: yes",
            "endpoint: http://a, http://b",
            "stop after: 30 s",
            "stop bytes: 1 MiB",
            "warmup: 10 s",
            "max error rate: 50.0 %",
            "seed: 1234567",
            "objects: 2,500",
            "mix: get=1",
            "sweep slo nanoseconds: 50 ms",
            "sweep precision: 5.0 %",
        ] {
            assert!(shown.iter().any(|s| s == expected), "{expected} is not in {shown:?}");
        }
        assert!(!shown.iter().any(|s| s.contains(['{', '[', '"']) || s.contains("null")), "{shown:?}");
        assert_eq!(value("stop", &setup["stop"]), "bytes 1 MiB, after 30 s");
        assert_eq!(
            (value("size", &json!(4096)), value("x", &Value::Null)),
            ("4 KiB".into(), "not set".into())
        );
    }
}
