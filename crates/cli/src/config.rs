//! `ashlar admin config`: settings that are changed while the server runs (identity providers, event
//! targets), with mc's commands and MinIO's names.
//!
//! A setting as a line is `SUBSYSTEM[:TARGET] NAME="VALUE" ...`; quotes are needed only around values with
//! spaces. Invariants: importing an exported line changes nothing; secrets are shown as `*redacted*`, and a
//! line with this value keeps the secret.
//!
//! Must not depend on: the meaning of values.

use std::io::{Read as _, Write as _};
use std::path::PathBuf;

use ashlar_client::Method;
use clap::Subcommand;
use serde_json::{Map, Value, json};

use super::{
    admin_request::ask_with,
    context::Context,
    failure::{Failure, Kind, Outcome, While},
    output::empty_table,
};

/// Actions on settings.
#[derive(Subcommand, Debug)]
pub enum Command {
    /// Show settings as lines that `config set` and `config import` take
    #[command(after_long_help = "\
Secrets are shown as *redacted*.

Examples:
  ashlar admin config get it
  ashlar admin config get it notify_webhook
  ashlar admin config get it identity_openid:keycloak")]
    Get {
        /// The server's alias
        alias: String,
        /// SUBSYSTEM or SUBSYSTEM:TARGET; all if left out
        subsystem: Option<String>,
    },
    /// Change settings; other settings of the target stay, and the change applies at once
    #[command(after_long_help = "\
The server tries what is set: a provider or target that cannot be used is refused and nothing changes.

Examples:
  ashlar admin config set it notify_webhook:orders endpoint=https://hooks.example.com/orders queue_limit=1000
  ashlar admin config set it identity_tls enable=on")]
    Set {
        /// The server's alias
        alias: String,
        /// SUBSYSTEM or SUBSYSTEM:TARGET
        subsystem: String,
        /// NAME=VALUE; an empty value removes the setting
        #[arg(required = true, value_name = "NAME=VALUE")]
        values: Vec<String>,
    },
    /// Show the subsystems, or the settings of one with their descriptions
    #[command(
        visible_alias = "ls",
        after_long_help = "\
Examples:
  ashlar admin config list it
  ashlar admin config list it notify_webhook"
    )]
    List {
        /// The server's alias
        alias: String,
        /// The subsystem
        subsystem: Option<String>,
    },
    /// Remove all settings of a target, or some of them
    #[command(after_long_help = "\
Examples:
  ashlar admin config reset it notify_webhook:orders
  ashlar admin config reset it notify_webhook:orders queue_limit")]
    Reset {
        /// The server's alias
        alias: String,
        /// SUBSYSTEM or SUBSYSTEM:TARGET
        subsystem: String,
        /// Only these names
        names: Vec<String>,
    },
    /// Write all settings as lines, without secrets
    #[command(after_long_help = "\
Secrets are written as *redacted*: if the file is imported into the same server, these settings stay as they are; for another server, replace them with the secrets.

Examples:
  ashlar admin config export it > settings.txt
  ashlar admin config export it --output settings.txt")]
    Export {
        /// The server's alias
        alias: String,
        /// A new file; the standard output if left out
        #[arg(long, short, value_name = "FILE")]
        output: Option<PathBuf>,
    },
    /// Apply the settings of a file; settings that it does not name stay
    #[command(after_long_help = "\
One setting per line, as `config export` writes them; lines that begin with # are ignored. Each line is checked and \
set by itself: the exit code is 6 if some were refused.

Examples:
  ashlar admin config import it settings.txt
  ashlar admin config import it < settings.txt")]
    Import {
        /// The server's alias
        alias: String,
        /// The file; the standard input if left out
        #[arg(default_value = "-")]
        file: String,
    },
}

/// Runs the command.
pub async fn run(command: Command, context: &Context) -> Outcome {
    match command {
        Command::Get { alias, subsystem } => get(&alias, subsystem.as_deref(), context).await,
        Command::Set { alias, subsystem, values } => set(&alias, &subsystem, &values, context).await,
        Command::List { alias, subsystem } => list(&alias, subsystem.as_deref(), context).await,
        Command::Reset { alias, subsystem, names } => reset(&alias, &subsystem, &names, context).await,
        Command::Export { alias, output } => export(&alias, output, context).await,
        Command::Import { alias, file } => import(&alias, &file, context).await,
    }
}

