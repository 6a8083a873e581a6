//! Documents of the management interface: what a process says about its groups, and what it can be asked to do.
//!
//! `GET /v1/state` answers [`State`]; `POST /v1/call` takes a [`Call`] and answers an [`Answer`], or an
//! [`crate::Error`] with a status of 400 and above.
//!
//! Invariants: sizes are bytes, times are milliseconds since 1970; fields are only added.
//!
//! Must not depend on: how groups work.

use std::path::PathBuf;

use ashlar_nvme_tcp::{HostKeys, Known, TlsMode};
use serde::{Deserialize, Serialize};

/// What a process says.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct State {
    /// The release of the program.
    pub version: String,
    /// Since it was started.
    pub uptime_s: u64,
    /// What computes parity: always the processor, and a GPU if one is used.
    pub controllers: Vec<Controller>,
    /// Its groups, by name.
    pub groups: Vec<Group>,
    /// Groups that are not in service although their drives were named, and why.
    pub out_of_service: Vec<OutOfService>,
    /// Its exports over NBD.
    pub nbd: Nbd,
    /// Its exports over NVMe/TCP.
    pub nvme: Nvme,
    /// Its exports to hypervisors; none: there are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vhost_user: Option<VhostUser>,
    /// Its exports as block devices of this machine; none: there are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ublk: Option<Ublk>,
}

/// What computes parity. No licence is bound to it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Controller {
    /// `cx0`: the processor; `cx1`: a GPU.
    pub name: String,
    /// `CPU` or `GPU`.
    pub kind: String,
    /// `ONLINE`.
    pub state: String,
    /// The processor's kernel, or the GPU and why it is used.
    pub engine: String,
    /// Groups whose requests it computes.
    pub requests: Vec<String>,
    /// Groups whose rebuilds it computes.
    pub rebuilds: Vec<String>,
}

/// A group that could not be opened.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct OutOfService {
    /// Its name, or that of a drive.
    pub name: String,
    /// Its drives that were named.
    pub paths: Vec<String>,
    /// Why it is not in service.
    pub why: String,
}

/// The NBD server.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Nbd {
    /// `HOST:PORT` or `unix:PATH`.
    pub endpoints: Vec<String>,
    /// `off`, `optional` or `required`.
    pub tls: String,
    /// Whether clients need a certificate.
    pub client_certificates: bool,
    /// Connections that are open.
    pub connections: u64,
    /// Read requests since the start, and their bytes.
    pub reads: u64,
    /// Bytes of read requests.
    pub bytes_read: u64,
    /// Write requests since the start.
    pub writes: u64,
    /// Bytes of write requests.
    pub bytes_written: u64,
}

/// The vhost-user-blk server.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct VhostUser {
    /// The folder with a socket for each virtual drive: `GROUP/NAME.sock`.
    pub folder: String,
    /// Hypervisors that are connected.
    pub connections: u64,
    /// Read requests since the start, and their bytes.
    pub reads: u64,
    /// Bytes of read requests.
    pub bytes_read: u64,
    /// Write requests since the start.
    pub writes: u64,
    /// Bytes of write requests.
    pub bytes_written: u64,
    /// Requests that were answered with an error.
    pub errors: u64,
}

/// The block devices of this machine (ublk).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Ublk {
    /// The folder with a link for each virtual drive: `GROUP/NAME`.
    pub folder: String,
    /// Block devices that there are.
    pub devices: u64,
    /// Those that were taken over from a process that had ended.
    pub recovered: u64,
    /// Read requests since the start, and their bytes.
    pub reads: u64,
    /// Bytes of read requests.
    pub bytes_read: u64,
    /// Write requests since the start.
    pub writes: u64,
    /// Bytes of write requests.
    pub bytes_written: u64,
    /// Requests that were answered with an error.
    pub errors: u64,
}

/// The NVMe/TCP target.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Nvme {
    /// `HOST:PORT`.
    pub endpoints: Vec<String>,
    /// Connections that are open.
    pub connections: u64,
    /// Controllers: hosts that are connected.
    pub controllers: u64,
    /// Whether connections have TLS: `off`; `allowed`, and hosts that have a key need it; or `required`.
    pub tls: TlsMode,
    /// The hosts that may connect, and have to authenticate themselves or to use TLS; none: all may.
    pub hosts: Option<Vec<Known>>,
    /// Queues that were refused because their host may not connect, was not authenticated, or did not begin TLS as it has to.
    pub unauthenticated: u64,
    /// Read commands since the start, and their bytes.
    pub reads: u64,
    /// Bytes of read commands.
    pub bytes_read: u64,
    /// Write commands since the start.
    pub writes: u64,
    /// Bytes of write commands.
    pub bytes_written: u64,
}

