//! The server: accepts connections, lets nodes of the cluster in, and serves them.
//!
//! Invariants: the number of connections that have not authenticated is bounded, and so is their time; a new
//! one takes the place of the oldest, so that idle ones cannot keep nodes out. The connections of one node are
//! bounded too. When the credentials change, and once a minute, every connection's certificate is verified
//! again. Dropping the endpoint ends all of its tasks.
//!
//! Must not depend on: what methods mean.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use ashlar_environment::task::JoinHandle;
use ashlar_environment::time::{Instant, sleep, timeout};
use ashlar_environment::{HashMap, net};
use futures::future::BoxFuture;
use parking_lot::Mutex;
use rustls_pki_types::CertificateDer;
use tokio::net::{TcpListener, TcpStream};
use webpki::KeyUsage;

use crate::driver::Driver;
use crate::error::{Error, Result};
use crate::handshake::{Open, accept};
use crate::limits::Transport;
use crate::serve::{Grant, Serving, Shared};
use crate::service::{Caller, Service};

/// Certificates are verified again this often.
const VERIFY: Duration = Duration::from_secs(60);
/// Pause after an error of accepting, for instance when no more files can be open.
const PAUSE: Duration = Duration::from_millis(50);
/// How often a shutdown looks whether connections are left.
const LOOK: Duration = Duration::from_millis(5);

struct Session {
    caller: Caller,
    certificate: Option<CertificateDer<'static>>,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Table {
    /// No more connections.
    closed: bool,
    /// Tasks of connections; none while one is being started.
    tasks: HashMap<u64, Option<JoinHandle<()>>>,
    /// Connections that have not authenticated; their numbers increase with time.
    unauthenticated: BTreeSet<u64>,
    sessions: BTreeMap<u64, Session>,
}

struct Inner {
    transport: Arc<Transport>,
    service: Arc<dyn Service>,
    numbers: AtomicU64,
    table: Mutex<Table>,
}

/// A listening node.
pub struct Endpoint {
    inner: Arc<Inner>,
    address: SocketAddr,
    tasks: Vec<JoinHandle<()>>,
}

impl Endpoint {
    /// Listens at an address (`HOST:PORT`; port 0 for any free one) and serves.
    ///
    /// # Errors
    /// [`Error::Listen`].
    pub fn bind<'a>(
        transport: Arc<Transport>,
        address: &'a str,
        service: Arc<dyn Service>,
    ) -> BoxFuture<'a, Result<Endpoint>> {
        Box::pin(async move {
            let listen = |e: std::io::Error| Error::Listen(format!("{address}: {e}"));
            let listener = net::bind(address).await.map_err(listen)?;
            let bound = listener.local_addr().map_err(listen)?;
            let inner =
                Arc::new(Inner { transport, service, numbers: AtomicU64::new(1), table: Mutex::default() });
            let accepting = ashlar_environment::spawn("rpc accept", accept_all(inner.clone(), listener));
            let verifying = ashlar_environment::spawn("rpc verify", verify_all(inner.clone()));
            Ok(Endpoint { inner, address: bound, tasks: vec![accepting, verifying] })
        })
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Authenticated connections.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.inner.table.lock().sessions.len()
    }

    /// Connections that have not authenticated.
    #[must_use]
    pub fn unauthenticated(&self) -> usize {
        self.inner.table.lock().unauthenticated.len()
    }

    /// Accepts no more connections and requests, and waits until those in flight are answered, but not longer
    /// than `limit`.
    pub fn shutdown(self, limit: Duration) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            for task in &self.tasks {
                task.abort();
            }
            let until = Instant::now() + limit;
            {
                let mut table = self.inner.table.lock();
                table.closed = true;
                for session in table.sessions.values() {
                    session.shared.retire();
                }
            }
            while self.connections() > 0 && Instant::now() < until {
                sleep(LOOK).await;
            }
        })
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
        let tasks = {
            let mut table = self.inner.table.lock();
            table.closed = true;
            std::mem::take(&mut table.tasks)
        };
        for task in tasks.into_values().flatten() {
            task.abort();
        }
    }
}

impl std::fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Endpoint({:?} at {})", self.inner.transport, self.address)
    }
}

async fn accept_all(inner: Arc<Inner>, listener: TcpListener) {
    loop {
        match listener.accept().await {
            Ok((tcp, _)) => inner.start(tcp),
            Err(e) => {
                tracing::warn!(error = %e, "a connection between nodes was not accepted");
                sleep(PAUSE).await;
            }
        }
    }
}