/// The target of a subsystem that has only one.
const ONLY: &str = "_";

/// Subsystem and target of `notify_webhook:orders`.
fn split(word: &str) -> (&str, &str) {
    let (subsystem, target) = word.split_once(':').unwrap_or((word, ONLY));
    (subsystem, if target.is_empty() { ONLY } else { target })
}

fn path(word: &str) -> String {
    let (subsystem, target) = split(word);
    format!("settings/{subsystem}/{target}")
}

/// The settings of the answer that match `word`.
fn chosen<'a>(answer: &'a Value, word: Option<&str>) -> Vec<&'a Value> {
    let all = answer["settings"].as_array().map_or(&[][..], Vec::as_slice);
    let fits = |setting: &&Value| match word {
        None => true,
        Some(word) => {
            let (subsystem, target) = split(word);
            setting["subsystem"] == subsystem && (!word.contains(':') || setting["target"] == target)
        }
    };
    all.iter().filter(fits).collect()
}

/// A setting as a line.
fn line(setting: &Value) -> String {
    let text = |name: &str| setting[name].as_str().unwrap_or_default().to_owned();
    let mut line = text("subsystem");
    if text("target") != ONLY {
        line.push_str(&format!(":{}", text("target")));
    }
    for (name, value) in setting["values"].as_object().into_iter().flatten() {
        let value = value.as_str().unwrap_or_default().replace('\\', "\\\\").replace('"', "\\\"");
        line.push_str(&format!(" {name}=\"{value}\""));
    }
    line
}

async fn settings(alias: &str, context: &Context) -> Outcome<Value> {
    ask_with(context, alias, Method::GET, "settings", &[], None).await
}

/// A subsystem of the answer.
fn known<'a>(answer: &'a Value, name: &str) -> Outcome<&'a Value> {
    let all = answer["subsystems"].as_array().map_or(&[][..], Vec::as_slice);
    all.iter().find(|s| s["name"] == name).ok_or_else(|| {
        let names: Vec<&str> = all.iter().filter_map(|s| s["name"].as_str()).collect();
        Failure::new(
            Kind::NotFound,
            format!("`{name}` cannot be configured here; the subsystems are {}", names.join(", ")),
        )
    })
}

async fn get(alias: &str, word: Option<&str>, context: &Context) -> Outcome {
    let answer = settings(alias, context).await?;
    if let Some(word) = word {
        known(&answer, split(word).0)?;
    }
    let found = chosen(&answer, word);
    if let Some(word) = word.filter(|_| found.is_empty()) {
        if word.contains(':') {
            return Err(Failure::new(Kind::NotFound, format!("nothing is set for `{word}`")));
        }
        context.output.note(&format!("Nothing is set for `{word}`."));
    }
    for setting in found {
        context.output.result(|| setting.clone(), || line(setting));
    }
    Ok(())
}

async fn set(alias: &str, word: &str, values: &[String], context: &Context) -> Outcome {
    let mut map = Map::new();
    for pair in values {
        let (name, value) =
            pair.split_once('=').ok_or_else(|| Failure::usage(format!("`{pair}`: expected NAME=VALUE")))?;
        if map.insert(name.to_owned(), json!(value)).is_some() {
            return Err(Failure::usage(format!("`{name}` is given twice")));
        }
    }
    let answer = put(alias, word, &map, context).await?;
    context.output.done(|| answer, || format!("Set `{word}`; it applies now."));
    Ok(())
}

async fn put(alias: &str, word: &str, values: &Map<String, Value>, context: &Context) -> Outcome<Value> {
    let order = json!({ "values": values });
    let answer = ask_with(context, alias, Method::PUT, &path(word), &[], Some(&order)).await;
    answer.when(|| format!("cannot set `{word}`"))
}