/// A drive group.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Group {
    /// Its name.
    pub name: String,
    /// Its identity.
    pub id: String,
    /// Its name as an NVMe subsystem.
    pub nqn: String,
    /// `OPTIMAL`, `PARTIALLY_DEGRADED`, `DEGRADED`, `RECOVERY`, `RESYNC`, `FAILED`; `INACTIVE`: no process was asked.
    pub state: String,
    /// `0`, `1`, `10`, `5`, `6`, `K+M`, `50xSETS`, `60xSETS`; `K+MsSPARES` is declustered.
    pub level: String,
    /// Data drives of a set; of a declustered group, of a stripe.
    pub data: u64,
    /// Drives of each set that may fail; of a declustered group, of all drives at a time.
    pub parity: u64,
    /// Sets; of a declustered group, stripes beside each other.
    pub sets: u64,
    /// Distributed spares: so many failed drives can be rebuilt into the drives that are left.
    pub distributed_spares: u64,
    /// How many of them have blocks of failed drives.
    pub distributed_spares_used: u64,
    /// Bytes of a strip.
    pub strip: u64,
    /// `journal`, `bitmap` or `none`.
    pub policy: String,
    /// What the policy costs and promises, in words.
    pub policy_note: String,
    /// Bytes for virtual drives, in all.
    pub size: u64,
    /// Bytes that no virtual drive has; if no process was asked, also what thin ones have without their maps.
    pub free: u64,
    /// `low`, `normal` or `high`.
    pub rebuild_speed: String,
    /// Who codes what a rebuild reads: the CPU with its kernel or a GPU, and why. The choice is made when the first rebuild
    /// begins.
    pub rebuild_coder: String,
    /// Its drives, by position.
    pub drives: Vec<Drive>,
    /// Its hot spares.
    pub spares: Vec<Drive>,
    /// Its virtual drives, in order of their position.
    pub volumes: Vec<Volume>,
    /// The rebuild that is going on.
    pub rebuild: Option<Task>,
    /// The resync that is going on: parity is made anew after an unclean stop without a journal. Its rows are those of all drives together.
    pub resync: Option<Task>,
    /// The growth that is going on. Until it ends, the shape and the size are those of before, but `drives` has the new ones.
    pub growth: Option<Growth>,
    /// The last consistency check, or the one that is going on.
    pub check: Option<Check>,
    /// Seconds between two checks that are started by themselves; 0: none is.
    pub check_interval_s: u64,
    /// When the next one is due.
    pub next_check_ms: Option<i64>,
    /// What it has counted since it was opened.
    pub counters: Counters,
}

/// What a group grows to.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Growth {
    /// The level that it will have.
    pub level: String,
    /// Data drives of a set.
    pub data: u64,
    /// Parity drives of a set.
    pub parity: u64,
    /// Sets.
    pub sets: u64,
    /// Bytes for virtual drives that it will have.
    pub size: u64,
    /// How far it is. Without a process: what the superblocks say; the journals may say that further rows are done.
    pub progress: Task,
}

/// A physical drive.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Drive {
    /// The name of its group; empty: it has none.
    pub group: String,
    /// Its position in the group; none: a hot spare.
    pub position: Option<u64>,
    /// `ONLINE`, `OFFLINE`, `FAILED`, `REBUILD`, `HOTSPARE`, `MISSING`.
    pub state: String,
    /// Its file, if it is known.
    pub path: Option<String>,
    /// The number of the distributed spare that has blocks of it.
    pub distributed_spare: Option<u64>,
    /// Its identity.
    pub id: String,
    /// Blocks that did not match their checksum, and were corrected, since the group was opened.
    pub corrected: u64,
    /// Why it is not online.
    pub why: Option<String>,
    /// What fails as a whole and takes it along, if that is known: the NVMe subsystem that it is a namespace of.
    pub failure_domain: Option<String>,
    /// The paths to it, if it is a namespace of an NVMe/TCP target that is attached.
    pub paths: Vec<Path>,
    /// What it measured of itself, if it is such a namespace and has answered.
    pub health: Option<Health>,
}

