//! The last lines of the server's log, for the administration API.
//!
//! Invariant: lines in memory are limited in number and length; logging never waits for readers. Must not
//! depend on: how the log is written.

use std::collections::VecDeque;
use std::sync::{Arc, LazyLock};

use parking_lot::Mutex;
use tokio::sync::broadcast;

/// Maximum number of lines kept in memory.
const MAX_LINES: usize = 2000;
/// Maximum length in bytes of a line in memory; longer lines are cut.
pub const MAX_LENGTH: usize = 4096;

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

    /// Keeps a line, and sends it to the readers of later lines.
    pub fn push(&self, mut line: Line) {
        let text = &mut line.text;
        if text.len() > MAX_LENGTH {
            let cut = (0..=MAX_LENGTH).rev().find(|i| text.is_char_boundary(*i)).unwrap_or(0);
            text.truncate(cut);
        }
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
