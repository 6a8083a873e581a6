//! Documents of the management interface, and of faults in set-ups.
//!
//! Must not depend on: the process.

use ashlar_nvme_tcp::{AnaState, HostKeys, Known};
use serde::{Deserialize, Serialize};

/// A fault.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(tag = "fault", rename_all = "kebab-case", deny_unknown_fields)]
pub enum FaultSpec {
    /// The drive was pulled: its subsystem is not served.
    DriveGone {
        /// From 1.
        bay: usize,
    },
    /// Everything takes longer at the drive.
    SlowDrive {
        /// From 1.
        bay: usize,
        /// How many times longer, from 1 on.
        factor: f64,
    },
    /// A namespace of the drive does not exist any more.
    NamespaceLost {
        /// From 1.
        bay: usize,
        /// From 1.
        namespace: u32,
    },
    /// The port has no link: its connections are cut.
    PortDown {
        /// `A1`, for instance.
        port: String,
    },
    /// All ports of the module have no link.
    ModuleDown {
        /// `A`, for instance.
        module: String,
    },
    /// All ports have no link.
    EnclosureDown {},
    /// Reads of chosen blocks succeed with one bit that is wrong, until the block is written.
    CorruptRead {
        /// From 1.
        bay: usize,
        /// From 1.
        namespace: u32,
        /// Which blocks.
        #[serde(default)]
        blocks: Blocks,
    },
    /// Writes of chosen blocks succeed, and the block stays as it was.
    LostWrite {
        /// From 1.
        bay: usize,
        /// From 1.
        namespace: u32,
        /// Which blocks.
        #[serde(default)]
        blocks: Blocks,
    },
}

/// Which blocks of a namespace a fault concerns.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Blocks {
    /// The first block.
    pub first: u64,
    /// The last block; none: that of the namespace.
    pub last: Option<u64>,
    /// The share of them, 0 to 1, that a hash chooses.
    pub rate: f64,
    /// The seed of the hash; none: that of the set-up.
    pub seed: Option<u64>,
    /// How often a block is hit at most; 0: always; none: once for a lost write, always for a corrupt read.
    pub times: Option<u32>,
    /// How many hits there are in all, over all blocks; none: no limit. Which blocks are hit then depends on the order of commands.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<u64>,
}

impl Default for Blocks {
    fn default() -> Blocks {
        Blocks { first: 0, last: None, rate: 1.0, seed: None, times: None, limit: None }
    }
}

/// How namespaces are accessed through ports (asymmetric namespace access), in calls and in set-ups.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AnaSpec {
    /// A port (`A1`) or all ports of a module (`A`); none: all ports.
    #[serde(default)]
    pub at: Option<String>,
    /// `BAY/NAMESPACE`, or `BAY` for all of a drive; `{1...4}` works. Empty: all namespaces.
    #[serde(default)]
    pub namespaces: Vec<String>,
    /// The state that they have.
    pub state: AnaState,
}

/// Namespaces that have the same ANA state at a port.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct AnaEntry {
    /// The port.
    pub port: String,
    /// Its module.
    pub module: String,
    /// The state.
    pub state: AnaState,
    /// `BAY/NAMESPACE`, in order.
    pub namespaces: Vec<String>,
}

/// A change.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(tag = "call", rename_all = "snake_case", deny_unknown_fields)]
pub enum Call {
    /// Adds a fault.
    Inject {
        /// Which.
        fault: FaultSpec,
    },
    /// Ends faults.
    Clear {
        /// Their numbers; none: all.
        ids: Vec<u32>,
    },
    /// Sets how namespaces are accessed through ports.
    SetAna {
        /// Which, and how.
        ana: AnaSpec,
    },
    /// Turns the identify LED of a bay on or off.
    Locate {
        /// From 1.
        bay: usize,
        /// Whether it is on.
        on: bool,
    },
    /// Lets a host connect, or changes its secrets.
    SetHost {
        /// Its name.
        nqn: String,
        /// Its secrets.
        keys: HostKeys,
    },
    /// Lets a host connect no more; its connections end.
    RemoveHost {
        /// Its name.
        nqn: String,
    },
}

/// What a change did: the faults that were added or ended.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Answer {
    /// The faults.
    pub faults: Vec<Fault>,
}