/// A path to a namespace.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Path {
    /// Its port: `HOST:PORT`.
    pub address: String,
    /// `live`; `connecting`: it is not connected; `lost`: and it is given up.
    pub state: String,
    /// `optimized`, `non-optimized`, `inaccessible`, `persistent-loss`, `change`; the last one that is known.
    pub ana_state: String,
    /// Why commands are not sent to it.
    pub why: Option<String>,
    /// How often its connection was lost.
    pub losses: u64,
    /// Commands that are on their way.
    pub in_flight: u64,
    /// Commands that were answered.
    pub commands: u64,
    /// The smoothed time of a command, in microseconds.
    pub latency_us: Option<u64>,
}

/// The health of a drive, as it says itself (NVMe log page 02h). Counts are those of its life.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Health {
    /// `spare`, `temperature`, `reliability`, `read-only`, `volatile-backup`, `persistent-memory`.
    pub warnings: Vec<String>,
    /// Degrees Celsius; none: it is not measured.
    pub temperature_c: Option<i64>,
    /// Percent of the spare space that is left.
    pub available_spare_percent: u8,
    /// Percent at which it warns.
    pub spare_threshold_percent: u8,
    /// Percent of its expected life that is used; may be above 100.
    pub percentage_used: u8,
    /// Bytes that hosts have read, in steps of 512,000.
    pub bytes_read: u64,
    /// Bytes that hosts have written, in steps of 512,000.
    pub bytes_written: u64,
    /// Times that power was switched on.
    pub power_cycles: u64,
    /// Hours with power.
    pub power_on_hours: u64,
    /// Losses of power without a shutdown.
    pub unsafe_shutdowns: u64,
    /// Times that data was not recovered.
    pub media_errors: u64,
    /// Entries of its error log.
    pub error_log_entries: u64,
}

/// A virtual drive.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Volume {
    /// The name of its group.
    pub group: String,
    /// Its name.
    pub name: String,
    /// The name under which clients find it.
    pub export: String,
    /// Its number as an NVMe namespace; 0: it has none.
    pub nsid: u32,
    /// Its identity, as hosts see it: NGUID and UUID.
    pub uuid: String,
    /// Where it is as a block device of this machine; none: it is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub block_device: Option<String>,
    /// Its bytes.
    pub size: u64,
    /// Its first byte in the group; of a thin one, that of its map.
    pub start: u64,
    /// It gets room only when it is written.
    pub thin: bool,
    /// Bytes of the group that it has, if it is thin; none: no process was asked, or it is not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allocated: Option<u64>,
    /// Why it is not served, if it is thin and its map is damaged.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub damage: Option<String>,
    /// Requests per second that its clients get at most, reads and writes together; 0: any number.
    pub iops_limit: u64,
    /// Bytes per second that they get at most, likewise.
    pub bandwidth_limit: u64,
    /// Microseconds that requests have waited because of these limits, of all together.
    pub limit_wait_us: u64,
    /// Read and write requests since the group was opened, and their bytes.
    pub reads: u64,
    /// Bytes that were read.
    pub bytes_read: u64,
    /// Write requests.
    pub writes: u64,
    /// Bytes that were written.
    pub bytes_written: u64,
    /// Requests that failed.
    pub errors: u64,
    /// What hosts over NVMe/TCP have registered and reserved; none: nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reservation: Option<Reservation>,
}

/// Registrants and reservation of a virtual drive (NVMe reservations).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Reservation {
    /// `write-exclusive`, `exclusive-access`, each also with `-registrants-only` or `-all-registrants`; none: hosts have registered, and
    /// nothing is reserved.
    #[serde(rename = "type")]
    pub kind: Option<String>,
    /// How often registrations have changed.
    pub generation: u32,
    /// Hosts that are registered, in the order of their registration.
    pub registrants: Vec<Registrant>,
}

/// A host that is registered with a virtual drive.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Registrant {
    /// Its name (NQN) when it registered.
    pub nqn: String,
    /// Its identifier (HOSTID), as a UUID.
    pub host_id: String,
    /// Its key, hexadecimal: `0x1`.
    pub key: String,
    /// Whether it holds the reservation.
    pub holder: bool,
}

