//! The policy of a form upload, which limits what the form may upload.
//!
//! Invariants: every field that is not exempt must be named by a condition, and so must the bucket, whether
//! it is a field or not; an unknown operator refuses the upload; the key that is checked is the key that is
//! written.

use crate::date;
use crate::fault::{Code, Fault, Outcome};
use crate::form::Fields;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

/// Fields that need no condition.
const EXEMPT: [&str; 5] = ["policy", "x-amz-signature", "signature", "awsaccesskeyid", "file"];

/// A parsed policy.
#[derive(Debug)]
pub struct Policy {
    expires: i64,
    conditions: Vec<Condition>,
    /// Smallest and largest size of the file.
    size: Option<(u64, u64)>,
}

#[derive(Debug)]
enum Condition {
    Equal(String, String),
    StartsWith(String, String),
}

fn bad(why: impl std::fmt::Display) -> Fault {
    Fault::with(Code::INVALID_POLICY_DOCUMENT, format!("Invalid Policy: {why}."))
}

fn denied(why: impl std::fmt::Display) -> Fault {
    Fault::with(Code::ACCESS_DENIED, format!("Invalid according to Policy: {why}"))
}

impl Policy {
    /// Reads the base64 of the JSON document.
    pub fn parse(text: &str) -> Outcome<Policy> {
        let json = STANDARD.decode(text.trim()).map_err(|_| bad("it is not base64"))?;
        let json: Value = serde_json::from_slice(&json).map_err(|_| bad("it is not JSON"))?;
        let object = json.as_object().ok_or_else(|| bad("it is not a JSON object"))?;
        if let Some(unknown) = object.keys().find(|k| !matches!(k.as_str(), "expiration" | "conditions")) {
            return Err(bad(format_args!("unexpected: '{}'", unknown.chars().take(64).collect::<String>())));
        }
        let expires = object.get("expiration").and_then(Value::as_str).and_then(date::parse_iso);
        let expires =
            expires.ok_or_else(|| bad("'expiration' must be a date like 2030-01-01T12:00:00.000Z"))?;
        let list = object
            .get("conditions")
            .and_then(Value::as_array)
            .ok_or_else(|| bad("'conditions' is missing"))?;
        let mut policy = Policy { expires, conditions: Vec::new(), size: None };
        for condition in list {
            policy.add(condition)?;
        }
        Ok(policy)
    }

    fn add(&mut self, condition: &Value) -> Outcome<()> {
        match condition {
            Value::Object(map) => {
                let mut pairs = map.iter();
                let (Some((name, value)), None) = (pairs.next(), pairs.next()) else {
                    return Err(bad("a condition that is an object must have exactly one property"));
                };
                self.conditions.push(Condition::Equal(name.to_ascii_lowercase(), scalar(value)?));
                Ok(())
            }
            Value::Array(list) => match list.as_slice() {
                [op, name, value] => self.add_operator(op, name, value),
                _ => Err(bad("a condition must have three elements")),
            },
            _ => Err(bad("a condition must be an object or a list")),
        }
    }

    fn add_operator(&mut self, op: &Value, name: &Value, value: &Value) -> Outcome<()> {
        let op = op.as_str().unwrap_or_default();
        if op.eq_ignore_ascii_case("content-length-range") {
            let number = |v: &Value| v.as_u64().or_else(|| v.as_str().and_then(|s| s.parse().ok()));
            let (Some(min), Some(max)) = (number(name), number(value)) else {
                return Err(bad("content-length-range needs two numbers"));
            };
            let (old_min, old_max) = self.size.unwrap_or((0, u64::MAX));
            self.size = Some((min.max(old_min), max.min(old_max)));
            return Ok(());
        }
        let field = name
            .as_str()
            .and_then(|n| n.strip_prefix('$'))
            .ok_or_else(|| bad("a condition names no field with $"))?;
        let field = field.to_ascii_lowercase();
        let value = scalar(value)?;
        self.conditions.push(if op.eq_ignore_ascii_case("eq") {
            Condition::Equal(field, value)
        } else if op.eq_ignore_ascii_case("starts-with") {
            Condition::StartsWith(field, value)
        } else {
            return Err(bad("an operator is not eq, starts-with or content-length-range"));
        });
        Ok(())
    }

    /// Checks the fields; `bucket` is the bucket of the URL, even if a field names another one.
    pub fn check(&self, fields: &Fields, bucket: &str, now: i64) -> Outcome<()> {
        if now >= self.expires {
            return Err(denied("Policy expired."));
        }
        if fields.get("bucket").is_some_and(|b| b != bucket) {
            return Err(denied("the field bucket is not the bucket of the URL."));
        }
        for condition in &self.conditions {
            let (name, holds, text) = match condition {
                Condition::Equal(name, want) => (
                    name,
                    value_of(fields, name, bucket) == want,
                    format!("[\"eq\", \"${name}\", \"{want}\"]"),
                ),
                Condition::StartsWith(name, want) => (
                    name,
                    value_of(fields, name, bucket).starts_with(want.as_str()),
                    format!("[\"starts-with\", \"${name}\", \"{want}\"]"),
                ),
            };
            let present = name == "bucket" || fields.get(name).is_some();
            if !holds || !present {
                return Err(denied(format_args!("Policy Condition failed: {text}")));
            }
        }
        // The bucket of the URL counts as a field that is always there.
        for (name, _) in fields.iter().chain([("bucket", bucket)]) {
            if EXEMPT.contains(&name) || name.starts_with("x-ignore-") {
                continue;
            }
            let named = self.conditions.iter().any(|c| match c {
                // A condition that any bucket meets names none.
                Condition::StartsWith(n, start) => n == name && !(n == "bucket" && start.is_empty()),
                Condition::Equal(n, _) => n == name,
            });
            if !named {
                return Err(denied(format_args!(
                    "Extra input fields: {}",
                    name.chars().take(64).collect::<String>()
                )));
            }
        }
        Ok(())
    }

