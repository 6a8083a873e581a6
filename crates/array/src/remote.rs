//! Members that are namespaces of NVMe/TCP targets: `nvme-tcp://HOST:PORT[,HOST:PORT...]/NQN/NSID`, or `nvme-tcp+discovery://...`.
//!
//! Invariants: a namespace is attached once in this process, however often it is opened, and used by one group at most, whatever
//! addresses lead to it; it is known by its UUID, NGUID or EUI64. Other processes are not kept away: this one reserves nothing.
//! What another host has reserved fails with an error that says so.
//!
//! Must not depend on: groups.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, ErrorKind, IoSlice};
use std::path::Path;
use std::sync::{Arc, Weak};
use std::time::Duration;

use ashlar_nvme_tcp::host::{self, Address, HostOptions, Identity, IoPolicy, RemoteNamespace, is_address};
use ashlar_nvme_tcp::{Error as NvmeError, Secret, TlsKey};
use ashlar_raid::{Command, Device, Medium, Pending};
use parking_lot::Mutex;

use crate::api;
use crate::error::{Error, Kind};

/// Namespaces that are attached, by their addresses.
static ATTACHED: Mutex<BTreeMap<String, Weak<RemoteNamespace>>> = Mutex::new(BTreeMap::new());
/// Namespaces that groups of this process have, or new groups are made of.
static IN_USE: Mutex<BTreeSet<Identity>> = Mutex::new(BTreeSet::new());
/// This process as a host: targets see one, whichever namespaces it uses.
static HOST: Mutex<Option<HostOptions>> = Mutex::new(None);

/// How a process uses namespaces of targets as drives. Names are those of Linux's NVMe host.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RemoteOptions {
    /// The name of this process as a host (NQN): what targets show may depend on it. None: a random one.
    pub host_nqn: Option<String>,
    /// Which of several paths a command takes.
    pub policy: IoPolicy,
    /// Time after which requests fail when no path can be used: then the drive fails in its group.
    pub fast_io_fail_timeout: Duration,
    /// The longest time between two attempts to connect again.
    pub reconnect_delay: Duration,
    /// Time after which a path is given up for good; none: it never is.
    pub ctrl_loss_timeout: Option<Duration>,
    /// The keep-alive time: a connection that is silent for longer is given up. Zero: none.
    pub keep_alive: Duration,
    /// The secret with which this process authenticates itself to targets that demand it.
    pub secret: Option<Secret>,
    /// The secret with which targets have to authenticate themselves.
    pub controller_secret: Option<Secret>,
    /// The key of TLS, which every connection to a target then has. None: none has it.
    pub tls_key: Option<TlsKey>,
}

impl Default for RemoteOptions {
    fn default() -> RemoteOptions {
        RemoteOptions {
            host_nqn: None,
            policy: IoPolicy::default(),
            fast_io_fail_timeout: Duration::from_secs(30),
            reconnect_delay: Duration::from_secs(2),
            ctrl_loss_timeout: None,
            keep_alive: Duration::from_secs(5),
            secret: None,
            controller_secret: None,
            tls_key: None,
        }
    }
}

/// Sets how namespaces that are attached from now on are used.
pub(crate) fn configure(chosen: RemoteOptions) -> Result<(), Error> {
    let known = options()?;
    *HOST.lock() = Some(HostOptions {
        host_nqn: chosen.host_nqn.unwrap_or(known.host_nqn),
        policy: chosen.policy,
        fast_io_fail_timeout: chosen.fast_io_fail_timeout,
        reconnect_delay: chosen.reconnect_delay,
        ctrl_loss_timeout: chosen.ctrl_loss_timeout,
        keep_alive: chosen.keep_alive,
        secret: chosen.secret,
        controller_secret: chosen.controller_secret,
        tls_key: chosen.tls_key,
        ..known
    });
    Ok(())
}

/// The address that a path is, in its canonical form, if it is one.
pub(crate) fn address(path: &Path) -> Option<Result<Address, Error>> {
    let text = path.to_str().filter(|t| is_address(t))?;
    Some(text.parse().map_err(|e| of_nvme(&e)))
}

fn of_nvme(error: &NvmeError) -> Error {
    let kind = match error {
        NvmeError::Address { .. } | NvmeError::Range { .. } => Kind::Invalid,
        NvmeError::Refused(_) => Kind::NotFound,
        NvmeError::Reserved { .. } => Kind::Conflict,
        _ => Kind::Failed,
    };
    Error::new(kind, error.to_string())
}

fn options() -> Result<HostOptions, Error> {
    let mut known = HOST.lock();
    match &*known {
        Some(known) => Ok(known.clone()),
        None => Ok(known.insert(HostOptions::new().map_err(|e| of_nvme(&e))?).clone()),
    }
}

/// Attaches a namespace, unless it is already.
fn attach(address: &Address) -> Result<Arc<RemoteNamespace>, Error> {
    let name = address.to_string();
    let known = || {
        let known = ATTACHED.lock().get(&name).and_then(Weak::upgrade);
        // A new namespace may be where a deleted one was, whose drive has failed.
        known.filter(|n| n.is_same())
    };
    if let Some(known) = known() {
        return Ok(known);
    }
    // Without the lock: a target that does not answer holds up nobody else.
    let made = RemoteNamespace::attach(address, options()?);
    let made = made.map_err(|e| {
        let Error { kind, message } = of_nvme(&e);
        Error::new(kind, format!("{name}: {message}"))
    })?;
    if let Some(known) = known() {
        return Ok(known);
    }
    let made = Arc::new(made);
    let mut attached = ATTACHED.lock();
    attached.retain(|_, a| a.strong_count() > 0);
    attached.insert(name, Arc::downgrade(&made));
    Ok(made)
}

