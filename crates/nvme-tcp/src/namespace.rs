//! What is served: subsystems with namespaces.
//!
//! Must not depend on: the protocol.

use std::net::SocketAddr;
use std::sync::Arc;

use crate::ana::AnaState;
use crate::auth::Admission;
use crate::reservation::Reservations;
use crate::tls::TlsMode;

/// The name of the discovery subsystem (Base 4.5), which every listener has.
pub const DISCOVERY: &str = "nqn.2014-08.org.nvmexpress.discovery";

/// Why a request failed, as far as NVMe can say it to the host.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// Data is lost, or cannot be stored there: a repetition fails too.
    Media,
    /// The device failed: a repetition may succeed.
    Internal,
    /// The namespace is not there any more.
    Gone,
    /// There is no space for the data.
    NoSpace,
    /// The range is outside of the namespace.
    Range,
}

/// A block device. Calls come from several threads at once; ranges are whole blocks inside of it, in bytes.
pub trait Namespace: Send + Sync {
    /// Bytes of a block: 512 or 4096.
    fn block(&self) -> u32;

    /// Blocks.
    fn blocks(&self) -> u64;

    /// Its identity, the same over restarts and for every host: that of its NGUID and of its UUID (RFC 9562).
    fn id(&self) -> [u8; 16];

    /// Its EUI-64, if it has one: the same over restarts and for every host.
    fn eui64(&self) -> Option<[u8; 8]> {
        None
    }

    /// Its blocks that have room, if it gets room only when it is written (thin provisioning). None: it has all of its size.
    fn used(&self) -> Option<u64> {
        None
    }

    /// Whether changes are refused.
    fn read_only(&self) -> bool {
        false
    }

    /// Its reservations: the same for every host, controller and port. None: hosts cannot reserve it.
    fn reservations(&self) -> Option<&Reservations> {
        None
    }

    /// Fills `out` with what is at `at`.
    ///
    /// # Errors
    /// [`Fault`].
    fn read(&self, at: u64, out: &mut [u8]) -> Result<(), Fault>;

    /// Writes; `durable`: before the return (FUA).
    ///
    /// # Errors
    /// [`Fault`].
    fn write(&self, at: u64, data: Vec<u8>, durable: bool) -> Result<(), Fault>;

    /// Makes every write that has returned durable, whichever queue it came from.
    ///
    /// # Errors
    /// [`Fault`].
    fn flush(&self) -> Result<(), Fault>;

    /// Makes a range read as zeros. `keep`: its space stays allocated, if the device can do that.
    ///
    /// # Errors
    /// [`Fault`].
    fn zero(&self, at: u64, len: u64, keep: bool, durable: bool) -> Result<(), Fault>;

    /// The content of a range is not needed any more; it reads as zeros.
    ///
    /// # Errors
    /// [`Fault`].
    fn trim(&self, at: u64, len: u64) -> Result<(), Fault>;
}

/// What a device knows about itself: log page 02h, SMART / Health Information (Base 5.16.1.3).
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Health {
    /// Critical Warning: bit 0 spare is below the threshold, 1 temperature, 2 reliability, 3 read-only.
    pub critical_warning: u8,
    /// Composite temperature in kelvins; 0: not known.
    pub kelvins: u16,
    /// Available spare, in percent.
    pub spare: u8,
    /// Spare below which it warns, in percent.
    pub spare_threshold: u8,
    /// Percentage used: of the writes that it is made for; 255 at most.
    pub used: u8,
    /// Bytes that were read.
    pub bytes_read: u64,
    /// Bytes that were written.
    pub bytes_written: u64,
    /// Read commands.
    pub reads: u64,
    /// Write commands.
    pub writes: u64,
    /// Minutes in which it worked.
    pub busy_minutes: u64,
    /// Power cycles.
    pub power_cycles: u64,
    /// Hours under power.
    pub hours: u64,
    /// Losses of power without a shutdown.
    pub unsafe_shutdowns: u64,
    /// Errors of the medium.
    pub media_errors: u64,
    /// Temperature from which it warns, in kelvins; 0: none.
    pub warning_kelvins: u16,
    /// Temperature above which it may fail, in kelvins; 0: none.
    pub critical_kelvins: u16,
    /// Minutes at the warning temperature and above.
    pub warning_minutes: u32,
}