async fn verify_all(inner: Arc<Inner>) {
    let Some(credentials) = inner.transport.credentials().cloned() else { return };
    let mut changes = credentials.changes();
    loop {
        // Whether the time passed or something changed, the same is done.
        let _ = timeout(VERIFY, changes.changed()).await;
        for session in inner.table.lock().sessions.values() {
            let Some(certificate) = &session.certificate else { continue };
            if let Err(why) = credentials.verify(certificate, KeyUsage::client_auth()) {
                tracing::warn!(node = session.caller.node, error = %why, "a connection of a node is closed");
                session.shared.kill(why);
            }
        }
    }
}

impl Inner {
    /// Serves a connection in a task of its own.
    fn start(self: &Arc<Self>, tcp: TcpStream) {
        let number = self.numbers.fetch_add(1, Ordering::Relaxed);
        {
            let mut table = self.table.lock();
            if table.closed {
                return;
            }
            if table.unauthenticated.len() >= self.transport.limits.unauthenticated
                && let Some(oldest) = table.unauthenticated.pop_first()
                && let Some(Some(task)) = table.tasks.remove(&oldest)
            {
                task.abort();
            }
            table.unauthenticated.insert(number);
            table.tasks.insert(number, None);
        }
        let (me, over) = (self.clone(), Over { inner: Arc::downgrade(self), number });
        let task = ashlar_environment::spawn("rpc connection", async move {
            if let Err(why) = me.serve(tcp, number).await {
                tracing::debug!(error = %why, "a connection between nodes ended");
            }
            drop(over);
        });
        match self.table.lock().tasks.get_mut(&number) {
            Some(place) => *place = Some(task),
            // It ended already, gave way to another one, or the endpoint was dropped.
            None => task.abort(),
        }
    }

    async fn serve(self: &Arc<Self>, tcp: TcpStream, number: u64) -> Result<()> {
        ashlar_machine::tune_socket(&tcp).map_err(Error::unreachable)?;
        let limit = self.transport.limits.handshake;
        let accepted = timeout(limit, accept(&self.transport, tcp)).await;
        let (node, open) =
            accepted.unwrap_or_else(|_| Err(Error::unreachable("no handshake within the time limit")))?;
        let Open { stream, inbound, remote, version, certificate } = open;
        let caller = Caller {
            node,
            incarnation: remote.incarnation,
            connection: number,
            feature_level: remote.feature_level,
        };
        let shared = Arc::<Shared>::default();
        self.enter(Session { caller, certificate, shared: shared.clone() })?;
        let limits = &self.transport.limits;
        let window = match remote.purpose {
            crate::hello::Purpose::Small => limits.small_window,
            crate::hello::Purpose::Bulk => limits.bulk_window,
        };
        let grant = Grant { version, purpose: remote.purpose, window, requests: limits.requests };
        let me = Arc::downgrade(self);
        let on_end = Box::new(move |_: &Error| {
            if let Some(me) = me.upgrade() {
                me.leave(&caller);
            }
        });
        let (service, pool) = (self.service.clone(), self.transport.requests.clone());
        let role = Serving::new(caller, service, shared, pool, grant, on_end);
        Err(Driver::new(stream, inbound, role).await)
    }

    /// Notes an authenticated connection.
    fn enter(&self, session: Session) -> Result<()> {
        let mut table = self.table.lock();
        let number = session.caller.connection;
        // Otherwise it gave way to another one.
        if !table.unauthenticated.remove(&number) || table.closed {
            return Err(Error::unreachable("closed"));
        }
        let node = session.caller.node;
        let of_node = || table.sessions.iter().filter(|(_, s)| s.caller.node == node);
        if of_node().count() >= self.transport.limits.connections_per_peer
            && let Some((_, oldest)) = of_node().next()
        {
            oldest.shared.kill(Error::unreachable("the node has newer connections"));
        }
        table.sessions.insert(number, session);
        Ok(())
    }

    /// Notes that an authenticated connection ended.
    fn leave(&self, caller: &Caller) {
        let remaining = {
            let mut table = self.table.lock();
            table.sessions.remove(&caller.connection);
            let same =
                |s: &&Session| (s.caller.node, s.caller.incarnation) == (caller.node, caller.incarnation);
            table.sessions.values().filter(same).count()
        };
        let told = AssertUnwindSafe(|| self.service.disconnected(caller, remaining));
        if std::panic::catch_unwind(told).is_err() {
            tracing::error!(node = caller.node, "the service failed when a connection ended");
        }
    }
}

/// Removes a task from the table when it ends, also by being aborted.
struct Over {
    inner: Weak<Inner>,
    number: u64,
}

impl Drop for Over {
    fn drop(&mut self) {
        let Some(inner) = self.inner.upgrade() else { return };
        let mut table = inner.table.lock();
        table.unauthenticated.remove(&self.number);
        // Dropping the handle does not end the task.
        table.tasks.remove(&self.number);
    }
}
