//! The agent: waits for a coordinator and runs its jobs, one coordinator at a time.
//!
//! Invariants: the coordinator must prove the token before any job; if the connection to the coordinator is
//! lost, the phase ends and written objects are removed.

use std::{
    io,
    net::{SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    thread,
    time::{Duration, Instant},
};

use parking_lot::Mutex;

use super::{Message, PROTOCOL, SILENCE, frame, proof, random_text};
use crate::{
    Error, Result,
    load::{Console, Delta, Job, Offer, Reason, Runner, Session, Snapshot, Stop, facts},
};

/// An agent's socket.
pub struct Listener {
    socket: TcpListener,
    token: String,
}

impl Listener {
    /// Listens on `address`.
    ///
    /// # Errors
    /// The socket's.
    pub fn bind(address: &str, token: &str) -> Result<Listener> {
        let socket = TcpListener::bind(address).map_err(Error::io(format!("cannot listen on {address}")))?;
        Ok(Listener { socket, token: token.into() })
    }

    /// The address at which it listens.
    ///
    /// # Errors
    /// The socket's.
    pub fn address(&self) -> Result<SocketAddr> {
        self.socket.local_addr().map_err(Error::io("the agent's address"))
    }
}

/// Serves coordinators until `end` is set; `say` gets a line per event.
///
/// # Errors
/// The socket's.
pub fn serve(listener: &Listener, end: &AtomicBool, say: &mut dyn FnMut(&str)) -> Result<()> {
    listener.socket.set_nonblocking(true).map_err(Error::io("the agent's socket"))?;
    while !end.load(Ordering::Relaxed) {
        match listener.socket.accept() {
            Ok((socket, from)) => {
                say(&format!("coordinator {from}"));
                let ended = socket
                    .set_nonblocking(false)
                    .and_then(|()| one(socket, &listener.token, end, say).map_err(io::Error::other));
                match ended {
                    Ok(()) => say("coordinator has finished"),
                    Err(error) => say(&format!("coordinator {from}: {error}")),
                }
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                thread::sleep(Duration::from_millis(50))
            }
            Err(error) => return Err(Error::Io { what: "the agent's socket".into(), source: error }),
        }
    }
    Ok(())
}

/// Says that the agent is alive while it prepares.
struct Beat {
    out: Arc<Mutex<TcpStream>>,
    said: Instant,
}

impl Console for Beat {
    fn begin(&mut self, _: &str, _: u64) {}
    fn progress(&mut self, done: u64) {
        if self.said.elapsed() > Duration::from_secs(1) {
            self.said = Instant::now();
            let _ = frame::write(&mut *self.out.lock(), &Message::Alive { done });
        }
    }
    fn end(&mut self) {}
    fn note(&mut self, _: &str) {}
    fn snapshot(&mut self, _: &Snapshot) {}
}

fn one(
    mut socket: TcpStream,
    token: &str,
    end: &AtomicBool,
    say: &mut dyn FnMut(&str),
) -> Result<(), String> {
    let text = |e: io::Error| e.to_string();
    socket.set_nodelay(true).map_err(text)?;
    socket.set_read_timeout(Some(Duration::from_secs(10))).map_err(text)?;
    socket.set_write_timeout(Some(SILENCE)).map_err(text)?;
    let challenge = random_text().map_err(|e| e.to_string())?;
    let version = env!("CARGO_PKG_VERSION").to_owned();
    let hello = Message::Hello { protocol: PROTOCOL, version, challenge: challenge.clone() };
    frame::write(&mut socket, &hello).map_err(text)?;
    let answer = match frame::read(&mut socket).map_err(text)? {
        Message::Prove { protocol, .. } if protocol != PROTOCOL => {
            return Err(format!(
                "speaks version {protocol} of the protocol, this agent speaks version {PROTOCOL}"
            ));
        }
        Message::Prove { proof: given, challenge: theirs, .. } => {
            let wanted = proof(token, "coordinator", &challenge);
            if !ashlar_checksum::ct_eq(wanted.as_bytes(), given.as_bytes()) {
                let _ = frame::write(&mut socket, &Message::Failed { text: "wrong token".into() });
                return Err("wrong token".into());
            }
            Message::Welcome { proof: proof(token, "agent", &theirs), facts: facts() }
        }
        _ => return Err("the first message must be a proof".into()),
    };
    frame::write(&mut socket, &answer).map_err(text)?;
    // Between messages a coordinator may wait for other agents for as long as it likes.
    socket.set_read_timeout(None).map_err(text)?;
    let out = Arc::new(Mutex::new(socket.try_clone().map_err(text)?));
    let stop = Arc::new(AtomicBool::new(false));
    let (sender, inbox) = mpsc::sync_channel(16);
    let reader = {
        let (mut socket, stop) = (socket.try_clone().map_err(text)?, stop.clone());
        thread::spawn(move || {
            loop {
                match frame::read(&mut socket) {
                    Ok(Message::Stop) => stop.store(true, Ordering::Relaxed),
                    Ok(message) => {
                        // In the order of arrival, so that a stop of the phase before does not count.
                        if matches!(message, Message::Start { .. }) {
                            stop.store(false, Ordering::Relaxed);
                        }
                        if sender.send(message).is_err() {
                            break;
                        }
                    }
                    Err(_) => {
                        // Gone: end the phase.
                        stop.store(true, Ordering::Relaxed);
                        break;
                    }
                }
            }
        })
    };
    let mut session = None;
    let outcome = jobs(&inbox, &out, &stop, end, &mut session, say);
    if let Some(mut session) = session {
        // The coordinator went away without having it cleaned.
        say("cleaning up");
        let _ = session.clean(&mut crate::load::Silent);
    }
    let _ = socket.shutdown(std::net::Shutdown::Both);
    let _ = reader.join();
    outcome
}

fn jobs(
    inbox: &mpsc::Receiver<Message>,
    out: &Arc<Mutex<TcpStream>>,
    stop: &AtomicBool,
    end: &AtomicBool,
    session: &mut Option<Session>,
    say: &mut dyn FnMut(&str),
) -> Result<(), String> {
    let send = |message: &Message| frame::write(&mut *out.lock(), message).map_err(|e| e.to_string());
    let fail = |error: Error| {
        let _ = send(&Message::Failed { text: error.to_string() });
        error.to_string()
    };
    let mut beat = Beat { out: out.clone(), said: Instant::now() };
    loop {
        let message = match inbox.recv_timeout(Duration::from_millis(200)) {
            Ok(message) => message,
            Err(mpsc::RecvTimeoutError::Timeout) if end.load(Ordering::Relaxed) => return Ok(()),
            Err(mpsc::RecvTimeoutError::Timeout) => continue,
            Err(mpsc::RecvTimeoutError::Disconnected) => return Ok(()),
        };
        match message {
            Message::Job(job) => {
                say(&format!("{}: preparing", job.mode.name()));
                let begun = begin(*job, &mut beat, stop, session);
                begun.map_err(fail)?;
                send(&Message::Ready)?;
            }
            Message::Start { offer, stop: when } => {
                let session = session.as_mut().ok_or("a start without a job")?;
                say("measuring");
                let message = phase(session, &offer, &when, stop, out).map_err(fail)?;
                send(&message)?;
            }
            Message::Clean => {
                if let Some(mut session) = session.take() {
                    say("cleaning up");
                    session.clean(&mut beat).map_err(fail)?;
                }
                send(&Message::Cleaned)?;
            }
            _ => return Err("an unexpected message".into()),
        }
    }
}

fn begin(job: Job, beat: &mut Beat, stop: &AtomicBool, session: &mut Option<Session>) -> Result<()> {
    let session = session.insert(Session::new(job)?);
    session.prepare(beat, stop)
}

fn phase(
    session: &mut Session,
    offer: &Offer,
    when: &Stop,
    stop: &AtomicBool,
    out: &Arc<Mutex<TcpStream>>,
) -> Result<Message> {
    let mut gone = false;
    let ended = session.run(offer, when, stop, &mut |_, delta: Delta| {
        // An empty one too: it shows that the agent is alive.
        gone |= frame::write(&mut *out.lock(), &Message::Delta(Box::new(delta))).is_err();
        gone.then_some(Reason::Interrupted)
    })?;
    Ok(Message::Done {
        reason: ended.reason,
        seconds: ended.seconds,
        unsent: ended.unsent,
        stalls: ended.stalls.first().map(|s| s.1),
    })
}
