//! The enclosures that exist: what a set-up has that says no more than their name.
//!
//! Sources: the published white paper and report that `ashlar bench plan` has as profiles `data24-supremeraid` and `data60-minio`
//! (docs/bench-plan.md); what is neither published nor fitted to a published figure is marked as assumed.
//!
//! Must not depend on: a set-up.

/// An enclosure at 1:1.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Design {
    pub(crate) word: &'static str,
    pub(crate) title: &'static str,
    pub(crate) bays: usize,
    pub(crate) modules: usize,
    pub(crate) ports_per_module: usize,
    pub(crate) namespaces: u32,
    /// Bytes of a drive.
    pub(crate) capacity: f64,
    /// Bytes per second and direction, and commands per second, of a port.
    pub(crate) port_rate: f64,
    pub(crate) port_iops: f64,
    pub(crate) drive: Drive,
}

/// A drive at 1:1.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Drive {
    /// Bytes per second, commands per second, and microseconds at depth 1.
    Flash { read: f64, write: f64, read_iops: f64, write_iops: f64, read_us: f64, write_us: f64 },
    /// Bytes per second, turns per minute, milliseconds.
    Disk { rate: f64, rpm: f64, seek_ms: f64, track_ms: f64 },
}

/// OpenFlex Data24: 24 dual-port NVMe drives of 3.2 TB in two namespaces each; two modules of three ports.
const DATA24: Design = Design {
    word: "data24",
    title: "OpenFlex Data24",
    bays: 24,
    modules: 2,
    ports_per_module: 3,
    namespaces: 2,
    capacity: 3.2e12,
    // 100 Gbit/s, of which RoCE with 2048 bytes of payload and 82 bytes of overhead leaves 0.9615 (formula M1).
    port_rate: 12.5e9 * 2048.0 / 2130.0,
    port_iops: 2.5e6,
    drive: Drive::Flash {
        // 1.214 us and 3.834 us per 4 KiB, fitted to the published baselines of random reads, writes and their mix.
        read_iops: 1e6 / 1.214,
        write_iops: 1e6 / 3.834,
        // What these reads of 4 KiB need; sequential reads are bound by the ports (72.1 GB/s), not by it (81 GB/s).
        read: 4096.0 * 1e6 / 1.214,
        // The published share of a drive.
        write: 1.65e9,
        // Assumed: flash of three bits per cell with a protected write cache.
        read_us: 85.0,
        write_us: 15.0,
    },
};

/// Ultrastar Data60: 60 disks; two modules of three ports, one pair of ports for each zone of 20 disks.
const DATA60: Design = Design {
    word: "data60",
    title: "Ultrastar Data60",
    bays: 60,
    modules: 2,
    ports_per_module: 3,
    namespaces: 1,
    // Assumed: the report does not say.
    capacity: 8e12,
    // Four SAS lanes of 1.2 GB/s (formula M8).
    port_rate: 4.8e9,
    // Assumed: disks never need it.
    port_iops: 1e6,
    // 250 MB/s as the planner assumes for the outer tracks; here for all. The rest is assumed: a common 7200 rpm disk.
    drive: Drive::Disk { rate: 250e6, rpm: 7200.0, seek_ms: 8.5, track_ms: 1.0 },
};

/// All.
pub(crate) const DESIGNS: [Design; 2] = [DATA24, DATA60];

/// The set-ups that ship with the program: name and text.
pub const SETUPS: [(&str, &str); 4] = [
    ("data24-minio", include_str!("../setups/data24-minio.toml")),
    ("data24-supremeraid", include_str!("../setups/data24-supremeraid.toml")),
    ("data60-minio-1", include_str!("../setups/data60-minio-1.toml")),
    ("data60-minio-2", include_str!("../setups/data60-minio-2.toml")),
];
