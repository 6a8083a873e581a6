//! Where the server's log goes, and how.

use tracing_subscriber::Layer as _;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

/// Form of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Form {
    /// For people.
    Text,
    /// One JSON object per line.
    Json,
}

/// Starts logging to standard error. `ASHLAR_LOG` chooses what: `debug` shows every request,
/// `info,ashlar::request=debug` only those.
pub fn start(form: Form, colour: bool) {
    let wanted = std::env::var("ASHLAR_LOG").unwrap_or_default();
    let (filter, problem) = match wanted.trim() {
        "" => (Targets::new().with_default(LevelFilter::INFO), None),
        text => match text.parse::<Targets>() {
            Ok(filter) => (filter, None),
            Err(error) => (Targets::new().with_default(LevelFilter::INFO), Some(error)),
        },
    };
    let layer = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
    let layer = match form {
        Form::Text => layer.with_ansi(colour).with_target(false).boxed(),
        Form::Json => layer.json().flatten_event(true).with_current_span(false).boxed(),
    };
    // A second start in one process (tests) keeps the first.
    let _ = tracing_subscriber::registry().with(layer.with_filter(filter)).try_init();
    if let Some(error) = problem {
        tracing::warn!(%error, "ASHLAR_LOG cannot be read; the log shows what `info` shows");
    }
}
