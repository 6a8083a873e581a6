//! What the verbs are about: `pd` (physical drive), `dg` (drive group), `vd` (virtual drive), with their long names, and the
//! options of each.
//!
//! Must not depend on: what the verbs do.

use clap::{Args, Subcommand, ValueEnum};

use crate::fabric::secrets::HostOptions;

/// Lists.
#[derive(Subcommand, Debug)]
pub enum List {
    /// List physical drives
    #[command(visible_alias = "physical_drive")]
    Pd(Among),
    /// List drive groups
    #[command(visible_alias = "drive_group")]
    Dg(Among),
    /// List virtual drives
    #[command(visible_alias = "virtual_drive")]
    Vd(Among),
    /// List what computes parity: the processor, and a GPU if one is used
    #[command(visible_alias = "controller")]
    Cx,
    /// List the hosts that may connect over NVMe/TCP
    Host,
}

/// Where to look.
#[derive(Args, Debug)]
pub struct Among {
    /// Look at these drives, or folders with drives, instead of asking the process
    #[arg(value_name = "DRIVE|DIR")]
    pub drives: Vec<String>,
}

/// Descriptions.
#[derive(Subcommand, Debug)]
pub enum Describe {
    /// Show a physical drive
    #[command(visible_alias = "physical_drive")]
    Pd {
        /// The drive: GROUP/POSITION, or the path of its file or device, which is read if no process has it
        drive: String,
    },
    /// Show a drive group with its drives and virtual drives
    #[command(visible_alias = "drive_group")]
    Dg {
        /// The group
        group: String,
        /// Look at these drives, or folders with drives, instead of asking the process
        #[arg(value_name = "DRIVE|DIR")]
        drives: Vec<String>,
    },
    /// Show a virtual drive
    #[command(visible_alias = "virtual_drive")]
    Vd {
        /// The virtual drive: GROUP/NAME, or NAME if only one group has it
        volume: String,
    },
    /// Show what computes parity
    #[command(visible_alias = "controller")]
    Cx {
        /// Its name, for instance cx0
        controller: String,
    },
    /// Show the last consistency check of a group
    #[command(name = "consistency_check", visible_alias = "cc")]
    ConsistencyCheck {
        /// The group
        group: String,
    },
}

/// New things.
#[derive(Subcommand, Debug)]
pub enum Create {
    /// Create files to be used as drives
    #[command(visible_alias = "physical_drive")]
    Pd {
        /// The files; {1...8} works
        #[arg(required = true, value_name = "FILE")]
        files: Vec<String>,
        /// Bytes of each
        #[arg(long, value_name = "SIZE")]
        size: String,
    },
    /// Create a drive group
    #[command(visible_alias = "drive_group", after_long_help = GROUP)]
    Dg(GroupOptions),
    /// Create a virtual drive
    #[command(visible_alias = "virtual_drive")]
    Vd {
        /// The group
        group: String,
        /// Its size, for instance 10GiB [default: all that is free in one piece]
        size: Option<String>,
        /// Its name [default: the next free vdN]
        #[arg(long)]
        name: Option<String>,
        /// Give it room only when it is written; it may be larger than what is free, and needs a size
        #[arg(long, requires = "size")]
        thin: bool,
        /// Requests per second that its clients get at most, reads and writes together
        #[arg(long, value_name = "NUMBER")]
        iops_limit: Option<u32>,
        /// Bytes per second that its clients get at most, for instance 200MiB
        #[arg(long, value_name = "SIZE")]
        bandwidth_limit: Option<String>,
    },
    /// Let a host connect over NVMe/TCP with a secret, a key of TLS or both, or change them
    Host(HostOptions),
}

/// The help text after the options of a new group.
const GROUP: &str = "\
Levels: raid0, raid1, raid10, raid5, raid6, raid50, raid60 (or 0, 1, ...; 50x3 has three sets), and K+M, for instance 8+3. \
With --stripe-width or --distributed-spares a group of raid5, raid6 or K+M is declustered: its stripes are narrower than the group and in turn \
on all drives, and failed drives are rebuilt at once into room that is distributed over the others. \
The process that owns groups makes the group and puts it in service; if there is none, the group is made and left for \
`ashlar array serve`. Policies: `journal` closes the write hole in every state and writes changed blocks twice; `bitmap` and \
`none` do not protect a degraded group from a loss of power.

