//! Follows what happens at other nodes: the trace, the log, events of buckets. This file answers those who follow;
//! `followers` asks; `followed` is what they exchange.
//!
//! A node that follows asks again and again, each time for the next *turn*. Between two turns this node keeps what happened
//! in a bounded queue, in a session. What was answered in the last turn is kept too, because an answer can be lost or be
//! asked for twice.
//!
//! Invariants: a session that nobody asks about for [`IDLE`] ends, and costs nothing from then on; sessions are limited for
//! each node that asks; what does not fit in the queue is dropped and counted, and delays nobody. Filters are applied here,
//! so that only what is wanted travels.
//!
//! Must not depend on: how nodes are asked.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Weak};
use std::time::Duration;

use ashlar_environment::time::{self, Instant};
use ashlar_s3::Context;
use ashlar_s3::notifications::{Filter, Listener as EventListener};
use ashlar_s3::trace::{Event, Listener};
use futures::FutureExt as _;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::broadcast;

use super::followed::{Followed, Turn};
use super::minio::lines::{MinioLines, MinioLogs};
use super::monitor::{self, Formatter, LogFilter};
use ashlar_node::log_buffer::{self, Line};

/// How long a session lives that nobody asks about.
const IDLE: Duration = Duration::from_secs(15);
/// Most sessions of one node.
const SESSIONS: usize = 1024;
/// Bytes of lines after which a turn ends.
const TURN: usize = 40 << 10;
/// The same of the first turn, which has the last lines of the log.
const FIRST_TURN: usize = 4 << 20;

/// Where lines come from.
enum Source {
    Trace(Listener, Formatter<Event>),
    Logs(broadcast::Receiver<Arc<Line>>, Formatter<Line>, VecDeque<Arc<Line>>),
    Events(EventListener),
}

/// One step of a source.
enum Step {
    Line(String),
    Lost(u64),
    /// Something that is not wanted.
    Skip,
    /// Nothing more now.
    Empty,
}

fn form<T>(formatter: &Formatter<T>, item: &T) -> Step {
    formatter(item).map_or(Step::Skip, |value: Value| Step::Line(format!("{value}\n")))
}

/// What is there already. The runtime makes a task pause after some 100 receptions, which would look like the end.
fn now<T>(next: impl Future<Output = T>) -> Option<T> {
    tokio::task::unconstrained(next).now_or_never()
}

impl Source {
    fn step(&mut self) -> Step {
        match self {
            Source::Trace(listener, formatter) => match now(listener.next()) {
                Some(Some(Ok(event))) => form(formatter, &event),
                Some(Some(Err(lost))) => Step::Lost(lost),
                Some(None) | None => Step::Empty,
            },
            Source::Logs(live, formatter, before) => match before.pop_front() {
                Some(line) => form(formatter, &line),
                None => match live.try_recv() {
                    Ok(line) => form(formatter, &line),
                    Err(broadcast::error::TryRecvError::Lagged(lost)) => Step::Lost(lost),
                    Err(_) => Step::Empty,
                },
            },
            Source::Events(listener) => match now(listener.next_line()).flatten() {
                Some(line) => Step::Line(String::from_utf8_lossy(&line).into_owned()),
                None => Step::Empty,
            },
        }
    }

    /// What happened since the last turn.
    fn turn(&mut self, limit: usize) -> Turn {
        let mut turn = Turn::default();
        loop {
            match self.step() {
                Step::Line(line) => turn.lines.push_str(&line),
                Step::Lost(lost) => turn.lost += lost,
                Step::Skip => {}
                Step::Empty => return turn,
            }
            if turn.lines.len() >= limit {
                return Turn { more: true, ..turn };
            }
        }
    }
}

struct Session {
    source: Source,
    /// The last turn, and what was answered.
    number: u64,
    answered: Turn,
    asked: Instant,
}

/// The sessions of all nodes that follow this one.
#[derive(Default)]
pub struct Sessions(Mutex<HashMap<(u16, u64), Session>>);

impl Sessions {
    /// Answers node `from`, which calls its session `id`. `source` makes a new one.
    fn answer(
        self: &Arc<Self>,
        (from, id): (u16, u64),
        number: u64,
        source: impl FnOnce() -> Result<Source, String>,
    ) -> Result<Turn, String> {
        let mut sessions = self.0.lock();
        if let Some(session) = sessions.get_mut(&(from, id)) {
            session.asked = Instant::now();
            if session.number != number {
                session.answered = session.source.turn(TURN);
                session.number = number;
            }
            return Ok(session.answered.clone());
        }
        if sessions.keys().filter(|(node, _)| *node == from).count() >= SESSIONS {
            return Err(format!("too many of node {from} follow this node"));
        }
        let mut source = source()?;
        let answered = Turn { began: true, ..source.turn(FIRST_TURN) };
        if sessions.is_empty() {
            ashlar_environment::spawn("follow", end_idle(Arc::downgrade(self)));
        }
        let asked = Instant::now();
        sessions.insert((from, id), Session { source, number, answered: answered.clone(), asked });
        Ok(answered)
    }

