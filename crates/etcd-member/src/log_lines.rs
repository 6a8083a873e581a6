//! What etcd writes, in the log of this program.
//!
//! etcd (zap) writes a JSON object per line. Its errors and warnings become warnings, because the node goes on without
//! it; what it says again within a minute is left out, because it repeats "cannot reach that member" many times a second.
//!
//! Invariant: the memory of what was said is bounded.
//!
//! Must not depend on: the process.

use std::collections::HashMap;
use std::io::{BufRead as _, BufReader, Read};
use std::time::Duration;

use ashlar_environment::time::Instant;
use serde_json::{Map, Value};

/// Time for which a message is not repeated.
const QUIET: Duration = Duration::from_secs(60);
/// Most messages that are remembered.
const REMEMBERED: usize = 64;
/// Said for every request through the gateway with TLS, which is how nodes use etcd (docs/control-store.md).
const USUAL: &str = "ignoring common name in gRPC-gateway proxy request";
/// Longest line; the rest of a longer one is a line of its own.
const LONGEST: u64 = 16 << 10;

/// Logs lines until they end. Blocks.
pub fn log(lines: impl Read) {
    let mut lines = BufReader::new(lines);
    let mut said: HashMap<String, Instant> = HashMap::new();
    let mut line = Vec::new();
    loop {
        line.clear();
        match (&mut lines).take(LONGEST).read_until(b'\n', &mut line) {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
        let (level, text, same) = understood(&String::from_utf8_lossy(&line));
        if text.is_empty() {
            continue;
        }
        match level {
            Level::Information => tracing::debug!(target: "etcd", "{text}"),
            level if is_new(&mut said, &same, Instant::now()) => match level {
                Level::Fatal => tracing::error!(target: "etcd", "{text}"),
                _ => tracing::warn!(target: "etcd", "{text}"),
            },
            _ => {}
        }
    }
}

#[derive(PartialEq, Eq, Clone, Copy, Debug)]
enum Level {
    Information,
    Warning,
    /// It ends.
    Fatal,
}

/// The level and the text of a line, and what it has in common with its repetitions.
fn understood(line: &str) -> (Level, String, String) {
    let line = line.trim();
    let Ok(fields) = serde_json::from_str::<Map<String, Value>>(line) else {
        // Panics of Go, and what is said before the log begins.
        return (Level::Warning, line.to_owned(), line.to_owned());
    };
    let level = match fields.get("level").and_then(Value::as_str) {
        _ if fields.get("msg").and_then(Value::as_str) == Some(USUAL) => Level::Information,
        Some("debug" | "info") => Level::Information,
        Some("panic" | "fatal" | "dpanic") => Level::Fatal,
        _ => Level::Warning,
    };
    let mut text = fields.get("msg").and_then(Value::as_str).unwrap_or_default().to_owned();
    let peer = fields.get("remote-peer-id").and_then(Value::as_str).unwrap_or_default();
    let same = format!("{text} {peer}");
    let more = fields
        .iter()
        .filter(|(name, _)| !matches!(name.as_str(), "level" | "msg" | "ts" | "caller" | "stacktrace"));
    for (name, value) in more {
        match value {
            Value::String(value) => text.push_str(&format!(" {name}={value}")),
            value => text.push_str(&format!(" {name}={value}")),
        }
    }
    (level, text, same)
}

/// Whether a message was not said lately.
fn is_new(said: &mut HashMap<String, Instant>, same: &str, now: Instant) -> bool {
    if said.get(same).is_some_and(|at| now.duration_since(*at) < QUIET) {
        return false;
    }
    if said.len() >= REMEMBERED {
        said.retain(|_, at| now.duration_since(*at) < QUIET);
    }
    if said.len() < REMEMBERED {
        said.insert(same.to_owned(), now);
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_understood() {
        let of = |line: &str| understood(line);
        let line = r#"{"level":"warn","ts":"2024","caller":"x.go:1","msg":"slow","took":"1s","n":3,"remote-peer-id":"a"}"#;
        let (level, text, same) = of(line);
        assert_eq!(
            (level, text.as_str(), same.as_str()),
            (Level::Warning, "slow n=3 remote-peer-id=a took=1s", "slow a")
        );
        assert_eq!(of(r#"{"level":"info","msg":"started"}"#).0, Level::Information);
        assert_eq!(of(r#"{"level":"fatal","msg":"no"}"#).0, Level::Fatal);
        assert_eq!(of(&format!(r#"{{"level":"warn","msg":"{USUAL}"}}"#)).0, Level::Information);
        assert_eq!(of("panic: oh\n").1, "panic: oh");
        log(&b"\n\xff\n{\"level\":\"warn\"}\nlast"[..]);
    }

    #[test]
    fn repetitions_are_left_out_for_a_minute_and_memory_is_bounded() {
        let mut said = HashMap::new();
        let now = Instant::now();
        assert!(is_new(&mut said, "lost", now));
        assert!(!is_new(&mut said, "lost", now));
        assert!(is_new(&mut said, "other", now));
        assert!(is_new(&mut said, "other", now + QUIET));
        for n in 0..1000_u32 {
            is_new(&mut said, &n.to_string(), now);
        }
        assert!(said.len() <= REMEMBERED);
    }
}