/// Work in the background.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Task {
    /// The position of the drive, of a rebuild.
    pub position: Option<u64>,
    /// Its blocks go to a distributed spare, not to a drive at its position.
    pub to_spare: bool,
    /// Rows that are done.
    pub done: u64,
    /// Rows in all. A row is one block of 4 KiB on each drive.
    pub rows: u64,
    /// Bytes of one drive per second, of late.
    pub bytes_per_s: u64,
    /// Seconds until it is done, at that rate.
    pub eta_s: Option<u64>,
    /// Why it does not go on.
    pub why: Option<String>,
}

/// A consistency check.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Check {
    /// `RUNNING`, `DONE`, `STOPPED`, `FAILED`.
    pub state: String,
    /// `auto_fix` or `stop_on_error`.
    pub mode: String,
    /// When it began.
    pub began_ms: i64,
    /// When it ended.
    pub ended_ms: Option<i64>,
    /// How far it is.
    pub progress: Task,
    /// Rows that were wrong.
    pub mismatches: u64,
    /// Of those, rows that were corrected.
    pub fixed: u64,
    /// The first of them.
    pub first: Vec<Mismatch>,
}

/// A row that was wrong.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Mismatch {
    /// The set.
    pub set: u64,
    /// The row.
    pub row: u64,
    /// The positions of the drives whose blocks are wrong; empty if every block matches its checksum and the row does not match
    /// its parity.
    pub positions: Vec<u64>,
    /// It was corrected.
    pub fixed: bool,
}

/// What a group has counted since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Counters {
    /// Blocks that did not match their checksum, and were corrected.
    pub corrected: u64,
    /// Pages of checksums that were lost.
    pub pages_lost: u64,
    /// Entries of the journal that were applied when the group was opened.
    pub replayed: u64,
    /// Entries that were incomplete and therefore dropped.
    pub dropped: u64,
    /// Rows whose parity was made anew when the group was opened.
    pub resynced: u64,
    /// Rows that could not be made consistent after an unclean stop.
    pub unprotected: u64,
    /// Blocks of 4 KiB read from drives.
    pub blocks_read: u64,
    /// Blocks of 4 KiB written to data areas of drives.
    pub blocks_written: u64,
}

/// A new group.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NewGroup {
    /// Its name; none: the next free `dgN`.
    pub name: Option<String>,
    /// Its level, as [`ashlar_raid::Level`] reads it.
    pub level: String,
    /// Bytes of a strip.
    pub strip: u64,
    /// `journal`, `bitmap` or `none`.
    pub policy: String,
    /// Bytes of each drive's journal.
    pub journal: u64,
    /// Its drives, in order.
    pub drives: Vec<PathBuf>,
    /// Its hot spares.
    pub spares: Vec<PathBuf>,
    /// Drives that are overwritten although they have the signature of something else.
    pub force: bool,
    /// Drives of one set may fail together: namespaces of one NVMe subsystem.
    #[serde(default)]
    pub shared_domains: bool,
}

/// A new virtual drive.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct NewVolume {
    /// The group.
    pub group: String,
    /// The name; none: the next free `vdN`.
    pub name: Option<String>,
    /// Its bytes; none: all that is free in one piece.
    pub size: Option<u64>,
    /// Requests per second that its clients get at most; 0: any number.
    #[serde(default)]
    pub iops_limit: u32,
    /// Bytes per second that they get at most; 0: any number.
    #[serde(default)]
    pub bandwidth_limit: u64,
    /// It gets room only when it is written; it needs a size.
    #[serde(default)]
    pub thin: bool,
}

/// A state that an operator gives a drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Marker {
    /// Out of service.
    Offline,
    /// In service again: it is rebuilt.
    Online,
    /// A hot spare.
    Hotspare,
}

/// How fast groups are rebuilt and checked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Speed {
    /// A tenth of the time.
    Low,
    /// Half of the time while there are requests, else all of it.
    #[default]
    Normal,
    /// All of the time.
    High,
}

/// What a check does about what it finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CheckMode {
    /// Wrong blocks are reconstructed and written again.
    AutoFix,
    /// The check ends at the first row that is wrong, and changes nothing.
    StopOnError,
}

