//! The server's log: written to standard error; `ashlar_node::log_buffer` keeps the last lines for the
//! administration API.
//!
//! Invariant: logging never waits for readers.

use std::fmt::Write as _;

use ashlar_node::clock::now_ms;
use ashlar_node::log_buffer::{Line, buffer};
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::{Context, SubscriberExt as _};
use tracing_subscriber::util::SubscriberInitExt as _;

/// Format of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Form {
    /// Text.
    Text,
    /// One JSON object per line.
    Json,
}

/// A tracing layer that keeps lines in memory.
struct BufferLayer;

#[derive(Default)]
struct Text {
    message: String,
    fields: String,
}

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        let _ = match field.name() {
            "message" => write!(self.message, "{value:?}"),
            name => write!(self.fields, " {name}={value:?}"),
        };
    }
}

impl<S: Subscriber> Layer<S> for BufferLayer {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let level = match *event.metadata().level() {
            Level::ERROR => "ERROR",
            Level::WARN => "WARN",
            Level::INFO => "INFO",
            _ => return,
        };
        let mut text = Text::default();
        event.record(&mut text);
        let text = text.message + &text.fields;
        buffer().push(Line { at_ms: now_ms(), level, target: event.metadata().target(), text });
    }
}

/// Starts logging to standard error. `ASHLAR_LOG` filters the log: `debug` shows every request,
/// `info,ashlar::request=debug` shows requests at level debug and the rest at level info.
pub fn start(form: Form, colour: bool) {
    let wanted = ashlar_environment::process::variable("ASHLAR_LOG").unwrap_or_default();
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
    // A second start in one process (in tests) keeps the first subscriber.
    let registry = tracing_subscriber::registry().with(layer.with_filter(filter));
    let _ = registry.with(BufferLayer.with_filter(LevelFilter::INFO)).try_init();
    if let Some(error) = problem {
        tracing::warn!(%error, "ASHLAR_LOG is invalid; the log level is `info`");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ashlar_node::log_buffer::MAX_LENGTH;

    #[test]
    fn log_lines_are_buffered_and_streamed() {
        let subscriber = tracing_subscriber::registry().with(BufferLayer);
        tracing::subscriber::with_default(subscriber, || {
            let (_, mut live) = buffer().read(0);
            tracing::warn!(drive = "/d0", "drive not in service");
            tracing::debug!("not kept");
            tracing::info!("{}", "\u{e9}".repeat(MAX_LENGTH));
            let line = live.try_recv().unwrap();
            assert_eq!((line.level, line.text.as_str()), ("WARN", "drive not in service drive=\"/d0\""));
            let line = live.try_recv().unwrap();
            assert_eq!((line.level, line.text.len()), ("INFO", MAX_LENGTH));
            assert_eq!(buffer().read(1).0[0].text, line.text);
        });
    }
}
