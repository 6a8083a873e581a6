//! All devices: a socket for each export, for as long as it is there.
//!
//! Invariants: an export has a socket at most [`FOLLOW`] and a start of a thread after it appeared, and none that long after it is gone; a
//! socket that cannot be made does not keep others from being made.
//!
//! Must not depend on: connections, requests.

use std::collections::BTreeMap;
use std::io;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use ashlar_environment::thread;
use ashlar_nbd::Exports;
use parking_lot::{Condvar, Mutex};

use crate::request::Counters;
use crate::socket::Socket;

/// Time between looks at the list of exports.
const FOLLOW: Duration = Duration::from_millis(500);

/// Why a server could not start.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The folder cannot be used: name another one.
    #[error("{path}: {error}")]
    Folder {
        /// The folder.
        path: PathBuf,
        /// The error of the system.
        error: io::Error,
    },
    /// A socket cannot be made: another program has it, or its path is too long.
    #[error("cannot listen at {path}: {error}")]
    Listen {
        /// The socket.
        path: PathBuf,
        /// The error of the system.
        error: io::Error,
    },
}

/// What a server has counted since it was started.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Statistics {
    /// Hypervisors that are connected.
    pub connections: u64,
    /// Read requests.
    pub reads: u64,
    /// Write requests.
    pub writes: u64,
    /// Other requests.
    pub others: u64,
    /// Bytes of reads that were executed.
    pub bytes_read: u64,
    /// Bytes of writes that were executed.
    pub bytes_written: u64,
    /// Requests that were answered with an error.
    pub errors: u64,
}

struct Shared {
    folder: PathBuf,
    mode: u32,
    exports: Arc<dyn Exports>,
    counters: Arc<Counters>,
    sockets: Mutex<BTreeMap<String, Socket>>,
    stopping: Mutex<bool>,
    wake: Condvar,
}

/// A server in operation.
pub struct Server {
    shared: Arc<Shared>,
    thread: Mutex<Option<thread::JoinHandle<()>>>,
}

impl Server {
    /// Serves each export at `FOLDER/NAME.sock`, with `mode` as file mode, until [`Server::stop`]. A name with `/` is a path below
    /// the folder.
    ///
    /// # Errors
    /// [`Error`]; then nothing is served. An export that appears later and has no socket is reported in the log.
    pub fn start(folder: &Path, mode: u32, exports: Arc<dyn Exports>) -> Result<Server, Error> {
        std::fs::create_dir_all(folder).map_err(|error| Error::Folder { path: folder.to_owned(), error })?;
        let shared = Arc::new(Shared {
            folder: folder.to_owned(),
            mode,
            exports,
            counters: Arc::default(),
            sockets: Mutex::default(),
            stopping: Mutex::new(false),
            wake: Condvar::new(),
        });
        let server = Server { shared: shared.clone(), thread: Mutex::default() };
        if let Some(error) = shared.follow().into_iter().next() {
            server.stop();
            return Err(error);
        }
        let mine = shared.clone();
        match thread::start("vhost-user", None, move || mine.run()) {
            Ok(thread) => *server.thread.lock() = Some(thread),
            Err(error) => {
                server.stop();
                return Err(Error::Folder { path: folder.to_owned(), error });
            }
        }
        Ok(server)
    }

    /// The folder of the sockets.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.shared.folder
    }

    /// What was counted.
    #[must_use]
    pub fn statistics(&self) -> Statistics {
        let c = &self.shared.counters;
        Statistics {
            connections: c.connections.load(Ordering::Relaxed),
            reads: c.reads.load(Ordering::Relaxed),
            writes: c.writes.load(Ordering::Relaxed),
            others: c.others.load(Ordering::Relaxed),
            bytes_read: c.bytes_read.load(Ordering::Relaxed),
            bytes_written: c.bytes_written.load(Ordering::Relaxed),
            errors: c.errors.load(Ordering::Relaxed),
        }
    }

    /// Answers the requests that were taken, disconnects all hypervisors and removes the sockets.
    pub fn stop(&self) {
        *self.shared.stopping.lock() = true;
        self.shared.wake.notify_all();
        if let Some(thread) = self.thread.lock().take() {
            let _ = thread.join();
        }
        let sockets = std::mem::take(&mut *self.shared.sockets.lock());
        sockets.into_values().for_each(Socket::stop);
    }
}

impl Shared {
    fn run(&self) {
        let mut failed = Vec::new();
        loop {
            let mut stopping = self.stopping.lock();
            if !*stopping {
                self.wake.wait_for(&mut stopping, FOLLOW);
            }
            if *stopping {
                return;
            }
            drop(stopping);
            let errors: Vec<String> = self.follow().iter().map(ToString::to_string).collect();
            // Each is said once.
            for why in errors.iter().filter(|why| !failed.contains(*why)) {
                tracing::error!(why, "a virtual drive has no vhost-user socket");
            }
            failed = errors;
        }
    }

    /// Makes and removes sockets, so that each export has one. What could not be made.
    fn follow(&self) -> Vec<Error> {
        let mut sockets = self.sockets.lock();
        let names: Vec<String> = self.exports.list().into_iter().map(|(name, _)| name).collect();
        let mut wanted: BTreeMap<String, _> =
            names.into_iter().filter_map(|name| Some((name.clone(), self.exports.open(&name)?))).collect();
        let gone: Vec<String> = sockets
            .iter()
            .filter(|(name, socket)| wanted.get(*name).is_none_or(|export| !socket.serves(&export.device)))
            .map(|(name, _)| name.clone())
            .collect();
        for socket in gone.iter().filter_map(|name| sockets.remove(name)) {
            let folder = socket.path().parent().map(Path::to_owned);
            socket.stop();
            // The folder of a group stays while it has others.
            if let Some(folder) = folder.filter(|folder| *folder != self.folder) {
                let _ = std::fs::remove_dir(folder);
            }
        }
        wanted.retain(|name, _| !sockets.contains_key(name));
        let mut errors = Vec::new();
        for (name, export) in wanted {
            let path = self.folder.join(format!("{name}.sock"));
            let made = self
                .prepare(&path)
                .and_then(|()| Socket::start(&path, self.mode, export, self.counters.clone()));
            match made {
                Ok(socket) => drop(sockets.insert(name, socket)),
                Err(error) => errors.push(Error::Listen { path, error }),
            }
        }
        errors
    }

    /// Makes the folder of a socket. Its path must stay below that of the server.
    fn prepare(&self, path: &Path) -> io::Result<()> {
        let below = path.strip_prefix(&self.folder).map_err(io::Error::other)?;
        if !below.components().all(|part| matches!(part, Component::Normal(_))) {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "the name is no path below the folder"));
        }
        path.parent().map_or(Ok(()), std::fs::create_dir_all)
    }
}