/// Namespaces that hosts see together, under one name.
pub trait Subsystem: Send + Sync {
    /// Its NVMe qualified name (NQN), at most 223 bytes; no other subsystem in the world has it.
    fn nqn(&self) -> String;

    /// Its serial number: at most 20 printable ASCII characters.
    fn serial(&self) -> String;

    /// Its model: at most 40 printable ASCII characters.
    fn model(&self) -> String;

    /// Numbers of its namespaces, ascending; each is 1 to 0xffff_fffe, and stays that of its namespace.
    fn namespaces(&self) -> Vec<u32>;

    /// The namespace of a number.
    fn namespace(&self, nsid: u32) -> Option<Arc<dyn Namespace>>;

    /// What the device says about its health. None: the log page has what the controller has counted.
    fn health(&self) -> Option<Health> {
        None
    }

    /// Whether it is still served. Controllers of a subsystem that is not are ended.
    fn in_service(&self) -> bool;

    /// How many ANA groups there are: namespaces whose access changes together. Their numbers are 1 to this; 1 to 1024, always the same.
    fn ana_groups(&self) -> u32 {
        1
    }

    /// The ANA group of a namespace. It stays that of the namespace.
    fn ana_group(&self, _nsid: u32) -> u32 {
        1
    }

    /// How an ANA group is accessed through a port: an address of the server, as [`crate::Server::addresses`] has it. It may change at
    /// any time.
    fn ana_state(&self, _port: SocketAddr, _group: u32) -> AnaState {
        AnaState::Optimized
    }
}

/// A subsystem at a port, as discovery tells a host.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DiscoveryRecord {
    /// Its name (NQN).
    pub nqn: String,
    /// The number of the port (PORTID), from 1.
    pub port: u16,
    /// The address of the port.
    pub address: SocketAddr,
}

/// The subsystems that are served. They may change at any time.
pub trait Subsystems: Send + Sync {
    /// All of them.
    fn list(&self) -> Vec<Arc<dyn Subsystem>>;

    /// The subsystem of a name.
    fn open(&self, nqn: &str) -> Option<Arc<dyn Subsystem>> {
        self.list().into_iter().find(|s| s.nqn() == nqn)
    }

    /// The subsystem of a name, for a host that connects to it. Each controller opens its own.
    fn open_for(&self, nqn: &str, _host: &str) -> Option<Arc<dyn Subsystem>> {
        self.open(nqn)
    }

    /// Whether a host may connect to subsystems, by its NQN. The discovery subsystem is open to all. It may change at any time: controllers of
    /// a host that is refused end.
    fn admission(&self, _host: &str) -> Admission {
        Admission::Open
    }

    /// Whether connections have TLS. It may change at any time, and counts for connections that begin.
    fn tls(&self) -> TlsMode {
        TlsMode::Off
    }

    /// What discovery tells a host, by its NQN. None: all subsystems, at the addresses of this server.
    fn discovery_records(&self, _host: &str) -> Option<Vec<DiscoveryRecord>> {
        None
    }
}

/// A namespace as hosts know it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Summary {
    /// Its number.
    pub nsid: u32,
    /// Its identity.
    pub id: [u8; 16],
    /// Its blocks.
    pub blocks: u64,
}

impl Summary {
    /// Those of a subsystem.
    #[must_use]
    pub fn of(subsystem: &dyn Subsystem) -> Vec<Summary> {
        let numbers = subsystem.namespaces().into_iter();
        numbers
            .filter_map(|nsid| {
                let namespace = subsystem.namespace(nsid)?;
                Some(Summary { nsid, id: namespace.id(), blocks: namespace.blocks() })
            })
            .collect()
    }
}
