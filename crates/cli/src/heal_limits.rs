//! `ashlar heal limit`: the limits of healing, rebuild and scrub, of all nodes.
//!
//! Must not depend on: how the work is paced.

use ashlar_client::Method;
use clap::Args;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{
    admin_request::{ask, understand},
    context::Context,
    failure::Outcome,
    output::size_text,
};
use ashlar_arguments::size;

/// Which limits to change; without any, those in force are shown.
#[derive(Args, Debug)]
pub struct LimitOptions {
    /// The server's alias
    alias: String,
    /// Bytes per second that each node writes at most for healing and rebuild, such as 100MiB; off: no limit
    #[arg(long, value_name = "SIZE", value_parser = rate)]
    max_rate: Option<u64>,
    /// Bytes per second that each node reads at most to verify everything (scrub), such as 100MiB; off: no limit
    #[arg(long, value_name = "SIZE", value_parser = rate)]
    scrub_max_rate: Option<u64>,
    /// Percent of the time that a task of this work takes while clients' requests are in flight
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u8).range(1..=100))]
    busy_share: Option<u8>,
    /// Forget what was set: every node uses the options of its start again
    #[arg(long, conflicts_with_all = ["max_rate", "scrub_max_rate", "busy_share"])]
    reset: bool,
}

/// A rate in bytes per second; 0: none. The server refuses rates that are too low.
fn rate(text: &str) -> Result<u64, String> {
    if text == "off" { Ok(0) } else { size::parse(text.strip_suffix("/s").unwrap_or(text)) }
}

/// Limits that a server reports.
#[derive(Deserialize, Default)]
#[serde(default)]
pub struct Limits {
    max_rate: u64,
    scrub_max_rate: u64,
    busy_share: u8,
    stored: Vec<String>,
}

impl Limits {
    /// Whether the server says what its limits are.
    pub fn is_known(&self) -> bool {
        self.busy_share > 0
    }

    /// One line.
    pub fn text(&self) -> String {
        let rate = |bytes| match bytes {
            0 => "without limit".to_owned(),
            bytes => format!("at most {}/s", size_text(bytes)),
        };
        format!(
            "Each node heals {}, scrubs {}; {} % of the time while requests are in flight",
            rate(self.max_rate),
            rate(self.scrub_max_rate),
            self.busy_share
        )
    }

    fn source(&self) -> String {
        match self.stored.is_empty() {
            true => "From the options of the node that answers; nothing is set for all.".to_owned(),
            false => format!("Set for all nodes: {}.", self.stored.join(", ")),
        }
    }
}

impl LimitOptions {
    /// The order for the server; `None`: nothing is to be changed.
    fn order(&self) -> Option<Value> {
        let all = [
            ("max_rate", self.max_rate),
            ("scrub_max_rate", self.scrub_max_rate),
            ("busy_share", self.busy_share.map(u64::from)),
        ];
        let given: Map<String, Value> =
            all.into_iter().filter_map(|(name, value)| Some((name.to_owned(), json!(value?)))).collect();
        (!given.is_empty()).then_some(Value::Object(given))
    }
}

/// Shows or changes the limits.
pub async fn run(options: &LimitOptions, context: &Context) -> Outcome {
    let order = options.order();
    let method = match (options.reset, &order) {
        (true, _) => Method::DELETE,
        (false, Some(_)) => Method::PUT,
        (false, None) => Method::GET,
    };
    let shows = method == Method::GET;
    let answer = ask(context, &options.alias, method, "heal/limits", order.as_ref()).await?;
    let limits: Limits = understand(&answer)?;
    let text = || format!("{}\n{}", limits.text(), limits.source());
    match shows {
        true => context.output.result(|| answer, text),
        false => context.output.done(|| answer, text),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_given_limits_are_sent() {
        let none = LimitOptions {
            alias: "it".into(),
            max_rate: None,
            scrub_max_rate: None,
            busy_share: None,
            reset: false,
        };
        assert_eq!(none.order(), None);
        let some = LimitOptions { max_rate: Some(rate("100MiB/s").unwrap()), busy_share: Some(50), ..none };
        assert_eq!(some.order(), Some(json!({ "max_rate": 104_857_600, "busy_share": 50 })));
        assert_eq!(rate("off"), Ok(0));
        assert!(rate("fast").is_err());
    }

    #[test]
    fn text_names_limits_and_where_they_are_from() {
        let limits: Limits =
            understand(&json!({"max_rate": 104857600, "scrub_max_rate": 0, "busy_share": 25, "stored": []}))
                .unwrap();
        let text = limits.text();
        assert!(
            text.contains("at most 100") && text.contains("scrubs without limit") && text.contains("25 %")
        );
        assert!(limits.source().contains("options"));
        let limits = Limits { stored: vec!["max_rate".into()], ..limits };
        assert!(limits.source().ends_with("max_rate."));
        assert!(!Limits::default().is_known(), "an older server says nothing");
    }
}
