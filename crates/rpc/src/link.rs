//! One connection to a peer that is made when it is needed, and made again when it ends.
//!
//! Invariants: at most one attempt at a time; after a failure the next waits, longer each time, with a random
//! part, so that many nodes do not dial a restarted one at once. From the first failure until there is a
//! connection again, calls fail at once with the reason. A connection that is replaced ends when its calls have their answers. Dropping the link's task
//! ends its connections.
//!
//! Must not depend on: requests.

use std::sync::Arc;
use std::time::Duration;

use ashlar_environment::task::JoinHandle;
use ashlar_environment::time::{Instant, sleep, sleep_until, timeout, timeout_at};
use ashlar_environment::{net, random};
use parking_lot::Mutex;
use rustls_pki_types::CertificateDer;
use tokio::sync::{Notify, watch};
use webpki::KeyUsage;

use crate::connection::{Calling, Connection};
use crate::driver::Driver;
use crate::error::{Error, Result, Unsent};
use crate::handshake::{Open, dial};
use crate::hello::Purpose;
use crate::limits::Transport;
use crate::statistics::RoundTrips;

/// A connection that ends sooner than this counts as a failed attempt.
const SHORT: Duration = Duration::from_secs(1);

#[derive(Clone)]
enum State {
    /// Not needed so far.
    Idle,
    /// An attempt is under way.
    Connecting,
    /// There is one.
    Up(Arc<Connection>),
    /// The last attempt failed, and the next one waits or is under way.
    Failed(Error),
}

/// What a link connects to.
pub(crate) struct Target {
    pub(crate) transport: Arc<Transport>,
    pub(crate) node: u16,
    pub(crate) address: Arc<Mutex<String>>,
    pub(crate) purpose: Purpose,
    pub(crate) trips: Arc<RoundTrips>,
}

/// A task that ends with its owner.
struct Task(JoinHandle<()>);

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// A connection that was just made.
struct Made {
    connection: Arc<Connection>,
    task: Task,
    /// The certificate with which this node authenticated.
    own: Option<CertificateDer<'static>>,
}

/// A connection to a peer.
pub(crate) struct Link {
    state: watch::Receiver<State>,
    demand: Arc<Notify>,
    _task: Task,
}

impl Link {
    pub(crate) fn new(target: Target) -> Link {
        let (states, state) = watch::channel(State::Idle);
        let demand = Arc::new(Notify::new());
        let worker = Worker { target, states, demand: demand.clone(), retiring: Vec::new() };
        let task = Task(ashlar_environment::spawn("rpc link", worker.run()));
        Link { state, demand, _task: task }
    }

    /// The open connection, if there is one now.
    pub(crate) fn current(&self) -> Option<Arc<Connection>> {
        match &*self.state.borrow() {
            State::Up(connection) if connection.is_open() => Some(connection.clone()),
            _ => None,
        }
    }

    /// Whether the last attempt failed and no connection was made since: calls fail at once.
    pub(crate) fn has_failed(&self) -> bool {
        matches!(&*self.state.borrow(), State::Failed(_))
    }

    /// Asks for a connection without waiting for it.
    pub(crate) fn want(&self) {
        self.demand.notify_one();
    }

    /// An open connection before the deadline.
    pub(crate) async fn connection(&self, deadline: Instant) -> Result<Arc<Connection>> {
        let mut state = self.state.clone();
        loop {
            match &*state.borrow_and_update() {
                State::Up(connection) if connection.is_open() => return Ok(connection.clone()),
                State::Failed(why) => return Err(why.clone()),
                State::Idle | State::Connecting | State::Up(_) => {}
            }
            self.want();
            match timeout_at(deadline, state.changed()).await {
                Ok(Ok(())) => {}
                Ok(Err(_)) => return Err(Error::NotSent(Unsent::Closed)),
                Err(_) => return Err(Error::unreachable("not connected before the deadline")),
            }
        }
    }
}

struct Worker {
    target: Target,
    states: watch::Sender<State>,
    demand: Arc<Notify>,
    /// Connections that were replaced, until their calls are over.
    retiring: Vec<Task>,
}

impl Worker {
    async fn run(mut self) {
        let mut failures = 0;
        let mut used = false;
        loop {
            // A connection for small messages is kept once it was needed: its pings tell whether the peer
            // lives.
            if !(used && self.target.purpose == Purpose::Small) {
                self.states.send_replace(State::Idle);
                self.demand.notified().await;
                used = true;
            }
            // After a failure, calls keep failing at once: they are not made to wait for a node that does not answer.
            if failures == 0 {
                self.states.send_replace(State::Connecting);
            }
            let began = Instant::now();
            let failed = match self.target.connect().await {
                Ok(made) => {
                    self.hold(made).await;
                    (began.elapsed() < SHORT)
                        .then(|| Error::unreachable("the connection ended soon after its start"))
                }
                Err(why) => Some(why),
            };
            match failed {
                None => failures = 0,
                Some(why) => {
                    tracing::debug!(node = self.target.node, error = %why, "no connection to a node");
                    self.states.send_replace(State::Failed(why));
                    sleep(self.target.pause(failures)).await;
                    failures += 1;
                }
            }
        }
    }