/// A fault in force.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Fault {
    /// Its number, from 1; never used again.
    pub id: u32,
    /// What it is.
    pub spec: FaultSpec,
    /// Blocks that were hit, each time counted.
    pub hits: u64,
    /// The first of them, in order; at most 1024.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub blocks_hit: Vec<u64>,
}

/// An enclosure.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct State {
    /// Of the program.
    pub version: String,
    /// Since the start.
    pub uptime_s: u64,
    /// Of the enclosure.
    pub name: String,
    /// `data24` or `data60`.
    pub model: String,
    /// What it says that it is.
    pub title: String,
    /// N of 1:N.
    pub scale: f64,
    /// Of the set-up.
    pub seed: u64,
    /// `ONLINE`, `DEGRADED` (there are faults) or `DOWN` (no port is up).
    pub state: String,
    /// The ports.
    pub ports: Vec<Port>,
    /// The drives, by bay.
    pub drives: Vec<Drive>,
    /// Who sees what; none: every host sees everything.
    pub zones: Option<Vec<Zone>>,
    /// The hosts that may connect, and have to authenticate themselves; none: all may.
    #[serde(default)]
    pub hosts: Option<Vec<Known>>,
    /// The faults in force.
    pub faults: Vec<Fault>,
    /// How namespaces are accessed through each port: an entry for each state that there is.
    #[serde(default)]
    pub ana: Vec<AnaEntry>,
    /// Where Redfish is served; none: it is not.
    #[serde(default)]
    pub redfish: Option<String>,
}

/// Enclosure services: the elements of an enclosure, and the pages of SES-3 that show them.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Services {
    /// Of the enclosure.
    pub name: String,
    /// What it says that it is.
    pub title: String,
    /// By kind, in the order of their numbers.
    pub elements: Vec<Element>,
    /// Configuration, enclosure status, element descriptor, additional element status.
    pub pages: Vec<SesPage>,
}

/// An element of an enclosure.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Element {
    /// What it is.
    pub kind: ElementKind,
    /// Among those of its kind, from 1.
    pub number: usize,
    /// For people.
    pub name: String,
    /// How it is.
    pub status: ElementStatus,
    /// What it measures, in `unit`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<f64>,
    /// Of the value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unit: Option<String>,
    /// Its identify LED is on.
    pub identify: bool,
    /// Its fault LED is on.
    pub fault: bool,
    /// It may fail soon.
    pub predicted_failure: bool,
    /// It is part of a recorded sample that was measured on no enclosure; otherwise it is the state of the virtual enclosure.
    pub recorded: bool,
}

/// What an element is: its type in SES-3.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ElementKind {
    /// Array device slot: a bay.
    Slot,
    /// Power supply; its value is its output.
    PowerSupply,
    /// Cooling: a fan.
    Cooling,
    /// Temperature sensor.
    TemperatureSensor,
    /// Voltage sensor.
    VoltageSensor,
    /// Enclosure services controller electronics: a module.
    Module,
    /// The enclosure itself.
    Enclosure,
}

impl ElementKind {
    /// Its element type code.
    pub(crate) fn code(self) -> u8 {
        match self {
            ElementKind::Slot => 0x17,
            ElementKind::PowerSupply => 0x02,
            ElementKind::Cooling => 0x03,
            ElementKind::TemperatureSensor => 0x04,
            ElementKind::VoltageSensor => 0x12,
            ElementKind::Module => 0x07,
            ElementKind::Enclosure => 0x0e,
        }
    }

    /// Its name, for people.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            ElementKind::Slot => "Array device slot",
            ElementKind::PowerSupply => "Power supply",
            ElementKind::Cooling => "Cooling",
            ElementKind::TemperatureSensor => "Temperature sensor",
            ElementKind::VoltageSensor => "Voltage sensor",
            ElementKind::Module => "Module",
            ElementKind::Enclosure => "Enclosure",
        }
    }

    /// The unit of its value.
    pub(crate) fn unit(self) -> Option<&'static str> {
        match self {
            ElementKind::Slot | ElementKind::TemperatureSensor => Some("C"),
            ElementKind::PowerSupply => Some("W"),
            ElementKind::Cooling => Some("rpm"),
            ElementKind::VoltageSensor => Some("V"),
            ElementKind::Module | ElementKind::Enclosure => None,
        }
    }
}

/// How an element is: from the best to the worst, and one that is not there.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum ElementStatus {
    /// Nothing is there.
    NotInstalled,
    /// It works.
    Ok,
    /// It works, and needs attention.
    Noncritical,
    /// It failed.
    Critical,
}