Examples:
  ashlar array create dg raid5 /dev/nvme{0...7}n1
  ashlar array create dg 8+3 /mnt/disk{1...11}/member --name tank --strip 128KiB
  ashlar array create dg raid6 /mnt/disk{1...6}/member --spare /mnt/disk7/member
  ashlar array create dg raid6 /dev/nvme{0...23}n1 --stripe-width 11 --distributed-spares 2";

/// A new group.
#[derive(Args, Debug)]
pub struct GroupOptions {
    /// The level
    pub level: String,
    /// The drives, in order: block devices, files or nvme-tcp:// addresses; {1...8} works
    #[arg(required = true, value_name = "DRIVE")]
    pub drives: Vec<String>,
    /// Its name [default: the next free dgN]
    #[arg(long)]
    pub name: Option<String>,
    /// Bytes of a strip: 4KiB to 1MiB, a power of two
    #[arg(long, short, value_name = "SIZE", default_value = "64KiB")]
    pub strip: String,
    /// How data and parity stay consistent over a loss of power: journal, bitmap or none
    #[arg(long, default_value = "journal")]
    pub policy: String,
    /// Bytes of each drive's journal
    #[arg(long, value_name = "SIZE", default_value = "32MiB")]
    pub journal: String,
    /// A hot spare; may be repeated
    #[arg(long, value_name = "DRIVE")]
    pub spare: Vec<String>,
    /// Make a declustered group with stripes of so many drives, parity included [default: K+M of the level]
    #[arg(long, value_name = "DRIVES")]
    pub stripe_width: Option<u8>,
    /// Make a declustered group with room for the blocks of so many failed drives [default: the least that is left beside whole stripes]
    #[arg(long, value_name = "NUMBER")]
    pub distributed_spares: Option<u8>,
    /// Overwrite drives that have the signature of a file system, a partition table or another array; never one in use
    #[arg(long)]
    pub force: bool,
    /// Permit several namespaces of one NVMe subsystem, or partitions of one disk, in one set: they are lost together
    #[arg(long)]
    pub allow_shared_drive: bool,
}

/// What is deleted.
#[derive(Subcommand, Debug)]
pub enum Delete {
    /// Remove a hot spare from its group; the file or device stays
    #[command(visible_alias = "physical_drive")]
    Pd {
        /// The path of its file or device
        drive: String,
    },
    /// Delete a drive group; its files and devices stay, without their content
    #[command(visible_alias = "drive_group")]
    Dg {
        /// The group
        group: String,
        /// Although it has virtual drives
        #[arg(long)]
        force: bool,
    },
    /// Delete a virtual drive and what it holds
    #[command(visible_alias = "virtual_drive")]
    Vd {
        /// The virtual drive: GROUP/NAME, or NAME if only one group has it
        volume: String,
    },
    /// Let a host connect over NVMe/TCP no more; its connections end
    Host {
        /// The name of the host
        #[arg(value_name = "NQN", value_parser = crate::fabric::nqn)]
        nqn: String,
    },
}

/// What is changed.
#[derive(Subcommand, Debug)]
pub enum Edit {
    /// Take a drive out of service, put it back, or make it a hot spare
    #[command(visible_alias = "physical_drive")]
    Pd {
        /// The drive: GROUP/POSITION, or the path of its file or device
        drive: String,
        /// What is changed
        #[arg(value_name = "marker")]
        what: PdProperty,
        /// Its new value
        marker: Marker,
        /// The group of a new hot spare; may be left out if there is only one
        #[arg(long)]
        group: Option<String>,
        /// Overwrite a new hot spare that has the signature of something else
        #[arg(long)]
        force: bool,
    },
    /// Set how fast a group is rebuilt and checked, or how often it is checked by itself
    #[command(visible_alias = "drive_group")]
    Dg {
        /// The group
        group: String,
        /// What is changed
        what: DgProperty,
        /// Its new value: low, normal or high; an interval, for instance 7d, or off
        value: String,
    },
    /// Set how much the clients of a virtual drive get at most, or remove the reservation of NVMe/TCP hosts
    #[command(visible_alias = "virtual_drive", after_long_help = EDIT_VD)]
    Vd {
        /// The virtual drive: GROUP/NAME, or NAME if only one group has it
        volume: String,
        /// What is changed
        what: VdProperty,
        /// Its new value: a number of requests, a size, for instance 200MiB, or off; of the reservation: clear
        value: String,
    },
}

