//! Settings in MinIO's one-line syntax: `identity_openid:keycloak client_id=x scopes="a b"`.
//!
//! A value ends before the next name of the subsystem, so it may contain spaces; quotes around it are
//! removed. Invariants: parsing a formatted line returns the same values; a name that the subsystem does not
//! have is an error, and never part of the previous value.
//!
//! Must not depend on: the meaning of values.

use ashlar_iam::DEFAULT_TARGET;
use serde_json::Value;

use super::answers::invalid;
use crate::admin_request::Refusal;
use crate::settings::{SUBSYSTEMS, Subsystem};

/// A parsed line.
#[derive(Debug, PartialEq, Eq)]
pub struct Line {
    /// The subsystem.
    pub subsystem: &'static str,
    /// The target.
    pub target: String,
    /// Names and values, in order.
    pub values: Vec<(String, String)>,
}

/// Parses `identity_openid:keycloak` into subsystem and target.
///
/// # Errors
/// The subsystem does not exist.
pub fn subject(word: &str) -> Result<(&'static Subsystem, String), Refusal> {
    let (name, target) = word.split_once(':').unwrap_or((word, DEFAULT_TARGET));
    let target = if target.is_empty() { DEFAULT_TARGET } else { target };
    let subsystem = Subsystem::find(name).ok_or_else(|| {
        let all: Vec<_> = SUBSYSTEMS.iter().map(|s| s.name).collect();
        Refusal {
            code: "XMinioConfigError",
            ..invalid(format!("unknown subsystem \"{name}\"; this server has {}", all.join(", ")))
        }
    })?;
    Ok((subsystem, target.to_owned()))
}

/// Parses a line.
///
/// # Errors
/// The line is invalid; the message says where.
pub fn line(text: &str) -> Result<Line, Refusal> {
    let text = text.trim();
    let (word, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    let (subsystem, target) = subject(word)?;
    Ok(Line { subsystem: subsystem.name, target, values: values(subsystem, rest)? })
}

/// Parses the values after the subsystem.
///
/// # Errors
/// As [`line`].
pub fn values(subsystem: &Subsystem, text: &str) -> Result<Vec<(String, String)>, Refusal> {
    let bad = |why: String| Refusal { code: "XMinioConfigError", ..invalid(why) };
    let mut rest = text.trim();
    let mut out: Vec<(String, String)> = Vec::new();
    while !rest.is_empty() {
        let (name, after) = rest
            .split_once('=')
            .ok_or_else(|| bad(format!("{}: \"{}\" is no NAME=VALUE", subsystem.name, cut(rest))))?;
        let name = name.trim();
        if subsystem.known(name).is_none() {
            return Err(bad(format!("{} has no setting \"{}\"", subsystem.name, cut(name))));
        }
        if out.iter().any(|(n, _)| n == name) {
            return Err(bad(format!("{}: \"{name}\" stands there twice", subsystem.name)));
        }
        let (value, next) = value(subsystem, name, after)?;
        out.push((name.to_owned(), value));
        rest = next.trim_start();
    }
    Ok(out)
}

/// Splits the value at the beginning of a text from the rest.
fn value<'a>(subsystem: &Subsystem, of: &str, text: &'a str) -> Result<(String, &'a str), Refusal> {
    if let Some(quoted) = text.strip_prefix('"')
        && let Some(end) = closing(quoted)
    {
        return Ok((quoted[..end].replace("\\\"", "\"").replace("\\\\", "\\"), &quoted[end + 1..]));
    }
    let mut end = text.len();
    for (at, c) in text.char_indices() {
        if !c.is_whitespace() {
            continue;
        }
        let next = text[at..].trim_start();
        let name = next.split('=').next().filter(|n| n.len() < next.len()).unwrap_or_default();
        if subsystem.known(name).is_some() {
            end = at;
            break;
        }
        // The value of this setting is itself a list of names and values, and shells remove the quotes around
        // it.
        let list = of == "connection_string";
        if !list && !name.is_empty() && name.bytes().all(|b| b.is_ascii_lowercase() || b == b'_') {
            return Err(Refusal {
                code: "XMinioConfigError",
                ..invalid(format!(
                    "{} has no setting \"{name}\"; put quotes around a value with spaces",
                    subsystem.name
                ))
            });
        }
    }
    Ok((text[..end].trim_end().to_owned(), &text[end..]))
}

/// The end of a quoted text: an unescaped quote before white space or the end.
fn closing(text: &str) -> Option<usize> {
    let mut escaped = false;
    for (at, c) in text.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' if text[at + 1..].chars().next().is_none_or(char::is_whitespace) => return Some(at),
            _ => {}
        }
    }
    None
}

fn cut(text: &str) -> String {
    text.chars().take(40).collect()
}

/// Formats a setting of our API as a line.
pub fn written(setting: &Value) -> String {
    let mut out = setting["subsystem"].as_str().unwrap_or_default().to_owned();
    match setting["target"].as_str() {
        Some(DEFAULT_TARGET) | None => {}
        Some(target) => out.extend([":", target]),
    }
    for (name, value) in setting["values"].as_object().into_iter().flatten() {
        let value = value.as_str().unwrap_or_default();
        out.extend([" ", name, "="]);
        let plain = !value.is_empty() && !value.starts_with('"') && !value.contains(char::is_whitespace);
        if plain {
            out.push_str(value);
        } else {
            out.extend(["\"", &value.replace('\\', "\\\\").replace('"', "\\\""), "\""]);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn pairs(list: &[(&str, &str)]) -> Vec<(String, String)> {
        list.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect()
    }

    #[test]
    fn setting_lines_parse() {
        let read = line(r#"identity_openid:kc client_id=ash scopes="openid,profile x" display_name=The one config_url=http://a/b?c=d enable="#).unwrap();
        assert_eq!((read.subsystem, read.target.as_str()), ("identity_openid", "kc"));
        let want = [
            ("client_id", "ash"),
            ("scopes", "openid,profile x"),
            ("display_name", "The one"),
            ("config_url", "http://a/b?c=d"),
            ("enable", ""),
        ];
        assert_eq!(read.values, pairs(&want));
        let read =
            line("identity_ldap user_dn_search_filter=(&(objectclass=person)(uid=%s)) server_addr=h:636")
                .unwrap();
        assert_eq!(read.target, "_");
        assert_eq!(read.values[0].1, "(&(objectclass=person)(uid=%s))");
        let read = line("notify_postgres:1 connection_string=host=h port=5 user=u table=t").unwrap();
        assert_eq!(read.values, pairs(&[("connection_string", "host=h port=5 user=u"), ("table", "t")]));
        assert!(line("identity_tls").unwrap().values.is_empty());
        for bad in [
            "nosuch a=b",
            "",
            "identity_openid a=b",
            "identity_openid client_id=x foo=bar",
            "identity_openid client_id",
            "identity_tls enable=on enable=off",
        ] {
            assert!(line(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn setting_lines_round_trip() {
        for value in
            ["plain", "two words", "\"quoted\"", "back\\slash and \"more\"", "", "client_id=x y", "a=b"]
        {
            let setting = json!({ "subsystem": "identity_openid", "target": "kc", "values": { "client_id": value, "scopes": "x" } });
            let read = line(&written(&setting)).unwrap();
            assert_eq!(read.values, pairs(&[("client_id", value), ("scopes", "x")]), "{}", written(&setting));
        }
    }
}
