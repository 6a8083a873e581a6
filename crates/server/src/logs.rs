//! Where the server's log goes: to standard error, and the last lines into memory for administration.
//!
//! Invariant: lines in memory are bounded in number and length; nothing waits for who reads them.

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

/// Lines kept in memory.
const KEPT: usize = 2000;
/// Longest line kept, in bytes; what is longer is cut.
const LONGEST: usize = 4096;

/// Form of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Form {
    /// For people.
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
    /// The part of the program.
    pub target: &'static str,
    /// The message and its fields.
    pub text: String,
}

/// The last lines.
pub struct Kept {
    lines: Mutex<VecDeque<Arc<Line>>>,
    live: broadcast::Sender<Arc<Line>>,
}

static LINES: LazyLock<Kept> =
    LazyLock::new(|| Kept { lines: Mutex::default(), live: broadcast::Sender::new(KEPT) });

/// The lines of this process.
pub fn kept() -> &'static Kept {
    &LINES
}

impl Kept {
    /// The last `most` lines, oldest first, and those that come from now on.
    pub fn read(&self, most: usize) -> (Vec<Arc<Line>>, broadcast::Receiver<Arc<Line>>) {
        let lines = self.lines.lock();
        let skip = lines.len().saturating_sub(most);
        (lines.iter().skip(skip).cloned().collect(), self.live.subscribe())
    }

    fn push(&self, line: Line) {
        let line = Arc::new(line);
        let mut lines = self.lines.lock();
        if lines.len() == KEPT {
            lines.pop_front();
        }
        lines.push_back(line.clone());
        // Fails where nobody reads. Within the lock, so that who begins to read misses none.
        let _ = self.live.send(line);
    }
}

/// Puts lines into memory.
struct Keep;

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

impl<S: Subscriber> Layer<S> for Keep {
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
        if all.len() > LONGEST {
            let cut = (0..=LONGEST).rev().find(|i| all.is_char_boundary(*i)).unwrap_or(0);
            all.truncate(cut);
        }
        kept().push(Line { at_ms: now_ms(), level, target: event.metadata().target(), text: all });
    }
}

/// Starts logging to standard error. `ASHLAR_LOG` chooses what: `debug` shows every request,
/// `info,ashlar::request=debug` only those.
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
    // A second start in one process (tests) keeps the first.
    let registry = tracing_subscriber::registry().with(layer.with_filter(filter));
    let _ = registry.with(Keep.with_filter(LevelFilter::INFO)).try_init();
    if let Some(error) = problem {
        tracing::warn!(%error, "ASHLAR_LOG cannot be read; the log shows what `info` shows");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_kept_and_told_live() {
        let subscriber = tracing_subscriber::registry().with(Keep);
        tracing::subscriber::with_default(subscriber, || {
            let (_, mut live) = kept().read(0);
            tracing::warn!(drive = "/d0", "drive not in service");
            tracing::debug!("not kept");
            tracing::info!("{}", "\u{e9}".repeat(LONGEST));
            let line = live.try_recv().unwrap();
            assert_eq!((line.level, line.text.as_str()), ("WARN", "drive not in service drive=\"/d0\""));
            let line = live.try_recv().unwrap();
            assert_eq!((line.level, line.text.len()), ("INFO", LONGEST));
            assert_eq!(kept().read(1).0[0].text, line.text);
        });
    }
}
