//! The server's log: written to standard error, with the last lines kept in memory for the administration
//! API.
//!
//! Invariant: lines in memory are limited in number and length; logging never waits for readers.

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::sync::{Arc, LazyLock};

use parking_lot::Mutex;
use tokio::sync::broadcast;
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::{Context, SubscriberExt as _};
use tracing_subscriber::util::SubscriberInitExt as _;

use super::clock::now_ms;

/// Maximum number of lines kept in memory.
const MAX_LINES: usize = 2000;
/// Maximum length in bytes of a line in memory; longer lines are cut.
const MAX_LENGTH: usize = 4096;

/// Format of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Form {
    /// Text.
    Text,
    /// One JSON object per line.
    Json,
}

/// A line of the log.
#[derive(Clone, Debug)]
pub struct Line {
    /// Milliseconds since 1970.
    pub at_ms: i64,
    /// `ERROR`, `WARN` or `INFO`.
    pub level: &'static str,
    /// The module that logged the line.
    pub target: &'static str,
    /// The message and its fields.
    pub text: String,
}

/// The last lines of the log.
pub struct LogBuffer {
    lines: Mutex<VecDeque<Arc<Line>>>,
    live: broadcast::Sender<Arc<Line>>,
}

static BUFFER: LazyLock<LogBuffer> =
    LazyLock::new(|| LogBuffer { lines: Mutex::default(), live: broadcast::Sender::new(MAX_LINES) });

/// The last lines of this process.
pub fn buffer() -> &'static LogBuffer {
    &BUFFER
}

impl LogBuffer {
    /// The last `most` lines, oldest first, and a receiver of later lines.
    pub fn read(&self, most: usize) -> (Vec<Arc<Line>>, broadcast::Receiver<Arc<Line>>) {
        let lines = self.lines.lock();
        let skip = lines.len().saturating_sub(most);
        (lines.iter().skip(skip).cloned().collect(), self.live.subscribe())
    }

    fn push(&self, line: Line) {
        let line = Arc::new(line);
        let mut lines = self.lines.lock();
        if lines.len() == MAX_LINES {
            lines.pop_front();
        }
        lines.push_back(line.clone());
        // Fails if there are no readers. Under the lock, so that a new reader misses no line.
        let _ = self.live.send(line);
    }
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
        let mut all = text.message + &text.fields;
        if all.len() > MAX_LENGTH {
            let cut = (0..=MAX_LENGTH).rev().find(|i| all.is_char_boundary(*i)).unwrap_or(0);
            all.truncate(cut);
        }
        buffer().push(Line { at_ms: now_ms(), level, target: event.metadata().target(), text: all });
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