    /// Ends sessions that nobody asks about. Returns whether some are left.
    fn end_idle(&self) -> bool {
        let mut sessions = self.0.lock();
        sessions.retain(|_, session| session.asked.elapsed() < IDLE);
        !sessions.is_empty()
    }
}

async fn end_idle(sessions: Weak<Sessions>) {
    loop {
        time::sleep(IDLE / 3).await;
        if !sessions.upgrade().is_some_and(|sessions| sessions.end_idle()) {
            return;
        }
    }
}

/// What lines come from, and how they are formatted at this node.
pub struct Here<'a> {
    /// The number of this node, if it has others beside it.
    pub node: Option<u16>,
    /// How this node is named in MinIO's lines.
    pub minio: MinioLines,
    /// The services.
    pub context: &'a Context,
    /// The trace.
    pub monitor: &'a monitor::Monitor,
}

impl Here<'_> {
    /// Answers node `from`.
    ///
    /// # Errors
    /// Too many sessions, or what is followed is not understood.
    pub fn answer(
        &self,
        sessions: &Arc<Sessions>,
        (from, id): (u16, u64),
        number: u64,
        mut what: Followed,
    ) -> Result<Turn, String> {
        // Those who were there before have the lines before.
        if let Followed::Logs { last, .. } | Followed::MinioLogs { last, .. } = &mut what
            && number > 0
        {
            *last = 0;
        }
        sessions.answer((from, id), number, || self.source(what))
    }

    fn source(&self, what: Followed) -> Result<Source, String> {
        let logs = |last, formatter| {
            let (before, live) = log_buffer::buffer().read(last);
            Source::Logs(live, formatter, before.into())
        };
        Ok(match what {
            Followed::Trace { filter, minio: false } => {
                Source::Trace(self.monitor.listen(), monitor::trace_formatter(filter, self.node))
            }
            Followed::Trace { filter, minio: true } => {
                Source::Trace(self.monitor.listen(), self.minio.clone().trace_formatter(filter))
            }
            Followed::Logs { last, level } => {
                logs(last, LogFilter { last, level, follow: true }.formatter(self.node))
            }
            Followed::MinioLogs { last, kind } => {
                logs(last, MinioLogs { lines: self.minio.clone(), kind }.formatter())
            }
            Followed::Events { bucket, prefix, suffix, events } => {
                let filter = Filter::new(bucket, prefix, suffix, events);
                let filter = filter.map_err(|event| format!("\"{event}\" is no event"))?;
                Source::Events(EventListener::new(self.context, filter))
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ashlar_s3::trace::Tracer;

    fn event(path: &str) -> Event {
        Event { path: path.to_owned(), ..Event::default() }
    }

    fn paths() -> Formatter<Event> {
        Box::new(|e: &Event| (e.path != "/skipped").then(|| Value::String(e.path.clone())))
    }

    #[tokio::test]
    async fn each_turn_has_what_happened_since_and_can_be_asked_for_again() {
        let (tracer, sessions) = (Arc::new(Tracer::default()), Arc::new(Sessions::default()));
        let ask =
            |number| sessions.answer((2, 7), number, || Ok(Source::Trace(tracer.listen(), paths()))).unwrap();
        assert_eq!(ask(0), Turn { began: true, ..Turn::default() });
        for path in ["/a", "/skipped", "/b"] {
            tracer.publish(event(path));
        }
        let both = Turn { lines: "\"/a\"\n\"/b\"\n".to_owned(), ..Turn::default() };
        assert_eq!(ask(1), both);
        tracer.publish(event("/c"));
        assert_eq!(ask(1), both, "the answer was lost");
        assert_eq!(ask(2).lines, "\"/c\"\n");
        assert_eq!(ask(3), Turn::default());
        // Another node, and another session, hear of it as well.
        let other = sessions.answer((3, 7), 5, || Ok(Source::Trace(tracer.listen(), paths()))).unwrap();
        assert!(other.began, "a session that ended begins again");
        // More than the queue has.
        for _ in 0..5000 {
            tracer.publish(event("/x"));
        }
        let turn = ask(4);
        assert_eq!((turn.lost, turn.lines.lines().count(), turn.more), (5000 - 4096, 4096, false));
        // Long lines are answered in several turns.
        for _ in 0..3 {
            tracer.publish(event(&"y".repeat(TURN)));
        }
        assert!(ask(5).more && ask(6).more && ask(7).more && !ask(8).more);
    }

    #[tokio::test]
    async fn idle_sessions_end_and_their_number_is_limited() {
        let (tracer, sessions) = (Arc::new(Tracer::default()), Arc::new(Sessions::default()));
        let begin = |id| sessions.answer((2, id), 0, || Ok(Source::Trace(tracer.listen(), paths())));
        for id in 0..SESSIONS as u64 {
            begin(id).unwrap();
        }
        assert!(begin(99_999).unwrap_err().contains("too many"));
        assert!(tracer.is_on() && sessions.end_idle());
        let old = Instant::now().checked_sub(IDLE).unwrap();
        sessions.0.lock().values_mut().for_each(|session| session.asked = old);
        assert!(!sessions.end_idle() && !tracer.is_on());
        assert!(begin(1).unwrap().began);
    }
}