/// What a process is asked to do. Drives are named `GROUP/POSITION` or by their path, virtual drives `GROUP/NAME`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "call", rename_all = "snake_case")]
pub enum Call {
    /// Make a group and put it in service.
    CreateGroup(NewGroup),
    /// Put groups in service.
    ImportGroups {
        /// Drives of these groups.
        drives: Vec<PathBuf>,
        /// Although drives are missing.
        without_missing: bool,
    },
    /// Take a group out of service, everything durable; its drives can be opened elsewhere.
    StopGroup {
        /// The group.
        group: String,
    },
    /// Delete a group.
    DeleteGroup {
        /// The group.
        group: String,
        /// Although it has virtual drives.
        force: bool,
    },
    /// Make a virtual drive.
    CreateVolume(NewVolume),
    /// Set what the clients of a virtual drive get at most, reads and writes together.
    LimitVolume {
        /// The virtual drive.
        volume: String,
        /// Requests per second; 0: any number; none: as it is.
        #[serde(default)]
        iops: Option<u32>,
        /// Bytes per second; 0: any number; none: as it is.
        #[serde(default)]
        bandwidth: Option<u64>,
    },
    /// Make a virtual drive larger where it is.
    GrowVolume {
        /// The virtual drive.
        volume: String,
        /// Its bytes afterwards; none: all that is free behind it.
        size: Option<u64>,
    },
    /// Make a virtual drive smaller: what is behind its new end is lost.
    ShrinkVolume {
        /// The virtual drive.
        volume: String,
        /// Its bytes afterwards.
        size: u64,
        /// Although that destroys data.
        #[serde(default)]
        force: bool,
    },
    /// Remove the reservation of a virtual drive and all registrations of hosts over NVMe/TCP.
    ClearReservation {
        /// The virtual drive.
        volume: String,
    },
    /// Delete a virtual drive and what it holds.
    DeleteVolume {
        /// The virtual drive.
        volume: String,
    },
    /// Set the marker of a drive.
    Mark {
        /// The drive.
        drive: String,
        /// The marker.
        marker: Marker,
        /// The group, of a new hot spare; none: the only one.
        group: Option<String>,
        /// Although the drive has the signature of something else.
        force: bool,
    },
    /// Remove a hot spare.
    DeleteDrive {
        /// The drive.
        drive: String,
    },
    /// Put a drive in the place of another one.
    Replace {
        /// The drive that goes.
        old: String,
        /// The drive that comes.
        new: PathBuf,
        /// Although the new one has the signature of something else.
        force: bool,
        /// Although it fails together with another drive of its set.
        #[serde(default)]
        shared_domains: bool,
    },
    /// Add drives to a group, and give it another level, while it is in use.
    GrowGroup {
        /// The group.
        group: String,
        /// The new level, as [`ashlar_raid::Level`] reads it; none: the same.
        level: Option<String>,
        /// The drives: new ones, or hot spares of the group.
        drives: Vec<PathBuf>,
        /// Although they have the signature of something else.
        #[serde(default)]
        force: bool,
        /// Although they fail together with other drives of their set.
        #[serde(default)]
        shared_domains: bool,
    },
    /// Start a consistency check.
    StartCheck {
        /// The group.
        group: String,
        /// What it does about what it finds.
        mode: CheckMode,
    },
    /// Stop it.
    StopCheck {
        /// The group.
        group: String,
    },
    /// Set how fast a group is rebuilt and checked.
    SetSpeed {
        /// The group.
        group: String,
        /// How fast.
        speed: Speed,
    },
    /// Set how often a group is checked by itself.
    SetCheckInterval {
        /// The group.
        group: String,
        /// Seconds between the starts of two checks; 0: only when one is asked for.
        seconds: u32,
    },
    /// Let a host connect over NVMe/TCP, or change its secrets.
    SetHost {
        /// Its name.
        nqn: String,
        /// Its secrets, and its key of TLS.
        keys: HostKeys,
    },
    /// Let a host connect no more; its connections end.
    RemoveHost {
        /// Its name.
        nqn: String,
    },
}

/// What was done.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Answer {
    /// The groups that it concerns, as they are now.
    pub groups: Vec<Group>,
    /// The virtual drive that was made.
    pub volume: Option<Volume>,
    /// The host of NVMe/TCP that may connect from now on.
    pub host: Option<Known>,
}