/// The paths of a namespace that is attached, and the health of its drive.
pub(crate) fn status(path: &Path) -> (Vec<api::Path>, Option<api::Health>) {
    let known = path.to_str().and_then(|name| ATTACHED.lock().get(name).and_then(Weak::upgrade));
    let Some(namespace) = known else { return (Vec::new(), None) };
    let paths = namespace.paths().into_iter().map(|p| api::Path {
        address: p.portal,
        state: p.state.into(),
        ana_state: p.ana.to_string(),
        why: p.why,
        losses: p.losses,
        in_flight: p.in_flight,
        commands: p.commands,
        latency_us: p.latency.map(|l| u64::try_from(l.as_micros()).unwrap_or(u64::MAX)),
    });
    // A count that does not fit is more than any drive has.
    let fit = |n: u128| u64::try_from(n).unwrap_or(u64::MAX);
    let health = namespace.health().map(|h| api::Health {
        warnings: h.warnings().into_iter().map(str::to_owned).collect(),
        temperature_c: h.temperature.map(|k| i64::from(k) - 273),
        available_spare_percent: h.available_spare,
        spare_threshold_percent: h.spare_threshold,
        percentage_used: h.percentage_used,
        bytes_read: fit(h.bytes_read),
        bytes_written: fit(h.bytes_written),
        power_cycles: fit(h.power_cycles),
        power_on_hours: fit(h.power_on_hours),
        unsafe_shutdowns: fit(h.unsafe_shutdowns),
        media_errors: fit(h.media_errors),
        error_log_entries: fit(h.error_entries),
    });
    (paths.collect(), health)
}

/// A namespace that this process uses for one purpose.
pub(crate) struct Claim {
    namespace: Arc<RemoteNamespace>,
}

impl Drop for Claim {
    fn drop(&mut self) {
        IN_USE.lock().remove(&self.namespace.facts().identity);
    }
}

/// Attaches a namespace for one purpose.
pub(crate) fn claim(address: &Address) -> Result<Claim, Error> {
    let namespace = attach(address)?;
    if !IN_USE.lock().insert(namespace.facts().identity) {
        let identity = namespace.facts().identity;
        return Err(Error::conflict(format!("{address} ({identity}) is in use by this process already")));
    }
    Ok(Claim { namespace })
}

/// Opens a namespace; its name is its address.
pub(crate) fn open(address: &Address) -> Result<Device, Error> {
    let medium = Box::new(Remote(attach(address)?));
    Ok(Device { medium, name: address.to_string() })
}

struct Remote(Arc<RemoteNamespace>);

/// A request that is under way.
struct Submitted(host::Pending);

impl Pending for Submitted {
    fn wait(self: Box<Self>) -> io::Result<Vec<u8>> {
        self.0.wait().map_err(io_error)
    }
}

fn io_error(error: NvmeError) -> io::Error {
    match error {
        NvmeError::Range { .. } => io::Error::new(ErrorKind::InvalidInput, error),
        NvmeError::Reserved { .. } => io::Error::new(ErrorKind::PermissionDenied, error),
        other => io::Error::other(other),
    }
}

impl Medium for Remote {
    fn size(&self) -> io::Result<u64> {
        Ok(self.0.size())
    }

    fn read_at(&self, out: &mut [u8], at: u64) -> io::Result<()> {
        let inside = self.0.size().saturating_sub(at).min(out.len() as u64) as usize;
        self.0.read(at, &mut out[..inside]).map_err(io_error)?;
        if inside < out.len() { Err(ErrorKind::UnexpectedEof.into()) } else { Ok(()) }
    }

    fn write_slices_at(&self, slices: &mut [IoSlice<'_>], at: u64) -> io::Result<()> {
        self.0.write_slices(at, slices).map_err(io_error)
    }

    fn flush(&self) -> io::Result<()> {
        self.0.flush().map_err(io_error)
    }

    fn discard(&self, at: u64, len: u64) -> io::Result<()> {
        self.0.discard(at, len).map_err(io_error)
    }

    /// A drive is a subsystem, in real enclosures as in ours: its namespaces are lost together.
    fn domain(&self) -> Option<String> {
        Some(format!("the subsystem {}", self.0.address().nqn))
    }

    fn submit(&self, command: &Command<'_>) -> Option<Box<dyn Pending>> {
        let pending = match command {
            Command::Read { at, len } => self.0.submit_read(*at, *len),
            Command::Write { at, data } => self.0.submit_write(*at, data),
            Command::Flush => self.0.submit_flush(),
        }?;
        Some(Box::new(Submitted(pending)))
    }

    /// For its target.
    fn waits(&self) -> bool {
        true
    }

    /// A target writes each of its blocks as a whole.
    fn is_atomic(&self) -> bool {
        self.0.block() == ashlar_raid::BLOCK as u32
    }

    fn gone(&self) -> Option<String> {
        self.0.gone()
    }
}
