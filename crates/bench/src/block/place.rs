//! What a load of blocks reads and writes: a drive of this machine, or a namespace of an NVMe/TCP target.
//!
//! Invariant: a handle is used by one thread; what several handles do is independent.
//!
//! Must not depend on: the load.

use std::{fs::File, io, os::unix::fs::FileExt as _};

use ashlar_nvme_tcp::host::{Address, HostOptions, RemoteNamespace};

use super::target::Target;
use crate::error::{Error, Result};

/// Something with positions that can be read and written.
pub trait Place: Sync {
    /// Its name: a path or an address.
    fn name(&self) -> String;

    /// Bytes that are read and written.
    fn size(&self) -> u64;

    /// Something that one thread reads and writes with.
    ///
    /// # Errors
    /// The error of opening.
    fn handle(&self) -> io::Result<Box<dyn Handle + '_>>;

    /// Makes everything that was written durable.
    ///
    /// # Errors
    /// The error of the place.
    fn sync(&self) -> io::Result<()>;
}

/// Reads and writes whole blocks.
pub trait Handle: Send {
    /// Fills `out` with the bytes at a position.
    ///
    /// # Errors
    /// The error of the place.
    fn read(&self, out: &mut [u8], at: u64) -> io::Result<()>;

    /// Writes bytes at a position.
    ///
    /// # Errors
    /// The error of the place.
    fn write(&self, data: &[u8], at: u64) -> io::Result<()>;
}

impl Handle for File {
    fn read(&self, out: &mut [u8], at: u64) -> io::Result<()> {
        self.read_exact_at(out, at)
    }

    fn write(&self, data: &[u8], at: u64) -> io::Result<()> {
        self.write_all_at(data, at)
    }
}

impl Place for Target {
    fn name(&self) -> String {
        self.path.display().to_string()
    }

    fn size(&self) -> u64 {
        self.size
    }

    fn handle(&self) -> io::Result<Box<dyn Handle + '_>> {
        Ok(Box::new(Target::handle(self)?))
    }

    fn sync(&self) -> io::Result<()> {
        Target::sync(self)
    }
}

/// A namespace of a target.
pub struct Namespace {
    remote: RemoteNamespace,
    name: String,
    size: u64,
}

impl Namespace {
    /// Attaches the namespace at an address (`nvme-tcp://HOST:PORT/NQN/NSID`), as this host if one is named, with so many I/O queues. At most
    /// the first `size` bytes are used, in whole MiB.
    ///
    /// # Errors
    /// [`Error::Usage`] for a text that is no address; [`Error::Setup`] if it cannot be attached.
    pub fn attach(address: &str, host: Option<&str>, queues: u16, size: u64) -> Result<Namespace> {
        let at: Address = address.parse().map_err(|e| Error::usage(format!("{e}")))?;
        let failed = |e: ashlar_nvme_tcp::Error| Error::setup(format!("{address}: {e}"));
        let mut options = HostOptions::new().map_err(failed)?;
        if let Some(host) = host {
            host.clone_into(&mut options.host_nqn);
        }
        options.queues = queues;
        let remote = RemoteNamespace::attach(&at, options).map_err(failed)?;
        let size = remote.size().min(size) >> 20 << 20;
        Ok(Namespace { remote, name: address.to_owned(), size })
    }
}

impl Place for Namespace {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn size(&self) -> u64 {
        self.size
    }

    fn handle(&self) -> io::Result<Box<dyn Handle + '_>> {
        Ok(Box::new(&self.remote))
    }

    fn sync(&self) -> io::Result<()> {
        self.remote.flush().map_err(io::Error::other)
    }
}

impl Handle for &RemoteNamespace {
    fn read(&self, out: &mut [u8], at: u64) -> io::Result<()> {
        RemoteNamespace::read(self, at, out).map_err(io::Error::other)
    }

    fn write(&self, data: &[u8], at: u64) -> io::Result<()> {
        RemoteNamespace::write(self, at, data).map_err(io::Error::other)
    }
}
