//! The socket of one device: one hypervisor at a time, and the next one after it.
//!
//! Invariants: after [`Socket::stop`] nobody is connected, no request is under way, and the path is free.
//!
//! Must not depend on: requests, rings.

use std::io;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ashlar_environment::thread;
use ashlar_nbd::{Device, Export, listen_unix};
use parking_lot::Mutex;
use vhost::vhost_user::Listener;
use vhost_user_backend::{ShutdownHandle, VhostUserDaemon};
use vm_memory::{GuestMemoryAtomic, GuestMemoryMmap};

use crate::backend::Backend;
use crate::request::Counters;

/// Time until the next attempt after a connection could not be served.
const AGAIN: Duration = Duration::from_secs(1);

/// A device with its socket.
pub(crate) struct Socket {
    shared: Arc<Shared>,
    thread: Option<thread::JoinHandle<()>>,
}

struct Shared {
    path: PathBuf,
    name: String,
    device: Arc<dyn Device>,
    counters: Arc<Counters>,
    stopping: AtomicBool,
    /// The connection that is open.
    open: Mutex<Option<(Arc<Backend>, ShutdownHandle)>>,
}

impl Socket {
    /// Listens at `path` with a file mode.
    pub(crate) fn start(
        path: &Path,
        mode: u32,
        export: Export,
        counters: Arc<Counters>,
    ) -> io::Result<Socket> {
        let listener = listen_unix(path, mode)?;
        let shared = Arc::new(Shared {
            path: path.to_owned(),
            name: export.name,
            device: export.device,
            counters,
            stopping: AtomicBool::new(false),
            open: Mutex::default(),
        });
        let mine = shared.clone();
        let thread = thread::start("vhost-user", None, move || mine.serve(listener))?;
        Ok(Socket { shared, thread: Some(thread) })
    }

    /// Whether this is its device.
    pub(crate) fn serves(&self, device: &Arc<dyn Device>) -> bool {
        Arc::ptr_eq(&self.shared.device, device)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.shared.path
    }

    /// Answers the requests that were taken, and ends.
    pub(crate) fn stop(mut self) {
        let shared = &self.shared;
        shared.stopping.store(true, Ordering::Release);
        if let Some((backend, handle)) = &*shared.open.lock() {
            // Answers come before the end of the connection: what follows it is sent again.
            backend.stop();
            handle.shutdown();
        }
        // Whoever waits for a hypervisor sees this one, and that it has to end.
        drop(UnixStream::connect(&shared.path));
        let _ = std::fs::remove_file(&shared.path);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn serve(&self, listener: UnixListener) {
        let mut listener = Listener::from(listener);
        while !self.stopping.load(Ordering::Acquire) {
            if let Err(why) = self.serve_one(&mut listener) {
                tracing::warn!(export = self.name, why, "a vhost-user connection failed");
                if !self.stopping.load(Ordering::Acquire) {
                    thread::sleep(AGAIN);
                }
            }
        }
    }

    /// Waits for a hypervisor and serves it until it is gone.
    fn serve_one(&self, listener: &mut Listener) -> Result<(), String> {
        let serial = self.name.rsplit('/').next().unwrap_or_default().to_owned();
        let backend =
            Backend::new(self.device.clone(), serial, self.counters.clone()).map_err(|e| e.to_string())?;
        let workers = backend.start().map_err(|e| e.to_string())?;
        let served = self.serve_with(listener, &backend);
        // The thread of the rings has ended: nothing more is taken.
        backend.stop();
        backend.finish();
        workers.into_iter().for_each(|worker| drop(worker.join()));
        served
    }

    fn serve_with(&self, listener: &mut Listener, backend: &Arc<Backend>) -> Result<(), String> {
        let space = GuestMemoryAtomic::new(GuestMemoryMmap::new());
        let daemon = VhostUserDaemon::new("vhost-user".to_owned(), backend.clone(), space);
        let mut daemon = daemon.map_err(|e| e.to_string())?;
        daemon.start(listener).map_err(|e| e.to_string())?;
        let Some(handle) = daemon.shutdown_handle() else { return Ok(()) };
        *self.open.lock() = Some((backend.clone(), handle.clone()));
        if self.stopping.load(Ordering::Acquire) {
            handle.shutdown();
        } else {
            tracing::info!(export = self.name, "a hypervisor is connected");
        }
        self.counters.connections.fetch_add(1, Ordering::Relaxed);
        let ended = daemon.wait();
        backend.abandon();
        self.counters.connections.fetch_sub(1, Ordering::Relaxed);
        *self.open.lock() = None;
        match ended {
            // Hypervisors end without a farewell.
            Err(vhost_user_backend::Error::HandleRequest(
                vhost::vhost_user::Error::Disconnected | vhost::vhost_user::Error::PartialMessage,
            ))
            | Ok(()) => Ok(()),
            Err(error) => Err(error.to_string()),
        }
    }
}