    /// Keeps a connection until it ends, and replaces it when it is due.
    async fn hold(&mut self, mut made: Made) {
        let transport = self.target.transport.clone();
        let mut changes = transport.credentials().map(|c| c.changes());
        let mut renew = Instant::now() + self.target.lifetime();
        let mut failures = 0;
        self.states.send_replace(State::Up(made.connection.clone()));
        // The credentials may have changed before changes were watched.
        let mut look = true;
        loop {
            if std::mem::take(&mut look) {
                if let Err(why) = self.target.verify(&made.connection) {
                    made.connection.kill(why);
                } else if self.target.own_certificate() != made.own {
                    renew = Instant::now();
                }
            }
            tokio::select! {
                biased;
                () = made.connection.retired() => {
                    self.leave(made.task);
                    return;
                }
                () = changed(&mut changes) => {
                    look = true;
                    continue;
                }
                () = sleep_until(renew) => {}
            }
            match self.target.connect().await {
                Ok(next) => {
                    self.states.send_replace(State::Up(next.connection.clone()));
                    made.connection.retire();
                    self.leave(std::mem::replace(&mut made, next).task);
                    renew = Instant::now() + self.target.lifetime();
                    (failures, look) = (0, true);
                }
                Err(why) => {
                    tracing::debug!(node = self.target.node, error = %why, "a connection is not renewed yet");
                    renew = Instant::now() + self.target.pause(failures);
                    failures += 1;
                }
            }
        }
    }

    /// Lets a connection end by itself.
    fn leave(&mut self, task: Task) {
        self.retiring.retain(|task| !task.0.is_finished());
        self.retiring.push(task);
    }
}

async fn changed(changes: &mut Option<watch::Receiver<u64>>) {
    let is_change = match changes {
        Some(changes) => changes.changed().await.is_ok(),
        None => false,
    };
    if !is_change {
        std::future::pending().await
    }
}

impl Target {
    async fn connect(&self) -> Result<Made> {
        let own = self.own_certificate();
        let limits = &self.transport.limits;
        let open = timeout(limits.handshake, self.open()).await;
        let open = open.unwrap_or_else(|_| Err(Error::unreachable("no connection within the time limit")))?;
        let Open { stream, inbound, remote, version, certificate } = open;
        let connection = Connection::new(remote, version, certificate, self.trips.clone());
        // Withdrawn during the handshake?
        self.verify(&connection)?;
        let role = Calling {
            connection: connection.clone(),
            purpose: self.purpose,
            pool: self.transport.answers.clone(),
            ping: limits.ping,
            silence: limits.silence,
        };
        let (driver, node) = (Driver::new(stream, inbound, role), self.node);
        let task = ashlar_environment::spawn("rpc connection", async move {
            let why = driver.await;
            tracing::debug!(node, error = %why, "a connection to a node ended");
        });
        Ok(Made { connection, task: Task(task), own })
    }

    async fn open(&self) -> Result<Open> {
        let address = self.address.lock().clone();
        let tcp = net::connect(address.as_str())
            .await
            .map_err(|e| Error::unreachable(format_args!("{address}: {e}")))?;
        ashlar_machine::tune_socket(&tcp).map_err(Error::unreachable)?;
        dial(&self.transport, tcp, self.node, self.purpose).await
    }

    /// Whether the peer's certificate is still trusted.
    fn verify(&self, connection: &Connection) -> Result<()> {
        match (self.transport.credentials(), &connection.certificate) {
            (Some(credentials), Some(certificate)) => {
                credentials.verify(certificate, KeyUsage::server_auth()).map(drop)
            }
            _ => Ok(()),
        }
    }

    fn own_certificate(&self) -> Option<CertificateDer<'static>> {
        self.transport.credentials()?.identity().certificate().cloned()
    }

    /// The wait after a number of failures in a row: between half of a doubling time and all of it.
    fn pause(&self, failures: u32) -> Duration {
        let (first, longest) = self.transport.limits.retry;
        let time = first.saturating_mul(1 << failures.min(16)).min(longest);
        time / 2 + spread(time / 2)
    }

    /// The time after which a connection is replaced, with a random part.
    fn lifetime(&self) -> Duration {
        let time = self.transport.limits.renew_after;
        time - spread(time / 4)
    }
}

/// A random time of up to `time`.
fn spread(time: Duration) -> Duration {
    // Without random bytes nothing is spread.
    let random = random::u64().unwrap_or(0) >> 32;
    time.mul_f64(random as f64 / f64::from(u32::MAX))
}
