//! The process that is an enclosure: its start, its ports, its end.
//!
//! Each port is a server of its own, which begins to listen when the port comes up and is cut when it goes down. Hosts that are
//! connected over several ports need controllers with different numbers, so each port has a range of them.
//!
//! Invariants: one process per folder of data and per management socket; a port that is down has no listener and no connection.
//!
//! Must not depend on: the command line.

use std::net::SocketAddr;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use ashlar_environment::{process, spawn, spawn_blocking, task::JoinHandle, time};
use ashlar_nvme_tcp::{HostKeys, Hosts, Limits, Server};
use parking_lot::{Mutex, RwLock};
use tokio::net::UnixListener;

use crate::api;
use crate::describe;
use crate::document::is_local;
use crate::enclosure::Enclosure;
use crate::error::{Error, Kind};
use crate::redfish;
use crate::sample::{self, Sample};
use crate::service;
use crate::services;
use crate::setup::{MOST_PORTS, Setup};
use crate::target::Target;

/// Numbers of controllers of a port: there are at most 64 ports, and 0xffef numbers.
const CONTROLLERS: u16 = 1000;
const _: () = assert!(CONTROLLERS as usize * MOST_PORTS < 0xffef);
/// Bytes of commands of a connection in memory.
const MEMORY: u64 = 2 << 20;
/// Between samples of rates.
const SECOND: Duration = Duration::from_secs(1);

/// What a process is told at its start.
#[derive(Clone, Debug)]
pub struct Options {
    /// The enclosure.
    pub setup: Setup,
    /// The management socket.
    pub socket: PathBuf,
    /// The file of the hosts that may connect, with their secrets. None: all may.
    pub hosts: Option<PathBuf>,
    /// Whoever can reach an address that is not of this machine alone may read and write.
    pub allow_anyone: bool,
    /// Where Redfish is served, `HOST:PORT`. None: it is not.
    pub redfish: Option<String>,
    /// Whoever can reach an address that is not of this machine alone may read Redfish.
    pub redfish_allow_anyone: bool,
}

/// The management socket, unless another one is named: in the folder of the user's session, or of the system.
#[must_use]
pub fn default_socket() -> PathBuf {
    match process::variable_os("XDG_RUNTIME_DIR").filter(|v| !v.is_empty()) {
        Some(folder) => PathBuf::from(folder).join("ashlar/fabric.sock"),
        None => "/run/ashlar/fabric.sock".into(),
    }
}

/// What serves while the process runs.
pub(crate) struct Running {
    pub(crate) enclosure: Arc<Enclosure>,
    /// The hosts that may connect. None: all may.
    pub(crate) hosts: Option<Arc<Hosts>>,
    /// Servers of ports; none: the port is down.
    pub(crate) servers: Mutex<Vec<Option<Server>>>,
    /// Addresses of the ports that are up, with their numbers.
    addresses: Arc<RwLock<Vec<(u16, SocketAddr)>>>,
    /// What is recorded of enclosures of this design.
    pub(crate) sample: Sample,
    /// Where Redfish is served.
    redfish: Option<SocketAddr>,
}

impl Running {
    /// Has listeners follow what is up.
    fn follow(&self, servers: &mut [Option<Server>]) -> Result<(), Error> {
        let mut failed = None;
        for (port, server) in servers.iter_mut().enumerate() {
            let up = self.enclosure.port(port).generation().is_some();
            if server.take_if(|_| !up).is_some() {
                self.addresses.write().retain(|a| usize::from(a.0) != port + 1);
            } else if up && server.is_none() {
                match self.listen(port) {
                    Ok(new) => *server = Some(new),
                    Err(error) => failed = Some(error),
                }
            }
        }
        failed.map_or(Ok(()), Err)
    }