async fn list(alias: &str, word: Option<&str>, context: &Context) -> Outcome {
    let answer = settings(alias, context).await?;
    let one = word.map(|word| known(&answer, split(word).0)).transpose()?;
    let rows: Vec<&Value> = match one {
        Some(subsystem) => subsystem["names"].as_array().into_iter().flatten().collect(),
        None => answer["subsystems"].as_array().into_iter().flatten().collect(),
    };
    if context.output.json {
        rows.iter().for_each(|row| context.output.result(|| (*row).clone(), String::new));
        return Ok(());
    }
    let mut table = empty_table();
    table.set_header(if one.is_some() {
        ["Name", "Shown", "Meaning"]
    } else {
        ["Subsystem", "Set", "Meaning"]
    });
    for row in rows {
        let text = |name: &str| row[name].as_str().unwrap_or_default().to_owned();
        let middle = match one {
            Some(_) if row["secret"] == true => "never".to_owned(),
            Some(_) => "yes".to_owned(),
            None => match chosen(&answer, Some(&text("name"))).len() {
                0 => "no".to_owned(),
                n if row["several"] == true => format!("{n} targets"),
                _ => "yes".to_owned(),
            },
        };
        table.add_row([text("name"), middle, text("help")]);
    }
    context.output.result(|| Value::Null, || table.to_string());
    Ok(())
}

async fn reset(alias: &str, word: &str, names: &[String], context: &Context) -> Outcome {
    let answer = if names.is_empty() {
        let answer = ask_with(context, alias, Method::DELETE, &path(word), &[], None).await;
        answer.when(|| format!("cannot reset `{word}`"))?
    } else {
        // An empty value removes the setting.
        put(alias, word, &names.iter().map(|n| (n.clone(), json!(""))).collect(), context).await?
    };
    let what = if names.is_empty() { String::new() } else { format!(": {}", names.join(", ")) };
    context.output.done(|| answer, || format!("Reset `{word}`{what}; it applies now."));
    Ok(())
}

async fn export(alias: &str, output: Option<PathBuf>, context: &Context) -> Outcome {
    let answer = settings(alias, context).await?;
    let found = chosen(&answer, None);
    let text: String = found.iter().map(|s| format!("{}\n", line(s))).collect();
    let Some(path) = output else {
        if context.output.json {
            context.output.result(|| json!({ "settings": answer["settings"] }), String::new);
        } else {
            context.output.bytes(text.as_bytes());
        }
        return Ok(());
    };
    let what = || format!("cannot write `{}`", path.display());
    let mut file = std::fs::File::create_new(&path).when(what)?;
    file.write_all(text.as_bytes()).and_then(|()| file.sync_all()).when(what)?;
    context.output.done(
        || json!({ "file": path.display().to_string(), "settings": found.len() }),
        || format!("{} settings written to `{}`, without secrets.", found.len(), path.display()),
    );
    Ok(())
}

async fn import(alias: &str, file: &str, context: &Context) -> Outcome {
    let mut text = String::new();
    let read = match file {
        "-" => std::io::stdin().read_to_string(&mut text),
        _ => std::fs::File::open(file).and_then(|mut f| f.read_to_string(&mut text)),
    };
    read.when(|| format!("cannot read `{file}`"))?;
    let answer = settings(alias, context).await?;
    let lines = parse(&text, &answer)?;
    let mut failed = 0;
    for (word, values) in &lines {
        match put(alias, word, values, context).await {
            Ok(answer) => context.output.done(|| answer, || format!("Set `{word}`.")),
            Err(failure) => {
                context.output.failure(&failure);
                failed += 1;
            }
        }
    }
    if failed > 0 {
        return Err(Failure::partly(failed));
    }
    if lines.is_empty() {
        context.output.note("There was nothing to set.");
    }
    Ok(())
}

/// Parses lines; `answer` has the known names.
fn parse(text: &str, answer: &Value) -> Outcome<Vec<(String, Map<String, Value>)>> {
    let mut out = Vec::new();
    for words in words(text)? {
        let Some((subject, rest)) = words.split_first().filter(|(s, _)| !s.starts_with('#')) else {
            continue;
        };
        let names = known(answer, split(subject).0)?["names"].as_array().cloned().unwrap_or_default();
        let mut values: Map<String, Value> = Map::new();
        let mut last = String::new();
        for word in rest {
            let name = word.split_once('=').map(|(name, _)| name);
            match (name, values.get_mut(&last)) {
                (Some(name), _) if names.iter().any(|n| n["name"] == name) => {
                    let value = word[name.len() + 1..].to_owned();
                    if values.insert(name.to_owned(), json!(value)).is_some() {
                        return Err(Failure::usage(format!("`{subject}`: `{name}` is given twice")));
                    }
                    name.clone_into(&mut last);
                }
                // MinIO also writes values with spaces without quotes: they end before the next name.
                (None, Some(Value::String(value))) => value.push_str(&format!(" {word}")),
                (Some(name), _) => {
                    let why =
                        format!("`{subject}` has no setting `{name}`; put quotes around a value with spaces");
                    return Err(Failure::usage(why));
                }
                (None, _) => {
                    return Err(Failure::usage(format!("`{subject}`: `{word}`: expected NAME=VALUE")));
                }
            }
        }
        out.push((subject.clone(), values));
    }
    Ok(out)
}