impl ElementStatus {
    /// Its element status code.
    pub(crate) fn code(self) -> u8 {
        match self {
            ElementStatus::Ok => 1,
            ElementStatus::Critical => 2,
            ElementStatus::Noncritical => 3,
            ElementStatus::NotInstalled => 5,
        }
    }

    /// For people.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            ElementStatus::Ok => "OK",
            ElementStatus::Critical => "CRITICAL",
            ElementStatus::Noncritical => "NONCRITICAL",
            ElementStatus::NotInstalled => "NOT INSTALLED",
        }
    }
}

/// A diagnostic page of SES-3.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct SesPage {
    /// `02h`, for instance.
    pub code: String,
    /// Its name.
    pub name: String,
    /// Its bytes, in hexadecimal.
    pub hex: String,
}

/// What was read and written.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Use {
    /// Read commands since the start.
    pub reads: u64,
    /// Write commands since the start.
    pub writes: u64,
    /// Bytes since the start.
    pub bytes_read: u64,
    /// Bytes since the start.
    pub bytes_written: u64,
    /// Commands that failed since the start.
    pub errors: u64,
    /// Read commands in the last second.
    pub reads_per_s: u64,
    /// Write commands in the last second.
    pub writes_per_s: u64,
    /// Bytes in the last second.
    pub read_bytes_per_s: u64,
    /// Bytes in the last second.
    pub written_bytes_per_s: u64,
}

/// A port.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Port {
    /// `A1`, for instance.
    pub name: String,
    /// Where hosts reach it.
    pub address: String,
    /// `UP` or `DOWN`.
    pub state: String,
    /// Open connections.
    pub connections: u64,
    /// Controllers: hosts that are connected to drives.
    pub controllers: u64,
    /// Queues that were refused because their host may not connect, or was not authenticated; since the port came up.
    #[serde(default)]
    pub unauthenticated: u64,
    /// What passed.
    #[serde(flatten)]
    pub used: Use,
}

/// A drive.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Drive {
    /// From 1.
    pub bay: usize,
    /// `ONLINE`, `GONE`, `SLOW`, `THROTTLED`, or `FAULTY`: with damage that hosts cannot see.
    pub state: String,
    /// Its serial number.
    pub serial: String,
    /// Its model.
    #[serde(default)]
    pub model: String,
    /// The name of its subsystem.
    pub nqn: String,
    /// Degrees Celsius.
    pub celsius: f64,
    /// Degrees Celsius from which it is throttled.
    #[serde(default)]
    pub warning_celsius: f64,
    /// Degrees Celsius that it must not reach.
    #[serde(default)]
    pub critical_celsius: f64,
    /// What its SMART data says: `OK`, `WARNING` (hot, or little spare) or `CRITICAL` (too hot).
    #[serde(default)]
    pub health: String,
    /// Its spare is below the threshold.
    #[serde(default)]
    pub predicted_failure: bool,
    /// The identify LED of its bay is on.
    #[serde(default)]
    pub locate: bool,
    /// Commands in progress.
    pub depth: u64,
    /// Percentage used.
    pub percentage_used: u8,
    /// Spare in percent.
    pub spare: u8,
    /// Blocks that a fault returned with a wrong bit, since the start.
    #[serde(default)]
    pub corrupt_blocks: u64,
    /// Blocks whose write, zeroing or deallocation a fault answered without storing it, since the start.
    #[serde(default)]
    pub lost_blocks: u64,
    /// Blocks that it had not flushed when it was pulled, and lost, since the start.
    #[serde(default)]
    pub unflushed_blocks: u64,
    /// Its namespaces.
    pub namespaces: Vec<Namespace>,
    /// What it did.
    #[serde(flatten)]
    pub used: Use,
}

/// A namespace.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Namespace {
    /// From 1.
    pub nsid: u32,
    /// `ONLINE` or `LOST`.
    pub state: String,
    /// Bytes.
    pub size: u64,
    /// Bytes of a block.
    pub block: u32,
    /// NGUID and UUID.
    pub uuid: String,
    /// EUI-64.
    pub eui64: String,
}

/// Who sees what.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Zone {
    /// Its name.
    pub name: String,
    /// NQNs; `*`: every host.
    pub hosts: Vec<String>,
    /// `BAY/NAMESPACE`.
    pub namespaces: Vec<String>,
    /// Names of ports.
    pub ports: Vec<String>,
}