    fn listen(&self, port: usize) -> Result<Server, Error> {
        let setup = &self.enclosure.setup;
        let memory = MEMORY * setup.connections as u64;
        let limits = Limits { connections: setup.connections, memory, ..Limits::default() };
        let (enclosure, addresses) = (self.enclosure.clone(), self.addresses.clone());
        let target = Target { enclosure, port, addresses, hosts: self.hosts.clone() };
        let number = port as u16;
        let first = number * CONTROLLERS + 1;
        let range = first..=first + CONTROLLERS - 1;
        let address = setup.ports[port].clone();
        let server = Server::start_with(&[address], Arc::new(target), limits, range)
            .map_err(|e| Error::conflict(format!("port {}: {e}", setup.port_name(port))))?;
        let mut addresses = self.addresses.write();
        addresses.extend(server.addresses().first().map(|a| (number + 1, *a)));
        addresses.sort_unstable();
        Ok(server)
    }

    /// What it says about itself.
    pub(crate) fn state(&self) -> api::State {
        let connected = self.servers.lock().iter().map(|s| s.as_ref().map(Server::statistics)).collect();
        let hosts = self.hosts.as_ref().map(|h| h.list());
        let state = describe::state(&self.enclosure, connected, hosts);
        api::State { redfish: self.redfish.map(|a| a.to_string()), ..state }
    }

    /// Enclosure services.
    pub(crate) fn services(&self) -> api::Services {
        services::services(&self.state(), &self.sample)
    }

    fn guarded(&self) -> Result<&Hosts, Error> {
        self.hosts.as_deref().ok_or_else(|| {
            Error::invalid("the process lets all hosts connect; start it with --nvme-hosts FILE")
        })
    }

    fn set_host(&self, nqn: &str, keys: &HostKeys) -> Result<api::Answer, Error> {
        let set = self.guarded()?.set(nqn, keys.clone());
        set.map(|_| api::Answer::default()).map_err(|e| Error::invalid(e.to_string()))
    }

    fn remove_host(&self, nqn: &str) -> Result<api::Answer, Error> {
        match self.guarded()?.remove(nqn) {
            Ok(true) => Ok(api::Answer::default()),
            Ok(false) => Err(Error::not_found(format!("there is no host {nqn:?}"))),
            Err(error) => Err(Error::new(Kind::Failed, error.to_string())),
        }
    }

    /// Executes a management call.
    pub(crate) fn perform(&self, call: &api::Call) -> Result<api::Answer, Error> {
        match call {
            api::Call::Locate { bay, on } => {
                self.enclosure.locate(*bay, *on).map(|()| api::Answer::default())
            }
            api::Call::SetHost { nqn, keys } => self.set_host(nqn, keys),
            api::Call::RemoveHost { nqn } => self.remove_host(nqn),
            api::Call::SetAna { ana } => {
                let set = self.enclosure.ana.set(&self.enclosure.setup, ana);
                set.map(|()| api::Answer::default())
            }
            api::Call::Inject { fault } => {
                self.change_faults(|cut| Ok(vec![self.enclosure.inject(fault, cut)?]))
            }
            api::Call::Clear { ids } => self.change_faults(|cut| self.enclosure.clear(ids, cut)),
        }
    }

    /// Changes faults, and has the servers of the ports follow. `change` gets what ends the connections of a port.
    fn change_faults(
        &self,
        change: impl FnOnce(&dyn Fn(usize)) -> Result<Vec<api::Fault>, Error>,
    ) -> Result<api::Answer, Error> {
        let mut servers = self.servers.lock();
        let faults = change(&|port| servers.get(port).into_iter().flatten().for_each(Server::cut))?;
        self.follow(&mut servers)?;
        Ok(api::Answer { faults })
    }
}

/// A process in operation.
pub struct Process {
    running: Arc<Running>,
    tasks: Vec<JoinHandle<()>>,
    socket: PathBuf,
}

