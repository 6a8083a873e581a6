//! A node that waits for a coordinator: `ashlar bench net --listen`.
//!
//! Invariants: one session at a time; the number of connections is bounded; a peer without the token gets
//! nothing; a session ends with its control connection.

use std::{
    io::BufReader,
    net::{TcpListener, TcpStream},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

use super::{
    node::{self, MOST_STREAMS, Session},
    wire::{self, Answer, Ask, LONG_LINE, Role, Token},
};
use crate::error::{Error, Result};

/// Most connections at a time.
const MOST_CONNECTIONS: usize = 2 * MOST_STREAMS;

/// What the connections of a listener share.
struct Shared {
    token: Token,
    session: Mutex<Option<Arc<Session>>>,
    connections: AtomicUsize,
}

impl Shared {
    fn session(&self) -> std::sync::MutexGuard<'_, Option<Arc<Session>>> {
        self.session.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

/// Serves coordinators until `stop` is set. `note` is called with each coordinator that connects or leaves.
///
/// # Errors
/// [`Error::Io`] when the listener fails.
pub fn listen(
    listener: &TcpListener,
    token: &Token,
    stop: &AtomicBool,
    note: impl Fn(&str) + Send + Sync + 'static,
) -> Result<()> {
    listener.set_nonblocking(true).map_err(Error::io("cannot listen"))?;
    let shared = Arc::new(Shared {
        token: token.clone(),
        session: Mutex::new(None),
        connections: AtomicUsize::new(0),
    });
    let note = Arc::new(note);
    while !stop.load(Ordering::Relaxed) {
        let stream = match listener.accept() {
            Ok((stream, _)) => stream,
            Err(_) => {
                // No connection yet, or a temporary error such as too many open files: try again soon.
                thread::sleep(Duration::from_millis(20));
                continue;
            }
        };
        if shared.connections.fetch_add(1, Ordering::SeqCst) >= MOST_CONNECTIONS {
            shared.connections.fetch_sub(1, Ordering::SeqCst);
            continue;
        }
        let (shared, note) = (shared.clone(), note.clone());
        let counted = shared.clone();
        let started = thread::Builder::new().stack_size(256 << 10).spawn(move || {
            if let Err(error) = serve(stream, &shared, &*note) {
                note(&error.to_string());
            }
            shared.connections.fetch_sub(1, Ordering::SeqCst);
        });
        if started.is_err() {
            counted.connections.fetch_sub(1, Ordering::SeqCst);
        }
    }
    if let Some(session) = shared.session().take() {
        session.end();
    }
    Ok(())
}

fn serve(mut stream: TcpStream, shared: &Shared, note: &dyn Fn(&str)) -> Result<()> {
    stream.set_nonblocking(false).map_err(Error::io("cannot accept"))?;
    match wire::accept(&mut stream, &shared.token)? {
        Role::Ping => {
            node::echo(&mut stream);
            Ok(())
        }
        Role::Stream { session, from, to: _, sends } => {
            let joined = shared.session().clone().filter(|s| s.id == session);
            let joined =
                joined.ok_or_else(|| Error::setup(format!("{from}: a stream of an unknown session")))?;
            // The dialling side sends: this one receives.
            joined.stream(stream, !sends, &from)
        }
        Role::Control => control(stream, shared, note),
    }
}

fn control(stream: TcpStream, shared: &Shared, note: &dyn Fn(&str)) -> Result<()> {
    let peer = stream.peer_addr().map_or_else(|_| "a coordinator".to_owned(), |a| a.to_string());
    let failed = |e: std::io::Error| Error::setup(format!("{peer}: {e}"));
    let mut answers = stream.try_clone().map_err(failed)?;
    let mut asks = BufReader::new(stream);
    let mut own: Option<Arc<Session>> = None;
    let outcome = loop {
        let ask: Ask = match wire::receive(&mut asks, LONG_LINE) {
            Ok(ask) => ask,
            Err(e) if e.kind() == std::io::ErrorKind::UnexpectedEof => break Ok(()),
            Err(e) => break Err(failed(e)),
        };
        let done = match (ask, &own) {
            (Ask::Join { session, name, shape }, None) => join(shared, session, &name, shape).map(|s| {
                note(&format!("{peer}: a session of {} s", shape.warmup_s + shape.duration_s));
                own = Some(s);
            }),
            (Ask::Dial { targets }, Some(session)) => session.dial(&targets),
            (Ask::Go, Some(session)) => {
                session.go();
                if let Err(e) = wire::send(&mut answers, &Answer::Ok) {
                    break Err(failed(e));
                }
                let report = session.report(|| alive(asks.get_ref()));
                let sent = report.and_then(|r| wire::send(&mut answers, &Answer::Report(r)).map_err(failed));
                break sent;
            }
            _ => Err(Error::setup("asked out of order")),
        };
        let answer = match done {
            Ok(()) => Answer::Ok,
            Err(error) => Answer::Error { text: error.to_string() },
        };
        if let Err(e) = wire::send(&mut answers, &answer) {
            break Err(failed(e));
        }
    };
    if let Some(session) = own {
        session.end();
        *shared.session() = None;
    }
    outcome
}

fn join(shared: &Shared, id: u64, name: &str, shape: wire::Shape) -> Result<Arc<Session>> {
    let mut current = shared.session();
    if current.is_some() {
        return Err(Error::setup("this node is taking part in another session"));
    }
    let session = Session::join(id, name, shape, &shared.token)?;
    *current = Some(session.clone());
    Ok(session)
}

/// Whether the coordinator still holds its connection: it sends nothing while it waits.
fn alive(stream: &TcpStream) -> bool {
    if stream.set_nonblocking(true).is_err() {
        return false;
    }
    let mut byte = [0];
    let peeked = stream.peek(&mut byte);
    let blocking = stream.set_nonblocking(false).is_ok();
    blocking
        && !matches!(peeked, Ok(0))
        && !matches!(&peeked, Err(e) if e.kind() != std::io::ErrorKind::WouldBlock)
}
