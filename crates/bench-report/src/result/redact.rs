//! Removes secrets from results: access keys, secrets, tokens, credentials in addresses.
//!
//! Invariant: a result is redacted when it is written and when it is read, so that reports of files of earlier
//! versions show no key either.

use serde_json::Value;

use super::Run;

/// Replaces a secret.
pub const MASK: &str = "***";

/// Options whose value is secret.
const SECRET: [&str; 6] =
    ["--access-key", "--secret-key", "--token", "--session-token", "--server-metrics-token", "--password"];

/// A command line without secrets.
pub fn command(arguments: impl IntoIterator<Item = String>) -> Vec<String> {
    let mut hide = false;
    arguments
        .into_iter()
        .map(|argument| {
            if std::mem::take(&mut hide) {
                return MASK.to_owned();
            }
            hide = SECRET.contains(&argument.as_str());
            match argument.split_once('=') {
                Some((name, _)) if SECRET.contains(&name) => format!("{name}={MASK}"),
                _ => address(&argument),
            }
        })
        .collect()
}

/// Masks `user:password@` in every address that a text holds.
fn address(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("://") {
        let (before, after) = rest.split_at(at + 3);
        out.push_str(before);
        let authority = after.find(['/', ',', ' ', '?', '#']).unwrap_or(after.len());
        rest = after;
        if let Some(end) = after[..authority].rfind('@') {
            out.push_str(MASK);
            rest = &after[end..];
        }
    }
    out.push_str(rest);
    out
}

fn value(value: &mut Value) {
    match value {
        Value::String(text) => *text = address(text),
        Value::Array(list) => list.iter_mut().for_each(self::value),
        Value::Object(map) => map.values_mut().for_each(self::value),
        _ => {}
    }
}

/// Removes secrets from a result.
pub fn run(run: &mut Run) {
    run.command = command(std::mem::take(&mut run.command));
    for (name, setting) in &mut run.setup {
        if SECRET.iter().any(|s| s.trim_start_matches('-') == name) && !setting.is_null() {
            *setting = MASK.into();
        } else {
            value(setting);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn command_lines_contain_no_secrets() {
        let arguments = [
            "ashlar",
            "--secret-key",
            "abc",
            "--token=def",
            "--access-key",
            "AKIA",
            "get",
            "--endpoint",
            "http://AKIA:abc@n1:9000,https://AKIA:abc@n2:9000/x",
        ];
        let text = command(arguments.map(String::from)).join(" ");
        assert_eq!(
            text,
            "ashlar --secret-key *** --token=*** --access-key *** get --endpoint http://***@n1:9000,https://***@n2:9000/x"
        );
        assert_eq!(command(["a@b".to_owned(), "http://h/p@q".to_owned()]), ["a@b", "http://h/p@q"]);
    }

    #[test]
    fn settings_contain_no_secrets() {
        let mut one = Run::default();
        one.setup.insert("access-key".into(), json!("AKIA"));
        one.setup.insert("endpoint".into(), json!(["http://AKIA:abc@n1"]));
        run(&mut one);
        assert_eq!(
            (&one.setup["access-key"], &one.setup["endpoint"]),
            (&json!("***"), &json!(["http://***@n1"]))
        );
    }
}