impl Process {
    /// Starts: the management socket, the files, the ports. Call it in a runtime.
    ///
    /// # Errors
    /// [`Kind::Conflict`] if another process has the socket, the folder or an address; [`Kind::Invalid`] if an address is one
    /// of other machines.
    pub async fn start(options: Options) -> Result<Process, Error> {
        if !options.allow_anyone && options.hosts.is_none() && !is_local(&options.setup) {
            return Err(Error::invalid(
                "a port has an address that is not of this machine alone, and everybody who reaches it could read and write: \
                 name the file of the hosts that may connect, with a secret or a key of TLS, allow anyone, or use addresses of 127.0.0.0/8",
            ));
        }
        // Each connection has a socket, each namespace a file.
        ashlar_machine::raise_open_files();
        let hosts = options.hosts.as_deref().map(Hosts::open).transpose();
        let hosts = hosts.map_err(|e| Error::invalid(e.to_string()))?.map(Arc::new);
        let redfish = match &options.redfish {
            Some(address) => Some(redfish::service::listen(address, options.redfish_allow_anyone).await?),
            None => None,
        };
        let at = redfish.as_ref().and_then(|l| l.local_addr().ok());
        let listener = listen(&options.socket)?;
        let socket = options.socket.clone();
        let begun = spawn_blocking("fabric-open", move || begin(options.setup, hosts, at)).await;
        let begun = begun.unwrap_or_else(|_| Err(Error::new(Kind::Failed, "the start broke off")));
        let running = begun.inspect_err(|_| {
            let _ = std::fs::remove_file(&socket);
        })?;
        let mut tasks = vec![
            spawn("fabric-manage", service::manage(listener, running.clone())),
            spawn("fabric-sample", measure(running.clone())),
        ];
        let serve = |listener| spawn("fabric-redfish", redfish::service::serve(listener, running.clone()));
        tasks.extend(redfish.map(serve));
        Ok(Process { running, tasks, socket })
    }

    /// What it says about itself.
    #[must_use]
    pub fn state(&self) -> api::State {
        self.running.state()
    }

    /// Enclosure services.
    #[must_use]
    pub fn services(&self) -> api::Services {
        self.running.services()
    }

    /// Executes a management call.
    ///
    /// # Errors
    /// [`Kind::NotFound`] and [`Kind::Invalid`] for a fault of what is not there; [`Kind::Conflict`] if a port that comes up
    /// cannot listen.
    pub fn perform(&self, call: &api::Call) -> Result<api::Answer, Error> {
        self.running.perform(call)
    }

    /// Ends: answers the commands that have arrived.
    pub async fn stop(self) {
        self.tasks.iter().for_each(JoinHandle::abort);
        let _ = std::fs::remove_file(&self.socket);
        let running = self.running;
        let stopped = spawn_blocking("fabric-stop", move || {
            running.servers.lock().iter().flatten().for_each(Server::stop);
        });
        let _ = stopped.await;
    }
}

fn begin(
    setup: Setup,
    hosts: Option<Arc<Hosts>>,
    redfish: Option<SocketAddr>,
) -> Result<Arc<Running>, Error> {
    let sample = sample::of(&setup.model)?;
    let servers = setup.ports.iter().map(|_| None).collect();
    let enclosure = Arc::new(Enclosure::open(setup)?);
    let servers = Mutex::new(servers);
    let running = Running { enclosure, hosts, servers, addresses: Arc::default(), sample, redfish };
    running.follow(&mut running.servers.lock())?;
    Ok(Arc::new(running))
}

async fn measure(running: Arc<Running>) {
    loop {
        time::sleep(SECOND).await;
        running.enclosure.sample();
    }
}

/// The management socket: only this user can connect.
fn listen(path: &Path) -> Result<UnixListener, Error> {
    let shown = path.display().to_string();
    if let Some(folder) = path.parent().filter(|p| !p.as_os_str().is_empty() && !p.exists()) {
        let made = std::fs::DirBuilder::new().recursive(true).mode(0o755).create(folder);
        made.map_err(|e| Error::io(&folder.display().to_string(), &e))?;
    }
    let listener = ashlar_nbd::listen_unix(path, 0o600).map_err(|e| match e.kind() {
        std::io::ErrorKind::AddrInUse => {
            Error::conflict(format!("{shown}: another process has this socket; name another one"))
        }
        _ => Error::io(&shown, &e),
    })?;
    let ready = listener.set_nonblocking(true).and_then(|()| UnixListener::from_std(listener));
    ready.map_err(|e| Error::io(&shown, &e))
}
