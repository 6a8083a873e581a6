//! The process that owns groups: its start, its parts, its end.
//!
//! Invariants: one process per management socket; at the end the exports stop first, then groups are closed.
//!
//! Must not depend on: the command line.

use std::collections::BTreeMap;
use std::net::{IpAddr, ToSocketAddrs as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ashlar_environment::{net, process, spawn, task::JoinHandle, thread, time::Instant};
use ashlar_nbd::{Endpoint, Limits, Server, Tls, listen_unix};
use ashlar_nvme_tcp as nvme;
use ashlar_raid::{Batching, Coder as _, Cpu, Wanted};
use ashlar_ublk as ublk;
use ashlar_vhost_user as vhost_user;
use tokio::net::UnixListener;

use crate::api;
use crate::error::{Error, Kind};
use crate::owner::Owner;
use crate::remote::{self, RemoteOptions};
use crate::service;
use crate::tls::Certificates;
use crate::worker::Rebuilds;

/// Threads of a rebuild, at most.
const MAX_REBUILD_THREADS: usize = 64;
/// Bytes of a batch of a rebuild, at least.
const MIN_REBUILD_BATCH: usize = 64 << 10;
/// And at most: a thread has up to three of them.
const MAX_REBUILD_BATCH: usize = 64 << 20;

/// What a process is told at its start.
#[derive(Clone, Debug)]
pub struct Options {
    /// Drives, or folders with drives, of the groups to put in service.
    pub drives: Vec<PathBuf>,
    /// Open groups although drives are missing.
    pub without_missing: bool,
    /// The management socket.
    pub socket: PathBuf,
    /// Where virtual drives are exported over NBD.
    pub nbd: Vec<Endpoint>,
    /// Where virtual drives are exported over NVMe/TCP: `HOST:PORT`.
    pub nvme: Vec<String>,
    /// The file of the hosts that may connect over NVMe/TCP, with their secrets. None: all may.
    pub nvme_hosts: Option<PathBuf>,
    /// Whether connections over NVMe/TCP have TLS. None: those of hosts that have a key, if there is a file of hosts.
    pub nvme_tls: Option<nvme::TlsMode>,
    /// The folder with `public.crt` and `private.key`.
    pub certificates: Option<PathBuf>,
    /// The authority of client certificates, which clients then need.
    pub client_authority: Option<PathBuf>,
    /// Whoever can reach an address that is not of this machine may use the virtual drives.
    pub allow_anyone: bool,
    /// Where metrics are served.
    pub metrics: Option<String>,
    /// NBD connections at once, and NVMe connections.
    pub connections: usize,
    /// Bytes of NBD requests in memory, and of NVMe commands.
    pub memory: u64,
    /// The folder in which each virtual drive has a vhost-user-blk socket.
    pub vhost_user: Option<PathBuf>,
    /// The file mode of those sockets.
    pub vhost_user_mode: u32,
    /// The folder in which each virtual drive has a link to its block device of this machine.
    pub ublk: Option<PathBuf>,
    /// Queues of each of those devices, at most: the kernel makes no more than the machine has processors.
    pub ublk_queues: u16,
    /// The file mode of Unix sockets of NBD.
    pub socket_mode: u32,
    /// A group without a hot spare of its own gets one of another group.
    pub shared_spares: bool,
    /// Who codes rebuilds.
    pub coder: Wanted,
    /// Threads of a rebuild or a check.
    pub rebuild_threads: usize,
    /// Bytes that a thread of a rebuild or a check reads at once, about.
    pub rebuild_batch: usize,
    /// How drives are used that are namespaces of NVMe/TCP targets.
    pub remote: RemoteOptions,
}

impl Default for Options {
    fn default() -> Options {
        let limits = Limits::default();
        Options {
            drives: Vec::new(),
            without_missing: false,
            socket: default_socket(),
            nbd: Vec::new(),
            nvme: Vec::new(),
            nvme_hosts: None,
            nvme_tls: None,
            certificates: None,
            client_authority: None,
            allow_anyone: false,
            metrics: None,
            connections: limits.connections,
            memory: limits.memory,
            vhost_user: None,
            vhost_user_mode: limits.socket_mode,
            ublk: None,
            ublk_queues: 4,
            socket_mode: limits.socket_mode,
            shared_spares: false,
            coder: Wanted::default(),
            rebuild_threads: thread::available_parallelism().map_or(1, |n| (n.get() / 2).clamp(1, 8)),
            rebuild_batch: Batching::default().bytes,
            remote: RemoteOptions::default(),
        }
    }
}

/// The management socket, unless another one is named: in the folder of the user's session, or of the system.
#[must_use]
pub fn default_socket() -> PathBuf {
    match process::variable_os("XDG_RUNTIME_DIR").filter(|v| !v.is_empty()) {
        Some(folder) => PathBuf::from(folder).join("ashlar/array.sock"),
        None => "/run/ashlar/array.sock".into(),
    }
}

/// What computes the parity of these groups.
fn controllers(groups: &[api::Group]) -> Vec<api::Controller> {
    let by_gpu = |g: &&api::Group| g.rebuild_coder.starts_with("GPU");
    let of = |name: &str, kind: &str, engine: String| api::Controller {
        name: name.into(),
        kind: kind.into(),
        state: "ONLINE".into(),
        engine,
        ..api::Controller::default()
    };
    let names = |groups: Vec<&api::Group>| groups.iter().map(|g| g.name.clone()).collect();
    let mut cpu = of("cx0", "CPU", Cpu::default().name());
    cpu.requests = names(groups.iter().collect());
    cpu.rebuilds = names(groups.iter().filter(|g| !by_gpu(g)).collect());
    let mut all = vec![cpu];
    if let Some(first) = groups.iter().find(by_gpu) {
        let mut gpu = of("cx1", "GPU", first.rebuild_coder.clone());
        gpu.rebuilds = names(groups.iter().filter(by_gpu).collect());
        all.push(gpu);
    }
    all
}

/// What serves while the process runs.
pub(crate) struct Running {
    owner: Arc<Owner>,
    nbd: Server,
    nvme: nvme::Server,
    vhost_user: Option<vhost_user::Server>,
    ublk: Option<Arc<ublk::Server>>,
    tls: &'static str,
    client_certificates: bool,
    started: Instant,
}

impl Running {
    pub(crate) fn state(&self) -> api::State {
        let nbd = self.nbd.statistics();
        let nvme = self.nvme.statistics();
        let devices = self.ublk.as_ref().map(|server| server.devices()).unwrap_or_default();
        let groups: Vec<api::Group> =
            self.owner.groups().iter().map(|g| with_devices(g.describe(), &devices)).collect();
        api::State {
            controllers: controllers(&groups),
            version: env!("CARGO_PKG_VERSION").into(),
            uptime_s: self.started.elapsed().as_secs(),
            groups,
            out_of_service: self.owner.out_of_service(),
            nbd: api::Nbd {
                endpoints: self.nbd.endpoints().iter().map(ToString::to_string).collect(),
                tls: self.tls.into(),
                client_certificates: self.client_certificates,
                connections: nbd.connections,
                reads: nbd.reads,
                bytes_read: nbd.bytes_read,
                writes: nbd.writes,
                bytes_written: nbd.bytes_written,
            },
            nvme: api::Nvme {
                endpoints: self.nvme.addresses().iter().map(ToString::to_string).collect(),
                connections: nvme.connections,
                controllers: nvme.controllers,
                tls: self.owner.nvme_tls(),
                hosts: self.owner.hosts().map(nvme::Hosts::list),
                unauthenticated: nvme.unauthenticated,
                reads: nvme.reads,
                bytes_read: nvme.bytes_read,
                writes: nvme.writes,
                bytes_written: nvme.bytes_written,
            },
            vhost_user: self.vhost_user.as_ref().map(|server| {
                let counted = server.statistics();
                api::VhostUser {
                    folder: server.folder().display().to_string(),
                    connections: counted.connections,
                    reads: counted.reads,
                    bytes_read: counted.bytes_read,
                    writes: counted.writes,
                    bytes_written: counted.bytes_written,
                    errors: counted.errors,
                }
            }),
            ublk: self.ublk.as_ref().map(|server| {
                let counted = server.statistics();
                api::Ublk {
                    folder: server.folder().display().to_string(),
                    devices: devices.len() as u64,
                    recovered: counted.recovered,
                    reads: counted.reads,
                    bytes_read: counted.bytes_read,
                    writes: counted.writes,
                    bytes_written: counted.bytes_written,
                    errors: counted.errors,
                }
            }),
        }
    }

    pub(crate) fn metrics(&self) -> String {
        let state = self.state();
        let server = state.nbd.endpoints.first().cloned().unwrap_or_default();
        crate::metrics::text(&state, &server)
    }

    pub(crate) fn perform(&self, call: &api::Call) -> Result<api::Answer, Error> {
        self.owner.perform(call)
    }
}

/// A process in operation.
pub struct Process {
    running: Arc<Running>,
    tasks: Vec<JoinHandle<()>>,
    socket: PathBuf,
    metrics: Option<String>,
}

impl Process {
    /// Starts: the management socket, the groups, the exports. Call it in a runtime.
    ///
    /// # Errors
    /// [`Kind::Conflict`] if another process has the socket; [`Kind::Invalid`] if a path or an option is wrong. A group that
    /// cannot be opened is no error: it is in [`api::State::out_of_service`].
    pub async fn start(options: Options) -> Result<Process, Error> {
        remote::configure(options.remote.clone())?;
        let tls = tls(&options)?;
        if tls.as_ref().is_none_or(|_| options.client_authority.is_none()) && !options.allow_anyone {
            let tcp = options.nbd.iter().filter_map(|e| match e {
                Endpoint::Tcp(address) => Some(address),
                Endpoint::Unix(_) => None,
            });
            refuse_open_addresses(
                tcp,
                "give the server a certificate and the authority of its clients' certificates, or allow anyone",
            )?;
        }
        if !options.allow_anyone && options.nvme_hosts.is_none() {
            // TLS of NBD does not protect it.
            refuse_open_addresses(
                options.nvme.iter(),
                "name the file of the hosts that may connect over NVMe/TCP with a secret or a key of TLS, allow anyone, or listen \
                 at an address of this machine",
            )?;
        }
        let encryption = match (options.nvme_tls, &options.nvme_hosts) {
            (None, Some(_)) => nvme::TlsMode::Allowed,
            (None | Some(nvme::TlsMode::Off), _) => nvme::TlsMode::Off,
            (Some(mode), Some(_)) => mode,
            (Some(mode), None) => {
                return Err(Error::invalid(format!(
                    "TLS of NVMe/TCP is {mode}, and there is no file of hosts with their keys: name one with --nvme-hosts"
                )));
            }
        };
        let hosts = options.nvme_hosts.as_deref().map(nvme::Hosts::open).transpose();
        let hosts = hosts.map_err(|e| Error::invalid(e.to_string()))?;
        let listener = listen(&options.socket)?;
        let owner = Owner::new(rebuilds(&options)?, hosts, encryption, options.shared_spares);
        let socket = options.socket.clone();
        match Process::begin(options, tls, listener, owner.clone()).await {
            Ok(process) => Ok(process),
            Err(error) => {
                let _ = std::fs::remove_file(&socket);
                let _ = ashlar_environment::spawn_blocking("array-close", move || owner.close()).await;
                Err(error)
            }
        }
    }

    async fn begin(
        options: Options,
        tls: Option<(Arc<Certificates>, Tls)>,
        listener: UnixListener,
        owner: Arc<Owner>,
    ) -> Result<Process, Error> {
        let opened = {
            let (owner, options) = (owner.clone(), options.clone());
            ashlar_environment::spawn_blocking("array-open", move || open(&owner, &options)).await
        };
        opened.map_err(|_| Error::new(Kind::Failed, "opening the groups broke off"))??;
        let limits = Limits {
            connections: options.connections,
            memory: options.memory,
            socket_mode: options.socket_mode,
        };
        let client_certificates = options.client_authority.is_some();
        let (certificates, tls) = tls.unzip();
        let word = tls.as_ref().map_or("off", |t: &Tls| if t.required { "required" } else { "optional" });
        let nbd = Server::start(&options.nbd, owner.clone(), tls, limits)
            .map_err(|e| Error::new(Kind::Conflict, e.to_string()))?;
        let limits = nvme::Limits {
            connections: options.connections,
            memory: options.memory,
            ..nvme::Limits::default()
        };
        let nvme = nvme::Server::start(&options.nvme, owner.clone(), limits)
            .map_err(|e| Error::new(Kind::Conflict, e.to_string()))?;
        let vhost_user = {
            let (owner, mode) = (owner.clone(), options.vhost_user_mode);
            let start = |folder: &PathBuf| vhost_user::Server::start(folder, mode, owner);
            options.vhost_user.as_ref().map(start).transpose()
        };
        let vhost_user = vhost_user.map_err(|e| Error::new(Kind::Conflict, e.to_string()))?;
        let ublk = block_devices(&options, &owner).await?.map(Arc::new);
        if let Some(server) = &ublk {
            // Not owned by it: the server has the exports, which are those of the owner.
            let server = Arc::downgrade(server);
            owner.has_block_devices(Box::new(move |export| server.upgrade()?.devices().remove(export)));
        }
        let started = Instant::now();
        let running =
            Arc::new(Running { owner, nbd, nvme, vhost_user, ublk, tls: word, client_certificates, started });
        let mut tasks = Vec::new();
        let mut metrics = None;
        if let Some(address) = &options.metrics {
            let listener = net::bind(address.as_str()).await.map_err(|e| Error::io(address, &e))?;
            metrics = listener.local_addr().ok().map(|a| a.to_string());
            tasks.push(spawn("array-metrics", service::measure(listener, running.clone())));
        }
        tasks.push(spawn("array-manage", service::manage(listener, running.clone())));
        if let Some(certificates) = certificates {
            tasks.push(spawn("array-certificates", certificates.follow()));
        }
        Ok(Process { running, tasks, socket: options.socket, metrics })
    }

    /// What it says about itself.
    #[must_use]
    pub fn state(&self) -> api::State {
        self.running.state()
    }

    /// Where metrics are served over TCP.
    #[must_use]
    pub fn metrics_address(&self) -> Option<&str> {
        self.metrics.as_deref()
    }

    /// Ends: answers the requests that have arrived, and closes all groups. The errors of groups that could not be closed: they
    /// are recovered when they are opened again.
    pub async fn stop(self) -> Vec<Error> {
        self.tasks.iter().for_each(JoinHandle::abort);
        // Nobody finds the process any more.
        let _ = std::fs::remove_file(&self.socket);
        let running = self.running;
        let closed = ashlar_environment::spawn_blocking("array-close", move || {
            // Requests that wait for limits are answered too.
            running.owner.end_waits();
            running.nbd.stop();
            running.nvme.stop();
            if let Some(server) = &running.vhost_user {
                server.stop();
            }
            if let Some(server) = &running.ublk {
                server.stop();
            }
            running.owner.close()
        });
        closed.await.unwrap_or_else(|_| vec![Error::new(Kind::Failed, "closing the groups broke off")])
    }
}

/// Makes the virtual drives block devices of this machine, if that is wanted. It may wait for the kernel.
async fn block_devices(options: &Options, owner: &Arc<Owner>) -> Result<Option<ublk::Server>, Error> {
    let Some(folder) = options.ublk.clone() else { return Ok(None) };
    let (owner, queues) = (owner.clone(), options.ublk_queues);
    let start = move || ublk::Server::start(&folder, queues, owner);
    let started = ashlar_environment::spawn_blocking("array-ublk", start).await;
    let started = started.map_err(|_| Error::new(Kind::Failed, "making block devices broke off"))?;
    started.map(Some).map_err(|error| {
        let kind = match &error {
            ublk::Error::Denied(_) | ublk::Error::IoUring(_) => Kind::Denied,
            ublk::Error::Folder { .. } => Kind::Invalid,
            _ => Kind::Failed,
        };
        Error::new(kind, format!("--ublk: {error}"))
    })
}

/// A group, with the block devices of its virtual drives.
fn with_devices(mut group: api::Group, devices: &BTreeMap<String, PathBuf>) -> api::Group {
    for volume in &mut group.volumes {
        volume.block_device = devices.get(&volume.export).map(|path| path.display().to_string());
    }
    group
}

/// How groups are rebuilt, within what a machine can bear.
fn rebuilds(options: &Options) -> Result<Rebuilds, Error> {
    if !(1..=MAX_REBUILD_THREADS).contains(&options.rebuild_threads) {
        return Err(Error::invalid(format!("a rebuild has 1 to {MAX_REBUILD_THREADS} threads")));
    }
    if !(MIN_REBUILD_BATCH..=MAX_REBUILD_BATCH).contains(&options.rebuild_batch) {
        return Err(Error::invalid("a batch of a rebuild has 64 KiB to 64 MiB".to_owned()));
    }
    let (bytes, threads) = (options.rebuild_batch, options.rebuild_threads);
    Ok(Rebuilds { wanted: options.coder, batching: Batching { bytes, threads, ..Batching::default() } })
}

fn open(owner: &Owner, options: &Options) -> Result<(), Error> {
    let (_, failed) = owner.open(&options.drives, options.without_missing)?;
    for (name, paths, error) in failed {
        tracing::error!(group = name, %error, "a group is not in service");
        owner.leave_out(name, &paths, error.message);
    }
    Ok(())
}

/// The certificates, and what clients meet. Where client certificates are asked for, TLS is required.
fn tls(options: &Options) -> Result<Option<(Arc<Certificates>, Tls)>, Error> {
    let authority = options.client_authority.as_deref();
    let Some(folder) = &options.certificates else {
        return match authority {
            None => Ok(None),
            Some(_) => Err(Error::invalid("client certificates need a certificate of the server")),
        };
    };
    let certificates = Certificates::open(folder)?;
    let config = certificates.config(authority)?;
    Ok(Some((certificates, Tls { config, required: true })))
}

/// There are no passwords: without client certificates, only this machine is let in.
fn refuse_open_addresses<'a>(addresses: impl Iterator<Item = &'a String>, remedy: &str) -> Result<(), Error> {
    for address in addresses {
        let found = address.to_socket_addrs().map_err(|e| Error::io(address, &e))?;
        let local = |ip: IpAddr| ip.to_canonical().is_loopback();
        if !found.map(|a| a.ip()).all(local) {
            return Err(Error::invalid(format!(
                "{address} is not an address of this machine alone, and everybody who reaches it could read and write the \
                 virtual drives: {remedy}"
            )));
        }
    }
    Ok(())
}

/// The management socket: only this user can connect.
fn listen(path: &Path) -> Result<UnixListener, Error> {
    let shown = path.display().to_string();
    if let Some(folder) = path.parent().filter(|p| !p.as_os_str().is_empty() && !p.exists()) {
        let made = std::fs::DirBuilder::new().recursive(true).mode(0o755).create(folder);
        made.map_err(|e| Error::io(&folder.display().to_string(), &e))?;
    }
    let listener = listen_unix(path, 0o600).map_err(|e| match e.kind() {
        std::io::ErrorKind::AddrInUse => {
            Error::conflict(format!("{shown}: another process has this socket; name another one"))
        }
        _ => Error::io(&shown, &e),
    })?;
    let ready = listener.set_nonblocking(true).and_then(|()| UnixListener::from_std(listener));
    ready.map_err(|e| Error::io(&shown, &e))
}
