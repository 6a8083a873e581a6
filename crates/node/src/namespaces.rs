//! Drives that are namespaces of NVMe/TCP targets: `nvme-tcp://HOST:PORT[,HOST:PORT...]/NQN/NSID`.
//!
//! Invariants: a namespace is one drive of this process at most, whatever addresses lead to it. Other processes are not kept away: there are
//! no reservations.
//!
//! Must not depend on: what a drive stores.

use std::collections::BTreeSet;
use std::io::{self, ErrorKind, IoSlice};
use std::path::Path;

use ashlar_machine::{Folder, OtherDevices, RawDevice};
use ashlar_nvme_tcp::Error as NvmeError;
use ashlar_nvme_tcp::host::{self, Address, HostOptions, Identity, RemoteNamespace};
use parking_lot::Mutex;

use crate::drive_discovery::Facts;

/// This process as a host: targets see one, whichever namespaces it uses.
static HOST: Mutex<Option<HostOptions>> = Mutex::new(None);
/// The namespaces that drives of this process are.
static IN_USE: Mutex<BTreeSet<Identity>> = Mutex::new(BTreeSet::new());

/// Lets drives be namespaces, from now on.
pub(crate) fn enable() {
    let is = |path: &Path| path.to_str().is_some_and(is_address);
    ashlar_machine::use_other_devices(OtherDevices { is, open });
}

/// Whether the text is the address of a namespace.
pub(crate) fn is_address(text: &str) -> bool {
    host::is_address(text)
}

/// What a namespace fails with: its subsystem, as namespaces of one subsystem are those of one drive, also those that other nodes have. The same
/// text as if the kernel's host reached it ([`ashlar_machine::failure_domain`]).
pub(crate) fn domain(path: &Path) -> Option<String> {
    let address: Address = path.to_str().filter(|t| is_address(t))?.parse().ok()?;
    Some(ashlar_cluster::domain_text(&format!("the subsystem {}", address.nqn), true))
}

/// What is known of a namespace; `None` if it is none, or cannot be reached.
pub(crate) fn facts(path: &Path) -> Option<Facts> {
    let address: Address = path.to_str().filter(|t| is_address(t))?.parse().ok()?;
    let total = Folder::real(path, None).space().ok()?.total;
    let nqn = address.nqn;
    let device = nqn
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325, |h: u64, b| (h ^ u64::from(b)).wrapping_mul(0x0000_0100_0000_01b3));
    let mount = format!("the subsystem {nqn}");
    Some(Facts { device, domain: domain(path), mount, root: false, memory: false, total })
}

fn open(path: &Path) -> io::Result<Box<dyn RawDevice>> {
    let text = path.to_str().ok_or(ErrorKind::InvalidInput)?;
    let address: Address = text.parse().map_err(io_error)?;
    let options = {
        let mut known = HOST.lock();
        match &*known {
            Some(options) => options.clone(),
            None => known.insert(HostOptions::new().map_err(io_error)?).clone(),
        }
    };
    let namespace = RemoteNamespace::attach(&address, options).map_err(io_error)?;
    if u64::from(namespace.facts().block) > ashlar_machine::ALIGN as u64 {
        let why =
            format!("its blocks have {} bytes; those of drives have 4096 at most", namespace.facts().block);
        return Err(io::Error::new(ErrorKind::Unsupported, why));
    }
    let identity = namespace.facts().identity;
    if !IN_USE.lock().insert(identity) {
        let why = format!("the namespace {identity} is another drive of this process already");
        return Err(io::Error::new(ErrorKind::ResourceBusy, why));
    }
    Ok(Box::new(Remote(namespace)))
}

fn io_error(error: NvmeError) -> io::Error {
    io::Error::other(error)
}

struct Remote(RemoteNamespace);

impl Drop for Remote {
    fn drop(&mut self) {
        IN_USE.lock().remove(&self.0.facts().identity);
    }
}

impl RawDevice for Remote {
    fn size(&self) -> u64 {
        self.0.size()
    }

    fn read(&self, buf: &mut [u8], at: u64) -> io::Result<()> {
        self.0.read(at, buf).map_err(io_error)
    }

    fn write(&self, slices: &mut [IoSlice<'_>], at: u64) -> io::Result<()> {
        self.0.write_slices(at, slices).map_err(io_error)
    }

    fn flush(&self) -> io::Result<()> {
        self.0.flush().map_err(io_error)
    }

    fn discard(&self, at: u64, len: u64) {
        // It is a hint.
        let _ = self.0.discard(at, len);
    }
}