    /// Checks the size of the file.
    pub fn check_size(&self, size: u64) -> Outcome<()> {
        let Some((min, max)) = self.size else { return Ok(()) };
        if size > max {
            return Err(Fault::with(
                Code::ENTITY_TOO_LARGE,
                "Your proposed upload exceeds the maximum allowed size",
            )
            .element("ProposedSize", size.to_string())
            .element("MaxSizeAllowed", max.to_string()));
        }
        if size < min {
            return Err(Fault::with(
                Code::ENTITY_TOO_SMALL,
                "Your proposed upload is smaller than the minimum allowed size",
            )
            .element("ProposedSize", size.to_string())
            .element("MinSizeAllowed", min.to_string()));
        }
        Ok(())
    }
}

fn value_of<'a>(fields: &'a Fields, name: &str, bucket: &'a str) -> &'a str {
    if name == "bucket" { bucket } else { fields.get(name).unwrap_or_default() }
}

fn scalar(value: &Value) -> Outcome<String> {
    match value {
        Value::String(text) => Ok(text.clone()),
        Value::Number(number) => Ok(number.to_string()),
        _ => Err(bad("a value is not a string")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(json: &str) -> Outcome<Policy> {
        Policy::parse(&STANDARD.encode(json))
    }

    fn fields(list: &[(&str, &str)]) -> Fields {
        let mut fields = Fields::default();
        for (name, value) in list {
            fields.set(name, (*value).to_owned());
        }
        fields
    }

    #[test]
    fn every_condition_is_checked() {
        let p = policy(r#"{"expiration":"2030-01-01T00:00:00Z","conditions":[{"bucket":"b"},["starts-with","$key","u/"],["eq","$x-amz-meta-a","1"],["content-length-range",2,"4"]]}"#).unwrap();
        let good = [("key", "u/x"), ("x-amz-meta-a", "1"), ("policy", "p"), ("x-ignore-me", "1")];
        p.check(&fields(&good), "b", 0).unwrap();
        assert!(p.check(&fields(&good), "c", 0).is_err(), "another bucket");
        assert!(p.check(&fields(&good), "b", 4_000_000_000).is_err(), "expired");
        assert!(p.check(&fields(&[("key", "v/x"), ("x-amz-meta-a", "1")]), "b", 0).is_err());
        assert!(p.check(&fields(&[("key", "u/x")]), "b", 0).is_err(), "a field is missing");
        assert!(
            p.check(&fields(&[("key", "u/x"), ("x-amz-meta-a", "1"), ("acl", "x")]), "b", 0).is_err(),
            "an extra field"
        );
        assert!(p.check(&fields(&[("key", "u/x"), ("x-amz-meta-a", "1"), ("bucket", "c")]), "b", 0).is_err());
        assert!(
            p.check_size(1).is_err()
                && p.check_size(2).is_ok()
                && p.check_size(4).is_ok()
                && p.check_size(5).is_err()
        );
    }

    #[test]
    fn bucket_must_be_named_by_a_condition() {
        let with = |condition: &str| {
            let text = format!(
                r#"{{"expiration":"2030-01-01T00:00:00Z","conditions":[["starts-with","$key",""]{condition}]}}"#
            );
            policy(&text).unwrap().check(&fields(&[("key", "k")]), "b-1", 0)
        };
        for named in
            [r#",{"bucket":"b-1"}"#, r#",["eq","$bucket","b-1"]"#, r#",["starts-with","$Bucket","b-"]"#]
        {
            with(named).unwrap();
        }
        for unnamed in ["", r#",["starts-with","$bucket",""]"#, r#",{"bucket":""}"#, r#",{"bucket":"b-2"}"#] {
            assert_eq!(with(unnamed).unwrap_err().code(), Code::ACCESS_DENIED, "{unnamed}");
        }
    }

    #[test]
    fn invalid_policy_documents_are_refused() {
        for bad in [
            "",
            "[]",
            "{}",
            r#"{"expiration":"never","conditions":[]}"#,
            r#"{"expiration":"2030-01-01T00:00:00Z","conditions":[["like","$key","a"]]}"#,
            r#"{"expiration":"2030-01-01T00:00:00Z","conditions":[["eq","key","a"]]}"#,
            r#"{"expiration":"2030-01-01T00:00:00Z","conditions":["eq"]}"#,
            r#"{"expiration":"2030-01-01T00:00:00Z","conditions":[],"more":1}"#,
            r#"{"expiration":"2030-01-01T00:00:00Z","conditions":[{}]}"#,
            r#"{"expiration":"2030-01-01T00:00:00Z","conditions":[{"bucket":"b","key":"k"}]}"#,
        ] {
            assert_eq!(policy(bad).unwrap_err().code(), Code::INVALID_POLICY_DOCUMENT, "{bad}");
        }
        assert!(Policy::parse("%%%").is_err());
    }
}
