//! The title of a result: what was measured, never when.

use serde_json::Value;

use super::{Host, Run, server, settings};

/// The name of a result; one that only holds the time of its start, as earlier versions made it, is replaced.
pub fn of(run: &Run) -> String {
    let made = run.name.is_empty() || (!run.started.is_empty() && run.name.ends_with(&run.started));
    if made { measured(run) } else { run.name.clone() }
}

/// What was measured: `GET of 4 KiB, 20 in flight, on it`.
pub fn measured(run: &Run) -> String {
    let set = |name: &str| run.setup.get(name).filter(|v| !v.is_null());
    let text = |name: &str| set(name).map(|v| settings::value(name, v));
    match run.mode.as_str() {
        "s3" => {
            let operation = text("operation").unwrap_or_else(|| names(run).join(", "));
            let mut title = operation.to_uppercase();
            let has_size = !matches!(operation.as_str(), "list" | "stat" | "delete");
            if let Some(size) = text("size").filter(|_| has_size) {
                title.push_str(&format!(" of {size}"));
            }
            if set("sweep").is_some() {
                title.push_str(", sweep");
            } else if let Some(phase) = run.phases.first() {
                title.push_str(&format!(", {}", phase.load.text()));
            }
            match host(run).and_then(|h| h.facts.get("name")) {
                Some(name) => format!("{title}, on {name}"),
                None => title,
            }
        }
        "drive" => match set("paths").or_else(|| set("path")).and_then(Value::as_array) {
            Some(paths) if paths.len() == 1 => format!("Drive {}", settings::value("path", &paths[0])),
            Some(paths) => format!("{} drives", paths.len()),
            None => "Drives".to_owned(),
        },
        "net" => format!("Network to {}", text("nodes").unwrap_or_else(|| "other nodes".to_owned())),
        "gpu" => "GPU as an erasure engine".to_owned(),
        "spec" => "Life cycle of a server".to_owned(),
        other => format!("{other} {}", names(run).join(", ")).trim().to_owned(),
    }
}

fn names(run: &Run) -> Vec<String> {
    let mut names: Vec<String> = run.phases.iter().map(|p| p.name.clone()).collect();
    names.dedup();
    names
}

fn host(run: &Run) -> Option<&Host> {
    run.environment.iter().find(|h| h.role == "server")
}

/// The server of a result in a line, for results about servers: `it: Ashlar 0.1.0, 4 drives, erasure code 2+2`.
pub fn server_line(run: &Run) -> Option<String> {
    // Drive groups are measured without a server.
    if !matches!(run.mode.as_str(), "s3" | "spec") || run.setup.contains_key("fabric") {
        return None;
    }
    Some(server::line(host(run).unwrap_or(&Host::default())))
}

/// Adds the start time to titles of results with the same name, so that they can be distinguished.
pub fn tell_apart(runs: &mut [Run]) {
    runs.iter_mut().for_each(|r| r.name = of(r));
    let names: Vec<String> = runs.iter().map(|r| r.name.clone()).collect();
    for (i, run) in runs.iter_mut().enumerate() {
        let twins = names.iter().filter(|n| **n == names[i]).count();
        if twins > 1 {
            let nth = names[..=i].iter().filter(|n| **n == names[i]).count();
            run.name = format!("{} ({nth})", names[i]);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::fixture;

    #[test]
    fn title_says_what_was_measured() {
        let mut run = fixture::run("", "2026-01-01T00:00:00Z", 10, 20);
        run.setup.insert("operation".into(), json!("get"));
        run.setup.insert("size".into(), json!(4096));
        assert_eq!(of(&run), "GET of 4 KiB, 8 in flight");
        run.environment.push(server::host("it", None));
        "get 2026-01-01T00:00:00Z".clone_into(&mut run.name);
        assert_eq!(of(&run), "GET of 4 KiB, 8 in flight, on it");
        assert!(server_line(&run).is_some_and(|l| l.starts_with("it: version unknown")));
        "nightly".clone_into(&mut run.name);
        assert_eq!(of(&run), "nightly", "what the user calls it stays");
        run = Run { mode: "drive".into(), ..Run::default() };
        assert_eq!((of(&run), server_line(&run)), ("Drives".to_owned(), None));
    }

    #[test]
    fn equal_titles_are_made_distinct() {
        let run = |name: &str| Run { name: name.into(), ..Run::default() };
        let mut runs = [run("a"), run("b"), run("a")];
        tell_apart(&mut runs);
        assert_eq!(runs.map(|r| r.name), ["a (1)", "b", "a (2)"]);
    }
}