/// Splits each line into words; quotes keep spaces and line ends in a word, and are removed.
fn words(text: &str) -> Outcome<Vec<Vec<String>>> {
    let mut lines: Vec<Vec<String>> = vec![Vec::new()];
    let (mut word, mut begun, mut quoted) = (String::new(), false, false);
    let mut comment = false;
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        if comment && c != '\n' {
            continue;
        }
        match c {
            '\\' if quoted => word.extend(chars.next()),
            '"' if quoted || word.is_empty() || word.ends_with('=') => (quoted, begun) = (!quoted, true),
            '#' if !begun && !quoted && lines.last().is_some_and(Vec::is_empty) => comment = true,
            c if c.is_whitespace() && !quoted => {
                if std::mem::take(&mut begun)
                    && let Some(line) = lines.last_mut()
                {
                    line.push(std::mem::take(&mut word));
                }
                if c == '\n' {
                    comment = false;
                    lines.push(Vec::new());
                }
            }
            c => {
                word.push(c);
                begun = true;
            }
        }
    }
    if quoted {
        return Err(Failure::usage("a quote is not closed"));
    }
    if begun && let Some(line) = lines.last_mut() {
        line.push(word);
    }
    lines.retain(|line| !line.is_empty());
    Ok(lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer() -> Value {
        json!({
            "settings": [
                {"subsystem": "notify_webhook", "target": "a", "values": {"endpoint": "http://x/?a=b c", "comment": "say \"hi\\\"\nthere"}},
                {"subsystem": "identity_tls", "target": "_", "values": {"enable": "on", "comment": ""}}],
            "subsystems": [
                {"name": "notify_webhook", "several": true, "names": [{"name": "endpoint"}, {"name": "comment"}]},
                {"name": "identity_tls", "several": false, "names": [{"name": "enable"}, {"name": "comment"}]}]
        })
    }

    #[test]
    fn exported_settings_import_unchanged() {
        let answer = answer();
        let text: String = chosen(&answer, None).iter().map(|s| format!("{}\n", line(s))).collect();
        assert!(text.starts_with("notify_webhook:a "), "{text}");
        assert!(text.contains("\nidentity_tls "), "{text}");
        let back = parse(&text, &answer).expect("lines");
        let original: Vec<(String, Map<String, Value>)> = ["notify_webhook:a", "identity_tls"]
            .iter()
            .zip(answer["settings"].as_array().expect("settings"))
            .map(|(word, s)| ((*word).to_owned(), s["values"].as_object().expect("values").clone()))
            .collect();
        assert_eq!(back, original);
    }

    #[test]
    fn minio_lines_parse() {
        let text = "# a comment with \"quotes\n\nnotify_webhook:a endpoint=http://x comment=two words  \nidentity_tls enable=on";
        let lines = parse(text, &answer()).expect("lines");
        assert_eq!(lines.len(), 2);
        assert_eq!(lines[0].1["comment"], "two words");
        assert_eq!(
            lines[1],
            ("identity_tls".to_owned(), Map::from_iter([("enable".to_owned(), json!("on"))]))
        );
        for bad in [
            "nosuch x=y",
            "identity_tls nosuch=1",
            "identity_tls on",
            "identity_tls enable=\"on",
            "identity_tls enable=on enable=off",
        ] {
            assert!(parse(bad, &answer()).is_err(), "{bad}");
        }
    }

    #[test]
    fn settings_are_chosen_by_subsystem_and_target() {
        let answer = answer();
        assert_eq!(chosen(&answer, None).len(), 2);
        assert_eq!(chosen(&answer, Some("notify_webhook")).len(), 1);
        assert_eq!(chosen(&answer, Some("notify_webhook:b")).len(), 0);
        assert_eq!(
            (path("identity_tls"), path("notify_webhook:a")),
            ("settings/identity_tls/_".into(), "settings/notify_webhook/a".into())
        );
    }
}