/// The help text after the limits of a virtual drive.
const EDIT_VD: &str = "\
Limits are for reads and writes together, for all clients and exports, and count at once and after restarts. A request beyond them waits; up to a \
tenth of a second in which less was asked is caught up on. Other virtual drives are not held up, except those of one group that an NVMe host \
reaches through the same queue.

Examples:
  ashlar array edit vd tank/data iops_limit 5000
  ashlar array edit vd tank/data bandwidth_limit 200MiB
  ashlar array edit vd tank/data iops_limit off
  ashlar array edit vd tank/data reservation clear";

/// A property of a physical drive.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum PdProperty {
    /// Whether it is in service.
    Marker,
}

/// A property of a drive group.
#[derive(Clone, Copy, Debug, ValueEnum)]
#[value(rename_all = "snake_case")]
pub enum DgProperty {
    /// How fast it is rebuilt and checked: low, normal or high.
    RebuildSpeed,
    /// Time from the start of a consistency check to the start of the next, for instance 7d; off: only when one is asked for.
    CheckInterval,
}

/// A property of a virtual drive.
#[derive(Clone, Copy, Debug, ValueEnum)]
#[value(rename_all = "snake_case")]
pub enum VdProperty {
    /// Requests per second at most, reads and writes together; off: any number.
    IopsLimit,
    /// Bytes per second at most, for instance 200MiB; off: any number.
    BandwidthLimit,
    /// What NVMe/TCP hosts have registered and reserved. clear: it is removed, and registered hosts are told.
    Reservation,
}

/// Markers.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Marker {
    /// Out of service.
    Offline,
    /// In service again; it is rebuilt from its first block on.
    Online,
    /// A hot spare.
    Hotspare,
}

/// Speeds.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Speed {
    /// A tenth of the time.
    Low,
    /// Half of the time while there are requests, else all of it.
    Normal,
    /// All of the time.
    High,
}

/// What is replaced.
#[derive(Subcommand, Debug)]
pub enum Replace {
    /// Replace a drive; it is taken out of service first if it is not already
    #[command(visible_alias = "physical_drive")]
    Pd {
        /// The drive that goes: GROUP/POSITION, or the path of its file or device
        old: String,
        /// The file or device that comes
        new: String,
        /// Overwrite a file or device that has the signature of something else
        #[arg(long)]
        force: bool,
        /// Permit a namespace of an NVMe subsystem, or a partition of a disk, that the set has another one of: they are lost together
        #[arg(long)]
        allow_shared_drive: bool,
    },
}

/// What grows.
#[derive(Subcommand, Debug)]
pub enum Grow {
    /// Add drives to a drive group, and give it another level, while it is in use
    #[command(visible_alias = "drive_group", after_long_help = GROW)]
    Dg(GrowOptions),
    /// Make a virtual drive larger, while it is in use
    #[command(visible_alias = "virtual_drive", after_long_help = GROW_VD)]
    Vd {
        /// The virtual drive: GROUP/NAME, or NAME if only one group has it
        volume: String,
        /// Its size afterwards, for instance 20GiB [default: all that is free behind it]
        size: Option<String>,
    },
}

/// What becomes smaller.
#[derive(Subcommand, Debug)]
pub enum Shrink {
    /// Make a virtual drive smaller, while it is in use; what is behind its new end is lost
    #[command(visible_alias = "virtual_drive", after_long_help = SHRINK_VD)]
    Vd {
        /// The virtual drive: GROUP/NAME, or NAME if only one group has it
        volume: String,
        /// Its size afterwards, for instance 20GiB
        size: String,
        /// Destroy what it has behind that
        #[arg(long)]
        force: bool,
    },
}

/// The help text after the options of a virtual drive that becomes smaller.
const SHRINK_VD: &str = "\
Make what is on it smaller first: file systems do not notice. Requests behind the new end fail at once; clients over NBD see the size when they connect \
again, hosts over NVMe/TCP at once. One that is a block device of this machine (ublk) cannot become smaller.

Examples:
  ashlar array shrink vd tank/data 20GiB --force";

/// The help text after the options of growth.
const GROW: &str = "\
Without --level the drives add room (and of K+M they make K larger). A level adds parity, room or both: raid5 to raid6, 8+2 to 8+3. \
Growth takes no drive, no parity and no room away, and needs the policy journal. It goes on after a restart, also on another machine; \
the new room is there when it ends; `ashlar array progress` shows how far it is.

Examples:
  ashlar array grow dg tank /dev/nvme8n1
  ashlar array grow dg tank /dev/nvme{8,9}n1 --level raid6";

/// The help text after the options of a virtual drive that grows.
const GROW_VD: &str = "\
It stays where it is, so there has to be room behind it: `ashlar array describe dg` shows where the virtual drives of a group begin. A thin one grows to four times the \
size that it was made with, and at least to 256 GiB, wherever it is.

Examples:
  ashlar array grow vd tank/data 20GiB
  ashlar array grow vd tank/data";

/// A growth.
#[derive(Args, Debug)]
pub struct GrowOptions {
    /// The group
    pub group: String,
    /// The drives: block devices, files or nvme-tcp:// addresses, or hot spares of the group; {1...8} works
    #[arg(required = true, value_name = "DRIVE")]
    pub drives: Vec<String>,
    /// The new level: raid0, raid1, raid10, raid5, raid6, raid50, raid60, or K+M [default: that which it has]
    #[arg(long)]
    pub level: Option<String>,
    /// Overwrite drives that have the signature of a file system, a partition table or another array; never one in use
    #[arg(long)]
    pub force: bool,
    /// Permit several namespaces of one NVMe subsystem, or partitions of one disk, in one set: they are lost together
    #[arg(long)]
    pub allow_shared_drive: bool,
}

/// What is imported.
#[derive(Subcommand, Debug)]
pub enum Import {
    /// Put drive groups in service, for instance from another machine
    #[command(visible_alias = "drive_group")]
    Dg {
        /// Their drives, or folders with drives; {1...8} works
        #[arg(required = true, value_name = "DRIVE|DIR")]
        drives: Vec<String>,
        /// Although drives are missing: they count as failed from then on
        #[arg(long)]
        without_missing: bool,
    },
}

/// What is started.
#[derive(Subcommand, Debug)]
pub enum Start {
    /// Compare every block with its checksum, and every row with its parity
    #[command(name = "consistency_check", visible_alias = "cc")]
    ConsistencyCheck {
        /// The group
        group: String,
        /// What is done about what is found
        #[arg(long, default_value = "auto_fix")]
        mode: CheckMode,
        /// Wait until it has ended; the exit code is 1 if something was wrong
        #[arg(long)]
        wait: bool,
    },
}

/// What a check does about what it finds.
#[derive(Clone, Copy, Debug, ValueEnum)]
#[value(rename_all = "snake_case")]
pub enum CheckMode {
    /// Wrong blocks are reconstructed and written again.
    AutoFix,
    /// The check ends at the first row that is wrong, and changes nothing.
    StopOnError,
}

/// What is stopped.
#[derive(Subcommand, Debug)]
pub enum Stop {
    /// Stop a consistency check
    #[command(name = "consistency_check", visible_alias = "cc")]
    ConsistencyCheck {
        /// The group
        group: String,
    },
    /// Take a drive group out of service; `import dg` puts it back, here or on another machine
    #[command(visible_alias = "drive_group")]
    Dg {
        /// The group
        group: String,
    },
}

/// Whose progress is shown.
#[derive(Args, Debug)]
pub struct ProgressOptions {
    /// The groups [default: all]
    pub groups: Vec<String>,
    /// Wait until nothing is left to do
    #[arg(long)]
    pub watch: bool,
}
